//! The parts of the anisotropic hybrid network, and their construction in two and three dimensions.

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::{InterpolateMode, cast};

use super::AHNetUpsample;
use crate::layers::{BatchNorm, Conv, ConvTranspose, Scope, activated_sum, in_space, max_pool, residual_sum, resize};
use crate::named::Named;

/// Number of channels that a dense layer adds.
pub(super) const GROWTH: usize = 20;
/// Width of a dense layer's first convolution, as a multiple of [`GROWTH`].
const WIDTH: usize = 4;
/// Number of layers of a dense block.
pub(super) const DENSE_LAYERS: usize = 3;

pub(super) fn norm(scope: &Scope, channels: usize) -> BatchNorm {
    BatchNorm::new(scope, channels, 1e-5, 0.1, true)
}

/// A convolution without norm, activation and bias that keeps the size.
pub(super) fn bare(scope: &Scope, channels: [usize; 2], kernel: [usize; 3]) -> Conv {
    let shape = ConvShape { padding: kernel.map(|k| k / 2), ..ConvShape::default() };
    Conv::new(scope, channels, kernel, shape, false)
}

/// A shortcut of a residual block other than the identity.
#[derive(Module, Debug)]
struct Downsample {
    conv: Conv,
    norm: BatchNorm,
    #[module(skip)]
    pool: [usize; 3],
}

/// A residual block with in-plane convolutions.
#[derive(Module, Debug)]
pub(super) struct Bottleneck {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    conv3: Conv,
    bn3: BatchNorm,
    downsample: Option<Downsample>,
    #[module(skip)]
    pool: [usize; 3],
}

impl Bottleneck {
    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let out = self.bn1.forward_relu(self.conv1.forward(x.clone()));
        let out = self.bn2.forward_relu(self.conv2.forward(out));
        let out = self.bn3.forward(self.conv3.forward(out));
        let Some(down) = &self.downsample else {
            return activated_sum(out, x, 0.0);
        };
        let shortcut = down.norm.forward(max_pool(down.conv.forward(x), down.pool, down.pool, [0; 3]));
        let same = out.dims() == shortcut.dims();
        let out = if same { out } else { max_pool(out, self.pool, self.pool, [0; 3]) };
        activated_sum(out, shortcut, 0.0)
    }
}

/// A norm, a ReLU and a convolution of kernel 1.
#[derive(Module, Debug)]
pub(super) struct Projection {
    pub(super) norm: BatchNorm,
    pub(super) conv: Conv,
}

/// A norm, a ReLU, a convolution and an upsampling by 2.
#[derive(Module, Debug)]
pub(super) struct UpTransition {
    norm: BatchNorm,
    conv: Conv,
    up: Option<ConvTranspose>,
    #[module(skip)]
    scale: [usize; 3],
    #[module(skip)]
    mode: AHNetUpsample,
}

impl UpTransition {
    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.conv.forward(self.norm.forward_relu(x));
        let [_, _, dx, dy, dz] = x.dims();
        let [sx, sy, sz] = self.scale;
        match &self.up {
            Some(up) => up.forward(x),
            None => interpolated(x, [dx * sx, dy * sy, dz * sz], self.mode),
        }
    }
}

fn interpolated(x: Tensor<5>, size: [usize; 3], mode: AHNetUpsample) -> Tensor<5> {
    match mode {
        AHNetUpsample::Nearest => resize(x, size, InterpolateMode::Nearest, false),
        _ => resize(x, size, InterpolateMode::Linear, true),
    }
}

/// A dense layer whose 3x3x3 neighbourhood is split into a plane and a line.
#[derive(Module, Debug)]
pub(super) struct Pseudo3DLayer {
    bn1: BatchNorm,
    conv1: Conv,
    bn2: BatchNorm,
    conv2: Conv,
    bn3: BatchNorm,
    conv3: Conv,
    bn4: BatchNorm,
    conv4: Conv,
}

impl Pseudo3DLayer {
    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let narrow = self.conv1.forward(self.bn1.forward_relu(x.clone()));
        let plane = self.conv2.forward(self.bn2.forward_relu(narrow));
        let line = self.conv3.forward(self.bn3.forward_relu(plane.clone()));
        let new = self.conv4.forward(self.bn4.forward_relu(residual_sum(plane, line)));
        let dtype = new.dtype();
        Tensor::cat(vec![cast(x, dtype), new], 1)
    }
}

/// Poolings of several sizes, each projected to one channel and resized back.
#[derive(Module, Debug)]
pub(super) struct Pyramid {
    up_modules: Named<ConvTranspose>,
    project_modules: Named<Conv>,
    #[module(skip)]
    sizes: Vec<[usize; 3]>,
    #[module(skip)]
    mode: AHNetUpsample,
}

impl Pyramid {
    /// Returns the pooled channels followed by `x`.
    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, dx, dy, dz] = x.dims();
        let mut ups = self.up_modules.iter();
        let projects = self.project_modules.iter().zip(&self.sizes);
        let mut parts: Vec<Tensor<5>> = projects
            .map(|(project, size)| {
                let pooled = project.forward(max_pool(x.clone(), *size, *size, [0; 3]));
                match ups.next() {
                    Some(up) => up.forward(pooled),
                    None => interpolated(pooled, [dx, dy, dz], self.mode),
                }
            })
            .collect();
        let dtype = parts.first().map_or(x.dtype(), Tensor::dtype);
        parts.push(cast(x, dtype));
        Tensor::cat(parts, 1)
    }
}

/// Kernel, stride and padding.
pub(super) type MaxPool = [[usize; 3]; 3];

/// The builder of the parts.
pub(super) struct Builder {
    pub(super) dims: usize,
    pub(super) mode: AHNetUpsample,
}

impl Builder {
    /// The last `dims` of three numbers, as in MONAI.
    pub(super) fn trailing(&self, numbers: [usize; 3], depth: usize) -> [usize; 3] {
        let [_, y, z] = numbers;
        if self.dims == 3 { numbers } else { [y, z, depth] }
    }

    pub(super) fn last(&self, numbers: [usize; 3]) -> [usize; 3] {
        self.trailing(numbers, 1)
    }

    pub(super) fn maxpool(&self) -> MaxPool {
        let two = in_space(self.dims, 2);
        match self.mode {
            AHNetUpsample::Transpose | AHNetUpsample::Nearest => [two, two, [0; 3]],
            _ => [in_space(self.dims, 3), two, two.map(|n| n / 2)],
        }
    }

    /// `blocks` residual blocks from `input` to four times `planes` channels.
    pub(super) fn layer(
        &self,
        scope: &Scope,
        [input, planes]: [usize; 2],
        blocks: usize,
        stride: usize,
    ) -> Named<Bottleneck> {
        let output = 4 * planes;
        let in_planes = [stride, stride, 1];
        let kernel = self.last([3, 3, 1]);
        let block = |i: usize| {
            let scope = scope.enter(&i.to_string());
            let input = if i == 0 { input } else { output };
            let stride_here = if i == 0 { in_planes } else { [1; 3] };
            let padding = self.trailing([1, 1, 0], 0);
            let shape = ConvShape { stride: stride_here, padding, ..ConvShape::default() };
            let downsample = || {
                let scope = scope.enter("downsample");
                let shape = ConvShape { stride: in_planes, ..ConvShape::default() };
                Downsample {
                    conv: Conv::new(&scope.enter("0"), [input, output], [1; 3], shape, false),
                    norm: norm(&scope.enter("2"), output),
                    pool: if self.dims == 3 { [1, 1, stride] } else { [1; 3] },
                }
            };
            Bottleneck {
                conv1: bare(&scope.enter("conv1"), [input, planes], [1; 3]),
                bn1: norm(&scope.enter("bn1"), planes),
                conv2: Conv::new(&scope.enter("conv2"), [planes; 2], kernel, shape, false),
                bn2: norm(&scope.enter("bn2"), planes),
                conv3: bare(&scope.enter("conv3"), [planes, output], [1; 3]),
                bn3: norm(&scope.enter("bn3"), output),
                downsample: (i == 0 && (stride != 1 || input != output)).then(downsample),
                pool: self.last([1, 1, 2]),
            }
        };
        Named::numbered((0..blocks).map(block))
    }

    pub(super) fn up(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        kernel: [usize; 3],
        padding: [usize; 3],
    ) -> UpTransition {
        let [input, output] = channels;
        let shape = ConvShape { padding, ..ConvShape::default() };
        let scale = in_space(self.dims, 2);
        let transposed = || {
            let shape = ConvShape { stride: scale, ..ConvShape::default() };
            ConvTranspose::new(&scope.enter("up"), [output; 2], scale, shape, [0; 3], false)
        };
        UpTransition {
            norm: norm(&scope.enter("norm"), input),
            conv: Conv::new(&scope.enter("conv"), channels, kernel, shape, false),
            up: (self.mode == AHNetUpsample::Transpose).then(transposed),
            scale,
            mode: self.mode,
        }
    }

    pub(super) fn dense(&self, scope: &Scope, input: usize) -> Named<Pseudo3DLayer> {
        let layer = |i: usize| {
            let name = format!("denselayer{}", i + 1);
            let scope = scope.enter(&name);
            let input = input + i * GROWTH;
            let conv = |name: &str, channels: [usize; 2], kernel: [usize; 3], padding: [usize; 3]| {
                let shape = ConvShape { padding: self.trailing(padding, 0), ..ConvShape::default() };
                Conv::new(&scope.enter(name), channels, self.last(kernel), shape, false)
            };
            let layer = Pseudo3DLayer {
                bn1: norm(&scope.enter("bn1"), input),
                conv1: conv("conv1", [input, WIDTH * GROWTH], [1; 3], [0; 3]),
                bn2: norm(&scope.enter("bn2"), WIDTH * GROWTH),
                conv2: conv("conv2", [WIDTH * GROWTH, GROWTH], [3, 3, 1], [1, 1, 0]),
                bn3: norm(&scope.enter("bn3"), GROWTH),
                conv3: conv("conv3", [GROWTH; 2], [1, 1, 3], [0, 0, 1]),
                bn4: norm(&scope.enter("bn4"), GROWTH),
                conv4: conv("conv4", [GROWTH; 2], [1; 3], [0; 3]),
            };
            (name, layer)
        };
        Named::new((0..DENSE_LAYERS).map(layer).collect())
    }

    pub(super) fn pyramid(&self, scope: &Scope, blocks: usize, channels: usize) -> Pyramid {
        let sizes: Vec<[usize; 3]> = (0..blocks).map(|i| self.last([8 << i, 8 << i, 1])).collect();
        let project = |i: usize| {
            let scope = scope.enter("project_modules").enter(&i.to_string());
            // A border of one voxel, which the transposed convolution removes.
            let shape = ConvShape { padding: self.trailing([1, 1, 0], 0), ..ConvShape::default() };
            Conv::new(&scope, [channels, 1], [1; 3], shape, true)
        };
        let up = |i: usize| {
            let scope = scope.enter("up_modules").enter(&i.to_string());
            let padding = self.trailing([8 << i, 8 << i, 0], 0);
            let shape = ConvShape { stride: sizes[i], padding, ..ConvShape::default() };
            ConvTranspose::new(&scope, [1, 1], sizes[i], shape, [0; 3], true)
        };
        let transposed = if self.mode == AHNetUpsample::Transpose { blocks } else { 0 };
        Pyramid {
            up_modules: Named::numbered((0..transposed).map(up)),
            project_modules: Named::numbered((0..blocks).map(project)),
            mode: self.mode,
            sizes,
        }
    }
}
