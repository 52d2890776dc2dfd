//! Resampling of images to the voxel size of TotalSegmentator's models, and of labels back to the
//! image.

use rayon::prelude::*;

use crate::error::{NnunetError, Result};
use crate::preprocess::{check_room, target_shape};
use crate::volume::{Axes3, Volume};

/// Positions in `from` voxels of `to` voxels whose first and last voxels coincide.
fn ends_on_ends(from: usize, to: usize) -> impl Fn(usize) -> f64 {
    let step = if to > 1 { (from as f64 - 1.0) / (to as f64 - 1.0) } else { 0.0 };
    move |at| at as f64 * step
}

/// Resamples an image to another voxel size, linearly and truncated to integers: the input of
/// TotalSegmentator's models.
///
/// # Errors
/// A size beyond the limits.
pub fn resampled(image: &Volume, spacing: Axes3<f64>, target: Axes3<f64>) -> Result<Volume> {
    if spacing.iter().any(|size| !size.is_finite() || *size <= 0.0) || image.voxels() == 0 {
        return Err(NnunetError::case(format!("its voxels have sizes of {spacing:?} mm; expected sizes above 0")));
    }
    let shape = target_shape(image.shape, spacing, target)?;
    check_room(image.channels, shape)?;
    let along: [Vec<(usize, usize, f64)>; 3] = std::array::from_fn(|axis| {
        let position = ends_on_ends(image.shape[axis], shape[axis]);
        let neighbours = |at: usize| {
            let at = position(at);
            let low = (at.floor() as usize).min(image.shape[axis] - 1);
            (low, (low + 1).min(image.shape[axis] - 1), at - low as f64)
        };
        (0..shape[axis]).map(neighbours).collect()
    });
    let plane = (shape[1] * shape[2]).max(1);
    let mut data = vec![0.0_f32; image.channels * shape.iter().product::<usize>()];
    data.par_chunks_mut(plane).enumerate().for_each(|(index, out)| {
        let values = image.channel(index / shape[0]);
        let (z0, z1, tz) = along[0][index % shape[0]];
        let at = |z: usize, y: usize, x: usize| f64::from(values[(z * image.shape[1] + y) * image.shape[2] + x]);
        let mix = |a: f64, b: f64, t: f64| a * (1.0 - t) + b * t;
        for (out, (y0, y1, ty)) in out.chunks_mut(shape[2].max(1)).zip(&along[1]) {
            for (out, (x0, x1, tx)) in out.iter_mut().zip(&along[2]) {
                let row = |z: usize, y: usize| mix(at(z, y, *x0), at(z, y, *x1), *tx);
                let plane = |z: usize| mix(row(z, *y0), row(z, *y1), *ty);
                *out = mix(plane(z0), plane(z1), tz).trunc() as f32;
            }
        }
    });
    Ok(Volume { channels: image.channels, shape, data })
}

/// Resamples a label map back to the size of the image, by the nearest voxel.
pub fn restored(labels: &Volume<u16>, shape: Axes3) -> Volume<u16> {
    let along: [Vec<usize>; 3] = std::array::from_fn(|axis| {
        let (from, position) = (labels.shape[axis], ends_on_ends(labels.shape[axis], shape[axis]));
        (0..shape[axis]).map(|at| ((position(at) + 0.5).floor() as usize).min(from.saturating_sub(1))).collect()
    });
    let mut data = Vec::with_capacity(shape.iter().product());
    for z in &along[0] {
        for y in &along[1] {
            let row = (z * labels.shape[1] + y) * labels.shape[2];
            data.extend(along[2].iter().map(|x| labels.data[row + x]));
        }
    }
    Volume { channels: 1, shape, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_lie_on_ends() {
        let line = Volume::new(1, [1, 1, 3], vec![0.0, 10.0, -5.0]).expect("three");
        let finer = resampled(&line, [1.0; 3], [1.0, 1.0, 0.6]).expect("five");
        assert_eq!(finer.data, [0.0, 5.0, 10.0, 2.0, -5.0]);
        let labels = Volume::new(1, [1, 1, 5], vec![1, 2, 3, 4, 5]).expect("five");
        assert_eq!(restored(&labels, [1, 1, 3]).data, [1, 3, 5]);
    }
}
