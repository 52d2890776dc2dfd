//! Statistics of several times: [`Statistics`].

use serde::{Deserialize, Serialize};

/// Statistics of a repeated duration, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub total: f64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median; for an even number, the mean of the middle two.
    pub median: f64,
    /// The 95th percentile, interpolated as in `numpy.percentile`.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

impl Statistics {
    /// Computes the statistics of nanoseconds; `None` for an empty input.
    pub fn of(nanos: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = nanos.into_iter().collect();
        sorted.sort_unstable();
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let seconds = |nanos: f64| nanos * 1e-9;
        let total = sorted.iter().map(|nanos| *nanos as f64).sum::<f64>();
        let quantile = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let below = sorted[place.floor() as usize] as f64;
            let above = sorted[place.ceil() as usize] as f64;
            seconds(below + (above - below) * place.fract())
        };
        Some(Self {
            count: sorted.len() as u64,
            total: seconds(total),
            min: seconds(first as f64),
            mean: seconds(total / sorted.len() as f64),
            median: quantile(0.5),
            p95: quantile(0.95),
            max: seconds(last as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is `numpy.median([..]), numpy.percentile([..], 95)` of the same numbers.
    #[test]
    fn they_are_numpys() {
        let of = |seconds: &[u64]| Statistics::of(seconds.iter().map(|s| s * 1_000_000_000)).expect("some");
        let four = of(&[7, 1, 4, 2]);
        assert_eq!((four.count, four.total, four.min, four.mean, four.median, four.max), (4, 14.0, 1.0, 3.5, 3.0, 7.0));
        assert!((four.p95 - 6.55).abs() < 1e-9, "{four:?}");
        assert_eq!(of(&[5]), Statistics { count: 1, total: 5.0, min: 5.0, mean: 5.0, median: 5.0, p95: 5.0, max: 5.0 });
        assert_eq!(Statistics::of([]), None);
    }
}
