//! The golden cases of this crate's losses, metrics, optimizers, inferers and post-processing, without waiting for the rest of the
//! project: the same replay functions as `tests/golden.rs` of the whole.

// The replay files name the crates they use from outside; here this file stands for them.
extern crate self as hearth;
extern crate self as hearth_tests;

pub use hearth_nn as nn;

#[path = "../../../tests/src/golden.rs"]
pub mod golden;

#[path = "../../../tests/replay"]
mod replay {
    pub mod batch;
    pub mod inferers;
    pub mod losses;
    pub mod metrics;
    pub mod optim;
    pub mod post;
}

use golden::{Case, Miss, Outcome};

fn replay_case(family: &str, case: &Case) -> Option<Outcome> {
    Some(match family {
        "losses" => replay::losses::replay(case),
        "metrics" => replay::metrics::replay(case),
        "inferers" => replay::inferers::replay(case),
        // Schedules belong to a handler.
        "optim" if !case.name.starts_with("schedule") => replay::optim::replay(case),
        "transforms_utility_post" if ["Activations", "AsDiscrete"].contains(&case.op.as_str()) => {
            replay::post::replay(case)
        }
        _ => return None,
    })
}

#[test]
fn cases_of_this_crate() {
    let root = std::env::var_os("HEARTH_GOLDEN")
        .map_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"), Into::into);
    let (mut passed, mut unsupported, mut failed) = (0, Vec::new(), Vec::new());
    for path in golden::files(&root).expect("a folder of cases") {
        let family = path.parent().and_then(|p| p.file_name()).and_then(|n| n.to_str()).unwrap_or_default();
        let case = Case::read(&path).expect("a case file");
        match replay_case(family, &case) {
            None => {}
            Some(Ok(())) => passed += 1,
            Some(Err(Miss::Unsupported(why))) => {
                unsupported.push(format!("{family}/{} ({}): {why}", case.name, case.op))
            }
            Some(Err(Miss::Failed(why))) => failed.push(format!("{family}/{} ({}): {why}", case.name, case.op)),
        }
    }
    println!("passed {passed}, failed {}, unsupported {}", failed.len(), unsupported.len());
    unsupported.iter().for_each(|line| println!("  unsupported {line}"));
    assert!(failed.is_empty(), "{} failed:\n  {}", failed.len(), failed.join("\n  "));
    assert!(passed > 0, "no case in {}", root.display());
}
