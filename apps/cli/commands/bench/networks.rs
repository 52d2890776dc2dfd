//! Measures training steps and sliding-window inference on random numbers.

use burn::module::Module;
use burn::tensor::{Device, Distribution, Int, Tensor};
use clap::ValueEnum;
use hearth_nn::inferers::{BlendMode, Inferer, SlidingWindowInferer};
use hearth_nn::losses::{DiceCELoss, DiceFocalLoss, Loss};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::optim::{Gradients, Optimizer, OptimizerConfig};
use hearth_profile::range;
use hearth_train::{DeviceScaler, GradScaler, Precision};
use serde_json::{Value, json};

use super::{Args, say, timed};
use crate::error::{Context, Outcome};

/// The networks of the benchmark.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Net {
    /// The spleen recipe's regular network, 4.8 million parameters
    Unet,
    /// The fast spleen recipe's network, 19 million parameters
    UnetFast,
    /// The BraTS recipe's network
    Segresnet,
    /// nnU-Net's network, small
    Dynunet,
    /// nnU-Net's network of a usual size: 32 to 320 channels, two patches of 128 voxels
    Nnunet,
    /// The shifted-window transformer
    Swinunetr,
}

/// A network of the benchmark, its default input, and its loss.
struct Case {
    word: &'static str,
    config: NetworkConfig,
    /// The default patch size in voxels along an axis; below, the default number of patches in a batch.
    patch: u32,
    batch: u32,
    loss: Box<dyn Loss>,
    /// The number of label channels: one for class indices.
    labels: usize,
}

impl Net {
    /// The configuration of MONAI's benchmark.
    fn case(self) -> Outcome<Case> {
        let unet = |channels: [usize; 5]| {
            json!({
                "name": "UNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": channels,
                "strides": [2, 2, 2, 2], "num_res_units": 2, "norm": "batch",
            })
        };
        let (word, config, patch, batch) = match self {
            Net::Unet => ("unet", unet([16, 32, 64, 128, 256]), 96, 4),
            Net::UnetFast => ("unet_fast", unet([32, 64, 128, 256, 512]), 96, 4),
            Net::Segresnet => {
                let config = json!({
                    "name": "SegResNet", "blocks_down": [1, 2, 2, 4], "blocks_up": [1, 1, 1], "init_filters": 16,
                    "in_channels": 4, "out_channels": 3, "dropout_prob": 0.0,
                });
                ("segresnet", config, 64, 1)
            }
            Net::Dynunet => ("dynunet", dynunet(&[16, 32, 64, 128, 256]), 64, 2),
            Net::Nnunet => ("nnunet", dynunet(&[32, 64, 128, 256, 320, 320]), 128, 2),
            Net::Swinunetr => {
                let config = json!({ "name": "SwinUNETR", "in_channels": 1, "out_channels": 2, "feature_size": 24 });
                ("swinunetr", config, 64, 1)
            }
        };
        let softmax = !matches!(self, Net::Segresnet);
        let loss: Box<dyn Loss> = if softmax {
            let plain = DiceCELoss::default();
            Box::new(DiceCELoss { to_onehot_y: true, softmax: true, squared_pred: true, batch: true, ..plain })
        } else {
            let plain = DiceFocalLoss::default();
            Box::new(DiceFocalLoss { sigmoid: true, squared_pred: true, batch: true, ..plain })
        };
        let config: NetworkConfig =
            serde_json::from_value(config).while_doing(|| format!("{word} cannot be configured"))?;
        Ok(Case { word, config, patch, batch, loss, labels: if softmax { 1 } else { 3 } })
    }
}

/// nnU-Net's network with these channels, each level with half the voxels of the one above.
fn dynunet(filters: &[usize]) -> Value {
    let levels = filters.len();
    let strides: Vec<usize> = (0..levels).map(|level| if level == 0 { 1 } else { 2 }).collect();
    json!({
        "name": "DynUNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "filters": filters,
        "kernel_size": vec![3; levels], "strides": strides, "upsample_kernel_size": vec![2; levels - 1],
    })
}

/// A network that trains on one batch of random numbers.
pub(super) struct Training {
    word: &'static str,
    pub(super) patch: usize,
    pub(super) batch: usize,
    /// The network; `None` only during a step.
    net: Option<AnyNetwork>,
    optimizer: Optimizer,
    scaler: Option<DeviceScaler>,
    loss: Box<dyn Loss>,
    image: Tensor<5>,
    label: Tensor<5>,
    device: Device,
}

impl Training {
    pub(super) fn new(args: &Args) -> Outcome<Self> {
        let plain = args.device()?;
        let precision = args.amp().precision();
        precision.prepare(&plain)?;
        let device = plain.clone().autodiff();
        let case = args.net().case()?;
        let (patch, batch) = (args.patch.unwrap_or(case.patch) as usize, args.batch.unwrap_or(case.batch) as usize);
        let shape = [batch, case.config.in_channels(), patch, patch, patch];
        let net = case.config.init(&device, 0)?;
        net.check_input(shape)?;
        let fp16 = precision == Precision::Fp16;
        device.seed(0);
        let uniform = Distribution::Uniform(0.0, 2.0);
        Ok(Self {
            word: case.word,
            patch,
            batch,
            net: Some(precision.apply(net)),
            optimizer: OptimizerConfig::sgd(0.9).build()?,
            scaler: fp16.then(|| DeviceScaler::new(GradScaler::default(), &plain)),
            loss: case.loss,
            image: Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device),
            label: Tensor::<5, Int>::random([batch, case.labels, patch, patch, patch], uniform, &device).float(),
            device: plain,
        })
    }

    /// Runs one step: forward, loss, backward, optimizer, in the same profiling ranges as in a run.
    pub(super) fn step(&mut self) -> Outcome {
        let _iteration = range!("iteration").entered();
        let Some(present) = self.net.take() else { return Ok(()) };
        let prediction = range!("forward").in_scope(|| present.forward(self.image.clone()));
        let value = range!("loss").in_scope(|| self.loss.forward(prediction, self.label.clone()))?;
        self.net = Some(match &mut self.scaler {
            None => {
                let gradients = range!("backward").in_scope(|| Gradients::of(&present, &value));
                range!("optimizer").in_scope(|| self.optimizer.step(present, gradients, 1e-3))?
            }
            // As in the trainer.
            Some(scaler) => {
                let scale = scaler.scale();
                let scaled = value * scale.clone().autodiff();
                let gradients = range!("backward").in_scope(|| Gradients::of(&present, &scaled));
                let gradients = gradients.scale_by(&scale.recip());
                let finite = gradients.norm().unwrap_or_else(|| Tensor::zeros([1], &self.device)).is_finite();
                scaler.update(&finite);
                range!("optimizer").in_scope(|| self.optimizer.step_where(present, gradients, 1e-3, &finite))?
            }
        });
        self.device.sync().while_doing(|| "the device failed")
    }
}

/// Measures the time of a training step.
pub fn step(args: &Args) -> Outcome {
    let mut training = Training::new(args)?;
    let warm_up = if args.device_name().starts_with("cpu") { 2 } else { 8 };
    let times = timed(args.runs(), warm_up, || training.step())?;
    say(
        args,
        json!({
            "bench": "step", "net": training.word, "patch": training.patch, "batch": training.batch,
            "device": args.device_name(), "amp": args.amp().word(), "seconds": times.median, "min": times.min,
            "max": times.max,
        }),
    )
}

/// Measures sliding-window inference over a volume.
pub fn infer(args: &Args) -> Outcome {
    let device = args.device()?;
    let precision = args.amp().precision();
    precision.prepare(&device)?;
    let case = args.net().case()?;
    let (patch, channels) = (args.patch.unwrap_or(case.patch) as usize, case.config.in_channels());
    let size = args.size.unwrap_or(160) as usize;
    let net = precision.apply(case.config.init(&device, 0)?.valid());
    net.check_input([1, channels, patch, patch, patch])?;
    let inferer = SlidingWindowInferer {
        sw_batch_size: args.sw_batch.unwrap_or(4) as usize,
        overlap: 0.5.into(),
        mode: BlendMode::Gaussian,
        ..SlidingWindowInferer::new(&[patch; 3])
    };
    device.seed(0);
    let volume = [size, size, size / 2];
    let image = Tensor::<5>::random([1, channels, size, size, size / 2], Distribution::Normal(0.0, 1.0), &device);
    let times = timed(args.runs(), 1, || {
        inferer.infer(image.clone(), &|windows| net.forward(windows))?;
        device.sync().while_doing(|| "the device failed")
    })?;
    say(
        args,
        json!({
            "bench": "infer", "net": case.word, "patch": patch, "volume": volume, "device": args.device_name(),
            "amp": args.amp().word(), "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}
