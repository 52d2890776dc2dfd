//! Names for what the code is compiled for.

use cfg_aliases::cfg_aliases;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases! {
        // Kernels of ours beside Burn's operations on GPUs. Fusion has them left to it.
        gpu_kernels: { all(feature = "cube", not(feature = "fused")) },
        tuned_gpu: { all(feature = "cube", feature = "tuned") },
    }
}
