//! Percentiles, computed as in MONAI.

use rayon::prelude::*;

/// The number of values above which MONAI uses numpy's `percentile` instead of PyTorch's
/// `quantile`, which rounds differently.
const LARGE: usize = 1_000_000;

/// The numbers of bits of the three digits by which keys are counted, highest first.
const DIGITS: [u32; 3] = [11, 11, 10];

/// Returns the percentiles `q` (0 to 100) of the values, linearly interpolated, like MONAI's
/// `percentile`, including the rounding of its rank.
///
/// NaN if a value is NaN or there are no values. The values are neither sorted nor copied: three
/// passes count them by their leading bits, in threads.
pub fn percentiles(values: &[f32], q: &[f64]) -> Vec<f32> {
    if values.is_empty() {
        return vec![f32::NAN; q.len()];
    }
    let last = values.len() - 1;
    let places: Vec<(usize, f64)> = q
        .iter()
        .map(|q| {
            // PyTorch computes the rank in f32, numpy in f64.
            let rank = if values.len() > LARGE {
                q / 100.0 * last as f64
            } else {
                f64::from((q / 100.0) as f32 * last as f32)
            };
            let below = (rank.floor() as usize).min(last);
            (below, rank - below as f64)
        })
        .collect();
    let mut ranks: Vec<usize> = places.iter().flat_map(|(below, _)| [*below, (below + 1).min(last)]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let Some(found) = select(values, &ranks) else { return vec![f32::NAN; q.len()] };
    let at = |rank: usize| ranks.binary_search(&rank).map_or(f32::NAN, |i| found[i]);
    let between = |(below, weight): (usize, f64)| {
        let (low, high) = (at(below), at((below + 1).min(last)));
        let difference = high - low;
        if difference == 0.0 {
            return low;
        }
        if values.len() > LARGE {
            let (low, high, difference) = (f64::from(low), f64::from(high), f64::from(difference));
            return if weight < 0.5 { low + difference * weight } else { high - difference * (1.0 - weight) } as f32;
        }
        let weight = weight as f32;
        if weight < 0.5 { low + weight * difference } else { high - difference * (1.0 - weight) }
    };
    places.into_iter().map(between).collect()
}

/// Returns the values of these ranks (ascending, each below the number of values); `None` if a
/// value is NaN.
fn select(values: &[f32], ranks: &[usize]) -> Option<Vec<f32>> {
    // Leading bits found so far, and the rank among the values that share them.
    let mut found: Vec<(u32, usize)> = ranks.iter().map(|rank| (0, *rank)).collect();
    let mut known = 0;
    for bits in DIGITS {
        let mut prefixes: Vec<u32> = found.iter().map(|(prefix, _)| *prefix).collect();
        prefixes.dedup();
        let counts = count(values, &prefixes, known, bits)?;
        for (prefix, rank) in &mut found {
            let row = prefixes.iter().position(|p| p == prefix).unwrap_or(0);
            let row = &counts[row << bits..][..1 << bits];
            let mut digit = 0;
            while *rank >= row[digit] as usize {
                *rank -= row[digit] as usize;
                digit += 1;
            }
            *prefix = *prefix << bits | digit as u32;
        }
        known += bits;
    }
    Some(found.into_iter().map(|(key, _)| value(key)).collect())
}

/// Counts the values with each of the prefixes (of `known` bits) followed by each digit of `bits`
/// bits.
fn count(values: &[f32], prefixes: &[u32], known: u32, bits: u32) -> Option<Vec<u64>> {
    let rest = 32 - known - bits;
    let mask = (1_u32 << bits) - 1;
    let table = || vec![0_u64; prefixes.len() << bits];
    let one_thread = |mut counts: Vec<u64>, piece: &[f32]| {
        let mut nan = false;
        for v in piece {
            nan |= v.is_nan();
            let key = key(*v) >> rest;
            if known == 0 {
                counts[(key & mask) as usize] += 1;
            } else {
                for (row, prefix) in prefixes.iter().enumerate() {
                    if key >> bits == *prefix {
                        counts[(row << bits) + (key & mask) as usize] += 1;
                    }
                }
            }
        }
        (!nan).then_some(counts)
    };
    let size = values.len().div_ceil(rayon::current_num_threads()).max(1 << 14);
    values.par_chunks(size).map(|piece| one_thread(table(), piece)).reduce(
        || Some(table()),
        |a, b| {
            let mut a = a?;
            a.iter_mut().zip(b?).for_each(|(a, b)| *a += b);
            Some(a)
        },
    )
}

/// A key that sorts like the values.
fn key(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selected_is_sorted(
            values in prop::collection::vec(prop_oneof![-1e3_f32..1e3, Just(0.0), Just(-1024.0), any::<i16>().prop_map(f32::from)], 1..600),
            q in 0.0_f64..=100.0,
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f32::total_cmp);
            let rank = f64::from((q / 100.0) as f32 * (values.len() - 1) as f32);
            let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
            let got = percentiles(&values, &[q, 0.0, 100.0]);
            prop_assert!(got[0] >= low && got[0] <= high, "{} not in {low}..{high}", got[0]);
            prop_assert_eq!(&got[1..], &[sorted[0], sorted[values.len() - 1]]);
        }
    }

    /// MONAI's `percentile` of the f32 values of `10 * sqrt(i)`: `torch.quantile` for 5000,
    /// `numpy.percentile` for 1200000.
    #[test]
    fn values_of_torch_and_numpy() {
        for (n, expected) in [(5000_i64, TORCH), (1_200_000, NUMPY)] {
            // In a scrambled order: 7919 has no common factor with either size.
            let values: Vec<f32> = (0..n).map(|i| (((i * 7919) % n) as f64).sqrt() as f32 * 10.0).collect();
            let got = percentiles(&values, &[0.5, 12.345, 50.0, 99.5]);
            for (a, b) in got.iter().zip(expected) {
                assert!((a - b).abs() <= 1e-6 * b, "{got:?} for {expected:?}");
            }
        }
    }

    const TORCH: [f32; 4] = [49.994_95, 248.420_32, 499.950_01, 705.266_3];
    const NUMPY: [f32; 4] = [774.596_4, 3_848.894_3, 7_745.964, 10_927.026];

    #[test]
    fn nan_and_nothing_are_nan() {
        assert!(percentiles(&[1.0, f32::NAN], &[50.0])[0].is_nan());
        assert!(percentiles(&[], &[50.0])[0].is_nan());
        assert_eq!(percentiles(&[3.0], &[0.0, 50.0, 100.0]), [3.0; 3]);
    }
}
