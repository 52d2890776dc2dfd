//! Pictures for people: slices with outlines, as a PNG.

mod bars;
mod canvas;
mod colours;
mod font;
mod overlay;
mod panel;
mod plot;
mod sheet;

pub use bars::{Bar, bars};
pub use canvas::{Canvas, Rgb};
pub use overlay::{panels, render};
pub use panel::{Panel, Volume};
pub use plot::{Axis, Plot};
pub use sheet::sheet;
