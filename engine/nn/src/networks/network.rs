//! The interface of every network: [`Network`].

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_registry::type_name;

use super::check::known_channels;

/// An input a network cannot take.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{network} cannot take an input of shape {shape:?} [batch, channel, x, y, z]: {reason}")]
pub struct ShapeError {
    /// The network.
    pub network: &'static str,
    /// The input's shape.
    pub shape: [usize; 5],
    /// What is wrong and what to do.
    pub reason: String,
}

/// A network from `[b, in, x, y, z]` to `[b, out, x', y', z']`.
///
/// Three functions are required. All others have defaults that are valid for any network; override
/// them for outputs of deep supervision, an additional loss, unsupported sizes, or names of weights
/// that differ from the fields' names.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::layers::{Convolution, ConvolutionOptions, Scope};
/// use hearth_nn::networks::Network;
///
/// #[derive(Module, Debug)]
/// struct Edges {
///     conv: Convolution,
/// }
///
/// impl Network for Edges {
///     fn spatial_dims(&self) -> usize {
///         3
///     }
///
///     fn channels(&self) -> [usize; 2] {
///         [1, 2]
///     }
///
///     fn forward(&self, x: Tensor<5>) -> Tensor<5> {
///         self.conv.forward(x)
///     }
/// }
///
/// let scope = Scope::new(&Device::default(), 0);
/// let net = Edges { conv: Convolution::new(&scope, &ConvolutionOptions::new([1, 2], [3; 3]))? };
/// assert_eq!(net.name(), "Edges");
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 4, 4, 4], &Device::default())).dims(), [1, 2, 4, 4, 4]);
/// assert!(net.check_input([1, 3, 4, 4, 4]).is_err_and(|error| error.to_string().contains("1 input channels")));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
pub trait Network: Module + Sync + 'static {
    /// 2 or 3. A 2-D network takes `z = 1`, and its exported kernels have no third axis.
    fn spatial_dims(&self) -> usize;

    /// Numbers of input and output channels.
    fn channels(&self) -> [usize; 2];

    /// The output; the main one if there are several.
    fn forward(&self, x: Tensor<5>) -> Tensor<5>;

    /// Its name in messages: MONAI's name. By default the name of the type.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }

    /// Checks the shape of an input. By default the channels must be those that the network was
    /// built for, a 2-D network takes a third axis of 1, and no axis may be empty. A network that
    /// halves its input calls [`check_divisible`](super::check_divisible) here, so that a crop of
    /// 30 is an error before the first step and not inside it.
    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)
    }

    /// All outputs, in MONAI's order; with deep supervision the main one is the first by default.
    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        vec![self.forward(x)]
    }

    /// The index of the main output, that of [`forward`](Self::forward).
    fn main_output(&self) -> usize {
        0
    }

    /// All outputs, and in training the loss `[1]` that some networks add to that of their outputs.
    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        (self.forward_all(x), None)
    }

    /// The state-dict key of the parameter at this path of module fields; `None` omits it.
    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    /// Further keys under which the state dict holds the parameter at this path: MONAI registers
    /// some modules twice.
    fn torch_aliases(&self, _path: &str) -> Vec<String> {
        Vec::new()
    }

    /// Keys the draws of this step (dropout). The trainer calls it before each step, so that a
    /// resumed run makes the same draws as an uninterrupted one.
    fn set_draw(&self, _seed: u64, _step: u64) {}
}
