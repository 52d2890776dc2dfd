//! A convolution as it is planned: [`Convolution`].

use std::fmt;

/// The product of the three tensors that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The output, from the input and the filter.
    Forward,
    /// The gradient of the input, from the filter and the gradient of the output.
    DataGradient,
    /// The gradient of the filter, from the input and the gradient of the output.
    FilterGradient,
}

/// The order of the axes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The channels of a voxel are next to each other: `NDHWC`, filters `KDHWC`.
    ChannelsLast,
    /// The voxels of a channel are next to each other: `NCDHW`, filters `KCDHW`.
    ChannelsFirst,
}

/// The type of the elements of all tensors. Sums are f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32 bits.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

/// A spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// The size of the input.
    pub size: usize,
    /// The size of the filter.
    pub kernel: usize,
    /// The step of the filter.
    pub stride: usize,
    /// The zeros at each end of the input.
    pub padding: usize,
    /// The distance between the filter's taps.
    pub dilation: usize,
}

impl Axis {
    /// The size of the output.
    ///
    /// # Errors
    /// If a number is zero, or the filter is larger than the padded input.
    pub fn output(&self) -> Result<usize, Invalid> {
        let Axis { size, kernel, stride, padding, dilation } = *self;
        for (what, number) in [("size", size), ("kernel", kernel), ("stride", stride), ("dilation", dilation)] {
            if number == 0 {
                return Err(Invalid::Zero { what });
            }
        }
        let padded = padding.checked_mul(2).and_then(|both| both.checked_add(size)).ok_or(Invalid::TooLarge)?;
        let reach = dilation.checked_mul(kernel - 1).and_then(|reach| reach.checked_add(1)).ok_or(Invalid::TooLarge)?;
        match padded.checked_sub(reach) {
            Some(rest) => Ok(rest / stride + 1),
            None => Err(Invalid::FilterLarger { reach, padded }),
        }
    }
}

/// The slope of a leaky ReLU below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slope(u32);

impl From<f32> for Slope {
    fn from(slope: f32) -> Self {
        Slope(slope.to_bits())
    }
}

impl From<Slope> for f32 {
    fn from(slope: Slope) -> Self {
        f32::from_bits(slope.0)
    }
}

/// The function that is applied to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// x, times the slope below zero.
    LeakyRelu(Slope),
}

/// What is computed in the same kernel after the convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Adds a number for each channel of the result.
    pub bias: bool,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// A convolution of images with two or three spatial axes, in one of its directions. Sizes are those
/// of the forward direction, whatever the direction is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The tensor that is computed.
    pub direction: Direction,
    /// The number of images.
    pub batch: usize,
    /// The channels of the input.
    pub channels_in: usize,
    /// The channels of the output.
    pub channels_out: usize,
    /// The spatial axes: two or three.
    pub axes: Vec<Axis>,
    /// The groups of channels, which are convolved separately.
    pub groups: usize,
    /// The order of the axes of all tensors.
    pub layout: Layout,
    /// The type of the elements of all tensors.
    pub element: Element,
    /// What follows; not with the gradient of the filter.
    pub epilogue: Option<Epilogue>,
}

/// The reason why a description of a convolution contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// There are not two or three spatial axes.
    #[error("the convolution has {0} spatial axes: expected 2 or 3")]
    Axes(usize),
    /// A number is zero.
    #[error("the convolution has 0 as its {what}: expected at least 1")]
    Zero {
        /// The number's name.
        what: &'static str,
    },
    /// The channels cannot be divided into the groups.
    #[error("{channels} channels cannot be divided into {groups} groups")]
    Groups {
        /// The channels of the input or the output.
        channels: usize,
        /// The groups.
        groups: usize,
    },
    /// The filter is larger than the padded input.
    #[error("a filter that reaches over {reach} voxels does not fit into {padded} (with padding)")]
    FilterLarger {
        /// The voxels from the first tap to the last one.
        reach: usize,
        /// The size of the input with its padding.
        padded: usize,
    },
    /// A tensor has more elements than an address can count.
    #[error("the convolution has a tensor with more than 2^63 elements")]
    TooLarge,
    /// A transposed convolution has an output that its padding cuts away.
    #[error("a transposed convolution of {size} voxels has no output: padding {padding} is too large")]
    NothingLeft {
        /// The size of its input.
        size: usize,
        /// Its padding.
        padding: usize,
    },
    /// The padding of a transposed convolution's output is not below its stride.
    #[error("an output padding of {output_padding} needs a stride above it: found {stride}")]
    OutputPadding {
        /// The padding.
        output_padding: usize,
        /// The stride.
        stride: usize,
    },
    /// Something follows the gradient of a filter.
    #[error("neither a bias nor an activation can follow the gradient of a filter")]
    Epilogue,
}

/// The sizes and distances of a tensor, in the order batch, channels, spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

impl Shape {
    /// A tensor without gaps.
    fn packed(sizes: &[usize], layout: Layout) -> Result<Self, Invalid> {
        let sizes = sizes.iter().map(|size| i64::try_from(*size).map_err(|_| Invalid::TooLarge));
        let sizes = sizes.collect::<Result<Vec<i64>, Invalid>>()?;
        let spatial = 2..sizes.len();
        // From the axis with the largest distance.
        let order: Vec<usize> = match layout {
            Layout::ChannelsFirst => [0, 1].into_iter().chain(spatial).collect(),
            Layout::ChannelsLast => [0].into_iter().chain(spatial).chain([1]).collect(),
        };
        let (mut strides, mut step) = (vec![0; sizes.len()], 1_i64);
        for axis in order.into_iter().rev() {
            strides[axis] = step;
            step = step.checked_mul(sizes[axis]).ok_or(Invalid::TooLarge)?;
        }
        Ok(Shape { sizes, strides })
    }
}

/// The tensors of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    pub input: Shape,
    pub filter: Shape,
    pub output: Shape,
    /// One number for each channel of the result.
    pub bias: Shape,
}

impl Convolution {
    /// The spatial sizes of the output.
    ///
    /// # Errors
    /// As [`Axis::output`].
    pub fn output_sizes(&self) -> Result<Vec<usize>, Invalid> {
        self.axes.iter().map(Axis::output).collect()
    }

    /// Checks the numbers, and computes the shapes.
    ///
    /// # Errors
    /// If the numbers contradict each other.
    pub(crate) fn shapes(&self) -> Result<Shapes, Invalid> {
        let Convolution { direction, batch, channels_in, channels_out, groups, layout, .. } = *self;
        if !(2..=3).contains(&self.axes.len()) {
            return Err(Invalid::Axes(self.axes.len()));
        }
        let numbers = [
            ("batch", batch),
            ("number of input channels", channels_in),
            ("number of output channels", channels_out),
            ("number of groups", groups),
        ];
        if let Some((what, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(Invalid::Zero { what });
        }
        for channels in [channels_in, channels_out] {
            if channels % groups != 0 {
                return Err(Invalid::Groups { channels, groups });
            }
        }
        if direction == Direction::FilterGradient && self.epilogue.is_some() {
            return Err(Invalid::Epilogue);
        }
        let of = |first: usize, second: usize, rest: &[usize]| {
            let sizes: Vec<usize> = [first, second].iter().chain(rest).copied().collect();
            Shape::packed(&sizes, layout)
        };
        let sizes: Vec<usize> = self.axes.iter().map(|axis| axis.size).collect();
        let kernels: Vec<usize> = self.axes.iter().map(|axis| axis.kernel).collect();
        let of_result = if direction == Direction::DataGradient { channels_in } else { channels_out };
        Ok(Shapes {
            output: of(batch, channels_out, &self.output_sizes()?)?,
            input: of(batch, channels_in, &sizes)?,
            filter: of(channels_out, channels_in / groups, &kernels)?,
            bias: of(1, of_result, &vec![1; sizes.len()])?,
        })
    }
}

/// One of the numbers of an axis.
type Number = fn(&Axis) -> usize;

/// Sizes with a cross between them.
fn crossed(numbers: impl Iterator<Item = usize>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join("x")
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Convolution { direction, batch, channels_in, channels_out, axes, groups, layout, element, epilogue } = self;
        let name = match direction {
            Direction::Forward => "a convolution",
            Direction::DataGradient => "the gradient of data",
            Direction::FilterGradient => "the gradient of a filter",
        };
        let sizes = crossed(axes.iter().map(|axis| axis.size));
        let kernels = crossed(axes.iter().map(|axis| axis.kernel));
        write!(f, "{name}, {batch} x {channels_in} to {channels_out} channels x {sizes}, kernel {kernels}")?;
        let numbers: [(&str, usize, Number); 3] = [
            ("stride", 1, |axis| axis.stride),
            ("padding", 0, |axis| axis.padding),
            ("dilation", 1, |axis| axis.dilation),
        ];
        for (what, usual, of) in numbers {
            if axes.iter().any(|axis| of(axis) != usual) {
                write!(f, ", {what} {}", crossed(axes.iter().map(of)))?;
            }
        }
        if *groups != 1 {
            write!(f, ", {groups} groups")?;
        }
        if epilogue.is_some() {
            f.write_str(", with an epilogue")?;
        }
        let layout = match layout {
            Layout::ChannelsLast => "channels last",
            Layout::ChannelsFirst => "channels first",
        };
        let element = match element {
            Element::F32 => "f32",
            Element::Bf16 => "bf16",
            Element::F16 => "f16",
        };
        write!(f, ", {layout}, {element}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> Convolution {
        Convolution {
            direction: Direction::Forward,
            batch: 2,
            channels_in: 4,
            channels_out: 6,
            axes: vec![
                Axis { size: 9, kernel: 3, stride: 2, padding: 1, dilation: 1 },
                Axis { size: 8, kernel: 3, stride: 1, padding: 2, dilation: 2 },
            ],
            groups: 2,
            layout: Layout::ChannelsLast,
            element: Element::F32,
            epilogue: None,
        }
    }

    #[test]
    fn shapes_are_those_of_the_definition() {
        let shapes = layer().shapes().expect("right");
        assert_eq!(shapes.input.sizes, [2, 4, 9, 8]);
        assert_eq!(shapes.filter.sizes, [6, 2, 3, 3]);
        assert_eq!(shapes.output.sizes, [2, 6, 5, 8]);
        assert_eq!(shapes.input.strides, [288, 1, 32, 4]);
        let first = Convolution { layout: Layout::ChannelsFirst, ..layer() }.shapes().expect("right");
        assert_eq!(first.input.strides, [288, 72, 8, 1]);
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |change: fn(&mut Convolution)| {
            let mut changed = layer();
            change(&mut changed);
            changed.shapes().expect_err("wrong")
        };
        assert_eq!(refused(|layer| layer.axes.truncate(1)), Invalid::Axes(1));
        assert_eq!(refused(|layer| layer.batch = 0), Invalid::Zero { what: "batch" });
        assert_eq!(refused(|layer| layer.groups = 0), Invalid::Zero { what: "number of groups" });
        assert_eq!(refused(|layer| layer.axes[1].stride = 0), Invalid::Zero { what: "stride" });
        assert_eq!(refused(|layer| layer.axes[1].kernel = 0), Invalid::Zero { what: "kernel" });
        assert_eq!(refused(|layer| layer.channels_in = 5), Invalid::Groups { channels: 5, groups: 2 });
        assert_eq!(refused(|layer| layer.axes[0].kernel = 12), Invalid::FilterLarger { reach: 12, padded: 11 });
        assert_eq!(refused(|layer| layer.axes[0].size = usize::MAX - 1), Invalid::TooLarge);
        assert_eq!(refused(|layer| layer.batch = 1 << 62), Invalid::TooLarge);
        let followed = |layer: &mut Convolution| {
            layer.direction = Direction::FilterGradient;
            layer.epilogue = Some(Epilogue { bias: true, activation: None });
        };
        assert_eq!(refused(followed), Invalid::Epilogue);
    }

    #[test]
    fn a_message_names_what_is_unusual() {
        let text = layer().to_string();
        assert_eq!(
            text,
            "a convolution, 2 x 4 to 6 channels x 9x8, kernel 3x3, stride 2x1, padding 1x2, dilation 1x2, 2 groups, \
             channels last, f32"
        );
    }
}
