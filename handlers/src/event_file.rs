//! TensorBoard's event files: [`EventFile`].
//!
//! Records and messages come from `tensorboard-rs` and its generated types. Its `SummaryWriter` is
//! not used: it panics on a full disk, overwrites the file of another writer that started in the
//! same second, and distorts images that are not square. `tensorboard-rs` depends on `protobuf`
//! 2.28, so messages of our own on `prost` could not replace it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use hearth_engine::HandlerError;
use protobuf::{Message, RepeatedField};
use serde::{Deserialize, Serialize};
use tensorboard_proto::event::Event;
use tensorboard_proto::summary::{Summary, Summary_Image, Summary_Value, SummaryMetadata, SummaryMetadata_PluginData};
use tensorboard_proto::tensor::TensorProto;
use tensorboard_proto::tensor_shape::{TensorShapeProto, TensorShapeProto_Dim};
use tensorboard_proto::types::DataType;
use tensorboard_rs::record_writer::RecordWriter;

/// A position in an event file. Checkpoints store it, so that a resumed run removes what was
/// written after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    file: String,
    length: u64,
}

/// An event file that is being written.
#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    file: File,
    writer: RecordWriterDebug,
}

/// `RecordWriter` has no `Debug`.
struct RecordWriterDebug(RecordWriter<BufWriter<File>>);

impl std::fmt::Debug for RecordWriterDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordWriter")
    }
}

/// The files open in this process, by folder: TensorBoard reads one file of a folder at a time, so
/// handlers share one.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Mutex<EventFile>>>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl EventFile {
    fn open(dir: &Path, resume: Option<&Mark>) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        if let Some(mark) = resume.filter(|mark| is_plain(&mark.file)) {
            let path = dir.join(&mark.file);
            match hearth_files::open_own(&path, OpenOptions::new().append(true)) {
                Ok(file) if file.metadata()?.len() >= mark.length => {
                    file.set_len(mark.length)?;
                    return Self::around(path, file);
                }
                // The file is missing or shorter than before: its rest is kept, and a new one is
                // started.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let seconds = now();
        for number in 0_u32.. {
            let name = format!("events.out.tfevents.{:010}.hearth.{}.{number}", seconds as u64, std::process::id());
            let path = dir.join(name);
            match hearth_files::open_own(&path, OpenOptions::new().append(true).create_new(true)) {
                Ok(file) => {
                    let mut this = Self::around(path, file)?;
                    let mut event = Event::new();
                    event.set_wall_time(seconds);
                    event.set_file_version("brain.Event:2".to_owned());
                    this.write(&event)?;
                    return Ok(this);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn around(path: PathBuf, file: File) -> io::Result<Self> {
        let writer = RecordWriterDebug(RecordWriter::new(BufWriter::new(file.try_clone()?)));
        Ok(Self { path, file, writer })
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let bytes = event.write_to_bytes().map_err(io::Error::other)?;
        self.writer.0.write(&bytes)
    }
}

/// Whether a name from a checkpoint stays within its folder.
fn is_plain(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|file| file == name)
}

/// The seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A handler's reference to the event file of a folder. The file is opened by the first write, and
/// closed when the last reference is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    dir: PathBuf,
    resume: Option<Mark>,
    open: Option<Arc<Mutex<EventFile>>>,
}

impl Curves {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, resume: None, open: None }
    }

    fn file(&mut self) -> io::Result<Arc<Mutex<EventFile>>> {
        if let Some(open) = &self.open {
            return Ok(open.clone());
        }
        let key = std::path::absolute(&self.dir)?;
        let mut files = lock(&OPEN);
        files.retain(|_, file| file.strong_count() > 0);
        let file = match files.get(&key).and_then(Weak::upgrade) {
            Some(file) => file,
            None => {
                let file = Arc::new(Mutex::new(EventFile::open(&self.dir, self.resume.as_ref())?));
                files.insert(key, Arc::downgrade(&file));
                file
            }
        };
        self.open = Some(file.clone());
        Ok(file)
    }

    fn write(&mut self, step: u64, value: Summary_Value) -> Result<(), HandlerError> {
        let mut summary = Summary::new();
        summary.set_value(RepeatedField::from_vec(vec![value]));
        let mut event = Event::new();
        event.set_wall_time(now());
        event.set_step(step as i64);
        event.set_summary(summary);
        let result = self.file().and_then(|file| lock(&file).write(&event));
        result.map_err(|error| self.fault(&error))
    }

    /// Writes a point of a curve.
    pub fn scalar(&mut self, tag: &str, step: u64, number: f64) -> Result<(), HandlerError> {
        let mut value = Summary_Value::new();
        value.set_tag(tag.to_owned());
        value.set_simple_value(number as f32);
        self.write(step, value)
    }

    /// Writes a picture, as a PNG file of three channels.
    pub fn image(&mut self, tag: &str, step: u64, width: u32, height: u32, png: Vec<u8>) -> Result<(), HandlerError> {
        self.picture(tag, step, [width, height, 3], png)
    }

    /// Writes a picture, as a PNG file of this width and height and number of channels.
    pub fn picture(&mut self, tag: &str, step: u64, size: [u32; 3], png: Vec<u8>) -> Result<(), HandlerError> {
        let [width, height, channels] = size.map(|length| length as i32);
        let mut image = Summary_Image::new();
        image.set_width(width);
        image.set_height(height);
        image.set_colorspace(channels);
        image.set_encoded_image_string(png);
        let mut value = Summary_Value::new();
        value.set_tag(tag.to_owned());
        value.set_image(image);
        self.write(step, value)
    }

    /// Writes a text in Markdown, for the page TEXT of TensorBoard.
    pub fn text(&mut self, tag: &str, step: u64, text: String) -> Result<(), HandlerError> {
        let mut plugin = SummaryMetadata_PluginData::new();
        plugin.set_plugin_name("text".to_owned());
        let mut metadata = SummaryMetadata::new();
        metadata.set_plugin_data(plugin);
        let mut dimension = TensorShapeProto_Dim::new();
        dimension.set_size(1);
        let mut shape = TensorShapeProto::new();
        shape.set_dim(RepeatedField::from_vec(vec![dimension]));
        let mut tensor = TensorProto::new();
        tensor.set_dtype(DataType::DT_STRING);
        tensor.set_tensor_shape(shape);
        tensor.set_string_val(RepeatedField::from_vec(vec![text.into_bytes()]));
        let mut value = Summary_Value::new();
        value.set_tag(tag.to_owned());
        value.set_metadata(metadata);
        value.set_tensor(tensor);
        self.write(step, value)
    }

    /// Writes data of a page of TensorBoard that is no curve, picture or text. The value itself is empty, as
    /// TensorBoard's own writers have it.
    pub fn plugin_data(&mut self, tag: &str, step: u64, page: &str, data: Vec<u8>) -> Result<(), HandlerError> {
        let mut plugin = SummaryMetadata_PluginData::new();
        plugin.set_plugin_name(page.to_owned());
        plugin.set_content(data);
        let mut metadata = SummaryMetadata::new();
        metadata.set_plugin_data(plugin);
        let mut shape = TensorShapeProto::new();
        shape.set_dim(RepeatedField::from_vec(vec![TensorShapeProto_Dim::new()]));
        let mut tensor = TensorProto::new();
        tensor.set_dtype(DataType::DT_FLOAT);
        tensor.set_tensor_shape(shape);
        let mut value = Summary_Value::new();
        value.set_tag(tag.to_owned());
        value.set_metadata(metadata);
        value.set_tensor(tensor);
        self.write(step, value)
    }

    /// Flushes everything to the operating system.
    pub fn flush(&mut self) -> Result<(), HandlerError> {
        let Some(open) = &self.open else { return Ok(()) };
        let result = lock(open).writer.0.flush();
        result.map_err(|error| self.fault(&error))
    }

    /// The current position, for a checkpoint.
    pub fn mark(&self) -> Option<Vec<u8>> {
        let mark = match &self.open {
            None => self.resume.clone()?,
            Some(open) => {
                let mut open = lock(open);
                open.writer.0.flush().ok()?;
                let file = open.path.file_name()?.to_string_lossy().into_owned();
                Mark { file, length: open.file.metadata().ok()?.len() }
            }
        };
        serde_json::to_vec(&mark).ok()
    }

    /// Resumes from a mark: removes what was written after it.
    pub fn go_on(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let mark: Mark = serde_json::from_slice(state)?;
        if let Some(open) = &self.open {
            let mut open = lock(open);
            let result = open.writer.0.flush().and_then(|()| {
                let same = open.path.file_name().is_some_and(|name| name == mark.file.as_str());
                let longer = open.file.metadata()?.len() > mark.length;
                if same && longer { open.file.set_len(mark.length) } else { Ok(()) }
            });
            drop(open);
            result.map_err(|error| self.fault(&error))?;
        }
        self.resume = Some(mark);
        Ok(())
    }

    fn fault(&self, error: &io::Error) -> HandlerError {
        let dir = self.dir.display();
        let advice =
            if error.kind() == io::ErrorKind::StorageFull { "; free some space and resume the run" } else { "" };
        HandlerError::new(format!("the TensorBoard file in {dir} cannot be written: {error}{advice}"))
    }
}
