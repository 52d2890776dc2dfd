//! Sends files to another node by C-STORE: [`send`].

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use dicom_object::open_file;
use dicom_transfer_syntax_registry::entries::{EXPLICIT_VR_LITTLE_ENDIAN, IMPLICIT_VR_LITTLE_ENDIAN};
use dicom_ul::association::client::{ClientAssociation, ClientAssociationOptions};
use dicom_ul::pdu::{PDataValue, PDataValueType, Pdu, PresentationContextResultReason};

use super::Destination;
use super::command::{C_STORE_RSP, COMMAND, Command};

/// The maximum time that a node may take to answer.
const WAIT: Duration = Duration::from_secs(60);
/// The maximum time for a connection.
const REACH: Duration = Duration::from_secs(10);

/// Sends a file that this program wrote, in the encoding that the node accepts.
///
/// # Errors
/// A node that cannot be reached, rejects the association or the kind of file, or answers with a
/// status other than success or a warning.
pub fn send(file: &Path, own: &str, to: &Destination) -> Result<(), String> {
    let object = open_file(file).map_err(|error| error.to_string())?;
    let meta = object.meta();
    let class = meta.media_storage_sop_class_uid().trim_end_matches('\0').to_owned();
    let instance = meta.media_storage_sop_instance_uid().trim_end_matches('\0').to_owned();
    let address = to.resolve().map_err(|error| error.to_string())?;
    let mut association = ClientAssociationOptions::new()
        .calling_ae_title(own)
        .called_ae_title(to.ae_title.as_str())
        .with_abstract_syntax(class.as_str())
        .connection_timeout(REACH)
        .read_timeout(WAIT)
        .write_timeout(WAIT)
        .establish(address)
        .map_err(|error| error.to_string())?;
    let stored = store(&mut association, &object, &class, &instance);
    // The file is already stored or refused.
    let _ = association.release();
    stored
}

fn store(
    association: &mut ClientAssociation<std::net::TcpStream>,
    object: &dicom_object::DefaultDicomObject,
    class: &str,
    instance: &str,
) -> Result<(), String> {
    let contexts = association.presentation_contexts();
    let accepted = contexts.iter().find(|one| one.reason == PresentationContextResultReason::Acceptance);
    let context = accepted.ok_or_else(|| format!("it does not accept files of the kind {class}"))?;
    let (id, syntax) = (context.id, context.transfer_syntax.trim_end_matches('\0').to_owned());
    let syntax = match syntax == IMPLICIT_VR_LITTLE_ENDIAN.uid() {
        true => IMPLICIT_VR_LITTLE_ENDIAN.erased(),
        false => EXPLICIT_VR_LITTLE_ENDIAN.erased(),
    };
    let mut data = Vec::new();
    object.write_dataset_with_ts(&mut data, &syntax).map_err(|error| error.to_string())?;
    let command = PDataValue {
        presentation_context_id: id,
        value_type: PDataValueType::Command,
        is_last: true,
        data: Command::store(1, class, instance),
    };
    association.send(&Pdu::PData { data: vec![command] }).map_err(|error| error.to_string())?;
    {
        let mut writer = association.send_pdata(id);
        writer.write_all(&data).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
    }
    let mut answer = Vec::new();
    loop {
        let Pdu::PData { data } = association.receive().map_err(|error| error.to_string())? else {
            return Err("it did not answer the request".to_owned());
        };
        let mut ended = false;
        for value in data {
            if answer.len() + value.data.len() > COMMAND {
                return Err("its answer is too long".to_owned());
            }
            answer.extend(value.data);
            ended |= value.is_last;
        }
        if ended {
            break;
        }
    }
    let answer = Command::read(&answer)?;
    match (answer.field, answer.status) {
        // Bxxx are warnings: the file was stored.
        (C_STORE_RSP, 0x0000 | 0xB000..=0xBFFF) => Ok(()),
        (C_STORE_RSP, status) => Err(format!("it refused the file with the status {status:#06x}")),
        (field, _) => Err(format!("it answered with the command {field:#06x}")),
    }
}
