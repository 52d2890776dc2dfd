//! The figures of one kind of data set, as a line of JSON.

use serde::{Deserialize, Serialize};

use super::super::{markdown, median};
use crate::picture::Bar;
use crate::table::{self, Lean};
use crate::terminal::{self, bytes};

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The benchmark's name.
    pub bench: String,
    /// MONAI's name of the kind.
    pub kind: String,
    /// The name or description of the data.
    pub data: String,
    /// The number of cases in an epoch.
    pub cases: usize,
    /// The number of samples in an epoch.
    pub samples: usize,
    /// Patch size along each axis.
    pub patch: u32,
    /// The number of cases in a batch.
    pub batch: u32,
    /// Seconds until the data set is ready: reading lists, filling the cache.
    pub start_seconds: f64,
    /// Seconds until it is ready in a later run, which finds the cases on disk.
    pub restart_seconds: Option<f64>,
    /// Seconds of each epoch.
    pub epoch_seconds: Vec<f64>,
    /// Seconds of the start and all epochs.
    pub seconds: f64,
    /// Peak memory of the process in bytes, if the system reports it.
    pub peak: Option<u64>,
}

/// A time; below a second in milliseconds, since an epoch from memory takes few of them.
fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { terminal::seconds(seconds) }
}

const COLUMNS: [(&str, Lean); 7] = [
    ("data set", Lean::Left),
    ("start", Lean::Right),
    ("start again", Lean::Right),
    ("first epoch", Lean::Right),
    ("later epochs", Lean::Right),
    ("all", Lean::Right),
    ("peak memory", Lean::Right),
];

impl Measured {
    fn first(&self) -> Option<f64> {
        self.epoch_seconds.first().copied()
    }

    /// The median of the epochs after the first.
    fn later(&self) -> Option<f64> {
        let mut later: Vec<f64> = self.epoch_seconds.iter().skip(1).copied().collect();
        (!later.is_empty()).then(|| median(&mut later))
    }

    fn cells(&self) -> Vec<String> {
        let time = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), seconds);
        vec![
            self.kind.clone(),
            seconds(self.start_seconds),
            time(self.restart_seconds),
            time(self.first()),
            time(self.later()),
            seconds(self.seconds),
            self.peak.map_or_else(|| "-".to_owned(), bytes),
        ]
    }

    /// The bar of the picture: seconds of start and epochs.
    pub fn bar(&self) -> Bar {
        let [start, first, later] = [Some(self.start_seconds), self.first(), self.later()]
            .map(|value| value.map_or_else(|| "-".to_owned(), seconds));
        let peak = self.peak.map_or_else(String::new, |peak| format!(", {}", bytes(peak)));
        let text = format!("{}: start {start}, epochs {first}, {later}{peak}", seconds(self.seconds));
        Bar { name: self.kind.clone(), value: self.seconds, text }
    }
}

fn cells(rows: &[Measured]) -> Vec<Vec<String>> {
    rows.iter().map(Measured::cells).collect()
}

/// The lines of the table for a terminal.
pub fn lines(rows: &[Measured]) -> Vec<String> {
    table::lines(&COLUMNS, &cells(rows))
}

/// The table as a page of Markdown.
pub fn page(rows: &[Measured]) -> String {
    let about = rows.first().map_or_else(String::new, |row| {
        format!(
            "{}; batches of {} cases, patches of {}^3, {} epochs. Memory is the peak of the process. The start of \
             SmartCacheDataset is in its first epoch.\n\n",
            row.data,
            row.batch,
            row.patch,
            row.epoch_seconds.len()
        )
    });
    format!("# Kinds of data sets\n\n{about}{}", markdown::table(&COLUMNS, &cells(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: &str, epochs: &[f64], peak: Option<u64>) -> Measured {
        Measured {
            bench: "datasets".to_owned(),
            kind: kind.to_owned(),
            data: "12 volumes".to_owned(),
            cases: 12,
            samples: 48,
            patch: 64,
            batch: 2,
            start_seconds: 1.5,
            restart_seconds: (kind == "LMDBDataset").then_some(0.25),
            epoch_seconds: epochs.to_vec(),
            seconds: 1.5 + epochs.iter().sum::<f64>(),
            peak,
        }
    }

    #[test]
    fn a_line_reads_back_whole() {
        for row in [measured("Dataset", &[2.0, 1.0, 1.25], None), measured("LMDBDataset", &[0.5], Some(1 << 30))] {
            let line = serde_json::to_string(&row).expect("JSON");
            assert_eq!(serde_json::from_str::<Measured>(&line).expect("a row"), row);
        }
    }

    #[test]
    fn the_first_epoch_is_apart_from_the_others() {
        let rows = [measured("Dataset", &[2.0, 1.0, 1.5, 1.25], Some(1 << 30)), measured("LMDBDataset", &[0.5], None)];
        let cells = cells(&rows);
        assert_eq!(cells[0], ["Dataset", "1.50 s", "-", "2.00 s", "1.25 s", "7.25 s", "1.0 GiB"]);
        assert_eq!(cells[1], ["LMDBDataset", "1.50 s", "250.0 ms", "500.0 ms", "-", "2.00 s", "-"]);
        assert!(page(&rows).contains("| LMDBDataset | 1.50 s |"));
        assert_eq!(rows[0].bar().value, 7.25);
    }
}
