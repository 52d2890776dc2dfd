//! What `hearth predict` says of its images: files or lines of JSON, the table of scores, the list of
//! those that failed.

use std::path::{Path, PathBuf};

use hearth_train::Floats;
use serde_json::{Map, Value, json};

use crate::error::{Failure, Outcome};
use crate::recipe::Recipe;
use crate::run::StageSeconds;
use crate::run::inputs::Input;
use crate::run::outputs::{Outputs, remove_result, written_by};
use crate::table::csv;
use crate::{note, out};

/// What is said of an image on standard output: the names of its files, or all of it as a line of JSON.
pub(super) struct Said {
    json: bool,
    outputs: Map<String, Value>,
    facts: Map<String, Value>,
}

impl Said {
    pub(super) fn new(json: bool) -> Self {
        Self { json, outputs: Map::new(), facts: Map::new() }
    }

    /// A file was written.
    pub(super) fn file(&mut self, kind: &str, path: &Path) {
        if self.json {
            self.outputs.insert(kind.to_owned(), json!(path.display().to_string()));
        } else {
            out!("{}", path.display());
        }
    }

    /// A file of `--uncertainty` was.
    pub(super) fn deviation(&mut self, path: &Path, vvc: f64) {
        if self.json {
            self.file("uncertainty", path);
            self.facts.insert("volume_variation_coefficient".to_owned(), json!(vvc));
        } else {
            out!("{}  volume variation coefficient {vvc:.4}", path.display());
        }
    }

    /// Volumes are counted if somebody wants to know.
    pub(super) fn volumes(&mut self, volumes: impl FnOnce() -> Vec<(String, f64)>) {
        if self.json {
            let volumes: Map<String, Value> = volumes().into_iter().map(|(name, ml)| (name, json!(ml))).collect();
            self.facts.insert("volumes_ml".to_owned(), Value::Object(volumes));
        }
    }

    /// A number for each label.
    pub(super) fn scores(&mut self, labels: &[String], scores: &[f32]) {
        if self.json {
            let named = labels.iter().zip(scores).map(|(label, score)| (label.clone(), json!(score)));
            self.facts.insert("scores".to_owned(), Value::Object(named.collect()));
        }
    }

    /// The image is done, or failed.
    pub(super) fn end(self, input: &Input, spent: StageSeconds, failure: Option<&Failure>) {
        self.end_of(&input.name(), as_json(input.files()), json!(spent), failure);
    }

    /// The same of a case of a model of nnU-Net.
    pub(super) fn end_of(self, name: &str, input: Value, spent: Value, failure: Option<&Failure>) {
        let mut line = Map::from_iter([("case".to_owned(), json!(name)), ("input".to_owned(), input)]);
        line.insert("outputs".to_owned(), Value::Object(self.outputs));
        line.insert("seconds".to_owned(), spent);
        line.extend(self.facts);
        line.insert("error".to_owned(), json!(failure.map(Failure::line)));
        if self.json {
            out!("{}", Value::Object(line));
        }
    }
}

/// A line for an image that an earlier call did.
pub(super) fn skipped(name: &str, input: Value, outputs: &[&PathBuf]) {
    let outputs: Vec<String> = outputs.iter().map(|path| path.display().to_string()).collect();
    let line = json!({
        "case": name, "input": input, "outputs": outputs, "skipped": "done by an earlier call", "error": null,
    });
    out!("{line}");
}

/// One file, or a list of several.
pub(super) fn as_json<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Value {
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    match &files[..] {
        [one] => json!(one),
        _ => json!(files),
    }
}

/// The list of the images that failed.
pub(super) const FAILED: &str = "failed.csv";

/// Lists all images that failed, and why, for whoever mends them and calls again; without any, the
/// list of an earlier call goes. A file that something else wrote stays.
pub(super) fn list_failed(out: &Path, command: &str, outputs: &Outputs, failed: &[(usize, String, String)]) -> Outcome {
    let path = out.join(FAILED);
    let theirs = path.symlink_metadata().is_ok() && !written_by(&path, command);
    if theirs {
        if !failed.is_empty() {
            note!("{} is not this program's: the images that failed are not listed there", path.display());
        }
        return Ok(());
    }
    if failed.is_empty() {
        return Ok(remove_result(&path)?);
    }
    let line = |why: &str| why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let rows = failed.iter().map(|(_, name, why)| csv([name.clone(), line(why)]) + "\n");
    outputs.write(&path, "image,why\n".to_owned() + &rows.collect::<String>())?;
    note!("{} lists the images that failed", path.display());
    Ok(())
}

/// The scores of all images: a row for each, a column for each label, and the likeliest class where
/// one wins.
pub(super) fn table<'a>(recipe: &Recipe, rows: impl Iterator<Item = &'a (String, Floats)>) -> String {
    let wins = recipe.learns().names_a_winner();
    let mut columns = vec!["image".to_owned()];
    columns.extend(wins.then(|| "class".to_owned()));
    columns.extend(recipe.labels.iter().cloned());
    let mut text = csv(columns) + "\n";
    for (image, Floats(scores)) in rows {
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index);
        let class = best.filter(|_| wins).and_then(|index| recipe.labels.get(index));
        let values = std::iter::once(image.clone()).chain(class.cloned()).chain(scores.iter().map(f32::to_string));
        text += &(csv(values) + "\n");
    }
    text
}
