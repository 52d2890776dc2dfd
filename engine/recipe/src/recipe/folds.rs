//! `[data.folds]`: how the cases of a cross-validation are split into folds.

use serde::{Deserialize, Serialize};

/// The split of the cases of a cross-validation into folds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folds {
    /// The number of folds.
    pub count: usize,
    /// The rules for splitting; by default MONAI's, and scikit-learn's if there are groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<FoldMethod>,
    /// Whether the cases are shuffled first. By default, groups of scikit-learn are not: the
    /// largest then goes to the fold with the fewest cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<bool>,
    /// The seed of the shuffle; by default that of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// The column whose values are kept together, such as `patient`. Without such a column,
    /// `patient` is read from the names of BIDS, BraTS and DICOM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The column whose values have the same share in each fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stratify: Option<String>,
}

/// The rules that split cases into folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldMethod {
    /// `partition_dataset`, and `partition_dataset_classes` with `stratify`: cases are assigned in
    /// turn.
    Monai,
    /// `KFold`, `StratifiedKFold`, `GroupKFold`, `StratifiedGroupKFold`.
    Scikit,
}

impl Folds {
    /// The method that is used.
    pub fn rules(&self) -> FoldMethod {
        self.method.unwrap_or(match self.group {
            Some(_) => FoldMethod::Scikit,
            None => FoldMethod::Monai,
        })
    }

    /// Whether cases are shuffled.
    pub fn shuffles(&self) -> bool {
        self.shuffle.unwrap_or(self.group.is_none() || self.rules() == FoldMethod::Monai)
    }

    /// The first key that contradicts another one, and the reason.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.count < 2 {
            return Err(("count", format!("{} folds: give 2 or more", self.count)));
        }
        if self.group.is_some() && self.rules() == FoldMethod::Monai {
            return Err(("method", "MONAI's splits have no groups: set method = \"scikit\"".to_owned()));
        }
        Ok(())
    }
}
