//! The choice of a task's models: [`Variant`].

use std::str::FromStr;

use hearth_nnunet::total::Mode;
use hearth_registry::unknown;

use hearth_recipe::RecipeError;

/// A resolution and a size of models, if given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    pub mode: Option<Mode>,
    /// Whether the small models are chosen instead of the big ones.
    pub small: Option<bool>,
}

const KNOWN: [&str; 5] = ["default", "fast", "fastest", "small", "big"];

impl FromStr for Variant {
    type Err = RecipeError;

    /// Parses one of the known words, or one of each kind joined by `-`.
    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let mut variant = Variant::default();
        for word in text.split('-') {
            let twice = match word {
                "default" => variant.mode.replace(Mode::Default).is_some(),
                "fast" => variant.mode.replace(Mode::Fast).is_some(),
                "fastest" => variant.mode.replace(Mode::Fastest).is_some(),
                "small" => variant.small.replace(true).is_some(),
                "big" => variant.small.replace(false).is_some(),
                _ => return Err(RecipeError::new(format!("--variant: {}", unknown("variant", word, &KNOWN)))),
            };
            if twice {
                let expected = "default, fast or fastest, small or big, or one of each as fast-small";
                return Err(RecipeError::new(format!("--variant {text}: expected {expected}")));
            }
        }
        Ok(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_both_kinds_are_combined() {
        let read = |text: &str| text.parse::<Variant>().map_err(|error| error.to_string());
        assert_eq!(read("small"), Ok(Variant { mode: None, small: Some(true) }));
        assert_eq!(read("fast-big"), Ok(Variant { mode: Some(Mode::Fast), small: Some(false) }));
        assert!(read("fast-fastest").is_err_and(|error| error.contains("one of each")));
        assert!(read("smal").is_err_and(|error| error.contains("did you mean \"small\"?")));
    }
}
