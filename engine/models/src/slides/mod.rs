//! Maps of whole slides.

pub(crate) mod find;
mod partial;
pub(crate) mod picture;
mod predict;
mod ready;
mod slide_map;
mod tiles;

pub use ready::SlideReady;
pub use slide_map::{Peak, SlideMap, grey, npy};

pub(crate) use ready::SlidePreparer;
