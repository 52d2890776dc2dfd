//! Writing a volume as the slices of a CT series.

use dicom_core::VR;
use dicom_dictionary_std::tags;

use super::object::{Object, date_time, shortened, uid};
use crate::error::DicomError;
use crate::geometry::{Grid, dot, norm};

/// CT Image Storage.
const CLASS: &str = "1.2.840.10008.5.1.4.1.1.2";

/// Explicit VR little endian.
const SYNTAX: &str = "1.2.840.10008.1.2.1";

/// RescaleIntercept.
const INTERCEPT: f32 = -1024.0;

/// The identity of a written CT series.
#[derive(Clone, Debug, PartialEq)]
pub struct CtIdentity {
    /// PatientID and PatientName.
    pub patient: String,
    /// SeriesDescription.
    pub description: String,
    /// SeriesNumber.
    pub number: u32,
    /// The text from which the UIDs of study, series, frame of reference and slices are derived
    /// ([`uid`]): the same text yields the same UIDs.
    pub uids: String,
    /// The time of creation.
    pub created: std::time::SystemTime,
}

/// The bytes of a file for each slice, from the first to the last. Values are Hounsfield units,
/// `[X, Y, Z]`, Z fastest; they are rounded to whole numbers from -1024 to 31743.
///
/// # Errors
/// If the number of values does not match the grid, a value is not finite, a slice has more than
/// 65535 rows or columns, or rows and columns are not at right angles.
pub fn ct_slices(values: &[f32], grid: &Grid, of: &CtIdentity) -> Result<Vec<Vec<u8>>, DicomError> {
    let fail = |what: String| DicomError::Write { what };
    let [columns, rows, slices] = grid.shape();
    if values.len() != columns * rows * slices {
        return Err(fail(format!("{} values for a grid of {columns} x {rows} x {slices} voxels", values.len())));
    }
    if let Some(value) = values.iter().find(|v| !v.is_finite()) {
        return Err(fail(format!("a voxel has the value {value}")));
    }
    let (Ok(nx), Ok(ny)) = (u16::try_from(columns), u16::try_from(rows)) else {
        return Err(fail(format!("slices of {columns} x {rows} pixels; DICOM has at most 65535")));
    };
    let (right, down) = (grid.step(0), grid.step(1));
    let (dx, dy) = (norm(right), norm(down));
    if dot(right, down).abs() > 1e-3 * dx * dy || dx <= 0.0 || dy <= 0.0 {
        return Err(fail("rows and columns of the grid are not at right angles".to_owned()));
    }
    let cosines: Vec<f64> = right.iter().map(|v| v / dx).chain(down.iter().map(|v| v / dy)).collect();
    let (date, time) = date_time(of.created, 0);
    let name = shortened(&of.patient, 64);
    let slice = |k: usize| -> Result<Vec<u8>, DicomError> {
        let stored = |at: usize| {
            let value = values[(at % columns * rows + at / columns) * slices + k];
            ((value - INTERCEPT).round().clamp(0.0, f32::from(i16::MAX)) as i16).to_le_bytes()
        };
        let pixels: Vec<u8> = (0..columns * rows).flat_map(stored).collect();
        let instance = uid(&format!("{} slice {k}", of.uids));
        let object = Object::new()
            .text(tags::SPECIFIC_CHARACTER_SET, VR::CS, "ISO_IR 192")
            .text(tags::TIMEZONE_OFFSET_FROM_UTC, VR::SH, "+0000")
            .text(tags::IMAGE_TYPE, VR::CS, "DERIVED\\SECONDARY\\AXIAL")
            .text(tags::SOP_CLASS_UID, VR::UI, CLASS)
            .text(tags::SOP_INSTANCE_UID, VR::UI, &instance)
            .text(tags::STUDY_DATE, VR::DA, &date)
            .text(tags::STUDY_TIME, VR::TM, &time)
            .text(tags::CONTENT_DATE, VR::DA, &date)
            .text(tags::CONTENT_TIME, VR::TM, &time)
            .empty(tags::ACCESSION_NUMBER, VR::SH)
            .text(tags::MODALITY, VR::CS, "CT")
            .text(tags::MANUFACTURER, VR::LO, "Hearth")
            .empty(tags::REFERRING_PHYSICIAN_NAME, VR::PN)
            .text(tags::SERIES_DESCRIPTION, VR::LO, shortened(&of.description, 64))
            .text(tags::PATIENT_NAME, VR::PN, &name)
            .text(tags::PATIENT_ID, VR::LO, &name)
            .empty(tags::PATIENT_BIRTH_DATE, VR::DA)
            .empty(tags::PATIENT_SEX, VR::CS)
            .text(tags::STUDY_INSTANCE_UID, VR::UI, uid(&format!("{} study", of.uids)))
            .text(tags::SERIES_INSTANCE_UID, VR::UI, uid(&format!("{} series", of.uids)))
            .text(tags::STUDY_ID, VR::SH, "1")
            .text(tags::SERIES_NUMBER, VR::IS, of.number.to_string())
            .text(tags::ACQUISITION_NUMBER, VR::IS, "1")
            .text(tags::INSTANCE_NUMBER, VR::IS, (k + 1).to_string())
            .decimals(tags::IMAGE_POSITION_PATIENT, &grid.origins()[k])
            .decimals(tags::IMAGE_ORIENTATION_PATIENT, &cosines)
            .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, uid(&format!("{} frame", of.uids)))
            .empty(tags::POSITION_REFERENCE_INDICATOR, VR::LO)
            .decimals(tags::SLICE_THICKNESS, &[grid.spacing()[2]])
            .empty(tags::KVP, VR::DS)
            .decimals(tags::PIXEL_SPACING, &[dy, dx])
            .shorts(tags::SAMPLES_PER_PIXEL, &[1])
            .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME2")
            .shorts(tags::ROWS, &[ny])
            .shorts(tags::COLUMNS, &[nx])
            .shorts(tags::BITS_ALLOCATED, &[16])
            .shorts(tags::BITS_STORED, &[16])
            .shorts(tags::HIGH_BIT, &[15])
            .shorts(tags::PIXEL_REPRESENTATION, &[1])
            .decimals(tags::RESCALE_INTERCEPT, &[f64::from(INTERCEPT)])
            .text(tags::RESCALE_SLOPE, VR::DS, "1")
            .text(tags::RESCALE_TYPE, VR::LO, "HU")
            .words(tags::PIXEL_DATA, &pixels);
        object.into_file(CLASS, &instance, SYNTAX).map_err(fail)
    };
    (0..slices).map(slice).collect()
}
