//! Plain TIFFs: whole pages as images, and stacks of pages.

use std::path::{Path, PathBuf};

use super::page::{Format, Page};
use super::tile::Tile;
use crate::error::{Fault, SlideError};
use crate::limits::{Limits, checked_bytes};
use crate::raster::{Color, Raster, SampleType, Samples};
use crate::region::{Grid, Rect, fill};
use crate::source::Source;

/// A TIFF file as a list of pages of any kind.
///
/// ```no_run
/// let file = hearth_slides::TiffFile::open("stack.tif")?;
/// for page in file.pages() {
///     println!("{} x {}, {:?}", page.width, page.height, page.description);
/// }
/// let raster = file.read(0)?;
/// # Ok::<(), hearth_slides::SlideError>(())
/// ```
#[derive(Debug)]
pub struct TiffFile {
    path: PathBuf,
    source: Source,
    limits: Limits,
    pages: Vec<Page>,
    infos: Vec<PageInfo>,
}

/// The properties of a page, without its pixels.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageInfo {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of samples of a decoded pixel: 3 for a palette.
    pub channels: usize,
    /// The type of the samples; `None` if the page cannot be read ([`TiffFile::read`] reports the
    /// reason).
    pub sample: Option<SampleType>,
    /// The meaning of the channels, if the page can be read.
    pub color: Option<Color>,
    /// Width and height of a tile; `None` for strips.
    pub tile: Option<(usize, usize)>,
    /// The compression: `JPEG`, `LZW`, ...
    pub compression: String,
    /// The index of the parent page (SubIFDs).
    pub parent: Option<usize>,
    /// Whether the page is marked as a smaller version of another.
    pub is_reduced: bool,
    /// The tag ImageDescription.
    pub description: Option<String>,
    /// Micrometres per pixel along x and y, from the resolution tags.
    pub mpp: Option<[f64; 2]>,
}

impl TiffFile {
    /// Opens a file and reads its directories, with the default [`Limits`].
    ///
    /// # Errors
    /// If the file cannot be read, is not a TIFF, is damaged, or exceeds a limit.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SlideError> {
        Self::open_with(path, Limits::default())
    }

    /// Opens a file and reads its directories, within the given limits.
    ///
    /// # Errors
    /// As [`TiffFile::open`].
    pub fn open_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, SlideError> {
        let path = path.as_ref();
        let source = Source::open(path).map_err(|fault| fault.of(path))?;
        Self::new(path, source, limits)
    }

    /// Opens a file in memory; errors name it `name`.
    ///
    /// # Errors
    /// As [`TiffFile::open`].
    pub fn from_bytes(name: impl AsRef<Path>, bytes: Vec<u8>, limits: Limits) -> Result<Self, SlideError> {
        Self::new(name.as_ref(), Source::Bytes(bytes), limits)
    }

    fn new(path: &Path, source: Source, limits: Limits) -> Result<Self, SlideError> {
        let pages = super::pages(&source, &limits).map_err(|fault| fault.of(path))?;
        let infos = pages.iter().map(info).collect();
        Ok(TiffFile { path: path.to_owned(), source, limits, pages, infos })
    }

    /// The file with the values of its pages as in PIL: a palette has its indices, which are labels where it is
    /// a label map, and single bits are 0 and 1.
    #[must_use]
    pub fn with_labels(mut self) -> Self {
        self.pages.iter_mut().for_each(Page::keep_labels);
        self.infos = self.pages.iter().map(info).collect();
        self
    }

    /// The pages in the file's order, nested ones after their parents.
    pub fn pages(&self) -> &[PageInfo] {
        &self.infos
    }

    /// Decodes a whole page. White-is-zero is inverted, palettes and YCbCr become RGB; planes are
    /// interleaved.
    ///
    /// # Errors
    /// If there is no such page, its format is not supported, or its data are damaged or too large.
    pub fn read(&self, page: usize) -> Result<Raster, SlideError> {
        let Some(found) = self.pages.get(page) else {
            return Err(SlideError::Request {
                path: self.path.clone(),
                what: format!("page {page} of {} was requested", self.pages.len()),
            });
        };
        read_page(&self.source, &self.limits, found, |format| vec![0; format.pixel()])
            .map_err(|fault| fault.of(&self.path))
    }
}

fn info(page: &Page) -> PageInfo {
    let format = page.format().ok();
    PageInfo {
        width: page.width,
        height: page.height,
        channels: format.map_or(page.samples, |f| f.channels),
        sample: format.map(|f| f.sample),
        color: format.map(|f| f.color),
        tile: page.segments.tiled.then_some((page.segments.width, page.segments.height)),
        compression: page.compression.name(),
        parent: page.parent,
        is_reduced: page.is_reduced,
        description: page.texts.description.clone(),
        mpp: page.mpp(),
    }
}

/// Decodes a whole page. Tiles that the file omits are filled with `background`, the bytes of a
/// pixel.
pub(crate) fn read_page(
    source: &Source,
    limits: &Limits,
    page: &Page,
    background: impl FnOnce(Format) -> Vec<u8>,
) -> Result<Raster, Fault> {
    let place = || format!("page {}", page.number);
    let format = page.format().map_err(|fault| fault.within(place))?;
    let Format { sample, channels, color } = format;
    check_stored(page, format, limits).map_err(|fault| fault.within(place))?;
    let mut samples = Samples::zeros(sample, page.width * page.height * channels);
    let rect = Rect { x: 0, y: 0, width: page.width, height: page.height };
    fill(samples.as_bytes_mut(), page.grid(format), rect, &background(format), |index| {
        page.tile(source, limits, index).map(|tile| tile.map(Owned))
    })?;
    Ok(Raster { width: page.width, height: page.height, channels, color, samples })
}

/// Rejects a file that claims more pixels than its bytes can hold, before memory is allocated for
/// them.
fn check_stored(page: &Page, format: Format, limits: &Limits) -> Result<(), Fault> {
    let sizes = [page.width, page.height, format.pixel()].map(|n| n as u64);
    let wanted = checked_bytes("an image", &sizes, limits.image_bytes)? as u64;
    let segments = &page.segments;
    let indices = (0..segments.planes).flat_map(|p| (0..segments.across * segments.down).map(move |i| (i, p)));
    let counts = indices.map(|(i, p)| segments.place(i, p).1);
    let stored = counts.clone().fold(0u64, u64::saturating_add);
    let left_out = if counts.clone().any(|count| count == 0) { LEFT_OUT } else { 0 };
    // Palettes and small samples take more space in memory than in the file.
    let least = wanted / if page.bits[0] < 8 || page.palette.is_some() { 24 } else { 1 };
    page.compression.check_plausible(stored, least.saturating_sub(left_out))
}

/// The largest number of bytes of pixels in tiles that the file omits, for a whole page.
const LEFT_OUT: u64 = 64 << 20;

struct Owned(Tile);

impl AsRef<Tile> for Owned {
    fn as_ref(&self) -> &Tile {
        &self.0
    }
}

impl Page {
    pub fn grid(&self, format: Format) -> Grid {
        Grid {
            width: self.width,
            height: self.height,
            tile_width: self.segments.width,
            tile_height: self.segments.height,
            across: self.segments.across,
            pixel: format.pixel(),
        }
    }
}

/// Reads the first page of a TIFF.
///
/// # Errors
/// As [`TiffFile::open`] and [`TiffFile::read`].
pub fn read_tiff(path: impl AsRef<Path>) -> Result<Raster, SlideError> {
    TiffFile::open(path)?.read(0)
}

/// Reads a stack: the first page and all others of its size and type, in the file's order.
/// Thumbnails and smaller versions are skipped.
///
/// # Errors
/// As [`TiffFile::open`] and [`TiffFile::read`], and if the stack exceeds the limits.
pub fn read_tiff_stack(path: impl AsRef<Path>) -> Result<Vec<Raster>, SlideError> {
    let file = TiffFile::open(path)?;
    let first = &file.infos[0];
    let same = |info: &PageInfo| {
        (info.width, info.height, info.channels, info.sample)
            == (first.width, first.height, first.channels, first.sample)
            && !info.is_reduced
            && info.parent.is_none()
    };
    let (mut rasters, mut bytes) = (Vec::new(), 0u64);
    for (number, _) in file.infos.iter().enumerate().filter(|(_, info)| same(info)) {
        let page = &file.pages[number];
        let pixel = page.format().map(Format::pixel).unwrap_or_default();
        let size = [page.height, pixel].iter().fold(page.width as u64, |size, n| size.saturating_mul(*n as u64));
        bytes = bytes.saturating_add(size);
        if bytes > file.limits.image_bytes {
            let fault =
                Fault::Limit(format!("a stack of more than the {} bytes that are allowed", file.limits.image_bytes));
            return Err(fault.of(&file.path));
        }
        rasters.push(file.read(number)?);
    }
    Ok(rasters)
}
