//! Files that expressions read: texts, JSON, tables.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Eval, World};
use crate::fault::{Fault, FaultKind};
use crate::value::Value;

/// The largest file in bytes that an expression reads.
const LARGEST: u64 = 512 << 20;

/// Joins two parts of a path like `os.path.join`.
pub fn join(a: &str, b: &str) -> String {
    match b.starts_with('/') || a.is_empty() {
        true => b.to_owned(),
        false if a.ends_with('/') => format!("{a}{b}"),
        false => format!("{a}/{b}"),
    }
}

fn missing(path: &str, error: &std::io::Error) -> Fault {
    Fault::new(FaultKind::File, format!("{path} cannot be read: {error}"))
}

/// Fails for a missing or too large file.
pub fn check(world: &World, path: &str) -> Eval<()> {
    let facts = std::fs::metadata(world.path(path)).map_err(|error| missing(path, &error))?;
    match facts.is_file() {
        true if facts.len() <= LARGEST => Ok(()),
        true => {
            Err(Fault::new(FaultKind::File, format!("{path} has {} bytes; at most {LARGEST} are read", facts.len())))
        }
        false => Err(Fault::new(FaultKind::File, format!("{path} is no file"))),
    }
}

/// Reads the text of a file.
pub fn read(world: &World, path: &str) -> Eval<String> {
    check(world, path)?;
    hearth_files::read_to_string(world.path(path)).map_err(|error| missing(path, &error))
}

/// Reads the values of a JSON file.
pub fn read_json(world: &World, path: &str) -> Eval {
    let text = read(world, path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let parsed = serde_json::from_str(text);
    let parsed = parsed.map_err(|error| Fault::new(FaultKind::File, format!("{path} is not valid JSON: {error}")))?;
    Ok(Value::from_json(&parsed))
}

/// The names in a folder, sorted.
pub fn list(world: &World, path: &str) -> Eval<Vec<String>> {
    let entries = std::fs::read_dir(world.path(path)).map_err(|error| missing(path, &error))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
    names.sort_unstable();
    Ok(names)
}

/// Reads a table as pandas does: the first row has the names, and a column of numbers has numeric
/// values.
pub fn read_csv(world: &World, path: &str) -> Eval {
    let text = read(world, path)?;
    let wrong = |error: csv::Error| Fault::new(FaultKind::File, format!("{path} is no table: {error}"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = rows.headers().map_err(wrong)?.iter().map(str::to_owned).collect();
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); names.len()];
    for row in rows.records() {
        let row = row.map_err(wrong)?;
        columns.iter_mut().zip(row.iter()).for_each(|(column, cell)| column.push(cell.to_owned()));
    }
    world.take(columns.iter().map(Vec::len).sum())?;
    let typed = |column: Vec<String>| -> Vec<Value> {
        if let Ok(whole) = column.iter().map(|cell| cell.parse::<i64>()).collect::<Result<Vec<_>, _>>() {
            return whole.into_iter().map(Value::Int).collect();
        }
        if let Ok(numbers) = column.iter().map(|cell| cell.parse::<f64>()).collect::<Result<Vec<_>, _>>() {
            return numbers.into_iter().map(Value::Float).collect();
        }
        column.into_iter().map(Value::text).collect()
    };
    Ok(Value::Table(
        names.into_iter().zip(columns).map(|(name, column)| (name, Value::Column(typed(column).into()))).collect(),
    ))
}

/// The current UTC time, in a format of `strftime`.
///
/// # Errors
/// A format code that is not supported.
pub fn now(format: &str) -> Eval<String> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs() as i64);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out += &match chars.next() {
            Some('Y') => format!("{year:04}"),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('H') => format!("{:02}", of_day / 3600),
            Some('M') => format!("{:02}", of_day / 60 % 60),
            Some('S') => format!("{:02}", of_day % 60),
            Some('%') => "%".to_owned(),
            other => return Err(Fault::outside(format!("%{} of strftime is not evaluated", other.unwrap_or(' ')))),
        };
    }
    Ok(out)
}

/// The year, month and day for a number of days since 1970 (Howard Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(20_417), (2025, 11, 25));
        assert_eq!(civil(-1), (1969, 12, 31));
    }

    #[test]
    fn paths_join_as_in_python() {
        assert_eq!((join("a", "b"), join("a/", "b"), join("a", "/b")), ("a/b".into(), "a/b".into(), "/b".into()));
    }
}
