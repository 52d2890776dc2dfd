//! Watches a folder, and reads it again when something has changed: [`Follower`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use hearth_report::Run;
use hearth_report::run::Lock;

use crate::discover::{is_empty, is_run, runs_in};
use crate::error::WatchError;

/// Files whose changes require reading a run again.
const FILES: [&str; 8] = [
    "recipe.toml",
    "run.json",
    "log.jsonl",
    "metrics.csv",
    "summary.json",
    "warnings.jsonl",
    "machine.csv",
    "validation.json",
];

/// The interval between searches for new runs in a folder.
const SEARCH: Duration = Duration::from_secs(5);

/// The reciprocal of the share of the time that reading may take, however long the logs are.
const SHARE: u32 = 20;

/// The state of the watched folder.
#[derive(Clone, Debug)]
pub enum Seen {
    /// No run yet; with a description of what is expected.
    Waiting(String),
    /// A run.
    Run(Box<Run>),
    /// The runs of a folder, by name.
    Board(Vec<Run>),
    /// The watched folder no longer exists.
    Gone(String),
}

/// The change times of files, and whether a process holds the lock of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    files: Vec<Option<(u64, SystemTime)>>,
    lock: Lock,
}

impl Mark {
    fn of(folder: &Path) -> Self {
        let changed = |name: &&str| {
            let file = folder.join(name).metadata().ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        Self { files: FILES.iter().map(changed).collect(), lock: Lock::of(folder) }
    }
}

/// A watched folder. It is only read, including the state of its lock, and never changed.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    seen: Seen,
    known: BTreeMap<PathBuf, (Mark, Run)>,
    searched: Option<Instant>,
    /// The earliest time at which files may be read again.
    rested: Instant,
}

impl Follower {
    /// Starts to watch a run's folder, or a folder of runs. With `wait`, it waits for a folder that
    /// does not exist yet. It always waits if the folder is empty, because a run that fills its caches
    /// has only reserved it.
    ///
    /// # Errors
    /// A folder that does not exist or has no run, or a run that cannot be read.
    pub fn new(path: &Path, wait: bool) -> Result<Self, WatchError> {
        let no_run = |what| Err(WatchError::NoRun { path: path.to_owned(), what });
        if path.is_file() {
            return no_run("is a file");
        }
        if !path.exists() && !wait {
            return Err(WatchError::Missing { path: path.to_owned() });
        }
        if path.is_dir() && !is_run(path) && !is_empty(path) && runs_in(path).is_empty() && !wait {
            return no_run("holds no run");
        }
        if is_run(path) {
            Run::read(path)?;
        }
        let seen = Seen::Waiting(String::new());
        let mut follower =
            Self { path: path.to_owned(), seen, known: BTreeMap::new(), searched: None, rested: Instant::now() };
        follower.look();
        Ok(follower)
    }

    /// The folder, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state at the last look.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Checks again; returns whether something has changed.
    pub fn look(&mut self) -> bool {
        if matches!(self.seen, Seen::Gone(_)) || Instant::now() < self.rested {
            return false;
        }
        let start = Instant::now();
        let changed = match &self.seen {
            Seen::Run(_) => self.look_at_run(),
            Seen::Board(_) => self.look_at_board(),
            _ => self.look_for_a_run(),
        };
        self.rested = Instant::now() + start.elapsed() * SHARE;
        changed
    }

    fn look_for_a_run(&mut self) -> bool {
        if is_run(&self.path) {
            return self.look_at_run();
        }
        if !runs_in(&self.path).is_empty() {
            return self.look_at_board();
        }
        let path = self.path.display();
        let text = match self.path.exists() {
            true => format!("waiting for a run in {path}: it is prepared, or has not begun"),
            false => format!("waiting for {path}: there is no such folder yet"),
        };
        let same = matches!(&self.seen, Seen::Waiting(before) if *before == text);
        self.seen = Seen::Waiting(text);
        !same
    }

    fn look_at_run(&mut self) -> bool {
        let path = self.path.clone();
        let Some(run) = self.read(&path) else { return false };
        self.seen = match run {
            Ok(run) => Seen::Run(Box::new(run)),
            Err(why) => Seen::Gone(why),
        };
        true
    }

    fn look_at_board(&mut self) -> bool {
        if !self.path.is_dir() {
            self.seen = Seen::Gone(format!("{} was removed while it was watched", self.path.display()));
            return true;
        }
        let mut changed = !matches!(self.seen, Seen::Board(_));
        let mut folders: Vec<PathBuf> = self.known.keys().cloned().collect();
        if self.searched.is_none_or(|searched| searched.elapsed() >= SEARCH) {
            self.searched = Some(Instant::now());
            folders.extend(runs_in(&self.path));
            folders.sort_unstable();
            folders.dedup();
        }
        for folder in folders {
            match self.read(&folder) {
                Some(Ok(_)) => changed = true,
                Some(Err(_)) => changed |= self.known.remove(&folder).is_some(),
                None => {}
            }
        }
        if changed {
            self.seen = Seen::Board(self.known.values().map(|(_, run)| run.clone()).collect());
        }
        changed
    }

    /// The run of a folder if it has changed since it was read, or the reason why it can no longer be
    /// read.
    fn read(&mut self, folder: &Path) -> Option<Result<Run, String>> {
        if !is_run(folder) {
            return Some(Err(format!("{} was removed while it was watched", folder.display())));
        }
        // Taken before the files are read, so that changes in between are read again.
        let mark = Mark::of(folder);
        if self.known.get(folder).is_some_and(|(known, _)| *known == mark) {
            return None;
        }
        let mut run = match Run::read(folder) {
            Ok(run) => run,
            // Removed at this moment, or an error of the operating system.
            Err(error) => return Some(Err(error.to_string())),
        };
        if let Some(name) = folder.strip_prefix(&self.path).ok().filter(|name| !name.as_os_str().is_empty()) {
            run.name = name.display().to_string();
        }
        self.known.insert(folder.to_owned(), (mark, run.clone()));
        Some(Ok(run))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Checks without the pause between reads.
    fn look(follower: &mut Follower) -> bool {
        (follower.rested, follower.searched) = (Instant::now(), None);
        follower.look()
    }

    fn run(folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("recipe.toml"), "[training]\nepochs = 3\n").expect("a recipe");
    }

    fn epochs(follower: &Follower) -> usize {
        match follower.seen() {
            Seen::Run(run) => run.epochs.len(),
            other => panic!("no run: {other:?}"),
        }
    }

    #[test]
    fn a_run_is_read_when_it_changes_and_a_half_line_is_no_damage() {
        let dir = tempfile::tempdir().expect("a folder");
        run(dir.path());
        let held = fs::File::create(dir.path().join("run.lock")).expect("a lock");
        held.try_lock().expect("free");
        let mut follower = Follower::new(dir.path(), false).expect("a run");
        assert_eq!(epochs(&follower), 0);
        assert!(!look(&mut follower), "nothing has changed");
        let line = "{\"event\":\"epoch\",\"epoch\":1,\"iteration\":4,\"metrics\":{}}\n";
        fs::write(dir.path().join("log.jsonl"), format!("{line}{}", &line[..20])).expect("a log");
        assert!(look(&mut follower));
        assert_eq!(epochs(&follower), 1);
        let Seen::Run(run) = follower.seen() else { panic!("a run") };
        assert!(run.state.is_running() && !run.gaps.iter().any(|gap| gap.contains("cut off")), "{:?}", run.gaps);
        // The process is gone, so the same line now counts as damaged.
        drop(held);
        assert!(look(&mut follower));
        let Seen::Run(run) = follower.seen() else { panic!("a run") };
        assert!(
            run.state.word() == "killed" && run.gaps.iter().any(|gap| gap.contains("1 line cut off")),
            "{:?}",
            run.gaps
        );
        fs::remove_dir_all(dir.path()).expect("removed");
        assert!(look(&mut follower) && matches!(follower.seen(), Seen::Gone(why) if why.contains("was removed")));
        assert!(!look(&mut follower));
    }

    #[test]
    fn what_is_not_there_is_an_error_or_waited_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("later");
        let error = Follower::new(&path, false).expect_err("nothing").to_string();
        assert!(error.contains("later") && error.contains("--wait"), "{error}");
        let mut follower = Follower::new(&path, true).expect("waits");
        assert!(matches!(follower.seen(), Seen::Waiting(text) if text.contains("no such folder yet")));
        fs::create_dir(&path).expect("reserved");
        assert!(look(&mut follower) && matches!(follower.seen(), Seen::Waiting(text) if text.contains("prepared")));
        // An empty folder is waited for without the option.
        assert!(matches!(Follower::new(&path, false).expect("reserved").seen(), Seen::Waiting(_)));
        run(&path);
        assert!(look(&mut follower) && matches!(follower.seen(), Seen::Run(_)));
        let file = dir.path().join("file");
        fs::write(&file, "x").expect("a file");
        assert!(Follower::new(&file, false).expect_err("a file").to_string().contains("is a file"));
        let other = dir.path().join("other");
        fs::create_dir(&other).expect("a folder");
        fs::write(other.join("notes.txt"), "x").expect("a file");
        assert!(Follower::new(&other, false).expect_err("no run").to_string().contains("holds no run"));
    }

    #[test]
    fn runs_come_and_go_on_a_board() {
        let dir = tempfile::tempdir().expect("a folder");
        run(&dir.path().join("a"));
        let mut follower = Follower::new(dir.path(), false).expect("runs");
        let names = |follower: &Follower| match follower.seen() {
            Seen::Board(runs) => runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>(),
            other => panic!("no board: {other:?}"),
        };
        run(&dir.path().join("folds/fold0"));
        assert!(look(&mut follower));
        assert_eq!(names(&follower), ["a", "folds/fold0"]);
        fs::remove_dir_all(dir.path().join("a")).expect("removed");
        assert!(look(&mut follower));
        assert_eq!(names(&follower), ["folds/fold0"]);
        assert!(!look(&mut follower));
    }
}
