//! Text tables.

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lean {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// The lines of a table: each column is as wide as its widest entry, with two spaces between columns. A
/// left-aligned last column is not padded.
pub fn lines(columns: &[(&str, Lean)], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let length = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |text| text.chars().count());
    let widths: Vec<usize> =
        (0..columns.len()).map(|column| all.iter().map(|row| length(row, column)).max().unwrap_or(0)).collect();
    let line = |row: &&Vec<String>| {
        let cells =
            row.iter().zip(columns.iter().zip(widths.iter().copied())).map(|(text, ((_, lean), width))| match lean {
                Lean::Left => format!("{text:<width$}"),
                Lean::Right => format!("{text:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

/// A line of comma-separated values, without the line end.
pub use hearth_files::csv_line as csv;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_entry() {
        let columns = [("case", Lean::Left), ("voxels", Lean::Right), ("what", Lean::Left)];
        let rows = [vec!["a".into(), "12".into(), "x".into()], vec!["längst".into(), "1234567".into(), String::new()]];
        assert_eq!(lines(&columns, &rows), ["case     voxels  what", "a            12  x", "längst  1234567"]);
    }
}
