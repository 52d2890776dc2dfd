//! Ensembles: several runs with merged predictions.

mod alike;
mod by_plugin;
mod disagreement;
mod evaluation;
pub(crate) mod packed;
mod ways;

use std::cell::RefCell;

use burn::tensor::{DType, Tensor};
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::Post;

use crate::run::trained::Trained;
use alike::check_alike;
use by_plugin::ByPlugin;
pub use disagreement::Disagreement;
use hearth_recipe::recipe::Output;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::Windows;
pub use ways::Merge;

/// The options for merging runs.
#[derive(Clone, Debug, Default)]
pub struct Merging {
    /// The merging operation.
    pub how: Merge,
    /// The weights of a mean: one for each run, or for each run and channel, run by run. They need
    /// not sum to 1.
    pub weights: Option<Vec<f64>>,
    /// The requested disagreement maps.
    pub maps: Vec<Disagreement>,
}

/// The other runs, which are merged with the first one.
pub struct Ensemble {
    others: Vec<AnyNetwork>,
    merging: Merging,
    /// Names and checkpoints of all runs.
    members: Vec<String>,
    /// The hashes of the other runs' weights.
    weights: Vec<String>,
    /// The plugin that merges them; STAPLE is part of the library.
    by: Option<ByPlugin>,
}

impl Ensemble {
    /// Names and checkpoints of all runs.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The networks of the other runs.
    pub(crate) fn others(&self) -> &[AnyNetwork] {
        &self.others
    }

    /// The requested maps.
    pub fn maps(&self) -> &[Disagreement] {
        &self.merging.maps
    }

    /// The options for merging the runs.
    pub fn merging(&self) -> &Merging {
        &self.merging
    }

    /// The key of the ensemble's results, in addition to the first run's: other weights, another
    /// merging.
    pub(crate) fn key(&self) -> serde_json::Value {
        serde_json::json!({ "weights": self.weights, "merging": format!("{:?}", self.merging) })
    }

    /// Merges members that were prepared for it.
    fn one_of(&self, input: &Tensor<5>, members: Vec<Tensor<5>>) -> Outcome<Tensor<5>> {
        match &self.by {
            Some(plugin) => plugin.merge(input.clone(), members),
            None => ways::estimated(&members),
        }
    }
}

/// The output of an ensemble for an input.
pub(crate) struct Merged {
    /// Probabilities of classes or regions, numbers, or an image.
    pub likely: Tensor<5>,
    /// The requested maps, each with one channel.
    pub maps: Vec<(&'static str, Tensor<5>)>,
}

impl Trained {
    /// Merges named runs into the first one. Means and votes use the plugin `ensemble`, the first
    /// one found with this name.
    ///
    /// # Errors
    /// No runs; two runs that differ in labels, channels, the transforms of an image, inferer or
    /// post-processing; weights that do not fit; a vote or STAPLE of anything but label maps and,
    /// for a vote, maps of slides; a missing plugin, or one that rejects its options.
    pub fn merged(runs: Vec<(String, Trained)>, merging: Merging) -> Outcome<Self> {
        let mut runs = runs.into_iter();
        let (name, mut first) = runs.next().ok_or_else(|| RecipeError::new("an ensemble needs at least one run"))?;
        let (mut members, mut others) = (vec![format!("{name}: {}", first.checkpoint)], Vec::new());
        let mut hashes = Vec::new();
        for (other_name, other) in runs {
            check_alike((&name, &first), (&other_name, &other))?;
            members.push(format!("{other_name}: {}", other.checkpoint));
            hashes.push(other.weights);
            others.push(other.network);
            first.fingerprint = first.fingerprint.zip(other.fingerprint).map(|(one, other)| one.joined(&other));
        }
        let (output, of_slides) = (first.plan.recipe.output(), first.plan.recipe.learns().patches().is_some());
        if of_slides && merging.how == Merge::Staple {
            let what = "STAPLE needs all of a map at once, and maps of slides are merged patch by patch";
            return Err(RecipeError::new(format!("{what}: take a mean or a vote")));
        }
        let decides = matches!(merging.how, Merge::Vote | Merge::Staple) || !merging.maps.is_empty();
        if !output.is_map() && !of_slides && decides {
            let what = "a vote, STAPLE and maps of disagreement are of label maps; these runs predict none";
            return Err(RecipeError::new(format!("{what}: take their mean")));
        }
        if let Some(weights) = &merging.weights {
            check_weights(&merging, weights, members.len(), first.network.channels()[1])?;
        }
        let by = match merging.how {
            Merge::Staple => None,
            _ => Some(ByPlugin::load(&first.plan, &first.network, &merging, members.len())?),
        };
        first.ensemble = Some(Ensemble { others, merging, members, weights: hashes, by });
        Ok(first)
    }

    /// Runs the networks of an ensemble on an input. Each window passes through all of them before
    /// the next one is read, so only the activations of one network are in memory. A mean of logits
    /// keeps one map; other operations keep a map per network until they are merged.
    pub(crate) fn merge(&self, ensemble: &Ensemble, steps: &[Post], input: Tensor<5>) -> Outcome<Merged> {
        let at_once = ensemble.merging.how == Merge::Logits && ensemble.maps().is_empty();
        let problem: RefCell<Option<RecipeError>> = RefCell::new(None);
        let windows = Windows::new(self.plan.progress, self.inferer.passes(input.dims()));
        let forward = |x: Tensor<5>| {
            let pass = || -> Outcome<Tensor<5>> {
                let outputs = self.outputs(ensemble, &x)?;
                windows.step();
                if at_once { ensemble.one_of(&x, outputs) } else { Ok(Tensor::cat(outputs, 1)) }
            };
            pass().unwrap_or_else(|error| {
                // The closure must return a tensor; its value is ignored.
                problem.borrow_mut().get_or_insert(error);
                x
            })
        };
        let output = self.inferer.infer(input.clone(), &forward);
        if let Some(error) = problem.into_inner() {
            return Err(error);
        }
        let output = output?;
        if at_once {
            return Ok(Merged { likely: self.probabilities(steps, output)?, maps: Vec::new() });
        }
        let each = output.chunk(ensemble.members.len(), 1);
        self.merge_outputs(ensemble, steps, &input, each)
    }

    /// The output of each network for an input, in f32.
    pub(crate) fn outputs(&self, ensemble: &Ensemble, input: &Tensor<5>) -> Outcome<Vec<Tensor<5>>> {
        let networks = std::iter::once(&self.network).chain(&ensemble.others);
        let outputs = networks.map(|network| {
            network.check_input(input.dims())?;
            Ok(network.forward(input.clone()).cast(DType::F32))
        });
        outputs.collect()
    }

    /// Merges the whole outputs of the networks for an input.
    pub(crate) fn merge_outputs(
        &self,
        ensemble: &Ensemble,
        steps: &[Post],
        input: &Tensor<5>,
        each: Vec<Tensor<5>>,
    ) -> Outcome<Merged> {
        let (output, how) = (self.plan.recipe.output(), ensemble.merging.how);
        if self.plan.on_processor {
            // Next to the outputs: each prepared for the merging, and once more for the maps.
            let values: usize = each.iter().map(|logits| logits.shape().num_elements()).sum();
            let copies = 1 + usize::from(!ensemble.maps().is_empty());
            hearth_machine::check_free((copies * values * size_of::<f32>()) as u64).map_err(|what| {
                let what = format!("merging the outputs of {} networks {what}", each.len());
                RecipeError::new(format!("{what}: merge logits (--merge logits) without maps, or crop the image"))
            })?;
        }
        let mut maps = Vec::with_capacity(ensemble.maps().len());
        if !ensemble.maps().is_empty() {
            let probable = each.iter().map(|logits| self.probabilities(steps, logits.clone()));
            let probable = probable.collect::<Outcome<Vec<Tensor<5>>>>()?;
            for map in ensemble.maps() {
                maps.push((map.word(), map.of(output == Output::Labels, &probable)?));
            }
        }
        let prepared = each.into_iter().map(|logits| how.prepare(output, steps, logits));
        let merged = ensemble.one_of(input, prepared.collect::<Outcome<_>>()?)?;
        Ok(Merged { likely: how.probabilities(output, steps, self.network.channels()[1], merged)?, maps })
    }
}

fn check_weights(merging: &Merging, weights: &[f64], count: usize, channels: usize) -> Outcome {
    if !matches!(merging.how, Merge::Logits | Merge::Probabilities) {
        return Err(RecipeError::new("weights are for a mean; a vote and STAPLE take none"));
    }
    if weights.len() != count && weights.len() != count * channels {
        let given = weights.len();
        return Err(RecipeError::new(format!(
            "{given} weights for {count} runs of {channels} channels: give one for each run, or for each run and channel"
        )));
    }
    let sums = (0..weights.len() / count).map(|at| weights.iter().skip(at).step_by(weights.len() / count).sum::<f64>());
    if let Some(weight) = weights.iter().find(|weight| **weight < 0.0 && merging.how == Merge::Probabilities) {
        return Err(RecipeError::new(format!("the weight {weight} makes no probability; give weights from 0")));
    }
    if weights.iter().any(|weight| !weight.is_finite()) || sums.into_iter().any(|sum| sum == 0.0) {
        return Err(RecipeError::new(format!("weights {weights:?} must be finite, and must not sum to 0")));
    }
    Ok(())
}
