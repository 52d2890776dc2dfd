//! Reads files of a run's folder, with a limit, and describes what is wrong with them.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::error::ReportError;

/// The maximum size of a file that is read, in bytes; a log of a million lines is smaller.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the text of a file; `None` if it does not exist. Bytes that are not UTF-8 are replaced.
pub fn text(path: &Path) -> Result<Option<String>, ReportError> {
    let file = match hearth_files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ReportError::io(path, error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| ReportError::io(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let what = format!("is longer than {} MB", MAX_BYTES >> 20);
        return Err(ReportError::damaged(path, what, "no run writes such a file; move it away"));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads the JSON object of a file; `None` if it does not exist.
pub fn object(path: &Path, advice: &str) -> Result<Option<Value>, ReportError> {
    let Some(text) = text(path)? else { return Ok(None) };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(Some(value)),
        Ok(_) => Err(ReportError::damaged(path, "is not a JSON object", advice)),
        Err(error) if error.is_eof() => Err(ReportError::damaged(path, format!("was cut off ({error})"), advice)),
        Err(error) => Err(ReportError::damaged(path, format!("is not JSON ({error})"), advice)),
    }
}

/// A JSON number; infinity and NaN are written as strings.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A JSON string.
pub fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The names and numbers of a JSON object; entries that are not numbers are skipped.
pub fn numbers(value: &Value) -> Vec<(String, f64)> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect()
}
