//! AVX-512, with and without bf16, and AVX2.
//!
//! No closures here: a function that takes one, such as `array::from_fn`, is compiled without the
//! wide instructions, so that each of them becomes a call, and registers are spilled to memory.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of registers, the same in several arrays")]

use std::arch::x86_64::*;

use super::Lanes;

/// One AVX-512 register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

// SAFETY (all blocks): the caller guarantees AVX-512F and the ranges described at the trait.
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
    unsafe fn splat_two(from: *const f32) -> Self {
        // SAFETY: as above.
        Avx512(unsafe { _mm512_castsi512_ps(_mm512_set1_epi64(from.cast::<i64>().read_unaligned())) })
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
    unsafe fn in_turn(self, other: Self) -> [Self; 2] {
        // SAFETY: as above.
        unsafe {
            let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let last = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            [
                Avx512(_mm512_permutex2var_ps(self.0, first, other.0)),
                Avx512(_mm512_permutex2var_ps(self.0, last, other.0)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: as above. Combines pairs of rows, then groups of four, then quarters of registers
        // twice.
        unsafe {
            let [mut rows, mut pairs, mut fours] = [[_mm512_setzero_ps(); 16]; 3];
            for i in 0..16 {
                rows[i] = _mm512_loadu_ps(from.add(i * from_step));
            }
            for i in 0..8 {
                let (a, b) = (rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i] = _mm512_unpacklo_ps(a, b);
                pairs[2 * i + 1] = _mm512_unpackhi_ps(a, b);
            }
            for i in 0..8 {
                let at = i / 2 * 4 + i % 2;
                let (a, b) = (_mm512_castps_pd(pairs[at]), _mm512_castps_pd(pairs[at + 2]));
                fours[2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                fours[2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
            }
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

/// One AVX-512 register that holds f32, or words of two bf16 each: the factors of `fma` are words,
/// and it adds two products to each f32.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Bf16(Avx512);

// SAFETY (all blocks): the caller guarantees AVX-512F, AVX-512-BF16 and the ranges described at the
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
    unsafe fn splat_two(from: *const f32) -> Self {
        // SAFETY: as above.
        Avx512Bf16(unsafe { Avx512::splat_two(from) })
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
            let a = std::mem::transmute::<__m512, __m512bh>(a.0.0);
            let b = std::mem::transmute::<__m512, __m512bh>(b.0.0);
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
    unsafe fn in_turn(self, other: Self) -> [Self; 2] {
        // SAFETY: as above.
        let [first, last] = unsafe { self.0.in_turn(other.0) };
        [Avx512Bf16(first), Avx512Bf16(last)]
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: as above.
        unsafe { Avx512::transpose(from, from_step, to, to_step) }
    }
}

/// Masks for the first of sixteen values: sixteen entries with all bits set, then sixteen zeros.
static FIRST: [i32; 32] = {
    let mut masks = [0; 32];
    let mut at = 0;
    while at < 16 {
        masks[at] = -1;
        at += 1;
    }
    masks
};

/// Two AVX2 registers.
#[derive(Clone, Copy)]
pub(crate) struct Avx2([__m256; 2]);

// SAFETY (all blocks): the caller guarantees AVX2, FMA and the ranges described at the trait.

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
    unsafe fn splat_two(from: *const f32) -> Self {
        // SAFETY: as above.
        Avx2(unsafe { [_mm256_castsi256_ps(_mm256_set1_epi64x(from.cast::<i64>().read_unaligned())); 2] })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        Avx2(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: as above; the masks of the first `count` values start `count` entries before the
        // end of the table's set part, and masked-out values are not read.
        Avx2(unsafe {
            let mask = FIRST.as_ptr().add(16 - count);
            [0, 8].map(|half| _mm256_maskload_ps(from.add(half), _mm256_loadu_si256(mask.add(half).cast())))
        })
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
    unsafe fn store_first(self, mut to: *mut f32, count: usize) {
        let [mut eight, last] = self.0;
        // SAFETY: as above; each branch writes a part of the `count` values. A masked store takes
        // longer on many CPUs.
        unsafe {
            if count == 16 {
                return self.store(to);
            }
            if count & 8 != 0 {
                _mm256_storeu_ps(to, eight);
                (to, eight) = (to.add(8), last);
            }
            let mut four = _mm256_castps256_ps128(eight);
            if count & 4 != 0 {
                _mm_storeu_ps(to, four);
                (to, four) = (to.add(4), _mm256_extractf128_ps::<1>(eight));
            }
            if count & 2 != 0 {
                _mm_storel_pd(to.cast(), _mm_castps_pd(four));
                (to, four) = (to.add(2), _mm_movehl_ps(four, four));
            }
            if count & 1 != 0 {
                _mm_store_ss(to, four);
            }
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
    unsafe fn in_turn(self, other: Self) -> [Self; 2] {
        let mut both = [self, other];
        for half in 0..2 {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (self.0[half], other.0[half]);
                let (even, odd) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                both[half] =
                    Avx2([_mm256_permute2f128_ps::<0x20>(even, odd), _mm256_permute2f128_ps::<0x31>(even, odd)]);
            }
        }
        both
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        for quarter in 0..4 {
            let (row, column) = (quarter / 2 * 8, quarter % 2 * 8);
            // SAFETY: as above; transposes a quarter of the square. Combines pairs of rows, then
            // groups of four, then halves of registers.
            unsafe {
                let (from, to) = (from.add(row * from_step + column), to.add(column * to_step + row));
                let [mut rows, mut pairs, mut fours] = [[_mm256_setzero_ps(); 8]; 3];
                for i in 0..8 {
                    rows[i] = _mm256_loadu_ps(from.add(i * from_step));
                }
                for i in 0..4 {
                    let (a, b) = (rows[2 * i], rows[2 * i + 1]);
                    pairs[2 * i] = _mm256_unpacklo_ps(a, b);
                    pairs[2 * i + 1] = _mm256_unpackhi_ps(a, b);
                }
                for i in 0..4 {
                    let at = i / 2 * 4 + i % 2;
                    let (a, b) = (pairs[at], pairs[at + 2]);
                    fours[2 * i] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
                    fours[2 * i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
                }
                for c in 0..4 {
                    let (a, b) = (fours[c], fours[4 + c]);
                    _mm256_storeu_ps(to.add(c * to_step), _mm256_permute2f128_ps::<0x20>(a, b));
                    _mm256_storeu_ps(to.add((4 + c) * to_step), _mm256_permute2f128_ps::<0x31>(a, b));
                }
            }
        }
    }
}
