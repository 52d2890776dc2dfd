//! Files that are not what their names say: links that another user has placed in a run's folder, what
//! killed processes left, named pipes and sockets in the place of inputs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{errors, fail, hearth, phantom, plugins_are_built, run, succeed, text, tiny_recipe};

/// A run of one epoch, its recipe and its data.
fn trained(dir: &Path) -> (PathBuf, PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let (recipe, data, out) = (tiny_recipe(dir), phantom(dir, 3), dir.join("run"));
    let words = ["train", &text(&recipe), "--data", &text(&data), "--out", &text(&out), "--epochs", "1"];
    succeed(&[&words[..], &["--device", "cpu"]].concat());
    (out, recipe, data)
}

#[test]
fn a_planted_link_is_never_written_through() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run_folder, recipe, data) = trained(dir.path());
    let victim = dir.path().join("of-another");
    fs::write(&victim, "kept").expect("written");
    let intact = || assert_eq!(fs::read_to_string(&victim).expect("read"), "kept");
    let (recipe, data) = (text(&recipe), text(&data));
    for name in ["run.lock", ".hearth-can-write", ".writing-x"] {
        let out = dir.path().join(format!("new{name}"));
        fs::create_dir(&out).expect("made");
        symlink(&victim, out.join(name)).expect("a link");
        let words = ["train", &recipe, "--data", &data, "--out", &text(&out), "--epochs", "1", "--device", "cpu"];
        fail(&words, 1, &["is not empty"]);
        intact();
    }
    for (epochs, name) in
        (2..).zip(["run.lock", "log.jsonl", "metrics.csv", "warnings.jsonl", "summary.json", "run.json"])
    {
        let (file, epochs) = (run_folder.join(name), format!("{epochs}"));
        let before = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        symlink(&victim, &file).expect("a link");
        let out = text(&run_folder);
        let resumed = ["train", "--data", &data, "--out", &out, "--epochs", &epochs, "--device", "cpu", "--resume"];
        let output = run(&resumed);
        intact();
        let said = errors(&output);
        assert!(!said.contains("panicked"), "{said}");
        if name == "run.lock" {
            assert!(!output.status.success() && said.contains("symbolic link") && said.contains("run.lock"), "{said}");
        }
        let _ = fs::remove_file(&file);
        before.map(|bytes| fs::write(&file, bytes).expect("written")).unwrap_or_default();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_writer_left_is_removed_by_the_next_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run_folder, _, data) = trained(dir.path());
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the system's mark");
    let mark: String = id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let out = dir.path().join("labels");
    fs::create_dir(&out).expect("made");
    let (left, of_others) = (out.join(format!(".writing-{mark}-left")), out.join(".writing-00000000-new"));
    for file in [&left, &of_others] {
        fs::write(file, "half").expect("written");
    }
    let (folder, images) = (text(&run_folder), text(&data.join("imagesTr")));
    let output = run(&["predict", &folder, "-i", &images, "-o", &text(&out), "--device", "cpu"]);
    let said = errors(&output);
    assert!(output.status.success() && said.contains("unfinished files or folders of killed processes"), "{said}");
    assert!(!left.exists() && of_others.exists(), "another machine may still write its file");
    // A checkpoint that was half-written.
    let partial = run_folder.join("checkpoints/.partial-epoch=0002-iteration=000004-epoch");
    fs::create_dir(&partial).expect("made");
    fs::write(partial.join("network.safetensors"), "half").expect("written");
    let data = text(&data);
    let resumed = ["train", "--data", &data, "--out", &folder, "--epochs", "2", "--device", "cpu", "--resume"];
    let output = run(&resumed);
    let said = errors(&output);
    assert!(output.status.success() && said.contains("which a killed process left"), "{said}");
    assert!(!partial.exists());
}

/// Standard error of a command that ends within half a minute, with exit code 1.
fn refused(words: &[&str]) -> String {
    let mut child =
        hearth().args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let start = Instant::now();
    while child.try_wait().expect("its state").is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().expect("killed");
            panic!("it waits: {words:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    said
}

#[test]
fn a_pipe_is_refused_at_once_wherever_a_file_is_expected() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run_folder, recipe, data) = trained(dir.path());
    let at = |name: &str| text(&dir.path().join(name));
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(at(name)).status().expect("mkfifo");
        assert!(made.success());
        at(name)
    };
    let (out, run_text, recipe, data) = (at("out"), text(&run_folder), text(&recipe), text(&data));
    let image = pipe("image.nii.gz");
    let cpu = ["--device", "cpu"];
    for words in [
        &["predict", &run_text, "-i", &image, "-o", &out, cpu[0], cpu[1]][..],
        &["data", "inspect", &image],
        &["train", &pipe("recipe.toml"), "--data", &data, "--out", &out, cpu[0], cpu[1]],
        &["train", &recipe, "--data", &pipe("list.csv"), "--out", &out, cpu[0], cpu[1]],
        &["train", &recipe, "--data", &pipe("list.json"), "--out", &out, cpu[0], cpu[1]],
        &["train", &recipe, "--data", &data, "--init", &pipe("weights.safetensors"), "--out", &out, cpu[0], cpu[1]],
        &["predict", &pipe("model.hearth"), "-i", &image, "-o", &out, cpu[0], cpu[1]],
        &["models", "info", &at("model.hearth")],
        &["convert", &pipe("weights.pth"), &at("converted.safetensors")],
        &["metrics", "-p", &image, "-l", &image],
    ] {
        let said = refused(words);
        assert!(said.contains("named pipe") || said.contains("regular file"), "{words:?}: {said}");
    }
    // Files of a run.
    let checkpoint =
        fs::read_dir(run_folder.join("checkpoints")).expect("a folder").flatten().map(|entry| entry.path());
    let best = checkpoint.into_iter().find(|path| text(path).ends_with("-best")).expect("a best one");
    for file in [best.join("network.safetensors"), best.join("manifest.json"), run_folder.join("run.json")] {
        let (bytes, name) = (fs::read(&file).expect("read"), text(&file));
        fs::remove_file(&file).expect("removed");
        assert!(std::process::Command::new("mkfifo").arg(&name).status().expect("mkfifo").success());
        let said = refused(&["export", &run_text, &at("x.hearth")]);
        let file_name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(said.contains(&file_name), "{file_name}: {said}");
        fs::remove_file(&file).expect("removed");
        fs::write(&file, bytes).expect("written");
    }
    // A data set with a pipe among its images.
    let labels = dir.path().join("data/labelsTr");
    let first = fs::read_dir(&labels).expect("a folder").flatten().next().expect("a label").path();
    fs::remove_file(&first).expect("removed");
    let name = first.file_name().expect("a name").to_string_lossy().into_owned();
    pipe(&format!("data/labelsTr/{name}"));
    let said = refused(&["train", &recipe, "--data", &data, "--out", &out, cpu[0], cpu[1], "--epochs", "1"]);
    assert!(said.contains(&name), "{said}");
}
