//! Weighted sums on the CPU: planes are blended, then rows, then neighbours in a row, each step on
//! data in the cache.

use std::ops::Range;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::TensorData;
use rayon::prelude::*;

use super::AxisTaps;
use super::ops::SeparableOps;
use crate::layout::packed;
use crate::ranges::kernel;
use crate::simd::{each, widest};

/// The number of values of blended rows that one task keeps.
const BLOCK: usize = 1 << 15;

impl SeparableOps for Flex {
    fn separable(image: FloatTensor<Self>, axes: [AxisTaps; 3]) -> FloatTensor<Self> {
        let _range = kernel!("separable filter", [image, image]);
        let image = packed(image);
        let shape = image.layout().shape();
        let dims = [shape[0], shape[1], shape[2], shape[3]];
        let size = axes.each_ref().map(AxisTaps::len);
        let mut out = vec![0.0_f32; dims[0] * size.iter().product::<usize>()];
        let source = image.as_slice::<f32>().unwrap_or_default();
        match axes {
            // A 2-D image with its axes shifted by one has the same memory layout, and long rows.
            [x, y, z] if dims[3] == 1 && z.is_identity(1) => {
                apply(source, [dims[0], 1, dims[1], dims[2]], &[z, x, y].map(Axis::new), &mut out);
            }
            axes => apply(source, dims, &axes.map(Axis::new), &mut out),
        }
        FloatTensor::<Self>::from_data(TensorData::new(out, [dims[0], size[0], size[1], size[2]]))
    }
}

/// A table, and the range of its axis that it reads.
struct Axis {
    table: AxisTaps,
    /// The first index that is read.
    low: u32,
    /// The number of indices from there on.
    span: usize,
    /// See [`AxisTaps::copied_from`].
    copied_from: Option<usize>,
}

impl Axis {
    fn new(table: AxisTaps) -> Self {
        let (low, span) = reach(table.lists().0);
        Axis { copied_from: table.copied_from(), low, span, table }
    }
}

/// The smallest index, and the number of indices from it to the largest.
#[inline(always)]
fn reach(index: &[u32]) -> (u32, usize) {
    let low = index.iter().copied().min().unwrap_or(0);
    let high = index.iter().copied().max().unwrap_or(0);
    (low, (high - low) as usize + 1)
}

/// A run of rows of one output plane.
struct Task<'a> {
    channel: usize,
    x: usize,
    rows: Range<usize>,
    out: &'a mut [f32],
}

/// Scratch buffers of a task.
#[derive(Default)]
struct Scratch {
    plane: Vec<f32>,
    /// Whether each of its rows is needed.
    needed: Vec<bool>,
    line: Vec<f32>,
}

fn apply(source: &[f32], dims: [usize; 4], axes: &[Axis; 3], out: &mut [f32]) {
    let size = axes.each_ref().map(|axis| axis.table.len());
    // The number of rows per task: the blended rows fit the first-level cache.
    let per_row = (axes[2].span * axes[1].span).div_ceil(size[1]).max(1);
    let rows = (BLOCK / per_row).clamp(1, size[1]);
    let mut tasks = Vec::new();
    for (plane, values) in out.chunks_mut(size[1] * size[2]).enumerate() {
        let (channel, x) = (plane / size[0], plane % size[0]);
        for (i, out) in values.chunks_mut(rows * size[2]).enumerate() {
            let first = i * rows;
            tasks.push(Task { channel, x, rows: first..first + out.len() / size[2], out });
        }
    }
    let volume = dims[1] * dims[2] * dims[3];
    tasks.into_par_iter().for_each_init(Scratch::default, |scratch, task| {
        let image = &source[task.channel * volume..][..volume];
        widest(
            #[inline(always)]
            move || block(image, [dims[2], dims[3]], axes, task, scratch),
        );
    });
}

/// Blends the planes of a run of rows, then the rows, then neighbours in a row.
#[inline(always)]
fn block(image: &[f32], [ny, nz]: [usize; 2], axes: &[Axis; 3], task: Task, scratch: &mut Scratch) {
    let [xs, ys, zs] = axes;
    let Task { x, rows, out, .. } = task;
    let (planes, weights) = xs.table.of(x);
    if weights.iter().all(|w| *w == 0.0) {
        return;
    }
    // The part of the planes that these rows read.
    let taps = ys.table.taps();
    let index = &ys.table.lists().0[rows.start * taps..rows.end * taps];
    let (low, span) = reach(index);
    let (left, width) = (zs.low as usize, zs.span);
    let (plane, stride, top, left) = match plain(weights) {
        Some(t) => (&image[planes[t] as usize * ny * nz..][..ny * nz], nz, 0, left),
        None => {
            scratch.needed.clear();
            scratch.needed.resize(span, false);
            index.iter().for_each(|y| scratch.needed[(*y - low) as usize] = true);
            scratch.plane.resize(span * width, 0.0);
            for (i, target) in scratch.plane.chunks_exact_mut(width).enumerate().filter(|(i, _)| scratch.needed[*i]) {
                mix(
                    #[inline(always)]
                    |t| &image[(planes[t] as usize * ny + low as usize + i) * nz + left..][..width],
                    weights,
                    target,
                );
            }
            (&scratch.plane[..], width, low as usize, 0)
        }
    };
    let row_of = |y: u32| &plane[(y as usize - top) * stride + left..][..width];
    scratch.line.resize(width, 0.0);
    for (y, target) in rows.zip(out.chunks_exact_mut(zs.table.len())) {
        let (rows, weights) = ys.table.of(y);
        let line = match plain(weights) {
            Some(t) => row_of(rows[t]),
            None if weights.iter().all(|w| *w == 0.0) => continue,
            None => {
                mix(
                    #[inline(always)]
                    |t| &plane[(rows[t] as usize - top) * stride + left..][..width],
                    weights,
                    &mut scratch.line,
                );
                &scratch.line
            }
        };
        pick(line, zs, target);
    }
}

/// The single tap of weight 1, where there is one.
#[inline(always)]
fn plain(weights: &[f32]) -> Option<usize> {
    let t = weights.iter().position(|w| *w != 0.0)?;
    (weights[t] == 1.0 && weights[t + 1..].iter().all(|w| *w == 0.0)).then_some(t)
}

/// The weighted sum of rows.
#[inline(always)]
fn mix<'a>(row: impl Fn(usize) -> &'a [f32], weights: &[f32], out: &mut [f32]) {
    match weights.len() {
        2 => mix_taps::<2>(row, weights, out),
        3 => mix_taps::<3>(row, weights, out),
        4 => mix_taps::<4>(row, weights, out),
        5 => mix_taps::<5>(row, weights, out),
        6 => mix_taps::<6>(row, weights, out),
        _ => {
            out.fill(0.0);
            for (t, w) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                out.iter_mut().zip(row(t)).for_each(|(sum, v)| *sum += v * w);
            }
        }
    }
}

#[inline(always)]
fn mix_taps<'a, const T: usize>(row: impl Fn(usize) -> &'a [f32], weights: &[f32], out: &mut [f32]) {
    let rows: [&[f32]; T] = each(
        #[inline(always)]
        |t| &row(t)[..out.len()],
    );
    let weights: [f32; T] = each(|t| weights[t]);
    for (i, value) in out.iter_mut().enumerate() {
        let mut sum = rows[0][i] * weights[0];
        for t in 1..T {
            sum += rows[t][i] * weights[t];
        }
        *value = sum;
    }
}

/// Blends neighbours in a row that starts at the first index that is read.
#[inline(always)]
fn pick(line: &[f32], zs: &Axis, out: &mut [f32]) {
    if let Some(first) = zs.copied_from {
        out.copy_from_slice(&line[first - zs.low as usize..][..out.len()]);
        return;
    }
    match zs.table.taps() {
        1 => pick_taps::<1>(line, zs, out),
        2 => pick_taps::<2>(line, zs, out),
        3 => pick_taps::<3>(line, zs, out),
        4 => pick_taps::<4>(line, zs, out),
        5 => pick_taps::<5>(line, zs, out),
        6 => pick_taps::<6>(line, zs, out),
        _ => {
            for (o, value) in out.iter_mut().enumerate() {
                let (index, weight) = zs.table.of(o);
                *value = index.iter().zip(weight).map(|(i, w)| line[(*i - zs.low) as usize] * w).sum();
            }
        }
    }
}

#[inline(always)]
fn pick_taps<const T: usize>(line: &[f32], zs: &Axis, out: &mut [f32]) {
    let (index, weight) = zs.table.lists();
    let taps = index.as_chunks::<T>().0.iter().zip(weight.as_chunks::<T>().0);
    for (value, (index, weight)) in out.iter_mut().zip(taps) {
        let mut sum = line[(index[0] - zs.low) as usize] * weight[0];
        for t in 1..T {
            sum += line[(index[t] - zs.low) as usize] * weight[t];
        }
        *value = sum;
    }
}
