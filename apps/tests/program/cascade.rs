//! A cascade of nnU-Net from plans to predictions, command by command.

use std::fs;
use std::path::Path;

use hearth_data::nifti::read_nifti_values;
use hearth_data::{Image, NiftiOptions, affine, host_device, read_nifti, write_nifti};

use crate::common::{errors, fail, run, succeed, text};

/// A raw data set of six bright balls.
pub fn raw(folder: &Path) {
    for name in ["imagesTr", "labelsTr", "imagesTs"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    let [nx, ny, nz] = [24, 26, 16];
    for case in 0..7 {
        let centre = [9.0 + f64::from(case), 16.0 - f64::from(case), 6.0 + f64::from(case) / 2.0];
        let label = |index: usize| {
            let at = [index / (ny * nz), index / nz % ny, index % nz].map(|at| at as f64);
            let scale = [1.0, 1.0, 1.5];
            let distance: f64 = (0..3).map(|axis| ((at[axis] - centre[axis]) * scale[axis]).powi(2)).sum();
            f32::from(u8::from(distance < 49.0))
        };
        let noise = |index: usize| ((index * 31 + case as usize * 17) as f32 * 0.7).sin() * 20.0;
        let write = |path: &str, value: &dyn Fn(usize) -> f32| {
            let values = (0..nx * ny * nz).map(value).collect();
            let mut grid = affine::IDENTITY;
            grid[2][2] = 1.5;
            let image = Image::from_values(values, [1, nx, ny, nz], grid, &host_device());
            write_nifti(folder.join(path), &image, NiftiOptions::default()).expect("written");
        };
        let images = if case < 6 { "imagesTr" } else { "imagesTs" };
        write(&format!("{images}/ball_{case}_0000.nii.gz"), &|at| 100.0 + 60.0 * label(at) + noise(at));
        if case < 6 {
            write(&format!("labelsTr/ball_{case}.nii.gz"), &label);
        }
    }
    let dataset = r#"{"channel_names": {"0": "MRI"}, "labels": {"background": 0, "ball": 1}, "numTraining": 6,
        "file_ending": ".nii.gz"}"#;
    fs::write(folder.join("dataset.json"), dataset).expect("written");
}

/// `hearth train` of a planned recipe for a moment.
pub fn train(recipe: &Path, data: &str, out: &str, more: &[&str]) -> Vec<String> {
    let planned: toml::Table = toml::from_str(&fs::read_to_string(recipe).expect("a recipe")).expect("TOML");
    let stages = planned["network"]["features_per_stage"].as_array().expect("a list").len();
    let few: Vec<usize> = (0..stages).map(|stage| (4 << stage).min(8)).collect();
    let mut words = ["train", &text(recipe), "--data", data, "--out", out, "--device", "cpu", "--epochs", "1"]
        .map(str::to_owned)
        .to_vec();
    for set in [
        format!("network.features_per_stage={few:?}"),
        "training.val_interval=1".to_owned(),
        "schedule.total_iters=1".to_owned(),
        "data.sampler.num_samples=4".to_owned(),
        "data.workers=0".to_owned(),
        "tta.flips=[]".to_owned(),
    ] {
        words.extend(["--set".to_owned(), set]);
    }
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

/// Applies the second stage's transforms to a case, with the labels of the first stage in `low-labels`
/// and without them.
fn shown_before_it_is_trained(dir: &Path, second: &Path, alone: &Path) {
    let at = |name: &str| text(&dir.join(name));
    let image = at("Dataset001_Balls/imagesTr/ball_0_0000.nii.gz");
    let label = at("Dataset001_Balls/labelsTr/ball_0.nii.gz");
    let (sheet, second, alone) = (at("sheet.png"), text(second), text(alone));
    let preview = |recipe: &str, more: &[&str]| {
        let words = ["data", "preview", recipe, "-i", &image, "-n", "2", "-o", &sheet, "--overwrite"];
        [&words[..], more].concat().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let stage = ["-l", &label, "--previous-stage", &at("low-labels")];
    let drawn = run(&preview(&second, &stage[..2]));
    assert!(drawn.status.success() && errors(&drawn).contains("--previous-stage"), "{}", errors(&drawn));
    let drawn = run(&preview(&second, &stage));
    assert!(drawn.status.success() && !errors(&drawn).contains("--previous-stage"), "{}", errors(&drawn));
    fail(&preview(&second, &["-l", &label, "--previous-stage", &at("none")]), 1, &["none", "no such folder"]);
    fail(&preview(&alone, &stage), 1, &["continues from no earlier stage"]);
    fail(&preview(&alone, &[]), 1, &["without --label FILE"]);
    let words = ["preprocess", &second, "--image", &image, "-o", &at("prepared")];
    fail(&words, 1, &["labels of an earlier stage", "--previous-stage"]);
    succeed(&[&words[..], &stage[2..]].concat());
    // The image and a channel of the first stage's label.
    let prepared = read_nifti(dir.join("prepared/image.nii.gz")).expect("written");
    assert_eq!(prepared.channels(), 2);
}

#[test]
fn a_cascade_is_planned_trained_and_predicts() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&dir.path().join(name));
    let data = dir.path().join("Dataset001_Balls");
    raw(&data);
    let data = text(&data);
    // With so little memory, the planner adds a first stage.
    let printed = succeed(&["plan", &data, "-o", &at("plans"), "--memory", "0.003"]);
    assert!(printed.contains("3d_lowres.toml") && printed.contains("3d_cascade_fullres.toml"), "{printed}");
    let recipe = |name: &str| dir.path().join("plans").join(name);
    let cascade = fs::read_to_string(recipe("3d_cascade_fullres.toml")).expect("a recipe");
    assert!(cascade.contains("--held-out") && cascade.contains("the folds of 3d_lowres"), "{cascade}");

    // The first stage, and the labels that each fold predicts for the cases it did not train on.
    succeed(&train(&recipe("3d_lowres.toml"), &data, &at("low"), &["--folds", "2"]));
    let held_out = ["predict", &at("low"), "--held-out", "-i", &data, "-o", &at("low-labels"), "--device", "cpu"];
    let printed = succeed(&held_out);
    for case in 0..6 {
        let name = format!("ball_{case}_seg.nii.gz");
        assert!(printed.contains(&name) && dir.path().join("low-labels").join(&name).is_file(), "{printed}");
    }
    assert!(!dir.path().join("low-labels/ball_6_seg.nii.gz").exists(), "a case without a label is held out by none");
    let again = run(&held_out);
    assert!(again.status.success() && errors(&again).contains("done by an earlier call"), "{}", errors(&again));
    // Each case is predicted by the run that did not train on it.
    let folds: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("low/folds.json")).expect("folds")).expect("JSON");
    let of_fold = |fold: usize| folds["folds"][fold][0].as_str().expect("a case").to_owned();
    let weights = |case: &str| -> String {
        let path = dir.path().join(format!("low-labels/records/{case}_seg.nii.gz.hearth.json"));
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).expect("a record")).expect("JSON");
        record["weights_blake3"].as_str().expect("a sum").to_owned()
    };
    assert_ne!(weights(&of_fold(0)), weights(&of_fold(1)), "both by the same run");
    // The table has the cases of both folds, each with its model.
    let table = fs::read_to_string(dir.path().join("low-labels/volumes.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1 + 6, "{table}");
    for fold in 0..2 {
        let case = of_fold(fold);
        let row = table.lines().find(|line| line.starts_with(&format!("{case},"))).expect("a row");
        assert!(row.contains(&weights(&case)[..12]), "{row}");
    }

    // The second stage; one fold is enough.
    let second = recipe("3d_cascade_fullres.toml");
    fail(&train(&second, &data, &at("run"), &[]), 1, &["--previous-stage"]);
    fail(&train(&second, &data, &at("run"), &["--previous-stage", &at("none")]), 1, &["none", "no such folder"]);
    fail(
        &train(&recipe("3d_fullres.toml"), &data, &at("run"), &["--previous-stage", &at("low-labels")]),
        1,
        &["continues from no earlier stage"],
    );
    shown_before_it_is_trained(dir.path(), &second, &recipe("3d_fullres.toml"));
    let one = ["--folds", "2", "--fold", "0", "--previous-stage", &at("low-labels")];
    let trained = run(&train(&second, &data, &at("run"), &one));
    assert!(trained.status.success() && !errors(&trained).contains("--held-out"), "{}", errors(&trained));
    // Labels of cases that the network was trained on.
    let all = text(&dir.path().join("Dataset001_Balls/imagesTr"));
    succeed(&["predict", &at("low/fold0"), "-i", &all, "-o", &at("too-good"), "--device", "cpu"]);
    let other = ["--folds", "2", "--fold", "0", "--previous-stage", &at("too-good"), "--dry-run"];
    let said = run(&train(&second, &data, &at("other"), &other));
    assert!(errors(&said).contains("6 cases, ball_0 among them, were not made by --held-out"), "{}", errors(&said));
    succeed(&["evaluate", &at("run/fold0"), "--data", &data, "--device", "cpu"]);

    // Images that no run has seen go through both stages.
    let images = text(&dir.path().join("Dataset001_Balls/imagesTs"));
    succeed(&["ensemble", &at("low"), "-i", &images, "-o", &at("first"), "--device", "cpu"]);
    let call = ["predict", &at("run/fold0"), "-i", &images, "-o", &at("labels"), "--device", "cpu"];
    // The folder for the training has no labels of this image.
    fail(&call, 1, &["ball_6", "--previous-stage"]);
    succeed(&[&call[..], &["--previous-stage", &at("first")]].concat());
    let labels = read_nifti_values(dir.path().join("labels/ball_6_seg.nii.gz")).expect("labels");
    assert_eq!(labels.1.len(), 24 * 26 * 16);
    let record = fs::read_to_string(dir.path().join("labels/records/ball_6_seg.nii.gz.hearth.json")).expect("a record");
    assert!(record.contains("previous_stage") && record.contains("ball_6_seg.nii.gz"), "{record}");

    // The same as a model of nnU-Net, which also accepts the labels of the run.
    succeed(&["export", &at("run"), "--to", "nnunet", "-o", &at("model")]);
    let printed = succeed(&[
        "predict",
        &at("model"),
        "-i",
        &images,
        "-o",
        &at("by-model"),
        "--device",
        "cpu",
        "--previous-stage",
        &at("first"),
    ]);
    assert!(printed.contains("ball_6.nii.gz"), "{printed}");
    let plans = fs::read_to_string(dir.path().join("model/plans.json")).expect("plans");
    assert!(plans.contains("3d_cascade_fullres") && plans.contains("\"previous_stage\": \"3d_lowres\""), "{plans}");
    fail(
        &["predict", &at("low"), "--held-out", "-i", &images, "-o", &at("no"), "--device", "cpu"],
        1,
        &["which is not among the images of -i"],
    );
}
