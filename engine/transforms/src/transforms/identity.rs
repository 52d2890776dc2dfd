use hearth_image::{Image, TransformError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Effect;
use crate::params::Keys;

/// Changes nothing: a placeholder for a step.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Identity};
/// let image = tiny::apply(Identity::new("image"), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    keys: Keys,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Identity {
    /// Creates the transform for these keys.
    pub fn new(keys: impl Into<Keys>) -> Self {
        Identity { keys: keys.into(), allow_missing_keys: false }
    }

    fn keep(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        Ok(image)
    }
}

setters!(Identity {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Identity {
    fn of_grid(&self) -> Effect {
        Effect::Nothing
    }
}

per_image!(Identity { apply: keep, lazy: true, effect: of_grid });

transform_entry!(Identity, r#"keys = ["image"]"#);
