//! Whether the loss takes a case's label, by the number of its channels: [`LabelChannels`], [`check`].
//!
//! A file with a fourth axis (a time, a probability per class) reads like a label map, and the loss would
//! only fail in the first step, without the name of a case.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Tensor;
use hearth_data::nifti::read_header;
use hearth_data::{DrawKey, Image, Item, Pipeline, Sample, affine, host_device, read_image};
use hearth_nn::losses::{Loss, LossError};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Node, counted};
use hearth_train::Post;

use crate::plan::{Plan, works_on};
use hearth_recipe::recipe::Output;
use hearth_recipe::{Context, Outcome, RecipeError};

/// The voxels along each axis of the images on which the loss is tried.
const SIDE: usize = 6;

/// The number of cases named in a message.
const SHOWN: usize = 6;

/// The channels of labels that a recipe's loss takes.
pub(crate) struct LabelChannels {
    loss: Box<dyn Loss>,
    /// The channels of the network's output.
    outputs: usize,
    /// Whether the labels of the validation pass the same steps.
    validates_alike: bool,
    /// The steps of `[post] label` that depend on channels.
    post: Vec<Post>,
}

impl LabelChannels {
    /// The channels for a recipe that learns from label maps; `None` for other recipes, and if only a
    /// plugin knows.
    ///
    /// # Errors
    /// Those of [`Recipe::build_loss`](hearth_recipe::recipe::Recipe::build_loss).
    pub fn of(plan: &Plan) -> Outcome<Option<Self>> {
        let recipe = &plan.recipe;
        let is_map = matches!(recipe.output(), Output::Labels | Output::Regions);
        if recipe.loss.is_none() || recipe.learns().generates() || !is_map {
            return Ok(None);
        }
        // Asked before it is built: only a training loads it.
        let mut written = recipe.loss.as_ref().map(|loss| loss.node());
        while let Some(inner) = written.and_then(|loss| loss.get("loss")) {
            written = Some(inner);
        }
        if written.and_then(|loss| loss.text("name")).is_some_and(is_of_a_plugin) {
            return Ok(None);
        }
        let Some(outputs) = recipe.learns().channels(recipe.labels.len()) else { return Ok(None) };
        let loss = recipe.build_loss().map_err(|fault| plan.document.located("", fault))?;
        if !loss.needs().is_empty() {
            return Ok(None);
        }
        let changed =
            |wanted: fn(&Node) -> bool| recipe.transforms.iter().any(|step| wanted(step) && works_on(step, "label"));
        // Steps on whole batches come after those that a case passes.
        if changed(|step| step.get("batch") == Some(&Node::from(true))) {
            return Ok(None);
        }
        let apart = changed(|step| step.text("only") == Some("validation"));
        let mut post = plan.post_label()?;
        post.retain(|step| !matches!(step, Post::Transforms(_)));
        let found = Self { loss, outputs, validates_alike: !apart, post };
        // Another fault of the loss is reported by its own check.
        let usual = found.takes(1) || found.takes(outputs);
        Ok(usual.then_some(found))
    }

    /// Checks a label that has passed the transforms.
    ///
    /// # Errors
    /// Why the loss, or for a validation a step of `[post]`, cannot be computed with it.
    pub fn check(&self, samples: &[Sample], validates: bool) -> Result<(), String> {
        let channels = || samples.iter().filter_map(|sample| Some(sample.image("label").ok()?.channels()));
        if validates {
            channels().try_for_each(|channels| self.finish(channels))?;
        }
        let of_loss = !validates || self.validates_alike;
        let Some(wrong) = channels().find(|channels| of_loss && !self.takes(*channels)) else { return Ok(()) };
        let mut wanted = Vec::new();
        if self.takes(1) {
            wanted.push("1, with numbers of classes".to_owned());
        }
        if self.outputs > 1 && self.takes(self.outputs) {
            wanted.push(format!("{}, one for each output of the network", self.outputs));
        }
        let advice = match wrong {
            1 => "add a step to [transforms] that makes them, such as ConvertToMultiChannelBasedOnBratsClasses",
            _ => "a fourth axis of the file becomes channels; store one map, or make it one in [transforms]",
        };
        Err(format!(
            "its label has {} after the transforms, but {} takes {}: {advice}",
            counted(wrong, "channel"),
            self.loss.name(),
            wanted.join(", or ")
        ))
    }

    /// Passes a label with this number of channels through the steps of `[post]`.
    fn finish(&self, channels: usize) -> Result<(), String> {
        let (voxels, shape) = (channels * SIDE * SIDE * SIDE, [channels, SIDE, SIDE, SIDE]);
        let image = Image::from_values(vec![0.0; voxels], shape, affine::IDENTITY, &host_device());
        let done = Post::finish(&self.post, image, "");
        done.map(drop).map_err(|error| {
            format!("its label has {channels} channels after the transforms, which [post] label cannot use: {error}")
        })
    }

    /// Whether the loss can be computed with this number of channels.
    fn takes(&self, channels: usize) -> bool {
        let zeros = |channels: usize| Tensor::zeros([1, channels, SIDE, SIDE, SIDE], &host_device());
        let value = self.loss.forward_with(vec![zeros(self.outputs)], zeros(channels), Vec::new());
        !matches!(value, Err(LossError::Shape { .. }))
    }
}

/// Passes a case of each number of channels that the headers of labels state through the chain. Of one
/// channel only where the loss does not take it, so that a step has to make others.
///
/// # Errors
/// Labels with which no step can be taken, with the names of their cases; a case that cannot be read.
pub(super) fn check(plan: &Plan, training: &[Item], validation: &[Item]) -> Outcome {
    let Some(taken) = LabelChannels::of(plan)? else { return Ok(()) };
    for (items, pipeline, validates) in [(training, &plan.training, false), (validation, &plan.validation, true)] {
        let groups = by_channels(items).into_iter().filter(|(channels, _)| *channels > 1 || !taken.takes(1));
        for group in groups.map(|(_, group)| group) {
            let Some(first) = group.first() else { continue };
            let part = if validates { "validation" } else { "training" };
            let samples = passed(first, pipeline).while_doing(|| format!("preparing the {part} cases"))?;
            taken.check(&samples, validates).map_err(|what| {
                let mut names: Vec<&str> = group.iter().take(SHOWN).map(|item| item.case.as_str()).collect();
                let more = format!("{} more", group.len().saturating_sub(SHOWN));
                if group.len() > SHOWN {
                    names.push(&more);
                }
                RecipeError::new(format!("{}: {what}", names.join(", ")))
            })?;
        }
    }
    Ok(())
}

/// A case after all steps of a chain.
fn passed(item: &Item, pipeline: &Pipeline) -> Outcome<Vec<Sample>> {
    Ok(pipeline.run(item.sample(), DrawKey::new(0, 0, 0))?)
}

/// The cases by the channels of their label files. Of files whose header has to be read with their values
/// only the first counts for all.
fn by_channels(items: &[Item]) -> BTreeMap<usize, Vec<&Item>> {
    let mut groups: BTreeMap<usize, Vec<&Item>> = BTreeMap::new();
    let mut others = None;
    for item in items {
        let Some(path) = item.files.get("label") else { continue };
        // A file that cannot be read is left to the pipeline, which reports it.
        let channels = match of_header(path) {
            Some(channels) => channels,
            None => *others.get_or_insert_with(|| read_image(path).map_or(1, |image| image.channels())),
        };
        groups.entry(channels).or_default().push(item);
    }
    groups
}

/// The number of volumes that the header of a NIfTI file states.
fn of_header(path: &Path) -> Option<usize> {
    let name = path.to_string_lossy().to_lowercase();
    let is_nifti = [".nii", ".nii.gz", ".hdr", ".hdr.gz", ".img", ".img.gz"].iter().any(|end| name.ends_with(end));
    let header = is_nifti.then(|| read_header(path).ok()).flatten()?;
    Some(header.dim.iter().skip(3).product())
}
