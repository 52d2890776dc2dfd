//! Files of a run's folder: read with a limit, and what is wrong with them in words.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::error::ReportError;

/// The longest file that is read, in bytes: a log of a million lines is shorter.
const MAX_BYTES: u64 = 256 << 20;

/// The text of a file; `None` where there is none. Bytes that are not UTF-8 are replaced.
pub fn text(path: &Path) -> Result<Option<String>, ReportError> {
    let file = match File::open(path) {
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

/// The JSON object of a file; `None` where there is none.
pub fn object(path: &Path, advice: &str) -> Result<Option<Value>, ReportError> {
    let Some(text) = text(path)? else { return Ok(None) };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(Some(value)),
        Ok(_) => Err(ReportError::damaged(path, "is no JSON object", advice)),
        Err(error) if error.is_eof() => Err(ReportError::damaged(path, format!("was cut off ({error})"), advice)),
        Err(error) => Err(ReportError::damaged(path, format!("is no JSON ({error})"), advice)),
    }
}

/// A number of JSON, which writes infinity and NaN as text.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A text of JSON.
pub fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The names and numbers of a JSON object; entries that are no numbers are skipped.
pub fn numbers(value: &Value) -> Vec<(String, f64)> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect()
}
