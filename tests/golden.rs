//! Replays every golden case under a folder (`tests/golden`, or `HEARTH_GOLDEN`), by family and
//! operation.

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hearth_tests::golden::{Case, Miss, Outcome, files, root};

mod replay;

fn replay_case(case: &Case) -> Outcome {
    match case.family.as_str() {
        "transforms_spatial" => replay::transforms_spatial::replay(case),
        "transforms_intensity" => replay::transforms_intensity::replay(case),
        "transforms_utility_post" => match case.op.as_str() {
            "Activations" | "AsDiscrete" => replay::post::replay(case),
            "MeanEnsemble" | "VoteEnsemble" => replay::ensemble::replay(case),
            _ => replay::transforms_utility_post::replay(case),
        },
        "data" => replay::data::replay(case),
        "networks" => replay::networks::replay(case),
        "losses" => replay::losses::replay(case),
        "metrics" => replay::metrics::replay(case),
        "inferers" => replay::inferers::replay(case),
        "optim" => match case.name.starts_with("schedule") {
            true => replay::schedules::replay(case),
            false => replay::optim::replay(case),
        },
        other => Err(Miss::unsupported(format!("family {other}"))),
    }
}

/// Unsupported operations and options, with the reason: family, operation, a text in the case's
/// parameters (empty for all). A case that is neither listed here nor replayed fails.
const UNSUPPORTED: &[(&str, &str, &str)] = &[];

fn expected_unsupported(case: &Case) -> bool {
    let parameters = case.params.to_string();
    UNSUPPORTED.iter().any(|(family, op, word)| case.family == *family && case.op == *op && parameters.contains(word))
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    unsupported: Vec<String>,
}

/// A case that panics has failed; the others are still replayed.
fn guarded(case: &Case) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| replay_case(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Miss::failed(format!("panic: {text}")))
    })
}

#[test]
fn every_case_of_a_supported_operation_passes() {
    let root = root();
    let paths = files(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    assert!(!paths.is_empty(), "{} holds no case", root.display());
    let mut families: BTreeMap<String, Tally> = BTreeMap::new();
    for path in paths {
        let case = Case::read(&path).unwrap_or_else(|miss| panic!("{}: {miss:?}", path.display()));
        let tally = families.entry(case.family.clone()).or_default();
        match guarded(&case) {
            Ok(()) => tally.passed += 1,
            Err(Miss::Failed(why)) => tally.failed.push(format!("{} ({}): {why}", case.name, case.op)),
            Err(Miss::Unsupported(why)) if expected_unsupported(&case) => {
                tally.unsupported.push(format!("{}: {why}", case.name));
            }
            // A case that was replayed before, or is not on the list, must fail instead of being
            // skipped.
            Err(Miss::Unsupported(why)) => {
                tally.failed.push(format!(
                    "{} ({}): not supported, and not on the list of what is not: {why}",
                    case.name, case.op
                ));
            }
        }
    }
    let mut failures = 0;
    let mut report = String::new();
    for (family, tally) in &families {
        tally.failed.iter().for_each(|line| report.push_str(&format!("  failed {family}/{line}\n")));
        tally.unsupported.iter().for_each(|line| report.push_str(&format!("  unsupported {family}/{line}\n")));
        failures += tally.failed.len();
    }
    for (family, tally) in &families {
        let (passed, failed, unsupported) = (tally.passed, tally.failed.len(), tally.unsupported.len());
        report.push_str(&format!("golden {family} passed {passed} failed {failed} unsupported {unsupported}\n"));
    }
    // Written to the handle, which the test runner does not capture, so that the lines also appear
    // for a passing run.
    std::io::stdout().write_all(report.as_bytes()).expect("standard output");
    assert_eq!(failures, 0, "cases of supported operations failed; see the lines above");
}
