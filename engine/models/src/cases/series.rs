//! DICOM series to predict: those of a folder, or of a tree of patients.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hearth_data::dicom::{FailedFile, Scan, Series, scan};
use hearth_registry::counted;

use crate::cases::case::Case;
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
    /// Its number, else its UID, if several series share its folder.
    pub number: Option<String>,
    /// The faults that are accepted.
    pub accept: Vec<String>,
}

/// The series below a folder as cases: all of them, or with `wanted` one of each study
/// ([`Scan::select`]; `auto` selects the one that suits the network best and reports why). Series of
/// other `modalities` are skipped. Empty if there is no DICOM.
///
/// A study without the selected series, a series of which no one chose one of several volumes, and one
/// whose files are in several folders are [`Case::Refused`]: the others are done. So is a folder of files none
/// of which can be read.
///
/// The results of a series have the same relative folder and name as its own folder: those of
/// `TREE/patient/ct` are `OUT/patient/ct_...`. If several series share a folder, their numbers are
/// appended, and the key of one of several volumes. The results of a single series have the name of
/// the given folder.
///
/// # Errors
/// A folder that cannot be read, or no series that suits the network.
pub fn series_below(given: &Path, wanted: Option<&str>, modalities: &[String]) -> Outcome<Vec<Case>> {
    // The root folder would be the whole file system.
    if !given.canonicalize().is_ok_and(|real| real.file_name().is_some()) {
        return Ok(Vec::new());
    }
    let scanned = scan(given).while_doing(|| given.display().to_string())?;
    let Chosen { series, refused } = match wanted {
        Some(wanted) => one_of_each_study(given, &scanned, wanted, modalities)?,
        None => all_series(given, &scanned, modalities)?,
    };
    let unread = unreadable(&scanned, modalities);
    let alone = series.len() == 1 && refused.is_empty() && unread.is_empty();
    let (found, misplaced) = placed(given, series, &scanned, alone);
    let refused = refused.into_iter().chain(misplaced).chain(unread).map(|(path, why)| Case::Refused(path, why));
    Ok(found.into_iter().map(|found| Case::Series(Box::new(found))).chain(refused).collect())
}

/// A refused folder, and the reason.
type Refused = (PathBuf, String);

/// The chosen series, and what is refused.
#[derive(Default)]
struct Chosen<'a> {
    series: Vec<&'a Series>,
    refused: Vec<Refused>,
}

/// All series, except those of which one volume has to be chosen.
fn all_series<'a>(given: &Path, scanned: &'a Scan, modalities: &[String]) -> Outcome<Chosen<'a>> {
    let all = of_modalities(given, scanned, modalities)?;
    let studies: BTreeSet<&str> = all.iter().map(|series| series.study()).collect();
    if studies.len() < all.len() {
        let count = all.len();
        let studies = if studies.len() == 1 { "1 study".to_owned() } else { format!("{} studies", studies.len()) };
        notice!("{}: {count} series of {studies}; --series auto takes one of each study", given.display());
    }
    let (volumes, series): (Vec<&Series>, Vec<&Series>) = all.into_iter().partition(|series| series.key().is_some());
    let mut of_one: BTreeMap<(&str, PathBuf), Scan> = BTreeMap::new();
    for volume in volumes {
        // Files without a UID are one series for each folder.
        let place = if volume.uid().is_empty() { place_of(given, volume) } else { PathBuf::new() };
        of_one.entry((volume.uid(), place)).or_default().series.push(volume.clone());
    }
    let refused = of_one.into_values().map(|volumes| {
        let (first, count) = (&volumes.series[0], volumes.series.len());
        let name = first.name();
        let what = format!(
            "the series has {count} volumes; choose one by --series (`series` of a request), as in {name}, or let \
             auto choose:{}",
            volumes.list()
        );
        (place_of(given, first), what)
    });
    Ok(Chosen { series, refused: refused.collect() })
}

/// The selected series of each study.
fn one_of_each_study<'a>(given: &Path, scanned: &'a Scan, wanted: &str, modalities: &[String]) -> Outcome<Chosen<'a>> {
    let mut studies: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for series in &scanned.series {
        studies.entry(series.study()).or_default().push(series);
    }
    let mut chosen = Chosen::default();
    let automatic = wanted.trim().eq_ignore_ascii_case(AUTO);
    for series in studies.into_values() {
        let of = series[0].patient().map(|patient| format!(", patient {patient}")).unwrap_or_default();
        if automatic {
            let facts: Vec<Facts> = series.iter().map(|series| Facts::of(series)).collect();
            let place = format!("{}{of}", given.display());
            match choose(&facts, modalities) {
                Ok(choice) => {
                    notice!("{place}: {}", choice.why);
                    chosen.series.push(series[choice.place]);
                }
                Err(why) => warning!("{place}: {why}"),
            }
            continue;
        }
        let mut study = Scan::default();
        study.series = series.iter().map(|series| (*series).clone()).collect();
        let refused = match study.select(wanted) {
            Ok(place) if suits(series[place], modalities) => {
                chosen.series.push(series[place]);
                continue;
            }
            Ok(place) => of_others([series[place].modality()].into(), modalities),
            Err(what) => format!("--series {wanted}{of}: {what}"),
        };
        chosen.refused.push((place_of(given, series[0]), refused));
    }
    if automatic && chosen.series.is_empty() && !scanned.series.is_empty() {
        let what = "no study has a series for this network; name one by --series, as a UID, number or description";
        return Err(RecipeError::new(format!("{}: {what}", given.display())));
    }
    Ok(chosen)
}

/// The folders with files that cannot be read, and with no series. Those of other modalities are left out:
/// a video is no image that the network could predict.
fn unreadable(scanned: &Scan, modalities: &[String]) -> Vec<Refused> {
    let folder = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    // Where there is a series, reading it decides about the files next to it.
    let read: BTreeSet<PathBuf> = scanned.series.iter().flat_map(Series::files).map(|file| folder(&file)).collect();
    let mut lost: BTreeMap<PathBuf, Vec<&FailedFile>> = BTreeMap::new();
    for failed in &scanned.failed {
        if failed.modality.is_empty() || is_one_of(&failed.modality, modalities) {
            lost.entry(folder(&failed.path)).or_default().push(failed);
        }
    }
    let lost = lost.into_iter().filter(|(folder, _)| !read.contains(folder));
    let refused = |(folder, files): (PathBuf, Vec<&FailedFile>)| {
        let (count, first) = (counted(files.len(), "file"), &files[0].error);
        (folder, format!("no series of images, and {count} of DICOM that cannot be read: {first}"))
    };
    lost.map(refused).collect()
}

/// The folder of a series' first file.
fn place_of(given: &Path, series: &Series) -> PathBuf {
    series.slices()[0].path().parent().unwrap_or(given).to_owned()
}

/// Whether a series has one of these modalities; without any, every one has.
fn suits(series: &Series, modalities: &[String]) -> bool {
    is_one_of(series.modality(), modalities)
}

fn is_one_of(modality: &str, modalities: &[String]) -> bool {
    modalities.is_empty() || modalities.iter().any(|name| name.eq_ignore_ascii_case(modality))
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
        return Err(RecipeError::new(format!("{}: {}", given.display(), of_others(found, modalities))));
    }
    let (place, count, names) = (given.display(), others.len(), modalities.join(", "));
    let found = found.into_iter().collect::<Vec<_>>().join(", ");
    notice!("{place}: skips {count} series of {found}: the network is for {names}");
    Ok(suiting)
}

fn of_others(found: BTreeSet<&str>, modalities: &[String]) -> String {
    let (found, names) = (found.into_iter().collect::<Vec<_>>().join(", "), modalities.join(", "));
    format!("the series is {found}, and the network is for {names}; --any-modality predicts it all the same")
}

/// Names the results of series, that of the only case after the given folder; refuses series in several
/// folders.
fn placed(given: &Path, mut chosen: Vec<&Series>, scanned: &Scan, alone: bool) -> (Vec<FoundSeries>, Vec<Refused>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    chosen.sort_by_key(|series| series.files());
    for series in chosen {
        let folder = match folder(series) {
            Ok(folder) => folder,
            Err(why) => {
                refused.push((place_of(given, series), why));
                continue;
            }
        };
        let others = scanned.series.iter().filter(|other| other.uid() != series.uid());
        let shared = others.flat_map(Series::files).any(|file| file.parent() == Some(&folder));
        let relative = if alone { Path::new("") } else { folder.strip_prefix(given).unwrap_or(Path::new("")) };
        let mut stem = match relative.file_name() {
            Some(name) => name.to_owned(),
            None => crate::cases::case::stem(given),
        };
        let number = || series.number().map_or_else(|| series.uid().to_owned(), |number| number.to_string());
        let number = (shared && !alone).then(number);
        if let Some(number) = &number {
            stem.push(OsStr::new("_"));
            stem.push(number);
        }
        if let Some(key) = series.key() {
            stem.push(format!("_{key}"));
        }
        let parent = relative.parent().unwrap_or(Path::new("")).to_owned();
        found.push(FoundSeries { folder, series: series.clone(), parent, stem, number, accept: Vec::new() });
    }
    // Series numbers are not unique: if two are equal, their UIDs are appended.
    let twice: Vec<bool> = found
        .iter()
        .map(|one| found.iter().filter(|other| (&other.parent, &other.stem) == (&one.parent, &one.stem)).count() > 1)
        .collect();
    for (one, twice) in found.iter_mut().zip(twice) {
        if twice {
            one.stem.push(format!("_{}", one.series.uid()));
            one.number = Some(one.series.uid().to_owned());
        }
    }
    (found, refused)
}

/// The single folder of a series' files.
fn folder(series: &Series) -> Result<PathBuf, String> {
    let files = series.files();
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    let mut folders = folders.into_iter();
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder.to_owned()),
        (Some(first), Some(second)) => {
            let (what, first, second) = (series.summary(), first.display(), second.display());
            let advice = "put the files of a series into one folder";
            Err(format!("the series {what} lies in {first} and in {second}; {advice}"))
        }
        _ => Err(format!("the series {} has no files", series.summary())),
    }
}
