//! Images from random numbers, with two competing networks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fail, phantom, plugins_are_built, succeed, text};
use hearth_data::{Image, WriteOptions, read_image, write_image};

const SIDE: usize = 16;

/// Discs of different sizes at different places, as pictures, and a table of them.
fn discs(folder: &Path, cases: usize) -> PathBuf {
    fs::create_dir_all(folder).expect("made");
    let mut seed = 7_u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1_u64 << 24) as f64
    };
    let mut table = "image\n".to_owned();
    for case in 0..cases {
        let (x, y, radius) = (6.0 + 3.0 * draw(), 6.0 + 3.0 * draw(), 3.0 + 1.5 * draw());
        let value = |i: usize| {
            let distance = ((i / SIDE) as f64 - x).hypot((i % SIDE) as f64 - y);
            (radius + 0.5 - distance).clamp(0.0, 1.0) as f32
        };
        let values = (0..SIDE * SIDE).map(value).collect();
        let image = Image::from_values(values, [1, SIDE, SIDE, 1], hearth_data::affine::IDENTITY, &Default::default());
        let options = WriteOptions::default().scale(255.0);
        write_image(folder.join(format!("disc{case}.png")), &image.with_spatial_dims(2), &options).expect("written");
        table += &format!("disc{case}.png\n");
    }
    let path = folder.join("discs.csv");
    fs::write(&path, table).expect("written");
    path
}

const RECIPE: &str = r#"title = "discs"
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "EnsureChannelFirst", keys = ["image"] },
    { name = "ScaleIntensityRange", keys = ["image"], a_min = 0, a_max = 255, b_min = 0.0, b_max = 1.0 },
    { name = "ResizeWithPadOrCrop", keys = ["image"], spatial_size = [16, 16] },
]
[task]
name = "Generation"
[network]
name = "Generator"
latent_shape = [8]
start_shape = [16, 4, 4]
channels = [16, 8, 1]
strides = [2, 2, 1]
num_res_units = 1
norm = ""
[discriminator]
name = "Discriminator"
in_shape = [1, 16, 16]
channels = [8, 16]
strides = [2, 2]
num_res_units = 1
norm = ""
dropout = 0.0
last_act = ""
[adversarial]
loss = { criterion = "bce" }
optimizer = { name = "Adam", lr = 0.001, betas = [0.5, 0.999] }
[optimizer]
name = "Adam"
lr = 1e-3
betas = [0.5, 0.999]
[training]
epochs = 150
batch_size = 16
[[handlers]]
name = "TensorBoardImage"
tensors = ["reals", "fakes"]
every = 20
"#;

fn recipe(folder: &Path, name: &str, text_of: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text_of).expect("written");
    text(&path)
}

/// A segmentation with a discriminator on image and map.
const SEGMENTATION: &str = r#"title = "adversarial"
labels = ["background", "spleen"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "ScaleIntensityRange", keys = ["image"], a_min = -57.0, a_max = 164.0, b_min = 0.0, b_max = 1.0, clip = true },
    { name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [16, 16, 16], num_samples = 2 },
]
[task]
name = "Segmentation"
[data]
validation = { last = 1 }
[network]
name = "UNet"
spatial_dims = 3
in_channels = 1
out_channels = 2
channels = [4, 8]
strides = [2]
[discriminator]
name = "PatchDiscriminator"
spatial_dims = 3
in_channels = 3
channels = 4
num_layers_d = 1
[adversarial]
weight = 0.1
warmup_epochs = 1
condition = true
[loss]
name = "DiceLoss"
to_onehot_y = true
softmax = true
[optimizer]
name = "Adam"
lr = 1e-3
[training]
epochs = 4
[inferer]
name = "SlidingWindowInferer"
roi_size = [16, 16, 16]
"#;

#[test]
fn a_discriminator_beside_a_segmentation_is_trained_resumed_and_left_out_of_predictions() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 4));
    let path = recipe(dir.path(), "adversarial.toml", SEGMENTATION);
    let train = |out: &str, epochs: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let own = ["--data", &data, "--out", &text(&out), "--epochs", epochs, "--device", "cpu"];
        succeed(&[&["train"], more, &own].concat());
        out
    };
    let nowhere = text(&dir.path().join("nowhere"));
    let shown = succeed(&["train", &path, "--data", &data, "--out", &nowhere, "--dry-run", "--device", "cpu"]);
    assert!(shown.contains("discriminator") && shown.contains("judges what the network makes"), "{shown}");
    let whole = train("whole", "4", &[&path]);
    let log = fs::read_to_string(whole.join("metrics.csv")).expect("a log");
    let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {log}"));
    let [own, judged, judging] = ["reconstruction_loss", "generator_loss", "discriminator_loss"].map(column);
    let number = |row: usize, column: usize| rows[row].get(column).and_then(|text| text.parse::<f64>().ok());
    // The first epoch runs without the discriminator.
    assert!(number(1, own).is_some() && number(1, judged).is_none() && number(1, judging).is_none(), "{log}");
    assert!((2..=4).all(|row| [own, judged, judging].iter().all(|column| number(row, *column).is_some())), "{log}");

    train("parts", "2", &[&path]);
    let parts = train("parts", "4", &["--resume"]);
    for file in ["network.safetensors", "discriminator/network.safetensors", "discriminator/optimizer.safetensors"] {
        let last = |run: &Path| {
            let checkpoint = hearth_train::checkpoint::newest(&run.join("checkpoints")).expect("a checkpoint");
            checkpoint.file(file).expect("there")
        };
        assert!(last(&whole) == last(&parts), "{file} differs");
    }
    let found = succeed(&["evaluate", &text(&whole), "--data", &data, "--device", "cpu"]);
    assert!(found.contains("spleen"), "{found}");
    train("ranks", "2", &[&path]);
    let ranks = train("ranks", "4", &["--resume", "--ranks", "2"]);
    let log = fs::read_to_string(ranks.join("metrics.csv")).expect("a log");
    let last: Vec<&str> = log.lines().last().expect("rows").split(',').collect();
    assert!([own, judged, judging].iter().all(|column| last[*column].parse::<f64>().is_ok()), "{log}");

    let refuse = |from: &str, to: &str, words: &[&str]| {
        assert!(SEGMENTATION.contains(from), "{from}");
        let path = recipe(dir.path(), "wrong.toml", &SEGMENTATION.replacen(from, to, 1));
        fail(&["train", &path, "--data", &data, "--out", &nowhere, "--dry-run", "--device", "cpu"], 1, words);
    };
    refuse("in_channels = 3", "in_channels = 2", &["in_channels", "1 of the image and 2 of a prediction"]);
    refuse("condition = true", "", &["in_channels", "shown 2 of a prediction"]);
    refuse("weight = 0.1", "weight = -1.0", &["weight", "0 or more"]);
    refuse("weight = 0.1", "d_train_steps = 2", &["d_train_steps", "Generation"]);
    refuse("[loss]\nname", "[other]\nname", &["other"]);
    let discriminator = &SEGMENTATION
        [SEGMENTATION.find("[discriminator]").expect("there")..SEGMENTATION.find("[adversarial]").expect("there")];
    refuse(discriminator, "", &["add [discriminator]"]);
}

#[test]
fn a_folder_of_pictures_is_a_data_set() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&dir.path().join("hands"));
    succeed(&["data", "phantom", "hands", "--cases", "6", "--size", "16", "--out", &data]);
    let path = recipe(dir.path(), "hands.toml", &RECIPE.replace("epochs = 150", "epochs = 1"));
    let out = text(&dir.path().join("run"));
    let shown = succeed(&["train", &path, "--data", &data, "--out", &out, "--dry-run", "--device", "cpu"]);
    assert!(shown.contains("6 cases train, 0 validate"), "{shown}");
    // If labels are needed, the error names a recipe that has them.
    let path = recipe(dir.path(), "segmentation.toml", SEGMENTATION);
    fail(&["train", &path, "--data", &data, "--out", &out, "--device", "cpu"], 1, &["folder of pictures", "table"]);
}

/// Mean and deviation of the intensities, and the share of the disc in an image.
fn looks(files: impl Iterator<Item = PathBuf>) -> [f64; 3] {
    let values: Vec<f64> =
        files.flat_map(|file| read_image(&file).expect("a picture").to_vec()).map(|v| f64::from(v) / 255.0).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    let area = values.iter().filter(|v| **v > 0.5).count() as f64 / values.len() as f64;
    [mean, variance.sqrt(), area]
}

fn generate(run: &Path, out: &Path, more: &[&str]) -> Vec<PathBuf> {
    let (run, out) = (text(run), text(out));
    let all = [&["predict", &run, "-o", &out, "--device", "cpu"], more].concat();
    succeed(&all).lines().map(PathBuf::from).collect()
}

#[test]
fn discs_are_generated_that_look_like_those_of_the_data() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = discs(&dir.path().join("data"), 128);
    let path = recipe(dir.path(), "discs.toml", RECIPE);
    let run = dir.path().join("run");
    let train = ["train", &path, "--data", &text(&table), "--out", &text(&run), "--device", "cpu"];
    let shown = succeed(&[&train[..], &["--dry-run"]].concat());
    assert!(shown.contains("discriminator") && shown.contains("128 cases train, 0 validate"), "{shown}");
    assert!(!run.exists());
    succeed(&train);

    // Both losses are metrics of each epoch, and checkpoints are numbered by epochs.
    let log = fs::read_to_string(run.join("metrics.csv")).expect("a log");
    let head: Vec<&str> = log.lines().next().expect("a head").split(',').collect();
    assert!(head.contains(&"g_loss") && head.contains(&"d_loss"), "{head:?}");
    let events = fs::read_dir(run.join("tensorboard")).expect("event files").count();
    assert!(events > 0);

    let out = dir.path().join("out");
    let made = generate(&run, &out, &["--count", "64", "--seed", "3"]);
    assert_eq!((made.len(), made[0].file_name()), (64, Some("generated_0000.png".as_ref())));
    let found = looks(made.iter().cloned());
    let expected = looks((0..128).map(|case| dir.path().join(format!("data/disc{case}.png"))));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 0.25, "generated {found:?}, the data {expected:?}");
    }
    // An image depends only on its seed and number.
    let few = generate(&run, &dir.path().join("few"), &["--count", "3", "--seed", "3"]);
    let others = generate(&run, &dir.path().join("others"), &["--count", "3"]);
    for index in 0..3 {
        let bytes = |paths: &[PathBuf]| fs::read(&paths[index]).expect("a picture");
        assert_eq!(bytes(&few), bytes(&made));
        assert_ne!(bytes(&others), bytes(&made));
    }
    assert_ne!(fs::read(&made[0]).expect("a picture"), fs::read(&made[1]).expect("a picture"));

    // In another format the values are not cut off: the pictures are what is left of them.
    let volumes = generate(&run, &dir.path().join("volumes"), &["--count", "2", "--seed", "3", "--format", "nii.gz"]);
    assert_eq!(volumes[0].file_name(), Some("generated_0000.nii.gz".as_ref()));
    for (volume, picture) in volumes.iter().zip(&made) {
        let [values, pixels] = [volume, picture].map(|path| read_image(path).expect("an image").to_vec());
        let pixel = |value: &f32| (value.clamp(0.0, 1.0) * 255.0).round_ties_even();
        assert!(values.iter().map(pixel).zip(&pixels).all(|(value, pixel)| value == *pixel), "{volume:?}");
    }

    // Results are not replaced, and unsupported requests are errors that name what is supported.
    let (run, out) = (text(&run), text(&out));
    let again = ["predict", &run, "-o", &out, "--count", "1", "--device", "cpu"];
    fail(&again, 1, &["generated_0000.png exists", "--overwrite"]);
    succeed(&[&again[..], &["--overwrite"]].concat());
    fail(&["predict", &run, "-o", &out, "-i", &text(&made[0]), "--device", "cpu"], 1, &["give --count N"]);
    fail(&["evaluate", &run, "--data", &text(&table), "--device", "cpu"], 1, &["no label", "hearth predict"]);
    fail(&["predict", &run, "-o", &out, "--count", "0"], 2, &["--count"]);
    for option in ["--picture", "--json", "--statistics", "--any-modality"] {
        fail(&[&again[..], &["--overwrite", option]].concat(), 1, &[option, "generated images"]);
    }
    fail(&[&again[..], &["--format", "as-input"]].concat(), 1, &["as-input", "no input"]);
}

#[test]
fn a_run_that_was_resumed_has_the_weights_of_one_that_was_not() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = discs(&dir.path().join("data"), 20);
    // The random state of the discriminator's dropout is restored, too.
    let with_dropout = RECIPE.replace("batch_size = 16", "batch_size = 8").replace("dropout = 0.0", "dropout = 0.25");
    let path = recipe(dir.path(), "discs.toml", &with_dropout);
    let train = |out: &str, epochs: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let own = ["--data", &text(&table), "--out", &text(&out), "--epochs", epochs, "--device", "cpu"];
        succeed(&[&["train"], more, &own].concat());
        out
    };
    let whole = train("whole", "4", &[&path]);
    train("parts", "2", &[&path]);
    let parts = train("parts", "4", &["--resume"]);
    for file in ["network.safetensors", "discriminator/network.safetensors", "discriminator/optimizer.safetensors"] {
        let last = |run: &Path| {
            let checkpoint = hearth_train::checkpoint::newest(&run.join("checkpoints")).expect("a checkpoint");
            assert_eq!(checkpoint.manifest.header.epoch, 4);
            checkpoint.file(file).expect("there")
        };
        assert!(last(&whole) == last(&parts), "{file} differs");
    }
}

/// Two ranks with half of each batch, by a launcher or as threads, have the losses of one rank.
#[test]
fn ranks_train_the_generator_of_one() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = discs(&dir.path().join("data"), 24);
    let losses = |out: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let path = recipe(dir.path(), "discs.toml", RECIPE);
        let exact = ["--epochs", "3", "--device", "cpu", "--set", "distributed.mode=exact"];
        succeed(&[&["train", &path, "--data", &text(&table), "--out", &text(&out)], &exact[..], more].concat());
        let log = fs::read_to_string(out.join("metrics.csv")).expect("a log");
        let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split(',').collect()).collect();
        let of = |name: &str| rows[0].iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {log}"));
        let [g, d] = ["g_loss", "d_loss"].map(of);
        rows[1..].iter().flat_map(|row| [g, d].map(|i| row[i].parse::<f64>().expect("a number"))).collect::<Vec<_>>()
    };
    let one = losses("one", &["--set", "training.batch_size=8"]);
    let two = losses("two", &["--set", "training.batch_size=4", "--ranks", "2"]);
    assert_eq!(one.len(), 6);
    for (one, two) in one.iter().zip(&two) {
        assert!((one - two).abs() < 1e-4 * (1.0 + one.abs()), "{one} and {two}");
    }
    // Resumed by one rank, and images from the run of two ranks.
    let run = text(&dir.path().join("two"));
    succeed(&["train", "--resume", "--out", &run, "--data", &text(&table), "--epochs", "4", "--device", "cpu"]);
    assert_eq!(generate(&dir.path().join("two"), &dir.path().join("made"), &["--count", "2"]).len(), 2);
}

#[test]
fn volumes_are_generated_from_a_data_set_with_labels() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 3);
    let of_volumes = RECIPE
        .replace("a_max = 255", "a_max = 300")
        .replace(
            "{ name = \"ResizeWithPadOrCrop\", keys = [\"image\"], spatial_size = [16, 16] }",
            "{ name = \"Resize\", keys = [\"image\"], spatial_size = [16, 16, 16] }",
        )
        .replace("[16, 4, 4]", "[4, 4, 4, 4]")
        .replace("[1, 16, 16]", "[1, 16, 16, 16]")
        .replace("epochs = 150", "epochs = 1")
        .replace("batch_size = 16", "batch_size = 2");
    let path = recipe(dir.path(), "volumes.toml", &of_volumes);
    let run = dir.path().join("run");
    succeed(&["train", &path, "--data", &text(&data), "--out", &text(&run), "--device", "cpu"]);
    let made = generate(&run, &dir.path().join("out"), &["--count", "2"]);
    assert_eq!(made[1].file_name(), Some("generated_0001.nii.gz".as_ref()));
    assert_eq!(read_image(&made[1]).expect("a volume").shape(), [16, 16, 16]);
}

#[test]
fn what_does_not_go_together_is_refused_at_its_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = discs(&dir.path().join("data"), 4);
    let out = text(&dir.path().join("run"));
    let refuse = |from: &str, to: &str, words: &[&str]| {
        assert!(RECIPE.contains(from), "{from}");
        let path = recipe(dir.path(), "wrong.toml", &RECIPE.replacen(from, to, 1));
        fail(&["train", &path, "--data", &text(&table), "--out", &out, "--device", "cpu"], 1, words);
        assert!(!Path::new(&out).exists(), "a refused run leaves no folder");
        fail(&["train", &path, "--data", &text(&table), "--out", &out, "--device", "cpu", "--dry-run"], 1, words);
    };
    refuse("in_shape = [1, 16, 16]", "in_shape = [2, 16, 16]", &["in_shape", "[1, 1, 16, 16, 1]"]);
    refuse("in_shape = [1, 16, 16]", "in_shape = [1, 32, 32]", &["in_shape", "[1, 1, 16, 16, 1]"]);
    refuse("strides = [2, 2, 1]", "strides = [2, 2, 2]", &["in_shape", "[1, 1, 32, 32, 1]"]);
    refuse("spatial_size = [16, 16]", "spatial_size = [24, 24]", &["spatial_size", "24"]);
    refuse("[adversarial]", "[adversarial]\nlatent_shape = [9]", &["latent_shape", "[8, 1, 1, 1]"]);
    refuse("[adversarial]", "[adversarial]\nlatent_shape = []", &["latent_shape", "one to four"]);
    refuse("[adversarial]", "[adversarial]\nd_train_steps = 0", &["d_train_steps", "1 or more"]);
    refuse("[adversarial]", "[adversarial]\nd_steps = 2", &["d_steps", "d_train_steps"]);
    refuse("lr = 0.001", "lr = -1.0", &["lr"]);
    refuse("last_act = \"\"\n", "", &["last_act", "logits"]);
    refuse("epochs = 150", "epochs = 0", &["epochs"]);
    refuse("epochs = 150", "epochs = 150\naccumulate = 2", &["accumulate"]);
    refuse("[optimizer]", "[loss]\nname = \"DiceLoss\"\n[optimizer]", &["loss", "adversarial.loss"]);
    refuse("[optimizer]", "[metric.mae]\nname = \"MAEMetric\"\n[optimizer]", &["MAEMetric", "leave [metric] out"]);
    refuse("[optimizer]", "[data]\nvalidation = { last = 1 }\n[optimizer]", &["all images train"]);
    refuse("[optimizer]", "[[plugins]]\nname = \"validation\"\n[optimizer]", &["nothing validates"]);
    let discriminator =
        &RECIPE[RECIPE.find("[discriminator]").expect("there")..RECIPE.find("[adversarial]").expect("there")];
    refuse(discriminator, "", &["discriminator", "add [discriminator]"]);
    refuse("name = \"Generation\"", "name = \"Reconstruction\"", &["[loss]"]);
    refuse("[adversarial]", "[adversarial]\nweight = 0.1", &["weight = 0.1", "leave it out"]);

    // No image at all.
    let empty = dir.path().join("empty.csv");
    fs::write(&empty, "image\n").expect("written");
    let path = recipe(dir.path(), "right.toml", RECIPE);
    fail(&["train", &path, "--data", &text(&empty), "--out", &out, "--device", "cpu"], 1, &["empty.csv"]);
    fail(&["train", &path, "--data", &text(dir.path()), "--out", &out, "--device", "cpu"], 1, &["--data"]);
}

#[test]
fn a_run_that_predicts_generates_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let args = ["predict", &text(dir.path()), "-o", &text(&dir.path().join("out"))];
    fail(&args, 2, &["--image"]);
    fail(&[&args[..], &["-i", "a.nii", "--seed", "1"]].concat(), 1, &["--seed", "--count"]);
    fail(&[&args[..], &["-i", "a.nii", "--count", "1"]].concat(), 2, &["cannot be used with"]);
}
