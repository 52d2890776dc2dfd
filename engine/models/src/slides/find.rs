//! The slides that an argument of `-i` names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hearth_data::slides::{dicom_slides, is_dicom_slide};
use hearth_files::is_file_entry;
use hearth_recipe::{Context, Outcome, RecipeError};

use crate::cases::{Case, Sought, is_result, name_others};

/// File extensions of slides.
const ENDINGS: [&str; 6] = ["svs", "tif", "tiff", "ndpi", "mrxs", "scn"];

/// File extensions of annotations, which lie next to a slide and have its name.
pub(super) const ANNOTATIONS: [&str; 2] = ["xml", "geojson"];

/// The slides of a path: itself, or those of a folder. For DICOM these are the folder's slides, named
/// by the files of their largest levels, and the subfolders that hold one. A folder with a damaged
/// DICOM slide is a refused case.
///
/// # Errors
/// A folder without slides or one that cannot be read, or options for volumes.
pub(crate) fn slides_of(given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
    let of_volumes = [("--series", sought.series.is_some()), ("--any-modality", sought.any_modality)];
    if let Some((option, _)) = of_volumes.iter().find(|(_, given)| *given) {
        let what = "selects series of volumes; this model predicts whole slides, of DICOM all in a folder";
        return Err(RecipeError::new(format!("{option} {what}: remove it")));
    }
    if !given.is_dir() {
        return Ok(vec![Case::Slide(given.to_owned())]);
    }
    let mut refused = Vec::new();
    let mut dicom_in = |folder: &Path| {
        dicom_slides(folder).unwrap_or_else(|error| {
            refused.push(Case::Refused(folder.to_owned(), error.to_string()));
            Vec::new()
        })
    };
    let mut dicom = dicom_in(given);
    let (mut found, mut used) = (Vec::new(), Vec::new());
    for path in listed(given)? {
        if path.is_dir() {
            let below = dicom_in(&path);
            used.extend((!below.is_empty()).then(|| path.clone()));
            dicom.extend(if below.len() == 1 { vec![path] } else { below });
        } else if is_slide_file(&path) {
            found.push(path);
        }
    }
    // The bytes before a DICOM header can make a file a valid TIFF as well.
    dicom.retain(|path| !found.contains(path));
    found.extend(dicom);
    found.sort_unstable();
    if found.is_empty() && refused.is_empty() {
        return Err(RecipeError::new(format!("{} has no slides ({}, DICOM)", given.display(), ENDINGS.join(", "))));
    }
    used.extend(refused.iter().flat_map(Case::files).cloned());
    used.extend(found.iter().flat_map(|slide| companions(slide)));
    let levels = |path: &PathBuf| path.is_file() && !found.contains(path) && is_dicom_slide(path);
    used.extend(listed(given)?.into_iter().filter(levels));
    used.extend(found.iter().cloned());
    name_others(given, &used, "a slide");
    Ok(found.into_iter().map(Case::Slide).chain(refused).collect())
}

fn listed(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let doing = || format!("cannot read the folder {}", folder.display());
    let entries = std::fs::read_dir(folder).while_doing(doing)?;
    entries.map(|entry| Ok(entry.while_doing(doing)?.path())).collect()
}

/// Whether a file of a folder is a slide by its name: not a mask, and not a map of an earlier call.
fn is_slide_file(path: &Path) -> bool {
    let ends = path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end.eq_ignore_ascii_case(known)));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    ends && is_file_entry(path) && !stem.ends_with("_mask") && !is_result(path)
}

/// The paths next to a slide that belong to it: its annotations, its unfinished map, and the folder of
/// a MIRAX slide's levels.
fn companions(slide: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ANNOTATIONS.iter().map(|end| slide.with_extension(end)).collect();
    let mut partial = slide_stem(slide);
    partial.push(PARTIAL);
    found.push(slide.with_file_name(partial));
    if slide.extension().is_some_and(|end| end.eq_ignore_ascii_case("mrxs")) {
        found.push(slide.with_extension(""));
    }
    found
}

/// The ending of the file of finished patches.
pub(crate) const PARTIAL: &str = ".partial";

/// The files of a slide: the file itself, or the DICOM files in a folder. Other files in the
/// folder, such as results, are ignored.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn slide_files(slide: &Path) -> Outcome<Vec<PathBuf>> {
    if !slide.is_dir() {
        return Ok(vec![slide.to_owned()]);
    }
    Ok(listed(slide)?.into_iter().filter(|path| path.is_file() && is_dicom_slide(path)).collect())
}

/// The name of a slide's results, without their endings.
pub(crate) fn slide_stem(slide: &Path) -> OsString {
    // A DICOM folder may be named by a UID, whose last number is not an extension.
    let uid = slide.extension().is_some_and(|end| end.to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let stem = if uid { slide.file_name() } else { slide.file_stem() };
    stem.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_names_of_their_slides() {
        for (slide, expected) in [
            ("a/tumor_001.tif", "tumor_001"),
            ("a/CMU-1.svs", "CMU-1"),
            ("a/b.ome.tiff", "b.ome"),
            ("a/1.2.826.0.1", "1.2.826.0.1"),
            ("a/case", "case"),
        ] {
            assert_eq!(slide_stem(Path::new(slide)), expected, "{slide}");
        }
    }

    #[test]
    fn a_folder_has_slides_but_not_masks_and_other_files() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for name in ["b.svs", "a.TIF", "a_mask.tif", "a.xml", "notes.txt"] {
            std::fs::write(at(name), "x").expect("written");
        }
        let names = |cases: Vec<Case>| cases.iter().map(Case::stem).collect::<Vec<_>>();
        assert_eq!(names(slides_of(dir.path(), Sought::default()).expect("slides")), ["a", "b"]);
        // A file is a slide whatever its name, and is opened later.
        assert_eq!(names(slides_of(&at("none.tif"), Sought::default()).expect("a slide")), ["none"]);
        std::fs::create_dir(at("empty")).expect("made");
        let error = slides_of(&at("empty"), Sought::default()).expect_err("none").line();
        assert!(error.contains("empty has no slides (svs, "), "{error}");
        let error = slides_of(dir.path(), Sought::from(Some("auto"))).expect_err("refused").line();
        assert!(error.starts_with("--series selects series of volumes"), "{error}");
    }
}
