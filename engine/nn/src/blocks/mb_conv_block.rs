//! The inverted bottleneck of EfficientNet (`monai.networks.nets.efficientnet.MBConvBlock`).

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use hearth_kernels::conv3d::ConvShape;

use crate::layers::{
    Act, AdnOptions, ConfigError, Conv, Convolution, DropPath, DropoutClock, Kernel, LayerPath, LayerSpec, Pool, Scope,
    in_space, residual_sum,
};

/// The number of zeros before and after each axis of a convolution. TensorFlow's `SAME` padding is
/// computed from the image size that the network is designed for, not from the actual image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamePadding {
    before: usize,
    after: usize,
    kernel: usize,
    stride: usize,
    spatial_dims: usize,
}

impl SamePadding {
    /// Computes the padding for an image of `nominal` voxels along each axis.
    pub fn of(spatial_dims: usize, nominal: usize, kernel: usize, stride: usize) -> Self {
        let reach = (nominal.div_ceil(stride) - 1) * stride + kernel;
        let both = reach.saturating_sub(nominal);
        SamePadding { before: both / 2, after: both - both / 2, kernel, stride, spatial_dims }
    }

    /// The convolution without the padding that [`pad`](Self::pad) adds. The convolution pads by
    /// itself only where both ends of each axis are equal.
    fn shape(self, groups: usize) -> ConvShape {
        let own = if self.before == self.after { self.before } else { 0 };
        let third = self.spatial_dims == 3;
        let padding = [own, own, if third { own } else { 0 }];
        ConvShape { stride: in_space(self.spatial_dims, self.stride), padding, groups, ..ConvShape::default() }
    }

    /// Adds the padding that the convolution does not add itself.
    pub fn pad(self, x: Tensor<5>) -> Tensor<5> {
        if self.before == self.after {
            return x;
        }
        let ends = (self.before, self.after);
        let third = if self.spatial_dims == 3 { ends } else { (0, 0) };
        x.pad([(0, 0), (0, 0), ends, ends, third], 0.0)
    }

    /// The length of an axis after the convolution; `None` if the axis is shorter than the kernel.
    pub fn output(self, length: usize) -> Option<usize> {
        let inside = (length + self.before + self.after).checked_sub(self.kernel)?;
        (length > 0).then_some(inside / self.stride + 1)
    }
}

/// A `SAME`-padded convolution without bias, followed by a norm. `names` are their state-dict
/// paths.
pub(crate) fn normed_convolution(
    scope: &Scope,
    names: [&str; 2],
    channels: [usize; 2],
    padding: SamePadding,
    groups: usize,
    norm: &LayerSpec,
) -> Result<Convolution, ConfigError> {
    let [conv, bn] = names.map(|name| scope.enter(name));
    let kernel = in_space(padding.spatial_dims, padding.kernel);
    let adn = AdnOptions {
        ordering: "N".to_owned(),
        act: None,
        norm: Some(norm.clone()),
        dropout: None,
        clock: DropoutClock::default(),
    };
    Ok(Convolution {
        conv: Kernel::Conv(Conv::new(&conv, channels, kernel, padding.shape(groups), false)),
        adn: Some(adn.build(&bn, channels[1])?),
        path: LayerPath::of(&conv),
    })
}

/// Options of an [`MBConvBlock`].
#[derive(Clone, Debug)]
pub struct MBConvOptions {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Numbers of input and output channels.
    pub channels: [usize; 2],
    /// Kernel size of the depthwise convolution.
    pub kernel_size: usize,
    /// Stride of the depthwise convolution.
    pub stride: usize,
    /// Length of the axes of the block's input, for the image size that the network is designed
    /// for.
    pub image_size: usize,
    /// Channels of the depthwise convolution per input channel; 1 for no expansion.
    pub expand_ratio: usize,
    /// Channels of the squeeze layer per input channel.
    pub se_ratio: f64,
    /// The norm after each convolution.
    pub norm: LayerSpec,
    /// Probability that the block is skipped in training.
    pub drop_connect_rate: f64,
}

/// An inverted bottleneck (Sandler et al., <https://arxiv.org/abs/1801.04381>) with squeeze and
/// excitation: expansion, depthwise convolution, channel weights and projection, with a shortcut if
/// input and output have the same shape.
#[derive(Module, Debug)]
pub struct MBConvBlock {
    expand: Option<Convolution>,
    depthwise: Convolution,
    se_reduce: Conv,
    se_expand: Conv,
    project: Convolution,
    drop_connect: Option<DropPath>,
    swish: Act,
    #[module(skip)]
    padding: SamePadding,
    #[module(skip)]
    shortcut: bool,
}

impl MBConvBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &MBConvOptions, clock: &DropoutClock) -> Result<Self, ConfigError> {
        let MBConvOptions { spatial_dims: dims, channels: [input, output], stride, image_size, norm, .. } = options;
        let wide = input * options.expand_ratio;
        let padding = SamePadding::of(*dims, *image_size, options.kernel_size, *stride);
        let point = SamePadding::of(*dims, *image_size, 1, 1);
        let squeezed = ((*input as f64 * options.se_ratio) as usize).max(1);
        let point_conv =
            |name: &str, channels| Conv::new(&scope.enter(name), channels, [1; 3], ConvShape::default(), true);
        let expand = (options.expand_ratio != 1)
            .then(|| normed_convolution(scope, ["_expand_conv", "_bn0"], [*input, wide], point, 1, norm));
        let shortcut = *stride == 1 && input == output;
        let drops = shortcut && options.drop_connect_rate > 0.0;
        let drop_connect =
            drops.then(|| DropPath::new(scope.enter("drop_connect").path(), options.drop_connect_rate, clock));
        Ok(MBConvBlock {
            expand: expand.transpose()?,
            depthwise: normed_convolution(scope, ["_depthwise_conv", "_bn1"], [wide; 2], padding, wide, norm)?,
            se_reduce: point_conv("_se_reduce", [wide, squeezed]),
            se_expand: point_conv("_se_expand", [squeezed, wide]),
            project: normed_convolution(scope, ["_project_conv", "_bn2"], [wide, *output], point, 1, norm)?,
            drop_connect: drop_connect.transpose()?,
            swish: Act::new(&scope.enter("_swish"), &"memswish".into())?,
            padding,
            shortcut,
        })
    }

    /// The length of an axis after the block; `None` if the input is too short.
    pub fn output(&self, length: usize) -> Option<usize> {
        self.padding.output(length)
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x', y', z']`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let shortcut = self.shortcut.then(|| x.clone());
        let x = match &self.expand {
            Some(expand) => self.swish.forward(expand.forward(x)),
            None => x,
        };
        let x = self.swish.forward(self.depthwise.forward(self.padding.pad(x)));
        let squeezed = self.swish.forward(self.se_reduce.forward(Pool::global_avg().forward(x.clone())));
        let x = x.clone() * sigmoid(self.se_expand.forward(squeezed)).cast(x.dtype());
        match (&self.drop_connect, shortcut) {
            (Some(drop), Some(shortcut)) if x.is_autodiff() => {
                residual_sum(drop.forward(self.project.forward(x)), shortcut)
            }
            (_, shortcut) => self.project.forward_with_shortcut(x, shortcut),
        }
    }
}

/// The state-dict key of the block's parameter at this path.
pub(crate) fn mb_conv_name(path: &str) -> String {
    const NAMES: [(&str, &str); 8] = [
        ("expand.conv.", "_expand_conv."),
        ("expand.adn.N.", "_bn0."),
        ("depthwise.conv.", "_depthwise_conv."),
        ("depthwise.adn.N.", "_bn1."),
        ("se_reduce.", "_se_reduce."),
        ("se_expand.", "_se_expand."),
        ("project.conv.", "_project_conv."),
        ("project.adn.N.", "_bn2."),
    ];
    let found = NAMES.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", path.strip_prefix(ours)?)));
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::SamePadding;

    #[test]
    fn padding_is_that_of_the_nominal_size() {
        // Strides of 2 on 260, 130, 65, 33 and 17 voxels: the stages of EfficientNet-B2.
        let ends = |nominal, kernel| {
            let padding = SamePadding::of(2, nominal, kernel, 2);
            (padding.before, padding.after)
        };
        assert_eq!(
            [ends(260, 3), ends(130, 3), ends(65, 5), ends(33, 3), ends(17, 5)],
            [(0, 1), (0, 1), (2, 2), (1, 1), (2, 2)]
        );
        let even = SamePadding::of(3, 224, 3, 2);
        assert_eq!(
            [even.output(64), even.output(65), even.output(2), even.output(1)],
            [Some(32), Some(32), Some(1), None]
        );
    }
}
