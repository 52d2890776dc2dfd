//! `hearth evaluate`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_data::{DataLoader, Item, LoaderOptions};
use hearth_engine::{Engine, Metrics};
use hearth_nn::losses::one_hot;
use hearth_train::{CaseRow, Post};
use serde_json::{Map, Value, json};

use crate::commands::empty::EmptyWord;
use crate::commands::merging::{self, MergeArgs};
use crate::commands::metrics::PENALISED;
use crate::commands::opening::OpeningArgs;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::recipe::Output;
use crate::recipe::metric::MEAN_DICE;
use crate::run::outputs::Outputs;
use crate::run::{
    Chosen, Empty, PassProgress, Penalties, Plan, Trained, Wanted, evaluator, handlers, measuring, plugins,
};
use crate::table::csv;
use crate::terminal::bold;
use crate::{note, out};

/// Arguments of `hearth evaluate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run. Of several, or of a folder with fold0, fold1, ..., the merged
    /// predictions are measured
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Further runs
    #[arg(value_name = "RUN")]
    pub more: Vec<PathBuf>,
    /// How they are merged.
    #[command(flatten)]
    pub merge: MergeArgs,
    /// The data set: a folder with a dataset.json, a table (.csv) of images and labels, or a folder
    /// of DICOM
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Which network is used, and how.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Evaluate every labelled case. Without it: the cases that the run validated on, and every
    /// labelled case of other data
    #[arg(long)]
    pub all: bool,
    /// Evaluate only these cases, by name
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub cases: Vec<String>,
    /// Where predictions and labels are compared
    #[arg(long, value_enum, default_value_t = Grid::Network)]
    pub grid: Grid,
    /// What counts where the prediction or the label has no voxel of a class
    #[arg(long, value_enum, value_name = "RULE", default_value_t = EmptyWord::Penalty)]
    pub empty: EmptyWord,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values, one line per case and class
    #[arg(long)]
    pub csv: bool,
    /// Also write DIR/report.json and DIR/report.csv: what --json and --csv print
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace a report that an earlier call wrote and nobody has changed since
    #[arg(long, requires = "out")]
    pub overwrite: bool,
}

impl Args {
    /// The best checkpoint of a run on the cases that fit it, as the command line has it without
    /// options.
    pub fn new(run: &Path, data: &Path, device: &str, tune: Option<&str>) -> Self {
        Self {
            run: run.to_owned(),
            more: Vec::new(),
            merge: MergeArgs::default(),
            data: data.to_owned(),
            opening: OpeningArgs::new(device, tune),
            all: false,
            cases: Vec::new(),
            grid: Grid::Network,
            empty: EmptyWord::Penalty,
            json: false,
            csv: false,
            out: None,
            overwrite: false,
        }
    }
}

/// Where predictions and labels are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Grid {
    /// On the network's grid, as validation in training does
    Network,
    /// On the images' own grids, as `predict` writes them
    Original,
}

/// The results.
pub struct Evaluated {
    /// What was measured, the key metric first.
    pub metrics: Vec<Measured>,
    /// Which checkpoint.
    pub checkpoint: String,
    /// A description of the test-time augmentation, if any.
    pub augmentation: Option<String>,
    /// The cases, and why these.
    pub cases: String,
    /// The grid of the comparison.
    pub grid: Grid,
    /// What a distance to nothing counts.
    pub empty: Empty,
}

/// One metric.
pub struct Measured {
    /// Its name in the recipe.
    pub name: String,
    /// MONAI's name for it.
    pub kind: &'static str,
    /// Whether a higher value is better, where that is known.
    pub higher_is_better: Option<bool>,
    /// The value over all cases.
    pub value: f64,
    /// Names of the classes that count, where it has a value for each.
    pub classes: Vec<String>,
    /// The values of each case.
    pub rows: Vec<CaseRow>,
    /// Cases of each class that count the diagonal of the image in place of a distance to nothing.
    pub penalised: Vec<usize>,
}

/// A metric over all cases.
struct Found {
    pub value: f64,
    pub rows: Vec<CaseRow>,
    pub penalties: Penalties,
}

/// Evaluates and prints.
pub fn run(args: &Args) -> Outcome {
    // Claimed before the work: what is in the way is said now.
    let report = args.out.as_deref().map(|dir| Report::claim(dir, args.overwrite)).transpose()?;
    let found = evaluate(args)?;
    if let Some(report) = report {
        report.write(&found, args)?;
    }
    if args.json {
        out!("{}", serde_json::to_string_pretty(&found.to_json())?);
    } else if args.csv {
        found.to_csv().iter().for_each(|line| out!("{line}"));
    } else {
        found.print();
    }
    Ok(())
}

/// The files of `--out`.
struct Report {
    outputs: Outputs,
    json: PathBuf,
    csv: PathBuf,
}

impl Report {
    fn claim(dir: &Path, overwrite: bool) -> Outcome<Self> {
        let mut outputs = Outputs::new("evaluate", overwrite);
        let [json, csv] = ["report.json", "report.csv"].map(|name| dir.join(name));
        outputs.claim(&json)?;
        outputs.claim(&csv)?;
        std::fs::create_dir_all(dir).while_doing(|| format!("cannot make the folder {}", dir.display()))?;
        Ok(Self { outputs, json, csv })
    }

    fn write(&self, found: &Evaluated, args: &Args) -> Outcome {
        let mut all = found.to_json();
        let runs: Vec<String> = std::iter::once(&args.run).chain(&args.more).map(|r| r.display().to_string()).collect();
        all["hearth"] = json!(env!("CARGO_PKG_VERSION"));
        all["runs"] = json!(runs);
        all["data"] = json!(args.data.display().to_string());
        self.outputs.write(&self.json, serde_json::to_string_pretty(&all)? + "\n")?;
        self.outputs.write(&self.csv, found.to_csv().join("\n") + "\n")?;
        note!("report  {}, {}", self.json.display(), self.csv.display());
        Ok(())
    }
}

/// Measures a run's network.
pub fn evaluate(args: &Args) -> Outcome<Evaluated> {
    let given: Vec<PathBuf> = std::iter::once(&args.run).chain(&args.more).cloned().collect();
    let runs = merging::runs(&given)?;
    let several = runs.len() > 1 || runs[0] != args.run;
    if args.merge.given() && !several {
        return Err(Failure::new("--mean, --vote, --staple and --weights merge runs: give several"));
    }
    let folders = runs.iter().map(|run| folders::open_run(run)).collect::<Result<Vec<_>, _>>()?;
    let opening = args.opening.opening();
    let trained = match several {
        true => merging::open(&runs, &opening, &args.merge, &[])?,
        false => Trained::open_with(&folders[0], opening)?,
    };
    if trained.plan.recipe.learns().generates() {
        let what = "this run generates images, and there is no label to compare them with";
        return Err(Failure::new(format!(
            "{what}: look at some, hearth predict {} --count 16 -o DIR",
            args.run.display()
        )));
    }
    let chosen = Chosen::of_runs(&folders, &trained.plan, &args.data, args.all, &args.cases)?;
    let (cases, recipe) = (chosen.words(), trained.plan.recipe.clone());
    let checkpoint = match several {
        true => format!("{} of {} runs ({})", args.opening.checkpoint, runs.len(), args.merge.words()),
        false => trained.checkpoint.clone(),
    };
    let augmented = trained.augmentation.is_some();
    if args.grid == Grid::Original && !recipe.output().is_map() {
        return Err(Failure::new("--grid original compares label maps on the scanner's grid; this run predicts none"));
    }
    let values = match args.grid {
        Grid::Network => {
            let files = args.run.join(if several { FOLDER_OF_SEVERAL } else { FOLDER });
            on_the_networks_grid(trained, chosen.items, &files, args.empty.rule())?
        }
        Grid::Original => on_original_grids(&trained, &chosen.items, args.empty.rule())?,
    };
    let metrics = recipe.metric.list().into_iter().zip(values).map(|((name, config), found)| {
        let Found { value, rows, penalties } = found;
        let counted = recipe.labels.iter().skip(usize::from(!config.includes_background()));
        let classes: Vec<String> = counted.cloned().collect();
        let each = rows.iter().all(|row| row.values.len() == classes.len());
        Measured {
            kind: (*config).name(),
            higher_is_better: config.higher_is_better(),
            value,
            penalised: (0..classes.len()).map(|class| penalties.of(class)).collect(),
            classes: if each { classes } else { Vec::new() },
            rows,
            name,
        }
    });
    let augmentation = augmented.then(|| recipe.tta.words());
    let (grid, empty) = (args.grid, args.empty.rule());
    Ok(Evaluated { metrics: metrics.collect(), checkpoint, augmentation, cases, grid, empty })
}

/// The folder within the run's for files of handlers that listen to the evaluator.
const FOLDER: &str = "evaluation";

/// The same where several runs are measured as one, within the first folder that was given.
const FOLDER_OF_SEVERAL: &str = "evaluation/ensemble";

/// The value of each metric and its rows, as in validation; handlers with `engine = "validation"`,
/// of several runs those of the first, listen and write into `files`.
fn on_the_networks_grid(trained: Trained, items: Vec<Item>, files: &Path, empty: Empty) -> Outcome<Vec<Found>> {
    let Trained { plan, network, checkpoint, inferer, ensemble, .. } = trained;
    let dataset = hearth_data::TransformDataset::new(items, plan.validation.clone())?;
    let loader = DataLoader::new(Arc::new(dataset), LoaderOptions { batch_size: 1, ..LoaderOptions::default() })?;
    let listen = |engine: &mut Engine| -> Outcome {
        engine.add(PassProgress::new("evaluated", plan.progress))?;
        let plugins = plugins::load_for_evaluation(&plan)?;
        Ok(handlers::attach(&plan, &plugins, files, engine)?)
    };
    let Some(ensemble) = ensemble else {
        let (mut evaluator, penalties) = evaluator(&plan, loader, inferer, empty)?;
        listen(evaluator.engine_mut())?;
        let values = evaluator.run(&network, 1).while_doing(|| format!("evaluating checkpoint {checkpoint}"))?;
        return Ok(found(&plan, evaluator.engine(), &values, penalties, |name| evaluator.rows_of(name)));
    };
    let (mut evaluator, penalties) = ensemble.evaluator(&plan, network, loader, inferer, empty)?;
    listen(evaluator.engine_mut())?;
    let values = evaluator.run(1).while_doing(|| "evaluating the runs as one".to_owned())?;
    Ok(found(&plan, evaluator.engine(), &values, penalties, |name| evaluator.rows_of(name)))
}

/// What an evaluator measured; handlers that failed are named.
fn found<'a>(
    plan: &Plan,
    engine: &Engine,
    values: &Metrics,
    penalties: Vec<Penalties>,
    rows_of: impl Fn(&str) -> Option<&'a [CaseRow]>,
) -> Vec<Found> {
    handlers::failures(engine).iter().for_each(|failure| note!("{failure}"));
    let of = |((name, _), penalties): ((String, _), _)| Found {
        value: values.get(&name).copied().unwrap_or(f64::NAN),
        rows: rows_of(&name).unwrap_or_default().to_vec(),
        penalties,
    };
    plan.recipe.metric.list().into_iter().zip(penalties).map(of).collect()
}

/// The same of what `predict` writes: each prediction on the grid of its image, against the label
/// as its file has it.
fn on_original_grids(trained: &Trained, items: &[Item], empty: Empty) -> Outcome<Vec<Found>> {
    let (recipe, post) = (&trained.plan.recipe, trained.plan.post_label()?);
    let count = recipe.metric.list().len();
    measure_each(trained, items, empty, |item| {
        let case = &item.case;
        let mut image = item.sample();
        image.values.retain(|key, _| key == "image");
        let found = trained.segment(image, Wanted::default())?;
        let mut labels = trained.plan.label.run_deterministic(item.sample())?;
        let mut sample = labels.pop().ok_or_else(|| Failure::new("it has no label"))?;
        let label = sample.take_image("label")?.to_device(&trained.plan.device);
        if label.shape() != found.image.shape() {
            let (label, image) = (label.shape(), found.image.shape());
            return Err(Failure::new(format!("the label has {label:?} voxels, its image {image:?}")));
        }
        let spacing = label.spacing();
        let label = Post::finish(&post, label, case).map_err(|error| Failure::new(error.to_string()))?;
        let label: Tensor<5> = label.data.unsqueeze_dim(0);
        let mut pred: Tensor<5> = found.image.data.unsqueeze_dim(0);
        if found.output == Output::Labels && label.dims()[1] > 1 {
            pred = one_hot(pred, recipe.labels.len());
        }
        Ok(Compared { spacing, pairs: vec![[pred, label]; count] })
    })
}

/// A prediction and its label as each metric sees them.
struct Compared {
    /// Millimetres per voxel.
    pub spacing: [f64; 3],
    /// Prediction and label for each metric of the recipe.
    pub pairs: Vec<[Tensor<5>; 2]>,
}

/// The value of each metric of a recipe and its rows, over cases that `compare` predicts.
fn measure_each(
    trained: &Trained,
    items: &[Item],
    empty: Empty,
    compare: impl Fn(&Item) -> Outcome<Compared>,
) -> Outcome<Vec<Found>> {
    let list = trained.plan.recipe.metric.list();
    let built = list.iter().map(|(_, config)| measuring(config, empty)).collect::<Result<Vec<_>, _>>()?;
    let (mut metrics, penalties): (Vec<_>, Vec<_>) = built.into_iter().unzip();
    let mut rows: Vec<Vec<CaseRow>> = vec![Vec::new(); metrics.len()];
    for (done, item) in items.iter().enumerate() {
        let case = &item.case;
        note!("case {} of {}: {case}", done + 1, items.len());
        let doing = || format!("case {case}");
        let Compared { spacing, pairs } = compare(item).while_doing(doing)?;
        for ((metric, rows), [pred, label]) in metrics.iter_mut().zip(&mut rows).zip(&pairs) {
            let before = metric.rows().len();
            metric.update_spaced(pred, label, &[spacing]).while_doing(doing)?;
            let new: Vec<Vec<f32>> = metric.rows().iter().skip(before).map(|row| metric.values_of(row)).collect();
            rows.extend(new.into_iter().map(|values| CaseRow { case: case.clone(), values }));
        }
    }
    let values =
        metrics.iter().map(|metric| Ok(f64::from(metric.aggregate()?.scalar()))).collect::<Outcome<Vec<f64>>>()?;
    let found = values.into_iter().zip(rows).zip(penalties);
    Ok(found.map(|((value, rows), penalties)| Found { value, rows, penalties }).collect())
}

impl Measured {
    /// The mean of one class over the cases that have it.
    fn class_mean(&self, class: usize) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.values.get(class)).map(|value| f64::from(*value)))
    }

    /// Cases without a value for a class, which its mean excludes.
    fn left_out(&self, class: usize) -> usize {
        self.rows.iter().filter(|row| row.values.get(class).is_some_and(|value| value.is_nan())).count()
    }

    fn per_class(&self, value: impl Fn(usize) -> f64) -> Map<String, Value> {
        self.classes.iter().enumerate().map(|(class, name)| (name.clone(), number(value(class)))).collect()
    }

    fn counts(&self, count: impl Fn(usize) -> usize) -> Map<String, Value> {
        self.classes.iter().enumerate().map(|(class, name)| (name.clone(), json!(count(class)))).collect()
    }

    fn to_json(&self) -> Value {
        let better = self.higher_is_better.map(|higher| if higher { "higher" } else { "lower" });
        let per_class = self.per_class(|class| self.class_mean(class));
        let left_out = self.counts(|class| self.left_out(class));
        let penalised = self.counts(|class| self.penalised[class]);
        json!({
            "metric": self.kind, "value": number(self.value), "better": better, "per_class": per_class,
            "left_out": left_out, "penalised": penalised,
        })
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
        for (class, name) in self.classes.iter().enumerate() {
            let (left, all) = (self.left_out(class), self.rows.len());
            if let penalised @ 1.. = self.penalised[class] {
                out!("{name}: {penalised} of {all} cases {PENALISED}");
            }
            if left > 0 {
                out!("{left} of {all} cases have no value for {name} and are excluded from its mean");
            }
        }
    }
}

impl Evaluated {
    /// What decides which checkpoint is best.
    pub fn key_value(&self) -> f64 {
        self.metrics.first().map_or(f64::NAN, |key| key.value)
    }

    /// The mean of each class by the key metric.
    pub fn class_values(&self) -> Vec<(&str, f64)> {
        let Some(key) = self.metrics.first() else { return Vec::new() };
        key.classes.iter().enumerate().map(|(class, name)| (name.as_str(), key.class_mean(class))).collect()
    }

    /// That of one class, by its name.
    pub fn class_value(&self, class: &str) -> Option<f64> {
        self.class_values().into_iter().find(|(name, _)| *name == class).map(|(_, value)| value)
    }

    /// As one JSON object.
    pub fn to_json(&self) -> Value {
        let metrics: Map<String, Value> = self.metrics.iter().map(|one| (one.name.clone(), one.to_json())).collect();
        let key = self.metrics.first();
        let mut whole = json!({
            "checkpoint": self.checkpoint, "tta": self.augmentation, "measured": self.cases, "grid": self.grid_word(),
            "key_metric": key.map(|key| &key.name), "empty": self.empty_word(),
            "metrics": metrics,
        });
        let rows = key.map_or(&[][..], |key| &key.rows);
        let mut cases: Vec<Value> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let of = |one: &Measured| Some((one.name.clone(), one.row_to_json(one.rows.get(index)?)));
            let metrics: Map<String, Value> = self.metrics.iter().filter_map(of).collect();
            cases.push(json!({ "case": row.case, "metrics": metrics }));
        }
        // The mean Dice has its own keys, because most runs measure it.
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

    /// A line per case and class, a column per metric; a metric without classes has a class `all`.
    fn to_csv(&self) -> Vec<String> {
        let named = ["case", "class"].into_iter().chain(self.metrics.iter().map(|one| one.name.as_str()));
        let mut lines = vec![csv(named)];
        let mut classes: Vec<&str> = Vec::new();
        for one in &self.metrics {
            let own =
                if one.classes.is_empty() { vec!["all"] } else { one.classes.iter().map(String::as_str).collect() };
            classes.extend(own.into_iter().filter(|class| !classes.contains(class)).collect::<Vec<_>>());
        }
        let cases = self.metrics.first().map_or(&[][..], |key| &key.rows);
        for (index, row) in cases.iter().enumerate() {
            for class in &classes {
                let value = |one: &Measured| -> Option<f64> {
                    let row = one.rows.get(index)?;
                    let place = one.classes.iter().position(|name| name == class);
                    match place {
                        Some(place) => row.values.get(place).map(|value| f64::from(*value)),
                        None => (one.classes.is_empty() && *class == "all").then(|| row_mean(row)),
                    }
                };
                let values = self.metrics.iter().map(|one| {
                    value(one).filter(|value| !value.is_nan()).map_or_else(String::new, |value| value.to_string())
                });
                lines.push(csv([row.case.clone(), (*class).to_owned()].into_iter().chain(values)));
            }
        }
        lines
    }

    fn empty_word(&self) -> &'static str {
        match self.empty {
            Empty::Penalty => "penalty",
            Empty::Skip => "skip",
            Empty::Challenge => "challenge",
        }
    }

    fn grid_word(&self) -> &'static str {
        match self.grid {
            Grid::Network => "network",
            Grid::Original => "original",
        }
    }

    /// Prints a table for people.
    pub fn print(&self) {
        let augmented =
            self.augmentation.as_ref().map_or(String::new(), |words| format!(", with test-time augmentation: {words}"));
        let absent = "- is a class that the case does not have";
        if let [dice] = &self.metrics[..]
            && dice.name == MEAN_DICE
        {
            dice.print();
            out!("Dice of checkpoint {}{augmented}; {absent}", self.checkpoint);
            self.print_rule();
            return;
        }
        for (index, one) in self.metrics.iter().enumerate() {
            let better = one
                .higher_is_better
                .map_or("", |higher| if higher { ", higher is better" } else { ", lower is better" });
            let key = if index == 0 { ", the key metric" } else { "" };
            out!("{}", bold(&format!("{}: {}{key}{better}", one.name, one.kind)));
            one.print();
            out!("");
        }
        out!("checkpoint {}{augmented}; {absent}", self.checkpoint);
        self.print_rule();
    }

    fn print_rule(&self) {
        let grid = match self.grid {
            Grid::Network => "on the network's grid; --grid original compares what `hearth predict` writes",
            Grid::Original => "on the images' own grids",
        };
        out!("{}, {grid}", self.cases);
    }
}

/// A number in JSON: NaN is `null`, infinite values are texts.
fn number(value: f64) -> Value {
    if value.is_infinite() { json!(value.to_string()) } else { json!(value) }
}

fn row_mean(row: &CaseRow) -> f64 {
    mean(row.values.iter().map(|value| f64::from(*value)))
}

fn cell(value: f64) -> String {
    if value.is_nan() { format!("  {:>10}", "-") } else { format!("  {value:>10.4}") }
}

/// The mean of the values that are not NaN.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|value| !value.is_nan()).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}
