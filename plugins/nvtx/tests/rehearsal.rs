//! The ranges of runs with any end, without a profiler. The host's tests use a profiler.

use std::sync::{Arc, Mutex};

use hearth_nvtx::{Nvtx, Options, Sink};
use hearth_plugin::testkit::Rehearsal;
use hearth_plugin::{Event, PluginOptions};

/// Writes the ranges as brackets, and panics at an unmatched one.
#[derive(Clone, Debug, Default)]
struct Brackets(Arc<Mutex<(String, u32)>>);

impl Sink for Brackets {
    fn push(&mut self, name: &'static str) {
        let mut inner = self.0.lock().expect("one thread");
        inner.0 += &format!("{}(", &name[..2]);
        inner.1 += 1;
    }

    fn pop(&mut self) {
        let mut inner = self.0.lock().expect("one thread");
        inner.0.push(')');
        inner.1 = inner.1.checked_sub(1).expect("no range is open");
    }
}

impl Brackets {
    /// The ranges so far, all of which are closed.
    fn text(&self) -> String {
        let inner = self.0.lock().expect("one thread");
        assert_eq!(inner.1, 0, "open ranges in {}", inner.0);
        inner.0.clone()
    }
}

fn rehearsal(options: &str) -> (Rehearsal<Nvtx<Brackets>>, Brackets) {
    let brackets = Brackets::default();
    let options = Options::from_toml(options).expect("valid options");
    let play = Rehearsal::new(Nvtx::with_sink(options, brackets.clone()).expect("known ranges"));
    (play, brackets)
}

const STEP: &str = "Ba()It(Fo()Lo()Ba()Mo())";

#[test]
fn a_whole_run() {
    let (mut play, brackets) = rehearsal("");
    play.epochs(2, 2).expect("no error");
    assert_eq!(brackets.text(), format!("En(Ep({STEP}{STEP})Ep({STEP}{STEP}))"));
}

#[test]
fn an_evaluator_has_no_loss() {
    let (mut play, brackets) = rehearsal("ranges = ['Iteration', 'Phase']");
    play.state.engine = "validation".into();
    let events = [Event::IterationStarted, Event::ForwardCompleted, Event::ModelCompleted, Event::IterationCompleted];
    events.iter().for_each(|event| assert!(play.fire(*event).expect("no error")));
    assert_eq!(brackets.text(), "It(Fo()Mo())");
    // With another engine name, the handler learns it from its first iteration.
    let (mut play, brackets) = rehearsal("ranges = ['Iteration', 'Phase']");
    play.state.engine = "segmenter".into();
    play.iteration().expect("no error");
    play.iteration().expect("no error");
    assert_eq!(brackets.text(), "It(Fo()Mo()Ba()Mo())It(Fo()Lo()Ba()Mo())");
}

#[test]
fn every_early_end_closes_what_is_open() {
    let start = [Event::Started, Event::EpochStarted, Event::GetBatchStarted, Event::GetBatchCompleted];
    for (end, after) in [
        (vec![Event::Terminate, Event::Completed], ""),
        (vec![Event::TerminateSingleEpoch, Event::EpochCompleted, Event::Completed], ""),
        (vec![Event::TerminateSingleEpoch, Event::EpochStarted, Event::EpochCompleted, Event::Completed], "Ep()"),
        (vec![Event::Interrupt], ""),
        (vec![Event::ExceptionRaised], ""),
    ] {
        let (mut play, brackets) = rehearsal("");
        let events = start.iter().chain(&[Event::IterationStarted]).chain(&end);
        events.for_each(|event| assert!(play.fire(*event).expect("no error"), "{event}"));
        assert_eq!(brackets.text(), format!("En(Ep(Ba()It(Fo())){after})"), "{end:?}");
    }
}

#[test]
fn a_run_that_goes_on_opens_what_it_needs() {
    let (mut play, brackets) = rehearsal("");
    for event in [Event::Started, Event::EpochStarted] {
        play.fire(event).expect("no error");
    }
    play.iteration().expect("no error");
    play.fire(Event::Interrupt).expect("no error");
    assert_eq!(brackets.text(), format!("En(Ep({STEP}))"));
    play.iteration().expect("no error");
    for event in [Event::EpochCompleted, Event::Completed] {
        play.fire(event).expect("no error");
    }
    assert_eq!(brackets.text(), format!("En(Ep({STEP}))En(Ep({STEP}))"));
}

#[test]
fn a_handler_that_goes_away_closes_its_ranges() {
    let (mut play, brackets) = rehearsal("");
    play.fire(Event::Started).expect("no error");
    play.fire(Event::IterationStarted).expect("no error");
    drop(play);
    assert_eq!(brackets.text(), "En(Ep(It(Fo())))");
}

#[test]
fn ranges_can_be_chosen() {
    let (mut play, brackets) = rehearsal("ranges = ['Epoch', 'Batch']");
    play.epochs(1, 2).expect("no error");
    assert_eq!(brackets.text(), "Ep(Ba()Ba())");
    let options = Options::from_toml("ranges = ['Epoche']").expect("text");
    let error = Nvtx::new(options).expect_err("unknown range");
    assert!(error.message().contains("`Epoche`") && error.message().contains("Phase"), "{error}");
}
