//! Prints GFLOP/s of forward, input gradient and weight gradient for the convolutions of a UNet,
//! with this crate and with Burn.
//!
//! `cargo build --release -p hearth-kernels -p build-once --examples &&
//! target/release/examples/convolution_speed`
use std::time::Instant;

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Distribution, Tensor, module};
use hearth_kernels::conv3d::{ConvShape, conv3d};

fn median(mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

fn main() {
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9}   (GFLOP/s)",
        "in -> out, size, stride", "forward", "backward", "Burn fwd", "Burn bwd"
    );
    let layers = [
        (2, 1, 16, 96, 2),
        (2, 16, 16, 48, 1),
        (2, 16, 32, 48, 2),
        (2, 32, 32, 24, 1),
        (2, 64, 64, 12, 1),
        (2, 128, 128, 6, 1),
        (2, 256, 256, 6, 1),
        (2, 2, 2, 96, 1),
        (8, 16, 16, 16, 1),
        (8, 64, 128, 4, 1),
    ];
    for (batch, input, output, size, stride) in layers {
        let device = Device::flex().autodiff();
        let x = Tensor::<5>::random([batch, input, size, size, size], Distribution::Default, &device).require_grad();
        let w = Tensor::<5>::random([output, input, 3, 3, 3], Distribution::Default, &device).require_grad();
        let shape = ConvShape { stride: [stride; 3], padding: [1; 3], ..ConvShape::default() };
        let out = size / stride;
        let flop = 2.0 * (batch * input * output * 27 * out * out * out) as f64 / 1e9;
        let forward = median(|| drop(conv3d(x.clone().detach(), w.clone().detach(), None, shape)));
        let both = median(|| drop(conv3d(x.clone(), w.clone(), None, shape).sum().backward()));
        let options = || ConvOptions::new([stride; 3], [1; 3], [1; 3], 1);
        let burn = median(|| drop(module::conv3d(x.clone().detach(), w.clone().detach(), None, options())));
        let burn_both = median(|| drop(module::conv3d(x.clone(), w.clone(), None, options()).sum().backward()));
        println!(
            "{:<34} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            format!("{batch} x {input} -> {output}, {size}^3, stride {stride}"),
            flop / forward,
            2.0 * flop / (both - forward),
            flop / burn,
            2.0 * flop / (burn_both - burn),
        );
    }
}
