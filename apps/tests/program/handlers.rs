//! Handlers and plugins on the trainer and on the evaluator, their files, and the errors for mistakes
//! in them.

use std::path::{Path, PathBuf};

use crate::common::{TINY, errors, fail, phantom, plugins_are_built, run, succeed, text};
use serde_json::Value;

/// A recipe of two epochs with a text added at its end.
fn recipe(folder: &Path, name: &str, more: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, TINY.replacen("epochs = 6", "epochs = 2", 1) + more).expect("the recipe is written");
    text(&path)
}

fn train(recipe: &str, data: &Path, out: &Path) -> String {
    let output = run(&["train", recipe, "--data", &text(data), "--out", &text(out), "--device", "cpu", "-v"]);
    assert!(output.status.success(), "{}", errors(&output));
    errors(&output)
}

/// A handler's entry in `summary.json`.
fn summary(run: &Path, engine: &str, name: &str) -> Value {
    let summary = std::fs::read_to_string(run.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let handlers = summary["handlers"].as_array().expect("a list").iter();
    let mine = |handler: &&Value| handler["engine"] == engine && handler["name"] == name;
    handlers.clone().find(mine).unwrap_or_else(|| panic!("no {name} of {engine} in {summary}")).clone()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

const LISTENING: &str = r#"
[[plugins]]
name = "validation"
[[plugins]]
name = "checkpoint"
[[plugins]]
name = "stats"
engine = "validation"
options = { every_iterations = 0 }
[[plugins]]
name = "stats"
options = { every_iterations = 0 }
[[handlers]]
name = "TensorBoardImage"
engine = "validation"
[[handlers]]
name = "LayerStatistics"
every = 3
[[handlers]]
name = "MetricLog"
engine = "validation"
"#;

#[test]
fn handlers_and_plugins_listen_to_the_evaluator() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = phantom(dir.path(), 4);
    let (recipe, out) = (recipe(dir.path(), "listening.toml", LISTENING), dir.path().join("run"));
    train(&recipe, &data, &out);
    // Each validation has one case, so one iteration and one end of an epoch.
    for (engine, name, calls) in [
        ("validation", "stats", 2),
        ("trainer", "stats", 2),
        ("validation", "tensorboard_image", 2),
        ("trainer", "layer_statistics", 4),
        ("trainer", "metric_log", 9),
    ] {
        let found = summary(&out, engine, name);
        assert!(found["errors"].is_null(), "{found}");
        assert_eq!(found["calls"], calls, "{found}");
    }
    let own = std::fs::read_to_string(out.join("validation/metrics.csv")).expect("the evaluator's metrics");
    let trainers = std::fs::read_to_string(out.join("metrics.csv")).expect("the trainer's metrics");
    assert!(own.starts_with("epoch,iteration,learning_rate,mean_dice") && own.lines().count() == 3, "{own}");
    assert!(
        own.lines().all(|row| row.split(',').nth(2).is_some_and(|rate| rate.is_empty() || rate == "learning_rate"))
    );
    assert_eq!(trainers.lines().count(), 3);
    assert_eq!(files(&out.join("validation/tensorboard")).len(), 1);

    let layers = std::fs::read_to_string(out.join("layers.csv")).expect("statistics of layers");
    let of = |iteration: &str, values: &str| {
        let start = format!("{iteration},{values},");
        layers.lines().filter(|row| row.starts_with(&start)).count()
    };
    assert!(of("3", "weights") >= of("3", "gradients") && of("3", "gradients") > 4, "{layers}");
    assert_eq!((of("6", "weights"), of("6", "gradients")), (of("3", "weights"), of("3", "gradients")));
    assert!(layers.lines().skip(1).all(|row| row.ends_with(",0") && !row.contains("NaN")), "{layers}");
    let newest = files(&out.join("checkpoints")).into_iter().find(|path| path.join("network.safetensors").is_file());
    let bytes = std::fs::read(newest.expect("a checkpoint").join("network.safetensors")).expect("weights");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    assert!(file.names().iter().any(|name| layers.contains(&format!("6,weights,{name},"))), "names of the state dict");

    // The same handlers run in `hearth evaluate`, and write to their own folder.
    let words = ["evaluate", &text(&out), "--data", &text(&data), "--device", "cpu"];
    succeed(&words);
    assert_eq!(files(&out.join("evaluation/tensorboard")).len(), 1);
    let own = std::fs::read_to_string(out.join("evaluation/metrics.csv")).expect("the evaluator's metrics");
    assert_eq!(own.lines().count(), 2, "{own}");
    assert_eq!(std::fs::read_to_string(out.join("metrics.csv")).expect("as before"), trainers);
}

#[test]
fn a_run_validates_and_keeps_checkpoints_without_a_plugin() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = phantom(dir.path(), 3);
    let handlers = "[[handlers]]\nname = \"Validation\"\n[[handlers]]\nname = \"Checkpoints\"\nkeep_last = 1\n";
    let recipe = recipe(dir.path(), "plain.toml", handlers);
    let path = dir.path().join("plain.toml");
    let written = std::fs::read_to_string(&path).expect("the recipe");
    std::fs::write(&path, written.replacen("labels =", "plugins = []\nlabels =", 1)).expect("the recipe is written");
    let out = dir.path().join("run");
    let said = train(&recipe, &data, &out);
    assert!(!said.contains("no `checkpoint`") && !said.contains("will not validate"), "{said}");
    assert_eq!(summary(&out, "trainer", "validation")["calls"], 2);
    assert!(files(&out.join("checkpoints")).len() >= 2);
    succeed(&["evaluate", &text(&out), "--data", &text(&data), "--device", "cpu", "--checkpoint", "latest"]);
}

#[test]
fn a_handler_that_failed_leaves_a_trace() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = phantom(dir.path(), 3);
    // Rows cannot be written to a folder.
    let disabled = "[[handlers]]\nname = \"LayerStatistics\"\nevery = 1\ncsv = \"checkpoints\"\n";
    let of = |name: &str| format!("[[handlers]]\nname = \"{name}\"\nengine = \"validation\"\nevery = 1\n");
    let on_evaluator = format!("{}{}csv = \"tensorboard\"\n", of("TensorBoardImage"), of("LayerStatistics"));
    let out = dir.path().join("run");
    let said = train(&recipe(dir.path(), "failing.toml", &format!("{disabled}{on_evaluator}")), &data, &out);
    for (engine, folder) in [("trainer", "checkpoints"), ("validation", "tensorboard")] {
        let found = summary(&out, engine, "layer_statistics");
        assert_eq!((&found["errors"], &found["disabled"]), (&Value::from(1), &Value::from(true)), "{found}");
        let first = found["first_error"].as_str().expect("its message");
        assert!(first.contains(&format!("{folder} cannot be ")), "{first}");
        let line =
            format!("the handler layer_statistics of the {engine} failed once and was not called again; first in ");
        assert!(said.contains(&line), "{said}");
    }
    // A handler whose failure ends the run.
    let stops = "[[handlers]]\nname = \"TensorBoardImage\"\nengine = \"validation\"\ntensors = [\"imge\"]\n";
    let out = dir.path().join("stopped");
    let recipe = recipe(dir.path(), "stops.toml", stops);
    let words = ["train", &recipe, "--data", &text(&data), "--out", &text(&out), "--device", "cpu"];
    fail(&words, 1, &["tensorboard_image", "no tensor `imge` now; there is: image, label, pred"]);
    let found = summary(&out, "validation", "tensorboard_image");
    assert_eq!(found["errors"], 1, "{found}");
    assert!(found["first_error"].as_str().is_some_and(|words| words.contains("imge")), "{found}");
}

#[test]
fn mistakes_in_handlers_and_plugins_are_pointed_at() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let line = TINY.lines().count();
    let plugin = |options: &str| format!("[[plugins]]\nname = \"checkpoint\"\noptions = {options}\n");
    let at = |more: usize, column: usize| format!("bad.toml:{}:{column}: ", line + more);
    let handler = |options: &str| format!("[[handlers]]\nname = \"EarlyStop\"\n{options}\n");
    for (more, place, words) in [
        (
            plugin("{ keep_lst = 2 }"),
            at(3, 13),
            "plugin `checkpoint`: unknown key \"keep_lst\", did you mean \"keep_last\"?",
        ),
        (plugin("{ best = false, keep_last = \"all\" }"), at(3, 39), "expected a whole number without a sign"),
        (plugin("{ dir = \"../x\" }"), at(3, 19), "checkpoints stay in the run's folder"),
        (
            "[[plugins]]\nname = \"validation\"\n[plugins.options]\ninterval = 0\n".to_owned(),
            at(4, 12),
            "plugin `validation`: `interval` is 0; give 1 or more",
        ),
        (
            "[[plugins]]\nname = \"ensemble\"\noptions = { pred_keys = [\"a\", 3] }\n".to_owned(),
            at(3, 31),
            "expected a text, not 3",
        ),
        (
            "[[plugins]]\nname = \"ensemble\"\noptions = { pred_keys = [\"a\"], method = \"vot\" }\n".to_owned(),
            at(3, 41),
            "did you mean \"vote\"?",
        ),
        (
            "[[plugins]]\nname = \"stats\"\nengine = \"valdation\"\n".to_owned(),
            at(3, 10),
            "\"valdation\", did you mean \"validation\"?",
        ),
        (handler("engine = \"trian\""), at(3, 10), "\"trian\", did you mean \"train\"?"),
        (handler("engine = 3"), at(3, 10), "not a number"),
        (handler("engine = \"validation\"\npatience = 9"), at(3, 10), "\"EarlyStop\" needs a trainer"),
        (
            "[[handlers]]\nname = \"TensorBoardImage\"\nengine = \"validation\"\nevery = 0\n".to_owned(),
            at(4, 9),
            "`every` is 0",
        ),
        (
            "[[handlers]]\nname = \"Checkpoints\"\nengine = \"validation\"\n".to_owned(),
            at(3, 10),
            "\"Checkpoints\" needs a trainer",
        ),
        (
            "[[plugins]]\nname = \"validation\"\nengine = \"validation\"\n".to_owned(),
            at(3, 10),
            "\"validation\" needs a trainer",
        ),
        (
            "[[plugins]]\nname = \"stats\"\n[[plugins]]\nname = \"stats\"\n".to_owned(),
            at(4, 8),
            "the plugin \"stats\" is listed twice",
        ),
    ] {
        let path = dir.path().join("bad.toml");
        std::fs::write(&path, format!("{TINY}{more}")).expect("the recipe is written");
        let out = text(&dir.path().join("run"));
        fail(&["train", &text(&path), "--data", "nowhere", "--out", &out, "--dry-run"], 1, &[&place, words]);
    }
}
