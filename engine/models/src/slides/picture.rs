//! The picture of a slide with its map, its detections and its annotations.

use std::path::Path;

use hearth_data::slides::{Annotations, Pick, Slide};
use hearth_recipe::recipe::Recipe;
use hearth_recipe::{Outcome, RecipeError, warning};

use crate::cases::Case;
use crate::model::Card;
use crate::picture::{Canvas, SlidePicture};
use crate::slides::SlideMap;
use crate::slides::find::ANNOTATIONS;

/// The longer side of the slide in a picture, in pixels.
const SIDE: usize = 1200;

/// Draws the maps of a model.
pub struct SlidePictures<'a> {
    card: &'a Card,
    /// The classes of annotations that are drawn; empty for all.
    classes: Vec<String>,
}

impl<'a> SlidePictures<'a> {
    /// The pictures of a model, with the annotations of the classes that its recipe learns.
    pub(crate) fn new(card: &'a Card, recipe: Option<&Recipe>) -> Self {
        let layout = recipe.and_then(|recipe| recipe.data.layout.as_ref());
        let classes = layout.and_then(|layout| layout.node().get("classes")).map_or(&[][..], |classes| classes.items());
        Self { card, classes: classes.iter().filter_map(|class| class.as_str().map(str::to_owned)).collect() }
    }

    /// Draws the slide of a case under its map.
    ///
    /// # Errors
    /// A slide that cannot be read again, or is not of 8-bit colours.
    pub(crate) fn draw(&self, case: &Case, map: &SlideMap) -> Outcome<Canvas> {
        let path = case.files().next().ok_or_else(|| RecipeError::new(format!("{} has no file", case.name())))?;
        let thumbnail = Slide::open(path)?.thumbnail(SIDE)?;
        let rgb = thumbnail.to_rgb8().ok_or_else(|| RecipeError::new("a slide that is not of 8-bit colours"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{name}   {}", self.card.labels.first().map_or("", |label| &label.name));
        let reduced = thumbnail.width as f64 / map.slide.0 as f64;
        let truth = self.annotated(path, reduced);
        let picture = SlidePicture {
            title: &title,
            rgb: &rgb,
            width: thumbnail.width,
            shape: map.shape,
            map: &map.values,
            peaks: &map.peaks,
            truth: truth.as_deref(),
            per_mm: map.mpp.map(|mpp| 1e3 / mpp * reduced),
        };
        Ok(picture.draw())
    }

    /// The annotated rings from a file next to the slide, in pixels scaled by `reduced`. An unreadable
    /// file is reported; the picture is then drawn without them.
    fn annotated(&self, slide: &Path, reduced: f64) -> Option<Vec<Vec<[f64; 2]>>> {
        let file = ANNOTATIONS.map(|end| slide.with_extension(end)).into_iter().find(|file| file.is_file())?;
        let annotations = match Annotations::open(&file) {
            Ok(annotations) => annotations,
            Err(error) => {
                warning!("the picture of {} does not show its annotations: {error}", slide.display());
                return None;
            }
        };
        let pick = Pick { include: self.classes.clone(), ..Pick::default() };
        let rings = annotations.drawn(&pick).flat_map(|shape| &shape.rings);
        Some(rings.map(|ring| ring.iter().map(|point| point.map(|at| at * reduced)).collect()).collect())
    }
}
