//! The network that plans describe.

use serde_json::{Map, Value};

use crate::error::{NnunetError, Result};
use crate::plans::required;

/// A supported class of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkClass {
    /// `PlainConvUNet`.
    PlainConvUNet,
    /// `ResidualEncoderUNet`.
    ResidualEncoderUNet,
}

/// A normalisation layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormOp {
    /// Instance norm: statistics of each image and channel.
    Instance {
        /// The value added to the variance.
        eps: f64,
        /// Whether it has a scale and an offset.
        affine: bool,
    },
    /// Batch norm: statistics of the training.
    Batch {
        /// The value added to the variance.
        eps: f64,
        /// Whether it has a scale and an offset.
        affine: bool,
    },
}

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlin {
    /// Leaky ReLU with this slope for negative values.
    LeakyRelu(f64),
    /// ReLU.
    Relu,
}

/// A network with all its sizes; lists have one entry per stage, highest resolution first.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// The class of the network.
    pub class: NetworkClass,
    /// The number of spatial axes: 2 or 3.
    pub dims: usize,
    /// Channels per stage.
    pub features: Vec<usize>,
    /// Kernel per stage and axis.
    pub kernels: Vec<Vec<usize>>,
    /// Stride per stage and axis.
    pub strides: Vec<Vec<usize>>,
    /// Convolutions or blocks per stage.
    pub encoder: Vec<usize>,
    /// Convolutions per stage of the decoder, lowest resolution first.
    pub decoder: Vec<usize>,
    /// Channels after the first convolution of a residual network, if they differ.
    pub stem_channels: Option<usize>,
    /// Whether convolutions have a bias.
    pub conv_bias: bool,
    /// The norm after every convolution.
    pub norm: Option<NormOp>,
    /// The activation after every norm.
    pub nonlin: Option<Nonlin>,
    /// The probability that a channel is dropped in training.
    pub dropout: f64,
}

/// The largest number of weights, five times that of nnU-Net's largest planned networks.
const MAX_WEIGHTS: u64 = 1 << 30;

/// Arguments of the two networks with the values that have no effect.
const WITHOUT_EFFECT: [(&str, Value); 7] = [
    ("nonlin_first", Value::Bool(false)),
    ("deep_supervision", Value::Bool(true)),
    ("deep_supervision", Value::Bool(false)),
    ("bottleneck_channels", Value::Null),
    ("squeeze_excitation", Value::Bool(false)),
    ("disable_default_stem", Value::Bool(false)),
    ("return_skips", Value::Bool(true)),
];

const KNOWN: [&str; 17] = [
    "n_stages",
    "features_per_stage",
    "conv_op",
    "kernel_sizes",
    "strides",
    "n_conv_per_stage",
    "n_blocks_per_stage",
    "n_conv_per_stage_decoder",
    "conv_bias",
    "norm_op",
    "norm_op_kwargs",
    "dropout_op",
    "dropout_op_kwargs",
    "nonlin",
    "nonlin_kwargs",
    "stem_channels",
    "block",
];

impl Architecture {
    /// Parses the network from the keys of a configuration, in either form.
    pub(crate) fn parse(keys: &Map<String, Value>, dims: usize) -> Result<Self> {
        let Some(architecture) = keys.get("architecture").and_then(Value::as_object) else {
            return Self::legacy(keys, dims)?.within_limits();
        };
        let within = |error: NnunetError| match error {
            NnunetError::Key { key, what } => NnunetError::key(format!("architecture.{key}"), what),
            other => other,
        };
        let class: String = required(architecture, "network_class_name", "a class").map_err(within)?;
        let arguments = architecture.get("arch_kwargs").and_then(Value::as_object);
        let arguments =
            arguments.ok_or_else(|| NnunetError::key("architecture.arch_kwargs", "is missing; expected a table"))?;
        Self::new(&class, arguments, dims).and_then(Self::within_limits).map_err(|error| match error {
            NnunetError::Key { key, what } if key != "network_class_name" => {
                NnunetError::key(format!("architecture.arch_kwargs.{key}"), what)
            }
            other => within(other),
        })
    }

    fn new(class: &str, arguments: &Map<String, Value>, dims: usize) -> Result<Self> {
        let class = known_class(class)?;
        for (key, value) in arguments {
            let harmless = value.is_null() || WITHOUT_EFFECT.iter().any(|(known, only)| known == key && only == value);
            if !KNOWN.contains(&key.as_str()) && !harmless {
                return Err(NnunetError::key(key, format!("{value} is an argument that is not supported")));
            }
        }
        if let Some(block) = arguments.get("block").and_then(Value::as_str)
            && last(block) != "BasicBlockD"
        {
            return Err(NnunetError::key("block", format!("{block} is not supported; BasicBlockD is")));
        }
        let conv = operator(arguments, "conv_op").unwrap_or_default();
        if !conv.is_empty() && conv != format!("Conv{dims}d") {
            return Err(NnunetError::key("conv_op", format!("{conv} for a patch of {dims} axes")));
        }
        let stages: usize = required(arguments, "n_stages", "a number of stages")?;
        if !(2..=16).contains(&stages) {
            return Err(NnunetError::key("n_stages", format!("{stages}: expected 2 to 16")));
        }
        let encoder = match class {
            NetworkClass::PlainConvUNet => "n_conv_per_stage",
            NetworkClass::ResidualEncoderUNet => "n_blocks_per_stage",
        };
        let dropout = match operator(arguments, "dropout_op") {
            None => 0.0,
            Some(op) if op == format!("Dropout{dims}d") || op == "Dropout" => {
                number(arguments, "dropout_op_kwargs", "p", 0.5)
            }
            Some(op) => return Err(NnunetError::key("dropout_op", format!("{op} is not supported"))),
        };
        Ok(Architecture {
            class,
            dims,
            features: counts(arguments, "features_per_stage", stages)?,
            kernels: sizes(arguments, "kernel_sizes", stages, dims)?,
            strides: sizes(arguments, "strides", stages, dims)?,
            encoder: counts(arguments, encoder, stages)?,
            decoder: counts(arguments, "n_conv_per_stage_decoder", stages - 1)?,
            stem_channels: arguments.get("stem_channels").and_then(Value::as_u64).map(|n| n as usize),
            conv_bias: arguments.get("conv_bias").and_then(Value::as_bool).unwrap_or(false),
            norm: norm(arguments)?,
            nonlin: nonlin(arguments)?,
            dropout,
        })
    }

    /// Fails if the network has more weights than the limit.
    fn within_limits(self) -> Result<Self> {
        let mut weights = 0_u64;
        for stage in 0..self.features.len() {
            let taps: usize = self.kernels[stage].iter().product();
            let strides: usize = self.strides[stage].iter().product();
            let [above, here] = [self.features[stage.saturating_sub(1)], self.features[stage]].map(|n| n as u64);
            let units = 2 * self.encoder[stage] as u64 + self.decoder.iter().max().map_or(0, |n| *n as u64) + 1;
            let of_units = (taps as u64).saturating_mul(here * here.max(above)).saturating_mul(units);
            weights = weights.saturating_add(of_units).saturating_add(strides as u64 * here * above);
        }
        if weights > MAX_WEIGHTS {
            let what = format!("a network of about {weights} weights, more than the limit of {MAX_WEIGHTS}");
            return Err(NnunetError::key("features_per_stage", what));
        }
        Ok(self)
    }

    /// Parses plans from before `architecture` existed: nnU-Net's U-Net, with its sizes as keys of
    /// the configuration.
    fn legacy(keys: &Map<String, Value>, dims: usize) -> Result<Self> {
        let expected = "a network, by `architecture` or, in older plans, by UNet_class_name";
        let class: String = required(keys, "UNet_class_name", expected)?;
        let class = known_class(&class)?;
        let strides: Vec<Value> = required(keys, "pool_op_kernel_sizes", "a stride per stage")?;
        let stages = strides.len();
        if !(2..=16).contains(&stages) {
            return Err(NnunetError::key("pool_op_kernel_sizes", format!("{stages} stages: expected 2 to 16")));
        }
        let base: usize = required(keys, "UNet_base_num_features", "a number of channels")?;
        let most: usize = required(keys, "unet_max_num_features", "a number of channels")?;
        Ok(Architecture {
            class,
            dims,
            features: (0..stages).map(|s| base.saturating_mul(1 << s).min(most)).collect(),
            kernels: sizes(keys, "conv_kernel_sizes", stages, dims)?,
            strides: sizes(keys, "pool_op_kernel_sizes", stages, dims)?,
            encoder: counts(keys, "n_conv_per_stage_encoder", stages)?,
            decoder: counts(keys, "n_conv_per_stage_decoder", stages - 1)?,
            stem_channels: None,
            conv_bias: true,
            norm: Some(NormOp::Instance { eps: 1e-5, affine: true }),
            nonlin: Some(Nonlin::LeakyRelu(0.01)),
            dropout: 0.0,
        })
    }
}

/// The class by the last part of its name, because classes moved between modules.
fn known_class(name: &str) -> Result<NetworkClass> {
    match last(name) {
        "PlainConvUNet" => Ok(NetworkClass::PlainConvUNet),
        "ResidualEncoderUNet" => Ok(NetworkClass::ResidualEncoderUNet),
        _ => {
            let what = format!("the network {name} is not supported; PlainConvUNet and ResidualEncoderUNet are");
            Err(NnunetError::key("network_class_name", what))
        }
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The last part of an operator's dotted name.
fn operator<'a>(arguments: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    arguments.get(key).and_then(Value::as_str).map(last)
}

fn number(arguments: &Map<String, Value>, table: &str, key: &str, default: f64) -> f64 {
    arguments.get(table).and_then(|table| table.get(key)).and_then(Value::as_f64).unwrap_or(default)
}

fn norm(arguments: &Map<String, Value>) -> Result<Option<NormOp>> {
    let eps = number(arguments, "norm_op_kwargs", "eps", 1e-5);
    let affine = |default: bool| {
        let given = arguments.get("norm_op_kwargs").and_then(|table| table.get("affine"));
        given.and_then(Value::as_bool).unwrap_or(default)
    };
    match operator(arguments, "norm_op") {
        None => Ok(None),
        Some("InstanceNorm2d" | "InstanceNorm3d") => Ok(Some(NormOp::Instance { eps, affine: affine(false) })),
        Some("BatchNorm2d" | "BatchNorm3d") => Ok(Some(NormOp::Batch { eps, affine: affine(true) })),
        Some(op) => Err(NnunetError::key("norm_op", format!("{op} is not supported; InstanceNorm and BatchNorm are"))),
    }
}

fn nonlin(arguments: &Map<String, Value>) -> Result<Option<Nonlin>> {
    match operator(arguments, "nonlin") {
        None => Ok(None),
        Some("LeakyReLU") => Ok(Some(Nonlin::LeakyRelu(number(arguments, "nonlin_kwargs", "negative_slope", 0.01)))),
        Some("ReLU") => Ok(Some(Nonlin::Relu)),
        Some(op) => Err(NnunetError::key("nonlin", format!("{op} is not supported; LeakyReLU and ReLU are"))),
    }
}

/// Reads a number per stage; a single number applies to all.
fn counts(keys: &Map<String, Value>, key: &str, stages: usize) -> Result<Vec<usize>> {
    let expected = format!("a number above 0, or {stages}");
    let value: Value = required(keys, key, &expected)?;
    let list: Option<Vec<usize>> = match value.as_u64() {
        Some(one) => Some(vec![one as usize; stages]),
        None => serde_json::from_value(value.clone()).ok(),
    };
    match list {
        Some(list) if list.len() == stages && list.iter().all(|n| (1..=1 << 16).contains(n)) => Ok(list),
        _ => Err(NnunetError::key(key, format!("is {value}; expected {expected}"))),
    }
}

/// Reads numbers per stage and axis; a single number applies to all stages, or to all axes of a stage.
fn sizes(keys: &Map<String, Value>, key: &str, stages: usize, dims: usize) -> Result<Vec<Vec<usize>>> {
    let expected = format!("a size for each of {stages} stages, of one number or {dims}");
    let value: Value = required(keys, key, &expected)?;
    let axes = |value: &Value| match value.as_u64() {
        Some(one) => Some(vec![one as usize; dims]),
        None => serde_json::from_value(value.clone()).ok(),
    };
    let all: Option<Vec<Vec<usize>>> = match value.as_array() {
        Some(list) => list.iter().map(axes).collect(),
        None => axes(&value).map(|one| vec![one; stages]),
    };
    match all {
        Some(all)
            if all.len() == stages && all.iter().all(|a| a.len() == dims && a.iter().all(|n| (1..=64).contains(n))) =>
        {
            Ok(all)
        }
        _ => Err(NnunetError::key(key, format!("is {value}; expected {expected}"))),
    }
}
