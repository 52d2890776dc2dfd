//! Synthetic crops with the shapes of a recipe's crops.

use burn::tensor::{Tensor, TensorData};
use hearth_data::affine::IDENTITY;
use hearth_data::{DrawKey, Field, Image, Item, Sample, Value, host_device};
use hearth_nn::networks::{AnyNetwork, Network};

use crate::cases::Cases;
use crate::plan::Plan;
use hearth_recipe::recipe::{Node, Output};
use hearth_recipe::{Outcome, RecipeError};

/// A synthetic crop with its label, or a volume, as the network gets it.
pub(crate) fn sample(plan: &Plan, network: &AnyNetwork, patch: [usize; 3]) -> Outcome<Sample> {
    let recipe = &plan.recipe;
    let ([taken, out], dims) = (network.channels(), network.spatial_dims());
    let image = |channels: usize, of: &dyn Fn(usize) -> f32| {
        let [x, y, z] = patch;
        let values: Vec<f32> = (0..channels * x * y * z).map(of).collect();
        let data = Tensor::from_data(TensorData::new(values, [channels, x, y, z]), &host_device());
        Image::new(data, IDENTITY).with_spatial_dims(dims)
    };
    // The values are arbitrary; in labels each class occurs.
    let noise = |at: usize| (at as f32 * 0.618_034).fract();
    let channels = if recipe.learns().generates() { recipe.image_channels() } else { taken };
    let sample = Sample::new("made up").with_image("image", image(channels, &noise));
    let count = recipe.labels.len();
    Ok(match recipe.output() {
        _ if recipe.learns().generates() => sample,
        Output::Labels => {
            let classes = out.max(count).max(2);
            sample.with_image("label", image(1, &|at| (at / 7 % classes) as f32))
        }
        Output::Regions => sample.with_image("label", image(out, &|at| f32::from(u8::from(at / 7 % 3 == 0)))),
        Output::Image => sample.with_image("label", image(out, &noise)),
        Output::Scores if recipe.learns().patches().is_some() => {
            let one = Tensor::from_data(TensorData::new(vec![1.0_f32], [1, 1, 1, 1]), &host_device());
            sample.with_image("label", Image::new(one, IDENTITY).with_spatial_dims(2))
        }
        Output::Scores => {
            let of = |item: Item, name: &String| item.with_field(name, Field::Number(1.0));
            let item = recipe.labels.iter().fold(Item::new("made up"), of);
            let names = match recipe.learns().target() {
                hearth_data::layouts::Target::Fields(names) => names,
                _ => Vec::new(),
            };
            let item = names.iter().fold(item, of);
            let item = recipe.learns().prepare(item, &recipe.labels).map_err(RecipeError::new)?;
            match item.sample().values.remove("label") {
                Some(label) => sample.with("label", label),
                None => sample.with("label", Value::Number(1.0)),
            }
        }
    })
}

/// The crops that the chain draws from the first case.
pub(crate) fn crops(plan: &Plan, cases: &Cases) -> Outcome<Vec<Sample>> {
    let Some(first) = cases.training.first() else { return Ok(Vec::new()) };
    let samples = plan.training.run_deterministic(first.sample())?;
    Ok(plan.training.run_random(samples, DrawKey::new(plan.recipe.training.seed, 0, 0))?)
}

/// The crops of a case: from the data, or synthetic ones of this size or the chain's.
///
/// # Errors
/// An unknown size, or data that cannot be used.
pub(crate) fn crops_of(
    plan: &Plan,
    network: &AnyNetwork,
    cases: Option<&Cases>,
    patch: Option<[usize; 3]>,
) -> Outcome<Vec<Sample>> {
    if let (Some(cases), None) = (cases, patch) {
        return crops(plan, cases);
    }
    let patch = patch
        .or_else(|| plan.crop(network.spatial_dims()))
        .ok_or_else(|| RecipeError::new("the chain does not say how large its crops are: give --patch, or --data"))?;
    Ok(vec![sample(plan, network, patch)?; crops_of_a_case(plan)])
}

/// An integer written in a recipe.
pub(crate) fn integer(node: &Node) -> Option<usize> {
    node.to_toml().as_integer().and_then(|n| usize::try_from(n).ok())
}

/// The number of crops that the chain makes of a case: the product of its steps' `num_samples`, and
/// of grids.
fn crops_of_a_case(plan: &Plan) -> usize {
    plan.recipe.transforms.iter().map(crops_of_step).product::<usize>().max(1)
}

/// The number of crops that a step makes of a sample, at most: a choice of steps may be the one with
/// the most.
fn crops_of_step(step: &Node) -> usize {
    let samples = step.get("num_samples").and_then(integer).unwrap_or(1);
    let is_grid = step.text("name").is_some_and(|name| name.starts_with("GridSplit"));
    let grid = step.get("grid").filter(|_| is_grid);
    let inner = step.get("transform").filter(|inner| inner.is_table()).map_or(1, crops_of_step);
    let counts = step.get("transforms").map_or(&[][..], Node::items).iter().map(crops_of_step);
    let several = match step.text("name") {
        Some("OneOf") => counts.max().unwrap_or(1),
        _ => counts.product(),
    };
    samples * grid.map_or(1, |grid| grid.items().iter().filter_map(integer).product()) * inner * several
}

/// Crops each image of a sample to its first voxels along each axis.
pub(crate) fn narrowed(sample: &Sample, to: [usize; 3]) -> Outcome<Sample> {
    let mut small = sample.clone();
    let keys: Vec<String> = small.values.keys().cloned().collect();
    for key in keys {
        let Ok(shape) = small.shape(&key) else { continue };
        if (0..3).all(|axis| shape[axis] >= to[axis]) {
            small.crop(&key, [0; 3], to)?;
        }
    }
    Ok(small)
}
