//! The demos of all apps with a short training, and the commands of README.md on the files of one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use clap::ValueEnum;
use hearth_apps::commands::demo::App;

use crate::common::{errors, hearth, run, succeed, text};

/// The files that each demo leaves, apart from the run.
fn files(app: App) -> &'static [&'static str] {
    match app {
        App::Spleen | App::Brats | App::Lung => &["summary.json", "overlay.png", "labels"],
        App::Pathology => &["summary.json", "froc.png", "maps"],
        App::Ensemble => &["summary.json", "overlay.png", "labels"],
        App::Gan => &["summary.json", "generated.png"],
    }
}

fn demo(app: App, out: &Path) {
    let name = app.to_possible_value().expect("a word").get_name().to_owned();
    let found = run(&["demo", &name, "--epochs", "1", "--device", "cpu", "--out", &text(out)]);
    assert!(found.status.success(), "{name}: {}", errors(&found));
    for file in files(app) {
        let path = out.join(file);
        assert!(path.exists(), "{name}: no {file}");
        if file.ends_with(".png") {
            let picture = hearth_data::read_image(&path).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert!(picture.shape()[..2].iter().all(|side| *side >= 64), "{name}: {file}: {:?}", picture.shape());
        }
    }
    let summary = std::fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert!(summary["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{summary}");
    let curves = succeed(&["watch", "--once", &text(&first_run(&out.join("run")))]);
    assert!(curves.contains("1/1") || curves.contains("epoch 1 of 1"), "{name}: {curves}");
}

/// The run, or the first of its folds.
fn first_run(run: &Path) -> std::path::PathBuf {
    let fold = run.join("fold0");
    if fold.is_dir() { fold } else { run.to_owned() }
}

#[test]
fn every_demo_runs_to_its_end() {
    let dir = tempfile::tempdir().expect("a folder");
    for app in App::value_variants().iter().filter(|app| **app != App::Spleen) {
        let out = dir.path().join(format!("{app:?}"));
        demo(*app, &out);
        std::fs::remove_dir_all(out).expect("removed");
    }
}

/// Each line of README's blocks that begins with `hearth`, run where a reader would be after the first
/// command.
#[test]
fn the_commands_of_the_readme_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path();
    demo(App::Spleen, &here.join("demo"));
    std::fs::rename(here.join("demo/data"), here.join("Task09_Spleen")).expect("the data set");
    let image = here.join("Task09_Spleen/imagesTr/spleen_00.nii.gz");
    std::fs::copy(&image, here.join("patient.nii.gz")).unwrap_or_else(|error| panic!("{}: {error}", image.display()));

    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).expect("README.md");
    let commands = readme.lines().filter_map(|line| line.strip_prefix("hearth ")).map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let mut count = 0;
    for mut words in commands {
        count += 1;
        let shorter: &[&str] = match words[0].as_str() {
            // The bundled recipe, with few channels and epochs.
            "train" => &[
                "--epochs",
                "1",
                "--device",
                "cpu",
                "--set",
                "training.val_interval=1",
                "--set",
                "network.channels=[4, 8, 8, 8, 8]",
            ],
            "predict" => &["--device", "cpu"],
            "watch" => &["--once"],
            "serve" => &["--port", "0", "--device", "cpu"],
            "plugin" => &[],
            other => panic!("README.md has a new command, {other}: add it here"),
        };
        words.extend(shorter.iter().map(|word| (*word).to_owned()));
        let mut command = hearth();
        command.current_dir(here).args(&words);
        if words[0] == "serve" {
            let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("standard output")).read_line(&mut line).expect("a line");
            child.kill().and_then(|()| child.wait()).expect("it ends");
            assert!(line.starts_with("http://"), "{line:?}");
            continue;
        }
        let found = command.output().expect("the program starts");
        assert!(found.status.success(), "hearth {}: {}", words.join(" "), errors(&found));
    }
    assert!(count >= 5, "README.md has {count} commands of the program");
    for file in ["runs/spleen/metrics.csv", "labels/patient_seg.nii.gz", "mine/Cargo.toml"] {
        assert!(here.join(file).is_file(), "no {file}");
    }
}
