//! No number in a recipe makes a transform panic: each parameter of each transform is set to absurd
//! numbers, one at a time, and the example is run with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hearth_registry::{Node, Origin, Registry};
use hearth_transforms::{DrawKey, Pipeline, Transform};
use toml::Value;

use crate::registry::sample;

/// Whole numbers to try.
const WHOLE: [i64; 6] = [0, -1, 1, 1 << 32, i64::MAX, i64::MIN];

/// Other numbers to try.
const REAL: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300, -1e300];

/// The values to try for a parameter of this kind, as named in the reference; its value in the
/// example is `shown`.
fn tried(kind: &str, shown: Option<&Value>) -> Vec<Value> {
    let words = kind.to_lowercase();
    if !words.contains("number") || words.contains('{') {
        return Vec::new();
    }
    let mut numbers: Vec<Value> = WHOLE.map(Value::Integer).to_vec();
    if words.replace("whole number", "").contains("number") {
        numbers.extend(REAL.map(Value::Float));
    }
    let length = shown.and_then(Value::as_array).map(Vec::len);
    let lists = length.is_some() || words.contains("list") || words.contains('[');
    let list = |number: &Value| Value::Array(vec![number.clone(); length.unwrap_or(3)]);
    let mut all: Vec<Value> = if lists { numbers.iter().map(list).collect() } else { Vec::new() };
    if lists {
        all.push(Value::Array(Vec::new()));
    }
    if length.is_none() {
        all.extend(numbers);
    }
    all
}

/// Builds the transform and runs it twice; errors are expected, and success is accepted.
fn run(table: &toml::Table, name: &str, sample: &hearth_transforms::Sample) {
    let node = Node::from_toml(Value::Table(table.clone()), &Origin::Unknown).with("name", name);
    let Ok(pipeline) = Pipeline::from_nodes(&[node]) else { return };
    for epoch in 0..2 {
        if pipeline.run(sample.clone(), DrawKey::new(0, epoch, 0)).is_err() {
            return;
        }
    }
}

#[test]
fn numbers_that_nobody_means_are_errors_and_no_panics() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = sample(folder.path());
    let (mut count, mut panicked) = (0, Vec::new());
    for entry in Registry::<dyn Transform>::new().entries() {
        let mut example: toml::Table = toml::from_str(entry.example).expect("an example");
        if entry.name == "SaveImage" {
            example.insert("output_dir".to_owned(), Value::String(folder.path().display().to_string()));
        }
        let parameters = entry.describe().parameters;
        if parameters.iter().any(|parameter| parameter.name == "prob") {
            example.insert("prob".to_owned(), Value::Float(1.0));
        }
        for parameter in &parameters {
            for value in tried(&parameter.kind, example.get(&parameter.name)) {
                let mut table = example.clone();
                table.insert(parameter.name.clone(), value.clone());
                count += 1;
                if catch_unwind(AssertUnwindSafe(|| run(&table, entry.name, &sample))).is_err() {
                    panicked.push(format!("{}: {} = {value}", entry.name, parameter.name));
                }
            }
        }
    }
    assert!(count > 2000, "{count} numbers");
    assert!(panicked.is_empty(), "{} of {count} panicked:\n{}", panicked.len(), panicked.join("\n"));
}
