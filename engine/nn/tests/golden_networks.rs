//! The golden cases of networks, without the build of the whole project: the same replay function
//! as in `tests/golden.rs` of the whole project.

// The replay files refer to crates by their public names; this file provides these names.
extern crate self as hearth;
extern crate self as hearth_tests;

pub use hearth_nn as nn;

#[path = "../../../tests/src/golden.rs"]
pub mod golden;

#[path = "../../../tests/replay"]
mod replay {
    #[allow(dead_code, reason = "other families use the rest")]
    pub mod batch;
    pub mod blocks;
    pub mod classification;
    pub mod networks;
    pub mod state_dict;
}

use golden::{Case, Miss};

/// `HEARTH_CASE` selects the cases to run; all by default.
#[test]
fn networks() {
    let root = std::env::var_os("HEARTH_GOLDEN")
        .map_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"), Into::into);
    let wanted = std::env::var("HEARTH_CASE").unwrap_or_default();
    let (mut passed, mut unsupported, mut failed) = (0, Vec::new(), Vec::new());
    for path in golden::files(&root.join("networks")).expect("a folder of cases") {
        let case = Case::read(&path).expect("a case file");
        if !case.name.contains(&wanted) {
            continue;
        }
        match replay::networks::replay(&case) {
            Ok(()) => passed += 1,
            Err(Miss::Unsupported(why)) => unsupported.push(format!("{} ({}): {why}", case.name, case.op)),
            Err(Miss::Failed(why)) => failed.push(format!("{} ({}): {why}", case.name, case.op)),
        }
    }
    println!("passed {passed}, failed {}, unsupported {}", failed.len(), unsupported.len());
    unsupported.iter().for_each(|line| println!("  unsupported {line}"));
    assert!(failed.is_empty(), "{} failed:\n  {}", failed.len(), failed.join("\n  "));
    assert!(passed > 0, "no case in {}", root.display());
}
