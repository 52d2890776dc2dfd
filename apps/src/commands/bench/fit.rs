//! Training to a target Dice on a Decathlon folder; everything cached, the last cases validate.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hearth_data::DecathlonDataset;
use hearth_engine::Event;
use serde_json::json;

use super::{Args, file_name, say};
use crate::error::Outcome;
use crate::note;
use crate::recipe::bundled;
use crate::run::{Plan, Start, trainer};

/// What the validations gave.
#[derive(Default)]
struct Found {
    best: f64,
    hit: Option<f64>,
}

/// The hippocampus recipe, with the data set's own number of classes.
pub fn run(args: &Args) -> Outcome {
    let folder = args.file(0, "a Decathlon folder: hearth bench fit Task04_Hippocampus")?;
    let mut document = bundled::find("hippocampus")?.document()?;
    let labels = DecathlonDataset::open(folder)?.labels;
    let classes = labels.keys().max().map_or(2, |highest| *highest as usize + 1);
    let names: Vec<String> =
        (0..classes as u32).map(|class| labels.get(&class).cloned().unwrap_or_else(|| class.to_string())).collect();
    let amp = if args.amp.word() == "none" { "fp32" } else { args.amp.word() };
    let patch = args.patch.unwrap_or(32);
    let patch = format!("[{patch}, {patch}, {patch}]");
    for (option, key, value) in [
        ("labels", "labels", serde_json::to_string(&names)?),
        ("labels", "network.out_channels", classes.to_string()),
        ("--patch", "transforms.SpatialPad.spatial_size", patch.clone()),
        ("--patch", "transforms.RandCropByPosNegLabel.spatial_size", patch.clone()),
        ("--patch", "inferer.roi_size", patch),
        ("--val", "data.validation", format!("{{ last = {} }}", args.val)),
        ("--epochs", "training.epochs", args.epochs.to_string()),
        ("--seed", "training.seed", args.seed.to_string()),
        ("--device", "training.device", args.device.clone()),
        ("--amp", "training.precision", amp.to_owned()),
    ] {
        document.set_option(option, key, &value)?;
    }
    let plan = Plan::new(document)?;
    let start = Instant::now();
    let mut trainer = trainer(&plan, folder, Start::Init)?;
    let found = Arc::new(Mutex::new(Found::default()));
    let (shared, target) = (found.clone(), args.target);
    trainer.engine_mut().on(Event::EpochCompleted.every(args.every), move |cx| {
        let dice = cx.host.run("validation")?.get("mean_dice").copied().unwrap_or(f64::NAN);
        let seconds = start.elapsed().as_secs_f64();
        note!("{}", json!({ "epoch": cx.state.epoch, "dice": dice, "seconds": seconds }));
        let mut found = shared.lock().unwrap_or_else(PoisonError::into_inner);
        found.best = found.best.max(dice);
        if dice >= target {
            found.hit = Some(seconds);
            cx.host.terminate("the target is reached");
        }
        Ok(())
    })?;
    trainer.run()?;
    let total = start.elapsed().as_secs_f64();
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    say(
        args,
        json!({
            "bench": "fit", "data": file_name(folder), "target": args.target, "seconds": found.hit,
            "epochs": trainer.engine().state().epoch, "best": found.best, "total": total, "device": args.device,
        }),
    )
}
