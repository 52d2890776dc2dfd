//! What every network can do, and the networks a recipe can name.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{UNet, UNetConfig};
use crate::layers::ConfigError;

/// An input a network cannot take.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{network} cannot take an input of shape {shape:?} [batch, channel, x, y, z]: {reason}")]
pub struct ShapeError {
    /// The network.
    pub network: &'static str,
    /// The input's shape.
    pub shape: [usize; 5],
    /// What is wrong and what to do.
    pub reason: String,
}

/// A network from `[b, in, x, y, z]` to `[b, out, x', y', z']`.
pub trait Network: Module + Sync + 'static {
    /// MONAI's name.
    fn name(&self) -> &'static str;

    /// 2 or 3. A 2-D network takes `z = 1`, and its exported kernels have no third axis.
    fn spatial_dims(&self) -> usize;

    /// Channels in and out.
    fn channels(&self) -> [usize; 2];

    /// The output; the main one if there are several.
    fn forward(&self, x: Tensor<5>) -> Tensor<5>;

    /// All outputs, the main one first (deep supervision).
    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        vec![self.forward(x)]
    }

    /// Says why an input of this shape would not do.
    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError>;

    /// The state-dict key of the parameter at this path of module fields; `None` leaves it out.
    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    /// Keys the draws of this step (dropout). The trainer calls it before each step, so that a resumed run draws what
    /// an uninterrupted one would.
    fn set_draw(&self, _seed: u64, _step: u64) {}
}

/// A network by name, as a recipe gives it: `name = "UNet"` and the network's own parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum NetworkConfig {
    /// The residual U-Net.
    #[serde(alias = "Unet", alias = "unet")]
    UNet(UNetConfig),
}

impl NetworkConfig {
    /// Builds the network with weights drawn from `seed`.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AnyNetwork, ConfigError> {
        match self {
            NetworkConfig::UNet(config) => Ok(AnyNetwork::UNet(config.init(device, seed)?)),
        }
    }

    /// Channels of the image it takes.
    pub fn in_channels(&self) -> usize {
        match self {
            NetworkConfig::UNet(config) => config.in_channels,
        }
    }
}

/// Any network a [`NetworkConfig`] can ask for.
#[derive(Module, Debug)]
pub enum AnyNetwork {
    /// The residual U-Net.
    UNet(UNet),
}

impl AnyNetwork {
    fn get(&self) -> &impl Network {
        match self {
            AnyNetwork::UNet(net) => net,
        }
    }
}

impl Network for AnyNetwork {
    fn name(&self) -> &'static str {
        self.get().name()
    }

    fn spatial_dims(&self) -> usize {
        self.get().spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.get().channels()
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.get().forward(x)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.get().forward_all(x)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.get().check_input(shape)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        self.get().torch_name(path)
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.get().set_draw(seed, step);
    }
}
