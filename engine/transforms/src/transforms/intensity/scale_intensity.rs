use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::linear::{Linear, map_linear};
use super::statistics::image_extremes;
use crate::params::Keys;

/// Maps the range of the values to `minv..maxv` (by default 0..1), or multiplies by `1 + factor`.
///
/// A constant image becomes `x * minv`, as in MONAI. A recipe that gives only `factor` selects the
/// multiplication; MONAI requires `minv` and `maxv` to be None for it, which a recipe cannot
/// express, but a library call can: `.minv(None).maxv(None)`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ScaleIntensity};
/// let image = tiny::apply(ScaleIntensity::new("image"), tiny::line([2.0, 4.0, 6.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 0.5, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Given")]
pub struct ScaleIntensity {
    keys: Keys,
    minv: Option<f64>,
    maxv: Option<f64>,
    factor: Option<f64>,
    channel_wise: bool,
    allow_missing_keys: bool,
}

/// The parameters as written: whether `minv` and `maxv` are given matters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "ScaleIntensity")]
struct Given {
    keys: Keys,
    #[serde(default, deserialize_with = "given")]
    minv: Option<Option<f64>>,
    #[serde(default, deserialize_with = "given")]
    maxv: Option<Option<f64>>,
    #[serde(default)]
    factor: Option<f64>,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// Deserializes to `Some` if the field exists, with any value.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl From<Given> for ScaleIntensity {
    fn from(given: Given) -> Self {
        let by_factor = given.factor.is_some() && given.minv.is_none() && given.maxv.is_none();
        let end = |value: Option<Option<f64>>, default| value.unwrap_or((!by_factor).then_some(default));
        ScaleIntensity {
            keys: given.keys,
            minv: end(given.minv, 0.0),
            maxv: end(given.maxv, 1.0),
            factor: given.factor,
            channel_wise: given.channel_wise,
            allow_missing_keys: given.allow_missing_keys,
        }
    }
}

impl ScaleIntensity {
    /// Creates the transform: scales to 0..1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ScaleIntensity {
            keys: keys.into(),
            minv: Some(0.0),
            maxv: Some(1.0),
            factor: None,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Scales one image: to 0..1 if one of `minv` and `maxv` is missing, by `1 + factor` if both
    /// are.
    pub fn scale(&self, image: Image) -> Image {
        if self.minv.is_none() && self.maxv.is_none() {
            let factor = self.factor.map_or(1.0, |f| 1.0 + f) as f32;
            return map_linear(image, &[Linear { factor, ..Linear::IDENTITY }]);
        }
        let maps: Vec<Linear> = image_extremes(&image, self.channel_wise)
            .into_iter()
            .map(|(low, high)| match low == high {
                true => Linear { factor: self.minv.unwrap_or(1.0) as f32, ..Linear::IDENTITY },
                false => Linear::range((low.into(), high.into()), (self.minv, self.maxv), false),
            })
            .collect();
        map_linear(image, &maps)
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.scale(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, value) in [("minv", self.minv), ("maxv", self.maxv), ("factor", self.factor)] {
            if value.is_some_and(|v| !v.is_finite()) {
                return Err(Fault::at(name, "is not a finite number"));
            }
        }
        if self.factor.is_some() && (self.minv.is_some() || self.maxv.is_some()) {
            return Err(Fault::at("factor", "is not used where `minv` or `maxv` is given; omit one of them"));
        }
        Ok(())
    }
}

setters!(ScaleIntensity {
    /// Smallest value of the result.
    minv: Option<f64>,
    /// Largest value of the result.
    maxv: Option<f64>,
    /// Factor f: values are multiplied by 1 + f; needs `minv` and `maxv` to be `None`.
    factor: Option<f64>,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ScaleIntensity, change);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> ScaleIntensity {
        serde_json::from_value(json).expect("sound")
    }

    #[test]
    fn a_factor_alone_is_a_factor() {
        let by_factor = read(serde_json::json!({"keys": "image", "factor": 0.5}));
        assert_eq!((by_factor.minv, by_factor.maxv), (None, None));
        assert!(by_factor.check_parameters().is_ok());
        let by_range = read(serde_json::json!({"keys": "image"}));
        assert_eq!((by_range.minv, by_range.maxv), (Some(0.0), Some(1.0)));
        let none = read(serde_json::json!({"keys": "image", "minv": null}));
        assert_eq!((none.minv, none.maxv), (None, Some(1.0)));
    }

    #[test]
    fn both_ways_at_once_are_refused() {
        let both = read(serde_json::json!({"keys": "image", "factor": 0.5, "maxv": 2.0}));
        assert!(both.check_parameters().is_err());
        assert!(ScaleIntensity::new("image").minv(f64::NAN).check_parameters().is_err());
    }
}

transform_entry!(
    ScaleIntensity,
    r#"keys = ["image"]
minv = 0.0
maxv = 1.0"#
);
