use std::collections::BTreeSet;

use hearth_image::affine::Affine;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{clicks, image};
use crate::params::check_key;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Moves clicks from voxels of an image's file to voxels of the image as it is now, for instance
/// after `Orientation` (`OrientationGuidanceMultipleLabelDeepEditd` of MONAI's bundle
/// `spleen_deepedit_annotation`).
///
/// The value of each label holds the coordinates of its clicks, three each, one click after the
/// other. A label without a value has no clicks.
///
/// ```
/// # use hearth_transforms::{Sample, Value, tiny};
/// # use hearth_transforms::transforms::{Flip, OrientationGuidanceMultipleLabelDeepEdit};
/// let flipped = tiny::apply(Flip::new("image"), tiny::ramp([1, 4, 3, 2]))?;
/// let sample = Sample::new("case").with_image("image", flipped);
/// let sample = sample.with("spleen", Value::Numbers([0.0, 1.0, 1.0].as_slice().into()));
/// let made = tiny::run(OrientationGuidanceMultipleLabelDeepEdit::new(["spleen"]), sample)?;
/// assert!(matches!(made[0].get("spleen")?, Value::Numbers(at) if at[..] == [3.0, 1.0, 0.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrientationGuidanceMultipleLabelDeepEdit {
    #[serde(default = "image")]
    ref_image: String,
    label_names: Vec<String>,
}

impl OrientationGuidanceMultipleLabelDeepEdit {
    /// Creates the transform: moves the clicks of these labels to the grid of the value `image`.
    pub fn new<S: Into<String>>(label_names: impl IntoIterator<Item = S>) -> Self {
        let label_names = label_names.into_iter().map(Into::into).collect();
        OrientationGuidanceMultipleLabelDeepEdit { ref_image: image(), label_names }
    }
}

setters!(OrientationGuidanceMultipleLabelDeepEdit {
    /// Key of the image.
    ref_image: String,
    /// Labels, which are the keys of their clicks.
    label_names: Vec<String>,
});

impl Transform for OrientationGuidanceMultipleLabelDeepEdit {
    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn other_keys(&self) -> Vec<&str> {
        std::iter::once(&self.ref_image).chain(&self.label_names).map(String::as_str).collect()
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let image = sample.image(&self.ref_image).map_err(|e| e.at(&self.ref_image))?;
        let way = way(image)
            .ok_or_else(|| TransformError::new("the affine of the image cannot be inverted").at(&self.ref_image))?;
        for label in &self.label_names {
            let moved: Vec<f64> = clicks(&sample, label)?.into_iter().flat_map(|at| apply(&way, at)).collect();
            if !moved.is_empty() {
                sample.values.insert(label.clone(), Value::Numbers(moved.into()));
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        check_key("ref_image", &self.ref_image, known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

/// The matrix from voxels of the file to those of the image. Later steps truncate coordinates, so
/// the last bit may decide between two voxels: it is computed like in NumPy and its libraries, with
/// reciprocals of the pivots and fused products. For images along the world axes the voxels are
/// then the same.
fn way(image: &Image) -> Option<Affine> {
    let back = inverse(&image.affine)?;
    let file = &image.meta.original_affine;
    let entry = |r: usize, c: usize| (0..4).fold(0.0, |sum, k| f64::mul_add(back[r][k], file[k][c], sum));
    Some(std::array::from_fn(|r| std::array::from_fn(|c| entry(r, c))))
}

fn apply(way: &Affine, [x, y, z]: [f64; 3]) -> [f64; 3] {
    let at = [x, y, z, 1.0];
    std::array::from_fn(|r| (0..4).fold(0.0, |sum, k| f64::mul_add(way[r][k], at[k], sum)))
}

/// The inverse by an LU decomposition with row pivoting; `None` if it does not exist.
#[allow(clippy::needless_range_loop, reason = "the indices are rows and columns of several arrays")]
fn inverse(affine: &Affine) -> Option<Affine> {
    let (mut lu, mut rows) = (*affine, [0, 1, 2, 3]);
    for c in 0..4 {
        let pivot = (c..4).reduce(|best, r| if lu[r][c].abs() > lu[best][c].abs() { r } else { best })?;
        if lu[pivot][c] == 0.0 || !lu[pivot][c].is_finite() {
            return None;
        }
        lu.swap(c, pivot);
        rows.swap(c, pivot);
        let scale = 1.0 / lu[c][c];
        for r in c + 1..4 {
            lu[r][c] *= scale;
            for k in c + 1..4 {
                lu[r][k] -= lu[r][c] * lu[c][k];
            }
        }
    }
    let mut made = [[0.0; 4]; 4];
    for column in 0..4 {
        let mut x = rows.map(|row| if row == column { 1.0 } else { 0.0 });
        for k in 0..4 {
            for r in k + 1..4 {
                x[r] -= lu[r][k] * x[k];
            }
        }
        for k in (0..4).rev() {
            x[k] *= 1.0 / lu[k][k];
            for r in 0..k {
                x[r] -= lu[r][k] * x[k];
            }
        }
        for (row, value) in made.iter_mut().zip(x) {
            row[column] = value;
        }
    }
    made.iter().flatten().all(|value| value.is_finite()).then_some(made)
}

transform_entry!(
    OrientationGuidanceMultipleLabelDeepEdit,
    r#"ref_image = "image"
label_names = ["spleen", "background"]"#
);

#[cfg(test)]
mod tests {
    use super::{OrientationGuidanceMultipleLabelDeepEdit, inverse};
    use crate::{Sample, Value, tiny};
    use hearth_image::affine;

    #[test]
    fn the_inverse_is_one() {
        let oblique = [[0.0, -1.2, 0.3, 5.0], [0.9, 0.1, 0.0, -70.0], [0.2, 0.0, 2.5, 11.0], [0.0, 0.0, 0.0, 1.0]];
        let product = affine::compose(&inverse(&oblique).expect("not singular"), &oblique);
        assert!(affine::distance(&product, &affine::IDENTITY) < 1e-12, "{product:?}");
        assert_eq!(inverse(&[[0.0; 4]; 4]), None);
    }

    #[test]
    fn clicks_that_are_none_are_told() {
        let run = |value: Value| {
            let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 3, 2])).with("spleen", value);
            tiny::run(OrientationGuidanceMultipleLabelDeepEdit::new(["spleen"]), sample)
        };
        let error = run(Value::Numbers([1.0, 2.0].as_slice().into())).expect_err("two numbers").to_string();
        assert!(error.contains("2 numbers") && error.contains("spleen"), "{error}");
        assert!(run(Value::Number(1.0)).is_err());
        assert!(run(Value::Numbers([1.0, f64::NAN, 2.0].as_slice().into())).is_err());
        assert!(run(Value::Numbers([].as_slice().into())).is_ok());
    }
}
