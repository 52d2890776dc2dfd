//! Blocks that have their own cases, wrapped as networks.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth::nn::blocks::{ChannelSELayer, ChannelSEOptions, SEBlock, SEBlockKind, SEBlockOptions};
use hearth::nn::layers::{LayerSpec, Scope};
use hearth::nn::networks::{Network, ShapeError};
use hearth_tests::golden::{Case, Miss};

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Kind {
    Channel(ChannelSELayer),
    Bottleneck(SEBlock),
}

/// One block.
#[derive(Module, Debug)]
pub struct Block {
    block: Kind,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
}

impl Network for Block {
    fn name(&self) -> &'static str {
        "Block"
    }

    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match &self.block {
            Kind::Channel(block) => block.forward(x),
            Kind::Bottleneck(block) => block.forward(x),
        }
    }

    fn check_input(&self, _shape: [usize; 5]) -> Result<(), ShapeError> {
        Ok(())
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        path.strip_prefix("block.").map(str::to_owned)
    }
}

/// The block of a case, if its operation is one.
pub fn block(case: &Case, device: &Device) -> Result<Option<Block>, Miss> {
    let count = |name: &str, default: usize| case.params[name].as_u64().map_or(default, |n| n as usize);
    let scope = Scope::new(device, 0);
    let spatial_dims = count("spatial_dims", 3);
    let kind = match case.op.as_str() {
        "ChannelSELayer" | "ResidualSELayer" => {
            case.only_params(&["spatial_dims", "in_channels", "r", "acti_type_1", "acti_type_2", "add_residual"])?;
            let (channels, r) = (count("in_channels", 0), count("r", 2));
            let mut options = match case.op.as_str() {
                "ChannelSELayer" => ChannelSEOptions::channel(channels, r),
                _ => ChannelSEOptions::residual(channels, r),
            };
            let spec = |name: &str| serde_json::from_value::<LayerSpec>(case.params[name].clone()).ok();
            options.acti_type_1 = spec("acti_type_1").unwrap_or(options.acti_type_1);
            options.acti_type_2 = spec("acti_type_2").unwrap_or(options.acti_type_2);
            options.add_residual = case.params["add_residual"].as_bool().unwrap_or(options.add_residual);
            let block = Kind::Channel(ChannelSELayer::new(&scope, &options)?);
            return Ok(Some(Block { block, spatial_dims, channels: [channels; 2] }));
        }
        "SEBottleneck" => SEBlockKind::SEBottleneck,
        "SEResNetBottleneck" => SEBlockKind::SEResNetBottleneck,
        "SEResNeXtBottleneck" => SEBlockKind::SEResNeXtBottleneck,
        _ => return Ok(None),
    };
    case.only_params(&["spatial_dims", "inplanes", "planes", "groups", "reduction", "stride", "base_width"])?;
    let options = SEBlockOptions {
        spatial_dims,
        kind,
        inplanes: count("inplanes", 0),
        planes: count("planes", 0),
        groups: count("groups", 1),
        reduction: count("reduction", 16),
        stride: count("stride", 1),
        base_width: count("base_width", 4),
        downsample: None,
    };
    let channels = [options.inplanes, 4 * options.planes];
    Ok(Some(Block { block: Kind::Bottleneck(SEBlock::new(&scope, &options)?), spatial_dims, channels }))
}
