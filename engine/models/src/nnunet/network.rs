//! The network that plans describe.

use burn::tensor::Device;
use hearth_nn::layers::{Axes, ConfigError, LayerSpec};
use hearth_nn::networks::{AnyNetwork, PlainConvUNetConfig, ResidualEncoderUNetConfig};
use hearth_nnunet::{Architecture, NetworkClass, Nonlin, NormOp};
use serde_json::json;

/// Builds the network of an architecture, with weights to be replaced. `batch_norm` replaces its
/// norm, as nnU-Net's trainer with that name does.
pub(crate) fn build(
    architecture: &Architecture,
    [inputs, outputs]: [usize; 2],
    batch_norm: bool,
    device: &Device,
) -> Result<AnyNetwork, ConfigError> {
    let axes = |sizes: &[Vec<usize>]| sizes.iter().cloned().map(Axes::Each).collect::<Vec<Axes>>();
    let (kernels, strides) = (axes(&architecture.kernels), axes(&architecture.strides));
    let norm = norm(architecture, batch_norm);
    let act = architecture.nonlin.map(|nonlin| match nonlin {
        Nonlin::LeakyRelu(slope) => LayerSpec::with("leakyrelu", &[("negative_slope", json!(slope))]),
        Nonlin::Relu => "relu".into(),
    });
    match architecture.class {
        NetworkClass::PlainConvUNet => {
            let config = PlainConvUNetConfig {
                spatial_dims: architecture.dims,
                in_channels: inputs,
                out_channels: outputs,
                features_per_stage: architecture.features.clone(),
                kernel_sizes: kernels,
                strides,
                n_conv_per_stage: Some(architecture.encoder.clone()),
                n_conv_per_stage_decoder: Some(architecture.decoder.clone()),
                conv_bias: architecture.conv_bias,
                norm,
                act,
                dropout: architecture.dropout,
                deep_supervision: false,
            };
            Ok(AnyNetwork::new(config.init(device, 0)?))
        }
        NetworkClass::ResidualEncoderUNet => {
            let config = ResidualEncoderUNetConfig {
                spatial_dims: architecture.dims,
                in_channels: inputs,
                out_channels: outputs,
                features_per_stage: architecture.features.clone(),
                kernel_sizes: kernels,
                strides,
                n_blocks_per_stage: Some(architecture.encoder.clone()),
                n_conv_per_stage_decoder: Some(architecture.decoder.clone()),
                stem_channels: architecture.stem_channels,
                conv_bias: architecture.conv_bias,
                norm,
                act,
                dropout: architecture.dropout,
                deep_supervision: false,
            };
            Ok(AnyNetwork::new(config.init(device, 0)?))
        }
    }
}

fn norm(architecture: &Architecture, batch_norm: bool) -> Option<LayerSpec> {
    let of =
        |name: &str, eps: f64, affine: bool| LayerSpec::with(name, &[("eps", json!(eps)), ("affine", json!(affine))]);
    if batch_norm {
        return Some(of("batch", 1e-5, true));
    }
    architecture.norm.map(|norm| match norm {
        NormOp::Instance { eps, affine } => of("instance", eps, affine),
        NormOp::Batch { eps, affine } => of("batch", eps, affine),
    })
}
