//! `[adversarial]`: how a network trains against a discriminator.

use hearth_nn::losses::{AdversarialCriterion, PatchAdversarialLoss};
use hearth_nn::optim::OptimizerConfig;
use hearth_registry::Fault;
use serde::{Deserialize, Serialize};

use super::{Output, Recipe};

/// The training of `[network]` and `[discriminator]`: the options of MONAI's `GanTrainer` if images are
/// generated, or of its `AdversarialTrainer` in other tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adversarial {
    /// The factor of the adversarial loss that is added to `[loss]`; not for generated images.
    pub weight: f64,
    /// Epochs without the discriminator at the beginning; not for generated images.
    pub warmup_epochs: u64,
    /// Whether the discriminator also sees the input image, next to the prediction or label; not
    /// for generated images.
    pub condition: bool,
    /// Steps of the discriminator for each step of the generator.
    pub d_train_steps: u64,
    /// Whether the generator's step draws new latent numbers.
    pub g_update_latents: bool,
    /// The shape of an image's latent numbers; by default that of the generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_shape: Option<Vec<usize>>,
    /// The loss of both networks.
    pub loss: PatchAdversarialLoss,
    /// The discriminator's optimizer; by default the same settings as the generator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerConfig>,
}

impl Default for Adversarial {
    fn default() -> Self {
        Self {
            weight: 1.0,
            warmup_epochs: 0,
            condition: false,
            d_train_steps: 1,
            g_update_latents: true,
            latent_shape: None,
            loss: PatchAdversarialLoss::default(),
            optimizer: None,
        }
    }
}

impl Adversarial {
    /// Checks the options that both kinds of training share.
    ///
    /// # Errors
    /// The first key that is invalid.
    pub(crate) fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        let discriminator = recipe.discriminator.as_ref().map(|network| network.node());
        let activation = discriminator.and_then(|node| node.text("last_act")).unwrap_or_default();
        if self.loss.criterion == AdversarialCriterion::Bce && activation.eq_ignore_ascii_case("sigmoid") {
            let what = "the criterion `bce` takes logits, of which it takes the sigmoid itself: set last_act = \"\"";
            return Err(Fault::at("discriminator.last_act", what));
        }
        Ok(())
    }
}

impl Recipe {
    /// Checks `[discriminator]` and `[adversarial]` of a supervised task.
    ///
    /// # Errors
    /// The first invalid key.
    pub(super) fn check_adversary(&self) -> Result<(), Fault> {
        let Some(adversarial) = &self.adversarial else { return Ok(()) };
        if self.discriminator.is_none() {
            return Err(Fault::at(
                "adversarial",
                "there is nothing to compete with: add [discriminator], or leave it out",
            ));
        }
        if self.output() == Output::Scores {
            let what = "a discriminator judges maps and images, and this task predicts numbers; leave it out";
            return Err(Fault::at("discriminator", what));
        }
        let Adversarial { weight, d_train_steps, g_update_latents, latent_shape, .. } = adversarial;
        if !(weight.is_finite() && *weight >= 0.0) {
            let what = format!("the adversarial loss has the weight {weight}; give 0 or more");
            return Err(Fault::at("adversarial.weight", what));
        }
        let default = Adversarial::default();
        let of_generation = [
            ("d_train_steps", *d_train_steps != default.d_train_steps),
            ("g_update_latents", *g_update_latents != default.g_update_latents),
            ("latent_shape", latent_shape.is_some()),
        ];
        if let Some((key, _)) = of_generation.iter().find(|(_, given)| *given) {
            let what = "only task.name = \"Generation\" has random numbers and steps of this kind; leave it out";
            return Err(Fault::at(format!("adversarial.{key}"), what));
        }
        adversarial.check(self)
    }
}
