//! The plugin in rehearsed runs, without a host.

use hearth_checkpoint::{Options, handler};
use hearth_handlers::Checkpoints;
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Better, CheckpointRequest, Event, Handler, Metrics, PluginOptions, Ranks};

fn rehearsal(options: &str) -> Rehearsal<Checkpoints> {
    Rehearsal::new(handler(Options::from_toml(options).expect("valid options")))
}

fn dice(values: &[f64]) -> Vec<Metrics> {
    values.iter().map(|value| [("dice".to_owned(), *value)].into()).collect()
}

fn request(tag: &str, keep_last: Option<usize>) -> Call {
    Call::SaveCheckpoint(CheckpointRequest { dir: "checkpoints".into(), tag: tag.to_owned(), keep_last })
}

#[test]
fn every_epoch_the_best_and_the_last() {
    let mut play = rehearsal("");
    play.state.key_metric = Some("dice".into());
    play.metrics = dice(&[0.5, 0.4, 0.6]);
    play.epochs(3, 2).expect("no error");
    assert_eq!(play.host.checkpoints(), ["epoch", "best", "epoch", "epoch", "best", "final"]);
    assert_eq!(play.host.calls[..2], [request("epoch", Some(3)), request("best", Some(1))]);
    assert_eq!(play.host.calls.last(), Some(&request("final", Some(1))));
    assert_eq!(play.handler.ranks(), Ranks::First);
}

#[test]
fn only_finite_metrics_are_best() {
    for (better, worst) in [(Better::Higher, f64::INFINITY), (Better::Lower, f64::NEG_INFINITY)] {
        let mut play = rehearsal("every_epochs = 0\non_completed = false");
        (play.state.key_metric, play.state.better) = (Some("dice".into()), better);
        play.metrics = dice(&[f64::NAN, 0.5, worst]);
        play.epochs(3, 1).expect("no error");
        assert_eq!(play.host.checkpoints(), ["best"], "{better:?}: epoch 2 alone");
        assert_eq!(play.state.best_epoch, Some(3), "the state takes infinity for the best");
    }
    let mut play = rehearsal("every_epochs = 0\non_completed = false");
    play.metrics = dice(&[0.5]);
    play.epochs(1, 1).expect("no error");
    assert!(play.host.calls.is_empty(), "no key metric, no best");
}

#[test]
fn a_best_metric_that_came_late_is_kept_at_the_end() {
    let mut play = rehearsal("every_epochs = 0");
    play.state.key_metric = Some("dice".into());
    play.state.epoch = 1;
    play.fire(Event::EpochCompleted).expect("no error");
    play.state.observe("dice", 0.5);
    play.fire(Event::Completed).expect("no error");
    assert_eq!(play.host.checkpoints(), ["final", "best"]);
}

#[test]
fn iterations_and_epochs_in_their_own_step() {
    let mut play =
        rehearsal("every_epochs = 2\nevery_iterations = 3\nkeep_last = 0\nbest = false\non_completed = false");
    play.epochs(4, 2).expect("no error");
    assert_eq!(play.host.checkpoints(), ["iteration", "epoch", "iteration", "epoch"]);
    assert_eq!(play.host.calls[0], request("iteration", None));
}

#[test]
fn an_interrupt_leaves_a_checkpoint() {
    let mut play = rehearsal("every_epochs = 0\nbest = false\non_completed = false");
    assert!(play.fire(Event::Interrupt).expect("no error"));
    assert_eq!(play.host.calls, [request("interrupted", Some(1))]);
    let mut quiet = rehearsal("on_interrupt = false");
    assert!(!quiet.fire(Event::Interrupt).expect("no error"));
}

#[test]
fn what_was_saved_is_not_saved_again_after_a_resume() {
    let mut play = rehearsal("every_epochs = 0\non_completed = false");
    play.state.key_metric = Some("dice".into());
    play.metrics = dice(&[0.5]);
    play.epochs(1, 1).expect("no error");
    let saved = play.handler.save_state().expect("a state");
    let mut resumed = rehearsal("every_epochs = 0\non_completed = false");
    resumed.state = play.state.clone();
    resumed.handler.load_state(&saved).expect("its own state");
    resumed.fire(Event::Completed).expect("no error");
    assert!(resumed.host.calls.is_empty());
    assert!(resumed.handler.load_state(&[1, 2]).is_err());
}

#[test]
fn a_host_without_checkpoints_is_an_error() {
    let mut play = rehearsal("");
    play.host.refuse("save_checkpoint");
    let error = play.epochs(1, 1).expect_err("refused");
    assert!(error.message().contains("save_checkpoint"), "{error}");
}
