//! Layouts of data sets on disk: from a folder or a list to its cases.
//!
//! Each [`Layout`] reads one kind: [`Decathlon`], [`NnUnetRaw`], [`NnUnetPreprocessed`], [`Brats`], [`Bids`], a table
//! ([`Csv`]), a list ([`JsonList`]), [`Dicom`], regions of [`Slides`],
//! a folder of [`Pictures`]. [`read`] recognizes the layout; a recipe names one
//! with `[data] layout`.

mod bids;
mod brats;
mod csv;
mod decathlon;
mod dicom;
mod json_list;
mod modality;
mod nnunet_preprocessed;
mod nnunet_raw;
mod pictures;
mod slides;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use hearth_io::Parts;
use hearth_registry::{Kind, Node, Registry};

use crate::{DataError, Item};

pub use bids::Bids;
pub use brats::Brats;
pub use csv::Csv;
pub use decathlon::Decathlon;
pub use dicom::Dicom;
pub use json_list::JsonList;
pub use modality::same_modality;
pub use nnunet_preprocessed::NnUnetPreprocessed;
pub use nnunet_raw::NnUnetRaw;
pub use pictures::Pictures;
pub use slides::Slides;

/// A layout of data sets on disk.
pub trait Layout: Debug + Send + Sync {
    /// Whether the folder or file looks like it.
    fn fits(&self, path: &Path) -> bool;

    /// Its cases.
    ///
    /// # Errors
    /// Where a list is damaged, or a case lacks a requested value; the error names list and case.
    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError>;
}

impl Kind for dyn Layout {
    const WORD: &'static str = "layout";
}

/// What a recipe needs of each case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// The modalities that make up `image`, in the order of its channels: columns of a table, keys
    /// of a list, suffixes of files, names of channels. Empty: all of them, in the order of the
    /// data set.
    pub images: Vec<String>,
    /// The target of the training.
    pub target: Target,
}

/// The target of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Target {
    /// An image: a label map, or an image to reconstruct. It is the case's `label`, whatever its
    /// name in the data set.
    Image {
        /// Its column, key or suffix where that differs from the layout's default.
        name: Option<String>,
    },
    /// Numbers or strings: fields of the case.
    Fields(Vec<String>),
    /// Nothing: the image itself is the target.
    #[default]
    Nothing,
}

impl Target {
    /// The usual label map.
    pub fn label() -> Self {
        Target::Image { name: None }
    }
}

/// The cases of a data set.
#[derive(Clone, Debug, Default)]
pub struct CaseList {
    /// Its name.
    pub name: String,
    /// Names of the label values, where it has them.
    pub labels: BTreeMap<u32, String>,
    /// Names of the channels of `image`, where it has them.
    pub modalities: Vec<String>,
    /// Cases with a target, in the order of the data set.
    pub labelled: Vec<Item>,
    /// The names of those that the data set reserves for validation, where it does.
    pub validation: Option<Vec<String>>,
    /// Cases without a target.
    pub unlabelled: Vec<Item>,
}

impl CaseList {
    /// All cases, the labelled ones first.
    pub fn all(self) -> Vec<Item> {
        self.labelled.into_iter().chain(self.unlabelled).collect()
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

/// The cases of a data set in any known layout.
///
/// Layouts that a user's program registers take precedence.
///
/// # Errors
/// Where no layout matches, or the matching one cannot be read.
pub fn read(path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
    recognize(path)?.read(path, wants)
}

/// The layout of a data set.
///
/// # Errors
/// Where no layout matches.
pub fn recognize(path: &Path) -> Result<Box<dyn Layout>, DataError> {
    if !path.exists() {
        return Err(wrong(path, "no such file or folder".to_owned()));
    }
    if let Some(layout) = recognize_list(path) {
        return Ok(layout);
    }
    // Any folder may hold DICOM: only reading it shows.
    let dicom = Dicom::default();
    if dicom.fits(path) {
        return Ok(Box::new(dicom));
    }
    let what =
        "this file is not a list of cases; give a table (.csv, .tsv), a list (.json), or the folder of a data set";
    Err(wrong(path, what.to_owned()))
}

/// The layout of a data set whose cases follow from a list or the names of its files.
pub fn recognize_list(path: &Path) -> Option<Box<dyn Layout>> {
    let bundled: [Box<dyn Layout>; 8] = [
        // Before the other tables.
        Box::new(Slides::default()),
        Box::new(Csv::default()),
        Box::new(JsonList::default()),
        Box::new(NnUnetRaw::default()),
        Box::new(Decathlon::default()),
        Box::new(Bids::default()),
        Box::new(Brats::default()),
        // Any of the others may hold pictures, too.
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
        "Dicom",
        "Slides",
        "Pictures",
    ];
    let registry = Registry::<dyn Layout>::new();
    let own = registry.entries().iter().filter(|entry| !names.contains(&entry.name));
    let own = own.filter_map(|entry| (entry.build)(&Node::empty()).ok());
    own.chain(bundled).find(|layout| layout.fits(path))
}

/// Where modalities are chosen, for messages.
pub(crate) const CHOOSE: &str = "data.images of a recipe (--images of `hearth data verify`)";

/// An error about a data set.
pub(crate) fn wrong(path: &Path, what: String) -> DataError {
    DataError::List { path: path.to_owned(), what }
}

/// The display name of a folder or file.
pub(crate) fn title(path: &Path) -> String {
    let real = path.canonicalize();
    let name = real.as_deref().unwrap_or(path).file_stem();
    name.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The channels of an image that are the requested modalities; `None` where all are, in their
/// order.
pub(crate) fn channels(known: &[String], wanted: &[String]) -> Result<Option<Vec<usize>>, String> {
    if wanted.is_empty() {
        return Ok(None);
    }
    // Names that say nothing of contrasts, as many as are wanted: they are taken in their order.
    let means = |a: &String| wanted.iter().any(|b| same_modality(a, b));
    if known.len() == wanted.len() && !known.iter().any(means) {
        let (known, wanted) = (known.join(", "), wanted.join(", "));
        tracing::warn!("the data set calls its channels {known}; they are taken for {wanted}, in this order");
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

/// `image` of a case: a plain file where it is a single one and all of its channels are used.
pub(crate) fn with_image(item: Item, key: &str, parts: Parts) -> Item {
    match (&parts.files[..], &parts.channels) {
        ([file], None) => item.with(key, file),
        _ => item.with_parts(key, parts),
    }
}

/// The first few cases of a list, for messages.
pub(crate) fn some(cases: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = cases.len().saturating_sub(SHOWN);
    let shown = cases[..cases.len() - more].join("\n  ");
    if more > 0 { format!("{shown}\n  and {more} more") } else { shown }
}
