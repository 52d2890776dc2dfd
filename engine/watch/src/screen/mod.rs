//! The view in a terminal: [`screen`].

mod board;
mod chart;
mod paint;
mod run;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::Style;
use ratatui_core::text::Line;
use ratatui_core::widgets::Widget;
use ratatui_widgets::paragraph::{Paragraph, Wrap};

use crate::end::End;
use crate::error::WatchError;
use crate::follow::{Follower, Seen};
use crate::lines::{EVERY, over, rest};
use crate::narrate::plain;

/// Switches to the alternate screen without a cursor; below, back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The size of a terminal that does not report one.
const SIZE: (u16, u16) = (80, 24);

/// Draws the watched folder, again whenever it changes or the terminal is resized, with or without
/// colours. The view of a run ends with the run; that of a folder does not. `stop` ends both.
///
/// # Errors
/// A terminal that cannot be drawn in.
pub fn screen(follower: &mut Follower, colours: bool, stop: &AtomicBool) -> Result<End, WatchError> {
    let end_of = |follower: &Follower| over(follower.seen()).filter(|_| !matches!(follower.seen(), Seen::Board(_)));
    if let Some(end) = end_of(follower) {
        return Ok(end);
    }
    let guard = Screen::enter().map_err(WatchError::Terminal)?;
    loop {
        follower.look();
        if let Some(end) = end_of(follower) {
            return Ok(end);
        }
        // Drawn each time: typed characters appear in the view until it is drawn again.
        guard.draw(follower, colours).map_err(WatchError::Terminal)?;
        rest(EVERY, stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Left);
        }
    }
}

/// The terminal's alternate screen, which is left however the view ends.
struct Screen;

impl Screen {
    fn enter() -> io::Result<Self> {
        let mut out = io::stdout().lock();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(Self)
    }

    fn draw(&self, follower: &Follower, colours: bool) -> io::Result<()> {
        let (width, height) = terminal_size::terminal_size().map_or(SIZE, |(width, height)| (width.0, height.0));
        let mut out = io::stdout().lock();
        out.write_all(paint::ansi(&view(follower, width, height), colours).as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, nothing needs to be restored.
        let mut out = io::stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    }
}

fn view(follower: &Follower, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let [body, foot] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(buffer.area);
    match follower.seen() {
        Seen::Run(run) => run::draw(&mut buffer, body, run),
        Seen::Board(runs) => board::draw(&mut buffer, body, &follower.path().display().to_string(), runs),
        Seen::Waiting(text) | Seen::Gone(text) => {
            Paragraph::new(plain(text)).wrap(Wrap { trim: true }).render(body, &mut buffer);
        }
    }
    Line::styled("Ctrl-C leaves; the run continues", Style::new().dim()).render(foot, &mut buffer);
    buffer
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn shown(follower: &Follower, width: u16, height: u16) -> String {
        let buffer = view(follower, width, height);
        let text = paint::ansi(&buffer, false);
        // Names cannot send commands to the terminal.
        assert!(!text.contains("\u{1b}[2J") && !text.contains('\n'), "{text:?}");
        let rows = buffer.content.chunks(usize::from(width.max(1)));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    fn write(folder: &Path, name: &str, text: &str) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join(name), text).expect("written");
    }

    fn run(folder: &Path, epochs: u64, dice: f64) -> fs::File {
        write(folder, "recipe.toml", "task = \"spleen\"\n[training]\nepochs = 20\n");
        let line = |epoch: u64| {
            let value = dice * epoch as f64 / epochs as f64;
            format!(
                "{{\"event\":\"iteration\",\"epoch\":{epoch},\"iteration\":{},\"loss\":{}}}\n{{\"event\":\"epoch\",\"epoch\":{epoch},\"iteration\":{},\"learning_rate\":0.01,\"metrics\":{{\"mean_dice\":{value}}},\"best\":{value},\"best_epoch\":{epoch},\"seconds\":2.0,\"key_metric\":\"mean_dice\",\"better\":\"higher\"}}\n",
                epoch * 10,
                1.0 / epoch as f64,
                epoch * 10
            )
        };
        write(folder, "log.jsonl", &(1..=epochs).map(line).collect::<String>());
        let lock = fs::File::create(folder.join("run.lock")).expect("a lock");
        lock.try_lock().expect("free");
        lock
    }

    #[test]
    fn a_run_shows_its_figures_curves_and_warnings_at_any_size() {
        let dir = tempfile::tempdir().expect("a folder");
        let _lock = run(dir.path(), 8, 0.8);
        write(dir.path(), "machine.csv", "part,time_s,process_memory_bytes\n1,1,2000000000\n");
        write(dir.path(), "warnings.jsonl", "{\"level\":\"warn\",\"message\":\"case 7 is empty \\u001b[2J\"}\n");
        let follower = Follower::new(dir.path(), false).expect("a run");
        let seen = shown(&follower, 100, 34);
        for words in [
            "running",
            "epoch 8 of 20",
            "40 %",
            "0.8000",
            "mean dice",
            "0.01",
            "24.0 s",
            "2.0 s",
            "process memory",
            "2.0",
            "case 7 is empty",
            "Ctrl-C leaves",
            "loss",
        ] {
            assert!(seen.contains(words), "no {words:?} in\n{seen}");
        }
        assert!(
            seen.chars().filter(|letter| ('\u{2801}'..='\u{28ff}').contains(letter)).count() > 40,
            "curves:\n{seen}"
        );
        assert!(!seen.contains('\u{1b}'), "{seen}");
        for (width, height) in [(1, 1), (2, 40), (200, 3), (40, 12), (60, 24), (300, 100)] {
            shown(&follower, width, height);
        }
    }

    #[test]
    fn a_run_without_an_epoch_and_a_folder_are_shown_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = dir.path().join("first");
        let _locks =
            [run(&first, 4, 0.5), run(&dir.path().join("second"), 2, 0.9), run(&dir.path().join("third"), 0, 0.0)];
        let seen = shown(&Follower::new(&dir.path().join("third"), false).expect("a run"), 80, 24);
        assert!(seen.contains("epoch 1 of 20") && seen.contains("no epoch is complete"), "{seen}");
        let follower = Follower::new(dir.path(), false).expect("runs");
        let seen = shown(&follower, 100, 20);
        let places: Vec<usize> =
            ["second", "first", "third"].map(|name| seen.find(name).unwrap_or(usize::MAX)).to_vec();
        assert!(places.is_sorted() && places[2] != usize::MAX, "{seen}");
        assert!(seen.contains("3 running") && seen.contains("0.9000") && seen.contains("mean dice"), "{seen}");
        shown(&follower, 3, 2);
    }
}
