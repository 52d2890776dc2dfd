//! The residual and plain blocks of DynUNet (`monai.networks.blocks.dynunet_block`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::normalize::Slope;

use crate::layers::{
    ConfigError, Conv, Convolution, Kernel, LayerPath, LayerSpec, Norm, Scope, activated_sum, leaky_relu, per_axis,
};

/// Slope of the activation for negative inputs.
const SLOPE: f64 = 0.01;

/// A convolution without norm or activation, under the key `conv`, that keeps the size.
fn convolution(scope: &Scope, spatial_dims: usize, channels: [usize; 2], kernel: usize, bias: bool) -> Convolution {
    let padding = per_axis(spatial_dims, (kernel - 1) / 2, 0);
    let shape = ConvShape { padding, ..ConvShape::default() };
    let conv = Conv::new(&scope.enter("conv"), channels, per_axis(spatial_dims, kernel, 1), shape, bias);
    Convolution { conv: Kernel::Conv(conv), adn: None, path: LayerPath::of(scope) }
}

/// Two convolutions of kernel 3 with norm and leaky ReLU; `UnetResBlock` has a shortcut,
/// `UnetBasicBlock` has none.
#[derive(Module, Debug)]
pub struct UnetBlock {
    /// The first convolution.
    pub conv1: Convolution,
    /// The second convolution.
    pub conv2: Convolution,
    /// Norm of the first convolution.
    pub norm1: Option<Norm>,
    /// Norm of the second convolution.
    pub norm2: Option<Norm>,
    /// The shortcut's convolution, if the number of channels changes.
    pub conv3: Option<Convolution>,
    /// Norm of the shortcut.
    pub norm3: Option<Norm>,
    #[module(skip)]
    residual: bool,
}

impl UnetBlock {
    /// Builds the block, with a shortcut if `residual`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        spatial_dims: usize,
        channels: [usize; 2],
        norm_name: &LayerSpec,
        residual: bool,
    ) -> Result<Self, ConfigError> {
        let [input, output] = channels;
        let norm = |name: &str| {
            let wanted = !norm_name.name().is_empty();
            wanted.then(|| Norm::new(&scope.enter(name), norm_name, output)).transpose()
        };
        let conv =
            |name: &str, channels, kernel| convolution(&scope.enter(name), spatial_dims, channels, kernel, false);
        let projects = residual && input != output;
        Ok(UnetBlock {
            conv1: conv("conv1", channels, 3),
            conv2: conv("conv2", [output; 2], 3),
            norm1: norm("norm1")?,
            norm2: norm("norm2")?,
            conv3: projects.then(|| conv("conv3", channels, 1)),
            norm3: if projects { norm("norm3")? } else { None },
            residual,
        })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x, y, z]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let normed = |norm: &Option<Norm>, x| match norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let activated = |norm: &Option<Norm>, x| match norm {
            Some(norm) => norm.forward_then(x, &Slope::Fixed(SLOPE)),
            None => leaky_relu(x, SLOPE),
        };
        let y = self.conv2.forward(activated(&self.norm1, self.conv1.forward(x.clone())));
        if !self.residual {
            return activated(&self.norm2, y);
        }
        let y = normed(&self.norm2, y);
        let shortcut = match &self.conv3 {
            Some(conv) => normed(&self.norm3, conv.forward(x)),
            None => x,
        };
        activated_sum(y, shortcut, SLOPE)
    }
}

/// The output block: a convolution of kernel 1 with bias.
#[derive(Module, Debug)]
pub struct UnetOutBlock {
    /// The convolution.
    pub conv: Convolution,
}

impl UnetOutBlock {
    /// Builds the block.
    pub fn new(scope: &Scope, spatial_dims: usize, channels: [usize; 2]) -> Self {
        UnetOutBlock { conv: convolution(&scope.enter("conv"), spatial_dims, channels, 1, true) }
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x, y, z]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv.forward(x)
    }
}
