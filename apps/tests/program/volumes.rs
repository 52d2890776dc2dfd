//! Series of DICOM with several volumes: echoes, a localizer; their choice, the names of results.

use std::fs;
use std::path::Path;

use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_data::dicom::scan;
use hearth_data::read_nifti;

use crate::common::{errors, fail, phantom, plugins_are_built, succeed, text, tiny_recipe};
use crate::dicom::{Object, slice};

/// A slice of a patient.
fn slice_of(patient: u16, number: u16, depth: f64) -> Object {
    slice(number, [10.0, 20.0, depth])
        .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.9.{patient}.{number}"))
        .text(tags::SERIES_INSTANCE_UID, VR::UI, &format!("1.2.8.{patient}"))
        .text(tags::STUDY_INSTANCE_UID, VR::UI, &format!("1.2.7.{patient}"))
        .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, &format!("1.2.6.{patient}"))
        .text(tags::PATIENT_ID, VR::LO, &format!("p{patient}"))
}

/// Three patients, the second with two echoes in one series, whose slices take turns.
fn write_tree(tree: &Path) {
    for patient in 1..=3_u16 {
        let folder = tree.join(format!("p{patient}/ct"));
        fs::create_dir_all(&folder).expect("made");
        for i in 0..5_u16 {
            let depth = f64::from(i) * 2.0;
            if patient != 2 {
                slice_of(patient, i + 1, depth).write(&folder.join(format!("{i}.dcm")));
                continue;
            }
            for echo in [1, 2] {
                slice_of(patient, 2 * i + echo, depth)
                    .text(tags::ECHO_NUMBERS, VR::IS, &echo.to_string())
                    .write(&folder.join(format!("{i}_{echo}.dcm")));
            }
        }
    }
}

/// The results below a folder, without records and tables.
fn results(folder: &Path) -> Vec<String> {
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
    found.retain(|name| name.ends_with(".nii.gz") || name.ends_with(".dcm"));
    found.sort();
    found
}

#[test]
fn two_echoes_in_one_series_do_not_stop_other_patients_and_can_be_named() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| text(&dir.path().join(name));
    let (recipe, data, run) = (text(&tiny_recipe(dir.path())), text(&phantom(dir.path(), 3)), at("run"));
    succeed(&["train", &recipe, "--data", &data, "--out", &run, "--epochs", "1", "--device", "cpu"]);
    let tree = dir.path().join("tree");
    write_tree(&tree);
    let patient = text(&tree.join("p2"));
    let predict = |given: &str, out: &str, more: &[&str]| {
        let words = ["predict", &run, "-i", given, "-o", &at(out), "--device", "cpu"].map(str::to_owned);
        let more = more.iter().map(|word| (*word).to_owned());
        let output = crate::common::run(&words.into_iter().chain(more).collect::<Vec<_>>());
        (output.status.code(), errors(&output))
    };
    let files = |out: &str| results(&dir.path().join(out));
    // No one chose: the patient is an error that lists what can be written.
    let (code, said) = predict(&text(&tree), "all", &[]);
    assert_eq!((code, files("all")), (Some(1), vec!["p1/ct_seg.nii.gz".to_owned(), "p3/ct_seg.nii.gz".to_owned()]));
    for words in ["the series has 2 volumes", "1.2.8.2#echo1", "1.2.8.2#echo2", "--series"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    let failed = fs::read_to_string(dir.path().join("all/failed.csv")).expect("a list");
    assert!(failed.lines().count() == 2 && failed.contains("p2") && failed.contains("1.2.8.2#echo2"), "{failed}");
    // The rule takes the first of two alike.
    let (code, said) = predict(&text(&tree), "auto", &["--series", "auto"]);
    let expected = ["p1/ct_seg.nii.gz", "p2/ct_echo1_seg.nii.gz", "p3/ct_seg.nii.gz"];
    assert_eq!((code, files("auto")), (Some(0), expected.map(str::to_owned).to_vec()), "{said}");
    assert!(said.contains("#echo1") && said.contains("skips") && said.contains("#echo2"), "{said}");
    // A key that only one patient has: the others are errors of their own.
    let (code, said) = predict(&text(&tree), "keyed", &["--series", "#echo2"]);
    assert_eq!((code, files("keyed")), (Some(1), vec!["p2/ct_echo2_seg.nii.gz".to_owned()]), "{said}");
    // Both of one patient, in the same folder.
    for echo in ["echo1", "echo2"] {
        let (code, said) = predict(&patient, "one", &["--series", &format!("1.2.8.2#{echo}"), "--dicom-seg"]);
        assert_eq!(code, Some(0), "{said}");
    }
    let names = ["p2_echo1_seg.dcm", "p2_echo1_seg.nii.gz", "p2_echo2_seg.dcm", "p2_echo2_seg.nii.gz"];
    assert_eq!(files("one"), names);
    let table = fs::read_to_string(dir.path().join("one/records/p2_echo2_seg.nii.gz.hearth.json")).expect("a record");
    assert!(table.contains("1.2.8.2#echo2"), "{table}");
    let found = scan(dir.path().join("one/p2_echo2_seg.dcm")).expect("a segmentation");
    let referred: Vec<&String> =
        found.annotations[0].referenced_instances.iter().filter(|uid| uid.starts_with("1.2.9.2.")).collect();
    assert_eq!(referred, ["1.2.9.2.2", "1.2.9.2.4", "1.2.9.2.6", "1.2.9.2.8", "1.2.9.2.10"]);
}

#[test]
fn volumes_of_a_series_are_listed_and_converted_by_their_keys() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tree = dir.path().join("tree");
    write_tree(&tree);
    let folder = tree.join("p2/ct");
    // A localizer too.
    slice_of(2, 99, 3.0)
        .text(tags::IMAGE_TYPE, VR::CS, "ORIGINAL\\PRIMARY\\LOCALIZER")
        .write(&folder.join("localizer.dcm"));
    let given = text(&folder);
    let keys = ["1.2.8.2#axial-echo1", "1.2.8.2#axial-echo2", "1.2.8.2#localizer", "--series"];
    for path in [&folder, &tree] {
        let said = succeed(&["data", "inspect", &text(path)]);
        assert!(["#axial-echo1", "#axial-echo2", "#localizer"].iter().all(|key| said.contains(key)), "{said}");
    }
    let said = succeed(&["data", "inspect", &given, "--series", "#echo2"]);
    assert!(said.contains("3 x 2 x 5"), "{said}");
    let nifti = dir.path().join("echo2.nii.gz");
    fail(&["data", "convert", &given, &text(&nifti)], 1, &keys);
    succeed(&["data", "convert", &given, &text(&nifti), "--series", "thorax#echo2"]);
    let image = read_nifti(&nifti).expect("an image");
    assert_eq!(image.shape(), [3, 2, 5]);
    assert_eq!(image.to_vec()[..5], [200.0, 400.0, 600.0, 800.0, 1000.0]);
}
