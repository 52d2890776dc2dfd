//! The residual blocks and levels of [`DiffusionModelUNet`](super::DiffusionModelUNet).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::pool3d::PoolShape;

use super::autoencoderkl_blocks::{Common, Upsample, doubled};
use crate::blocks::{SpatialAttentionBlock, SpatialAttentionOptions};
use crate::layers::{ConfigError, Convolution, GroupNorm, Init, Linear, Pool, Scope, in_space, swish};
use crate::named::Named;

/// The change of size in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resample {
    /// The size is unchanged.
    No,
    /// Downsampling: the mean of two voxels along each axis.
    Down,
    /// Upsampling: each voxel twice along each axis.
    Up,
}

/// A residual block that adds the embedding of the time step between its convolutions
/// (`DiffusionUNetResnetBlock`).
#[derive(Module, Debug)]
pub(super) struct TimedResBlock {
    norm1: GroupNorm,
    conv1: Convolution,
    time_emb_proj: Linear,
    norm2: GroupNorm,
    conv2: Convolution,
    skip_connection: Option<Convolution>,
    #[module(skip)]
    resample: Resample,
    #[module(skip)]
    spatial_dims: usize,
}

impl TimedResBlock {
    pub fn new(
        scope: &Scope,
        common: &Common,
        channels: [usize; 2],
        embedding: usize,
        resample: Resample,
    ) -> Result<Self, ConfigError> {
        let [input, output] = channels;
        let skip = (input != output).then(|| common.conv(&scope.enter("skip_connection"), channels, 1));
        Ok(TimedResBlock {
            norm1: common.norm(&scope.enter("norm1"), input)?,
            conv1: common.conv(&scope.enter("conv1"), channels, 3)?,
            time_emb_proj: Linear::new(&scope.enter("time_emb_proj"), [embedding, output], true),
            norm2: common.norm(&scope.enter("norm2"), output)?,
            conv2: common.conv(&scope.enter("conv2").with_init(Init::Zeros), [output; 2], 3)?,
            skip_connection: skip.transpose()?,
            resample,
            spatial_dims: common.spatial_dims,
        })
    }

    fn resampled(&self, x: Tensor<5>) -> Tensor<5> {
        match self.resample {
            Resample::No => x,
            Resample::Up => doubled(x, self.spatial_dims),
            Resample::Down => {
                let kernel = in_space(self.spatial_dims, 2);
                Pool::avg(PoolShape { stride: kernel, ..PoolShape::new(kernel) }).forward(x)
            }
        }
    }

    /// Runs the block on `x` with the activated embedding of each item, `[b, embedding]`.
    pub fn forward(&self, x: Tensor<5>, embedding: &Tensor<2>) -> Tensor<5> {
        let h = self.conv1.forward(self.resampled(swish(self.norm1.forward(x.clone()))));
        let time = self.time_emb_proj.forward(embedding.clone());
        let [b, c] = time.dims();
        let dtype = h.dtype();
        let h = h + time.reshape([b, c, 1, 1, 1]).cast(dtype);
        let x = self.resampled(x);
        let shortcut = match &self.skip_connection {
            Some(conv) => conv.forward(x),
            None => x,
        };
        self.conv2.forward_with_shortcut(swish(self.norm2.forward(h)), Some(shortcut))
    }
}

/// The options that all levels of a network share, and the attention of one level.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelOptions {
    pub common: Common,
    /// Length of the embedding of a time step.
    pub embedding: usize,
    /// Whether residual blocks change the size, instead of convolutions.
    pub resblock_updown: bool,
    /// Number of channels per head, if the level has attention.
    pub head_channels: Option<usize>,
    pub include_fc: bool,
    pub use_combined_linear: bool,
}

impl LevelOptions {
    fn block(&self, scope: &Scope, channels: [usize; 2], resample: Resample) -> Result<TimedResBlock, ConfigError> {
        TimedResBlock::new(scope, &self.common, channels, self.embedding, resample)
    }

    fn attention(
        &self,
        scope: &Scope,
        channels: usize,
        head_channels: usize,
    ) -> Result<SpatialAttentionBlock, ConfigError> {
        let options = SpatialAttentionOptions {
            channels,
            head_channels: Some(head_channels),
            groups: self.common.groups,
            eps: self.common.eps,
            include_fc: self.include_fc,
            use_combined_linear: self.use_combined_linear,
        };
        SpatialAttentionBlock::new(scope, &options)
    }

    /// One attention for each residual block, or none.
    fn attentions(
        &self,
        scope: &Scope,
        channels: usize,
        count: usize,
    ) -> Result<Named<SpatialAttentionBlock>, ConfigError> {
        let scope = scope.enter("attentions");
        let one = |i: usize| Some(self.attention(&scope.enter(&i.to_string()), channels, self.head_channels?));
        Ok(Named::numbered((0..count).filter_map(one).collect::<Result<Vec<_>, _>>()?))
    }
}

/// A convolution of stride 2 (`DiffusionUnetDownsample`).
#[derive(Module, Debug)]
pub(super) struct Halving {
    op: Convolution,
}

/// The downsampling or upsampling at the end of a level.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Resampler {
    Halving(Halving),
    Doubling(Upsample),
    Block(TimedResBlock),
}

impl Resampler {
    fn forward(&self, x: Tensor<5>, embedding: &Tensor<2>) -> Tensor<5> {
        match self {
            Resampler::Halving(halving) => halving.op.forward(x),
            Resampler::Doubling(doubling) => doubling.forward(x),
            Resampler::Block(block) => block.forward(x, embedding),
        }
    }
}

/// A level of the encoder: residual blocks, each with attention if the level has it.
#[derive(Module, Debug)]
pub(super) struct DownLevel {
    attentions: Named<SpatialAttentionBlock>,
    resnets: Named<TimedResBlock>,
    downsampler: Option<Resampler>,
}

impl DownLevel {
    pub fn new(
        scope: &Scope,
        options: &LevelOptions,
        [input, output]: [usize; 2],
        blocks: usize,
        leaves: bool,
    ) -> Result<Self, ConfigError> {
        let resnets = (0..blocks).map(|i| {
            let channels = [if i == 0 { input } else { output }, output];
            options.block(&scope.enter("resnets").enter(&i.to_string()), channels, Resample::No)
        });
        let inner = scope.enter("downsampler");
        let downsampler = match (leaves, options.resblock_updown) {
            (false, _) => None,
            (true, true) => Some(Resampler::Block(options.block(&inner, [output; 2], Resample::Down)?)),
            (true, false) => {
                let op = options.common.halving(&inner.enter("op"), output, 1)?;
                Some(Resampler::Halving(Halving { op }))
            }
        };
        Ok(DownLevel {
            resnets: Named::numbered(resnets.collect::<Result<Vec<_>, _>>()?),
            attentions: options.attentions(scope, output, blocks)?,
            downsampler,
        })
    }

    /// Returns the last result, and appends every result to `kept` for the decoder.
    pub fn forward(&self, mut x: Tensor<5>, embedding: &Tensor<2>, kept: &mut Vec<Tensor<5>>) -> Tensor<5> {
        let mut attentions = self.attentions.iter();
        for resnet in self.resnets.iter() {
            x = resnet.forward(x, embedding);
            if let Some(attention) = attentions.next() {
                x = attention.forward(x);
            }
            kept.push(x.clone());
        }
        if let Some(downsampler) = &self.downsampler {
            x = downsampler.forward(x, embedding);
            kept.push(x.clone());
        }
        x
    }
}

/// Two residual blocks with attention between them.
#[derive(Module, Debug)]
pub(super) struct MiddleLevel {
    resnet_1: TimedResBlock,
    attention: SpatialAttentionBlock,
    resnet_2: TimedResBlock,
}

impl MiddleLevel {
    pub fn new(
        scope: &Scope,
        options: &LevelOptions,
        channels: usize,
        head_channels: usize,
    ) -> Result<Self, ConfigError> {
        let block = |name: &str| options.block(&scope.enter(name), [channels; 2], Resample::No);
        Ok(MiddleLevel {
            resnet_1: block("resnet_1")?,
            attention: options.attention(&scope.enter("attention"), channels, head_channels)?,
            resnet_2: block("resnet_2")?,
        })
    }

    pub fn forward(&self, x: Tensor<5>, embedding: &Tensor<2>) -> Tensor<5> {
        self.resnet_2.forward(self.attention.forward(self.resnet_1.forward(x, embedding)), embedding)
    }
}

/// A level of the decoder: residual blocks over the results that the encoder kept.
#[derive(Module, Debug)]
pub(super) struct UpLevel {
    attentions: Named<SpatialAttentionBlock>,
    resnets: Named<TimedResBlock>,
    upsampler: Option<Resampler>,
}

impl UpLevel {
    /// Builds the level. The channels are `[from the encoder, from the level below, out]`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        options: &LevelOptions,
        [kept, below, output]: [usize; 3],
        blocks: usize,
        leaves: bool,
    ) -> Result<Self, ConfigError> {
        let resnets = (0..blocks).map(|i| {
            let skip = if i + 1 == blocks { kept } else { output };
            let input = if i == 0 { below } else { output };
            options.block(&scope.enter("resnets").enter(&i.to_string()), [input + skip, output], Resample::No)
        });
        let inner = scope.enter("upsampler");
        let upsampler = match (leaves, options.resblock_updown) {
            (false, _) => None,
            (true, true) => Some(Resampler::Block(options.block(&inner, [output; 2], Resample::Up)?)),
            (true, false) => Some(Resampler::Doubling(Upsample::new(&inner, &options.common, output)?)),
        };
        Ok(UpLevel {
            resnets: Named::numbered(resnets.collect::<Result<Vec<_>, _>>()?),
            attentions: options.attentions(scope, output, blocks)?,
            upsampler,
        })
    }

    pub fn forward(&self, mut x: Tensor<5>, embedding: &Tensor<2>, kept: &mut Vec<Tensor<5>>) -> Tensor<5> {
        let mut attentions = self.attentions.iter();
        for resnet in self.resnets.iter() {
            if let Some(skip) = kept.pop() {
                let dtype = x.dtype();
                x = Tensor::cat(vec![x, skip.cast(dtype)], 1);
            }
            x = resnet.forward(x, embedding);
            if let Some(attention) = attentions.next() {
                x = attention.forward(x);
            }
        }
        match &self.upsampler {
            Some(upsampler) => upsampler.forward(x, embedding),
            None => x,
        }
    }
}
