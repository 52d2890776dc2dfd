//! `dataset.json`: channels, labels and files of a data set.

use std::path::Path;

use serde_json::Value;

use crate::error::{NnunetError, Result};
use crate::json;
use crate::labels::LabelManager;

/// The fields of a data set that prediction needs.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetJson {
    /// The names of the image channels, in order.
    pub channel_names: Vec<String>,
    /// The meaning of the network's outputs.
    pub labels: LabelManager,
    /// The file extension: `.nii.gz`.
    pub file_ending: String,
    /// A reader that replaces the reader of the plans.
    pub overwrite_image_reader_writer: Option<String>,
    /// The whole file, to be written next to results.
    pub raw: Value,
}

impl DatasetJson {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that is missing, is not JSON, or lacks a key that prediction needs.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(json::read(path)?).map_err(|error| error.of(path))
    }

    /// Parses the JSON of a data set.
    ///
    /// # Errors
    /// Keys that are missing or have unusable values.
    pub fn parse(raw: Value) -> Result<Self> {
        let Some(file_ending) = raw.get("file_ending").and_then(Value::as_str).filter(|e| e.starts_with('.')) else {
            return Err(NnunetError::key(
                "file_ending",
                "is missing; expected the ending of image files, as `.nii.gz`",
            ));
        };
        let channels = ["channel_names", "modality"].into_iter().find_map(|key| raw.get(key)?.as_object());
        let Some(channels) = channels.filter(|channels| !channels.is_empty()) else {
            return Err(NnunetError::key("channel_names", "is missing; expected a name per channel"));
        };
        // The order is that of the numbers, not that of the file.
        let mut channel_names = vec![String::new(); channels.len()];
        for (number, name) in channels {
            match number.parse::<usize>().ok().and_then(|number| channel_names.get_mut(number)) {
                Some(place) => *place = name.as_str().unwrap_or_default().to_owned(),
                None => {
                    let what = format!("{number:?} is not the number of one of {} channels", channels.len());
                    return Err(NnunetError::key("channel_names", what));
                }
            }
        }
        let reader = raw.get("overwrite_image_reader_writer").and_then(Value::as_str).filter(|name| *name != "None");
        Ok(DatasetJson {
            channel_names,
            labels: LabelManager::parse(&raw)?,
            file_ending: file_ending.to_owned(),
            overwrite_image_reader_writer: reader.map(str::to_owned),
            raw,
        })
    }
}
