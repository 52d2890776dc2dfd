//! What components and the program exchange besides arrays, as JSON: the texts of the operations of
//! [`ComponentKind`](super::ComponentKind). Later versions add fields with defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a component can do: the answer of `abilities`, which has no input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Abilities {
    /// Map transform: whether it draws. The results of steps that do are not cached.
    pub random: bool,
    /// Map transform: whether it has an inverse of its own. Otherwise a prediction is sampled on the grid
    /// before the step.
    pub invertible: bool,
    /// Writer: the endings of its files, with the dot: `.xyz`.
    pub endings: Vec<String>,
    /// Writer: the endings of the files that it writes next to each of them, in place of its ending.
    pub sides: Vec<String>,
}

/// The input of a map transform's `apply`, with the images of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCall {
    /// The keys of the images, in their order.
    pub keys: Vec<String>,
    /// A number that depends on seed, epoch, case and step only; `None` unless it says that it draws.
    pub draw: Option<u64>,
}

/// The answer of a map transform's `apply`, with an image for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapAnswer {
    /// What its inverse needs to know.
    pub state: String,
}

/// The input of a map transform's `invert`, with one image on the grid that `apply` gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inversion {
    /// The key of the image that was transformed.
    pub key: String,
    /// What `apply` answered.
    pub state: String,
    /// Whether the values are labels, which must not be averaged.
    pub nearest: bool,
    /// Size of the image before the step, which the answer has.
    pub shape: [usize; 3],
    /// Affine of the image before the step.
    pub affine: [[f64; 4]; 4],
}

/// The answer of a loss, with the gradient of the prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossAnswer {
    /// The mean over the batch; `None`, which is `null`, for NaN.
    pub loss: Option<f64>,
}

/// The input of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateCall {
    /// The number of steps or epochs so far.
    pub step: u64,
    /// Their number in the whole run, if it is known.
    pub steps: Option<u64>,
    /// The learning rate of the optimizer.
    pub base: f64,
}

/// The answer of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateAnswer {
    /// The learning rate of this step.
    pub rate: f64,
}

/// The input of a sampler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderCall {
    /// The names of the cases.
    pub cases: Vec<String>,
    /// The number of the epoch: from 1 in a training, and 0 where the program asks for the number of
    /// cases before it.
    pub epoch: u64,
    /// A number that depends on seed and epoch only.
    pub draw: u64,
    /// The last loss of each case, as far as it is known.
    pub losses: BTreeMap<String, f64>,
}

/// The answer of a sampler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAnswer {
    /// Indices of the cases of the epoch, in their order. All epochs have the same number.
    pub order: Vec<usize>,
}

/// The input of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutCall {
    /// The folder or file of the data set.
    pub folder: String,
}

/// The answer of a layout. Paths are absolute, or start at the data set's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutAnswer {
    /// The cases.
    pub cases: Vec<LayoutCase>,
    /// Names of the label values, if the data set has them.
    #[serde(default)]
    pub labels: BTreeMap<u32, String>,
    /// Names of the channels of `image`, if the data set has them.
    #[serde(default)]
    pub modalities: Vec<String>,
    /// Names of the cases for validation, if the data set reserves some.
    #[serde(default)]
    pub validation: Option<Vec<String>>,
}

/// A case of a layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutCase {
    /// The name.
    pub name: String,
    /// The files of the image: one, or one for each channel.
    pub image: Vec<String>,
    /// The file of the label map.
    #[serde(default)]
    pub label: Option<String>,
    /// Other values of the case: age, site, classes.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldValue>,
}

/// A value of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// A number.
    Number(f64),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// A text.
    Text(String),
}

/// The input of a writer, with the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCall {
    /// The path of the file.
    pub path: String,
    /// The name of the case.
    pub case: String,
}

/// The answer of a writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteAnswer {
    /// The files that it wrote, if it is not the path alone.
    pub files: Vec<String>,
}
