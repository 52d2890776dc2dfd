//! The cells of DiNTS: a change of resolution, and a sum of operations
//! (`monai.networks.nets.dints.Cell`, `monai.networks.blocks.dints_block`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::ConvShape;

use crate::layers::{
    Act, ConfigError, Conv, Layer, LayerSpec, Norm, Scope, Sequential, UpSample, UpSampleOptions, UpsampleMode,
    in_space, residual_sum,
};
use crate::named::Named;

/// Number of operations that a 3-D cell chooses from: the identity, a convolution of kernel 3, and
/// three that split it into an in-plane and a perpendicular convolution.
const OPERATIONS_3D: usize = 5;
/// Number of operations that a 2-D cell chooses from: the identity and a convolution of kernel 3.
const OPERATIONS_2D: usize = 2;

/// The options that all blocks of a network share.
#[derive(Clone, Debug)]
pub(super) struct CellOptions {
    pub spatial_dims: usize,
    pub act: LayerSpec,
    pub norm: LayerSpec,
}

impl CellOptions {
    /// The number of operations that a cell chooses from.
    pub fn operations(&self) -> usize {
        if self.spatial_dims == 3 { OPERATIONS_3D } else { OPERATIONS_2D }
    }

    /// A convolution without bias that keeps the size.
    pub fn conv(&self, scope: &Scope, channels: [usize; 2], kernel: [usize; 3], stride: usize) -> Layer {
        let shape = ConvShape {
            stride: in_space(self.spatial_dims, stride),
            padding: kernel.map(|length| length / 2),
            ..ConvShape::default()
        };
        Layer::Conv(Conv::new(scope, channels, kernel, shape, false))
    }

    pub fn act(&self, scope: &Scope) -> Result<Layer, ConfigError> {
        Act::new(scope, &self.act).map(Layer::Act)
    }

    pub fn norm(&self, scope: &Scope, channels: usize) -> Result<Layer, ConfigError> {
        Norm::new(scope, &self.norm, channels).map(Layer::Norm)
    }

    /// Upsampling by 2 with the centres of the corner voxels aligned.
    pub fn twice(&self, scope: &Scope, channels: usize) -> Result<Layer, ConfigError> {
        let options = UpSampleOptions {
            interpolation: InterpolateMode::Linear,
            align_corners: true,
            ..UpSampleOptions::new(self.spatial_dims, [channels; 2], UpsampleMode::NonTrainable)
        };
        UpSample::new(scope, &options).map(Layer::UpSample)
    }

    /// `ActiConvNormBlock`
    pub fn act_conv_norm(&self, scope: &Scope, channels: [usize; 2], kernel: usize) -> Result<Sequential, ConfigError> {
        let kernel = in_space(self.spatial_dims, kernel);
        let named = |name: &str, layer| (name.to_owned(), layer);
        Ok(Named::new(vec![
            named("acti", self.act(&scope.enter("acti"))?),
            named("conv", self.conv(&scope.enter("conv"), channels, kernel, 1)),
            named("norm", self.norm(&scope.enter("norm"), channels[1])?),
        ]))
    }

    /// `P3DActiConvNormBlock`: a kernel of 3 along all axes but one, followed by one of 3 along
    /// that axis.
    fn split(&self, scope: &Scope, channels: usize, across: usize) -> Result<Sequential, ConfigError> {
        let (mut plane, mut line) = ([3; 3], [1; 3]);
        (plane[across], line[across]) = (1, 3);
        let named = |name: &str, layer| (name.to_owned(), layer);
        Ok(Named::new(vec![
            named("acti", self.act(&scope.enter("acti"))?),
            named("conv", self.conv(&scope.enter("conv"), [channels; 2], plane, 1)),
            named("conv_1", self.conv(&scope.enter("conv_1"), [channels; 2], line, 1)),
            named("norm", self.norm(&scope.enter("norm"), channels)?),
        ]))
    }

    /// `FactorizedIncreaseBlock`
    fn increase(&self, scope: &Scope, channels: [usize; 2]) -> Result<Sequential, ConfigError> {
        let named = |name: &str, layer| (name.to_owned(), layer);
        Ok(Named::new(vec![
            named("up", self.twice(&scope.enter("up"), channels[0])?),
            named("acti", self.act(&scope.enter("acti"))?),
            named("conv", self.conv(&scope.enter("conv"), channels, [1; 3], 1)),
            named("norm", self.norm(&scope.enter("norm"), channels[1])?),
        ]))
    }

    /// Builds the operation of this number.
    fn operation(&self, scope: &Scope, number: usize, channels: usize) -> Result<Sequential, ConfigError> {
        match number {
            0 => Ok(Named::new(Vec::new())),
            1 => self.act_conv_norm(scope, [channels; 2], 3),
            number => self.split(scope, channels, OPERATIONS_3D - 1 - number.min(OPERATIONS_3D - 1)),
        }
    }
}

/// Downsampling by 2 with two convolutions, one of which starts at the second voxel
/// (`FactorizedReduceBlock`).
#[derive(Module, Debug)]
pub(super) struct FactorizedReduce {
    act: Act,
    conv_1: Conv,
    conv_2: Conv,
    norm: Norm,
    #[module(skip)]
    spatial_dims: usize,
}

impl FactorizedReduce {
    fn new(scope: &Scope, options: &CellOptions, [input, output]: [usize; 2]) -> Result<Self, ConfigError> {
        let shape = ConvShape { stride: in_space(options.spatial_dims, 2), ..ConvShape::default() };
        let conv = |name: &str, output| Conv::new(&scope.enter(name), [input, output], [1; 3], shape, false);
        Ok(FactorizedReduce {
            act: Act::new(&scope.enter("act"), &options.act)?,
            conv_1: conv("conv_1", output / 2),
            conv_2: conv("conv_2", output - output / 2),
            norm: Norm::new(&scope.enter("norm"), &options.norm, output)?,
            spatial_dims: options.spatial_dims,
        })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.act.forward(x);
        let dims = x.dims();
        let shifted =
            (2..2 + self.spatial_dims).fold(x.clone(), |x, axis| x.narrow(axis, 1, dims[axis].saturating_sub(1)));
        let halves = vec![self.conv_1.forward(x), self.conv_2.forward(shifted)];
        self.norm.forward(Tensor::cat(halves, 1))
    }
}

/// The layers that convert the input of a cell to its resolution and number of channels.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Preprocess {
    Layers(Sequential),
    Reduce(FactorizedReduce),
}

/// A sum of operations.
#[derive(Module, Debug)]
struct MixedOp {
    ops: Named<Sequential>,
}

/// A path of the network.
#[derive(Module, Debug)]
pub(super) struct Cell {
    preprocess: Option<Preprocess>,
    op: MixedOp,
}

/// The change of resolution along a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// Half the size.
    Down,
    /// The same size.
    Keep,
    /// Twice the size.
    Up,
}

impl Cell {
    /// Builds the cell. `operations` are the numbers of the operations to add.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        options: &CellOptions,
        channels: [usize; 2],
        rate: Rate,
        operations: &[usize],
    ) -> Result<Self, ConfigError> {
        let inner = scope.enter("preprocess");
        let preprocess = match rate {
            Rate::Down => Some(Preprocess::Reduce(FactorizedReduce::new(&inner, options, channels)?)),
            Rate::Up => Some(Preprocess::Layers(options.increase(&inner, channels)?)),
            Rate::Keep if channels[0] == channels[1] => None,
            Rate::Keep => Some(Preprocess::Layers(options.act_conv_norm(&inner, channels, 1)?)),
        };
        let inner = scope.enter("op").enter("ops");
        let ops = operations.iter().enumerate();
        let ops = ops.map(|(i, number)| options.operation(&inner.enter(&i.to_string()), *number, channels[1]));
        Ok(Cell { preprocess, op: MixedOp { ops: Named::numbered(ops.collect::<Result<Vec<_>, _>>()?) } })
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = match &self.preprocess {
            None => x,
            Some(Preprocess::Layers(layers)) => layers.forward(x),
            Some(Preprocess::Reduce(reduce)) => reduce.forward(x),
        };
        let mut results = self.op.ops.iter().map(|op| op.forward(x.clone()));
        let first = results.next().unwrap_or_else(|| x.zeros_like());
        results.fold(first, residual_sum)
    }
}
