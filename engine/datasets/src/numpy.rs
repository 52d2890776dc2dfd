//! numpy's legacy random generator, for splits and test images that must match MONAI's.

use rand_mt::Mt;

/// `numpy.random.RandomState(seed)`: the Mersenne Twister MT19937, limited to the methods for
/// splits and test images.
#[derive(Debug)]
pub struct RandomState(Mt);

impl RandomState {
    /// Creates a generator, seeded as in numpy.
    pub fn new(seed: u32) -> Self {
        RandomState(Mt::new(seed))
    }

    /// numpy's `shuffle` of a list, in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.interval(i as u64) as usize;
            items.swap(i, j);
        }
    }

    /// numpy's `random()`: a number in `[0, 1)`.
    pub fn random(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// numpy's `randint(low, high)`: an integer in `low..high`; `low` if that is empty.
    pub fn integer(&mut self, low: usize, high: usize) -> usize {
        match high.saturating_sub(low) {
            0 | 1 => low,
            range => low + self.interval(range as u64 - 1) as usize,
        }
    }

    /// Draws a number in 0..=max by masking and rejection, as numpy's `random_interval`.
    fn interval(&mut self, max: u64) -> u64 {
        let mask = u64::MAX.checked_shr(max.leading_zeros()).unwrap_or(0);
        loop {
            let bits = if max <= u64::from(u32::MAX) {
                u64::from(self.0.next_u32())
            } else {
                u64::from(self.0.next_u32()) << 32 | u64::from(self.0.next_u32())
            };
            let value = bits & mask;
            if value <= max {
                return value;
            }
        }
    }
}

/// `numpy.random.RandomState(seed).shuffle(range(n))`.
pub fn shuffled_indices(n: usize, seed: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    RandomState::new(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from numpy itself.
    #[test]
    fn draws_numbers_as_numpy_does() {
        let mut random = RandomState::new(0);
        let drawn = [(); 3].map(|()| (random.random() * 1e8).round() / 1e8);
        assert_eq!(drawn, [0.548_813_5, 0.715_189_37, 0.602_763_38]);
        let mut random = RandomState::new(0);
        assert_eq!([(); 8].map(|()| random.integer(0, 10)), [5, 0, 3, 3, 7, 9, 3, 5]);
        assert_eq!(random.integer(4, 4), 4);
    }

    /// Values from numpy itself.
    #[test]
    fn shuffles_as_numpy_does() {
        assert_eq!(shuffled_indices(10, 0), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
        let mut items = [1, 2, 3, 4, 5];
        RandomState::new(0).shuffle(&mut items);
        assert_eq!(items, [3, 1, 2, 4, 5]);
        let many = shuffled_indices(484, 0);
        assert_eq!(many[..10], [15, 124, 141, 263, 170, 142, 385, 432, 113, 21]);
        assert_eq!(many[479..], [323, 192, 117, 47, 172]);
        assert_eq!(many[..96].iter().sum::<usize>(), 24_065);
        assert_eq!(many[96..].iter().sum::<usize>(), 92_821);
    }
}
