//! Products of small matrices, eight rows and up to three registers of columns at a time, and
//! transposition.

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};

/// The number of columns of a register.
pub const WIDTH: usize = 16;

/// The number of rows of a tile; the rows of every product are a multiple of it.
pub const ROWS: usize = 8;

/// The left factor: its start, and the distances between its rows and columns.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    pub values: &'a [f32],
    pub row: usize,
    pub column: usize,
}

/// `rows` (a multiple of [`ROWS`]) by `depth` by `columns` (a multiple of [`WIDTH`]).
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
}

/// Sets `out` to `left` times `right`, or with `add` adds the product. The rows of `right` and
/// `out` are `columns` apart.
pub fn product(left: Left<'_>, right: &[f32], out: &mut [f32], size: Size, add: bool) {
    let Size { rows, depth, columns } = size;
    if rows == 0 || depth == 0 || columns == 0 {
        return;
    }
    assert!(rows % ROWS == 0 && columns % WIDTH == 0, "a product of {size:?} does not divide into whole tiles");
    let last = (rows - 1) * left.row + (depth - 1) * left.column;
    assert!(
        last < left.values.len() && depth * columns <= right.len() && rows * columns <= out.len(),
        "a product of {size:?} does not fit its factors"
    );
    // SAFETY: the CPU has the instructions by which `PRODUCT` was chosen, and the ranges have been
    // checked.
    unsafe { PRODUCT(left.values.as_ptr(), [left.row, left.column], right.as_ptr(), out.as_mut_ptr(), size, add) }
}

/// # Safety
/// The ranges are those checked by [`product`].
type Product = unsafe fn(*const f32, [usize; 2], *const f32, *mut f32, Size, bool);

/// Transposes `columns` (up to [`WIDTH`]) of `rows` rows, `from_step` apart, to rows of the target,
/// `to_step` apart.
pub fn transpose(from: &[f32], from_step: usize, to: &mut [f32], to_step: usize, [rows, columns]: [usize; 2]) {
    for first in (0..rows).step_by(WIDTH) {
        let (from, to) = (&from[first * from_step..], &mut to[first..]);
        let inside = from.len() >= (WIDTH - 1) * from_step + WIDTH && to.len() >= (WIDTH - 1) * to_step + WIDTH;
        if rows - first >= WIDTH && columns == WIDTH && inside {
            // SAFETY: both squares lie within their slices, and the CPU has the instructions by
            // which `SQUARE` was chosen.
            unsafe { SQUARE(from.as_ptr(), from_step, to.as_mut_ptr(), to_step) };
            continue;
        }
        for row in 0..WIDTH.min(rows - first) {
            for column in 0..columns {
                to[column * to_step + row] = from[row * from_step + column];
            }
        }
    }
}

/// # Safety
/// Same as for [`Lanes::transpose`].
type Square = unsafe fn(*const f32, usize, *mut f32, usize);

static SQUARE: LazyLock<Square> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return square_avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return square_avx2;
        }
    }
    #[cfg(target_arch = "aarch64")]
    return crate::lanes::Neon::transpose;
    #[cfg(not(target_arch = "aarch64"))]
    Portable::transpose
});

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn square_avx512(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { crate::lanes::Avx512::transpose(from, from_step, to, to_step) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn square_avx2(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { crate::lanes::Avx2::transpose(from, from_step, to, to_step) }
}

static PRODUCT: LazyLock<Product> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2;
        }
    }
    #[cfg(target_arch = "aarch64")]
    return few::<crate::lanes::Neon>;
    #[cfg(not(target_arch = "aarch64"))]
    few::<Portable>
});

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(left: *const f32, steps: [usize; 2], right: *const f32, out: *mut f32, size: Size, add: bool) {
    // SAFETY: guaranteed by the caller.
    unsafe { many::<crate::lanes::Avx512>(left, steps, right, out, size, add) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(left: *const f32, steps: [usize; 2], right: *const f32, out: *mut f32, size: Size, add: bool) {
    // SAFETY: guaranteed by the caller.
    unsafe { few::<crate::lanes::Avx2>(left, steps, right, out, size, add) }
}

/// Computes all tiles where the lanes take one of 32 registers: up to three registers of columns at
/// a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn many<L: Lanes>(left: *const f32, steps: [usize; 2], right: *const f32, out: *mut f32, size: Size, add: bool) {
    let mut column = 0;
    while column < size.columns {
        let registers = ((size.columns - column) / WIDTH).min(3);
        let mut row = 0;
        while row < size.rows {
            // With one register of columns, more rows are combined: all of them use each loaded
            // value of the right factor.
            let twice = registers == 1 && size.rows - row >= 2 * ROWS;
            // SAFETY: within the ranges that were checked.
            unsafe {
                let left = left.add(row * steps[0]);
                let (right, out) = (right.add(column), out.add(row * size.columns + column));
                match registers {
                    3 => tile::<L, ROWS, 3>(left, steps, right, out, size, add),
                    2 => tile::<L, ROWS, 2>(left, steps, right, out, size, add),
                    _ if twice => tile::<L, { 2 * ROWS }, 1>(left, steps, right, out, size, add),
                    _ => tile::<L, ROWS, 1>(left, steps, right, out, size, add),
                }
            }
            row += if twice { 2 * ROWS } else { ROWS };
        }
        column += registers * WIDTH;
    }
}

/// Computes all tiles where the lanes take two of 16 or four of 32 registers: the sums of six rows,
/// their columns and one value of the left factor fit, those of eight rows do not.
#[inline(always)]
unsafe fn few<L: Lanes>(left: *const f32, steps: [usize; 2], right: *const f32, out: *mut f32, size: Size, add: bool) {
    for column in (0..size.columns).step_by(WIDTH) {
        let mut row = 0;
        while row < size.rows {
            // Tiles of nearly the same height.
            let rest = size.rows - row;
            let rows = rest / rest.div_ceil(6);
            // SAFETY: within the ranges that were checked.
            unsafe {
                let left = left.add(row * steps[0]);
                let (right, out) = (right.add(column), out.add(row * size.columns + column));
                match rows {
                    4 => tile::<L, 4, 1>(left, steps, right, out, size, add),
                    5 => tile::<L, 5, 1>(left, steps, right, out, size, add),
                    _ => tile::<L, 6, 1>(left, steps, right, out, size, add),
                }
            }
            row += rows;
        }
    }
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "the indices are numbers of registers, the same in several arrays")]
unsafe fn tile<L: Lanes, const R: usize, const C: usize>(
    left: *const f32,
    [row, column]: [usize; 2],
    right: *const f32,
    out: *mut f32,
    size: Size,
    add: bool,
) {
    // SAFETY: within the ranges that were checked.
    unsafe {
        let mut acc = [[L::zero(); C]; R];
        if add {
            for r in 0..R {
                for c in 0..C {
                    acc[r][c] = L::load(out.add(r * size.columns + c * WIDTH));
                }
            }
        }
        for k in 0..size.depth {
            let mut b = [L::zero(); C];
            for c in 0..C {
                b[c] = L::load(right.add(k * size.columns + c * WIDTH));
            }
            for r in 0..R {
                let a = L::splat(left.add(r * row + k * column));
                for c in 0..C {
                    acc[r][c] = acc[r][c].fma(a, b[c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                acc[r][c].store(out.add(r * size.columns + c * WIDTH));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_the_sum_of_products() {
        let value = |i: usize, seed: f32| ((i as f32 * 12.9898 + seed).sin() * 43.5).fract();
        for (rows, depth, columns, turned) in
            [(8, 1, 16, false), (16, 5, 80, true), (24, 33, 96, false), (8, 7, 48, true)]
        {
            let size = Size { rows, depth, columns };
            let left: Vec<f32> = (0..rows * depth).map(|i| value(i, 0.1)).collect();
            let right: Vec<f32> = (0..depth * columns).map(|i| value(i, 0.7)).collect();
            let steps = if turned { [1, rows] } else { [depth, 1] };
            let exact = |r: usize, c: usize| -> f64 {
                (0..depth)
                    .map(|k| f64::from(left[r * steps[0] + k * steps[1]]) * f64::from(right[k * columns + c]))
                    .sum()
            };
            let mut kinds: Vec<Product> = vec![*PRODUCT, few::<Portable>];
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                kinds.push(avx2);
            }
            for kind in kinds {
                let mut out = vec![0.5_f32; rows * columns];
                for (add, offset) in [(true, 0.5), (false, 0.0)] {
                    // SAFETY: the CPU has the instructions, and the sizes are those of the vectors.
                    unsafe { kind(left.as_ptr(), steps, right.as_ptr(), out.as_mut_ptr(), size, add) };
                    for (i, got) in out.iter().enumerate() {
                        let expected = exact(i / columns, i % columns) + offset;
                        assert!((f64::from(*got) - expected).abs() < 1e-4, "{size:?} at {i}: {got} for {expected}");
                    }
                }
            }
        }
    }
}
