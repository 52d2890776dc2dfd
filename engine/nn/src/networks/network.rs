//! The interface of every network: [`Network`].

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_registry::type_name;

use super::check::known_channels;

/// The error of a network for an input that it does not accept: [`Network::check_input`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{network} cannot take an input of shape {shape:?} [batch, channel, x, y, z]: {reason}")]
pub struct ShapeError {
    /// Name of the network.
    pub network: &'static str,
    /// Shape of the input.
    pub shape: [usize; 5],
    /// The problem and its solution.
    pub reason: String,
}

/// A network that maps `[b, in, x, y, z]` to `[b, out, x', y', z']`.
///
/// Implementations must provide two functions, and 2-D networks a third. All others have defaults
/// that are valid for any network; override them for outputs of deep supervision, an additional
/// loss, unsupported sizes, or names of weights that differ from the fields' names.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a network",
    note = "derive `Module` for the type and implement `Network`: `channels` and `forward`; a built-in network is made \
            by `UNetConfig::new(3, 1, 2, &[16, 32], &[2]).init(&device, seed)?`"
)]
pub trait Network: Module + Sync + 'static {
    /// Number of spatial axes: 2 or 3, by default 3. A 2-D network takes `z = 1`, and its exported
    /// kernels have no third axis.
    fn spatial_dims(&self) -> usize {
        3
    }

    /// Numbers of input and output channels.
    fn channels(&self) -> [usize; 2];

    /// Computes the output, or the main output if there are several: `[b, in, x, y, z]` to
    /// `[b, out, x', y', z']`. Training is on a device with `autodiff()`.
    ///
    /// # Panics
    /// Where an operation does not accept the shape; [`check_input`](Self::check_input) finds that
    /// before.
    fn forward(&self, x: Tensor<5>) -> Tensor<5>;

    /// The network's name in messages: MONAI's name. By default the name of the type.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }

    /// Checks the shape of an input. By default the channels must be those that the network was
    /// built for, a 2-D network takes a third axis of 1, and no axis may be empty. A network that
    /// halves its input calls [`check_divisible`](super::check_divisible) here, so that a crop of
    /// 30 is reported before the first step and not inside it.
    ///
    /// # Errors
    /// If the network does not accept the shape, `[b, c, x, y, z]`; the error says what to change.
    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)
    }

    /// Computes all outputs in MONAI's order, each `[b, c, x, y, z]` with channels and size of its own.
    /// With deep supervision the main output is the first by default.
    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        vec![self.forward(x)]
    }

    /// The index of the main output, which [`forward`](Self::forward) returns.
    fn main_output(&self) -> usize {
        0
    }

    /// Computes all outputs, and in training the additional loss `[1]` of networks that have one.
    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        (self.forward_all(x), None)
    }

    /// The state-dict key of the parameter at this path of module fields; `None` omits it.
    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    /// Additional keys of the parameter at this path in the state dict: MONAI registers some
    /// modules twice.
    fn torch_aliases(&self, _path: &str) -> Vec<String> {
        Vec::new()
    }

    /// Keys the random draws of this step (dropout). The trainer calls it before each step, so that
    /// a resumed run makes the same draws as an uninterrupted one.
    fn set_draw(&self, _seed: u64, _step: u64) {}
}
