//! Upsampling by a whole factor (`monai.networks.blocks.UpSample`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::{InterpolateMode, interpolate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::in_space;
use super::{ConfigError, Conv, ConvTranspose, Init, Scope};
use crate::cost;
use crate::trace::{self, Op};

/// The upsampling method of an [`UpSample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UpsampleMode {
    /// A transposed convolution.
    Deconv,
    /// A transposed convolution with one group per output channel.
    DeconvGroup,
    /// Interpolation, after a convolution of kernel 1 if the number of channels changes.
    NonTrainable,
    /// A convolution whose channels become voxels (Shi et al., <https://arxiv.org/abs/1609.05158>),
    /// then a mean that removes the checkerboard pattern (Aitken et al.,
    /// <https://arxiv.org/abs/1707.02937>).
    PixelShuffle,
}

/// Options of an [`UpSample`].
#[derive(Clone, Debug)]
pub struct UpSampleOptions {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Input and output channels.
    pub channels: [usize; 2],
    /// Factor per axis. A pixel shuffle uses the first for all axes.
    pub scale: [usize; 3],
    /// Kernel of a transposed convolution; `None` for the factor.
    pub kernel: Option<[usize; 3]>,
    /// The upsampling method.
    pub mode: UpsampleMode,
    /// Interpolation of [`UpsampleMode::NonTrainable`].
    pub interpolation: InterpolateMode,
    /// Whether interpolation aligns the centres of the corner voxels instead of their outer corners.
    pub align_corners: bool,
    /// Whether convolutions have a bias.
    pub bias: bool,
}

impl UpSampleOptions {
    /// Options with factor 2 and MONAI's defaults.
    pub fn new(spatial_dims: usize, channels: [usize; 2], mode: UpsampleMode) -> Self {
        let scale = in_space(spatial_dims, 2);
        UpSampleOptions {
            spatial_dims,
            channels,
            scale,
            kernel: None,
            mode,
            interpolation: InterpolateMode::Linear,
            align_corners: true,
            bias: true,
        }
    }
}

/// A transposed convolution, under its MONAI name.
#[derive(Module, Debug)]
pub struct Deconv {
    /// The convolution.
    pub deconv: ConvTranspose,
}

/// A grouped transposed convolution, under its MONAI name.
#[derive(Module, Debug)]
pub struct DeconvGroup {
    /// The convolution.
    pub deconvgroup: ConvTranspose,
}

/// Interpolation.
#[derive(Module, Debug)]
pub struct NonTrainable {
    /// A convolution before the interpolation, if the number of channels changes.
    pub preconv: Option<Conv>,
    #[module(skip)]
    scale: [usize; 3],
    #[module(skip)]
    interpolation: InterpolateMode,
    #[module(skip)]
    align_corners: bool,
}

/// A [`SubpixelUpsample`], under its MONAI name.
#[derive(Module, Debug)]
pub struct PixelShuffle {
    /// The layer.
    pub pixelshuffle: SubpixelUpsample,
}

/// `monai.networks.blocks.SubpixelUpsample`
#[derive(Module, Debug)]
pub struct SubpixelUpsample {
    /// The convolution that computes one channel for every new voxel per old voxel.
    pub conv_block: Conv,
    #[module(skip)]
    factor: [usize; 3],
}

/// An upsampling layer with a whole factor.
#[derive(Module, Debug)]
pub enum UpSample {
    /// `deconv`
    Deconv(Deconv),
    /// `deconvgroup`
    DeconvGroup(DeconvGroup),
    /// `nontrainable`
    NonTrainable(NonTrainable),
    /// `pixelshuffle`
    PixelShuffle(PixelShuffle),
}

impl UpSample {
    /// Builds the layer.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &UpSampleOptions) -> Result<Self, ConfigError> {
        let UpSampleOptions { spatial_dims, channels, scale, bias, .. } = options;
        let [input, output] = *channels;
        if channels.contains(&0) || scale.contains(&0) {
            let expected =
                format!("`{}` needs at least one channel on both sides and a factor of at least 1", scope.path());
            return Err(ConfigError::value("upsampling channels and factor", (channels, scale), expected));
        }
        Ok(match options.mode {
            UpsampleMode::Deconv => {
                UpSample::Deconv(Deconv { deconv: transposed(&scope.enter("deconv"), options, 1)? })
            }
            UpsampleMode::DeconvGroup => {
                let groups = if output > 0 && input.is_multiple_of(output) { output } else { 1 };
                let deconvgroup = transposed(&scope.enter("deconvgroup"), options, groups)?;
                UpSample::DeconvGroup(DeconvGroup { deconvgroup })
            }
            UpsampleMode::NonTrainable => {
                let scope = scope.enter("preconv");
                let conv = || Conv::new(&scope, *channels, [1; 3], ConvShape::default(), *bias);
                let preconv = (input != output).then(conv);
                let UpSampleOptions { interpolation, align_corners, .. } = *options;
                UpSample::NonTrainable(NonTrainable { preconv, scale: *scale, interpolation, align_corners })
            }
            UpsampleMode::PixelShuffle => {
                let factor = in_space(*spatial_dims, scale[0]);
                let copies = factor.iter().product::<usize>();
                let scope = scope.enter("pixelshuffle").enter("conv_block").with_init(Init::Icnr(copies));
                let kernel = in_space(*spatial_dims, 3);
                let shape = ConvShape { padding: kernel.map(|k| k / 2), ..ConvShape::default() };
                let conv_block = Conv::new(&scope, [input, output * copies], kernel, shape, *bias);
                UpSample::PixelShuffle(PixelShuffle { pixelshuffle: SubpixelUpsample { conv_block, factor } })
            }
        })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x scale, ...]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            UpSample::Deconv(layer) => layer.deconv.forward(x),
            UpSample::DeconvGroup(layer) => layer.deconvgroup.forward(x),
            UpSample::NonTrainable(layer) => {
                let x = match &layer.preconv {
                    Some(conv) => conv.forward(x),
                    None => x,
                };
                let [_, _, dx, dy, dz] = x.dims();
                let [sx, sy, sz] = layer.scale;
                resize(x, [dx * sx, dy * sy, dz * sz], layer.interpolation, layer.align_corners)
            }
            UpSample::PixelShuffle(layer) => layer.pixelshuffle.forward(x),
        }
    }
}

fn transposed(scope: &Scope, options: &UpSampleOptions, groups: usize) -> Result<ConvTranspose, ConfigError> {
    let UpSampleOptions { channels, scale, kernel, bias, .. } = options;
    let Some(kernel) = *kernel else {
        let shape = ConvShape { stride: *scale, groups, ..ConvShape::default() };
        return Ok(ConvTranspose::new(scope, *channels, *scale, shape, [0; 3], *bias));
    };
    let mut output_padding = [0; 3];
    for axis in 0..3 {
        let even = usize::from(kernel[axis] % 2 == 0);
        output_padding[axis] = scale[axis].checked_sub(1 + even).ok_or_else(|| {
            ConfigError::value("kernel_size", kernel, format!("an axis with factor {} needs an odd one", scale[axis]))
        })?;
    }
    let padding = kernel.map(|k| k.saturating_sub(1) / 2);
    let shape = ConvShape { stride: *scale, padding, groups, ..ConvShape::default() };
    Ok(ConvTranspose::new(scope, *channels, kernel, shape, output_padding, *bias))
}

impl SubpixelUpsample {
    /// Maps `[b, in, x, y, z]` to `[b, out, x f, y f, z f]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.conv_block.forward(x);
        let [b, c, dx, dy, dz] = x.dims();
        let [fx, fy, fz] = self.factor;
        let c = c / (fx * fy * fz);
        let shuffled: Tensor<8> = x.reshape([b, c, fx, fy, fz, dx, dy, dz]).permute([0, 1, 5, 2, 6, 3, 7, 4]);
        let x = shuffled.reshape([b, c, dx * fx, dy * fy, dz * fz]);
        (0..3).fold(x, |x, axis| trailing_mean(x, axis + 2, self.factor[axis]))
    }
}

/// The mean of each voxel and the `window - 1` voxels before it on one axis, with zeros before the
/// first.
fn trailing_mean(x: Tensor<5>, axis: usize, window: usize) -> Tensor<5> {
    if window == 1 {
        return x;
    }
    let n = x.dims()[axis];
    let mut before = x.dims();
    before[axis] = window - 1;
    let zeros = Tensor::<5>::zeros(before, &x.device()).cast(x.dtype());
    let padded = Tensor::cat(vec![zeros, x.clone()], axis);
    let sum = (0..window - 1).fold(x, |sum, shift| sum + padded.clone().narrow(axis, shift, n));
    sum / window as f64
}

/// Resizes `[b, c, x, y, z]` to a size (`torch.nn.functional.interpolate`).
pub(crate) fn resize(x: Tensor<5>, size: [usize; 3], mode: InterpolateMode, align_corners: bool) -> Tensor<5> {
    let [b, c, dx, dy, dz] = x.dims();
    let [x_size, y_size, z_size] = size;
    let (from, linear) = ([dx, dy, dz], mode == InterpolateMode::Linear);
    let taken = trace::inputs([&x]);
    let y = interpolate(x.reshape([b * c, dx, dy, dz]), size, mode, align_corners);
    let op = || match (0..3).all(|axis| size[axis].is_multiple_of(from[axis])) {
        true if linear => Op::Resize { factors: std::array::from_fn(|axis| size[axis] / from[axis]), align_corners },
        _ => Op::Unsupported {
            what: "only linear interpolation to a whole multiple of the size is supported".to_owned(),
        },
    };
    trace::note(taken, "", op, cost::output(None, y.reshape([b, c, x_size, y_size, z_size])))
}
