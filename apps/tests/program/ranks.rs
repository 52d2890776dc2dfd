//! One training on several ranks: as threads, with Open MPI, with MPICH and over ssh. They take the steps
//! of one rank, share the validation, end together, and continue with another number of ranks.

// Signals and launchers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{TINY, errors, hearth, phantom, plugins_are_built, text, wait_until};
use crate::launchers::{By, launchers};
use serde_json::Value;

/// The tiny recipe without steps that depend on the other cases of a batch.
fn recipe(folder: &Path) -> PathBuf {
    let file = folder.join("ranks.toml");
    let own = TINY.replace("norm = \"batch\"", "norm = \"instance\"").replace("dropout = 0.1\n", "");
    fs::write(&file, own.replace("validation = { last = 1 }", "validation = { last = 5 }")).expect("written");
    file
}

struct Job<'a> {
    folder: &'a Path,
    by: By,
    ranks: usize,
    out: &'a str,
}

impl Job<'_> {
    fn command(&self, more: &[&str]) -> Command {
        let mut command = hearth();
        command.env("RAYON_NUM_THREADS", "1");
        let (data, out) = (self.folder.join("data"), self.folder.join(self.out));
        command.args(["train", "--data", &text(&data), "--out", &text(&out), "--device", "cpu"]).args(more);
        self.by.start(&mut command, self.folder, self.ranks);
        command
    }

    fn train(&self, more: &[&str]) -> Output {
        let file = text(&recipe(self.folder));
        self.command(&[&[&file[..]], more].concat()).output().expect("the program starts")
    }

    fn succeed(&self, more: &[&str]) -> String {
        let output = self.train(more);
        assert!(output.status.success(), "{:?}, {} ranks: {}", self.by, self.ranks, errors(&output));
        errors(&output)
    }

    fn out(&self) -> PathBuf {
        self.folder.join(self.out)
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

/// The Dice of each epoch.
fn log(run: &Path) -> Vec<f64> {
    epochs(run).iter().map(|entry| entry["metrics"]["mean_dice"].as_f64().expect("a number")).collect()
}

/// The mean loss of each epoch.
fn losses(run: &Path) -> Vec<f64> {
    epochs(run).iter().map(|entry| entry["loss"].as_f64().expect("a number")).collect()
}

fn epochs(run: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(run.join("log.jsonl")).expect("a log");
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    entries.filter(|entry| entry["event"] == "epoch").collect()
}

/// The weights of the newest checkpoint, in the order of their file.
fn weights(run: &Path) -> Vec<f32> {
    let folders = fs::read_dir(run.join("checkpoints")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut named: Vec<PathBuf> = folders.filter(|folder| text(folder).ends_with("-final")).collect();
    named.sort();
    let bytes = fs::read(named.last().expect("a checkpoint").join("network.safetensors")).expect("weights");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    bytes[8 + header..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
}

#[test]
fn ranks_take_the_steps_of_one_and_measure_the_same() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 13);
    let exact = ["--epochs", "10", "--set", "distributed.mode=exact"];
    let one = Job { folder: dir.path(), by: By::Threads, ranks: 1, out: "one" };
    one.succeed(&[&exact[..], &["--set", "training.batch_size=4"]].concat());
    let alone = log(&one.out());
    assert_eq!((alone.len(), json(&one.out().join("summary.json"))["iterations"].as_u64()), (10, Some(20)));
    for by in launchers() {
        for (ranks, batch) in [(2, "training.batch_size=2"), (4, "training.batch_size=1")] {
            let name = format!("run-{by:?}-{ranks}").replace(['(', ')', '"'], "");
            let job = Job { folder: dir.path(), by, ranks, out: &name };
            let said = job.succeed(&[&exact[..], &["--set", batch]].concat());
            assert_eq!(said.matches("epoch 10/10").count(), 1, "one rank speaks: {said}");
            assert_eq!(said.contains("as threads of one process"), by == By::Threads, "{said}");
            for (epoch, (own, first)) in losses(&job.out()).iter().zip(losses(&one.out())).enumerate() {
                assert!((own - first).abs() < 1e-6, "{by:?}, {ranks} ranks, epoch {epoch}: {own}, one has {first}");
            }
            for (epoch, (own, first)) in log(&job.out()).iter().zip(&alone).enumerate() {
                // A voxel with classes of nearly equal probability may change its class: 3e-6 of this
                // Dice.
                assert!((own - first).abs() < 1e-5, "{by:?}, {ranks} ranks, epoch {epoch}: {own}, one has {first}");
            }
            let (own, first) = (weights(&job.out()), weights(&one.out()));
            let off = own.iter().zip(&first).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(own.len() == first.len() && off < 1e-5, "{by:?}, {ranks} ranks: weights differ by {off}");
            let summary = json(&job.out().join("summary.json"));
            assert_eq!(
                (summary["world_size"].as_u64(), summary["iterations"].as_u64()),
                (Some(ranks as u64), Some(20))
            );
            assert_eq!(summary["waits"].as_array().map(Vec::len), Some(ranks), "{summary}");
            assert!(summary["waits"][1]["phases"]["gradients"]["operations"].as_u64() >= Some(20), "{summary}");
        }
    }
}

/// Each rank starts its plugins' processes, which inherit the launcher's variables.
#[cfg(target_os = "linux")]
#[test]
fn isolated_plugins_change_nothing_in_ranks() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 9);
    for by in launchers() {
        let run = |out: &str, more: &[&str]| {
            let job = Job { folder: dir.path(), by, ranks: 2, out };
            job.succeed(&[&["--epochs", "2"][..], more].concat());
            weights(&job.out())
        };
        let name = format!("{by:?}").replace(['(', ')', '"'], "");
        // The data are there, so that no rank downloads them.
        let isolated = run(&format!("{name}-isolated"), &["--isolated", "--download"]);
        assert_eq!(run(&format!("{name}-plain"), &[]), isolated, "{name}");
    }
}

/// Cases that are drawn by weight are those of one rank; each rank keeps to its own cores, if there are
/// enough.
#[test]
fn ranks_share_draws_by_weight_and_keep_to_their_cores() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let list = phantom(dir.path(), 9).join("dataset.json");
    let mut set = json(&list);
    for (place, case) in set["training"].as_array_mut().expect("cases").iter_mut().enumerate() {
        case["weight"] = (1 + 3 * (place % 2)).into();
    }
    fs::write(&list, set.to_string()).expect("written");
    let exact = ["--set", "distributed.mode=exact", "--set", "data.sampler={weights=\"weight\", num_samples=8}"];
    let one = Job { folder: dir.path(), by: By::Threads, ranks: 1, out: "one" };
    one.succeed(&[&exact[..], &["--set", "training.batch_size=4", "--epochs", "4"]].concat());
    let (alone, first) = (log(&one.out()), weights(&one.out()));
    for by in launchers() {
        let name = format!("run-{by:?}").replace(['(', ')', '"'], "");
        let job = Job { folder: dir.path(), by, ranks: 2, out: &name };
        let more = [&exact[..], &["--set", "training.batch_size=2", "--epochs", "4"]].concat();
        let file = text(&recipe(dir.path()));
        let mut child = job.command(&[&[&file[..]], &more[..]].concat()).spawn().expect("the program starts");
        // Each of two hosts, here the same machine, has a rank with all cores.
        if matches!(by, By::Mpirun(_)) {
            let mut cores = Vec::new();
            wait_until("both ranks run", || {
                cores = (0..2).filter_map(|rank| cores_of(process(&job.out(), rank)?)).collect();
                cores.len() == 2
            });
            let enough = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
            assert!(!enough || cores[0].is_disjoint(&cores[1]), "{by:?}: {cores:?}");
        }
        assert!(child.wait().expect("it ends").success(), "{by:?}");
        assert_eq!(json(&job.out().join("summary.json"))["iterations"], 8);
        for (own, one) in log(&job.out()).iter().zip(&alone) {
            assert!((own - one).abs() < 1e-6, "{by:?}: {own}, one rank {one}");
        }
        let off = weights(&job.out()).iter().zip(&first).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-5, "{by:?}: weights differ by {off}");
    }
}

/// The cores that a process may use, once it has pinned itself.
fn cores_of(process: u32) -> Option<BTreeSet<usize>> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse::<usize>().ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let cores = list.split(',').filter_map(range).flatten().collect();
    // It pins itself before it has several threads.
    (threads > 1).then_some(cores)
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 8);
    for by in launchers() {
        let name = format!("run-{by:?}").replace(['(', ')', '"'], "");
        // Three cases train: four ranks are too many for a partition, which is reported before anything
        // is written.
        let first = Job { folder: dir.path(), by, ranks: 4, out: &name };
        let output = first.train(&["--epochs", "2"]);
        let said = errors(&output);
        assert!(!output.status.success() && said.contains("3 training cases for 4 ranks"), "{said}");
        assert!(!first.out().exists(), "nothing was written");
        let first = Job { ranks: 3, ..first };
        first.succeed(&["--epochs", "2"]);
        for (ranks, epochs) in [(2, "4"), (1, "6")] {
            let next = Job { ranks, ..first };
            let output = next.command(&["--resume", "--epochs", epochs]).output().expect("the program starts");
            let said = errors(&output);
            assert!(output.status.success() && said.contains("resuming from epoch"), "{by:?}, {ranks} ranks: {said}");
        }
        let (summary, lines) = (json(&first.out().join("summary.json")), log(&first.out()));
        assert_eq!((summary["epochs"].as_u64(), summary["world_size"].as_u64()), (Some(6), Some(1)));
        assert_eq!(lines.len(), 6, "each epoch once");
    }
}

#[test]
fn what_ranks_cannot_do_is_said_at_once() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 8);
    for by in launchers() {
        for (index, (more, word)) in [
            (&["--set", "transforms.6.spatial_size=[300, 16, 16]"][..], "RandCropByPosNegLabel"),
            (&["--folds", "9"], "9 folds"),
            (&["--set", "distributed.deadline=0"], "distributed.deadline"),
            (&["--set", "distributed.mode=half"], "half"),
        ]
        .into_iter()
        .enumerate()
        {
            let out = format!("none-{by:?}-{index}").replace(['(', ')', '"'], "");
            let job = Job { folder: dir.path(), by, ranks: 2, out: &out };
            let output = job.train(&[more, &["--epochs", "1"]].concat());
            let said = errors(&output);
            assert!(!output.status.success() && said.contains(word) && !said.contains("panicked"), "{by:?}: {said}");
        }
    }
}

/// The process of a rank of a run, found by the variables of its launcher.
fn process(out: &Path, rank: usize) -> Option<u32> {
    let wanted = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "HEARTH_RANK"].map(|name| format!("{name}={rank}"));
    let has = |process: &Path, file: &str, is: &dyn Fn(&str) -> bool| {
        let bytes = fs::read(process.join(file)).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|part| is(&String::from_utf8_lossy(part)))
    };
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let mut own = processes.filter(|process| {
        has(process, "cmdline", &|word| Path::new(word) == out)
            && has(process, "environ", &|variable| wanted.iter().any(|one| one == variable))
    });
    own.next()?.file_name()?.to_str()?.parse().ok()
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill starts");
    assert!(sent.success());
}

/// A rank is killed, or stopped, in the middle of a run: the others end and report which one it was,
/// and the run continues from its last checkpoint.
#[test]
fn a_rank_that_is_gone_is_named_and_the_run_resumes() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 8);
    let file = text(&recipe(dir.path()));
    for by in launchers().into_iter().filter(|by| *by != By::Threads) {
        for (name, rank) in [("-KILL", 1), ("-STOP", 1), ("-STOP", 0)] {
            let out = format!("run{name}{rank}-{by:?}").replace(['(', ')', '"'], "");
            let job = Job { folder: dir.path(), by, ranks: 2, out: &out };
            let endless = [
                &file[..],
                "--epochs",
                "100000",
                "--set",
                "distributed.deadline=5",
                "--set",
                "training.val_interval=100000",
            ];
            let errors = fs::File::create(dir.path().join("errors")).expect("a file");
            let mut running = job.command(&endless).stderr(errors).stdout(Stdio::null()).spawn().expect("it starts");
            let checkpoints = job.out().join("checkpoints");
            let written = || fs::read_dir(&checkpoints).is_ok_and(|inside| inside.count() > 2);
            wait_until("checkpoints", written);
            let gone = process(&job.out(), rank).expect("a process of that rank");
            signal(gone, name);
            let begin = Instant::now();
            let ended = loop {
                if let Some(status) = running.try_wait().expect("a status") {
                    break status;
                }
                assert!(begin.elapsed() < Duration::from_secs(60), "{by:?} {name} {rank}: the others continue");
                std::thread::sleep(Duration::from_millis(50));
            };
            // A stopped process does not respond to its launcher's request to end.
            let _ = Command::new("kill").args(["-KILL", &gone.to_string()]).stderr(Stdio::null()).status();
            let said = fs::read_to_string(dir.path().join("errors")).expect("text");
            assert!(!ended.success(), "{said}");
            if name == "-STOP" {
                assert!(said.contains(&format!("rank {rank}")), "{by:?} {name} {rank}: {said}");
            }
            let lines = fs::read_to_string(job.out().join("log.jsonl")).expect("a log");
            let alone = Job { ranks: 1, ..job };
            let more = (lines.lines().count() + 2).to_string();
            let resumed = alone.command(&["--resume", "--epochs", &more]).output().expect("the program starts");
            assert!(resumed.status.success(), "{}", crate::common::errors(&resumed));
        }
    }
}

/// A rank is killed, and the ranks are restarted automatically; an existing run continues with the
/// command that started it.
#[test]
fn ranks_are_started_again_and_continue() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 8);
    let file = text(&recipe(dir.path()));
    for by in launchers() {
        let out = format!("run-{by:?}").replace(['(', ')', '"'], "");
        let job = Job { folder: dir.path(), by, ranks: 2, out: &out };
        let words = [&file[..], "--epochs", "300", "--set", "training.val_interval=50", "--max-restarts", "2"];
        if by == By::Threads {
            let said = errors(&job.command(&words).output().expect("the program starts"));
            assert!(said.contains("--max-restarts needs mpirun"), "{said}");
            continue;
        }
        let errors = fs::File::create(dir.path().join("errors")).expect("a file");
        let mut running = job.command(&words).stderr(errors).stdout(Stdio::null()).spawn().expect("it starts");
        let checkpoints = job.out().join("checkpoints");
        wait_until("checkpoints", || fs::read_dir(&checkpoints).is_ok_and(|inside| inside.count() > 2));
        signal(process(&job.out(), 1).expect("a process of that rank"), "-KILL");
        let ended = running.wait().expect("a status");
        let said = fs::read_to_string(dir.path().join("errors")).expect("text");
        assert!(ended.success() && said.contains("restart 1 of 2"), "{by:?}: {said}");
        assert_eq!(said.matches("restart ").count(), 1, "{said}");
        let lines = fs::read_to_string(job.out().join("log.jsonl")).expect("a log");
        let epochs = lines.lines().filter(|line| line.contains("\"event\":\"epoch\"")).count();
        assert_eq!((json(&job.out().join("summary.json"))["epochs"].as_u64(), epochs), (Some(300), 300));
        // The same command again: all epochs are complete.
        let more = ["--continue", "--epochs", "302", "--set", "training.val_interval=50", "--seed", "0"];
        let output = job.command(&[&[&file[..]], &more[..]].concat()).output().expect("the program starts");
        assert!(output.status.success(), "{}", crate::common::errors(&output));
        assert_eq!(json(&job.out().join("summary.json"))["epochs"].as_u64(), Some(302));
    }
    // Without a run to continue, it starts one.
    let job = Job { folder: dir.path(), by: By::Threads, ranks: 1, out: "new" };
    job.succeed(&["--continue", "--epochs", "1"]);
    assert!(job.out().join("summary.json").is_file());
    // Errors that a restart cannot fix are not retried.
    for by in launchers().into_iter().filter(|by| *by != By::Threads) {
        let job = Job { folder: dir.path(), by, ranks: 2, out: "never" };
        let output = job.train(&["--max-restarts", "3", "--set", "optimizer.lr=-1"]);
        let said = errors(&output);
        assert!(!output.status.success() && !said.contains("restart "), "{by:?}: {said}");
    }
}

/// Gradients are reduced over GPUs that a library simulates: the run is that of ranks without GPUs.
#[test]
fn gradients_travel_over_imitated_cards() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 8);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/distributed/tests/nccl/stub.c");
    let stub = dir.path().join("libnccl.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-DNVIDIA", "-o", &text(&stub)]).arg(source);
    let built = cc.output().expect("a C compiler");
    assert!(built.status.success(), "{}", errors(&built));
    let file = text(&recipe(dir.path()));
    for by in launchers().into_iter().filter(|by| *by != By::Mpirun("mpirun.mpich")) {
        let name = |what: &str| format!("{what}-{by:?}").replace(['(', ')', '"', '.'], "");
        let (plain, cards) = (name("plain"), name("cards"));
        let run = |out: &str, sets: &[&str]| {
            let job = Job { folder: dir.path(), by, ranks: 2, out };
            let log = dir.path().join(format!("{out}.log"));
            let mut command = job.command(&[&file, "--epochs", "3"]);
            sets.iter().for_each(|set| _ = command.args(["--set", set]));
            command.env("HEARTH_NCCL", &stub).env("HEARTH_GPU_DRIVER", &stub).env("STUB_LOG", &log);
            let output = command.env("TMPDIR", dir.path()).output().expect("the program starts");
            assert!(output.status.success(), "{by:?}: {}", errors(&output));
            (weights(&job.out()), fs::read_to_string(log).unwrap_or_default())
        };
        let (expected, log) = run(&plain, &["distributed.cards=off"]);
        assert!(log.is_empty(), "{log}");
        let (found, log) = run(&cards, &["distributed.cards=on"]);
        assert!(log.contains("ncclCommInitRank") && log.contains("ncclCommDestroy"), "{by:?}: {log}");
        assert!(found == expected, "{by:?}: added in the order of ranks, to the bit");
        // Each gradient separately, as soon as it is complete.
        let (alone, overlap) = ("distributed.bucket_mib=0", "distributed.overlap=on");
        let (found, log) = run(&name("overlap"), &["distributed.cards=on", alone, overlap]);
        assert!(log.contains("ncclCommInitRank") && found == expected, "{by:?}: during the backward pass");
    }
    // Required, but missing.
    let job = Job { folder: dir.path(), by: By::Threads, ranks: 2, out: "none" };
    let mut command = job.command(&[&file, "--epochs", "1", "--set", "distributed.cards=on"]);
    let output = command.env("HEARTH_NCCL", dir.path().join("missing.so")).output().expect("the program starts");
    let said = errors(&output);
    assert!(!output.status.success() && said.contains("distributed.cards") && said.contains("missing.so"), "{said}");
    assert!(!job.out().exists());
}
