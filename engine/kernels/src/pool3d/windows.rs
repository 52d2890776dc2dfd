//! The inputs that each output of a pooling reads.

use super::{Divisor, PoolShape};

/// The inputs `start`, `start + step`, ... of one output along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub start: usize,
    pub count: usize,
    /// The factor of this axis in the weight of an average.
    pub weight: f64,
}

/// All windows of one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub input: usize,
    pub step: usize,
    pub windows: Vec<Window>,
}

/// Windows of all axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooling {
    pub axes: [Axis; 3],
    /// An additional factor of an average, besides the windows' weights.
    pub scale: f64,
}

/// The number of windows of an axis; `None` where no window fits.
pub fn count(shape: &PoolShape, axis: usize, input: usize) -> Option<usize> {
    let (kernel, stride, padding) = (shape.kernel[axis], shape.stride[axis], shape.padding[axis]);
    if input == 0 || stride == 0 || kernel == 0 || shape.dilation[axis] == 0 {
        return None;
    }
    let reach = shape.dilation[axis] * (kernel - 1) + 1;
    // With the ceiling, the first window may be cut off as well, so the span may be negative.
    let span = (input + 2 * padding) as i64 - reach as i64;
    let rounding = if shape.ceil_mode { stride as i64 - 1 } else { 0 };
    let count = usize::try_from((span + rounding).div_euclid(stride as i64) + 1).ok().filter(|count| *count > 0)?;
    // A window that would begin in the padding at the far end is dropped.
    let beyond = shape.ceil_mode && (count - 1) * stride >= input + padding;
    Some(if beyond { count - 1 } else { count })
}

impl Axis {
    /// The windows of a kernel that moves by a stride; `None` where no window fits.
    pub fn fixed(shape: &PoolShape, axis: usize, input: usize, divisor: Divisor) -> Option<Self> {
        let (kernel, padding, step) = (shape.kernel[axis], shape.padding[axis], shape.dilation[axis]);
        let windows = (0..count(shape, axis, input)?).map(|i| {
            // Indices in the padded input.
            let first = i * shape.stride[axis];
            let skipped = padding.saturating_sub(first).div_ceil(step);
            let start = (first + skipped * step) - padding;
            let inside = input.saturating_sub(start).div_ceil(step).min(kernel.saturating_sub(skipped));
            let weight = match divisor {
                Divisor::Window => 1.0 / (first + kernel).min(input + 2 * padding).saturating_sub(first) as f64,
                Divisor::Inside => 1.0 / inside as f64,
                Divisor::Given(_) => 1.0,
            };
            Window { start: start.min(input), count: inside, weight }
        });
        Some(Axis { input, step, windows: windows.collect() })
    }

    /// Window `i` of `output` goes from `floor(i n / output)` to `ceil((i + 1) n / output)`.
    pub fn adaptive(input: usize, output: usize) -> Self {
        let windows = (0..output).map(|i| {
            let start = i * input / output;
            let count = ((i + 1) * input).div_ceil(output) - start;
            Window { start, count, weight: 1.0 / count as f64 }
        });
        Axis { input, step: 1, windows: windows.collect() }
    }

    /// Whether output and input are equal.
    pub fn is_identity(&self) -> bool {
        let same = |(i, w): (usize, &Window)| w.start == i && w.count == 1 && w.weight == 1.0;
        self.windows.len() == self.input && self.windows.iter().enumerate().all(same)
    }
}

impl Pooling {
    pub fn input(&self) -> [usize; 3] {
        self.axes.each_ref().map(|axis| axis.input)
    }

    pub fn output(&self) -> [usize; 3] {
        self.axes.each_ref().map(|axis| axis.windows.len())
    }
}
