//! Recipes that need more memory than any machine has: each is refused at once, with the required and
//! the available memory and the key to change.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{TINY, fail, phantom, succeed, text, tiny_recipe};

/// Reading three small cases included.
const AT_ONCE: Duration = Duration::from_secs(10);

/// `--set`, and parts of the error.
const ABSURD: &[(&str, &[&str])] = &[
    ("network.channels=[1000000000,2]", &["weights take", "GiB", "but this process may use", "lower `channels`"]),
    ("network.channels=[1000000000000000000,2]", &["weights take", "EiB", "lower `channels`"]),
    ("network.num_res_units=9223372036854775807", &["more than 20000 weights", "lower `num_res_units`"]),
    ("network.num_res_units=100000", &["more than 20000 weights", "lower `num_res_units`"]),
    ("network.kernel_size=1001", &["1001 x 1001 x 1001", "lower `kernel_size`"]),
    ("network.out_channels=1000000000000", &["weights take", "lower `out_channels`"]),
    ("data.workers=20000", &["20000 threads are too many", "at most 1024"]),
    ("data.cache={kind=\"cache\",workers=20000}", &["20000 threads are too many", "at most 1024"]),
    ("inferer.roi_size=[2000,2000,2000]", &["a window with its prediction: ", "lower `inferer.roi_size`"]),
    ("inferer.roi_size=[100000,100000,100000]", &["at least", "lower `inferer.roi_size`"]),
    ("transforms.RandCropByPosNegLabel.num_samples=10000000", &["10000000 crops of 16 x 16 x 16", "num_samples`"]),
    ("transforms.RandCropByPosNegLabel.spatial_size=[10000,10000,10000]", &["at least", "spatial_size`"]),
    (
        "transforms.RandCropByPosNegLabel.spatial_size=[1000000000,1000000000,1000000000]",
        &["at least", "spatial_size`"],
    ),
    (
        "data.cache={limit_gib=0.0001}",
        &["the cache would take about", "only 104.9 KiB may be used", "`rate = 0.", "auto"],
    ),
    ("training.batch_size=10000000", &["20000000 crops", "lower `training.batch_size`"]),
];

/// A changed recipe file.
fn changed(dir: &Path, from: &str, to: &str) -> String {
    assert!(TINY.contains(from), "{from:?}");
    let recipe = dir.join("changed.toml");
    std::fs::write(&recipe, TINY.replacen(from, to, 1)).expect("a recipe");
    text(&recipe)
}

fn at_once(arguments: &[&str], words: &[&str]) {
    let start = Instant::now();
    fail(arguments, 1, words);
    let took = start.elapsed();
    assert!(took < AT_ONCE, "{arguments:?}: {took:?}");
}

#[test]
fn recipes_that_cannot_fit_are_refused_by_a_dry_run_and_by_a_training() {
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data) = (text(&tiny_recipe(dir.path())), text(&phantom(dir.path(), 3)));
    let out = text(&dir.path().join("run"));
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu"];
    for (set, words) in ABSURD {
        at_once(&[&train[..], &["--set", set, "--dry-run"]].concat(), words);
        at_once(&[&train[..], &["--set", set]].concat(), words);
        assert!(!Path::new(&out).exists(), "{set} leaves no folder behind");
    }
    succeed(&[&train[..], &["--dry-run"]].concat());
}

#[test]
fn a_key_that_cannot_fit_is_pointed_at() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 2));
    let dry = |recipe: &str, words: &[&str]| {
        let out = text(&dir.path().join("run"));
        at_once(&["train", recipe, "--data", &data, "--out", &out, "--device", "cpu", "--dry-run"], words);
    };
    dry(
        &changed(dir.path(), "channels = [4, 8]", "channels = [4, 8000000000]"),
        &["changed.toml:22:", "channels = [4, 8000000000]", "^^^^"],
    );
    dry(
        &changed(dir.path(), "roi_size = [16, 16, 16]", "roi_size = [16, 160000, 160000]"),
        &["changed.toml:4", "160000", "^^^^"],
    );
    dry(
        &changed(dir.path(), "spatial_size = [16, 16, 16]", "spatial_size = [2000, 2000, 2000]"),
        &["changed.toml:11:", "^^^^"],
    );
}

/// The results of a network's layers for a crop are counted, too; the crop alone would fit a hundred
/// times.
#[test]
fn the_results_of_layers_are_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data) = (text(&tiny_recipe(dir.path())), text(&phantom(dir.path(), 2)));
    let out = text(&dir.path().join("run"));
    let sets = ["network.channels=[512,512]", "transforms.RandCropByPosNegLabel.spatial_size=[512,512,512]"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let dry = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--dry-run"];
    at_once(&[&dry[..], &sets].concat(), &["512 x 512 x 512", "what the network's layers make of them", "GiB"]);
}

#[test]
fn networks_that_cannot_fit_are_refused_by_describe_and_convert() {
    let dir = tempfile::tempdir().expect("a folder");
    let weights = dir.path().join("weights.safetensors");
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(&weights, [&length[..], &header[..], &[0; 4]].concat()).expect("a file");
    let (weights, out) = (text(&weights), text(&dir.path().join("out.safetensors")));
    for (config, word) in [
        ("channels=[1000000000,2]", "lower `channels`"),
        ("channels=[1000000000000000000,2]", "lower `channels`"),
        ("num_res_units=9223372036854775807", "lower `num_res_units`"),
        ("num_res_units=100000", "lower `num_res_units`"),
        ("kernel_size=1001", "lower `kernel_size`"),
        ("strides=[9223372036854775807]", "expected 1 to 65536"),
    ] {
        let changes = ["--config", "strides=[2]", "--config", "channels=[4,8]", "--config", config];
        at_once(&[&["models", "describe", "UNet"][..], &changes].concat(), &[word]);
        at_once(&[&["convert", &weights, &out, "--network", "UNet"][..], &changes].concat(), &[word]);
    }
    for (option, size) in [("--input", "1x4294967296x4294967296x4294967296"), ("--batch", "4294967295")] {
        at_once(&["models", "describe", "UNet", option, size], &["takes", "may use", "lower --input or --batch"]);
    }
}

/// An allocation that no check predicts ends with a message, and not with a core file.
#[cfg(target_os = "linux")]
#[test]
fn an_allocation_that_fails_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 2));
    let recipe = text(&tiny_recipe(dir.path()));
    let out = text(&dir.path().join("run"));
    let program = env!("CARGO_BIN_EXE_hearth");
    // Enough for the program, but not for anything large.
    let command = format!(
        "ulimit -v 700000; exec {program} train {recipe} --data {data} --out {out} --device cpu \
         --set 'transforms.Spacing.pixdim=[0.1,0.1,0.1]'"
    );
    let output = std::process::Command::new("sh").args(["-c", &command]).output().expect("a shell");
    let said = crate::common::errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: ") && !said.contains("panicked"), "{said}");
}
