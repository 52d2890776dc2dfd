//! The two passes on the CPU, a few hundred positions of all classes at a time.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::ops::SoftmaxSumsOps;
use super::shape::{SUMS, Shape};
use crate::flex::{floats, with};
use crate::math;
use crate::ranges::kernel;
use crate::simd::{each, widest};

/// The number of positions of a task; the sums of tasks are combined in order.
const TASK: usize = 32 << 10;

/// The number of parallel sums, so that the loops fill registers.
const LANES: usize = 16;

/// The number of sums that depend on the prediction.
const OF_P: usize = SUMS - 1;

impl SoftmaxSumsOps for Flex {
    fn softmax_sums(logits: FloatTensor<Self>, labels: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let _range = kernel!("softmax sums", [logits, labels]);
        let sums = with([logits, labels], |[logits, labels]| forward(logits, labels, &shape));
        floats(sums, [shape.batch, shape.classes, SUMS])
    }

    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        let _range = kernel!("softmax sums gradient", [logits, labels, logits]);
        let dims = logits.layout().shape().to_vec();
        let gradient = with([logits, labels, of_sums], |[x, y, g]| backward(x, y, g, &shape));
        floats(gradient, dims)
    }
}

/// The number of positions that are processed while their logits are in the first-level cache.
fn step(shape: &Shape) -> usize {
    (4096 / shape.classes).clamp(LANES, 512) / LANES * LANES
}

fn tasks(shape: &Shape) -> usize {
    shape.volume.div_ceil(TASK)
}

/// Softmax of some positions: `p` by class, and `log` of the divisor, including the largest logit.
struct Softmax {
    p: Vec<f32>,
    log: Vec<f32>,
    step: usize,
}

impl Softmax {
    fn new(shape: &Shape) -> Self {
        let step = step(shape);
        Softmax { p: vec![0.0; step * shape.classes], log: vec![0.0; step], step }
    }

    /// Fills both for the positions `at..at + count` of an item.
    fn compute(&mut self, item: &[f32], shape: &Shape, at: usize, count: usize) {
        let (step, classes) = (self.step, shape.classes);
        let largest = &mut self.log[..count];
        widest(
            #[inline(always)]
            || {
                largest.copy_from_slice(&item[at..][..count]);
                for c in 1..classes {
                    for (most, value) in largest.iter_mut().zip(&item[c * shape.volume + at..][..count]) {
                        *most = if *value > *most { *value } else { *most };
                    }
                }
                for c in 0..classes {
                    let p = &mut self.p[c * step..][..count];
                    for ((p, value), most) in p.iter_mut().zip(&item[c * shape.volume + at..][..count]).zip(&*largest) {
                        *p = value - most;
                    }
                }
            },
        );
        for c in 0..classes {
            math::exp(&mut self.p[c * step..][..count]);
        }
        let mut total = [0.0_f32; 512];
        let total = &mut total[..count];
        widest(
            #[inline(always)]
            || {
                for c in 0..classes {
                    for (sum, p) in total.iter_mut().zip(&self.p[c * step..]) {
                        *sum += p;
                    }
                }
                for (log, sum) in largest.iter_mut().zip(&mut *total) {
                    *log += math::log2::<false>(*sum) * std::f32::consts::LN_2;
                    *sum = 1.0 / *sum;
                }
                for c in 0..classes {
                    for (p, inverse) in self.p[c * step..][..count].iter_mut().zip(&*total) {
                        *p *= inverse;
                    }
                }
            },
        );
    }
}

/// Computes the sums by item and class.
fn forward(logits: &[f32], labels: &[f32], shape: &Shape) -> Vec<f32> {
    let (classes, volume) = (shape.classes, shape.volume);
    let parts: Vec<Vec<f64>> = (0..shape.batch * tasks(shape))
        .into_par_iter()
        .map(|task| {
            let (item, first) = (task / tasks(shape), task % tasks(shape) * TASK);
            let end = (first + TASK).min(volume);
            let values = &logits[item * classes * volume..][..classes * volume];
            let labels = &labels[item * volume..][..volume];
            let mut softmax = Softmax::new(shape);
            let mut sums = vec![0.0_f64; classes * SUMS];
            let mut whole = vec![0.0_f32; softmax.step];
            for at in (first..end).step_by(softmax.step) {
                let count = softmax.step.min(end - at);
                softmax.compute(values, shape, at, count);
                let given = &labels[at..][..count];
                let known = |label: &f32| *label >= 0.0 && *label < classes as f32 && label.fract() == 0.0;
                sums[OF_P] += f64::from(u8::from(!given.iter().all(known)));
                truncate(&mut whole[..count], given);
                for (c, sums) in sums.chunks_exact_mut(SUMS).enumerate() {
                    let logits = &values[c * volume + at..][..count];
                    sums[OF_P] += f64::from(u8::from(!logits.iter().all(|value| value.is_finite())));
                    let p = &softmax.p[c * softmax.step..][..count];
                    let found = add(p, &whole[..count], logits, &softmax.log[..count], c as f32, shape.squared);
                    sums.iter_mut().zip(found).for_each(|(sum, part)| *sum += part);
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0_f64; shape.batch * classes * SUMS];
    for (task, part) in parts.iter().enumerate() {
        let item = &mut sums[task / tasks(shape) * classes * SUMS..][..classes * SUMS];
        item.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// Truncates labels to class indices.
fn truncate(whole: &mut [f32], labels: &[f32]) {
    widest(
        #[inline(always)]
        || whole.iter_mut().zip(labels).for_each(|(whole, label)| *whole = label.trunc()),
    );
}

/// The contribution of one position to the sums of a class.
#[inline(always)]
fn terms_of(p: f32, is_class: bool, squared: bool, logit: f32, log: f32) -> [f32; OF_P] {
    let hit = if is_class { 1.0 } else { 0.0 };
    let entropy = if is_class { log - logit } else { 0.0 };
    [p * hit, if squared { p * p } else { p }, hit, entropy]
}

/// Adds up the sums of one class over some positions, whose labels are whole.
fn add(p: &[f32], labels: &[f32], logits: &[f32], log: &[f32], class: f32, squared: bool) -> [f64; OF_P] {
    widest(
        #[inline(always)]
        move || {
            let mut lanes = [[0.0_f32; LANES]; OF_P];
            let whole = p.len() / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                let of = |values: &[f32]| -> [f32; LANES] { each(|i| values[at + i]) };
                let (p, labels, logits, log) = (of(p), of(labels), of(logits), of(log));
                for i in 0..LANES {
                    let terms = terms_of(p[i], labels[i] == class, squared, logits[i], log[i]);
                    for (lane, term) in lanes.iter_mut().zip(terms) {
                        lane[i] += term;
                    }
                }
            }
            let mut sums = [0.0_f64; OF_P];
            for (sum, lanes) in sums.iter_mut().zip(lanes) {
                for lane in lanes {
                    *sum += f64::from(lane);
                }
            }
            for at in whole..p.len() {
                for (sum, term) in
                    sums.iter_mut().zip(terms_of(p[at], labels[at] == class, squared, logits[at], log[at]))
                {
                    *sum += f64::from(term);
                }
            }
            sums
        },
    )
}

/// The gradient with respect to the logits, from those of the sums (`[B, C, SUMS]`).
fn backward(logits: &[f32], labels: &[f32], of_sums: &[f32], shape: &Shape) -> Vec<f32> {
    let (classes, volume) = (shape.classes, shape.volume);
    let mut out: Vec<f32> = Vec::with_capacity(logits.len());
    let places = &mut out.spare_capacity_mut()[..logits.len()];
    // One item after the other; within an item, each task writes its positions of all classes.
    for ((item, places), (labels, of_sums)) in logits
        .chunks_exact(classes * volume)
        .zip(places.chunks_exact_mut(classes * volume))
        .zip(labels.chunks_exact(volume).zip(of_sums.chunks_exact(classes * SUMS)))
    {
        let mut rows: Vec<_> = places.chunks_exact_mut(volume).map(|row| row.chunks_mut(TASK)).collect();
        let tasks: Vec<Vec<&mut [MaybeUninit<f32>]>> =
            (0..tasks(shape)).map(|_| rows.iter_mut().filter_map(Iterator::next).collect()).collect();
        tasks.into_par_iter().enumerate().for_each(|(task, mut rows)| {
            let first = task * TASK;
            let end = (first + TASK).min(volume);
            let mut softmax = Softmax::new(shape);
            let mut buffers = [vec![0.0_f32; softmax.step], vec![0.0_f32; softmax.step]];
            let mut whole = vec![0.0_f32; softmax.step];
            for at in (first..end).step_by(softmax.step) {
                let count = softmax.step.min(end - at);
                softmax.compute(item, shape, at, count);
                truncate(&mut whole[..count], &labels[at..][..count]);
                gradient(&softmax, &whole[..count], of_sums, shape, &mut buffers, at - first, &mut rows);
            }
        });
    }
    // SAFETY: the tasks of every item cover all positions of all classes.
    unsafe { out.set_len(logits.len()) };
    out
}

/// Writes the gradient of some positions: `p (d - sum of p d) + g (p - y)`, where `d` is the
/// gradient with respect to `p` and `g` that of the label's entropy.
fn gradient(
    softmax: &Softmax,
    labels: &[f32],
    of_sums: &[f32],
    shape: &Shape,
    [inner, entropy]: &mut [Vec<f32>; 2],
    at: usize,
    rows: &mut [&mut [MaybeUninit<f32>]],
) {
    let (step, count, squared) = (softmax.step, labels.len(), shape.squared);
    let (inner, entropy) = (&mut inner[..count], &mut entropy[..count]);
    widest(
        #[inline(always)]
        || {
            inner.fill(0.0);
            entropy.fill(0.0);
            for (c, g) in of_sums.chunks_exact(SUMS).enumerate() {
                let (g0, g1, g3, class) = (g[0], g[1], g[3], c as f32);
                let p = &softmax.p[c * step..][..count];
                for (((inner, entropy), p), label) in inner.iter_mut().zip(&mut *entropy).zip(p).zip(labels) {
                    let y = if *label == class { 1.0 } else { 0.0 };
                    let d = g0 * y + g1 * if squared { 2.0 * p } else { 1.0 };
                    *inner += p * d;
                    *entropy += g3 * y;
                }
            }
            for ((c, g), row) in of_sums.chunks_exact(SUMS).enumerate().zip(rows) {
                let (g0, g1, class) = (g[0], g[1], c as f32);
                let p = &softmax.p[c * step..][..count];
                let terms = p.iter().zip(labels).zip(inner.iter().zip(&*entropy));
                for (place, ((p, label), (inner, entropy))) in row[at..at + count].iter_mut().zip(terms) {
                    let y = if *label == class { 1.0 } else { 0.0 };
                    let d = g0 * y + g1 * if squared { 2.0 * p } else { 1.0 };
                    place.write(p * (d - inner) + entropy * (p - y));
                }
            }
        },
    );
}
