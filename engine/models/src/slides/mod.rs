//! Maps of whole slides.

pub mod slide_map;
