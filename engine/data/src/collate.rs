//! Samples into batches, and back.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use hearth_kernels::host;

use crate::{Affine, DataError, Image, Meta, Sample, Value};

/// Samples stacked along a new first axis.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// `[B, C, X, Y, Z]` by key.
    pub tensors: BTreeMap<String, Tensor<5>>,
    /// The case of each entry.
    pub cases: Vec<String>,
    /// Geometry and history of each entry's images.
    pub images: Vec<BTreeMap<String, ImageInfo>>,
    /// One number per entry, by key.
    pub numbers: BTreeMap<String, Vec<f64>>,
    /// One text per entry, by key.
    pub texts: BTreeMap<String, Vec<String>>,
}

/// An image without its values.
#[derive(Clone, Debug)]
pub struct ImageInfo {
    /// Voxel index to mm, RAS+.
    pub affine: Affine,
    /// What the file said and what was done since.
    pub meta: Meta,
}

impl Batch {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// The tensor of a key.
    ///
    /// # Errors
    /// Where there is none; the keys that exist are named.
    pub fn tensor(&self, key: &str) -> Result<&Tensor<5>, DataError> {
        self.tensors.get(key).ok_or_else(|| {
            let known: Vec<&String> = self.tensors.keys().collect();
            DataError::Collate(format!("the batch has no `{key}`, only {known:?}"))
        })
    }

    /// One entry of any tensor that goes with this batch (a prediction, say) as an image, with the geometry of `like`.
    ///
    /// # Errors
    /// Where there is no such entry or key.
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

/// Stacks samples (crops of one case are samples of their own).
///
/// # Errors
/// Where sizes or keys differ; the cases are named.
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
                        "`{key}` of different sizes can't share a batch: {a:?} (channels, x, y, z) in case {}, {b:?} in case {}\n  \
                         crop or pad to one size before batching (RandCropByPosNegLabel, SpatialPad), or use batch_size 1",
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
                Value::Text(text) => batch.texts.entry(key).or_default().push(text),
                _ => {}
            }
        }
        batch.images.push(images);
        batch.cases.push(sample.case);
    }
    let count = batch.cases.len();
    let lengths = batch.numbers.iter().map(|(k, v)| (k, v.len())).chain(batch.texts.iter().map(|(k, v)| (k, v.len())));
    if let Some((key, _)) = lengths.clone().find(|(_, n)| *n != count) {
        return Err(DataError::Collate(format!(
            "only some of the cases {:?} have a value `{key}`; a batch needs it of all or none",
            batch.cases
        )));
    }
    for (key, stack) in stacks {
        batch.tensors.insert(key, stack_images(stack));
    }
    Ok(batch)
}

/// On the CPU one copy into one buffer; elsewhere a concatenation on the device.
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

/// Takes a batch apart again, one sample per entry.
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
            sample = values.get(entry).map_or(sample.clone(), |v| sample.with(key, Value::Number(*v)));
        }
        for (key, values) in &batch.texts {
            sample = values.get(entry).map_or(sample.clone(), |v| sample.with(key, Value::Text(v.clone())));
        }
        out.push(sample);
    }
    Ok(out)
}
