use hearth_image::spatial::{self, PadMode};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::intensity::check_finite;
use crate::params::Keys;

/// Adds `to_pad` voxels: an entry for the channels, which must be `[0, 0]`, then one for each axis
/// with the numbers before and after. Omitted axes are unchanged.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Pad};
/// let image = tiny::apply(Pad::new("image", [[0, 0], [1, 0]]), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    keys: Keys,
    /// Number of voxels before and after, for the channels and each axis.
    to_pad: Vec<[usize; 2]>,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Pad {
    /// Creates the transform: pads with zeros.
    pub fn new(keys: impl Into<Keys>, to_pad: impl Into<Vec<[usize; 2]>>) -> Self {
        Pad {
            keys: keys.into(),
            to_pad: to_pad.into(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// Pads one image; `place` is the index of its key.
    ///
    /// # Errors
    /// If an axis does not exist, the mode has no voxels to copy, or the result would be too large.
    pub fn pad(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        if self.to_pad.len() > n + 1 {
            return Err(TransformError::new(format!("`to_pad` has {} entries", self.to_pad.len()))
                .expected(format!("one for the channels and up to {n}, one per axis")));
        }
        let side = |side: usize| std::array::from_fn(|a| self.to_pad.get(a + 1).map_or(0, |pair| pair[side]));
        spatial::pad(image, side(0), side(1), self.mode.at(place).unwrap_or_default(), self.value)
    }

    /// Statistics of whole lines are computed on the host.
    fn looks_at_all(&self) -> bool {
        self.mode.as_slice().iter().any(|mode| mode.looks_at_all())
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if self.to_pad.first().is_some_and(|channels| *channels != [0, 0]) || self.to_pad.len() > 4 {
            return Err(Fault::at("to_pad", "must be [0, 0] (the channels), then [before, after] for each axis"));
        }
        check_finite("value", f64::from(self.value))?;
        self.keys.check_list("mode", &self.mode)
    }
}

setters!(Pad {
    /// How added voxels are filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(Pad { apply: pad, lazy: true, check: check_parameters, through_host: Self::looks_at_all });

transform_entry!(
    Pad,
    r#"keys = ["image"]
to_pad = [[0, 0], [2, 2], [2, 2], [0, 0]]"#
);
