//! Separable weights on the CPU, threads over output planes.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::AxisTaps;
use crate::host;

/// `None` where the tensor does not live on the CPU as f32.
pub(super) fn separable(image: &Tensor<4>, axes: &[AxisTaps; 3]) -> Option<Tensor<4>> {
    let dims = image.dims();
    let size = axes.each_ref().map(AxisTaps::len);
    let out = host::read(image, |source| {
        let mut out = vec![0.0_f32; dims[0] * size.iter().product::<usize>()];
        apply(source, dims, axes, &mut out);
        out
    })?;
    Some(Tensor::from_data(TensorData::new(out, [dims[0], size[0], size[1], size[2]]), &image.device()))
}

/// Blends planes, then rows, then neighbours in a row: each step on data that is already in the cache.
fn apply(source: &[f32], [_, nx, ny, nz]: [usize; 4], axes: &[AxisTaps; 3], out: &mut [f32]) {
    let [xs, ys, zs] = axes;
    let plane = ny * nz;
    let straight = zs.is_identity(nz);
    out.par_chunks_mut(ys.len() * zs.len()).enumerate().for_each_init(
        || (vec![0.0_f32; plane], vec![0.0_f32; nz]),
        |(blend, line), (index, target)| {
            let (c, x) = (index / xs.len(), index % xs.len());
            let volume = &source[c * nx * plane..][..nx * plane];
            let planes = mix(volume, plane, xs.of(x), blend);
            for (y, row) in target.chunks_exact_mut(zs.len()).enumerate() {
                let line = mix(planes, nz, ys.of(y), line);
                if straight {
                    row.copy_from_slice(line);
                } else {
                    pick(line, zs, row);
                }
            }
        },
    );
}

/// The weighted sum of some rows of `length` values into `buffer`; the row itself where it is one with weight 1.
fn mix<'a>(rows: &'a [f32], length: usize, (index, weight): (&[u32], &[f32]), buffer: &'a mut [f32]) -> &'a [f32] {
    let row = |k: usize| &rows[index[k] as usize * length..][..length];
    match *weight {
        [1.0] => return row(0),
        [w] => buffer.iter_mut().zip(row(0)).for_each(|(sum, v)| *sum = v * w),
        [1.0, 0.0] => return row(0),
        [a, b] => {
            for ((sum, p), q) in buffer.iter_mut().zip(row(0)).zip(row(1)) {
                *sum = p * a + q * b;
            }
        }
        [a, b, c, d] => {
            let (first, second) = (row(0).iter().zip(row(1)), row(2).iter().zip(row(3)));
            for ((sum, (p, q)), (r, s)) in buffer.iter_mut().zip(first).zip(second) {
                *sum = (p * a + q * b) + (r * c + s * d);
            }
        }
        _ => {
            buffer.fill(0.0);
            for (k, w) in weight.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                buffer.iter_mut().zip(row(k)).for_each(|(sum, v)| *sum += v * w);
            }
        }
    }
    buffer
}

fn pick(line: &[f32], table: &AxisTaps, row: &mut [f32]) {
    match table.taps() {
        1 => pick_taps::<1>(line, table, row),
        2 => pick_taps::<2>(line, table, row),
        3 => pick_taps::<3>(line, table, row),
        4 => pick_taps::<4>(line, table, row),
        _ => {
            for (o, value) in row.iter_mut().enumerate() {
                let (index, weight) = table.of(o);
                *value = index.iter().zip(weight).map(|(i, w)| line[*i as usize] * w).sum();
            }
        }
    }
}

fn pick_taps<const K: usize>(line: &[f32], table: &AxisTaps, row: &mut [f32]) {
    let (index, weight) = table.lists();
    for ((value, index), weight) in row.iter_mut().zip(index.as_chunks::<K>().0).zip(weight.as_chunks::<K>().0) {
        let mut sum = line[index[0] as usize] * weight[0];
        for k in 1..K {
            sum += line[index[k] as usize] * weight[k];
        }
        *value = sum;
    }
}
