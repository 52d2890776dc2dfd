//! `hearth demo`: the whole workflow, from generated volumes to a picture.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_data::{NiftiOptions, Pipeline, Sample, Value, write_nifti};
use serde_json::json;

use crate::commands::demo_slides;
use crate::commands::empty::EmptyWord;
use crate::commands::evaluate::{self, Evaluated};
use crate::commands::predicted::window;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::picture::{Subject, save};
use crate::recipe::{Recipe, bundled};
use crate::run::{Cases, Opening, Session, Trained};
use crate::terminal::{bold, seconds};
use crate::{note, out};

/// Arguments of `hearth demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The app
    #[arg(value_enum, value_name = "APP", default_value_t = App::Spleen)]
    pub app: App,
    /// The folder for the data, the run, the labels and the picture; new or empty
    #[arg(long, value_name = "DIR", default_value = "hearth-demo")]
    pub out: PathBuf,
    /// The seed of the volumes and of the training
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where to train: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time for choosing kernels on a card, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
}

/// An app with a demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum App {
    /// A spleen in abdominal CT
    Spleen,
    /// Tumours on whole-slide images
    Pathology,
}

/// How many volumes are generated; the recipe says how many of them validate.
const CASES: usize = 24;

/// Voxels of a volume in plane.
const SIZE: usize = 128;

/// Generates, trains, evaluates, predicts, draws.
pub fn run(args: &Args) -> Outcome {
    if args.app == App::Pathology {
        return demo_slides::run(args);
    }
    let start = Instant::now();
    folders::check_path("--out", &args.out)?;
    interrupt::listen()?;
    let _reserved = folders::Reserved::new(&args.out)?;
    let at = |name: &str| args.out.join(name);
    let (data, run, labels) = (at("data"), at("run"), at("labels"));
    let mut document = bundled::find("demo")?.document()?;
    document.set_option("--seed", "training.seed", &args.seed.to_string())?;
    document.set_option("--device", "training.device", &args.device)?;
    if let Some(tune) = &args.tune {
        document.set_option("--tune", "training.tune", tune)?;
    }
    let plan = crate::terminal::plan(document)?;

    out!("{}", bold(&format!("1/4  {CASES} CT volumes with a spleen -> {}", data.display())));
    crate::commands::data::phantom_spleen(&data, CASES, Some(SIZE), args.seed)?;

    let epochs = plan.recipe.training.epochs;
    out!("{}", bold(&format!("2/4  training a small UNet for {epochs} epochs -> {}", run.display())));
    let mut session = Session::new(plan, &data, &[])?;
    interrupt::running(session.interrupt_flag());
    session.start(&run)?;
    super::train::finish(&mut session)?;

    out!("{}", bold("3/4  the best checkpoint on the volumes it has not seen"));
    let found = evaluate::evaluate(&evaluate::Args {
        run: run.clone(),
        data: data.clone(),
        checkpoint: "best".into(),
        all: false,
        cases: Vec::new(),
        grid: evaluate::Grid::Network,
        empty: EmptyWord::Penalty,
        accept: Vec::new(),
        device: args.device.clone(),
        tune: args.tune.clone(),
        tta: None,
        json: false,
    })?;
    found.print();

    out!("{}", bold(&format!("4/4  a prediction on the scanner's own grid -> {}", labels.display())));
    let picture = at("overlay.png");
    let dice = draw(args, &run, &data, &labels, &picture)?;
    summarize(&at("summary.json"), &found, dice, start.elapsed().as_secs_f64())?;
    out!("picture  {}", picture.display());
    out!("summary  {}", at("summary.json").display());
    out!("{}", bold(&format!("mean Dice {:.3} in {}", found.key_value(), seconds(start.elapsed().as_secs_f64()))));
    note!("next: hearth train spleen --data Task09_Spleen --out runs/spleen");
    Ok(())
}

/// Predicts the first validation case and draws it; returns its Dice on the scanner's grid.
fn draw(args: &Args, run: &Path, data: &Path, labels: &Path, picture: &Path) -> Outcome<f64> {
    let opening = Opening { tune: args.tune.as_deref(), ..Opening::new("best", &args.device) };
    let trained = Trained::open_with(&folders::open_run(run)?, opening)?;
    let case = first_validation_case(data, &trained.plan.recipe)?;
    let file = |key: &str| case.files.get(key).cloned().ok_or_else(|| Failure::new(format!("the case has no {key}")));
    let (image, label) = (file("image")?, file("label")?);
    std::fs::create_dir_all(labels).while_doing(|| format!("cannot make the folder {}", labels.display()))?;
    let target = labels.join(image.file_name().unwrap_or_default());
    let scanned = Sample::new("demo").with("image", Value::Path(image.clone()));
    let predicted = trained.segment(scanned, false)?.image;
    write_nifti(&target, &predicted, NiftiOptions::label())
        .while_doing(|| format!("cannot write {}", target.display()))?;

    // As the files have them: the picture finds out how they are to be turned.
    let sample = [("image", &image), ("label", &label)]
        .into_iter()
        .fold(Sample::new("overlay"), |sample, (key, path)| sample.with(key, Value::Path(path.clone())));
    let sample = Pipeline::from_toml(READ)?.run_deterministic(sample)?.pop();
    let sample = sample.ok_or_else(|| Failure::new("nothing to draw"))?;
    let (shown, label) = (sample.image("image")?, sample.image("label")?);
    let pairs = label.to_vec().into_iter().zip(predicted.to_vec());
    let (both, either) = pairs.fold((0u64, 0u64), |(both, either), (a, b)| {
        (both + u64::from(a > 0.0 && b > 0.0), either + u64::from(a > 0.0) + u64::from(b > 0.0))
    });
    let dice = if either == 0 { f64::NAN } else { 2.0 * both as f64 / either as f64 };
    let recipe = &trained.plan.recipe;
    let title = format!("{}   Dice {dice:.3}", case.case);
    let subject = Subject { title: &title, image: shown, window: window(recipe) };
    save(&crate::picture::labels(&subject, &recipe.labels, &predicted, Some(label)), picture)?;
    Ok(dice)
}

/// Loads image and label.
const READ: &str = r#"
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
]
"#;

fn first_validation_case(data: &Path, recipe: &Recipe) -> Outcome<hearth_data::Item> {
    let cases = Cases::open(data, recipe)?.validation;
    cases.into_iter().next().ok_or_else(|| Failure::new("the data set has no validation case"))
}

fn summarize(path: &Path, found: &Evaluated, dice: f64, total: f64) -> Outcome {
    let summary = json!({
        "mean_dice": found.key_value(),
        "checkpoint": found.checkpoint,
        "shown_case_dice_on_its_own_grid": dice,
        "seconds": total,
    });
    let text = serde_json::to_string_pretty(&summary)? + "\n";
    Ok(folders::replace(path, text)?)
}
