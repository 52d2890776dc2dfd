//! The files of each result of `hearth predict`, claimed before the work.

use std::path::PathBuf;

use hearth_data::dicom::{Series, write};
use hearth_data::writers::RegionFile;
use serde_json::Value;

use crate::commands::predict::Args;
use crate::commands::predict_lists::{as_json, skipped};
use crate::commands::region_files::Surfaces;
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::recipe::Output;
use crate::run::inputs::{Input, inputs};
use crate::run::outputs::{Outputs, is_made_of, is_whole};
use crate::run::{Trained, dicom_end, previous_labels};
use crate::terminal::speaks;

/// An image, and the file of its result.
pub(super) struct Task {
    pub input: Input,
    pub result: PathBuf,
    /// The file of `--uncertainty`.
    pub deviation: Option<PathBuf>,
    /// Of `--probabilities`.
    pub probabilities: Option<PathBuf>,
    /// Those of `--disagreement`.
    pub maps: Vec<PathBuf>,
    /// Of `--picture`.
    pub picture: Option<PathBuf>,
    /// Of `--dicom-seg`, `--rtstruct` and `--dicom-sr`, with the series that they refer to.
    pub dicom: Option<(Series, Vec<(RegionFile, PathBuf)>)>,
    /// The labels of the earlier stage, of a run that continues from them.
    pub previous: Option<PathBuf>,
    /// Whether no case that the run trained on is predicted (`--held-out`).
    pub held_out: bool,
    /// Of `--surfaces`.
    pub surfaces: Option<Surfaces>,
    /// What the results come from.
    pub key: Value,
    /// Why nothing is predicted.
    pub refused: Option<Failure>,
}

/// Plans the result of each image; fails if a result would replace a file.
pub(super) fn tasks(
    args: &Args,
    trained: &Trained,
    command: &'static str,
    outputs: &mut Outputs,
) -> Outcome<Vec<Task>> {
    let (mut tasks, recipe) = (Vec::new(), &trained.plan.recipe);
    let maps = trained.ensemble.as_ref().map_or(&[][..], |ensemble| ensemble.maps());
    let (end, output) = match recipe.output() {
        Output::Image => ("_pred", Output::Image),
        other => ("_seg", other),
    };
    for given in &args.images {
        for input in inputs(given, recipe, args.files.series.as_deref())? {
            if args.cases.as_ref().is_some_and(|cases| !cases.contains(&input.name())) {
                continue;
            }
            let named = |end: &str| {
                let mut name = input.stem();
                name.push(end);
                args.out.join(input.parent()).join(name)
            };
            let result = named(&format!("{end}.nii.gz"));
            let deviation = args.uncertainty.then(|| named("_std.nii.gz"));
            let probabilities = args.files.probabilities.then(|| named("_prob.nii.gz"));
            let picture = args.files.picture.then(|| named("_picture.png"));
            let files: Vec<(RegionFile, PathBuf)> =
                args.files.regions.files().into_iter().map(|file| (file, named(dicom_end(file)))).collect();
            let surfaces = args.files.regions.surfaces(recipe, &named);
            let maps: Vec<PathBuf> = maps.iter().map(|map| named(&format!("_{}.nii.gz", map.word()))).collect();
            let image = (output != Output::Scores).then_some(&result);
            let single = [image, deviation.as_ref(), probabilities.as_ref(), picture.as_ref()].into_iter().flatten();
            let mut all: Vec<&PathBuf> = single.chain(files.iter().map(|(_, path)| path)).chain(&maps).collect();
            let meshes = surfaces.iter().flat_map(|surfaces| &surfaces.paths);
            // A label without a voxel has no surface.
            let meshed = surfaces.is_none() || meshes.clone().any(|path| path.is_file());
            let done = meshed && all.iter().all(|path| is_whole(path, command));
            all.extend(meshes);
            let (previous, lacking) = match previous_labels(recipe, &input.stem().to_string_lossy()) {
                Ok(file) => (file, None),
                Err(error) => (None, Some(Failure::from(error))),
            };
            // One that cannot be read is named when its turn comes.
            let sources: Vec<PathBuf> = input.all_files().into_iter().chain(previous.clone()).collect();
            let key = trained.result_key(&sources).unwrap_or_default();
            // Of a result that an earlier call made of the same image by the same network.
            let same = image.is_some_and(|path| is_made_of(path, &key));
            if same && done && !args.files.overwrite {
                note!("{}: done by an earlier call", input.name());
                if args.files.json && speaks() {
                    skipped(&input.name(), as_json(input.files()), &all);
                }
                continue;
            }
            all.into_iter().try_for_each(|path| outputs.claim_for(path, &key))?;
            let (dicom, refused) = match files.is_empty() {
                true => (None, None),
                false => match refers_to(&input) {
                    Ok(series) => (Some((series, files)), None),
                    Err(failure) => (None, Some(failure)),
                },
            };
            let refused = lacking.or(refused);
            tasks.push(Task {
                input,
                result,
                deviation,
                probabilities,
                maps,
                picture,
                dicom,
                previous,
                held_out: args.cases.is_some(),
                surfaces,
                key,
                refused,
            });
        }
    }
    // Nothing would be done at all.
    if tasks.iter().all(|task| task.refused.is_some())
        && let Some(failure) = tasks.iter_mut().find_map(|task| task.refused.take())
    {
        return Err(failure);
    }
    Ok(tasks)
}

/// The series that DICOM files of an input's regions refer to. One to which nothing can refer is
/// found now, and not when its regions are.
fn refers_to(input: &Input) -> Outcome<Series> {
    let series = input.dicom().while_doing(|| "--dicom-seg, --rtstruct and --dicom-sr need DICOM images".to_owned())?;
    write::check(&series).while_doing(|| input.name())?;
    Ok(series)
}
