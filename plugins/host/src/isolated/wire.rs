//! The protocol between the program and the process of a plugin: messages over a socket pair,
//! tensors in shared memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use hearth_engine::{
    CheckpointRequest, Combine, DType, LayerStatistics, LayerValues, Level, Metrics, NamesOf, OnError, Ranks, Scalar,
    State,
};
use hearth_registry::Fault;
use hearth_registry::component::HostArray;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest size of a message in bytes. Tensors are not part of messages.
const MOST: usize = 1 << 28;

/// The plugin that the process loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Source {
    /// From its library.
    File(PathBuf),
    /// The bundled plugin of this name, which is linked into the program.
    BuiltIn(String),
}

/// A message from the program to the plugin's process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Load the plugin, and create its handler if there are options (TOML).
    Load { source: Source, options: Option<String> },
    /// Call the handler.
    Event { event: u32, state: SentState },
    /// Call a filter function.
    Accept { filter: usize, counter: u64, state: SentState },
    /// Return the state for checkpoints.
    SaveState,
    /// Restore the state.
    LoadState(Vec<u8>),
    /// The result of a request.
    Answer(Answer),
    /// End.
    Quit,
    /// Load the plugin, and create a component of it from its options (TOML).
    Make { source: Source, name: String, options: String },
    /// Call the component: an operation, or its only function. The values of the arrays are in the shared memory.
    Work { operation: Option<String>, inputs: Vec<SentArray>, text: String, network: bool },
    /// The output of the network, or its error.
    Output(Result<SentArray, String>),
}

/// A message from the plugin's process to the program.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// The plugin is loaded: its report as JSON.
    Loaded(String),
    /// The handler was created.
    Made { name: String, whens: Vec<SentWhen>, events: Vec<String>, on_error: OnError, ranks: Ranks },
    /// The plugin cannot be loaded, or refuses its options.
    Refused(SentFault),
    /// The handler has returned.
    Handled(Result<(), String>),
    /// The result of the filter.
    Accepted(bool),
    /// The state for checkpoints.
    State(Option<Vec<u8>>),
    /// The result of restoring the state.
    Restored(Result<(), String>),
    /// While it handles an event, the handler makes a request.
    Ask(Request),
    /// The component was created.
    Built,
    /// The component has returned.
    Worked(Result<(Vec<SentArray>, String), String>),
    /// While it works, the component runs the network on this window.
    Window(SentArray),
}

/// A request of a handler: the methods of the engine's `Host`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Terminate(String),
    TerminateEpoch(String),
    Interrupt(String),
    SetMetric(String, f64),
    Names(NamesOf),
    Output(String),
    Cases,
    Numbers(String),
    Texts(String),
    LearningRate,
    SetLearningRate(f64),
    LayerStatistics(LayerValues),
    Run(String),
    Tensor(String),
    /// The elements are in the shared memory, also those of an image to attach.
    PutTensor(String, SentTensor),
    Combine(Vec<String>, Combine, String),
    SaveCheckpoint(CheckpointRequest),
    LoadCheckpoint(PathBuf),
    Log(Level, String),
    Scalar(String, f64),
    Remember(String, Vec<u8>),
    Recall(String),
    AttachFile(String, Vec<u8>),
    AttachImage(String, SentTensor),
    AttachText(String, String),
    RunInfo,
    Fire(String),
    /// The time in seconds.
    CallAfter(f64),
}

/// The result of a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Refused(String),
    Names(Vec<String>),
    Number(f64),
    Perhaps(Option<f64>),
    Numbers(Vec<Vec<f64>>),
    Layers(Vec<LayerStatistics>),
    Metrics(Metrics),
    /// The elements are in the shared memory.
    Tensor(SentTensor),
    Bytes(Option<Vec<u8>>),
    Text(String),
}

/// A tensor whose elements are in the shared memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentTensor {
    pub dtype: u8,
    pub shape: Vec<usize>,
    pub bytes: usize,
}

impl SentTensor {
    pub fn new(dtype: DType, shape: &[usize], bytes: &[u8]) -> Self {
        Self { dtype: dtype as u8, shape: shape.to_vec(), bytes: bytes.len() }
    }
}

/// An array whose values are in the shared memory, one array after another.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentArray {
    shape: Vec<usize>,
    affine: [[f64; 4]; 4],
}

/// Puts arrays into the shared memory.
pub fn put_arrays(shared: &mut Shared, arrays: &[HostArray<'_>]) -> Result<Vec<SentArray>, String> {
    let bytes: Vec<u8> = arrays.iter().flat_map(|array| array.values.iter()).flat_map(|v| v.to_ne_bytes()).collect();
    shared.put(&bytes).map_err(|error| format!("its images cannot be passed to another process: {error}"))?;
    Ok(arrays.iter().map(|array| SentArray { shape: array.shape.clone(), affine: array.affine }).collect())
}

/// Takes arrays out of the shared memory.
pub fn take_arrays(shared: &Shared, sent: Vec<SentArray>) -> Result<Vec<HostArray<'static>>, String> {
    let count = |array: &SentArray| array.shape.iter().try_fold(1_usize, |all, axis| all.checked_mul(*axis));
    let counts = sent.iter().map(count).collect::<Option<Vec<usize>>>();
    let bytes = counts.as_ref().and_then(|counts| {
        let all = counts.iter().try_fold(0_usize, |all, count| all.checked_add(*count))?;
        all.checked_mul(size_of::<f32>())
    });
    let (Some(counts), Some(bytes)) = (counts, bytes) else {
        return Err("an image of another process is too large".to_owned());
    };
    let bytes = shared.take(bytes).map_err(|error| format!("an image of another process is not complete: {error}"))?;
    let mut values = bytes.chunks_exact(size_of::<f32>()).map(|v| f32::from_ne_bytes([v[0], v[1], v[2], v[3]]));
    let array = |(SentArray { shape, affine }, count)| {
        let values: Vec<f32> = values.by_ref().take(count).collect();
        HostArray { shape, values: values.into(), affine }
    };
    Ok(sent.into_iter().zip(counts).map(array).collect())
}

/// A state with the fields that its own serialization omits.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentState {
    state: State,
    scalars: Vec<(String, f64, u64)>,
    exception: Option<String>,
}

impl SentState {
    pub fn of(state: &State) -> Self {
        let scalar = |(tag, scalar): (&String, &Scalar)| (tag.clone(), scalar.value, scalar.iteration);
        Self {
            state: state.clone(),
            scalars: state.scalars.iter().map(scalar).collect(),
            exception: state.exception.clone(),
        }
    }

    pub fn received(self) -> State {
        let Self { mut state, scalars, exception } = self;
        state.scalars = scalars.into_iter().map(|(tag, value, iteration)| (tag, Scalar { value, iteration })).collect();
        state.exception = exception;
        state
    }
}

/// The alternatives of one `When`. Functions stay in the plugin's process and are sent as numbers.
pub type SentWhen = Vec<SentAlternative>;

/// An event with its filter.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentAlternative {
    pub event: u32,
    pub custom_name: Option<String>,
    pub every: Option<u64>,
    pub once: Option<Vec<u64>>,
    pub before: Option<u64>,
    pub after: Option<u64>,
    pub accept: Option<usize>,
}

/// A fault of an option (`of_options`), or of the plugin.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentFault {
    pub of_options: bool,
    path: String,
    message: String,
    suggestion: Option<String>,
}

impl SentFault {
    pub fn plain(message: String) -> Self {
        Self { of_options: false, path: String::new(), message, suggestion: None }
    }

    pub fn of_options(fault: Fault) -> Self {
        let Fault { path, message, suggestion, .. } = fault;
        Self { of_options: true, path, message, suggestion }
    }

    pub fn received(self) -> Fault {
        Fault::at(self.path, self.message).meaning(self.suggestion)
    }
}

/// Sends a message: its length and its bytes.
pub fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let length = body.len();
    if length > MOST {
        let what = format!("{length} bytes are more than the {MOST} that a message to or from a plugin may have");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut bytes = Vec::with_capacity(size_of::<u32>() + length);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(&body);
    to.write_all(&bytes)
}

/// Receives a message.
pub fn receive<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<T> {
    let mut length = [0; size_of::<u32>()];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    // Memory is allocated for received bytes, not for the announced length.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The memory that both processes share, for the elements of one tensor at a time. This side only
/// copies into and out of it, so the other side's changes cannot harm it.
#[derive(Debug)]
pub struct Shared {
    file: File,
    length: u64,
}

impl Shared {
    pub fn new(file: File) -> Self {
        Self { file, length: 0 }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Only grows: the other side may have it mapped.
        self.length = self.length.max(self.file.metadata()?.len());
        if self.length < bytes.len() as u64 {
            self.file.set_len(bytes.len() as u64)?;
            self.length = bytes.len() as u64;
        }
        self.file.write_all_at(bytes, 0)
    }

    pub fn take(&self, count: usize) -> io::Result<Vec<u8>> {
        if count as u64 > self.file.metadata()?.len() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it sent fewer bytes than announced"));
        }
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_crosses_whole() {
        let mut state = State::new("trainer");
        state.metrics.insert("dice".into(), f64::NAN);
        state.scalars.insert("rate".into(), Scalar { value: 0.5, iteration: 3 });
        (state.exception, state.epoch_length, state.pass.number) = (Some("é".into()), Some(4), 2);
        let (here, there) = UnixStream::pair().expect("a pair");
        send(&here, &Order::Event { event: 3, state: SentState::of(&state) }).expect("sent");
        let Order::Event { event: 3, state: received } = receive(&there).expect("received") else {
            panic!("another message")
        };
        assert_eq!(format!("{:?}", received.received()), format!("{state:?}"));
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        let (mut here, there) = UnixStream::pair().expect("a pair");
        here.write_all(&u32::MAX.to_le_bytes()).expect("written");
        assert!(receive::<Order>(&there).is_err_and(|error| error.to_string().contains("4294967295")));
        here.write_all(&8_u32.to_le_bytes()).and_then(|()| here.write_all(&[1, 2])).expect("written");
        drop(here);
        assert!(receive::<Order>(&there).is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof));
        let mut shared = Shared::new(tempfile::tempfile().expect("a file"));
        shared.put(&[1, 2, 3]).expect("written");
        assert_eq!(shared.take(3).expect("there"), [1, 2, 3]);
        assert!(shared.take(usize::MAX).is_err());
    }
}
