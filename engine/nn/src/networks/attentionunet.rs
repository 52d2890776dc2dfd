//! The U-Net with attention gates of `monai.networks.nets.AttentionUnet`.

use burn::module::Module;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::cast;
use hearth_kernels::conv3d::Channels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{instance, nda, prelu, three};
use super::facts::{Facts, by_facts};
use crate::layers::{
    AdnOptions, Axes, BatchNorm, ConfigError, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, LayerSpec,
    Scope, in_space, residual_sum,
};
use crate::named::Named;
use crate::trace::{self, Op};

/// Options of [`AttentionUnet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct AttentionUnetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Number of channels of each level, top first; at least two.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Strides between levels, one less than `channels`; further ones are ignored.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel of the convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Kernel of the transposed convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub up_kernel_size: Axes,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
}

impl AttentionUnetConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(
        spatial_dims: usize,
        in_channels: usize,
        out_channels: usize,
        channels: &[usize],
        strides: &[usize],
    ) -> Self {
        AttentionUnetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            channels: channels.to_vec(),
            strides: strides.iter().copied().map(Axes::All).collect(),
            kernel_size: three(),
            up_kernel_size: three(),
            dropout: DropoutSpec::default(),
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AttentionUnet, ConfigError> {
        let mut facts = Facts::new("AttentionUnet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        if self.channels.len() < 2 || self.channels.contains(&0) {
            let expected = "expected at least two levels, each of at least 1";
            return Err(ConfigError::value("channels", &self.channels, expected));
        }
        // A gate has half the width of its level.
        if self.channels[..self.channels.len() - 1].contains(&1) {
            return Err(ConfigError::value("channels", &self.channels, "only the lowest level may have a single one"));
        }
        let levels = self.channels.len() - 1;
        if self.strides.len() < levels {
            return Err(ConfigError::value(
                "strides",
                &self.strides,
                format!("expected {levels}, one less than channels"),
            ));
        }
        let strides = self.strides[..levels].iter().map(|s| s.positive("strides", self.spatial_dims));
        let strides = strides.collect::<Result<Vec<_>, _>>()?;
        for stride in &strides {
            facts.divisor.iter_mut().zip(stride).for_each(|(d, s)| *d *= s);
        }
        let builder = Builder {
            spatial_dims: self.spatial_dims,
            channels: &self.channels,
            strides: &strides,
            kernel: self.kernel_size.positive("kernel_size", self.spatial_dims)?,
            up_kernel: self.up_kernel_size.positive("up_kernel_size", self.spatial_dims)?,
            dropout: self.dropout.clone(),
            clock: facts.clock.clone(),
        };
        let scope = Scope::new(device, seed).enter("model");
        let top = self.channels[0];
        let head = builder.conv_block(&scope.enter("0"), [self.in_channels, top], [1; 3])?;
        let inside = builder.layer(&scope.enter("1"), 0)?;
        let reduce = ConvolutionOptions::new([top, self.out_channels], [1; 3]);
        let reduce = Convolution::new(&scope.enter("2"), &reduce)?;
        let model = Named::numbered([Block::Convs(head), Block::Attention(inside), Block::Convolution(reduce)]);
        Ok(AttentionUnet { model, facts })
    }
}

/// Two convolutions, each with batch norm and ReLU.
#[derive(Module, Debug)]
struct ConvBlock {
    conv: Named<Convolution>,
}

impl ConvBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv.iter().fold(x, |x, conv| conv.forward(x))
    }
}

#[derive(Module, Debug)]
struct UpConv {
    up: Convolution,
}

/// A convolution of kernel 1 and batch norm.
#[derive(Module, Debug)]
enum Projection {
    Convolution(Convolution),
    Norm(BatchNorm),
}

fn project(projection: &Named<Projection>, x: Tensor<5>) -> Tensor<5> {
    projection.iter().fold(x, |x, layer| match layer {
        Projection::Convolution(conv) => conv.forward(x),
        Projection::Norm(norm) => norm.forward(x),
    })
}

/// An attention gate, which weights the skip by the features from below.
#[derive(Module, Debug)]
struct AttentionBlock {
    /// `W_g` in the state dict.
    w_g: Named<Projection>,
    /// `W_x` in the state dict.
    w_x: Named<Projection>,
    psi: Named<Projection>,
}

impl AttentionBlock {
    fn forward(&self, below: Tensor<5>, skip: Tensor<5>) -> Tensor<5> {
        let both = residual_sum(project(&self.w_g, below), project(&self.w_x, skip.clone()));
        let taken = trace::inputs([&both]);
        let both = trace::note(taken, "", || Op::LeakyRelu { slope: 0.0 }, relu(both));
        let score = project(&self.psi, both);
        let taken = trace::inputs([&score]);
        let weight = trace::note(taken, "", || Op::Activation { name: "sigmoid", alpha: 0.0 }, sigmoid(score));
        let dtype = weight.dtype();
        let taken = trace::inputs([&skip, &weight]);
        trace::note(taken, "", || Op::Product, cast(skip, dtype) * weight)
    }
}

/// One level: the upsampled features from below, concatenated with the weighted skip features.
#[derive(Module, Debug)]
struct AttentionLayer {
    attention: AttentionBlock,
    upconv: UpConv,
    merge: Convolution,
    submodule: Below,
}

/// The part below a level.
#[derive(Module, Debug)]
enum Below {
    Bottom(ConvBlock),
    Sequence(Named<Block>),
}

/// One entry of a sequence.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Block {
    Convs(ConvBlock),
    Attention(AttentionLayer),
    Convolution(Convolution),
}

fn run(blocks: &Named<Block>, x: Tensor<5>) -> Tensor<5> {
    blocks.iter().fold(x, |x, block| match block {
        Block::Convs(block) => block.forward(x),
        Block::Attention(layer) => layer.forward(x),
        Block::Convolution(conv) => conv.forward(x),
    })
}

impl AttentionLayer {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let below = match &self.submodule {
            Below::Bottom(block) => block.forward(x.clone()),
            Below::Sequence(blocks) => run(blocks, x.clone()),
        };
        let raised = self.upconv.up.forward(below);
        let weighed = self.attention.forward(raised.clone(), x);
        self.merge.forward_of(Channels::Two(weighed, raised), None)
    }
}

/// A U-Net whose skips are weighted by attention gates (Oktay et al.,
/// <https://arxiv.org/abs/1804.03999>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by the product of its
/// strides.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{AttentionUnetConfig, Network};
/// let net = AttentionUnetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default())).dims(), [1, 2, 8, 8, 8]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AttentionUnet {
    model: Named<Block>,
    #[module(skip)]
    facts: Facts,
}

impl Network for AttentionUnet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        run(&self.model, x)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.replace(".w_g.", ".W_g.").replace(".w_x.", ".W_x."))
    }
}

struct Builder<'a> {
    spatial_dims: usize,
    channels: &'a [usize],
    strides: &'a [[usize; 3]],
    kernel: [usize; 3],
    up_kernel: [usize; 3],
    dropout: DropoutSpec,
    clock: DropoutClock,
}

impl Builder<'_> {
    fn adn(&self, act: Option<LayerSpec>, norm: Option<LayerSpec>, dropout: &DropoutSpec) -> Option<AdnOptions> {
        Some(AdnOptions { ordering: nda(), act, norm, dropout: Some(dropout.clone()), clock: self.clock.clone() })
    }

    fn conv_block(&self, scope: &Scope, channels: [usize; 2], stride: [usize; 3]) -> Result<ConvBlock, ConfigError> {
        let [input, output] = channels;
        let scope = scope.enter("conv");
        let conv = |name: &str, input: usize, stride: [usize; 3]| {
            let adn = self.adn(Some("relu".into()), Some("batch".into()), &self.dropout);
            let options = ConvolutionOptions { stride, adn, ..ConvolutionOptions::new([input, output], self.kernel) };
            Convolution::new(&scope.enter(name), &options)
        };
        Ok(ConvBlock { conv: Named::numbered([conv("0", input, stride)?, conv("1", output, [1; 3])?]) })
    }

    fn projection(&self, scope: &Scope, channels: [usize; 2]) -> Result<Named<Projection>, ConfigError> {
        let conv = Convolution::new(&scope.enter("0"), &ConvolutionOptions::new(channels, [1; 3]))?;
        let norm = BatchNorm::new(&scope.enter("1"), channels[1], 1e-5, 0.1, true);
        Ok(Named::numbered([Projection::Convolution(conv), Projection::Norm(norm)]))
    }

    fn layer(&self, scope: &Scope, level: usize) -> Result<AttentionLayer, ConfigError> {
        let (own, below, stride) = (self.channels[level], self.channels[level + 1], self.strides[level]);
        let gate = scope.enter("attention");
        let inside = scope.enter("submodule");
        let submodule = if level + 2 == self.channels.len() {
            Below::Bottom(self.conv_block(&inside, [own, below], stride)?)
        } else {
            let down = self.conv_block(&inside.enter("0"), [own, below], stride)?;
            let next = self.layer(&inside.enter("1"), level + 1)?;
            Below::Sequence(Named::numbered([Block::Convs(down), Block::Attention(next)]))
        };
        let up = ConvolutionOptions {
            stride,
            transposed: true,
            adn: self.adn(Some("relu".into()), Some("batch".into()), &DropoutSpec::default()),
            ..ConvolutionOptions::new([below, own], self.up_kernel)
        };
        let merge = ConvolutionOptions {
            adn: self.adn(prelu(), instance(), &self.dropout),
            ..ConvolutionOptions::new([2 * own, own], in_space(self.spatial_dims, 3))
        };
        Ok(AttentionLayer {
            attention: AttentionBlock {
                w_g: self.projection(&gate.enter("W_g"), [own, own / 2])?,
                w_x: self.projection(&gate.enter("W_x"), [own, own / 2])?,
                psi: self.projection(&gate.enter("psi"), [own / 2, 1])?,
            },
            upconv: UpConv { up: Convolution::new(&scope.enter("upconv").enter("up"), &up)? },
            merge: Convolution::new(&scope.enter("merge"), &merge)?,
            submodule,
        })
    }
}

network_entry!(AttentionUnetConfig {
    name: "AttentionUnet",
    aliases: &[],
    about: "Segmentation: U-Net with attention gates on its skips.",
    paper: "Oktay et al. 2018, arXiv:1804.03999",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
channels = [16, 32, 64, 128, 256]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
