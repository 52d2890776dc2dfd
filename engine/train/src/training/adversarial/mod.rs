//! Adversarial training: a discriminator distinguishes a network's outputs from real data. The
//! network generates images from latent numbers, or predicts in supervised training.

pub(crate) mod adversary;
pub(crate) mod builder;
pub(crate) mod latents;
pub(crate) mod loss;
pub(crate) mod losses;
pub(crate) mod step;
pub(crate) mod trainer;
