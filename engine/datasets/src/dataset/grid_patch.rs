//! [`GridPatchDataset`]: the images of another data set as a grid of patches.

use std::sync::Arc;

use hearth_image::TransformError;
use hearth_image::spatial::PadMode;
use hearth_transforms::patches::{PatchGrid, Patches, iter_patch};
use hearth_transforms::{Keys, Sample, Value};

use super::{Dataset, guarded};
use crate::DataError;

/// The key of a patch's position: first and last voxel (exclusive) per axis, the channels first.
const COORDS: &str = "patch_coords";
/// The key of the shape of a patch's image.
const SHAPE: &str = "original_spatial_shape";

/// All patches of a grid over every image of another data set, in order.
///
/// The patches of a case are samples of that case; a [`PatchLoader`](crate::PatchLoader) makes
/// batches of a fixed number of patches, and a [`PatchDataset`](super::PatchDataset) around it
/// applies further steps to each. With [`with_coordinates`](Self::with_coordinates), the default, a
/// patch holds its position (`patch_coords`, with padding possibly beyond the image) and the size
/// of the image (`original_spatial_shape`).
pub struct GridPatchDataset {
    dataset: Arc<dyn Dataset>,
    keys: Keys,
    grid: PatchGrid,
    padding: Option<(PadMode, f32)>,
    with_coordinates: bool,
}

impl GridPatchDataset {
    /// Creates patches of `patch_size` voxels (per spatial axis; 0 and omitted axes mean the whole
    /// axis) of the images of these keys, which are divided in the same way. By default, as in
    /// MONAI, patches beyond the end repeat the image.
    pub fn new(dataset: impl Dataset + 'static, keys: impl Into<Keys>, patch_size: &[usize]) -> Self {
        // A grid over the image's axes; channels are not divided.
        let grid = PatchGrid::new([&[0][..], patch_size].concat());
        let padding = Some((PadMode::Wrap, 0.0));
        GridPatchDataset { dataset: Arc::new(dataset), keys: keys.into(), grid, padding, with_coordinates: true }
    }

    /// Sets the position of the first patch: channels, then spatial axes, as in MONAI; omitted
    /// entries are 0.
    pub fn start_pos(mut self, start_pos: &[i64]) -> Self {
        self.grid = self.grid.start_pos(start_pos);
        self
    }

    /// Sets the padding of patches beyond the image, and the constant of [`PadMode::Constant`].
    /// With `None` patches are only within the image.
    pub fn padding(mut self, padding: Option<(PadMode, f32)>) -> Self {
        self.padding = padding;
        self
    }

    /// Selects whether patches hold their positions.
    pub fn with_coordinates(mut self, with_coordinates: bool) -> Self {
        self.with_coordinates = with_coordinates;
        self
    }

    fn patches(&self, sample: &Sample) -> Result<Vec<Sample>, TransformError> {
        let mut divided: Vec<(&str, Patches)> = Vec::with_capacity(self.keys.len());
        for key in self.keys.iter() {
            let image = sample.image(key).map_err(|e| e.at(key))?;
            let patches = iter_patch(image, &self.grid, self.padding).map_err(|e| e.at(key))?;
            if let Some((first, others)) = divided.first()
                && others.len() != patches.len()
            {
                let counts = format!("`{key}` has {} patches, `{first}` has {}", patches.len(), others.len());
                return Err(TransformError::new(counts).expected("images of one size"));
            }
            divided.push((key, patches));
        }
        let Some((first, patches)) = divided.first() else { return Ok(Vec::new()) };
        let shape = sample.image(first)?.spatial_shape();
        let mut out = Vec::with_capacity(patches.len());
        for index in 0..patches.len() {
            let mut part = sample.clone();
            for (place, (key, patches)) in divided.iter().enumerate() {
                let patch = patches.get(index).map_err(|e| e.at(key))?;
                if place == 0 && self.with_coordinates {
                    let coords: Vec<f64> = patch.coords.iter().flat_map(|c| [c.start as f64, c.end as f64]).collect();
                    part = part.with(COORDS, Value::Numbers(coords.into()));
                    let shape: Vec<f64> = shape.iter().map(|n| *n as f64).collect();
                    part = part.with(SHAPE, Value::Numbers(shape.into()));
                }
                part = part.with_image(*key, patch.image);
            }
            out.push(part);
        }
        Ok(out)
    }
}

impl Dataset for GridPatchDataset {
    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn case(&self, index: usize) -> &str {
        self.dataset.case(index)
    }

    fn begin_epoch(&self, epoch: u64) {
        self.dataset.begin_epoch(epoch);
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let samples = self.dataset.get(index, epoch)?;
        let case = self.dataset.case(index);
        guarded(case, || {
            let mut out = Vec::new();
            for sample in &samples {
                let patches = self.patches(sample);
                out.extend(patches.map_err(|e| DataError::Option(format!("case {case} can't be divided: {e}")))?);
            }
            Ok(out)
        })
    }
}
