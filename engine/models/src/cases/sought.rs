//! What may be a case, and which series of a study is: [`Sought`].

use std::path::Path;

use hearth_recipe::{Context, Outcome, RecipeError};

/// Endings of files that name other files.
const LISTS: [&str; 4] = ["csv", "json", "tsv", "txt"];

/// The options for reading an argument as cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sought<'a> {
    /// The series of each study, instead of the model's default.
    pub series: Option<&'a str>,
    /// Whether the path is an upload of someone who may read no other file of this machine. Its files
    /// are then images: lists and data sets, which name files, are not read, and links are refused.
    pub upload: bool,
    /// Whether series of modalities that the model is not for are predicted, too.
    pub any_modality: bool,
    /// The faults of series that are accepted.
    pub accept: &'a [String],
}

impl<'a> Sought<'a> {
    /// The case of an upload.
    pub fn of_upload(series: Option<&'a str>) -> Self {
        Self { series, upload: true, ..Self::default() }
    }

    /// Accepts faults of series, by name.
    #[must_use]
    pub fn accepting(self, faults: &'a [String]) -> Self {
        Self { accept: faults, ..self }
    }
}

impl<'a> From<Option<&'a str>> for Sought<'a> {
    fn from(series: Option<&'a str>) -> Self {
        Self { series, ..Self::default() }
    }
}

impl Sought<'_> {
    /// Whether series of modalities that the model is not for are predicted, too.
    #[must_use]
    pub fn of_any_modality(self, any_modality: bool) -> Self {
        Self { any_modality, ..self }
    }
}

/// Fails if an upload names a file outside of itself: if it is a list, or if it holds a link. Whether
/// the named file exists makes no difference.
///
/// # Errors
/// Such a file; a folder that cannot be read.
pub fn check_upload(given: &Path) -> Outcome {
    let is_list =
        |path: &Path| path.extension().is_some_and(|end| LISTS.iter().any(|known| end.eq_ignore_ascii_case(known)));
    let refused = |path: &Path, what: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Err(RecipeError::new(format!("{name}: {what}: send the files of one image")))
    };
    let mut left = vec![given.to_owned()];
    while let Some(path) = left.pop() {
        let doing = || format!("cannot read {}", path.display());
        let facts = path.symlink_metadata().while_doing(doing)?;
        if facts.is_dir() {
            for entry in std::fs::read_dir(&path).while_doing(doing)? {
                left.push(entry.while_doing(doing)?.path());
            }
        } else if !facts.is_file() {
            return refused(&path, "a link or a device is not read from an upload");
        } else if path == given && is_list(&path) {
            return refused(&path, "a list of files is not an image");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_images_without_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("in/deep")).expect("made");
        std::fs::write(at("in/deep/ct.nii"), "x").expect("written");
        std::fs::write(at("in/cases.json"), "[]").expect("written");
        assert!(check_upload(&at("in")).is_ok());
        for list in ["cases.json", "cases.CSV", "cases.tsv", "cases.txt"] {
            std::fs::write(at(list), "").expect("written");
            let error = check_upload(&at(list)).expect_err("a list").line();
            assert!(error.contains("a list of files is not an image"), "{error}");
        }
        #[cfg(unix)]
        {
            std::fs::write(at("secret"), "x").expect("written");
            std::os::unix::fs::symlink(at("secret"), at("in/deep/link.nii")).expect("a link");
            let error = check_upload(&at("in")).expect_err("a link").line();
            assert!(error.starts_with("link.nii: a link"), "{error}");
        }
    }
}
