//! Converts configs to recipes, as far as possible.

use std::path::PathBuf;
use std::sync::Arc;

use hearth_bundle::{Bundle, Component, Effect, Resolver, Value};
use hearth_data::Transform;
use hearth_handlers::Schedule;
use hearth_nn::losses::Loss;
use hearth_nn::optim::OptimizerSpec;
use hearth_nn::weights;
use hearth_registry::{Document, Kind, Node, Registry};

use super::networks::{Loads, Networks, spec};
use super::nodes::{base_names, components, is, table};
use super::run::{self, RunOptions};
use hearth_recipe::recipe::Recipe;
use hearth_recipe::recipe::metric::MEAN_DICE;
use hearth_recipe::{Context, Outcome, RecipeError};

/// A recipe, and the parts of the config that are not included.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The text of the recipe.
    pub recipe: String,
    /// The weights of an inference config, as safetensors.
    pub weights: Option<Vec<u8>>,
    /// Parts that were omitted or replaced.
    pub left_out: Vec<String>,
}

/// Converts a config to a recipe: the named one, or else `train`, or else `inference`.
///
/// # Errors
/// A damaged config, or one without an engine or a supported network.
pub fn convert(bundle: &Bundle, config_files: &[String]) -> Outcome<Converted> {
    let files = match (config_files.is_empty(), bundle.config("train")) {
        (false, _) => config_files.to_vec(),
        (true, Ok(_)) => vec!["train".to_owned()],
        (true, Err(_)) => Vec::new(),
    };
    let options = RunOptions { config_files: files, ..RunOptions::default() };
    let (config, run_id) = run::config(bundle, &options)?;
    let name = options.config_files.first().cloned().unwrap_or_else(|| "inference".to_owned());
    let resolver = Resolver::new(config, bundle.root().to_owned())?.gathering();
    let mut effects = Vec::new();
    for id in ["initialize", run_id.as_str()] {
        if resolver.config().has(id) {
            effects.extend(resolver.run(id)?);
        }
    }
    let engine = effects.iter().find_map(|effect| match effect {
        Effect::Run(engine) => Some(engine.clone()),
        _ => None,
    });
    let engine =
        engine.ok_or_else(|| RecipeError::new(format!("{name}: {run_id} runs no trainer and no evaluator")))?;
    let seed = effects.iter().find_map(|effect| match effect {
        Effect::Seed(seed) => u64::try_from(*seed).ok(),
        _ => None,
    });
    let mut made = Making { bundle, left_out: Vec::new(), table: Node::empty() };
    made.left_out.extend(resolver.faults().iter().map(ToString::to_string));
    let network = made.network(&engine)?;
    let weights = if engine.name().ends_with("Trainer") {
        made.training(&engine, seed);
        None
    } else {
        made.inference(&engine);
        made.weights(&engine, &effects, &network)?
    };
    made.finish(&network, &name, weights)
}

struct Making<'a> {
    bundle: &'a Bundle,
    left_out: Vec<String>,
    table: Node,
}

impl Making<'_> {
    fn leave(&mut self, component: &Component, why: &str) {
        self.left_out.push(format!("{}: {}: {why}", component.id, component.target));
    }

    fn network(&mut self, engine: &Component) -> Outcome<Arc<Component>> {
        let network = engine.get("network").and_then(Value::as_component).cloned();
        let network = network.ok_or_else(|| RecipeError::new(format!("{}: the network is not known", engine.id)))?;
        let (_, mut table) = spec(&network)?;
        drop_nothing(&mut table);
        self.table.insert("network", table);
        Ok(network)
    }

    fn training(&mut self, trainer: &Arc<Component>, seed: Option<u64>) {
        if trainer.name() != "SupervisedTrainer" {
            self.leave(trainer, "is a trainer of another kind; the recipe trains with SupervisedTrainer");
        }
        self.part::<dyn Loss>(trainer, "loss_function", "loss", &[]);
        self.part::<dyn OptimizerSpec>(trainer, "optimizer", "optimizer", &["params"]);
        let mut training = Node::empty();
        if let Some(epochs) = trainer.get("max_epochs").and_then(Value::as_int) {
            training.insert("epochs", Node::from(epochs));
        }
        if let Some(seed) = seed {
            training.insert("seed", Node::from(seed as i64));
        }
        if trainer.get("amp").and_then(Value::truth) == Some(true) {
            training.insert("precision", Node::from("auto"));
        }
        let (mut validator, mut handlers) = (None, components(trainer.get("train_handlers")).unwrap_or_default());
        handlers.retain(|handler| match handler.name() {
            "ValidationHandler" => {
                validator = handler.get("validator").and_then(Value::as_component).cloned();
                if let Some(interval) = handler.get("interval").and_then(Value::as_int) {
                    training.insert("val_interval", Node::from(interval));
                }
                false
            }
            "StatsHandler" | "TensorBoardStatsHandler" | "CheckpointSaver" => false,
            _ => true,
        });
        for handler in handlers {
            match handler.name() {
                "LrScheduleHandler" => self.part::<dyn Schedule>(&handler, "lr_scheduler", "schedule", &["optimizer"]),
                _ => self.leave(&handler, "the recipe has no such handler"),
            }
        }
        if let Some(loader) = trainer.get("train_data_loader").and_then(Value::as_component).cloned() {
            if let Some(batch) = loader.get("batch_size").and_then(Value::as_int) {
                training.insert("batch_size", Node::from(batch));
            }
            self.data(&loader);
        }
        if self.measures_training(trainer) {
            training.insert("metrics", Node::from(vec![MEAN_DICE]));
        }
        self.table.insert("training", training);
        let of = |engine: Option<&Arc<Component>>, loader: &str| {
            let dataset = engine?.get(loader)?.as_component()?.get("dataset")?.as_component()?.clone();
            dataset.get("transform").cloned()
        };
        let train = self.chain(of(Some(trainer), "train_data_loader").as_ref());
        let validation = self.chain(of(validator.as_ref(), "val_data_loader").as_ref());
        self.table.insert("transforms", Node::from(toml::Value::Array(joined(train, &validation))));
        if let Some(validator) = validator {
            self.inferer(&validator);
            self.post(&validator);
            for group in ["key_val_metric", "additional_metrics"] {
                let metrics = validator.get(group).and_then(Value::as_dict).unwrap_or_default().to_vec();
                for (_, metric) in metrics {
                    if let Some(metric) = metric.as_component().filter(|metric| metric.name() != "MeanDice") {
                        self.leave(metric, "the recipe measures by its task's own metric; name others in [metric]");
                    }
                }
            }
        }
    }

    /// Whether the trainer measures the mean Dice of its batches; other metrics are left out.
    fn measures_training(&mut self, trainer: &Component) -> bool {
        let mut found = false;
        for group in ["key_train_metric", "additional_metrics"] {
            for (_, metric) in trainer.get(group).and_then(Value::as_dict).unwrap_or_default() {
                match metric.as_component() {
                    Some(metric) if metric.name() == "MeanDice" => found = true,
                    Some(metric) => self.leave(metric, "name metrics of training batches in training.metrics"),
                    None => {}
                }
            }
        }
        found
    }

    fn inference(&mut self, evaluator: &Arc<Component>) {
        let loader = evaluator.get("val_data_loader").and_then(Value::as_component);
        let dataset = loader.and_then(|loader| loader.get("dataset")).and_then(Value::as_component).cloned();
        let chain = self.chain(dataset.as_ref().and_then(|dataset| dataset.get("transform")));
        self.table.insert("transforms", Node::from(toml::Value::Array(chain)));
        self.inferer(evaluator);
        self.post(evaluator);
        for (key, name) in [("loss", "DiceCELoss"), ("optimizer", "AdamW")] {
            self.left_out.push(format!("{key}: the config does not train; {name} stands there, as a recipe needs one"));
        }
        self.table.insert("loss", Node::named("DiceCELoss").with("to_onehot_y", true).with("softmax", true));
        self.table.insert("optimizer", Node::named("AdamW").with("lr", 1e-4));
    }

    /// The table of a registered component in an argument.
    fn part<T: Kind + ?Sized>(&mut self, of: &Component, argument: &str, key: &str, without: &[&str]) {
        let Some(given) = of.get(argument) else { return };
        let Some(component) = given.as_component().cloned() else {
            self.left_out.push(format!("{}: {argument}: {} is no component", of.id, given.kind()));
            return;
        };
        let registry = Registry::<T>::new();
        let Some(entry) = registry.find(component.name()) else {
            self.leave(&component, &format!("there is no {} of this name", T::WORD));
            return;
        };
        let whole = table(&component, entry.name, without, false);
        let whole = whole.map_err(|fault| fault.what).and_then(|table| match registry.build(&table) {
            Ok(_) => Ok(table),
            Err(fault) => Err(fault.text()),
        });
        match whole {
            Ok(table) => self.table.insert(key, table),
            Err(why) => self.leave(&component, &why),
        }
    }

    fn data(&mut self, loader: &Component) {
        let mut data = Node::empty();
        if let Some(workers) = loader.get("num_workers").and_then(Value::as_int) {
            data.insert("workers", Node::from(workers.max(1)));
        }
        if let Some(dataset) = loader.get("dataset").and_then(Value::as_component) {
            if let Some(rate) =
                dataset.get("cache_rate").and_then(Value::as_float).filter(|_| dataset.name() == "CacheDataset")
            {
                data.insert(
                    "cache",
                    Node::from_toml(toml::toml! { rate = rate }.into(), &hearth_registry::Origin::Unknown),
                );
            }
            let what = "the lists of cases are not part of a recipe: give them by --data";
            self.left_out.push(format!("{}: {what}", dataset.id));
        }
        self.table.insert("data", data);
    }

    fn inferer(&mut self, evaluator: &Component) {
        let Some(inferer) = evaluator.get("inferer").and_then(Value::as_component).cloned() else { return };
        match super::evaluator::inferer(evaluator) {
            Ok(built) => {
                let without = ["device", "sw_device", "progress", "cache_roi_weight_map", "cpu_thresh"];
                let table = if inferer.args.is_empty() {
                    Ok(Node::named(built.name()))
                } else {
                    table(&inferer, built.name(), &without, false)
                };
                if let Ok(table) = table {
                    self.table.insert("inferer", table);
                }
            }
            Err(fault) => self.left_out.push(fault.to_string()),
        }
    }

    /// The decisions of the post-processing: the task segmentation already includes softmax and argmax.
    fn post(&mut self, evaluator: &Component) {
        let mut steps = Vec::new();
        flatten(evaluator.get("postprocessing"), &mut steps);
        let truth = |step: &Component, key: &str| {
            let given = step.get(key);
            given.and_then(|given| given.as_slice().and_then(<[Value]>::first).or(Some(given))).and_then(Value::truth)
                == Some(true)
        };
        let regions = steps.iter().any(|step| is(step, &["Activations"]) && truth(step, "sigmoid"));
        let task = if regions { "Regions" } else { "Segmentation" };
        self.table.insert("task", Node::named(task));
        for step in steps {
            if !is(&step, &["Activations", "AsDiscrete", "Invert", "SaveImage", "EnsureType", "ToTensor", "CastToType"])
            {
                self.leave(&step, "predictions are made by the task's own steps");
            }
        }
    }

    /// The tables of a chain's transforms.
    fn chain(&mut self, value: Option<&Value>) -> Vec<toml::Value> {
        let mut list = Vec::new();
        flatten(value, &mut list);
        let registry = Registry::<dyn Transform>::new();
        let mut tables = Vec::new();
        for component in list {
            if is(&component, &["ToTensor", "ToDevice", "EnsureType", "ToNumpy", "CastToType"]) {
                continue;
            }
            let mut bases = base_names(component.name()).into_iter();
            let entry = bases.find_map(|base| registry.entries().iter().find(|entry| entry.name == base));
            let Some(entry) = entry else {
                self.leave(&component, "is a transform that is not supported");
                continue;
            };
            let without = [
                "meta_keys",
                "meta_key_postfix",
                "track_meta",
                "overwriting",
                "dtype",
                "image_only",
                "lazy",
                "device",
                "ensure_channel_first",
                "data_type",
            ];
            let general = |reader: &Value| matches!(reader, Value::Text(name) if name.to_lowercase() == "itkreader");
            let drops_reader = component.get("reader").is_some_and(general);
            let built =
                table(&component, entry.name, &without, false).map_err(|fault| fault.what).and_then(|mut table| {
                    if drops_reader {
                        table.remove("reader");
                    }
                    match registry.build(&table) {
                        Ok(_) => Ok(table),
                        Err(fault) => Err(fault.text()),
                    }
                });
            match built {
                Ok(table) => tables.push(table.to_toml()),
                Err(why) => self.leave(&component, &why),
            }
        }
        tables
    }

    fn weights(&mut self, engine: &Component, effects: &[Effect], network: &Component) -> Outcome<Option<Vec<u8>>> {
        let mut loaders: Vec<Arc<Component>> = components(engine.get("val_handlers")).unwrap_or_default();
        loaders.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Load { loader, .. } => Some(loader.clone()),
            _ => None,
        }));
        let Some(loader) = loaders.into_iter().find(|handler| handler.name() == "CheckpointLoader") else {
            return Ok(None);
        };
        let path = loader.get("load_path").and_then(Value::as_str).map(|path| self.bundle.root().join(path));
        let Some(path) = path.filter(|path: &PathBuf| path.is_file()) else {
            self.leave(&loader, "the weights are missing");
            return Ok(None);
        };
        let device = hearth_data::host_device();
        let mut networks = Networks::default();
        let root = self.bundle.root();
        let loads = Loads::new(&loader, root).map_err(|faults| super::run::all(&faults))?;
        networks.load(&loads, root, &device).while_doing(|| format!("the weights {}", path.display()))?;
        Ok(Some(weights::to_bytes(networks.get(network, &device)?)?))
    }

    fn finish(mut self, network: &Component, name: &str, weights: Option<Vec<u8>>) -> Outcome<Converted> {
        let metadata = self.bundle.metadata().cloned().unwrap_or_default();
        let classes = network.get("out_channels").and_then(Value::as_int).unwrap_or(0);
        let labels: Vec<String> = metadata.labels().into_values().collect();
        if labels.len() as i64 == classes && classes > 0 {
            self.table.insert("labels", Node::from(toml::Value::from(labels)));
        }
        let title = metadata.name.unwrap_or_else(|| name.to_owned());
        self.table.insert("title", Node::from(title.as_str()));
        if self.table.get("task").is_none() {
            self.table.insert("task", Node::named("Segmentation"));
        }
        for key in ["loss", "optimizer"] {
            if self.table.get(key).is_none() {
                let name = if key == "loss" { "DiceCELoss" } else { "AdamW" };
                self.left_out.push(format!("{key}: {name} stands in its place"));
                let table = Node::named(name);
                self.table.insert(
                    key,
                    if key == "loss" { table.with("to_onehot_y", true).with("softmax", true) } else { table },
                );
            }
        }
        let text = toml::to_string_pretty(&self.ordered()).map_err(RecipeError::from_error)?;
        let version = metadata.version.map(|version| format!(" {version}")).unwrap_or_default();
        let text = format!("# From the MONAI bundle {title}{version}, config {name}.\n{text}");
        let document = Document::parse("the recipe", text.clone())?;
        if let Err(fault) = Recipe::read(&document) {
            self.left_out.push(format!("the recipe needs a change before it trains: {}", fault.text()));
        }
        Ok(Converted { recipe: text, weights, left_out: self.left_out })
    }

    /// The table with plain values before tables, as TOML requires.
    fn ordered(&self) -> toml::Value {
        let order = [
            "title",
            "task",
            "labels",
            "transforms",
            "data",
            "network",
            "loss",
            "optimizer",
            "schedule",
            "training",
            "inferer",
        ];
        let mut out = toml::Table::new();
        for key in order {
            if let Some(node) = self.table.get(key) {
                out.insert(key.to_owned(), node.to_toml());
            }
        }
        toml::Value::Table(out)
    }
}

/// Removes explicit `None` values: a recipe leaves such keys out.
fn drop_nothing(table: &mut Node) {
    let keys: Vec<String> = table.fields().iter().map(|field| field.key.clone()).collect();
    for key in keys {
        if table.get(&key).is_some_and(|node| matches!(node.value, hearth_registry::Value::Nothing)) {
            table.insert(&key, Node::from("null"));
        }
    }
}

fn flatten(value: Option<&Value>, out: &mut Vec<Arc<Component>>) {
    match value {
        Some(Value::Component(component)) if component.name() == "Compose" => flatten(component.get("transforms"), out),
        Some(Value::Component(component)) => out.push(component.clone()),
        Some(other) => other.as_slice().unwrap_or_default().iter().for_each(|item| flatten(Some(item), out)),
        None => {}
    }
}

/// Joins two chains: steps only for training are marked, random steps need no mark.
fn joined(train: Vec<toml::Value>, validation: &[toml::Value]) -> Vec<toml::Value> {
    if validation.is_empty() {
        return train;
    }
    let mut out: Vec<toml::Value> = Vec::new();
    let mut rest = validation;
    for step in train {
        let shared = rest.iter().position(|other| *other == step);
        match shared {
            Some(place) => {
                out.extend(rest[..place].iter().map(|step| marked(step, "validation")));
                rest = &rest[place + 1..];
                out.push(step);
            }
            None => {
                let random =
                    step.get("name").and_then(toml::Value::as_str).is_some_and(|name| name.starts_with("Rand"));
                out.push(if random { step } else { marked(&step, "train") });
            }
        }
    }
    out.extend(rest.iter().map(|step| marked(step, "validation")));
    out
}

fn marked(step: &toml::Value, chain: &str) -> toml::Value {
    let mut step = step.clone();
    if let toml::Value::Table(table) = &mut step {
        table.insert("only".to_owned(), chain.into());
    }
    step
}
