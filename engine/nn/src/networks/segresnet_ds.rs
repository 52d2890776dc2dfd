//! SegResNet with deep supervision and anisotropic kernels: `monai.networks.nets.SegResNetDS` and
//! `SegResNetDS2`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::{Channels, ConvShape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Network;
use super::basic_unet::deconv;
use super::defaults::{batch, one, relu, three_dims, two};
use super::facts::{Facts, by_facts};
use super::segresnet::blocks_down;
use crate::layers::{
    Act, ConfigError, Conv, LayerSpec, Norm, Scope, UpSample, UpSampleOptions, UpsampleMode, act, in_space, norm,
    norm_then_act, residual_sum,
};
use crate::named::Named;

/// Options of [`SegResNetDS`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SegResNetDSConfig {
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the first level; each next level has twice as many.
    #[serde(default = "thirty_two")]
    pub init_filters: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "two")]
    pub out_channels: usize,
    /// The activation.
    #[serde(default = "relu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// The norm, with learned parameters by default.
    #[serde(default = "batch")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Number of residual blocks of each level down, top first.
    #[serde(default = "blocks_down")]
    #[setters(into)]
    pub blocks_down: Vec<usize>,
    /// Number of residual blocks of each level up, lowest first; null for one each.
    #[serde(default)]
    #[setters(into)]
    pub blocks_up: Option<Vec<usize>>,
    /// Number of levels, from the top, with an output in training.
    #[serde(default = "one")]
    pub dsdepth: usize,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "deconv")]
    pub upsample_mode: UpsampleMode,
    /// Size of a voxel along each axis; null for equal sizes. Axes with larger voxels are halved at
    /// later levels, and have kernel 1 until then.
    #[serde(default)]
    #[setters(into)]
    pub resolution: Option<Vec<f64>>,
}

fn thirty_two() -> usize {
    32
}

impl Default for SegResNetDSConfig {
    fn default() -> Self {
        SegResNetDSConfig {
            spatial_dims: three_dims(),
            init_filters: thirty_two(),
            in_channels: one(),
            out_channels: two(),
            act: relu(),
            norm: batch(),
            blocks_down: blocks_down(),
            blocks_up: None,
            dsdepth: 1,
            upsample_mode: deconv(),
            resolution: None,
        }
    }
}

/// Kernel and stride of a level, per axis.
type Scale = ([usize; 3], [usize; 3]);

impl SegResNetDSConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SegResNetDS, ConfigError> {
        self.build("SegResNetDS", device, seed)
    }

    /// Builds the network with a second decoder: `SegResNetDS2`, the image encoder of VISTA3D (He
    /// et al., <https://arxiv.org/abs/2406.05285>). Both decoders start with the same weights.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init_with_second_decoder(&self, device: &Device, seed: u64) -> Result<SegResNetDS, ConfigError> {
        let first = self.build("SegResNetDS2", device, seed)?;
        // A clone would share the identity of its parameters, and therefore their gradients.
        let second = self.build("SegResNetDS2", device, seed)?;
        Ok(SegResNetDS { up_layers_auto: Some(second.up_layers), ..first })
    }

    fn build(&self, name: &'static str, device: &Device, seed: u64) -> Result<SegResNetDS, ConfigError> {
        let mut facts = Facts::new(name, self.spatial_dims, [self.in_channels, self.out_channels])?;
        let Some(halvings) = self.blocks_down.len().checked_sub(1).filter(|n| *n < 16) else {
            return Err(ConfigError::value("blocks_down", &self.blocks_down, "expected 1 to 16 levels"));
        };
        let blocks_up = self.blocks_up.clone().unwrap_or_else(|| vec![1; halvings]);
        if blocks_up.len() != halvings {
            return Err(ConfigError::value("blocks_up", blocks_up, format!("expected {halvings} numbers")));
        }
        if self.init_filters == 0 {
            return Err(ConfigError::value("init_filters", self.init_filters, "expected at least 1"));
        }
        let scales = self.scales()?;
        for (_, stride) in &scales[..halvings] {
            facts.divisor.iter_mut().zip(stride).for_each(|(d, s)| *d *= s);
        }
        let builder = Builder { act: &self.act, norm: affine_unless_told(&self.norm) };
        let scope = Scope::new(device, seed);
        let encoder = scope.enter("encoder");
        let conv = |scope: &Scope, channels: [usize; 2], (kernel, stride): Scale| {
            let shape = ConvShape { stride, padding: kernel.map(|k| k / 2), ..ConvShape::default() };
            Conv::new(scope, channels, kernel, shape, false)
        };
        let down = self.blocks_down.iter().enumerate().map(|(i, blocks)| {
            let (scope, filters) = (encoder.enter("layers").enter(&i.to_string()), self.init_filters << i);
            let down = || conv(&scope.enter("downsample"), [filters, 2 * filters], scales[i]);
            Ok(DownLevel {
                blocks: builder.blocks(&scope.enter("blocks"), *blocks, filters, scales[i].0)?,
                downsample: (i < halvings).then(down),
            })
        });
        let head = |scope: &Scope, filters: usize| {
            Conv::new(&scope.enter("head"), [filters, self.out_channels], [1; 3], ConvShape::default(), true)
        };
        let up = blocks_up.iter().enumerate().map(|(i, blocks)| {
            let level = halvings - 1 - i;
            let (scope, filters) = (scope.enter("up_layers").enter(&i.to_string()), self.init_filters << level);
            let (kernel, scale) = scales[level];
            let options = UpSampleOptions {
                scale,
                kernel: Some(kernel),
                align_corners: false,
                bias: false,
                ..UpSampleOptions::new(self.spatial_dims, [2 * filters, filters], self.upsample_mode)
            };
            Ok(UpLevel {
                upsample: Some(UpSample::new(&scope.enter("upsample"), &options)?),
                blocks: builder.blocks(&scope.enter("blocks"), *blocks, filters, kernel)?,
                head: (level < self.dsdepth).then(|| head(&scope, filters)),
            })
        });
        let mut up = up.collect::<Result<Vec<_>, ConfigError>>()?;
        if halvings == 0 {
            // Without lower levels, the features have their own head.
            let head = Some(head(&scope.enter("up_layers").enter("0"), self.init_filters));
            up.push(UpLevel { upsample: None, blocks: Named::new(Vec::new()), head });
        }
        Ok(SegResNetDS {
            encoder: Encoder {
                conv_init: conv(
                    &encoder.enter("conv_init"),
                    [self.in_channels, self.init_filters],
                    (scales[0].0, [1; 3]),
                ),
                layers: Named::numbered(down.collect::<Result<Vec<_>, ConfigError>>()?),
            },
            up_layers: Named::numbered(up),
            up_layers_auto: None,
            outputs: self.dsdepth.max(1),
            facts,
        })
    }

    /// Kernel and stride of every level (`scales_for_resolution` and `aniso_kernel` in MONAI).
    fn scales(&self) -> Result<Vec<Scale>, ConfigError> {
        let levels = self.blocks_down.len();
        let Some(resolution) = &self.resolution else {
            let dims = self.spatial_dims;
            return Ok(vec![(in_space(dims, 3), in_space(dims, 2)); levels]);
        };
        if resolution.len() != self.spatial_dims || resolution.iter().any(|r| !(r.is_finite() && *r > 0.0)) {
            let expected = format!("expected {} positive numbers", self.spatial_dims);
            return Err(ConfigError::value("resolution", resolution, expected));
        }
        let coarsest = resolution.iter().copied().fold(0.0, f64::max);
        // The number of halvings of an axis until its voxels are as large as the largest ones.
        let halvings: Vec<usize> = resolution.iter().map(|r| (coarsest / r).log2().floor() as usize).collect();
        let anisotropic = halvings.iter().copied().max().unwrap_or(0);
        Ok((0..levels)
            .map(|level| {
                let mut stride = [1; 3];
                for (axis, halvings) in halvings.iter().enumerate() {
                    stride[axis] = if level < *halvings || level >= anisotropic { 2 } else { 1 };
                }
                (stride.map(|s| if s > 1 { 3 } else { 1 }), stride)
            })
            .collect())
    }
}

/// Requests learned parameters for norms that do not have them by default.
fn affine_unless_told(spec: &Option<LayerSpec>) -> Option<LayerSpec> {
    let spec = spec.as_ref()?;
    Some(match spec {
        LayerSpec::Name(name) if name.is_empty() => spec.clone(),
        LayerSpec::Name(name) => LayerSpec::with(name, &[("affine", json!(true))]),
        LayerSpec::With(name, map) => {
            let mut map = map.clone();
            map.entry("affine").or_insert(json!(true));
            LayerSpec::With(name.clone(), map)
        }
    })
}

struct Builder<'a> {
    act: &'a Option<LayerSpec>,
    norm: Option<LayerSpec>,
}

impl Builder<'_> {
    fn blocks(
        &self,
        scope: &Scope,
        count: usize,
        channels: usize,
        kernel: [usize; 3],
    ) -> Result<Named<SegResBlock>, ConfigError> {
        let blocks = (0..count).map(|i| {
            let scope = scope.enter(&i.to_string());
            let shape = ConvShape { padding: kernel.map(|k| k / 2), ..ConvShape::default() };
            let conv = |name: &str| Conv::new(&scope.enter(name), [channels; 2], kernel, shape, false);
            Ok(SegResBlock {
                norm1: norm(&scope.enter("norm1"), &self.norm, channels)?,
                act1: act(&scope.enter("act1"), self.act)?,
                conv1: conv("conv1"),
                norm2: norm(&scope.enter("norm2"), &self.norm, channels)?,
                act2: act(&scope.enter("act2"), self.act)?,
                conv2: conv("conv2"),
            })
        });
        Ok(Named::numbered(blocks.collect::<Result<Vec<_>, ConfigError>>()?))
    }
}

/// Norm, activation and convolution, twice, with the input added.
#[derive(Module, Debug)]
struct SegResBlock {
    norm1: Option<Norm>,
    act1: Option<Act>,
    conv1: Conv,
    norm2: Option<Norm>,
    act2: Option<Act>,
    conv2: Conv,
}

impl SegResBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let out = Channels::One(norm_then_act(&self.norm1, &self.act1, x.clone()));
        residual_sum(self.conv2.forward(self.conv1.forward_with(out, &self.norm2, &self.act2)), x)
    }
}

#[derive(Module, Debug)]
struct DownLevel {
    blocks: Named<SegResBlock>,
    downsample: Option<Conv>,
}

#[derive(Module, Debug)]
struct Encoder {
    conv_init: Conv,
    layers: Named<DownLevel>,
}

#[derive(Module, Debug)]
struct UpLevel {
    upsample: Option<UpSample>,
    blocks: Named<SegResBlock>,
    head: Option<Conv>,
}

/// A residual encoder and decoder with deep supervision, based on Myronenko
/// (<https://arxiv.org/abs/1810.11654>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by the product of its
/// strides, `2^(levels - 1)` without a `resolution`. In training `forward_all` returns `dsdepth`
/// outputs, each half the size of the previous one. A `SegResNetDS2` returns those of both
/// decoders, also in evaluation.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SegResNetDSConfig};
/// let config =
///     SegResNetDSConfig { init_filters: 4, blocks_down: vec![1, 1, 1], dsdepth: 2, ..SegResNetDSConfig::default() };
/// let device = Device::default().autodiff();
/// let outputs = config.init(&device, 0)?.forward_all(Tensor::zeros([1, 1, 8, 8, 8], &device));
/// assert_eq!((outputs[0].dims(), outputs[1].dims()), ([1, 2, 8, 8, 8], [1, 2, 4, 4, 4]));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SegResNetDS {
    encoder: Encoder,
    up_layers: Named<UpLevel>,
    /// The label branch of `SegResNetDS2`, in addition to the point branch; otherwise `None`.
    up_layers_auto: Option<Named<UpLevel>>,
    #[module(skip)]
    outputs: usize,
    #[module(skip)]
    facts: Facts,
}

impl SegResNetDS {
    /// Returns the features of the lowest level, and those of the others, top first.
    fn encode(&self, x: Tensor<5>) -> (Tensor<5>, Vec<Tensor<5>>) {
        self.facts.clock.next_pass();
        let mut x = self.encoder.conv_init.forward(x);
        let mut skips = Vec::new();
        for level in self.encoder.layers.iter() {
            x = level.blocks.iter().fold(x, |x, block| block.forward(x));
            if let Some(down) = &level.downsample {
                skips.push(x.clone());
                x = down.forward(x);
            }
        }
        (x, skips)
    }

    /// Returns a decoder's outputs, largest first.
    fn decode(&self, levels: &Named<UpLevel>, mut x: Tensor<5>, mut skips: Vec<Tensor<5>>) -> Vec<Tensor<5>> {
        let mut outputs = Vec::new();
        for (i, level) in levels.iter().enumerate() {
            if let Some(up) = &level.upsample {
                x = up.forward(x);
            }
            if let Some(skip) = skips.pop() {
                x = residual_sum(x, skip);
            }
            x = level.blocks.iter().fold(x, |x, block| block.forward(x));
            if levels.len() - i <= self.outputs {
                outputs.insert(0, level.head.iter().fold(x.clone(), |x, head| head.forward(x)));
            }
        }
        outputs
    }
}

impl Network for SegResNetDS {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (x, skips) = self.encode(x);
        self.decode(&self.up_layers, x, skips).swap_remove(0)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let training = x.is_autodiff();
        let (x, skips) = self.encode(x);
        let mut outputs = self.decode(&self.up_layers, x.clone(), skips.clone());
        match &self.up_layers_auto {
            // All outputs of the first branch, then all of the second; also in evaluation.
            Some(second) => outputs.extend(self.decode(second, x, skips)),
            None if training => {}
            None => outputs.truncate(1),
        }
        outputs
    }
}

network_entry!(SegResNetDSConfig {
    name: "SegResNetDS",
    aliases: &[],
    about: "Segmentation: SegResNet with deep supervision and anisotropic levels.",
    paper: "Myronenko 2018, arXiv:1810.11654",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
blocks_down = [1, 2, 2, 4, 4]
dsdepth = 2"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
    deep_supervision: |c| c.dsdepth > 1,
});

network_entry!(SegResNetDSConfig {
    name: "SegResNetDS2",
    aliases: &[],
    about: "Segmentation: SegResNetDS with a second decoder, the image encoder of VISTA3D.",
    paper: "He et al. 2024, arXiv:2406.05285",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
init_filters = 16"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init_with_second_decoder(d, s),
});
