//! `[metric]`: the metrics of validation and evaluation, and which of them decides the best checkpoint.

use std::fmt;
use std::sync::Arc;

use hearth_engine::Better;
use hearth_nn::metrics::{DiceMetric, MetricConfig};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::train_metrics::{PREFIX, TrainMetrics};
use crate::task::Task;
use hearth_registry::{Document, Fault, Node, Value, unknown};

/// The name of the mean Dice.
pub const MEAN_DICE: &str = "mean_dice";

const BACKGROUND: &str = "include_background";
const EMPTY: &str = "ignore_empty";
const KEY: &str = "key";

/// Column names of `metrics.csv` and field names of logs that metrics cannot use.
const TAKEN: [&str; 5] = ["epoch", "iteration", "learning_rate", "loss", "case"];

/// The metrics of a recipe: the mean Dice with two options (`[metric]` without tables), or several
/// metrics with chosen names (`[metric.NAME]`), one of them the key metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// The mean Dice.
    Dice {
        /// The metric that decides which checkpoint is best, also one of training batches; the mean Dice by
        /// default.
        key: Option<String>,
        /// Whether class 0 counts.
        include_background: bool,
        /// Whether cases without a class are skipped in its mean.
        ignore_empty: bool,
    },
    /// Metrics by name.
    Named {
        /// The metric that decides which checkpoint is best, also one of training batches; the first one by
        /// default.
        key: Option<String>,
        /// In the order of the recipe.
        metrics: Vec<(String, MetricConfig)>,
    },
}

impl Default for Metric {
    fn default() -> Self {
        Self::Dice { key: None, include_background: false, ignore_empty: true }
    }
}

impl Metric {
    /// The metrics of a task; the first one is the key metric. An empty list means the mean Dice.
    pub(super) fn of(usual: Vec<(&'static str, Node)>) -> Result<Self, Fault> {
        if usual.is_empty() {
            return Ok(Self::default());
        }
        let read = |(name, node): (&str, Node)| Ok((name.to_owned(), MetricConfig::new(&node)?));
        Ok(Self::Named { key: None, metrics: usual.into_iter().map(read).collect::<Result<_, Fault>>()? })
    }

    /// The metrics of a recipe: those of the task, if a recipe's table only names the key metric.
    pub(super) fn with_tables_of(self, usual: Vec<(&'static str, Node)>, written: &Node) -> Result<Self, Fault> {
        let only_key = written.fields().iter().all(|entry| entry.key == KEY);
        match self {
            Self::Dice { key, .. } if only_key && !usual.is_empty() => Ok(match Self::of(usual)? {
                Self::Named { metrics, .. } => Self::Named { key, metrics },
                dice @ Self::Dice { .. } => dice,
            }),
            metric => Ok(metric),
        }
    }

    /// The name of the key metric, if it is given.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Dice { key, .. } | Self::Named { key, .. } => key.as_deref(),
        }
    }

    /// An empty list of metrics.
    pub(super) fn none() -> Self {
        Self::Named { key: None, metrics: Vec::new() }
    }

    /// Whether nothing is measured.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Named { metrics, .. } if metrics.is_empty())
    }

    /// All metrics by name, the key metric first.
    pub fn list(&self) -> Vec<(String, MetricConfig)> {
        match self {
            Self::Dice { include_background, ignore_empty, .. } => {
                let (include_background, ignore_empty) = (*include_background, *ignore_empty);
                let dice = DiceMetric { include_background, ignore_empty, ..DiceMetric::default() };
                let config = MetricConfig::unchecked("DiceMetric", &dice, Arc::new(dice.clone()));
                vec![(MEAN_DICE.to_owned(), config)]
            }
            Self::Named { key, metrics } => {
                let is_key = |name: &String| key.as_ref() == Some(name);
                let (mut first, rest): (Vec<_>, Vec<_>) = metrics.iter().cloned().partition(|(name, _)| is_key(name));
                first.extend(rest);
                first
            }
        }
    }

    /// Whether higher or lower values of the key metric are better; `None` if unknown.
    pub fn better(&self) -> Option<Better> {
        let higher = self.list().first().and_then(|(_, config)| config.higher_is_better());
        higher.map(|higher| if higher { Better::Higher } else { Better::Lower })
    }

    /// Writes the default key metric explicitly.
    pub(super) fn fill_in(&mut self) {
        if let Self::Named { key, metrics } = self
            && let Some((first, _)) = metrics.first()
        {
            key.get_or_insert_with(|| first.clone());
        }
    }

    /// Includes the first region, which is not a background, unless the metric's table (one of
    /// `written`) says otherwise.
    pub(super) fn count_every_channel(&mut self, written: Option<&Node>) {
        let Self::Named { metrics, .. } = self else { return };
        for (name, config) in metrics {
            count_background(config, written.and_then(|tables| tables.get(name)));
        }
    }

    /// Checks the keys of the table before it is read.
    pub(super) fn check_keys(document: &Document) -> Result<(), Fault> {
        let Some(node) = document.root().get("metric") else { return Ok(()) };
        if let Value::List(_) = node.value {
            let message = "metrics are tables with names of your own: [metric.hd95], with `name` and its options";
            return Err(Fault::on(node, message));
        }
        let is_table = |node: &Node| matches!(node.value, Value::Table(_));
        let tables = node.fields().iter().any(|entry| is_table(&entry.node));
        for entry in node.fields() {
            let key = entry.key.as_str();
            let at_key = |message: String| Fault { origin: entry.origin.clone(), ..Fault::new(message) };
            if is_table(&entry.node) {
                check_name(key).map_err(at_key)?;
                continue;
            }
            match key {
                KEY => {}
                BACKGROUND | EMPTY if tables => {
                    let message = format!("{key:?} is an option of one metric: write it into its table, [metric.NAME]");
                    return Err(at_key(message));
                }
                BACKGROUND | EMPTY => {}
                _ => {
                    let known = if tables { &[KEY][..] } else { &[BACKGROUND, EMPTY, KEY] };
                    return Err(at_key(unknown("key", key, known)));
                }
            }
        }
        Ok(())
    }

    /// Checks that each metric suits the number of classes, and that the key metric can decide; it may be
    /// one of training batches.
    pub(super) fn check(
        &self,
        document: &Document,
        training: &TrainMetrics,
        task: &dyn Task,
        classes: usize,
    ) -> Result<(), Fault> {
        if self.is_none() {
            return Ok(());
        }
        let metrics = self.list();
        for (name, config) in &metrics {
            let Self::Named { .. } = self else {
                task.takes(config).map_err(|what| document.fault("metric", what))?;
                continue;
            };
            let place = format!("metric.{name}");
            config.check_for(classes).map_err(|error| document.located(&place, error.into()))?;
            task.takes(config).map_err(|what| document.fault(&format!("{place}.name"), what))?;
        }
        self.check_key(document, training, &metrics)
    }

    /// Checks that the key metric is measured, and that it can decide.
    fn check_key(
        &self,
        document: &Document,
        training: &TrainMetrics,
        metrics: &[(String, MetricConfig)],
    ) -> Result<(), Fault> {
        let of_training = training.list(self);
        let names: Vec<&str> = metrics.iter().chain(&of_training).map(|(name, _)| name.as_str()).collect();
        if let Some(key) = self.key().filter(|key| !names.contains(key)) {
            let listed = key.strip_prefix(PREFIX).filter(|name| names.contains(name));
            let message = match listed {
                Some(name) => format!("{key:?} is not measured: list it, training.metrics = [{name:?}]"),
                None => unknown("metric", key, &names),
            };
            return Err(document.fault("metric.key", message));
        }
        let (name, decides) = match training.key(self) {
            Some((name, better)) => (name, better.is_some()),
            None => (self.list().swap_remove(0).0, self.better().is_some()),
        };
        if !decides {
            let message = format!(
                "{name:?} cannot be the key metric: whether higher or lower values are better is unknown; choose another one with `key`"
            );
            let is_table = metrics.iter().any(|(own, _)| *own == name);
            let place = if is_table { format!("metric.{name}") } else { format!("metric.{KEY}") };
            return Err(document.fault(&place, message));
        }
        Ok(())
    }
}

/// Includes the first channel, unless the metric's table says otherwise.
pub(super) fn count_background(config: &mut MetricConfig, written: Option<&Node>) {
    if written.is_none_or(|table| table.get(BACKGROUND).is_none())
        && !config.includes_background()
        && let Ok(every) = config.with(BACKGROUND, true)
    {
        *config = every;
    }
}

/// Checks the name of a metric's table.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if [KEY, BACKGROUND, EMPTY].contains(&name) || TAKEN.contains(&name) || !name.chars().all(plain) {
        return Err(format!(
            "a metric cannot be called {name:?}: use letters, digits, - and _, and none of {}",
            [KEY, BACKGROUND, EMPTY].into_iter().chain(TAKEN).collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(())
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Dice { key, include_background, ignore_empty } => {
                if let Some(key) = key {
                    map.serialize_entry(KEY, key)?;
                }
                map.serialize_entry(BACKGROUND, include_background)?;
                map.serialize_entry(EMPTY, ignore_empty)?;
            }
            Self::Named { key, metrics } => {
                if let Some(key) = key {
                    map.serialize_entry(KEY, key)?;
                }
                for (name, config) in metrics {
                    map.serialize_entry(name, config)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Metric;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of metrics")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Metric, M::Error> {
                let (mut key, mut metrics) = (None, Vec::new());
                let (mut background, mut empty) = (None, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        KEY => key = Some(map.next_value()?),
                        BACKGROUND => background = Some(map.next_value()?),
                        EMPTY => empty = Some(map.next_value()?),
                        _ => metrics.push((name, map.next_value()?)),
                    }
                }
                if !metrics.is_empty() {
                    return Ok(Metric::Named { key, metrics });
                }
                let (include_background, ignore_empty) = (background.unwrap_or(false), empty.unwrap_or(true));
                Ok(Metric::Dice { key, include_background, ignore_empty })
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Whole {
        metric: Metric,
    }

    fn read(text: &str) -> Metric {
        toml::from_str::<Whole>(text).unwrap_or_else(|error| panic!("{error}")).metric
    }

    #[test]
    fn a_table_without_tables_is_the_mean_dice() {
        assert_eq!(read("[metric]"), Metric::default());
        let (name, config) = read("[metric]\ninclude_background = true").list().swap_remove(0);
        assert_eq!(name, "mean_dice");
        assert!(config.includes_background());
    }

    #[test]
    fn the_key_comes_first_and_brings_its_direction() {
        let text = "[metric]\nkey = \"hd\"\n[metric.dice]\nname = \"DiceMetric\"\n[metric.hd]\nname = \"HausdorffDistanceMetric\"";
        let metric = read(text);
        let names: Vec<String> = metric.list().into_iter().map(|(name, _)| name).collect();
        assert_eq!((names, metric.better()), (vec!["hd".to_owned(), "dice".to_owned()], Some(Better::Lower)));
        let whole = Whole { metric };
        let back = toml::to_string(&whole).map(|text| toml::from_str::<Whole>(&text));
        assert_eq!(back.map_err(|e| e.to_string()), Ok(Ok(whole)));
    }
}
