//! The layout of the Medical Segmentation Decathlon.

use std::path::Path;

use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseList, Layout, Target, Wants, channels, with_image, wrong};
use crate::{DataError, DecathlonDataset, Item};

/// A folder with a `dataset.json` as in the Medical Segmentation Decathlon. With several
/// modalities the image is 4-D, and `[data] images` selects channels by the names in `modality`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decathlon {}

impl Layout for Decathlon {
    fn fits(&self, path: &Path) -> bool {
        path.join("dataset.json").is_file()
    }

    fn lists_files(&self) -> bool {
        true
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        if let Target::Image { name: Some(name) } = &wants.target
            && name != "label"
        {
            return Err(wrong(
                path,
                format!("a Decathlon data set has one label for a case, called label, not {name:?}"),
            ));
        }
        let set = DecathlonDataset::open(path)?;
        let known: Vec<String> = set.modality.into_values().collect();
        let chosen = channels(&known, &wants.images).map_err(|what| wrong(&path.join("dataset.json"), what))?;
        let pick = |mut item: Item| match (&chosen, item.files.remove("image")) {
            (chosen, Some(file)) => with_image(item, "image", Parts { files: vec![file], channels: chosen.clone() }),
            (_, None) => item,
        };
        let modalities = match &chosen {
            Some(chosen) => chosen.iter().map(|channel| known[*channel].clone()).collect(),
            None => known,
        };
        let mut list = CaseList { name: set.name, labels: set.labels, modalities, ..CaseList::default() };
        let held: Vec<String> = set.validation.iter().map(|item| item.case.clone()).collect();
        list.validation = (!held.is_empty()).then_some(held);
        let training = set.training.into_iter().chain(set.validation).map(&pick);
        let test = set.test.into_iter().map(&pick);
        list.sort(training.collect(), wants);
        list.unlabelled.extend(test);
        Ok(list)
    }
}

hearth_registry::entry!(
    dyn Layout => Decathlon,
    paper: "Antonelli et al., The Medical Segmentation Decathlon, Nature Communications 2022, https://doi.org/10.1038/s41467-022-30695-9",
    example: ""
);
