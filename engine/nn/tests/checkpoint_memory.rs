//! The memory that `use_checkpoint` saves in a training step. A separate file, because it counts
//! every byte of its process.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use hearth_nn::networks::{Network, SwinUNETRConfig};
use hearth_nn::optim::Gradients;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Peak bytes of a step in addition to the network's own, and its duration in seconds.
fn step(config: &SwinUNETRConfig, size: usize) -> (f64, f64) {
    let device = Device::default().autodiff();
    let net = config.init(&device, 0).expect("sound");
    let x = Tensor::<5>::ones([1, 1, size, size, size], &device);
    let once = || Gradients::of(&net, &net.forward(x.clone()).powi_scalar(2).mean()).len();
    // Threads allocate their buffers in the first step.
    assert!(once() > 0);
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let start = Instant::now();
    assert!(once() > 0);
    ((ALLOCATED.peak_usage() - before) as f64, start.elapsed().as_secs_f64())
}

fn config(feature_size: usize, depth: usize, use_checkpoint: bool) -> SwinUNETRConfig {
    SwinUNETRConfig { feature_size, depths: vec![depth; 4], use_checkpoint, ..SwinUNETRConfig::new(3, 1, 2) }
}

/// Deep stages, so that the savings are large compared with the decoder's values, which are stored.
#[test]
fn checkpointing_saves_memory() {
    let [(plain, _), (again, _)] = [false, true].map(|use_checkpoint| step(&config(12, 6, use_checkpoint), 32));
    assert!(again < 0.8 * plain, "{again} bytes for {plain}");
}

/// The rows of `docs/benches/runs/2026-11-25-memory.md`.
#[test]
#[ignore = "a measurement: some minutes and 16 GB"]
fn table_of_docs() {
    for (feature_size, depth, size) in [(24, 2, 96), (48, 2, 64), (48, 2, 96)] {
        let [(plain, plain_s), (again, again_s)] =
            [false, true].map(|use_checkpoint| step(&config(feature_size, depth, use_checkpoint), size));
        println!(
            "| {feature_size} | {size}³ | {:.2} GB, {plain_s:.2} s | {:.2} GB, {again_s:.2} s |",
            plain / 1e9,
            again / 1e9
        );
    }
}
