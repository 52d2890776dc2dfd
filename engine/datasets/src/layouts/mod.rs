//! Layouts of data sets on disk: from a folder or a list to its cases.
//!
//! Each [`Layout`] reads one kind: [`Decathlon`], [`NnUnetRaw`], [`NnUnetPreprocessed`], [`Brats`], [`Bids`], a table
//! ([`Csv`]), a list ([`JsonList`]), [`ImageFolders`], a [`LabelStore`], [`Dicom`], regions of [`Slides`],
//! a folder of [`Pictures`]. [`read`] recognizes the layout; a recipe names one
//! with `[data] layout`.
//!
//! ```
//! use hearth_datasets::layouts::{self, Target, Wants};
//!
//! let folder = tempfile::tempdir()?;
//! let table = folder.path().join("cases.csv");
//! std::fs::write(&table, "case,image,label,age\na,a.nii,a_seg.nii,54\n")?;
//! for file in ["a.nii", "a_seg.nii"] {
//!     std::fs::write(folder.path().join(file), "")?;
//! }
//! let cases = layouts::read(&table, &Wants { target: Target::label(), ..Wants::default() })?;
//! assert_eq!((cases.labelled.len(), cases.labelled[0].case.as_str()), (1, "a"));
//! assert!(cases.labelled[0].has_file("label") && cases.labelled[0].fields.contains_key("age"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bids;
mod brats;
mod csv;
mod decathlon;
mod dicom;
mod image_folders;
mod json_list;
mod label_store;
mod modality;
mod nnunet_preprocessed;
mod nnunet_raw;
mod pictures;
mod plugin;
mod slides;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use hearth_io::Parts;
use hearth_registry::{FromPlugin, Kind, Node, Registry};

use crate::{DataError, Item};

pub use bids::Bids;
pub use brats::Brats;
pub use csv::Csv;
pub use decathlon::Decathlon;
pub use dicom::Dicom;
pub use image_folders::ImageFolders;
pub use json_list::JsonList;
pub use label_store::LabelStore;
pub use modality::same_modality;
pub use nnunet_preprocessed::NnUnetPreprocessed;
pub use nnunet_raw::NnUnetRaw;
pub use pictures::Pictures;
pub use slides::Slides;

/// A layout of data sets on disk.
pub trait Layout: Debug + Send + Sync {
    /// Whether a folder or file appears to have this layout.
    fn fits(&self, path: &Path) -> bool;

    /// Whether its list names the files of each case, as the Decathlon's `dataset.json` does: then
    /// [`verify`](crate::quality::verify()) reports every file that is missing.
    fn lists_files(&self) -> bool {
        false
    }

    /// Lists its cases.
    ///
    /// # Errors
    /// If a list is damaged, or a case lacks a requested value; the error names list and case.
    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError>;
}

impl Kind for dyn Layout {
    const WORD: &'static str = "layout";

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(plugin::build);
}

/// The values that a recipe needs of each case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// Modalities that make up `image`, in the order of its channels: columns of a table, keys of a
    /// list, suffixes of files, names of channels. Empty means all of them, in the order of the
    /// data set.
    pub images: Vec<String>,
    /// Target of the training.
    pub target: Target,
    /// Whether cases that lack a file are listed in [`CaseList::lacking`] instead of failing the whole list,
    /// to report every one of them.
    pub keep_lacking: bool,
}

/// The target of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Target {
    /// An image: a label map, or an image to reconstruct. It becomes the case's `label`, whatever
    /// its name in the data set.
    Image {
        /// Column, key or suffix, if it differs from the layout's default.
        name: Option<String>,
    },
    /// Numbers or strings: fields of the case.
    Fields(Vec<String>),
    /// No target: the image itself is used.
    #[default]
    Nothing,
}

impl Target {
    /// A label map in the default place.
    pub fn label() -> Self {
        Target::Image { name: None }
    }
}

/// The cases of a data set.
#[derive(Clone, Debug, Default)]
pub struct CaseList {
    /// Name of the data set.
    pub name: String,
    /// Names of the label values, if the data set has them.
    pub labels: BTreeMap<u32, String>,
    /// Names of the channels of `image`, if the data set has them.
    pub modalities: Vec<String>,
    /// Cases with a target, in the order of the data set.
    pub labelled: Vec<Item>,
    /// Names of the cases that the data set reserves for validation, if it does.
    pub validation: Option<Vec<String>>,
    /// Cases without a target.
    pub unlabelled: Vec<Item>,
    /// Cases that lack a file, with the reason, if [`Wants::keep_lacking`] asks for them.
    pub lacking: Vec<(String, String)>,
}

impl CaseList {
    /// All cases, the labelled ones first.
    pub fn all(self) -> Vec<Item> {
        self.labelled.into_iter().chain(self.unlabelled).collect()
    }

    /// Keeps the cases that lack a file, if they are wanted, or fails with the first of them.
    fn lack(
        &mut self,
        lacking: Vec<(String, String)>,
        wants: &Wants,
        refused: impl FnOnce(&str) -> DataError,
    ) -> Result<(), DataError> {
        if !lacking.is_empty() && !wants.keep_lacking {
            let lines: Vec<String> = lacking.iter().map(|(case, what)| format!("{case}: {what}")).collect();
            return Err(refused(&match &lines[..] {
                [one] => format!(" {one}"),
                several => format!("\n  {}", some(several)),
            }));
        }
        self.lacking.extend(lacking);
        Ok(())
    }

    /// Splits cases by whether they have the target: the key `label` or the fields.
    fn sort(&mut self, cases: Vec<Item>, wants: &Wants) {
        for case in cases {
            let has = match &wants.target {
                Target::Image { .. } => case.files.contains_key("label") || case.parts.contains_key("label"),
                Target::Fields(names) => names.iter().all(|name| case.fields.contains_key(name)),
                Target::Nothing => true,
            };
            if has { self.labelled.push(case) } else { self.unlabelled.push(case) }
        }
    }
}

/// Reads the cases of a data set in any known layout.
///
/// Layouts registered by a user's program take precedence.
///
/// # Errors
/// If no layout matches, or the matching one cannot be read.
pub fn read(path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
    recognize(path)?.read(path, wants)
}

/// Finds the layout of a data set.
///
/// # Errors
/// If no layout matches.
pub fn recognize(path: &Path) -> Result<Box<dyn Layout>, DataError> {
    if !path.exists() {
        return Err(wrong(path, "no such file or folder".to_owned()));
    }
    hearth_files::check_readable(path).map_err(|error| wrong(path, error.to_string()))?;
    if let Some(layout) = recognize_list(path) {
        return Ok(layout);
    }
    // Any folder may hold DICOM: only reading it shows whether it does.
    let dicom = Dicom::default();
    if dicom.fits(path) {
        return Ok(Box::new(dicom));
    }
    let what =
        "this file is not a list of cases; give a table (.csv, .tsv), a list (.json), or the folder of a data set";
    Err(wrong(path, what.to_owned()))
}

/// Finds the layout of a data set whose cases follow from a list or the names of its files.
pub fn recognize_list(path: &Path) -> Option<Box<dyn Layout>> {
    let bundled: [Box<dyn Layout>; 10] = [
        // Checked before the other tables.
        Box::new(Slides::default()),
        Box::new(Csv::default()),
        Box::new(JsonList::default()),
        Box::new(NnUnetRaw::default()),
        Box::new(Decathlon::default()),
        Box::new(Bids::default()),
        Box::new(Brats::default()),
        Box::new(LabelStore::default()),
        Box::new(ImageFolders::default()),
        // Checked last: any of the other layouts may hold pictures, too.
        Box::new(Pictures::default()),
    ];
    // Custom layouts take precedence; one that needs options must be named.
    let names = [
        "Csv",
        "JsonList",
        "NnUnetRaw",
        "NnUnetPreprocessed",
        "Decathlon",
        "Bids",
        "Brats",
        "LabelStore",
        "ImageFolders",
        "Dicom",
        "Slides",
        "Pictures",
    ];
    let registry = Registry::<dyn Layout>::new();
    let own = registry.entries().iter().filter(|entry| !names.contains(&entry.name));
    let own = own.filter_map(|entry| (entry.build)(&Node::empty()).ok());
    own.chain(bundled).find(|layout| layout.fits(path))
}

/// The option that chooses modalities, for messages.
pub(crate) const CHOOSE: &str = "data.images of a recipe (--images of `hearth data verify`)";

/// Creates an error about a data set.
pub(crate) fn wrong(path: &Path, what: String) -> DataError {
    DataError::List { path: path.to_owned(), what }
}

/// The display name of a folder or file.
pub(crate) fn title(path: &Path) -> String {
    let real = path.canonicalize();
    let name = real.as_deref().unwrap_or(path).file_stem();
    name.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the channels of an image that are the requested modalities; `None` if they are all
/// channels, in their order.
pub(crate) fn channels(known: &[String], wanted: &[String]) -> Result<Option<Vec<usize>>, String> {
    if wanted.is_empty() {
        return Ok(None);
    }
    // If the channels have no contrast names and their number is right, they are used in their
    // order.
    let means = |a: &String| wanted.iter().any(|b| same_modality(a, b));
    if known.len() == wanted.len() && !known.iter().any(means) {
        let (known, wanted) = (known.join(", "), wanted.join(", "));
        tracing::warn!("the channels of the data set are named {known}; they are used as {wanted}, in this order");
        return Ok(None);
    }
    let find = |name: &String| {
        known.iter().position(|other| same_modality(other, name)).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("data.images: {}", hearth_registry::unknown("modality", name, &names))
        })
    };
    let chosen = wanted.iter().map(find).collect::<Result<Vec<usize>, String>>()?;
    let all = chosen.len() == known.len() && chosen.iter().enumerate().all(|(a, b)| a == *b);
    Ok((!all).then_some(chosen))
}

/// Stores `image` of a case: as a plain file if it is a single one and all of its channels are
/// used.
pub(crate) fn with_image(item: Item, key: &str, parts: Parts) -> Item {
    match (&parts.files[..], &parts.channels) {
        ([file], None) => item.with(key, file),
        _ => item.with_parts(key, parts),
    }
}

/// Formats the first few cases of a list, for messages.
pub(crate) fn some(cases: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = cases.len().saturating_sub(SHOWN);
    let shown = cases[..cases.len() - more].join("\n  ");
    if more > 0 { format!("{shown}\n  and {more} more") } else { shown }
}
