//! Images that are lost among good ones: links to missing files, folders of damaged slices, values that are no
//! numbers. Each is named and fails, the others are predicted, and the exit code is 1.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hearth_data::dicom::scan;

use crate::common::{fail, succeed, text};

/// A model of nnU-Net, and an image for it.
fn model() -> (String, PathBuf) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror");
    (text(&golden.join("model")), golden.join("input/s01_0000.nii.gz"))
}

/// The folders of the CT series of generated chests.
fn chests(folder: &Path, cases: usize) -> Vec<PathBuf> {
    let cases = cases.to_string();
    succeed(&["data", "phantom", "lung", "--cases", &cases, "--size", "32", "--out", &text(folder)]);
    let found = scan(folder).expect("DICOM");
    let series = found.series.iter().filter(|series| series.modality() == "CT");
    series.map(|series| series.files()[0].parent().expect("a folder").to_owned()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn a_link_to_a_missing_image_fails_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, image) = model();
    let (images, out) = (dir.path().join("images"), dir.path().join("out"));
    fs::create_dir(&images).expect("made");
    symlink(&image, images.join("good.nii.gz")).expect("a link");
    symlink("/nowhere/lost.nii.gz", images.join("lost.nii.gz")).expect("a link");
    let words = ["predict", &model, "-i", &text(&images), "-o", &text(&out), "--device", "cpu"];
    fail(&words, 1, &["lost.nii.gz: it is a link to /nowhere/lost.nii.gz, which is missing", "1 of 2 images failed"]);
    assert!(out.join("good.nii.gz").is_file());
    let failed = fs::read_to_string(out.join("failed.csv")).expect("a table");
    assert!(failed.contains("lost.nii.gz") && !failed.contains("good.nii.gz"), "{failed}");
}

#[test]
fn a_series_with_a_link_to_a_missing_slice_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, _) = model();
    let series = chests(&dir.path().join("chests"), 1).remove(0);
    // At the end no gap shows it.
    let last = files(&series).pop().expect("slices");
    fs::remove_file(&last).expect("removed");
    symlink("gone.dcm", &last).expect("a link");
    let (series, out) = (text(&series), text(&dir.path().join("out")));
    let said = ["slices may be missing", "it is a link to gone.dcm, which is missing"];
    fail(&["predict", &model, "-i", &series, "-o", &out, "--device", "cpu"], 1, &said);
    fail(&["data", "convert", &series, &format!("{out}.nii.gz")], 1, &said);
    // The lock of an editor is no slice.
    fs::remove_file(&last).expect("removed");
    symlink("user@host.1:2", last.with_file_name(".#notes")).expect("a link");
    succeed(&["data", "convert", &series, &format!("{out}.nii.gz")]);
}

#[test]
fn a_patient_of_whom_no_slice_can_be_read_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, _) = model();
    let tree = dir.path().join("tree");
    let series = chests(&tree, 2);
    for file in files(&series[1]) {
        let whole = fs::read(&file).expect("a slice");
        fs::write(&file, &whole[..whole.len() / 2]).expect("cut");
    }
    let out = dir.path().join("out");
    let words = ["predict", &model, "-i", &text(&tree), "-o", &text(&out), "--device", "cpu"];
    let lost = series[1].file_name().expect("a name").to_string_lossy().into_owned();
    fail(&words, 1, &["no series of images", "of DICOM that cannot be read", &lost, "1 of 2 images failed"]);
    let failed = fs::read_to_string(out.join("failed.csv")).expect("a table");
    assert!(failed.contains(&text(&series[1])) && !failed.contains(&text(&series[0])), "{failed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_the_work() {
    let (model, image) = model();
    let words = ["predict", &model, "-i", &text(&image), "-o", "/proc", "--device", "cpu"];
    let said = fail(&words, 1, &["cannot write into the folder /proc"]);
    assert!(!said.contains("tiles"), "{said}");
}

/// Pictures next to volumes, or to slices, do not take their place.
#[test]
fn pictures_do_not_hide_the_images_next_to_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, image) = model();
    let series = chests(&dir.path().join("chests"), 1).remove(0);
    let numbered = dir.path().join("numbered");
    fs::create_dir(&numbered).expect("made");
    fs::copy(&image, numbered.join("a_0000.nii.gz")).expect("a copy");
    // The results of a first call, a picture among them, are no images to a second one.
    for folder in [&numbered, &series] {
        let given = text(folder);
        let words = ["predict", &model, "-i", &given, "-o", &given, "--picture", "--device", "cpu"];
        let written = succeed(&words);
        assert!(written.contains("_picture.png") && written.lines().count() == 2, "{written}");
        assert_eq!(succeed(&words), "", "{given}");
    }
    let volumes = dir.path().join("volumes");
    fs::create_dir(&volumes).expect("made");
    fs::copy(&image, volumes.join("a.nii.gz")).expect("a copy");
    fs::copy(numbered.join("a_picture.png"), volumes.join("shot.png")).expect("a copy");
    let out = dir.path().join("out");
    let words = ["predict", &model, "-i", &text(&volumes), "-o", &text(&out), "--device", "cpu"];
    fail(&words, 1, &["shot.png", "1 of 2 images failed"]);
    assert!(out.join("a.nii.gz").is_file());
}
