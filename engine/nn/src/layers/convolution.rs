//! A convolution, plain or transposed, and what follows it (`monai.networks.blocks.Convolution`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;

use super::{Adn, AdnOptions, ConfigError, Conv, ConvTranspose, Scope};

/// The two kinds of convolution.
#[derive(Module, Debug)]
pub enum Kernel {
    /// `torch.nn.Conv3d`
    Conv(Conv),
    /// `torch.nn.ConvTranspose3d`
    ConvTranspose(ConvTranspose),
}

/// Convolution, then activation, dropout and norm.
#[derive(Module, Debug)]
pub struct Convolution {
    /// The convolution.
    pub conv: Kernel,
    /// What follows, if anything.
    pub adn: Option<Adn>,
}

/// How to build a [`Convolution`].
#[derive(Clone, Debug)]
pub struct ConvolutionOptions {
    /// Input and output channels.
    pub channels: [usize; 2],
    /// Kernel per axis, odd.
    pub kernel: [usize; 3],
    /// Stride per axis.
    pub stride: [usize; 3],
    /// Whether the convolution has a bias.
    pub bias: bool,
    /// Transposed, with output padding `stride - 1`: the output is `stride` times as large.
    pub transposed: bool,
    /// What follows; `None` for the convolution alone.
    pub adn: Option<AdnOptions>,
}

/// Padding that keeps the size at stride 1; only odd kernels have one.
pub(crate) fn same_padding(kernel: [usize; 3]) -> Result<[usize; 3], ConfigError> {
    if kernel.iter().any(|k| k % 2 == 0) {
        return Err(ConfigError::value("kernel_size", kernel, "every axis must be odd"));
    }
    Ok(kernel.map(|k| (k - 1) / 2))
}

impl Convolution {
    /// Builds the block.
    pub fn new(scope: &Scope, options: &ConvolutionOptions) -> Result<Self, ConfigError> {
        let ConvolutionOptions { channels, kernel, stride, bias, transposed, adn } = options;
        let shape = ConvShape { stride: *stride, padding: same_padding(*kernel)?, ..ConvShape::default() };
        let inner = scope.enter("conv");
        let conv = if *transposed {
            let output_padding = stride.map(|s| s - 1);
            Kernel::ConvTranspose(ConvTranspose::new(&inner, *channels, *kernel, shape, output_padding, *bias))
        } else {
            Kernel::Conv(Conv::new(&inner, *channels, *kernel, shape, *bias))
        };
        let adn = adn.as_ref().map(|adn| adn.build(&scope.enter("adn"), channels[1])).transpose()?;
        Ok(Convolution { conv, adn })
    }

    /// `[b, in, x, y, z]` to `[b, out, x', y', z']`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = match &self.conv {
            Kernel::Conv(conv) => conv.forward(x),
            Kernel::ConvTranspose(conv) => conv.forward(x),
        };
        match &self.adn {
            Some(adn) => adn.forward(x),
            None => x,
        }
    }
}
