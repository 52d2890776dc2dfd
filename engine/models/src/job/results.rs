//! The output of result lines, and the report of each case.

use std::path::Path;

use hearth_recipe::RecipeError;
use serde_json::{Map, Value, json};

use crate::cases::Case;
use crate::job::overlap::StageSeconds;
use crate::job::volumes::{UNLIKE, VOLUMES_ML};
use crate::model::{Card, ClassLabel, Uncertainty};

/// A receiver of result lines, which a program prints.
pub trait Results: Sync {
    /// Outputs a line of results.
    fn line(&self, text: &str);

    /// Called on each thread before it works: with several ranks in one process only the first one
    /// prints.
    fn begin_thread(&self, speaks: bool);

    /// Whether lines of this thread are printed.
    fn speaks(&self) -> bool;

    /// The lines of this thread that were not printed since the last call.
    fn unprinted(&self) -> Vec<String>;

    /// Keeps unprinted lines of another thread of this rank.
    fn keep(&self, lines: Vec<String>);
}

/// The report of a case: the names of its files, or everything as one line of JSON.
pub(crate) struct CaseReport<'a> {
    results: &'a dyn Results,
    json: bool,
    outputs: Map<String, Value>,
    facts: Map<String, Value>,
}

impl<'a> CaseReport<'a> {
    pub(crate) fn new(results: &'a dyn Results, json: bool) -> Self {
        Self { results, json, outputs: Map::new(), facts: Map::new() }
    }

    /// Whether the report is JSON with facts.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Reports a written file.
    pub(crate) fn file(&mut self, kind: &str, path: &Path) {
        if self.json {
            let path = json!(path.display().to_string());
            match self.outputs.get_mut(kind) {
                // Several files of a kind become a list.
                Some(Value::Array(known)) => known.push(path),
                Some(known) => *known = json!([known.clone(), path]),
                None => drop(self.outputs.insert(kind.to_owned(), path)),
            }
        } else {
            self.results.line(&path.display().to_string());
        }
    }

    /// Reports a written file of `--uncertainty`, with the volume of each label: as written, and over the
    /// predictions.
    pub(crate) fn uncertainty(&mut self, path: &Path, found: &Uncertainty, written: &[Volume<'_>]) {
        if self.json {
            self.file("uncertainty", path);
            self.facts.insert(VVC.to_owned(), json!(found.vvc));
            self.facts.insert(OF_PREDICTIONS.to_owned(), of_predictions(written, found));
            return;
        }
        let mut line = path.display().to_string();
        for (place, (label, _, volume)) in written.iter().enumerate() {
            let Some((mean, std)) = found.volume_ml(place) else { continue };
            let written = volume / 1000.0;
            if written == 0.0 && mean == 0.0 {
                continue;
            }
            let share = if mean > 0.0 { std / mean * 100.0 } else { 0.0 };
            let name = &label.name;
            line += &format!("  {name} {written:.1} ml, predictions {mean:.1} ml ± {std:.2} ml ({share:.1} %)");
        }
        if !written.is_empty() {
            line += &format!("  over {} predictions", found.volumes_ml.len());
        }
        self.results.line(&line);
    }

    /// Reports a fact about the prediction.
    pub(crate) fn fact(&mut self, name: &str, value: Value) {
        self.facts.insert(name.to_owned(), value);
    }

    /// Reports the millilitres of each label.
    pub(crate) fn volumes(&mut self, volumes: &[(&ClassLabel, usize, f64)]) {
        self.facts.insert(VOLUMES_ML.to_owned(), millilitres(volumes));
    }

    /// Reports the respects in which the image is unlike those of the training.
    pub(crate) fn unlike(&mut self, remarks: &[String]) {
        if !remarks.is_empty() {
            self.facts.insert(UNLIKE.to_owned(), json!(remarks));
        }
    }

    /// Reports a number for each label.
    pub(crate) fn scores(&mut self, card: &Card, scores: &[f32]) {
        if self.json {
            let named = card.labels.iter().zip(scores).map(|(label, score)| (label.name.clone(), json!(score)));
            self.facts.insert("scores".to_owned(), Value::Object(named.collect()));
        }
    }

    /// Reports that the case is finished or has failed.
    pub(crate) fn end(self, case: &Case, spent: StageSeconds, failure: Option<&RecipeError>) {
        if !self.json {
            return;
        }
        let mut line = Map::from_iter([("case".to_owned(), json!(case.name())), ("input".to_owned(), files_of(case))]);
        line.insert("outputs".to_owned(), Value::Object(self.outputs));
        line.insert("seconds".to_owned(), json!(spent));
        line.extend(self.facts);
        line.insert("error".to_owned(), json!(failure.map(RecipeError::line)));
        self.results.line(&Value::Object(line).to_string());
    }
}

/// The keys of `--uncertainty` in records and lines of JSON.
pub(crate) const VVC: &str = "volume_variation_coefficient";
pub(crate) const OF_PREDICTIONS: &str = "volumes_ml_of_predictions";

/// A label with its number of voxels and its volume in mm³.
type Volume<'a> = (&'a ClassLabel, usize, f64);

/// The millilitres of each label by its name: as written, in each prediction, and their mean and standard
/// deviation.
pub(crate) fn of_predictions(written: &[Volume<'_>], found: &Uncertainty) -> Value {
    let of = |(place, (label, _, volume)): (usize, &Volume<'_>)| {
        let (mean, std) = found.volume_ml(place)?;
        let each: Vec<f64> = found.volumes_ml.iter().filter_map(|all| all.get(place).copied()).collect();
        let facts = json!({ "written": volume / 1000.0, "mean": mean, "std": std, "predictions": each });
        Some((label.name.clone(), facts))
    };
    Value::Object(written.iter().enumerate().filter_map(of).collect())
}

/// The millilitres of each label by its name.
pub(crate) fn millilitres(volumes: &[(&ClassLabel, usize, f64)]) -> Value {
    let each = volumes.iter().map(|(label, _, volume)| (label.name.clone(), json!(volume / 1000.0)));
    Value::Object(each.collect())
}

/// Reports a case that an earlier call finished.
pub(crate) fn skipped(results: &dyn Results, case: &Case, outputs: &[&Path]) {
    let outputs: Vec<String> = outputs.iter().map(|path| path.display().to_string()).collect();
    let line = json!({
        "case": case.name(), "input": files_of(case), "outputs": outputs, "skipped": "done by an earlier call",
        "error": null,
    });
    results.line(&line.to_string());
}

/// One file, or a list of several.
fn files_of(case: &Case) -> Value {
    let files: Vec<String> = case.files().map(|file| file.display().to_string()).collect();
    match &files[..] {
        [one] => json!(one),
        _ => json!(files),
    }
}
