//! The shared part of the two elastic transforms.

use burn::tensor::Tensor;
use hearth_image::spatial::{AffineParameters, GridMode, GridPadding, GridSampling, Warp, deform, warp};
use hearth_image::{Image, OneOrMany, TransformError, affine};
use hearth_registry::Fault;

use super::affine_ranges::AffineRanges;
use crate::Sample;
use crate::params::{Keys, resolve_size};

/// Deforms all keys in the same way: `places` returns the positions to read in an image of a shape,
/// for a grid of a size. They are computed once for all keys of the same shape; the default size is
/// that of the first key. Without `places` only the size changes.
pub(super) fn deform_all<F>(
    sample: &mut Sample,
    keys: &[(usize, &str)],
    spatial_size: &OneOrMany<i64>,
    sampling: impl Fn(usize) -> GridSampling,
    places: Option<F>,
) -> Result<(), TransformError>
where
    F: Fn(&Image, [usize; 3]) -> Result<Tensor<4>, TransformError>,
{
    let mut size = None;
    let mut known: Option<([usize; 3], Tensor<4>)> = None;
    for (place, key) in keys {
        sample.update(key, |image| {
            let shape = image.shape();
            let size = match size {
                Some(size) => size,
                None => *size.insert(resolve_size(spatial_size, shape, image.meta.spatial_dims)?),
            };
            let Some(places) = &places else {
                return resize_about_centre(image, size, sampling(*place));
            };
            let at = match &known {
                Some((of, at)) if *of == shape => at.clone(),
                _ => known.insert((shape, places(&image, size)?)).1.clone(),
            };
            deform(image, at, sampling(*place))
        })?;
    }
    Ok(())
}

fn resize_about_centre(image: Image, size: [usize; 3], sampling: GridSampling) -> Result<Image, TransformError> {
    let (shape, n) = (image.shape(), image.meta.spatial_dims);
    if shape == size {
        return Ok(image);
    }
    warp(image, &Warp::about_centre(&affine::IDENTITY, shape, size, n, false, false)?, sampling)
}

/// The shared parts of `check`.
pub(super) fn check(
    keys: &Keys,
    mode: &OneOrMany<GridMode>,
    padding_mode: &OneOrMany<GridPadding>,
    magnitude_range: [f64; 2],
    ranges: &AffineRanges<'_>,
) -> Result<(), Fault> {
    keys.check_list("mode", mode)?;
    keys.check_list("padding_mode", padding_mode)?;
    check_range("magnitude_range", magnitude_range, f64::MIN)?;
    ranges.check()
}

/// Checks that both ends are finite, in order, and not below `least`.
pub(super) fn check_range(name: &str, [low, high]: [f64; 2], least: f64) -> Result<(), Fault> {
    if low.is_finite() && high.is_finite() && least <= low && low <= high {
        Ok(())
    } else {
        let positive = if least == 0.0 { " that are not negative" } else { "" };
        Err(Fault::at(name, format!("{low}..{high} is not a range of finite numbers{positive}")))
    }
}

/// The affine part of an elastic transform's draw as a warp.
pub(super) fn affine_part(
    drawn: &AffineParameters,
    shape: [usize; 3],
    size: [usize; 3],
    n: usize,
) -> Result<Warp, TransformError> {
    Warp::about_centre(&drawn.matrix(n)?, shape, size, n, false, false)
}
