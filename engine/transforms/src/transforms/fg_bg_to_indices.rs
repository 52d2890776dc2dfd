use std::collections::BTreeSet;
use std::sync::Arc;

use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Lists the foreground and background voxels of a label map under `KEY_fg` and `KEY_bg`, for
/// [`super::RandCropByPosNegLabel`].
///
/// Foreground is any non-zero label (in a one-hot map any channel except the first). Background is
/// the rest, or with `image_key` the part of the rest where any channel of the image is above
/// `image_threshold`. Indices are flat, row-major, on the CPU; with `output_shape` they are
/// coordinates, one list per axis, which the crops do not support.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::FgBgToIndices};
/// let sample = Sample::new("case").with_image("label", tiny::line([0.0, 1.0, 0.0]));
/// let made = tiny::run(FgBgToIndices::new("label"), sample)?;
/// assert_eq!(made[0].indices("label_fg")?[..], [1]);
/// assert_eq!(made[0].indices("label_bg")?[..], [0, 2]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FgBgToIndices {
    keys: Keys,
    #[serde(default = "fg")]
    fg_postfix: String,
    #[serde(default = "bg")]
    bg_postfix: String,
    #[serde(default)]
    image_key: Option<String>,
    #[serde(default)]
    image_threshold: f64,
    #[serde(default)]
    output_shape: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_index: Option<i64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn fg() -> String {
    "_fg".to_owned()
}

fn bg() -> String {
    "_bg".to_owned()
}

impl FgBgToIndices {
    /// Creates the transform for these label maps.
    pub fn new(keys: impl Into<Keys>) -> Self {
        FgBgToIndices {
            keys: keys.into(),
            fg_postfix: fg(),
            bg_postfix: bg(),
            image_key: None,
            image_threshold: 0.0,
            output_shape: None,
            ignore_index: None,
            allow_missing_keys: false,
        }
    }
}

/// Returns the flat indices of foreground and background voxels, in ascending order. Voxels with the label
/// `ignore_index` are neither.
///
/// # Errors
/// If the image and the label differ in shape, or reading from the device fails.
pub fn foreground_and_background(
    label: &Image,
    image: Option<&Image>,
    image_threshold: f64,
    ignore_index: Option<i64>,
) -> Result<(Vec<u64>, Vec<u64>), TransformError> {
    let voxels = label.shape().iter().product::<usize>();
    let mut foreground = vec![false; voxels];
    // One-hot: the first channel is the background.
    let skip = usize::from(label.channels() > 1);
    with_values(label, |values| {
        for channel in values.chunks_exact(voxels.max(1)).skip(skip) {
            for (mark, value) in foreground.iter_mut().zip(channel) {
                *mark |= *value != 0.0;
            }
        }
    })?;
    let mut background: Vec<bool> = foreground.iter().map(|f| !f).collect();
    // A one-hot map has a channel for each class, and none for voxels without annotation.
    if let Some(ignored) = ignore_index.filter(|_| skip == 0) {
        let ignored = ignored as f32;
        with_values(label, |values| {
            for ((fg, bg), value) in foreground.iter_mut().zip(&mut background).zip(values) {
                *fg &= *value != ignored;
                *bg &= *value != ignored;
            }
        })?;
    }
    if let Some(image) = image {
        if image.shape() != label.shape() {
            return Err(TransformError::new(format!("the image has {:?} voxels", image.shape()))
                .expected(format!("{:?}, as the label has", label.shape())));
        }
        let bright = bright(image, image_threshold)?;
        background.iter_mut().zip(bright).for_each(|(b, bright)| *b &= bright);
    }
    let list = |marks: &[bool]| {
        let mut out = Vec::with_capacity(marks.iter().filter(|m| **m).count());
        out.extend(marks.iter().enumerate().filter(|(_, m)| **m).map(|(i, _)| i as u64));
        out
    };
    Ok((list(&foreground), list(&background)))
}

/// The mask of voxels where any channel of an image is above the threshold, compared as f32.
pub(super) fn bright(image: &Image, threshold: f64) -> Result<Vec<bool>, TransformError> {
    let threshold = threshold as f32;
    let mut bright = vec![false; image.shape().iter().product()];
    with_values(image, |values| {
        for channel in values.chunks_exact(bright.len().max(1)) {
            for (mark, value) in bright.iter_mut().zip(channel) {
                *mark |= *value > threshold;
            }
        }
    })?;
    Ok(bright)
}

/// Converts flat indices to coordinates in an array of this shape: one list per axis.
///
/// # Errors
/// If an index lies beyond the array.
pub fn unravel(indices: &[u64], shape: &[usize]) -> Result<Vec<Arc<[u64]>>, TransformError> {
    let size = shape.iter().try_fold(1_u64, |all, n| all.checked_mul(*n as u64));
    if let Some(beyond) = indices.iter().find(|index| size.is_some_and(|size| **index >= size)) {
        return Err(TransformError::new(format!("voxel index {beyond} lies beyond output_shape {shape:?}"))
            .expected("the shape of the label"));
    }
    let mut step = 1_u64;
    let mut out: Vec<Arc<[u64]>> = Vec::new();
    for n in shape.iter().rev() {
        out.push(indices.iter().map(|index| index / step % (*n as u64).max(1)).collect());
        step = step.saturating_mul(*n as u64).max(1);
    }
    out.reverse();
    Ok(out)
}

/// Returns the list itself, or its coordinates if a shape is given.
pub(super) fn as_value(indices: Vec<u64>, output_shape: Option<&[usize]>) -> Result<Value, TransformError> {
    Ok(match output_shape {
        None => Value::Indices(indices.into()),
        Some(shape) => Value::Lists(unravel(&indices, shape)?),
    })
}

/// Passes the values in row-major order to `look`; values on the CPU are not copied.
pub(super) fn with_values(image: &Image, look: impl FnMut(&[f32])) -> Result<(), TransformError> {
    let mut look = look;
    if host::read(&image.data, &mut look).is_some() {
        return Ok(());
    }
    let values = image.data.clone().try_into_vec_as::<f32>().map_err(|error| TransformError::of_device(&error))?;
    look(&values);
    Ok(())
}

setters!(FgBgToIndices {
    /// Suffix of the key of the foreground list.
    fg_postfix: String,
    /// Suffix of the key of the background list.
    bg_postfix: String,
    /// Key of the image that defines the background.
    image_key: Option<String>,
    /// Threshold of that image: background voxels have values above it.
    image_threshold: f64,
    /// Shape of an array for which coordinates are stored, one list per axis.
    output_shape: Option<Vec<usize>>,
    /// Label of voxels without annotation: they are neither foreground nor background.
    ignore_index: Option<i64>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for FgBgToIndices {
    fn name(&self) -> &'static str {
        "FgBgToIndices"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let label = sample.image(key).map_err(|e| e.at(key))?;
            let image = match &self.image_key {
                Some(image) => Some(sample.image(image).map_err(|e| e.at(image))?),
                None => None,
            };
            let (fg, bg) = foreground_and_background(label, image, self.image_threshold, self.ignore_index)
                .map_err(|e| e.at(key))?;
            for (postfix, list) in [(&self.fg_postfix, fg), (&self.bg_postfix, bg)] {
                let value = as_value(list, self.output_shape.as_deref()).map_err(|e| e.at(key))?;
                sample.values.insert(format!("{key}{postfix}"), value);
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if let Some(key) = &self.image_key {
            check_key("image_key", key, known)?;
        }
        if self.fg_postfix == self.bg_postfix {
            return Err(Fault::at("fg_postfix", "is the same as bg_postfix"));
        }
        for key in self.keys.iter() {
            known.insert(format!("{key}{}", self.fg_postfix));
            known.insert(format!("{key}{}", self.bg_postfix));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    FgBgToIndices,
    r#"keys = ["label"]
image_key = "image""#
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny;

    #[test]
    fn voxels_without_annotation_are_neither_foreground_nor_background() {
        let label = tiny::line([0.0, 1.0, 2.0, 0.0, 2.0]);
        let of = |ignored| foreground_and_background(&label, None, 0.0, ignored).expect("lists");
        assert_eq!(of(None), (vec![1, 2, 4], vec![0, 3]));
        assert_eq!(of(Some(2)), (vec![1], vec![0, 3]));
        assert_eq!(of(Some(0)), (vec![1, 2, 4], vec![]));
    }
}
