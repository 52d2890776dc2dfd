//! Pooling layers with MONAI's names.

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::pool3d::{Divisor, PoolShape, adaptive_avg_pool3d, adaptive_max_pool3d, avg_pool3d, max_pool3d};

use super::{ConfigError, LayerSpec};
use crate::cost;
use crate::trace::{self, Op};

const KNOWN: &str = "max, avg, adaptivemax, adaptiveavg";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Max(PoolShape),
    Avg(PoolShape, Divisor),
    /// Number of windows per axis; `None` leaves an axis unchanged.
    AdaptiveMax([Option<usize>; 3]),
    AdaptiveAvg([Option<usize>; 3]),
}

/// A pooling layer.
#[derive(Module, Debug)]
pub struct Pool {
    #[module(skip)]
    kind: Kind,
}

/// Returns one number per axis; the third axis of a 2-D network takes `depth`.
pub(crate) fn per_axis(spatial_dims: usize, value: usize, depth: usize) -> [usize; 3] {
    [value, value, if spatial_dims == 3 { value } else { depth }]
}

impl Pool {
    /// Builds the requested layer: `["avg", { kernel_size = 7, stride = 1 }]`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(spec: &LayerSpec, spatial_dims: usize) -> Result<Self, ConfigError> {
        let kind = match spec.name().as_str() {
            "max" => {
                let known = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"];
                let given = spec.arguments(&known)?;
                if given.flag("return_indices", false)? {
                    return Err(ConfigError::value("max.return_indices", true, "a layer has one output"));
                }
                let shape = window(spec, &known, spatial_dims)?;
                let dilation = given.axes("dilation", spatial_dims, 1)?.unwrap_or([1; 3]);
                Kind::Max(PoolShape { dilation, ..shape })
            }
            "avg" => {
                let known = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"];
                let given = spec.arguments(&known)?;
                let divisor = match given.count("divisor_override", 0)? {
                    0 if given.flag("count_include_pad", true)? => Divisor::Window,
                    0 => Divisor::Inside,
                    number => Divisor::Given(number),
                };
                Kind::Avg(window(spec, &known, spatial_dims)?, divisor)
            }
            name @ ("adaptivemax" | "adaptiveavg") => {
                let output = spec.arguments(&["output_size"])?.axes("output_size", spatial_dims, Some(1))?;
                let output = output
                    .ok_or_else(|| ConfigError::value(format!("{name}.output_size"), (), "a size must be given"))?;
                if output.contains(&Some(0)) {
                    return Err(ConfigError::value(format!("{name}.output_size"), output, "expected at least 1"));
                }
                if name == "adaptivemax" { Kind::AdaptiveMax(output) } else { Kind::AdaptiveAvg(output) }
            }
            name => return Err(ConfigError::UnknownName { kind: "pooling", name: name.to_owned(), known: KNOWN }),
        };
        Ok(Pool { kind })
    }

    /// Max pooling: the largest value of each window.
    pub fn max(shape: PoolShape) -> Self {
        Pool { kind: Kind::Max(shape) }
    }

    /// Average pooling: the mean of each window, including padding.
    pub fn avg(shape: PoolShape) -> Self {
        Pool { kind: Kind::Avg(shape, Divisor::Window) }
    }

    /// Global average pooling: the mean of each channel, `[b, c, 1, 1, 1]`.
    pub fn global_avg() -> Self {
        Pool { kind: Kind::AdaptiveAvg([Some(1); 3]) }
    }

    /// The size of the output; `None` if the input is smaller than one window.
    pub fn output(&self, input: [usize; 3]) -> Option<[usize; 3]> {
        match self.kind {
            Kind::Max(shape) | Kind::Avg(shape, _) => shape.output(input),
            Kind::AdaptiveMax(output) | Kind::AdaptiveAvg(output) => {
                (!input.contains(&0)).then(|| adapted(output, input))
            }
        }
    }

    /// Maps `[b, c, x, y, z]` to `[b, c, x', y', z']`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, dx, dy, dz] = x.dims();
        let taken = trace::inputs([&x]);
        let y = match self.kind {
            Kind::Max(shape) => max_pool3d(x, shape),
            Kind::Avg(shape, divisor) => avg_pool3d(x, shape, divisor),
            Kind::AdaptiveMax(output) => adaptive_max_pool3d(x, adapted(output, [dx, dy, dz])),
            Kind::AdaptiveAvg(output) => adaptive_avg_pool3d(x, adapted(output, [dx, dy, dz])),
        };
        trace::note(taken, "", || self.op(), cost::output(None, y))
    }

    /// The operation in the network's graph.
    fn op(&self) -> Op {
        let unsupported = |what: &str| Op::Unsupported { what: what.to_owned() };
        match self.kind {
            Kind::Max(PoolShape { kernel, stride, padding, dilation, ceil_mode }) => {
                Op::MaxPool { kernel, stride, padding, dilation, ceil: ceil_mode }
            }
            Kind::Avg(_, Divisor::Given(_)) => unsupported("an average pooling with a given divisor is not supported"),
            Kind::Avg(PoolShape { kernel, stride, padding, ceil_mode, .. }, divisor) => {
                Op::AvgPool { kernel, stride, padding, ceil: ceil_mode, include_pad: divisor == Divisor::Window }
            }
            Kind::AdaptiveAvg([Some(1), Some(1), Some(1)]) => Op::GlobalAvgPool,
            Kind::AdaptiveMax([Some(1), Some(1), Some(1)]) => Op::GlobalMaxPool,
            _ => unsupported("an adaptive pooling to more than one value is not supported"),
        }
    }
}

/// `torch.nn.functional.max_pool3d` of `[b, c, x, y, z]`: an incomplete window at the far end is
/// dropped.
pub(crate) fn max_pool(x: Tensor<5>, kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3]) -> Tensor<5> {
    Pool::max(PoolShape { kernel, stride, padding, dilation: [1; 3], ceil_mode: false }).forward(x)
}

fn adapted(output: [Option<usize>; 3], input: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|axis| output[axis].unwrap_or(input[axis]))
}

/// Reads and checks kernel, stride, padding and rounding.
fn window(spec: &LayerSpec, known: &[&str], spatial_dims: usize) -> Result<PoolShape, ConfigError> {
    let (name, given) = (spec.name(), spec.arguments(known)?);
    let kernel = given
        .axes("kernel_size", spatial_dims, 1)?
        .ok_or_else(|| ConfigError::value(format!("{name}.kernel_size"), (), "a size must be given"))?;
    let stride = given.axes("stride", spatial_dims, 1)?.unwrap_or(kernel);
    let padding = given.axes("padding", spatial_dims, 0)?.unwrap_or([0; 3]);
    if kernel.contains(&0) || stride.contains(&0) {
        return Err(ConfigError::value(format!("{name}.kernel_size, stride"), (kernel, stride), "expected at least 1"));
    }
    if padding.iter().zip(kernel).any(|(padding, kernel)| *padding > kernel / 2) {
        return Err(ConfigError::value(format!("{name}.padding"), padding, "expected at most half of the kernel"));
    }
    Ok(PoolShape { kernel, stride, padding, dilation: [1; 3], ceil_mode: given.flag("ceil_mode", false)? })
}
