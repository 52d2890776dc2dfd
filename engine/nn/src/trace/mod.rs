//! The graph of a network, recorded during its forward pass, for export to other formats.
//!
//! Each layer records its operation and weights. Tensors are identified by their values: the input
//! of a layer must be the network's input or the output of a recorded layer. An operation that is
//! not recorded therefore causes an error and is never omitted. Two passes over different values
//! must give the same graph, so that values that are equal by chance have no effect.

mod record;
pub(crate) mod tap;

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

use crate::networks::{Network, ShapeError};
pub(crate) use record::{concat, inputs, is_open, joined, note};

/// A weight of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Shape of the weight as in the layer: `[out, in, kx, ky, kz]`, ...
    pub shape: Vec<usize>,
    /// The values, last axis fastest.
    pub values: Arc<[f32]>,
}

/// The operation of a layer, on `[b, c, x, y, z]`; 2-D networks have `z = 1`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named like the layers' parameters")]
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
    /// `x scale + offset` per channel: a batch norm outside training.
    Scale { scale: Weight, offset: Weight },
    /// Normalization to mean 0 and variance 1 per group of channels, then weight and bias per
    /// channel.
    GroupNorm { groups: usize, eps: f64, weight: Option<Weight>, bias: Option<Weight> },
    /// Normalization to mean 0 and variance 1 per channel, then weight and bias per channel.
    InstanceNorm { eps: f64, weight: Option<Weight>, bias: Option<Weight>, channels: usize },
    /// Multiplies negative values by slopes, one for all or one per channel.
    PRelu { slope: Weight },
    /// Multiplies negative values by a slope; ReLU with 0.
    LeakyRelu { slope: f64 },
    /// An activation without parameters, with PyTorch's name, and `alpha` if it has one.
    Activation { name: &'static str, alpha: f64 },
    /// The largest value of each window.
    MaxPool { kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3], ceil: bool },
    /// The mean of each window, including padding if `include_pad`.
    AvgPool { kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3], ceil: bool, include_pad: bool },
    /// The mean of each channel: `[b, c, 1, 1, 1]`.
    GlobalAvgPool,
    /// The largest value of each channel.
    GlobalMaxPool,
    /// Linear interpolation to a multiple of the size.
    Resize { factors: [usize; 3], align_corners: bool },
    /// Flattens everything but the batch and multiplies by `[out, in]`: `[b, out, 1, 1, 1]`.
    Linear { weight: Weight, bias: Option<Weight> },
    /// Concatenation along the channels.
    Concat,
    /// Repetition of the channels.
    Repeat { times: usize },
    /// The sum of two values.
    Sum,
    /// The product of two values; a single channel of the second applies to all channels of the
    /// first.
    Product,
    /// An operation that is not supported.
    Unsupported { what: String },
}

/// A call of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// State-dict path of the layer; empty for one without parameters.
    pub path: String,
    /// The operation of the layer.
    pub op: Op,
    /// Numbers of the input values: 0 for the network's input, `i + 1` for the output of call `i`.
    pub inputs: Vec<usize>,
}

/// A network as a sequence of calls of its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Numbers of input and output channels.
    pub channels: [usize; 2],
    /// Shape of the input of the recorded pass, `[b, c, x, y, z]`.
    pub input: [usize; 5],
    /// Shape of the output for this input.
    pub output: [usize; 5],
    /// The calls in order.
    pub calls: Vec<Call>,
    /// Number of the value that is the network's output.
    pub result: usize,
}

/// An error of recording a graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input does not fit the network.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A layer reads values that no recorded layer produced.
    #[error(
        "{network}: {layer} reads values that no recorded layer produced: an operation of the network is not supported"
    )]
    Unknown {
        /// Name of the network.
        network: &'static str,
        /// Name of the layer.
        layer: String,
    },
    /// An operation is not supported.
    #[error("{network}: {what}")]
    Unsupported {
        /// Name of the network.
        network: &'static str,
        /// The operation.
        what: String,
    },
    /// Two passes gave different graphs.
    #[error("{network}: two passes over different values gave different graphs; use a larger input than {shape:?}")]
    Ambiguous {
        /// Name of the network.
        network: &'static str,
        /// Shape of the input.
        shape: [usize; 5],
    },
}

/// Records the graph of a forward pass in evaluation mode, with an input of this shape.
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
/// Fails if the input does not fit, or if the network has an operation that is not supported.
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
