//! Lists of cases from tables: [`csv_items`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use super::decathlon::{case_name, make_unique};
use super::table::{self, Row, Rows};
use super::{Field, Item};
use crate::DataError;
use hearth_registry::nearest;

/// The kind of values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// Strings.
    Text,
    /// Names of files.
    File,
}

/// The options for reading a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Column {
    /// Kind of the values. The default is numbers if every value is one; otherwise strings, which
    /// are files in `image` and `label`.
    pub kind: Option<ColumnKind>,
    /// Replacement of an empty value; without it an empty value is an error.
    pub default: Option<Field>,
    /// Suffix that is appended to the name of each file: `.tif`.
    pub suffix: String,
}

/// The options for reading a table: its rows, its columns, and their kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Setters)]
#[serde(deny_unknown_fields, default)]
#[setters(strip_option)]
pub struct CsvOptions {
    /// Whether the first line names the columns; otherwise they are named `0`, `1`, ...
    pub header: bool,
    /// Delimiter of values; by default it is found from the first line.
    pub delimiter: Option<char>,
    /// Columns to read; by default all.
    #[setters(into)]
    pub columns: Option<Vec<String>>,
    /// Rows to read (from 0, without the header), in this order; by default all.
    #[setters(into)]
    pub rows: Option<Vec<Range<usize>>>,
    /// Options of columns, by name.
    pub types: BTreeMap<String, Column>,
    /// New values that combine several columns of numbers: `location = ["y", "x"]`.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Base of relative file names; by default the table's folder.
    #[setters(into)]
    pub root: Option<PathBuf>,
    /// Column that names the case; by default the case is named after its first file, or its row.
    #[setters(into)]
    pub case: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            header: true,
            delimiter: None,
            columns: None,
            rows: None,
            types: BTreeMap::new(),
            groups: BTreeMap::new(),
            root: None,
            case: None,
        }
    }
}

/// Reads one case per row of a table (MONAI's `CSVDataset`). Several tables are joined: rows that
/// agree in all shared columns become one.
///
/// # Errors
/// If a table can't be read or has rows of different lengths, a column does not exist, or a value
/// is missing or of another kind; the error names table, line and column.
pub fn csv_items(tables: &[impl AsRef<Path>], options: &CsvOptions) -> Result<Vec<Item>, DataError> {
    let Some((first, others)) = tables.split_first() else {
        return Err(DataError::Option("no table to read cases from".to_owned()));
    };
    let mut table = Table::read(first.as_ref(), options)?;
    for other in others {
        table = table.join(&Table::read(other.as_ref(), options)?)?;
    }
    table.items(options)
}

/// The columns of a table, by name, and its delimiter.
pub(crate) fn csv_columns(table: &Path, options: &CsvOptions) -> Result<(Vec<String>, char), DataError> {
    let table = Table::read(table, options)?;
    Ok((table.columns, table.separator))
}

/// A table as in the file.
struct Table {
    path: PathBuf,
    columns: Vec<String>,
    rows: Vec<Row>,
    separator: char,
}

impl Table {
    fn read(path: &Path, options: &CsvOptions) -> Result<Table, DataError> {
        let wrong = |what: String| DataError::List { path: path.to_owned(), what };
        let Rows { mut rows, separator } = table::read(path, options.delimiter)?;
        if let Some(row) = rows.iter().find(|row| row.values.len() != rows[0].values.len()) {
            let (line, count, expected) = (row.line, row.values.len(), rows[0].values.len());
            return Err(wrong(format!("line {line} has {count} values, the lines before have {expected}")));
        }
        let header = (options.header && !rows.is_empty()).then(|| rows.remove(0).values);
        let columns: Vec<String> = match header {
            Some(names) => names,
            None => (0..rows.first().map_or(0, |r| r.values.len())).map(|i| i.to_string()).collect(),
        };
        if let Some(twice) = columns.iter().enumerate().find_map(|(i, c)| columns[..i].contains(c).then_some(c)) {
            return Err(wrong(format!("two columns are named {twice:?}")));
        }
        Ok(Table { path: path.to_owned(), columns, rows, separator })
    }

    fn wrong(&self, what: String) -> DataError {
        DataError::List { path: self.path.clone(), what }
    }

    fn column(&self, name: &str) -> Result<usize, DataError> {
        self.columns.iter().position(|c| c == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
            let hint = nearest(name, names.iter().copied())
                .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            self.wrong(format!("no column {name:?} among {names:?}{hint}"))
        })
    }

    /// Joins rows of both tables that agree in the shared columns, in the order of this one.
    fn join(&self, other: &Table) -> Result<Table, DataError> {
        let shared: Vec<(usize, usize)> = self
            .columns
            .iter()
            .enumerate()
            .filter_map(|(a, name)| Some((a, other.columns.iter().position(|c| c == name)?)))
            .collect();
        if shared.is_empty() {
            let (a, b) = (self.path.display(), other.path.display());
            return Err(DataError::Option(format!("{a} and {b} have no column in common to be joined by")));
        }
        let mut matches: BTreeMap<Vec<&str>, Vec<&Row>> = BTreeMap::new();
        for row in &other.rows {
            matches.entry(shared.iter().map(|(_, b)| row.values[*b].as_str()).collect()).or_default().push(row);
        }
        let added: Vec<usize> = (0..other.columns.len()).filter(|b| shared.iter().all(|(_, s)| s != b)).collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            let key: Vec<&str> = shared.iter().map(|(a, _)| row.values[*a].as_str()).collect();
            for found in matches.get(&key).into_iter().flatten() {
                let more = added.iter().map(|b| found.values[*b].clone());
                rows.push(Row { line: row.line, values: row.values.iter().cloned().chain(more).collect() });
            }
        }
        let columns = self.columns.iter().cloned().chain(added.iter().map(|b| other.columns[*b].clone())).collect();
        Ok(Table { path: self.path.clone(), columns, rows, separator: self.separator })
    }

    fn items(&self, options: &CsvOptions) -> Result<Vec<Item>, DataError> {
        let places: Vec<usize> = match &options.columns {
            Some(names) => names.iter().map(|name| self.column(name)).collect::<Result<_, _>>()?,
            None => (0..self.columns.len()).collect(),
        };
        options.types.keys().try_for_each(|name| self.column(name).map(drop))?;
        let rows: Vec<&Row> = match &options.rows {
            None => self.rows.iter().collect(),
            Some(ranges) => {
                let mut rows = Vec::new();
                for range in ranges {
                    let part = self.rows.get(range.clone()).ok_or_else(|| {
                        self.wrong(format!("there are no rows {range:?}; the table has {}", self.rows.len()))
                    })?;
                    rows.extend(part);
                }
                rows
            }
        };
        let kinds: Vec<ColumnKind> = (0..self.columns.len()).map(|place| self.kind(place, &rows, options)).collect();
        let groups: Vec<(&String, Vec<usize>)> = options
            .groups
            .iter()
            .map(|(group, names)| Ok((group, names.iter().map(|n| self.column(n)).collect::<Result<_, DataError>>()?)))
            .collect::<Result<_, DataError>>()?;
        let case = options.case.as_ref().map(|name| self.column(name)).transpose()?;
        let root = options.root.clone().or_else(|| self.path.parent().map(Path::to_owned)).unwrap_or_default();
        let plain = Column::default();
        let mut items = Vec::with_capacity(rows.len());
        for (number, row) in rows.into_iter().enumerate() {
            let mut item = Item::default();
            for place in &places {
                let name = &self.columns[*place];
                match self.value(row, *place, kinds[*place], options)? {
                    Field::Text(text) if kinds[*place] == ColumnKind::File => {
                        let suffix = &options.types.get(name).unwrap_or(&plain).suffix;
                        item = item.with(name, root.join(format!("{text}{suffix}")));
                    }
                    field => item = item.with_field(name, field),
                }
            }
            for (group, places) in &groups {
                let mut numbers = Vec::with_capacity(places.len());
                for place in places {
                    match self.value(row, *place, ColumnKind::Number, options)? {
                        Field::Number(number) => numbers.push(number),
                        other => return Err(self.at(row, *place, &format!("{other:?} is not a number"))),
                    }
                }
                item = item.with_field(*group, Field::Numbers(numbers));
            }
            item.case = match (case, item.files.values().next()) {
                (Some(place), _) => row.values[place].clone(),
                (None, Some(file)) => case_name(file),
                (None, None) => format!("row {number}"),
            };
            items.push(item);
        }
        make_unique(&mut items);
        Ok(items)
    }

    fn kind(&self, place: usize, rows: &[&Row], options: &CsvOptions) -> ColumnKind {
        let name = self.columns[place].as_str();
        if let Some(kind) = options.types.get(name).and_then(|t| t.kind) {
            return kind;
        }
        let number =
            |row: &&Row| row.values[place].is_empty() || table::number(&row.values[place], self.separator).is_some();
        if rows.iter().all(number) {
            ColumnKind::Number
        } else if matches!(name, "image" | "label") {
            ColumnKind::File
        } else {
            ColumnKind::Text
        }
    }

    fn value(&self, row: &Row, place: usize, kind: ColumnKind, options: &CsvOptions) -> Result<Field, DataError> {
        let text = &row.values[place];
        if text.is_empty() {
            let default = options.types.get(&self.columns[place]).and_then(|t| t.default.clone());
            return default.ok_or_else(|| self.at(row, place, "is empty, and no default is given"));
        }
        if kind != ColumnKind::Number {
            return Ok(Field::Text(text.clone()));
        }
        let number = table::number(text, self.separator).map(Field::Number);
        number.ok_or_else(|| self.at(row, place, &format!("{text:?} is not a number")))
    }

    fn at(&self, row: &Row, place: usize, what: &str) -> DataError {
        self.wrong(format!("line {}, column {:?}: {what}", row.line, self.columns[place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, options: &CsvOptions) -> Result<Vec<Item>, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("list.csv");
        std::fs::write(&path, text).expect("written");
        csv_items(&[path], options).map_err(|e| e.to_string())
    }

    fn options(edit: impl FnOnce(&mut CsvOptions)) -> CsvOptions {
        let mut options = CsvOptions { root: Some("/data".into()), ..CsvOptions::default() };
        edit(&mut options);
        options
    }

    #[test]
    fn columns_become_files_numbers_and_texts() {
        let items = read(
            "image,age,sex\na.nii, 41 ,f\n\"b,1.nii.gz\",,m\n",
            &options(|o| {
                let column = Column { default: Some(Field::Number(0.0)), ..Column::default() };
                o.types.insert("age".to_owned(), column);
            }),
        )
        .expect("a sound table");
        let expected = Item::new("b,1")
            .with("image", "/data/b,1.nii.gz")
            .with_field("age", Field::Number(0.0))
            .with_field("sex", Field::Text("m".to_owned()));
        assert_eq!(items[1], expected);
        assert_eq!(items[0].fields["age"], Field::Number(41.0));
    }

    /// The list of CAMELYON16 regions: no header, and the nine labels of a grid column by column,
    /// reordered row by row.
    #[test]
    fn a_list_of_regions() {
        let items = read(
            "tumor_001,5,7,0,1,0,0,0,0,1,0,0\n",
            &options(|o| {
                o.header = false;
                o.columns = Some(vec!["0".to_owned()]);
                let column = Column { kind: Some(ColumnKind::File), suffix: ".tif".to_owned(), ..Column::default() };
                o.types.insert("0".to_owned(), column);
                o.groups.insert("location".to_owned(), ["2", "1"].map(str::to_owned).into());
                let by_row = ["3", "6", "9", "4", "7", "10", "5", "8", "11"];
                o.groups.insert("label".to_owned(), by_row.map(str::to_owned).into());
            }),
        )
        .expect("a sound table");
        assert_eq!(items[0].case, "tumor_001");
        assert_eq!(items[0].files["0"], Path::new("/data/tumor_001.tif"));
        assert_eq!(items[0].fields["location"], Field::Numbers(vec![7.0, 5.0]));
        let label = vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(items[0].fields["label"], Field::Numbers(label));
    }

    #[test]
    fn rows_are_chosen_and_cases_named() {
        let items = read(
            "id,v\nx,1\ny,2\nz,3\nx,4\n",
            &options(|o| {
                o.rows = Some(vec![2..4, 0..1]);
                o.case = Some("id".to_owned());
            }),
        )
        .expect("a sound table");
        let names: Vec<&str> = items.iter().map(|i| i.case.as_str()).collect();
        assert_eq!(names, ["z", "x", "x#2"]);
    }

    #[test]
    fn tables_are_joined_by_what_they_share() {
        let dir = tempfile::tempdir().expect("a folder");
        let (a, b) = (dir.path().join("a.csv"), dir.path().join("b.csv"));
        std::fs::write(&a, "id,x\np,1\nq,2\nr,3\n").expect("written");
        std::fs::write(&b, "y,id\n30,r\n10,p\n").expect("written");
        let items = csv_items(&[&a, &b], &CsvOptions::default()).expect("a sound table");
        let both: Vec<_> = items.iter().map(|i| (i.fields["x"].clone(), i.fields["y"].clone())).collect();
        let pair = |a, b| (Field::Number(a), Field::Number(b));
        assert_eq!(both, [pair(1.0, 10.0), pair(3.0, 30.0)]);
        std::fs::write(&b, "y,other\n30,r\n").expect("written");
        assert!(
            csv_items(&[&a, &b], &CsvOptions::default()).expect_err("nothing shared").to_string().contains("common")
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let plain = CsvOptions::default();
        let error = |text: &str, options: &CsvOptions| read(text, options).expect_err("refused");
        let number = options(|o| {
            o.types.insert("v".to_owned(), Column { kind: Some(ColumnKind::Number), ..Column::default() });
        });
        assert!(error("id,v\n\na,1\nb,2,3\n", &plain).contains("line 4 has 3 values"));
        assert!(error("id,v\na,1\nb,\n", &plain).contains("line 3, column \"v\": is empty"));
        assert!(error("id,v\na,1\nb,two\n", &number).contains("line 3, column \"v\": \"two\" is not a number"));
        assert!(error("id,id\n", &plain).contains("two columns"));
        let missing = options(|o| o.columns = Some(vec!["imag".to_owned()]));
        assert!(error("image,v\na,1\n", &missing).contains("did you mean \"image\""));
        assert!(error("image,v\na,1\n", &options(|o| o.rows = Some(vec![0..2; 1]))).contains("no rows 0..2"));
        assert!(csv_items(&["/nowhere.csv"], &plain).expect_err("no file").to_string().contains("nowhere.csv"));
        assert!(csv_items(&[] as &[&str], &plain).is_err());
    }
}
