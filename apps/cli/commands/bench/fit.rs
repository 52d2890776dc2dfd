//! Trains to a target Dice on a Decathlon folder; all cases are cached, and the last ones validate.

use hearth_data::DecathlonDataset;
use serde_json::json;

use super::reach::reach;
use super::{Args, file_name, say};
use crate::error::Outcome;
use crate::recipe::bundled;

/// Trains with the hippocampus recipe, and the data set's own number of classes.
pub fn run(args: &Args) -> Outcome {
    let folder = args.file(0, "a Decathlon folder: hearth bench fit Task04_Hippocampus")?;
    let mut document = bundled::find("hippocampus")?.document()?;
    let labels = DecathlonDataset::open(folder)?.labels;
    let classes = labels.keys().max().map_or(2, |highest| *highest as usize + 1);
    let names: Vec<String> =
        (0..classes as u32).map(|class| labels.get(&class).cloned().unwrap_or_else(|| class.to_string())).collect();
    let amp = if args.amp().word() == "none" { "fp32" } else { args.amp().word() };
    let patch = args.patch.unwrap_or(32);
    let patch = format!("[{patch}, {patch}, {patch}]");
    for (option, key, value) in [
        ("labels", "labels", serde_json::to_string(&names)?),
        ("labels", "network.out_channels", classes.to_string()),
        ("--patch", "transforms.SpatialPad.spatial_size", patch.clone()),
        ("--patch", "transforms.RandCropByPosNegLabel.spatial_size", patch.clone()),
        ("--patch", "inferer.roi_size", patch),
        ("--val", "data.validation", format!("{{ last = {} }}", args.val.unwrap_or(4))),
        ("--epochs", "training.epochs", args.epochs().to_string()),
        ("--seed", "training.seed", args.seed().to_string()),
        ("--device", "training.device", args.device_name().to_owned()),
        ("--tune", "training.tune", args.tune().to_owned()),
        ("--convolutions", "training.convolutions", args.convolutions().to_owned()),
        ("--amp", "training.precision", amp.to_owned()),
    ] {
        document.set_option(option, key, &value)?;
    }
    let goal = args.goal();
    let reached = reach(document, folder, &goal)?;
    say(
        args,
        json!({
            "bench": "fit", "data": file_name(folder), "target": goal.target, "seconds": reached.hit,
            "epochs": reached.epochs, "best": reached.best, "total": reached.total, "device": args.device_name(),
        }),
    )
}
