//! A DICOM association: C-ECHO and C-STORE from a peer.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dicom_dictionary_std::uids;
use dicom_object::FileMetaTableBuilder;
use dicom_ul::association::Association;
use dicom_ul::association::server::{AccessControl, ServerAssociation, ServerAssociationOptions};
use dicom_ul::pdu::{
    AssociationRJServiceUserReason, PDataValue, PDataValueType, Pdu, PresentationContextResultReason, UserIdentity,
};

use super::DicomOptions;
use super::command::{
    C_ECHO_RQ, C_STORE_RQ, CANNOT_UNDERSTAND, COMMAND, Command, NO_DATA, OUT_OF_RESOURCES, SUCCESS,
    UNRECOGNIZED_OPERATION,
};
use super::deadline::Deadline;
use super::studies::{Received, Studies};
use crate::http::App;
use crate::spool::Workspace;

/// The maximum size of a received PDU in bytes.
const PDU: u32 = 128 << 10;

/// SOP classes of images that are accepted. Reports, structure sets and others are not inputs of a
/// model.
const CLASSES: [&str; 17] = [
    uids::VERIFICATION,
    uids::CT_IMAGE_STORAGE,
    uids::ENHANCED_CT_IMAGE_STORAGE,
    uids::LEGACY_CONVERTED_ENHANCED_CT_IMAGE_STORAGE,
    uids::MR_IMAGE_STORAGE,
    uids::ENHANCED_MR_IMAGE_STORAGE,
    uids::LEGACY_CONVERTED_ENHANCED_MR_IMAGE_STORAGE,
    uids::POSITRON_EMISSION_TOMOGRAPHY_IMAGE_STORAGE,
    uids::ENHANCED_PET_IMAGE_STORAGE,
    uids::LEGACY_CONVERTED_ENHANCED_PET_IMAGE_STORAGE,
    uids::NUCLEAR_MEDICINE_IMAGE_STORAGE,
    uids::COMPUTED_RADIOGRAPHY_IMAGE_STORAGE,
    uids::DIGITAL_X_RAY_IMAGE_STORAGE_FOR_PRESENTATION,
    uids::DIGITAL_X_RAY_IMAGE_STORAGE_FOR_PROCESSING,
    uids::ULTRASOUND_IMAGE_STORAGE,
    uids::ULTRASOUND_MULTI_FRAME_IMAGE_STORAGE,
    uids::SECONDARY_CAPTURE_IMAGE_STORAGE,
];

/// Transfer syntaxes that the DICOM readers can decode; the first one that a peer proposes is accepted.
const SYNTAXES: [&str; 12] = [
    uids::EXPLICIT_VR_LITTLE_ENDIAN,
    uids::IMPLICIT_VR_LITTLE_ENDIAN,
    uids::JPEG_BASELINE8_BIT,
    uids::JPEG_EXTENDED12_BIT,
    uids::JPEG_LOSSLESS,
    uids::JPEG_LOSSLESS_SV1,
    uids::JPEGLS_LOSSLESS,
    uids::JPEGLS_NEAR_LOSSLESS,
    uids::JPEG2000_LOSSLESS,
    uids::JPEG2000,
    uids::RLE_LOSSLESS,
    uids::DEFLATED_EXPLICIT_VR_LITTLE_ENDIAN,
];

/// The application entity titles that may associate.
struct Titles<'a>(&'a [String]);

impl AccessControl for Titles<'_> {
    fn check_access(
        &self,
        own: &str,
        calling: &str,
        called: &str,
        _: Option<&UserIdentity>,
    ) -> Result<(), AssociationRJServiceUserReason> {
        if called.trim() != own {
            return Err(AssociationRJServiceUserReason::CalledAETitleNotRecognized);
        }
        if !self.0.is_empty() && !self.0.iter().any(|title| title == calling.trim()) {
            return Err(AssociationRJServiceUserReason::CallingAETitleNotRecognized);
        }
        Ok(())
    }
}

/// Serves an association until the peer releases it.
pub fn serve(
    stream: TcpStream,
    deadline: &Deadline,
    options: &DicomOptions,
    app: &Arc<App>,
    studies: &Arc<Studies>,
    stopping: &AtomicBool,
) -> Result<(), String> {
    let idle: Duration = options.idle;
    let from = stream.peer_addr().map_err(|error| error.to_string())?.ip();
    let mut accepting = ServerAssociationOptions::new()
        .ae_access_control(Titles(&options.from))
        .ae_title(options.ae_title.as_str())
        .max_pdu_length(PDU)
        .read_timeout(idle)
        .write_timeout(idle);
    for class in CLASSES {
        accepting = accepting.with_abstract_syntax(class);
    }
    for syntax in SYNTAXES {
        accepting = accepting.with_transfer_syntax(syntax);
    }
    let association = deadline.wait(|| accepting.establish(stream)).map_err(|error| {
        app.metrics.dicom("association refused");
        error.to_string()
    })?;
    app.metrics.dicom("association");
    let from = format!("{}@{from}", association.peer_ae_title().trim());
    let workspace = app.spool.workspace().map_err(|error| format!("no temporary folder: {error}"))?;
    let (storing, command, count) = (None, Vec::new(), 0);
    Serving { association, deadline, from, app, studies, workspace, storing, command, count }.run(stopping)
}

/// An instance that is being received.
struct Storing {
    command: Command,
    context: u8,
    path: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: u64,
    /// The status of the answer once all of it is received.
    status: u16,
}

struct Serving<'a> {
    association: ServerAssociation<TcpStream>,
    deadline: &'a Deadline,
    /// The title and the address of the peer.
    from: String,
    app: &'a Arc<App>,
    studies: &'a Arc<Studies>,
    workspace: Arc<Workspace>,
    storing: Option<Storing>,
    command: Vec<u8>,
    count: u64,
}

impl Serving<'_> {
    fn run(mut self, stopping: &AtomicBool) -> Result<(), String> {
        loop {
            // A started instance is received completely.
            if stopping.load(Ordering::Relaxed) && self.storing.is_none() && self.command.is_empty() {
                self.association.abort().map_err(|error| error.to_string())?;
                return Ok(());
            }
            match self.deadline.wait(|| self.association.receive()).map_err(|error| error.to_string())? {
                Pdu::PData { data } => {
                    for value in data {
                        self.value(value)?;
                    }
                }
                Pdu::ReleaseRQ => {
                    self.association.send(&Pdu::ReleaseRP).map_err(|error| error.to_string())?;
                    return Ok(());
                }
                Pdu::AbortRQ { .. } => return Err("the peer aborted it".to_owned()),
                other => return Err(format!("the peer sent {}, which is not expected", other.short_description())),
            }
        }
    }

    fn value(&mut self, value: PDataValue) -> Result<(), String> {
        let PDataValue { presentation_context_id: context, value_type, is_last, data } = value;
        match value_type {
            PDataValueType::Command => {
                if self.command.len() + data.len() > COMMAND {
                    return Err("a command is too long".to_owned());
                }
                self.command.extend(data);
                if is_last {
                    let command = Command::read(&std::mem::take(&mut self.command))?;
                    self.begin(command, context)?;
                }
                Ok(())
            }
            PDataValueType::Data => {
                let Some(storing) = &mut self.storing else { return Err("data without a command".to_owned()) };
                storing.take(&data, &self.workspace);
                if !is_last {
                    return Ok(());
                }
                let Some(storing) = self.storing.take() else { return Ok(()) };
                self.end(storing)
            }
        }
    }

    /// Handles a command.
    fn begin(&mut self, command: Command, context: u8) -> Result<(), String> {
        match command.field {
            C_ECHO_RQ => {
                self.app.metrics.dicom("echo");
                self.reply(context, command.answer(SUCCESS))
            }
            C_STORE_RQ if command.data != NO_DATA && self.storing.is_some() => {
                Err("an instance begins within another".to_owned())
            }
            C_STORE_RQ if command.data != NO_DATA => {
                let contexts = self.association.presentation_contexts();
                let accepted =
                    |reason: &PresentationContextResultReason| *reason == PresentationContextResultReason::Acceptance;
                let own = contexts.iter().find(|one| one.id == context && accepted(&one.reason));
                let syntax = own.map(|one| one.transfer_syntax.clone());
                let syntax = syntax.ok_or("an instance in a presentation context that was not accepted")?;
                self.count += 1;
                let path = self.workspace.uploads().join(format!("{}.dcm", self.count));
                self.storing = Some(Storing::begin(command, context, path, &syntax));
                Ok(())
            }
            _ if command.data == NO_DATA => self.reply(context, command.answer(UNRECOGNIZED_OPERATION)),
            other => Err(format!("the operation {other:#06x} is not supported")),
        }
    }

    /// Handles the end of an instance.
    fn end(&mut self, mut storing: Storing) -> Result<(), String> {
        let flushed = storing.file.take().map(|mut file| file.flush());
        if !matches!(flushed, Some(Ok(()))) && storing.status == SUCCESS {
            storing.status = OUT_OF_RESOURCES;
        }
        let Storing { command, context, path, bytes, mut status, .. } = storing;
        if status == SUCCESS {
            let (instance, from) = (command.instance.clone(), self.from.clone());
            let received = Received { path: path.clone(), bytes, instance, from };
            status = match self.studies.add(received, &self.workspace) {
                Ok(()) => SUCCESS,
                Err(status) => status,
            };
        }
        if status != SUCCESS {
            // Otherwise the file is removed with the association.
            let _ = std::fs::remove_file(&path);
            self.workspace.release(bytes);
        }
        self.app.metrics.dicom(if status == SUCCESS { "instance" } else { "instance refused" });
        self.reply(context, command.answer(status))
    }

    fn reply(&mut self, context: u8, data: Vec<u8>) -> Result<(), String> {
        let value =
            PDataValue { presentation_context_id: context, value_type: PDataValueType::Command, is_last: true, data };
        self.association.send(&Pdu::PData { data: vec![value] }).map_err(|error| error.to_string())
    }
}

impl Storing {
    /// Writes the header of the file, which contains its encoding.
    fn begin(command: Command, context: u8, path: PathBuf, syntax: &str) -> Self {
        let head = FileMetaTableBuilder::new()
            .media_storage_sop_class_uid(&command.class)
            .media_storage_sop_instance_uid(&command.instance)
            .transfer_syntax(syntax)
            .build();
        let mut storing = Self { command, context, path, file: None, bytes: 0, status: SUCCESS };
        let Ok(head) = head else {
            storing.status = CANNOT_UNDERSTAND;
            return storing;
        };
        let opened = File::create_new(&storing.path).map(|file| BufWriter::with_capacity(1 << 20, file));
        let written = opened.map_err(|error| error.to_string()).and_then(|mut file| {
            file.write_all(&[0; 128]).and_then(|()| file.write_all(b"DICM")).map_err(|error| error.to_string())?;
            head.write(&mut file).map_err(|error| error.to_string())?;
            Ok(file)
        });
        match written {
            Ok(file) => storing.file = Some(file),
            Err(_) => storing.status = OUT_OF_RESOURCES,
        }
        storing
    }

    /// Writes bytes of the data set. After an error the rest is skipped, and the answer reports it.
    fn take(&mut self, data: &[u8], workspace: &Workspace) {
        if self.status != SUCCESS {
            return;
        }
        let count = data.len() as u64;
        if workspace.reserve(count).is_err() {
            self.status = OUT_OF_RESOURCES;
            return;
        }
        self.bytes += count;
        if self.file.as_mut().is_none_or(|file| file.write_all(data).is_err()) {
            self.status = OUT_OF_RESOURCES;
        }
    }
}
