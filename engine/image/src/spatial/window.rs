//! Reads a box of an image and fills its outside by a rule: the basis of padding and patches.

use burn::tensor::{Int, Tensor, TensorData};
use hearth_kernels::host;
use rayon::prelude::*;

use super::BoundingBox;
use super::pad::PadMode;
use crate::TransformError;

/// Boxes with fewer values are copied by one thread.
const PARALLEL: usize = 1 << 17;

/// The values of `region` of a tensor `[C, X, Y, Z]`; the outside is `value` or copied, depending
/// on `mode`.
///
/// The result equals padding the whole image and cropping the box, but only the box is computed.
///
/// # Errors
/// If an axis is empty and the mode needs voxels to copy.
pub fn window(data: Tensor<4>, region: BoundingBox, mode: PadMode, value: f32) -> Result<Tensor<4>, TransformError> {
    let [c, x, y, z] = data.dims();
    let shape = [x, y, z];
    let device = data.device();
    let size: [usize; 3] = std::array::from_fn(|a| (region.end[a] - region.start[a]).max(0) as usize);
    let mut from: [Vec<i32>; 3] = Default::default();
    for axis in 0..3 {
        let outside = region.start[axis] < 0 || region.end[axis] > shape[axis] as i64;
        if outside && shape[axis] == 0 && mode != PadMode::Constant && size[axis] > 0 {
            return Err(TransformError::new(format!("axis {axis} is empty, {mode:?} padding has nothing to copy")));
        }
        from[axis] = sources(shape[axis], region.start[axis]..region.start[axis] + size[axis] as i64, mode);
    }
    // The part of the image that is needed.
    let needed: Option<Vec<(usize, usize)>> = from
        .iter()
        .map(|from| {
            let inside = || from.iter().filter(|i| **i >= 0).map(|i| *i as usize);
            Some((inside().min()?, inside().max()? + 1))
        })
        .collect();
    let Some(needed) = needed.filter(|_| c > 0) else {
        return Ok(Tensor::full([c, size[0], size[1], size[2]], value, &device));
    };
    let part = data.slice([0..c, needed[0].0..needed[0].1, needed[1].0..needed[1].1, needed[2].0..needed[2].1]);
    let plain =
        (0..3).all(|a| from[a].windows(2).all(|w| w[1] == w[0] + 1) && from[a].first().is_some_and(|i| *i >= 0));
    if plain {
        return Ok(part);
    }
    for (from, (first, _)) in from.iter_mut().zip(&needed) {
        from.iter_mut().filter(|i| **i >= 0).for_each(|i| *i -= *first as i32);
    }
    if let Some(out) = host::read(&part, |values| gather(values, part.dims(), &from, value)) {
        return Ok(Tensor::from_data(TensorData::new(out, [c, size[0], size[1], size[2]]), &device));
    }
    on_device(part, &from, value)
}

/// The voxel that each index of `range` copies from an axis of length `n`; -1 for the constant.
pub(super) fn sources(n: usize, range: std::ops::Range<i64>, mode: PadMode) -> Vec<i32> {
    let last = n as i64 - 1;
    range
        .map(|i| {
            let from = match mode {
                _ if (0..=last).contains(&i) => i,
                PadMode::Edge => i.clamp(0, last),
                PadMode::Wrap => i.rem_euclid(n as i64),
                PadMode::Reflect if last == 0 => 0,
                PadMode::Reflect => {
                    let folded = i.rem_euclid(2 * last);
                    folded.min(2 * last - folded)
                }
                PadMode::Symmetric => {
                    let folded = i.rem_euclid(2 * n as i64);
                    folded.min(2 * n as i64 - 1 - folded)
                }
                _ => -1,
            };
            from as i32
        })
        .collect()
}

/// A run of output voxels of one row that are copied at once.
enum Run {
    /// Consecutive voxels.
    Copy { to: usize, from: usize, len: usize },
    /// Consecutive voxels in reverse; `from` is the first and highest index.
    Reverse { to: usize, from: usize, len: usize },
    /// The constant.
    Fill { to: usize, len: usize },
}

fn runs(from: &[i32]) -> Vec<Run> {
    let mut out = Vec::new();
    let mut to = 0;
    while let Some(first) = from.get(to).copied() {
        let step = match from.get(to + 1) {
            Some(next) if first >= 0 && *next >= 0 && (next - first).abs() == 1 => next - first,
            _ => 0,
        };
        let mut len = 1;
        while from.get(to + len).is_some_and(|i| match first {
            -1 => *i == -1,
            _ => step != 0 && *i == first + step * len as i32,
        }) {
            len += 1;
        }
        out.push(match (first, step) {
            (-1, _) => Run::Fill { to, len },
            (first, -1) => Run::Reverse { to, from: first as usize, len },
            (first, _) => Run::Copy { to, from: first as usize, len },
        });
        to += len;
    }
    out
}

/// Copies row by row on the CPU, with threads over planes.
fn gather(values: &[f32], [_, nx, ny, nz]: [usize; 4], from: &[Vec<i32>; 3], value: f32) -> Vec<f32> {
    let channels = values.len() / (nx * ny * nz).max(1);
    let (sx, sy, sz) = (from[0].len(), from[1].len(), from[2].len());
    let mut out = vec![0.0_f32; channels * sx * sy * sz];
    if out.is_empty() {
        return out;
    }
    let along_z = runs(&from[2]);
    let plane = |(index, out): (usize, &mut [f32])| {
        let (c, x) = (index / sx, from[0][index % sx]);
        if x < 0 {
            return out.fill(value);
        }
        let plane = &values[(c * nx + x as usize) * ny * nz..][..ny * nz];
        for (row, y) in out.chunks_exact_mut(sz).zip(&from[1]) {
            if *y < 0 {
                row.fill(value);
                continue;
            }
            let source = &plane[*y as usize * nz..][..nz];
            for run in &along_z {
                match *run {
                    Run::Copy { to, from, len } => row[to..to + len].copy_from_slice(&source[from..from + len]),
                    Run::Reverse { to, from, len } => {
                        let reversed = source[from + 1 - len..=from].iter().rev();
                        row[to..to + len].iter_mut().zip(reversed).for_each(|(o, v)| *o = *v);
                    }
                    Run::Fill { to, len } => row[to..to + len].fill(value),
                }
            }
        }
    };
    if out.len() < PARALLEL {
        out.chunks_exact_mut(sy * sz).enumerate().for_each(plane);
    } else {
        out.par_chunks_exact_mut(sy * sz).enumerate().for_each(plane);
    }
    out
}

/// The same result by selections along each axis.
fn on_device(mut data: Tensor<4>, from: &[Vec<i32>; 3], value: f32) -> Result<Tensor<4>, TransformError> {
    let device = data.device();
    for (axis, from) in from.iter().enumerate() {
        let n = from.len();
        let index: Vec<i32> = from.iter().map(|i| (*i).max(0)).collect();
        data = data.select(axis + 1, Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &device));
        if from.contains(&-1) {
            let outside: Vec<f32> = from.iter().map(|i| if *i < 0 { 1.0 } else { 0.0 }).collect();
            let mut shape = [1; 4];
            shape[axis + 1] = n;
            let mask = Tensor::<1>::from_data(TensorData::new(outside, [n]), &device).reshape(shape).greater_elem(0.5);
            let dims = data.dims();
            data = data.mask_fill(mask.expand(dims), value);
        }
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `numpy.pad([0, 1, 2], (4, 5), mode)`.
    #[test]
    fn sources_are_numpys() {
        assert_eq!(sources(3, -4..8, PadMode::Reflect), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(sources(3, -4..8, PadMode::Symmetric), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(sources(3, -4..8, PadMode::Wrap), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(sources(3, -2..4, PadMode::Edge), [0, 0, 0, 1, 2, 2]);
        assert_eq!(sources(3, -2..4, PadMode::Constant), [-1, -1, 0, 1, 2, -1]);
    }

    fn mode() -> impl Strategy<Value = PadMode> {
        prop_oneof![
            Just(PadMode::Constant),
            Just(PadMode::Edge),
            Just(PadMode::Reflect),
            Just(PadMode::Symmetric),
            Just(PadMode::Wrap)
        ]
    }

    proptest! {
        /// Rows on the CPU, selections on a device, and a copy of single voxels agree.
        #[test]
        fn a_window_is_what_lies_there(
            shape in [1usize..5, 1usize..5, 1usize..5],
            start in [-7i64..7, -7i64..7, -7i64..7],
            size in [1i64..9, 1i64..9, 1i64..9],
            mode in mode(),
        ) {
            let [x, y, z] = shape;
            let values: Vec<f32> = (0..2 * x * y * z).map(|i| i as f32).collect();
            let data = Tensor::<4>::from_data(TensorData::new(values.clone(), [2, x, y, z]), &crate::host_device());
            let region = BoundingBox { start, end: std::array::from_fn(|a| start[a] + size[a]) };
            let from: [Vec<i32>; 3] = std::array::from_fn(|a| sources(shape[a], start[a]..region.end[a], mode));
            let mut expected = Vec::new();
            for c in 0..2 {
                for i in &from[0] {
                    for j in &from[1] {
                        for k in &from[2] {
                            expected.push(if *i < 0 || *j < 0 || *k < 0 {
                                -5.0
                            } else {
                                values[((c * x + *i as usize) * y + *j as usize) * z + *k as usize]
                            });
                        }
                    }
                }
            }
            let flat = |t: Tensor<4>| t.try_into_vec_as::<f32>().expect("values");
            let got = window(data.clone(), region, mode, -5.0).expect("voxels to copy");
            prop_assert_eq!(got.dims(), [2, from[0].len(), from[1].len(), from[2].len()]);
            prop_assert_eq!(flat(got), expected.clone());
            prop_assert_eq!(flat(on_device(data, &from, -5.0).expect("it runs")), expected);
        }
    }
}
