//! Weights that were saved by MONAI Generative before its networks became part of MONAI
//! (`load_old_state_dict`), such as the files of the model zoo's diffusion bundles.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;
use safetensors::tensor::{SafeTensors, View};

use crate::networks::Network;
use crate::weights::{WeightsError, to_bytes};

/// A tensor and its new key.
struct Moved<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Cow<'a, [u8]>,
}

impl View for &Moved<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }

    fn data_len(&self) -> usize {
        self.data.len()
    }
}

/// The key that a tensor had in MONAI Generative.
fn old_key(new: &str) -> String {
    // Projections were direct members of the attention block; the last one had another name.
    for part in ["to_q", "to_k", "to_v"] {
        if let Some((block, rest)) = new.split_once(&format!(".attn.{part}.")) {
            return format!("{block}.{part}.{rest}");
        }
    }
    if let Some((block, rest)) = new.split_once(".attn.out_proj.") {
        return format!("{block}.proj_attn.{rest}");
    }
    new.replace("postconv", "conv")
}

/// An identity projection, for a file without one.
fn unchanged(key: &str, shape: &[usize]) -> Option<Vec<u8>> {
    if !key.contains(".attn.out_proj.") {
        return None;
    }
    let value = |at: usize| match shape {
        [_, columns] if at / columns == at % columns => 1.0_f32,
        _ => 0.0,
    };
    Some((0..shape.iter().product()).flat_map(|at| value(at).to_le_bytes()).collect())
}

/// Converts the weights of an older file to the present keys of
/// [`AutoencoderKL`](crate::networks::AutoencoderKL) and
/// [`DiffusionModelUNet`](crate::networks::DiffusionModelUNet), as a safetensors file. A file in
/// the present layout is returned unchanged.
///
/// As in MONAI, a projection that is missing in the file becomes the identity, and one that is
/// missing in the network is omitted. Other unmatched keys are kept; the loader reports them.
///
/// # Errors
/// Fails if the bytes are not a complete safetensors file.
pub fn from_old_layout<N: Network>(net: &N, bytes: &[u8]) -> Result<Vec<u8>, WeightsError> {
    let format = |from: &str, reason: String| WeightsError::Format { from: from.to_owned(), reason };
    let given = |reason: safetensors::SafeTensorError| format("the content", reason.to_string());
    let file = SafeTensors::deserialize(bytes).map_err(given)?;
    let own = to_bytes(net)?;
    let own = SafeTensors::deserialize(&own).map_err(|e| format("the network", e.to_string()))?;
    let names: BTreeSet<&str> = own.names().into_iter().collect();
    if file.names().iter().all(|name| names.contains(name)) {
        return Ok(bytes.to_vec());
    }
    let mut moved = BTreeMap::new();
    let mut used = BTreeSet::new();
    for (key, wanted) in own.tensors() {
        let old = old_key(&key);
        let found = [key.clone(), old].into_iter().find_map(|name| Some((file.tensor(&name).ok()?, name)));
        if let Some((view, name)) = found {
            let data = Cow::Owned(view.data().to_vec());
            moved.insert(key, Moved { dtype: view.dtype(), shape: view.shape().to_vec(), data });
            used.insert(name);
        } else if let Some(values) = unchanged(&key, wanted.shape()) {
            let shape = wanted.shape().to_vec();
            moved.insert(key, Moved { dtype: Dtype::F32, shape, data: Cow::Owned(values) });
        }
    }
    for (key, view) in file.tensors() {
        // Projections that the network does not have are omitted, as in MONAI.
        if !used.contains(&key) && !key.contains(".proj_attn.") {
            let data = Cow::Owned(view.data().to_vec());
            moved.insert(key, Moved { dtype: view.dtype(), shape: view.shape().to_vec(), data });
        }
    }
    safetensors::serialize(moved.iter(), None).map_err(given)
}

#[cfg(test)]
mod tests {
    use super::old_key;

    #[test]
    fn keys_of_monai_generative() {
        for (new, old) in [
            ("decoder.blocks.2.attn.to_q.weight", "decoder.blocks.2.to_q.weight"),
            ("middle_block.attention.attn.out_proj.bias", "middle_block.attention.proj_attn.bias"),
            ("up_blocks.0.upsampler.postconv.conv.weight", "up_blocks.0.upsampler.conv.conv.weight"),
            ("decoder.blocks.6.postconv.conv.bias", "decoder.blocks.6.conv.conv.bias"),
            ("conv_in.conv.weight", "conv_in.conv.weight"),
        ] {
            assert_eq!(old_key(new), old);
        }
    }
}
