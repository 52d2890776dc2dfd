//! Transposed convolutions, as the gradients of convolutions that they are: [`Transposed`].

use crate::convolution::{Axis, Convolution, Direction, Element, Epilogue, Invalid, Layout};

/// A spatial axis of a transposed convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposedAxis {
    /// The size of the input.
    pub size: usize,
    /// The size of the filter.
    pub kernel: usize,
    /// The distance between the copies of the filter in the output.
    pub stride: usize,
    /// The voxels that are cut away at each end of the output.
    pub padding: usize,
    /// The distance between the filter's taps.
    pub dilation: usize,
    /// The voxels that are added at the far end of the output; below the stride.
    pub output_padding: usize,
}

impl TransposedAxis {
    /// The size of the output.
    ///
    /// # Errors
    /// If a number is zero, the padding cuts everything away, or the output's padding is too large.
    pub fn output(&self) -> Result<usize, Invalid> {
        let TransposedAxis { size, kernel, stride, padding, dilation, output_padding } = *self;
        for (what, number) in [("size", size), ("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
            if number == 0 {
                return Err(Invalid::Zero { what });
            }
        }
        if output_padding >= stride {
            return Err(Invalid::OutputPadding { output_padding, stride });
        }
        let copies = (size - 1).checked_mul(stride);
        let reach = dilation.checked_mul(kernel - 1).and_then(|reach| reach.checked_add(1 + output_padding));
        let whole = copies.zip(reach).and_then(|(copies, reach)| copies.checked_add(reach)).ok_or(Invalid::TooLarge)?;
        let cut = padding.checked_mul(2).ok_or(Invalid::TooLarge)?;
        match whole.checked_sub(cut) {
            Some(left) if left > 0 => Ok(left),
            _ => Err(Invalid::NothingLeft { size, padding }),
        }
    }
}

/// A transposed convolution, with the numbers that networks give it. Its filter has the shape
/// `[channels_in, channels_out / groups, ...]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transposed {
    /// The number of images.
    pub batch: usize,
    /// The channels of the input.
    pub channels_in: usize,
    /// The channels of the output.
    pub channels_out: usize,
    /// The spatial axes: two or three.
    pub axes: Vec<TransposedAxis>,
    /// The groups of channels, which are convolved separately.
    pub groups: usize,
    /// The order of the axes of all tensors.
    pub layout: Layout,
    /// The type of the elements of all tensors.
    pub element: Element,
    /// What follows in the forward direction.
    pub epilogue: Option<Epilogue>,
}

impl Transposed {
    /// The convolution that computes a direction of this one. Input and output change places: in
    /// [`Operands`](crate::Operands) the output of this one, or its gradient, is `input`, and the
    /// input of this one, or its gradient, is `output`.
    ///
    /// # Errors
    /// As [`TransposedAxis::output`].
    pub fn convolution(&self, direction: Direction) -> Result<Convolution, Invalid> {
        let axis = |axis: &TransposedAxis| {
            let TransposedAxis { kernel, stride, padding, dilation, .. } = *axis;
            Ok(Axis { size: axis.output()?, kernel, stride, padding, dilation })
        };
        let Transposed { batch, channels_in, channels_out, groups, layout, element, epilogue, .. } = *self;
        let (direction, epilogue) = match direction {
            Direction::Forward => (Direction::DataGradient, epilogue),
            Direction::DataGradient => (Direction::Forward, None),
            Direction::FilterGradient => (Direction::FilterGradient, None),
        };
        Ok(Convolution {
            direction,
            batch,
            channels_in: channels_out,
            channels_out: channels_in,
            axes: self.axes.iter().map(axis).collect::<Result<_, Invalid>>()?,
            groups,
            layout,
            element,
            epilogue,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(size: usize, kernel: usize, stride: usize, padding: usize, output_padding: usize) -> TransposedAxis {
        TransposedAxis { size, kernel, stride, padding, dilation: 1, output_padding }
    }

    #[test]
    fn sizes_are_those_of_the_definition() {
        // As `torch.nn.ConvTranspose1d` documents them.
        for (given, output) in [
            (axis(5, 2, 2, 0, 0), 10),
            (axis(5, 3, 2, 1, 1), 10),
            (axis(5, 3, 2, 1, 0), 9),
            (axis(1, 1, 1, 0, 0), 1),
            (axis(4, 4, 3, 2, 2), 11),
        ] {
            assert_eq!(given.output(), Ok(output), "{given:?}");
            // The convolution that it is the gradient of has the input's size as its output.
            let TransposedAxis { size, kernel, stride, padding, dilation, .. } = given;
            assert_eq!(Axis { size: output, kernel, stride, padding, dilation }.output(), Ok(size), "{given:?}");
        }
        assert_eq!(axis(1, 2, 2, 1, 0).output(), Err(Invalid::NothingLeft { size: 1, padding: 1 }));
        assert_eq!(axis(2, 2, 2, 0, 2).output(), Err(Invalid::OutputPadding { output_padding: 2, stride: 2 }));
        assert_eq!(axis(0, 2, 2, 0, 0).output(), Err(Invalid::Zero { what: "size" }));
        assert_eq!(axis(usize::MAX, 2, 2, 0, 0).output(), Err(Invalid::TooLarge));
    }
}
