//! Lazy resampling: a run of spatial steps is sampled once, when the values are read.
//!
//! A lazy image carries its pending operations; its affine, shape and history are already those of
//! the result.
//!
//! - [`Lazy::Exact`] (the default) delays one interpolation and the flips, permutations and crops
//!   after it. Only the remaining voxels are computed, at exactly the same coordinates as without a
//!   crop.
//! - [`Lazy::On`] composes several interpolations into one matrix, as MONAI's `lazy=True` does.

use hearth_kernels::{Matrix, Sampling, resample, resample_part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grid::{reading, same, tidy};
use super::window::window;
use super::{BoundingBox, GridMode, GridPadding, GridSampling, PadMode};
use crate::TransformError;
use crate::affine::{self, Affine};
use crate::image::Image;
use crate::orientation::Reorder;

/// Whether and how a pipeline samples a run of spatial steps only once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lazy {
    /// Each step is sampled separately.
    Off,
    /// Steps are combined only where the result is the same.
    #[default]
    Exact,
    /// Consecutive interpolations are combined into one, which is faster and blurs less, but the
    /// result differs from that of separate steps.
    On,
}

/// The sampling of a key under [`Lazy::On`], which overrides that of its steps: MONAI's `overrides` of
/// `Compose`.
///
/// Without overrides, steps with different sampling run separately. With overrides all steps are
/// combined, including padding. The defaults are linear interpolation and the edge voxel, or 0
/// where nothing needs to be interpolated. That is MONAI's general behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LazySampling {
    /// How a value between voxels is computed.
    pub mode: Option<GridMode>,
    /// The values outside the image.
    pub padding_mode: Option<GridPadding>,
    /// Alignment of corners: see [`GridSampling::align_corners`].
    pub align_corners: Option<bool>,
}

/// The lazy state of an image.
#[derive(Clone, Debug, Default)]
pub(crate) enum Laziness {
    /// Each step runs immediately.
    #[default]
    Off,
    /// One interpolation is pending.
    Exact(Option<Box<Part>>),
    /// Steps are composed into one matrix.
    On(Option<LazySampling>, Option<Box<Chain>>),
}

impl Laziness {
    /// The shape of the result if operations are pending.
    pub fn shape(&self) -> Option<[usize; 3]> {
        match self {
            Laziness::Exact(Some(part)) => Some(part.view.shape()),
            Laziness::On(_, Some(chain)) => Some(chain.shape),
            _ => None,
        }
    }
}

/// One interpolation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Matrix from a new voxel to the old voxel at the same position in the world.
    pub place: Affine,
    /// Matrix from a new voxel to the position that is read.
    pub read: Affine,
    pub size: [usize; 3],
    pub sampling: GridSampling,
}

/// An interpolation, and the required part of its result.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    matrix: Matrix,
    sampling: Sampling,
    view: View,
}

/// A box of a grid with reordered axes.
#[derive(Clone, Copy, Debug)]
struct View {
    origin: [usize; 3],
    /// Size of the box, along the axes of the grid.
    size: [usize; 3],
    turn: Reorder,
}

impl View {
    fn shape(&self) -> [usize; 3] {
        self.turn.source.map(|axis| self.size[axis])
    }

    fn cropped(mut self, start: [usize; 3], end: [usize; 3]) -> Self {
        for a in 0..3 {
            let axis = self.turn.source[a];
            let first = if self.turn.flip[a] { self.size[axis].saturating_sub(end[a]) } else { start[a] };
            self.origin[axis] += first;
            self.size[axis] = end[a].saturating_sub(start[a]);
        }
        self
    }

    fn turned(mut self, how: &Reorder) -> Self {
        self.turn = Reorder {
            source: how.source.map(|axis| self.turn.source[axis]),
            flip: std::array::from_fn(|a| how.flip[a] != self.turn.flip[how.source[a]]),
        };
        self
    }
}

/// Steps that were combined into one matrix.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Matrix from a new voxel to a voxel of the values.
    matrix: Affine,
    /// Matrix to the read positions, while there is only one step.
    read: Option<Affine>,
    shape: [usize; 3],
    sampling: Option<GridSampling>,
    /// The affine of the values.
    affine: Affine,
}

/// Starts lazy evaluation of the image. Pending operations stay pending if their mode is the same.
pub fn begin(image: &mut Image, lazy: Lazy, instead: Option<LazySampling>) {
    match (&image.meta.lazy, lazy) {
        (Laziness::Off, Lazy::Exact) => image.meta.lazy = Laziness::Exact(None),
        (Laziness::Off, Lazy::On) => image.meta.lazy = Laziness::On(instead, None),
        _ => {}
    }
}

/// Applies the pending operations, and ends lazy evaluation.
///
/// # Errors
/// If an empty image would have to be padded with its own voxels.
pub fn end(image: Image) -> Result<Image, TransformError> {
    let mut image = flush(image)?;
    image.meta.lazy = Laziness::Off;
    Ok(image)
}

/// Applies the pending operations; lazy evaluation continues.
pub(super) fn flush(mut image: Image) -> Result<Image, TransformError> {
    match std::mem::take(&mut image.meta.lazy) {
        Laziness::Off => {}
        Laziness::Exact(part) => {
            if let Some(part) = part {
                let View { origin, size, turn } = part.view;
                let data = resample_part(image.data, &part.matrix, origin, size, part.sampling);
                image.data = super::reorder::reorder_tensor(data, &turn);
            }
            image.meta.lazy = Laziness::Exact(None);
        }
        Laziness::On(instead, chain) => {
            if let Some(chain) = chain {
                image = chain.apply(image, instead)?;
            }
            image.meta.lazy = Laziness::On(instead, None);
        }
    }
    Ok(image)
}

/// Samples an image immediately, or records the sampling for later.
pub(super) fn sample(image: Image, step: Step) -> Result<Image, TransformError> {
    let image = match &image.meta.lazy {
        Laziness::Off => {
            let mut image = image;
            image.data = read(image.data, step.read, step.size, step.sampling);
            return Ok(image);
        }
        Laziness::Exact(_) => flush(image)?,
        Laziness::On(None, Some(chain)) if chain.sampling != Some(step.sampling) => flush(image)?,
        Laziness::On(..) => image,
    };
    let mut image = image;
    let affine = image.affine;
    match &mut image.meta.lazy {
        Laziness::Off => {}
        Laziness::Exact(part) => {
            let mut matrix = step.read;
            tidy(&mut matrix, step.size);
            let view = View { origin: [0; 3], size: step.size, turn: Reorder::NONE };
            let matrix = [matrix[0], matrix[1], matrix[2]];
            *part = Some(Box::new(Part { matrix, sampling: step.sampling.kernel(), view }));
        }
        Laziness::On(_, chain) => {
            let read = chain.is_none().then_some(step.read);
            let chain = Chain::of(chain, affine);
            chain.add(&step.place, step.size);
            chain.read = read;
            chain.sampling = Some(step.sampling);
        }
    }
    Ok(image)
}

/// Records a crop if it can be delayed; returns `false` if it must run now.
pub(super) fn crop(image: &mut Image, start: [usize; 3], end: [usize; 3]) -> bool {
    let affine = image.affine;
    match &mut image.meta.lazy {
        Laziness::Exact(Some(part)) => part.view = part.view.cropped(start, end),
        Laziness::On(instead, chain) if instead.is_some() || chain.is_some() => {
            let size: [usize; 3] = std::array::from_fn(|a| end[a].saturating_sub(start[a]));
            if size.contains(&0) {
                return false;
            }
            Chain::of(chain, affine).add(&affine::translation(start.map(|v| v as f64)), size);
        }
        _ => return false,
    }
    true
}

/// Records flips and permutations if they can be delayed; returns `false` if they must run now.
pub(super) fn reorder(image: &mut Image, how: &Reorder) -> bool {
    let (affine, shape) = (image.affine, image.shape());
    match &mut image.meta.lazy {
        Laziness::Exact(Some(part)) => part.view = part.view.turned(how),
        Laziness::On(instead, chain) if instead.is_some() || chain.is_some() => {
            Chain::of(chain, affine).add(&how.matrix(shape), how.source.map(|axis| shape[axis]));
        }
        _ => return false,
    }
    true
}

/// Records a change of scale that MONAI's lazy evaluation treats as an affine in any mode; returns
/// `false` if it must run now.
pub(super) fn rescale(image: &mut Image, place: &Affine, size: [usize; 3]) -> bool {
    let affine = image.affine;
    match &mut image.meta.lazy {
        Laziness::On(Some(_), chain) => {
            Chain::of(chain, affine).add(place, size);
            true
        }
        _ => false,
    }
}

/// Records padding if it can be delayed; returns `false` if it must run now.
pub(super) fn pad(image: &mut Image, before: [usize; 3], after: [usize; 3]) -> bool {
    let (affine, shape) = (image.affine, image.shape());
    match &mut image.meta.lazy {
        Laziness::On(Some(_), chain) => {
            let size = std::array::from_fn(|a| before[a] + shape[a] + after[a]);
            Chain::of(chain, affine).add(&affine::translation(before.map(|v| -(v as f64))), size);
            true
        }
        _ => false,
    }
}

/// Samples values through a matrix from new to old voxels.
pub(super) fn read(
    data: burn::tensor::Tensor<4>,
    mut matrix: Affine,
    size: [usize; 3],
    sampling: GridSampling,
) -> burn::tensor::Tensor<4> {
    tidy(&mut matrix, size);
    let [_, x, y, z] = data.dims();
    if [x, y, z] == size && matrix == affine::IDENTITY {
        return data;
    }
    resample(data, &[matrix[0], matrix[1], matrix[2]], size, sampling.kernel())
}

impl Chain {
    /// The chain of an image, created if there is none.
    fn of(chain: &mut Option<Box<Chain>>, affine: Affine) -> &mut Chain {
        chain.get_or_insert_with(|| {
            Box::new(Chain { matrix: affine::IDENTITY, read: None, shape: [0; 3], sampling: None, affine })
        })
    }

    fn add(&mut self, place: &Affine, size: [usize; 3]) {
        self.matrix = affine::compose(&self.matrix, place);
        self.read = None;
        self.shape = size;
    }

    /// The last part of MONAI's `apply_pending`.
    fn apply(self, mut image: Image, instead: Option<LazySampling>) -> Result<Image, TransformError> {
        let mut sampling = self.sampling.unwrap_or_default();
        let mut outside = GridPadding::Zeros;
        if let Some(instead) = instead {
            outside = instead.padding_mode.unwrap_or(GridPadding::Zeros);
            sampling = GridSampling {
                mode: instead.mode.unwrap_or_default(),
                padding_mode: instead.padding_mode.unwrap_or_default(),
                align_corners: instead.align_corners.unwrap_or(sampling.align_corners),
            };
        }
        let [_, x, y, z] = image.data.dims();
        let shape = [x, y, z];
        if !sampling.align_corners
            && let Some((turn, start)) = whole_voxels(&self.matrix, shape)
        {
            let end = std::array::from_fn(|a| start[a] + self.shape[a] as i64);
            let mode = match outside {
                GridPadding::Zeros | GridPadding::GridConstant => PadMode::Constant,
                GridPadding::Border => PadMode::Edge,
                GridPadding::Reflection | GridPadding::Mirror => PadMode::Reflect,
                GridPadding::Wrap | GridPadding::GridWrap => PadMode::Wrap,
            };
            let turned = super::reorder::reorder_tensor(image.data, &turn);
            image.data = window(turned, BoundingBox { start, end }, mode, 0.0)?;
            return Ok(image);
        }
        let n = image.meta.spatial_dims;
        let destination = affine::compose(&self.affine, &self.matrix);
        if shape == self.shape && (same(&self.affine, &destination) || same(&self.matrix, &affine::IDENTITY)) {
            return Ok(image);
        }
        let matrix = match self.read {
            Some(read) if !matches!(sampling.mode, GridMode::Spline(_)) => read,
            _ => reading(self.matrix, shape, self.shape, n, sampling),
        };
        image.data = read(image.data, matrix, self.shape, sampling);
        Ok(image)
    }
}

/// The tolerance for whole numbers in a matrix that only moves voxels (MONAI's `AFFINE_TOL`).
const WHOLE: f64 = 1e-3;

/// The permutation, flips and shift of a matrix that needs no interpolation.
fn whole_voxels(matrix: &Affine, shape: [usize; 3]) -> Option<(Reorder, [i64; 3])> {
    let near = |value: f64, whole: f64| (value - whole).abs() <= WHOLE + 1e-5 * whole.abs();
    let mut turn = Reorder { source: [3; 3], flip: [false; 3] };
    let mut start = [0; 3];
    for (axis, row) in matrix.iter().enumerate().take(3) {
        if !near(row[3], row[3].round()) {
            return None;
        }
        let mut ones = (0..3).filter(|c| near(row[*c].abs(), 1.0));
        let column = ones.next().filter(|_| ones.next().is_none())?;
        if turn.source[column] != 3 || (0..3).any(|c| c != column && !near(row[c], 0.0)) {
            return None;
        }
        let shift = row[3].round() as i64;
        turn.source[column] = axis;
        turn.flip[column] = row[column] < 0.0;
        start[column] = if row[column] < 0.0 { shape[axis] as i64 - 1 - shift } else { shift };
    }
    Some((turn, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_crop_and_turn_as_images_do() {
        let whole = View { origin: [0; 3], size: [5, 6, 7], turn: Reorder::NONE };
        let how = Reorder { source: [2, 0, 1], flip: [true, false, false] };
        let view = whole.turned(&how).cropped([1, 0, 2], [4, 3, 6]);
        assert_eq!(view.shape(), [3, 3, 4]);
        // Output axis 0 is grid axis 2, backwards: its voxels 1..4 are the grid's 3..6.
        assert_eq!((view.origin, view.size), ([0, 2, 3], [3, 4, 3]));
        let again = view.turned(&how);
        assert_eq!((again.turn.source, again.turn.flip), ([1, 2, 0], [true, true, false]));
    }

    #[test]
    fn only_whole_moves_need_no_interpolation() {
        let mut matrix = [[0.0, -1.0, 0.0, 4.0], [1.0002, 0.0, 0.0, -2.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let (turn, start) = whole_voxels(&matrix, [5, 6, 7]).expect("whole voxels");
        assert_eq!((turn.source, turn.flip, start), ([1, 0, 2], [false, true, false], [-2, 0, 0]));
        matrix[0][3] = 4.01;
        assert!(whole_voxels(&matrix, [5, 6, 7]).is_none());
    }
}
