//! Bottlenecks with squeeze and excitation (`SEBottleneck`, `SEResNetBottleneck`,
//! `SEResNeXtBottleneck`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChannelSELayer, ChannelSEOptions};
use crate::layers::{
    AdnOptions, ConfigError, Conv, Convolution, DropoutClock, Kernel, LayerPath, Scope, activated_sum, per_axis,
};

/// Number of output channels per channel of `planes`.
pub(crate) const EXPANSION: usize = 4;

/// The kind of bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SEBlockKind {
    /// The bottleneck of SENet154: twice, then four times `planes`; the stride is in the second
    /// convolution.
    #[serde(rename = "se_bottleneck")]
    SEBottleneck,
    /// The bottleneck of SE-ResNet: the stride is in the first convolution, as in Caffe.
    #[serde(rename = "se_resnet_bottleneck")]
    SEResNetBottleneck,
    /// The bottleneck of SE-ResNeXt: a width per group; the stride is in the second convolution.
    #[serde(rename = "se_resnetxt_bottleneck")]
    SEResNeXtBottleneck,
}

/// Options of an [`SEBlock`].
#[derive(Clone, Debug)]
pub struct SEBlockOptions {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// The kind of bottleneck.
    pub kind: SEBlockKind,
    /// Number of input channels.
    pub inplanes: usize,
    /// A quarter of the number of output channels.
    pub planes: usize,
    /// Number of groups of the second convolution.
    pub groups: usize,
    /// Reduction of the squeeze and excitation.
    pub reduction: usize,
    /// Stride, 1 or more.
    pub stride: usize,
    /// Channels per group at 64 `planes` (SE-ResNeXt).
    pub base_width: usize,
    /// Kernel of a strided convolution with norm in the shortcut. If `None`, the shortcut is the
    /// identity, or a convolution of kernel 1 if the number of channels changes.
    pub downsample: Option<usize>,
}

/// A shortcut with weights.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few of them, and modules cannot be boxed")]
pub enum Project {
    /// A convolution with norm.
    Convolution(Convolution),
    /// A convolution of kernel 1.
    Conv(Conv),
}

/// A bottleneck of three convolutions with norm, squeeze and excitation, and a shortcut (Hu et al.,
/// <https://arxiv.org/abs/1709.01507>).
#[derive(Module, Debug)]
pub struct SEBlock {
    /// The first convolution, of kernel 1.
    pub conv1: Convolution,
    /// The second convolution, of kernel 3, in groups.
    pub conv2: Convolution,
    /// The third convolution, of kernel 1.
    pub conv3: Convolution,
    /// The squeeze and excitation, which weights the channels.
    pub se_layer: ChannelSELayer,
    /// The shortcut, unless it is the identity.
    pub project: Option<Project>,
}

/// A convolution without bias, with batch norm, and ReLU if requested.
fn convolution(
    scope: &Scope,
    options: &SEBlockOptions,
    channels: [usize; 2],
    [kernel, stride, groups]: [usize; 3],
    relu: bool,
) -> Result<Convolution, ConfigError> {
    if groups == 0 || channels.iter().any(|channels| !channels.is_multiple_of(groups)) {
        let expected = format!("the channels of `{}`, {channels:?}, must be divisible by it", scope.path());
        return Err(ConfigError::value("groups", groups, expected));
    }
    let adn = AdnOptions {
        ordering: "NDA".to_owned(),
        act: relu.then(|| "relu".into()),
        norm: Some("batch".into()),
        dropout: None,
        clock: DropoutClock::default(),
    };
    let shape = ConvShape {
        stride: per_axis(options.spatial_dims, stride, 1),
        padding: per_axis(options.spatial_dims, (kernel - 1) / 2, 0),
        groups,
        ..ConvShape::default()
    };
    let kernel = per_axis(options.spatial_dims, kernel, 1);
    Ok(Convolution {
        conv: Kernel::Conv(Conv::new(&scope.enter("conv"), channels, kernel, shape, false)),
        adn: Some(adn.build(&scope.enter("adn"), channels[1])?),
        path: LayerPath::of(scope),
    })
}

impl SEBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &SEBlockOptions) -> Result<Self, ConfigError> {
        let SEBlockOptions { spatial_dims, kind, inplanes, planes, groups, stride, base_width, .. } = *options;
        let output = planes * EXPANSION;
        let ([first, second], strides) = match kind {
            SEBlockKind::SEBottleneck => ([planes * 2, planes * 4], [1, stride]),
            SEBlockKind::SEResNetBottleneck => ([planes; 2], [stride, 1]),
            SEBlockKind::SEResNeXtBottleneck => ([planes * base_width / 64 * groups; 2], [1, stride]),
        };
        if [inplanes, first, second, output, stride].contains(&0) {
            let expected = format!("`{}` would have a convolution without channels or stride", scope.path());
            return Err(ConfigError::value("planes", planes, expected));
        }
        let project = match options.downsample {
            Some(kernel) if kernel % 2 == 1 => {
                let inner = scope.enter("project");
                let block = convolution(&inner, options, [inplanes, output], [kernel, stride, 1], false)?;
                Some(Project::Convolution(block))
            }
            Some(kernel) => return Err(ConfigError::value("downsample_kernel_size", kernel, "expected an odd number")),
            None if inplanes == output => None,
            None => {
                let (kernel, shape) = (per_axis(spatial_dims, 1, 1), ConvShape::default());
                Some(Project::Conv(Conv::new(&scope.enter("project"), [inplanes, output], kernel, shape, true)))
            }
        };
        let [one, two] = strides;
        Ok(SEBlock {
            conv1: convolution(&scope.enter("conv1"), options, [inplanes, first], [1, one, 1], true)?,
            conv2: convolution(&scope.enter("conv2"), options, [first, second], [3, two, groups], true)?,
            conv3: convolution(&scope.enter("conv3"), options, [second, output], [1, 1, 1], false)?,
            se_layer: ChannelSELayer::new(
                &scope.enter("se_layer"),
                &ChannelSEOptions::channel(output, options.reduction),
            )?,
            project,
        })
    }

    /// Maps `[b, inplanes, x, y, z]` to `[b, 4 planes, x / stride, ...]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let shortcut = match &self.project {
            Some(Project::Convolution(block)) => block.forward(x.clone()),
            Some(Project::Conv(conv)) => conv.forward(x.clone()),
            None => x.clone(),
        };
        let x = self.conv3.forward(self.conv2.forward(self.conv1.forward(x)));
        let x = self.se_layer.forward(x);
        activated_sum(x, shortcut, 0.0)
    }
}
