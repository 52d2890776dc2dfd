//! `hearth predict --count`: images generated from random numbers.

use std::path::PathBuf;

use hearth_data::{WriteOptions, write_image};
use hearth_nn::networks::Network;
use serde_json::json;

use crate::commands::predict::Args;
use crate::error::{Context, Failure, Outcome};
use crate::run::outputs::Outputs;
use crate::{interrupt, note, out};
use hearth_models::run::Trained;
use hearth_models::writers::VolumeFormat;

/// The ending of pictures.
const PICTURE: &str = ".png";

/// The ending of the images, flat or volumes.
fn ending(format: Option<VolumeFormat>, flat: bool) -> Outcome<&'static str> {
    let Some(format) = format else { return Ok(if flat { PICTURE } else { ".nii.gz" }) };
    match format.ending() {
        Some(PICTURE) if !flat => Err(Failure::new(
            "--format: png holds one slice, and this run generates volumes: give another, such as nii.gz",
        )),
        Some(ending) => Ok(ending),
        None => {
            Err(Failure::new("--format as-input: images of random numbers have no input; give nii.gz, png or another"))
        }
    }
}

/// Writes `count` images: without `--format` 2-D ones as pictures, where 0 is black and 1 is white, others as
/// volumes.
pub fn generate(args: &Args, trained: &Trained, count: u64) -> Outcome {
    let seed = args.seed.unwrap_or(0);
    let flat = trained.network.spatial_dims() == 2;
    let end = ending(args.files.format, flat)?;
    let is_picture = end == PICTURE;
    let mut outputs = Outputs::new("predict", args.files.overwrite).records_beside(args.files.records_beside);
    let digits = (count - 1).to_string().len().max(4);
    let paths: Vec<PathBuf> =
        (0..count).map(|index| args.out.join(format!("generated_{index:0digits$}{end}"))).collect();
    paths.iter().try_for_each(|path| outputs.claim(path))?;
    interrupt::starts_over();
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    let mut outside = 0;
    for (index, path) in (0..count).zip(&paths) {
        let mut image = trained.generate(seed, index)?;
        let mut options = WriteOptions::default();
        if is_picture {
            outside += usize::from(image.to_vec().iter().any(|value| !(-0.05..=1.05).contains(value)));
            image.data = image.data.clamp(0.0, 1.0);
            options.scale = Some(255.0);
        }
        let facts = json!({
            "seed": seed, "index": index, "checkpoint": trained.checkpoint, "recipe": trained.plan.recipe.title(),
        });
        outputs.make(path, facts, || {
            write_image(path, &image, &options).while_doing(|| format!("cannot write {}", path.display()))
        })?;
        out!("{}", path.display());
    }
    if outside > 0 {
        note!(
            "{outside} of {count} images have values below 0 or above 1, which are black and white in a picture: scale \
             them by [post] prediction, or the training's images to 0 to 1"
        );
    }
    Ok(())
}
