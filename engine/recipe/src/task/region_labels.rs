//! Which labels of a data set make up which region.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The labels of each region: a convention of brain tumours, for the regions TC, WT and ET in this
/// order, or a list for each region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RegionLabels {
    /// By name.
    Convention(Convention),
    /// One list of labels for each region, in the order of `labels`.
    Listed(Vec<Vec<i64>>),
}

/// How data sets of brain tumours number their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Convention {
    /// The Decathlon's Task01: 1 oedema, 2 non-enhancing core, 3 enhancing tumour.
    Decathlon,
    /// BraTS 2018 to 2022: 1 core, 2 oedema, 4 enhancing tumour.
    Brats2018,
    /// BraTS 2023 and later: 1 core, 2 oedema, 3 enhancing tumour.
    Brats2023,
    /// MONAI's tutorial on the Decathlon's Task01, which takes label 2 for the enhancing tumour.
    /// Its published Dice values are those of this numbering.
    Tutorial,
}

impl RegionLabels {
    /// The labels of each region.
    pub fn classes(&self) -> Vec<Vec<i64>> {
        let three = |core: &[i64], whole: &[i64], enhancing: i64| vec![core.to_vec(), whole.to_vec(), vec![enhancing]];
        match self {
            RegionLabels::Convention(Convention::Decathlon) => three(&[2, 3], &[1, 2, 3], 3),
            RegionLabels::Convention(Convention::Brats2018) => three(&[1, 4], &[1, 2, 4], 4),
            RegionLabels::Convention(Convention::Brats2023) => three(&[1, 3], &[1, 2, 3], 3),
            RegionLabels::Convention(Convention::Tutorial) => three(&[2, 3], &[1, 2, 3], 2),
            RegionLabels::Listed(classes) => classes.clone(),
        }
    }
}
