use std::collections::BTreeSet;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mixing::{self, Mixing, as_image, one};
use crate::params::Keys;

/// Mixes the cases of a batch: each becomes `w * x + (1 - w) * y` with another case `y` of the batch
/// and its own weight `w` (Zhang et al., "mixup: Beyond empirical risk minimization", 2018).
///
/// Weights are drawn from Beta(alpha, alpha) and are the same for all keys. It needs `batch = true`.
/// A label must be mixed too, and needs a channel for each class: numbers of classes have no mean.
/// With `batch_size` a batch of another size is an error.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{MixUp, Mixing}};
/// let batch = tiny::image([2, 2, 1, 1], [0.0, 1.0, 8.0, 9.0]);
/// let mixing = Mixing { weights: vec![0.75, 0.5], partners: vec![1, 0], corner: [0; 3] };
/// assert_eq!(MixUp::new("image").mix(batch, &mixing)?.to_vec(), [2.0, 3.0, 4.0, 5.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixUp {
    keys: Keys,
    #[serde(default)]
    batch_size: Option<usize>,
    #[serde(default = "one")]
    alpha: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl MixUp {
    /// Creates the transform: alpha 1, for batches of any size.
    pub fn new(keys: impl Into<Keys>) -> Self {
        MixUp { keys: keys.into(), batch_size: None, alpha: one(), allow_missing_keys: false }
    }

    /// Mixes the entries of a batch, which are in turn the channels of the image.
    ///
    /// # Errors
    /// If the channels are not those of as many entries as were drawn for.
    pub fn mix(&self, image: Image, mixing: &Mixing) -> Result<Image, TransformError> {
        let entries = mixing.entries(&image)?;
        let weights = mixing.weights_like(&entries);
        let partners = mixing.partners_of(entries.clone());
        let mixed = entries * weights.clone() + partners * (1.0 - weights);
        Ok(as_image(image, mixed))
    }

    fn all_keys(&self) -> Keys {
        self.keys.clone()
    }

    fn check_parameters(&self, _: &BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }
}

setters!(MixUp {
    /// Number of entries that a batch must have.
    batch_size: Option<usize>,
    /// Both parameters of the Beta distribution of the weights.
    alpha: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

transform_of_batches!(MixUp);

transform_entry!(
    MixUp,
    r#"keys = ["image", "label"]
alpha = 0.4"#
);
