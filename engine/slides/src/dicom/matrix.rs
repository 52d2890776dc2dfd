//! An image of a slide: its total pixel matrix, cut into frames of one size.

use dicom_dictionary_std::tags;

use super::frames::Frames;
use super::header::{Header, Place};
use super::series::Instance;
use super::syntax::Syntax;
use crate::codec::{self, Compression, JpegColor, Shape};
use crate::error::Fault;
use crate::limits::{Limits, checked_bytes};
use crate::pixels;
use crate::raster::{Color, SampleType};
use crate::region::Grid;
use crate::source::Source;
use crate::tiff::{Format, Tile};

/// One image: an instance, or the parts of a concatenation.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub width: usize,
    pub height: usize,
    /// The width of a frame in pixels.
    pub tile_width: usize,
    pub tile_height: usize,
    pub format: Format,
    across: usize,
    storage: Storage,
    parts: Vec<Part>,
    order: Order,
}

/// The storage of a frame's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Storage {
    syntax: Syntax,
    samples: usize,
    bits: usize,
    photometric: Photometric,
    /// Whether each sample has a separate plane (uncompressed pixels).
    planar: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Photometric {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    /// YCbCr that the codec does not convert by itself.
    YCbCr,
}

/// A file.
#[derive(Debug)]
struct Part {
    /// The name in errors.
    name: String,
    source: Source,
    frames: Frames,
    /// The index of its first frame in the image, and the end of its frames.
    first: usize,
    end: usize,
}

/// The mapping of frames to tiles.
#[derive(Debug)]
enum Order {
    /// Frame `i` is tile `i`, row by row.
    Full,
    /// Tiles and their frames, in the order of tiles; other tiles are absent.
    Sparse(Vec<(u32, u32)>),
}

impl Matrix {
    /// The image of one instance, or of the ordered parts of a concatenation.
    pub fn new(mut parts: Vec<Instance>, limits: &Limits) -> Result<Self, Fault> {
        let [first, ..] = parts.as_slice() else { return Err(Fault::damaged("no instance")) };
        let (size, storage) = first.within(|| Ok((Size::read(&first.header)?, Storage::read(&first.header)?)))?;
        let format = storage.format();
        let frame = [size.tile_width, size.tile_height, format.pixel()].map(|n| n as u64);
        let frame = first.within(|| checked_bytes("a frame", &frame, limits.tile_bytes))? as u64;
        let mut groups = Vec::new();
        for instance in &mut parts {
            let places = std::mem::take(&mut instance.header.places);
            let group = instance.within(|| {
                if (Size::read(&instance.header)?, Storage::read(&instance.header)?) != (size, storage) {
                    return Err(Fault::damaged("a part of a concatenation with other sizes or colours than the first"));
                }
                Group::new(&instance.header, places)
            });
            groups.push(group?);
        }
        let order = parts[0].within(|| order(&groups, &parts[0].header, size, limits))?;
        let (mut files, mut at) = (Vec::new(), 0);
        for (Instance { name, source, header }, Group { count, .. }) in parts.into_iter().zip(groups) {
            let codec = storage.syntax.fragments.then_some(storage.syntax.compression);
            let frames = Frames::find(&source, &header, codec, count, frame, limits);
            let frames = frames.map_err(|fault| in_file(fault, &name))?;
            files.push(Part { name, source, frames, first: at, end: at + count });
            at += count;
        }
        let Size { width, height, tile_width, tile_height } = size;
        let across = size.tiles().0;
        Ok(Matrix { width, height, tile_width, tile_height, format, across, storage, parts: files, order })
    }

    /// The name of the compression of its frames.
    pub fn compression(&self) -> String {
        self.storage.syntax.compression.name()
    }

    pub fn grid(&self) -> Grid {
        Grid {
            width: self.width,
            height: self.height,
            tile_width: self.tile_width,
            tile_height: self.tile_height,
            across: self.across,
            pixel: self.format.pixel(),
        }
    }

    /// Rejects an image that claims more pixels than its bytes can hold, before memory is allocated
    /// for it.
    pub fn check_stored(&self) -> Result<(), Fault> {
        let stored = self.parts.iter().map(|part| part.frames.stored(part.end - part.first));
        let stored = stored.fold(0u64, u64::saturating_add);
        let sizes = [self.width, self.height, self.format.pixel()].map(|n| n as u64);
        let wanted = sizes.into_iter().fold(1u64, u64::saturating_mul);
        let absent = if matches!(self.order, Order::Sparse(_)) { ABSENT } else { 0 };
        self.storage.syntax.compression.check_plausible(stored, wanted.saturating_sub(absent))
    }

    /// Decodes a tile; `None` if the image has no frame for it.
    pub fn tile(&self, index: usize) -> Result<Option<Tile>, Fault> {
        let frame = match &self.order {
            Order::Full => index,
            Order::Sparse(tiles) => match tiles.binary_search_by_key(&(index as u64), |(tile, _)| u64::from(*tile)) {
                Ok(at) => tiles[at].1 as usize,
                Err(_) => return Ok(None),
            },
        };
        let part = self.parts.partition_point(|part| part.end <= frame);
        let part = self.parts.get(part).ok_or_else(|| Fault::damaged(format!("no frame {}", frame + 1)))?;
        let bytes = self.decode(part, frame - part.first).map_err(|fault| {
            let fault = fault.within(|| format!("frame {}", frame - part.first + 1));
            in_file(fault, &part.name)
        })?;
        Ok(Some(Tile { width: self.tile_width, bytes }))
    }

    fn decode(&self, part: &Part, frame: usize) -> Result<Vec<u8>, Fault> {
        let Storage { syntax, samples, bits, photometric, planar } = self.storage;
        let compression = syntax.compression;
        let shape = Shape { width: self.tile_width, height: self.tile_height, rows: self.tile_height, samples, bits };
        let wanted = shape.rows * shape.row_bytes();
        let stored = part.frames.read(&part.source, frame)?;
        compression.check_plausible(stored.len() as u64, wanted as u64)?;
        let color = if photometric == Photometric::YCbCr { JpegColor::YCbCr } else { JpegColor::AsStored };
        let mut bytes = codec::decode(compression, stored, shape, None, color)?;
        bytes.truncate(wanted);
        if compression == Compression::None {
            if planar {
                let mut mixed = vec![0; wanted];
                for (plane, values) in bytes.chunks_exact(wanted / samples).enumerate() {
                    pixels::interleave(&mut mixed, values, plane, samples, bits / 8);
                }
                bytes = mixed;
            }
            if cfg!(target_endian = "big") {
                pixels::swap(&mut bytes, bits / 8);
            }
        }
        match photometric {
            Photometric::YCbCr if !compression.is_transform() => pixels::ycbcr_to_rgb(&mut bytes),
            Photometric::WhiteIsZero => bytes.iter_mut().for_each(|b| *b = !*b),
            _ => {}
        }
        Ok(bytes)
    }
}

/// The largest number of frames of a file.
const MOST_FRAMES: usize = i32::MAX as usize;

/// The largest number of bytes of pixels in absent tiles, for reading a whole image.
const ABSENT: u64 = 64 << 20;

/// An error in one of several files.
pub(super) fn in_file(fault: Fault, name: &str) -> Fault {
    match fault {
        fault if name.is_empty() => fault,
        Fault::Io(error) => Fault::Io(std::io::Error::new(error.kind(), format!("{name}: {error}"))),
        fault => fault.within(|| name.to_owned()),
    }
}

/// The sizes of an image and of its frames in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    width: usize,
    height: usize,
    tile_width: usize,
    tile_height: usize,
}

impl Size {
    /// The number of tiles in a row, and of rows of tiles.
    fn tiles(self) -> (usize, usize) {
        (self.width.div_ceil(self.tile_width), self.height.div_ceil(self.tile_height))
    }

    fn read(header: &Header) -> Result<Self, Fault> {
        let most = i64::from(i32::MAX);
        Ok(Size {
            width: header.required(tags::TOTAL_PIXEL_MATRIX_COLUMNS, 1, most)? as usize,
            height: header.required(tags::TOTAL_PIXEL_MATRIX_ROWS, 1, most)? as usize,
            tile_width: header.required(tags::COLUMNS, 1, 65_535)? as usize,
            tile_height: header.required(tags::ROWS, 1, 65_535)? as usize,
        })
    }
}

impl Storage {
    fn read(header: &Header) -> Result<Self, Fault> {
        let syntax = Syntax::of(&header.meta.syntax)?;
        let samples = header.required(tags::SAMPLES_PER_PIXEL, 1, 4)? as usize;
        let bits = header.required(tags::BITS_ALLOCATED, 1, 64)? as usize;
        let stored = header.int(tags::BITS_STORED)?.unwrap_or(bits as i64);
        let high = header.int(tags::HIGH_BIT)?.unwrap_or(stored - 1);
        let signed = header.int(tags::PIXEL_REPRESENTATION)?.unwrap_or(0) != 0;
        if !matches!(bits, 8 | 16) || signed || !(1..=bits as i64).contains(&stored) || high != stored - 1 {
            let sign = if signed { "signed" } else { "unsigned" };
            return Err(Fault::unsupported(format!(
                "{sign} samples of {stored} bits up to bit {high} in {bits}; supported are unsigned ones in 8 or 16"
            )));
        }
        let transform = syntax.compression.is_transform();
        let interpretation = header.text(tags::PHOTOMETRIC_INTERPRETATION).unwrap_or_default();
        let photometric = match (interpretation.as_str(), samples) {
            ("MONOCHROME1", 1) if stored == bits as i64 => Photometric::WhiteIsZero,
            ("MONOCHROME2", 1) => Photometric::BlackIsZero,
            ("RGB", 3) => Photometric::Rgb,
            // The code stream defines the conversion of its components.
            ("YBR_ICT" | "YBR_RCT", 3) if syntax.compression == Compression::Jpeg2000 => Photometric::Rgb,
            ("YBR_FULL", 3) if bits == 8 => Photometric::YCbCr,
            ("YBR_FULL_422", 3) if bits == 8 && transform => Photometric::YCbCr,
            _ => {
                return Err(Fault::unsupported(format!(
                    "photometric interpretation {interpretation:?} with {samples} samples of {stored} bits in {} pixels; \
                     supported are MONOCHROME2, RGB, YBR_FULL, and of JPEG and JPEG 2000 YBR_FULL_422, YBR_ICT, YBR_RCT",
                    syntax.compression.name()
                )));
            }
        };
        if bits == 16 && syntax.compression == Compression::Jpeg {
            return Err(Fault::unsupported("JPEG with samples of more than 8 bits"));
        }
        let planar = samples > 1 && header.int(tags::PLANAR_CONFIGURATION)?.unwrap_or(0) == 1;
        Ok(Storage { syntax, samples, bits, photometric, planar })
    }

    fn format(&self) -> Format {
        let sample = if self.bits == 8 { SampleType::U8 } else { SampleType::U16 };
        let color = if self.samples == 1 { Color::Gray } else { Color::Rgb };
        Format { sample, channels: self.samples, color }
    }
}

/// The frames of a file.
struct Group {
    count: usize,
    /// The position of each frame; empty if the order of frames determines it.
    places: Vec<Place>,
}

impl Group {
    fn new(header: &Header, places: Vec<Place>) -> Result<Self, Fault> {
        let count = header.int(tags::NUMBER_OF_FRAMES)?.unwrap_or(1);
        let count = usize::try_from(count).ok().filter(|count| (1..=MOST_FRAMES).contains(count));
        let count = count.ok_or_else(|| Fault::damaged("NumberOfFrames is not from 1 to 2^31 - 1"))?;
        if !places.is_empty() && places.len() != count {
            let got = places.len();
            return Err(Fault::damaged(format!("attributes of {got} frames, but NumberOfFrames is {count}")));
        }
        Ok(Group { count, places })
    }
}

/// Assigns frames to tiles.
fn order(groups: &[Group], header: &Header, size: Size, limits: &Limits) -> Result<Order, Fault> {
    let (across, down) = size.tiles();
    let total = groups.iter().fold(0u64, |sum, group| sum + group.count as u64);
    let tiles = u32::try_from(across as u64 * down as u64);
    let tiles = tiles.map_err(|_| Fault::Limit(format!("{across} x {down} tiles, {} are allowed", u32::MAX)))?;
    let positioned = groups.iter().flat_map(|group| &group.places).any(|place| place.column.is_some());
    let full = match header.text(tags::DIMENSION_ORGANIZATION_TYPE).as_deref() {
        Some("TILED_FULL") => true,
        Some("TILED_SPARSE") => false,
        _ => !positioned,
    };
    if full {
        let paths = header.int(tags::NUMBER_OF_OPTICAL_PATHS)?.unwrap_or(1).max(1);
        if paths > 1 {
            return Err(optical_paths());
        }
        let planes = header.int(tags::TOTAL_PIXEL_MATRIX_FOCAL_PLANES)?.unwrap_or(1).max(1) as u64;
        if u64::from(tiles).checked_mul(planes) != Some(total) {
            return Err(Fault::damaged(format!(
                "{across} x {down} tiles in {planes} focal planes, but {total} frames: frames are missing or too many"
            )));
        }
        // Frames of the first focal plane come first.
        return Ok(Order::Full);
    }
    if total > u32::MAX.into() || total.saturating_mul(size_of::<(u32, f64, u32)>() as u64) > limits.tag_bytes {
        return Err(Fault::Limit(format!("places of {total} frames need more than Limits::tag_bytes")));
    }
    let positions = groups.iter().flat_map(|group| {
        let missing = group.count - group.places.len();
        group.places.iter().map(Some).chain(std::iter::repeat_n(None, missing))
    });
    let mut found = Vec::new();
    let mut first: Option<&Place> = None;
    for (frame, place) in (1u32..).zip(positions) {
        let corner = place.and_then(|place| place.column.zip(place.row));
        let (Some(place), Some((column, row))) = (place, corner) else {
            return Err(Fault::damaged(format!("frame {frame} has no position (PlanePositionSlideSequence)")));
        };
        let first = *first.get_or_insert(place);
        if place.path != first.path {
            return Err(optical_paths());
        }
        let inside = (1..=size.width as i64).contains(&column) && (1..=size.height as i64).contains(&row);
        if !inside {
            return Err(Fault::damaged(format!(
                "frame {frame} lies at column {column}, row {row} of {} x {} pixels",
                size.width, size.height
            )));
        }
        let (x, y) = (column as usize - 1, row as usize - 1);
        if x % size.tile_width != 0 || y % size.tile_height != 0 {
            return Err(Fault::unsupported(format!(
                "frame {frame} lies at column {column}, row {row}; only frames on a grid of {} x {} pixels are read",
                size.tile_width, size.tile_height
            )));
        }
        // Fewer than `tiles`, so it fits.
        let tile = (y / size.tile_height * across + x / size.tile_width) as u32;
        found.push((tile, place.z.unwrap_or(0.0), frame - 1));
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    if let Some([one, two]) = found.array_windows().find(|[one, two]| (one.0, one.1) == (two.0, two.1)) {
        return Err(Fault::damaged(format!("frames {} and {} lie at the same place", one.2 + 1, two.2 + 1)));
    }
    // Of several focal planes the one nearest to the slide is used, as in an image whose frames are
    // in order. Different depths alone do not make a plane: the depth may follow the focus from
    // tile to tile.
    found.dedup_by_key(|(tile, ..)| *tile);
    Ok(Order::Sparse(found.into_iter().map(|(tile, _, frame)| (tile, frame)).collect()))
}

fn optical_paths() -> Fault {
    Fault::unsupported("several optical paths in one image; only images of one are read")
}
