//! Adversarial training: the trainer of a recipe whose task is `Generation`, and the discriminator
//! of a supervised recipe.

use std::path::Path;

use burn::module::Module;
use hearth_data::DataLoader;
use hearth_nn::layers::has_batch_norm;
use hearth_nn::losses::PatchAdversarialLoss;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::{AdversaryOptions, GanOptions, GanTrainer, Latents, Ranks, Shown};

use crate::cases::Cases;
use crate::checks::check_training;
use crate::checks::rates::check_rates;
use crate::plan::Plan;
use crate::ranks;
use crate::session::{note_weights, training_loader};
use crate::start::Start;
use hearth_recipe::notice;
use hearth_recipe::recipe::{Adversarial, Node, Output};
use hearth_recipe::{At, Outcome, RecipeError};

impl Plan {
    /// The latent numbers of an image: `adversarial.latent_shape`, or the input shape of the
    /// generator.
    ///
    /// # Errors
    /// An invalid shape.
    pub fn latents(&self) -> Outcome<Latents> {
        let number = |node: &Node| node.to_toml().as_integer().and_then(|n| usize::try_from(n).ok());
        let built_for = || {
            let shape = self.recipe.network.node().get("latent_shape");
            let shape: Vec<usize> = shape.map(|shape| shape.items().iter().filter_map(number).collect())?;
            (!shape.is_empty()).then_some(shape)
        };
        let asked = self.recipe.adversarial.as_ref().and_then(|adversarial| adversarial.latent_shape.clone());
        let shape = asked.or_else(built_for).unwrap_or_else(|| vec![self.recipe.network.in_channels()]);
        Latents::new(&shape).map_err(|error| self.document.error_at("adversarial.latent_shape", error.to_string()))
    }

    /// The discriminator with its initial weights, if the recipe has one. It is checked against the
    /// network's output and the size of the recipe's crops.
    ///
    /// # Errors
    /// A discriminator that does not fit the network.
    pub fn discriminator(&self, generator: &AnyNetwork) -> Outcome<Option<AnyNetwork>> {
        let Some(config) = &self.recipe.discriminator else { return Ok(None) };
        let key_of = |node: &Node, table: &str, key: &str| match node.get(key) {
            Some(_) => format!("{table}.{key}"),
            None => table.to_owned(),
        };
        // The generator's seed would give related weights.
        let seed = self.recipe.training.seed.wrapping_add(1);
        let built = config.init(&self.device, seed);
        let discriminator =
            built.map_err(|error| self.document.located("discriminator", error.in_table(config.node())))?;
        if !self.recipe.learns().generates() {
            let [_, predicted] = generator.channels();
            let image = if self.conditions() { self.recipe.image_channels() } else { 0 };
            let (channels, taken) = (image + predicted, config.in_channels());
            if taken != channels {
                let of = if image > 0 { format!("{image} of the image and ") } else { String::new() };
                let what =
                    format!("the discriminator takes {taken} channels, but is shown {of}{predicted} of a prediction");
                return Err(self.document.error_at(&key_of(config.node(), "discriminator", "in_channels"), what));
            }
            self.check_sizes(&discriminator, channels)?;
            return self.learning(discriminator).map(Some);
        }
        let latents = self.latents()?;
        generator.check_input(latents.batch(1)).map_err(|error| {
            let given = self.recipe.adversarial.as_ref().is_some_and(|one| one.latent_shape.is_some());
            let key = if given { "adversarial.latent_shape" } else { "network" };
            self.document.error_at(key, error.to_string())
        })?;
        let made = generator.valid().forward(latents.draw(seed, &[0], 1, &self.device)).dims();
        discriminator.check_input(made).map_err(|error| {
            let key = key_of(config.node(), "discriminator", "in_shape");
            let what = format!("the generator's images have shape {made:?} [batch, channel, x, y, z]: {error}");
            self.document.error_at(&key, what)
        })?;
        self.check_sizes(&discriminator, self.recipe.image_channels())?;
        self.learning(discriminator).map(Some)
    }

    /// The discriminator in training mode, with an optimizer that changes it.
    fn learning(&self, discriminator: AnyNetwork) -> Outcome<AnyNetwork> {
        let discriminator = discriminator.train();
        match self.recipe.adversarial.as_ref().and_then(|adversarial| adversarial.optimizer.as_ref()) {
            Some(own) => check_rates(self, &discriminator, own, "adversarial.optimizer")?,
            None => check_rates(self, &discriminator, &self.recipe.optimizer, "optimizer")?,
        }
        Ok(discriminator)
    }
}

impl Plan {
    fn conditions(&self) -> bool {
        self.recipe.adversarial.as_ref().is_some_and(|adversarial| adversarial.condition)
    }

    /// The loss and options of the discriminator of a supervised recipe.
    pub(crate) fn adversary(&self) -> (PatchAdversarialLoss, AdversaryOptions) {
        let Adversarial { weight, warmup_epochs, condition, loss, optimizer, .. } =
            self.recipe.adversarial.clone().unwrap_or_default();
        let shown = match self.recipe.output() {
            Output::Labels => Shown::Softmax,
            Output::Regions => Shown::Sigmoid,
            Output::Image | Output::Scores => Shown::Raw,
        };
        let options = AdversaryOptions::default().weight(weight).warmup_epochs(warmup_epochs);
        let options = options.condition(condition).shown(shown);
        (loss, optimizer.into_iter().fold(options, AdversaryOptions::optimizer))
    }
}

/// The trainer of a recipe that generates images, with filled caches and without handlers.
pub fn gan_trainer(
    plan: &Plan,
    data: &Path,
    from: Start,
    ranks: Option<&Ranks>,
) -> Outcome<GanTrainer<AnyNetwork, AnyNetwork>> {
    let cases = Cases::open(data, &plan.recipe)?;
    let generator = plan.starting_network(from)?;
    let beside = check_training(plan, &generator)?;
    // Checked before the work begins.
    let discriminator = judge(plan, &generator)?;
    notice!("{}: {} images train, on {}", cases.name, cases.training.len(), hearth_train::device::name(&plan.device));
    let part = ranks::training(plan, cases.training, ranks)?;
    let norms = has_batch_norm(&generator) || has_batch_norm(&discriminator);
    let loader = training_loader(plan, part, beside, norms)?;
    gan_trainer_over(plan, generator, discriminator, loader, ranks)
}

/// The discriminator of a recipe that generates images.
pub(crate) fn judge(plan: &Plan, generator: &AnyNetwork) -> Outcome<AnyNetwork> {
    plan.discriminator(generator)?.ok_or_else(|| RecipeError::new("the recipe has no [discriminator]"))
}

/// The trainer of a recipe that generates images, for any batches.
pub(crate) fn gan_trainer_over(
    plan: &Plan,
    generator: AnyNetwork,
    discriminator: AnyNetwork,
    loader: DataLoader,
    ranks: Option<&Ranks>,
) -> Outcome<GanTrainer<AnyNetwork, AnyNetwork>> {
    let recipe = &plan.recipe;
    let adversarial = recipe.adversarial.clone().unwrap_or_default();
    let mut options = GanOptions::new(&plan.device);
    (options.precision, options.max_epochs) = (plan.precision, recipe.training.epochs);
    (options.d_train_steps, options.g_update_latents) = (adversarial.d_train_steps, adversarial.g_update_latents);
    options.latent_shape = plan.latents()?.batch(1)[1..].to_vec();
    (options.clip, options.seed) = (recipe.training.clip, recipe.training.seed);
    options.ranks = ranks.cloned();
    let d_optimizer = adversarial.optimizer.as_ref().unwrap_or(&recipe.optimizer);
    note_weights([&generator, &discriminator]);
    GanTrainer::builder(generator, discriminator, adversarial.loss, &recipe.optimizer, loader)
        .d_optimizer(d_optimizer)
        .options(options)
        .build()
        .map_err(|error| plan.document.error_at("adversarial", error.to_string()))
}
