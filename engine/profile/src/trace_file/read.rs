//! Reads the events of a Chrome trace one after another.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Why a trace cannot be summarized.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read, or its archive is damaged.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is no trace.
    #[error("{path} is no Chrome trace: {what}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// It has no training steps.
    #[error(
        "{path} has no training steps: a trace of PyTorch needs ranges `ProfilerStep#N` (call `prof.step()` after each \
         step), one of Hearth `iteration` (`hearth profile`, or `[profile]` in a recipe)",
        path = path.display()
    )]
    NoSteps {
        /// The file.
        path: PathBuf,
    },
}

/// A thread's number, or its name: PyTorch writes both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Thread {
    Number(i64),
    Name(String),
}

/// The fields of an event that are used.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub cat: String,
    #[serde(default)]
    pub ph: String,
    /// Microseconds.
    #[serde(default)]
    pub ts: f64,
    #[serde(default)]
    pub dur: f64,
    #[serde(default)]
    pub tid: Option<Thread>,
    #[serde(default)]
    pub args: Args,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Args {
    /// Connects a kernel with the call that started it.
    #[serde(default)]
    pub correlation: Option<u64>,
    /// Hearth's iterations.
    #[serde(default)]
    pub iteration: Option<u64>,
}

/// Calls `each` with every complete event (`"ph": "X"`), in the order of the file.
pub(super) fn events(path: &Path, mut each: impl FnMut(Event)) -> Result<(), TraceError> {
    let failed = |source: io::Error| TraceError::File { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    match file.fill_buf().map_err(failed)? {
        [0x1f, 0x8b, ..] => parse(path, MultiGzDecoder::new(file), &mut each),
        [b'P', b'K', 3 | 5, ..] => {
            file.rewind().map_err(failed)?;
            let mut archive = zip::ZipArchive::new(file).map_err(|error| failed(error.into()))?;
            let format = |what: String| TraceError::Format { path: path.to_owned(), what };
            if archive.len() != 1 {
                return Err(format(format!("a ZIP archive of {} files; one is expected", archive.len())));
            }
            let entry = archive.by_index(0).map_err(|error| failed(error.into()))?;
            parse(path, entry, &mut each)
        }
        _ => parse(path, file, &mut each),
    }
}

fn parse(path: &Path, from: impl Read, each: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, from));
    Document(each).deserialize(&mut json).map_err(|error| match error.io_error_kind() {
        Some(kind) => TraceError::File { path: path.to_owned(), source: io::Error::new(kind, error) },
        None => TraceError::Format { path: path.to_owned(), what: error.to_string() },
    })
}

/// The whole document: an object with `traceEvents`, or the list alone.
struct Document<'a>(&'a mut dyn FnMut(Event));

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with `traceEvents`, or a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element::<Event>()? {
            if event.ph == "X" {
                (self.0)(event);
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = object.next_key::<String>()? {
            if key == "traceEvents" {
                object.next_value_seed(Document(&mut *self.0))?;
                found = true;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        if found { Ok(()) } else { Err(A::Error::custom("it has no `traceEvents`")) }
    }
}
