//! One stage of the Swin transformer (`monai.networks.nets.swin_unetr.BasicLayer`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::recompute;

use crate::blocks::{Merging, PatchMerging, SwinTransformerBlock, SwinTransformerOptions, shifted_regions};
use crate::layers::{ConfigError, DropoutClock, Scope};
use crate::named::Named;

/// Options of [`Stage`].
#[derive(Clone, Debug)]
pub(super) struct StageOptions {
    pub spatial_dims: usize,
    pub dim: usize,
    pub num_heads: usize,
    pub window_size: [usize; 3],
    /// One probability per block.
    pub drop_path: Vec<f64>,
    pub mlp_ratio: f64,
    pub qkv_bias: bool,
    pub drop: f64,
    pub attn_drop: f64,
    pub merging: Merging,
    /// Whether the inner values of blocks are recomputed in the backward pass.
    pub use_checkpoint: bool,
    pub clock: DropoutClock,
}

/// A stage: blocks, every second of which has shifted windows, and patch merging.
#[derive(Module, Debug)]
pub(super) struct Stage {
    blocks: Named<SwinTransformerBlock>,
    downsample: PatchMerging,
    #[module(skip)]
    window_size: [usize; 3],
    #[module(skip)]
    use_checkpoint: bool,
    #[module(skip)]
    clock: DropoutClock,
}

impl Stage {
    pub fn new(scope: &Scope, options: &StageOptions) -> Result<Self, ConfigError> {
        let StageOptions { spatial_dims, dim, num_heads, window_size, mlp_ratio, qkv_bias, drop, attn_drop, .. } =
            *options;
        let inner = scope.enter("blocks");
        let mut blocks = Vec::with_capacity(options.drop_path.len());
        for (i, drop_path) in options.drop_path.iter().enumerate() {
            let block = SwinTransformerOptions {
                dim,
                num_heads,
                window_size,
                shift_size: if i % 2 == 0 { [0; 3] } else { half(window_size) },
                mlp_ratio,
                qkv_bias,
                drop,
                attn_drop,
                drop_path: *drop_path,
                clock: options.clock.clone(),
            };
            let name = i.to_string();
            let block = SwinTransformerBlock::new(&inner.enter(&name), &block)?;
            blocks.push((name, block));
        }
        Ok(Stage {
            blocks: Named::new(blocks),
            downsample: PatchMerging::new(&scope.enter("downsample"), spatial_dims, dim, options.merging),
            window_size,
            use_checkpoint: options.use_checkpoint,
            clock: options.clock.clone(),
        })
    }

    /// Maps `[b, dim, x, y, z]` to `[b, 2 dim, x / 2, y / 2, z / 2]`; sizes are rounded up.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, nx, ny, nz] = x.dims();
        let regions = shifted_regions([nx, ny, nz], self.window_size, half(self.window_size), &x.device().inner());
        let x = x.permute([0, 2, 3, 4, 1]);
        let x = self.blocks.iter().fold(x, |x, block| self.through(block, x, &regions));
        self.downsample.forward(x).permute([0, 4, 1, 2, 3])
    }

    fn through(&self, block: &SwinTransformerBlock, x: Tensor<5>, regions: &Tensor<2>) -> Tensor<5> {
        if !self.use_checkpoint {
            return block.forward(x, regions);
        }
        // The second run must repeat the draws of the first, even with other passes in between.
        let (clock, then, regions) = (self.clock.clone(), self.clock.now(), regions.clone());
        recompute(block, x, move |block, x| clock.back_at(then, || block.forward(x, &regions)))
    }
}

fn half(window: [usize; 3]) -> [usize; 3] {
    window.map(|length| length / 2)
}
