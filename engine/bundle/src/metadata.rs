//! [`Metadata`]: facts about a bundle.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of `configs/metadata.json` that are shown and used. Its numbers are sometimes wrong;
/// a config takes precedence.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The name of the bundle.
    pub name: Option<String>,
    /// The version of the bundle.
    pub version: Option<String>,
    /// The task of the model.
    pub task: Option<String>,
    /// A description in one sentence.
    pub description: Option<String>,
    /// The authors.
    pub authors: Option<String>,
    /// The version of MONAI for which it was made.
    pub monai_version: Option<String>,
    /// Other required packages, with versions.
    pub packages: BTreeMap<String, String>,
    /// The intended use.
    pub intended_use: Option<String>,
    /// The inputs of the network.
    pub inputs: Vec<Port>,
    /// The outputs of the network.
    pub outputs: Vec<Port>,
    /// The whole file.
    pub whole: Value,
}

/// An input or an output of a network.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// The name: `image`, `pred`.
    pub name: String,
    /// The type: `image`, `probabilities`, ...
    pub kind: Option<String>,
    /// The format: `hounsfield`, `segmentation`, ...
    pub format: Option<String>,
    /// The modality: `CT`, `MR`, ...
    pub modality: Option<String>,
    /// The number of channels.
    pub num_channels: Option<u64>,
    /// The size of each axis in voxels: numbers, or texts such as `16*n`.
    pub spatial_shape: Vec<String>,
    /// The type of the values.
    pub dtype: Option<String>,
    /// The least and the greatest expected value.
    pub value_range: Option<(f64, f64)>,
    /// The names of its channels, or of the values of its argmax.
    pub channels: BTreeMap<u64, String>,
}

impl Metadata {
    /// Extracts the metadata from the values of a file.
    pub fn new(whole: Value) -> Self {
        let text = |key: &str| text_of(whole.get(key));
        let packages = ["required_packages_version", "optional_packages_version"].map(|key| whole.get(key));
        let packages = packages.into_iter().flatten().filter_map(Value::as_object).flatten();
        let ports = |which: &str| {
            let ports =
                whole.get("network_data_format").and_then(|format| format.get(which)).and_then(Value::as_object);
            ports.into_iter().flatten().map(|(name, port)| Port::new(name, port)).collect()
        };
        Metadata {
            name: text("name"),
            version: text("version"),
            task: text("task"),
            description: text("description"),
            authors: text("authors"),
            monai_version: text("monai_version"),
            packages: packages.filter_map(|(name, version)| Some((name.clone(), text_of(Some(version))?))).collect(),
            intended_use: text("intended_use"),
            inputs: ports("inputs"),
            outputs: ports("outputs"),
            whole,
        }
    }

    /// The class names of the first output that has them.
    pub fn labels(&self) -> BTreeMap<u64, String> {
        self.outputs
            .iter()
            .map(|port| &port.channels)
            .find(|channels| !channels.is_empty())
            .cloned()
            .unwrap_or_default()
    }
}

impl Port {
    fn new(name: &str, port: &Value) -> Self {
        let text = |key: &str| text_of(port.get(key));
        let shape = port.get("spatial_shape").and_then(Value::as_array);
        let channels = port.get("channel_def").and_then(Value::as_object);
        let value_range = match port.get("value_range").and_then(Value::as_array).map(Vec::as_slice) {
            Some([least, most]) => least.as_f64().zip(most.as_f64()),
            _ => None,
        };
        let channel = |(number, name): (&String, &Value)| Some((number.parse().ok()?, text_of(Some(name))?));
        Port {
            name: name.to_owned(),
            kind: text("type"),
            format: text("format"),
            modality: text("modality"),
            num_channels: port.get("num_channels").and_then(Value::as_u64),
            spatial_shape: shape.into_iter().flatten().filter_map(|axis| text_of(Some(axis))).collect(),
            dtype: text("dtype"),
            value_range,
            channels: channels.into_iter().flatten().filter_map(channel).collect(),
        }
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
