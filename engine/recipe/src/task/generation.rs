//! Images from random numbers.

use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Task;
use crate::recipe::{Adversarial, Output, Recipe, Tta, Validation};

/// Generates images like those of the data set from random latent numbers. `network` is the
/// generator (`Generator`), `discriminator` a network that distinguishes its images from real ones
/// (`Discriminator`, `Critic`, `PatchDiscriminator`), and `[adversarial]` has the options of their
/// training. Cases have only their images, and all of them train; there is no validation, so the
/// newest checkpoint is used. `hearth predict RUN --count N` writes images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Generation {}

impl Task for Generation {
    fn output(&self) -> Output {
        Output::Image
    }

    fn target(&self) -> Target {
        Target::Nothing
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        if recipe.discriminator.is_none() {
            return Err(Fault::at("discriminator", "a generator learns from a discriminator: add [discriminator]"));
        }
        if recipe.loss.is_some() {
            let what = "the loss of a GAN is adversarial.loss: leave [loss] out";
            return Err(Fault::at("loss", what));
        }
        let adversarial = recipe.adversarial.clone().unwrap_or_default();
        check_adversarial(&adversarial)?;
        adversarial.check(recipe)?;
        if recipe.training.accumulate > 1 {
            return Err(Fault::at("training.accumulate", "both networks take their steps with every batch; give 1"));
        }
        if recipe.tta != Tta::default() {
            return Err(Fault::at("tta", "there is no image to augment; leave [tta] out"));
        }
        let is_validation = |name: &str| name.eq_ignore_ascii_case("validation");
        let nothing = "nothing validates where images are generated; leave it out";
        if let Some(index) = recipe.plugins.iter().position(|plugin| is_validation(&plugin.name)) {
            return Err(Fault::at(format!("plugins.{index}.name"), nothing));
        }
        if let Some(index) = recipe.handlers.iter().position(|entry| entry.text("name").is_some_and(is_validation)) {
            return Err(Fault::at(format!("handlers.{index}.name"), nothing));
        }
        if recipe.data.validation != Validation::None {
            return Err(Fault::at("data.validation", "all images train where images are generated; leave it out"));
        }
        Ok(())
    }

    fn channels(&self, labels: usize) -> Option<usize> {
        (labels > 0).then_some(labels)
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        (Vec::new(), Vec::new())
    }

    fn takes(&self, _: &MetricConfig) -> Result<(), String> {
        Err("there is no label to compare generated images with; leave [metric] out".to_owned())
    }

    fn generates(&self) -> bool {
        true
    }
}

fn check_adversarial(adversarial: &Adversarial) -> Result<(), Fault> {
    let under = |key: &str, message: String| Err(Fault::at(format!("adversarial.{key}"), message));
    if adversarial.d_train_steps == 0 {
        return under("d_train_steps", "a discriminator that takes no step teaches nothing; give 1 or more".into());
    }
    let Adversarial { weight, warmup_epochs, condition, .. } = Adversarial::default();
    let of_others = [
        ("weight", adversarial.weight != weight),
        ("warmup_epochs", adversarial.warmup_epochs != warmup_epochs),
        ("condition", adversarial.condition != condition),
    ];
    match of_others.iter().find(|(_, given)| *given) {
        Some((key, _)) => under(key, "a generator has no other loss and no image besides its own; leave it out".into()),
        None => Ok(()),
    }
}

hearth_registry::entry!(dyn Task => Generation, example: "");
