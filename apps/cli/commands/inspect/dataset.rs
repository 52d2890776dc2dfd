//! `hearth data inspect` of a folder of images, and of a data set.

use std::path::Path;

use hearth_data::DataError;
use hearth_data::layouts::{self, Layout, Target, Wants};
use hearth_data::quality::{self, Inspection};
use hearth_data::readers;
use hearth_registry::counted;
use serde_json::json;

use super::facts::{Facts, Hide};
use super::image;
use super::{Args, Seen};
use crate::error::{Failure, Outcome};
use crate::note;
use crate::table::{self, Lean};

/// Whether a folder has images below it, and all of them are DICOM.
pub fn is_all_dicom(path: &Path) -> bool {
    let is_dicom = |path: &Path| readers::choose(path).is_ok_and(|reader| reader.name() == "DicomReader");
    path.is_dir()
        && quality::cases_below(path)
            .is_ok_and(|cases| !cases.is_empty() && cases.iter().all(|(_, image)| is_dicom(image)))
}

/// The facts of a list of cases.
pub fn list(path: &Path, layout: &dyn Layout, hide: &Hide) -> Outcome<Seen> {
    let mut facts = Facts::new(hide.name(), &format!("a data set ({})", name_of(layout)));
    let mut seen = Seen::new(Vec::new());
    describe(&mut facts, path, layout, hide).map_err(|error| Failure::new(error.to_string()))?;
    seen.all = 1;
    seen.facts.push(facts);
    Ok(seen)
}

/// A line for each image of a folder, below what the folder is as a data set.
pub fn folder(dir: &Path, args: &Args, hide: &Hide) -> Outcome<Seen> {
    let mut options = hearth_data::ReadOptions::default();
    options.accept.clone_from(&args.accept);
    let files = quality::inspect_folder_with(dir, &options)?;
    if files.is_empty() {
        return Err(Failure::new(format!("{} holds no image that a reader knows", dir.display())));
    }
    let mut seen = Seen::new(Vec::new());
    (seen.all, seen.several) = (files.len(), true);
    if let Some(layout) = layouts::recognize_list(dir) {
        let mut facts = Facts::new(hide.name(), &format!("a data set ({})", name_of(&*layout)));
        if let Err(why) = describe(&mut facts, dir, &*layout, hide) {
            facts.end(format!("error: {}", hide.text(&why.to_string())));
        }
        seen.facts.push(facts);
    }
    let has_head = !seen.facts.is_empty();
    let mut rows = Vec::new();
    for (file, found) in &files {
        let mut facts = Facts::new(hide.inside(file), "an image");
        match found {
            Ok(found) => {
                rows.push(row(&hide.inside(file), found));
                facts.values(image::json_of(found, hide));
            }
            Err(error) => {
                seen.broken += 1;
                note!("{error}");
                facts.value("error", hide.text(&error.why()));
            }
        }
        seen.facts.push(facts);
    }
    let columns = [
        ("file", Lean::Left),
        ("shape", Lean::Right),
        ("channels", Lean::Right),
        ("voxel (mm)", Lean::Left),
        ("stored as", Lean::Left),
        ("values", Lean::Left),
        ("odd", Lean::Left),
    ];
    let lines = if rows.is_empty() { Vec::new() } else { table::lines(&columns, &rows) };
    seen.table = Some((has_head, lines));
    Ok(seen)
}

/// What the data set has, as training reads it.
fn describe(facts: &mut Facts, path: &Path, layout: &dyn Layout, hide: &Hide) -> Result<(), DataError> {
    let of = |target: Target| layout.read(path, &Wants { target, keep_lacking: true, ..Wants::default() });
    // A table of targets, and slides, have no label maps.
    let found = of(Target::label()).or_else(|_| of(Target::Nothing))?;
    let held = found.validation.as_ref().map(Vec::len);
    let mut text = format!("{}, {} without a label", counted(found.labelled.len(), "case"), found.unlabelled.len());
    if let Some(held) = held {
        text.push_str(&format!(", {held} reserved for validation"));
    }
    facts.line("cases", text);
    facts.value(
        "cases",
        json!({ "labelled": found.labelled.len(), "unlabelled": found.unlabelled.len(),
        "validation": held, "lacking": found.lacking.len() }),
    );
    if !found.modalities.is_empty() {
        facts.add("images", found.modalities.join(", "), "modalities", found.modalities.clone());
    }
    if !found.labels.is_empty() {
        let labels: Vec<String> = found.labels.iter().map(|(value, name)| format!("{value} {name}")).collect();
        facts.add("labels", labels.join(", "), "label_names", json!(found.labels));
    }
    for (case, what) in &found.lacking {
        facts.end(hide.text(&format!("error: {case}: {what}")));
    }
    facts.end("hearth data verify reads every case".to_owned());
    Ok(())
}

/// The name by which a recipe calls a layout.
fn name_of(layout: &dyn Layout) -> String {
    let text = format!("{layout:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn row(name: &str, found: &Inspection) -> Vec<String> {
    let odd: Vec<&str> = found.findings.iter().map(|f| f.kind.words()).collect();
    vec![
        name.to_owned(),
        image::shape(found),
        found.channels.to_string(),
        image::voxel(found),
        found.stored_type.clone(),
        image::range_of(found),
        odd.join(", "),
    ]
}
