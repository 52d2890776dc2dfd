//! The program on software Vulkan: trains with the cases on the device, resumes and predicts; compared
//! with the same on the CPU.

#![cfg(feature = "vulkan")]

mod common;
#[path = "../../tests/src/gpu.rs"]
mod gpu;

use std::path::{Path, PathBuf};

use common::{fail, phantom, plugins_are_built, run, succeed, text, tiny_recipe};

/// The recipe's own cache, on the device.
const ON_DEVICE: &str = r#"data.cache={device="same"}"#;

struct Bench {
    dir: tempfile::TempDir,
    recipe: PathBuf,
    data: PathBuf,
}

impl Bench {
    fn new() -> Self {
        assert!(plugins_are_built());
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Ten iterations per epoch: the log has a line for every tenth.
        let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 11));
        Self { dir, recipe, data }
    }

    /// Trains an epoch, resumes for another, and predicts. Returns the losses in the log and the
    /// predicted voxels.
    fn train(&self, device: &str) -> (Vec<f64>, Vec<u8>) {
        let (out, labels) = (self.dir.path().join(device), self.dir.path().join(format!("{device}-labels")));
        let (recipe, data, run_folder) = (text(&self.recipe), text(&self.data), text(&out));
        let place = ["--data", &data, "--out", &run_folder, "--device", device];
        succeed(&[&["train", &recipe, "--epochs", "1", "--set", ON_DEVICE], &place[..]].concat());
        succeed(&[&["train", "--resume", "--epochs", "2", "--tune", "off"], &place[..]].concat());
        let image = image(&self.data);
        succeed(&["predict", &run_folder, "--image", &text(&image), "-o", &text(&labels), "--device", device]);
        (losses(&out), voxels(&labels))
    }
}

/// A training image of the data set.
fn image(data: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(data.join("imagesTr"))
        .expect("images")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    found.sort();
    found.remove(0)
}

fn losses(run: &Path) -> Vec<f64> {
    let log = std::fs::read_to_string(run.join("log.jsonl")).expect("log.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "iteration").filter_map(|line| line["loss"].as_f64()).collect()
}

fn voxels(folder: &Path) -> Vec<u8> {
    let file = folder.join("spleen_00_seg.nii.gz");
    hearth_data::read_nifti(file).expect("NIfTI").to_vec().iter().map(|v| *v as u8).collect()
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn the_program_trains_resumes_and_predicts_on_vulkan() {
    let bench = Bench::new();
    let ((expected, labels), (found, predicted)) = (bench.train("cpu"), bench.train(&gpu::word()));
    eprintln!("losses on the CPU {expected:?}, on Vulkan {found:?}");
    assert_eq!((expected.len(), found.len()), (2, 2), "{expected:?} {found:?}");
    for (a, b) in expected.iter().zip(&found) {
        assert!((a - b).abs() <= 2e-3 * a.abs(), "{b} on Vulkan, {a} on the CPU");
    }
    let others = labels.iter().zip(&predicted).filter(|(a, b)| a != b).count();
    assert!(labels.len() == predicted.len() && others * 100 <= labels.len(), "{others} of {} differ", labels.len());
}

/// A step that goes through the host says so, once; a cache without room for a case is an error in
/// words.
#[test]
#[ignore = "needs a Vulkan driver"]
fn host_steps_are_reported_and_a_full_device_is_an_error_on_vulkan() {
    let bench = Bench::new();
    let (recipe, data) = (text(&bench.recipe), text(&bench.data));
    let out = |name: &str| text(&bench.dir.path().join(name));
    let train = |name: &str, set: &str| {
        let (out, gpu) = (out(name), gpu::word());
        let words = ["train", &recipe, "--data", &data, "--out", &out, "--device", &gpu, "--epochs", "1"];
        [&words[..], &["--set", set]].concat().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let full = train("full", r#"data.cache={device="same",limit_gib=0.0000001}"#);
    fail(&full, 1, &["only", "may be used", "in the host's memory (`device = \"host\"`)"]);

    let recipe_text = std::fs::read_to_string(&bench.recipe).expect("the recipe");
    let gibbs = "prob = 0.5, spatial_axis = 0 },\n    { name = \"RandGibbsNoise\", keys = [\"image\"], prob = 1.0 },";
    std::fs::write(&bench.recipe, recipe_text.replace("prob = 0.5, spatial_axis = 0 },", gibbs)).expect("written");
    let output = run(&train("gibbs", ON_DEVICE));
    let told = common::errors(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!(told.matches("RandGibbsNoise: copied from the device to the host").count(), 1, "{told}");
}
