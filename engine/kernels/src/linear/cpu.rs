//! The products of a linear layer and its gradients on the CPU.
//!
//! Each is a product of a left factor, read value by value, with panels of a right factor. A panel
//! is copied (and transposed, where needed) into the second-level cache and used by a block of
//! rows.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::product::{Left, ROWS, Size, WIDTH, product, transpose};
use crate::shared::Shared;

/// The number of columns of a panel: a multiple of the product's registers, so that none are left
/// over.
const COLUMNS: usize = 12 * WIDTH;

/// The number of terms of a sum in one panel.
const DEPTH: usize = 256;

/// The number of rows that use a panel.
const BLOCK: usize = 128;

/// The minimum number of tasks, where sums are long enough to be divided.
const TASKS: usize = 16;

/// The minimum number of terms of a sum in a task.
const TERMS: usize = 4 * DEPTH;

thread_local! {
    /// A panel, the sums of a block, and rows that do not fill a tile; reused by the next task.
    static SCRATCH: RefCell<[Vec<f32>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// A right factor, `depth` by `columns`, in its memory layout.
#[derive(Clone, Copy)]
struct Right<'a> {
    values: &'a [f32],
    /// Whether the factor is stored transposed: terms contiguous instead of columns.
    turned: bool,
    depth: usize,
    columns: usize,
}

impl Right<'_> {
    /// Writes terms `depth` of columns `columns` as rows of `to`, `pitch` apart. Columns beyond the
    /// last are not written.
    fn pack(&self, depth: Range<usize>, columns: Range<usize>, to: &mut [f32], pitch: usize) {
        if self.turned {
            for (term, to) in depth.clone().step_by(WIDTH).zip(to.chunks_mut(WIDTH * pitch)) {
                let count = WIDTH.min(depth.end - term);
                let from = &self.values[columns.start * self.depth + term..];
                transpose(from, self.depth, to, pitch, [columns.len(), count]);
            }
        } else {
            for (term, to) in depth.zip(to.chunks_mut(pitch)) {
                to[..columns.len()].copy_from_slice(&self.values[term * self.columns..][columns.clone()]);
            }
        }
    }
}

/// Computes `rows` of `left` times `right`, plus `bias`.
fn multiply(left: Left<'_>, rows: usize, right: Right<'_>, bias: Option<&[f32]>) -> Vec<f32> {
    let Right { depth, columns, .. } = right;
    // Panels of nearly the same width.
    let panels = columns.div_ceil(COLUMNS);
    let wide = columns.div_ceil(panels).next_multiple_of(WIDTH);
    let panels = columns.div_ceil(wide);
    let tasks = panels * rows.div_ceil(BLOCK);
    // Long sums of small results are divided; only the sizes determine the number of parts.
    let parts = TASKS.div_ceil(tasks).min(depth / TERMS).max(1);
    if parts == 1 {
        return part(left, rows, right, wide, 0..depth, bias);
    }
    let sums: Vec<Vec<f32>> = (0..parts)
        .into_par_iter()
        .map(|i| part(left, rows, right, wide, i * depth / parts..(i + 1) * depth / parts, bias.filter(|_| i == 0)))
        .collect();
    let mut sums = sums.into_iter();
    let mut all = sums.next().unwrap_or_default();
    for other in sums {
        for (sum, value) in all.iter_mut().zip(other) {
            *sum += value;
        }
    }
    all
}

/// Computes the terms `depth` of the sums.
fn part(
    left: Left<'_>,
    rows: usize,
    right: Right<'_>,
    wide: usize,
    depth: Range<usize>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let columns = right.columns;
    let mut out: Vec<f32> = Vec::with_capacity(rows * columns);
    let shared = Shared::new(&mut out.spare_capacity_mut()[..rows * columns]);
    let panels = columns.div_ceil(wide);
    (0..panels * rows.div_ceil(BLOCK)).into_par_iter().for_each(|task| {
        let (panel, block) = (task % panels * wide, task / panels * BLOCK);
        let (panel, block) = (panel..(panel + wide).min(columns), block..(block + BLOCK).min(rows));
        SCRATCH.with_borrow_mut(|[packed, sums, tail]| {
            let padded = block.len().next_multiple_of(ROWS);
            packed.resize(packed.len().max(DEPTH * wide), 0.0);
            sums.resize(sums.len().max(padded * wide), 0.0);
            tail.resize(ROWS * DEPTH, 0.0);
            for first in depth.clone().step_by(DEPTH) {
                let terms = first..(first + DEPTH).min(depth.end);
                right.pack(terms.clone(), panel.clone(), packed, wide);
                add(left, block.clone(), terms, [packed, tail], sums, wide, first > depth.start);
            }
            for (row, sums) in block.zip(sums.chunks_exact(wide)) {
                // SAFETY: no other task uses this part of this row.
                let to = unsafe { shared.part(row * columns + panel.start, panel.len()) };
                match bias {
                    None => _ = to.write_copy_of_slice(&sums[..panel.len()]),
                    Some(bias) => {
                        for ((to, sum), bias) in to.iter_mut().zip(sums).zip(&bias[panel.clone()]) {
                            to.write(sum + bias);
                        }
                    }
                }
            }
        });
    });
    // SAFETY: every part of every row has been written.
    unsafe { out.set_len(rows * columns) };
    out
}

/// Adds some terms to the sums of a block of rows: whole tiles in place, the last rows from a copy.
fn add(
    left: Left<'_>,
    rows: Range<usize>,
    terms: Range<usize>,
    [packed, tail]: [&mut [f32]; 2],
    sums: &mut [f32],
    wide: usize,
    further: bool,
) {
    let whole = rows.len() / ROWS * ROWS;
    let size = |rows: usize| Size { rows, depth: terms.len(), columns: wide };
    let at = |row: usize, term: usize| row * left.row + term * left.column;
    if whole > 0 {
        let from = Left { values: &left.values[at(rows.start, terms.start)..], ..left };
        product(from, packed, sums, size(whole), further);
    }
    if whole < rows.len() {
        for (row, to) in (rows.start + whole..rows.end).zip(tail.chunks_exact_mut(DEPTH)) {
            for (term, to) in terms.clone().zip(to) {
                *to = left.values[at(row, term)];
            }
        }
        // The rows after them hold sums of stale values, which are never read.
        let from = Left { values: tail, row: DEPTH, column: 1 };
        product(from, packed, &mut sums[whole * wide..], size(ROWS), further);
    }
}

/// Multiplies `x` `[rows, I]` by `weight` `[O, I]`; returns `[rows, O]`.
pub fn forward(x: &[f32], weight: &[f32], bias: Option<&[f32]>, [rows, input, output]: [usize; 3]) -> Vec<f32> {
    let right = Right { values: weight, turned: true, depth: input, columns: output };
    multiply(Left { values: x, row: input, column: 1 }, rows, right, bias)
}

/// The gradient with respect to `x`.
pub fn input_gradient(dy: &[f32], weight: &[f32], [rows, input, output]: [usize; 3]) -> Vec<f32> {
    let right = Right { values: weight, turned: false, depth: output, columns: input };
    multiply(Left { values: dy, row: output, column: 1 }, rows, right, None)
}

/// The gradient with respect to the weight.
pub fn weight_gradient(x: &[f32], dy: &[f32], [rows, input, output]: [usize; 3]) -> Vec<f32> {
    let right = Right { values: x, turned: false, depth: rows, columns: input };
    multiply(Left { values: dy, row: 1, column: output }, output, right, None)
}

/// The gradient with respect to the bias: the sum of the rows, a block of them at a time.
pub fn bias_gradient(dy: &[f32], output: usize) -> Vec<f32> {
    let blocks: Vec<Vec<f32>> = dy
        .par_chunks(BLOCK * output)
        .map(|rows| {
            let mut sums = vec![0.0_f32; output];
            for row in rows.chunks_exact(output) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sums
        })
        .collect();
    let mut all = vec![0.0_f64; output];
    for block in blocks {
        all.iter_mut().zip(block).for_each(|(sum, value)| *sum += f64::from(value));
    }
    all.into_iter().map(|sum| sum as f32).collect()
}
