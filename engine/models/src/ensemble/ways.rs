//! The merging operations: preparation of the networks' outputs, and the merged result.

use burn::tensor::{DType, Tensor, TensorData};
use hearth_nn::losses::one_hot;
use hearth_nn::post::AsDiscrete;
use hearth_train::{Post, staple};
use serde::{Deserialize, Serialize};

use crate::run::segment::probabilities;
use hearth_recipe::recipe::Output;
use hearth_recipe::{Outcome, RecipeError};

/// An operation that merges predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Merge {
    /// The mean of the networks' outputs, before activations.
    #[default]
    Logits,
    /// The mean of probabilities.
    Probabilities,
    /// A vote: each voxel gets the class that most networks predict, the lowest one of equal ones;
    /// a region needs more than half of the networks.
    Vote,
    /// STAPLE on the networks' decisions, for each class or region separately; the most likely
    /// class wins.
    Staple,
}

impl Merge {
    /// Prepares a network's output for merging: logits, probabilities, or decisions. For a vote on
    /// classes these are maps of classes, otherwise a channel of 0 and 1 for each.
    pub(crate) fn prepare(self, output: Output, steps: &[Post], logits: Tensor<5>) -> Outcome<Tensor<5>> {
        if self == Merge::Logits {
            return Ok(logits);
        }
        let probable = probabilities(output, steps, logits)?;
        let channels = probable.dims()[1];
        Ok(match (self, output) {
            (Merge::Logits | Merge::Probabilities, _) => probable,
            (Merge::Vote, Output::Labels) => classes(probable),
            (Merge::Staple, Output::Labels) => one_hot(classes(probable), channels),
            (Merge::Vote | Merge::Staple, _) => decided(steps, probable)?,
        })
    }

    /// Probabilities of the merged members.
    pub(crate) fn probabilities(
        self,
        output: Output,
        steps: &[Post],
        channels: usize,
        merged: Tensor<5>,
    ) -> Outcome<Tensor<5>> {
        match (self, output) {
            (Merge::Logits, _) => probabilities(output, steps, merged),
            (Merge::Vote, Output::Labels) => Ok(one_hot(merged, channels)),
            _ => Ok(merged),
        }
    }
}

/// The class of the largest channel.
fn classes(x: Tensor<5>) -> Tensor<5> {
    x.argmax(1).float().cast(DType::F32)
}

/// 1 where the chain's threshold is reached, or the threshold of patches, whose chain has none.
fn decided(steps: &[Post], probable: Tensor<5>) -> Outcome<Tensor<5>> {
    let mut discrete = steps.iter().filter_map(|step| match step {
        Post::AsDiscrete(step) => Some(step),
        _ => None,
    });
    let first = discrete.next().cloned().unwrap_or_else(|| AsDiscrete::default().threshold(0.5));
    let decided = first.apply(probable)?;
    discrete.try_fold(decided, |x, step| Ok(step.apply(x)?))
}

/// STAPLE's probability of each channel.
pub(crate) fn estimated(decided: &[Tensor<5>]) -> Outcome<Tensor<5>> {
    let first = decided.first().ok_or_else(|| RecipeError::new("an ensemble needs at least one run"))?;
    let ([batch, channels, x, y, z], device) = (first.dims(), first.device());
    let mut likely = Vec::with_capacity(channels);
    for channel in 0..channels {
        let marked = |member: &Tensor<5>| {
            let one = member.clone().narrow(1, channel, 1).try_into_vec_as::<f32>();
            let one = one.map_err(|error| RecipeError::of_device(&error))?;
            Ok(one.into_iter().map(|value| value > 0.5).collect())
        };
        let raters = decided.iter().map(marked).collect::<Outcome<Vec<Vec<bool>>>>()?;
        let raters: Vec<&[bool]> = raters.iter().map(Vec::as_slice).collect();
        let found = staple(&raters).map_err(RecipeError::from_error)?;
        let values: Vec<f32> = found.probability.into_iter().map(|value| value as f32).collect();
        likely.push(Tensor::<5>::from_data(TensorData::new(values, [batch, 1, x, y, z]), &device));
    }
    Ok(Tensor::cat(likely, 1))
}
