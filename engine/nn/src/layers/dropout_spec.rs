//! The specification of dropout.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LayerSpec;

/// A probability, or a layer as in MONAI's factory: `0.2`, `"dropout"` (its `p` is 0.5),
/// `["alphadropout", { p = 0.1 }]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a probability, or a layer as in [\"alphadropout\", { p = 0.1 }]")]
pub enum DropoutSpec {
    /// Plain dropout with this probability.
    Probability(f64),
    /// `dropout` or `alphadropout`, with `p`.
    Layer(LayerSpec),
}

impl Default for DropoutSpec {
    fn default() -> Self {
        DropoutSpec::Probability(0.0)
    }
}

impl From<f64> for DropoutSpec {
    fn from(p: f64) -> Self {
        DropoutSpec::Probability(p)
    }
}
