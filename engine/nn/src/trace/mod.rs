//! The graph of a network, recorded while its own forward pass runs, for other programs' formats.
//!
//! Each layer tells what it does, with its weights. Tensors are recognised by their values: what a
//! layer gets must be the input or what another one gave, so an operation that nobody told of is an
//! error and never left out. Two passes over different values must give the same graph, so values that
//! are equal by chance do not decide.

mod record;

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

use crate::networks::{Network, ShapeError};
pub(crate) use record::{concat, inputs, is_open, joined, note};

/// A weight of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// `[out, in, kx, ky, kz]`, ..., as the layer has it.
    pub shape: Vec<usize>,
    /// Its values, last axis fastest.
    pub values: Arc<[f32]>,
}

/// What one layer computes, on `[b, c, x, y, z]`; 2-D networks have `z = 1`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of the layers' parameters")]
pub enum Op {
    /// Convolution, weight `[out, in / groups, kx, ky, kz]`.
    Conv {
        weight: Weight,
        bias: Option<Weight>,
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
        groups: usize,
    },
    /// Transposed convolution, weight `[in, out / groups, kx, ky, kz]`.
    ConvTranspose {
        weight: Weight,
        bias: Option<Weight>,
        stride: [usize; 3],
        padding: [usize; 3],
        output_padding: [usize; 3],
        dilation: [usize; 3],
        groups: usize,
    },
    /// `x scale + offset` by channel: a batch norm outside training.
    Scale { scale: Weight, offset: Weight },
    /// Mean 0 and variance 1 by group of channels, then weight and bias by channel.
    GroupNorm { groups: usize, eps: f64, weight: Option<Weight>, bias: Option<Weight> },
    /// The same by channel.
    InstanceNorm { eps: f64, weight: Option<Weight>, bias: Option<Weight>, channels: usize },
    /// Negative values times slopes, one or one by channel.
    PRelu { slope: Weight },
    /// Negative values times a slope; ReLU with 0.
    LeakyRelu { slope: f64 },
    /// An activation without parameters, by PyTorch's name, with `alpha` where it has one.
    Activation { name: &'static str, alpha: f64 },
    /// The largest value of windows.
    MaxPool { kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3], ceil: bool },
    /// The mean of windows; padding counts if `include_pad`.
    AvgPool { kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], ceil: bool, include_pad: bool },
    /// The mean of each channel: `[b, c, 1, 1, 1]`.
    GlobalAvgPool,
    /// The largest value of each channel.
    GlobalMaxPool,
    /// Linear interpolation to so many times the size.
    Resize { factors: [usize; 3], align_corners: bool },
    /// Everything but the batch as one axis, times `[out, in]`: `[b, out, 1, 1, 1]`.
    Linear { weight: Weight, bias: Option<Weight> },
    /// Channels side by side.
    Concat,
    /// The channels so many times side by side.
    Repeat { times: usize },
    /// The sum of two.
    Sum,
    /// The product of two; a single channel of the second is for all of the first.
    Product,
    /// Something that other programs are not told of.
    Unsupported { what: String },
}

/// A layer's call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// State-dict path of the layer; empty for one without parameters.
    pub path: String,
    /// What it computes.
    pub op: Op,
    /// The values that it takes: 0 for the network's input, `i + 1` for what call `i` gives.
    pub inputs: Vec<usize>,
}

/// A network as calls of its layers, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Numbers of input and output channels.
    pub channels: [usize; 2],
    /// The input of the pass that was recorded, `[b, c, x, y, z]`.
    pub input: [usize; 5],
    /// The output's shape for it.
    pub output: [usize; 5],
    /// The calls.
    pub calls: Vec<Call>,
    /// The value that is the network's output.
    pub result: usize,
}

/// A network has no graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A layer takes what no recorded layer gave.
    #[error(
        "{network}: {layer} takes values that no known layer gave, so the network has an operation that has no graph"
    )]
    Unknown {
        /// The network.
        network: &'static str,
        /// The layer.
        layer: String,
    },
    /// A layer cannot be told.
    #[error("{network}: {what}")]
    Unsupported {
        /// The network.
        network: &'static str,
        /// What it is.
        what: String,
    },
    /// Two passes differ.
    #[error("{network}: two passes over different values took different ways; give a larger input than {shape:?}")]
    Ambiguous {
        /// The network.
        network: &'static str,
        /// The input.
        shape: [usize; 5],
    },
}

/// Records the graph of an evaluation of an input of this shape.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::networks::UNetConfig;
/// # use hearth_nn::trace::{Op, trace};
/// let net = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::default(), 0)?;
/// let graph = trace(&net, [1, 1, 16, 16, 16])?;
/// assert!(matches!(graph.calls[0].op, Op::Conv { stride: [2, 2, 2], .. }));
/// assert_eq!((graph.calls[0].inputs[0], graph.output), (0, [1, 2, 16, 16, 16]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the input does not fit, or the network does something that has no graph.
pub fn trace<N: Network>(net: &N, input: [usize; 5]) -> Result<Graph, TraceError> {
    net.check_input(input)?;
    let net = net.valid();
    let first = pass(&net, input, 1)?;
    if pass(&net, input, 2)? == first {
        Ok(first)
    } else {
        Err(TraceError::Ambiguous { network: net.name(), shape: input })
    }
}

fn pass<N: Network>(net: &N, shape: [usize; 5], seed: u64) -> Result<Graph, TraceError> {
    let key = Key::new(seed).with_text("trace");
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(|i| key.normal(i) as f32).collect();
    let device = net.devices().into_iter().next().unwrap_or_default();
    let x = Tensor::<5>::from_data(TensorData::new(values, shape), &device);
    let (output, recorded, result) = record::while_open(x, |x| net.forward(x));
    let network = net.name();
    let calls = recorded.map_err(|layer| TraceError::Unknown { network, layer })?;
    let result = result.ok_or_else(|| TraceError::Unknown { network, layer: "the output".to_owned() })?;
    for call in &calls {
        if let Op::Unsupported { what } = &call.op {
            return Err(TraceError::Unsupported { network, what: what.clone() });
        }
    }
    let (spatial_dims, channels) = (net.spatial_dims(), net.channels());
    Ok(Graph { spatial_dims, channels, input: shape, output: output.dims(), calls, result })
}
