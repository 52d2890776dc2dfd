//! numpy's padding modes that read a whole axis: mean, median, minimum, maximum, and a ramp
//! to zero.

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::host;

use super::pad::PadMode;
use crate::TransformError;

/// Pads one axis after another, each including the voxels added by the earlier ones, as `numpy.pad`
/// does. Sums are in numpy's order, so that means are bit-identical. Runs on the CPU, because a
/// statistic per line is little work and rarely used.
pub(super) fn pad_statistic(
    data: Tensor<4>,
    before: [usize; 3],
    after: [usize; 3],
    mode: PadMode,
) -> Result<Tensor<4>, TransformError> {
    let device = data.device();
    let [c, mut shape @ ..] = data.dims();
    let mut values = match host::read(&data, <[f32]>::to_vec) {
        Some(values) => values,
        None => data.try_into_vec_as::<f32>().map_err(|error| TransformError::of_device(&error))?,
    };
    for axis in 0..3 {
        let (n, front, back) = (shape[axis], before[axis], after[axis]);
        if front + back == 0 {
            continue;
        }
        if n == 0 {
            return Err(TransformError::new(format!("axis {axis} is empty, {mode:?} padding has no voxels to read")));
        }
        let inner: usize = shape[axis + 1..].iter().product();
        shape[axis] = n + front + back;
        let mut out = vec![0.0_f32; c * shape.iter().product::<usize>()];
        if inner > 0 {
            let blocks = values.chunks_exact(n * inner).zip(out.chunks_exact_mut(shape[axis] * inner));
            let mut line = vec![0.0_f32; n];
            for (from, to) in blocks {
                to[front * inner..(front + n) * inner].copy_from_slice(from);
                for i in 0..inner {
                    line.iter_mut().zip(from[i..].iter().step_by(inner)).for_each(|(l, v)| *l = *v);
                    let (edges, level) = ([line[0], line[n - 1]], statistic(&mut line, mode, inner == 1));
                    for k in 0..front {
                        to[k * inner + i] = if mode == PadMode::LinearRamp { ramp(edges[0], k, front) } else { level };
                    }
                    for k in 0..back {
                        let value = if mode == PadMode::LinearRamp { ramp(edges[1], k, back) } else { level };
                        to[(n + front + back - 1 - k) * inner + i] = value;
                    }
                }
            }
        }
        values = out;
    }
    Ok(Tensor::from_data(TensorData::new(values, [c, shape[0], shape[1], shape[2]]), &device))
}

/// Value `k` of `width`, counted from the outer end, of the ramp from 0 to the edge.
fn ramp(edge: f32, k: usize, width: usize) -> f32 {
    (k as f64 * (f64::from(edge) / width as f64)) as f32
}

fn statistic(line: &mut [f32], mode: PadMode, adjacent: bool) -> f32 {
    match mode {
        // numpy's minimum and maximum propagate NaN.
        PadMode::Minimum => line.iter().copied().reduce(|a, b| if a.is_nan() || a < b { a } else { b }).unwrap_or(0.0),
        PadMode::Maximum => line.iter().copied().reduce(|a, b| if a.is_nan() || a > b { a } else { b }).unwrap_or(0.0),
        PadMode::Mean if adjacent => pairwise(line) / line.len() as f32,
        PadMode::Mean => line.iter().sum::<f32>() / line.len() as f32,
        PadMode::Median => median(line),
        _ => 0.0,
    }
}

fn median(line: &mut [f32]) -> f32 {
    if line.iter().any(|v| v.is_nan()) {
        return f32::NAN;
    }
    line.sort_unstable_by(f32::total_cmp);
    let (half, n) = (line.len() / 2, line.len());
    if n % 2 == 1 { line[half] } else { (line[half - 1] + line[half]) / 2.0 }
}

/// numpy's sum of adjacent values: eight sums at once up to 128 values, halves beyond.
fn pairwise(values: &[f32]) -> f32 {
    let n = values.len();
    if n < 8 {
        return values.iter().sum();
    }
    if n > 128 {
        let half = n / 2 - n / 2 % 8;
        return pairwise(&values[..half]) + pairwise(&values[half..]);
    }
    let mut r = [0.0_f32; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        r.iter_mut().zip(chunk).for_each(|(r, v)| *r += v);
    }
    let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    rest.iter().fold(sum, |sum, v| sum + v)
}
