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

/// The maximum size of a command in bytes; it consists of a few numbers and two UIDs.
pub const COMMAND: usize = 64 << 10;

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
    /// Reads a command set: implicit little endian, elements of group 0000, without sequences (PS3.7,
    /// 6.3.1). It comes from a peer before anything is known of it, so a general parser, which follows
    /// sequences and believes lengths, does not see it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut command = Self { data: NO_DATA, status: SUCCESS, ..Self::default() };
        let (mut field, mut rest) = (None, bytes);
        while !rest.is_empty() {
            let Some((&[g0, g1, e0, e1, l0, l1, l2, l3], after)) = rest.split_first_chunk::<8>() else {
                return Err("a command ends within an element".to_owned());
            };
            let tag = Tag(u16::from_le_bytes([g0, g1]), u16::from_le_bytes([e0, e1]));
            if tag.group() != 0 {
                return Err(format!("a command has the element {tag}, expected those of group 0000"));
            }
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let Some((value, behind)) = after.split_at_checked(length) else {
                return Err(format!("the element {tag} of a command has {length} bytes, more than the command"));
            };
            rest = behind;
            let number = || value.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
            let text = || String::from_utf8_lossy(value).trim_end_matches(['\0', ' ']).to_owned();
            match tag {
                tags::COMMAND_FIELD => field = number(),
                tags::MESSAGE_ID => command.message = number().unwrap_or_default(),
                tags::COMMAND_DATA_SET_TYPE => command.data = number().unwrap_or(NO_DATA),
                tags::STATUS => command.status = number().unwrap_or(SUCCESS),
                tags::AFFECTED_SOP_CLASS_UID => command.class = text(),
                tags::AFFECTED_SOP_INSTANCE_UID => command.instance = text(),
                _ => {}
            }
        }
        command.field = field.ok_or("a command without its field")?;
        Ok(command)
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

    #[test]
    fn commands_have_no_sequences_and_no_false_lengths() {
        let good = Command::store(7, "1.2", "1.2.3");
        for length in [u32::MAX, u32::MAX - 1, 1 << 31] {
            let element = [&[0, 0, 0, 1][..], &length.to_le_bytes()].concat();
            let said = Command::read(&[&good[..], &element].concat()).unwrap_err();
            assert!(said.contains("more than the command"), "{said}");
        }
        let nested = b"\x40\x00\x30\xa7\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff".repeat(4000);
        let said = Command::read(&[&good[..], &nested].concat()).unwrap_err();
        assert!(said.contains("expected those of group 0000"), "{said}");
    }
}
