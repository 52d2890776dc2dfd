use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::select;
use crate::params::Keys;

/// Keeps the first of every `repeats` channels.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RemoveRepeatedChannel};
/// let twice = tiny::image([2, 1, 1, 1], [5.0, 5.0]);
/// let image = tiny::apply(RemoveRepeatedChannel::new("image", 2), twice)?;
/// assert_eq!(image.to_vec(), [5.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRepeatedChannel {
    keys: Keys,
    /// Number of copies of each channel.
    repeats: usize,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RemoveRepeatedChannel {
    /// Creates the transform: keeps one of `repeats`.
    pub fn new(keys: impl Into<Keys>, repeats: usize) -> Self {
        RemoveRepeatedChannel { keys: keys.into(), repeats, allow_missing_keys: false }
    }

    /// Changes one image.
    ///
    /// # Errors
    /// If it has only one channel.
    pub fn remove(&self, mut image: Image) -> Result<Image, TransformError> {
        if image.channels() < 2 {
            let what = format!("the image has {} channel, none is repeated", image.channels());
            return Err(TransformError::new(what).expected("several channels"));
        }
        let kept: Vec<usize> = (0..image.channels()).step_by(self.repeats.max(1)).collect();
        image.data = select(&image, &kept);
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.repeats {
            0 => Err(Fault::at("repeats", "is 0; a channel exists at least once")),
            _ => Ok(()),
        }
    }
}

setters!(RemoveRepeatedChannel {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(RemoveRepeatedChannel, remove);

transform_entry!(
    RemoveRepeatedChannel,
    r#"keys = ["rgb"]
repeats = 3"#
);
