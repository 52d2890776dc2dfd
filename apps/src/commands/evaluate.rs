//! `hearth evaluate`.

use std::path::PathBuf;
use std::sync::Arc;

use hearth_data::{DataLoader, LoaderOptions};
use hearth_train::CaseRow;
use serde_json::{Value, json};

use crate::error::{Context, Outcome};
use crate::out;
use crate::run::{Cases, Trained, evaluator, folders};
use crate::terminal::bold;

/// Arguments of `hearth evaluate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The data set: a folder with a dataset.json, a table (.csv) of images and labels, or a folder of DICOM
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Which checkpoint: best, latest, or the name of a folder in RUN/checkpoints
    #[arg(long, default_value = "best")]
    pub checkpoint: String,
    /// Evaluate every labelled case, not only those that the recipe holds back for validation
    #[arg(long)]
    pub all: bool,
    /// Where to compute: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What came out.
pub struct Evaluated {
    /// The mean over the classes that count.
    pub mean: f64,
    /// Names of the classes that count.
    pub classes: Vec<String>,
    /// The values of each case.
    pub rows: Vec<CaseRow>,
    /// Which checkpoint.
    pub checkpoint: String,
}

/// Evaluates and prints.
pub fn run(args: &Args) -> Outcome {
    let found = evaluate(args)?;
    if args.json {
        out!("{}", serde_json::to_string_pretty(&found.to_json())?);
    } else {
        found.print();
    }
    Ok(())
}

/// Measures a run's network.
pub fn evaluate(args: &Args) -> Outcome<Evaluated> {
    let folder = folders::open_run(&args.run)?;
    let Trained { plan, network, checkpoint } = Trained::open(&folder, &args.checkpoint, &args.device)?;
    let recipe = &plan.recipe;
    let items = if args.all { Cases::all(&args.data, recipe)? } else { Cases::open(&args.data, recipe)?.validation };
    let dataset = hearth_data::TransformDataset::new(items, plan.validation.clone(), recipe.training.seed, 0)?;
    let loader = DataLoader::new(Arc::new(dataset), LoaderOptions { batch_size: 1, ..LoaderOptions::default() })?;
    let mut evaluator = evaluator(&plan, loader)?;
    let metrics = evaluator.run(&network, 1).while_doing(|| format!("evaluating checkpoint {checkpoint}"))?;
    let skipped = usize::from(!recipe.metric.include_background);
    Ok(Evaluated {
        mean: metrics.get("mean_dice").copied().unwrap_or(f64::NAN),
        classes: recipe.labels.iter().skip(skipped).cloned().collect(),
        rows: evaluator.rows().to_vec(),
        checkpoint,
    })
}

impl Evaluated {
    /// The mean of one class over the cases that have it.
    fn class_mean(&self, class: usize) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.values.get(class)).map(|value| f64::from(*value)))
    }

    fn to_json(&self) -> Value {
        let per_class: serde_json::Map<String, Value> = self
            .classes
            .iter()
            .enumerate()
            .map(|(class, name)| (name.clone(), json!(self.class_mean(class))))
            .collect();
        let cases: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let dice: serde_json::Map<String, Value> =
                    self.classes.iter().cloned().zip(row.values.iter().map(|value| json!(value))).collect();
                json!({ "case": row.case, "mean_dice": mean(row.values.iter().map(|v| f64::from(*v))), "dice": dice })
            })
            .collect();
        json!({ "checkpoint": self.checkpoint, "mean_dice": self.mean, "per_class": per_class, "cases": cases })
    }

    /// Prints a table for people.
    pub fn print(&self) {
        let width = self.rows.iter().map(|row| row.case.len()).max().unwrap_or(0).max("mean".len());
        let heads: String = self.classes.iter().map(|name| format!("  {name:>10}")).collect();
        out!("{}", bold(&format!("{:width$}{heads}  {:>10}", "case", "mean")));
        for row in &self.rows {
            let values: String = row.values.iter().map(|value| cell(f64::from(*value))).collect();
            out!("{:width$}{values}{}", row.case, cell(mean(row.values.iter().map(|v| f64::from(*v)))));
        }
        let means: String = (0..self.classes.len()).map(|class| cell(self.class_mean(class))).collect();
        out!("{}", bold(&format!("{:width$}{means}{}", "mean", cell(self.mean))));
        out!("Dice of checkpoint {}; - is a class that the case does not have", self.checkpoint);
    }
}

fn cell(value: f64) -> String {
    if value.is_nan() { format!("  {:>10}", "-") } else { format!("  {value:>10.4}") }
}

/// The mean of the values that are numbers.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|value| !value.is_nan()).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}
