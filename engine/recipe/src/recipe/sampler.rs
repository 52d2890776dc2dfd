//! In which order an epoch's cases come: `[data] sampler = { ... }`.

use hearth_data::{Field, Item, WeightedRandomSampler};
use hearth_registry::{Document, Fault};
use serde::{Deserialize, Serialize};

use super::cache::CacheKind;
use super::schema::Data;

/// Training cases are drawn by their weights (PyTorch's `WeightedRandomSampler`), rather than each once an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as in { weights = \"weight\" }")]
pub struct WeightedSampler {
    /// What holds the weight of a case: a column of the table, or a key of the entries of `dataset.json`.
    pub weights: String,
    /// Cases of an epoch; as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_samples: Option<usize>,
    /// Whether a case may come several times in an epoch.
    #[serde(default = "yes")]
    pub replacement: bool,
}

fn yes() -> bool {
    true
}

impl WeightedSampler {
    /// Fails where the recipe alone tells that it can't be.
    pub(super) fn check(&self, data: &Data, document: &Document) -> Result<(), Fault> {
        if data.cache.kind == CacheKind::Smart {
            let message = "the `smart` cache shows other cases in each epoch, which weights know nothing of; \
                           choose another data.cache.kind";
            return Err(document.fault("data.sampler", message));
        }
        if self.num_samples == Some(0) {
            return Err(document.fault("data.sampler.num_samples", "an epoch has at least 1 case"));
        }
        Ok(())
    }

    /// The sampler of these cases.
    pub fn build(&self, cases: &[Item], seed: u64, document: &Document) -> Result<WeightedRandomSampler, Fault> {
        let weight = |item: &Item| match item.fields.get(&self.weights) {
            Some(Field::Number(weight)) => Ok(*weight),
            Some(_) => Err(format!("`{}` of the case {} is not a number", self.weights, item.case)),
            None => Err(format!(
                "the case {} has no `{}`: weights are a column of the table, or a key of the entries of dataset.json",
                item.case, self.weights
            )),
        };
        let wrong = |what: String| -> Fault { document.fault("data.sampler.weights", what) };
        let weights: Vec<f64> = cases.iter().map(weight).collect::<Result<_, _>>().map_err(wrong)?;
        let samples = self.num_samples.unwrap_or(cases.len());
        WeightedRandomSampler::new(weights, samples, self.replacement, seed)
            .map_err(|error| document.fault("data.sampler", error.to_string()))
    }
}
