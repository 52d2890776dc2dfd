//! The files of a slide's map.

use std::path::{Path, PathBuf};

use hearth_data::slides::{PyramidOptions, geojson, pyramid};
use hearth_recipe::Outcome;
use hearth_run::folders::replace;
use serde_json::json;

use crate::slides::{grey, npy};
use crate::writers::Writing;

/// The name of the finding.
fn class<'a>(writing: &Writing<'a, '_>) -> &'a str {
    writing.card.labels.first().map_or("", |label| &label.name)
}

/// The detections as points for QuPath.
pub(super) fn detections(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let [path] = paths else { return Ok(()) };
    let points = writing.slide()?.features(class(writing));
    writing.make(path, || replace(path, geojson(&points)))?;
    writing.report.file("detections", path);
    Ok(())
}

/// The map as a pyramid of grey levels.
pub(super) fn heat(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], map) = (paths, writing.slide()?) else { return Ok(()) };
    let description = format!("probability of {}, 255 is 1", class(writing));
    write_pyramid(writing, path, &map.grey(), description)?;
    writing.report.file("heat", path);
    Ok(())
}

/// Each map of disagreement as an array and as a pyramid.
pub(super) fn disagreement(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let map = writing.slide()?;
    for (files, (kind, values)) in paths.chunks_exact(2).zip(&map.disagreement) {
        let (word, most) = (kind.word(), kind.most());
        let description = format!("{word} of the runs' probabilities of {}, 255 is {most:.4}", class(writing));
        write_pyramid(writing, &files[1], &grey(values, most), description)?;
        writing.make(&files[0], || replace(&files[0], npy(values, map.shape)))?;
        writing.report.file(word, &files[0]);
        writing.report.file(&format!("{word}_heat"), &files[1]);
    }
    Ok(())
}

fn write_pyramid(writing: &Writing<'_, '_>, path: &Path, pixels: &[u8], description: String) -> Outcome {
    let map = writing.slide()?;
    let [rows, columns] = map.shape;
    let mpp = map.mpp.map(|mpp| mpp * (map.scale[0] + map.scale[1]) / 2.0);
    let options = PyramidOptions { mpp, description, ..PyramidOptions::default() };
    let file = pyramid(pixels, columns, rows, &options)?;
    writing.make(path, || replace(path, file))
}

/// The map, whose record describes slide and map.
pub(super) fn map(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], map) = (paths, writing.slide()?) else { return Ok(()) };
    let (width, height) = map.slide;
    let facts = [
        ("width", json!(width)),
        ("height", json!(height)),
        ("scale", json!(map.scale)),
        ("mpp", json!(map.mpp)),
        ("patches", json!(map.patches)),
        ("detections", json!(map.peaks.len())),
    ];
    for (name, value) in facts {
        writing.facts[name] = value.clone();
        writing.report.fact(name, value);
    }
    writing.make(path, || replace(path, map.npy()))?;
    writing.report.file("map", path);
    Ok(())
}
