//! DIMSE messages (PS3.7, annex E): commands and their answers.

use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use dicom_object::InMemDicomObject;
use dicom_transfer_syntax_registry::entries::IMPLICIT_VR_LITTLE_ENDIAN;

/// The value for a message without a data set.
pub const NO_DATA: u16 = 0x0101;
pub const C_STORE_RQ: u16 = 0x0001;
pub const C_STORE_RSP: u16 = 0x8001;
pub const C_ECHO_RQ: u16 = 0x0030;

/// Status codes of answers (PS3.4, B.2.3).
pub const SUCCESS: u16 = 0x0000;
pub const OUT_OF_RESOURCES: u16 = 0xA700;
pub const CANNOT_UNDERSTAND: u16 = 0xC000;
pub const UNRECOGNIZED_OPERATION: u16 = 0x0211;

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub field: u16,
    pub message: u16,
    pub data: u16,
    pub class: String,
    pub instance: String,
    pub status: u16,
}

impl Command {
    /// Reads a command set, which is always encoded as implicit little endian.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let object = InMemDicomObject::read_dataset_with_ts(bytes, &IMPLICIT_VR_LITTLE_ENDIAN.erased());
        let object = object.map_err(|error| format!("a command cannot be read: {error}"))?;
        let number = |tag: Tag| object.get(tag).and_then(|element| element.to_int::<u16>().ok());
        let text = |tag: Tag| {
            let text = object.get(tag).and_then(|element| element.to_str().ok()).unwrap_or_default();
            text.trim_end_matches(['\0', ' ']).to_owned()
        };
        Ok(Self {
            field: number(tags::COMMAND_FIELD).ok_or("a command without its field")?,
            message: number(tags::MESSAGE_ID).unwrap_or(0),
            data: number(tags::COMMAND_DATA_SET_TYPE).unwrap_or(NO_DATA),
            class: text(tags::AFFECTED_SOP_CLASS_UID),
            instance: text(tags::AFFECTED_SOP_INSTANCE_UID),
            status: number(tags::STATUS).unwrap_or(SUCCESS),
        })
    }

    /// The answer to the command.
    pub fn answer(&self, status: u16) -> Vec<u8> {
        let mut elements = vec![
            short(tags::COMMAND_FIELD, self.field | 0x8000),
            short(tags::MESSAGE_ID_BEING_RESPONDED_TO, self.message),
            short(tags::COMMAND_DATA_SET_TYPE, NO_DATA),
            short(tags::STATUS, status),
        ];
        for (tag, uid) in
            [(tags::AFFECTED_SOP_CLASS_UID, &self.class), (tags::AFFECTED_SOP_INSTANCE_UID, &self.instance)]
        {
            elements.extend((!uid.is_empty()).then(|| text(tag, uid)));
        }
        bytes(elements)
    }

    /// The request to store an instance.
    pub fn store(message: u16, class: &str, instance: &str) -> Vec<u8> {
        bytes(vec![
            text(tags::AFFECTED_SOP_CLASS_UID, class),
            short(tags::COMMAND_FIELD, C_STORE_RQ),
            short(tags::MESSAGE_ID, message),
            short(tags::PRIORITY, 0),
            short(tags::COMMAND_DATA_SET_TYPE, 0x0001),
            text(tags::AFFECTED_SOP_INSTANCE_UID, instance),
        ])
    }
}

type Element = DataElement<InMemDicomObject>;

fn short(tag: Tag, value: u16) -> Element {
    DataElement::new(tag, VR::US, PrimitiveValue::from(value))
}

fn text(tag: Tag, value: &str) -> Element {
    DataElement::new(tag, VR::UI, PrimitiveValue::from(value))
}

fn bytes(elements: Vec<Element>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let object = InMemDicomObject::command_from_element_iter(elements);
    // Written to memory, where numbers and UIDs cannot fail.
    let written = object.write_dataset_with_ts(&mut bytes, &IMPLICIT_VR_LITTLE_ENDIAN.erased());
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        let request = Command::read(&Command::store(7, "1.2.840.10008.5.1.4.1.1.2", "1.2.3")).unwrap();
        assert_eq!((request.field, request.message, request.data), (C_STORE_RQ, 7, 1));
        assert_eq!((request.class.as_str(), request.instance.as_str()), ("1.2.840.10008.5.1.4.1.1.2", "1.2.3"));
        let answer = Command::read(&request.answer(OUT_OF_RESOURCES)).unwrap();
        assert_eq!((answer.field, answer.status, answer.data), (C_STORE_RSP, OUT_OF_RESOURCES, NO_DATA));
        assert_eq!(answer.instance, "1.2.3");
        assert!(Command::read(b"").is_err());
        assert!(Command::read(&[1, 2, 3]).is_err());
    }
}
