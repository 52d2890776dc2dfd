//! The ladder of the fast-training guides: trains a recipe several times, each time with one more of
//! the changes that make it fast.
//!
//! The first row is the guides' regular training: nothing cached, no threads, fp32, plain kernels, Dice
//! and Adam. Network, transforms, batch, schedule, seed and validation are those of the recipe in every
//! row.

use std::path::Path;

use hearth::kernels::use_kernels;
use hearth_nn::losses::LossConfig;
use hearth_nn::optim::OptimizerConfig;
use hearth_registry::Node;
use serde_json::{Value, json};

use super::reach::{Reached, reach};
use super::{Args, file_name, say};
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::picture::{Bar, bars, save};
use crate::recipe::{Recipe, bundled};
use crate::run::Plan;
use crate::table::{self, Lean};
use crate::terminal::{bold, seconds};
use crate::{note, out};

const PICTURE: &str = "ladder.png";
/// The optimizer of the spleen tutorial's regular training.
const REGULAR_OPTIMIZER: &str = "name = \"Adam\"\nlr = 2e-4";

/// One change to the recipe.
struct Rung {
    name: String,
    /// The changed keys of the recipe, and their values.
    sets: Vec<(String, String)>,
    /// Whether this row and all that follow use this project's kernels.
    kernels: bool,
    /// The reason for skipping the row.
    skipped: Option<&'static str>,
}

impl Rung {
    fn new(name: impl Into<String>, sets: Vec<(String, String)>) -> Self {
        Rung { name: name.into(), sets, kernels: false, skipped: None }
    }

    fn unless(mut self, why: Option<&'static str>) -> Self {
        self.skipped = why;
        self
    }
}

/// A row: its change, and the results of its training unless it was skipped.
struct Row {
    rung: Rung,
    took: Option<Reached>,
}

/// Runs the ladder.
pub fn run(args: &Args) -> Outcome {
    let usage = "a recipe and its data: hearth bench ladder hippocampus Task04_Hippocampus";
    let (recipe, data) = (args.file(0, usage)?.to_string_lossy().into_owned(), args.file(1, usage)?);
    let mut document = bundled::open(&recipe)?;
    for (option, key, value) in [
        ("--epochs", "training.epochs", args.epochs().to_string()),
        ("--seed", "training.seed", args.seed.to_string()),
        ("--device", "training.device", args.device.clone()),
        ("--tune", "training.tune", args.tune.clone()),
    ] {
        document.set_option(option, key, &value)?;
    }
    // Reports errors in the recipe before any training.
    let plan = Plan::new(document.clone())?;
    let rungs = rungs(&plan.recipe, plan.on_processor, rayon::current_num_threads())?;
    let _reserved = args.out.as_deref().map(folders::Reserved::new).transpose()?;
    let goal = args.goal();
    let mut rows: Vec<Row> = Vec::new();
    use_kernels(false);
    for rung in rungs {
        note!("{}", bold(&rung.name));
        let took = match rung.skipped {
            Some(why) => {
                note!("skipped: {why}");
                None
            }
            None => {
                for (key, value) in &rung.sets {
                    document.set_option(&format!("the row {:?}", rung.name), key, value)?;
                }
                if rung.kernels {
                    use_kernels(true);
                }
                let took = reach(document.clone(), data, &goal).while_doing(|| format!("the row {:?}", rung.name))?;
                say(args, line(args, &recipe, data, &rung, &took))?;
                Some(took)
            }
        };
        rows.push(Row { rung, took });
        // Written after each row, so that an interrupted run keeps the finished ones.
        args.out.as_deref().map_or(Ok(()), |out| write(out, &recipe, &rows))?;
    }
    use_kernels(true);
    if !args.json {
        table::lines(&COLUMNS, &cells(&rows)).iter().for_each(|line| out!("{line}"));
    }
    if let Some(out) = &args.out {
        note!("picture  {}", out.join(PICTURE).display());
    }
    Ok(())
}

/// The rows for a recipe.
fn rungs(recipe: &Recipe, on_processor: bool, threads: usize) -> Outcome<Vec<Rung>> {
    let lacking =
        || Failure::new("this recipe trains two networks that compete; the ladder is for recipes with [loss]");
    let given = recipe.loss.as_ref().ok_or_else(lacking)?;
    let regular = regular_loss(given)?;
    let regular_optimizer: OptimizerConfig = toml::from_str(REGULAR_OPTIMIZER)?;
    let (loss, optimizer) = (inline(given)?, inline(&recipe.optimizer)?);
    let workers = recipe.data.workers.max(threads);
    let cached = |device: &str| format!("{{ rate = 1.0, workers = {workers}, device = \"{device}\" }}");
    let cpu = |why| on_processor.then_some(why);
    let set = |key: &str, value: String| vec![(key.to_owned(), value)];
    let batches = batch_keys(recipe);
    let on_batches = |value: &str| batches.iter().map(|key| (key.clone(), value.to_owned())).collect();
    let plain = [
        set("data.cache", "{ kind = \"none\" }".to_owned()),
        set("data.workers", "0".to_owned()),
        set("training.precision", "fp32".to_owned()),
        set("loss", regular.clone().unwrap_or_else(|| loss.clone())),
        set("optimizer", inline(&regular_optimizer)?),
        on_batches("false"),
    ];
    let same_optimizer = (recipe.optimizer == regular_optimizer).then_some("the recipe's is the regular one");
    Ok(vec![
        Rung::new("plain", plain.concat()),
        Rung::new("cache", set("data.cache", cached("host"))),
        Rung::new("threads", set("data.workers", workers.to_string())),
        Rung::new("device transforms", set("data.cache", cached("same")))
            .unless(cpu("a CPU's transforms run on it already")),
        Rung::new("batch transforms", on_batches("true"))
            .unless(batches.is_empty().then_some("no transform of the recipe has batch = true")),
        Rung::new("AMP", set("training.precision", "auto".to_owned())).unless(cpu("a CPU computes in fp32")),
        Rung { kernels: true, ..Rung::new("fused kernels", Vec::new()) },
        Rung::new(format!("loss {}", name_of(given)?), set("loss", loss)).unless(regular.is_none().then_some(
            "there is no loss of Dice alone to compare with: the recipe's loss has no other term, or no Dice",
        )),
        Rung::new(format!("optimizer {}", name_of(&recipe.optimizer)?), set("optimizer", optimizer))
            .unless(same_optimizer),
    ])
}

/// The recipe keys that make transforms process whole batches.
fn batch_keys(recipe: &Recipe) -> Vec<String> {
    let whole = |transform: &Node| transform.get("batch").is_some_and(|batch| *batch == Node::from(true));
    let steps = recipe.transforms.iter().enumerate().filter(|(_, transform)| whole(transform));
    steps.map(|(index, _)| format!("transforms.{index}.batch")).collect()
}

/// The Dice loss alone, on the same channels. `None` if the recipe's loss is of another kind, or
/// already the Dice loss alone.
fn regular_loss(loss: &LossConfig) -> Outcome<Option<String>> {
    let toml::Value::Table(given) = toml::Value::try_from(loss)? else { return Ok(None) };
    if !given.contains_key("to_onehot_y") || name_of(loss)? == "DiceLoss" {
        return Ok(None);
    }
    let mut dice = toml::Table::new();
    dice.insert("name".into(), "DiceLoss".into());
    for key in ["include_background", "to_onehot_y", "sigmoid", "softmax"] {
        dice.extend(given.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    Ok(Some(toml::Value::Table(dice).to_string()))
}

fn inline(value: &impl serde::Serialize) -> Outcome<String> {
    Ok(toml::Value::try_from(value)?.to_string())
}

/// The name of a configuration value in a recipe.
fn name_of(value: &impl serde::Serialize) -> Outcome<String> {
    let table = toml::Value::try_from(value)?;
    Ok(table.get("name").and_then(toml::Value::as_str).unwrap_or_default().to_owned())
}

fn line(args: &Args, recipe: &str, data: &Path, rung: &Rung, took: &Reached) -> Value {
    json!({
        "bench": "ladder", "recipe": recipe, "data": file_name(data), "row": rung.name, "target": args.goal().target,
        "seconds": took.hit,
        "epoch_seconds": took.epoch, "prepare_seconds": took.prepared, "epochs": took.epochs, "best": took.best, "total": took.total,
        "device": args.device,
    })
}

const COLUMNS: [(&str, Lean); 7] = [
    ("row", Lean::Left),
    ("preparing", Lean::Right),
    ("epoch", Lean::Right),
    ("faster", Lean::Right),
    ("to target", Lean::Right),
    ("epochs", Lean::Right),
    ("best", Lean::Right),
];

/// The cells of the table: each row compared with the first.
fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let first = rows.iter().find_map(|row| row.took.as_ref()).map_or(f64::NAN, |took| took.epoch);
    let cell = |row: &Row| match &row.took {
        None => vec![row.rung.name.clone(), "skipped".to_owned()],
        Some(took) => vec![
            row.rung.name.clone(),
            seconds(took.prepared),
            seconds(took.epoch),
            format!("{:.2} x", first / took.epoch),
            took.hit.map_or_else(|| "not reached".to_owned(), seconds),
            took.epochs.to_string(),
            format!("{} {:.4}", took.metric, took.best),
        ],
    };
    rows.iter().map(cell).collect()
}

/// Writes the picture, and the table as CSV.
fn write(out: &Path, recipe: &str, rows: &[Row]) -> Outcome {
    let bar = |row: &Row| {
        let text = |took: &Reached| {
            let hit =
                took.hit.map_or_else(|| "target not reached".to_owned(), |hit| format!("target in {}", seconds(hit)));
            format!("{}, {hit}", seconds(took.epoch))
        };
        let took = row.took.as_ref();
        Bar {
            name: row.rung.name.clone(),
            value: took.map_or(0.0, |took| took.epoch),
            text: took.map_or_else(|| "skipped".to_owned(), text),
        }
    };
    let all: Vec<Bar> = rows.iter().map(bar).collect();
    save(&bars(&format!("{recipe}: time per epoch"), &all), &out.join(PICTURE))?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let csv = rows.iter().map(|row| {
        let took = row.took.as_ref();
        let numbers = [
            took.map(|t| t.prepared),
            took.map(|t| t.epoch),
            took.and_then(|t| t.hit),
            took.map(|t| t.epochs as f64),
            took.map(|t| t.best),
        ];
        format!("{},{}\n", row.rung.name, numbers.map(number).join(","))
    });
    let metric = rows.iter().find_map(|row| row.took.as_ref()).map_or("dice", |took| &took.metric);
    let head = format!("row,prepare_seconds,epoch_seconds,target_seconds,epochs,best_{metric}\n");
    let path = out.join("ladder.csv");
    Ok(folders::replace(&path, std::iter::once(head).chain(csv).collect::<String>())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound<T>(outcome: Result<T, impl Into<crate::error::Failure>>) -> T {
        outcome.unwrap_or_else(|failure| panic!("{}", failure.into().line()))
    }

    fn recipe(name: &str) -> Recipe {
        sound(Plan::new(sound(bundled::open(name)))).recipe
    }

    /// Each row of each bundled recipe is a valid recipe with all changes above it, and the last row is
    /// the recipe's own training.
    #[test]
    fn every_row_is_a_recipe() {
        for name in ["demo", "hippocampus", "spleen", "spleen-regular", "pathology"] {
            let given = recipe(name);
            for on_processor in [true, false] {
                let mut document = sound(bundled::open(name));
                let mut last = None;
                for rung in sound(rungs(&given, on_processor, 2)).into_iter().filter(|r| r.skipped.is_none()) {
                    for (key, value) in &rung.sets {
                        sound(document.set_option("row", key, value));
                    }
                    last = Some(sound(Recipe::read(&document)));
                }
                let last = last.expect("rows");
                assert_eq!((&last.loss, &last.optimizer), (&given.loss, &given.optimizer), "{name}");
                assert_eq!(last.transforms, given.transforms, "{name}");
            }
        }
    }

    #[test]
    fn the_first_row_is_the_regular_training() {
        let spleen = sound(rungs(&recipe("spleen"), true, 2));
        let mut document = sound(bundled::open("spleen"));
        spleen[0].sets.iter().for_each(|(key, value)| sound(document.set_option("row", key, value)));
        let (plain, regular) = (sound(Recipe::read(&document)), recipe("spleen-regular"));
        assert_eq!(plain.optimizer, regular.optimizer);
        assert_eq!([plain.loss, regular.loss].map(|loss| sound(name_of(&loss))), ["DiceLoss", "DiceLoss"]);
        assert_eq!(plain.data.workers, 0);
        let skipped: Vec<&str> = spleen.iter().filter(|r| r.skipped.is_some()).map(|r| r.name.as_str()).collect();
        assert_eq!(skipped, ["device transforms", "batch transforms", "AMP"]);
    }

    /// The guide's factor of 3.3 comes from changing per-patch transforms to whole batches.
    #[test]
    fn transforms_begin_sample_by_sample() {
        let rungs = sound(rungs(&recipe("pathology"), true, 2));
        let mut document = sound(bundled::open("pathology"));
        rungs[0].sets.iter().for_each(|(key, value)| sound(document.set_option("row", key, value)));
        assert_eq!(batch_keys(&sound(Recipe::read(&document))), Vec::<String>::new());
        let row = rungs.iter().find(|rung| rung.name == "batch transforms").expect("a row");
        assert!(row.skipped.is_none() && row.sets.len() == 5, "{:?}", row.sets);
    }

    #[test]
    fn rows_are_compared_with_the_first() {
        let row = |name: &str, epoch: f64, hit| Row {
            rung: Rung::new(name, Vec::new()),
            took: Some(Reached { epoch, hit, epochs: 4, best: 0.5, ..Reached::default() }),
        };
        let left_out = Row { rung: Rung::new("AMP", Vec::new()), took: None };
        let cells = cells(&[row("plain", 8.0, None), left_out, row("cache", 2.0, Some(9.0))]);
        assert_eq!(cells[0][3..5], ["1.00 x", "not reached"]);
        assert_eq!(cells[1], ["AMP", "skipped"]);
        assert_eq!(cells[2][3..5], ["4.00 x", "9.00 s"]);
    }
}
