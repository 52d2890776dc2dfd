use std::collections::BTreeSet;

use hearth_image::spatial::crop;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::squeeze_dim::drop_axis;
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Splits images along an axis into parts of one voxel: channels (`dim = 0`) or slices.
///
/// Parts are stored under `KEY_0`, `KEY_1`, ... (or with `output_postfixes` instead of the
/// numbers), or with `list_output` each in a separate sample, under the same key. Without `keepdim`
/// slices of a volume become 2-D images; the channel axis is always kept.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::SplitDim};
/// let sample = Sample::new("case").with_image("image", tiny::image([2, 1, 1, 1], [1.0, 2.0]));
/// let made = tiny::run(SplitDim::new("image"), sample)?;
/// assert_eq!(made[0].image("image_1")?.to_vec(), [2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitDim {
    keys: Keys,
    #[serde(default)]
    output_postfixes: Option<Vec<String>>,
    #[serde(default)]
    dim: i64,
    #[serde(default = "yes")]
    keepdim: bool,
    #[serde(default)]
    list_output: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl SplitDim {
    /// Creates the transform: splits by channel.
    pub fn new(keys: impl Into<Keys>) -> Self {
        SplitDim {
            keys: keys.into(),
            output_postfixes: None,
            dim: 0,
            keepdim: true,
            list_output: false,
            allow_missing_keys: false,
        }
    }

    /// Splits one image.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn split(&self, image: &Image) -> Result<Vec<Image>, TransformError> {
        let n = image.meta.spatial_dims as i64;
        let dim = if self.dim < 0 { self.dim + n + 1 } else { self.dim };
        if !(0..=n).contains(&dim) {
            return Err(TransformError::new(format!("there is no axis {}", self.dim))
                .expected(format!("0 (the channels) to {n}")));
        }
        let [c, x, y, z] = image.data.dims();
        if dim == 0 {
            return Ok((0..c)
                .map(|channel| {
                    let mut part = image.clone();
                    part.data = part.data.slice([channel..channel + 1, 0..x, 0..y, 0..z]);
                    part
                })
                .collect());
        }
        let axis = dim as usize - 1;
        (0..image.shape()[axis])
            .map(|at| {
                let (mut start, mut end) = ([0; 3], [x, y, z]);
                (start[axis], end[axis]) = (at, at + 1);
                let part = crop(image.clone(), start, end);
                if self.keepdim { Ok(part) } else { drop_axis(part, axis) }
            })
            .collect()
    }
}

setters!(SplitDim {
    /// Suffixes of the keys of the parts.
    output_postfixes: Option<Vec<String>>,
    /// Axis; 0 is that of the channels.
    dim: i64,
    /// Whether to keep the axis of one voxel.
    keepdim: bool,
    /// Whether each part becomes a sample.
    list_output: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SplitDim {
    fn name(&self) -> &'static str {
        "SplitDim"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut parts = Vec::new();
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            parts.push((key, sample.image(key).and_then(|image| self.split(image)).map_err(|e| e.at(key))?));
        }
        if self.list_output {
            // The number of parts, the same for every key.
            let count = parts.iter().map(|(_, list)| list.len()).min().unwrap_or(0);
            let mut out = vec![sample; count];
            for (key, list) in parts {
                for (sample, part) in out.iter_mut().zip(list) {
                    sample.values.insert(key.to_owned(), Value::Image(part));
                }
            }
            return Ok(out);
        }
        for (key, list) in parts {
            if let Some(postfixes) = self.output_postfixes.as_ref().filter(|p| p.len() != list.len()) {
                return Err(TransformError::new(format!(
                    "{} output_postfixes for {} parts",
                    postfixes.len(),
                    list.len()
                ))
                .expected("one for each part")
                .at(key));
            }
            for (i, part) in list.into_iter().enumerate() {
                let postfix = self.output_postfixes.as_ref().map_or_else(|| i.to_string(), |p| p[i].clone());
                let name = format!("{key}_{postfix}");
                if sample.values.insert(name.clone(), Value::Image(part)).is_some() {
                    return Err(TransformError::new(format!("there is a value `{name}` already")).at(key));
                }
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        /// Keys of parts that later steps may name; their number is known only after a case is
        /// loaded.
        const NAMED: usize = 64;
        self.keys.check(known)?;
        if !(-4..=3).contains(&self.dim) {
            return Err(Fault::at("dim", format!("there is no axis {}", self.dim)));
        }
        if self.dim == 0 && !self.keepdim {
            return Err(Fault::at("keepdim", "can't be false for channels: an image always has them"));
        }
        if self.list_output {
            return match self.output_postfixes {
                Some(_) => Err(Fault::at("output_postfixes", "is not used with list_output")),
                None => Ok(()),
            };
        }
        let numbers = || (0..NAMED).map(|i| i.to_string()).collect();
        let postfixes: Vec<String> = self.output_postfixes.clone().unwrap_or_else(numbers);
        for key in self.keys.iter() {
            known.extend(postfixes.iter().map(|postfix| format!("{key}_{postfix}")));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    SplitDim,
    r#"keys = ["rgb"]
output_postfixes = ["r", "g", "b"]"#
);
