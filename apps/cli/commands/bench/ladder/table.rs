//! The table of the ladder: each row compared with the first one of its program.

use super::super::markdown;
use super::super::{median, peer};
use super::record::{Record, Settings};
use crate::table::{self, Lean};
use crate::terminal::seconds;

/// A row: its name, its trainings, and the reason if it was skipped.
pub struct Row {
    /// The name of the change.
    pub name: String,
    /// The finished trainings.
    pub records: Vec<Record>,
    /// The reason for skipping the row.
    pub skipped: Option<&'static str>,
    /// The name of another program that trained it.
    pub peer: Option<String>,
}

/// The medians of a row's trainings.
#[derive(Clone, Debug, PartialEq)]
pub struct Medians {
    /// Seconds before the first epoch.
    pub prepared: f64,
    /// Seconds of an epoch.
    pub epoch: f64,
    /// Epochs to the target; `None` if half of the trainings did not reach it.
    pub epochs_to_target: Option<f64>,
    /// Seconds to the target; `None` if half of the trainings did not reach it.
    pub to_target: Option<f64>,
    /// The best value of the key metric.
    pub best: f64,
}

impl Row {
    /// The name, with that of the other program.
    pub fn title(&self) -> String {
        self.peer.as_ref().map_or_else(|| self.name.clone(), |peer| peer::named(&self.name, peer))
    }

    /// The medians of the trainings; `None` if there is none. A training that did not reach the target
    /// counts as one that takes longer than all others.
    pub fn medians(&self) -> Option<Medians> {
        let median = |value: &dyn Fn(&Record) -> f64| {
            let mut values: Vec<f64> = self.records.iter().map(value).collect();
            median(&mut values)
        };
        let finite = |value: f64| value.is_finite().then_some(value);
        (!self.records.is_empty()).then(|| Medians {
            prepared: median(&|record| record.prepare_seconds),
            epoch: median(&|record| record.epoch_seconds.unwrap_or(f64::INFINITY)),
            epochs_to_target: finite(median(&|record| record.target_epoch.map_or(f64::INFINITY, |epoch| epoch as f64))),
            to_target: finite(median(&|record| record.seconds.unwrap_or(f64::INFINITY))),
            best: median(&|record| record.best),
        })
    }

    fn reached(&self) -> usize {
        self.records.iter().filter(|record| record.seconds.is_some()).count()
    }
}

const COLUMNS: [(&str, Lean); 9] = [
    ("row", Lean::Left),
    ("preparing", Lean::Right),
    ("epoch", Lean::Right),
    ("faster", Lean::Right),
    ("epochs to target", Lean::Right),
    ("time to target", Lean::Right),
    ("sooner", Lean::Right),
    ("reached", Lean::Right),
    ("best", Lean::Right),
];

/// The cells of the table.
fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let ratio = |first: Option<f64>, value: Option<f64>| match (first, value) {
        (Some(first), Some(value)) if value > 0.0 => format!("{:.2} x", first / value),
        _ => "-".to_owned(),
    };
    let cell = |row: &Row| {
        let Some(medians) = row.medians() else {
            return vec![row.title(), "skipped".to_owned()];
        };
        // A program's rows are compared with its own first one.
        let first = rows.iter().filter(|other| other.peer == row.peer).find_map(Row::medians);
        let (hit, first) = (medians.to_target, first.as_ref());
        vec![
            row.title(),
            seconds(medians.prepared),
            seconds(medians.epoch),
            ratio(first.map(|first| first.epoch), Some(medians.epoch)),
            medians.epochs_to_target.map_or_else(|| "-".to_owned(), |epochs| epochs.to_string()),
            hit.map_or_else(|| "not reached".to_owned(), seconds),
            ratio(first.and_then(|first| first.to_target), hit),
            format!("{} of {}", row.reached(), row.records.len()),
            format!("{:.4}", medians.best),
        ]
    };
    rows.iter().map(cell).collect()
}

/// The lines of the table for a terminal.
pub fn lines(rows: &[Row]) -> Vec<String> {
    table::lines(&COLUMNS, &cells(rows))
}

/// The table as a page of Markdown, with its settings and the reasons of skipped rows.
pub fn page(settings: &Settings, rows: &[Row]) -> String {
    let Settings { recipe, data, target, every, max_epochs, device, amp, threads, .. } = settings;
    let metric = rows.iter().flat_map(|row| &row.records).map(|record| record.metric.as_str()).next();
    let metric = metric.unwrap_or("dice");
    let skipped = rows.iter().filter_map(|row| row.skipped.map(|why| format!("- {}: {why}\n", row.name)));
    let skipped: String = skipped.collect();
    let skipped = if skipped.is_empty() { skipped } else { format!("\nSkipped:\n\n{skipped}") };
    format!(
        "# The ladder of {recipe}\n\n\
         Data: {data}. Target: {metric} of {target}, validated every {every} epochs, {max_epochs} epochs at most. \
         Device: {device}, {threads} threads, AMP: {amp}. Medians of all seeds; times to the target include preparation \
         and validations.\n\n{}{skipped}",
        markdown::table(&COLUMNS, &cells(rows))
    )
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{record, settings};
    use super::*;

    fn row(name: &str, records: Vec<Record>) -> Row {
        Row { name: name.to_owned(), records, skipped: None, peer: None }
    }

    #[test]
    fn rows_are_compared_with_the_first() {
        let plain = [(8.0, Some((40, 320.0))), (10.0, Some((60, 600.0))), (9.0, None)];
        let plain = plain.iter().zip(0..).map(|((epoch, hit), seed)| record("plain", seed, *epoch, *hit)).collect();
        let cache = row("cache", vec![record("cache", 0, 2.0, Some((40, 80.0)))]);
        let skipped = Row { skipped: Some("a CPU"), ..row("AMP", Vec::new()) };
        let rows = [row("plain", plain), skipped, cache];
        let medians = rows[0].medians().expect("trainings");
        assert_eq!((medians.epoch, medians.to_target, medians.epochs_to_target), (9.0, Some(600.0), Some(60.0)));
        let cells = cells(&rows);
        assert_eq!(cells[0][3..8], ["1.00 x", "60", "10 min 00 s", "1.00 x", "2 of 3"].map(str::to_owned));
        assert_eq!(cells[1], ["AMP", "skipped"]);
        assert_eq!(cells[2][3], "4.50 x");
        assert_eq!(cells[2][6..8], ["7.50 x", "1 of 1"].map(str::to_owned));
        let page = page(&settings(), &rows);
        assert!(page.contains("- AMP: a CPU\n") && page.contains("| cache |"), "{page}");
    }

    /// Half of the trainings did not reach the target, so the median has no value.
    #[test]
    fn a_target_that_half_of_the_seeds_miss_has_no_time() {
        let rows = [row("plain", vec![record("plain", 0, 8.0, None), record("plain", 1, 8.0, Some((4, 40.0)))])];
        let medians = rows[0].medians().expect("trainings");
        assert_eq!((medians.to_target, medians.epochs_to_target), (None, None));
        assert_eq!(cells(&rows)[0][5..8], ["not reached", "-", "1 of 2"].map(str::to_owned));
    }
}
