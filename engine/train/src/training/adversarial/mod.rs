//! Adversarial training: a generator makes images from latent numbers, a discriminator tells them
//! from real ones.

pub(crate) mod builder;
pub(crate) mod latents;
pub(crate) mod loss;
pub(crate) mod step;
pub(crate) mod trainer;
