use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Repeats each channel `repeats` times, with adjacent copies: channels `a b` become `a a b b`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RepeatChannel};
/// let image = tiny::apply(RepeatChannel::new("image", 2), tiny::image([2, 1, 1, 1], [1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatChannel {
    keys: Keys,
    /// Number of copies of each channel in the result.
    repeats: usize,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RepeatChannel {
    /// Creates the transform: this number of copies of each channel.
    pub fn new(keys: impl Into<Keys>, repeats: usize) -> Self {
        RepeatChannel { keys: keys.into(), repeats, allow_missing_keys: false }
    }

    /// Repeats the channels of one image.
    ///
    /// # Errors
    /// Never after the check.
    pub fn repeat(&self, mut image: Image, _place: usize) -> Result<Image, TransformError> {
        let [c, x, y, z] = image.data.dims();
        let repeated = image.data.reshape([c, 1, x, y * z]).repeat_dim(1, self.repeats);
        image.data = repeated.reshape([c * self.repeats, x, y, z]);
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.repeats {
            1..=65_536 => Ok(()),
            n => Err(Fault::at("repeats", format!("{n} is not between 1 and 65536"))),
        }
    }
}

setters!(RepeatChannel {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(RepeatChannel { apply: repeat, lazy: false, check: check_parameters });

transform_entry!(
    RepeatChannel,
    r#"keys = ["image"]
repeats = 2"#
);
