use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::params::{Keys, OneOrMany, resolve_size};
use crate::spatial::{PadMode, pad};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// On which sides voxels are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadMethod {
    /// Both; the smaller half before.
    #[default]
    Symmetric,
    /// After only.
    End,
}

impl PadMethod {
    /// Voxels added before and after, of so many in all.
    pub(crate) fn sides(self, missing: [usize; 3]) -> ([usize; 3], [usize; 3]) {
        let before = match self {
            PadMethod::Symmetric => missing.map(|m| m / 2),
            PadMethod::End => [0; 3],
        };
        (before, std::array::from_fn(|a| missing[a] - before[a]))
    }
}

/// Pads to at least `spatial_size` voxels per axis; an entry that is not positive keeps that axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpatialPad {
    keys: Keys,
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    method: PadMethod,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default)]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl SpatialPad {
    /// With zeros, on both sides.
    pub fn new(keys: impl Into<Keys>, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        SpatialPad {
            keys: keys.into(),
            spatial_size: spatial_size.into(),
            method: PadMethod::default(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Pads one image; `place` is that of its key.
    ///
    /// # Errors
    /// Where `spatial_size` has too few axes.
    pub fn pad(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let shape = image.shape();
        let size = resolve_size(&self.spatial_size, shape, image.meta.spatial_dims)?;
        let missing: [usize; 3] = std::array::from_fn(|a| size[a].saturating_sub(shape[a]));
        let (before, after) = self.method.sides(missing);
        pad(image, before, after, self.mode.at(place).unwrap_or_default(), self.value)
    }
}

setters!(SpatialPad {
    /// On which sides.
    method: PadMethod,
    /// What the added voxels hold, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SpatialPad {
    fn name(&self) -> &'static str {
        "SpatialPad"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.pad(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}
