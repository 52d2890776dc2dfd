//! The files of one slide: the instances of a series in a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dicom_dictionary_std::tags;

use super::WHOLE_SLIDE;
use super::header::{Header, Until};
use super::matrix::in_file;
use super::meta::{self, Meta};
use crate::error::{Fault, SlideError};
use crate::limits::Limits;
use crate::source::Source;

/// A file of a slide that was opened.
#[derive(Debug)]
pub(crate) struct Instance {
    /// The name in errors; empty if the slide's own name is used.
    pub name: String,
    pub source: Source,
    pub header: Header,
}

impl Instance {
    /// Reads a file's attributes up to its pixels.
    fn read(name: String, source: Source, limits: &Limits) -> Result<Self, Fault> {
        let header = Header::read(&source, limits, Until::Pixels).map_err(|fault| in_file(fault, &name))?;
        Ok(Instance { name, source, header })
    }

    /// Adds the file's name to an error.
    pub fn within<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        work().map_err(|fault| in_file(fault, &self.name))
    }
}

/// The images of a slide.
#[derive(Debug)]
pub(crate) struct Series {
    /// The files of the pyramid's levels, one image each: the ordered parts of a concatenation.
    pub levels: Vec<Vec<Instance>>,
    /// The files of `label`, `macro` and `thumbnail`.
    pub associated: BTreeMap<String, Vec<Instance>>,
}

/// A file that may belong to a slide, read up to the attributes of its frames.
struct Found {
    path: PathBuf,
    header: Header,
    role: String,
}

impl Found {
    /// Reads a file; `None` if it is not DICOM, or not a whole-slide image.
    fn read(path: &Path, limits: &Limits) -> Result<Option<Self>, Fault> {
        let source = Source::open(path)?;
        if !is_whole_slide(&source)? {
            return Ok(None);
        }
        let header = Header::read(&source, limits, Until::Frames)?;
        let role = role(&header);
        Ok(Some(Found { path: path.to_owned(), header, role }))
    }

    fn text(&self, tag: dicom_core::Tag) -> String {
        self.header.text(tag).unwrap_or_default()
    }

    fn series(&self) -> String {
        self.text(tags::SERIES_INSTANCE_UID)
    }

    /// The identity of the pyramid: images with the same identity are its levels.
    fn pyramid(&self) -> (String, String) {
        (self.text(tags::FRAME_OF_REFERENCE_UID), self.text(tags::PYRAMID_UID))
    }

    fn is_level(&self) -> bool {
        self.role == VOLUME
    }

    fn size(&self) -> (i64, i64) {
        let side = |tag| self.header.int(tag).ok().flatten().unwrap_or(0);
        (side(tags::TOTAL_PIXEL_MATRIX_COLUMNS), side(tags::TOTAL_PIXEL_MATRIX_ROWS))
    }

    /// The number of pixels of its image.
    fn area(&self) -> i128 {
        let (width, height) = self.size();
        i128::from(width) * i128::from(height)
    }
}

/// The third value of ImageType for the images of a pyramid.
const VOLUME: &str = "VOLUME";

/// The third value of ImageType.
fn role(header: &Header) -> String {
    let kind = header.text(tags::IMAGE_TYPE).unwrap_or_default();
    kind.split('\\').nth(2).unwrap_or_default().trim().to_uppercase()
}

/// OpenSlide's name of an associated image.
fn associated_name(role: &str) -> Option<&'static str> {
    match role {
        "LABEL" => Some("label"),
        "OVERVIEW" => Some("macro"),
        "THUMBNAIL" => Some("thumbnail"),
        _ => None,
    }
}

/// Whether to read a file as DICOM. The bytes before `DICM` may be a TIFF header; such files are
/// read as DICOM if they are whole slides, because DICOM defines their other levels.
pub(crate) fn reads_as_dicom(source: &Source) -> bool {
    let tiff = || source.read(0, 2, "the header").is_ok_and(|start| start == b"II" || start == b"MM");
    meta::is_dicom(source) && (!tiff() || is_whole_slide(source).unwrap_or(false))
}

/// Whether a file is a whole-slide image; damaged DICOM files are errors.
fn is_whole_slide(source: &Source) -> Result<bool, Fault> {
    if !meta::is_dicom(source) {
        return Ok(false);
    }
    let meta = Meta::read(source)?;
    if meta.class.is_empty() {
        return Ok(Header::read(source, &Limits::default(), Until::Frames)?.class() == WHOLE_SLIDE);
    }
    Ok(meta.class == WHOLE_SLIDE)
}

impl Series {
    /// The slide of a file or of a folder.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Fault> {
        if path.is_dir() {
            let found = scan(path, limits)?;
            return Self::of_folder(path, found, limits);
        }
        let source = Source::open(path)?;
        let given = Header::read(&source, limits, Until::Frames)?;
        check_class(&given)?;
        let given = Found { path: path.to_owned(), role: role(&given), header: given };
        let series = given.series();
        let mut all = Vec::new();
        // A file without a series, or in a folder that cannot be listed, is a complete slide.
        if !series.is_empty() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let same = |other: &Found| other.series() == series && other.path.file_name() != path.file_name();
            all = scan(folder, limits)?.into_iter().filter(same).collect();
        }
        all.insert(0, given);
        Self::assemble(path, all, true, limits)
    }

    /// The slide of a file in memory.
    pub fn of_source(source: Source, limits: &Limits) -> Result<Self, Fault> {
        let instance = Instance::read(String::new(), source, limits)?;
        check_class(&instance.header)?;
        let role = role(&instance.header);
        if role != VOLUME {
            return Err(no_levels(std::iter::once(role.as_str())));
        }
        check_concatenation(std::slice::from_ref(&instance))?;
        Ok(Series { levels: vec![vec![instance]], associated: BTreeMap::new() })
    }

    fn of_folder(folder: &Path, found: Vec<Found>, limits: &Limits) -> Result<Self, Fault> {
        let mut slides: BTreeMap<String, Vec<&Found>> = BTreeMap::new();
        for file in found.iter().filter(|file| file.is_level()) {
            slides.entry(file.series()).or_default().push(file);
        }
        if slides.len() > 1 {
            let lines: Vec<String> = slides.iter().map(|(series, files)| line(series, files)).collect();
            return Err(Fault::unsupported(format!(
                "a folder with {} slides, expected one; open a file of one of them:\n  {}",
                slides.len(),
                lines.join("\n  ")
            )));
        }
        let Some(series) = slides.into_keys().next() else {
            if found.is_empty() {
                return Err(Fault::NotTiff("a folder without DICOM whole-slide images".into()));
            }
            return Err(no_levels(found.iter().map(|file| file.role.as_str())));
        };
        let found = found.into_iter().filter(|file| file.series() == series).collect();
        Self::assemble(folder, found, false, limits)
    }

    /// Sorts the files of one series by their roles. With `first`, the first file was requested: it
    /// takes precedence over others of its size.
    fn assemble(path: &Path, found: Vec<Found>, first: bool, limits: &Limits) -> Result<Self, Fault> {
        let pyramid = match found.first().filter(|file| first && file.is_level()) {
            Some(given) => given.pyramid(),
            None => {
                let mut all: Vec<_> = found.iter().filter(|file| file.is_level()).map(Found::pyramid).collect();
                all.sort_unstable();
                all.dedup();
                match all.len() {
                    0 => return Err(no_levels(found.iter().map(|file| file.role.as_str()))),
                    1 => all.remove(0),
                    n => {
                        return Err(Fault::unsupported(format!(
                            "a series with {n} pyramids (of other FrameOfReferenceUID or PyramidUID), expected one; \
                             open a file of one of them"
                        )));
                    }
                }
            }
        };
        let mut levels: Vec<Vec<Found>> = Vec::new();
        let mut others: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        for file in found {
            if file.is_level() {
                if file.pyramid() == pyramid {
                    add(&mut levels, file);
                }
            } else if let Some(name) = associated_name(&file.role) {
                let mut images = vec![others.remove(name).unwrap_or_default()];
                images.retain(|image| !image.is_empty());
                add(&mut images, file);
                others.insert(name.to_owned(), images.swap_remove(0));
            }
        }
        levels.sort_by_key(|files| std::cmp::Reverse(files[0].area()));
        let open = |files: Vec<Found>| -> Result<Vec<Instance>, Fault> {
            let mut parts: Vec<Instance> =
                files.into_iter().map(|file| reopen(file, path, limits)).collect::<Result<_, _>>()?;
            if parts.len() > 1 {
                parts.sort_by_key(part_number);
            }
            check_concatenation(&parts)?;
            Ok(parts)
        };
        Ok(Series {
            levels: levels.into_iter().map(open).collect::<Result<_, _>>()?,
            associated: others
                .into_iter()
                .map(|(name, files)| Ok((name, open(files)?)))
                .collect::<Result<_, Fault>>()?,
        })
    }
}

/// Adds a file to the image that it is a part of, or as a new image; of images of one size (focal
/// planes, copies) the first is kept.
fn add(images: &mut Vec<Vec<Found>>, file: Found) {
    let whole = file.text(tags::CONCATENATION_UID);
    let same = |files: &&mut Vec<Found>| !whole.is_empty() && files[0].text(tags::CONCATENATION_UID) == whole;
    if let Some(image) = images.iter_mut().find(same) {
        image.push(file);
    } else if images.iter().all(|files| files[0].size() != file.size()) {
        images.push(vec![file]);
    }
}

/// Reads all of a file's attributes.
fn reopen(file: Found, slide: &Path, limits: &Limits) -> Result<Instance, Fault> {
    let name = match file.path == slide {
        true => String::new(),
        false => file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let source = Source::open(&file.path).map_err(|fault| in_file(fault, &name))?;
    Instance::read(name, source, limits)
}

/// The whole-slide images of a folder by name, without subfolders.
fn scan(folder: &Path, limits: &Limits) -> Result<Vec<Found>, Fault> {
    let mut found = Vec::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match Found::read(&path, limits) {
            Ok(file) => found.extend(file),
            // Unreadable files of other users are not part of the slide.
            Err(Fault::Io(_)) => {}
            Err(fault) => {
                let fault = fault.within(|| format!("{name} may be a level of the slide, but cannot be read"));
                return Err(match fault {
                    Fault::Damaged(what) => Fault::Damaged(format!("{what}; repair it, or move it to another folder")),
                    other => other,
                });
            }
        }
    }
    Ok(found)
}

/// The regular files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A line that describes one of several slides.
fn line(series: &str, files: &[&Found]) -> String {
    let largest = files.iter().max_by_key(|file| file.area());
    let (width, height) = largest.map_or((0, 0), |file| file.size());
    let name = largest.and_then(|file| file.path.file_name()).unwrap_or_default().to_string_lossy().into_owned();
    format!("series {series}: {} files, {width} x {height} pixels, {name}", files.len())
}

fn check_class(header: &Header) -> Result<(), Fault> {
    if header.class() == WHOLE_SLIDE {
        return Ok(());
    }
    let modality = header.text(tags::MODALITY).unwrap_or_else(|| "unknown".into());
    Err(Fault::unsupported(format!(
        "a DICOM file of modality {modality} (SOP class {}), not a whole-slide image (VL Whole Slide Microscopy Image \
         Storage, {WHOLE_SLIDE}); read it as an image or a segmentation, not as a slide",
        header.class()
    )))
}

fn no_levels<'a>(roles: impl Iterator<Item = &'a str>) -> Fault {
    let mut roles: Vec<&str> = roles.collect();
    roles.sort_unstable();
    roles.dedup();
    Fault::unsupported(format!(
        "no image of the slide itself (ImageType VOLUME), only {}; put the other files of its series into the folder",
        roles.join(", ")
    ))
}

fn part_number(part: &Instance) -> i64 {
    part.header.int(tags::IN_CONCATENATION_NUMBER).ok().flatten().unwrap_or(0)
}

/// Checks that each part of a concatenation exists exactly once.
fn check_concatenation(parts: &[Instance]) -> Result<(), Fault> {
    let header = &parts[0].header;
    if header.text(tags::CONCATENATION_UID).is_none() {
        return Ok(());
    }
    let total = header.int(tags::IN_CONCATENATION_TOTAL_NUMBER)?;
    let numbers: Vec<i64> = parts.iter().map(part_number).collect();
    let mut frames = 0;
    for (at, part) in parts.iter().enumerate() {
        let offset = part.header.int(tags::CONCATENATION_FRAME_OFFSET_NUMBER)?;
        if numbers[at] != at as i64 + 1 || offset.is_some_and(|offset| offset != frames) {
            return Err(Fault::damaged(format!(
                "the parts {numbers:?} of a concatenation do not follow each other: one is missing from the folder, or \
                 is there twice"
            )));
        }
        frames += part.header.int(tags::NUMBER_OF_FRAMES)?.unwrap_or(1).clamp(0, i64::from(i32::MAX));
    }
    match total.filter(|total| *total != parts.len() as i64) {
        Some(total) => {
            Err(Fault::damaged(format!("{} of {total} parts of a concatenation are in the folder", parts.len())))
        }
        None => Ok(()),
    }
}

/// Whether a path is a DICOM whole-slide image: a file of that SOP class, or a folder that contains
/// one. Decided by content, since a `.dcm` file may be any image.
pub fn is_dicom_slide(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let is_slide = |path: &Path| Source::open(path).and_then(|source| is_whole_slide(&source)).unwrap_or(false);
    if path.is_dir() {
        return files(path).is_ok_and(|files| files.iter().any(|path| is_slide(path)));
    }
    path.is_file() && is_slide(path)
}

/// The DICOM slides of a folder, sorted: for each slide, the file of its largest level, with which
/// [`Slide::open`](crate::Slide::open) opens the others.
///
/// # Errors
/// If the folder cannot be listed, or a whole-slide image in it is damaged.
pub fn dicom_slides(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, SlideError> {
    let folder = folder.as_ref();
    let found = scan(folder, &Limits::default()).map_err(|fault| fault.of(folder))?;
    let mut slides: BTreeMap<String, &Found> = BTreeMap::new();
    for file in found.iter().filter(|file| file.is_level()) {
        let largest = slides.entry(file.series()).or_insert(file);
        if file.area() > largest.area() {
            *largest = file;
        }
    }
    let mut paths: Vec<PathBuf> = slides.into_values().map(|file| file.path.clone()).collect();
    paths.sort_unstable();
    Ok(paths)
}
