//! `training.metrics`: the metrics of training batches.

use std::fmt;

use hearth_engine::Better;
use hearth_nn::metrics::MetricConfig;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::metric::{Metric, check_name, count_background};
use crate::task::Task;
use hearth_registry::{Document, Fault, Value, unknown};

/// The key of a recipe.
const KEY: &str = "training.metrics";

/// The first part of the names under which the values are recorded.
pub(super) const PREFIX: &str = "train_";

/// The metrics of training batches, over all batches of an epoch (MONAI's `key_train_metric` and
/// `additional_metrics`). A metric `NAME` is recorded as `train_NAME`.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainMetrics {
    /// Metrics of `[metric]`, by name.
    Listed(Vec<String>),
    /// Metrics of their own, by name.
    Named(Vec<(String, MetricConfig)>),
}

impl Default for TrainMetrics {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl TrainMetrics {
    /// Whether nothing is measured.
    pub fn is_none(&self) -> bool {
        match self {
            Self::Listed(names) => names.is_empty(),
            Self::Named(metrics) => metrics.is_empty(),
        }
    }

    /// The metrics by the names under which they are recorded. `metric` is that of the recipe.
    pub fn list(&self, metric: &Metric) -> Vec<(String, MetricConfig)> {
        let recorded = |(name, config): (String, MetricConfig)| (format!("{PREFIX}{name}"), config);
        match self {
            Self::Listed(names) => {
                let all = metric.list();
                let find = |name: &String| all.iter().find(|(known, _)| known == name).cloned();
                names.iter().filter_map(find).map(recorded).collect()
            }
            Self::Named(metrics) => metrics.iter().cloned().map(recorded).collect(),
        }
    }

    /// The metrics that are not those of `[metric]`, by the keys of their tables.
    pub(super) fn own(&mut self) -> impl Iterator<Item = (String, &mut MetricConfig)> {
        let own = match self {
            Self::Listed(_) => None,
            Self::Named(metrics) => Some(metrics),
        };
        own.into_iter().flatten().map(|(name, config)| (format!("{KEY}.{name}"), config))
    }

    /// Includes the first region, which is not a background, in tables that do not say otherwise.
    pub(super) fn count_every_channel(&mut self, document: &Document) {
        for (place, config) in self.own() {
            count_background(config, Some(document.find(&place)));
        }
    }

    /// Checks the names of the tables before they are read.
    pub(super) fn check_keys(document: &Document) -> Result<(), Fault> {
        let metrics = document.root().get("training").and_then(|training| training.get("metrics"));
        let Some(node) = metrics.filter(|node| matches!(node.value, Value::Table(_))) else { return Ok(()) };
        for entry in node.fields() {
            let name = entry.key.as_str();
            if let Err(message) = check_name(name) {
                return Err(Fault { origin: entry.origin.clone(), ..Fault::new(message) });
            }
            if !matches!(entry.node.value, Value::Table(_)) {
                let message = format!(
                    "give a list of the names of [metric], or a table for each metric: [{KEY}.{name}], with `name` and \
                     its options"
                );
                return Err(Fault { origin: entry.origin.clone(), ..Fault::new(message) });
            }
        }
        Ok(())
    }

    /// Checks that each metric exists once, and suits the task and the number of classes.
    pub(super) fn check(
        &self,
        document: &Document,
        metric: &Metric,
        task: &dyn Task,
        classes: usize,
    ) -> Result<(), Fault> {
        if self.is_none() {
            return Ok(());
        }
        if task.generates() {
            let message = "where images are generated, there is no label to measure a training batch by: remove it";
            return Err(document.fault(KEY, message));
        }
        let validated: Vec<String> = metric.list().into_iter().map(|(name, _)| name).collect();
        let known: Vec<&str> = validated.iter().map(String::as_str).collect();
        match self {
            Self::Listed(names) => {
                for (index, name) in names.iter().enumerate() {
                    let place = format!("{KEY}.{index}");
                    if !known.contains(&name.as_str()) {
                        return Err(document.fault(&place, unknown("metric", name, &known)));
                    }
                    if names[..index].contains(name) {
                        return Err(document.fault(&place, format!("the metric {name:?} is listed twice")));
                    }
                }
            }
            Self::Named(metrics) => {
                for (name, config) in metrics {
                    let place = format!("{KEY}.{name}");
                    config.check_for(classes).map_err(|error| document.located(&place, error.into()))?;
                    task.takes(config).map_err(|what| document.fault(&format!("{place}.name"), what))?;
                }
            }
        }
        match self.list(metric).into_iter().find(|(name, _)| known.contains(&name.as_str())) {
            Some((name, _)) => {
                let message =
                    format!("its values are recorded as {name:?}, which [metric] has, too: rename one of them");
                Err(document.fault(KEY, message))
            }
            None => Ok(()),
        }
    }

    /// The metric that `[metric] key` names, if it is one of training batches, and which of its values are
    /// better.
    pub fn key(&self, metric: &Metric) -> Option<(String, Option<Better>)> {
        let key = metric.key()?;
        let (name, config) = self.list(metric).into_iter().find(|(name, _)| name == key)?;
        let better = |higher: bool| if higher { Better::Higher } else { Better::Lower };
        Some((name, config.higher_is_better().map(better)))
    }
}

impl Serialize for TrainMetrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Listed(names) => serializer.collect_seq(names),
            Self::Named(metrics) => serializer.collect_map(metrics.iter().map(|(name, config)| (name, config))),
        }
    }
}

impl<'de> Deserialize<'de> for TrainMetrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = TrainMetrics;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names of [metric], or tables of metrics")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<TrainMetrics, A::Error> {
                let mut listed = Vec::new();
                while let Some(name) = names.next_element()? {
                    listed.push(name);
                }
                Ok(TrainMetrics::Listed(listed))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<TrainMetrics, M::Error> {
                let mut metrics = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    metrics.push(entry);
                }
                Ok(TrainMetrics::Named(metrics))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Whole {
        #[serde(default)]
        metrics: TrainMetrics,
        #[serde(default)]
        metric: Metric,
    }

    fn read(text: &str) -> Whole {
        let whole: Whole = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let back = toml::to_string(&whole).map(|text| toml::from_str::<Whole>(&text));
        assert_eq!(back.map_err(|error| error.to_string()).as_ref(), Ok(&Ok(whole.clone())));
        whole
    }

    impl Whole {
        fn names(&self) -> Vec<String> {
            self.metrics.list(&self.metric).into_iter().map(|(name, _)| name).collect()
        }
    }

    #[test]
    fn a_list_takes_the_metrics_of_the_validation_and_tables_are_others() {
        assert!(read("").metrics.is_none());
        let whole = read("metrics = ['mean_dice']");
        assert_eq!(whole.names(), ["train_mean_dice"]);
        assert_eq!(whole.metrics.list(&whole.metric)[0].1, whole.metric.list()[0].1);
        let tables = "[metrics.a]\nname = 'MeanIoU'\n[metrics.b]\nname = 'DiceMetric'\n";
        assert_eq!(read(tables).names(), ["train_a", "train_b"]);
    }

    #[test]
    fn the_key_may_be_a_metric_of_training_batches() {
        let text = "metrics = ['hd']\n[metric]\nkey = 'train_hd'\n[metric.hd]\nname = 'HausdorffDistanceMetric'";
        let whole = read(text);
        assert_eq!(whole.metrics.key(&whole.metric), Some(("train_hd".to_owned(), Some(Better::Lower))));
        let whole = read(&text.replace("'train_hd'", "'hd'"));
        assert_eq!(whole.metrics.key(&whole.metric), None);
        // Also without a table.
        let whole = read("metrics = ['mean_dice']\n[metric]\nkey = 'train_mean_dice'");
        assert_eq!(whole.metrics.key(&whole.metric), Some(("train_mean_dice".to_owned(), Some(Better::Higher))));
    }
}
