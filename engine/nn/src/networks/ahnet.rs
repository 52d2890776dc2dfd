//! The anisotropic hybrid network of `monai.networks.nets.AHNet`.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::ConvShape;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{one, three_dims};
use super::facts::{Facts, by_facts};
use crate::layers::{BatchNorm, ConfigError, Conv, ConvTranspose, Init, Scope, in_space, max_pool, resize};
use crate::named::Named;

/// Channels that a dense layer adds.
const GROWTH: usize = 20;
/// Width of a dense layer's first convolution, times [`GROWTH`].
const WIDTH: usize = 4;
/// Layers of a dense block.
const DENSE_LAYERS: usize = 3;

/// How an [`AHNet`] brings features to the next size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AHNetUpsample {
    /// Transposed convolutions.
    #[default]
    Transpose,
    /// Bilinear interpolation (2-D), corners aligned.
    Bilinear,
    /// Trilinear interpolation (3-D), corners aligned.
    Trilinear,
    /// The nearest voxel.
    Nearest,
}

/// How to build an [`AHNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AHNetConfig {
    /// Residual blocks of the four encoder levels.
    #[serde(default = "layers")]
    pub layers: Vec<usize>,
    /// 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Channels of the output, one per class.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// Poolings of the pyramid before the output, 0 to 4.
    #[serde(default = "four")]
    pub psp_block_num: usize,
    /// How features are brought to the next size.
    #[serde(default)]
    pub upsample_mode: AHNetUpsample,
}

fn layers() -> Vec<usize> {
    vec![3, 4, 6, 3]
}

fn four() -> usize {
    4
}

impl Default for AHNetConfig {
    fn default() -> Self {
        AHNetConfig {
            layers: layers(),
            spatial_dims: three_dims(),
            in_channels: one(),
            out_channels: one(),
            psp_block_num: four(),
            upsample_mode: AHNetUpsample::Transpose,
        }
    }
}

impl AHNetConfig {
    /// Builds the network with weights drawn from `seed`.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AHNet, ConfigError> {
        let facts = self.facts()?;
        let [n1, n2, n3, n4] = self.layers[..] else {
            return Err(ConfigError::value("layers", &self.layers, "expected four numbers"));
        };
        if self.layers.contains(&0) {
            return Err(ConfigError::value("layers", &self.layers, "expected at least 1 each"));
        }
        let root = Scope::new(device, seed).with_init(Init::InPlane);
        let scope = |name: &str| root.enter(name);
        let builder = Builder { dims: self.spatial_dims, mode: self.upsample_mode };
        let dense = DENSE_LAYERS * GROWTH;
        let shape = ConvShape {
            stride: builder.last([2, 2, 1]),
            padding: builder.trailing([3, 3, 1], 0),
            ..ConvShape::default()
        };
        let blocks = self.psp_block_num;
        Ok(AHNet {
            conv1: Conv::new(&scope("conv1"), [self.in_channels, 64], builder.last([7, 7, 3]), shape, false),
            bn0: norm(&scope("bn0"), 64),
            layer1: builder.layer(&scope("layer1"), [64, 64], n1, 1),
            layer2: builder.layer(&scope("layer2"), [256, 128], n2, 2),
            layer3: builder.layer(&scope("layer3"), [512, 256], n3, 2),
            layer4: builder.layer(&scope("layer4"), [1024, 512], n4, 2),
            up0: builder.up(&scope("up0"), [2048, 1024], [1; 3], [0; 3]),
            dense0: builder.dense(&scope("dense0"), 1024),
            up1: builder.up(&scope("up1"), [1024 + dense, 512], [1; 3], [0; 3]),
            dense1: builder.dense(&scope("dense1"), 512),
            up2: builder.up(&scope("up2"), [512 + dense, 256], [1; 3], [0; 3]),
            dense2: builder.dense(&scope("dense2"), 256),
            trans1: Projection {
                norm: norm(&scope("trans1").enter("norm"), 256 + dense),
                conv: bare(&scope("trans1").enter("conv"), [256 + dense, 64], [1; 3]),
            },
            dense3: builder.dense(&scope("dense3"), 64),
            up3: builder.up(&scope("up3"), [64 + dense, 64], [1; 3], [0; 3]),
            dense4: builder.dense(&scope("dense4"), 64),
            psp: builder.pyramid(&scope("psp"), blocks, 64 + dense),
            last: builder.up(
                &scope("final"),
                [blocks + 64 + dense, self.out_channels],
                builder.last([3, 3, 1]),
                builder.trailing([1, 1, 0], 0),
            ),
            pool1: builder.last([1, 1, 2]),
            maxpool: builder.maxpool(),
            facts,
        })
    }

    /// Sizes that all branches agree on.
    fn facts(&self) -> Result<Facts, ConfigError> {
        let mut facts = Facts::new("AHNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        if self.psp_block_num > 4 {
            return Err(ConfigError::value("psp_block_num", self.psp_block_num, "expected 0 to 4"));
        }
        let flat = self.spatial_dims == 2;
        if (flat && self.upsample_mode == AHNetUpsample::Trilinear)
            || (!flat && self.upsample_mode == AHNetUpsample::Bilinear)
        {
            let expected =
                format!("expected bilinear in 2-D and trilinear in 3-D, this one is {}-D", self.spatial_dims);
            return Err(ConfigError::value("upsample_mode", self.upsample_mode, expected));
        }
        // The pyramid pools the features, which have half the size of the image in a plane.
        let pyramid = match self.psp_block_num {
            0 => 1,
            blocks => 1 << (blocks + 3),
        };
        let transposed = self.upsample_mode == AHNetUpsample::Transpose;
        let in_plane = if transposed { pyramid.max(32) } else { 32 };
        let least = if transposed { 32 } else { pyramid.max(32) };
        let along = 32;
        // The kernels are cut from the end in 2-D: its first axis is the plane, its second the one across.
        (facts.divisor, facts.least) = if flat {
            ([in_plane, along, 1], [least, along, 1])
        } else {
            ([in_plane, in_plane, along], [least, least, along])
        };
        Ok(facts)
    }
}

fn norm(scope: &Scope, channels: usize) -> BatchNorm {
    BatchNorm::new(scope, channels, 1e-5, 0.1, true)
}

/// A convolution without bias that keeps the size.
fn bare(scope: &Scope, channels: [usize; 2], kernel: [usize; 3]) -> Conv {
    let shape = ConvShape { padding: kernel.map(|k| k / 2), ..ConvShape::default() };
    Conv::new(scope, channels, kernel, shape, false)
}

/// What a residual block adds its output to, where that is not its input.
#[derive(Module, Debug)]
struct Downsample {
    conv: Conv,
    norm: BatchNorm,
    #[module(skip)]
    pool: [usize; 3],
}

/// A residual block that looks around in planes only.
#[derive(Module, Debug)]
struct Bottleneck {
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
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let out = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let out = relu(self.bn2.forward(self.conv2.forward(out)));
        let out = self.bn3.forward(self.conv3.forward(out));
        let Some(down) = &self.downsample else {
            let dtype = out.dtype();
            return relu(out + x.cast(dtype));
        };
        let shortcut = down.norm.forward(max_pool(down.conv.forward(x), down.pool, down.pool, [0; 3]));
        let same = out.dims() == shortcut.dims();
        let out = if same { out } else { max_pool(out, self.pool, self.pool, [0; 3]) };
        relu(out + shortcut)
    }
}

/// Norm, ReLU, convolution of kernel 1.
#[derive(Module, Debug)]
struct Projection {
    norm: BatchNorm,
    conv: Conv,
}

/// Norm, ReLU, convolution, and twice the size.
#[derive(Module, Debug)]
struct UpTransition {
    norm: BatchNorm,
    conv: Conv,
    up: Option<ConvTranspose>,
    #[module(skip)]
    scale: [usize; 3],
    #[module(skip)]
    mode: AHNetUpsample,
}

impl UpTransition {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.conv.forward(relu(self.norm.forward(x)));
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

/// A dense layer whose 3x3x3 neighbourhood is a plane and a line.
#[derive(Module, Debug)]
struct Pseudo3DLayer {
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
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let narrow = self.conv1.forward(relu(self.bn1.forward(x.clone())));
        let plane = self.conv2.forward(relu(self.bn2.forward(narrow)));
        let line = self.conv3.forward(relu(self.bn3.forward(plane.clone())));
        let new = self.conv4.forward(relu(self.bn4.forward(plane + line)));
        let dtype = new.dtype();
        Tensor::cat(vec![x.cast(dtype), new], 1)
    }
}

/// Poolings of several sizes, each brought to one channel and back to the size.
#[derive(Module, Debug)]
struct Pyramid {
    up_modules: Named<ConvTranspose>,
    project_modules: Named<Conv>,
    #[module(skip)]
    sizes: Vec<[usize; 3]>,
    #[module(skip)]
    mode: AHNetUpsample,
}

impl Pyramid {
    /// The pooled channels, then `x`.
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
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
        parts.push(x.cast(dtype));
        Tensor::cat(parts, 1)
    }
}

/// An encoder with 2-D kernels, a decoder with 3-D ones (Liu et al., <https://arxiv.org/abs/1711.08580>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`. In 3-D the last axis is the one across the planes and must be divisible by 32,
/// the others by `max(32, 2^(psp_block_num + 3))` with transposed convolutions and by 32 otherwise.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{AHNetConfig, Network};
/// let net = AHNetConfig { out_channels: 2, psp_block_num: 2, ..AHNetConfig::default() }.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 64, 64, 32], &Device::default())).dims(), [1, 2, 64, 64, 32]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AHNet {
    conv1: Conv,
    bn0: BatchNorm,
    layer1: Named<Bottleneck>,
    layer2: Named<Bottleneck>,
    layer3: Named<Bottleneck>,
    layer4: Named<Bottleneck>,
    up0: UpTransition,
    dense0: Named<Pseudo3DLayer>,
    up1: UpTransition,
    dense1: Named<Pseudo3DLayer>,
    up2: UpTransition,
    dense2: Named<Pseudo3DLayer>,
    trans1: Projection,
    dense3: Named<Pseudo3DLayer>,
    up3: UpTransition,
    dense4: Named<Pseudo3DLayer>,
    psp: Pyramid,
    /// `final` in the state dict.
    last: UpTransition,
    #[module(skip)]
    pool1: [usize; 3],
    #[module(skip)]
    maxpool: MaxPool,
    #[module(skip)]
    facts: Facts,
}

/// Kernel, stride and padding.
type MaxPool = [[usize; 3]; 3];

fn down(layer: &Named<Bottleneck>, x: Tensor<5>) -> Tensor<5> {
    layer.iter().fold(x, |x, block| block.forward(x))
}

fn dense(layer: &Named<Pseudo3DLayer>, x: Tensor<5>) -> Tensor<5> {
    layer.iter().fold(x, |x, layer| layer.forward(x))
}

impl Network for AHNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x = max_pool(self.conv1.forward(x), self.pool1, self.pool1, [0; 3]);
        let conv = relu(self.bn0.forward(x));
        let [kernel, stride, padding] = self.maxpool;
        let pooled = max_pool(conv.clone(), kernel, stride, padding);
        let fm1 = down(&self.layer1, pooled.clone());
        let fm2 = down(&self.layer2, fm1.clone());
        let fm3 = down(&self.layer3, fm2.clone());
        let fm4 = down(&self.layer4, fm3.clone());
        let d0 = dense(&self.dense0, self.up0.forward(fm4) + fm3);
        let d1 = dense(&self.dense1, self.up1.forward(d0) + fm2);
        let d2 = dense(&self.dense2, self.up2.forward(d1) + fm1);
        let projected = self.trans1.conv.forward(relu(self.trans1.norm.forward(d2)));
        let d3 = dense(&self.dense3, projected + pooled);
        let d4 = dense(&self.dense4, self.up3.forward(d3) + conv);
        self.last.forward(self.psp.forward(d4))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let path = match path.strip_prefix("last.") {
            Some(rest) => format!("final.{rest}"),
            None => path.to_owned(),
        };
        // In MONAI these are entries of a Sequential, with a pooling between them.
        Some(path.replace(".downsample.conv.", ".downsample.0.").replace(".downsample.norm.", ".downsample.2."))
    }
}

struct Builder {
    dims: usize,
    mode: AHNetUpsample,
}

impl Builder {
    /// The last `dims` of three numbers, as MONAI cuts them.
    fn trailing(&self, numbers: [usize; 3], depth: usize) -> [usize; 3] {
        let [_, y, z] = numbers;
        if self.dims == 3 { numbers } else { [y, z, depth] }
    }

    fn last(&self, numbers: [usize; 3]) -> [usize; 3] {
        self.trailing(numbers, 1)
    }

    fn maxpool(&self) -> MaxPool {
        let two = in_space(self.dims, 2);
        match self.mode {
            AHNetUpsample::Transpose | AHNetUpsample::Nearest => [two, two, [0; 3]],
            _ => [in_space(self.dims, 3), two, two.map(|n| n / 2)],
        }
    }

    /// `blocks` residual blocks from `input` to four times `planes` channels.
    fn layer(&self, scope: &Scope, [input, planes]: [usize; 2], blocks: usize, stride: usize) -> Named<Bottleneck> {
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

    fn up(&self, scope: &Scope, channels: [usize; 2], kernel: [usize; 3], padding: [usize; 3]) -> UpTransition {
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

    fn dense(&self, scope: &Scope, input: usize) -> Named<Pseudo3DLayer> {
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

    fn pyramid(&self, scope: &Scope, blocks: usize, channels: usize) -> Pyramid {
        let sizes: Vec<[usize; 3]> = (0..blocks).map(|i| self.last([8 << i, 8 << i, 1])).collect();
        let project = |i: usize| {
            let scope = scope.enter("project_modules").enter(&i.to_string());
            // A border of one voxel that the transposed convolution takes away again.
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
