//! Weighted sums along one axis after the other, to which resizing and every change of spacing
//! reduce.

mod cpu;
#[cfg(feature = "cube")]
pub(crate) mod cube;
mod fallback;
mod ops;

use burn::tensor::{DType, Tensor};

use crate::cast::cast;

pub(crate) use ops::has_kernel;

/// The input indices that each output index reads along one axis, and their weights. All have the
/// same number of taps.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisTaps {
    taps: usize,
    index: Vec<u32>,
    weight: Vec<f32>,
}

impl AxisTaps {
    /// Makes a table from `taps` pairs of index and weight per output index, one output after the
    /// other.
    ///
    /// # Panics
    /// Where the lengths of the lists differ, or are not a multiple of `taps`.
    pub fn new(taps: usize, index: Vec<u32>, weight: Vec<f32>) -> Self {
        assert!(taps > 0 && index.len() == weight.len() && index.len().is_multiple_of(taps), "lists of {taps} taps");
        AxisTaps { taps, index, weight }
    }

    /// The number of output indices.
    pub fn len(&self) -> usize {
        self.index.len() / self.taps
    }

    /// Whether there is no output index.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether the table leaves an axis of `n` voxels unchanged.
    pub fn is_identity(&self, n: usize) -> bool {
        self.len() == n && self.copied_from() == Some(0)
    }

    /// The first index that is read, where consecutive outputs copy consecutive inputs.
    pub(crate) fn copied_from(&self) -> Option<usize> {
        let first = *self.index.first()? as usize;
        let plain = |o: usize| {
            let (index, weight) = self.of(o);
            let t = weight.iter().position(|w| *w != 0.0)?;
            let only = weight[t] == 1.0 && weight[t + 1..].iter().all(|w| *w == 0.0);
            only.then_some(index[t] as usize)
        };
        let first = plain(0).unwrap_or(first);
        (0..self.len()).all(|o| plain(o) == Some(first + o)).then_some(first)
    }

    /// Whether every index lies within an axis of `n` voxels.
    pub(crate) fn reads_within(&self, n: usize) -> bool {
        self.index.iter().all(|i| (*i as usize) < n)
    }

    /// The table that maps a gradient back to an axis of `n` voxels: the same pairs, listed by
    /// input index. Shorter lists are padded with weight 0.
    pub(crate) fn transposed(&self, n: usize) -> AxisTaps {
        let mut lists = vec![Vec::new(); n];
        for o in 0..self.len() {
            let (index, weight) = self.of(o);
            for (i, w) in index.iter().zip(weight).filter(|(_, w)| **w != 0.0) {
                lists[*i as usize].push((o as u32, *w));
            }
        }
        let taps = lists.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (mut index, mut weight) = (Vec::with_capacity(n * taps), Vec::with_capacity(n * taps));
        for list in &lists {
            let last = list.last().map_or(0, |(o, _)| *o);
            for t in 0..taps {
                let (o, w) = list.get(t).copied().unwrap_or((last, 0.0));
                index.push(o);
                weight.push(w);
            }
        }
        AxisTaps::new(taps, index, weight)
    }

    /// The number of taps of an output index.
    pub(crate) fn taps(&self) -> usize {
        self.taps
    }

    /// The indices and weights of one output index.
    #[inline(always)]
    pub(crate) fn of(&self, o: usize) -> (&[u32], &[f32]) {
        let range = o * self.taps..(o + 1) * self.taps;
        (&self.index[range.clone()], &self.weight[range])
    }

    /// All indices and weights, output after output.
    pub(crate) fn lists(&self) -> (&[u32], &[f32]) {
        (&self.index, &self.weight)
    }
}

/// Applies one table per axis to `image` (`[C, X, Y, Z]`): `out[c, x, y, z]` is the sum of
/// `image[c, i, j, k] * weight_x(x, i) * weight_y(y, j) * weight_z(z, k)` over the taps of the
/// three tables. The result has the length of each table along its axis. For an image with an empty
/// axis the result is zeros. Gradients flow to the image.
///
/// # Panics
/// Where a table reads an index that the image does not have.
pub fn separable(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    let dtype = image.dtype();
    if matches!(dtype, DType::F16 | DType::BF16) {
        // The weights are f32, and so are the sums.
        return cast(separable(cast(image, DType::F32), axes), dtype);
    }
    let run = if ops::has_kernel(&image) { ops::separable } else { fallback::separable };
    prepared(image, axes, run)
}

/// Same as [`separable`], with ordinary tensor operations only: the fallback for devices without a
/// kernel, and the reference in tests of the kernels.
///
/// # Panics
/// Same as [`separable`].
pub fn separable_with_tensor_ops(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    prepared(image, axes, fallback::separable)
}

fn prepared(
    image: Tensor<4>,
    axes: &[AxisTaps; 3],
    run: impl FnOnce(Tensor<4>, &[AxisTaps; 3]) -> Tensor<4>,
) -> Tensor<4> {
    let dims = image.dims();
    let size = axes.each_ref().map(AxisTaps::len);
    if dims.contains(&0) || size.contains(&0) {
        return Tensor::zeros([dims[0], size[0], size[1], size[2]], &image.device());
    }
    for (axis, table) in axes.iter().enumerate() {
        let n = dims[axis + 1];
        assert!(table.reads_within(n), "a table of axis {axis} reads beyond its {n} voxels");
    }
    if (0..3).all(|axis| axes[axis].is_identity(dims[axis + 1])) {
        return image;
    }
    run(image, axes)
}
