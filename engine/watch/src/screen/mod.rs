//! In a terminal: [`screen`].

mod board;
mod chart;
mod run;

use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use crate::end::End;
use crate::error::WatchError;
use crate::follow::{Follower, Seen};
use crate::lines::{EVERY, over};
use crate::narrate::plain;

/// Draws what is seen, again whenever it changes or the terminal has another size. A run's view
/// ends with the run, a folder's does not; `q`, Esc and Ctrl-C leave both, and so does `stop`.
///
/// # Errors
/// Where the terminal cannot be drawn in.
pub fn screen(follower: &mut Follower, stop: &AtomicBool) -> Result<End, WatchError> {
    let end_of = |follower: &Follower| over(follower.seen()).filter(|_| !matches!(follower.seen(), Seen::Board(_)));
    if let Some(end) = end_of(follower) {
        return Ok(end);
    }
    let mut terminal = ratatui::try_init().map_err(WatchError::Terminal)?;
    let mut watch = || -> std::io::Result<End> {
        let mut drawn = false;
        loop {
            if !drawn {
                terminal.draw(|frame| draw(frame, follower))?;
                drawn = true;
            }
            if let Some(end) = end_of(follower) {
                return Ok(end);
            }
            if event::poll(EVERY)? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press && leaves(key.code, key.modifiers) => {
                        return Ok(End::Left);
                    }
                    Event::Resize(..) => drawn = false,
                    _ => {}
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(End::Left);
            }
            drawn &= !follower.look();
        }
    };
    let end = watch();
    // Also where drawing has failed: the terminal is of use again.
    let restored = ratatui::try_restore();
    let end = end.map_err(WatchError::Terminal)?;
    restored.map_err(WatchError::Terminal)?;
    Ok(end)
}

fn leaves(code: KeyCode, with: KeyModifiers) -> bool {
    match code {
        KeyCode::Char('c' | 'd') => with.contains(KeyModifiers::CONTROL),
        KeyCode::Char('q') | KeyCode::Esc => true,
        _ => false,
    }
}

fn draw(frame: &mut Frame<'_>, follower: &Follower) {
    let [body, foot] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    match follower.seen() {
        Seen::Run(run) => run::draw(frame, body, run),
        Seen::Board(runs) => board::draw(frame, body, &follower.path().display().to_string(), runs),
        Seen::Waiting(text) | Seen::Gone(text) => {
            frame.render_widget(Paragraph::new(plain(text)).wrap(Wrap { trim: true }), body);
        }
    }
    let line = Line::styled("q leaves; the run goes on", Style::new().dim());
    frame.render_widget(line, foot);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn shown(follower: &Follower, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, follower)).expect("drawn");
        terminal.backend().to_string()
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
                epoch * 10, 1.0 / epoch as f64, epoch * 10
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
        for words in ["running", "epoch 8 of 20", "40 %", "0.8000", "mean dice", "0.01", "24.0 s", "2.0 s", "process memory", "2.0", "case 7 is empty", "q leaves", "loss"] {
            assert!(seen.contains(words), "no {words:?} in\n{seen}");
        }
        assert!(seen.chars().filter(|letter| ('\u{2801}'..='\u{28ff}').contains(letter)).count() > 40, "curves:\n{seen}");
        assert!(!seen.contains('\u{1b}'), "{seen}");
        for (width, height) in [(1, 1), (2, 40), (200, 3), (40, 12), (60, 24), (300, 100)] {
            shown(&follower, width, height);
        }
    }

    #[test]
    fn a_run_without_an_epoch_and_a_folder_are_shown_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = dir.path().join("first");
        let _locks = [run(&first, 4, 0.5), run(&dir.path().join("second"), 2, 0.9), run(&dir.path().join("third"), 0, 0.0)];
        let seen = shown(&Follower::new(&dir.path().join("third"), false).expect("a run"), 80, 24);
        assert!(seen.contains("epoch 1 of 20") && seen.contains("no epoch is complete"), "{seen}");
        let follower = Follower::new(dir.path(), false).expect("runs");
        let seen = shown(&follower, 100, 20);
        let places: Vec<usize> = ["second", "first", "third"].map(|name| seen.find(name).unwrap_or(usize::MAX)).to_vec();
        assert!(places.is_sorted() && places[2] != usize::MAX, "{seen}");
        assert!(seen.contains("3 running") && seen.contains("0.9000") && seen.contains("mean dice"), "{seen}");
        shown(&follower, 3, 2);
    }

    #[test]
    fn keys_that_leave() {
        assert!(leaves(KeyCode::Char('c'), KeyModifiers::CONTROL) && !leaves(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(leaves(KeyCode::Esc, KeyModifiers::NONE) && leaves(KeyCode::Char('q'), KeyModifiers::NONE));
    }
}
