//! [`StepError`]: which step of a pipeline failed, for which case and files.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use hearth_image::TransformError;

/// One value of a sample at the time a step failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueState {
    /// Key of the value.
    pub key: String,
    /// Path of the file that it came from.
    pub path: Option<PathBuf>,
    /// Shape `[C, X, Y, Z]`, if it is an image.
    pub shape: Option<[usize; 4]>,
    /// Voxel size in mm, if it is an image.
    pub spacing: Option<[f64; 3]>,
}

/// The error of a pipeline's step: case, file, step, shape, spacing, and what was expected, in at
/// most 12 lines.
///
/// ```
/// use hearth_transforms::transforms::Orientation;
/// use hearth_transforms::{DrawKey, Pipeline, Sample};
/// let steps = Pipeline::new(Orientation::new("image", "RAS")).expect("sound options");
/// let error = steps.run(Sample::new("case_1"), DrawKey::new(0, 1, 0)).unwrap_err();
/// assert!(error.to_string().starts_with("case case_1, step 1 of 1 (Orientation): no value `image`"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StepError {
    /// Name of the case.
    pub case: String,
    /// Number of the step, from 1.
    pub step: usize,
    /// Number of steps.
    pub steps: usize,
    /// Name of the transform.
    pub transform: String,
    /// Error of the transform.
    pub error: TransformError,
    /// Values concerned (or all images).
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
