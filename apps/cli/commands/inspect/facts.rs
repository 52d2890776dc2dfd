//! Facts about an input: lines for people, and the same for programs.

use std::path::Path;

use hearth_data::quality::Finding;
use serde_json::{Map, Value, json};

use crate::out;
use crate::terminal::bold;

/// What was found in one input, in the order in which it is printed.
pub struct Facts {
    name: String,
    lines: Vec<(String, String)>,
    listed: Vec<String>,
    ends: Vec<String>,
    json: Map<String, Value>,
}

impl Facts {
    /// The facts of a file or folder of this name.
    pub fn new(name: String, format: &str) -> Self {
        let json = Map::from_iter([("file".to_owned(), json!(name)), ("format".to_owned(), json!(format))]);
        let lines = vec![("format".to_owned(), format.to_owned())];
        Self { name, lines, listed: Vec::new(), ends: Vec::new(), json }
    }

    /// Adds a line.
    pub fn line(&mut self, label: &str, text: impl Into<String>) {
        self.lines.push((label.to_owned(), text.into()));
    }

    /// Adds a value for programs.
    pub fn value(&mut self, key: &str, value: impl Into<Value>) {
        self.json.insert(key.to_owned(), value.into());
    }

    /// Adds the same as a line and as a value.
    pub fn add(&mut self, label: &str, text: impl Into<String>, key: &str, value: impl Into<Value>) {
        self.line(label, text);
        self.value(key, value);
    }

    /// Adds all values of a table; those that are there already are kept.
    pub fn values(&mut self, table: Value) {
        if let Value::Object(table) = table {
            for (key, value) in table {
                self.json.entry(key).or_insert(value);
            }
        }
    }

    /// Adds a line below the others.
    pub fn list(&mut self, line: String) {
        self.listed.push(line);
    }

    /// Adds findings, as the last lines.
    pub fn findings<'a>(&mut self, findings: impl IntoIterator<Item = &'a Finding>, hide: &Hide) {
        for finding in findings {
            let advice = finding.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
            self.ends.push(hide.text(&format!("{}: {}{advice}", finding.severity.word(), finding.what)));
        }
    }

    /// Adds a last line.
    pub fn end(&mut self, line: String) {
        self.ends.push(line);
    }

    /// Prints the lines.
    pub fn print(&self) {
        out!("{}", bold(&self.name));
        let width = self.lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0).max(6) + 2;
        for (label, text) in &self.lines {
            out!("  {label:width$}{text}");
        }
        self.listed.iter().for_each(|line| out!("{line}"));
        self.ends.iter().for_each(|line| out!("  {line}"));
    }

    /// The values.
    pub fn into_json(self) -> Value {
        Value::Object(self.json)
    }
}

/// What is left out of the output, which people paste into issues: where the input lies, and the numbers that
/// identify a patient's study.
pub struct Hide {
    /// The input, as it was given.
    given: String,
    /// Its name without folders.
    name: String,
    /// Whether identifiers are printed.
    identifiers: bool,
}

impl Hide {
    pub fn new(path: &Path, identifiers: bool) -> Self {
        let given = path.display().to_string();
        let real = path.canonicalize();
        let name = path.file_name().or_else(|| real.as_ref().ok()?.file_name());
        let name = name.map_or_else(|| given.clone(), |name| name.to_string_lossy().into_owned());
        Self { given, name, identifiers }
    }

    /// The name of the input.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// The name of a file or folder in the input.
    pub fn inside(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.given).ok().filter(|inside| !inside.as_os_str().is_empty());
        match inside {
            Some(inside) => inside.display().to_string(),
            None if path == Path::new(&self.given) => self.name(),
            None => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Whether identifiers are printed.
    pub fn shows_identifiers(&self) -> bool {
        self.identifiers
    }

    /// A text without the folder of the input, and without UIDs unless identifiers are printed.
    pub fn text(&self, text: &str) -> String {
        let text = if self.given == "." { text.to_owned() } else { text.replace(&self.given, &self.name) };
        if self.identifiers { text } else { without_uids(&text) }
    }
}

/// A text in which each UID (PS3.5, 9.1: numbers between dots) is the word `UID`.
fn without_uids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[start..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest.len(), |end| start + end);
        let (before, number) = (&rest[..start], &rest[start..end]);
        let uid = number.trim_end_matches('.');
        out.push_str(before);
        // Versions of programs and addresses have fewer parts.
        let parts = uid.split('.').count();
        let is_uid = (parts > 4 || (parts > 2 && uid.len() > 15)) && uid.split('.').all(|part| !part.is_empty());
        out.push_str(if is_uid { "UID" } else { uid });
        out.push_str(&number[uid.len()..]);
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_and_folders_are_left_out_of_texts() {
        let hide = Hide::new(Path::new("/home/me/Doe^Jane/ct"), false);
        let text = "series 1.2.840.113619.2.5.1#echo2. of /home/me/Doe^Jane/ct/a.dcm: 1.25 mm, 2.0.1, 12 slices";
        assert_eq!(hide.text(text), "series UID#echo2. of ct/a.dcm: 1.25 mm, 2.0.1, 12 slices");
        assert_eq!(hide.inside(Path::new("/home/me/Doe^Jane/ct/x/a.dcm")), "x/a.dcm");
        assert_eq!(hide.text("2.25.329800735698586629295641978511506172918: 10.0.0.1"), "UID: 10.0.0.1");
        let show = Hide::new(Path::new("ct"), true);
        assert_eq!(show.text("1.2.840.113619.2.5.1"), "1.2.840.113619.2.5.1");
    }
}
