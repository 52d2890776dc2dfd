//! Test-time augmentation on the command line.

use crate::recipe::Tta;

/// Test-time augmentation in place of the recipe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TtaWord {
    /// Every combination of flips: eight predictions per volume, four per 2-D image
    Flips,
    /// No augmentation, regardless of the recipe
    None,
}

impl TtaWord {
    /// The recipe's equivalent.
    pub fn tta(self) -> Tta {
        match self {
            TtaWord::Flips => Tta::all_flips(),
            TtaWord::None => Tta::default(),
        }
    }
}
