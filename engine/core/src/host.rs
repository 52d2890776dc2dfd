//! What a handler may ask of whoever runs the engine: [`Host`].

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::state::Metrics;

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Level {
    /// For whoever looks for a fault.
    Debug = 0,
    /// For whoever watches the run.
    Info = 1,
    /// Something is odd, the run goes on.
    Warn = 2,
    /// Something failed.
    Error = 3,
}

/// The element type of a [`HostTensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float.
    F32 = 0,
    /// 64-bit float.
    F64 = 1,
    /// 64-bit signed integer.
    I64 = 2,
    /// 8-bit unsigned integer.
    U8 = 3,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::U8 => 1,
        }
    }
}

/// A tensor in host memory, row-major, native byte order: a view that is valid for the call it was
/// asked for in.
#[derive(Clone, Debug)]
pub struct HostTensor<'a> {
    /// Element type.
    pub dtype: DType,
    /// Lengths of the axes, slowest first; images are `[B, C, X, Y, Z]` or `[B, C, X, Y]`.
    pub shape: Vec<usize>,
    /// The elements.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> HostTensor<'a> {
    /// An f32 tensor over these values. Fails when the shape does not hold as many.
    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Result<HostTensor<'static>, HostError> {
        if shape.iter().product::<usize>() != values.len() {
            return Err(HostError::new(format!("shape {shape:?} does not hold {} values", values.len())));
        }
        let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        Ok(HostTensor { dtype: DType::F32, shape, bytes: Cow::Owned(bytes) })
    }

    /// The elements as f32; fails for another element type.
    pub fn to_f32(&self) -> Result<Vec<f32>, HostError> {
        if self.dtype != DType::F32 {
            return Err(HostError::new(format!("the tensor holds {:?}, not F32", self.dtype)));
        }
        Ok(self.bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How several predictions become one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// MONAI's `MeanEnsemble`: mean over the inputs of `x * w / mean(w)`; no weights means equal
    /// ones.
    Mean {
        /// One weight for each input.
        weights: Option<Vec<f64>>,
    },
    /// MONAI's `VoteEnsemble`: with classes, one-hot the class maps, average, argmax; without,
    /// round the mean.
    Vote {
        /// Number of classes of the single-channel class maps.
        num_classes: Option<usize>,
    },
}

/// Which values of a network's layers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LayerValues {
    /// The parameters and running statistics.
    Weights = 0,
    /// The gradients of the parameters, of the present batch alone: without the factor of a loss
    /// scaler, before they are added up over batches and clipped. There are some at
    /// `backward_completed`, and at no other event.
    Gradients = 1,
}

/// What the values of one layer look like.
///
/// `mean`, `std`, `min` and `max` are those of the finite values, and not a number where none is
/// finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerStatistics {
    /// The name that the layer has in the network's state dict.
    pub name: String,
    /// How many values it has.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with the count as the divisor.
    pub std: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many values are infinite or not a number.
    pub non_finite: u64,
}

/// What a host has under names: see [`Host::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum NamesOf {
    /// What [`Host::output`] answers to.
    Outputs = 0,
    /// What [`Host::tensor`] answers to.
    Tensors = 1,
    /// What [`Host::numbers`] answers to.
    Numbers = 2,
    /// What [`Host::texts`] answers to.
    Texts = 3,
    /// What [`Host::run`] answers to.
    Engines = 4,
}

/// What a handler wants a checkpoint to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The folder of checkpoints.
    pub dir: PathBuf,
    /// What the checkpoint is: `epoch`, `best`, `interrupted`, `final`, or a word of the handler's
    /// own.
    pub tag: String,
    /// Of the checkpoints with this tag, the newest so many stay; `None` keeps all.
    pub keep_last: Option<usize>,
}

/// What a handler may ask of whoever runs the engine.
///
/// No method has a default: a host says of each what it does. [`not_offered!`](crate::not_offered)
/// writes, by name, those that it has no answer to.
pub trait Host {
    /// Ends the run once the present event's handlers have returned (within an iteration: once it
    /// is complete).
    fn terminate(&mut self, why: &str);

    /// Ends the epoch once the present event's handlers have returned.
    fn terminate_epoch(&mut self, why: &str);

    /// Pauses: `run` returns, and the next `run` goes on in mid-epoch.
    fn interrupt(&mut self, why: &str);

    /// Records a metric in the state; the handlers after this one see it.
    fn set_metric(&mut self, name: &str, value: f64);

    /// The names that there are at present: a host that knows some lists them in the order of the
    /// alphabet.
    fn names(&self, of: NamesOf) -> Vec<String>;

    /// A number of the present iteration, read back from the device because somebody asked: `loss`.
    fn output(&mut self, name: &str) -> Result<f64, HostError>;

    /// The cases of the present batch, by name.
    fn cases(&self) -> Vec<String>;

    /// Numbers that belong to the cases of the present batch, one list for each case: a value of
    /// the data set's table (`age`), voxel sizes in mm (`image.spacing`), a metric of an evaluator
    /// once it is measured.
    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError>;

    /// Texts that belong to the cases of the present batch, one for each case: a column of the data
    /// set's table (`site`), the file of an image (`image.path`).
    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError>;

    /// The optimizer's learning rate, where there is one.
    fn learning_rate(&self) -> Option<f64>;

    /// Sets the learning rate from the next step on.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError>;

    /// What the values of each layer of the network look like, in the network's order: one pass
    /// over all of them on the device, and one wait for it.
    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError>;

    /// Runs another engine of the same program, `validation` for one, and returns its metrics. The
    /// engine that calls the handler records them in its own state too, as `set_metric` does: the
    /// handlers after this one see them.
    fn run(&mut self, engine: &str) -> Result<Metrics, HostError>;

    /// A tensor of the present iteration in host memory: `image`, `label`, `pred`, ... A network of
    /// several outputs has them as `output_0`, which is `pred`, `output_1`, ...; an ensemble's
    /// members are `pred_0`, `pred_1`, ...
    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError>;

    /// Replaces or adds a tensor of the present iteration.
    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError>;

    /// Makes one tensor of several, on the device.
    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError>;

    /// Asks for a checkpoint. It is written when all handlers of the present event have run, so
    /// that it holds what each of them has seen (inside an iteration: when that is complete); an
    /// error in writing is an error of the handler that asked.
    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError>;

    /// Asks to go on from the newest whole checkpoint in `dir`. Possible in `Started` only; it is
    /// read when all handlers of that event have run.
    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError>;

    /// Says something to whoever watches; [`trace`] is what most hosts do.
    fn log(&mut self, level: Level, message: &str);

    /// Hands a number to whoever draws curves. The engine keeps the newest of each tag in
    /// `State::scalars`.
    fn scalar(&mut self, tag: &str, value: f64);
}

/// Hands a message to the `tracing` subscriber of the program: what a host's `log` does that has
/// nobody else to tell.
pub fn trace(level: Level, message: &str) {
    match level {
        Level::Debug => tracing::debug!("{message}"),
        Level::Info => tracing::info!("{message}"),
        Level::Warn => tracing::warn!("{message}"),
        Level::Error => tracing::error!("{message}"),
    }
}
