//! The convolutions of [`AutoencoderKL`](super::AutoencoderKL) and
//! [`DiffusionModelUNet`](super::DiffusionModelUNet).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::InterpolateMode;

use crate::blocks::SpatialAttentionBlock;
use crate::layers::{
    ConfigError, Convolution, ConvolutionOptions, GroupNorm, Scope, UpSample, in_space, resize, swish,
};

/// The options that all blocks of a network share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub spatial_dims: usize,
    /// Number of groups of the norms.
    pub groups: usize,
    /// Epsilon of norms.
    pub eps: f64,
}

impl Common {
    /// A convolution without norm and activation that keeps the size.
    pub fn conv(&self, scope: &Scope, channels: [usize; 2], kernel: usize) -> Result<Convolution, ConfigError> {
        Convolution::new(scope, &ConvolutionOptions::new(channels, in_space(self.spatial_dims, kernel)))
    }

    pub fn norm(&self, scope: &Scope, channels: usize) -> Result<GroupNorm, ConfigError> {
        GroupNorm::new(scope, self.groups, channels, self.eps, true)
    }

    /// A convolution of kernel 3 and stride 2 with this padding.
    pub fn halving(&self, scope: &Scope, channels: usize, padding: usize) -> Result<Convolution, ConfigError> {
        let dims = self.spatial_dims;
        let ends = [padding, padding, if dims == 3 { padding } else { 0 }];
        let options = ConvolutionOptions::new([channels; 2], in_space(dims, 3));
        Convolution::new(scope, &ConvolutionOptions { stride: in_space(dims, 2), padding: Some(ends), ..options })
    }
}

/// Norm, Swish and convolution, twice, with the input added (`AEKLResBlock`).
#[derive(Module, Debug)]
pub(super) struct ResBlock {
    norm1: GroupNorm,
    conv1: Convolution,
    norm2: GroupNorm,
    conv2: Convolution,
    nin_shortcut: Option<Convolution>,
}

impl ResBlock {
    pub fn new(scope: &Scope, common: &Common, channels: [usize; 2]) -> Result<Self, ConfigError> {
        let [input, output] = channels;
        let shortcut = (input != output).then(|| common.conv(&scope.enter("nin_shortcut"), channels, 1));
        Ok(ResBlock {
            norm1: common.norm(&scope.enter("norm1"), input)?,
            conv1: common.conv(&scope.enter("conv1"), channels, 3)?,
            norm2: common.norm(&scope.enter("norm2"), output)?,
            conv2: common.conv(&scope.enter("conv2"), [output; 2], 3)?,
            nin_shortcut: shortcut.transpose()?,
        })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let shortcut = match &self.nin_shortcut {
            Some(conv) => conv.forward(x.clone()),
            None => x.clone(),
        };
        let h = self.conv1.forward(swish(self.norm1.forward(x)));
        self.conv2.forward_with_shortcut(swish(self.norm2.forward(h)), Some(shortcut))
    }
}

/// Downsampling by 2: one voxel of zero padding at the far ends, and a convolution of stride 2
/// (`AEKLDownsample`).
#[derive(Module, Debug)]
pub(super) struct Downsample {
    conv: Convolution,
    #[module(skip)]
    spatial_dims: usize,
}

impl Downsample {
    pub fn new(scope: &Scope, common: &Common, channels: usize) -> Result<Self, ConfigError> {
        let conv = common.halving(&scope.enter("conv"), channels, 0)?;
        Ok(Downsample { conv, spatial_dims: common.spatial_dims })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let third = (0, usize::from(self.spatial_dims == 3));
        self.conv.forward(x.pad([(0, 0), (0, 0), (0, 1), (0, 1), third], 0.0))
    }
}

/// Upsampling by 2 with the nearest voxel.
pub(super) fn doubled(x: Tensor<5>, spatial_dims: usize) -> Tensor<5> {
    let [_, _, dx, dy, dz] = x.dims();
    let [fx, fy, fz] = in_space(spatial_dims, 2);
    resize(x, [dx * fx, dy * fy, dz * fz], InterpolateMode::Nearest, false)
}

/// Upsampling by 2, and a convolution.
#[derive(Module, Debug)]
pub(super) struct Upsample {
    postconv: Convolution,
    #[module(skip)]
    spatial_dims: usize,
}

impl Upsample {
    pub fn new(scope: &Scope, common: &Common, channels: usize) -> Result<Self, ConfigError> {
        let postconv = common.conv(&scope.enter("postconv"), [channels; 2], 3)?;
        Ok(Upsample { postconv, spatial_dims: common.spatial_dims })
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.postconv.forward(doubled(x, self.spatial_dims))
    }
}

/// An entry of an encoder's or a decoder's list.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few dozen of them, and modules cannot be boxed")]
pub(super) enum Block {
    Conv(Convolution),
    Res(ResBlock),
    Attention(SpatialAttentionBlock),
    Down(Downsample),
    Up(Upsample),
    Deconv(UpSample),
    Norm(GroupNorm),
}

impl Block {
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Block::Conv(conv) => conv.forward(x),
            Block::Res(block) => block.forward(x),
            Block::Attention(block) => block.forward(x),
            Block::Down(block) => block.forward(x),
            Block::Up(block) => block.forward(x),
            Block::Deconv(block) => block.forward(x),
            Block::Norm(norm) => norm.forward(x),
        }
    }
}
