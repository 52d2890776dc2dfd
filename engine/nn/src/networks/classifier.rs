//! Classification of images: `monai.networks.nets.Classifier`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::Network;
use super::defaults::none;
use super::facts::{Facts, by_facts};
use super::stem::{Stem, StemOptions, all_axes, final_layer, stem_config};
use crate::layers::{Act, Axes, ConfigError, LayerSpec, Linear, Optional, Scope, Sequential, act};

stem_config! {
    /// Options of [`Classifier`]: MONAI's parameters and defaults.
    pub struct ClassifierConfig {
        /// Channels and size of the image; two sizes for 2-D, three for 3-D.
        #[setters(into)]
        pub in_shape: Vec<usize>,
        /// Number of classes.
        pub classes: usize,
        /// Number of channels of each layer.
        #[setters(into)]
        pub channels: Vec<usize>,
        /// Stride of each layer.
        #[setters(into)]
        pub strides: Vec<Axes>,
        ..stem(dropout = "none"),
        /// Activation of the output; null for none.
        #[serde(default)]
        #[setters(into)]
        pub last_act: Option<LayerSpec>,
    }
}

impl ClassifierConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], classes: usize, channels: &[usize], strides: &[usize]) -> Self {
        Self::with_defaults(in_shape.to_vec(), classes, channels.to_vec(), all_axes(strides), none(), None)
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Classifier, ConfigError> {
        Classifier::new("Classifier", &Scope::new(device, seed), self.stem(), self.classes, &self.last_act)
    }
}

/// A classifier of residual units that reduce an image, and a linear layer to the classes.
///
/// `[b, in, x, y, z]`, of the size that the network was built for, to `[b, classes, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{ClassifierConfig, Network};
/// let net = ClassifierConfig::new(&[1, 64, 64], 4, &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 4, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Classifier {
    net: Sequential,
    /// `final.1` in the state dict.
    last: Linear,
    /// `final.lastact` in the state dict.
    last_act: Option<Act>,
    #[module(skip)]
    facts: Facts,
}

impl Classifier {
    pub(super) fn new(
        name: &'static str,
        scope: &Scope,
        options: StemOptions<'_>,
        classes: usize,
        last_act: &Option<LayerSpec>,
    ) -> Result<Self, ConfigError> {
        let stem = Stem::new(name, scope, options, classes)?;
        let end = scope.enter("final");
        Ok(Classifier {
            net: stem.net,
            last: Linear::new(&end.enter("1"), [stem.features, classes], true),
            last_act: act(&end.enter("lastact"), last_act)?,
            facts: stem.facts,
        })
    }
}

impl Network for Classifier {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        self.last_act.apply(self.last.forward_flat(self.net.forward(x)))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(match path.strip_prefix("last_act.") {
            Some(rest) => format!("final.lastact.{rest}"),
            None => final_layer(path),
        })
    }
}

network_entry!(ClassifierConfig {
    name: "Classifier",
    aliases: &[],
    about: "Classification of images of one size, built from residual units.",
    paper: "",
    example: r#"in_shape = [1, 64, 64, 64]
classes = 2
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
