//! The files of each case's results, claimed before the work.

use std::path::{Path, PathBuf};

use hearth_data::dicom::{Series, write};
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_run::outputs::{Outputs, is_made_of, is_whole};
use serde_json::Value;

use crate::cases::{Case, files_key};
use crate::job::Job;
use crate::job::results::skipped;
use crate::model::Card;
use crate::writers::{Holds, OutputOptions, Writer, check_slices, in_format, wanted};

/// The name of a case, and its result.
pub(crate) type NamedResult = (String, PathBuf);

/// A case, and the files of its results.
pub(crate) struct Task {
    pub(crate) case: Case,
    /// Its place among all images, also those of other folds.
    pub(crate) place: usize,
    /// The files, in the order of the table of writers.
    pub(crate) files: Vec<(&'static Writer, Vec<PathBuf>)>,
    /// The series to which DICOM files refer.
    pub(crate) series: Option<Series>,
    /// The labels of an earlier stage, for a model that continues from them.
    pub(crate) previous: Option<PathBuf>,
    /// The file of the finished parts of its prediction, for a model whose predictions resume.
    pub(crate) partial: Option<PathBuf>,
    /// The key of the sources of the results.
    pub(crate) key: Value,
    /// The reason why the case is not predicted.
    pub(crate) refused: Option<RecipeError>,
}

impl Job<'_> {
    /// The result of a case; of one that is refused the usual one.
    fn result_of(&self, case: &Case) -> PathBuf {
        let card = self.model.card();
        let format = self.format_of(case).ok().flatten();
        self.path_of(case, &in_format(card.ending.clone(), Holds::Result, format))
    }

    /// The ending of the volumes of a case, if a format is requested.
    fn format_of(&self, case: &Case) -> Outcome<Option<&'static str>> {
        self.outputs.format.map(|format| format.ending_for(case, self.model.card())).transpose()
    }

    /// The file of a case with this ending.
    fn path_of(&self, case: &Case, end: &str) -> PathBuf {
        let mut name = case.stem();
        name.push(end);
        self.out.join(case.parent()).join(name)
    }
}

impl Task {
    /// Whether the file of this option is requested.
    pub(crate) fn asks(&self, flag: &str) -> bool {
        self.files.iter().any(|(writer, _)| writer.flag == flag)
    }
}

/// Plans the results of each case. Also returns the name and the result of each, also of those that an
/// earlier call or another fold finished.
///
/// # Errors
/// A result that would replace a file, or cases of which none can be predicted.
pub(crate) fn tasks(job: &Job<'_>, given: &[PathBuf], outputs: &mut Outputs) -> Outcome<(Vec<Task>, Vec<NamedResult>)> {
    let model = job.model.key()?;
    let (mut tasks, mut results) = (Vec::new(), Vec::new());
    for path in given {
        for case in job.model.cases(path, job.sought)? {
            // Of folds each predicts its own cases, and the table lists those that are done.
            let place = results.len();
            results.push((case.name(), job.result_of(&case)));
            if job.only.is_some_and(|only| !only.contains(&case.name())) {
                continue;
            }
            tasks.extend(task(job, (place, case), &model, outputs)?);
        }
    }
    // No case could be predicted.
    if tasks.iter().all(|task| task.refused.is_some())
        && let Some(task) = tasks.iter_mut().find(|task| task.refused.is_some())
        && let Some(error) = task.refused.take()
    {
        return Err(if task.case.refused().is_some() { error.context(task.case.name()) } else { error });
    }
    Ok((tasks, results))
}

/// Claims the files of a case; `None` if an earlier call has made all of them from the same sources.
fn task(job: &Job<'_>, (place, case): (usize, Case), model: &Value, outputs: &mut Outputs) -> Outcome<Option<Task>> {
    let known = match case.refused() {
        Some(why) => Err(RecipeError::new(why)),
        None => job.format_of(&case).and_then(|format| check_slices(format, &case).map(|()| format)),
    };
    let format = match known {
        Ok(format) => format,
        Err(refused) => {
            let (files, key) = (Vec::new(), Value::Null);
            let refused = Some(refused);
            return Ok(Some(Task { files, series: None, previous: None, partial: None, key, refused, case, place }));
        }
    };
    let card = job.model.card();
    let named = |end: &String| job.path_of(&case, end);
    let of = |writer: &'static Writer| {
        let paths: Vec<PathBuf> = writer.endings_in(&job.outputs, card, format).iter().map(named).collect();
        (writer, paths)
    };
    let files: Vec<(&'static Writer, Vec<PathBuf>)> = wanted(&job.outputs, card).map(of).collect();
    let (previous, lacking) = match job.model.previous_stage(&case) {
        Ok(file) => (file, None),
        Err(error) => (None, Some(error)),
    };
    // A file that cannot be read is reported when the case is read.
    let sources: Vec<PathBuf> = case.all_files().into_iter().chain(previous.clone()).collect();
    let key = key(&sources, model, card, &job.outputs).unwrap_or_default();
    let is_done = |(writer, paths): &(&Writer, Vec<PathBuf>)| match writer.optional {
        true => paths.is_empty() || paths.iter().any(|path| path.is_file()),
        false => paths.iter().all(|path| is_whole(path, job.command)),
    };
    let result = files.last().filter(|(writer, _)| writer.flag.is_empty()).and_then(|(_, paths)| paths.first());
    let same = result.is_some_and(|path| is_made_of(path, &key)) && files.iter().all(is_done);
    // The result comes first, because an error names it.
    let all: Vec<&Path> = files.iter().rev().flat_map(|(_, paths)| paths).map(PathBuf::as_path).collect();
    if same && !job.overwrite {
        notice!("{}: done by an earlier call", case.name());
        if job.json && job.results.speaks() {
            let written: Vec<&Path> = all.into_iter().filter(|path| path.is_file()).collect();
            skipped(job.results, &case, &written);
        }
        return Ok(None);
    }
    all.into_iter().try_for_each(|path| outputs.claim_for(path, sources.first().map(PathBuf::as_path), &key))?;
    let (series, refused) = match files.iter().any(|(writer, _)| writer.needs_series) {
        false => (None, None),
        true => match refers_to(&case) {
            Ok(series) => (Some(series), None),
            Err(error) => (None, Some(error)),
        },
    };
    let partial = job.model.partial_ending().map(|end| job.path_of(&case, end));
    Ok(Some(Task { case, place, files, series, previous, partial, key, refused: lacking.or(refused) }))
}

/// The key of a result: its files, the model, and options that change the content of a file.
/// Options that only request more files are not included.
fn key(files: &[PathBuf], model: &Value, card: &Card, options: &OutputOptions) -> Outcome<Value> {
    let mut key = files_key(files)?;
    key["model"] = model.clone();
    if let Some(kind) = options.dicom_seg.filter(|kind| *kind != write::SegmentationType::Binary) {
        key["seg_type"] = format!("{kind:?}").into();
    }
    if options.include_incomplete {
        key["include_incomplete"] = true.into();
    }
    if let Some(saliency) = &options.saliency {
        key["saliency"] = format!("{saliency:?}").into();
    }
    if !options.codes.is_empty() {
        key["codes"] = format!("{:?}", options.codes).into();
    }
    // The labels of a package may have colours and DICOM codes.
    if card.labels.iter().any(|label| label.color.is_some() || label.coding.is_some()) {
        key["labels"] = format!("{:?}", card.labels).into();
    }
    Ok(key)
}

/// The series to which the DICOM files of a case's regions refer. An unsuitable series is found
/// here, before prediction.
fn refers_to(case: &Case) -> Outcome<Series> {
    let series = case.dicom().while_doing(|| "--dicom-seg, --rtstruct and --dicom-sr need DICOM images".to_owned())?;
    write::check(&series).while_doing(|| case.name())?;
    Ok(series)
}
