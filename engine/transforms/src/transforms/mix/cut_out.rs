use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mixing::{self, Mixing, as_image, one};
use crate::params::Keys;

/// Sets a box of each case of a batch to 0 (DeVries and Taylor, "Improved regularization of
/// convolutional neural networks with cutout", 2017).
///
/// All boxes begin at the same voxel, drawn uniformly, and take `sqrt(1 - w)` of each axis, up to the
/// end of the image, with a weight `w` of each case from Beta(alpha, alpha). It needs
/// `batch = true`; `RandCoarseDropout` is for single cases. With `batch_size` a batch of another size
/// is an error.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::{CutOut, Mixing}};
/// let batch = tiny::image([2, 4, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
/// let mixing = Mixing { weights: vec![0.75, 0.0], partners: vec![0, 1], corner: [1, 0, 0] };
/// let cut = CutOut::new("image").mix(batch, &mixing)?;
/// assert_eq!(cut.to_vec(), [1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutOut {
    keys: Keys,
    #[serde(default)]
    batch_size: Option<usize>,
    #[serde(default = "one")]
    alpha: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl CutOut {
    /// Creates the transform: alpha 1, for batches of any size.
    pub fn new(keys: impl Into<Keys>) -> Self {
        CutOut { keys: keys.into(), batch_size: None, alpha: one(), allow_missing_keys: false }
    }

    /// Empties boxes of the entries of a batch, which are in turn the channels of the image.
    ///
    /// # Errors
    /// If the channels are not those of as many entries as were drawn for.
    pub fn mix(&self, image: Image, mixing: &Mixing) -> Result<Image, TransformError> {
        let mut cut = mixing.entries(&image)?;
        let (dims, device) = (cut.dims(), cut.device());
        for region in (0..dims[0]).filter_map(|entry| mixing.region(entry, dims)) {
            let empty = Tensor::zeros(region.clone().map(|range| range.len()), &device);
            cut = cut.slice_assign(region, empty);
        }
        Ok(as_image(image, cut))
    }

    fn all_keys(&self) -> Keys {
        self.keys.clone()
    }

    fn check_parameters(&self, _: &BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }
}

setters!(CutOut {
    /// Number of entries that a batch must have.
    batch_size: Option<usize>,
    /// Both parameters of the Beta distribution of the weights.
    alpha: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

transform_of_batches!(CutOut);

transform_entry!(
    CutOut,
    r#"keys = ["image"]
alpha = 0.5"#
);
