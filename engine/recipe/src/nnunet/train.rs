//! The recipe that trains a configuration of plans with nnU-Net's settings.

use hearth_nnunet::augment::patch::turning;
use hearth_nnunet::{Architecture, Configuration, DatasetJson, Intensities, NetworkClass, Plans, Scheme};
use hearth_registry::{Named, Node};
use serde_json::Value;
use toml::Value as Toml;

use super::source::Source;
use crate::error::{Outcome, RecipeError};

/// The layout of data that nnU-Net has prepared.
const PREPROCESSED: &str = "NnUnetPreprocessed";

/// The step that makes a channel of each region.
const CONVERTS: &str = "ConvertToMultiChannelBasedOnBratsClasses";

/// Iterations of an epoch, and epochs of a training.
const ITERATIONS: usize = 250;
const EPOCHS: usize = 1000;

/// The text of a recipe for a configuration of `plans`: nnU-Net's preprocessing, patches,
/// augmentation, network, loss, optimizer and schedule.
///
/// The recipe of the second stage of a cascade reads the labels predicted by the first stage
/// (`data.previous_stage`), and appends them to the image.
///
/// # Errors
/// Plans that cannot be read, or a configuration that they do not have.
pub fn training_recipe(plans: &Value, dataset: &DatasetJson, configuration: &str) -> Outcome<String> {
    recipe_of(plans, dataset, configuration, &Source::default())
}

/// The recipe for a folder of `nnUNet_preprocessed`, whose arrays nnU-Net has prepared.
///
/// # Errors
/// Same as [`training_recipe`], and the second stage of a cascade, which reads labels on the grids
/// of the images.
pub fn preprocessed_recipe(plans: &Value, dataset: &DatasetJson, configuration: &str) -> Outcome<String> {
    let parsed = Plans::parse(plans.clone())?;
    let refused = |what: &str| Err(RecipeError::new(format!("no recipe for {configuration}: {what}")));
    if parsed.configuration(configuration)?.previous_stage.is_some() {
        return refused("the second stage of a cascade is trained with the raw data set");
    }
    let Some(folder) = parsed.value(configuration, "data_identifier").and_then(Value::as_str) else {
        return refused("data_identifier is missing; expected the folder of its arrays");
    };
    let layout = Named::new(&Node::named(PREPROCESSED).with("folder", folder))?;
    recipe_of(plans, dataset, configuration, &Source { layout: Some(layout), ..Source::default() })
}

/// The recipe for a data set that is read from `source`.
///
/// # Errors
/// Same as [`training_recipe`].
pub(super) fn recipe_of(plans: &Value, dataset: &DatasetJson, configuration: &str, source: &Source) -> Outcome<String> {
    let parsed = Plans::parse(plans.clone())?;
    let planned = parsed.configuration(configuration)?;
    let refused = |what: &str| Err(RecipeError::new(format!("no recipe for {configuration}: {what}")));
    let number = |key: &str| {
        let value = parsed.value(configuration, key).and_then(Value::as_u64);
        value.and_then(|number| usize::try_from(number).ok())
    };
    let Some(batch) = number("batch_size").filter(|batch| *batch > 0) else {
        return refused("batch_size is missing; expected a number above 0");
    };
    // Null, or absent, where no voxel of the data set has a label.
    let is_unknown = |(channel, scheme): (usize, &Scheme)| {
        let known = |of: &Intensities| [of.mean, of.std, of.low, of.high].iter().all(|value| value.is_finite());
        *scheme == Scheme::Ct && parsed.intensities.get(&channel).is_some_and(|of| !known(of))
    };
    if planned.normalization_schemes.iter().enumerate().any(is_unknown) {
        return refused("CT is normalised by the values of labelled voxels, and no label map has any");
    }
    let heads = &dataset.labels.heads;
    let names: Vec<String> = heads.iter().map(|(name, _)| name.clone()).collect();
    let regions = dataset.labels.has_regions().then(|| heads.iter().map(|(_, labels)| labels.as_slice()).collect());
    let batch_dice = parsed.value(configuration, "batch_dice") == Some(&Value::Bool(true));
    let ignore = dataset.labels.ignore;
    let previous = planned.previous_stage.is_some().then_some(&dataset.labels.foreground[..]);
    Ok(Writer { plans: &parsed, planned: &planned, batch, names, regions, ignore, previous, source, batch_dice }
        .text(plans["experiment_planner_used"].as_str().unwrap_or("its planner")))
}

struct Writer<'a> {
    plans: &'a Plans,
    planned: &'a Configuration,
    batch: usize,
    names: Vec<String>,
    /// The labels of each region, if labels are regions.
    regions: Option<Vec<&'a [u16]>>,
    /// The label of voxels without annotation.
    ignore: Option<u16>,
    /// The labels that an earlier stage predicts.
    previous: Option<&'a [u16]>,
    /// How the data set is read.
    source: &'a Source,
    batch_dice: bool,
}

impl Writer<'_> {
    fn text(&self, planner: &str) -> String {
        let (plans, planned, batch) = (self.plans, self.planned, self.batch);
        let turning = turning(&planned.patch_size);
        let flat = planned.dims() == 2;
        let (patch, classes) = (list(&planned.patch_size), self.names.len());
        let stage = self.previous.map_or(0, <[u16]>::len);
        let labels: Vec<Toml> = self.names.iter().map(|name| Toml::String(name.clone())).collect();
        let masked: Vec<usize> =
            (0..planned.use_mask_for_norm.len()).filter(|channel| planned.use_mask_for_norm[*channel]).collect();
        let axes: &[usize] = if flat { &[0, 1] } else { &[0, 1, 2] };
        let mut augment = format!("mirror_axes = {}", list(axes));
        if turning.in_plane && !flat {
            augment += ", keep_first_axis = true";
        }
        if !masked.is_empty() {
            augment += &format!(", mask_channels = {}", list(&masked));
        }
        let previous_key = self.previous.map_or("", |_| ", previous_key = \"previous\"");
        augment += previous_key;
        let weights: Vec<String> = self.output_weights().iter().map(|weight| format!("{weight:?}")).collect();
        let (inferer, flips) = match flat {
            true => ("SliceInferer\"\nspatial_dim = 0", "[1, 2]"),
            false => ("SlidingWindowInferer\"", "[0, 1, 2]"),
        };
        format!(
            r#"# {dataset}, {configuration}: {plans_name} of nnU-Net's {planner}. `hearth plan` wrote it.
{continues}{task}
labels = {labels}

transforms = [
{read}{checked}    {{ name = "NnunetPreprocess", keys = ["image", "label"], spacing = {spacing}, transpose = {transpose}{previous_key},
      normalization = [
{normalization}      ] }},
    # What the image does not show is background to the metric.
    {{ name = "ThresholdIntensity", keys = ["label"], threshold = 0.0, only = "validation" }},
{classes_to_indices}{annotated_to_indices}
    {{ name = "RandNnunetPatch", keys = ["image", "label"], patch_size = {patch}, indices_key = "{listed}_cls_indices",
      foreground = {foreground:?}{annotated}{previous_key} }},
    {{ name = "RandNnunetAugment", keys = ["image", "label"], {augment} }},
{previous_stage}{to_regions}]

[data]
{layout}workers = 4
folds = {{ count = 5, method = "scikit", shuffle = true, seed = 12345 }}    # those of splits_final.json
sampler = {{ name = "RandomSampler", num_samples = {samples} }}    # {ITERATIONS} batches

[network]
{network}
[loss]
name = "DeepSupervisionLoss"
weights = [{weights}]
loss = {loss}

[optimizer]
name = "SGD"
lr = 0.01
momentum = 0.99
nesterov = true
weight_decay = 3e-5

[schedule]
name = "PolynomialLR"
total_iters = {EPOCHS}    # of training.epochs
power = 0.9

[training]
epochs = {EPOCHS}
batch_size = {batch}
clip = {{ norm = 12.0 }}
val_interval = 25
precision = "auto"    # bf16 on a GPU that computes in it, else fp32

[inferer]
name = "{inferer}
roi_size = {patch}
overlap = 0.5
mode = "gaussian"

[tta]
flips = {flips}
"#,
            dataset = one_line(&plans.dataset_name),
            configuration = planned.name,
            plans_name = one_line(&plans.plans_name),
            planner = one_line(planner),
            continues = self.continues(),
            checked = self.checked(),
            read = self.source.steps(self.previous.is_some()),
            layout = self.source.data(),
            task = self.task(),
            classes_to_indices = self.classes_to_indices(),
            annotated_to_indices = self.annotated_to_indices(),
            annotated = self.ignore.map_or("", |_| ", annotated_key = \"annotated_cls_indices\""),
            listed = if self.regions.is_some() { "regions" } else { "label" },
            to_regions = self.to_regions(),
            previous_stage = self.previous_stage(),
            loss = self.loss(),
            labels = Toml::Array(labels),
            spacing = floats(&planned.spacing),
            transpose = list(&plans.transpose_forward),
            normalization = self.normalization(),
            foreground = foreground(batch),
            samples = ITERATIONS * batch,
            network = network(&planned.architecture, planned.normalization_schemes.len() + stage, classes),
            weights = weights.join(", "),
        )
    }

    /// The step that lists foreground voxels by class or by region.
    fn classes_to_indices(&self) -> String {
        let Some(regions) = &self.regions else {
            let classes = self.names.len();
            return format!(
                "    {{ name = \"ClassesToIndices\", keys = [\"label\"], num_classes = {classes}, \
                 max_samples_per_class = 10000, only = \"train\" }},"
            );
        };
        // The first list is not foreground.
        let lists: Vec<&[u16]> = [&[0][..]].into_iter().chain(regions.iter().copied()).collect();
        format!(
            "    # A list of voxels for each region.\n\
             \x20   {{ name = \"CopyItems\", keys = [\"label\"], names = [\"regions\"], only = \"train\" }},\n\
             \x20   {{ name = \"{CONVERTS}\", keys = [\"regions\"], classes = {lists:?}, only = \"train\" }},\n\
             \x20   {{ name = \"ClassesToIndices\", keys = [\"regions\"], max_samples_per_class = 10000, only = \"train\" }},\n\
             \x20   {{ name = \"DeleteItems\", keys = [\"regions\"], only = \"train\" }},"
        )
    }

    /// The steps that list annotated voxels, around which patches are cut if some voxels are not
    /// annotated.
    fn annotated_to_indices(&self) -> String {
        let Some(ignore) = self.ignore else { return String::new() };
        // Voxels outside of the image's content do not count as missing annotation.
        let all: Vec<i64> = (-1..i64::from(ignore)).collect();
        format!(
            "\n    # Patches without foreground lie around what is annotated.\n\
             \x20   {{ name = \"CopyItems\", keys = [\"label\"], names = [\"annotated\"], only = \"train\" }},\n\
             \x20   {{ name = \"LabelToMask\", keys = [\"annotated\"], select_labels = {all:?}, only = \"train\" }},\n\
             \x20   {{ name = \"ClassesToIndices\", keys = [\"annotated\"], num_classes = 2, max_samples_per_class = 10000, \
             only = \"train\" }},\n\
             \x20   {{ name = \"DeleteItems\", keys = [\"annotated\"], only = \"train\" }},"
        )
    }

    fn to_regions(&self) -> String {
        // Voxels beyond the image belong to no region.
        let step = |regions: &Vec<&[u16]>| {
            let ignored = self.ignore.map(|label| [label]);
            let regions: Vec<&[u16]> = regions.iter().copied().chain(ignored.as_ref().map(|one| &one[..])).collect();
            format!("    {{ name = \"{CONVERTS}\", keys = [\"label\"], classes = {regions:?} }},\n")
        };
        self.regions.as_ref().map(step).unwrap_or_default()
    }

    /// The check of labels. Prepared labels have -1 outside of the image's content, so they are not
    /// checked.
    fn checked(&self) -> String {
        let channels = self.planned.normalization_schemes.len();
        match self.source.layout.as_ref().is_some_and(|layout| layout.name() == PREPROCESSED) {
            true => format!("    {{ name = \"CheckCase\", keys = [\"image\"], channels = {channels} }},\n"),
            false => String::new(),
        }
    }

    /// The source of the labels of the earlier stage.
    fn continues(&self) -> String {
        let Some(stage) = self.planned.previous_stage.as_deref() else { return String::new() };
        format!(
            "# Give --previous-stage DIR: what hearth predict --held-out made with the folds of {}.\n",
            one_line(stage)
        )
    }

    /// The steps that append the labels of the earlier stage to the image and augment them.
    fn previous_stage(&self) -> String {
        let Some(labels) = self.previous else { return String::new() };
        format!(
            "    {{ name = \"NnunetPreviousStage\", keys = [\"image\"], labels = {labels:?} }},\n\
             \x20   {{ name = \"RandNnunetPreviousStage\", keys = [\"image\"], channels = {} }},\n",
            labels.len()
        )
    }

    fn task(&self) -> String {
        let title = Toml::String(self.plans.dataset_name.clone());
        let mut options = self.ignore.map_or(String::new(), |label| format!(", ignore_label = {label}"));
        if let Some(label) = &self.source.label {
            options += &format!(", label = {}", Toml::String(label.clone()));
        }
        match &self.regions {
            Some(regions) => {
                format!("title = {title}\ntask = {{ name = \"Regions\", classes = {regions:?}{options} }}")
            }
            None if options.is_empty() => format!("task = {title}"),
            None => format!("title = {title}\ntask = {{ name = \"Segmentation\"{options} }}"),
        }
    }

    /// Dice and cross-entropy: over all outputs, or for each (a focal loss with gamma 0).
    fn loss(&self) -> String {
        let batch = self.batch_dice;
        match self.regions {
            Some(_) => format!("{{ name = \"DiceFocalLoss\", sigmoid = true, gamma = 0.0, batch = {batch} }}"),
            None => format!(
                "{{ name = \"DiceCELoss\", include_background = false, to_onehot_y = true, softmax = true, batch = {batch} }}"
            ),
        }
    }

    /// The normalisation, one line per channel.
    fn normalization(&self) -> String {
        let mut out = String::new();
        for (channel, scheme) in self.planned.normalization_schemes.iter().enumerate() {
            out += &format!("          {{ scheme = \"{}\"", scheme.name());
            if self.planned.use_mask_for_norm[channel] {
                out += ", use_mask = true";
            }
            if let Some(of) = self.plans.intensities.get(&channel).filter(|_| *scheme == Scheme::Ct) {
                let (mean, std, low, high) = (of.mean, of.std, of.low, of.high);
                out +=
                    &format!(", mean = {mean:?}, std = {std:?}, percentile_00_5 = {low:?}, percentile_99_5 = {high:?}");
            }
            out += " },\n";
        }
        out
    }

    /// The weight halves for each further output, is 0 for the coarsest, and sums to 1.
    fn output_weights(&self) -> Vec<f64> {
        let outputs = self.planned.architecture.features.len().saturating_sub(1).max(1);
        let mut weights: Vec<f64> = (0..outputs).map(|output| 0.5_f64.powi(output as i32)).collect();
        if outputs > 1 {
            weights[outputs - 1] = 0.0;
        }
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }
}

/// The share of a batch whose patches nnU-Net cuts around foreground: the last third, rounded.
fn foreground(batch: usize) -> f64 {
    let first = (batch as f64 * 0.67).round_ties_even() as usize;
    (batch - first.min(batch)) as f64 / batch as f64
}

fn network(of: &Architecture, inputs: usize, outputs: usize) -> String {
    let axes = |sizes: &[Vec<usize>]| format!("[{}]", sizes.iter().map(|s| list(s)).collect::<Vec<_>>().join(", "));
    let (name, counts) = match of.class {
        NetworkClass::PlainConvUNet => ("PlainConvUNet", "n_conv_per_stage"),
        NetworkClass::ResidualEncoderUNet => ("ResidualEncoderUNet", "n_blocks_per_stage"),
    };
    format!(
        "name = \"{name}\"\nspatial_dims = {}\nin_channels = {inputs}\nout_channels = {outputs}\n\
         features_per_stage = {}\nkernel_sizes = {}\nstrides = {}\n{counts} = {}\nn_conv_per_stage_decoder = {}\n\
         deep_supervision = true\n",
        of.dims,
        list(&of.features),
        axes(&of.kernels),
        axes(&of.strides),
        list(&of.encoder),
        list(&of.decoder),
    )
}

fn list(numbers: &[usize]) -> String {
    format!("{numbers:?}")
}

/// Formats numbers as floats: `2.0` and not `2`.
fn floats(numbers: &[f64]) -> String {
    format!("{numbers:?}")
}

/// Makes a text fit on one line, for a comment.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
