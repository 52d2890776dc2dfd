//! The convolutional blocks of UNETR and Swin UNETR (`monai.networks.blocks.unetr_block`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::cast;
use hearth_kernels::conv3d::ConvShape;

use super::UnetBlock;
use crate::layers::{ConfigError, ConvTranspose, Convolution, Kernel, LayerPath, LayerSpec, Scope, per_axis};
use crate::named::Named;

/// The options that the blocks of one network share.
#[derive(Clone, Debug)]
pub struct UnetrOptions {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// The norm; `""` for none.
    pub norm_name: LayerSpec,
    /// Whether blocks have a shortcut.
    pub res_block: bool,
}

impl UnetrOptions {
    fn block(&self, scope: &Scope, channels: [usize; 2]) -> Result<UnetBlock, ConfigError> {
        UnetBlock::new(scope, self.spatial_dims, channels, &self.norm_name, self.res_block)
    }

    /// A transposed convolution of kernel and stride 2, without bias, which doubles the size.
    fn double(&self, scope: &Scope, channels: [usize; 2]) -> Convolution {
        let kernel = per_axis(self.spatial_dims, 2, 1);
        let shape = ConvShape { stride: kernel, ..ConvShape::default() };
        let conv = ConvTranspose::new(&scope.enter("conv"), channels, kernel, shape, [0; 3], false);
        Convolution { conv: Kernel::ConvTranspose(conv), adn: None, path: LayerPath::of(scope) }
    }
}

/// A single convolutional block.
#[derive(Module, Debug)]
pub struct UnetrBasicBlock {
    /// The block.
    pub layer: UnetBlock,
}

impl UnetrBasicBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &UnetrOptions, channels: [usize; 2]) -> Result<Self, ConfigError> {
        Ok(UnetrBasicBlock { layer: options.block(&scope.enter("layer"), channels)? })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x, y, z]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.layer.forward(x)
    }
}

/// Doubles the size, appends the encoder's output, and runs a block.
#[derive(Module, Debug)]
pub struct UnetrUpBlock {
    /// The transposed convolution.
    pub transp_conv: Convolution,
    /// The block.
    pub conv_block: UnetBlock,
}

impl UnetrUpBlock {
    /// Builds the block; `skip` has as many channels as the output.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &UnetrOptions, channels: [usize; 2]) -> Result<Self, ConfigError> {
        let output = channels[1];
        Ok(UnetrUpBlock {
            transp_conv: options.double(&scope.enter("transp_conv"), channels),
            conv_block: options.block(&scope.enter("conv_block"), [2 * output, output])?,
        })
    }

    /// Maps `[b, in, x, y, z]` and `[b, out, 2x, 2y, 2z]` to `[b, out, 2x, 2y, 2z]`.
    pub fn forward(&self, x: Tensor<5>, skip: Tensor<5>) -> Tensor<5> {
        let x = self.transp_conv.forward(x);
        let dtype = x.dtype();
        self.conv_block.forward(Tensor::cat(vec![x, cast(skip, dtype)], 1))
    }
}

/// One further doubling: the transposed convolution alone, or followed by a block.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few of them, and modules cannot be boxed")]
enum Doubling {
    Alone(Convolution),
    Block(Named<Step>),
}

/// The two parts of a doubling with a block, named `0` and `1`.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few of them, and modules cannot be boxed")]
enum Step {
    Double(Convolution),
    Block(UnetBlock),
}

/// Upsamples tokens to the size of an encoder's level by repeated doubling.
#[derive(Module, Debug)]
pub struct UnetrPrUpBlock {
    /// The first transposed convolution.
    pub transp_conv_init: Convolution,
    blocks: Named<Doubling>,
}

impl UnetrPrUpBlock {
    /// Builds the block, which doubles the size `1 + num_layer` times. With `conv_block`, a block
    /// follows each doubling but the first.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        options: &UnetrOptions,
        channels: [usize; 2],
        num_layer: usize,
        conv_block: bool,
    ) -> Result<Self, ConfigError> {
        let same = [channels[1]; 2];
        let mut blocks = Vec::with_capacity(num_layer);
        for i in 0..num_layer {
            let (name, inner) = (i.to_string(), scope.enter("blocks").enter(&i.to_string()));
            let doubling = if conv_block {
                let double = Step::Double(options.double(&inner.enter("0"), same));
                let block = Step::Block(options.block(&inner.enter("1"), same)?);
                Doubling::Block(Named::new(vec![("0".to_owned(), double), ("1".to_owned(), block)]))
            } else {
                Doubling::Alone(options.double(&inner, same))
            };
            blocks.push((name, doubling));
        }
        let transp_conv_init = options.double(&scope.enter("transp_conv_init"), channels);
        Ok(UnetrPrUpBlock { transp_conv_init, blocks: Named::new(blocks) })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x 2^n, ...]` with `n = 1 + num_layer`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.blocks.iter().fold(self.transp_conv_init.forward(x), |x, doubling| match doubling {
            Doubling::Alone(double) => double.forward(x),
            Doubling::Block(steps) => steps.iter().fold(x, |x, step| match step {
                Step::Double(double) => double.forward(x),
                Step::Block(block) => block.forward(x),
            }),
        })
    }
}
