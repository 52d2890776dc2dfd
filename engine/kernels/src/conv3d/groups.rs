//! Grouped convolutions: one convolution for each group of channels.

use burn::tensor::Tensor;

use super::ConvShape;
use crate::flex::is_cpu;

/// Whether the channels of `x` and the weight (`[O, I / groups, ...]`, or transposed `[I, O / groups, ...]`) can be divided into so
/// many groups, on the CPU; what cannot is left to Burn, and so is the complaint.
pub fn can_split(x: &Tensor<5>, weight: &Tensor<5>, groups: usize, transposed: bool) -> bool {
    let ([_, channels, ..], [first, second, ..]) = (x.dims(), weight.dims());
    let fits = if transposed { first == channels } else { second * groups == channels };
    groups > 1 && fits && first.is_multiple_of(groups) && is_cpu(x) && !x.dims().contains(&0)
}

/// Runs each group on its own channels, and puts the outputs together.
pub fn each(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    shape: ConvShape,
    run: impl Fn(Tensor<5>, Tensor<5>, Option<Tensor<1>>, ConvShape) -> Tensor<5>,
) -> Tensor<5> {
    let one = ConvShape { groups: 1, ..shape };
    let biases = bias.map(|bias| bias.chunk(shape.groups, 0));
    let parts = x.chunk(shape.groups, 1).into_iter().zip(weight.chunk(shape.groups, 0)).enumerate();
    let outputs = parts.map(|(group, (x, weight))| {
        let bias = biases.as_ref().and_then(|biases| biases.get(group).cloned());
        run(x, weight, bias, one)
    });
    Tensor::cat(outputs.collect(), 1)
}
