//! What a transform is.

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::{CheckError, Draw, Sample, TransformError};

/// One step of a pipeline. Parameters have MONAI's names; values live on any device and stay there.
pub trait Transform: Send + Sync + Debug {
    /// MONAI's name, without the `d` of its dictionary form.
    fn name(&self) -> &'static str;

    /// Whether it draws random numbers. Caches keep what comes before the first such step.
    fn is_random(&self) -> bool {
        false
    }

    /// Whether it works on images through the functions of [`spatial`](crate::spatial), [`Image::shape`](crate::Image::shape) and
    /// [`Image::affine`](crate::Image) alone, never through their values. A run of such steps may be composed and sampled once.
    fn is_lazy(&self) -> bool {
        false
    }

    /// Whether a [lazy](Transform::is_lazy) step looks at values before it works on images that way: the steps before it are done first,
    /// its own part may wait for those behind it.
    fn requires_current_data(&self) -> bool {
        false
    }

    /// Whether it takes the value of this key as it is while it is still [stored](crate::StoredImage): it asks for its shape
    /// ([`Sample::shape`], [`Sample::meta`]), cuts boxes ([`Sample::crop`]) or draws from a list ([`Sample::index_list`]), and
    /// nothing else. Keys that it does not touch count too. Every other value is read in full before the step.
    fn reads_boxes(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Does the work. Crops may give several samples for one.
    ///
    /// # Errors
    /// Where the sample does not have what the transform needs.
    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError>;

    /// Looks at the parameters before the first case: `known` are the keys that exist at this step, and the transform adds
    /// those that it makes.
    ///
    /// # Errors
    /// Where a parameter makes no sense or a key does not exist.
    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError>;

    /// Name and parameters, as in a recipe; what a dry run prints and a cache key is made of.
    fn describe(&self) -> serde_json::Value;
}

/// [`Transform::describe`] for a transform whose fields are its parameters.
pub(crate) fn describe(name: &str, parameters: &impl serde::Serialize) -> serde_json::Value {
    let mut out = serde_json::Map::new();
    out.insert("name".to_owned(), name.into());
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(parameters) {
        out.extend(fields);
    }
    out.into()
}
