//! Resizes an image to a number of voxels.

use hearth_kernels::InterpolateMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GridMode, GridPadding, GridSampling, Warp, check_grid, lazy, warp};
use crate::TransformError;
use crate::affine::{self, Affine};
use crate::image::{Applied, Image};

/// The interpolation of a resized image; the names are those of
/// `torch.nn.functional.interpolate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResizeMode {
    /// The mean of all voxels that the new voxel overlaps, unweighted.
    #[default]
    Area,
    /// The voxel at `floor(i * n / size)`, which moves the image by up to half a voxel.
    Nearest,
    /// The nearest voxel.
    NearestExact,
    /// Linear along every axis (MONAI accepts any of the three names for 2-D and 3-D).
    #[serde(alias = "linear", alias = "bilinear")]
    Trilinear,
    /// Cubic along every axis (in MONAI 2-D only).
    Bicubic,
}

impl ResizeMode {
    /// The interpolation kernel of this mode.
    pub fn kernel(self) -> InterpolateMode {
        match self {
            ResizeMode::Area => InterpolateMode::Area,
            ResizeMode::Nearest => InterpolateMode::Nearest,
            ResizeMode::NearestExact => InterpolateMode::NearestExact,
            ResizeMode::Trilinear => InterpolateMode::Linear,
            ResizeMode::Bicubic => InterpolateMode::Cubic,
        }
    }

    /// The equivalent grid sampling, if there is one. Means and shifted voxels have none, and a
    /// different voxel is the nearest at half-way positions.
    fn on_a_grid(self) -> Option<GridMode> {
        match self {
            ResizeMode::Trilinear => Some(GridMode::Bilinear),
            ResizeMode::Bicubic => Some(GridMode::Bicubic),
            ResizeMode::Area | ResizeMode::Nearest | ResizeMode::NearestExact => None,
        }
    }

    /// Whether `align_corners` applies to this mode.
    fn knows_corners(self) -> bool {
        matches!(self, ResizeMode::Trilinear | ResizeMode::Bicubic)
    }

    /// The mode of the inverse: nearest interpolation if requested.
    pub(super) fn or_nearest(self, nearest: bool) -> Self {
        if nearest && self != ResizeMode::Nearest { ResizeMode::NearestExact } else { self }
    }
}

/// Resizes an image. `align_corners` aligns the centres of the corner voxels instead of the outer
/// corners; it applies to the linear and the cubic mode only. A 2-D image that gets a third axis of
/// several voxels becomes a 3-D image.
///
/// # Errors
/// As [`check_grid`].
pub fn resize(image: Image, size: [usize; 3], mode: ResizeMode, align_corners: bool) -> Result<Image, TransformError> {
    let (shape, n) = (image.shape(), image.meta.spatial_dims);
    if shape == size {
        return Ok(image);
    }
    check_grid(image.channels(), size)?;
    let align_corners = align_corners && mode.knows_corners();
    let dims = if size[2] == shape[2] { n } else { 3 };
    let matrix = scale_affine(shape, size, dims, align_corners);
    // The scaling is affine and can be delayed.
    if let Some(mode) = mode.on_a_grid().filter(|_| dims == n)
        && let Ok(how) = Warp::voxels(&matrix, shape, size, n, false)
    {
        let sampling = GridSampling { mode, padding_mode: GridPadding::Border, align_corners: false };
        return warp(image, &how, sampling);
    }
    let affine = image.affine;
    let mut image = image;
    if dims != n || !lazy::rescale(&mut image, &matrix, size) {
        image = resize_unrecorded(lazy::flush(image)?, size, mode, align_corners);
    }
    image.affine = affine::compose(&affine, &matrix);
    image.meta.spatial_dims = dims;
    image.meta.applied.push(Applied::Resize { affine, shape, spatial_dims: n, mode, align_corners });
    Ok(image)
}

/// Resizes only the values.
pub(super) fn resize_unrecorded(mut image: Image, size: [usize; 3], mode: ResizeMode, align_corners: bool) -> Image {
    image.data = hearth_kernels::interpolate(image.data, size, mode.kernel(), align_corners);
    image
}

/// The scaling of voxel indices between two shapes (MONAI's `scale_affine`).
pub fn scale_affine(before: [usize; 3], after: [usize; 3], n: usize, align_corners: bool) -> Affine {
    let mut out = affine::IDENTITY;
    if before[..n] == after[..n] {
        return out;
    }
    for axis in 0..n {
        let (old, new) = (before[axis] as f64, after[axis] as f64);
        let scale = match (align_corners, after[axis]) {
            (true, 1) => 0.0,
            (true, _) => (old - 1.0) / (new - 1.0),
            (false, _) => old / new.max(1.0),
        };
        out[axis][axis] = scale;
        if !align_corners {
            out[axis][3] = (scale - 1.0) / 2.0;
        }
    }
    out
}
