//! Train, evaluate, predict, preprocess and the demo, through the program.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{
    errors, fail, hearth, phantom, plugins_are_built, record_path, run, signal, succeed, text, tiny_recipe, wait_until,
};
use hearth_data::{Image, read_nifti};

fn trained(dir: &Path) -> (PathBuf, PathBuf) {
    trained_for(dir, 3)
}

fn trained_for(dir: &Path, epochs: u32) -> (PathBuf, PathBuf) {
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
        &epochs.to_string(),
        "--device",
        "cpu",
    ]);
    (out, data)
}

fn volumes(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()).collect();
    // Each result has a record of its origin.
    files.retain(|path| text(path).ends_with(".nii.gz"));
    files.sort();
    files
}

/// The result for an image in a folder.
fn result(folder: &Path, image: &Path) -> PathBuf {
    let name = image.file_name().expect("a name").to_string_lossy().into_owned();
    folder.join(name.replace(".nii.gz", "_seg.nii.gz"))
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
        let (before, after) = (image(path), image(&result(&out, path)));
        assert_eq!(after.meta.original_shape, before.meta.original_shape, "{name:?}");
        for (row, expected) in after.meta.original_affine.iter().zip(before.meta.original_affine) {
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{name:?}: {value} {expected}");
            }
        }
        let values = after.to_vec();
        assert!(values.iter().all(|value| *value == 0.0 || *value == 1.0), "{name:?} holds classes");
    }
    // The second time the results exist: they are computed again if that is requested, and only
    // unchanged ones are replaced.
    let one = text(&images[0]);
    let again = ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &one];
    let target = result(&out, &images[0]);
    let before = std::fs::read(&target).expect("a result");
    let said = errors(&run(&again));
    assert!(said.contains("done by an earlier call"), "{said}");
    fail(
        &[&again[..], &["--checkpoint", "latest", "--tta", "flips"]].concat(),
        1,
        &["_seg.nii.gz exists", "--overwrite"],
    );
    succeed(&[&again[..], &["--overwrite"]].concat());
    assert_eq!(std::fs::read(&target).expect("a result"), before, "the same again");
    std::fs::write(&target, b"corrected by hand").expect("a file");
    fail(&[&again[..], &["--overwrite"]].concat(), 1, &["was changed after this program wrote it"]);
    assert_eq!(std::fs::read(&target).expect("a file"), b"corrected by hand");
}

#[test]
fn nothing_of_somebody_else_is_replaced() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let image_path = volumes(&data.join("imagesTr"))[0].clone();
    // Patient B's own files have the earlier and the current name of patient A's result.
    let other = dir.path().join("patB");
    std::fs::create_dir_all(&other).expect("a folder");
    let theirs = [other.join(image_path.file_name().expect("a name")), result(&other, &image_path)];
    theirs.iter().for_each(|path| std::fs::write(path, b"patient B").expect("a file"));
    let arguments = ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&other), "-i", &text(&image_path)];
    for more in [&[][..], &["--overwrite"]] {
        fail(
            &[&arguments[..], more].concat(),
            1,
            &["exists and would be overwritten", "only files that this program wrote"],
        );
    }
    theirs.iter().for_each(|path| assert_eq!(std::fs::read(path).expect("a file"), b"patient B"));
    // Nor an image in the folder where its result is written.
    let folder = image_path.parent().expect("a folder");
    let before = std::fs::read(&image_path).expect("an image");
    succeed(&["predict", &text(&run_folder), "--device", "cpu", "-o", &text(folder), "-i", &text(&image_path)]);
    assert_eq!(std::fs::read(&image_path).expect("an image"), before);
    // Equal names from two folders.
    let copy = dir.path().join("copy").join(image_path.file_name().expect("a name"));
    std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
    std::fs::copy(&image_path, &copy).expect("a copy");
    let out = text(&dir.path().join("both"));
    let both = ["predict", &text(&run_folder), "-o", &out, "-i", &text(&image_path), &text(&copy)];
    fail(&both, 1, &["two results would be written to", &text(&image_path), &text(&copy)]);
}

#[test]
fn a_folder_of_images_is_done_image_by_image() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = volumes(&data.join("imagesTr"));
    let out = dir.path().join("labels");
    let arguments =
        ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &text(&data.join("imagesTr"))];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("image 2 of 4"), "{}", errors(&output));
    assert_eq!(volumes(&out).len(), images.len());
    let record = std::fs::read(record_path(&result(&out, &images[0]))).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(record["labels"], serde_json::json!(["background", "spleen"]));
    assert!(record["input_blake3"].is_string() && record["checkpoint"].is_string(), "{record}");
}

/// Patients in folders of their own, with images of the same name.
#[test]
fn results_of_a_tree_of_images_are_in_the_same_folders() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = volumes(&data.join("imagesTr"));
    let (tree, out) = (dir.path().join("patients"), dir.path().join("labels"));
    for (place, image) in [("a", &images[0]), ("b/ct", &images[1])] {
        std::fs::create_dir_all(tree.join(place)).expect("a folder");
        std::fs::copy(image, tree.join(place).join("scan.nii.gz")).expect("a copy");
    }
    let words = ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i"];
    succeed(&[&words[..], &[&text(&tree)]].concat());
    for place in ["a", "b/ct"] {
        let image = tree.join(place).join("scan.nii.gz");
        assert!(result(&out.join(place), &image).is_file(), "{place}");
    }
    // Images in folders next to others are named.
    std::fs::copy(&images[2], tree.join("other.nii.gz")).expect("a copy");
    let output = run(&[&words[..], &[&text(&tree)]].concat());
    assert!(errors(&output).contains("2 folders not used, because next to images"), "{}", errors(&output));
}

/// In a folder with damaged files, all others are predicted, the damaged ones are listed with their
/// reasons, and a second call processes the rest.
#[test]
fn damaged_images_are_listed_and_the_others_done() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = volumes(&data.join("imagesTr"));
    let (out, victims) = (dir.path().join("labels"), [&images[0], &images[2]]);
    let whole = victims.map(|path| std::fs::read(path).expect("an image"));
    std::fs::write(victims[0], &whole[0][..whole[0].len() / 2]).expect("half of it");
    std::fs::write(victims[1], b"\x1f\x8bno image").expect("damage");
    let arguments =
        ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &text(&data.join("imagesTr"))];
    let said = fail(&arguments, 1, &["2 of 4 images failed", "failed.csv lists"]);
    assert!(said.contains("damaged gzip"), "{said}");
    assert_eq!(volumes(&out).len(), images.len() - 2);
    let list = std::fs::read_to_string(out.join("failed.csv")).expect("a list");
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(victims.iter().all(|path| list.contains(&text(path).rsplit('/').next().expect("a name")[..9])), "{list}");
    // Nothing is predicted twice; damaged files are predicted after they are repaired.
    let done = std::fs::metadata(result(&out, &images[1])).expect("a result").modified().expect("a time");
    victims.iter().zip(&whole).for_each(|(path, bytes)| std::fs::write(path, bytes).expect("mended"));
    let again = run(&arguments);
    assert!(again.status.success(), "{}", errors(&again));
    assert_eq!(errors(&again).matches("done by an earlier call").count(), 2, "{}", errors(&again));
    assert_eq!(volumes(&out).len(), images.len());
    assert_eq!(std::fs::metadata(result(&out, &images[1])).expect("it").modified().expect("a time"), done);
    assert!(!out.join("failed.csv").exists() && !out.join("records/failed.csv.hearth.json").exists());
    // A table that was changed stays.
    std::fs::write(out.join("volumes.csv"), "mine").expect("written");
    let again = run(&arguments);
    assert!(again.status.success() && errors(&again).contains("volumes.csv was changed after"), "{}", errors(&again));
    assert_eq!(std::fs::read_to_string(out.join("volumes.csv")).expect("a table"), "mine");
}

/// Results before Ctrl-C are complete and kept; a second call processes the rest.
#[cfg(unix)]
#[test]
fn ctrl_c_leaves_what_is_done() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained_for(dir.path(), 1);
    let (out, many) = (dir.path().join("labels"), dir.path().join("many"));
    std::fs::create_dir(&many).expect("a folder");
    let first = &volumes(&data.join("imagesTr"))[0];
    for number in 0..120 {
        std::fs::copy(first, many.join(format!("case_{number:03}.nii.gz"))).expect("a copy");
    }
    let arguments = ["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &text(&many)];
    let child = hearth().args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until("the third result", || out.join("case_002_seg.nii.gz").exists());
    signal(&child, "INT");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", errors(&ended));
    assert!(errors(&ended).contains("the same command, without --overwrite, processes the rest"), "{}", errors(&ended));
    let done = volumes(&out);
    assert!((3..120).contains(&done.len()), "{} results", done.len());
    done.iter().for_each(|path| drop(image(path)));
    let names = || std::fs::read_dir(&out).expect("it").map(|entry| entry.expect("a file").file_name());
    assert!(names().all(|name| !name.to_string_lossy().starts_with('.')), "{:?}", names().collect::<Vec<_>>());
    let times =
        || done.iter().map(|path| path.metadata().and_then(|it| it.modified()).expect("it")).collect::<Vec<_>>();
    let before = times();
    let again = run(&arguments);
    assert!(again.status.success(), "{}", errors(&again));
    assert_eq!(volumes(&out).len(), 120);
    // The last result may have been written without its record.
    let same = before.iter().zip(times()).filter(|(before, now)| **before == *now).count();
    assert!(same + 1 >= done.len(), "{same} of {}", done.len());
}

/// A result contains its origin.
#[test]
fn results_name_what_made_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = volumes(&data.join("imagesTr"));
    let out = dir.path().join("labels");
    succeed(&["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &text(&images[0])]);
    let path = result(&out, &images[0]);
    let header = hearth_data::nifti::read_header(&path).expect("a header");
    let description = String::from_utf8_lossy(&header.descrip).trim_end_matches('\0').to_owned();
    let record = std::fs::read(record_path(&path)).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let (weights, version) = (record["weights_blake3"].as_str().expect("a hash"), env!("CARGO_PKG_VERSION"));
    let checkpoint = record["checkpoint"].as_str().expect("a name");
    assert_eq!(description, format!("hearth {version} tiny {checkpoint} {}", &weights[..12]));
}

/// Results next to their images are not used as images by the next call.
#[test]
fn results_among_the_images_are_no_images() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let images = text(&data.join("imagesTr"));
    let (run_folder, count) = (text(&run_folder), volumes(&data.join("imagesTr")).len());
    let again = ["predict", &run_folder, "--device", "cpu", "-o", &images, "-i", &images, "--overwrite"];
    for _ in 0..2 {
        succeed(&again);
        assert_eq!(volumes(&data.join("imagesTr")).len(), 2 * count);
    }
}

/// The mean Dice of `predict`'s files, by `hearth metrics`.
fn measured(predictions: &Path, labels: &Path) -> f64 {
    // Predictions and labels are paired by name.
    let folder = predictions.parent().expect("a folder").join("named");
    std::fs::create_dir_all(&folder).expect("a folder");
    for path in volumes(predictions) {
        let name = path.file_name().expect("a name").to_string_lossy().replace("_seg", "");
        std::fs::copy(&path, folder.join(name)).expect("a copy");
    }
    let json = succeed(&["metrics", "-p", &text(&folder), "-l", &text(labels), "-m", "dice", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let classes = report["classes"].as_object().expect("classes");
    let means: Vec<f64> = classes.values().map(|class| class["dice"]["mean"].as_f64().expect("a mean")).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

fn evaluated(run_folder: &Path, data: &Path) -> serde_json::Value {
    let words = ["evaluate", &text(run_folder), "--data", &text(data), "--device", "cpu", "--json", "--all"];
    let json = succeed(&[&words[..], &["--grid", "original"]].concat());
    serde_json::from_str(&json).expect("JSON")
}

#[test]
fn what_is_written_is_what_was_measured() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained_for(dir.path(), 24);
    let out = dir.path().join("labels");
    let images = text(&data.join("imagesTr"));
    succeed(&["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &images]);
    let said = evaluated(&run_folder, &data);
    let (files, table) = (measured(&out, &data.join("labelsTr")), said["mean_dice"].as_f64().expect("a mean"));
    assert!(table > 0.0 && (files - table).abs() < 1e-5, "files {files}, evaluate {table}");
    assert_eq!(said["grid"], "original");
}

/// One region with a sigmoid: no background, no argmax.
#[test]
fn regions_are_decided_by_the_chain_of_post_processing_alone() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    assert!(plugins_are_built());
    let data = phantom(dir.path(), 4);
    let recipe = crate::common::TINY
        .replace("labels = [\"background\", \"spleen\"]", "labels = [\"spleen\"]")
        .replace("out_channels = 2", "out_channels = 1")
        .replace(
            "name = \"DiceCELoss\"\nto_onehot_y = true\nsoftmax = true",
            "name = \"DiceFocalLoss\"\nsigmoid = true",
        );
    let post = "[post]\nprediction = [{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = 0.5 }]\n";
    let path = dir.path().join("regions.toml");
    std::fs::write(&path, format!("{recipe}{post}")).expect("the recipe is written");
    let run_folder = dir.path().join("run");
    let words = ["train", &text(&path), "--data", &text(&data), "--out", &text(&run_folder), "--epochs", "8"];
    succeed(&[&words[..], &["--device", "cpu"]].concat());
    let out = dir.path().join("labels");
    let images = text(&data.join("imagesTr"));
    succeed(&["predict", &text(&run_folder), "--device", "cpu", "-o", &text(&out), "-i", &images]);
    for path in volumes(&out) {
        let map = image(&path);
        assert_eq!(map.channels(), 1, "one region is a mask");
        assert!(map.to_vec().iter().all(|value| *value == 0.0 || *value == 1.0), "{}", path.display());
    }
    let found: f32 = volumes(&out).iter().flat_map(|path| image(path).to_vec()).sum();
    assert!(found > 0.0, "something is found");
    let said = evaluated(&run_folder, &data);
    let (files, table) = (measured(&out, &data.join("labelsTr")), said["mean_dice"].as_f64().expect("a mean"));
    assert!(table > 0.0 && (files - table).abs() < 1e-5, "files {files}, evaluate {table}");
    assert!(said["per_class"]["spleen"].is_number(), "the only channel counts: {said}");
}

#[test]
fn which_cases_are_measured_is_said_and_follows_the_runs_record() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let table = |data: &Path, more: &[&str]| {
        let words = ["evaluate", &text(&run_folder), "--data", &text(data), "--device", "cpu"];
        succeed(&[&words[..], more].concat())
    };
    assert!(table(&data, &[]).contains("the 1 case that the run validated on"));
    assert!(table(&data, &["--all"]).contains("all 4 labelled cases; the run trained on 3 of them"));
    let first =
        volumes(&data.join("imagesTr"))[0].file_name().expect("a name").to_string_lossy().replace(".nii.gz", "");
    let one = table(&data, &["--cases", &first]);
    assert!(one.contains("1 case, chosen by name; the run trained on 1 of them"), "{one}");
    let words = ["evaluate", &text(&run_folder), "--data", &text(&data), "--cases", "spleen_O0"];
    fail(&words, 1, &["--cases: unknown case", "did you mean"]);
    // Data that the run has not seen: every labelled case, however few.
    let other = dir.path().join("other");
    succeed(&["data", "phantom", "spleen", "--cases", "2", "--size", "48", "--seed", "9", "--out", &text(&other)]);
    let foreign = table(&other, &[]);
    assert!(foreign.contains("all 2 labelled cases of data that the run has not seen"), "{foreign}");
}

#[test]
fn one_process_at_a_time_writes_to_a_run() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run_folder, data) = trained(dir.path());
    let held = hearth_train::RunLock::new(&run_folder).expect("free");
    let words = ["train", "--resume", "--data", &text(&data), "--out", &text(&run_folder), "--epochs", "4"];
    fail(&words, 1, &["is in use by process", "stop it"]);
    drop(held);
    succeed(&words);
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
    // As a data set, so that the parts of the labels can be counted.
    let labels = dir.path().join("predicted/labels");
    for image in volumes(&data.join("imagesTr")) {
        let copy = dir.path().join("predicted/images").join(image.file_name().expect("a name"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&image, &copy).expect("a copy");
        succeed(&["predict", &text(&out), "--device", "cpu", "-o", &text(&labels), "-i", &text(&image)]);
        let named = labels.join(image.file_name().expect("a name"));
        std::fs::rename(result(&labels, &image), named).expect("the name of its image");
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
        // Without data the dry run fails, after printing the recipe.
        let shown = run(&["train", recipe, "--data", &text(dir.path()), "--out", &out, "--dry-run", "--defaults"]);
        assert_eq!(shown.status.code(), Some(1), "{}", errors(&shown));
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    for name in
        [text(&recipe), "spleen".into(), "spleen-regular".into(), "hippocampus".into(), "lung".into(), "demo".into()]
    {
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
    fail(&arguments, 1, &["image.nii.gz exists", "--overwrite"]);
    succeed(&[&arguments[..], &["--overwrite"]].concat());
}
