//! The machine monitor in a run, on a fake machine with known values. No test depends on the number
//! of rows: a run waits until the machine was read often enough.

mod mock;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hearth_engine::{Engine, Event};
use hearth_handlers::machine::{About, GpuAbout, GpuReading, Probe, ProcessReading, Reading, Vendor};
use hearth_handlers::{MachineMonitor, MachineMonitorOptions, build};
use mock::Trainer;
use serde_json::{Value, json};

/// A machine that is read at the seconds 0, 1, 2, ... of its own clock. GPU 0 uses `100 + 10 t`
/// watts; GPU 1 disappears at its reading `lost`.
struct Fake {
    /// Its first reading.
    start: Option<Instant>,
    looks: Arc<AtomicU64>,
    n: u64,
    gpus: usize,
    lost: u64,
}

impl Probe for Fake {
    fn about(&self) -> About {
        let gpu = |name: &str| GpuAbout { vendor: Vendor::Nvidia, name: name.to_owned(), memory: Some(80 << 30) };
        let gpus = [gpu("first, with a comma"), gpu("second")][..self.gpus].to_vec();
        let without = vec!["no NVIDIA driver was found (it is a test)".to_owned()];
        About { cores: 4, memory: Some(8 << 30), gpus, without: if self.gpus == 0 { without } else { Vec::new() } }
    }

    fn read(&mut self) -> Reading {
        let n = self.n;
        self.n += 1;
        self.looks.fetch_add(1, Ordering::SeqCst);
        let first =
            GpuReading { power: Some(100.0 + 10.0 * n as f64), utilisation: Some(50.0), ..GpuReading::default() };
        let second = GpuReading { memory: Some(n), ..GpuReading::default() };
        let second = if n < self.lost { Ok(second) } else { Err("GPU 1 cannot be read: lost".to_owned()) };
        Reading {
            at: *self.start.get_or_insert_with(Instant::now) + Duration::from_secs(n),
            // Two and a half cores, 3 MB/s read, 1 MB/s written.
            process: Some(ProcessReading {
                cpu_seconds: 2.5 * n as f64,
                memory: 7 << 20,
                read: 3_000_000 * n,
                written: 1_000_000 * n,
            }),
            free_memory: Some(1 << 30),
            package_joules: Some(60.0 * n as f64),
            gpus: [Ok(first), second][..self.gpus].to_vec(),
        }
    }
}

fn options() -> MachineMonitorOptions {
    MachineMonitorOptions::default().every_seconds(0.01)
}

/// A trainer's engine with a monitor of the fake; each epoch lasts until it was read `reads` more
/// times.
fn engine(run: &Path, gpus: usize, lost: u64, reads: u64) -> Engine {
    let looks = Arc::new(AtomicU64::new(0));
    let (theirs, mut seen) = (looks.clone(), 0);
    let connect = move || Fake { start: None, looks: theirs.clone(), n: 0, gpus, lost };
    let mut engine = Engine::new("trainer");
    let wait = move |_: &mut hearth_engine::Context<'_>| {
        seen += reads;
        while looks.load(Ordering::SeqCst) < seen {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    engine.on(Event::EpochCompleted, wait).unwrap();
    engine.add(MachineMonitor::with_probe(options(), run, connect).unwrap()).unwrap();
    engine
}

/// A table, read by an independent parser.
fn table(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read(path).unwrap();
    let mut reader = csv_core::Reader::new();
    let (mut output, mut ends) = (vec![0; text.len() + 1], vec![0; 64]);
    let (mut rows, mut input) = (Vec::new(), &text[..]);
    loop {
        let (result, read, _, cells) = reader.read_record(input, &mut output, &mut ends);
        input = &input[read..];
        match result {
            csv_core::ReadRecordResult::Record => {
                let starts = std::iter::once(0).chain(ends[..cells].iter().copied());
                let cell = |(start, end): (usize, &usize)| String::from_utf8(output[start..*end].to_vec()).unwrap();
                rows.push(starts.zip(&ends[..cells]).map(cell).collect());
            }
            csv_core::ReadRecordResult::End => return rows,
            csv_core::ReadRecordResult::InputEmpty => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The values of a column.
fn column(rows: &[Vec<String>], name: &str) -> Vec<Option<f64>> {
    let place = rows[0].iter().position(|cell| cell == name).unwrap_or_else(|| panic!("no column {name}"));
    rows[1..].iter().map(|row| row[place].parse().ok()).collect()
}

fn report(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("machine.json")).unwrap()).unwrap()
}

#[test]
fn known_values_in_every_column_and_the_energy_of_a_linear_power() {
    let run = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(3);
    engine(run.path(), 2, u64::MAX, 4).run(&mut trainer, 3).unwrap();
    assert_eq!(trainer.log_text(), "");
    let rows = table(&run.path().join("machine.csv"));
    let count = rows.len() - 1;
    assert!(count >= 12, "{count}");
    assert!(rows.iter().all(|row| row.len() == 5 + 7 + 2 * 6));
    for (name, value) in [
        ("part", 1.0),
        ("process_memory_bytes", 7_340_032.0),
        ("machine_free_memory_bytes", 1_073_741_824.0),
        ("gpu0_utilisation_percent", 50.0),
    ] {
        assert_eq!(column(&rows, name), vec![Some(value); count], "{name}");
    }
    for (name, value) in [
        ("process_cpu_percent_of_core", 250.0),
        ("process_cpu_percent_of_machine", 62.5),
        ("process_read_bytes_per_s", 3e6),
        ("process_written_bytes_per_s", 1e6),
        ("cpu_package_power_w", 60.0),
    ] {
        let values = column(&rows, name);
        assert_eq!(values[0], None, "{name}: there is no rate yet");
        assert_eq!(values[1..], vec![Some(value); count - 1], "{name}");
    }
    assert_eq!(column(&rows, "gpu1_memory_bytes"), (0..count).map(|n| Some(n as f64)).collect::<Vec<_>>());
    assert_eq!(column(&rows, "gpu1_power_w"), vec![None; count]);
    let times: Vec<f64> = column(&rows, "time_s").into_iter().flatten().collect();
    assert!(times.len() == count && times.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < 0.002), "{times:?}");

    // 100 + 10 t watts over T seconds are 100 T + 5 T^2 joules.
    let report = report(run.path());
    let close = |value: &Value, wanted: f64| {
        let value = value.as_f64().unwrap_or_else(|| panic!("{value}, not {wanted}"));
        assert!((value - wanted).abs() < 1e-3 * wanted, "{value}, not {wanted}");
    };
    let seconds = (count - 1) as f64;
    let energy = &report["energy_joules"];
    close(&energy["gpu0"], 100.0 * seconds + 5.0 * seconds * seconds);
    close(&energy["gpus"], 100.0 * seconds + 5.0 * seconds * seconds);
    close(&energy["cpu_packages"], 60.0 * seconds);
    assert_eq!((&energy["gpu1"], &report["columns"]["gpu1_power_w"]), (&Value::Null, &Value::Null));
    close(&report["columns"]["gpu0_power_w"]["max"], 100.0 + 10.0 * seconds);
    close(&report["columns"]["gpu0_power_w"]["mean"], 100.0 + 5.0 * seconds);
    assert_eq!((&report["rows"], &report["parts"]), (&json!(count), &json!(1)));
    assert_eq!(report["gpus"][0]["name"], "first, with a comma");
    let epochs = report["epochs"].as_array().unwrap();
    let sum = |part: &str| -> f64 { epochs.iter().filter_map(|epoch| epoch["energy_joules"][part].as_f64()).sum() };
    close(&energy["gpus"], sum("gpus"));
    close(&energy["cpu_packages"], sum("cpu_packages"));

    let picture = fs::read(run.path().join("machine.png")).unwrap();
    let decoder = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
    assert_eq!(decoder.info().width, 1280);
}

#[test]
fn a_resumed_run_adds_rows_and_its_time_continues() {
    let run = tempfile::tempdir().unwrap();
    let path = run.path().join("machine.csv");
    engine(run.path(), 1, u64::MAX, 5).run(&mut Trainer::new(2), 1).unwrap();
    let first = fs::read_to_string(&path).unwrap();
    // The process was killed in the middle of a row. The next machine has one more GPU.
    fs::write(&path, first.clone() + "1,99").unwrap();
    engine(run.path(), 2, u64::MAX, 5).run(&mut Trainer::new(2), 1).unwrap();
    let rows = table(&path);
    let kept: Vec<String> = rows[1..].iter().map(|row| row[..18].join(",")).collect();
    let before: Vec<&str> = first.lines().skip(1).collect();
    assert_eq!(kept[..before.len()], before, "the rows of before");
    let (parts, times) = (column(&rows, "part"), column(&rows, "time_s"));
    assert_eq!(parts.iter().filter(|part| **part == Some(1.0)).count(), before.len());
    assert!(parts.len() > before.len() && parts[before.len()..].iter().all(|part| *part == Some(2.0)));
    assert!(times.iter().all(Option::is_some) && times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert!(column(&rows, "gpu1_memory_bytes")[..before.len()].iter().all(Option::is_none));
    let report = report(run.path());
    assert_eq!((&report["rows"], &report["parts"]), (&json!(rows.len() - 1), &json!(2)));
    // Both parts begin with 100 W; nothing is counted between them.
    let energy = |rows: usize| 100.0 * (rows - 1) as f64 + 5.0 * ((rows - 1) as f64).powi(2);
    let wanted = energy(before.len()) + energy(parts.len() - before.len());
    assert!((report["energy_joules"]["gpus"].as_f64().unwrap() / wanted - 1.0).abs() < 1e-3, "{wanted}: {report}");
}

#[test]
fn a_gpu_that_is_lost_is_reported_once_and_the_rest_goes_on() {
    let run = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(2);
    engine(run.path(), 2, 3, 4).run(&mut trainer, 4).unwrap();
    let lost = "machine_monitor: GPU 1 cannot be read: lost; its columns are empty from now on";
    assert_eq!(trainer.log_text(), lost);
    let rows = table(&run.path().join("machine.csv"));
    let memory = column(&rows, "gpu1_memory_bytes");
    assert!(memory.len() >= 16 && memory[..3].iter().all(Option::is_some) && memory[3..].iter().all(Option::is_none));
    assert!(column(&rows, "gpu0_power_w").iter().all(Option::is_some));
}

#[test]
fn no_gpu_is_one_line_and_no_column() {
    let run = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(2);
    let mut engine = engine(run.path(), 0, 0, 2);
    for _ in 0..2 {
        engine.run(&mut trainer, 2).unwrap();
    }
    let line = "machine_monitor: no GPU is recorded: no NVIDIA driver was found (it is a test)";
    assert_eq!(trainer.log_text(), line);
    assert!(!table(&run.path().join("machine.csv"))[0].iter().any(|name| name.starts_with("gpu")));
    let report = report(run.path());
    assert_eq!((&report["gpus"], &report["energy_joules"]["gpus"]), (&json!([]), &Value::Null));
    assert_eq!(report["energy_joules"]["cpu_packages"].as_f64().unwrap() % 60.0, 0.0);
}

/// The machine that this test runs on, by its name in a recipe.
#[test]
fn this_machine_is_sampled() {
    let run = tempfile::tempdir().unwrap();
    let mut engine = Engine::new("trainer");
    let options = json!({"every_seconds": 0.01, "file": "logs/of.csv"});
    engine.add_boxed(build("MachineMonitor", options, run.path()).unwrap()).unwrap();
    engine.run(&mut Trainer::new(2), 2).unwrap();
    let rows = table(&run.path().join("logs/of.csv"));
    assert!(column(&rows, "process_memory_bytes").iter().all(|bytes| bytes.is_some_and(|bytes| bytes > 1e6)));
    assert!(run.path().join("logs/of.json").exists() && run.path().join("logs/of.png").exists());
}

#[test]
fn files_that_cannot_be_written_disable_the_monitor_only() {
    let run = tempfile::tempdir().unwrap();
    fs::write(run.path().join("taken"), "").unwrap();
    fs::create_dir_all(run.path().join("folder.csv")).unwrap();
    // A link, which could lead to a file of another user.
    #[cfg(unix)]
    std::os::unix::fs::symlink(run.path().join("taken"), run.path().join("link.csv")).unwrap();
    let files = ["taken/machine.csv", "folder.csv", "link.csv"];
    for file in &files[..if cfg!(unix) { 3 } else { 2 }] {
        let mut trainer = Trainer::new(2);
        let mut engine = Engine::new("trainer");
        let options = json!({"every_seconds": 0.01, "file": file});
        engine.add_boxed(build("MachineMonitor", options, run.path()).unwrap()).unwrap();
        engine.run(&mut trainer, 3).unwrap();
        let text = trainer.log_text();
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("handler")).collect();
        let [error] = errors[..] else { panic!("{file}: {text}") };
        assert!(error.contains("`machine_monitor` failed at started and is not called again: "), "{error}");
        assert!(error.contains(*file), "{error}");
    }
    assert_eq!(fs::read_to_string(run.path().join("taken")).unwrap(), "");
}

#[test]
fn a_summary_that_cannot_be_written_is_reported_once() {
    let run = tempfile::tempdir().unwrap();
    fs::create_dir_all(run.path().join("machine.json/taken")).unwrap();
    let mut trainer = Trainer::new(2);
    engine(run.path(), 1, u64::MAX, 3).run(&mut trainer, 3).unwrap();
    let text = trainer.log_text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("failed at completed and is not called again: ") && text.contains("machine.json"), "{text}");
    assert!(table(&run.path().join("machine.csv")).len() > 9);
}

/// A file that stops accepting rows: a pipe that is no longer read.
#[cfg(unix)]
#[test]
fn a_file_that_takes_no_more_rows_is_reported_once() {
    use std::io::{BufRead, BufReader};
    let run = tempfile::tempdir().unwrap();
    let path = run.path().join("machine.csv");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let theirs = path.clone();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(fs::File::open(theirs).unwrap()).lines();
        lines.take(3).collect::<Result<Vec<_>, _>>().unwrap()
    });
    // A pipe that nothing reads yet is refused.
    std::thread::sleep(Duration::from_millis(100));
    let mut engine = Engine::new("trainer");
    engine.add(MachineMonitor::new(options(), run.path()).unwrap()).unwrap();
    let mut trainer = Trainer::new(1);
    let logged = trainer.logged.clone();
    let failed = move || logged.lock().unwrap().iter().any(|line| line.starts_with("handler"));
    engine
        .on(Event::EpochCompleted, move |cx| {
            std::thread::sleep(Duration::from_millis(5));
            if failed() {
                cx.host.terminate("it was reported");
            }
            Ok(())
        })
        .unwrap();
    engine.run(&mut trainer, 20_000).unwrap();
    assert!(reader.join().unwrap()[0].starts_with("part,time_s,"));
    let text = trainer.log_text();
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("handler")).collect();
    let [error] = errors[..] else { panic!("{text}") };
    let words = "handler `machine_monitor` failed at epoch_completed and is not called again: ";
    assert!(error.starts_with(words) && error.contains("machine.csv cannot be written: "), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (options, words) in [
        (json!({"every_seconds": 0.0}), "`every_seconds` is 0; give 0.01 to 86400"),
        (json!({"every_seconds": -1.0}), "`every_seconds` is -1"),
        (json!({"file": "machine.json"}), "give a name that ends in .csv"),
        (json!({"file": ""}), "give a name that ends in .csv"),
        (json!({"device": 0}), "device"),
    ] {
        let error = build("MachineMonitor", options, "".as_ref()).err().expect("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    for odd in [f64::NAN, f64::INFINITY, 1e-3] {
        assert!(MachineMonitor::new(options().every_seconds(odd), "".as_ref()).is_err(), "{odd}");
    }
}

/// Handlers before the monitor at the end of an epoch count as validation, handlers after it as a
/// checkpoint. Each phase lasts until the machine was read three times in it.
#[test]
fn rows_have_the_phase_that_the_run_is_in() {
    let run = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU64::new(0));
    let three_times = |looks: &Arc<AtomicU64>| {
        let looks = looks.clone();
        move |_: &mut hearth_engine::Context<'_>| {
            let from = looks.load(Ordering::SeqCst);
            while looks.load(Ordering::SeqCst) < from + 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    };
    let theirs = looks.clone();
    let connect = move || Fake { start: None, looks: theirs.clone(), n: 0, gpus: 0, lost: 0 };
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, three_times(&looks)).unwrap();
    engine.add(MachineMonitor::with_probe(options(), run.path(), connect).unwrap()).unwrap();
    engine.on(Event::Started | Event::ForwardCompleted | Event::EpochCompleted, three_times(&looks)).unwrap();
    engine.run(&mut Trainer::new(1), 2).unwrap();
    let rows = table(&run.path().join("machine.csv"));
    let place = rows[0].iter().position(|name| name == "epoch").unwrap();
    let mut phases: Vec<String> = rows[1..].iter().map(|row| row[place..place + 2].join(" ")).collect();
    phases.dedup();
    let of_epoch = |epoch: u32| ["training", "validation", "checkpoint"].map(|phase| format!("{epoch} {phase}"));
    let wanted = [&["0 start".to_owned()][..], &of_epoch(1), &of_epoch(2)].concat();
    assert_eq!(phases, wanted);
}
