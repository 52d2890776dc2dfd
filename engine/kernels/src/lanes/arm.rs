//! NEON.

use std::arch::aarch64::*;

use super::{Lanes, exchange};

/// Four NEON registers.
#[derive(Clone, Copy)]
pub(crate) struct Neon([float32x4_t; 4]);

// SAFETY (all blocks): every aarch64 CPU has NEON; the caller guarantees the ranges described at
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
    unsafe fn splat_two(from: *const f32) -> Self {
        // SAFETY: as above.
        Neon(unsafe { [vreinterpretq_f32_u64(vdupq_n_u64(from.cast::<u64>().read_unaligned())); 4] })
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
            // SAFETY: the caller guarantees `count` values.
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
        // SAFETY: sixteen values, then the `count` values that the caller guarantees.
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
    unsafe fn in_turn(self, other: Self) -> [Self; 2] {
        // SAFETY: as above.
        std::array::from_fn(|half| unsafe {
            let ([a, c], [b, d]) = ([0, 1].map(|i| self.0[2 * half + i]), [0, 1].map(|i| other.0[2 * half + i]));
            Neon([vzip1q_f32(a, b), vzip2q_f32(a, b), vzip1q_f32(c, d), vzip2q_f32(c, d)])
        })
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: as above.
        unsafe { exchange::<16>(from, from_step, to, to_step) }
    }
}
