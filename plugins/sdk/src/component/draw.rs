//! [`Draw`]: random numbers of a component.

/// Random numbers that depend on a number of the program only: on seed, epoch, case and step. Workers,
/// caches and resuming do not change them. Other generators may be seeded with [`Draw::seed`].
///
/// ```
/// use hearth_plugin::component::Draw;
/// let mut draw = Draw::new(7);
/// let first = draw.uniform();
/// assert!((0.0..1.0).contains(&first) && draw.below(3) < 3);
/// assert_eq!(Draw::new(7).uniform(), first);
/// ```
#[derive(Clone, Debug)]
pub struct Draw {
    seed: u64,
    next: u64,
}

impl Draw {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, next: seed }
    }

    /// The number that all others follow from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next 64 random bits (SplitMix64; Steele et al., "Fast splittable pseudorandom number
    /// generators", OOPSLA 2014).
    pub fn bits(&mut self) -> u64 {
        self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.next;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// The next number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next number in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// The next whole number below `n`; 0 for `n = 0`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// The next number of a normal distribution with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the reference implementation (Vigna, splitmix64.c) for the seed 1234567.
    #[test]
    fn the_bits_are_those_of_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| draw.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_have_their_distribution() {
        let mut draw = Draw::new(5);
        let count = 100_000;
        let normal: Vec<f64> = (0..count).map(|_| draw.normal()).collect();
        let mean = normal.iter().sum::<f64>() / f64::from(count);
        let variance = normal.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[draw.below(7)] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        let mut list: Vec<usize> = (0..50).collect();
        draw.shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!((list, draw.below(0)), ((0..50).collect(), 0));
    }
}
