//! `hearth predict` on models of nnU-Net, through the program.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{errors, fail, run, succeed, text};
use hearth_data::nifti::read_nifti_values;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet").join(path)
}

/// How many labels differ from those that nnU-Net wrote.
fn differing(path: &Path, expected: &str) -> usize {
    let [found, expected] = [path.to_owned(), golden(expected)].map(|path| read_nifti_values(path).expect("labels").1);
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).filter(|(a, b)| *a != b).count()
}

#[test]
fn labels_are_written_skipped_and_replaced() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, out) = (golden("organs_legacy_nomirror/model"), dir.path().join("labels"));
    let input = dir.path().join("images");
    fs::create_dir(&input).expect("a folder");
    let image = golden("organs_legacy_nomirror/input/s01_0000.nii.gz");
    fs::copy(&image, input.join("s01_0000.nii.gz")).expect("a copy");
    fs::write(input.join("bad_0000.nii.gz"), b"not a volume").expect("written");
    let words = ["predict", &text(&model), "-i", &text(&input), "-o", &text(&out), "--device", "cpu"];
    // A broken case is reported, the other one is done.
    let said = fail(&words, 1, &["bad_0000.nii.gz", "1 of 2 cases failed"]);
    assert!(said.contains("Dataset905_Organs: 3d_fullres (1 fold)"), "{said}");
    let labels = out.join("s01.nii.gz");
    assert!(differing(&labels, "organs_legacy_nomirror/expected/s01.nii.gz") <= 5);
    let record = fs::read_to_string(out.join("s01.nii.gz.hearth.json")).expect("a record");
    assert!(record.contains("Dataset905_Organs") && record.contains("organ_11"), "{record}");

    fs::remove_file(input.join("bad_0000.nii.gz")).expect("a file");
    let again = run(&words);
    assert!(again.status.success() && errors(&again).contains("s01: done by an earlier call"), "{}", errors(&again));
    // Another step is another result.
    let other = [&words[..], &["--step-size", "0.9"]].concat();
    fail(&other, 1, &["s01.nii.gz exists", "--overwrite"]);
    let printed = succeed(&[&other[..], &["--overwrite", "--probabilities", "--no-mirroring"]].concat());
    assert!(printed.contains("s01.npz") && printed.contains("s01.nii.gz"), "{printed}");
    let found = fs::metadata(out.join("s01.npz")).expect("probabilities").len();
    assert!(found > 1000, "{found} bytes");
}

#[test]
fn a_cascade_in_two_calls_and_two_models_as_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let [low, high, two] = ["low", "high", "two"].map(|name| text(&dir.path().join(name)));
    let [lowres, cascade] = ["model_lowres", "model_cascade"].map(|name| text(&golden("cascade").join(name)));
    let input = text(&golden("cascade/input"));
    let call = |model: &str, out: &str, more: &[&str]| {
        succeed(&[&["predict", model, "-i", &input, "-o", out, "--device", "cpu"], more].concat())
    };
    call(&lowres, &low, &[]);
    assert!(differing(&dir.path().join("low/c01.nii.gz"), "cascade/lowres/expected/c01.nii.gz") <= 5);
    call(&cascade, &high, &["--previous-stage", &low]);
    assert!(differing(&dir.path().join("high/c01.nii.gz"), "cascade/expected/c01.nii.gz") <= 5);
    call(&lowres, &two, &["--with", &lowres]);
    // The mean of two of the same; softmax may tie what was not.
    assert!(differing(&dir.path().join("two/c01.nii.gz"), "cascade/lowres/expected/c01.nii.gz") <= 200);
    let without = ["predict", &cascade, "-i", &input, "-o", &text(&dir.path().join("none")), "--device", "cpu"];
    fail(&without, 1, &["1 of 1 cases failed", "--previous-stage"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = text(&golden("organs_legacy_nomirror/model"));
    let input = text(&golden("organs_legacy_nomirror/input"));
    let out = text(&dir.path().join("out"));
    let refused = |more: &[&str], words: &[&str]| {
        fail(&[&["predict", &model, "-i", &input, "-o", &out, "--device", "cpu"], more].concat(), 1, words);
    };
    refused(&["--folds", "7"], &["no fold_7", "folds 0"]);
    refused(&["--checkpoint", "best"], &["checkpoint_best.pth", "checkpoint_final.pth"]);
    refused(&["--tta", "flips"], &["--no-mirroring"]);
    refused(&["--picture"], &["--picture", "remove it"]);
    refused(&["--step-size", "2"], &["step size is 2"]);
    refused(&["--precision", "fp8"], &["fp8"]);
    refused(&["--with", &input], &["--with", "no model of nnU-Net"]);
    refused(&["--postprocessing", &text(&golden("cascade/case.json"))], &["postprocessing_fns"]);
    let file = text(&golden("organs_legacy_nomirror/input/s01_0000.nii.gz"));
    fail(&["predict", &model, "-i", &file, "-o", &out], 1, &["not a folder", "NAME_0000.nii.gz"]);
    let empty = text(dir.path());
    fail(&["predict", &empty, "-i", &input, "-o", &out, "--folds", "0"], 1, &["--folds", "plans.json"]);
    assert!(!dir.path().join("out").exists(), "nothing is made before the checks");
}
