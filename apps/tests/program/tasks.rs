//! All tasks of recipes: classes, numbers, images, regions; images from several files.

use std::fs;
use std::path::Path;

use crate::common::{fail, plugins_are_built, succeed, text};
use hearth_data::{Image, NiftiOptions, read_nifti, write_nifti};

/// Values in [0, 1) that differ between cases, and are the same in every run of the test.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }
}

fn write(path: &Path, size: [usize; 3], value: impl FnMut(usize) -> f32) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let values = (0..size.iter().product()).map(value).collect();
    let image =
        Image::from_values(values, [1, size[0], size[1], size[2]], hearth_data::affine::IDENTITY, &Default::default());
    write_nifti(path, &image, NiftiOptions::default()).expect("written");
}

/// Volumes of noise with a cube of varying brightness: a table with class names, class numbers, two
/// findings and the brightness.
pub fn bright_cubes(folder: &Path, cases: usize) -> std::path::PathBuf {
    let mut draw = Draw(7);
    let mut table = "image,kind,number,bright,left,level\n".to_owned();
    for case in 0..cases {
        let (level, left) = (draw.next(), draw.next() < 0.5);
        let bright = level > 0.5;
        let from = if left { 1 } else { 9 };
        write(&folder.join(format!("c{case}.nii.gz")), [16, 16, 8], |index| {
            let (x, y) = (index / 128, index / 8 % 16);
            let inside = (from..from + 6).contains(&x) && (4..12).contains(&y);
            draw.next() * 0.1 + if inside { level } else { 0.0 }
        });
        let kind = if bright { "bright" } else { "dark" };
        table +=
            &format!("c{case}.nii.gz,{kind},{},{},{},{level}\n", u8::from(bright), u8::from(bright), u8::from(left));
    }
    let path = folder.join("cases.csv");
    fs::write(&path, table).expect("written");
    path
}

pub const REST: &str = r#"
transforms = [{ name = "LoadImage", keys = ["image"] }, { name = "EnsureChannelFirst", keys = ["image"] }]
[data]
validation = { last = 8 }
[optimizer]
name = "Adam"
lr = 0.01
[training]
epochs = 40
batch_size = 8
val_interval = 8
"#;

pub fn network(out: usize) -> String {
    format!(
        "[network]\nname = \"DenseNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = {out}\ninit_features = 8\ngrowth_rate = 4\n\
         block_config = [2, 2]\n"
    )
}

pub fn recipe(folder: &Path, name: &str, parts: &[&str]) -> String {
    let path = folder.join(name);
    fs::write(&path, parts.concat()).expect("written");
    text(&path)
}

fn train(folder: &Path, recipe: &str, data: &Path) -> std::path::PathBuf {
    let out = folder.join(format!("run-{}", Path::new(recipe).file_stem().expect("a name").to_string_lossy()));
    succeed(&["train", recipe, "--data", &text(data), "--out", &text(&out), "--device", "cpu"]);
    out
}

/// A metric of `evaluate --json`.
fn measured(run: &Path, data: &Path, name: &str) -> f64 {
    let json = succeed(&["evaluate", &text(run), "--data", &text(data), "--device", "cpu", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    json["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("no {name} in {json}"))
}

#[test]
fn classes_by_name_by_number_and_several_at_once() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = bright_cubes(dir.path(), 32);
    let loss = "[loss]\nname = \"CrossEntropyLoss\"\n";
    let exclusive = |label: &str| {
        let head = format!("labels = [\"dark\", \"bright\"]\n{}", REST.replacen("\ntransforms", "transforms", 1));
        format!("title = \"cubes\"\n{head}\n[task]\nname = \"classification\"\nlabel = \"{label}\"\n")
    };
    let by_name = recipe(dir.path(), "names.toml", &[&exclusive("kind"), &network(2), loss]);
    let run = train(dir.path(), &by_name, &table);
    assert!(measured(&run, &table, "accuracy") >= 0.99 && measured(&run, &table, "roc_auc") >= 0.99);

    // Class numbers instead of names give the same run.
    let by_number = recipe(dir.path(), "numbers.toml", &[&exclusive("number"), &network(2), loss]);
    let other = train(dir.path(), &by_number, &table);
    let losses = |run: &Path| fs::read_to_string(run.join("metrics.csv")).expect("a log");
    assert_eq!(losses(&run), losses(&other));

    // A table of scores that names the predicted class, and never replaces another file.
    let out = dir.path().join("out");
    let arguments = ["predict", &text(&run), "-i", &text(&table), "-o", &text(&out), "--device", "cpu"];
    succeed(&arguments);
    let scores = fs::read_to_string(out.join("scores.csv")).expect("scores");
    let rows: Vec<Vec<&str>> = scores.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((&rows[0][..], rows.len()), (&["image", "class", "dark", "bright"][..], 33));
    let truth = fs::read_to_string(&table).expect("a table");
    let right = truth.lines().skip(1).zip(&rows[1..]).filter(|(line, row)| line.contains(row[1])).count();
    assert!(right >= 28, "{right} of 32");
    let all = ["evaluate", &text(&run), "--data", &text(&table), "--device", "cpu", "--json", "--all"];
    let all: serde_json::Value = serde_json::from_str(&succeed(&all)).expect("JSON");
    let accuracy = all["metrics"]["accuracy"]["value"].as_f64().expect("a number");
    assert!((accuracy - right as f64 / 32.0).abs() < 1e-6, "{accuracy} measured, {right} of 32 written");
    for row in &rows[1..] {
        let sum: f32 = row[2..].iter().map(|score| score.parse::<f32>().expect("a number")).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{row:?}");
    }
    fail(&arguments, 1, &["scores.csv exists", "--overwrite"]);
    let measure = ["evaluate", &text(&run), "--data", &text(&table), "--device", "cpu"];
    for words in [&arguments[..], &measure[..]] {
        fail(&[words, &["--tta", "flips"]].concat(), 1, &["--tta", "predicts numbers: remove it"]);
    }
    // An image has no record of its own, so that remarks on it are kept next to that of the table.
    let (odd, out) = (dir.path().join("odd.nii.gz"), dir.path().join("odd"));
    write(&odd, [16, 16, 8], |index| if index < 512 { 9.0 } else { 0.0 });
    succeed(&["predict", &text(&run), "-i", &text(&odd), "-o", &text(&out), "--device", "cpu"]);
    let kept = fs::read_to_string(out.join("records/warnings.jsonl")).expect("warnings");
    assert!(kept.contains("odd.nii.gz: unlike the training data"), "{kept}");

    let head = format!("labels = [\"bright\", \"left\"]\n{}", REST.replacen("\ntransforms", "transforms", 1));
    let task = "[task]\nname = \"Classification\"\nmulti_label = true\n";
    let several =
        recipe(dir.path(), "several.toml", &[&head, task, &network(2), "[loss]\nname = \"BCEWithLogitsLoss\"\n"]);
    let run = train(dir.path(), &several, &table);
    assert!(measured(&run, &table, "accuracy") >= 0.87, "{}", measured(&run, &table, "accuracy"));

    // Data that cannot be learned are reported before the training.
    let out = text(&dir.path().join("refused"));
    let refuse = |from: &str, to: &str, words: &[&str]| {
        let changed = fs::read_to_string(&by_name).expect("a recipe").replacen(from, to, 1);
        let path = recipe(dir.path(), "changed.toml", &[&changed]);
        fail(&["train", &path, "--data", &text(&table), "--out", &out, "--device", "cpu"], 1, words);
    };
    refuse("[\"dark\", \"bright\"]", "[\"dark\", \"brigt\"]", &["case c", "\"kind\"", "did you mean \"brigt\"?"]);
    refuse("label = \"kind\"", "label = \"level\"", &["case c0", "\"level\"", "expected a class from 0 to 1"]);
    refuse("label = \"kind\"", "label = \"knd\"", &["unknown column \"knd\", did you mean \"kind\"?"]);
    refuse("[loss]", "[metric.dice]\nname = \"DiceMetric\"\n[loss]", &["DiceMetric", "Accuracy", "changed.toml:"]);
    refuse("out_channels = 2", "out_channels = 3", &["out_channels = 3, but there are 2 labels"]);
    refuse("name = \"classification\"", "name = \"clasification\"", &["did you mean \"Classification\"?"]);
}

/// `--held-out`: each image is predicted by the run that did not train on it, and one table has all images.
#[test]
fn classes_of_all_folds_are_in_one_table() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let (table, at) = (bright_cubes(dir.path(), 16), |name: &str| dir.path().join(name));
    let rest = REST.replacen("\ntransforms", "transforms", 1).replace("= 40", "= 4").replace("= 8", "= 4");
    let task = "[task]\nname = \"Classification\"\nlabel = \"kind\"\n";
    let parts =
        ["labels = [\"dark\", \"bright\"]\n", &rest, task, &network(2), "[loss]\nname = \"CrossEntropyLoss\"\n"];
    let (recipe, runs) = (recipe(dir.path(), "cubes.toml", &parts), text(&at("cv")));
    succeed(&["train", &recipe, "--data", &text(&table), "--out", &runs, "--folds", "2", "--device", "cpu"]);
    let lines = |path: &Path| -> Vec<String> {
        fs::read_to_string(path).expect("a table").lines().map(str::to_owned).collect()
    };
    let alone = [0, 1].map(|fold| {
        let (run, out) = (text(&at(&format!("cv/fold{fold}"))), at(&format!("alone{fold}")));
        succeed(&["predict", &run, "-i", &text(&table), "-o", &text(&out), "--device", "cpu"]);
        lines(&out.join("scores.csv"))
    });
    assert_ne!(alone[0], alone[1]);
    let list: serde_json::Value = serde_json::from_slice(&fs::read(at("cv/folds.json")).expect("folds")).expect("JSON");
    let first = |case: &str| list["folds"][0].as_array().expect("names").iter().any(|name| name == case);
    let by_its_fold = |place: usize| match place == 0 || first(&format!("c{}", place - 1)) {
        true => alone[0][place].clone(),
        false => alone[1][place].clone(),
    };
    let expected: Vec<String> = (0..17).map(by_its_fold).collect();

    let out = at("held-out");
    let words = ["predict", &runs, "--held-out", "-i", &text(&table), "-o", &text(&out), "--device", "cpu"];
    assert_eq!(succeed(&words).matches("scores.csv").count(), 1);
    assert_eq!(lines(&out.join("scores.csv")), expected);
    let record = fs::read_to_string(out.join("records/scores.csv.hearth.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["made_by"].as_array().map(Vec::len), Some(2), "a model for each fold: {record}");
    fail(&words, 1, &["scores.csv exists", "--overwrite"]);
    let again = [&words[..], &["--overwrite"]].concat();
    succeed(&again);
    assert_eq!(lines(&out.join("scores.csv")), expected);

    // An image of each fold that cannot be read: both are listed, in the order of the images.
    let of_fold = |fold: usize| list["folds"][fold][0].as_str().expect("a name").to_owned();
    let mut bad: Vec<usize> = [0, 1].map(|fold| of_fold(fold)[1..].parse().expect("a number")).to_vec();
    bad.sort_unstable();
    for case in &bad {
        fs::write(at(&format!("c{case}.nii.gz")), "no image").expect("written");
    }
    fail(&again, 1, &["1 of 8 images failed"]);
    let failed = lines(&out.join("failed.csv"));
    assert_eq!(failed.len(), 3, "{failed:?}");
    for (line, case) in failed[1..].iter().zip(&bad) {
        assert!(line.starts_with(&format!("c{case},")), "{failed:?}");
    }
    let others = expected.iter().enumerate().filter(|(place, _)| *place == 0 || !bad.contains(&(place - 1)));
    assert_eq!(lines(&out.join("scores.csv")), others.map(|(_, line)| line.clone()).collect::<Vec<_>>());
    // A fold that cannot be opened hides no failure of another one.
    fs::remove_dir_all(at("cv/fold1/checkpoints")).expect("removed");
    fail(&again, 1, &["fold0: 1 of 8 images failed", "fold1: "]);
    assert_eq!(lines(&out.join("scores.csv")).len(), 1 + 7);
}

#[test]
fn numbers_of_images() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = bright_cubes(dir.path(), 32);
    let head = format!("labels = [\"level\"]\n{}", REST.replacen("\ntransforms", "transforms", 1));
    let parts = [&*head, "[task]\nname = \"Regression\"\n", &network(1), "[loss]\nname = \"MSELoss\"\n"];
    let run = train(dir.path(), &recipe(dir.path(), "level.toml", &parts), &table);
    let error = measured(&run, &table, "mae");
    // Predicting the mean of the levels has an error of 0.25.
    assert!(error < 0.12, "{error}");
    let out = dir.path().join("out");
    succeed(&[
        "predict",
        &text(&run),
        "-i",
        &text(&dir.path().join("c3.nii.gz")),
        "-o",
        &text(&out),
        "--device",
        "cpu",
    ]);
    let scores = fs::read_to_string(out.join("scores.csv")).expect("scores");
    assert!(scores.starts_with("image,level\n") && scores.lines().count() == 2, "{scores}");
}

#[test]
fn images_from_images_and_from_themselves() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let mut draw = Draw(3);
    let mut table = "noisy,clean\n".to_owned();
    for case in 0..10 {
        let middle = 4.0 + draw.next() * 8.0;
        let clean = move |index: usize| f32::from(u8::from(((index / 128) as f32 - middle).abs() < 3.0));
        write(&dir.path().join(format!("clean/{case}.nii.gz")), [16, 16, 8], clean);
        write(&dir.path().join(format!("noisy/{case}.nii.gz")), [16, 16, 8], |index| clean(index) + draw.next() - 0.5);
        table += &format!("noisy/{case}.nii.gz,clean/{case}.nii.gz\n");
    }
    let list = dir.path().join("pairs.csv");
    fs::write(&list, table).expect("written");
    let unet = "[network]\nname = \"UNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 1\nchannels = [8, 16]\nstrides = [2]\n";
    let rest = REST
        .replacen("\ntransforms", "transforms", 1)
        .replace("keys = [\"image\"]", "keys = [\"image\", \"label\"]")
        .replace("[data]", "[data]\nimages = [\"noisy\"]")
        .replace("last = 8", "last = 3")
        .replace("batch_size = 8", "batch_size = 1");
    let parts =
        [&*rest, "[task]\nname = \"Reconstruction\"\ntarget = \"clean\"\n", unet, "[loss]\nname = \"MSELoss\"\n"];
    let run = train(dir.path(), &recipe(dir.path(), "denoise.toml", &parts), &list);
    // The noise has a mean error of 0.25.
    let error = measured(&run, &list, "mae");
    assert!(error < 0.12, "{error}");
    let (noisy, out) = (dir.path().join("noisy/9.nii.gz"), dir.path().join("out"));
    succeed(&["predict", &text(&run), "-i", &text(&noisy), "-o", &text(&out), "--device", "cpu"]);
    let (found, truth) = (read_nifti(out.join("9_pred.nii.gz")), read_nifti(dir.path().join("clean/9.nii.gz")));
    let (found, truth) = (found.expect("an image"), truth.expect("an image"));
    assert_eq!((found.shape(), found.affine), (truth.shape(), truth.affine));
    let pairs = found.to_vec().into_iter().zip(truth.to_vec());
    let off = pairs.map(|(a, b)| (a - b).abs()).sum::<f32>() / 2048.0;
    assert!(off < 0.15, "{off}");

    // Labels from the images themselves: the label is a copy, made before the noise.
    let rest = rest
        .replace("keys = [\"image\", \"label\"]", "keys = [\"image\"]")
        .replace("images = [\"noisy\"]", "images = [\"clean\"]")
        .replace(
            "{ name = \"EnsureChannelFirst\", keys = [\"image\"] }",
            "{ name = \"EnsureChannelFirst\", keys = [\"image\"] }, { name = \"CopyItems\", keys = [\"image\"], names = [\"label\"] },\n\
             { name = \"RandGaussianNoise\", keys = [\"image\"], prob = 1.0, std = 0.3 }",
        );
    let parts = [&*rest, "[task]\nname = \"Reconstruction\"\n", unet, "[loss]\nname = \"MSELoss\"\n"];
    let run = train(dir.path(), &recipe(dir.path(), "itself.toml", &parts), &list);
    assert!(measured(&run, &list, "mae") < 0.2);
}

/// Heads in four files; the tumour is visible only in the second contrast.
fn heads(folder: &Path, cases: usize, scheme: [&str; 5], end: &str) {
    let mut draw = Draw(11);
    for case in 0..cases {
        let name = format!("BraTS-{case}");
        let (x, y) = (3 + (draw.next() * 8.0) as usize, 3 + (draw.next() * 8.0) as usize);
        let tumour = |index: usize| (x..x + 4).contains(&(index / 128)) && (y..y + 4).contains(&(index / 8 % 16));
        for (channel, suffix) in scheme[..4].iter().enumerate() {
            let file = folder.join(format!("{name}/{name}{end}{suffix}.nii.gz"));
            write(&file, [16, 16, 8], |index| draw.next() * 0.2 + f32::from(u8::from(channel == 1 && tumour(index))));
        }
        write(&folder.join(format!("{name}/{name}{end}{}.nii.gz", scheme[4])), [16, 16, 8], |index| {
            if tumour(index) { if index % 8 < 4 { 1.0 } else { 2.0 } } else { 0.0 }
        });
    }
}

#[test]
fn cases_of_several_files_train_and_predict_whatever_they_are_called() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    heads(&old, 6, ["flair", "t1", "t1ce", "t2", "seg"], "_");
    heads(&new, 6, ["t2f", "t1n", "t1c", "t2w", "seg"], "-");
    let text_of = |channels: usize, images: &str| {
        format!(
            r#"labels = ["background", "edema", "core"]
transforms = [{{ name = "LoadImage", keys = ["image", "label"] }}, {{ name = "EnsureChannelFirst", keys = ["image", "label"] }}]
[task]
name = "Segmentation"
[data]
{images}
validation = {{ last = 2 }}
[network]
name = "UNet"
spatial_dims = 3
in_channels = {channels}
out_channels = 3
channels = [8, 16]
strides = [2]
[loss]
name = "DiceCELoss"
to_onehot_y = true
softmax = true
[optimizer]
name = "Adam"
lr = 0.02
[training]
epochs = 10
batch_size = 1
val_interval = 5
"#
        )
    };
    let all = recipe(dir.path(), "all.toml", &[&text_of(4, "")]);
    let run = train(dir.path(), &all, &old);
    // Both naming schemes contain the same data, and yield the same predictions.
    let dice = measured(&run, &old, "mean_dice");
    assert!(dice > 0.4, "{dice}");
    let predict = |data: &Path, out: &str| {
        let out = dir.path().join(out);
        succeed(&["predict", &text(&run), "-i", &text(data), "-o", &text(&out), "--device", "cpu"]);
        read_nifti(out.join("BraTS-5_seg.nii.gz")).expect("a prediction").to_vec()
    };
    let of_all = predict(&old, "a");
    assert_eq!(of_all, predict(&new, "b"));
    assert_eq!(of_all, predict(&new.join("BraTS-5"), "c"));

    // One contrast is sufficient if it shows the tumour; the others are not.
    let one = recipe(dir.path(), "one.toml", &[&text_of(1, "images = [\"T1w\"]")]);
    let run_of_one = train(dir.path(), &one, &new);
    assert!(measured(&run_of_one, &old, "mean_dice") > 0.4);

    let out = text(&dir.path().join("refused"));
    let refuse = |recipe: &str, data: &Path, words: &[&str]| {
        fail(&["train", recipe, "--data", &text(data), "--out", &out, "--device", "cpu"], 1, words);
        assert!(!Path::new(&out).exists(), "a refused run leaves no folder");
    };
    let two = recipe(dir.path(), "two.toml", &[&text_of(1, "images = [\"t1\", \"t2\"]")]);
    refuse(&two, &old, &["images of 2 channels (t1, t2)", "the network takes 1", "data.images"]);
    let unknown = recipe(dir.path(), "unknown.toml", &[&text_of(1, "images = [\"adc\"]")]);
    refuse(&unknown, &old, &["BraTS-0: has no adc", "flair"]);
    // Another grid in one file of one case.
    let file = old.join("BraTS-2/BraTS-2_t2.nii.gz");
    write(&file, [16, 16, 7], |_| 0.0);
    refuse(&all, &old, &["case BraTS-2", "BraTS-2_t2.nii.gz", "[16, 16, 7] voxels"]);
    fs::remove_file(&file).expect("removed");
    refuse(&all, &old, &["BraTS-2: has no T2w (it has flair, seg, t1, t1ce)"]);
}

#[test]
fn labels_that_a_recipe_maps_are_checked_once_they_are_mapped() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let data = crate::common::phantom(dir.path(), 3);
    for entry in fs::read_dir(data.join("labelsTr")).expect("labels") {
        let path = entry.expect("a label").path();
        let mut label = read_nifti(&path).expect("a label");
        label.data = label.data * 5.0;
        write_nifti(&path, &label, NiftiOptions::label()).expect("written");
    }
    let list = data.join("dataset.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&list).expect("a list")).expect("JSON");
    json["labels"] = serde_json::json!({ "0": "background", "5": "spleen" });
    fs::write(&list, json.to_string()).expect("written");
    let train = |recipe: &str, out: &str| {
        let out = text(&dir.path().join(out));
        ["train", recipe, "--data", &text(&data), "--out", &out, "--device", "cpu", "--epochs", "1"].map(str::to_owned)
    };
    let plain = recipe(dir.path(), "plain.toml", &[crate::common::TINY]);
    fail(&train(&plain, "refused"), 1, &["has labels up to 5", "knows 2 (background, spleen)"]);
    let load = "{ name = \"EnsureChannelFirst\", keys = [\"image\", \"label\"] },";
    let map = "{ name = \"MapLabelValue\", keys = [\"label\"], orig_labels = [5], target_labels = [1] },";
    assert!(crate::common::TINY.contains(load));
    let mapped = crate::common::TINY.replacen(load, &format!("{load}\n    {map}"), 1);
    let mapping = recipe(dir.path(), "mapping.toml", &[&mapped]);
    succeed(&train(&mapping, "run"));
    let dice = measured(&dir.path().join("run"), &data, "mean_dice");
    assert!((0.0..=1.0).contains(&dice), "{dice}");
    // A mapping to a class that does not exist is still refused.
    let beyond = mapped.replace("target_labels = [1]", "target_labels = [2]");
    let beyond = recipe(dir.path(), "beyond.toml", &[&beyond]);
    fail(&train(&beyond, "beyond"), 1, &["2"]);
}
