//! Pictures as PNGs: predictions, the output of chains, curves, bars.
//!
//! * [`labels`], [`regions`], [`classification`], [`regression`], [`reconstruction`]: one picture
//!   for each kind of prediction.
//! * [`saliency`]: what the numbers of a whole image depend on.
//! * [`sheet`]: many slices in a grid. [`bars`], [`Plot`], [`Curves`]: values.
//!
//! Volumes are drawn in the world's axes, in the usual orientation of radiology, however they are
//! stored ([`View`]). Canvas, font and colours are those of `hearth-pictures`.

mod axes;
mod bars;
mod board;
mod curves;
mod heat;
mod images;
mod legend;
mod maps;
mod outlines;
mod panel;
mod plot;
mod scale;
mod scores;
mod sheet;
mod slide;
mod subject;
mod view;
mod volume;

use std::path::Path;

use hearth_recipe::{Context, Outcome, RecipeError};
use hearth_run::folders::replace;

pub use axes::Axis;
pub use bars::{Bar, bars};
pub use curves::{Curve, Curves};
pub use hearth_pictures::{Canvas, Rgb};
pub use heat::saliency;
pub use images::reconstruction;
pub use maps::{labels, regions};
pub use panel::{Layer, Line, Panel};
pub use plot::Plot;
pub use scores::{classification, regression};
pub use sheet::sheet;
pub use slide::SlidePicture;
pub use subject::Subject;
pub use view::{Grid, Plane, View};
pub use volume::{Volume, range};

/// Writes a picture as a PNG.
pub fn save(canvas: &Canvas, path: &Path) -> Outcome {
    let file =
        canvas.png().map_err(RecipeError::from_error).while_doing(|| format!("cannot write {}", path.display()))?;
    replace(path, file)
}
