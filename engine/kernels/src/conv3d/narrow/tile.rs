//! The two inner loops, over raw pointers: a tile of outputs, and a block of weight gradients.
//!
//! Both exist for AVX-512, for AVX2 with FMA, and in portable Rust; the widest that the processor has is chosen once.

use std::sync::LazyLock;

/// Outputs of one row that a tile computes together.
pub const LANES: usize = 32;

/// Rows (output channels) that a tile or block computes together, at most.
pub const ROWS: usize = 8;

/// Taps whose weight gradient a block computes together.
pub const TAPS: usize = 3;

/// `out[row * LANES + lane] = sum over k of weights[k * rows + row] * source[offsets[k] + lane]`.
///
/// # Safety
/// `source + offsets[k]` must be readable for [`LANES`] values for every `k`, `weights` for `offsets.len() * rows`, and
/// `out` writable for `rows * LANES`.
pub type Tile = unsafe fn(source: *const f32, offsets: &[usize], weights: *const f32, out: *mut f32);

/// `sums[row][tap] += sum over i of rows[row][i] * taps[tap][i]`, `length` a multiple of 16.
///
/// # Safety
/// Every pointer must be readable for `length` values.
pub type Block =
    unsafe fn(rows: &[*const f32; ROWS], taps: &[*const f32; TAPS], length: usize, sums: &mut [[f32; TAPS]; ROWS]);

/// The inner loops of this processor.
pub struct Inner {
    /// Tiles of 1, 2, 4 and 8 rows.
    tiles: [Tile; 4],
    pub block: Block,
}

impl Inner {
    /// The smallest tile height that holds so many rows, and its loop.
    pub fn tile(&self, rows: usize) -> (usize, Tile) {
        match rows {
            0..=1 => (1, self.tiles[0]),
            2 => (2, self.tiles[1]),
            3..=4 => (4, self.tiles[2]),
            _ => (8, self.tiles[3]),
        }
    }
}

/// What this processor runs.
pub static INNER: LazyLock<Inner> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512::INNER;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2::INNER;
        }
    }
    portable::INNER
});

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{Inner, LANES, ROWS, TAPS};

    pub const INNER: Inner = Inner { tiles: [tile::<1>, tile::<2>, tile::<4>, tile::<8>], block };

    #[target_feature(enable = "avx512f")]
    unsafe fn tile<const R: usize>(source: *const f32, offsets: &[usize], weights: *const f32, out: *mut f32) {
        // SAFETY: the caller grants the ranges named at `Tile`; `INNER` is used only where AVX-512F is present.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); 2]; R];
            for (k, offset) in offsets.iter().enumerate() {
                let at = source.add(*offset);
                let (low, high) = (_mm512_loadu_ps(at), _mm512_loadu_ps(at.add(16)));
                let weight = weights.add(k * R);
                for (row, sum) in sums.iter_mut().enumerate() {
                    let w = _mm512_set1_ps(*weight.add(row));
                    sum[0] = _mm512_fmadd_ps(w, low, sum[0]);
                    sum[1] = _mm512_fmadd_ps(w, high, sum[1]);
                }
            }
            for (row, sum) in sums.iter().enumerate() {
                _mm512_storeu_ps(out.add(row * LANES), sum[0]);
                _mm512_storeu_ps(out.add(row * LANES + 16), sum[1]);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn block(
        rows: &[*const f32; ROWS],
        taps: &[*const f32; TAPS],
        length: usize,
        sums: &mut [[f32; TAPS]; ROWS],
    ) {
        // SAFETY: the caller grants `length` values behind every pointer.
        unsafe {
            let mut lanes = [[_mm512_setzero_ps(); TAPS]; ROWS];
            let mut i = 0;
            while i < length {
                let x: [__m512; TAPS] = std::array::from_fn(|t| _mm512_loadu_ps(taps[t].add(i)));
                for (row, lane) in lanes.iter_mut().enumerate() {
                    let y = _mm512_loadu_ps(rows[row].add(i));
                    for t in 0..TAPS {
                        lane[t] = _mm512_fmadd_ps(y, x[t], lane[t]);
                    }
                }
                i += 16;
            }
            for (sum, lane) in sums.iter_mut().zip(&lanes) {
                for t in 0..TAPS {
                    sum[t] += _mm512_reduce_add_ps(lane[t]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Inner, LANES, ROWS, TAPS};

    pub const INNER: Inner = Inner { tiles: [tile::<1>, tile::<2>, tile::<4>, tile::<8>], block };

    /// Sixteen registers hold four rows of two vectors, so that a tile is made in pieces.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile<const R: usize>(source: *const f32, offsets: &[usize], weights: *const f32, out: *mut f32) {
        const PIECE: usize = 4;
        for first in (0..R).step_by(PIECE) {
            for half in 0..2 {
                // SAFETY: the caller grants the ranges named at `Tile`; the pieces lie within them.
                unsafe {
                    let mut sums = [[_mm256_setzero_ps(); 2]; PIECE];
                    let rows = PIECE.min(R - first);
                    for (k, offset) in offsets.iter().enumerate() {
                        let at = source.add(*offset + half * 16);
                        let (low, high) = (_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8)));
                        let weight = weights.add(k * R + first);
                        for (row, sum) in sums.iter_mut().enumerate().take(rows) {
                            let w = _mm256_set1_ps(*weight.add(row));
                            sum[0] = _mm256_fmadd_ps(w, low, sum[0]);
                            sum[1] = _mm256_fmadd_ps(w, high, sum[1]);
                        }
                    }
                    for (row, sum) in sums.iter().enumerate().take(rows) {
                        let to = out.add((first + row) * LANES + half * 16);
                        _mm256_storeu_ps(to, sum[0]);
                        _mm256_storeu_ps(to.add(8), sum[1]);
                    }
                }
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn block(
        rows: &[*const f32; ROWS],
        taps: &[*const f32; TAPS],
        length: usize,
        sums: &mut [[f32; TAPS]; ROWS],
    ) {
        const PIECE: usize = 4;
        for first in (0..ROWS).step_by(PIECE) {
            // SAFETY: the caller grants `length` values behind every pointer.
            unsafe {
                let mut lanes = [[_mm256_setzero_ps(); TAPS]; PIECE];
                let mut i = 0;
                while i < length {
                    let x: [__m256; TAPS] = std::array::from_fn(|t| _mm256_loadu_ps(taps[t].add(i)));
                    for (row, lane) in lanes.iter_mut().enumerate() {
                        let y = _mm256_loadu_ps(rows[first + row].add(i));
                        for t in 0..TAPS {
                            lane[t] = _mm256_fmadd_ps(y, x[t], lane[t]);
                        }
                    }
                    i += 8;
                }
                for (row, lane) in lanes.iter().enumerate() {
                    for t in 0..TAPS {
                        let mut eight = [0.0_f32; 8];
                        _mm256_storeu_ps(eight.as_mut_ptr(), lane[t]);
                        sums[first + row][t] += eight.iter().sum::<f32>();
                    }
                }
            }
        }
    }
}

mod portable {
    use super::{Inner, LANES, ROWS, TAPS};

    pub const INNER: Inner = Inner { tiles: [tile::<1>, tile::<2>, tile::<4>, tile::<8>], block };

    unsafe fn tile<const R: usize>(source: *const f32, offsets: &[usize], weights: *const f32, out: *mut f32) {
        let mut sums = [[0.0_f32; LANES]; R];
        for (k, offset) in offsets.iter().enumerate() {
            // SAFETY: the caller grants the ranges named at `Tile`.
            let (x, w) = unsafe {
                (
                    std::slice::from_raw_parts(source.add(*offset), LANES),
                    std::slice::from_raw_parts(weights.add(k * R), R),
                )
            };
            for (sum, w) in sums.iter_mut().zip(w) {
                for (lane, x) in sum.iter_mut().zip(x) {
                    *lane += w * x;
                }
            }
        }
        // SAFETY: the caller grants `R * LANES` values behind `out`.
        let out = unsafe { std::slice::from_raw_parts_mut(out, R * LANES) };
        out.copy_from_slice(sums.as_flattened());
    }

    unsafe fn block(
        rows: &[*const f32; ROWS],
        taps: &[*const f32; TAPS],
        length: usize,
        sums: &mut [[f32; TAPS]; ROWS],
    ) {
        // SAFETY: the caller grants `length` values behind every pointer.
        let slice = |at: *const f32| unsafe { std::slice::from_raw_parts(at, length) };
        for (row, sum) in rows.iter().zip(sums) {
            for (tap, sum) in taps.iter().zip(sum) {
                let mut lanes = [0.0_f32; 16];
                for (y, x) in slice(*row).chunks_exact(16).zip(slice(*tap).chunks_exact(16)) {
                    for ((lane, y), x) in lanes.iter_mut().zip(y).zip(x) {
                        *lane += y * x;
                    }
                }
                *sum += lanes.iter().sum::<f32>();
            }
        }
    }
}

#[cfg(test)]
pub mod every {
    //! All inner loops this machine can run, for tests that compare them.
    use super::Inner;

    /// Name and loops.
    pub fn runnable() -> Vec<(&'static str, Inner)> {
        let mut found = vec![("portable", super::portable::INNER)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(("avx2", super::avx2::INNER));
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(("avx512", super::avx512::INNER));
            }
        }
        found
    }
}
