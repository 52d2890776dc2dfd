//! Lists of regions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{ENDINGS, Region, Slides};
use crate::DataError;
use crate::dataset::{Row, first_rows, read_table};
use crate::layouts::{some, wrong};

/// Reads the regions of a list, and which of them validate if a column `split` states it.
pub(super) struct Table {
    pub regions: Vec<Region>,
    pub held: Option<Vec<bool>>,
}

/// Columns of CAMELYON's list: slide, x, y and nine labels.
const CAMELYON: usize = 12;

/// Whether a file is a table of regions, by its first line.
pub(super) fn is_region_list(path: &Path) -> bool {
    let known = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    // The first line only: a list may have many.
    known && first_rows(path).iter().any(|line| is_camelyon(line) || Named::of(line).is_ok())
}

/// Whether a line is one of CAMELYON's list: a name, then numbers only.
fn is_camelyon(line: &[String]) -> bool {
    line.len() == CAMELYON && line[1..].iter().all(|value| value.parse::<f64>().is_ok())
}

/// The columns of a table with names.
struct Named {
    slide: usize,
    x: usize,
    y: usize,
    /// Columns of the labels, row by row.
    labels: Vec<usize>,
    split: Option<usize>,
}

impl Named {
    fn of(header: &[String]) -> Result<Self, String> {
        let find = |names: &[&str]| {
            let place = header.iter().position(|column| names.iter().any(|name| column.eq_ignore_ascii_case(name)));
            place.ok_or_else(|| {
                let wanted = names.join("\" or \"");
                format!(
                    "no column \"{wanted}\" among {header:?}; CAMELYON's list without a header has {CAMELYON} columns"
                )
            })
        };
        let numbered: Vec<usize> = (0..).map_while(|i| find(&[format!("label_{i}").as_str()]).ok()).collect();
        let labels = if numbered.is_empty() { vec![find(&["label"])?] } else { numbered };
        Ok(Named {
            slide: find(&["image", "slide"])?,
            x: find(&["x", "column"])?,
            y: find(&["y", "row"])?,
            labels,
            split: find(&["split"]).ok(),
        })
    }

    /// CAMELYON's columns; the labels are stored column by column.
    fn camelyon() -> Self {
        let labels = (0..9).map(|i| 3 + 3 * (i % 3) + i / 3).collect();
        Named { slide: 0, x: 1, y: 2, labels, split: None }
    }
}

pub(super) fn read(layout: &Slides, path: &Path) -> Result<Table, DataError> {
    let fail = |line: u64, what: String| wrong(path, format!("line {line}: {what}"));
    let rows = read_table(path, None)?.rows;
    let mut lines = rows.iter();
    let first = rows.first().map(|row| row.values.clone()).unwrap_or_default();
    let columns = if is_camelyon(&first) {
        Named::camelyon()
    } else {
        lines.next();
        Named::of(&first).map_err(|what| fail(1, what))?
    };
    let cells = layout.grid * layout.grid;
    if columns.labels.len() != cells {
        return Err(wrong(
            path,
            format!(
                "has {} labels for each region, but data.layout.grid = {} asks for {cells}",
                columns.labels.len(),
                layout.grid
            ),
        ));
    }
    let folders = folders(layout, path);
    let mut found: BTreeMap<String, Option<PathBuf>> = BTreeMap::new();
    let (mut regions, mut held) = (Vec::new(), Vec::new());
    let mut missing: Vec<String> = Vec::new();
    for Row { line: number, values } in lines {
        let number = *number;
        if values.len() != first.len() {
            return Err(fail(number, format!("{} values, expected {}", values.len(), first.len())));
        }
        let name = &values[columns.slide];
        let slide = found.entry(name.clone()).or_insert_with(|| find_slide(&folders, name));
        let Some(slide) = slide.clone() else {
            let what = format!("line {number}: no slide {name:?}");
            missing.extend((!missing.iter().any(|other| other.ends_with(&format!("{name:?}")))).then_some(what));
            continue;
        };
        let whole = |column: usize, what: &str| {
            let value = values[column].parse::<f64>().ok().filter(|value| value.is_finite() && value.abs() < 1e9);
            value.ok_or_else(|| fail(number, format!("{what} is {:?}, expected a number of pixels", values[column])))
        };
        let centre = [whole(columns.y, "y")?.round() as i64, whole(columns.x, "x")?.round() as i64];
        let label = |column: &usize| match values[*column].parse::<f64>() {
            Ok(value) if value == 0.0 || value == 1.0 => Ok(value),
            _ => Err(fail(number, format!("a label is {:?}, expected 0 or 1", values[*column]))),
        };
        let labels = columns.labels.iter().map(label).collect::<Result<Vec<f64>, DataError>>()?;
        if let Some(column) = columns.split {
            held.push(match values[column].to_ascii_lowercase().as_str() {
                "train" | "training" => false,
                "validation" | "valid" | "val" => true,
                other => return Err(fail(number, format!("split is {other:?}, expected \"train\" or \"validation\""))),
            });
        }
        regions.push(Region { slide, centre, labels, line: usize::try_from(number).ok() });
    }
    if !missing.is_empty() {
        let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(wrong(
            path,
            format!(
                "{} slides are missing (looked in {}, with the endings {}, dcm, and as folders of DICOM); name their folder with data.layout.images:\n  {}",
                missing.len(),
                looked.join(", "),
                ENDINGS.join(", "),
                some(&missing)
            ),
        ));
    }
    if regions.is_empty() {
        return Err(wrong(path, "lists no regions".to_owned()));
    }
    Ok(Table { regions, held: columns.split.map(|_| held) })
}

/// The folders in which slides are searched.
fn folders(layout: &Slides, list: &Path) -> Vec<PathBuf> {
    let folder = list.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match &layout.images {
        Some(images) => vec![folder.join(images)],
        None => ["", "images", "slides", "training/images"].map(|part| folder.join(part)).to_vec(),
    }
}

/// Finds the file of a slide by its name with or without the suffix, or by its path; for DICOM also
/// its folder.
fn find_slide(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    folders.iter().find_map(|folder| {
        let exact = folder.join(name);
        let ended = ENDINGS.iter().chain(&["dcm"]).map(|end| folder.join(format!("{name}.{end}")));
        let file = std::iter::once(exact.clone()).chain(ended).find(|path| path.is_file());
        file.or_else(|| (exact.is_dir() && hearth_slides::is_dicom_slide(&exact)).then_some(exact))
    })
}
