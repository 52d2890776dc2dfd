//! `hearth evaluate`.

use std::path::PathBuf;
use std::sync::Arc;

use hearth_data::{DataLoader, LoaderOptions};
use hearth_train::CaseRow;
use serde_json::{Map, Value, json};

use crate::error::{Context, Outcome};
use crate::out;
use crate::recipe::metric::MEAN_DICE;
use crate::run::{Cases, Trained, TtaWord, evaluator, folders};
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
    /// Test-time augmentation, in place of the recipe's
    #[arg(long, value_name = "HOW")]
    pub tta: Option<TtaWord>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What came out.
pub struct Evaluated {
    /// What was measured, the key metric first.
    pub metrics: Vec<Measured>,
    /// Which checkpoint.
    pub checkpoint: String,
    /// Test-time augmentation in words, where there is any.
    pub augmentation: Option<String>,
}

/// One metric.
pub struct Measured {
    /// What the recipe calls it.
    pub name: String,
    /// What it is, MONAI's name.
    pub kind: &'static str,
    /// Whether a larger value is better, where that can be said.
    pub higher_is_better: Option<bool>,
    /// Over all cases.
    pub value: f64,
    /// Names of the classes that count, where it has a value for each.
    pub classes: Vec<String>,
    /// The values of each case.
    pub rows: Vec<CaseRow>,
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
    let trained = Trained::open(&folder, &args.checkpoint, &args.device, args.tta)?;
    let Trained { plan, network, checkpoint, inferer, augmentation } = trained;
    let recipe = &plan.recipe;
    let items = if args.all { Cases::all(&args.data, recipe)? } else { Cases::open(&args.data, recipe)?.validation };
    let dataset = hearth_data::TransformDataset::new(items, plan.validation.clone(), recipe.training.seed, 0)?;
    let loader = DataLoader::new(Arc::new(dataset), LoaderOptions { batch_size: 1, ..LoaderOptions::default() })?;
    let mut evaluator = evaluator(&plan, loader, inferer)?;
    let values = evaluator.run(&network, 1).while_doing(|| format!("evaluating checkpoint {checkpoint}"))?;
    let metrics = recipe.metric.list().into_iter().map(|(name, config)| {
        let rows = evaluator.rows_of(&name).unwrap_or_default().to_vec();
        let counted = recipe.labels.iter().skip(usize::from(!config.includes_background()));
        let classes: Vec<String> = counted.cloned().collect();
        let each = rows.iter().all(|row| row.values.len() == classes.len());
        Measured {
            kind: config.build().name(),
            higher_is_better: config.higher_is_better(),
            value: values.get(&name).copied().unwrap_or(f64::NAN),
            classes: if each { classes } else { Vec::new() },
            rows,
            name,
        }
    });
    let augmentation = augmentation.map(|_| recipe.tta.words());
    Ok(Evaluated { metrics: metrics.collect(), checkpoint, augmentation })
}

impl Measured {
    /// The mean of one class over the cases that have it.
    fn class_mean(&self, class: usize) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.values.get(class)).map(|value| f64::from(*value)))
    }

    fn per_class(&self, value: impl Fn(usize) -> f64) -> Map<String, Value> {
        self.classes.iter().enumerate().map(|(class, name)| (name.clone(), number(value(class)))).collect()
    }

    fn to_json(&self) -> Value {
        let better = self.higher_is_better.map(|higher| if higher { "higher" } else { "lower" });
        let per_class = self.per_class(|class| self.class_mean(class));
        json!({ "metric": self.kind, "value": number(self.value), "better": better, "per_class": per_class })
    }

    fn row_to_json(&self, row: &CaseRow) -> Value {
        let per_class = self.per_class(|class| row.values.get(class).map_or(f64::NAN, |value| f64::from(*value)));
        json!({ "value": number(row_mean(row)), "per_class": per_class })
    }

    /// The values of each case, their means below.
    fn print(&self) {
        let width = self.rows.iter().map(|row| row.case.len()).max().unwrap_or(0).max("mean".len());
        let heads: String = self.classes.iter().map(|name| format!("  {name:>10}")).collect();
        out!("{}", bold(&format!("{:width$}{heads}  {:>10}", "case", "mean")));
        for row in self.rows.iter().filter(|row| !row.values.is_empty()) {
            let values: String =
                self.classes.iter().zip(&row.values).map(|(_, value)| cell(f64::from(*value))).collect();
            out!("{:width$}{values}{}", row.case, cell(row_mean(row)));
        }
        let means: String = (0..self.classes.len()).map(|class| cell(self.class_mean(class))).collect();
        out!("{}", bold(&format!("{:width$}{means}{}", "mean", cell(self.value))));
    }
}

impl Evaluated {
    /// What decides which checkpoint is best.
    pub fn key_value(&self) -> f64 {
        self.metrics.first().map_or(f64::NAN, |key| key.value)
    }

    fn to_json(&self) -> Value {
        let metrics: Map<String, Value> = self.metrics.iter().map(|one| (one.name.clone(), one.to_json())).collect();
        let key = self.metrics.first();
        let mut whole = json!({
            "checkpoint": self.checkpoint, "tta": self.augmentation, "key_metric": key.map(|key| &key.name),
            "metrics": metrics,
        });
        let rows = key.map_or(&[][..], |key| &key.rows);
        let mut cases: Vec<Value> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let of = |one: &Measured| Some((one.name.clone(), one.row_to_json(one.rows.get(index)?)));
            let metrics: Map<String, Value> = self.metrics.iter().filter_map(of).collect();
            cases.push(json!({ "case": row.case, "metrics": metrics }));
        }
        // The mean Dice has names of its own: it is what most runs measure.
        if let Some(dice) = self.metrics.iter().find(|one| one.name == MEAN_DICE) {
            whole["mean_dice"] = number(dice.value);
            whole["per_class"] = Value::Object(dice.per_class(|class| dice.class_mean(class)));
            for (case, row) in cases.iter_mut().zip(&dice.rows) {
                let one = dice.row_to_json(row);
                (case["mean_dice"], case["dice"]) = (one["value"].clone(), one["per_class"].clone());
            }
        }
        whole["cases"] = Value::Array(cases);
        whole
    }

    /// Prints a table for people.
    pub fn print(&self) {
        let augmented =
            self.augmentation.as_ref().map_or(String::new(), |words| format!(", seen in several ways: {words}"));
        let absent = "- is a class that the case does not have";
        if let [dice] = &self.metrics[..]
            && dice.name == MEAN_DICE
        {
            dice.print();
            out!("Dice of checkpoint {}{augmented}; {absent}", self.checkpoint);
            return;
        }
        for (index, one) in self.metrics.iter().enumerate() {
            let better =
                one.higher_is_better.map_or("", |higher| if higher { ", more is better" } else { ", less is better" });
            let key = if index == 0 { ", the key metric" } else { "" };
            out!("{}", bold(&format!("{}: {}{key}{better}", one.name, one.kind)));
            one.print();
            out!("");
        }
        out!("checkpoint {}{augmented}; {absent}", self.checkpoint);
    }
}

/// A number in JSON: what is not a number is `null`, infinite ones are texts.
fn number(value: f64) -> Value {
    if value.is_infinite() { json!(value.to_string()) } else { json!(value) }
}

fn row_mean(row: &CaseRow) -> f64 {
    mean(row.values.iter().map(|value| f64::from(*value)))
}

fn cell(value: f64) -> String {
    if value.is_nan() { format!("  {:>10}", "-") } else { format!("  {value:>10.4}") }
}

/// The mean of the values that are numbers.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|value| !value.is_nan()).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}
