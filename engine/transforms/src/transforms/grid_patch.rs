use std::collections::BTreeSet;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_image::spatial::PadMode;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::{AxisTaps, host, separable};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::patches::{Overlap, PatchGrid, Patches, iter_patch};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Divides images into a grid of patches: one sample per patch.
///
/// `offset` is the first patch's first voxel. `overlap` is a fraction of the patch, one number or
/// one per axis, channels first. With `pad_mode` the grid covers the image to its end, otherwise
/// only complete patches are used. With `threshold` only patches whose sum is less are kept. Of the
/// remaining ones, `num_patches` are kept: the first ones, or with `sort_fn` those with the
/// smallest (`min`) or largest (`max`) sum. If there are fewer, and no threshold, patches of
/// `constant_values` (by default 0) are added. `KEY_location` holds each patch's first voxel.
///
/// Differs from MONAI: patches are separate samples rather than one stack under the key.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::GridPatch};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0, 3.0, 4.0]));
/// let patches = tiny::run(GridPatch::new("image", [2, 1, 1]), sample)?;
/// assert_eq!(patches.len(), 2);
/// assert_eq!(patches[1].image("image")?.to_vec(), [3.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridPatch {
    keys: Keys,
    /// Size of a patch in voxels per axis.
    patch_size: Vec<usize>,
    #[serde(default)]
    offset: Vec<i64>,
    #[serde(default)]
    num_patches: Option<usize>,
    #[serde(default)]
    overlap: OneOrMany<f64>,
    #[serde(default)]
    sort_fn: Option<PatchOrder>,
    #[serde(default)]
    threshold: Option<f64>,
    #[serde(default)]
    pad_mode: Option<PadMode>,
    #[serde(default)]
    value: f32,
    #[serde(default)]
    constant_values: Option<f32>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The order of the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatchOrder {
    /// Ascending: those with the smallest sum are kept.
    Min,
    /// Descending: those with the largest sum are kept.
    Max,
    /// Random order ([`super::RandGridPatch`] only).
    Random,
}

/// The parameters of patches, shared by the grids at a given and at a random offset.
pub(super) struct Choice<'a> {
    pub patch_size: &'a [usize],
    pub overlap: &'a OneOrMany<f64>,
    pub num_patches: Option<usize>,
    pub sort_fn: Option<PatchOrder>,
    pub threshold: Option<f64>,
    pub pad_mode: Option<PadMode>,
    pub value: f32,
    pub fill: f32,
}

/// Returns the chosen patches of an image, and their positions.
pub type LocatedPatches = Vec<(Image, Vec<i64>)>;

impl Choice<'_> {
    /// Returns the patches from this offset on; `shuffled` returns a random order for a number of
    /// patches.
    pub(super) fn patches(
        &self,
        image: &Image,
        offset: &[i64],
        shuffled: impl Fn(usize) -> Vec<usize>,
    ) -> Result<LocatedPatches, TransformError> {
        let grid = PatchGrid::new([&[0], self.patch_size].concat())
            .start_pos([&[0], offset].concat())
            .overlap(Overlap::Fraction(self.overlap.clone()));
        let all = iter_patch(image, &grid, self.pad_mode.map(|mode| (mode, self.value)))?;
        let mut chosen: Vec<usize> = (0..all.len()).collect();
        let ordered = matches!(self.sort_fn, Some(PatchOrder::Min | PatchOrder::Max)) && self.num_patches.is_some();
        if self.threshold.is_some() || ordered {
            let sums = sums(&all)?;
            if let Some(threshold) = self.threshold {
                chosen.retain(|patch| sums[*patch] < threshold as f32);
            }
            match self.sort_fn.filter(|_| ordered) {
                Some(PatchOrder::Max) => chosen.sort_by(|a, b| (-sums[*a]).total_cmp(&-sums[*b])),
                Some(_) => chosen.sort_by(|a, b| sums[*a].total_cmp(&sums[*b])),
                None => {}
            }
        }
        let count = self.num_patches.filter(|count| *count > 0);
        if let Some(count) = count {
            if self.sort_fn == Some(PatchOrder::Random) {
                chosen = shuffled(chosen.len()).into_iter().map(|place| chosen[place]).collect();
            }
            chosen.truncate(count);
        }
        let mut out = Vec::with_capacity(chosen.len());
        for patch in chosen {
            let patch = all.get(patch)?;
            out.push((patch.image, patch.coords[1..].iter().map(|range| range.start).collect()));
        }
        if let (Some(count), None) = (count, self.threshold) {
            self.fill(image, &mut out, count);
        }
        Ok(out)
    }

    /// Appends patches of one value until there are enough.
    fn fill(&self, image: &Image, out: &mut LocatedPatches, count: usize) {
        let n = image.meta.spatial_dims;
        let size = PatchGrid::new(self.patch_size).patch_size(&image.shape()[..n]);
        let size: [usize; 3] = std::array::from_fn(|a| size.get(a).copied().unwrap_or(1));
        while out.len() < count {
            let mut filler = image.clone();
            let shape = [image.channels(), size[0], size[1], size[2]];
            filler.data = Tensor::full(shape, self.fill, &image.data.device());
            filler.meta.applied.clear();
            out.push((filler, vec![0; n]));
        }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        /// The maximum number of patches of a case.
        const MOST: usize = 1 << 24;
        if self.patch_size.is_empty() || self.patch_size.len() > 3 {
            return Err(Fault::at("patch_size", "must have one entry per axis; 0 means the whole axis"));
        }
        if self.num_patches.is_some_and(|n| n > MOST) {
            return Err(Fault::at("num_patches", format!("is more than {MOST}")));
        }
        match self.overlap.as_slice().iter().find(|o| !(0.0..1.0).contains(*o)) {
            Some(overlap) => {
                Err(Fault::at("overlap", format!("{overlap} is not a fraction of the patch (0 to below 1)")))
            }
            None => Ok(()),
        }
    }
}

/// Returns the sum of each patch, as f32.
fn sums(patches: &Patches) -> Result<Vec<f32>, TransformError> {
    let mut out = Vec::with_capacity(patches.len());
    let mut elsewhere = Vec::new();
    for patch in patches.iter() {
        let data = patch?.image.data;
        match host::read(&data, |values| values.iter().map(|v| f64::from(*v)).sum::<f64>() as f32) {
            Some(sum) => out.push(sum),
            None => elsewhere.push(channel_sums(data)),
        }
    }
    if elsewhere.is_empty() {
        return Ok(out);
    }
    let channels = elsewhere[0].dims()[0];
    // All sums are read in one transfer.
    let values: Vec<f32> =
        Tensor::cat(elsewhere, 0).try_into_vec_as().map_err(|error| TransformError::of_device(&error))?;
    Ok(values.chunks(channels).map(|sums| sums.iter().map(|v| f64::from(*v)).sum::<f64>() as f32).collect())
}

/// Returns the sum of each channel, `[C, 1, 1, 1]`: one axis after the other, because a reduction
/// is autotuned again for each size of a patch.
fn channel_sums(data: Tensor<4>) -> Tensor<4> {
    let [_, x, y, z] = data.dims();
    let all = |n: usize| AxisTaps::new(n, (0..n as u32).collect(), vec![1.0; n]);
    separable(data, &[all(x), all(y), all(z)])
}

/// Returns one sample per patch: the patches of all keys, which must have the same number, with
/// their positions.
pub(super) fn split(sample: &Sample, patches: Vec<(&str, LocatedPatches)>) -> Result<Vec<Sample>, TransformError> {
    let count = patches.first().map_or(0, |(_, list)| list.len());
    if let Some((key, list)) = patches.iter().find(|(_, list)| list.len() != count) {
        return Err(TransformError::new(format!("`{key}` gives {} patches", list.len()))
            .expected(format!("{count}, as `{}` gives", patches[0].0))
            .at(key));
    }
    let mut out = vec![sample.clone(); count];
    for (key, list) in patches {
        for (part, (image, location)) in out.iter_mut().zip(list) {
            let location: Arc<[f64]> = location.into_iter().map(|v| v as f64).collect();
            part.values.insert(key.to_owned(), Value::Image(image));
            part.values.insert(format!("{key}_location"), Value::Numbers(location));
        }
    }
    Ok(out)
}

impl GridPatch {
    /// Creates the transform: adjacent complete patches; 0 means the whole axis.
    pub fn new(keys: impl Into<Keys>, patch_size: impl Into<Vec<usize>>) -> Self {
        GridPatch {
            keys: keys.into(),
            patch_size: patch_size.into(),
            offset: Vec::new(),
            num_patches: None,
            overlap: OneOrMany::default(),
            sort_fn: None,
            threshold: None,
            pad_mode: None,
            value: 0.0,
            constant_values: None,
            allow_missing_keys: false,
        }
    }

    fn choice(&self) -> Choice<'_> {
        Choice {
            patch_size: &self.patch_size,
            overlap: &self.overlap,
            num_patches: self.num_patches,
            sort_fn: self.sort_fn,
            threshold: self.threshold,
            pad_mode: self.pad_mode,
            value: self.constant_values.unwrap_or(self.value),
            fill: self.constant_values.unwrap_or(0.0),
        }
    }

    /// Returns the patches of one image, and the first voxel of each.
    ///
    /// # Errors
    /// If the grid is not valid for this image.
    pub fn patches(&self, image: &Image) -> Result<LocatedPatches, TransformError> {
        self.choice().patches(image, &self.offset, |count| (0..count).collect())
    }
}

setters!(GridPatch {
    /// First voxel of the first patch.
    offset: Vec<i64>,
    /// Number of patches.
    num_patches: Option<usize>,
    /// Overlap of the patches as a fraction.
    overlap: OneOrMany<f64>,
    /// Order of the patches.
    sort_fn: Option<PatchOrder>,
    /// Upper limit of the sum of the patches that are kept.
    threshold: Option<f64>,
    /// Padding with which the grid covers the image to its end.
    pad_mode: Option<PadMode>,
    /// Constant of [`PadMode::Constant`].
    value: f32,
    /// Constant that replaces `value`, and also fills added patches.
    constant_values: Option<f32>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for GridPatch {
    fn name(&self) -> &'static str {
        "GridPatch"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mut found = Vec::new();
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let patches = sample.image(key).and_then(|image| self.patches(image));
            found.push((key, patches.map_err(|e| e.at(key))?));
        }
        split(&sample, found)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.choice().check()?;
        if self.sort_fn == Some(PatchOrder::Random) {
            return Err(Fault::at("sort_fn", "random needs RandGridPatch; here it is min or max"));
        }
        known.extend(self.keys.iter().map(|key| format!("{key}_location")));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    GridPatch,
    r#"keys = ["image"]
patch_size = [8, 8, 8]"#
);
