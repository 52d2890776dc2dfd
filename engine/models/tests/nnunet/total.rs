//! TotalSegmentator's tasks with small models, compared with the predictions of TotalSegmentator
//! 2.18.0 (`tests/golden/record_total_tasks.py`), and folders that it would reject.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::nifti::read_nifti_values;
use hearth_models::nnunet::{TotalOptions, TotalPrepared, TotalSegmentator};
use serde_json::Value;

use super::faults::copied;
use super::json;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/totalsegmentator").join(name)
}

fn open(path: &Path, options: &TotalOptions) -> TotalSegmentator {
    TotalSegmentator::open(path, options).unwrap_or_else(|error| panic!("{}", error.line()))
}

fn refused(path: &Path, options: &TotalOptions, words: &[&str]) {
    let error = TotalSegmentator::open(path, options).err().map(|error| error.line()).expect("an error");
    assert!(words.iter().all(|word| error.contains(word)), "{error}, expected {words:?}");
}

fn named(task: &str, variant: &str) -> TotalOptions {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    TotalOptions { task: text(task), variant: text(variant), ..TotalOptions::default() }
}

/// The options of TotalSegmentator as Hearth's options.
fn options(case: &Value) -> TotalOptions {
    let words = [("fast", case["fast"] == true), ("small", case["model_size"] == "small")];
    let words: Vec<&str> = words.into_iter().filter(|(_, given)| *given).map(|(word, _)| word).collect();
    let subset = case.get("roi_subset").cloned().map(|names| serde_json::from_value(names).expect("names"));
    TotalOptions {
        subset: subset.unwrap_or_default(),
        ..named(case["task"].as_str().expect("a task"), &words.join("-"))
    }
}

#[test]
fn tasks_are_those_of_totalsegmentator() {
    let tasks = golden("tasks");
    let cases = json(&tasks.join("cases.json"));
    let dir = tempfile::tempdir().expect("a folder");
    for (name, case) in cases.as_object().expect("cases") {
        let opened = open(&tasks.join("weights"), &options(case));
        assert_eq!(opened.card().task, case["task"].as_str());
        let found = opened.predict(&tasks.join("image.nii.gz")).unwrap_or_else(|error| panic!("{}", error.line()));
        let written = dir.path().join(format!("{name}.nii.gz"));
        found.write(&written).expect("written");
        let labels = |path: &Path| read_nifti_values(path).expect("labels").1;
        let (ours, theirs) = (labels(&written), labels(&tasks.join(format!("{name}.nii.gz"))));
        assert!(theirs.iter().any(|label| *label > 0.0), "{name}: nothing is found");
        let differing = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
        assert!(ours.len() == theirs.len() && differing <= 2, "{name}: {differing} of {} differ", ours.len());
        let (statistics, known) = (found.statistics(true), json(&tasks.join(format!("{name}.json"))));
        let known = known.as_object().expect("classes");
        assert_eq!(statistics.as_object().map(|all| all.len()), Some(known.len()), "{name}");
        for (class, known) in known.iter().filter(|_| differing == 0) {
            for what in ["volume", "intensity"] {
                let [a, b] = [&statistics[class][what], &known[what]].map(|value| value.as_f64().expect("a number"));
                // Fast models are measured on their own grid of 27 mm³, where voxels may differ
                // without a visible effect on the image's grid.
                let near = if name.contains("fast") { 1e-2 * b.abs() + 27.0 } else { 1e-4 * b.abs() };
                assert!((a - b).abs() <= near, "{name}: {what} of {class}: {a}, recorded {b}");
            }
        }
    }
}

/// The five models of a run as those of `total_v3`, and a small one next to each.
fn ten_models(to: &Path) {
    for (part, place) in (291..=295).zip(831..) {
        let from = golden("pass/weights").join(format!("Dataset{part}_Small"));
        let dataset = to.join(format!("Dataset{place}_Small"));
        let model = |plans: &str| dataset.join(format!("nnUNetTrainerNoMirroring__{plans}__3d_fullres"));
        let (big, small) = (model("nnUNetPlans"), model("nnUNetResEncUNetLPlans_8"));
        copied(&from.join("nnUNetTrainerNoMirroring__nnUNetPlans__3d_fullres"), &big);
        change(&big.join("dataset.json"), &[("vertebrae_S1", "vertebrae_L6")]);
        copied(&big, &small);
        let residual = [("PlainConvUNet", "ResidualEncoderUNet"), ("\"n_conv_per_stage\"", "\"n_blocks_per_stage\"")];
        change(&small.join("plans.json"), &residual);
    }
}

fn change(path: &Path, words: &[(&str, &str)]) {
    let mut text = fs::read_to_string(path).expect("a file");
    words.iter().for_each(|(from, to)| text = text.replace(from, to));
    // A copy of a read-only file is read-only as well.
    fs::remove_file(path).expect("a copy");
    fs::write(path, text).expect("written");
}

#[test]
fn a_folder_of_v3_takes_five_of_ten_models() {
    let dir = tempfile::tempdir().expect("a folder");
    ten_models(dir.path());
    let opened = open(dir.path(), &TotalOptions::default());
    let card = opened.card();
    assert_eq!((card.task, card.mode, card.classes.len()), (Some("total_v3"), Some("default"), 117));
    assert_eq!(opened.names()[&26], "vertebrae_L6");
    let models: Vec<_> = opened.models().collect();
    assert_eq!(models.len(), 5);
    for model in models {
        assert!(model.folder.path.ends_with("nnUNetTrainerNoMirroring__nnUNetPlans__3d_fullres"));
        assert_eq!(model.key().expect("files")["step_size"], 0.8);
    }
    let found = opened.predict(&golden("lps_3mm/image.nii.gz")).unwrap_or_else(|error| panic!("{}", error.line()));
    let written = dir.path().join("labels.nii.gz");
    found.write(&written).expect("written");
    let [ours, theirs] = [written, golden("pass/labels.nii.gz")].map(|path| read_nifti_values(path).expect("labels").1);
    assert!(ours.iter().zip(&theirs).filter(|(a, b)| a != b).count() <= 5);
    // The small models are those whose plans have a residual network; here their weights are of
    // another network.
    refused(dir.path(), &named("", "small"), &["nnUNetResEncUNetLPlans_8"]);
    let both = named("", "big-default");
    assert_eq!(open(dir.path(), &both).models().count(), 5);

    // A subset uses only its models, and the whole image if there is no rough model.
    let subset =
        TotalOptions { subset: vec!["liver".to_owned(), "vertebrae_L6".to_owned()], ..TotalOptions::default() };
    let opened = open(dir.path(), &subset);
    assert_eq!((opened.models().count(), opened.names().len()), (2, 2));
    refused(dir.path(), &named("total_v3", "fastest"), &["Dataset837_"]);
    refused(dir.path(), &named("total", ""), &["task total", "Dataset291_"]);
}

#[test]
fn versions_of_total_are_told_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let weights = golden("pass/weights");
    let model = "nnUNetTrainerNoMirroring__nnUNetPlans__3d_fullres";
    // Data sets with other numbers: their labels determine the version.
    for (part, name) in [(291, "Dataset701_A"), (292, "Dataset702_B")] {
        copied(&weights.join(format!("Dataset{part}_Small")).join(model), &dir.path().join(name).join(model));
    }
    assert_eq!(open(dir.path(), &TotalOptions::default()).card().task, Some("total"));
    change(&dir.path().join("Dataset702_B").join(model).join("dataset.json"), &[("vertebrae_S1", "vertebrae_L6")]);
    let opened = open(dir.path(), &TotalOptions::default());
    assert_eq!((opened.card().task, opened.names().len()), (Some("total_v3"), 50));
    // Two models of the same classes.
    copied(&dir.path().join("Dataset701_A"), &dir.path().join("Dataset703_C"));
    refused(dir.path(), &TotalOptions::default(), &["Dataset701_A", "Dataset703_C", "same classes"]);
    // If both versions exist, one must be named.
    let both = tempfile::tempdir().expect("a folder");
    ten_models(both.path());
    copied(&weights, both.path());
    refused(both.path(), &TotalOptions::default(), &["several tasks", "--task", "total, total_v3"]);
    for (task, class) in [("total", "vertebrae_S1"), ("total_v3", "vertebrae_L6")] {
        let opened = open(both.path(), &named(task, ""));
        assert_eq!((opened.models().count(), opened.names()[&26].as_str()), (5, class));
    }
}

#[test]
fn what_a_task_lacks_is_named() {
    let weights = golden("tasks/weights");
    refused(&weights, &TotalOptions::default(), &["several tasks", "total_v3, body, kidney_cysts"]);
    refused(&weights, &named("kidney_cyst", ""), &["--task", "kidney_cysts"]);
    refused(&weights, &named("liver_segments", ""), &["Dataset570_ct_liver_segments"]);
    refused(&weights, &named("kidney_cysts", "fast"), &["--variant", "kidney_cysts", "default"]);
    refused(&weights, &named("kidney_cysts", "small"), &["--variant small", "Dataset789"]);
    refused(&weights, &named("kidney_cysts", "tiny"), &["--variant", "tiny"]);
    let unknown = TotalOptions { subset: vec!["livr".to_owned()], ..named("total_v3", "") };
    refused(&weights, &unknown, &["--roi-subset", "liver"]);

    let dir = tempfile::tempdir().expect("a folder");
    let cysts = "Dataset789_kidney_cyst_501subj";
    copied(&weights.join(cysts), &dir.path().join(cysts));
    refused(dir.path(), &TotalOptions::default(), &["kidney_left", "Dataset298_", "kidney_cysts"]);
    // Then the rough model does not count as a task of its own.
    let rough = "Dataset298_TotalSegmentator_total_6mm_1559subj";
    copied(&weights.join(rough), &dir.path().join(rough));
    let opened = open(dir.path(), &TotalOptions::default());
    assert_eq!((opened.card().task, opened.models().count()), (Some("kidney_cysts"), 2));
    assert_eq!(opened.card().classes, ["kidney_cyst_left", "kidney_cyst_right"]);

    // Nothing is found in an image of one value, so the other model has nothing to do.
    let prepared = |total: &TotalSegmentator| -> TotalPrepared {
        let mut image = total.read(&golden("tasks/image.nii.gz")).expect("an image");
        image.volume.data.fill(0.0);
        std::thread::scope(|scope| scope.spawn(|| total.prepare(image)).join().expect("a thread")).expect("prepared")
    };
    let found = opened.compute(prepared(&opened)).unwrap_or_else(|error| panic!("{}", error.line()));
    assert_eq!(found.labels.shape, [32, 36, 40]);
    assert!(found.labels.data.iter().all(|label| *label == 0));
    assert_eq!(found.statistics(false)["kidney_cyst_left"]["volume"], 0.0);
}

#[test]
fn small_components_are_removed_where_that_is_asked() {
    let tasks = golden("tasks");
    let weights = tasks.join("weights");
    let all = open(&weights, &named("body", ""));
    let none = open(&weights, &TotalOptions { small_components: Some(1e9), ..named("body", "") });
    let [all, none] = [all, none].map(|opened| opened.predict(&tasks.join("image.nii.gz")).expect("labels"));
    assert!(all.labels.data.iter().any(|label| *label > 0) && none.labels.data.iter().all(|label| *label == 0));
}
