//! [`RecipeError`]: a failure of work that a recipe asks for, and its causes.

use std::error::Error;

use std::fmt::{self, Display};

use hearth_kernels::device_error::reason;
use hearth_registry::{Document, Fault};

use crate::text;

/// A failure of work that a recipe asks for: a sentence, and its cause.
///
/// Errors of other crates convert into it with `?`; [`Context::while_doing`] adds the operation
/// that failed.
#[derive(Debug)]
pub struct RecipeError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The result type of this crate.
pub type Outcome<T = ()> = Result<T, RecipeError>;

impl RecipeError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Creates an error from any other error.
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self { message: error.to_string(), source: chain(&error) }
    }

    /// Creates an error for a device that failed to compute, with the reason and advice.
    pub fn of_device(error: &impl Display) -> Self {
        Self::new(format!("the device did not compute the result: {}", reason(error)))
    }

    /// Prepends the operation that failed.
    pub fn context(self, doing: impl Into<String>) -> Self {
        Self { message: doing.into(), source: Some(Box::new(self)) }
    }

    /// The whole chain in one line, without causes that are already quoted.
    pub fn line(&self) -> String {
        let mut parts = vec![self.message.clone()];
        let mut cause = self.source();
        while let Some(error) = cause {
            parts.push(error.to_string());
            cause = error.source();
        }
        text::chain(&parts)
    }
}

/// Copies the causes of an error, because the error itself may not live long enough.
fn chain(error: &(dyn Error + 'static)) -> Option<Box<dyn Error + Send + Sync>> {
    let cause = error.source()?;
    Some(Box::new(RecipeError { message: cause.to_string(), source: chain(cause) }))
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for RecipeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

/// Implements conversions with `?`.
macro_rules! convert {
    ($($error:ty),* $(,)?) => { $(
        impl From<$error> for RecipeError {
            fn from(error: $error) -> Self {
                Self::from_error(error)
            }
        }
    )* };
}

convert! {
    hearth_bundle::Fault,
    hearth_data::dicom::DicomError,
    Fault,
    glob::GlobError,
    glob::PatternError,
    std::io::Error,
    serde_json::Error,
    toml::de::Error,
    hearth_data::DataError,
    hearth_data::slides::SlideError,
    hearth_data::slides::PyramidError,
    Box<hearth_data::StepError>,
    hearth_data::TransformError,
    hearth_engine::HostError,
    hearth_engine::RegisterError,
    hearth_engine::RunError,
    hearth_data::NiftiError,
    hearth_data::ReadError,
    hearth_data::writers::WriteError,
    hearth_nn::ConfigError,
    hearth_nn::inferers::InferError,
    hearth_nn::networks::ShapeError,
    hearth_nn::post::PostError,
    hearth_nn::pytorch::PytorchError,
    hearth_nn::weights::WeightsError,
    hearth_nnunet::NnunetError,
    hearth_package::PackageError,
    hearth_plugin_host::PluginError,
    hearth_train::RunFolderError,
    hearth_train::LockError,
    hearth_train::PrecisionError,
    hearth_train::TrainerError,
    hearth_train::EvaluatorError,
    hearth_train::checkpoint::CheckpointError,
}

/// Creates errors about a key of a recipe.
pub trait At {
    /// An error about the value at a dotted path, with its position.
    fn error_at(&self, path: &str, message: impl Into<String>) -> RecipeError;
}

impl At for Document {
    fn error_at(&self, path: &str, message: impl Into<String>) -> RecipeError {
        self.fault(path, message).into()
    }
}

/// Adds the operation that failed to an error.
pub trait Context<T> {
    /// Adds context: `read_nifti(&path).while_doing(|| format!("case {case}"))?`.
    ///
    /// # Errors
    /// The same error with the context in front.
    fn while_doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T, E: Into<RecipeError>> Context<T> for Result<T, E> {
    fn while_doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|error| error.into().context(doing()))
    }
}
