//! The two residual blocks of ResNet (`ResNetBlock`, `ResNetBottleneck`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::pool3d::{Divisor, PoolShape, avg_pool3d};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layers::{ConfigError, Conv, Layer, Norm, Scope, Sequential, activated_sum, per_axis};

/// The kind of residual block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResNetBlockKind {
    /// A block of two convolutions of kernel 3.
    Basic,
    /// A block of kernels 1, 3 and 1, with four times as many output channels.
    Bottleneck,
}

impl ResNetBlockKind {
    /// Number of output channels per channel of `planes`.
    pub(super) fn expansion(self) -> usize {
        match self {
            ResNetBlockKind::Basic => 1,
            ResNetBlockKind::Bottleneck => 4,
        }
    }
}

/// The shortcut if size or channels change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShortcutType {
    /// Every second value, with additional channels of zeros; no gradient.
    A,
    /// A convolution of kernel 1 and a norm.
    #[default]
    B,
}

/// Options of [`ResNetBlock`].
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOptions {
    pub spatial_dims: usize,
    pub kind: ResNetBlockKind,
    pub inplanes: usize,
    pub planes: usize,
    pub stride: usize,
    pub shortcut: ShortcutType,
    pub bias_downsample: bool,
    /// Number of groups of a bottleneck's middle convolution, and its width per group at 64 planes
    /// (ResNeXt, wide ResNet).
    pub groups: usize,
    pub base_width: usize,
}

/// A shortcut other than the identity.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few of them, and modules cannot be boxed")]
enum Downsample {
    Pad(PadChannels),
    Projection(Sequential),
}

/// Shortcut `A`.
#[derive(Module, Debug)]
struct PadChannels {
    #[module(skip)]
    stride: [usize; 3],
    #[module(skip)]
    channels: usize,
}

impl Downsample {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Downsample::Projection(layers) => layers.forward(x),
            Downsample::Pad(PadChannels { stride, channels }) => {
                // MONAI detaches the values from the graph, so that the shortcut has no gradient.
                let shape = PoolShape { stride: *stride, ..PoolShape::new([1; 3]) };
                let x = avg_pool3d(x.detach(), shape, Divisor::Window);
                let [b, present, dx, dy, dz] = x.dims();
                let zeros = Tensor::<5>::zeros([b, channels - present, dx, dy, dz], &x.device()).cast(x.dtype());
                Tensor::cat(vec![x, zeros], 1)
            }
        }
    }
}

/// A residual block (He et al., <https://arxiv.org/abs/1512.03385>): convolutions with batch norm
/// and ReLU, and a shortcut.
#[derive(Module, Debug)]
pub struct ResNetBlock {
    conv1: Conv,
    bn1: Norm,
    conv2: Conv,
    bn2: Norm,
    conv3: Option<Conv>,
    bn3: Option<Norm>,
    downsample: Option<Downsample>,
}

impl ResNetBlock {
    pub(super) fn new(scope: &Scope, options: &BlockOptions) -> Result<Self, ConfigError> {
        let BlockOptions { spatial_dims, kind, inplanes, planes, stride, shortcut, groups, base_width, .. } = *options;
        let output = planes * kind.expansion();
        let conv = |name: &str, channels, [kernel, stride, groups]: [usize; 3], bias| {
            let shape = ConvShape {
                stride: per_axis(spatial_dims, stride, 1),
                padding: per_axis(spatial_dims, kernel / 2, 0),
                groups,
                ..ConvShape::default()
            };
            Conv::new(&scope.enter(name), channels, per_axis(spatial_dims, kernel, 1), shape, bias)
        };
        // The blocks always use batch norm, independent of the first norm, as in MONAI.
        let norm = |name: &str, channels| Norm::new(&scope.enter(name), &"batch".into(), channels);
        let downsample = if stride == 1 && inplanes == output {
            None
        } else if shortcut == ShortcutType::A {
            if inplanes > output {
                let expected = format!("with shortcut A it may not be below the {inplanes} channels before");
                return Err(ConfigError::value("block_inplanes", output, expected));
            }
            Some(Downsample::Pad(PadChannels { stride: per_axis(spatial_dims, stride, 1), channels: output }))
        } else {
            let conv = conv("downsample.0", [inplanes, output], [1, stride, 1], options.bias_downsample);
            Some(Downsample::Projection(Sequential::new(vec![
                ("0".to_owned(), Layer::Conv(conv)),
                ("1".to_owned(), Layer::Norm(norm("downsample.1", output)?)),
            ])))
        };
        let block = match kind {
            ResNetBlockKind::Basic => ResNetBlock {
                conv1: conv("conv1", [inplanes, planes], [3, stride, 1], false),
                bn1: norm("bn1", planes)?,
                conv2: conv("conv2", [planes; 2], [3, 1, 1], false),
                bn2: norm("bn2", planes)?,
                conv3: None,
                bn3: None,
                downsample,
            },
            ResNetBlockKind::Bottleneck => {
                let width = planes * base_width / 64 * groups;
                ResNetBlock {
                    conv1: conv("conv1", [inplanes, width], [1, 1, 1], false),
                    bn1: norm("bn1", width)?,
                    conv2: conv("conv2", [width; 2], [3, stride, groups], false),
                    bn2: norm("bn2", width)?,
                    conv3: Some(conv("conv3", [width, output], [1, 1, 1], false)),
                    bn3: Some(norm("bn3", output)?),
                    downsample,
                }
            }
        };
        Ok(block)
    }

    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let y = self.bn1.forward_relu(self.conv1.forward(x.clone()));
        let y = self.conv2.forward(y);
        let y = match (&self.conv3, &self.bn3) {
            (Some(conv), Some(norm)) => norm.forward(conv.forward(self.bn2.forward_relu(y))),
            _ => self.bn2.forward(y),
        };
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.forward(x),
            None => x,
        };
        activated_sum(y, shortcut, 0.0)
    }
}
