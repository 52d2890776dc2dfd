//! Reads PyTorch's own files (`.pt`, `.pth` and MONAI bundles) as a state dict and converts it to
//! safetensors.
//!
//! Such a file holds a pickle, a small program that Python runs when it opens the file.
//! [`hearth_pickle`] only parses it and never runs it: tensors, dictionaries and lists are read,
//! any other object is skipped and its type reported, and a file that names a command or an
//! interpreter is rejected.
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

mod nesting;
mod rename;
mod source;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_pickle::torch::{Saved, SavedError};
use hearth_pickle::{Dtype as Kind, Options, PickleError, Tensor};
use safetensors::tensor::{Dtype, View};

pub use rename::{Rule, RuleError};
use tree::Tree;

/// A PyTorch file that cannot be read, or does not hold weights.
#[derive(Debug, thiserror::Error)]
pub enum PytorchError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a PyTorch file, or is damaged.
    #[error("{path} cannot be read as a PyTorch file: {reason}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The pickle would have executed code.
    #[error(
        "{path} asks Python to call {call}, which weights do not need: the file is not trustworthy. Nothing was executed"
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Name of the function.
        call: String,
    },
    /// The file has several sets of weights, or none.
    #[error("{path}: {reason}")]
    Nesting {
        /// Path of the file.
        path: PathBuf,
        /// The sets that were found, and how to choose one.
        reason: String,
    },
    /// The rules give two tensors the same key.
    #[error("the rules give {first} and {second} the same key, {key}")]
    Collision {
        /// Key of the first tensor.
        first: String,
        /// Key of the second tensor.
        second: String,
        /// The common new key.
        key: String,
    },
}

/// Options of opening a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The dictionary that holds the weights, as a dotted path; found automatically by default.
    pub key: Option<String>,
}

/// Tensors by key, with the names of `state_dict()`. Values are read when the state dict is
/// written.
#[derive(Debug)]
pub struct StateDict {
    path: PathBuf,
    saved: Saved,
    tensors: BTreeMap<String, Arc<Tensor>>,
    /// Path of the weights in the file: dotted, empty for the root.
    pub found_at: String,
    /// The prefix that was removed from every key: `module.` after data-parallel training,
    /// `_orig_mod.` after compilation.
    pub prefix: String,
    /// The types of other Python objects, which were skipped.
    pub passed_over: Vec<String>,
    /// The content of the file.
    tree: Tree,
    /// Keeps a file that was unpacked from a bundle until the value is dropped.
    _unpacked: Option<tempfile::TempPath>,
}

/// The prefixes that training wrappers add to every key.
const WRAPPERS: [&str; 2] = ["module.", "_orig_mod."];

/// The largest pickle in a file of weights. It contains everything that was saved except the
/// tensors' values.
const LARGEST: u64 = 100 << 20;

/// A tensor may have several names, and may repeat values of its storage. The limit on the size of
/// all tensors: this many times the bytes of the storages, and the same number of bytes more.
const NAMES: u64 = 16;
const MORE: u64 = 8 << 20;

impl StateDict {
    /// Opens a `.pt` or `.pth` file, a MONAI bundle (a zip archive or folder with
    /// `models/model.pt`), or a folder with `model.pt`.
    ///
    /// # Errors
    /// Fails for other files, for damaged files, for files without weights or with several sets of
    /// them, and for files that call a command.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, PytorchError> {
        let (file, unpacked) = source::find(path)?;
        let file = unpacked.as_deref().unwrap_or(&file);
        let saved = Saved::open(file, &Options::weights(), LARGEST).map_err(|error| failed(path, error))?;
        let format = |reason: String| PytorchError::Format { path: path.to_owned(), reason };
        let tree = Tree::of(saved.pickled()).map_err(format)?;
        let place = nesting::choose(&tree, options.key.as_deref());
        let place = place.map_err(|reason| PytorchError::Nesting { path: path.to_owned(), reason })?;
        let found_at = place.join(".");
        let chosen = place.iter().try_fold(&tree, |tree, key| tree.get(key));
        let mut tensors = chosen.map_or_else(|| Ok(BTreeMap::new()), Tree::tensors).map_err(format)?;
        let mut prefix = String::new();
        while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| tensors.keys().all(|key| key.starts_with(**wrapper))) {
            prefix.push_str(wrapper);
            tensors = tensors.into_iter().map(|(key, tensor)| (key[wrapper.len()..].to_owned(), tensor)).collect();
        }
        Ok(StateDict {
            path: path.to_owned(),
            saved,
            tensors,
            found_at,
            prefix,
            passed_over: tree.objects(),
            tree,
            _unpacked: unpacked,
        })
    }

    /// The keys in sorted order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Keeps the tensors whose keys fit, and drops the others.
    pub fn retain(&mut self, mut fits: impl FnMut(&str) -> bool) {
        self.tensors.retain(|key, _| fits(key));
    }

    /// A value other than weights, by the keys that lead to it from the file's root: a number, a
    /// text, a list or a dictionary. `None` if there is no such key; null for any other object.
    pub fn value(&self, keys: &[&str]) -> Option<serde_json::Value> {
        keys.iter().try_fold(&self.tree, |tree, key| tree.get(key)).map(Tree::to_json)
    }

    /// Applies rules to every key, in order. Returns the number of keys that each rule changed.
    ///
    /// # Errors
    /// Fails if two tensors would have the same key.
    pub fn rename(&mut self, rules: &[Rule]) -> Result<Vec<usize>, PytorchError> {
        let mut changed = vec![0; rules.len()];
        let mut renamed: BTreeMap<String, (String, Arc<Tensor>)> = BTreeMap::new();
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

    /// The weights as a safetensors file in memory, with unchanged types.
    ///
    /// # Errors
    /// Fails if the file's tensors are incomplete.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PytorchError> {
        let fail = |reason: String| PytorchError::Format { path: self.path.clone(), reason };
        self.check_size().map_err(fail)?;
        let read = |(key, tensor): (&String, &Arc<Tensor>)| {
            let bytes = self.saved.read(tensor).map_err(|error| fail(format!("tensor {key}: {error}")))?;
            Ok((key.clone(), Stored { dtype: dtype(tensor.dtype), shape: tensor.shape.clone(), bytes }))
        };
        let stored: BTreeMap<String, Stored> = self.tensors.iter().map(read).collect::<Result<_, PytorchError>>()?;
        safetensors::serialize(stored.iter(), None).map_err(|error| fail(error.to_string()))
    }

    /// Limits the total size: a tensor can repeat a value of its storage any number of times.
    fn check_size(&self) -> Result<(), String> {
        let storages: BTreeMap<&str, u64> =
            self.tensors.values().map(|tensor| (&*tensor.storage.key, self.saved.held(&tensor.storage))).collect();
        let held = storages.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let wanted = self.tensors.values().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes() as u64));
        match wanted > held.saturating_mul(NAMES).saturating_add(MORE) {
            true => Err(format!("its tensors would have {wanted} bytes, and the file has {held} for them")),
            false => Ok(()),
        }
    }

    /// Writes the weights as a safetensors file.
    ///
    /// # Errors
    /// Fails as [`to_bytes`](Self::to_bytes) does, or with an error of the file system.
    pub fn save(&self, path: &Path) -> Result<(), PytorchError> {
        let bytes = self.to_bytes()?;
        hearth_files::replace(path, bytes).map_err(|source| PytorchError::Io { path: path.to_owned(), source })
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

fn failed(path: &Path, error: SavedError) -> PytorchError {
    let path = path.to_owned();
    match error {
        SavedError::Io(source) => PytorchError::Io { path, source },
        SavedError::Pickle(PickleError::Refused(call)) => PytorchError::Foreign { path, call },
        SavedError::Unknown => PytorchError::Format { path, reason: format!("invalid PyTorch file format: {error}") },
        error => PytorchError::Format { path, reason: error.to_string() },
    }
}

fn dtype(dtype: Kind) -> Dtype {
    match dtype {
        Kind::F64 => Dtype::F64,
        Kind::F32 => Dtype::F32,
        Kind::F16 => Dtype::F16,
        Kind::BF16 => Dtype::BF16,
        Kind::I64 => Dtype::I64,
        Kind::I32 => Dtype::I32,
        Kind::I16 => Dtype::I16,
        Kind::I8 => Dtype::I8,
        Kind::U64 => Dtype::U64,
        Kind::U32 => Dtype::U32,
        Kind::U16 => Dtype::U16,
        Kind::U8 => Dtype::U8,
        Kind::Bool => Dtype::BOOL,
    }
}
