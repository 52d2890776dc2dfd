//! `hearth demo ensemble`: a cross-validation on noisy spheres, with merged networks.

use std::path::Path;
use std::time::Instant;

use hearth_data::phantom;
use serde_json::json;

use crate::commands::data::spheres_options;
use crate::commands::demo;
use crate::commands::evaluate;
use crate::commands::merging::{DisagreementWord, MergeArgs, runs};
use crate::commands::opening::OpeningArgs;
use crate::commands::output_args::FileArgs;
use crate::commands::{ensemble, folds, train};
use crate::error::{Context, Outcome};
use crate::folders::{self, Reserved};
use crate::ranks::RanksArgs;
use crate::table::{Lean, lines};
use crate::terminal::{bold, seconds};
use crate::{note, out};

/// The number of volumes for the folds, and of those that no network is trained or validated on.
const CASES: [usize; 2] = [20, 8];

/// Voxels along each axis.
const SIZE: usize = 48;

/// The noise level. Spheres have values from 0.5 to 1, so this hides many of their edges.
const NOISE: f64 = 0.9;

/// The minimum Dice of the merged networks.
const LEAST: f64 = 0.85;

/// Generates data, trains five folds, merges, predicts and draws.
///
/// # Errors
/// A step that fails, or an ensemble that has learned less than it should or is worse than the mean of
/// its members.
pub fn run(args: &demo::Args) -> Outcome {
    let start = Instant::now();
    folders::check_path("--out", &args.out)?;
    let _reserved = Reserved::new(&args.out)?;
    let at = |name: &str| args.out.join(name);
    let (data, out) = (at("data"), at("run"));
    let test = data.join("test");
    let document = args.document("demo-ensemble")?;

    let [cases, unseen] = CASES;
    out!("{}", bold(&format!("1/4  {cases} volumes of noisy spheres, and {unseen} to test -> {}", data.display())));
    phantom::spheres(&data, cases, unseen, &spheres_options(SIZE, NOISE, args.seed)?)
        .while_doing(|| format!("cannot make the volumes in {}", data.display()))?;

    out!("{}", bold(&format!("2/4  a small UNet for each of five folds -> {}", out.display())));
    folds::run(&training(args, &data, &out), document, None)?;

    out!("{}", bold(&format!("3/4  one by one and merged, on the {unseen} volumes that none has seen")));
    let members = runs(std::slice::from_ref(&out))?;
    let measured = |run: &Path, merge: MergeArgs| evaluated(args, run, &test, merge);
    let each = members.iter().map(|run| measured(run, MergeArgs::default())).collect::<Outcome<Vec<f64>>>()?;
    let weighted = MergeArgs { weights: Some("dice".to_owned()), ..MergeArgs::default() };
    let ways = [
        ("mean of logits", MergeArgs::default()),
        ("the same, weighted by Dice", weighted),
        ("majority vote", MergeArgs { vote: true, ..MergeArgs::default() }),
        ("STAPLE", MergeArgs { staple: true, ..MergeArgs::default() }),
    ];
    let merged = ways.into_iter().map(|(name, merge)| Ok((name, measured(&out, merge)?)));
    let merged = merged.collect::<Outcome<Vec<(&str, f64)>>>()?;
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    let of_member = each.iter().enumerate().map(|(fold, dice)| (format!("fold {fold}"), *dice));
    let of_merged = merged.iter().map(|(name, dice)| ((*name).to_owned(), *dice));
    let rows: Vec<Vec<String>> = of_member
        .chain([("mean of the five".to_owned(), mean)])
        .chain(of_merged)
        .map(|(name, dice)| vec![name, format!("{dice:.4}")])
        .collect();
    lines(&[("prediction", Lean::Left), ("mean Dice", Lean::Right)], &rows).iter().for_each(|line| out!("{line}"));

    let labels = at("labels");
    out!("{}", bold(&format!("4/4  their mean, and where they differ -> {}", labels.display())));
    ensemble::run(&predicting(args, &out, &test, &labels))?;
    let picture = at("overlay.png");
    let first = labels.join(format!("spheres_{cases}_picture.png"));
    std::fs::copy(&first, &picture).while_doing(|| format!("cannot copy {}", first.display()))?;
    let took = start.elapsed().as_secs_f64();
    let dice = merged.first().map_or(f64::NAN, |(_, dice)| *dice);
    let all: serde_json::Map<_, _> = merged.iter().map(|(name, dice)| ((*name).to_owned(), json!(dice))).collect();
    let summary =
        json!({ "members": each, "mean_of_members": mean, "merged": all, "mean_dice": dice, "seconds": took });
    folders::replace(&at("summary.json"), serde_json::to_string_pretty(&summary)? + "\n")?;
    out!("picture  {}", picture.display());
    out!("summary  {}", at("summary.json").display());
    out!("{}", bold(&format!("mean Dice {dice:.3}, members {mean:.3}, in {}", seconds(took))));
    args.check(dice >= LEAST, || format!("Dice of the ensemble is {dice:.3}, expected at least {LEAST}"))?;
    args.check(dice >= mean, || {
        format!("Dice of the ensemble is {dice:.4}, expected at least the mean of its members, {mean:.4}")
    })?;
    note!("next: hearth train RECIPE --data DIR --out RUN --folds 5, then hearth ensemble RUN -i IMAGES -o OUT");
    Ok(())
}

fn training(args: &demo::Args, data: &Path, out: &Path) -> train::Args {
    train::Args {
        recipe: None,
        data: data.to_owned(),
        #[cfg(feature = "download")]
        download: false,
        out: out.to_owned(),
        device: Some(args.device.clone()),
        tune: args.tune.clone(),
        convolutions: None,
        epochs: None,
        seed: None,
        precision: None,
        plugins: Vec::new(),
        isolated: None,
        previous_stage: None,
        init: None,
        init_skip_mismatched: false,
        freeze: Vec::new(),
        sets: Vec::new(),
        folds: None,
        fold: Vec::new(),
        group_by: None,
        stratify_by: None,
        max_restarts: 0,
        resume: false,
        continues: false,
        without: Vec::new(),
        dry_run: false,
        defaults: false,
        ranks: RanksArgs::default(),
    }
}

/// The key metric of a run, or of a folder of folds, on unseen data.
fn evaluated(args: &demo::Args, run: &Path, data: &Path, merge: MergeArgs) -> Outcome<f64> {
    let as_usual = evaluate::Args::new(run, data, &args.device, args.tune.as_deref());
    let found = evaluate::evaluate(&evaluate::Args { merge, ..as_usual })?;
    Ok(found.key_value())
}

fn predicting(args: &demo::Args, run: &Path, images: &Path, out: &Path) -> ensemble::Args {
    ensemble::Args {
        runs: vec![run.to_owned()],
        images: vec![images.to_owned()],
        out: out.to_owned(),
        merge: MergeArgs::default(),
        disagreement: vec![DisagreementWord::Variance],
        opening: OpeningArgs::new(&args.device, args.tune.as_deref()),
        uncertainty: false,
        verify_key: None,
        files: FileArgs { picture: true, ..FileArgs::default() },
        ranks: RanksArgs::default(),
    }
}
