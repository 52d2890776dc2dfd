//! The transforms of Winograd's minimal filtering, written once for every kind of [`Lanes`].
//!
//! Along one axis, two sums of three taps each, `y0 = d0 g0 + d1 g1 + d2 g2` and `y1 = d1 g0 + d2 g1 + d3 g2`, take four products
//! instead of six:
//!
//! ```text
//! m0 = (d0 - d2) g0                    y0 = m0 + m1 + m2
//! m1 = (d1 + d2) (g0 + g1 + g2) / 2    y1 = m1 - m2 - m3
//! m2 = (d2 - d1) (g0 - g1 + g2) / 2
//! m3 = (d1 - d3) g2
//! ```
//!
//! Over two axes, sixteen components do the work of 36 products. The weight's gradient is the same read backwards: the output
//! gradient takes the place of the `y`, and the products are added up before they are turned into taps.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of components, the same in several arrays")]

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};

use super::super::blocked::WIDTH;

/// Products of a tile of two by two outputs.
pub const COMPONENTS: usize = 16;

/// Taps of the kernel.
pub const TAPS: usize = 27;

/// Taps along a row, which are not transformed.
pub const RUN: usize = 3;

/// Rows of `count` values of the source become the components of tiles that lie behind each other. `rows[y * 4 + x]` is row `y` of plane
/// `x`; tile `t` reads the four rows from `2 t` on, and its component `c` goes to `to[t * steps.0 + c * steps.1..]`. `odd`, sixteen values, gets
/// something else than zeros where a value is infinite or not a number.
///
/// # Safety
/// There is an even number of rows, four planes of each, of `count` values, `to` has room for as many in each component, and `odd`
/// for sixteen.
pub type Source = unsafe fn(rows: &[[*const f32; 4]], count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// Components of `count` registers each, `step` apart, become two by two rows of sums, `to_step` apart.
///
/// # Safety
/// `from` and `to` reach `count` registers beyond each of their starts.
pub type Outputs = unsafe fn(from: *const f32, step: usize, count: usize, to: *mut f32, to_step: usize);

/// Two by two rows of the output gradient, `count` registers each and `from_step` apart, become components; `steps` are the distances of
/// components, and of registers in each. `odd` is as for [`Source`].
///
/// # Safety
/// `from` and `to` reach `count` registers beyond each of their starts, and `odd` has sixteen values.
pub type Gradient =
    unsafe fn(from: *const f32, from_step: usize, count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// The taps of sixteen lanes, `[27][lane]`, become components; `steps` are the distances of components, and of the three taps in each.
/// `odd` is as for [`Source`].
///
/// # Safety
/// `taps` has 27 registers, `to` reaches a register beyond each start, and `odd` has sixteen values.
pub type Weights = unsafe fn(taps: *const f32, to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// The gradients of components become those of taps: [`Weights`] backwards.
///
/// # Safety
/// As for [`Weights`].
pub type Taps = unsafe fn(from: *const f32, steps: (usize, usize), taps: *mut f32);

/// The transforms of one kind of processor.
pub struct Transforms {
    pub source: Source,
    pub outputs: Outputs,
    pub gradient: Gradient,
    pub weights: Weights,
    pub taps: Taps,
}

/// What this processor runs.
pub static TRANSFORMS: LazyLock<Transforms> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512::TRANSFORMS;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2::TRANSFORMS;
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::TRANSFORMS;
    #[cfg(not(target_arch = "aarch64"))]
    portable::TRANSFORMS
});

/// Exchanges the two axes of a square.
#[inline(always)]
fn turned<L: Copy, const A: usize, const B: usize>(square: [[L; B]; A]) -> [[L; A]; B] {
    std::array::from_fn(|b| std::array::from_fn(|a| square[a][b]))
}

// SAFETY (all blocks below): the caller grants the instructions of this kind and the ranges named at the function types.

#[inline(always)]
unsafe fn spread<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 4] {
    // SAFETY: as above.
    unsafe { [a.sub(c), b.add(c), c.sub(b), b.sub(d)] }
}

#[inline(always)]
unsafe fn gathered<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 2] {
    // SAFETY: as above.
    unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
}

#[inline(always)]
unsafe fn widened<L: Lanes>([a, b]: [L; 2]) -> [L; 4] {
    // SAFETY: as above.
    unsafe { [a, a.add(b), a.sub(b), L::zero().sub(b)] }
}

#[inline(always)]
unsafe fn of_taps<L: Lanes>([a, b, c]: [L; 3]) -> [L; 4] {
    // SAFETY: as above.
    unsafe {
        let (half, ends) = (L::splat(&0.5), a.add(c));
        [a, L::zero().fma(half, ends.add(b)), L::zero().fma(half, ends.sub(b)), c]
    }
}

#[inline(always)]
unsafe fn to_taps<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 3] {
    // SAFETY: as above.
    unsafe {
        let half = L::splat(&0.5);
        let both = L::zero().fma(half, b.add(c));
        [a.add(both), L::zero().fma(half, b.sub(c)), both.add(d)]
    }
}

/// Adds nothing to `odd` unless one of the values is infinite or not a number: such a value times zero is not a number.
#[inline(always)]
unsafe fn watch<L: Lanes, const N: usize>(odd: *mut f32, values: [L; N]) {
    // SAFETY: as above.
    unsafe {
        let mut seen = L::load(odd);
        for value in values {
            seen = seen.fma(value, L::zero());
        }
        seen.store(odd);
    }
}

/// A row's four planes at one place, transformed.
#[inline(always)]
unsafe fn planes<L: Lanes>(rows: &[*const f32; 4], at: usize, here: usize, odd: *mut f32) -> [L; 4] {
    // SAFETY: as above.
    unsafe {
        let mut d = [L::zero(); 4];
        for x in 0..4 {
            let from = rows[x].add(at);
            d[x] = if here == WIDTH { L::load(from) } else { L::load_first(from, here) };
        }
        let d = spread(d);
        // Each of the four is in one of these, and a difference cannot hide what is not finite.
        watch(odd, [d[0], d[3]]);
        d
    }
}

#[inline(always)]
unsafe fn source<L: Lanes>(
    rows: &[[*const f32; 4]],
    count: usize,
    to: *mut f32,
    (tile, step): (usize, usize),
    odd: *mut f32,
) {
    let (Some((first, rest)), true) = (rows.split_first_chunk::<2>(), rows.len().is_multiple_of(2)) else { return };
    // SAFETY: as above.
    unsafe {
        let mut at = 0;
        while at < count {
            let here = (count - at).min(WIDTH);
            // The last two rows of a tile are the first two of the next.
            let mut before = [planes::<L>(&first[0], at, here, odd), planes(&first[1], at, here, odd)];
            for (index, pair) in rest.as_chunks::<2>().0.iter().enumerate() {
                let after = [planes::<L>(&pair[0], at, here, odd), planes(&pair[1], at, here, odd)];
                let to = to.add(index * tile + at);
                for x in 0..4 {
                    let components = spread([before[0][x], before[1][x], after[0][x], after[1][x]]);
                    for y in 0..4 {
                        let to = to.add((x * 4 + y) * step);
                        if here == WIDTH { components[y].store(to) } else { components[y].store_first(to, here) }
                    }
                }
                before = after;
            }
            at += WIDTH;
        }
    }
}

#[inline(always)]
unsafe fn outputs<L: Lanes>(from: *const f32, step: usize, count: usize, to: *mut f32, to_step: usize) {
    // SAFETY: as above.
    unsafe {
        for register in 0..count {
            let from = from.add(register * WIDTH);
            let mut half = [[L::zero(); 2]; 4];
            for i in 0..4 {
                let mut m = [L::zero(); 4];
                for j in 0..4 {
                    m[j] = L::load(from.add((i * 4 + j) * step));
                }
                half[i] = gathered(m);
            }
            let columns = turned(half);
            for j in 0..2 {
                let y = gathered(columns[j]);
                for i in 0..2 {
                    y[i].store(to.add((i * 2 + j) * to_step + register * WIDTH));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn gradient<L: Lanes>(
    from: *const f32,
    from_step: usize,
    count: usize,
    to: *mut f32,
    (step, each): (usize, usize),
    odd: *mut f32,
) {
    // SAFETY: as above.
    unsafe {
        for register in 0..count {
            let mut y = [[L::zero(); 2]; 2];
            for i in 0..2 {
                for j in 0..2 {
                    y[i][j] = L::load(from.add((i * 2 + j) * from_step + register * WIDTH));
                }
            }
            watch(odd, [y[0][0], y[0][1], y[1][0], y[1][1]]);
            let columns = [widened([y[0][0], y[1][0]]), widened([y[0][1], y[1][1]])];
            let rows = turned(columns);
            for i in 0..4 {
                let row = widened(rows[i]);
                for j in 0..4 {
                    row[j].store(to.add((i * 4 + j) * step + register * each));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn weights<L: Lanes>(taps: *const f32, to: *mut f32, (step, each): (usize, usize), odd: *mut f32) {
    // SAFETY: as above.
    unsafe {
        for n in 0..RUN {
            let mut g = [[L::zero(); 3]; 3];
            for i in 0..3 {
                for j in 0..3 {
                    g[i][j] = L::load(taps.add(((i * 3 + j) * RUN + n) * WIDTH));
                }
                watch(odd, g[i]);
            }
            let [a, b, c] = turned(g);
            let rows = turned([of_taps(a), of_taps(b), of_taps(c)]);
            for i in 0..4 {
                let row = of_taps(rows[i]);
                for j in 0..4 {
                    row[j].store(to.add((i * 4 + j) * step + n * each));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn taps<L: Lanes>(from: *const f32, (step, each): (usize, usize), taps: *mut f32) {
    // SAFETY: as above.
    unsafe {
        for n in 0..RUN {
            let mut half = [[L::zero(); 3]; 4];
            for i in 0..4 {
                let mut m = [L::zero(); 4];
                for j in 0..4 {
                    m[j] = L::load(from.add((i * 4 + j) * step + n * each));
                }
                half[i] = to_taps(m);
            }
            let columns = turned(half);
            for j in 0..3 {
                let g = to_taps(columns[j]);
                for i in 0..3 {
                    g[i].store(taps.add(((i * 3 + j) * RUN + n) * WIDTH));
                }
            }
        }
    }
}

/// The transforms of one kind of lanes.
macro_rules! transforms {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?) => {
        mod $name {
            use super::*;

            $(#[$feature])?
            unsafe fn source(
                rows: &[[*const f32; 4]], count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32,
            ) {
                // SAFETY: the caller grants the ranges; these loops are used only where the instructions are present.
                unsafe { super::source::<$lanes>(rows, count, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn outputs(from: *const f32, step: usize, count: usize, to: *mut f32, to_step: usize) {
                // SAFETY: as above.
                unsafe { super::outputs::<$lanes>(from, step, count, to, to_step) }
            }

            $(#[$feature])?
            unsafe fn gradient(
                from: *const f32, from_step: usize, count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { super::gradient::<$lanes>(from, from_step, count, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn weights(taps: *const f32, to: *mut f32, steps: (usize, usize), odd: *mut f32) {
                // SAFETY: as above.
                unsafe { super::weights::<$lanes>(taps, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn taps(from: *const f32, steps: (usize, usize), taps: *mut f32) {
                // SAFETY: as above.
                unsafe { super::taps::<$lanes>(from, steps, taps) }
            }

            pub const TRANSFORMS: Transforms = Transforms { source, outputs, gradient, weights, taps };
        }
    };
}

#[cfg(target_arch = "x86_64")]
transforms!(avx512, crate::lanes::Avx512, #[target_feature(enable = "avx512f")]);

#[cfg(target_arch = "x86_64")]
transforms!(avx2, crate::lanes::Avx2, #[target_feature(enable = "avx2,fma")]);

#[cfg(target_arch = "aarch64")]
transforms!(neon, crate::lanes::Neon,);

#[cfg(any(test, not(target_arch = "aarch64")))]
transforms!(portable, Portable,);

#[cfg(test)]
pub mod every {
    //! All transforms this machine can run, for tests that compare them.
    use super::Transforms;

    /// The transforms, in the order of the other kinds'.
    pub fn runnable() -> Vec<Transforms> {
        let mut found = vec![super::portable::TRANSFORMS];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(super::avx2::TRANSFORMS);
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(super::avx512::TRANSFORMS);
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(super::neon::TRANSFORMS);
        found
    }
}
