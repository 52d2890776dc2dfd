//! Positions of random crops, and cropping a sample: shared by the crops by label, by class and by
//! weight.

use std::collections::BTreeSet;
use std::sync::Mutex;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;

use crate::Sample;
use crate::params::resolve_size;

/// Returns the probability of a foreground centre: as requested, or 0 or 1 if one list is empty.
///
/// # Errors
/// If both lists are empty.
pub fn foreground_ratio(pos: f64, neg: f64, foreground: usize, background: usize) -> Result<f64, TransformError> {
    match (foreground, background) {
        (0, 0) => Err(TransformError::new("there is no voxel to centre a crop on: no foreground and no background")
            .advice("lower image_threshold, or check the label")),
        (0, _) => Ok(0.0),
        (_, 0) => Ok(1.0),
        _ => Ok(pos / (pos + neg)),
    }
}

/// Returns the weight of each class's centres: as requested (equal if `None`), and 0 for a class
/// without voxels.
///
/// # Errors
/// If there is not one ratio per class, or no class to choose from.
pub fn class_ratios(ratios: Option<&[f64]>, voxels: &[usize]) -> Result<Vec<f64>, TransformError> {
    let wanted = ratios.map_or_else(|| vec![1.0; voxels.len()], <[f64]>::to_vec);
    if wanted.len() != voxels.len() {
        return Err(TransformError::new(format!("{} ratios for {} classes", wanted.len(), voxels.len()))
            .expected("one ratio per class, background included"));
    }
    let found: Vec<f64> = wanted.iter().zip(voxels).map(|(ratio, n)| if *n == 0 { 0.0 } else { *ratio }).collect();
    if found.iter().sum::<f64>() > 0.0 {
        return Ok(found);
    }
    Err(TransformError::new(format!("no class with a ratio above 0 has a voxel (voxels per class: {voxels:?})"))
        .advice("lower image_threshold, or check the label, num_classes and ratios"))
}

/// Returns the nearest centre along one axis that keeps a crop of `size` within `n` voxels.
pub fn corrected_center(center: usize, size: usize, n: usize) -> usize {
    let low = size / 2;
    // floor(n + 1 - size / 2)
    let mut high = (2 * (n + 1)).saturating_sub(size) / 2;
    if high == low {
        high += 1;
    }
    center.max(low).min(high.saturating_sub(1))
}

/// Returns the first voxel of the crop whose centre is a voxel of a list, moved into the image.
pub(super) fn start_around(flat: u64, shape: [usize; 3], size: [usize; 3]) -> Result<[usize; 3], TransformError> {
    let [_, ny, nz] = shape;
    let center =
        usize::try_from(flat).map(|flat| [flat / (ny * nz).max(1), flat / nz.max(1) % ny.max(1), flat % nz.max(1)]);
    match center {
        Ok(center) if center[0] < shape[0] => {
            Ok(std::array::from_fn(|a| corrected_center(center[a], size[a], shape[a]) - size[a] / 2))
        }
        _ => Err(TransformError::new(format!("voxel index {flat} lies outside the {shape:?} voxels"))
            .advice("create the lists (FgBgToIndices, ClassesToIndices) after the last step that changes the shape")),
    }
}

/// Returns the size of a crop: an entry that is not positive means the whole axis.
///
/// # Errors
/// If it is larger than the image and may not be reduced.
pub(super) fn crop_size(
    spatial_size: &OneOrMany<i64>,
    shape: [usize; 3],
    spatial_dims: usize,
    allow_smaller: bool,
) -> Result<[usize; 3], TransformError> {
    let size = resolve_size(spatial_size, shape, spatial_dims)?;
    if allow_smaller {
        return Ok(std::array::from_fn(|a| size[a].min(shape[a])));
    }
    if (0..3).any(|a| size[a] > shape[a]) {
        return Err(TransformError::new(format!("the image is smaller than the crop of {size:?} voxels"))
            .expected(format!("at least {size:?} voxels, there are {shape:?}"))
            .advice("put SpatialPad before this step, or set allow_smaller"));
    }
    Ok(size)
}

/// Checks that all of these images have this shape.
pub(super) fn same_shape(
    sample: &Sample,
    keys: &[(usize, &str)],
    shape: [usize; 3],
    like: &str,
) -> Result<(), TransformError> {
    for (_, key) in keys {
        let found = sample.shape(key).map_err(|e| e.at(key))?;
        if found != shape {
            return Err(TransformError::new(format!("`{key}` has {found:?} voxels"))
                .expected(format!("{shape:?}, as `{like}` has"))
                .at(key));
        }
    }
    Ok(())
}

/// The maximum number of crops of a case.
const MOST: usize = 1 << 24;

/// Checks `num_samples`, the number of crops of a case.
///
/// # Errors
/// If it is 0, or more than the maximum.
pub(super) fn check_samples(count: usize) -> Result<(), Fault> {
    match count {
        0 => Err(Fault::at("num_samples", "is 0")),
        1..=MOST => Ok(()),
        _ => Err(Fault::at("num_samples", format!("{count} crops of a case are too many, at most {MOST} are cut"))),
    }
}

/// Returns one sample per box: these images are cropped (only the box of stored ones is read), and
/// everything else is shared.
pub(super) fn cut(
    sample: Sample,
    keys: &[(usize, &str)],
    boxes: &[([usize; 3], [usize; 3])],
) -> Result<Vec<Sample>, TransformError> {
    let mut out = Vec::with_capacity(boxes.len());
    for (start, end) in boxes {
        let mut part = sample.clone();
        for (_, key) in keys {
            part.crop(key, *start, *end)?;
        }
        out.push(part);
    }
    Ok(out)
}

/// The warnings that are issued once per case.
#[derive(Debug, Default)]
pub(super) struct WarnOnce(Mutex<BTreeSet<String>>);

impl WarnOnce {
    /// Warns about a case, with the file of the image under `key`.
    pub(super) fn warn(&self, sample: &Sample, key: &str, what: impl FnOnce() -> String) {
        let mut warned = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if warned.insert(sample.case.clone()) {
            let path = sample.meta(key).ok().and_then(|meta| meta.path.clone());
            let file = path.map_or_else(|| "not from a file".to_owned(), |p| p.display().to_string());
            tracing::warn!(case = %sample.case, file, "{}", what());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of MONAI's `correct_crop_centers`, also in floating point.
    #[test]
    fn centers_are_monais() {
        for n in 1..12_usize {
            for size in 1..=n {
                for c in 0..n {
                    let low = size / 2;
                    let mut high = (n as f64 + 1.0 - size as f64 / 2.0).floor() as usize;
                    if low == high {
                        high += 1;
                    }
                    let got = corrected_center(c, size, n);
                    assert_eq!(got, c.max(low).min(high - 1), "n {n} size {size} c {c}");
                    assert!(got - size / 2 + size <= n);
                }
            }
        }
    }

    #[test]
    fn an_empty_list_forces_the_other() {
        assert_eq!(foreground_ratio(1.0, 3.0, 5, 5), Ok(0.25));
        assert_eq!(foreground_ratio(1.0, 3.0, 0, 5), Ok(0.0));
        assert_eq!(foreground_ratio(1.0, 3.0, 5, 0), Ok(1.0));
        assert!(foreground_ratio(1.0, 1.0, 0, 0).is_err());
    }

    #[test]
    fn a_class_without_voxels_is_not_chosen() {
        assert_eq!(class_ratios(None, &[3, 0, 1]), Ok(vec![1.0, 0.0, 1.0]));
        assert_eq!(class_ratios(Some(&[2.0, 1.0]), &[3, 1]), Ok(vec![2.0, 1.0]));
        assert!(class_ratios(Some(&[0.0, 1.0]), &[3, 0]).is_err());
        assert!(class_ratios(Some(&[1.0]), &[3, 0]).is_err());
    }
}
