//! Verification of a whole data set.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use hearth_image::Image;
use hearth_io::readers::read_parts;
use hearth_io::{Parts, ReadOptions};
use hearth_slides::{Slide, SlideError};
use serde::Serialize;

use super::case::{grid_findings, label_findings, labels};
use super::listing::{Listed, Listing, list};
use super::{Finding, Inspection, Kind, LabelReport, Severity, across_cases, inspect};
use crate::{DataError, Progress, Running};

/// The number of regions of a slide that are read, and the width and height of the part of each, in pixels.
const REGIONS: usize = 8;
const PART: usize = 256;

/// Options of [`verify`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// How progress is shown.
    pub progress: Progress,
    /// Modalities that make up an image, as in `[data] images`: columns of a table, keys of a list,
    /// suffixes of names. Empty means all.
    pub images: Vec<String>,
    /// Column, key or suffix of the labels, if it is not the default one.
    pub label: Option<String>,
    /// Faults of DICOM series that are accepted: `MissingSlices`.
    pub accept: Vec<String>,
}

/// The content of a data set, and the findings about it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// Path of the folder, table or list.
    #[serde(serialize_with = "super::path_as_text")]
    pub dir: PathBuf,
    /// Name of the data set.
    pub name: String,
    /// Names of the label values; empty if the data set does not state them.
    pub names: BTreeMap<u32, String>,
    /// Cases, in the order of the list.
    pub cases: Vec<CaseReport>,
    /// All findings, the most severe first, then by kind and case.
    pub findings: Vec<Finding>,
}

/// The content of one case.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// Name of the case.
    pub case: String,
    /// Part of the data set: `training`, `validation` or `test`.
    pub split: String,
    /// The image of the case, if it could be read.
    pub image: Option<Inspection>,
    /// The label of the case, if there is one and it could be read.
    pub label: Option<Inspection>,
    /// Labels that occur, without 0.
    pub labels: Vec<LabelReport>,
    #[serde(skip)]
    label_is_sound: bool,
    #[serde(skip)]
    findings: Vec<Finding>,
}

impl CaseReport {
    /// Whether the case has a label whose values can be labels.
    pub(super) fn has_labels(&self) -> bool {
        self.label_is_sound
    }
}

impl Verification {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }
}

/// Reads every file of a data set and checks its content and the consistency of the files.
///
/// The data set is anything that can be trained on ([`layouts`](crate::layouts)): a folder with a
/// Decathlon `dataset.json` (its labels and modalities are compared with the files), nnU-Net raw,
/// BIDS, BraTS, a table or a list of cases. It can also be a folder with `imagesTr` and `labelsTr`
/// (`images` and `labels`), or any folder of images, in which DICOM series are matched with the
/// structure sets and segmentations drawn on them. Several threads read the cases, each with one
/// case in memory.
///
/// # Errors
/// If a list is damaged, or the folder holds no image. Faults of a file are findings.
pub fn verify(dir: &Path, options: &VerifyOptions) -> Result<Verification, DataError> {
    let Listing { name, labels, channels, cases, mut findings } = list(dir, options)?;
    let running = options.progress.start("cases", cases.len() as u64);
    let cases = look_at_all(&cases, &labels, options, &running);
    running.finish();
    findings.extend(across_cases::findings(&cases, &labels, channels));
    findings.extend(cases.iter().flat_map(|case| case.findings.iter().cloned()));
    // Stable: findings of a kind keep the order of the cases.
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.kind.cmp(&b.kind)).then(a.case.cmp(&b.case)));
    Ok(Verification { dir: dir.to_owned(), name, names: labels, cases, findings })
}

/// Makes the reports in the order of the list, on separate threads: a thread of the common pool
/// that waits would meanwhile start further cases and load their images.
fn look_at_all(
    cases: &[Listed],
    names: &BTreeMap<u32, String>,
    options: &VerifyOptions,
    running: &Running,
) -> Vec<CaseReport> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cases.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(listed) = cases.get(index) else { return done };
            done.push((index, look_at(listed, names, options)));
            running.advance();
        }
    };
    let mut all: Vec<(usize, CaseReport)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<(usize, CaseReport)>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, report)| report).collect()
}

fn look_at(listed: &Listed, names: &BTreeMap<u32, String>, options: &VerifyOptions) -> CaseReport {
    let mut findings = Vec::new();
    if !listed.regions.is_empty() {
        return look_at_slide(listed);
    }
    let mut how = ReadOptions::default().accept(options.accept.clone());
    how.series.clone_from(&listed.series);
    let image = read(&listed.image, "image", &how, &mut findings);
    let grid = listed.image.as_ref().ok().filter(|_| listed.drawn);
    how.reference = grid.and_then(|parts| parts.files.first().cloned());
    let label = listed.label.as_ref().and_then(|label| read(label, "label", &how, &mut findings));
    let mut report = CaseReport {
        case: listed.case.clone(),
        split: listed.split.to_owned(),
        image: image.as_ref().map(inspect),
        label: label.as_ref().map(inspect),
        labels: Vec::new(),
        label_is_sound: false,
        findings: Vec::new(),
    };
    findings.extend(report.image.iter().flat_map(|i| i.findings.iter().cloned()));
    if let Some(map) = &label {
        let (counts, found) = labels(map);
        report.labels = found.into_iter().filter(|l| l.value != 0).collect();
        report.label_is_sound = counts.are_labels();
        // A label with only background is reported as empty, which is more specific than constant.
        let of_label =
            report.label.iter().flat_map(|i| i.findings.iter().cloned()).filter(|f| f.kind != Kind::Constant);
        let mut more: Vec<Finding> = of_label.collect();
        more.extend(label_findings(&counts, names));
        // Findings that both headers share are reported once.
        let same = |f: &Finding| findings.iter().any(|of_image| of_image.kind == f.kind && of_image.what == f.what);
        more.retain(|f| !same(f));
        if let Some(image) = &image {
            more.extend(grid_findings(image, map));
        }
        findings.extend(more.into_iter().map(|f| match &map.meta.path {
            Some(path) => f.file(path),
            None => f,
        }));
    }
    report.findings = findings.into_iter().map(|f| f.case(&listed.case)).collect();
    report
}

/// Opens a slide and reads a part of some of its regions: its pixels as one image would not fit into memory.
fn look_at_slide(listed: &Listed) -> CaseReport {
    let path = listed.image.iter().flat_map(|parts| &parts.files).next().cloned().unwrap_or_default();
    let read = || -> Result<(), SlideError> {
        let slide = Slide::open(&path)?;
        let step = listed.regions.len().div_ceil(REGIONS).max(1);
        for [row, column] in listed.regions.iter().step_by(step) {
            let half = PART as i64 / 2;
            slide.read_region(0, column - half, row - half, PART, PART)?;
        }
        Ok(())
    };
    let why = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the reader panicked".to_owned()),
    };
    let finding = |why: String| {
        let advice = "copy or download the file again, or exclude the slide";
        let text = format!("the slide can't be read: {why}");
        Finding::new(Severity::Error, Kind::Unreadable, text).advice(advice).file(&path).case(&listed.case)
    };
    CaseReport {
        case: listed.case.clone(),
        split: listed.split.to_owned(),
        image: None,
        label: None,
        labels: Vec::new(),
        label_is_sound: false,
        findings: why.map(finding).into_iter().collect(),
    }
}

/// Reads a file, and regions on the grid of their images. A fault, including a panic of a decoder,
/// becomes a finding.
fn read(file: &Result<Parts, String>, what: &str, options: &ReadOptions, findings: &mut Vec<Finding>) -> Option<Image> {
    let parts = match file {
        Ok(parts) => parts,
        Err(why) => {
            let advice = "restore the file, or take the case out of the list";
            let text = format!("the {what} is missing: {why}");
            findings.push(Finding::new(Severity::Error, Kind::MissingFile, text).advice(advice));
            return None;
        }
    };
    let first = parts.files.first().cloned().unwrap_or_default();
    let read = || read_parts(parts, options).map_err(|error| (error.path().to_owned(), error.why()));
    let (path, why) = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(image)) => return Some(image),
        Ok(Err(error)) => error,
        Err(_) => (first, "the reader panicked".to_owned()),
    };
    let advice = "copy or download the file again, or exclude the case";
    let text = format!("the {what} can't be read: {why}");
    findings.push(Finding::new(Severity::Error, Kind::Unreadable, text).advice(advice).file(&path));
    None
}
