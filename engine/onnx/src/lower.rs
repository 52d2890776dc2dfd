//! The conversion of layers to ONNX operators.

use std::sync::Arc;

use hearth_nn::trace::{Call, Graph, Op, Weight};

use crate::model::{Attribute, Axis, Initializer, Model, Node, Values};

/// The name and metadata of a model.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the graph.
    pub name: String,
    /// Keys and values of `metadata_props`.
    pub metadata: Vec<(String, String)>,
}

impl About {
    /// The description of a model with this name and without metadata.
    pub fn new(name: impl Into<String>) -> Self {
        About { name: name.into(), metadata: Vec::new() }
    }

    /// Adds an entry to the metadata.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }
}

/// A layer that has no ONNX operator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{layer}: {what}")]
pub struct LowerError {
    layer: String,
    what: String,
}

const IN: &str = "image";
const OUT: &str = "logits";

/// Converts a network's graph to a model.
///
/// # Errors
/// Fails if a layer has no operator in ONNX.
pub fn lower(graph: &Graph, about: &About) -> Result<Model, LowerError> {
    let mut lowering = Lowering { axes: graph.spatial_dims, nodes: Vec::new(), initializers: Vec::new() };
    let mut values = vec![IN.to_owned()];
    for (place, call) in graph.calls.iter().enumerate() {
        let inputs: Vec<String> = call.inputs.iter().map(|input| values[*input].clone()).collect();
        let name = match call.path.as_str() {
            "" => format!("node{place}"),
            path => path.to_owned(),
        };
        // The same layer may be called several times.
        let name = match graph.calls[..place].iter().any(|other| !call.path.is_empty() && other.path == call.path) {
            true => format!("{name}#{place}"),
            false => name,
        };
        values.push(lowering.call(&name, call, &inputs)?);
    }
    let result = values[graph.result].clone();
    let spatial = |axes: usize| ["x", "y", "z"].into_iter().take(axes).map(Axis::Any);
    let flat = graph.output[2..] == [1, 1, 1] && graph.input[2..] != [1, 1, 1];
    let mut output = vec![Axis::Any("batch"), Axis::Fixed(graph.channels[1])];
    if flat {
        // Class scores, without the axes of length 1.
        lowering.node("Flatten", "output", &[result], OUT, vec![("axis", Attribute::Int(1))]);
    } else {
        lowering.node("Identity", "output", &[result], OUT, Vec::new());
        let names = ["out_x", "out_y", "out_z"];
        let same = graph.output[2..] == graph.input[2..];
        match same {
            true => output.extend(spatial(graph.spatial_dims)),
            false => output.extend(names.into_iter().take(graph.spatial_dims).map(Axis::Any)),
        }
    }
    let mut input = vec![Axis::Any("batch"), Axis::Fixed(graph.channels[0])];
    input.extend(spatial(graph.spatial_dims));
    Ok(Model {
        name: about.name.clone(),
        nodes: lowering.nodes,
        initializers: lowering.initializers,
        input: (IN.to_owned(), input),
        output: (OUT.to_owned(), output),
        metadata: about.metadata.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

struct Lowering {
    /// Number of spatial axes: 2 or 3.
    axes: usize,
    nodes: Vec<Node>,
    initializers: Vec<Initializer>,
}

type Attributes = Vec<(&'static str, Attribute)>;

impl Lowering {
    fn node(&mut self, operator: &'static str, name: &str, inputs: &[String], output: &str, attributes: Attributes) {
        self.nodes.push(Node {
            operator,
            name: name.to_owned(),
            inputs: inputs.to_vec(),
            output: output.to_owned(),
            attributes,
        });
    }

    /// Adds a node whose output has the node's name.
    fn step(&mut self, operator: &'static str, name: &str, inputs: &[&str], attributes: Attributes) -> String {
        let output = format!("{name}:out");
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        self.node(operator, name, &inputs, &output, attributes);
        output
    }

    fn floats(&mut self, name: String, shape: Vec<usize>, values: Arc<[f32]>) -> String {
        self.initializers.push(Initializer { name: name.clone(), shape, values: Values::Floats(values) });
        name
    }

    fn constant(&mut self, name: String, values: &[f32]) -> String {
        self.floats(name, vec![values.len()], values.into())
    }

    /// Adds a kernel, in 2-D without its axis of length 1.
    fn kernel(&mut self, name: &str, weight: &Weight) -> String {
        let shape = weight.shape[..2 + self.axes].to_vec();
        self.floats(format!("{name}.weight"), shape, weight.values.clone())
    }

    /// Adds a value per channel, or one for all, which is broadcast over an image.
    fn by_channel(&mut self, name: String, weight: &Weight) -> String {
        let mut shape = weight.shape.clone();
        shape.extend(vec![1; self.axes]);
        self.floats(name, shape, weight.values.clone())
    }

    /// A list with one entry per spatial axis; ONNX lists padding for both ends.
    fn per_axis(&self, values: [usize; 3]) -> Attribute {
        Attribute::Ints(values.iter().take(self.axes).map(|value| *value as i64).collect())
    }

    fn pads(&self, padding: [usize; 3]) -> Attribute {
        let once = padding.iter().take(self.axes).map(|value| *value as i64);
        Attribute::Ints(once.clone().chain(once).collect())
    }

    fn call(&mut self, name: &str, call: &Call, inputs: &[String]) -> Result<String, LowerError> {
        let x = inputs[0].as_str();
        let given: Vec<&str> = inputs.iter().map(String::as_str).collect();
        Ok(match &call.op {
            Op::Conv { weight, bias, stride, padding, dilation, groups } => {
                let attributes = vec![
                    ("kernel_shape", self.per_axis([weight.shape[2], weight.shape[3], weight.shape[4]])),
                    ("strides", self.per_axis(*stride)),
                    ("pads", self.pads(*padding)),
                    ("dilations", self.per_axis(*dilation)),
                    ("group", Attribute::Int(*groups as i64)),
                ];
                self.product("Conv", name, x, weight, bias.as_ref(), attributes)
            }
            Op::ConvTranspose { weight, bias, stride, padding, output_padding, dilation, groups } => {
                let attributes = vec![
                    ("kernel_shape", self.per_axis([weight.shape[2], weight.shape[3], weight.shape[4]])),
                    ("strides", self.per_axis(*stride)),
                    ("pads", self.pads(*padding)),
                    ("output_padding", self.per_axis(*output_padding)),
                    ("dilations", self.per_axis(*dilation)),
                    ("group", Attribute::Int(*groups as i64)),
                ];
                self.product("ConvTranspose", name, x, weight, bias.as_ref(), attributes)
            }
            Op::Scale { scale, offset } => {
                let channels = scale.values.len();
                let scale = self.floats(format!("{name}.scale"), vec![channels], scale.values.clone());
                let offset = self.floats(format!("{name}.offset"), vec![channels], offset.values.clone());
                let zeros = self.constant(format!("{name}.mean"), &vec![0.0; channels]);
                let ones = self.constant(format!("{name}.var"), &vec![1.0; channels]);
                // Statistics and weights are already combined into one scale and one offset.
                let attributes = vec![("epsilon", Attribute::Float(0.0))];
                self.step("BatchNormalization", name, &[x, &scale, &offset, &zeros, &ones], attributes)
            }
            Op::InstanceNorm { eps, weight, bias, channels } => {
                let [weight, bias] = self.affine(name, weight.as_ref(), bias.as_ref(), *channels);
                let attributes = vec![("epsilon", Attribute::Float(*eps as f32))];
                self.step("InstanceNormalization", name, &[x, &weight, &bias], attributes)
            }
            Op::GroupNorm { groups, eps, weight, bias } => {
                self.group_norm(name, x, *groups, *eps, weight.as_ref().zip(bias.as_ref()))
            }
            Op::PRelu { slope } => {
                let slope = self.by_channel(format!("{name}.slope"), slope);
                self.step("PRelu", name, &[x, &slope], Vec::new())
            }
            Op::LeakyRelu { slope } => match *slope {
                0.0 => self.step("Relu", name, &[x], Vec::new()),
                slope => self.step("LeakyRelu", name, &[x], vec![("alpha", Attribute::Float(slope as f32))]),
            },
            Op::Activation { name: function, alpha } => self.activation(name, x, function, *alpha)?,
            Op::MaxPool { kernel, stride, padding, dilation, ceil } => {
                let attributes = vec![
                    ("kernel_shape", self.per_axis(*kernel)),
                    ("strides", self.per_axis(*stride)),
                    ("pads", self.pads(*padding)),
                    ("dilations", self.per_axis(*dilation)),
                    ("ceil_mode", Attribute::Int(i64::from(*ceil))),
                ];
                self.step("MaxPool", name, &[x], attributes)
            }
            Op::AvgPool { kernel, stride, padding, ceil, include_pad } => {
                let attributes = vec![
                    ("kernel_shape", self.per_axis(*kernel)),
                    ("strides", self.per_axis(*stride)),
                    ("pads", self.pads(*padding)),
                    ("ceil_mode", Attribute::Int(i64::from(*ceil))),
                    ("count_include_pad", Attribute::Int(i64::from(*include_pad))),
                ];
                self.step("AveragePool", name, &[x], attributes)
            }
            Op::GlobalAvgPool => self.step("GlobalAveragePool", name, &[x], Vec::new()),
            Op::GlobalMaxPool => self.step("GlobalMaxPool", name, &[x], Vec::new()),
            Op::Resize { factors, align_corners } => {
                let mut scales = vec![1.0, 1.0];
                scales.extend(factors.iter().take(self.axes).map(|factor| *factor as f32));
                let scales = self.constant(format!("{name}.scales"), &scales);
                let coordinates = if *align_corners { "align_corners" } else { "half_pixel" };
                let attributes = vec![
                    ("mode", Attribute::Text("linear")),
                    ("coordinate_transformation_mode", Attribute::Text(coordinates)),
                ];
                self.step("Resize", name, &[x, "", &scales], attributes)
            }
            Op::Linear { weight, bias } => {
                let flat = self.step("Flatten", &format!("{name}/flat"), &[x], vec![("axis", Attribute::Int(1))]);
                let matrix = self.floats(format!("{name}.weight"), weight.shape.clone(), weight.values.clone());
                let bias = bias
                    .as_ref()
                    .map(|bias| self.floats(format!("{name}.bias"), bias.shape.clone(), bias.values.clone()));
                let inputs: Vec<&str> = [flat.as_str(), &matrix].into_iter().chain(bias.as_deref()).collect();
                let y = self.step("Gemm", name, &inputs, vec![("transB", Attribute::Int(1))]);
                self.with_axes(name, &y)
            }
            Op::Concat => self.step("Concat", name, &given, vec![("axis", Attribute::Int(1))]),
            Op::Repeat { times } => self.step("Concat", name, &vec![x; *times], vec![("axis", Attribute::Int(1))]),
            Op::Sum => self.step("Add", name, &given, Vec::new()),
            Op::Product => self.step("Mul", name, &given, Vec::new()),
            other => return Err(LowerError { layer: name.to_owned(), what: format!("{other:.60?} has no operator") }),
        })
    }

    /// Reshapes `[b, c]` with axes of length 1, as layers after a linear one expect.
    fn with_axes(&mut self, name: &str, y: &str) -> String {
        let axes: Vec<i64> = (2..2 + self.axes as i64).collect();
        let name = format!("{name}/axes");
        let shape = vec![axes.len()];
        self.initializers.push(Initializer { name: name.clone(), shape, values: Values::Ints(axes) });
        self.step("Unsqueeze", &format!("{name}/set"), &[y, &name], Vec::new())
    }

    fn product(
        &mut self,
        operator: &'static str,
        name: &str,
        x: &str,
        weight: &Weight,
        bias: Option<&Weight>,
        attributes: Attributes,
    ) -> String {
        let kernel = self.kernel(name, weight);
        let bias = bias.map(|bias| self.floats(format!("{name}.bias"), bias.shape.clone(), bias.values.clone()));
        let inputs: Vec<&str> = [x, kernel.as_str()].into_iter().chain(bias.as_deref()).collect();
        self.step(operator, name, &inputs, attributes)
    }

    fn affine(&mut self, name: &str, weight: Option<&Weight>, bias: Option<&Weight>, channels: usize) -> [String; 2] {
        let values = |given: Option<&Weight>, value: f32| match given {
            Some(weight) => weight.values.clone(),
            None => vec![value; channels].into(),
        };
        let (weight, bias) = (values(weight, 1.0), values(bias, 0.0));
        [
            self.floats(format!("{name}.weight"), vec![channels], weight),
            self.floats(format!("{name}.bias"), vec![channels], bias),
        ]
    }

    /// A group norm as an instance norm over groups; operator set 17 has no group norm.
    fn group_norm(
        &mut self,
        name: &str,
        x: &str,
        groups: usize,
        eps: f64,
        affine: Option<(&Weight, &Weight)>,
    ) -> String {
        let part = |what: &str| format!("{name}/{what}");
        let shape = self.step("Shape", &part("shape"), &[x], Vec::new());
        let grouped = vec![0, groups as i64, -1];
        self.initializers.push(Initializer { name: part("groups"), shape: vec![3], values: Values::Ints(grouped) });
        let y = self.step("Reshape", &part("split"), &[x, &part("groups")], Vec::new());
        let [ones, zeros] = self.affine(&part("plain"), None, None, groups);
        let attributes = vec![("epsilon", Attribute::Float(eps as f32))];
        let y = self.step("InstanceNormalization", &part("norm"), &[&y, &ones, &zeros], attributes);
        let y = self.step("Reshape", &part("join"), &[&y, &shape], Vec::new());
        let Some((weight, bias)) = affine else { return y };
        let weight = self.by_channel(format!("{name}.weight"), weight);
        let bias = self.by_channel(format!("{name}.bias"), bias);
        let y = self.step("Mul", &part("scale"), &[&y, &weight], Vec::new());
        self.step("Add", name, &[&y, &bias], Vec::new())
    }

    fn activation(&mut self, name: &str, x: &str, function: &str, alpha: f64) -> Result<String, LowerError> {
        let part = |what: &str| format!("{name}/{what}");
        let alpha_of = || vec![("alpha", Attribute::Float(alpha as f32))];
        Ok(match function {
            "relu6" => {
                let (low, high) = (self.scalar(part("low"), 0.0), self.scalar(part("high"), 6.0));
                self.step("Clip", name, &[x, &low, &high], Vec::new())
            }
            "elu" => self.step("Elu", name, &[x], alpha_of()),
            "selu" => self.step("Selu", name, &[x], Vec::new()),
            "celu" => self.step("Celu", name, &[x], alpha_of()),
            "sigmoid" => self.step("Sigmoid", name, &[x], Vec::new()),
            "tanh" => self.step("Tanh", name, &[x], Vec::new()),
            "softmax" => self.step("Softmax", name, &[x], vec![("axis", Attribute::Int(1))]),
            "logsoftmax" => self.step("LogSoftmax", name, &[x], vec![("axis", Attribute::Int(1))]),
            "swish" => {
                let by = self.scalar(part("alpha"), alpha as f32);
                let scaled = self.step("Mul", &part("scaled"), &[x, &by], Vec::new());
                let gate = self.step("Sigmoid", &part("gate"), &[&scaled], Vec::new());
                self.step("Mul", name, &[x, &gate], Vec::new())
            }
            "mish" => {
                let soft = self.step("Softplus", &part("softplus"), &[x], Vec::new());
                let gate = self.step("Tanh", &part("gate"), &[&soft], Vec::new());
                self.step("Mul", name, &[x, &gate], Vec::new())
            }
            "gelu" => {
                let (root, one) =
                    (self.scalar(part("root"), std::f32::consts::FRAC_1_SQRT_2), self.scalar(part("one"), 1.0));
                let half = self.scalar(part("half"), 0.5);
                let scaled = self.step("Mul", &part("scaled"), &[x, &root], Vec::new());
                let erf = self.step("Erf", &part("erf"), &[&scaled], Vec::new());
                let above = self.step("Add", &part("above"), &[&erf, &one], Vec::new());
                let product = self.step("Mul", &part("product"), &[x, &above], Vec::new());
                self.step("Mul", name, &[&product, &half], Vec::new())
            }
            other => {
                let what = format!("the activation {other} has no operator");
                return Err(LowerError { layer: name.to_owned(), what });
            }
        })
    }

    fn scalar(&mut self, name: String, value: f32) -> String {
        self.floats(name, Vec::new(), Arc::from([value]))
    }
}
