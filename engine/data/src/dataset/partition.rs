//! Splitting lists, exactly as `monai.data.partition_dataset` does.

use crate::DataError;
use crate::numpy::shuffled_indices;

/// How a list is dealt out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Shuffle first.
    pub shuffle: bool,
    /// Seed of the shuffle.
    pub seed: u32,
    /// With `even_divisible`: drop what does not divide, rather than repeat the first ones.
    pub drop_last: bool,
    /// All parts have the same length.
    pub even_divisible: bool,
}

fn order(n: usize, options: PartitionOptions) -> Vec<usize> {
    if options.shuffle { shuffled_indices(n, options.seed) } else { (0..n).collect() }
}

/// Deals indices 0..n out to `parts`, one after the other: part `i` gets `i`, `i + parts`, ...
///
/// # Errors
/// Where there are fewer indices than parts, or `drop_last` is set without `even_divisible`.
pub fn partition_dataset(n: usize, parts: usize, options: PartitionOptions) -> Result<Vec<Vec<usize>>, DataError> {
    if parts == 0 || n < parts {
        return Err(DataError::Option(format!("{n} cases can't be dealt out to {parts} parts")));
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
/// Where a ratio is negative or all are 0.
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

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(partition_dataset(1, 2, PLAIN).is_err());
        assert!(partition_dataset(4, 2, PartitionOptions { drop_last: true, ..PLAIN }).is_err());
        assert!(partition_ratios(4, &[0.0, 0.0], PLAIN).is_err());
        assert!(partition_ratios(4, &[-1.0, 2.0], PLAIN).is_err());
    }
}
