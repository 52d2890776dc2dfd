//! Copies on the CPU at memory bandwidth: strided views (crops, flips, transpositions) into
//! row-major order.
//!
//! Contiguous rows are copied at once, transposed axes tile by tile, and large copies by several
//! threads.

use std::mem::MaybeUninit;

use rayon::prelude::*;

/// The number of values below which one thread copies.
const PARALLEL: usize = 1 << 16;
/// The side of the tiles in which two axes are transposed: a cache line of f32.
const TILE: usize = 16;

/// A part of a buffer: its start, and the distance between neighbours along each axis.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    values: &'a [f32],
    start: isize,
    /// Length and stride of each axis; neighbouring contiguous axes are merged.
    axes: Vec<(usize, isize)>,
}

impl<'a> View<'a> {
    /// The view of `shape` and `strides` (in values) that begins at `start`.
    pub(crate) fn new(values: &'a [f32], shape: &[usize], strides: &[isize], start: usize) -> Self {
        let mut axes: Vec<(usize, isize)> = Vec::with_capacity(shape.len());
        for (length, stride) in shape.iter().copied().zip(strides.iter().copied()).filter(|(length, _)| *length != 1) {
            match axes.last_mut() {
                Some(last) if last.1 == stride * length as isize => *last = (last.0 * length, stride),
                _ => axes.push((length, stride)),
            }
        }
        if axes.is_empty() {
            axes.push((1, 1));
        }
        View { values, start: start as isize, axes }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.axes.iter().map(|(length, _)| length).product()
    }

    /// Parts of about `target` values that follow each other in row-major order.
    fn split(&self, target: usize, parts: &mut Vec<Self>) {
        let (length, stride) = self.axes[0];
        let each = self.len() / length.max(1);
        if self.len() <= target {
            return parts.push(self.clone());
        }
        let along = |from: usize| self.start + from as isize * stride;
        if each > target {
            for from in 0..length {
                let part = View { values: self.values, start: along(from), axes: self.axes[1..].to_vec() };
                part.split(target, parts);
            }
            return;
        }
        // Whole tiles where this axis is transposed.
        let step = if stride.abs() == 1 { (target / each).next_multiple_of(TILE) } else { target / each };
        for from in (0..length).step_by(step.max(1)) {
            let mut part = View { start: along(from), ..self.clone() };
            part.axes[0].0 = step.min(length - from);
            parts.push(part);
        }
    }

    /// Writes all values in row-major order.
    fn write(&self, out: &mut [MaybeUninit<f32>]) {
        let (outer, &(length, stride)) = match self.axes.split_last() {
            Some((last, outer)) => (outer, last),
            None => return,
        };
        // Values with stride 1 are contiguous; where that is not the last axis, this axis and the
        // last are transposed tile by tile.
        let together = outer.iter().position(|(_, stride)| stride.abs() == 1).filter(|_| stride.abs() != 1);
        let Some(other) = together else {
            let rows = out.chunks_exact_mut(length);
            return rows.zip(starts(outer, self.start)).for_each(|(row, start)| self.row(row, start, stride));
        };
        let (count, other_stride) = outer[other];
        let rest: Vec<(usize, isize)> = [&outer[..other], &outer[other + 1..]].concat();
        // The strides of the same order in the output.
        let mut steps = vec![1; self.axes.len()];
        for axis in (0..outer.len()).rev() {
            steps[axis] = steps[axis + 1] * self.axes[axis + 1].0 as isize;
        }
        let other_step = steps.remove(other) as usize;
        let rest_out: Vec<(usize, isize)> = rest.iter().zip(&steps).map(|((n, _), step)| (*n, *step)).collect();
        for (start, to) in starts(&rest, self.start).zip(starts(&rest_out, 0)) {
            for i0 in (0..count).step_by(TILE) {
                for j0 in (0..length).step_by(TILE) {
                    for i in i0..(i0 + TILE).min(count) {
                        let row = &mut out[to as usize + i * other_step..][..length];
                        let from = start + i as isize * other_stride;
                        let end = (j0 + TILE).min(length);
                        for (j, place) in (j0..end).zip(&mut row[j0..end]) {
                            place.write(self.values[(from + j as isize * stride) as usize]);
                        }
                    }
                }
            }
        }
    }

    fn row(&self, row: &mut [MaybeUninit<f32>], start: isize, stride: isize) {
        let (first, n) = (start as usize, row.len());
        match stride {
            1 => _ = row.write_copy_of_slice(&self.values[first..first + n]),
            -1 => {
                let reversed = self.values[first + 1 - n..=first].iter().rev();
                row.iter_mut().zip(reversed).for_each(|(place, value)| _ = place.write(*value));
            }
            _ => row.iter_mut().enumerate().for_each(|(i, place)| {
                place.write(self.values[(start + i as isize * stride) as usize]);
            }),
        }
    }
}

/// The start of each row of the outer axes, in row-major order.
fn starts(outer: &[(usize, isize)], start: isize) -> impl Iterator<Item = isize> {
    let count: usize = outer.iter().map(|(length, _)| length).product();
    let mut place = vec![0; outer.len()];
    let mut at = start;
    let outer = outer.to_vec();
    (0..count).map(move |_| {
        let now = at;
        for (place, (length, stride)) in place.iter_mut().zip(&outer).rev() {
            *place += 1;
            at += stride;
            if *place < *length {
                break;
            }
            at -= *place as isize * stride;
            *place = 0;
        }
        now
    })
}

/// The values of several views, one after another, each in row-major order.
pub(crate) fn pack(views: &[View<'_>]) -> Vec<f32> {
    let total: usize = views.iter().map(View::len).sum();
    let mut out: Vec<f32> = Vec::with_capacity(total);
    let parallel = total >= PARALLEL && rayon::current_num_threads() > 1;
    let target = if parallel { total.div_ceil(4 * rayon::current_num_threads()) } else { total };
    let mut parts = Vec::new();
    views.iter().filter(|view| view.len() > 0).for_each(|view| view.split(target, &mut parts));
    let mut rest = &mut out.spare_capacity_mut()[..total];
    let pieces: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let (piece, after) = std::mem::take(&mut rest).split_at_mut(part.len());
            rest = after;
            (piece, part)
        })
        .collect();
    if parallel {
        pieces.into_par_iter().for_each(|(piece, part)| part.write(piece));
    } else {
        pieces.into_iter().for_each(|(piece, part)| part.write(piece));
    }
    // SAFETY: `total` values have been reserved; the pieces are consecutive and cover them, and
    // `View::write` writes every value of its piece.
    unsafe { out.set_len(total) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference, one value at a time.
    fn plain(values: &[f32], shape: &[usize], strides: &[isize], start: usize) -> Vec<f32> {
        let count: usize = shape.iter().product();
        (0..count)
            .map(|flat| {
                let (mut rest, mut at) = (flat, start as isize);
                for (length, stride) in shape.iter().zip(strides).rev() {
                    at += (rest % length) as isize * stride;
                    rest /= length;
                }
                values[at as usize]
            })
            .collect()
    }

    proptest! {
        /// Any crop, flip and permutation of a volume.
        #[test]
        fn views_are_packed(
            shape in prop::array::uniform4(1usize..40),
            order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
            flips in prop::array::uniform4(any::<bool>()),
            cut in prop::array::uniform4(0.0f64..1.0),
        ) {
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|v| v as f32).collect();
            let (mut lengths, mut strides, mut start) = ([0; 4], [0; 4], 0);
            let mut stride = 1;
            for axis in (0..4).rev() {
                let first = (cut[axis] * shape[axis] as f64) as usize;
                lengths[axis] = shape[axis] - first;
                strides[axis] = if flips[axis] { -stride } else { stride };
                start += (if flips[axis] { shape[axis] - 1 } else { first }) * stride as usize;
                stride *= shape[axis] as isize;
            }
            let lengths: Vec<usize> = order.iter().map(|a| lengths[*a]).collect();
            let strides: Vec<isize> = order.iter().map(|a| strides[*a]).collect();
            let view = View::new(&values, &lengths, &strides, start);
            let expected = plain(&values, &lengths, &strides, start);
            prop_assert_eq!(view.len(), expected.len());
            prop_assert_eq!(pack(&[view.clone(), view]), [expected.clone(), expected].concat());
        }
    }

    #[test]
    fn large_views_are_packed_by_several_threads() {
        let shape = [3, 70, 80, 60];
        let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|v| v as f32).collect();
        for (lengths, strides, start) in [
            ([3, 70, 80, 60], [336_000, 4800, 60, 1], 0),
            ([3, 60, 80, 70], [336_000, 1, 60, 4800], 0),
            ([3, 70, 80, 60], [336_000, 4800, -60, -1], 4799),
            ([80, 60, 3, 70], [60, 1, 336_000, 4800], 0),
        ] {
            assert_eq!(
                pack(&[View::new(&values, &lengths, &strides, start)]),
                plain(&values, &lengths, &strides, start)
            );
        }
    }

    #[test]
    fn empty_and_single_views() {
        assert!(pack(&[View::new(&[], &[0, 3], &[3, 1], 0)]).is_empty());
        assert!(pack(&[View::new(&[1.0, 2.0], &[2, 0], &[1, 1], 0)]).is_empty());
        assert_eq!(pack(&[View::new(&[1.0, 2.0], &[1, 1], &[1, 1], 1)]), [2.0]);
        assert!(pack(&[]).is_empty());
    }
}
