//! The content of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dicom_dictionary_std::tags;
use rayon::prelude::*;

use crate::dicomdir;
use crate::error::DicomError;
use crate::finding::{Finding, FindingKind, Severity};
use crate::image::{Identity, ImageFile};
use crate::open::{Opened, open};
use crate::options::ReadOptions;
use crate::rtstruct;
use crate::seg;
use crate::series::Series;
use crate::stack::{Slice, stacks};
use crate::tags::Attributes;
use crate::volume::Volume;
use crate::volumes;

/// The content of a folder or of a list of files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Scan {
    /// Series of images, by patient, series number and UID.
    pub series: Vec<Series>,
    /// RTSTRUCT and SEG objects.
    pub annotations: Vec<Annotation>,
    /// Other DICOM objects: reports, plans, presentation states, whole slides, a DICOMDIR (the
    /// files themselves are inspected instead).
    pub others: Vec<OtherObject>,
    /// The number of skipped files that are not DICOM.
    pub not_dicom: usize,
    /// DICOM files that cannot be used.
    pub failed: Vec<FailedFile>,
}

/// A DICOM file that cannot be used: damaged, or of a kind that is not supported.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedFile {
    /// The file.
    pub path: PathBuf,
    /// The SeriesInstanceUID; empty if the header cannot be read or has none.
    pub series: String,
    /// The modality; empty if the header cannot be read or has none.
    pub modality: String,
    /// The reason.
    pub error: DicomError,
}

/// The kind of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnnotationKind {
    /// RTSTRUCT: [`crate::StructureSet`].
    StructureSet,
    /// SEG: [`crate::Segmentation`].
    Segmentation,
}

/// An RTSTRUCT or SEG object, and the images it was drawn on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotation {
    /// The file.
    pub path: PathBuf,
    /// The kind.
    pub kind: AnnotationKind,
    /// SeriesInstanceUIDs of the images it was drawn on; if the usual sequences name none, those in
    /// any of its sequences.
    pub referenced_series: Vec<String>,
    /// ReferencedSOPInstanceUIDs in all its sequences: of images, and of other objects that it
    /// refers to.
    pub referenced_instances: Vec<String>,
    /// The frame of reference.
    pub frame_of_reference: Option<String>,
    /// StudyInstanceUID; empty if missing.
    pub study: String,
    /// PatientID, else PatientName.
    pub patient: Option<String>,
    /// SeriesNumber, else AcquisitionNumber.
    pub series_number: Option<i64>,
}

/// A DICOM object that is not a supported image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherObject {
    /// The file.
    pub path: PathBuf,
    /// The modality: `SR`, `RTPLAN`, `SM`, ...; empty if missing.
    pub modality: String,
    /// SOPClassUID.
    pub sop_class: String,
}

/// Inspects a file, or all files of a folder and its subfolders, with default options. Pixels are
/// not read. A DICOMDIR is read as its folder.
///
/// # Errors
/// If the path cannot be read, or has too many files. Errors of single files are in
/// [`Scan::failed`].
pub fn scan(path: impl AsRef<Path>) -> Result<Scan, DicomError> {
    scan_with(path, &ReadOptions::default())
}

/// Inspects a file, or all files of a folder and its subfolders.
///
/// # Errors
/// As [`scan`].
pub fn scan_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Scan, DicomError> {
    let mut files = Vec::new();
    let path = path.as_ref();
    collect(dicomdir::folder(path).unwrap_or(path), &mut files, options.limits.files)?;
    Ok(scan_files(&files, options))
}

/// Inspects some files.
pub fn scan_files(files: &[PathBuf], options: &ReadOptions) -> Scan {
    let looked: Vec<Result<Object, Box<FailedFile>>> = files.par_iter().map(|path| look(path, options)).collect();
    let mut scan = Scan::default();
    let mut groups: BTreeMap<GroupKey, Vec<Slice>> = BTreeMap::new();
    for object in looked {
        match object {
            Ok(Object::Image(file)) => {
                let slices = (0..file.frames.len()).map(|frame| Slice { file: file.clone(), frame });
                groups.entry(group_key(&file)).or_default().extend(slices);
            }
            Ok(Object::Annotation(annotation)) => scan.annotations.push(annotation),
            Ok(Object::Other(other)) => scan.others.push(other),
            Err(failed) if matches!(failed.error, DicomError::NotDicom { .. }) => scan.not_dicom += 1,
            Err(failed) => scan.failed.push(*failed),
        }
    }
    for ((_, folder), slices) in groups {
        let mut stacks = stacks(slices);
        volumes::name(&mut stacks);
        for mut stack in stacks {
            if let Some(folder) = &folder {
                let text = format!("no SeriesInstanceUID: the files of {} are treated as one series", folder.display());
                stack.findings.push(Finding::new(FindingKind::MissingSeries, Severity::Warning, text));
            }
            scan.series.push(Series::new(stack));
        }
    }
    // Stable: series of one UID keep their order.
    scan.series.sort_by(|a, b| {
        let key = |s: &Series| (s.patient().map(ToOwned::to_owned), s.number(), s.uid().to_owned());
        key(a).cmp(&key(b))
    });
    scan
}

/// Reads the one series of a folder, or one file.
///
/// # Errors
/// If there is no series of images, or more than one, or a file of it cannot be read; and as
/// [`Series::read_with`].
pub fn read_path(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Volume, DicomError> {
    let path = path.as_ref();
    scan_with(path, options)?.into_volume(path, options)
}

impl Scan {
    /// Reads the one series that was found at `path`. Files of other series that cannot be used are a
    /// finding; a file whose series is unknown may be a slice, and is an error.
    ///
    /// # Errors
    /// As [`read_path`].
    pub fn into_volume(mut self, path: impl AsRef<Path>, options: &ReadOptions) -> Result<Volume, DicomError> {
        let path = path.as_ref();
        if self.series.len() > 1 {
            let series = self.series.iter().map(Series::summary).collect();
            return Err(DicomError::Several { path: path.to_owned(), series });
        }
        if let Some(series) = self.series.pop() {
            let others = self.set_apart(&series);
            let count = self.failed.len();
            return match self.failed.into_iter().next() {
                None => series.read_with(options).map(|mut volume| {
                    volume.findings.extend(others);
                    volume
                }),
                // Otherwise the volume could silently be too short.
                Some(first) => {
                    Err(DicomError::Incomplete { path: path.to_owned(), first: Box::new(first.error), count })
                }
            };
        }
        if self.failed.len() == 1 {
            return Err(self.failed.remove(0).error);
        }
        if path.is_file() && self.not_dicom == 1 {
            return Err(DicomError::NotDicom { path: path.to_owned() });
        }
        let what = format!("no series of images; found {}", self.contents());
        Err(DicomError::Nothing { path: path.to_owned(), what })
    }

    /// Removes the unusable files of other series than this one, and returns a finding about them. A
    /// series with more unusable files than this one has slices is kept: it may be the one that is meant.
    fn set_apart(&mut self, chosen: &Series) -> Option<Finding> {
        let count = |uid: &str| self.failed.iter().filter(|failed| failed.series == uid).count();
        let is_other: Vec<bool> = self
            .failed
            .iter()
            .map(|failed| {
                let uid = failed.series.as_str();
                !uid.is_empty() && uid != chosen.uid() && count(uid) <= chosen.slices().len()
            })
            .collect();
        let mut is_other = is_other.into_iter();
        let (others, own) = self.failed.drain(..).partition(|_| is_other.next().unwrap_or(false));
        self.failed = own;
        let others: Vec<FailedFile> = others;
        let first = others.first()?;
        let text = format!("{} file(s) of other series cannot be used and are skipped: {}", others.len(), first.error);
        Some(Finding::new(FindingKind::OtherSeries, Severity::Warning, text))
    }

    /// A description for messages of what was found other than series.
    fn contents(&self) -> String {
        let mut parts = Vec::new();
        for annotation in &self.annotations {
            parts.push(match annotation.kind {
                AnnotationKind::StructureSet => "an RTSTRUCT (read it by `StructureSet::open`)".to_owned(),
                AnnotationKind::Segmentation => "a segmentation (read it by `Segmentation::open`)".to_owned(),
            });
        }
        for other in &self.others {
            parts.push(match other.modality.as_str() {
                "SM" => "a whole slide (its tiles do not form a volume; read it as a slide)".to_owned(),
                "" => format!("an object of class {:?}", other.sop_class),
                modality => format!("an object of modality {modality}"),
            });
        }
        parts.truncate(3);
        if !self.failed.is_empty() {
            parts.push(format!("{} damaged DICOM file(s), the first: {}", self.failed.len(), self.failed[0].error));
        }
        if self.not_dicom > 0 {
            parts.push(format!("{} file(s) that are not DICOM", self.not_dicom));
        }
        if parts.is_empty() { "no files".to_owned() } else { parts.join("; ") }
    }
}

/// All files under a path, sorted.
fn collect(path: &Path, files: &mut Vec<PathBuf>, limit: usize) -> Result<(), DicomError> {
    let io = |source| DicomError::Io { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(io)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    // Locks of editors are links to nothing.
    let hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    // A stack, not recursion, and no links to folders: loops are impossible.
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let io = |source| DicomError::Io { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_err(io)?;
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() || path.is_file() || (hearth_files::is_file_entry(&path) && !hidden(&entry)) {
                files.push(path);
            }
            if files.len() > limit {
                let what = format!("more than {limit} files (Limits::files)");
                return Err(DicomError::Limit { path: folder, what });
            }
        }
    }
    files.sort_unstable();
    Ok(())
}

/// The kind of one file.
enum Object {
    Image(Arc<ImageFile>),
    Annotation(Annotation),
    Other(OtherObject),
}

fn look(path: &Path, options: &ReadOptions) -> Result<Object, Box<FailedFile>> {
    let failed = |series, modality, error| Box::new(FailedFile { path: path.to_owned(), series, modality, error });
    let opened = open(path, &options.limits).map_err(|error| failed(String::new(), String::new(), error))?;
    let attributes = Attributes::new(&opened.object, path);
    let identity = Identity::read(&attributes);
    let annotation = |kind, mut referenced_series: Vec<String>| {
        if referenced_series.is_empty() {
            referenced_series = attributes.within_sequences(tags::SERIES_INSTANCE_UID);
        }
        Object::Annotation(Annotation {
            path: path.to_owned(),
            kind,
            referenced_series,
            referenced_instances: attributes.within_sequences(tags::REFERENCED_SOP_INSTANCE_UID),
            frame_of_reference: identity
                .frame_of_reference
                .clone()
                .or_else(|| rtstruct::frame_of_reference(&attributes)),
            study: identity.study.clone(),
            patient: identity.patient.clone().or_else(|| attributes.text(tags::PATIENT_NAME)),
            series_number: identity.series_number.or(identity.acquisition_number),
        })
    };
    if rtstruct::is_structure_set(&identity) {
        return Ok(annotation(AnnotationKind::StructureSet, rtstruct::referenced_series(&attributes)));
    }
    if seg::is_segmentation(&identity) {
        return Ok(annotation(AnnotationKind::Segmentation, seg::referenced_series(&attributes)));
    }
    let Opened { pixels: Some(element), .. } = &opened else { return Ok(other(path, identity)) };
    if identity.modality == "SM" {
        return Ok(other(path, identity));
    }
    let image = ImageFile::read(&opened, element, &options.limits);
    let image = image.map_err(|error| failed(identity.series, identity.modality, error))?;
    Ok(Object::Image(Arc::new(image)))
}

fn other(path: &Path, identity: Identity) -> Object {
    Object::Other(OtherObject { path: path.to_owned(), modality: identity.modality, sop_class: identity.sop_class })
}

/// The key that separates series: their UID, or the folder of files that have none.
type GroupKey = (String, Option<PathBuf>);

fn group_key(file: &ImageFile) -> GroupKey {
    let uid = file.identity.series.clone();
    let folder = uid.is_empty().then(|| file.path.parent().map(Path::to_owned).unwrap_or_default());
    (uid, folder)
}
