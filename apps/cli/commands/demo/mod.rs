//! `hearth demo`: the whole workflow of an app, from generated data to a picture.

mod apps;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::commands::evaluate::{self, Evaluated};
use crate::demos::{ensemble, gan, pathology};
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::recipe::{Document, Recipe, bundled};
use crate::run::{Cases, Plan, Session};
use crate::terminal::{bold, seconds};
use crate::{note, out};
use hearth_models::cases::Case;
use hearth_models::model::{Asked, Model, Prediction};
use hearth_models::run::{Opening, RunModel, Trained};
use hearth_models::writers::Pictures;

pub use apps::App;
pub(crate) use apps::Demo;

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
    /// The device to train on: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Time to spend on choosing GPU kernels, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// The number of epochs to train, in place of the recipe's. A few show the workflow in a fraction
    /// of the time; the results are then not checked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub epochs: Option<u64>,
}

impl Args {
    /// A bundled recipe with the seed, the device and the epochs of the command line.
    pub(crate) fn document(&self, recipe: &str) -> Outcome<Document> {
        let mut document = bundled::find(recipe)?.document()?;
        document.set_option("--seed", "training.seed", &self.seed.to_string())?;
        document.set_option("--device", "training.device", &self.device)?;
        if let Some(tune) = &self.tune {
            document.set_option("--tune", "training.tune", tune)?;
        }
        if let Some(epochs) = self.epochs {
            let interval = Plan::new(document.clone())?.recipe.training.val_interval;
            for (key, value) in [("training.epochs", epochs), ("training.val_interval", interval.min(epochs))] {
                document.set_option("--epochs", key, &value.to_string())?;
            }
        }
        Ok(document)
    }

    /// Checks what the demo's network has learned, unless `--epochs` asks for another training.
    ///
    /// # Errors
    /// `learned` is false; `what` is what was found and what was expected.
    pub(crate) fn check(&self, learned: bool, what: impl FnOnce() -> String) -> Outcome {
        match (learned, self.epochs) {
            (true, _) => Ok(()),
            (false, Some(_)) => {
                note!("{}; not an error, as --epochs sets another training", what());
                Ok(())
            }
            (false, None) => Err(Failure::new(format!(
                "{}: this build or device computes wrongly, or --seed made data that are hard to learn",
                what()
            ))),
        }
    }
}

/// Generates data, trains, evaluates, predicts and draws.
///
/// # Errors
/// A step that fails, or a network that has learned less than it should.
pub fn run(args: &Args) -> Outcome {
    let Some(demo) = args.app.demo() else {
        return match args.app {
            App::Gan => gan::run(args),
            App::Pathology => pathology::run(args),
            _ => ensemble::run(args),
        };
    };
    let start = Instant::now();
    folders::check_path("--out", &args.out)?;
    interrupt::listen()?;
    let _reserved = folders::Reserved::new(&args.out)?;
    let at = |name: &str| args.out.join(name);
    let (data, run, labels) = (at("data"), at("run"), at("labels"));
    let plan = crate::terminal::plan(args.document(demo.recipe)?)?;

    out!("{}", bold(&format!("1/4  {} -> {}", demo.data, data.display())));
    (demo.make)(&data, args.seed)?;

    let epochs = plan.recipe.training.epochs;
    out!("{}", bold(&format!("2/4  training a small {} for {epochs} epochs -> {}", demo.network, run.display())));
    let mut session = Session::new(plan, &data, &[])?;
    interrupt::running(session.interrupt_flag());
    session.start(&run)?;
    super::train::finish(&mut session)?;

    out!("{}", bold("3/4  the best checkpoint on the volumes it has not seen"));
    let found = evaluate::evaluate(&evaluate::Args::new(&run, &data, &args.device, args.tune.as_deref()))?;
    found.print();

    out!("{}", bold(&format!("4/4  a prediction on the scanner's own grid -> {}", labels.display())));
    let picture = at("overlay.png");
    draw(args, &run, &data, &labels, &picture)?;
    let reached = found.class_value(demo.class).unwrap_or(f64::NAN);
    summarize(&at("summary.json"), &found, start.elapsed().as_secs_f64())?;
    out!("picture  {}", picture.display());
    out!("summary  {}", at("summary.json").display());
    let took = seconds(start.elapsed().as_secs_f64());
    out!("{}", bold(&format!("mean Dice {:.3} in {took}", found.key_value())));
    let Demo { class, least, .. } = demo;
    args.check(reached >= least, || format!("Dice of {class} is {reached:.3}, expected at least {least}"))?;
    note!("next: {}", demo.next);
    Ok(())
}

/// Predicts the first validation case, writes it and draws it next to its label.
fn draw(args: &Args, run: &Path, data: &Path, labels: &Path, picture: &Path) -> Outcome {
    let opening = Opening { tune: args.tune.as_deref(), ..Opening::new("best", &args.device) };
    let model = RunModel::new(Trained::open_with(&folders::open_run(run)?, opening)?);
    let recipe = &model.trained().plan.recipe;
    let case = Case::Item(Box::new(first_validation_case(data, recipe)?));
    std::fs::create_dir_all(labels).while_doing(|| format!("cannot make the folder {}", labels.display()))?;
    let mut name = case.stem();
    name.push("_seg.nii.gz");
    let target = labels.join(name);
    let prediction = model.predict(model.preparer().prepare(&case, None)?, Asked::default())?;
    if let Prediction::Map(map) = &prediction {
        map.write(&target).while_doing(|| format!("cannot write {}", target.display()))?;
    }
    let drawn = Pictures::new(&model, &[data.to_owned()])?.png(&case, &prediction)?;
    folders::replace(picture, drawn)?;
    Ok(())
}

fn first_validation_case(data: &Path, recipe: &Recipe) -> Outcome<hearth_data::Item> {
    let cases = Cases::open(data, recipe)?.validation;
    cases.into_iter().next().ok_or_else(|| Failure::new("the data set has no validation case"))
}

fn summarize(path: &Path, found: &Evaluated, total: f64) -> Outcome {
    let mut summary = json!({ "mean_dice": found.key_value(), "checkpoint": found.checkpoint, "seconds": total });
    summary["dice"] = found.class_values().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let text = serde_json::to_string_pretty(&summary)? + "\n";
    Ok(folders::replace(path, text)?)
}
