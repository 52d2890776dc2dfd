//! A GAN: a generator makes slices from random numbers, and a discriminator distinguishes them from
//! real ones.
//!
//! `cargo run --release -p hearth --example gan`

use hearth::nn::losses::{AdversarialCriterion, PatchAdversarialLoss};
use hearth::nn::networks::{DiscriminatorConfig, GeneratorConfig};
use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let items = DecathlonDataset::open("Task09_Spleen")?.training;
    let keys = "image";
    let scale = ScaleIntensityRange::new(keys, -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true);
    let crop = RandSpatialCrop::new(keys, [16, 16, 1]).random_size(false);
    let steps = Pipeline::new((LoadImage::new(keys), EnsureChannelFirst::new(keys), scale, crop))?;
    let loader = DataLoader::new(items.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;

    let device = device::parse("cpu")?;
    let generator = GeneratorConfig::new(&[8], &[8, 4, 4], &[8, 1], &[2, 2]).init(&device, 0)?;
    let mut discriminator = DiscriminatorConfig::new(&[1, 16, 16], &[4, 8], &[2, 2]);
    // The loss applies the sigmoid itself.
    discriminator.last_act = None;
    let loss = PatchAdversarialLoss::default().criterion(AdversarialCriterion::Bce);
    let optimizer = OptimizerConfig::adam().with("lr", 2e-3)?;
    let mut trainer = GanTrainer::builder(generator, discriminator.init(&device, 1)?, loss, optimizer, loader)
        .latent_shape(&[8])
        .max_epochs(3)
        .handler(Checkpoints::new(CheckpointsOptions::default().dir("gan")))
        .build()?;
    trainer.engine_mut().on(Event::EpochCompleted, |cx| {
        let (g, d) = (cx.state.metrics["g_loss"], cx.state.metrics["d_loss"]);
        println!("epoch {}: generator {g:.4}, discriminator {d:.4}", cx.state.epoch);
        Ok(())
    })?;
    trainer.run()?;

    let latents = Latents::new(&[8])?.draw(0, &[0], 1, &device);
    let made = trainer.generator().ok_or("the last step failed")?.valid().forward(latents);
    println!("a slice of {:?}", made.dims());
    Ok(())
}
