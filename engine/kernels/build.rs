//! Configuration names for the targets of this build.

use cfg_aliases::cfg_aliases;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases! {
        // This crate's kernels on GPUs. A build with fusion uses Burn's operations instead.
        gpu_kernels: { all(feature = "cube", not(feature = "fused")) },
        tuned_gpu: { all(feature = "cube", feature = "tuned") },
    }
}
