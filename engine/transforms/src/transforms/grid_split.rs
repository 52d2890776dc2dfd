use std::collections::{BTreeMap, BTreeSet};

use hearth_image::spatial::crop;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Splits images into a `grid` of parts, one sample each, rows first; three entries are for 3-D.
///
/// Parts have `size` voxels (one number, one per axis, or a table of them by key); by default parts
/// are adjacent. Their distance is chosen so that the last part ends with the image, as far as
/// whole voxels allow.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::GridSplit};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0, 3.0, 4.0]));
/// let parts = tiny::run(GridSplit::new("image").grid([2, 1, 1]), sample)?;
/// assert_eq!(parts.len(), 2);
/// assert_eq!(parts[0].image("image")?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridSplit {
    keys: Keys,
    #[serde(default = "two_by_two")]
    grid: Vec<usize>,
    #[serde(default)]
    size: Option<SplitSize>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The size of the parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected whole numbers of voxels, or a table with those of each key")]
pub enum SplitSize {
    /// One size for all keys.
    All(OneOrMany<usize>),
    /// Sizes by key; a key without an entry is split into adjacent parts.
    ByKey(BTreeMap<String, OneOrMany<usize>>),
}

fn two_by_two() -> Vec<usize> {
    vec![2, 2]
}

impl GridSplit {
    /// Creates the transform: four adjacent parts.
    pub fn new(keys: impl Into<Keys>) -> Self {
        GridSplit { keys: keys.into(), grid: two_by_two(), size: None, allow_missing_keys: false }
    }

    /// Splits one image.
    ///
    /// # Errors
    /// If the image has another number of axes than the grid, or is smaller than a part.
    pub fn split(&self, image: &Image, key: &str) -> Result<Vec<Image>, TransformError> {
        let n = image.meta.spatial_dims;
        if self.grid.len() != n {
            return Err(TransformError::new(format!("a grid of {:?} for an image of {n} axes", self.grid))
                .expected("one entry per axis"));
        }
        let shape = image.shape();
        let wanted = match &self.size {
            Some(SplitSize::All(size)) => Some(size),
            Some(SplitSize::ByKey(sizes)) => sizes.get(key),
            None => None,
        };
        let (mut size, mut step) = (shape, [0; 3]);
        for axis in 0..n {
            let parts = self.grid[axis];
            size[axis] = match wanted {
                Some(size) => crate::params::per_axis("size", size, n, 1)?[axis],
                None => shape[axis] / parts.max(1),
            };
            if size[axis] > shape[axis] || size[axis] == 0 {
                return Err(TransformError::new(format!("parts of {} voxels along axis {axis}", size[axis]))
                    .expected(format!("at least one voxel, and at most the image's {}", shape[axis])));
            }
            step[axis] = if parts > 1 { (shape[axis] - size[axis]) / (parts - 1) } else { 0 };
        }
        let parts: [usize; 3] = std::array::from_fn(|a| self.grid.get(a).copied().unwrap_or(1));
        let mut out = Vec::with_capacity(parts.iter().product());
        for i in 0..parts[0] {
            for j in 0..parts[1] {
                for k in 0..parts[2] {
                    let start: [usize; 3] = std::array::from_fn(|a| step[a] * [i, j, k][a]);
                    out.push(crop(image.clone(), start, std::array::from_fn(|a| start[a] + size[a])));
                }
            }
        }
        Ok(out)
    }
}

setters!(GridSplit {
    /// Number of parts along each axis.
    grid: Vec<usize>,
    /// Size of a part in voxels.
    size: Option<SplitSize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for GridSplit {
    fn name(&self) -> &'static str {
        "GridSplit"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut out = vec![sample; self.grid.iter().product()];
        let Some(first) = out.first().cloned() else { return Ok(out) };
        for (_, key) in self.keys.of(&first, self.allow_missing_keys) {
            let parts = first.image(key).and_then(|image| self.split(image, key)).map_err(|e| e.at(key))?;
            for (sample, part) in out.iter_mut().zip(parts) {
                sample.values.insert(key.to_owned(), Value::Image(part));
            }
        }
        Ok(out)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        /// The maximum number of parts of a case.
        const MOST: usize = 1 << 20;
        self.keys.check(known)?;
        let parts = self.grid.iter().try_fold(1_usize, |all, n| all.checked_mul(*n)).unwrap_or(usize::MAX);
        if !matches!(self.grid.len(), 2 | 3) || !(1..=MOST).contains(&parts) {
            return Err(Fault::at("grid", format!("must have 2 or 3 entries of at least 1, and at most {MOST} parts")));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    GridSplit,
    r#"keys = ["rgb"]
grid = [2, 2]"#
);
