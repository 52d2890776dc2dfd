//! Test-time augmentation as the command line asks for it.

use crate::recipe::Tta;

/// In place of the recipe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TtaWord {
    /// Every combination of flips: eight predictions of a volume, four of a picture
    Flips,
    /// None, whatever the recipe says
    None,
}

impl TtaWord {
    /// As a recipe says it.
    pub fn tta(self) -> Tta {
        match self {
            TtaWord::Flips => Tta::all_flips(),
            TtaWord::None => Tta::default(),
        }
    }
}
