//! A whole-slide image: levels, regions, associated images.

mod aperio;
mod dicom;
mod generic;
mod layout;
mod ome;
#[cfg(feature = "openslide")]
mod openslide;
mod philips;
mod pixels;
mod reduce;
mod resolution;
mod scaled;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use resolution::{RESOLUTION_TOLERANCE, Resolution};

use crate::cache::TileCache;
use crate::dicom::reads_as_dicom;
use crate::error::{Fault, SlideError};
use crate::limits::Limits;
use crate::raster::Raster;
use crate::region::Rect;
use crate::source::Source;
use pixels::{Pixels, TiffPixels};

/// One level of a slide: the same image with fewer pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Level {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of level-0 pixels per pixel: the mean of both axes, as in OpenSlide.
    pub downsample: f64,
    /// The width of a tile in pixels (for strips: the level's width).
    pub tile_width: usize,
    /// The number of rows of a tile or strip.
    pub tile_height: usize,
}

/// The fill value outside the slide, and for tiles that the file omits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// All channels at the maximum of u8 or u16 (other types: 0).
    #[default]
    White,
    /// All channels 0, full opacity.
    Black,
    /// A colour in u8, scaled to u16 (other types: 0); gray channels use the mean.
    Rgb([u8; 3]),
}

/// Options of opening a slide.
#[derive(Clone, Debug, Default)]
pub struct SlideOptions {
    /// The fill around the slide. Default white.
    pub background: Background,
    /// The cache of decoded tiles; by default [`TileCache::shared`].
    pub cache: Option<TileCache>,
    /// The memory limits.
    pub limits: Limits,
}

/// Counters of a slide since it was opened, for all clones together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Tiles and strips of levels that were decoded.
    pub tiles_decoded: u64,
    /// Tiles and strips that were requested, including those from the cache.
    pub tiles_wanted: u64,
}

/// A whole-slide image. Clones are cheap and share everything; any number of threads may read at
/// once.
///
/// ```no_run
/// use hearth_slides::Slide;
///
/// let slide = Slide::open("tumor_001.tif")?;
/// println!("{:?} at {:?} µm", slide.dimensions(), slide.mpp());
/// let region = slide.read_region(0, 30_000, 40_000, 768, 768)?;
/// let rgb = region.as_u8().expect("bright field");
/// # Ok::<(), hearth_slides::SlideError>(())
/// ```
#[derive(Clone)]
pub struct Slide {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    levels: Vec<Level>,
    mpp: Option<[f64; 2]>,
    power: Option<f64>,
    vendor: String,
    properties: BTreeMap<String, String>,
    associated: Vec<String>,
    limits: Limits,
    pixels: Box<dyn Pixels>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    decoded: AtomicU64,
    wanted: AtomicU64,
}

/// The content of a recognized file.
struct Opened {
    levels: Vec<Level>,
    mpp: Option<[f64; 2]>,
    power: Option<f64>,
    vendor: String,
    properties: BTreeMap<String, String>,
    associated: Vec<String>,
    pixels: Box<dyn Pixels>,
}

impl Slide {
    /// Opens a slide: pyramidal or plain TIFF and BigTIFF, Aperio SVS, Philips TIFF, OME-TIFF, DICOM
    /// whole-slide images. The content determines the format, not the file's name.
    ///
    /// For DICOM the path may be a file of any level (the other files of its series in the same
    /// folder are the other levels), or a folder with one slide. All levels belong to one optical
    /// path; of several focal planes the first is read. Absent tiles are
    /// [`SlideOptions::background`], because writers disagree on the code of
    /// RecommendedAbsentPixelCIELabValue.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is of a vendor that requires the feature
    /// `openslide`; if a folder contains no slide, or several.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SlideError> {
        Self::open_with(path, &SlideOptions::default())
    }

    /// Opens a slide with options.
    ///
    /// # Errors
    /// As [`Slide::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &SlideOptions) -> Result<Self, SlideError> {
        let path = path.as_ref();
        let counts = Arc::new(Counts::default());
        let opened = match open_own(path, options, &counts) {
            #[cfg(feature = "openslide")]
            Err(Fault::NotTiff(_) | Fault::Unsupported(_)) if openslide::knows(path) => {
                openslide::open(path, options, Arc::clone(&counts))
            }
            #[cfg(not(feature = "openslide"))]
            Err(Fault::NotTiff(what)) if !path.is_dir() => Err(Fault::NotTiff(format!(
                "{what}; slides that are neither TIFF nor DICOM require the feature `openslide`"
            ))),
            other => other,
        };
        Ok(Self::new(path, opened.map_err(|fault| fault.of(path))?, options, counts))
    }

    /// Opens a slide in memory; errors name it `name`. A DICOM file is a single level.
    ///
    /// # Errors
    /// If the bytes are neither TIFF nor DICOM, or are damaged.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: Vec<u8>, options: &SlideOptions) -> Result<Self, SlideError> {
        let (path, counts) = (name.as_ref(), Arc::new(Counts::default()));
        let source = Source::Bytes(bytes);
        let opened = match reads_as_dicom(&source) {
            true => dicom::of_source(source, options, Arc::clone(&counts)),
            false => TiffPixels::open(source, options, Arc::clone(&counts)),
        };
        Ok(Self::new(path, opened.map_err(|fault| fault.of(path))?, options, counts))
    }

    fn new(path: &Path, opened: Opened, options: &SlideOptions, counts: Arc<Counts>) -> Self {
        let Opened { levels, mpp, power, vendor, properties, associated, pixels } = opened;
        let (path, limits) = (path.to_owned(), options.limits);
        let inner = Inner { path, levels, mpp, power, vendor, properties, associated, limits, pixels, counts };
        Slide { inner: Arc::new(inner) }
    }

    /// The file, or the folder of a DICOM slide.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// All levels, from the largest (level 0) to the smallest; there is at least one.
    pub fn levels(&self) -> &[Level] {
        &self.inner.levels
    }

    /// The compression of a level's tiles: `JPEG`, `JPEG 2000`, `none`, ...; `None` if there is no such level or
    /// OpenSlide reads the slide.
    pub fn compression(&self, level: usize) -> Option<String> {
        self.inner.pixels.compression(level)
    }

    /// Width and height of level 0 in pixels.
    pub fn dimensions(&self) -> (usize, usize) {
        (self.inner.levels[0].width, self.inner.levels[0].height)
    }

    /// Micrometres per pixel of level 0 along x and y: from the vendor's description, else from the
    /// resolution tags; for DICOM the pixel spacing, else the size of the imaged volume.
    pub fn mpp(&self) -> Option<[f64; 2]> {
        self.inner.mpp
    }

    /// Magnification of the objective, from the vendor's description.
    pub fn objective_power(&self) -> Option<f64> {
        self.inner.power
    }

    /// The vendor: `aperio`, `philips`, `ome-tiff`, `generic-tiff`, `dicom`; or the name that
    /// OpenSlide returns.
    pub fn vendor(&self) -> &str {
        &self.inner.vendor
    }

    /// The file's properties, under names like OpenSlide's: `aperio.AppMag`,
    /// `tiff.Software`.
    pub fn properties(&self) -> &BTreeMap<String, String> {
        &self.inner.properties
    }

    /// Names of the associated images: `label`, `macro`, `thumbnail`, ...
    pub fn associated_names(&self) -> &[String] {
        &self.inner.associated
    }

    /// Reads an associated image.
    ///
    /// # Errors
    /// If no image has that name, or it cannot be decoded.
    pub fn read_associated(&self, name: &str) -> Result<Raster, SlideError> {
        let Some(name) = self.inner.associated.iter().find(|n| *n == name) else {
            return Err(self.request(format!("no image {name:?}; there are {:?}", self.inner.associated)));
        };
        self.inner.pixels.associated(name).map_err(|fault| fault.of(self.path()))
    }

    /// Reads `width * height` pixels of a level from column `x` and row `y`, counted **in pixels of
    /// that level**.
    ///
    /// Only tiles that the region touches are decoded, in parallel. The region may lie partly or
    /// completely outside; the outside is filled with [`SlideOptions::background`].
    ///
    /// # Errors
    /// If there is no such level, the region is larger than [`Limits::image_bytes`], or a tile is
    /// damaged (the error names it).
    pub fn read_region(&self, level: usize, x: i64, y: i64, width: usize, height: usize) -> Result<Raster, SlideError> {
        self.check_level(level)?;
        let rect = Rect { x, y, width, height };
        self.inner.pixels.region(level, rect).map_err(|fault| fault.of(self.path()))
    }

    /// Reads a region placed as in OpenSlide and MONAI's `WSIReader`: the top left corner `(x, y)`
    /// is given **in pixels of level 0**, the size `(width, height)` in pixels of `level`. The
    /// corner is rounded to the nearest pixel of the level.
    ///
    /// MONAI uses (row, column) and (height, width); this method uses x first.
    ///
    /// # Errors
    /// As [`read_region`](Self::read_region).
    pub fn read_region_at(
        &self,
        location: (i64, i64),
        level: usize,
        size: (usize, usize),
    ) -> Result<Raster, SlideError> {
        let downsample = self.check_level(level)?.downsample;
        let to_level = |at: i64| (at as f64 / downsample).round_ties_even() as i64;
        self.read_region(level, to_level(location.0), to_level(location.1), size.0, size.1)
    }

    /// The counters of the slide and its clones so far.
    pub fn stats(&self) -> Stats {
        let counts = &self.inner.counts;
        Stats {
            tiles_decoded: counts.decoded.load(Ordering::Relaxed),
            tiles_wanted: counts.wanted.load(Ordering::Relaxed),
        }
    }

    fn check_level(&self, level: usize) -> Result<&Level, SlideError> {
        let levels = &self.inner.levels;
        levels
            .get(level)
            .ok_or_else(|| self.request(format!("level {level} of {} (from 0) was requested", levels.len())))
    }

    pub(crate) fn request(&self, what: String) -> SlideError {
        SlideError::Request { path: self.inner.path.clone(), what }
    }
}

/// Opens a slide of a format that this crate reads.
fn open_own(path: &Path, options: &SlideOptions, counts: &Arc<Counts>) -> Result<Opened, Fault> {
    let counts = Arc::clone(counts);
    if path.is_dir() {
        return dicom::open(path, options, counts);
    }
    let source = Source::open(path)?;
    if reads_as_dicom(&source) { dicom::open(path, options, counts) } else { TiffPixels::open(source, options, counts) }
}

impl fmt::Debug for Slide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = self.dimensions();
        write!(f, "Slide({}, {width} x {height}, {} levels)", self.path().display(), self.levels().len())
    }
}
