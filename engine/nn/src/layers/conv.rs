//! Convolution and transposed convolution in 3-D; a 2-D convolution has kernel depth 1 on the last
//! axis.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};
use hearth_kernels::cast;
use hearth_kernels::conv3d::{Channels, ConvShape, Then, conv_transpose3d, conv_transpose3d_then, conv3d, conv3d_then};
use hearth_kernels::normalize::Slope;

use super::{Act, LayerPath, Norm, Scope, norm_then_act};
use crate::cost;
use crate::trace::{self, Op, Weight, joined};

/// Whether a tensor is f32 and outside an autodiff graph.
pub(super) fn is_plain(x: &Tensor<5>) -> bool {
    x.dtype() == DType::F32 && !x.is_autodiff()
}

/// Whether a convolution reads the channels in place and applies its epilogue: outside training, in
/// f32, and while no costs are counted.
pub(super) fn fuses(x: &Channels, weight: &Param<Tensor<5>>) -> bool {
    // Reading a half-precision weight converts it, so this is checked last.
    x.is_f32() && !x.is_autodiff() && !cost::apart() && is_plain(&weight.val())
}

/// `torch.nn.Conv3d`: weight `[out, in / groups, kx, ky, kz]`, bias `[out]`.
#[derive(Module, Debug)]
pub struct Conv {
    /// The kernels.
    pub weight: Param<Tensor<5>>,
    /// The bias, one value per output channel.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    shape: ConvShape,
    #[module(skip)]
    path: LayerPath,
}

impl Conv {
    /// A convolution with the scope's initial weights. `channels` are those of input and output.
    ///
    /// # Panics
    /// If `shape.groups` is 0.
    pub fn new(scope: &Scope, channels: [usize; 2], kernel: [usize; 3], shape: ConvShape, bias: bool) -> Self {
        let [input, output] = channels;
        let [x, y, z] = kernel;
        let weight = [output, input / shape.groups, x, y, z];
        let [weights, biases] = scope.init().convolution(weight);
        Conv {
            weight: scope.draw("weight", weight, weights),
            bias: bias.then(|| scope.draw("bias", [output], biases)),
            shape,
            path: LayerPath::of(scope),
        }
    }

    pub(super) fn of(weight: Param<Tensor<5>>, bias: Option<Param<Tensor<1>>>, shape: ConvShape) -> Self {
        Conv { weight, bias, shape, path: LayerPath::default() }
    }

    /// The size of the output for this size of the input, in voxels; `None` if the input is smaller
    /// than the kernel.
    pub fn output(&self, input: [usize; 3]) -> Option<[usize; 3]> {
        let [_, _, kx, ky, kz] = self.weight.lazy_shape().dims();
        let ConvShape { stride, padding, dilation, .. } = self.shape;
        let mut output = [0; 3];
        for (axis, kernel) in [kx, ky, kz].into_iter().enumerate() {
            let reach = dilation[axis] * (kernel - 1) + 1;
            output[axis] = (input[axis] + 2 * padding[axis]).checked_sub(reach)? / stride[axis] + 1;
        }
        Some(output)
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x', y', z']`, in the weight's type.
    ///
    /// # Panics
    /// If the channels do not fit, or the padded input is smaller than the kernel.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let weight = self.weight.val();
        let dtype = weight.dtype();
        let bias = self.bias.as_ref().map(Param::val);
        let [batch, _, dx, dy, dz] = x.dims();
        let compute = |x: Tensor<5>| conv3d(cast(x, dtype), weight, bias, self.shape);
        let kernel = self.weight.lazy_shape().dims();
        // Burn rejects an input smaller than the kernel.
        let Some([ox, oy, oz]) = self.output([dx, dy, dz]) else { return compute(x) };
        let multiply_adds = cost::convolution([ox, oy, oz], batch, kernel);
        let _range = self.path.enter(2 * multiply_adds);
        let (device, output) = (x.device(), [batch, kernel[0], ox, oy, oz]);
        let taken = trace::inputs([&x]);
        let y = cost::product(Some(self.weight.id), multiply_adds, output, &device, || compute(x));
        trace::note(taken, self.path.name(), || self.op(), y)
    }

    /// The operation in the network's graph.
    fn op(&self) -> Op {
        let ConvShape { stride, padding, dilation, groups } = self.shape;
        let bias = self.bias.as_ref().map(|bias| Weight::of(&bias.val()));
        Op::Conv { weight: Weight::of(&self.weight.val()), bias, stride, padding, dilation, groups }
    }

    /// Runs [`forward`](Self::forward) on channels that may be split over two tensors.
    pub(crate) fn forward_of(&self, x: Channels) -> Tensor<5> {
        if fuses(&x, &self.weight) { self.forward_then(x, Then::default()) } else { self.forward(joined(x)) }
    }

    /// Runs the convolution, a norm and an activation on channels that may be split over two
    /// tensors.
    pub(crate) fn forward_with(&self, x: Channels, norm: &Option<Norm>, act: &Option<Act>) -> Tensor<5> {
        let slope = act.as_ref().map_or(Some(Slope::Fixed(1.0)), Act::slope);
        match norm.as_ref().zip(slope) {
            Some((norm, slope)) if fuses(&x, &self.weight) => {
                self.forward_then(x, Then { norm_act: Some(norm.behind_convolution(slope)), plus: None })
            }
            _ => norm_then_act(norm, act, self.forward_of(x)),
        }
    }

    /// Runs the convolution and its epilogue, in the input's type.
    pub(crate) fn forward_then(&self, x: Channels, then: Then) -> Tensor<5> {
        conv3d_then(x, self.weight.val(), self.bias.as_ref().map(Param::val), self.shape, then)
    }
}

/// `torch.nn.ConvTranspose3d`: weight `[in, out / groups, kx, ky, kz]`, bias `[out]`.
#[derive(Module, Debug)]
pub struct ConvTranspose {
    /// The kernels.
    pub weight: Param<Tensor<5>>,
    /// The bias, one value per output channel.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    shape: ConvShape,
    #[module(skip)]
    output_padding: [usize; 3],
    #[module(skip)]
    path: LayerPath,
}

impl ConvTranspose {
    /// A transposed convolution with the scope's initial weights. `channels` are those of input and
    /// output.
    ///
    /// # Panics
    /// If `shape.groups` is 0.
    pub fn new(
        scope: &Scope,
        channels: [usize; 2],
        kernel: [usize; 3],
        shape: ConvShape,
        output_padding: [usize; 3],
        bias: bool,
    ) -> Self {
        let [input, output] = channels;
        let [x, y, z] = kernel;
        let weight = [input, output / shape.groups, x, y, z];
        let [weights, biases] = scope.init().transposed(weight, output);
        ConvTranspose {
            weight: scope.draw("weight", weight, weights),
            bias: bias.then(|| scope.draw("bias", [output], biases)),
            shape,
            output_padding,
            path: LayerPath::of(scope),
        }
    }

    pub(super) fn of(
        weight: Param<Tensor<5>>,
        bias: Option<Param<Tensor<1>>>,
        shape: ConvShape,
        output_padding: [usize; 3],
    ) -> Self {
        ConvTranspose { weight, bias, shape, output_padding, path: LayerPath::default() }
    }

    /// The size of the output.
    fn output(&self, input: [usize; 3]) -> [usize; 3] {
        let [_, _, kx, ky, kz] = self.weight.lazy_shape().dims();
        let (kernel, ConvShape { stride, padding, dilation, .. }) = ([kx, ky, kz], self.shape);
        std::array::from_fn(|axis| {
            let reach = dilation[axis] * (kernel[axis] - 1) + 1 + self.output_padding[axis];
            (input[axis].saturating_sub(1) * stride[axis] + reach).saturating_sub(2 * padding[axis])
        })
    }

    /// Maps `[b, in, x, y, z]` to `[b, out, x', y', z']` with `x' = (x - 1) stride - 2 padding +
    /// kernel + output_padding` (at dilation 1), in the weight's type.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let weight = self.weight.val();
        let dtype = weight.dtype();
        let bias = self.bias.as_ref().map(Param::val);
        let [batch, _, dx, dy, dz] = x.dims();
        let kernel = self.weight.lazy_shape().dims();
        let [ox, oy, oz] = self.output([dx, dy, dz]);
        let multiply_adds = cost::convolution([dx, dy, dz], batch, kernel);
        let _range = self.path.enter(2 * multiply_adds);
        let (device, output) = (x.device(), [batch, kernel[1] * self.shape.groups, ox, oy, oz]);
        let taken = trace::inputs([&x]);
        let y = cost::product(Some(self.weight.id), multiply_adds, output, &device, || {
            conv_transpose3d(cast(x, dtype), weight, bias, self.shape, self.output_padding)
        });
        trace::note(taken, self.path.name(), || self.op(), y)
    }

    /// The operation in the network's graph.
    fn op(&self) -> Op {
        let (ConvShape { stride, padding, dilation, groups }, output_padding) = (self.shape, self.output_padding);
        let (weight, bias) = (Weight::of(&self.weight.val()), self.bias.as_ref().map(|bias| Weight::of(&bias.val())));
        Op::ConvTranspose { weight, bias, stride, padding, output_padding, dilation, groups }
    }

    /// Runs [`forward`](Self::forward) on channels that may be split over two tensors.
    pub(crate) fn forward_of(&self, x: Channels) -> Tensor<5> {
        if fuses(&x, &self.weight) { self.forward_then(x, Then::default()) } else { self.forward(joined(x)) }
    }

    /// Runs the convolution and its epilogue, in the input's type.
    pub(crate) fn forward_then(&self, x: Channels, then: Then) -> Tensor<5> {
        let bias = self.bias.as_ref().map(Param::val);
        conv_transpose3d_then(x, self.weight.val(), bias, self.shape, self.output_padding, then)
    }
}
