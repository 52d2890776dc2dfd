//! Maps of what a classifier's answer depends on, for `--saliency`: [`Saliency`].

use hearth_data::Image;
use hearth_recipe::{Outcome, RecipeError};

/// How a map is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaliencyMethod {
    /// MONAI's `GradCAM`.
    GradCam,
    /// MONAI's `GradCAMpp`.
    GradCamPp,
    /// MONAI's `OcclusionSensitivity`.
    Occlusion,
    /// MONAI's `VanillaGrad`.
    Vanilla,
    /// MONAI's `SmoothGrad`.
    Smooth,
}

/// A row of the table of methods: the method, its word, a description for the help, and what its values are.
type Row = (SaliencyMethod, &'static str, &'static str, &'static str);

const ROWS: [Row; 5] = [
    (
        SaliencyMethod::GradCam,
        "gradcam",
        "the features of a layer, weighted by the gradient of the class (MONAI's GradCAM)",
        "support for the class, from 0 to 1",
    ),
    (
        SaliencyMethod::GradCamPp,
        "gradcam++",
        "the same with weights for each voxel (GradCAMpp)",
        "support for the class, from 0 to 1",
    ),
    (
        SaliencyMethod::Occlusion,
        "occlusion",
        "how far the score falls where a part of the image is hidden (OcclusionSensitivity)",
        "the fall of the score",
    ),
    (
        SaliencyMethod::Vanilla,
        "vanilla",
        "the gradient of the class at each voxel (VanillaGrad)",
        "the largest gradient of all channels",
    ),
    (
        SaliencyMethod::Smooth,
        "smooth",
        "the gradients of 25 noisy copies (SmoothGrad)",
        "the largest gradient of all channels",
    ),
];

impl SaliencyMethod {
    /// The words of `--saliency` with their descriptions.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        ROWS.iter().map(|(_, word, what, _)| (*word, *what))
    }

    /// The method of a word.
    ///
    /// # Errors
    /// Another word.
    pub fn of_word(word: &str) -> Outcome<Self> {
        let row = ROWS.iter().find(|(_, known, ..)| *known == word);
        row.map(|(method, ..)| *method).ok_or_else(|| {
            let words: Vec<&str> = ROWS.iter().map(|(_, word, ..)| *word).collect();
            RecipeError::new(format!("{word:?} is no method; expected one of {}", words.join(", ")))
        })
    }

    fn row(self) -> &'static Row {
        // Each method has a row; the test of words tries all.
        ROWS.iter().find(|(method, ..)| *method == self).unwrap_or(&ROWS[0])
    }

    /// The word of the method.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// What the values of its maps are.
    pub(crate) fn measures(self) -> &'static str {
        self.row().3
    }

    /// Whether values below 0 speak against the class.
    pub(crate) fn is_signed(self) -> bool {
        self == Self::Occlusion
    }

    /// Whether the map is one of a layer.
    pub fn has_layer(self) -> bool {
        matches!(self, Self::GradCam | Self::GradCamPp)
    }
}

/// The requested map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saliency {
    /// `--saliency`: the method.
    pub method: SaliencyMethod,
    /// `--saliency-layer`: the layer, for methods that have one; by default the last map of features.
    pub layer: Option<String>,
    /// `--saliency-class`: the name or the number of the class, by default that of the highest score.
    pub class: Option<String>,
}

impl Saliency {
    /// Checks that the options belong together.
    ///
    /// # Errors
    /// A layer for a method without one.
    pub fn check(&self) -> Outcome {
        if self.layer.is_some() && !self.method.has_layer() {
            let word = self.method.word();
            let what = "--saliency-layer is for gradcam and gradcam++";
            return Err(RecipeError::new(format!("{what}; {word} explains the image itself: remove it")));
        }
        Ok(())
    }

    /// The place of the class among the names.
    pub(crate) fn place_of(&self, names: &[String]) -> Outcome<Option<usize>> {
        let Some(class) = &self.class else { return Ok(None) };
        let numbered = || class.parse().ok().filter(|place: &usize| *place < names.len());
        let place = names.iter().position(|name| name == class).or_else(numbered);
        let unknown = || {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            RecipeError::new(format!("--saliency-class: {}", hearth_registry::unknown("class", class, &known)))
        };
        place.map(Some).ok_or_else(unknown)
    }
}

/// A map on the grid of its image.
pub struct SaliencyMap {
    /// `[1, X, Y, Z]`: high values support the class.
    pub map: Image,
    /// The method.
    pub method: SaliencyMethod,
    /// The explained class or number.
    pub class: String,
    /// Its score.
    pub score: f32,
    /// The values of the image that pictures draw black and white, if the model states them.
    pub window: Option<(f32, f32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_word() {
        for (word, _) in SaliencyMethod::words() {
            assert_eq!(SaliencyMethod::of_word(word).map(SaliencyMethod::word).ok(), Some(word));
        }
        let error = SaliencyMethod::of_word("cam").err().map(|error| error.line()).unwrap_or_default();
        assert!(error.contains("gradcam, gradcam++, occlusion, vanilla, smooth"), "{error}");
    }

    #[test]
    fn a_class_has_a_name_or_a_number() {
        let names = ["benign".to_owned(), "malignant".to_owned()];
        let place = |class: Option<&str>| {
            let saliency = Saliency { method: SaliencyMethod::GradCam, layer: None, class: class.map(str::to_owned) };
            saliency.place_of(&names).map_err(|error| error.line())
        };
        assert_eq!((place(None), place(Some("malignant")), place(Some("0"))), (Ok(None), Ok(Some(1)), Ok(Some(0))));
        assert!(place(Some("malignat")).is_err_and(|error| error.contains("did you mean \"malignant\"")));
        assert!(place(Some("2")).is_err());
    }
}
