//! One recorded prediction: the input of the network, its outputs, the labels and their file.

mod faults;
mod preprocessed;
mod properties;
mod total;

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::{Image, read_image};
use hearth_models::nnunet::{Folds, NnunetOptions, NnunetPredictor};
use hearth_nnunet::Volume;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// Folders with a `case.json` of a prediction, sorted.
pub fn case_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    let case = fs::read_to_string(folder.join("case.json")).ok().and_then(|text| serde_json::from_str(&text).ok());
    if case.is_some_and(|case: Value| case.get("images").is_some()) {
        found.push(folder.to_owned());
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    below.iter().for_each(|folder| case_folders(folder, found));
}

/// The values of a recorded array, as f32; `None` where it is not recorded.
fn recorded(path: &Path, key: &str) -> Option<(Vec<usize>, Vec<f32>)> {
    let bytes = fs::read(path).ok()?;
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let view = file.tensor(key).expect("the array");
    let values = match view.dtype() {
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => view.data().as_chunks::<2>().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
        other => panic!("{other:?} is not recorded"),
    };
    Some((view.shape().to_vec(), values))
}

fn shape<T>(volume: &Volume<T>) -> Vec<usize> {
    [volume.channels].into_iter().chain(volume.shape).collect()
}

/// Replays a case; the error describes the differences.
pub fn replay(folder: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(folder.join("case.json")).map_err(|error| error.to_string())?;
    let case: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let model = folder.join(case["model"].as_str().unwrap_or("model"));
    let input = [folder.join("input"), folder.join("../input")].into_iter().find(|path| path.is_dir());
    let input = input.ok_or("there is no input")?;
    let previous = case["previous_stage_labels"].as_str().map(|path| folder.join(path));
    let folds = case["folds"].as_array().map_or(&[][..], Vec::as_slice).iter().map(ToString::to_string).collect();
    let base = NnunetOptions {
        folds: Folds::These(folds),
        checkpoint: case["checkpoint"].as_str().unwrap_or("checkpoint_final.pth").to_owned(),
        step_size: case["tile_step_size"].as_f64().unwrap_or(0.5),
        ..NnunetOptions::default()
    };
    let mut lines = Vec::new();
    let runs = case["runs"].as_object().ok_or("no runs")?;
    let both = runs.values().any(|run| run.get("no_mirroring").is_some() && run.get("mirroring").is_some());
    for mirroring in [true, false].into_iter().filter(|mirroring| *mirroring || both) {
        // The networks of one run are kept, and those of the other are read again, as for many folds.
        let kept = if mirroring { 0 } else { base.kept };
        let options = NnunetOptions { mirroring, kept, ..base.clone() };
        let predictor = NnunetPredictor::open(&model, &options).map_err(|error| error.line())?;
        if let Some(configuration) = case["configuration"].as_str()
            && predictor.configuration.name != configuration
        {
            return Err(format!("the configuration is {}", predictor.configuration.name));
        }
        for case in predictor.cases(&input).map_err(|error| error.line())? {
            let end = if mirroring { "" } else { "_nomirror" };
            let line = compare(&predictor, &case, previous.as_deref(), &folder.join("expected"), end);
            lines.push(line.map_err(|why| format!("{}{end}: {why}", case.name))?);
        }
    }
    Ok(lines)
}

fn compare(
    predictor: &NnunetPredictor,
    case: &hearth_nnunet::Case,
    previous: Option<&Path>,
    expected: &Path,
    end: &str,
) -> Result<String, String> {
    let name = &case.name;
    let fail = |error: hearth_recipe::RecipeError| error.line();
    let prepared = predictor.prepare(case, previous).map_err(fail)?;
    let mut line = String::new();
    if let Some((size, values)) = recorded(&expected.join(format!("{name}_preprocessed.safetensors")), "preprocessed") {
        if shape(&prepared.data) != size {
            return Err(format!("preprocessed: {:?}, expected {size:?}", shape(&prepared.data)));
        }
        let pairs = prepared.data.data.iter().zip(&values);
        let off = |(a, b): &(&f32, &f32)| (**a - **b).abs() > 2e-5 + 2e-5 * b.abs();
        let wrong = pairs.clone().filter(off).count();
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if wrong > 0 {
            return Err(format!("preprocessed: {wrong} of {} differ, by {worst}", values.len()));
        }
        line += &format!("preprocessed within {worst:.1e}, ");
    }
    let logits = predictor.logits(&prepared.data).map_err(fail)?;
    if let Some((size, values)) = recorded(&expected.join(format!("{name}_logits{end}.safetensors")), "logits") {
        if shape(&logits) != size {
            return Err(format!("logits: {:?}, expected {size:?}", shape(&logits)));
        }
        let pairs = logits.data.iter().map(|value| value.to_f32()).zip(values.iter().copied());
        let other: Vec<(f32, f32)> = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).collect();
        let far = other.iter().filter(|(a, b)| !((a - b).abs() <= 0.015_625 * b.abs().max(1.0))).count();
        if other.len() * 100 > values.len() || far > 5 {
            return Err(format!("logits: {} of {} differ, {far} by much", other.len(), values.len()));
        }
        line += &format!("{} of {} logits differ, ", other.len(), values.len());
    }
    let ending = &predictor.folder.dataset.file_ending;
    let found = predictor.export(&logits, prepared.origin, prepared.grid, false).map_err(fail)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join(format!("{name}{ending}"));
    found.write(&path).map_err(fail)?;
    let read = |path: &Path| read_image(path).map_err(|error| error.to_string());
    let ours = read(&path)?;
    let theirs = read(&expected.join(format!("{name}{end}{ending}")))?;
    let ambiguous = read(&expected.join(format!("{name}{end}_ambiguous{ending}")))?;
    line += &labels(&ours, &theirs, &ambiguous)?;
    let probabilities = recorded(&expected.join(format!("{name}_probabilities.safetensors")), "probabilities");
    if let Some((size, values)) = probabilities.filter(|_| end.is_empty()) {
        line += &compare_probabilities(predictor, case, previous, &size, &values)?;
    }
    Ok(line)
}

fn labels(ours: &Image, theirs: &Image, ambiguous: &Image) -> Result<String, String> {
    let facts = |image: &Image| (image.shape(), image.meta.stored_type.clone());
    if facts(ours) != facts(theirs) {
        return Err(format!("the file has {:?}, expected {:?}", facts(ours), facts(theirs)));
    }
    let affines = ours.affine.iter().flatten().zip(theirs.affine.iter().flatten());
    if affines.into_iter().any(|(a, b)| (a - b).abs() > 1e-5) {
        return Err(format!("the affine is {:?}, expected {:?}", ours.affine, theirs.affine));
    }
    let all = ours.to_vec().into_iter().zip(theirs.to_vec()).zip(ambiguous.to_vec());
    let (mut wrong, mut close) = (0_usize, 0_usize);
    for (_, ambiguous) in all.filter(|((ours, theirs), _)| ours != theirs) {
        if ambiguous == 0.0 { wrong += 1 } else { close += 1 }
    }
    if wrong > 0 || close > 5 {
        return Err(format!("{wrong} labels differ, and {close} where it is close"));
    }
    Ok(format!("{close} labels differ"))
}

fn compare_probabilities(
    predictor: &NnunetPredictor,
    case: &hearth_nnunet::Case,
    previous: Option<&Path>,
    size: &[usize],
    values: &[f32],
) -> Result<String, String> {
    let found = predictor.predict_with(case, previous, true).map_err(|error| error.line())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("a.npz");
    found.write_probabilities(&path).map_err(|error| error.line())?;
    let read = hearth_nnunet::probabilities::read(&path).map_err(|error| error.to_string())?;
    if shape(&read) != size {
        return Err(format!("probabilities: {:?}, expected {size:?}", shape(&read)));
    }
    // They are recorded in half precision.
    let worst = read.data.iter().zip(values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    if worst > 4e-3 {
        return Err(format!("probabilities differ by {worst}"));
    }
    Ok(format!(", probabilities within {worst:.1e}"))
}

/// Reads a JSON file written by Python.
pub fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    hearth_nnunet::parse_json(&text).expect("JSON")
}

/// Builds a raw data set from the files of a recorded one.
pub fn raw_dataset(recorded: &Path, data: &Path, to: &Path) {
    let case = json(&recorded.join("case.json"));
    let copy = |from: &str, to: PathBuf| {
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(data.join(from), to).unwrap_or_else(|error| panic!("{from}: {error}"));
    };
    fs::copy(recorded.join("dataset.json"), to.join("dataset.json")).expect("a copy");
    for (name, files) in case["sources"].as_object().expect("cases") {
        for (channel, image) in files["images"].as_array().expect("images").iter().enumerate() {
            let image = image.as_str().expect("a path");
            copy(image, to.join(format!("imagesTr/{name}_{channel:04}.nii.gz")));
        }
        copy(files["label"].as_str().expect("a path"), to.join(format!("labelsTr/{name}.nii.gz")));
    }
}
