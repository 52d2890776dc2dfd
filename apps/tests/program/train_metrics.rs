//! `training.metrics`: the metrics of training batches, in every file of a run, and as what handlers and the
//! best checkpoint follow.

use std::fs;
use std::path::Path;

use crate::common::{errors, fail, phantom, plugins_are_built, run, succeed, text, tiny_recipe};
use crate::tasks::{REST, bright_cubes, network, recipe};

/// The values of a column of `metrics.csv`, one for each epoch that has one.
fn column(run: &Path, name: &str) -> Vec<f64> {
    let table = fs::read_to_string(run.join("metrics.csv")).expect("metrics.csv");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let place = names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name}: {names:?}"));
    lines.filter_map(|line| line[place].parse().ok()).collect()
}

#[test]
fn a_run_measures_its_training_batches() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let (data, tiny) = (text(&phantom(dir.path(), 4)), text(&tiny_recipe(dir.path())));
    let out = |name: &str| dir.path().join(name);
    let train = |name: &str, sets: &[&str]| {
        let run = out(name);
        let words = ["train", &tiny, "--data", &data, "--out", &text(&run), "--device", "cpu", "--epochs", "4"];
        succeed(&words.into_iter().chain(sets.iter().flat_map(|set| ["--set", *set])).collect::<Vec<_>>());
        run
    };
    let listed = train("listed", &["training.metrics=[\"mean_dice\"]"]);
    let plain = train("plain", &[]);
    // The validation is the same: nothing is trained otherwise.
    assert_eq!(column(&listed, "mean_dice"), column(&plain, "mean_dice"));
    assert_eq!(column(&listed, "loss"), column(&plain, "loss"));
    let measured = column(&listed, "train_mean_dice");
    assert_eq!(measured.len(), 4);
    assert!(measured.iter().all(|dice| (0.0..=1.0).contains(dice)), "{measured:?}");
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(listed.join("summary.json")).expect("a summary")).expect("JSON");
    let last = summary["metrics"]["train_mean_dice"].as_f64().expect("a number");
    assert!((last - measured[3]).abs() < 1e-6, "{last} and {measured:?}");
    assert_eq!(summary["key_metric"], "mean_dice");
    assert!(!fs::read_to_string(plain.join("metrics.csv")).expect("a table").contains("train_"));

    // Tables of their own; the best checkpoint and the end of the run follow them.
    let tables = "training.metrics={iou={name=\"MeanIoU\"},dice={name=\"DiceMetric\",include_background=false}}";
    let named = train(
        "named",
        &[
            tables,
            "metric={key=\"train_iou\",mean_dice={name=\"DiceMetric\",include_background=false}}",
            "handlers=[{name=\"EarlyStop\",metric=\"train_dice\",better=\"lower\",patience=1}]",
        ],
    );
    let (dice, iou) = (column(&named, "train_dice"), column(&named, "train_iou"));
    assert_eq!(dice, measured[..dice.len()]);
    let rises = dice.windows(2).position(|pair| pair[1] >= pair[0]).map_or(4, |place| place + 2);
    assert_eq!(dice.len(), rises.min(4), "{dice:?}");
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(named.join("summary.json")).expect("a summary")).expect("JSON");
    let best = iou.iter().copied().fold(f64::MIN, f64::max);
    assert_eq!(summary["key_metric"], "train_iou");
    let kept = summary["best_metric"].as_f64().expect("a number");
    assert!((kept - best).abs() < 1e-6, "{kept} and {iou:?}");
}

#[test]
fn a_handler_that_takes_worse_values_for_better_ones_is_warned_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let (data, tiny) = (text(&phantom(dir.path(), 3)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let metrics = "training.metrics={hd={name=\"HausdorffDistanceMetric\"},dice={name=\"DiceMetric\"}}";
    let warns = |handler: &str| {
        let handler = format!("handlers=[{{{handler}}}]");
        let words = ["train", &tiny, "--data", &data, "--out", &out, "--device", "cpu", "--dry-run"];
        let output = run(&[&words[..], &["--set", metrics, "--set", &handler]].concat());
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output).contains("give it better = \"lower\"")
    };
    for name in ["EarlyStop", "ReduceLROnPlateau"] {
        assert!(warns(&format!("name=\"{name}\",metric=\"train_hd\"")), "{name}");
        assert!(!warns(&format!("name=\"{name}\",metric=\"train_hd\",better=\"lower\"")), "{name}");
        assert!(!warns(&format!("name=\"{name}\",metric=\"train_dice\"")), "{name}");
        assert!(!warns(&format!("name=\"{name}\",metric=\"loss\"")), "{name}");
    }
}

#[test]
fn metrics_that_cannot_be_measured_are_refused_with_their_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let tiny = text(&tiny_recipe(dir.path()));
    let out = text(&dir.path().join("run"));
    let refuse = |set: &str, words: &[&str]| {
        fail(&["train", &tiny, "--data", "none", "--out", &out, "--device", "cpu", "--set", set], 1, words);
    };
    refuse("training.metrics=[\"mean_dic\"]", &["unknown metric \"mean_dic\", did you mean \"mean_dice\"?"]);
    refuse("training.metrics=[\"mean_dice\",\"mean_dice\"]", &["\"mean_dice\" is listed twice"]);
    refuse("training.metrics=\"mean_dice\"", &["a list of names of [metric], or tables of metrics"]);
    refuse("training.metrics={loss={name=\"DiceMetric\"}}", &["a metric cannot be called \"loss\""]);
    refuse("training.metrics={name=\"DiceMetric\"}", &["[training.metrics.name]", "a table for each metric"]);
    refuse("training.metrics={auc={name=\"ROCAUCMetric\"}}", &["validation measures label maps"]);
    refuse(
        "metric={key=\"train_dice\",dice={name=\"DiceMetric\"}}",
        &["\"train_dice\" is not measured: list it, training.metrics = [\"dice\"]"],
    );
    refuse("metric.key=\"train_mean_dice\"", &["list it, training.metrics = [\"mean_dice\"]"]);
    refuse("metric.key=\"train_iou\"", &["unknown metric \"train_iou\""]);
}

/// MONAI's `key_train_metric`, without a table in `[metric]`: the best checkpoint, the end of the run and the
/// learning rate follow it.
#[test]
fn a_metric_of_training_batches_decides() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let (data, tiny) = (text(&phantom(dir.path(), 4)), text(&tiny_recipe(dir.path())));
    let run = dir.path().join("run");
    let mut words = vec!["train", &tiny, "--data", &data, "--device", "cpu", "--epochs", "4"];
    let out = text(&run);
    words.extend([
        "--out",
        &out,
        "--set",
        "training.metrics=[\"mean_dice\"]",
        "--set",
        "metric.key=\"train_mean_dice\"",
    ]);
    // Never better by so much: one epoch after the first one halves the rate, two more end the run.
    let stop = "{name=\"EarlyStop\",min_delta=9.0,patience=3}";
    let lower = "{name=\"ReduceLROnPlateau\",factor=0.5,patience=0,threshold=9.0,threshold_mode=\"abs\",cooldown=9}";
    let handlers = format!("handlers=[{lower},{stop}]");
    succeed(&[&words[..], &["--set", &handlers]].concat());
    let values = column(&run, "train_mean_dice");
    assert_eq!(values.len(), 4, "{values:?}");
    let best = values.iter().copied().fold(f64::MIN, f64::max);
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).expect("a summary")).expect("JSON");
    assert_eq!((&summary["key_metric"], &summary["better"]), (&"train_mean_dice".into(), &"higher".into()));
    assert!((summary["best_metric"].as_f64().expect("a number") - best).abs() < 1e-6, "{best}: {summary}");
    let epoch = 1 + values.iter().position(|value| *value == best).expect("one of them");
    assert_eq!(summary["best_epoch"], epoch);
    assert_eq!(summary["outcome"], "terminated");
    let why = summary["why"].as_str().expect("a reason");
    assert!(why.starts_with("train_mean_dice has not improved for 3 evaluations"), "{why}");
    let names = fs::read_dir(run.join("checkpoints")).expect("checkpoints").flatten().map(|entry| entry.file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let wanted = format!("epoch={epoch:04}");
    assert!(names.iter().any(|name| name.starts_with(&wanted) && name.ends_with("-best")), "{names:?}");
    let rates = column(&run, "learning_rate");
    assert!((rates[3] / rates[0] - 0.5).abs() < 1e-9, "{rates:?}");
}

#[test]
fn classes_and_numbers_of_training_batches_are_measured_too() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = bright_cubes(dir.path(), 24);
    let rest = REST.replacen("\ntransforms", "transforms", 1).replace("epochs = 40", "epochs = 2");
    let train = |name: &str, metrics: &str, parts: &[&str]| {
        let recipe = recipe(dir.path(), &format!("{name}.toml"), parts);
        let run = dir.path().join(name);
        let set = format!("training.metrics={metrics}");
        succeed(&["train", &recipe, "--data", &text(&table), "--out", &text(&run), "--device", "cpu", "--set", &set]);
        run
    };
    let head = format!("labels = [\"dark\", \"bright\"]\n{rest}");
    let task = "[task]\nname = \"Classification\"\nlabel = \"kind\"\n";
    let loss = "[loss]\nname = \"CrossEntropyLoss\"\n";
    let run = train("classes", "[\"accuracy\", \"roc_auc\"]", &[&head, task, &network(2), loss]);
    for name in ["train_accuracy", "train_roc_auc"] {
        let values = column(&run, name);
        // Of 16 cases, the accuracy is a multiple of a sixteenth.
        assert!(values.len() == 2 && values.iter().all(|value| (0.0..=1.0).contains(value)), "{name}: {values:?}");
        assert!(name != "train_accuracy" || values.iter().all(|value| (value * 16.0).fract() == 0.0), "{values:?}");
    }
    let head = format!("labels = [\"level\"]\n{rest}");
    let parts = [&*head, "[task]\nname = \"Regression\"\n", &network(1), "[loss]\nname = \"MSELoss\"\n"];
    let run = train("numbers", "{mse={name=\"MSEMetric\"}}", &parts);
    // The loss is the same number, of the same batches.
    for (metric, loss) in column(&run, "train_mse").iter().zip(column(&run, "loss")) {
        assert!((metric - loss).abs() < 1e-5, "{metric} and {loss}");
    }
}
