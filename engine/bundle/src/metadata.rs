//! [`Metadata`]: what a bundle says about itself.

use std::collections::BTreeMap;

use serde_json::Value;

/// `configs/metadata.json`, as far as it is shown and used. Its numbers are now and then wrong; a
/// config decides.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The name of the bundle.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub task: Option<String>,
    /// What it is, in a sentence.
    pub description: Option<String>,
    /// Who made it.
    pub authors: Option<String>,
    /// The MONAI that it was made for.
    pub monai_version: Option<String>,
    /// Other packages that it asks for, with versions.
    pub packages: BTreeMap<String, String>,
    /// For what it may be used.
    pub intended_use: Option<String>,
    /// Inputs of the network.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// The whole file.
    pub whole: Value,
}

/// An input or an output of a network.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Its name: `image`, `pred`.
    pub name: String,
    /// `image`, `probabilities`, ...
    pub kind: Option<String>,
    /// `hounsfield`, `segmentation`, ...
    pub format: Option<String>,
    /// `CT`, `MR`, ...
    pub modality: Option<String>,
    /// Channels.
    pub num_channels: Option<u64>,
    /// Voxels of each axis: numbers, or texts such as `16*n`.
    pub spatial_shape: Vec<String>,
    /// The type of the values.
    pub dtype: Option<String>,
    /// What its channels, or the values of its argmax, are called.
    pub channels: BTreeMap<u64, String>,
}

impl Metadata {
    /// Of the values of a file.
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

    /// The names of the classes, of the first output that has them.
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
        let channel = |(number, name): (&String, &Value)| Some((number.parse().ok()?, text_of(Some(name))?));
        Port {
            name: name.to_owned(),
            kind: text("type"),
            format: text("format"),
            modality: text("modality"),
            num_channels: port.get("num_channels").and_then(Value::as_u64),
            spatial_shape: shape.into_iter().flatten().filter_map(|axis| text_of(Some(axis))).collect(),
            dtype: text("dtype"),
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
