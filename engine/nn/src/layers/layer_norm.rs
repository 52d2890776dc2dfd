//! Normalization over the last axis.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};
use hearth_kernels::cast;

use super::{LayerPath, Scope};
use crate::cost;

/// The epsilon, PyTorch's default.
const EPS: f64 = 1e-5;

/// `torch.nn.LayerNorm` (Ba et al., <https://arxiv.org/abs/1607.06450>): normalizes by mean and
/// variance over the last axis, in f32.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale per feature.
    pub weight: Param<Tensor<1>>,
    /// Offset per feature.
    pub bias: Param<Tensor<1>>,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    path: LayerPath,
}

impl LayerNorm {
    /// Builds a layer norm with scale 1 and offset 0.
    pub fn new(scope: &Scope, features: usize) -> Self {
        LayerNorm {
            weight: scope.constant([features], 1.0),
            bias: scope.constant([features], 0.0),
            eps: EPS,
            path: LayerPath::of(scope),
        }
    }

    /// Replaces the epsilon.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        LayerNorm { eps, ..self }
    }

    /// Applies the norm to the last axis of `[..., features]`; shape and type are unchanged.
    ///
    /// # Panics
    /// If the last axis has another length.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let _range = self.path.enter(0);
        let dtype = x.dtype();
        let (weight, bias) = (self.weight.val().cast(DType::F32), self.bias.val().cast(DType::F32));
        let y = cast(hearth_kernels::layer_norm(cast(x, DType::F32), weight, bias, self.eps), dtype);
        cost::output(Some(self.weight.id), y)
    }
}

/// Layer norm over the last axis without scale and offset (`torch.nn.functional.layer_norm`); the
/// shape is unchanged.
pub fn layer_norm<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let (dtype, features, device) = (x.dtype(), x.dims()[D - 1], x.device());
    let (one, zero) = (Tensor::ones([features], &device), Tensor::zeros([features], &device));
    let y = cast(hearth_kernels::layer_norm(cast(x, DType::F32), one, zero, EPS), dtype);
    cost::output(None, y)
}
