//! `--empty` of `evaluate` and `metrics`.

use crate::run::Empty;

/// What a distance to nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmptyWord {
    /// The diagonal of the image in mm: a missed or an invented organ makes the figure worse
    Penalty,
    /// No value, which means leave out, as MONAI does
    Skip,
    /// As BraTS counts: the diagonal, and where both are empty a distance of 0 and a Dice of 1
    Challenge,
}

impl EmptyWord {
    /// As the library says it.
    pub fn rule(self) -> Empty {
        match self {
            EmptyWord::Penalty => Empty::Penalty,
            EmptyWord::Skip => Empty::Skip,
            EmptyWord::Challenge => Empty::Challenge,
        }
    }
}
