//! Distances to empty regions: `evaluate` on both grids, and `hearth metrics` on the files that
//! `predict` writes.

use std::path::{Path, PathBuf};

use crate::common::{TINY, phantom, plugins_are_built, run, succeed, text};
use hearth_data::{NiftiOptions, read_nifti, write_nifti};
use serde_json::Value;

const METRICS: &str = r#"
[metric]
key = "dice"
[metric.dice]
name = "DiceMetric"
[metric.hd95]
name = "HausdorffDistanceMetric"
percentile = 95
[metric.surface_distance]
name = "SurfaceDistanceMetric"
"#;

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&succeed(words)).expect("JSON")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> = listed.filter(|path| text(path).ends_with(".nii.gz")).collect();
    files.sort();
    files
}

/// A run that was trained with these changes, and a data set in which one case has an empty label.
fn trained(dir: &Path, changes: &[(&str, &str)], more: &str) -> (String, PathBuf) {
    assert!(plugins_are_built());
    let data = phantom(dir, 4);
    let mut recipe = TINY.to_owned();
    for (from, to) in changes {
        assert!(recipe.contains(from), "{from}");
        recipe = recipe.replace(from, to);
    }
    let path = dir.join("recipe.toml");
    std::fs::write(&path, format!("{recipe}{more}")).expect("the recipe is written");
    let out = text(&dir.join("run"));
    succeed(&["train", &text(&path), "--data", &text(&data), "--out", &out, "--epochs", "24", "--device", "cpu"]);
    let label = files(&data.join("labelsTr")).swap_remove(1);
    let mut empty = read_nifti(&label).expect("a label");
    empty.data = empty.data.zeros_like();
    write_nifti(&label, &empty, NiftiOptions::label()).expect("written");
    (out, data)
}

/// Whether both have the same number, or no value. Rows of metrics are f32.
fn close(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 2e-6 * a.abs().max(1.0),
        _ => a == b,
    }
}

fn the_files_have_what_was_measured(run_folder: &str, data: &Path, class: &str, of_files: &str) {
    let out = text(&data.join("predicted"));
    succeed(&["predict", run_folder, "--device", "cpu", "-o", &out, "-i", &text(&data.join("imagesTr"))]);
    for (rule, penalised, left_out) in [("penalty", 1, 0), ("skip", 0, 1)] {
        let words = ["evaluate", run_folder, "--data", &text(data), "--device", "cpu", "--json", "--all"];
        let evaluate = |grid: &str| json(&[&words[..], &["--grid", grid, "--empty", rule]].concat());
        let labels = text(&data.join("labelsTr"));
        let metrics = ["-m", "dice", "-m", "hd95", "-m", "surface_distance"];
        let words = ["metrics", "-p", &out, "-l", &labels, "--json", "--empty", rule, "--labels", of_files];
        let files = json(&[&words[..], &metrics].concat());
        let found = evaluate("original");
        assert_eq!(found["empty"], rule);
        for metric in ["dice", "hd95", "surface_distance"] {
            let (table, files) = (&found["metrics"][metric], &files["classes"][class][metric]);
            assert!(close(&table["per_class"][class], &files["mean"]), "{rule} {metric}: {table} {files}");
            for counts in [&files["penalised"], &files["left_out"]] {
                assert!(counts.is_u64(), "{files}");
            }
            assert_eq!(table["penalised"][class], files["penalised"], "{metric}: {table} {files}");
            assert_eq!(table["left_out"][class], files["left_out"], "{metric}: {table} {files}");
        }
        let distance = &found["metrics"]["hd95"];
        assert_eq!(
            (&distance["penalised"][class], &distance["left_out"][class]),
            (&penalised.into(), &left_out.into())
        );
        let network = evaluate("network");
        let distance = &network["metrics"]["hd95"];
        assert_eq!(
            (&distance["penalised"][class], &distance["left_out"][class]),
            (&penalised.into(), &left_out.into())
        );
    }
    // The default is the penalty, and it is reported.
    let words = ["evaluate", run_folder, "--data", &text(data), "--device", "cpu", "--all"];
    for grid in ["network", "original"] {
        let table = succeed(&[&words[..], &["--grid", grid]].concat());
        let said = format!("{class}: 1 of 4 cases have a distance to nothing and count the diagonal");
        assert!(table.contains(&said) && table.contains("--empty skip"), "{table}");
    }
    let skipped = succeed(&[&words[..], &["--empty", "skip"]].concat());
    assert!(skipped.contains(&format!("1 of 4 cases have no value for {class}")), "{skipped}");
}

#[test]
fn classes_that_are_missed_count_alike_everywhere() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path(), &[], METRICS);
    the_files_have_what_was_measured(&run_folder, &data, "spleen", "background,spleen");
}

#[test]
fn regions_that_are_missed_count_alike_everywhere() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let changes = [
        ("labels = [\"background\", \"spleen\"]", "labels = [\"spleen\"]"),
        ("out_channels = 2", "out_channels = 1"),
        ("name = \"DiceCELoss\"\nto_onehot_y = true\nsoftmax = true", "name = \"DiceFocalLoss\"\nsigmoid = true"),
    ];
    let post = "[post]\nprediction = [{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = 0.5 }]\n";
    // Regions have no background, so the only region counts.
    let (run_folder, data) = trained(dir.path(), &changes, &format!("{post}{METRICS}"));
    the_files_have_what_was_measured(&run_folder, &data, "spleen", "background,spleen");
}

#[test]
fn one_case_has_no_deviation() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = phantom(dir.path(), 1);
    let label = text(&files(&data.join("labelsTr"))[0]);
    let words = ["metrics", "-p", &label, "-l", &label];
    let found = json(&[&words[..], &["--json"]].concat());
    assert_eq!(found["classes"]["1"]["dice"]["mean"], 1.0);
    assert!(found["classes"]["1"]["dice"]["std"].is_null(), "{found}");
    let table = run(&words).stdout;
    let table = String::from_utf8_lossy(&table);
    let line = table.lines().find(|line| line.starts_with("std")).expect("a line");
    assert!(line.ends_with('-'), "{table}");
}
