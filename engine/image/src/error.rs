//! [`TransformError`]: why an operation on an image failed.

use std::fmt::{self, Display};

use hearth_kernels::device_error::reason;
use hearth_kernels::label::LabelError;

/// The error of a transform. The pipeline adds case, file, step, shape and spacing.
///
/// ```
/// use hearth_image::TransformError;
/// let error = TransformError::new("the image has 2 channels").expected("1").advice("choose one first");
/// assert_eq!(error.to_string(), "the image has 2 channels; expected 1; choose one first");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError {
    /// The problem.
    pub what: String,
    /// The expected state.
    pub expected: Option<String>,
    /// The advice to the user.
    pub advice: Option<String>,
    /// The key of the sample's value concerned.
    pub key: Option<String>,
}

impl TransformError {
    /// Creates an error with this message.
    pub fn new(what: impl Into<String>) -> Self {
        TransformError { what: what.into(), expected: None, advice: None, key: None }
    }

    /// Creates the error for values that a device did not compute, with the reason and advice.
    pub fn of_device(error: &impl Display) -> Self {
        Self::new(format!("the device did not compute the values: {}", reason(error)))
    }

    /// Sets what was expected.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Sets the advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the key concerned, unless it is already set.
    pub fn at(mut self, key: &str) -> Self {
        self.key.get_or_insert_with(|| key.to_owned());
        self
    }
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TransformError {}

impl From<LabelError> for TransformError {
    fn from(error: LabelError) -> Self {
        let advice = match error {
            LabelError::Connectivity { .. } => Some("omit `connectivity` for all neighbours"),
            _ => None,
        };
        TransformError { advice: advice.map(str::to_owned), ..TransformError::new(error.to_string()) }
    }
}
