//! Every family of models reads DICOM and writes the same files: a run, an ensemble, a package, a
//! bundle, an nnU-Net model, several models side by side.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use serde_json::Value;

use crate::common::{errors, fail, phantom, plugins_are_built, record_path, run, succeed, text, tiny_recipe};
use hearth_data::dicom::scan;
use hearth_data::nifti::read_nifti_values;
use hearth_data::readers::read_segments;
use hearth_data::{NiftiOptions, ReadOptions, affine, read_image, write_nifti};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet").join(path)
}

/// A CT as a series of DICOM.
fn series(folder: &Path) -> PathBuf {
    let chests = folder.join("chests");
    succeed(&["data", "phantom", "lung", "--cases", "1", "--size", "32", "--out", &text(&chests)]);
    let found = scan(&chests).expect("DICOM");
    let ct = found.series.iter().find(|series| series.modality() == "CT").expect("a CT");
    ct.files().first().and_then(|file| file.parent()).expect("a folder").to_owned()
}

/// Models side by side, in folders like TotalSegmentator's.
fn side_by_side(folder: &Path) -> PathBuf {
    let models = folder.join("models");
    for (name, part) in [("Dataset001_First", "organ_"), ("Dataset002_Second", "part_")] {
        let model = models.join(name).join("nnUNetTrainer__nnUNetPlans__3d_fullres");
        fs::create_dir_all(model.join("fold_0")).expect("a folder");
        for file in ["plans.json", "fold_0/checkpoint_final.pth"] {
            fs::copy(golden("organs_legacy_nomirror/model").join(file), model.join(file)).expect("a copy");
        }
        let labels = fs::read_to_string(golden("organs_legacy_nomirror/model/dataset.json")).expect("JSON");
        fs::write(model.join("dataset.json"), labels.replace("organ_", part)).expect("written");
    }
    models
}

/// Each family by a word, with its arguments for a prediction.
fn families(folder: &Path) -> BTreeMap<&'static str, Vec<String>> {
    assert!(plugins_are_built());
    let (data, recipe, first) = (phantom(folder, 3), tiny_recipe(folder), text(&folder.join("first")));
    let train = ["train", &text(&recipe), "--data", &text(&data), "--out", &first, "--device", "cpu", "--epochs", "1"];
    succeed(&train);
    let [package, bundle] = ["model.hearth", "bundle"].map(|name| text(&folder.join(name)));
    succeed(&["export", &first, "--to", "hearth", "-o", &package, "--checkpoint", "latest"]);
    succeed(&["export", &first, "--to", "bundle", "-o", &bundle, "--checkpoint", "latest"]);
    let nnunet = text(&golden("organs_legacy_nomirror/model"));
    let models = text(&side_by_side(folder));
    let pack = |name: &str, models: &[&str]| {
        let file = text(&folder.join(name));
        succeed(&[&["export", models[0], &file], &models[1..]].concat());
        file
    };
    let predict = |model: &str| vec!["predict".to_owned(), model.to_owned()];
    BTreeMap::from([
        ("run", predict(&first)),
        ("ensemble", vec!["ensemble".to_owned(), first.clone(), package.clone()]),
        ("packed ensemble", predict(&pack("ensemble.hearth", &[&first, "--with", &package]))),
        ("packed bundle", predict(&pack("bundle.hearth", &[&bundle]))),
        ("packed nnunet", predict(&pack("nnunet.hearth", &[&nnunet]))),
        ("packed total", predict(&pack("total.hearth", &[&models]))),
        ("package", predict(&package)),
        ("bundle", predict(&bundle)),
        ("nnunet", predict(&nnunet)),
        ("total", predict(&models)),
    ])
}

/// The single JSON line of a call.
fn line(printed: &str) -> Value {
    let line = printed.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no JSON in {printed}"));
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn every_family_takes_dicom_and_writes_the_same_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let ct = series(dir.path());
    let asked = [
        "--dicom-seg",
        "--rtstruct",
        "--dicom-sr",
        "--seg-nrrd",
        "--surfaces",
        "stl",
        "--picture",
        "--statistics",
        "--json",
    ];
    let mut found: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for (family, words) in families(dir.path()) {
        let out = dir.path().join(family);
        let (ct, to) = (text(&ct), text(&out));
        let call: Vec<&str> =
            words.iter().map(String::as_str).chain(["-i", &ct, "-o", &to, "--device", "cpu"]).chain(asked).collect();
        let done = line(&succeed(&call));
        assert!(done["error"].is_null(), "{family}: {done}");
        let outputs = done["outputs"].as_object().unwrap_or_else(|| panic!("{family}: {done}"));
        for kind in ["labels", "dicom_seg", "dicom_rtstruct", "dicom_sr", "seg_nrrd", "picture", "statistics"] {
            let file =
                outputs.get(kind).and_then(Value::as_str).unwrap_or_else(|| panic!("{family} lacks {kind}: {done}"));
            assert!(fs::metadata(file).is_ok_and(|file| file.len() > 20), "{family}: {file}");
        }
        let file = |kind: &str| PathBuf::from(outputs[kind].as_str().expect("a file"));
        assert!(fs::read(file("picture")).expect("a picture").starts_with(b"\x89PNG"), "{family}");

        // The volumes are those of the written labels, and the measures are of the same voxels.
        let (header, labels) = read_nifti_values(file("labels")).expect("labels");
        let voxel: f64 = header.pixdim[1..4].iter().product();
        let written = labels.iter().filter(|label| **label > 0.0).count() as f64 * voxel / 1000.0;
        let volumes = done["volumes_ml"].as_object().unwrap_or_else(|| panic!("{family}: {done}"));
        let sum: f64 = volumes.values().filter_map(Value::as_f64).sum();
        assert!((sum - written).abs() <= 1e-6 * written.max(1.0), "{family}: {sum} ml of {written}");
        let measured: Value = serde_json::from_slice(&fs::read(file("statistics")).expect("a file")).expect("JSON");
        assert_eq!(measured.as_object().map(serde_json::Map::len), Some(volumes.len()), "{family}: {measured}");

        // The segmentation refers to the series, lies on its grid, and holds as many voxels.
        let seg = read_image(file("dicom_seg")).unwrap_or_else(|error| panic!("{family}: {error}"));
        let held = seg.to_vec().iter().filter(|label| **label > 0.0).count();
        assert_eq!(held, labels.iter().filter(|label| **label > 0.0).count(), "{family}");
        // That of 3D Slicer has the same labels, on the same grid, by name.
        let slicer = read_image(file("seg_nrrd")).unwrap_or_else(|error| panic!("{family}: {error}"));
        let of_labels = read_image(file("labels")).expect("labels");
        assert_eq!((slicer.shape(), slicer.channels()), (of_labels.shape(), of_labels.channels()), "{family}");
        assert!(affine::distance(&slicer.affine, &of_labels.affine) < 1e-3, "{family}");
        assert!(slicer.to_vec() == of_labels.to_vec(), "{family}");
        let names = read_segments(file("seg_nrrd"), &ReadOptions::default()).expect("segments");
        assert!(volumes.keys().all(|name| names.iter().any(|segment| segment.name == *name)), "{family}: {names:?}");
        let record = fs::read_to_string(record_path(&file("dicom_seg"))).expect("a record");
        assert!(record.contains("\"series\"") && record.contains("result_of"), "{family}: {record}");

        found.insert(family, labels.clone());

        // Nothing is computed twice, and another call reports that.
        let again = run(&call);
        assert!(again.status.success() && errors(&again).contains("done by an earlier call"), "{family}");
    }
    for family in ["ensemble", "bundle", "nnunet", "total"] {
        let packed = &found[format!("packed {family}").as_str()];
        assert!(*packed == found[family], "{family}: a package has other labels");
    }
}

/// The options of formats, and the ending of the results of an NRRD.
const FORMATS: [(&str, &str); 6] =
    [("as-input", ".nrrd"), ("nrrd", ".nrrd"), ("mha", ".mha"), ("mgz", ".mgz"), ("mgh", ".mgh"), ("nii", ".nii")];

/// The values are those of the NIfTI file, on the same grid and in the same type; a second call finds the files.
/// One family tries all formats, because all have the same writers.
#[test]
fn every_family_writes_volumes_in_each_format() {
    let dir = tempfile::tempdir().expect("a folder");
    let (ct, input) = (text(&series(dir.path())), text(&dir.path().join("ct.nrrd")));
    succeed(&["convert", &ct, &input]);
    let unpacked = families(dir.path()).into_iter().filter(|(family, _)| !family.starts_with("packed"));
    for (family, words) in unpacked {
        let tries_all = family == "nnunet";
        let call = |image: &str, out: &Path, more: &[&str]| -> Vec<String> {
            let (out, more) = (text(out), more.iter().map(|word| (*word).to_owned()));
            let given = ["-i", image, "-o", &out, "--device", "cpu", "--json"].map(str::to_owned);
            words.iter().cloned().chain(given).chain(more).collect()
        };
        let labels = |out: &Path, more: &[&str]| {
            let done = line(&succeed(&call(&input, out, more)));
            assert!(done["error"].is_null(), "{family}: {done}");
            PathBuf::from(done["outputs"]["labels"].as_str().unwrap_or_else(|| panic!("{family}: {done}")))
        };
        let out = dir.path().join(format!("formats of {family}"));
        let usual = labels(&out.join("usual"), &[]);
        let expected = read_image(&usual).expect("labels");
        for (format, ending) in FORMATS.into_iter().take(if tries_all { FORMATS.len() } else { 1 }) {
            let at = out.join(format);
            let file = labels(&at, &["--format", format]);
            let name = usual.file_name().expect("a name").to_string_lossy().replace(".nii.gz", ending);
            assert_eq!(file.file_name().expect("a name").to_string_lossy(), name, "{family}");
            let found = read_image(&file).unwrap_or_else(|error| panic!("{family}, {format}: {error}"));
            assert_eq!(
                (found.shape(), found.channels()),
                (expected.shape(), expected.channels()),
                "{family}, {format}"
            );
            assert!(affine::distance(&found.affine, &expected.affine) < 1e-3, "{family}, {format}");
            assert!(found.to_vec() == expected.to_vec(), "{family}, {format}");
            assert_eq!(found.meta.stored_type, expected.meta.stored_type, "{family}, {format}");
            assert!(record_path(&file).is_file(), "{family}, {format}");
        }
        let again = run(&call(&input, &out.join("as-input"), &["--format", "as-input"]));
        assert!(again.status.success() && errors(&again).contains("done by an earlier call"), "{family}");
        if !tries_all {
            continue;
        }
        // DICOM comes back as a SEG, which refers to the series.
        let to_refuse = run(&call(&ct, &out.join("dicom"), &["--format", "as-input"]));
        let said = errors(&to_refuse);
        let words = ["as-input", "one of nii.gz, nii, nrrd, mha, mgz, mgh, png", "--dicom-seg"];
        assert_eq!(to_refuse.status.code(), Some(1), "{family}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{family}: {said}"));
    }
}

#[test]
fn what_a_model_cannot_give_is_one_sentence() {
    let dir = tempfile::tempdir().expect("a folder");
    let (nnunet, models) = (text(&golden("organs_legacy_nomirror/model")), text(&side_by_side(dir.path())));
    let image = text(&golden("organs_legacy_nomirror/input/s01_0000.nii.gz"));
    let out = text(&dir.path().join("out"));
    let refused = |model: &str, more: &[&str], words: &[&str]| {
        fail(&[&["predict", model, "-i", &image, "-o", &out, "--device", "cpu"], more].concat(), 1, words);
    };
    refused(&nnunet, &["--uncertainty"], &["--uncertainty", "one network", "more folds"]);
    refused(&nnunet, &["--verify-key", "/nonexistent"], &["--verify-key", "packages"]);
    refused(&nnunet, &["--roi-subset", "organ_4"], &["--roi-subset", "a model of nnU-Net"]);
    refused(&nnunet, &["--dicom-seg"], &["--dicom-seg", "need DICOM images"]);
    refused(&nnunet, &["--accept", "MissingSlice"], &["--accept", "did you mean \"MissingSlices\""]);
    refused(&models, &["--probabilities"], &["--probabilities", "folder of models"]);
    refused(&models, &["--with", &nnunet], &["--with", "several models"]);
    refused(&models, &["--dicom-seg", "--seg-type", "fractional"], &["fractional", "folder of models"]);
    refused(&nnunet, &["--writer", "Text"], &["--writer Text", "PLUGIN.NAME", "--format"]);
    fail(&["export", &nnunet, &format!("{out}.hearth"), "--checkpoint", "latest"], 1, &["--checkpoint", "is for runs"]);
    assert!(!dir.path().join("out").exists(), "nothing is made before the checks");
}

/// Values that are no numbers are refused by each family, and so is a series with a gap, unless it is accepted.
#[test]
fn no_family_predicts_a_damaged_image() {
    let dir = tempfile::tempdir().expect("a folder");
    let families = families(dir.path());
    let ct = series(dir.path());
    let mut slices: Vec<PathBuf> = fs::read_dir(&ct).expect("slices").flatten().map(|entry| entry.path()).collect();
    slices.sort();
    fs::remove_file(&slices[slices.len() / 2]).expect("removed");
    let image = dir.path().join("data/imagesTr");
    let image = fs::read_dir(&image).expect("images").flatten().map(|entry| entry.path()).min().expect("an image");
    let mut image = read_image(&image).expect("an image");
    let (mut values, shape, device) = (image.to_vec(), image.data.dims(), image.data.device());
    let middle = values.len() / 2;
    values[middle] = f32::NAN;
    image.data = Tensor::<1>::from_floats(values.as_slice(), &device).reshape(shape);
    let damaged = dir.path().join("damaged.nii.gz");
    write_nifti(&damaged, &image, NiftiOptions::default()).expect("written");
    for (family, words) in families {
        let (from, to) = (text(&damaged), text(&dir.path().join("of damaged")));
        let more = ["-i", &from, "-o", &to, "--device", "cpu"];
        let call: Vec<&str> = words.iter().map(String::as_str).chain(more).collect();
        // A network's own input may have more of them, by resampling.
        let said = fail(&call, 1, &["not finite", " NaN, 0 infinite)", "damaged.nii.gz"]);
        assert!(!said.contains("tiles"), "{family}: {said}");
        let (from, to) = (text(&ct), text(&dir.path().join(format!("gap of {family}"))));
        let more = ["-i", &from, "-o", &to, "--device", "cpu", "--any-modality"];
        let call: Vec<&str> = words.iter().map(String::as_str).chain(more).collect();
        fail(&call, 1, &["slices are missing", "--accept MissingSlices"]);
        let accepted = ["--accept", "MissingSlices", "--dicom-seg", "--statistics", "--picture"];
        succeed(&[&call[..], &accepted].concat());
    }
}

/// A bundle that was exported from a run gives the run's own probabilities, by MONAI's steps.
#[test]
fn a_bundle_gives_the_probabilities_of_its_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let families = families(dir.path());
    let image = dir.path().join("data/imagesTr");
    let image = fs::read_dir(&image).expect("images").flatten().map(|entry| entry.path()).min().expect("an image");
    let probabilities = |family: &str, more: &[&str]| {
        let (from, to) = (text(&image), text(&dir.path().join(format!("prob of {family}"))));
        let words = families[family].iter().map(String::as_str);
        let call: Vec<&str> =
            words.chain(["-i", &from, "-o", &to, "--device", "cpu"]).chain(more.iter().copied()).collect();
        succeed(&call);
        let files = fs::read_dir(&to).expect("a folder").flatten().map(|entry| entry.path());
        let file = files.into_iter().find(|path| path.to_string_lossy().ends_with("_prob.nii.gz"));
        read_nifti_values(file.unwrap_or_else(|| panic!("{family} wrote no probabilities"))).expect("probabilities")
    };
    let (header, run) = probabilities("run", &["--checkpoint", "latest", "--probabilities"]);
    for family in ["bundle", "packed bundle"] {
        let (other, found) = probabilities(family, &["--probabilities"]);
        assert_eq!(header.dim, other.dim, "{family}");
        let most = run.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0_f32, f32::max);
        assert!(most < 1e-4, "{family}: probabilities differ by up to {most}");
    }
    assert!(run.iter().any(|value| *value > 0.01 && *value < 0.99), "all are decided");
}
