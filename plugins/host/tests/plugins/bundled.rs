//! The bundled plugins, from disk, in a real engine: the same as if they were linked in.

use hearth_engine::{Better, Engine, Handler, RunEnd};
use hearth_plugin::PluginOptions;
use hearth_plugin_host::load;

use crate::toy::Toy;
use crate::{bundled, table};

fn loaded(name: &str, options: &str) -> Box<dyn Handler> {
    let plugin = load(&bundled(name)).expect("a bundled plugin");
    plugin.handler(table(options)).expect("valid options")
}

/// Three epochs of two iterations, validated; returns the requests.
fn train(handlers: Vec<Box<dyn Handler>>, dice: &[f64]) -> Vec<String> {
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice", Better::Higher);
    for handler in handlers {
        engine.add_boxed(handler).expect("a valid handler");
    }
    let mut toy = Toy::trainer(2);
    toy.dice = dice.to_vec();
    assert_eq!(engine.run(&mut toy, 3).expect("no error"), RunEnd::Completed);
    toy.notes
}

#[test]
fn validation_stats_and_checkpoints_of_a_run() {
    let options = [("validation", ""), ("stats", "every_iterations = 2"), ("checkpoint", "keep_last = 2")];
    let from_disk = options.iter().map(|(name, options)| loaded(name, options)).collect();
    let notes = train(from_disk, &[0.5, 0.75, f64::NAN]);
    let expected = [
        "Info: Epoch: 1/3, Iter: 2/2 -- Loss: 0.1250",
        "run validation",
        "Info: Epoch[1] Metrics -- dice: 0.5000",
        "Info: Key metric: dice best value: 0.5000 at epoch: 1",
        "checkpoint checkpoints epoch Some(2)",
        "checkpoint checkpoints best Some(1)",
        "Info: Epoch: 2/3, Iter: 2/2 -- Loss: 0.1250",
        "run validation",
        "Info: Epoch[2] Metrics -- dice: 0.7500",
        "Info: Key metric: dice best value: 0.7500 at epoch: 2",
        "checkpoint checkpoints epoch Some(2)",
        "checkpoint checkpoints best Some(1)",
        "Info: Epoch: 3/3, Iter: 2/2 -- Loss: 0.1250",
        "run validation",
        "Info: Epoch[3] Metrics -- dice: NaN",
        "Info: Key metric: dice best value: 0.7500 at epoch: 2",
        "checkpoint checkpoints epoch Some(2)",
        "checkpoint checkpoints final Some(1)",
    ];
    assert_eq!(notes, expected);

    // Linked into this program: the result is the same.
    let linked: Vec<Box<dyn Handler>> = vec![
        Box::new(hearth_validation::handler(PluginOptions::from_toml("").expect("valid")).expect("valid")),
        Box::new(hearth_stats::Stats::new(PluginOptions::from_toml("every_iterations = 2").expect("valid"))),
        Box::new(hearth_checkpoint::handler(PluginOptions::from_toml("keep_last = 2").expect("valid"))),
    ];
    assert_eq!(train(linked, &[0.5, 0.75, f64::NAN]), expected);
}

#[test]
fn an_interrupted_run_leaves_a_checkpoint_and_goes_on() {
    let mut engine = Engine::new("trainer");
    engine
        .on(hearth_engine::Event::IterationCompleted.once(3), |cx| {
            cx.host.interrupt("enough for today");
            Ok(())
        })
        .expect("a valid filter");
    engine.add_boxed(loaded("checkpoint", "every_epochs = 0\nbest = false")).expect("a valid handler");
    let mut toy = Toy::trainer(2);
    assert_eq!(engine.run(&mut toy, 3).expect("no error"), RunEnd::Interrupted("enough for today".into()));
    assert_eq!(toy.notes, ["checkpoint checkpoints interrupted Some(1)"]);
    assert_eq!(toy.snapshots[0].state.iteration, 3);
    assert_eq!(engine.run(&mut toy, 3).expect("no error"), RunEnd::Completed);
    assert_eq!(toy.notes[1..], ["checkpoint checkpoints final Some(1)"]);
}

#[test]
fn an_ensemble_is_combined_after_each_prediction() {
    let mut engine = Engine::new("ensemble");
    let options = "pred_keys = ['pred_0', 'pred_1', 'pred_2']\nmethod = 'vote'\nnum_classes = 2";
    engine.add_boxed(loaded("ensemble", options)).expect("a valid handler");
    let mut toy = Toy { batches: 2, ..Toy::default() };
    engine.run_epoch(&mut toy, 1).expect("no error");
    let combined = "combine pred_0+pred_1+pred_2 Vote { num_classes: Some(2) } pred";
    assert_eq!(toy.notes, [combined, combined]);
}
