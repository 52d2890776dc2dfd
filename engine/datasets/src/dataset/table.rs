//! Tables as programs and spreadsheets of any language write them: values between commas, semicolons or
//! tabs, in UTF-8 with or without a mark, or UTF-16; decimal commas where a comma separates nothing.

use std::io::Read;
use std::path::Path;

use crate::DataError;

/// The maximum number of bytes of a table.
const MAX_TABLE: u64 = 4 << 30;

/// The number of bytes in which the first line of a table is expected.
const HEAD: u64 = 4096;

/// Characters that separate values, with their names.
const SEPARATORS: [(char, &str); 4] = [(',', "comma"), (';', "semicolon"), ('\t', "tab"), ('|', "vertical bar")];

/// A table as in the file.
pub(crate) struct Rows {
    pub rows: Vec<Row>,
    /// The character that separates values.
    pub separator: char,
}

pub(crate) struct Row {
    pub line: u64,
    pub values: Vec<String>,
}

/// The values of each row of a table. The character that separates them is found from its first line, unless
/// it is given.
///
/// # Errors
/// A file that cannot be read or is not text, or a first line with several separators of which not exactly
/// one splits every line into as many values.
pub fn table_rows(path: &Path, separator: Option<char>) -> Result<Vec<Vec<String>>, DataError> {
    Ok(read(path, separator)?.rows.into_iter().map(|row| row.values).collect())
}

/// Reads a table; see [`table_rows`].
pub(crate) fn read(path: &Path, separator: Option<char>) -> Result<Rows, DataError> {
    let wrong = |what: String| DataError::List { path: path.to_owned(), what };
    let io = |source| DataError::Io { path: path.to_owned(), source };
    let file = hearth_files::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length > MAX_TABLE {
        return Err(wrong(format!("{length} bytes, more than the limit of {MAX_TABLE}")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_TABLE).read_to_end(&mut bytes).map_err(io)?;
    let text = decode(bytes).map_err(wrong)?;
    let (declared, rest) = declared(&text);
    let skipped = u64::from(rest.len() < text.len());
    let tabs = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv")) && first_line(rest).contains('\t');
    let given = separator.or(declared).or(tabs.then_some('\t'));
    let separator = match given {
        Some(separator) if separator.is_ascii() => separator,
        Some(other) => return Err(wrong(format!("the delimiter {other:?} is not a plain character"))),
        None => found(rest).map_err(wrong)?,
    };
    let mut rows = records(rest, separator);
    // Spreadsheets write rows that were emptied as `;;`.
    rows.retain(|row| row.values.iter().any(|value| !value.is_empty()));
    rows.iter_mut().for_each(|row| row.line += skipped);
    Ok(Rows { rows, separator })
}

/// The values of the first line of a table by each separator in it, without reading the rest.
pub(crate) fn first_rows(path: &Path) -> Vec<Vec<String>> {
    let mut bytes = Vec::new();
    let Ok(file) = hearth_files::open(path) else { return Vec::new() };
    if file.take(HEAD).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = match utf16(&bytes) {
        Some(units) => String::from_utf16_lossy(&units),
        None => String::from_utf8_lossy(&bytes).into_owned(),
    };
    let (declared, rest) = declared(text.trim_start_matches('\u{feff}'));
    let line = first_line(rest);
    let by = |separator| records(line, separator).into_iter().next().map(|row| row.values);
    match declared {
        Some(separator) => by(separator).into_iter().collect(),
        None => counts(line).into_iter().filter_map(|(separator, ..)| by(separator)).collect(),
    }
}

/// A number, also with a decimal comma if commas do not separate values. `1,234` between tabs may be a
/// thousand and some, and is not a number.
pub(crate) fn number(text: &str, separator: char) -> Option<f64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (whole, part) = text.split_once(',').filter(|_| separator != ',')?;
    let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
    let thousands = digits.len() == 3 && part.len() == 3 && separator != ';';
    if thousands || whole.contains('.') || !part.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    format!("{whole}.{part}").parse().ok()
}

/// The text of a file.
fn decode(bytes: Vec<u8>) -> Result<String, String> {
    if let Some(units) = utf16(&bytes) {
        return String::from_utf16(&units).map_err(|_| "is not sound UTF-16; save it as CSV UTF-8".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        format!("line {line}: is not UTF-8; save the table as UTF-8 (in Excel: \"CSV UTF-8\")")
    })?;
    if text.contains('\0') {
        return Err("has zero bytes, as UTF-16 without a mark; save it as CSV UTF-8".to_owned());
    }
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// The units of a text in UTF-16 with a byte order mark, without the mark.
fn utf16(bytes: &[u8]) -> Option<Vec<u16>> {
    let (unit, bytes): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        _ => return None,
    };
    Some(bytes.as_chunks::<2>().0.iter().map(|two| unit(*two)).collect())
}

/// The separator that Excel declares in a line `sep=;` before the table, and the text after that line.
fn declared(text: &str) -> (Option<char>, &str) {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let line = line.trim_end_matches('\r').trim_matches('"');
    let mut after = match line.split_at_checked(4) {
        Some((start, after)) if start.eq_ignore_ascii_case("sep=") => after.chars(),
        _ => return (None, text),
    };
    match (after.next(), after.next()) {
        (Some(separator), None) => (Some(separator), rest),
        _ => (None, text),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// The separators in a line outside of quotes: their number and names.
fn counts(line: &str) -> Vec<(char, usize, &'static str)> {
    let outside: String = line.split('"').step_by(2).collect();
    let count = |separator: char| outside.matches(separator).count();
    SEPARATORS.iter().map(|(separator, name)| (*separator, count(*separator), *name)).filter(|one| one.1 > 0).collect()
}

/// The separator of a table, from its first line. Of several in that line, the one that splits every line
/// into as many values; a table of one column has none.
fn found(text: &str) -> Result<char, String> {
    let counts = counts(first_line(text));
    if let [] | [_] = counts[..] {
        return Ok(counts.first().map_or(',', |(separator, ..)| *separator));
    }
    let mut tried = Vec::new();
    let mut fitting = Vec::new();
    for (separator, _, name) in &counts {
        let rows = records(text, *separator);
        let columns = rows.first().map_or(0, |row| row.values.len());
        match rows.iter().find(|row| row.values.len() != columns) {
            Some(row) => {
                tried.push(format!("a {name} gives {columns} columns, but {} in line {}", row.values.len(), row.line));
            }
            None => {
                tried.push(format!("a {name} gives {columns} columns"));
                fitting.push(*separator);
            }
        }
    }
    match fitting[..] {
        [one] => Ok(one),
        _ => Err(format!(
            "what separates the values is not clear: {}; quote names that hold one of these, or set \
             data.layout.delimiter",
            tried.join(", ")
        )),
    }
}

/// Splits a table's text: handles quotes and both line endings, skips empty lines, and trims blanks
/// around values.
fn records(text: &str, separator: char) -> Vec<Row> {
    let mut reader = csv_core::ReaderBuilder::new().delimiter(separator as u8).build();
    let mut rows = Vec::new();
    // A value is never longer than its text, and there are never more values than bytes.
    let (mut values, mut ends) = (vec![0; text.len()], vec![0; 64]);
    let (mut rest, mut written, mut found) = (text.as_bytes(), 0, 0);
    // The line of the next record.
    let mut line = 1;
    let lines = |text: &[u8]| text.iter().filter(|b| **b == b'\n').count() as u64;
    loop {
        if found == 0 && written == 0 {
            let blank = rest.iter().take_while(|b| matches!(**b, b'\r' | b'\n')).count();
            line += lines(&rest[..blank]);
            rest = &rest[blank..];
        }
        let (state, read, wrote, ended) = reader.read_record(rest, &mut values[written..], &mut ends[found..]);
        let passed = &rest[..read];
        rest = &rest[read..];
        (written, found) = (written + wrote, found + ended);
        match state {
            csv_core::ReadRecordResult::OutputEndsFull => ends.resize(ends.len() * 2, 0),
            csv_core::ReadRecordResult::Record => {
                let starts = [0].into_iter().chain(ends.iter().copied());
                let value =
                    |(start, end): (usize, usize)| String::from_utf8_lossy(&values[start..end]).trim().to_owned();
                rows.push(Row { line, values: starts.zip(ends[..found].iter().copied()).map(value).collect() });
                line += lines(passed);
                (written, found) = (0, 0);
            }
            // The text is complete: an empty rest is its end.
            csv_core::ReadRecordResult::InputEmpty | csv_core::ReadRecordResult::OutputFull => {}
            csv_core::ReadRecordResult::End => return rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("list.csv");
        std::fs::write(&path, bytes).expect("written");
        table_rows(&path, None).map_err(|error| error.to_string())
    }

    /// As LibreOffice and Excel save the same sheet: "CSV", "CSV UTF-8" of a German Excel, "Unicode text",
    /// and with the line by which Excel opens a table of any separator.
    #[test]
    fn a_sheet_is_the_same_however_it_was_saved() {
        let rows = [["image", "alter", "bemerkung"], ["a, b.nii", "41,5", "gr\u{f6}\u{df}er; \"neu\""]];
        let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(unit).collect()
        };
        let comma = "image,alter,bemerkung\n\"a, b.nii\",\"41,5\",\"gr\u{f6}\u{df}er; \"\"neu\"\"\"\n";
        let semicolon = "\u{feff}image;alter;bemerkung\r\na, b.nii;41,5;\"gr\u{f6}\u{df}er; \"\"neu\"\"\"\r\n";
        let tab = "image\talter\tbemerkung\r\na, b.nii\t41,5\t\"gr\u{f6}\u{df}er; \"\"neu\"\"\"\r\n";
        let marked = format!("sep=;\r\n{}", semicolon.trim_start_matches('\u{feff}'));
        for bytes in [
            comma.as_bytes().to_vec(),
            semicolon.as_bytes().to_vec(),
            tab.as_bytes().to_vec(),
            utf16(tab, u16::to_le_bytes),
            utf16(tab, u16::to_be_bytes),
            marked.into_bytes(),
        ] {
            assert_eq!(written(&bytes).expect("a table"), rows);
        }
    }

    #[test]
    fn rows_without_values_are_skipped() {
        let rows = written(b"image;age\na.nii;5\n;\n\n ; \nb.nii;6\n;\n").expect("a table");
        assert_eq!(rows, [["image", "age"], ["a.nii", "5"], ["b.nii", "6"]]);
    }

    #[test]
    fn of_several_separators_the_one_that_fits_every_line_is_used() {
        assert_eq!(written(b"image;age, years\na;4,5\nb;5\n").expect("a table")[2], ["b", "5"]);
        assert_eq!(written(b"image\na;b.nii\n").expect("a table")[1], ["a;b.nii"]);
        let error = written(b"image;age, years\na;4,5\nb;5,5\n").expect_err("either fits");
        for words in ["a comma gives 2 columns", "a semicolon gives 2 columns", "data.layout.delimiter"] {
            assert!(error.contains(words), "{error}");
        }
        let error = written(b"image;age, years\na;4;5\n").expect_err("none fits");
        assert!(error.contains("a semicolon gives 2 columns, but 3 in line 2"), "{error}");
    }

    #[test]
    fn other_encodings_are_refused_with_the_line() {
        let error = written(b"image;note\na;gr\xf6\xdfer\n").expect_err("Latin-1");
        assert!(error.contains("line 2: is not UTF-8") && error.contains("CSV UTF-8"), "{error}");
        let error = written(b"i\0m\0,\0a\0\n\0").expect_err("no mark");
        assert!(error.contains("UTF-16 without a mark"), "{error}");
        let error = written(b"\xff\xfea\x00\x00\xd8").expect_err("half a character");
        assert!(error.contains("UTF-16"), "{error}");
    }

    #[test]
    fn decimal_commas_are_numbers_where_a_comma_separates_nothing() {
        for (text, separator, expected) in [
            ("1.5", ',', Some(1.5)),
            ("1,5", ',', None),
            ("1,5", ';', Some(1.5)),
            ("-0,25e-3", ';', Some(-0.25e-3)),
            ("1,234", ';', Some(1.234)),
            ("1,5", '\t', Some(1.5)),
            ("1,234", '\t', None),
            ("1.234,5", ';', None),
            ("1,2,3", ';', None),
            ("a,5", ';', None),
            ("1,", ';', None),
        ] {
            assert_eq!(number(text, separator), expected, "{text} {separator:?}");
        }
    }
}
