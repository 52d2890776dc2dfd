//! DICOM series to predict: those of a folder, or of a tree of patients.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hearth_data::dicom::{Scan, Series, scan};
use hearth_registry::counted;

use crate::cases::series_choice::{Facts, choose};
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_recipe::{notice, warning};

/// Selects the best series of each study for the network.
const AUTO: &str = "auto";

/// A series to predict.
#[derive(Clone, Debug)]
pub struct FoundSeries {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The series itself.
    pub series: Series,
    /// The folder for its results, relative to the folder of all results.
    pub parent: PathBuf,
    /// The name of its results, without their endings.
    pub stem: OsString,
}

/// The series below a folder: all of them, or with `wanted` one of each study ([`Scan::select`];
/// `auto` selects the one that suits the network best and reports why). Series of other `modalities`
/// are skipped. Empty if there is no DICOM.
///
/// The results of a series have the same relative folder and name as its own folder: those of
/// `TREE/patient/ct` are `OUT/patient/ct_...`. If several series share a folder, their numbers are
/// appended. The results of a single series have the name of the given folder.
///
/// # Errors
/// A folder that cannot be read, a study without the selected series, series of other modalities
/// alone, or a series whose files are in several folders.
pub fn series_below(given: &Path, wanted: Option<&str>, modalities: &[String]) -> Outcome<Vec<FoundSeries>> {
    // The root folder would be the whole file system.
    if !given.canonicalize().is_ok_and(|real| real.file_name().is_some()) {
        return Ok(Vec::new());
    }
    let scanned = scan(given).while_doing(|| given.display().to_string())?;
    let Some(wanted) = wanted else {
        let all = of_modalities(given, &scanned, modalities)?;
        let studies: BTreeSet<&str> = all.iter().map(|series| series.study()).collect();
        if studies.len() < all.len() {
            let (count, studies) = (all.len(), counted(studies.len(), "study"));
            notice!("{}: {count} series of {studies}; --series auto takes one of each study", given.display());
        }
        return placed(given, all, &scanned);
    };
    let mut studies: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for series in &scanned.series {
        studies.entry(series.study()).or_default().push(series);
    }
    let mut chosen = Vec::new();
    let automatic = wanted.trim().eq_ignore_ascii_case(AUTO);
    for series in studies.into_values() {
        if automatic {
            let facts: Vec<Facts> = series.iter().map(|series| Facts::of(series)).collect();
            let of = series[0].patient().map(|patient| format!(", patient {patient}")).unwrap_or_default();
            let place = format!("{}{of}", given.display());
            match choose(&facts, modalities) {
                Ok(choice) => {
                    notice!("{place}: {}", choice.why);
                    chosen.push(series[choice.place]);
                }
                Err(why) => warning!("{place}: {why}"),
            }
            continue;
        }
        let mut study = Scan::default();
        study.series = series.iter().map(|series| (*series).clone()).collect();
        let place = study.select(wanted).map_err(|what| {
            let of = series[0].patient().map(|patient| format!(", patient {patient}")).unwrap_or_default();
            RecipeError::new(format!("--series {wanted}: {}{of}: {what}", given.display()))
        })?;
        if !suits(series[place], modalities) {
            return Err(for_others(given, [series[place].modality()].into(), modalities));
        }
        chosen.push(series[place]);
    }
    if automatic && chosen.is_empty() && !scanned.series.is_empty() {
        let what = "no study has a series for this network; name one by --series, as a UID, number or description";
        return Err(RecipeError::new(format!("{}: {what}", given.display())));
    }
    placed(given, chosen, &scanned)
}

/// Whether a series has one of these modalities; without any, every one has.
fn suits(series: &Series, modalities: &[String]) -> bool {
    modalities.is_empty() || modalities.iter().any(|name| name.eq_ignore_ascii_case(series.modality()))
}

/// The series of these modalities. Skipped ones are reported.
///
/// # Errors
/// Series of other modalities alone.
fn of_modalities<'a>(given: &Path, scanned: &'a Scan, modalities: &[String]) -> Outcome<Vec<&'a Series>> {
    let (suiting, others): (Vec<&Series>, Vec<&Series>) =
        scanned.series.iter().partition(|series| suits(series, modalities));
    if others.is_empty() {
        return Ok(suiting);
    }
    let found: BTreeSet<&str> = others.iter().map(|series| series.modality()).collect();
    if suiting.is_empty() {
        return Err(for_others(given, found, modalities));
    }
    let (place, count, names) = (given.display(), others.len(), modalities.join(", "));
    let found = found.into_iter().collect::<Vec<_>>().join(", ");
    notice!("{place}: skips {count} series of {found}: the network is for {names}");
    Ok(suiting)
}

fn for_others(given: &Path, found: BTreeSet<&str>, modalities: &[String]) -> RecipeError {
    let (found, names) = (found.into_iter().collect::<Vec<_>>().join(", "), modalities.join(", "));
    let what = format!("the series is {found}, and the network is for {names}");
    RecipeError::new(format!("{}: {what}; --any-modality predicts it all the same", given.display()))
}

fn placed(given: &Path, mut chosen: Vec<&Series>, scanned: &Scan) -> Outcome<Vec<FoundSeries>> {
    let mut found = Vec::new();
    if let [one] = chosen[..] {
        let stem = crate::cases::case::stem(given);
        return Ok(vec![FoundSeries { folder: folder(one)?, series: one.clone(), parent: PathBuf::new(), stem }]);
    }
    chosen.sort_by_key(|series| series.files());
    for series in chosen {
        let folder = folder(series)?;
        let others = scanned.series.iter().filter(|other| other.uid() != series.uid());
        let shared = others.flat_map(Series::files).any(|file| file.parent() == Some(&folder));
        let relative = folder.strip_prefix(given).unwrap_or(Path::new(""));
        let mut stem = match relative.file_name() {
            Some(name) => name.to_owned(),
            None => crate::cases::case::stem(given),
        };
        if shared {
            stem.push(OsStr::new("_"));
            stem.push(series.number().map_or_else(|| series.uid().to_owned(), |number| number.to_string()));
        }
        let parent = relative.parent().unwrap_or(Path::new("")).to_owned();
        found.push(FoundSeries { folder, series: series.clone(), parent, stem });
    }
    // Series numbers are not unique: if two are equal, their UIDs are appended.
    let twice: Vec<bool> = found
        .iter()
        .map(|one| found.iter().filter(|other| (&other.parent, &other.stem) == (&one.parent, &one.stem)).count() > 1)
        .collect();
    for (one, twice) in found.iter_mut().zip(twice) {
        if twice {
            one.stem.push(format!("_{}", one.series.uid()));
        }
    }
    Ok(found)
}

/// The single folder of a series' files.
fn folder(series: &Series) -> Outcome<PathBuf> {
    let files = series.files();
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    let mut folders = folders.into_iter();
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder.to_owned()),
        (Some(first), Some(second)) => {
            let (what, first, second) = (series.summary(), first.display(), second.display());
            let advice = "put the files of a series into one folder";
            Err(RecipeError::new(format!("the series {what} lies in {first} and in {second}; {advice}")))
        }
        _ => Err(RecipeError::new(format!("the series {} has no files", series.summary()))),
    }
}
