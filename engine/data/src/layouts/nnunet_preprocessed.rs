//! The layout of nnU-Net's preprocessed data sets.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nnunet_raw::{channel_names, labels};
use super::{CaseList, Layout, Target, Wants, channels, title, with_image, wrong};
use crate::dataset::read_list;
use crate::readers::array_shape;
use crate::{DataError, Item, Parts};

/// A folder of `nnUNet_preprocessed` (`DatasetXXX_Name`): `dataset.json`, and a folder for each
/// configuration with an archive of arrays for each case, `CASE.npz`, as nnU-Net v2 wrote it before it
/// wrote `CASE.b2nd`. The recipe's `NnunetPreprocess` leaves such images as they are. Images for
/// prediction are those of the raw data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NnUnetPreprocessed {
    /// The folder of the configuration: the `data_identifier` of its plans.
    folder: String,
}

impl Layout for NnUnetPreprocessed {
    fn fits(&self, path: &Path) -> bool {
        path.join("dataset.json").is_file() && path.join(&self.folder).is_dir()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let (json, folder) = (read_list(path)?, path.join(&self.folder));
        let known = channel_names(&json);
        let chosen = channels(&known, &wants.images).map_err(|what| wrong(&path.join("dataset.json"), what))?;
        let chosen = chosen.unwrap_or_else(|| (0..known.len()).collect());
        let mut list = CaseList {
            name: json["name"].as_str().map_or_else(|| title(path), str::to_owned),
            labels: labels(&json["labels"]),
            modalities: if wants.images.is_empty() { known.clone() } else { wants.images.clone() },
            ..CaseList::default()
        };
        for file in archives(&folder)? {
            let shape = array_shape(&file, "data").map_err(|error| wrong(&file, error.why()))?;
            if shape.len() != 4 || shape[0] != known.len() {
                let what = format!("`data` has the shape {shape:?}; expected {} channels and three axes", known.len());
                return Err(wrong(&file, what));
            }
            let case = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let part = |channels: Vec<usize>| Parts { files: vec![file.clone()], channels: Some(channels) };
            let mut item = with_image(Item::new(case), "image", part(chosen.clone()));
            if let Target::Image { .. } = wants.target {
                // Behind the channels of the image.
                item = item.with_parts("label", part(vec![known.len()]));
            }
            list.labelled.push(item);
        }
        Ok(list)
    }
}

/// The archives of a configuration's cases, in the order of their names.
fn archives(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |source| DataError::Io { path: folder.to_owned(), source };
    let files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(io)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    let ends = |file: &&PathBuf, end: &str| file.extension().is_some_and(|known| known == end);
    let mut found: Vec<PathBuf> = files.iter().filter(|file| ends(file, "npz")).cloned().collect();
    if !found.is_empty() {
        found.sort();
        return Ok(found);
    }
    let what = match files.iter().any(|file| ends(&file, "b2nd")) {
        true => {
            "its cases are .b2nd files, which are not read: give the raw data set (nnUNet_raw), of which a recipe \
             prepares the same arrays, or let nnU-Net's nnUNetDatasetNumpy.save_case write them as .npz"
        }
        false => "there is no case: expected CASE.npz",
    };
    Err(wrong(folder, what.to_owned()))
}

hearth_registry::entry!(
    dyn Layout => NnUnetPreprocessed,
    paper: "Isensee et al., nnU-Net, Nature Methods 2021, https://doi.org/10.1038/s41592-020-01008-z",
    example: "folder = \"nnUNetPlans_3d_fullres\""
);
