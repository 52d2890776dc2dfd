//! `hearth predict` on models of nnU-Net, through the program.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, run, succeed, text};
use hearth_data::nifti::read_nifti_values;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet").join(path)
}

/// The number of labels that differ from those that nnU-Net wrote.
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
    // A broken case is reported, and the other one is predicted.
    let said = fail(&words, 1, &["bad_0000.nii.gz", "1 of 2 images failed"]);
    assert!(said.contains("nnU-Net Dataset905_Organs, 3d_fullres (1 fold)"), "{said}");
    let labels = out.join("s01.nii.gz");
    assert!(differing(&labels, "organs_legacy_nomirror/expected/s01.nii.gz") <= 5);
    let record = fs::read_to_string(out.join("records/s01.nii.gz.hearth.json")).expect("a record");
    assert!(record.contains("Dataset905_Organs") && record.contains("organ_11"), "{record}");

    fs::remove_file(input.join("bad_0000.nii.gz")).expect("a file");
    let again = run(&words);
    assert!(again.status.success() && errors(&again).contains("s01: done by an earlier call"), "{}", errors(&again));
    // Another step size gives another result.
    let other = [&words[..], &["--step-size", "0.9"]].concat();
    fail(&other, 1, &["s01.nii.gz exists", "--overwrite"]);
    let printed = succeed(&[&other[..], &["--overwrite", "--probabilities", "--no-mirroring"]].concat());
    assert!(printed.contains("s01.npz") && printed.contains("s01.nii.gz"), "{printed}");
    let found = fs::metadata(out.join("s01.npz")).expect("probabilities").len();
    assert!(found > 1000, "{found} bytes");
    // The file that nnU-Net's ensembles read next to the results; there is only one, whatever else is
    // predicted.
    for name in ["s01.pkl", "plans.json", "dataset.json"] {
        assert!(out.join(name).is_file(), "no {name}");
    }
    let bytes = fs::read(out.join("s01.pkl")).expect("a pickle");
    assert!(bytes.windows(10).any(|part| part == b"sitk_stuff"), "{bytes:?}");
    fs::write(out.join("plans.json"), "{}").expect("written");
    fail(&[&other[..], &["--overwrite", "--probabilities", "--no-mirroring"]].concat(), 1, &["plans.json"]);
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
    // The mean of two equal models; softmax may produce ties.
    assert!(differing(&dir.path().join("two/c01.nii.gz"), "cascade/lowres/expected/c01.nii.gz") <= 200);
    // The same with the command that merges runs.
    let merged = text(&dir.path().join("merged"));
    succeed(&["ensemble", &lowres, &lowres, "-i", &input, "-o", &merged, "--device", "cpu"]);
    assert!(differing(&dir.path().join("merged/c01.nii.gz"), "cascade/lowres/expected/c01.nii.gz") <= 200);
    fail(&["ensemble", &lowres, &lowres, "-i", &input, "-o", &merged, "--vote"], 1, &["--vote", "averaged"]);
    let without = ["predict", &cascade, "-i", &input, "-o", &text(&dir.path().join("none")), "--device", "cpu"];
    fail(&without, 1, &["continues from the labels", "--previous-stage"]);
}

/// The probability of the foreground in a file of nnU-Net: the first head is the background.
fn foreground(npz: &Path) -> Vec<f32> {
    let mut zip = zip::ZipArchive::new(fs::File::open(npz).expect("a file")).expect("a zip");
    let mut bytes = Vec::new();
    zip.by_name("probabilities.npy").expect("a member").read_to_end(&mut bytes).expect("bytes");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..start]).into_owned();
    let shape = header.split_once("'shape': (").expect("a shape").1.split(')').next().expect("numbers");
    let voxels = shape.split(',').skip(1).filter_map(|size| size.trim().parse::<usize>().ok()).product::<usize>();
    let values = bytes[start..].chunks_exact(4).take(voxels);
    values.map(|bytes| 1.0 - f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect()
}

#[test]
fn uncertainty_is_the_deviation_of_what_decides() {
    let dir = tempfile::tempdir().expect("a folder");
    let [low, first, second, both] = ["low", "first", "second", "both"].map(|name| text(&dir.path().join(name)));
    let [lowres, cascade] = ["model_lowres", "model_cascade"].map(|name| text(&golden("cascade").join(name)));
    let input = text(&golden("cascade/input"));
    let call = |model: &str, out: &str, more: &[&str]| {
        succeed(&[&["predict", model, "-i", &input, "-o", out, "--device", "cpu"], more].concat())
    };
    call(&lowres, &low, &[]);
    let alone = ["--no-mirroring", "--probabilities"];
    call(&lowres, &first, &alone);
    call(&cascade, &second, &[&alone[..], &["--previous-stage", &low]].concat());
    let together = ["--previous-stage", &low, "--with", &lowres, "--no-mirroring", "--uncertainty", "--json"];
    let line = call(&cascade, &both, &together);
    // The volume of each prediction is that of the labels which the model alone writes.
    let shown: serde_json::Value = serde_json::from_str(line.lines().next().expect("a line")).expect("JSON");
    let of = |out: &str, label: f32| {
        let labels = hearth_data::read_image(Path::new(out).join("c01.nii.gz")).expect("labels");
        let of_voxel = labels.spacing().iter().product::<f64>() / 1000.0;
        labels.to_vec().iter().filter(|value| **value == label).count() as f64 * of_voxel
    };
    let volumes = shown["volumes_ml_of_predictions"].as_object().expect("labels");
    assert!(!volumes.is_empty(), "{shown}");
    for (label, (name, facts)) in (1..).zip(volumes) {
        let expected = [of(&second, label as f32), of(&first, label as f32)];
        let found: Vec<f64> =
            facts["predictions"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.max(1.0);
        assert!(
            found.len() == 2 && near(found[0], expected[0]) && near(found[1], expected[1]),
            "{name}: {facts} {expected:?}"
        );
        assert!(near(facts["written"].as_f64().expect("ml"), of(&both, label as f32)), "{name}: {facts}");
    }
    let [one, two] = [&first, &second].map(|out| foreground(&Path::new(out).join("c01.npz")));
    let (_, std) = read_nifti_values(Path::new(&both).join("c01_std.nii.gz")).expect("a map");
    assert_eq!(std.len(), one.len());
    // The standard deviation of a sample of two.
    let worst = std.iter().zip(one.iter().zip(&two)).map(|(std, (a, b))| (std - (a - b).abs() / 2_f32.sqrt()).abs());
    assert!(worst.fold(0.0, f32::max) < 1e-4);
    assert!(std.iter().any(|std| *std > 0.01), "the models differ somewhere");

    // The results for mirrored images of one network differ, too.
    let model = text(&golden("mr_resenc_masked_2ch/model"));
    let (input, out) = (text(&golden("mr_resenc_masked_2ch/input")), text(&dir.path().join("mirrored")));
    let printed = succeed(&["predict", &model, "-i", &input, "-o", &out, "--device", "cpu", "--uncertainty", "--json"]);
    assert!(printed.contains("_std.nii.gz") && printed.contains("volume_variation"), "{printed}");
}

/// Probabilities of 13 outputs for 8 million voxels take 0.9 GB: the case fails before they are allocated,
/// with what to do, and the others are predicted. A failed allocation would end the process.
#[cfg(target_os = "linux")]
#[test]
fn a_case_whose_probabilities_do_not_fit_fails_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, images) = (text(&golden("organs_legacy_nomirror/model")), dir.path().join("images"));
    fs::create_dir(&images).expect("a folder");
    let small = fs::read_dir(golden("organs_legacy_nomirror/input")).expect("a folder").flatten().next().expect("one");
    fs::copy(small.path(), images.join("b_0000.nii.gz")).expect("a copy");
    // Voxels of 0.1 mm: few for the network.
    let mut affine = hearth_data::affine::IDENTITY;
    (0..3).for_each(|axis| affine[axis][axis] = 0.1);
    let side = 200_usize;
    let values = (0..side.pow(3)).map(|at| (at % 90) as f32).collect();
    let big = hearth_data::Image::from_values(values, [1, side, side, side], affine, &hearth_data::host_device());
    let options = hearth_data::NiftiOptions::label();
    hearth_data::write_nifti(images.join("a_0000.nii.gz"), &big, options).expect("written");
    drop(big);
    let out = dir.path().join("out");
    let predict = |more: &[&str]| {
        let words = ["predict", &model, "-i", &text(&images), "-o", &text(&out), "--device", "cpu"].map(str::to_owned);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "ulimit -v 700000 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_hearth")])
            .args(words)
            .args(more);
        shell.env("NO_COLOR", "1").output().expect("the shell starts")
    };
    let output = predict(&["--probabilities"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {said}", output.status);
    for part in ["mapping 13 outputs back", "of memory, but", "leave out --probabilities", "1 of 2 images"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(out.join("b.nii.gz").is_file() && out.join("b.npz").is_file() && !out.join("a.nii.gz").exists());
    let output = predict(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.join("a.nii.gz").is_file());
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
    refused(&["--dicom-seg"], &["--dicom-seg", "need DICOM"]);
    refused(&["--step-size", "2"], &["step size is 2"]);
    refused(&["--precision", "fp8"], &["fp8"]);
    refused(&["--previous-stage", &input], &["--previous-stage", "continues from no earlier stage"]);
    refused(&["--with", &input], &["--with", "no model of nnU-Net"]);
    refused(&["--postprocessing", &text(&golden("cascade/case.json"))], &["postprocessing_fns"]);
    let file = text(&golden("organs_legacy_nomirror/case.json"));
    fail(&["predict", &model, "-i", &file, "-o", &out, "--device", "cpu"], 1, &["case.json"]);
    fail(&["predict", &model, "-i", "none.nii.gz", "-o", &out], 1, &["no such file"]);
    let of_both = ["is no model of nnU-Net", "merges runs, or models of nnU-Net"];
    fail(&["ensemble", &model, &text(dir.path()), "-i", &input, "-o", &out], 1, &of_both);
    let fold = format!("{model}/fold_0");
    fail(&["predict", &fold, "-i", &input, "-o", &out], 1, &["is a part of the model of nnU-Net", &model]);
    let empty = text(dir.path());
    fail(&["predict", &empty, "-i", &input, "-o", &out, "--folds", "0"], 1, &["--folds", "models of nnU-Net"]);
    assert!(!dir.path().join("out").exists(), "nothing is made before the checks");
}

fn statistics_of(out: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(out.join("s01_0000_statistics.json")).expect("a file")).expect("JSON")
}

/// Two models side by side: the second has other names, and takes precedence.
#[test]
fn models_side_by_side_become_one_label_map() {
    let dir = tempfile::tempdir().expect("a folder");
    let models = dir.path().join("models");
    for (place, name) in ["Dataset001_First", "Dataset002_Second"].iter().enumerate() {
        let model = models.join(name).join("nnUNetTrainer__nnUNetPlans__3d_fullres");
        fs::create_dir_all(model.join("fold_0")).expect("a folder");
        for file in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
            fs::copy(golden("organs_legacy_nomirror/model").join(file), model.join(file)).expect("a copy");
        }
        if place == 1 {
            let path = model.join("dataset.json");
            let text = fs::read_to_string(&path).expect("JSON").replace("organ_", "part_");
            fs::remove_file(&path).expect("a copy");
            fs::write(&path, text).expect("written");
        }
    }
    let image = text(&golden("organs_legacy_nomirror/input/s01_0000.nii.gz"));
    let [all, some] = ["all", "some"].map(|name| dir.path().join(name));
    let call = |out: &Path, more: &[&str]| {
        let words = ["predict", &text(&models), "-i", &image, "-o", &text(out), "--device", "cpu", "--statistics"];
        succeed(&[&words[..], more].concat())
    };
    let printed = call(&all, &["--stats-include-incomplete"]);
    assert!(printed.contains("s01_0000_seg.nii.gz") && printed.contains("s01_0000_statistics.json"), "{printed}");
    let labels = read_nifti_values(all.join("s01_0000_seg.nii.gz")).expect("labels").1;
    assert_eq!(labels.len(), 22 * 24 * 20);
    let count = |label: f32| labels.iter().filter(|found| **found == label).count();
    // Where the second model predicts background, the first one's label remains; both are the same
    // network.
    assert!((1..=12).all(|label| count(label as f32) == 0), "the second model has the first one's labels");
    let statistics = statistics_of(&all);
    assert_eq!(statistics.as_object().map(|all| all.len()), Some(24));
    let known = statistics["part_4"]["volume"].as_f64().expect("a volume");
    assert!((known - count(17.0) as f64 * 27.0).abs() < 1e-6 * known.max(1.0), "{statistics}");
    assert!(statistics["organ_4"]["intensity"] == 0.0 && statistics["organ_4"]["volume"] == 0.0, "{statistics}");

    // Another measure of the same image is another result, and is not skipped.
    let words = ["predict", &text(&models), "-i", &image, "-o", &text(&all), "--device", "cpu", "--statistics"];
    fail(&words, 1, &["s01_0000", "--overwrite"]);
    // Its voxels fill a small image, so the border may cut it.
    call(&all, &["--overwrite"]);
    let statistics = statistics_of(&all);
    assert_eq!(statistics["part_4"]["volume"], 0.0, "{statistics}");
    call(&some, &["--roi-subset", "organ_4"]);
    let only = read_nifti_values(some.join("s01_0000_seg.nii.gz")).expect("labels").1;
    assert!(only.iter().zip(&labels).all(|(only, all)| (*only == 5.0) == (*all == 17.0)), "another label");

    let out = text(&dir.path().join("none"));
    let words = ["predict", &text(&models), "-i", &image, "-o", &out, "--device", "cpu"];
    fail(&[&words[..], &["--roi-subset", "organ_44"]].concat(), 1, &["--roi-subset", "organ_44", "organ_4"]);
    fail(&[&words[..], &["--probabilities"]].concat(), 1, &["--probabilities", "folder of models"]);
    let one = text(&golden("organs_legacy_nomirror/model"));
    // A single model is measured, too: by the labels, in any place.
    succeed(&["predict", &one, "-i", &image, "-o", &out, "--device", "cpu", "--statistics"]);
    let measured = fs::read(dir.path().join("none/s01_statistics.json")).expect("a file");
    let measured: serde_json::Value = serde_json::from_slice(&measured).expect("JSON");
    assert!(measured["organ_2"]["volume"].as_f64().is_some_and(|volume| volume > 0.0), "{measured}");
    fail(&["predict", &one, "-i", &image, "-o", &out, "--task", "total"], 1, &["--task", "several models"]);
    fail(&[&words[..], &["--variant", "small"]].concat(), 1, &["--variant", "TotalSegmentator"]);
    fail(&[&words[..], &["--task", "totl"]].concat(), 1, &["--task", "total"]);
}

/// Recipes for data that nnU-Net has planned and preprocessed.
#[test]
fn a_preprocessed_data_set_gets_its_recipes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (data, out) = (text(&golden("preprocessed/preprocessed/Dataset011_Blobs")), text(&dir.path().join("plans")));
    let printed = succeed(&["plan", &data, "-o", &out]);
    assert!(printed.contains("3d_fullres.toml"), "{printed}");
    let recipe = text(&dir.path().join("plans/3d_fullres.toml"));
    let run = text(&dir.path().join("run"));
    let splits = text(&golden("preprocessed/preprocessed/Dataset011_Blobs/splits_final.json"));
    let train = ["train", &recipe, "--data", &data, "--out", &run, "--folds", &splits, "--device", "cpu", "--dry-run"];
    let printed = succeed(&train);
    assert!(printed.contains("fold 1: 2 cases validate: blob_0, blob_1"), "{printed}");
    fail(&["plan", &data, "-o", &out, "--memory", "8"], 1, &["--memory", "raw data set"]);
    let foreign = text(&dir.path().join("plans"));
    fail(&["plan", &foreign, "-o", &out], 1, &["no dataset.json", "no cases of DICOM"]);
    fail(&["plan", &data, "-o", &out, "--planner", "L"], 1, &["nnUNetResEncUNetLPlans.json"]);
    fail(
        &["train", "hippocampus", "--data", &data, "--out", &run, "--dry-run"],
        1,
        &["nnUNet_preprocessed", "hearth plan"],
    );
}

#[test]
fn only_runs_of_planned_recipes_are_exported() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = text(&dir.path().join("model"));
    let missing = text(&dir.path().join("run"));
    fail(&["export", &missing, "--to", "nnunet", "-o", &out], 1, &["there is no run at"]);
    let run = dir.path().join("spleen");
    fs::create_dir(&run).expect("a folder");
    fs::write(run.join("recipe.toml"), succeed(&["recipes", "show", "spleen"])).expect("written");
    fail(&["export", &text(&run), "--to", "nnunet", "-o", &out], 1, &["NnunetPreprocess", "hearth plan"]);
    assert!(!dir.path().join("model").exists(), "nothing is made before the checks");
}

/// A zip of a model, as nnU-Net exports it: `DatasetXXX_Name/TRAINER__PLANS__CONFIGURATION/...`.
fn zip(path: &Path, more: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).expect("a file"));
    let options = zip::write::SimpleFileOptions::default();
    let mut add = |name: &str, content: &[u8]| {
        zip.start_file(name, options).expect("an entry");
        std::io::Write::write_all(&mut zip, content).expect("written");
    };
    for file in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
        let content = fs::read(golden("organs_legacy_nomirror/model").join(file)).expect("a file");
        add(&format!("Dataset905_Organs/nnUNetTrainer__nnUNetPlans__3d_fullres/{file}"), &content);
    }
    more.iter().for_each(|(name, content)| add(name, content));
    zip.finish().expect("a zip");
}

#[test]
fn models_are_stored_and_predict_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = dir.path().join("store");
    let call = |words: &[&str]| {
        let output =
            crate::common::hearth().env("HEARTH_MODELS", &store).args(words).output().expect("the program starts");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), errors(&output))
    };
    let good = dir.path().join("organs.zip");
    zip(&good, &[("LICENSE", b"CC0")]);
    let (done, printed, said) = call(&["models", "add", &text(&good)]);
    assert!(done && printed.contains("nnU-Net v2") && printed.contains("licence: LICENSE"), "{printed}{said}");
    let (_, printed, _) = call(&["models", "list", "--stored"]);
    assert!(printed.contains("organs") && printed.contains("organs.zip"), "{printed}");
    // A store in another place is not where `predict` looks for names.
    let other = text(&dir.path().join("other"));
    let (_, printed, _) = call(&["models", "add", &text(&good), "--store", &other]);
    let line = printed.lines().find(|line| line.trim().starts_with("hearth predict")).expect("a command");
    let path = line.split_whitespace().nth(2).expect("a path");
    assert!(Path::new(path).is_dir() && path.starts_with(&other), "{line}");
    let (done, _, said) = call(&["models", "info", "organs", "--check"]);
    assert!(done && said.contains("all 4 files"), "{said}");
    let (input, out) = (text(&golden("organs_legacy_nomirror/input")), dir.path().join("labels"));
    let (done, _, said) = call(&["predict", "organs", "-i", &input, "-o", &text(&out), "--device", "cpu"]);
    assert!(done, "{said}");
    assert!(differing(&out.join("s01.nii.gz"), "organs_legacy_nomirror/expected/s01.nii.gz") <= 5);

    // The unpacked archive is the same model, with its own labels and names of files.
    let (unpacked, again) = (dir.path().join("unpacked"), dir.path().join("again"));
    zip::ZipArchive::new(fs::File::open(&good).expect("a zip")).and_then(|mut zip| zip.extract(&unpacked)).expect("it");
    let (done, _, said) = call(&["predict", &text(&unpacked), "-i", &input, "-o", &text(&again), "--device", "cpu"]);
    assert!(done, "{said}");
    let [stored, given] = [&out, &again].map(|out| fs::read(out.join("s01.nii.gz")).expect("labels"));
    assert!(stored == given, "the labels of a stored model differ from those of its folder");

    let (done, _, said) = call(&["models", "add", &text(&good)]);
    assert!(!done && said.contains("hearth models remove"), "{said}");
    let slip = dir.path().join("slip.zip");
    zip(&slip, &[("../../outside", b"x")]);
    let (done, _, said) = call(&["models", "add", &text(&slip)]);
    assert!(!done && said.contains("leads out of the folder"), "{said}");
    let bomb = dir.path().join("bomb.zip");
    zip(&bomb, &[("zeros", &vec![0; 1 << 27])]);
    let (done, _, said) = call(&["models", "add", &text(&bomb)]);
    assert!(!done && said.contains("the content of"), "{said}");
    let (done, _, said) = call(&["models", "add", &input]);
    assert!(!done && said.contains("is no model"), "{said}");

    fs::write(store.join("organs/LICENSE"), "other").expect("written");
    let (done, _, said) = call(&["models", "info", "organs", "--check"]);
    assert!(!done && said.contains("LICENSE"), "{said}");
    assert!(call(&["models", "remove", "organs"]).0);
    let left: Vec<_> = fs::read_dir(&store).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
