//! Series and segmentations as small DICOM files.
#![allow(dead_code)]

use dicom_core::VR;
use dicom_dictionary_std::tags;

#[path = "../../dicom/tests/common/mod.rs"]
mod objects;

pub use objects::*;

/// Pixels of a frame: 3 columns, 2 rows.
pub type Frame = [u8; 6];

/// A segmentation on slices like those of [`slice`] at x = 10, y = 20: its segments by number and label, and frames of one segment
/// each at some depth.
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
