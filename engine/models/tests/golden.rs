//! Replays recordings of nnU-Net: every case under `tests/golden/nnunet`, or
//! `HEARTH_GOLDEN/nnunet`. Its README defines the tolerances.

mod nnunet;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::env::var_os("HEARTH_GOLDEN").map_or(own, PathBuf::from).join("nnunet")
}

#[test]
fn predictions_are_those_of_nnunet() {
    let mut folders = Vec::new();
    nnunet::case_folders(&root(), &mut folders);
    assert!(!folders.is_empty(), "{} holds no case", root().display());
    let wanted = std::env::var("HEARTH_CASE").unwrap_or_default();
    let mut failed = Vec::new();
    for folder in folders.iter().filter(|folder| folder.display().to_string().contains(&wanted)) {
        let name = folder.strip_prefix(root()).unwrap_or(folder).display().to_string();
        match nnunet::replay(folder) {
            Ok(lines) => lines.iter().for_each(|line| println!("{name}: {line}")),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{} failed:\n  {}", failed.len(), failed.join("\n  "));
}

/// Two folds as two models: `nnUNetv2_ensemble` averages their probabilities.
#[test]
fn an_ensemble_is_that_of_nnunet() {
    let folder = root().join("ensemble");
    let all = ["fold_0", "fold_1"].map(|fold| hearth_nnunet::probabilities::read(&folder.join(fold).join("e01.npz")));
    let mean = hearth_nnunet::probabilities::mean(all).expect("a mean");
    let dataset = serde_json::json!({"labels": {"background": 0, "Anterior": 1, "Posterior": 2},
        "channel_names": {"0": "MRI"}, "file_ending": ".nii.gz"});
    let dataset = hearth_nnunet::DatasetJson::parse(dataset).expect("a data set");
    let found = hearth_nnunet::probabilities::labels(&dataset.labels, &mean);
    let (_, expected) = hearth_data::nifti::read_nifti_values(folder.join("e01.nii.gz")).expect("labels");
    assert_eq!(found.data.len(), expected.len());
    let wrong = found.data.iter().zip(expected).filter(|(a, b)| f32::from(**a) != *b).count();
    assert_eq!(wrong, 0);
}

/// The choice of `determine_postprocessing`, applied to the labels before it.
#[test]
fn postprocessed_labels_are_those_of_nnunet() {
    use hearth_nnunet::{Volume, postprocess};

    let own = ["postprocessing", "evaluation/postprocessing"].map(|name| root().join(name));
    let folder = own.iter().find(|folder| folder.is_dir()).expect("a recorded postprocessing");
    let before = [folder.join("before"), root().join("evaluation/prediction")];
    let before = before.iter().find(|folder| folder.is_dir()).expect("labels before it");
    let steps = postprocess::read(&folder.join("postprocessing.pkl")).expect("a pickle");
    assert_eq!(steps, postprocess::read(&folder.join("postprocessing.json")).expect("JSON"));
    assert_eq!((steps.len(), &steps[0].labels[..], &steps[2].labels[..]), (3, &[1, 2, 3][..], &[2][..]));
    for case in ["case_0.nii.gz", "case_1.nii.gz", "case_2.nii.gz"] {
        let read = |folder: &Path| hearth_data::nifti::read_nifti_values(folder.join(case)).expect("labels");
        let ((header, values), (_, expected)) = (read(before), read(folder));
        let shape = [header.dim[2], header.dim[1], header.dim[0]];
        let labels = values.iter().map(|value| *value as u16).collect();
        let mut map = Volume::new(1, shape, labels).expect("as many as voxels");
        postprocess::apply(&steps, &mut map).expect("small");
        let wrong = map.data.iter().zip(expected).filter(|(a, b)| f32::from(**a) != *b).count();
        assert_eq!(wrong, 0, "{case}");
    }
}

/// Fingerprints and folds of real data sets, from their files.
#[test]
#[ignore = "needs real files: HEARTH_REAL_DATA"]
fn fingerprints_are_those_of_nnunet() {
    use hearth_data::Progress;
    use hearth_models::nnunet::NnunetRaw;
    use hearth_models::nnunet::planner::splits;

    let Some(data) = std::env::var_os("HEARTH_REAL_DATA").map(PathBuf::from) else {
        panic!("HEARTH_REAL_DATA names the folder of the files")
    };
    for name in ["Dataset004_Hippocampus", "Dataset802_SarcomaCT"] {
        let recorded = root().join("planner").join(name);
        let raw = tempfile::tempdir().expect("a folder");
        nnunet::raw_dataset(&recorded, &data, raw.path());
        let opened = NnunetRaw::open(raw.path()).expect("a data set");
        let found = opened.fingerprint(Progress::None).expect("a fingerprint").json();
        let expected = nnunet::json(&recorded.join("dataset_fingerprint.json"));
        for key in ["spacings", "shapes_after_crop", "median_relative_size_after_cropping"] {
            assert_eq!(found[key], expected[key], "{name}: {key}");
        }
        let key = "foreground_intensity_properties_per_channel";
        for (channel, values) in expected[key].as_object().expect("channels") {
            for (what, value) in values.as_object().expect("statistics") {
                let (found, value) = (found[key][channel][what].as_f64(), value.as_f64());
                let (found, value) = (found.expect("a number"), value.expect("a number"));
                assert!((found - value).abs() <= 1e-12 * value.abs(), "{name}: {channel} {what}: {found}, {value}");
            }
        }
        let folds = recorded.join("splits_final.json");
        assert_eq!(splits(&opened.names()).ok(), folds.is_file().then(|| nnunet::json(&folds)), "{name}");
    }
}

/// TotalSegmentator's resampling in both directions, for every recorded linear case.
#[test]
fn resampling_is_that_of_totalsegmentator() {
    use hearth_data::transforms::Orientation;
    use hearth_data::{read_image, tiny};
    use hearth_nnunet::total::{resampled, restored};
    use hearth_nnunet::{Axes3, Volume};

    let folder = root().join("totalsegmentator");
    let cases = nnunet::json(&folder.join("cases.json"));
    // The closest canonical axes, z y x, and the voxel size.
    let read = |path: PathBuf| -> (Volume, Axes3<f64>) {
        let image = read_image(&path).unwrap_or_else(|error| panic!("{error}"));
        let image = tiny::apply(Orientation::new("image", "RAS"), image).expect("turned");
        let ([x, y, z], [sx, sy, sz]) = (image.shape(), image.spacing());
        let volume = Volume::new(1, [x, y, z], image.to_vec()).expect("whole").transposed([2, 1, 0]);
        (volume, [sz, sy, sx])
    };
    let mut replayed = 0;
    for case in cases["cases"].as_array().expect("cases").iter().filter(|case| case["order"] == 1) {
        let folder = folder.join(case["case"].as_str().expect("a name"));
        if !folder.is_dir() {
            continue;
        }
        let target: Vec<f64> = serde_json::from_value(case["target_spacing"].clone()).expect("sizes");
        let (image, spacing) = read(folder.join("image.nii.gz"));
        let found = resampled(&image, spacing, [target[2], target[1], target[0]]).expect("resampled");
        let (expected, _) = read(folder.join("resampled.nii.gz"));
        assert_eq!(found.shape, expected.shape, "{case}");
        let differing = found.data.iter().zip(&expected.data).filter(|(a, b)| a != b);
        let worst = differing.clone().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1.0 && differing.count() * 1000 <= found.data.len(), "{case}: {worst}");
        let (labels, _) = read(folder.join("labels_resampled.nii.gz"));
        let labels = Volume::new(1, labels.shape, labels.data.iter().map(|label| *label as u16).collect());
        let found = restored(&labels.expect("whole"), image.shape);
        let (expected, _) = read(folder.join("labels.nii.gz"));
        assert!(found.data.iter().zip(&expected.data).all(|(a, b)| f32::from(*a) == *b), "{case}: labels");
        replayed += 1;
    }
    assert!(replayed >= 2, "{replayed} cases");
}

/// TotalSegmentator's own run with five small models: its labels and its statistics.
#[test]
fn a_pass_of_five_models_is_that_of_totalsegmentator() {
    use hearth_models::nnunet::{TotalOptions, TotalSegmentator};

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/totalsegmentator");
    let pass = folder.join("pass");
    let opened = TotalSegmentator::open(&pass.join("weights"), &TotalOptions::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((opened.models().count(), opened.names().len()), (5, 117));
    let found = opened.predict(&folder.join("lps_3mm/image.nii.gz")).unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().expect("a folder");
    let written = dir.path().join("labels.nii.gz");
    found.write(&written).expect("written");
    let [found_labels, labels, ambiguous] = [written, pass.join("labels.nii.gz"), pass.join("ambiguous.nii.gz")]
        .map(|path| hearth_data::nifti::read_nifti_values(path).expect("labels").1);
    assert_eq!((found_labels.len(), labels.len()), (30 * 24 * 20, 30 * 24 * 20));
    let differing = found_labels.iter().zip(&labels).zip(&ambiguous).filter(|((a, b), _)| a != b);
    let (near, far): (Vec<_>, Vec<_>) = differing.partition(|(_, tie)| **tie > 0.0);
    assert!(far.is_empty() && near.len() <= 5, "{} voxels differ, and {} near ties", far.len(), near.len());
    // If a near tie is decided differently, the statistics of both classes differ.
    let touched = |class: &str| {
        let of = |label: f32| opened.names().get(&(label as u16)).is_some_and(|name| name == class);
        near.iter().any(|((found, recorded), _)| of(**found) || of(**recorded))
    };
    for (name, incomplete) in [("statistics", false), ("statistics_incomplete", true)] {
        let (found, recorded) = (found.statistics(incomplete), nnunet::json(&pass.join(format!("{name}.json"))));
        let recorded = recorded.as_object().expect("classes");
        assert_eq!(found.as_object().map(|found| found.len()), Some(recorded.len()));
        assert!(recorded.values().any(|class| class["volume"] != 0.0), "{name}: nothing is measured");
        for (class, expected) in recorded.iter().filter(|(class, _)| !touched(class)) {
            for what in ["volume", "intensity"] {
                let [a, b] = [&found[class][what], &expected[what]].map(|value| value.as_f64().expect("a number"));
                assert!((a - b).abs() <= 1e-6 * b.abs(), "{name}: {what} of {class}: {a}, recorded {b}");
            }
        }
    }
}

/// An exported run, compared with the predictions of nnunetv2 2.8.1 that loaded it.
#[test]
fn an_exported_run_predicts_as_in_nnunet() {
    use hearth_models::nnunet::{NnunetOptions, NnunetPredictor};

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/exported");
    let opened = NnunetPredictor::open(&folder.join("model"), &NnunetOptions::default());
    let predictor = opened.unwrap_or_else(|error| panic!("{error}"));
    let case = predictor.cases(&folder.join("input")).expect("a case").remove(0);
    let found = predictor.predict(&case, None).expect("labels");
    let (_, expected) = hearth_data::nifti::read_nifti_values(folder.join("expected/ball_1.nii.gz")).expect("labels");
    assert_eq!(found.labels.data.len(), expected.len());
    let wrong = found.labels.data.iter().zip(expected).filter(|(a, b)| f32::from(**a) != *b).count();
    assert!(wrong <= 2, "{wrong} labels differ");
}
