//! The passes over the windows on the CPU: one task per image and channel, row by row.
//!
//! One task computes each value in a fixed order: results do not depend on the number of threads.

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::ops::PoolOps;
use super::windows::{Axis, Pooling};
use crate::flex::{floats, with};
use crate::ranges::kernel;

fn tensor(values: Vec<f32>, [batch, channels]: [usize; 2], [x, y, z]: [usize; 3]) -> FloatTensor<Flex> {
    floats(values, [batch, channels, x, y, z])
}

impl PoolOps for Flex {
    fn pool_largest(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        let _range = kernel!("max pool", [x]);
        let out = with([x], |[x]| largest(x, planes.iter().product(), &pooling));
        tensor(out, planes, pooling.output())
    }

    fn pool_largest_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        planes: [usize; 2],
        pooling: Pooling,
    ) -> FloatTensor<Self> {
        let _range = kernel!("max pool gradient", [x, dy, x]);
        let out = with([x, dy], |[x, dy]| largest_gradient(x, dy, planes.iter().product(), &pooling));
        tensor(out, planes, pooling.input())
    }

    fn pool_mean(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        let _range = kernel!("mean pool", [x]);
        let out = with([x], |[x]| mean(x, planes.iter().product(), &pooling));
        tensor(out, planes, pooling.output())
    }

    fn pool_mean_gradient(dy: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        let _range = kernel!("mean pool gradient", [dy]);
        let out = with([dy], |[dy]| mean_gradient(dy, planes.iter().product(), &pooling));
        tensor(out, planes, pooling.input())
    }
}

/// The input indices of a window along one axis.
fn places(axis: &Axis, output: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let (window, step) = (axis.windows[output], axis.step);
    (0..window.count).map(move |i| window.start + i * step)
}

/// The same pooling with axes of length 1 moved to the front, so that rows are long; the memory
/// layout does not change.
fn flat_first(pooling: &Pooling) -> Pooling {
    let mut pooling = pooling.clone();
    for _ in 0..2 {
        if pooling.axes[2].input == 1 && pooling.axes[2].windows.len() == 1 {
            pooling.axes.rotate_right(1);
        }
    }
    pooling
}

/// The rows (first index of each) that output row `(i, j)` reads, in row-major order.
fn rows(pooling: &Pooling, i: usize, j: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let [_, ny, nz] = pooling.input();
    let inner = places(&pooling.axes[1], j);
    places(&pooling.axes[0], i).flat_map(move |x| inner.clone().map(move |y| (x * ny + y) * nz))
}

fn each_plane(out: &mut [f32], plane: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if plane > 0 {
        out.par_chunks_mut(plane).enumerate().for_each(|(index, out)| work(index, out));
    }
}

/// The larger value; NaN wins, as in PyTorch.
#[inline(always)]
fn wins(value: f32, over: f32) -> bool {
    value > over || value.is_nan()
}

/// Computes the maxima of `planes` inputs `x`; returns as many outputs.
fn largest(x: &[f32], planes: usize, pooling: &Pooling) -> Vec<f32> {
    let pooling = &flat_first(pooling);
    let (input, output) = (pooling.input(), pooling.output());
    let [_, oy, oz] = output;
    let plane: usize = output.iter().product();
    let mut out = vec![0.0; planes * plane];
    each_plane(&mut out, plane, |index, out| {
        let x = &x[index * input.iter().product::<usize>()..];
        let mut best = vec![0.0; input[2]];
        for (row, out) in out.chunks_exact_mut(oz).enumerate() {
            best.fill(f32::NEG_INFINITY);
            for from in rows(pooling, row / oy, row % oy) {
                for (best, value) in best.iter_mut().zip(&x[from..]) {
                    if wins(*value, *best) {
                        *best = *value;
                    }
                }
            }
            for (k, value) in out.iter_mut().enumerate() {
                let largest = |largest, z: usize| if wins(best[z], largest) { best[z] } else { largest };
                *value = places(&pooling.axes[2], k).fold(f32::NEG_INFINITY, largest);
            }
        }
    });
    out
}

/// The input gradient: each value of `dy` at the position of its window's largest input.
fn largest_gradient(x: &[f32], dy: &[f32], planes: usize, pooling: &Pooling) -> Vec<f32> {
    let pooling = &flat_first(pooling);
    let (input, output) = (pooling.input(), pooling.output());
    let [_, oy, oz] = output;
    let plane: usize = input.iter().product();
    let mut out = vec![0.0; planes * plane];
    each_plane(&mut out, plane, |index, out| {
        let x = &x[index * plane..][..plane];
        let dy = &dy[index * output.iter().product::<usize>()..][..output.iter().product()];
        // The largest value at each index over the rows, and the row it is in.
        let mut best = vec![(0.0, 0); input[2]];
        for (row, dy) in dy.chunks_exact(oz).enumerate() {
            best.fill((f32::NEG_INFINITY, usize::MAX));
            for from in rows(pooling, row / oy, row % oy) {
                for (best, value) in best.iter_mut().zip(&x[from..]) {
                    if wins(*value, best.0) || best.1 == usize::MAX {
                        *best = (*value, from);
                    }
                }
            }
            for (k, dy) in dy.iter().enumerate() {
                let mut found: Option<(f32, usize, usize)> = None;
                for z in places(&pooling.axes[2], k) {
                    let (value, from) = best[z];
                    // Of equal values, the first in row-major order is used.
                    let takes =
                        found.is_none_or(|(largest, row, _)| wins(value, largest) || (value == largest && from < row));
                    if from != usize::MAX && takes {
                        found = Some((value, from, z));
                    }
                }
                if let Some((_, from, z)) = found {
                    out[from + z] += dy;
                }
            }
        }
    });
    out
}

/// Computes the means of `planes` inputs `x`; returns as many outputs.
fn mean(x: &[f32], planes: usize, pooling: &Pooling) -> Vec<f32> {
    let pooling = &flat_first(pooling);
    let (input, output) = (pooling.input(), pooling.output());
    let [_, oy, oz] = output;
    let plane: usize = output.iter().product();
    let mut out = vec![0.0; planes * plane];
    each_plane(&mut out, plane, |index, out| {
        let x = &x[index * input.iter().product::<usize>()..];
        let mut sums = vec![0.0_f64; input[2]];
        for (row, out) in out.chunks_exact_mut(oz).enumerate() {
            let (i, j) = (row / oy, row % oy);
            sums.fill(0.0);
            for from in rows(pooling, i, j) {
                sums.iter_mut().zip(&x[from..]).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            let weight = pooling.scale * pooling.axes[0].windows[i].weight * pooling.axes[1].windows[j].weight;
            for (k, value) in out.iter_mut().enumerate() {
                let sum: f64 = places(&pooling.axes[2], k).map(|z| sums[z]).sum();
                *value = (sum * weight * pooling.axes[2].windows[k].weight) as f32;
            }
        }
    });
    out
}

/// The input gradient: each value of `dy` distributed over its window's inputs.
fn mean_gradient(dy: &[f32], planes: usize, pooling: &Pooling) -> Vec<f32> {
    let pooling = &flat_first(pooling);
    let (input, output) = (pooling.input(), pooling.output());
    let [_, oy, oz] = output;
    let plane: usize = input.iter().product();
    let mut out = vec![0.0; planes * plane];
    each_plane(&mut out, plane, |index, out| {
        let dy = &dy[index * output.iter().product::<usize>()..][..output.iter().product()];
        let mut shares = vec![0.0_f32; input[2]];
        for (row, dy) in dy.chunks_exact(oz).enumerate() {
            let (i, j) = (row / oy, row % oy);
            let weight = pooling.scale * pooling.axes[0].windows[i].weight * pooling.axes[1].windows[j].weight;
            shares.fill(0.0);
            for (k, dy) in dy.iter().enumerate() {
                let share = (f64::from(*dy) * weight * pooling.axes[2].windows[k].weight) as f32;
                places(&pooling.axes[2], k).for_each(|z| shares[z] += share);
            }
            for from in rows(pooling, i, j) {
                out[from..].iter_mut().zip(&shares).for_each(|(value, share)| *value += share);
            }
        }
    });
    out
}
