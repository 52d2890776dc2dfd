//! The lines equal those of MONAI's `StatsHandler` for the same numbers, except for a space at
//! their end and the best value, which has four decimals here too.

use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Event, Level, Metrics, PluginOptions};
use hearth_stats::{Options, Stats};

fn rehearsal(options: &str) -> Rehearsal<Stats> {
    let mut play = Rehearsal::new(Stats::new(Options::from_toml(options).expect("valid options")));
    play.host.outputs.insert("loss".into(), 0.812_349);
    play
}

#[test]
fn lines_of_iterations_and_epochs() {
    let mut play = rehearsal("");
    play.state.key_metric = Some("val_dice".into());
    let metrics = |dice: f64| Metrics::from([("val_dice".to_owned(), dice), ("acc".to_owned(), 1.0)]);
    play.metrics = vec![metrics(0.701_25), metrics(0.5)];
    play.epochs(2, 2).expect("no error");
    assert_eq!(
        play.host.messages(),
        [
            "Epoch: 1/2, Iter: 1/2 -- Loss: 0.8123",
            "Epoch: 1/2, Iter: 2/2 -- Loss: 0.8123",
            "Epoch[1] Metrics -- acc: 1.0000 val_dice: 0.7013",
            "Key metric: val_dice best value: 0.7013 at epoch: 1",
            "Epoch: 2/2, Iter: 1/2 -- Loss: 0.8123",
            "Epoch: 2/2, Iter: 2/2 -- Loss: 0.8123",
            "Epoch[2] Metrics -- acc: 1.0000 val_dice: 0.5000",
            "Key metric: val_dice best value: 0.7013 at epoch: 1",
        ]
    );
}

#[test]
fn the_loss_is_read_only_when_it_is_reported() {
    let mut play = rehearsal("every_iterations = 3\nevery_epochs = 2\ntag = 'train_loss'");
    play.epochs(2, 4).expect("no error");
    let reads = play.host.calls.iter().filter(|call| matches!(call, Call::Output(_))).count();
    assert_eq!(reads, 2);
    assert_eq!(
        play.host.messages(),
        ["Epoch: 1/2, Iter: 3/4 -- train_loss: 0.8123", "Epoch: 2/2, Iter: 2/4 -- train_loss: 0.8123"]
    );
    let mut none = rehearsal("every_iterations = 0\nevery_epochs = 0");
    none.epochs(1, 4).expect("no error");
    assert!(none.host.calls.is_empty());
}

#[test]
fn not_a_number_is_printed_as_it_is() {
    let mut play = rehearsal("");
    play.host.outputs.insert("loss".into(), f64::NAN);
    play.state.iteration = 5;
    play.fire(Event::IterationCompleted).expect("no error");
    assert_eq!(play.host.messages(), ["Epoch: 0/0, Iter: 5/? -- Loss: NaN"]);
}

#[test]
fn an_exception_is_a_line_for_those_who_ask_for_more() {
    let mut play = rehearsal("");
    play.state.exception = Some("the loss is not finite".into());
    play.fire(Event::ExceptionRaised).expect("no error");
    assert_eq!(play.host.calls, [Call::Log(Level::Debug, "Exception: the loss is not finite".into())]);
}

#[test]
fn an_engine_without_a_loss_is_told_once_and_has_lines_for_epochs() {
    let mut play = rehearsal("output = 'g_loss'");
    play.metrics = vec![[("dice".to_owned(), 0.5)].into()];
    play.epochs(1, 3).expect("no error");
    let warning = "no lines for iterations of trainer: `output g_loss` is not supported";
    assert_eq!(play.host.messages(), [warning, "Epoch[1] Metrics -- dice: 0.5000"]);
    assert_eq!(play.host.calls.iter().filter(|call| matches!(call, Call::Output(_))).count(), 1);
}
