//! Resampling on the CPU, threads over output planes.

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::TensorData;
use rayon::prelude::*;

use super::ops::ResampleOps;
use super::{Axis, Interpolation, Matrix, Sampling, axis_table, is_separable, taps};

impl ResampleOps for Flex {
    fn resample_affine(
        image: FloatTensor<Self>,
        matrix: Matrix,
        size: [usize; 3],
        sampling: Sampling,
    ) -> FloatTensor<Self> {
        let shape = image.layout().shape();
        let dims = [shape[0], shape[1], shape[2], shape[3]];
        let image = if image.as_slice::<f32>().is_some() { image } else { image.to_contiguous() };
        let source = image.as_slice::<f32>().unwrap_or_default();
        let mut out = vec![0.0_f32; dims[0] * size.iter().product::<usize>()];
        if is_separable(&matrix) {
            let table = |axis: usize| axis_table(&matrix, axis, dims[axis + 1], size[axis], sampling);
            let tables = [table(0), table(1), table(2)];
            match sampling.mode {
                Interpolation::Linear => linear(source, dims, &tables, size, &mut out),
                Interpolation::Nearest => nearest(source, dims, &tables, size, &mut out),
            }
        } else {
            general(source, dims, &matrix, size, sampling, &mut out);
        }
        FloatTensor::<Self>::from_data(TensorData::new(out, [dims[0], size[0], size[1], size[2]]))
    }
}

/// Blends two planes, then two rows, then two neighbours in a row: each step on data that is already in the cache.
fn linear(source: &[f32], [_, nx, ny, nz]: [usize; 4], [xs, ys, zs]: &[Axis; 3], size: [usize; 3], out: &mut [f32]) {
    let plane = ny * nz;
    out.par_chunks_mut(size[1] * size[2]).enumerate().for_each_init(
        || (vec![0.0_f32; plane], vec![0.0_f32; nz]),
        |(blend, line), (index, target)| {
            let (c, x) = (index / size[0], index % size[0]);
            let at = |i: u32| &source[(c * nx + i as usize) * plane..][..plane];
            let planes = mix(at(xs.low[x]), at(xs.high[x]), xs.weight_low[x], xs.weight_high[x], blend);
            for (y, row) in target.chunks_exact_mut(size[2]).enumerate() {
                let at = |j: u32| &planes[j as usize * nz..][..nz];
                let line = mix(at(ys.low[y]), at(ys.high[y]), ys.weight_low[y], ys.weight_high[y], line);
                let picks = zs.low.iter().zip(&zs.high).zip(zs.weight_low.iter().zip(&zs.weight_high));
                for (value, ((low, high), (wl, wh))) in row.iter_mut().zip(picks) {
                    *value = line[*low as usize] * wl + line[*high as usize] * wh;
                }
            }
        },
    );
}

/// `a * wa + b * wb` into `buffer`; `a` itself where that is what it comes to.
fn mix<'a>(a: &'a [f32], b: &[f32], wa: f32, wb: f32, buffer: &'a mut [f32]) -> &'a [f32] {
    if wa == 1.0 && wb == 0.0 {
        return a;
    }
    for ((value, a), b) in buffer.iter_mut().zip(a).zip(b) {
        *value = a * wa + b * wb;
    }
    buffer
}

fn nearest(source: &[f32], [_, nx, ny, nz]: [usize; 4], [xs, ys, zs]: &[Axis; 3], size: [usize; 3], out: &mut [f32]) {
    out.par_chunks_mut(size[1] * size[2]).enumerate().for_each(|(index, target)| {
        let (c, x) = (index / size[0], index % size[0]);
        if xs.weight_low[x] == 0.0 {
            return;
        }
        let plane = &source[(c * nx + xs.low[x] as usize) * ny * nz..][..ny * nz];
        for (y, row) in target.chunks_exact_mut(size[2]).enumerate() {
            if ys.weight_low[y] == 0.0 {
                continue;
            }
            let line = &plane[ys.low[y] as usize * nz..][..nz];
            for ((value, k), inside) in row.iter_mut().zip(&zs.low).zip(&zs.weight_low) {
                *value = if *inside == 0.0 { 0.0 } else { line[*k as usize] };
            }
        }
    });
}

fn general(
    source: &[f32],
    [_, nx, ny, nz]: [usize; 4],
    matrix: &Matrix,
    size: [usize; 3],
    sampling: Sampling,
    out: &mut [f32],
) {
    let volume = nx * ny * nz;
    let point = |x: f64, y: f64, z: f64| {
        std::array::from_fn::<f64, 3, _>(|r| matrix[r][0] * x + matrix[r][1] * y + matrix[r][2] * z + matrix[r][3])
    };
    out.par_chunks_mut(size[1] * size[2]).enumerate().for_each(|(index, target)| {
        let (c, x) = (index / size[0], index % size[0]);
        let image = &source[c * volume..][..volume];
        for (y, row) in target.chunks_exact_mut(size[2]).enumerate() {
            for (z, value) in row.iter_mut().enumerate() {
                let at = point(x as f64, y as f64, z as f64);
                let [i, j, k] = [taps(at[0], nx, sampling), taps(at[1], ny, sampling), taps(at[2], nz, sampling)];
                let line = |i: usize, j: usize| {
                    let start = (i * ny + j) * nz;
                    image[start + k.low] * k.weight_low + image[start + k.high] * k.weight_high
                };
                let pair = |i: usize| line(i, j.low) * j.weight_low + line(i, j.high) * j.weight_high;
                *value = match sampling.mode {
                    Interpolation::Linear => pair(i.low) * i.weight_low + pair(i.high) * i.weight_high,
                    Interpolation::Nearest if i.weight_low * j.weight_low * k.weight_low == 0.0 => 0.0,
                    Interpolation::Nearest => image[(i.low * ny + j.low) * nz + k.low],
                };
            }
        }
    });
}
