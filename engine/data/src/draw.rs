//! Random numbers that depend on what they are for, and on nothing else.
//!
//! Every draw is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) of a counter, under a
//! key made of seed, epoch, case, transform and rank. So the number of workers, the kind of cache and a resume do not
//! change a batch.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the draws of one case in one epoch depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch.
    pub epoch: u64,
    /// Rank of the process.
    pub rank: u64,
}

impl DrawKey {
    /// Seed, epoch, rank.
    pub fn new(seed: u64, epoch: u64, rank: u64) -> Self {
        DrawKey { seed, epoch, rank }
    }

    /// The draws of one transform (by its place in the pipeline) for one case, and one part of it where an earlier
    /// transform cut it into several.
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

/// A sequence of random numbers. [`Draw::at`] gives any element; the other functions take the next one.
#[derive(Debug)]
pub struct Draw {
    key: [u32; 2],
    stream: u32,
    next: AtomicU64,
}

impl Draw {
    /// Element `n` of the sequence: 128 random bits.
    pub fn at(&self, n: u64) -> [u32; 4] {
        philox([n as u32, (n >> 32) as u32, self.stream, 0], self.key)
    }

    /// The next number in [0, 1), with 53 random bits.
    pub fn uniform(&self) -> f64 {
        let [a, b, ..] = self.at(self.next.fetch_add(1, Ordering::Relaxed));
        ((u64::from(a) << 32 | u64::from(b)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next number in [low, high).
    pub fn between(&self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// The next whole number below `n` (0 for `n = 0`).
    pub fn below(&self, n: u64) -> u64 {
        let [a, b, ..] = self.at(self.next.fetch_add(1, Ordering::Relaxed));
        let bits = u64::from(a) << 32 | u64::from(b);
        ((u128::from(bits) * u128::from(n)) >> 64) as u64
    }

    /// Whether something of this probability happens.
    pub fn happens(&self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A permutation of `0..n` (Fisher-Yates).
    pub fn permutation(&self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }

    /// A sequence of its own for part `n` of the work: the draws of one key, of one hole, of one channel.
    pub fn part(&self, n: u64) -> Draw {
        let [a, b, stream, _] = philox([n as u32, (n >> 32) as u32, self.stream, 2], self.key);
        Draw { key: [a, b], stream, next: AtomicU64::new(0) }
    }

    /// Replaces each value by a number drawn uniformly from `low` to `high`, as [`add_normal`](Self::add_normal) adds: the same
    /// whatever the number of threads, and no part of the sequence.
    pub fn fill_uniform(&self, values: &mut [f32], low: f32, high: f32) {
        use rayon::prelude::*;
        values.par_chunks_mut(1 << 14).enumerate().for_each(|(chunk, values)| {
            let first = (chunk << 12) as u64;
            for (i, four) in values.chunks_mut(4).enumerate() {
                let n = first + i as u64;
                let bits = philox([n as u32, (n >> 32) as u32, self.stream, 3], self.key);
                for (value, bits) in four.iter_mut().zip(bits) {
                    *value = low + (high - low) * ((bits >> 8) as f32 * (1.0 / 16_777_216.0));
                }
            }
        });
    }

    /// Adds normal noise to each value: the same numbers whatever the number of threads, and each time it is called.
    /// They are no part of the sequence that the other functions draw from.
    pub fn add_normal(&self, values: &mut [f32], mean: f32, std: f32) {
        use rayon::prelude::*;
        let stream = self.stream;
        values.par_chunks_mut(1 << 14).enumerate().for_each(|(chunk, values)| {
            let first = (chunk << 12) as u64;
            for (i, four) in values.chunks_mut(4).enumerate() {
                let n = first + i as u64;
                let normal = four_normals(philox([n as u32, (n >> 32) as u32, stream, 1], self.key));
                for (value, z) in four.iter_mut().zip(normal) {
                    *value += mean + std * z;
                }
            }
        });
    }
}

/// Ten rounds of Philox4x32.
#[inline]
fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// Two Box-Muller pairs.
#[inline]
fn four_normals(bits: [u32; 4]) -> [f32; 4] {
    let pair = |a: u32, b: u32| {
        // (0, 1], so that the logarithm is finite.
        let u = (a as f32 + 1.0) * (1.0 / 4_294_967_296.0);
        let radius = (-2.0 * u.min(1.0).ln()).sqrt();
        let (sin, cos) = (b as f32 * (std::f32::consts::TAU / 4_294_967_296.0)).sin_cos();
        [radius * cos, radius * sin]
    };
    let ([a, b], [c, d]) = (pair(bits[0], bits[1]), pair(bits[2], bits[3]));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

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
