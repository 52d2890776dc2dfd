//! What would train, predict or measure wrongly without a message: each is an error or a warning.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::{Image, WriteOptions, host_device, read_image, write_image};

use crate::common::{errors, fail, phantom, plugins_are_built, record_path, run, succeed, text, tiny_recipe};
use serde_json::{Value, json};

/// A data set, a recipe, and the words of a training of them.
struct Bench {
    folder: tempfile::TempDir,
    data: PathBuf,
    recipe: PathBuf,
}

impl Bench {
    fn new(cases: usize) -> Self {
        assert!(plugins_are_built());
        let folder = tempfile::tempdir().expect("a folder");
        let (data, recipe) = (phantom(folder.path(), cases), tiny_recipe(folder.path()));
        Self { folder, data, recipe }
    }

    fn at(&self, name: &str) -> String {
        text(&self.folder.path().join(name))
    }

    /// The words of a training into a folder, with changes of the recipe.
    fn train(&self, out: &str, sets: &[&str], more: &[&str]) -> Vec<String> {
        let (recipe, data, out) = (text(&self.recipe), text(&self.data), self.at(out));
        let words = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu"];
        let words = words.into_iter().chain(sets.iter().flat_map(|set| ["--set", set])).chain(more.iter().copied());
        words.map(str::to_owned).collect()
    }

    /// Changes dataset.json.
    fn list(&self, change: impl FnOnce(&mut Value)) {
        let path = self.data.join("dataset.json");
        let mut list: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a list")).expect("JSON");
        change(&mut list);
        fs::write(path, list.to_string()).expect("written");
    }
}

/// A bottleneck of one voxel: PyTorch stops with "Expected more than 1 value per channel".
#[test]
fn norms_of_a_single_value_are_refused_before_and_during_a_training() {
    let bench = Bench::new(2);
    let deep = ["network.channels=[4,8,8,8,8]", "network.strides=[2,2,2,2]"];
    let instance = [&deep[..], &["network.norm=\"instance\""]].concat();
    let words = ["instance norm", "single value", "[1, 8, 1, 1, 1]", "larger crops", "spatial_size"];
    fail(&bench.train("a", &instance, &["--dry-run"]), 1, &words);
    fail(&bench.train("a", &instance, &[]), 1, &words);
    assert!(!Path::new(&bench.at("a")).exists(), "nothing is left");
    // Crops are large enough, windows of the validation are not.
    let window = ["network.channels=[4,8,8,8]", "network.strides=[2,2,2]", "network.norm=\"instance\""];
    let window = [&window[..], &["inferer.roi_size=[8,8,8]"]].concat();
    fail(&bench.train("w", &window, &["--dry-run"]), 1, &["instance norm", "single value", "roi_size"]);
    // One crop in a batch: the batch norm of the bottleneck has one value.
    let single = [&deep[..], &["transforms.6.num_samples=1"]].concat();
    fail(&bench.train("b", &single, &["--epochs", "1"]), 1, &["batch norm", "single value", "drop_last"]);
    // Two crops are enough for it.
    succeed(&bench.train("c", &deep, &["--epochs", "1"]));
    // Of three cases in batches of two the last one is alone, and left out.
    let bench = Bench::new(4);
    let pairs = [&single[..], &["training.batch_size=2"]].concat();
    succeed(&bench.train("a", &pairs, &["--epochs", "1"]));
    let summary = fs::read_to_string(bench.at("a/log.jsonl")).expect("a log");
    assert!(summary.contains("\"event\":\"epoch\",\"epoch\":1,\"iteration\":1,"), "{summary}");
    let kept = [&pairs[..], &["training.drop_last=false"]].concat();
    fail(&bench.train("b", &kept, &["--epochs", "1"]), 1, &["batch norm", "single value"]);
}

#[test]
fn losses_that_cannot_learn_are_refused_and_unbounded_ones_warned_of() {
    let bench = Bench::new(2);
    let focal = "loss={ name = \"FocalLoss\", to_onehot_y = true, use_softmax = true, include_background = false }";
    fail(&bench.train("a", &[focal], &["--dry-run"]), 1, &["gradient of FocalLoss", "include_background = true"]);
    let weights = "loss={ name = \"DiceCELoss\", to_onehot_y = true, softmax = true, weight = [1.0, 2.0, 3.0] }";
    let said = fail(&bench.train("a", &[weights], &[]), 1, &["loss", "weight", "3"]);
    assert!(!said.contains("cache:"), "it is found before the caches are filled: {said}");
    let raw = "loss={ name = \"DiceLoss\", to_onehot_y = true }";
    let output = run(&bench.train("a", &[raw], &["--epochs", "1"]));
    assert!(output.status.success() && errors(&output).contains("negative"), "{}", errors(&output));
    assert!(errors(&output).contains("softmax = true"), "{}", errors(&output));
}

/// Options with which nothing, or something else, would be learned end before a case is read.
#[test]
fn options_that_cannot_learn_are_refused_at_the_start() {
    let bench = Bench::new(2);
    let loss = |options: &str| format!("loss={{ to_onehot_y = true, softmax = true, {options} }}");
    for (set, words) in [
        (loss("name = \"DiceCELoss\", weight = [0.0, 0.0]"), &["weight is 0 for every class"][..]),
        (loss("name = \"DiceCELoss\", lambda_dice = 0.0, lambda_ce = 0.0"), &["is 0 for", "factors of its parts"]),
        (loss("name = \"DiceCELoss\", label_smoothing = 1.0"), &["label_smoothing", "less than 1"]),
        ("loss={ name = \"CrossEntropyLoss\", weight = [-1.0, 1.0] }".to_owned(), &["weight holds -1", "at least 0"]),
        ("loss={ name = \"FocalLoss\", to_onehot_y = true, alpha = 2.0 }".to_owned(), &["alpha is 2", "[0, 1]"]),
        (loss("name = \"TverskyLoss\", alpha = -1.0"), &["alpha is -1"]),
        ("optimizer.momentum=1.0".to_owned(), &["momentum is 1.0", "less than 1"]),
        ("optimizer.dampening=1.5".to_owned(), &["dampening is 1.5"]),
        ("optimizer={ name = \"RMSprop\", alpha = 1.0 }".to_owned(), &["alpha is 1.0", "less than 1"]),
        (groups("{ params = \"*\", lr = 0.0 }"), &["--set optimizer.groups", "every parameter", "nothing is learned"]),
        (groups("{ params = \"model.0.*\", lr = 0.0 }, { params = \"*\", lr_scale = 0.0 }"), &["nothing is learned"]),
        (groups("{ params = \"modle.*\", lr = 0.1 }"), &["--set optimizer.groups", "matches no parameter"]),
        ("optimizer.lr=1e-60".to_owned(), &["optimizer.lr", "nothing is learned"]),
        ("training.clip={ norm = 1e-60 }".to_owned(), &["norm is 1e-60", "above 0"]),
        ("schedule={ name = \"OneCycleLR\", max_lr = 0.0, total_steps = 6 }".to_owned(),
            &["`max_lr` is 0; give a number above 0"]),
        ("schedule={ name = \"LinearLR\", start_factor = 0.0, end_factor = 0.0, total_iters = 6 }".to_owned(),
            &["is 0 in every epoch"]),
        ("handlers=[{ name = \"LrSchedule\", schedule = { name = \"ExponentialLR\", gamma = 0.5 }, base_lr = 0.0 }]"
            .to_owned(), &["base_lr", "is 0 in every epoch"]),
        ("network.dropout=1.0".to_owned(), &["dropout = 1", "drops every value"]),
        ("inferer.overlap=[0.5, 0.5]".to_owned(), &["overlap is [0.5, 0.5]", "one for each of 3 axes"]),
        ("inferer={ name = \"SliceInferer\", roi_size = 16 }".to_owned(), &["roi_size is 16", "two numbers"]),
        ("labels=[\"spleen\", \"background\"]".to_owned(), &["labels", "background first"]),
        ("schedule={ name = \"WarmupCosineSchedule\", warmup_steps = 2, t_total = 6, warmup_multiplier = 5.0 }".to_owned(),
            &["warmup_multiplier", "0 to 1"]),
        ("inferer={ name = \"SlidingWindowInferer\", roi_size = [16, 16, 16], mode = \"gaussian\", sigma_scale = 0.0 }"
            .to_owned(), &["sigma_scale", "above 0"]),
        ("transforms.4.b_max=0.0".to_owned(), &["b_min", "every voxel"]),
        ("metric={ psnr = { name = \"PSNRMetric\", max_val = 0.0 } }".to_owned(), &["max_val", "above 0"]),
        ("metric={ same = { name = \"SSIMMetric\", spatial_dims = 3, data_range = 0.0 } }".to_owned(), &["data_range"]),
        ("metric={ dice = { name = \"DiceMetric\", num_classes = 5 } }".to_owned(), &["DiceMetric", "at least 5"]),
        // Every voxel of every region, whatever is predicted, and none of them.
        (post("{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = -0.5 }"),
            &["mean_dice is", "right prediction", "wrong one"]),
        // Values between 0 and 1 all count as the class.
        (post("{ name = \"Activations\", sigmoid = true }"), &["decide about no voxel", "wrong one"]),
        (post("{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = 1.5 }"),
            &["mean_dice is", "right prediction", "wrong one"]),
        (post("{ name = \"AsDiscrete\", argmax = true, to_onehot = 2 }, \
               { name = \"KeepLargestConnectedComponent\", applied_labels = [5] }"),
            &["label 5", "2 channels"]),
    ] {
        let said = fail(&bench.train("a", &[&set], &["--dry-run"]), 1, words);
        assert!(!said.contains("cache"), "{set}: {said}");
    }
}

/// A label with a fourth axis reads like a map, and the loss would fail in the first step: `data verify`
/// and `train` name the case before.
#[test]
fn labels_of_several_channels_are_refused_where_the_loss_takes_one() {
    let bench = Bench::new(3);
    let at = |case: usize| bench.data.join(format!("labelsTr/spleen_{case:02}.nii.gz"));
    let stored: Vec<Image> = (0..3).map(|case| read_image(at(case)).expect("a label")).collect();
    let write = |case: usize, values: Vec<f32>, channels: usize| {
        let [x, y, z] = stored[case].shape();
        let image = Image::from_values(values, [channels, x, y, z], stored[case].affine, &host_device());
        write_image(at(case), &image, &WriteOptions::default()).expect("written");
    };
    let verify = |sets: &[&str]| {
        let (recipe, data) = (text(&bench.recipe), text(&bench.data));
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        run(&[&["data", "verify", &recipe, &data][..], &sets].concat())
    };
    // One map for each of three times.
    write(1, stored[1].to_vec().repeat(3), 3);
    let words = ["spleen_01: its label has 3 channels", "DiceCELoss takes 1, with numbers of classes"];
    let said = fail(&bench.train("a", &[], &["--dry-run"]), 1, &words);
    assert!(!said.contains("iteration"), "{said}");
    fail(&bench.train("a", &["data.cache={ kind = \"none\" }"], &["--epochs", "1"]), 1, &words);
    let found = verify(&[]);
    let table = String::from_utf8_lossy(&found.stdout);
    assert_eq!(found.status.code(), Some(1), "{table}");
    assert!(table.contains("spleen_01") && table.contains("3 channels"), "{table}");
    let plain = run(&["data", "verify", &text(&bench.data)]);
    let table = String::from_utf8_lossy(&plain.stdout);
    assert!(plain.status.code() == Some(1) && table.contains("the label has 3 channels, most cases have 1"), "{table}");

    // A fourth axis of length 1 is a map.
    let flat = bench.data.join("labelsTr/flat.nii");
    write_image(&flat, &stored[1], &WriteOptions::default()).expect("written");
    let mut bytes = fs::read(&flat).expect("a file");
    bytes[40..42].copy_from_slice(&4_i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&1_i16.to_le_bytes());
    fs::write(&flat, bytes).expect("written");
    let listed = fs::read_to_string(bench.data.join("dataset.json")).expect("a list");
    bench.list(|list| list["training"][1]["label"] = json!("./labelsTr/flat.nii"));
    fs::remove_file(at(1)).expect("removed");
    assert!(verify(&[]).status.success(), "{}", errors(&verify(&[])));
    succeed(&bench.train("flat", &[], &["--epochs", "1"]));
    fs::remove_file(&flat).expect("removed");
    fs::write(bench.data.join("dataset.json"), listed).expect("written");

    // A channel for each class, which a loss without to_onehot_y takes.
    for (case, label) in stored.iter().enumerate() {
        let map = label.to_vec();
        let channel = |class: f32| map.iter().map(move |value| f32::from(*value == class));
        write(case, channel(0.0).chain(channel(1.0)).collect(), 2);
    }
    let loss = "loss={ name = \"DiceCELoss\", softmax = true }";
    let post = |label: &str| {
        let prediction = "{ name = \"AsDiscrete\", argmax = true, to_onehot = 2 }";
        format!("post={{ prediction = [{prediction}], label = [{{ name = \"AsDiscrete\", {label} }}] }}")
    };
    let words = ["its label has 2 channels", "[post] label", "to_onehot 2"];
    fail(&bench.train("c", &[loss, &post("to_onehot = 2")], &["--dry-run"]), 1, &words);
    let post = &*post("threshold = 0.5");
    let found = verify(&[loss, post]);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
    succeed(&bench.train("hot", &[loss, post], &["--epochs", "1"]));
    fail(&bench.train("b", &[], &["--dry-run"]), 1, &["spleen_00, spleen_01", "its label has 2 channels"]);
}

/// Fewer cases than a batch, of which incomplete ones are left out: no step would be taken.
#[test]
fn an_epoch_without_a_batch_is_refused() {
    let bench = Bench::new(2);
    let sets = ["training.drop_last=true", "training.batch_size=2"];
    let words = ["drop_last", "an epoch has no batch", "fewer cases (1)", "batch_size"];
    fail(&bench.train("a", &sets, &["--dry-run"]), 1, &words);
    fail(&bench.train("a", &sets, &["--epochs", "1"]), 1, &words);
    // One crop of one case, left out since the network has batch norms.
    let single = ["transforms.6.num_samples=1", "training.batch_size=2"];
    fail(&bench.train("a", &single, &["--dry-run"]), 1, &["an epoch has no batch", "a single crop"]);
    succeed(&bench.train("b", &["training.batch_size=2"], &["--epochs", "1"]));
}

/// `[optimizer]` with these groups.
fn groups(groups: &str) -> String {
    format!("optimizer.groups=[{groups}]")
}

/// `[post]` with these steps of the prediction.
fn post(prediction: &str) -> String {
    format!("post={{ prediction = [{prediction}], label = [{{ name = \"AsDiscrete\", to_onehot = 2 }}] }}")
}

/// Options that are seldom meant are named before a case is read.
#[test]
fn options_that_are_seldom_meant_are_warned_of_at_the_start() {
    let bench = Bench::new(2);
    let sigmoid = post("{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = 0.5 }");
    let logits = post("{ name = \"AsDiscrete\", threshold = 0.5 }");
    for (set, words) in [
        ("loss={ name = \"CrossEntropyLoss\", weight = [0.0, 1.0] }", &["\"spleen\" is predicted in place of"][..]),
        ("loss={ name = \"CrossEntropyLoss\", ignore_index = 1 }", &["loss: ignore_index", "\"spleen\""]),
        ("metric={ dice = { name = \"DiceMetric\", ignore_index = 1 } }", &["metric.dice: ignore_index", "\"spleen\""]),
        (
            "schedule={ name = \"LinearWarmupCosineAnnealingLR\", warmup_epochs = 100, max_epochs = 700 }",
            &["ends in the warm-up", "rises from 0"],
        ),
        ("schedule={ name = \"OneCycleLR\", max_lr = 0.1, total_steps = 600 }", &["ends in the warm-up"]),
        ("schedule={ name = \"ExponentialLR\", gamma = 0.0001 }", &["ends before the run", "from epoch 3 of 6"]),
        ("schedule={ name = \"CosineAnnealingLR\", T_max = 3 }", &["from epoch 5 of 6", "rises again"]),
        ("training.val_interval=100", &["never validate", "val_interval = 100"]),
        ("handlers=[{ name = \"EarlyStop\", metric = \"nothing\" }]", &["watches \"nothing\"", "mean_dice and loss"]),
        ("handlers=[{ name = \"ReduceLROnPlateau\", min_lr = 1.0 }]", &["min_lr = 1 is not below"]),
        (
            "transforms.RandFlip={ name = \"CutMix\", keys = [\"image\"], batch = true }",
            &["combines the images of two cases", "add \"label\" to `keys`"],
        ),
        (
            "transforms.RandFlip={ name = \"RandFlip\", keys = [\"image\"], spatial_axis = 0 }",
            &["transforms.7 moves the image at random", "add \"label\" to `keys`"],
        ),
        (&sigmoid, &["\"background\" is measured as a region", "the softmax of DiceCELoss"]),
        (&logits, &["without an activation", "threshold 0.5", "sigmoid = true"]),
    ] {
        let output = run(&bench.train("a", &[set], &["--dry-run"]));
        let said = errors(&output);
        assert!(output.status.success(), "{set}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{set}: {said}");
    }
    let said = errors(&run(&bench.train("a", &[], &["--dry-run"])));
    assert!(!said.contains("warning"), "the recipe itself is sound: {said}");
}

/// The classes from `to_onehot` on would vanish from prediction and label, and the mean Dice would
/// rise.
#[test]
fn classes_that_one_hot_form_would_drop_are_an_error() {
    let bench = Bench::new(2);
    let post = "post={ prediction = [{ name = \"AsDiscrete\", argmax = true, to_onehot = 1 }], \
                label = [{ name = \"AsDiscrete\", to_onehot = 1 }] }";
    fail(&bench.train("a", &[post], &["--epochs", "1"]), 1, &["to_onehot 1", "2 channels"]);
}

/// A list that names validation cases decides; a case in two parts is an error.
#[test]
fn a_data_set_s_own_split_decides_unless_the_recipe_says_otherwise() {
    let bench = Bench::new(4);
    let whole = fs::read_to_string(&bench.recipe).expect("a recipe");
    let without = whole.replace("[data]\nvalidation = { last = 1 }\n", "");
    assert!(without.len() < whole.len());
    fs::write(&bench.recipe, &without).expect("written");
    bench.list(|list| {
        let training = list["training"].as_array().expect("a list").clone();
        list["validation"] = json!(training[..2]);
        list["training"] = json!(training[2..]);
    });
    let output = run(&bench.train("a", &[], &["--epochs", "1"]));
    let said = errors(&output);
    assert!(said.contains("validation: 2 cases that the data set reserves for it"), "{said}");
    assert!(said.contains("2 cases train, 2 validate"), "{said}");
    let record: Value =
        serde_json::from_str(&fs::read_to_string(bench.at("a/run.json")).expect("a record")).expect("JSON");
    assert_eq!(record["validation"], json!(["spleen_00", "spleen_01"]));
    // The recipe decides, and the run says so.
    fs::write(&bench.recipe, &whole).expect("written");
    let said = errors(&run(&bench.train("b", &[], &["--epochs", "1"])));
    assert!(said.contains("reserves 2 cases") && said.contains("last = 1"), "{said}");
    fs::write(&bench.recipe, &without).expect("written");
    bench.list(|list| {
        let first = list["validation"][0].clone();
        list["training"].as_array_mut().expect("a list").push(first);
    });
    fail(&bench.train("c", &[], &[]), 1, &["`training` and in `validation`"]);
    // The column fold of MONAI's lists: fold 0 validates, and --folds takes all of them.
    bench.list(|list| {
        let (mut all, mut held) = (list["training"].clone(), list["validation"].clone());
        let all = all.as_array_mut().expect("a list");
        all.pop();
        all.append(held.as_array_mut().expect("a list"));
        for (place, case) in all.iter_mut().enumerate() {
            case["fold"] = json!(place % 2);
        }
        list["training"] = json!(all);
        list["validation"] = json!([]);
    });
    let said = errors(&run(&bench.train("d", &[], &["--epochs", "1"])));
    assert!(said.contains("fold 0 of the data set's column fold, 2 cases"), "{said}");
    succeed(&bench.train("e", &[], &["--epochs", "1", "--folds", "2", "--fold", "1"]));
    let folds = fs::read_to_string(bench.at("e/folds.json")).expect("folds");
    let folds: Value = serde_json::from_str(&folds).expect("JSON");
    assert_eq!(folds["folds"], json!([["spleen_02", "spleen_00"], ["spleen_03", "spleen_01"]]));
    fail(&bench.train("f", &[], &["--folds", "3"]), 1, &["assigns the cases to 2 folds", "--folds 2"]);
}

#[test]
fn schedules_that_end_before_the_run_are_warned_of_and_can_be_extended() {
    let bench = Bench::new(2);
    let poly = "schedule={ name = \"PolynomialLR\", total_iters = 3 }";
    let output = run(&bench.train("a", &[poly], &["--epochs", "6"]));
    let said = errors(&output);
    assert!(output.status.success() && said.contains("PolynomialLR ends before the run"), "{said}");
    assert!(said.contains("from epoch 4 of 6"), "{said}");
    let output = run(&bench.train("b", &[poly], &["--epochs", "3"]));
    assert!(!errors(&output).contains("ends before the run"), "{}", errors(&output));
    let (data, out) = (text(&bench.data), bench.at("b"));
    let resume = ["train", "--resume", "--data", &data, "--out", &out, "--epochs", "6"];
    let said = errors(&run(&[&resume[..], &["--set", "schedule.total_iters=6"]].concat()));
    assert!(!said.contains("ends before the run") && said.contains("epoch 6/6"), "{said}");
    let table = fs::read_to_string(bench.at("b/metrics.csv")).expect("metrics");
    let rates: Vec<f64> = table.lines().skip(4).filter_map(|row| row.split(',').nth(2)?.parse().ok()).collect();
    assert_eq!(rates.len(), 3, "{table}");
    assert!(
        rates.iter().zip([0.5, 1.0 / 3.0, 1.0 / 6.0]).all(|(rate, part)| (rate - 0.02 * part).abs() < 1e-9),
        "{table}"
    );
    fail(&[&resume[..], &["--set", "training.seed=3"]].concat(), 1, &["--set", "schedule.KEY"]);
}

/// One loss an epoch, the mean over its steps: on the terminal, in metrics.csv and in log.jsonl.
/// The handlers that watch it act.
#[test]
fn the_loss_of_an_epoch_is_the_same_everywhere_and_can_be_watched() {
    let bench = Bench::new(3);
    let plateau =
        "handlers=[{ name = \"ReduceLROnPlateau\", metric = \"loss\", patience = 0, threshold = 0.9, factor = 0.5 }]";
    let output = run(&bench.train("a", &[plateau], &["--epochs", "3"]));
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    let table = fs::read_to_string(bench.at("a/metrics.csv")).expect("metrics");
    let heads: Vec<&str> = table.lines().next().expect("a head").split(',').collect();
    assert_eq!(&heads[..4], ["epoch", "iteration", "learning_rate", "loss"]);
    let column = |place: usize| -> Vec<f64> {
        let cells = table.lines().skip(1).filter_map(|row| row.split(',').nth(place));
        cells.map(|cell| cell.parse().expect("a number")).collect()
    };
    // Each epoch is written with the rate that the plateau of the loss has left.
    assert!(column(2).windows(2).all(|rates| rates[1] < rates[0]), "{table}");
    let losses = column(3);
    let log = fs::read_to_string(bench.at("a/log.jsonl")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let logged: Vec<f64> =
        lines.filter(|line| line["event"] == "epoch").map(|line| line["loss"].as_f64().expect("a loss")).collect();
    // JSON's numbers are read with an error in the last digit.
    let same = losses.iter().zip(&logged).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(losses.len() == 3 && logged.len() == 3 && same, "{losses:?} {logged:?}");
    for (epoch, loss) in losses.iter().enumerate() {
        assert!(said.contains(&format!("epoch {}/3  loss {loss:.4}", epoch + 1)), "{said}");
    }
    let unknown = "handlers=[{ name = \"ReduceLROnPlateau\", metric = \"mean_dise\" }]";
    let said = errors(&run(&bench.train("b", &[unknown], &["--epochs", "1"])));
    assert!(said.contains("`mean_dise`, which was never computed") && said.contains("mean_dice"), "{said}");
}

/// A patient whose file has another name than nnU-Net's is named, the others are predicted, and the
/// call fails.
#[test]
fn images_that_belong_to_no_case_of_nnunet_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror");
    let (images, out) = (dir.path().join("images"), text(&dir.path().join("out")));
    fs::create_dir(&images).expect("a folder");
    for name in ["a_0000.nii.gz", "b.nii.gz"] {
        fs::copy(golden.join("input/s01_0000.nii.gz"), images.join(name)).expect("a copy");
    }
    fs::write(images.join("notes.txt"), "x").expect("written");
    let (model, images_text) = (text(&golden.join("model")), text(&images));
    let call = ["predict", &model, "-i", &images_text, "-o", &out, "--device", "cpu"];
    fail(&call, 1, &["b.nii.gz", "b_0000.nii.gz"]);
    assert!(dir.path().join("out/a.nii.gz").is_file());
    let failed = fs::read_to_string(dir.path().join("out/failed.csv")).expect("a list");
    assert!(failed.contains("b.nii.gz"), "{failed}");
    // In a folder without numbered names every image is a case; other files are named.
    fs::remove_file(images.join("a_0000.nii.gz")).expect("removed");
    let output = run(&call);
    assert!(output.status.success() && errors(&output).contains("notes.txt"), "{}", errors(&output));
}

/// An image unlike those of the training is predicted with a warning that says in what it differs:
/// on the terminal, in the JSON line, the record and the report; by a run, its package, an ensemble and its
/// bundle.
#[test]
fn an_image_unlike_those_of_the_training_is_named_as_such() {
    let bench = Bench::new(3);
    succeed(&bench.train("a", &[], &["--epochs", "1"]));
    let known: Value =
        serde_json::from_str(&fs::read_to_string(bench.at("a/fingerprint.json")).expect("a file")).expect("JSON");
    assert_eq!(known["cases"], 2, "{known}");
    let image = fs::read_dir(bench.data.join("imagesTr")).expect("a folder").flatten().next().expect("an image").path();
    let loaded = hearth_data::read_image(&image).expect("an image");
    // The same values with slices six times as thick, and 1000 higher: not Hounsfield units.
    let mut affine = loaded.affine;
    (0..3).for_each(|row| affine[row][2] *= 6.0);
    let values: Vec<f32> = loaded.to_vec().iter().map(|value| value + 3000.0).collect();
    let [x, y, z] = loaded.shape();
    let other = hearth_data::Image::from_values(values, [1, x, y, z], affine, &hearth_data::host_device());
    let other_path = bench.folder.path().join("other.nii.gz");
    hearth_data::write_nifti(&other_path, &other, hearth_data::NiftiOptions::default()).expect("written");
    succeed(&["export", &bench.at("a"), &bench.at("a.hearth"), "--checkpoint", "latest"]);
    succeed(&["export", &bench.at("a"), "--to", "bundle", "-o", &bench.at("bundle"), "--checkpoint", "latest"]);
    let calls = [
        vec!["predict".to_owned(), bench.at("a"), "--picture".to_owned()],
        vec!["predict".to_owned(), bench.at("a.hearth")],
        vec!["ensemble".to_owned(), bench.at("a"), bench.at("a.hearth")],
        vec!["predict".to_owned(), bench.at("bundle")],
    ];
    let mut first: Option<Value> = None;
    for (place, call) in calls.into_iter().enumerate() {
        let out = bench.at(&format!("out{place}"));
        let words = |image: &Path| {
            let rest = ["-i", &text(image), "-o", &out, "--device", "cpu", "--json"].map(str::to_owned);
            call.iter().cloned().chain(rest).collect::<Vec<_>>()
        };
        let output = run(&words(&other_path));
        let said = errors(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("unlike the training data: spacing"), "{said}");
        let line: Value = serde_json::from_slice(&output.stdout).expect("a line");
        first.get_or_insert(line["unlike_training"].clone());
        let remarks = line["unlike_training"].to_string();
        assert!(remarks.contains("feet to head") && remarks.contains("trained on"), "{line}");
        assert!(remarks.contains("lowest values") && remarks.contains("highest values"), "{line}");
        let record = fs::read_to_string(record_path(&Path::new(&out).join("other_seg.nii.gz"))).expect("a record");
        assert!(record.contains("unlike_training"), "{record}");
        let output = run(&words(&image));
        assert!(!errors(&output).contains("unlike"), "{}", errors(&output));
        let line: Value = serde_json::from_slice(&output.stdout).expect("a line");
        assert!(line["unlike_training"].is_null(), "{line}");
    }
    let page = bench.at("page.html");
    let shown = succeed(&["report", &bench.at("a"), "-o", &page, "--pictures", &bench.at("out0"), "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("a line");
    let remarks = shown["runs"][0]["remarks"].as_array().expect("a list");
    let of_case = |remark: &&Value| remark["case"] == "other";
    let remarks: Vec<&str> = remarks.iter().filter(of_case).filter_map(|one| one["remark"].as_str()).collect();
    // Once each, although labels and picture both have a record.
    let first = first.expect("a line");
    let of_line = first.as_array().expect("a list").iter().filter_map(Value::as_str);
    let expected: Vec<String> = of_line.map(|remark| format!("unlike the training data: {remark}")).collect();
    assert_eq!(remarks, expected, "{shown}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("Remarks on predictions") && page.contains("unlike the training data: spacing"));
}

/// A table without a row, as a spreadsheet leaves it: no prediction, and no exit code of success.
#[test]
fn a_table_without_a_case_is_an_error() {
    let bench = Bench::new(2);
    succeed(&bench.train("run", &[], &["--epochs", "1"]));
    let (run, table, out) = (bench.at("run"), bench.at("list.csv"), bench.at("out"));
    fs::write(&table, "image,label\n").expect("written");
    fail(&["predict", &run, "-i", &table, "-o", &out, "--device", "cpu"], 1, &["list.csv", "names no case"]);
    fail(&["evaluate", &run, "--data", &table, "--device", "cpu"], 1, &["names no case"]);
    assert!(!Path::new(&out).exists(), "nothing is left");
}

/// Another step than the network was trained with, written into the run's recipe afterwards.
#[test]
fn a_recipe_that_was_edited_after_the_training_is_named() {
    let bench = Bench::new(2);
    succeed(&bench.train("run", &[], &["--epochs", "1"]));
    let (run, recipe) = (bench.at("run"), bench.at("run/recipe.toml"));
    let image = text(&bench.data.join("imagesTr/spleen_00.nii.gz"));
    let predict = |out: &str| run_of(&["predict", &run, "-i", &image, "-o", &bench.at(out), "--device", "cpu"]);
    assert!(!predict("before").contains("edited"));
    let written = fs::read_to_string(&recipe).expect("a recipe");
    let edited = written.replacen("a_max = 164.0", "a_max = 300.0", 1);
    assert_ne!(edited, written);
    fs::write(&recipe, edited).expect("written");
    let said = predict("after");
    assert!(said.contains("was edited after the training") && said.contains("a_max is 300.0"), "{said}");
    assert!(said.contains("trained with 164.0"), "{said}");
}

/// What a command that succeeds reports.
fn run_of(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{}", errors(&output));
    errors(&output)
}

/// Values that the recipe's range maps to next to a single one, and images of a single value.
#[test]
fn a_training_on_images_without_contrast_is_warned_of() {
    let bench = Bench::new(2);
    let far = "transforms.4={ name = \"ScaleIntensityRange\", keys = [\"image\"], a_min = 5000.0, a_max = 9000.0, \
               b_min = 0.0, b_max = 1.0, clip = true }";
    let said = errors(&run(&bench.train("a", &[far], &["--epochs", "1"])));
    assert!(said.contains("next to one value after ScaleIntensityRange of 5000 to 9000"), "{said}");
    let said = errors(&run(&bench.train("b", &[], &["--epochs", "1"])));
    assert!(!said.contains("ScaleIntensityRange"), "{said}");
}

/// Without an orientation in the header, left and right are a guess.
#[test]
fn an_image_without_an_orientation_is_named() {
    let bench = Bench::new(2);
    let (image, plain) = (text(&bench.data.join("imagesTr/spleen_00.nii.gz")), bench.at("plain.nii"));
    assert!(!run_of(&["convert", &image, &plain]).contains("orientation"));
    let mut bytes = fs::read(&plain).expect("read");
    // qform_code and sform_code of the header.
    bytes[252..256].fill(0);
    fs::write(&plain, bytes).expect("written");
    let said = run_of(&["convert", &plain, &bench.at("again.nii.gz")]);
    assert!(said.contains("plain.nii") && said.contains("states no orientation"), "{said}");
}

/// The same image under two names would be trained on and measured on; names of labels in another order
/// would be learned as one another.
#[test]
fn images_in_both_parts_and_labels_in_another_order_are_named() {
    let bench = Bench::new(3);
    let at = |folder: &str, case: &str| bench.data.join(folder).join(format!("spleen_{case}.nii.gz"));
    // The last case validates.
    for folder in ["imagesTr", "labelsTr"] {
        fs::copy(at(folder, "00"), at(folder, "02")).expect("copied");
    }
    let said = errors(&run(&bench.train("a", &[], &["--dry-run"])));
    assert!(said.contains("1 case of the validation") && said.contains("spleen_02 and spleen_00"), "{said}");
    bench.list(|list| list["labels"] = json!({"0": "background", "1": "liver", "2": "Spleen"}));
    let three = ["labels=[\"background\", \"spleen\", \"liver\"]", "network.out_channels=3"];
    fail(&bench.train("b", &three, &["--dry-run"]), 1, &["calls label 1 \"liver\"", "label 2", "in the order"]);
    let right = ["labels=[\"background\", \"liver\", \"spleen\"]", "network.out_channels=3"];
    assert!(run(&bench.train("c", &right, &["--dry-run"])).status.success());
}

/// Labels that a step blends are of no class: a metric would count them as wrong everywhere.
#[test]
fn blended_labels_are_refused_and_empty_validations_are_named() {
    let bench = Bench::new(4);
    let whole = fs::read_to_string(&bench.recipe).expect("a recipe");
    let blended = whole.replace("mode = [\"bilinear\", \"nearest\"]", "mode = \"bilinear\"");
    assert_ne!(blended, whole);
    fs::write(&bench.recipe, blended).expect("written");
    fail(
        &bench.train("out", &[], &["--dry-run"]),
        1,
        &["preparing the training cases", "which is no label", "\"nearest\""],
    );
    fs::write(&bench.recipe, whole).expect("written");
    // The label of the only validation case becomes empty.
    let path = fs::read_dir(bench.data.join("labelsTr")).expect("labels").flatten().map(|entry| entry.path()).max();
    let path = path.expect("a label");
    let label = read_image(&path).expect("a label");
    let [x, y, z] = label.shape();
    let filled = |value: f32| {
        let values = label.to_vec().iter().map(|label| label * value).collect();
        Image::from_values(values, [1, x, y, z], label.affine, &host_device())
    };
    write_image(&path, &filled(0.0), &WriteOptions::label()).expect("written");
    let output = run(&bench.train("empty", &[], &["--epochs", "1"]));
    let said = errors(&output);
    assert!(output.status.success() && said.contains("all 1 validation cases have label maps without"), "{said}");
    // A file of probabilities is no label map.
    let (prob, out) = (bench.at("prob.nii.gz"), bench.at("label.nii.gz"));
    write_image(&prob, &filled(0.4), &WriteOptions::default()).expect("written");
    fail(&["convert", &prob, &out, "--label"], 1, &["prob.nii.gz", "0.4", "whole numbers"]);
    assert!(!Path::new(&out).exists());
}
