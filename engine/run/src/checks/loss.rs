//! A loss, tried on a few voxels before a training begins: [`check_loss`].

use burn::tensor::{Tensor, TensorData};
use hearth_data::host_device;
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_registry::component::is_of_a_plugin;

use crate::plan::Plan;
use hearth_recipe::recipe::Output;
use hearth_recipe::{At, Outcome, warning};

/// Voxels along each axis of the images that are tried.
const SIDE: usize = 6;

/// Images that are tried.
const IMAGES: usize = 2;

/// A loss below this is negative beyond rounding.
const NEGATIVE: f64 = -1e-3;

/// Computes the recipe's loss and its gradient for a few voxels, with the number of channels of the
/// network. Warns of a loss that falls without bound as the network's outputs grow.
///
/// # Errors
/// Options that do not fit the number of classes, and a loss whose gradient is 0 for every output,
/// which cannot learn.
pub(super) fn check_loss(plan: &Plan, network: &AnyNetwork) -> Outcome {
    let recipe = &plan.recipe;
    // Other tasks have targets of their own shapes.
    if recipe.loss.is_none()
        || recipe.learns().generates()
        || !matches!(recipe.output(), Output::Labels | Output::Regions)
    {
        return Ok(());
    }
    let loss = recipe.build_loss().map_err(|fault| plan.document.located("", fault))?;
    let [_, channels] = network.channels();
    if !loss.needs().is_empty() || channels == 0 {
        return Ok(());
    }
    let depth = if network.spatial_dims() == 3 { SIDE } else { 1 };
    let fault = |what: String| Err(plan.document.error_at("loss", what));
    let probe = match Probe::new(&*loss, channels, depth, recipe.output()) {
        Ok(probe) => probe,
        Err(error) => return fault(error.to_string()),
    };
    if probe.gradient == 0.0 {
        let name = loss.name();
        let advice = if is_of_a_plugin(name) { "change its options, or its plugin" } else { advice(channels) };
        return fault(format!(
            "the gradient of {name} with these options is 0 for every output of {channels} channels, so that nothing is \
             learned: {advice}"
        ));
    }
    // A plugin's own loss may be negative, and has no option of this name.
    if probe.confident < NEGATIVE && !is_of_a_plugin(loss.name()) {
        warning!(
            "loss: {} is negative ({:.2}) for outputs that are large, as those of a network without a final activation: set \
             {} = true in [loss], unless the network ends with an activation",
            loss.name(),
            probe.confident,
            if recipe.output() == Output::Regions || channels == 1 { "sigmoid" } else { "softmax" }
        );
    }
    Ok(())
}

/// What removes a gradient of 0.
fn advice(channels: usize) -> &'static str {
    match channels {
        1 => "a softmax over one channel is always 1; use a sigmoid in [loss] and [post], or two output channels",
        2 => {
            "a softmax over one remaining channel is always 1; set include_background = true, or use a sigmoid in place of \
             the softmax"
        }
        _ => "change the activation or the weights in [loss]",
    }
}

/// A loss for a few voxels.
struct Probe {
    /// The largest gradient for outputs between -1 and 1.
    gradient: f64,
    /// The loss for large outputs of the right classes.
    confident: f64,
}

impl Probe {
    fn new(loss: &dyn Loss, channels: usize, depth: usize, output: Output) -> Result<Self, LossError> {
        let count = IMAGES * SIDE * SIDE * depth;
        let shape = |channels: usize| [IMAGES, channels, SIDE, SIDE, depth];
        let device = host_device();
        let tensor = |values: Vec<f32>, channels: usize| {
            Tensor::<5>::from_data(TensorData::new(values, shape(channels)), &device)
        };
        let (voxels, classes) = (count / IMAGES, channels.max(2));
        let class = |image: usize, voxel: usize| (voxel / 3 + image) % classes;
        let indices = || (0..count).map(|at| class(at / voxels, at % voxels) as f32).collect();
        // A single channel is that of class 1.
        let hot = |at: usize| {
            let (image, channel) = (at / (channels * voxels), at / voxels % channels);
            class(image, at % voxels) == if channels == 1 { 1 } else { channel }
        };
        let one_hot = || (0..count * channels).map(|at| f32::from(u8::from(hot(at)))).collect::<Vec<f32>>();
        let outputs = (0..count * channels).map(|at| ((at * 7919 % 1009) as f32 / 504.5) - 1.0).collect();
        let outputs = tensor(outputs, channels).autodiff().require_grad();
        let targets = match output {
            Output::Labels => vec![tensor(indices(), 1), tensor(one_hot(), channels)],
            _ => vec![tensor(one_hot(), channels), tensor(indices(), 1)],
        };
        let mut first = None;
        for target in targets {
            let value = match loss.forward_with(vec![outputs.clone()], target.clone().autodiff(), Vec::new()) {
                Ok(value) => value,
                // A chain may have made channels of the labels already.
                Err(error) => {
                    first.get_or_insert(error);
                    continue;
                }
            };
            let gradients = value.mean().backward();
            let gradient = outputs.grad(&gradients).map_or(0.0, |gradient| largest(&gradient));
            let large = tensor(one_hot().into_iter().map(|value| 10.0 * value).collect(), channels);
            let confident = loss.forward_with(vec![large], target, Vec::new())?.mean();
            let confident = confident.into_data().iter::<f64>().next().unwrap_or_default();
            return Ok(Self { gradient, confident });
        }
        Err(first.unwrap_or_else(|| LossError::new(loss.name(), "there is no target to compare with")))
    }
}

fn largest(values: &Tensor<5>) -> f64 {
    values.clone().abs().max().into_data().iter::<f64>().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_nn::losses::{CrossEntropyLoss, DiceCELoss, DiceLoss, FocalLoss};

    fn probe(loss: &dyn Loss, channels: usize, output: Output) -> Probe {
        Probe::new(loss, channels, SIDE, output).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn losses_that_cannot_learn_have_no_gradient() {
        let dice = DiceLoss::default().to_onehot_y(true);
        assert!(probe(&dice.clone().softmax(true), 3, Output::Labels).gradient > 1e-6);
        // As in MONAI a softmax over one channel is ignored, so that the outputs themselves are
        // compared.
        assert!(probe(&DiceLoss::default().softmax(true), 1, Output::Labels).confident < NEGATIVE);
        assert!(probe(&DiceLoss::default().sigmoid(true), 1, Output::Labels).gradient > 1e-6);
        let focal = FocalLoss::default().to_onehot_y(true).use_softmax(true);
        assert!(probe(&focal, 2, Output::Labels).gradient > 1e-6);
        assert_eq!(probe(&focal.clone().include_background(false), 2, Output::Labels).gradient, 0.0);
        assert!(probe(&focal.include_background(false), 3, Output::Labels).gradient > 1e-6);
        assert!(probe(&CrossEntropyLoss::default(), 2, Output::Labels).gradient > 1e-6);
        assert!(probe(&DiceLoss::default().sigmoid(true), 3, Output::Regions).gradient > 1e-6);
        let ce = DiceCELoss::default().to_onehot_y(true).softmax(true);
        let found = probe(&ce, 2, Output::Labels);
        assert!(found.gradient > 1e-6 && found.confident > NEGATIVE && found.confident < 0.1);
    }

    #[test]
    fn losses_without_an_activation_are_negative() {
        let raw = DiceLoss::default().to_onehot_y(true);
        assert!(probe(&raw, 3, Output::Labels).confident < NEGATIVE);
        assert!(probe(&raw.softmax(true), 3, Output::Labels).confident > NEGATIVE);
    }
}
