//! Folders of DICOM.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseList, Layout, Target, Wants, title, wrong};
use crate::dataset::dicom_items;
use crate::{DataError, Item};

/// A folder of DICOM with any layout: each series of images is a case, and the structure set or
/// segmentation drawn on it is its label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dicom {}

impl Layout for Dicom {
    fn fits(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        if !wants.images.is_empty() {
            let what = "data.images chooses among files; in a folder of DICOM a case is one series";
            return Err(wrong(path, what.to_owned()));
        }
        let found = dicom_items(path).map_err(|error| {
            let known = "no dataset.json, no BIDS, no BraTS folders, no table";
            wrong(path, format!("not a known data set ({known}), and no cases of DICOM: {error}"))
        })?;
        let label = |mut item: Item| {
            if let Some(drawn) = item.files.remove("seg") {
                item.files.insert("label".to_owned(), drawn);
            }
            item
        };
        let mut list = CaseList { name: title(path), ..CaseList::default() };
        // Targets from fields are not in DICOM.
        if let Target::Fields(names) = &wants.target {
            let what = format!("DICOM has no {}; name series and values in a table (.csv)", names.join(", "));
            return Err(wrong(path, what));
        }
        list.sort(found.into_iter().map(label).collect(), wants);
        Ok(list)
    }
}

hearth_registry::entry!(dyn Layout => Dicom, aliases: &["DICOM"], example: "");
