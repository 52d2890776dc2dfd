//! Advanced options of a training: several metrics, initial weights, frozen layers, heads, groups,
//! a learning rate search, test-time augmentation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{TINY, fail, phantom, plugins_are_built, run, succeed, text};
use serde_json::Value;

struct Bench {
    dir: tempfile::TempDir,
    data: String,
}

impl Bench {
    fn new(cases: usize) -> Self {
        assert!(plugins_are_built());
        let dir = tempfile::tempdir().expect("a temporary folder");
        let data = text(&phantom(dir.path(), cases));
        Self { dir, data }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The tiny recipe with pieces of its text replaced and a piece added.
    fn recipe(&self, name: &str, changes: &[(&str, &str)], more: &str) -> String {
        let mut recipe = TINY.to_owned();
        for (from, to) in changes {
            assert!(recipe.contains(from), "{from:?} is in the recipe");
            recipe = recipe.replacen(from, to, 1);
        }
        let path = self.at(name);
        std::fs::write(&path, recipe + more).expect("the recipe is written");
        text(&path)
    }

    fn train(&self, recipe: &str, out: &str, more: &[&str]) -> (String, PathBuf) {
        let out = self.at(out);
        let folder = text(&out);
        let words = ["train", recipe, "--data", &self.data, "--out", &folder, "--device", "cpu"];
        let output = run(&[&words[..], more].concat());
        let said = crate::common::errors(&output);
        assert!(output.status.success(), "{said}");
        (said, out)
    }

    fn evaluate(&self, run: &Path, more: &[&str]) -> String {
        let folder = text(run);
        succeed(&[&["evaluate", &folder, "--data", &self.data, "--device", "cpu"], more].concat())
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tensors of a run's newest checkpoint, as bytes.
fn weights(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let folder = std::fs::read_dir(run.join("checkpoints")).expect("checkpoints").map(|e| e.expect("an entry").path());
    let mut found: Vec<PathBuf> = folder.filter(|path| path.join("network.safetensors").is_file()).collect();
    found.sort();
    let newest = found.pop().expect("a checkpoint").join("network.safetensors");
    let bytes = std::fs::read(&newest).expect("the weights");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect()
}

const METRICS: &str = r#"
[metric]
key = "hd95"
[metric.dice]
name = "DiceMetric"
include_background = false
[metric.hd95]
name = "HausdorffDistanceMetric"
percentile = 95
[metric.recall]
name = "ConfusionMatrixMetric"
metric_name = "recall"
include_background = false
"#;

#[test]
fn named_metrics_are_measured_recorded_and_decide() {
    let bench = Bench::new(4);
    let recipe = bench.recipe("metrics.toml", &[], METRICS);
    let (said, out) = bench.train(&recipe, "run", &["--epochs", "3"]);
    assert!(said.contains("hd95") && said.contains("dice") && said.contains("recall"), "{said}");
    let table = read(&out.join("metrics.csv"));
    let columns: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
    for name in ["dice", "hd95", "recall"] {
        assert!(columns.contains(&name), "{columns:?}");
    }
    let of = |name: &str| -> Vec<f64> {
        let column = columns.iter().position(|column| *column == name).expect("a column");
        let cells = table.lines().skip(1).map(|row| row.split(',').nth(column).expect("a cell").parse());
        // A distance to an absent class is infinite, and its percentile NaN.
        cells
            .map(|cell: Result<f64, _>| cell.expect("a number"))
            .map(|v| if v.is_nan() { f64::INFINITY } else { v })
            .collect()
    };
    let summary = json(&read(&out.join("summary.json")));
    assert_eq!((&summary["key_metric"], &summary["better"]), (&"hd95".into(), &"lower".into()), "{summary}");
    let least = of("hd95").into_iter().fold(f64::INFINITY, f64::min);
    let best = summary["best_metric"].as_f64().unwrap_or(f64::INFINITY);
    assert!((best - least).abs() < 1e-9 || (best.is_infinite() && least.is_infinite()), "{best} {least}");

    // On the same volumes, with the same voxels of 6 mm.
    let found = json(&bench.evaluate(&out, &["--json", "--checkpoint", "latest"]));
    for name in ["dice", "hd95", "recall"] {
        let last = *of(name).last().expect("three epochs");
        let value = found["metrics"][name]["value"].as_f64().unwrap_or(f64::INFINITY);
        assert!((value - last).abs() < 1e-6 || (value.is_infinite() && last.is_infinite()), "{name}: {value} {last}");
        assert!(found["metrics"][name]["per_class"].get("spleen").is_some(), "{found}");
        assert!(found["cases"][0]["metrics"].get(name).is_some(), "{found}");
    }
    assert_eq!((&found["key_metric"], &found["metrics"]["hd95"]["better"]), (&"hd95".into(), &"lower".into()));
    let people = bench.evaluate(&out, &[]);
    for words in ["hd95: HausdorffDistanceMetric, the key metric, lower is better", "dice: DiceMetric", "spleen"] {
        assert!(people.contains(words), "{people}");
    }
    // The resolved recipe contains the key metric, and resuming uses it.
    assert!(read(&out.join("recipe.toml")).contains("key = \"hd95\""));
    succeed(&["train", "--data", &bench.data, "--out", &text(&out), "--device", "cpu", "--resume", "--epochs", "4"]);
    assert_eq!(read(&out.join("metrics.csv")).lines().count(), 5);
}

#[test]
fn a_run_starts_from_other_weights_and_leaves_frozen_ones_alone() {
    let bench = Bench::new(3);
    let recipe = bench.recipe("tiny.toml", &[], "");
    let (_, first) = bench.train(&recipe, "first", &["--epochs", "1"]);
    let start = weights(&first);
    let from = text(&first);
    let decaying = bench.recipe("decay.toml", &[("momentum = 0.9", "momentum = 0.9\nweight_decay = 0.1")], "");
    let tuning = ["--epochs", "2", "--seed", "5", "--init", &from, "--freeze", "model.0.*"];
    let (said, second) = bench.train(&decaying, "second", &tuning);
    assert!(said.contains("init: ") && said.contains(&format!("{0} of {0} weights", start.len())), "{said}");
    assert!(said.contains("frozen: "), "{said}");
    let compare = |after: &BTreeMap<String, Vec<u8>>| {
        for (name, bytes) in &start {
            assert_eq!(*bytes == after[name], name.starts_with("model.0."), "{name}");
        }
    };
    compare(&weights(&second));
    // Resumed after its initial weights were deleted.
    std::fs::rename(&first, bench.at("elsewhere")).expect("renamed");
    let resume = ["train", "--data", &bench.data, "--out", &text(&second), "--device", "cpu", "--resume"];
    succeed(&[&resume[..], &["--epochs", "3"]].concat());
    compare(&weights(&second));
    fail(&[&resume[..], &["--freeze", "model.*"]].concat(), 1, &["--freeze", "--resume"]);
}

#[test]
fn a_head_for_other_classes_is_left_out_only_where_that_is_asked_for() {
    let bench = Bench::new(3);
    let recipe = bench.recipe("tiny.toml", &[], "");
    let (_, first) = bench.train(&recipe, "first", &["--epochs", "1"]);
    let three = [("\"spleen\"]", "\"spleen\", \"tumour\"]"), ("out_channels = 2", "out_channels = 3")];
    let recipe = bench.recipe("three.toml", &three, "");
    let (from, out) = (text(&first), text(&bench.at("second")));
    let words =
        ["train", &recipe, "--data", &bench.data, "--out", &out, "--device", "cpu", "--epochs", "1", "--init", &from];
    let said = fail(&words, 1, &["another shape", "--init-skip-mismatched", "in the file"]);
    assert!(!bench.at("second").exists(), "{said}");
    let (said, second) = bench.train(
        &recipe,
        "second",
        &["--epochs", "1", "--init", &from, "--init-skip-mismatched", "--freeze", "model.0.*"],
    );
    assert!(said.contains("of another shape, newly drawn"), "{said}");
    let (before, after) = (weights(&first), weights(&second));
    let kept = before.iter().filter(|(name, bytes)| name.starts_with("model.0.") && after[*name] == **bytes).count();
    assert!(kept > 3, "{kept}");

    // Invalid starts.
    let at = |name: &str| text(&bench.at(name));
    let base = ["train", &recipe, "--data", &bench.data, "--out", &out, "--dry-run"];
    let bad = |more: &[&str], words: &[&str]| fail(&[&base[..], more].concat(), 1, words);
    bad(&["--init", "nowhere.safetensors"], &["--init ", "nowhere.safetensors", "cannot load weights"]);
    std::fs::write(bench.at("net.pt"), "x").expect("a file");
    bad(&["--init", &at("net.pt")], &["PyTorch checkpoint", "hearth convert", "net.safetensors"]);
    std::fs::write(bench.at("odd.safetensors"), "not a file of weights").expect("a file");
    bad(&["--init", &at("odd.safetensors")], &["odd.safetensors", "not a whole safetensors file"]);
    bad(&["--init", &bench.data], &["holds no weights"]);
    bad(&["--freeze", "modle.*"], &["--freeze ", "modle.*", "matches no parameter", "model.0"]);
    bad(&["--freeze", "*"], &["nothing to train"]);
    bad(&["--set", "init.freez=[\"a\"]"], &["did you mean \"freeze\"?"]);
}

const DYNUNET: &str = r#"name = "DynUNet"
spatial_dims = 3
in_channels = 1
out_channels = 2
kernel_size = [3, 3, 3]
strides = [1, 2, 2]
upsample_kernel_size = [2, 2]
filters = [4, 6, 8]
deep_supervision = true
"#;

#[test]
fn heads_are_trained_with_the_loss_that_looks_at_them() {
    let bench = Bench::new(3);
    let network = &TINY[TINY.find("name = \"UNet\"").expect("the network")..TINY.find("[loss]").expect("the loss")];
    let (loss, deep) = (
        "name = \"DiceCELoss\"\nto_onehot_y = true\nsoftmax = true\n",
        "name = \"DeepSupervisionLoss\"\nweight_mode = \"same\"\n[loss.loss]\nname = \"DiceCELoss\"\nto_onehot_y = true\nsoftmax = true\n",
    );
    let recipe = bench.recipe("deep.toml", &[(network, DYNUNET), (loss, deep)], "");
    let (said, out) = bench.train(&recipe, "deep", &["--epochs", "1"]);
    assert!(!said.contains("deep supervision"), "{said}");
    let start = bench.train(&recipe, "start", &["--epochs", "1", "--set", "optimizer.lr=1e-30"]).1;
    let heads = |run: &Path| -> Vec<Vec<u8>> {
        let all = weights(run).into_iter().filter(|(name, _)| name.starts_with("deep_supervision_heads"));
        all.map(|(_, bytes)| bytes).collect()
    };
    assert!(!heads(&out).is_empty());
    assert!(heads(&out).iter().zip(heads(&start)).all(|(a, b)| *a != b), "every head has learnt");
    let plain = bench.recipe("plain.toml", &[(network, DYNUNET)], "");
    let (said, plain) = bench.train(&plain, "plain", &["--epochs", "1"]);
    assert!(said.contains("warning: the network has heads for deep supervision"), "{said}");
    let floats = |heads: Vec<Vec<u8>>| -> Vec<f32> {
        heads.concat().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let off = floats(heads(&plain)).iter().zip(floats(heads(&start))).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-20, "nothing reaches them: {off}");
}

#[test]
fn steps_of_several_batches_clips_and_groups_come_from_the_recipe() {
    let bench = Bench::new(4);
    let recipe = bench.recipe("tiny.toml", &[("norm = \"batch\"", "norm = \"instance\"")], "");
    // Three cases with two crops each: one step for all, or a batch of all.
    let one = bench
        .train(&recipe, "large", &["--epochs", "2", "--set", "training.batch_size=3", "--set", "network.dropout=0.0"])
        .1;
    let several = bench
        .train(&recipe, "small", &["--epochs", "2", "--set", "training.accumulate=3", "--set", "network.dropout=0.0"])
        .1;
    let floats = |run: &Path| -> Vec<f32> {
        let all = weights(run).into_values().flatten().collect::<Vec<u8>>();
        all.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let off = floats(&one).iter().zip(floats(&several)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
    let clipped = bench
        .train(
            &recipe,
            "clipped",
            &["--epochs", "2", "--set", "training.clip.norm=1e-12", "--set", "optimizer.momentum=0.0"],
        )
        .1;
    let (_, still) = bench.train(
        &recipe,
        "still",
        &["--epochs", "2", "--set", "optimizer.lr=1e-12", "--set", "optimizer.momentum=0.0"],
    );
    let off = floats(&clipped).iter().zip(floats(&still)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-6, "gradients of no length move nothing: {off}");
    let group = "optimizer.groups=[{params=\"model.0.*\",lr=0.0},{params=\"model.1.*\",lr_scale=0.5,momentum=0.5}]";
    let (_, grouped) = bench.train(&recipe, "grouped", &["--epochs", "1", "--set", group]);
    let (before, after) = (weights(&still), weights(&grouped));
    let same = |name: &str| before[name].iter().zip(&after[name]).all(|(a, b)| a == b);
    let first = before.keys().find(|name| name.starts_with("model.0.") && name.ends_with("weight")).expect("a layer");
    let last = before.keys().find(|name| name.starts_with("model.2.") && name.ends_with("weight")).expect("a layer");
    assert!(!same(last), "{last} is trained");
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let moved =
        floats(&before[first]).iter().zip(floats(&after[first])).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(moved < 1e-6, "{first} has a rate of 0: {moved}");
}

#[test]
fn a_learning_rate_is_found_and_nothing_else_is_left() {
    let bench = Bench::new(3);
    let recipe = bench.recipe("tiny.toml", &[], "");
    let out = bench.at("rates");
    let folder = text(&out);
    let words = ["lr-find", &recipe, "--data", &bench.data, "--out", &folder, "--device", "cpu", "--start-lr", "1e-4"];
    let said = succeed(&[&words[..], &["--num-iter", "25", "--end-lr", "1e3"]].concat());
    assert!(said.contains("the loss falls fastest at learning rate"), "{said}");
    let mut files: Vec<String> = std::fs::read_dir(&out)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, ["lr-find.csv", "lr-find.json", "lr-find.png"]);
    let found = json(&read(&out.join("lr-find.json")));
    let points = found["points"].as_array().expect("points");
    assert_eq!(read(&out.join("lr-find.csv")).lines().count(), points.len() + 1);
    let rate = found["suggestion"]["lr"].as_f64().expect("a rate");
    assert!((1e-4..1e3).contains(&rate) && said.contains(&format!("{rate:.2e}")), "{rate} {said}");
    let picture = std::fs::read(out.join("lr-find.png")).expect("the picture");
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 2000, "{} bytes", picture.len());
    fail(&words, 1, &["is not empty"]);
    let other = text(&bench.at("other"));
    let words = ["lr-find", &recipe, "--data", &bench.data, "--out", &other, "--device", "cpu"];
    fail(&[&words[..], &["--num-iter", "1"]].concat(), 1, &["--num-iter 1: expected at least 2"]);
    fail(&[&words[..], &["--smooth", "1"]].concat(), 1, &["--smooth 1: expected 0 or more, less than 1"]);
    fail(
        &[&words[..], &["--end-lr", "1e-9"]].concat(),
        1,
        &["--end-lr 0.000000001: expected a number above --start-lr"],
    );
    assert!(!bench.at("other").exists());
}

#[test]
fn predictions_are_augmented_where_that_is_asked_for() {
    let bench = Bench::new(3);
    // With the background, so that every voxel whose class an augmentation changes, changes the result.
    let background = "\n[metric]\ninclude_background = true\n";
    let recipe = bench.recipe("tiny.toml", &[], background);
    // Untrained weights predict either class anywhere.
    let drawn = ["--epochs", "1", "--set", "optimizer.lr=1e-12"];
    let (_, out) = bench.train(&recipe, "run", &drawn);
    let dice = |more: &[&str]| {
        let found = json(&bench.evaluate(&out, &[&["--json"], more].concat()));
        (found["mean_dice"].as_f64().expect("a mean"), found["tta"].clone())
    };
    let (plain, flips) = (dice(&[]), dice(&["--tta", "flips"]));
    assert!(plain.1.is_null() && flips.1.as_str().is_some_and(|words| words.contains("flips")), "{plain:?} {flips:?}");
    assert_ne!(plain.0, flips.0);
    assert!(
        bench.evaluate(&out, &["--tta", "flips"]).contains("with test-time augmentation: flips along axis 0, 1, 2")
    );

    let images = Path::new(&bench.data).join("imagesTr");
    let image = std::fs::read_dir(images).expect("images").next().expect("one").expect("one").path();
    let labels = text(&bench.at("labels"));
    let words = ["predict", &text(&out), "-i", &text(&image), "-o", &labels, "--device", "cpu"];
    fail(&[&words[..], &["--uncertainty", "--tta", "none"]].concat(), 1, &["--uncertainty", "--tta none"]);
    // Flips are implied.
    let said = succeed(&[&words[..], &["--uncertainty"]].concat());
    assert!(said.contains("_std.nii.gz") && said.contains(" ml ± ") && said.contains("over 8 predictions"), "{said}");
    let again = json(&succeed(&[&words[..], &["--uncertainty", "--json", "--overwrite"]].concat()));
    let name = image.file_name().expect("a name").to_string_lossy().replace(".nii.gz", "");
    let (std, label) =
        (bench.at("labels").join(format!("{name}_std.nii.gz")), bench.at("labels").join(format!("{name}_seg.nii.gz")));
    let (std, label) =
        (hearth_data::read_nifti(&std).expect("a volume"), hearth_data::read_nifti(&label).expect("a volume"));
    assert_eq!(std.shape(), label.shape());
    // The volumes are those of labels, in ml, as they would be written.
    let shown = again["volumes_ml_of_predictions"].as_object().expect("labels");
    let (_, shown) = shown.iter().next().expect("a label");
    let of_voxel = (0..3).map(|axis| label.spacing()[axis]).product::<f64>() / 1000.0;
    let written = label.to_vec().iter().filter(|value| **value == 1.0).count() as f64 * of_voxel;
    assert!((shown["written"].as_f64().expect("ml") - written).abs() < 1e-6 * written.max(1.0), "{shown} {written}");
    let each: Vec<f64> = shown["predictions"].as_array().expect("a list").iter().filter_map(|v| v.as_f64()).collect();
    assert_eq!(each.len(), 8);
    let whole = |ml: &f64| ((ml / of_voxel) - (ml / of_voxel).round()).abs() < 1e-3;
    assert!(each.iter().all(whole), "whole voxels: {each:?}");
    let mean = each.iter().sum::<f64>() / 8.0;
    let std_of = (each.iter().map(|ml| (ml - mean).powi(2)).sum::<f64>() / 7.0).sqrt();
    assert!(
        (shown["mean"].as_f64().expect("ml") - mean).abs() < 1e-9
            && (shown["std"].as_f64().expect("ml") - std_of).abs() < 1e-9
    );
    let values = std.to_vec();
    assert!(values.iter().all(|v| (0.0..=0.6).contains(v)) && values.iter().any(|v| *v > 0.0));

    // From the recipe, with random transforms; the option disables it.
    let tta =
        "\n[tta]\nnum_examples = 3\ntransforms = [{ name = \"RandRotate90\", prob = 0.7, spatial_axes = [0, 1] }]\n";
    let recipe = bench.recipe("random.toml", &[], &(background.to_owned() + tta));
    let (_, random) = bench.train(&recipe, "random", &drawn);
    let found = json(&bench.evaluate(&random, &["--json"]));
    assert!(found["tta"].as_str().is_some_and(|words| words.contains("3 random examples")), "{found}");
    let off = json(&bench.evaluate(&random, &["--json", "--tta", "none"]));
    assert_eq!(off["mean_dice"].as_f64(), Some(plain.0), "the same run without it");
    assert_ne!(off["mean_dice"], found["mean_dice"]);
}

/// The tiny recipe with something added must be refused, with these texts.
fn refused(more: &str, words: &[&str]) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recipe = dir.path().join("bad.toml");
    std::fs::write(&recipe, format!("{TINY}{more}")).expect("the recipe is written");
    let out = text(&dir.path().join("run"));
    fail(&["train", &text(&recipe), "--data", "nowhere", "--out", &out, "--dry-run"], 1, words);
}

#[test]
fn metrics_that_make_no_sense_are_pointed_at() {
    let named = |table: &str, words: &[&str]| refused(&format!("[metric.one]\n{table}\n"), words);
    named("name = \"DiceMetrc\"", &["unknown metric \"DiceMetrc\", did you mean \"DiceMetric\"?", "^^^^"]);
    named("name = \"MeanIoU\"\npercentile = 95", &["unknown key \"percentile\""]);
    named("name = \"HausdorffDistanceMetric\"\npercentle = 95", &["\"percentle\", did you mean \"percentile\"?"]);
    named("name = \"HausdorffDistanceMetric\"\npercentile = 950", &["`percentile` is 950", "percentile = 950"]);
    named("name = \"SurfaceDiceMetric\"\nclass_thresholds = [1.0, 2.0]", &["2 `class_thresholds` for 1 classes"]);
    named("name = \"ConfusionMatrixMetric\"\nmetric_name = \"recal\"", &["unknown rate `recal`"]);
    named("name = \"ConfusionMatrixMetric\"\nmetric_name = [\"recall\", \"fpr\"]", &["cannot be the key metric"]);
    named("name = \"ROCAUCMetric\"", &["one score per image", "^^^^"]);
    named("include_background = true", &["name"]);
    refused(
        "[metric]\nkey = \"tow\"\n[metric.two]\nname = \"MeanIoU\"\n",
        &["unknown metric \"tow\", did you mean \"two\"?"],
    );
    refused("[metric]\nkey = \"two\"\n", &["unknown metric \"two\"", "mean_dice"]);
    refused(
        "[metric]\ninclude_backgroud = true\n",
        &["unknown key \"include_backgroud\", did you mean \"include_background\"?"],
    );
    refused("[metric]\nignore_empty = true\n[metric.two]\nname = \"MeanIoU\"\n", &["is an option of one metric"]);
    refused("[metric.loss]\nname = \"MeanIoU\"\n", &["cannot be called \"loss\""]);
    refused("[[metric]]\nname = \"MeanIoU\"\n", &["[metric.hd95]"]);
}

#[test]
fn other_options_that_make_no_sense_are_pointed_at() {
    refused("[tta]\nflips = [3]\n", &["flips along [3]"]);
    refused("[tta]\nflips = [0]\nnum_examples = 3\n", &["num_examples is for random `transforms`"]);
    refused("[tta]\nflips = [0]\ntransforms = [{ name = \"RandFlip\" }]\n", &["not both"]);
    refused("[tta]\ntransforms = [{ name = \"Flip\" }]\n", &["none of the transforms is random"]);
    refused("[tta]\ntransforms = [{ name = \"RandFlp\" }]\n", &["did you mean \"RandFlip\"?"]);
    refused("[tta]\ntransforms = [{ name = \"RandFlip\", keys = [\"image\"] }]\n", &["remove `keys`"]);
    refused("[tta]\nflip = [0]\n", &["unknown key \"flip\", did you mean \"flips\"?"]);
    refused("[init]\nweight = \"x\"\n", &["unknown key \"weight\", did you mean \"weights\"?"]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recipe = dir.path().join("tiny.toml");
    std::fs::write(&recipe, TINY).expect("the recipe is written");
    let out = text(&dir.path().join("run"));
    let set = |set: &str, words: &[&str]| {
        let words_of_command = ["train", &text(&recipe), "--data", "nowhere", "--out", &out, "--dry-run", "--set", set];
        fail(&words_of_command, 1, words);
    };
    set("training.accumulate=0", &["at least 1 batch"]);
    set("training.clip.norm=0", &["norm is 0", "above 0"]);
    set("training.clip.nrm=1.0", &["unknown word \"nrm\", did you mean \"norm\"?"]);
    set("optimizer.groups=[{params=\"a\",betas=[0.9,0.9]}]", &["SGD has no option `betas`"]);
    set("optimizer.groups=[{params=\"a\",momentm=0.9}]", &["did you mean \"momentum\"?"]);
    set("loss={name=\"DeepSupervisionLoss\",weight_mode=\"exq\",loss={name=\"DiceLoss\"}}", &["exq"]);
}
