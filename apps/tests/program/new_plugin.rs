//! A plugin from its creation to a run: `hearth plugin new`, `dev`, options by `--set`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{TINY, errors, fail, hearth, phantom, succeed, text, tiny_recipe};

/// The folder of Cargo's outputs: it stays, so that the dependencies of plugins are compiled once.
fn target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_hearth")).parent().unwrap().with_file_name("scaffold")
}

/// Cargo offline.
fn offline(command: &mut Command) -> &mut Command {
    command.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS")
}

/// A new plugin whose Cargo does not use the network.
fn new(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let dir = folder.join(name);
    let said = succeed(&[&["plugin", "new", name, "--out", &text(&dir)], more].concat());
    assert!(said.contains("src/lib.rs") && said.contains("the SDK of this program"), "{said}");
    dir
}

#[test]
fn a_fresh_plugin_shows_something_in_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let dir = new(folder.path(), "run-diary", &[]);
    let (data, recipe) = (phantom(folder.path(), 3), text(&tiny_recipe(folder.path())));
    let out = folder.path().join("run{n}");
    let (dir, data, out) = (text(&dir), text(&data), text(&out));
    let run = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "2", "--device", "cpu"];
    let words = [&["plugin", "dev", &dir, "--once", "--"], &run[..]].concat();
    let output = offline(hearth().args(&words)).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\nrun-diary: epoch 1 of 2 is done, mean_dice "), "{said}");
    assert!(said.contains("\nrun-diary: epoch 2 of 2 is done"), "{said}");
    assert!(folder.path().join("run1/summary.json").is_file());

    // The plugin's options, set without an entry in the recipe.
    let library = said.split_whitespace().find(|word| word.contains("librun_diary")).unwrap().to_owned();
    let out = text(&folder.path().join("set"));
    let words =
        ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "2", "--device", "cpu", "--plugin", &library];
    let set =
        [&words[..], &["--set", "plugins.run-diary.every=2", "--set", "plugins.stats.every_iterations=0"]].concat();
    let output = hearth().args(&set).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("epoch 1 of 2 is done") && said.contains("run-diary: epoch 2 of 2 is done"), "{said}");
    let written = fs::read_to_string(folder.path().join("set/recipe.toml")).unwrap();
    assert!(written.contains("every = 2") && written.contains("name = \"checkpoint\""), "{written}");
    let out = text(&folder.path().join("wrong"));
    let words = ["train", &recipe, "--data", &data, "--out", &out, "--plugin", &library];
    fail(&[&words[..], &["--set", "plugins.run-diary.evry=2"]].concat(), 1, &["unknown option `evry`", "every"]);
    fail(&[&words[..], &["--set", "plugins.diary.every=2"]].concat(), 1, &["unknown name \"diary\"", "run-diary"]);
}

/// What handlers of the gallery need of a real run: its recipe, and cases with their metrics in the validation.
#[cfg(target_os = "linux")]
#[test]
fn plugins_of_the_gallery_work_in_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let build = |template: &str| {
        let dir = new(folder.path(), template, &["--template", template]);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = offline(Command::new(cargo).args(["build", "--release"]).current_dir(dir)).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        text(&target().join(format!("release/lib{}.so", template.replace('-', "_"))))
    };
    let (mlflow, worst) = (build("mlflow"), build("worst-cases"));
    let others = ["validation", "stats", "checkpoint"].map(|name| format!("[[plugins]]\nname = \"{name}\"\n")).concat();
    let worst_cases =
        "[[plugins]]\nname = \"worst-cases\"\nengine = \"validation\"\noptions = { metric = \"mean_dice\" }\n";
    let (recipe, run, files) = (folder.path().join("a.toml"), folder.path().join("run"), folder.path().join("mlruns"));
    fs::write(&recipe, format!("{TINY}\n{others}{worst_cases}")).unwrap();
    let (recipe, data, out) = (text(&recipe), text(&phantom(folder.path(), 3)), text(&run));
    let option = format!("plugins.mlflow.folder=\"{}\"", text(&files));
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "2", "--device", "cpu"];
    succeed(&[&train[..], &["--plugin", &mlflow, "--plugin", &worst, "--set", &option]].concat());
    let runs: Vec<PathBuf> = files.join("hearth").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    let logged = runs.iter().find(|path| path.is_dir()).expect("a run");
    let read = |file: &str| fs::read_to_string(logged.join(file)).expect(file);
    assert_eq!((read("params/network.name"), read("params/training.epochs")), ("UNet".into(), "2".into()));
    assert_eq!((read("metrics/mean_dice").lines().count(), read("metrics/loss").lines().count()), (2, 2));
    assert!(read("meta.yaml").contains("\"status\":3"));
    let attached = run.join("validation/attachments/worst-cases");
    let table = fs::read_to_string(attached.join("worst.md")).unwrap();
    assert!(table.starts_with("| case | mean_dice |") && table.contains("spleen_"), "{table}");
    assert!(attached.join("worst_1.png").is_file());
}

#[test]
fn a_change_is_built_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = new(folder.path(), "changing", &["--template", "early-stop"]);
    let mut command = hearth();
    let mut child = offline(command.args(["plugin", "dev", &text(&dir)]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The output of Cargo and of the program comes through one pipe, in order.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    let mut until = |word: &str| {
        for line in lines.by_ref() {
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(word)) {
                return;
            }
        }
        panic!("no {word:?} in {seen:#?}");
    };
    until("waiting for a change");
    let source = dir.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("patience: u64 = 10", "patience: u64 = \"ten\"")).unwrap();
    until("changed: building again");
    until("mismatched types");
    until("is not built");
    fs::write(&source, text.replace("patience: u64 = 10", "patience: u64 = 3")).unwrap();
    until("changed: building again");
    until("waiting for a change");
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let checked = String::from_utf8_lossy(&output.stdout);
    assert!(checked.contains("patience = 10") && checked.contains("patience = 3"), "{checked}");
}

#[test]
fn what_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(&folder.path().join("none"));
    fail(&["plugin", "dev", &dir], 1, &["Cargo.toml: there is no such file", "hearth plugin new"]);
    fail(&["plugin", "update", &dir], 1, &["Cargo.toml"]);
    fail(&["plugin", "new", "Bad", "--out", &dir], 1, &["`Bad` cannot be the name of a plugin"]);
    fail(&["plugin", "new", "good", "--template", "hand", "--out", &dir], 2, &["handler", "metric-exporter"]);
    assert!(!Path::new(&dir).exists());
}
