//! Names of MR contrasts, which data sets spell differently.

/// Spellings of each contrast: Decathlon, BraTS 2018 to 2021, BraTS 2023 and later, BIDS, plain
/// words.
const SPELLINGS: &[&[&str]] = &[
    &["flair", "t2f", "t2flair", "t2wflair"],
    &["t1", "t1w", "t1n", "t1native", "t1pre"],
    &["t1gd", "t1ce", "t1c", "t1wce", "t1post", "t1contrast", "t1wgd"],
    &["t2", "t2w"],
];

/// Letters and digits in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether two names mean the same contrast, or differ only in case and punctuation.
pub fn same_modality(a: &str, b: &str) -> bool {
    let (a, b) = (plain(a), plain(b));
    a == b || SPELLINGS.iter().any(|group| group.contains(&&*a) && group.contains(&&*b))
}

#[cfg(test)]
mod tests {
    use super::same_modality;

    #[test]
    fn data_sets_agree_on_contrasts() {
        for (a, b) in
            [("FLAIR", "t2f"), ("T1w", "t1n"), ("t1gd", "T1ce"), ("T1-Gd", "t1c"), ("T2w", "t2"), ("ADC", "adc")]
        {
            assert!(same_modality(a, b), "{a} {b}");
        }
        for (a, b) in [("t1", "t1ce"), ("t2", "flair"), ("CT", "PET")] {
            assert!(!same_modality(a, b), "{a} {b}");
        }
    }
}
