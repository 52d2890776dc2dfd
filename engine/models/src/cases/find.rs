//! The cases that an argument of `-i` names: [`CaseFinder`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_data::dicom::is_dicom_file;
use hearth_data::layouts::{self, Layout, Wants};
use hearth_data::readers::companions;
use hearth_data::{Item, all_steps};
use hearth_files::is_file_entry;
use hearth_recipe::recipe::{Node, Recipe};
use hearth_recipe::text::some;
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_registry::{Named, counted};
use hearth_run::outputs::{is_record, written_by};
use hearth_run::{named, wants};

use crate::cases::case::{Case, IMAGES};
use crate::cases::series::series_below;
use crate::cases::sought::Sought;

/// The series that a recipe reads from a folder with several.
fn series_of(recipe: &Recipe) -> Option<&str> {
    let reads = |step: &&Node| step.text("name").is_some_and(|name| named(&["LoadImage"], name));
    let steps = all_steps(&recipe.transforms).into_iter().map(|(_, step)| step);
    steps.filter(reads).find_map(|step| step.text("series"))
}

/// The options for finding the cases of a model.
#[derive(Clone, Copy, Default)]
pub struct CaseFinder<'a> {
    /// The layout of the model's training data, tried first.
    pub layout: Option<&'a Named<dyn Layout>>,
    /// The model's input channels, for data sets with named channels.
    pub images: &'a [String],
    /// The DICOM modalities of the model's images; empty for any.
    pub modalities: &'a [String],
    /// The default series to select in each study.
    pub series: Option<&'a str>,
}

impl<'a> CaseFinder<'a> {
    /// The settings of a recipe.
    pub fn of_recipe(recipe: &'a Recipe) -> Self {
        let Recipe { data, .. } = recipe;
        Self {
            layout: data.layout.as_ref(),
            images: &data.images,
            modalities: &data.modalities,
            series: series_of(recipe),
        }
    }

    /// Finds the cases of a path: the cases of a data set, a table or a list; the images of a
    /// folder; the series of a DICOM folder, or of a tree of them; or a file. Lists and data sets of
    /// an upload are not read, because they name files.
    ///
    /// # Errors
    /// A damaged data set, or one without a channel that the model needs; a folder that cannot be
    /// read.
    pub fn find(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
        let Sought { series, upload, any_modality, accept } = sought;
        if !upload && let Some(layout) = layout_of(given, self.layout) {
            let wants = Wants { images: self.images.to_vec(), ..Wants::default() };
            let cases = layout.read(given, &wants).while_doing(|| given.display().to_string())?.all();
            let cases = cases.into_iter().map(|item| Case::Item(Box::new(item)));
            // As of any folder: what an earlier call wrote is an image only if there is nothing else.
            let (results, others): (Vec<_>, Vec<_>) =
                cases.partition(|case: &Case| case.files().any(|file| is_result(file)));
            return Ok(if others.is_empty() { results } else { others });
        }
        let images = images_of(given)?;
        if images.len() == 1 && images[0] == given && given.is_dir() {
            let modalities = if any_modality { &[] } else { self.modalities };
            let mut found = series_below(given, series.or(self.series), modalities)?;
            for case in &mut found {
                if let Case::Series(one) = case {
                    one.accept = accept.to_vec();
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        if images == [given] && given.is_dir() && series.is_none() {
            let below = images_below(given, Path::new(""), DEEPEST);
            if !below.is_empty() {
                return Ok(below);
            }
        }
        if let Some(series) = series {
            let what = format!("--series {series}: it is not a folder of DICOM");
            return Err(RecipeError::new(format!("{}: {what}", given.display())));
        }
        name_others(given, &images, "an image file");
        Ok(images.into_iter().map(Case::File).collect())
    }
}

/// The most levels of folders below a given one whose images are found.
const DEEPEST: usize = 8;

/// The images in the folders of a folder, whose results get the same folders. A folder of images may have
/// folders with more of them.
fn images_below(given: &Path, parent: &Path, deepest: usize) -> Vec<Case> {
    // The root folder would be the whole file system.
    if !given.canonicalize().is_ok_and(|real| real.file_name().is_some()) {
        return Vec::new();
    }
    let listed = std::fs::read_dir(given).into_iter().flatten().flatten().map(|entry| entry.path());
    let hidden = |path: &Path| path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let mut folders: Vec<PathBuf> = listed.filter(|path| path.is_dir() && !hidden(path)).collect();
    folders.sort_unstable();
    let mut found = Vec::new();
    for folder in folders {
        let parent = parent.join(folder.file_name().unwrap_or_default());
        // A folder that cannot be read has no images for us; the others have.
        let images = images_of(&folder).unwrap_or_default();
        let images = images.into_iter().filter(|image| *image != folder && !is_result(image));
        found.extend(images.map(|image| Case::Below(image, parent.clone())));
        if deepest > 1 {
            found.extend(images_below(&folder, &parent, deepest - 1));
        }
    }
    found
}

/// Reports the files next to the images of a folder that are not predicted because they are not
/// `what`, except results of earlier calls.
pub(crate) fn name_others(given: &Path, images: &[PathBuf], what: &str) {
    if !given.is_dir() || images == [given] {
        return;
    }
    // A folder may have 100,000 images.
    let images: BTreeSet<&Path> = images.iter().map(PathBuf::as_path).collect();
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let ours = |path: &Path| {
        let results = std::fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_record(&entry.path()));
        results || is_record(path) || is_result(path)
    };
    // The voxels of images whose headers are other files, and the folders that they are in.
    let files = images.iter().flat_map(|image| companions(image));
    let within = |path: PathBuf| path.ancestors().take_while(|at| *at != given).map(Path::to_owned).collect::<Vec<_>>();
    let voxels: BTreeSet<PathBuf> = files.flat_map(within).collect();
    let listed = std::fs::read_dir(given).into_iter().flatten().flatten().map(|entry| entry.path());
    let others = listed
        .filter(|path| !images.contains(path.as_path()) && !hidden(path) && !ours(path) && !voxels.contains(path));
    let name = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() { format!("{name}/") } else { name }
    };
    let has_images = |path: &PathBuf| {
        let images = || images_of(path).is_ok_and(|images| images != [path.clone()] || holds_slices(path));
        path.is_dir() && (images() || !images_below(path, Path::new(""), DEEPEST).is_empty())
    };
    let (folders, others): (Vec<PathBuf>, Vec<PathBuf>) = others.partition(has_images);
    let reasons =
        [(others, "item", format!("not {what}")), (folders, "folder", "next to images; give it to -i, too".to_owned())];
    for (paths, kind, why) in reasons {
        let mut names: Vec<String> = paths.into_iter().map(name).collect();
        names.sort_unstable();
        if !names.is_empty() {
            let (given, count) = (given.display(), counted(names.len(), kind));
            notice!("{given}: {count} not used, because {why}: {}", some(&names));
        }
    }
}

/// The cases of a data set whose truth is known, with what is learned of them: none of plain
/// images, or where the data set lacks it.
pub fn labelled(given: &Path, recipe: &Recipe) -> Vec<Item> {
    let layout = layout_of(given, recipe.data.layout.as_ref()).or_else(|| {
        // A tree of series may contain structure sets and segmentations; a folder of other images
        // does not.
        let of_recipe = recipe.data.layout.as_ref().filter(|layout| layout.name() == "Dicom");
        let dicom = of_recipe.and_then(|layout| layout.build().ok());
        let is_tree = given.is_dir() && images_of(given).is_ok_and(|images| images == [given]);
        is_tree.then(|| dicom.unwrap_or_else(|| Box::new(layouts::Dicom::default())))
    });
    let Some(layout) = layout else { return Vec::new() };
    let read = layout.read(given, &wants(recipe)).map(|list| list.labelled).unwrap_or_default();
    let task = recipe.learns();
    read.into_iter().filter_map(|item| task.prepare(item, &recipe.labels).ok()).collect()
}

/// The layout of a data set, if the path is more than images.
fn layout_of(given: &Path, own: Option<&Named<dyn Layout>>) -> Option<Box<dyn Layout>> {
    if let Some(named) = own
        && named.fits(given)
        && named.name() != "Dicom"
    {
        return named.build().ok();
    }
    layouts::recognize_list(given)
}

/// The images that a command-line argument names: those of a folder, without results of `predict`
/// among them, unless its files are the slices of one image, next to which there may be pictures. A link to a
/// missing image is one of them, which then fails alone.
///
/// # Errors
/// A folder that cannot be read.
pub fn images_of(given: &Path) -> Outcome<Vec<PathBuf>> {
    if !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let listed = std::fs::read_dir(given).while_doing(|| format!("cannot read the folder {}", given.display()))?;
    let ends = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        !name.starts_with('.') && IMAGES.iter().any(|end| name.ends_with(&format!(".{end}")))
    };
    let mut images: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| is_file_entry(path) && ends(path) && !is_record(path))
        .collect();
    images.sort_unstable();
    // Results that an earlier call wrote next to its images are not images, unless there is nothing
    // else.
    let (results, others): (Vec<_>, Vec<_>) = images.into_iter().partition(|path| is_result(path));
    // A folder of other files is one image: a series of DICOM slices, next to which pictures are views.
    let only_views = others.iter().all(|path| is_picture(path));
    if only_views && ((results.is_empty() && others.is_empty()) || holds_slices(given)) {
        return Ok(vec![given.to_owned()]);
    }
    Ok(if others.is_empty() { results } else { others })
}

/// Whether an earlier call has predicted a file.
pub(crate) fn is_result(path: &Path) -> bool {
    ["predict", "ensemble"].iter().any(|command| written_by(path, command))
}

/// Whether an image is a picture by its name.
fn is_picture(path: &Path) -> bool {
    const ENDINGS: [&str; 4] = ["png", "jpg", "jpeg", "bmp"];
    path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Whether a file of a folder is DICOM by its content, and not a result.
fn holds_slices(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut others = files.filter(|path| !is_picture(path) && path.is_file());
    others.any(|path| is_dicom_file(&path) && !is_result(&path))
}
