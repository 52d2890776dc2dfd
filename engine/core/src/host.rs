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

/// A tensor in host memory, row-major, native byte order: a view that is valid for the call it was asked for in.
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
    /// MONAI's `MeanEnsemble`: mean over the inputs of `x * w / mean(w)`; no weights means equal ones.
    Mean {
        /// One weight for each input.
        weights: Option<Vec<f64>>,
    },
    /// MONAI's `VoteEnsemble`: with classes, one-hot the class maps, average, argmax; without, round the mean.
    Vote {
        /// Number of classes of the single-channel class maps.
        num_classes: Option<usize>,
    },
}

/// What a handler wants a checkpoint to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The folder of checkpoints.
    pub dir: PathBuf,
    /// What the checkpoint is: `epoch`, `best`, `interrupted`, `final`, or a word of the handler's own.
    pub tag: String,
    /// Of the checkpoints with this tag, the newest so many stay; `None` keeps all.
    pub keep_last: Option<usize>,
}

/// What a handler may ask of whoever runs the engine. Every method has a default that answers "not offered here".
pub trait Host {
    /// Ends the run once the present event's handlers have returned (within an iteration: once it is complete).
    fn terminate(&mut self, why: &str) {
        let _ = why;
    }

    /// Ends the epoch once the present event's handlers have returned.
    fn terminate_epoch(&mut self, why: &str) {
        let _ = why;
    }

    /// Pauses: `run` returns, and the next `run` goes on in mid-epoch.
    fn interrupt(&mut self, why: &str) {
        let _ = why;
    }

    /// Records a metric in the state; the handlers after this one see it.
    fn set_metric(&mut self, name: &str, value: f64) {
        let _ = (name, value);
    }

    /// A number of the present iteration, read back from the device because somebody asked: `loss`.
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        Err(HostError::not_offered(&format!("output {name}")))
    }

    /// The cases (file names) of the present batch.
    fn cases(&self) -> Vec<String> {
        Vec::new()
    }

    /// The optimizer's learning rate, where there is one.
    fn learning_rate(&self) -> Option<f64> {
        None
    }

    /// Sets the learning rate from the next step on.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        let _ = learning_rate;
        Err(HostError::not_offered("set_learning_rate"))
    }

    /// Runs another engine of the same program, `validation` for one, and returns its metrics. The engine that calls
    /// the handler records them in its own state too, as `set_metric` does: the handlers after this one see them.
    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        Err(HostError::not_offered(&format!("run {engine}")))
    }

    /// A tensor of the present iteration in host memory: `image`, `label`, `pred`, `pred_0`, ...
    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        Err(HostError::not_offered(&format!("tensor {name}")))
    }

    /// Replaces or adds a tensor of the present iteration.
    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        let _ = tensor;
        Err(HostError::not_offered(&format!("put_tensor {name}")))
    }

    /// Makes one tensor of several, on the device.
    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        let _ = (inputs, how, output);
        Err(HostError::not_offered("combine"))
    }

    /// Asks for a checkpoint. It is written when all handlers of the present event have run, so that it holds what
    /// each of them has seen (inside an iteration: when that is complete); an error in writing is an error of the
    /// handler that asked.
    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        let _ = request;
        Err(HostError::not_offered("save_checkpoint"))
    }

    /// Asks to go on from the newest whole checkpoint in `dir`. Possible in `Started` only; it is read when all handlers
    /// of that event have run.
    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        let _ = dir;
        Err(HostError::not_offered("load_checkpoint"))
    }

    /// Says something to whoever watches: by default the `tracing` subscriber of the program.
    fn log(&mut self, level: Level, message: &str) {
        match level {
            Level::Debug => tracing::debug!("{message}"),
            Level::Info => tracing::info!("{message}"),
            Level::Warn => tracing::warn!("{message}"),
            Level::Error => tracing::error!("{message}"),
        }
    }

    /// Hands a number to whoever draws curves. The engine keeps the newest of each tag in `State::scalars`.
    fn scalar(&mut self, tag: &str, value: f64) {
        let _ = (tag, value);
    }
}
