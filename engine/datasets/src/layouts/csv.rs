//! Tables with a case in each row.

use std::path::{Path, PathBuf};

use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CHOOSE, CaseList, Layout, Target, Wants, same_modality, title, with_image, wrong};
use crate::dataset::{case_name, make_unique, number};
use crate::{Column, ColumnKind, CsvOptions, DataError, Field, Item, csv_items};

/// Marks an empty value in a column of files.
const NONE: &str = "\0none";

/// A table with a case in each row (`.csv`, `.tsv`). The column `image`, or those of
/// `[data] images`, name files; so does `label` if the target is a label map. Other columns are fields of
/// the cases: classes, scores, weights. Relative names start at the table's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Csv {
    /// Column that names a case; by default `case` if it exists, else the case is named after its
    /// first file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Base of relative file names, instead of the table's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Delimiter of values: a comma, semicolon, tab or vertical bar. By default it is found from the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
}

impl Layout for Csv {
    fn fits(&self, path: &Path) -> bool {
        path.is_file()
            && path.extension().is_some_and(|end| ["csv", "tsv"].iter().any(|known| end.eq_ignore_ascii_case(known)))
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let images = if wants.images.is_empty() { vec!["image".to_owned()] } else { wants.images.clone() };
        let label = match &wants.target {
            Target::Image { name } => Some(name.clone().unwrap_or_else(|| "label".to_owned())),
            _ => None,
        };
        let mut options = CsvOptions {
            delimiter: self.delimiter,
            case: self.case.clone(),
            root: self.root.clone(),
            ..CsvOptions::default()
        };
        let (columns, separator) = crate::dataset::csv_columns(path, &options)?;
        if options.case.is_none() && columns.iter().any(|column| column == CASE) {
            let learned = matches!(&wants.target, Target::Fields(names) if names.iter().any(|name| name == CASE));
            options.case = (!learned).then(|| CASE.to_owned());
        }
        let unnamed = options.case.is_none();
        let images = spelled(&columns, images);
        for column in &images {
            if !columns.contains(column) {
                let known: Vec<&str> = columns.iter().map(String::as_str).collect();
                let what = hearth_registry::unknown("column", column, &known);
                let advice = format!("name the columns of the images with {CHOOSE}");
                return Err(wrong(path, format!("{what}; {advice}")));
            }
        }
        let named: Vec<&String> = match &wants.target {
            Target::Image { .. } => label.iter().collect(),
            Target::Fields(names) => names.iter().collect(),
            Target::Nothing => Vec::new(),
        };
        if let Some(column) = named.into_iter().find(|column| !columns.contains(column)) {
            let known: Vec<&str> = columns.iter().map(String::as_str).collect();
            let what = hearth_registry::unknown("column", column, &known);
            return Err(wrong(path, format!("{what}; it holds the target ([task])")));
        }
        let as_file = |default: Option<Field>| Column { kind: Some(ColumnKind::File), default, ..Column::default() };
        for column in &images {
            options.types.insert(column.clone(), as_file(None));
        }
        if let Some(label) = label.as_ref().filter(|label| columns.contains(label)) {
            // A row without a label is a case for prediction.
            options.types.insert(label.clone(), as_file(Some(Field::Text(NONE.to_owned()))));
        }
        // An empty value means that the case has no such file; `label` is not a file if the target is something
        // else.
        for column in &columns {
            let column_type = options.types.entry(column.clone()).or_default();
            if column_type.kind.is_none() {
                column_type.default = Some(Field::Text(String::new()));
                column_type.kind = ["image", "label"].contains(&&**column).then_some(ColumnKind::Text);
            }
        }
        let found = csv_items(&[path], &options)?;
        let (mut cases, mut lacking) = (Vec::new(), Vec::new());
        for item in found {
            match case(item, &images, label.as_deref(), (&columns, separator), unnamed) {
                Ok(item) => cases.push(item),
                Err(lacks) => lacking.push(lacks),
            }
        }
        make_unique(&mut cases);
        let modalities = if images.len() == wants.images.len() { wants.images.clone() } else { Vec::new() };
        let mut list = CaseList { name: title(path), modalities, ..CaseList::default() };
        list.lack(lacking, wants, |cases| wrong(path, format!("files are missing:{cases}")))?;
        if cases.is_empty() {
            return Err(wrong(path, "names no case: it has no row below its column names".to_owned()));
        }
        list.sort(cases, wants);
        Ok(list)
    }
}

/// Matches requested names with the spelling of a list. A list without any of them but with an
/// `image` has all channels in it.
pub(super) fn spelled(known: &[String], wanted: Vec<String>) -> Vec<String> {
    let of =
        |name: &String| known.iter().find(|other| *other == name).or(known.iter().find(|o| same_modality(o, name)));
    if wanted.iter().all(|name| of(name).is_none()) && known.iter().any(|name| name == "image") {
        return vec!["image".to_owned()];
    }
    wanted.into_iter().map(|name| of(&name).cloned().unwrap_or(name)).collect()
}

/// The default column that names a case.
const CASE: &str = "case";

/// Converts the files of a row to `image` and `label`, and numbers written as text to numbers. A
/// case without a name is named after its first file. Fails with the case and the file that it lacks.
fn case(
    mut item: Item,
    images: &[String],
    label: Option<&str>,
    (columns, separator): (&[String], char),
    unnamed: bool,
) -> Result<Item, (String, String)> {
    let files: Vec<PathBuf> = images.iter().filter_map(|column| item.files.remove(column)).collect();
    if let (true, Some(first)) = (unnamed, files.first()) {
        item.case = case_name(first);
    }
    let labelled = label.and_then(|label| item.files.remove(label));
    let labelled = labelled.filter(|file| !file.ends_with(NONE));
    if let Some(missing) = files.iter().chain(&labelled).find(|file| !file.exists()) {
        return Err((item.case, format!("{} does not exist", missing.display())));
    }
    for column in columns {
        let Some(Field::Text(text)) = item.fields.get(column) else { continue };
        if text.is_empty() {
            item.fields.remove(column);
        } else if let Some(number) = number(text, separator) {
            item.fields.insert(column.clone(), Field::Number(number));
        }
    }
    item = with_image(item, "image", Parts::new(files));
    Ok(match labelled {
        Some(file) => item.with("label", file),
        None => item,
    })
}

hearth_registry::entry!(dyn Layout => Csv, aliases: &["CSV"], example: "case = \"patient\"");
