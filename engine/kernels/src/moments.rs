//! Mean and variance, combined from those of parts.

use crate::lanes::Lanes;
use crate::simd::LANES;

/// Number, mean and sum of squared deviations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    pub count: f64,
    pub mean: f64,
    pub squares: f64,
}

impl Moments {
    /// Combines the moments of two parts (Chan et al., 1979).
    pub fn and(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let apart = other.mean - self.mean;
        Moments {
            count,
            mean: self.mean + apart * other.count / count,
            squares: self.squares + other.squares + apart * apart * self.count * other.count / count,
        }
    }
}

/// The number of parallel sums: a single one would wait for each addition.
const SUMS: usize = 4;

/// Mean and sum of squared deviations of each lane of a register, over rows of the same length.
///
/// All deviations are from a value near the mean: those of a row's values from its first value,
/// those of the rows' means from the first mean. Sums of plain squares would lose the variance
/// where the mean is large.
#[derive(Clone, Copy)]
pub struct OfLanes {
    /// The mean of the first row.
    first: [f32; LANES],
    /// Sums of the deviations of the rows' means, and of their squares.
    apart: [[f32; LANES]; 2],
    /// Sums of squared deviations within rows.
    within: [f32; LANES],
    rows: usize,
}

impl OfLanes {
    /// The state before the first row.
    pub const NONE: OfLanes = OfLanes { first: [0.0; LANES], apart: [[0.0; LANES]; 2], within: [0.0; LANES], rows: 0 };

    /// Adds a row of `count` registers, `step` values apart.
    ///
    /// # Safety
    /// The CPU has the instructions of these lanes, `count` is at least one, and there are `count`
    /// registers from `row` on.
    #[inline(always)]
    pub unsafe fn add<L: Lanes>(&mut self, row: *const f32, step: usize, count: usize) {
        let part = 1.0 / count as f32;
        // SAFETY: the caller guarantees the instructions and the registers; all arrays have sixteen
        // values.
        unsafe {
            let start = L::load(row);
            let (mut sums, mut squares) = ([L::zero(); SUMS], [L::zero(); SUMS]);
            for at in 0..count / SUMS {
                for n in 0..SUMS {
                    let apart = L::load(row.add((at * SUMS + n) * step)).sub(start);
                    sums[n] = sums[n].add(apart);
                    squares[n] = squares[n].fma(apart, apart);
                }
            }
            for at in count / SUMS * SUMS..count {
                let apart = L::load(row.add(at * step)).sub(start);
                sums[0] = sums[0].add(apart);
                squares[0] = squares[0].fma(apart, apart);
            }
            let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
            let squares = squares[0].add(squares[1]).add(squares[2].add(squares[3]));
            let off = L::zero().fma(sum, L::splat(&part));
            let mean = start.add(off);
            if self.rows == 0 {
                mean.store(self.first.as_mut_ptr());
            }
            self.rows += 1;
            let apart = mean.sub(L::load(self.first.as_ptr()));
            let [of_means, of_their_squares] = &mut self.apart;
            L::load(of_means.as_ptr()).add(apart).store(of_means.as_mut_ptr());
            L::load(of_their_squares.as_ptr()).fma(apart, apart).store(of_their_squares.as_mut_ptr());
            let within = L::load(self.within.as_ptr()).add(squares.sub(L::zero().fma(sum, off)));
            within.store(self.within.as_mut_ptr());
        }
    }

    /// Means, and sums of squared deviations from them, where each row had `count` values.
    pub fn all(&self, count: usize) -> [[f32; LANES]; 2] {
        let (part, count) = (1.0 / self.rows.max(1) as f32, count as f32);
        let (mut mean, mut squares) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for i in 0..LANES {
            let [sum, of_squares] = [self.apart[0][i], self.apart[1][i]];
            mean[i] = self.first[i] + sum * part;
            squares[i] = self.within[i].max(0.0) + count * (of_squares - sum * sum * part).max(0.0);
        }
        [mean, squares]
    }
}
