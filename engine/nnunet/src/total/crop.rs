//! Cropping to the region that a rough model finds, as in TotalSegmentator.

use crate::preprocess::Bounds;
use crate::volume::{Axes3, Volume};

/// The part of an image around some labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    bounds: Bounds,
    shape: Axes3,
}

impl Region {
    /// The box of all voxels whose label is `wanted`, extended by `margin` mm on each side and
    /// clipped to the image; `None` if no voxel has such a label. `spacing` is the voxel size in
    /// mm, z y x.
    pub fn around(
        labels: &Volume<u16>,
        wanted: impl Fn(u16) -> bool,
        margin: f64,
        spacing: Axes3<f64>,
    ) -> Option<Self> {
        let shape @ [nz, ny, nx] = labels.shape;
        let (mut start, mut end) = (shape, [0; 3]);
        for (row, line) in labels.data.chunks(nx.max(1)).enumerate().take(nz * ny) {
            let Some(first) = line.iter().position(|label| wanted(*label)) else { continue };
            let last = line.iter().rposition(|label| wanted(*label)).unwrap_or(first);
            for (axis, (low, high)) in [(row / ny, row / ny), (row % ny, row % ny), (first, last)].iter().enumerate() {
                start[axis] = start[axis].min(*low);
                end[axis] = end[axis].max(high + 1);
            }
        }
        if end[0] == 0 {
            return None;
        }
        for axis in 0..3 {
            // nibabel's voxel sizes have single precision, and whole voxels are added.
            let added = (margin / f64::from(spacing[axis] as f32)) as usize;
            start[axis] = start[axis].saturating_sub(added);
            end[axis] = end[axis].saturating_add(added).min(shape[axis]);
        }
        Some(Region { bounds: Bounds { start, end }, shape })
    }

    /// Crops a volume to this part.
    ///
    /// # Panics
    /// If the volume and the labels differ in size.
    pub fn of<T: Copy + Send + Sync + Default>(&self, volume: &Volume<T>) -> Volume<T> {
        assert_eq!(volume.shape, self.shape, "the volume has the size of the labels");
        volume.cropped(self.bounds.start, self.bounds.end)
    }

    /// Places the labels of this part in the whole image, with 0 elsewhere.
    pub fn undo(&self, labels: &Volume<u16>) -> Volume<u16> {
        labels.placed(self.shape, self.bounds.start, 0)
    }
}

/// Truncates the values of an image to integers, as in TotalSegmentator's crops.
pub fn truncated(mut image: Volume) -> Volume {
    image.data.iter_mut().for_each(|value| *value = value.trunc());
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_extended_by_whole_voxels_within_the_image() {
        let mut labels = Volume::<u16>::zeros(1, [6, 8, 10]);
        labels.data[(3 * 8 + 4) * 10 + 5] = 7;
        labels.data[(3 * 8 + 5) * 10 + 2] = 8;
        let region = Region::around(&labels, |label| label == 7, 2.5, [1.0, 0.5, 3.0]).expect("a label");
        assert_eq!(region.bounds, Bounds { start: [1, 0, 5], end: [6, 8, 6] });
        assert!(Region::around(&labels, |label| label == 9, 2.5, [1.0; 3]).is_none());
        let part = region.of(&labels);
        assert_eq!(part.shape, [5, 8, 1]);
        let whole = region.undo(&part);
        assert_eq!(whole.data.iter().map(|label| u64::from(*label)).sum::<u64>(), 7);
        assert_eq!(whole.data[(3 * 8 + 4) * 10 + 5], 7);
    }
}
