//! A table of classes with one row per case: its file and the values (MONAI's `CSVSaver`).

use std::fmt::Write as _;
use std::path::PathBuf;

use hearth_bundle::{Component, Fault, Value};

use crate::bundle::case::Case;
use crate::bundle::nodes::{fault, texts};
use crate::bundle::writing::Writing;
use hearth_recipe::{Context, Outcome};

/// `SaveClassification`, and the handler `ClassificationSaver`.
pub(crate) struct Classes {
    path: PathBuf,
    delimiter: String,
    overwrite: bool,
}

impl Classes {
    pub fn new(component: &Component) -> Result<Self, Fault> {
        if component.has("saver") && component.get("saver").is_some() {
            return Err(fault(component, "saver: only MONAI's own CSVSaver is supported"));
        }
        let text = |key: &str, default: &str| component.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
        Ok(Classes {
            path: PathBuf::from(text("output_dir", "./")).join(text("filename", "predictions.csv")),
            delimiter: text("delimiter", ","),
            overwrite: component.get("overwrite").and_then(Value::truth).unwrap_or(true),
        })
    }

    /// Builds a `ClassificationSaver`, which takes the evaluator's value `pred`.
    pub fn of_handler(component: &Component) -> Result<Self, Fault> {
        let pred = match component.get("output_transform") {
            Some(Value::Call(call)) if call.name == "from_engine" => call.get(0, "keys").and_then(texts),
            _ => None,
        };
        if pred.is_none_or(|keys| keys != ["pred"]) {
            let what = "output_transform is not supported, but for from_engine(['pred'])";
            return Err(fault(component, what));
        }
        Self::new(component)
    }

    /// Adds the row of a case.
    pub fn add(&self, case: &Case, key: &str, writing: &mut Writing) -> Outcome {
        let values = case.sample.image(key)?.to_vec();
        let name = case.file_of("image").or_else(|| case.file_of(key)).unwrap_or_else(|| case.index.to_string());
        let mut row = name.clone();
        for value in values {
            // A number as Python writes it.
            let _ = write!(row, "{}{}", self.delimiter, python(f64::from(value)));
        }
        let table = match writing.rows.iter_mut().find(|(path, _)| *path == self.path) {
            Some((_, rows)) => rows,
            None => {
                writing.rows.push((self.path.clone(), Vec::new()));
                match writing.rows.last_mut() {
                    Some((_, rows)) => rows,
                    None => return Ok(()),
                }
            }
        };
        match table.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = row,
            None => table.push((name, row)),
        }
        Ok(())
    }

    /// Writes the table.
    pub fn finish(&self, writing: &mut Writing) -> Outcome {
        let Some(at) = writing.rows.iter().position(|(path, _)| *path == self.path) else { return Ok(()) };
        let (_, rows) = writing.rows.remove(at);
        let mut text = String::new();
        if !self.overwrite {
            let before = writing.inputs.join(&self.path);
            text = hearth_files::read_to_string(before).unwrap_or_default();
        }
        for (_, row) in rows {
            text += &row;
            text += "\n";
        }
        let path = writing.claim(&self.path, &[])?;
        hearth_files::replace(&path, text).while_doing(|| format!("cannot write {}", path.display()))?;
        writing.done(path);
        Ok(())
    }
}

/// Formats a number like Python's `str`.
pub(crate) fn python(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::python;

    #[test]
    fn numbers_are_written_as_in_python() {
        for (value, wanted) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (f64::from(0.1_f32), "0.10000000149011612"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (123_456_789.0, "123456789.0"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(python(value), wanted);
        }
    }
}
