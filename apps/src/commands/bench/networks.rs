//! Training steps and sliding-window inference on random numbers.

use burn::module::Module;
use burn::tensor::{Device, Distribution, Int, Tensor};
use clap::ValueEnum;
use hearth_nn::inferers::{BlendMode, Inferer, SlidingWindowInferer};
use hearth_nn::losses::{DiceCELoss, Loss};
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_train::{GradScaler, Precision, device};
use serde_json::json;

use super::{Args, say, timed};
use crate::error::{Context, Outcome};

/// The networks of the benchmark.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Net {
    /// The spleen recipe's regular network, 4.8 million parameters
    Unet,
    /// The fast recipe's, 19 million
    UnetFast,
}

impl Net {
    fn word(self) -> &'static str {
        match self {
            Net::Unet => "unet",
            Net::UnetFast => "unet_fast",
        }
    }

    fn build(self, device: &Device) -> Outcome<UNet> {
        let channels: &[usize] = match self {
            Net::Unet => &[16, 32, 64, 128, 256],
            Net::UnetFast => &[32, 64, 128, 256, 512],
        };
        let config = UNetConfig {
            num_res_units: 2,
            norm: Some("batch".into()),
            ..UNetConfig::new(3, 1, 2, channels, &[2, 2, 2, 2])
        };
        Ok(config.init(device, 0)?)
    }
}

/// Voxels of a patch along an axis, and patches in a batch, unless the arguments say otherwise.
const PATCH: u32 = 96;
const BATCH: u32 = 4;

/// One step: forward, loss, backward, optimizer.
pub fn step(args: &Args) -> Outcome {
    let plain = device::parse(&args.device)?;
    let precision = args.amp.precision();
    precision.check(&plain)?;
    let device = plain.clone().autodiff();
    let (patch, batch) = (args.patch.unwrap_or(PATCH) as usize, args.batch.unwrap_or(BATCH) as usize);
    let shape = [batch, 1, patch, patch, patch];
    let net = args.net.build(&device)?;
    net.check_input(shape)?;
    let mut net = Some(precision.apply(net));
    let loss =
        DiceCELoss { to_onehot_y: true, softmax: true, squared_pred: true, batch: true, ..DiceCELoss::default() };
    let mut optimizer = OptimizerConfig::sgd(0.9).build()?;
    let mut scaler = (precision == Precision::Fp16).then(GradScaler::default);
    device.seed(0);
    let image = Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let label = Tensor::<5, Int>::random(shape, Distribution::Uniform(0.0, 2.0), &device).float();
    let warm_up = if args.device.starts_with("cpu") { 2 } else { 8 };
    let times = timed(args.runs, warm_up, || {
        let Some(present) = net.take() else { return Ok(()) };
        let value = loss.forward(present.forward(image.clone()), label.clone())?;
        let scale = scaler.as_ref().map_or(1.0, GradScaler::scale);
        let gradients = Gradients::of(&present, &value.mul_scalar(scale)).scale(1.0 / scale);
        let finite = match &scaler {
            Some(_) => gradients.norm().is_none_or(|norm| norm.into_scalar::<f32>().is_finite()),
            None => true,
        };
        if let Some(scaler) = &mut scaler {
            scaler.update(finite);
        }
        net = Some(if finite { optimizer.step(present, gradients, 1e-3)? } else { present });
        plain.sync().while_doing(|| "the device failed")
    })?;
    say(
        args,
        json!({
            "bench": "step", "net": args.net.word(), "patch": patch, "batch": batch, "device": args.device,
            "amp": args.amp.word(), "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}

/// A volume, window by window.
pub fn infer(args: &Args) -> Outcome {
    let device = device::parse(&args.device)?;
    let precision = args.amp.precision();
    precision.check(&device)?;
    let patch = args.patch.unwrap_or(PATCH) as usize;
    let size = args.size as usize;
    let net = precision.apply(args.net.build(&device)?.valid());
    net.check_input([1, 1, patch, patch, patch])?;
    let inferer = SlidingWindowInferer {
        sw_batch_size: args.sw_batch as usize,
        overlap: 0.5.into(),
        mode: BlendMode::Gaussian,
        ..SlidingWindowInferer::new(&[patch; 3])
    };
    device.seed(0);
    let volume = [size, size, size / 2];
    let image = Tensor::<5>::random([1, 1, size, size, size / 2], Distribution::Normal(0.0, 1.0), &device);
    let times = timed(args.runs, 1, || {
        inferer.infer(image.clone(), &|windows| net.forward(windows))?;
        device.sync().while_doing(|| "the device failed")
    })?;
    say(
        args,
        json!({
            "bench": "infer", "net": args.net.word(), "patch": patch, "volume": volume, "device": args.device,
            "amp": args.amp.word(), "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}
