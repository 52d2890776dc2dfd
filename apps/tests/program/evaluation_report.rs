//! `hearth evaluate -o` and the pages of `hearth report` on it: the Dice of each case, compared with counts
//! of the voxels in the files of labels and predictions.

use std::fs;
use std::path::Path;

use crate::common::{phantom, plugins_are_built, succeed, text, tiny_recipe};
use serde_json::Value;

/// Twice the voxels of both over the sum of each.
fn dice(label: &Path, prediction: &Path) -> f64 {
    let set = |path: &Path| -> Vec<bool> {
        hearth_data::read_nifti(path).expect("NIfTI").to_vec().iter().map(|value| *value > 0.5).collect()
    };
    let (label, prediction) = (set(label), set(prediction));
    let both = label.iter().zip(&prediction).filter(|(a, b)| **a && **b).count();
    let count = |of: &[bool]| of.iter().filter(|voxel| **voxel).count();
    2.0 * both as f64 / (count(&label) + count(&prediction)) as f64
}

#[test]
fn the_dice_of_each_case_is_that_of_the_files_in_every_form() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, run) = (phantom(dir.path(), 4), dir.path().join("run"));
    let (folder, run_text, recipe) = (text(&data), text(&run), text(&tiny_recipe(dir.path())));
    succeed(&["train", &recipe, "--data", &folder, "--out", &run_text, "--epochs", "8", "--device", "cpu"]);
    let labels = dir.path().join("labels");
    succeed(&["predict", &run_text, "-i", &text(&data.join("imagesTr")), "-o", &text(&labels), "--device", "cpu"]);
    let expected: Vec<(String, f64)> = (0..4)
        .map(|case| {
            let case = format!("spleen_{case:02}");
            let (label, prediction) = (format!("{case}.nii.gz"), format!("{case}_seg.nii.gz"));
            (case, dice(&data.join("labelsTr").join(label), &labels.join(prediction)))
        })
        .collect();
    let mean = expected.iter().map(|(_, dice)| dice).sum::<f64>() / 4.0;
    assert!(mean > 0.05, "the network finds something: {expected:?}");

    // The folder that the report looks into by itself.
    let out = run.join("evaluation");
    let words = ["evaluate", &run_text, "--data", &folder, "--all", "--device", "cpu", "--grid", "original"];
    let printed = succeed(&[&words[..], &["-o", &text(&out), "--json"]].concat());
    let file = fs::read_to_string(out.join("report.json")).expect("a report");
    let (printed, mut report): (Value, Value) =
        (serde_json::from_str(&printed).expect("JSON"), serde_json::from_str(&file).expect("JSON"));
    // A file lies apart from its command: it names the run and the data, too.
    let table = report.as_object_mut().expect("a table");
    for (key, value) in [("runs", Some(&run_text)), ("data", Some(&folder)), ("hearth", None)] {
        let found = table.remove(key).unwrap_or_default();
        assert!(value.is_none_or(|value| found == *value || found[0] == *value), "{key}: {found}");
    }
    assert_eq!(printed, report, "-o writes what --json prints");
    let close = |found: &Value, expected: f64| found.as_f64().is_some_and(|found| (found - expected).abs() < 1e-5);
    let metric = &report["metrics"]["mean_dice"];
    assert!(close(&metric["value"], mean) && close(&metric["per_class"]["spleen"], mean), "{metric} is not {mean}");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 4);
    for (case, (name, dice)) in cases.iter().zip(&expected) {
        assert_eq!(case["case"], **name);
        assert!(close(&case["metrics"]["mean_dice"]["per_class"]["spleen"], *dice), "{case} is not {dice}");
    }
    let table = fs::read_to_string(out.join("report.csv")).expect("a table");
    assert_eq!(table.lines().next(), Some("case,class,mean_dice"));
    assert_eq!(table.lines().count(), 5, "{table}");
    for (row, (name, dice)) in table.lines().skip(1).zip(&expected) {
        let [case, class, value] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
        assert_eq!((case, class), (name.as_str(), "spleen"));
        assert!((value.parse::<f64>().expect("a number") - dice).abs() < 1e-5, "{row} is not {dice}");
    }

    let page = dir.path().join("page.html");
    let said = succeed(&["report", &run_text, "-o", &text(&page)]);
    assert!(!said.contains("no values of single cases"), "{said}");
    let page = fs::read_to_string(page).expect("a page");
    for (name, dice) in &expected {
        let shown = format!("{dice:.3}");
        assert!(page.contains(name.as_str()) && page.contains(&shown[..4]), "{name}: {shown}");
    }
}
