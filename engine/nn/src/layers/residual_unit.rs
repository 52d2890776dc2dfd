//! Convolutions with a shortcut (`monai.networks.blocks.ResidualUnit`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::{Channels, ConvShape};

use super::{ConfigError, Conv, Convolution, ConvolutionOptions, LayerPath, Scope, residual_sum};
use crate::named::Named;

/// A sequence of convolutions with a shortcut (He et al., <https://arxiv.org/abs/1512.03385>).
///
/// The shortcut is a convolution of the same kernel if the stride is not 1, of kernel 1 if only the
/// number of channels changes, and otherwise the identity. It is added after the last activation of
/// the main path.
#[derive(Module, Debug)]
pub struct ResidualUnit {
    /// The main path of convolutions: `unit0`, `unit1`, ...
    pub conv: Named<Convolution>,
    /// The shortcut, unless it is the identity.
    pub residual: Option<Conv>,
    #[module(skip)]
    path: LayerPath,
}

impl ResidualUnit {
    /// Builds `units` convolutions, at least one. The first has the stride; the last has no
    /// activation, dropout or norm if `last_conv_only`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        options: &ConvolutionOptions,
        units: usize,
        last_conv_only: bool,
    ) -> Result<Self, ConfigError> {
        let units = units.max(1);
        let [input, output] = options.channels;
        let inner = scope.enter("conv");
        let mut path = Vec::new();
        for i in 0..units {
            let mut unit = options.clone();
            if i > 0 {
                unit.channels = [output, output];
                unit.stride = [1; 3];
            }
            if last_conv_only && i + 1 == units {
                unit.adn = None;
            }
            let name = format!("unit{i}");
            let convolution = Convolution::new(&inner.enter(&name), &unit)?;
            path.push((name, convolution));
        }
        let strided = options.stride != [1; 3];
        let residual = (strided || input != output)
            .then(|| {
                let kernel = if strided { options.kernel } else { [1; 3] };
                let padding = if strided { options.resolved_padding()? } else { [0; 3] };
                let shape = ConvShape { stride: options.stride, padding, ..ConvShape::default() };
                Ok(Conv::new(&scope.enter("residual"), options.channels, kernel, shape, options.bias))
            })
            .transpose()?;
        Ok(ResidualUnit { conv: Named::new(path), residual, path: LayerPath::of(scope) })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x / stride, ...]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let _range = self.path.enter(0);
        let shortcut = match &self.residual {
            Some(conv) => conv.forward(x.clone()),
            None => x.clone(),
        };
        let units: Vec<&Convolution> = self.conv.iter().collect();
        match units.split_last() {
            Some((last, before)) => {
                let x = before.iter().fold(x, |x, unit| unit.forward(x));
                last.forward_of(Channels::One(x), Some(shortcut))
            }
            None => residual_sum(x, shortcut),
        }
    }
}
