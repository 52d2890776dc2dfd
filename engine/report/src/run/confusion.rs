//! The confusion matrix of the classes of whole images, or of voxels.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::files::{text, word};
use crate::error::ReportError;

/// A confusion matrix: how often each true class was predicted as each class.
#[derive(Clone, Debug, PartialEq)]
pub struct Confusion {
    /// The classes.
    pub labels: Vec<String>,
    /// `counts[truth][prediction]`.
    pub counts: Vec<Vec<u64>>,
    /// The number of images without a known class, or of a class that the run does not have.
    pub unknown: usize,
    /// The unit of the counts: `images`, `voxels`.
    pub unit: String,
}

impl Confusion {
    /// Reads `{ "labels": [...], "counts": [[...], ...], "unit": "voxels" }`.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let labels: Vec<String> = value["labels"].as_array()?.iter().filter_map(word).collect();
        let row = |row: &Value| row.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        let counts: Vec<Vec<u64>> = value["counts"].as_array()?.iter().map(row).collect::<Option<_>>()?;
        let square = counts.len() == labels.len() && counts.iter().all(|row| row.len() == labels.len());
        let unit = word(&value["unit"]).unwrap_or_else(|| "images".into());
        (square && !labels.is_empty()).then_some(Self { labels, counts, unknown: 0, unit })
    }

    /// Compares the rows of `scores.csv`, which `hearth predict` writes, with a table with the class of
    /// each image, by name or by number: its first column is the image or case, and `column` its class.
    pub(super) fn compare(scores: &Path, truth: &Path, column: &str) -> Result<Self, ReportError> {
        let advice = "give the scores.csv that `hearth predict` writes for a run that predicts one class of each image";
        let (head, rows) = csv_file(scores, advice)?;
        if head.get(1) != Some("class") {
            return Err(ReportError::damaged(scores, "has no column `class` after the image", advice));
        }
        let labels: Vec<String> = head.iter().skip(2).map(|label| hearth_files::csv_text(label).to_owned()).collect();
        let advice = format!("give a table whose first column is the image or case and which has a column `{column}`");
        let (truth_head, truth_rows) = csv_file(truth, &advice)?;
        let Some(place) = truth_head.iter().position(|name| name == column) else {
            return Err(ReportError::damaged(truth, format!("has no column `{column}`"), advice));
        };
        let class_of = |word: &str| {
            let number = || word.parse::<f64>().ok().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as usize);
            labels.iter().position(|label| label == word).or_else(number).filter(|class| *class < labels.len())
        };
        let known: HashMap<String, usize> =
            truth_rows.iter().filter_map(|row| Some((stem(row.get(0)?), class_of(row.get(place)?.trim())?))).collect();
        let mut counts = vec![vec![0; labels.len()]; labels.len()];
        let mut unknown = 0;
        for row in &rows {
            let predicted = row.get(1).map(hearth_files::csv_text).and_then(class_of);
            match (row.get(0).and_then(|image| known.get(&stem(image))), predicted) {
                (Some(truth), Some(predicted)) => counts[*truth][predicted] += 1,
                _ => unknown += 1,
            }
        }
        if unknown == rows.len() {
            let what = format!("names none of the {} images of {}", rows.len(), scores.display());
            return Err(ReportError::damaged(truth, what, advice));
        }
        Ok(Self { labels, counts, unknown, unit: "images".into() })
    }
}

/// A name without folders and without image suffixes.
fn stem(name: &str) -> String {
    let name = hearth_files::csv_text(name).trim().rsplit(['/', '\\']).next().unwrap_or(name);
    let ends = [
        ".nii.gz", ".nii", ".png", ".jpg", ".jpeg", ".dcm", ".npy", ".tif", ".tiff", ".bmp", ".mha", ".nrrd", ".mgz",
        ".mgh",
    ];
    let end = ends.iter().find(|end| name.to_ascii_lowercase().ends_with(**end));
    end.map_or(name, |end| &name[..name.len() - end.len()]).to_owned()
}

fn csv_file(path: &Path, advice: &str) -> Result<(csv::StringRecord, Vec<csv::StringRecord>), ReportError> {
    let missing = || ReportError::damaged(path, "does not exist", advice);
    let text = text(path)?.ok_or_else(missing)?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let unread = |error: csv::Error| ReportError::damaged(path, format!("is not a table ({error})"), advice);
    let head = reader.headers().map_err(unread)?.clone();
    let rows = reader.records().collect::<Result<Vec<_>, _>>().map_err(unread)?;
    Ok((head, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_counted_against_a_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("scores.csv"), "image,class,cat,dog\na,cat,0.9,0.1\nb,cat,0.6,0.4\nc,dog,0,1\nx,dog,0,1\n")
            .expect("scores");
        std::fs::write(at("truth.csv"), "image,label\nimages/a.png,cat\nimages/b.png,1\nc.nii.gz,dog\n")
            .expect("truth");
        let found = Confusion::compare(&at("scores.csv"), &at("truth.csv"), "label").expect("counted");
        assert_eq!(found.counts, [[1, 0], [1, 1]]);
        assert_eq!(found.unknown, 1);
        let error = Confusion::compare(&at("scores.csv"), &at("truth.csv"), "klass").expect_err("no such column");
        assert!(error.to_string().contains("no column `klass`"), "{error}");
    }

    #[test]
    fn a_matrix_that_is_not_square_is_none() {
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert!(Confusion::of(&value(r#"{"labels":["a","b"],"counts":[[1,2],[3]]}"#)).is_none());
        assert!(Confusion::of(&value(r#"{"labels":["a"],"counts":[[1]]}"#)).is_some());
        assert!(Confusion::of(&Value::Null).is_none());
    }
}
