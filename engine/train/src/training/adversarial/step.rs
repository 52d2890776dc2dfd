//! One step of two competing networks: the workflow behind [`GanTrainer`](crate::GanTrainer).

use burn::tensor::{DType, Tensor};
use hearth_engine::{BoxError, Engine, Host, HostError, HostTensor, LayerStatistics, LayerValues, State, Workflow};
use hearth_nn::layers::take_single_value_norm;
use hearth_nn::losses::LossError;
use hearth_nn::networks::Network;

use crate::batch::feed::{Feed, Placement};
use crate::batch::loader::Loader;
use crate::checkpoint::background::CheckpointWriter;
use crate::checkpoint::gan_files;
use crate::evaluation::evaluators::Evaluators;
use crate::ranks::check_norms;
use crate::training::adversarial::latents::Latents;
use crate::training::adversarial::loss::{AdversarialLoss, Judge, judgements};
use crate::training::adversarial::losses::EpochLosses;
use crate::training::adversarial::trainer::GanOptions;
use crate::training::layer_statistics;
use crate::training::learner::{Learner, check_learning_rate};
use crate::training::shared::{host_parts, workflow_parts};
use crate::training::step::of_rank;

pub(crate) struct Adversarial<G, D> {
    pub generator: Learner<G>,
    pub discriminator: Learner<D>,
    pub options: GanOptions,
    pub evaluators: Evaluators<G>,
    /// The losses `g_loss` and `d_loss`.
    pub losses: EpochLosses,
    loss: Box<dyn AdversarialLoss>,
    latents: Latents,
    feed: Feed,
    writer: CheckpointWriter,
    /// The epoch as of the last fetch.
    epoch: u64,
}

impl<G: Network, D: Network> Adversarial<G, D> {
    pub fn new(
        generator: Learner<G>,
        discriminator: Learner<D>,
        loss: Box<dyn AdversarialLoss>,
        latents: Latents,
        options: GanOptions,
        loader: Box<dyn Loader>,
    ) -> Self {
        Self {
            generator,
            discriminator,
            options,
            evaluators: Evaluators::default(),
            losses: EpochLosses::default(),
            loss,
            latents,
            feed: Feed::new(loader),
            writer: CheckpointWriter::default(),
            epoch: 0,
        }
    }

    /// Draws the latent numbers of an iteration: those of the discriminator's steps, then those of
    /// the generator's.
    fn latents(&self, state: &State, draw: u64, count: usize) -> Tensor<5> {
        let device = self.options.device.clone().inner();
        let part = (state.rank, state.world_size.max(1));
        self.latents.draw_part(state.seed, &[state.epoch, state.iteration, draw], count, part, &device)
    }

    /// Generates images, with their autodiff graph.
    fn generate(&self, latents: &Tensor<5>) -> Result<Tensor<5>, BoxError> {
        let _range = tracing::trace_span!("forward").entered();
        let network = self.generator.network()?;
        let images = network.forward(latents.clone().autodiff()).cast(DType::F32);
        take_single_value_norm().map_or(Ok(images), |norm| Err(self.feed.part("the generator", norm).into()))
    }

    /// The mean of a loss that gets the discriminator's judgement, `[1]`.
    fn judged(&self, loss: impl FnOnce(&Judge<'_>) -> Result<Tensor<1>, LossError>) -> Result<Tensor<1>, BoxError> {
        let _range = tracing::trace_span!("loss").entered();
        let network = self.discriminator.network()?;
        Ok(loss(&judgements(network)).map_err(|e| self.feed.part("the loss", e))?.mean())
    }

    /// Runs an iteration like MONAI's `GanTrainer`, in its order, and without events within it.
    fn compete(&mut self, state: &State) -> Result<(), BoxError> {
        let reals = self.feed.named("image")?;
        self.feed.insert("reals", reals.clone())?;
        let (count, reals) = (reals.dims()[0], reals.autodiff());
        self.generator.network()?.set_draw(of_rank(state), state.iteration);
        self.discriminator.network()?.set_draw(of_rank(state), state.iteration);

        let mut latents = self.latents(state, 0, count);
        // The discriminator's steps do not change the generator.
        let fakes = self.generate(&latents)?.detach();
        self.check_images(&fakes, &reals)?;
        let mut d_loss: Option<Tensor<1>> = None;
        for _ in 0..self.options.d_train_steps {
            let loss = self.judged(|judge| self.loss.discriminator(fakes.clone(), reals.clone(), judge))?;
            let gradients = self.discriminator.backward(&loss, &self.feed)?;
            let loss = loss.without_autodiff();
            d_loss = Some(match d_loss.take() {
                Some(sum) => sum + loss,
                None => loss,
            });
            self.discriminator.gather(gradients, 1, &self.feed)?;
        }

        if self.options.g_update_latents {
            latents = self.latents(state, 1, count);
        }
        let fakes = self.generate(&latents)?;
        let g_loss = self.judged(|judge| self.loss.generator(fakes.clone(), judge))?;
        let gradients = self.generator.backward(&g_loss, &self.feed)?;
        let generator = g_loss.without_autodiff();
        self.generator.gather(gradients, 1, &self.feed)?;

        self.feed.insert("fakes", fakes)?;
        self.feed.insert("latents", latents)?;
        let d_loss = d_loss.unwrap_or_else(|| generator.zeros_like());
        self.losses.note("g_loss", generator);
        self.losses.note("d_loss", d_loss);
        self.losses.settle(self.options.ranks.as_ref(), state.iteration)
    }

    /// Fails where the discriminator does not accept the images, or where the sizes of generated
    /// and real images differ.
    fn check_images(&self, fakes: &Tensor<5>, reals: &Tensor<5>) -> Result<(), BoxError> {
        let network = self.discriminator.network()?;
        for (what, images) in [("the discriminator, given a real image,", reals), ("the discriminator", fakes)] {
            network.check_input(images.dims()).map_err(|e| self.feed.part(what, e))?;
        }
        let (made, given) = (fakes.dims(), reals.dims());
        if made != given {
            let what = format!(
                "it makes images of shape {made:?} [batch, channel, x, y, z], the real ones have {given:?}: change the \
                 generator, or crop or resize the images"
            );
            return Err(self.feed.part("the generator", what).into());
        }
        Ok(())
    }

    /// The names of the tensors that handlers can read now.
    fn tensor_names(&self) -> Vec<String> {
        self.feed.tensor_names()
    }

    /// The names of the numbers that handlers can read now.
    fn outputs(&self) -> Vec<String> {
        let (losses, scales) = (self.losses.names().next().is_some(), self.generator.scaler.is_some());
        let known = [("d_loss", losses), ("d_scale", scales), ("g_loss", losses), ("loss", losses), ("scale", scales)];
        known.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
    }
}

impl<G: Network, D: Network> Host for Adversarial<G, D> {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match name {
            "g_loss" | "loss" | "d_loss" => {
                let loss = self.losses.read(if name == "loss" { "g_loss" } else { name });
                loss.unwrap_or_else(|| Err(HostError::new("there is no loss before `iteration_completed`")))
            }
            "scale" => self.generator.scale(),
            "d_scale" => self.discriminator.scale(),
            _ => Err(HostError::new(format!("no output `{name}`; there are: d_loss, d_scale, g_loss, loss, scale"))),
        }
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        if of == LayerValues::Gradients {
            return Err(HostError::new("two networks take their steps within an iteration, without an event between"));
        }
        let lost = |e| HostError::from_error(&e);
        let generator = layer_statistics::of_weights(self.generator.network().map_err(lost)?)?;
        let discriminator = layer_statistics::of_weights(self.discriminator.network().map_err(lost)?)?;
        let under = |network: &'static str| {
            move |layer: LayerStatistics| LayerStatistics { name: format!("{network}.{}", layer.name), ..layer }
        };
        let generator = generator.into_iter().map(under("generator"));
        Ok(generator.chain(discriminator.into_iter().map(under("discriminator"))).collect())
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        check_learning_rate(learning_rate)?;
        self.generator.learning_rate = learning_rate;
        self.discriminator.follow(learning_rate, self.generator.optimizer_config.lr());
        Ok(())
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.feed.read(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        if name != "image" {
            let why = "the step makes it itself; replace `image`, the real images, at iteration_started instead";
            return Err(HostError::new(format!("tensor `{name}` cannot be put while a GAN trains: {why}")));
        }
        self.feed.put(name, &tensor)
    }

    host_parts!(generator);
}

impl<G: Network, D: Network> Workflow for Adversarial<G, D> {
    fn fetch(&mut self, state: &State) -> Result<bool, BoxError> {
        self.epoch = state.epoch;
        self.losses.next_iteration();
        let spatial_dims = self.discriminator.network()?.spatial_dims();
        let GanOptions { device, image_key, .. } = &self.options;
        self.feed.fetch(&Placement { device, spatial_dims, image_key, label_key: "label" })
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        let state = engine.state();
        let Some(ranks) = self.options.ranks.clone() else { return self.compete(state) };
        let norms = ranks.norms(state.iteration);
        let competed = norms.within(|| self.compete(state));
        check_norms(&norms)?;
        competed
    }

    fn epoch_started(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        self.losses.next_epoch();
        Ok(())
    }

    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        self.losses.finish(state)?;
        self.generator.report_skipped_steps();
        self.discriminator.report_skipped_steps();
        Ok(())
    }

    workflow_parts!(gan_files);
}
