//! Clicks as channels of an image, as in MONAI's DeepEdit.

mod add_guidance_from_points;
mod add_guidance_signal;
mod orientation_guidance;
mod resize_guidance;

pub use add_guidance_from_points::AddGuidanceFromPointsDeepEdit;
pub use add_guidance_signal::AddGuidanceSignalDeepEdit;
pub use orientation_guidance::OrientationGuidanceMultipleLabelDeepEdit;
pub use resize_guidance::ResizeGuidanceMultipleLabelDeepEdit;

use hearth_image::{Image, TransformError};

use crate::{Sample, Value};

fn image() -> String {
    "image".to_owned()
}

fn guidance() -> String {
    "guidance".to_owned()
}

/// The clicks of each label, in the order of the labels. A sample stores them as text: a JSON
/// object of lists of points.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guidance(Vec<(String, Vec<Vec<i64>>)>);

impl Guidance {
    fn of(sample: &Sample, key: &str) -> Result<Self, TransformError> {
        let wrong = |what: String| {
            TransformError::new(what).expected("a JSON object with a list of points for each label").at(key)
        };
        let text = match sample.get(key).map_err(|e| e.at(key))? {
            Value::Text(text) => text,
            other => return Err(wrong(format!("it is {}", other.kind()))),
        };
        let parsed = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let serde_json::Value::Object(labels) = parsed else { return Err(wrong("it is not a JSON object".to_owned())) };
        let points = |label: String, points| {
            let points = serde_json::from_value(points).map_err(|error| wrong(format!("{label}: {error}")))?;
            Ok((label, points))
        };
        labels.into_iter().map(|(label, value)| points(label, value)).collect::<Result<_, _>>().map(Guidance)
    }

    fn value(&self) -> Value {
        let labels = self.0.iter().map(|(label, points)| (label.clone(), serde_json::json!(points)));
        Value::Text(serde_json::Value::Object(labels.collect()).to_string())
    }

    /// Multiplies all coordinates by the factor of their axis, and truncates them towards 0 like
    /// NumPy.
    fn scaled(self, factors: [f64; 3]) -> Self {
        let scaled = |point: Vec<i64>| {
            point.iter().zip(factors).map(|(at, factor)| (*at as f64 * factor).trunc() as i64).collect()
        };
        let labels = self.0.into_iter();
        Guidance(labels.map(|(label, points)| (label, points.into_iter().map(scaled).collect())).collect())
    }
}

/// The coordinates of clicks, three each; empty for a label without a value.
fn clicks(sample: &Sample, label: &str) -> Result<Vec<[f64; 3]>, TransformError> {
    let numbers = match sample.values.get(label) {
        None => return Ok(Vec::new()),
        Some(Value::Numbers(numbers)) => numbers,
        Some(other) => {
            let what = format!("`{label}` is {}", other.kind());
            return Err(TransformError::new(what).expected("the coordinates of clicks, three each").at(label));
        }
    };
    if !numbers.len().is_multiple_of(3) || numbers.iter().any(|number| !number.is_finite()) {
        let what = format!("`{label}` has {} numbers", numbers.len());
        return Err(TransformError::new(what).expected("three finite coordinates for each click").at(label));
    }
    Ok(numbers.chunks_exact(3).map(|point| [point[0], point[1], point[2]]).collect())
}

/// The ratio of an image's size to that in its file, along each axis.
fn factors(image: &Image) -> Result<[f64; 3], TransformError> {
    let before = &image.meta.original_shape;
    if image.meta.spatial_dims != 3 || before.len() < 3 || before[..3].contains(&0) {
        return Err(TransformError::new(format!("the image has {:?} voxels, in its file {before:?}", image.shape()))
            .expected("a volume with three axes"));
    }
    let now = image.shape();
    Ok([0, 1, 2].map(|axis| now[axis] as f64 / before[axis] as f64))
}

#[cfg(test)]
mod tests {
    use super::Guidance;
    use crate::{Sample, Value};

    #[test]
    fn guidance_that_is_none_is_told() {
        for (text, part) in [("[]", "not a JSON object"), ("{\"a\": 3}", "a: invalid type"), ("{", "EOF")] {
            let sample = Sample::new("case").with("guidance", Value::Text(text.to_owned()));
            let error = Guidance::of(&sample, "guidance").expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        let sample = Sample::new("case").with("guidance", Value::Number(1.0));
        assert!(Guidance::of(&sample, "guidance").is_err() && Guidance::of(&sample, "other").is_err());
    }
}
