//! The layout of nnU-Net's preprocessed data sets.

use std::path::{Path, PathBuf};

use hearth_io::Parts;
use hearth_io::readers::{labels_of, preprocessed_shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nnunet_raw::{channel_names, labels};
use super::{CaseList, Layout, Target, Wants, channels, title, with_image, wrong};
use crate::dataset::read_list;
use crate::{DataError, Item};

/// A folder of `nnUNet_preprocessed` (`DatasetXXX_Name`): `dataset.json`, and a folder for each
/// configuration with the arrays of each case: `CASE.b2nd` and `CASE_seg.b2nd`, or, from earlier
/// versions of nnU-Net v2, one archive `CASE.npz`. The recipe's `NnunetPreprocess` leaves such
/// images unchanged. Images for prediction are those of the raw data set.
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
        for file in arrays(&folder)? {
            let shape = preprocessed_shape(&file).map_err(|error| wrong(error.path(), error.why()))?;
            if shape[0] != known.len() {
                let what = format!("the image has the shape {shape:?}; expected {} channels", known.len());
                return Err(wrong(&file, what));
            }
            let case = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let part = |channels: Vec<usize>| Parts { files: vec![file.clone()], channels: Some(channels) };
            let mut item = with_image(Item::new(case), "image", part(chosen.clone()));
            if let Target::Image { .. } = wants.target {
                item = match ends(&file, BLOSC2) {
                    true => item.with("label", labels_of(&file)),
                    // The label follows the channels of the image.
                    false => item.with_parts("label", part(vec![known.len()])),
                };
            }
            list.labelled.push(item);
        }
        Ok(list)
    }
}

/// The extensions of the files of a case.
const BLOSC2: &str = "b2nd";
const ARCHIVE: &str = "npz";

fn ends(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|known| known == extension)
}

/// Lists the image files of a configuration's cases, sorted by name.
fn arrays(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |source| DataError::Io { path: folder.to_owned(), source };
    let files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(io)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    // nnU-Net distinguishes images from labels in this way.
    let labels = |file: &Path| file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_seg"));
    let of = |extension: &str| {
        let of_labels = |file: &Path| extension == BLOSC2 && labels(file);
        let chosen = files.iter().filter(|file| ends(file, extension) && !of_labels(file));
        let mut chosen: Vec<PathBuf> = chosen.cloned().collect();
        chosen.sort_unstable();
        chosen
    };
    match (of(BLOSC2), of(ARCHIVE)) {
        (packed, archives) if packed.is_empty() && archives.is_empty() => {
            let what = "there is no case: expected CASE.b2nd with CASE_seg.b2nd, or CASE.npz";
            Err(wrong(folder, what.to_owned()))
        }
        (packed, archives) if archives.is_empty() => Ok(packed),
        (packed, archives) if packed.is_empty() => Ok(archives),
        (packed, archives) => {
            let (packed, archives) = (packed.len(), archives.len());
            let what = format!(
                "its cases are .b2nd files ({packed}) and .npz files ({archives}), of two versions of nnU-Net, and \
                 only one of them is up to date: move the others away"
            );
            Err(wrong(folder, what))
        }
    }
}

hearth_registry::entry!(
    dyn Layout => NnUnetPreprocessed,
    paper: "Isensee et al., nnU-Net, Nature Methods 2021, https://doi.org/10.1038/s41592-020-01008-z",
    example: "folder = \"nnUNetPlans_3d_fullres\""
);
