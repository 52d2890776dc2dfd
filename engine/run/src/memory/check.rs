//! Checks before a case is read whether a training can fit: [`check_memory`].
//!
//! All counts are lower bounds: the certain needs of a step, without allocator overhead. A rejected
//! training cannot run, and an accepted one may still be too large;
//! [`footprint`](crate::memory::footprint) measures that.

use std::fmt;

use hearth_data::{Effect, Pipeline, all_steps};
use hearth_machine::{Allowance, readable};
use hearth_nn::cost::cost;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_registry::counted;
use hearth_train::device;

use crate::plan::Plan;
use hearth_recipe::recipe::{Node, Output};
use hearth_recipe::{At, Outcome};

/// The smallest share of the layers' results that a training step holds. Some are computed in
/// place, or again in the backward pass.
pub(crate) const HELD: f64 = 0.25;

/// The share that a step usually holds at most.
const USUALLY: f64 = 0.5;

/// The approximate length of crops for which layers are counted.
const COUNTED: usize = 32;

/// Memory that there is, and whose it is.
struct Limit {
    bytes: f64,
    whose: String,
}

impl Limit {
    fn of_host() -> Self {
        let allowance = Allowance::now();
        Self { bytes: allowance.bytes as f64, whose: format!("this process may use {allowance}") }
    }

    /// The memory of the training device, or of the host if the device does not report it.
    fn of_device(plan: &Plan) -> Self {
        match device::memory(&plan.device).filter(|_| !plan.on_processor) {
            Some(memory) => {
                let whose = format!("the device has {}", readable(memory.total));
                Self { bytes: memory.total as f64, whose }
            }
            None => Self::of_host(),
        }
    }

    /// Rejects a need above the limit.
    fn holds(&self, plan: &Plan, key: &str, bytes: f64, what: impl fmt::Display) -> Outcome {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (takes, whose) = (readable(bytes as u64), &self.whose);
        let message = format!("{what}: {takes} at least, but {whose}; lower `{key}`");
        Err(plan.document.error_at(key, message))
    }
}

/// Fails if a step, or the windows of a validation, cannot fit. Otherwise returns the approximate
/// bytes of host memory of a step, 0 if a GPU trains.
///
/// # Errors
/// A need above the limit, with both figures and the key to change.
pub(crate) fn check_memory(plan: &Plan, network: &AnyNetwork) -> Outcome<u64> {
    check_steps(plan, &plan.training)?;
    check_steps(plan, &plan.validation)?;
    check_windows(plan, network)?;
    check_batch(plan, network)
}

/// Fails if the windows of the recipe's inferer cannot fit.
///
/// # Errors
/// A need above the limit, with both figures and the key to change.
pub fn check_windows(plan: &Plan, network: &AnyNetwork) -> Outcome {
    let Some((key, size)) = plan.recipe.inferer.shared().window() else { return Ok(()) };
    let voxels = voxels(&size, network.spatial_dims());
    let bytes = 4.0 * voxels * channels(plan, network);
    Limit::of_device(plan).holds(plan, &format!("inferer.{key}"), bytes, "a window with its prediction")
}

/// Checks the images that the steps of the chain make.
fn check_steps(plan: &Plan, chain: &Pipeline) -> Outcome {
    let (limit, dims) = (Limit::of_host(), plan.recipe.network.node().get("spatial_dims").and_then(whole));
    for (step, effect) in chain.steps().iter().map(|step| (step, step.effect())) {
        let Effect::Sizes { key, size } = effect else { continue };
        let bytes = 4.0 * voxels(&size, dims.unwrap_or(3.0) as usize) * plan.recipe.image_channels() as f64;
        let place = plan.place_of(step.name()).map_or_else(|| "transforms".to_owned(), |at| format!("transforms.{at}"));
        limit.holds(plan, &format!("{place}.{key}"), bytes, format_args!("the images that {} makes", step.name()))?;
    }
    Ok(())
}

/// Checks the crops of a batch, and the network's results for them.
fn check_batch(plan: &Plan, network: &AnyNetwork) -> Outcome<u64> {
    let Some(crop) = plan.crop(network.spatial_dims()) else { return Ok(0) };
    let size = crop.map(|length| length as i64);
    let voxels = voxels(&size, 3);
    let (of_case, cases) = (crops_of_a_case(plan), plan.recipe.training.batch_size as f64);
    let input = 4.0 * voxels * plan.recipe.image_channels() as f64;
    // Reports the size of a crop if a single crop is too large, then the number of crops per case,
    // then the batch size.
    let refuse = |limit: &Limit, each: f64, and: &str| -> Outcome {
        let [x, y, z] = crop;
        let of = |count: f64| format!("{} of {x} x {y} x {z}{and}", counted(count as usize, "crop"));
        limit.holds(plan, &plan.key_of_crop(), each, of(1.0))?;
        limit.holds(plan, &key_of_count(plan), each * of_case, of(of_case))?;
        limit.holds(plan, "training.batch_size", each * of_case * cases, of(of_case * cases))
    };
    refuse(&Limit::of_host(), input, "")?;
    if plan.recipe.learns().generates() {
        return Ok(0);
    }
    let device = Limit::of_device(plan);
    refuse(&device, 4.0 * voxels * channels(plan, network), " with predictions")?;
    let Some(bytes) = layers(network, crop) else { return Ok(0) };
    refuse(&device, HELD * bytes, " with what the network's layers make of them")?;
    Ok(if plan.on_processor { (USUALLY * bytes * of_case * cases) as u64 } else { 0 })
}

/// The bytes of the results of all layers for a crop, extrapolated from a smaller one; `None` if
/// the network does not accept a smaller one.
pub(crate) fn layers(network: &AnyNetwork, crop: [usize; 3]) -> Option<f64> {
    let [channels, _] = network.channels();
    let fits = |length: usize| {
        let small = crop.map(|axis| axis.min(length));
        network.check_input([1, channels, small[0], small[1], small[2]]).is_ok().then_some(small)
    };
    let small = [COUNTED, 2 * COUNTED, 3 * COUNTED].into_iter().find_map(fits)?;
    let counted = cost(network, [1, channels, small[0], small[1], small[2]], 1).ok()?;
    let share = crop.iter().zip(small).map(|(whole, part)| *whole as f64 / part as f64).product::<f64>();
    Some(counted.total.activation_bytes() as f64 * share)
}

/// The number of values per voxel of the image and its prediction.
fn channels(plan: &Plan, network: &AnyNetwork) -> f64 {
    let [input, output] = network.channels();
    let is_map = plan.recipe.output() != Output::Scores && !plan.recipe.learns().generates();
    input as f64 + if is_map { output as f64 } else { 0.0 }
}

/// The number of voxels of a size; axes with the length of the image count as 1.
fn voxels(size: &[i64], dims: usize) -> f64 {
    let axis = |axis: usize| if size.len() == 1 { size.first() } else { size.get(axis) };
    (0..dims).filter_map(axis).map(|length| (*length).max(1) as f64).product()
}

/// A number written in a recipe.
fn whole(node: &Node) -> Option<f64> {
    node.to_toml().as_integer().filter(|number| *number > 0).map(|number| number as f64)
}

/// How many crops the chain draws of a case at least.
pub(crate) fn crops_of_a_case(plan: &Plan) -> f64 {
    plan.recipe.transforms.iter().map(crops_of_step).product()
}

/// How many crops a step makes of a sample at least: a choice of steps may leave out the one with the
/// most.
fn crops_of_step(step: &Node) -> f64 {
    let own = step.get("num_samples").and_then(whole).unwrap_or(1.0);
    let inner = step.get("transform").filter(|inner| inner.is_table()).map_or(1.0, crops_of_step);
    let counts = step.get("transforms").map_or(&[][..], Node::items).iter().map(crops_of_step);
    let several = match step.text("name") {
        Some("RandomOrder") => counts.product(),
        Some("OneOf") => counts.reduce(f64::min).unwrap_or(1.0),
        _ => 1.0,
    };
    own * inner * several
}

/// The key with the largest number of crops.
fn key_of_count(plan: &Plan) -> String {
    let counts = all_steps(&plan.recipe.transforms).into_iter();
    let counts = counts.filter_map(|(at, step)| Some((at, whole(step.get("num_samples")?)?)));
    match counts.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((at, _)) => format!("transforms.{at}.num_samples"),
        None => "training.batch_size".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::Document;

    #[test]
    fn crops_within_a_choice_count_as_often_as_it_applies_them_at_least() {
        let crops = |name: &str| {
            let steps =
                "[{ name = 'A', num_samples = 4 }, { name = 'Range', transform = { name = 'B', num_samples = 3 } }]";
            let document = Document::parse("recipe", format!("name = '{name}'\ntransforms = {steps}")).expect("sound");
            crops_of_step(document.root())
        };
        assert_eq!([crops("OneOf"), crops("RandomOrder"), crops("SomeOf")], [3.0, 12.0, 1.0]);
    }
}
