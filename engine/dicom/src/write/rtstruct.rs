//! Writing regions as a structure set (RTSTRUCT).

use dicom_core::VR;
use dicom_dictionary_std::tags;
use rayon::prelude::*;

use super::codes::interpreted;
use super::object::{Object, Uids, begin, placed, shortened};
use super::{Authorship, Checked};
use crate::error::DicomError;
use crate::outline::outlines;
use crate::regions::RegionVolume;
use crate::series::Series;

/// RT Structure Set Storage.
const CLASS: &str = "1.2.840.10008.5.1.4.1.1.481.3";

/// Implicit VR little endian: explicit VR limits the points of a contour to 64 KiB.
const SYNTAX: &str = "1.2.840.10008.1.2";

/// The class of references to studies, although it is retired.
const STUDY_CLASS: &str = "1.2.840.10008.3.1.2.3.1";

/// Colours of regions without one, safe for colour-blind readers (Okabe and Ito).
const COLORS: [[u8; 3]; 7] =
    [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]];

/// The bytes of an RTSTRUCT file: an ROI for each region, with closed planar contours on each slice
/// on which it has voxels. Contours run halfway between voxels inside and outside, so that exactly
/// the region's voxel centres lie within them; a hole is joined to the contour around it by a
/// keyhole. ROIs are numbered from 1, in the order of the regions.
///
/// # Errors
/// As [`segmentation`](super::segmentation).
pub fn structure_set(volume: &RegionVolume, series: &Series, by: &Authorship) -> Result<Vec<u8>, DicomError> {
    let checked = Checked::new(volume, series, by)?;
    let first = &series.slices()[0];
    let uids = Uids::new("RTSTRUCT", series, volume, by);
    let frame = series.frame_of_reference().unwrap_or_default();
    let regions = || checked.regions().iter().enumerate();
    let roi = |(index, region): (usize, &crate::Region)| {
        let object = Object::new()
            .text(tags::ROI_NUMBER, VR::IS, (index + 1).to_string())
            .text(tags::REFERENCED_FRAME_OF_REFERENCE_UID, VR::UI, frame)
            .text(tags::ROI_NAME, VR::LO, &region.name)
            .text(tags::ROI_GENERATION_ALGORITHM, VR::CS, by.drawn_by.term());
        match &region.description {
            Some(text) => object.text(tags::ROI_DESCRIPTION, VR::ST, shortened(text, 1024)),
            None => object,
        }
    };
    let observation = |(index, region): (usize, &crate::Region)| {
        Object::new()
            .text(tags::OBSERVATION_NUMBER, VR::IS, (index + 1).to_string())
            .text(tags::REFERENCED_ROI_NUMBER, VR::IS, (index + 1).to_string())
            .text(tags::RTROI_INTERPRETED_TYPE, VR::CS, interpreted(region.property.as_deref(), &region.name))
            .empty(tags::ROI_INTERPRETER, VR::PN)
    };
    let object = begin(CLASS, "RTSTRUCT", series, &uids, by)?
        .empty(tags::OPERATORS_NAME, VR::PN)
        .text(tags::STRUCTURE_SET_LABEL, VR::SH, shortened(&by.description, 16))
        .text(tags::STRUCTURE_SET_NAME, VR::LO, shortened(&by.description, 64))
        .made(tags::STRUCTURE_SET_DATE, tags::STRUCTURE_SET_TIME)
        .text(tags::APPROVAL_STATUS, VR::CS, "UNAPPROVED")
        .item(tags::REFERENCED_FRAME_OF_REFERENCE_SEQUENCE, referenced(series, frame))
        .items(tags::STRUCTURE_SET_ROI_SEQUENCE, regions().map(roi))
        .items(tags::ROI_CONTOUR_SEQUENCE, regions().map(|(index, _)| contours(&checked, series, index)))
        .items(tags::RTROI_OBSERVATIONS_SEQUENCE, regions().map(observation));
    let instance = uids.of("instance");
    let what = |what| DicomError::Regions { path: first.path().to_owned(), what };
    object.into_file(CLASS, &instance, SYNTAX).map_err(what)
}

/// The frame of reference, with the study and the series in it.
fn referenced(series: &Series, frame: &str) -> Object {
    let mut seen = std::collections::HashSet::new();
    let images = series.slices().iter().filter(|slice| seen.insert((slice.sop_instance(), slice.frame())));
    let images: Vec<Object> = images.map(|slice| Object::new().refers_to(slice)).collect();
    let of_series =
        Object::new().text(tags::SERIES_INSTANCE_UID, VR::UI, series.uid()).items(tags::CONTOUR_IMAGE_SEQUENCE, images);
    let study = Object::new()
        .text(tags::REFERENCED_SOP_CLASS_UID, VR::UI, STUDY_CLASS)
        .text(tags::REFERENCED_SOP_INSTANCE_UID, VR::UI, series.study())
        .item(tags::RT_REFERENCED_SERIES_SEQUENCE, of_series);
    Object::new().text(tags::FRAME_OF_REFERENCE_UID, VR::UI, frame).item(tags::RT_REFERENCED_STUDY_SEQUENCE, study)
}

/// The contours of one region, from the first slice to the last.
fn contours(checked: &Checked<'_>, series: &Series, region: usize) -> Object {
    let [_, columns, rows, _] = checked.volume.shape;
    let (row, column) = (series.grid().step(0), series.grid().step(1));
    let of_slice = |slice: &usize| -> Vec<Vec<f64>> {
        let polygons = outlines(columns, rows, |x, y| checked.has(region, [x, y, *slice]));
        let points = |p: Vec<[f64; 2]>| {
            p.into_iter().flat_map(|at| placed(checked.positions[*slice], row, column, at)).collect()
        };
        polygons.into_iter().map(points).collect()
    };
    let drawn: Vec<Vec<Vec<f64>>> = checked.slices[region].par_iter().map(of_slice).collect();
    let mut items = Vec::new();
    for (slice, polygons) in checked.slices[region].iter().zip(drawn) {
        for points in polygons {
            items.push(
                Object::new()
                    .item(tags::CONTOUR_IMAGE_SEQUENCE, Object::new().refers_to(&series.slices()[*slice]))
                    .text(tags::CONTOUR_GEOMETRIC_TYPE, VR::CS, "CLOSED_PLANAR")
                    .text(tags::NUMBER_OF_CONTOUR_POINTS, VR::IS, (points.len() / 3).to_string())
                    .text(tags::CONTOUR_NUMBER, VR::IS, (items.len() + 1).to_string())
                    .decimals(tags::CONTOUR_DATA, &points),
            );
        }
    }
    let color = checked.regions()[region].color.unwrap_or(COLORS[region % COLORS.len()]);
    let color = color.map(|v| v.to_string()).join("\\");
    let object = Object::new().text(tags::ROI_DISPLAY_COLOR, VR::IS, color).text(
        tags::REFERENCED_ROI_NUMBER,
        VR::IS,
        (region + 1).to_string(),
    );
    // An empty sequence is omitted.
    if items.is_empty() { object } else { object.items(tags::CONTOUR_SEQUENCE, items) }
}
