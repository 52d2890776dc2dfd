//! The chains of `[post]` and the metrics, tried on predictions of known quality: [`check_post`].

use burn::tensor::Tensor;
use hearth_data::{Image, affine};
use hearth_nn::metrics::MetricConfig;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Node, Value, base_names};
use hearth_train::Post;

use super::loss::{SOFTMAX, is_given};
use super::scene::{Form, Scene};
use crate::plan::Plan;
use hearth_recipe::recipe::{Metric, Output};
use hearth_recipe::{At, Outcome, warning};

/// Steps that decide about each voxel by itself.
const DECIDING: [&str; 2] = ["Activations", "AsDiscrete"];

/// Steps that remove or add voxels of a label map.
const CLEANING: [&str; 3] = ["KeepLargestConnectedComponent", "FillHoles", "RemoveSmallObjects"];

/// Metrics of overlap, which compare maps of 0 and 1.
const OVERLAPS: [&str; 4] = ["DiceMetric", "MeanIoU", "GeneralizedDiceScore", "FBetaScore"];

/// Losses that apply an activation to the network's output themselves.
const OF_LOGITS: [&str; 3] = ["BCEWithLogitsLoss", "CrossEntropyLoss", "FocalLoss"];

/// Post-processes a few voxels as they would be predicted by a perfect network, by one that is always
/// wrong and by one that is not sure, and measures them. Other steps than those of MONAI's usual chains
/// are left to the first validation.
///
/// # Errors
/// A step that fails, and a metric by which the right prediction is not better than the wrong one.
pub(super) fn check_post(plan: &Plan, network: &AnyNetwork) -> Outcome {
    let recipe = &plan.recipe;
    let known = |table: &Node| table.text("name").is_some_and(|name| is_one_of(name, &[&DECIDING[..], &CLEANING]));
    let [_, channels] = network.channels();
    if recipe.learns().generates()
        || !recipe.output().is_map()
        // Voxels without annotation have a channel of their own in the label.
        || recipe.output() == Output::Regions && recipe.ignore_index().is_some()
        || channels == 0
        || !recipe.post.prediction.iter().chain(&recipe.post.label).all(known)
    {
        return Ok(());
    }
    let dims = network.spatial_dims();
    let scene = Scene::new(channels, dims, recipe.output());
    let fault = |key: &str, what: String| plan.document.error_at(key, what);
    let (prediction, label) = (plan.post_prediction()?, plan.post_label()?);
    let apply = |steps: &[&Post], x: Tensor<5>| -> Result<Tensor<5>, String> {
        let image = Image::new(x.narrow(0, 0, 1).squeeze_dim::<4>(0), affine::IDENTITY).with_spatial_dims(dims);
        let done = Post::finish(steps.iter().copied(), image, "").map_err(|error| error.to_string())?;
        Ok(done.data.unsqueeze_dim(0))
    };
    let logits = |shift: usize| scene.one_hot(shift, 20.0, None) - 10.0;
    apply(&prediction.iter().collect::<Vec<_>>(), logits(0)).map_err(|what| fault("post.prediction", what))?;
    // Steps that clean a map may remove the few voxels that are tried.
    let deciding: Vec<&Post> = prediction.iter().filter(|step| !matches!(step, Post::Transforms(_))).collect();
    let label: Vec<&Post> = label.iter().filter(|step| !matches!(step, Post::Transforms(_))).collect();
    let predicted = |x: Tensor<5>| apply(&deciding, x).map_err(|what| fault("post.prediction", what));
    let (right, wrong, unsure) = (predicted(logits(0))?, predicted(logits(1))?, predicted(scene.unsure())?);
    warn_of_values(plan, &unsure);
    for (name, config) in recipe.metric.list() {
        if is_of_a_plugin(config.name()) || !OVERLAPS.contains(&(*config).name()) {
            continue;
        }
        let key = match recipe.metric {
            Metric::Named { .. } => format!("metric.{name}"),
            Metric::Dice { .. } => "post.prediction".to_owned(),
        };
        let try_form = |form: Form| -> Result<(f32, f32), String> {
            let label = apply(&label, scene.target(form, 0))?;
            Ok((measure(&config, &right, &label)?, measure(&config, &wrong, &label)?))
        };
        let [usual, other] = scene.forms();
        let (form, (good, bad)) = match try_form(usual) {
            Ok(found) => (usual, found),
            Err(what) => (other, try_form(other).map_err(|_| fault(&key, what))?),
        };
        let better = good > bad || (config.higher_is_better() == Some(false) && good < bad);
        if !better {
            return Err(fault(
                &key,
                format!(
                    "after the steps of [post] the metric {name} is {good:.3} for a right prediction and {bad:.3} for a \
                     wrong one: check argmax, threshold and to_onehot of AsDiscrete, for the prediction and the label"
                ),
            ));
        }
        check_indices(&right, channels, form, &config).map_err(|what| fault(&key, what))?;
    }
    Ok(())
}

/// Whether a name, as MONAI may write it, is one of these.
fn is_one_of(name: &str, lists: &[&[&str]]) -> bool {
    base_names(name).iter().any(|base| lists.iter().any(|list| list.contains(base)))
}

/// The metric of one prediction.
fn measure(config: &MetricConfig, prediction: &Tensor<5>, label: &Tensor<5>) -> Result<f32, String> {
    let mut metric = config.build().map_err(|fault| fault.to_string())?;
    metric.update(prediction, label).map_err(|error| error.to_string())?;
    Ok(metric.aggregate().map_err(|error| error.to_string())?.scalar())
}

/// Class indices are numbers, which a metric of overlap would multiply.
fn check_indices(right: &Tensor<5>, channels: usize, form: Form, config: &MetricConfig) -> Result<(), String> {
    let one = right.dims()[1] == 1 && channels > 2 && matches!(form, Form::Indices);
    let counts = matches!(config.node().get("num_classes").map(|node| &node.value), Some(Value::Leaf(_)));
    if !one || counts {
        return Ok(());
    }
    Err(format!(
        "the prediction is one channel of {channels} class indices, and {} compares maps of 0 and 1: set to_onehot = \
         {channels} in the AsDiscrete of post.prediction and of post.label",
        (**config).name()
    ))
}

/// Warns of predictions that are not decided, or decided at the wrong value.
fn warn_of_values(plan: &Plan, unsure: &Tensor<5>) {
    let recipe = &plan.recipe;
    if unsure.clone().into_data().iter::<f32>().any(|value| value.fract() != 0.0) {
        warning!(
            "post.prediction: its steps decide about no voxel, so that overlaps are measured of values between classes: \
             add {{ name = \"AsDiscrete\", threshold = 0.5 }}, or argmax = true where classes exclude each other"
        );
    }
    let steps = &recipe.post.prediction;
    let activated = steps.iter().any(|step| step.text("name").is_some_and(|name| is_one_of(name, &[&["Activations"]])));
    let threshold = steps.iter().find_map(|step| match step.get("threshold").map(|node| &node.value) {
        Some(Value::Leaf(toml::Value::Float(threshold))) => Some(*threshold),
        _ => None,
    });
    let Some(loss) = recipe.loss.as_ref().filter(|_| recipe.output() == Output::Regions && !activated) else { return };
    let of_logits = is_given(Some(loss.node()), &[SOFTMAX[0], SOFTMAX[1], "sigmoid"], true);
    if let Some(threshold) = threshold.filter(|value| *value > 0.0 && (of_logits || OF_LOGITS.contains(&loss.name()))) {
        warning!(
            "post.prediction: {} takes outputs without an activation, and they are compared with the threshold {threshold}: \
             add {{ name = \"Activations\", sigmoid = true }} before it",
            loss.name()
        );
    }
}
