//! A loss, tried on a few voxels before a training begins: [`check_loss`].

use burn::tensor::Tensor;
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Node, Value};

use super::scene::{Form, Replaced, Scene};
use crate::plan::Plan;
use hearth_recipe::recipe::Output;
use hearth_recipe::{At, Outcome, warning};

/// A loss below this is negative beyond rounding.
const NEGATIVE: f64 = -1e-3;

/// The maximum number of classes of which each is replaced by another one.
const REPLACED: usize = 32;

/// A difference below this part of a value is rounding.
const ROUNDING: f64 = 1e-6;

/// Computes the recipe's loss and its gradient for a few voxels, with the number of channels of the
/// network. Warns of a loss that falls without bound as the network's outputs grow, and of a class
/// that the loss does not distinguish from another one.
///
/// # Errors
/// Options that do not fit the number of classes, and a loss whose gradient is not finite, 0 for every
/// output, or the same for every label: it cannot learn.
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
    let fault = |what: String| Err(plan.document.error_at("loss", what));
    let scene = Scene::new(channels, network.spatial_dims(), recipe.output());
    let probe = match Probe::new(&*loss, &scene) {
        Ok(probe) => probe,
        Err(error) => return fault(error.to_string()),
    };
    let name = loss.name();
    if let Some(what) = probe.cannot_learn() {
        let advice = match is_of_a_plugin(name) {
            true => "change its options, or its plugin",
            false => advice(recipe.loss.as_ref().map(|loss| loss.node()), channels),
        };
        return fault(format!(
            "the gradient of {name} with these options is {what} for every output of {channels} channels, so that \
             nothing is learned: {advice}"
        ));
    }
    // A plugin's own loss may be negative, and has no option of this name.
    if probe.confident < NEGATIVE && !is_of_a_plugin(name) {
        warning!(
            "loss: {name} is negative ({:.2}) for outputs that are large, as those of a network without a final activation: set \
             {} = true in [loss], unless the network ends with an activation",
            probe.confident,
            if recipe.output() == Output::Regions || channels == 1 { "sigmoid" } else { "softmax" }
        );
    }
    // Of regions, voxels without annotation have a channel of their own in the target.
    let partial = recipe.output() == Output::Regions && recipe.ignore_index().is_some();
    if let Some(missed) = probe.missed.filter(|_| !partial) {
        warning!("loss: {name} with these options is no higher {}", missed_text(missed, &recipe.labels, channels));
    }
    let written = recipe.loss.as_ref().map(|loss| loss.node());
    if recipe.output() == Output::Regions && channels > 1 && is_given(written, &SOFTMAX, true) {
        warning!(
            "loss: the softmax of {name} learns classes that exclude each other, but each region is decided by itself: set \
             sigmoid = true in its place in [loss], or use an AsDiscrete with argmax in [post]"
        );
    }
    Ok(())
}

/// The options of losses that apply a softmax.
pub(super) const SOFTMAX: [&str; 2] = ["softmax", "use_softmax"];

/// Whether one of these options has this value in the recipe.
pub(super) fn is_given(written: Option<&Node>, keys: &[&str], value: bool) -> bool {
    let given = |key: &&str| match written.and_then(|loss| loss.get(key)).map(|node| &node.value) {
        Some(Value::Leaf(toml::Value::Boolean(found))) => *found == value,
        _ => false,
    };
    keys.iter().any(given)
}

/// Where a loss does not rise although the prediction is wrong, and what to change.
fn missed_text((class, other): Replaced, labels: &[String], channels: usize) -> String {
    let called = |class: usize| labels.get(class).map_or_else(|| class.to_string(), |label| format!("{label:?}"));
    let place = match (channels, other) {
        (1, Some(_)) => format!("where {} is predicted around its voxels", called(labels.len().saturating_sub(1))),
        (1, None) => format!("where {} is not predicted", called(labels.len().saturating_sub(1))),
        (_, Some(other)) => format!("where {} is predicted in place of {}", called(other), called(class)),
        (_, None) => format!("where {} is not predicted", called(class)),
    };
    format!("{place}, so that this is not learned: change the weights or include_background in [loss]")
}

/// What removes a gradient from which nothing is learned.
fn advice(written: Option<&Node>, channels: usize) -> &'static str {
    match channels {
        1 if is_given(written, &SOFTMAX, true) => {
            "a softmax over one channel is always 1; use a sigmoid in [loss] and [post], or two output channels"
        }
        2 if is_given(written, &["include_background"], false) && is_given(written, &SOFTMAX, true) => {
            "a softmax over one remaining channel is always 1; set include_background = true, or use a sigmoid in place of \
             the softmax"
        }
        _ => "change the weights, the factors of its parts, or the activation in [loss]",
    }
}

/// A loss for a few voxels.
struct Probe {
    /// The largest gradient for outputs between -1 and 1; NaN if one is not finite.
    gradient: f64,
    /// Whether the gradient is the same for other labels.
    blind: bool,
    /// The loss for large outputs of the right classes.
    confident: f64,
    /// A class that can be replaced by another one, or by none, at no loss.
    missed: Option<Replaced>,
}

impl Probe {
    fn new(loss: &dyn Loss, scene: &Scene) -> Result<Self, LossError> {
        let mut first = None;
        for form in scene.forms() {
            match Self::of_form(loss, scene, form) {
                Ok(probe) => return Ok(probe),
                Err(error) => first.get_or_insert(error),
            };
        }
        Err(first.unwrap_or_else(|| LossError::new(loss.name(), "there is no target to compare with")))
    }

    fn of_form(loss: &dyn Loss, scene: &Scene, form: Form) -> Result<Self, LossError> {
        let gradient = |shift: usize| -> Result<Vec<f64>, LossError> {
            let outputs = scene.unsure().autodiff().require_grad();
            let target = scene.target(form, shift).autodiff();
            let value = loss.forward_with(vec![outputs.clone()], target, Vec::new())?;
            let found = outputs.grad(&value.mean().backward());
            Ok(found.map_or_else(Vec::new, |found| found.into_data().iter::<f64>().collect()))
        };
        let value = |outputs: Tensor<5>| -> Result<f64, LossError> {
            let value = loss.forward_with(vec![outputs], scene.target(form, 0), Vec::new())?.mean();
            Ok(value.into_data().iter::<f64>().next().unwrap_or_default())
        };
        let (of_labels, of_others) = (gradient(0)?, gradient(1)?);
        let gradient = largest(of_labels.iter().copied());
        let change = largest(of_labels.iter().zip(&of_others).map(|(a, b)| a - b));
        let confident = value(scene.one_hot(0, 10.0, None))?;
        let right = value(scene.one_hot(0, 1.0, None))?;
        let (mut missed, channels) = (None, scene.channels);
        // The options of a plugin's loss are not known.
        let tried = if is_of_a_plugin(loss.name()) { 0 } else { scene.present().min(REPLACED) };
        for class in 0..tried {
            let other = match (channels, scene.output) {
                (1, _) => (class == 0).then_some(1),
                (_, Output::Labels) => Some((class + 1) % channels),
                // Regions are decided one by one.
                _ => None,
            };
            let replaced = value(scene.one_hot(0, 1.0, Some((class, other))))?;
            if replaced - right <= ROUNDING * right.abs().max(1.0) {
                missed = Some((class, other));
                break;
            }
        }
        Ok(Self { gradient, blind: change <= ROUNDING * gradient, confident, missed })
    }

    /// What is wrong with the gradient, if nothing can be learned from it.
    fn cannot_learn(&self) -> Option<&'static str> {
        if !self.gradient.is_finite() {
            Some("not finite")
        } else if self.gradient == 0.0 {
            Some("0")
        } else {
            self.blind.then_some("the same for any label")
        }
    }
}

/// The largest absolute value; NaN if one is not finite.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    let mut largest = 0.0_f64;
    for value in values {
        if !value.is_finite() {
            return f64::NAN;
        }
        largest = largest.max(value.abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_nn::losses::{CrossEntropyLoss, DiceCELoss, DiceLoss, FocalLoss, LossConfig, loss_fn};

    fn probe(loss: &dyn Loss, channels: usize, output: Output) -> Probe {
        Probe::new(loss, &Scene::new(channels, 3, output)).unwrap_or_else(|error| panic!("{error}"))
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

    #[test]
    fn losses_that_no_label_changes_are_found() {
        let flat = loss_fn("Flat", |outputs, _| Ok((outputs.clone() * outputs).mean()));
        let found = probe(&flat, 3, Output::Labels);
        assert_eq!(found.cannot_learn(), Some("the same for any label"));
        let entropy = probe(&CrossEntropyLoss::default().label_smoothing(0.99), 3, Output::Labels);
        assert_eq!((entropy.cannot_learn(), entropy.missed), (None, None));
        let broken = loss_fn("Broken", |outputs, _| Ok((outputs * 0.0).recip().mean()));
        assert_eq!(probe(&broken, 2, Output::Labels).cannot_learn(), Some("not finite"));
    }

    #[test]
    fn classes_that_a_loss_does_not_distinguish_are_found() {
        let weighted = |weight: Vec<f64>| CrossEntropyLoss::default().weight(weight);
        let missed = |loss: &dyn Loss, channels, output| probe(loss, channels, output).missed;
        assert_eq!(missed(&weighted(vec![0.1, 1.0]), 2, Output::Labels), None);
        assert_eq!(missed(&weighted(vec![0.0, 1.0]), 2, Output::Labels), Some((0, Some(1))));
        assert_eq!(missed(&weighted(vec![1.0, 1.0, 0.0]), 3, Output::Labels), Some((2, Some(0))));
        let dice = DiceLoss::default().to_onehot_y(true).softmax(true);
        assert_eq!(missed(&dice.clone().include_background(false), 2, Output::Labels), None);
        assert_eq!(missed(&dice.clone().include_background(false), 4, Output::Labels), None);
        assert_eq!(missed(&dice, 8, Output::Labels), None);
        // A region is no background.
        let sigmoid = DiceLoss::default().sigmoid(true);
        assert_eq!(missed(&sigmoid, 3, Output::Regions), None);
        assert_eq!(missed(&sigmoid, 1, Output::Labels), None);
        assert_eq!(missed(&sigmoid.include_background(false), 3, Output::Regions), Some((0, None)));
        let text = |missed, channels| missed_text(missed, &["background".into(), "spleen".into()], channels);
        assert!(text((0, Some(1)), 2).starts_with("where \"spleen\" is predicted in place of \"background\""));
        assert!(text((1, None), 1).starts_with("where \"spleen\" is not predicted"));
    }

    /// The examples of the reference learn every class.
    #[test]
    fn the_examples_of_losses_are_not_complained_about() {
        for (name, options) in [
            ("DiceLoss", "softmax = true\nto_onehot_y = true\nbatch = true\nsquared_pred = true"),
            ("DiceCELoss", "softmax = true\nto_onehot_y = true"),
            ("DiceFocalLoss", "softmax = true\nto_onehot_y = true"),
            ("FocalLoss", "to_onehot_y = true\nuse_softmax = true\nalpha = 0.25"),
            ("FocalLoss", "to_onehot_y = true"),
            ("TverskyLoss", "softmax = true\nto_onehot_y = true\nalpha = 0.3\nbeta = 0.7"),
            ("GeneralizedDiceLoss", "softmax = true\nto_onehot_y = true"),
            ("GeneralizedDiceFocalLoss", "softmax = true\nto_onehot_y = true"),
            ("HausdorffDTLoss", "softmax = true\nto_onehot_y = true"),
            ("LogHausdorffDTLoss", "softmax = true\nto_onehot_y = true"),
            ("AsymmetricUnifiedFocalLoss", "to_onehot_y = true"),
            ("GeneralizedWassersteinDiceLoss", "dist_matrix = [[0.0, 1.0], [1.0, 0.0]]"),
            ("SoftDiceclDiceLoss", "to_onehot_y = true\nsoftmax = true"),
            ("BCEWithLogitsLoss", ""),
            ("MSELoss", ""),
        ] {
            let loss: LossConfig = toml::from_str(&format!("name = \"{name}\"\n{options}")).expect(name);
            let found = probe(&*loss, 2, Output::Labels);
            assert_eq!((found.cannot_learn(), found.missed), (None, None), "{name}: {options}");
        }
    }
}
