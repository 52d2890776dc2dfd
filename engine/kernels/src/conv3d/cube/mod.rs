//! Convolutions on GPUs, in row-major order throughout, without tuning. With many channels they are
//! computed as tiles of outputs, from shared memory: without strides, with the halo of a tile for
//! all taps of a plane at once (`halos`), otherwise one tap after the other (`tiles`,
//! `weight_tiles`). With few channels, a unit computes a few neighbouring outputs in registers
//! (`correlate`, `weights`); the following describes this case.
//!
//! One kernel computes both directions. The input gradient of a convolution with stride `s` is
//! split into `s` convolutions of stride 1 along each axis, one for each remainder of the position,
//! which read every `s`-th tap and write every `s`-th position. The weights are packed first, so
//! that the weights of a unit are contiguous. The weight gradient is summed in pieces, then the
//! pieces are added up; the order is the same in every run.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]
mod axis;
mod correlate;
mod halo_kernel;
mod halos;
mod matrices;
mod three;
mod tile_kernel;
mod tiles;
#[cfg(feature = "cudnn")]
mod vendor;
mod weight_tile_kernel;
mod weight_tiles;
mod weights;

use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use self::correlate::{backward, forward};
use self::three::{Offsets, Three};
use self::weights::weights;
use super::geometry::Geometry;
use super::ops::ConvolutionOps;
use crate::gpu::{UNITS, each, element, empty, group_sum, groups, ordered};
use crate::totals::totals;

/// The maximum number of output channels that a unit computes.
const OUTS: usize = 8;
/// The number of units that add up the pieces of one sum, where there are fewer sums than a large
/// GPU has units.
const SHARES: usize = 8;
const ENOUGH: usize = 1 << 17;
/// The number of values of a channel that a workgroup adds up.
const PIECE: usize = 8192;

/// One of the three sums of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    /// The output, of the input and the weight.
    Correlate,
    /// The input, of the output and the weight.
    Spread,
    /// The weight, of the input and the output.
    Weights,
}

/// Computes a sum by the vendor's library where it is used, else by `ours`.
#[cfg(feature = "cudnn")]
use vendor::computed;

#[cfg(not(feature = "cudnn"))]
fn computed(
    _: Sum,
    reads: [CubeTensor; 2],
    bias: Option<CubeTensor>,
    _: &Geometry,
    ours: impl Fn([CubeTensor; 2], Option<CubeTensor>) -> CubeTensor,
) -> CubeTensor {
    ours(reads, bias)
}

fn correlate(x: CubeTensor, weight: CubeTensor, bias: Option<CubeTensor>, g: &Geometry) -> CubeTensor {
    computed(Sum::Correlate, [x, weight], bias, g, |[x, weight], bias| forward(x, weight, bias, g))
}

fn spread(dy: CubeTensor, weight: CubeTensor, bias: Option<CubeTensor>, g: &Geometry) -> CubeTensor {
    computed(Sum::Spread, [dy, weight], bias, g, |[dy, weight], bias| backward(dy, weight, bias, g))
}

impl ConvolutionOps for CubeBackend {
    fn correlate(x: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        correlate(x, weight, None, &g)
    }

    fn correlate_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        correlate(x, weight, Some(bias), &g)
    }

    fn spread(dy: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        spread(dy, weight, None, &g)
    }

    fn spread_biased(
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        spread(dy, weight, Some(bias), &g)
    }

    fn weight_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        computed(Sum::Weights, [x, dy], None, &g, |[x, dy], _| weights(x, dy, &g))
    }

    fn channel_sums(x: FloatTensor<Self>, batch: usize, channels: usize) -> FloatTensor<Self> {
        let [x] = ordered([x]);
        let volume = x.meta.num_elements() / (batch * channels);
        // With few values, a workgroup adds up a whole channel, and one launch is enough.
        let alone = batch * volume <= 2 * PIECE;
        let pieces = if alone { 1 } else { batch * volume.div_ceil(PIECE) };
        let parts = empty(&x, if alone { vec![channels] } else { vec![channels, pieces, 1] }, DType::F32);
        let (count, dim) = groups(&x.client, channels * pieces);
        let (input, output) = (x.clone().into_tensor_arg(), parts.clone().into_tensor_arg());
        let [batch, volume] = [batch, volume].map(|n| n as u32);
        sums_kernel::launch(&x.client, count, dim, input, output, batch, volume, alone, element(&x));
        if alone {
            return parts;
        }
        totals(parts, [channels])
    }
}

/// The number of channels that a unit computes.
fn outs(channels: usize, most: usize) -> usize {
    channels.next_power_of_two().min(most)
}

/// The sizes of a launch.
#[derive(CubeLaunch, CubeType)]
struct Sizes {
    units: u32,
    groups: u32,
    channels_in: u32,
    channels_out: u32,
    input: Three,
    output: Three,
    /// The numbers of taps of the first and the last axis: those of the second one are compile-time
    /// constants.
    kx: u32,
    kz: u32,
    stride_x: u32,
    stride_z: u32,
    apart_x: u32,
    apart_z: u32,
    begin: Offsets,
}

/// Whether an output of a unit reads this line of its input.
fn is_read(line: usize, rows: usize, taps: usize, stride: usize, apart: usize) -> bool {
    (0..rows).any(|row| (0..taps).any(|tap| row * stride + tap * apart == line))
}

/// Adds up the sums of pieces, `[pieces, ...]`, and the bias of a channel.
fn add_pieces(
    beside: &CubeTensor,
    parts: CubeTensor,
    bias: Option<&CubeTensor>,
    pieces: usize,
    out: [usize; 5],
) -> CubeTensor {
    let sums = empty(beside, out, beside.dtype);
    let total: usize = out.iter().product();
    // Few sums of many pieces: several units per sum.
    let shares = if pieces >= 2 * SHARES && total < ENOUGH { SHARES } else { 1 };
    let (count, dim) = each(&beside.client, total.next_multiple_of(UNITS / shares) * shares);
    let offset = bias.unwrap_or(&parts).clone().into_tensor_arg();
    let (parts, to) = (parts.into_tensor_arg(), sums.clone().into_tensor_arg());
    add_kernel::launch(
        &beside.client,
        count,
        dim,
        parts,
        offset,
        to,
        PiecesLaunch { pieces: pieces as u32, volume: (out[2] * out[3] * out[4]) as u32, channels: out[1] as u32 },
        bias.is_some(),
        shares,
        element(beside),
    );
    sums
}

/// The number of pieces of each sum, and the channel of the sum.
#[derive(CubeLaunch, CubeType)]
struct Pieces {
    pieces: u32,
    volume: u32,
    channels: u32,
}

/// Adds up pieces, and the bias of a channel.
#[cube(launch)]
fn add_kernel<F: Float>(
    parts: &Tensor<f32>,
    bias: &Tensor<f32>,
    out: &mut Tensor<F>,
    by: &Pieces,
    #[comptime] biased: bool,
    #[comptime] shares: usize,
    #[define(F)] _of: ElemType,
) {
    let total = out.len();
    let outputs = comptime!(UNITS / shares);
    let unit = UNIT_POS as usize;
    let (mine, share) = (unit % outputs, unit / outputs);
    let at = CUBE_POS * outputs + mine;
    let mut sum = 0.0f32;
    if at < total {
        let mut piece = share;
        while piece < by.pieces as usize {
            sum += parts[piece * total + at];
            piece += shares;
        }
    }
    if comptime!(shares > 1) {
        let mut places = Shared::<[f32]>::new_slice(UNITS);
        places[unit] = sum;
        sync_cube();
        sum = 0.0f32;
        #[unroll]
        for i in 0..shares {
            sum += places[mine + comptime!(i * outputs)];
        }
    }
    if share == 0 && at < total {
        if comptime!(biased) {
            sum += bias[at / by.volume as usize % by.channels as usize];
        }
        out[at] = F::cast_from(sum);
    }
}

/// Sums a piece of a channel of an image, or with `alone` a channel of all images.
#[cube(launch)]
fn sums_kernel<F: Float>(
    x: &Tensor<F>,
    parts: &mut Tensor<f32>,
    batch: u32,
    volume: u32,
    #[comptime] alone: bool,
    #[define(F)] _of: ElemType,
) {
    let task = CUBE_POS;
    if task >= parts.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (batch, volume) = (batch as usize, volume as usize);
    let mut sum = 0.0f32;
    if comptime!(alone) {
        let mut i = UNIT_POS as usize;
        while i < batch * volume {
            sum += f32::cast_from(x[(i / volume * parts.len() + task) * volume + i % volume]);
            i += UNITS;
        }
    } else {
        let pieces = volume.div_ceil(PIECE);
        let channels = parts.len() / (batch * pieces);
        let (channel, rest) = (task / (batch * pieces), task % (batch * pieces));
        let (image, first) = (rest / pieces, rest % pieces * PIECE);
        let start = (image * channels + channel) * volume;
        let end = usize::min(first + PIECE, volume);
        let mut i = first + UNIT_POS as usize;
        while i < end {
            sum += f32::cast_from(x[start + i]);
            i += UNITS;
        }
    }
    let sum = group_sum(sum, &mut places);
    if UNIT_POS == 0 {
        parts[task] = sum;
    }
}
