//! `--empty` of `evaluate` and `metrics`: the distance to an empty region.

use crate::run::Empty;

/// How to count a distance to an empty region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmptyWord {
    /// The image diagonal in mm: a missed or an invented organ makes the result worse
    Penalty,
    /// No value: the case is left out of the mean, as in MONAI
    Skip,
    /// As in BraTS: the diagonal, and a distance of 0 and a Dice of 1 where both are empty
    Challenge,
}

impl EmptyWord {
    /// The library's equivalent.
    pub fn rule(self) -> Empty {
        match self {
            EmptyWord::Penalty => Empty::Penalty,
            EmptyWord::Skip => Empty::Skip,
            EmptyWord::Challenge => Empty::Challenge,
        }
    }
}
