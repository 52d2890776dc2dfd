//! The rows of the ladder: changes of a recipe, each on top of those before it.
//!
//! The first row is the guides' regular training: nothing cached, no threads, fp32, plain kernels, Dice
//! and Adam. The kernels come second, since with Burn's own most time is spent in them, and what loading
//! gains would not show. Network, transforms, batch, schedule, seed and validation are those of the recipe
//! in every row.

use hearth_nn::losses::LossConfig;
use hearth_nn::optim::OptimizerConfig;
use hearth_registry::Node;

use super::super::Amp;
use crate::error::{Failure, Outcome};
use crate::recipe::Recipe;

/// The optimizer of the spleen tutorial's regular training.
const REGULAR_OPTIMIZER: &str = "name = \"Adam\"\nlr = 2e-4";
/// The optimizer of the guide and its slides, with their learning rate.
const NOVOGRAD: &str = "name = \"Novograd\"\nlr = 2e-3";

/// One change to the recipe.
pub struct Rung {
    /// The name of the row.
    pub name: String,
    /// The changed keys of the recipe, and their values.
    pub sets: Vec<(String, String)>,
    /// Whether this row and all that follow use this project's kernels.
    pub kernels: bool,
    /// The reason for skipping the row, with its changes.
    pub skipped: Option<&'static str>,
    /// Whether `--rows` leaves it out. Its changes are made for the rows below it.
    pub left_out: bool,
}

impl Rung {
    /// A row with these changes.
    pub fn new(name: impl Into<String>, sets: Vec<(String, String)>) -> Self {
        Rung { name: name.into(), sets, kernels: false, skipped: None, left_out: false }
    }

    fn unless(mut self, why: Option<&'static str>) -> Self {
        self.skipped = why;
        self
    }
}

/// The machine that the rows train on.
#[derive(Clone, Copy)]
pub struct On {
    /// Whether the training device is a CPU.
    pub processor: bool,
    /// The number of threads.
    pub threads: usize,
    /// The requested mixed precision.
    pub amp: Option<Amp>,
}

impl On {
    /// The precision of the row AMP, or the reason for skipping it.
    fn precision(self) -> Result<&'static str, &'static str> {
        match (self.amp, self.processor) {
            (Some(Amp::None), _) => Err("--amp none"),
            (Some(amp), _) => Ok(amp.word()),
            (None, true) => Err("a CPU computes in fp32; --amp bf16 trains in bf16"),
            (None, false) => Ok("auto"),
        }
    }
}

/// The rows for a recipe.
pub fn rungs(recipe: &Recipe, on: On) -> Outcome<Vec<Rung>> {
    let lacking =
        || Failure::new("this recipe trains two networks that compete; the ladder is for recipes with [loss]");
    let given = recipe.loss.as_ref().ok_or_else(lacking)?;
    let regular = regular_loss(given)?;
    let regular_optimizer: OptimizerConfig = toml::from_str(REGULAR_OPTIMIZER)?;
    let (loss, optimizer) = (inline(given)?, inline(&recipe.optimizer)?);
    let workers = recipe.data.workers.max(on.threads);
    let cached = |device: &str| format!("{{ rate = 1.0, workers = {workers}, device = \"{device}\" }}");
    let cpu = |why| on.processor.then_some(why);
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
    let novograd: OptimizerConfig = toml::from_str(NOVOGRAD)?;
    let is_novograd = (name_of(&recipe.optimizer)? == name_of(&novograd)?).then_some("it is the recipe's optimizer");
    let (precision, no_amp) = on.precision().map_or_else(|why| ("fp32", Some(why)), |word| (word, None));
    let same_optimizer = (recipe.optimizer == regular_optimizer).then_some("the recipe's is the regular one");
    Ok(vec![
        Rung::new("plain", plain.concat()),
        Rung { kernels: true, ..Rung::new("fused kernels", Vec::new()) },
        Rung::new("cache", set("data.cache", cached("host"))),
        Rung::new("threads", set("data.workers", workers.to_string())),
        Rung::new("device transforms", set("data.cache", cached("same")))
            .unless(cpu("a CPU's transforms run on it already")),
        Rung::new("batch transforms", on_batches("true"))
            .unless(batches.is_empty().then_some("no transform of the recipe has batch = true")),
        Rung::new("AMP", set("training.precision", precision.to_owned())).unless(no_amp),
        Rung::new(format!("loss {}", name_of(given)?), set("loss", loss)).unless(regular.is_none().then_some(
            "there is no loss of Dice alone to compare with: the recipe's loss has no other term, or no Dice",
        )),
        Rung::new("optimizer Novograd", set("optimizer", inline(&novograd)?)).unless(is_novograd.or(same_optimizer)),
        Rung::new(format!("optimizer {}", name_of(&recipe.optimizer)?), set("optimizer", optimizer))
            .unless(same_optimizer),
    ])
}

/// Leaves out the rows that `--rows` does not name; no names are all rows. The first word of a name is
/// enough, and the second one of `fused kernels`.
///
/// # Errors
/// A name of no row, with the names that there are.
pub fn only(rungs: &mut [Rung], names: &[String]) -> Outcome {
    let is = |rung: &Rung, name: &str| {
        let (rung, name) = (rung.name.to_lowercase(), name.trim().to_lowercase());
        rung == name
            || rung.strip_prefix(&name).is_some_and(|rest| rest.starts_with(' '))
            || rung == format!("fused {name}")
    };
    if let Some(unknown) = names.iter().find(|name| !rungs.iter().any(|rung| is(rung, name))) {
        let known: Vec<&str> = rungs.iter().map(|rung| rung.name.as_str()).collect();
        return Err(Failure::new(format!("--rows {unknown:?}: there is no such row; the rows: {}", known.join(", "))));
    }
    for rung in rungs.iter_mut().filter(|rung| !names.is_empty() && !names.iter().any(|name| is(rung, name))) {
        rung.left_out = true;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::bundled;
    use crate::run::Plan;

    const CPU: On = On { processor: true, threads: 2, amp: None };

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
            for on in [CPU, On { processor: false, ..CPU }, On { amp: Some(Amp::Bf16), ..CPU }] {
                let mut document = sound(bundled::open(name));
                let mut last = None;
                for rung in sound(rungs(&given, on)).into_iter().filter(|r| r.skipped.is_none()) {
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

    /// A row changes the keys that it names, and no other value of the whole recipe.
    #[test]
    fn rows_differ_in_their_keys_alone() {
        for name in ["demo", "spleen", "pathology"] {
            let on = On { processor: false, amp: Some(Amp::Bf16), ..CPU };
            let mut document = sound(bundled::open(name));
            let mut before = None;
            for rung in sound(rungs(&recipe(name), on)).into_iter().filter(|rung| rung.skipped.is_none()) {
                rung.sets.iter().for_each(|(key, value)| sound(document.set_option("row", key, value)));
                let recipe = sound(Recipe::read(&document));
                let now = serde_json::to_value(&recipe).expect("a recipe is JSON");
                if let Some(before) = before.replace(now.clone()) {
                    let mut changed = Vec::new();
                    differences("", &before, &now, &mut changed);
                    let named = |path: &String| rung.sets.iter().any(|(key, _)| path.starts_with(key.as_str()));
                    assert!(changed.iter().all(named), "{name}, {}: {changed:?}", rung.name);
                    assert!(rung.sets.is_empty() || !changed.is_empty(), "{name}, {}", rung.name);
                }
            }
        }
    }

    /// The paths of the values that differ.
    fn differences(path: &str, a: &serde_json::Value, b: &serde_json::Value, out: &mut Vec<String>) {
        use serde_json::Value::{Array, Null, Object};
        let below = |key: String| if path.is_empty() { key } else { format!("{path}.{key}") };
        match (a, b) {
            (Object(a), Object(b)) => {
                let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for key in keys {
                    let [a, b] = [a, b].map(|side| side.get(key).unwrap_or(&Null));
                    differences(&below(key.clone()), a, b, out);
                }
            }
            (Array(a), Array(b)) if a.len() == b.len() => {
                a.iter().zip(b).enumerate().for_each(|(i, (a, b))| differences(&below(i.to_string()), a, b, out));
            }
            (a, b) if a == b => {}
            _ => out.push(path.to_owned()),
        }
    }

    #[test]
    fn rows_are_chosen_by_name() {
        let chosen = |names: &[&str]| {
            let mut rungs = sound(rungs(&recipe("demo"), CPU));
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            only(&mut rungs, &names).map(|()| {
                let left = rungs.into_iter().filter(|rung| rung.skipped.is_none() && !rung.left_out);
                left.map(|rung| rung.name).collect::<Vec<_>>()
            })
        };
        assert_eq!(sound(chosen(&["Plain", "kernels", " loss"])), ["plain", "fused kernels", "loss DiceCELoss"]);
        assert_eq!(sound(chosen(&["optimizer Novograd"])), ["optimizer Novograd"]);
        assert_eq!(sound(chosen(&["optimizer"])).len(), 2);
        assert_eq!(sound(chosen(&[])).len(), 7);
        let said = chosen(&["plane"]).map_or_else(|failure| failure.line(), |rows| rows.join(" "));
        assert!(said.contains("\"plane\"") && said.contains("plain, fused kernels, cache"), "{said}");
    }

    #[test]
    fn mixed_precision_is_what_was_asked_for() {
        let asked = |processor, amp| On { processor, amp, ..CPU }.precision();
        assert_eq!(asked(false, None), Ok("auto"));
        assert_eq!(asked(true, Some(Amp::Bf16)), Ok("bf16"));
        assert_eq!(asked(false, Some(Amp::Fp16)), Ok("fp16"));
        assert!(asked(true, None).is_err() && asked(false, Some(Amp::None)).is_err());
    }

    #[test]
    fn the_first_row_is_the_regular_training() {
        let spleen = sound(rungs(&recipe("spleen"), CPU));
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
        let rungs = sound(rungs(&recipe("pathology"), CPU));
        let mut document = sound(bundled::open("pathology"));
        rungs[0].sets.iter().for_each(|(key, value)| sound(document.set_option("row", key, value)));
        assert_eq!(batch_keys(&sound(Recipe::read(&document))), Vec::<String>::new());
        let row = rungs.iter().find(|rung| rung.name == "batch transforms").expect("a row");
        assert!(row.skipped.is_none() && row.sets.len() == 5, "{:?}", row.sets);
    }
}
