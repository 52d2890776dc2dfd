//! Copies views of CPU tensors (permuted, flipped, cut) into row-major order, threads over slabs.

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::TensorData;
use rayon::prelude::*;

/// The side of the squares that are transposed at once: whole cache lines are used on both sides.
const SIDE: usize = 16;

/// Returns the tensor with contiguous values in row-major order; unchanged where they already are,
/// or are not f32.
pub(crate) fn packed(tensor: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let layout = tensor.layout();
    if layout.num_elements() == 0 || layout.contiguous_offsets().is_some() || tensor.dtype() != f32_type() {
        return tensor;
    }
    let shape = layout.shape().to_vec();
    let values = pack(tensor.storage::<f32>(), layout.start_offset(), &shape, layout.strides());
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}

fn f32_type() -> burn::tensor::DType {
    burn::tensor::DType::F32
}

/// One axis of a view: its length, and the distances in the source and in the result.
#[derive(Clone, Copy, Debug)]
struct Axis {
    n: usize,
    from: isize,
    to: usize,
}

fn pack(source: &[f32], offset: usize, shape: &[usize], strides: &[isize]) -> Vec<f32> {
    let count = shape.iter().product::<usize>();
    let mut out = vec![0.0; count];
    let mut to = count;
    let axes: Vec<Axis> = shape
        .iter()
        .zip(strides)
        .map(|(n, from)| {
            to /= n;
            Axis { n: *n, from: *from, to }
        })
        .filter(|axis| axis.n > 1)
        .collect();
    let Some((first, rest)) = axes.split_first() else {
        out.fill(source[offset]);
        return out;
    };
    out.par_chunks_mut(SIDE * first.to).enumerate().for_each(|(i, out)| {
        let start = offset as isize + (i * SIDE) as isize * first.from;
        let mut axes = vec![Axis { n: out.len() / first.to, ..*first }];
        axes.extend(rest);
        slab(source, start, &axes, out);
    });
    out
}

/// Copies one slab; the last axis has distance 1 in the result.
fn slab(source: &[f32], start: isize, axes: &[Axis], out: &mut [f32]) {
    let last = axes[axes.len() - 1];
    let others = &axes[..axes.len() - 1];
    // The axis with the smallest distance in the source.
    let near = (0..others.len()).min_by_key(|a| others[*a].from.unsigned_abs());
    let Some(near) = near.filter(|a| others[*a].from.unsigned_abs() < last.from.unsigned_abs()) else {
        each(others, start, 0, &mut |from, to| row(source, from, last.from, &mut out[to..][..last.n]));
        return;
    };
    let turned = others[near];
    let loops: Vec<Axis> = others.iter().enumerate().filter(|(a, _)| *a != near).map(|(_, axis)| *axis).collect();
    each(&loops, start, 0, &mut |from, to| {
        for i0 in (0..turned.n).step_by(SIDE) {
            for k0 in (0..last.n).step_by(SIDE) {
                for i in i0..(i0 + SIDE).min(turned.n) {
                    let from = from + i as isize * turned.from + k0 as isize * last.from;
                    let target = &mut out[to + i * turned.to + k0..][..SIDE.min(last.n - k0)];
                    row(source, from, last.from, target);
                }
            }
        }
    });
}

/// Calls `work` with the offsets in source and result of every combination of indices.
fn each(axes: &[Axis], from: isize, to: usize, work: &mut impl FnMut(isize, usize)) {
    match axes.split_first() {
        None => work(from, to),
        Some((axis, rest)) => {
            for i in 0..axis.n {
                each(rest, from + i as isize * axis.from, to + i * axis.to, work);
            }
        }
    }
}

#[inline(always)]
fn row(source: &[f32], from: isize, step: isize, out: &mut [f32]) {
    match step {
        1 => out.copy_from_slice(&source[from as usize..][..out.len()]),
        -1 => {
            let first = (from + 1) as usize - out.len();
            out.iter_mut().zip(source[first..=from as usize].iter().rev()).for_each(|(v, s)| *v = *s);
        }
        _ => {
            for (i, value) in out.iter_mut().enumerate() {
                *value = source[(from + i as isize * step) as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tensor};
    use proptest::prelude::*;

    proptest! {
        /// Compares with Burn's own copy.
        #[test]
        fn views_are_copied_in_order(
            shape in prop::array::uniform4(1usize..40), order in Just([0i64, 1, 2, 3]).prop_shuffle(),
            flips in prop::array::uniform4(any::<bool>()), cut in 0usize..3,
        ) {
            let shape = [shape[0].min(3), shape[1], shape[2], shape[3]];
            let n = shape.iter().product::<usize>();
            let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut view = Tensor::<4>::from_data(TensorData::new(values, shape), &Device::flex());
            let start = cut.min(shape[3] - 1);
            view = view.slice([0..shape[0], 0..shape[1], 0..shape[2], start..shape[3]]).permute(order);
            for (axis, flip) in flips.into_iter().enumerate() {
                if flip {
                    view = view.flip([axis as i64]);
                }
            }
            let flex = view.try_into_primitive::<Flex>().expect("a CPU tensor");
            let expected = flex.to_contiguous().into_data().try_to_vec::<f32>().expect("values");
            prop_assert_eq!(packed(flex).into_data().try_to_vec::<f32>().expect("values"), expected);
        }
    }
}
