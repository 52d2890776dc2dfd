//! Dice of components against MONAI itself, where `HEARTH_PYTHON` names a Python that has it.

use std::process::Command;

use hearth_kernels::counter_rng::Key;
use hearth_nn::metrics::{DiceMetric, Metric, MetricError};

use crate::{assert_close, batch};

/// Reads shape, predictions and labels as JSON, prints the value of each item.
const SCRIPT: &str = r"
import json, sys, warnings
warnings.simplefilter('ignore')
import torch
from monai.metrics import DiceMetric
case = json.load(sys.stdin)
pred, label = (torch.tensor(case[key]).reshape(case['shape']) for key in ('pred', 'label'))
metric = DiceMetric(per_component=True, ignore_empty=case['ignore_empty'])
rows = metric(pred, label)
print(json.dumps([[None if v != v else v for v in row] for row in rows.tolist()] + [metric.aggregate().item()]))
";

/// Two channels of balls: components whose regions have no ambiguous voxels that anything was
/// predicted in, mostly.
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

#[test]
fn dice_of_components_is_monais() {
    let Some(python) = std::env::var_os("HEARTH_PYTHON") else {
        eprintln!("HEARTH_PYTHON is not set; MONAI was not asked");
        return;
    };
    if !Command::new(&python).args(["-c", "import monai, scipy"]).output().is_ok_and(|o| o.status.success()) {
        eprintln!("{} has no MONAI; it was not asked", python.to_string_lossy());
        return;
    }
    for (shape, seed) in [([3, 2, 14, 12, 10], 1), ([4, 2, 24, 20, 1], 5)] {
        let (pred, label) = (blobs(shape, seed), blobs(shape, seed + 1));
        let torch_shape = if shape[4] == 1 { &shape[..4] } else { &shape[..] };
        let case = serde_json::json!({ "shape": torch_shape, "pred": pred, "label": label, "ignore_empty": true });
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("case.json");
        std::fs::write(&file, case.to_string()).expect("a file");
        let input = std::fs::File::open(&file).expect("the file");
        let output = Command::new(&python).args(["-c", SCRIPT]).stdin(input).output().expect("Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let answer = answer.as_array().expect("a list");
        let mut metric = DiceMetric { per_component: true, ..DiceMetric::default() };
        let rows = metric.update(&batch(&pred, shape), &batch(&label, shape)).expect("two channels").concat();
        let expected: Vec<f32> =
            answer[..shape[0]].iter().map(|row| row[0].as_f64().map_or(f32::NAN, |v| v as f32)).collect();
        assert_close(&rows, &expected, 1e-6);
        let mean = answer[shape[0]].as_f64().expect("a mean") as f32;
        assert_close(&[metric.aggregate().expect("items").scalar()], &[mean], 1e-6);
    }
}

/// Two squares, one of them found; then empty ones. By hand.
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
