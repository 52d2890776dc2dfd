//! Patches of the Swin transformer (`monai.networks.blocks.PatchEmbed`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;

use crate::layers::{ConfigError, Conv, LayerNorm, Scope};

/// A patch embedding: a convolution whose kernel and stride are the patch. Images are padded to
/// whole patches with zeros at the far end.
#[derive(Module, Debug)]
pub struct PatchEmbed {
    /// The convolution.
    pub proj: Conv,
    /// The norm over the features, if requested.
    pub norm: Option<LayerNorm>,
    #[module(skip)]
    patch_size: [usize; 3],
}

impl PatchEmbed {
    /// Builds the embedding. `channels` are those of the image and of the patches.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        channels: [usize; 2],
        patch_size: [usize; 3],
        patch_norm: bool,
    ) -> Result<Self, ConfigError> {
        if patch_size.contains(&0) {
            return Err(ConfigError::value("patch_size", patch_size, "expected at least 1"));
        }
        let shape = ConvShape { stride: patch_size, ..ConvShape::default() };
        Ok(PatchEmbed {
            proj: Conv::new(&scope.enter("proj"), channels, patch_size, shape, true),
            norm: patch_norm.then(|| LayerNorm::new(&scope.enter("norm"), channels[1])),
            patch_size,
        })
    }

    /// Maps `[b, c, x, y, z]` to `[b, features, x / patch, ...]`; sizes are rounded up.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, nx, ny, nz] = x.dims();
        let [px, py, pz] = self.patch_size.map(|patch| move |n: usize| n.next_multiple_of(patch) - n);
        let pads = [(0, 0), (0, 0), (0, px(nx)), (0, py(ny)), (0, pz(nz))];
        let x = if pads.iter().all(|pad| pad.1 == 0) { x } else { x.pad(pads, 0.0) };
        let y = self.proj.forward(x);
        match &self.norm {
            Some(norm) => norm.forward(y.permute([0, 2, 3, 4, 1])).permute([0, 4, 1, 2, 3]),
            None => y,
        }
    }
}
