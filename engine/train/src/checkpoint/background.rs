//! Writes checkpoints in a background thread: training continues while they are hashed and flushed
//! to disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use hearth_engine::HostError;

use crate::checkpoint::{self, CheckpointError, Files, Header};

/// All contents of a checkpoint folder.
#[derive(Debug)]
pub(crate) struct Job {
    /// The folder that contains the checkpoints.
    pub dir: PathBuf,
    pub header: Header,
    pub files: Files,
    /// The number of newest checkpoints with this tag to keep.
    pub keep_last: Option<usize>,
}

impl Job {
    /// Writes the checkpoint and prunes its tag.
    pub fn write(self) -> Result<PathBuf, CheckpointError> {
        let _range = tracing::trace_span!("checkpoint", tag = %self.header.tag).entered();
        let folder = checkpoint::write(&self.dir, &self.header, &self.files)?;
        if let Some(keep) = self.keep_last {
            prune(&self.dir, &self.header, keep);
        }
        Ok(folder)
    }
}

/// Deletes old checkpoints. The new checkpoint is complete, so a failure here does not end the run.
fn prune(dir: &Path, header: &Header, keep: usize) {
    if let Err(error) = checkpoint::prune_of(dir, header.run.as_deref(), &header.tag, keep) {
        tracing::warn!("{error}");
    }
}

/// The thread and the channels to and from it.
#[derive(Debug)]
struct Thread {
    jobs: Sender<Job>,
    ends: Receiver<Result<PathBuf, CheckpointError>>,
    handle: JoinHandle<()>,
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (outbox, ends) = mpsc::channel();
        let work = move || inbox.into_iter().map(Job::write).try_for_each(|end| outbox.send(end)).unwrap_or_default();
        let handle = thread::Builder::new().name("checkpoints".to_owned()).spawn(work)?;
        Ok(Thread { jobs, ends, handle })
    }
}

/// Writes checkpoints one after the other. The thread starts with the first one. Dropping the
/// writer waits until all of them are written.
#[derive(Debug, Default)]
pub(crate) struct CheckpointWriter {
    thread: Option<Thread>,
    /// Checkpoints whose result was not returned yet.
    open: usize,
}

impl CheckpointWriter {
    /// Queues a checkpoint.
    pub fn begin(&mut self, job: Job) -> Result<(), HostError> {
        let failed = |e: std::io::Error| HostError::new(format!("the thread that writes it does not start: {e}"));
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => Thread::start().map_err(failed)?,
        };
        let sent = thread.jobs.send(job);
        self.thread = Some(thread);
        self.open += usize::from(sent.is_ok());
        sent.map_err(|_| stopped())
    }

    /// The result of the oldest checkpoint that was not reported yet; `None` while it is being
    /// written, or when there is none.
    pub fn end(&mut self, wait: bool) -> Option<Result<PathBuf, HostError>> {
        if self.open == 0 {
            return None;
        }
        let thread = self.thread.as_ref()?;
        let end =
            if wait { thread.ends.recv().map_err(|_| TryRecvError::Disconnected) } else { thread.ends.try_recv() };
        let end = match end {
            Err(TryRecvError::Empty) => return None,
            Ok(end) => end.map_err(|e| HostError::from_error(&e)),
            Err(TryRecvError::Disconnected) => Err(stopped()),
        };
        self.open -= 1;
        Some(end)
    }
}

fn stopped() -> HostError {
    HostError::new("the thread that writes checkpoints has stopped; its panic was printed above")
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if let Some(Thread { jobs, handle, .. }) = self.thread.take() {
            drop(jobs);
            // The panic hook has printed the thread's panic.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(dir: &Path, epoch: u64, tag: &str) -> Job {
        let header = Header { epoch, tag: tag.to_owned(), ..Header::default() };
        let files = Files::from([("weights".to_owned(), vec![epoch as u8; 1 << 20])]);
        Job { dir: dir.to_owned(), header, files, keep_last: Some(2) }
    }

    #[test]
    fn ends_are_told_in_order_and_older_ones_are_pruned() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = CheckpointWriter::default();
        assert!(writer.end(true).is_none());
        (1..=3).for_each(|epoch| writer.begin(job(dir.path(), epoch, "epoch")).expect("a thread"));
        for epoch in 1..=3 {
            let folder = writer.end(true).expect("one is open").expect("written");
            assert!(folder.to_string_lossy().contains(&format!("epoch=000{epoch}")), "{}", folder.display());
        }
        assert!(writer.end(true).is_none());
        let left = checkpoint::list(dir.path()).expect("a folder of checkpoints");
        assert_eq!(left.len(), 2);
        assert_eq!(checkpoint::newest(dir.path()).expect("whole").file("weights").expect("there")[0], 3);
    }

    #[test]
    fn a_failure_is_told_and_the_next_one_is_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let blocked = dir.path().join("file");
        std::fs::write(&blocked, b"").expect("a file");
        let mut writer = CheckpointWriter::default();
        writer.begin(job(&blocked, 1, "epoch")).expect("a thread");
        writer.begin(job(dir.path(), 2, "epoch")).expect("a thread");
        let text = writer.end(true).expect("open").expect_err("a file is in the way").to_string();
        assert!(text.contains("file"), "{text}");
        writer.end(true).expect("open").expect("written");
    }

    #[test]
    fn what_was_begun_is_finished_when_the_writer_goes() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = CheckpointWriter::default();
        writer.begin(job(dir.path(), 7, "final")).expect("a thread");
        drop(writer);
        assert_eq!(checkpoint::newest(dir.path()).expect("whole").file("weights").expect("there").len(), 1 << 20);
    }
}
