use std::collections::BTreeSet;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mixing::{self, Mixing, as_image, one};
use crate::params::{Keys, check_key};

/// Replaces a box of each case of a batch by that of another case (Yun et al., "CutMix:
/// Regularization strategy to train strong classifiers with localizable features", 2019).
///
/// All boxes begin at the same voxel, drawn uniformly, and take `sqrt(1 - w)` of each axis, up to the
/// end of the image, with a weight `w` of each case from Beta(alpha, alpha). `label_keys` get the
/// same boxes. It needs `batch = true`. With `batch_size` a batch of another size is an error.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{CutMix, Mixing}};
/// let batch = tiny::image([2, 4, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
/// let mixing = Mixing { weights: vec![0.75, 1.0], partners: vec![1, 0], corner: [1, 0, 0] };
/// let mixed = CutMix::new("image").mix(batch, &mixing)?;
/// assert_eq!(mixed.to_vec(), [1.0, 6.0, 7.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutMix {
    keys: Keys,
    #[serde(default)]
    batch_size: Option<usize>,
    #[serde(default)]
    label_keys: Option<Keys>,
    #[serde(default = "one")]
    alpha: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl CutMix {
    /// Creates the transform: alpha 1, for batches of any size.
    pub fn new(keys: impl Into<Keys>) -> Self {
        CutMix { keys: keys.into(), batch_size: None, label_keys: None, alpha: one(), allow_missing_keys: false }
    }

    /// Replaces boxes of the entries of a batch, which are in turn the channels of the image.
    ///
    /// # Errors
    /// If the channels are not those of as many entries as were drawn for.
    pub fn mix(&self, image: Image, mixing: &Mixing) -> Result<Image, TransformError> {
        let given = mixing.entries(&image)?;
        let (dims, mut mixed) = (given.dims(), given.clone());
        for (entry, partner) in mixing.partners.iter().enumerate() {
            let Some(region) = mixing.region(entry, dims) else { continue };
            let [_, channels, x, y, z] = region.clone();
            let part = given.clone().slice([*partner..partner + 1, channels, x, y, z]);
            mixed = mixed.slice_assign(region, part);
        }
        Ok(as_image(image, mixed))
    }

    fn labels(&self) -> Vec<&str> {
        self.label_keys.iter().flat_map(Keys::iter).collect()
    }

    fn all_keys(&self) -> Keys {
        Keys::from(self.keys.iter().chain(self.labels()).collect::<Vec<&str>>())
    }

    fn check_parameters(&self, known: &BTreeSet<String>) -> Result<(), Fault> {
        let Some(labels) = &self.label_keys else { return Ok(()) };
        labels.iter().try_for_each(|key| check_key("label_keys", key, known))?;
        match labels.iter().find(|label| self.keys.iter().any(|key| key == *label)) {
            Some(twice) => Err(Fault::at("label_keys", format!("{twice:?} is in `keys` too"))),
            None => Ok(()),
        }
    }
}

setters!(CutMix {
    /// Number of entries that a batch must have.
    batch_size: Option<usize>,
    /// Labels that get the same boxes.
    label_keys: Option<Keys>,
    /// Both parameters of the Beta distribution of the weights.
    alpha: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl From<&str> for crate::Optional<Keys> {
    fn from(key: &str) -> Self {
        Self(Some(key.into()))
    }
}

transform_of_batches!(CutMix, other_keys: labels);

transform_entry!(
    CutMix,
    r#"keys = ["image"]
label_keys = ["label"]
alpha = 0.5"#
);
