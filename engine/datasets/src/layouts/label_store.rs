//! The layout of MONAI Label's datastore, which `hearth serve --store` fills, too.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::image_folders::{paired, volumes};
use super::{CaseList, Layout, Target, Wants, title, wrong};
use crate::{DataError, Item};

/// The file with the facts about images and labels.
const INDEX: &str = "datastore_v2.json";

/// The store of images and labels of MONAI Label and of `hearth serve`: `CASE.nii.gz`, and
/// `labels/TAG/CASE.nii.gz` where TAG is `final` for labels that a person approved and `original` for
/// those of a model. Only approved labels are targets, unless `tag` names others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelStore {
    /// The tag of the labels.
    pub tag: String,
}

impl Default for LabelStore {
    fn default() -> Self {
        Self { tag: "final".to_owned() }
    }
}

impl Layout for LabelStore {
    fn fits(&self, path: &Path) -> bool {
        path.join(INDEX).is_file() || path.join("labels/final").is_dir()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let tag = match &wants.target {
            Target::Image { name: Some(name) } => name,
            _ => &self.tag,
        };
        if let Some(name) = wants.images.first() {
            let what = format!("data.images asks for {name:?}, but an image of a store is one file: leave it out");
            return Err(wrong(path, what));
        }
        let images = volumes(path).map_err(|error| wrong(path, error.to_string()))?;
        if images.is_empty() {
            return Err(wrong(path, "no images in this store".to_owned()));
        }
        let folder = path.join("labels").join(tag);
        let labels = match folder.is_dir() {
            true => volumes(&folder).map_err(|error| wrong(&folder, error.to_string()))?,
            false => Vec::new(),
        };
        let names = label_names(path, tag)?;
        let items = images.into_iter().map(|(case, file)| Item::new(case).with("image", file)).collect();
        let mut list = CaseList { name: title(path), labels: names, ..CaseList::default() };
        paired(&mut list, items, labels, wants, path)?;
        if list.labelled.is_empty() && wants.target != Target::Nothing {
            let what = format!("no image has a label in labels/{tag}: approve some, or name another tag");
            return Err(wrong(path, what));
        }
        Ok(list)
    }
}

/// The names of labels in the index, if all that have them agree.
fn label_names(path: &Path, tag: &str) -> Result<BTreeMap<u32, String>, DataError> {
    let index = path.join(INDEX);
    if !index.is_file() {
        return Ok(BTreeMap::new());
    }
    let damaged = |what: String| wrong(&index, format!("damaged: {what}"));
    let text = std::fs::read_to_string(&index).map_err(|error| damaged(error.to_string()))?;
    let index: Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for object in index["objects"].as_object().into_iter().flat_map(|objects| objects.values()) {
        let known = &object["labels"][tag]["info"]["params"]["label_names"];
        for (name, value) in known.as_object().into_iter().flatten() {
            let Some(value) = value.as_u64().and_then(|value| u32::try_from(value).ok()) else { continue };
            if names.insert(value, name.clone()).is_some_and(|other| other != *name) {
                return Ok(BTreeMap::new());
            }
        }
    }
    Ok(names)
}

hearth_registry::entry!(
    dyn Layout => LabelStore,
    paper: "Diaz-Pinto et al., MONAI Label, https://arxiv.org/abs/2203.12362",
    example: ""
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approved_labels_are_targets_and_their_names_those_of_the_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for tag in ["final", "original"] {
            std::fs::create_dir_all(at("labels").join(tag)).expect("made");
        }
        for name in ["a.nii.gz", "b.nrrd", "labels/final/a.nii.gz", "labels/original/b.nii.gz"] {
            std::fs::write(at(name), b"").expect("written");
        }
        let index = r#"{"objects": {"a": {"image": {"ext": ".nii.gz"},
            "labels": {"final": {"ext": ".nii.gz", "info": {"params": {"label_names": {"spleen": 1}}}}}}}}"#;
        std::fs::write(at(INDEX), index).expect("written");
        let layout = LabelStore::default();
        assert!(layout.fits(folder.path()));
        let wants = Wants { target: Target::label(), ..Wants::default() };
        let list = layout.read(folder.path(), &wants).expect("cases");
        assert_eq!((list.labelled.len(), list.unlabelled.len()), (1, 1));
        assert!(list.labelled[0].files["label"].ends_with("labels/final/a.nii.gz"));
        assert_eq!(list.labels, BTreeMap::from([(1, "spleen".to_owned())]));
        let of_model = LabelStore { tag: "original".into() }.read(folder.path(), &wants).expect("cases");
        assert_eq!(of_model.labelled[0].case, "b");
        std::fs::remove_file(at("labels/final/a.nii.gz")).expect("removed");
        let error = layout.read(folder.path(), &wants).expect_err("no label").to_string();
        assert!(error.contains("no image has a label in labels/final"), "{error}");
        std::fs::write(at(INDEX), "{").expect("written");
        assert!(layout.read(folder.path(), &wants).expect_err("damaged").to_string().contains("damaged"));
    }
}
