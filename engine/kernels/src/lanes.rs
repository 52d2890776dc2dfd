//! Sixteen f32 at a time: one interface to AVX-512, AVX2, NEON and portable Rust, so that a kernel
//! is written once.
//!
//! A kernel is a function generic over [`Lanes`], marked `#[inline(always)]`, and compiled again
//! inside a `#[target_feature]` function for each kind.

/// Sixteen f32. The widest kind that the CPU supports is chosen at run time.
pub(crate) trait Lanes: Copy {
    /// Sixteen zeros.
    ///
    /// # Safety
    /// For all functions of this trait: the CPU must have the instructions of this kind, and
    /// pointers must be valid for the accesses described.
    unsafe fn zero() -> Self;
    /// Broadcasts the value behind the pointer to sixteen lanes.
    unsafe fn splat(from: *const f32) -> Self;
    /// Repeats the two values behind the pointer eight times.
    unsafe fn splat_two(from: *const f32) -> Self;
    /// Reads sixteen consecutive values.
    unsafe fn load(from: *const f32) -> Self;
    /// Reads the first `count` values, at most sixteen, and fills with zeros; nothing beyond them
    /// is read.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes sixteen consecutive values.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count` values, at most sixteen; nothing beyond them is written.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Computes `self + a * b`, rounded once where the CPU supports it.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self - other`.
    unsafe fn sub(self, other: Self) -> Self;
    /// Interleaves both: the first eight values of each, and the last eight.
    unsafe fn in_turn(self, other: Self) -> [Self; 2];
    /// Transposes sixteen times sixteen values: reads rows at the distance `from_step`, writes
    /// columns at the distance `to_step`.
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize);
}

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, Avx512Bf16};

/// The implementation without special instructions.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 16]);

impl Lanes for Portable {
    #[inline(always)]
    unsafe fn zero() -> Self {
        Portable([0.0; 16])
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: the caller guarantees one value.
        Portable([unsafe { *from }; 16])
    }

    #[inline(always)]
    unsafe fn splat_two(from: *const f32) -> Self {
        // SAFETY: the caller guarantees two values.
        let two = unsafe { [*from, *from.add(1)] };
        Portable(std::array::from_fn(|i| two[i % 2]))
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees sixteen values.
        Portable(unsafe { from.cast::<[f32; 16]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut all = [0.0_f32; 16];
        for (i, value) in all.iter_mut().enumerate().take(count) {
            // SAFETY: the caller guarantees `count` values.
            *value = unsafe { *from.add(i) };
        }
        // SAFETY: sixteen values.
        unsafe { Self::load(all.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees sixteen values.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the caller guarantees `count` values.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to, count) }
    }

    #[inline(always)]
    unsafe fn fma(mut self, a: Self, b: Self) -> Self {
        for i in 0..16 {
            self.0[i] += a.0[i] * b.0[i];
        }
        self
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }

    #[inline(always)]
    unsafe fn in_turn(self, other: Self) -> [Self; 2] {
        let both = [self.0, other.0];
        [0, 8].map(|first| Portable(std::array::from_fn(|i| both[i % 2][first + i / 2])))
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: the caller guarantees sixteen rows of sixteen values on both sides.
        unsafe { exchange::<16>(from, from_step, to, to_step) }
    }
}

/// Transposes a square, one value at a time.
#[inline(always)]
unsafe fn exchange<const N: usize>(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    for column in 0..N {
        for row in 0..N {
            // SAFETY: the caller guarantees `N` rows of `N` values on both sides.
            unsafe { *to.add(column * to_step + row) = *from.add(row * from_step + column) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(transpose: unsafe fn(*const f32, usize, *mut f32, usize)) {
        let from: Vec<f32> = (0..20 * 16).map(|i| i as f32).collect();
        let mut to = vec![0.0_f32; 18 * 16];
        // SAFETY: sixteen rows of 20 and of 18 values.
        unsafe { transpose(from.as_ptr(), 20, to.as_mut_ptr(), 18) };
        for row in 0..16 {
            for column in 0..16 {
                assert_eq!(to[column * 18 + row], from[row * 20 + column], "row {row}, column {column}");
            }
        }
    }

    fn check_two<L: Lanes>() {
        let [a, b]: [[f32; 16]; 2] = [0, 100].map(|first| std::array::from_fn(|i| (first + i) as f32));
        let mut found = [[0.0_f32; 16]; 3];
        // SAFETY: sixteen values each; the caller has the instructions.
        unsafe {
            let [first, last] = L::load(a.as_ptr()).in_turn(L::load(b.as_ptr()));
            first.store(found[0].as_mut_ptr());
            last.store(found[1].as_mut_ptr());
            L::splat_two(a[3..].as_ptr()).store(found[2].as_mut_ptr());
        }
        for i in 0..32 {
            assert_eq!(found[i / 16][i % 16], [a, b][i % 2][i / 2], "value {i}");
        }
        assert_eq!(found[2], std::array::from_fn(|i| (3 + i % 2) as f32));
    }

    fn check_first<L: Lanes>() {
        let values: [f32; 16] = std::array::from_fn(|i| 1.0 + i as f32);
        for count in 0..=16 {
            let (mut whole, mut part) = ([9.0_f32; 16], [9.0_f32; 16]);
            // SAFETY: `count` values are read from a vector of that length, and `count` are
            // written; the caller has the instructions.
            unsafe {
                L::load_first(values[..count].to_vec().as_ptr(), count).store(whole.as_mut_ptr());
                L::load(values.as_ptr()).store_first(part.as_mut_ptr(), count);
            }
            assert_eq!(whole, std::array::from_fn(|i| if i < count { values[i] } else { 0.0 }), "{count} read");
            assert_eq!(part, std::array::from_fn(|i| if i < count { values[i] } else { 9.0 }), "{count} written");
        }
    }

    #[test]
    fn two_values_are_repeated_two_rows_are_in_turn_and_parts_are_read_and_written() {
        fn check_all<L: Lanes>() {
            check_two::<L>();
            check_first::<L>();
        }
        check_all::<Portable>();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                check_all::<Avx512>();
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                check_all::<Avx2>();
            }
        }
        #[cfg(target_arch = "aarch64")]
        check_all::<Neon>();
    }

    #[test]
    fn squares_are_turned() {
        check(Portable::transpose);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                check(Avx512::transpose);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                check(Avx2::transpose);
            }
        }
        #[cfg(target_arch = "aarch64")]
        check(Neon::transpose);
    }
}
