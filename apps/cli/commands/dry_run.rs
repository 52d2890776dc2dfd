//! `--dry-run`: prints what the command would do, without doing it.

use std::path::{Path, PathBuf};

use burn::module::Module;
use hearth_data::Pipeline;
use hearth_nn::layers::has_batch_norm;
use hearth_plugin_host::{Found, Origin, is_allowed, shown_path};
use hearth_train::device;

use crate::error::Outcome;
use crate::out;
use crate::run::plugins::{self, Attached, Listed};
use crate::run::warn_of_recipe;
use crate::run::{Cases, Plan, Start, check_batches, check_caches, check_training, handlers, read_some, usable};
use crate::terminal::{bold, bytes, dim, thousands};

/// Prints the cases, the cache, the network, the device, the plugins and the pipelines; with
/// `defaults` the resolved recipe first.
///
/// # Errors
/// Every error with which the training would end before its first step: a recipe that cannot run,
/// or a data set that cannot be used, as far as a sample of its cases shows.
pub fn dry_run(plan: &Plan, data: &Path, given: &[PathBuf], defaults: bool) -> Outcome {
    let network = plan.starting_network(Start::Init)?;
    check_training(plan, &network)?;
    warn_of_recipe(plan);
    let discriminator = plan.discriminator(&network)?;
    let plugins = plugins::find(plan, given, &[])?;
    handlers::check(plan, &allowed(plan, &plugins)?)?;

    if defaults {
        out!("{}", plan.recipe.to_toml()?.trim_end());
        out!("{}", dim("# end of recipe"));
        out!("");
    }
    let generates = plan.recipe.learns().generates();
    let cases = if generates { Cases::open(data, &plan.recipe)? } else { usable(plan, data)? };
    let mut count = cases.training.len();
    if let Some(sampler) = &plan.recipe.data.sampler {
        let made = sampler.sampler(&cases.training, 1, plan.recipe.training.seed);
        count = made.map_err(|fault| plan.document.located("data.sampler", fault))?.len();
    }
    check_batches(plan, count, has_batch_norm(&network))?;
    out!("{}     {}: {}", bold("data"), cases.name, cases.counts());
    if let Some(note) = &cases.note {
        out!("  {note}");
    }
    check_caches(plan, &cases)?;
    read_some(plan, &cases)?;
    let predicted = cases.predicted_bytes(plan)?;
    let cache = &plan.recipe.data.cache;
    let place = match (cache.dir(), cache.on_device()) {
        _ if predicted == 0 => "nothing is kept".to_owned(),
        (Some(dir), _) => format!("at most {} in {}", bytes(predicted), dir.display()),
        (None, true) => format!("about {} on the device", bytes(predicted)),
        (None, false) => format!("about {} in memory", bytes(predicted)),
    };
    out!("{}    {place}", bold("cache"));
    let parameters = thousands(network.num_params() as u64);
    out!("{}  {parameters} parameters, read in {}", bold("network"), plan.precision);
    if let Some(discriminator) = discriminator {
        let parameters = thousands(discriminator.num_params() as u64);
        out!("{}  {parameters} parameters; judges what the network makes", bold("discriminator"));
    }
    out!("{}   {} ({})", bold("device"), plan.recipe.training.device, device::name(&plan.device));
    out!("{}", bold("plugins"));
    for listed in &plugins {
        let identity = listed.found.identity().map_err(|error| listed.error(plan, error))?;
        let place = match &listed.found {
            Found::BuiltIn(_) => "built in".to_owned(),
            Found::File { path, .. } if may_be_loaded(&listed.found) => shown_path(path),
            Found::File { path, .. } => format!(
                "would load {}, if it is allowed (--allow-plugin); its options and events are not checked",
                shown_path(path)
            ),
        };
        out!("  {} {}  {place}", identity.name, identity.version);
    }
    chain("training", &plan.training);
    if let Some(batch) = &plan.batch {
        chain("on batches", batch);
    }
    chain("validation", &plan.validation);
    if !defaults {
        out!("{}", dim("--defaults also shows the recipe with all defaults"));
    }
    Ok(())
}

/// Loads the plugins that the user has named, installed or allowed, whose options and events can then be
/// checked. A library that only the recipe names stays closed.
fn allowed(plan: &Plan, plugins: &[Listed]) -> Outcome<Vec<Attached>> {
    Ok(plugins
        .iter()
        .filter(|listed| may_be_loaded(&listed.found))
        .map(|listed| listed.load(plan))
        .collect::<Result<_, _>>()?)
}

/// Whether a plugin may be loaded without a question.
fn may_be_loaded(found: &Found) -> bool {
    match found {
        Found::File { path, origin: Origin::Recipe } => {
            found.identity().is_ok_and(|identity| is_allowed(path, &identity))
        }
        Found::File { .. } | Found::BuiltIn(_) => true,
    }
}

/// The number of voxels along each axis, as text.
pub fn sizes_text(shape: [usize; 3]) -> String {
    shape.map(|n| n.to_string()).join(" x ")
}

fn chain(name: &str, pipeline: &Pipeline) {
    out!("{}", bold(&format!("{name} pipeline")));
    for (index, step) in pipeline.steps().iter().enumerate() {
        if index == pipeline.split() {
            out!("{}", dim("  -- cached up to here; the rest is drawn again each epoch --"));
        }
        let described = step.describe();
        let parameters: Vec<String> = described
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        out!("  {:2}  {}  {}", index + 1, step.name(), dim(&parameters.join(" ")));
    }
    if pipeline.split() == pipeline.len() {
        out!("{}", dim("  -- all of it is cached --"));
    }
}
