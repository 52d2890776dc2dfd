//! numpy's legacy random generator, for splits that must be the same as MONAI's.

use rand_mt::Mt;

/// `numpy.random.RandomState(seed)`: the Mersenne Twister MT19937, limited to what splitting needs.
#[derive(Debug)]
pub struct RandomState(Mt);

impl RandomState {
    /// Seeds as numpy.
    pub fn new(seed: u32) -> Self {
        RandomState(Mt::new(seed))
    }

    /// `shuffle` of a list, in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.interval(i as u64) as usize;
            items.swap(i, j);
        }
    }

    /// A number in 0..=max: masked and rejected, as numpy's `random_interval`.
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

    /// Values of numpy itself.
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
