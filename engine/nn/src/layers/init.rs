//! The distributions that first weights are drawn from.

/// How the convolutions and linear layers of a network draw their first weights.
///
/// Transposed convolutions always take PyTorch's default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Init {
    /// PyTorch's default: weights and biases from `U(-1 / sqrt(fan_in), 1 / sqrt(fan_in))`.
    #[default]
    Torch,
    /// Convolutions from `N(0, 2 / fan_in)` (He et al., <https://arxiv.org/abs/1502.01852>), biases of linear layers 0.
    KaimingFanIn,
    /// Convolutions from `N(0, 2 / fan_out)`, biases of linear layers 0.
    KaimingFanOut,
    /// Linear layers from the normal distribution of this standard deviation, their biases 0.
    Normal(f64),
}

/// One distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Between minus and plus this bound.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// This value.
    Constant(f64),
}

/// The bound of PyTorch's default draw: `kaiming_uniform(a = sqrt(5))` for weights comes to `1 / sqrt(fan_in)`, and
/// the bias is drawn from the same interval.
pub(super) fn torch_bound(fan_in: usize) -> f64 {
    if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() }
}

fn kaiming(fan: usize) -> Draw {
    Draw::Normal((2.0 / fan.max(1) as f64).sqrt())
}

impl Init {
    /// Of a convolution's weight.
    pub(super) fn convolution(self, fan_in: usize, fan_out: usize) -> Draw {
        match self {
            Init::KaimingFanIn => kaiming(fan_in),
            Init::KaimingFanOut => kaiming(fan_out),
            Init::Torch | Init::Normal(_) => Draw::Uniform(torch_bound(fan_in)),
        }
    }

    /// Of a linear layer's weight and bias.
    pub(super) fn linear(self, fan_in: usize) -> [Draw; 2] {
        let uniform = Draw::Uniform(torch_bound(fan_in));
        match self {
            Init::Torch => [uniform, uniform],
            Init::KaimingFanIn | Init::KaimingFanOut => [uniform, Draw::Constant(0.0)],
            Init::Normal(deviation) => [Draw::Normal(deviation), Draw::Constant(0.0)],
        }
    }
}
