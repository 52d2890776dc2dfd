//! Test-time augmentation on the command line.

use crate::recipe::Tta;

/// Replaces the recipe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TtaWord {
    /// Every combination of flips: eight predictions for a volume, four for a 2-D image
    Flips,
    /// None, regardless of the recipe
    None,
}

impl TtaWord {
    /// The same as in a recipe.
    pub fn tta(self) -> Tta {
        match self {
            TtaWord::Flips => Tta::all_flips(),
            TtaWord::None => Tta::default(),
        }
    }
}
