//! Counter-based random numbers: a draw is a pure function of a key and an index.
//!
//! There is no generator state, so checkpoints need none and draws do not depend on the number of
//! threads or on their order. A key is folded from everything a draw should depend on (seed, epoch,
//! case name, ...); the draw at an index is SplitMix64's output function applied to `key + (index +
//! 1) * gamma` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
//!
//! ```
//! use hearth_kernels::counter_rng::Key;
//! let key = Key::new(7).with(3).with_text("case_012");
//! assert_eq!(key.bits(5), Key::new(7).with(3).with_text("case_012").bits(5));
//! assert!((0.0..1.0).contains(&key.uniform(0)));
//! ```

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The key of a stream of draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of a seed.
    pub fn new(seed: u64) -> Self {
        Key(mix(seed ^ GAMMA))
    }

    /// This key, combined with one more number. Order matters.
    #[must_use]
    pub fn with(self, value: u64) -> Self {
        Key(mix(self.0.wrapping_mul(3).wrapping_add(GAMMA) ^ mix(value.wrapping_add(GAMMA))))
    }

    /// This key, combined with a string (its FNV-1a hash).
    #[must_use]
    pub fn with_text(self, text: &str) -> Self {
        let hash =
            text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        self.with(hash)
    }

    /// The key as a number.
    #[cfg(gpu_kernels)]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// 64 random bits at an index.
    #[inline]
    pub fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in {0, .., n - 1}; 0 when n is 0. The bias is below n / 2^64.
    #[inline]
    pub fn below(self, index: u64, n: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(n)) >> 64) as u64
    }

    /// Standard normal (Box and Muller); uses the bits at `2 * index` and `2 * index + 1`.
    #[inline]
    pub fn normal(self, index: u64) -> f64 {
        // 1 - u is in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform(2 * index)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(2 * index + 1)).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn uniform_draws_have_the_moments_of_the_uniform_distribution() {
        let key = Key::new(1);
        let n = 200_000;
        let (mut mean, mut square, mut lag) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let u = key.uniform(i) - 0.5;
            mean += u;
            square += u * u;
            lag += u * (key.uniform(i + 1) - 0.5);
        }
        let n = n as f64;
        assert!((mean / n).abs() < 3e-3);
        assert!((square / n - 1.0 / 12.0).abs() < 1e-3);
        assert!((lag / n).abs() < 1e-3);
    }

    #[test]
    fn normal_draws_have_the_moments_of_the_normal_distribution() {
        let key = Key::new(9).with_text("noise");
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|i| key.normal(i)).collect();
        let moment = |p: i32| draws.iter().map(|d| d.powi(p)).sum::<f64>() / n as f64;
        assert!(moment(1).abs() < 0.01);
        assert!((moment(2) - 1.0).abs() < 0.02);
        assert!(moment(3).abs() < 0.03);
        assert!((moment(4) - 3.0).abs() < 0.08);
    }

    #[test]
    fn keys_that_differ_in_one_part_or_in_order_do_not_share_draws() {
        let keys = [
            Key::new(0),
            Key::new(1),
            Key::new(0).with(0),
            Key::new(0).with(1),
            Key::new(0).with(1).with(2),
            Key::new(0).with(2).with(1),
            Key::new(0).with_text("a"),
            Key::new(0).with_text("b"),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert!((0..64).all(|n| a.bits(n) != b.bits(n)));
            }
        }
    }

    #[test]
    fn below_stays_in_range_and_reaches_every_value() {
        let key = Key::new(3);
        let mut seen = [0_u32; 7];
        (0..7000).for_each(|i| seen[key.below(i, 7) as usize] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(key.below(0, 0), 0);
    }
}
