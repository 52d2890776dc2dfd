//! The attributes of a whole-slide image, read as a stream up to its pixels.

use std::collections::BTreeMap;
use std::io::{BufReader, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

use dicom_core::{DataDictionary, Tag, VR};
use dicom_dictionary_std::{StandardDataDictionary, tags};
use dicom_parser::dataset::LazyDataToken;
use dicom_parser::dataset::lazy_read::LazyDataSetReader;
use dicom_parser::stateful::decode::StatefulDecode;
use dicom_transfer_syntax_registry::entries;

use super::meta::Meta;
use super::syntax::Syntax;
use crate::error::Fault;
use crate::limits::Limits;
use crate::source::{Cursor, Source};

/// The nesting depth, with sequences and items counted together.
const MAX_DEPTH: usize = 64;

/// The largest number of bytes of a value other than a table of offsets.
const MAX_VALUE: u32 = 64 << 10;

/// The attributes outside of sequences that are kept.
const KEPT: [Tag; 38] = [
    tags::IMAGE_TYPE,
    tags::SOP_CLASS_UID,
    tags::SOP_INSTANCE_UID,
    tags::PYRAMID_UID,
    tags::ACQUISITION_DATE_TIME,
    tags::MODALITY,
    tags::MANUFACTURER,
    tags::MANUFACTURER_MODEL_NAME,
    tags::DEVICE_SERIAL_NUMBER,
    tags::SOFTWARE_VERSIONS,
    tags::STUDY_INSTANCE_UID,
    tags::SERIES_INSTANCE_UID,
    tags::INSTANCE_NUMBER,
    tags::FRAME_OF_REFERENCE_UID,
    tags::CONCATENATION_UID,
    tags::IN_CONCATENATION_NUMBER,
    tags::IN_CONCATENATION_TOTAL_NUMBER,
    tags::CONCATENATION_FRAME_OFFSET_NUMBER,
    tags::DIMENSION_ORGANIZATION_TYPE,
    tags::SAMPLES_PER_PIXEL,
    tags::PHOTOMETRIC_INTERPRETATION,
    tags::PLANAR_CONFIGURATION,
    tags::NUMBER_OF_FRAMES,
    tags::ROWS,
    tags::COLUMNS,
    tags::BITS_ALLOCATED,
    tags::BITS_STORED,
    tags::HIGH_BIT,
    tags::PIXEL_REPRESENTATION,
    tags::CONTAINER_IDENTIFIER,
    tags::IMAGED_VOLUME_WIDTH,
    tags::IMAGED_VOLUME_HEIGHT,
    tags::TOTAL_PIXEL_MATRIX_COLUMNS,
    tags::TOTAL_PIXEL_MATRIX_ROWS,
    tags::NUMBER_OF_OPTICAL_PATHS,
    tags::TOTAL_PIXEL_MATRIX_FOCAL_PLANES,
    tags::EXTENDED_OFFSET_TABLE,
    tags::EXTENDED_OFFSET_TABLE_LENGTHS,
];

/// The attributes of a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(super) meta: Meta,
    values: BTreeMap<Tag, Value>,
    /// The objective power of the first optical path.
    pub power: Option<f64>,
    /// Millimetres between rows and between columns.
    pub spacing: Option<[f64; 2]>,
    /// The position of each frame that has its own attributes.
    pub(super) places: Vec<Place>,
    /// The position of the pixels; `None` if it was not requested, or is missing.
    pub(super) pixels: Option<PixelElement>,
}

/// The bytes of a value.
#[derive(Clone, Debug)]
struct Value {
    vr: VR,
    bytes: Vec<u8>,
}

/// The position of the pixels in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PixelElement {
    pub offset: u64,
    /// The length in bytes; `None` if the pixels are in fragments.
    pub length: Option<u64>,
}

/// The position of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    /// Column and row of the corner, from 1.
    pub column: Option<i64>,
    pub row: Option<i64>,
    /// The focal plane, in micrometres from the slide.
    pub z: Option<f64>,
    /// The identifier of the optical path.
    pub path: Option<String>,
}

/// The extent to which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Up to the attributes of its frames: enough to identify the file.
    Frames,
    /// Up to its pixels.
    Pixels,
}

impl Header {
    pub fn read(source: &Source, limits: &Limits, until: Until) -> Result<Self, Fault> {
        let meta = Meta::read(source)?;
        let implicit = Syntax::implicit_header(&meta.syntax)?;
        let header =
            Header { meta, values: BTreeMap::new(), power: None, spacing: None, places: Vec::new(), pixels: None };
        let mut walk = Walk { header, path: Vec::new(), shared: Place::default(), left: limits.tag_bytes };
        let work = || walk.run(source, implicit, until);
        // The parser is third-party code: a damaged file must not end the program.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Fault::damaged("the DICOM parser failed")))?;
        let Walk { mut header, shared, .. } = walk;
        for place in &mut header.places {
            place.column = place.column.or(shared.column);
            place.row = place.row.or(shared.row);
            place.z = place.z.or(shared.z);
            place.path = place.path.take().or_else(|| shared.path.clone());
        }
        // For an image of one frame.
        if header.places.is_empty() && shared.column.is_some() {
            header.places.push(shared);
        }
        Ok(header)
    }

    /// The SOP class.
    pub fn class(&self) -> &str {
        let value = self.values.get(&tags::SOP_CLASS_UID).and_then(|value| str::from_utf8(&value.bytes).ok());
        let value = value.map(|text| text.trim_matches(|c: char| c == '\0' || c.is_whitespace()));
        value.filter(|text| !text.is_empty()).unwrap_or(&self.meta.class)
    }

    /// UID of the transfer syntax.
    pub fn syntax(&self) -> &str {
        &self.meta.syntax
    }

    /// A string without padding; `None` if it is missing or empty.
    pub fn text(&self, tag: Tag) -> Option<String> {
        let text = String::from_utf8_lossy(&self.values.get(&tag)?.bytes).into_owned();
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A whole number; `None` if it is missing or empty.
    pub fn int(&self, tag: Tag) -> Result<Option<i64>, Fault> {
        let Some(value) = self.values.get(&tag).filter(|value| !value.is_blank()) else { return Ok(None) };
        match value.ints().first() {
            Some(number) => Ok(Some(*number)),
            None => Err(Fault::damaged(format!("{} is not a whole number", name(tag)))),
        }
    }

    /// A whole number from `low` to `high`.
    pub fn required(&self, tag: Tag, low: i64, high: i64) -> Result<i64, Fault> {
        let value = self.int(tag)?.ok_or_else(|| Fault::damaged(format!("no {}", name(tag))))?;
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(Fault::damaged(format!("{} is {value}, expected {low} to {high}", name(tag))))
    }

    /// A number above 0, if the header has one.
    pub fn positive(&self, tag: Tag) -> Option<f64> {
        self.values.get(&tag)?.floats().first().copied().filter(|number| *number > 0.0)
    }

    /// Numbers of 64 bits each.
    pub fn longs(&self, tag: Tag) -> Option<Vec<u64>> {
        let bytes = &self.values.get(&tag)?.bytes;
        Some(bytes.as_chunks::<8>().0.iter().map(|long| u64::from_le_bytes(*long)).collect())
    }
}

impl Value {
    fn is_blank(&self) -> bool {
        self.bytes.iter().all(|b| matches!(b, 0 | b' ')) && self.is_text() || self.bytes.is_empty()
    }

    fn is_text(&self) -> bool {
        matches!(self.vr, VR::IS | VR::DS | VR::CS | VR::LO | VR::SH | VR::UI | VR::ST | VR::LT | VR::DT)
    }

    fn texts(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        text.split('\\').map(|part| part.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned()).collect()
    }

    /// The numbers before the first invalid one.
    fn ints(&self) -> Vec<i64> {
        match self.vr {
            VR::US => self.bytes.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b).into()).collect(),
            VR::SS => self.bytes.as_chunks().0.iter().map(|b| i16::from_le_bytes(*b).into()).collect(),
            VR::UL => self.bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b).into()).collect(),
            VR::SL => self.bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect(),
            _ => self.texts().iter().map_while(|text| text.parse().ok()).collect(),
        }
    }

    /// The same for finite floats.
    fn floats(&self) -> Vec<f64> {
        let all: Vec<f64> = match self.vr {
            VR::FL => self.bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
            VR::FD => self.bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            VR::US | VR::SS | VR::UL | VR::SL => self.ints().iter().map(|v| *v as f64).collect(),
            _ => self.texts().iter().map_while(|text| text.parse().ok()).collect(),
        };
        all.into_iter().take_while(|number| number.is_finite()).collect()
    }
}

/// The name of an attribute in the standard.
fn name(tag: Tag) -> String {
    let entry = StandardDataDictionary.by_tag(tag);
    entry.map_or_else(|| tag.to_string(), |entry| format!("{} {tag}", entry.alias))
}

/// A header that is being read.
struct Walk {
    header: Header,
    /// The sequences around the current element, outermost first.
    path: Vec<Tag>,
    /// The attributes that the frames share.
    shared: Place,
    /// The number of bytes that may still be kept.
    left: u64,
}

impl Walk {
    fn run(&mut self, source: &Source, implicit: bool, until: Until) -> Result<(), Fault> {
        let syntax = if implicit {
            entries::IMPLICIT_VR_LITTLE_ENDIAN.erased()
        } else {
            entries::EXPLICIT_VR_LITTLE_ENDIAN.erased()
        };
        let start = self.header.meta.dataset;
        let mut bytes = BufReader::with_capacity(16 << 10, Cursor::new(source, start));
        // The parser takes its first position from the reader.
        bytes.seek(SeekFrom::Start(start))?;
        let mut reader = LazyDataSetReader::new_with_ts(bytes, &syntax).map_err(|error| damaged(&error))?;
        let mut depth = 0usize;
        loop {
            let token = match reader.advance() {
                Some(token) => token.map_err(|error| damaged(&error))?,
                None if depth > 0 => return Err(Fault::damaged("the file ends within a sequence: truncated")),
                None => return Ok(()),
            };
            match token {
                LazyDataToken::PixelSequenceStart if depth == 0 => break,
                LazyDataToken::SequenceStart { tag, .. } => {
                    if depth == 0 && tag.group() >= 0x5200 && until == Until::Frames {
                        return Ok(());
                    }
                    depth += 1;
                    self.path.push(tag);
                }
                LazyDataToken::PixelSequenceStart => {
                    depth += 1;
                    self.path.push(tags::PIXEL_DATA);
                }
                LazyDataToken::ItemStart { .. } => {
                    depth += 1;
                    if self.path == [tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE] {
                        self.claim(size_of::<Place>() as u64)?;
                        self.header.places.push(Place::default());
                    }
                }
                LazyDataToken::SequenceEnd => {
                    depth = depth.saturating_sub(1);
                    self.path.pop();
                }
                LazyDataToken::ItemEnd => depth = depth.saturating_sub(1),
                LazyDataToken::LazyValue { header, decoder } => {
                    let (begin, length) = (decoder.position(), header.len.0);
                    check_end(source, begin, length, header.tag)?;
                    if depth == 0 && header.tag == tags::PIXEL_DATA {
                        let length = Some(u64::from(length));
                        self.header.pixels = Some(PixelElement { offset: begin, length });
                        return Ok(());
                    }
                    if depth == 0 && header.tag.group() >= 0x5200 && until == Until::Frames {
                        return Ok(());
                    }
                    if !self.wants(header.tag) {
                        decoder.skip_bytes(length).map_err(|error| damaged(&error))?;
                        continue;
                    }
                    self.claim(u64::from(length))?;
                    if length > MAX_VALUE && header.tag.group() != tags::PIXEL_DATA.group() {
                        return Err(Fault::damaged(format!("{length} bytes of {}", name(header.tag))));
                    }
                    let mut bytes = Vec::new();
                    decoder.read_to_vec(length, &mut bytes).map_err(|error| damaged(&error))?;
                    self.take(header.tag, Value { vr: header.vr(), bytes });
                }
                LazyDataToken::LazyItemValue { len, decoder } => {
                    check_end(source, decoder.position(), len, tags::PIXEL_DATA)?;
                    decoder.skip_bytes(len).map_err(|error| damaged(&error))?;
                }
                _ => {}
            }
            if depth > MAX_DEPTH {
                return Err(Fault::damaged(format!("sequences nest deeper than the limit of {MAX_DEPTH}")));
            }
        }
        self.header.pixels = Some(PixelElement { offset: reader.into_decoder().position(), length: None });
        Ok(())
    }

    fn claim(&mut self, bytes: u64) -> Result<(), Fault> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| Fault::Limit("the attributes need more bytes than Limits::tag_bytes".into()))?;
        Ok(())
    }

    fn wants(&self, tag: Tag) -> bool {
        match self.path.as_slice() {
            [] => KEPT.contains(&tag),
            [tags::OPTICAL_PATH_SEQUENCE] => tag == tags::OBJECTIVE_LENS_POWER,
            [groups, group] if is_groups(*groups) => match *group {
                tags::PIXEL_MEASURES_SEQUENCE => tag == tags::PIXEL_SPACING && self.header.spacing.is_none(),
                tags::PLANE_POSITION_SLIDE_SEQUENCE => matches!(
                    tag,
                    tags::COLUMN_POSITION_IN_TOTAL_IMAGE_PIXEL_MATRIX
                        | tags::ROW_POSITION_IN_TOTAL_IMAGE_PIXEL_MATRIX
                        | tags::Z_OFFSET_IN_SLIDE_COORDINATE_SYSTEM
                ),
                tags::OPTICAL_PATH_IDENTIFICATION_SEQUENCE => tag == tags::OPTICAL_PATH_IDENTIFIER,
                _ => false,
            },
            _ => false,
        }
    }

    /// Keeps a value that [`Walk::wants`] selects.
    fn take(&mut self, tag: Tag, value: Value) {
        let place = match self.path.first() {
            None => {
                self.header.values.insert(tag, value);
                return;
            }
            Some(&tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE) => self.header.places.last_mut(),
            Some(_) => None,
        };
        let place = place.unwrap_or(&mut self.shared);
        let number = value.floats().first().copied();
        match tag {
            tags::OBJECTIVE_LENS_POWER => {
                self.header.power = self.header.power.or(number.filter(|power| *power > 0.0));
            }
            tags::PIXEL_SPACING => {
                let positive = |v: &[f64; 2]| v.iter().all(|v| *v > 0.0);
                self.header.spacing = value.floats().first_chunk().copied().filter(positive);
            }
            tags::COLUMN_POSITION_IN_TOTAL_IMAGE_PIXEL_MATRIX => place.column = value.ints().first().copied(),
            tags::ROW_POSITION_IN_TOTAL_IMAGE_PIXEL_MATRIX => place.row = value.ints().first().copied(),
            tags::Z_OFFSET_IN_SLIDE_COORDINATE_SYSTEM => place.z = number,
            tags::OPTICAL_PATH_IDENTIFIER => place.path = value.texts().into_iter().next(),
            _ => {}
        }
    }
}

/// Whether a sequence contains functional groups, shared or per frame.
fn is_groups(tag: Tag) -> bool {
    tag == tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE || tag == tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE
}

/// Checks a value's end: the parser reads a value without checking the length of the file.
fn check_end(source: &Source, begin: u64, length: u32, tag: Tag) -> Result<(), Fault> {
    let end = begin + u64::from(length);
    if end <= source.len() {
        return Ok(());
    }
    let over = end - source.len();
    Err(Fault::damaged(format!("{} has {length} bytes, {over} more than the file: truncated or damaged", name(tag))))
}

/// An error of the parser with its causes.
fn damaged(error: &dyn std::error::Error) -> Fault {
    let mut text = format!("truncated or damaged: {error}");
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    Fault::Damaged(text)
}
