//! Suggestions for misspelt words.

/// The known word that `word` most likely means, if one is similar enough.
///
/// Case and the difference of `_` and `-` are ignored.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let meant = plain(word);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&meant, &plain(candidate)), candidate))
        // Up to a third of the letters may differ.
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// An error text: `unknown key "epohs", did you mean "epochs"?`, or the list of known words.
pub fn unknown(kind: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown {kind} {word:?}, did you mean {near:?}?"),
        None if known.is_empty() => format!("unknown {kind} {word:?}"),
        None => format!("unknown {kind} {word:?}; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["Spacing", "SpatialPad", "Orientation"];
        assert_eq!(nearest("Spacng", known), Some("Spacing"));
        assert_eq!(nearest("orientation", known), Some("Orientation"));
        assert_eq!(nearest("spatial_pad", known), Some("SpatialPad"));
        assert_eq!(nearest("Elephant", known), None);
        assert_eq!(unknown("transform", "Spacng", &known), "unknown transform \"Spacng\", did you mean \"Spacing\"?");
        assert_eq!(unknown("word", "xyz", &["a"]), "unknown word \"xyz\"; known are a");
    }
}
