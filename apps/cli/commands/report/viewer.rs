//! Volumes for the page's viewer: the image of a case, its label and its prediction, in the patient's
//! axes.

use std::path::{Path, PathBuf};

use hearth_data::writers::SUFFIXES;
use hearth_data::{Image, Item, ReadOptions, read_image_with};
use hearth_registry::unknown;
use hearth_report::{Run, Volume};
use hearth_train::Post;

use super::Args;
use crate::error::{Context, Failure, Outcome};
use crate::note;
use crate::picture::{Grid, View, range};
use crate::recipe::{Document, Output};
use crate::run::{Cases, Plan};
use hearth_models::writers::{only, reading, window};

/// The end of a prediction's file name before its suffix.
const END: &str = "_seg";

/// The volumes of the chosen cases, for the runs.
pub fn volumes(args: &Args, runs: &[Run]) -> Outcome<Vec<Volume>> {
    let mut found = Vec::new();
    for (place, run) in runs.iter().enumerate().filter(|_| !args.viewer.is_empty()) {
        let recorded = run.record.as_ref().and_then(|record| record.data.as_ref()).map(PathBuf::from);
        let Some(data) = args.data.clone().or(recorded) else {
            let what = format!("--viewer: {} does not say which data it had", run.folder.display());
            return Err(Failure::new(format!("{what}; give --data")));
        };
        let path = run.folder.join("recipe.toml");
        let mut document = Document::parse(path.display().to_string(), run.recipe.clone())?;
        document.set_option("--viewer", "training.device", "cpu")?;
        let plan = Plan::new(document)?;
        if !plan.recipe.output().is_map() {
            let title = plan.recipe.title();
            return Err(Failure::new(format!("--viewer: {title:?} predicts no maps that lie over a volume")));
        }
        let items = Cases::all(&data, &plan.recipe).while_doing(|| "--viewer")?;
        for case in &args.viewer {
            let Some(item) = items.iter().find(|item| item.case == *case) else {
                let known: Vec<&str> = items.iter().map(|item| item.case.as_str()).collect();
                return Err(Failure::new(format!("--viewer: {} ({})", unknown("case", case, &known), data.display())));
            };
            let predicted = args.pictures.get(place).map(|folder| prediction(folder, case));
            found.push(volume(&plan, item, predicted.as_deref(), place).while_doing(|| format!("--viewer {case}"))?);
        }
    }
    Ok(found)
}

/// The prediction of a case in a folder; where there is none, the usual name.
fn prediction(folder: &Path, case: &str) -> PathBuf {
    let mut files = SUFFIXES.iter().map(|suffix| folder.join(format!("{case}{END}{suffix}")));
    files.find(|file| file.is_file()).unwrap_or_else(|| folder.join(format!("{case}{END}.nii.gz")))
}

fn volume(plan: &Plan, item: &Item, predicted: Option<&Path>, run: usize) -> Outcome<Volume> {
    let recipe = &plan.recipe;
    let mut sample = only(reading(recipe)?.run_deterministic(item.sample())?)?;
    let image = sample.take_image("image")?;
    if image.meta.spatial_dims != 3 || image.shape().contains(&1) {
        return Err(Failure::new(format!("its image has {:?} voxels; the viewer shows volumes", image.shape())));
    }
    let grid = View::of(&image).grid(&image);
    let values = in_axes(&grid, &image.to_vec()[..image.shape().iter().product()]);
    let (low, high) = window(recipe).unwrap_or_else(|| range(&[&values]));
    let mut layers = Vec::new();
    let mut layer = |name: &str, map: Outcome<Image>| match map {
        Ok(map) if map.shape() == image.shape() => {
            layers.push((name.to_owned(), in_axes(&grid, &classes(recipe.output(), &map))))
        }
        Ok(map) => {
            let (voxels, own) = (map.shape(), image.shape());
            note!("{}: the {name} is not in the viewer: it has {voxels:?} voxels, the image {own:?}", item.case);
        }
        Err(failure) => note!("{}: the {name} is not in the viewer: {}", item.case, failure.line()),
    };
    layer("label", label(plan, item));
    match predicted {
        Some(path) if path.is_file() => {
            let read = read_image_with(path, &ReadOptions::default());
            layer("prediction", read.map_err(|error| Failure::new(error.to_string())));
        }
        Some(path) => note!("{}: the prediction is not in the viewer: there is no {}", item.case, path.display()),
        None => {}
    }
    let mut names = recipe.labels.clone();
    if recipe.output() == Output::Regions {
        names.insert(0, "background".to_owned());
    }
    Ok(Volume {
        run,
        case: item.case.clone(),
        size: grid.shape,
        spacing: grid.spacing,
        values,
        window: [low, high],
        layers,
        classes: names,
    })
}

/// The label of a case in the form of a prediction: classes, or a channel for each region.
fn label(plan: &Plan, item: &Item) -> Outcome<Image> {
    let label = only(plan.label.run_deterministic(item.sample())?)?.take_image("label")?;
    match plan.recipe.output() {
        Output::Regions => {
            Post::finish(&plan.post_label()?, label, &item.case).map_err(|error| Failure::new(error.to_string()))
        }
        _ => Ok(label),
    }
}

/// One class per voxel. Of nested regions, the smallest is shown.
fn classes(output: Output, map: &Image) -> Vec<u8> {
    let (values, count) = (map.to_vec(), map.shape().iter().product::<usize>());
    let class = |value: f32| value.round().clamp(0.0, 255.0) as u8;
    if output != Output::Regions || map.channels() == 1 {
        return values.iter().take(count).map(|value| class(*value)).collect();
    }
    let mut channels: Vec<(usize, &[f32])> = values.chunks(count).enumerate().collect();
    let voxels = |channel: &[f32]| channel.iter().filter(|value| **value > 0.5).count();
    channels.sort_by_key(|(_, channel)| std::cmp::Reverse(voxels(channel)));
    let mut all = vec![0; count];
    for (region, channel) in channels {
        for (kept, value) in all.iter_mut().zip(channel) {
            if *value > 0.5 {
                *kept = u8::try_from(region + 1).unwrap_or(u8::MAX);
            }
        }
    }
    all
}

/// Voxels in the axes of a view, with the last axis fastest.
fn in_axes<T: Copy>(grid: &Grid, values: &[T]) -> Vec<T> {
    let [nx, ny, nz] = grid.shape;
    let along = |x: usize, y: usize| (0..nz).map(move |z| [x, y, z]);
    let all = (0..nx).flat_map(|x| (0..ny).flat_map(move |y| along(x, y)));
    all.map(|voxel| values[grid.place(voxel)]).collect()
}
