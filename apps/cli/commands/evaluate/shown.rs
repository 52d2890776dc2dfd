//! Results of an evaluation, as a table, JSON and CSV.

use std::collections::BTreeMap;

use hearth_train::CaseRow;
use serde_json::{Map, Value, json};

use super::Grid;
use crate::commands::metrics::PENALISED;
use crate::out;
use crate::recipe::metric::MEAN_DICE;
use crate::run::Empty;
use crate::table::csv;
use crate::terminal::bold;

/// The results of an evaluation.
pub struct Evaluated {
    /// The metrics, the key metric first.
    pub metrics: Vec<Measured>,
    /// The confusion matrix, for exclusive classes.
    pub confusion: Option<Confusion>,
    /// The evaluated checkpoint.
    pub checkpoint: String,
    /// A description of the test-time augmentation, if any.
    pub augmentation: Option<String>,
    /// The evaluated cases, and the reason for the choice.
    pub cases: String,
    /// The grid of the comparison.
    pub grid: Grid,
    /// Whether predictions are maps, which have another grid in their files.
    pub maps: bool,
    /// How a distance to an empty region is counted.
    pub empty: Empty,
}

/// The confusion matrix of the classes.
pub struct Confusion {
    /// The classes.
    pub labels: Vec<String>,
    /// `counts[truth][prediction]`.
    pub counts: Vec<Vec<u64>>,
    /// The unit of the counts.
    pub unit: &'static str,
}

impl Confusion {
    /// A line for each true class, a column for each predicted one.
    pub fn to_csv(&self) -> Vec<String> {
        let head = format!("true class, {} by predicted class", self.unit);
        let mut lines = vec![csv(std::iter::once(head.as_str()).chain(self.labels.iter().map(String::as_str)))];
        for (label, counts) in self.labels.iter().zip(&self.counts) {
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            lines.push(csv(std::iter::once(label.as_str()).chain(counts.iter().map(String::as_str))));
        }
        lines
    }
}

/// The results of one metric.
pub struct Measured {
    /// Its name in the recipe.
    pub name: String,
    /// MONAI's name for it.
    pub kind: &'static str,
    /// Whether a higher value is better, if known.
    pub higher_is_better: Option<bool>,
    /// The value over all cases.
    pub value: f64,
    /// The names of the measured classes, if each has a value.
    pub classes: Vec<String>,
    /// The values of each case.
    pub rows: Vec<CaseRow>,
    /// The number of cases of each class where the diagonal of the image replaces a distance to an
    /// empty region.
    pub penalised: Vec<usize>,
}

/// The number of rows above which only means are printed.
const MANY: usize = 200;

impl Measured {
    /// The mean of one class over the cases that have it.
    fn class_mean(&self, class: usize) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.values.get(class)).map(|value| f64::from(*value)))
    }

    /// Cases without a value for a class, which its mean excludes.
    fn left_out(&self, class: usize) -> usize {
        self.rows.iter().filter(|row| row.values.get(class).is_some_and(|value| value.is_nan())).count()
    }

    fn per_class(&self, value: impl Fn(usize) -> f64) -> Map<String, Value> {
        self.classes.iter().enumerate().map(|(class, name)| (name.clone(), number(value(class)))).collect()
    }

    fn counts(&self, count: impl Fn(usize) -> usize) -> Map<String, Value> {
        self.classes.iter().enumerate().map(|(class, name)| (name.clone(), json!(count(class)))).collect()
    }

    fn to_json(&self) -> Value {
        let better = self.higher_is_better.map(|higher| if higher { "higher" } else { "lower" });
        let per_class = self.per_class(|class| self.class_mean(class));
        let left_out = self.counts(|class| self.left_out(class));
        let penalised = self.counts(|class| self.penalised[class]);
        json!({
            "metric": self.kind, "value": number(self.value), "better": better, "per_class": per_class,
            "left_out": left_out, "penalised": penalised,
        })
    }

    fn row_to_json(&self, row: &CaseRow) -> Value {
        let per_class = self.per_class(|class| row.values.get(class).map_or(f64::NAN, |value| f64::from(*value)));
        json!({ "value": number(row_mean(row)), "per_class": per_class })
    }

    /// The rows to print: of many regions of slides, the means per slide.
    fn printed(&self) -> Vec<CaseRow> {
        if self.rows.len() <= MANY {
            return self.rows.clone();
        }
        let slide = |row: &CaseRow| row.case.split(" row ").next().unwrap_or_default().to_owned();
        let mut slides: BTreeMap<String, Vec<&CaseRow>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| !row.values.is_empty()) {
            slides.entry(slide(row)).or_default().push(row);
        }
        let of = |(case, rows): (String, Vec<&CaseRow>)| {
            let columns = rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
            let column =
                |index: usize| mean(rows.iter().filter_map(|row| row.values.get(index)).map(|v| f64::from(*v)));
            CaseRow { case, values: (0..columns).map(|index| column(index) as f32).collect() }
        };
        slides.into_iter().map(of).collect()
    }

    /// Prints the values of each case, and their means.
    fn print(&self) {
        let rows = self.printed();
        let width = rows.iter().map(|row| row.case.len()).max().unwrap_or(0).max("mean".len());
        let heads: String = self.classes.iter().map(|name| format!("  {name:>10}")).collect();
        out!("{}", bold(&format!("{:width$}{heads}  {:>10}", "case", "mean")));
        for row in rows.iter().filter(|row| !row.values.is_empty()) {
            let values: String =
                self.classes.iter().zip(&row.values).map(|(_, value)| cell(f64::from(*value))).collect();
            out!("{:width$}{values}{}", row.case, cell(row_mean(row)));
        }
        let means: String = (0..self.classes.len()).map(|class| cell(self.class_mean(class))).collect();
        out!("{}", bold(&format!("{:width$}{means}{}", "mean", cell(self.value))));
        if rows.len() < self.rows.len() {
            let (rows, all) = (rows.len(), self.rows.len());
            out!("{rows} means of {all} rows, which --csv and -o have");
        }
        for (class, name) in self.classes.iter().enumerate() {
            let (left, all) = (self.left_out(class), self.rows.len());
            if let penalised @ 1.. = self.penalised[class] {
                out!("{name}: {penalised} of {all} cases {PENALISED}");
            }
            if left > 0 {
                out!("{left} of {all} cases have no value for {name} and are excluded from its mean");
            }
        }
    }
}

impl Evaluated {
    /// The value that selects the best checkpoint.
    pub fn key_value(&self) -> f64 {
        self.metrics.first().map_or(f64::NAN, |key| key.value)
    }

    /// The mean of the key metric for each class.
    pub fn class_values(&self) -> Vec<(&str, f64)> {
        let Some(key) = self.metrics.first() else { return Vec::new() };
        key.classes.iter().enumerate().map(|(class, name)| (name.as_str(), key.class_mean(class))).collect()
    }

    /// The mean of the key metric for one class, by name.
    pub fn class_value(&self, class: &str) -> Option<f64> {
        self.class_values().into_iter().find(|(name, _)| *name == class).map(|(_, value)| value)
    }

    /// The results as one JSON object.
    pub fn to_json(&self) -> Value {
        let metrics: Map<String, Value> = self.metrics.iter().map(|one| (one.name.clone(), one.to_json())).collect();
        let key = self.metrics.first();
        let mut whole = json!({
            "checkpoint": self.checkpoint, "tta": self.augmentation, "measured": self.cases, "grid": self.grid_word(),
            "key_metric": key.map(|key| &key.name), "empty": self.empty_word(),
            "metrics": metrics,
        });
        if let Some(Confusion { labels, counts, unit }) = &self.confusion {
            whole["confusion"] = json!({ "labels": labels, "counts": counts, "unit": unit });
        }
        let rows = key.map_or(&[][..], |key| &key.rows);
        let mut cases: Vec<Value> = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let of = |one: &Measured| Some((one.name.clone(), one.row_to_json(one.rows.get(index)?)));
            let metrics: Map<String, Value> = self.metrics.iter().filter_map(of).collect();
            cases.push(json!({ "case": row.case, "metrics": metrics }));
        }
        // The mean Dice also has keys of its own, because most runs measure it.
        if let Some(dice) = self.metrics.iter().find(|one| one.name == MEAN_DICE) {
            whole["mean_dice"] = number(dice.value);
            whole["per_class"] = Value::Object(dice.per_class(|class| dice.class_mean(class)));
            for (case, row) in cases.iter_mut().zip(&dice.rows) {
                let one = dice.row_to_json(row);
                (case["mean_dice"], case["dice"]) = (one["value"].clone(), one["per_class"].clone());
            }
        }
        whole["cases"] = Value::Array(cases);
        whole
    }

    /// A line per case and class, and a column per metric; a metric without classes has the class
    /// `all`.
    pub fn to_csv(&self) -> Vec<String> {
        let named = ["case", "class"].into_iter().chain(self.metrics.iter().map(|one| one.name.as_str()));
        let mut lines = vec![csv(named)];
        let mut classes: Vec<&str> = Vec::new();
        for one in &self.metrics {
            let own =
                if one.classes.is_empty() { vec!["all"] } else { one.classes.iter().map(String::as_str).collect() };
            classes.extend(own.into_iter().filter(|class| !classes.contains(class)).collect::<Vec<_>>());
        }
        let cases = self.metrics.first().map_or(&[][..], |key| &key.rows);
        for (index, row) in cases.iter().enumerate() {
            for class in &classes {
                let value = |one: &Measured| -> Option<f64> {
                    let row = one.rows.get(index)?;
                    let place = one.classes.iter().position(|name| name == class);
                    match place {
                        Some(place) => row.values.get(place).map(|value| f64::from(*value)),
                        None => (one.classes.is_empty() && *class == "all").then(|| row_mean(row)),
                    }
                };
                let values = self.metrics.iter().map(|one| {
                    value(one).filter(|value| !value.is_nan()).map_or_else(String::new, |value| value.to_string())
                });
                lines.push(csv([row.case.clone(), (*class).to_owned()].into_iter().chain(values)));
            }
        }
        lines
    }

    fn empty_word(&self) -> &'static str {
        match self.empty {
            Empty::Penalty => "penalty",
            Empty::Skip => "skip",
            Empty::Challenge => "challenge",
        }
    }

    fn grid_word(&self) -> &'static str {
        match self.grid {
            Grid::Network => "network",
            Grid::Original => "original",
        }
    }

    /// Prints a readable table.
    pub fn print(&self) {
        let augmented =
            self.augmentation.as_ref().map_or(String::new(), |words| format!(", with test-time augmentation: {words}"));
        let absent = "- is a class that the case does not have";
        if let [dice] = &self.metrics[..]
            && dice.name == MEAN_DICE
        {
            dice.print();
            out!("Dice of checkpoint {}{augmented}; {absent}", self.checkpoint);
            self.print_rule();
            return;
        }
        for (index, one) in self.metrics.iter().enumerate() {
            let better = one
                .higher_is_better
                .map_or("", |higher| if higher { ", higher is better" } else { ", lower is better" });
            let key = if index == 0 { ", the key metric" } else { "" };
            out!("{}", bold(&format!("{}: {}{key}{better}", one.name, one.kind)));
            one.print();
            out!("");
        }
        out!("checkpoint {}{augmented}; {absent}", self.checkpoint);
        self.print_rule();
    }

    fn print_rule(&self) {
        let grid = match self.grid {
            Grid::Network if self.maps => {
                "on the network's grid; --grid original compares what `hearth predict` writes"
            }
            Grid::Network => "as the network has them",
            Grid::Original => "on the images' own grids",
        };
        out!("{}, {grid}", self.cases);
    }
}

/// A number in JSON: NaN is `null`, infinite values are strings.
fn number(value: f64) -> Value {
    if value.is_infinite() { json!(value.to_string()) } else { json!(value) }
}

fn row_mean(row: &CaseRow) -> f64 {
    mean(row.values.iter().map(|value| f64::from(*value)))
}

fn cell(value: f64) -> String {
    if value.is_nan() { format!("  {:>10}", "-") } else { format!("  {value:>10.4}") }
}

/// The mean of the values that are not NaN.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|value| !value.is_nan()).fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}
