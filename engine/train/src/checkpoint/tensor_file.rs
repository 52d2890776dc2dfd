//! Converts named tensors to a safetensors file, and back.

use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

/// The supported element types; both sides are little-endian.
const TYPES: [(DType, Dtype); 4] =
    [(DType::F32, Dtype::F32), (DType::F64, Dtype::F64), (DType::I64, Dtype::I64), (DType::I32, Dtype::I32)];

/// The reason why tensors cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorFileError {
    #[error("tensor `{name}` has type {found}, which is not written")]
    Type { name: String, found: String },
    #[error("the safetensors format: {0}")]
    Format(#[from] SafeTensorError),
}

pub(crate) fn to_bytes(tensors: &BTreeMap<String, TensorData>) -> Result<Vec<u8>, TensorFileError> {
    let mut views = BTreeMap::new();
    for (name, data) in tensors {
        let dtype = TYPES
            .iter()
            .find(|(burn, _)| *burn == data.dtype())
            .map(|(_, file)| *file)
            .ok_or_else(|| TensorFileError::Type { name: name.clone(), found: format!("{:?}", data.dtype()) })?;
        views.insert(name.as_str(), TensorView::new(dtype, data.shape().to_vec(), data.as_bytes())?);
    }
    Ok(safetensors::serialize(views, None)?)
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Result<BTreeMap<String, TensorData>, TensorFileError> {
    let mut tensors = BTreeMap::new();
    for (name, view) in SafeTensors::deserialize(bytes)?.tensors() {
        let dtype = TYPES
            .iter()
            .find(|(_, file)| *file == view.dtype())
            .map(|(burn, _)| *burn)
            .ok_or_else(|| TensorFileError::Type { name: name.clone(), found: format!("{:?}", view.dtype()) })?;
        let data = TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), dtype);
        tensors.insert(name, data);
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut tensors = BTreeMap::new();
        tensors.insert("a.b/step".to_owned(), TensorData::from([41_i64]));
        tensors.insert("a.b/momentum".to_owned(), TensorData::from([1.5_f32, -0.0, f32::MIN_POSITIVE]));
        let bytes = to_bytes(&tensors).expect("two tensors");
        assert_eq!(from_bytes(&bytes).expect("what was written"), tensors);
        assert!(from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(from_bytes(b"").is_err());
    }

    #[test]
    fn a_type_that_is_not_written_is_named() {
        let mut tensors = BTreeMap::new();
        tensors.insert("flags".to_owned(), TensorData::from([true]));
        let text = to_bytes(&tensors).expect_err("a bool").to_string();
        assert!(text.contains("`flags`") && text.contains("Bool"), "{text}");
    }
}
