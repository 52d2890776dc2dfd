//! Mean, deviation and extremes, of all values or of each channel.

use burn::tensor::Tensor;
use hearth_image::Image;
use hearth_kernels::host;
use rayon::prelude::*;

use super::values::groups;

/// The number of values in a piece of a sum. Sums of pieces are added in order, so that the number
/// of threads does not change a result.
const PIECE: usize = 1 << 14;

/// The number of parallel sums, which lets loops vectorize.
const LANES: usize = 8;

/// Mean and variance of some values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    /// Number of values that are counted.
    pub count: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Population variance of the values.
    pub variance: f64,
}

impl Moments {
    /// The population standard deviation (`unbiased=False`).
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// The sample standard deviation (PyTorch's default, with `n - 1`); NaN for a single value.
    pub fn sample_deviation(&self) -> f64 {
        let n = self.count as f64;
        (self.variance * n / (n - 1.0)).sqrt()
    }
}

/// Computes the moments of the values, or of those that are not 0, in one pass, in f64.
pub(super) fn moments(values: &[f32], nonzero: bool) -> Moments {
    // With an existing value as the centre, the deviation of a constant is exactly 0.
    let Some(centre) = values.iter().copied().find(|v| !nonzero || *v != 0.0) else { return Moments::default() };
    let centre = f64::from(centre);
    let parts: Vec<(f64, f64, usize)> = values
        .par_chunks(PIECE)
        .map(|piece| {
            let (mut sum, mut squares, mut count) = ([0.0_f64; LANES], [0.0_f64; LANES], [0_u32; LANES]);
            let mut add = |lane: usize, v: f32| {
                let counts = !nonzero || v != 0.0;
                let d = if counts { f64::from(v) - centre } else { 0.0 };
                sum[lane] += d;
                squares[lane] += d * d;
                count[lane] += u32::from(counts);
            };
            let (whole, rest) = piece.as_chunks::<LANES>();
            whole.iter().for_each(|eight| (0..LANES).for_each(|lane| add(lane, eight[lane])));
            rest.iter().enumerate().for_each(|(lane, v)| add(lane, *v));
            (sum.iter().sum(), squares.iter().sum(), count.iter().sum::<u32>() as usize)
        })
        .collect();
    let (sum, squares, count) = parts.into_iter().fold((0.0, 0.0, 0), |(s, q, n), p| (s + p.0, q + p.1, n + p.2));
    let mean = sum / count as f64;
    let variance = squares / count as f64 - mean * mean;
    Moments { count, mean: centre + mean, variance: if variance < 0.0 { 0.0 } else { variance } }
}

/// Returns the smallest and largest value; NaN if there is a NaN or no value.
pub(super) fn extremes(values: &[f32]) -> (f32, f32) {
    if values.is_empty() {
        return (f32::NAN, f32::NAN);
    }
    let of_piece = |piece: &[f32]| {
        let (mut low, mut high, mut nan) =
            ([f32::INFINITY; 2 * LANES], [f32::NEG_INFINITY; 2 * LANES], [false; 2 * LANES]);
        let mut add = |lane: usize, v: f32| {
            low[lane] = if v < low[lane] { v } else { low[lane] };
            high[lane] = if v > high[lane] { v } else { high[lane] };
            nan[lane] |= v.is_nan();
        };
        let (whole, rest) = piece.as_chunks::<{ 2 * LANES }>();
        whole.iter().for_each(|some| (0..2 * LANES).for_each(|lane| add(lane, some[lane])));
        rest.iter().enumerate().for_each(|(lane, v)| add(lane, *v));
        if nan.contains(&true) {
            return (f32::NAN, f32::NAN);
        }
        (low.into_iter().fold(f32::INFINITY, f32::min), high.into_iter().fold(f32::NEG_INFINITY, f32::max))
    };
    let join = |a: (f32, f32), b: (f32, f32)| match a.0.is_nan() || b.0.is_nan() {
        true => (f32::NAN, f32::NAN),
        false => (a.0.min(b.0), a.1.max(b.1)),
    };
    values.par_chunks(PIECE).map(of_piece).reduce(|| (f32::INFINITY, f32::NEG_INFINITY), join)
}

/// Computes [`moments`] of an image, on any device: one entry, or one per channel.
pub(super) fn image_moments(image: &Image, channel_wise: bool, nonzero: bool) -> Vec<Moments> {
    let (count, size) = groups(image, channel_wise);
    let here = host::read(&image.data, |values| {
        let mut found: Vec<_> = values.chunks(size).map(|values| moments(values, nonzero)).collect();
        found.resize(count, Moments::default());
        found
    });
    here.unwrap_or_else(|| {
        let x: Tensor<2> = image.data.clone().reshape([count, size]);
        let mask = if nonzero { x.clone().not_equal_elem(0.0).float() } else { x.ones_like() };
        let number = mask.clone().sum_dim(1);
        let divisor = number.clone().clamp_min(1.0);
        let mean = (x.clone() * mask.clone()).sum_dim(1) / divisor.clone();
        let centred = (x - mean.clone()) * mask;
        let variance = (centred.clone() * centred).sum_dim(1) / divisor;
        let [number, mean, variance] = [number, mean, variance].map(numbers);
        let each = number.into_iter().zip(mean).zip(variance);
        each.map(|((count, mean), variance)| Moments { count: count as usize, mean, variance }).collect()
    })
}

/// Computes [`extremes`] of an image, on any device: one entry, or one per channel.
pub(super) fn image_extremes(image: &Image, channel_wise: bool) -> Vec<(f32, f32)> {
    let (count, size) = groups(image, channel_wise);
    if image.data.dims().contains(&0) {
        return vec![(f32::NAN, f32::NAN); count];
    }
    host::read(&image.data, |values| values.chunks(size).map(extremes).collect()).unwrap_or_else(|| {
        let x: Tensor<2> = image.data.clone().reshape([count, size]);
        let [low, high] = [numbers(x.clone().min_dim(1)), numbers(x.max_dim(1))];
        low.into_iter().zip(high).map(|(low, high)| (low as f32, high as f32)).collect()
    })
}

/// Reads a few numbers from a device.
fn numbers(tensor: Tensor<2>) -> Vec<f64> {
    host::values(&tensor).into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy's `mean`, `std()` and `std(ddof=1)` of `sin(i) * 100 + 1e4` in f64, for i in
    /// 0..100000.
    #[test]
    fn moments_are_numpys() {
        let values: Vec<f32> = (0..100_000).map(|i| ((i as f64).sin() * 100.0 + 1e4) as f32).collect();
        let found = moments(&values, false);
        assert!((found.mean - 10_000.001_818).abs() < 1e-5, "{}", found.mean);
        assert!((found.deviation() - 70.710_773).abs() < 1e-4, "{}", found.deviation());
        assert!((found.sample_deviation() - found.deviation() * (1e5 / 99_999.0_f64).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_constant_has_no_deviation() {
        let found = moments(&[0.1; 777], false);
        assert_eq!((found.count, found.variance), (777, 0.0));
        assert_eq!(moments(&[0.0; 9], true).count, 0);
    }

    #[test]
    fn zeros_can_be_left_out() {
        let mut values = vec![0.0; 1000];
        values.extend([1.0, 3.0]);
        let found = moments(&values, true);
        assert_eq!((found.count, found.mean, found.variance), (2, 2.0, 1.0));
    }

    #[test]
    fn extremes_see_every_value_and_nan() {
        let mut values = vec![1.0; 100_003];
        values[77_777] = -4.0;
        values[100_002] = 9.0;
        assert_eq!(extremes(&values), (-4.0, 9.0));
        values[5] = f32::NAN;
        assert!(extremes(&values).0.is_nan());
        assert!(extremes(&[]).1.is_nan());
    }
}
