//! Splitting an image into patches on a grid (`monai.inferers.SlidingWindowSplitter`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sliding_window::{axes, check_axes};
use super::{InferError, PaddingMode};
use crate::layers::Axes;

/// The overlap of neighbouring patches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number of voxels, or a share of the patch from 0 to 1")]
pub enum Overlap {
    /// A number of voxels.
    Voxels(u64),
    /// A share of the patch, in [0, 1).
    Share(f64),
}

/// Splits an image into patches on a grid, row-major. The image is padded at the end so that the
/// last patches are complete.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::SlidingWindowSplitter;
/// let splitter: SlidingWindowSplitter = toml::from_str("patch_size = 4\noverlap = 0.5").expect("options");
/// let patches = splitter.split(Tensor::ones([1, 1, 7, 8, 1], &Device::default()))?;
/// assert_eq!(patches.iter().map(|(_, at)| at[..2].to_vec()).collect::<Vec<_>>()[..4], [[0, 0], [0, 2], [0, 4], [2, 0]]);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SlidingWindowSplitter {
    /// Size of the patch per axis; 0 takes the image's length.
    #[setters(into)]
    pub patch_size: Axes<usize>,
    /// The overlap of neighbouring patches: a whole number of voxels, or a fraction.
    #[serde(default = "none")]
    #[setters(into)]
    pub overlap: Axes<Overlap>,
    /// Start of the first patch; a negative one is before the image.
    #[serde(default = "zero")]
    #[setters(into)]
    pub offset: Axes<i64>,
    /// The padding mode; without one, incomplete patches are dropped.
    #[serde(default = "constant")]
    pub pad_mode: Option<PaddingMode>,
    /// Value of constant padding.
    #[serde(default)]
    pub pad_value: f64,
}

fn none() -> Axes<Overlap> {
    Axes::All(Overlap::Voxels(0))
}

fn zero() -> Axes<i64> {
    Axes::All(0)
}

fn constant() -> Option<PaddingMode> {
    Some(PaddingMode::Constant)
}

const NAME: &str = "SlidingWindowSplitter";

/// The options resolved for one image.
pub(super) struct Grid {
    patch: [usize; 3],
    step: [usize; 3],
    offset: [i64; 3],
    before: [usize; 3],
    after: [usize; 3],
    image: [usize; 3],
}

impl SlidingWindowSplitter {
    /// A splitter with this patch size and MONAI's defaults.
    pub fn new(patch_size: &[usize]) -> Self {
        SlidingWindowSplitter {
            patch_size: Axes::Each(patch_size.to_vec()),
            overlap: none(),
            offset: zero(),
            pad_mode: constant(),
            pad_value: 0.0,
        }
    }

    /// Returns the patches `[b, c, ..]` of all items together, with the start of each.
    ///
    /// # Errors
    /// Fails for an overlap as large as the patch, an offset outside the image, or padding that is
    /// too small.
    pub fn split(&self, x: Tensor<5>) -> Result<Vec<(Tensor<5>, [i64; 3])>, InferError> {
        self.split_where(x, |_, _| true)
    }

    /// Returns the patches that pass a test.
    ///
    /// # Errors
    /// Fails as [`split`](Self::split) does.
    pub fn split_where(
        &self,
        x: Tensor<5>,
        keep: impl Fn(&Tensor<5>, [i64; 3]) -> bool,
    ) -> Result<Vec<(Tensor<5>, [i64; 3])>, InferError> {
        let [batch, channels, nx, ny, nz] = x.dims();
        let grid = self.grid([nx, ny, nz])?;
        let x = self.pad_mode.unwrap_or_default().pad(x, grid.before, grid.after, self.pad_value);
        let x = x.map_err(|expected| self.value("pad_mode", format!("{:?}", self.pad_mode), expected))?;
        let cut = |at: [i64; 3]| {
            // The start of the patch in the padded image.
            let [px, py, pz] = std::array::from_fn(|a| {
                let start = (at[a] + grid.before[a] as i64) as usize;
                start..start + grid.patch[a]
            });
            x.clone().slice([0..batch, 0..channels, px, py, pz])
        };
        let patches = grid.starts().into_iter().map(|at| (cut(at), at));
        Ok(patches.filter(|(patch, at)| keep(patch, *at)).collect())
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    pub fn check(&self) -> Result<(), InferError> {
        let overlaps = match &self.overlap {
            Axes::All(overlap) => std::slice::from_ref(overlap),
            Axes::Each(overlaps) => overlaps,
        };
        let whole = |overlap: &&Overlap| matches!(overlap, Overlap::Share(share) if !(0.0..1.0).contains(share));
        if let Some(Overlap::Share(share)) = overlaps.iter().find(whole) {
            return Err(self.value("overlap", share.to_string(), "expected a fraction of at least 0 and less than 1"));
        }
        if !self.pad_value.is_finite() {
            return Err(self.value("pad_value", self.pad_value.to_string(), "expected a finite number"));
        }
        Ok(())
    }

    /// Checks that each list has a number for each of the axes.
    pub(super) fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        check_axes(NAME, "patch_size", &self.patch_size, spatial_dims)?;
        check_axes(NAME, "overlap", &self.overlap, spatial_dims)?;
        check_axes(NAME, "offset", &self.offset, spatial_dims)
    }

    fn value(&self, name: &'static str, value: String, expected: impl Into<String>) -> InferError {
        InferError::Value { inferer: NAME, name, value, expected: expected.into() }
    }

    /// Resolves the options for an image of this size.
    pub(super) fn grid(&self, image: [usize; 3]) -> Result<Grid, InferError> {
        let three = "expected one number, or one per axis";
        let patch = axes(&self.patch_size, image, 1)
            .ok_or_else(|| self.value("patch_size", format!("{:?}", self.patch_size), three))?;
        let overlap = axes(&self.overlap, image, Overlap::Voxels(0))
            .ok_or_else(|| self.value("overlap", format!("{:?}", self.overlap), three))?;
        let offset =
            axes(&self.offset, image, 0).ok_or_else(|| self.value("offset", format!("{:?}", self.offset), three))?;
        let whole = patch.map(|patch| patch == 0);
        let patch: [usize; 3] = std::array::from_fn(|a| if whole[a] { image[a] } else { patch[a] });
        let mut grid = Grid { patch, step: patch, offset, before: [0; 3], after: [0; 3], image };
        let step = |patch: usize, overlap: Overlap| match overlap {
            Overlap::Voxels(voxels) => patch.saturating_sub(voxels as usize),
            // Rounded as in Python.
            Overlap::Share(share) if (0.0..1.0).contains(&share) => {
                (patch as f64 - patch as f64 * share).round_ties_even() as usize
            }
            Overlap::Share(_) => 0,
        };
        for axis in 0..3 {
            let (length, patch, offset) = (image[axis] as i64, patch[axis], offset[axis]);
            grid.step[axis] = if whole[axis] { patch } else { step(patch, overlap[axis]) };
            if grid.step[axis] == 0 {
                let expected = format!("a patch of {patch} voxels must advance by at least one");
                return Err(self.value("overlap", format!("{:?}", self.overlap), expected));
            }
            if offset >= length || offset < -(patch as i64) || (offset < 0 && self.pad_mode.is_none()) {
                let expected = format!(
                    "a patch of {patch} voxels must start within an axis of {length}; with pad_mode, it may start before the axis by less than its size"
                );
                return Err(self.value("offset", format!("{:?}", self.offset), expected));
            }
            if self.pad_mode.is_some() && !whole[axis] {
                grid.before[axis] = (-offset).max(0) as usize;
                grid.after[axis] = (offset - length + patch as i64).rem_euclid(grid.step[axis] as i64) as usize;
            }
            // Even with padding an axis may be shorter than a patch; then the patch is cut to the
            // axis.
            let room = grid.before[axis] + image[axis] + grid.after[axis];
            if grid.patch[axis] > room {
                grid.patch[axis] = room;
                grid.step[axis] = step(room, overlap[axis]).max(1);
            }
        }
        Ok(grid)
    }
}

impl Grid {
    /// The image's size with padding.
    pub(super) fn padded(&self) -> [usize; 3] {
        std::array::from_fn(|a| self.before[a] + self.image[a] + self.after[a])
    }

    /// The starts of the patches, with the first axis slowest.
    fn starts(&self) -> Vec<[i64; 3]> {
        let along = |axis: usize| -> Vec<i64> {
            let end = (self.image[axis] + self.after[axis]) as i64 - self.patch[axis] as i64;
            (self.offset[axis]..=end).step_by(self.step[axis]).collect()
        };
        let [first, second, third] = [along(0), along(1), along(2)];
        let rows = first.iter().flat_map(|x| second.iter().map(move |y| (*x, *y)));
        rows.flat_map(|(x, y)| third.iter().map(move |z| [x, y, *z])).collect()
    }
}
