//! Measures the time of a training step (forward, loss, backward, SGD) of two U-Nets on the default
//! device, and of each kind of layer separately.
//!
//! ```text
//! cargo run --release -p hearth-nn --example step_time
//! ```

use std::error::Error;
use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};
use hearth_kernels::conv3d::ConvShape;
use hearth_nn::layers::{Act, BatchNorm, Conv, ConvTranspose, InstanceNorm, Scope};
use hearth_nn::losses::{DiceCELoss, Loss};
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};

/// As in the programs: memory of large tensors is kept for reuse.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// The median duration of a number of runs, in milliseconds, after a warm-up run.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

fn step(name: &str, config: &UNetConfig, batch: usize, size: usize, runs: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::default().autodiff();
    let shape = [batch, config.in_channels, size, size, size];
    let image = Tensor::<5>::random(shape, Distribution::Default, &device);
    let label = Tensor::<5>::random([batch, 1, size, size, size], Distribution::Bernoulli(0.3), &device);
    let loss = DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() };
    let mut optimizer = OptimizerConfig::sgd(0.9).build()?;
    let mut net: Option<UNet> = Some(config.init(&device, 0)?);
    let mut parts: [Vec<f64>; 4] = Default::default();
    for _ in 0..=runs {
        let now = net.take().ok_or("the last step failed")?;
        let mut marks = vec![Instant::now()];
        let y = now.forward(image.clone());
        marks.push(Instant::now());
        let value = loss.forward(y, label.clone())?;
        marks.push(Instant::now());
        let gradients = Gradients::of(&now, &value);
        marks.push(Instant::now());
        net = Some(optimizer.step(now, gradients, 0.01)?);
        device.sync().map_err(|e| format!("{e:?}"))?;
        marks.push(Instant::now());
        for (part, pair) in parts.iter_mut().zip(marks.windows(2)) {
            part.push((pair[1] - pair[0]).as_secs_f64() * 1e3);
        }
    }
    let middle = parts.map(|mut part| {
        part.remove(0);
        part.sort_by(f64::total_cmp);
        part[part.len() / 2]
    });
    let [forward, loss, backward, update] = middle;
    let total: f64 = middle.iter().sum();
    println!(
        "{name}: {total:.0} ms a step (forward {forward:.0}, loss {loss:.0}, backward {backward:.0}, SGD {update:.0})"
    );
    Ok(())
}

/// Forward, and forward and backward, of a single layer.
fn layer(name: &str, shape: [usize; 5], forward: impl Fn(Tensor<5>) -> Tensor<5>) {
    let device = Device::default().autodiff();
    let x = Tensor::<5>::random(shape, Distribution::Default, &device).require_grad();
    let ahead = median(7, || drop(forward(x.clone())));
    let both = median(7, || drop(forward(x.clone()).sum().backward()));
    println!("  {name} of {shape:?}: forward {ahead:.2} ms, with backward {both:.2} ms");
}

fn main() -> Result<(), Box<dyn Error>> {
    let net = |channels: &[usize]| UNetConfig {
        num_res_units: 2,
        norm: Some("batch".into()),
        ..UNetConfig::new(3, 1, 2, channels, &vec![2; channels.len() - 1])
    };
    step("UNet 16,32,64,128 at 8 x 32^3", &net(&[16, 32, 64, 128]), 8, 32, 9)?;
    step("UNet 16,32,64,128,256 at 4 x 96^3", &net(&[16, 32, 64, 128, 256]), 4, 96, 5)?;
    let scope = Scope::new(&Device::default().autodiff(), 0);
    let same = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let half = ConvShape { stride: [2; 3], padding: [1; 3], ..ConvShape::default() };
    let conv = Conv::new(&scope, [16, 16], [3; 3], same, true);
    layer("conv 16 to 16", [8, 16, 16, 16, 16], |x| conv.forward(x));
    let conv = Conv::new(&scope, [64, 128], [3; 3], same, true);
    layer("conv 64 to 128", [8, 64, 4, 4, 4], |x| conv.forward(x));
    let conv = Conv::new(&scope, [16, 32], [3; 3], half, true);
    layer("conv 16 to 32, stride 2", [8, 16, 16, 16, 16], |x| conv.forward(x));
    let conv = ConvTranspose::new(&scope, [32, 2], [3; 3], half, [1; 3], true);
    layer("transposed conv 32 to 2, stride 2", [8, 32, 16, 16, 16], |x| conv.forward(x));
    let norm = BatchNorm::new(&scope, 16, 1e-5, 0.1, true);
    layer("batch norm", [8, 16, 16, 16, 16], |x| norm.forward(x));
    let norm = InstanceNorm::new(&scope, 16, 1e-5, false);
    layer("instance norm", [8, 16, 16, 16, 16], |x| norm.forward(x));
    let act = Act::new(&scope, &"prelu".into())?;
    layer("PReLU", [8, 16, 16, 16, 16], |x| act.forward(x));
    layer("sum", [8, 16, 16, 16, 16], |x| x.clone() + x);
    Ok(())
}
