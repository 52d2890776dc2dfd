//! The critic of a Wasserstein GAN: `monai.networks.nets.Critic`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::Network;
use super::defaults::quarter;
use super::facts::{Facts, by_facts};
use super::stem::{Stem, all_axes, stem_config};
use crate::layers::{Axes, ConfigError, Scope, Sequential};

stem_config! {
    /// Options of [`Critic`]: MONAI's parameters and defaults.
    pub struct CriticConfig {
        /// Channels and size of the image; two sizes for 2-D, three for 3-D.
        #[setters(into)]
        pub in_shape: Vec<usize>,
        /// Number of channels of each layer.
        #[setters(into)]
        pub channels: Vec<usize>,
        /// Stride of each layer.
        #[setters(into)]
        pub strides: Vec<Axes>,
        ..stem(dropout = "quarter"),
    }
}

impl CriticConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        Self::with_defaults(in_shape.to_vec(), channels.to_vec(), all_axes(strides), quarter())
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Critic, ConfigError> {
        let Stem { net, mut facts, .. } = Stem::new("Critic", &Scope::new(device, seed), self.stem(), 1)?;
        // The mean accepts any number of features.
        facts.exact = None;
        Ok(Critic { net, facts })
    }
}

/// A critic of residual units that reduce an image, and the mean of their output (Arjovsky et al.,
/// <https://arxiv.org/abs/1701.07875>).
///
/// `[b, in, x, y, z]` to `[b, 1, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{CriticConfig, Network};
/// let net = CriticConfig::new(&[1, 64, 64], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 1, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Critic {
    net: Sequential,
    #[module(skip)]
    facts: Facts,
}

impl Network for Critic {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x = self.net.forward(x);
        let [b, c, dx, dy, dz] = x.dims();
        x.reshape([b, c * dx * dy * dz]).mean_dim(1).reshape([b, 1, 1, 1, 1])
    }
}

network_entry!(CriticConfig {
    name: "Critic",
    aliases: &[],
    about: "The critic of a Wasserstein GAN.",
    paper: "Arjovsky et al. 2017, arXiv:1701.07875",
    example: r#"in_shape = [1, 64, 64, 64]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
