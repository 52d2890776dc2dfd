//! Handlers: order, removal, names, errors, ranks, requests, times.

#![allow(clippy::unit_arg, reason = "`|cx| Ok(cx.host.interrupt(\"...\"))` reads well")]

mod mock;

use std::error::Error;
use std::sync::{Arc, Mutex};

use hearth_engine::{
    Better, Engine, Event, HandlerId, Level, OnError, Ranks, RunEnd, RunErrorKind, Workflow, not_offered, trace,
};
use mock::{Counting, Mock, save};

#[test]
fn called_in_order_of_registration() {
    let mut engine = Engine::new("trainer");
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..5 {
        let order = order.clone();
        engine.on(Event::EpochCompleted, move |_| Ok(order.lock().unwrap().push(n))).unwrap();
    }
    engine.run(&mut Mock::new(1), 2).unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
}

#[test]
fn removed_before_and_while_running() {
    let mut engine = Engine::new("trainer");
    let before = Counting::new("before", Event::IterationCompleted);
    let own = Counting::new("until 3", Event::IterationCompleted);
    let (never, thrice) = (before.seen.clone(), own.seen.clone());
    let id = engine.add(before).unwrap();
    assert_eq!(engine.remove(id).unwrap().name(), "before");
    assert!(engine.remove(id).is_none(), "gone already");
    let remover = engine.remover();
    let target: Arc<Mutex<Option<HandlerId>>> = Arc::default();
    let named = target.clone();
    engine
        .on(Event::IterationCompleted.once(4), move |_| {
            named.lock().unwrap().iter().for_each(|id| remover.remove(*id));
            Ok(())
        })
        .unwrap();
    *target.lock().unwrap() = Some(engine.add(own).unwrap());
    engine.run(&mut Mock::new(6), 1).unwrap();
    // The remover comes first at iteration 4, so the handler is not called there any more.
    assert_eq!((*never.lock().unwrap(), *thrice.lock().unwrap()), (0, 3));
    assert_eq!(engine.handler_times()[2].calls, 3, "its times stay");
}

#[test]
fn a_workflow_may_change_handlers_within_an_iteration() {
    struct Changing(Mock, Option<HandlerId>);
    impl hearth_engine::Host for Changing {
        fn log(&mut self, level: Level, message: &str) {
            trace(level, message);
        }
        not_offered! {
            requests, names, output, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run,
            tensor, put_tensor, combine
        }
    }
    impl Workflow for Changing {
        fn restart(&mut self, s: &hearth_engine::State, skip: u64) -> Result<Option<u64>, hearth_engine::BoxError> {
            self.0.restart(s, skip)
        }
        fn fetch(&mut self, s: &hearth_engine::State) -> Result<bool, hearth_engine::BoxError> {
            self.0.fetch(s)
        }
        fn iterate(&mut self, engine: &mut Engine) -> Result<(), hearth_engine::BoxError> {
            if let Some(id) = self.1.take() {
                engine.remove(id);
                engine.add(Counting::new("late", Event::ForwardCompleted))?;
            }
            engine.fire(Event::ForwardCompleted, self)?;
            Ok(())
        }
    }
    let mut engine = Engine::new("trainer");
    let id = engine.add(Counting::new("early", Event::ForwardCompleted)).unwrap();
    engine.run(&mut Changing(Mock::new(3), Some(id)), 1).unwrap();
    let calls: Vec<(String, u64)> = engine.handler_times().into_iter().map(|t| (t.name, t.calls)).collect();
    assert_eq!(calls, [("early".into(), 0), ("late".into(), 3)]);
}

#[test]
fn names_are_made_unique() {
    let mut engine = Engine::new("trainer");
    for name in ["log", "log", "other", "log", "log#x"] {
        engine.add(Counting::new(name, Event::Started)).unwrap();
    }
    let names: Vec<String> = engine.handler_times().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["log", "log#2", "other", "log#3", "log#x"]);
    engine.run(&mut Mock::new(1), 1).unwrap();
    assert_eq!(engine.snapshot().handlers.len(), 5);
}

#[test]
fn an_error_stops_disables_or_is_logged() {
    for (policy, calls) in [(OnError::Stop, 1), (OnError::Disable, 1), (OnError::Log, 3)] {
        let mut engine = Engine::new("trainer");
        let failing = Counting { fail: true, policy, ..Counting::new("writer", Event::IterationCompleted) };
        let seen = failing.seen.clone();
        engine.add(failing).unwrap();
        let after = Counting::new("after", Event::IterationCompleted);
        let after_seen = after.seen.clone();
        engine.add(after).unwrap();
        let mut workflow = Mock::new(3);
        let result = engine.run(&mut workflow, 1);
        assert_eq!(*seen.lock().unwrap(), calls, "{policy:?}");
        if policy == OnError::Stop {
            let error = result.unwrap_err();
            assert_eq!(
                error.to_string(),
                "trainer, epoch 1, iteration 1: handler `writer` failed at iteration_completed: the disk is full"
            );
            assert!(matches!(error.kind, RunErrorKind::Handler { event: Event::IterationCompleted, .. }));
            assert_eq!(*after_seen.lock().unwrap(), 0, "handlers after the failed one are not called");
        } else {
            assert_eq!(result.unwrap(), RunEnd::Completed);
            assert_eq!(*after_seen.lock().unwrap(), 3);
            assert_eq!(workflow.logged.len() as u64, calls);
            assert!(workflow.logged[0].contains("`writer` failed at iteration_completed"), "{:?}", workflow.logged);
        }
    }
}

/// ignite swallows an exception when a handler listens, and calls handlers twice when one raises
/// again. Here every handler is called once, even when others fail, and the run fails.
#[test]
fn exceptions_are_told_to_every_handler_once_and_never_swallowed() {
    let mut engine = Engine::new("trainer");
    let texts = Arc::new(Mutex::new(Vec::new()));
    for fails in [false, true, false] {
        let texts = texts.clone();
        engine
            .on(Event::ExceptionRaised, move |cx| {
                texts.lock().unwrap().push(cx.state.exception.clone().unwrap_or_default());
                if fails { Err(hearth_engine::HandlerError::new("again")) } else { Ok(()) }
            })
            .unwrap();
    }
    engine.on(Event::ExceptionRaised, |cx| save(cx, "last words")).unwrap();
    engine.on(Event::IterationStarted.once(5), |cx| save(cx, "pending")).unwrap();
    let trace = mock::listen(&mut engine, [Event::EpochCompleted, Event::ExceptionRaised, Event::Completed]);
    let mut workflow = Mock::new(3);
    workflow.fail_at = Some(5);
    let error = engine.run(&mut workflow, 3).unwrap_err();
    assert_eq!(error.to_string(), "trainer, epoch 2, iteration 5: could not do the iteration: out of memory");
    assert_eq!(error.source().unwrap().to_string(), "out of memory");
    assert_eq!(*texts.lock().unwrap(), vec![error.to_string(); 3]);
    assert_eq!(*trace.lock().unwrap(), ["epoch_completed 1 3", "exception_raised 2 5"]);
    // The checkpoint of the exception holds the last complete iteration. The run resumes with the
    // one that failed.
    let shelf = workflow.shelf.lock().unwrap().clone();
    assert!(shelf["last words"].contains("\"iteration\":4"), "{shelf:?}");
    assert_eq!(engine.state().iteration, 4);
    engine.run(&mut workflow, 3).unwrap();
    let mut whole = Mock::new(3);
    Engine::new("trainer").run(&mut whole, 3).unwrap();
    assert_eq!(workflow.weights, whole.weights);
    assert_eq!(engine.state().exception, None);
}

#[test]
fn an_error_before_a_checkpoint_keeps_it_from_being_written() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |cx| save(cx, "best")).unwrap();
    engine.add(Counting { fail: true, ..Counting::new("stop on NaN", Event::EpochCompleted) }).unwrap();
    let mut workflow = Mock::new(2);
    engine.run(&mut workflow, 1).unwrap_err();
    assert!(workflow.shelf.lock().unwrap().is_empty());
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_an_error_of_who_asked() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |cx| save(cx, "newest")).unwrap();
    let mut workflow = Mock::new(2);
    workflow.full = true;
    let text = engine.run(&mut workflow, 1).unwrap_err().to_string();
    assert!(text.contains("handler `closure at") && text.contains("handlers.rs"), "{text}");
    assert!(text.contains("`newest` could not be written to checkpoints: no space left"), "{text}");

    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |cx| Ok(cx.host.load_checkpoint("x".as_ref())?)).unwrap();
    let text = engine.run(&mut Mock::new(1), 1).unwrap_err().to_string();
    assert!(text.contains("can be loaded at started only"), "{text}");

    let mut engine = Engine::new("trainer");
    engine.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("nowhere".as_ref())?)).unwrap();
    let text = engine.run(&mut Mock::new(1), 1).unwrap_err().to_string();
    assert!(text.contains("nowhere holds no checkpoint"), "{text}");
}

/// Checkpoints written in the background: at most two at once, reported late, and all on disk when
/// the run ends.
#[test]
fn checkpoints_that_are_written_in_the_background() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::IterationCompleted, |cx| save(cx, "newest")).unwrap();
    engine.on(Event::Completed, |cx| save(cx, "final")).unwrap();
    let mut workflow = Mock::new(5);
    workflow.slow = true;
    engine.run(&mut workflow, 2).unwrap();
    assert_eq!(workflow.most_begun, 2);
    assert!(hearth_engine::Workflow::checkpoint_written(&mut workflow, true).is_none());
    assert_eq!(workflow.shelf.lock().unwrap().len(), 2);

    // The last one fails, after everything else is done.
    let mut engine = Engine::new("trainer");
    engine.on(Event::Completed, |cx| save(cx, "final")).unwrap();
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    engine
        .on(Event::ExceptionRaised, move |_| {
            *count.lock().unwrap() += 1;
            Ok(())
        })
        .unwrap();
    let mut workflow = Mock::new(2);
    (workflow.slow, workflow.full) = (true, true);
    let text = engine.run(&mut workflow, 1).unwrap_err().to_string();
    assert!(text.contains("failed at completed: the checkpoint `final` could not be written"), "{text}");
    assert_eq!(*told.lock().unwrap(), 1);

    // A checkpoint requested when an error is raised is waited for as well.
    let mut engine = Engine::new("trainer");
    engine.on(Event::ExceptionRaised, |cx| save(cx, "last words")).unwrap();
    let mut workflow = Mock::new(2);
    (workflow.slow, workflow.fail_at) = (true, Some(2));
    engine.run(&mut workflow, 1).unwrap_err();
    assert!(hearth_engine::Workflow::checkpoint_written(&mut workflow, true).is_none());
}

/// A checkpoint holds what every handler of the event has seen, and is written once the iteration
/// is complete.
#[test]
fn checkpoints_are_written_after_the_handlers_of_the_event() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |cx| save(cx, "epoch")).unwrap();
    engine.on(Event::ForwardCompleted.filter(|s, _| s.iteration == 2), |cx| save(cx, "inside")).unwrap();
    engine.add(Counting::new("later", Event::EpochCompleted | Event::IterationCompleted)).unwrap();
    let mut workflow = Mock::new(2);
    engine.run(&mut workflow, 1).unwrap();
    let read = |tag: &str| {
        let (weights, _, snapshot): (u64, u64, hearth_engine::Snapshot) =
            serde_json::from_str(&workflow.shelf.lock().unwrap()[tag]).unwrap();
        (weights, snapshot.state.epoch_iteration, snapshot.handlers["later"][0])
    };
    assert_eq!(read("epoch"), (workflow.weights, 2, 3));
    assert_eq!(read("inside"), (workflow.weights, 2, 2));
}

#[test]
fn ranks() {
    for (rank, calls) in [(0, 1), (1, 0)] {
        let mut engine = Engine::new("trainer");
        (engine.state_mut().rank, engine.state_mut().world_size) = (rank, 2);
        let first = Counting { ranks: Ranks::First, ..Counting::new("first", Event::Completed) };
        let (first_seen, all) = (first.seen.clone(), Counting::new("all", Event::Completed));
        let all_seen = all.seen.clone();
        engine.add(first).unwrap();
        engine.add(all).unwrap();
        engine.run(&mut Mock::new(1), 1).unwrap();
        assert_eq!((*first_seen.lock().unwrap(), *all_seen.lock().unwrap()), (calls, 1));
    }
}

#[test]
fn metrics_reach_the_next_handler_and_the_best_is_kept() {
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice", Better::Higher);
    let dice = [0.5, f64::NAN, 0.7, 0.6];
    engine
        .on(Event::EpochCompleted, move |cx| Ok(cx.host.set_metric("dice", dice[cx.state.epoch as usize - 1])))
        .unwrap();
    engine
        .on(Event::EpochCompleted, |cx| {
            let metrics = cx.host.run("validation")?;
            assert_eq!(metrics["hausdorff"], 3.0);
            cx.host.scalar("wall", 1.5);
            Ok(())
        })
        .unwrap();
    let best = Arc::new(Mutex::new(Vec::new()));
    let note = best.clone();
    engine
        .on(Event::EpochCompleted, move |cx| {
            assert_eq!(cx.state.metrics["hausdorff"], 3.0);
            assert_eq!(cx.state.scalars["wall"].iteration, cx.state.iteration);
            assert_eq!(cx.state.fresh("hausdorff"), Some(3.0));
            note.lock().unwrap().push((cx.state.is_best(), cx.state.best_metric));
            Ok(())
        })
        .unwrap();
    let mut workflow = Mock::new(2);
    workflow.evaluated.insert("hausdorff".into(), 3.0);
    engine.run(&mut workflow, 4).unwrap();
    assert_eq!(*best.lock().unwrap(), [(true, Some(0.5)), (false, Some(0.5)), (true, Some(0.7)), (false, Some(0.7))]);
    assert_eq!(engine.state().best_epoch, Some(3));
}

#[test]
fn events_of_a_users_own() {
    struct Sampling(Mock);
    impl hearth_engine::Host for Sampling {
        fn log(&mut self, level: Level, message: &str) {
            trace(level, message);
        }
        not_offered! {
            requests, names, output, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run,
            tensor, put_tensor, combine
        }
    }
    impl Workflow for Sampling {
        fn restart(&mut self, s: &hearth_engine::State, skip: u64) -> Result<Option<u64>, hearth_engine::BoxError> {
            self.0.restart(s, skip)
        }
        fn fetch(&mut self, s: &hearth_engine::State) -> Result<bool, hearth_engine::BoxError> {
            self.0.fetch(s)
        }
        fn iterate(&mut self, engine: &mut Engine) -> Result<(), hearth_engine::BoxError> {
            engine.fire(Event::custom("latents_sampled"), self)?;
            Ok(())
        }
    }
    let mut engine = Engine::new("trainer");
    let error = engine.on(Event::custom("latents_sampled"), |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("`latents_sampled` is not registered"), "{error}");
    let error = engine.run(&mut Sampling(Mock::new(2)), 1).unwrap_err();
    assert!(matches!(error.kind, RunErrorKind::UnknownEvent(event) if event == Event::custom("latents_sampled")));
    assert!(error.to_string().contains("`latents_sampled` is not registered"), "{error}");

    let mut engine = Engine::new("trainer");
    let sampled = engine.register_event("latents_sampled", Some(hearth_engine::Counter::Iteration)).unwrap();
    engine.register_event("latents_sampled", None).unwrap();
    let trace = mock::listen(&mut engine, [sampled]);
    let every = Counting::new("every second", sampled.every(2));
    let seen = every.seen.clone();
    engine.add(every).unwrap();
    engine.run(&mut Sampling(Mock::new(5)), 1).unwrap();
    assert_eq!(trace.lock().unwrap().len(), 5);
    assert_eq!(trace.lock().unwrap()[0], "latents_sampled 1 1");
    assert_eq!(*seen.lock().unwrap(), 2);
    assert!(engine.register_event(" ", None).is_err());
}

#[test]
fn data_that_gives_nothing() {
    // A known length of 0: a warning, and only the events that fire before the length is read.
    let mut engine = Engine::new("trainer");
    engine.state_mut().epoch_length = Some(0);
    let trace = mock::listen(&mut engine, Event::BUILT_IN.iter().copied());
    assert_eq!(engine.run(&mut Mock::new(3), 2).unwrap(), RunEnd::Completed);
    assert!(trace.lock().unwrap().is_empty());
    let mut engine = Engine::new("trainer");
    let trace = mock::listen(&mut engine, [Event::GetBatchStarted, Event::IterationStarted]);
    assert_eq!(engine.run(&mut Mock::new(0), 2).unwrap(), RunEnd::Completed);
    assert!(trace.lock().unwrap().is_empty());
    // A fixed length with an empty loader would never end.
    let mut engine = Engine::new("trainer");
    engine.state_mut().epoch_length = Some(4);
    let error = engine.run(&mut Mock::new(0), 2).unwrap_err();
    assert!(matches!(error.kind, RunErrorKind::NoData), "{error}");
}

/// ignite repeats GET_BATCH_STARTED when it was interrupted at DATALOADER_STOP_ITERATION.
#[test]
fn an_interrupt_between_two_passes_repeats_nothing() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::DataLoaderStopIteration, |cx| Ok(cx.host.interrupt("pause"))).unwrap();
    let trace = mock::listen(&mut engine, [Event::GetBatchStarted, Event::GetBatchCompleted, Event::Interrupt]);
    let mut workflow = Mock::new(1);
    assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Interrupted("pause".into()));
    assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Completed);
    let wanted = [
        "get_batch_started 1 0",
        "get_batch_completed 1 0",
        "get_batch_started 2 1",
        "interrupt 2 1",
        "get_batch_completed 2 1",
    ];
    assert_eq!(*trace.lock().unwrap(), wanted);
}

#[test]
fn terminate_epoch_where_there_is_none_is_an_error_that_names_who_asked() {
    for event in [Event::Started, Event::EpochStarted] {
        let mut engine = Engine::new("trainer");
        engine.on(event, |cx| Ok(cx.host.terminate_epoch("early"))).unwrap();
        let text = engine.run(&mut Mock::new(2), 1).unwrap_err().to_string();
        assert!(text.contains("closure at") && text.contains(&format!("terminate_epoch at {event}")), "{text}");
    }
}

#[test]
fn times_and_counts() {
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |_| Ok(std::thread::sleep(std::time::Duration::from_millis(20)))).unwrap();
    engine.add(Counting::new("counting", Event::IterationCompleted)).unwrap();
    engine.run(&mut Mock::new(3), 2).unwrap();
    let times = engine.handler_times();
    assert_eq!((times[0].calls, times[1].calls), (2, 6));
    assert!(times[0].seconds >= 0.04 && times[1].seconds < 0.04, "{times:?}");
    assert!(engine.event_times()["epoch_completed"] >= 0.04);
    assert_eq!(engine.event_counts()["iteration_completed"], 6);
    assert_eq!(engine.event_counts()["started"], 1);
    let state = engine.state();
    assert!(state.times["epoch_completed"] >= 0.02 && state.times["completed"] >= 0.04, "{:?}", state.times);
}
