//! Series and segmentations as small DICOM files.
#![allow(dead_code, reason = "each test uses a part of it")]

use dicom_core::VR;
use dicom_dictionary_std::tags;

#[path = "mod.rs"]
mod objects;

pub use objects::*;

/// Pixels of a frame: 3 columns, 2 rows.
pub type Frame = [u8; 6];

/// A segmentation on slices like those of [`slice`] at x = 10, y = 20: its segments by number and
/// label, and frames of one segment each at some depth.
pub fn segmentation(segments: &[(u16, &str)], frames: &[(u16, f64, Frame)]) -> Object {
    let described = segments.iter().map(|(number, label)| {
        Object::item().number(tags::SEGMENT_NUMBER, *number).text(tags::SEGMENT_LABEL, VR::LO, label)
    });
    let groups = frames.iter().map(|(number, depth, _)| {
        let position = Object::item().decimals(tags::IMAGE_POSITION_PATIENT, &[10.0, 20.0, *depth]);
        let segment = Object::item().number(tags::REFERENCED_SEGMENT_NUMBER, *number);
        Object::item()
            .sequence(tags::PLANE_POSITION_SEQUENCE, vec![position])
            .sequence(tags::SEGMENT_IDENTIFICATION_SEQUENCE, vec![segment])
    });
    let orientation = Object::item().decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let measures = Object::item()
        .decimals(tags::PIXEL_SPACING, &[0.5, 0.75])
        .decimals(tags::SLICE_THICKNESS, &[2.0])
        .decimals(tags::SPACING_BETWEEN_SLICES, &[2.0]);
    let shared = Object::item()
        .sequence(tags::PLANE_ORIENTATION_SEQUENCE, vec![orientation])
        .sequence(tags::PIXEL_MEASURES_SEQUENCE, vec![measures]);
    // The bits of all frames without a gap, the first in the lowest bit.
    let bits: Vec<u8> = frames.iter().flat_map(|(_, _, pixels)| pixels.iter().copied()).collect();
    let bytes: Vec<u8> = bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
    Object::new("1.2.840.10008.5.1.4.1.1.66.4", "SEG")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.9")
        .text(tags::SEGMENTATION_TYPE, VR::CS, "BINARY")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, &frames.len().to_string())
        .sequence(tags::SEGMENT_SEQUENCE, described.collect())
        .sequence(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![shared])
        .sequence(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, groups.collect())
        .pixels([3, 2], &[])
        .number(tags::BITS_ALLOCATED, 1)
        .number(tags::BITS_STORED, 1)
        .number(tags::HIGH_BIT, 0)
        .bytes(tags::PIXEL_DATA, &bytes)
}

/// A structure set on the series 1.2.3 of [`slice`] at x = 10, y = 20: regions by name, each a
/// rectangle around the pixels from the first column and row to the last, at some depth.
pub fn structures(regions: &[(&str, f64, [u16; 2], [u16; 2])]) -> Object {
    let number = |i: usize| (i + 1).to_string();
    let named = regions.iter().enumerate().map(|(i, (name, ..))| {
        Object::item().text(tags::ROI_NUMBER, VR::IS, &number(i)).text(tags::ROI_NAME, VR::LO, name)
    });
    let drawn = regions.iter().enumerate().map(|(i, (_, depth, first, last))| {
        let [left, right] = [f64::from(first[0]) - 0.4, f64::from(last[0]) + 0.4].map(|column| 10.0 + 0.75 * column);
        let [top, bottom] = [f64::from(first[1]) - 0.4, f64::from(last[1]) + 0.4].map(|row| 20.0 + 0.5 * row);
        let points = [left, top, *depth, right, top, *depth, right, bottom, *depth, left, bottom, *depth];
        let contour = Object::item()
            .text(tags::CONTOUR_GEOMETRIC_TYPE, VR::CS, "CLOSED_PLANAR")
            .text(tags::NUMBER_OF_CONTOUR_POINTS, VR::IS, "4")
            .decimals(tags::CONTOUR_DATA, &points);
        Object::item()
            .text(tags::REFERENCED_ROI_NUMBER, VR::IS, &number(i))
            .sequence(tags::CONTOUR_SEQUENCE, vec![contour])
    });
    let series = Object::item().text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3");
    let study = Object::item().sequence(tags::RT_REFERENCED_SERIES_SEQUENCE, vec![series]);
    let frame = Object::item().sequence(tags::RT_REFERENCED_STUDY_SEQUENCE, vec![study]);
    Object::new("1.2.840.10008.5.1.4.1.1.481.3", "RTSTRUCT")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.8")
        .sequence(tags::REFERENCED_FRAME_OF_REFERENCE_SEQUENCE, vec![frame])
        .sequence(tags::STRUCTURE_SET_ROI_SEQUENCE, named.collect())
        .sequence(tags::ROI_CONTOUR_SEQUENCE, drawn.collect())
}
