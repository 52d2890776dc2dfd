//! Otsu's threshold, bit-identical to scikit-image, so that masks equal those of MONAI's
//! `ForegroundMask`.
//!
//! Otsu, "A threshold selection method from gray-level histograms", IEEE Trans. SMC 9 (1979).

/// Bins of a histogram of floating point values.
const BINS: usize = 256;

/// The threshold of u8 values: a bin for each value between the smallest and the largest.
pub(crate) fn of_bytes(values: impl Iterator<Item = u8>) -> Option<f64> {
    let mut counts = [0u32; 256];
    values.for_each(|v| counts[usize::from(v)] += 1);
    let first = counts.iter().position(|n| *n > 0)?;
    let last = counts.iter().rposition(|n| *n > 0)?;
    let centers: Vec<f64> = (first..=last).map(|v| v as f64).collect();
    Some(split(&counts[first..=last], &centers))
}

/// The threshold of floating point values: 256 bins between the smallest and the largest.
pub(crate) fn of_values(values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    if low == high {
        return Some(low);
    }
    let step = (high - low) / BINS as f64;
    let edge = |i: usize| if i == BINS { high } else { low + i as f64 * step };
    let scale = BINS as f64 / (high - low);
    let mut counts = [0u32; BINS];
    for value in values {
        let mut bin = (((value - low) * scale) as usize).min(BINS - 1);
        // The product was rounded; the edges decide.
        if *value < edge(bin) {
            bin -= 1;
        } else if bin < BINS - 1 && *value >= edge(bin + 1) {
            bin += 1;
        }
        counts[bin] += 1;
    }
    let centers: Vec<f64> = (0..BINS).map(|i| (edge(i) + edge(i + 1)) / 2.0).collect();
    Some(split(&counts, &centers))
}

/// The centre of the bin after which the variance between both classes is largest; of several, the
/// first.
fn split(counts: &[u32], centers: &[f64]) -> f64 {
    let cumulate = |order: &mut dyn Iterator<Item = usize>| {
        // Weights are summed in f32, as in scikit-image.
        let (mut weight, mut moment) = (0f32, 0f64);
        let mut sums = Vec::with_capacity(counts.len());
        for i in order {
            weight += counts[i] as f32;
            moment += f64::from(counts[i] as f32) * centers[i];
            sums.push((weight, moment / f64::from(weight)));
        }
        sums
    };
    let below = cumulate(&mut (0..counts.len()));
    let mut above = cumulate(&mut (0..counts.len()).rev());
    above.reverse();
    let (mut best, mut at) = (f64::NEG_INFINITY, 0);
    for (i, ((w1, m1), (w2, m2))) in below.iter().zip(above.iter().skip(1)).enumerate() {
        let variance = f64::from(w1 * w2) * (m1 - m2) * (m1 - m2);
        if variance > best {
            (best, at) = (variance, i);
        }
    }
    centers[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_heaps_are_parted() {
        let values = [10u8; 50].into_iter().chain([200; 50]);
        assert_eq!(of_bytes(values), Some(10.0));
        assert_eq!(of_bytes([7u8; 9].into_iter()), Some(7.0));
        assert_eq!(of_bytes(std::iter::empty()), None);
        assert_eq!(of_values(&[0.25; 4]), Some(0.25));
        assert_eq!(of_values(&[]), None);
    }

    /// `skimage.filters.threshold_otsu` of the same values, scikit-image 0.26.
    #[test]
    fn thresholds_are_scikit_images() {
        let mut state = 12345u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..5000).map(|i| if i % 3 == 0 { next() / 4 + 20 } else { next() / 2 + 100 }).collect();
        assert_eq!(of_bytes(bytes.iter().copied()), Some(OTSU_BYTES));
        let values: Vec<f64> = bytes.iter().map(|b| (f64::from(*b) / 255.0).powi(2)).collect();
        let got = of_values(&values).expect("values");
        assert!((got - OTSU_VALUES).abs() < 1e-15, "{got}");
    }

    const OTSU_BYTES: f64 = 119.0;
    const OTSU_VALUES: f64 = 0.33633503340061516;
}
