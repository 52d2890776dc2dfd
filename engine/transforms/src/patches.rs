//! An image as a grid of patches: positions and values (MONAI's `iter_patch` family).
//!
//! ```
//! use hearth_transforms::patches::{Overlap, PatchGrid, iter_patch_position};
//! let grid = PatchGrid::new([4, 4]).overlap(Overlap::fraction(0.5));
//! let positions: Vec<Vec<i64>> = iter_patch_position(&[7, 9], &grid).expect("a sound grid").iter().collect();
//! assert_eq!(positions, [[0, 0], [0, 2], [0, 4], [2, 0], [2, 2], [2, 4]]);
//! ```

use std::ops::Range;

use hearth_image::spatial::{BoundingBox, PadMode, crop, pad, window};
use hearth_image::{Applied, Image, OneOrMany, TransformError, affine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The overlap of neighbouring patches: for all axes, or one entry per axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected whole numbers of voxels, or shares of the patch from 0 to 1")]
pub enum Overlap {
    /// In voxels; less than the patch.
    Voxels(OneOrMany<usize>),
    /// As a fraction of the patch, 0 to 1. The step is `patch * (1 - overlap)`, rounded half to
    /// even.
    Fraction(OneOrMany<f64>),
}

impl Overlap {
    /// The same fraction of the patch along all axes.
    pub fn fraction(part: f64) -> Self {
        Overlap::Fraction(part.into())
    }

    /// The distance between neighbouring patches along an axis.
    fn step(&self, axis: usize, patch: usize) -> f64 {
        match self {
            Overlap::Voxels(voxels) => patch as f64 - voxels.at(axis).unwrap_or(0) as f64,
            Overlap::Fraction(part) => (patch as f64 * (1.0 - part.at(axis).unwrap_or(0.0))).round_ties_even(),
        }
    }

    fn entries(&self) -> Option<usize> {
        match self {
            Overlap::Voxels(OneOrMany::Many(list)) => Some(list.len()),
            Overlap::Fraction(OneOrMany::Many(list)) => Some(list.len()),
            _ => None,
        }
    }
}

impl Default for Overlap {
    fn default() -> Self {
        Overlap::fraction(0.0)
    }
}

/// A grid that divides an array into patches. Axes are those of the array, including its channels if
/// it has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchGrid {
    /// Size of a patch per axis; 0 and omitted axes mean the whole axis. Limited to the array's
    /// size.
    pub patch_size: Vec<usize>,
    /// Position of the first patch; 0 for omitted axes.
    pub start_pos: Vec<i64>,
    /// Overlap of neighbouring patches.
    pub overlap: Overlap,
    /// Whether patches may reach beyond the end of the array.
    pub padded: bool,
}

impl PatchGrid {
    /// Creates a grid of adjacent patches, all within the array.
    pub fn new(patch_size: impl Into<Vec<usize>>) -> Self {
        PatchGrid { patch_size: patch_size.into(), ..PatchGrid::default() }
    }

    /// Sets the position of the first patch.
    pub fn start_pos(mut self, start_pos: impl Into<Vec<i64>>) -> Self {
        self.start_pos = start_pos.into();
        self
    }

    /// Sets the overlap of neighbouring patches.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets whether patches may reach beyond the end of the array.
    pub fn padded(mut self, padded: bool) -> Self {
        self.padded = padded;
        self
    }

    /// Returns the size of the patches of an array (MONAI's `get_valid_patch_size`).
    pub fn patch_size(&self, size: &[usize]) -> Vec<usize> {
        let wanted = |axis: usize| self.patch_size.get(axis).copied().filter(|p| *p > 0);
        size.iter().enumerate().map(|(axis, n)| wanted(axis).map_or(*n, |p| p.min(*n))).collect()
    }
}

/// One axis of a grid: `count` positions from `start`, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    start: i64,
    step: i64,
    count: usize,
}

/// The first voxels of all patches, with the last axis fastest, and with random access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions(Vec<Axis>);

impl Positions {
    /// The number of patches.
    pub fn len(&self) -> usize {
        self.0.iter().map(|axis| axis.count).product()
    }

    /// Whether there are no patches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first voxel of one patch.
    pub fn get(&self, index: usize) -> Option<Vec<i64>> {
        if index >= self.len() {
            return None;
        }
        let mut rest = index;
        let mut out = vec![0; self.0.len()];
        for (place, axis) in out.iter_mut().zip(&self.0).rev() {
            *place = axis.start + axis.step * (rest % axis.count) as i64;
            rest /= axis.count;
        }
        Some(out)
    }

    /// Iterates over all positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Vec<i64>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// Returns the start positions of the patches of an array of `image_size` (MONAI's
/// `iter_patch_position`).
///
/// # Errors
/// If an overlap leaves no step, the grid has more patches than can be counted, or, without
/// padding, it starts before the array.
pub fn iter_patch_position(image_size: &[usize], grid: &PatchGrid) -> Result<Positions, TransformError> {
    if let Some(entries) = grid.overlap.entries().filter(|entries| *entries != image_size.len()) {
        return Err(TransformError::new(format!("`overlap` has {entries} entries"))
            .expected(format!("one, or one for each of {} axes", image_size.len())));
    }
    let patch = grid.patch_size(image_size);
    let mut axes = Vec::with_capacity(image_size.len());
    for (axis, (n, p)) in image_size.iter().zip(&patch).enumerate() {
        let start = grid.start_pos.get(axis).copied().unwrap_or(0);
        let end = if grid.padded { *n as i64 } else { (n - p + 1) as i64 };
        let step = grid.overlap.step(axis, *p);
        if !(step >= 1.0) && *n > 0 {
            return Err(TransformError::new(format!("patches of {p} voxels along axis {axis} would have no step"))
                .expected("an overlap that leaves a step of at least one voxel"));
        }
        if start < 0 && !grid.padded {
            return Err(TransformError::new(format!("the first patch would lie {} voxels before axis {axis}", -start))
                .advice("pad, or start within the image"));
        }
        let room = end.saturating_sub(start).max(0) as u64;
        let step = (step as i64).max(1);
        let count = usize::try_from(room.div_ceil(step as u64)).unwrap_or(usize::MAX);
        axes.push(Axis { start, step, count: if *n == 0 { 0 } else { count } });
    }
    match axes.iter().try_fold(1_usize, |all, axis| all.checked_mul(axis.count)) {
        Some(count) if count <= isize::MAX as usize => Ok(Positions(axes)),
        _ => Err(TransformError::new("the grid has more patches than can be counted").expected("a larger step")),
    }
}

/// Returns the voxels of each patch per axis (MONAI's `iter_patch_slices`; there `padded` is true
/// by default).
///
/// # Errors
/// Those of [`iter_patch_position`].
pub fn iter_patch_slices(
    image_size: &[usize],
    grid: &PatchGrid,
) -> Result<impl Iterator<Item = Vec<Range<i64>>> + use<>, TransformError> {
    let positions = iter_patch_position(image_size, grid)?;
    let patch = grid.patch_size(image_size);
    Ok((0..positions.len()).filter_map(move |index| Some(slices(&positions.get(index)?, &patch))))
}

fn slices(position: &[i64], patch: &[usize]) -> Vec<Range<i64>> {
    position.iter().zip(patch).map(|(start, size)| *start..*start + *size as i64).collect()
}

/// One patch of an image.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Values and geometry; inverting its last operation places it back in the image, surrounded by
    /// zeros.
    pub image: Image,
    /// Range of voxels along the channels and each spatial axis. With padding it may lie outside
    /// the image.
    pub coords: Vec<Range<i64>>,
}

/// The patches of an image. Each is cropped on demand, in any order and on any thread.
#[derive(Clone, Debug)]
pub struct Patches {
    image: Image,
    positions: Positions,
    /// Sizes along the image's axes, channels first.
    patch: Vec<usize>,
    /// Which axes are divided; the others are not padded.
    divided: Vec<bool>,
    padding: Option<(PadMode, f32)>,
    /// Voxels added before the image in advance, for modes that need the whole image.
    margin: [usize; 3],
}

/// Divides an image into patches (MONAI's `iter_patch`). Axes of the grid are channels, then space.
///
/// With a `padding` (mode and constant) the grid covers the image to its end, and parts of a patch
/// beyond it get the values that padding the whole image would give; `grid.padded` is set
/// accordingly. Channels are not padded.
///
/// # Errors
/// Those of [`iter_patch_position`], and if a patch would start more than its size before the
/// image.
pub fn iter_patch(image: &Image, grid: &PatchGrid, padding: Option<(PadMode, f32)>) -> Result<Patches, TransformError> {
    let n = image.meta.spatial_dims;
    let shape = image.shape();
    let mut size = vec![image.channels()];
    size.extend(&shape[..n]);
    let divided: Vec<bool> = (0..=n).map(|axis| grid.patch_size.get(axis).is_some_and(|p| *p > 0)).collect();
    let mut grid = grid.clone().padded(padding.is_some());
    // An axis that is not divided has no overlap.
    let voxels = |axis: usize, n: usize| if divided[axis] { n } else { 0 };
    let part = |axis: usize, n: f64| if divided[axis] { n } else { 0.0 };
    grid.overlap = match (&grid.overlap, grid.overlap.entries()) {
        (_, Some(entries)) if entries != n + 1 => grid.overlap,
        (Overlap::Voxels(o), _) => {
            Overlap::Voxels((0..=n).map(|a| voxels(a, o.at(a).unwrap_or(0))).collect::<Vec<_>>().into())
        }
        (Overlap::Fraction(o), _) => {
            Overlap::Fraction((0..=n).map(|a| part(a, o.at(a).unwrap_or(0.0))).collect::<Vec<_>>().into())
        }
    };
    let positions = iter_patch_position(&size, &grid)?;
    let patch = grid.patch_size(&size);
    let over = positions.0[0];
    let end = over.start + over.step * (over.count as i64 - 1).max(0) + patch[0] as i64;
    if padding.is_some() && divided[0] && (over.start < 0 || end > size[0] as i64) {
        return Err(TransformError::new("patches with padding can't reach beyond the channels")
            .expected("a patch size and start that divide them, or 0 as the first entry of the patch size"));
    }
    for (axis, start) in grid.start_pos.iter().enumerate().take(n + 1) {
        if *start < 0 && (!divided[axis] || start.unsigned_abs() > patch[axis] as u64) {
            return Err(TransformError::new(format!("the first patch would lie {} voxels before axis {axis}", -start))
                .expected("at most the size of a patch"));
        }
    }
    let mut patches = Patches { image: image.clone(), positions, patch, divided, padding, margin: [0; 3] };
    if let Some((mode, value)) = padding.filter(|(mode, _)| mode.looks_at_all()) {
        for axis in 0..n {
            patches.margin[axis] = if patches.divided[axis + 1] { patches.patch[axis + 1] } else { 0 };
        }
        patches.image = pad(patches.image, patches.margin, patches.margin, mode, value)?;
        patches.image.affine = image.affine;
        patches.image.meta.applied.pop();
    }
    Ok(patches)
}

impl Patches {
    /// The number of patches.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no patches.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The positions of the patches.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Crops one patch, with the index of [`Patches::positions`].
    ///
    /// # Errors
    /// If there is no such patch, or the mode has no values to copy.
    pub fn get(&self, index: usize) -> Result<Patch, TransformError> {
        let position = self.positions.get(index).ok_or_else(|| {
            TransformError::new(format!("there is no patch {index}")).expected(format!("below {}", self.len()))
        })?;
        let coords = slices(&position, &self.patch);
        let channels = coords[0].start as usize..(coords[0].end as usize).min(self.image.channels());
        let mut image = self.image.clone();
        if channels.len() < image.channels() {
            let [_, x, y, z] = image.data.dims();
            image.data = image.data.slice([channels, 0..x, 0..y, 0..z]);
        }
        let mut region = BoundingBox { start: [0; 3], end: image.shape().map(|n| n as i64) };
        for (axis, range) in coords[1..].iter().enumerate() {
            let offset = self.margin[axis] as i64;
            region.start[axis] = range.start + offset;
            region.end[axis] = range.end + offset;
            if !self.divided[axis + 1] {
                // An axis that is not padded ends with the image.
                region.end[axis] = region.end[axis].min(image.shape()[axis] as i64);
            }
        }
        Ok(Patch { image: cut(image, region, self.margin, self.padding)?, coords })
    }

    /// Iterates over all patches, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Patch, TransformError>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// Crops a box of the image, to which `margin` voxels were added before.
fn cut(
    mut image: Image,
    region: BoundingBox,
    margin: [usize; 3],
    padding: Option<(PadMode, f32)>,
) -> Result<Image, TransformError> {
    let shape = image.shape();
    let inside = (0..3).all(|a| region.start[a] >= 0 && region.end[a] <= shape[a] as i64);
    if inside && margin == [0; 3] {
        let corner = |c: [i64; 3]| c.map(|v| v as usize);
        return Ok(crop(image, corner(region.start), corner(region.end)));
    }
    let (mode, value) = padding.unwrap_or_default();
    image.data = window(image.data, region, mode, value)?;
    let original: [usize; 3] = std::array::from_fn(|a| shape[a] - 2 * margin[a]);
    let start: [i64; 3] = std::array::from_fn(|a| region.start[a] - margin[a] as i64);
    let end: [i64; 3] = std::array::from_fn(|a| region.end[a] - margin[a] as i64);
    // The history is that of a crop of the part within the image, followed by padding.
    let first: [usize; 3] = std::array::from_fn(|a| start[a].clamp(0, original[a] as i64) as usize);
    let last: [usize; 3] = std::array::from_fn(|a| (end[a].clamp(0, original[a] as i64) as usize).max(first[a]));
    let before: [usize; 3] = std::array::from_fn(|a| (first[a] as i64 - start[a]).max(0) as usize);
    let after: [usize; 3] = std::array::from_fn(|a| ((end[a] - start[a]) as usize) - before[a] - (last[a] - first[a]));
    image.meta.applied.push(Applied::Crop { start: first, shape: original });
    image.meta.applied.push(Applied::Pad { before, after });
    image.affine = affine::compose(&image.affine, &affine::translation(start.map(|v| v as f64)));
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counting(shape: [usize; 4]) -> Image {
        let values = (0..shape.iter().product::<usize>()).map(|v| v as f32 + 1.0).collect();
        Image::from_values(values, shape, affine::IDENTITY, &hearth_image::host_device())
    }

    #[test]
    fn a_grid_that_does_not_move_is_refused() {
        for overlap in [Overlap::fraction(1.0), Overlap::fraction(f64::NAN), Overlap::Voxels(5.into())] {
            let grid = PatchGrid::new([4, 4]).overlap(overlap);
            assert!(iter_patch_position(&[9, 9], &grid).is_err());
        }
        assert!(iter_patch_position(&[9, 9], &PatchGrid::new([4]).start_pos([-1])).is_err());
        assert!(iter_patch_position(&[9, 9], &PatchGrid::new([4]).overlap(Overlap::Fraction([0.1].into()))).is_err());
        let endless = PatchGrid::new([1, 1, 1]).start_pos([i64::MIN; 3]).padded(true);
        assert!(iter_patch_position(&[9, 9, 9], &endless).is_err());
    }

    #[test]
    fn an_empty_array_has_no_patch() {
        assert!(iter_patch_position(&[0, 5], &PatchGrid::new([2, 2])).expect("sound").is_empty());
    }

    #[test]
    fn padded_patches_stay_within_the_channels() {
        let patches =
            |size| iter_patch(&counting([3, 4, 4, 4]), &PatchGrid::new([size, 3]), Some((PadMode::Wrap, 0.0)));
        assert_eq!(patches(1).expect("three channels by two patches").len(), 6);
        assert!(patches(2).expect_err("a channel too many").to_string().contains("beyond the channels"));
    }

    proptest! {
        /// Every patch equals padding the whole image and cropping it; its inverse equals the
        /// original inside the image.
        #[test]
        fn a_patch_is_a_part_of_the_padded_image(
            shape in [1usize..6, 1usize..6, 1usize..6],
            patch in [0usize..5, 0usize..5, 0usize..5],
            start in [0i64..3, 0i64..3, 0i64..3],
            mode in prop_oneof![Just(PadMode::Wrap), Just(PadMode::Edge), Just(PadMode::Constant), Just(PadMode::Mean)],
        ) {
            let image = counting([2, shape[0], shape[1], shape[2]]);
            let grid = PatchGrid::new([&[0], &patch[..]].concat()).start_pos([&[0], &start[..]].concat());
            let patches = iter_patch(&image, &grid, Some((mode, -1.0))).expect("a grid");
            let margin: [usize; 3] = std::array::from_fn(|a| if patch[a] > 0 { patch[a].min(shape[a]) } else { 0 });
            let padded = pad(image.clone(), margin, margin, mode, -1.0).expect("voxels");
            let whole = padded.shape();
            let padded_values = padded.to_vec();
            for one in patches.iter() {
                let one = one.expect("a patch");
                let size = one.image.shape();
                let mut expected = Vec::new();
                for c in 0..2 {
                    for x in 0..size[0] {
                        for y in 0..size[1] {
                            for z in 0..size[2] {
                                let at: [usize; 3] = std::array::from_fn(|a| {
                                    (one.coords[a + 1].start + margin[a] as i64) as usize + [x, y, z][a]
                                });
                                expected.push(
                                    padded_values[((c * whole[0] + at[0]) * whole[1] + at[1]) * whole[2] + at[2]],
                                );
                            }
                        }
                    }
                }
                prop_assert_eq!(one.image.to_vec(), expected);
                let mut back = one.image.clone();
                while !back.meta.applied.is_empty() {
                    back = back.undo_last(false).expect("it can be undone");
                }
                prop_assert_eq!(back.shape(), shape);
                prop_assert!(affine::distance(&back.affine, &affine::IDENTITY) < 1e-12);
                for (a, b) in back.to_vec().iter().zip(image.to_vec()) {
                    prop_assert!(*a == b || *a == 0.0);
                }
            }
        }
    }
}
