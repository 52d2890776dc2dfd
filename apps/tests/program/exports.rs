//! A run as an ONNX model and as a MONAI bundle, which gives the same result as `hearth predict`.

mod kinds;
mod twins;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fail, phantom, plugins_are_built, succeed, text, tiny_recipe};
use serde_json::{Value, json};

/// A trained run, and its data.
fn run(folder: &Path, more: &[&str]) -> (PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let (data, recipe, run) = (phantom(folder, 3), tiny_recipe(folder), folder.join("run"));
    let (recipe, data_text, out) = (text(&recipe), text(&data), text(&run));
    let mut words = vec!["train", &recipe, "--data", &data_text, "--out", &out, "--device", "cpu"];
    words.extend(more.iter().flat_map(|set| ["--set", *set]));
    succeed(&words);
    (run, data)
}

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/bundle.json")
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

/// The content of a bundle's configurations, without what differs between machines.
fn configurations(bundle: &Path) -> Value {
    let mut metadata = json_of(&bundle.join("configs/metadata.json"));
    // What the run knows about its images, which are made in floating point.
    let known = metadata.as_object_mut().and_then(|table| table.remove("hearth_fingerprint")).expect("a fingerprint");
    assert!(known["cases"].as_u64().is_some_and(|cases| cases > 0), "{known}");
    json!({ "inference": json_of(&bundle.join("configs/inference.json")), "metadata": metadata })
}

fn export(run: &Path, to: &str, out: &Path) -> String {
    succeed(&["export", &text(run), "--to", to, "-o", &text(out), "--checkpoint", "latest"])
}

#[test]
fn a_bundle_says_what_the_recipe_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, _) = run(dir.path(), &["training.epochs=1"]);
    let bundle = dir.path().join("bundle");
    let said = export(&run, "bundle", &bundle);
    for name in ["configs/metadata.json", "configs/inference.json", "models/model.pt", "docs/README.md", "LICENSE"] {
        assert!(bundle.join(name).is_file() && said.contains(name), "{name}: {said}");
    }
    let recorded = json_of(&record());
    let how = crate::clients::how_to_record("hearth-apps");
    assert_eq!(configurations(&bundle), recorded["configurations"], "another bundle is written now. {how}");
    agree(&recorded["said"]);
    // The exported weights can be read by this program, too.
    let safe = dir.path().join("back.safetensors");
    let said = succeed(&[
        "convert",
        &text(&bundle.join("models/model.pt")),
        &text(&safe),
        "--recipe",
        &text(&run.join("recipe.toml")),
    ]);
    assert!(said.contains("every key of the network"), "{said}");
    let out = text(&bundle);
    fail(&["export", &text(&run), "--to", "bundle", "-o", &out], 1, &["not empty"]);
    fail(&["export", &text(&run), "--to", "bundle"], 1, &["--out"]);
    fail(&["export", &text(&run), "--to", "onnx", "--license", "x"], 1, &["--licence"]);
    // A folder of folds.
    let words = ["such as", "run", "--to hearth"];
    fail(&["export", &text(dir.path()), "--to", "bundle", "-o", &text(&dir.path().join("folds"))], 1, &words);
}

/// The only label map in a folder.
fn labels(folder: &Path) -> Vec<f32> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let found: Vec<PathBuf> = files.filter(|path| text(path).ends_with(".nii.gz")).collect();
    let [one] = &found[..] else { panic!("{}: {found:?}", folder.display()) };
    hearth_data::read_image(one).expect("an image").to_vec()
}

#[test]
fn a_bundle_predicts_what_its_run_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, data) = run(dir.path(), &["training.epochs=60", "training.val_interval=20", "optimizer.lr=0.1"]);
    let bundle = dir.path().join("bundle");
    export(&run, "bundle", &bundle);
    let first = fs::read_dir(data.join("imagesTr")).expect("a folder").next().expect("a case").expect("an entry");
    let (case, ours, theirs) = (text(&first.path()), dir.path().join("ours"), dir.path().join("theirs"));
    let common = ["-i", &case, "--device", "cpu"];
    succeed(&[&["predict", &text(&run), "-o", &text(&ours), "--checkpoint", "latest"][..], &common].concat());
    let said = succeed(&[&["predict", &text(&bundle), "-o", &text(&theirs)][..], &common].concat());
    assert!(said.contains(".nii.gz"), "{said}");
    let (ours, found) = (labels(&ours), labels(&theirs));
    assert!(ours.iter().filter(|label| **label > 0.0).count() > 20);
    let same = ours.iter().zip(&found).filter(|(a, b)| a == b).count();
    assert!(ours.len() == found.len() && same as f64 > 0.9999 * ours.len() as f64, "{same} of {}", ours.len());
    let again = ["predict", &text(&bundle), "-o", &text(&theirs), "-i", &case];
    assert!(succeed(&[&again[..], &["--device", "cpu"]].concat()).is_empty(), "done by the earlier call");
    fail(&[&again[..], &["--uncertainty"]].concat(), 1, &["--uncertainty", "MONAI bundle"]);
}

#[test]
fn what_a_bundle_cannot_say_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let step = "transforms=[{ name = \"LoadImage\", keys = [\"image\", \"label\"] }, { name = \"EnsureChannelFirst\", \
                keys = [\"image\", \"label\"] }, { name = \"ScaleIntensityFixedMean\", keys = [\"image\"], factor = 0.1 }, { name = \
                \"RandSpatialCrop\", keys = [\"image\", \"label\"], roi_size = [16, 16, 16], random_size = false }]";
    let (run, _) = run(dir.path(), &["training.epochs=1", step]);
    let out = text(&dir.path().join("bundle"));
    fail(
        &["export", &text(&run), "--to", "bundle", "-o", &out, "--checkpoint", "latest"],
        1,
        &["ScaleIntensityFixedMean", "recipe.toml:"],
    );
    assert!(!Path::new(&out).exists());
}

/// Checks the numbers of equal voxels, of all and of the foreground.
fn agree(said: &Value) {
    let number = |key: &str| said[key].as_f64().expect("a number");
    assert!(number("same") > 0.9999 && number("foreground") > 20.0, "{said}");
    assert_eq!(said["affine"], true, "{said}");
}

const SCRIPT: &str = r#"
import json, sys
import nibabel as nib
import numpy as np
ours, theirs = (nib.load(p) for p in sys.argv[1:3])
a, b = np.asarray(ours.dataobj).squeeze(), np.asarray(theirs.dataobj).squeeze()
print(json.dumps({
    "same": float((a == b).mean()), "foreground": int((a > 0).sum()), "shape": list(b.shape),
    "affine": bool(np.allclose(ours.affine, theirs.affine, atol=1e-4)),
}))
"#;

#[test]
fn live_monai_runs_the_bundle() {
    let modules = &["monai", "ignite", "nibabel", "torch"];
    let Some(python) = crate::clients::find(modules, "a_bundle_says_what_the_recipe_does") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (run, data) = run(dir.path(), &["training.epochs=60", "training.val_interval=20", "optimizer.lr=0.1"]);
    let bundle = dir.path().join("bundle");
    export(&run, "bundle", &bundle);
    let images = data.join("imagesTr");
    let case = fs::read_dir(&images).expect("a folder").map(|entry| entry.expect("an entry").path()).next();
    let case = case.expect("a case");
    let (one, theirs, ours) = (dir.path().join("one"), dir.path().join("theirs"), dir.path().join("ours"));
    fs::create_dir_all(&one).expect("made");
    fs::copy(&case, one.join(case.file_name().expect("a name"))).expect("copied");
    succeed(&[
        "predict",
        &text(&run),
        "-i",
        &text(&case),
        "-o",
        &text(&ours),
        "--checkpoint",
        "latest",
        "--device",
        "cpu",
    ]);
    // The calls of `python -m monai.bundle run`.
    let code = "import sys; from monai.bundle import run\n\
                run(config_file='configs/inference.json', bundle_root='.', dataset_dir=sys.argv[1], output_dir=sys.argv[2])";
    let mut command = python.command();
    command.args(["-c", code, &text(&one), &text(&theirs)]).current_dir(&bundle);
    let output = command.env("OMP_NUM_THREADS", "1").output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stem = case.file_name().expect("a name").to_string_lossy().replace(".nii.gz", "_seg.nii.gz");
    let said: Value = serde_json::from_str(&python.run(SCRIPT, [ours.join(&stem), theirs.join(&stem)])).expect("JSON");
    agree(&said);
    if crate::clients::recording() {
        let made = dir.path().join("first");
        fs::create_dir_all(&made).expect("made");
        let (short, _) = self::run(&made, &["training.epochs=1"]);
        let bundle = made.join("bundle");
        export(&short, "bundle", &bundle);
        let text = json!({ "made_with": python.versions(), "configurations": configurations(&bundle), "said": said });
        fs::write(record(), format!("{text}\n")).expect("written");
    }
}

#[test]
fn a_run_becomes_an_onnx_model() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run, _) = run(dir.path(), &["training.epochs=1"]);
    let path = dir.path().join("tiny.onnx");
    let said = export(&run, "onnx", &path);
    assert!(said.contains("tiny.onnx") && said.contains("operators"), "{said}");
    let bytes = fs::read(&path).expect("a model");
    let has = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    for word in ["Hearth", "ConvTranspose", "model.0.conv.unit0.conv", "spacing", "[6.0,6.0,6.0]", "softmax", "logits"]
    {
        assert!(has(word), "no {word:?}");
    }
    let (run, path) = (text(&run), text(&path));
    fail(&["export", &run, "--to", "onnx", "-o", &path], 1, &["exists already", "-o"]);
    let missing = text(&dir.path().join("none"));
    fail(&["export", &missing, "--to", "onnx", "-o", "new.onnx"], 1, &["none"]);
}

/// A package and a bundle of a run hold its network; models of nnU-Net have one for each fold.
#[test]
fn every_family_of_one_network_becomes_an_onnx_model() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&dir.path().join(name));
    let (run, _) = run(dir.path(), &["training.epochs=1"]);
    let run = text(&run);
    let onnx = |model: &str, more: &[&str]| {
        let path = at("model.onnx");
        let said = succeed(&[&["export", model, &path], more].concat());
        let made = fs::read(&path).expect("a model");
        fs::remove_file(path).expect("removed");
        (made, said.lines().last().unwrap_or_default().to_owned())
    };
    let (package, bundle) = (at("run.hearth"), at("bundle"));
    succeed(&["export", &run, &package]);
    succeed(&["export", &run, "--to", "bundle", "-o", &bundle]);
    let (of_run, operators) = onnx(&run, &[]);
    let (of_package, _) = onnx(&package, &[]);
    assert!(of_run == of_package, "a package has another network");
    let (of_bundle, said) = onnx(&bundle, &[]);
    assert_eq!(operators, said);
    // The weights have the same bytes in both; the longest tensor is that of the lowest level.
    let entries = fs::read_dir(Path::new(&run).join("checkpoints")).expect("checkpoints").flatten();
    let mut files = entries.map(|entry| entry.path().join("network.safetensors"));
    let model = fs::read(files.find(|path| path.is_file()).expect("a checkpoint")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&model).expect("safetensors");
    for (name, tensor) in weights.tensors().iter().filter(|(_, tensor)| tensor.data().len() > 64) {
        let within = |made: &[u8]| made.windows(tensor.data().len()).any(|part| part == tensor.data());
        assert!(within(&of_run) && within(&of_bundle), "{name} is not in both models");
    }

    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/mr_2d_transposed/model");
    let nnunet = dir.path().join("nnunet");
    for fold in ["fold_0", "fold_1"] {
        fs::create_dir_all(nnunet.join(fold)).expect("a folder");
        fs::copy(golden.join("fold_0/checkpoint_final.pth"), nnunet.join(fold).join("checkpoint_final.pth"))
            .expect("a copy");
    }
    for file in ["plans.json", "dataset.json"] {
        fs::copy(golden.join(file), nnunet.join(file)).expect("a copy");
    }
    let nnunet = text(&nnunet);
    let (alone, _) = onnx(&text(&golden), &[]);
    let (chosen, _) = onnx(&nnunet, &["--fold", "1"]);
    let has = |word: &str| chosen.windows(word.len()).any(|part| part == word.as_bytes());
    for word in ["InstanceNormalization", "roi_size", "fold_1/checkpoint_final.pth", "foreground_intensity"] {
        assert!(has(word), "no {word:?}");
    }
    assert_eq!(alone.len(), chosen.len());

    let to = at("other.onnx");
    let refused = |words: &[&str], said: &[&str]| fail(&[&["export"], words].concat(), 1, said);
    refused(&[&nnunet, &to], &["2 folds", "--fold (0, 1)"]);
    refused(&[&nnunet, &to, "--fold", "7"], &["fold_7", "0, 1"]);
    refused(&[&run, &to, "--fold", "0"], &["--fold 0", "this is a run"]);
    refused(&[&package, &to, "--checkpoint", "latest"], &["--checkpoint latest", "remove it"]);
    refused(&[&bundle, &to, "--checkpoint", "latest"], &["--checkpoint latest", "remove it"]);
    refused(&[&run, &at("x.hearth"), "--fold", "0"], &["--fold", "--to onnx"]);
    let models = text(&dir.path().join("models"));
    let model = dir.path().join("models/Dataset001_A/nnUNetTrainer__nnUNetPlans__2d");
    fs::create_dir_all(model.parent().expect("a parent")).expect("a folder");
    fs::rename(&nnunet, &model).expect("moved");
    // A folder with one model is that model.
    let (below, _) = onnx(&models, &["--fold", "1"]);
    assert!(below == chosen, "another network");
    let second = dir.path().join("models/Dataset002_B/nnUNetTrainer__nnUNetPlans__2d");
    fs::create_dir_all(second.join("fold_0")).expect("a folder");
    for file in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
        fs::copy(golden.join(file), second.join(file)).expect("a copy");
    }
    refused(&[&models, &to], &["several models of nnU-Net", "one network"]);
    assert!(!Path::new(&to).exists());
}
