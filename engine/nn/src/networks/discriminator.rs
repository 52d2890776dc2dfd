//! Discrimination of real and generated images: `monai.networks.nets.Discriminator`, a
//! [`Classifier`] with one output.

use burn::tensor::Device;

use super::classifier::Classifier;
use super::defaults::quarter;
use super::stem::{all_axes, stem_config};
use crate::layers::{Axes, ConfigError, LayerSpec, Scope};

stem_config! {
    /// Options of a discriminator: MONAI's parameters and defaults.
    ///
    /// ```
    /// # use burn::tensor::{Device, Tensor};
    /// # use hearth_nn::networks::{DiscriminatorConfig, Network};
    /// let net = DiscriminatorConfig::new(&[1, 64, 64], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
    /// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 1, 1, 1, 1]);
    /// # Ok::<(), hearth_nn::ConfigError>(())
    /// ```
    pub struct DiscriminatorConfig {
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
        /// Activation of the output; null for none.
        #[serde(default = "sigmoid")]
        #[setters(into)]
        pub last_act: Option<LayerSpec>,
    }
}

fn sigmoid() -> Option<LayerSpec> {
    Some("SIGMOID".into())
}

impl DiscriminatorConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        Self::with_defaults(in_shape.to_vec(), channels.to_vec(), all_axes(strides), quarter(), sigmoid())
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Classifier, ConfigError> {
        Classifier::new("Discriminator", &Scope::new(device, seed), self.stem(), 1, &self.last_act)
    }
}

network_entry!(DiscriminatorConfig {
    name: "Discriminator",
    aliases: &[],
    about: "Whether an image is real or generated.",
    paper: "Goodfellow et al. 2014, arXiv:1406.2661",
    example: r#"in_shape = [1, 64, 64, 64]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
