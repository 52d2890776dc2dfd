//! The two inner loops for many output channels, written once for every kind of [`Lanes`]: sums of
//! outputs, and sums of weight gradients.
//!
//! Lanes are output channels, so that rows of any length are used whole, and a value of the source
//! is broadcast. One broadcast serves all taps of a run: `x[q]` goes to the outputs `q`, `q - 1`
//! and `q - 2` with the weights 0, 1 and 2.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of registers, the same in several arrays")]

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};

use super::WIDTH;
use super::plan::RUN;

/// The most outputs of a row that a tile computes together, over all processors.
pub const MOST: usize = 24;

/// Adds to `sums[p][v][lane]`, over all `offsets[k]` and taps `n` of a run,
/// `weights[k][n][v][lane] * source[offsets[k] + p + n]`.
///
/// # Safety
/// `sums` holds `P * V` times [`WIDTH`] values, `weights` `offsets.len() * N * V` times as many,
/// and `source` reaches `P + N - 1` values beyond every offset.
pub type Tile = unsafe fn(source: *const f32, offsets: &[usize], weights: *const f32, sums: *mut f32);

/// Rows over which a block of weight gradients is summed.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub planes: usize,
    pub rows: usize,
    pub width: usize,
    /// From one plane and row of the source to the next.
    pub x_plane: usize,
    pub x_row: usize,
    /// From one plane of the output gradient to the next; its rows follow each other.
    pub dy_plane: usize,
}

/// Adds to `sums[i][n][v][lane]`, over all positions,
/// `dy[position][v][lane] * x[offsets[i] + position + n]`.
///
/// # Safety
/// `offsets` has as many entries as the block; `x` reaches all positions of all rows beyond every
/// offset, `dy` all rows of `width * V` times [`WIDTH`] values, and `sums` holds one register for
/// each `i`, `n` and `v`.
pub type Block = unsafe fn(x: *const f32, offsets: &[usize], rows: &Rows, dy: *const f32, sums: *mut f32);

/// Exchanges the sixteen rows and columns of a square.
///
/// # Safety
/// As for [`Lanes::transpose`].
pub type Transpose = unsafe fn(from: *const f32, from_step: usize, to: *mut f32, to_step: usize);

/// The inner loops of one kind of processor, by registers of lanes less one.
pub struct Kernels {
    /// The most registers of lanes of a tile.
    pub vectors: usize,
    /// The most outputs of a row of a tile.
    pub most: [usize; 2],
    /// By registers, taps of a run and outputs, each less one.
    tiles: [[[Option<Tile>; MOST]; RUN]; 2],
    /// By registers and taps of a run, each less one: how many offsets, and the loop.
    blocks: [[(usize, Option<Block>); RUN]; 2],
    pub transpose: Transpose,
}

impl Kernels {
    /// The loop of a tile; `None` for a size that does not exist here.
    pub fn tile(&self, vectors: usize, taps: usize, outputs: usize) -> Option<Tile> {
        self.tiles[vectors - 1][taps - 1][outputs - 1]
    }

    /// How many offsets a block takes, and its loop.
    pub fn block(&self, vectors: usize, taps: usize) -> (usize, Option<Block>) {
        self.blocks[vectors - 1][taps - 1]
    }
}

/// The loops for this processor.
pub static KERNELS: LazyLock<Kernels> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512::KERNELS;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2::KERNELS;
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::KERNELS;
    #[cfg(not(target_arch = "aarch64"))]
    portable::KERNELS
});

/// The loops for factors packed as two bf16 per word, where this processor supports them; sums are
/// f32 as in the others.
pub static PAIRS: LazyLock<Option<Kernels>> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
        return Some(avx512_bf16::KERNELS);
    }
    None
});

#[inline(always)]
unsafe fn tile<L: Lanes, const V: usize, const N: usize, const P: usize>(
    source: *const f32,
    offsets: &[usize],
    weights: *const f32,
    sums: *mut f32,
) {
    // SAFETY: the ranges are those named at `Tile`.
    unsafe {
        let mut acc = [[L::zero(); V]; P];
        for p in 0..P {
            for v in 0..V {
                acc[p][v] = L::load(sums.add((p * V + v) * WIDTH));
            }
        }
        let mut weights = weights;
        for offset in offsets {
            let x = source.add(*offset);
            let mut taps = [[L::zero(); V]; N];
            for n in 0..N {
                for v in 0..V {
                    taps[n][v] = L::load(weights.add((n * V + v) * WIDTH));
                }
            }
            // Unrolled: the sums stay in registers only where the compiler knows every index.
            macro_rules! broadcast {
                ($($q:literal)*) => {$(
                    if $q < P + N - 1 {
                        let value = L::splat(x.add($q));
                        for n in 0..N {
                            if $q >= n && $q - n < P {
                                for v in 0..V {
                                    acc[$q - n][v] = acc[$q - n][v].fma(value, taps[n][v]);
                                }
                            }
                        }
                    }
                )*};
            }
            broadcast!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25);
            weights = weights.add(N * V * WIDTH);
        }
        for p in 0..P {
            for v in 0..V {
                acc[p][v].store(sums.add((p * V + v) * WIDTH));
            }
        }
    }
}

#[inline(always)]
unsafe fn block<L: Lanes, const V: usize, const N: usize, const I: usize>(
    x: *const f32,
    offsets: &[usize],
    rows: &Rows,
    dy: *const f32,
    sums: *mut f32,
) {
    assert_eq!(offsets.len(), I, "a block of weight gradients has a fixed number of offsets");
    // SAFETY: the ranges are those named at `Block`.
    unsafe {
        let mut from = [x; I];
        let mut acc = [[[L::zero(); V]; N]; I];
        for i in 0..I {
            from[i] = x.add(offsets[i]);
            for n in 0..N {
                for v in 0..V {
                    acc[i][n][v] = L::load(sums.add(((i * N + n) * V + v) * WIDTH));
                }
            }
        }
        for plane in 0..rows.planes {
            let mut dy = dy.add(plane * rows.dy_plane);
            for row in 0..rows.rows {
                let mut at = plane * rows.x_plane + row * rows.x_row;
                // The gradients of this output and of those before it.
                let mut past = [[L::zero(); V]; N];
                for _ in 0..rows.width {
                    for n in (1..N).rev() {
                        past[n] = past[n - 1];
                    }
                    for v in 0..V {
                        past[0][v] = L::load(dy.add(v * WIDTH));
                    }
                    for i in 0..I {
                        let value = L::splat(from[i].add(at));
                        for n in 0..N {
                            for v in 0..V {
                                acc[i][n][v] = acc[i][n][v].fma(value, past[n][v]);
                            }
                        }
                    }
                    at += 1;
                    dy = dy.add(V * WIDTH);
                }
                // Values beyond the row's last output, which only its later taps read.
                for after in 1..N {
                    for n in (1..N).rev() {
                        past[n] = past[n - 1];
                    }
                    for i in 0..I {
                        let value = L::splat(from[i].add(at));
                        for n in after..N {
                            for v in 0..V {
                                acc[i][n][v] = acc[i][n][v].fma(value, past[n][v]);
                            }
                        }
                    }
                    at += 1;
                }
            }
        }
        for i in 0..I {
            for n in 0..N {
                for v in 0..V {
                    acc[i][n][v].store(sums.add(((i * N + n) * V + v) * WIDTH));
                }
            }
        }
    }
}

/// The loops of one kind of lanes: outputs of tiles of one and two registers, and offsets of blocks
/// by registers and taps.
macro_rules! kernels {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?, vectors $vectors:literal, most $most:expr,
     tiles [$($p1:literal)*] [$($p2:literal)*], blocks [$($n1:literal $i1:literal),*] [$($n2:literal $i2:literal),*]) => {
        mod $name {
            use super::*;

            $(#[$feature])?
            unsafe fn one_tile<const N: usize, const P: usize>(x: *const f32, o: &[usize], w: *const f32, s: *mut f32) {
                // SAFETY: the caller grants the ranges; these loops are used only where the
                // instructions are present.
                unsafe { tile::<$lanes, 1, N, P>(x, o, w, s) }
            }

            $(#[$feature])?
            #[allow(dead_code, reason = "not every kind has tiles of two registers")]
            unsafe fn two_tile<const N: usize, const P: usize>(x: *const f32, o: &[usize], w: *const f32, s: *mut f32) {
                // SAFETY: as above.
                unsafe { tile::<$lanes, 2, N, P>(x, o, w, s) }
            }

            $(#[$feature])?
            unsafe fn one_block<const N: usize, const I: usize>(
                x: *const f32, o: &[usize], rows: &Rows, dy: *const f32, s: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { block::<$lanes, 1, N, I>(x, o, rows, dy, s) }
            }

            $(#[$feature])?
            #[allow(dead_code, reason = "not every kind has blocks of two registers")]
            unsafe fn two_block<const N: usize, const I: usize>(
                x: *const f32, o: &[usize], rows: &Rows, dy: *const f32, s: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { block::<$lanes, 2, N, I>(x, o, rows, dy, s) }
            }

            $(#[$feature])?
            unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
                // SAFETY: as above.
                unsafe { <$lanes as Lanes>::transpose(from, from_step, to, to_step) }
            }

            const fn tiles<const N: usize>() -> [[Option<Tile>; MOST]; 2] {
                let mut found: [[Option<Tile>; MOST]; 2] = [[None; MOST]; 2];
                $(found[0][$p1 - 1] = Some(one_tile::<N, $p1> as Tile);)*
                $(found[1][$p2 - 1] = Some(two_tile::<N, $p2> as Tile);)*
                found
            }

            const fn blocks() -> [[(usize, Option<Block>); RUN]; 2] {
                let mut found: [[(usize, Option<Block>); RUN]; 2] = [[(0, None); RUN]; 2];
                $(found[0][$n1 - 1] = ($i1, Some(one_block::<$n1, $i1> as Block));)*
                $(found[1][$n2 - 1] = ($i2, Some(two_block::<$n2, $i2> as Block));)*
                found
            }

            pub const KERNELS: Kernels = {
                let (a, b, c) = (tiles::<1>(), tiles::<2>(), tiles::<3>());
                Kernels {
                    vectors: $vectors,
                    most: $most,
                    tiles: [[a[0], b[0], c[0]], [a[1], b[1], c[1]]],
                    blocks: blocks(),
                    transpose,
                }
            };
        }
    };
}

// Thirty-two registers: 24 sums, up to six weights and one broadcast.
#[cfg(target_arch = "x86_64")]
kernels!(avx512, crate::lanes::Avx512, #[target_feature(enable = "avx512f")], vectors 2, most [24, 12],
    tiles [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] [1 2 3 4 5 6 7 8 9 10 11 12],
    blocks [1 8, 2 8, 3 8] [1 8, 2 6, 3 4]);

// The same, of pairs of bf16.
#[cfg(target_arch = "x86_64")]
kernels!(avx512_bf16, crate::lanes::Avx512Bf16, #[target_feature(enable = "avx512f,avx512bf16")], vectors 2, most [24, 12],
    tiles [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] [1 2 3 4 5 6 7 8 9 10 11 12],
    blocks [1 8, 2 8, 3 8] [1 8, 2 6, 3 4]);

// Sixteen registers, two for each register of lanes.
#[cfg(target_arch = "x86_64")]
kernels!(avx2, crate::lanes::Avx2, #[target_feature(enable = "avx2,fma")], vectors 1, most [6, 1],
    tiles [1 2 3 4 5 6] [], blocks [1 6, 2 3, 3 2] []);

// Thirty-two registers, four for each register of lanes.
#[cfg(target_arch = "aarch64")]
kernels!(neon, crate::lanes::Neon, , vectors 1, most [6, 1],
    tiles [1 2 3 4 5 6] [], blocks [1 6, 2 3, 3 2] []);

#[cfg(any(test, not(target_arch = "aarch64")))]
kernels!(portable, Portable, , vectors 1, most [4, 1], tiles [1 2 3 4] [], blocks [1 4, 2 2, 3 1] []);

#[cfg(test)]
pub mod every {
    //! All inner loops this machine can run, for tests that compare them.
    use super::Kernels;

    /// Name and loops.
    pub fn runnable() -> Vec<(&'static str, Kernels)> {
        let mut found = vec![("portable", super::portable::KERNELS)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(("avx2", super::avx2::KERNELS));
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(("avx512", super::avx512::KERNELS));
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(("neon", super::neon::KERNELS));
        found
    }
}
