//! The ranges that a profiler sees: the `nvtx` plugin from disk, in a process with an NVTX
//! injection library.

use std::path::Path;
use std::process::Command;

use hearth_engine::{Engine, Event, RunEnd};
use hearth_plugin_host::load;

use crate::toy::{Toy, Validator};
use crate::{bundled, fixture, table};

/// Runs one kind of run under the profiler in a child process; returns the ranges as nested
/// brackets.
fn ranges_of(kind: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ranges");
    let output = Command::new(std::env::current_exe().expect("a test program has a path"))
        .args(["--exact", "profiler::child", "--ignored", "--nocapture"])
        .env("NVTX_INJECTION64_PATH", fixture("profiler"))
        .env("HEARTH_TEST_RANGES", &file)
        .env("HEARTH_TEST_RUN", kind)
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    brackets(&file)
}

fn brackets(file: &Path) -> String {
    let (mut text, mut open, mut threads) = (String::new(), 0_u32, Vec::new());
    for line in std::fs::read_to_string(file).expect("the profiler wrote").lines() {
        let [what, name, thread] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        threads.push(thread.to_owned());
        if what == "push" {
            text += &format!("{name}(");
            open += 1;
        } else {
            text.push(')');
            open = open.checked_sub(1).expect("a range ends that did not begin");
        }
    }
    assert_eq!(open, 0, "a range does not end: {text}");
    threads.dedup();
    assert_eq!(threads.len(), 1, "ranges belong to a thread");
    text
}

const STEP: &str = "Batch()Iteration(Forward()Loss()Backward()Model())";
const LOOK: &str = "Batch()Iteration(Forward()Model())";

#[test]
fn a_profiler_sees_a_whole_run() {
    let epoch = format!("Epoch({STEP}{STEP})");
    assert_eq!(ranges_of("whole"), format!("Engine({epoch}{epoch})"));
}

#[test]
fn a_validation_lies_within_the_run_that_started_it() {
    let seen = ranges_of("validated");
    assert_eq!(seen, format!("Engine(Epoch({STEP}{STEP}Engine(Epoch({LOOK}))))"));
}

#[test]
fn ranges_are_balanced_however_a_run_ends() {
    let whole = format!("Epoch({STEP}{STEP})");
    assert_eq!(ranges_of("terminated"), format!("Engine({whole}Epoch({STEP}))"));
    assert_eq!(ranges_of("epoch terminated"), format!("Engine(Epoch({STEP}){whole})"));
    assert_eq!(ranges_of("interrupted"), format!("Engine({whole}Epoch({STEP}))Engine(Epoch({STEP}))"));
    assert_eq!(ranges_of("failed"), format!("Engine({whole}Epoch(Batch()Iteration(Forward()Loss())))"));
}

#[test]
#[ignore = "what the tests above start"]
fn child() {
    // Without its parent there is nothing to do.
    let Ok(kind) = std::env::var("HEARTH_TEST_RUN") else { return };
    let plugin = load(&bundled("nvtx")).expect("a bundled plugin");
    let handler = || plugin.handler(table("")).expect("valid options");
    let mut engine = Engine::new("trainer");
    let mut toy = Toy::trainer(2);
    let validate = load(&bundled("validation")).expect("a bundled plugin");
    match kind.as_str() {
        "validated" => {
            let mut validator = Engine::new("validation");
            validator.add_boxed(handler()).expect("a valid handler");
            toy.validator = Some(Validator { engine: validator, toy: Box::new(Toy { batches: 1, ..Toy::default() }) });
            engine.add_boxed(validate.handler(table("")).expect("valid options")).expect("a valid handler");
        }
        "terminated" => drop(engine.on(Event::IterationCompleted.once(3), |cx| {
            cx.host.terminate("enough");
            Ok(())
        })),
        "epoch terminated" => drop(engine.on(Event::IterationCompleted.once(1), |cx| {
            cx.host.terminate_epoch("enough");
            Ok(())
        })),
        "interrupted" => drop(engine.on(Event::IterationCompleted.once(3), |cx| {
            cx.host.interrupt("enough");
            Ok(())
        })),
        "failed" => toy.fails_at = Some(3),
        _ => {}
    }
    engine.add_boxed(handler()).expect("a valid handler");
    let epochs = if kind == "validated" { 1 } else { 2 };
    match engine.run(&mut toy, epochs) {
        Ok(RunEnd::Interrupted(_)) => {
            engine.run(&mut toy, epochs).expect("it continues");
        }
        result => assert_eq!(result.is_err(), kind == "failed", "{result:?}"),
    }
}
