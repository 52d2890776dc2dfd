//! [`NetworkConfig`]: networks as a recipe names them.

use burn::tensor::Device;
use hearth_registry::{Fault, Kind, Named, Place};

use super::{AnyNetwork, Network};
use crate::layers::ConfigError;

/// A network by name, as a recipe gives it: `name = "UNet"` and the network's own parameters.
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

/// A configuration from which a network is built, and its known properties.
pub struct NetworkSpec {
    in_channels: usize,
    deep_supervision: bool,
    dims: &'static [usize],
    example_input: [usize; 5],
    init: Init,
}

impl NetworkSpec {
    /// A custom network for 2-D and 3-D images: `init` builds it with weights drawn from a seed.
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

    /// Sets whether it has further outputs in training that need their own loss.
    pub fn deep_supervision(self, deep_supervision: bool) -> Self {
        Self { deep_supervision, ..self }
    }

    /// The numbers of spatial axes it can be built for.
    pub fn with_dims(self, dims: &'static [usize]) -> Self {
        Self { dims, ..self }
    }

    /// A small input for the example of its entry, `[batch, channel, x, y, z]`.
    pub fn with_example_input(self, example_input: [usize; 5]) -> Self {
        Self { example_input, ..self }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// For invalid parameters.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AnyNetwork, ConfigError> {
        (self.init)(device, seed)
    }

    /// Whether it has further outputs in training that need their own loss
    /// ([`DeepSupervisionLoss`](crate::losses::DeepSupervisionLoss)).
    pub fn has_deep_supervision(&self) -> bool {
        self.deep_supervision
    }

    /// Channels of the image it takes.
    pub fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// The numbers of spatial axes it can be built for.
    pub fn dims(&self) -> &'static [usize] {
        self.dims
    }

    /// A small input for the example of its entry, `[batch, channel, x, y, z]`.
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

/// The channels of a shape that starts with them.
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
                let config: $config = hearth_registry::read(node)?;
                let channels: fn(&$config) -> usize = $channels;
                let deep: &[fn(&$config) -> bool] = &[$($deep)?];
                let deep = deep.iter().any(|deep| deep(&config));
                let channels = channels(&config);
                // The closure's types are those of the configuration, which the macro's caller
                // omits.
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
