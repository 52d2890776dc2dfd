use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Concatenates images along axis `dim` (0: the channels) to one, stored under `name`. The geometry
/// is that of the first image.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::ConcatItems};
/// let (a, b) = (tiny::line([1.0, 2.0]), tiny::line([3.0, 4.0]));
/// let sample = Sample::new("case").with_image("a", a).with_image("b", b);
/// let made = tiny::run(ConcatItems::new(["a", "b"], "both"), sample)?;
/// let both = made[0].image("both")?;
/// assert_eq!((both.channels(), both.to_vec()), (2, vec![1.0, 2.0, 3.0, 4.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcatItems {
    keys: Keys,
    /// Key of the result; MONAI's `name`, which in a recipe is the name of the transform.
    #[serde(rename = "output_key")]
    name: String,
    #[serde(default)]
    dim: i64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ConcatItems {
    /// Creates the transform: concatenates the channels of these images.
    pub fn new(keys: impl Into<Keys>, name: &str) -> Self {
        ConcatItems { keys: keys.into(), name: name.to_owned(), dim: 0, allow_missing_keys: false }
    }
}

setters!(ConcatItems {
    /// Axis; 0 is that of the channels.
    dim: i64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ConcatItems {
    fn name(&self) -> &'static str {
        "ConcatItems"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let Some((_, first)) = keys.first() else { return Ok(vec![sample]) };
        let mut joined = sample.image(first).map_err(|e| e.at(first))?.clone();
        let n = joined.meta.spatial_dims as i64;
        let dim = if self.dim < 0 { self.dim + n + 1 } else { self.dim };
        if !(0..=n).contains(&dim) {
            return Err(TransformError::new(format!("there is no axis {}", self.dim))
                .expected(format!("0 (the channels) to {n}")));
        }
        let (dim, expected, device) = (dim as usize, joined.data.dims(), joined.data.device());
        let mut parts = Vec::with_capacity(keys.len());
        for (_, key) in &keys {
            let data = &sample.image(key).map_err(|e| e.at(key))?.data;
            let dims = data.dims();
            if (0..4).any(|axis| axis != dim && dims[axis] != expected[axis]) {
                return Err(TransformError::new(format!("`{key}` is {dims:?} (channels, x, y, z)"))
                    .expected(format!("{expected:?}, as `{first}`, except for axis {dim}"))
                    .at(key));
            }
            parts.push(if data.device() == device { data.clone() } else { data.clone().to_device(&device) });
        }
        joined.data = Tensor::cat(parts, dim);
        sample.values.insert(self.name.clone(), Value::Image(joined));
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if !(-4..=3).contains(&self.dim) {
            return Err(Fault::at("dim", format!("there is no axis {}", self.dim)));
        }
        known.insert(self.name.clone());
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ConcatItems,
    r#"keys = ["image", "other"]
output_key = "both""#
);
