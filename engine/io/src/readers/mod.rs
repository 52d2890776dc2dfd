//! Readers, chosen by a file's content, then by its suffix.
//!
//! A custom reader takes precedence over the built-in ones where both recognize a file:
//!
//! ```
//! use hearth_io::readers::{self, Probe, ReadError, ReadOptions, Reader};
//! use hearth_image::{Image, affine, host_device};
//!
//! /// Text files of numbers, one image row per line.
//! struct TextReader;
//!
//! impl Reader for TextReader {
//!     fn name(&self) -> &'static str { "TextReader" }
//!     fn suffixes(&self) -> &[&str] { &[".txt"] }
//!     fn read(&self, path: &std::path::Path, _: &ReadOptions) -> Result<Image, ReadError> {
//!         let text = std::fs::read_to_string(path).map_err(|e| ReadError::new(path, e))?;
//!         let values: Result<Vec<f32>, _> = text.split_whitespace().map(str::parse).collect();
//!         let values = values.map_err(|e| ReadError::new(path, e))?;
//!         let rows = text.lines().count().max(1);
//!         let shape = [1, rows, values.len() / rows, 1];
//!         Ok(Image::from_values(values, shape, affine::IDENTITY, &host_device()).with_spatial_dims(2))
//!     }
//! }
//! readers::register(TextReader);
//! # let file = std::env::temp_dir().join("hearth-reader-example.txt");
//! # std::fs::write(&file, "1 2\n3 4\n").unwrap();
//! assert_eq!(readers::read_image(&file)?.shape(), [2, 2, 1]);
//! # Ok::<(), ReadError>(())
//! ```

mod data_files;
mod dicom;
mod dicom_regions;
mod foreign;
mod metaimage;
mod mgh;
mod nifti;
mod nnunet;
mod npy;
mod nrrd;
mod parts;
mod plugin;
mod raster;
mod raw_voxels;
mod segments;
mod tiff;
mod tiff_stack;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

pub use dicom::DicomReader;
pub use dicom::accepted;
pub use metaimage::MetaImageReader;
pub use mgh::MghReader;
pub use nifti::NiftiReader;
pub use nnunet::{NnunetReader, PREPROCESSED, labels_of, preprocessed_shape};
pub use npy::{NumpyReader, read_array};
pub use nrrd::NrrdReader;
pub use parts::{Parts, check_grid, read_parts};
pub use raster::RasterReader;
pub(crate) use raw_voxels::swapped;
pub use segments::{read_segments, require_segments, segments_overlap};
pub use tiff::{TiffReader, WSIReader, slide_region};

use hearth_dicom::quiet::caught;
use hearth_image::Image;
use hearth_machine::{check_free, readable};
use hearth_registry::component::is_of_a_plugin;
use hearth_registry::{Fault, Kind, Node, Place, Registry, explained, nearest};

/// Options of readers. Each reader uses only the options that apply to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Setters)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[setters(strip_option)]
pub struct ReadOptions {
    /// Name of the reader; by default it is chosen by content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub reader: Option<String>,
    /// The array of an NPZ file to read; by default the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub npz_key: Option<String>,
    /// The series of a folder with several: its UID, its description or a pattern of it, its number,
    /// or a rule, `most-slices` or `thinnest`; with `#` and a key one of its volumes, such as an echo.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub series: Option<String>,
    /// The segments of a DICOM segmentation (SEG) or a `.seg.nrrd`, or the regions of a structure set
    /// (RTSTRUCT), by name, description or pattern (`GTV*`): the first becomes 1, and so on. By default
    /// all, by their numbers in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub segments: Vec<String>,
    /// Alternative names of `segments`, for files that lack one: the first that exists is used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[setters(into)]
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Whether each segment becomes a channel, so that overlapping ones stay complete; otherwise
    /// they become a label map, in which later segments overwrite earlier ones.
    pub segments_as_channels: bool,
    /// The DICOM images (file or folder) that regions were drawn on: regions are read on their
    /// grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub reference: Option<PathBuf>,
    /// Faults of a DICOM series that are accepted, by name: `MissingSlices`, `DuplicateSlices`,
    /// `MissingPosition`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[setters(into)]
    pub accept: Vec<String>,
    /// The level of a whole-slide image.
    pub level: usize,
    /// Whether the first axis of pictures (PNG, JPEG, BMP, TIFF) is the width, as in MONAI's
    /// `PILReader`; otherwise it is the height.
    pub reverse_indexing: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            reader: None,
            npz_key: None,
            series: None,
            segments: Vec::new(),
            aliases: BTreeMap::new(),
            segments_as_channels: false,
            reference: None,
            accept: Vec::new(),
            level: 0,
            reverse_indexing: true,
        }
    }
}

/// A reader of one kind of file. The [module](self) has an example.
pub trait Reader: Send + Sync {
    /// The name of the reader: MONAI's, if MONAI has one.
    fn name(&self) -> &'static str;

    /// The suffixes of its files, in lower case, for instance `.nii.gz`.
    fn suffixes(&self) -> &[&str];

    /// Whether the file is of this kind. If no reader recognizes a file by its content, the suffix
    /// decides.
    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        let _ = probe;
        false
    }

    /// The priority: if several readers recognize a file, the one with the largest number is used.
    /// Built-in readers have less than 10.
    fn precedence(&self) -> u32 {
        10
    }

    /// What the keys of caches include besides the name: another version may read a file
    /// differently. `None` for readers of this program, whose own version is included anyway.
    fn version(&self) -> Option<String> {
        None
    }

    /// Reads an image onto the CPU.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another kind.
    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError>;
}

/// The properties of a file before it is read.
#[derive(Debug)]
pub struct Probe<'a> {
    /// Path of the file.
    pub path: &'a Path,
    /// Whether it is a folder.
    pub folder: bool,
    /// First 1024 bytes (fewer in a smaller file), unpacked if the file is gzip.
    pub start: &'a [u8],
}

/// The error of reading a file as an image.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .path.display(), why(.path, .source.as_ref()))]
pub struct ReadError {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ReadError {
    /// Creates an error with the file and the cause; the cause need not name the file again.
    pub fn new(path: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ReadError { path: path.to_owned(), source: why.into() }
    }

    /// The file that could not be read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cause, without the file's name in front.
    pub fn why(&self) -> String {
        why(&self.path, self.source.as_ref())
    }
}

/// Removes the file's name, which many causes include.
fn why(path: &Path, source: &(dyn std::error::Error + Send + Sync)) -> String {
    let text = source.to_string();
    let name = format!("{}: ", path.display());
    text.strip_prefix(&name).map_or_else(|| text.clone(), str::to_owned)
}

impl Kind for dyn Reader {
    const WORD: &'static str = "reader";

    fn is_spelt(known: &str, written: &str) -> bool {
        known.eq_ignore_ascii_case(written)
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Host)
    }
}

type Readers = Vec<Arc<dyn Reader>>;

/// Readers that a program adds at run time, the newest first.
fn added() -> &'static RwLock<Readers> {
    static READERS: RwLock<Readers> = RwLock::new(Vec::new());
    &READERS
}

/// Linked readers, in order of precedence.
fn linked() -> &'static Readers {
    static READERS: OnceLock<Readers> = OnceLock::new();
    READERS.get_or_init(|| {
        let registry = Registry::<dyn Reader>::new();
        let build = |name: &str| registry.build(&Node::named(name)).ok().map(Arc::from);
        let mut readers: Readers = registry.names().into_iter().filter_map(build).collect();
        readers.sort_by_key(|reader| std::cmp::Reverse(reader.precedence()));
        readers
    })
}

/// All readers, in order of precedence.
fn readers() -> Readers {
    let mut readers = added().read().unwrap_or_else(PoisonError::into_inner).clone();
    let others = linked().iter().filter(|reader| !readers.iter().any(|other| other.name() == reader.name()));
    let others: Readers = others.cloned().collect();
    readers.extend(others);
    readers
}

/// Adds a reader at run time, with precedence over the existing ones. A reader with the same name
/// is replaced. A reader that is registered next to its definition (`entry!(dyn Reader => ...)`)
/// need not be added.
pub fn register(reader: impl Reader + 'static) {
    let mut readers = added().write().unwrap_or_else(PoisonError::into_inner);
    readers.retain(|r| r.name() != reader.name());
    readers.insert(0, Arc::new(reader));
}

/// The names of all readers, in order of precedence.
pub fn reader_names() -> Vec<&'static str> {
    readers().iter().map(|r| r.name()).collect()
}

/// Reads a file, or a folder of files that form one image, onto the CPU.
///
/// # Errors
/// If the file does not exist, no reader recognizes it, or it is damaged.
pub fn read_image(path: impl AsRef<Path>) -> Result<Image, ReadError> {
    read_image_with(path, &ReadOptions::default())
}

/// Reads a file or folder like [`read_image`], with options.
///
/// # Errors
/// Those of [`read_image`], and if the options name a reader that does not exist.
pub fn read_image_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Image, ReadError> {
    let path = path.as_ref();
    let reader = match &options.reader {
        Some(name) => {
            check_regular(path)?;
            by_name(name).map_err(|fault| ReadError::new(path, fault.to_string()))?
        }
        None => choose(path)?,
    };
    // Third-party decoders may panic on damaged files: this is reported as the file's error.
    caught(|| reader.read(path, options)).unwrap_or_else(|panic| {
        Err(ReadError::new(path, format!("the file is damaged in a way that its decoder does not expect: {panic}")))
    })
}

/// The most memory that reading one image may take, in bytes.
static ROOM: AtomicU64 = AtomicU64::new(u64::MAX);

/// Limits the memory for reading an image, in the whole process: a server's clients may send small files
/// that unpack to large ones.
///
/// ```
/// hearth_io::readers::limit_room(8 << 30);
/// ```
pub fn limit_room(bytes: u64) {
    ROOM.store(bytes, Ordering::Relaxed);
}

/// The limit of [`limit_room`].
pub(crate) fn room() -> u64 {
    ROOM.load(Ordering::Relaxed)
}

/// Fails if reading would need more memory than this process may still use, or than is allowed.
pub(crate) fn check_room(bytes: u64) -> Result<(), String> {
    if bytes > room() {
        let [takes, limit] = [bytes, room()].map(readable);
        return Err(format!("reading it takes {takes} of memory, and the limit is {limit}"));
    }
    check_free(bytes).map_err(|what| format!("reading it {what}"))
}

/// Finds the reader of a file: the newest that recognizes its content, else the newest with its
/// suffix.
///
/// # Errors
/// If the file does not exist or no reader recognizes it.
pub fn choose(path: &Path) -> Result<Arc<dyn Reader>, ReadError> {
    check_regular(path)?;
    let readers = readers();
    let start = start(path)?;
    let probe = Probe { path, folder: path.is_dir(), start: &start };
    if let Some(reader) = readers.iter().find(|r| r.recognizes(&probe)) {
        return Ok(reader.clone());
    }
    let name = path.to_string_lossy().to_lowercase();
    let by_suffix = |r: &&Arc<dyn Reader>| !probe.folder && r.suffixes().iter().any(|s| name.ends_with(s));
    readers.iter().find(by_suffix).cloned().ok_or_else(|| {
        if let Some(what) = foreign::described(&name, &start).filter(|_| !probe.folder) {
            return ReadError::new(path, what);
        }
        let known: Vec<&str> = readers.iter().flat_map(|r| r.suffixes().iter().copied()).collect();
        let what =
            if probe.folder { "the folder holds no image that a reader knows" } else { "no reader knows this file" };
        ReadError::new(path, format!("{what}; expected one of {}", known.join(" ")))
    })
}

/// Finds a reader by its name, ignoring case, or by MONAI's aliases.
///
/// # Errors
/// If there is no such reader; the fault suggests a similar name.
pub fn by_name(name: &str) -> Result<Arc<dyn Reader>, Fault> {
    if is_of_a_plugin(name) {
        return plugin::find(name);
    }
    let wanted = Registry::<dyn Reader>::new().find(name).map_or(name, |entry| entry.name);
    let readers = readers();
    readers.iter().find(|r| r.name().eq_ignore_ascii_case(wanted)).cloned().ok_or_else(|| {
        if let Some(meaning) = explained("reader", name) {
            return Fault::new(format!("there is no reader {name:?}: {meaning}"));
        }
        let names: Vec<&str> = readers.iter().map(|r| r.name()).collect();
        Fault::new(format!("there is no reader {name:?}; known are {}", names.join(", ")))
            .meaning(nearest(name, names.iter().copied()))
    })
}

/// The files that are read together with a file although no list names them: those with the voxels that a
/// header of MetaImage or NRRD names, the other half of a NIfTI or Analyze pair, and SPM's `.mat` of it.
pub fn companions(path: &Path) -> Vec<PathBuf> {
    let name = path.to_string_lossy();
    let lower = name.to_lowercase();
    let ends = |ends: [&str; 2]| ends.iter().any(|end| lower.ends_with(end));
    let voxels = match () {
        () if ends([".mhd", ".mha"]) => metaimage::voxel_files(path),
        () if ends([".nhdr", ".nrrd"]) => nrrd::voxel_files(path),
        () => None,
    };
    if let Some(mut voxels) = voxels {
        voxels.retain(|path| path.is_file());
        return voxels;
    }
    let halves = [(".hdr.gz", ".img"), (".hdr", ".img"), (".img.gz", ".hdr"), (".img", ".hdr")];
    let Some((stem, other)) = halves.iter().find_map(|(this, other)| Some((name.strip_suffix(this)?, other))) else {
        return Vec::new();
    };
    let names = [format!("{stem}{other}"), format!("{stem}{other}.gz"), format!("{stem}.mat")];
    names.into_iter().map(PathBuf::from).filter(|path| path.is_file()).collect()
}

/// Rejects devices and pipes: reading them could block or never end. A missing path is an error, too.
fn check_regular(path: &Path) -> Result<(), ReadError> {
    let found = hearth_files::check_readable(path).and_then(|()| std::fs::metadata(path).map(drop));
    found.map_err(|e| ReadError::new(path, e))
}

/// The number of bytes that identify a file.
const START: u64 = 1024;

/// The first bytes of a file; empty for a folder.
fn start(path: &Path) -> Result<Vec<u8>, ReadError> {
    let error = |e: std::io::Error| ReadError::new(path, e);
    if path.is_dir() {
        return Ok(Vec::new());
    }
    let mut file = hearth_files::open(path).map_err(error)?;
    let mut bytes = Vec::new();
    file.by_ref().take(START).read_to_end(&mut bytes).map_err(error)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        // A broken stream is reported by the reader, which reads it whole.
        let _ = flate2::read::GzDecoder::new(&bytes[..]).take(START).read_to_end(&mut unpacked);
        return Ok(unpacked);
    }
    Ok(bytes)
}
