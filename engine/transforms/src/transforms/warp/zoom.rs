use std::collections::BTreeSet;

use hearth_image::spatial::{BoundingBox, PadMode, ResizeMode, check_grid, crop_or_pad, resize};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rotate::yes;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Zooms by a factor, one for all axes or one per axis: the image is resized to `floor(n * zoom)`
/// voxels and, with `keep_size`, cropped or padded about its centre to its original size. `value`
/// (or `constant_values`) applies to `padding_mode = "constant"`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Zoom};
/// let step = Zoom::new("image", [2.0, 1.0, 1.0]).keep_size(false);
/// let image = tiny::apply(step, tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zoom {
    keys: Keys,
    /// Factor of the size, one or per axis.
    zoom: OneOrMany<f64>,
    #[serde(default)]
    mode: OneOrMany<ResizeMode>,
    #[serde(default = "edge")]
    padding_mode: OneOrMany<PadMode>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default = "yes")]
    keep_size: bool,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

pub(super) fn edge() -> OneOrMany<PadMode> {
    OneOrMany::One(PadMode::Edge)
}

impl Zoom {
    /// Creates the transform: by area, cropped or padded with edge voxels to the original size.
    pub fn new(keys: impl Into<Keys>, zoom: impl Into<OneOrMany<f64>>) -> Self {
        Zoom {
            keys: keys.into(),
            zoom: zoom.into(),
            mode: OneOrMany::default(),
            padding_mode: edge(),
            align_corners: OneOrMany::default(),
            keep_size: true,
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Zooms one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If the number of factors is wrong for the image, or the result would be empty or too large.
    pub fn zoom(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let given = self.zoom.as_slice();
        if given.len() != n && matches!(self.zoom, OneOrMany::Many(_)) {
            return Err(TransformError::new(format!("{} zoom factors for an image of {n} axes", given.len()))
                .expected(format!("one for all axes, or {n}")));
        }
        let factors: Vec<f64> = (0..n).filter_map(|axis| self.zoom.at(axis)).collect();
        self.way(place).zoom(image, &factors)
    }

    fn way(&self, place: usize) -> Zooming {
        Zooming {
            mode: self.mode.at(place).unwrap_or_default(),
            padding_mode: self.padding_mode.at(place).unwrap_or_default(),
            align_corners: self.align_corners.at(place).unwrap_or_default(),
            keep_size: self.keep_size,
            value: self.value,
        }
    }
}

/// Options of zooming an image.
#[derive(Clone, Copy, Debug)]
pub struct Zooming {
    /// Interpolation mode.
    pub mode: ResizeMode,
    /// Padding of a smaller image.
    pub padding_mode: PadMode,
    /// Whether to align the centres of the corner voxels; for linear and cubic modes.
    pub align_corners: bool,
    /// Whether to crop or pad to the original size.
    pub keep_size: bool,
    /// The constant of [`PadMode::Constant`].
    pub value: f32,
}

impl Zooming {
    /// Zooms an image by one factor per axis.
    ///
    /// # Errors
    /// If a factor is not a positive number, or the result would be empty or too large.
    pub fn zoom(self, image: Image, factors: &[f64]) -> Result<Image, TransformError> {
        let shape = image.shape();
        let mut size = shape;
        for (length, factor) in size.iter_mut().zip(factors) {
            if !(factor.is_finite() && *factor > 0.0) {
                return Err(TransformError::new(format!("a zoom factor of {factor}")).expected("a positive number"));
            }
            *length = (*length as f64 * factor).floor() as usize;
        }
        check_grid(image.channels(), size)?;
        let image = resize(image, size, self.mode, self.align_corners)?;
        if !self.keep_size || size == shape {
            return Ok(image);
        }
        let mut region = BoundingBox { start: [0; 3], end: size.map(|v| v as i64) };
        for axis in 0..3 {
            let (from, to) = (size[axis] as i64, shape[axis] as i64);
            // A crop starts at the difference of the halves; the smaller half of padding is before
            // the image.
            region.start[axis] = if to < from { from / 2 - to / 2 } else { -((to - from) / 2) };
            region.end[axis] = region.start[axis] + to;
        }
        crop_or_pad(image, region, self.padding_mode, self.value)
    }
}

setters!(Zoom {
    /// Interpolation, one or per key.
    mode: OneOrMany<ResizeMode>,
    /// How the border of a smaller image is filled, one or per key.
    padding_mode: OneOrMany<PadMode>,
    /// Whether to align the centres of the corner voxels; for linear and cubic modes, one or per
    /// key.
    align_corners: OneOrMany<bool>,
    /// Whether to crop or pad to the original size.
    keep_size: bool,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Zoom {
    fn name(&self) -> &'static str {
        "Zoom"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::keeping(self.keep_size)
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.zoom(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        check_factors("zoom", &self.zoom)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

/// Checks that there are one to three factors, all positive.
pub(super) fn check_factors(name: &str, factors: &OneOrMany<f64>) -> Result<(), Fault> {
    let factors = factors.as_slice();
    if factors.is_empty() || factors.len() > 3 {
        return Err(Fault::at(name, format!("has {} factors; it takes 1 to 3", factors.len())));
    }
    match factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
        Some(factor) => Err(Fault::at(name, format!("{factor} is not a positive number"))),
        None => Ok(()),
    }
}

transform_entry!(
    Zoom,
    r#"keys = ["image"]
zoom = 1.2
keep_size = true"#
);
