//! `warnings.jsonl`: the warnings of a run.

use std::path::Path;

use serde_json::Value;

use super::files::{number, text, word};
use crate::error::ReportError;

/// A warning of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// The time, in seconds since 1970.
    pub unix_time: Option<f64>,
    /// Whether it was an error.
    pub is_error: bool,
    /// Its text.
    pub message: String,
}

/// Reads the file; `None` if it does not exist. Lines that are not warnings are skipped.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<Warning>>, ReportError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let of = |line: &str| {
        let entry: Value = serde_json::from_str(line).ok()?;
        let (unix_time, message) = (number(&entry["unix_time"]), word(&entry["message"])?);
        Some(Warning { unix_time, is_error: entry["level"].as_str() == Some("error"), message })
    };
    Ok(Some(text.lines().filter_map(of).collect()))
}
