//! A diagonal matrix: each axis on its own, each step on data that is already in the cache.

use std::ops::Range;

use rayon::prelude::*;

use super::super::{Axis, Sampling, Target};
use crate::simd::widest;

/// Values of blended rows that one task keeps.
const BLOCK: usize = 1 << 15;

/// A run of rows of one output plane.
struct Task<'a> {
    channel: usize,
    x: usize,
    rows: Range<usize>,
    out: &'a mut [f32],
}

/// What a task writes into on its way.
#[derive(Default)]
struct Scratch {
    plane: Vec<f32>,
    /// Which of its rows are needed.
    needed: Vec<bool>,
    line: Vec<f32>,
}

pub(super) fn separable<const T: usize>(
    source: &[f32],
    dims: [usize; 4],
    target: &Target,
    sampling: Sampling,
    out: &mut [f32],
) {
    let size = target.size;
    let axes: [Axis; 3] = std::array::from_fn(|axis| Axis::new(target, axis, dims[axis + 1], sampling));
    // Rows per task: what is blended for them fits the cache nearest to the core.
    let per_row = (axes[2].span() * axes[1].span()).div_ceil(size[1]).max(1);
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
    let shape = [dims[1], dims[2], dims[3]];
    tasks.into_par_iter().for_each_init(Scratch::default, |scratch, task| {
        let image = &source[task.channel * volume..][..volume];
        widest(|| block::<T>(image, shape, &axes, task, scratch));
    });
}

/// Blends the planes of a run of rows, then the rows, then neighbours in a row.
#[inline(always)]
fn block<const T: usize>(image: &[f32], [_, ny, nz]: [usize; 3], axes: &[Axis; 3], task: Task, scratch: &mut Scratch) {
    let [xs, ys, zs] = axes;
    let Task { x, rows, out, .. } = task;
    let (planes, weights) = xs.of::<T>(x);
    if weights.iter().all(|w| *w == 0.0) {
        return;
    }
    // The part of the planes that these rows read.
    let (index, _) = ys.index[rows.start * T..rows.end * T].as_chunks::<T>();
    let low = index.iter().flatten().copied().min().unwrap_or(0) as usize;
    let high = index.iter().flatten().copied().max().unwrap_or(0) as usize;
    let (left, width) = (zs.low as usize, zs.span());
    let row_of = |plane: u32, y: usize| &image[(plane as usize * ny + y) * nz + left..][..width];
    let blended = if let Some(t) = plain(weights) {
        (&image[planes[t] as usize * ny * nz..][..ny * nz], nz, 0, left)
    } else {
        scratch.needed.clear();
        scratch.needed.resize(high - low + 1, false);
        index.iter().flatten().for_each(|y| scratch.needed[*y as usize - low] = true);
        scratch.plane.resize((high - low + 1) * width, 0.0);
        for (i, target) in scratch.plane.chunks_exact_mut(width).enumerate().filter(|(i, _)| scratch.needed[*i]) {
            mix(planes.map(|p| row_of(p, low + i)), *weights, target);
        }
        (&scratch.plane[..], width, low, 0)
    };
    let (plane, stride, top, left) = blended;
    let row_of = |y: u32| &plane[(y as usize - top) * stride + left..][..width];
    scratch.line.resize(width, 0.0);
    for (y, target) in rows.zip(out.chunks_exact_mut(zs.index.len() / T)) {
        let (rows, weights) = ys.of::<T>(y);
        let line = match plain(weights) {
            Some(t) => row_of(rows[t]),
            None if weights.iter().all(|w| *w == 0.0) => continue,
            None => {
                mix(rows.map(row_of), *weights, &mut scratch.line);
                &scratch.line
            }
        };
        pick::<T>(line, zs, target);
    }
}

/// The one tap that is taken as it is.
#[inline(always)]
fn plain<const T: usize>(weights: &[f32; T]) -> Option<usize> {
    let t = weights.iter().position(|w| *w != 0.0)?;
    (weights[t] == 1.0 && weights[t + 1..].iter().all(|w| *w == 0.0)).then_some(t)
}

/// The sum of rows of equal length, each with its weight.
#[inline(always)]
fn mix<const T: usize>(rows: [&[f32]; T], weights: [f32; T], out: &mut [f32]) {
    let rows = rows.map(|row| &row[..out.len()]);
    for (i, value) in out.iter_mut().enumerate() {
        let mut sum = rows[0][i] * weights[0];
        for t in 1..T {
            sum += rows[t][i] * weights[t];
        }
        *value = sum;
    }
}

/// Blends neighbours in a row.
#[inline(always)]
fn pick<const T: usize>(line: &[f32], zs: &Axis, out: &mut [f32]) {
    if let Some(first) = zs.copied_from {
        out.copy_from_slice(&line[first..][..out.len()]);
        return;
    }
    let (index, _) = zs.index.as_chunks::<T>();
    let (weight, _) = zs.weight.as_chunks::<T>();
    for ((value, index), weight) in out.iter_mut().zip(index).zip(weight) {
        let at = |t: usize| line[(index[t] - zs.low) as usize] * weight[t];
        let mut sum = at(0);
        for t in 1..T {
            sum += at(t);
        }
        *value = sum;
    }
}
