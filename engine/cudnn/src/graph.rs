//! A convolution as the library's graph of operations.

use std::sync::Arc;

use crate::convolution::{Activation, Convolution, Direction, Element, Epilogue, Shape, Shapes};
use crate::error::Error;
use crate::numbers::{ConvolutionMode, DataType, Flag, PointwiseMode, attribute as of, kind};
use crate::raw::{Builder, Descriptor, Handle, Library};

/// The numbers of the tensors in a pack of addresses.
pub(crate) const INPUT: i64 = 1;
pub(crate) const FILTER: i64 = 2;
pub(crate) const OUTPUT: i64 = 3;
pub(crate) const BIAS: i64 = 4;
/// Values between operations, which are nowhere in memory.
const CONVOLVED: i64 = 5;
const BIASED: i64 = 6;

/// The alignment of addresses, in bytes.
pub(crate) const ALIGNMENT: usize = 16;

fn data_type(element: Element) -> DataType {
    match element {
        Element::F32 => DataType::FLOAT,
        Element::Bf16 => DataType::BFLOAT16,
        Element::F16 => DataType::HALF,
    }
}

/// The graph of a convolution.
struct Graph<'a> {
    library: &'a Arc<Library>,
    convolution: &'a Convolution,
    shapes: Shapes,
}

/// The graph of a convolution, of a handle if it is to be executed.
///
/// # Errors
/// If the numbers of the convolution contradict each other, or the library reports an error.
pub(crate) fn graph(
    library: &Arc<Library>,
    convolution: &Convolution,
    handle: Option<&Arc<Handle>>,
) -> Result<Arc<Descriptor>, Error> {
    let graph = Graph { library, convolution, shapes: convolution.shapes()? };
    let operations = graph.operations()?;
    let operations: Vec<&Arc<Descriptor>> = operations.iter().collect();
    let mut built = Builder::new(library, kind::OPERATIONGRAPH)?;
    if let Some(handle) = handle {
        built = built.set_handle(of::OPERATIONGRAPH_HANDLE, handle)?;
    }
    built.set_descriptors(of::OPERATIONGRAPH_OPS, &operations)?.finalize()
}

impl Graph<'_> {
    fn operations(&self) -> Result<Vec<Arc<Descriptor>>, Error> {
        let Shapes { input, filter, output, .. } = &self.shapes;
        let (number, shape) = match self.convolution.direction {
            Direction::Forward => (OUTPUT, output),
            Direction::DataGradient => (INPUT, input),
            Direction::FilterGradient => (FILTER, filter),
        };
        let result = self.tensor(number, shape)?;
        let steps = self.steps();
        if steps.is_empty() {
            return Ok(vec![self.convolve(&result)?]);
        }
        let mut last = self.between(CONVOLVED, shape)?;
        let mut operations = vec![self.convolve(&last)?];
        for (index, step) in steps.iter().enumerate() {
            let to = if index + 1 == steps.len() { result.clone() } else { self.between(BIASED, shape)? };
            operations.push(self.pointwise(step, &last, &to)?);
            last = to;
        }
        Ok(operations)
    }

    /// The operations after the convolution.
    fn steps(&self) -> Vec<Step> {
        let Some(Epilogue { bias, activation }) = self.convolution.epilogue else { return Vec::new() };
        bias.then_some(Step::Bias).into_iter().chain(activation.map(Step::Activation)).collect()
    }

    fn tensor_of(&self, number: i64, shape: &Shape, values: DataType) -> Result<Builder, Error> {
        Builder::new(self.library, kind::TENSOR)?
            .set(of::TENSOR_UNIQUE_ID, &[number])?
            .set(of::TENSOR_DATA_TYPE, &[values])?
            .set(of::TENSOR_DIMENSIONS, &shape.sizes)?
            .set(of::TENSOR_STRIDES, &shape.strides)?
            .set(of::TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT as i64])
    }

    /// A tensor in memory.
    fn tensor(&self, number: i64, shape: &Shape) -> Result<Arc<Descriptor>, Error> {
        self.tensor_of(number, shape, data_type(self.convolution.element))?.finalize()
    }

    /// A tensor between two operations.
    fn between(&self, number: i64, shape: &Shape) -> Result<Arc<Descriptor>, Error> {
        self.tensor_of(number, shape, DataType::FLOAT)?.set(of::TENSOR_IS_VIRTUAL, &[Flag(1)])?.finalize()
    }

    /// Strides, paddings and dilations.
    fn window(&self) -> Result<Arc<Descriptor>, Error> {
        // The shapes have checked that the sizes are small enough.
        let axes = &self.convolution.axes;
        let dilations: Vec<i64> = axes.iter().map(|axis| axis.dilation as i64).collect();
        let strides: Vec<i64> = axes.iter().map(|axis| axis.stride as i64).collect();
        let paddings: Vec<i64> = axes.iter().map(|axis| axis.padding as i64).collect();
        Builder::new(self.library, kind::CONVOLUTION)?
            .set(of::CONVOLUTION_SPATIAL_DIMS, &[axes.len() as i64])?
            .set(of::CONVOLUTION_COMP_TYPE, &[DataType::FLOAT])?
            .set(of::CONVOLUTION_CONV_MODE, &[ConvolutionMode::CROSS_CORRELATION])?
            .set(of::CONVOLUTION_DILATIONS, &dilations)?
            .set(of::CONVOLUTION_FILTER_STRIDES, &strides)?
            .set(of::CONVOLUTION_PRE_PADDINGS, &paddings)?
            .set(of::CONVOLUTION_POST_PADDINGS, &paddings)?
            .finalize()
    }

    /// The convolution itself, to its result.
    fn convolve(&self, result: &Arc<Descriptor>) -> Result<Arc<Descriptor>, Error> {
        let Shapes { input, filter, output, .. } = &self.shapes;
        let window = self.window()?;
        let new = |kind| Builder::new(self.library, kind);
        match self.convolution.direction {
            Direction::Forward => new(kind::OPERATION_CONVOLUTION_FORWARD)?
                .set_descriptors(of::OPERATION_CONVOLUTION_FORWARD_X, &[&self.tensor(INPUT, input)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_FORWARD_W, &[&self.tensor(FILTER, filter)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_FORWARD_Y, &[result])?
                .set_descriptors(of::OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&window])?
                .set(of::OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1.0])?
                .set(of::OPERATION_CONVOLUTION_FORWARD_BETA, &[0.0])?
                .finalize(),
            Direction::DataGradient => new(kind::OPERATION_CONVOLUTION_BACKWARD_DATA)?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_DATA_DX, &[result])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_DATA_W, &[&self.tensor(FILTER, filter)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_DATA_DY, &[&self.tensor(OUTPUT, output)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, &[&window])?
                .set(of::OPERATION_CONVOLUTION_BWD_DATA_ALPHA, &[1.0])?
                .set(of::OPERATION_CONVOLUTION_BWD_DATA_BETA, &[0.0])?
                .finalize(),
            Direction::FilterGradient => new(kind::OPERATION_CONVOLUTION_BACKWARD_FILTER)?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_FILTER_X, &[&self.tensor(INPUT, input)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_FILTER_DW, &[result])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_FILTER_DY, &[&self.tensor(OUTPUT, output)?])?
                .set_descriptors(of::OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, &[&window])?
                .set(of::OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, &[1.0])?
                .set(of::OPERATION_CONVOLUTION_BWD_FILTER_BETA, &[0.0])?
                .finalize(),
        }
    }

    fn pointwise(&self, step: &Step, from: &Arc<Descriptor>, to: &Arc<Descriptor>) -> Result<Arc<Descriptor>, Error> {
        let mode = match step {
            Step::Bias => PointwiseMode::ADD,
            Step::Activation(_) => PointwiseMode::RELU_FWD,
        };
        let mut function = Builder::new(self.library, kind::POINTWISE)?
            .set(of::POINTWISE_MODE, &[mode])?
            .set(of::POINTWISE_MATH_PREC, &[DataType::FLOAT])?;
        if let Step::Activation(Activation::LeakyRelu(slope)) = step {
            function = function.set(of::POINTWISE_RELU_LOWER_CLIP_SLOPE, &[f64::from(f32::from(*slope))])?;
        }
        let mut operation = Builder::new(self.library, kind::OPERATION_POINTWISE)?
            .set_descriptors(of::OPERATION_POINTWISE_PW_DESCRIPTOR, &[&function.finalize()?])?
            .set_descriptors(of::OPERATION_POINTWISE_XDESC, &[from])?
            .set_descriptors(of::OPERATION_POINTWISE_YDESC, &[to])?;
        if matches!(step, Step::Bias) {
            let bias = self.tensor(BIAS, &self.shapes.bias)?;
            operation = operation.set_descriptors(of::OPERATION_POINTWISE_BDESC, &[&bias])?;
        }
        operation.finalize()
    }
}

/// An operation after the convolution.
enum Step {
    Bias,
    Activation(Activation),
}
