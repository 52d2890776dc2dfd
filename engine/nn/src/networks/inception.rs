//! Inception v3 of torchvision with a replaced last layer: `inception_v3` of `TorchVisionFCModel`.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::pool3d::PoolShape;

use super::Network;
use super::facts::{Facts, by_facts};
use crate::layers::{ConfigError, Conv, Dropout, Init, LayerSpec, Linear, Norm, Pool, Scope};
use crate::named::Named;

/// Number of classes of the second classifier, which was only used in training on ImageNet.
const IMAGENET: usize = 1000;

/// Number of features of the last layer.
pub(super) const FEATURES: usize = 2048;

/// A convolution with norm and ReLU (`BasicConv2d`).
#[derive(Module, Debug)]
struct BasicConv {
    conv: Conv,
    bn: Norm,
}

/// The name, output channels, kernel and stride of a convolution.
type ConvSpec = (&'static str, usize, [usize; 2], usize);

impl BasicConv {
    /// Builds the block. With stride 1 it keeps the size, unless `narrows`.
    fn new(scope: &Scope, input: usize, spec: ConvSpec, narrows: bool) -> Result<Self, ConfigError> {
        let (_, output, [x, y], stride) = spec;
        let padding = if narrows || stride > 1 { [0; 3] } else { [x / 2, y / 2, 0] };
        let shape = ConvShape { stride: [stride, stride, 1], padding, ..ConvShape::default() };
        let norm = LayerSpec::with("batch", &[("eps", 0.001_f64.into())]);
        Ok(BasicConv {
            conv: Conv::new(&scope.enter("conv"), [input, output], [x, y, 1], shape, false),
            bn: Norm::new(&scope.enter("bn"), &norm, output)?,
        })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.bn.forward_relu(self.conv.forward(x))
    }
}

/// The first operation of a branch.
#[derive(Clone, Copy, Debug)]
enum Start {
    Input,
    /// Mean of 3 x 3 voxels, at the same size.
    Mean,
    /// Maximum of 3 x 3 voxels, at half the size.
    Largest,
}

impl Start {
    fn forward(self, x: Tensor<5>) -> Tensor<5> {
        let window = PoolShape::new([3, 3, 1]);
        match self {
            Start::Input => x,
            Start::Mean => Pool::avg(PoolShape { stride: [1; 3], padding: [1, 1, 0], ..window }).forward(x),
            Start::Largest => Pool::max(PoolShape { stride: [2, 2, 1], ..window }).forward(x),
        }
    }
}

/// A branch: its first operation, its sequence of convolutions, and two parallel convolutions at
/// its end.
type BranchSpec = (Start, Vec<ConvSpec>, Vec<ConvSpec>);

/// The number of a block's convolutions in a branch.
#[derive(Clone, Copy, Debug)]
struct Branch {
    start: Start,
    chain: usize,
    ends: usize,
}

/// A block of branches whose outputs are concatenated (`InceptionA` to `InceptionE`).
#[derive(Module, Debug)]
struct Mixed {
    convs: Named<BasicConv>,
    #[module(skip)]
    branches: Vec<Branch>,
}

impl Mixed {
    /// Builds the block, and returns its number of output channels.
    fn new(scope: &Scope, input: usize, specs: Vec<BranchSpec>) -> Result<(Self, usize), ConfigError> {
        let (mut convs, mut branches, mut output) = (Vec::new(), Vec::new(), 0);
        for (start, chain, ends) in specs {
            let mut width = input;
            branches.push(Branch { start, chain: chain.len(), ends: ends.len() });
            for spec in chain {
                convs.push((spec.0.to_owned(), BasicConv::new(&scope.enter(spec.0), width, spec, false)?));
                width = spec.1;
            }
            output += if ends.is_empty() { width } else { ends.iter().map(|spec| spec.1).sum() };
            for spec in ends {
                convs.push((spec.0.to_owned(), BasicConv::new(&scope.enter(spec.0), width, spec, false)?));
            }
        }
        Ok((Mixed { convs: Named::new(convs), branches }, output))
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let mut convs = self.convs.iter();
        let mut joined = Vec::new();
        for branch in &self.branches {
            let begun = branch.start.forward(x.clone());
            let end = convs.by_ref().take(branch.chain).fold(begun, |x, conv| conv.forward(x));
            match branch.ends {
                0 => joined.push(end),
                ends => joined.extend(convs.by_ref().take(ends).map(|conv| conv.forward(end.clone()))),
            }
        }
        Tensor::cat(joined, 1)
    }
}

/// The second classifier: its weights are part of every file, and its output is not used.
#[derive(Module, Debug)]
struct Aux {
    conv0: BasicConv,
    conv1: BasicConv,
    fc: Linear,
}

/// All layers but the last.
#[derive(Module, Debug)]
struct Features {
    stem: Named<BasicConv>,
    mixed: Named<Mixed>,
    aux: Aux,
    dropout: Dropout,
}

/// Inception v3 (Szegedy et al., <https://arxiv.org/abs/1512.00567>) with a replaced last layer:
/// `[b, 3, x, y, 1]` to scores `[b, num_classes, 1, 1, 1]`.
#[derive(Module, Debug)]
pub(super) struct InceptionV3 {
    features: Features,
    fc: Linear,
    /// Whether images normalized by ImageNet's mean and deviation are converted to the range -1 to
    /// 1.
    #[module(skip)]
    transform_input: bool,
    #[module(skip)]
    facts: Facts,
}

const ONE: [usize; 2] = [1, 1];
const THREE: [usize; 2] = [3, 3];
const WIDE: [usize; 2] = [1, 7];
const TALL: [usize; 2] = [7, 1];

fn block_a(pool_features: usize) -> Vec<BranchSpec> {
    vec![
        (Start::Input, vec![("branch1x1", 64, ONE, 1)], vec![]),
        (Start::Input, vec![("branch5x5_1", 48, ONE, 1), ("branch5x5_2", 64, [5, 5], 1)], vec![]),
        (
            Start::Input,
            vec![("branch3x3dbl_1", 64, ONE, 1), ("branch3x3dbl_2", 96, THREE, 1), ("branch3x3dbl_3", 96, THREE, 1)],
            vec![],
        ),
        (Start::Mean, vec![("branch_pool", pool_features, ONE, 1)], vec![]),
    ]
}

fn block_b() -> Vec<BranchSpec> {
    vec![
        (Start::Input, vec![("branch3x3", 384, THREE, 2)], vec![]),
        (
            Start::Input,
            vec![("branch3x3dbl_1", 64, ONE, 1), ("branch3x3dbl_2", 96, THREE, 1), ("branch3x3dbl_3", 96, THREE, 2)],
            vec![],
        ),
        (Start::Largest, vec![], vec![]),
    ]
}

fn block_c(width: usize) -> Vec<BranchSpec> {
    vec![
        (Start::Input, vec![("branch1x1", 192, ONE, 1)], vec![]),
        (
            Start::Input,
            vec![("branch7x7_1", width, ONE, 1), ("branch7x7_2", width, WIDE, 1), ("branch7x7_3", 192, TALL, 1)],
            vec![],
        ),
        (
            Start::Input,
            vec![
                ("branch7x7dbl_1", width, ONE, 1),
                ("branch7x7dbl_2", width, TALL, 1),
                ("branch7x7dbl_3", width, WIDE, 1),
                ("branch7x7dbl_4", width, TALL, 1),
                ("branch7x7dbl_5", 192, WIDE, 1),
            ],
            vec![],
        ),
        (Start::Mean, vec![("branch_pool", 192, ONE, 1)], vec![]),
    ]
}

fn block_d() -> Vec<BranchSpec> {
    vec![
        (Start::Input, vec![("branch3x3_1", 192, ONE, 1), ("branch3x3_2", 320, THREE, 2)], vec![]),
        (
            Start::Input,
            vec![
                ("branch7x7x3_1", 192, ONE, 1),
                ("branch7x7x3_2", 192, WIDE, 1),
                ("branch7x7x3_3", 192, TALL, 1),
                ("branch7x7x3_4", 192, THREE, 2),
            ],
            vec![],
        ),
        (Start::Largest, vec![], vec![]),
    ]
}

fn block_e() -> Vec<BranchSpec> {
    let ends = |a: &'static str, b: &'static str| vec![(a, 384, [1, 3], 1), (b, 384, [3, 1], 1)];
    vec![
        (Start::Input, vec![("branch1x1", 320, ONE, 1)], vec![]),
        (Start::Input, vec![("branch3x3_1", 384, ONE, 1)], ends("branch3x3_2a", "branch3x3_2b")),
        (
            Start::Input,
            vec![("branch3x3dbl_1", 448, ONE, 1), ("branch3x3dbl_2", 384, THREE, 1)],
            ends("branch3x3dbl_3a", "branch3x3dbl_3b"),
        ),
        (Start::Mean, vec![("branch_pool", 192, ONE, 1)], vec![]),
    ]
}

impl InceptionV3 {
    pub fn new(scope: &Scope, num_classes: usize, bias: bool, transform_input: bool) -> Result<Self, ConfigError> {
        let facts = Facts::new("TorchVisionFCModel", 2, [3, num_classes])?.at_least(75);
        let inner = scope.enter("features").with_init(Init::KaimingFanOut);
        let mut width = 3;
        let mut stem = Vec::new();
        // The third convolution keeps the size; a pooling follows the third and the last.
        for (spec, narrows) in [
            (("Conv2d_1a_3x3", 32, THREE, 2), true),
            (("Conv2d_2a_3x3", 32, THREE, 1), true),
            (("Conv2d_2b_3x3", 64, THREE, 1), false),
            (("Conv2d_3b_1x1", 80, ONE, 1), true),
            (("Conv2d_4a_3x3", 192, THREE, 1), true),
        ] {
            stem.push((spec.0.to_owned(), BasicConv::new(&inner.enter(spec.0), width, spec, narrows)?));
            width = spec.1;
        }
        let mut mixed = Vec::new();
        for (name, specs) in [
            ("Mixed_5b", block_a(32)),
            ("Mixed_5c", block_a(64)),
            ("Mixed_5d", block_a(64)),
            ("Mixed_6a", block_b()),
            ("Mixed_6b", block_c(128)),
            ("Mixed_6c", block_c(160)),
            ("Mixed_6d", block_c(160)),
            ("Mixed_6e", block_c(192)),
            ("Mixed_7a", block_d()),
            ("Mixed_7b", block_e()),
            ("Mixed_7c", block_e()),
        ] {
            // The pooling of a reduction keeps the channels of its input.
            let (block, output) = Mixed::new(&inner.enter(name), width, specs)?;
            mixed.push((name.to_owned(), block));
            width = output;
        }
        let side = inner.enter("AuxLogits");
        let aux = Aux {
            conv0: BasicConv::new(&side.enter("conv0"), 768, ("conv0", 128, ONE, 1), true)?,
            conv1: BasicConv::new(&side.enter("conv1"), 128, ("conv1", 768, [5, 5], 1), true)?,
            fc: Linear::new(&side.enter("fc"), [768, IMAGENET], true),
        };
        let dropout = Dropout::new("features.dropout", 0.5, &facts.clock)?;
        let features = Features { stem: Named::new(stem), mixed: Named::new(mixed), aux, dropout };
        let fc = Linear::new(&scope.enter("fc"), [width, num_classes], bias);
        Ok(InceptionV3 { features, fc, transform_input, facts })
    }

    /// Converts images normalized by ImageNet's mean and deviation to the range -1 to 1.
    fn transformed(&self, x: Tensor<5>) -> Tensor<5> {
        if !self.transform_input {
            return x;
        }
        let (device, dtype) = (x.device(), x.dtype());
        let row = |values: [f32; 3]| {
            Tensor::<5>::from_data(TensorData::new(values.to_vec(), [1, 3, 1, 1, 1]), &device).cast(dtype)
        };
        let scale = row([0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5]);
        x * scale + row([(0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5])
    }
}

impl Network for InceptionV3 {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let mut x = self.transformed(x);
        for (place, conv) in self.features.stem.iter().enumerate() {
            x = conv.forward(x);
            if place == 2 || place == 4 {
                x = Start::Largest.forward(x);
            }
        }
        let x = self.features.mixed.iter().fold(x, |x, block| block.forward(x));
        let x = self.features.dropout.forward(Pool::global_avg().forward(x));
        self.fc.forward_flat(x)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let Some(rest) = path.strip_prefix("features.") else { return Some(path.to_owned()) };
        let (part, rest) = rest.split_once('.')?;
        Some(match part {
            "aux" => format!("features.AuxLogits.{rest}"),
            // `Mixed_5b.convs.branch1x1.conv.weight`
            "mixed" => format!("features.{}", rest.replacen(".convs.", ".", 1)),
            _ => format!("features.{rest}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn channels_are_those_of_torchvision() {
        let device = Device::default();
        let scope = Scope::new(&device, 0);
        for (input, specs, output) in
            [(192, block_a(32), 256), (256, block_a(64), 288), (768, block_c(160), 768), (1280, block_e(), 2048)]
        {
            assert_eq!(Mixed::new(&scope, input, specs).expect("sound").1, output);
        }
    }
}
