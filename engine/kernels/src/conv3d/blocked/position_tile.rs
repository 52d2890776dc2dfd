//! The two inner loops for few output channels, written once for every kind of [`Lanes`]: the lanes
//! of a register are neighbours of a row.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of registers, the same in several arrays")]

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};

use super::WIDTH;

/// The numbers of output channels of a tile, over all CPUs.
const SIZES: [usize; 4] = [1, 2, 4, 8];

/// The maximum number of registers of neighbours of a tile, over all CPUs.
const MOST: usize = 8;

/// Adds `weights[k][channel] * source[offsets[k] + p]`, over all `offsets[k]`, to
/// `sums[channel * pitch + p]`, for the `p` of a number of registers.
///
/// # Safety
/// `source` reaches the registers' values beyond every offset, `weights` holds `offsets.len()`
/// times the tile's channels, and `sums` holds the registers' values in every channel's row.
pub type Tile = unsafe fn(source: *const f32, offsets: &[usize], weights: *const f32, sums: *mut f32, pitch: usize);

/// Rows over which a block of weight gradients is summed.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub planes: usize,
    pub rows: usize,
    pub width: usize,
    /// Distance between planes and rows of the source.
    pub x_plane: usize,
    pub x_row: usize,
    /// Distance between channels, planes and rows of the output gradient.
    pub dy_channel: usize,
    pub dy_plane: usize,
    pub dy_row: usize,
}

/// Adds `dy[channel][position] * x[offsets[k] + position]`, over all positions, to
/// `sums[channel][k]`, sixteen lanes each.
///
/// # Safety
/// `offsets` has as many entries as the block; beyond every offset, `x` reaches all positions; `dy`
/// holds all positions of all channels, and `sums` a register for each channel and offset.
pub type Block = unsafe fn(x: *const f32, offsets: &[usize], rows: &Rows, dy: *const f32, sums: *mut f32);

/// The inner loops of one kind of CPU, by number of output channels.
pub struct Kernels {
    /// The maximum number of registers of a tile for each number of channels; 0 for unsupported
    /// numbers.
    most: [usize; 4],
    tiles: [[Option<Tile>; MOST]; 4],
    /// The number of offsets of a block, and its loop.
    blocks: [(usize, Option<Block>); 4],
}

impl Kernels {
    /// The smallest supported number of channels that covers `channels`, or the largest supported
    /// one.
    pub fn channels(&self, channels: usize) -> usize {
        let mut sizes = SIZES.iter().zip(self.most).filter(|(_, most)| *most > 0).map(|(size, _)| *size);
        sizes.clone().find(|size| *size >= channels).or(sizes.next_back()).unwrap_or(1)
    }

    fn index(channels: usize) -> usize {
        SIZES.iter().position(|size| *size == channels).unwrap_or_default()
    }

    /// The maximum number of registers of a tile with this many channels.
    pub fn most(&self, channels: usize) -> usize {
        self.most[Self::index(channels)]
    }

    /// The loop of a tile; `None` for an unsupported size.
    pub fn tile(&self, channels: usize, registers: usize) -> Option<Tile> {
        self.tiles[Self::index(channels)][registers - 1]
    }

    /// The number of offsets of a block, and its loop.
    pub fn block(&self, channels: usize) -> (usize, Option<Block>) {
        self.blocks[Self::index(channels)]
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

#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const V: usize>(
    source: *const f32,
    offsets: &[usize],
    weights: *const f32,
    sums: *mut f32,
    pitch: usize,
) {
    // SAFETY: the ranges are those described at `Tile`.
    unsafe {
        let mut acc = [[L::zero(); V]; R];
        for r in 0..R {
            for v in 0..V {
                acc[r][v] = L::load(sums.add(r * pitch + v * WIDTH));
            }
        }
        let mut weights = weights;
        for offset in offsets {
            let x = source.add(*offset);
            let mut values = [L::zero(); V];
            for v in 0..V {
                values[v] = L::load(x.add(v * WIDTH));
            }
            for r in 0..R {
                let weight = L::splat(weights.add(r));
                for v in 0..V {
                    acc[r][v] = acc[r][v].fma(weight, values[v]);
                }
            }
            weights = weights.add(R);
        }
        for r in 0..R {
            for v in 0..V {
                acc[r][v].store(sums.add(r * pitch + v * WIDTH));
            }
        }
    }
}

#[inline(always)]
unsafe fn block<L: Lanes, const R: usize, const K: usize>(
    x: *const f32,
    offsets: &[usize],
    rows: &Rows,
    dy: *const f32,
    sums: *mut f32,
) {
    assert_eq!(offsets.len(), K, "a block of weight gradients has a fixed number of offsets");
    // SAFETY: the ranges are those described at `Block`; nothing after the end of a row is read.
    unsafe {
        let mut acc = [[L::zero(); K]; R];
        for r in 0..R {
            for k in 0..K {
                acc[r][k] = L::load(sums.add((r * K + k) * WIDTH));
            }
        }
        let whole = rows.width / WIDTH * WIDTH;
        let rest = rows.width - whole;
        for plane in 0..rows.planes {
            for row in 0..rows.rows {
                let x = x.add(plane * rows.x_plane + row * rows.x_row);
                let dy = dy.add(plane * rows.dy_plane + row * rows.dy_row);
                let mut at = 0;
                while at < whole {
                    let mut gradients = [L::zero(); R];
                    for r in 0..R {
                        gradients[r] = L::load(dy.add(r * rows.dy_channel + at));
                    }
                    for k in 0..K {
                        let value = L::load(x.add(offsets[k] + at));
                        for r in 0..R {
                            acc[r][k] = acc[r][k].fma(gradients[r], value);
                        }
                    }
                    at += WIDTH;
                }
                if rest > 0 {
                    let mut gradients = [L::zero(); R];
                    for r in 0..R {
                        gradients[r] = L::load_first(dy.add(r * rows.dy_channel + at), rest);
                    }
                    for k in 0..K {
                        let value = L::load_first(x.add(offsets[k] + at), rest);
                        for r in 0..R {
                            acc[r][k] = acc[r][k].fma(gradients[r], value);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for k in 0..K {
                acc[r][k].store(sums.add((r * K + k) * WIDTH));
            }
        }
    }
}

/// Makes the loops of one kind of lanes: channels, registers of tiles, offsets of blocks.
macro_rules! kernels {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?, tiles [$($r:literal: $($v:literal)*),*], blocks [$($rb:literal $k:literal),*]) => {
        mod $name {
            use super::*;

            $(#[$feature])?
            unsafe fn one_tile<const R: usize, const V: usize>(
                x: *const f32, o: &[usize], w: *const f32, s: *mut f32, pitch: usize,
            ) {
                // SAFETY: the caller guarantees the ranges; these loops are used only where the
                // instructions are available.
                unsafe { tile::<$lanes, R, V>(x, o, w, s, pitch) }
            }

            $(#[$feature])?
            unsafe fn one_block<const R: usize, const K: usize>(
                x: *const f32, o: &[usize], rows: &Rows, dy: *const f32, s: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { block::<$lanes, R, K>(x, o, rows, dy, s) }
            }

            pub const KERNELS: Kernels = {
                let mut found = Kernels { most: [0; 4], tiles: [[None; MOST]; 4], blocks: [(0, None); 4] };
                $($(
                    found.tiles[($r as usize).ilog2() as usize][$v - 1] = Some(one_tile::<$r, $v> as Tile);
                    found.most[($r as usize).ilog2() as usize] = $v;
                )*)*
                $(found.blocks[($rb as usize).ilog2() as usize] = ($k, Some(one_block::<$rb, $k> as Block));)*
                found
            };
        }
    };
}

// Thirty-two registers.
#[cfg(target_arch = "x86_64")]
kernels!(avx512, crate::lanes::Avx512, #[target_feature(enable = "avx512f")],
    tiles [1: 1 2 3 4 5 6 7 8, 2: 1 2 3 4 5 6, 4: 1 2 3 4, 8: 1 2 3], blocks [1 12, 2 9, 4 6, 8 3]);

// Sixteen registers, two for each register of lanes.
#[cfg(target_arch = "x86_64")]
kernels!(avx2, crate::lanes::Avx2, #[target_feature(enable = "avx2,fma")],
    tiles [1: 1 2 3, 2: 1 2, 4: 1], blocks [1 4, 2 3, 4 1]);

// Thirty-two registers, four for each register of lanes.
#[cfg(target_arch = "aarch64")]
kernels!(neon, crate::lanes::Neon, , tiles [1: 1 2 3, 2: 1 2, 4: 1], blocks [1 4, 2 3, 4 1]);

#[cfg(any(test, not(target_arch = "aarch64")))]
kernels!(portable, Portable, , tiles [1: 1 2, 2: 1, 4: 1], blocks [1 2, 2 1, 4 1]);

#[cfg(test)]
pub mod every {
    //! All inner loops that this machine can run, for tests that compare them.
    use super::Kernels;

    /// The loops, in the same order as those for many channels.
    pub fn runnable() -> Vec<Kernels> {
        let mut found = vec![super::portable::KERNELS];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(super::avx2::KERNELS);
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(super::avx512::KERNELS);
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(super::neon::KERNELS);
        found
    }
}
