//! The tensors of the current iteration, which handlers can read.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::Batch;
use hearth_engine::{Combine, DType, HostError, HostTensor};
use hearth_kernels::device_error::reason;

use crate::batch::facts::Facts;
use crate::batch::step_error::{StepError, name_cases};
use crate::evaluation::combine::{mean_ensemble, vote_ensemble};

/// The tensors `image`, `label`, `pred`, ... on the device, `[B, C, X, Y, Z]` each.
#[derive(Debug)]
pub(crate) struct Tensors {
    by_name: BTreeMap<String, Tensor<5>>,
    device: Device,
    /// Handlers see `[B, C, X, Y]`: the network is 2-D and `Z` is 1.
    flat: bool,
}

impl Tensors {
    pub fn new(device: &Device, spatial_dims: usize) -> Self {
        Self { by_name: BTreeMap::new(), device: device.clone().inner(), flat: spatial_dims == 2 }
    }

    /// Takes a batch's tensors, moved to the device, its cases, and their numbers and texts. The
    /// batch's `image_key` is renamed to `image`.
    pub fn of_batch(
        mut batch: Batch,
        device: &Device,
        spatial_dims: usize,
        image_key: &str,
        label_key: &str,
    ) -> Result<(Self, Vec<String>, Facts), StepError> {
        let mut tensors = Self::new(device, spatial_dims);
        let name = |key: &str| match key {
            key if key == image_key => "image".to_owned(),
            key if key == label_key => "label".to_owned(),
            other => other.to_owned(),
        };
        let facts = Facts::take(&mut batch, name);
        for (key, tensor) in batch.tensors {
            let tensor = tensor.to_device(&tensors.device);
            tensors.insert(&name(&key), tensor);
        }
        // A label that is not an image: a class or numbers.
        if !tensors.contains("label") {
            let rows: Option<Vec<Vec<f64>>> = match (batch.numbers.get(label_key), batch.lists.get(label_key)) {
                (Some(numbers), _) => Some(numbers.iter().map(|number| vec![*number]).collect()),
                (None, Some(lists)) => Some(lists.iter().map(|list| list.to_vec()).collect()),
                (None, None) => None,
            };
            if let Some(rows) = rows {
                let label = column(&rows, &batch.cases, &tensors.device)?;
                tensors.insert("label", label);
            }
        }
        if !tensors.contains("image") {
            return Err(StepError::NoTensor {
                key: image_key.to_owned(),
                cases: name_cases(&batch.cases),
                known: tensors.names(),
            });
        }
        Ok((tensors, batch.cases, facts))
    }

    /// The names of the tensors.
    pub fn list(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    /// The names of the tensors, for messages.
    pub fn names(&self) -> String {
        if self.by_name.is_empty() { "nothing".to_owned() } else { self.list().join(", ") }
    }

    pub fn get(&self, name: &str) -> Option<&Tensor<5>> {
        self.by_name.get(name)
    }

    /// Stores a tensor, detached from the autodiff graph.
    pub fn insert(&mut self, name: &str, tensor: Tensor<5>) {
        self.by_name.insert(name.to_owned(), tensor.without_autodiff());
    }

    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The tensor of this name, or an error that lists the existing ones.
    pub fn find(&self, name: &str) -> Result<&Tensor<5>, HostError> {
        self.by_name
            .get(name)
            .ok_or_else(|| HostError::new(format!("no tensor `{name}` now; there is: {}", self.names())))
    }

    /// The tensor in host memory, read back from the device.
    pub fn read(&self, name: &str) -> Result<HostTensor<'static>, HostError> {
        let tensor = self.find(name)?.clone();
        let mut shape = tensor.dims().to_vec();
        if self.flat && shape[4] == 1 {
            shape.pop();
        }
        let values = tensor.try_into_vec_as::<f32>().map_err(|e| {
            HostError::new(format!("tensor `{name}` cannot be read back from the device: {}", reason(&e)))
        })?;
        HostTensor::from_f32(shape, &values)
    }

    /// Replaces or adds a tensor from host memory.
    pub fn put(&mut self, name: &str, tensor: &HostTensor<'_>) -> Result<(), HostError> {
        let wrong = |what: String| HostError::new(format!("tensor `{name}` cannot be put: {what}"));
        let shape: [usize; 5] = match tensor.shape[..] {
            [b, c, x, y] => [b, c, x, y, 1],
            [b, c, x, y, z] => [b, c, x, y, z],
            _ => return Err(wrong(format!("shape {:?} is neither [B, C, X, Y, Z] nor [B, C, X, Y]", tensor.shape))),
        };
        let elements = shape.iter().try_fold(1_usize, |n, axis| n.checked_mul(*axis));
        if elements.and_then(|n| n.checked_mul(tensor.dtype.size())) != Some(tensor.bytes.len()) || elements == Some(0)
        {
            let (dtype, bytes) = (tensor.dtype, tensor.bytes.len());
            return Err(wrong(format!("{bytes} bytes are not shape {:?} of {dtype:?}", tensor.shape)));
        }
        let values = to_f32(tensor).ok_or_else(|| wrong(format!("its type {:?} is not supported", tensor.dtype)))?;
        self.insert(name, Tensor::from_data(TensorData::new(values, shape), &self.device));
        Ok(())
    }

    /// Combines several tensors into one, on the device.
    pub fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        let members = inputs.iter().map(|name| self.find(name).cloned()).collect::<Result<Vec<_>, _>>()?;
        self.insert(output, combined(inputs, &members, how, output)?);
        Ok(())
    }
}

/// Combines several predictions into one; the names are for errors.
pub(crate) fn combined(
    inputs: &[&str],
    members: &[Tensor<5>],
    how: &Combine,
    output: &str,
) -> Result<Tensor<5>, HostError> {
    let combined = match how {
        Combine::Mean { weights } => mean_ensemble(members, weights.as_deref()),
        Combine::Vote { num_classes } => vote_ensemble(members, *num_classes),
    };
    combined.map_err(|e| HostError::new(format!("{} cannot be combined into `{output}`: {e}", inputs.join(", "))))
}

/// Makes `[B, N, 1, 1, 1]` from a row of numbers for each item.
fn column(rows: &[Vec<f64>], cases: &[String], device: &Device) -> Result<Tensor<5>, StepError> {
    let count = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != count) || count == 0 {
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let what = format!("the label holds {lengths:?} numbers; expected as many for each case, and at least one");
        return Err(StepError::part("the label", cases, what));
    }
    let values: Vec<f32> = rows.iter().flatten().map(|value| *value as f32).collect();
    Ok(Tensor::from_data(TensorData::new(values, [rows.len(), count, 1, 1, 1]), device))
}

fn to_f32(tensor: &HostTensor<'_>) -> Option<Vec<f32>> {
    /// Reads numbers of `N` bytes each.
    fn read<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| number(*chunk)).collect()
    }
    Some(match tensor.dtype {
        DType::F32 => read(&tensor.bytes, f32::from_ne_bytes),
        DType::F64 => read(&tensor.bytes, |b| f64::from_ne_bytes(b) as f32),
        DType::I64 => read(&tensor.bytes, |b| i64::from_ne_bytes(b) as f32),
        DType::U8 => read(&tensor.bytes, |[b]: [u8; 1]| f32::from(b)),
        _ => return None,
    })
}
