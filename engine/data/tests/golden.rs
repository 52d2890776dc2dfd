//! The golden cases of this crate's operations, run without building the rest of the project: the
//! same replay functions as in the project's `tests/golden.rs`.

// The replay files use the crates `hearth` and `hearth_tests`; this crate takes both names.
extern crate self as hearth;
extern crate self as hearth_tests;

pub use hearth_data as data;

#[path = "../../../tests/src/golden.rs"]
pub mod golden;

#[cfg(feature = "vulkan")]
#[path = "../../../tests/src/gpu.rs"]
mod gpu;

#[path = "../../../tests/replay"]
mod replay {
    pub mod choices;
    pub mod color;
    pub mod crops;
    pub mod data;
    pub mod device;
    pub mod labels;
    pub mod patches;
    pub mod resampling;
    pub mod smooth_fields;
    pub mod transforms_intensity;
    pub mod transforms_spatial;
    pub mod transforms_utility_post;
    pub mod warps;
}

use golden::{Case, Miss};

#[test]
fn cases_of_this_crate() {
    replay_all();
}

/// The same on a GPU, or on software Vulkan if there is no GPU.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn cases_of_this_crate_on_vulkan() {
    replay::device::choose(gpu::device());
    replay_all();
}

fn replay_all() {
    let root = std::env::var_os("HEARTH_GOLDEN")
        .map_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"), Into::into);
    let (mut passed, mut unsupported, mut failed) = (0, Vec::new(), Vec::new());
    for path in golden::files(&root).expect("a folder of cases") {
        let family = path.parent().and_then(|p| p.file_name()).and_then(|n| n.to_str()).unwrap_or_default();
        let replay = match family {
            "transforms_spatial" => replay::transforms_spatial::replay,
            "transforms_intensity" => replay::transforms_intensity::replay,
            "transforms_utility_post" => replay::transforms_utility_post::replay,
            "data" => replay::data::replay,
            _ => continue,
        };
        let case = Case::read(&path).expect("a case file");
        match replay(&case) {
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
