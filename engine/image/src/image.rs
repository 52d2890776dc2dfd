//! [`Image`]: a tensor, its position in the world, and its history.

use std::path::PathBuf;

use burn::tensor::{Device, Tensor, TensorData, TensorReadError};
use hearth_kernels::host;
use serde::{Deserialize, Serialize};

use crate::affine::{self, Affine};
use crate::host_device;
use crate::orientation::{self, Reorder};
use crate::spatial::lazy::Laziness;

/// A volume with its geometry. MONAI's `MetaTensor`.
///
/// 2-D images have `Z = 1` and `meta.spatial_dims = 2`.
///
/// ```
/// use hearth_image::{Image, host_device};
/// // Voxels of 0.5 x 0.5 x 2 mm, the first at (-90, -126, -72) mm.
/// let affine =
///     [[0.5, 0.0, 0.0, -90.0], [0.0, 0.5, 0.0, -126.0], [0.0, 0.0, 2.0, -72.0], [0.0, 0.0, 0.0, 1.0]];
/// let image = Image::from_values(vec![0.0; 24], [1, 2, 3, 4], affine, &host_device());
/// assert_eq!((image.channels(), image.shape()), (1, [2, 3, 4]));
/// assert_eq!((image.spacing(), image.orientation()), ([0.5, 0.5, 2.0], "RAS".to_owned()));
/// ```
#[derive(Clone, Debug)]
pub struct Image {
    /// Values `[C, X, Y, Z]`, f32.
    pub data: Tensor<4>,
    /// Matrix from voxel index to mm, RAS+.
    pub affine: Affine,
    /// Metadata of the file, and the transforms applied since.
    pub meta: Meta,
}

/// The metadata of an image.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Meta {
    /// Path of the file that the image was read from.
    pub path: Option<PathBuf>,
    /// Number of spatial axes, 2 or 3.
    pub spatial_dims: usize,
    /// Type of the values in the file: `int16`, `float32`, ...
    pub stored_type: String,
    /// Affine when the image was loaded.
    pub original_affine: Affine,
    /// Shape in the file, in its own axis order.
    pub original_shape: Vec<usize>,
    /// Axis of the file that held channels; `None` if there was none and one was added.
    pub original_channel_dim: Option<i64>,
    /// World coordinates of the affine: `RAS` (default) or `LPS`.
    pub space: Space,
    /// Spatial operations since loading, in order; [`Image::undo_last`] inverts them.
    pub applied: Vec<Applied>,
    /// The file's header; it is written with the image, or with a prediction on its grid.
    pub header: Option<std::sync::Arc<crate::nifti::Header>>,
    /// Pending operations on the values. Empty outside a pipeline.
    pub(crate) lazy: Laziness,
}

/// Direction of the world axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Space {
    /// Right, Anterior, Superior.
    #[default]
    Ras,
    /// Left, Posterior, Superior.
    Lps,
}

impl Space {
    /// The labels of the axes.
    pub fn labels(self) -> orientation::Labels {
        match self {
            Space::Ras => orientation::RAS_LABELS,
            Space::Lps => orientation::LPS_LABELS,
        }
    }
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            path: None,
            spatial_dims: 3,
            stored_type: "float32".to_owned(),
            original_affine: affine::IDENTITY,
            original_shape: Vec::new(),
            original_channel_dim: None,
            space: Space::Ras,
            applied: Vec::new(),
            header: None,
            lazy: Laziness::Off,
        }
    }
}

/// An applied spatial operation, with the data to invert it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Applied {
    /// Axes permuted and flipped (Orientation, Flip, Rotate90).
    Reorder(Reorder),
    /// A part was cropped out.
    Crop {
        /// First voxel kept, per axis.
        start: [usize; 3],
        /// Shape before the crop.
        shape: [usize; 3],
    },
    /// Voxels were added.
    Pad {
        /// Voxels added before, per axis.
        before: [usize; 3],
        /// Voxels added after, per axis.
        after: [usize; 3],
    },
    /// A volume of one slice became a 2-D image.
    Flatten,
    /// Resampled onto another grid.
    Resample {
        /// Affine before the operation.
        affine: Affine,
        /// Shape before the operation.
        shape: [usize; 3],
        /// How the values were sampled.
        sampling: crate::spatial::GridSampling,
    },
    /// Resized by a mode that is not linear (Resize, Zoom).
    Resize {
        /// Affine before the operation.
        affine: Affine,
        /// Shape before the operation.
        shape: [usize; 3],
        /// Number of axes before the operation.
        spatial_dims: usize,
        /// Interpolation mode.
        mode: crate::spatial::ResizeMode,
        /// Whether the centres of the corner voxels, rather than their outer corners, were aligned.
        align_corners: bool,
    },
    /// Sampled through a matrix (Rotate, Affine, Zoom).
    Warp {
        /// Affine before the operation.
        affine: Affine,
        /// Shape before the operation.
        shape: [usize; 3],
        /// Matrix from the earlier voxels to the positions that the inverse reads.
        back: Affine,
        /// How the values were sampled.
        sampling: crate::spatial::GridSampling,
    },
    /// Put onto another grid by a step that has its own inverse, in another crate.
    Foreign {
        /// Affine before the operation.
        affine: Affine,
        /// Shape before the operation.
        shape: [usize; 3],
        /// How the values are sampled back where the inverse is not available.
        sampling: crate::spatial::GridSampling,
        /// The inverse, as that crate describes it.
        inverse: String,
    },
}

/// Voxels by which two grids may differ and still be the same, for the rounding of f32 and of quaternions.
const APART: f64 = 0.02;

impl Image {
    /// Creates an image of values `[C, X, Y, Z]` that does not come from a file.
    pub fn new(data: Tensor<4>, affine: Affine) -> Self {
        let [_, x, y, z] = data.dims();
        let meta = Meta { original_affine: affine, original_shape: vec![x, y, z], ..Meta::default() };
        Image { data, affine, meta }
    }

    /// Creates an image from values in row-major order (`Z` fastest).
    ///
    /// # Panics
    /// If the number of values is not the product of the shape.
    pub fn from_values(values: Vec<f32>, shape: [usize; 4], affine: Affine, device: &Device) -> Self {
        Image::new(Tensor::from_data(TensorData::new(values, shape), device), affine)
    }

    /// The same voxels on the axes of another grid, without resampling: `None` unless the grids have the
    /// same voxels, apart from the order and the direction of their axes.
    ///
    /// ```
    /// use hearth_image::{Image, affine, host_device};
    ///
    /// let image = Image::from_values(vec![1.0, 2.0, 3.0], [1, 3, 1, 1], affine::IDENTITY, &host_device());
    /// let mut turned = affine::IDENTITY;
    /// (turned[0][0], turned[0][3]) = (-1.0, 2.0);
    /// assert_eq!(image.on_axes_of([3, 1, 1], &turned).expect("the same voxels").to_vec(), [3.0, 2.0, 1.0]);
    /// ```
    pub fn on_axes_of(&self, shape: [usize; 3], grid: &Affine) -> Option<Self> {
        // From voxels of the other grid to voxels of this one.
        let map = affine::compose(&affine::inverse(&self.affine)?, grid);
        let own = self.shape();
        let (mut axes, mut flipped) = (Vec::new(), Vec::new());
        for axis in 0..3 {
            // The deviation over the whole axis counts.
            let off = |row: usize, expected: f64| (map[row][axis].abs() - expected).abs() * shape[axis] as f64 <= APART;
            let along = (0..3).find(|row| off(*row, 1.0) && (0..3).all(|other| other == *row || off(other, 0.0)))?;
            let backwards = map[along][axis] < 0.0;
            let start = if backwards { shape[axis] as f64 - 1.0 } else { 0.0 };
            if axes.contains(&(along as isize + 1))
                || own[along] != shape[axis]
                || (map[along][3] - start).abs() > APART
            {
                return None;
            }
            axes.push(along as isize + 1);
            if backwards {
                flipped.push(axis as isize + 1);
            }
        }
        let data = self.data.clone().permute([0, axes[0], axes[1], axes[2]]);
        let data = flipped.into_iter().fold(data, |data, axis: isize| data.flip([axis]));
        Some(Self { data, affine: *grid, meta: self.meta.clone() })
    }

    /// Sets the number of spatial axes, 2 or 3.
    pub fn with_spatial_dims(mut self, spatial_dims: usize) -> Self {
        self.meta.spatial_dims = spatial_dims;
        self
    }

    /// The number of channels.
    pub fn channels(&self) -> usize {
        self.data.dims()[0]
    }

    /// The shape `[X, Y, Z]`. Within a lazy run of a pipeline this is the shape of the result,
    /// which is not sampled yet.
    pub fn shape(&self) -> [usize; 3] {
        let [_, x, y, z] = self.data.dims();
        self.meta.lazy.shape().unwrap_or([x, y, z])
    }

    /// The shape of the spatial axes: 2 entries for a 2-D image.
    pub fn spatial_shape(&self) -> Vec<usize> {
        self.shape()[..self.meta.spatial_dims].to_vec()
    }

    /// The voxel size in mm.
    pub fn spacing(&self) -> [f64; 3] {
        affine::spacing(&self.affine)
    }

    /// The orientation code, for instance `RAS`.
    pub fn orientation(&self) -> String {
        orientation::codes(&self.affine, self.meta.spatial_dims, &self.meta.space.labels())
    }

    /// Copies the values from the device, in row-major order.
    ///
    /// # Panics
    /// If the device did not compute them.
    pub fn to_vec(&self) -> Vec<f32> {
        host::values(&self.data)
    }

    /// Calls `read` with the values in row-major order; values in host memory are not copied.
    ///
    /// # Panics
    /// If the device did not compute them.
    pub fn with_values<R>(&self, read: impl FnOnce(&[f32]) -> R) -> R {
        let mut read = Some(read);
        let seen = host::read(&self.data, |values| read.take().map(|read| read(values))).flatten();
        match (seen, read) {
            (Some(seen), _) => seen,
            (None, Some(read)) => read(&self.to_vec()),
            (None, None) => unreachable!("`host::read` calls its function once, and then gives its result"),
        }
    }

    /// The same image with its values in host memory.
    ///
    /// # Errors
    /// If the device did not compute the values: it is out of memory, its driver failed, or it is
    /// lost.
    pub fn to_host(self) -> Result<Self, TensorReadError> {
        let host = host_device();
        if self.data.device() == host {
            return Ok(self);
        }
        Ok(Image { data: Tensor::from_data(self.data.try_into_data_as::<f32>()?, &host), ..self })
    }

    /// The number of bytes of the values.
    pub fn bytes(&self) -> usize {
        self.data.dims().iter().product::<usize>() * self.data.dtype().size()
    }

    /// Changes the values; their grid must stay the same.
    ///
    /// ```
    /// # use hearth_image::{Image, affine::IDENTITY, host_device};
    /// let image = Image::from_values(vec![-1.0, 2.0], [1, 2, 1, 1], IDENTITY, &host_device());
    /// assert_eq!(image.map(|values| values.clamp_min(0.0)).to_vec(), [0.0, 2.0]);
    /// ```
    #[must_use]
    pub fn map(self, change: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Self {
        Self { data: change(self.data), ..self }
    }

    /// The same image with its values on another device.
    pub fn to_device(mut self, device: &Device) -> Self {
        if self.data.device() != *device {
            self.data = self.data.to_device(device);
        }
        self
    }

    /// Inverts the last spatial operation; an image without one is returned unchanged. `nearest`
    /// forces nearest interpolation, whatever the forward mode was. [`Applied::Foreign`] is sampled
    /// back, because another crate has its own inverse.
    ///
    /// # Errors
    /// Where an affine cannot be inverted, or the image no longer has the shape that the operation
    /// produced.
    pub fn undo_last(mut self, nearest: bool) -> Result<Self, crate::TransformError> {
        match self.meta.applied.pop() {
            Some(applied) => crate::spatial::undo(self, &applied, nearest),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::{IDENTITY, apply, compose};

    /// Every order and direction of the axes of a tilted grid: each voxel keeps its place.
    #[test]
    fn the_same_voxels_in_any_order_and_direction() {
        let shape = [2, 3, 4];
        let tilted = [[0.7, 0.1, 0.0, 5.0], [-0.1, 0.8, 0.2, -3.0], [0.0, -0.2, 3.0, 9.0], IDENTITY[3]];
        let values: Vec<f32> = (0..24).map(|value| value as f32).collect();
        let image = Image::from_values(values, [1, 2, 3, 4], tilted, &host_device());
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for flips in 0..8_usize {
                let mut change = [[0.0; 4], [0.0; 4], [0.0; 4], IDENTITY[3]];
                for axis in 0..3 {
                    let backwards = flips >> axis & 1 == 1;
                    change[order[axis]][axis] = if backwards { -1.0 } else { 1.0 };
                    change[order[axis]][3] = if backwards { shape[order[axis]] as f64 - 1.0 } else { 0.0 };
                }
                let grid = compose(&tilted, &change);
                let size = order.map(|axis| shape[axis]);
                let turned = image.on_axes_of(size, &grid).expect("the same voxels");
                assert_eq!(turned.shape(), size);
                let (all, own) = (turned.to_vec(), image.to_vec());
                for (index, value) in all.iter().enumerate() {
                    let at = [index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]];
                    let source = apply(&change, at.map(|i| i as f64)).map(|i| i as usize);
                    assert_eq!(*value, own[(source[0] * 3 + source[1]) * 4 + source[2]], "{order:?} {flips}");
                }
            }
        }
    }

    #[test]
    fn other_voxels_are_no_order_of_axes() {
        let image = Image::from_values(vec![0.0; 24], [1, 2, 3, 4], IDENTITY, &host_device());
        let with = |change: fn(&mut Affine)| {
            let mut grid = IDENTITY;
            change(&mut grid);
            grid
        };
        assert!(image.on_axes_of([2, 3, 4], &IDENTITY).is_some());
        assert!(image.on_axes_of([2, 3, 5], &IDENTITY).is_none(), "another size");
        for grid in [
            with(|grid| grid[0][3] = 0.5),
            with(|grid| grid[0][0] = 1.1),
            with(|grid| grid[0][1] = 0.1),
            with(|grid| grid[2][2] = -1.0),
            with(|grid| grid[0][0] = 0.0),
        ] {
            assert!(image.on_axes_of([2, 3, 4], &grid).is_none(), "{grid:?}");
        }
    }
}
