//! `hearth predict` with a MONAI bundle: its inference config, with these images and results.

use std::path::Path;

use hearth_recipe::bundle::{Bundle, RunOptions};
use hearth_train::Ranks;

use crate::commands::bundle::flags::absolute;
use crate::commands::bundle::open::open;
use crate::commands::bundle::run::run_opened;
use crate::commands::predict::Args;
use crate::error::{Failure, Outcome};
use crate::interrupt;
use crate::run::inputs::images_of;

/// Whether the argument of `hearth predict` is a bundle: a folder, or a zip, which nothing else is.
pub fn is_one(path: &Path) -> bool {
    let zip = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("zip"));
    Bundle::is_one(path) || (zip && path.is_file())
}

/// Runs the inference config. Files are called, and lie in folders, as the config says.
pub fn run(args: &Args, ranks: Option<&Ranks>) -> Outcome {
    check(args)?;
    if ranks.is_some_and(|ranks| ranks.world() > 1) {
        return Err(Failure::new("a MONAI bundle is run by one rank: remove --ranks, or the launcher"));
    }
    interrupt::begins_anew();
    let opened = open(&args.run)?;
    let mut images = Vec::new();
    for given in &args.images {
        images.extend(images_of(given)?.iter().map(|image| absolute(&image.to_string_lossy())));
    }
    let overrides = match args.opening.device.as_str() {
        "auto" => Vec::new(),
        device => vec![("device".to_owned(), device.to_owned())],
    };
    let (results, overwrite) = (Some(args.out.clone()), args.files.overwrite);
    let options = RunOptions { overrides, images, results, overwrite, ..RunOptions::default() };
    run_opened(&opened, &options, args.files.json)
}

/// Fails where an option is given that the config of a bundle decides.
fn check(args: &Args) -> Outcome {
    args.nnunet.check_unused()?;
    let (files, opening) = (&args.files, &args.opening);
    let given = [
        ("--weights", args.model.weights.is_some()),
        ("--verify-key", args.model.verify_key.is_some()),
        ("--count", args.count.is_some()),
        ("--seed", args.seed.is_some()),
        ("--uncertainty", args.uncertainty),
        ("--probabilities", files.probabilities),
        ("--dicom-seg, --dicom-sr, --rtstruct and --surfaces", files.regions.any()),
        ("--series", files.series.is_some()),
        ("--picture", files.picture),
        ("--checkpoint", opening.checkpoint.is_some()),
        ("--tune", opening.tune.is_some()),
        ("--tta", opening.tta.is_some()),
        ("--accept", !opening.accept.is_empty()),
        ("--classes", opening.classes.is_some()),
        ("--previous-stage", opening.previous_stage.is_some()),
        ("--codes", files.regions.codes.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            let how = "`hearth bundle run` sets its items, `hearth bundle convert` makes a recipe of it";
            Err(Failure::new(format!(
                "{name}: what a MONAI bundle loads and writes is decided by its config: leave the option out \
                 ({how})"
            )))
        }
    }
}
