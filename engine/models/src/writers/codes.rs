//! The labels of a table of codes, for `--codes`.

use hearth_recipe::{Outcome, RecipeError, warning};
use hearth_registry::unknown;

use crate::writers::Codes;

/// Checks that a table of codes has one of these labels, and reports its labels that are none of them: a table
/// may be that of several models.
///
/// # Errors
/// A table whose codes would all be ignored.
pub fn check_codes(codes: &Codes, labels: &[&str]) -> Outcome {
    let is_other = |name: &&String| !labels.iter().any(|label| label.eq_ignore_ascii_case(name));
    let others: Vec<&String> = codes.keys().filter(is_other).collect();
    for name in &others {
        let what = format!("--codes: {}", unknown("label", name, labels));
        if others.len() == codes.len() {
            return Err(RecipeError::new(what));
        }
        warning!("{what}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearth_data::writers::parse_codes;

    use super::*;

    #[test]
    fn a_table_has_a_label_of_the_model() {
        let (category, kind) = ("[\"49755003\", \"SCT\", \"x\"]", "[\"108369006\", \"SCT\", \"y\"]");
        let row = |name: &&str| format!("[{name:?}]\ncategory = {category}\ntype = {kind}\n");
        let checked = |names: &[&str]| {
            let codes = parse_codes(&names.iter().map(row).collect::<String>()).expect("codes");
            check_codes(&codes, &["GTV-1", "lung"]).map_err(|error| error.line())
        };
        assert!(checked(&[]).is_ok() && checked(&["gtv-1"]).is_ok() && checked(&["lung", "liver"]).is_ok());
        let error = checked(&["GTV1"]).expect_err("no label has these codes");
        assert!(error.contains("--codes") && error.contains("did you mean \"GTV-1\""), "{error}");
    }
}
