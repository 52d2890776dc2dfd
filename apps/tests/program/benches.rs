//! `hearth bench ladder` and `hearth bench datasets`: their files, and a ladder that continues. No time
//! is compared.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{errors, fail, hearth, phantom, run, signal, succeed, text, tiny_recipe, wait_until};

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn is_picture(path: &Path) {
    assert!(fs::read(path).expect("a picture").starts_with(b"\x89PNG"), "{}", path.display());
}

/// The rows that train on a CPU for the tiny recipe, whose loss and optimizer are not the regular ones.
const ROWS: [&str; 7] =
    ["plain", "fused kernels", "cache", "threads", "loss DiceCELoss", "optimizer Novograd", "optimizer SGD"];

#[test]
fn a_ladder_trains_each_row_once_and_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, recipe, out) = (phantom(folder.path(), 3), tiny_recipe(folder.path()), folder.path().join("ladder"));
    let (data, recipe, folder_out) = (text(&data), text(&recipe), text(&out));
    let command = |more: &[&str]| {
        let mut words = vec!["bench", "ladder", &recipe, &data, "--out", &folder_out, "--threads", "2"];
        words.extend(["--epochs", "2", "--every", "1", "--target", "1.5"]);
        words.extend(more);
        words.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    succeed(&command(&["--seeds", "1"]));
    let first = lines(&out.join("ladder.jsonl"));
    let named = |line: &Value| line["row"].as_str().expect("a name").to_owned();
    assert_eq!(first.iter().map(named).collect::<Vec<_>>(), ROWS);
    for line in &first {
        // Two epochs, and a target that no Dice reaches.
        assert_eq!((line["epochs"].as_u64(), line["seed"].as_u64()), (Some(2), Some(0)), "{line}");
        assert!(line["seconds"].is_null() && line["target_epoch"].is_null(), "{line}");
        assert_eq!(line["curve"].as_array().map(Vec::len), Some(2), "{line}");
        assert_eq!(line["peer"], "hearth", "{line}");
    }
    let page = fs::read_to_string(out.join("ladder.md")).expect("the table");
    assert!(page.contains("| not reached |") && page.contains("- AMP: a CPU computes in fp32"), "{page}");
    for name in ["ladder.png", "ladder-dice.png"] {
        is_picture(&out.join(name));
    }

    // A second seed trains each row once more; the first lines are those of before.
    let output = run(&command(&["--seeds", "2", "--resume"]));
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(errors(&output).matches("seed 0: finished before").count(), ROWS.len());
    let both = lines(&out.join("ladder.jsonl"));
    assert_eq!((both.len(), &both[..ROWS.len()]), (2 * ROWS.len(), first.as_slice()));
    assert!(both[ROWS.len()..].iter().all(|line| line["seed"] == 1));
    assert!(fs::read_to_string(out.join("ladder.md")).expect("the table").contains("| 0 of 2 |"));

    fail(&command(&[]), 1, &["holds a ladder", "--resume"]);
    let mut other = command(&["--resume"]);
    other.iter_mut().filter(|word| *word == "1.5").for_each(|word| *word = "1.25".to_owned());
    fail(&other, 1, &["target 1.5, and now it is 1.25"]);
}

/// The raw lines of another program, here our own under another name, are rows of the table below ours.
#[test]
fn another_program_is_shown_beside_the_chosen_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (phantom(folder.path(), 3), tiny_recipe(folder.path()));
    let (data, recipe) = (text(&data), text(&recipe));
    let command = |out: &Path, more: &[&str]| {
        let mut words = vec!["bench", "ladder", &recipe, &data, "--threads", "2", "--epochs", "1", "--every", "1"];
        words.extend(["--target", "1.5", "--rows", "kernels,loss", "--out"]);
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.push(text(out));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    };
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    succeed(&command(&first, &[]));
    let rows = lines(&first.join("ladder.jsonl"));
    assert_eq!(
        rows.iter().filter_map(|row| row["row"].as_str()).collect::<Vec<_>>(),
        ["fused kernels", "loss DiceCELoss"]
    );
    let page = fs::read_to_string(first.join("ladder.md")).expect("the table");
    assert!(page.contains("- plain: not in --rows"), "{page}");
    // The changes of the rows that are left out are made: without the loss of `plain` these two rows would
    // be one.
    let course = |row: &Value| row["curve"][0]["value"].clone();
    assert_ne!(course(&rows[0]), course(&rows[1]));

    let peer = folder.path().join("peer.jsonl");
    let renamed: Vec<String> = rows
        .into_iter()
        .map(|mut row| {
            row["peer"] = "other".into();
            row.to_string()
        })
        .collect();
    fs::write(&peer, renamed.join("\n")).expect("written");
    succeed(&command(&second, &["--peer", &text(&peer)]));
    let page = fs::read_to_string(second.join("ladder.md")).expect("the table");
    let at = |row: &str| page.find(&format!("| {row} |")).unwrap_or_else(|| panic!("{row}: {page}"));
    assert!(at("fused kernels") < at("fused kernels (other)") && at("fused kernels (other)") < at("loss DiceCELoss"));
    assert_eq!(lines(&second.join("ladder.jsonl")).len(), 2, "rows of others are not ours");

    // Measured with another target.
    fs::write(&peer, renamed[0].replace("1.5", "0.5")).expect("written");
    fail(&command(&folder.path().join("third"), &["--peer", &text(&peer)]), 1, &["line 1", "target 0.5"]);
}

/// A target that the first validation reaches ends each training.
#[test]
fn a_row_ends_at_its_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, recipe, out) = (phantom(folder.path(), 3), tiny_recipe(folder.path()), folder.path().join("ladder"));
    let (data, recipe, out_text) = (text(&data), text(&recipe), text(&out));
    succeed(&[
        "bench",
        "ladder",
        &recipe,
        &data,
        "--out",
        &out_text,
        "--threads",
        "2",
        "--epochs",
        "9",
        "--every",
        "2",
        "--target",
        "0",
    ]);
    let lines = lines(&out.join("ladder.jsonl"));
    assert_eq!(lines.len(), ROWS.len());
    for line in &lines {
        assert_eq!((line["target_epoch"].as_u64(), line["epochs"].as_u64()), (Some(2), Some(2)), "{line}");
        assert!(line["seconds"].as_f64() <= line["total"].as_f64(), "{line}");
    }
}

#[test]
fn kinds_of_data_sets_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, peer) = (folder.path().join("kinds"), folder.path().join("peer.jsonl"));
    // A line of docs/benches/datasets_peer.py.
    let line = serde_json::json!({
        "peer": "monai", "monai": "1.6.1", "threads": 2, "bench": "datasets", "kind": "CacheDataset", "data": "kinds",
        "cases": 5, "samples": 20, "patch": 16, "batch": 2, "start_seconds": 11.25, "restart_seconds": null,
        "epoch_seconds": [0.125, 0.25], "seconds": 11.75, "peak": 1_073_741_824_u64,
    });
    fs::write(&peer, line.to_string()).expect("written");
    let printed = succeed(&[
        "bench",
        "datasets",
        "--cases",
        "5",
        "--size",
        "32",
        "--patch",
        "16",
        "--epochs",
        "2",
        "--threads",
        "2",
        "--out",
        &text(&out),
        "--peer",
        &text(&peer),
    ]);
    let rows = lines(&out.join("datasets.jsonl"));
    let names: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
    let expected = ["Dataset", "PersistentDataset", "LMDBDataset", "CacheDataset", "SmartCacheDataset"];
    assert_eq!(names, expected);
    for (row, name) in rows.iter().zip(expected) {
        // Four of five cases are in the window of a smart cache, and each case has four crops.
        let cases = if name == "SmartCacheDataset" { 4 } else { 5 };
        assert_eq!((row["cases"].as_u64(), row["samples"].as_u64()), (Some(cases), Some(4 * cases)), "{row}");
        assert_eq!(row["epoch_seconds"].as_array().map(Vec::len), Some(2), "{row}");
        let outlives = matches!(name, "PersistentDataset" | "LMDBDataset");
        assert_eq!(row["restart_seconds"].is_number(), outlives, "{row}");
    }
    let kept = fs::read_to_string(out.join("datasets.jsonl")).expect("the lines");
    assert!(kept.lines().all(|line| printed.lines().any(|other| other == line)), "{printed}");
    let page = fs::read_to_string(out.join("datasets.md")).expect("the table");
    assert!(expected.iter().all(|name| page.contains(&format!("| {name} |"))), "{page}");
    let row = "| CacheDataset (monai) | 11.25 s | - | 125.0 ms | 250.0 ms | 11.75 s | 1.0 GiB |";
    assert!(page.contains(row), "{page}");
    is_picture(&out.join("datasets.png"));
}

/// An option or a file that a bench does not use is an error, also one with a default.
#[test]
fn what_a_bench_does_not_use_is_refused() {
    fail(&["bench", "ladder", "--runs", "3"], 1, &["bench ladder", "--runs", "--seeds"]);
    fail(&["bench", "load", "x.nii", "--amp", "bf16"], 1, &["bench load", "--amp"]);
    fail(&["bench", "import", "--device", "cpu"], 1, &["bench import", "--device"]);
    fail(&["bench", "step", "--seed", "1"], 1, &["bench step", "--seed"]);
    fail(&["bench", "load", "x.nii", "y.nii"], 1, &["y.nii", "expected 1 file"]);
    fail(&["bench", "datasets", "data", "--cases", "3"], 1, &["--cases", "generated"]);
    fail(&["bench", "ladder", "demo"], 1, &["needs a recipe and its data"]);
    fail(&["bench", "ladder", "--resume"], 2, &["--out"]);
    fail(&["bench", "ladder", "--rows", "plane"], 1, &["\"plane\"", "plain, fused kernels"]);
    fail(&["bench", "fit", "data", "--rows", "plain"], 1, &["bench fit", "--rows"]);
    fail(&["bench", "datasets", "--peer", "none.jsonl"], 1, &["none.jsonl"]);
}

/// Generated volumes and caches are gigabytes: none stays, whatever ends the bench.
#[cfg(unix)]
#[test]
fn an_interrupted_bench_leaves_no_temporary_folder() {
    for bench in ["ladder", "datasets"] {
        let temporary = tempfile::tempdir().expect("a folder");
        let entries = || fs::read_dir(temporary.path()).expect("a folder").flatten();
        let words = ["bench", bench, "--cases", "8", "--size", "64", "--threads", "1"];
        let mut command = hearth();
        command.args(words).env("TMPDIR", temporary.path()).stderr(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().expect("started");
        // The volumes are being written.
        let is_filled = |folder: &Path| folder.read_dir().is_ok_and(|mut inside| inside.next().is_some());
        wait_until("temporary volumes", || entries().any(|made| is_filled(&made.path())));
        signal(&child, "INT");
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(130), "{bench}: {}", errors(&output));
        let left: Vec<_> = entries().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{bench}: {left:?}");
    }
}
