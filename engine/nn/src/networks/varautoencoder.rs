//! The variational autoencoder of `monai.networks.nets.VarAutoEncoder`.

use burn::module::Module;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{DType, Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::cast;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autoencoder::{AutoEncoderConfig, Parts};
use super::defaults::{instance, prelu, three, two, yes};
use super::facts::{Facts, by_facts};
use super::{Network, stem::after_convolution};
use crate::layers::{Axes, ConfigError, DropoutSpec, LayerSpec, Linear, Scope, Sequential};

/// Options of [`VarAutoEncoder`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct VarAutoEncoderConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Channels and size of the image.
    #[setters(into)]
    pub in_shape: Vec<usize>,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Number of latent variables.
    pub latent_size: usize,
    /// Number of channels of each encoding layer, top first.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Stride of each encoding layer.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel of the convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Kernel of the transposed convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub up_kernel_size: Axes,
    /// Number of convolutions per residual unit of the encoder; 0 for plain convolutions. Residual
    /// units of the decoder have one convolution.
    #[serde(default)]
    pub num_res_units: usize,
    /// Number of channels of each layer between encoder and latent variables; the last must be the
    /// last of `channels`.
    #[serde(default)]
    #[setters(into)]
    pub inter_channels: Option<Vec<usize>>,
    /// Dilations of the layers of `inter_channels`; null for 1.
    #[serde(default)]
    #[setters(into)]
    pub inter_dilations: Option<Vec<Axes>>,
    /// Number of convolutions per residual unit of these layers; 0 for plain convolutions.
    #[serde(default = "two")]
    pub num_inter_units: usize,
    /// Activation; `""` or null for none.
    #[serde(default = "prelu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` or null for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Dropout probability; null for none.
    #[serde(default)]
    #[setters(into)]
    pub dropout: Option<DropoutSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Whether the output is a probability.
    #[serde(default = "yes")]
    pub use_sigmoid: bool,
    /// Whether evaluation decodes the mean of the latent variables instead of the mean plus one
    /// standard deviation.
    #[serde(default)]
    pub use_mean_at_inference: bool,
}

impl VarAutoEncoderConfig {
    /// Options with MONAI's defaults for everything else. `in_shape` is channels and size.
    pub fn new(
        in_shape: &[usize],
        out_channels: usize,
        latent_size: usize,
        channels: &[usize],
        strides: &[usize],
    ) -> Self {
        let dims = in_shape.len().saturating_sub(1);
        let base = AutoEncoderConfig::new(dims, 1, out_channels, channels, strides);
        VarAutoEncoderConfig {
            spatial_dims: dims,
            in_shape: in_shape.to_vec(),
            out_channels,
            latent_size,
            channels: base.channels,
            strides: base.strides,
            kernel_size: base.kernel_size,
            up_kernel_size: base.up_kernel_size,
            num_res_units: base.num_res_units,
            inter_channels: base.inter_channels,
            inter_dilations: base.inter_dilations,
            num_inter_units: base.num_inter_units,
            act: base.act,
            norm: base.norm,
            dropout: base.dropout,
            bias: base.bias,
            use_sigmoid: true,
            use_mean_at_inference: false,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<VarAutoEncoder, ConfigError> {
        let Some((&in_channels, size)) =
            self.in_shape.split_first().filter(|(_, size)| size.len() == self.spatial_dims && !size.contains(&0))
        else {
            let expected = format!("expected the channels and {} sizes", self.spatial_dims);
            return Err(ConfigError::value("in_shape", &self.in_shape, expected));
        };
        let mut facts = Facts::new("VarAutoEncoder", self.spatial_dims, [in_channels, self.out_channels])?;
        if self.latent_size == 0 {
            return Err(ConfigError::value("latent_size", self.latent_size, "expected at least 1"));
        }
        let mut input = [1; 3];
        input[..size.len()].copy_from_slice(size);
        facts.exact = Some(input);
        let scope = Scope::new(device, seed);
        let parts = Parts::new(&scope, &self.base(in_channels), &facts.clock)?;
        if self.channels.last() != Some(&parts.encoded) {
            let expected = "the last must be the last of channels, which the decoder starts from";
            return Err(ConfigError::value("inter_channels", &self.inter_channels, expected));
        }
        let strides = &parts.strides;
        let encoded = strides.iter().try_fold(input, |size, stride| after_convolution(size, parts.kernel, *stride))?;
        let features = parts.encoded * encoded.iter().product::<usize>();
        let linear = |name: &str, features: [usize; 2]| Linear::new(&scope.enter(name), features, true);
        Ok(VarAutoEncoder {
            encode: parts.encode,
            intermediate: parts.intermediate,
            decode: parts.decode,
            mu: linear("mu", [features, self.latent_size]),
            logvar: linear("logvar", [features, self.latent_size]),
            decode_l: linear("decodeL", [self.latent_size, features]),
            encoded: (parts.encoded, encoded),
            use_sigmoid: self.use_sigmoid,
            use_mean_at_inference: self.use_mean_at_inference,
            facts,
        })
    }

    fn base(&self, in_channels: usize) -> AutoEncoderConfig {
        AutoEncoderConfig {
            spatial_dims: self.spatial_dims,
            in_channels,
            out_channels: self.out_channels,
            channels: self.channels.clone(),
            strides: self.strides.clone(),
            kernel_size: self.kernel_size.clone(),
            up_kernel_size: self.up_kernel_size.clone(),
            num_res_units: self.num_res_units,
            inter_channels: self.inter_channels.clone(),
            inter_dilations: self.inter_dilations.clone(),
            num_inter_units: self.num_inter_units,
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            bias: self.bias,
            padding: None,
        }
    }
}

/// The output of a [`VarAutoEncoder`].
#[derive(Clone, Debug)]
pub struct VaeOutput {
    /// The decoded image, `[b, out, x, y, z]`.
    pub reconstruction: Tensor<5>,
    /// The means of the latent variables, `[b, latent]`.
    pub mu: Tensor<2>,
    /// The logarithms of the variances of the latent variables, `[b, latent]`.
    pub logvar: Tensor<2>,
    /// The latent variables that were decoded, `[b, latent]`.
    pub z: Tensor<2>,
}

/// A variational autoencoder (Kingma and Welling, <https://arxiv.org/abs/1312.6114>).
///
/// `[b, in, x, y, z]`, of the size that the network was built for, to `[b, out, x, y, z]`. In
/// training the latent variables are drawn; in evaluation they are the mean plus one standard
/// deviation, as in MONAI, unless `use_mean_at_inference`. `forward_all` returns the
/// reconstruction, followed by means, logarithms of variances and latent variables as `[b, n, 1, 1,
/// 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::VarAutoEncoderConfig;
/// let net = VarAutoEncoderConfig::new(&[1, 16, 16], 1, 2, &[4, 8], &[2, 2]).init(&Device::default(), 0)?;
/// let output = net.encode_and_decode(Tensor::zeros([3, 1, 16, 16, 1], &Device::default()));
/// assert_eq!((output.reconstruction.dims(), output.mu.dims()), ([3, 1, 16, 16, 1], [3, 2]));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct VarAutoEncoder {
    encode: Sequential,
    intermediate: Sequential,
    decode: Sequential,
    mu: Linear,
    logvar: Linear,
    /// `decodeL` in the state dict.
    decode_l: Linear,
    #[module(skip)]
    encoded: (usize, [usize; 3]),
    #[module(skip)]
    use_sigmoid: bool,
    #[module(skip)]
    use_mean_at_inference: bool,
    #[module(skip)]
    facts: Facts,
}

impl VarAutoEncoder {
    /// Returns the means and logarithms of variances of the latent variables, `[b, latent]` each, always
    /// in f32.
    pub fn encode_forward(&self, x: Tensor<5>) -> (Tensor<2>, Tensor<2>) {
        let x = self.intermediate.forward(self.encode.forward(x));
        let [b, c, dx, dy, dz] = x.dims();
        let x = x.reshape([b, c * dx * dy * dz]);
        (cast(self.mu.forward(x.clone()), DType::F32), cast(self.logvar.forward(x), DType::F32))
    }

    /// Decodes latent variables `[b, latent]` to an image.
    pub fn decode_forward(&self, z: Tensor<2>) -> Tensor<5> {
        let b = z.dims()[0];
        let (channels, [dx, dy, dz]) = self.encoded;
        let x = relu(self.decode_l.forward(z)).reshape([b, channels, dx, dy, dz]);
        let x = self.decode.forward(x);
        if self.use_sigmoid { sigmoid(x) } else { x }
    }

    /// Returns all outputs for `[b, in, x, y, z]`, with latent variables drawn by the network in
    /// training.
    pub fn encode_and_decode(&self, x: Tensor<5>) -> VaeOutput {
        self.facts.clock.next_pass();
        let training = x.is_autodiff();
        let (mu, logvar) = self.encode_forward(x);
        let z = if training {
            let noise = self.facts.clock.normal("z", mu.dims(), &mu.device());
            mu.clone() + noise * deviation(&logvar)
        } else if self.use_mean_at_inference {
            mu.clone()
        } else {
            mu.clone() + deviation(&logvar)
        };
        VaeOutput { reconstruction: self.decode_forward(z.clone()), mu, logvar, z }
    }

    /// Returns all outputs, with `noise`, draws from N(0, 1), for the latent variables, `[b,
    /// latent]`.
    pub fn encode_and_decode_with_noise(&self, x: Tensor<5>, noise: Tensor<2>) -> VaeOutput {
        self.facts.clock.next_pass();
        let (mu, logvar) = self.encode_forward(x);
        let z = mu.clone() + noise * deviation(&logvar);
        VaeOutput { reconstruction: self.decode_forward(z.clone()), mu, logvar, z }
    }
}

impl VaeOutput {
    /// Reconstruction, means, logarithms of variances and latent variables; all but the first as
    /// `[b, n, 1, 1, 1]`.
    pub fn into_vec(self) -> Vec<Tensor<5>> {
        let flat = |latent: Tensor<2>| {
            let [b, n] = latent.dims();
            latent.reshape([b, n, 1, 1, 1])
        };
        vec![self.reconstruction, flat(self.mu), flat(self.logvar), flat(self.z)]
    }
}

fn deviation(logvar: &Tensor<2>) -> Tensor<2> {
    (logvar.clone() * 0.5).exp()
}

impl Network for VarAutoEncoder {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.encode_and_decode(x).reconstruction
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.encode_and_decode(x).into_vec()
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.strip_prefix("decode_l.").map_or_else(|| path.to_owned(), |rest| format!("decodeL.{rest}")))
    }
}

network_entry!(VarAutoEncoderConfig {
    name: "VarAutoEncoder",
    aliases: &[],
    about: "Reconstruction and generation: variational autoencoder.",
    paper: "Kingma and Welling 2014, arXiv:1312.6114",
    example: r#"spatial_dims = 3
in_shape = [1, 64, 64, 64]
out_channels = 1
latent_size = 32
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
