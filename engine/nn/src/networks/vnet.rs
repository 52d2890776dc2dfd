//! The V-Net of `monai.networks.nets.VNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Network;
use super::defaults::{nda, one, three_dims};
use super::facts::{Facts, by_facts};
use crate::layers::{
    Act, AdnOptions, BatchNorm, ConfigError, Conv, ConvTranspose, Convolution, ConvolutionOptions, Dropout,
    DropoutClock, LayerSpec, Scope, in_space,
};
use crate::named::Named;
use crate::trace::{self, Op, concat};

/// Options of [`VNet`]: MONAI's parameters and defaults, and two values that are constants in MONAI.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields, default)]
#[setters(strip_option)]
pub struct VNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image, a divisor of `base`.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// The activation. The name `"prelu"` without arguments has a slope per channel.
    #[setters(into)]
    pub act: LayerSpec,
    /// Dropout probability of the two lowest down levels; null for none.
    pub dropout_prob_down: Option<f64>,
    /// Dropout probabilities of the two lowest up levels: of the features from below (null for
    /// none), and of the skip.
    pub dropout_prob_up: (Option<f64>, f64),
    /// Unit of dropout: 1 for elements, 2 or 3 for whole channels.
    pub dropout_dim: usize,
    /// Whether the convolutions of the down path and at both ends have a bias.
    pub bias: bool,
    /// Number of channels of the first level; 16 in MONAI.
    pub base: usize,
    /// Dropout probability of the skips of the two highest up levels; 0.5 in MONAI.
    pub dropout_prob_top: f64,
}

impl Default for VNetConfig {
    fn default() -> Self {
        VNetConfig {
            spatial_dims: three_dims(),
            in_channels: one(),
            out_channels: one(),
            act: "elu".into(),
            dropout_prob_down: Some(0.5),
            dropout_prob_up: (Some(0.5), 0.5),
            dropout_dim: 3,
            bias: false,
            base: 16,
            dropout_prob_top: 0.5,
        }
    }
}

impl VNetConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<VNet, ConfigError> {
        let channels = [self.in_channels, self.out_channels];
        let facts = Facts::new("VNet", self.spatial_dims, channels)?.divisible_by(16);
        if self.base == 0 || !self.base.is_multiple_of(self.in_channels) {
            let expected = format!("{} first channels must be divisible by it", self.base);
            return Err(ConfigError::value("in_channels", self.in_channels, expected));
        }
        if !(1..=3).contains(&self.dropout_dim) {
            return Err(ConfigError::value("dropout_dim", self.dropout_dim, "expected 1, 2 or 3"));
        }
        let builder = Builder { config: self, clock: &facts.clock };
        let n = self.base;
        let root = Scope::new(device, seed);
        let scope = |name: &str| root.enter(name);
        let lowest = self.dropout_prob_up;
        let highest = (None, self.dropout_prob_top);
        Ok(VNet {
            in_tr: builder.input(&scope("in_tr"), n)?,
            down_tr32: builder.down(&scope("down_tr32"), n, 1, None)?,
            down_tr64: builder.down(&scope("down_tr64"), 2 * n, 2, None)?,
            down_tr128: builder.down(&scope("down_tr128"), 4 * n, 3, self.dropout_prob_down)?,
            down_tr256: builder.down(&scope("down_tr256"), 8 * n, 2, self.dropout_prob_down)?,
            up_tr256: builder.up(&scope("up_tr256"), [16 * n, 16 * n], 2, lowest)?,
            up_tr128: builder.up(&scope("up_tr128"), [16 * n, 8 * n], 2, lowest)?,
            up_tr64: builder.up(&scope("up_tr64"), [8 * n, 4 * n], 1, highest)?,
            up_tr32: builder.up(&scope("up_tr32"), [4 * n, 2 * n], 1, highest)?,
            out_tr: builder.output(&scope("out_tr"), 2 * n)?,
            facts,
        })
    }
}

/// A convolution of kernel 5 with batch norm and activation.
#[derive(Module, Debug)]
struct LuConv {
    act_function: Act,
    conv_block: Convolution,
}

impl LuConv {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.act_function.forward(self.conv_block.forward(x))
    }
}

/// The first level: a convolution whose result is added to the repeated image before the
/// activation.
#[derive(Module, Debug)]
struct InputTransition {
    act_function: Act,
    conv_block: Convolution,
    #[module(skip)]
    repeats: usize,
}

/// A down level, which halves the axes and doubles the channels.
#[derive(Module, Debug)]
struct DownTransition {
    down_conv: Conv,
    bn1: BatchNorm,
    act_function1: Act,
    act_function2: Act,
    ops: Named<LuConv>,
    dropout: Option<Dropout>,
}

impl DownTransition {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let down = self.act_function1.forward(self.bn1.forward(self.down_conv.forward(x)));
        let out = self.dropout.iter().fold(down.clone(), |x, dropout| dropout.forward(x));
        let out = self.ops.iter().fold(out, |x, op| op.forward(x));
        self.act_function2.forward_sum(out, down)
    }
}

/// An up level, which doubles the axes and concatenates the skip features.
#[derive(Module, Debug)]
struct UpTransition {
    up_conv: ConvTranspose,
    bn1: BatchNorm,
    dropout: Option<Dropout>,
    dropout2: Dropout,
    act_function1: Act,
    act_function2: Act,
    ops: Named<LuConv>,
}

impl UpTransition {
    fn forward(&self, x: Tensor<5>, skip: Tensor<5>) -> Tensor<5> {
        let out = self.dropout.iter().fold(x, |x, dropout| dropout.forward(x));
        let skip = self.dropout2.forward(skip);
        let out = self.act_function1.forward(self.bn1.forward(self.up_conv.forward(out)));
        let dtype = out.dtype();
        let both = concat(out, skip, dtype);
        let out = self.ops.iter().fold(both.clone(), |x, op| op.forward(x));
        self.act_function2.forward_sum(out, both)
    }
}

/// The output block, which maps to the classes.
#[derive(Module, Debug)]
struct OutputTransition {
    act_function1: Act,
    conv_block: Convolution,
    conv2: Conv,
}

/// A V-Net (Milletari et al., <https://arxiv.org/abs/1606.04797>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by 16.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, VNetConfig};
/// let net = VNetConfig { base: 1, out_channels: 2, ..VNetConfig::default() }.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 16], &Device::default())).dims(), [1, 2, 16, 16, 16]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct VNet {
    in_tr: InputTransition,
    down_tr32: DownTransition,
    down_tr64: DownTransition,
    down_tr128: DownTransition,
    down_tr256: DownTransition,
    up_tr256: UpTransition,
    up_tr128: UpTransition,
    up_tr64: UpTransition,
    up_tr32: UpTransition,
    out_tr: OutputTransition,
    #[module(skip)]
    facts: Facts,
}

impl Network for VNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let convolved = self.in_tr.conv_block.forward(x.clone());
        let taken = trace::inputs([&x]);
        let repeated = x.repeat_dim(1, self.in_tr.repeats);
        let repeated = trace::note(taken, "", || Op::Repeat { times: self.in_tr.repeats }, repeated);
        let out16 = self.in_tr.act_function.forward_sum(convolved, repeated);
        let out32 = self.down_tr32.forward(out16.clone());
        let out64 = self.down_tr64.forward(out32.clone());
        let out128 = self.down_tr128.forward(out64.clone());
        let out256 = self.down_tr256.forward(out128.clone());
        let x = self.up_tr256.forward(out256, out128);
        let x = self.up_tr128.forward(x, out64);
        let x = self.up_tr64.forward(x, out32);
        let x = self.up_tr32.forward(x, out16);
        let x = self.out_tr.act_function1.forward(self.out_tr.conv_block.forward(x));
        self.out_tr.conv2.forward(x)
    }
}

struct Builder<'a> {
    config: &'a VNetConfig,
    clock: &'a DropoutClock,
}

impl Builder<'_> {
    fn act(&self, scope: &Scope, name: &str, channels: usize) -> Result<Act, ConfigError> {
        let scope = scope.enter(name);
        match &self.config.act {
            LayerSpec::Name(name) if name == "prelu" => {
                Act::new(&scope, &LayerSpec::with("prelu", &[("num_parameters", json!(channels))]))
            }
            spec => Act::new(&scope, spec),
        }
    }

    fn conv_block(&self, scope: &Scope, channels: [usize; 2], bias: bool) -> Result<Convolution, ConfigError> {
        let clock = self.clock.clone();
        let adn = AdnOptions { ordering: nda(), act: None, norm: Some("batch".into()), dropout: None, clock };
        let kernel = in_space(self.config.spatial_dims, 5);
        let options = ConvolutionOptions { bias, adn: Some(adn), ..ConvolutionOptions::new(channels, kernel) };
        Convolution::new(&scope.enter("conv_block"), &options)
    }

    fn lu_convs(&self, scope: &Scope, channels: usize, count: usize, bias: bool) -> Result<Named<LuConv>, ConfigError> {
        let scope = scope.enter("ops");
        let convs = (0..count).map(|i| {
            let scope = scope.enter(&i.to_string());
            Ok(LuConv {
                act_function: self.act(&scope, "act_function", channels)?,
                conv_block: self.conv_block(&scope, [channels; 2], bias)?,
            })
        });
        Ok(Named::numbered(convs.collect::<Result<Vec<_>, ConfigError>>()?))
    }

    fn batch_norm(&self, scope: &Scope, channels: usize) -> BatchNorm {
        BatchNorm::new(&scope.enter("bn1"), channels, 1e-5, 0.1, true)
    }

    fn dropout(&self, scope: &Scope, name: &str, p: f64) -> Result<Dropout, ConfigError> {
        let dropout = Dropout::new(scope.enter(name).path(), p, self.clock)?;
        Ok(if self.config.dropout_dim == 1 { dropout } else { dropout.by_channel() })
    }

    /// A convolution of kernel and stride 2.
    fn halving(&self) -> ([usize; 3], ConvShape) {
        let kernel = in_space(self.config.spatial_dims, 2);
        (kernel, ConvShape { stride: kernel, ..ConvShape::default() })
    }

    fn input(&self, scope: &Scope, output: usize) -> Result<InputTransition, ConfigError> {
        Ok(InputTransition {
            act_function: self.act(scope, "act_function", output)?,
            conv_block: self.conv_block(scope, [self.config.in_channels, output], self.config.bias)?,
            repeats: output / self.config.in_channels,
        })
    }

    fn down(&self, scope: &Scope, input: usize, convs: usize, p: Option<f64>) -> Result<DownTransition, ConfigError> {
        let output = 2 * input;
        let (kernel, shape) = self.halving();
        Ok(DownTransition {
            down_conv: Conv::new(&scope.enter("down_conv"), [input, output], kernel, shape, self.config.bias),
            bn1: self.batch_norm(scope, output),
            act_function1: self.act(scope, "act_function1", output)?,
            act_function2: self.act(scope, "act_function2", output)?,
            ops: self.lu_convs(scope, output, convs, self.config.bias)?,
            dropout: p.map(|p| self.dropout(scope, "dropout", p)).transpose()?,
        })
    }

    fn up(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        convs: usize,
        (p, p_skip): (Option<f64>, f64),
    ) -> Result<UpTransition, ConfigError> {
        let [input, output] = channels;
        let half = output / 2;
        let (kernel, shape) = self.halving();
        Ok(UpTransition {
            up_conv: ConvTranspose::new(&scope.enter("up_conv"), [input, half], kernel, shape, [0; 3], true),
            bn1: self.batch_norm(scope, half),
            dropout: p.map(|p| self.dropout(scope, "dropout", p)).transpose()?,
            dropout2: self.dropout(scope, "dropout2", p_skip)?,
            act_function1: self.act(scope, "act_function1", half)?,
            act_function2: self.act(scope, "act_function2", output)?,
            // MONAI uses no bias here, regardless of `bias`.
            ops: self.lu_convs(scope, output, convs, false)?,
        })
    }

    fn output(&self, scope: &Scope, input: usize) -> Result<OutputTransition, ConfigError> {
        let classes = self.config.out_channels;
        Ok(OutputTransition {
            act_function1: self.act(scope, "act_function1", classes)?,
            conv_block: self.conv_block(scope, [input, classes], self.config.bias)?,
            conv2: Conv::new(&scope.enter("conv2"), [classes; 2], [1; 3], ConvShape::default(), true),
        })
    }
}

network_entry!(VNetConfig {
    name: "VNet",
    aliases: &[],
    about: "Segmentation: residual encoder and decoder, kernels of 5.",
    paper: "Milletari et al. 2016, arXiv:1606.04797",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
