//! A run that was interrupted and resumed equals an uninterrupted one.

#![allow(clippy::unit_arg, reason = "`|cx| Ok(cx.host.interrupt(\"...\"))` reads well")]

mod mock;

use hearth_engine::{Better, Context, Engine, Event, Handler, HandlerError, RunEnd, RunErrorKind, Snapshot, When};
use mock::{Counting, Mock, save};

/// A trainer with two handlers of the same name that have a state, and one that checkpoints at
/// `when`.
fn trainer(save_at: Option<When>) -> Engine {
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("score", Better::Higher);
    engine.add(Counting::new("counting", Event::IterationCompleted.every(2))).unwrap();
    engine.add(Counting::new("counting", Event::EpochStarted | Event::ForwardCompleted)).unwrap();
    if let Some(when) = save_at {
        engine.on(when, |cx| save(cx, "newest")).unwrap();
    }
    engine
}

/// Everything in which a resumed run must equal an uninterrupted one.
fn outcome(engine: &Engine, workflow: &Mock) -> (u64, u64, Snapshot) {
    let mut snapshot = engine.snapshot();
    snapshot.state.times.clear();
    (workflow.weights, workflow.total, snapshot)
}

/// Runs `epochs`, then resumes from each point of `save_at` in a "new process".
fn resumes_equal(batches: u64, known: bool, epoch_length: Option<u64>, save_at: impl Fn(u64) -> When, epochs: u64) {
    let whole = |when: Option<When>| {
        let (mut engine, mut workflow) = (trainer(when), Mock::new(batches));
        workflow.known = known;
        engine.state_mut().epoch_length = epoch_length;
        engine.state_mut().seed = 3;
        assert_eq!(engine.run(&mut workflow, epochs).unwrap(), RunEnd::Completed);
        (engine, workflow)
    };
    let (engine, workflow) = whole(None);
    let wanted = outcome(&engine, &workflow);
    let iterations = wanted.2.state.iteration;
    let mut resumed = 0;
    for point in 1..=iterations {
        let (_, saved) = whole(Some(save_at(point)));
        if saved.shelf.lock().unwrap().is_empty() {
            continue;
        }
        resumed += 1;
        // Resuming as the `load_checkpoint` handler does it, in `Started`.
        let (mut engine, mut workflow) = (trainer(None), Mock::new(batches));
        workflow.known = known;
        workflow.shelf = saved.shelf.clone();
        engine.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("newest".as_ref())?)).unwrap();
        let trace = mock::listen(&mut engine, [Event::EpochStarted, Event::IterationStarted, Event::EpochCompleted]);
        assert_eq!(engine.run(&mut workflow, epochs).unwrap(), RunEnd::Completed);
        assert_eq!(outcome(&engine, &workflow), wanted, "resumed from a checkpoint at {point}");
        // Resuming as a program does it, before the run.
        let (mut other, mut workflow) = (trainer(None), Mock::new(batches));
        workflow.known = known;
        workflow.shelf = saved.shelf.clone();
        let snapshot = hearth_engine::Workflow::read_checkpoint(&mut workflow, "newest".as_ref()).unwrap();
        other.restore(&snapshot).unwrap();
        let again = mock::listen(&mut other, [Event::EpochStarted, Event::IterationStarted, Event::EpochCompleted]);
        assert_eq!(other.run(&mut workflow, epochs).unwrap(), RunEnd::Completed);
        assert_eq!(outcome(&other, &workflow), wanted, "restored from a checkpoint at {point}");
        assert_eq!(*trace.lock().unwrap(), *again.lock().unwrap());
        // No iteration is done twice, and none is skipped.
        let first = trace.lock().unwrap().iter().find(|line| line.starts_with("iteration")).cloned();
        let next = snapshot.state.iteration + 1;
        let first_iteration = first.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(first_iteration, (next <= iterations).then_some(next));
    }
    assert!(resumed > 0);
}

#[test]
fn six_epochs_equal_three_and_three() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(4));
    engine.run(&mut workflow, 6).unwrap();
    let wanted = outcome(&engine, &workflow);

    let (mut first, mut half) = (trainer(Some(Event::EpochCompleted.into())), Mock::new(4));
    first.run(&mut half, 3).unwrap();
    let (mut second, mut rest) = (trainer(None), Mock::new(4));
    rest.shelf = half.shelf.clone();
    second.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("newest".as_ref())?)).unwrap();
    second.run(&mut rest, 6).unwrap();
    assert_eq!(outcome(&second, &rest), wanted);
    // The best epoch (4 + its own small part) is found whether it lies before or after the break.
    assert_eq!(second.state().best_epoch, Some(2));
    assert_eq!(rest.passes.first(), Some(&(4, 0)));
}

#[test]
fn at_every_event_of_every_iteration() {
    for event in [
        Event::GetBatchStarted,
        Event::GetBatchCompleted,
        Event::IterationStarted,
        Event::ForwardCompleted,
        Event::ModelCompleted,
        Event::IterationCompleted,
    ] {
        resumes_equal(3, true, None, |point| event.filter(move |state, _| state.iteration == point), 3);
    }
}

#[test]
fn at_epochs_and_at_the_end() {
    for event in [Event::EpochStarted, Event::EpochCompleted, Event::Completed, Event::Started] {
        resumes_equal(3, true, None, |point| event.filter(move |state, _| state.epoch == point - 1), 3);
    }
}

#[test]
fn with_loaders_that_do_not_match_the_epoch() {
    for (batches, known, epoch_length) in
        [(2, true, Some(5)), (5, true, Some(2)), (3, false, None), (2, false, Some(3)), (5, false, Some(3))]
    {
        resumes_equal(batches, known, epoch_length, |point| Event::IterationCompleted.once(point), 4);
        resumes_equal(batches, known, epoch_length, |point| Event::EpochCompleted.once(point), 4);
    }
}

#[test]
fn an_epoch_in_progress_is_not_started_again() {
    let (mut first, mut workflow) = (trainer(Some(Event::IterationCompleted.once(5))), Mock::new(3));
    first.run(&mut workflow, 2).unwrap();
    let (mut second, mut rest) = (Engine::new("trainer"), Mock::new(3));
    rest.shelf = workflow.shelf.clone();
    ["counting", "counting#2"].into_iter().for_each(|handler| second.restore_without(handler));
    second.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("newest".as_ref())?)).unwrap();
    let trace =
        mock::listen(&mut second, [Event::Started, Event::EpochStarted, Event::IterationStarted, Event::Completed]);
    second.run(&mut rest, 3).unwrap();
    let wanted = ["started 0 0", "iteration_started 2 6", "epoch_started 3 6", "iteration_started 3 7"];
    assert_eq!(trace.lock().unwrap()[..4], wanted);
    assert_eq!(rest.passes, [(2, 2), (3, 0)]);
}

#[test]
fn an_interrupted_run_saved_at_the_interrupt() {
    for at in 1..=6 {
        let (mut engine, mut workflow) = (trainer(None), Mock::new(3));
        engine.on(Event::IterationCompleted.once(at), |cx| Ok(cx.host.interrupt("Ctrl-C"))).unwrap();
        engine.on(Event::Interrupt, |cx| save(cx, "interrupted")).unwrap();
        assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Interrupted("Ctrl-C".into()));
        let shelf = workflow.shelf.clone();
        // Resuming in the same process...
        assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Completed);
        // ...equals resuming in a new one.
        let (mut other, mut rest) = (trainer(None), Mock::new(3));
        rest.shelf = shelf;
        other.on(Event::Started, |cx| Ok(cx.host.load_checkpoint("interrupted".as_ref())?)).unwrap();
        assert_eq!(other.run(&mut rest, 2).unwrap(), RunEnd::Completed);
        assert_eq!(outcome(&other, &rest), outcome(&engine, &workflow), "interrupted at {at}");
    }
}

#[test]
fn the_flag_of_another_thread_interrupts_after_the_iteration() {
    let mut engine = Engine::new("trainer");
    let flag = engine.interrupt_flag();
    let raise = flag.clone();
    engine
        .on(Event::GetBatchStarted.once(1), move |_| {
            let raise = raise.clone();
            std::thread::spawn(move || raise.store(true, std::sync::atomic::Ordering::Release)).join().unwrap();
            Ok(())
        })
        .unwrap();
    let trace = mock::listen(&mut engine, [Event::IterationCompleted, Event::Interrupt, Event::Completed]);
    let mut workflow = Mock::new(2);
    assert!(matches!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Interrupted(_)));
    assert_eq!(*trace.lock().unwrap(), ["iteration_completed 1 1", "iteration_completed 1 2", "interrupt 1 2"]);
    assert!(!flag.load(std::sync::atomic::Ordering::Acquire), "the flag is down again");
    assert_eq!(engine.run(&mut workflow, 2).unwrap(), RunEnd::Completed);
}

#[test]
fn finished_runs() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(2));
    engine.run(&mut workflow, 2).unwrap();
    assert!(engine.state().finished);
    // More epochs: the run continues.
    engine.run(&mut workflow, 3).unwrap();
    assert_eq!((engine.state().epoch, engine.state().iteration), (3, 6));
    // Fewer epochs than were run: a clear error, and nothing changes.
    let error = engine.run(&mut workflow, 2).unwrap_err();
    assert!(matches!(error.kind, RunErrorKind::MaxEpochs { asked: 2 }));
    assert_eq!(
        error.to_string(),
        "trainer, epoch 3, iteration 6: max_epochs is 2, but 3 epochs were run already; give 3 or more"
    );
    assert!(matches!(engine.run(&mut workflow, 0).unwrap_err().kind, RunErrorKind::MaxEpochs { asked: 0 }));
    // The same number again: from the start, without the old best value.
    let started = mock::listen(&mut engine, [Event::Started]);
    engine.run(&mut workflow, 3).unwrap();
    assert_eq!(*started.lock().unwrap(), ["started 0 0"]);
    assert_eq!((engine.state().epoch, engine.state().iteration, engine.state().best_epoch), (3, 6, Some(2)));
    // Restored and finished: nothing is left to run.
    let snapshot = engine.snapshot();
    let mut other = trainer(None);
    other.restore(&snapshot).unwrap();
    let trace = mock::listen(&mut other, Event::BUILT_IN.iter().copied());
    let mut rest = Mock::new(2);
    assert_eq!(other.run(&mut rest, 3).unwrap(), RunEnd::Completed);
    assert_eq!(*trace.lock().unwrap(), ["started 3 6", "completed 3 6"]);
    assert_eq!(other.state().best_metric, engine.state().best_metric);
    // A snapshot with more epochs than are requested now.
    other.restore(&snapshot).unwrap();
    assert!(matches!(other.run(&mut rest, 2).unwrap_err().kind, RunErrorKind::MaxEpochs { .. }));
}

#[test]
fn data_that_grew_between_two_processes() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(2));
    engine.run(&mut workflow, 2).unwrap();
    let mut other = trainer(None);
    other.restore(&engine.snapshot()).unwrap();
    other.run(&mut Mock::new(3), 3).unwrap();
    assert_eq!((other.state().epoch_length, other.state().iteration), (Some(3), 4 + 3));
}

#[test]
fn snapshots_that_contradict_themselves() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(3));
    engine.run(&mut workflow, 2).unwrap();
    let good = engine.snapshot();
    type Spoil = fn(&mut Snapshot);
    let spoils: [(Spoil, &str); 6] = [
        (|s| s.state.epoch_iteration = 9, "9 iterations of an epoch of 3"),
        (|s| s.state.epoch_length = Some(0), "epoch length is 0"),
        (|s| s.state.best_epoch = Some(7), "best epoch is 7"),
        (|s| s.state.iteration = 1, "whole run 1"),
        (|s| (s.state.epoch, s.state.best_epoch) = (0, None), "before the first epoch"),
        (
            |s| drop(s.handlers.insert("counting#2".into(), vec![1, 2])),
            "handler `counting#2` refuses its state: 2 bytes",
        ),
    ];
    for (spoil, says) in spoils {
        let mut bad = good.clone();
        spoil(&mut bad);
        let mut other = trainer(None);
        let error = other.restore(&bad).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(other.state().epoch, 0, "the state is unchanged");
    }
    // Text that is no snapshot, and one with fields of a later release, which are ignored.
    assert!(serde_json::from_str::<Snapshot>(r#"{"state":{"epoch":-1},"handlers":{}}"#).is_err());
    let text = serde_json::to_string(&good).unwrap().replacen("{\"state\":{", "{\"state\":{\"of_next_year\":1,", 1);
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), good);
}

#[test]
fn the_state_of_a_handler_that_is_missing_is_only_dropped_on_request() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(3));
    engine.run(&mut workflow, 2).unwrap();
    let mut other = Engine::new("trainer");
    other.add(Counting::new("counting", Event::IterationCompleted.every(2))).unwrap();
    let error = other.restore(&engine.snapshot()).unwrap_err();
    assert!(matches!(&error.kind, RunErrorKind::MissingHandler(name) if name == "counting#2"), "{error}");
    assert_eq!(other.state().epoch, 0, "the state is unchanged");
    ["counting#2", "another"].into_iter().for_each(|handler| other.restore_without(handler));
    other.restore(&engine.snapshot()).unwrap();
    assert_eq!(other.state().epoch, 2);
    assert_eq!(other.unused_without().collect::<Vec<_>>(), ["another"]);
}

#[test]
fn what_belongs_to_the_process_stays() {
    let (mut engine, mut workflow) = (trainer(None), Mock::new(3));
    engine.run(&mut workflow, 2).unwrap();
    let mut other = Engine::new("trainer of rank 1");
    (other.state_mut().rank, other.state_mut().world_size) = (1, 2);
    other.set_key_metric("loss", Better::Lower);
    ["counting", "counting#2"].into_iter().for_each(|handler| other.restore_without(handler));
    other.restore(&engine.snapshot()).unwrap();
    let state = other.state();
    assert_eq!((state.engine.as_str(), state.rank, state.world_size), ("trainer of rank 1", 1, 2));
    // The best value of another metric is dropped.
    assert_eq!((state.key_metric.as_deref(), state.best_metric), (Some("loss"), None));
    assert_eq!(state.epoch, 2);
}

/// A trainer of 3 batches with a handler that ends the run after this epoch.
fn ended_after(epoch: u64) -> (Engine, Mock) {
    let (mut engine, mut workflow) = (stopping(epoch), Mock::new(3));
    assert_eq!(engine.run(&mut workflow, 9).unwrap(), RunEnd::Terminated("enough".into()));
    assert_eq!(engine.state().epoch, epoch);
    (engine, workflow)
}

/// An engine whose handler `stop` asks for the end after each epoch from this one on.
fn stopping(epoch: u64) -> Engine {
    struct Stop(u64);
    impl Handler for Stop {
        fn name(&self) -> &str {
            "stop"
        }
        fn subscriptions(&self) -> Vec<When> {
            vec![Event::EpochCompleted.into()]
        }
        fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
            if cx.state.epoch >= self.0 {
                cx.host.terminate("enough");
            }
            Ok(())
        }
    }
    let mut engine = Engine::new("trainer");
    engine.add(Stop(epoch)).unwrap();
    // One of each event at which a checkpoint of the end can be written.
    engine.on(Event::EpochCompleted, |cx| save(cx, "epoch")).unwrap();
    engine.on(Event::Terminate, |cx| save(cx, "terminate")).unwrap();
    engine.on(Event::Completed, |cx| save(cx, "final")).unwrap();
    engine
}

#[test]
fn a_run_that_a_handler_ended_is_not_continued_by_resuming_it() {
    let (first, workflow) = ended_after(2);
    let end = first.state().terminated.clone().expect("an end");
    assert_eq!((end.by.as_str(), end.why.as_str(), end.max_epochs), ("stop", "enough", 9));
    for tag in ["epoch", "terminate", "final"] {
        let mut rest = Mock::new(3);
        rest.shelf = workflow.shelf.clone();
        let snapshot = hearth_engine::Workflow::read_checkpoint(&mut rest, tag.as_ref()).unwrap();
        // As often as it is resumed, from whichever checkpoint.
        for _ in 0..3 {
            let mut other = stopping(2);
            other.restore(&snapshot).unwrap();
            let trace = mock::listen(&mut other, Event::BUILT_IN.iter().copied());
            assert_eq!(other.run(&mut rest, 9).unwrap(), RunEnd::Terminated("enough".into()), "{tag}");
            assert_eq!(*trace.lock().unwrap(), ["started 2 6", "completed 2 6"], "{tag}");
            assert_eq!(other.snapshot().state.terminated.as_ref(), Some(&end), "{tag}");
        }
        // The same, resumed by a handler.
        let mut other = stopping(2);
        let load = move |cx: &mut Context<'_>| Ok(cx.host.load_checkpoint(tag.as_ref())?);
        other.on(Event::Started, load).unwrap();
        assert_eq!(other.run(&mut rest, 9).unwrap(), RunEnd::Terminated("enough".into()), "{tag}");
        assert_eq!(other.state().epoch, 2, "{tag}");
    }
}

#[test]
fn a_run_that_a_handler_ended_continues_on_request() {
    let (first, workflow) = ended_after(2);
    let snapshot = first.snapshot();
    let resumed = |engine: &mut Engine, epochs: u64| {
        let mut rest = Mock::new(3);
        rest.weights = workflow.weights;
        engine.restore(&snapshot).unwrap();
        let end = engine.run(&mut rest, epochs).unwrap();
        (end, engine.state().epoch, engine.state().terminated.is_some())
    };
    let ended = RunEnd::Terminated("enough".to_owned());
    // More epochs than it should have had: the handler ends it again, one epoch later.
    assert_eq!(resumed(&mut stopping(2), 10), (ended.clone(), 3, true));
    // Without the handler.
    assert_eq!(resumed(&mut Engine::new("trainer"), 4), (RunEnd::Completed, 4, false));
    // Of several processes, only one may have had it: it has to be named.
    let mut several = Engine::new("trainer");
    several.state_mut().world_size = 2;
    assert_eq!(resumed(&mut several, 4), (ended.clone(), 2, true));
    let mut several = Engine::new("trainer");
    several.state_mut().world_size = 2;
    several.restore_without("stop");
    assert_eq!(resumed(&mut several, 4), (RunEnd::Completed, 4, false));
    // By the caller's word.
    let mut engine = stopping(5);
    engine.restore(&snapshot).unwrap();
    engine.state_mut().terminated = None;
    assert_eq!(engine.run(&mut Mock::new(3), 9).unwrap(), ended);
    assert_eq!(engine.state().epoch, 5);
    // In the same process the next run continues, as in ignite.
    let (mut engine, mut workflow) = ended_after(2);
    assert_eq!(engine.run(&mut workflow, 9).unwrap(), ended);
    assert_eq!(engine.state().epoch, 3);
}
