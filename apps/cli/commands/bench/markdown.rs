//! Tables of measurements in Markdown.

use crate::table::Lean;

/// A table. A bar in a cell is written so that it does not end the cell.
pub fn table(columns: &[(&str, Lean)], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let cell = |text: &str| text.replace('|', "\\|");
    let head = line(columns.iter().map(|(name, _)| cell(name)).collect());
    let lean = |lean: Lean| if lean == Lean::Left { "---" } else { "---:" };
    let rule = line(columns.iter().map(|(_, side)| lean(*side).to_owned()).collect());
    let rows = rows.iter().map(|row| {
        let cells = (0..columns.len()).map(|column| row.get(column).map_or_else(String::new, |text| cell(text)));
        line(cells.collect())
    });
    [head, rule].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of GitHub's dialect: <https://github.github.com/gfm/#tables-extension->, example 198 and
    /// 200, and a row with fewer cells.
    #[test]
    fn a_table_has_a_head_a_rule_and_whole_rows() {
        let columns = [("row", Lean::Left), ("s", Lean::Right)];
        let rows = [vec!["a|b".to_owned(), "1.5".to_owned()], vec!["skipped".to_owned()]];
        assert_eq!(table(&columns, &rows), "| row | s |\n| --- | ---: |\n| a\\|b | 1.5 |\n| skipped |  |\n");
    }
}
