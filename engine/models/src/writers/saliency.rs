//! The files of `--saliency`.

use std::path::PathBuf;

use hearth_data::NiftiOptions;
use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::folders::replace;
use serde_json::json;

use crate::picture::{Subject, saliency};
use crate::writers::{Writing, write_volume};

/// Writes the map.
pub(super) fn map(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], Some(found)) = (paths, writing.saliency()) else { return Ok(()) };
    let mut facts = writing.facts.clone();
    let words = format!("{} of {}", found.method.word(), found.class);
    facts["saliency"] = json!({ "method": found.method.word(), "class": found.class, "score": found.score });
    let options = NiftiOptions::default().description(format!("{}, {words}", writing.card.made_by));
    let write = || write_volume(path, &found.map, options).while_doing(|| format!("cannot write {}", path.display()));
    writing.outputs.make(path, facts, write)?;
    writing.report.file("saliency", path);
    Ok(())
}

/// Draws the map over its image.
pub(super) fn picture(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], Some(found)) = (paths, writing.saliency()) else { return Ok(()) };
    let image = writing.case.read_image()?;
    let (own, other) = (found.map.shape(), image.shape());
    if own != other {
        let what = format!("the image has {other:?} voxels as it is read, the map {own:?}");
        return Err(RecipeError::new(what));
    }
    let name = writing.case.parent().join(writing.case.stem());
    let title = format!("{}   {} of {} ({:.3})", name.display(), found.method.word(), found.class, found.score);
    let subject = Subject { title: &title, image: &image, window: found.window };
    let canvas = saliency(&subject, &found.map, found.method.is_signed(), found.method.measures());
    let file =
        canvas.png().map_err(RecipeError::from_error).while_doing(|| format!("cannot draw {}", path.display()))?;
    writing.make(path, || replace(path, file))?;
    writing.report.file("saliency_picture", path);
    Ok(())
}
