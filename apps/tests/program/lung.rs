//! Lung tumours in DICOM: generated chests, training by the name of the tumour, prediction to NIfTI,
//! SEG and RTSTRUCT, for single patients and for a tree of patients.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, plugins_are_built, succeed, text};
use dicom_core::{DataElement, PrimitiveValue, VR};
use dicom_dictionary_std::tags;
use dicom_object::DefaultDicomObject;
use hearth_data::dicom::{Regions, Scan, scan};
use hearth_data::read_nifti;

/// Changes that make the recipe `lung` small enough for seconds on a CPU.
const SMALL: [&str; 9] = [
    "network={ name = \"SegResNet\", in_channels = 1, out_channels = 1, init_filters = 8, blocks_down = [1, 1], blocks_up = [1] }",
    "transforms.Spacing.pixdim=[8.0, 8.0, 8.0]",
    "transforms.SpatialPad.spatial_size=[16, 16, 16]",
    "transforms.RandCropByPosNegLabel.spatial_size=[16, 16, 16]",
    "inferer.roi_size=[16, 16, 16]",
    "schedule={ name = \"constant\" }",
    "optimizer.lr=1e-3",
    "training.val_interval=2",
    "data.validation={ last = 1 }",
];

fn train(data: &Path, out: &Path, epochs: u32, more: &[&str]) {
    assert!(plugins_are_built());
    let (data, run, epochs) = (text(data), text(out), epochs.to_string());
    let mut words = vec!["train", "lung", "--data", &data, "--out", &run, "--epochs", &epochs, "--device", "cpu"];
    words.extend(SMALL.iter().chain(more).flat_map(|set| ["--set", *set]));
    succeed(&words);
}

/// The result of `data verify lung` for a folder, as JSON.
fn verified(data: &Path, more: &[&str]) -> serde_json::Value {
    let data = text(data);
    let sets = SMALL.iter().chain(more).flat_map(|set| ["--set", *set]);
    let words: Vec<&str> = ["data", "verify", "lung", &data, "--json"].into_iter().chain(sets).collect();
    serde_json::from_slice(&crate::common::run(&words).stdout).expect("JSON")
}

fn chests(folder: &Path, cases: u32) -> PathBuf {
    let data = folder.join("chests");
    succeed(&["data", "phantom", "lung", "--cases", &cases.to_string(), "--size", "48", "--out", &text(&data)]);
    data
}

/// Files below a folder, relative to it, without records and the table of volumes.
fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for path in fs::read_dir(&at).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).expect("below").display().to_string()),
            }
        }
    }
    found.retain(|name| !name.ends_with(".hearth.json") && name != "volumes.csv");
    found.sort();
    found
}

fn scanned(folder: &Path) -> Scan {
    scan(folder).expect("a folder of DICOM")
}

/// Checks that the files of regions contain the label map's voxels, on the grid of the series.
fn same_voxels(images: &Path, label: &Path, files: &[PathBuf]) {
    let series = scanned(images).series.remove(0);
    let label = read_nifti(label).expect("a label map");
    let voxels = label.to_vec();
    assert!(voxels.contains(&1.0), "something is found");
    for file in files {
        let regions = Regions::open(file, &Default::default()).expect("regions");
        let drawn = regions.labels(&["GTV-1"], series.grid(), &Default::default()).expect("labels");
        assert!(drawn.values == voxels, "{}", file.display());
        let named = regions.list();
        assert_eq!((named.len(), named[0].name.as_str()), (1, "GTV-1"));
    }
    // They refer to the predicted series.
    let both = tempfile::tempdir().expect("a folder");
    let copies = series.files().into_iter().chain(files.to_vec());
    for (i, file) in copies.enumerate() {
        fs::copy(&file, both.path().join(i.to_string())).expect("copied");
    }
    let pairs = scanned(both.path()).pairs();
    assert_eq!((pairs.pairs.len(), pairs.unpaired.len()), (files.len(), 0));
}

#[test]
fn a_tree_of_patients_becomes_a_tree_of_labels_seg_and_rtstruct() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = chests(dir.path(), 4);
    let run = dir.path().join("run");
    train(&data, &run, 6, &[]);
    let (run, out) = (text(&run), dir.path().join("out"));
    let predict = |given: &Path, out: &Path, more: &[&str]| {
        let (given, out) = (text(given), text(out));
        let words = ["predict", &run, "-i", &given, "-o", &out, "--device", "cpu", "--checkpoint", "latest"];
        succeed(&[&words[..], more].concat())
    };
    predict(&data, &out, &["--dicom-seg", "--rtstruct"]);
    let expected: Vec<String> = (1..=4)
        .flat_map(|patient| {
            ["rtstruct.dcm", "seg.dcm", "seg.nii.gz"]
                .map(|end| format!("LUNG1-{patient:03}/{patient:05}-StudyID-NA/0.000000-NA_{end}"))
        })
        .collect();
    assert_eq!(below(&out), expected);
    // The table names patient, study and series of each.
    let table = fs::read_to_string(out.join("volumes.csv")).expect("a table");
    assert!(table.starts_with("image,patient,study,series,GTV-1_ml,model,unlike_training\n"), "{table}");
    assert_eq!(
        table.lines().filter(|line| line.contains(",LUNG1-00") && line.contains(",2.25.")).count(),
        4,
        "{table}"
    );
    let (study, name) = ("LUNG1-002/00002-StudyID-NA", "0.000000-NA");
    let result = |end: &str| out.join(study).join(format!("{name}_{end}"));
    same_voxels(&data.join(study).join(name), &result("seg.nii.gz"), &[result("seg.dcm"), result("rtstruct.dcm")]);
    let record = fs::read_to_string(crate::common::record_path(&result("seg.dcm"))).expect("a record");
    assert!(record.contains("\"series\": \"2.25.") && record.contains("GTV-1"), "{record}");
    // For one patient, results are named after the input.
    let one = dir.path().join("one");
    predict(&data.join("LUNG1-001"), &one, &["--dicom-seg"]);
    assert_eq!(below(&one), ["LUNG1-001_seg.dcm", "LUNG1-001_seg.nii.gz"]);
    // The report refers to the segmentation next to it, whose voxels are probabilities.
    let reported = dir.path().join("reported");
    let more = ["--dicom-seg", "--seg-type", "fractional", "--dicom-sr", "--surfaces", "stl"];
    predict(&data.join("LUNG1-001"), &reported, &more);
    let expected = ["GTV-1.stl", "seg.dcm", "seg.nii.gz", "sr.dcm"].map(|end| format!("LUNG1-001_{end}"));
    assert_eq!(below(&reported), expected);
    let uid = |name: &str| {
        let object = dicom_object::open_file(reported.join(name)).expect("DICOM");
        object.element(tags::SOP_INSTANCE_UID).expect("a UID").to_str().expect("text").into_owned()
    };
    let report = fs::read(reported.join("LUNG1-001_sr.dcm")).expect("a report");
    let seg = uid("LUNG1-001_seg.dcm");
    assert!(report.windows(seg.len()).any(|part| part == seg.as_bytes()), "the report does not refer to {seg}");
    // Existing results are not computed again, and not replaced, whatever their kind.
    let (given, target) = (text(&data.join("LUNG1-001")), text(&one));
    let again = ["predict", &run, "-i", &given, "-o", &target, "--device", "cpu", "--dicom-seg"];
    let said = errors(&crate::common::run(&again));
    assert!(said.contains("done by an earlier call"), "{said}");
    let otherwise = [&again[..], &["--tta", "flips"]].concat();
    fail(&otherwise, 1, &["_seg.nii.gz exists", "--overwrite"]);
    fs::remove_file(one.join("LUNG1-001_seg.nii.gz")).expect("removed");
    fail(&otherwise, 1, &["_seg.dcm exists", "--overwrite"]);
    // A call that was ended before its last file continues.
    succeed(&[&again[..], &["--overwrite"]].concat());
    fs::remove_file(one.join("LUNG1-001_seg.dcm")).expect("removed");
    succeed(&again);
    assert!(one.join("LUNG1-001_seg.dcm").is_file());
}

/// A PET next to the CT is no input of a network for CT, unless it is forced.
#[test]
fn series_of_other_modalities_are_skipped() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = chests(dir.path(), 2);
    let run = dir.path().join("run");
    train(&data, &run, 1, &["training.val_interval=1"]);
    let images = data.join("LUNG1-001/00001-StudyID-NA/0.000000-NA");
    let pet = data.join("LUNG1-001/00001-StudyID-NA/1.000000-PET");
    fs::create_dir_all(&pet).expect("made");
    for slice in fs::read_dir(&images).expect("slices").map(|entry| entry.expect("an entry").path()) {
        let mut object = dicom_object::open_file(&slice).expect("a slice");
        let uid = object.element(tags::SOP_INSTANCE_UID).expect("an UID").to_str().expect("text").into_owned();
        let put = |object: &mut DefaultDicomObject, tag, vr, value: &str| {
            object.put(DataElement::new(tag, vr, PrimitiveValue::from(value)));
        };
        put(&mut object, tags::MODALITY, VR::CS, "PT");
        put(&mut object, tags::SERIES_INSTANCE_UID, VR::UI, "1.2.7");
        put(&mut object, tags::SERIES_NUMBER, VR::IS, "7");
        put(&mut object, tags::SOP_INSTANCE_UID, VR::UI, &format!("{uid}.7"));
        object.write_to_file(pet.join(slice.file_name().expect("a name"))).expect("written");
    }
    let (run, tree) = (text(&run), text(&data.join("LUNG1-001")));
    let predict = |given: &str, out: &str, more: &[&str]| {
        let out = text(&dir.path().join(out));
        let words = ["predict", &run, "-i", given, "-o", &out, "--device", "cpu"];
        let made = crate::common::run(&[&words[..], more].concat());
        assert!(made.status.success(), "{}", errors(&made));
        (below(Path::new(&out)), errors(&made))
    };
    let (made, said) = predict(&tree, "ct", &[]);
    assert_eq!(made, ["LUNG1-001_seg.nii.gz"]);
    assert!(said.contains("skips 1 series of PT: the network is for CT"), "{said}");
    let out = text(&dir.path().join("none"));
    let words = ["the series is PT", "the network is for CT", "--any-modality"];
    fail(&["predict", &run, "-i", &tree, "-o", &out, "--series", "7"], 1, &words);
    fail(&["predict", &run, "-i", &text(&pet), "-o", &out], 1, &words);
    assert!(!Path::new(&out).exists());
    let (made, said) = predict(&tree, "asked", &["--series", "7", "--any-modality"]);
    assert!(made.len() == 1 && !said.contains("skips"), "{made:?} {said}");
    let (made, _) = predict(&text(&pet), "alone", &["--any-modality"]);
    assert_eq!(made.len(), 1);
}

/// A missing slice of a series: the recipe's chain refuses the case, unless the fault is accepted.
#[test]
fn a_missing_slice_is_found_by_the_recipe_s_chain_and_can_be_accepted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = chests(dir.path(), 2);
    let mut slices: Vec<String> = below(&data).into_iter().filter(|name| name.starts_with("LUNG1-001")).collect();
    slices.retain(|name| name.contains("0.000000-NA/1-"));
    assert!(slices.len() > 8, "{:?}", below(&data));
    fs::remove_file(data.join(&slices[slices.len() / 2])).expect("removed");
    let refused = |found: &serde_json::Value| {
        let findings = found["findings"].as_array().expect("a list");
        findings.iter().filter(|one| one["kind"] == "refused").count()
    };
    let found = verified(&data, &[]);
    assert_eq!(refused(&found), 1, "{}", found["findings"]);
    let sets = SMALL.iter().flat_map(|set| ["--set", *set]);
    let given = text(&data);
    let words = ["data", "verify", "lung", &given, "--json", "--accept", "MissingSlices"];
    let words: Vec<String> = words.into_iter().map(str::to_owned).chain(sets.map(str::to_owned)).collect();
    let found = serde_json::from_slice(&crate::common::run(&words).stdout).expect("JSON");
    assert_eq!(refused(&found), 0, "{}", found["findings"]);
}

#[test]
fn what_is_no_dicom_is_refused_and_the_others_are_done() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = chests(dir.path(), 3);
    let run = dir.path().join("run");
    train(&data, &run, 1, &[]);
    let nifti = dir.path().join("chest.nii.gz");
    let images = data.join("LUNG1-001/00001-StudyID-NA/0.000000-NA");
    succeed(&["data", "convert", &text(&images), &text(&nifti)]);
    let (run, out) = (text(&run), dir.path().join("out"));
    let (target, nifti, images) = (text(&out), text(&nifti), text(&images));
    let predict = ["predict", &run, "-o", &target, "--device", "cpu"];
    for option in ["--dicom-seg", "--rtstruct"] {
        let words = ["need DICOM images", "chest.nii.gz", "it is not a series of DICOM"];
        fail(&[&predict[..], &["-i", &nifti, option]].concat(), 1, &words);
        assert!(!out.exists());
        fail(&[&predict[..], &["-i", &images, &nifti, option]].concat(), 1, &words);
        let (failed, done): (Vec<_>, Vec<_>) = below(&out).into_iter().partition(|file| file == "failed.csv");
        assert!(done.iter().all(|file| file.contains("0.000000-NA")) && !done.is_empty() && failed.len() == 1);
        fs::remove_dir_all(&out).expect("removed");
    }
    fail(
        &[&predict[..], &["-i", &nifti, "--series", "thinnest"]].concat(),
        1,
        &["chest.nii.gz", "not a folder of DICOM"],
    );
    fail(&[&predict[..], &["-i", &images, "--series", "7"]].concat(), 1, &["no series is named \"7\"", "LUNG1-001"]);
    succeed(&[&predict[..], &["-i", &images, "--series", "*chest"]].concat());
    assert_eq!(below(&out), ["0.000000-NA_seg.nii.gz"]);
}

#[test]
fn a_series_of_each_study_is_selected() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data = chests(dir.path(), 3);
    let run = dir.path().join("run");
    train(&data, &run, 1, &[]);
    // A localizer among the slices of one patient: one folder, two series.
    let folder = data.join("LUNG1-002/00002-StudyID-NA/0.000000-NA");
    let slice = fs::read_dir(&folder).expect("a folder").next().expect("a slice").expect("an entry").path();
    let mut object = dicom_object::open_file(&slice).expect("DICOM");
    let put = |object: &mut DefaultDicomObject, tag, vr, value: &str| {
        object.put(DataElement::new(tag, vr, PrimitiveValue::from(value)));
    };
    put(&mut object, tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3");
    put(&mut object, tags::SOP_INSTANCE_UID, VR::UI, "1.2.3.4");
    put(&mut object, tags::SERIES_NUMBER, VR::IS, "9");
    object.write_to_file(folder.join("localizer.dcm")).expect("written");
    let (run, given) = (text(&run), text(&data));
    let predict = |out: &Path, more: &[&str]| {
        let words = ["predict", &run, "-i", &given, "-o", &text(out), "--device", "cpu"].map(str::to_owned);
        let words = words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>();
        succeed(&words);
        below(out)
    };
    let second = |end: &str| format!("LUNG1-002/00002-StudyID-NA/0.000000-NA_{end}");
    let all = predict(&dir.path().join("all"), &[]);
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.contains(&second("0_seg.nii.gz")) && all.contains(&second("9_seg.nii.gz")), "{all:?}");
    // Both have names of their own in tables and messages.
    let table = fs::read_to_string(dir.path().join("all/volumes.csv")).expect("a table");
    assert!(["0.000000-NA (series 0)", "0.000000-NA (series 9)"].iter().all(|name| table.contains(name)), "{table}");
    let most = predict(&dir.path().join("most"), &["--series", "most-slices", "--rtstruct"]);
    assert_eq!(most.len(), 6, "{most:?}");
    assert!(most.contains(&second("0_rtstruct.dcm")), "{most:?}");
    // The series that suits the network, with the reason.
    let words = ["predict", &run, "-i", &given, "-o", &text(&dir.path().join("auto")), "--device", "cpu"];
    let output = crate::common::run(&[&words[..], &["--series", "auto"]].concat());
    let said = errors(&output);
    assert!(output.status.success() && said.contains("skips 9, CT") && said.contains("has 1 slice"), "{said}");
    let auto = below(&dir.path().join("auto"));
    assert!(auto.len() == 3 && auto.contains(&second("0_seg.nii.gz")), "{auto:?}");
}

/// CT of a patient with a soft tissue sarcoma and the structure set drawn on it.
#[test]
#[ignore = "reads HEARTH_REAL_DATA and trains for a step or two"]
fn a_real_tumour_is_trained_on_by_another_name_and_predicted_as_dicom() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let source = root.join("dicom/sts008");
    // CT, MR and PET: `GTV_Mass_CT` and the like in place of `GTV-1`.
    let aliases = "transforms.1.aliases={ \"GTV-1\" = [\"gtv_mass*\"] }";
    // Without the alias no region is called GTV-1, which is reported before the training.
    let said = verified(&source, &[])["findings"].to_string();
    assert!(said.contains("GTV-1"), "{said}");
    let found = verified(&source, &[aliases]);
    assert_eq!(found["recipe"]["classes"][0]["training"], 2, "{}", found["findings"]);
    let run = dir.path().join("run");
    train(&source, &run, 30, &[aliases, "training.val_interval=10"]);
    let (out, images) = (dir.path().join("out"), source.join("CT"));
    let predict = |given: &Path, out: &Path, more: &[&str]| {
        let (run, given, out) = (text(&run), text(given), text(out));
        let words = ["predict", &run, "-i", &given, "-o", &out, "--device", "cpu", "--checkpoint", "latest"];
        succeed(&[&words[..], more].concat())
    };
    predict(&images, &out, &["--dicom-seg", "--rtstruct"]);
    assert_eq!(below(&out), ["CT_rtstruct.dcm", "CT_seg.dcm", "CT_seg.nii.gz"]);
    let result = |end: &str| out.join(format!("CT_{end}"));
    same_voxels(&images, &result("seg.nii.gz"), &[result("seg.dcm"), result("rtstruct.dcm")]);
    // The whole patient: the network is for CT, so MR and PET are skipped, and a single series is named
    // after its folder.
    let tree = dir.path().join("tree");
    predict(&source, &tree, &["--dicom-seg"]);
    assert_eq!(below(&tree), ["sts008_seg.dcm", "sts008_seg.nii.gz"]);
}
