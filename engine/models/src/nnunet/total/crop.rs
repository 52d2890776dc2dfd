//! [`CropBy`]: the region of an image that a rough model finds.

use hearth_nnunet::total::Region;
use hearth_nnunet::{Axes3, Volume};

use super::TotalSegmentator;

/// A rough model, and what is kept of the image around what it finds.
pub(crate) struct CropBy {
    pub rough: Box<TotalSegmentator>,
    /// Its labels that are kept.
    pub labels: Vec<u16>,
    /// How far their box is extended on each side, in mm.
    pub margin: f64,
}

impl CropBy {
    /// The region of an image with these rough labels; `None` where none of the labels is there.
    pub fn region(&self, rough: &Volume<u16>, spacing: Axes3<f64>) -> Option<Region> {
        Region::around(rough, |label| self.labels.contains(&label), self.margin, spacing)
    }
}
