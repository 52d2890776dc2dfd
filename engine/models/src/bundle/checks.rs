//! Checks of a run before it starts. A run and the list of a config's needs use the same checks, so
//! they reject the same configs.

use std::path::Path;

use burn::tensor::Device;
use hearth_bundle::{Component, Effect, Fault, FaultKind, Resolver, Value};

use super::evaluator::Evaluator;
use super::networks::{self, Loads};
use super::nodes::fault;
use super::sampler::scheduler;
use super::{Context, calls};

/// Whether an engine trains. A run does not support this; a recipe converted from the config does.
pub(crate) fn trains(engine: &Component) -> bool {
    engine.name().ends_with("Trainer")
}

/// The fault of an engine that trains.
pub(crate) fn training(engine: &Component) -> Fault {
    fault(engine, "trains, which is not run; `hearth bundle convert` writes a recipe that does")
}

/// All errors of an effect, including missing files.
pub(crate) fn check(effect: &Effect, context: &Context) -> Vec<Fault> {
    match effect {
        Effect::Run(engine) if trains(engine) => vec![training(engine)],
        Effect::Run(engine) => Evaluator::new(engine, context).err().unwrap_or_default(),
        Effect::Load { loader, engine } => {
            let device = device_of(engine).err();
            device.into_iter().chain(Loads::new(loader, &context.folder).err().unwrap_or_default()).collect()
        }
        Effect::Weights { network, path, .. } => {
            let missing = networks::missing(network, &context.folder, Path::new(path));
            networks::check(network).err().into_iter().chain(missing).collect()
        }
        Effect::Timesteps(component, steps) => timesteps(component, *steps).err().into_iter().collect(),
        Effect::Call(call) => calls::check(call, context),
        Effect::MakeFolder(_) | Effect::Seed(_) => Vec::new(),
        other => vec![Fault::new(FaultKind::Outside, format!("{other:?} is not run"))],
    }
}

/// The number of steps of a sampling.
///
/// # Errors
/// No steps, or more than the scheduler has.
pub(crate) fn timesteps(component: &Component, steps: i64) -> Result<usize, Fault> {
    let steps = usize::try_from(steps).ok().filter(|steps| *steps > 0);
    let steps = steps.ok_or_else(|| fault(component, "set_timesteps of no step"))?;
    scheduler(component)?.timesteps(steps).map_err(|error| fault(component, error.to_string()))?;
    Ok(steps)
}

/// The device of a config, by its item `device`; the CPU by default.
///
/// # Errors
/// An expression that fails, or a missing device.
pub(crate) fn device(resolver: &Resolver) -> Result<Device, Fault> {
    let value = match resolver.config().has("device") {
        true => resolver.get("device")?,
        false => Value::None,
    };
    named(&value).map_err(|what| {
        let file = resolver.config().file_of("device");
        Fault::at(FaultKind::Device, "device", what).in_file(file)
    })
}

/// The device of an engine, or the CPU.
///
/// # Errors
/// A missing device.
pub(crate) fn device_of(engine: &Value) -> Result<Device, Fault> {
    let engine = engine.as_component();
    let value = engine.and_then(|engine| engine.get("device")).unwrap_or(&Value::None);
    named(value).map_err(|what| match engine {
        Some(engine) => Fault { kind: FaultKind::Device, ..fault(engine, what) },
        None => Fault::new(FaultKind::Device, what),
    })
}

/// The device named by a value, or the CPU; or the reason why it cannot be used.
fn named(value: &Value) -> Result<Device, String> {
    let word = match value {
        Value::Device(name) | Value::Text(name) => &**name,
        _ => "cpu",
    };
    Ok(hearth_train::device::parse(word).map_err(|error| error.to_string())?.inner())
}
