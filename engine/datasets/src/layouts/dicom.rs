//! Folders of DICOM.

use std::path::Path;

use hearth_dicom::AnnotationKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseList, Layout, Target, Wants, title, wrong};
use crate::dataset::dicom_items_preferring;
use crate::{DataError, Item};

/// A folder of DICOM with any structure: each series of images is a case, and the structure set or
/// segmentation drawn on it is its label. If there are several of one kind on the same series, each
/// is a separate case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dicom {
    /// Kind of label that is used if both a segmentation and a structure set are drawn on the same
    /// series: `SEG` or `RTSTRUCT`. The other one is ignored.
    pub prefer: Preferred,
}

/// Kinds of labels in DICOM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Preferred {
    /// Segmentation: voxels.
    #[default]
    Seg,
    /// Structure set: contours.
    RtStruct,
}

impl Layout for Dicom {
    fn fits(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let kind = match self.prefer {
            Preferred::Seg => AnnotationKind::Segmentation,
            Preferred::RtStruct => AnnotationKind::StructureSet,
        };
        let found = dicom_items_preferring(path, kind).map_err(|error| {
            let known = "no dataset.json, no BIDS, no BraTS folders, no table";
            let why = error.to_string();
            // Most such errors start with the same folder.
            let of_folder = why.strip_prefix(&format!("{}: ", path.display()));
            let why = of_folder.map_or_else(|| why.clone(), |what| format!("it {what}"));
            wrong(path, format!("not a known data set ({known}), and no cases of DICOM: {why}"))
        })?;
        if !wants.images.is_empty() {
            let what = "data.images chooses among files; in a folder of DICOM a case is one series";
            return Err(wrong(path, what.to_owned()));
        }
        let label = |mut item: Item| {
            if let Some(drawn) = item.files.remove("seg") {
                item.files.insert("label".to_owned(), drawn);
            }
            if let Some(series) = item.fields.remove("seg_series") {
                item.fields.insert("label_series".to_owned(), series);
            }
            item
        };
        let mut list = CaseList { name: title(path), ..CaseList::default() };
        // DICOM has no targets from fields.
        if let Target::Fields(names) = &wants.target {
            let what = format!("DICOM has no {}; name series and values in a table (.csv)", names.join(", "));
            return Err(wrong(path, what));
        }
        list.sort(found.into_iter().map(label).collect(), wants);
        Ok(list)
    }
}

hearth_registry::entry!(dyn Layout => Dicom, aliases: &["DICOM"], example: "prefer = \"RTSTRUCT\"");
