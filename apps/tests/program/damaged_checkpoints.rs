//! Checkpoints that were damaged, or that another run wrote: no command takes other weights in their
//! place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fail, phantom, plugins_are_built, succeed, text, tiny_recipe};
use serde_json::Value;

/// A run of three epochs whose best checkpoint is not its last one, and its data.
fn trained(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let data = dir.join("data");
    let data = if data.exists() { data } else { phantom(dir, 4) };
    let (recipe, out) = (tiny_recipe(dir), dir.join(name));
    // The first epoch is the best one here: the network then learns to see background alone.
    let words = ["train", &text(&recipe), "--data", &text(&data), "--out", &text(&out), "--epochs", "3"];
    succeed(&[&words[..], &["--device", "cpu"]].concat());
    (out, data)
}

/// The checkpoint with this tag.
fn tagged(run: &Path, tag: &str) -> PathBuf {
    let mut found: Vec<PathBuf> =
        fs::read_dir(run.join("checkpoints")).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found.into_iter().rfind(|path| text(path).ends_with(tag)).expect("one of this tag")
}

fn flip(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("written");
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// The key metric of an epoch, from the table of the run.
fn dice_of(run: &Path, epoch: &str) -> f64 {
    let table = fs::read_to_string(run.join("metrics.csv")).expect("a table");
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let at = |column: &str| head.iter().position(|found| *found == column).unwrap_or_else(|| panic!("{head:?}"));
    let (epochs, dice) = (at("epoch"), head.iter().position(|found| found.ends_with("dice")).expect("a Dice"));
    rows.find(|row| row[epochs] == epoch).expect("a row")[dice].parse().expect("a number")
}

#[test]
fn a_damaged_best_checkpoint_is_never_replaced_by_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, data) = trained(dir.path(), "run");
    let (other, _) = trained(dir.path(), "other");
    let at = |name: &str| text(&dir.path().join(name));
    let (best, last) = (tagged(&run, "-best"), tagged(&run, "-final"));
    // What a package states is what its own weights reached.
    for (which, of) in [("best", &best), ("latest", &last)] {
        let package = at(&format!("{which}.hearth"));
        succeed(&["export", &text(&run), &package, "--checkpoint", which]);
        let info: Value = serde_json::from_str(&succeed(&["models", "info", &package, "--json"])).expect("JSON");
        let epoch = name(of)["epoch=".len()..][..4].trim_start_matches('0').to_owned();
        let stated = info["metadata"]["metrics"].as_object().expect("metrics").values().next().and_then(Value::as_f64);
        let expected = dice_of(&run, &epoch);
        assert!(stated.is_some_and(|found| (found - expected).abs() < 1e-4), "{which}: {stated:?} is not {expected}");
    }
    flip(&best.join("network.safetensors"));
    let (run_text, images, data) = (text(&run), text(&data.join("imagesTr")), text(&data));
    let said = [&*name(&best), "is damaged: network.safetensors", "intact are", &*name(&last), "--checkpoint NAME"];
    for words in [
        vec!["predict", &run_text, "-i", &images, "-o", &at("out"), "--device", "cpu"],
        vec!["evaluate", &run_text, "--data", &data, "--device", "cpu", "--out", &at("measured")],
        vec!["export", &run_text, &at("damaged.hearth")],
        vec!["export", &run_text, &at("damaged.onnx")],
        vec!["ensemble", &text(&other), &run_text, "-i", &images, "--device", "cpu", "--out", &at("merged")],
        vec!["models", "add", &run_text, "--store", &at("store")],
    ] {
        fail(&words, 1, &said);
    }
    let recipe = at("tiny.toml");
    let begin = ["train", &recipe, "--data", &data, "--epochs", "1", "--device", "cpu", "--out", &at("next"), "--init"];
    fail(&[&begin[..], &[&run_text]].concat(), 1, &said);
    fail(&[&begin[..], &[&text(&best)]].concat(), 1, &["is damaged: network.safetensors"]);
    // A lost manifest is damage, too: the name of the folder says that it was the best one.
    fs::remove_file(best.join("manifest.json")).expect("removed");
    fail(&["export", &run_text, &at("damaged.hearth")], 1, &["is damaged: it has no manifest.json", "intact are"]);
    assert!(!dir.path().join("damaged.hearth").exists() && !dir.path().join("out").exists());
    succeed(&["export", &run_text, &at("chosen.hearth"), "--checkpoint", &name(&last)]);
    // A best checkpoint that does not exist is another case, and the message does not invent a reason.
    fs::remove_dir_all(&best).expect("removed");
    let output = crate::common::run(&["export", &run_text, &at("latest2.hearth")]);
    let notes = crate::common::errors(&output);
    assert!(output.status.success() && notes.contains("no checkpoint is marked as best"), "{notes}");
    assert!(!notes.contains("has not validated") && notes.contains("taking the latest"), "{notes}");
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, data) = trained(dir.path(), "run");
    let (other, _) = trained(dir.path(), "other");
    let copy = run.join("checkpoints/epoch=0009-iteration=000099-best");
    let from = tagged(&other, "-best");
    copy_all(&from, &copy);
    // It is as new as the newest one.
    fs::remove_dir_all(tagged(&run, "-final")).expect("removed");
    let (run_text, data) = (text(&run), text(&data));
    let package = text(&dir.path().join("x.hearth"));
    let named = ["--checkpoint", "epoch=0009-iteration=000099-best"];
    fail(&[&["export", &run_text, &package][..], &named].concat(), 1, &["of another run", "move it out of the folder"]);
    for tag in ["-epoch", "-best"] {
        while let Some(ours) = ours(&run, tag) {
            fs::remove_dir_all(ours).expect("removed");
        }
    }
    let resume = ["train", "--data", &data, "--out", &run_text, "--device", "cpu", "--resume", "--epochs", "5"];
    for words in [&["export", &run_text, &package][..], &resume] {
        fail(words, 1, &["epoch=0009", "of another run", "move it out of the folder"]);
    }
}

/// A checkpoint that the run wrote itself.
fn ours(run: &Path, tag: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(run.join("checkpoints")).expect("a folder").flatten().map(|entry| entry.path());
    let mut entries = entries.filter(|path| !text(path).contains("epoch=0009"));
    entries.find(|path| text(path).ends_with(tag))
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// A resumed run names the checkpoints that it cannot use, whether they are the newest or the best.
#[test]
fn a_resumed_run_names_its_damaged_checkpoints() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, data) = trained(dir.path(), "run");
    let (best, last) = (tagged(&run, "-best"), tagged(&run, "-final"));
    // A file that is cut off, as by a full disk: its manifest does not fit any more.
    for folder in [&best, &last] {
        let file = folder.join("network.safetensors");
        let bytes = fs::read(&file).expect("read");
        fs::write(file, &bytes[..bytes.len() - 4]).expect("written");
    }
    let words = ["train", "--resume", "--data", &text(&data), "--out", &text(&run), "--epochs", "4"];
    let output = crate::common::run(&words);
    let said = crate::common::errors(&output);
    assert!(output.status.success(), "{said}");
    for folder in [&best, &last] {
        assert!(
            said.lines().any(|line| line.contains(&name(folder)) && line.contains("network.safetensors")),
            "{said}"
        );
    }
}
