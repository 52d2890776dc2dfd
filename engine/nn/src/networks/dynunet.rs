//! The U-Net of nnU-Net: `monai.networks.nets.DynUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::Channels;
use hearth_kernels::{InterpolateMode, cast};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{affine_instance, leaky_relu, one};
use super::facts::{Facts, by_facts};
use crate::layers::{
    Act, AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutSpec, Init, LayerSpec, Norm, Scope,
    act, norm, residual_sum, resize,
};
use crate::named::Named;

/// Options of [`DynUNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct DynUNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Kernel of each level, top first; at least three levels.
    #[setters(into)]
    pub kernel_size: Vec<Axes>,
    /// Stride of each level, as many as kernels. The first is that of the input block, by which the
    /// output is smaller than the image.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel and stride of the transposed convolutions: `strides` without the first.
    #[setters(into)]
    pub upsample_kernel_size: Vec<Axes>,
    /// Number of channels of each level; null for 32, 64, ... up to 320 in 3-D and 512 in 2-D.
    #[serde(default)]
    #[setters(into)]
    pub filters: Option<Vec<usize>>,
    /// Dropout probability after every convolution; null for none.
    #[serde(default)]
    #[setters(into)]
    pub dropout: Option<DropoutSpec>,
    /// The norm.
    #[serde(default = "affine_instance")]
    #[setters(into)]
    pub norm_name: Option<LayerSpec>,
    /// The activation.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub act_name: Option<LayerSpec>,
    /// Whether lower levels have their own outputs in training.
    #[serde(default)]
    pub deep_supervision: bool,
    /// Number of lower levels with outputs.
    #[serde(default = "one")]
    pub deep_supr_num: usize,
    /// Whether blocks have a shortcut.
    #[serde(default)]
    pub res_block: bool,
    /// Whether transposed convolutions have a bias.
    #[serde(default)]
    pub trans_bias: bool,
}

fn leaky() -> Option<LayerSpec> {
    leaky_relu(0.01)
}

impl DynUNetConfig {
    /// Options with MONAI's defaults for everything else. `strides` without the first are the
    /// kernels of the transposed convolutions.
    pub fn new(
        spatial_dims: usize,
        in_channels: usize,
        out_channels: usize,
        kernels: &[usize],
        strides: &[usize],
    ) -> Self {
        let axes = |numbers: &[usize]| numbers.iter().copied().map(Axes::All).collect();
        DynUNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            kernel_size: axes(kernels),
            strides: axes(strides),
            upsample_kernel_size: axes(strides.get(1..).unwrap_or_default()),
            filters: None,
            dropout: None,
            norm_name: affine_instance(),
            act_name: leaky(),
            deep_supervision: false,
            deep_supr_num: 1,
            res_block: false,
            trans_bias: false,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<DynUNet, ConfigError> {
        let mut facts = Facts::new("DynUNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let levels = self.strides.len();
        if levels < 3 || self.kernel_size.len() != levels {
            let given = (self.kernel_size.len(), levels);
            return Err(ConfigError::value(
                "lengths of kernel_size and strides",
                given,
                "both must be the same, at least 3",
            ));
        }
        let resolve = |name: &str, axes: &[Axes]| -> Result<Vec<[usize; 3]>, ConfigError> {
            axes.iter().map(|axes| axes.positive(name, self.spatial_dims)).collect()
        };
        let kernels = resolve("kernel_size", &self.kernel_size)?;
        let strides = resolve("strides", &self.strides)?;
        let up = resolve("upsample_kernel_size", &self.upsample_kernel_size)?;
        if up != strides[1..] {
            return Err(ConfigError::value(
                "upsample_kernel_size",
                up,
                format!("expected {:?}, as strides", &strides[1..]),
            ));
        }
        for stride in &strides {
            facts.divisor.iter_mut().zip(stride).for_each(|(d, s)| *d *= s);
        }
        let filters = self.checked_filters(levels)?;
        if self.deep_supervision && !(1..levels - 1).contains(&self.deep_supr_num) {
            let expected = format!("expected 1 to {}, less than the number of upsamplings", levels - 2);
            return Err(ConfigError::value("deep_supr_num", self.deep_supr_num, expected));
        }
        let scope = Scope::new(device, seed).with_init(Init::KaimingLeaky(0.01));
        let builder = Builder { config: self, facts: &facts };
        let (down, last) = (scope.enter("downsamples"), levels - 1);
        let downsamples = (1..last).map(|i| {
            let scope = down.enter(&(i - 1).to_string());
            builder.block(&scope, [filters[i - 1], filters[i]], kernels[i], strides[i], self.res_block)
        });
        let downsamples = Named::numbered(downsamples.collect::<Result<Vec<_>, _>>()?);
        let up = scope.enter("upsamples");
        let upsamples = (0..last).map(|i| {
            let level = last - 1 - i;
            let channels = [filters[level + 1], filters[level]];
            builder.up_block(&up.enter(&i.to_string()), channels, kernels[level + 1], strides[level + 1])
        });
        let upsamples = Named::numbered(upsamples.collect::<Result<Vec<_>, _>>()?);
        let head = scope.enter("deep_supervision_heads");
        let heads = if self.deep_supervision { self.deep_supr_num } else { 0 };
        let heads = (0..heads).map(|i| builder.out_block(&head.enter(&i.to_string()), filters[i + 1]));
        let input = [self.in_channels, filters[0]];
        Ok(DynUNet {
            input_block: builder.block(&scope.enter("input_block"), input, kernels[0], strides[0], self.res_block)?,
            downsamples,
            bottleneck: builder.block(
                &scope.enter("bottleneck"),
                [filters[last - 1], filters[last]],
                kernels[last],
                strides[last],
                self.res_block,
            )?,
            upsamples,
            output_block: builder.out_block(&scope.enter("output_block"), filters[0])?,
            deep_supervision_heads: Named::numbered(heads.collect::<Result<Vec<_>, _>>()?),
            facts,
        })
    }

    fn checked_filters(&self, levels: usize) -> Result<Vec<usize>, ConfigError> {
        let most = if self.spatial_dims == 3 { 320 } else { 512 };
        let filters = match &self.filters {
            Some(filters) => filters.iter().copied().take(levels).collect::<Vec<_>>(),
            None => (0..levels).map(|i| (32_usize << i.min(5)).min(most)).collect(),
        };
        if filters.len() < levels || filters.contains(&0) {
            return Err(ConfigError::value("filters", filters, format!("expected {levels} numbers, each at least 1")));
        }
        Ok(filters)
    }
}

/// Two convolutions with norm and activation. A residual block that changes the shape has a third
/// convolution as its shortcut.
#[derive(Module, Debug)]
struct UnetBlock {
    conv1: Convolution,
    conv2: Convolution,
    lrelu: Option<Act>,
    norm1: Option<Norm>,
    norm2: Option<Norm>,
    conv3: Option<Convolution>,
    norm3: Option<Norm>,
    #[module(skip)]
    residual: bool,
}

impl UnetBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if !self.residual {
            return self.forward_of(Channels::One(x));
        }
        let out = self.normed(Channels::One(x.clone()), &None);
        let shortcut = match &self.conv3 {
            Some(conv) => conv.forward_with(Channels::One(x), &self.norm3, &None),
            None => x,
        };
        match &self.lrelu {
            Some(act) => act.forward_sum(out, shortcut),
            None => residual_sum(out, shortcut),
        }
    }

    /// Runs a block without shortcut on channels that may be split over two tensors.
    fn forward_of(&self, x: Channels) -> Tensor<5> {
        self.normed(x, &self.lrelu)
    }

    /// Runs both convolutions with their norms; `last` is applied after the second.
    fn normed(&self, x: Channels, last: &Option<Act>) -> Tensor<5> {
        let first = self.conv1.forward_with(x, &self.norm1, &self.lrelu);
        self.conv2.forward_with(Channels::One(first), &self.norm2, last)
    }
}

/// Transposed convolution, concatenation with the encoder's features, and a plain block.
#[derive(Module, Debug)]
struct UnetUpBlock {
    transp_conv: Convolution,
    conv_block: UnetBlock,
}

/// A convolution of kernel 1 to the classes.
#[derive(Module, Debug)]
struct UnetOutBlock {
    conv: Convolution,
}

/// The U-Net of nnU-Net (Isensee et al., <https://arxiv.org/abs/1809.10486>): kernels and strides
/// per level and axis, optional shortcuts and deep supervision.
///
/// `[b, in, x, y, z]` to `[b, out, x / s, y / s, z / s]` with `s` the first stride; each axis must
/// be divisible by the product of its strides. In training with deep supervision `forward_all` adds
/// the outputs of lower levels, highest first, resized (nearest) to that size.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{DynUNetConfig, Network};
/// let config = DynUNetConfig { filters: Some(vec![4, 6, 8]), ..DynUNetConfig::new(3, 1, 2, &[3, 3, 3], &[1, 2, 2]) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default())).dims(), [1, 2, 8, 8, 8]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct DynUNet {
    input_block: UnetBlock,
    downsamples: Named<UnetBlock>,
    bottleneck: UnetBlock,
    upsamples: Named<UnetUpBlock>,
    output_block: UnetOutBlock,
    deep_supervision_heads: Named<UnetOutBlock>,
    #[module(skip)]
    facts: Facts,
}

impl DynUNet {
    /// The output, and the outputs of lower levels at their own size.
    fn outputs(&self, x: Tensor<5>) -> (Tensor<5>, Vec<Tensor<5>>) {
        self.facts.clock.next_pass();
        let mut skips = vec![self.input_block.forward(x)];
        for block in self.downsamples.iter() {
            let above = skips[skips.len() - 1].clone();
            skips.push(block.forward(above));
        }
        let mut x = self.bottleneck.forward(skips[skips.len() - 1].clone());
        let heads: Vec<_> = self.deep_supervision_heads.iter().collect();
        let mut lower = Vec::new();
        for up in self.upsamples.iter() {
            let Some(skip) = skips.pop() else { break };
            let raised = up.transp_conv.forward(x);
            let dtype = raised.dtype();
            x = up.conv_block.forward_of(Channels::Two(raised, cast(skip, dtype)));
            // The current level; the top level has the main output.
            if let Some(head) = skips.len().checked_sub(1).and_then(|i| heads.get(i)) {
                lower.insert(0, head.conv.forward(x.clone()));
            }
        }
        (self.output_block.conv.forward(x), lower)
    }
}

impl Network for DynUNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.outputs(x).0
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let training = x.is_autodiff();
        let (main, lower) = self.outputs(x);
        let [_, _, dx, dy, dz] = main.dims();
        let mut all = vec![main];
        if training {
            all.extend(lower.into_iter().map(|y| resize(y, [dx, dy, dz], InterpolateMode::Nearest, false)));
        }
        all
    }

    /// MONAI registers every block a second time, in the chain of skip layers that runs the block.
    fn torch_aliases(&self, path: &str) -> Vec<String> {
        let levels = self.upsamples.len();
        let layer = |level: usize| format!("skip_layers{}", ".next_layer".repeat(level));
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let numbered = rest.split_once('.').and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
        let alias = match (first, numbered) {
            ("input_block", _) => format!("{}.downsample.{rest}", layer(0)),
            ("bottleneck", _) => format!("{}.{rest}", layer(levels)),
            ("downsamples", Some((i, rest))) => format!("{}.downsample.{rest}", layer(i + 1)),
            ("upsamples", Some((i, rest))) => format!("{}.upsample.{rest}", layer(levels - 1 - i)),
            ("deep_supervision_heads", Some((i, rest))) => format!("{}.super_head.{rest}", layer(i + 1)),
            _ => return Vec::new(),
        };
        vec![alias]
    }
}

struct Builder<'a> {
    config: &'a DynUNetConfig,
    facts: &'a Facts,
}

impl Builder<'_> {
    /// Convolution and dropout, with nnU-Net's padding.
    fn conv(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
    ) -> Result<ConvolutionOptions, ConfigError> {
        let mut padding = [0; 3];
        for axis in 0..3 {
            padding[axis] = (kernel[axis] + 1).checked_sub(stride[axis]).map(|both| both / 2).ok_or_else(|| {
                let expected =
                    format!("`{}` has stride {stride:?}, and a kernel may be shorter by one at most", scope.path());
                ConfigError::value("kernel_size", kernel, expected)
            })?;
        }
        let adn = AdnOptions {
            ordering: "NDA".to_owned(),
            act: None,
            norm: None,
            dropout: self.config.dropout.clone(),
            clock: self.facts.clock.clone(),
        };
        let adn = self.config.dropout.is_some().then_some(adn);
        let base = ConvolutionOptions::new(channels, kernel);
        Ok(ConvolutionOptions { stride, padding: Some(padding), bias: false, adn, ..base })
    }

    fn block(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
        residual: bool,
    ) -> Result<UnetBlock, ConfigError> {
        let [input, output] = channels;
        let conv = |name: &str, input: usize, kernel: [usize; 3], stride: [usize; 3]| {
            let scope = scope.enter(name);
            Convolution::new(&scope, &self.conv(&scope, [input, output], kernel, stride)?)
        };
        let norm = |name: &str| norm(&scope.enter(name), &self.config.norm_name, output);
        let projected = residual && (input != output || stride != [1; 3]);
        Ok(UnetBlock {
            conv1: conv("conv1", input, kernel, stride)?,
            conv2: conv("conv2", output, kernel, [1; 3])?,
            lrelu: act(&scope.enter("lrelu"), &self.config.act_name)?,
            norm1: norm("norm1")?,
            norm2: norm("norm2")?,
            conv3: projected.then(|| conv("conv3", input, [1; 3], stride)).transpose()?,
            norm3: if projected { norm("norm3")? } else { None },
            residual,
        })
    }

    fn up_block(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
    ) -> Result<UnetUpBlock, ConfigError> {
        let own = scope.enter("transp_conv");
        let mut options = self.conv(&own, channels, stride, stride)?;
        options.transposed = true;
        options.output_padding = Some([0; 3]);
        options.bias = self.config.trans_bias;
        let output = channels[1];
        Ok(UnetUpBlock {
            transp_conv: Convolution::new(&own, &options)?,
            conv_block: self.block(&scope.enter("conv_block"), [2 * output, output], kernel, [1; 3], false)?,
        })
    }

    fn out_block(&self, scope: &Scope, input: usize) -> Result<UnetOutBlock, ConfigError> {
        let scope = scope.enter("conv");
        let options = self.conv(&scope, [input, self.config.out_channels], [1; 3], [1; 3])?;
        Ok(UnetOutBlock { conv: Convolution::new(&scope, &ConvolutionOptions { bias: true, ..options })? })
    }
}

network_entry!(DynUNetConfig {
    name: "DynUNet",
    aliases: &[],
    about: "Segmentation: the U-Net of nnU-Net, configurable kernels and strides, deep supervision.",
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
kernel_size = [3, 3, 3, 3, 3]
strides = [1, 2, 2, 2, 2]
upsample_kernel_size = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
    deep_supervision: |c| c.deep_supervision,
});
