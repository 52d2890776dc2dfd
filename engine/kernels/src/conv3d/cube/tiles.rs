//! Convolutions and input gradients of many channels: tiles of the outputs (`tile_kernel`).

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::ir::features::MmaConfig;
use cubecl::prelude::*;

use super::matrices::EDGE;
use super::three::three;
use super::tile_kernel::{Tile, TileOptions, UNITS, WorkLaunch, tile_kernel};
use super::{add_pieces, halos};
use crate::conv3d::geometry::Geometry;
use crate::gpu::{each, element, empty};

/// The numbers of input and output channels from which tiles are used: half of their smallest
/// sizes. Measured from 16.
const CHANNELS: [usize; 2] = [8, 9];
/// The number of workgroups that a launch should have to keep a large GPU busy: for 16 to 32, and
/// for 64 channels.
const MANY: [usize; 2] = [1 << 9, 1 << 10];
/// The minimum number of steps of a workgroup, where the input channels are divided.
const STEPS: usize = 16;

/// Whether tiles are used for this convolution: it has many channels, and an input gradient reads
/// its inputs without gaps.
pub(super) fn takes(g: &Geometry, transposed: bool) -> bool {
    let [ins, outs] = ends(g, transposed);
    let regular = |axis: usize| !transposed || g.stride[axis] == 1 || g.dilation[axis] == 1;
    ins >= CHANNELS[0] && outs >= CHANNELS[1] && (0..3).all(regular)
}

/// The numbers of input and output channels of a group.
pub(super) fn ends(g: &Geometry, transposed: bool) -> [usize; 2] {
    if transposed { [g.channels_out, g.channels_in] } else { [g.channels_in, g.channels_out] }
}

/// Whether the device multiplies matrices of this type: NVIDIA GPUs with CUDA; others are untested.
pub(super) fn multiplies(x: &CubeTensor) -> bool {
    let properties = x.client.properties();
    let (of, hardware) = (element(x), &properties.hardware);
    let edge = EDGE as u32;
    let matrix = MmaConfig { a_type: of, b_type: of, cd_type: element_of(DType::F32), m: edge, n: edge, k: edge };
    x.dtype != DType::F32
        && x.client.name() == "cuda"
        && hardware.plane_size_min == 32
        && hardware.plane_size_max == 32
        && hardware.max_shared_memory_size >= 48 << 10
        && properties.features.matmul.cmma.contains(&matrix)
}

pub(super) fn element_of(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_storage_type(dtype)
}

/// Whether shared memory may be read four values at a time, independent of how they were written:
/// not in SPIR-V and WGSL; ROCm is untested.
pub(super) fn reads_quads(x: &CubeTensor) -> bool {
    x.client.name() == "cuda"
}

/// The tile for these numbers of channels: the fastest of eight for most layers, on an H100
/// (docs/benches/runs/2026-11-27-h100.md).
fn tile(ins: usize, outs: usize, matrices: bool) -> Tile {
    let [m, n, k, rows, columns] = match (outs, matrices) {
        (..=16, false) => [256, 16, 8, 4, 4],
        (17..=32, false) => [256, 32, 8, 8, 4],
        (_, false) if ins <= 16 => [64, 64, 8, 4, 4],
        (_, false) => [128, 64, 16, 8, 4],
        (..=16, true) => [256, 16, 16, 2, 1],
        (17..=32, true) => [256, 32, 16, 2, 2],
        (_, true) => [128, 64, 16, 2, 2],
    };
    Tile { m, n, k, rows, columns }
}

/// The number of workgroups that a launch of tiles should have with this many channels.
pub(super) fn many(channels: usize) -> usize {
    MANY[usize::from(channels > 32)]
}

/// Runs a convolution, or an input gradient: `transposed`.
pub(super) fn run(
    x: &CubeTensor,
    weight: &CubeTensor,
    bias: Option<&CubeTensor>,
    g: &Geometry,
    out: [usize; 5],
    transposed: bool,
) -> CubeTensor {
    if let Some(plan) = halos::plan(x, g, transposed) {
        return halos::run(x, weight, bias, g, out, transposed, plan);
    }
    let [ins, outs] = ends(g, transposed);
    let (input, output) = if transposed { (g.output, g.input) } else { (g.input, g.output) };
    let (stride, step) = if transposed { ([1; 3], g.stride) } else { (g.stride, [1; 3]) };
    // A position of the input is divided by the stride, and so are its taps.
    let apart = [0, 1, 2].map(|axis| if step[axis] == 1 { g.dilation[axis] } else { 1 });
    let matrices = multiplies(x);
    let remainders: usize = step.iter().product();
    let positions = g.batch * [0, 1, 2].map(|axis| output[axis].div_ceil(step[axis])).iter().product::<usize>();
    let tile = tile(ins, outs, matrices);
    let width = outs.next_multiple_of(tile.n);
    let packed = pack(x, weight, g, width, matrices, transposed, false);
    let tasks = remainders * g.groups * (width / tile.n) * positions.div_ceil(tile.m);
    let taps: usize = [0, 1, 2].map(|axis| g.kernel[axis].div_ceil(step[axis])).iter().product();
    let most = (ins.div_ceil(tile.k) * taps / STEPS).clamp(1, ins.div_ceil(tile.k));
    let pieces = many(tile.n).div_ceil(tasks.max(1)).clamp(1, most);
    let span = ins.div_ceil(pieces).next_multiple_of(tile.k);
    let pieces = ins.div_ceil(span);
    let total: usize = out.iter().product();
    let to = if pieces == 1 { empty(x, out, x.dtype) } else { empty(x, [pieces, total], DType::F32) };
    let tasks = tasks * pieces;
    let u = |n: usize| n as u32;
    let work = WorkLaunch {
        tasks: u(tasks),
        batch: u(g.batch),
        groups: u(g.groups),
        channels_in: u(ins),
        channels_out: u(outs),
        width: u(width),
        span: u(span),
        input: three(input),
        output: three(output),
        kernel: three(g.kernel),
        stride: three(stride),
        step: three(step),
        apart: three(apart),
        pad: three(g.padding),
    };
    let dim = CubeDim::new_1d(UNITS as u32);
    let count = cubecl::calculate_cube_count_elemwise(&x.client, tasks * UNITS, dim);
    let biased = bias.filter(|_| pieces == 1);
    let options = TileOptions { tile, transposed, biased: biased.is_some(), matrices, quads: reads_quads(x) };
    // SAFETY: inputs are read at positions within the image, or at 0, packed weights and outputs
    // below their counts, shared memory at positions within the sizes of the tile.
    unsafe {
        tile_kernel::launch_unchecked(
            &x.client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            packed.clone().into_tensor_arg(),
            biased.unwrap_or(&packed).clone().into_tensor_arg(),
            to.clone().into_tensor_arg(),
            work,
            options,
            element(x),
            element(&packed),
            element(&to),
        );
    }
    if pieces == 1 { to } else { add_pieces(x, to, bias, pieces, out) }
}

/// Packs the weights as `[groups, taps, in, width]`, in the type that is staged; padding channels
/// are 0. `backwards`: the last tap comes first.
pub(super) fn pack(
    x: &CubeTensor,
    weight: &CubeTensor,
    g: &Geometry,
    width: usize,
    matrices: bool,
    transposed: bool,
    backwards: bool,
) -> CubeTensor {
    let [ins, outs] = ends(g, transposed);
    let staged = if matrices { x.dtype } else { DType::F32 };
    let packed = empty(x, [g.groups * g.taps() * ins * width], staged);
    let (count, dim) = each(&x.client, packed.meta.num_elements());
    pack_kernel::launch(
        &x.client,
        count,
        dim,
        weight.clone().into_tensor_arg(),
        packed.clone().into_tensor_arg(),
        FiltersLaunch { ins: ins as u32, outs: outs as u32, width: width as u32, taps: g.taps() as u32 },
        transposed,
        backwards,
        element(weight),
        element(&packed),
    );
    packed
}

/// The filters of a group: input and output channels, the latter with padding, and taps.
#[derive(CubeLaunch, CubeType)]
struct Filters {
    ins: u32,
    outs: u32,
    width: u32,
    taps: u32,
}

#[cube(launch)]
fn pack_kernel<F: Float, S: Float>(
    weight: &Tensor<F>,
    packed: &mut Tensor<S>,
    filters: &Filters,
    #[comptime] transposed: bool,
    #[comptime] backwards: bool,
    #[define(F)] _of: ElemType,
    #[define(S)] _staged: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= packed.len() {
        terminate!();
    }
    let (ins, outs) = (filters.ins as usize, filters.outs as usize);
    let (width, taps) = (filters.width as usize, filters.taps as usize);
    let o = at % width;
    let rest = at / width;
    let i = rest % ins;
    let rest = rest / ins;
    let group = rest / taps;
    let tap = if comptime!(backwards) { taps - 1usize - rest % taps } else { rest % taps };
    let mut value = S::from_int(0);
    if o < outs {
        let filter = if comptime!(transposed) { (group * ins + i) * outs + o } else { (group * outs + o) * ins + i };
        value = S::cast_from(weight[filter * taps + tap]);
    }
    packed[at] = value;
}
