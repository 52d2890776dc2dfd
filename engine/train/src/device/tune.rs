//! The time spent on choosing kernels, as set in a recipe or on the command line: [`TuneWord`].

use std::str::FromStr;

use burn::tensor::Device;
use hearth_kernels::Tune;
use serde::{Deserialize, Serialize};

use super::is_card;

/// `off`, `quick`, `full`, or `auto`: full on a physical GPU, off on software drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneWord {
    /// Full on a GPU (or the level in `CUBECL_AUTOTUNE_LEVEL`, where it is set), off on software
    /// drivers.
    #[default]
    Auto,
    /// See [`Tune::Off`].
    Off,
    /// See [`Tune::Quick`].
    Quick,
    /// See [`Tune::Full`].
    Full,
}

/// The error of an unknown value of [`TuneWord`].
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not known; give off, quick, full or auto")]
pub struct UnknownTune(String);

impl FromStr for TuneWord {
    type Err = UnknownTune;

    fn from_str(word: &str) -> Result<Self, UnknownTune> {
        match word {
            "auto" => Ok(TuneWord::Auto),
            "off" => Ok(TuneWord::Off),
            "quick" => Ok(TuneWord::Quick),
            "full" => Ok(TuneWord::Full),
            other => Err(UnknownTune(other.to_owned())),
        }
    }
}

impl TuneWord {
    /// The setting for this device; `None` where settings are left unchanged: on a CPU, and for
    /// `auto` where the environment sets the level.
    pub fn on(self, device: &Device) -> Option<Tune> {
        let card = is_card(device)?;
        self.means(card, std::env::var_os("CUBECL_AUTOTUNE_LEVEL").is_some())
    }

    fn means(self, card: bool, in_environment: bool) -> Option<Tune> {
        match self {
            TuneWord::Off => Some(Tune::Off),
            TuneWord::Quick => Some(Tune::Quick),
            TuneWord::Full => Some(Tune::Full),
            TuneWord::Auto if !card => Some(Tune::Off),
            TuneWord::Auto => (!in_environment).then_some(Tune::Full),
        }
    }

    /// Applies the setting for this device to the whole process; see [`Tune::set`].
    pub fn set(self, device: &Device) {
        if let Some(tune) = self.on(device) {
            tune.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_full_on_a_card_and_off_on_a_driver_in_software() {
        assert_eq!(TuneWord::Auto.means(true, false), Some(Tune::Full));
        assert_eq!(TuneWord::Auto.means(true, true), None, "the environment's word stays");
        assert_eq!(TuneWord::Auto.means(false, true), Some(Tune::Off));
        assert_eq!(TuneWord::Quick.means(false, true), Some(Tune::Quick), "what is said wins");
    }

    #[test]
    fn a_processor_has_nothing_to_tune() {
        assert_eq!(TuneWord::Full.on(&crate::device::parse("cpu").expect("always there")), None);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in [TuneWord::Auto, TuneWord::Off, TuneWord::Quick, TuneWord::Full] {
            let written = serde_json::to_value(word).expect("a word");
            assert_eq!(written.as_str().expect("text").parse::<TuneWord>().expect("known"), word);
        }
        assert!("fast".parse::<TuneWord>().expect_err("unknown").to_string().contains("off, quick, full"));
    }
}
