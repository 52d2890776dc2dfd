//! Tests of the DICOM listener, with DCMTK and with a node made of `dicom-ul`.
#![cfg(feature = "dicom-net")]

#[path = "../../../tests/clients.rs"]
mod clients;
mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dicom_core::{DataElement, PrimitiveValue, VR};
use dicom_dictionary_std::{tags, uids};
use dicom_object::{FileMetaTableBuilder, InMemDicomObject, open_file};
use dicom_transfer_syntax_registry::entries::{EXPLICIT_VR_LITTLE_ENDIAN, IMPLICIT_VR_LITTLE_ENDIAN};
use dicom_ul::association::{Association, ClientAssociationOptions, ServerAssociationOptions};
use dicom_ul::pdu::{PDataValue, PDataValueType, Pdu};
use hearth_serve::dicom::{Destination, DicomOptions};
use hearth_serve::{Answer, Card, Kind, Model, Options, Refusal, Request, Server};
use support::{Running, local};

/// A model whose result is a DICOM file with the number of files that it received.
struct Counting(Card);

impl Counting {
    fn model() -> Arc<dyn Model> {
        Arc::new(Counting(Card {
            name: "counting".to_owned(),
            description: "counts files".to_owned(),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: vec![("spleen".to_owned(), 1)],
            channels: vec!["CT".to_owned()],
            checksum: None,
        }))
    }
}

impl Model for Counting {
    fn card(&self) -> &Card {
        &self.0
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(request.input).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in &files {
            let object = open_file(file).map_err(|error| Refusal::Input(error.to_string()))?;
            if object.element(tags::MODALITY).is_ok_and(|m| m.to_str().is_ok_and(|m| m.trim() == "MR")) {
                return Err(Refusal::Input("the model was trained on CT".to_owned()));
            }
        }
        let path = request.out.join("label.dcm");
        let object = InMemDicomObject::from_element_iter([
            text(tags::SOP_CLASS_UID, VR::UI, uids::SEGMENTATION_STORAGE),
            text(tags::SOP_INSTANCE_UID, VR::UI, "2.25.99"),
            text(tags::SERIES_DESCRIPTION, VR::LO, &format!("{} files", files.len())),
        ]);
        let meta = FileMetaTableBuilder::new()
            .media_storage_sop_class_uid(uids::SEGMENTATION_STORAGE)
            .media_storage_sop_instance_uid("2.25.99")
            .transfer_syntax(uids::EXPLICIT_VR_LITTLE_ENDIAN);
        object.with_meta(meta).unwrap().write_to_file(&path).unwrap();
        Ok(Answer { file: Some(path), ..Answer::default() })
    }
}

fn text(tag: dicom_core::Tag, vr: VR, value: &str) -> DataElement<InMemDicomObject> {
    DataElement::new(tag, vr, PrimitiveValue::from(value))
}

/// The slices of a series, as files in a folder.
fn slices(folder: &Path, study: &str, series: &str, modality: &str, count: usize) -> Vec<PathBuf> {
    let class = if modality == "MR" { uids::MR_IMAGE_STORAGE } else { uids::CT_IMAGE_STORAGE };
    (0..count)
        .map(|i| {
            let instance = format!("{series}.{}", i + 1);
            let number = |tag, value: u16| DataElement::new(tag, VR::US, PrimitiveValue::from(value));
            let object = InMemDicomObject::from_element_iter([
                text(tags::SOP_CLASS_UID, VR::UI, class),
                text(tags::SOP_INSTANCE_UID, VR::UI, &instance),
                text(tags::MODALITY, VR::CS, modality),
                text(tags::PATIENT_NAME, VR::PN, "DOE^JANE"),
                text(tags::PATIENT_ID, VR::LO, "1"),
                text(tags::STUDY_INSTANCE_UID, VR::UI, study),
                text(tags::SERIES_INSTANCE_UID, VR::UI, series),
                text(tags::INSTANCE_NUMBER, VR::IS, &i.to_string()),
                number(tags::SAMPLES_PER_PIXEL, 1),
                text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME2"),
                number(tags::ROWS, 64),
                number(tags::COLUMNS, 64),
                number(tags::BITS_ALLOCATED, 16),
                number(tags::BITS_STORED, 12),
                number(tags::HIGH_BIT, 11),
                number(tags::PIXEL_REPRESENTATION, 0),
                DataElement::new(tags::PIXEL_DATA, VR::OW, PrimitiveValue::U16(vec![i as u16; 64 * 64].into())),
            ]);
            let meta = FileMetaTableBuilder::new().transfer_syntax(uids::EXPLICIT_VR_LITTLE_ENDIAN);
            let path = folder.join(format!("{instance}.dcm"));
            object.with_meta(meta).unwrap().write_to_file(&path).unwrap();
            path
        })
        .collect()
}

/// A server whose DICOM node stores results in `folder`.
fn node(folder: &Path, change: impl FnOnce(&mut DicomOptions)) -> (Running, SocketAddr) {
    node_of(Options::default(), folder, change)
}

fn node_of(options: Options, folder: &Path, change: impl FnOnce(&mut DicomOptions)) -> (Running, SocketAddr) {
    let mut server = Server::bind(local(options), vec![Counting::model()]).unwrap();
    let mut options = DicomOptions::new("HEARTH", 0, folder);
    options.quiet = Duration::from_millis(300);
    change(&mut options);
    let address = server.listen_dicom(options).unwrap();
    (Running::of(server), address)
}

/// Waits for a file.
fn wait_for(path: &Path) {
    let until = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(Instant::now() < until, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn description(path: &Path) -> String {
    let object = open_file(path).unwrap();
    object.element(tags::SERIES_DESCRIPTION).unwrap().to_str().unwrap().trim().to_owned()
}

/// Stores files as an SCU does, and returns the statuses of the answers.
fn store(address: SocketAddr, called: &str, calling: &str, files: &[PathBuf]) -> Result<Vec<u16>, String> {
    let said = |error: dicom_ul::association::Error| error.to_string();
    let mut association = ClientAssociationOptions::new()
        .calling_ae_title(calling)
        .called_ae_title(called)
        .with_abstract_syntax(uids::VERIFICATION)
        .with_abstract_syntax(uids::CT_IMAGE_STORAGE)
        .with_abstract_syntax(uids::MR_IMAGE_STORAGE)
        .read_timeout(Duration::from_secs(10))
        .establish(address)
        .map_err(said)?;
    let mut statuses = Vec::new();
    for file in files {
        let object = open_file(file).unwrap();
        let class = object.meta().media_storage_sop_class_uid().to_owned();
        let instance = object.meta().media_storage_sop_instance_uid().to_owned();
        let contexts = association.presentation_contexts();
        let context = contexts.iter().find(|one| one.abstract_syntax == class).unwrap().clone();
        let mut command = Vec::new();
        InMemDicomObject::command_from_element_iter([
            text(tags::AFFECTED_SOP_CLASS_UID, VR::UI, &class),
            DataElement::new(tags::COMMAND_FIELD, VR::US, PrimitiveValue::from(1_u16)),
            DataElement::new(tags::MESSAGE_ID, VR::US, PrimitiveValue::from(statuses.len() as u16 + 1)),
            DataElement::new(tags::PRIORITY, VR::US, PrimitiveValue::from(0_u16)),
            DataElement::new(tags::COMMAND_DATA_SET_TYPE, VR::US, PrimitiveValue::from(0_u16)),
            text(tags::AFFECTED_SOP_INSTANCE_UID, VR::UI, &instance),
        ])
        .write_dataset_with_ts(&mut command, &IMPLICIT_VR_LITTLE_ENDIAN.erased())
        .unwrap();
        association.send(&command_pdu(context.id, command)).map_err(said)?;
        let mut data = Vec::new();
        object.write_dataset(&mut data).unwrap();
        let mut writer = association.send_pdata(context.id);
        writer.write_all(&data).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
        let Pdu::PData { data } = association.receive().map_err(said)? else { return Err("no answer".to_owned()) };
        let answer =
            InMemDicomObject::read_dataset_with_ts(&data[0].data[..], &IMPLICIT_VR_LITTLE_ENDIAN.erased()).unwrap();
        statuses.push(answer.element(tags::STATUS).unwrap().to_int().unwrap());
    }
    association.release().map_err(said)?;
    Ok(statuses)
}

/// Stores a CT whose command and data set end with these bytes; returns the status of the answer.
fn store_with(address: SocketAddr, in_command: &[u8], in_data: &[u8]) -> Result<u16, String> {
    let said = |error: dicom_ul::association::Error| error.to_string();
    let mut association = ClientAssociationOptions::new()
        .calling_ae_title("CT1")
        .called_ae_title("HEARTH")
        .with_presentation_context(uids::CT_IMAGE_STORAGE, vec![uids::EXPLICIT_VR_LITTLE_ENDIAN])
        .read_timeout(Duration::from_secs(60))
        .establish(address)
        .map_err(said)?;
    let context = association.presentation_contexts()[0].id;
    let mut command = Vec::new();
    InMemDicomObject::command_from_element_iter([
        text(tags::AFFECTED_SOP_CLASS_UID, VR::UI, uids::CT_IMAGE_STORAGE),
        DataElement::new(tags::COMMAND_FIELD, VR::US, PrimitiveValue::from(1_u16)),
        DataElement::new(tags::MESSAGE_ID, VR::US, PrimitiveValue::from(1_u16)),
        DataElement::new(tags::COMMAND_DATA_SET_TYPE, VR::US, PrimitiveValue::from(0_u16)),
        text(tags::AFFECTED_SOP_INSTANCE_UID, VR::UI, "1.2.9.1"),
    ])
    .write_dataset_with_ts(&mut command, &IMPLICIT_VR_LITTLE_ENDIAN.erased())
    .unwrap();
    command.extend(in_command);
    association.send(&command_pdu(context, command)).map_err(said)?;
    let object = InMemDicomObject::from_element_iter([
        text(tags::SOP_CLASS_UID, VR::UI, uids::CT_IMAGE_STORAGE),
        text(tags::SOP_INSTANCE_UID, VR::UI, "1.2.9.1"),
        text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2.8"),
        text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.9"),
    ]);
    let mut data = Vec::new();
    object.write_dataset_with_ts(&mut data, &EXPLICIT_VR_LITTLE_ENDIAN.erased()).unwrap();
    data.extend(in_data);
    let mut writer = association.send_pdata(context);
    writer.write_all(&data).and_then(|()| writer.finish()).map_err(|error| error.to_string())?;
    let Pdu::PData { data } = association.receive().map_err(said)? else { return Err("no answer".to_owned()) };
    let answer = InMemDicomObject::read_dataset_with_ts(&data[0].data[..], &IMPLICIT_VR_LITTLE_ENDIAN.erased());
    Ok(answer.unwrap().element(tags::STATUS).unwrap().to_int().unwrap())
}

#[test]
fn nesting_and_false_lengths_end_their_instance_alone() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let (server, address) = node(&results, |options| options.quiet = Duration::from_secs(5));
    // Half of a study that the others must not take with them.
    let files = slices(folder.path(), "1.2.3", "1.2.3.4", "CT", 10);
    assert_eq!(store(address, "HEARTH", "CT1", &files[..5]).unwrap(), [0; 5]);
    let (item, sequence) = (b"\xfe\xff\x00\xe0\xff\xff\xff\xff", b"\x40\x00\x30\xa7SQ\x00\x00\xff\xff\xff\xff");
    let nested = [&sequence[..], item].concat().repeat(50_000);
    assert_eq!(store_with(address, b"", &nested), Ok(0xC000), "a data set");
    let long = b"\x40\x00\x30\xa7UN\x00\x00\xf0\xff\xff\xff";
    assert_eq!(store_with(address, b"", long), Ok(0xC000), "4 GiB of a value");
    // The command is in implicit encoding, and has at most 64 KiB.
    let nested = [b"\x40\x00\x30\xa7\xff\xff\xff\xff", &item[..]].concat().repeat(4000);
    assert!(store_with(address, &nested, b"").is_err(), "a command");
    assert!(store_with(address, b"\x00\x00\x00\x10\xf0\xff\xff\xff", b"").is_err(), "4 GiB of a command");
    assert_eq!(store_with(address, b"", b""), Ok(0), "what was refused is fine without that");
    assert_eq!(store(address, "HEARTH", "CT1", &files[5..]).unwrap(), [0; 5]);
    let result = results.join("1.2.3/1.2.3.4_counting.dcm");
    wait_for(&result);
    assert_eq!(description(&result), "10 files");
    assert_eq!(server.get("/health").status, 200);
}

fn command_pdu(context: u8, data: Vec<u8>) -> Pdu {
    let value_type = PDataValueType::Command;
    Pdu::PData { data: vec![PDataValue { presentation_context_id: context, value_type, is_last: true, data }] }
}

/// A node that accepts one file, answers with a status, and ends. Returns the data set.
fn taking(listener: TcpListener, status: u16) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let options = ServerAssociationOptions::new().ae_title("PACS").promiscuous(true);
        let mut association = options.with_transfer_syntax(uids::IMPLICIT_VR_LITTLE_ENDIAN).establish(stream).unwrap();
        assert_eq!(association.peer_ae_title(), "HEARTH");
        let (mut dataset, mut context) = (Vec::new(), 0);
        loop {
            match association.receive().unwrap() {
                Pdu::PData { data } => {
                    for value in data {
                        context = value.presentation_context_id;
                        if value.value_type == PDataValueType::Data {
                            dataset.extend(value.data);
                            if value.is_last {
                                let mut answer = Vec::new();
                                InMemDicomObject::command_from_element_iter([
                                    DataElement::new(tags::COMMAND_FIELD, VR::US, PrimitiveValue::from(0x8001_u16)),
                                    DataElement::new(
                                        tags::MESSAGE_ID_BEING_RESPONDED_TO,
                                        VR::US,
                                        PrimitiveValue::from(1_u16),
                                    ),
                                    DataElement::new(
                                        tags::COMMAND_DATA_SET_TYPE,
                                        VR::US,
                                        PrimitiveValue::from(0x0101_u16),
                                    ),
                                    DataElement::new(tags::STATUS, VR::US, PrimitiveValue::from(status)),
                                ])
                                .write_dataset_with_ts(&mut answer, &IMPLICIT_VR_LITTLE_ENDIAN.erased())
                                .unwrap();
                                association.send(&command_pdu(context, answer)).unwrap();
                            }
                        }
                    }
                }
                Pdu::ReleaseRQ => {
                    association.send(&Pdu::ReleaseRP).unwrap();
                    return dataset;
                }
                other => panic!("{context}: {other:?}"),
            }
        }
    })
}

#[test]
fn what_is_stored_is_predicted_and_sent() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Destination { ae_title: "PACS".to_owned(), address: listener.local_addr().unwrap().to_string() };
    let to_address = to.address.clone();
    let (server, address) = node(&results, |options| options.to = vec![to]);
    let pacs = taking(listener, 0);
    let files = slices(folder.path(), "1.2.3", "1.2.3.4", "CT", 10);
    // Sent in two associations, with one slice twice.
    assert_eq!(store(address, "HEARTH", "CT1", &files[..6]).unwrap(), [0; 6]);
    assert_eq!(store(address, "HEARTH", "CT1", &files[5..]).unwrap(), [0; 5]);
    // A localizer, and a series that the model refuses.
    let few = slices(folder.path(), "1.2.3", "1.2.3.5", "CT", 2);
    let other = slices(folder.path(), "1.2.3", "1.2.3.6", "MR", 8);
    store(address, "HEARTH", "CT1", &[few, other].concat()).unwrap();
    let result = results.join("1.2.3/1.2.3.4_counting.dcm");
    wait_for(&result);
    assert_eq!(description(&result), "10 files");
    let sent = pacs.join().unwrap();
    let sent = InMemDicomObject::read_dataset_with_ts(&sent[..], &IMPLICIT_VR_LITTLE_ENDIAN.erased()).unwrap();
    assert_eq!(sent.element(tags::SOP_INSTANCE_UID).unwrap().to_str().unwrap().trim_end_matches('\0'), "2.25.99");
    let why = results.join("1.2.3/1.2.3.6_counting.error.txt");
    wait_for(&why);
    assert_eq!(std::fs::read_to_string(why).unwrap(), "the model was trained on CT\n");
    assert!(!results.join("1.2.3/1.2.3.5_counting.dcm").exists());
    let text = server.get("/metrics").text();
    for (event, count) in [("instance", 21), ("study", 1), ("result", 1), ("series skipped", 1), ("series failed", 1)] {
        let line = format!("hearth_dicom_total{{event=\"{event}\"}} {count}");
        assert!(text.contains(&line), "{line}\n{text}");
    }
    // The images go after the reason is written.
    let until = Instant::now() + Duration::from_secs(20);
    while !server.get("/metrics").text().contains("hearth_spool_bytes 0") {
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!results.join("pending/received/1.2.3").exists(), "what is finished is not kept");
    // On disk, by study: what came from where, and what became of it.
    let log = std::fs::read_to_string(results.join("studies.csv")).unwrap();
    let pacs = format!("PACS@{}", to_address);
    for (event, series, node, detail) in [
        ("arrives", "1.2.3.4", "CT1@127.0.0.1", ""),
        ("received", "1.2.3.4", "CT1@127.0.0.1", "10 slices in 10 files"),
        ("predicted", "1.2.3.4", "CT1@127.0.0.1", "1.2.3.4_counting.dcm"),
        ("sent", "1.2.3.4", &pacs, "1.2.3.4_counting.dcm"),
        ("skipped", "1.2.3.5", "CT1@127.0.0.1", "fewer than 8 slices"),
        ("failed", "1.2.3.6", "CT1@127.0.0.1", "the model was trained on CT"),
    ] {
        let end = format!("Z,{event},1.2.3,{series},{node},{detail}");
        assert_eq!(log.lines().filter(|line| line.ends_with(&end)).count(), 1, "{end}\n{log}");
    }
}

#[test]
fn a_stop_predicts_what_was_received() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) =
        node(&folder.path().join("results"), |options| options.quiet = Duration::from_secs(600));
    store(address, "HEARTH", "CT1", &slices(folder.path(), "1.2", "1.2.1", "CT", 8)).unwrap();
    server.stop();
    assert_eq!(description(&folder.path().join("results/1.2/1.2.1_counting.dcm")), "8 files");
}

/// The folder of results of the server of [`a_killed_server_loses_no_image_and_no_result`].
const OF_CHILD: &str = "HEARTH_TEST_NODE";

/// Starts this test again as a server in a process of its own, which can be killed.
fn process(results: &Path, to: &Destination, quiet: u64) -> (std::process::Child, SocketAddr) {
    let place = results.with_extension("address");
    let _ = std::fs::remove_file(&place);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_server_loses_no_image_and_no_result"])
        .env(OF_CHILD, format!("{quiet} {to} {}", results.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&place);
    (child, std::fs::read_to_string(&place).unwrap().parse().unwrap())
}

/// The server of such a process.
fn serve_until_killed(words: &str) -> ! {
    let mut words = words.splitn(3, ' ');
    let mut next = || words.next().unwrap();
    let (quiet, to, results) = (next().parse().unwrap(), next().parse().unwrap(), PathBuf::from(next()));
    let (_server, address) = node(&results, |options| {
        options.quiet = Duration::from_millis(quiet);
        options.to = vec![to];
    });
    let (new, place) = (results.with_extension("new"), results.with_extension("address"));
    std::fs::write(&new, address.to_string()).unwrap();
    std::fs::rename(new, place).unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_server_loses_no_image_and_no_result() {
    if let Some(words) = std::env::var_os(OF_CHILD) {
        serve_until_killed(&words.into_string().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let files = slices(folder.path(), "1.2.3", "1.2.3.4", "CT", 10);
    // Nothing listens there yet.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Destination { ae_title: "PACS".to_owned(), address: closed.local_addr().unwrap().to_string() };
    drop(closed);

    // Killed between the arrival and the prediction, for which it would wait for ten minutes.
    let (mut child, address) = process(&results, &to, 600_000);
    assert_eq!(store(address, "HEARTH", "CT1", &files[..9]).unwrap(), [0; 9]);
    let other = Server::bind(local(Options::default()), vec![Counting::model()]).unwrap();
    let refused = { other }.listen_dicom(DicomOptions::new("HEARTH", 0, &results)).unwrap_err();
    let said = std::error::Error::source(&refused).expect("a reason").to_string();
    assert!(said.contains("another server receives into this folder"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    let result = results.join("1.2.3/1.2.3.4_counting.dcm");
    assert!(!result.exists());

    // The next server takes the rest, predicts all, and is killed between the prediction and the sending.
    let (mut child, address) = process(&results, &to, 700);
    assert_eq!(store(address, "HEARTH", "CT1", &files[9..]).unwrap(), [0]);
    wait_for(&result);
    assert_eq!(description(&result), "10 files");
    let left = results.join("pending/received/1.2.3");
    let until = Instant::now() + Duration::from_secs(20);
    while left.exists() {
        assert!(Instant::now() < until, "a finished series stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    // A server without the receiver names what is left; one with it sends.
    {
        let (server, _) = node(&results, |_| {});
        let health = server.get("/health").json();
        assert_eq!(health["dicom"], serde_json::json!({ "studies": 0, "unsent": 0, "kept": 1 }), "{health}");
    }
    let pacs = taking(TcpListener::bind(&to.address).unwrap(), 0);
    let (_server, _) = node(&results, |options| options.to = vec![to]);
    let sent = pacs.join().unwrap();
    let sent = InMemDicomObject::read_dataset_with_ts(&sent[..], &IMPLICIT_VR_LITTLE_ENDIAN.erased()).unwrap();
    assert_eq!(sent.element(tags::SOP_INSTANCE_UID).unwrap().to_str().unwrap().trim_end_matches('\0'), "2.25.99");
    let note = results.join("pending/unsent/1.2.3_1.2.3.4_counting.dcm.json");
    while note.exists() {
        assert!(Instant::now() < until, "a result that was sent is still noted");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn peers_that_do_wrong_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let (server, address) = node(&results, |options| options.from = vec!["CT1".to_owned()]);
    let files = slices(folder.path(), "1.2", "1.2.1", "CT", 8);
    assert!(store(address, "OTHER", "CT1", &files).unwrap_err().contains("rejected"), "another node is called");
    assert!(store(address, "HEARTH", "OTHER", &files).unwrap_err().contains("rejected"), "this one may not send");
    // Data that is not DICOM, and no data at all.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(TcpStream::connect(address).unwrap());
    // Instances without a study cannot be used.
    let object = InMemDicomObject::from_element_iter([
        text(tags::SOP_CLASS_UID, VR::UI, uids::CT_IMAGE_STORAGE),
        text(tags::SOP_INSTANCE_UID, VR::UI, "1.9"),
    ]);
    let path = folder.path().join("no-study.dcm");
    let meta = FileMetaTableBuilder::new().transfer_syntax(uids::EXPLICIT_VR_LITTLE_ENDIAN);
    object.with_meta(meta).unwrap().write_to_file(&path).unwrap();
    assert_eq!(store(address, "HEARTH", "CT1", &[path]).unwrap(), [0xC000]);
    // The node continues to work.
    assert_eq!(store(address, "HEARTH", "CT1", &files).unwrap(), [0; 8]);
    wait_for(&results.join("1.2/1.2.1_counting.dcm"));
    drop(server);
    // Without space, the peer gets an answer, and keeps its files.
    let small = Options { max_request: 10_000, max_spool: 10_000, ..Options::default() };
    let (_server, address) = node_of(small, &results, |_| {});
    assert_eq!(store(address, "HEARTH", "CT1", &files[..2]).unwrap(), [0, 0xA700]);
}

/// A timeout of the socket begins again with each byte; two such peers would keep both associations.
#[test]
fn peers_that_send_byte_by_byte_do_not_keep_their_associations() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, address) = node(folder.path(), |options| {
        options.idle = Duration::from_millis(700);
        options.associations = 2;
    });
    let slow: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let start = Instant::now();
                // The length of an association request of 64 KiB, and bytes of it.
                for byte in [1_u8, 0, 0, 1, 0, 0].into_iter().chain(std::iter::repeat(0)) {
                    if stream.write_all(&[byte]).is_err() || start.elapsed() > Duration::from_secs(20) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
                start.elapsed()
            })
        })
        .collect();
    for peer in slow {
        assert!(peer.join().unwrap() < Duration::from_secs(10));
    }
    let files = slices(folder.path(), "2.25.5", "2.25.5.1", "CT", 1);
    assert_eq!(store(address, "HEARTH", "CT1", &files).unwrap(), [0], "the node takes associations again");
}

#[test]
fn nodes_that_cannot_be_started_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let start = |options: DicomOptions| {
        let mut server = Server::bind(local(Options::default()), vec![Counting::model()]).unwrap();
        server.listen_dicom(options).unwrap_err().to_string()
    };
    let of = |title: &str| DicomOptions::new(title, 0, folder.path());
    assert!(start(of("A_TITLE_THAT_IS_TOO_LONG")).contains("1 to 16 characters"));
    let mut open = of("HEARTH");
    open.address = "0.0.0.0:0".parse().unwrap();
    assert!(start(open).contains("--dicom-from"));
    let mut other = of("HEARTH");
    other.model = Some("other".to_owned());
    assert!(start(other).contains("counting"));
}

#[test]
fn live_dcmtk_stores_to_the_node() {
    let twin = "what_is_stored_is_predicted_and_sent";
    let Some(storescu) = clients::find_program("storescu", "what_is_stored_is_predicted_and_sent") else { return };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let (server, address) = node(&results, |_| {});
    let files = slices(folder.path(), "1.2.3", "1.2.3.4", "CT", 12);
    let run = |program: PathBuf, title: &str, files: &[PathBuf]| {
        let mut command = Command::new(program);
        command.args(["-aet", "CT1", "-aec", title, "127.0.0.1", &address.port().to_string()]).args(files);
        let output = command.output().unwrap();
        (output.status.success(), format!("{twin}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let (good, said) = run(storescu.with_file_name("echoscu"), "HEARTH", &[]);
    assert!(good, "{said}");
    let (good, said) = run(storescu.with_file_name("echoscu"), "OTHER", &[]);
    assert!(!good && said.contains("Called AE Title Not Recognized"), "{said}");
    let (good, said) = run(storescu, "HEARTH", &files);
    assert!(good, "{said}");
    let result = results.join("1.2.3/1.2.3.4_counting.dcm");
    wait_for(&result);
    assert_eq!(description(&result), "12 files");
    assert!(server.get("/metrics").text().contains("hearth_dicom_total{event=\"echo\"} 1"));
}
