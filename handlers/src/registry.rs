//! Built-in handlers by name, as recipes carry them: [`build`].

use std::path::Path;

use hearth_engine::Handler;
use serde::de::{DeserializeOwned, Deserializer};

use crate::*;

/// Why a handler could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No built-in handler has this name.
    #[error(
        "there is no built-in handler `{name}`{}; the built-in ones are {}",
        suggestion.map(|s| format!(", did you mean `{s}`?")).unwrap_or_default(),
        NAMES.join(", ")
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The nearest name there is.
        suggestion: Option<&'static str>,
    },
    /// An option is unknown, missing, of another type, or its value makes no sense.
    #[error("{handler}: {message}")]
    Options {
        /// The handler's name.
        handler: String,
        /// Which option, and what is wrong.
        message: String,
    },
}

impl BuildError {
    /// An error about a handler's options.
    pub(crate) fn options(handler: &str, message: impl Into<String>) -> Self {
        Self::Options { handler: handler.to_owned(), message: message.into() }
    }
}

/// Names of the built-in handlers, as recipes write them.
pub const NAMES: &[&str] = &[
    "EarlyStop",
    "GpuMonitor",
    "LrSchedule",
    "MetricLog",
    "Progress",
    "ReduceLROnPlateau",
    "StopOnNonFinite",
    "TensorBoardImage",
    "TensorBoardStats",
    "Timing",
];

/// Builds a handler from its name and the table of its options (everything in the recipe's table but `name`).
/// Files it writes go to `run`, the folder of the run, unless their path is absolute.
///
/// ```
/// use hearth_handlers::build;
/// let options: toml::Table = toml::from_str("patience = 10")?;
/// let handler = build("EarlyStop", toml::Value::Table(options), "runs/one".as_ref())?;
/// assert_eq!(handler.name(), "early_stop");
/// let error = build("EarlyStopp", toml::Value::Table(toml::Table::new()), "".as_ref()).err().unwrap();
/// assert!(error.to_string().contains("did you mean `EarlyStop`?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// For a name that is not in [`NAMES`], and for options the handler does not have or cannot work with.
pub fn build<'de, D: Deserializer<'de>>(name: &str, options: D, run: &Path) -> Result<Box<dyn Handler>, BuildError> {
    match name {
        "EarlyStop" => Ok(Box::new(EarlyStop::new(read(name, options)?)?)),
        "GpuMonitor" => Ok(Box::new(GpuMonitor::new(read(name, options)?, run)?)),
        "LrSchedule" => Ok(Box::new(LrSchedule::new(read(name, options)?)?)),
        "MetricLog" => Ok(Box::new(MetricLog::new(read(name, options)?, run))),
        "Progress" => Ok(Box::new(Progress::new(read(name, options)?))),
        "ReduceLROnPlateau" => Ok(Box::new(ReduceLrOnPlateau::new(read(name, options)?)?)),
        "StopOnNonFinite" => Ok(Box::new(StopOnNonFinite::new(read(name, options)?)?)),
        "TensorBoardImage" => Ok(Box::new(TensorBoardImage::new(read(name, options)?, run)?)),
        "TensorBoardStats" => Ok(Box::new(TensorBoardStats::new(read(name, options)?, run))),
        "Timing" => {
            let TimingOptions {} = read(name, options)?;
            Ok(Box::new(Timing::default()))
        }
        _ => Err(BuildError::Unknown { name: name.to_owned(), suggestion: nearest(name, NAMES) }),
    }
}

fn read<'de, T: DeserializeOwned, D: Deserializer<'de>>(handler: &str, options: D) -> Result<T, BuildError> {
    T::deserialize(options).map_err(|error| BuildError::options(handler, error.to_string().trim().replace('\n', " ")))
}

/// The name that was probably meant.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let name = plain(name);
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(&name, &plain(known)), *known)).min()?;
    (near.0 <= 2 + name.len() / 5).then_some(near.1)
}
