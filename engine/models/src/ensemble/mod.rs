//! Several runs as one: their predictions merged.

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

/// How runs are merged.
#[derive(Clone, Debug, Default)]
pub struct Merging {
    /// Which operation.
    pub how: Merge,
    /// For a mean: one for each run, or for each run and channel, run by run. They need not sum to
    /// 1.
    pub weights: Option<Vec<f64>>,
    /// Maps of how much they differ.
    pub maps: Vec<Disagreement>,
}

/// The runs beside the first one, and how they are merged with it.
pub struct Ensemble {
    others: Vec<AnyNetwork>,
    merging: Merging,
    /// Names and checkpoints of all runs.
    members: Vec<String>,
    /// The hashes of the other runs' weights.
    weights: Vec<String>,
    /// What merges them; STAPLE is the library's own.
    by: Option<ByPlugin>,
}

impl Ensemble {
    /// Names and checkpoints of all runs.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The maps that were asked for.
    pub fn maps(&self) -> &[Disagreement] {
        &self.merging.maps
    }

    /// How the runs are merged.
    pub fn merging(&self) -> &Merging {
        &self.merging
    }

    /// What its results depend on beside the first run: other weights, another way.
    pub(crate) fn key(&self) -> serde_json::Value {
        serde_json::json!({ "weights": self.weights, "merging": format!("{:?}", self.merging) })
    }

    /// What is merged of members that were prepared for it.
    fn one_of(&self, input: &Tensor<5>, members: Vec<Tensor<5>>) -> Outcome<Tensor<5>> {
        match &self.by {
            Some(plugin) => plugin.merge(input.clone(), members),
            None => ways::estimated(&members),
        }
    }
}

/// What an ensemble says of an input.
pub(crate) struct Merged {
    /// Probabilities of classes or regions, numbers, or an image.
    pub likely: Tensor<5>,
    /// The maps that were asked for, of one channel.
    pub maps: Vec<(&'static str, Tensor<5>)>,
}

impl Trained {
    /// Merges runs, each with its name, into the first one. A mean and a vote are the plugin
    /// `ensemble`'s, the first of that name that is found.
    ///
    /// # Errors
    /// Where there is none; where two of them differ in labels, channels, the transforms of an
    /// image, inferer or post-processing; where the weights do not fit; for a vote or STAPLE of
    /// anything but label maps and, for a vote, maps of slides; where the plugin is not found or
    /// refuses its options.
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

    /// What the networks of an ensemble say of an input. Each window goes through all of them
    /// before the next one is read, so there are the activations of one network at a time. A mean
    /// of logits keeps one map; all else keeps a map of each network until they are merged.
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

    /// What each network returns for an input, in f32.
    pub(crate) fn outputs(&self, ensemble: &Ensemble, input: &Tensor<5>) -> Outcome<Vec<Tensor<5>>> {
        let networks = std::iter::once(&self.network).chain(&ensemble.others);
        let outputs = networks.map(|network| {
            network.check_input(input.dims())?;
            Ok(network.forward(input.clone()).cast(DType::F32))
        });
        outputs.collect()
    }

    /// What the networks say of an input, from their whole outputs.
    pub(crate) fn merge_outputs(
        &self,
        ensemble: &Ensemble,
        steps: &[Post],
        input: &Tensor<5>,
        each: Vec<Tensor<5>>,
    ) -> Outcome<Merged> {
        let (output, how) = (self.plan.recipe.output(), ensemble.merging.how);
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
    if weights.iter().any(|weight| !weight.is_finite()) || sums.into_iter().any(|sum| sum == 0.0) {
        return Err(RecipeError::new(format!("weights {weights:?} must be finite, and must not sum to 0")));
    }
    Ok(())
}
