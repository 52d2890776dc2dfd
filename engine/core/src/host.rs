//! The requests that a handler can make of the trainer or evaluator that runs the engine: [`Host`].

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::state::Metrics;
use crate::store::Attachment;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Level {
    /// For debugging.
    Debug = 0,
    /// For the user who watches the run closely: `hearth -v`.
    Info = 1,
    /// For every user: a line of the run's progress.
    Notice = 4,
    /// Something is unusual, the run continues.
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

/// A tensor in host memory, row-major, native byte order: a view that is valid for the duration of
/// the call.
///
/// ```
/// use hearth_engine::HostTensor;
/// // [B, C, X, Y]
/// let image = HostTensor::from_f32(vec![1, 1, 2, 2], &[0.0, 0.5, 0.5, 1.0])?;
/// assert_eq!((image.len(), image.bytes.len()), (4, 16));
/// assert_eq!(image.to_f32()?[3], 1.0);
/// # Ok::<(), hearth_engine::HostError>(())
/// ```
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
    /// An f32 tensor of this shape (`[2, 3]`) with a copy of these values, the last axis fastest.
    ///
    /// # Errors
    /// If the shape has another number of elements.
    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Result<HostTensor<'static>, HostError> {
        if shape.iter().product::<usize>() != values.len() {
            return Err(HostError::new(format!("shape {shape:?} does not hold {} values", values.len())));
        }
        let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        Ok(HostTensor { dtype: DType::F32, shape, bytes: Cow::Owned(bytes) })
    }

    /// The elements as f32.
    ///
    /// # Errors
    /// If the tensor has another element type.
    pub fn to_f32(&self) -> Result<Vec<f32>, HostError> {
        if self.dtype != DType::F32 {
            return Err(HostError::new(format!("the tensor holds {:?}, not F32", self.dtype)));
        }
        Ok(self.bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A way to combine several predictions into one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// MONAI's `MeanEnsemble`: mean over the inputs of `x * w / mean(w)`. Without weights, all
    /// weights are equal.
    Mean {
        /// One weight for each input, one for each input and channel, or one for each value of each
        /// input (`[C, X, Y, Z]`, the same for all items of the batch), input by input.
        weights: Option<Vec<f64>>,
    },
    /// MONAI's `VoteEnsemble`: with classes, one-hot the class maps, average, argmax; without,
    /// round the mean.
    Vote {
        /// Number of classes of the single-channel class maps.
        num_classes: Option<usize>,
    },
}

/// The values of a network's layers to compute statistics of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LayerValues {
    /// The parameters and running statistics.
    Weights = 0,
    /// The gradients of the parameters for the current batch alone: without the factor of a loss
    /// scaler, before accumulation and clipping. They exist at `backward_completed` only.
    Gradients = 1,
}

/// Statistics of the values of one layer.
///
/// `mean`, `std`, `min` and `max` cover the finite values, and are NaN where none is finite. They
/// have the unit of the weights or gradients; see [`Host::layer_statistics`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerStatistics {
    /// The layer's name in the network's state dict.
    pub name: String,
    /// The number of values.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation, with the count as the divisor.
    pub std: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The number of non-finite values.
    pub non_finite: u64,
}

/// The kinds of names a host has: see [`Host::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum NamesOf {
    /// The names that [`Host::output`] accepts.
    Outputs = 0,
    /// The names that [`Host::tensor`] accepts.
    Tensors = 1,
    /// The names that [`Host::numbers`] accepts.
    Numbers = 2,
    /// The names that [`Host::texts`] accepts.
    Texts = 3,
    /// The names that [`Host::run`] accepts.
    Engines = 4,
    /// At [`Event::Attached`](crate::Event::Attached): the paths of the files that were attached
    /// since it was fired last.
    Attachments = 5,
}

/// A handler's request for a checkpoint: [`Host::save_checkpoint`].
///
/// ```
/// use hearth_engine::{CheckpointRequest, Engine, Event};
/// Engine::new("trainer").on(Event::EpochCompleted, |cx| {
///     let (dir, tag) = ("checkpoints".into(), "epoch".into());
///     Ok(cx.host.save_checkpoint(CheckpointRequest { dir, tag, keep_last: Some(3) })?)
/// })?;
/// # Ok::<(), hearth_engine::RegisterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The folder of checkpoints.
    pub dir: PathBuf,
    /// The tag of the checkpoint: `epoch`, `best`, `interrupted`, `final`, or a custom tag.
    pub tag: String,
    /// The number of newest checkpoints with this tag to keep; `None` keeps all.
    pub keep_last: Option<usize>,
}

/// The requests that a handler can make of the trainer or evaluator that runs the engine:
/// `cx.host` of a [`Context`](crate::Context).
///
/// A request that this host does not support, or not at this event, is an error that says so;
/// [`names`](Self::names) lists what exists now. Images are `[B, C, X, Y, Z]` or `[B, C, X, Y]`.
///
/// No method has a default: a host implements each one. [`not_offered!`](crate::not_offered) writes
/// stubs, by name, for the methods that a host does not support, and has an example.
pub trait Host {
    /// Ends the run once the handlers of the current event have returned (within an iteration: once
    /// it is complete).
    fn terminate(&mut self, why: &str);

    /// Ends the epoch once the handlers of the current event have returned.
    fn terminate_epoch(&mut self, why: &str);

    /// Pauses: `run` returns, and the next `run` resumes in mid-epoch.
    fn interrupt(&mut self, why: &str);

    /// Records a metric in the state. Handlers called later see it.
    fn set_metric(&mut self, name: &str, value: f64);

    /// The names that exist at this event, in alphabetical order; attachments in the order in which
    /// they were attached.
    fn names(&self, of: NamesOf) -> Vec<String>;

    /// A number of the current iteration, read back from the device on request: `loss`.
    ///
    /// # Errors
    /// If no number has this name at this event.
    fn output(&mut self, name: &str) -> Result<f64, HostError>;

    /// The names of the cases of the current batch.
    fn cases(&self) -> Vec<String>;

    /// Numbers of the cases of the current batch, one list for each case: a column of the data
    /// set's table (`age`), voxel sizes in mm (`image.spacing`), or a metric of an evaluator once
    /// it is computed.
    ///
    /// # Errors
    /// If there are no numbers of this name at this event.
    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError>;

    /// Strings of the cases of the current batch, one for each case: a column of the data
    /// set's table (`site`), the file of an image (`image.path`).
    ///
    /// # Errors
    /// If there are no strings of this name at this event.
    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError>;

    /// The optimizer's learning rate, if there is one optimizer.
    fn learning_rate(&self) -> Option<f64>;

    /// Sets the learning rate from the next step on.
    ///
    /// # Errors
    /// If the host has no optimizer, or refuses the value.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError>;

    /// Statistics of the values of each layer, in the network's order. Costs one pass over the
    /// values on the device and one synchronization.
    ///
    /// # Errors
    /// If the values do not exist at this event: gradients at `backward_completed` only.
    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError>;

    /// Runs another engine of the same program, such as `validation`, and returns its metrics. The
    /// calling engine also records them in its own state, as `set_metric` does, so handlers called
    /// later see them.
    ///
    /// # Errors
    /// If there is no engine of this name, or its run fails.
    fn run(&mut self, engine: &str) -> Result<Metrics, HostError>;

    /// A tensor of the current iteration in host memory: `image`, `label`, `pred`, ... A network
    /// with several outputs has `output_0` (the same as `pred`), `output_1`, ...; the members of an
    /// ensemble have `pred_0`, `pred_1`, ... The network's parameters are `weights.NAME`; at
    /// `backward_completed` their gradients are `gradients.NAME`. NAME is as in `layer_statistics`.
    /// Costs a copy from the device and one synchronization.
    ///
    /// # Errors
    /// If there is no tensor of this name at this event.
    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError>;

    /// Replaces or adds a tensor of the current iteration. `weights.NAME` replaces a parameter of the
    /// network in training, from the next forward pass on, and at `backward_completed`
    /// `gradients.NAME` the gradient that the optimizer will see: f32, in the shape that
    /// [`tensor`](Self::tensor) has. On several ranks every rank must put the same weights. Any other
    /// name is a tensor of the batch, `[B, C, X, Y, Z]` or `[B, C, X, Y]`, which is kept as f32.
    ///
    /// # Errors
    /// If the element type or the shape is another one, or the tensor cannot be replaced at this
    /// event.
    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError>;

    /// Combines several tensors into one, on the device. `inputs` are names as in
    /// [`tensor`](Self::tensor), of one shape; `output` is the name of the result.
    ///
    /// # Errors
    /// If an input does not exist, or shapes or weights do not fit.
    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError>;

    /// Requests a checkpoint. It is written after all handlers of the current event have run, so
    /// that it includes their changes; a request within an iteration is carried out after the
    /// iteration. A write error is an error of the handler that made the request.
    ///
    /// # Errors
    /// If the host writes no checkpoints.
    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError>;

    /// Requests to resume from the newest complete checkpoint in `dir`. Possible in `Started` only;
    /// the checkpoint is read after all handlers of that event have run.
    ///
    /// # Errors
    /// At another event. A checkpoint that cannot be read is an error of the handler that made the
    /// request.
    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError>;

    /// Logs a message for the user; most hosts call [`trace`].
    fn log(&mut self, level: Level, message: &str);

    /// Publishes a number for plots. The engine keeps the newest value of each tag in
    /// `State::scalars`.
    fn scalar(&mut self, tag: &str, value: f64);

    /// Keeps bytes under a key that belongs to this handler alone. Checkpoints store them, and a
    /// resumed run restores them before `Started` ends.
    ///
    /// # Errors
    /// If the key has no byte or more than 200, or the value has more than 256 MiB.
    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError>;

    /// The bytes that this handler keeps under a key.
    fn recall(&self, key: &str) -> Option<Vec<u8>>;

    /// Adds a file, a picture or a text to the folder of the run, if there is one:
    /// `attachments/HANDLER/NAME`. An existing file of that name is replaced. When the handlers of
    /// the current event have returned, [`Event::Attached`](crate::Event::Attached) is fired, for
    /// handlers that pass pictures and texts on, such as the one for TensorBoard.
    ///
    /// # Errors
    /// If the run has no folder, the name leads out of it (letters, digits, `-`, `_`, `.` and spaces,
    /// in folders or not: `slices/epoch_1`), or the file cannot be written.
    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError>;

    /// The facts of the run, as a JSON object: `version`, `recipe` (with every default), `run_folder`,
    /// `device`, `rank`, `world_size`, `parameters`, `data`.
    ///
    /// # Errors
    /// If the program has set none: see [`Engine::set_run_info`](crate::Engine::set_run_info).
    fn run_info(&self) -> Result<String, HostError>;

    /// Fires one of this handler's own events ([`Handler::events`](crate::Handler::events)) when the
    /// handlers of the current event have returned.
    ///
    /// # Errors
    /// If the handler's `events` do not have this one.
    fn fire(&mut self, event: &str) -> Result<(), HostError>;

    /// Requests a call of this handler with [`Event::Timer`](crate::Event::Timer), on the thread
    /// that runs the engine, at the first event after this time. What is outstanding at the end of
    /// the run is called once, before `Completed` (or `Interrupt`, `ExceptionRaised`), where a
    /// handler can wait for its own threads; requests made in that call are refused.
    ///
    /// # Errors
    /// If the run ends, or the time is too long to be added to a clock.
    fn call_after(&mut self, time: Duration) -> Result<(), HostError>;
}

/// The target of the `tracing` events that [`Level::Notice`] becomes, to filter by. Their level is
/// `info`.
pub const NOTICE_TARGET: &str = "hearth::notice";

/// Passes a message to the program's `tracing` subscriber: the usual `log` of a host.
pub fn trace(level: Level, message: &str) {
    match level {
        Level::Debug => tracing::debug!("{message}"),
        Level::Info => tracing::info!("{message}"),
        Level::Notice => tracing::info!(target: NOTICE_TARGET, "{message}"),
        Level::Warn => tracing::warn!("{message}"),
        Level::Error => tracing::error!("{message}"),
    }
}
