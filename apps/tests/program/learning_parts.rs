//! Losses, schedules and inferers of a plugin in real runs, next to runs with the built-in parts that
//! compute the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{TINY, errors, fail, hearth, phantom, succeed, text, wait_until};
use crate::plugins_in_c::compile;

const EPOCHS: &str = "5";
const LOSS: &str = "loss={name=\"CrossEntropyLoss\"}";
const LOSS_OF_PLUGIN: &str = "loss={name=\"learning.Entropy\"}";
const SCHEDULE: &str = "schedule={name=\"PolynomialLR\",total_iters=5,power=0.9}";
const SCHEDULE_OF_PLUGIN: &str = "schedule={name=\"learning.Poly\",power=0.9}";
const INFERER: &str = "inferer={name=\"SimpleInferer\"}";
const INFERER_OF_PLUGIN: &str = "inferer={name=\"learning.Whole\"}";

/// A plugin, a recipe and data.
struct Given {
    folder: tempfile::TempDir,
    library: String,
    recipe: String,
    data: String,
}

impl Given {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = compile(folder.path(), "learning", include_str!("../in_c/learning.c"));
        let recipe = folder.path().join("tiny.toml");
        // Whole images have a size that the network supports.
        let pad = "{ name = \"DivisiblePad\", keys = [\"image\", \"label\"], k = 4 },\n    { name = \"FgBgToIndices\"";
        fs::write(&recipe, TINY.replace("{ name = \"FgBgToIndices\"", pad)).unwrap();
        let (recipe, data) = (text(&recipe), text(&phantom(folder.path(), 3)));
        Self { folder, library, recipe, data }
    }

    fn out(&self, name: &str) -> String {
        text(&self.folder.path().join(name))
    }

    /// The words of a training with these parts in the recipe.
    fn words<'a>(&'a self, out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
        let run = ["train", &self.recipe, "--data", &self.data, "--out", out, "--device", "cpu", "--epochs", EPOCHS];
        run.into_iter().chain(sets.iter().flat_map(|set| ["--set", *set])).collect()
    }

    /// The program on a machine where the plugin is installed.
    fn program(&self) -> Command {
        let mut program = hearth();
        program.env("HEARTH_PLUGIN_PATH", &self.library);
        program
    }

    /// Runs a command there; returns what it printed.
    fn installed(&self, words: &[&str]) -> String {
        let output = self.program().args(words).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Trains with these parts in the recipe; returns what was reported.
    fn train(&self, name: &str, sets: &[&str], more: &[&str]) -> String {
        let out = self.out(name);
        let output = hearth().args(self.words(&out, sets)).args(more).output().unwrap();
        let said = errors(&output);
        assert!(output.status.success(), "{said}");
        said
    }
}

/// The numbers of a run for each epoch: losses, rates, metrics.
fn numbers(run: &Path) -> Vec<Vec<f64>> {
    let table = fs::read_to_string(run.join("metrics.csv")).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let timeless = |column: &usize| !["second", "time"].iter().any(|word| names[*column].contains(word));
    let columns: Vec<usize> = (0..names.len()).filter(timeless).collect();
    assert!(names.iter().any(|name| name.contains("loss")) && names.contains(&"mean_dice"), "{names:?}");
    lines.map(|line| columns.iter().filter_map(|column| line[*column].parse().ok()).collect()).collect()
}

/// Fails if numbers differ by more than rounding makes of them in a short run.
fn assert_alike(one: &[Vec<f64>], two: &[Vec<f64>], rounding: f64) {
    assert_eq!(one.len(), two.len());
    for (one, two) in one.iter().flatten().zip(two.iter().flatten()) {
        assert!((one - two).abs() <= rounding * two.abs().max(1.0), "{one} {two}");
    }
}

#[test]
fn a_run_with_parts_of_a_plugin_is_the_run_with_the_built_in_ones() {
    let given = Given::new();
    let of = |name: &str| numbers(&given.folder.path().join(name));
    given.train("ours", &[LOSS, SCHEDULE, INFERER], &[]);
    let plugin = ["--plugin", &given.library];
    given.train("parts", &[LOSS_OF_PLUGIN, SCHEDULE_OF_PLUGIN, INFERER_OF_PLUGIN], &plugin);
    assert_alike(&of("parts"), &of("ours"), 1e-3);
    let first = |run: &[Vec<f64>]| run[0].clone();
    given.train("constant", &[LOSS, INFERER], &[]);
    assert!(of("constant")[2] != of("ours")[2], "the schedule matters");
    given.train("dice", &[SCHEDULE, INFERER], &[]);
    assert!(first(&of("dice")) != first(&of("ours")), "the loss matters");
    // The run names the plugin with its file.
    let record = fs::read_to_string(given.folder.path().join("parts/run.json")).unwrap();
    assert!(record.contains(&given.library) && record.contains("learning"), "{record}");

    // Deep supervision, accumulated steps and other precisions use the loss as they use any other.
    let deep = |inner: &str| format!("loss={{name=\"DeepSupervisionLoss\",loss={{name=\"{inner}\"}}}}");
    for (accumulate, precision, rounding) in [(2, "fp32", 1e-3), (1, "fp16", 2e-2)] {
        let more = [format!("training.accumulate={accumulate}"), format!("training.precision=\"{precision}\"")];
        let (one, two) = (deep("CrossEntropyLoss"), deep("learning.Entropy"));
        let name = |of: &str| format!("{of}-{precision}");
        given.train(&name("ours"), &[&one, &more[0], &more[1]], &[]);
        given.train(&name("parts"), &[&two, &more[0], &more[1]], &plugin);
        assert_alike(&of(&name("parts")), &of(&name("ours")), rounding);
    }
}

#[test]
fn a_run_with_parts_of_a_plugin_resumes_to_the_bit() {
    let given = Given::new();
    let sets = [LOSS_OF_PLUGIN, SCHEDULE_OF_PLUGIN, INFERER_OF_PLUGIN];
    let whole = given.out("whole");
    given.installed(&given.words(&whole, &sets));
    let part = given.out("part");
    let words = given.words(&part, &sets);
    let mut child = given.program().args(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let checkpoints = |run: &str| -> Vec<PathBuf> {
        let Ok(entries) = Path::new(run).join("checkpoints").read_dir() else { return Vec::new() };
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.join("manifest.json").is_file());
        found.sort();
        found
    };
    let second = |path: &PathBuf| path.to_string_lossy().contains("epoch=0002");
    wait_until("the checkpoint of epoch 2", || checkpoints(&part).iter().any(second));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed before its end");
    given.installed(&["train", "--data", &given.data, "--out", &part, "--device", "cpu", "--resume"]);
    let weights = |run: &str| fs::read(checkpoints(run).pop().unwrap().join("network.safetensors")).unwrap();
    assert!(weights(&whole) == weights(&part), "the weights differ");
    let table = |run: &str| fs::read_to_string(Path::new(run).join("metrics.csv")).unwrap();
    assert_eq!(table(&whole), table(&part));
}

#[test]
fn commands_load_only_the_parts_that_they_compute() {
    let given = Given::new();
    let images = given.folder.path().join("data/imagesTr").read_dir().unwrap();
    let mut images = images.map(|entry| entry.unwrap().path());
    let image = text(&images.find(|path| path.extension().is_some_and(|end| end == "gz")).unwrap());
    let trained = |name: &str, sets: &[&str]| {
        let out = given.out(name);
        given.installed(&given.words(&out, sets));
        out
    };
    let learned = trained("learned", &[LOSS_OF_PLUGIN, SCHEDULE_OF_PLUGIN, INFERER]);
    // An installed plugin is recorded with version and hash.
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(Path::new(&learned).join("run.json")).unwrap()).unwrap();
    let kept: Vec<&str> = record["components"].as_array().unwrap().iter().map(|of| of.as_str().unwrap()).collect();
    assert!(kept.len() == 1 && kept[0].starts_with("learning 0.1.0 "), "{kept:?}");
    succeed(&["predict", &learned, "-i", &image, "--out", &given.out("predicted")]);
    succeed(&["evaluate", &learned, "--data", &given.data]);

    let inferred = trained("inferred", &[LOSS, SCHEDULE, INFERER_OF_PLUGIN]);
    let other = given.out("other");
    let predict = ["predict", &inferred, "-i", &image, "--out", &other];
    fail(&predict, 1, &["recipe.toml:", "no plugin `learning`"]);
    fail(&["evaluate", &inferred, "--data", &given.data], 1, &["recipe.toml:", "no plugin `learning`"]);
    given.installed(&predict);
    // The same network with the built-in inferer measures the same.
    let recipe = Path::new(&inferred).join("recipe.toml");
    let written = fs::read_to_string(&recipe).unwrap();
    let measure = || given.installed(&["evaluate", &inferred, "--data", &given.data, "--json"]);
    let of_plugin = measure();
    fs::write(&recipe, written.replace("learning.Whole", "SimpleInferer")).unwrap();
    assert_ne!(fs::read_to_string(&recipe).unwrap(), written);
    assert_eq!(measure(), of_plugin);
}

#[test]
fn wrong_parts_are_errors_before_the_run_or_with_case_and_step() {
    let given = Given::new();
    let out = given.out("wrong");
    let refused = |sets: &[&str], words: &[&str]| {
        let train = given.words(&out, sets).into_iter().chain(["--plugin", &given.library]).collect::<Vec<_>>();
        fail(&train, 1, words);
    };
    refused(&["loss={name=\"learning.Entrop\"}"], &["no loss Entrop", "learning.Entropy"]);
    refused(&["loss={name=\"learning.Poly\"}"], &["learning.Poly is a schedule, not a loss"]);
    refused(&["loss={name=\"learning.Entropy\",brken=1}"], &["unknown option `brken`", "broken"]);
    refused(&["schedule={name=\"learning.Poly\",broken=2}"], &["learning.Poly has no rate for step 2", "-1"]);
    refused(&["inferer={name=\"learning.Whole\",size=2}"], &["size"]);
    assert!(!Path::new(&out).exists(), "nothing was written");
    // Two cases train, so that the fifth call is in the third epoch.
    let broken = "loss={name=\"learning.Entropy\",broken=5}";
    refused(
        &[broken],
        &["the loss failed on", "spleen_", "gradient that the plugin returned are not finite", "iteration"],
    );
}
