//! The robustness of runs: processes that are killed at random moments, disks that lose power, fill up
//! or fail, signals. Each run is resumed until it is complete, and must then be bit for bit the same as
//! an undisturbed one.
//!
//! `HEARTH_CAMPAIGN=200` runs this number of rounds of each; the results are in `docs/reliability.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{TINY, errors, hearth, phantom, plugins_are_built, signal, text, tiny_recipe};
use crate::plugins_in_c::compile;

/// Rounds in a short campaign.
const SHORT: usize = 4;

/// The epochs of a run: enough that a process is rarely done before it is killed.
const EPOCHS: &str = "12";

fn rounds() -> usize {
    std::env::var("HEARTH_CAMPAIGN").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(SHORT)
}

/// A recipe, a data set, and the result of an undisturbed run.
struct Bench {
    dir: tempfile::TempDir,
    recipe: String,
    data: String,
    weights: Vec<u8>,
    took: Duration,
    state: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        assert!(plugins_are_built());
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (recipe, data) = (text(&tiny_recipe(dir.path())), text(&phantom(dir.path(), 4)));
        let mut bench = Self { dir, recipe, data, weights: Vec::new(), took: Duration::ZERO, state: seed };
        let (start, run) = (Instant::now(), bench.place("reference"));
        let output = bench.command(&run).output().expect("the program starts");
        assert!(output.status.success(), "{}", errors(&output));
        (bench.took, bench.weights) = (start.elapsed(), weights(&run));
        bench
    }

    fn place(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the run, or resumes it.
    fn command(&self, run: &Path) -> Command {
        self.command_of(run, EPOCHS)
    }

    fn command_of(&self, run: &Path, epochs: &str) -> Command {
        let mut command = hearth();
        command.args(["train", &self.recipe, "--data", &self.data, "--device", "cpu", "--epochs", epochs]);
        command.args(["--continue", "--out"]).arg(run).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn draw(&mut self) -> f64 {
        drawn(&mut self.state)
    }

    /// Resumes until the run is complete, and compares it with the undisturbed one.
    fn completes(&self, run: &Path, what: &str) {
        let output = self.command(run).output().expect("the program starts");
        assert!(output.status.success(), "{what}: {}", errors(&output));
        assert!(weights(run) == self.weights, "{what}: other weights than without it");
    }
}

/// A number from 0 to 1, the same sequence each time (splitmix64).
fn drawn(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

/// The complete checkpoints of a run: by name, the epoch of each.
fn checkpoints(run: &Path) -> BTreeMap<String, u64> {
    let folder = std::fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let complete = folder.filter(|entry| entry.path().join("manifest.json").is_file());
    let names = complete.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let epoch = |name: &str| name.strip_prefix("epoch=")?.split('-').next()?.parse().ok();
    names.filter_map(|name| Some((name.clone(), epoch(&name)?))).collect()
}

fn weights(run: &Path) -> Vec<u8> {
    let newest = checkpoints(run).into_iter().max_by_key(|(name, epoch)| (*epoch, name.clone())).expect("a checkpoint");
    std::fs::read(run.join("checkpoints").join(newest.0).join("network.safetensors")).expect("weights")
}

/// Kills a process after this time; `None` if it was done earlier.
fn killed(mut child: Child, after: Duration) -> Option<Output> {
    let start = Instant::now();
    while start.elapsed() < after {
        if child.try_wait().expect("a process").is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    let output = child.wait_with_output().expect("it ended");
    (output.status.signal() == Some(9)).then_some(output)
}

#[test]
fn runs_that_are_killed_at_random_moments_lose_no_epoch_and_end_bit_for_bit_the_same() {
    let mut bench = Bench::new(1);
    let (mut kills, mut runs) = (0, 0);
    while kills < rounds() {
        runs += 1;
        let run = bench.place(&format!("killed{runs}"));
        let mut done = 0;
        loop {
            let after = bench.took.mul_f64(bench.draw() * 0.9);
            let child = bench.command(&run).spawn().expect("the program starts");
            if killed(child, after).is_none() {
                break;
            }
            kills += 1;
            let epoch = checkpoints(&run).into_values().max().unwrap_or(0);
            assert!(epoch >= done, "kill {kills}: epoch {done} was complete, and epoch {epoch} is the newest");
            done = epoch;
            if kills >= rounds() {
                break;
            }
        }
        bench.completes(&run, &format!("{kills} kills"));
    }
    println!("| kill -9 at random moments | {kills} kills of {runs} runs | same weights, no epoch lost |");
}

/// A shared library of a C file in `campaign`.
fn preloaded(dir: &Path, name: &str) -> PathBuf {
    let library = dir.join(format!("{name}.so"));
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/campaign")).join(format!("{name}.c"));
    let built = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the C compiler that Hearth is built with");
    library
}

/// The inode number of a file or folder on its disk.
fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("it is there"))
}

/// The state of a folder after a power cut: entries and contents as last flushed. A file that was never
/// flushed is empty.
fn left(shadow: &Path, folder: u64, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    let entries = std::fs::read_to_string(shadow.join(format!("folders/{folder}"))).unwrap_or_default();
    for entry in entries.lines() {
        let mut parts = entry.splitn(3, ' ');
        let (Some(kind), Some(number), Some(name)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let number: u64 = number.parse().expect("a number");
        if kind == "d" {
            left(shadow, number, &to.join(name));
        } else {
            let content = std::fs::read(shadow.join(format!("inodes/{number}"))).unwrap_or_default();
            std::fs::write(to.join(name), content).expect("a file");
        }
    }
}

#[test]
fn power_cuts_lose_no_epoch_whose_checkpoint_was_reported() {
    let mut bench = Bench::new(2);
    let library = preloaded(bench.dir.path(), "disk");
    for round in 0..rounds() {
        let (disk, shadow) = (bench.place(&format!("disk{round}")), bench.place(&format!("shadow{round}")));
        for part in ["inodes", "folders"] {
            std::fs::create_dir_all(shadow.join(part)).expect("a folder");
        }
        std::fs::create_dir(&disk).expect("a folder");
        let (after, number) = (bench.took.mul_f64(0.3 + bench.draw() * 0.7), inode(&disk));
        let mut command = bench.command(&disk.join("run"));
        command.env("LD_PRELOAD", &library).env("HEARTH_DISK", &disk).env("HEARTH_SHADOW", &shadow);
        let _ = killed(command.spawn().expect("the program starts"), after);
        // The names that existed before the last moment: their folder was flushed since.
        let seen = checkpoints(&disk.join("run"));
        let newest = seen.into_values().max().unwrap_or(0);
        let after_cut = bench.place(&format!("after{round}"));
        left(&shadow, number, &after_cut);
        let run = after_cut.join("run");
        let kept = checkpoints(&run).into_values().max().unwrap_or(0);
        assert!(kept + 1 >= newest, "round {round}: epoch {newest} was there, epoch {kept} is left");
        if !run.join("recipe.toml").is_file() {
            // Nothing was reported yet, so the run starts from the beginning.
            let _ = std::fs::remove_dir_all(&run);
        }
        bench.completes(&run, &format!("power cut {round}"));
    }
    println!("| power cut at random moments | {} | same weights, no reported epoch lost |", rounds());
}

#[test]
fn a_disk_that_fails_or_is_full_is_told_and_what_it_held_is_gone_on_with() {
    let mut bench = Bench::new(3);
    let library = preloaded(bench.dir.path(), "disk");
    let mut failed = 0;
    // Input/output error, no space, read-only file system.
    for round in 0..rounds().max(3) {
        let code = [5, 28, 30][round % 3];
        let run = bench.place(&format!("failing{round}"));
        std::fs::create_dir(&run).expect("a folder");
        let at = 1 + (bench.draw() * 400.0) as usize;
        let mut command = bench.command(&run);
        command.env("LD_PRELOAD", &library).env("HEARTH_DISK", &run).env("HEARTH_FAIL", format!("{at}:{code}"));
        let output = command.output().expect("the program starts");
        let said = errors(&output);
        if !output.status.success() {
            failed += 1;
            let reason = std::io::Error::from_raw_os_error(code).to_string();
            let reason = reason.split(" (os").next().expect("a text");
            assert_eq!(output.status.code(), Some(1), "write {at}, {reason}: {said}");
            assert!(
                said.contains("error: ") && said.contains(reason) && !said.contains("panicked"),
                "write {at}: {said}"
            );
        }
        if !run.join("recipe.toml").is_file() {
            // It failed before the run existed.
            std::fs::remove_dir_all(&run).expect("removed");
        }
        bench.completes(&run, &format!("errno {code} at write {at}"));
    }
    assert!(failed > 0, "no write failed");
    println!("| EIO, ENOSPC or EROFS from a random write on | {} | reported, then same weights |", rounds().max(3));
}

/// Handlers with files of their own.
const WRITING: &str = r#"
[[handlers]]
name = "LayerStatistics"
every = 3
[[handlers]]
name = "TensorBoardImage"
every = 2
[[handlers]]
name = "MachineMonitor"
every_seconds = 0.05
"#;

/// A plugin that attaches files and remembers values, TensorBoard and other handlers: a call that fails
/// once, or from then on, is reported, and no file lacks anything when the run is complete.
#[test]
fn a_disk_that_fails_under_plugins_and_handlers_is_reported_and_loses_nothing() {
    let mut bench = Bench::new(9);
    let plugin = compile(bench.dir.path(), "keeper", include_str!("../in_c/keeper.c"));
    let (library, recipe) = (preloaded(bench.dir.path(), "disk"), bench.place("writing.toml"));
    std::fs::write(&recipe, format!("{TINY}{WRITING}")).expect("a recipe");
    bench.recipe = text(&recipe);
    let mut failed = 0;
    for round in 0..rounds().max(6) {
        let (code, once) = ([5, 28][round % 2], if round % 3 == 0 { ":once" } else { "" });
        let run = bench.place(&format!("failing{round}"));
        std::fs::create_dir(&run).expect("a folder");
        let at = 1 + (bench.draw() * 900.0) as usize;
        let with_plugin = |bench: &Bench| {
            let mut command = bench.command(&run);
            command.args(["--plugin", &plugin]);
            command
        };
        let mut command = with_plugin(&bench);
        let how = format!("{at}:{code}{once}");
        command.env("LD_PRELOAD", &library).env("HEARTH_DISK", &run).env("HEARTH_FAIL", &how);
        let output = command.output().expect("the program starts");
        let said = errors(&output);
        let reason = std::io::Error::from_raw_os_error(code).to_string();
        let reason = reason.split(" (os").next().expect("a text");
        assert!(!said.contains("panicked"), "{how}: {said}");
        if !output.status.success() {
            failed += 1;
            assert_eq!(output.status.code(), Some(1), "{how}: {said}");
            assert!(said.contains("error: ") && said.contains(reason), "{how}: {said}");
        }
        if !run.join("recipe.toml").is_file() {
            std::fs::remove_dir_all(&run).expect("removed");
        }
        let output = with_plugin(&bench).output().expect("the program starts");
        assert!(output.status.success(), "{how}: {}", errors(&output));
        assert!(weights(&run) == bench.weights, "{how}: other weights than without it");
        let read = |name: &str| std::fs::read_to_string(run.join(name)).expect(name);
        let epochs: Vec<String> = (1..=12).map(|epoch| epoch.to_string()).collect();
        let of_table = |text: String| -> Vec<String> {
            text.lines().skip(1).map(|row| row.split(',').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(of_table(read("metrics.csv")), epochs, "{how}");
        assert_eq!(read("attachments/keeper/counts/last.txt"), "keeper: 12 epochs are counted", "{how}");
        // A handler that failed is not called again in that process, which says so.
        if said.contains("handler `layer_statistics` failed") {
            continue;
        }
        let layers: BTreeSet<u64> = of_table(read("layers.csv")).iter().filter_map(|cell| cell.parse().ok()).collect();
        assert_eq!(layers, (1..=12).map(|step| 3 * step).collect(), "{how}");
    }
    assert!(failed > 0, "no call failed");
    println!(
        "| EIO or ENOSPC at a random call of a run with a plugin | {} | reported, nothing lost |",
        rounds().max(6)
    );
}

#[test]
fn signals_end_a_run_with_a_checkpoint() {
    let mut bench = Bench::new(4);
    for (round, name) in ["TERM", "HUP", "INT"].into_iter().cycle().take(rounds().max(3)).enumerate() {
        let run = bench.place(&format!("signalled{round}"));
        let after = bench.took.mul_f64(0.3 + bench.draw() * 0.4);
        let child = bench.command(&run).spawn().expect("the program starts");
        std::thread::sleep(after);
        signal(&child, name);
        let output = child.wait_with_output().expect("it ended");
        let said = errors(&output);
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(130), "{name}: {said}");
        }
        bench.completes(&run, name);
    }
    println!("| SIGTERM, SIGHUP, SIGINT | {} | checkpoint, exit code 130, same weights |", rounds().max(3));
}

/// A run does not depend on the time of day: neither its weights, nor which checkpoint is the newest.
#[test]
fn clocks_that_jump_change_nothing() {
    let mut bench = Bench::new(6);
    let library = preloaded(bench.dir.path(), "clock");
    for round in 0..rounds() {
        let run = bench.place(&format!("jumping{round}"));
        let after = bench.took.mul_f64(0.2 + bench.draw() * 0.6);
        let jumping = |bench: &Bench| {
            let mut command = bench.command(&run);
            command.env("LD_PRELOAD", &library);
            command
        };
        let _ = killed(jumping(&bench).spawn().expect("the program starts"), after);
        let done = checkpoints(&run).into_values().max().unwrap_or(0);
        let output = jumping(&bench).output().expect("the program starts");
        let said = errors(&output);
        assert!(output.status.success() && !said.contains("panicked"), "round {round}: {said}");
        assert!(checkpoints(&run).into_values().max().unwrap_or(0) >= done, "round {round}: it went on from {done}");
        assert!(weights(&run) == bench.weights, "round {round}: other weights than by a clock that goes");
    }
    println!("| clocks that jump, and kills | {} | same weights, no epoch lost |", rounds());
}

/// The kilobytes in memory, and the number of open files, of a process.
fn uses(child: &Child) -> Option<(u64, usize)> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?.count();
    Some((line.split_whitespace().next()?.parse().ok()?, files))
}

/// A long run uses no more memory and files at its end than after its warm-up.
#[test]
fn memory_and_open_files_stay_flat() {
    let bench = Bench::new(5);
    let (epochs, run) = ((rounds() * 20).max(60).to_string(), bench.place("soak"));
    let mut child = bench.command_of(&run, &epochs).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut samples = Vec::new();
    while child.try_wait().expect("a process").is_none() {
        samples.extend(uses(&child));
        std::thread::sleep(Duration::from_millis(20));
    }
    let quarter = samples.len() / 4;
    assert!(quarter > 4, "{} samples", samples.len());
    let most = |part: &[(u64, usize)]| {
        (part.iter().map(|s| s.0).max().unwrap_or(0), part.iter().map(|s| s.1).max().unwrap_or(0))
    };
    let ((warm, files), (late, later)) = (most(&samples[quarter..2 * quarter]), most(&samples[3 * quarter..]));
    assert!(late <= warm + warm / 10 + (32 << 10), "{warm} KiB when warm, {late} KiB at the end");
    assert!(later <= files + 2, "{files} open files when warm, {later} at the end");
    println!(
        "| soak of {epochs} epochs | {warm} KiB warm, {late} KiB at the end | {files} files warm, {later} at the end |"
    );
}

/// A NIfTI file of 8 x 8 x 8 voxels of 6 mm.
fn small_image(number: usize) -> Vec<u8> {
    let mut file = vec![0; 352];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348_i32.to_le_bytes());
    [3_i16, 8, 8, 8, 1, 1, 1, 1].iter().enumerate().for_each(|(i, n)| put(40 + 2 * i, &n.to_le_bytes()));
    put(70, &4_i16.to_le_bytes());
    put(72, &16_i16.to_le_bytes());
    [1.0_f32, 6.0, 6.0, 6.0].iter().enumerate().for_each(|(i, n)| put(76 + 4 * i, &n.to_le_bytes()));
    put(108, &352.0_f32.to_le_bytes());
    put(254, &1_i16.to_le_bytes());
    (0..3).for_each(|row| put(280 + 20 * row, &6.0_f32.to_le_bytes()));
    put(344, b"n+1\0");
    file.extend((0..512).map(|voxel| ((voxel * 7 + number * 13) % 200) as i16 - 57).flat_map(i16::to_le_bytes));
    file
}

/// Predictions that are killed at random moments: the same command processes the rest, and every result
/// is that of an undisturbed call.
#[test]
fn predictions_that_are_killed_are_gone_on_with() {
    let bench = Bench::new(8);
    let images = bench.place("images");
    std::fs::create_dir(&images).expect("a folder");
    for number in 0..30 {
        std::fs::write(images.join(format!("image{number:02}.nii")), small_image(number)).expect("an image");
    }
    let command = |out: &Path| {
        let mut command = hearth();
        command.arg("predict").arg(bench.place("reference")).args(["--device", "cpu", "--probabilities", "--picture"]);
        command.arg("-i").arg(&images).arg("-o").arg(out).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    // All files except records, which contain the folders' names.
    let results = |out: &Path| -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(out).expect("results").flatten();
        let named = files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()));
        let kept = named.filter(|(name, _)| !name.ends_with(".json") && !name.starts_with(".writing-"));
        let files = kept.filter(|(_, path)| path.is_file());
        files.map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
    };
    let completes = |out: &Path, what: &str| {
        let output = command(out).output().expect("the program starts");
        assert!(output.status.success(), "{what}: {}", errors(&output));
        results(out)
    };
    let (start, whole) = (Instant::now(), completes(&bench.place("whole"), "undisturbed"));
    let took = start.elapsed();
    // With the table of volumes.
    assert_eq!(whole.len(), 3 * 30 + 1);
    let (mut kills, mut calls, mut moments) = (0, 0, bench.state);
    while kills < rounds() {
        calls += 1;
        let out = bench.place(&format!("predicted{calls}"));
        while kills < rounds() {
            let after = took.mul_f64(drawn(&mut moments) * 0.9);
            if killed(command(&out).spawn().expect("the program starts"), after).is_none() {
                break;
            }
            kills += 1;
        }
        let all = completes(&out, &format!("{kills} kills"));
        assert!(all == whole, "{kills} kills: other results than without them");
    }
    println!("| kill -9 of predictions | {kills} kills of {calls} calls | same results, none in the way |");
}

/// A folder of images, one in a hundred of which is broken: all others are processed, by one process
/// with constant memory, and the broken ones are listed.
#[test]
fn broken_images_of_many_stop_nothing() {
    let bench = Bench::new(7);
    let (images, out) = (bench.place("images"), bench.place("labels"));
    std::fs::create_dir(&images).expect("a folder");
    let count = rounds() * 75;
    let broken = |number: usize| number % 100 == 50;
    for number in 0..count {
        let mut image = small_image(number);
        if broken(number) {
            // Cut in the voxels, cut in the header, and not an image at all.
            match number / 100 % 3 {
                0 => image.truncate(700),
                1 => image.truncate(100),
                _ => image = b"not an image".to_vec(),
            }
        }
        std::fs::write(images.join(format!("image{number:06}.nii")), image).expect("an image");
    }
    let victims = (0..count).filter(|number| broken(*number)).count();
    let mut command = hearth();
    command.arg("predict").arg(bench.place("reference")).args(["--device", "cpu", "-o"]).arg(&out);
    command
        .arg("-i")
        .arg(&images)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(bench.place("said")).expect("a file"));
    let (start, mut samples) = (Instant::now(), Vec::new());
    let mut child = command.spawn().expect("the program starts");
    let status = loop {
        if let Some(status) = child.try_wait().expect("a process") {
            break status;
        }
        samples.extend(uses(&child));
        std::thread::sleep(Duration::from_millis(20));
    };
    let (took, said) = (start.elapsed(), std::fs::read_to_string(bench.place("said")).expect("what it said"));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{victims} of {count} images failed")), "{said}");
    let listed = std::fs::read_to_string(out.join("failed.csv")).expect("a list");
    assert_eq!(listed.lines().count(), 1 + victims, "{listed}");
    let names = std::fs::read_dir(&out).expect("results").flatten().map(|entry| entry.file_name());
    let done = names.filter(|name| name.to_string_lossy().ends_with(".nii.gz")).count();
    assert_eq!(done, count - victims);
    let half = samples.len() / 2;
    let most = |part: &[(u64, usize)]| part.iter().map(|sample| sample.0).max().unwrap_or(0);
    let (early, late) = (most(&samples[half / 2..half]), most(&samples[half..]));
    assert!(late <= early + early / 10 + (32 << 10), "{early} KiB when warm, {late} KiB at the end");
    println!(
        "| {count} predictions, {victims} images broken | 1 | {:.0} s, {early} KiB when warm, {late} KiB at the end |",
        took.as_secs_f64()
    );
}
