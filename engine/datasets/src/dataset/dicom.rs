//! Cases of a folder of DICOM: images and their annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hearth_dicom::{AnnotationKind, Pair, Series};

use super::{Field, Item};
use crate::DataError;

/// The cases of a folder of DICOM, sorted by patient and series number, so that a split does not
/// depend on the file system. Each has the files `image`, a folder of one series, and `seg`, the
/// structure set (RTSTRUCT) or segmentation (SEG) that was drawn on it; its name is
/// `PATIENT/NUMBER`. One of several volumes of a series, such as an echo, is named by the texts
/// `image_series` and `seg_series`.
///
/// The folder has the structure that `hearth data download --tcia` creates (`PATIENT/NUMBER/image`
/// and `.../seg`), or any other: then the headers of all files determine which images a structure
/// set or segmentation was drawn on ([`Scan::pairs`](hearth_dicom::Scan::pairs)). An annotation
/// whose images are missing is skipped with a warning if its patient has another annotation, or no
/// images.
///
/// # Errors
/// If the folder can't be read or has no case, the only annotation of a patient belongs to a series
/// outside the folder, or a folder holds the images of several series.
pub fn dicom_items(dir: impl AsRef<Path>) -> Result<Vec<Item>, DataError> {
    dicom_items_preferring(dir, AnnotationKind::Segmentation)
}

/// Like [`dicom_items`], for series that have both a segmentation and a structure set, as in the
/// collection NSCLC-Radiomics: they become one case, with the file of the preferred kind. Otherwise
/// the same image could be used for both training and validation.
///
/// # Errors
/// Those of [`dicom_items`].
pub fn dicom_items_preferring(dir: impl AsRef<Path>, kind: AnnotationKind) -> Result<Vec<Item>, DataError> {
    let dir = dir.as_ref();
    let items = collection(dir)?;
    if items.is_empty() { scanned(dir, kind) } else { Ok(items) }
}

/// The cases of a folder with the structure `PATIENT/NUMBER/image` and `.../seg`; empty if the
/// folder has another structure.
pub(crate) fn collection(dir: &Path) -> Result<Vec<Item>, DataError> {
    let mut items = Vec::new();
    for (patient, folder) in folders(dir)? {
        for (number, folder) in folders(&folder)? {
            let (image, seg) = (folder.join("image"), folder.join("seg"));
            if image.is_dir() && seg.is_dir() {
                let item = Item::new(format!("{patient}/{number}")).with("image", image).with("seg", seg);
                items.push(item.with_field("patient", Field::Text(patient.clone())));
            }
        }
    }
    Ok(items)
}

fn folders(dir: &Path) -> Result<BTreeMap<String, PathBuf>, DataError> {
    let io = |source| DataError::Io { path: dir.to_owned(), source };
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.path().is_dir() {
            out.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
        }
    }
    Ok(out)
}

/// Cases from the headers of all files.
fn scanned(dir: &Path, kind: AnnotationKind) -> Result<Vec<Item>, DataError> {
    let wrong = |what: String| DataError::List { path: dir.to_owned(), what };
    let scan = hearth_dicom::scan(dir).map_err(|e| wrong(e.to_string()))?;
    let found = scan.pairs();
    if let Some(first) = scan.failed.first() {
        let count = scan.failed.len();
        tracing::warn!("{}: {count} file(s) of DICOM cannot be read and are skipped: {}", dir.display(), first.error);
    }
    let patients: BTreeSet<_> = found.pairs.iter().filter_map(|pair| pair.annotation.patient.as_deref()).collect();
    for (annotation, why) in &found.unpaired {
        // One of several annotations is skipped; a patient's only annotation is not, since the
        // patient would be lost.
        if let Some(patient) = annotation.patient.as_deref().filter(|patient| !patients.contains(patient)) {
            let series = scan.series.iter().filter(|series| series.patient() == Some(patient));
            let here: Vec<String> = series.map(Series::summary).collect();
            let file = annotation.path.display();
            if !here.is_empty() {
                let here = here.join(", ");
                return Err(wrong(format!(
                    "{file}: {why}; patient {patient} has no other annotation, and these series: {here}; add the \
                     series that it is of, or take the file out"
                )));
            }
        }
        tracing::warn!("{}: {why}: skipped", annotation.path.display());
    }
    if found.pairs.is_empty() {
        let what = match (scan.series.len(), scan.annotations.len()) {
            (0, 0) => "holds no DICOM".to_owned(),
            (series, 0) => format!("{series} series of images, but no structure set (RTSTRUCT) or segmentation (SEG)"),
            (series, drawn) => {
                format!("{drawn} structure sets or segmentations, none drawn on one of the {series} series here")
            }
        };
        return Err(wrong(what));
    }
    let is_preferred = |pair: &Pair| pair.annotation.kind == kind;
    let preferred: BTreeSet<String> = found.pairs.iter().filter(|p| is_preferred(p)).map(|p| p.image.name()).collect();
    let mut items: Vec<Item> = Vec::new();
    for pair in found.pairs.iter().filter(|p| is_preferred(p) || !preferred.contains(&p.image.name())) {
        let image = folder_of(&pair.image, &scan.series).map_err(wrong)?;
        let mut item = Item::new(name(pair, &items)).with("image", image).with("seg", &pair.annotation.path);
        if pair.image.key().is_some() {
            for key in ["image_series", "seg_series"] {
                item = item.with_field(key, Field::Text(pair.image.name()));
            }
        }
        if let Some(patient) = &pair.annotation.patient {
            item = item.with_field("patient", Field::Text(patient.clone()));
        }
        items.push(item);
    }
    Ok(items)
}

/// The folder that holds the files of this series and of no other. Volumes of one series share it.
fn folder_of(series: &Series, all: &[Series]) -> Result<PathBuf, String> {
    let folders = |series: &Series| -> BTreeSet<PathBuf> {
        series.files().iter().filter_map(|file| file.parent().map(Path::to_owned)).collect()
    };
    let own: Vec<PathBuf> = folders(series).into_iter().collect();
    let [folder] = own.as_slice() else {
        return Err(format!("the series {} lies in {} folders; expected a separate one", series.summary(), own.len()));
    };
    let lies_there = |other: &&Series| folders(other).iter().any(|path| path.starts_with(folder));
    let there: BTreeSet<&str> = all.iter().filter(lies_there).map(Series::uid).collect();
    match there.len() {
        0 | 1 => Ok(folder.clone()),
        several => Err(format!("{} holds {several} series of images; give each a folder of its own", folder.display())),
    }
}

/// `PATIENT/NUMBER`, with a counter appended where another case has that name.
fn name(pair: &Pair, others: &[Item]) -> String {
    let annotation = &pair.annotation;
    let patient = annotation.patient.as_deref().unwrap_or("patient");
    let first = format!("{patient}/{}", annotation.series_number.unwrap_or_default());
    let taken = |name: &str| others.iter().any(|item| item.case == name);
    let mut counted = (2..).map(|count| format!("{first}-{count}"));
    if taken(&first) { counted.find(|name| !taken(name)).unwrap_or(first) } else { first }
}
