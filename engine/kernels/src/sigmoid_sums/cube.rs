//! The two passes on GPUs: the forward pass computes the sums of pieces, then those of channels;
//! the backward pass uses a unit for each position.

#![allow(clippy::useless_conversion, reason = "CubeCL supports no other form")]

use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use cubecl::prelude::*;

use super::Focal;
use super::ops::SigmoidSumsOps;
use super::shape::{SUMS, Shape};
use crate::gpu::{UNITS, each, empty, empty_like, group_sum, groups, ordered};
use crate::totals::totals;

/// The number of positions that a workgroup adds up.
const PIECE: usize = 8192;

impl SigmoidSumsOps for CubeBackend {
    fn sigmoid_sums(logits: FloatTensor<Self>, targets: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let [logits, targets] = ordered([logits, targets]);
        let Shape { batch, channels, volume, .. } = shape;
        let client = logits.client.clone();
        let pieces = volume.div_ceil(PIECE);
        let parts = empty(&logits, [batch * channels, pieces, SUMS], DType::F32);
        let (count, dim) = groups(&client, batch * channels * pieces);
        let [input, targets, output] = [logits, targets, parts.clone()].map(|tensor| tensor.into_tensor_arg());
        parts_kernel::launch(&client, count, dim, input, targets, output, scalars(&shape), options(&shape));
        totals(parts, [batch, channels, SUMS])
    }

    fn sigmoid_sums_gradient(
        logits: FloatTensor<Self>,
        targets: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
        of_targets: bool,
    ) -> FloatTensor<Self> {
        let [logits, targets, of_sums] = ordered([logits, targets, of_sums]);
        let Shape { batch, channels, volume, .. } = shape;
        let out = empty_like(&logits);
        let client = logits.client.clone();
        let (count, dim) = each(&client, batch * channels * volume);
        let [input, targets, of_sums, output] =
            [logits, targets, of_sums, out.clone()].map(|tensor| tensor.into_tensor_arg());
        gradient_kernel::launch(
            &client,
            count,
            dim,
            input,
            targets,
            of_sums,
            output,
            scalars(&shape),
            options(&shape),
            of_targets,
        );
        out
    }
}

/// The sizes, and the parameters of the focal term.
#[derive(CubeLaunch, CubeType)]
struct Scalars {
    channels: u32,
    volume: u32,
    gamma: f32,
    pos_weight: f32,
    present: f32,
    absent: f32,
}

fn scalars(shape: &Shape) -> ScalarsLaunch {
    let Focal { gamma, pos_weight, present, absent } = shape.focal.unwrap_or_default();
    ScalarsLaunch { channels: shape.channels as u32, volume: shape.volume as u32, gamma, pos_weight, present, absent }
}

/// Compile-time options of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Options {
    indices: bool,
    squared: bool,
    focal: bool,
}

fn options(shape: &Shape) -> Options {
    Options { indices: shape.indices, squared: shape.squared, focal: shape.focal.is_some() }
}

/// `log(1 + exp(-|x|))`, exact for small values, too: `2 atanh(e / (2 + e))`.
#[cube]
fn tail(x: f32) -> f32 {
    let small = (-x.abs()).exp();
    let s = small / (2.0f32 + small);
    let s2 = s * s;
    let series = 1.0f32 / 11.0f32 + s2 * (1.0f32 / 13.0f32 + s2 / 15.0f32);
    let series = 1.0f32 / 5.0f32 + s2 * (1.0f32 / 7.0f32 + s2 * (1.0f32 / 9.0f32 + s2 * series));
    2.0f32 * s * (1.0f32 + s2 * (1.0f32 / 3.0f32 + s2 * series))
}

/// One minus the sigmoid: finite for all logits, and never negative far from 0.
#[cube]
fn sigmoid(x: f32) -> f32 {
    let small = (-x.abs()).exp();
    select(x > 0.0f32, 1.0f32, small) / (1.0f32 + small)
}

/// `-log sigmoid(x)`
#[cube]
fn without(x: f32) -> f32 {
    tail(x) - f32::min(x, 0.0f32)
}

#[cube]
fn entropy_of(x: f32, t: f32, pos_weight: f32) -> f32 {
    pos_weight * t * without(x) + (1.0f32 - t) * without(-x)
}

/// The distance of the prediction from the target, to the power of gamma.
#[cube]
fn power_of(x: f32, t: f32, gamma: f32) -> f32 {
    (-gamma * without(x * (1.0f32 - 2.0f32 * t))).exp()
}

/// The target of a channel that a value encodes.
#[cube]
fn target_of(value: f32, channel: usize, #[comptime] indices: bool) -> f32 {
    if comptime!(indices) { select(value.trunc() == f32::cast_from(channel), 1.0f32, 0.0f32) } else { value }
}

/// The sums of one channel of one item over a piece.
#[cube(launch)]
fn parts_kernel(
    logits: &Tensor<f32>,
    targets: &Tensor<f32>,
    parts: &mut Tensor<f32>,
    by: &Scalars,
    #[comptime] options: Options,
) {
    let task = CUBE_POS;
    if SUMS * task >= parts.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (channels, volume) = (by.channels as usize, by.volume as usize);
    let pieces = volume.div_ceil(PIECE);
    let (plane, first) = (task / pieces, task % pieces * PIECE);
    let channel = plane % channels;
    let row = if comptime!(options.indices) { plane / channels } else { plane };
    let end = usize::min(first + PIECE, volume);
    let mut both = 0.0f32;
    let mut prediction = 0.0f32;
    let mut given = 0.0f32;
    let mut focal = 0.0f32;
    let mut odd = 0.0f32;
    let mut i = first + UNIT_POS as usize;
    while i < end {
        let x = logits[plane * volume + i];
        let value = targets[row * volume + i];
        let t = target_of(value, channel, options.indices);
        let s = sigmoid(x);
        both += s * t;
        if comptime!(options.squared) {
            prediction += s * s;
            given += t * t;
        } else {
            prediction += s;
            given += t;
        }
        if comptime!(options.focal) {
            let weight = by.absent + (by.present - by.absent) * t;
            focal += weight * power_of(x, t, by.gamma) * entropy_of(x, t, by.pos_weight);
        }
        let finite = !x.is_nan() && !x.is_inf();
        let known = if comptime!(options.indices) {
            value == value.trunc() && value >= 0.0f32 && value < f32::cast_from(channels)
        } else {
            !value.is_nan() && !value.is_inf()
        };
        odd += select(finite && known, 0.0f32, 1.0f32);
        i += UNITS;
    }
    let both = group_sum(both, &mut places);
    let prediction = group_sum(prediction, &mut places);
    let given = group_sum(given, &mut places);
    let focal = group_sum(focal, &mut places);
    let odd = group_sum(odd, &mut places);
    if UNIT_POS == 0 {
        parts[SUMS * task] = both;
        parts[SUMS * task + 1] = prediction;
        parts[SUMS * task + 2] = given;
        parts[SUMS * task + 3] = focal;
        parts[SUMS * task + 4] = odd;
    }
}

/// The gradient with respect to the logits or the targets, from those of the sums.
#[cube(launch)]
fn gradient_kernel(
    logits: &Tensor<f32>,
    targets: &Tensor<f32>,
    of_sums: &Tensor<f32>,
    out: &mut Tensor<f32>,
    by: &Scalars,
    #[comptime] options: Options,
    #[comptime] of_targets: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let (channels, volume) = (by.channels as usize, by.volume as usize);
    let (plane, position) = (at / volume, at % volume);
    let row = if comptime!(options.indices) { plane / channels } else { plane };
    let x = logits[at];
    let t = target_of(targets[row * volume + position], plane % channels, options.indices);
    let g = SUMS * plane;
    let s = sigmoid(x);
    let mut slope = 0.0f32;
    if comptime!(of_targets) {
        let rise = if comptime!(options.squared) { 2.0f32 * t } else { 1.0f32.into() };
        slope += of_sums[g] * s + of_sums[g + 2] * rise;
    } else {
        let rise = if comptime!(options.squared) { 2.0f32 * s } else { 1.0f32.into() };
        slope += (of_sums[g] * t + of_sums[g + 1] * rise) * s * sigmoid(-x);
    }
    if comptime!(options.focal) {
        let weight = by.absent + (by.present - by.absent) * t;
        let entropy = entropy_of(x, t, by.pos_weight);
        let power = power_of(x, t, by.gamma);
        let steeper = by.gamma * sigmoid(x * (2.0f32 * t - 1.0f32)) * entropy;
        if comptime!(of_targets) {
            // The two logarithms differ by the logit.
            let rise = (by.pos_weight - 1.0f32) * without(x) - x;
            let own = weight * (rise - 2.0f32 * x * steeper) + (by.present - by.absent) * entropy;
            slope += of_sums[g + 3] * power * own;
        } else {
            let rise = (1.0f32 - t) * s - by.pos_weight * t * sigmoid(-x);
            slope += of_sums[g + 3] * power * weight * (rise + (1.0f32 - 2.0f32 * t) * steeper);
        }
    }
    out[at] = slope;
}
