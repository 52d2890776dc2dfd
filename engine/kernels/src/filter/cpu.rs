//! Filtering on the CPU: each plane along all three axes while it is in the cache, threads over
//! planes and blocks of rows.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::Edge;
use crate::host;

/// The minimum number of values that a thread filters at a time: a whole plane of most volumes, a
/// strip of a large 2-D image.
const BLOCK: usize = 1 << 15;

/// `None` where the image is not on the CPU.
pub(super) fn separable(image: &Tensor<4>, taps: [&[f32]; 3], edge: Edge) -> Option<Tensor<4>> {
    let dims = image.dims();
    let out = host::read(image, |source| {
        let mut out = vec![0.0_f32; source.len()];
        match dims {
            // A 2-D image: its rows are along Y, so that the innermost loop is over a row and not
            // over one value.
            [c, x, y, 1] if taps[2].is_empty() => filter(source, [c, 1, x, y], [&[], taps[0], taps[1]], edge, &mut out),
            _ => filter(source, dims, taps, edge, &mut out),
        }
        out
    })?;
    Some(Tensor::from_data(TensorData::new(out, dims), &image.device()))
}

fn filter(source: &[f32], [_, nx, ny, nz]: [usize; 4], taps: [&[f32]; 3], edge: Edge, out: &mut [f32]) {
    let plane = ny * nz;
    let along_x = |x: usize| terms(taps[0], x, nx, plane, edge);
    let along_y = |y: usize| terms(taps[1], y, ny, nz, edge);
    let reach = taps[2].len() / 2;
    let along_z: Vec<(f32, usize)> = taps[2].iter().enumerate().map(|(k, tap)| (*tap, k)).collect();
    let rows = BLOCK.div_ceil(nz).min(ny);
    out.par_chunks_mut(plane).enumerate().for_each_init(Vec::new, |blended, (index, target)| {
        let (channel, x) = (index / nx, index % nx);
        let volume = &source[channel * nx * plane..][..nx * plane];
        let here: &[f32] = if taps[0].is_empty() {
            &volume[x * plane..][..plane]
        } else {
            blended.resize(plane, 0.0);
            weigh(volume, &along_x(x), blended);
            blended
        };
        target.par_chunks_mut(rows * nz).enumerate().for_each_init(
            || vec![0.0_f32; nz + 2 * reach],
            |line, (block, target)| {
                for (y, row) in target.chunks_exact_mut(nz).enumerate() {
                    let y = block * rows + y;
                    let inner = if along_z.is_empty() { &mut *row } else { &mut line[reach..][..nz] };
                    if taps[1].is_empty() {
                        inner.copy_from_slice(&here[y * nz..][..nz]);
                    } else {
                        weigh(here, &along_y(y), inner);
                    }
                    if !along_z.is_empty() {
                        extend(line, reach, edge);
                        weigh(line, &along_z, row);
                    }
                }
            },
        );
    });
}

/// Tap and start of each row (or plane) whose weighted sum is the one at `place`.
fn terms(taps: &[f32], place: usize, length: usize, stride: usize, edge: Edge) -> Vec<(f32, usize)> {
    let first = place as isize - (taps.len() / 2) as isize;
    let from = |k: usize| edge.source(first + k as isize, length).map(|source| source * stride);
    taps.iter().enumerate().filter_map(|(k, tap)| Some((*tap, from(k)?))).collect()
}

/// Fills the `reach` values on both sides of a line; for zero padding they are already 0.
fn extend(line: &mut [f32], reach: usize, edge: Edge) {
    if edge == Edge::Zeros {
        return;
    }
    let n = line.len() - 2 * reach;
    for i in (0..reach).chain(reach + n..line.len()) {
        if let Some(source) = edge.source(i as isize - reach as isize, n) {
            line[i] = line[reach + source];
        }
    }
}

/// `out[i] = sum over terms of tap * source[start + i]`.
fn weigh(source: &[f32], terms: &[(f32, usize)], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the CPU has both.
        return unsafe { weigh_avx2(source, terms, out) };
    }
    weigh_with::<false>(source, terms, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn weigh_avx2(source: &[f32], terms: &[(f32, usize)], out: &mut [f32]) {
    weigh_with::<true>(source, terms, out);
}

#[inline(always)]
fn weigh_with<const FUSED: bool>(source: &[f32], terms: &[(f32, usize)], out: &mut [f32]) {
    /// The number of sums kept in registers.
    const LANES: usize = 32;
    let add = |sum: &mut f32, value: &f32, tap: f32| {
        *sum = if FUSED { value.mul_add(tap, *sum) } else { *sum + value * tap };
    };
    let (blocks, rest) = out.as_chunks_mut::<LANES>();
    let whole = blocks.len() * LANES;
    for (b, block) in blocks.iter_mut().enumerate() {
        let mut sums = [0.0_f32; LANES];
        for (tap, start) in terms {
            let values = &source[start + b * LANES..][..LANES];
            sums.iter_mut().zip(values).for_each(|(sum, value)| add(sum, value, *tap));
        }
        *block = sums;
    }
    rest.fill(0.0);
    for (tap, start) in terms {
        let values = &source[start + whole..][..rest.len()];
        rest.iter_mut().zip(values).for_each(|(sum, value)| add(sum, value, *tap));
    }
}
