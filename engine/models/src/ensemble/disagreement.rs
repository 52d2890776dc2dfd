//! Maps of the disagreement between the members of an ensemble.

use burn::tensor::Tensor;
use hearth_train::mean_ensemble;

use hearth_recipe::{Outcome, RecipeError};

/// A kind of disagreement map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The entropy of the members' mean probabilities, in nats: 0 for a certain prediction.
    Entropy,
    /// The variance of the probabilities over the members, averaged over the classes or regions.
    Variance,
}

impl Disagreement {
    /// All kinds.
    pub const ALL: [Self; 2] = [Disagreement::Entropy, Disagreement::Variance];

    /// The ending of its file name.
    pub fn word(self) -> &'static str {
        match self {
            Disagreement::Entropy => "entropy",
            Disagreement::Variance => "variance",
        }
    }

    /// The largest value for one region or patch: half of the members are certain of each side.
    pub fn most(self) -> f64 {
        match self {
            Disagreement::Entropy => std::f64::consts::LN_2,
            Disagreement::Variance => 0.25,
        }
    }

    /// The map for the members' probabilities, with one channel; `exclusive` if they sum to 1.
    pub(crate) fn of(self, exclusive: bool, probable: &[Tensor<5>]) -> Outcome<Tensor<5>> {
        let mean = mean_ensemble(probable, None).map_err(RecipeError::from_error)?;
        // x ln x, 0 for 0.
        let part = |x: Tensor<5>| x.clone() * x.clamp_min(1e-30).log();
        Ok(match self {
            Disagreement::Entropy if exclusive => -part(mean).sum_dim(1),
            Disagreement::Entropy => -(part(mean.clone()) + part(-mean + 1.0)).mean_dim(1),
            Disagreement::Variance => {
                let squares: Vec<Tensor<5>> = probable.iter().map(|x| (x.clone() - mean.clone()).square()).collect();
                mean_ensemble(&squares, None).map_err(RecipeError::from_error)?.mean_dim(1)
            }
        })
    }
}
