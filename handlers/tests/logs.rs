//! Files and lines: metric log, progress, GPU monitor.

mod mock;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hearth_engine::{Better, Engine, Event};
use hearth_handlers::{GpuMonitor, GpuMonitorOptions, GpuProbe, GpuSample, Progress, ProgressOptions, build};
use mock::Trainer;
use serde_json::{Value, json};

fn trainer() -> Trainer {
    let mut trainer = Trainer::new(4);
    // A metric with a comma in its name, one that is computed in every second epoch only, one that
    // is NaN once.
    trainer.metrics = |e| {
        let mut list = vec![("loss", if e == 3 { f64::NAN } else { 1.0 / e as f64 })];
        if e % 2 == 0 {
            list.push(("dice, mean", e as f64 / 8.0));
        }
        list
    };
    trainer
}

fn engine(run: &Path) -> Engine {
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice, mean", Better::Higher);
    let options = json!({"every_iterations": 3, "seconds": false});
    engine.add_boxed(build("MetricLog", options, run).unwrap()).unwrap();
    mock::checkpoints(&mut engine);
    engine
}

fn read(run: &Path) -> (String, String) {
    (fs::read_to_string(run.join("metrics.csv")).unwrap(), fs::read_to_string(run.join("log.jsonl")).unwrap())
}

#[test]
fn rows_and_lines() {
    let run = tempfile::tempdir().unwrap();
    engine(run.path()).run(&mut trainer(), 4).unwrap();
    let (csv, jsonl) = read(run.path());
    let wanted = "epoch,iteration,learning_rate,loss,\"dice, mean\"\n1,4,0.1,1,\n2,8,0.1,0.5,0.25\n3,12,0.1,NaN,\n4,16,0.1,0.25,0.5\n";
    assert_eq!(csv, wanted);
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).cloned().collect::<Vec<_>>();
    assert_eq!(of("iteration").len(), 5);
    assert_eq!(
        of("iteration")[1],
        json!({"event": "iteration", "epoch": 2, "iteration": 6, "loss": 1.0 / 6.0, "learning_rate": 0.1})
    );
    assert_eq!(of("epoch")[2]["metrics"], json!({"loss": "NaN"}));
    assert_eq!((&of("epoch")[0]["key_metric"], &of("epoch")[0]["better"]), (&json!("dice, mean"), &json!("higher")));
    assert_eq!((&of("epoch")[2]["best"], &of("epoch")[2]["best_epoch"]), (&json!(0.25), &json!(2)));
    assert_eq!(lines.last().unwrap()["event"], "completed");
    assert_eq!(fs::read_dir(&run).unwrap().count(), 2, "no temporary file stays");
}

#[test]
fn a_resumed_run_leaves_the_files_of_one_that_went_through() {
    let whole = tempfile::tempdir().unwrap();
    engine(whole.path()).run(&mut trainer(), 5).unwrap();
    let wanted = read(whole.path());
    for (kept, killed_after) in [(1, 2), (2, 4), (3, 3), (1, 4)] {
        let run = tempfile::tempdir().unwrap();
        let mut first = trainer();
        engine(run.path()).run(&mut first, killed_after).unwrap();
        // The crash truncated the last line of each file.
        for name in ["metrics.csv", "log.jsonl"] {
            let mut file = fs::OpenOptions::new().append(true).open(run.path().join(name)).unwrap();
            file.write_all(b"{\"event\":\"epo").unwrap();
        }
        let (_, snapshot) = first.saved.lock().unwrap()[kept - 1].clone();
        let mut second = engine(run.path());
        second.restore(&snapshot).unwrap();
        second.run(&mut trainer(), 5).unwrap();
        assert_eq!(read(run.path()), wanted, "checkpoint of epoch {kept}, killed after {killed_after}");
    }
    // In mid-epoch.
    let run = tempfile::tempdir().unwrap();
    let mut first = engine(run.path());
    first
        .on(Event::IterationCompleted.once(10), |cx| {
            cx.host.interrupt("pause");
            Ok(())
        })
        .unwrap();
    let mut paused = trainer();
    first.run(&mut paused, 5).unwrap();
    let snapshot = first.snapshot();
    first.run(&mut paused, 4).unwrap();
    let mut second = engine(run.path());
    second.restore(&snapshot).unwrap();
    second.run(&mut trainer(), 5).unwrap();
    assert_eq!(read(run.path()), wanted);
    // From the start: the files are emptied.
    engine(run.path()).run(&mut trainer(), 5).unwrap();
    assert_eq!(read(run.path()), wanted);
}

#[test]
fn a_resume_that_fails_early_keeps_the_old_log() {
    let run = tempfile::tempdir().unwrap();
    engine(run.path()).run(&mut trainer(), 2).unwrap();
    let (csv, jsonl) = read(run.path());
    let mut second = engine(run.path());
    second.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("nowhere".as_ref())?)).unwrap();
    second.run(&mut trainer(), 2).unwrap_err();
    let (csv_after, jsonl_after) = read(run.path());
    assert_eq!(csv_after, csv);
    assert!(jsonl_after.starts_with(&jsonl));
    let last: Value = serde_json::from_str(jsonl_after.lines().last().unwrap()).unwrap();
    assert!(last["error"].as_str().unwrap().contains("nowhere is empty"), "{last}");
}

#[test]
fn lines_that_are_no_json_are_dropped_with_a_warning() {
    let run = tempfile::tempdir().unwrap();
    let mut first = trainer();
    engine(run.path()).run(&mut first, 2).unwrap();
    let path = run.path().join("log.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("\0\0\0\n{text}")).unwrap();
    let mut second = engine(run.path());
    second.restore(&first.saved.lock().unwrap()[0].1).unwrap();
    let mut rest = trainer();
    second.run(&mut rest, 2).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(rest.log_text().contains("log.jsonl: dropped a line that is not JSON"), "{}", rest.log_text());
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let run = tempfile::tempdir().unwrap();
    fs::create_dir(run.path().join("metrics.csv")).unwrap();
    let error = engine(run.path()).run(&mut trainer(), 1).unwrap_err().to_string();
    assert!(
        error.contains("handler `metric_log` failed at iteration_started: ") && error.contains("metrics.csv"),
        "{error}"
    );
}

/// A writer that can be read while it is written to.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_for_each_epoch() {
    let out = Shared::default();
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice", Better::Higher);
    engine.add(Progress::lines(ProgressOptions { every: 4 }, out.clone())).unwrap();
    let mut trainer = Trainer::new(5);
    trainer.metrics = |e| vec![("dice", [0.5, 0.25, 0.75][e as usize - 1])];
    engine.run(&mut trainer, 3).unwrap();
    assert_eq!(trainer.looks, 6, "the loss is read in iterations 4, 8 and 12, and at the ends 5, 10 and 15");
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("epoch 1/3  loss 0.2000  dice 0.5000 (best)  0.0 s  0 s left"), "{text}");
    assert!(lines[1].starts_with("epoch 2/3  loss 0.1000  dice 0.2500  0.0 s"), "{text}");
    assert!(
        lines[2].starts_with("epoch 3/3  loss 0.0667  dice 0.7500 (best)  0.0 s") && !lines[2].contains("left"),
        "{text}"
    );
    // With 0 it never reads the loss.
    let mut silent = Trainer::new(5);
    let mut engine = Engine::new("trainer");
    engine.add(Progress::lines(ProgressOptions { every: 0 }, out)).unwrap();
    engine.run(&mut silent, 1).unwrap();
    assert_eq!(silent.looks, 0);
}

fn monitor(run: &Path, connect: impl FnMut() -> Result<GpuProbe, String> + Send + 'static) -> Engine {
    let options = GpuMonitorOptions { every_seconds: 0.02, ..GpuMonitorOptions::default() };
    let mut engine = Engine::new("trainer");
    engine.add(GpuMonitor::with_probe(options, run, connect).unwrap()).unwrap();
    let pause = |_: &mut hearth_engine::Context<'_>| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        Ok(())
    };
    engine.on(Event::EpochCompleted, pause).unwrap();
    engine
}

#[test]
fn a_row_for_each_look_at_the_gpu() {
    let run = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU32::new(0));
    let count = looks.clone();
    let mut engine = monitor(run.path(), move || {
        let looks = count.clone();
        Ok(Box::new(move || {
            let n = looks.fetch_add(1, Ordering::SeqCst);
            Ok(GpuSample { utilisation: n % 101, used: 1 << 30, total: 4 << 30 })
        }))
    });
    for _ in 0..2 {
        engine.run(&mut Trainer::new(1), 2).unwrap();
    }
    let text = fs::read_to_string(run.path().join("gpu.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("time,gpu_utilisation_percent,memory_used_bytes,memory_total_bytes,memory_used_ratio")
    );
    let rows: Vec<Vec<f64>> = lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len() as u32, looks.load(Ordering::SeqCst));
    assert!(rows.len() >= 8, "{} rows in 240 ms", rows.len());
    assert!(rows.is_sorted_by(|a, b| a[0] <= b[0]) && rows[0][0] > 1.7e9);
    assert!(rows.iter().enumerate().all(|(n, row)| row[1..] == [n as f64, 1073741824.0, 4294967296.0, 0.25]));
}

#[test]
fn no_driver_is_one_line_and_nothing_else() {
    let run = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(2);
    monitor(run.path(), || Err("no NVIDIA driver was found".into())).run(&mut trainer, 3).unwrap();
    assert_eq!(trainer.log_text(), "gpu_monitor: nothing is recorded: no NVIDIA driver was found");
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    // The same from the real library, on a machine that has a driver or not.
    let mut engine = Engine::new("trainer");
    engine.add_boxed(build("GpuMonitor", json!({}), run.path()).unwrap()).unwrap();
    let mut trainer = Trainer::new(2);
    engine.run(&mut trainer, 1).unwrap();
    let has_driver = run.path().join("gpu.csv").exists();
    assert_eq!(trainer.log_text().lines().count(), usize::from(!has_driver), "{}", trainer.log_text());
}

#[test]
fn a_gpu_that_falls_off_the_bus_disables_the_monitor_only() {
    let run = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(2);
    let connect = || {
        let mut looks = 0;
        let probe: GpuProbe = Box::new(move || {
            looks += 1;
            if looks < 3 {
                Ok(GpuSample { utilisation: 1, used: 1, total: 0 })
            } else {
                Err("GPU 0 cannot be read: lost".into())
            }
        });
        Ok(probe)
    };
    monitor(run.path(), connect).run(&mut trainer, 4).unwrap();
    let text = trainer.log_text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("handler `gpu_monitor` failed at epoch_completed and is not called again: GPU 0 cannot be read"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(run.path().join("gpu.csv")).unwrap().lines().count(), 3);
}
