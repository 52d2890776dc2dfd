//! A recipe that is ready to run: device, precision and pipelines, all checked in advance.

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_data::{Effect, Pipeline, Progress, RecipeOptions, Transform, all_steps};
use hearth_nn::metrics::{Metric, MetricConfig};
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_registry::Registry;
use hearth_train::{Abilities, Post, Precision, TestTimeAugmentation, device};

use crate::checks::writes::check_writes;
use crate::penalty::{Empty, Penalties, measuring};
use hearth_recipe::recipe::{Document, Fault, Node, Output, PrecisionWord, Recipe, post};
use hearth_recipe::{At, Outcome, notice};

/// A recipe that is checked and ready to run.
pub struct Plan {
    /// The recipe's document, for errors.
    pub document: Document,
    /// The recipe, with `auto` precision resolved.
    pub recipe: Recipe,
    /// The device on which it runs.
    pub device: Device,
    /// Whether the device is this machine's CPU.
    pub on_processor: bool,
    /// The precision of the forward pass.
    pub precision: Precision,
    /// The training chain.
    pub training: Arc<Pipeline>,
    /// The end of the training chain that works on whole batches (`batch = true`), if there is one.
    pub batch: Option<Arc<Pipeline>>,
    /// The training chain without random transforms and those for training only.
    pub validation: Arc<Pipeline>,
    /// The validation chain without the label.
    pub prediction: Arc<Pipeline>,
    /// The transforms for a label on its own grid: reading, and mapping labels to other values.
    pub label: Arc<Pipeline>,
    /// The entry of `transforms` that each step of the training chain comes from.
    training_places: Vec<usize>,
    /// How the progress of filling caches is shown; not at all by default.
    pub progress: Progress,
    /// Whether runs write only to their files and print nothing, as for all but the first rank.
    pub silent: bool,
    /// The number of ranks that train on this machine and share its memory.
    pub ranks_here: usize,
}

/// A chain of a recipe.
#[derive(Clone, Copy, PartialEq)]
enum Chain {
    Training,
    /// The end of the training chain that works on whole batches.
    Batch,
    Validation,
    Prediction,
    /// A label on its own grid.
    Label,
}

/// A metric of training batches: the name under which it is recorded, its options, the metric.
type TrainMetric = (String, MetricConfig, Box<dyn Metric>);

impl Plan {
    /// Reads the recipe, opens the device, and checks the pipelines.
    pub fn new(document: Document) -> Outcome<Self> {
        Self::of_rank(document, 0)
    }

    /// Makes the plan of one of several ranks on this machine. Each rank uses its own GPU if there
    /// are several and the recipe names none.
    pub fn of_rank(document: Document, local_rank: usize) -> Outcome<Self> {
        let recipe = Recipe::read(&document)?;
        recipe.clone().with_plugins(|| Self::of_recipe(document, recipe, local_rank))
    }

    fn of_recipe(document: Document, mut recipe: Recipe, local_rank: usize) -> Outcome<Self> {
        check_writes(&document)?;
        let device = device::parse_for_rank(&recipe.training.device, local_rank)
            .map_err(|error| document.error_at("training.device", error.to_string()))?;
        // Set before the first work on the device.
        recipe.training.tune.set(&device);
        let convolutions = recipe.training.convolutions.set(&device);
        convolutions.map_err(|error| document.error_at("training.convolutions", error.to_string()))?;
        let on_processor = device.clone() == device::parse("cpu").unwrap_or_default();
        let precision = match recipe.training.precision {
            PrecisionWord::Fp32 => Precision::Fp32,
            PrecisionWord::Tf32 => Precision::Tf32,
            PrecisionWord::Bf16 => Precision::Bf16,
            PrecisionWord::Fp16 => Precision::Fp16,
            PrecisionWord::Auto => Precision::auto(Abilities::of(&device)),
        };
        precision.prepare(&device).map_err(|error| document.error_at("training.precision", error.to_string()))?;
        if precision == Precision::Tf32 && !precision.rounds(&device) {
            notice!("training.precision = \"tf32\": {} computes in fp32", device::name(&device));
        }
        recipe.training.precision = match precision {
            Precision::Fp32 => PrecisionWord::Fp32,
            Precision::Tf32 => PrecisionWord::Tf32,
            Precision::Bf16 => PrecisionWord::Bf16,
            Precision::Fp16 => PrecisionWord::Fp16,
        };
        let (training, training_places) = pipeline(&recipe, &device, Chain::Training, |_| true)?;
        // Transforms report whether they are random: a `Range` around a random one is random too.
        let steps = training_places.iter().zip(training.steps());
        let (batch, batch_places) = pipeline(&recipe, &device, Chain::Batch, |_| true)?;
        let steps = steps.chain(batch_places.iter().zip(batch.steps()));
        let random: Vec<usize> = steps.filter(|(_, step)| step.is_random()).map(|(place, _)| *place).collect();
        check_mixed_labels(&document, &recipe)?;
        let batch = (!batch.is_empty()).then_some(batch);
        let fixed = |place: usize| !random.contains(&place);
        let (validation, places) = pipeline(&recipe, &device, Chain::Validation, fixed)?;
        let (prediction, _) = pipeline(&recipe, &device, Chain::Prediction, fixed)?;
        let steps = places.iter().zip(validation.steps());
        let in_place: BTreeSet<usize> =
            steps.filter(|(_, step)| step.effect() == Effect::Values).map(|(place, _)| *place).collect();
        let (label, _) = pipeline(&recipe, &device, Chain::Label, |place| in_place.contains(&place))?;
        let progress = Progress::default();
        let plan = Self {
            document,
            recipe,
            device,
            on_processor,
            precision,
            training,
            batch,
            validation,
            prediction,
            label,
            training_places,
            progress,
            silent: false,
            ranks_here: 1,
        };
        plan.post_prediction()?;
        plan.post_label()?;
        plan.augmentation()?;
        Ok(plan)
    }

    /// Wraps the recipe's inferer in its test-time augmentation.
    pub fn augmentation(&self) -> Outcome<Option<TestTimeAugmentation>> {
        let Recipe { tta, inferer, training, .. } = &self.recipe;
        let build = || tta.build(&self.document, inferer.shared(), training.seed);
        let augmentation = self.recipe.with_plugins(build)?;
        if augmentation.is_some() && self.recipe.output() == Output::Scores {
            let what =
                "test-time augmentation maps predictions back to the image; this task predicts numbers: remove [tta]";
            return Err(self.document.error_at("tta", what));
        }
        Ok(augmentation)
    }

    /// The post-processing of a prediction.
    pub fn post_prediction(&self) -> Outcome<Vec<Post>> {
        Ok(self.recipe.with_plugins(|| post::steps("prediction", &self.recipe.post.prediction))?)
    }

    /// The post-processing of a label before the metric sees it.
    pub fn post_label(&self) -> Outcome<Vec<Post>> {
        Ok(self.recipe.with_plugins(|| post::steps("label", &self.recipe.post.label))?)
    }

    /// Builds a metric of the recipe, with its plugin if it is of one, and counts how often an empty
    /// mask takes its rule.
    pub fn measuring(&self, name: &str, config: &MetricConfig, empty: Empty) -> Outcome<(Box<dyn Metric>, Penalties)> {
        self.measuring_at(&format!("metric.{name}"), config, empty)
    }

    fn measuring_at(&self, place: &str, config: &MetricConfig, empty: Empty) -> Outcome<(Box<dyn Metric>, Penalties)> {
        let built = self.recipe.with_plugins(|| measuring(config, empty));
        Ok(built.map_err(|fault| self.document.located(place, fault))?)
    }

    /// Builds the metrics of training batches, by the names under which they are recorded.
    pub(crate) fn train_metrics(&self) -> Outcome<Vec<TrainMetric>> {
        let all = self.recipe.training.metrics.list(&self.recipe.metric);
        let build = |(name, config): (String, MetricConfig)| {
            let (metric, _) = self.measuring_at("training.metrics", &config, Empty::default())?;
            Ok((name, config, metric))
        };
        all.into_iter().map(build).collect()
    }

    /// Reports an inferer of a plugin that copies each window from a GPU to the host.
    pub fn note_host_inferer(&self) {
        if !self.on_processor && self.recipe.inferer.through_host() {
            let name = self.recipe.inferer.name();
            notice!("the inferer {name}: images, windows and outputs are copied between the device and the host");
        }
    }

    /// The network with its initial weights, on the given device.
    pub fn network(&self, device: &Device) -> Outcome<AnyNetwork> {
        let init = self.recipe.network.init(device, self.recipe.training.seed);
        let network =
            init.map_err(|error| self.document.located("network", error.in_table(self.recipe.network.node())))?;
        let ([_, out], labels) = (network.channels(), self.recipe.labels.len());
        if self.recipe.learns().channels(labels).is_some_and(|expected| out != expected) {
            let message = format!("the network has out_channels = {out}, but there are {labels} labels");
            return Err(self.document.error_at("network.out_channels", message));
        }
        if !self.recipe.learns().generates() {
            self.check_sizes(&network, self.recipe.image_channels())?;
        }
        Ok(network)
    }

    /// The size of the crops that the training chain makes, if its steps define it.
    pub(crate) fn crop(&self, dims: usize) -> Option<[usize; 3]> {
        let of_image = |place: &usize| self.recipe.transforms.get(*place).is_none_or(|table| works_on(table, "image"));
        let steps = self.training.steps().iter().zip(&self.training_places).rev();
        let effects = steps.filter(|(_, place)| of_image(place)).map(|(step, _)| step.effect());
        effects.into_iter().find_map(|effect| match effect {
            Effect::Sizes { size, .. } => voxels(&size, dims),
            _ => None,
        })
    }

    /// The key with the size of the crops.
    pub(crate) fn key_of_crop(&self) -> String {
        let steps = self.training.steps().iter().zip(&self.training_places).rev();
        let found = steps.filter_map(|(step, place)| match step.effect() {
            Effect::Sizes { key, .. } => Some(format!("transforms.{place}.{key}")),
            _ => None,
        });
        found.into_iter().next().unwrap_or_else(|| "transforms".to_owned())
    }

    /// The index in `transforms` of the first step with this name.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.recipe.transforms.iter().position(|step| step.text("name").is_some_and(|known| named(&[name], known)))
    }

    /// Fails if the network does not support the size of the recipe's crops or windows, before the
    /// first step.
    pub(crate) fn check_sizes(&self, network: &AnyNetwork, channels: usize) -> Outcome {
        let check = |path: &str, sizes: &[i64]| -> Outcome {
            // A size that depends on the image is not known yet.
            let Some([x, y, z]) = voxels(sizes, network.spatial_dims()) else { return Ok(()) };
            network.check_input([1, channels, x, y, z]).map_err(|error| self.document.error_at(path, error.to_string()))
        };
        // Steps that only change the label do not decide the network's size.
        let of_image = |place: &usize| self.recipe.transforms.get(*place).is_none_or(|table| works_on(table, "image"));
        let steps = self.training.steps().iter().zip(&self.training_places).rev();
        let last = steps.filter(|(_, place)| of_image(place)).map(|(step, place)| (step.effect(), place));
        let last = last.skip_while(|(effect, _)| matches!(effect, Effect::Nothing | Effect::Values | Effect::Moves));
        if let Some((Effect::Sizes { key, size }, place)) = last.into_iter().next() {
            check(&format!("transforms.{place}.{key}"), &size)?;
        }
        match self.recipe.inferer.shared().window() {
            Some((key, size)) => check(&format!("inferer.{key}"), &size),
            None => Ok(()),
        }
    }
}

/// The voxels of a crop or a window from a recipe's sizes, one for all axes or one for each; `None` if an
/// axis has that of the image.
pub(crate) fn voxels(sizes: &[i64], dims: usize) -> Option<[usize; 3]> {
    let mut shape = [1; 3];
    for (axis, side) in shape.iter_mut().enumerate().take(dims) {
        let size = if sizes.len() == 1 { sizes.first() } else { sizes.get(axis) };
        *side = size.and_then(|size| usize::try_from(*size).ok()).filter(|size| *size > 0)?;
    }
    Some(shape)
}

/// The transforms of one chain from the wanted entries, and the indices of these entries.
fn pipeline(
    recipe: &Recipe,
    device: &Device,
    chain: Chain,
    wanted: impl Fn(usize) -> bool,
) -> Result<(Arc<Pipeline>, Vec<usize>), Fault> {
    let mut tables = Vec::new();
    let mut places = Vec::new();
    for (index, transform) in recipe.transforms.iter().enumerate() {
        let mut table = transform.clone();
        let only = table.remove("only");
        let only = only.as_ref().and_then(Node::as_str);
        let on_batch = table.remove("batch").as_ref() == Some(&Node::from(true));
        let training = matches!(chain, Chain::Training | Chain::Batch);
        let elsewhere = if training { "validation" } else { "train" };
        // Validation and prediction process one case at a time.
        let belongs = !training || on_batch == (chain == Chain::Batch);
        if only != Some(elsewhere) && belongs && wanted(index) {
            tables.push(table);
            places.push(index);
        }
    }
    if !matches!(chain, Chain::Label | Chain::Batch) {
        check_each_case(recipe, &mut tables, &mut places);
    }
    let keys = match chain {
        Chain::Training | Chain::Batch | Chain::Validation => None,
        Chain::Prediction => {
            let stage = recipe.previous_stage().map(|stage| stage.key);
            Some(std::iter::once("image".to_owned()).chain(stage).collect())
        }
        // A structure set is drawn on the grid of its image, which must be read first.
        Chain::Label if tables.iter().any(|table| table.get("reference_key").is_some()) => None,
        Chain::Label => Some(vec!["label".to_owned()]),
    };
    let options = RecipeOptions {
        device: Some(device.clone()),
        keys,
        lazy: recipe.data.lazy,
        lazy_sampling: recipe.data.lazy_sampling.clone(),
    };
    let pipeline = Pipeline::from_nodes_with(&tables, &options).map_err(|fault| {
        // Maps the index in this chain to the index in the recipe.
        let (step, rest) = fault.path.split_once('.').unwrap_or((&fault.path, ""));
        let place = step.parse::<usize>().ok().and_then(|step| places.get(step).copied()).unwrap_or_default();
        Fault { path: rest.to_owned(), ..fault.clone() }.under(&format!("transforms.{place}"))
    })?;
    let alone = |(step, _): &(&Arc<dyn Transform>, &usize)| chain != Chain::Batch && step.mixes_cases();
    if let Some((step, place)) = pipeline.steps().iter().zip(&places).find(alone) {
        let what = format!("{} combines the cases of a batch: add batch = true", step.name());
        return Err(Fault::at(format!("transforms.{place}"), what));
    }
    Ok((Arc::new(pipeline.seed(recipe.training.seed)), places))
}

/// Rejects a mean of labels that are numbers of classes: it would be the number of another class.
fn check_mixed_labels(document: &Document, recipe: &Recipe) -> Outcome {
    let mut loss = recipe.loss.as_ref().map(|loss| loss.node());
    while let Some(inner) = loss.and_then(|loss| loss.get("loss")) {
        loss = Some(inner);
    }
    if loss.and_then(|loss| loss.get("to_onehot_y")) != Some(&Node::from(true)) {
        return Ok(());
    }
    let steps = all_steps(&recipe.transforms);
    let mixes = |step: &Node| step.text("name").is_some_and(|name| named(&["MixUp"], name)) && works_on(step, "label");
    match steps.iter().find(|(_, step)| mixes(step)) {
        Some((path, _)) => {
            let what = "the label holds numbers of classes (to_onehot_y of the loss), which have no mean: use CutMix, or \
                        make a channel for each class in the transforms";
            Err(document.error_at(&format!("transforms.{path}.keys"), what))
        }
        None => Ok(()),
    }
}

/// Inserts a `CheckCase` after the steps that read a case, unless the recipe has one. Without it, a
/// label of another image or with other classes would train without an error and give meaningless
/// metrics.
///
/// If the recipe maps labels to other classes, the label is checked after the mapping, because the
/// loss uses the mapped label.
fn check_each_case(recipe: &Recipe, tables: &mut Vec<Node>, places: &mut Vec<usize>) {
    let names: Vec<String> = tables.iter().map(|table| table.text("name").unwrap_or("").to_owned()).collect();
    // A label that is stored in other axes, or on another grid, is aligned before it is compared
    // with the image.
    let aligns = |table: &Node, name: &str| {
        (named(&["Orientation"], name) && works_on(table, "image") && works_on(table, "label"))
            || (named(&["ResampleToMatch"], name) && works_on(table, "label"))
    };
    let reads =
        |(table, name): &(&Node, &String)| named(&["LoadImage", "EnsureChannelFirst"], name) || aligns(table, name);
    let reading = tables.iter().zip(&names).take_while(reads).count();
    if reading == 0 || names.iter().any(|name| named(&["CheckCase"], name)) {
        return;
    }
    // The loss does not use a mapped copy of the label.
    let mapping = tables.iter().rposition(|table| maps_labels(table) && works_on(table, "label"));
    let place = mapping.map_or(reading, |mapping| (mapping + 1).max(reading));
    let mut table = Node::named("CheckCase").with("channels", recipe.file_channels() as i64);
    match recipe.output() {
        Output::Labels => {
            table.insert("num_classes", Node::from(recipe.labels.len() as i64));
            if let Some(label) = recipe.learns().ignore_label() {
                table.insert("ignore_label", Node::from(i64::from(label)));
            }
        }
        // Regions are channels of 0 and 1, so the number of classes does not limit the values.
        Output::Regions => {}
        // The label is not a map on the image's grid.
        Output::Scores | Output::Image => table.insert("keys", Node::from(vec!["image"])),
    }
    tables.insert(place, table);
    places.insert(place, places[place - 1]);
    // Labels of an earlier stage are on the image's grid, and only those that become channels are
    // valid.
    if let Some(stage) = recipe.previous_stage() {
        let classes = stage.labels.iter().max().map_or(1, |most| most + 1);
        let table = Node::named("CheckCase").with("label_key", stage.key).with("num_classes", classes);
        tables.insert(reading, table);
        places.insert(reading, places[reading - 1]);
    }
}

/// Whether a transform, or one within it, works on the value of a key; a transform without `keys` may
/// do so.
pub(crate) fn works_on(table: &Node, key: &str) -> bool {
    let steps = all_steps(std::slice::from_ref(table));
    // A step around others has no keys of its own.
    let outer = usize::from(steps.len() > 1);
    steps[outer..].iter().any(|(_, step)| match step.get("keys") {
        None => true,
        Some(keys) => keys.as_str() == Some(key) || keys.items().iter().any(|one| one.as_str() == Some(key)),
    })
}

/// Whether a name is one of these transforms, with or without the `d` of MONAI's dictionary form.
pub fn named(known: &[&str], name: &str) -> bool {
    known.iter().any(|known| name == *known || name.strip_suffix('d') == Some(known))
}

/// Whether a step changes the values of labels.
pub(crate) fn maps_labels(table: &Node) -> bool {
    let mut table = table.clone();
    table.remove("only");
    table.remove("batch");
    Registry::<dyn Transform>::new().build(&table).is_ok_and(|step| step.maps_labels())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::bundled;

    /// The plan of a bundled recipe with one more step.
    fn with(step: &str) -> Outcome<Plan> {
        let mut document = bundled::find("hippocampus").expect("bundled").document().expect("sound");
        let given = document.find("transforms").items().iter().map(|step| step.to_toml().to_string());
        let steps: Vec<String> = given.chain([step.to_owned()]).collect();
        document.set_option("--set", "transforms", &format!("[{}]", steps.join(", "))).expect("a list");
        Plan::new(document)
    }

    #[test]
    fn cases_are_mixed_in_whole_batches_only() {
        for step in
            ["name = 'CutOut', keys = 'image'", "name = 'OneOf', transforms = [{ name = 'CutOut', keys = 'image' }]"]
        {
            let error = with(&format!("{{ {step} }}")).err().expect("a single case").to_string();
            assert!(error.contains("add batch = true"), "{error}");
            let plan = with(&format!("{{ {step}, batch = true }}")).expect("sound");
            let mixes = |chain: &Pipeline| chain.steps().iter().any(|step| step.mixes_cases());
            assert!(plan.batch.as_ref().is_some_and(|batch| mixes(batch)));
            assert!(![&plan.training, &plan.validation, &plan.prediction].into_iter().any(|chain| mixes(chain)));
        }
    }

    #[test]
    fn numbers_of_classes_are_not_mixed() {
        let error =
            with("{ name = 'MixUp', keys = ['image', 'label'], batch = true }").err().expect("classes").to_string();
        assert!(error.contains("use CutMix"), "{error}");
        assert!(with("{ name = 'MixUp', keys = 'image', batch = true }").is_ok());
        assert!(with("{ name = 'CutMix', keys = 'image', label_keys = 'label', batch = true }").is_ok());
    }

    #[test]
    fn a_step_works_on_what_its_inner_steps_work_on() {
        let works = |text: &str| {
            let document = Document::parse("step", text).expect("sound");
            [works_on(document.root(), "image"), works_on(document.root(), "label")]
        };
        assert_eq!(works("name = 'Flip'\nkeys = ['label']"), [false, true]);
        assert_eq!(works("name = 'OneOf'\ntransforms = [{ keys = 'label' }, { keys = ['label'] }]"), [false, true]);
        assert_eq!(works("name = 'OneOf'\ntransforms = [{ keys = 'label' }, { keys = ['image'] }]"), [true, true]);
        assert_eq!(works("name = 'Range'\ntransform = { keys = 'image' }"), [true, false]);
    }
}
