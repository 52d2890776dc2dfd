//! A GAN as a step: the network is the generator, and the critic, which tells generated images from
//! real ones, is a further network with its own optimizer. `gan` does the same with `GanTrainer`.
//!
//! `cargo run --release -p hearth --example step_gan`

mod discs;

use discs::{Discs, Label};
use hearth::nn::networks::{DiscriminatorConfig, GeneratorConfig};
use hearth::prelude::*;

/// The mean brightness of real images, of generated ones before the training, and after it.
pub fn run() -> hearth::Result<[f64; 3]> {
    let (device, data, latents) = (device::parse("cpu")?, Discs(Label::Mask), Latents::new(&[8])?);
    let generator = GeneratorConfig::new(&[8], &[8, 4, 4], &[8, 1], &[2, 2]).init(&device, 0)?;
    let mut critic = DiscriminatorConfig::new(&[1, 16, 16], &[4, 8], &[2, 2]);
    // The loss applies the sigmoid itself.
    critic.last_act = None;
    let adam = || AdamConfig::default().lr(2e-3).betas([0.5, 0.999]);
    let brightness = |images: Tensor<5>| f64::from(images.mean().into_scalar::<f32>());
    let fresh = latents.draw(7, &[0], 64, &device);
    let before = brightness(generator.valid().forward(fresh.clone()));
    let mut trainer = SupervisedTrainer::builder(generator, BceWithLogitsLoss::default(), adam(), data)
        .max_epochs(15)
        .step_with(Learned::new("critic", critic.init(&device, 1)?, adam()), move |net, critic, batch, cx| {
            let reals = batch.image()?;
            let latents = latents.draw(cx.state.seed, &[cx.state.iteration], reals.dims()[0], &reals.device());
            let fakes = net.forward(latents)?;
            let real = critic.forward(reals)?;
            let fake = critic.forward(fakes.clone().detach())?;
            let (ones, zeros) = (real.ones_like().without_autodiff(), real.zeros_like().without_autodiff());
            let critic_loss = (cx.loss(real, ones.clone())? + cx.loss(fake, zeros)?) / 2.0;
            let judged = critic.forward(fakes)?;
            cx.note("critic_loss", &critic_loss)?;
            critic.step(critic_loss, cx)?;
            cx.loss(judged, ones)
        })
        .on(Event::EpochCompleted, |cx| {
            let (critic, generator) = (cx.state.metrics["critic_loss"], cx.host.output("mean_loss")?);
            println!("epoch {}: generator {generator:.3}, critic {critic:.3}", cx.state.epoch);
            Ok(())
        })
        .build()?;
    trainer.run()?;
    let generator = trainer.network().ok_or("the last step failed")?.valid();
    Ok([brightness(data.fresh()?.0), before, brightness(generator.forward(fresh))])
}

fn main() -> hearth::Result<()> {
    let [real, before, after] = run()?;
    println!("mean brightness: real images {real:.3}, generated ones {before:.3} before, {after:.3} after");
    Ok(())
}
