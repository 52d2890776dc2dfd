//! Scores of classes as JSON, as written by `scripts.ClassificationWriter` of
//! `pathology_nuclei_classification` for `SaveImaged`.

use std::fmt::Write as _;

use hearth_data::Image;

use crate::bundle::classes::python;
use hearth_recipe::{Outcome, RecipeError};

/// The classes of the nuclei, by channel. Further channels are omitted, as in the script.
const LABELS: [&str; 4] = ["Other", "Inflammatory", "Epithelial", "Spindle-Shaped"];

/// Formats a list of `{"idx", "label", "score"}` as Python's `json` writes it.
///
/// # Errors
/// An image with more than one value per channel.
pub(crate) fn json(image: &Image) -> Outcome<String> {
    if image.shape() != [1; 3] {
        let what =
            format!("the image has {:?} voxels; scores of classes are one value for each channel", image.shape());
        return Err(RecipeError::new(what));
    }
    let mut text = String::from("[");
    for (index, (label, score)) in LABELS.iter().zip(image.to_vec()).enumerate() {
        let gap = if index == 0 { "" } else { ", " };
        let score = match python(f64::from(score)).as_str() {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            number => number.to_owned(),
        };
        let _ = write!(text, "{gap}{{\"idx\": {index}, \"label\": \"{label}\", \"score\": {score}}}");
    }
    text.push(']');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use hearth_data::{Image, affine, host_device};

    use super::json;

    #[test]
    fn scores_are_written_as_python_writes_them() {
        let image = |values: Vec<f32>, shape| Image::from_values(values, shape, affine::IDENTITY, &host_device());
        let text = json(&image(vec![0.1, 1.0, 1e-7], [3, 1, 1, 1])).map_err(|error| error.line());
        let wanted = "[{\"idx\": 0, \"label\": \"Other\", \"score\": 0.10000000149011612}, \
                      {\"idx\": 1, \"label\": \"Inflammatory\", \"score\": 1.0}, \
                      {\"idx\": 2, \"label\": \"Epithelial\", \"score\": 1.0000000116860974e-07}]";
        assert_eq!(text.as_deref(), Ok(wanted));
        assert!(json(&image(vec![0.0; 4], [2, 2, 1, 1])).is_err());
    }
}
