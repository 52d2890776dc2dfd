//! What differs between two profiles: `hearth profile --compare BEFORE AFTER`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Failure, Outcome};
use crate::table::{self, Lean};
use crate::terminal::bold;
use crate::{note, out};

/// The rows of a table, at most.
const ROWS: usize = 12;
/// A change below this share of a step, or of the peak of memory, is not listed.
const LEAST: f64 = 0.005;

/// What is read of a profile's summary.json.
#[derive(Deserialize)]
struct Summary {
    step: Vec<Named>,
    #[serde(default)]
    kernels: Vec<Named>,
    #[serde(default)]
    layers: Vec<Layer>,
    memory: Option<Memory>,
    occupancy: Option<Occupancy>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    shape: String,
    count: f64,
    total: f64,
}

#[derive(Deserialize)]
struct Layer {
    path: String,
    /// Seconds of a forward pass, with the layers inside.
    mean: f64,
    /// Seconds of the backward pass.
    #[serde(default)]
    backward: f64,
}

#[derive(Deserialize)]
struct Memory {
    peak: f64,
    owners: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Occupancy {
    iterations: Vec<f64>,
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    name: String,
    seconds: f64,
}

/// What a value is.
#[derive(Clone, Copy)]
enum Unit {
    /// Seconds, shown in milliseconds.
    Time,
    /// Bytes, shown in MiB.
    Memory,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Unit::Time => "ms",
            Unit::Memory => "MiB",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Unit::Time => format!("{:.2}", value * 1e3),
            Unit::Memory => format!("{:.1}", value / 1_048_576.0),
        }
    }
}

/// Values by name, before and after.
type Pairs = BTreeMap<String, [f64; 2]>;

impl Summary {
    fn read(folder: &Path) -> Outcome<Self> {
        let path = folder.join("summary.json");
        let doing = || format!("{}: this is no folder of `hearth profile`", folder.display());
        let text = hearth_files::read_to_string(&path).while_doing(doing)?;
        let summary: Self = serde_json::from_str(&text).while_doing(doing)?;
        if summary.steps() == 0.0 {
            return Err(Failure::new(format!(
                "{}: no step was recorded, so nothing can be compared",
                folder.display()
            )));
        }
        Ok(summary)
    }

    /// The number of recorded steps.
    fn steps(&self) -> f64 {
        self.step.iter().find(|row| row.name == "total").map_or(0.0, |row| row.count)
    }

    /// Seconds of each part of a step.
    fn parts(&self) -> Vec<(String, f64)> {
        let per_step = |row: &Named| (row.name.clone(), row.total / row.count.max(1.0));
        self.step.iter().filter(|row| row.name != "first load" && row.count > 0.0).map(per_step).collect()
    }

    /// Seconds of each kernel in a recorded iteration, those of validations among them.
    fn kernels(&self) -> Vec<(String, f64)> {
        let all = self.iterations();
        self.kernels.iter().map(|row| (format!("{} {}", row.name, row.shape), row.total / all)).collect()
    }

    /// Seconds of an iteration in which the training thread is not in a kernel, by cause.
    fn gaps(&self) -> Vec<(String, f64)> {
        let all = self.iterations();
        let causes = self.occupancy.iter().flat_map(|occupancy| &occupancy.causes);
        causes.map(|cause| (cause.name.clone(), cause.seconds / all)).collect()
    }

    /// Seconds of a layer's forward and backward pass.
    fn layers(&self) -> Vec<(String, f64)> {
        self.layers.iter().map(|layer| (layer.path.clone(), layer.mean + layer.backward)).collect()
    }

    /// Bytes of each owner at the peak.
    fn owners(&self) -> Vec<(String, f64)> {
        let owners = self.memory.iter().flat_map(|memory| &memory.owners);
        owners.map(|(name, bytes)| (name.clone(), *bytes)).collect()
    }

    fn peak(&self) -> f64 {
        self.memory.as_ref().map_or(0.0, |memory| memory.peak)
    }

    /// Whether iterations of a validation were recorded, too.
    fn validates(&self) -> bool {
        self.occupancy.as_ref().is_some_and(|occupancy| occupancy.iterations.len() as f64 > self.steps())
    }

    fn iterations(&self) -> f64 {
        self.occupancy.as_ref().map_or(self.steps(), |occupancy| occupancy.iterations.len() as f64).max(1.0)
    }
}

/// Reads both profiles, and prints what differs: first in words, then as tables.
pub fn run(before: &Path, after: &Path) -> Outcome {
    let both = [Summary::read(before)?, Summary::read(after)?];
    let of = |values: fn(&Summary) -> Vec<(String, f64)>| paired(&both, values);
    let parts = of(Summary::parts);
    let step = parts.get("total").copied().unwrap_or_default();
    let with_layers = both.each_ref().map(|summary| !summary.layers.is_empty());
    if with_layers[0] != with_layers[1] {
        let which = if with_layers[0] { before } else { after };
        note!("only {} has layers: it lists more kernels than the other; record both with --layers", which.display());
    }
    let validates = both.each_ref().map(Summary::validates);
    if validates[0] != validates[1] {
        let which = if validates[0] { before } else { after };
        note!(
            "only {} has a validation, whose iterations count for kernels and what lies outside of them, but not for \
             parts of a step; record both with as many epochs",
            which.display()
        );
    }
    let peak = [both[0].peak(), both[1].peak()];
    let tables = [
        ("part of a step", parts, step[0]),
        ("kernel", of(Summary::kernels), step[0]),
        ("outside of kernels", of(Summary::gaps), step[0]),
        (
            "layer, forward and backward",
            if with_layers == [true; 2] { of(Summary::layers) } else { Pairs::new() },
            step[0],
        ),
    ];
    out!("{}", bold(&format!("a step takes {}", sentence(step, Unit::Time))));
    for (title, pairs, whole) in &tables {
        if let Some((name, pair)) = changes(pairs, *whole).into_iter().find(|(name, _)| *name != "total") {
            out!("{title}: most of it {name}, {}", sentence(*pair, Unit::Time));
        }
    }
    let owners = of(Summary::owners);
    if peak[0] > 0.0 && peak[1] > 0.0 {
        out!("{}", bold(&format!("the peak of memory is {}", sentence(peak, Unit::Memory))));
    }
    for (title, pairs, whole) in &tables {
        show(title, Unit::Time, pairs, *whole);
    }
    show("memory at the peak", Unit::Memory, &owners, peak[0]);
    Ok(())
}

/// Both profiles' values by name; names that occur several times are summed.
fn paired(both: &[Summary; 2], values: fn(&Summary) -> Vec<(String, f64)>) -> Pairs {
    let mut pairs = Pairs::new();
    for (side, summary) in both.iter().enumerate() {
        for (name, value) in values(summary) {
            pairs.entry(name).or_default()[side] += value;
        }
    }
    pairs
}

/// The changes that matter beside `whole`, the largest first.
fn changes(pairs: &Pairs, whole: f64) -> Vec<(&str, &[f64; 2])> {
    let difference = |pair: &[f64; 2]| (pair[1] - pair[0]).abs();
    let mut found: Vec<(&str, &[f64; 2])> = pairs
        .iter()
        .filter(|(_, pair)| difference(pair) > LEAST * whole)
        .map(|(name, pair)| (name.as_str(), pair))
        .collect();
    found.sort_by(|a, b| difference(b.1).total_cmp(&difference(a.1)));
    found
}

fn show(title: &str, unit: Unit, pairs: &Pairs, whole: f64) {
    let found = changes(pairs, whole);
    if found.is_empty() {
        return;
    }
    let title = format!("{title}, {}", unit.word());
    let numbers = ["before", "after", "change", "%"].map(|head| (head, Lean::Right));
    let columns = [&[(title.as_str(), Lean::Left)][..], &numbers].concat();
    let rows: Vec<Vec<String>> = found.iter().take(ROWS).map(|(name, pair)| row(name, pair, unit)).collect();
    out!("");
    table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
    if let Some(more) = found.len().checked_sub(ROWS + 1) {
        out!("and {} smaller ones", more + 1);
    }
}

fn row(name: &str, &[before, after]: &[f64; 2], unit: Unit) -> Vec<String> {
    let change = after - before;
    let sign = if change < 0.0 { "-" } else { "+" };
    let share = if before > 0.0 { format!("{:+.0}", change / before * 100.0) } else { "new".to_owned() };
    vec![name.to_owned(), unit.text(before), unit.text(after), format!("{sign}{}", unit.text(change.abs())), share]
}

/// "12.00 ms, before 15.00 ms: 20 % less".
fn sentence([before, after]: [f64; 2], unit: Unit) -> String {
    let (is, was, word) = (unit.text(after), unit.text(before), unit.word());
    let words = match (before > 0.0, after - before) {
        (false, _) => "new".to_owned(),
        (true, change) if change.abs() < LEAST * before => "the same".to_owned(),
        (true, change) if change < 0.0 => format!("{:.0} % less", -change / before * 100.0),
        (true, change) => format!("{:.0} % more", change / before * 100.0),
    };
    format!("{is} {word}, before {was} {word}: {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(step: f64, convolution: f64, weights: f64) -> Summary {
        let text = format!(
            r#"{{"step": [{{"name": "forward", "count": 10, "total": {step}}}, {{"name": "total", "count": 10, "total": {step}}}],
                "kernels": [{{"name": "conv", "shape": "a", "count": 5, "total": {convolution}}}],
                "memory": {{"peak": 100, "owners": {{"weights": {weights}}}}},
                "occupancy": {{"iterations": [1, 1], "causes": [{{"name": "waiting", "seconds": 0.5}}]}}}}"#
        );
        serde_json::from_str(&text).expect("a summary")
    }

    #[test]
    fn values_are_those_of_a_step_and_the_largest_change_is_first() {
        let both = [summary(2.0, 1.0, 40.0), summary(1.0, 0.2, 60.0)];
        let kernels = paired(&both, Summary::kernels);
        assert_eq!(kernels["conv a"], [0.5, 0.1], "ten steps, two iterations");
        let parts = paired(&both, Summary::parts);
        assert_eq!(parts["total"], [0.2, 0.1]);
        assert_eq!(row("conv a", &kernels["conv a"], Unit::Time), ["conv a", "500.00", "100.00", "-400.00", "-80"]);
        assert_eq!(sentence(parts["total"], Unit::Time), "100.00 ms, before 200.00 ms: 50 % less");
        assert!(changes(&paired(&both, Summary::gaps), 0.2).is_empty(), "the same on both sides");
        assert_eq!(changes(&paired(&both, Summary::owners), 100.0), [("weights", &[40.0, 60.0])]);
        let mut some = Pairs::from([("small".into(), [1.0, 1.5]), ("large".into(), [2.0, 0.0])]);
        assert_eq!(changes(&some, 1.0).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["large", "small"]);
        some.insert("none".into(), [1.0, 1.0]);
        assert_eq!(changes(&some, 1.0).len(), 2);
    }
}
