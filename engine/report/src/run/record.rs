//! `run.json`: the recipe, data and cases at the start of a run.

use std::path::Path;

use serde_json::Value;

use super::files::{object, word};
use crate::error::ReportError;

/// The recipe, the data and the cases at the start of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The resolved recipe at the start; a resumed run may have raised its epochs since.
    pub recipe: Option<String>,
    /// The run's name, which its checkpoints bear.
    pub id: Option<String>,
    /// The data set, as it was given.
    pub data: Option<String>,
    /// The cases that it trains on.
    pub training: Vec<String>,
    /// The cases that it validates on.
    pub validation: Vec<String>,
}

impl Record {
    /// Reads the file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ReportError> {
        let advice = "the data and the recipe at the start are missing from the page";
        let names = |value: &Value| value.as_array().into_iter().flatten().filter_map(word).collect();
        let of = |value: Value| Self {
            recipe: word(&value["recipe"]),
            id: word(&value["id"]),
            data: word(&value["data"]).filter(|data| !data.is_empty()),
            training: names(&value["training"]),
            validation: names(&value["validation"]),
        };
        Ok(object(path, advice)?.map(of))
    }
}
