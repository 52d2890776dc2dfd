//! `hearth demo pathology`: from generated slides to tumour maps and their FROC.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::commands::demo::Args;
use crate::commands::metrics::froc;
use crate::commands::{data, predict, train};
use crate::error::{Context, Outcome};
use crate::folders;
use crate::interrupt;
use crate::recipe::Recipe;
use crate::run::{Cases, Session};
use crate::terminal::{bold, seconds};
use crate::{note, out};

/// The number of slides, whose side length in pixels follows. Half of them are held out. The curve
/// leaves out its lowest threshold (as MONAI's does), so finding all of N tumours without a false
/// positive gives a score of (N - 1) / N, and with few tumours the score cannot reach 0.8.
const SLIDES: usize = 24;
const SIZE: usize = 2048;

/// The minimum FROC score.
const LEAST: f64 = 0.8;

/// Generates slides, trains, predicts, measures and draws.
///
/// # Errors
/// A step that fails, or a network that has learned less than it should.
pub fn run(args: &Args) -> Outcome {
    let start = Instant::now();
    folders::check_path("--out", &args.out)?;
    interrupt::listen()?;
    let _reserved = folders::Reserved::new(&args.out)?;
    let at = |name: &str| args.out.join(name);
    let (slides, run, maps) = (at("data"), at("run"), at("maps"));
    let plan = crate::terminal::plan(args.document("demo-pathology")?)?;

    out!("{}", bold(&format!("1/4  {SLIDES} slides, half of them with tumours -> {}", slides.display())));
    data::phantom_slides(&slides, SLIDES, Some(SIZE), args.seed)?;

    let epochs = plan.recipe.training.epochs;
    out!("{}", bold(&format!("2/4  training a small ResNet for {epochs} epochs -> {}", run.display())));
    let held = held(&slides, &plan.recipe)?;
    let mut session = Session::new(plan, &slides, &[])?;
    interrupt::running(session.interrupt_flag());
    session.start(&run)?;
    train::finish(&mut session)?;

    out!("{}", bold(&format!("3/4  maps of the {} slides it has not seen -> {}", held.len(), maps.display())));
    let as_usual = predict::Args::new(&run, held, &maps, &args.device, args.tune.as_deref());
    predict::predict(&as_usual, None)?;

    out!("{}", bold("4/4  detections against the annotations"));
    let measuring = froc::Args {
        maps: vec![maps],
        truth: slides,
        out: Some(args.out.clone()),
        box_size: 16,
        ..froc::Args::default()
    };
    let score = froc::score(&measuring)?;
    let spent = start.elapsed().as_secs_f64();
    let summary = json!({ "froc": score, "seconds": spent });
    folders::replace(&at("summary.json"), serde_json::to_string_pretty(&summary)? + "\n")?;
    out!("{}", bold(&format!("FROC {score:.3} in {}", seconds(spent))));
    args.check(score >= LEAST, || format!("FROC is {score:.3}, expected at least {LEAST}"))?;
    note!("next: hearth train pathology --data DIR --out runs/pathology");
    Ok(())
}

/// The slides of the validation.
fn held(data: &Path, recipe: &Recipe) -> Outcome<Vec<PathBuf>> {
    let cases = Cases::open(data, recipe).while_doing(|| "the generated slides")?.validation;
    let mut slides: Vec<PathBuf> = cases.iter().filter_map(|case| case.files.get("image").cloned()).collect();
    slides.dedup();
    Ok(slides)
}
