//! Import and export of weights: safetensors with the keys, shapes and types of MONAI's state
//! dicts.
//!
//! Exported files load in MONAI with `load_state_dict(load_file(path), strict=True)`, and a MONAI
//! state dict saved with `safetensors.torch.save_file` can be imported. The third axis of a 2-D
//! network's kernels is dropped in the file. Weights are stored as f32, counters as i64; f16, bf16
//! and f64 can also be read. [`save`] and [`load`] are the same for files.
//!
//! ```
//! use burn::tensor::Device;
//! use hearth_nn::networks::UNetConfig;
//! use hearth_nn::weights;
//!
//! let config = UNetConfig::new(3, 1, 2, &[4, 8], &[2]);
//! let bytes = weights::to_bytes(&config.init(&Device::default(), 0)?)?;
//! let (net, report) = weights::from_bytes(config.init(&Device::default(), 1)?, &bytes)?;
//! assert!(report.is_complete());
//! assert!(weights::to_bytes(&net)? == bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::module::{ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Int, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, View};

mod keys;

use crate::named::PathStack;
use crate::networks::Network;
pub use keys::{Summary, rename, summary};

/// An error of weights: they cannot be written or read, or do not fit the network.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a safetensors file, or is damaged.
    #[error("{from} is not a whole safetensors file: {reason}")]
    Format {
        /// Path of the file, or "the content".
        from: String,
        /// The reader's error.
        reason: String,
    },
    /// The weights are of another network.
    #[error("{from} does not fit {network}:\n{report}")]
    Misfit {
        /// Path of the file, or "the content".
        from: String,
        /// Name of the network.
        network: &'static str,
        /// The mismatches.
        report: Report,
    },
}

/// The result of matching a file with a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of keys that were loaded.
    pub loaded: usize,
    /// Keys of the network that are missing in the file.
    pub missing: Vec<String>,
    /// Keys of the file that the network does not have.
    pub unexpected: Vec<String>,
    /// Keys whose shapes or types differ, with those found and those needed.
    pub misfits: Vec<String>,
}

impl Report {
    /// Whether file and network have the same keys.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misfits.is_empty()
    }
}

impl std::fmt::Display for Report {
    /// Writes at most a dozen lines.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total = self.missing.len() + self.unexpected.len() + self.misfits.len();
        let lines = (self.misfits.iter().map(|key| format!("  wrong shape or type: {key}")))
            .chain(self.missing.iter().map(|key| format!("  missing: {key}")))
            .chain(self.unexpected.iter().map(|key| format!("  unexpected: {key}")));
        let shown = if total > 11 { 10 } else { total };
        for line in lines.take(shown) {
            writeln!(f, "{line}")?;
        }
        match total - shown {
            0 => write!(f, "  ({} keys fit)", self.loaded),
            rest => write!(f, "  and {rest} more; {} keys fit", self.loaded),
        }
    }
}

/// A tensor to be written to a file.
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

/// The shape of a parameter in a state dict: kernels of a 2-D network have no third axis, counters
/// have no axis at all.
fn torch_shape<const D: usize>(shape: [usize; D], spatial_dims: usize, counter: bool) -> Vec<usize> {
    match (D, spatial_dims, counter) {
        (5, 2, _) => shape[..4].to_vec(),
        (1, _, true) => Vec::new(),
        _ => shape.to_vec(),
    }
}

struct Export<'a, N> {
    net: &'a N,
    path: PathStack,
    tensors: BTreeMap<String, Stored>,
}

impl<N: Network> Export<'_, N> {
    fn put(&mut self, dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) {
        let path = self.path.path();
        let names = self.net.torch_name(&path).into_iter().chain(self.net.torch_aliases(&path));
        for name in names {
            self.tensors.insert(name, Stored { dtype, shape: shape.clone(), bytes: bytes.clone() });
        }
    }
}

impl<N: Network> ModuleVisitor for Export<'_, N> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.base();
        let shape = torch_shape(value.dims(), self.net.spatial_dims(), false);
        let bytes = value.cast(DType::F32).into_data().iter::<f32>().flat_map(f32::to_le_bytes).collect();
        self.put(Dtype::F32, shape, bytes);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let value = param.base();
        let shape = torch_shape(value.dims(), self.net.spatial_dims(), true);
        let bytes = value.into_data().iter::<i64>().flat_map(i64::to_le_bytes).collect();
        self.put(Dtype::I64, shape, bytes);
    }
}

/// Returns the weights as a safetensors file in memory; the keys are sorted, so equal weights yield
/// equal bytes.
///
/// # Errors
/// If safetensors cannot hold a tensor.
pub fn to_bytes<N: Network>(net: &N) -> Result<Vec<u8>, WeightsError> {
    let mut export = Export { net, path: PathStack::default(), tensors: BTreeMap::new() };
    net.visit(&mut export);
    safetensors::serialize(export.tensors.iter(), None)
        .map_err(|e| WeightsError::Format { from: "the network".to_owned(), reason: e.to_string() })
}

/// Writes the weights to a safetensors file, which appears when it is complete.
///
/// # Errors
/// If the file cannot be written.
pub fn save<N: Network>(net: &N, path: impl AsRef<Path>) -> Result<(), WeightsError> {
    let (bytes, path) = (to_bytes(net)?, path.as_ref());
    hearth_files::replace(path, bytes).map_err(|source| WeightsError::Io { path: path.to_owned(), source })
}

/// Returns the network with the weights of a file. Whether parameters require gradients is unchanged.
///
/// # Errors
/// If the file cannot be read, or a key or shape does not match.
pub fn load<N: Network>(net: N, path: impl AsRef<Path>) -> Result<(N, Report), WeightsError> {
    let path = path.as_ref();
    let from = path.display().to_string();
    strict(load_file(net, path)?, &from)
}

/// Returns the network with the matching weights of a file, and the mismatches.
///
/// # Errors
/// If the file cannot be read.
pub fn load_partial<N: Network>(net: N, path: impl AsRef<Path>) -> Result<(N, Report), WeightsError> {
    load_file(net, path.as_ref())
}

/// Returns the network with the matching weights of a safetensors file in memory, and the
/// mismatches.
///
/// # Errors
/// If the bytes are not a safetensors file.
pub fn import_partial<N: Network>(net: N, bytes: &[u8]) -> Result<(N, Report), WeightsError> {
    import(net, bytes, "the content")
}

/// Returns the network with the weights of a safetensors file in memory.
///
/// # Errors
/// If the bytes are not a safetensors file, or a key or shape does not match.
pub fn from_bytes<N: Network>(net: N, bytes: &[u8]) -> Result<(N, Report), WeightsError> {
    let from = "the content";
    strict(import(net, bytes, from)?, from)
}

fn load_file<N: Network>(net: N, path: &Path) -> Result<(N, Report), WeightsError> {
    let bytes = hearth_files::read(path).map_err(|source| WeightsError::Io { path: path.to_owned(), source })?;
    import(net, &bytes, &path.display().to_string())
}

fn strict<N: Network>((net, report): (N, Report), from: &str) -> Result<(N, Report), WeightsError> {
    if report.is_complete() {
        return Ok((net, report));
    }
    Err(WeightsError::Misfit { from: from.to_owned(), network: net.name(), report })
}

struct Import<'a> {
    file: &'a SafeTensors<'a>,
    /// Returns the keys of a parameter, the main one first; empty if it is not stored.
    names: &'a dyn Fn(&str) -> Vec<String>,
    spatial_dims: usize,
    path: PathStack,
    seen: BTreeSet<String>,
    report: Report,
}

/// The values of a stored tensor as f32, or `None` for an unsupported type.
fn floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match dtype {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::F16 => bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::BF16 => bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::F64 => bytes
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32)
            .collect(),
        _ => return None,
    })
}

impl Import<'_> {
    /// The bytes under the current path, if the file has them in this shape. One of several keys is
    /// sufficient: files without shared tensors hold each tensor once.
    fn find(&mut self, shape: &[usize], optional: bool) -> Option<(String, Dtype, &[u8])> {
        let names = (self.names)(&self.path.path());
        self.seen.extend(names.iter().cloned());
        let found = names.iter().find_map(|name| Some((name.clone(), self.file.tensor(name).ok()?)));
        let Some((name, view)) = found else {
            self.report.missing.extend(names.into_iter().take(1).filter(|_| !optional));
            return None;
        };
        if view.shape() != shape {
            self.report.misfits.push(format!("{name}: {:?} in the file, {shape:?} in the network", view.shape()));
            return None;
        }
        Some((name, view.dtype(), view.data()))
    }
}

impl ModuleMapper for Import<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = param.lazy_shape().dims::<D>();
        let wanted = torch_shape(shape, self.spatial_dims, false);
        let Some((name, dtype, bytes)) = self.find(&wanted, false) else {
            return param;
        };
        let Some(values) = floats(dtype, bytes) else {
            self.report.misfits.push(format!("{name}: {dtype:?} in the file, F32 in the network"));
            return param;
        };
        self.report.loaded += 1;
        if !param.is_initialized() {
            // The initial value is never computed.
            let (id, value) = (param.id, Tensor::from_data(TensorData::new(values, shape), &param.lazy_device()));
            return param.transform_for_load(value, id);
        }
        let (id, old, mapper) = param.consume();
        let trains = old.is_require_grad();
        let value = Tensor::from_data(TensorData::new(values, shape), &old.device());
        Param::from_mapped_value(id, value.set_require_grad(trains), mapper)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let shape = param.lazy_shape().dims::<D>();
        let wanted = torch_shape(shape, self.spatial_dims, true);
        // Files older than PyTorch 0.4.1 have no counters of batches.
        let Some((name, dtype, bytes)) = self.find(&wanted, true) else {
            return param;
        };
        if dtype != Dtype::I64 {
            self.report.misfits.push(format!("{name}: {dtype:?} in the file, I64 in the network"));
            return param;
        }
        let values: Vec<i64> = bytes
            .chunks_exact(8)
            .map(|b| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
            .collect();
        self.report.loaded += 1;
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, Tensor::from_data(TensorData::new(values, shape), &old.device()), mapper)
    }
}

fn import<N: Network>(net: N, bytes: &[u8], from: &str) -> Result<(N, Report), WeightsError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| WeightsError::Format { from: from.to_owned(), reason: e.to_string() })?;
    let template = net.clone();
    let names = |path: &str| match template.torch_name(path) {
        Some(name) => [name].into_iter().chain(template.torch_aliases(path)).collect(),
        None => Vec::new(),
    };
    let mut import = Import {
        file: &file,
        names: &names,
        spatial_dims: net.spatial_dims(),
        path: PathStack::default(),
        seen: BTreeSet::new(),
        report: Report::default(),
    };
    let net = net.map(&mut import);
    let Import { seen, mut report, .. } = import;
    report.unexpected = file.names().into_iter().filter(|name| !seen.contains(*name)).map(str::to_owned).collect();
    report.unexpected.sort_unstable();
    Ok((net, report))
}
