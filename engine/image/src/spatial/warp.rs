//! Samples an image through a matrix: rotations, zooms and every other affine transform.

use burn::tensor::Tensor;

use super::grid::lone_voxels;
use super::lazy::{self, Step};
use super::{GridMode, GridPadding, GridSampling, RotateOrder, rotation};
use crate::OneOrMany;
use crate::TransformError;
use crate::affine::{self, Affine};
use crate::image::{Applied, Image};

/// The maximum length of an axis of a resampled image.
const LONGEST: usize = 65_536;

/// The maximum number of values of a resampled image: 32 GiB of f32, the limit for a file.
const LARGEST: usize = 1 << 33;

/// Rejects grids that are too large to resample to, or empty.
///
/// # Errors
/// If an axis is empty or longer than 65536 voxels, or all channels together have more than 2^33
/// values.
pub fn check_grid(channels: usize, size: [usize; 3]) -> Result<(), TransformError> {
    let total = size.iter().try_fold(channels, |all, n| all.checked_mul(*n));
    if size.contains(&0) {
        Err(TransformError::new(format!("no voxel is left of the image: the new size is {size:?}"))
            .expected("at least one voxel along each axis"))
    } else if size.iter().any(|n| *n > LONGEST) || total.is_none_or(|n| n > LARGEST) {
        Err(TransformError::new(format!("the new size is {size:?}, with {channels} channels"))
            .expected(format!("at most {LONGEST} voxels along an axis, and {LARGEST} values"))
            .advice("check the size or the factor that is asked for"))
    } else {
        Ok(())
    }
}

/// A mapping by which one grid is sampled from another, and its inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warp {
    size: [usize; 3],
    /// Matrix from a new voxel to the position that is read.
    sample: Affine,
    /// Matrix from a new voxel to the old voxel at the same position in the world. It differs from
    /// `sample` where MONAI's matrices do.
    place: Affine,
    /// Matrix from an old voxel to the position that the inverse reads.
    back: Affine,
}

impl Warp {
    /// Creates MONAI's `AffineTransform`, used by `Rotate`: voxel `o` of the new grid reads the old
    /// one at `matrix * o`.
    ///
    /// # Errors
    /// If the matrix can't be inverted.
    pub fn voxels(
        matrix: &Affine,
        shape: [usize; 3],
        size: [usize; 3],
        n: usize,
        align_corners: bool,
    ) -> Result<Self, TransformError> {
        let matrix = affine::restrict(matrix, n);
        let sample = |matrix, from, to| if align_corners { lone_voxels(matrix, from, to, n) } else { matrix };
        Ok(Warp {
            size,
            sample: sample(matrix, shape, size),
            place: matrix,
            back: sample(inverse(&matrix)?, size, shape),
        })
    }

    /// Creates a rotation about the centre by one angle in 2-D, or three in 3-D (radians). Without
    /// `keep_size` the new grid covers the whole image.
    ///
    /// # Errors
    /// If the number of angles is wrong, or one is not finite.
    pub fn rotation(
        angles: &[f64],
        order: &RotateOrder,
        shape: [usize; 3],
        n: usize,
        keep_size: bool,
        align_corners: bool,
    ) -> Result<Self, TransformError> {
        let wanted = if n < 3 { 1 } else { 3 };
        if angles.len() != wanted || angles.iter().any(|a| !a.is_finite()) {
            return Err(TransformError::new(format!("an image of {n} axes can't be rotated by {angles:?}"))
                .expected(if n < 3 { "one finite angle in radians" } else { "three finite angles in radians" }));
        }
        let turn = rotation(n, angles, order)?;
        let mut size = shape;
        if !keep_size {
            for axis in 0..n {
                // The corners of the rotated box: its extent is the sum of the extents of its
                // edges.
                let extent: f64 = (0..n).map(|c| (turn[axis][c] * shape[c] as f64).abs()).sum();
                size[axis] = (extent + 0.5) as usize;
            }
        }
        Warp::voxels(&between_centres(&turn, shape, size, n), shape, size, n, align_corners)
    }

    /// Creates MONAI's `AffineGrid` and `Resample`, used by `Affine`: the matrix acts about the
    /// centres of both grids.
    ///
    /// With `align_corners` distances are measured in units in which the centres of the corner
    /// voxels are the corners of both grids; the image's affine does not account for that (as in
    /// MONAI). With `normalized` the matrix yields positions in the range of PyTorch's samplers, -1
    /// to 1.
    ///
    /// # Errors
    /// If the matrix can't be inverted.
    pub fn about_centre(
        matrix: &Affine,
        shape: [usize; 3],
        size: [usize; 3],
        n: usize,
        align_corners: bool,
        normalized: bool,
    ) -> Result<Self, TransformError> {
        let matrix = affine::restrict(matrix, n);
        let sample = |matrix: &Affine, from: [usize; 3], to: [usize; 3]| {
            let read = diagonal(n, |a| reading_scale(from[a], align_corners, normalized));
            let write = diagonal(n, |a| match to[a].max(2) as f64 {
                n if align_corners => n / (n - 1.0),
                _ => 1.0,
            });
            let scaled = affine::compose(&read, &affine::compose(matrix, &write));
            between_centres(&scaled, from, to, n)
        };
        Ok(Warp {
            size,
            sample: sample(&matrix, shape, size),
            place: between_centres(&matrix, shape, size, n),
            back: sample(&inverse(&matrix)?, size, shape),
        })
    }

    /// The matrix from a new voxel to the old voxel at the same position in the world.
    pub fn matrix(&self) -> &Affine {
        &self.place
    }

    /// The matrix from a new voxel to the position that is read.
    pub(super) fn sample(&self) -> &Affine {
        &self.sample
    }

    /// The matrix from an old voxel to the position that the inverse reads.
    pub(super) fn back(&self) -> &Affine {
        &self.back
    }
}

/// The scale from a position relative to the image's centre to voxels, as in `Resample`: one voxel,
/// except for an axis of one voxel.
fn reading_scale(length: usize, align_corners: bool, normalized: bool) -> f64 {
    let (length, at_least_2) = (length as f64, length.max(2) as f64);
    let extent = if align_corners { length - 1.0 } else { length };
    extent / if normalized { 2.0 } else { at_least_2 }
}

fn diagonal(n: usize, value: impl Fn(usize) -> f64) -> Affine {
    let mut out = affine::IDENTITY;
    for (axis, row) in out.iter_mut().enumerate().take(n) {
        row[axis] = value(axis);
    }
    out
}

/// Converts a matrix about the centres to one between voxel indices.
fn between_centres(matrix: &Affine, shape: [usize; 3], size: [usize; 3], n: usize) -> Affine {
    let centre = |size: [usize; 3]| std::array::from_fn(|a| if a < n { (size[a] as f64 - 1.0) / 2.0 } else { 0.0 });
    let to_centre = affine::translation(centre(size).map(|v: f64| -v));
    affine::compose(&affine::translation(centre(shape)), &affine::compose(matrix, &to_centre))
}

fn inverse(matrix: &Affine) -> Result<Affine, TransformError> {
    affine::inverse(matrix).ok_or_else(|| {
        TransformError::new(format!("the matrix {:?} can't be inverted", &matrix[..3]))
            .expected("factors of scaling that are not 0")
    })
}

impl GridSampling {
    /// Returns the sampling of the key at this index; mode and padding are given for all keys or
    /// for each.
    pub fn of_key(
        place: usize,
        mode: &OneOrMany<GridMode>,
        padding_mode: &OneOrMany<GridPadding>,
        align_corners: bool,
    ) -> Self {
        let (mode, padding_mode) = (mode.at(place).unwrap_or_default(), padding_mode.at(place).unwrap_or_default());
        GridSampling { mode, padding_mode, align_corners }
    }
}

/// Samples an image through a matrix and updates the affine; [`Image::undo_last`] samples back.
///
/// # Errors
/// As [`check_grid`].
pub fn warp(image: Image, how: &Warp, sampling: GridSampling) -> Result<Image, TransformError> {
    check_grid(image.channels(), how.size)?;
    let (affine, shape) = (image.affine, image.shape());
    let mut image = lazy::sample(image, Step { place: how.place, read: how.sample, size: how.size, sampling })?;
    image.affine = affine::compose(&affine, &how.place);
    image.meta.applied.push(Applied::Warp { affine, shape, back: how.back, sampling });
    Ok(image)
}

/// Samples an image at explicit positions: `grid` is `[axes, X', Y', Z']`, in voxels from the
/// centre of the image, or without `norm_coords` from -1 to 1 over it (for splines in voxels from
/// its start). The affine is unchanged, and the operation is not recorded, so it cannot be
/// inverted.
///
/// # Errors
/// If the grid has fewer axes than the image.
pub fn resample_at(
    image: Image,
    grid: Tensor<4>,
    norm_coords: bool,
    sampling: GridSampling,
) -> Result<Image, TransformError> {
    let mut image = lazy::flush(image)?;
    let (n, shape) = (image.meta.spatial_dims, image.shape());
    let [axes, x, y, z] = grid.dims();
    if axes < n {
        return Err(TransformError::new(format!("a grid of {axes} axes")).expected(format!("{n}, as the image has")));
    }
    let align_corners = sampling.align_corners;
    let spline = matches!(sampling.mode, GridMode::Spline(_));
    let coordinates = (0..3)
        .map(|axis| {
            if axis >= n {
                return Tensor::zeros([1, x, y, z], &grid.device());
            }
            let (length, at_least_2) = (shape[axis] as f64, shape[axis].max(2) as f64);
            let (scale, offset) = if spline {
                let scale = if align_corners { (at_least_2 - 1.0) / at_least_2 } else { 1.0 };
                let offset = if norm_coords { (at_least_2 - 1.0) / 2.0 } else { 0.5 * scale };
                (scale, if norm_coords || align_corners { offset } else { 0.0 })
            } else {
                (reading_scale(shape[axis], align_corners, !norm_coords), (length - 1.0) / 2.0)
            };
            grid.clone().slice([axis..axis + 1, 0..x, 0..y, 0..z]) * scale + offset
        })
        .collect();
    image.data = hearth_kernels::sample_grid(image.data, Tensor::cat(coordinates, 0), sampling.kernel());
    Ok(image)
}
