//! Statistics of an image's values.

use rayon::prelude::*;
use serde::Serialize;

/// The maximum number of distinct values that are counted one by one.
const MOST: usize = 256;
/// The number of values per parallel task.
const PIECE: usize = 1 << 16;

/// Statistics over the values of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ValueSummary {
    /// Number of voxels.
    pub voxels: usize,
    /// Number of NaN voxels.
    pub nan: usize,
    /// Number of infinite voxels.
    pub infinite: usize,
    /// Smallest finite value; NaN without finite values.
    pub min: f32,
    /// Largest finite value; NaN without finite values.
    pub max: f32,
    /// Mean of the finite values; NaN without finite values.
    pub mean: f64,
    /// Standard deviation (population) of the finite values; NaN without finite values.
    pub std: f64,
}

/// The frequency of each value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelValues {
    /// Distinct values, ascending, with NaN last.
    pub counts: Vec<LabelCount>,
    /// Whether there are more distinct values than are counted.
    pub more: bool,
}

/// The frequency of one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LabelCount {
    /// The value that is counted.
    pub value: f32,
    /// Number of its voxels.
    pub voxels: usize,
}

impl LabelValues {
    /// Whether the values can be labels: whole numbers from 0, and not too many.
    pub fn are_labels(&self) -> bool {
        !self.more && self.counts.iter().all(|c| c.value >= 0.0 && c.value.fract() == 0.0 && c.value < 65536.0)
    }

    /// The number of voxels with a value.
    pub fn of(&self, value: f32) -> usize {
        self.counts.iter().find(|c| c.value == value).map_or(0, |c| c.voxels)
    }

    /// The number of voxels that are not 0.
    pub fn foreground(&self) -> usize {
        self.counts.iter().filter(|c| c.value != 0.0).map(|c| c.voxels).sum()
    }
}

#[derive(Clone, Copy)]
struct Sums {
    nan: usize,
    infinite: usize,
    min: f32,
    max: f32,
    sum: f64,
    squares: f64,
}

impl Sums {
    const NONE: Sums = Sums { nan: 0, infinite: 0, min: f32::INFINITY, max: f32::NEG_INFINITY, sum: 0.0, squares: 0.0 };

    fn add(&mut self, value: f32, shift: f64) {
        if value.is_finite() {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            let centred = f64::from(value) - shift;
            self.sum += centred;
            self.squares += centred * centred;
        } else if value.is_nan() {
            self.nan += 1;
        } else {
            self.infinite += 1;
        }
    }

    fn and(self, other: Sums) -> Sums {
        Sums {
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }
}

pub(super) fn summarize(values: &[f32]) -> ValueSummary {
    // Sums are relative to one of the image's values: a large offset would otherwise cancel the
    // variance's digits.
    let shift = values.iter().copied().find(|v| v.is_finite()).map_or(0.0, f64::from);
    let piece = |piece: &[f32]| {
        let mut sums = Sums::NONE;
        piece.iter().for_each(|v| sums.add(*v, shift));
        sums
    };
    // Pieces are added in order, so that the result does not depend on the number of threads.
    let parts: Vec<Sums> = values.par_chunks(PIECE).map(piece).collect();
    let all = parts.into_iter().fold(Sums::NONE, Sums::and);
    let finite = (values.len() - all.nan - all.infinite) as f64;
    let some = |value: f64| if finite > 0.0 { value } else { f64::NAN };
    let mean = all.sum / finite;
    ValueSummary {
        voxels: values.len(),
        nan: all.nan,
        infinite: all.infinite,
        min: some(all.min.into()) as f32,
        max: some(all.max.into()) as f32,
        mean: some(mean + shift),
        std: some((all.squares / finite - mean * mean).max(0.0).sqrt()),
    }
}

/// Counts the values; stops if there are too many.
pub(super) fn count(values: &[f32]) -> LabelValues {
    let piece = |piece: &[f32]| {
        let mut counts = LabelValues::default();
        for run in piece.chunk_by(|a, b| a == b) {
            counts.add(run[0], run.len());
            if counts.more {
                break;
            }
        }
        counts
    };
    values.par_chunks(PIECE).map(piece).reduce(LabelValues::default, |mut a, b| {
        a.more |= b.more;
        for LabelCount { value, voxels } in b.counts {
            a.add(value, voxels);
        }
        a
    })
}

impl LabelValues {
    fn add(&mut self, value: f32, voxels: usize) {
        // Normalizes zeros and NaNs.
        let value = if value.is_nan() { f32::NAN } else { value + 0.0 };
        match self.counts.binary_search_by(|c| c.value.total_cmp(&value)) {
            Ok(place) => self.counts[place].voxels += voxels,
            Err(_) if self.counts.len() >= MOST => self.more = true,
            Err(place) => self.counts.insert(place, LabelCount { value, voxels }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_exact_for_whole_numbers_and_large_offsets() {
        let values: Vec<f32> = (0..200_000).map(|i| 1.0e6 + (i % 5) as f32).collect();
        let found = summarize(&values);
        assert_eq!((found.min, found.max, found.mean), (1.0e6, 1.0e6 + 4.0, 1.0e6 + 2.0));
        assert!((found.std - 2.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let found = summarize(&[1.0, f32::NAN, 3.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!((found.nan, found.infinite, found.min, found.max, found.mean), (1, 2, 1.0, 3.0, 2.0));
        let none = summarize(&[f32::NAN; 3]);
        assert!(none.min.is_nan() && none.max.is_nan() && none.mean.is_nan() && none.std.is_nan());
        assert_eq!(summarize(&[]).voxels, 0);
    }

    #[test]
    fn values_are_counted_up_to_a_limit() {
        let found = count(&[0.0, 2.0, -0.0, 2.0, 1.0, f32::NAN, f32::NAN]);
        let pairs: Vec<(String, usize)> = found.counts.iter().map(|c| (c.value.to_string(), c.voxels)).collect();
        let expected = [("0", 2), ("1", 1), ("2", 2), ("NaN", 2)].map(|(value, voxels)| (value.to_owned(), voxels));
        assert_eq!(pairs, expected);
        assert!(!found.are_labels());
        let many: Vec<f32> = (0..300_000).map(|i| (i % 300) as f32).collect();
        assert!(count(&many).more);
        let few: Vec<f32> = (0..300_000).map(|i| (i / 3000) as f32).collect();
        assert_eq!(count(&few).counts.len(), 100);
        assert!(count(&few).counts.iter().all(|c| c.voxels == 3000));
    }
}
