//! Maps of whole slides.

mod slide_map;

pub use slide_map::{SlideMap, Tiles, grey, npy};
