//! Writing regions as a segmentation (SEG).

use dicom_core::VR;
use dicom_dictionary_std::tags;

use super::codes::{Code, Coding, coding};
use super::object::{Object, Uids, begin, shortened};
use super::{Authorship, Checked, DrawnBy};
use crate::error::DicomError;
use crate::geometry::{Orientation, dot};
use crate::pixels::rgb_to_lab;
use crate::regions::{Region, RegionVolume};
use crate::series::Series;
use crate::stack::Slice;

/// The storage of voxels of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentationType {
    /// A bit for each voxel of each segment, which every viewer supports.
    #[default]
    Binary,
    /// A probability for each voxel of each segment, in 255 steps.
    Fractional,
    /// The number of one segment for each voxel (Label Map Segmentation Storage, Supplement 243):
    /// smaller and faster with many segments, but not supported by older viewers.
    LabelMap,
}

impl SegmentationType {
    /// SOPClassUID: Segmentation Storage, or Label Map Segmentation Storage.
    fn class(self) -> &'static str {
        match self {
            SegmentationType::Binary | SegmentationType::Fractional => "1.2.840.10008.5.1.4.1.1.66.4",
            SegmentationType::LabelMap => "1.2.840.10008.5.1.4.1.1.66.7",
        }
    }

    /// The name of the kind, from which UIDs are derived.
    fn kind(self) -> &'static str {
        match self {
            SegmentationType::Binary => "SEG",
            SegmentationType::Fractional => "SEG FRACTIONAL",
            SegmentationType::LabelMap => "SEG LABELMAP",
        }
    }

    fn term(self) -> &'static str {
        match self {
            SegmentationType::Binary => "BINARY",
            SegmentationType::Fractional => "FRACTIONAL",
            SegmentationType::LabelMap => "LABELMAP",
        }
    }
}

/// MaximumFractionalValue.
const FULL: f32 = 255.0;

/// Explicit VR little endian.
const SYNTAX: &str = "1.2.840.10008.1.2.1";

/// The bytes of a binary SEG file: a segment for each region with a frame for each slice on which
/// it has voxels. It refers to the series and its slices. Segments are numbered from 1, in the
/// order of the regions, as the standard requires. Segments from channels may overlap.
///
/// ```no_run
/// # use hearth_dicom::{Authorship, Region, RegionVolume, scan, write};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let series = scan("ct/")?.series.remove(0);
/// let labels = vec![0.0; series.grid().shape().iter().product()]; // [X, Y, Z], Z fastest
/// let regions = RegionVolume::of_labels(labels, vec![Region::new(1, "GTV-1")], series.grid().clone());
/// std::fs::write("seg.dcm", write::segmentation(&regions, &series, &Authorship::new("lung"))?)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the regions lie on another grid than the series, a label has no name or a name is invalid, a
/// region is empty, or the series lacks positions, UIDs or a frame of reference.
pub fn segmentation(volume: &RegionVolume, series: &Series, by: &Authorship) -> Result<Vec<u8>, DicomError> {
    segmentation_as(SegmentationType::Binary, volume, series, by)
}

/// The bytes of a SEG file with this storage. A label map uses the labels of the regions as segment
/// numbers; fractions are the values of channels.
///
/// # Errors
/// As [`segmentation`], and if fractions are not from 0 to 1, regions of a label map overlap, or a
/// label exceeds 65535.
pub fn segmentation_as(
    storage: SegmentationType,
    volume: &RegionVolume,
    series: &Series,
    by: &Authorship,
) -> Result<Vec<u8>, DicomError> {
    // The smallest value that rounds to a nonzero step.
    let least = if storage == SegmentationType::Fractional { 0.5 / FULL } else { 0.5 };
    let checked = Checked::from(least, volume, series, by)?;
    let first = &series.slices()[0];
    let wrong = |what| DicomError::Regions { path: first.path().to_owned(), what };
    fits(storage, &checked).map_err(wrong)?;
    let uids = Uids::new(storage.kind(), series, volume, by);
    let frames = frames(storage, &checked);
    let [columns, rows, _] = series.grid().shape();
    let (Ok(columns), Ok(rows)) = (u16::try_from(columns), u16::try_from(rows)) else {
        let what = format!("slices of {columns} x {rows} pixels; DICOM has at most 65535");
        return Err(DicomError::Grid { path: first.path().to_owned(), what });
    };
    let organization = uids.of("dimensions");
    let mut used: Vec<usize> = frames.iter().map(|(_, slice)| *slice).collect();
    used.sort_unstable();
    used.dedup();
    let per_frame = frames.iter().map(|(region, slice)| {
        // Positions count from 1, over the slices that have a frame.
        let place = used.partition_point(|s| s < slice) as u32 + 1;
        frame(&checked, &series.slices()[*slice], (*region, *slice), place)
    });
    let pointer = |tag, group| {
        Object::new()
            .text(tags::DIMENSION_ORGANIZATION_UID, VR::UI, &organization)
            .tag(tags::DIMENSION_INDEX_POINTER, tag)
            .tag(tags::FUNCTIONAL_GROUP_POINTER, group)
    };
    let mut dimensions = vec![pointer(tags::IMAGE_POSITION_PATIENT, tags::PLANE_POSITION_SEQUENCE)];
    if storage != SegmentationType::LabelMap {
        dimensions.insert(0, pointer(tags::REFERENCED_SEGMENT_NUMBER, tags::SEGMENT_IDENTIFICATION_SEQUENCE));
    }
    let numbers = numbers(storage, volume.regions.as_slice());
    let wide = numbers.iter().any(|number| *number > 255);
    let bits: u16 = match storage {
        SegmentationType::Binary => 1,
        SegmentationType::LabelMap if wide => 16,
        SegmentationType::Fractional | SegmentationType::LabelMap => 8,
    };
    let background = (storage == SegmentationType::LabelMap).then(|| background(&checked, by));
    let segments = (0..checked.regions().len()).map(|region| segment(&checked, region, numbers[region], by));
    let mut object = begin(storage.class(), "SEG", series, &uids, by)?
        .text(tags::IMAGE_TYPE, VR::CS, "DERIVED\\PRIMARY")
        .made(tags::CONTENT_DATE, tags::CONTENT_TIME)
        .text(tags::CONTENT_LABEL, VR::CS, "SEGMENTATION")
        .text(tags::CONTENT_DESCRIPTION, VR::LO, shortened(&by.description, 64))
        .empty(tags::CONTENT_CREATOR_NAME, VR::PN)
        .shorts(tags::SAMPLES_PER_PIXEL, &[1])
        .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME2")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, frames.len().to_string())
        .shorts(tags::ROWS, &[rows])
        .shorts(tags::COLUMNS, &[columns])
        .shorts(tags::BITS_ALLOCATED, &[bits])
        .shorts(tags::BITS_STORED, &[bits])
        .shorts(tags::HIGH_BIT, &[bits - 1])
        .shorts(tags::PIXEL_REPRESENTATION, &[0])
        .text(tags::LOSSY_IMAGE_COMPRESSION, VR::CS, "00")
        .text(tags::SEGMENTATION_TYPE, VR::CS, storage.term())
        .text(tags::SEGMENTS_OVERLAP, VR::CS, if checked.overlap() { "YES" } else { "NO" })
        .items(tags::SEGMENT_SEQUENCE, background.into_iter().chain(segments))
        .item(
            tags::DIMENSION_ORGANIZATION_SEQUENCE,
            Object::new().text(tags::DIMENSION_ORGANIZATION_UID, VR::UI, &organization),
        )
        .items(tags::DIMENSION_INDEX_SEQUENCE, dimensions)
        .item(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, shared(series))
        .items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, per_frame)
        .item(tags::REFERENCED_SERIES_SEQUENCE, referenced(series));
    object = match storage {
        SegmentationType::Binary => object.bytes(tags::PIXEL_DATA, bit_pixels(&checked, &frames)),
        SegmentationType::Fractional => object
            .text(tags::SEGMENTATION_FRACTIONAL_TYPE, VR::CS, if volume.channels { "PROBABILITY" } else { "OCCUPANCY" })
            .shorts(tags::MAXIMUM_FRACTIONAL_VALUE, &[FULL as u16])
            .bytes(tags::PIXEL_DATA, fractions(&checked, &frames)),
        SegmentationType::LabelMap => {
            let bytes = label_pixels(&checked, &frames, &numbers, wide);
            let object = object.shorts(tags::PIXEL_PADDING_VALUE, &[0]);
            if wide { object.words(tags::PIXEL_DATA, &bytes) } else { object.bytes(tags::PIXEL_DATA, bytes) }
        }
    };
    object.into_file(storage.class(), &uids.of("instance"), SYNTAX).map_err(wrong)
}

/// The UIDs of a SEG and the numbers of its segments, for files that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// SOPClassUID.
    pub class: String,
    /// SOPInstanceUID.
    pub instance: String,
    /// SeriesInstanceUID.
    pub series: String,
    /// The segment of each region, in their order.
    pub segments: Vec<u16>,
}

/// A reference to the file that [`segmentation_as`] writes for the same arguments.
pub fn reference(storage: SegmentationType, volume: &RegionVolume, series: &Series, by: &Authorship) -> Reference {
    let uids = Uids::new(storage.kind(), series, volume, by);
    Reference {
        class: storage.class().to_owned(),
        instance: uids.of("instance"),
        series: uids.of("series"),
        segments: numbers(storage, &volume.regions),
    }
}

/// SegmentNumber of each region.
fn numbers(storage: SegmentationType, regions: &[Region]) -> Vec<u16> {
    let of = |(index, region): (usize, &Region)| match storage {
        SegmentationType::LabelMap => u16::try_from(region.label).unwrap_or(u16::MAX),
        SegmentationType::Binary | SegmentationType::Fractional => index as u16 + 1,
    };
    regions.iter().enumerate().map(of).collect()
}

/// Checks requirements of single kinds of storage.
fn fits(storage: SegmentationType, checked: &Checked<'_>) -> Result<(), String> {
    let volume = checked.volume;
    match storage {
        SegmentationType::Binary => Ok(()),
        SegmentationType::Fractional => match volume.values.iter().find(|v| !(0.0..=1.0).contains(*v)) {
            Some(value) if volume.channels => Err(format!("a voxel has the fraction {value}; expected 0 to 1")),
            _ => Ok(()),
        },
        SegmentationType::LabelMap => {
            if let Some(names) = checked.overlapping() {
                return Err(format!(
                    "regions overlap ({}), and a label map has one segment for each voxel; write a binary SEG",
                    names.join(", ")
                ));
            }
            let regions = checked.regions();
            if let Some(region) = regions.iter().find(|r| !(1..=u32::from(u16::MAX)).contains(&r.label)) {
                return Err(format!("the label {} of {:?}; DICOM has 1 to 65535", region.label, region.name));
            }
            let twice = regions.iter().enumerate().find(|(i, r)| regions[..*i].iter().any(|o| o.label == r.label));
            match twice {
                Some((_, region)) => Err(format!("two regions have the label {}", region.label)),
                None => Ok(()),
            }
        }
    }
}

/// The region and slice of each frame; for a label map the slice alone. Without any voxels there is
/// a frame of zeros.
fn frames(storage: SegmentationType, checked: &Checked<'_>) -> Vec<(Option<usize>, usize)> {
    if storage == SegmentationType::LabelMap {
        let mut slices: Vec<usize> = checked.slices.iter().flatten().copied().collect();
        slices.sort_unstable();
        slices.dedup();
        if slices.is_empty() {
            slices.push(0);
        }
        return slices.into_iter().map(|slice| (None, slice)).collect();
    }
    let of = |(region, slices): (usize, &Vec<usize>)| match slices.as_slice() {
        [] => vec![(Some(region), 0)],
        slices => slices.iter().map(|slice| (Some(region), *slice)).collect(),
    };
    checked.slices.iter().enumerate().flat_map(of).collect()
}

/// The segment 0 of a label map.
fn background(checked: &Checked<'_>, by: &Authorship) -> Object {
    let code = Code::new("125040", "DCM", "Background");
    let mut object = Object::new()
        .shorts(tags::SEGMENT_NUMBER, &[0])
        .text(tags::SEGMENT_LABEL, VR::LO, "Background")
        .text(tags::SEGMENT_ALGORITHM_TYPE, VR::CS, by.drawn_by.term())
        .code(tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE, &code)
        .code(tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE, &code);
    if by.drawn_by != DrawnBy::Manual {
        object = object.text(tags::SEGMENT_ALGORITHM_NAME, VR::LO, shortened(&by.algorithm, 64));
    }
    match checked.regions().iter().any(|region| region.color.is_some()) {
        true => object.shorts(tags::RECOMMENDED_DISPLAY_CIE_LAB_VALUE, &rgb_to_lab([0; 3])),
        false => object,
    }
}

/// The type of a segment, with its side.
fn kind_of(kind: &Code, side: Option<&Code>) -> Object {
    let object = Object::of_code(kind);
    match side {
        Some(side) => object.code(tags::SEGMENTED_PROPERTY_TYPE_MODIFIER_CODE_SEQUENCE, side),
        None => object,
    }
}

fn segment(checked: &Checked<'_>, index: usize, number: u16, by: &Authorship) -> Object {
    let region = &checked.regions()[index];
    let own = region.coding.clone();
    let Coding { category, kind, site, side } = own.unwrap_or_else(|| coding(region.property.as_deref(), &region.name));
    let mut object = Object::new()
        .shorts(tags::SEGMENT_NUMBER, &[number])
        .text(tags::SEGMENT_LABEL, VR::LO, &region.name)
        .text(tags::SEGMENT_ALGORITHM_TYPE, VR::CS, by.drawn_by.term())
        .code(tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE, &category)
        .item(tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE, kind_of(&kind, side.as_ref()));
    if let Some(site) = &site {
        object = object.code(tags::ANATOMIC_REGION_SEQUENCE, site);
    }
    if by.drawn_by != DrawnBy::Manual {
        object = object.text(tags::SEGMENT_ALGORITHM_NAME, VR::LO, shortened(&by.algorithm, 64));
    }
    if let Some(text) = &region.description {
        object = object.text(tags::SEGMENT_DESCRIPTION, VR::ST, shortened(text, 1024));
    }
    if let Some(color) = region.color {
        object = object.shorts(tags::RECOMMENDED_DISPLAY_CIE_LAB_VALUE, &rgb_to_lab(color));
    }
    object
}

/// The attributes shared by all frames: the size of voxels, and the directions of rows and columns.
fn shared(series: &Series) -> Object {
    let info = series.slices()[0].info();
    let orientation = info.orientation.unwrap_or(Orientation::AXIAL);
    let [dx, dy, _] = series.grid().spacing();
    let between = dot(series.grid().step(2), orientation.normal()).abs();
    let cosines: Vec<f64> = orientation.row.into_iter().chain(orientation.column).collect();
    let measures = Object::new()
        .decimals(tags::SLICE_THICKNESS, &[info.thickness.unwrap_or(between)])
        .decimals(tags::SPACING_BETWEEN_SLICES, &[between])
        .decimals(tags::PIXEL_SPACING, &[dy, dx]);
    Object::new()
        .item(tags::PIXEL_MEASURES_SEQUENCE, measures)
        .item(tags::PLANE_ORIENTATION_SEQUENCE, Object::new().decimals(tags::IMAGE_ORIENTATION_PATIENT, &cosines))
}

/// The attributes of one frame: its segment, its position, and the image that it was found on.
fn frame(checked: &Checked<'_>, slice: &Slice, (region, at): (Option<usize>, usize), place: u32) -> Object {
    let source = Object::new()
        .refers_to(slice)
        .concept(
            tags::PURPOSE_OF_REFERENCE_CODE_SEQUENCE,
            "121322",
            "DCM",
            "Source image for image processing operation",
        )
        .text(tags::SPATIAL_LOCATIONS_PRESERVED, VR::CS, "YES");
    let derivation = Object::new().item(tags::SOURCE_IMAGE_SEQUENCE, source).concept(
        tags::DERIVATION_CODE_SEQUENCE,
        "113076",
        "DCM",
        "Segmentation",
    );
    // The first dimension is the segment, except in a label map; the last is the position.
    let dimensions: Vec<u32> = region.map(|region| region as u32 + 1).into_iter().chain([place]).collect();
    let content = Object::new().longs(tags::DIMENSION_INDEX_VALUES, &dimensions);
    let object = Object::new()
        .item(tags::FRAME_CONTENT_SEQUENCE, content)
        .item(
            tags::PLANE_POSITION_SEQUENCE,
            Object::new().decimals(tags::IMAGE_POSITION_PATIENT, &checked.positions[at]),
        )
        .item(tags::DERIVATION_IMAGE_SEQUENCE, derivation);
    let Some(region) = region else { return object };
    let segment = Object::new().shorts(tags::REFERENCED_SEGMENT_NUMBER, &[region as u16 + 1]);
    object.item(tags::SEGMENT_IDENTIFICATION_SEQUENCE, segment)
}

/// The series and all of its instances.
fn referenced(series: &Series) -> Object {
    let mut seen = std::collections::HashSet::new();
    let instances = series.slices().iter().filter(|slice| seen.insert(slice.sop_instance()));
    let instances: Vec<Object> = instances
        .map(|slice| {
            Object::new().text(tags::REFERENCED_SOP_CLASS_UID, VR::UI, &slice.file.identity.sop_class).text(
                tags::REFERENCED_SOP_INSTANCE_UID,
                VR::UI,
                slice.sop_instance(),
            )
        })
        .collect();
    Object::new()
        .text(tags::SERIES_INSTANCE_UID, VR::UI, series.uid())
        .items(tags::REFERENCED_INSTANCE_SEQUENCE, instances)
}

/// Packs a bit for each pixel, the first pixel in the lowest bit; frames follow each other without
/// a gap.
fn bit_pixels(checked: &Checked<'_>, frames: &[(Option<usize>, usize)]) -> Vec<u8> {
    let [_, columns, rows, _] = checked.volume.shape;
    let bits = columns * rows * frames.len();
    let mut bytes = vec![0_u8; bits.div_ceil(16) * 2];
    for (i, (region, slice)) in frames.iter().enumerate() {
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            if region.is_some_and(|region| checked.has(region, [x, y, *slice])) {
                let bit = (i * rows + y) * columns + x;
                bytes[bit / 8] |= 1 << (bit % 8);
            }
        }
    }
    bytes
}

/// A byte for each pixel: its fraction of a region.
fn fractions(checked: &Checked<'_>, frames: &[(Option<usize>, usize)]) -> Vec<u8> {
    let [_, columns, rows, slices] = checked.volume.shape;
    let mut bytes = Vec::with_capacity(columns * rows * frames.len() + 1);
    for (region, slice) in frames.iter().filter_map(|(region, slice)| Some(((*region)?, *slice))) {
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            let fraction = match checked.volume.channels {
                true => checked.volume.values[((region * columns + x) * rows + y) * slices + slice],
                false => f32::from(u8::from(checked.has(region, [x, y, slice]))),
            };
            bytes.push((fraction * FULL).round() as u8);
        }
    }
    even(bytes)
}

/// The number of the segment of each pixel, 0 for none, in 8 or 16 bits.
fn label_pixels(checked: &Checked<'_>, frames: &[(Option<usize>, usize)], numbers: &[u16], wide: bool) -> Vec<u8> {
    let [_, columns, rows, _] = checked.volume.shape;
    let mut bytes = Vec::with_capacity(columns * rows * frames.len() * (1 + usize::from(wide)) + 1);
    for (_, slice) in frames {
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            let region = (0..numbers.len()).find(|region| checked.has(*region, [x, y, *slice]));
            let [low, high] = region.map_or(0, |region| numbers[region]).to_le_bytes();
            bytes.push(low);
            bytes.extend(wide.then_some(high));
        }
    }
    even(bytes)
}

/// Pads to an even number of bytes, which values require.
fn even(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    bytes
}
