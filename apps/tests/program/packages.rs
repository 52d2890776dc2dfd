//! Models as one file, recipes with weights, inputs of `-i`, JSON lines.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, phantom, plugins_are_built, run, succeed, text, tiny_recipe};
use hearth_data::nifti::read_nifti_values;
use serde_json::Value;

/// The key pair of RFC 8032, section 7.1, test 1, and another public key.
const SECRET: &str = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";
const PUBLIC: &str = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
const OTHER: &str = "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";

/// A run that was trained for seconds, and its images.
fn trained(dir: &Path) -> (PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let (recipe, data, out) = (tiny_recipe(dir), phantom(dir, 4), dir.join("run"));
    let (recipe, from, to) = (text(&recipe), text(&data), text(&out));
    succeed(&["train", &recipe, "--data", &from, "--out", &to, "--epochs", "2", "--device", "cpu"]);
    (out, data.join("imagesTr"))
}

/// The files in a folder with this end, by name.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| text(path).ends_with(end)).collect();
    files.sort();
    files
}

/// Checks that two folders have the same results, byte by byte, including headers and descriptions.
fn same_results(one: &Path, other: &Path) {
    let (a, b) = (files(one, ".nii.gz"), files(other, ".nii.gz"));
    assert!(!a.is_empty() && a.len() == b.len(), "{a:?} {b:?}");
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a.file_name(), b.file_name());
        assert!(fs::read(a).expect("read") == fs::read(b).expect("read"), "{} differs", a.display());
    }
}

fn lines(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {line}"))).collect()
}

#[test]
fn a_package_predicts_what_its_run_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run_folder, images) = trained(dir.path());
    let at = |name: &str| text(&dir.path().join(name));
    let predict = |model: &str, out: &str, more: &[&str]| {
        let words = ["predict", model, "-i", &text(&images), "-o", &at(out), "--device", "cpu"];
        succeed(&[&words[..], more].concat())
    };
    predict(&text(&run_folder), "by-run", &["--probabilities"]);

    fs::write(at("LICENCE"), "Use it well.\n").expect("written");
    fs::write(at("key.pem"), format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"))
        .expect("written");
    for (name, key) in [("public.pem", PUBLIC), ("other.pem", OTHER)] {
        fs::write(at(name), format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n")).expect("written");
    }
    let (run_text, model) = (text(&run_folder), at("spleen.hearth"));
    let about = ["--about", "author=Jane Doe", "--about", "use=tests alone", "--licence", &at("LICENCE")];
    let printed = succeed(&[&["export", &run_text, &model, "--sign", &at("key.pem")], &about[..]].concat());
    assert_eq!(printed.trim(), model);
    let error = fail(&["export", &run_text, &model], 1, &["spleen.hearth exists", "--overwrite"]);
    assert!(!error.contains("panicked"));
    let before = fs::read(&model).expect("read");
    succeed(&[&["export", &run_text, &model, "--overwrite", "--sign", &at("key.pem")], &about[..]].concat());
    assert!(before == fs::read(&model).expect("read"), "the same run makes the same bytes");

    predict(&model, "by-package", &["--probabilities", "--verify-key", &at("public.pem")]);
    same_results(&dir.path().join("by-run"), &dir.path().join("by-package"));
    let data = text(images.parent().expect("the data set"));
    let measured = succeed(&["evaluate", &model, "--data", &data, "--device", "cpu"]);
    assert!(measured.contains("spleen"), "{measured}");
    let refused = ["predict", &model, "-i", &text(&images), "-o", &at("none"), "--verify-key", &at("other.pem")];
    fail(&refused, 1, &["was signed by the key d75a98"]);
    fail(&[&["ensemble"], &refused[1..]].concat(), 1, &["was signed by the key d75a98"]);
    assert!(!dir.path().join("none").exists());
    fail(&["predict", &model, "-i", "x.nii", "-o", &at("none"), "--checkpoint", "latest"], 1, &["--checkpoint latest"]);

    let info = succeed(&["models", "info", &model, "--check"]);
    for said in ["Jane Doe", "tests alone", "licence: LICENCE", "signed by: d75a98", "SCT 78961009", "recipe.toml"] {
        assert!(info.contains(said), "no {said:?} in {info}");
    }
    // In a store, by name.
    let store = at("store");
    let call = |words: &[&str]| {
        let output =
            crate::common::hearth().env("HEARTH_MODELS", &store).args(words).output().expect("the program starts");
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    call(&["models", "add", &model, "--verify-key", &at("public.pem")]);
    assert!(call(&["models", "list", "--stored"]).contains("package"));
    assert!(call(&["models", "info", "spleen"]).contains("Jane Doe"));
    call(&["models", "info", "spleen", "--check"]);
    call(&["predict", "spleen", "-i", &text(&images), "-o", &at("by-name"), "--device", "cpu", "--probabilities"]);
    same_results(&dir.path().join("by-run"), &dir.path().join("by-name"));
    call(&["models", "remove", "spleen"]);

    // A recipe and weights, without a run. The description names another origin; the voxels are the
    // same.
    let best = fs::read_dir(run_folder.join("checkpoints")).expect("checkpoints").flatten().map(|entry| entry.path());
    let record = files(&dir.path().join("by-run/records"), ".nii.gz.hearth.json").remove(0);
    let record: Value = serde_json::from_slice(&fs::read(record).expect("a record")).expect("JSON");
    let best = best.into_iter().find(|path| path.ends_with(record["checkpoint"].as_str().expect("a name")));
    let weights = text(&best.expect("the checkpoint").join("network.safetensors"));
    let recipe = text(&run_folder.join("recipe.toml"));
    predict(&recipe, "by-recipe", &["--weights", &weights, "--probabilities"]);
    for path in files(&dir.path().join("by-run"), ".nii.gz") {
        let other = dir.path().join("by-recipe").join(path.file_name().expect("a name"));
        let [a, b] = [&path, &other].map(|path| read_nifti_values(path).expect("values").1);
        assert!(a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())), "{}", path.display());
    }
    let call = |words: &[&str], said: &[&str]| {
        fail(&[&["predict"], words, &["-i", "x.nii", "-o", &at("none"), "--device", "cpu"]].concat(), 1, said);
    };
    call(&[&recipe], &["is a recipe, which has no weights", "--weights"]);
    call(&[&run_text, "--weights", &weights], &["has weights of its own"]);
    call(&[&recipe, "--weights", &at("none.safetensors")], &["none.safetensors"]);
    call(&[&recipe, "--weights", &at("w.pth")], &["hearth convert"]);
    call(&["spleen", "--weights", &weights], &["do not fit the recipe"]);
    call(&[&recipe, "--weights", &weights, "--checkpoint", "best"], &["--checkpoint"]);

    // Damage is reported before anything else is read.
    fs::write(at("cut.hearth"), &before[..before.len() / 2]).expect("written");
    call(&[&at("cut.hearth")], &["cut.hearth is damaged or cut off"]);
    fs::write(at("text.hearth"), "no zip").expect("written");
    call(&[&at("text.hearth")], &["is no model package"]);
    for (words, said) in [
        (vec!["export", &run_text, &at("x.zip")], "output format is unknown"),
        (vec!["export", &run_text, &at("x.zip"), "--to", "hearth"], "ends with .hearth"),
        (vec!["export", &run_text, &at("x.hearth"), "--about", "nothing"], "KEY=VALUE"),
        (vec!["export", &run_text, &at("x.hearth"), "--codes", &at("LICENCE")], "LICENCE"),
        (vec!["export", &run_text, &at("x.hearth"), "--sign", &at("public.pem")], "is not a secret key"),
        (vec!["export", &at("store"), &at("x.hearth")], "is no model"),
        (vec!["export", &run_text, &at("x"), "--to", "nnunet", "--sign", "k"], "--sign is for packages"),
    ] {
        fail(&words, 1, &[said]);
    }
}

#[test]
fn lines_of_json_tell_of_each_image() {
    let dir = tempfile::tempdir().expect("a folder");
    let (run_folder, images) = trained(dir.path());
    fs::write(images.join("zz.nii.gz"), b"no image").expect("written");
    let list = dir.path().join("list.txt");
    fs::write(&list, "# one by name\ndata/imagesTr/zz.nii.gz\ndata/imagesTr/*_0[01].nii.gz\n").expect("written");
    let all = files(&images, ".nii.gz");
    let (model, out) = (text(&run_folder), dir.path().join("out"));
    let pattern = text(&images.join("*.nii.gz"));
    let words = ["predict", &model, "-i", &text(&list), &pattern, "-o", &text(&out), "--device", "cpu", "--json"];
    let output = run(&words);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("of each stage: reading"), "{}", errors(&output));
    let told = lines(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(told.len(), all.len(), "each once, though two arguments name it");
    for line in &told {
        let seconds = |stage: &str| line["seconds"][stage].as_f64().expect("seconds");
        assert!(seconds("read") >= 0.0 && seconds("write") >= 0.0, "{line}");
        if line["case"].as_str().is_some_and(|case| case.ends_with("zz.nii.gz")) {
            assert!(
                line["error"].as_str().is_some_and(|why| !why.is_empty()) && line["outputs"] == serde_json::json!({})
            );
            continue;
        }
        assert!(line["error"].is_null() && seconds("predict") > 0.0, "{line}");
        let labels = Path::new(line["outputs"]["labels"].as_str().expect("a path"));
        let (header, values) = read_nifti_values(labels).expect("labels");
        let of_voxel: f64 = header.pixdim[1..4].iter().product();
        let expected = values.iter().filter(|value| **value == 1.0).count() as f64 * of_voxel / 1000.0;
        let found = line["volumes_ml"]["spleen"].as_f64().expect("a volume");
        assert!((found - expected).abs() <= 1e-4 * expected.max(1.0), "{found} {expected}");
    }
    assert!(out.join("failed.csv").is_file());
    let again = run(&words);
    let told = lines(&String::from_utf8_lossy(&again.stdout));
    let skipped = told.iter().filter(|line| line["skipped"].is_string()).count();
    assert_eq!((told.len(), skipped), (all.len(), all.len() - 1));

    let nothing = ["predict", &model, "-i", &text(&images.join("*.mha")), "-o", &text(&out)];
    fail(&nothing, 1, &["matches no file or folder"]);
}

#[test]
fn a_model_of_nnunet_is_a_package_too() {
    let golden = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet").join(path);
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&dir.path().join(name));
    let model = golden("organs_legacy_nomirror/model");
    succeed(&["export", &text(&model), &at("organs.hearth"), "--about", "licence=CC0"]);
    let image = text(&golden("organs_legacy_nomirror/input/s01_0000.nii.gz"));
    // One file, through both commands.
    let one = ["predict", &text(&model), "-i", &image, "-o", &at("folder"), "--device", "cpu"];
    let told = lines(&succeed(&[&one[..], &["--json"]].concat()));
    assert!(told[0]["outputs"]["labels"].is_string() && told[0]["case"] == "s01", "{told:?}");
    succeed(&["predict", &at("organs.hearth"), "-i", &image, "-o", &at("package"), "--device", "cpu"]);
    same_results(&dir.path().join("folder"), &dir.path().join("package"));
    let added = crate::common::hearth()
        .env("HEARTH_MODELS", at("store"))
        .args(["models", "add", &at("organs.hearth")])
        .output();
    let added = added.expect("the program starts");
    assert!(
        added.status.success() && String::from_utf8_lossy(&added.stdout).contains("nnU-Net v2"),
        "{}",
        errors(&added)
    );
    assert!(dir.path().join("store/organs/plans.json").is_file());
}

#[test]
fn ensembles_and_bundles_are_packages_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, images) = trained(dir.path());
    let data = text(images.parent().expect("a data set"));
    let at = |name: &str| text(&dir.path().join(name));
    succeed(&["export", &text(&first), &at("one.hearth")]);
    succeed(&["export", &text(&first), &at("bundle"), "--to", "bundle"]);
    // `a` gets a code of another scheme, in place of the one found by its name.
    let label = lines(&succeed(&["predict", &at("one.hearth"), "-i", &text(&images), "-o", &at("x"), "--json"]))[0]
        ["volumes_ml"]
        .as_object()
        .and_then(|volumes| volumes.keys().next().cloned())
        .expect("a label");
    let code = |value: &str| format!("[\"{value}\", \"99MINE\", \"{value}\"]");
    let codes = format!("[\"{label}\"]\ncategory = {}\ntype = {}\n", code("c1"), code("t1"));
    fs::write(at("codes.toml"), codes).expect("written");
    let with = ["--with", &at("one.hearth"), "--codes", &at("codes.toml")];
    succeed(&[&["export", &text(&first), &at("both.hearth")], &with[..]].concat());
    succeed(&["export", &at("bundle"), &at("bundle.hearth"), "--codes", &at("codes.toml")]);
    let mut zip = zip::ZipWriter::new(fs::File::create(at("bundle.zip")).expect("a file"));
    for name in ["configs/metadata.json", "configs/inference.json", "models/model.pt"] {
        zip.start_file(format!("bundle/{name}"), zip::write::SimpleFileOptions::default()).expect("a member");
        zip.write_all(&fs::read(Path::new(&at("bundle")).join(name)).expect("read")).expect("written");
    }
    zip.finish().expect("a zip");
    succeed(&["export", &at("bundle.zip"), &at("zipped.hearth")]);
    for package in ["both.hearth", "bundle.hearth"] {
        let described = succeed(&["models", "info", &at(package), "--check"]);
        assert!(described.contains("99MINE t1"), "{package}: {described}");
        fail(&["export", &at(package), &at("again.hearth")], 1, &["is a package already"]);
    }
    fail(&["export", &text(&first), &at("m.hearth"), "--vote"], 1, &["merge runs", "--with"]);
    fail(&["export", &text(&first), &at("m"), "--to", "bundle", "--with", &at("one.hearth")], 1, &["--to hearth"]);

    // By name from a store, and by path; the measured values are those of the written files.
    let store = |words: &[&str]| {
        let done = crate::common::hearth().env("HEARTH_MODELS", at("store")).args(words).output().expect("it starts");
        assert!(done.status.success(), "{}", errors(&done));
    };
    for name in ["both", "bundle"] {
        let package = at(&format!("{name}.hearth"));
        store(&["models", "add", &package, "--name", name]);
        let (by_path, by_name) = (at(&format!("{name}-path")), at(&format!("{name}-name")));
        succeed(&["predict", &package, "-i", &text(&images), "-o", &by_path, "--device", "cpu"]);
        store(&["predict", name, "-i", &text(&images), "-o", &by_name, "--device", "cpu"]);
        same_results(Path::new(&by_path), Path::new(&by_name));
    }
    let dice = |model: &str| succeed(&["evaluate", model, "--data", &data, "--device", "cpu"]);
    assert_eq!(dice(&at("bundle")), dice(&at("bundle.hearth")));
    assert_eq!(dice(&at("bundle")), dice(&at("zipped.hearth")));
    assert!(dice(&at("both.hearth")).contains(&label));
    // A report in the way is found before the cases are predicted.
    let out = at("measured");
    let measure = ["evaluate", &at("bundle.hearth"), "--data", &data, "--device", "cpu", "-o", &out];
    succeed(&measure);
    let said = fail(&measure, 1, &["report.json exists", "--overwrite"]);
    assert!(!said.contains("labelled case"), "{said}");
    succeed(&[&measure[..], &["--overwrite"]].concat());
}

#[test]
fn a_package_that_is_cut_off_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, images) = trained(dir.path());
    let at = |name: &str| text(&dir.path().join(name));
    succeed(&["export", &text(&first), &at("one.hearth")]);
    succeed(&["export", &text(&first), &at("both.hearth"), "--with", &at("one.hearth")]);
    let bytes = fs::read(at("both.hearth")).expect("read");
    for cut in [bytes.len() / 2, bytes.len() - 10] {
        fs::write(at("cut.hearth"), &bytes[..cut]).expect("written");
        let words = ["predict", &at("cut.hearth"), "-i", &text(&images), "-o", &at("out"), "--device", "cpu"];
        fail(&words, 1, &["cut.hearth", "damaged"]);
    }
}
