//! Splits lists exactly as `monai.data.partition_dataset`.

use std::collections::BTreeMap;

use crate::DataError;
use crate::numpy::{RandomState, shuffled_indices};
use derive_setters::Setters;

/// The options for partitioning a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Setters)]
pub struct PartitionOptions {
    /// Whether to shuffle first.
    pub shuffle: bool,
    /// Seed of the shuffle.
    pub seed: u32,
    /// Whether to drop the remainder with `even_divisible`, instead of repeating the first cases.
    pub drop_last: bool,
    /// Whether all parts have the same length.
    pub even_divisible: bool,
}

fn order(n: usize, options: PartitionOptions) -> Vec<usize> {
    if options.shuffle { shuffled_indices(n, options.seed) } else { (0..n).collect() }
}

/// Distributes indices 0..n to `parts` in turn: part `i` gets `i`, `i + parts`, ...
///
/// ```
/// use hearth_datasets::{PartitionOptions, partition_dataset};
/// let parts = partition_dataset(5, 2, PartitionOptions::default())?;
/// assert_eq!(parts, [vec![0, 2, 4], vec![1, 3]]);
/// # Ok::<(), hearth_datasets::DataError>(())
/// ```
///
/// # Errors
/// If there are fewer indices than parts, or `drop_last` is set without `even_divisible`.
pub fn partition_dataset(n: usize, parts: usize, options: PartitionOptions) -> Result<Vec<Vec<usize>>, DataError> {
    if parts == 0 || n < parts {
        return Err(DataError::Option(format!("{n} cases cannot be distributed to {parts} parts")));
    }
    if options.drop_last && !options.even_divisible {
        return Err(DataError::Option("drop_last only works with even_divisible".to_owned()));
    }
    let mut indices = order(n, options);
    let each =
        if options.drop_last && !n.is_multiple_of(parts) { (n - parts).div_ceil(parts) } else { n.div_ceil(parts) };
    if options.even_divisible {
        let total = each * parts;
        if options.drop_last {
            indices.truncate(total);
        } else {
            let repeat: Vec<usize> = indices.iter().take(total - n).copied().collect();
            indices.extend(repeat);
        }
    }
    Ok((0..parts).map(|part| indices.iter().skip(part).step_by(parts).copied().collect()).collect())
}

/// Cuts indices 0..n into consecutive blocks of these ratios, which need not add up to 1.
///
/// # Errors
/// If a ratio is negative or all are 0.
pub fn partition_ratios(n: usize, ratios: &[f64], options: PartitionOptions) -> Result<Vec<Vec<usize>>, DataError> {
    let sum: f64 = ratios.iter().sum();
    if sum.is_nan() || sum <= 0.0 || ratios.iter().any(|r| *r < 0.0) {
        return Err(DataError::Option(format!("ratios {ratios:?} can't be used")));
    }
    let indices = order(n, options);
    let mut start = 0;
    Ok(ratios
        .iter()
        .map(|r| {
            let end = n.min(start + (r / sum * n as f64 + 0.5) as usize);
            let part = indices[start..end].to_vec();
            start = end;
            part
        })
        .collect())
}

/// Applies [`partition_dataset`] to each class separately, so that every part has the same share of
/// each. `classes` has one entry per case.
///
/// # Errors
/// Those of [`partition_dataset`]; a class with fewer cases than parts cannot be distributed.
pub fn partition_dataset_classes(
    classes: &[i64],
    parts: usize,
    options: PartitionOptions,
) -> Result<Vec<Vec<usize>>, DataError> {
    by_class(classes, options, |class, n| {
        partition_dataset(n, parts, options).map_err(|e| DataError::Option(format!("class {class}: {e}")))
    })
}

/// Applies [`partition_ratios`] to each class separately.
///
/// # Errors
/// Those of [`partition_ratios`].
pub fn partition_ratios_classes(
    classes: &[i64],
    ratios: &[f64],
    options: PartitionOptions,
) -> Result<Vec<Vec<usize>>, DataError> {
    by_class(classes, options, |_, n| partition_ratios(n, ratios, options))
}

fn by_class(
    classes: &[i64],
    options: PartitionOptions,
    deal: impl Fn(i64, usize) -> Result<Vec<Vec<usize>>, DataError>,
) -> Result<Vec<Vec<usize>>, DataError> {
    let mut members: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (index, class) in classes.iter().enumerate() {
        members.entry(*class).or_default().push(index);
    }
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for (class, members) in members {
        let dealt = deal(class, members.len())?;
        parts.resize_with(dealt.len(), Vec::new);
        for (part, places) in parts.iter_mut().zip(dealt) {
            part.extend(places.iter().map(|place| members[*place]));
        }
    }
    if options.shuffle {
        // One generator for all parts, as in MONAI.
        let mut random = RandomState::new(options.seed);
        parts.iter_mut().for_each(|part| random.shuffle(part));
    }
    Ok(parts)
}

/// Returns the indices 0..n repeated `factor` times; a fraction adds the first part of the list (a
/// random part with `random_pick`).
///
/// # Errors
/// If the factor is negative or not finite.
pub fn resample_datalist(n: usize, factor: f64, random_pick: bool, seed: u32) -> Result<Vec<usize>, DataError> {
    if !(factor >= 0.0 && factor.is_finite()) {
        return Err(DataError::Option(format!("a list can't be repeated {factor} times")));
    }
    let mut out: Vec<usize> = (0..factor as usize).flat_map(|_| 0..n).collect();
    let rest = factor.fract();
    // MONAI's bound: a remainder from rounding is ignored.
    if rest > 1e-6 {
        let options = PartitionOptions { shuffle: random_pick, seed, ..PartitionOptions::default() };
        out.extend(partition_ratios(n, &[rest, 1.0 - rest], options)?.swap_remove(0));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: PartitionOptions =
        PartitionOptions { shuffle: false, seed: 0, drop_last: false, even_divisible: false };

    /// The examples of MONAI's own documentation, 0-based.
    #[test]
    fn deals_as_monai_does() {
        let deal = |options| partition_dataset(5, 2, options).expect("enough cases");
        assert_eq!(
            partition_ratios(5, &[0.6, 0.2, 0.2], PLAIN).expect("sound ratios"),
            [vec![0, 1, 2], vec![3], vec![4]]
        );
        assert_eq!(deal(PLAIN), [vec![0, 2, 4], vec![1, 3]]);
        let even = PartitionOptions { even_divisible: true, ..PLAIN };
        assert_eq!(deal(even), [vec![0, 2, 4], vec![1, 3, 0]]);
        assert_eq!(deal(PartitionOptions { drop_last: true, ..even }), [vec![0, 2], vec![1, 3]]);
    }

    /// Values of the guide's BraTS recipe on 8 ranks: 388 cases for training, 96 for validation.
    #[test]
    fn deals_to_ranks_as_the_guide_does() {
        let training = PartitionOptions { shuffle: true, even_divisible: true, ..PLAIN };
        let ranks = partition_dataset(388, 8, training).expect("enough cases");
        assert_eq!(ranks[0][..5], [54, 100, 68, 376, 355]);
        assert!(ranks.iter().all(|rank| rank.len() == 49));
        // 392 indices are distributed: the first four of the shuffled list are repeated, on the
        // last ranks.
        for rank in 0..4 {
            assert_eq!(ranks[rank][0], ranks[rank + 4][48]);
        }
        for (rank, cases) in partition_dataset(96, 8, PLAIN).expect("enough cases").iter().enumerate() {
            assert!(cases.iter().copied().eq((rank..96).step_by(8)) && cases.len() == 12);
        }
    }

    /// Values of `monai.data.partition_dataset_classes` 1.6.1 with these arguments; the first are
    /// its documentation's example.
    #[test]
    fn deals_classes_as_monai_does() {
        let classes = [2, 0, 2, 1, 3, 2, 2, 0, 2, 0, 3, 3, 1, 3];
        let parts = partition_ratios_classes(&classes, &[2.0, 1.0], PLAIN).expect("sound ratios");
        assert_eq!(parts, [vec![1, 7, 3, 0, 2, 5, 4, 10, 11], vec![9, 12, 6, 8, 13]]);
        let shuffled = PartitionOptions { shuffle: true, seed: 3, ..PLAIN };
        let parts = partition_dataset_classes(&classes, 2, shuffled).expect("enough of each");
        assert_eq!(parts, [vec![5, 4, 2, 13, 6, 9, 7, 12], vec![1, 10, 3, 8, 0, 11]]);
        assert!(
            partition_dataset_classes(&classes, 3, PLAIN).expect_err("two of class 1").to_string().contains("class 1")
        );
    }

    /// Values of `monai.data.resample_datalist` 1.6.1.
    #[test]
    fn repeats_as_monai_does() {
        let repeat = |factor, random| resample_datalist(5, factor, random, 1).expect("a sound factor");
        assert_eq!(repeat(1.5, false), [0, 1, 2, 3, 4, 0, 1, 2]);
        assert_eq!(repeat(0.4, true), [2, 1]);
        assert_eq!(repeat(2.0, true).len(), 10);
        assert!(resample_datalist(5, -1.0, false, 0).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(partition_dataset(1, 2, PLAIN).is_err());
        assert!(partition_dataset(4, 2, PartitionOptions { drop_last: true, ..PLAIN }).is_err());
        assert!(partition_ratios(4, &[0.0, 0.0], PLAIN).is_err());
        assert!(partition_ratios(4, &[-1.0, 2.0], PLAIN).is_err());
    }
}
