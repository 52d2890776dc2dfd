//! The plugin in rehearsed runs, without a host.

use hearth_handlers::Validation;
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Handler, PluginOptions, Ranks};
use hearth_validation::{Options, handler};

fn rehearsal(options: &str) -> Rehearsal<Validation> {
    let options = Options::from_toml(options).expect("valid options");
    let mut play = Rehearsal::new(handler(options).expect("a valid interval"));
    play.host.engine("validation", &[("dice", 0.5)]);
    play
}

#[test]
fn every_epoch_by_default() {
    let mut play = rehearsal("");
    play.state.key_metric = Some("dice".into());
    play.epochs(2, 3).expect("no error");
    assert_eq!(play.host.calls, vec![Call::Run("validation".into()); 2]);
    assert_eq!((play.state.best_metric, play.state.best_epoch), (Some(0.5), Some(1)));
    assert_eq!(play.handler.ranks(), Ranks::All, "every process validates its part");
}

#[test]
fn in_steps_of_epochs_or_iterations() {
    for (options, runs) in [
        ("interval = 2", 2),
        ("interval = 2\nexec_at_start = true", 3),
        ("interval = 4\nepoch_level = false", 3),
        ("interval = 100", 0),
    ] {
        let mut play = rehearsal(options);
        play.epochs(4, 3).expect("no error");
        assert_eq!(play.host.calls.len(), runs, "{options}");
    }
}

#[test]
fn mistakes_are_told() {
    let none = handler(Options::from_toml("interval = 0").expect("a number")).expect_err("no interval");
    assert_eq!((none.path.as_str(), none.text().as_str()), ("interval", "`interval` is 0; give 1 or more"));
    let mut other = rehearsal("engine = 'testing'");
    let error = other.epochs(1, 1).expect_err("no such engine");
    assert!(error.message().contains("run testing"), "{error}");
}
