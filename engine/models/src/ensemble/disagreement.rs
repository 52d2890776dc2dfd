//! Maps of how much the members of an ensemble differ.

use burn::tensor::Tensor;
use hearth_train::mean_ensemble;

use hearth_recipe::{Outcome, RecipeError};

/// A map of how much the members of an ensemble differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// Of the mean of their probabilities, in nats: 0 where it is certain.
    Entropy,
    /// Of their probabilities over the members, as the mean over the classes or regions.
    Variance,
}

impl Disagreement {
    /// All of them.
    pub const ALL: [Self; 2] = [Disagreement::Entropy, Disagreement::Variance];

    /// The end of its file's name.
    pub fn word(self) -> &'static str {
        match self {
            Disagreement::Entropy => "entropy",
            Disagreement::Variance => "variance",
        }
    }

    /// The largest value of one region or patch: where half of the members are certain of each.
    pub fn most(self) -> f64 {
        match self {
            Disagreement::Entropy => std::f64::consts::LN_2,
            Disagreement::Variance => 0.25,
        }
    }

    /// The map of the members' probabilities, of one channel; `exclusive` where they sum to 1.
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
