//! Cells of tables. A spreadsheet computes a cell that begins with `=`, `+`, `-` or `@`; names of cases
//! and messages come from others, so such a cell gets a quote in front, as OWASP recommends. Numbers stay
//! numbers.

/// The characters with which a formula begins, in spreadsheets.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A line of comma-separated values (RFC 4180), without the line end.
///
/// ```
/// assert_eq!(hearth_files::csv_line(["a,b", "-1.5", "=1+1"]), r#""a,b",-1.5,'=1+1"#);
/// ```
pub fn csv_line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    cells.into_iter().map(|cell| csv_cell(cell.as_ref())).collect::<Vec<_>>().join(",")
}

/// One cell of a line, see [`csv_line`].
pub fn csv_cell(text: &str) -> String {
    let mark = if is_formula(text) { "'" } else { "" };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{mark}{}\"", text.replace('"', "\"\"")),
        false => format!("{mark}{text}"),
    }
}

/// The text of a cell that [`csv_cell`] has written, after its quotes were removed.
pub fn csv_text(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|text| is_formula(text)).unwrap_or(cell)
}

fn is_formula(text: &str) -> bool {
    text.starts_with(FORMULA) && text.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_come_back() {
        for (text, cell) in [
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("\r=1", "\"'\r=1\""),
            ("-", "'-"),
            ("-1.5e-3", "-1.5e-3"),
            ("-inf", "-inf"),
            ("+7", "+7"),
            ("case-1", "case-1"),
            ("'quoted'", "'quoted'"),
            ("a,b", "\"a,b\""),
            ("", ""),
        ] {
            assert_eq!(csv_cell(text), cell);
            let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell);
            assert_eq!(csv_text(&inner.replace("\"\"", "\"")), text);
        }
    }
}
