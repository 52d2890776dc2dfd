//! Distances between the surfaces of a predicted and a true mask, for the surface metrics.

mod chamfer;
mod normals;
mod subvoxel;

use burn::tensor::Tensor;
use hearth_kernels::label::{self, LabelError, To};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MetricError;
use super::inputs::{foreground, read, without_ignored};
use chamfer::{Steps, steps};

/// The measure of distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DistanceMetric {
    /// Straight-line distance, in units of the spacing.
    #[default]
    Euclidean,
    /// The largest difference along an axis, in voxels.
    Chessboard,
    /// The sum of the differences along the axes, in voxels.
    Taxicab,
}

/// The masks of all items and classes, read from the device.
pub(super) struct Masks {
    pred: Vec<f32>,
    label: Vec<f32>,
    pub(super) items: usize,
    pub(super) classes: usize,
    /// The first class: 1 without the background, if the background has its own channel.
    pub(super) first: usize,
    size: [usize; 3],
}

impl Masks {
    /// Reads the masks, without the background if requested, and empty at ignored voxels.
    pub(super) fn new(
        metric: &'static str,
        (pred, label): (&Tensor<5>, &Tensor<5>),
        include_background: bool,
        ignore_index: Option<i64>,
    ) -> Result<Self, MetricError> {
        let (mut pred, mut label) = without_ignored(metric, pred, label, ignore_index)?;
        if !include_background {
            (pred, label) = (foreground(pred), foreground(label));
        }
        let [items, classes, nx, ny, nz] = pred.dims();
        let first = usize::from(!include_background);
        let (pred, label) = (read(metric, pred)?, read(metric, label)?);
        Ok(Masks { pred, label, items, classes, first, size: [nx, ny, nz] })
    }

    /// The masks of one item and class.
    pub(super) fn pair(&self, item: usize, class: usize) -> Pair {
        let volume = self.size.iter().product::<usize>();
        let start = (item * self.classes + class) * volume;
        let set = |values: &[f32]| values[start..start + volume].par_iter().map(|v| *v == 1.0).collect();
        Pair { pred: set(&self.pred), label: set(&self.label), size: self.size }
    }
}

/// The spacing of an item: its own, the common one, or 1.
pub(super) fn spacing_of(
    metric: &'static str,
    spacing: &[[f64; 3]],
    item: usize,
    items: usize,
) -> Result<[f64; 3], MetricError> {
    let own = match spacing {
        [] => return Ok([1.0; 3]),
        [all] => *all,
        each if each.len() == items => each[item],
        each => {
            let reason = format!("{} spacings for {items} items: give one, or one per item", each.len());
            return Err(MetricError::Option { key: "", metric, reason });
        }
    };
    match own.iter().all(|s| s.is_finite() && *s > 0.0) {
        true => Ok(own),
        false => {
            Err(MetricError::Option { key: "", metric, reason: format!("spacing {own:?}: expected numbers above 0") })
        }
    }
}

/// A predicted and a true mask.
pub(super) struct Pair {
    pub(super) pred: Vec<bool>,
    pub(super) label: Vec<bool>,
    pub(super) size: [usize; 3],
}

impl Pair {
    /// The part of both masks that contains all set voxels, with a margin of unset voxels around it
    /// (no margin on an axis of length 1).
    fn cropped(self, margin: usize) -> Self {
        let [nx, ny, nz] = self.size;
        let (mut low, mut high) = ([usize::MAX; 3], [0; 3]);
        for (line, (p, l)) in self.pred.chunks(nz.max(1)).zip(self.label.chunks(nz.max(1))).enumerate() {
            let Some(first) = p.iter().zip(l).position(|(p, l)| *p | *l) else { continue };
            let last = p.iter().zip(l).rposition(|(p, l)| *p | *l).unwrap_or(first);
            let (x, y) = (line / ny, line % ny);
            low = [low[0].min(x), low[1].min(y), low[2].min(first)];
            high = [high[0].max(x + 1), high[1].max(y + 1), high[2].max(last + 1)];
        }
        if high == [0; 3] {
            (low, high) = ([0; 3], [0; 3]);
        }
        let around = [nx, ny, nz].map(|n| if n == 1 { 0 } else { margin });
        let size: [usize; 3] = std::array::from_fn(|a| high[a] - low[a] + 2 * around[a]);
        let cut = |mask: &[bool]| {
            let mut out = vec![false; size.iter().product()];
            for x in low[0]..high[0] {
                for y in low[1]..high[1] {
                    let from = (x * ny + y) * nz;
                    let to = ((x - low[0] + around[0]) * size[1] + y - low[1] + around[1]) * size[2] + around[2];
                    out[to..to + high[2] - low[2]].copy_from_slice(&mask[from + low[2]..from + high[2]]);
                }
            }
            out
        };
        Pair { pred: cut(&self.pred), label: cut(&self.label), size }
    }

    /// Set voxels with an unset neighbour, or at the edge of the image.
    pub(super) fn surfaces(self) -> Result<Surfaces, LabelError> {
        let Pair { pred, label, size } = self.cropped(0);
        let edges = |mask: &[bool]| label::surface(mask, axes(&size), 1);
        Ok(Surfaces { pred: edges(&pred)?, label: edges(&label)?, size, areas: None })
    }

    /// The cells between voxels that the surfaces cross, with the surface area in each.
    pub(super) fn between_voxels(self, spacing: [f64; 3]) -> Surfaces {
        let Pair { pred, label, size } = self.cropped(1);
        if size.contains(&0) || size[0] < 2 || size[1] < 2 {
            return Surfaces {
                pred: Vec::new(),
                label: Vec::new(),
                size: [0; 3],
                areas: Some([Vec::new(), Vec::new()]),
            };
        }
        let (pred, label) = (subvoxel::cells(&pred, size, spacing), subvoxel::cells(&label, size, spacing));
        let size = size.map(|n| if n == 1 { 1 } else { n - 1 });
        Surfaces { pred: pred.edge, label: label.edge, size, areas: Some([pred.area, label.area]) }
    }
}

/// The axes of a volume; an image with `z = 1` has two.
fn axes(size: &[usize; 3]) -> &[usize] {
    if size[2] == 1 { &size[..2] } else { size }
}

/// One of the two surfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Pred,
    Label,
}

/// The surfaces of a predicted and a true mask.
pub(super) struct Surfaces {
    pred: Vec<bool>,
    label: Vec<bool>,
    size: [usize; 3],
    areas: Option<[Vec<f32>; 2]>,
}

impl Surfaces {
    fn of(&self, side: Side) -> &[bool] {
        match side {
            Side::Pred => &self.pred,
            Side::Label => &self.label,
        }
    }

    /// The area of each element of a surface, in order; `None` if surfaces consist of voxels.
    pub(super) fn areas(&self, side: Side) -> Option<Vec<f32>> {
        let [pred, label] = self.areas.as_ref()?;
        let areas = if side == Side::Pred { pred } else { label };
        Some(self.of(side).iter().zip(areas).filter(|(edge, _)| **edge).map(|(_, area)| *area).collect())
    }

    /// The distance of every element of a surface, in order, to the nearest element of the other.
    ///
    /// Infinite if the other surface is empty. If this one is empty, returns one infinite value for
    /// every element of the other, as in MONAI.
    pub(super) fn distances(
        &self,
        from: Side,
        metric: DistanceMetric,
        spacing: [f64; 3],
    ) -> Result<Vec<f32>, LabelError> {
        let (from, to) = match from {
            Side::Pred => (&self.pred, &self.label),
            Side::Label => (&self.label, &self.pred),
        };
        let places = |edges: &[bool]| edges.iter().filter(|edge| **edge).count();
        let (here, there) = (places(from), places(to));
        if here == 0 || there == 0 {
            return Ok(vec![f32::INFINITY; here.max(there)]);
        }
        let on_surface = |distances: &[f32]| -> Vec<f32> {
            from.iter().zip(distances).filter(|(edge, _)| **edge).map(|(_, distance)| *distance).collect()
        };
        let kind = match metric {
            DistanceMetric::Euclidean => {
                let axes = axes(&self.size);
                return Ok(on_surface(&label::distances(to, axes, &spacing[..axes.len()], To::Set)?));
            }
            DistanceMetric::Chessboard => Steps::Chessboard,
            DistanceMetric::Taxicab => Steps::Taxicab,
        };
        let counted: Vec<f32> = steps(to, self.size, kind).into_iter().map(|n| n as f32).collect();
        Ok(on_surface(&counted))
    }
}
