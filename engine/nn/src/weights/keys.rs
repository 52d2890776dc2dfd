//! The keys of a safetensors file without a network: counting and renaming.

use std::collections::BTreeMap;

use safetensors::tensor::SafeTensors;

use super::{Stored, WeightsError};
use crate::pytorch::Rule;

/// The content of a safetensors file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of tensors.
    pub tensors: usize,
    /// Number of values in all tensors.
    pub numbers: u64,
}

fn format(reason: impl std::fmt::Display) -> WeightsError {
    WeightsError::Format { from: "the content".to_owned(), reason: reason.to_string() }
}

/// Counts tensors and values.
///
/// # Errors
/// Fails if the bytes are not a complete safetensors file.
pub fn summary(bytes: &[u8]) -> Result<Summary, WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(format)?;
    let numbers = file.tensors().iter().map(|(_, view)| view.shape().iter().product::<usize>() as u64).sum();
    Ok(Summary { tensors: file.len(), numbers })
}

/// Returns the file with its keys renamed, and the number of keys that each rule changed.
///
/// # Errors
/// Fails if the bytes are not a complete safetensors file, or if the rules give two tensors the
/// same key.
pub fn rename(bytes: &[u8], rules: &[Rule]) -> Result<(Vec<u8>, Vec<usize>), WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(format)?;
    let mut changed = vec![0; rules.len()];
    let mut stored = BTreeMap::new();
    for (old, view) in file.tensors() {
        let key = Rule::apply_all(rules, &old, &mut changed);
        let tensor = Stored { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.data().to_vec() };
        if stored.insert(key.clone(), tensor).is_some() {
            return Err(format(format_args!("the rules give {old} and another tensor the same key, {key}")));
        }
    }
    let bytes = safetensors::serialize(stored.iter(), None).map_err(format)?;
    Ok((bytes, changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::UNetConfig;

    #[test]
    fn keys_are_counted_and_renamed() {
        let net = UNetConfig::new(2, 1, 2, &[4, 8], &[2]).init(&burn::tensor::Device::default(), 0).expect("a network");
        let bytes = super::super::to_bytes(&net).expect("weights");
        let rule: Rule = "^model[.]=net.".parse().expect("a rule");
        let (renamed, changed) = rename(&bytes, &[rule]).expect("other keys");
        assert_eq!(changed, [summary(&bytes).expect("whole").tensors]);
        assert_eq!(summary(&renamed).expect("whole"), summary(&bytes).expect("whole"));
        let file = SafeTensors::deserialize(&renamed).expect("whole");
        assert!(file.names().iter().all(|key| key.starts_with("net.")));
        assert!(rename(&bytes, &[".*=one".parse().expect("a rule")]).is_err());
        assert!(summary(&bytes[..20]).is_err());
    }
}
