//! The two passes on GPUs. The forward pass computes the logarithm of the softmax's divisor at
//! every position, then the sums of pieces, then those of classes: no tensor is as large as the
//! logits. The backward pass uses a unit for each position.

#![allow(clippy::useless_conversion, reason = "CubeCL supports no other form")]

use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use cubecl::prelude::*;

use super::ops::SoftmaxSumsOps;
use super::shape::{SUMS, Shape};
use crate::gpu::{UNITS, each, empty, empty_like, group_sum, groups, ordered};
use crate::totals::totals;

/// The number of positions that a workgroup adds up.
const PIECE: usize = 8192;

impl SoftmaxSumsOps for CubeBackend {
    fn softmax_sums(logits: FloatTensor<Self>, labels: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let [logits, labels] = ordered([logits, labels]);
        let Shape { batch, classes, volume, squared } = shape;
        let client = logits.client.clone();
        let log = empty(&logits, [batch, volume], DType::F32);
        let (count, dim) = each(&client, batch * volume);
        let (input, output) = (logits.clone().into_tensor_arg(), log.clone().into_tensor_arg());
        logarithm_kernel::launch(&client, count, dim, input, output, classes as u32, volume as u32);
        let pieces = volume.div_ceil(PIECE);
        let parts = empty(&logits, [batch * classes, pieces, SUMS], DType::F32);
        let (count, dim) = groups(&client, batch * classes * pieces);
        let [input, labels, log, output] = [logits, labels, log, parts.clone()].map(|tensor| tensor.into_tensor_arg());
        parts_kernel::launch(&client, count, dim, input, labels, log, output, classes as u32, volume as u32, squared);
        totals(parts, [batch, classes, SUMS])
    }

    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        let [logits, labels, of_sums] = ordered([logits, labels, of_sums]);
        let Shape { batch, classes, volume, squared } = shape;
        let out = empty_like(&logits);
        let client = logits.client.clone();
        let (count, dim) = each(&client, batch * volume);
        let [input, labels, of_sums, output] =
            [logits, labels, of_sums, out.clone()].map(|tensor| tensor.into_tensor_arg());
        gradient_kernel::launch(
            &client,
            count,
            dim,
            input,
            labels,
            of_sums,
            output,
            classes as u32,
            volume as u32,
            squared,
        );
        out
    }
}

/// The logarithm of the softmax's divisor at the position `start`; classes are `volume`
/// apart.
#[cube]
fn logarithm(logits: &Tensor<f32>, start: usize, classes: usize, volume: usize) -> f32 {
    let mut most = logits[start];
    for class in 1..classes {
        let value = logits[start + class * volume];
        most = select(value > most, value, most);
    }
    let mut sum = 0.0f32;
    for class in 0..classes {
        sum += (logits[start + class * volume] - most).exp();
    }
    most + sum.ln()
}

#[cube(launch)]
fn logarithm_kernel(logits: &Tensor<f32>, log: &mut Tensor<f32>, classes: u32, volume: u32) {
    let at = ABSOLUTE_POS;
    if at >= log.len() {
        terminate!();
    }
    let (classes, volume) = (classes as usize, volume as usize);
    let start = at / volume * classes * volume + at % volume;
    log[at] = logarithm(logits, start, classes, volume);
}

/// The sums of one class of one item over a piece.
#[cube(launch)]
fn parts_kernel(
    logits: &Tensor<f32>,
    labels: &Tensor<f32>,
    log: &Tensor<f32>,
    parts: &mut Tensor<f32>,
    classes: u32,
    volume: u32,
    #[comptime] squared: bool,
) {
    let task = CUBE_POS;
    if SUMS * task >= parts.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (classes, volume) = (classes as usize, volume as usize);
    let pieces = volume.div_ceil(PIECE);
    let (plane, first) = (task / pieces, task % pieces * PIECE);
    let (item, class) = (plane / classes, plane % classes);
    let end = usize::min(first + PIECE, volume);
    let mut both = 0.0f32;
    let mut prediction = 0.0f32;
    let mut target = 0.0f32;
    let mut entropy = 0.0f32;
    let mut odd = 0.0f32;
    let mut i = first + UNIT_POS as usize;
    while i < end {
        let logit = logits[plane * volume + i];
        let label = labels[item * volume + i];
        let whole = label.trunc();
        let log = log[item * volume + i];
        let p = (logit - log).exp();
        let hit = whole == f32::cast_from(class);
        both += select(hit, p, 0.0f32);
        prediction += if comptime!(squared) { p * p } else { p };
        target += select(hit, 1.0f32, 0.0f32);
        entropy += select(hit, log - logit, 0.0f32);
        let finite = !logit.is_nan() && !logit.is_inf();
        let known = label == whole && label >= 0.0f32 && label < f32::cast_from(classes);
        odd += select(finite && known, 0.0f32, 1.0f32);
        i += UNITS;
    }
    let both = group_sum(both, &mut places);
    let prediction = group_sum(prediction, &mut places);
    let target = group_sum(target, &mut places);
    let entropy = group_sum(entropy, &mut places);
    let odd = group_sum(odd, &mut places);
    if UNIT_POS == 0 {
        parts[SUMS * task] = both;
        parts[SUMS * task + 1] = prediction;
        parts[SUMS * task + 2] = target;
        parts[SUMS * task + 3] = entropy;
        parts[SUMS * task + 4] = odd;
    }
}

/// `p (d - sum of p d) + g (p - y)`, where `d` is the gradient with respect to `p` and `g` that of
/// the label's entropy.
#[cube(launch)]
fn gradient_kernel(
    logits: &Tensor<f32>,
    labels: &Tensor<f32>,
    of_sums: &Tensor<f32>,
    out: &mut Tensor<f32>,
    classes: u32,
    volume: u32,
    #[comptime] squared: bool,
) {
    let at = ABSOLUTE_POS;
    let (classes, volume) = (classes as usize, volume as usize);
    if at >= out.len() / classes {
        terminate!();
    }
    let item = at / volume;
    let start = item * classes * volume + at % volume;
    let log = logarithm(logits, start, classes, volume);
    let whole = labels[at].trunc();
    let mut inner = 0.0f32;
    let mut entropy = 0.0f32;
    for class in 0..classes {
        let g = SUMS * (item * classes + class);
        let p = (logits[start + class * volume] - log).exp();
        let y = select(whole == f32::cast_from(class), 1.0f32, 0.0f32);
        inner += p * along(of_sums[g], of_sums[g + 1], p, y, squared);
        entropy += of_sums[g + 3] * y;
    }
    for class in 0..classes {
        let g = SUMS * (item * classes + class);
        let p = (logits[start + class * volume] - log).exp();
        let y = select(whole == f32::cast_from(class), 1.0f32, 0.0f32);
        let d = along(of_sums[g], of_sums[g + 1], p, y, squared);
        out[start + class * volume] = p * (d - inner) + entropy * (p - y);
    }
}

/// The gradient with respect to `p` from those of `p y` and of `p` or `p^2`.
#[cube]
fn along(both: f32, prediction: f32, p: f32, y: f32, #[comptime] squared: bool) -> f32 {
    let rise = if comptime!(squared) { 2.0f32 * p } else { 1.0f32.into() };
    both * y + prediction * rise
}
