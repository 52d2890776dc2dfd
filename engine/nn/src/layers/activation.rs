//! Activation layers with MONAI's names.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor, activation};
use hearth_kernels::normalize::Slope;
use hearth_kernels::{cast, rectified_sum, rectify};

use super::{ConfigError, LayerSpec, Scope};
use crate::cost;
use crate::softmax::{log_softmax, softmax};
use crate::trace::{self, Op, Weight};

const KNOWN: &str = "relu, leakyrelu, prelu, relu6, elu, selu, celu, gelu, sigmoid, tanh, softmax, logsoftmax, swish, \
                     memswish, mish";

/// `torch.nn.PReLU`: `x` if positive, otherwise `weight x`, with one weight for all channels or one
/// per channel.
#[derive(Module, Debug)]
pub struct PRelu {
    /// The slopes, `[1]` or `[channels]`.
    pub weight: Param<Tensor<1>>,
}

/// An activation without parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Relu,
    LeakyRelu(f64),
    Relu6,
    Elu(f64),
    Selu,
    Celu(f64),
    Gelu { tanh: bool },
    Sigmoid,
    Tanh,
    Softmax,
    LogSoftmax,
    Swish(f64),
    Mish,
}

/// An activation without parameters, as a module.
#[derive(Module, Debug)]
pub struct Plain {
    #[module(skip)]
    function: Function,
}

/// An activation layer.
#[derive(Module, Debug)]
pub enum Act {
    /// An activation with learned slopes.
    PRelu(PRelu),
    /// An activation without parameters.
    Plain(Plain),
}

impl Act {
    /// Builds the requested layer.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, spec: &LayerSpec) -> Result<Self, ConfigError> {
        let plain = |function| Ok(Act::Plain(Plain { function }));
        match spec.name().as_str() {
            "prelu" => {
                let given = spec.arguments(&["num_parameters", "init"])?;
                let weight = scope.constant([given.count("num_parameters", 1)?], given.number("init", 0.25)?);
                Ok(Act::PRelu(PRelu { weight }))
            }
            "relu" => spec.arguments(&["inplace"]).and_then(|_| plain(Function::Relu)),
            "relu6" => spec.arguments(&["inplace"]).and_then(|_| plain(Function::Relu6)),
            "selu" => spec.arguments(&["inplace"]).and_then(|_| plain(Function::Selu)),
            "mish" => spec.arguments(&["inplace"]).and_then(|_| plain(Function::Mish)),
            "sigmoid" => spec.arguments(&[]).and_then(|_| plain(Function::Sigmoid)),
            "tanh" => spec.arguments(&[]).and_then(|_| plain(Function::Tanh)),
            "leakyrelu" => {
                let given = spec.arguments(&["negative_slope", "inplace"])?;
                plain(Function::LeakyRelu(given.number("negative_slope", 0.01)?))
            }
            "elu" => plain(Function::Elu(spec.arguments(&["alpha", "inplace"])?.number("alpha", 1.0)?)),
            "celu" => plain(Function::Celu(spec.arguments(&["alpha", "inplace"])?.number("alpha", 1.0)?)),
            "gelu" => {
                let approximate = spec.arguments(&["approximate"])?.text("approximate", "none")?;
                match approximate.as_str() {
                    "none" => plain(Function::Gelu { tanh: false }),
                    "tanh" => plain(Function::Gelu { tanh: true }),
                    other => Err(ConfigError::value("gelu.approximate", other, "expected \"none\" or \"tanh\"")),
                }
            }
            "softmax" | "logsoftmax" => {
                let dim = spec.arguments(&["dim"])?.count("dim", 1)?;
                match (dim, spec.name().as_str()) {
                    (1, "softmax") => plain(Function::Softmax),
                    (1, _) => plain(Function::LogSoftmax),
                    _ => Err(ConfigError::value("softmax.dim", dim, "expected 1, the channel axis")),
                }
            }
            "swish" => plain(Function::Swish(spec.arguments(&["alpha"])?.number("alpha", 1.0)?)),
            "memswish" => spec.arguments(&["inplace"]).and_then(|_| plain(Function::Swish(1.0))),
            name => Err(ConfigError::UnknownName { kind: "activation", name: name.to_owned(), known: KNOWN }),
        }
    }

    /// The factor of negative values, for activations that are fully defined by it.
    pub(crate) fn slope(&self) -> Option<Slope> {
        match self {
            Act::PRelu(act) => Some(Slope::Learned(act.weight.val().cast(DType::F32))),
            Act::Plain(Plain { function: Function::Relu }) => Some(Slope::Fixed(0.0)),
            Act::Plain(Plain { function: Function::LeakyRelu(slope) }) => Some(Slope::Fixed(*slope)),
            Act::Plain(_) => None,
        }
    }

    /// Applies the activation to the sum of a block's result and its shortcut.
    pub(crate) fn forward_sum(&self, x: Tensor<5>, shortcut: Tensor<5>) -> Tensor<5> {
        match self.slope() {
            Some(Slope::Fixed(slope)) => activated_sum(x, shortcut, slope),
            _ => self.forward(residual_sum(x, shortcut)),
        }
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let taken = trace::inputs([&x]);
        let y = match self {
            Act::PRelu(act) => {
                let weight = act.weight.val().cast(x.dtype());
                cost::output(Some(act.weight.id), activation::prelu(x, weight))
            }
            Act::Plain(plain) => cost::output(None, plain.function.apply(x)),
        };
        let op = || match self {
            Act::PRelu(act) => Op::PRelu { slope: Weight::of(&act.weight.val()) },
            Act::Plain(plain) => plain.function.op(),
        };
        trace::note(taken, "", op, y)
    }
}

/// `torch.relu`
pub(crate) fn relu(x: Tensor<5>) -> Tensor<5> {
    leaky_relu(x, 0.0)
}

/// `torch.nn.functional.leaky_relu`
pub(crate) fn leaky_relu(x: Tensor<5>, slope: f64) -> Tensor<5> {
    let taken = trace::inputs([&x]);
    trace::note(taken, "", || Op::LeakyRelu { slope }, cost::output(None, rectify(x, slope)))
}

/// Adds a block's result and its shortcut.
pub(crate) fn residual_sum(x: Tensor<5>, shortcut: Tensor<5>) -> Tensor<5> {
    let dtype = x.dtype();
    let taken = trace::inputs([&x, &shortcut]);
    trace::note(taken, "", || Op::Sum, rectified_sum(x, cast(shortcut, dtype), 1.0))
}

/// Adds a block's result and its shortcut, and applies a leaky ReLU; ReLU with a slope of 0.
pub(crate) fn activated_sum(x: Tensor<5>, shortcut: Tensor<5>, slope: f64) -> Tensor<5> {
    if trace::is_open() {
        return leaky_relu(residual_sum(x, shortcut), slope);
    }
    let dtype = x.dtype();
    cost::output(None, rectified_sum(x, cast(shortcut, dtype), slope))
}

/// `torch.nn.functional.gelu`
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    cost::output(None, hearth_kernels::gelu(x))
}

/// `torch.nn.functional.silu`
pub(crate) fn swish<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    cost::output(None, hearth_kernels::swish(x))
}

impl Function {
    /// The operation in the network's graph.
    fn op(self) -> Op {
        let named = |name, alpha| Op::Activation { name, alpha };
        match self {
            Function::Relu => Op::LeakyRelu { slope: 0.0 },
            Function::LeakyRelu(slope) => Op::LeakyRelu { slope },
            Function::Relu6 => named("relu6", 0.0),
            Function::Elu(alpha) => named("elu", alpha),
            Function::Selu => named("selu", 0.0),
            Function::Celu(alpha) => named("celu", alpha),
            Function::Gelu { tanh: false } => named("gelu", 0.0),
            Function::Gelu { tanh: true } => {
                Op::Unsupported { what: "GELU with the tanh approximation is not supported".to_owned() }
            }
            Function::Sigmoid => named("sigmoid", 0.0),
            Function::Tanh => named("tanh", 0.0),
            Function::Softmax => named("softmax", 0.0),
            Function::LogSoftmax => named("logsoftmax", 0.0),
            Function::Swish(alpha) => named("swish", alpha),
            Function::Mish => named("mish", 0.0),
        }
    }

    fn apply(self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Function::Relu => rectify(x, 0.0),
            Function::LeakyRelu(slope) => rectify(x, slope),
            Function::Relu6 => x.clamp(0.0, 6.0),
            Function::Elu(alpha) => activation::elu(x, alpha),
            Function::Selu => activation::selu(x),
            Function::Celu(alpha) => activation::celu(x, alpha),
            Function::Gelu { tanh: false } => hearth_kernels::gelu(x),
            Function::Gelu { tanh: true } => activation::gelu_approximate(x),
            Function::Sigmoid => activation::sigmoid(x),
            Function::Tanh => activation::tanh(x),
            Function::Softmax => softmax(x),
            Function::LogSoftmax => log_softmax(x),
            Function::Swish(1.0) => hearth_kernels::swish(x),
            Function::Swish(alpha) => x.clone() * activation::sigmoid(x * alpha),
            Function::Mish => activation::mish(x),
        }
    }
}
