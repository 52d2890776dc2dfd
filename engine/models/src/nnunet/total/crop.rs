//! [`CropBy`]: the region of an image that a rough model finds.

use hearth_nnunet::total::Region;
use hearth_nnunet::{Axes3, Volume};

use super::TotalSegmentator;

/// A rough model, and the part of the image that is kept around its labels.
pub(crate) struct CropBy {
    pub rough: Box<TotalSegmentator>,
    /// The labels of the rough model that are kept.
    pub labels: Vec<u16>,
    /// The margin added on each side of their box, in mm.
    pub margin: f64,
}

impl CropBy {
    /// The region of an image with these rough labels; `None` if none of the labels occurs.
    pub fn region(&self, rough: &Volume<u16>, spacing: Axes3<f64>) -> Option<Region> {
        Region::around(rough, |label| self.labels.contains(&label), self.margin, spacing)
    }
}
