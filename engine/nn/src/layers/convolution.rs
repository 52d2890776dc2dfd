//! A plain or transposed convolution and the layers after it (`monai.networks.blocks.Convolution`).

use burn::module::Module;
use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::conv3d::{Channels, ConvShape, Then};

use super::conv::{fuses, is_plain};
use super::{
    Act, Adn, AdnOptions, ConfigError, Conv, ConvTranspose, LayerPath, Norm, Scope, norm_then_act, residual_sum,
};

/// The two kinds of convolution.
#[derive(Module, Debug)]
pub enum Kernel {
    /// `torch.nn.Conv3d`
    Conv(Conv),
    /// `torch.nn.ConvTranspose3d`
    ConvTranspose(ConvTranspose),
}

/// A convolution, followed by activation, dropout and norm (`monai.networks.blocks.Convolution`).
/// Built from [`ConvolutionOptions`], which has an example.
#[derive(Module, Debug)]
pub struct Convolution {
    /// The convolution.
    pub conv: Kernel,
    /// The layers after the convolution, if any.
    pub adn: Option<Adn>,
    #[module(skip)]
    pub(crate) path: LayerPath,
}

/// Options of a [`Convolution`].
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::layers::{ConvolutionOptions, Scope};
/// let scope = Scope::new(&Device::default(), 0);
/// let down = ConvolutionOptions::new([1, 4], [3; 3]).stride([2; 3]).build(&scope.enter("down"))?;
/// let up = ConvolutionOptions::new([4, 2], [3; 3]).stride([2; 3]).transposed(true);
/// let up = up.build(&scope.enter("up"))?;
/// let x = down.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default()));
/// assert_eq!(x.dims(), [1, 4, 4, 4, 4]);
/// assert_eq!(up.forward(x).dims(), [1, 2, 8, 8, 8]);
/// assert!(ConvolutionOptions::new([1, 4], [2; 3]).build(&scope).is_err()); // an even kernel
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Clone, Debug, Setters)]
#[setters(strip_option)]
pub struct ConvolutionOptions {
    /// Input and output channels.
    pub channels: [usize; 2],
    /// Kernel per axis.
    pub kernel: [usize; 3],
    /// Stride per axis.
    pub stride: [usize; 3],
    /// Steps between kernel taps per axis.
    pub dilation: [usize; 3],
    /// Zeros at both ends of each axis. `None` keeps the size at stride 1, which requires an odd
    /// kernel.
    pub padding: Option<[usize; 3]>,
    /// Additional length of a transposed convolution's output; `None` for `stride - 1`.
    pub output_padding: Option<[usize; 3]>,
    /// Whether the convolution has a bias.
    pub bias: bool,
    /// Whether the convolution is transposed. With the defaults above the output is then `stride`
    /// times as large.
    pub transposed: bool,
    /// The layers after the convolution; `None` for a convolution alone.
    pub adn: Option<AdnOptions>,
}

impl ConvolutionOptions {
    /// Options for a convolution with stride and dilation 1, unchanged size, a bias and no layers
    /// after it.
    pub fn new(channels: [usize; 2], kernel: [usize; 3]) -> Self {
        ConvolutionOptions {
            channels,
            kernel,
            stride: [1; 3],
            dilation: [1; 3],
            padding: None,
            output_padding: None,
            bias: true,
            transposed: false,
            adn: None,
        }
    }

    /// Builds the block: [`Convolution::new`].
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn build(&self, scope: &Scope) -> Result<Convolution, ConfigError> {
        Convolution::new(scope, self)
    }

    /// The padding, with the default resolved.
    pub(crate) fn resolved_padding(&self) -> Result<[usize; 3], ConfigError> {
        self.padding.map_or_else(|| same_padding(self.kernel, self.dilation), Ok)
    }
}

/// The padding that keeps the size at stride 1. An even kernel has one only if its dilation is
/// even.
pub(crate) fn same_padding(kernel: [usize; 3], dilation: [usize; 3]) -> Result<[usize; 3], ConfigError> {
    let reach: [usize; 3] = std::array::from_fn(|axis| (kernel[axis].max(1) - 1) * dilation[axis]);
    if reach.iter().any(|r| r % 2 == 1) {
        return Err(ConfigError::value("kernel_size", kernel, "every axis must be odd"));
    }
    Ok(reach.map(|r| r / 2))
}

impl Convolution {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &ConvolutionOptions) -> Result<Self, ConfigError> {
        let ConvolutionOptions { channels, kernel, stride, dilation, output_padding, bias, transposed, adn, .. } =
            options;
        let padding = options.resolved_padding()?;
        let shape = ConvShape { stride: *stride, padding, dilation: *dilation, groups: 1 };
        let inner = scope.enter("conv");
        let conv = if *transposed {
            let output_padding = output_padding.unwrap_or(stride.map(|s| s - 1));
            Kernel::ConvTranspose(ConvTranspose::new(&inner, *channels, *kernel, shape, output_padding, *bias))
        } else {
            Kernel::Conv(Conv::new(&inner, *channels, *kernel, shape, *bias))
        };
        let adn = adn.as_ref().map(|adn| adn.build(&scope.enter("adn"), channels[1])).transpose()?;
        Ok(Convolution { conv, adn, path: LayerPath::of(scope) })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x', y', z']`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_of(Channels::One(x), None)
    }

    /// Runs the block and adds an optional shortcut to the output.
    pub(crate) fn forward_with_shortcut(&self, x: Tensor<5>, shortcut: Option<Tensor<5>>) -> Tensor<5> {
        self.forward_of(Channels::One(x), shortcut)
    }

    /// Runs the block on channels that may be split over two tensors, and adds an optional shortcut
    /// to the output.
    pub(crate) fn forward_of(&self, x: Channels, shortcut: Option<Tensor<5>>) -> Tensor<5> {
        let _range = self.path.enter(0);
        if let Some(then) = self.in_one_pass(&x, shortcut.as_ref()) {
            return match &self.conv {
                Kernel::Conv(conv) => conv.forward_then(x, then),
                Kernel::ConvTranspose(conv) => conv.forward_then(x, then),
            };
        }
        let x = match &self.conv {
            Kernel::Conv(conv) => conv.forward_of(x),
            Kernel::ConvTranspose(conv) => conv.forward_of(x),
        };
        let x = match &self.adn {
            Some(adn) => adn.forward(x),
            None => x,
        };
        match shortcut {
            Some(shortcut) => residual_sum(x, shortcut),
            None => x,
        }
    }

    /// Runs the block, a norm and an activation on channels that may be split over two tensors.
    pub(crate) fn forward_with(&self, x: Channels, norm: &Option<Norm>, act: &Option<Act>) -> Tensor<5> {
        match &self.conv {
            Kernel::Conv(conv) if self.adn.is_none() => {
                let _range = self.path.enter(0);
                conv.forward_with(x, norm, act)
            }
            _ => norm_then_act(norm, act, self.forward_of(x, None)),
        }
    }

    /// The epilogue of the convolution, if the whole block can run in one pass over the data.
    fn in_one_pass(&self, x: &Channels, shortcut: Option<&Tensor<5>>) -> Option<Then> {
        let weight = match &self.conv {
            Kernel::Conv(conv) => &conv.weight,
            Kernel::ConvTranspose(conv) => &conv.weight,
        };
        if !fuses(x, weight) || !shortcut.is_none_or(is_plain) {
            return None;
        }
        let norm_act = match &self.adn {
            Some(adn) => Some(adn.behind_convolution()?),
            None => None,
        };
        Some(Then { norm_act, plus: shortcut.cloned() })
    }
}
