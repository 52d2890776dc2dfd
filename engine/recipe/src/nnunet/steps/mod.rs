//! nnU-Net's preprocessing, patches and augmentation as transforms of a recipe.
//!
//! nnU-Net's arrays are z y x, so the first step reorders the axes of an image, and all others see
//! them in this order.

mod augment;
mod patch;
mod preprocess;
mod previous_stage;
mod rand_previous_stage;

use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Image, TransformError};
use hearth_nnunet::Volume;
use hearth_registry::Fault;
use serde::Serialize;

pub use augment::RandNnunetAugment;
pub use patch::RandNnunetPatch;
pub(super) use preprocess::as_read;
pub use preprocess::{NnunetPreprocess, Normalization};
pub use previous_stage::NnunetPreviousStage;
pub use rand_previous_stage::RandNnunetPreviousStage;

/// The values of an image; a slice has one voxel along the first axis.
fn volume(image: &Image) -> Result<Volume, TransformError> {
    let [x, y, z] = image.shape();
    let shape = if image.meta.spatial_dims == 2 { [1, x, y] } else { [x, y, z] };
    let values = image.to_vec();
    Volume::new(image.channels(), shape, values).ok_or_else(|| TransformError::new("the image's values cannot be read"))
}

/// The volume as a tensor; if `flat`, that of a slice.
fn tensor(volume: Volume, flat: bool, device: &Device) -> Tensor<4> {
    let [z, y, x] = volume.shape;
    let shape = if flat { [volume.channels, y, x, 1] } else { [volume.channels, z, y, x] };
    Tensor::from_data(TensorData::new(volume.data, shape), device)
}

/// The name and parameters of a step, as in a recipe.
fn describe(name: &str, parameters: &impl Serialize) -> serde_json::Value {
    let mut out = serde_json::Map::from_iter([("name".to_owned(), name.into())]);
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(parameters) {
        out.extend(fields);
    }
    out.into()
}

fn probability(key: &str, value: f64) -> Result<(), Fault> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Fault::at(key, format!("{value} is not a probability (0 to 1)")))
}

fn range(key: &str, [low, high]: [f64; 2], least: f64) -> Result<(), Fault> {
    if low >= least && low <= high && high.is_finite() {
        return Ok(());
    }
    Err(Fault::at(key, format!("{low}..{high} is not a range of numbers of at least {least}")))
}

/// Checks that the labels of an earlier stage exist at a step that uses them.
fn check_previous(key: Option<&str>, known: &BTreeSet<String>) -> Result<(), Fault> {
    match key.filter(|key| !known.contains(*key)) {
        Some(key) => {
            Err(Fault::at("previous_key", format!("no image {key:?} exists at this step: LoadImage reads it")))
        }
        None => Ok(()),
    }
}
