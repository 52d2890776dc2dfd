//! Plugins that fail: errors and panics in every call, and how the run handles them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hearth_engine::{Engine, RunEnd, RunError};
use hearth_plugin_host::load;

use crate::toy::Toy;
use crate::{fixture, table};

/// Runs five iterations with the failing plugin, and returns the log.
fn run(options: &str) -> (Result<RunEnd, RunError>, Engine, Vec<String>) {
    let plugin = load(&fixture("troubles")).expect("it loads well");
    let mut engine = Engine::new("trainer");
    engine.add_boxed(plugin.handler(table(options)).expect("valid options")).expect("a valid handler");
    let mut toy = Toy::trainer(5);
    let result = engine.run(&mut toy, 1);
    (result, engine, toy.notes)
}

#[test]
fn an_error_does_what_its_policy_says() {
    for how in ["panic = false", "panic = true"] {
        let place = format!("place = 'handle'\n{how}");
        let (result, engine, _) = run(&place);
        let text = result.expect_err("the default is to stop").to_string();
        assert!(
            text.contains("iteration 2") && text.contains("handler `troubles` failed at iteration_completed"),
            "{text}"
        );
        assert!(text.contains("trouble at handle"), "{text}");
        assert_eq!(text.contains("panicked at") && text.contains("troubles.rs:"), how.contains("true"), "{text}");
        assert_eq!(engine.handler_times()[0].calls, 2);

        let (result, engine, notes) = run(&format!("{place}\non_error = 'disable'"));
        assert_eq!((result.expect("continues"), engine.handler_times()[0].calls), (RunEnd::Completed, 2));
        assert!(notes.len() == 1 && notes[0].contains("is not called again: "), "{notes:?}");

        let (result, engine, notes) = run(&format!("{place}\non_error = 'log'"));
        assert_eq!((result.expect("continues"), engine.handler_times()[0].calls), (RunEnd::Completed, 5));
        assert!(notes.len() == 1 && notes[0].contains("trouble at handle"), "{notes:?}");
    }
}

#[test]
fn a_panic_in_a_filter_is_an_error_of_the_handler() {
    let (result, engine, _) = run("place = 'filter'");
    let text = result.expect_err("stops").to_string();
    assert!(text.contains("iteration 2") && text.contains("its filter panicked at"), "{text}");
    assert!(text.contains("trouble at filter"), "{text}");
    assert_eq!(engine.handler_times()[0].calls, 1, "it is called for the iteration whose filter failed alone");
}

#[test]
fn a_plugin_that_gives_no_handler_says_why() {
    let plugin = load(&fixture("troubles")).expect("it loads well");
    for (options, words) in [
        ("place = 'create'", "plugin `troubles`: trouble at create"),
        ("place = 'create'\npanic = true", "plugin `troubles`: panicked at "),
        ("place = 'subscriptions'\npanic = true", "plugin `troubles`: panicked at "),
        ("on_error = 'explode'", "on_error: unknown word \"explode\"; known are stop, disable, log"),
    ] {
        let text = plugin.handler(table(options)).map(drop).expect_err("no handler").to_string();
        assert!(text.contains(words), "{options}: {text}");
    }
}

#[test]
fn a_state_that_cannot_be_saved_is_told_at_the_next_call() {
    let plugin = load(&fixture("troubles")).expect("it loads well");
    let options = "place = 'save_state'\npanic = true";
    let mut engine = Engine::new("trainer");
    engine.add_boxed(plugin.handler(table(options)).expect("valid options")).expect("a valid handler");
    assert!(engine.snapshot().handlers.is_empty());
    let text = engine.run(&mut Toy::trainer(5), 1).expect_err("stops").to_string();
    assert!(text.contains("iteration 1") && text.contains("its state could not be saved: panicked at"), "{text}");
}

#[test]
fn a_state_that_cannot_be_loaded_is_an_error() {
    let plugin = load(&fixture("troubles")).expect("it loads well");
    for how in ["panic = false", "panic = true"] {
        let mut handler = plugin.handler(table(&format!("place = 'load_state'\n{how}"))).expect("valid options");
        assert!(handler.load_state(&[1]).expect_err("trouble").message().contains("trouble at load_state"));
    }
}

#[test]
fn a_panic_while_it_is_dropped_ends_nothing() {
    let (result, engine, _) = run("place = 'drop'");
    assert_eq!(result.expect("no error"), RunEnd::Completed);
    drop(engine);
}

#[test]
fn a_panic_of_the_host_passes_through_the_plugin() {
    let payload = catch_unwind(AssertUnwindSafe(|| run("place = 'host'"))).map(drop).expect_err("the host panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the host has a fault"));
}
