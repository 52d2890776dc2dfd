//! Removal of label components, as in TotalSegmentator. Voxels are connected by their faces.

use hearth_kernels::label::{components, components_by_value};

use crate::error::{NnunetError, Result};
use crate::volume::{Axes3, Volume};

/// The number of voxels of a size in mm³, in the precision of nibabel's voxel sizes.
pub(super) fn voxels_of(size: f64, spacing: Axes3<f64>) -> f64 {
    let [z, y, x] = spacing.map(|size| size as f32);
    f64::from(size as f32 / (x * y * z))
}

/// Removes all but the largest component of a label; of equal ones the first stays, ordered by x,
/// then y, then z.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn keep_largest(labels: &mut Volume<u16>, label: u16) -> Result<()> {
    // Components are numbered as in an array x y z.
    let mask = labels.data.iter().map(|found| u16::from(*found == label)).collect();
    let mut mask = Volume { channels: 1, shape: labels.shape, data: mask }.transposed([2, 1, 0]);
    let found = components(&mask.data, &mask.shape, 1).map_err(|error| NnunetError::case(error.to_string()))?;
    let most = found.regions().iter().map(|region| region.size).max().unwrap_or(0);
    let largest = found.regions().iter().position(|region| region.size == most);
    found.paint(&mut mask.data, |index| (Some(index) != largest).then_some(0));
    let mask = mask.transposed([2, 1, 0]);
    let gone = labels.data.iter_mut().zip(mask.data).filter(|(found, kept)| **found == label && *kept == 0);
    gone.for_each(|(found, _)| *found = 0);
    Ok(())
}

/// Removes the components of at most `size` mm³ of a label, or of each label. `spacing` is the
/// voxel size in mm, z y x.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn remove_small(labels: &mut Volume<u16>, label: Option<u16>, size: f64, spacing: Axes3<f64>) -> Result<()> {
    let found = components_by_value(&labels.data, &labels.shape, 1);
    let found = found.map_err(|error| NnunetError::case(error.to_string()))?;
    let most = voxels_of(size, spacing);
    let regions = found.regions();
    let gone = |index: usize| {
        let of_label = label.is_none_or(|label| labels.data[regions[index].first] == label);
        of_label && regions[index].size as f64 <= most
    };
    let gone: Vec<bool> = (0..regions.len()).map(gone).collect();
    found.paint(&mut labels.data, |index| gone[index].then_some(0));
    Ok(())
}
