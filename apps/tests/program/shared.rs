//! Commands whose cases several ranks share: they write and print the same as one rank.

// Launchers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{errors, hearth, phantom, plugins_are_built, tiny_recipe};
use crate::launchers::{By, launchers};
use crate::pathology::{slides, train};

/// Runs a command in `folder` on `ranks` ranks.
fn run(folder: &Path, by: By, ranks: usize, words: &[&str]) -> Output {
    let mut command = hearth();
    command.current_dir(folder).env("RAYON_NUM_THREADS", "1").args(words);
    by.start(&mut command, folder, ranks);
    command.output().expect("the program starts")
}

fn succeed(folder: &Path, by: By, ranks: usize, words: &[&str]) -> Vec<String> {
    let output = run(folder, by, ranks, words);
    assert!(output.status.success(), "{by:?}, {words:?}: {}", errors(&output));
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    // Each rank's results are printed together.
    lines.sort();
    lines
}

/// The files of a folder with their content; records contain the command's folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let list = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let results = list.filter(|path| path.is_file());
    results.map(|path| (path.file_name().expect("a name").into(), fs::read(&path).expect("a file"))).collect()
}

/// A run and the data of three folds.
fn bench() -> tempfile::TempDir {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 7);
    tiny_recipe(dir.path());
    let words = ["train", "tiny.toml", "--data", "data", "--out", "run", "--device", "cpu", "--epochs", "2"];
    succeed(dir.path(), By::Threads, 1, &words);
    dir
}

#[test]
fn cases_are_shared() {
    let dir = bench();
    let folder = dir.path();
    let words = |command: &'static str| -> Vec<&'static str> {
        match command {
            "predict" => vec!["predict", "run", "-i", "data", "--probabilities", "--picture", "--device", "cpu", "-o"],
            "ensemble" => vec!["ensemble", "run", "run2", "-i", "data", "--vote", "--device", "cpu", "-o"],
            "evaluate" => vec!["evaluate", "run", "--data", "data", "--all", "--csv", "--device", "cpu", "-o"],
            "of several" => {
                vec!["evaluate", "run", "run2", "--data", "data", "--all", "--csv", "--device", "cpu", "-o"]
            }
            "original" => {
                let grid = ["--grid", "original", "--csv", "--device", "cpu", "-o"];
                ["evaluate", "run", "--data", "data", "--all"].into_iter().chain(grid).collect()
            }
            _ => vec!["preprocess", "tiny.toml", "--data", "data", "-o"],
        }
    };
    let other = ["train", "tiny.toml", "--data", "data", "--out", "run2", "--device", "cpu", "--epochs", "1"];
    succeed(folder, By::Threads, 1, &other);
    for command in ["predict", "ensemble", "evaluate", "of several", "original", "preprocess"] {
        let alone = succeed(folder, By::Threads, 1, &[&words(command)[..], &["out"]].concat());
        let expected = files(&folder.join("out"));
        fs::remove_dir_all(folder.join("out")).expect("removed");
        assert!(!alone.is_empty() && !expected.is_empty());
        // Also with more ranks than cases, so that some have nothing to do.
        for (by, ranks) in launchers().into_iter().flat_map(|by| [(by, 3), (by, 8)]) {
            let printed = succeed(folder, by, ranks, &[&words(command)[..], &["out"]].concat());
            assert_eq!(printed, alone, "{by:?}, {ranks} ranks of {command}");
            let found = files(&folder.join("out"));
            assert!(found.keys().eq(expected.keys()), "{by:?}, {ranks} ranks of {command}: {:?}", found.keys());
            for (name, bytes) in &found {
                // A report does not contain its own folder.
                assert!(bytes == &expected[name], "{by:?}, {ranks} ranks of {command}: {} differs", name.display());
            }
            fs::remove_dir_all(folder.join("out")).expect("removed");
        }
    }
}

/// Slides are a job like volumes: two ranks write what one process does, byte by byte.
#[test]
fn slides_are_shared() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path();
    let data = slides(folder);
    train(&data, &folder.join("run"), "training.seed=0");
    let words = ["predict", "run", "-i", "data/tumor_00.tif", "data/normal_01.tif", "--device", "cpu", "-o", "out"];
    let alone = succeed(folder, By::Threads, 1, &words);
    let expected = files(&folder.join("out"));
    let names: Vec<String> = expected.keys().map(|name| name.display().to_string()).collect();
    let of_slide = |name: &str| [".geojson", ".npy", "_heat.tif", "_picture.png"].map(|end| format!("{name}{end}"));
    assert_eq!(names, [of_slide("normal_01"), of_slide("tumor_00")].concat());
    assert_eq!(alone.len(), 8, "{alone:?}");
    fs::remove_dir_all(folder.join("out")).expect("removed");
    for by in launchers() {
        let printed = succeed(folder, by, 2, &words);
        assert_eq!(printed, alone, "{by:?}");
        assert!(files(&folder.join("out")) == expected, "{by:?}: other files");
        let said = errors(&run(folder, by, 2, &words));
        assert_eq!(said.matches("done by an earlier call").count(), 2, "{by:?}: {said}");
        fs::remove_dir_all(folder.join("out")).expect("removed");
    }
}

#[test]
fn folds_are_shared_and_resumed() {
    let dir = bench();
    let folder = dir.path();
    let words = |out: &'static str| {
        ["train", "tiny.toml", "--data", "data", "--out", out, "--device", "cpu", "--epochs", "6", "--folds", "3"]
    };
    let alone = succeed(folder, By::Threads, 1, &words("alone"));
    let table = fs::read(folder.join("alone/cross_validation.csv")).expect("a table");
    assert!(!alone.iter().any(|line| line.starts_with("mean_dice  mean    0.0000  0.0000  0.0000")), "{alone:?}");
    for by in launchers() {
        if by == By::Threads {
            let said = errors(&run(folder, by, 2, &words("threads")));
            assert!(said.contains("in a process of its own") && said.contains("mpirun"), "{said}");
            assert!(!folder.join("threads").exists());
            continue;
        }
        let printed = succeed(folder, by, 2, &words("shared"));
        let mut named: Vec<String> = alone.iter().map(|line| line.replace("alone", "shared")).collect();
        named.sort();
        assert_eq!(printed, named, "{by:?}");
        assert!(fs::read(folder.join("shared/cross_validation.csv")).expect("a table") == table, "{by:?}");
        // One fold is removed; only this fold is trained again.
        fs::remove_dir_all(folder.join("shared/fold1")).expect("removed");
        fs::remove_file(folder.join("shared/cross_validation.csv")).expect("removed");
        let resume = ["train", "--data", "data", "--out", "shared", "--device", "cpu", "--resume"];
        succeed(folder, by, 3, &resume);
        assert!(fs::read(folder.join("shared/cross_validation.csv")).expect("a table") == table, "{by:?}");
        fs::remove_dir_all(folder.join("shared")).expect("removed");
    }
}

#[test]
fn a_case_that_fails_is_named_once_and_the_others_are_done() {
    let dir = bench();
    let folder = dir.path();
    fs::create_dir(folder.join("in")).expect("a folder");
    for case in 0..4 {
        let name = format!("spleen_{case:02}.nii.gz");
        let bytes = fs::read(folder.join("data/imagesTr").join(&name)).expect("an image");
        let kept = if case == 1 { 2000 } else { bytes.len() };
        fs::write(folder.join("in").join(&name), &bytes[..kept]).expect("written");
    }
    for by in launchers() {
        let words = ["predict", "run", "-i", "in", "-o", "out", "--device", "cpu"];
        let output = run(folder, by, 2, &words);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{by:?}: {said}");
        assert_eq!(said.matches("1 of 4 images failed").count(), 1, "{by:?}: {said}");
        assert!(said.contains("spleen_01.nii.gz: damaged gzip"), "{by:?}: {said}");
        // With the list of failures and the table of volumes.
        assert_eq!(files(&folder.join("out")).len(), 5, "{by:?}");
        // Existing results are not computed again, and not replaced by predictions with other options.
        let said = errors(&run(folder, by, 2, &words));
        assert_eq!(said.matches("done by an earlier call").count(), 3, "{said}");
        assert_eq!(said.matches("1 of 1 images failed").count(), 1, "{said}");
        let said = errors(&run(folder, by, 2, &[&words[..], &["--tta", "flips"]].concat()));
        assert_eq!(said.matches("exists, written by").count(), 1, "{said}");
        let said = errors(&run(folder, by, 2, &["predict", "nowhere", "-i", "in", "-o", "none", "--device", "cpu"]));
        assert_eq!(said.matches("there is no run at nowhere").count(), 1, "{by:?}: {said}");
        fs::remove_dir_all(folder.join("out")).expect("removed");
    }
}
