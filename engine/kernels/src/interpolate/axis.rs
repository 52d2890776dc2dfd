//! The tables that resize an axis.

use super::InterpolateMode;
use crate::separable::AxisTaps;

impl AxisTaps {
    /// The table that resizes an axis of `n` voxels (at least 1) to `size`.
    pub fn resize(n: usize, size: usize, mode: InterpolateMode, align_corners: bool) -> Self {
        if n == size {
            return AxisTaps::new(1, (0..n as u32).collect(), vec![1.0; n]);
        }
        match mode {
            InterpolateMode::Nearest => nearest(n, size, |o, scale| o * scale),
            InterpolateMode::NearestExact => nearest(n, size, |o, scale| scale.mul_add(o + 0.5, -0.5).max(0.0) + 0.5),
            InterpolateMode::Area => area(n, size),
            InterpolateMode::Linear => {
                let last = (n - 1) as f64;
                weighted(size, |o| {
                    let at = coordinate(o, n, size, align_corners).clamp(0.0, last);
                    let low = at.floor();
                    let high = (low + 1.0).min(last);
                    [(low, 1.0 - (at - low)), (high, at - low)]
                })
            }
            InterpolateMode::Cubic => {
                let last = (n - 1) as f64;
                weighted::<4>(size, |o| {
                    let at = coordinate(o, n, size, align_corners);
                    let low = at.floor();
                    let weights = cubic_weights(at - low);
                    std::array::from_fn(|k| ((low - 1.0 + k as f64).clamp(0.0, last), weights[k]))
                })
            }
        }
    }
}

/// Weights of the voxels at -1, 0, 1 and 2 for a position `t` (0 to 1) between voxels 0 and 1:
/// Keys' cubic convolution with a = -0.75.
///
/// Reference: R. Keys, "Cubic convolution interpolation for digital image processing", IEEE Trans.
/// ASSP 29, 1981.
#[inline(always)]
pub(crate) fn cubic_weights(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The position of output `o` on the input axis.
fn coordinate(o: usize, n: usize, size: usize, align_corners: bool) -> f64 {
    match (align_corners, size) {
        (true, 1) => 0.0,
        (true, _) => o as f64 * (n as f64 - 1.0) / (size as f64 - 1.0),
        (false, _) => (o as f64 + 0.5) * n as f64 / size as f64 - 0.5,
    }
}

/// Tables with one tap each. PyTorch computes these positions in f32, and its rounding decides
/// where a position lies between two voxels.
fn nearest(n: usize, size: usize, place: impl Fn(f32, f32) -> f32) -> AxisTaps {
    let scale = n as f32 / size as f32;
    let index = (0..size).map(|o| (place(o as f32, scale) as u32).min(n as u32 - 1)).collect();
    AxisTaps::new(1, index, vec![1.0; size])
}

fn weighted<const K: usize>(size: usize, tap: impl Fn(usize) -> [(f64, f64); K]) -> AxisTaps {
    let (index, weight) = (0..size).flat_map(tap).map(|(i, w)| (i as u32, w as f32)).unzip();
    AxisTaps::new(K, index, weight)
}

/// Tables with windows from `floor(o n / size)` to `ceil((o + 1) n / size)`. Shorter ones repeat
/// their last voxel with weight 0.
fn area(n: usize, size: usize) -> AxisTaps {
    let window = |o: usize| (o * n / size, ((o + 1) * n).div_ceil(size));
    let taps = (0..size).map(|o| window(o).1 - window(o).0).max().unwrap_or(1);
    let (mut index, mut weight) = (Vec::with_capacity(size * taps), Vec::with_capacity(size * taps));
    for (start, end) in (0..size).map(window) {
        for i in start..start + taps {
            index.push(i.min(end - 1) as u32);
            weight.push(if i < end { 1.0 / (end - start) as f32 } else { 0.0 });
        }
    }
    AxisTaps::new(taps, index, weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(n: usize, size: usize, mode: InterpolateMode) -> Vec<u32> {
        AxisTaps::resize(n, size, mode, false).lists().0.to_vec()
    }

    /// Values of `torch.nn.functional.interpolate` on `arange(n)`, at sizes where rounding in f32
    /// decides.
    #[test]
    fn nearest_rounds_as_torch() {
        use InterpolateMode::{Nearest, NearestExact};
        assert_eq!(indices(7, 10, Nearest), [0, 0, 1, 2, 2, 3, 4, 4, 5, 6]);
        assert_eq!(indices(7, 4, Nearest), [0, 1, 3, 5]);
        assert_eq!(indices(7, 4, NearestExact), [0, 2, 4, 6]);
        assert_eq!(indices(2, 61, NearestExact)[29..32], [0, 0, 1]);
        assert_eq!(indices(26, 11, NearestExact), [1, 3, 5, 8, 10, 12, 15, 17, 20, 22, 24]);
    }

    #[test]
    fn weights_sum_to_one() {
        for mode in [InterpolateMode::Area, InterpolateMode::Linear, InterpolateMode::Cubic] {
            for (n, size) in [(1, 5), (5, 1), (7, 3), (3, 7), (16, 5)] {
                for align_corners in [false, true] {
                    let table = AxisTaps::resize(n, size, mode, align_corners);
                    for o in 0..size {
                        let sum: f32 = table.of(o).1.iter().sum();
                        assert!((sum - 1.0).abs() < 1e-6, "{mode:?} {n} to {size}, {o}: {sum}");
                    }
                    assert!(table.reads_within(n));
                }
            }
        }
    }
}
