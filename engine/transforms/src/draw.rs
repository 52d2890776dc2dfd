//! Random numbers that depend only on their purpose.
//!
//! Every draw is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
//! 2011) of a counter, with a key derived from seed, epoch, case, transform and rank. Therefore the
//! number of workers, the kind of cache and resuming do not change a batch.

use std::sync::atomic::{AtomicU64, Ordering};

use hearth_kernels::philox::{self, Stream};

/// The key of the draws of one case in one epoch.
///
/// ```
/// use hearth_transforms::DrawKey;
/// let first = |epoch| DrawKey::new(0, epoch, 0).draw("case_1", 2, 0).uniform();
/// assert_eq!(first(1), first(1));
/// assert_ne!(first(1), first(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the epoch.
    pub epoch: u64,
    /// Rank of the process.
    pub rank: u64,
}

impl DrawKey {
    /// Creates a key from seed, epoch and rank.
    pub fn new(seed: u64, epoch: u64, rank: u64) -> Self {
        DrawKey { seed, epoch, rank }
    }

    /// Returns the draws of one transform (by its index in the pipeline) for one case, and for one
    /// part if an earlier transform split the case.
    pub fn draw(&self, case: &str, transform: usize, part: usize) -> Draw {
        let mut hash = blake3::Hasher::new();
        for number in [self.seed, self.epoch, self.rank, transform as u64, part as u64] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(case.as_bytes());
        let mut words = [0_u32; 4];
        for (word, bytes) in words.iter_mut().zip(hash.finalize().as_bytes().chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Draw { key: [words[0], words[1]], stream: words[2], next: AtomicU64::new(0) }
    }
}

/// A sequence of random numbers, from [`DrawKey::draw`]. [`Draw::at`] returns any element; the other
/// functions consume the next one.
#[derive(Debug)]
pub struct Draw {
    key: [u32; 2],
    stream: u32,
    next: AtomicU64,
}

impl Draw {
    /// Returns element `n` of the sequence: 128 random bits.
    pub fn at(&self, n: u64) -> [u32; 4] {
        philox([n as u32, (n >> 32) as u32, self.stream, 0], self.key)
    }

    /// Returns the next number in [0, 1), with 53 random bits.
    pub fn uniform(&self) -> f64 {
        let [a, b, ..] = self.at(self.next.fetch_add(1, Ordering::Relaxed));
        ((u64::from(a) << 32 | u64::from(b)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the next number in [low, high).
    pub fn between(&self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Returns the next whole number below `n` (0 for `n = 0`).
    pub fn below(&self, n: u64) -> u64 {
        let [a, b, ..] = self.at(self.next.fetch_add(1, Ordering::Relaxed));
        let bits = u64::from(a) << 32 | u64::from(b);
        ((u128::from(bits) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with this probability.
    pub fn happens(&self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Returns the next number from the symmetric Beta distribution with both parameters `alpha`, in
    /// [0, 1]: the share of the first of two Gamma variables. Parameters outside 1e-6 to 1e6 count as
    /// the nearest of these.
    pub fn beta(&self, alpha: f64) -> f64 {
        let alpha = alpha.clamp(1e-6, 1e6);
        let [first, second] = [self.log_gamma(alpha), self.log_gamma(alpha)];
        1.0 / (1.0 + (second - first).exp())
    }

    /// The logarithm of the next number from the Gamma distribution with this shape: the number
    /// itself may be too small for a float.
    ///
    /// Reference: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM
    /// TOMS 26, 2000, with its boost for shapes below 1.
    fn log_gamma(&self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.log_gamma(shape + 1.0) + (1.0 - self.uniform()).ln() / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            // Box and Muller's transform of two uniform numbers.
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            let x = radius * (std::f64::consts::TAU * self.uniform()).cos();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.uniform()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return (d * v).ln();
            }
        }
    }

    /// Returns a permutation of `0..n` (Fisher-Yates).
    pub fn permutation(&self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }

    /// Returns a separate sequence for part `n` of the work: the draws of one key, one hole or one
    /// channel.
    pub fn part(&self, n: u64) -> Draw {
        let [a, b, stream, _] = philox([n as u32, (n >> 32) as u32, self.stream, 2], self.key);
        Draw { key: [a, b], stream, next: AtomicU64::new(0) }
    }

    /// Replaces each value by a number drawn uniformly from `low` to `high`. As in
    /// [`add_normal`](Self::add_normal), the numbers do not depend on the number of threads, and
    /// are not part of the sequence.
    pub fn fill_uniform(&self, values: &mut [f32], low: f32, high: f32) {
        self.run(3).fill_uniform(values, low, high);
    }

    /// Adds normal noise to each value. The numbers do not depend on the number of threads and are
    /// the same in each call. They are not part of the sequence that the other functions draw from.
    pub fn add_normal(&self, values: &mut [f32], mean: f32, std: f32) {
        self.run(1).add_normal(values, mean, std);
    }

    /// A generator of the numbers of this key that are not part of the sequence.
    fn run(&self, kind: u32) -> Stream {
        Stream { key: self.key, stream: [self.stream, kind] }
    }
}

/// The block of one counter.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox::philox(counter.map(|word| [word]), key).map(|[word]| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_part_of_the_key() {
        let first = DrawKey::new(1, 2, 3).draw("a", 4, 0).uniform();
        for other in [
            DrawKey::new(0, 2, 3).draw("a", 4, 0),
            DrawKey::new(1, 0, 3).draw("a", 4, 0),
            DrawKey::new(1, 2, 0).draw("a", 4, 0),
            DrawKey::new(1, 2, 3).draw("b", 4, 0),
            DrawKey::new(1, 2, 3).draw("a", 5, 0),
            DrawKey::new(1, 2, 3).draw("a", 4, 1),
        ] {
            assert_ne!(first, other.uniform());
        }
        assert_eq!(first, DrawKey::new(1, 2, 3).draw("a", 4, 0).uniform());
    }

    #[test]
    fn uniform_numbers_fill_the_interval() {
        let draw = DrawKey::new(0, 0, 0).draw("x", 0, 0);
        let values: Vec<f64> = (0..20_000).map(|_| draw.uniform()).collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 0.5).abs() < 0.01, "mean {mean}");
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[draw.below(7) as usize] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    /// The moments of Beta(a, a), and for a = 1 and 1/2 the distribution itself (uniform, arcsine).
    #[test]
    fn beta_numbers_have_the_moments_and_distribution_of_the_closed_form() {
        let count = 40_000;
        for alpha in [0.1, 0.5, 1.0, 2.5] {
            let mut values: Vec<f64> =
                (0..count).map(|case| DrawKey::new(3, case, 0).draw("x", 0, 0).beta(alpha)).collect();
            assert!(values.iter().all(|v| (0.0..=1.0).contains(v)), "{alpha}");
            let n = count as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - 0.5).powi(2)).sum::<f64>() / n;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((mean - 0.5).abs() < 5.0 * (expected / n).sqrt(), "{alpha}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.03, "{alpha}: variance {variance} for {expected}");
            let below: fn(f64) -> f64 = match alpha {
                1.0 => |v| v,
                0.5 => |v| v.sqrt().asin() * 2.0 / std::f64::consts::PI,
                _ => continue,
            };
            values.sort_by(f64::total_cmp);
            let distances = values.iter().enumerate().map(|(rank, v)| (below(*v) - rank as f64 / n).abs());
            // The distance of Kolmogorov and Smirnov that is exceeded once in a million times.
            let largest = distances.fold(0.0, f64::max);
            assert!(largest < 2.7 / n.sqrt(), "{alpha}: {largest}");
        }
        assert!((0..1000).all(|case| DrawKey::new(3, case, 0).draw("x", 0, 0).beta(1e-4).is_finite()));
    }

    #[test]
    fn noise_is_normal_and_not_repeated() {
        let draw = DrawKey::new(5, 0, 0).draw("x", 0, 0);
        let mut values = vec![0.0_f32; 200_000];
        draw.add_normal(&mut values, 1.0, 2.0);
        let n = values.len() as f64;
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let var = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
        let within = values.iter().filter(|v| (**v - 1.0).abs() < 2.0).count() as f64 / n;
        assert!((mean - 1.0).abs() < 0.02 && (var - 4.0).abs() < 0.06, "mean {mean} variance {var}");
        assert!((within - 0.6827).abs() < 0.005, "{within} within one deviation");
        let mut other = vec![0.0_f32; 200_000];
        DrawKey::new(5, 0, 0).draw("x", 1, 0).add_normal(&mut other, 1.0, 2.0);
        assert_ne!(values, other);
    }

    #[test]
    fn parts_are_sequences_of_their_own() {
        let draw = DrawKey::new(5, 0, 0).draw("x", 0, 0);
        let first: Vec<f64> = (0..4).map(|n| draw.part(n).uniform()).collect();
        assert_eq!(first[2], DrawKey::new(5, 0, 0).draw("x", 0, 0).part(2).uniform());
        assert!((0..4).all(|i| (0..i).all(|j| first[i] != first[j])), "{first:?}");
        assert_ne!(draw.part(0).part(1).uniform(), draw.part(1).part(0).uniform());
    }

    #[test]
    fn filling_is_uniform_and_does_not_depend_on_threads() {
        let fill = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let mut values = vec![0.0_f32; 100_001];
            pool.install(|| DrawKey::new(7, 0, 0).draw("x", 0, 0).fill_uniform(&mut values, -1.0, 3.0));
            values
        };
        let values = fill(1);
        assert_eq!(values, fill(3));
        assert!(values.iter().all(|v| (-1.0..=3.0).contains(v)));
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
        let low = values.iter().filter(|v| **v < 0.0).count() as f64 / values.len() as f64;
        assert!((mean - 1.0).abs() < 0.02 && (low - 0.25).abs() < 0.01, "mean {mean}, {low} below 0");
    }

    #[test]
    fn a_permutation_has_every_index_once() {
        let mut order = DrawKey::new(9, 1, 0).draw("", 0, 0).permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
