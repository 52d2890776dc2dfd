//! Reads PyTorch's own files (`.pt`, `.pth` and MONAI bundles) as a state dict and converts it to
//! safetensors.
//!
//! Such a file holds a pickle, a small program that Python runs when it opens the file. Here it is
//! parsed and never run: tensors, dictionaries and lists are read, any other object is skipped and
//! reported by its type, and a file that calls a command or an interpreter is refused. The parser
//! is Burn's `pytorch-reader`, which checks every length before it allocates.
//!
//! ```no_run
//! use std::path::Path;
//! use hearth_nn::pytorch::{OpenOptions, StateDict};
//!
//! let mut weights = StateDict::open(Path::new("model.pt"), &OpenOptions::default())?;
//! weights.rename(&["^encoder[.]=net.encoder.".parse()?])?;
//! weights.save(Path::new("model.safetensors"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod foreign;
mod nesting;
mod rename;
mod source;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pytorch_reader::{DType, PickleValue, PytorchReader, Tensor};
use safetensors::tensor::{Dtype, View};

pub use rename::{Rule, RuleError};

/// A PyTorch file that cannot be read, or does not hold weights.
#[derive(Debug, thiserror::Error)]
pub enum PytorchError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a file of PyTorch's, or a damaged one.
    #[error("{path} cannot be read as a PyTorch file: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The reader's error.
        reason: String,
    },
    /// The pickle would have executed code.
    #[error(
        "{path} asks Python to call {call}, which weights do not need: the file is not trustworthy. Nothing was executed"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The function.
        call: String,
    },
    /// There are several sets of weights, or none.
    #[error("{path}: {reason}")]
    Nesting {
        /// The file.
        path: PathBuf,
        /// What was found, and how to choose.
        reason: String,
    },
    /// The rules give two tensors one key.
    #[error("the rules give {first} and {second} the same key, {key}")]
    Collision {
        /// One tensor.
        first: String,
        /// The other.
        second: String,
        /// The key.
        key: String,
    },
}

/// How a file is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The dictionary that holds the weights, as a dotted path; searched for otherwise.
    pub key: Option<String>,
}

/// Tensors by key, as `state_dict()` names them. Their values are read when the state dict is
/// written.
#[derive(Debug)]
pub struct StateDict {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
    /// Where in the file the weights were: dotted, empty for its root.
    pub found_at: String,
    /// The prefix that was removed from every key: `module.` of data-parallel training,
    /// `_orig_mod.` of a compiled network.
    pub prefix: String,
    /// The types of other Python objects, which were skipped.
    pub passed_over: Vec<String>,
    /// Everything in the file; tensors by their type alone.
    tree: PickleValue,
    /// Keeps a file that was unpacked from a bundle alive.
    _unpacked: Option<tempfile::TempPath>,
}

/// The prefixes that training wrappers add to every key.
const WRAPPERS: [&str; 2] = ["module.", "_orig_mod."];

impl StateDict {
    /// Opens a `.pt` or `.pth` file, a MONAI bundle (a zip archive or folder with
    /// `models/model.pt`), or a folder with `model.pt`.
    ///
    /// # Errors
    /// Files that are none of these, are damaged, hold no weights or several sets of them, or call
    /// a command.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, PytorchError> {
        let (file, unpacked) = source::find(path)?;
        let file = unpacked.as_deref().unwrap_or(&file);
        let format = |error: pytorch_reader::PytorchError| PytorchError::Format {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        if let Some(call) =
            foreign::call_in(file).map_err(|source| PytorchError::Io { path: path.to_owned(), source })?
        {
            return Err(PytorchError::Foreign { path: path.to_owned(), call });
        }
        let tree = PytorchReader::read_pickle_data(file, None).map_err(format)?;
        let objects = foreign::objects(&tree);
        if let Some(call) = objects.iter().find(|name| foreign::runs(name)) {
            return Err(PytorchError::Foreign { path: path.to_owned(), call: call.clone() });
        }
        let place = nesting::choose(&tree, options.key.as_deref());
        let place = place.map_err(|reason| PytorchError::Nesting { path: path.to_owned(), reason })?;
        let found_at = place.join(".");
        let before = if place.is_empty() { String::new() } else { format!("{found_at}.") };
        let mut tensors: BTreeMap<String, Tensor> = PytorchReader::new(file)
            .map_err(format)?
            .into_tensors()
            .into_iter()
            .filter_map(|(name, tensor)| Some((name.strip_prefix(&before)?.to_owned(), tensor)))
            .collect();
        let mut prefix = String::new();
        while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| tensors.keys().all(|key| key.starts_with(**wrapper))) {
            prefix.push_str(wrapper);
            tensors = tensors.into_iter().map(|(key, tensor)| (key[wrapper.len()..].to_owned(), tensor)).collect();
        }
        Ok(StateDict {
            path: path.to_owned(),
            tensors,
            found_at,
            prefix,
            passed_over: objects,
            tree,
            _unpacked: unpacked,
        })
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Keeps the tensors whose keys fit.
    pub fn retain(&mut self, mut fits: impl FnMut(&str) -> bool) {
        self.tensors.retain(|key, _| fits(key));
    }

    /// A value beside the weights, by the keys that lead to it from the file's root: a number, a
    /// text, a list, a dictionary. `None` where there is no such key; null for an object that is
    /// none of these.
    pub fn value(&self, keys: &[&str]) -> Option<serde_json::Value> {
        let found = keys.iter().try_fold(&self.tree, |value, key| match value {
            PickleValue::Dict(entries) => entries.get(*key),
            _ => None,
        });
        found.map(foreign::to_json)
    }

    /// Applies rules to every key, in order. Returns the number of keys that each of them changed.
    ///
    /// # Errors
    /// Where two tensors would have the same key.
    pub fn rename(&mut self, rules: &[Rule]) -> Result<Vec<usize>, PytorchError> {
        let mut changed = vec![0; rules.len()];
        let mut renamed: BTreeMap<String, (String, Tensor)> = BTreeMap::new();
        for (old, tensor) in std::mem::take(&mut self.tensors) {
            let key = Rule::apply_all(rules, &old, &mut changed);
            if let Some((first, _)) = renamed.get(&key) {
                return Err(PytorchError::Collision { first: first.clone(), second: old, key });
            }
            renamed.insert(key, (old, tensor));
        }
        self.tensors = renamed.into_iter().map(|(key, (_, tensor))| (key, tensor)).collect();
        Ok(changed)
    }

    /// The weights as a safetensors file in memory, in the types they have.
    ///
    /// # Errors
    /// Where the file's tensors cannot be read whole.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PytorchError> {
        let read = |(key, tensor): (&String, &Tensor)| {
            let bytes = tensor.read()?;
            Ok((key.clone(), Stored { dtype: dtype(tensor.dtype()), shape: tensor.shape().to_vec(), bytes }))
        };
        let stored: Result<BTreeMap<String, Stored>, std::io::Error> = self.tensors.iter().map(read).collect();
        let fail = |reason: String| PytorchError::Format { path: self.path.clone(), reason };
        let stored = stored.map_err(|error| fail(error.to_string()))?;
        safetensors::serialize(stored.iter(), None).map_err(|error| fail(error.to_string()))
    }

    /// Writes the weights as a safetensors file.
    ///
    /// # Errors
    /// Those of [`to_bytes`](Self::to_bytes), and the file system's.
    pub fn save(&self, path: &Path) -> Result<(), PytorchError> {
        let bytes = self.to_bytes()?;
        std::fs::write(path, bytes).map_err(|source| PytorchError::Io { path: path.to_owned(), source })
    }
}

struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}
