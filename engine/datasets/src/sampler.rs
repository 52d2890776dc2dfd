//! The order of the cases of an epoch: [`Sampler`].

use std::collections::HashMap;

use hearth_transforms::DrawKey;

use crate::{CaseLosses, DataError};

/// A case in the order of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the case.
    pub index: usize,
    /// Number of earlier occurrences in this epoch, on any rank.
    pub before: u64,
}

/// Adds to each case the number of its earlier occurrences.
pub(crate) fn turns(order: Vec<usize>) -> Vec<Turn> {
    let mut seen: HashMap<usize, u64> = HashMap::new();
    let turn = |index: usize| {
        let count = seen.entry(index).or_default();
        let before = *count;
        *count += 1;
        Turn { index, before }
    };
    order.into_iter().map(turn).collect()
}

/// The order of the cases of each epoch. It depends on the epoch only, so that a resumed run uses the
/// same cases as an uninterrupted one.
///
/// ```
/// use hearth_datasets::Sampler;
///
/// /// The first case twice, then all others.
/// struct FirstTwice(usize);
///
/// impl Sampler for FirstTwice {
///     fn len(&self) -> usize {
///         self.0 + 1
///     }
///     fn order(&self, _epoch: u64) -> Vec<usize> {
///         std::iter::once(0).chain(0..self.0).collect()
///     }
/// }
///
/// let turns = FirstTwice(2).turns(1);
/// let turns: Vec<(usize, u64)> = turns.iter().map(|turn| (turn.index, turn.before)).collect();
/// assert_eq!(turns, [(0, 0), (0, 1), (1, 0)]);
/// ```
pub trait Sampler: Send + Sync {
    /// The number of cases in an epoch.
    fn len(&self) -> usize;

    /// Whether an epoch has no case.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the indices of an epoch.
    fn order(&self, epoch: u64) -> Vec<usize>;

    /// Returns the cases of an epoch, each with the number of its earlier occurrences: a repeated
    /// case draws other random numbers.
    fn turns(&self, epoch: u64) -> Vec<Turn> {
        turns(self.order(epoch))
    }

    /// Returns the cases of an epoch as [`turns`](Self::turns), for samplers that may fail. Loaders call it.
    ///
    /// # Errors
    /// The reason why there is no order.
    fn try_turns(&self, epoch: u64) -> Result<Vec<Turn>, DataError> {
        Ok(self.turns(epoch))
    }

    /// The losses of cases that the order depends on. A run keeps them for a sampler that has them.
    fn losses(&self) -> Option<&CaseLosses> {
        None
    }
}

impl Sampler for Box<dyn Sampler> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn order(&self, epoch: u64) -> Vec<usize> {
        (**self).order(epoch)
    }

    fn turns(&self, epoch: u64) -> Vec<Turn> {
        (**self).turns(epoch)
    }

    fn try_turns(&self, epoch: u64) -> Result<Vec<Turn>, DataError> {
        (**self).try_turns(epoch)
    }

    fn losses(&self) -> Option<&CaseLosses> {
        (**self).losses()
    }
}

/// The order of a shuffled epoch, the same on every rank.
pub(crate) fn shuffled(cases: usize, seed: u64, epoch: u64) -> Vec<usize> {
    DrawKey::new(seed, epoch, 0).draw("order of cases", 0, 0).permutation(cases)
}

/// One rank's share of the cases; each epoch is shuffled as a whole before it is distributed
/// (PyTorch's and MONAI's `DistributedSampler`). The permutation differs from PyTorch's.
///
/// ```
/// use hearth_datasets::{DistributedSampler, Sampler};
/// let share = |rank| DistributedSampler::new(5, 2, rank).map(|sampler| sampler.shuffle(false).order(1));
/// assert_eq!((share(0)?, share(1)?), (vec![0, 2, 4], vec![1, 3, 0])); // case 0 again, for equal lengths
/// # Ok::<(), hearth_datasets::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DistributedSampler {
    cases: usize,
    ranks: usize,
    rank: usize,
    shuffle: bool,
    seed: u64,
    drop_last: bool,
    even_divisible: bool,
}

impl DistributedSampler {
    /// Creates the shuffled share of `rank` of `ranks`, of the same size on every rank (the first
    /// cases are repeated if needed).
    ///
    /// # Errors
    /// If there is no such rank, or no case.
    pub fn new(cases: usize, ranks: usize, rank: usize) -> Result<Self, DataError> {
        if rank >= ranks {
            return Err(DataError::Option(format!("there is no rank {rank} of {ranks}")));
        }
        if cases == 0 {
            return Err(DataError::Option(format!("no cases for {ranks} ranks")));
        }
        let sampler =
            DistributedSampler { cases, ranks, rank, shuffle: true, seed: 0, drop_last: false, even_divisible: true };
        Ok(sampler)
    }

    /// Whether epochs are shuffled.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Sets the seed of the order.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Drops the remainder instead of repeating the first cases.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Selects whether cases are repeated; with `false` none is, and the last ranks have one case
    /// fewer.
    ///
    /// # Errors
    /// If a rank would have no case.
    pub fn even_divisible(mut self, even_divisible: bool) -> Result<Self, DataError> {
        if !even_divisible && self.cases < self.ranks {
            let (cases, ranks) = (self.cases, self.ranks);
            return Err(DataError::Option(format!("{cases} cases for {ranks} ranks: some would have none")));
        }
        self.even_divisible = even_divisible;
        Ok(self)
    }

    /// The number of cases of all ranks in an epoch, before they are distributed.
    fn total(&self) -> usize {
        match (self.even_divisible, self.drop_last) {
            (false, _) => self.cases,
            (true, false) => self.cases.div_ceil(self.ranks) * self.ranks,
            (true, true) => self.cases / self.ranks * self.ranks,
        }
    }
}

impl Sampler for DistributedSampler {
    fn len(&self) -> usize {
        self.total().saturating_sub(self.rank).div_ceil(self.ranks)
    }

    fn order(&self, epoch: u64) -> Vec<usize> {
        let all: Vec<usize> =
            if self.shuffle { shuffled(self.cases, self.seed, epoch) } else { (0..self.cases).collect() };
        all.into_iter().cycle().take(self.total()).skip(self.rank).step_by(self.ranks).collect()
    }
}

/// One rank's part of another sampler's order: every `ranks`-th case, with the same number on every
/// rank (the first cases are repeated if needed).
pub struct SharedSampler<S> {
    all: S,
    ranks: usize,
    rank: usize,
}

impl<S: Sampler> SharedSampler<S> {
    /// Creates the part of `rank` of `ranks`.
    ///
    /// # Errors
    /// If there is no such rank, or no case.
    pub fn new(all: S, ranks: usize, rank: usize) -> Result<Self, DataError> {
        DistributedSampler::new(all.len(), ranks, rank)?;
        Ok(Self { all, ranks, rank })
    }

    fn share(&self, all: &[Turn]) -> Vec<Turn> {
        let length = all.len().div_ceil(self.ranks);
        all.iter().cycle().skip(self.rank).step_by(self.ranks).take(length).copied().collect()
    }
}

impl<S> std::fmt::Debug for SharedSampler<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSampler").field("ranks", &self.ranks).field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl<S: Sampler> Sampler for SharedSampler<S> {
    fn len(&self) -> usize {
        self.all.len().div_ceil(self.ranks)
    }

    fn order(&self, epoch: u64) -> Vec<usize> {
        self.turns(epoch).into_iter().map(|turn| turn.index).collect()
    }

    /// Occurrences on other ranks count, so that the batches are those of a single rank.
    fn turns(&self, epoch: u64) -> Vec<Turn> {
        self.share(&self.all.turns(epoch))
    }

    /// The losses stay unknown: each rank knows those of its own cases only, and all ranks need one order.
    fn try_turns(&self, epoch: u64) -> Result<Vec<Turn>, DataError> {
        self.all.try_turns(epoch).map(|all| self.share(&all))
    }
}

/// Draws cases by weight (PyTorch's `WeightedRandomSampler`).
///
/// ```
/// use hearth_datasets::{Sampler, WeightedRandomSampler};
/// let sampler = WeightedRandomSampler::new(vec![0.0, 1.0, 3.0], 100, true, 0)?;
/// let order = sampler.order(1);
/// assert_eq!(order, sampler.order(1)); // of the epoch only
/// assert!(order.len() == 100 && !order.contains(&0));
/// # Ok::<(), hearth_datasets::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler {
    weights: Vec<f64>,
    samples: usize,
    replacement: bool,
    seed: u64,
}

impl WeightedRandomSampler {
    /// Creates a sampler of `samples` cases per epoch, with or without replacement. Weights need
    /// not add up to 1.
    ///
    /// # Errors
    /// If a weight is negative or not finite, all are 0, or there are too few cases to draw from.
    pub fn new(weights: Vec<f64>, samples: usize, replacement: bool, seed: u64) -> Result<Self, DataError> {
        check_weights(&weights)?;
        let possible = weights.iter().filter(|w| **w > 0.0).count();
        if !replacement && samples > possible {
            return Err(DataError::Option(format!(
                "{samples} cases without replacement, but only {possible} have a weight above 0"
            )));
        }
        Ok(WeightedRandomSampler { weights, samples, replacement, seed })
    }
}

fn check_weights(weights: &[f64]) -> Result<(), DataError> {
    if let Some(weight) = weights.iter().find(|w| !(**w >= 0.0 && w.is_finite())) {
        return Err(DataError::Option(format!("{weight} is not a weight; give numbers of 0 or more")));
    }
    if weights.iter().sum::<f64>() > 0.0 {
        Ok(())
    } else {
        Err(DataError::Option(format!("none of the {} weights is above 0", weights.len())))
    }
}

impl Sampler for WeightedRandomSampler {
    fn len(&self) -> usize {
        self.samples
    }

    fn order(&self, epoch: u64) -> Vec<usize> {
        let draw = DrawKey::new(self.seed, epoch, 0).draw("weighted order", 0, 0);
        if self.replacement {
            return with_replacement(&self.weights, self.samples, &draw);
        }
        // Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006): the cases
        // with the largest u^(1/w) are a sample.
        let mut keys: Vec<(f64, usize)> = self
            .weights
            .iter()
            .enumerate()
            .map(|(i, weight)| ((1.0 - draw.uniform()).ln() / weight, i))
            .filter(|(key, _)| key.is_finite())
            .collect();
        keys.sort_by(|a, b| b.0.total_cmp(&a.0));
        keys.into_iter().take(self.samples).map(|(_, index)| index).collect()
    }
}

/// Indices drawn by weight; the weights must not all be 0.
fn with_replacement(weights: &[f64], samples: usize, draw: &hearth_transforms::Draw) -> Vec<usize> {
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(0.0);
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    (0..samples)
        .map(|_| {
            let at = draw.uniform() * total;
            sums.partition_point(|sum| *sum <= at).min(last)
        })
        .collect()
}

/// Draws by weight from one rank's share of the cases, with replacement (MONAI's
/// `DistributedWeightedRandomSampler`).
#[derive(Clone, Debug)]
pub struct DistributedWeightedRandomSampler {
    share: DistributedSampler,
    weights: Vec<f64>,
    samples: Option<usize>,
}

impl DistributedWeightedRandomSampler {
    /// Creates a sampler that draws from the share of `share` in each epoch, as many cases as it
    /// has. `weights` has one entry for each case of all ranks.
    ///
    /// # Errors
    /// If a weight is negative or not finite, all are 0, or their number is wrong.
    pub fn new(share: DistributedSampler, weights: Vec<f64>) -> Result<Self, DataError> {
        check_weights(&weights)?;
        if weights.len() != share.cases {
            return Err(DataError::Option(format!("{} weights for {} cases", weights.len(), share.cases)));
        }
        Ok(DistributedWeightedRandomSampler { share, weights, samples: None })
    }

    /// Sets the number of cases per rank and epoch.
    pub fn samples_per_rank(mut self, samples: usize) -> Self {
        self.samples = Some(samples);
        self
    }
}

impl Sampler for DistributedWeightedRandomSampler {
    fn len(&self) -> usize {
        self.samples.unwrap_or_else(|| self.share.len())
    }

    fn order(&self, epoch: u64) -> Vec<usize> {
        let share = self.share.order(epoch);
        let mut weights: Vec<f64> = share.iter().map(|i| self.weights[*i]).collect();
        if weights.iter().all(|w| *w == 0.0) {
            // An epoch may distribute only cases of weight 0 to a rank; this must not stop the
            // other ranks.
            weights.fill(1.0);
        }
        let key = DrawKey::new(self.share.seed, epoch, self.share.rank as u64);
        let places = with_replacement(&weights, self.len(), &key.draw("weighted order", 0, 0));
        places.into_iter().map(|place| share[place]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_every_epoch() {
        for (cases, ranks) in [(10, 3), (7, 7), (5, 2), (3, 4)] {
            for epoch in 0..3 {
                let share = |rank| DistributedSampler::new(cases, ranks, rank).expect("a rank").order(epoch);
                let mut all: Vec<usize> = (0..ranks).flat_map(share).collect();
                assert_eq!(all.len(), cases.div_ceil(ranks) * ranks, "as many on each");
                all.sort_unstable();
                all.dedup();
                assert_eq!(all, (0..cases).collect::<Vec<_>>());
            }
            let order = |epoch| DistributedSampler::new(100, 2, 0).expect("a rank").order(epoch);
            assert_ne!(order(0), order(1));
        }
    }

    #[test]
    fn uneven_shares_have_no_case_twice() {
        let share = |rank| {
            let sampler = DistributedSampler::new(10, 4, rank).expect("a rank").even_divisible(false).expect("enough");
            let order = sampler.order(5);
            assert_eq!(order.len(), sampler.len());
            order
        };
        let mut all: Vec<usize> = (0..4).flat_map(share).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        let dropped = DistributedSampler::new(10, 4, 3).expect("a rank").drop_last(true).shuffle(false);
        assert_eq!(dropped.order(0), [3, 7]);
        assert!(DistributedSampler::new(10, 4, 4).is_err() && DistributedSampler::new(0, 1, 0).is_err());
        assert!(DistributedSampler::new(3, 4, 0).expect("a rank").even_divisible(false).is_err());
    }

    /// The frequency of each case follows its weight, within five deviations of a binomial count.
    #[test]
    fn weights_are_kept() {
        let weights = vec![0.0, 1.0, 3.0, 0.0];
        let sampler = WeightedRandomSampler::new(weights, 10_000, true, 3).expect("sound");
        let order = sampler.order(0);
        let count = |case| order.iter().filter(|i| **i == case).count() as f64;
        assert_eq!((count(0), count(3)), (0.0, 0.0));
        assert!((count(2) - 7500.0).abs() < 5.0 * (10_000.0_f64 * 0.75 * 0.25).sqrt(), "{}", count(2));
        assert_eq!(order, sampler.order(0));
        assert_ne!(order, sampler.order(1));
    }

    #[test]
    fn without_replacement_no_case_comes_twice() {
        let heavy = (0..2000).filter(|epoch| {
            let sampler = WeightedRandomSampler::new(vec![1.0, 0.0, 1.0, 8.0], 3, false, 0).expect("sound");
            let mut order = sampler.order(*epoch);
            let first = order[0];
            order.sort_unstable();
            assert_eq!(order, [0, 2, 3]);
            first == 3
        });
        // The first case drawn is the heavy one in 8 of 10 epochs.
        let heavy = heavy.count() as f64;
        assert!((heavy - 1600.0).abs() < 5.0 * (2000.0_f64 * 0.8 * 0.2).sqrt(), "{heavy}");
    }

    /// Batches of one rank, distributed to ranks: in turn, they have the cases of the single rank.
    #[test]
    fn ranks_share_the_order_of_another_sampler() {
        let weighted = || WeightedRandomSampler::new(vec![1.0, 5.0, 2.0], 7, true, 4).expect("sound");
        let parts: Vec<Vec<usize>> =
            (0..3).map(|rank| SharedSampler::new(weighted(), 3, rank).expect("a rank").order(2)).collect();
        let turns: Vec<usize> = (0..9).map(|i| parts[i % 3][i / 3]).collect();
        let alone = weighted().order(2);
        assert_eq!(turns[..7], alone);
        assert_eq!(turns[7..], alone[..2], "as many on each");
        let counted: Vec<Vec<Turn>> =
            (0..3).map(|rank| SharedSampler::new(weighted(), 3, rank).expect("a rank").turns(2)).collect();
        let counted: Vec<Turn> = (0..7).map(|i| counted[i % 3][i / 3]).collect();
        assert_eq!(counted, weighted().turns(2));
        assert!(counted.iter().any(|turn| turn.before > 0));
        assert!(SharedSampler::new(weighted(), 3, 3).is_err());
    }

    #[test]
    fn a_rank_draws_from_its_share() {
        let share = |rank| DistributedSampler::new(6, 2, rank).expect("a rank").shuffle(false);
        let weights = vec![1.0, 1.0, 0.0, 1.0, 5.0, 1.0];
        let sampler = DistributedWeightedRandomSampler::new(share(0), weights.clone()).expect("sound");
        let order = sampler.samples_per_rank(50).order(0);
        assert_eq!(order.len(), 50);
        assert!(order.iter().all(|i| [0, 4].contains(i)), "{order:?}");
        assert!(DistributedWeightedRandomSampler::new(share(1), vec![1.0]).is_err());
        assert!(WeightedRandomSampler::new(vec![0.0, 1.0], 2, false, 0).is_err());
        assert!(WeightedRandomSampler::new(vec![-1.0, 1.0], 2, true, 0).is_err());
        assert!(WeightedRandomSampler::new(vec![0.0], 1, true, 0).is_err());
    }
}
