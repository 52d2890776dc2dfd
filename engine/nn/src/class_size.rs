//! Class weights by class size, for generalized Dice.

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The weight of a class of a given size (`monai.utils.Weight`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizeWeight {
    /// One over the size squared.
    #[default]
    Square,
    /// One over the size.
    Simple,
    /// Equal weights.
    Uniform,
}

impl SizeWeight {
    /// The weight of one size; infinite for an empty class, unless weights are uniform.
    pub(crate) fn of_size(self, size: f32) -> f32 {
        match self {
            SizeWeight::Uniform => 1.0,
            SizeWeight::Simple => size.recip(),
            SizeWeight::Square => (size * size).recip(),
        }
    }

    /// Weights for sizes `[rows, classes]`. An empty class gets the largest weight of the other
    /// classes in its row; 0 if all are empty.
    pub(crate) fn of(self, sizes: Tensor<2>) -> Tensor<2> {
        let weights = match self {
            SizeWeight::Uniform => return sizes.ones_like(),
            SizeWeight::Simple => sizes.recip(),
            SizeWeight::Square => (sizes.clone() * sizes).recip(),
        };
        let infinite = weights.clone().is_inf();
        let finite = weights.mask_fill(infinite.clone(), 0.0);
        let shape = finite.dims();
        let heaviest = finite.clone().max_dim(1).expand(shape);
        finite.mask_where(infinite, heaviest)
    }
}
