//! The order of an epoch's cases, as configured in a recipe:
//! `[data] sampler = { weights = "weight" }`.

use std::fmt::Debug;

use hearth_registry::{Fault, FromPlugin, Kind, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Field, Item, Sampler, WeightedRandomSampler};

/// The maximum number of cases of an epoch: their order is kept in memory.
pub(crate) const MOST: usize = 1 << 28;

/// The configuration of a sampler, before the cases are known.
pub trait SamplerConfig: Debug + Send + Sync {
    /// Creates the sampler of these cases: all of them, or those of one of `ranks` ranks that share
    /// an epoch.
    ///
    /// # Errors
    /// If a case lacks a required field.
    fn sampler(&self, cases: &[Item], ranks: usize, seed: u64) -> Result<Box<dyn Sampler>, Fault>;

    /// Checks the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Kind for dyn SamplerConfig {
    const WORD: &'static str = "sampler";

    const DEFAULT: Option<&'static str> = Some("WeightedRandomSampler");

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(crate::sampler_plugin::build);

    fn check(&self) -> Result<(), Fault> {
        SamplerConfig::check(self)
    }
}

/// Draws cases by their weights (PyTorch's `WeightedRandomSampler`), instead of using each once per
/// epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weighted {
    /// Name of the weight: a column of the table, or a key of the entries of `dataset.json`.
    pub weights: String,
    /// Number of cases of an epoch, which several ranks share; by default that of the data set.
    #[serde(default)]
    pub num_samples: Option<usize>,
    /// Whether a case may occur several times in an epoch.
    #[serde(default = "yes")]
    pub replacement: bool,
}

fn yes() -> bool {
    true
}

impl SamplerConfig for Weighted {
    fn sampler(&self, cases: &[Item], ranks: usize, seed: u64) -> Result<Box<dyn Sampler>, Fault> {
        let weight = |item: &Item| match item.fields.get(&self.weights) {
            Some(Field::Number(weight)) => Ok(*weight),
            Some(_) => Err(format!("`{}` of the case {} is not a number", self.weights, item.case)),
            None => Err(format!(
                "the case {} has no `{}`: weights are a column of the table, or a key of the entries of dataset.json",
                item.case, self.weights
            )),
        };
        let weights = cases.iter().map(weight).collect::<Result<Vec<f64>, _>>();
        let weights = weights.map_err(|what| Fault::at("weights", what))?;
        let samples = self.num_samples.map_or(cases.len(), |samples| samples.div_ceil(ranks.max(1)));
        let sampler = WeightedRandomSampler::new(weights, samples, self.replacement, seed);
        Ok(Box::new(sampler.map_err(|error| Fault::new(error.to_string()))?))
    }

    fn check(&self) -> Result<(), Fault> {
        match self.num_samples {
            Some(0) => Err(Fault::at("num_samples", "an epoch has at least 1 case")),
            Some(count) if count > MOST => {
                Err(Fault::at("num_samples", format!("{count} cases are too many, an epoch has at most {MOST}")))
            }
            _ => Ok(()),
        }
    }
}

entry!(dyn SamplerConfig => Weighted, name: "WeightedRandomSampler", example: "weights = \"weight\"");

/// Draws cases with equal probability (PyTorch's `RandomSampler`). A case that is drawn several
/// times in an epoch is cropped and augmented differently each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Number of cases of an epoch, which several ranks share; by default that of the data set.
    #[serde(default)]
    pub num_samples: Option<usize>,
    /// Whether a case may occur several times in an epoch.
    #[serde(default = "yes")]
    pub replacement: bool,
}

impl SamplerConfig for Random {
    fn sampler(&self, cases: &[Item], ranks: usize, seed: u64) -> Result<Box<dyn Sampler>, Fault> {
        let samples = self.num_samples.map_or(cases.len(), |samples| samples.div_ceil(ranks.max(1)));
        let sampler = WeightedRandomSampler::new(vec![1.0; cases.len()], samples, self.replacement, seed);
        Ok(Box::new(sampler.map_err(|error| Fault::new(error.to_string()))?))
    }

    fn check(&self) -> Result<(), Fault> {
        match self.num_samples {
            Some(0) => Err(Fault::at("num_samples", "an epoch has at least 1 case")),
            Some(count) if count > MOST => {
                Err(Fault::at("num_samples", format!("{count} cases are too many, an epoch has at most {MOST}")))
            }
            _ => Ok(()),
        }
    }
}

entry!(dyn SamplerConfig => Random, name: "RandomSampler", example: "num_samples = 500");

/// Uses cases in the order of the data set, the same in each epoch (PyTorch's `SequentialSampler`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequential {}

impl SamplerConfig for Sequential {
    fn sampler(&self, cases: &[Item], _: usize, _: u64) -> Result<Box<dyn Sampler>, Fault> {
        Ok(Box::new(InOrder(cases.len())))
    }
}

/// All cases, in their order.
struct InOrder(usize);

impl Sampler for InOrder {
    fn len(&self) -> usize {
        self.0
    }

    fn order(&self, _: u64) -> Vec<usize> {
        (0..self.0).collect()
    }
}

entry!(dyn SamplerConfig => Sequential, name: "SequentialSampler", example: "");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_of_no_case_and_of_more_than_a_list_holds_are_refused() {
        let refused = |num_samples| {
            let random = Random { num_samples: Some(num_samples), replacement: true };
            let weighted = Weighted { weights: "w".to_owned(), num_samples: Some(num_samples), replacement: true };
            let all: [&dyn SamplerConfig; 2] = [&random, &weighted];
            all.iter().all(|config| config.check().is_err_and(|fault| fault.path == "num_samples"))
        };
        assert!(refused(0) && refused(MOST + 1) && refused(usize::MAX));
        assert!(!refused(1) && !refused(MOST));
    }
}
