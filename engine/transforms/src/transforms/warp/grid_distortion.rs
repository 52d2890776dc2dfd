use std::collections::BTreeSet;

use burn::tensor::{Tensor, TensorData};
use hearth_image::spatial::{GridMode, GridPadding, GridSampling, deform};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Stretches and squeezes the cells of a grid: `num_cells` along each axis (one number, or one per
/// axis). Their widths are multiplied by `distort_steps`, a list per axis with one factor for each
/// cell and one for the remainder after the last. It cannot be inverted.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::GridDistortion};
/// // The first half is stretched, so that its voxels come from nearer to the beginning.
/// let steps = vec![vec![0.5, 1.5, 1.0], vec![1.0; 3], vec![1.0; 3]];
/// let ramp = tiny::ramp([1, 8, 1, 1]);
/// let step = GridDistortion::new("image", [2, 1, 1], steps);
/// let values = tiny::apply(step, ramp.clone())?.to_vec();
/// assert!(values[3] < ramp.to_vec()[3]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridDistortion {
    keys: Keys,
    /// Number of cells, one or per axis.
    num_cells: OneOrMany<usize>,
    /// For each axis a factor for each cell and one for the remainder after the last.
    distort_steps: Vec<Vec<f64>>,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl GridDistortion {
    /// Creates the transform: linear, with repeated edge voxels.
    pub fn new(keys: impl Into<Keys>, num_cells: impl Into<OneOrMany<usize>>, distort_steps: Vec<Vec<f64>>) -> Self {
        GridDistortion {
            keys: keys.into(),
            num_cells: num_cells.into(),
            distort_steps,
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            allow_missing_keys: false,
        }
    }

    /// Distorts one image; `place` is the index of its key.
    ///
    /// # Errors
    /// Those of [`distort`].
    pub fn distort(&self, image: Image, place: usize) -> Result<Image, TransformError> {
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, false);
        distort(image, &self.num_cells, &self.distort_steps, sampling)
    }
}

/// Distorts an image by a list of factors per axis.
///
/// # Errors
/// If there are more cells than voxels along an axis, or `distort_steps` does not have a list for
/// each axis with one more entry than cells.
pub fn distort(
    image: Image,
    num_cells: &OneOrMany<usize>,
    distort_steps: &[Vec<f64>],
    sampling: GridSampling,
) -> Result<Image, TransformError> {
    let (shape, n) = (image.shape(), image.meta.spatial_dims);
    if distort_steps.len() != n {
        return Err(TransformError::new(format!("factors for {} axes", distort_steps.len()))
            .expected(format!("a list for each of the image's {n} axes")));
    }
    let mut lines = [vec![0.0], vec![0.0], vec![0.0]];
    for (axis, steps) in distort_steps.iter().enumerate() {
        lines[axis] = places(shape[axis], num_cells.at(axis).unwrap_or(0), steps)?;
    }
    let device = image.data.device();
    let full = |axis: usize| {
        let mut along = [1; 4];
        along[axis + 1] = shape[axis];
        let line = TensorData::new(lines[axis].clone(), [shape[axis]]);
        Tensor::<1>::from_data(line, &device).reshape(along).expand([1, shape[0], shape[1], shape[2]])
    };
    deform(image, Tensor::cat(vec![full(0), full(1), full(2)], 0), sampling)
}

/// The position that each voxel of an axis of `n` voxels reads. Voxels beyond the cells and the
/// remainder read voxel 0, as in MONAI.
fn places(n: usize, cells: usize, steps: &[f64]) -> Result<Vec<f32>, TransformError> {
    if cells == 0 || cells > n {
        return Err(TransformError::new(format!("{cells} cells along an axis of {n} voxels"))
            .expected("at least one cell, and at most the number of voxels"));
    }
    if steps.len() <= cells || steps.iter().any(|s| !s.is_finite()) {
        return Err(TransformError::new(format!("the factors {steps:?} for {cells} cells"))
            .expected(format!("{} finite numbers", cells + 1)));
    }
    // PyTorch's sampler halves the distance from the centre along an axis of one voxel.
    if n == 1 {
        return Ok(vec![0.0]);
    }
    let width = n / cells;
    let mut out = vec![0.0; n];
    let mut before = 0.0;
    for (cell, step) in steps[..=cells].iter().enumerate() {
        let start = cell * width;
        let end = (start + width).min(n);
        let after = if start + width > n { n as f64 } else { before + width as f64 * step };
        let steps = (end - start).saturating_sub(1).max(1) as f64;
        for (i, place) in out[start..end].iter_mut().enumerate() {
            *place = (before + (after - before) * i as f64 / steps) as f32;
        }
        before = after;
    }
    Ok(out)
}

setters!(GridDistortion {
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for GridDistortion {
    fn name(&self) -> &'static str {
        "GridDistortion"
    }

    fn effect(&self) -> Effect {
        Effect::Moves
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.distort(image, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        check_cells(&self.num_cells)?;
        for (axis, steps) in self.distort_steps.iter().enumerate() {
            let cells = self.num_cells.at(axis).unwrap_or(0);
            if steps.len() != cells + 1 || steps.iter().any(|s| !s.is_finite()) {
                return Err(Fault::at(
                    "distort_steps",
                    format!("must have {} finite numbers for the {cells} cells of axis {axis}", cells + 1),
                ));
            }
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

/// The maximum number of cells along an axis; an image has at least a voxel for each.
const MOST_CELLS: usize = 1 << 16;

/// Checks that there is at least one cell along each axis, and no more than an image has voxels.
pub(super) fn check_cells(cells: &OneOrMany<usize>) -> Result<(), Fault> {
    match cells.as_slice() {
        cells if cells.is_empty() || cells.len() > 3 || cells.contains(&0) => {
            Err(Fault::at("num_cells", "must be one positive number, or one per axis"))
        }
        cells => match cells.iter().find(|cells| **cells > MOST_CELLS) {
            Some(many) => Err(Fault::at("num_cells", format!("{many} is more than {MOST_CELLS} along an axis"))),
            None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ranges` of MONAI 1.6.1's `GridDistortion`, plus (n - 1) / 2.
    #[test]
    fn places_are_monais() {
        let close = |got: Vec<f32>, expected: &[f32]| {
            assert_eq!(got.len(), expected.len());
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} for {expected:?}");
        };
        close(places(7, 2, &[1.2, 0.8, 1.0]).expect("places"), &[0.0, 1.8, 3.6, 3.6, 4.8, 6.0, 6.0]);
        // Two voxels after the last cell stay at 0.
        close(
            places(14, 5, &[1.0, 1.5, 0.5, 1.0, 1.0, 1.0]).expect("places"),
            &[0.0, 2.0, 2.0, 5.0, 5.0, 6.0, 6.0, 8.0, 8.0, 10.0, 10.0, 12.0, 0.0, 0.0],
        );
        assert!(places(3, 4, &[1.0; 5]).is_err());
        assert!(places(8, 4, &[1.0; 4]).is_err());
        assert!(places(8, 0, &[1.0]).is_err());
    }
}

transform_entry!(
    GridDistortion,
    r#"keys = ["image"]
num_cells = 2
distort_steps = [[1.0, 1.1, 0.9], [1.0, 1.1, 0.9], [1.0, 1.0, 1.0]]"#
);
