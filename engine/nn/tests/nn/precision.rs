//! Low-precision weights in the forward pass, as in the trainer's mixed precision.

use burn::module::{Module, Param, Reparameterization, Reparameterizer};
use burn::tensor::{DType, Device, Tensor};
use hearth_nn::losses::{DiceCELoss, Loss};
use hearth_nn::networks::{Network, NetworkConfig, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};

use crate::classification::kinds;
use crate::{draw, labels, values};

/// Kernels in low precision; all other parameters are unchanged.
#[derive(Module, Debug)]
pub struct Low {
    #[module(skip)]
    dtype: DType,
}

impl Reparameterization for Low {
    const NAME: &'static str = "low";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        base.cast(self.dtype)
    }
}

pub struct Kernels(pub DType);

impl Reparameterizer for Kernels {
    type Reparam = Low;

    fn reparameterize<const D: usize>(&mut self, _: &str, param: Param<Tensor<D>>) -> (Param<Tensor<D>>, Option<Low>) {
        (param, (D == 5).then_some(Low { dtype: self.0 }))
    }
}

#[test]
fn masters_stay_f32_and_statistics_and_losses_are_f32() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::default().autodiff();
    let config = UNetConfig { num_res_units: 2, norm: Some("batch".into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    let (x, y) = (draw([2, 1, 8, 8, 8], 1, &device), labels([2, 1, 8, 8, 8], 2, 2, &device));
    let loss = DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() };
    let full = config.init(&device, 0)?;
    let full_loss = loss.forward(full.forward(x.clone()), y.clone())?;
    let full_gradients = Gradients::of(&full, &full_loss);
    for (dtype, tolerance) in [(DType::BF16, 0.12), (DType::F16, 0.01)] {
        let net = config.init(&device, 0)?.apply_reparameterization(Kernels(dtype));
        let logits = net.forward(x.clone());
        assert_eq!(logits.dtype(), dtype);
        let low_loss = loss.forward(logits, y.clone())?;
        assert_eq!(low_loss.dtype(), DType::F32);
        let difference = (values(low_loss.clone())[0] - values(full_loss.clone())[0]).abs();
        assert!(difference < 0.02, "{dtype:?}: {difference}");
        let gradients = Gradients::of(&net, &low_loss);
        assert_eq!(gradients.len(), full_gradients.len());
        for (path, gradient) in gradients.iter() {
            assert_eq!(gradient.dtype(), DType::F32, "{path}");
        }
        // The gradients of biases before a batch norm are noise; the others have the same
        // direction. (Not in the first layers of such a small batch: a single voxel has a weight of
        // several percent there, and PReLU's slope changes with the voxel's sign.)
        let kernel = "model.2.0.conv.weight";
        let (low, full) = (gradients.get(kernel).cloned(), full_gradients.get(kernel).cloned());
        let (low, full) = (low.ok_or("no gradient")?, full.ok_or("no gradient")?);
        let apart = values((low - full.clone()).powi_scalar(2).sum())[0].sqrt();
        let size = values(full.powi_scalar(2).sum())[0].sqrt();
        assert!(apart < tolerance * size, "{dtype:?}: {apart} of {size}");
        // A step far below the resolution of the low precision still changes the master weights.
        let before = hearth_nn::weights::to_bytes(&net)?;
        let net = OptimizerConfig::sgd(0.0).build()?.step(net, gradients, 1e-5)?;
        assert_ne!(hearth_nn::weights::to_bytes(&net)?, before);
        assert_eq!(net.forward(x.clone()).dtype(), dtype);
    }
    Ok(())
}

/// Poolings, attention and shortcuts combine values of both types.
#[test]
fn classification_networks_and_transformers_train_with_low_kernels() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::default().autodiff();
    for (value, mut shape, _) in kinds() {
        let name = value["name"].clone();
        let config: NetworkConfig = serde_json::from_value(value)?;
        shape[0] = 2;
        let x = draw(shape, 1, &device);
        let full = config.init(&device, 3)?;
        let full_gradients = Gradients::of(&full, &full.forward(x.clone()).powi_scalar(2).mean());
        let net = config.init(&device, 3)?.apply_reparameterization(Kernels(DType::BF16));
        let y = net.forward(x).cast(DType::F32);
        let gradients = Gradients::of(&net, &y.powi_scalar(2).mean());
        assert_eq!(gradients.len(), full_gradients.len(), "{name}");
        for (path, gradient) in gradients.iter() {
            assert_eq!(gradient.dtype(), DType::F32, "{name} {path}");
            assert!(values(gradient.clone()).iter().all(|v| v.is_finite()), "{name} {path}");
        }
    }
    Ok(())
}
