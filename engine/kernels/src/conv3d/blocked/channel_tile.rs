//! The two inner loops for many output channels, written once for every kind of [`Lanes`]: sums of
//! outputs, and sums of weight gradients.
//!
//! Lanes are output channels, so that rows of any length are fully used, and a value of the source
//! is broadcast. One broadcast serves all taps of a run: `x[q]` contributes to the outputs `q`,
//! `q - 1` and `q - 2` with the weights 0, 1 and 2.
//!
//! Where there are at most eight output channels, two tiles share the registers: lanes 0, 2, 4 ..
//! are the channels of the first, lanes 1, 3, 5 .. those of the second. Their sources are
//! interleaved, value by value, so that one broadcast of two values serves both.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of registers, the same in several arrays")]

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};
use crate::moments::OfLanes;

use super::WIDTH;
use super::plan::RUN;

/// The maximum number of outputs of a row that a tile computes together, over all CPUs.
pub const MOST: usize = 24;

/// Sets `sums[p][v][lane]` to the sum, over all `offsets[k]` and taps `n` of a run, of
/// `weights[k][n][v][lane] * source[offsets[k] + (p + n) * S + lane % S]`, where `S` tiles share
/// the registers; with `add`, adds the sum instead.
///
/// # Safety
/// `sums` holds `P * V` times [`WIDTH`] values, `weights` `offsets.len() * N * V` times [`WIDTH`]
/// values, and `source` reaches `(P + N - 1) * S` values beyond every offset.
pub type Tile = unsafe fn(source: *const f32, offsets: &[usize], weights: *const f32, sums: *mut f32, add: bool);

/// Rows over which a block of weight gradients is summed.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub planes: usize,
    pub rows: usize,
    pub width: usize,
    /// Distance between planes and rows of the source.
    pub x_plane: usize,
    pub x_row: usize,
    /// Distance between planes of the output gradient, whose rows are contiguous.
    pub dy_plane: usize,
}

/// Adds to `sums[i][n][v][lane]`, over all positions,
/// `dy[position][v][lane] * x[offsets[i] + (position + n) * S + lane % S]`, where `S` tiles share the
/// registers.
///
/// # Safety
/// `offsets` has as many entries as the block; beyond every offset, `x` reaches all positions of
/// all rows; `dy` holds all rows of `width * V` times [`WIDTH`] values, and `sums` one register for
/// each `i`, `n` and `v`.
pub type Block = unsafe fn(x: *const f32, offsets: &[usize], rows: &Rows, dy: *const f32, sums: *mut f32);

/// Transposes a square of sixteen rows and columns.
///
/// # Safety
/// Same as for [`Lanes::transpose`].
pub type Transpose = unsafe fn(from: *const f32, from_step: usize, to: *mut f32, to_step: usize);

/// Interleaves two rows, value by value.
///
/// # Safety
/// Both rows have `count` values, and `to` has space for all of them.
pub type InTurn = unsafe fn(rows: [*const f32; 2], count: usize, to: *mut f32);

/// Adds a row of outputs to the moments of its lanes.
///
/// # Safety
/// Same as for [`OfLanes::add`].
pub type OfRow = unsafe fn(of: &mut OfLanes, row: *const f32, step: usize, count: usize);

/// The loops for one number of registers of lanes.
pub struct Table {
    /// The maximum number of outputs of a row of a tile.
    pub most: usize,
    /// Indexed by the taps of a run and the outputs, each minus one.
    tiles: [[Option<Tile>; MOST]; RUN],
    /// Indexed by the taps of a run minus one: the number of offsets, and the loop.
    blocks: [(usize, Option<Block>); RUN],
}

impl Table {
    /// The loop of a tile; `None` for an unsupported size.
    pub fn tile(&self, taps: usize, outputs: usize) -> Option<Tile> {
        self.tiles[taps - 1][outputs - 1]
    }

    /// The number of offsets of a block, and its loop.
    pub fn block(&self, taps: usize) -> (usize, Option<Block>) {
        self.blocks[taps - 1]
    }
}

/// The inner loops of one kind of CPU.
pub struct Kernels {
    /// The maximum number of registers of lanes of a tile.
    pub vectors: usize,
    /// Indexed by the number of registers minus one.
    whole: [Table; 2],
    /// The table for two tiles in one register.
    shared: Table,
    pub transpose: Transpose,
    pub in_turn: InTurn,
    pub moments: OfRow,
}

impl Kernels {
    /// The loops for a number of registers of lanes, shared by a number of tiles.
    pub fn table(&self, vectors: usize, sharing: usize) -> &Table {
        if sharing == 1 { &self.whole[vectors - 1] } else { &self.shared }
    }
}

/// The loops for this CPU.
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

/// The loops for factors packed as two bf16 per word, where this CPU supports them; sums are f32 as
/// in the other loops.
pub static PAIRS: LazyLock<Option<Kernels>> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
        return Some(avx512_bf16::KERNELS);
    }
    None
});

/// Broadcasts one value to all lanes, or alternates the values of `S` tiles.
#[inline(always)]
unsafe fn spread<L: Lanes, const S: usize>(from: *const f32) -> L {
    // SAFETY: the caller guarantees `S` values.
    unsafe { if S == 1 { L::splat(from) } else { L::splat_two(from) } }
}

#[inline(always)]
unsafe fn tile<L: Lanes, const S: usize, const V: usize, const N: usize, const P: usize>(
    source: *const f32,
    offsets: &[usize],
    weights: *const f32,
    sums: *mut f32,
    add: bool,
) {
    // SAFETY: the ranges are those described at `Tile`.
    unsafe {
        let mut acc = [[L::zero(); V]; P];
        if add {
            for p in 0..P {
                for v in 0..V {
                    acc[p][v] = L::load(sums.add((p * V + v) * WIDTH));
                }
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
                        let value = spread::<L, S>(x.add($q * S));
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

/// Computes the same sums one tap of a run after the other, for CPUs with too few registers for
/// both the weights of a run and the sums: a value is broadcast for each tap, and nothing is
/// spilled. `taps` is not a constant, since the compiler would otherwise broadcast for all taps
/// ahead. Every sum is in the same order.
#[inline(always)]
unsafe fn tile_by_tap<L: Lanes, const S: usize, const V: usize, const P: usize>(
    source: *const f32,
    offsets: &[usize],
    taps: usize,
    weights: *const f32,
    sums: *mut f32,
    add: bool,
) {
    // SAFETY: the ranges are those described at `Tile`.
    unsafe {
        let mut acc = [[L::zero(); V]; P];
        if add {
            for p in 0..P {
                for v in 0..V {
                    acc[p][v] = L::load(sums.add((p * V + v) * WIDTH));
                }
            }
        }
        let mut weights = weights;
        for offset in offsets {
            for n in 0..taps {
                let x = source.add(*offset + n * S);
                let mut weight = [L::zero(); V];
                for v in 0..V {
                    weight[v] = L::load(weights.add(v * WIDTH));
                }
                for p in 0..P {
                    let value = spread::<L, S>(x.add(p * S));
                    for v in 0..V {
                        acc[p][v] = acc[p][v].fma(value, weight[v]);
                    }
                }
                weights = weights.add(V * WIDTH);
            }
        }
        for p in 0..P {
            for v in 0..V {
                acc[p][v].store(sums.add((p * V + v) * WIDTH));
            }
        }
    }
}

#[inline(always)]
unsafe fn block<L: Lanes, const S: usize, const V: usize, const N: usize, const I: usize>(
    x: *const f32,
    offsets: &[usize],
    rows: &Rows,
    dy: *const f32,
    sums: *mut f32,
) {
    assert_eq!(offsets.len(), I, "a block of weight gradients has a fixed number of offsets");
    // SAFETY: the ranges are those described at `Block`.
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
                // The gradients of this output and of the previous ones.
                let mut past = [[L::zero(); V]; N];
                for _ in 0..rows.width {
                    for n in (1..N).rev() {
                        past[n] = past[n - 1];
                    }
                    for v in 0..V {
                        past[0][v] = L::load(dy.add(v * WIDTH));
                    }
                    for i in 0..I {
                        let value = spread::<L, S>(from[i].add(at));
                        for n in 0..N {
                            for v in 0..V {
                                acc[i][n][v] = acc[i][n][v].fma(value, past[n][v]);
                            }
                        }
                    }
                    at += S;
                    dy = dy.add(V * WIDTH);
                }
                // Values after the row's last output, which only its later taps read.
                for after in 1..N {
                    for n in (1..N).rev() {
                        past[n] = past[n - 1];
                    }
                    for i in 0..I {
                        let value = spread::<L, S>(from[i].add(at));
                        for n in after..N {
                            for v in 0..V {
                                acc[i][n][v] = acc[i][n][v].fma(value, past[n][v]);
                            }
                        }
                    }
                    at += S;
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

#[inline(always)]
unsafe fn in_turn<L: Lanes>([mut a, mut b]: [*const f32; 2], count: usize, mut to: *mut f32) {
    // SAFETY: the ranges are those described at `InTurn`.
    unsafe {
        for _ in 0..count / WIDTH {
            let [first, last] = L::load(a).in_turn(L::load(b));
            first.store(to);
            last.store(to.add(WIDTH));
            (a, b, to) = (a.add(WIDTH), b.add(WIDTH), to.add(2 * WIDTH));
        }
        let rest = count % WIDTH;
        if rest > 0 {
            let [first, last] = L::load_first(a, rest).in_turn(L::load_first(b, rest));
            first.store_first(to, (2 * rest).min(WIDTH));
            last.store_first(to.add(WIDTH), (2 * rest).saturating_sub(WIDTH));
        }
    }
}

/// Makes the loops for one number of registers: the outputs of tiles, and for each number of taps
/// the offsets of blocks.
macro_rules! table {
    ($sharing:literal, $vectors:literal, [$($p:literal)*] [$($n:literal $i:literal),*]) => {{
        #[allow(unused_mut, reason = "not every kind has all tables")]
        let mut found = Table { most: 0, tiles: [[None; MOST]; RUN], blocks: [(0, None); RUN] };
        $(
            found.most = $p;
            found.tiles[0][$p - 1] = Some(tile_of::<$sharing, $vectors, 1, $p> as Tile);
            found.tiles[1][$p - 1] = Some(tile_of::<$sharing, $vectors, 2, $p> as Tile);
            found.tiles[2][$p - 1] = Some(tile_of::<$sharing, $vectors, 3, $p> as Tile);
        )*
        $(found.blocks[$n - 1] = ($i, Some(block_of::<$sharing, $vectors, $n, $i, { $n * $i }> as Block));)*
        found
    }};
}

/// Makes the loops of one kind of lanes.
macro_rules! kernels {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?, vectors $vectors:literal, by_tap $by_tap:literal,
     shared [$($ps:tt)*] [$($bs:tt)*], one [$($p1:tt)*] [$($b1:tt)*], two [$($p2:tt)*] [$($b2:tt)*]) => {
        mod $name {
            use super::*;

            $(#[$feature])?
            unsafe fn tile_of<const S: usize, const V: usize, const N: usize, const P: usize>(
                x: *const f32, o: &[usize], w: *const f32, s: *mut f32, add: bool,
            ) {
                // SAFETY: the caller guarantees the ranges; these loops are used only where the
                // instructions are available.
                unsafe {
                    if $by_tap { any_run::<S, V, P>(x, o, N, w, s, add) } else { tile::<$lanes, S, V, N, P>(x, o, w, s, add) }
                }
            }

            #[inline(never)]
            $(#[$feature])?
            unsafe fn any_run<const S: usize, const V: usize, const P: usize>(
                x: *const f32, o: &[usize], taps: usize, w: *const f32, s: *mut f32, add: bool,
            ) {
                // SAFETY: as above.
                unsafe { tile_by_tap::<$lanes, S, V, P>(x, o, taps, w, s, add) }
            }

            $(#[$feature])?
            unsafe fn block_of<const S: usize, const V: usize, const N: usize, const I: usize, const K: usize>(
                x: *const f32, o: &[usize], rows: &Rows, dy: *const f32, s: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe {
                    if $by_tap {
                        // The gradients of previous outputs would not fit the registers.
                        let each: [usize; K] = std::array::from_fn(|k| o[k / N] + k % N * S);
                        block::<$lanes, S, V, 1, K>(x, &each, rows, dy, s);
                    } else {
                        block::<$lanes, S, V, N, I>(x, o, rows, dy, s);
                    }
                }
            }

            $(#[$feature])?
            unsafe fn transpose(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
                // SAFETY: as above.
                unsafe { <$lanes as Lanes>::transpose(from, from_step, to, to_step) }
            }

            $(#[$feature])?
            unsafe fn in_turn(rows: [*const f32; 2], count: usize, to: *mut f32) {
                // SAFETY: as above.
                unsafe { super::in_turn::<$lanes>(rows, count, to) }
            }

            $(#[$feature])?
            unsafe fn moments(of: &mut OfLanes, row: *const f32, step: usize, count: usize) {
                // SAFETY: as above.
                unsafe { of.add::<$lanes>(row, step, count) }
            }

            pub const KERNELS: Kernels = Kernels {
                vectors: $vectors,
                whole: [table!(1, 1, [$($p1)*] [$($b1)*]), table!(1, 2, [$($p2)*] [$($b2)*])],
                shared: table!(2, 1, [$($ps)*] [$($bs)*]),
                transpose,
                in_turn,
                moments,
            };
        }
    };
}

// Thirty-two registers: 24 sums, up to six weights and one broadcast. Blocks of three taps have few
// sums, because the compiler broadcasts for all of them ahead and would run out of registers.
#[cfg(target_arch = "x86_64")]
kernels!(avx512, crate::lanes::Avx512, #[target_feature(enable = "avx512f")], vectors 2, by_tap false,
    shared [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] [1 8, 2 8, 3 4],
    one [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] [1 8, 2 8, 3 4],
    two [1 2 3 4 5 6 7 8 9 10 11 12] [1 8, 2 6, 3 4]);

// The same for pairs of bf16. Minimal filtering, which shares registers, does not support pairs.
#[cfg(target_arch = "x86_64")]
kernels!(avx512_bf16, crate::lanes::Avx512Bf16, #[target_feature(enable = "avx512f,avx512bf16")], vectors 2, by_tap false,
    shared [] [],
    one [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24] [1 8, 2 8, 3 4],
    two [1 2 3 4 5 6 7 8 9 10 11 12] [1 8, 2 6, 3 4]);

// Sixteen registers, two for each register of lanes.
#[cfg(target_arch = "x86_64")]
kernels!(avx2, crate::lanes::Avx2, #[target_feature(enable = "avx2,fma")], vectors 1, by_tap true,
    shared [1 2 3 4 5 6] [1 6, 2 3, 3 2], one [1 2 3 4 5 6] [1 6, 2 3, 3 2], two [] []);

// Thirty-two registers, four for each register of lanes.
#[cfg(target_arch = "aarch64")]
kernels!(neon, crate::lanes::Neon, , vectors 1, by_tap true,
    shared [1 2 3 4 5 6] [1 6, 2 3, 3 2], one [1 2 3 4 5 6] [1 6, 2 3, 3 2], two [] []);

#[cfg(any(test, not(target_arch = "aarch64")))]
kernels!(portable, Portable, , vectors 1, by_tap true,
    shared [1 2 3 4] [1 4, 2 2, 3 1], one [1 2 3 4] [1 4, 2 2, 3 1], two [] []);

#[cfg(test)]
pub mod every {
    //! All inner loops that this machine can run, for tests that compare them.
    use super::Kernels;

    /// The loops with their names.
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
