//! Pictures for people: slices with outlines, as a PNG.

mod canvas;
mod font;
mod overlay;

pub use canvas::{Canvas, Rgb};
pub use overlay::{Panel, panels, render};
