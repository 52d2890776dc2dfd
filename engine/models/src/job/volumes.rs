//! `volumes.csv`: the volume of each label in each image of a job, from the records of its results.

use std::path::Path;

use hearth_recipe::{Outcome, notice};
use hearth_run::outputs::{Outputs, is_whole, record_of};
use serde_json::Value;

use crate::job::failed::row;
use crate::job::in_the_way::in_the_way;
use crate::job::tasks::NamedResult;
use crate::model::Card;

/// The name of the table.
pub(crate) const VOLUMES: &str = "volumes.csv";

/// The key of a record with the millilitres of each label.
pub(crate) const VOLUMES_ML: &str = "volumes_ml";

/// The key of a record with program, model and weights.
pub(crate) const MADE_BY: &str = "made_by";

/// The key of a record with the respects in which an image is unlike those of the training.
pub(crate) const UNLIKE: &str = "unlike_training";

/// The keys of a record that identify a DICOM series.
pub(crate) const IDENTIFIERS: [&str; 3] = ["patient", "study", "series"];

/// The most images and labels that are shown besides the file.
const SHOWN: (usize, usize) = (20, 6);

/// Writes the table of all results of a job, also of those that an earlier call made; `shows` it as far as
/// it is small. A file of another program stays, and so does a table that was changed.
pub(crate) fn write_volumes(
    out: &Path,
    command: &str,
    outputs: &Outputs,
    card: &Card,
    results: &[NamedResult],
    shows: bool,
) -> Outcome {
    let path = out.join(VOLUMES);
    if let Some(why) = in_the_way(&path, command)? {
        notice!("{} {why}: volumes are not listed there", path.display());
        return Ok(());
    }
    let whole = results.iter().filter(|(_, path)| is_whole(path, command));
    let rows: Vec<(&str, Value)> = whole.filter_map(|(name, path)| Some((name.as_str(), record_of(path)?))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    outputs.write(&path, table(card, &rows))?;
    if shows {
        notice!("{} has the volumes of all labels{}", path.display(), shown(card, &rows));
    }
    Ok(())
}

/// A row for each image, and a column for each label.
fn table(card: &Card, rows: &[(&str, Value)]) -> String {
    let first = std::iter::once("image").chain(IDENTIFIERS).map(str::to_owned);
    let labels = card.labels.iter().map(|label| format!("{}_ml", label.name));
    let mut text = row(first.chain(labels).chain(["model".to_owned(), UNLIKE.to_owned()]));
    for (name, record) in rows {
        let said = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let volumes = card.labels.iter().map(|label| volume(record, &label.name).unwrap_or_default());
        let remarks: Vec<&str> = record[UNLIKE].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let cells = std::iter::once((*name).to_owned()).chain(IDENTIFIERS.map(said)).chain(volumes);
        text += &row(cells.chain([said(MADE_BY), remarks.join("; ")]));
    }
    text
}

fn volume(record: &Value, label: &str) -> Option<String> {
    Some(format!("{:.3}", record[VOLUMES_ML][label].as_f64()?))
}

/// The table in columns, if it is small enough to be read.
fn shown(card: &Card, rows: &[(&str, Value)]) -> String {
    let (most_rows, most_labels) = SHOWN;
    if card.labels.len() > most_labels {
        return String::new();
    }
    let names: Vec<&str> = card.labels.iter().map(|label| label.name.as_str()).collect();
    let first = rows.iter().take(most_rows).map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(5);
    let mut text = format!(":\n  {:<first$}", "image");
    for name in &names {
        text += &format!("  {:>width$}", format!("{name} (ml)"), width = (name.chars().count() + 5).max(10));
    }
    for (name, record) in rows.iter().take(most_rows) {
        text += &format!("\n  {name:<first$}");
        for label in &names {
            let value = volume(record, label).unwrap_or_else(|| "-".to_owned());
            text += &format!("  {value:>width$}", width = (label.chars().count() + 5).max(10));
        }
        if !record[UNLIKE].is_null() {
            text += "  unlike the training data";
        }
    }
    if rows.len() > most_rows {
        text += &format!("\n  and {} more", rows.len() - most_rows);
    }
    text
}
