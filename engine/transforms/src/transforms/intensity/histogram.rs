//! Histograms as in numpy and scikit-image.

use super::statistics::extremes;

/// Counts and centres of bins of equal width from the smallest to the largest value:
/// `skimage.exposure.histogram` of f32 values.
///
/// All computations are in f32 and in numpy's order of operations, so that a value on the edge of a
/// bin falls into the same bin. NaN is not counted.
pub(super) struct Histogram {
    pub counts: Vec<u64>,
    pub centres: Vec<f32>,
}

impl Histogram {
    /// Returns the histogram of the values whose entry in `counts` is true; `None` if there are
    /// none, or one is not finite.
    pub fn of(values: &[f32], bins: usize, counts: Option<&[bool]>) -> Option<Self> {
        let chosen: Vec<f32>;
        let values = match counts {
            None => values,
            Some(mask) => {
                chosen = values.iter().zip(mask).filter(|(_, m)| **m).map(|(v, _)| *v).collect();
                &chosen
            }
        };
        let (first, last) = match extremes(values) {
            (low, high) if !(low.is_finite() && high.is_finite()) => return None,
            (low, high) if low == high => (low - 0.5, high + 0.5),
            ends => ends,
        };
        let width = last - first;
        let step = width / bins as f32;
        let edges: Vec<f32> = (0..bins).map(|i| i as f32 * step + first).chain([last]).collect();
        let mut found = vec![0_u64; bins];
        for v in values {
            let mut bin = (((v - first) / width) * bins as f32) as usize;
            bin = bin.min(bins - 1);
            if *v < edges[bin] {
                bin = bin.saturating_sub(1);
            } else if *v >= edges[bin + 1] && bin != bins - 1 {
                bin += 1;
            }
            found[bin] += 1;
        }
        let centres = edges.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        Some(Histogram { counts: found, centres })
    }
}

/// Returns the threshold that separates two classes best (Otsu, 1979):
/// `skimage.filters.threshold_otsu`, with the same precision. If there is only one value, it is
/// returned.
pub(super) fn otsu(values: &[f32]) -> Option<f32> {
    let first = *values.first()?;
    if values.iter().all(|v| *v == first) {
        return Some(first);
    }
    let Histogram { counts, centres } = Histogram::of(values, 256, None)?;
    let sums = |values: &mut dyn Iterator<Item = f32>| -> Vec<f32> {
        values
            .scan(0.0, |sum, v| {
                *sum += v;
                Some(*sum)
            })
            .collect()
    };
    let weights: Vec<f32> = counts.iter().map(|n| *n as f32).collect();
    let weighted = || weights.iter().zip(&centres).map(|(w, c)| w * c);
    let (below, mean_below) = (sums(&mut weights.iter().copied()), sums(&mut weighted()));
    let (above, mean_above) = (sums(&mut weights.iter().rev().copied()), sums(&mut weighted().rev()));
    let n = weights.len();
    let variance = |i: usize| {
        // Class one is bins 0..=i, class two the rest; sums from above are accumulated backwards.
        let j = n - 2 - i;
        below[i] * above[j] * (mean_below[i] / below[i] - mean_above[j] / above[j]).powi(2)
    };
    let best =
        (0..n - 1).fold((0, f32::NEG_INFINITY), |best, i| if variance(i) > best.1 { (i, variance(i)) } else { best });
    Some(centres[best.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [u64; 7] = [330, 330, 6, 0, 0, 165, 169];
    const CENTRES: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.25];
    const OTSU: f32 = 1.004_882_8;

    /// `skimage.exposure.histogram(x, 7)` and `skimage.filters.threshold_otsu(x)` of scikit-image
    /// 0.26 for the f32 values below.
    #[test]
    fn counts_and_threshold_are_scikit_images() {
        let values: Vec<f32> =
            (0..1000).map(|i| ((i * 37) % 101) as f32 / 100.0 + if i % 3 == 0 { 2.5 } else { 0.0 }).collect();
        let histogram = Histogram::of(&values, 7, None).expect("finite");
        assert_eq!(histogram.counts, COUNTS);
        for (got, centre) in histogram.centres.iter().zip(CENTRES) {
            assert!((got - centre).abs() < 1e-6);
        }
        let got = otsu(&values).expect("finite");
        assert!((got - OTSU).abs() < 1e-6, "{got}");
        assert_eq!(otsu(&[2.0; 5]), Some(2.0));
        assert_eq!(otsu(&[]), None);
        assert_eq!(otsu(&[1.0, f32::NAN]), None);
    }
}
