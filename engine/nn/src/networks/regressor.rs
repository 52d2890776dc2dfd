//! Regression of a few numbers from images: `monai.networks.nets.Regressor`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::Network;
use super::defaults::none;
use super::facts::{Facts, by_facts};
use super::stem::{Stem, all_axes, final_layer, stem_config};
use crate::layers::{Axes, ConfigError, Linear, Scope, Sequential};

stem_config! {
    /// Options of [`Regressor`]: MONAI's parameters and defaults.
    pub struct RegressorConfig {
        /// Channels and size of the image; two sizes for 2-D, three for 3-D.
        #[setters(into)]
        pub in_shape: Vec<usize>,
        /// Shape of the output without the batch, up to four axes.
        #[setters(into)]
        pub out_shape: Vec<usize>,
        /// Number of channels of each layer.
        #[setters(into)]
        pub channels: Vec<usize>,
        /// Stride of each layer.
        #[setters(into)]
        pub strides: Vec<Axes>,
        ..stem(dropout = "none"),
    }
}

impl RegressorConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], out_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        let (in_shape, out_shape) = (in_shape.to_vec(), out_shape.to_vec());
        Self::with_defaults(in_shape, out_shape, channels.to_vec(), all_axes(strides), none())
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Regressor, ConfigError> {
        if self.out_shape.is_empty() || self.out_shape.len() > 4 || self.out_shape.contains(&0) {
            return Err(ConfigError::value("out_shape", &self.out_shape, "expected one to four numbers of at least 1"));
        }
        let scope = Scope::new(device, seed);
        let outputs = self.out_shape.iter().product();
        let stem = Stem::new("Regressor", &scope, self.stem(), outputs)?;
        let linear = Linear::new(&scope.enter("final").enter("1"), [stem.features, outputs], true);
        let mut out_shape = [1; 4];
        out_shape[..self.out_shape.len()].copy_from_slice(&self.out_shape);
        Ok(Regressor { net: stem.net, last: linear, out_shape, facts: stem.facts })
    }
}

/// A regressor of residual units that reduce an image, and a linear layer to a few numbers.
///
/// `[b, in, x, y, z]`, of the size that the network was built for, to `[b, out_shape...]`, padded
/// with axes of length 1 at the end.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, RegressorConfig};
/// let net = RegressorConfig::new(&[1, 64, 64], &[2], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 2, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Regressor {
    net: Sequential,
    /// `final.1` in the state dict.
    last: Linear,
    #[module(skip)]
    out_shape: [usize; 4],
    #[module(skip)]
    facts: Facts,
}

impl Network for Regressor {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let y = self.last.forward_flat(self.net.forward(x));
        let [o1, o2, o3, o4] = self.out_shape;
        let b = y.dims()[0];
        y.reshape([b, o1, o2, o3, o4])
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(final_layer(path))
    }
}

network_entry!(RegressorConfig {
    name: "Regressor",
    aliases: &[],
    about: "A few numbers from images of one size.",
    paper: "",
    example: r#"in_shape = [1, 64, 64, 64]
out_shape = [3]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
