//! Collates samples into batches, and decollates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use hearth_image::spatial::{PadMode, pad};
use hearth_image::{Affine, Image, Meta};
use hearth_kernels::host;
use hearth_transforms::transforms::PadMethod;
use hearth_transforms::{Sample, Value};

use crate::DataError;

/// A way to combine samples into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Collate {
    /// Stacks images, which must have the same size for each key.
    #[default]
    List,
    /// Pads smaller images to the largest of their key along each axis, and records it: the inverse
    /// removes the padding.
    Pad {
        /// Sides on which voxels are added.
        method: PadMethod,
        /// Values of the added voxels.
        mode: PadMode,
        /// Constant of [`PadMode::Constant`].
        value: f32,
    },
}

/// Samples stacked along a new first axis. What a loader returns, and [`collate`] makes.
///
/// ```
/// use hearth_datasets::{collate, decollate};
/// use hearth_transforms::{Sample, tiny};
/// let sample = |case: &str| Sample::new(case).with_image("image", tiny::line([1.0, 2.0, 3.0]));
/// let batch = collate(vec![sample("a"), sample("b")])?;
/// assert_eq!(batch.tensor("image")?.dims(), [2, 1, 3, 1, 1]);
/// assert_eq!(decollate(batch)?[1].case, "b");
/// # Ok::<(), hearth_datasets::DataError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Tensors `[B, C, X, Y, Z]` by key.
    pub tensors: BTreeMap<String, Tensor<5>>,
    /// Case of each entry.
    pub cases: Vec<String>,
    /// Geometry and history of each entry's images.
    pub images: Vec<BTreeMap<String, ImageInfo>>,
    /// One number per entry, by key.
    pub numbers: BTreeMap<String, Vec<f64>>,
    /// Several numbers per entry, by key.
    pub lists: BTreeMap<String, Vec<Arc<[f64]>>>,
    /// One string per entry, by key.
    pub texts: BTreeMap<String, Vec<String>>,
}

/// An image without its values.
#[derive(Clone, Debug)]
pub struct ImageInfo {
    /// Affine from voxel index to mm, RAS+.
    pub affine: Affine,
    /// Metadata of the file, and the transforms applied since.
    pub meta: Meta,
}

impl Batch {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Returns the tensor of a key, `[B, C, X, Y, Z]`.
    ///
    /// # Errors
    /// If there is no such key; the message lists the existing keys.
    pub fn tensor(&self, key: &str) -> Result<&Tensor<5>, DataError> {
        self.tensors.get(key).ok_or_else(|| {
            let known: Vec<&String> = self.tensors.keys().collect();
            DataError::Collate(format!("the batch has no `{key}`, only {known:?}"))
        })
    }

    /// Moves the tensors to another device.
    pub fn to_device(mut self, device: &Device) -> Self {
        for tensor in self.tensors.values_mut() {
            if tensor.device() != *device {
                *tensor = tensor.clone().to_device(device);
            }
        }
        self
    }

    /// Returns one entry of any tensor `[B, C, X, Y, Z]` that corresponds to this batch (such as a
    /// prediction) as an image `[C, X, Y, Z]`, with the geometry of `like`.
    ///
    /// # Errors
    /// If there is no such entry or key.
    pub fn image(&self, tensor: &Tensor<5>, entry: usize, like: &str) -> Result<Image, DataError> {
        let info = self.images.get(entry).and_then(|images| images.get(like)).ok_or_else(|| {
            DataError::Collate(format!("the batch has no image `{like}` in entry {entry} of {}", self.len()))
        })?;
        let [n, c, x, y, z] = tensor.dims();
        if entry >= n {
            return Err(DataError::Collate(format!("the tensor has {n} entries, no entry {entry}")));
        }
        let data = tensor.clone().narrow(0, entry, 1).reshape([c, x, y, z]);
        Ok(Image { data, affine: info.affine, meta: info.meta.clone() })
    }
}

/// Collates like [`collate`], with padding first if requested.
pub(crate) fn collate_with(samples: Vec<Sample>, how: &Collate) -> Result<Batch, DataError> {
    let _range = tracing::trace_span!("collate", samples = samples.len()).entered();
    match how {
        Collate::List => collate(samples),
        Collate::Pad { method, mode, value } => pad_collate(samples, *method, *mode, *value),
    }
}

/// Pads the images of each key to the largest size among them, then stacks (MONAI's
/// `pad_list_data_collate`).
///
/// # Errors
/// If keys or numbers of channels differ, or a mode cannot pad that far.
pub fn pad_collate(mut samples: Vec<Sample>, method: PadMethod, mode: PadMode, value: f32) -> Result<Batch, DataError> {
    let mut largest: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for (key, entry) in samples.iter().flat_map(|s| &s.values) {
        if let Value::Image(image) = entry {
            let size = largest.entry(key.clone()).or_default();
            size.iter_mut().zip(image.shape()).for_each(|(size, length)| *size = length.max(*size));
        }
    }
    for sample in &mut samples {
        for (key, size) in &largest {
            let Some(Value::Image(image)) = sample.values.get(key) else { continue };
            let shape = image.shape();
            if shape == *size {
                continue;
            }
            let (before, after) = method.sides(std::array::from_fn(|a| size[a] - shape[a]));
            let padded = pad(image.clone(), before, after, mode, value)
                .map_err(|e| DataError::Collate(format!("case {}, `{key}` cannot be padded: {e}", sample.case)))?;
            sample.values.insert(key.clone(), Value::Image(padded));
        }
    }
    collate(samples)
}

/// Stacks samples (crops of one case are separate samples).
///
/// # Errors
/// If sizes or keys differ; the error names the cases.
pub fn collate(samples: Vec<Sample>) -> Result<Batch, DataError> {
    let mut batch = Batch::default();
    let Some(first) = samples.first() else { return Ok(batch) };
    let keys: Vec<String> =
        first.values.iter().filter(|(_, v)| matches!(v, Value::Image(_))).map(|(k, _)| k.clone()).collect();
    let mut stacks: BTreeMap<String, Vec<Tensor<4>>> = BTreeMap::new();
    for sample in samples {
        let mut images = BTreeMap::new();
        let mut values = sample.values;
        for key in &keys {
            let Some(Value::Image(image)) = values.remove(key) else {
                return Err(DataError::Collate(format!(
                    "case {} has no image `{key}`, but case {} of the same batch has",
                    sample.case,
                    batch.cases.first().unwrap_or(&sample.case)
                )));
            };
            let stack = stacks.entry(key.clone()).or_default();
            if let Some(other) = stack.first() {
                let (a, b) = (other.dims(), image.data.dims());
                if a != b {
                    return Err(DataError::Collate(format!(
                        "`{key}` of different sizes cannot share a batch: {a:?} (channels, x, y, z) in case {}, {b:?} in case {}\n  \
                         crop or pad to one size before batching (RandCropByPosNegLabel, SpatialPad), collate with padding, or \
                         use batch_size 1",
                        batch.cases[0], sample.case
                    )));
                }
            }
            stack.push(image.data);
            images.insert(key.clone(), ImageInfo { affine: image.affine, meta: image.meta });
        }
        for (key, value) in values {
            match value {
                Value::Number(number) => batch.numbers.entry(key).or_default().push(number),
                Value::Numbers(numbers) => batch.lists.entry(key).or_default().push(numbers),
                Value::Text(text) => batch.texts.entry(key).or_default().push(text),
                _ => {}
            }
        }
        batch.images.push(images);
        batch.cases.push(sample.case);
    }
    let count = batch.cases.len();
    let numbers = batch.numbers.iter().map(|(k, v)| (k, v.len()));
    let lists = batch.lists.iter().map(|(k, v)| (k, v.len()));
    let mut lengths = numbers.chain(lists).chain(batch.texts.iter().map(|(k, v)| (k, v.len())));
    if let Some((key, _)) = lengths.find(|(_, n)| *n != count) {
        return Err(DataError::Collate(format!(
            "only some of the cases {:?} have a value `{key}`; a batch needs it for all or none",
            batch.cases
        )));
    }
    for (key, stack) in stacks {
        batch.tensors.insert(key, stack_images(stack));
    }
    Ok(batch)
}

/// One copy into one buffer on the CPU; a concatenation on other devices.
fn stack_images(images: Vec<Tensor<4>>) -> Tensor<5> {
    let [c, x, y, z] = images[0].dims();
    let shape = [images.len(), c, x, y, z];
    let device = images[0].device();
    if let [only] = &images[..] {
        return only.clone().reshape(shape);
    }
    if let Some(values) = host::concat(&images) {
        return Tensor::from_data(burn::tensor::TensorData::new(values, shape), &device);
    }
    Tensor::stack(images, 0)
}

/// Splits a batch into one sample per entry.
///
/// # Errors
/// Never for a batch made by [`collate`].
pub fn decollate(batch: Batch) -> Result<Vec<Sample>, DataError> {
    let mut out = Vec::with_capacity(batch.len());
    for (entry, case) in batch.cases.iter().enumerate() {
        let mut sample = Sample::new(case);
        for (key, tensor) in &batch.tensors {
            sample = sample.with_image(key, batch.image(tensor, entry, key)?);
        }
        for (key, values) in &batch.numbers {
            sample.values.extend(values.get(entry).map(|v| (key.clone(), Value::Number(*v))));
        }
        for (key, values) in &batch.lists {
            sample.values.extend(values.get(entry).map(|v| (key.clone(), Value::Numbers(v.clone()))));
        }
        for (key, values) in &batch.texts {
            sample.values.extend(values.get(entry).map(|v| (key.clone(), Value::Text(v.clone()))));
        }
        out.push(sample);
    }
    Ok(out)
}
