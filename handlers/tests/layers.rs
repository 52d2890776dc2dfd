//! Statistics of layers: rows, curves, a resumed run, non-finite layers.

mod mock;

use std::fs;

use hearth_engine::{Engine, Event, LayerStatistics, LayerValues, Snapshot};
use hearth_handlers::build;
use mock::Trainer;
use serde_json::{Value, json};

/// Two layers; the gradients of iteration 4 hold a non-finite value.
fn layers(of: LayerValues, iteration: u64) -> Option<Vec<LayerStatistics>> {
    let layer = |name: &str, count: u64| LayerStatistics {
        name: name.into(),
        count,
        mean: iteration as f64 / 4.0,
        std: if of == LayerValues::Weights { 0.5 } else { 0.125 },
        min: -1.0,
        max: 2.0,
        non_finite: u64::from(of == LayerValues::Gradients && iteration >= 4 && name == "b"),
    };
    Some(vec![layer("a, first", 27), layer("b", 3)])
}

fn trainer() -> Trainer {
    let mut trainer = Trainer::new(3);
    trainer.layers = layers;
    trainer
}

fn engine(options: Value, folder: &std::path::Path) -> Engine {
    let mut engine = Engine::new("trainer");
    engine.add_boxed(build("LayerStatistics", options, folder).unwrap()).unwrap();
    engine
}

#[test]
fn a_row_for_each_layer_and_a_warning_for_wild_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(json!({"every": 2}), folder.path());
    let mut trainer = trainer();
    engine.run(&mut trainer, 2).unwrap();
    let text = fs::read_to_string(folder.path().join("layers.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "iteration,values,layer,count,mean,std,min,max,non_finite",
            "2,gradients,\"a, first\",27,0.5,0.125,-1,2,0",
            "2,gradients,b,3,0.5,0.125,-1,2,0",
            "2,weights,\"a, first\",27,0.5,0.5,-1,2,0",
            "2,weights,b,3,0.5,0.5,-1,2,0",
            "4,gradients,\"a, first\",27,1,0.125,-1,2,0",
        ]
    );
    assert_eq!(lines.len(), 1 + 3 * 4);
    assert_eq!(trainer.log_text(), "iteration 4: non-finite values in gradients b", "reported once");
    assert_eq!(fs::read_dir(folder.path().join("tensorboard")).unwrap().count(), 1);
}

#[test]
fn only_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(json!({"every": 1, "gradients": false, "tensorboard": ""}), folder.path());
    engine.run(&mut trainer(), 1).unwrap();
    let text = fs::read_to_string(folder.path().join("layers.csv")).unwrap();
    assert!(!text.contains("gradients") && text.lines().count() == 1 + 3 * 2, "{text}");
    assert!(!folder.path().join("tensorboard").exists());
}

#[test]
fn a_resumed_run_writes_what_one_run_writes() {
    let whole = tempfile::tempdir().unwrap();
    engine(json!({"every": 1}), whole.path()).run(&mut trainer(), 3).unwrap();

    let parts = tempfile::tempdir().unwrap();
    let mut first = engine(json!({"every": 1}), parts.path());
    mock::checkpoints(&mut first);
    let mut one = trainer();
    let saved = one.saved.clone();
    // Two epochs are run, one of which is kept.
    first.run(&mut one, 2).unwrap();
    let snapshot: Snapshot = saved.lock().unwrap()[0].1.clone();
    drop(first);
    let mut second = engine(json!({"every": 1}), parts.path());
    second.restore(&snapshot).unwrap();
    second.run(&mut trainer(), 3).unwrap();
    let read = |folder: &tempfile::TempDir| fs::read_to_string(folder.path().join("layers.csv")).unwrap();
    assert_eq!(read(&parts), read(&whole));
}

#[test]
fn a_host_without_statistics_disables_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(json!({"every": 1}), folder.path());
    engine.on(Event::Completed, |_| Ok(())).unwrap();
    let mut trainer = Trainer::new(2);
    engine.run(&mut trainer, 1).unwrap();
    let times = engine.handler_times();
    assert!(times[0].disabled && times[0].calls == 1, "{times:?}");
    assert!(trainer.log_text().contains("`layer_statistics` is not supported"), "{}", trainer.log_text());
}
