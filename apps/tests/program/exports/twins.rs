//! Exported bundles of each kind: MONAI's results are recorded, and compared with `hearth predict` and
//! `hearth bundle run`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_data::{Image, read_image};
use hearth_models::export::{BundleWeights, bundle_of};
use hearth_nn::weights;
use hearth_recipe::recipe::{Document, Recipe};
use serde_json::{Value, json};

use super::kinds::{Gives, KINDS, Kind};
use crate::common::{succeed, text};

/// A bundle, its recipe and weights, and images.
struct Made {
    folder: tempfile::TempDir,
    bundle: PathBuf,
    images: PathBuf,
    recipe: PathBuf,
    weights: PathBuf,
}

fn make(kind: &Kind) -> Made {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (recipe, weights, bundle, images) = (at("recipe.toml"), at("weights.safetensors"), at("bundle"), at("images"));
    fs::write(&recipe, kind.recipe()).expect("written");
    let document = Document::open(&recipe).expect("a recipe");
    let read = Recipe::read(&document).unwrap_or_else(|fault| panic!("{}: {fault}", kind.name));
    let network = read.network.init(&Device::default(), kind.seed()).expect("a network");
    let bytes = weights::to_bytes(&network).expect("weights");
    fs::write(&weights, &bytes).expect("written");
    let of = BundleWeights { checkpoint: "made", safetensors: &bytes, fingerprint: None };
    bundle_of(&document, of, &bundle, None).unwrap_or_else(|error| panic!("{}: {}", kind.name, error.line()));
    kind.write_images(&images);
    Made { folder, bundle, images, recipe, weights }
}

fn recorded(kind: &Kind) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/exports").join(kind.name)
}

fn inference(bundle: &Path) -> Value {
    super::json_of(&bundle.join("configs/inference.json"))
}

/// The results in a folder, by name.
fn results(kind: &Kind, folder: &Path) -> BTreeMap<String, PathBuf> {
    let end = match kind.gives {
        Gives::Labels => "_seg.nii.gz",
        Gives::Images => "_pred.nii.gz",
        Gives::Scores => "scores.csv",
        Gives::Maps => ".npy",
        Gives::Pictures => ".png",
    };
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let named = paths.filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), path)));
    named.filter(|(name, _)| name.ends_with(end)).collect()
}

/// Rows of a table of scores: the file's name, the class if the table has it, the numbers.
fn rows(path: &Path) -> Vec<(String, Option<String>, Vec<f64>)> {
    let text = fs::read_to_string(path).expect("a table");
    let (mut rows, mut named) = (Vec::new(), false);
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[0] == "image" {
            named = cells.get(1) == Some(&"class");
            continue;
        }
        let first = 1 + usize::from(named);
        let file = cells[0].rsplit('/').next().unwrap_or_default().to_owned();
        let numbers = cells[first..].iter().map(|cell| cell.parse().expect("a number")).collect();
        rows.push((file, named.then(|| cells[1].to_owned()), numbers));
    }
    rows
}

fn largest(numbers: &[f64]) -> usize {
    (0..numbers.len()).max_by(|a, b| numbers[*a].total_cmp(&numbers[*b])).unwrap_or_default()
}

/// Compares results with those of MONAI.
fn compare(kind: &Kind, ours: &Path, monai: &Path) -> Result<(), String> {
    let (found, expected) = (results(kind, ours), results(kind, monai));
    let names = |files: &BTreeMap<String, PathBuf>| files.keys().cloned().collect::<Vec<_>>();
    if names(&found) != names(&expected) || found.is_empty() {
        return Err(format!("{}: the files are {:?}; MONAI's {:?}", kind.name, names(&found), names(&expected)));
    }
    for (name, path) in &found {
        let wrong = match kind.gives {
            Gives::Scores => scores(path, &expected[name]),
            _ => voxels(kind.gives, &read(path), &read(&expected[name])),
        };
        wrong.map_err(|what| format!("{}: {name}: {what}", kind.name))?;
    }
    Ok(())
}

fn read(path: &Path) -> Image {
    read_image(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn scores(ours: &Path, monai: &Path) -> Result<(), String> {
    let (mut ours, mut monai) = (rows(ours), rows(monai));
    ours.sort_by(|a, b| a.0.cmp(&b.0));
    monai.sort_by(|a, b| a.0.cmp(&b.0));
    if ours.len() != monai.len() || ours.is_empty() {
        return Err(format!("{} rows; MONAI's table has {}", ours.len(), monai.len()));
    }
    let labels = ["dark", "middle", "bright"];
    for ((file, class, numbers), (other, _, expected)) in ours.iter().zip(&monai) {
        let close = numbers.len() == expected.len() && numbers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-4);
        if file != other || !close {
            return Err(format!("{file} {numbers:?}; MONAI says {other} {expected:?}"));
        }
        if class.as_deref().is_some_and(|class| class != labels[largest(expected)]) {
            return Err(format!("{file} is {class:?}; MONAI's numbers are {expected:?}"));
        }
    }
    Ok(())
}

fn voxels(gives: Gives, ours: &Image, monai: &Image) -> Result<(), String> {
    if (ours.channels(), ours.shape()) != (monai.channels(), monai.shape()) {
        let size = |image: &Image| format!("{} x {:?}", image.channels(), image.shape());
        return Err(format!("{}; MONAI's has {}", size(ours), size(monai)));
    }
    let near = ours.affine.iter().flatten().zip(monai.affine.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-4);
    if !near {
        return Err(format!("the affine is {:?}; MONAI's {:?}", ours.affine, monai.affine));
    }
    let (ours, monai) = (ours.to_vec(), monai.to_vec());
    let pairs = || ours.iter().zip(&monai);
    if gives == Gives::Labels {
        let same = pairs().filter(|(a, b)| a == b).count();
        let part = same as f64 / ours.len() as f64;
        return if part > 0.9995 { Ok(()) } else { Err(format!("{same} of {} labels are MONAI's", ours.len())) };
    }
    let most = monai.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let apart = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // A grey value may be rounded to the other side of a whole number.
    let allowed = if gives == Gives::Pictures { 1.0 } else { 5e-4 * most };
    if apart <= allowed { Ok(()) } else { Err(format!("{apart} apart, of {most}")) }
}

/// Checks that results can distinguish networks: each label has some voxels, and numbers differ.
fn check_variety(kind: &Kind, folder: &Path) {
    for (name, path) in results(kind, folder) {
        if kind.gives == Gives::Scores {
            let rows = rows(&path);
            assert!(rows.windows(2).all(|pair| pair[0].2 != pair[1].2), "{}: {rows:?}", kind.name);
            continue;
        }
        let values = read(&path).to_vec();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        values.iter().for_each(|value| *counts.entry(value.to_bits()).or_default() += 1);
        // The second most common label: not all voxels have the same.
        let mut common: Vec<usize> = counts.values().copied().collect();
        common.sort_unstable();
        let second = common.len().checked_sub(2).map_or(0, |place| common[place]);
        let enough = kind.gives != Gives::Labels || second * 200 > values.len();
        assert!(counts.len() > 1 && enough, "{}: {name} has {} values: {counts:?}", kind.name, counts.len());
    }
}

/// The results of `hearth predict` with the recipe and its weights.
fn predicted(kind: &Kind, made: &Made) -> Option<PathBuf> {
    if kind.gives == Gives::Pictures {
        // It draws other random numbers.
        return None;
    }
    let out = made.folder.path().join("predicted");
    let (recipe, weights, images, to) = (text(&made.recipe), text(&made.weights), text(&made.images), text(&out));
    succeed(&["predict", &recipe, "--weights", &weights, "-i", &images, "-o", &to, "--device", "cpu"]);
    Some(out)
}

fn replay(kind: &Kind) {
    let (made, monai) = (make(kind), recorded(kind));
    let how = crate::clients::how_to_record("hearth-apps");
    let known = super::json_of(&monai.join("inference.json"));
    assert_eq!(inference(&made.bundle), known, "{}: another bundle is written now. {how}", kind.name);
    if let Some(predicted) = predicted(kind, &made) {
        compare(kind, &predicted, &monai).unwrap_or_else(|wrong| panic!("hearth predict: {wrong}"));
    }
    let (bundle, out) = (text(&made.bundle), made.folder.path().join("run"));
    let (images, to) = (text(&made.images), text(&out));
    let mut words = vec!["bundle", "run", &bundle, "--output_dir", &to, "--device", "cpu"];
    if kind.gives != Gives::Pictures {
        words.extend(["--dataset_dir", &images]);
    }
    kind.overrides.iter().for_each(|(id, value)| words.extend([*id, *value]));
    succeed(&words);
    compare(kind, &out, &monai).unwrap_or_else(|wrong| panic!("hearth bundle run: {wrong}"));
}

#[test]
fn bundles_of_each_kind_do_what_monai_did() {
    // The others have records, too, and are compared if MONAI itself is installed.
    let replayed = ["labels", "regions", "channels", "slices"];
    let known: Vec<&Kind> = KINDS.iter().filter(|kind| replayed.contains(&kind.name)).collect();
    assert_eq!(known.len(), replayed.len());
    known.into_iter().for_each(replay);
}

#[test]
fn live_monai_runs_bundles_of_each_kind() {
    let modules = &["monai", "ignite", "nibabel", "torch", "skimage", "PIL", "openslide"];
    let Some(python) = crate::clients::find(modules, "bundles_of_each_kind_do_what_monai_did") else { return };
    let mut wrong = Vec::new();
    for kind in KINDS {
        let made = make(kind);
        let out = made.folder.path().join("monai");
        let mut arguments =
            json!({ "config_file": "configs/inference.json", "bundle_root": ".", "output_dir": text(&out) });
        if kind.gives != Gives::Pictures {
            arguments["dataset_dir"] = json!(text(&made.images));
        }
        for (id, value) in kind.overrides {
            arguments[id.trim_start_matches("--")] = json!(value);
        }
        // The calls of `python -m monai.bundle run`.
        let code = "import json, sys; from monai.bundle import run; run(**json.loads(sys.argv[1]))";
        let mut command = python.command();
        command.args(["-c", code, &arguments.to_string()]).current_dir(&made.bundle);
        let output = command.env("OMP_NUM_THREADS", "1").output().expect("started");
        if !output.status.success() {
            wrong.push(format!("{}: {}", kind.name, String::from_utf8_lossy(&output.stderr)));
            continue;
        }
        check_variety(kind, &out);
        if let Some(predicted) = predicted(kind, &made)
            && let Err(what) = compare(kind, &predicted, &out)
        {
            wrong.push(what);
        }
        if crate::clients::recording() {
            record(kind, &made, &out, &python.versions());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes MONAI's results, without what differs between machines.
fn record(kind: &Kind, made: &Made, out: &Path, versions: &str) {
    let to = recorded(kind);
    fs::create_dir_all(&to).expect("made");
    let config = serde_json::to_string_pretty(&inference(&made.bundle)).expect("JSON");
    fs::write(to.join("inference.json"), config + "\n").expect("written");
    fs::write(to.join("made_with.txt"), format!("{versions}\n")).expect("written");
    for (name, path) in results(kind, out) {
        if kind.gives != Gives::Scores {
            fs::copy(&path, to.join(name)).expect("copied");
            continue;
        }
        let text: Vec<String> = rows(&path)
            .into_iter()
            .map(|(file, _, numbers)| {
                let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
                format!("{file},{}\n", numbers.join(","))
            })
            .collect();
        fs::write(to.join(name), text.concat()).expect("written");
    }
}
