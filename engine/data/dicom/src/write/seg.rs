//! Regions as a segmentation (SEG).

use dicom_core::VR;
use dicom_dictionary_std::tags;

use super::codes::coded;
use super::object::{Object, Uids, begin, date_time, shortened};
use super::{Authorship, Checked, DrawnBy};
use crate::error::DicomError;
use crate::geometry::{Orientation, dot};
use crate::pixels::rgb_to_lab;
use crate::regions::RegionVolume;
use crate::series::Series;
use crate::stack::Slice;

/// Segmentation Storage.
const CLASS: &str = "1.2.840.10008.5.1.4.1.1.66.4";

/// Explicit VR little endian.
const SYNTAX: &str = "1.2.840.10008.1.2.1";

/// The bytes of a SEG file: binary, a segment for each region with a frame for each slice on which
/// it has voxels. It refers to the series and its slices. Segments are numbered from 1, in the order
/// of the regions, as the standard has it; those of channels may overlap.
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
/// Where the regions lie on another grid than the series, a label has no name or a name is invalid,
/// a region is empty, or the series lacks positions, UIDs or a frame of reference.
pub fn segmentation(volume: &RegionVolume, series: &Series, by: &Authorship) -> Result<Vec<u8>, DicomError> {
    let checked = Checked::new(volume, series, by)?;
    let first = &series.slices()[0];
    let uids = Uids::new("SEG", series, volume, by);
    let frames = frames(&checked);
    let [columns, rows, _] = series.grid().shape();
    let (Ok(columns), Ok(rows)) = (u16::try_from(columns), u16::try_from(rows)) else {
        let what = format!("slices of {columns} x {rows} pixels; DICOM has at most 65535");
        return Err(DicomError::Grid { path: first.path().to_owned(), what });
    };
    let (date, time) = date_time(by.created);
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
    let object = begin(CLASS, "SEG", series, &uids, by)?
        .text(tags::IMAGE_TYPE, VR::CS, "DERIVED\\PRIMARY")
        .text(tags::CONTENT_DATE, VR::DA, date)
        .text(tags::CONTENT_TIME, VR::TM, time)
        .text(tags::CONTENT_LABEL, VR::CS, "SEGMENTATION")
        .text(tags::CONTENT_DESCRIPTION, VR::LO, shortened(&by.description, 64))
        .empty(tags::CONTENT_CREATOR_NAME, VR::PN)
        .shorts(tags::SAMPLES_PER_PIXEL, &[1])
        .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME2")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, frames.len().to_string())
        .shorts(tags::ROWS, &[rows])
        .shorts(tags::COLUMNS, &[columns])
        .shorts(tags::BITS_ALLOCATED, &[1])
        .shorts(tags::BITS_STORED, &[1])
        .shorts(tags::HIGH_BIT, &[0])
        .shorts(tags::PIXEL_REPRESENTATION, &[0])
        .text(tags::LOSSY_IMAGE_COMPRESSION, VR::CS, "00")
        .text(tags::SEGMENTATION_TYPE, VR::CS, "BINARY")
        .text(tags::SEGMENTS_OVERLAP, VR::CS, if checked.overlap() { "YES" } else { "NO" })
        .items(tags::SEGMENT_SEQUENCE, (0..checked.regions().len()).map(|region| segment(&checked, region, by)))
        .item(
            tags::DIMENSION_ORGANIZATION_SEQUENCE,
            Object::new().text(tags::DIMENSION_ORGANIZATION_UID, VR::UI, &organization),
        )
        .items(
            tags::DIMENSION_INDEX_SEQUENCE,
            [
                pointer(tags::REFERENCED_SEGMENT_NUMBER, tags::SEGMENT_IDENTIFICATION_SEQUENCE),
                pointer(tags::IMAGE_POSITION_PATIENT, tags::PLANE_POSITION_SEQUENCE),
            ],
        )
        .item(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, shared(series))
        .items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, per_frame)
        .item(tags::REFERENCED_SERIES_SEQUENCE, referenced(series))
        .bytes(tags::PIXEL_DATA, pixels(&checked, &frames));
    let instance = uids.of("instance");
    let what = |what| DicomError::Regions { path: first.path().to_owned(), what };
    object.into_file(CLASS, &instance, SYNTAX).map_err(what)
}

/// Region and slice of each frame. A region without voxels has one of zeros.
fn frames(checked: &Checked<'_>) -> Vec<(usize, usize)> {
    let of = |(region, slices): (usize, &Vec<usize>)| match slices.as_slice() {
        [] => vec![(region, 0)],
        slices => slices.iter().map(|slice| (region, *slice)).collect(),
    };
    checked.slices.iter().enumerate().flat_map(of).collect()
}

fn segment(checked: &Checked<'_>, index: usize, by: &Authorship) -> Object {
    let region = &checked.regions()[index];
    let (category, kind) = coded(region.property.as_deref(), &region.name);
    let mut object = Object::new()
        .shorts(tags::SEGMENT_NUMBER, &[index as u16 + 1])
        .text(tags::SEGMENT_LABEL, VR::LO, &region.name)
        .text(tags::SEGMENT_ALGORITHM_TYPE, VR::CS, by.drawn_by.term())
        .code(tags::SEGMENTED_PROPERTY_CATEGORY_CODE_SEQUENCE, category)
        .code(tags::SEGMENTED_PROPERTY_TYPE_CODE_SEQUENCE, kind);
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

/// What all frames share: the size of voxels, and the directions of rows and columns.
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

/// The place of one frame: its segment, its position, and the image that it was found on.
fn frame(checked: &Checked<'_>, slice: &Slice, (region, at): (usize, usize), place: u32) -> Object {
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
    // The first dimension is the segment, the second the position.
    let content = Object::new().longs(tags::DIMENSION_INDEX_VALUES, &[region as u32 + 1, place]);
    Object::new()
        .item(tags::FRAME_CONTENT_SEQUENCE, content)
        .item(
            tags::PLANE_POSITION_SEQUENCE,
            Object::new().decimals(tags::IMAGE_POSITION_PATIENT, &checked.positions[at]),
        )
        .item(
            tags::SEGMENT_IDENTIFICATION_SEQUENCE,
            Object::new().shorts(tags::REFERENCED_SEGMENT_NUMBER, &[region as u16 + 1]),
        )
        .item(tags::DERIVATION_IMAGE_SEQUENCE, derivation)
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

/// A bit for each pixel, the first one lowest; frames follow each other without a gap.
fn pixels(checked: &Checked<'_>, frames: &[(usize, usize)]) -> Vec<u8> {
    let [_, columns, rows, _] = checked.volume.shape;
    let bits = columns * rows * frames.len();
    let mut bytes = vec![0_u8; bits.div_ceil(16) * 2];
    for (i, (region, slice)) in frames.iter().enumerate() {
        for y in 0..rows {
            for x in 0..columns {
                if checked.has(*region, [x, y, *slice]) {
                    let bit = (i * rows + y) * columns + x;
                    bytes[bit / 8] |= 1 << (bit % 8);
                }
            }
        }
    }
    bytes
}
