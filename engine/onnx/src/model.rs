//! An ONNX model (nodes, initializers, metadata) and its encoding.

use std::sync::Arc;

use crate::wire::Message;

/// The IR version that was released with operator set 17.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;

/// The largest size of the weights in the model file, in bytes. A Protocol Buffers message is
/// limited to 2 GB; larger weights go to a second file.
pub const MOST_WITHIN: usize = 1_900_000_000;

/// Alignment of weights in the second file, which lets runtimes map it into memory.
const ALIGNED: usize = 4096;

/// The values of an initializer.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    Floats(Arc<[f32]>),
    Ints(Vec<i64>),
}

#[derive(Clone, Debug)]
pub(crate) struct Initializer {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Values,
}

#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(&'static str),
    Ints(Vec<i64>),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub operator: &'static str,
    pub name: String,
    pub inputs: Vec<String>,
    pub output: String,
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// An axis with a fixed size or a name.
#[derive(Clone, Debug)]
pub(crate) enum Axis {
    Fixed(usize),
    Any(&'static str),
}

/// An ONNX model.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) initializers: Vec<Initializer>,
    pub(crate) input: (String, Vec<Axis>),
    pub(crate) output: (String, Vec<Axis>),
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) version: String,
}

/// The bytes of a model's file, and of a second file if the weights do not fit.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The `.onnx` file.
    pub model: Vec<u8>,
    /// Name and bytes of the second file, if any.
    pub data: Option<Vec<u8>>,
}

impl Model {
    /// Encodes the model. Weights of up to 1.9 GB are part of the file; larger ones go to
    /// `model.onnx.data`.
    pub fn encode(&self) -> Encoded {
        self.encode_as("model.onnx.data", MOST_WITHIN)
    }

    /// Encodes the model with a given name of the second file, and a given limit on the bytes of
    /// weights in the first.
    pub fn encode_as(&self, data_name: &str, most: usize) -> Encoded {
        let total: usize = self.initializers.iter().map(|i| i.shape.iter().product::<usize>() * 4).sum();
        let mut data = (total > most).then(Vec::new);
        let mut graph = Message::new();
        for node in &self.nodes {
            graph = graph.message(1, node.message());
        }
        graph = graph.text(2, &self.name);
        for initializer in &self.initializers {
            graph = graph.message(5, initializer.message(data.as_mut(), data_name));
        }
        graph = graph.message(11, value(&self.input)).message(12, value(&self.output));
        let mut model = Message::new()
            .int(1, IR_VERSION)
            .text(2, "Hearth")
            .text(3, &self.version)
            .message(7, graph)
            .message(8, Message::new().text(1, "").int(2, OPSET));
        for (key, value) in &self.metadata {
            model = model.message(14, Message::new().text(1, key).text(2, value));
        }
        Encoded { model: model.0, data }
    }

    /// The number of nodes of each operator, by operator name.
    pub fn operators(&self) -> std::collections::BTreeMap<&'static str, usize> {
        let mut counts = std::collections::BTreeMap::new();
        self.nodes.iter().for_each(|node| *counts.entry(node.operator).or_default() += 1);
        counts
    }
}

impl Node {
    fn message(&self) -> Message {
        let mut node = Message::new();
        for input in &self.inputs {
            node = node.text(1, input);
        }
        node = node.text(2, &self.output).text(3, &self.name).text(4, self.operator);
        for (name, attribute) in &self.attributes {
            let message = Message::new().text(1, name);
            let message = match attribute {
                Attribute::Float(value) => message.float(2, *value).int(20, 1),
                Attribute::Int(value) => message.int(3, *value).int(20, 2),
                Attribute::Text(value) => message.text(4, value).int(20, 3),
                Attribute::Ints(values) => message.each_int(8, values).int(20, 7),
            };
            node = node.message(5, message);
        }
        node
    }
}

impl Initializer {
    fn message(&self, data: Option<&mut Vec<u8>>, data_name: &str) -> Message {
        let shape: Vec<i64> = self.shape.iter().map(|length| *length as i64).collect();
        let message = Message::new().ints(1, &shape);
        match &self.values {
            Values::Ints(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                message.int(2, 7).text(8, &self.name).bytes(9, &bytes)
            }
            Values::Floats(values) => {
                let message = message.int(2, 1).text(8, &self.name);
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                let Some(data) = data else { return message.bytes(9, &bytes.collect::<Vec<u8>>()) };
                data.resize(data.len().next_multiple_of(ALIGNED), 0);
                let offset = data.len();
                data.extend(bytes);
                let entry = |key: &str, value: String| Message::new().text(1, key).text(2, &value);
                message
                    .message(13, entry("location", data_name.to_owned()))
                    .message(13, entry("offset", offset.to_string()))
                    .message(13, entry("length", (data.len() - offset).to_string()))
                    .int(14, 1)
            }
        }
    }
}

/// Encodes the name, type and shape of an input or output.
fn value((name, axes): &(String, Vec<Axis>)) -> Message {
    let mut shape = Message::new();
    for axis in axes {
        let dimension = match axis {
            Axis::Fixed(length) => Message::new().int(1, *length as i64),
            Axis::Any(name) => Message::new().text(2, name),
        };
        shape = shape.message(1, dimension);
    }
    let tensor = Message::new().int(1, 1).message(2, shape);
    Message::new().text(1, name).message(2, Message::new().message(1, tensor))
}
