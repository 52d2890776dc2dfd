//! Dice per component compared with MONAI.

use hearth_kernels::counter_rng::Key;
use hearth_nn::metrics::{DiceMetric, Metric, MetricError};

use serde::{Deserialize, Serialize};

use crate::monai_record::recorded;
use crate::{assert_close, batch, clients};

/// Reads the file of a case (shape, predictions and labels) and prints the value of each item.
const SCRIPT: &str = r"
import json, sys, warnings
warnings.simplefilter('ignore')
import torch
from monai.metrics import DiceMetric
case = json.load(open(sys.argv[1]))
pred, label = (torch.tensor(case[key]).reshape(case['shape']) for key in ('pred', 'label'))
metric = DiceMetric(per_component=True, ignore_empty=case['ignore_empty'])
rows = metric(pred, label)
rows = [None if row[0] != row[0] else row[0] for row in rows.tolist()]
print(json.dumps({'rows': rows, 'mean': metric.aggregate().item()}))
";

/// Two channels of balls: components whose regions have mostly no ambiguous voxels in the
/// prediction.
fn blobs(shape: [usize; 5], seed: u64) -> Vec<f32> {
    let [items, _, nx, ny, nz] = shape;
    let key = Key::new(seed);
    let mut values = Vec::new();
    for item in 0..items as u64 {
        let ball = |i: u64| {
            let at = |axis: u64, n: usize| key.uniform(item * 1000 + i * 10 + axis) * n as f64;
            ([at(0, nx), at(1, ny), at(2, nz)], 1.0 + 1.5 * key.uniform(item * 1000 + i * 10 + 5))
        };
        let balls: Vec<_> = (0..4).map(ball).collect();
        let inside = |i: usize| {
            let at = [i / (ny * nz), i / nz % ny, i % nz];
            let distance = |c: &[f64; 3]| at.iter().zip(c).map(|(a, c)| (*a as f64 - c).powi(2)).sum::<f64>();
            balls.iter().any(|(centre, radius)| distance(centre) <= radius * radius)
        };
        let map: Vec<f32> = (0..nx * ny * nz).map(|i| f32::from(u8::from(inside(i)))).collect();
        values.extend(map.iter().map(|v| 1.0 - v));
        values.extend(map);
    }
    values
}

/// MONAI's results for a case: the value of each item, and their mean.
#[derive(Serialize, Deserialize)]
struct Answer {
    rows: Vec<Option<f32>>,
    mean: f32,
}

#[derive(Serialize, Deserialize)]
struct Record {
    made_with: String,
    /// BLAKE3 hash of MONAI's input, and its results.
    cases: Vec<(String, Answer)>,
}

const RECORD: &str = "dice_of_components.json";
const CASES: [([usize; 5], u64); 2] = [([3, 2, 14, 12, 10], 1), ([4, 2, 24, 20, 1], 5)];

/// MONAI's input as JSON.
fn question(shape: [usize; 5], seed: u64) -> String {
    let (pred, label) = (blobs(shape, seed), blobs(shape, seed + 1));
    let torch_shape = if shape[4] == 1 { &shape[..4] } else { &shape[..] };
    serde_json::json!({ "shape": torch_shape, "pred": pred, "label": label, "ignore_empty": true }).to_string()
}

fn assert_answer(shape: [usize; 5], seed: u64, answer: &Answer) {
    let mut metric = DiceMetric { per_component: true, ..DiceMetric::default() };
    let (pred, label) = (batch(&blobs(shape, seed), shape), batch(&blobs(shape, seed + 1), shape));
    let rows = metric.update(&pred, &label).expect("two channels").concat();
    let expected: Vec<f32> = answer.rows.iter().map(|row| row.unwrap_or(f32::NAN)).collect();
    assert_close(&rows, &expected, 1e-6);
    assert_close(&[metric.aggregate().expect("items").scalar()], &[answer.mean], 1e-6);
}

#[test]
fn dice_of_components_is_what_monai_said() {
    let text = std::fs::read_to_string(recorded(RECORD)).expect("the record");
    let record: Record = serde_json::from_str(&text).expect("a record");
    assert_eq!(record.cases.len(), CASES.len());
    for ((shape, seed), (asked, answer)) in CASES.into_iter().zip(&record.cases) {
        let hash = blake3::hash(question(shape, seed).as_bytes()).to_string();
        assert_eq!(hash, *asked, "MONAI was asked something else. {}", clients::how_to_record("hearth-nn"));
        assert_answer(shape, seed, answer);
    }
}

#[test]
fn live_dice_of_components() {
    const MODULES: &[&str] = &["monai", "torch", "scipy"];
    let Some(client) = clients::find(MODULES, "dice_of_components_is_what_monai_said") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("case.json");
    let mut cases = Vec::new();
    for (shape, seed) in CASES {
        let question = question(shape, seed);
        std::fs::write(&file, &question).expect("a file");
        let answer: Answer = serde_json::from_str(&client.run(SCRIPT, [&file])).expect("an answer");
        assert_answer(shape, seed, &answer);
        cases.push((blake3::hash(question.as_bytes()).to_string(), answer));
    }
    if clients::recording() {
        let record = Record { made_with: client.versions(), cases };
        let text = serde_json::to_string_pretty(&record).expect("JSON");
        std::fs::write(recorded(RECORD), text + "\n").expect("written");
    }
}

/// Two squares, one of which is found; then empty images. Computed by hand.
#[test]
fn each_component_counts_the_same() {
    let shape = [1, 2, 8, 4, 1];
    let two = |foreground: &[usize]| {
        let map: Vec<f32> = (0..32).map(|i| f32::from(u8::from(foreground.contains(&i)))).collect();
        batch(&[map.iter().map(|v| 1.0 - v).collect(), map].concat(), shape)
    };
    // Rows of four: one component of two voxels at the top, one of a single voxel at the bottom.
    let label = two(&[0, 1, 28]);
    let mut metric = DiceMetric { per_component: true, ..DiceMetric::default() };
    assert_eq!(metric.update(&two(&[0, 1]), &label).expect("two channels"), [[0.5]]);
    assert_close(&metric.update(&two(&[0, 28]), &label).expect("two channels")[0], &[5.0 / 6.0], 1e-6);
    let nothing = two(&[]);
    assert!(metric.update(&label, &nothing).expect("two channels")[0][0].is_nan());
    let mut counting = DiceMetric { per_component: true, ignore_empty: false, ..DiceMetric::default() };
    assert_eq!(counting.update(&label, &nothing).expect("two channels"), [[0.0]]);
    assert_eq!(counting.update(&nothing, &nothing).expect("two channels"), [[1.0]]);

    let three = batch(&[0.0; 96], [1, 3, 8, 4, 1]);
    let error = metric.update(&three, &three).expect_err("three channels");
    assert!(matches!(error, MetricError::Option { .. }) && error.to_string().contains("two channels"), "{error}");
    let mut ignoring = DiceMetric { per_component: true, ignore_index: Some(0), ..DiceMetric::default() };
    assert!(ignoring.update(&label, &label).is_err());
}
