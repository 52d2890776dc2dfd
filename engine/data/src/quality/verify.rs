//! Verification of a whole data set.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::case::{grid_findings, label_findings, labels};
use super::listing::{Listed, Listing, list};
use super::{Finding, Inspection, Kind, LabelReport, Severity, across, inspect};
use crate::{DataError, Image, Progress, ReadOptions, Running, read_image_with};

/// Options of [`verify`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// How progress is shown.
    pub progress: Progress,
}

/// The content of a data set, and the findings about it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// The folder.
    pub dir: PathBuf,
    /// Name of the data set.
    pub name: String,
    /// Names of the label values; empty where the data set does not state them.
    pub names: BTreeMap<u32, String>,
    /// The cases, in the order of the list.
    pub cases: Vec<CaseReport>,
    /// All findings, the most severe first, then by kind and case.
    pub findings: Vec<Finding>,
}

/// The content of one case.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// `training`, `validation` or `test`.
    pub split: String,
    /// Its image, where that could be read.
    pub image: Option<Inspection>,
    /// Its label, where it has one and it could be read.
    pub label: Option<Inspection>,
    /// The labels that occur, without 0.
    pub labels: Vec<LabelReport>,
    #[serde(skip)]
    label_is_sound: bool,
    #[serde(skip)]
    findings: Vec<Finding>,
}

impl CaseReport {
    /// Whether it has a label whose values are labels.
    pub(super) fn has_labels(&self) -> bool {
        self.label_is_sound
    }
}

impl Verification {
    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }
}

/// Reads every file of a data set and checks its content and the consistency of the files.
///
/// The data set is a folder with a `dataset.json` as in the Decathlon (its labels and modalities
/// are compared with the files), or one with `imagesTr` and `labelsTr` (`images` and `labels`), or
/// any folder of images: series of DICOM are paired with their structure sets and segmentations.
/// Cases are read by several threads, one case in memory for each.
///
/// # Errors
/// Where `dataset.json` is damaged, or the folder holds no image. Errors of single files are
/// findings.
pub fn verify(dir: &Path, options: &VerifyOptions) -> Result<Verification, DataError> {
    let Listing { name, labels, channels, cases, mut findings } = list(dir)?;
    let running = options.progress.start("cases", cases.len() as u64);
    let cases = look_at_all(&cases, &labels, &running);
    running.finish();
    findings.extend(across::findings(&cases, &labels, channels));
    findings.extend(cases.iter().flat_map(|case| case.findings.iter().cloned()));
    // Stable: findings of a kind keep the order of the cases.
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.kind.cmp(&b.kind)).then(a.case.cmp(&b.case)));
    Ok(Verification { dir: dir.to_owned(), name, names: labels, cases, findings })
}

/// The reports in the order of the list. On separate threads: a waiting thread of the common pool
/// would start further cases and load their images.
fn look_at_all(cases: &[Listed], names: &BTreeMap<u32, String>, running: &Running) -> Vec<CaseReport> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cases.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(listed) = cases.get(index) else { return done };
            done.push((index, look_at(listed, names)));
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

fn look_at(listed: &Listed, names: &BTreeMap<u32, String>) -> CaseReport {
    let mut findings = Vec::new();
    let image = read(&listed.image, "image", None, &mut findings);
    let grid = listed.image.as_ref().ok().filter(|_| listed.drawn);
    let label = listed.label.as_ref().and_then(|label| read(label, "label", grid, &mut findings));
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
        // A label with only background is empty, which is more specific than constant.
        let of_label =
            report.label.iter().flat_map(|i| i.findings.iter().cloned()).filter(|f| f.kind != Kind::Constant);
        let mut more: Vec<Finding> = of_label.collect();
        more.extend(label_findings(&counts, names));
        // Findings of both headers are reported once where they are the same.
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

/// Reads a file, and an annotation on the grid of its images. Errors, including panics of decoders,
/// become findings.
fn read(
    file: &Result<PathBuf, String>,
    what: &str,
    grid: Option<&PathBuf>,
    findings: &mut Vec<Finding>,
) -> Option<Image> {
    let path = match file {
        Ok(path) => path,
        Err(why) => {
            let advice = "restore the file, or take the case out of the list";
            let text = format!("the {what} is missing: {why}");
            findings.push(Finding::new(Severity::Error, Kind::MissingFile, text).advice(advice));
            return None;
        }
    };
    let options = ReadOptions { reference: grid.cloned(), ..ReadOptions::default() };
    let result = catch_unwind(AssertUnwindSafe(|| read_image_with(path, &options).map_err(|e| e.why())));
    let why = match result {
        Ok(Ok(image)) => return Some(image),
        Ok(Err(why)) => why,
        Err(_) => "the reader panicked".to_owned(),
    };
    let advice = "copy or download the file again, or exclude the case";
    let text = format!("the {what} can't be read: {why}");
    findings.push(Finding::new(Severity::Error, Kind::Unreadable, text).advice(advice).file(path));
    None
}
