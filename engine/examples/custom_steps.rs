//! A GAN with a custom training step under the engine. A generator makes slices from noise, and a
//! discriminator distinguishes them from real ones. Counters, events and handlers are those of any
//! run.
//!
//! `cargo run --release -p hearth --example custom_steps`

use burn::tensor::Distribution;
use hearth::engine::{BoxError, HostError, Level, Workflow, not_offered, trace};
use hearth::nn::losses::{AdversarialCriterion, PatchAdversarialLoss};
use hearth::nn::networks::{Classifier, DiscriminatorConfig, Generator, GeneratorConfig};
use hearth::nn::optim::{Gradients, Optimizer};
use hearth::prelude::*;
use hearth::train::BatchStream;

/// Both networks, each with its optimizer. `None` only while an optimizer owns the network.
struct Gan<G, D> {
    generator: Option<G>,
    discriminator: Option<D>,
    optimizers: [Optimizer; 2],
    loss: PatchAdversarialLoss,
    loader: DataLoader,
    batches: Option<BatchStream>,
    reals: Option<Tensor<5>>,
    device: Device,
    losses: [f64; 2],
}

impl<G: Network, D: Network> Host for Gan<G, D> {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match name {
            "g_loss" => Ok(self.losses[0]),
            "d_loss" => Ok(self.losses[1]),
            _ => Err(HostError::new("there are g_loss and d_loss")),
        }
    }

    fn log(&mut self, level: Level, message: &str) {
        trace(level, message);
    }

    not_offered! {
        requests, names, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run, tensor,
        put_tensor, combine
    }
}

/// The network after a step along the gradient of this loss, and the value of the loss.
fn step<N: Network>(net: &mut Option<N>, optimizer: &mut Optimizer, loss: Tensor<1>) -> Result<f64, BoxError> {
    let network = net.take().ok_or("the last step failed")?;
    let gradients = Gradients::of(&network, &loss);
    *net = Some(optimizer.step(network, gradients, 2e-3)?);
    Ok(f64::from(loss.into_scalar::<f32>()))
}

impl<G: Network, D: Network> Workflow for Gan<G, D> {
    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        self.batches = Some(Box::new(self.loader.epoch(state.epoch, skip)));
        Ok(Some(self.loader.len() as u64))
    }

    fn fetch(&mut self, _: &State) -> Result<bool, BoxError> {
        let Some(batch) = self.batches.as_mut().and_then(Iterator::next) else { return Ok(false) };
        self.reals = Some(batch?.to_device(&self.device).tensor("image")?.clone().autodiff());
        Ok(true)
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        let reals = self.reals.take().ok_or("there is no batch")?;
        let (generator, judge) = (self.generator.as_ref(), self.discriminator.as_ref());
        let (generator, judge) = generator.zip(judge).ok_or("the last step failed")?;
        let noise = Tensor::random([reals.dims()[0], 8, 1, 1, 1], Distribution::Normal(0.0, 1.0), &self.device);
        let fakes = generator.forward(noise.autodiff());
        let real = self.loss.forward(&[judge.forward(reals)], true, true)?;
        let fake = self.loss.forward(&[judge.forward(fakes.clone().detach())], false, true)?;
        let g_loss = self.loss.forward(&[judge.forward(fakes)], true, false)?;
        self.losses[0] = step(&mut self.generator, &mut self.optimizers[0], g_loss)?;
        self.losses[1] = step(&mut self.discriminator, &mut self.optimizers[1], (real + fake) / 2.0)?;
        engine.fire(Event::LossCompleted, self)?;
        Ok(())
    }
}

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let items = DecathlonDataset::open("Task09_Spleen")?.training;
    let keys = "image";
    let scale = ScaleIntensityRange::new(keys, -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true);
    let crop = RandSpatialCrop::new(keys, [16, 16, 1]).random_size(false);
    let steps = Pipeline::new((LoadImage::new(keys), EnsureChannelFirst::new(keys), scale, crop))?;
    let loader = DataLoader::new(items.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;
    let device = device::parse("cpu")?;
    let optimizer = || AdamConfig::default().betas([0.5, 0.999]).build();
    let mut gan = Gan::<Generator, Classifier> {
        generator: Some(GeneratorConfig::new(&[8, 1, 1], &[8, 4, 4], &[8, 1], &[2, 2]).init(&device, 0)?.train()),
        discriminator: Some(DiscriminatorConfig::new(&[1, 16, 16], &[4, 8], &[2, 2]).init(&device, 1)?.train()),
        optimizers: [optimizer()?, optimizer()?],
        loss: PatchAdversarialLoss::default().criterion(AdversarialCriterion::Bce),
        loader,
        batches: None,
        reals: None,
        device,
        losses: [0.0; 2],
    };
    let mut engine = Engine::new("gan");
    engine.on(Event::EpochCompleted, |cx| {
        let (g, d) = (cx.host.output("g_loss")?, cx.host.output("d_loss")?);
        println!("epoch {}: generator {g:.4}, discriminator {d:.4}", cx.state.epoch);
        Ok(())
    })?;
    engine.run(&mut gan, 3)?;
    Ok(())
}
