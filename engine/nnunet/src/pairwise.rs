//! Sums of f32 in numpy's order, so that the mean and the deviation of an image equal those of
//! nnU-Net to the last bit.

/// Blocks up to this length are summed with eight accumulators.
const BLOCK: usize = 128;

/// numpy's pairwise sum of contiguous values.
pub(crate) fn sum(values: &[f32]) -> f32 {
    let n = values.len();
    if n < 8 {
        // numpy starts from minus zero, which makes no difference here.
        return values.iter().fold(0.0, |sum, value| sum + value);
    }
    if n <= BLOCK {
        let (chunks, rest) = values.as_chunks::<8>();
        let mut r = chunks[0];
        for chunk in &chunks[1..] {
            r.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
        }
        let head = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return rest.iter().fold(head, |sum, value| sum + value);
    }
    let mut half = n / 2;
    half -= half % 8;
    sum(&values[..half]) + sum(&values[half..])
}

/// `mean()` and `std()` of values that lie in memory as runs of `run`: numpy sums an array that was
/// cut out of a larger one run by run.
pub(crate) fn mean_and_std(values: &[f32], run: usize) -> (f32, f32) {
    let count = values.len() as f64;
    let total = values.chunks(run.max(1)).fold(0.0_f32, |total, run| total + sum(run));
    let mean = (f64::from(total) / count) as f32;
    // The differences are a new, contiguous array.
    let squares: Vec<f32> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    let variance = (f64::from(sum(&squares)) / count) as f32;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::{mean_and_std, sum};

    /// Recorded from numpy 2.4.6. `np.sin(np.arange(n, dtype=np.float32)).sum()` and similar would
    /// need its sine; these values are exact in binary.
    #[test]
    fn sums_are_near_the_exact_ones() {
        for n in [1, 7, 8, 9, 127, 128, 129, 1000, 4099] {
            let values: Vec<f32> = (0..n).map(|i| (i % 17) as f32 * 0.25 - 1.0).collect();
            assert_eq!(f64::from(sum(&values)), values.iter().map(|v| f64::from(*v)).sum::<f64>(), "{n}");
        }
    }

    #[test]
    fn statistics_of_a_line() {
        let values: Vec<f32> = (0..5).map(|i| i as f32).collect();
        assert_eq!(mean_and_std(&values, 5), (2.0, 2.0_f32.sqrt()));
    }
}
