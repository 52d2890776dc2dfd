//! The golden cases of this crate's networks, losses, metrics, optimizers, inferers and
//! post-processing, without the build of the whole project: the same replay functions as in
//! `tests/golden.rs` of the whole project.

// The replay files refer to crates by their public names; this file provides these names.
extern crate self as hearth;
extern crate self as hearth_tests;

pub use hearth_nn as nn;

#[path = "../../../tests/src/golden.rs"]
pub mod golden;

#[cfg(feature = "vulkan")]
#[path = "../../../tests/src/gpu.rs"]
mod gpu;

#[path = "../../../tests/replay"]
mod replay {
    pub mod batch;
    pub mod blocks;
    pub mod classification;
    pub mod inferers;
    pub mod losses;
    pub mod metrics;
    pub mod networks;
    pub mod optim;
    pub mod post;
    pub mod state_dict;
}

use golden::{Case, Miss, Outcome};

fn replay_case(family: &str, case: &Case) -> Option<Outcome> {
    Some(match family {
        "networks" => replay::networks::replay(case),
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

fn root() -> std::path::PathBuf {
    std::env::var_os("HEARTH_GOLDEN")
        .map_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"), Into::into)
}

/// The error of a case on the GPU, in a separate process.
#[cfg(feature = "vulkan")]
fn error_on_gpu(path: &std::path::Path) -> Option<String> {
    let name = [path.parent().and_then(|p| p.file_name()), path.file_name()].map(|part| part.expect("a name"));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join(name[0])).expect("a folder");
    std::fs::copy(path, folder.path().join(name[0]).join(name[1])).expect("a copy");
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "cases_of_this_crate", "--nocapture"])
        .env("HEARTH_GOLDEN", folder.path())
        .env("BURN_DEVICE", gpu::word())
        .output()
        .expect("a process");
    if output.status.success() {
        return None;
    }
    let said = [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
    let lines = said.iter().flat_map(|text| text.lines());
    let why = lines.filter(|line| line.contains("differ") || line.contains("panicked")).next_back();
    let line =
        format!("{}/{}: {}: {}", name[0].display(), name[1].display(), output.status, why.unwrap_or("no message"));
    println!("{line}");
    Some(line)
}

/// The cases on a GPU, or on software Vulkan if there is no GPU. Each case runs in its own process,
/// so that a crash of the driver affects only one case, and is reported.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn networks_and_losses_on_vulkan() {
    use rayon::prelude::*;

    let families = ["networks", "losses", "metrics", "inferers", "optim"].map(|family| root().join(family));
    let mut cases: Vec<_> =
        families.iter().flat_map(|family| golden::files(family).expect("a folder of cases")).collect();
    cases.retain(|path| !Case::read(path).expect("a case file").name.starts_with("schedule"));
    assert!(!cases.is_empty());
    let failed: Vec<String> = cases.par_iter().filter_map(|path| error_on_gpu(path)).collect();
    println!("passed {}, failed {}", cases.len() - failed.len(), failed.len());
    assert!(failed.is_empty(), "{} failed:\n  {}", failed.len(), failed.join("\n  "));
}

/// The cases with Burn's own operations, which GPUs use: results must not depend on the CPU's
/// kernels.
#[test]
fn cases_of_this_crate_without_kernels() {
    let program = std::env::current_exe().expect("this program");
    // The switch is global to a process.
    let output = std::process::Command::new(&program)
        .args(["--exact", "cases_of_this_crate", "--nocapture"])
        .env(WITHOUT_KERNELS, "1")
        .output()
        .expect("a process");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}: {}", output.status, said.join("\n"));
}

const WITHOUT_KERNELS: &str = "HEARTH_TEST_WITHOUT_KERNELS";

#[test]
fn cases_of_this_crate() {
    if std::env::var_os(WITHOUT_KERNELS).is_some() {
        hearth_kernels::use_kernels(false);
    }
    let root = root();
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
