//! The report: runs, pictures, and their page.

use crate::error::ReportError;
use crate::page;
use crate::pictures::{Overlay, embed};
use crate::remarks::Remark;
use crate::run::Run;
use crate::volumes::{self, Volume};
use serde_json::{Value, json};

/// The default limit for pictures on a page, in bytes.
const PICTURES: usize = 3_500_000;

/// The limit for volumes on a page, in bytes.
const VOLUMES: usize = 8_000_000;

/// A report of runs side by side, with pictures of their cases.
///
/// ```
/// # use hearth_report::{Overlay, Report, ReportError, Run};
/// # fn page(first: &std::path::Path, second: &std::path::Path, png: Vec<u8>) -> Result<String, ReportError> {
/// let runs = vec![Run::read(first)?, Run::read(second)?];
/// let overlay = Overlay { run: 0, case: "spleen_12".into(), png, caption: "outlines".into() };
/// Ok(Report::new(runs)?.title("Two learning rates").overlays(vec![overlay])?.html())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    runs: Vec<Run>,
    title: Option<String>,
    overlays: Vec<Overlay>,
    picture_bytes: usize,
    volumes: Vec<Volume>,
    remarks: Vec<Remark>,
}

impl Report {
    /// Creates the report of these runs, in this order. Runs with equal names are named by their
    /// folders.
    ///
    /// # Errors
    /// An empty list of runs.
    pub fn new(mut runs: Vec<Run>) -> Result<Self, ReportError> {
        if runs.is_empty() {
            return Err(ReportError::Nothing);
        }
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        for run in &mut runs {
            if names.iter().filter(|name| **name == run.name).count() > 1 {
                run.name = run.folder.display().to_string();
            }
        }
        Ok(Self {
            runs,
            title: None,
            overlays: Vec::new(),
            picture_bytes: PICTURES,
            volumes: Vec::new(),
            remarks: Vec::new(),
        })
    }

    /// Sets the page's title, in place of the task's.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the limit for pictures on the page, in bytes; by default 3.5 MB. If they exceed it, each is
    /// scaled down to its share.
    #[must_use]
    pub fn picture_bytes(mut self, bytes: usize) -> Self {
        self.picture_bytes = bytes;
        self
    }

    /// Adds pictures of cases.
    ///
    /// # Errors
    /// A picture of a run that is not in the report.
    pub fn overlays(mut self, overlays: Vec<Overlay>) -> Result<Self, ReportError> {
        let runs = self.runs.len();
        if let Some(Overlay { run, .. }) = overlays.iter().find(|overlay| overlay.run >= runs) {
            return Err(ReportError::NoSuchRun { run: *run, runs });
        }
        self.overlays.extend(overlays);
        Ok(self)
    }

    /// Adds volumes of cases, for viewing in three planes. They take at most 8 MB of the page; a larger
    /// one loses detail.
    ///
    /// # Errors
    /// A volume of a run that is not in the report.
    pub fn volumes(mut self, volumes: Vec<Volume>) -> Result<Self, ReportError> {
        let runs = self.runs.len();
        if let Some(Volume { run, .. }) = volumes.iter().find(|volume| volume.run >= runs) {
            return Err(ReportError::NoSuchRun { run: *run, runs });
        }
        self.volumes.extend(volumes);
        Ok(self)
    }

    /// Adds remarks on predictions.
    ///
    /// # Errors
    /// A remark on a run that is not in the report.
    pub fn remarks(mut self, remarks: Vec<Remark>) -> Result<Self, ReportError> {
        let runs = self.runs.len();
        if let Some(Remark { run, .. }) = remarks.iter().find(|remark| remark.run >= runs) {
            return Err(ReportError::NoSuchRun { run: *run, runs });
        }
        self.remarks.extend(remarks);
        Ok(self)
    }

    /// The content in short, for other programs: of each run its outcome, best value, warnings, missing parts
    /// and remarks on predictions.
    pub fn json(&self) -> Value {
        let of = |(place, run): (usize, &Run)| {
            let remarks = self.remarks.iter().filter(|remark| remark.run == place);
            let remarks = remarks.map(|remark| json!({ "case": remark.case, "remark": remark.text }));
            let warnings = run.warnings.iter().map(|warning| {
                let level = if warning.is_error { "error" } else { "warn" };
                json!({ "unix_time": warning.unix_time, "level": level, "message": warning.message })
            });
            json!({
                "run": run.folder.display().to_string(),
                "name": run.name,
                "outcome": run.state.word(),
                "key_metric": run.key_metric(),
                "best": run.best().map(|(best, _)| best),
                "best_epoch": run.best().map(|(_, epoch)| epoch),
                "warnings": warnings.collect::<Vec<_>>(),
                "missing": run.gaps,
                "remarks": remarks.collect::<Vec<_>>(),
            })
        };
        json!({ "runs": self.runs.iter().enumerate().map(of).collect::<Vec<_>>() })
    }

    /// The runs.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Missing parts of the report, and how to add them.
    pub fn gaps(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|run| run.gaps.iter().map(String::as_str))
    }

    /// The HTML page. The same files always give the same page; parts that cannot be shown are listed
    /// on it.
    pub fn html(&self) -> String {
        let (pictures, mut left_out) = embed(&self.overlays, self.picture_bytes);
        let (volumes, notes) = volumes::embed(&self.volumes, VOLUMES);
        left_out.extend(notes);
        let title = self.title.clone().unwrap_or_else(|| self.own_title());
        page::whole(&page::View {
            runs: &self.runs,
            title: &title,
            pictures: &pictures,
            volumes: &volumes,
            left_out: &left_out,
            remarks: &self.remarks,
        })
    }

    fn own_title(&self) -> String {
        let mut tasks: Vec<&str> = self.runs.iter().map(Run::task).collect();
        tasks.dedup();
        match (&tasks[..], self.runs.len()) {
            ([task], 1) => (*task).to_owned(),
            ([task], count) => format!("{task}: {count} runs"),
            (_, count) => format!("{count} runs"),
        }
    }
}
