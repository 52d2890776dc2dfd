use std::collections::BTreeSet;

use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_kernels::filter::{self, Approximation};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guidance, guidance};
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Appends a channel for each label of the guidance to an image: a Gaussian at each of its clicks,
/// scaled to 0..=1 (MONAI's `AddGuidanceSignalDeepEditd`, Diaz-Pinto et al.,
/// <https://arxiv.org/abs/2203.12362>). The channel of a label without clicks is 0.
///
/// Clicks with a negative coordinate are skipped; those beyond the end are moved to it.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny, transforms::AddGuidanceSignalDeepEdit};
/// let sample = Sample::new("case").with_image("image", tiny::ramp([1, 5, 5, 5]));
/// let guidance = r#"{"spleen": [[2, 2, 2]], "background": []}"#.to_owned();
/// let sample = sample.with("guidance", Value::Text(guidance));
/// let made = tiny::run(AddGuidanceSignalDeepEdit::new("image"), sample)?;
/// let image = made[0].image("image")?;
/// assert_eq!(image.data.dims(), [3, 5, 5, 5]);
/// // The click, and no click of the background.
/// assert_eq!((image.to_vec()[125 + 62], image.to_vec()[250 + 62]), (1.0, 0.0));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddGuidanceSignalDeepEdit {
    keys: Keys,
    #[serde(default = "guidance")]
    guidance: String,
    #[serde(default = "three")]
    sigma: f64,
    #[serde(default = "one")]
    number_intensity_ch: usize,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn three() -> f64 {
    3.0
}

fn one() -> usize {
    1
}

/// The truncation of the Gaussian, in standard deviations.
const TRUNCATED: f64 = 4.0;

impl AddGuidanceSignalDeepEdit {
    /// Creates the transform: appends the value `guidance` to these images of one channel, with
    /// Gaussians of 3 voxels.
    pub fn new(keys: impl Into<Keys>) -> Self {
        AddGuidanceSignalDeepEdit {
            keys: keys.into(),
            guidance: guidance(),
            sigma: three(),
            number_intensity_ch: one(),
            allow_missing_keys: false,
        }
    }

    /// The channel `[1, x, y, z]` of a label's clicks.
    fn signal(&self, image: &Image, points: &[Vec<i64>]) -> Result<Tensor<4>, TransformError> {
        let ([x, y, z], device) = (image.shape(), image.data.device());
        let dims = image.meta.spatial_dims;
        let mut values = vec![0.0_f32; x * y * z];
        for point in points {
            if point.len() != dims {
                let what = format!("the click {point:?} has {} coordinates", point.len());
                return Err(TransformError::new(what).expected(format!("{dims}, as the image")).at(&self.guidance));
            }
            if point.iter().any(|at| *at < 0) {
                continue;
            }
            let within = |axis: usize, size: usize| {
                point.get(axis).map_or(0, |at| usize::try_from(*at).unwrap_or(usize::MAX).min(size.saturating_sub(1)))
            };
            values[(within(0, x) * y + within(1, y)) * z + within(2, z)] = 1.0;
        }
        let clicked = values.contains(&1.0);
        let map = Tensor::from_data(TensorData::new(values, [1, x, y, z]), &device);
        if !clicked {
            return Ok(map);
        }
        let sigma = [self.sigma, self.sigma, if dims == 3 { self.sigma } else { 0.0 }];
        let blurred = filter::gaussian(map, sigma, TRUNCATED, Approximation::Erf)
            .map_err(|error| TransformError::new(error.to_string()))?;
        let (least, most) = (blurred.clone().min().reshape([1; 4]), blurred.clone().max().reshape([1; 4]));
        Ok((blurred - least.clone()) / (most - least))
    }
}

setters!(AddGuidanceSignalDeepEdit {
    /// Key of the guidance.
    guidance: String,
    /// Standard deviation of the Gaussians, in voxels.
    sigma: f64,
    /// Number of channels of the image that are kept before those of the labels.
    number_intensity_ch: usize,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for AddGuidanceSignalDeepEdit {
    fn other_keys(&self) -> Vec<&str> {
        vec![&self.guidance]
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let guidance = Guidance::of(&sample, &self.guidance)?;
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |mut image| {
                let (channels, kept) = (image.channels(), self.number_intensity_ch);
                if channels < kept {
                    return Err(TransformError::new(format!("the image has {channels} channels"))
                        .expected(format!("at least {kept} (`number_intensity_ch`)")));
                }
                let mut parts = vec![image.data.clone().narrow(0, 0, kept)];
                for (_, points) in &guidance.0 {
                    parts.push(self.signal(&image, points)?);
                }
                image.data = Tensor::cat(parts, 0);
                Ok(image)
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if !(self.sigma > 0.0 && self.sigma.is_finite()) {
            return Err(Fault::at("sigma", format!("is {}; expected a number above 0", self.sigma)));
        }
        if self.number_intensity_ch == 0 {
            return Err(Fault::at("number_intensity_ch", "is 0; expected at least 1"));
        }
        check_key("guidance", &self.guidance, known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    AddGuidanceSignalDeepEdit,
    r#"keys = ["image"]
guidance = "guidance"
sigma = 3.0
number_intensity_ch = 1"#
);

#[cfg(test)]
mod tests {
    use super::AddGuidanceSignalDeepEdit;
    use crate::{Sample, Value, tiny};
    use hearth_image::TransformError;

    fn run(guidance: &str) -> Result<Vec<f32>, TransformError> {
        let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 3, 2]));
        let sample = sample.with("guidance", Value::Text(guidance.to_owned()));
        let made = tiny::run(AddGuidanceSignalDeepEdit::new("image").sigma(0.5), sample)?;
        Ok(made[0].image("image")?.to_vec()[24..].to_vec())
    }

    #[test]
    fn clicks_outside_are_left_out_or_moved() -> Result<(), TransformError> {
        assert_eq!(run(r#"{"a": [[-1, 1, 1]]}"#)?, vec![0.0; 24]);
        assert_eq!(run(r#"{"a": [[9, 2, 1]]}"#)?, run(r#"{"a": [[3, 2, 1]]}"#)?);
        let error = run(r#"{"a": [[1, 2]]}"#).expect_err("two coordinates").to_string();
        assert!(error.contains("[1, 2]") && error.contains('3'), "{error}");
        Ok(())
    }
}
