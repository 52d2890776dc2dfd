//! Reports the events since the last check, line by line.

use hearth_report::run::{Epoch, Progress, State};
use hearth_report::text::{NONE, duration, figure, words};
use hearth_report::{Board, Run};

use crate::end::End;
use crate::follow::Seen;

/// The maximum number of earlier warnings that are reported for a run at first.
const WARNINGS: usize = 3;

/// Reports changes as lines of text.
#[derive(Debug, Default)]
pub struct Narrator {
    /// The last reported epoch.
    epoch: Option<u64>,
    warnings: usize,
    state: Option<State>,
    last: Vec<String>,
}

impl Narrator {
    /// The lines about everything new.
    pub fn tell(&mut self, seen: &Seen) -> Vec<String> {
        let lines = match seen {
            Seen::Waiting(text) | Seen::Gone(text) => vec![text.clone()],
            Seen::Run(run) => self.of_run(run),
            Seen::Board(runs) => {
                let table = table(&Board::new(runs));
                if table == self.last {
                    return Vec::new();
                }
                self.last.clone_from(&table);
                table
            }
        };
        lines.iter().map(|line| plain(line)).collect()
    }

    fn of_run(&mut self, run: &Run) -> Vec<String> {
        let (mut lines, progress) = (Vec::new(), Progress::of(run));
        if self.state.as_ref() != Some(&run.state)
            && let State::Running(holder) = &run.state
        {
            let by = if holder.is_empty() { String::new() } else { format!(": {holder}") };
            lines.push(format!("{} is running{by}", run.name));
            if progress.epochs == 0 {
                lines.push(format!("epoch 1{}, not complete yet", of(&progress)));
            }
        }
        let last = run.epochs.last().map(|epoch| epoch.epoch);
        if self.epoch > last {
            lines.push(format!("resumed from epoch {}", last.unwrap_or(0)));
            self.epoch = last;
        }
        // For a run that is new to the narrator, only the newest epoch.
        let first = match self.state {
            None => last.unwrap_or(0),
            Some(_) => self.epoch.map_or(0, |told| told + 1),
        };
        lines.extend(run.epochs.iter().filter(|epoch| epoch.epoch >= first).map(|epoch| line(run, &progress, epoch)));
        let from = if self.state.is_none() {
            run.warnings.len().saturating_sub(WARNINGS)
        } else {
            self.warnings.min(run.warnings.len())
        };
        lines.extend(
            run.warnings[from..]
                .iter()
                .map(|warning| format!("{}: {}", if warning.is_error { "error" } else { "warning" }, warning.message)),
        );
        if self.state.as_ref() != Some(&run.state) {
            lines.extend(End::of(run).map(|end| end.words().to_owned()));
        }
        (self.epoch, self.warnings, self.state) = (last, run.warnings.len(), Some(run.state.clone()));
        lines
    }
}

fn of(progress: &Progress) -> String {
    progress.of.map_or(String::new(), |of| format!(" of {of}"))
}

/// An epoch as a line: `epoch 4 of 50  loss 0.1234  mean dice 0.81 (best 0.82 in epoch 3)  rate 0.01
/// 1.9 s  1 min 20 s left`.
fn line(run: &Run, progress: &Progress, epoch: &Epoch) -> String {
    let mut parts = vec![format!("epoch {}{}", epoch.epoch, of(progress))];
    let step = || run.steps.iter().rev().find(|step| step.epoch == epoch.epoch).map(|step| step.loss);
    parts.extend(epoch.loss.or_else(step).map(|loss| format!("loss {}", figure(loss))));
    let key = run.key_metric();
    for (name, value) in &epoch.metrics {
        let best = run.best().filter(|(_, at)| Some(name.as_str()) == key && *at <= epoch.epoch);
        let best = best.map_or(String::new(), |(value, at)| format!(" (best {} in epoch {at})", figure(value)));
        parts.push(format!("{} {}{best}", words(name), figure(*value)));
    }
    parts.extend(epoch.learning_rate.map(|rate| format!("rate {}", figure(rate))));
    parts.extend(epoch.wall_seconds.or(epoch.seconds).map(duration));
    if epoch.epoch == progress.epochs {
        parts.extend(progress.left.map(|left| format!("{} left", duration(left))));
    }
    parts.join("  ")
}

/// The runs by rank, in columns.
pub fn table(board: &Board<'_>) -> Vec<String> {
    let key = board.key.as_deref().map_or("key metric".to_owned(), words);
    let heads = ["rank", "run", "state", "epoch", &key, "in epoch", "loss", "left"].map(String::from);
    let rows = board.rows.iter().map(cells);
    columns(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
}

/// The cells of a row of a board.
pub fn cells(row: &hearth_report::Row<'_>) -> [String; 8] {
    let none = || NONE.to_owned();
    let progress = &row.progress;
    [
        row.rank.map_or_else(none, |rank| rank.to_string()),
        row.run.name.clone(),
        format!("{} {}", row.run.state.sign(), row.run.state.word()),
        format!("{}{}", progress.epoch(), of(progress)),
        row.value.map_or_else(none, figure),
        row.epoch.map_or_else(none, |epoch| epoch.to_string()),
        progress.loss.map_or_else(none, |(loss, _)| figure(loss)),
        progress.left.map_or_else(none, duration),
    ]
}

fn columns(rows: &[[String; 8]]) -> Vec<String> {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(wide);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The text without control characters for the terminal, which a name may contain.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(folder: &std::path::Path, log: &str) -> Seen {
        fs::write(folder.join("log.jsonl"), log).expect("a log");
        Seen::Run(Box::new(Run::read(folder).expect("a run")))
    }

    #[test]
    fn epochs_warnings_and_the_end_are_told_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("recipe.toml"), "[training]\nepochs = 3\n").expect("a recipe");
        let held = fs::File::create(at("run.lock")).expect("a lock");
        held.try_lock().expect("free");
        let epoch = |epoch: u64| {
            format!(
                "{{\"event\":\"epoch\",\"epoch\":{epoch},\"iteration\":{},\"learning_rate\":0.1,\"metrics\":{{\"dice\":0.{epoch}}},\"best\":0.{epoch},\"best_epoch\":{epoch},\"seconds\":1.0,\"wall_seconds\":2.0,\"loss\":0.5,\"key_metric\":\"dice\",\"better\":\"higher\"}}\n",
                epoch * 4
            )
        };
        let mut narrator = Narrator::default();
        let said = narrator.tell(&read(dir.path(), ""));
        assert!(said[0].contains("is running") && said[1] == "epoch 1 of 3, not complete yet", "{said:?}");
        let said = narrator.tell(&read(dir.path(), &(epoch(1) + &epoch(2))));
        assert_eq!(said.len(), 2);
        assert_eq!(
            said[1],
            "epoch 2 of 3  loss 0.5000  dice 0.2000 (best 0.2000 in epoch 2)  rate 0.1000  2.0 s  2.0 s left"
        );
        fs::write(at("warnings.jsonl"), "{\"level\":\"warn\",\"message\":\"odd \\u001b[31m spacing\"}\n")
            .expect("a warning");
        let said = narrator.tell(&read(dir.path(), &(epoch(1) + &epoch(2))));
        assert_eq!(said, ["warning: odd \u{fffd}[31m spacing"]);
        assert!(narrator.tell(&read(dir.path(), &(epoch(1) + &epoch(2)))).is_empty());
        drop(held);
        fs::remove_file(at("run.lock")).expect("removed");
        fs::write(at("summary.json"), r#"{"outcome":"completed","epochs":3,"seconds":9.0}"#).expect("a summary");
        let said = narrator.tell(&read(dir.path(), &(epoch(1) + &epoch(2) + &epoch(3))));
        assert!(
            said[0].starts_with("epoch 3 of 3")
                && said[1].contains("completed in epoch 3: best dice 0.3000 in epoch 3, 9.0 s"),
            "{said:?}"
        );
    }

    #[test]
    fn a_resume_begins_again_where_it_begins() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("recipe.toml"), "").expect("a recipe");
        let epoch = |epoch: u64| format!("{{\"event\":\"epoch\",\"epoch\":{epoch},\"metrics\":{{}}}}\n");
        let mut narrator = Narrator::default();
        narrator.tell(&read(dir.path(), &(epoch(1) + &epoch(2) + &epoch(3))));
        let said = narrator.tell(&read(dir.path(), &epoch(1)));
        assert_eq!(said, ["resumed from epoch 1"]);
    }
}
