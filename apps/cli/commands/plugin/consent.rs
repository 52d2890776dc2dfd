//! `--allow-plugin`, and the question about a plugin whose file only a recipe names.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use hearth_plugin_host::{Identity, Info, allow_plugins, ask_with, shown_path, unused_allowances};

use crate::error::Outcome;
use crate::note;

/// Allows the plugins that the command line names; others are asked about at a terminal.
pub fn allow(words: &[PathBuf]) -> Outcome {
    allow_plugins(words)?;
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ask_with(about);
    }
    Ok(())
}

/// Reports values of `--allow-plugin` without effect.
pub fn report_unused() {
    for word in unused_allowances() {
        note!("--allow-plugin {}: without effect, because no plugin of a recipe needed it", shown_path(&word));
    }
}

fn about(path: &Path, identity: &Identity) -> bool {
    let question = format!(
        "{}\nThe recipe names this library, whose code would run with your rights. Load it, now and later, \
         until the file changes?",
        Info::of_identity(path, identity)
    );
    // Without an answer, the plugin is not loaded.
    agreed(&question).unwrap_or(false)
}

/// Asks at a terminal; without one, the answer is no.
pub fn agreed(question: &str) -> std::io::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut error = std::io::stderr();
    write!(error, "{question} [y/N] ")?;
    error.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
