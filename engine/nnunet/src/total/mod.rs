//! TotalSegmentator's steps around its nnU-Net models, on plain arrays: the table of tasks,
//! resampling to the model's voxels and back, crops, and removal of label components.
//!
//! Volumes are `[channel, z, y, x]` in canonical axes (RAS).

mod blobs;
mod classes;
mod crop;
mod recognize;
mod resample;
mod task;
mod tasks;
mod vertebrae;

pub use blobs::{keep_largest, remove_small};
pub use crop::{Region, truncated};
pub use recognize::{Match, ModelFacts, matches};
pub use resample::{resampled, restored};
pub use task::{Cleaning, Crop, Modality, Mode, Models, Rough, Task, number};
pub use tasks::{TASKS, task};
pub use vertebrae::separate_vertebrae;

use crate::error::Result;
use crate::volume::{Axes3, Volume};

/// Components of this size in mm³ and smaller are removed from the extremities of a body.
const EXTREMITIES: f64 = 50_000.0;

/// The classes of TotalSegmentator's task `total`, whose labels are 1, 2, ... in this order.
pub fn total_classes() -> Vec<&'static str> {
    classes::TOTAL.split_whitespace().collect()
}

/// Cleans the labels of a task's models as TotalSegmentator does. `voxels` is the voxel size in mm,
/// z y x.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn clean(cleaning: Cleaning, labels: &mut Volume<u16>, voxels: Axes3<f64>) -> Result<()> {
    match cleaning {
        Cleaning::None => Ok(()),
        Cleaning::Body => {
            keep_largest(labels, 1)?;
            remove_small(labels, Some(2), EXTREMITIES, voxels)
        }
        Cleaning::Vertebrae => separate_vertebrae(labels, voxels),
    }
}
