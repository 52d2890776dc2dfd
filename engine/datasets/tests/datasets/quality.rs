//! Tests of the findings of `quality`: in data sets with a single fault each, and in real files
//! whose values are known.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_datasets::quality::{self, Finding, Kind, Severity, Verification, VerifyOptions};
use hearth_image::{Affine, Image, affine, host_device};
use hearth_io::{NiftiOptions, write_nifti};
use tempfile::TempDir;

const SHAPE: [usize; 4] = [1, 8, 7, 6];

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` next to the project.
fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// A Decathlon folder of small cases with the labels 0, 1 and 2.
struct DataSet {
    dir: TempDir,
    cases: Vec<String>,
}

fn image_values(case: usize) -> Vec<f32> {
    (0..SHAPE.iter().product::<usize>()).map(|i| ((i * 37 + case * 11) % 101) as f32).collect()
}

/// One box of label 1, one of label 2.
fn label_values() -> Vec<f32> {
    let mut out = vec![0.0; SHAPE.iter().product()];
    for x in 2..5 {
        for y in 2..4 {
            out[(x * SHAPE[2] + y) * SHAPE[3] + 1..][..2].fill(1.0);
            out[(x * SHAPE[2] + y) * SHAPE[3] + 4..][..2].fill(2.0);
        }
    }
    out
}

fn grid() -> Affine {
    [[2.0, 0.0, 0.0, -5.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 3.0, 1.0], affine::IDENTITY[3]]
}

fn write(path: &Path, values: Vec<f32>, shape: [usize; 4], grid: Affine, options: NiftiOptions) {
    write_nifti(path, &Image::from_values(values, shape, grid, &host_device()), options).expect("a file");
}

impl DataSet {
    fn new(cases: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("imagesTr")).expect("a folder");
        fs::create_dir_all(dir.path().join("labelsTr")).expect("a folder");
        let set = DataSet { dir, cases: (0..cases).map(|i| format!("case_{i}")).collect() };
        for case in 0..cases {
            write(&set.image(case), image_values(case), SHAPE, grid(), NiftiOptions::default());
            write(&set.label(case), label_values(), SHAPE, grid(), NiftiOptions::label());
        }
        // Labels that are all equal would be duplicates.
        for case in 0..cases {
            set.change_label(case, |values| values[(2 * SHAPE[2] + 2) * SHAPE[3] + 1 + case % 2] = 0.0);
            set.change_label(case, |values| values[(4 * SHAPE[2] + 3) * SHAPE[3] + 1 + case / 2 % 2] = 0.0);
            set.change_label(case, |values| values[(2 * SHAPE[2] + 2) * SHAPE[3] + 4 + case / 4 % 2] = 0.0);
        }
        set.list(&["background", "left", "right"], &["CT"]);
        set
    }

    fn image(&self, case: usize) -> PathBuf {
        self.dir.path().join(format!("imagesTr/{}.nii", self.cases[case]))
    }

    fn label(&self, case: usize) -> PathBuf {
        self.dir.path().join(format!("labelsTr/{}.nii", self.cases[case]))
    }

    fn list(&self, labels: &[&str], modality: &[&str]) {
        let names = |names: &[&str]| -> serde_json::Map<String, serde_json::Value> {
            names.iter().enumerate().map(|(i, name)| (i.to_string(), serde_json::Value::from(*name))).collect()
        };
        let entry = |case: &String| serde_json::json!({"image": format!("./imagesTr/{case}.nii"), "label": format!("./labelsTr/{case}.nii")});
        let list = serde_json::json!({
            "name": "Boxes", "labels": names(labels), "modality": names(modality), "numTraining": self.cases.len(),
            "training": self.cases.iter().map(entry).collect::<Vec<_>>(), "test": [],
        });
        fs::write(self.dir.path().join("dataset.json"), list.to_string()).expect("a list");
    }

    fn change_label(&self, case: usize, change: impl FnOnce(&mut Vec<f32>)) {
        let mut values = hearth_io::read_nifti(self.label(case)).expect("a label").to_vec();
        change(&mut values);
        write(&self.label(case), values, SHAPE, grid(), NiftiOptions::label());
    }

    fn verify(&self) -> Verification {
        quality::verify(self.dir.path(), &VerifyOptions::default()).expect("a data set")
    }

    /// All findings except notes.
    fn found(&self) -> Vec<Finding> {
        self.verify().findings.into_iter().filter(|f| f.severity > Severity::Note).collect()
    }

    /// Asserts that the data set has only this fault.
    fn only(&self, severity: Severity, kind: Kind, case: Option<&str>, words: &[&str]) -> Finding {
        let found = self.found();
        let list: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(list.len(), 1, "{list:#?}");
        let finding = found[0].clone();
        assert_eq!((finding.severity, finding.kind, finding.case.as_deref()), (severity, kind, case), "{list:?}");
        words.iter().for_each(|word| assert!(list[0].contains(word), "{:?} holds {word:?}", list[0]));
        finding
    }
}

/// Changes bytes of a file.
fn patch(path: &Path, at: usize, bytes: &[u8]) {
    let mut all = fs::read(path).expect("a file");
    all[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, all).expect("a file");
}

#[test]
fn a_sound_data_set_has_nothing_to_fix() {
    let set = DataSet::new(8);
    let report = set.verify();
    let list: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    assert_eq!(list, Vec::<String>::new());
    assert_eq!((report.name.as_str(), report.cases.len()), ("Boxes", 8));
    let case = &report.cases[3];
    let image = case.image.as_ref().expect("an image");
    assert_eq!((image.shape.as_slice(), image.spacing.as_slice()), (&[8, 7, 6][..], &[2.0, 2.0, 3.0][..]));
    assert_eq!((image.orientation.as_str(), image.stored_type.as_str()), ("RAS", "float32"));
    let labels: Vec<_> = case.labels.iter().map(|l| (l.value, l.voxels, l.components)).collect();
    assert_eq!(labels, [(1, 10, 1), (2, 11, 1)]);
    let counts = case.label.as_ref().and_then(|l| l.labels.clone()).expect("label counts");
    assert_eq!((counts.of(1.0), counts.of(2.0), counts.foreground()), (10, 11, 21));
}

#[test]
fn labels_on_another_grid_are_found() {
    let set = DataSet::new(2);
    let mut moved = grid();
    moved[0][3] += 4.0;
    write(&set.label(1), label_values(), SHAPE, moved, NiftiOptions::label());
    set.only(
        Severity::Error,
        Kind::GridMismatch,
        Some("case_1"),
        &["2.00 voxels", "labelsTr/case_1.nii", "ResampleToMatch"],
    );

    let set = DataSet::new(2);
    let smaller = [1, 8, 7, 5];
    let values = label_values().chunks_exact(6).flat_map(|line| line[..5].to_vec()).collect();
    write(&set.label(0), values, smaller, grid(), NiftiOptions::label());
    set.only(Severity::Error, Kind::ShapeMismatch, Some("case_0"), &["8 x 7 x 5 voxels", "8 x 7 x 6"]);
}

#[test]
fn values_that_spoil_training_are_found() {
    let set = DataSet::new(2);
    let mut values = image_values(1);
    (values[5], values[9], values[20]) = (f32::NAN, f32::NAN, f32::INFINITY);
    write(&set.image(1), values, SHAPE, grid(), NiftiOptions::default());
    set.only(Severity::Error, Kind::NotFinite, Some("case_1"), &["3 of 336 voxels", "2 NaN, 1 infinite"]);

    let set = DataSet::new(2);
    write(&set.image(0), vec![7.0; 336], SHAPE, grid(), NiftiOptions::default());
    set.only(Severity::Warning, Kind::Constant, Some("case_0"), &["every voxel is 7"]);
}

#[test]
fn labels_that_say_nothing_or_the_wrong_thing_are_found() {
    let set = DataSet::new(2);
    set.change_label(1, |values| values.fill(0.0));
    set.only(Severity::Warning, Kind::EmptyLabel, Some("case_1"), &["no foreground"]);

    let set = DataSet::new(2);
    set.change_label(1, |values| values[0] = 7.0);
    set.only(Severity::Error, Kind::UnexpectedLabel, Some("case_1"), &["7 (1 voxels)", "expected 0, 1, 2"]);

    let set = DataSet::new(2);
    let mut values = label_values();
    (values[0], values[1]) = (0.5, -1.0);
    write(&set.label(1), values, SHAPE, grid(), NiftiOptions::default());
    set.only(Severity::Error, Kind::BadLabelValue, Some("case_1"), &["-1, 0.5", "nearest"]);

    let set = DataSet::new(3);
    set.list(&["background", "left", "right", "middle"], &["CT"]);
    set.only(Severity::Warning, Kind::MissingLabel, None, &["label 3 (middle)", "occurs in no case"]);
}

#[test]
fn stray_pieces_are_found_where_labels_are_whole_elsewhere() {
    let set = DataSet::new(12);
    set.change_label(4, |values| values[0] = 1.0);
    let found = set.found();
    let pieces: Vec<&Finding> = found.iter().filter(|f| f.kind == Kind::Pieces).collect();
    assert_eq!(pieces.len(), 1, "{found:#?}");
    assert_eq!(pieces[0].case.as_deref(), Some("case_4"));
    assert!(pieces[0].what.contains("label 1 (left) is in 2 pieces (10, 1 voxels)"), "{}", pieces[0].what);
}

#[test]
fn duplicates_are_found_whatever_the_file_is_called() {
    let set = DataSet::new(3);
    let packed = set.dir.path().join("imagesTr/case_2.nii.gz");
    write(&packed, image_values(0), SHAPE, grid(), NiftiOptions::default());
    fs::remove_file(set.image(2)).expect("a file");
    let list = fs::read_to_string(set.dir.path().join("dataset.json")).expect("a list");
    let list = list.replace("imagesTr/case_2.nii", "imagesTr/case_2.nii.gz");
    fs::write(set.dir.path().join("dataset.json"), &list).expect("a list");
    set.only(Severity::Warning, Kind::Duplicate, Some("case_2"), &["the same as that of case case_0", "case_2.nii.gz"]);

    // An image in both training and test is more severe.
    let list = list.replace("\"test\":[]", "\"test\":[\"imagesTr/case_1.nii\"]");
    fs::write(set.dir.path().join("dataset.json"), list).expect("a list");
    let leak = set.found().into_iter().find(|f| f.severity == Severity::Error).expect("an error");
    assert_eq!(leak.kind, Kind::Duplicate);
    assert!(leak.what.contains("case_1 (training)"), "{leak}");
}

#[test]
fn files_that_are_missing_damaged_or_left_over_are_found() {
    let set = DataSet::new(3);
    let bytes = fs::read(set.image(1)).expect("a file");
    fs::write(set.image(1), &bytes[..bytes.len() / 2]).expect("a file");
    set.only(Severity::Error, Kind::Unreadable, Some("case_1"), &["imagesTr/case_1.nii", "copy or download"]);

    let set = DataSet::new(3);
    fs::remove_file(set.label(2)).expect("a file");
    set.only(Severity::Error, Kind::MissingFile, Some("case_2"), &["the label is missing", "does not exist"]);

    let set = DataSet::new(3);
    fs::copy(set.image(0), set.dir.path().join("imagesTr/extra.nii")).expect("a copy");
    fs::write(set.dir.path().join("imagesTr/._extra.nii"), "a Mac was here").expect("a file");
    let notes = set.verify().findings;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!((notes[0].severity, notes[0].kind), (Severity::Note, Kind::Unlisted));
    assert!(notes[0].what.contains("extra.nii is next to"), "{}", notes[0]);
}

/// Training refuses such a list as a whole; here each case that lacks a file is reported, and the others are
/// checked.
#[test]
fn a_missing_file_does_not_hide_the_other_cases() {
    let checked = |path: &std::path::Path| {
        let found = quality::verify(path, &VerifyOptions::default()).expect("verified");
        let errors: Vec<(Option<String>, Kind)> = found
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(|finding| (finding.case.clone(), finding.kind))
            .collect();
        (found.cases.iter().filter(|case| case.image.is_some()).count(), errors)
    };
    let missing = |case: &str| vec![(Some(case.to_owned()), Kind::MissingFile)];
    let set = DataSet::new(3);
    let at = |name: &str| set.dir.path().join(name);
    let rows: String = (0..3).map(|i| format!("imagesTr/case_{i}.nii;labelsTr/case_{i}.nii\n")).collect();
    fs::write(at("list.csv"), format!("image;label\n{rows}imagesTr/none.nii;labelsTr/case_0.nii\n")).expect("written");
    assert_eq!(checked(&at("list.csv")), (3, missing("none")));
    let entry = |i: usize| format!(r#"{{"image": "imagesTr/case_{i}.nii", "label": "labelsTr/case_{i}.nii"}}"#);
    let list = format!(r#"{{"training": [{}, {}, {}]}}"#, entry(0), entry(7), entry(2));
    fs::write(at("list.json"), list).expect("written");
    assert_eq!(checked(&at("list.json")), (2, missing("training[1]")));
    // nnU-Net: a channel of one case and the label of another.
    let raw = tempfile::tempdir().expect("a folder");
    let of = |name: &str| raw.path().join(name);
    let json = r#"{"channel_names": {"0": "CT"}, "labels": {"background": 0, "left": 1, "right": 2}, "numTraining": 2,
        "file_ending": ".nii"}"#;
    fs::create_dir_all(of("imagesTr")).expect("made");
    fs::create_dir_all(of("labelsTr")).expect("made");
    fs::write(of("dataset.json"), json).expect("written");
    for i in 0..2 {
        fs::copy(set.image(i), of(&format!("imagesTr/p{i}_0000.nii"))).expect("copied");
    }
    fs::copy(set.label(0), of("labelsTr/p0.nii")).expect("copied");
    assert_eq!(checked(raw.path()), (1, missing("p1")));
}

#[test]
fn headers_that_contradict_themselves_are_found() {
    // Offsets of the NIfTI-1 header.
    const PIXDIM: usize = 76;
    const UNITS: usize = 123;
    const CODES: usize = 252;
    const QOFFSET: usize = 268;
    let set = DataSet::new(1);
    patch(&set.image(0), QOFFSET, &40.0_f32.to_le_bytes());
    set.only(Severity::Warning, Kind::AffineConflict, Some("case_0"), &["sform and qform", "the sform was used"]);

    let set = DataSet::new(1);
    patch(&set.image(0), CODES, &[0; 4]);
    patch(&set.label(0), CODES, &[0; 4]);
    set.only(Severity::Warning, Kind::NoAffine, Some("case_0"), &["codes are 0"]);

    let set = DataSet::new(1);
    // sform alone, so that no qform contradicts it.
    for path in [set.image(0), set.label(0)] {
        patch(&path, CODES, &[0; 2]);
    }
    patch(&set.image(0), PIXDIM + 8, &f32::NAN.to_le_bytes());
    let found = set.found();
    let bad = found.iter().find(|f| f.kind == Kind::BadSpacing).expect("a bad voxel size");
    assert!(bad.what.contains("axis 2 is 0, negative or NaN"), "{bad}");

    let set = DataSet::new(1);
    patch(&set.image(0), UNITS, &[3]);
    set.only(Severity::Warning, Kind::Units, Some("case_0"), &["micrometres"]);

    let set = DataSet::new(1);
    let mut sheared = grid();
    sheared[0][1] = 0.5;
    write(&set.image(0), image_values(0), SHAPE, sheared, NiftiOptions::default());
    write(&set.label(0), label_values(), SHAPE, sheared, NiftiOptions::label());
    set.only(Severity::Warning, Kind::Sheared, Some("case_0"), &["14.04 degrees"]);
}

#[test]
fn cases_unlike_the_others_are_found() {
    let set = DataSet::new(6);
    let mut coarse = grid();
    coarse[2][2] = 12.0;
    write(&set.image(5), image_values(5), SHAPE, coarse, NiftiOptions::default());
    let labels = hearth_io::read_nifti(set.label(5)).expect("a label").to_vec();
    write(&set.label(5), labels, SHAPE, coarse, NiftiOptions::label());
    set.only(Severity::Warning, Kind::UnusualSpacing, Some("case_5"), &["2.000 x 2.000 x 12.000", "2 x 2 x 3"]);

    let set = DataSet::new(2);
    set.list(&["background", "left", "right"], &["T1", "T2"]);
    let channels: Vec<Kind> = set.found().iter().map(|f| f.kind).collect();
    assert_eq!(channels, [Kind::Channels, Kind::Channels]);
}

#[test]
fn folders_without_a_list_are_paired_by_name() {
    let set = DataSet::new(3);
    fs::remove_file(set.dir.path().join("dataset.json")).expect("a file");
    let report = set.verify();
    assert_eq!(report.cases.len(), 3);
    assert!(report.cases.iter().all(|c| c.label.is_some() && c.labels.len() == 2));
    // Any folder of images is checked file by file.
    let files = quality::inspect_folder(set.dir.path()).expect("a folder");
    assert_eq!(files.len(), 6);
    assert!(files.iter().all(|(_, found)| found.is_ok()));
    let empty = tempfile::tempdir().expect("a folder");
    let error = quality::verify(empty.path(), &VerifyOptions::default()).expect_err("no data set");
    assert!(error.to_string().contains("neither a dataset.json nor an image"), "{error}");
    fs::write(empty.path().join("dataset.json"), "{ not json").expect("a file");
    let error = quality::verify(empty.path(), &VerifyOptions::default()).expect_err("no data set");
    assert!(error.to_string().contains("not JSON"), "{error}");
}

/// Values of several channels, such as those of a colour, are not labels.
#[test]
fn labels_have_one_channel() {
    let image = |channels: usize| {
        let values = (0..channels).flat_map(|_| label_values()).collect();
        Image::from_values(values, [channels, SHAPE[1], SHAPE[2], SHAPE[3]], grid(), &host_device())
    };
    let labels = quality::inspect(&image(1)).labels.expect("labels");
    assert_eq!([0.0, 1.0, 2.0].map(|value| labels.of(value)), [8 * 7 * 6 - 24, 12, 12]);
    assert!(quality::inspect(&image(3)).labels.is_none());
}

#[test]
fn reports_are_json() {
    let set = DataSet::new(2);
    set.change_label(1, |values| values[0] = 7.0);
    let json = serde_json::to_value(set.verify()).expect("JSON");
    assert_eq!(json["cases"][0]["image"]["shape"], serde_json::json!([8, 7, 6]));
    assert_eq!(json["findings"][0]["kind"], "unexpected_label");
    assert_eq!(json["findings"][0]["severity"], "error");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn real_files_are_what_nibabel_says() {
    let root = real_data();
    let text = fs::read_to_string(root.join("expected.json")).expect("expected.json");
    let expected: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut compared = 0;
    for (name, known) in expected.as_object().expect("an object") {
        let small = known["shape"]
            .as_array()
            .is_some_and(|s| s.iter().filter_map(|n| n.as_u64()).product::<u64>() < 20_000_000);
        if known["kind"] != "nifti" || !known["min"].is_number() || !small {
            continue;
        }
        let Ok(found) = quality::inspect_file(root.join(name)) else { continue };
        let near = |a: f64, key: &str| {
            let b = known[key].as_f64().unwrap_or(f64::NAN);
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{name}: {key} {a}, expected {b}");
        };
        near(found.values.iter().map(|v| f64::from(v.min)).fold(f64::INFINITY, f64::min), "min");
        near(found.values.iter().map(|v| f64::from(v.max)).fold(f64::NEG_INFINITY, f64::max), "max");
        let total = found.values.iter().map(|v| v.mean * (v.voxels - v.nan) as f64).sum::<f64>();
        let finite = found.values.iter().map(|v| v.voxels - v.nan).sum::<usize>();
        near(total / finite as f64, "mean");
        assert_eq!(
            found.values.iter().map(|v| v.nan as u64).sum::<u64>(),
            known["nan_voxels"].as_u64().unwrap_or(0),
            "{name}"
        );
        if let Some(counts) = known["label_counts"].as_object() {
            let found = found.labels.as_ref().unwrap_or_else(|| panic!("{name} has labels"));
            assert_eq!(found.counts.len(), counts.len(), "{name}");
            for (value, count) in counts {
                let value: f32 = value.parse().expect("a number");
                assert_eq!(found.of(value) as u64, count.as_u64().unwrap_or(0), "{name}, label {value}");
            }
        }
        compared += 1;
    }
    println!("{compared} files");
    assert!(compared > 20);
    let kinds = |name: &str| -> Vec<Kind> {
        let found = quality::inspect_file(root.join(name)).expect("a file");
        found.findings.iter().map(|f| f.kind).collect()
    };
    assert!(kinds("nifti_edge/shear_ct.nii.gz").contains(&Kind::Sheared));
    assert!(kinds("nifti_edge/oblique_ct_pitch.nii.gz").contains(&Kind::Oblique));
    assert!(kinds("nifti_edge/be_float32_with_nan.nii").contains(&Kind::NotFinite));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn the_hippocampus_set_is_sound() {
    let report =
        quality::verify(&real_data().join("brain_mri/hippocampus_msd"), &VerifyOptions::default()).expect("a set");
    assert_eq!(report.cases.len(), 20);
    report.findings.iter().for_each(|f| println!("{f}"));
    assert_eq!(report.count(Severity::Error), 0);
    for case in &report.cases {
        let values: Vec<u32> = case.labels.iter().map(|l| l.value).collect();
        assert_eq!(values, [1, 2], "{}", case.case);
    }
}

/// The folder of one series is one case, not a case for each slice.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_series_alone_is_one_case() {
    let cases = |folder: &str| {
        let report = quality::verify(&real_data().join(folder), &VerifyOptions::default()).expect("a set");
        report.cases.iter().map(|case| (case.case.clone(), case.image.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(cases("dicom/sts008/CT"), [("CT".to_owned(), true)]);
    assert_eq!(cases("dicom/ct_oblique_3slice"), [("ct_oblique_3slice".to_owned(), true)]);
    assert_eq!(cases("dicom/sts008").len(), 3);
}
