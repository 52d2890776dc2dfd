//! Linear layers over the last axis.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use hearth_kernels::cast;
use hearth_kernels::linear::linear;

use super::{LayerPath, Scope};
use crate::cost;
use crate::trace::{self, Op, Weight};

/// `torch.nn.Linear`: weight `[out, in]`, bias `[out]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// The matrix.
    pub weight: Param<Tensor<2>>,
    /// The bias, one value per output.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub(super) path: LayerPath,
}

impl Linear {
    /// A linear layer with the scope's initial weights; the numbers are those of input and output
    /// features.
    pub fn new(scope: &Scope, [input, output]: [usize; 2], bias: bool) -> Self {
        let [weights, biases] = scope.init().linear(input);
        Linear {
            weight: scope.draw("weight", [output, input], weights),
            bias: bias.then(|| scope.draw("bias", [output], biases)),
            path: LayerPath::of(scope),
        }
    }

    /// Maps `[..., in]` to `[..., out]`, in the weight's type.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let weight = self.weight.val();
        let dtype = weight.dtype();
        let bias = self.bias.as_ref().map(|bias| bias.val().cast(dtype));
        let [features, input] = weight.dims();
        let (device, mut output) = (x.device(), x.dims());
        let rows = x.dims()[..D - 1].iter().product::<usize>() as u64;
        output[D - 1] = features;
        let multiply_adds = rows * (features * input) as u64;
        let _range = self.path.enter(2 * multiply_adds);
        cost::product(Some(self.weight.id), multiply_adds, output, &device, || linear(cast(x, dtype), weight, bias))
    }

    /// Flattens all axes but the batch: maps `[b, c, x, y, z]` with `c x y z = in` to `[b, out, 1,
    /// 1, 1]`.
    pub fn forward_flat(&self, x: Tensor<5>) -> Tensor<5> {
        let [b, c, dx, dy, dz] = x.dims();
        let taken = trace::inputs([&x]);
        let y = self.forward(x.reshape([b, c * dx * dy * dz]));
        let output = y.dims()[1];
        let op = || Op::Linear {
            weight: Weight::of(&self.weight.val()),
            bias: self.bias.as_ref().map(|bias| Weight::of(&bias.val())),
        };
        trace::note(taken, self.path.name(), op, y.reshape([b, output, 1, 1, 1]))
    }
}
