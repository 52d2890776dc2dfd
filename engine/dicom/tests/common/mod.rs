//! Small DICOM files, written by dicom-object.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};

use dicom_core::value::DataSetSequence;
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use dicom_object::{FileMetaTableBuilder, InMemDicomObject};

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` next to the project.
pub fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

pub const EXPLICIT: &str = "1.2.840.10008.1.2.1";
pub const CT: &str = "1.2.840.10008.5.1.4.1.1.2";

/// A builder of data sets.
#[derive(Clone)]
pub struct Object(pub InMemDicomObject);

impl Object {
    pub fn new(class: &str, modality: &str) -> Self {
        Object(InMemDicomObject::new_empty()).text(tags::SOP_CLASS_UID, VR::UI, class).text(
            tags::MODALITY,
            VR::CS,
            modality,
        )
    }

    pub fn item() -> Self {
        Object(InMemDicomObject::new_empty())
    }

    pub fn text(mut self, tag: Tag, vr: VR, value: &str) -> Self {
        self.0.put(DataElement::new(tag, vr, PrimitiveValue::from(value)));
        self
    }

    pub fn number(mut self, tag: Tag, value: u16) -> Self {
        self.0.put(DataElement::new(tag, VR::US, PrimitiveValue::from(value)));
        self
    }

    pub fn decimals(self, tag: Tag, values: &[f64]) -> Self {
        let text = values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\\");
        self.text(tag, VR::DS, &text)
    }

    pub fn sequence(mut self, tag: Tag, items: Vec<Object>) -> Self {
        let items: Vec<InMemDicomObject> = items.into_iter().map(|o| o.0).collect();
        self.0.put(DataElement::new(tag, VR::SQ, DataSetSequence::from(items)));
        self
    }

    pub fn words(mut self, tag: Tag, values: &[u16]) -> Self {
        self.0.put(DataElement::new(tag, VR::OW, PrimitiveValue::U16(values.into())));
        self
    }

    pub fn bytes(mut self, tag: Tag, values: &[u8]) -> Self {
        self.0.put(DataElement::new(tag, VR::OB, PrimitiveValue::U8(values.into())));
        self
    }

    /// Pixel attributes of a monochrome image of 16 bits.
    pub fn pixels(self, [columns, rows]: [u16; 2], values: &[u16]) -> Self {
        self.number(tags::SAMPLES_PER_PIXEL, 1)
            .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME2")
            .number(tags::ROWS, rows)
            .number(tags::COLUMNS, columns)
            .number(tags::BITS_ALLOCATED, 16)
            .number(tags::BITS_STORED, 16)
            .number(tags::HIGH_BIT, 15)
            .number(tags::PIXEL_REPRESENTATION, 0)
            .words(tags::PIXEL_DATA, values)
    }

    pub fn write(&self, path: &Path) {
        self.write_as(path, EXPLICIT);
    }

    pub fn write_as(&self, path: &Path, syntax: &str) {
        let class = self.0.get(tags::SOP_CLASS_UID).and_then(|e| e.to_str().ok()).unwrap_or_default().into_owned();
        let meta = FileMetaTableBuilder::new()
            .transfer_syntax(syntax)
            .media_storage_sop_class_uid(class)
            .media_storage_sop_instance_uid("1.2.3");
        self.0.clone().with_meta(meta).expect("meta").write_to_file(path).expect("written");
    }
}

/// A slice of a CT series: 3 columns, 2 rows, all values `100 * number + pixel`.
pub fn slice(number: u16, position: [f64; 3]) -> Object {
    let values: Vec<u16> = (0..6).map(|i| 100 * number + i).collect();
    Object::new(CT, "CT")
        .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.3.{number}"))
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3")
        .text(tags::SERIES_DESCRIPTION, VR::LO, "thorax")
        .text(tags::INSTANCE_NUMBER, VR::IS, &number.to_string())
        .decimals(tags::IMAGE_POSITION_PATIENT, &position)
        .decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
        .decimals(tags::PIXEL_SPACING, &[0.5, 0.75])
        .decimals(tags::SLICE_THICKNESS, &[2.0])
        .pixels([3, 2], &values)
}

/// Slices along z, written under names in the order of `names`.
pub fn write_stack(folder: &Path, depths: &[f64]) {
    for (i, z) in depths.iter().enumerate() {
        slice(i as u16 + 1, [10.0, 20.0, *z]).write(&folder.join(format!("{i}.dcm")));
    }
}
