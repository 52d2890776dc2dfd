//! In-place augmentation of the values of one channel: `[z, y, x]`, with a first axis of 1 for a slice.

use crate::resample::linear;
use crate::volume::Axes3;

/// The size of a Gaussian kernel with this deviation: the odd number nearest to 6 sigma + 0.5.
pub fn kernel_size(sigma: f64) -> usize {
    let wanted = 6.0 * sigma + 0.5;
    // The larger one of two equally near numbers.
    let below = 2 * (((wanted - 1.0) / 2.0).max(0.0).floor() as usize) + 1;
    if wanted - below as f64 >= 1.0 { below + 2 } else { below }
}

/// Blurs with a Gaussian along each axis that has a deviation; the image is reflected at its ends.
pub fn blur(values: &mut [f32], shape: Axes3, sigmas: [Option<f64>; 3]) {
    let steps = [shape[1] * shape[2], shape[2], 1];
    for (axis, sigma) in sigmas.into_iter().enumerate() {
        let Some(sigma) = sigma.filter(|_| shape[axis] > 1) else { continue };
        let radius = (kernel_size(sigma) / 2) as i64;
        let weight = |x: i64| (-((x * x) as f64) / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-radius..=radius).map(weight).sum();
        let weights: Vec<f64> = (-radius..=radius).map(|x| weight(x) / total).collect();
        let length = shape[axis] as i64;
        let reflected = |at: i64| {
            let at = at.rem_euclid(2 * (length - 1));
            (if at < length { at } else { 2 * (length - 1) - at }) as usize
        };
        let mut line = vec![0.0_f64; shape[axis]];
        let firsts = (0..values.len()).filter(|index| index / steps[axis] % shape[axis] == 0);
        for first in firsts.collect::<Vec<usize>>() {
            for (at, value) in line.iter_mut().enumerate() {
                *value = f64::from(values[first + at * steps[axis]]);
            }
            for at in 0..shape[axis] {
                let near = weights
                    .iter()
                    .enumerate()
                    .map(|(k, weight)| weight * line[reflected(at as i64 + k as i64 - radius)]);
                values[first + at * steps[axis]] = near.sum::<f64>() as f32;
            }
        }
    }
}

/// Multiplies the values by a factor.
pub fn brightness(values: &mut [f32], factor: f64) {
    values.iter_mut().for_each(|value| *value *= factor as f32);
}

/// Scales the values about their mean, clipped to the old range.
pub fn contrast(values: &mut [f32], factor: f64) {
    let ([low, high], mean) = (range(values), mean(values));
    for value in values.iter_mut() {
        *value = (((f64::from(*value) - mean) * factor + mean) as f32).max(low).min(high);
    }
}

/// Samples the image down by `scale` per axis, above 0 and at most 1, and up again.
pub fn low_resolution(values: &mut [f32], shape: Axes3, scale: [f64; 3]) {
    let small: Axes3 = std::array::from_fn(|axis| {
        ((shape[axis] as f64 * scale[axis]).round_ties_even() as usize).clamp(1, shape[axis].max(1))
    });
    let nearest = |at: usize, axis: usize| {
        let ratio = shape[axis] as f32 / small[axis] as f32;
        (((at as f32 + 0.5) * ratio) as usize).min(shape[axis] - 1)
    };
    let mut few = Vec::with_capacity(small.iter().product());
    for z in 0..small[0] {
        for y in 0..small[1] {
            let row = (nearest(z, 0) * shape[1] + nearest(y, 1)) * shape[2];
            few.extend((0..small[2]).map(|x| values[row + nearest(x, 2)]));
        }
    }
    values.copy_from_slice(&linear(&few, small, shape, None));
}

/// Applies a power to the values within their range, and keeps mean and deviation. With `invert` it
/// is applied to the negated image.
pub fn gamma(values: &mut [f32], gamma: f64, invert: bool) {
    let sign = if invert { -1.0 } else { 1.0 };
    values.iter_mut().for_each(|value| *value *= sign);
    let ([low, high], before) = (range(values), moments(values));
    let width = (high - low).max(1e-7);
    for value in values.iter_mut() {
        *value = ((*value - low) / width).powf(gamma as f32) * width + low;
    }
    let after = moments(values);
    let factor = before.1 / after.1.max(1e-7);
    for value in values.iter_mut() {
        *value = sign * ((f64::from(*value) - after.0) * factor + before.0) as f32;
    }
}

/// Reverses the selected axes.
pub fn mirror(values: &mut [f32], shape: Axes3, axes: [bool; 3]) {
    let [nz, ny, nx] = shape;
    let old = values.to_vec();
    let place = |at: usize, length: usize, flip: bool| if flip { length - 1 - at } else { at };
    for z in 0..nz {
        for y in 0..ny {
            let from = (place(z, nz, axes[0]) * ny + place(y, ny, axes[1])) * nx;
            let row = &mut values[(z * ny + y) * nx..][..nx];
            row.copy_from_slice(&old[from..from + nx]);
            if axes[2] {
                row.reverse();
            }
        }
    }
}

fn range(values: &[f32]) -> [f32; 2] {
    values.iter().fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], value| [low.min(*value), high.max(*value)])
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64
}

/// The mean and the standard deviation of a sample.
fn moments(values: &[f32]) -> (f64, f64) {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
    (mean, (squares / (values.len().max(2) - 1) as f64).sqrt())
}
