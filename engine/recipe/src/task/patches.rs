//! Patches of whole-slide images.

use hearth_data::layouts::Target;
use hearth_data::{Field, Item, all_steps};
use hearth_nn::metrics::MetricConfig;
use hearth_nn::post::AsDiscrete;
use hearth_registry::{Fault, Node};
use hearth_train::Post;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_only};
use crate::recipe::{Output, Recipe};

/// Patches of whole-slide images: whether each shows the finding of `labels`, such as a tumour.
/// Cases are regions with a grid of labels (data layout `Slides`); `LoadRegion` reads them and
/// `GridSplit` splits them into patches. The network returns `[b, 1, 1, 1, 1]`.
///
/// A prediction is a map of a whole slide with a probability for every `stride` pixels of tissue
/// (sigmoid), as in MONAI's `MaskedPatchWSIDataset` and `ProbMapProducer`, and its peaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Patches {
    /// Width and height of the patches of a map, in pixels of `level`: the same as in training.
    pub patch_size: usize,
    /// The level from which patches of a map are read.
    pub level: usize,
    /// Pixels of level 0 for each pixel of a map; 64 gives CAMELYON's level 6.
    pub stride: usize,
    /// Patches per call of the network.
    pub batch: usize,
    /// The probability that a peak of a map exceeds.
    pub threshold: f64,
    /// The size of the box around a peak, in pixels of a map, that contains no other peak.
    pub box_size: usize,
}

impl Default for Patches {
    fn default() -> Self {
        Patches { patch_size: 224, level: 0, stride: 64, batch: 64, threshold: 0.5, box_size: 48 }
    }
}

impl Task for Patches {
    fn output(&self) -> Output {
        Output::Scores
    }

    fn target(&self) -> Target {
        Target::Fields(vec!["label".to_owned()])
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        if recipe.labels.len() != 1 {
            let count = recipe.labels.len();
            return Err(Fault::at(
                "labels",
                format!("name what the patches show, as in [\"tumor\"]; there are {count}"),
            ));
        }
        let numbers = [
            ("patch_size", self.patch_size),
            ("stride", self.stride),
            ("batch", self.batch),
            ("box_size", self.box_size),
        ];
        if let Some((key, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(Fault::at(format!("task.{key}"), "must be at least 1"));
        }
        check_grids(recipe)?;
        self.check_sizes(recipe)?;
        if !(0.0..1.0).contains(&self.threshold) {
            return Err(Fault::at("task.threshold", format!("{}; expected 0 to less than 1", self.threshold)));
        }
        Ok(())
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        (vec![Node::named("Activations").with("sigmoid", true)], Vec::new())
    }

    fn metrics(&self) -> Vec<(&'static str, Node)> {
        vec![("accuracy", Node::named("Accuracy"))]
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        let known = ["Accuracy", "ROCAUCMetric", "AveragePrecisionMetric", "ConfusionMatrixMetric", "FBetaScore"];
        takes_only(metric, "patches", &known)
    }

    fn metric_post(&self, metric: &MetricConfig, _: usize) -> (Vec<Post>, Vec<Post>) {
        if metric.takes_scores() {
            return (Vec::new(), Vec::new());
        }
        let decide = AsDiscrete { threshold: Some(0.5), ..AsDiscrete::default() };
        (vec![Post::AsDiscrete(decide)], Vec::new())
    }

    fn gives_probabilities(&self) -> bool {
        true
    }

    fn patches(&self) -> Option<&Patches> {
        Some(self)
    }

    fn prepare(&self, item: Item, _: &[String]) -> Result<Item, String> {
        let labels = match item.fields.get("label") {
            Some(Field::Number(label)) => vec![*label],
            Some(Field::Numbers(labels)) => labels.clone(),
            Some(Field::Text(text)) => return Err(format!("\"label\" is {text:?}, expected 0 or 1")),
            None => return Err("there is no \"label\"".to_owned()),
        };
        match labels.iter().find(|label| ![0.0, 1.0].contains(*label)) {
            Some(other) => Err(format!("\"label\" has {other}, expected 0 or 1")),
            None => Ok(item),
        }
    }
}

impl Patches {
    /// Checks that the layout's regions have the size that is read, and the patches of a map the
    /// size of the training patches: otherwise the network would learn the labels of other tissue,
    /// or see another field of view.
    fn check_sizes(&self, recipe: &Recipe) -> Result<(), Fault> {
        let steps = all_steps(&recipe.transforms);
        let step = |name: &str| {
            let mut steps = steps.iter().map(|(_, step)| *step);
            steps.find(|step| step.text("name").is_some_and(|n| plain(n) == name))
        };
        let Some(read) = step("LoadRegion").and_then(|step| size(step.get("size")?)) else { return Ok(()) };
        let layout = recipe.data.layout.as_ref().filter(|layout| layout.name() == "Slides");
        let layout = layout.map(toml::Value::try_from).transpose().map_err(|error| Fault::new(error.to_string()))?;
        let region = layout.as_ref().and_then(|layout| layout.get("region_size")?.as_integer());
        if let Some(region) = region.filter(|region| [*region; 2] != read) {
            let what = format!("{region}, but LoadRegion reads {} x {} pixels: give both the same", read[0], read[1]);
            return Err(Fault::at("data.layout.region_size", what));
        }
        let split = match step("GridSplit") {
            // One size for all keys, or one for each.
            Some(step) => step.get("size").and_then(|of| size(of.get("image").unwrap_or(of))),
            None => Some(read),
        };
        let own = self.patch_size as i64;
        if let Some(patch) = split.filter(|patch| *patch != [own; 2]) {
            let what = format!("{own}, but the network learns from patches of {} x {} pixels", patch[0], patch[1]);
            return Err(Fault::at("task.patch_size", what));
        }
        Ok(())
    }
}

/// A name without the `d` of dictionaries.
fn plain(name: &str) -> &str {
    name.strip_suffix('d').unwrap_or(name)
}

/// One size for both axes, or one for each; `None` for anything else, and for 0.
fn size(node: &Node) -> Option<[i64; 2]> {
    let sizes = match node.to_toml() {
        toml::Value::Integer(size) => [size; 2],
        toml::Value::Array(sizes) => match sizes.iter().filter_map(toml::Value::as_integer).collect::<Vec<_>>()[..] {
            [height, width] => [height, width],
            _ => return None,
        },
        _ => return None,
    };
    sizes.iter().all(|size| *size > 0).then_some(sizes)
}

/// Checks that regions are read with as many labels as the layout gives them: otherwise the first
/// step would fail.
fn check_grids(recipe: &Recipe) -> Result<(), Fault> {
    let Some(layout) = recipe.data.layout.as_ref().filter(|layout| layout.name() == "Slides") else { return Ok(()) };
    let layout = toml::Value::try_from(layout).map_err(|error| Fault::new(error.to_string()))?;
    let Some(rows) = layout.get("grid").and_then(toml::Value::as_integer) else { return Ok(()) };
    for (path, step) in all_steps(&recipe.transforms) {
        let Some(grid) = step.get("label_grid") else { continue };
        let grid = grid.to_toml();
        let counts = match &grid {
            toml::Value::Array(counts) => counts.iter().filter_map(toml::Value::as_integer).collect(),
            one => one.as_integer().map_or_else(Vec::new, |count| vec![count; 2]),
        };
        if counts.len() == 2 && counts != [rows; 2] {
            let what = format!("is {grid}, but data.layout.grid = {rows} gives each region {} labels", rows * rows);
            return Err(Fault::at(format!("transforms.{path}.label_grid"), what));
        }
    }
    Ok(())
}

hearth_registry::entry!(dyn Task => Patches, example: "stride = 64\npatch_size = 224");
