//! Regions drawn from slides with annotations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_slides::{Annotations, Area, Pick, Slide, TissueOptions, dicom_slides};
use hearth_transforms::{Draw, DrawKey};
use rayon::prelude::*;

use super::{Lacking, Region, Slides, is_slide, name};
use crate::DataError;
use crate::layouts::wrong;

/// Suffixes of annotations.
const ENDINGS: [&str; 3] = ["xml", "geojson", "json"];

/// The number of pixels of the tissue mask along its longer side.
const MASK_SIDE: usize = 1024;

/// The slides of a folder with their annotations, by name.
pub(super) fn slides(layout: &Slides, folder: &Path) -> Result<Vec<(PathBuf, Option<PathBuf>)>, DataError> {
    let root = layout.images.as_ref().map_or_else(|| folder.to_owned(), |images| folder.join(images));
    let mut files = Vec::new();
    walk(&root, 3, &mut files)?;
    let mut known = files.clone();
    if let Some(given) = &layout.annotations {
        known.clear();
        walk(&folder.join(given), 3, &mut known)?;
    }
    let is_annotation =
        |path: &&PathBuf| path.extension().is_some_and(|end| ENDINGS.iter().any(|e| end.eq_ignore_ascii_case(e)));
    let annotations: Vec<&PathBuf> = known.iter().filter(is_annotation).collect();
    let mut slides: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
    for path in files.iter().filter(|path| is_slide(path)) {
        let stem = name(path);
        // CAMELYON's masks lie next to its slides.
        let mask = ["_mask", "_Mask"].iter().any(|end| {
            stem.strip_suffix(end)
                .is_some_and(|slide| files.iter().any(|other| is_slide(other) && name(other) == slide))
        });
        if !mask {
            let found = annotations.iter().find(|other| name(other) == stem);
            slides.push((path.clone(), found.map(|path| (*path).clone())));
        }
    }
    // Without annotations no slide is used, and a folder of DICOM may have many files.
    if !annotations.is_empty() {
        for path in of_dicom(&root, &files)? {
            let stem = name(&path);
            let found = annotations.iter().find(|other| name(other) == stem);
            slides.push((path, found.map(|path| (*path).clone())));
        }
    }
    slides.sort_unstable();
    Ok(slides)
}

/// Finds the slides among DICOM files: a folder below the root that holds only one slide, else the
/// file of its largest level.
fn of_dicom(root: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let folders: BTreeSet<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    let mut slides = Vec::new();
    for folder in folders {
        let found = dicom_slides(folder).map_err(DataError::Slide)?;
        if found.len() == 1 && folder != root {
            slides.push(folder.to_owned());
        } else {
            slides.extend(found);
        }
    }
    // The bytes before a DICOM header may also make a file a TIFF.
    slides.retain(|path| !is_slide(path));
    Ok(slides)
}

/// Lists all files below a folder, to a limited depth.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let fail = |source| DataError::Io { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            if depth > 1 {
                walk(&path, depth - 1, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Draws regions from all slides of a folder. Slides that cannot be read are listed with the reason if they
/// are kept, else the first of them is the error.
pub(super) fn regions(layout: &Slides, folder: &Path, keep: bool) -> Result<(Vec<Region>, Lacking), DataError> {
    let slides = slides(layout, folder)?;
    if slides.is_empty() {
        return Err(wrong(
            folder,
            format!("has neither training.csv nor slides ({}, or DICOM with annotations)", super::ENDINGS.join(", ")),
        ));
    }
    if slides.iter().all(|(_, annotations)| annotations.is_none()) {
        let (count, first) = (slides.len(), name(&slides[0].0));
        return Err(wrong(
            folder,
            format!(
                "none of the {count} slides has annotations: {first}.xml (ASAP) or {first}.geojson, next to the slide \
                 or in the folder of data.layout.annotations"
            ),
        ));
    }
    // Collected as one result: Rayon splits a list of results further, so that more slides are in memory at
    // once.
    let all: Vec<(Vec<Region>, Lacking)> = slides
        .par_iter()
        .map(|(slide, annotations)| match of_slide(layout, slide, annotations.as_deref()) {
            Ok(found) => Ok((found, Lacking::new())),
            Err(error) if keep => Ok((Vec::new(), vec![(name(slide), error.to_string())])),
            Err(error) => Err(error),
        })
        .collect::<Result<_, _>>()?;
    let (regions, lacking): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    Ok((regions.concat(), lacking.concat()))
}

fn of_slide(layout: &Slides, path: &Path, annotations: Option<&Path>) -> Result<Vec<Region>, DataError> {
    let slide = Slide::open(path).map_err(DataError::Slide)?;
    let annotations = match annotations {
        Some(file) => Annotations::open(file).map_err(DataError::Slide)?,
        None => Annotations::default(),
    };
    annotations.check(slide.dimensions()).map_err(DataError::Slide)?;
    let pick = Pick { include: layout.classes.clone(), exclude: layout.exclude.clone() };
    if !annotations.shapes.is_empty() && annotations.drawn(&pick).next().is_none() {
        let (known, wanted) = (annotations.classes(), &pick.include);
        return Err(wrong(
            &annotations.path,
            format!(
                "none of its classes {known:?} counts: data.layout.classes is {wanted:?}, data.layout.exclude {:?}",
                pick.exclude
            ),
        ));
    }
    let tissue = TissueOptions { side: MASK_SIDE, min_area: 16, max_hole: 64, ..TissueOptions::default() };
    let tissue = slide.tissue_mask(&tissue).map_err(DataError::Slide)?;
    let area = Area::whole(slide.dimensions(), (tissue.width, tissue.height));
    let marked = annotations.mask(&area, &pick);
    let pixels = |wanted: bool| {
        let pixels = tissue.pixels.iter().zip(&marked).enumerate();
        pixels.filter(|(_, (tissue, mark))| **tissue && (**mark == 1) == wanted).map(|(i, _)| i).collect::<Vec<usize>>()
    };
    let (inside, outside) = (pixels(true), pixels(false));
    if inside.is_empty() && outside.is_empty() {
        return Err(wrong(path, "has no tissue that regions could be drawn from".to_owned()));
    }
    let draw = DrawKey::new(layout.seed, 0, 0).draw(&name(path), 0, 0);
    // A tumour smaller than a pixel of the mask is found by its shape.
    let any_marked = annotations.drawn(&pick).next().is_some();
    let positive = if any_marked { (layout.regions as f64 * layout.positive).round() as usize } else { 0 };
    let mut regions = Vec::new();
    for index in 0..layout.regions {
        let wanted = index < positive || outside.is_empty();
        let (from, scale) = (if wanted { &inside } else { &outside }, tissue.scale);
        let centre = match from.is_empty() {
            false => within_pixel(from[draw.below(from.len() as u64) as usize], tissue.width, scale, &draw),
            true => match in_shape(&annotations, &pick, &draw) {
                Some(point) => point,
                None => continue,
            },
        };
        regions.push(region(layout, path, centre, &annotations, &pick, slide.dimensions()));
    }
    Ok(regions)
}

/// Draws a point within a pixel of the mask: x, y.
fn within_pixel(pixel: usize, width: usize, scale: [f64; 2], draw: &Draw) -> [f64; 2] {
    let (x, y) = ((pixel % width) as f64, (pixel / width) as f64);
    [(x + draw.uniform()) * scale[0], (y + draw.uniform()) * scale[1]]
}

/// Draws a point in a shape; `None` if many tries found none.
fn in_shape(annotations: &Annotations, pick: &Pick, draw: &Draw) -> Option<[f64; 2]> {
    let shapes: Vec<_> = annotations.drawn(pick).collect();
    (0..1000).find_map(|_| {
        let [left, top, right, bottom] = shapes.get(draw.below(shapes.len() as u64) as usize)?.bounds();
        let point = [draw.between(left, right), draw.between(top, bottom)];
        annotations.contains(point, pick).then_some(point)
    })
}

/// Creates the region around a point; the label of a cell states whether its centre is annotated.
fn region(
    layout: &Slides,
    path: &Path,
    centre: [f64; 2],
    annotations: &Annotations,
    pick: &Pick,
    (width, height): (usize, usize),
) -> Region {
    let x = (centre[0] as i64).clamp(0, width as i64 - 1);
    let y = (centre[1] as i64).clamp(0, height as i64 - 1);
    let (size, grid) = (layout.region_size as f64, layout.grid);
    let cell = |i: usize| (i as f64 + 0.5) * size / grid as f64 - (layout.region_size / 2) as f64;
    let label = |i: usize| {
        let point = [x as f64 + cell(i % grid), y as f64 + cell(i / grid)];
        f64::from(u8::from(annotations.contains(point, pick)))
    };
    Region { slide: path.to_owned(), centre: [y, x], labels: (0..grid * grid).map(label).collect(), line: None }
}
