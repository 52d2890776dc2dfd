//! Normalization on GPUs: moments of pieces, statistics of rows, then each value; the backward pass
//! likewise. Both have three kernels.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::Over;
use super::ops::NormalizeOps;
use super::shape::Shape;
use crate::gpu::{UNITS, each, element, empty, empty_like, group_sum, groups, ordered, own};

/// The number of values of a plane (item and channel) that a workgroup adds up.
const PIECE: usize = 8192;

/// The planes that share a mean: row `r` has `count` of them, `r * first + i * step`.
#[derive(CubeLaunch, CubeType)]
struct Rows {
    first: u32,
    step: u32,
    count: u32,
}

fn rows(shape: &Shape) -> RowsLaunch {
    match shape.over {
        Over::Batch => RowsLaunch { first: 1, step: shape.channels as u32, count: shape.batch as u32 },
        Over::Groups(groups) => {
            let count = (shape.channels / groups) as u32;
            RowsLaunch { first: count, step: 1, count }
        }
    }
}

/// The shift and scale of values: the parameters of channels, and the statistics of rows.
#[derive(CubeLaunch, CubeType)]
struct Norm {
    weight: OwnedTensor<f32>,
    bias: OwnedTensor<f32>,
    slope: OwnedTensor<f32>,
    mean: OwnedTensor<f32>,
    variance: OwnedTensor<f32>,
}

/// The parameters of kernels with a [`Norm`].
#[derive(CubeLaunch, CubeType)]
struct Scalars {
    volume: u32,
    channels: u32,
    /// The field `first` of [`Rows`].
    first: u32,
    eps: f32,
}

fn scalars(shape: &Shape) -> ScalarsLaunch {
    ScalarsLaunch {
        volume: shape.volume as u32,
        channels: shape.channels as u32,
        first: rows(shape).first,
        eps: shape.eps as f32,
    }
}

impl NormalizeOps for CubeBackend {
    fn normalize(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [x, weight, bias, slope] = ordered([x, weight, bias, slope]);
        let (mean, variance) = statistics(&x, &shape);
        let y = empty_like(&x);
        let (count, dim) = each(&x.client, shape.len());
        apply_kernel::launch(
            &x.client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            NormLaunch {
                weight: weight.into_tensor_arg(),
                bias: bias.into_tensor_arg(),
                slope: slope.into_tensor_arg(),
                mean: mean.clone().into_tensor_arg(),
                variance: variance.clone().into_tensor_arg(),
            },
            y.clone().into_tensor_arg(),
            scalars(&shape),
            matches!(shape.over, Over::Batch),
            element(&x),
        );
        (y, mean, variance)
    }

    fn normalize_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [x, dy, weight, bias, slope, mean, variance] = ordered([x, dy, weight, bias, slope, mean, variance]);
        let (client, batch) = (x.client.clone(), matches!(shape.over, Over::Batch));
        let pieces = shape.volume.div_ceil(PIECE);
        let sums = empty(&x, [shape.planes() * pieces, 3], DType::F32);
        let (count, dim) = groups(&client, shape.planes() * pieces);
        gradient_sums_kernel::launch(
            &client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            dy.clone().into_tensor_arg(),
            NormLaunch {
                weight: weight.clone().into_tensor_arg(),
                bias: bias.clone().into_tensor_arg(),
                slope: slope.clone().into_tensor_arg(),
                mean: mean.clone().into_tensor_arg(),
                variance: variance.clone().into_tensor_arg(),
            },
            sums.clone().into_tensor_arg(),
            scalars(&shape),
            batch,
            element(&x),
        );
        let means = empty(&x, [shape.rows(), 2], DType::F32);
        let [plain, weighted, tail] = [(); 3].map(|()| empty(&x, [shape.channels], DType::F32));
        let (count, dim) = groups(&client, shape.rows() + shape.channels);
        totals_kernel::launch(
            &client,
            count,
            dim,
            sums.into_tensor_arg(),
            weight.clone().into_tensor_arg(),
            means.clone().into_tensor_arg(),
            OfChannelsLaunch {
                plain: plain.clone().into_tensor_arg(),
                weighted: weighted.clone().into_tensor_arg(),
                tail: tail.clone().into_tensor_arg(),
            },
            shape.volume as u32,
            shape.channels as u32,
            rows(&shape),
        );
        let dx = empty_like(&x);
        let (count, dim) = each(&client, shape.len());
        gradient_kernel::launch(
            &client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            dy.into_tensor_arg(),
            NormLaunch {
                weight: weight.into_tensor_arg(),
                bias: bias.into_tensor_arg(),
                slope: slope.clone().into_tensor_arg(),
                mean: mean.into_tensor_arg(),
                variance: variance.into_tensor_arg(),
            },
            means.into_tensor_arg(),
            dx.clone().into_tensor_arg(),
            scalars(&shape),
            batch,
            element(&x),
        );
        let slopes = if slope.meta.shape()[0] == shape.channels { tail } else { Self::float_sum(tail) };
        (dx, weighted, plain, slopes)
    }
}

/// `act(scale x + offset)` by channel, in place where `x` has no other owner.
pub(super) fn scale(
    x: CubeTensor,
    scale: CubeTensor,
    offset: CubeTensor,
    slope: CubeTensor,
    [channels, volume]: [usize; 2],
) -> CubeTensor {
    let (x, [scale, offset, slope]) = (own(x), ordered([scale, offset, slope]));
    let (count, dim) = each(&x.client, x.meta.num_elements());
    scale_kernel::launch(
        &x.client,
        count,
        dim,
        x.clone().into_tensor_arg(),
        scale.into_tensor_arg(),
        offset.into_tensor_arg(),
        slope.into_tensor_arg(),
        volume as u32,
        channels as u32,
        element(&x),
    );
    x
}

/// Updates the running mean and variance after a batch: see [`follow`](super::follow).
pub(super) fn follow(running: [CubeTensor; 2], now: [CubeTensor; 2], momentum: f32, unbiased: f32) -> [CubeTensor; 2] {
    let [mean, variance] = ordered(running);
    let [mean_now, variance_now] = ordered(now);
    let after = [empty_like(&mean), empty_like(&variance)];
    let (count, dim) = each(&mean.client, mean.meta.num_elements());
    follow_kernel::launch(
        &mean.client.clone(),
        count,
        dim,
        mean.into_tensor_arg(),
        variance.into_tensor_arg(),
        mean_now.into_tensor_arg(),
        variance_now.into_tensor_arg(),
        after[0].clone().into_tensor_arg(),
        after[1].clone().into_tensor_arg(),
        momentum,
        unbiased,
    );
    after
}

#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
fn follow_kernel(
    mean: &Tensor<f32>,
    variance: &Tensor<f32>,
    mean_now: &Tensor<f32>,
    variance_now: &Tensor<f32>,
    mean_after: &mut Tensor<f32>,
    variance_after: &mut Tensor<f32>,
    momentum: f32,
    unbiased: f32,
) {
    let at = ABSOLUTE_POS;
    if at >= mean_after.len() {
        terminate!();
    }
    let kept = 1.0f32 - momentum;
    mean_after[at] = mean[at] * kept + mean_now[at] * momentum;
    variance_after[at] = variance[at] * kept + variance_now[at] * unbiased * momentum;
}

/// Mean and biased variance of every row.
fn statistics(x: &CubeTensor, shape: &Shape) -> (CubeTensor, CubeTensor) {
    let (pieces, volume) = (shape.volume.div_ceil(PIECE), shape.volume as u32);
    let moments = empty(x, [shape.planes() * pieces, 2], DType::F32);
    let (count, dim) = groups(&x.client, shape.planes() * pieces);
    let (input, output) = (x.clone().into_tensor_arg(), moments.clone().into_tensor_arg());
    moments_kernel::launch(&x.client, count, dim, input, output, volume, element(x));
    let [mean, variance] = [(); 2].map(|()| empty(x, [shape.rows()], DType::F32));
    let (count, dim) = groups(&x.client, shape.rows());
    statistics_kernel::launch(
        &x.client,
        count,
        dim,
        moments.into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        variance.clone().into_tensor_arg(),
        volume,
        rows(shape),
    );
    (mean, variance)
}

/// Mean and sum of squared deviations of a piece.
#[cube(launch)]
fn moments_kernel<F: Float>(x: &Tensor<F>, moments: &mut Tensor<f32>, volume: u32, #[define(F)] _of: ElemType) {
    let task = CUBE_POS;
    if 2 * task >= moments.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let volume = volume as usize;
    let pieces = volume.div_ceil(PIECE);
    let (plane, first) = (task / pieces, task % pieces * PIECE);
    let start = plane * volume;
    let end = usize::min(first + PIECE, volume);
    let count = f32::cast_from(end - first);
    // Relative to a value of the piece, so that values far from zero keep their digits.
    let pivot = f32::cast_from(x[start + first]);
    let mut sum = 0.0f32;
    let mut i = first + UNIT_POS as usize;
    while i < end {
        sum += f32::cast_from(x[start + i]) - pivot;
        i += UNITS;
    }
    let mean = pivot + group_sum(sum, &mut places) / count;
    let mut squares = 0.0f32;
    let mut i = first + UNIT_POS as usize;
    while i < end {
        let apart = f32::cast_from(x[start + i]) - mean;
        squares += apart * apart;
        i += UNITS;
    }
    let squares = group_sum(squares, &mut places);
    if UNIT_POS == 0 {
        moments[2 * task] = mean;
        moments[2 * task + 1] = squares;
    }
}

/// Values of a piece.
#[cube]
fn piece_len(piece: usize, volume: usize) -> usize {
    usize::min(PIECE, volume - piece * PIECE)
}

/// Mean and variance of a row, from the moments of its pieces (Chan et al., 1979).
#[cube(launch)]
fn statistics_kernel(
    moments: &Tensor<f32>,
    mean: &mut Tensor<f32>,
    variance: &mut Tensor<f32>,
    volume: u32,
    by: &Rows,
) {
    let row = CUBE_POS;
    if row >= mean.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (volume, first, step) = (volume as usize, row * by.first as usize, by.step as usize);
    let pieces = volume.div_ceil(PIECE);
    let tasks = by.count as usize * pieces;
    let count = f32::cast_from(by.count) * f32::cast_from(volume);
    let pivot = moments[2 * first * pieces];
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < tasks {
        let at = (first + i / pieces * step) * pieces + i % pieces;
        sum += (moments[2 * at] - pivot) * f32::cast_from(piece_len(i % pieces, volume));
        i += UNITS;
    }
    let middle = pivot + group_sum(sum, &mut places) / count;
    let mut squares = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < tasks {
        let at = (first + i / pieces * step) * pieces + i % pieces;
        let apart = moments[2 * at] - middle;
        squares += moments[2 * at + 1] + apart * apart * f32::cast_from(piece_len(i % pieces, volume));
        i += UNITS;
    }
    let squares = group_sum(squares, &mut places);
    if UNIT_POS == 0 {
        mean[row] = middle;
        variance[row] = squares / count;
    }
}

/// The statistics and parameters of a plane.
#[derive(CubeType)]
struct Plane {
    mean: f32,
    inverse: f32,
    weight: f32,
    bias: f32,
    slope: f32,
}

#[cube]
impl Plane {
    fn of(plane: usize, norm: &Norm, by: &Scalars, #[comptime] batch: bool) -> Plane {
        let (channels, first) = (by.channels as usize, by.first as usize);
        let channel = plane % channels;
        let row = if comptime!(batch) { channel } else { plane / first };
        Plane {
            mean: norm.mean[row],
            inverse: 1.0f32 / (norm.variance[row] + by.eps).sqrt(),
            weight: norm.weight[channel],
            bias: norm.bias[channel],
            slope: norm.slope[channel % norm.slope.len()],
        }
    }

    fn normalized(&self, x: f32) -> f32 {
        (x - self.mean) * self.inverse
    }

    /// The value before the activation.
    fn moved(&self, normalized: f32) -> f32 {
        normalized * self.weight + self.bias
    }

    fn factor(&self, z: f32) -> f32 {
        select(z > 0.0f32, 1.0f32, self.slope)
    }
}

#[cube(launch)]
fn apply_kernel<F: Float>(
    x: &Tensor<F>,
    norm: &Norm,
    y: &mut Tensor<F>,
    by: &Scalars,
    #[comptime] batch: bool,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= y.len() {
        terminate!();
    }
    let plane = Plane::of(at / by.volume as usize, norm, by, batch);
    let z = plane.moved(plane.normalized(f32::cast_from(x[at])));
    y[at] = F::cast_from(z * plane.factor(z));
}

#[cube(launch)]
fn scale_kernel<F: Float>(
    x: &mut Tensor<F>,
    scale: &Tensor<f32>,
    offset: &Tensor<f32>,
    slope: &Tensor<f32>,
    volume: u32,
    channels: u32,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= x.len() {
        terminate!();
    }
    let channel = at / volume as usize % channels as usize;
    let z = f32::cast_from(x[at]) * scale[channel] + offset[channel];
    x[at] = F::cast_from(z * select(z > 0.0f32, 1.0f32, slope[channel % slope.len()]));
}

/// The sums of `dz`, `dz * normalized` and `dy * z` where `z` is not positive, of a piece.
#[cube(launch)]
fn gradient_sums_kernel<F: Float>(
    x: &Tensor<F>,
    dy: &Tensor<F>,
    norm: &Norm,
    sums: &mut Tensor<f32>,
    by: &Scalars,
    #[comptime] batch: bool,
    #[define(F)] _of: ElemType,
) {
    let task = CUBE_POS;
    if 3 * task >= sums.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let volume = by.volume as usize;
    let pieces = volume.div_ceil(PIECE);
    let (which, from) = (task / pieces, task % pieces * PIECE);
    let start = which * volume;
    let end = usize::min(from + PIECE, volume);
    let plane = Plane::of(which, norm, by, batch);
    let mut plain = 0.0f32;
    let mut weighted = 0.0f32;
    let mut tail = 0.0f32;
    let mut i = from + UNIT_POS as usize;
    while i < end {
        let normalized = plane.normalized(f32::cast_from(x[start + i]));
        let z = plane.moved(normalized);
        let dy = f32::cast_from(dy[start + i]);
        let dz = dy * plane.factor(z);
        plain += dz;
        weighted += dz * normalized;
        tail += dy * select(z > 0.0f32, 0.0f32, z);
        i += UNITS;
    }
    let plain = group_sum(plain, &mut places);
    let weighted = group_sum(weighted, &mut places);
    let tail = group_sum(tail, &mut places);
    if UNIT_POS == 0 {
        sums[3 * task] = plain;
        sums[3 * task + 1] = weighted;
        sums[3 * task + 2] = tail;
    }
}

/// The sums of each channel, for the parameters.
#[derive(CubeLaunch, CubeType)]
struct OfChannels {
    plain: OwnedTensor<f32>,
    weighted: OwnedTensor<f32>,
    tail: OwnedTensor<f32>,
}

/// First the means of the rows, weighted, for x; then the sums of the channels, for the parameters.
#[cube(launch)]
fn totals_kernel(
    sums: &Tensor<f32>,
    weight: &Tensor<f32>,
    means: &mut Tensor<f32>,
    of_channels: &mut OfChannels,
    volume: u32,
    channels: u32,
    by: &Rows,
) {
    let rows = means.len() / 2;
    let channels = channels as usize;
    if CUBE_POS >= rows + channels {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let pieces = (volume as usize).div_ceil(PIECE);
    let mut plain = 0.0f32;
    let mut weighted = 0.0f32;
    let mut tail = 0.0f32;
    let mut i = UNIT_POS as usize;
    if CUBE_POS < rows {
        let (first, step) = (CUBE_POS * by.first as usize, by.step as usize);
        while i < by.count as usize * pieces {
            let plane = first + i / pieces * step;
            let at = plane * pieces + i % pieces;
            plain += sums[3 * at] * weight[plane % channels];
            weighted += sums[3 * at + 1] * weight[plane % channels];
            i += UNITS;
        }
    } else {
        let channel = CUBE_POS - rows;
        while i < sums.len() / (3 * channels) {
            let at = (i / pieces * channels + channel) * pieces + i % pieces;
            plain += sums[3 * at];
            weighted += sums[3 * at + 1];
            tail += sums[3 * at + 2];
            i += UNITS;
        }
    }
    let plain = group_sum(plain, &mut places);
    let weighted = group_sum(weighted, &mut places);
    let tail = group_sum(tail, &mut places);
    if UNIT_POS == 0 {
        if CUBE_POS < rows {
            let count = f32::cast_from(by.count) * f32::cast_from(volume);
            means[2 * CUBE_POS] = plain / count;
            means[2 * CUBE_POS + 1] = weighted / count;
        } else {
            let channel = CUBE_POS - rows;
            of_channels.plain[channel] = plain;
            of_channels.weighted[channel] = weighted;
            of_channels.tail[channel] = tail;
        }
    }
}

/// `inverse * (weight dz - mean of weight dz - normalized * mean of weight dz normalized)`
#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
fn gradient_kernel<F: Float>(
    x: &Tensor<F>,
    dy: &Tensor<F>,
    norm: &Norm,
    means: &Tensor<f32>,
    dx: &mut Tensor<F>,
    by: &Scalars,
    #[comptime] batch: bool,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= dx.len() {
        terminate!();
    }
    let which = at / by.volume as usize;
    let row = if comptime!(batch) { which % by.channels as usize } else { which / by.first as usize };
    let plane = Plane::of(which, norm, by, batch);
    let normalized = plane.normalized(f32::cast_from(x[at]));
    let dz = f32::cast_from(dy[at]) * plane.factor(plane.moved(normalized));
    dx[at] = F::cast_from(plane.inverse * (dz * plane.weight - means[2 * row] - normalized * means[2 * row + 1]));
}
