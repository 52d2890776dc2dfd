//! `[adversarial]`: how a generator and a discriminator compete.

use hearth_nn::losses::PatchAdversarialLoss;
use hearth_nn::optim::OptimizerConfig;
use serde::{Deserialize, Serialize};

/// How `[network]`, the generator, and `[discriminator]` train: the options of MONAI's
/// `GanTrainer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adversarial {
    /// Steps of the discriminator for each of the generator.
    pub d_train_steps: u64,
    /// Whether the generator's step has latent numbers of its own.
    pub g_update_latents: bool,
    /// The shape of an image's latent numbers; that of the generator where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_shape: Option<Vec<usize>>,
    /// What both networks are measured by.
    pub loss: PatchAdversarialLoss,
    /// The discriminator's optimizer; one as the generator's where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerConfig>,
}

impl Default for Adversarial {
    fn default() -> Self {
        Self {
            d_train_steps: 1,
            g_update_latents: true,
            latent_shape: None,
            loss: PatchAdversarialLoss::default(),
            optimizer: None,
        }
    }
}
