//! Patch merging, which halves the size between stages of the Swin transformer (`PatchMerging`,
//! `PatchMergingV2`).

use burn::module::Module;
use burn::tensor::{Slice, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::swin_transformer_block::pad_end;
use crate::layers::{LayerNorm, Linear, Scope};

/// The order in which the neighbours of a merged position are concatenated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Merging {
    /// Offsets 000, 100, 010, 001, 110, 101, 011, 111: MONAI's default since 1.5.
    #[default]
    Merging,
    /// Lexicographic order: 000, 001, 010, ..., 111.
    MergingV2,
    /// The default before 1.5, which uses two neighbours twice and omits two; for weights from
    /// those versions.
    MergingLegacy,
}

impl Merging {
    fn offsets(self, spatial_dims: usize) -> &'static [[usize; 3]] {
        match (spatial_dims, self) {
            (2, _) => &[[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
            (_, Merging::Merging) => {
                &[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
            }
            (_, Merging::MergingV2) => {
                &[[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
            }
            (_, Merging::MergingLegacy) => {
                &[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
            }
        }
    }
}

/// Concatenates neighbours, normalizes them and reduces them to twice the features (Liu et al.,
/// <https://arxiv.org/abs/2103.14030>). Odd axes are padded with zeros.
#[derive(Module, Debug)]
pub struct PatchMerging {
    /// The linear layer to twice the features.
    pub reduction: Linear,
    /// The norm of the concatenated neighbours.
    pub norm: LayerNorm,
    #[module(skip)]
    offsets: &'static [[usize; 3]],
    #[module(skip)]
    spatial_dims: usize,
}

impl PatchMerging {
    /// Builds the layer for `dim` features.
    pub fn new(scope: &Scope, spatial_dims: usize, dim: usize, merging: Merging) -> Self {
        let offsets = merging.offsets(spatial_dims);
        let features = offsets.len() * dim;
        PatchMerging {
            reduction: Linear::new(&scope.enter("reduction"), [features, 2 * dim], false),
            norm: LayerNorm::new(&scope.enter("norm"), features),
            offsets,
            spatial_dims,
        }
    }

    /// Maps `[b, x, y, z, dim]` to `[b, x / 2, y / 2, z / 2, 2 dim]`; sizes are rounded up.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, nx, ny, nz, _] = x.dims();
        let depth = if self.spatial_dims == 3 { nz.next_multiple_of(2) } else { nz };
        let x = pad_end(x, [nx.next_multiple_of(2), ny.next_multiple_of(2), depth]);
        let step = if self.spatial_dims == 3 { 2 } else { 1 };
        let part = |[i, j, k]: &[usize; 3]| {
            let every = |start: usize, step: isize| Slice::new(start as isize, None, step);
            let all = Slice::full();
            x.clone().slice([all, every(*i, 2), every(*j, 2), every(*k, step), all])
        };
        let merged = Tensor::cat(self.offsets.iter().map(part).collect(), 4);
        self.reduction.forward(self.norm.forward(merged))
    }
}
