//! What became of each study, on disk: [`Ledger`].

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::journal::clock;

/// The name of the table in the folder of results.
pub const NAME: &str = "studies.csv";

/// A table to which a line is added for each event of a study. Lines are on disk before the event counts
/// as over, so that what a killed server had received is known.
#[derive(Debug)]
pub struct Ledger(Mutex<File>);

/// The events of a study.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The first image of a series arrived.
    Arrives,
    /// The study is complete, and this series with it.
    Received,
    Skipped,
    Predicted,
    Failed,
    Sent,
    NotSent,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Event::Arrives => "arrives",
            Event::Received => "received",
            Event::Skipped => "skipped",
            Event::Predicted => "predicted",
            Event::Failed => "failed",
            Event::Sent => "sent",
            Event::NotSent => "not sent",
        }
    }
}

impl Ledger {
    /// Opens the table of a folder, or begins it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut file = hearth_files::open_own(&folder.join(NAME), File::options().create(true).append(true))?;
        if file.metadata()?.len() == 0 {
            file.write_all(b"time,event,study,series,node,detail\n")?;
        }
        Ok(Self(Mutex::new(file)))
    }

    /// Adds a line. `node` is the sender, or the receiver of a result.
    pub fn add(&self, event: Event, study: &str, series: &str, node: &str, detail: &str) -> io::Result<()> {
        let cells = [&clock(SystemTime::now()), event.word(), study, series, node, detail];
        let one_line = |text: &str| text.replace(|c: char| c.is_control(), " ");
        let line = hearth_files::csv_line(cells.map(one_line)) + "\n";
        let mut file = self.0.lock().unwrap_or_else(|held| held.into_inner());
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        Ledger::open(folder.path()).unwrap().add(Event::Arrives, "1.2", "1.2.3", "CT1@10.0.0.1", "").unwrap();
        let again = Ledger::open(folder.path()).unwrap();
        again.add(Event::Failed, "1.2", "1.2.3", "A,B@[::1]", "it is \"no\" image,\nor damaged").unwrap();
        again.add(Event::Failed, "1.2", "=1+1", "@SUM(A1)", "").unwrap();
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, "time,event,study,series,node,detail"));
        assert!(lines[1].ends_with("Z,arrives,1.2,1.2.3,CT1@10.0.0.1,"), "{text}");
        assert!(lines[2].ends_with(",failed,1.2,1.2.3,\"A,B@[::1]\",\"it is \"\"no\"\" image, or damaged\""), "{text}");
        assert!(lines[3].ends_with(",failed,1.2,'=1+1,'@SUM(A1),"), "{text}");
    }
}
