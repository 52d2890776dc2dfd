//! Attention on the CPU: one head of one item at a time, a block of its rows at a time.

use rayon::prelude::*;

use super::APART;
use crate::math;
use crate::product::{Left, ROWS, Size, WIDTH, product};
use crate::shared::Shared;
use crate::simd::{LANES, sum, widest};

/// Rows of scores that exist at a time; they fit the second-level cache.
const BLOCK: usize = 32;

/// The number of parts of the batch whose bias gradients are summed in parallel. A constant, so
/// that the sum does not depend on the number of threads.
const PARTS: usize = 16;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: usize,
    /// Positions that attend to each other.
    pub places: usize,
    pub heads: usize,
    /// Features of a head.
    pub depth: usize,
    pub scale: f32,
    pub biased: bool,
    /// Rows of regions that the items cycle through; 0 for none.
    pub regions: usize,
}

impl Shape {
    /// The number of operations of the two products of the forward pass.
    pub fn flop(&self) -> u64 {
        4 * (self.batch * self.heads * self.places * self.places * self.depth) as u64
    }
}

impl Shape {
    fn features(&self) -> usize {
        self.heads * self.depth
    }

    /// The number of positions, padded to whole registers.
    fn wide(&self) -> usize {
        self.places.next_multiple_of(WIDTH)
    }

    /// The number of features of a head, padded to whole registers.
    fn deep(&self) -> usize {
        self.depth.next_multiple_of(WIDTH)
    }

    /// The number of rows of all blocks, padded.
    fn rows(&self) -> usize {
        self.places.next_multiple_of(ROWS)
    }
}

/// The inputs of the scores; bias and regions may be empty.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub qkv: &'a [f32],
    pub bias: &'a [f32],
    pub regions: &'a [f32],
}

/// Queries, keys or values of one head.
#[derive(Clone, Copy)]
struct Part<'a> {
    values: &'a [f32],
    first: usize,
    step: usize,
}

impl<'a> Part<'a> {
    /// Takes them from `[b, n, 3 heads d]`: 0 for queries, 1 for keys, 2 for values.
    fn of(qkv: &'a [f32], shape: &Shape, item: usize, head: usize, which: usize) -> Self {
        let step = 3 * shape.features();
        let first = item * shape.places * step + which * shape.features() + head * shape.depth;
        Part { values: qkv, first, step }
    }

    fn row(&self, i: usize, shape: &Shape) -> &'a [f32] {
        &self.values[self.first + i * self.step..][..shape.depth]
    }

    /// The values as positions by features, both zero-padded, times `scale`.
    fn rows(&self, shape: &Shape, scale: f32) -> Vec<f32> {
        let deep = shape.deep();
        let mut out = vec![0.0; shape.rows() * deep];
        for i in 0..shape.places {
            for (to, from) in out[i * deep..].iter_mut().zip(self.row(i, shape)) {
                *to = from * scale;
            }
        }
        out
    }

    /// The values as features by positions, the latter zero-padded.
    fn columns(&self, shape: &Shape) -> Vec<f32> {
        let wide = shape.wide();
        let mut out = vec![0.0; shape.depth * wide];
        for i in 0..shape.places {
            for (k, from) in self.row(i, shape).iter().enumerate() {
                out[k * wide + i] = *from;
            }
        }
        out
    }
}

/// The inputs of the scores of one head of one item.
struct Scores<'a> {
    shape: &'a Shape,
    /// Scaled queries, by position.
    queries: Vec<f32>,
    /// Keys, by feature.
    keys: Vec<f32>,
    bias: &'a [f32],
    regions: &'a [f32],
}

impl<'a> Scores<'a> {
    fn new(inputs: Inputs<'a>, shape: &'a Shape, item: usize, head: usize) -> Self {
        let pairs = shape.places * shape.places;
        Scores {
            shape,
            queries: Part::of(inputs.qkv, shape, item, head, 0).rows(shape, shape.scale),
            keys: Part::of(inputs.qkv, shape, item, head, 1).columns(shape),
            bias: if shape.biased { &inputs.bias[head * pairs..][..pairs] } else { &[] },
            regions: match shape.regions {
                0 => &[],
                count => &inputs.regions[item % count * shape.places..][..shape.places],
            },
        }
    }

    /// Fills the rows `first..first + rows` with weights: each row sums to one; padding columns are
    /// 0.
    fn weights(&self, first: usize, rows: usize, out: &mut [f32]) {
        let (places, wide, deep) = (self.shape.places, self.shape.wide(), self.shape.deep());
        let whole = rows.next_multiple_of(ROWS);
        let left = Left { values: &self.queries[first * deep..], row: deep, column: 1 };
        let size = Size { rows: whole, depth: self.shape.depth, columns: wide };
        product(left, &self.keys, out, size, false);
        for i in 0..rows {
            let row = &mut out[i * wide..][..places];
            if let Some(bias) = self.bias.get((first + i) * places..) {
                widest(
                    #[inline(always)]
                    || row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias),
                );
            }
            if let Some(own) = self.regions.get(first + i) {
                let apart = |region: &f32| if region == own { 0.0 } else { APART };
                widest(
                    #[inline(always)]
                    || row.iter_mut().zip(self.regions).for_each(|(score, region)| *score += apart(region)),
                );
            }
            softmax(row);
            out[i * wide + places..][..wide - places].fill(0.0);
        }
        out[rows * wide..whole * wide].fill(0.0);
    }
}

/// The softmax of a row, in place. A NaN makes the whole row NaN, as in PyTorch.
fn softmax(row: &mut [f32]) {
    let most = widest(
        #[inline(always)]
        || {
            let mut most = [f32::NEG_INFINITY; LANES];
            let (chunks, rest) = row.as_chunks::<LANES>();
            for chunk in chunks {
                for (most, value) in most.iter_mut().zip(chunk) {
                    *most = if *value > *most { *value } else { *most };
                }
            }
            let mut largest = f32::NEG_INFINITY;
            for value in most {
                largest = largest.max(value);
            }
            for value in rest {
                largest = largest.max(*value);
            }
            largest
        },
    );
    let inverse = 1.0 / math::exp_less(row, most);
    widest(
        #[inline(always)]
        || row.iter_mut().for_each(|value| *value *= inverse),
    );
}

/// Blocks of rows: the first row and the number of rows.
fn blocks(shape: &Shape) -> impl Iterator<Item = (usize, usize)> {
    let places = shape.places;
    (0..places).step_by(BLOCK).map(move |first| (first, BLOCK.min(places - first)))
}

/// Computes the output, `[b, n, heads d]`.
pub fn forward(inputs: Inputs<'_>, shape: &Shape) -> Vec<f32> {
    let (places, features, depth, deep) = (shape.places, shape.features(), shape.depth, shape.deep());
    let len = shape.batch * places * features;
    let mut out = Vec::with_capacity(len);
    let shared = Shared::new(&mut out.spare_capacity_mut()[..len]);
    (0..shape.batch * shape.heads).into_par_iter().for_each(|task| {
        let (item, head) = (task / shape.heads, task % shape.heads);
        let scores = Scores::new(inputs, shape, item, head);
        let values = Part::of(inputs.qkv, shape, item, head, 2).rows(shape, 1.0);
        let mut weights = vec![0.0; BLOCK * shape.wide()];
        let mut sums = vec![0.0; BLOCK * deep];
        for (first, rows) in blocks(shape) {
            scores.weights(first, rows, &mut weights);
            let left = Left { values: &weights, row: shape.wide(), column: 1 };
            let size = Size { rows: rows.next_multiple_of(ROWS), depth: places, columns: deep };
            product(left, &values, &mut sums, size, false);
            for (i, sums) in sums.chunks(deep).take(rows).enumerate() {
                let at = (item * places + first + i) * features + head * depth;
                // SAFETY: no other task uses this range of this item and head.
                let to = unsafe { shared.part(at, depth) };
                to.iter_mut().zip(sums).for_each(|(to, sum)| {
                    to.write(*sum);
                });
            }
        }
    });
    // SAFETY: every head of every position of every item has been written.
    unsafe { out.set_len(len) };
    out
}

/// Computes the gradients with respect to `qkv` and the bias (empty without one) from the output
/// gradient.
pub fn backward(inputs: Inputs<'_>, dy: &[f32], shape: &Shape) -> [Vec<f32>; 2] {
    let len = shape.batch * shape.places * 3 * shape.features();
    let pairs = shape.places * shape.places;
    let mut out = Vec::with_capacity(len);
    let shared = Shared::new(&mut out.spare_capacity_mut()[..len]);
    let parts = shape.batch.min(PARTS);
    let per_part = shape.batch.div_ceil(parts);
    let sums: Vec<Vec<f32>> = (0..shape.heads * parts)
        .into_par_iter()
        .map(|task| {
            let (head, part) = (task / parts, task % parts);
            let mut sum = vec![0.0; if shape.biased { pairs } else { 0 }];
            for item in part * per_part..((part + 1) * per_part).min(shape.batch) {
                head_backward(inputs, dy, shape, [item, head], shared, &mut sum);
            }
            sum
        })
        .collect();
    // SAFETY: every head of every position of every item has been written, for queries, keys and
    // values.
    unsafe { out.set_len(len) };
    let bias = if shape.biased {
        let add = |mut total: Vec<f32>, part: &Vec<f32>| {
            total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
            total
        };
        let of = |parts: &[Vec<f32>]| parts.iter().fold(vec![0.0; pairs], add);
        sums.par_chunks(parts).map(of).collect::<Vec<_>>().concat()
    } else {
        Vec::new()
    };
    [out, bias]
}

/// Writes the gradients of one head of one item to `out`, and adds the gradients of the scores to
/// `bias`, unless that is empty.
fn head_backward(
    inputs: Inputs<'_>,
    dy: &[f32],
    shape: &Shape,
    [item, head]: [usize; 2],
    out: Shared,
    bias: &mut [f32],
) {
    let (places, wide, depth, deep) = (shape.places, shape.wide(), shape.depth, shape.deep());
    let scores = Scores::new(inputs, shape, item, head);
    let keys = Part::of(inputs.qkv, shape, item, head, 1).rows(shape, shape.scale);
    let values = Part::of(inputs.qkv, shape, item, head, 2).columns(shape);
    let first = item * places * shape.features() + head * depth;
    let dy = Part { values: dy, first, step: shape.features() }.rows(shape, 1.0);
    let mut weights = vec![0.0; BLOCK * wide];
    let mut gradients = vec![0.0; BLOCK * wide];
    let mut dq = vec![0.0; BLOCK * deep];
    let [mut dk, mut dv] = [vec![0.0; wide * deep], vec![0.0; wide * deep]];
    let write = |place: usize, which: usize, from: &[f32]| {
        let at = ((item * places + place) * 3 + which) * shape.features() + head * depth;
        // SAFETY: no other task uses this range of this item, head and part.
        let to = unsafe { out.part(at, depth) };
        to.iter_mut().zip(from).for_each(|(to, from)| {
            to.write(*from);
        });
    };
    for (first, rows) in blocks(shape) {
        scores.weights(first, rows, &mut weights);
        let whole = rows.next_multiple_of(ROWS);
        let left = Left { values: &dy[first * deep..], row: deep, column: 1 };
        product(left, &values, &mut gradients, Size { rows: whole, depth, columns: wide }, false);
        for i in 0..whole {
            let (weights, gradients) = (&weights[i * wide..][..wide], &mut gradients[i * wide..][..wide]);
            widest(
                #[inline(always)]
                move || {
                    let mean = sum(weights, gradients, |w, g| w * g);
                    gradients.iter_mut().zip(weights).for_each(|(g, w)| *g = w * (*g - mean));
                },
            );
        }
        if shape.biased {
            for i in 0..rows {
                let sum = &mut bias[(first + i) * places..][..places];
                let row = &gradients[i * wide..][..places];
                widest(
                    #[inline(always)]
                    move || sum.iter_mut().zip(row).for_each(|(sum, g)| *sum += g),
                );
            }
        }
        let along = |values| Left { values, row: wide, column: 1 };
        product(along(&gradients), &keys, &mut dq, Size { rows: whole, depth: places, columns: deep }, false);
        dq.chunks(deep).take(rows).enumerate().for_each(|(i, dq)| write(first + i, 0, dq));
        let across = |values| Left { values, row: 1, column: wide };
        let size = Size { rows: wide, depth: rows, columns: deep };
        product(across(&gradients), &scores.queries[first * deep..], &mut dk, size, true);
        product(across(&weights), &dy[first * deep..], &mut dv, size, true);
    }
    for place in 0..places {
        write(place, 1, &dk[place * deep..]);
        write(place, 2, &dv[place * deep..]);
    }
}
