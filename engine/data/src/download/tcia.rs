//! Collections of The Cancer Imaging Archive: [`Tcia`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::DownloadError;
use super::archive::{ArchiveLimits, unpack};
use super::fetch::{Checksum, FetchOptions, fetch, with_suffix};
use crate::{DataError, Item};

/// The archive's service.
const BASE: &str = "https://services.cancerimagingarchive.net/nbia-api/services/v1";
/// A larger answer is refused.
const MAX_ANSWER: u64 = 256 << 20;
/// What the archive puts beside the files of a series: their names and MD5 sums.
const SUMS: &str = "md5hashes.csv";

/// What a segmentation series says of itself and of the images it was drawn on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segmentation {
    /// PatientID (0010,0020), else PatientName.
    pub patient: String,
    /// SeriesNumber (0020,0011), else AcquisitionNumber, else 0.
    pub number: i64,
    /// StudyInstanceUID (0020,000D).
    pub study: String,
    /// SeriesInstanceUIDs (0020,000E) found in its sequences: the series that it refers to, the first one first.
    pub series: Vec<String>,
    /// ReferencedSOPInstanceUIDs (0008,1155) found in its sequences: used where it names no series.
    pub instances: Vec<String>,
}

/// Reads the headers of a DICOM folder: whoever has a DICOM reader implements it in a few lines.
pub trait ReadSegmentation {
    /// What the segmentation in this folder says.
    ///
    /// # Errors
    /// Where there is none, or it can't be read.
    fn read(&self, folder: &Path) -> Result<Segmentation, DataError>;
}

/// What of a collection is downloaded.
#[derive(Clone, Debug)]
pub struct TciaOptions {
    /// Modality of the segmentations.
    pub modality: String,
    /// At most so many of them; all if not given.
    pub limit: Option<usize>,
    /// Another place that answers like the archive.
    pub base: Option<String>,
    /// How files are fetched.
    pub fetch: FetchOptions,
}

impl Default for TciaOptions {
    fn default() -> Self {
        TciaOptions { modality: "SEG".to_owned(), limit: None, base: None, fetch: FetchOptions::default() }
    }
}

/// Segmentations of a collection and the images they belong to: `DIR/PATIENT/NUMBER/image` and `.../seg`, folders of DICOM files.
#[derive(Clone, Debug)]
pub struct Tcia {
    dir: PathBuf,
}

impl Tcia {
    /// Downloads a collection into `dir`. Series that are there already are not fetched again; files are checked against the sums
    /// that the archive sends with them.
    ///
    /// # Errors
    /// Where the service does not answer, a file is damaged, or a segmentation refers to nothing that can be found.
    pub fn download(
        collection: &str,
        dir: impl Into<PathBuf>,
        reader: &dyn ReadSegmentation,
        options: &TciaOptions,
    ) -> Result<Self, DownloadError> {
        let dir = dir.into();
        let service = Service { base: options.base.as_deref().unwrap_or(BASE).trim_end_matches('/'), options };
        let mut series = service.list("getSeries", &[("Collection", collection), ("Modality", &options.modality)])?;
        // The order of the answer is nobody's promise.
        series.sort();
        if series.is_empty() {
            let what = format!("the collection {collection:?} has no series of modality {}", options.modality);
            return Err(DownloadError::Answer { url: service.base.to_owned(), what });
        }
        series.truncate(options.limit.unwrap_or(usize::MAX));
        for uid in &series {
            service.case(&dir, uid, reader)?;
        }
        let raw = dir.join("raw");
        if raw.exists() {
            fs::remove_dir_all(&raw).map_err(DownloadError::io(&raw))?;
        }
        Ok(Tcia { dir })
    }

    /// A collection that was downloaded before.
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Tcia { dir: dir.into() }
    }

    /// The cases (`image`, `seg`: folders), sorted by patient and number, so that a split does not depend on the file system.
    ///
    /// # Errors
    /// Where the folder can't be read or has no case.
    pub fn cases(&self) -> Result<Vec<Item>, DataError> {
        let mut items = Vec::new();
        for (patient, folder) in folders(&self.dir)? {
            for (number, folder) in folders(&folder)? {
                let (image, seg) = (folder.join("image"), folder.join("seg"));
                if image.is_dir() && seg.is_dir() {
                    items.push(Item::new(format!("{patient}/{number}")).with("image", image).with("seg", seg));
                }
            }
        }
        if items.is_empty() {
            return Err(DataError::List {
                path: self.dir.clone(),
                what: "holds no case: expected PATIENT/NUMBER/image and PATIENT/NUMBER/seg".to_owned(),
            });
        }
        Ok(items)
    }
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

struct Service<'a> {
    base: &'a str,
    options: &'a TciaOptions,
}

impl Service<'_> {
    fn url(&self, query: &str, parameters: &[(&str, &str)]) -> String {
        let pairs: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        format!("{}/{query}?{}", self.base, pairs.join("&"))
    }

    /// The UIDs in the answer to a query: of series, or of instances.
    fn list(&self, query: &str, parameters: &[(&str, &str)]) -> Result<Vec<String>, DownloadError> {
        let url = self.url(query, parameters);
        let dir = tempfile::tempdir().map_err(DownloadError::io(Path::new("the folder for temporary files")))?;
        let path = dir.path().join("answer.json");
        let options =
            FetchOptions { max_bytes: MAX_ANSWER, progress: crate::Progress::None, ..self.options.fetch.clone() };
        fetch(&url, &path, None, &options)?;
        let text = fs::read(&path).map_err(DownloadError::io(&path))?;
        let wrong = |what: String| DownloadError::Answer { url: url.clone(), what };
        if text.is_empty() {
            // What the service says for "none".
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

    /// Fetches a segmentation and what it was drawn on.
    fn case(&self, dir: &Path, uid: &str, reader: &dyn ReadSegmentation) -> Result<(), DownloadError> {
        let raw = dir.join("raw").join(uid);
        self.series(uid, &raw)?;
        let data = |error| DownloadError::Data(Box::new(error));
        let segmentation = reader.read(&raw).map_err(data)?;
        let place = dir.join(as_name(&segmentation.patient)).join(segmentation.number.to_string());
        let seg = place.join("seg");
        if !seg.exists() {
            let image = self.reference(&segmentation)?.ok_or_else(|| {
                let what = "refers to no series of images that the archive has".to_owned();
                data(DataError::List { path: raw.clone(), what })
            })?;
            self.series(&image, &place.join("image"))?;
            fs::rename(&raw, &seg).map_err(DownloadError::io(&seg))?;
        }
        Ok(())
    }

    /// The series of images that a segmentation was drawn on.
    fn reference(&self, segmentation: &Segmentation) -> Result<Option<String>, DownloadError> {
        if let Some(series) = segmentation.series.iter().find(|uid| is_uid(uid)) {
            return Ok(Some(series.clone()));
        }
        let Some(instance) = segmentation.instances.first() else { return Ok(None) };
        for series in self.list("getSeries", &[("StudyInstanceUID", &segmentation.study)])? {
            if self.list("getSOPInstanceUIDs", &[("SeriesInstanceUID", &series)])?.contains(instance) {
                return Ok(Some(series));
            }
        }
        Ok(None)
    }

    /// Fetches a series into a folder, unless it is there.
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
        // A damaged archive must not be taken for a whole one the next time.
        fs::remove_file(&archive).map_err(DownloadError::io(&archive))?;
        checked?;
        fs::rename(&beside, into).map_err(DownloadError::io(into))
    }
}

/// Checks the files of a series against the list that came with them.
fn check_sums(dir: &Path) -> Result<(), DownloadError> {
    let path = dir.join(SUMS);
    let wrong = |what: String| DownloadError::Archive { path: path.clone(), what };
    let text = fs::read_to_string(&path).map_err(DownloadError::io(&path))?;
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

/// Digits and dots: what may become part of a path and of a query.
fn is_uid(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && !text.contains("..")
}

/// A patient's name as the name of a folder.
fn as_name(patient: &str) -> String {
    let name: String = patient
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
        .collect();
    if name.trim_matches('.').is_empty() { "patient".to_owned() } else { name }
}

/// A value in a query.
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
