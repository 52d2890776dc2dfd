//! Conversion of `burn::nn` layers to Hearth's: the same weights and results, computed by Hearth's
//! kernels. On a CPU Burn's own convolutions take 4 to 15 times as long.
//!
//! ```
//! use burn::nn::{PaddingConfig3d, conv::{Conv3d, Conv3dConfig}};
//! use hearth_nn::layers::Conv;
//!
//! let device = burn::tensor::Device::flex();
//! let theirs: Conv3d = Conv3dConfig::new([1, 8], [3, 3, 3]).with_padding(PaddingConfig3d::Same).init(&device);
//! let ours: Conv = theirs.try_into()?;
//! assert_eq!(ours.forward(burn::tensor::Tensor::ones([1, 1, 4, 4, 4], &device)).dims(), [1, 8, 4, 4, 4]);
//! # Ok::<(), hearth_nn::ConfigError>(())
//! ```

use burn::module::Param;
use burn::nn::conv::{Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d};
use burn::nn::{PaddingConfig2d, PaddingConfig3d};
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;

use super::convolution::same_padding;
use super::{ConfigError, Conv, ConvTranspose, LayerPath, Linear};

/// Extends two axes to three, with `last` as the third.
fn flat(axes: [usize; 2], last: usize) -> [usize; 3] {
    [axes[0], axes[1], last]
}

fn with_depth(weight: &Param<Tensor<4>>) -> Param<Tensor<5>> {
    Param::from_tensor(weight.val().unsqueeze_dim::<5>(4).detach())
}

/// The padding for Burn's `Same`, which depends on the input's size if the stride is not 1.
fn same(kernel: [usize; 3], stride: [usize; 3], dilation: [usize; 3]) -> Result<[usize; 3], ConfigError> {
    if stride != [1; 3] || dilation != [1; 3] {
        let advice = "give the padding itself: Explicit(..)";
        return Err(ConfigError::value("padding", "Same", format!("stride and dilation are not 1; {advice}")));
    }
    same_padding(kernel, dilation)
}

impl TryFrom<Conv3d> for Conv {
    type Error = ConfigError;

    /// # Errors
    /// Fails for `Same` padding if stride or dilation is not 1, or if the kernel is even.
    fn try_from(conv: Conv3d) -> Result<Self, ConfigError> {
        let padding = match conv.padding {
            PaddingConfig3d::Valid => [0; 3],
            PaddingConfig3d::Explicit(x, y, z) => [x, y, z],
            PaddingConfig3d::Same => same(conv.kernel_size, conv.stride, conv.dilation)?,
        };
        let shape = ConvShape { stride: conv.stride, padding, dilation: conv.dilation, groups: conv.groups };
        Ok(Conv::of(conv.weight, conv.bias, shape))
    }
}

impl TryFrom<Conv2d> for Conv {
    type Error = ConfigError;

    /// # Errors
    /// Fails as for a [`Conv3d`], and for padding that differs between the ends of an axis.
    fn try_from(conv: Conv2d) -> Result<Self, ConfigError> {
        let [kernel, stride, dilation] = [conv.kernel_size, conv.stride, conv.dilation].map(|axes| flat(axes, 1));
        let padding = match conv.padding {
            PaddingConfig2d::Valid => [0; 3],
            PaddingConfig2d::Explicit(top, left, bottom, right) if top == bottom && left == right => [top, left, 0],
            PaddingConfig2d::Explicit(..) => {
                return Err(ConfigError::value(
                    "padding",
                    conv.padding,
                    "both ends of an axis must have the same padding",
                ));
            }
            PaddingConfig2d::Same => same(kernel, stride, dilation)?,
        };
        let shape = ConvShape { stride, padding, dilation, groups: conv.groups };
        Ok(Conv::of(with_depth(&conv.weight), conv.bias, shape))
    }
}

impl From<ConvTranspose3d> for ConvTranspose {
    fn from(conv: ConvTranspose3d) -> Self {
        let ConvTranspose3d { stride, padding, dilation, groups, .. } = conv;
        let shape = ConvShape { stride, padding, dilation, groups };
        ConvTranspose::of(conv.weight, conv.bias, shape, conv.padding_out)
    }
}

impl From<ConvTranspose2d> for ConvTranspose {
    fn from(conv: ConvTranspose2d) -> Self {
        let [stride, dilation] = [conv.stride, conv.dilation].map(|axes| flat(axes, 1));
        let shape = ConvShape { stride, padding: flat(conv.padding, 0), dilation, groups: conv.groups };
        ConvTranspose::of(with_depth(&conv.weight), conv.bias, shape, flat(conv.padding_out, 0))
    }
}

impl From<burn::nn::Linear> for Linear {
    /// Transposes the matrix: it is `[in, out]` in Burn, `[out, in]` here and in PyTorch.
    fn from(linear: burn::nn::Linear) -> Self {
        let weight = Param::from_tensor(linear.weight.val().transpose().detach());
        Linear { weight, bias: linear.bias, path: LayerPath::default() }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::nn::conv::{Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig, ConvTranspose3dConfig};
    use burn::tensor::{Device, Distribution};

    use super::*;

    fn close<const D: usize>(ours: Tensor<D>, theirs: Tensor<D>) {
        assert_eq!(ours.dims(), theirs.dims());
        let error = (ours - theirs).abs().max().into_scalar::<f32>();
        assert!(error < 2e-5, "{error}");
    }

    #[test]
    fn convolutions_give_burns_numbers_and_gradients() {
        let device = Device::flex().autodiff();
        let x = Tensor::<5>::random([2, 4, 7, 9, 8], Distribution::Default, &device);
        for (stride, padding, dilation, groups) in [
            ([1; 3], PaddingConfig3d::Same, [1; 3], 1),
            ([2, 1, 2], PaddingConfig3d::Explicit(1, 0, 2), [1; 3], 2),
            ([1; 3], PaddingConfig3d::Valid, [2, 1, 1], 4),
        ] {
            let config = Conv3dConfig::new([4, 8], [3, 3, 3]).with_stride(stride).with_padding(padding);
            let theirs = config.with_dilation(dilation).with_groups(groups).init(&device);
            let ours = Conv::try_from(theirs.clone()).unwrap();
            let (a, b) = (ours.forward(x.clone()), theirs.forward(x.clone()));
            let (ga, gb) = (a.clone().powi_scalar(2).sum().backward(), b.clone().powi_scalar(2).sum().backward());
            let gradients = [ours.weight.val().grad(&ga).unwrap(), theirs.weight.val().grad(&gb).unwrap()];
            let [ours, theirs] = gradients.map(|gradient| gradient / 1000.0);
            close(ours, theirs);
            close(a, b);
        }
        let theirs = ConvTranspose3dConfig::new([4, 6], [3, 2, 3])
            .with_stride([2, 2, 1])
            .with_padding([1, 0, 1])
            .with_padding_out([1, 0, 0])
            .init(&device);
        close(ConvTranspose::from(theirs.clone()).forward(x.clone()), theirs.forward(x));
    }

    #[test]
    fn flat_ones_and_matrices_too() {
        let device = Device::flex().autodiff();
        let x = Tensor::<4>::random([2, 4, 7, 9], Distribution::Default, &device);
        let deep = x.clone().unsqueeze_dim::<5>(4);
        let theirs = Conv2dConfig::new([4, 8], [3, 5]).with_padding(PaddingConfig2d::Same).init(&device);
        let ours = Conv::try_from(theirs.clone()).unwrap();
        assert!(ours.weight.val().is_require_grad());
        close(ours.forward(deep.clone()).squeeze_dim::<4>(4), theirs.forward(x.clone()));
        let theirs = ConvTranspose2dConfig::new([4, 3], [2, 2]).with_stride([2, 2]).init(&device);
        close(ConvTranspose::from(theirs.clone()).forward(deep).squeeze_dim::<4>(4), theirs.forward(x));
        let theirs = LinearConfig::new(5, 3).init(&device);
        let x = Tensor::<2>::random([6, 5], Distribution::Default, &device);
        close(Linear::from(theirs.clone()).forward(x.clone()), theirs.forward(x));
    }

    #[test]
    fn padding_that_depends_on_the_input_is_refused() {
        let device = Device::flex();
        let strided = Conv3dConfig::new([1, 1], [3; 3]).with_stride([2; 3]).with_padding(PaddingConfig3d::Same);
        let error = Conv::try_from(strided.init(&device)).unwrap_err().to_string();
        assert!(error.contains("Explicit"), "{error}");
        let uneven = Conv2dConfig::new([1, 1], [2, 2]).with_padding(PaddingConfig2d::Explicit(0, 0, 1, 1));
        let error = Conv::try_from(uneven.init(&device)).unwrap_err().to_string();
        assert!(error.contains("both ends"), "{error}");
    }
}
