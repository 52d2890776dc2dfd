//! Loops that are compiled additionally for the CPU's wide registers.

/// Runs a loop, compiled with AVX-512 or AVX2 where the CPU supports it.
///
/// The loop's functions must be `#[inline(always)]` to be compiled again. Nothing is fused or
/// reordered: the result is the same on every CPU.
#[inline]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has AVX-512F.
        return unsafe { with_avx512(work) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { with_avx2(work) };
    }
    work()
}

/// The instruction sets that the kernels are compiled for and that this CPU supports, the widest
/// first. The kernels choose from them at run time.
pub fn processor_paths() -> Vec<&'static str> {
    let mut paths = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let wide = is_x86_feature_detected!("avx512f");
        let found = [
            ("avx512bf16", wide && is_x86_feature_detected!("avx512bf16")),
            ("avx512f", wide),
            ("avx2", is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")),
            ("sse2", true),
        ];
        paths.extend(found.into_iter().filter(|(_, found)| *found).map(|(name, _)| name));
    }
    if cfg!(target_arch = "aarch64") {
        paths.push("neon");
    }
    if paths.is_empty() {
        paths.push("portable");
    }
    paths
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// `std::array::from_fn` for loops that are compiled for wide registers: the standard one is
/// compiled once, for narrow registers, and called.
#[inline(always)]
pub(crate) fn each<T: Copy + Default, const N: usize>(mut of: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = [T::default(); N];
    for (i, value) in all.iter_mut().enumerate() {
        *value = of(i);
    }
    all
}

/// Prefetches values that are read soon; an index beyond the end does no harm.
#[inline(always)]
pub(crate) fn prefetch(values: &[f32], first: usize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (first..first + count).step_by(LANES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, first, count);
}

/// The number of parallel sums, so that a loop fills registers. A constant, so that a sum is the
/// same on every CPU.
pub(crate) const LANES: usize = 16;

/// The sum of `of` over two rows of one length.
#[inline(always)]
pub(crate) fn sum(a: &[f32], b: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += of(*a, *b);
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| of(*a, *b)).sum::<f32>()
}
