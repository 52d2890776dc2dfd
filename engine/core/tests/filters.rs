//! Filters against a plain counter.

#![allow(clippy::unit_arg, reason = "`|cx| Ok(list.push(..))` reads well")]

mod mock;

use std::sync::{Arc, Mutex};

use hearth_engine::{Counter, Engine, Event, State, When};
use mock::Mock;
use proptest::prelude::*;

/// The iterations that a filter should accept, found by counting up and not by arithmetic on the
/// counter.
fn by_counting(every: Option<u64>, after: Option<u64>, before: Option<u64>, last: u64) -> Vec<u64> {
    let (mut passed, mut since) = (Vec::new(), 0);
    for x in 1..=last {
        if after.is_some_and(|a| x <= a) || before.is_some_and(|b| x >= b) {
            continue;
        }
        since += 1;
        let bounded = after.is_some() || before.is_some();
        // Plain `every n` passes the n-th, bounded `every n` the first and then each n-th after it.
        let hit = match every {
            None => true,
            Some(n) if bounded => since % n == 1 % n,
            Some(n) => since % n == 0,
        };
        if hit {
            passed.push(x);
        }
    }
    passed
}

/// The iterations a handler with this subscription is called for, in a real run.
fn by_running(when: When, last: u64) -> Vec<u64> {
    let mut engine = Engine::new("trainer");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let note = calls.clone();
    engine.on(when, move |cx| Ok(note.lock().unwrap().push(cx.state.iteration))).unwrap();
    engine.run(&mut Mock::new(last), 1).unwrap();
    calls.lock().unwrap().clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_before_after(
        every in proptest::option::of(1_u64..7),
        after in proptest::option::of(0_u64..12),
        before in proptest::option::of(0_u64..30),
        last in 1_u64..40,
    ) {
        let mut when = When::from(Event::IterationCompleted);
        if let Some(n) = every { when = when.every(n); }
        if let Some(a) = after { when = when.after(a); }
        if let Some(b) = before { when = when.before(b); }
        let wanted = by_counting(every, after, before, last);
        match when.check() {
            Ok(()) => prop_assert_eq!(by_running(when, last), wanted),
            // Refused only if nothing could ever pass.
            Err(_) => prop_assert!(wanted.is_empty()),
        }
    }

    #[test]
    fn once(list in proptest::collection::btree_set(1_u64..30, 1..6), last in 1_u64..40) {
        let when = list.iter().fold(When::from(Event::IterationStarted), |when, k| when.once(*k));
        let wanted: Vec<u64> = list.into_iter().filter(|k| *k <= last).collect();
        prop_assert_eq!(by_running(when, last), wanted);
    }

    #[test]
    fn a_function(modulus in 1_u64..9, last in 1_u64..40) {
        let when = Event::IterationCompleted.filter(move |state: &State, x| x == state.iteration && x % modulus == 0);
        let wanted: Vec<u64> = (1..=last).filter(|x| x % modulus == 0).collect();
        prop_assert_eq!(by_running(when, last), wanted);
    }
}

#[test]
fn a_union_calls_once_for_each_firing() {
    let when = Event::IterationCompleted.every(2) | Event::IterationCompleted.once(4) | Event::EpochCompleted;
    // 2, 4, 6 and the end of the epoch at 6; 4 matches twice and is called once.
    assert_eq!(by_running(when, 6), [2, 4, 6, 6]);
}

#[test]
fn contradictions_are_refused() {
    let e = Event::EpochCompleted;
    for (when, says) in [
        (e.every(0), "every(0)"),
        (e.once(0), "counts from 1"),
        (e.once(2).every(3), "exclude"),
        (e.once(2).after(3), "exclude"),
        (e.filter(|_, _| true).before(3), "exclude"),
        (e.after(3).before(4), "nothing lies after 3 and before 4"),
        (e.before(1), "nothing lies after 0 and before 1"),
        (Event::Completed | e.every(0), "every(0)"),
    ] {
        let mut engine = Engine::new("trainer");
        let error = engine.on(when, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.contains("filters.rs"), "names the closure: {error}");
    }
}

#[test]
fn an_event_without_a_counter_needs_one() {
    let mut engine = Engine::new("trainer");
    let error = engine.on(Event::LossCompleted.every(2), |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("loss_completed has no counter"), "{error}");
    engine.on(Event::LossCompleted.filter(|state, x| x == 0 && state.iteration == 1), |_| Ok(())).unwrap();
    assert_eq!(engine.register_event("loss_completed", Some(Counter::Iteration)).unwrap(), Event::LossCompleted);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let note = calls.clone();
    engine.on(Event::LossCompleted.every(2), move |cx| Ok(note.lock().unwrap().push(cx.state.iteration))).unwrap();
    engine.run(&mut Mock::new(5), 1).unwrap();
    assert_eq!(*calls.lock().unwrap(), [2, 4]);
    let error = engine.register_event("epoch_completed", Some(Counter::Iteration)).unwrap_err().to_string();
    assert!(error.contains("counted by Epoch already"), "{error}");
}
