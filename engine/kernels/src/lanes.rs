//! Sixteen f32 at a time: one interface to AVX-512, AVX2, NEON and portable Rust, so that a kernel
//! is written once.
//!
//! A kernel is a function generic over [`Lanes`], marked `#[inline(always)]`, and compiled once
//! more inside a `#[target_feature]` function for each kind.

/// Sixteen f32. The widest kind that the processor has is chosen at run time.
pub(crate) trait Lanes: Copy {
    /// Sixteen zeros.
    ///
    /// # Safety
    /// As for all functions here: the processor must have the instructions of this kind, and
    /// pointers must be valid for the accesses described.
    unsafe fn zero() -> Self;
    /// Sixteen times the value behind the pointer.
    unsafe fn splat(from: *const f32) -> Self;
    /// Sixteen neighbours.
    unsafe fn load(from: *const f32) -> Self;
    /// Fewer than sixteen neighbours, and zeros; nothing beyond them is read.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes sixteen neighbours.
    unsafe fn store(self, to: *mut f32);
    /// Writes fewer than sixteen neighbours; nothing beyond them is written.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// `self + a * b`, rounded once where the processor can.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self - other`.
    unsafe fn sub(self, other: Self) -> Self;
    /// Exchanges rows and columns of sixteen times sixteen values: reads rows at the distance
    /// `from_step`, writes columns at the distance `to_step`.
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize);
}

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
        // SAFETY: the caller grants one value.
        Portable([unsafe { *from }; 16])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller grants sixteen values.
        Portable(unsafe { from.cast::<[f32; 16]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut all = [0.0_f32; 16];
        for (i, value) in all.iter_mut().enumerate().take(count) {
            // SAFETY: the caller grants `count` values.
            *value = unsafe { *from.add(i) };
        }
        // SAFETY: sixteen values.
        unsafe { Self::load(all.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller grants sixteen values.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the caller grants `count` values.
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
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: the caller grants sixteen rows of sixteen on both sides.
        unsafe { exchange::<16>(from, from_step, to, to_step) }
    }
}

/// Exchanges rows and columns of a square, one value at a time.
#[inline(always)]
unsafe fn exchange<const N: usize>(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    for column in 0..N {
        for row in 0..N {
            // SAFETY: the caller grants `N` rows of `N` values on both sides.
            unsafe { *to.add(column * to_step + row) = *from.add(row * from_step + column) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, Avx512Bf16};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// One register of AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512);

    // SAFETY (all blocks): the caller grants AVX-512F and the ranges named at the trait.
    impl Lanes for Avx512 {
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_setzero_ps() })
        }

        #[inline(always)]
        unsafe fn splat(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_set1_ps(*from) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: as above; masked-out values are not read.
            Avx512(unsafe { _mm512_maskz_loadu_ps(((1_u32 << count) - 1) as u16, from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            // SAFETY: as above; masked-out values are not written.
            unsafe { _mm512_mask_storeu_ps(to, ((1_u32 << count) - 1) as u16, self.0) }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
            // SAFETY: as above. Pairs of rows, then fours, then quarters of registers twice.
            unsafe {
                let rows: [__m512; 16] = std::array::from_fn(|i| _mm512_loadu_ps(from.add(i * from_step)));
                let pairs: [__m512; 16] = std::array::from_fn(|i| {
                    let (a, b) = (rows[i / 2 * 2], rows[i / 2 * 2 + 1]);
                    if i % 2 == 0 { _mm512_unpacklo_ps(a, b) } else { _mm512_unpackhi_ps(a, b) }
                });
                let fours: [__m512; 16] = std::array::from_fn(|i| {
                    let (four, column) = (i / 4 * 4, i % 4);
                    let (a, b) = (pairs[four + column / 2], pairs[four + 2 + column / 2]);
                    let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
                    let both = if column % 2 == 0 { _mm512_unpacklo_pd(a, b) } else { _mm512_unpackhi_pd(a, b) };
                    _mm512_castpd_ps(both)
                });
                // `fours[4 r + c]` holds, in quarter q, column 4 q + c of rows 4 r .. 4 r + 4.
                for c in 0..4 {
                    let [a, b, d, e] = [fours[c], fours[4 + c], fours[8 + c], fours[12 + c]];
                    let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                    let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
                    let low2 = _mm512_shuffle_f32x4::<0b10_00_10_00>(d, e);
                    let high2 = _mm512_shuffle_f32x4::<0b11_01_11_01>(d, e);
                    let at = |column: usize| to.add(column * to_step);
                    _mm512_storeu_ps(at(c), _mm512_shuffle_f32x4::<0b10_00_10_00>(low, low2));
                    _mm512_storeu_ps(at(4 + c), _mm512_shuffle_f32x4::<0b10_00_10_00>(high, high2));
                    _mm512_storeu_ps(at(8 + c), _mm512_shuffle_f32x4::<0b11_01_11_01>(low, low2));
                    _mm512_storeu_ps(at(12 + c), _mm512_shuffle_f32x4::<0b11_01_11_01>(high, high2));
                }
            }
        }
    }

    /// One register of AVX-512 that holds f32 or words of two bf16 each: the factors of `fma` are
    /// words, and it adds two products to each f32.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512Bf16(Avx512);

    // SAFETY (all blocks): the caller grants AVX-512F, AVX-512-BF16 and the ranges named at the
    // trait.
    impl Lanes for Avx512Bf16 {
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { Avx512::zero() })
        }

        #[inline(always)]
        unsafe fn splat(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { Avx512::splat(from) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { Avx512::load(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { Avx512::load_first(from, count) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { self.0.store(to) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            // SAFETY: as above.
            unsafe { self.0.store_first(to, count) }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            // SAFETY: as above; both types are the same 64 bytes.
            unsafe {
                let [a, b] = [a, b].map(|words| std::mem::transmute::<__m512, __m512bh>(words.0.0));
                Avx512Bf16(Avx512(_mm512_dpbf16_ps(self.0.0, a, b)))
            }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { self.0.add(other.0) })
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx512Bf16(unsafe { self.0.sub(other.0) })
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
            // SAFETY: as above.
            unsafe { Avx512::transpose(from, from_step, to, to_step) }
        }
    }

    /// Two registers of AVX2.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2([__m256; 2]);

    // SAFETY (all blocks): the caller grants AVX2, FMA and the ranges named at the trait.
    impl Lanes for Avx2 {
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_setzero_ps(); 2] })
        }

        #[inline(always)]
        unsafe fn splat(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_set1_ps(*from); 2] })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            let mut all = [0.0_f32; 16];
            for (i, value) in all.iter_mut().enumerate().take(count) {
                // SAFETY: the caller grants `count` values.
                *value = unsafe { *from.add(i) };
            }
            // SAFETY: sixteen values.
            unsafe { Self::load(all.as_ptr()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_ps(to, self.0[0]);
                _mm256_storeu_ps(to.add(8), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            let mut all = [0.0_f32; 16];
            // SAFETY: sixteen values, then the `count` that the caller grants.
            unsafe {
                self.store(all.as_mut_ptr());
                std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
            }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_fmadd_ps(a.0[0], b.0[0], self.0[0]), _mm256_fmadd_ps(a.0[1], b.0[1], self.0[1])] })
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_add_ps(self.0[0], other.0[0]), _mm256_add_ps(self.0[1], other.0[1])] })
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { [_mm256_sub_ps(self.0[0], other.0[0]), _mm256_sub_ps(self.0[1], other.0[1])] })
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
            for quarter in 0..4 {
                let (row, column) = (quarter / 2 * 8, quarter % 2 * 8);
                // SAFETY: as above; a quarter of the square. Pairs of rows, then fours, then halves
                // of registers.
                unsafe {
                    let (from, to) = (from.add(row * from_step + column), to.add(column * to_step + row));
                    let rows: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.add(i * from_step)));
                    let pairs: [__m256; 8] = std::array::from_fn(|i| {
                        let (a, b) = (rows[i / 2 * 2], rows[i / 2 * 2 + 1]);
                        if i % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
                    });
                    let fours: [__m256; 8] = std::array::from_fn(|i| {
                        let (four, c) = (i / 4 * 4, i % 4);
                        let (a, b) = (pairs[four + c / 2], pairs[four + 2 + c / 2]);
                        if c % 2 == 0 {
                            _mm256_shuffle_ps::<0b01_00_01_00>(a, b)
                        } else {
                            _mm256_shuffle_ps::<0b11_10_11_10>(a, b)
                        }
                    });
                    for c in 0..4 {
                        let (a, b) = (fours[c], fours[4 + c]);
                        _mm256_storeu_ps(to.add(c * to_step), _mm256_permute2f128_ps::<0x20>(a, b));
                        _mm256_storeu_ps(to.add((4 + c) * to_step), _mm256_permute2f128_ps::<0x31>(a, b));
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::{Lanes, exchange};

    /// Four registers of NEON.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon([float32x4_t; 4]);

    // SAFETY (all blocks): every aarch64 processor has NEON; the caller grants the ranges named at
    // the trait.
    impl Lanes for Neon {
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Neon(unsafe { [vdupq_n_f32(0.0); 4] })
        }

        #[inline(always)]
        unsafe fn splat(from: *const f32) -> Self {
            // SAFETY: as above.
            Neon(unsafe { [vld1q_dup_f32(from); 4] })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            Neon(std::array::from_fn(|i| unsafe { vld1q_f32(from.add(i * 4)) }))
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            let mut all = [0.0_f32; 16];
            for (i, value) in all.iter_mut().enumerate().take(count) {
                // SAFETY: the caller grants `count` values.
                *value = unsafe { *from.add(i) };
            }
            // SAFETY: sixteen values.
            unsafe { Self::load(all.as_ptr()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            for (i, four) in self.0.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { vst1q_f32(to.add(i * 4), four) }
            }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            let mut all = [0.0_f32; 16];
            // SAFETY: sixteen values, then the `count` that the caller grants.
            unsafe {
                self.store(all.as_mut_ptr());
                std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
            }
        }

        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            Neon(std::array::from_fn(|i| unsafe { vfmaq_f32(self.0[i], a.0[i], b.0[i]) }))
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Neon(std::array::from_fn(|i| unsafe { vaddq_f32(self.0[i], other.0[i]) }))
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            Neon(std::array::from_fn(|i| unsafe { vsubq_f32(self.0[i], other.0[i]) }))
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
            // SAFETY: as above.
            unsafe { exchange::<16>(from, from_step, to, to_step) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<L: Lanes>(transpose: unsafe fn(*const f32, usize, *mut f32, usize)) {
        let from: Vec<f32> = (0..20 * 16).map(|i| i as f32).collect();
        let mut to = vec![0.0_f32; 18 * 16];
        // SAFETY: sixteen rows of 20 and of 18 values.
        unsafe { transpose(from.as_ptr(), 20, to.as_mut_ptr(), 18) };
        for row in 0..16 {
            for column in 0..16 {
                assert_eq!(to[column * 18 + row], from[row * 20 + column], "row {row}, column {column}");
            }
        }
        let _ = L::zero;
    }

    #[test]
    fn squares_are_turned() {
        check::<Portable>(Portable::transpose);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                check::<Avx512>(Avx512::transpose);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                check::<Avx2>(Avx2::transpose);
            }
        }
        #[cfg(target_arch = "aarch64")]
        check::<Neon>(Neon::transpose);
    }
}
