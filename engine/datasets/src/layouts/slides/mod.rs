//! Regions of whole-slide images.

mod annotated;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_slides::{Pick, Slide};
use hearth_transforms::DrawKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseList, Layout, Wants, some, title, wrong};
use crate::{DataError, Field, Item};

/// Regions of whole-slide images, read directly from the pyramids, with a label for each cell of a
/// grid over them. It reads
///
/// - CAMELYON's region list, a table without a header: slide, x and y of the region's centre at
///   level 0, and the 3 x 3 labels column by column;
/// - a table with names: `image` (or `slide`), `x` and `y` (or `column` and `row`), and `label`, or
///   `label_0`, `label_1`, ... row by row; optionally `split` (`train` or `validation`);
/// - a folder of slides with annotations (ASAP XML or GeoJSON) of the same names, next to them or
///   in a folder `annotations`: regions are drawn inside the tissue, and a label states whether the
///   centre of its cell is annotated. A slide without annotations is negative. A slide of DICOM
///   files has the name of the folder that holds only that slide, else of the file of its largest
///   level.
///
/// A folder with `training.csv` and optionally `validation.csv` is read from these lists. If no
/// list states which regions validate, whole slides do: `validation_fraction` of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slides {
    /// Folder of the slides; by default that of the list, or `images`, `slides` or
    /// `training/images` in it. A relative path starts at the folder of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// Folder of the annotations, if they are not next to the slides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<PathBuf>,
    /// List of the regions that validate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<PathBuf>,
    /// Fraction of the slides that validate if no list states it.
    pub validation_fraction: f64,
    /// Width and height of a region in pixels of level 0.
    pub region_size: usize,
    /// Rows and columns of labels over a region.
    pub grid: usize,
    /// Number of regions drawn from a slide with annotations.
    pub regions: usize,
    /// Fraction of the regions of an annotated slide whose centre is annotated.
    pub positive: f64,
    /// Annotated classes that count as positive; by default all but `exclude`.
    pub classes: Vec<String>,
    /// Annotated classes that are excluded.
    pub exclude: Vec<String>,
    /// Seed of the drawn regions and of the slides that validate.
    pub seed: u64,
}

impl Default for Slides {
    fn default() -> Self {
        let pick = Pick::default();
        Slides {
            images: None,
            annotations: None,
            validation: None,
            validation_fraction: 0.2,
            region_size: 768,
            grid: 3,
            regions: 200,
            positive: 0.5,
            classes: pick.include,
            exclude: pick.exclude,
            seed: 0,
        }
    }
}

/// Slides that cannot be read, with the reasons.
type Lacking = Vec<(String, String)>;

/// A region of a slide.
#[derive(Clone, Debug, PartialEq)]
struct Region {
    slide: PathBuf,
    /// Row and column of the centre at level 0.
    centre: [i64; 2],
    /// Label for each cell of the grid, row by row.
    labels: Vec<f64>,
    /// Line in the list, if the region is from a list.
    line: Option<usize>,
}

impl Region {
    /// The name of the case.
    fn case(&self) -> String {
        let [row, column] = self.centre;
        format!("{} row {row} column {column}", name(&self.slide))
    }

    fn item(self) -> Item {
        let [row, column] = self.centre;
        Item::new(self.case())
            .with_field("slide", Field::Text(name(&self.slide)))
            .with_field("location", Field::Numbers(vec![row as f64, column as f64]))
            .with_field("label", Field::Numbers(self.labels))
            .with("image", self.slide)
    }
}

/// Returns a slide's name: that of its file without the suffix, or of its folder. A folder of DICOM
/// may be named by a UID, whose last number is not a suffix.
fn name(path: &Path) -> String {
    let uid = path.extension().is_some_and(|end| end.to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let name = if uid { path.file_name() } else { path.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Suffixes of slides, in the order in which they are tried.
pub(super) const ENDINGS: [&str; 6] = ["tif", "tiff", "svs", "ndpi", "mrxs", "scn"];

/// Whether a file has the suffix of a slide.
fn is_slide(path: &Path) -> bool {
    path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

impl Layout for Slides {
    fn fits(&self, path: &Path) -> bool {
        if path.is_file() {
            return table::is_region_list(path);
        }
        let listed = listed(path).is_some_and(|list| table::is_region_list(&list));
        listed || annotated::slides(self, path).is_ok_and(|slides| slides.iter().any(|(_, found)| found.is_some()))
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        self.check(path)?;
        let keep = wants.keep_lacking;
        let list = if path.is_file() { Some(path.to_owned()) } else { listed(path) };
        let mut cases = CaseList { name: title(path), ..CaseList::default() };
        let (regions, listed) = match &list {
            Some(list) => self.listed(list, keep)?,
            None => {
                let (regions, lacking) = annotated::regions(self, path, keep)?;
                cases.lacking = lacking;
                (regions, None)
            }
        };
        check_places(list.as_deref().unwrap_or(path), &regions, keep)?;
        let held = match listed {
            Some(held) => held,
            None => match self.held(path, &regions) {
                // Too few slides are left.
                Err(_) if !cases.lacking.is_empty() => vec![false; regions.len()],
                held => held?,
            },
        };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut validation = Vec::new();
        for (index, region) in regions.into_iter().enumerate() {
            let mut item = region.item();
            // A region that is listed twice counts twice.
            let times = seen.entry(item.case.clone()).or_default();
            *times += 1;
            if *times > 1 {
                item.case = format!("{} ({times})", item.case);
            }
            if held[index] {
                validation.push(item.case.clone());
            }
            cases.labelled.push(item);
        }
        cases.validation = Some(validation);
        Ok(cases)
    }
}

impl Slides {
    fn check(&self, path: &Path) -> Result<(), DataError> {
        let fail = |what: String| Err(wrong(path, format!("data.layout: {what}")));
        if self.region_size == 0 || self.grid == 0 || self.regions == 0 {
            return fail("region_size, grid and regions must be at least 1".to_owned());
        }
        for (key, part) in [("validation_fraction", self.validation_fraction), ("positive", self.positive)] {
            if !(0.0..=1.0).contains(&part) {
                return fail(format!("{key} = {part}; give a fraction from 0 to 1"));
            }
        }
        Ok(())
    }

    /// Reads the regions of a list and of its validation list, and which of them validate if the
    /// lists state it.
    fn listed(&self, list: &Path, keep: bool) -> Result<(Vec<Region>, Option<Vec<bool>>), DataError> {
        let folder = list.parent().unwrap_or(Path::new("."));
        let table::Table { mut regions, mut held } = table::read(self, list)?;
        let second = match &self.validation {
            Some(given) => Some(folder.join(given)),
            None => {
                let stem = name(list);
                let partner = ["training", "train"].contains(&stem.as_str());
                let found = ["validation.csv", "valid.csv"].map(|name| folder.join(name));
                found.into_iter().find(|path| partner && path.is_file())
            }
        };
        if let Some(second) = second {
            let more = table::read(self, &second)?;
            held = Some([vec![false; regions.len()], vec![true; more.regions.len()]].concat());
            check_places(&second, &more.regions, keep)?;
            regions.extend(more.regions);
        }
        Ok((regions, held))
    }

    /// Selects the regions that validate: those of some slides, drawn by the seed, with the same
    /// fraction of slides with and without positive labels.
    fn held(&self, path: &Path, regions: &[Region]) -> Result<Vec<bool>, DataError> {
        let mut slides: BTreeMap<&Path, bool> = BTreeMap::new();
        for region in regions {
            *slides.entry(&region.slide).or_default() |= region.labels.contains(&1.0);
        }
        let mut chosen: Vec<&Path> = Vec::new();
        for wanted in [true, false] {
            let group: Vec<&Path> = slides.iter().filter(|(_, has)| **has == wanted).map(|(path, _)| *path).collect();
            if self.validation_fraction == 0.0 || group.is_empty() {
                continue;
            }
            if wanted && group.len() == 1 {
                let only = group[0].display();
                return Err(wrong(
                    path,
                    format!(
                        "{only} is the only slide with positive labels, so that no slide is left to validate: add slides, or \
                     name a list of regions with data.layout.validation"
                    ),
                ));
            }
            let count =
                (group.len() as f64 * self.validation_fraction).round().max(f64::from(u8::from(wanted))) as usize;
            let order = DrawKey::new(self.seed, 0, 0).draw("slides that validate", usize::from(wanted), 0);
            let order = order.permutation(group.len());
            chosen.extend(order.into_iter().take(count.min(group.len() - 1)).map(|index| group[index]));
        }
        Ok(regions.iter().map(|region| chosen.contains(&region.slide.as_path())).collect())
    }
}

/// The list of a folder's regions.
fn listed(folder: &Path) -> Option<PathBuf> {
    ["training.csv", "train.csv"].map(|name| folder.join(name)).into_iter().find(|path| path.is_file())
}

/// Opens every slide and checks that the centres of regions lie on it. Slides that cannot be opened are the
/// error, unless they are kept.
fn check_places(list: &Path, regions: &[Region], keep: bool) -> Result<(), DataError> {
    let mut sizes: BTreeMap<&Path, (usize, usize)> = BTreeMap::new();
    let mut beyond = Vec::new();
    for region in regions {
        let (width, height) = match sizes.get(region.slide.as_path()) {
            Some(size) => *size,
            None => {
                let size = match Slide::open(&region.slide) {
                    Ok(slide) => slide.dimensions(),
                    Err(_) if keep => (usize::MAX >> 1, usize::MAX >> 1),
                    Err(error) => return Err(DataError::Slide(error)),
                };
                sizes.insert(&region.slide, size);
                size
            }
        };
        let [row, column] = region.centre;
        if !(0..height as i64).contains(&row) || !(0..width as i64).contains(&column) {
            let slide = name(&region.slide);
            let line = region.line.map_or_else(String::new, |line| format!("line {line}: "));
            beyond.push(format!("{line}{slide}: x {column}, y {row}; the slide has {width} x {height} pixels"));
        }
    }
    if beyond.is_empty() {
        return Ok(());
    }
    let count = beyond.len();
    Err(wrong(
        list,
        format!(
            "the centres of {count} regions lie beyond the edges of their slides (x comes before y, in pixels of level 0):\n  {}",
            some(&beyond)
        ),
    ))
}

hearth_registry::entry!(dyn Layout => Slides, example: "region_size = 768\ngrid = 3");
