//! The sizes of one convolution.

use burn::tensor::Tensor;

use super::ConvShape;
use crate::place::{self, Place};
use crate::ranges::times;

/// A convolution from `input` to `output`. A transposed convolution uses the same record in
/// reverse: its input has the shape of `output` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub batch: usize,
    /// The number of independent groups of channels.
    pub groups: usize,
    /// The number of channels of one group, as for `channels_out`.
    pub channels_in: usize,
    pub channels_out: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Geometry {
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The numbers of input and output channels, over all groups.
    pub fn channels(&self) -> [usize; 2] {
        [self.groups * self.channels_in, self.groups * self.channels_out]
    }

    /// Opens a range of the profiler: all sums of the convolution take the same number of
    /// operations and of bytes.
    pub fn range(&self, name: &'static str) -> tracing::Span {
        let positions = self.output.iter().product::<usize>();
        let flop = || 2 * (self.batch * self.groups * positions * self.weight_len()) as u64;
        let bytes = || {
            let [inputs, outputs] = self.channels();
            let images = self.batch * (inputs * self.input.iter().product::<usize>() + outputs * positions);
            4 * (images + self.groups * self.weight_len()) as u64
        };
        let shape = || {
            let [inputs, outputs] = self.channels();
            format!("{}x{inputs}x{} to {outputs}, {}", self.batch, times(&self.input), times(&self.kernel))
        };
        tracing::trace_span!("kernel", name, shape = shape(), bytes = bytes(), flop = flop())
    }

    /// The geometry of one image and one group.
    pub fn one(&self) -> Self {
        Geometry { batch: 1, groups: 1, ..*self }
    }

    #[cfg(test)]
    pub fn input_len(&self) -> usize {
        self.batch * self.channels()[0] * self.input.iter().product::<usize>()
    }

    #[cfg(test)]
    pub fn output_len(&self) -> usize {
        self.batch * self.channels()[1] * self.output.iter().product::<usize>()
    }

    /// The number of weights of one group.
    pub fn weight_len(&self) -> usize {
        self.channels_in * self.channels_out * self.taps()
    }

    /// The same convolution with axes of length 1 moved to the front, and the others joined where
    /// possible, so that rows are long; the memory layout does not change.
    pub fn flat_first(&self) -> Self {
        let mut g = *self;
        for _ in 0..2 {
            let trivial =
                g.input[2] == 1 && g.output[2] == 1 && g.kernel[2] == 1 && g.stride[2] == 1 && g.padding[2] == 0;
            if trivial {
                for axes in [&mut g.input, &mut g.output, &mut g.kernel, &mut g.stride, &mut g.padding, &mut g.dilation]
                {
                    axes.rotate_right(1);
                }
            }
        }
        g.long_rows()
    }

    /// The same convolution with longer rows, where each output reads only the channels of its own
    /// position: the axes are joined and split again.
    fn long_rows(self) -> Self {
        /// The number of values in a block: some rows of all channels.
        const ROWS: usize = 32 << 10;
        // Output padding of a transposed convolution adds positions that read no input.
        let apart = self.taps() == 1 && self.stride == [1; 3] && self.padding == [0; 3] && self.input == self.output;
        if !apart || self.input[2] >= 32 {
            return self;
        }
        let places: usize = self.input.iter().product();
        let most = (ROWS / self.channels_in.max(self.channels_out).max(1)).clamp(32, 384);
        let row = (1..=most.min(places)).rev().find(|row| places.is_multiple_of(*row)).unwrap_or(1);
        if row <= self.input[2] {
            return self;
        }
        let size = [1, places / row, row];
        Geometry { input: size, output: size, ..self }
    }
}

/// The maximum number of taps along an axis in the GPU kernels.
const LONGEST: usize = 64;

/// Whether this crate's kernels support these tensors: of one type, not empty.
fn readable(x: &Tensor<5>, weight: &Tensor<5>) -> bool {
    let kernel = spatial(weight.dims());
    let short = place::of(x) != Some(Place::Gpu) || kernel.iter().all(|taps| *taps <= LONGEST);
    place::takes(x) && place::takes(weight) && x.dtype() == weight.dtype() && short
}

/// The geometry of a supported convolution; for `None`, Burn runs it and reports any error of
/// shapes.
pub fn of_convolution(x: &Tensor<5>, weight: &Tensor<5>, shape: &ConvShape) -> Option<Geometry> {
    readable(x, weight).then(|| convolution(x.dims(), weight.dims(), shape)).flatten()
}

/// The geometry of a convolution of a tensor and a weight of these dimensions.
pub fn convolution(x: [usize; 5], weight: [usize; 5], shape: &ConvShape) -> Option<Geometry> {
    let ([batch, channels, ..], [features, channels_in, ..]) = (x, weight);
    let channels_out = features.checked_div(shape.groups)?;
    let fits = [channels_in, channels_out].map(|c| c * shape.groups) == [channels, features];
    if !fits || shape.stride.contains(&0) || shape.dilation.contains(&0) {
        return None;
    }
    let (input, kernel) = (spatial(x), spatial(weight));
    let mut output = [0; 3];
    for axis in 0..3 {
        let reach = shape.dilation[axis] * (kernel[axis].checked_sub(1)?) + 1;
        output[axis] = (input[axis] + 2 * shape.padding[axis]).checked_sub(reach)? / shape.stride[axis] + 1;
    }
    Some(Geometry {
        batch,
        groups: shape.groups,
        channels_in,
        channels_out,
        input,
        output,
        kernel,
        stride: shape.stride,
        padding: shape.padding,
        dilation: shape.dilation,
    })
}

/// The geometry of the convolution whose input gradient this transposed convolution is.
pub fn of_transposed(
    x: &Tensor<5>,
    weight: &Tensor<5>,
    shape: &ConvShape,
    output_padding: [usize; 3],
) -> Option<Geometry> {
    readable(x, weight).then(|| transposed(x.dims(), weight.dims(), shape, output_padding)).flatten()
}

/// Same as [`of_transposed`](Self::of_transposed), for dimensions of a tensor and a weight.
pub fn transposed(
    x: [usize; 5],
    weight: [usize; 5],
    shape: &ConvShape,
    output_padding: [usize; 3],
) -> Option<Geometry> {
    let ([batch, channels, ..], [weights, channels_in, ..]) = (x, weight);
    let channels_out = channels.checked_div(shape.groups)?;
    let fits = weights == channels && channels_out * shape.groups == channels;
    if !fits || shape.stride.contains(&0) || shape.dilation.contains(&0) {
        return None;
    }
    let (output, kernel) = (spatial(x), spatial(weight));
    let mut input = [0; 3];
    for axis in 0..3 {
        let reach = shape.dilation[axis] * (kernel[axis].checked_sub(1)?) + 1;
        let span = output[axis].checked_sub(1)? * shape.stride[axis] + reach + output_padding[axis];
        input[axis] = span.checked_sub(2 * shape.padding[axis]).filter(|length| *length > 0)?;
    }
    Some(Geometry {
        batch,
        groups: shape.groups,
        channels_in,
        channels_out,
        input,
        output,
        kernel,
        stride: shape.stride,
        padding: shape.padding,
        dilation: shape.dilation,
    })
}

fn spatial(dims: [usize; 5]) -> [usize; 3] {
    [dims[2], dims[3], dims[4]]
}
