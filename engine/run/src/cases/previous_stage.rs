//! The label files of an earlier stage of a cascade.

use std::path::{Path, PathBuf};

use hearth_data::{Item, Sample};

use crate::cases::Cases;
use crate::outputs::record_of;
use hearth_data::writers::SUFFIXES;
use hearth_recipe::recipe::Recipe;
use hearth_recipe::{Outcome, RecipeError};

/// The ends of label map names before the suffix: those of a run, and of a model of nnU-Net.
const ENDS: [&str; 2] = ["_seg", ""];

/// The label file of a case in the folder of an earlier stage. The name may also be that of an
/// image file (`CASE_0000.nii.gz`), which has the labels of its case.
///
/// # Errors
/// A missing folder or file.
pub fn labels_of_stage(folder: &Path, case: &str) -> Outcome<PathBuf> {
    if !folder.is_dir() {
        let what = "there is no such folder of labels of the earlier stage (--previous-stage)";
        return Err(RecipeError::new(format!("{}: {what}", folder.display())));
    }
    let case = case.replace(['/', '\\'], "_");
    let names = [case.as_str(), case.strip_suffix("_0000").unwrap_or(&case)];
    let ends = || SUFFIXES.iter().flat_map(|suffix| ENDS.map(|end| format!("{end}{suffix}")));
    let mut files = names.iter().flat_map(|name| ends().map(move |end| folder.join(format!("{name}{end}"))));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let suffixes = SUFFIXES.join(", ");
        let expected = format!("expected {case}_seg.nii.gz or {case}.nii.gz (or one of {suffixes})");
        let advice = "hearth predict with the earlier stage writes them; give their folder by --previous-stage";
        RecipeError::new(format!(
            "{} has no labels of the earlier stage for case {case}: {expected}; {advice}",
            folder.display()
        ))
    })
}

/// The label file of an earlier stage for an image of this name, if the recipe continues from one.
///
/// # Errors
/// Same as [`labels_of_stage`], or a missing folder option.
pub fn previous_labels(recipe: &Recipe, name: &str) -> Outcome<Option<PathBuf>> {
    if recipe.previous_stage().is_none() {
        return Ok(None);
    }
    match &recipe.data.previous_stage {
        Some(folder) => labels_of_stage(folder, name).map(Some),
        None => Err(RecipeError::new(format!(
            "{:?} continues from the labels of an earlier stage: predict with that first, and give the folder of its \
             results by --previous-stage (data.previous_stage of a recipe)",
            recipe.title()
        ))),
    }
}

/// The cases whose labels of the earlier stage were predicted by this program without `--held-out`,
/// and so possibly by a network that was trained on them.
///
/// # Errors
/// A data set that cannot be read, or missing labels.
pub fn not_held_out(recipe: &Recipe, data: &Path) -> Outcome<Vec<String>> {
    let Some(stage) = recipe.previous_stage() else { return Ok(Vec::new()) };
    let otherwise = |item: &Item| {
        let record = item.files.get(&stage.key).and_then(|path| record_of(path));
        record.is_some_and(|record| record["held_out"] != true)
    };
    Ok(Cases::all(data, recipe)?.into_iter().filter(otherwise).map(|item| item.case).collect())
}

/// Adds the labels of the earlier stage to cases, if the recipe continues from one.
pub(crate) fn add_labels(items: &mut [Item], recipe: &Recipe) -> Outcome {
    let Some(stage) = recipe.previous_stage() else { return Ok(()) };
    for item in items {
        if let Some(file) = previous_labels(recipe, &item.case)? {
            item.files.insert(stage.key.clone(), file);
        }
    }
    Ok(())
}

/// Reduces a case to the data that is available for prediction: the image, and the labels of the
/// earlier stage.
#[must_use]
pub fn as_predicted(recipe: &Recipe, mut sample: Sample) -> Sample {
    let stage = recipe.previous_stage();
    let also = stage.as_ref().map(|stage| stage.key.as_str());
    sample.values.retain(|key, _| key == "image" || Some(key.as_str()) == also);
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_the_names_that_predict_gives() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a_seg.nii.gz", "b.nii.gz", "c.nii.gz", "c_seg.nii.gz", "d_0000_seg.nii.gz", "f_seg.nrrd"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let found = |case: &str| {
            let path = labels_of_stage(folder.path(), case).map_err(|error| error.to_string())?;
            Ok::<_, String>(path.file_name().expect("a name").to_string_lossy().into_owned())
        };
        for (case, file) in [
            ("a", "a_seg.nii.gz"),
            ("a_0000", "a_seg.nii.gz"),
            ("b", "b.nii.gz"),
            ("c", "c_seg.nii.gz"),
            ("d_0000", "d_0000_seg.nii.gz"),
            ("f_0000", "f_seg.nrrd"),
        ] {
            assert_eq!(found(case).expect(case), file);
        }
        let error = found("e").expect_err("none");
        assert!(error.contains("case e") && error.contains("e_seg.nii.gz"), "{error}");
        let error = labels_of_stage(&folder.path().join("other"), "a").expect_err("none").to_string();
        assert!(error.contains("no such folder"), "{error}");
    }
}
