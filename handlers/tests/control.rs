//! Handlers that end a run, and the registry.

mod mock;

use hearth_engine::{Better, Engine, Event, RunEnd};
use hearth_handlers::{
    EarlyStop, EarlyStopOptions, HandlerSpec, Schedule, ScheduleConfig, StopOnNonFinite, StopOnNonFiniteOptions,
    Timing, build, summary,
};
use hearth_registry::Registry;
use mock::Trainer;
use serde_json::{Value, json};

#[test]
fn early_stop_ends_where_ignite_does() {
    let file: Value = serde_json::from_str(include_str!("early_stop_ignite.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 80);
    for case in cases {
        let better: Better = serde_json::from_value(case["better"].clone()).unwrap();
        let options = EarlyStopOptions {
            patience: case["patience"].as_u64().unwrap(),
            min_delta: case["min_delta"].as_f64().unwrap(),
            cumulative_delta: case["cumulative_delta"].as_bool().unwrap(),
            ..EarlyStopOptions::default()
        };
        let mut stop = EarlyStop::new(options).unwrap();
        let scores = case["scores"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
        let stopped = scores.zip(1_u64..).find(|(score, _)| stop.step(*score, better)).map(|(_, epoch)| epoch);
        assert_eq!(stopped, case["stopped"].as_u64(), "{case}");
    }
}

fn early_stop(options: Value) -> Box<dyn hearth_engine::Handler> {
    build("EarlyStop", options, "".as_ref()).unwrap()
}

#[test]
fn early_stop_in_a_run() {
    let mut trainer = Trainer::new(2);
    // Computed in every second epoch; best in epoch 4.
    trainer.metrics =
        |e| if e % 2 == 0 { vec![("dice", [0.5, 0.7, 0.6, f64::NAN, 0.65][e as usize / 2 - 1])] } else { vec![] };
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice", Better::Higher);
    engine.add_boxed(early_stop(json!({"patience": 3}))).unwrap();
    mock::checkpoints(&mut engine);
    let end = engine.run(&mut trainer, 20).unwrap();
    let RunEnd::Terminated(why) = end else { panic!("{end:?}") };
    assert_eq!(why, "dice has not improved for 3 evaluations, it is 0.6500");
    assert_eq!(engine.state().epoch, 10);
    // The patience counter is restored: resumed from epoch 7, the run ends in epoch 10 too.
    let (_, snapshot) = trainer.saved.lock().unwrap()[6].clone();
    let mut other = Engine::new("trainer");
    other.set_key_metric("dice", Better::Higher);
    other.add_boxed(early_stop(json!({"patience": 3}))).unwrap();
    other.restore(&snapshot).unwrap();
    let mut rest = Trainer::new(2);
    rest.metrics = trainer.metrics;
    assert!(matches!(other.run(&mut rest, 20).unwrap(), RunEnd::Terminated(_)));
    assert_eq!(other.state().epoch, 10);
    assert!(
        other
            .restore(&{
                let mut bad = snapshot;
                bad.handlers.insert("early_stop".into(), b"{".to_vec());
                bad
            })
            .unwrap_err()
            .to_string()
            .contains("early_stop")
    );
}

#[test]
fn early_stop_on_a_metric_that_never_comes() {
    let mut trainer = Trainer::new(1);
    trainer.metrics = |_| vec![("dice", 0.5)];
    let mut engine = Engine::new("trainer");
    engine.add_boxed(early_stop(json!({"metric": "dcie"}))).unwrap();
    engine.run(&mut trainer, 3).unwrap();
    assert_eq!(trainer.log_text(), "early_stop watched `dcie`, which was never computed; it can watch: dice, loss");
    // Without any metric to watch, the first epoch is an error.
    let mut engine = Engine::new("trainer");
    engine.add_boxed(early_stop(json!({}))).unwrap();
    let error = engine.run(&mut Trainer::new(1), 3).unwrap_err().to_string();
    assert!(error.contains("no metric to watch"), "{error}");
}

#[test]
fn a_loss_that_is_no_number_stops_before_anything_is_written() {
    for (bad, name) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let mut trainer = Trainer::new(3);
        trainer.loss = if bad.is_nan() {
            |i| if i == 5 { f64::NAN } else { 0.5 }
        } else {
            |i| if i == 5 { f64::INFINITY } else { 0.5 }
        };
        let mut engine = Engine::new("trainer");
        // A checkpoint requested in the same iteration, before the loss is checked.
        engine
            .on(Event::ForwardCompleted | Event::IterationCompleted, |cx| {
                let tag = format!("{}", cx.state.iteration);
                Ok(cx.host.save_checkpoint(hearth_engine::CheckpointRequest {
                    dir: "c".into(),
                    tag,
                    keep_last: None,
                })?)
            })
            .unwrap();
        engine.add(StopOnNonFinite::new(StopOnNonFiniteOptions::default()).unwrap()).unwrap();
        let error = engine.run(&mut trainer, 3).unwrap_err().to_string();
        let wanted = format!(
            "trainer, epoch 2, iteration 5: handler `stop_on_non_finite` failed at loss_completed: the loss is {name} at \
             epoch 2, iteration 5 (cases: case_2, case_x; learning rate: 0.1); lower the learning rate, or inspect these cases"
        );
        assert_eq!(error, wanted);
        assert_eq!(trainer.rates.len(), 4, "the optimizer did not step with it");
        let tags: Vec<String> = trainer.saved.lock().unwrap().iter().map(|(tag, _)| tag.clone()).collect();
        assert_eq!(tags.last().unwrap(), "4");
    }
}

#[test]
fn the_loss_is_looked_at_only_as_often_as_asked() {
    for (options, looks) in
        [(json!({}), 10), (json!({"every": 4}), 2), (json!({"every": 3, "at": "iteration_completed"}), 3)]
    {
        let mut trainer = Trainer::new(5);
        let mut engine = Engine::new("trainer");
        engine.add_boxed(build("StopOnNonFinite", options, "".as_ref()).unwrap()).unwrap();
        engine.run(&mut trainer, 2).unwrap();
        assert_eq!(trainer.looks, looks);
    }
    let mut engine = Engine::new("trainer");
    engine.add_boxed(build("StopOnNonFinite", json!({"output": "perplexity"}), "".as_ref()).unwrap()).unwrap();
    let error = engine.run(&mut Trainer::new(1), 1).unwrap_err().to_string();
    assert!(error.contains("perplexity"), "{error}");
}

#[test]
fn every_name_builds_and_unknown_ones_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    for name in Registry::<HandlerSpec>::new().names() {
        let handler = build(name, json!({}), folder.path()).unwrap();
        let plain = |text: &str| text.replace('_', "").to_lowercase();
        // A state is saved under the handler's name, and the plugin `checkpoint` existed first.
        assert_eq!(plain(handler.name()), plain(name).replace("checkpoints", "checkpoint"));
        assert!(!handler.subscriptions().is_empty());
        let mut engine = Engine::new("trainer");
        engine.add_boxed(handler).unwrap();
        let Err(error) = build(name, json!({"no_such_option": 1}), folder.path()) else {
            panic!("{name} took anything")
        };
        assert!(error.to_string().contains("no_such_option"), "{error}");
        assert!(error.message.starts_with(name), "{error}");
    }
    for (asked, meant) in [
        ("early_stop", "EarlyStop"),
        ("tensorboardstat", "TensorBoardStats"),
        ("LRSchedule", "LrSchedule"),
        ("Progres", "Progress"),
    ] {
        let error = build(asked, json!({}), folder.path()).err().unwrap();
        assert_eq!(error.suggestion.as_deref(), Some(meant), "{error}");
    }
    let error = build("Frobnicate", json!({}), folder.path()).err().unwrap().to_string();
    assert!(!error.contains("did you mean") && error.contains("EarlyStop, GpuMonitor"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "building writes nothing");
}

#[test]
fn the_reference_describes_every_handler_schedule_and_parameter() {
    let mut silent = Vec::new();
    for entry in hearth_registry::described() {
        let parameters = entry.parameters.iter().filter(|p| p.doc.is_empty() || p.kind.contains("any value"));
        silent.extend(parameters.map(|parameter| format!("{}.{}: {}", entry.name, parameter.name, parameter.kind)));
        if entry.doc.is_empty() || !entry.closed {
            silent.push(format!("{} {}", entry.kind, entry.name));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    for entry in Registry::<HandlerSpec>::new().entries() {
        hearth_registry::Named::example(entry).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
    }
    for entry in Registry::<dyn Schedule>::new().entries() {
        let schedule = ScheduleConfig::example(entry).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
        assert!((0..2000).all(|step| schedule.at(0.1, step).is_finite()), "{}", entry.name);
    }
}

#[test]
fn options_that_make_no_sense() {
    for (name, options, says) in [
        ("EarlyStop", json!({"patience": 0}), "`patience` is 0"),
        ("EarlyStop", json!({"patience": -1}), "-1"),
        ("EarlyStop", json!({"min_delta": -0.5}), "`min_delta` is -0.5"),
        ("GpuMonitor", json!({"every_seconds": 0.0}), "`every_seconds` is 0"),
        ("LrSchedule", json!({"base_lr": -1.0}), "`base_lr` is -1"),
        ("LrSchedule", json!({"schedule": {"name": "StepLR", "step_size": 0}}), "`step_size` is 0"),
        ("LrSchedule", json!({"schedule": {"name": "NoLR"}}), "NoLR"),
        ("ReduceLROnPlateau", json!({"factor": 1.0}), "`factor` is 1"),
        ("StopOnNonFinite", json!({"every": 0}), "`every` is 0"),
        ("TensorBoardImage", json!({"axis": 3}), "`axis` is 3"),
        ("TensorBoardImage", json!({"every": 0}), "`every` is 0"),
        ("TensorBoardImage", json!({"tensors": []}), "`tensors` is empty"),
        ("MetricLog", json!({"every_iterations": "often"}), "often"),
        ("MetricLog", json!({"csv": "../metrics.csv"}), "run's folder, so `csv` cannot be \"../metrics.csv\""),
        ("MetricLog", json!({"jsonl": "/tmp/log.jsonl"}), "so `jsonl` cannot be \"/tmp/log.jsonl\""),
        ("TensorBoardStats", json!({"dir": "curves/../../other"}), "so `dir` cannot be"),
        ("TensorBoardImage", json!({"dir": "/tmp"}), "so `dir` cannot be"),
        ("LayerStatistics", json!({"csv": "../layers.csv"}), "so `csv` cannot be"),
        ("LayerStatistics", json!({"tensorboard": ".."}), "so `tensorboard` cannot be"),
        ("GpuMonitor", json!({"file": "/tmp/gpu.csv"}), "so `file` cannot be"),
        ("MachineMonitor", json!({"file": "../machine.csv"}), "so `file` cannot be"),
        ("Profiler", json!({"folder": "/tmp/profile"}), "so `folder` cannot be"),
        ("Validation", json!({"interval": 0}), "`interval` is 0"),
        ("LayerStatistics", json!({"every": 0}), "`every` is 0"),
        ("LayerStatistics", json!({"weights": false, "gradients": false}), "neither `weights` nor `gradients`"),
        ("LayerStatistics", json!({"csv": "", "tensorboard": ""}), "neither `csv` nor `tensorboard`"),
    ] {
        let error = build(name, options, "".as_ref()).err().unwrap().to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[test]
fn times_of_a_run() {
    let mut engine = Engine::new("trainer");
    engine
        .on(Event::ForwardCompleted, |_| {
            std::thread::sleep(std::time::Duration::from_millis(3));
            Ok(())
        })
        .unwrap();
    engine.add(Timing::default()).unwrap();
    let mut trainer = Trainer::new(4);
    engine.run(&mut trainer, 2).unwrap();
    // The slow handler is called before `Timing`, so its time lies before the forward pass's end.
    let table = trainer.log_text();
    let first = table.lines().nth(1).unwrap();
    assert!(first.starts_with("iteration_started -> forward_completed"), "{table}");
    let cells: Vec<&str> = first.split_whitespace().rev().take(3).collect();
    assert_eq!(cells[2], "8");
    assert!(cells[0].parse::<f64>().unwrap() >= 3.0, "{table}");
    // From the last event of an iteration to the first of the next, but not across the end of an
    // epoch: 2 x 3.
    assert!(
        table
            .lines()
            .any(|l| l.starts_with("iteration_completed -> get_batch_started")
                && l.split_whitespace().nth(3) == Some("6")),
        "{table}"
    );
    let text = summary(&engine);
    assert!(text.contains("timing") && text.contains("forward_completed") && text.contains("closure at"), "{text}");
    assert!(!text.contains("exception_raised"), "{text}");
}
