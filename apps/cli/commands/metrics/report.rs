//! Tables of the measured values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::measure::{self, Class, Measured, Rows};
use crate::table::{self, Lean, csv};

/// All measured values.
pub struct Report {
    metrics: Vec<String>,
    cases: Vec<(String, Rows)>,
    /// In how many predictions, and in how many labels, each class has voxels.
    sides: BTreeMap<Class, [usize; 2]>,
    /// Cases that could not be measured, and why.
    pub failed: Vec<(String, String)>,
    /// The number of cases with a voxel that `--ignore` names.
    ignoring: usize,
}

/// The note about cases with a distance to an empty region; `evaluate` prints it, too.
pub const PENALISED: &str =
    "have a distance to nothing and count the diagonal of the image; --empty skip leaves them out";

/// Mean and standard deviation of the values that are not NaN, and their number. A single value has no
/// deviation.
#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    std: f64,
    count: usize,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let std = if count > 1 { (squares / (count as f64 - 1.0)).sqrt() } else { f64::NAN };
        Self { mean, std, count }
    }
}

fn name(class: &Class) -> &str {
    match class {
        Class::Value(_, name) => name,
        Class::All => "all",
    }
}

/// A number for JSON; infinite values become text, NaN becomes null.
fn number(value: f64) -> Value {
    if value.is_infinite() { json!(if value > 0.0 { "inf" } else { "-inf" }) } else { json!(value) }
}

impl Report {
    /// An empty report.
    pub fn new(metrics: Vec<String>) -> Self {
        Self { metrics, cases: Vec::new(), sides: BTreeMap::new(), failed: Vec::new(), ignoring: 0 }
    }

    /// Adds a case.
    pub fn add(&mut self, case: &str, measured: Measured) {
        for (class, sides) in measured.sides {
            let [preds, labels] = self.sides.entry(class).or_default();
            *preds += usize::from(sides.pred);
            *labels += usize::from(sides.label);
        }
        self.ignoring += usize::from(measured.ignores);
        self.cases.push((case.to_owned(), measured.rows));
    }

    /// Whether cases were measured, and none of them has a voxel that `--ignore` names.
    pub fn ignores_nothing(&self) -> bool {
        self.ignoring == 0 && !self.cases.is_empty()
    }

    /// The classes that all predictions or all labels lack, though the other side has them: values of
    /// another numbering, or a network that never finds a class. Also files without any class.
    pub fn notes(&self) -> Vec<String> {
        let advice = "check that both number their classes alike (--labels, --regions)";
        let all = self.cases.len();
        let note = |(class, sides): (&Class, &[usize; 2])| {
            let name = name(class);
            match *sides {
                [0, count] if count > 0 => {
                    Some(format!("{name} is in the labels of {count} of {all} cases, and in no prediction; {advice}"))
                }
                [count, 0] if count > 0 => {
                    Some(format!("{name} is in the predictions of {count} of {all} cases, and in no label; {advice}"))
                }
                _ => None,
            }
        };
        let mut notes: Vec<String> = self.sides.iter().filter_map(note).collect();
        if all > 0 && self.cases.iter().all(|(_, rows)| rows.is_empty()) {
            let what = "no class was measured: the files hold background and ignored voxels alone";
            notes.push(format!("{what}; --include-background measures class 0, --labels names classes"));
        }
        notes
    }

    /// Classes in the order of their values, the whole image last.
    fn classes(&self) -> Vec<&Class> {
        let mut all: Vec<&Class> = self.cases.iter().flat_map(|(_, rows)| rows.keys()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn measured<'a>(&'a self, class: &'a Class, metric: usize) -> impl Iterator<Item = measure::Value> + 'a {
        self.cases.iter().filter_map(move |(_, rows)| rows.get(class)?.get(metric).copied().flatten())
    }

    fn values<'a>(&'a self, class: &'a Class, metric: usize) -> impl Iterator<Item = f64> + 'a {
        self.measured(class, metric).map(|measured| measured.value)
    }

    /// The number of cases that count the diagonal of the image because one of their masks is empty.
    fn penalised(&self, class: &Class, metric: usize) -> usize {
        self.measured(class, metric).filter(|measured| measured.penalised).count()
    }

    /// The number of cases without a value, and the number of all that have the class.
    fn left_out(&self, class: &Class, metric: usize) -> (usize, usize) {
        let (mut left, mut all) = (0, 0);
        for value in self.values(class, metric) {
            left += usize::from(value.is_nan());
            all += 1;
        }
        (left, all)
    }

    fn spread(&self, class: &Class, metric: usize) -> Spread {
        Spread::of(self.values(class, metric))
    }

    /// The mean over cases of each case's mean over its classes, as in MONAI's reduction `mean` and
    /// `hearth evaluate`; `None` if a metric does not measure classes.
    fn over_classes(&self, metric: usize) -> Option<f64> {
        let of_case = |(_, rows): &(String, Rows)| {
            let classes = rows.iter().filter(|(class, _)| **class != Class::All);
            Spread::of(classes.filter_map(|(_, values)| values.get(metric).copied().flatten()).map(|v| v.value)).mean
        };
        let over = Spread::of(self.cases.iter().map(of_case));
        (over.count > 0).then_some(over.mean)
    }

    /// A readable table, line by line.
    pub fn to_table(&self) -> Vec<String> {
        let cell = |value: Option<f64>| match value {
            None => String::new(),
            Some(value) if value.is_nan() => "-".to_owned(),
            Some(value) => format!("{value:.4}"),
        };
        let mut columns = vec![("case", Lean::Left), ("class", Lean::Left)];
        columns.extend(self.metrics.iter().map(|metric| (metric.as_str(), Lean::Right)));
        let mut rows = Vec::new();
        for (case, measured) in &self.cases {
            for (class, values) in measured {
                let head = [case.clone(), name(class).to_owned()];
                rows.push(
                    head.into_iter().chain(values.iter().map(|value| cell(value.map(|v| v.value)))).collect::<Vec<_>>(),
                );
            }
        }
        let classes = self.classes();
        let mean: fn(Spread) -> f64 = |spread| spread.mean;
        let std: fn(Spread) -> f64 = |spread| spread.std;
        for (what, of) in [("mean", mean), ("std", std)] {
            for class in &classes {
                let each = (0..self.metrics.len()).map(|metric| {
                    let some = self.values(class, metric).next().is_some();
                    cell(some.then(|| of(self.spread(class, metric))))
                });
                rows.push([what.to_owned(), name(class).to_owned()].into_iter().chain(each).collect());
            }
        }
        if classes.iter().filter(|class| ***class != Class::All).count() > 1 {
            let each = (0..self.metrics.len()).map(|metric| cell(self.over_classes(metric)));
            rows.push(["mean".to_owned(), "of all".to_owned()].into_iter().chain(each).collect());
        }
        let mut lines = table::lines(&columns, &rows);
        let cases = if self.cases.len() == 1 { "1 case".to_owned() } else { format!("{} cases", self.cases.len()) };
        lines.push(format!(
            "{cases}; - is a class that the case does not have, or a rate without a denominator; it is excluded from means"
        ));
        for class in &classes {
            for (at, metric) in self.metrics.iter().enumerate() {
                let (left, all) = self.left_out(class, at);
                let penalised = self.penalised(class, at);
                if penalised > 0 {
                    let name = name(class);
                    lines.push(format!("{metric} of {name}: {penalised} of {all} cases {PENALISED}"));
                }
                if left > 0 && left < all {
                    let name = name(class);
                    lines.push(format!(
                        "{metric} of {name}: {left} of {all} cases have no value and are excluded from its mean"
                    ));
                }
            }
        }
        lines.extend(self.notes());
        lines
    }

    /// The report as CSV: a line per case and class.
    pub fn to_csv(&self) -> Vec<String> {
        let mut lines = vec![csv(["case", "class"].into_iter().chain(self.metrics.iter().map(String::as_str)))];
        for (case, measured) in &self.cases {
            for (class, values) in measured {
                let values = values.iter().map(|value| value.map_or_else(String::new, |v| v.value.to_string()));
                lines.push(csv([case.clone(), name(class).to_owned()].into_iter().chain(values)));
            }
        }
        lines
    }

    /// The whole report as JSON.
    pub fn to_json(&self, alone: &[(PathBuf, &'static str)]) -> Value {
        let of = |values: &[Option<measure::Value>]| -> Map<String, Value> {
            let named = self.metrics.iter().zip(values);
            named.filter_map(|(metric, value)| Some((metric.clone(), number((*value)?.value)))).collect()
        };
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|(case, rows)| {
                let classes: BTreeMap<&str, _> = rows.iter().map(|(class, values)| (name(class), of(values))).collect();
                json!({ "case": case, "classes": classes })
            })
            .collect();
        let mut summary = Map::new();
        for class in self.classes() {
            let mut metrics = Map::new();
            for (at, metric) in self.metrics.iter().enumerate() {
                let spread = self.spread(class, at);
                if self.values(class, at).next().is_some() {
                    let whole = json!({
                        "mean": number(spread.mean), "std": number(spread.std), "count": spread.count,
                        "left_out": self.left_out(class, at).0, "penalised": self.penalised(class, at),
                    });
                    metrics.insert(metric.clone(), whole);
                }
            }
            summary.insert(name(class).to_owned(), metrics.into());
        }
        let alone: Vec<Value> =
            alone.iter().map(|(path, lacks)| json!({ "file": path.display().to_string(), "has_no": lacks })).collect();
        let failed: Vec<Value> = self.failed.iter().map(|(case, why)| json!({ "case": case, "error": why })).collect();
        let notes = self.notes();
        json!({ "cases": cases, "classes": summary, "unpaired": alone, "failed": failed, "notes": notes })
    }
}
