//! Networks by name, as in a recipe: [`NetworkConfig`].

use burn::tensor::Device;
use hearth_machine::Allowance;
use hearth_registry::{Fault, Kind, Named, Node, Place};

use super::{AnyNetwork, Network};
use crate::layers::{ConfigError, rehearse};

/// A network by name, as in a recipe: `name = "UNet"` and the network's parameters.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::networks::{Network, NetworkConfig};
/// let text = "name = 'UNet'\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]";
/// let config: NetworkConfig = toml::from_str(text)?;
/// assert_eq!(config.init(&Device::default(), 0)?.channels(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type NetworkConfig = Named<NetworkSpec>;

type Init = Box<dyn Fn(&Device, u64) -> Result<AnyNetwork, ConfigError> + Send + Sync>;

/// A configuration from which a network is built, and the properties known before.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::networks::{Network, NetworkSpec, UNetConfig};
/// let spec = NetworkSpec::new(1, |device, seed| UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(device, seed));
/// assert_eq!(spec.init(&Device::default(), 0)?.channels(), [1, 2]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
pub struct NetworkSpec {
    in_channels: usize,
    deep_supervision: bool,
    dims: &'static [usize],
    example_input: [usize; 5],
    init: Init,
}

impl NetworkSpec {
    /// The configuration of a custom network for 2-D and 3-D images. `init` builds it with weights
    /// drawn from a seed.
    pub fn new<N: Network>(
        in_channels: usize,
        init: impl Fn(&Device, u64) -> Result<N, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            in_channels,
            deep_supervision: false,
            dims: &[2, 3],
            example_input: [1, in_channels, 64, 64, 64],
            init: Box::new(move |device, seed| init(device, seed).map(AnyNetwork::new)),
        }
    }

    /// Sets whether the network has additional outputs in training that need their own loss.
    pub fn deep_supervision(self, deep_supervision: bool) -> Self {
        Self { deep_supervision, ..self }
    }

    /// Sets the supported numbers of spatial axes.
    pub fn with_dims(self, dims: &'static [usize]) -> Self {
        Self { dims, ..self }
    }

    /// Sets a small input for the example of the network's entry, `[batch, channel, x, y, z]`.
    pub fn with_example_input(self, example_input: [usize; 5]) -> Self {
        Self { example_input, ..self }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// Fails for invalid parameters, and for weights that exceed the memory of this process.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AnyNetwork, ConfigError> {
        self.weights(device)?;
        (self.init)(device, seed)
    }

    /// The number of bytes of the weights in f32, computed without drawing them.
    ///
    /// # Errors
    /// Fails as [`init`](Self::init) does.
    pub fn weights(&self, device: &Device) -> Result<u64, ConfigError> {
        rehearse(Allowance::now(), || (self.init)(device, 0)).map(|(bytes, _)| bytes)
    }

    /// Calls `ask` with a network without weights, built as in [`weights`](Self::weights).
    ///
    /// # Errors
    /// Fails as [`init`](Self::init) does.
    pub fn rehearsed<T>(&self, device: &Device, ask: impl FnOnce(&AnyNetwork) -> T) -> Result<T, ConfigError> {
        rehearse(Allowance::now(), || (self.init)(device, 0)).map(|(_, network)| ask(&network))
    }

    /// Whether the network has additional outputs in training that need their own loss
    /// ([`DeepSupervisionLoss`](crate::losses::DeepSupervisionLoss)).
    pub fn has_deep_supervision(&self) -> bool {
        self.deep_supervision
    }

    /// The number of channels of the image.
    pub fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// The supported numbers of spatial axes.
    pub fn dims(&self) -> &'static [usize] {
        self.dims
    }

    /// A small input for the example of the network's entry, `[batch, channel, x, y, z]`.
    pub fn example_input(&self) -> [usize; 5] {
        self.example_input
    }
}

impl Kind for NetworkSpec {
    const WORD: &'static str = "network";

    const SHARED: &'static [(&'static str, &'static str)] = &[
        ("spatial_dims", "Axes of the image, 2 or 3."),
        ("in_channels", "Channels of the image."),
        ("out_channels", "Channels of the output: classes or regions."),
    ];

    fn is_spelt(known: &str, written: &str) -> bool {
        known.eq_ignore_ascii_case(written)
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

impl From<ConfigError> for Fault {
    fn from(error: ConfigError) -> Self {
        match &error {
            ConfigError::Value { name, .. } => Fault::at(name.clone(), error.to_string()),
            _ => Fault::new(error.to_string()),
        }
    }
}

impl ConfigError {
    /// Converts the error to a fault of a network's table, at the key that causes it.
    pub fn in_table(self, table: &Node) -> Fault {
        let Self::TooLarge { shape, .. } = &self else { return self.into() };
        match blamed(table, shape) {
            Some(key) => Fault::at(key.clone(), format!("{self}: lower `{key}`")),
            None => self.into(),
        }
    }
}

/// The key of the number with the largest share in a weight's shape; if the shape contains none of
/// the numbers, the key of the largest one.
fn blamed(table: &Node, shape: &[usize]) -> Option<String> {
    let share = |number: &u64| {
        let times = shape.iter().filter(|length| **length as u64 == *number).count();
        (*number as f64).powi(times as i32)
    };
    let numbers = table.fields().iter().map(|field| (&field.key, numbers(&field.node)));
    let largest = numbers.filter_map(|(key, numbers)| {
        let share = numbers.iter().map(share).fold(1.0, f64::max);
        Some((key, share, numbers.into_iter().max()?))
    });
    let by_share = |a: &(&String, f64, u64), b: &(&String, f64, u64)| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2));
    largest.max_by(by_share).map(|(key, _, _)| key.clone())
}

/// All whole numbers in a value, at any depth.
fn numbers(node: &Node) -> Vec<u64> {
    let own = node.to_toml().as_integer().and_then(|number| u64::try_from(number).ok());
    let inside = node.items().iter().chain(node.fields().iter().map(|field| &field.node));
    own.into_iter().chain(inside.flat_map(numbers)).collect()
}

/// Counts of a network that are never 0.
const COUNTS: [&str; 8] = [
    "in_channels",
    "n_input_channels",
    "out_channels",
    "num_classes",
    "classes",
    "init_features",
    "growth_rate",
    "bn_size",
];

/// Rejects a count of 0 at its key; what the network's parts say about it names other keys.
pub(super) fn check_counts(table: &Node) -> Result<(), Fault> {
    let none = |key: &&&str| table.get(key).is_some_and(|number| *number == Node::from(0_i64));
    match COUNTS.iter().find(none) {
        Some(key) => Err(Fault::at(*key, format!("`{key}` is 0; give 1 or more"))),
        None => Ok(()),
    }
}

/// The number of channels, which is the first entry of a shape.
pub(super) fn first(shape: &[usize]) -> usize {
    shape.first().copied().unwrap_or(0)
}

/// Registers a network next to its configuration.
macro_rules! network_entry {
    ($config:ty {
        name: $name:literal,
        aliases: $aliases:expr,
        about: $about:literal,
        paper: $paper:literal,
        example: $example:literal,
        input: $input:expr,
        dims: $dims:expr,
        in_channels: $channels:expr,
        init: $init:expr,
        $(deep_supervision: $deep:expr,)?
    }) => {
        hearth_registry::entry!(
            crate::networks::NetworkSpec => $config,
            name: $name,
            aliases: $aliases,
            about: $about,
            paper: $paper,
            example: $example,
            build: |node| {
                crate::networks::spec::check_counts(node)?;
                let config: $config = hearth_registry::read(node)?;
                let channels: fn(&$config) -> usize = $channels;
                let deep: &[fn(&$config) -> bool] = &[$($deep)?];
                let deep = deep.iter().any(|deep| deep(&config));
                let channels = channels(&config);
                // The types of the closure are those of the configuration, which the caller of the
                // macro omits.
                fn with<N: crate::networks::Network>(
                    config: $config,
                    init: fn(&$config, &burn::tensor::Device, u64) -> Result<N, crate::layers::ConfigError>,
                    channels: usize,
                ) -> crate::networks::NetworkSpec {
                    crate::networks::NetworkSpec::new(channels, move |device, seed| init(&config, device, seed))
                }
                let spec = with(config, $init, channels);
                Ok(Box::new(spec.deep_supervision(deep).with_dims($dims).with_example_input($input)))
            }
        );
    };
}
