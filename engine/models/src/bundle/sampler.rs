//! The sampler of the zoo's latent diffusion bundles (`scripts.ldm_sampler.LDMSampler`): noise
//! passes through a diffusion model step by step, then through the decoder of an autoencoder.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use hearth_bundle::{CallValue, Component, Fault, FaultKind, Value};
use hearth_nn::diffusion::{NoiseScheduler, sample};
use hearth_nn::networks::{AutoencoderKL, DiffusionModelUNet, Network};
use hearth_registry::{Node, Registry};

use super::Told;
use super::array::Array;
use super::networks::{Networks, check, spec};
use super::nodes::{fault, table};
use hearth_recipe::{Context, Outcome};

/// The classes of the two networks of latent diffusion.
pub(crate) const NETWORKS: [&str; 2] = ["AutoencoderKL", "DiffusionModelUNet"];

/// Renames options of the two networks from MONAI Generative, and adds its implicit defaults.
pub(crate) fn older_names(component: &Component, table: &mut Node) {
    if !NETWORKS.contains(&component.name()) {
        return;
    }
    if let Some(channels) = table.remove("num_channels") {
        table.insert("channels", channels);
    }
    if component.target.starts_with("generative.") {
        for key in ["include_fc", "use_combined_linear"] {
            if table.get(key).is_none() {
                table.insert(key, Node::from(false));
            }
        }
    }
}

/// The scheduler of a component.
pub(crate) fn scheduler(component: &Component) -> Result<Box<dyn NoiseScheduler>, Fault> {
    let registry = Registry::<dyn NoiseScheduler>::new();
    let Some(entry) = registry.find(component.name()) else {
        return Err(fault(component, "is a noise scheduler that is not supported"));
    };
    registry.build(&table(component, entry.name, &[], false)?).map_err(|error| fault(component, error.to_string()))
}

/// A network of a class, by its position and name among the arguments of a call.
pub(crate) fn network<'a>(
    call: &'a CallValue,
    place: usize,
    name: &str,
    class: &str,
) -> Result<&'a Arc<Component>, Fault> {
    match call.get(place, name) {
        Some(Value::Component(component)) if component.name() == class => check(component).map(|()| component),
        Some(Value::Component(component)) => Err(fault(component, format!("is no {class}, which {} needs", call.name))),
        other => {
            let kind = other.map_or("missing".to_owned(), Value::kind);
            let what = format!("{name} of {} is {kind}; expected a {class}", call.name);
            Err(Fault::new(FaultKind::Component, what).about(other.unwrap_or(&Value::None)))
        }
    }
}

/// The checked arguments of a call of the sampler.
pub(crate) struct Sampler<'a> {
    pub noise: &'a Value,
    autoencoder: &'a Arc<Component>,
    diffusion: &'a Arc<Component>,
    scheduler: Box<dyn NoiseScheduler>,
    /// The component of the scheduler.
    pub scheduled: &'a Arc<Component>,
    trained: usize,
}

impl<'a> Sampler<'a> {
    /// Parses `LDMSampler.run` or `LDMSampler.sampling_fn`.
    ///
    /// # Errors
    /// All unsupported parts.
    pub fn new(call: &'a CallValue) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let last = if call.name.ends_with(".run") { 6 } else { 5 };
        if call.get(last, "conditioning").is_some_and(|value| !matches!(value, Value::None)) {
            let what = "conditioning: only sampling without conditions is supported";
            faults.push(Fault::new(FaultKind::Component, what));
        }
        let autoencoder = network(call, 2, "autoencoder_model", NETWORKS[0]).map_err(|fault| faults.push(fault)).ok();
        let diffusion = network(call, 3, "diffusion_model", NETWORKS[1]).map_err(|fault| faults.push(fault)).ok();
        let scheduled = match call.get(4, "scheduler") {
            Some(Value::Component(component)) => match scheduler(component) {
                Ok(made) => Some((made, component)),
                Err(fault) => {
                    faults.push(fault);
                    None
                }
            },
            _ => {
                faults.push(Fault::new(FaultKind::Component, format!("{} has no noise scheduler", call.name)));
                None
            }
        };
        let noise = call.get(1, "input_noise");
        if noise.is_none() {
            faults.push(Fault::new(FaultKind::Component, format!("{} has no input_noise", call.name)));
        }
        match (noise, autoencoder, diffusion, scheduled) {
            (Some(noise), Some(autoencoder), Some(diffusion), Some((scheduler, component))) if faults.is_empty() => {
                let trained = component.get("num_train_timesteps").and_then(Value::as_int).unwrap_or(1000);
                let trained = usize::try_from(trained).unwrap_or(1000);
                Ok(Sampler { noise, autoencoder, diffusion, scheduler, scheduled: component, trained })
            }
            _ => Err(faults),
        }
    }

    /// Checks that noise of this shape fits the diffusion model, and its images fit the decoder.
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn fits(&self, shape: &[usize]) -> Result<(), Fault> {
        let (spec, table) = spec(self.diffusion)?;
        let asked = spec.rehearsed(&hearth_data::host_device(), |network| {
            let dims = network.downcast_ref::<DiffusionModelUNet>().map_or(3, DiffusionModelUNet::spatial_dims);
            let fits = <[usize; 5]>::try_from(padded(shape)).ok().map(|shape| network.check_input(shape));
            (dims, network.channels()[1], fits)
        });
        let (dims, latent, fits) = asked.map_err(|error| fault(self.diffusion, error.in_table(&table).to_string()))?;
        if shape.len() != 2 + dims {
            let axes = if dims == 2 { "[batch, channel, x, y]" } else { "[batch, channel, x, y, z]" };
            return Err(fault(self.diffusion, format!("the noise has the shape {shape:?}; expected {axes}")));
        }
        if let Some(Err(error)) = fits {
            return Err(fault(self.diffusion, format!("the noise does not fit: {error}")));
        }
        let wanted = self.autoencoder.get("latent_channels").map_or(Some(3), Value::as_int);
        let wanted = wanted.and_then(|channels| usize::try_from(channels).ok());
        let wanted = wanted.ok_or_else(|| fault(self.autoencoder, "latent_channels is no whole number"))?;
        if latent != wanted {
            let what = format!("takes latent images of {wanted} channels, and {} makes {latent}", self.diffusion.id);
            return Err(fault(self.autoencoder, what));
        }
        Ok(())
    }

    /// Generates the images for this noise. The default number of steps is that of the training, as
    /// in MONAI.
    ///
    /// # Errors
    /// Noise of an unsupported shape, or more steps than in training.
    pub fn sample(
        &self,
        noise: &Array,
        steps: Option<usize>,
        (networks, device): (&mut Networks, &Device),
        seed: u64,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome<Array> {
        self.fits(&noise.shape)?;
        for component in [self.autoencoder, self.diffusion] {
            networks.get(component, device)?;
            networks.check_loaded(component, tell)?;
        }
        let autoencoder: &AutoencoderKL = networks.built(self.autoencoder)?;
        let diffusion: &DiffusionModelUNet = networks.built(self.diffusion)?;
        let (dims, total) = (diffusion.spatial_dims(), steps.unwrap_or(self.trained));
        let start = noise.batch(device).while_doing(|| "the noise that a sampling starts from")?;
        let failed = |error: hearth_nn::diffusion::DiffusionError| fault(self.scheduled, error.to_string());
        let mut done = 0;
        let latent = sample(&*self.scheduler, total, start, seed, &mut |x, timestep| {
            if done > 0 {
                tell(Told::Denoised { done, total, latent: &x });
            }
            done += 1;
            Ok(diffusion.predict(x, &[timestep]))
        });
        let latent: Tensor<5> = latent.map_err(failed)?;
        tell(Told::Denoised { done: total, total, latent: &latent });
        Ok(Array::of_batch(autoencoder.decode(latent), dims))
    }
}

/// The shape of a batch, with `z = 1` for four axes.
fn padded(shape: &[usize]) -> Vec<usize> {
    shape.iter().copied().chain((shape.len() == 4).then_some(1)).collect()
}
