//! The distributions of initial weights.

/// The distribution of the initial weights of a network's convolutions and linear layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Init {
    /// PyTorch's default: weights and biases from `U(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`.
    #[default]
    Torch,
    /// Convolutions from `N(0, 2 / fan_in)` (He et al., <https://arxiv.org/abs/1502.01852>), biases
    /// of linear layers 0.
    KaimingFanIn,
    /// Convolutions from `N(0, 2 / fan_out)`, biases of linear layers 0.
    KaimingFanOut,
    /// As `KaimingFanOut`, and biases of convolutions are 0.
    KaimingFanOutNoBias,
    /// Linear layers from the normal distribution of this standard deviation, their biases 0.
    Normal(f64),
    /// Convolutions, including transposed ones, from `N(0, 2 / ((1 + slope^2) fan_in))`, where
    /// `slope` is that of the leaky ReLU after them. Biases are 0.
    KaimingLeaky(f64),
    /// Convolutions from a normal distribution of this standard deviation, scales of batch norms
    /// from the same distribution around 1, biases 0 (`monai.networks.utils.normal_init`).
    Gan(f64),
    /// Convolutions, including transposed ones, from `N(0, 2 / (kx ky out))`: the third axis of the
    /// kernel is not counted.
    InPlane,
    /// Convolutions and linear layers of 0, so that a residual block starts as its shortcut.
    Zeros,
    /// Convolutions as `KaimingFanIn`, where groups of this many consecutive output channels have
    /// the same kernel, so that a pixel shuffle starts as nearest-neighbour resizing (Aitken et
    /// al., <https://arxiv.org/abs/1707.02937>).
    Icnr(usize),
}

/// A distribution of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Uniform between minus and plus this bound.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Normal with mean 1 and this standard deviation.
    NormalAboutOne(f64),
    /// Normal with mean 0 and this standard deviation. Groups of this many consecutive entries of
    /// the first axis are equal.
    NormalInGroups(f64, usize),
    /// A constant.
    Constant(f64),
}

/// The bound of PyTorch's default distribution: `kaiming_uniform(a = sqrt(5))` for weights equals
/// `1 / sqrt(fan_in)`, and the bias is drawn from the same interval.
fn torch_bound(fan_in: usize) -> f64 {
    if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() }
}

fn deviation(fan: f64) -> f64 {
    (2.0 / fan.max(1.0)).sqrt()
}

/// PyTorch's fan-in of a weight: the product of all axes but the first, also for transposed
/// convolutions.
fn fan_in([_, second, x, y, z]: [usize; 5]) -> usize {
    second * x * y * z
}

impl Init {
    /// The distributions of a convolution's weight `[out, in / groups, kx, ky, kz]` and bias.
    pub(super) fn convolution(self, weight: [usize; 5]) -> [Draw; 2] {
        let bias = Draw::Uniform(torch_bound(fan_in(weight)));
        let [outputs, _, x, y, z] = weight;
        match self {
            Init::KaimingFanIn => [Draw::Normal(deviation(fan_in(weight) as f64)), bias],
            Init::KaimingFanOut => [Draw::Normal(deviation((outputs * x * y * z) as f64)), bias],
            Init::KaimingFanOutNoBias => [Draw::Normal(deviation((outputs * x * y * z) as f64)), Draw::Constant(0.0)],
            Init::Icnr(copies) => [Draw::NormalInGroups(deviation(fan_in(weight) as f64), copies), bias],
            Init::Torch | Init::Normal(_) | Init::KaimingLeaky(_) | Init::Gan(_) | Init::InPlane | Init::Zeros => {
                self.transposed(weight, outputs)
            }
        }
    }

    /// The distributions of a transposed convolution's weight `[in, out / groups, kx, ky, kz]` and
    /// bias.
    pub(super) fn transposed(self, weight: [usize; 5], outputs: usize) -> [Draw; 2] {
        let uniform = Draw::Uniform(torch_bound(fan_in(weight)));
        match self {
            Init::KaimingLeaky(slope) => {
                let fan = (1.0 + slope * slope) * fan_in(weight) as f64;
                [Draw::Normal(deviation(fan)), Draw::Constant(0.0)]
            }
            Init::Gan(deviation) => [Draw::Normal(deviation), Draw::Constant(0.0)],
            Init::Zeros => [Draw::Constant(0.0); 2],
            Init::InPlane => [Draw::Normal(deviation((weight[2] * weight[3] * outputs) as f64)), uniform],
            Init::Torch
            | Init::KaimingFanIn
            | Init::KaimingFanOut
            | Init::KaimingFanOutNoBias
            | Init::Normal(_)
            | Init::Icnr(_) => [uniform, uniform],
        }
    }

    /// The distributions of a linear layer's weight and bias.
    pub(super) fn linear(self, fan_in: usize) -> [Draw; 2] {
        let uniform = Draw::Uniform(torch_bound(fan_in));
        match self {
            Init::KaimingFanIn | Init::KaimingFanOut | Init::KaimingFanOutNoBias => [uniform, Draw::Constant(0.0)],
            Init::Normal(deviation) => [Draw::Normal(deviation), Draw::Constant(0.0)],
            Init::Zeros => [Draw::Constant(0.0); 2],
            Init::Torch | Init::KaimingLeaky(_) | Init::Gan(_) | Init::InPlane | Init::Icnr(_) => [uniform, uniform],
        }
    }

    /// The distribution of a batch norm's scales.
    pub(super) fn scales(self) -> Draw {
        match self {
            Init::Gan(deviation) => Draw::NormalAboutOne(deviation),
            _ => Draw::Constant(1.0),
        }
    }
}
