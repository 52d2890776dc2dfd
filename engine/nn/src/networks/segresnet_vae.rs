//! SegResNet with a variational autoencoder in addition to its decoder:
//! `monai.networks.nets.SegResNetVAE`.

use burn::module::Module;
use burn::tensor::activation::softplus;
use burn::tensor::{DType, Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::cast;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{one, relu, three_dims, two, yes};
use super::facts::{Facts, by_facts};
use super::segresnet::{
    Body, SegResNetConfig, blocks_down, blocks_up, body_name, eight, final_conv, group_of_eight, lowest, non_trainable,
};
use crate::layers::{
    ConfigError, Convolution, LayerSpec, Linear, Norm, Optional, Scope, Sequential, UpSample, UpsampleMode, norm,
    norm_then_act,
};

/// Number of channels of the features from which the latent variables are computed.
const SMALLEST_FILTERS: usize = 16;

/// Options of [`SegResNetVAE`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SegResNetVAEConfig {
    /// Size of the images in training, one number per axis.
    #[setters(into)]
    pub input_image_size: Vec<usize>,
    /// Whether the standard deviations of the latent variables are estimated.
    #[serde(default)]
    pub vae_estimate_std: bool,
    /// The standard deviation if it is not estimated.
    #[serde(default = "default_std")]
    pub vae_default_std: f64,
    /// Number of latent variables.
    #[serde(default = "latent")]
    pub vae_nz: usize,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the first level; each next level has twice as many.
    #[serde(default = "eight")]
    pub init_filters: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "two")]
    pub out_channels: usize,
    /// Probability that a channel of the first convolution is dropped; null for none.
    #[serde(default)]
    pub dropout_prob: Option<f64>,
    /// The activation.
    #[serde(default = "relu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// The norm.
    #[serde(default = "group_of_eight")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Whether a last convolution maps to the classes.
    #[serde(default = "yes")]
    pub use_conv_final: bool,
    /// Number of residual blocks of each level down, top first.
    #[serde(default = "blocks_down")]
    #[setters(into)]
    pub blocks_down: Vec<usize>,
    /// Number of residual blocks of each level up, lowest first; one entry less than `blocks_down`.
    #[serde(default = "blocks_up")]
    #[setters(into)]
    pub blocks_up: Vec<usize>,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "non_trainable")]
    pub upsample_mode: UpsampleMode,
}

fn default_std() -> f64 {
    0.3
}

fn latent() -> usize {
    256
}

impl SegResNetVAEConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(input_image_size: &[usize]) -> Self {
        let base = SegResNetConfig::default();
        SegResNetVAEConfig {
            input_image_size: input_image_size.to_vec(),
            vae_estimate_std: false,
            vae_default_std: default_std(),
            vae_nz: latent(),
            spatial_dims: base.spatial_dims,
            init_filters: base.init_filters,
            in_channels: base.in_channels,
            out_channels: base.out_channels,
            dropout_prob: base.dropout_prob,
            act: base.act,
            norm: base.norm,
            use_conv_final: base.use_conv_final,
            blocks_down: base.blocks_down,
            blocks_up: base.blocks_up,
            upsample_mode: base.upsample_mode,
        }
    }

    /// The options of the network without the autoencoder.
    fn base(&self) -> SegResNetConfig {
        SegResNetConfig {
            spatial_dims: self.spatial_dims,
            init_filters: self.init_filters,
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            dropout_prob: self.dropout_prob,
            act: self.act.clone(),
            norm: self.norm.clone(),
            use_conv_final: self.use_conv_final,
            blocks_down: self.blocks_down.clone(),
            blocks_up: self.blocks_up.clone(),
            upsample_mode: self.upsample_mode,
            ..SegResNetConfig::default()
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SegResNetVAE, ConfigError> {
        let base = self.base();
        let mut facts = base.facts("SegResNetVAE")?;
        let halvings = base.blocks_up.len();
        if self.input_image_size.len() != self.spatial_dims {
            let expected = format!("expected {} numbers", self.spatial_dims);
            return Err(ConfigError::value("input_image_size", &self.input_image_size, expected));
        }
        let multiple = 2_usize << halvings;
        if self.input_image_size.iter().any(|n| *n == 0 || n % multiple != 0) {
            let expected = format!("every axis must be divisible by {multiple}");
            return Err(ConfigError::value("input_image_size", &self.input_image_size, expected));
        }
        if self.vae_nz == 0 {
            return Err(ConfigError::value("vae_nz", self.vae_nz, "expected at least 1"));
        }
        let (mut size, mut latent_size) = ([1; 3], [1; 3]);
        for (axis, n) in self.input_image_size.iter().enumerate() {
            (size[axis], latent_size[axis]) = (*n, n / multiple);
        }
        facts.exact = Some(size);
        let scope = Scope::new(device, seed);
        let filters = base.init_filters << halvings;
        let features = SMALLEST_FILTERS * latent_size.iter().product::<usize>();
        let down = scope.enter("vae_down");
        let up = scope.enter("vae_fc_up_sample");
        let linear = |name: &str, features: [usize; 2]| Linear::new(&scope.enter(name), features, true);
        Ok(SegResNetVAE {
            body: Body::new(&scope, &base, &facts)?,
            vae_down: VaeDown {
                norm_in: norm(&down.enter("0"), &base.norm, filters)?,
                conv: base.conv(&down.enter("2"), [filters, SMALLEST_FILTERS], 3, 2, true)?,
                norm_out: norm(&down.enter("3"), &base.norm, SMALLEST_FILTERS)?,
            },
            vae_fc1: linear("vae_fc1", [features, self.vae_nz]),
            vae_fc2: linear("vae_fc2", [features, self.vae_nz]),
            vae_fc3: linear("vae_fc3", [self.vae_nz, features]),
            vae_fc_up_sample: VaeUp {
                conv: base.conv(&up.enter("0"), [SMALLEST_FILTERS, filters], 1, 1, false)?,
                upsample: base.upsample(&up.enter("1"), filters)?,
                norm: norm(&up.enter("2"), &base.norm, filters)?,
            },
            vae_conv_final: final_conv(&scope.enter("vae_conv_final"), &base, self.in_channels)?,
            latent_size,
            default_std: (!self.vae_estimate_std).then_some(self.vae_default_std),
            use_conv_final: self.use_conv_final,
            facts,
        })
    }
}

/// The layers from the lowest features to those of the latent variables.
#[derive(Module, Debug)]
struct VaeDown {
    norm_in: Option<Norm>,
    conv: Convolution,
    norm_out: Option<Norm>,
}

/// The layers from the latent variables back to the lowest features.
#[derive(Module, Debug)]
struct VaeUp {
    conv: Convolution,
    upsample: UpSample,
    norm: Option<Norm>,
}

/// SegResNet with a variational autoencoder that is trained jointly with it (Myronenko,
/// <https://arxiv.org/abs/1810.11654>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`, of the size that the network was built for. In
/// training `forward_with_loss` returns the autoencoder's loss in addition: that of the latent
/// variables plus the mean squared error of the image.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SegResNetVAEConfig};
/// let config = SegResNetVAEConfig { blocks_down: vec![1, 1], blocks_up: vec![1], ..SegResNetVAEConfig::new(&[8, 8, 8]) };
/// let device = Device::default().autodiff();
/// let (outputs, loss) = config.init(&device, 0)?.forward_with_loss(Tensor::zeros([1, 1, 8, 8, 8], &device));
/// assert_eq!((outputs[0].dims(), loss.map(|loss| loss.dims())), ([1, 2, 8, 8, 8], Some([1])));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SegResNetVAE {
    body: Body,
    vae_down: VaeDown,
    vae_fc1: Linear,
    vae_fc2: Linear,
    vae_fc3: Linear,
    vae_fc_up_sample: VaeUp,
    vae_conv_final: Sequential,
    #[module(skip)]
    latent_size: [usize; 3],
    #[module(skip)]
    default_std: Option<f64>,
    #[module(skip)]
    use_conv_final: bool,
    #[module(skip)]
    facts: Facts,
}

impl SegResNetVAE {
    fn segment(&self, features: Tensor<5>, skips: Vec<Tensor<5>>) -> Tensor<5> {
        let out = self.body.decode(features, skips);
        if self.use_conv_final { self.body.finish(&self.body.conv_final, out) } else { out }
    }

    /// Returns the output and the autoencoder's loss `[1]`, using `noise`, draws from N(0, 1), for
    /// the latent variables, `[b, vae_nz]`.
    pub fn forward_with_noise(&self, x: Tensor<5>, noise: Tensor<2>) -> (Tensor<5>, Tensor<1>) {
        self.facts.clock.next_pass();
        self.with_noise(x, noise)
    }

    fn with_noise(&self, x: Tensor<5>, noise: Tensor<2>) -> (Tensor<5>, Tensor<1>) {
        let (features, skips) = lowest(self.body.encode(x.clone()), x.clone());
        // The decoder runs twice. Its batch norms process the segmentation first, as in MONAI.
        let out = self.segment(features.clone(), skips);
        (out, self.vae_loss(x, features, noise))
    }

    fn vae_loss(&self, image: Tensor<5>, features: Tensor<5>, noise: Tensor<2>) -> Tensor<1> {
        let act = &self.body.act_mod;
        let down = &self.vae_down;
        let x = norm_then_act(&down.norm_in, act, features);
        let x = norm_then_act(&down.norm_out, act, down.conv.forward(x));
        let [b, c, dx, dy, dz] = x.dims();
        let x = x.reshape([b, c * dx * dy * dz]);
        // Latent variables and losses are f32, also in mixed precision.
        let mean = cast(self.vae_fc1.forward(x.clone()), DType::F32);
        let squares = mean.clone() * mean.clone();
        let (latent, latent_loss) = match self.default_std {
            Some(std) => (mean + noise * std, squares.mean()),
            None => {
                let sigma = softplus(cast(self.vae_fc2.forward(x), DType::F32), 1.0);
                let variance = sigma.clone() * sigma.clone();
                let loss = (squares + variance.clone() - (variance + 1e-8).log() - 1.0).mean() * 0.5;
                (mean + sigma * noise, loss)
            }
        };
        let [lx, ly, lz] = self.latent_size;
        let x = self.vae_fc3.forward(latent).reshape([b, SMALLEST_FILTERS, lx, ly, lz]);
        let up = &self.vae_fc_up_sample;
        let x = up.norm.apply(up.upsample.forward(up.conv.forward(act.apply(x))));
        let x = self.body.decode(act.apply(x), Vec::new());
        let difference = cast(image, DType::F32) - cast(self.body.finish(&self.vae_conv_final, x), DType::F32);
        latent_loss + (difference.clone() * difference).mean()
    }
}

impl Network for SegResNetVAE {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let (features, skips) = lowest(self.body.encode(x.clone()), x);
        self.segment(features, skips)
    }

    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        if !x.is_autodiff() {
            return (vec![self.forward(x)], None);
        }
        self.facts.clock.next_pass();
        let shape = [x.dims()[0], self.vae_fc3.weight.dims()[1]];
        let noise = self.facts.clock.normal("vae", shape, &x.device());
        let (out, loss) = self.with_noise(x, noise);
        (vec![out], Some(loss))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let path = body_name(path);
        let renamed = [
            ("vae_down.norm_in.", "vae_down.0."),
            ("vae_down.conv.", "vae_down.2."),
            ("vae_down.norm_out.", "vae_down.3."),
            ("vae_fc_up_sample.conv.", "vae_fc_up_sample.0."),
            ("vae_fc_up_sample.upsample.", "vae_fc_up_sample.1."),
            ("vae_fc_up_sample.norm.", "vae_fc_up_sample.2."),
        ];
        let name = renamed.iter().find_map(|(own, torch)| Some(format!("{torch}{}", path.strip_prefix(own)?)));
        Some(name.unwrap_or(path))
    }

    /// The activation is a single module with all these names.
    fn torch_aliases(&self, path: &str) -> Vec<String> {
        let places = ["conv_final.1", "vae_down.1", "vae_down.4", "vae_fc_up_sample.3", "vae_conv_final.1"];
        match path.strip_prefix("body.act_mod.") {
            Some(rest) => places.iter().map(|place| format!("{place}.{rest}")).collect(),
            None => Vec::new(),
        }
    }
}

network_entry!(SegResNetVAEConfig {
    name: "SegResNetVAE",
    aliases: &[],
    about: "Segmentation: SegResNet with a variational autoencoder that regularizes its training.",
    paper: "Myronenko 2018, arXiv:1810.11654",
    example: r#"input_image_size = [64, 64, 64]
spatial_dims = 3
in_channels = 1
out_channels = 2
init_filters = 16"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
