//! Studies from their arrival until they are complete, predicted and sent: [`Studies`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hearth_dicom::{Head, Limits};
use serde_json::Map;

use super::command::{CANNOT_UNDERSTAND, OUT_OF_RESOURCES};
use super::ledger::{self, Event, Ledger};
use super::pending::{self, Facts, Left, Pending, Unsent};
use super::send::send;
use super::{Destination, DicomOptions, TICK};
use crate::error::ServeError;
use crate::http::App;
use crate::model::{Format, Model};
use crate::queue::Work;
use crate::spool::Workspace;

/// The number of attempts to send a result to a node.
const TRIES: u32 = 6;

/// An instance that was received.
pub struct Received {
    /// Its file, in the workspace of its association.
    pub path: PathBuf,
    /// Its space in the temporary files, in bytes.
    pub bytes: u64,
    /// Its SOP instance UID.
    pub instance: String,
    /// The node that sent it.
    pub from: String,
}

/// A series that is being received.
#[derive(Default)]
struct Incoming {
    /// Files by SOP instance UID and content, with their sizes. An instance that is sent again replaces
    /// the earlier one; different slices with the same UID, as faulty anonymizers make them, are kept.
    files: HashMap<(String, blake3::Hash), (PathBuf, u64)>,
    /// The number of slices: the frames of all files.
    slices: u64,
    /// The nodes that sent them, and the predictions that have begun.
    facts: Facts,
}

struct Study {
    /// The space of its files.
    workspace: Arc<Workspace>,
    series: BTreeMap<String, Incoming>,
    last: Instant,
}

/// Studies that are being received, and the threads that predict and send them.
pub struct Studies {
    app: Arc<App>,
    options: DicomOptions,
    model: Arc<dyn Model>,
    ledger: Ledger,
    open: Mutex<HashMap<String, Study>>,
    /// The number of studies that are being predicted.
    predicting: AtomicUsize,
    /// The number of results that are not sent yet.
    unsent: AtomicUsize,
    /// The number of series and results that earlier servers left, and that are not finished here: a person
    /// decides about them.
    kept: AtomicUsize,
    finishing: AtomicBool,
    pending: Pending,
}

/// The end of a series without a result.
enum End {
    /// The reason why the result cannot be stored: the images stay.
    Unstored(String),
    /// The server stops: the next one continues.
    Stopping,
    /// The reason.
    Failed(String),
}

impl From<String> for End {
    fn from(why: String) -> Self {
        End::Failed(why)
    }
}

impl Studies {
    /// Starts the threads.
    pub fn start(options: DicomOptions, app: Arc<App>) -> Result<Arc<Self>, ServeError> {
        let results = &options.results;
        fs::create_dir_all(results).map_err(|error| ServeError::file("make the folder of results", results, error))?;
        let ledger =
            Ledger::open(results).map_err(|error| ServeError::file("write", results.join(ledger::NAME), error))?;
        let pending = Pending::open(results)
            .map_err(|error| ServeError::file("keep what is received in", results.join(pending::FOLDER), error))?;
        let model = match (&options.model, &app.models[..]) {
            (None, [one]) => Some(one.clone()),
            (None, _) => None,
            (Some(name), models) => models.iter().find(|model| model.card().name == *name).cloned(),
        };
        let names = || app.models.iter().map(|model| model.card().name.as_str()).collect::<Vec<_>>().join(", ");
        let model = model.ok_or_else(|| {
            ServeError::Option(format!(
                "--dicom-model: give the model that predicts images from DICOM, one of {}",
                names()
            ))
        })?;
        let studies = Arc::new(Self {
            app,
            options,
            model,
            ledger,
            open: Mutex::default(),
            predicting: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            finishing: AtomicBool::new(false),
            pending,
        });
        let (results, unsent) = channel();
        studies
            .take_up(&results)
            .map_err(|error| ServeError::file("continue with", studies.options.results.join(pending::FOLDER), error))?;
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let own = studies.clone();
        thread("studies").spawn(move || own.predict_all(&results)).map_err(ServeError::Start)?;
        let own = studies.clone();
        thread("dicom-send").spawn(move || own.send_all(&unsent)).map_err(ServeError::Start)?;
        Ok(studies)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Study>> {
        self.open.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Takes up what earlier servers received and did not predict, and what they did not send.
    fn take_up(&self, results: &Sender<Unsent>) -> io::Result<()> {
        let (mut taken, mut kept) = (BTreeSet::new(), 0);
        for Left { study, series, facts, files } in self.pending.received()? {
            if facts.is_given_up() {
                let (begun, place) = (facts.begun, self.pending.series(&study, &series));
                let what = format!("{begun} servers ended while they predicted a series; it stays in");
                let how = "remove its folder, or the .json file next to it to try again";
                self.app.journal.say(&format!("dicom: {what} {}: {how}", place.display()));
                kept += 1;
                continue;
            }
            let before = taken.len();
            for path in files {
                let name = name_of(&path);
                // Damaged by an end of the machine's power.
                let (Ok(Head { frames, .. }), Some((instance, _))) =
                    (Head::read(&path, &limits()), name.rsplit_once('-'))
                else {
                    continue;
                };
                let content = blake3::Hasher::new().update_reader(File::open(&path)?)?.finalize();
                let mut open = self.lock();
                if !open.contains_key(&study) {
                    let workspace = self.app.spool.workspace()?;
                    open.insert(study.clone(), Study { workspace, series: BTreeMap::new(), last: Instant::now() });
                }
                let Some(known) = open.get_mut(&study) else { continue };
                let length = path.metadata()?.len();
                // Files that are there already are not refused for a lack of space.
                let bytes = if known.workspace.reserve(length).is_ok() { length } else { 0 };
                let incoming = known.series.entry(series.clone()).or_default();
                incoming.facts = facts.clone();
                incoming.slices = incoming.slices.saturating_add(frames);
                incoming.files.insert((instance.to_owned(), content), (path.clone(), bytes));
                taken.insert((study.clone(), series.clone()));
            }
            if taken.len() == before {
                let place = self.pending.series(&study, &series);
                self.app.journal.say(&format!("dicom: {} has no image that can be read: it stays", place.display()));
                kept += 1;
            }
        }
        let (unsent, damaged) = self.pending.unsent()?;
        let mut again = 0;
        for one in unsent {
            if self.options.to.iter().any(|to| one.is_for(to)) {
                again += 1;
                self.unsent.fetch_add(1, Ordering::Relaxed);
                // The thread that sends starts after this one, and holds the other end.
                let _ = results.send(one);
            } else {
                let nodes = one.to.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                let what = "was not sent to";
                self.app.journal.say(&format!("dicom: a result {what} {nodes}, which --to does not name: it stays"));
                kept += 1;
            }
        }
        self.kept.store(kept + damaged, Ordering::Relaxed);
        if !taken.is_empty() || again > 0 {
            let (series, what) = (taken.len(), "of an earlier server, series that are predicted now");
            self.app.journal.say(&format!("dicom: {what}: {series}; results that are sent now: {again}"));
        }
        Ok(())
    }

    /// The numbers of studies that are received or predicted, of results that are not sent yet, and of series
    /// and results that earlier servers left and that need a decision.
    pub fn load(&self) -> [usize; 3] {
        let open = self.lock().len() + self.predicting.load(Ordering::Relaxed);
        [open, self.unsent.load(Ordering::Relaxed), self.kept.load(Ordering::Relaxed)]
    }

    /// Adds an instance to its study. The error is the status for the answer.
    pub fn add(&self, received: Received, from: &Workspace) -> Result<(), u16> {
        let Received { path, bytes, instance, from: node } = received;
        let Head { study, series, frames, .. } = Head::read(&path, &limits()).map_err(|_| CANNOT_UNDERSTAND)?;
        if ![&study, &series, &instance].into_iter().all(|uid| is_uid(uid)) {
            return Err(CANNOT_UNDERSTAND);
        }
        let stored = || -> io::Result<()> {
            let content = blake3::Hasher::new().update_reader(File::open(&path)?)?.finalize();
            let mut open = self.lock();
            if !open.contains_key(&study) {
                let workspace = self.app.spool.workspace()?;
                open.insert(study.clone(), Study { workspace, series: BTreeMap::new(), last: Instant::now() });
            }
            let Some(known) = open.get_mut(&study) else { return Ok(()) };
            known.last = Instant::now();
            let incoming = known.series.entry(series.clone()).or_default();
            // An image whose arrival is not on disk is not taken.
            if !incoming.facts.from.contains(&node) {
                self.ledger.add(Event::Arrives, &study, &series, &node, "")?;
                incoming.facts.from.insert(node.clone());
                self.pending.note(&study, &series, &incoming.facts)?;
            }
            let key = (instance, content);
            let name = format!("{}-{}.dcm", key.0, &content.to_hex()[..16]);
            // The same content replaces itself.
            let own = self.pending.put(&path, &study, &series, &name)?;
            match incoming.files.remove(&key) {
                Some((_, bytes)) => known.workspace.release(bytes),
                None => incoming.slices = incoming.slices.saturating_add(frames),
            }
            known.workspace.take_over(from, bytes);
            incoming.files.insert(key, (own, bytes));
            Ok(())
        };
        stored().map_err(|_| OUT_OF_RESOURCES)
    }

    /// Predicts all studies after the last one has arrived, and waits until the results are sent.
    /// Returns the number of studies that are left.
    pub fn finish(&self, until: Instant) -> usize {
        self.finishing.store(true, Ordering::Relaxed);
        loop {
            let left = self.lock().len() + self.predicting.load(Ordering::Relaxed);
            if left == 0 && self.unsent.load(Ordering::Relaxed) == 0 {
                return 0;
            }
            if Instant::now() >= until {
                return left;
            }
            std::thread::sleep(TICK);
        }
    }

    /// The loop of the thread that predicts studies, one after the other.
    fn predict_all(&self, results: &Sender<Unsent>) {
        loop {
            let finishing = self.finishing.load(Ordering::Relaxed);
            let complete = |study: &Study| finishing || study.last.elapsed() >= self.options.quiet;
            let next = {
                let mut open = self.lock();
                let found = open.iter().find(|(_, study)| complete(study)).map(|(uid, _)| uid.clone());
                // Counted before it leaves the table, so that a stop sees it in one of the two places.
                found.and_then(|uid| {
                    self.predicting.fetch_add(1, Ordering::Relaxed);
                    Some((uid.clone(), open.remove(&uid)?))
                })
            };
            let Some((uid, study)) = next else {
                if finishing {
                    return;
                }
                std::thread::sleep(TICK);
                continue;
            };
            self.app.metrics.dicom("study");
            for (series, incoming) in &study.series {
                self.predict(&uid, series, incoming, &study, results);
            }
            drop(study);
            self.predicting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn predict(&self, uid: &str, series: &str, incoming: &Incoming, study: &Study, results: &Sender<Unsent>) {
        let (app, least) = (&self.app, self.options.least_slices as u64);
        let forget = || {
            if let Err(error) = self.pending.forget(uid, series) {
                app.journal.say(&format!("dicom: the files of a finished series cannot be removed: {error}"));
            }
        };
        let from = incoming.facts.from.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let log = |event: Event, detail: &str| self.log(event, (uid, series), &from, detail);
        log(Event::Received, &format!("{} slices in {} files", incoming.slices, incoming.files.len()));
        if incoming.slices < least {
            app.metrics.dicom("series skipped");
            app.journal.say(&format!("dicom: a series has {} slices, and {least} are predicted", incoming.slices));
            log(Event::Skipped, &format!("fewer than {least} slices"));
            forget();
            return;
        }
        let folder = self.options.results.join(uid);
        let name = format!("{series}_{}", self.model.card().name);
        // If this prediction ends the process, the next server knows.
        let facts = Facts { begun: incoming.facts.begun + 1, ..incoming.facts.clone() };
        if let Err(error) = self.pending.note(uid, series, &facts) {
            app.journal.say(&format!("dicom: it cannot be noted that a prediction begins: {error}"));
        }
        let files = self.pending.series(uid, series);
        let predicted = || -> Result<PathBuf, End> {
            let chosen = volume(&files, self.options.least_slices)?;
            let (workspace, file) = self.compute(&files, chosen, study)?;
            let path = keep(&folder, &name, &file).map_err(|error| End::Unstored(error.to_string()))?;
            drop(workspace);
            Ok(path)
        };
        match predicted() {
            Ok(path) => {
                app.metrics.dicom("result");
                log(Event::Predicted, &name_of(&path));
                let to = self.options.to.iter().map(Destination::to_string).collect();
                let result = Unsent { study: uid.to_owned(), series: series.to_owned(), file: name_of(&path), to };
                self.note_unsent(&result);
                if !result.to.is_empty() {
                    self.unsent.fetch_add(1, Ordering::Relaxed);
                    if results.send(result).is_err() {
                        self.unsent.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                forget();
            }
            Err(End::Stopping) => {
                // It was not the prediction that ended the server.
                if let Err(error) = self.pending.note(uid, series, &incoming.facts) {
                    app.journal.say(&format!("dicom: it cannot be noted that a prediction did not begin: {error}"));
                }
                app.journal.say("dicom: a series was not predicted before the stop: the next start continues");
            }
            Err(End::Unstored(why)) => {
                app.metrics.dicom("series failed");
                log(Event::Failed, &format!("the result cannot be stored: {why}"));
                let then = "the images stay, and are predicted again after the next start";
                app.journal.say(&format!("dicom: the result of a series cannot be stored: {why}; {then}"));
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
            Err(End::Failed(why)) => {
                // The place of its files means nothing to a reader.
                let place = files.display();
                let why = why.replace(&format!("{place}{}", std::path::MAIN_SEPARATOR), "");
                let why = why.replace(&format!("{place}: "), "");
                app.metrics.dicom("series failed");
                log(Event::Failed, &why);
                app.journal.say(&format!("dicom: a series was not predicted: {why}"));
                let path = folder.join(format!("{name}.error.txt"));
                let written = fs::create_dir_all(&folder).and_then(|()| hearth_files::replace(&path, why + "\n"));
                if let Err(error) = written {
                    app.journal.say(&format!("dicom: the reason cannot be stored: {error}"));
                }
                forget();
            }
        }
    }

    /// Notes on disk which nodes have not accepted a result.
    fn note_unsent(&self, result: &Unsent) {
        if let Err(error) = self.pending.note_unsent(result) {
            self.app.journal.say(&format!("dicom: it cannot be noted that a result is to be sent: {error}"));
        }
    }

    /// Adds a line to the ledger. An event has happened, whether it can be recorded or not.
    fn log(&self, event: Event, (study, series): (&str, &str), node: &str, detail: &str) {
        if let Err(error) = self.ledger.add(event, study, series, node, detail) {
            self.app.journal.say(&format!("dicom: {} cannot be written: {error}", ledger::NAME));
        }
    }

    /// Computes the result of a series, or of the chosen volume, in a separate workspace.
    fn compute(&self, files: &Path, volume: Option<String>, study: &Study) -> Result<(Arc<Workspace>, PathBuf), End> {
        let workspace = self.app.spool.workspace().map_err(|error| error.to_string())?;
        let work = Work {
            client: "dicom".to_owned(),
            model: self.model.clone(),
            input: files.to_owned(),
            series: volume,
            format: Format::DicomSeg,
            parameters: Map::new(),
            workspace: workspace.clone(),
            _session: Some(study.workspace.clone()),
        };
        let done = self.app.queue.submit_when_free(work).map_err(|_| End::Stopping)?;
        // The queue answers all work, unless the process ends.
        let done = done.wait().ok_or(End::Stopping)?;
        let answer = done.result.map_err(|refusal| refusal.to_string())?;
        let none = || "the model returns numbers, which are not sent by DICOM".to_owned();
        let file = answer.file.ok_or_else(none)?;
        Ok((workspace, file))
    }

    /// The loop of the thread that sends results. The results are stored in the folder in any case, and those
    /// that a node does not accept are sent again by the next server.
    fn send_all(&self, results: &Receiver<Unsent>) {
        while let Ok(mut result) = results.recv() {
            let nodes = self.options.to.iter().filter(|to| result.is_for(to)).cloned().collect::<Vec<_>>();
            for to in nodes {
                if self.send_to(&result, &to) {
                    result.to.remove(&to.to_string());
                    self.note_unsent(&result);
                }
            }
            self.unsent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sends a result to a node, several times if needed; returns whether the node has it.
    fn send_to(&self, Unsent { study, series, file, .. }: &Unsent, to: &Destination) -> bool {
        let (path, of) = (self.options.results.join(study).join(file), (study.as_str(), series.as_str()));
        let mut pause = Duration::from_secs(1);
        for attempt in 1..=TRIES {
            let Err(why) = send(&path, &self.options.ae_title, to) else {
                self.app.metrics.dicom("sent");
                self.log(Event::Sent, of, &to.to_string(), file);
                return true;
            };
            let last = attempt == TRIES;
            let then = match last {
                true => "it stays in the folder of results, and is sent again after the next start",
                false => "it is sent again",
            };
            self.app.journal.say(&format!("dicom: {to} did not accept a result: {why}; {then}"));
            self.app.metrics.dicom(if last { "not sent" } else { "sent again" });
            if last {
                self.log(Event::NotSent, of, &to.to_string(), &why);
            } else {
                std::thread::sleep(pause);
                pause *= 2;
            }
        }
        false
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The limits of a received instance. Several peers send at the same time, and only the
/// attributes are read.
fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.attribute_bytes, limits.inflated_bytes) = (64 << 20, 256 << 20);
    limits
}

/// Whether a UID consists of digits and dots, and is a valid file name (PS3.5, 9).
fn is_uid(uid: &str) -> bool {
    let good = |c: char| c.is_ascii_digit() || c == '.';
    !uid.is_empty() && uid.len() <= 64 && uid.chars().all(good) && !uid.starts_with('.') && !uid.contains("..")
}

/// The name of the volume to predict if a series has several: the only one with enough slices, such as the
/// stack next to a localizer.
fn volume(folder: &Path, least: usize) -> Result<Option<String>, String> {
    // Files that cannot be read are reported by the model.
    let Ok(mut scan) = hearth_dicom::scan(folder) else { return Ok(None) };
    if !scan.is_of_volumes() {
        return Ok(None);
    }
    let listed = scan.list();
    scan.series.retain(|volume| volume.slices().len() >= least);
    match &scan.series[..] {
        [one] => Ok(Some(one.name())),
        several => Err(format!(
            "the series has {} volumes with at least {least} slices, expected one; send the files of one:{listed}",
            several.len()
        )),
    }
}

/// Copies a result into a folder, next to earlier ones.
fn keep(folder: &Path, name: &str, file: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let end = file.extension().unwrap_or_default().to_string_lossy().into_owned();
    let mut path = folder.join(format!("{name}.{end}"));
    let mut count = 1;
    while path.exists() {
        count += 1;
        path = folder.join(format!("{name}_{count}.{end}"));
    }
    let mut source = fs::File::open(file)?;
    hearth_files::replace_with(&path, |out| io::copy(&mut source, out).map(|_| ()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_names_of_files() {
        for good in ["1.2.840.10008.1", "2.25.1"] {
            assert!(is_uid(good));
        }
        for bad in ["", "..", ".1", "1..2", "1/2", "a", &"1".repeat(65)] {
            assert!(!is_uid(bad), "{bad:?}");
        }
    }

    /// A slice of the series 1.2.3.
    fn write_slice(folder: &Path, number: usize, kind: &str, echo: usize, depth: f64) {
        use dicom_core::{DataElement, PrimitiveValue, VR};
        use dicom_dictionary_std::tags;
        let text = |tag, vr, value: &str| DataElement::new(tag, vr, PrimitiveValue::from(value));
        let word = |tag, value: u16| DataElement::new(tag, VR::US, PrimitiveValue::from(value));
        let object = dicom_object::InMemDicomObject::from_element_iter([
            text(tags::SOP_CLASS_UID, VR::UI, "1.2.840.10008.5.1.4.1.1.2"),
            text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.3.{number}")),
            text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3"),
            text(tags::MODALITY, VR::CS, "CT"),
            text(tags::IMAGE_TYPE, VR::CS, &format!("ORIGINAL\\PRIMARY\\{kind}")),
            text(tags::ECHO_NUMBERS, VR::IS, &echo.to_string()),
            text(tags::IMAGE_POSITION_PATIENT, VR::DS, &format!("0\\0\\{depth}")),
            text(tags::IMAGE_ORIENTATION_PATIENT, VR::DS, "1\\0\\0\\0\\1\\0"),
            text(tags::PIXEL_SPACING, VR::DS, "1\\1"),
            word(tags::ROWS, 1),
            word(tags::COLUMNS, 1),
            word(tags::BITS_ALLOCATED, 16),
            DataElement::new(tags::PIXEL_DATA, VR::OW, PrimitiveValue::from(7_u16)),
        ]);
        let meta = dicom_object::FileMetaTableBuilder::new().transfer_syntax("1.2.840.10008.1.2.1");
        let file = object.with_meta(meta).unwrap();
        file.write_to_file(folder.join(format!("{number}.dcm"))).unwrap();
    }

    /// The stack is taken and not the localizer; of two echoes no one chose one.
    #[test]
    fn the_volume_of_a_series_with_enough_slices_is_predicted() {
        let folder = tempfile::tempdir().unwrap();
        (0..3).for_each(|i| write_slice(folder.path(), i, "AXIAL", 1, i as f64));
        assert_eq!(volume(folder.path(), 3), Ok(None), "the only one");
        write_slice(folder.path(), 9, "LOCALIZER", 1, 0.5);
        assert_eq!(volume(folder.path(), 3), Ok(Some("1.2.3#axial".to_owned())));
        assert!(volume(folder.path(), 4).unwrap_err().contains("0 volumes with at least 4 slices"));
        (3..6).for_each(|i| write_slice(folder.path(), i, "AXIAL", 2, (i - 3) as f64));
        let why = volume(folder.path(), 3).unwrap_err();
        assert!(why.contains("2 volumes") && why.contains("1.2.3#axial-echo1"), "{why}");
    }

    #[test]
    fn earlier_results_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("label.dcm");
        fs::write(&file, "one").unwrap();
        let own = folder.path().join("study");
        assert_eq!(keep(&own, "1.2_m", &file).unwrap(), own.join("1.2_m.dcm"));
        assert_eq!(keep(&own, "1.2_m", &file).unwrap(), own.join("1.2_m_2.dcm"));
    }
}
