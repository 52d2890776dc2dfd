//! Killed or interrupted, then resumed: the run ends as if it had not been stopped.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::{errors, fail, hearth, phantom, plugins_are_built, signal, succeed, text, tiny_recipe, wait_until};

struct Bench {
    dir: tempfile::TempDir,
    recipe: PathBuf,
    data: PathBuf,
}

impl Bench {
    fn new() -> Self {
        assert!(plugins_are_built());
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 5));
        Self { dir, recipe, data }
    }

    fn arguments(&self, run: &str, epochs: &str) -> Vec<String> {
        let out = text(&self.dir.path().join(run));
        let words = ["train", &text(&self.recipe), "--data", &text(&self.data), "--out", &out, "--epochs", epochs];
        words.iter().chain(&["--device", "cpu"]).map(|word| (*word).to_owned()).collect()
    }

    fn start(&self, run: &str, epochs: &str) -> (Child, PathBuf) {
        let child = hearth()
            .args(self.arguments(run, epochs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        (child, self.dir.path().join(run))
    }

    fn resume(&self, run: &Path) {
        succeed(&["train", "--data", &text(&self.data), "--out", &text(run), "--device", "cpu", "--resume"]);
    }
}

/// The checkpoints of a run whose names contain a text, by name.
fn checkpoints(run: &Path, word: &str) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(run.join("checkpoints")) else { return Vec::new() };
    let mut found: Vec<PathBuf> = folder
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("epoch=")))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(word)))
        .filter(|path| path.join("manifest.json").is_file())
        .collect();
    found.sort();
    found
}

fn weights(run: &Path) -> Vec<u8> {
    let newest = checkpoints(run, "").pop().expect("a checkpoint");
    std::fs::read(newest.join("network.safetensors")).expect("the weights")
}

fn metrics(run: &Path) -> String {
    std::fs::read_to_string(run.join("metrics.csv")).expect("metrics.csv")
}

/// The log without times, which differ between any two runs.
fn log(run: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("log.jsonl")).expect("log.jsonl");
    text.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a JSON object in each line"))
        .filter(|line| line.get("loss").is_some() || line.get("metrics").is_some())
        .map(|mut line| {
            if let Some(fields) = line.as_object_mut() {
                fields.retain(|name, _| !["time", "seconds", "elapsed"].iter().any(|word| name.contains(word)));
            }
            line.to_string()
        })
        .collect()
}

fn same(left: &Path, right: &Path) {
    assert_eq!(metrics(left), metrics(right), "metrics.csv");
    assert_eq!(log(left), log(right), "log.jsonl");
    assert!(weights(left) == weights(right), "the weights differ");
}

#[test]
fn a_run_that_was_killed_goes_on_bit_for_bit() {
    let bench = Bench::new();
    let whole = bench.dir.path().join("whole");
    succeed(&bench.arguments("whole", "6"));
    let (mut child, killed) = bench.start("killed", "6");
    wait_until("the checkpoint of epoch 3", || !checkpoints(&killed, "epoch=0003").is_empty());
    child.kill().expect("kill -9");
    let status = child.wait().expect("it has ended");
    assert!(!status.success(), "it was killed before its end");
    bench.resume(&killed);
    same(&whole, &killed);
    assert_eq!(metrics(&whole).lines().count(), 7, "{}", metrics(&whole));
    // A finished run is not started again.
    bench.resume(&killed);
    same(&whole, &killed);
}

/// `min_delta` is so large that no epoch improves: the run ends after `patience` more epochs than one.
#[test]
fn a_run_that_ended_by_itself_is_continued_on_request_only() {
    let bench = Bench::new();
    let stop = "handlers=[{name=\"EarlyStop\",metric=\"loss\",min_delta=1000.0,patience=1}]";
    let run = bench.dir.path().join("run");
    succeed(&[bench.arguments("run", "7"), vec!["--set".to_owned(), stop.to_owned()]].concat());
    let rows = || metrics(&run).lines().count() - 1;
    assert_eq!(rows(), 2, "{}", metrics(&run));
    let resume = |more: &[&str]| {
        let (data, out) = (text(&bench.data), text(&run));
        let words = ["train", "--data", &data, "--out", &out, "--device", "cpu", "--resume"];
        let output = crate::common::run(&[&words[..], more].concat());
        let said = errors(&output);
        assert!(output.status.success(), "{said}");
        said
    };
    let summary = || std::fs::read(run.join("summary.json")).expect("a summary");
    let before = (summary(), weights(&run));
    for _ in 0..2 {
        let said = resume(&[]);
        for part in
            ["early in epoch 2 of 7", "early_stop: loss has not improved", "--set handlers.EarlyStop.patience=N"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!((summary(), weights(&run)) == before && rows() == 2, "{said}");
    }
    // Its count continues, too: two more epochs until it is 3.
    resume(&["--set", "handlers.EarlyStop.patience=3"]);
    assert_eq!(rows(), 4, "{}", metrics(&run));
    assert!(resume(&[]).contains("early in epoch 4 of 7"));
    resume(&["--epochs", "8"]);
    assert_eq!(rows(), 5, "{}", metrics(&run));
    assert!(resume(&["--epochs", "8"]).contains("early in epoch 5 of 8"));
    resume(&["--set", "handlers.EarlyStop.patience=99"]);
    assert_eq!(rows(), 8, "{}", metrics(&run));
    let said = resume(&[]);
    assert!(said.contains("is complete, nothing is done: 8 epochs are trained"), "{said}");
    assert!(said.contains("--epochs N, above 8"), "{said}");
    resume(&["--epochs", "9", "--set", "schedule={name=\"PolynomialLR\",total_iters=9}"]);
    assert_eq!(rows(), 9, "{}", metrics(&run));
    let others = ["train", "--data", "none", "--out", &text(&run), "--resume", "--set", "handlers.Timing.every=2"];
    fail(&others, 1, &["--set cannot be given with --resume", "handlers.EarlyStop.KEY"]);
}

#[test]
fn folds_that_ended_by_themselves_are_continued_on_request_only() {
    let bench = Bench::new();
    let stop = "handlers=[{name=\"EarlyStop\",metric=\"loss\",min_delta=1000.0,patience=1}]";
    let more = ["--set", stop, "--folds", "2"].map(str::to_owned).to_vec();
    succeed(&[bench.arguments("cv", "5"), more].concat());
    let run = |fold: usize| bench.dir.path().join(format!("cv/fold{fold}"));
    let rows = || [0, 1].map(|fold| metrics(&run(fold)).lines().count() - 1);
    assert_eq!(rows(), [2, 2]);
    let (data, out) = (text(&bench.data), text(&bench.dir.path().join("cv")));
    let resume = ["train", "--data", &data, "--out", &out, "--device", "cpu", "--resume"];
    succeed(&resume);
    assert_eq!(rows(), [2, 2]);
    succeed(&[&resume[..], &["--set", "handlers.EarlyStop.patience=2"]].concat());
    assert_eq!(rows(), [3, 3]);
}

#[test]
fn the_first_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on() {
    let bench = Bench::new();
    let whole = bench.dir.path().join("whole");
    succeed(&bench.arguments("whole", "8"));
    let (child, stopped) = bench.start("stopped", "8");
    wait_until("the checkpoint of epoch 2", || !checkpoints(&stopped, "epoch=0002").is_empty());
    signal(&child, "INT");
    let output = child.wait_with_output().expect("it ends");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("--resume"), "{said}");
    assert!(!checkpoints(&stopped, "interrupted").is_empty(), "{:?}", checkpoints(&stopped, ""));
    fail(&bench.arguments("stopped", "8"), 1, &["add --resume"]);
    bench.resume(&stopped);
    same(&whole, &stopped);
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    let bench = Bench::new();
    let (mut child, run) = bench.start("twice", "100000");
    wait_until("the first checkpoint", || !checkpoints(&run, "").is_empty());
    signal(&child, "INT");
    signal(&child, "INT");
    let start = std::time::Instant::now();
    wait_until("its end", || child.try_wait().expect("its state").is_some());
    assert!(start.elapsed().as_secs() < 10);
    assert_eq!(child.wait().expect("its state").code(), Some(130));
}

/// The process that holds a run's lock, from the lock's text.
#[cfg(target_os = "linux")]
fn holder(run: &Path) -> String {
    let text = std::fs::read_to_string(run.join("run.lock")).expect("a lock");
    text.split_whitespace().nth(1).expect("`process N (...)`").to_owned()
}

#[cfg(target_os = "linux")]
fn lives(process: &str) -> bool {
    // A process that has ended but was not waited for is a zombie.
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

/// Starts a run on a terminal, by these words.
#[cfg(target_os = "linux")]
fn on_a_terminal(bench: &Bench, run: &str, starter: &str) -> (Child, PathBuf) {
    let words: Vec<String> = bench.arguments(run, "100000").iter().map(|word| format!("'{word}'")).collect();
    let command = format!("exec {starter} '{}' {}", env!("CARGO_BIN_EXE_hearth"), words.join(" "));
    let child = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(bench.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("`script` of util-linux starts");
    let folder = bench.dir.path().join(run);
    wait_until("the first checkpoint", || !checkpoints(&folder, "").is_empty());
    (child, folder)
}

#[cfg(target_os = "linux")]
#[test]
fn closing_the_terminal_saves_and_nohup_continues() {
    let bench = Bench::new();
    // The shell sends its own signal, before or after the system's.
    for (run, shell_first) in [("closed", false), ("closing", true)] {
        // The tests themselves may have been started by `nohup`.
        let (mut terminal, run) = on_a_terminal(&bench, run, "env --default-signal=HUP");
        let process = holder(&run);
        let hang_up = || drop(std::process::Command::new("kill").args(["-HUP", &process]).status());
        if shell_first {
            hang_up();
        }
        terminal.kill().expect("the terminal is closed");
        if !shell_first {
            hang_up();
        }
        terminal.wait().expect("it has ended");
        wait_until("the end of the run", || !lives(&process));
        assert!(!checkpoints(&run, "interrupted").is_empty(), "{:?}", checkpoints(&run, ""));
    }

    let (mut terminal, run) = on_a_terminal(&bench, "kept", "nohup");
    let process = holder(&run);
    terminal.kill().expect("the terminal is closed");
    terminal.wait().expect("it has ended");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let rows = metrics(&run).lines().count();
    wait_until("another epoch", || metrics(&run).lines().count() > rows);
    assert!(lives(&process) && checkpoints(&run, "interrupted").is_empty());
    std::process::Command::new("kill").args(["-TERM", &process]).status().expect("sent");
    wait_until("the end of the run", || !lives(&process));
    assert!(!checkpoints(&run, "interrupted").is_empty(), "{:?}", checkpoints(&run, ""));
}

#[test]
fn a_run_that_was_paused_continues_as_if_it_had_not() {
    let bench = Bench::new();
    let whole = bench.dir.path().join("whole");
    succeed(&bench.arguments("whole", "6"));
    let (child, paused) = bench.start("paused", "6");
    wait_until("the checkpoint of epoch 2", || !checkpoints(&paused, "epoch=0002").is_empty());
    signal(&child, "STOP");
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(&child, "CONT");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", errors(&output));
    same(&whole, &paused);
}
