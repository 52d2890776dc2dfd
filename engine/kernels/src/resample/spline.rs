//! The coefficients of the B-spline that passes through the voxels (scipy's `spline_filter`).
//!
//! A spline of order 2 or more does not pass through its own coefficients, so the image is filtered
//! first: along each axis a causal and an anticausal recursion per pole. For paddings without an
//! exact start value the image is extended, as in scipy.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::{Interpolation, Padding, Sampling};
use crate::host;
use crate::separable::{AxisTaps, separable};

/// The number of voxels added at each end where the recursion has no exact start (scipy's number).
const MARGIN: usize = 12;

/// The number of lines that are filtered in parallel.
const LANES: usize = 16;

/// The image's coefficients, and the number of voxels added before each axis. `still[axis]` marks
/// an axis with one voxel that is read only there, so that nothing is interpolated along it.
pub(super) fn coefficients(image: Tensor<4>, sampling: Sampling, still: [bool; 3]) -> (Tensor<4>, [usize; 3]) {
    let Interpolation::Spline(order) = sampling.mode else { return (image, [0; 3]) };
    assert!(order <= 5, "there is no spline of order {order}; 0 to 5");
    if order < 2 {
        return (image, [0; 3]);
    }
    let margin = if matches!(sampling.padding, Padding::Border | Padding::Zeros) { MARGIN } else { 0 };
    let filter = Filter { poles: poles(order), start: Start::of(sampling.padding) };
    let [c, x, y, z] = image.dims();
    let shape = [x, y, z];
    let alike = |axis: usize| still[axis] || (shape[axis] == 1 && sampling.padding == Padding::Border);
    let margins = std::array::from_fn(|axis| if alike(axis) { 0 } else { margin });
    let longer: [usize; 3] = std::array::from_fn(|a| shape[a] + 2 * margins[a]);
    let done = host::read(&image, |values| {
        let mut out = lengthen(values, c, shape, margins, sampling.padding);
        for axis in 0..3 {
            filter.run(&mut out, c, longer, axis);
        }
        out
    });
    let image = match done {
        Some(out) => Tensor::from_data(TensorData::new(out, [c, longer[0], longer[1], longer[2]]), &image.device()),
        None => by_sums(image, margins, &filter, sampling.padding),
    };
    (image, margins)
}

fn poles(order: u8) -> Vec<f64> {
    // Roots inside the unit circle of the polynomial whose coefficients are the spline's values at
    // whole numbers.
    match order {
        2 => vec![8.0_f64.sqrt() - 3.0],
        3 => vec![3.0_f64.sqrt() - 2.0],
        4 => {
            let (a, b) = (438_976.0_f64.sqrt(), 304.0_f64.sqrt());
            vec![(664.0 - a).sqrt() + b - 19.0, (664.0 + a).sqrt() - b - 19.0]
        }
        _ => {
            let (a, b) = (4436.25_f64.sqrt(), 26.25_f64.sqrt());
            vec![(67.5 - a).sqrt() + b - 6.5, (67.5 + a).sqrt() - b - 6.5]
        }
    }
}

/// The continuation of the image beyond the line's ends.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    Mirror,
    Reflect,
    Wrap,
}

impl Start {
    fn of(padding: Padding) -> Self {
        match padding {
            Padding::Reflection | Padding::Border => Start::Reflect,
            Padding::GridWrap => Start::Wrap,
            Padding::Mirror | Padding::Cut | Padding::Wrap | Padding::Zeros => Start::Mirror,
        }
    }
}

/// The logarithm of a negligible weight.
const FAINT: f64 = -42.0;

#[inline(always)]
fn add(sum: &mut Lane, lane: &Lane, weight: f64) {
    sum.iter_mut().zip(lane).for_each(|(s, v)| *s += weight * v);
}

struct Filter {
    poles: Vec<f64>,
    start: Start,
}

type Lane = [f64; LANES];

impl Filter {
    /// Filters lines in place, in parallel lanes.
    #[inline(always)]
    fn lines(&self, c: &mut [Lane]) {
        if c.len() < 2 {
            return;
        }
        let gain: f64 = self.poles.iter().map(|z| (1.0 - z) * (1.0 - 1.0 / z)).product();
        c.iter_mut().flatten().for_each(|v| *v *= gain);
        for z in &self.poles {
            self.causal_start(c, *z);
            for i in 1..c.len() {
                let before = c[i - 1];
                c[i].iter_mut().zip(before).for_each(|(v, b)| *v += z * b);
            }
            self.anticausal_start(c, *z);
            for i in (0..c.len() - 1).rev() {
                let after = c[i + 1];
                c[i].iter_mut().zip(after).for_each(|(v, a)| *v = z * (a - *v));
            }
        }
    }

    #[inline(always)]
    fn causal_start(&self, c: &mut [Lane], z: f64) {
        let n = c.len();
        let (first, last) = (c[0], c[n - 1]);
        // Values further away contribute less than rounding.
        let reach = n.min((FAINT / z.abs().ln()) as usize + 2);
        let mut sum = first;
        let mut power = z;
        match self.start {
            Start::Mirror => {
                let far = z.powi(n as i32 - 1);
                add(&mut sum, &last, far);
                for i in 1..reach.min(n - 1) {
                    add(&mut sum, &c[i], power);
                    add(&mut sum, &c[n - 1 - i], power * far);
                    power *= z;
                }
                c[0] = sum.map(|v| v / (1.0 - far * far));
            }
            Start::Wrap => {
                for i in 1..reach {
                    add(&mut sum, &c[n - i], power);
                    power *= z;
                }
                c[0] = sum.map(|v| v / (1.0 - z.powi(n as i32)));
            }
            Start::Reflect => {
                let far = z.powi(n as i32);
                add(&mut sum, &last, far);
                for i in 1..reach {
                    // scipy reads its running sum at the last step; it matters only on lines of a
                    // few voxels.
                    let opposite = if i == n - 1 { sum } else { c[n - 1 - i] };
                    add(&mut sum, &c[i], power);
                    add(&mut sum, &opposite, power * far);
                    power *= z;
                }
                let scale = z / (1.0 - far * far);
                c[0] = std::array::from_fn(|lane| sum[lane] * scale + first[lane]);
            }
        }
    }

    #[inline(always)]
    fn anticausal_start(&self, c: &mut [Lane], z: f64) {
        let n = c.len();
        let last = c[n - 1];
        c[n - 1] = match self.start {
            Start::Mirror => {
                let before = c[n - 2];
                std::array::from_fn(|lane| (z * before[lane] + last[lane]) * z / (z * z - 1.0))
            }
            Start::Reflect => last.map(|v| v * z / (z - 1.0)),
            Start::Wrap => {
                let (mut power, mut sum) = (z, last);
                for line in &c[..n - 1] {
                    add(&mut sum, line, power);
                    power *= z;
                }
                sum.map(|v| v * z / (power - 1.0))
            }
        };
    }

    /// Filters a `[channels, shape]` volume along one axis, in place.
    fn run(&self, values: &mut [f32], channels: usize, shape: [usize; 3], axis: usize) {
        let n = shape[axis];
        if n < 2 {
            return;
        }
        let stride: usize = shape[axis + 1..].iter().product();
        // Along the last axis a line is contiguous in memory; along others, neighbouring lines are.
        if stride == 1 {
            values.par_chunks_mut(n * LANES).for_each_init(
                || vec![[0.0; LANES]; n],
                |buffer, rows| {
                    for (lane, row) in rows.chunks_exact(n).enumerate() {
                        buffer.iter_mut().zip(row).for_each(|(b, v)| b[lane] = f64::from(*v));
                    }
                    self.lines(buffer);
                    for (lane, row) in rows.chunks_exact_mut(n).enumerate() {
                        buffer.iter().zip(row).for_each(|(b, v)| *v = b[lane] as f32);
                    }
                },
            );
            return;
        }
        let outer = channels * shape[..axis].iter().product::<usize>();
        let groups = stride.div_ceil(LANES);
        let columns = Columns(values.as_mut_ptr());
        (0..outer * groups).into_par_iter().for_each_init(
            || vec![[0.0; LANES]; n],
            |buffer, group| {
                let columns = &columns;
                let first = group % groups * LANES;
                let lanes = LANES.min(stride - first);
                let at = |i: usize| (group / groups * n + i) * stride + first;
                for (i, b) in buffer.iter_mut().enumerate() {
                    // SAFETY: the lanes of one group lie within the volume, and no other group
                    // reads or writes them.
                    let line = unsafe { std::slice::from_raw_parts(columns.0.add(at(i)), lanes) };
                    b.iter_mut().zip(line).for_each(|(b, v)| *b = f64::from(*v));
                }
                self.lines(buffer);
                for (i, b) in buffer.iter().enumerate() {
                    // SAFETY: as above.
                    let line = unsafe { std::slice::from_raw_parts_mut(columns.0.add(at(i)), lanes) };
                    line.iter_mut().zip(b).for_each(|(v, b)| *v = *b as f32);
                }
            },
        );
    }
}

/// A volume whose columns are filtered by several threads.
struct Columns(*mut f32);

// SAFETY: every thread works on separate columns, see `Filter::run`.
unsafe impl Send for Columns {}
// SAFETY: as above.
unsafe impl Sync for Columns {}

/// A copy with voxels added at both ends of each axis: the edge voxel for border padding, else 0.
fn lengthen(values: &[f32], channels: usize, shape: [usize; 3], margins: [usize; 3], padding: Padding) -> Vec<f32> {
    if margins == [0; 3] {
        return values.to_vec();
    }
    let longer: [usize; 3] = std::array::from_fn(|a| shape[a] + 2 * margins[a]);
    let mut out = vec![0.0; channels * longer.iter().product::<usize>()];
    let from = |i: usize, axis: usize| match i.checked_sub(margins[axis]).filter(|i| *i < shape[axis]) {
        Some(i) => Some(i),
        None if padding == Padding::Border => Some(i.saturating_sub(margins[axis]).min(shape[axis] - 1)),
        None => None,
    };
    out.par_chunks_mut(longer[1] * longer[2]).enumerate().for_each(|(plane, target)| {
        let (c, Some(x)) = (plane / longer[0], from(plane % longer[0], 0)) else { return };
        for (j, row) in target.chunks_exact_mut(longer[2]).enumerate() {
            let Some(y) = from(j, 1) else { continue };
            let line = &values[((c * shape[0] + x) * shape[1] + y) * shape[2]..][..shape[2]];
            let (before, rest) = row.split_at_mut(margins[2]);
            let (inside, after) = rest.split_at_mut(shape[2]);
            inside.copy_from_slice(line);
            if padding == Padding::Border {
                before.fill(line[0]);
                after.fill(line[shape[2] - 1]);
            }
        }
    });
    out
}

/// Computes the same as weighted sums along the axes, for devices other than the CPU.
fn by_sums(image: Tensor<4>, margins: [usize; 3], filter: &Filter, padding: Padding) -> Tensor<4> {
    let dims = image.dims();
    separable(image, &std::array::from_fn(|axis| filter.taps(dims[axis + 1], margins[axis], padding)))
}

/// The weight below which no coefficient changes by a unit in its last place. Weights decay
/// geometrically, so that about 40 voxels of a long axis matter.
const LEAST_WEIGHT: f32 = 1e-8;

impl Filter {
    /// The coefficients of an axis as weighted sums of its `n` voxels.
    fn taps(&self, n: usize, margin: usize, padding: Padding) -> AxisTaps {
        if n < 2 && margin == 0 {
            return AxisTaps::new(1, (0..n as u32).collect(), vec![1.0; n]);
        }
        let matrix = self.matrix(n, margin, padding);
        let counts = |row: &[f32]| -> Vec<usize> { (0..n).filter(|i| row[*i].abs() > LEAST_WEIGHT).collect() };
        let rows: Vec<_> = matrix.chunks_exact(n).map(|row| (counts(row), row)).collect();
        let taps = rows.iter().map(|(voxels, _)| voxels.len()).max().unwrap_or(0).max(1);
        let (mut index, mut weight) = (Vec::with_capacity(rows.len() * taps), Vec::with_capacity(rows.len() * taps));
        for (voxels, row) in rows {
            let rest = taps - voxels.len();
            index.extend(voxels.iter().map(|i| *i as u32).chain(std::iter::repeat_n(0, rest)));
            weight.extend(voxels.iter().map(|i| row[*i]).chain(std::iter::repeat_n(0.0, rest)));
        }
        AxisTaps::new(taps, index, weight)
    }

    /// The coefficients of an axis as a matrix times its `n` voxels, row-major, `n + 2 * margin`
    /// rows.
    fn matrix(&self, n: usize, margin: usize, padding: Padding) -> Vec<f32> {
        let longer = n + 2 * margin;
        let mut out = vec![0.0; longer * n];
        let mut buffer = vec![[0.0; LANES]; longer];
        for first in (0..n).step_by(LANES) {
            buffer.fill([0.0; LANES]);
            let lanes = LANES.min(n - first);
            for lane in 0..lanes {
                let column = first + lane;
                for (i, b) in buffer.iter_mut().enumerate() {
                    let voxel = i as i64 - margin as i64;
                    let reads = if padding == Padding::Border { voxel.clamp(0, n as i64 - 1) } else { voxel };
                    b[lane] = if reads == column as i64 { 1.0 } else { 0.0 };
                }
            }
            self.lines(&mut buffer);
            for (row, b) in buffer.iter().enumerate() {
                out[row * n + first..][..lanes].iter_mut().zip(b).for_each(|(v, b)| *v = *b as f32);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// The two algorithms agree, with and without added voxels.
    #[test]
    fn recursion_and_sums_agree() {
        let values: Vec<f32> = (0..2 * 70 * 3 * 19).map(|i| ((i * 7919 % 1009) as f32) / 100.0 - 4.0).collect();
        let image = Tensor::<4>::from_data(TensorData::new(values, [2, 70, 3, 19]), &Device::flex());
        for order in 2..=5 {
            for padding in [Padding::Border, Padding::Zeros, Padding::Mirror, Padding::Reflection, Padding::GridWrap] {
                let sampling = Sampling { mode: Interpolation::Spline(order), padding };
                let (by_recursion, margins) = coefficients(image.clone(), sampling, [false; 3]);
                let filter = Filter { poles: poles(order), start: Start::of(padding) };
                let by_sums = by_sums(image.clone(), margins, &filter, padding);
                let worst = (by_recursion - by_sums).abs().max().into_scalar::<f32>();
                assert!(worst < 2e-4, "{sampling:?}: {worst}");
            }
        }
    }
}
