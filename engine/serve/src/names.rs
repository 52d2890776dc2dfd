//! Checks of names from clients: of files, and of images in the datastore.

/// The maximum length of a name, in bytes.
const LONGEST: usize = 200;

/// The file name without folders, control characters and leading dots; `image` if nothing is left. A
/// long name is shortened at its start, so that its extension remains.
pub fn file_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last.chars().filter(|c| !c.is_control() && !"<>:\"|?*".contains(*c)).collect();
    let kept = kept.trim().trim_start_matches('.');
    let mut start = kept.len().saturating_sub(LONGEST);
    while !kept.is_char_boundary(start) {
        start += 1;
    }
    match &kept[start..] {
        "" => "image".to_owned(),
        name => name.to_owned(),
    }
}

/// Checks the name of an image or a tag in the datastore, which becomes part of a path.
pub fn check_id(what: &str, id: &str) -> Result<(), String> {
    let wrong = match id {
        "" => Some("is empty"),
        _ if id.len() > LONGEST => Some("is longer than 200 bytes"),
        _ if id.starts_with('.') => Some("begins with a dot"),
        _ if id.contains(['/', '\\', ':']) => Some("has a slash, a backslash or a colon"),
        _ if id.chars().any(char::is_control) => Some("has control characters"),
        _ if id.ends_with(['.', ' ']) => Some("ends with a dot or a space"),
        _ => None,
    };
    wrong.map_or(Ok(()), |wrong| Err(format!("{what} {id:?} {wrong}, expected the name of a file without its end")))
}

/// File extensions of images, the longest first.
const ENDS: [&str; 18] = [
    ".seg.nrrd",
    ".nii.gz",
    ".nrrd",
    ".nhdr",
    ".tiff",
    ".jpeg",
    ".nii",
    ".mha",
    ".mhd",
    ".mgz",
    ".mgh",
    ".hdr",
    ".dcm",
    ".zip",
    ".tif",
    ".png",
    ".jpg",
    ".json",
];

/// Splits a file name into stem and extension; without a known extension, all of it is the stem.
pub fn split(name: &str) -> (&str, &str) {
    let lower = name.to_ascii_lowercase();
    let end = ENDS.iter().find(|end| lower.ends_with(*end) && lower.len() > end.len());
    name.split_at(name.len() - end.map_or(0, |end| end.len()))
}

/// The media type of a file, as MONAI Label gives it.
pub fn media_type(name: &str) -> &'static str {
    match split(name).1.to_ascii_lowercase().as_str() {
        ".nii.gz" => "application/gzip",
        ".dcm" => "application/dicom",
        ".json" => "application/json",
        ".zip" => "application/zip",
        ".png" => "image/png",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_their_folder() {
        for (given, expected) in [
            ("a/../../etc/passwd", "passwd"),
            ("C:\\scans\\t1.nii.gz", "t1.nii.gz"),
            ("..", "image"),
            (".hidden", "hidden"),
            ("", "image"),
            ("a\0b\n.nii", "ab.nii"),
            ("ünï.nrrd", "ünï.nrrd"),
        ] {
            assert_eq!(file_name(given), expected, "{given:?}");
        }
        let long = format!("{}ü.nii.gz", "ä".repeat(300));
        assert!(file_name(&long).len() <= LONGEST && file_name(&long).ends_with("ü.nii.gz"));
    }

    #[test]
    fn ids_are_names() {
        for bad in ["", ".", "..", "../a", "a/b", "a\\b", ".a", "a\0", "c:a", "a.", &"x".repeat(201)] {
            assert!(check_id("image", bad).is_err(), "{bad:?}");
        }
        for good in ["spleen_10", "Ünï 3", "a..b", "1.2.840"] {
            assert!(check_id("image", good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn ends_are_those_of_images() {
        assert_eq!(split("a.b.nii.gz"), ("a.b", ".nii.gz"));
        assert_eq!(split("A.NII.GZ"), ("A", ".NII.GZ"));
        assert_eq!(split("1.2.840"), ("1.2.840", ""));
        assert_eq!(split(".nii"), (".nii", ""));
        assert_eq!(media_type("a.nii.gz"), "application/gzip");
    }
}
