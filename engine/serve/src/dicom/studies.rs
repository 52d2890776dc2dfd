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
use super::send::send;
use super::{DicomOptions, TICK};
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
    /// The nodes that sent them.
    from: BTreeSet<String>,
}

struct Study {
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
    finishing: AtomicBool,
}

impl Studies {
    /// Starts the threads.
    pub fn start(options: DicomOptions, app: Arc<App>) -> Result<Arc<Self>, ServeError> {
        let results = &options.results;
        fs::create_dir_all(results).map_err(|error| ServeError::file("make the folder of results", results, error))?;
        let ledger =
            Ledger::open(results).map_err(|error| ServeError::file("write", results.join(ledger::NAME), error))?;
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
            finishing: AtomicBool::new(false),
        });
        let (results, unsent) = channel();
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
            let folder = known.workspace.uploads().join(&series);
            let incoming = known.series.entry(series.clone()).or_default();
            // An image whose arrival is not on disk is not taken.
            if !incoming.from.contains(&node) {
                self.ledger.add(Event::Arrives, &study, &series, &node, "")?;
                incoming.from.insert(node.clone());
            }
            fs::create_dir_all(&folder)?;
            let key = (instance, content);
            if let Some((path, bytes)) = incoming.files.remove(&key) {
                fs::remove_file(path)?;
                known.workspace.release(bytes);
            } else {
                incoming.slices = incoming.slices.saturating_add(frames);
            }
            let own = folder.join(format!("{}-{}.dcm", key.0, &content.to_hex()[..16]));
            fs::rename(&path, &own)?;
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
    fn predict_all(&self, results: &Sender<Finished>) {
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

    fn predict(&self, uid: &str, series: &str, incoming: &Incoming, study: &Study, results: &Sender<Finished>) {
        let (app, least) = (&self.app, self.options.least_slices as u64);
        let from = incoming.from.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let log = |event: Event, detail: &str| self.log(event, (uid, series), &from, detail);
        log(Event::Received, &format!("{} slices in {} files", incoming.slices, incoming.files.len()));
        if incoming.slices < least {
            app.metrics.dicom("series skipped");
            app.journal.say(&format!("dicom: a series has {} slices, and {least} are predicted", incoming.slices));
            log(Event::Skipped, &format!("fewer than {least} slices"));
            return;
        }
        let folder = self.options.results.join(uid);
        let name = format!("{series}_{}", self.model.card().name);
        let predicted = self.compute(series, study).and_then(|(workspace, file)| {
            let path = keep(&folder, &name, &file).map_err(|error| format!("the result cannot be stored: {error}"))?;
            drop(workspace);
            Ok(path)
        });
        match predicted {
            Ok(path) => {
                app.metrics.dicom("result");
                log(Event::Predicted, &name_of(&path));
                if !self.options.to.is_empty() {
                    self.unsent.fetch_add(1, Ordering::Relaxed);
                    let result = Finished { study: uid.to_owned(), series: series.to_owned(), path };
                    if results.send(result).is_err() {
                        self.unsent.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
            Err(why) => {
                app.metrics.dicom("series failed");
                log(Event::Failed, &why);
                app.journal.say(&format!("dicom: a series was not predicted: {why}"));
                let path = folder.join(format!("{name}.error.txt"));
                let written = fs::create_dir_all(&folder).and_then(|()| hearth_files::replace(&path, why + "\n"));
                if let Err(error) = written {
                    app.journal.say(&format!("dicom: the reason cannot be stored: {error}"));
                }
            }
        }
    }

    /// Adds a line to the ledger. An event has happened, whether it can be recorded or not.
    fn log(&self, event: Event, (study, series): (&str, &str), node: &str, detail: &str) {
        if let Err(error) = self.ledger.add(event, study, series, node, detail) {
            self.app.journal.say(&format!("dicom: {} cannot be written: {error}", ledger::NAME));
        }
    }

    /// Computes the result of a series, in a separate workspace.
    fn compute(&self, series: &str, study: &Study) -> Result<(Arc<Workspace>, PathBuf), String> {
        let workspace = self.app.spool.workspace().map_err(|error| error.to_string())?;
        let work = Work {
            client: "dicom".to_owned(),
            model: self.model.clone(),
            input: study.workspace.uploads().join(series),
            series: None,
            format: Format::DicomSeg,
            parameters: Map::new(),
            workspace: workspace.clone(),
            _session: Some(study.workspace.clone()),
        };
        let done = self.app.queue.submit_when_free(work).map_err(|_| "the server is stopping".to_owned())?;
        let done = done.wait().ok_or("the computation ended without a result")?;
        let answer = done.result.map_err(|refusal| refusal.to_string())?;
        let file = answer.file.ok_or("the model returns numbers, which are not sent by DICOM")?;
        Ok((workspace, file))
    }

    /// The loop of the thread that sends results. The results are stored in the folder in any case.
    fn send_all(&self, results: &Receiver<Finished>) {
        while let Ok(Finished { study, series, path }) = results.recv() {
            for to in &self.options.to {
                let mut pause = Duration::from_secs(1);
                for attempt in 1..=TRIES {
                    let Err(why) = send(&path, &self.options.ae_title, to) else {
                        self.app.metrics.dicom("sent");
                        let node = format!("{}@{}", to.ae_title, to.address);
                        self.log(Event::Sent, (&study, &series), &node, &name_of(&path));
                        break;
                    };
                    let last = attempt == TRIES;
                    let then = if last { "it stays in the folder of results" } else { "it is sent again" };
                    let (title, address) = (&to.ae_title, &to.address);
                    self.app.journal.say(&format!("dicom: {title}@{address} did not accept a result: {why}; {then}"));
                    self.app.metrics.dicom(if last { "not sent" } else { "sent again" });
                    if last {
                        self.log(Event::NotSent, (&study, &series), &format!("{title}@{address}"), &why);
                    } else {
                        std::thread::sleep(pause);
                        pause *= 2;
                    }
                }
            }
            self.unsent.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A result that is sent to other nodes.
struct Finished {
    study: String,
    series: String,
    path: PathBuf,
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
