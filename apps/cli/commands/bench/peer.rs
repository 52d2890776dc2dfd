//! The raw lines of another program's side of a benchmark.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Context, Failure, Outcome};

/// A line of another program: its name, and the fields of ours.
#[derive(Deserialize)]
pub struct Line<T> {
    /// The name of the program.
    pub peer: String,
    /// The measurement.
    #[serde(flatten)]
    pub fields: T,
}

/// The name of a row of another program.
pub fn named(row: &str, peer: &str) -> String {
    format!("{row} ({peer})")
}

/// Reads the lines of JSON of a file. Each must have the settings that `check` compares; it returns what
/// differs.
///
/// # Errors
/// A file that cannot be read, has no line, a line without the fields, other settings.
pub fn read<T: DeserializeOwned>(path: &Path, check: impl Fn(&T) -> Option<String>) -> Outcome<Vec<Line<T>>> {
    let what = || format!("--peer {}", path.display());
    let text = std::fs::read_to_string(path).while_doing(|| format!("{}: cannot read it", what()))?;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = || format!("{} line {}", what(), number + 1);
        let line: Line<T> = serde_json::from_str(line)
            .while_doing(|| format!("{}: expected a line of JSON that the script of the other program prints", at()))?;
        if let Some(difference) = check(&line.fields) {
            let advice = "measure both with the same options";
            return Err(Failure::new(format!("{}: it was measured with {difference}: {advice}", at())));
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Err(Failure::new(format!("{}: it has no measurement", what())));
    }
    Ok(lines)
}

/// The first setting that differs: `NAME OTHERS, and here NAME OURS`.
pub fn difference(settings: &[(&str, String, String)]) -> Option<String> {
    let (name, theirs, ours) = settings.iter().find(|(_, theirs, ours)| theirs != ours)?;
    Some(format!("{name} {theirs}, and here it is {ours}"))
}
