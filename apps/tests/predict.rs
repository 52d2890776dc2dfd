//! Train, evaluate, predict, preprocess and the demo, through the program.

mod common;

use std::path::{Path, PathBuf};

use common::{errors, fail, phantom, plugins_are_built, run, succeed, text, tiny_recipe};
use hearth_data::{Image, read_nifti};

fn trained(dir: &Path) -> (PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let (recipe, data) = (tiny_recipe(dir), phantom(dir, 4));
    let out = dir.join("run");
    succeed(&[
        "train",
        &text(&recipe),
        "--data",
        &text(&data),
        "--out",
        &text(&out),
        "--epochs",
        "3",
        "--device",
        "cpu",
    ]);
    (out, data)
}

fn volumes(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()).collect();
    files.sort();
    files
}

fn image(path: &Path) -> Image {
    read_nifti(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn labels_lie_on_the_grid_of_their_image() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = volumes(&data.join("imagesTr"));
    let out = dir.path().join("labels");
    let bad = dir.path().join("bad.nii.gz");
    std::fs::write(&bad, b"not a volume").expect("a file");
    let mut words: Vec<String> =
        ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &text(&bad)]
            .iter()
            .map(|word| (*word).to_owned())
            .collect();
    words.extend(images.iter().map(|path| text(path)));
    let output = run(&words);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("bad.nii.gz") && said.contains("1 of 5"), "{said}");
    for path in &images {
        let name = path.file_name().expect("a name");
        let (before, after) = (image(path), image(&out.join(name)));
        assert_eq!(after.meta.original_shape, before.meta.original_shape, "{name:?}");
        for (row, expected) in after.meta.original_affine.iter().zip(before.meta.original_affine) {
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{name:?}: {value} {expected}");
            }
        }
        let values = after.to_vec();
        assert!(values.iter().all(|value| *value == 0.0 || *value == 1.0), "{name:?} holds classes");
    }
    // The labels would lie over the images.
    let folder = text(images[0].parent().expect("a folder"));
    fail(&["predict", &text(&run_folder), "-o", &folder, "-i", &text(&images[0])], 1, &["would overwrite"]);
}

#[test]
fn post_processing_cleans_what_is_predicted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    assert!(plugins_are_built());
    let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 2));
    let post = "[post]\nprediction = [{ name = \"AsDiscrete\", argmax = true, to_onehot = 2 }, \
                { name = \"KeepLargestConnectedComponent\" }]\n";
    let plain = std::fs::read_to_string(&recipe).expect("the recipe");
    std::fs::write(&recipe, format!("{plain}{post}")).expect("the recipe is written");
    let out = dir.path().join("run");
    let arguments = ["train", &text(&recipe), "--data", &text(&data), "--out", &text(&out), "--epochs", "1"];
    succeed(&[&arguments[..], &["--device", "cpu"]].concat());
    // As a data set, so that the pieces of the labels can be counted.
    let labels = dir.path().join("predicted/labels");
    for image in volumes(&data.join("imagesTr")) {
        let copy = dir.path().join("predicted/images").join(image.file_name().expect("a name"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&image, &copy).expect("a copy");
        succeed(&["predict", &text(&out), "--device", "cpu", "-o", &text(&labels), "-i", &text(&image)]);
    }
    let options = hearth_data::quality::VerifyOptions::default();
    let report = hearth_data::quality::verify(&dir.path().join("predicted"), &options).expect("a data set");
    assert_eq!(report.cases.len(), 2);
    for label in report.cases.iter().flat_map(|case| &case.labels) {
        assert_eq!((label.value, label.components), (1, 1));
    }
    assert!(report.cases.iter().any(|case| !case.labels.is_empty()), "one epoch finds something, however wrong");
}

#[test]
fn a_run_holds_what_it_should_and_evaluates_to_what_it_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    for file in ["recipe.toml", "metrics.csv", "log.jsonl", "summary.json", "checkpoints", "tensorboard"] {
        assert!(run_folder.join(file).exists(), "{file}");
    }
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run_folder.join("summary.json")).expect("the summary")).expect("JSON");
    let best = summary["best_metric"].as_f64().expect("a best metric");
    assert!(
        summary["event_seconds"].as_object().is_some_and(|times| times.contains_key("epoch_completed")),
        "{summary}"
    );
    let handlers = summary["handlers"].as_array().expect("the handlers' times");
    for plugin in ["validation", "checkpoint", "stats"] {
        assert!(handlers.iter().any(|h| h["name"].as_str().is_some_and(|n| n.contains(plugin))), "{summary}");
    }
    let json = succeed(&["evaluate", &text(&run_folder), "--data", &text(&data), "--device", "cpu", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let dice = result["mean_dice"].as_f64().expect("a mean");
    assert!((dice - best).abs() < 1e-6, "evaluate says {dice}, the run's best was {best}");
    assert_eq!(result["cases"].as_array().map(Vec::len), Some(1), "the recipe holds back one case");
    let all = succeed(&["evaluate", &text(&run_folder), "--data", &text(&data), "--device", "cpu", "--json", "--all"]);
    let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
    assert_eq!(all["cases"].as_array().map(Vec::len), Some(4));
    let people = succeed(&["evaluate", &text(&run_folder), "--data", &text(&data), "--device", "cpu"]);
    assert!(people.contains("spleen") && people.contains("mean"), "{people}");
    fail(&["evaluate", &text(&run_folder), "--data", &text(&data), "--checkpoint", "bst"], 1, &["bst"]);
}

#[test]
fn the_resolved_recipe_means_the_same_as_the_one_given() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recipe = tiny_recipe(dir.path());
    let show = |recipe: &str| {
        let out = text(&dir.path().join("never"));
        succeed(&["train", recipe, "--data", &text(dir.path()), "--out", &out, "--dry-run"])
    };
    for name in [text(&recipe), "spleen".into(), "spleen-regular".into(), "hippocampus".into(), "demo".into()] {
        let first = show(&name);
        let toml = first.split("# end of recipe").next().expect("the recipe comes first");
        let again = dir.path().join("again.toml");
        std::fs::write(&again, toml).expect("the recipe is written");
        assert_eq!(show(&text(&again)), first, "{name}");
    }
}

#[test]
fn preprocess_writes_what_the_network_would_see() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 1));
    let (images, labels) = (volumes(&data.join("imagesTr")), volumes(&data.join("labelsTr")));
    let out = dir.path().join("pre");
    let (recipe, image_path, target) = (text(&recipe), text(&images[0]), text(&out));
    let arguments = ["preprocess", &recipe, "--image", &image_path, "-o", &target];
    succeed(&[&arguments[..], &["--label", &text(&labels[0])]].concat());
    let written = volumes(&out);
    assert_eq!(written.len(), 2, "{written:?}");
    for path in &written {
        let image = image(path);
        assert!(image.spacing().iter().all(|mm| (mm - 6.0).abs() < 1e-3), "{:?}", image.spacing());
        let values = image.to_vec();
        assert!(values.iter().all(|value| (0.0..=1.0).contains(value)));
        assert!(values.iter().any(|value| *value > 0.5));
    }
    succeed(&arguments);
}
