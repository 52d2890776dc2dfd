//! The confusion matrix of `hearth evaluate`, compared with the files of labels and predictions.

use std::fs;
use std::path::Path;

use crate::common::{fail, phantom, plugins_are_built, succeed, text, tiny_recipe};
use serde_json::{Value, json};

fn voxels(path: &Path) -> Vec<usize> {
    hearth_data::read_nifti(path).expect("NIfTI").to_vec().iter().map(|value| value.round() as usize).collect()
}

#[test]
fn counts_are_those_of_the_files_and_the_report_shows_them() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, run) = (phantom(dir.path(), 4), text(&dir.path().join("run")));
    let (folder, recipe) = (text(&data), text(&tiny_recipe(dir.path())));
    succeed(&["train", &recipe, "--data", &folder, "--out", &run, "--epochs", "8", "--device", "cpu"]);
    let labels = dir.path().join("labels");
    succeed(&["predict", &run, "-i", &text(&data.join("imagesTr")), "-o", &text(&labels), "--device", "cpu"]);

    let out = dir.path().join("evaluation");
    let own = ["evaluate", &run, "--data", &folder, "--all", "--device", "cpu", "-o"];
    let written = text(&out);
    let original = [&own[..], &[&written, "--grid", "original"]].concat();
    succeed(&original);
    let mut counts = [[0_u64; 2]; 2];
    for entry in fs::read_dir(data.join("labelsTr")).expect("labels").map(|entry| entry.expect("an entry").path()) {
        let case = entry.file_name().expect("a name").to_string_lossy().replace(".nii.gz", "_seg.nii.gz");
        for (truth, found) in voxels(&entry).into_iter().zip(voxels(&labels.join(case))) {
            counts[truth][found] += 1;
        }
    }
    assert!(counts.iter().flatten().sum::<u64>() > 100_000 && counts[1][0] + counts[1][1] > 100, "{counts:?}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(out.join("report.json")).expect("a file")).expect("JSON");
    let wanted = json!({ "labels": ["background", "spleen"], "counts": counts, "unit": "voxels" });
    assert_eq!(report["confusion"], wanted);
    assert_eq!(report["metrics"].as_object().map(|metrics| metrics.len()), Some(1), "it is no metric of the recipe");
    let table = fs::read_to_string(out.join("confusion.csv")).expect("a table");
    let [[a, b], [c, d]] = counts;
    assert_eq!(
        table,
        format!("\"true class, voxels by predicted class\",background,spleen\nbackground,{a},{b}\nspleen,{c},{d}\n")
    );

    // On the network's grid there are fewer voxels.
    let other = dir.path().join("other");
    succeed(&[&own[..], &[&text(&other)]].concat());
    let report: Value =
        serde_json::from_str(&fs::read_to_string(other.join("report.json")).expect("a file")).expect("JSON");
    let rows = report["confusion"]["counts"].as_array().expect("rows");
    let sum: u64 = rows.iter().flat_map(|row| row.as_array().expect("a row")).filter_map(Value::as_u64).sum();
    assert!(sum > 0 && sum != counts.iter().flatten().sum::<u64>());
    fail(&original, 1, &["report.json exists", "--overwrite"]);

    let page = text(&dir.path().join("page.html"));
    succeed(&["report", &run, "--evaluation", &text(&out), "-o", &page]);
    assert!(fs::read_to_string(&page).expect("a page").contains("voxels are right"));
    fail(&["report", &run, &run, "-o", &text(&dir.path().join("twice.html"))], 1, &["is given twice"]);
    // An evaluation of another run; one of a run that was moved is still its own.
    let (other, moved) = (dir.path().join("another"), dir.path().join("moved"));
    fs::create_dir(&other).expect("a folder");
    fs::copy(Path::new(&run).join("recipe.toml"), other.join("recipe.toml")).expect("a recipe");
    let page = text(&dir.path().join("other.html"));
    let of = |run: &Path| ["report", &text(run), "--evaluation", &text(&out), "-o", &page].map(str::to_owned);
    fail(&of(&other), 1, &["--evaluation", "not among these runs"]);
    fs::rename(&run, &moved).expect("moved");
    succeed(&of(&moved));
}
