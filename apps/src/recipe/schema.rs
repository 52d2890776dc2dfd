//! What a recipe says, typed.

use serde::{Deserialize, Serialize};

use super::document::Document;
use crate::error::{Failure, Outcome};

/// A whole recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What is segmented; names the run.
    pub task: String,
    /// The classes, the background first.
    pub labels: Vec<String>,
    /// The training chain. `only = "train"` or `"validation"` keeps a transform out of the other chain.
    pub transforms: Vec<toml::Table>,
    /// The data set's use.
    #[serde(default)]
    pub data: Data,
    /// The network.
    pub network: toml::Table,
    /// The loss.
    pub loss: toml::Table,
    /// The optimizer, with its learning rate.
    pub optimizer: toml::Table,
    /// How the learning rate changes.
    #[serde(default)]
    pub schedule: toml::Table,
    /// The training loop.
    #[serde(default)]
    pub training: Training,
    /// How a whole volume is predicted.
    #[serde(default)]
    pub inferer: toml::Table,
    /// The metric that decides which checkpoint is best.
    #[serde(default)]
    pub metric: Metric,
    /// Plugins, in the order in which they are called.
    #[serde(default = "PluginEntry::usual")]
    pub plugins: Vec<PluginEntry>,
    /// Built-in handlers beside those that every run has.
    #[serde(default)]
    pub handlers: Vec<HandlerEntry>,
}

/// How the data set is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// Which labelled cases validate.
    pub validation: Validation,
    /// What is kept in memory.
    pub cache: Cache,
    /// Threads that prepare batches; 0 prepares them in the training thread's gaps.
    pub workers: usize,
}

/// Which labelled cases validate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// The last so many of the list.
    Last(usize),
    /// This part of the list, drawn by the seed.
    Fraction(f64),
}

impl Default for Validation {
    fn default() -> Self {
        Validation::Fraction(0.2)
    }
}

/// What is kept in memory after the deterministic transforms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Which part of the cases, 0 to 1.
    pub rate: f64,
    /// At most so many cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num: Option<usize>,
    /// Threads that fill it.
    pub workers: usize,
    /// Where it lives: `host`, or `same` for the device that trains.
    pub device: CacheDevice,
}

impl Default for Cache {
    fn default() -> Self {
        Self { rate: 1.0, num: None, workers: 2, device: CacheDevice::Host }
    }
}

/// Where a cache lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheDevice {
    /// In this machine's memory.
    #[default]
    Host,
    /// On the device that trains.
    Same,
}

/// The training loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Epochs to train.
    pub epochs: u64,
    /// Cases in a batch; each may give several crops.
    pub batch_size: usize,
    /// Validate after every so many epochs.
    pub val_interval: u64,
    /// The seed every random draw is keyed by.
    pub seed: u64,
    /// `fp32`, `bf16`, `fp16`, or `auto`: fp32 on a processor, fp16 on a card.
    pub precision: PrecisionWord,
    /// `cpu`, `cuda:0`, `vulkan`, `rocm:0`, `metal`, `auto`.
    pub device: String,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            epochs: 100,
            batch_size: 2,
            val_interval: 1,
            seed: 0,
            precision: PrecisionWord::Fp32,
            device: "auto".into(),
        }
    }
}

/// How exact the forward pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionWord {
    /// 32-bit floats.
    Fp32,
    /// bfloat16 where it is safe.
    Bf16,
    /// 16-bit floats where it is safe, and a scaled loss.
    Fp16,
    /// fp32 on a processor, fp16 on a card.
    Auto,
}

/// The metric that decides which checkpoint is best: MeanDice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metric {
    /// Whether class 0 counts.
    pub include_background: bool,
}

/// A plugin and what it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// Its name.
    pub name: String,
    /// Its library, or the folder that holds it; otherwise it is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<std::path::PathBuf>,
    /// Its options.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub options: toml::Table,
}

/// A built-in handler; every key but `name` is its option.
pub type HandlerEntry = toml::Table;

impl PluginEntry {
    /// What a run has unless its recipe says otherwise.
    fn usual() -> Vec<Self> {
        ["validation", "stats", "checkpoint"]
            .map(|name| Self { name: name.into(), path: None, options: toml::Table::new() })
            .to_vec()
    }
}

impl Recipe {
    /// Reads a document and checks its values.
    pub fn read(document: &Document) -> Outcome<Self> {
        let recipe: Self = document.read()?;
        recipe.check(document)?;
        Ok(recipe)
    }

    /// The recipe as TOML, every default written out.
    pub fn to_toml(&self) -> Outcome<String> {
        toml::to_string(self).map_err(|error| Failure::from(error).context("this recipe cannot be written as TOML"))
    }

    fn check(&self, document: &Document) -> Outcome {
        let demand = |holds: bool, path: &str, message: String| {
            if holds { Ok(()) } else { Err(document.error_at(path, message)) }
        };
        let (data, training) = (&self.data, &self.training);
        demand(self.labels.len() >= 2, "labels", "name at least the background and one class".into())?;
        demand(!self.transforms.is_empty(), "transforms", "a recipe needs at least LoadImage".into())?;
        demand(training.epochs >= 1, "training.epochs", format!("{} epochs are none; give 1 or more", training.epochs))?;
        demand(training.batch_size >= 1, "training.batch_size", "a batch holds at least 1 case".into())?;
        demand(training.val_interval >= 1, "training.val_interval", "give 1 or more epochs".into())?;
        demand(
            (0.0..=1.0).contains(&data.cache.rate),
            "data.cache.rate",
            format!("{} is not a part; give 0 to 1", data.cache.rate),
        )?;
        match data.validation {
            Validation::Last(n) => demand(n >= 1, "data.validation", "at least 1 case validates".into())?,
            Validation::Fraction(part) => demand(
                part > 0.0 && part < 1.0,
                "data.validation",
                format!("{part} is not a part of the cases; give more than 0 and less than 1"),
            )?,
        }
        let lr = self.optimizer.get("lr").and_then(|lr| lr.as_float().or(lr.as_integer().map(|lr| lr as f64)));
        match lr {
            None => return Err(document.error_at("optimizer.lr", "the learning rate `lr` is missing, or not a number")),
            Some(lr) => demand(
                lr.is_finite() && lr > 0.0,
                "optimizer.lr",
                format!("a learning rate of {lr} cannot train; give a number above 0"),
            )?,
        }
        for (index, plugin) in self.plugins.iter().enumerate() {
            let twice = self.plugins[..index].iter().any(|other| other.name == plugin.name);
            demand(!twice, &format!("plugins.{index}.name"), format!("the plugin {:?} is listed twice", plugin.name))?;
        }
        for (index, transform) in self.transforms.iter().enumerate() {
            let path = format!("transforms.{index}");
            demand(transform.get("name").is_some_and(toml::Value::is_str), &path, "a transform needs a `name`".into())?;
            let only = transform.get("only").map(|only| only.as_str().unwrap_or(""));
            demand(
                matches!(only, None | Some("train" | "validation")),
                &format!("{path}.only"),
                "expected \"train\" or \"validation\"".into(),
            )?;
        }
        for (index, handler) in self.handlers.iter().enumerate() {
            let named = handler.get("name").is_some_and(toml::Value::is_str);
            demand(named, &format!("handlers.{index}"), "a handler needs a `name`".into())?;
        }
        Ok(())
    }
}
