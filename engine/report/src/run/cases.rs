//! The measured cases of `hearth evaluate -o` and of each fold of a cross-validation.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::confusion::Confusion;
use super::files::{number, numbers, object, word};
use crate::error::ReportError;

/// The measured cases of a run.
#[derive(Clone, Debug)]
pub struct Cases {
    /// The file they come from.
    pub source: PathBuf,
    /// The measured runs, as they were given; empty if the file does not name them.
    pub runs: Vec<String>,
    /// The measured checkpoint.
    pub checkpoint: Option<String>,
    /// The cases, and the reason for the choice.
    pub measured: Option<String>,
    /// The grid of the comparison.
    pub grid: Option<String>,
    /// The metrics, the key metric first.
    pub metrics: Vec<CaseMetric>,
    /// The cases, in the order of the file.
    pub rows: Vec<CaseRow>,
    /// The confusion matrix of the classes, if the file has one.
    pub confusion: Option<Confusion>,
}

/// A metric of cases.
#[derive(Clone, Debug)]
pub struct CaseMetric {
    /// Its name in the recipe.
    pub name: String,
    /// MONAI's name for it.
    pub kind: Option<String>,
    /// Whether a higher value is better.
    pub higher_is_better: bool,
    /// Its value over all cases.
    pub value: Option<f64>,
    /// The classes with their means; empty if it has no value for each class.
    pub classes: Vec<(String, Option<f64>)>,
    /// For each class: the number of cases without a value.
    pub left_out: Vec<u64>,
    /// For each class: the number of cases that count the diagonal of the image.
    pub penalised: Vec<u64>,
}

/// A case.
#[derive(Clone, Debug)]
pub struct CaseRow {
    /// Its name.
    pub case: String,
    /// For each metric: its value.
    pub values: Vec<Option<f64>>,
    /// For each metric: its value for each class.
    pub classes: Vec<Vec<Option<f64>>>,
}

impl CaseRow {
    /// The value of the key metric.
    pub fn key(&self) -> Option<f64> {
        self.values.first().copied().flatten().filter(|value| !value.is_nan())
    }
}

impl Cases {
    /// Reads `report.json` of `hearth evaluate -o`, or `validation.json` of a fold; `None` if there is
    /// no such file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ReportError> {
        let advice = "write it again: hearth evaluate RUN --data DIR -o DIR --overwrite";
        let Some(value) = object(path, advice)? else { return Ok(None) };
        if !value["cases"].is_array() || !value["metrics"].is_object() {
            let what = "is not a report of `hearth evaluate`: it has no `cases` and `metrics`";
            return Err(ReportError::damaged(path, what, "give the report.json that `hearth evaluate -o DIR` writes"));
        }
        Ok(Some(Self::of(path, &value)))
    }

    fn of(path: &Path, value: &Value) -> Self {
        let key = value["key_metric"].as_str().unwrap_or_default();
        let mut metrics: Vec<CaseMetric> =
            value["metrics"].as_object().into_iter().flatten().map(|(name, one)| metric(name, one)).collect();
        metrics.sort_by_key(|metric| metric.name != key);
        let rows = value["cases"].as_array().into_iter().flatten().filter_map(|case| row(case, &metrics));
        Self {
            source: path.to_owned(),
            runs: value["runs"].as_array().into_iter().flatten().filter_map(word).collect(),
            checkpoint: word(&value["checkpoint"]),
            measured: word(&value["measured"]),
            grid: word(&value["grid"]),
            rows: rows.collect(),
            confusion: Confusion::of(&value["confusion"]),
            metrics,
        }
    }

    /// The key metric.
    pub fn key(&self) -> Option<&CaseMetric> {
        self.metrics.first()
    }

    /// The cases ordered by the key metric, the worst first; those without a value last.
    pub fn worst_first(&self) -> Vec<&CaseRow> {
        let higher = self.key().is_none_or(|key| key.higher_is_better);
        let mut rows: Vec<&CaseRow> = self.rows.iter().collect();
        rows.sort_by(|a, b| match (a.key(), b.key()) {
            (Some(a), Some(b)) if higher => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
        rows
    }
}

fn metric(name: &str, one: &Value) -> CaseMetric {
    let per_class = one["per_class"].as_object().into_iter().flatten();
    let classes: Vec<(String, Option<f64>)> = per_class.map(|(name, value)| (name.clone(), number(value))).collect();
    let counts = |of: &Value| {
        let counts = numbers(of);
        let count =
            |name: &String| counts.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count as u64);
        classes.iter().map(|(name, _)| count(name)).collect()
    };
    CaseMetric {
        name: name.to_owned(),
        kind: word(&one["metric"]),
        higher_is_better: one["better"].as_str() != Some("lower"),
        value: number(&one["value"]),
        left_out: counts(&one["left_out"]),
        penalised: counts(&one["penalised"]),
        classes,
    }
}

fn row(case: &Value, metrics: &[CaseMetric]) -> Option<CaseRow> {
    let of = |metric: &CaseMetric| &case["metrics"][&metric.name];
    let per_class = |metric: &CaseMetric| {
        metric.classes.iter().map(|(class, _)| number(&of(metric)["per_class"][class])).collect::<Vec<_>>()
    };
    Some(CaseRow {
        case: word(&case["case"])?,
        values: metrics.iter().map(|metric| number(&of(metric)["value"])).collect(),
        classes: metrics.iter().map(per_class).collect(),
    })
}
