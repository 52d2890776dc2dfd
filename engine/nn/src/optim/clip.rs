//! Gradient clipping.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Gradients, OptimError};

/// The clipping of gradients before a step (`torch.nn.utils.clip_grad_norm_`, `clip_grad_value_`).
/// In a recipe: `clip = { norm = 1.0 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GradientClip {
    /// Scales all gradients down to this joint Euclidean norm if theirs is larger (Pascanu et al.,
    /// <https://arxiv.org/abs/1211.5063>).
    Norm(f64),
    /// Clamps each value to this magnitude.
    Value(f64),
}

impl GradientClip {
    /// Checks the limit.
    ///
    /// # Errors
    /// Fails for a limit that is not above 0.
    pub fn check(self) -> Result<(), OptimError> {
        let (name, size) = match self {
            GradientClip::Norm(size) => ("norm", size),
            GradientClip::Value(size) => ("value", size),
        };
        // Gradients are f32, in which smaller limits are 0.
        if size.is_finite() && size as f32 > 0.0 {
            Ok(())
        } else {
            Err(OptimError::value(name, size, "a number above 0"))
        }
    }

    /// Clips the gradients; nothing is read back from the device.
    #[must_use]
    pub fn apply(self, gradients: Gradients) -> Gradients {
        match self {
            GradientClip::Norm(size) => gradients.clip_norm(size),
            GradientClip::Value(size) => gradients.clip_value(size),
        }
    }
}
