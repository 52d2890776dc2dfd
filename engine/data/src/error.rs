//! Errors and their messages.

use std::fmt::{self, Display, Write as _};
use std::path::PathBuf;

use hearth_kernels::device_error::reason;

/// A transform could not do its work. The pipeline adds case, file, step, shape and spacing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError {
    /// What is wrong.
    pub what: String,
    /// The expected state.
    pub expected: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
    /// The value of the sample concerned.
    pub key: Option<String>,
}

impl TransformError {
    /// An error with this message.
    pub fn new(what: impl Into<String>) -> Self {
        TransformError { what: what.into(), expected: None, advice: None, key: None }
    }

    /// Where a device did not compute values that are needed: why, and what to do about it.
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

    /// Sets the value concerned, unless it is already set.
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

/// One value of a sample at the time a step failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueState {
    /// Its key.
    pub key: String,
    /// The file it came from.
    pub path: Option<PathBuf>,
    /// `[C, X, Y, Z]`, where it is an image.
    pub shape: Option<[usize; 4]>,
    /// Voxel size in mm, where it is an image.
    pub spacing: Option<[f64; 3]>,
}

/// A step of a pipeline failed: case, file, step, shape, spacing, what was expected; at most 12
/// lines.
#[derive(Clone, Debug, PartialEq)]
pub struct StepError {
    /// Name of the case.
    pub case: String,
    /// Number of the step, from 1.
    pub step: usize,
    /// Number of steps.
    pub steps: usize,
    /// The transform.
    pub transform: String,
    /// Its error.
    pub error: TransformError,
    /// The values concerned (or all images).
    pub values: Vec<ValueState>,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StepError { case, step, steps, transform, error, .. } = self;
        write!(f, "case {case}, step {step} of {steps} ({transform}): {}", error.what)?;
        let about = |v: &&ValueState| error.key.as_ref().is_none_or(|k| *k == v.key);
        for value in self.values.iter().filter(about).take(3) {
            let mut line = format!("\n  {}:", value.key);
            if let Some(path) = &value.path {
                let _ = write!(line, " file {}", path.display());
            }
            if let Some([c, x, y, z]) = value.shape {
                let _ = write!(line, ", shape {x} x {y} x {z}, {c} channel{}", if c == 1 { "" } else { "s" });
            }
            if let Some([a, b, c]) = value.spacing {
                let _ = write!(line, ", spacing {a:.4} x {b:.4} x {c:.4} mm");
            }
            f.write_str(&line)?;
        }
        if let Some(expected) = &error.expected {
            write!(f, "\n  expected: {expected}")?;
        }
        if let Some(advice) = &error.advice {
            write!(f, "\n  {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StepError {}

/// A case could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A step of the pipeline failed.
    #[error(transparent)]
    Step(#[from] Box<StepError>),
    /// A file could not be read or written.
    #[error(transparent)]
    Nifti(#[from] crate::nifti::NiftiError),
    /// A whole-slide image could not be read.
    #[error(transparent)]
    Slide(#[from] hearth_slides::SlideError),
    /// A file of the data set could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `dataset.json` is invalid.
    #[error("{path}: {what}")]
    List {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Samples do not fit into one batch.
    #[error("{0}")]
    Collate(String),
    /// The cache would not fit.
    #[error("{0}")]
    Cache(String),
    /// An invalid option.
    #[error("{0}")]
    Option(String),
    /// A transform or reader panicked.
    #[error("case {case}: {what}")]
    Panic {
        /// The case.
        case: String,
        /// The panic's message.
        what: String,
    },
}
