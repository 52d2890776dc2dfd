//! The norm on the CPU, on all threads.

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::ops::LayerNormOps;
use crate::flex::{floats, with};
use crate::ranges::kernel;
use crate::simd::{sum, widest};

/// The approximate number of values per task. A constant, so that sums over rows do not depend on
/// the number of threads.
const TASK: usize = 32 << 10;

impl LayerNormOps for Flex {
    fn normalize_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self> {
        let _range = kernel!("layer norm", [x, x]);
        let dims = x.layout().shape().to_vec();
        floats(with([x, weight, bias], |[x, weight, bias]| forward(x, weight, bias, eps)), dims)
    }

    fn normalize_rows_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _range = kernel!("layer norm gradient", [x, dy, x]);
        let dims = x.layout().shape().to_vec();
        let features = weight.layout().num_elements();
        let [dx, dw, db] = with([x, weight, dy], |[x, weight, dy]| backward(x, weight, dy, eps));
        (floats(dx, dims), floats(dw, [features]), floats(db, [features]))
    }
}

/// The mean, and the inverse of the deviation.
#[inline(always)]
fn moments(x: &[f32], eps: f32) -> [f32; 2] {
    let count = x.len() as f32;
    let mean = sum(x, x, |a, _| a) / count;
    let variance = sum(x, x, |a, _| (a - mean) * (a - mean)) / count;
    [mean, 1.0 / (variance + eps).sqrt()]
}

fn forward(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    let features = weight.len();
    let task = (TASK / features).max(1) * features;
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(task).zip(x.par_chunks(task)).for_each(|(out, x)| {
        widest(
            #[inline(always)]
            move || {
                for (out, x) in out.chunks_exact_mut(features).zip(x.chunks_exact(features)) {
                    let [mean, inverse] = moments(x, eps);
                    for (((out, x), w), b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                        *out = (x - mean) * inverse * w + b;
                    }
                }
            },
        );
    });
    out
}

/// Computes the gradients of x, weight and bias.
fn backward(x: &[f32], weight: &[f32], dy: &[f32], eps: f32) -> [Vec<f32>; 3] {
    let features = weight.len();
    let task = (TASK / features).max(1) * features;
    let mut dx = vec![0.0; x.len()];
    let tasks = dx.par_chunks_mut(task).zip(x.par_chunks(task)).zip(dy.par_chunks(task));
    let sums: Vec<[Vec<f32>; 2]> = tasks
        .map(|((dx, x), dy)| {
            let [mut dw, mut db] = [vec![0.0; features], vec![0.0; features]];
            let (dw_all, db_all) = (&mut dw[..], &mut db[..]);
            widest(
                #[inline(always)]
                move || {
                    let rows = dx.chunks_exact_mut(features).zip(x.chunks_exact(features));
                    for ((dx, x), dy) in rows.zip(dy.chunks_exact(features)) {
                        let [mean, inverse] = moments(x, eps);
                        for (((((dx, x), dy), w), dw), db) in
                            dx.iter_mut().zip(x).zip(dy).zip(weight).zip(&mut *dw_all).zip(&mut *db_all)
                        {
                            *dx = dy * w;
                            *dw += dy * ((x - mean) * inverse);
                            *db += dy;
                        }
                        let count = features as f32;
                        let first = sum(dx, x, |g, _| g) / count;
                        let second = sum(dx, x, |g, x| g * ((x - mean) * inverse)) / count;
                        for (dx, x) in dx.iter_mut().zip(x) {
                            *dx = inverse * (*dx - first - (x - mean) * inverse * second);
                        }
                    }
                },
            );
            [dw, db]
        })
        .collect();
    let total = |which: usize| {
        let mut total = vec![0.0_f64; features];
        for part in &sums {
            total.iter_mut().zip(&part[which]).for_each(|(total, part)| *total += f64::from(*part));
        }
        total.into_iter().map(|v| v as f32).collect()
    };
    [dx, total(0), total(1)]
}
