//! Images with values that are no numbers: around such a voxel a network's output has no meaning, and yet a
//! class is decided from it.

use hearth_data::Image;
use hearth_recipe::{Outcome, RecipeError};

/// Fails if a value of an image is NaN or infinite.
///
/// # Errors
/// Such values, with their number.
pub(crate) fn check_finite(values: &[f32]) -> Outcome {
    match non_finite(values) {
        None => Ok(()),
        Some(what) => Err(refused(&what)),
    }
}

/// The error of such values.
pub(crate) fn refused(what: &str) -> RecipeError {
    RecipeError::new(format!("{what}: replace them in the file, or exclude the case"))
}

/// The number of values of an image that are NaN or infinite, as a remark; `None` without any.
///
/// # Errors
/// Values that the device failed to compute.
pub(crate) fn non_finite_of(image: &Image) -> Outcome<Option<String>> {
    let host = image.clone().to_host().map_err(|error| RecipeError::of_device(&error))?;
    Ok(host.with_values(non_finite))
}

fn non_finite(values: &[f32]) -> Option<String> {
    let nan = values.iter().filter(|value| value.is_nan()).count();
    let infinite = values.iter().filter(|value| value.is_infinite()).count();
    let all = values.len();
    (nan + infinite > 0)
        .then(|| format!("{} of {all} values are not finite ({nan} NaN, {infinite} infinite)", nan + infinite))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_numbers_are_counted() {
        check_finite(&[0.0, -1e30, f32::MAX]).expect("finite");
        let error = check_finite(&[0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]).expect_err("three").line();
        assert!(error.starts_with("3 of 4 values are not finite (1 NaN, 2 infinite): replace"), "{error}");
    }
}
