//! What a node has taken and not finished, on disk: [`Pending`]. A server that starts continues there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Destination;

/// The folder in the folder of results.
pub const FOLDER: &str = "pending";

/// The folder of received series, one for each study.
const RECEIVED: &str = "received";

/// The folder of notes about results that are not sent.
const UNSENT: &str = "unsent";

/// A file that a server keeps locked while it runs.
const LOCK: &str = "lock";

/// How often the lock is tried: a server that stops may still hold it for a moment.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// The number of servers that may end while they predict a series. A series that ends them is not tried
/// again.
const ENDED: u32 = 3;

/// The facts about a received series, next to its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The nodes that sent it.
    #[serde(default)]
    pub from: BTreeSet<String>,
    /// The number of predictions that have begun.
    #[serde(default)]
    pub begun: u32,
}

impl Facts {
    /// Whether too many servers ended while they predicted it.
    pub fn is_given_up(&self) -> bool {
        self.begun >= ENDED
    }
}

/// A result that some nodes have not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsent {
    /// The UID of its study.
    pub study: String,
    /// The UID of its series.
    pub series: String,
    /// The name of its file in the folder of its study.
    pub file: String,
    /// The nodes: `AE@host:port`.
    pub to: BTreeSet<String>,
}

impl Unsent {
    /// Whether a node is among its receivers.
    pub fn is_for(&self, to: &Destination) -> bool {
        self.to.contains(&to.to_string())
    }
}

/// A series that an earlier server received, with its files.
#[derive(Debug)]
pub struct Left {
    pub study: String,
    pub series: String,
    pub facts: Facts,
    pub files: Vec<PathBuf>,
}

/// The folder of unfinished work. It is locked, so that no other server takes the work over.
#[derive(Debug)]
pub struct Pending {
    folder: PathBuf,
    _lock: File,
}

impl Pending {
    /// Opens the folder in the folder of results, or makes it. Other users cannot read it.
    ///
    /// # Errors
    /// A folder that cannot be made, or one that another server uses.
    pub fn open(results: &Path) -> io::Result<Self> {
        let folder = results.join(FOLDER);
        for part in [folder.clone(), folder.join(RECEIVED), folder.join(UNSENT)] {
            make(&part)?;
        }
        let lock = hearth_files::open_own(&folder.join(LOCK), File::options().create(true).append(true))?;
        for _ in 0..TRIES {
            if lock.try_lock().is_ok() {
                return Ok(Self { folder, _lock: lock });
            }
            std::thread::sleep(PAUSE);
        }
        let what = "another server receives into this folder: give each its own --dicom-results";
        Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
    }

    /// The folder of a series' files.
    pub fn series(&self, study: &str, series: &str) -> PathBuf {
        self.folder.join(RECEIVED).join(study).join(series)
    }

    fn facts_file(&self, study: &str, series: &str) -> PathBuf {
        self.folder.join(RECEIVED).join(study).join(format!("{series}.json"))
    }

    /// Moves a received file to its series. It is on disk then.
    pub fn put(&self, from: &Path, study: &str, series: &str, name: &str) -> io::Result<PathBuf> {
        let folder = self.series(study, series);
        fs::create_dir_all(&folder)?;
        let path = folder.join(name);
        match fs::rename(from, &path) {
            // Temporary files may be on another disk.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut source = File::open(from)?;
                hearth_files::replace_with(&path, |out| io::copy(&mut source, out).map(drop))?;
                fs::remove_file(from)?;
            }
            moved => {
                moved?;
                File::open(&path)?.sync_all()?;
                hearth_files::flush_folder(&folder)?;
            }
        }
        Ok(path)
    }

    /// Writes the facts about a series.
    pub fn note(&self, study: &str, series: &str, facts: &Facts) -> io::Result<()> {
        let path = self.facts_file(study, series);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        hearth_files::replace(&path, serde_json::to_vec(facts).map_err(io::Error::other)?)
    }

    /// Removes a finished series.
    pub fn forget(&self, study: &str, series: &str) -> io::Result<()> {
        let gone = |done: io::Result<()>| match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        gone(fs::remove_dir_all(self.series(study, series)))?;
        gone(fs::remove_file(self.facts_file(study, series)))?;
        // Only when its last series is gone.
        let _ = fs::remove_dir(self.folder.join(RECEIVED).join(study));
        Ok(())
    }

    /// The series that earlier servers received.
    pub fn received(&self) -> io::Result<Vec<Left>> {
        let mut found = Vec::new();
        for study in folders(&self.folder.join(RECEIVED))? {
            for series in folders(&self.folder.join(RECEIVED).join(&study))? {
                let of_image = |entry: fs::DirEntry| {
                    let path = entry.path();
                    path.extension().is_some_and(|end| end == "dcm").then_some(path)
                };
                let folder = self.series(&study, &series);
                let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().filter_map(of_image).collect();
                files.sort_unstable();
                let facts = hearth_files::read(self.facts_file(&study, &series)).ok();
                let facts = facts.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
                found.push(Left { study: study.clone(), series, facts, files });
            }
        }
        Ok(found)
    }

    fn unsent_file(&self, unsent: &Unsent) -> PathBuf {
        self.folder.join(UNSENT).join(format!("{}_{}.json", unsent.study, unsent.file))
    }

    /// Notes which nodes have not accepted a result; without any, removes the note.
    pub fn note_unsent(&self, unsent: &Unsent) -> io::Result<()> {
        let path = self.unsent_file(unsent);
        match unsent.to.is_empty() {
            false => hearth_files::replace(&path, serde_json::to_vec(unsent).map_err(io::Error::other)?),
            true => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// The results that earlier servers did not send, and the number of damaged notes.
    pub fn unsent(&self) -> io::Result<(Vec<Unsent>, usize)> {
        let (mut found, mut damaged) = (Vec::new(), 0);
        let mut paths: Vec<PathBuf> =
            fs::read_dir(self.folder.join(UNSENT))?.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
            match serde_json::from_slice::<Unsent>(&hearth_files::read(path)?) {
                Ok(unsent) => found.push(unsent),
                Err(_) => damaged += 1,
            }
        }
        Ok((found, damaged))
    }
}

/// Makes a folder that only this user can access.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The names of the folders in a folder, in order.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_again_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("1.dcm");
        fs::write(&from, "image").unwrap();
        let facts = Facts { from: ["CT1@10.0.0.1".to_owned()].into(), begun: 1 };
        {
            let pending = Pending::open(folder.path()).unwrap();
            assert!(pending.received().unwrap().is_empty());
            pending.put(&from, "1.2", "1.2.3", "a.dcm").unwrap();
            pending.note("1.2", "1.2.3", &facts).unwrap();
        }
        let pending = Pending::open(folder.path()).unwrap();
        let found = pending.received().unwrap();
        assert_eq!((found.len(), &*found[0].study, &*found[0].series), (1, "1.2", "1.2.3"));
        assert_eq!((found[0].facts.clone(), fs::read(&found[0].files[0]).unwrap()), (facts, b"image".to_vec()));
        assert!(!from.exists());
        pending.forget("1.2", "1.2.3").unwrap();
        assert!(pending.received().unwrap().is_empty());
    }

    #[test]
    fn notes_about_results_stay_while_a_node_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let pending = Pending::open(folder.path()).unwrap();
        let to = ["PACS@host:104", "B@host:105"].map(str::to_owned).into();
        let mut unsent = Unsent { study: "1.2".into(), series: "1.2.3".into(), file: "1.2.3_m.dcm".into(), to };
        pending.note_unsent(&unsent).unwrap();
        unsent.to.remove("B@host:105");
        pending.note_unsent(&unsent).unwrap();
        assert_eq!(pending.unsent().unwrap(), (vec![unsent.clone()], 0));
        assert!(unsent.is_for(&"PACS@host:104".parse().unwrap()) && !unsent.is_for(&"B@host:105".parse().unwrap()));
        unsent.to.clear();
        pending.note_unsent(&unsent).unwrap();
        assert_eq!(pending.unsent().unwrap(), (Vec::new(), 0));
    }
}
