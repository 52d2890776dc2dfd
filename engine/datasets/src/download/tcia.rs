//! Collections of The Cancer Imaging Archive: [`Tcia`].

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use hearth_dicom::Annotation;
use serde_json::Value;

use super::DownloadError;
use super::archive::{ArchiveLimits, unpack};
use super::fetch::{Checksum, FetchOptions, fetch, with_suffix};
use crate::{DataError, Item};

/// The URL of the archive's service.
const BASE: &str = "https://services.cancerimagingarchive.net/nbia-api/services/v1";
/// The maximum number of bytes of an answer.
const MAX_ANSWER: u64 = 256 << 20;
/// The name of the index of series in the folder of a collection.
const INDEX: &str = "series.json";
/// The archive's list of a series' files: their names and MD5 sums.
const SUMS: &str = "md5hashes.csv";

/// The selection of a download.
#[derive(Clone, Debug)]
pub struct TciaOptions {
    /// Modality of the annotations: SEG, or RTSTRUCT.
    pub modality: String,
    /// Maximum number of annotations; by default all.
    pub limit: Option<usize>,
    /// Alternative server with the archive's API.
    pub base: Option<String>,
    /// How files are fetched.
    pub fetch: FetchOptions,
}

impl Default for TciaOptions {
    fn default() -> Self {
        TciaOptions { modality: "SEG".to_owned(), limit: None, base: None, fetch: FetchOptions::default() }
    }
}

/// Segmentations of a collection and the images they were drawn on: `DIR/PATIENT/NUMBER/image` and
/// `.../seg`, folders of DICOM files.
///
/// Patient and series number are those of the segmentation; a second one with the same number is
/// `NUMBER-2`.
#[derive(Clone, Debug)]
pub struct Tcia {
    dir: PathBuf,
}

impl Tcia {
    /// Downloads a collection into `dir`. Existing series are not downloaded again; files are
    /// compared with the MD5 sums that the archive sends with them.
    ///
    /// # Errors
    /// If the service does not answer, a file is damaged, or the images of a segmentation cannot be
    /// found.
    pub fn download(collection: &str, dir: impl Into<PathBuf>, options: &TciaOptions) -> Result<Self, DownloadError> {
        let dir = dir.into();
        let service = Service { base: options.base.as_deref().unwrap_or(BASE).trim_end_matches('/'), options };
        let mut series = service.list("getSeries", &[("Collection", collection), ("Modality", &options.modality)])?;
        // The order of the answer is not guaranteed.
        series.sort_unstable();
        if series.is_empty() {
            let what = format!("the collection {collection:?} has no series of modality {}", options.modality);
            return Err(DownloadError::Answer { url: service.base.to_owned(), what });
        }
        series.truncate(options.limit.unwrap_or(usize::MAX));
        let mut places = read_index(&dir);
        for uid in &series {
            let there = places.get(uid).map(|place| dir.join(place));
            if !there.is_some_and(|place| place.join("image").is_dir() && place.join("seg").is_dir()) {
                places.insert(uid.clone(), service.case(&dir, uid, &places)?);
                write_index(&dir, &places)?;
            }
        }
        let raw = dir.join("raw");
        if raw.exists() {
            fs::remove_dir_all(&raw).map_err(DownloadError::io(&raw))?;
        }
        Ok(Tcia { dir })
    }

    /// Opens a collection that was downloaded before.
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Tcia { dir: dir.into() }
    }

    /// Returns the cases (`image`, `seg`: folders), sorted by patient and number, so that a split
    /// does not depend on the file system.
    ///
    /// # Errors
    /// If the folder can't be read or has no case.
    pub fn cases(&self) -> Result<Vec<Item>, DataError> {
        let items = crate::dataset::collection(&self.dir)?;
        if items.is_empty() {
            return Err(DataError::List {
                path: self.dir.clone(),
                what: "holds no case: expected PATIENT/NUMBER/image and PATIENT/NUMBER/seg".to_owned(),
            });
        }
        Ok(items)
    }
}

/// The folders of series, by UID. An unreadable index is rebuilt.
fn read_index(dir: &Path) -> BTreeMap<String, String> {
    let text = hearth_files::read(dir.join(INDEX)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write_index(dir: &Path, places: &BTreeMap<String, String>) -> Result<(), DownloadError> {
    let path = dir.join(INDEX);
    let text = serde_json::to_vec_pretty(places).map_err(std::io::Error::from).map_err(DownloadError::io(&path))?;
    hearth_files::replace(&path, &text).map_err(DownloadError::io(&path))
}

struct Service<'a> {
    base: &'a str,
    options: &'a TciaOptions,
}

impl Service<'_> {
    fn url(&self, query: &str, parameters: &[(&str, &str)]) -> String {
        let pairs: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        format!("{}/{query}?{}", self.base, pairs.join("&"))
    }

    /// Returns the UIDs in the answer to a query: of series, or of instances.
    fn list(&self, query: &str, parameters: &[(&str, &str)]) -> Result<Vec<String>, DownloadError> {
        let url = self.url(query, parameters);
        let dir = hearth_files::Scratch::new("hearth-download-")
            .map_err(DownloadError::io(Path::new("the folder for temporary files")))?;
        let path = dir.path().join("answer.json");
        let options =
            FetchOptions { max_bytes: MAX_ANSWER, progress: crate::Progress::None, ..self.options.fetch.clone() };
        fetch(&url, &path, None, &options)?;
        let text = hearth_files::read(&path).map_err(DownloadError::io(&path))?;
        let wrong = |what: String| DownloadError::Answer { url: url.clone(), what };
        if text.is_empty() {
            // The service's answer for an empty result.
            return Ok(Vec::new());
        }
        let answer: Value = serde_json::from_slice(&text).map_err(|e| wrong(format!("the answer is not JSON: {e}")))?;
        let list = answer.as_array().ok_or_else(|| wrong("the answer is not a list".to_owned()))?;
        let uid = |entry: &Value| {
            let uid = entry["SeriesInstanceUID"].as_str().or(entry["SOPInstanceUID"].as_str())?;
            is_uid(uid).then(|| uid.to_owned())
        };
        list.iter().map(|entry| uid(entry).ok_or_else(|| wrong(format!("{entry} has no usable UID")))).collect()
    }

    /// Fetches a segmentation and its images; returns their folders.
    fn case(&self, dir: &Path, uid: &str, places: &BTreeMap<String, String>) -> Result<String, DownloadError> {
        let raw = dir.join("raw").join(uid);
        self.series(uid, &raw)?;
        let segmentation = segmentation(&raw)?;
        let name = free_place(&segmentation, uid, places);
        let place = dir.join(&name);
        let seg = place.join("seg");
        if !seg.exists() {
            let image = self.reference(&segmentation)?.ok_or_else(|| {
                let what = "refers to no series of images that the archive has".to_owned();
                DownloadError::Data(Box::new(DataError::List { path: segmentation.path.clone(), what }))
            })?;
            self.series(&image, &place.join("image"))?;
            fs::rename(&raw, &seg).map_err(DownloadError::io(&seg))?;
        }
        Ok(name)
    }

    /// The series of images that a segmentation was drawn on: the first that it references, else
    /// the one with most of the referenced images.
    fn reference(&self, segmentation: &Annotation) -> Result<Option<String>, DownloadError> {
        if let Some(series) = segmentation.referenced_series.iter().find(|uid| is_uid(uid)) {
            return Ok(Some(series.clone()));
        }
        if segmentation.study.is_empty() || segmentation.referenced_instances.is_empty() {
            return Ok(None);
        }
        let named: HashSet<&String> = segmentation.referenced_instances.iter().collect();
        let mut found: Option<(usize, String)> = None;
        for series in self.list("getSeries", &[("StudyInstanceUID", &segmentation.study)])? {
            let instances = self.list("getSOPInstanceUIDs", &[("SeriesInstanceUID", &series)])?;
            let count = instances.iter().filter(|uid| named.contains(uid)).count();
            if count > found.as_ref().map_or(0, |(most, _)| *most) {
                found = Some((count, series));
            }
        }
        Ok(found.map(|(_, series)| series))
    }

    /// Fetches a series into a folder, unless it exists.
    fn series(&self, uid: &str, into: &Path) -> Result<(), DownloadError> {
        if into.is_dir() {
            return Ok(());
        }
        let archive = with_suffix(into, ".zip");
        let url = self.url("getImageWithMD5Hash", &[("SeriesInstanceUID", uid)]);
        fetch(&url, &archive, None, &self.options.fetch)?;
        let beside = with_suffix(into, ".checking");
        if beside.exists() {
            fs::remove_dir_all(&beside).map_err(DownloadError::io(&beside))?;
        }
        let unpacked = unpack(&archive, &beside, ArchiveLimits::default(), self.options.fetch.progress);
        let checked = unpacked.and_then(|()| check_sums(&beside));
        // A damaged archive must not be used as a complete one in the next run.
        fs::remove_file(&archive).map_err(DownloadError::io(&archive))?;
        checked?;
        fs::rename(&beside, into).map_err(DownloadError::io(into))
    }
}

/// The annotation in the DICOM files of a folder.
fn segmentation(folder: &Path) -> Result<Annotation, DownloadError> {
    let mut scan = hearth_dicom::scan(folder)?;
    if !scan.annotations.is_empty() {
        return Ok(scan.annotations.swap_remove(0));
    }
    if !scan.failed.is_empty() {
        return Err(scan.failed.swap_remove(0).error.into());
    }
    let what = "holds no segmentation (SEG) or structure set (RTSTRUCT)".to_owned();
    Err(DownloadError::Data(Box::new(DataError::List { path: folder.to_owned(), what })))
}

/// `PATIENT/NUMBER`, with a counter appended where another segmentation has that name.
fn free_place(segmentation: &Annotation, uid: &str, places: &BTreeMap<String, String>) -> String {
    let patient = as_name(segmentation.patient.as_deref().unwrap_or_default());
    let first = format!("{patient}/{}", segmentation.series_number.unwrap_or_default());
    let taken = |name: &str| places.iter().any(|(other, place)| other != uid && place == name);
    let mut name = first.clone();
    let mut count = 1;
    while taken(&name) {
        count += 1;
        name = format!("{first}-{count}");
    }
    name
}

/// Checks the files of a series against the list that the archive sent with them.
fn check_sums(dir: &Path) -> Result<(), DownloadError> {
    let path = dir.join(SUMS);
    let wrong = |what: String| DownloadError::Archive { path: path.clone(), what };
    let text = hearth_files::read_to_string(&path).map_err(DownloadError::io(&path))?;
    let mut checked = 0;
    for (number, line) in text.lines().enumerate() {
        let Some((name, sum)) = line.rsplit_once(',') else { continue };
        let (name, sum) = (name.trim().trim_matches('"'), sum.trim().trim_matches('"'));
        if sum.len() != 32 || !sum.bytes().all(|b| b.is_ascii_hexdigit()) {
            // The first line names the columns.
            if number == 0 {
                continue;
            }
            return Err(wrong(format!("line {}: {sum:?} is not an MD5 sum", number + 1)));
        }
        let file = Path::new(name).file_name().ok_or_else(|| wrong(format!("line {}: no file name", number + 1)))?;
        Checksum::Md5(sum.to_owned()).check(&dir.join(file))?;
        checked += 1;
    }
    if checked == 0 {
        return Err(wrong("lists no file".to_owned()));
    }
    Ok(())
}

/// Whether a text has only digits and dots, which are safe in a path and a query.
fn is_uid(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && !text.contains("..")
}

/// Converts a patient's name to the name of a folder.
fn as_name(patient: &str) -> String {
    let name: String = patient
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
        .collect();
    if name.trim_matches('.').is_empty() { "patient".to_owned() } else { name }
}

/// Escapes a value in a query.
fn escaped(value: &str) -> String {
    let byte = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    value.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_queries_are_harmless() {
        assert_eq!(as_name("../../etc"), ".._.._etc");
        assert_eq!((as_name(".."), as_name(" ")), ("patient".to_owned(), "patient".to_owned()));
        assert_eq!(as_name("LUNG1-001"), "LUNG1-001");
        assert_eq!(escaped("C4KC-KiTS & more"), "C4KC-KiTS%20%26%20more");
        assert!(is_uid("1.2.840.10008") && !is_uid("1..2") && !is_uid("../1") && !is_uid(""));
    }
}
