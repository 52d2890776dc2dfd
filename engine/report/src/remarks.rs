//! Remarks on predictions: respects in which images are unlike those of the training, failed cases, warnings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::ReportError;
use crate::run::{Cases, files, warnings};

/// The end of the names of records of results.
const RECORD: &str = ".hearth.json";

/// The folder of records next to results.
const RECORDS: &str = "records";

/// The files of the warnings of commands, in the folder of records or next to results.
const WARNINGS: [&str; 2] = ["warnings.jsonl", "warnings.hearth.jsonl"];

/// The table of failed cases.
const FAILED: &str = "failed.csv";

/// The key of a record with the respects in which an image is unlike those of the training.
const UNLIKE: &str = "unlike_training";

/// Endings of results that are no volumes, which are not part of the name of a case.
const ENDS: [&str; 4] = ["_picture.png", "_statistics.json", "_seg.dcm", ".seg.nrrd"];

/// The formats of volumes.
const FORMATS: [&str; 7] = [".nii.gz", ".nii", ".nrrd", ".mha", ".mgz", ".mgh", ".png"];

/// The ends of the names of volumes before the format.
const VOLUMES: [&str; 4] = ["_seg", "_pred", "_std", "_prob"];

/// A remark on a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The index of the run in the report, from 0.
    pub run: usize,
    /// The case; `None` if the remark is on all of them.
    pub case: Option<String>,
    /// Its text.
    pub text: String,
}

/// Reads the remarks on the predictions in a folder, including its subfolders: from the records of results,
/// `failed.csv` and the warnings of the command.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn remarks_in(folder: &Path, run: usize) -> Result<Vec<Remark>, ReportError> {
    let mut found = Found::default();
    walk(folder, folder, &mut found)?;
    Ok(found.of(run))
}

/// Reads the warnings of the command that measured the cases of a run.
///
/// # Errors
/// A file that cannot be read.
pub fn remarks_on(cases: &Cases, run: usize) -> Result<Vec<Remark>, ReportError> {
    let mut found = Found::default();
    if let Some(folder) = cases.source.parent() {
        warned(&folder.join(RECORDS).join(WARNINGS[0]), &mut found)?;
    }
    Ok(found.of(run))
}

#[derive(Default)]
struct Found {
    remarks: Vec<(Option<String>, String)>,
    /// The inputs and texts that another file of the same case has.
    seen: BTreeSet<(String, String)>,
}

impl Found {
    fn of(self, run: usize) -> Vec<Remark> {
        self.remarks.into_iter().map(|(case, text)| Remark { run, case, text }).collect()
    }
}

fn walk(top: &Path, folder: &Path, found: &mut Found) -> Result<(), ReportError> {
    let entries = std::fs::read_dir(folder).map_err(|error| ReportError::io(folder, error))?;
    let entries = entries.map(|entry| entry.map_err(|error| ReportError::io(folder, error)));
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // A link may lead back to a parent folder.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(top, &path, found)?,
            _ if name == FAILED => failures(&path, found)?,
            _ if WARNINGS.contains(&name.as_str()) => warned(&path, found)?,
            _ if name.ends_with(RECORD) => record(top, &path, found)?,
            _ => {}
        }
    }
    Ok(())
}

/// The warnings of commands in a file. A repeated command warns again.
fn warned(path: &Path, found: &mut Found) -> Result<(), ReportError> {
    for warning in warnings::read(path)?.unwrap_or_default() {
        if found.seen.insert((String::new(), warning.message.clone())) {
            found.remarks.push((None, warning.message));
        }
    }
    Ok(())
}

/// The remarks in the record of a result. Several results of a case have the same.
fn record(top: &Path, path: &Path, found: &mut Found) -> Result<(), ReportError> {
    let Some(text) = files::text(path)? else { return Ok(()) };
    // A damaged record is like none: the command that wrote it reports it.
    let Ok(record) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
    let case = case_of(top, path);
    for remark in record[UNLIKE].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if found.seen.insert((record["input"].to_string(), remark.to_owned())) {
            found.remarks.push((Some(case.clone()), format!("unlike the training data: {remark}")));
        }
    }
    Ok(())
}

/// The case of a record: the path of its result below the folder, without the result's ending.
fn case_of(top: &Path, path: &Path) -> String {
    let inner = path.strip_prefix(top).unwrap_or(path);
    let inner: PathBuf = inner.components().filter(|part| part.as_os_str() != RECORDS).collect();
    let name = inner.to_string_lossy().replace('\\', "/");
    let name = name.strip_suffix(RECORD).unwrap_or(&name);
    if let Some(case) = ENDS.iter().find_map(|end| name.strip_suffix(end)) {
        return case.to_owned();
    }
    match FORMATS.iter().find_map(|format| name.strip_suffix(format)) {
        Some(volume) => VOLUMES.iter().find_map(|end| volume.strip_suffix(end)).unwrap_or(volume).to_owned(),
        None => name.to_owned(),
    }
}

fn failures(path: &Path, found: &mut Found) -> Result<(), ReportError> {
    let Some(text) = files::text(path)? else { return Ok(()) };
    let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let ours = rows.headers().is_ok_and(|head| head.iter().eq(["image", "why"]));
    for row in rows.records().flatten().filter(|_| ours) {
        if let (Some(case), Some(why)) = (row.get(0), row.get(1)) {
            found.remarks.push((Some(case.to_owned()), format!("failed: {why}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_failures_and_warnings_become_remarks_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let of = |remarks: &[&str]| json!({ "input": "a.nii.gz", "unlike_training": remarks }).to_string();
        write("records/a_picture.png.hearth.json", of(&["spacing 5 mm"]));
        write("records/a_seg.nii.gz.hearth.json", of(&["spacing 5 mm"]));
        write("records/d_seg.nrrd.hearth.json", of(&["spacing 5 mm"]).replace("a.nii.gz", "d.nrrd"));
        write("patient/records/b_seg.nii.gz.hearth.json", json!({ "input": "b.nii.gz" }).to_string());
        write("records/c_seg.nii.gz.hearth.json", "{".to_owned());
        write("failed.csv", "image,why\n\"x, y\",no image\n".to_owned());
        write("records/warnings.jsonl", json!({ "level": "warn", "message": "2 files skipped" }).to_string() + "\n");
        let remark =
            |case: Option<&str>, text: &str| Remark { run: 1, case: case.map(str::to_owned), text: text.into() };
        let expected = [
            remark(Some("x, y"), "failed: no image"),
            remark(Some("a"), "unlike the training data: spacing 5 mm"),
            remark(Some("d"), "unlike the training data: spacing 5 mm"),
            remark(None, "2 files skipped"),
        ];
        assert_eq!(remarks_in(folder.path(), 1).expect("read"), expected);
        write("failed.csv", "case,dice\na,0.5\n".to_owned());
        assert_eq!(remarks_in(folder.path(), 1).expect("read").len(), 3);
        assert!(remarks_in(&folder.path().join("none"), 0).is_err());
    }
}
