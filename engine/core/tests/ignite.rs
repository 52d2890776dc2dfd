//! The order of events, the filters and the effect of requests, against traces of pytorch-ignite
//! (written by `ignite_traces.py`).

mod mock;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hearth_engine::{Context, Engine, Event, RunEnd, When};
use mock::Mock;
use serde_json::Value;

const CODES: [(&str, Event); 16] = [
    ("S", Event::Started),
    ("ES", Event::EpochStarted),
    ("GS", Event::GetBatchStarted),
    ("GC", Event::GetBatchCompleted),
    ("IS", Event::IterationStarted),
    ("FC", Event::ForwardCompleted),
    ("LC", Event::LossCompleted),
    ("BC", Event::BackwardCompleted),
    ("MC", Event::ModelCompleted),
    ("IC", Event::IterationCompleted),
    ("EC", Event::EpochCompleted),
    ("C", Event::Completed),
    ("T", Event::Terminate),
    ("TE", Event::TerminateSingleEpoch),
    ("I", Event::Interrupt),
    ("D", Event::DataLoaderStopIteration),
];

fn event(code: &str) -> Event {
    CODES.iter().find(|(c, _)| *c == code).unwrap().1
}

fn when(code: &str, options: &Value) -> When {
    let mut when = When::from(event(code));
    for (name, value) in options.as_object().unwrap() {
        when = match (name.as_str(), value) {
            ("once", Value::Array(list)) => list.iter().fold(when, |w, k| w.once(k.as_u64().unwrap())),
            ("once", k) => when.once(k.as_u64().unwrap()),
            ("every", n) => when.every(n.as_u64().unwrap()),
            ("before", n) => when.before(n.as_u64().unwrap()),
            ("after", n) => when.after(n.as_u64().unwrap()),
            (other, _) => panic!("unknown filter {other}"),
        };
    }
    when
}

/// Runs a scenario; returns the trace and the filtered calls.
fn play(scenario: &Value) -> (Vec<String>, Vec<String>) {
    let mut engine = Engine::new("trainer");
    engine.state_mut().epoch_length = scenario["epoch_length"].as_u64();
    let mut workflow = Mock::new(scenario["batches"].as_u64().unwrap());
    workflow.known = scenario["known"].as_bool().unwrap();
    let trace: mock::Trace = Arc::default();
    let calls: mock::Trace = Arc::default();
    let seen: Arc<Mutex<BTreeMap<&str, u64>>> = Arc::default();
    let actions = scenario["actions"].as_array().unwrap().clone();
    for (code, event) in CODES {
        let (trace, seen, actions) = (trace.clone(), seen.clone(), actions.clone());
        let note = move |cx: &mut Context<'_>| {
            trace.lock().unwrap().push(format!("{code} {} {}", cx.state.epoch, cx.state.iteration));
            let mut seen = seen.lock().unwrap();
            let nth = seen.entry(code).or_default();
            *nth += 1;
            for action in actions.iter().filter(|a| a[0] == code && a[1] == *nth) {
                match action[2].as_str().unwrap() {
                    "terminate" => cx.host.terminate("asked"),
                    "terminate_epoch" => cx.host.terminate_epoch("asked"),
                    _ => cx.host.interrupt("asked"),
                }
            }
            Ok(())
        };
        engine.on(event, note).unwrap();
    }
    for (index, filter) in scenario["filters"].as_array().unwrap().iter().enumerate() {
        let code = filter[0].as_str().unwrap().to_owned();
        let calls = calls.clone();
        let when = when(&code, &filter[1]);
        let note = move |cx: &mut Context<'_>| {
            calls.lock().unwrap().push(format!("{index} {code} {} {}", cx.state.epoch, cx.state.iteration));
            Ok(())
        };
        engine.on(when, note).unwrap();
    }
    for max_epochs in scenario["runs"].as_array().unwrap() {
        let result = engine.run(&mut workflow, max_epochs.as_u64().unwrap());
        trace.lock().unwrap().push(if result.is_ok() { "end".to_owned() } else { "error".to_owned() });
    }
    (trace.lock().unwrap().clone(), calls.lock().unwrap().clone())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

#[test]
fn events_and_filters_are_those_of_ignite() {
    let file: Value = serde_json::from_str(include_str!("ignite_traces.json")).unwrap();
    let scenarios = file["scenarios"].as_array().unwrap();
    assert!(scenarios.len() > 100, "{} scenarios", scenarios.len());
    let mut failed = Vec::new();
    for scenario in scenarios {
        let (trace, calls) = play(scenario);
        let (wanted, wanted_calls) = (texts(&scenario["trace"]), texts(&scenario["calls"]));
        if trace != wanted {
            let at = trace.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
            failed.push(format!(
                "{}: entry {at} is {:?}, ignite has {:?}; scenario {}",
                scenario["name"],
                &trace[at.saturating_sub(2)..trace.len().min(at + 4)],
                &wanted[at.saturating_sub(2)..wanted.len().min(at + 4)],
                scenario["actions"],
            ));
        }
        if calls != wanted_calls {
            failed.push(format!("{}: filtered calls {calls:?}, ignite has {wanted_calls:?}", scenario["name"]));
        }
    }
    assert!(failed.is_empty(), "{} of {} scenarios differ:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
}

/// The trace of one trainer run, written out in full.
#[test]
fn the_order_of_one_run() {
    let mut engine = Engine::new("trainer");
    let trace = mock::listen(&mut engine, Event::BUILT_IN.iter().copied());
    let mut workflow = Mock::new(1);
    assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Completed);
    let iteration = |e: u64, i: u64| {
        let inner = ["forward_completed", "loss_completed", "backward_completed", "model_completed"];
        let mut list = vec![format!("iteration_started {e} {i}")];
        list.extend(inner.iter().map(|name| format!("{name} {e} {i}")));
        list.push(format!("iteration_completed {e} {i}"));
        list
    };
    let mut wanted = vec!["started 0 0".to_owned(), "epoch_started 1 0".into(), "get_batch_started 1 0".into()];
    wanted.push("get_batch_completed 1 0".into());
    wanted.extend(iteration(1, 1));
    wanted.extend(["epoch_completed 1 1", "epoch_started 2 1", "get_batch_started 2 1"].map(String::from));
    wanted.extend(["dataloader_stop_iteration 2 1", "get_batch_completed 2 1"].map(String::from));
    wanted.extend(iteration(2, 2));
    wanted.extend(["epoch_completed 2 2", "completed 2 2"].map(String::from));
    assert_eq!(*trace.lock().unwrap(), wanted);
}

/// The number of an evaluator's epoch comes from outside; `Started` sees the previous one.
#[test]
fn the_order_of_an_evaluation() {
    let mut engine = Engine::new("validation");
    let trace =
        mock::listen(&mut engine, [Event::Started, Event::EpochStarted, Event::EpochCompleted, Event::Completed]);
    let mut workflow = Mock::new(2);
    workflow.inner = vec![Event::ForwardCompleted, Event::ModelCompleted];
    for epoch in [0, 5, 5] {
        assert_eq!(engine.run_epoch(&mut workflow, epoch).unwrap(), RunEnd::Completed);
    }
    let once = |e: u64| {
        vec![
            format!("started {} 0", e - 1),
            format!("epoch_started {e} 0"),
            format!("epoch_completed {e} 2"),
            format!("completed {e} 2"),
        ]
    };
    assert_eq!(*trace.lock().unwrap(), [once(1), once(5), once(5)].concat());
    // Draws of the data are keyed by the pass, which is the epoch here.
    assert_eq!(workflow.passes, [(1, 0), (5, 0), (5, 0)]);
}
