//! The convolutions with which MONAI's `Regressor`, `Classifier`, `Discriminator` and `Critic` start.

use super::defaults::nda;
use super::facts::Facts;
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, Layer, LayerSpec,
    ResidualUnit, Scope, Sequential,
};
use crate::named::Named;

/// Defines a configuration of the stem: its own fields, the shared ones in place of `..stem(dropout
/// = "its default")`, and further ones. The fields are written out because serde cannot reject
/// unknown keys of a struct that flattens another.
macro_rules! stem_config {
    (
        $(#[$($about:tt)*])*
        pub struct $name:ident {
            $($(#[$($first_about:tt)*])* pub $first:ident: $first_type:tt $(<$first_of:ident>)?,)*
            ..stem(dropout = $dropout:tt),
            $($(#[$($more_about:tt)*])* pub $more:ident: $more_type:tt $(<$more_of:ident>)?,)*
        }
    ) => {
        $(#[$($about)*])*
        #[derive(
            Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
            derive_setters::Setters,
        )]
        #[serde(deny_unknown_fields)]
        #[setters(strip_option)]
        pub struct $name {
            $($(#[$($first_about)*])* pub $first: $first_type $(<$first_of>)?,)*
            /// Kernel of the convolutions, odd.
            #[serde(default = "crate::networks::defaults::three")]
            #[setters(into)]
            pub kernel_size: crate::layers::Axes,
            /// Number of convolutions per residual unit; 0 for plain convolutions.
            #[serde(default = "crate::networks::defaults::two")]
            pub num_res_units: usize,
            /// Activation; `""` or null for none.
            #[serde(default = "crate::networks::defaults::prelu")]
            #[setters(into)]
            pub act: Option<crate::layers::LayerSpec>,
            /// Norm; `""` or null for none.
            #[serde(default = "crate::networks::defaults::instance")]
            #[setters(into)]
            pub norm: Option<crate::layers::LayerSpec>,
            /// Dropout probability; null for none.
            #[serde(default = $dropout)]
            #[setters(into)]
            pub dropout: Option<crate::layers::DropoutSpec>,
            /// Whether convolutions have a bias.
            #[serde(default = "crate::networks::defaults::yes")]
            pub bias: bool,
            $($(#[$($more_about)*])* pub $more: $more_type $(<$more_of>)?,)*
        }

        impl $name {
            /// Creates options with MONAI's defaults for the other shared fields.
            fn with_defaults(
                $($first: $first_type $(<$first_of>)?,)*
                dropout: Option<crate::layers::DropoutSpec>,
                $($more: $more_type $(<$more_of>)?,)*
            ) -> Self {
                use crate::networks::defaults::{instance, prelu, three, two};
                let (kernel_size, num_res_units, act, norm) = (three(), two(), prelu(), instance());
                $name { $($first,)* kernel_size, num_res_units, act, norm, dropout, bias: true, $($more,)* }
            }

            /// The options of the stem.
            fn stem(&self) -> crate::networks::stem::StemOptions<'_> {
                crate::networks::stem::StemOptions {
                    in_shape: &self.in_shape,
                    channels: &self.channels,
                    strides: &self.strides,
                    kernel_size: &self.kernel_size,
                    num_res_units: self.num_res_units,
                    act: &self.act,
                    norm: &self.norm,
                    dropout: &self.dropout,
                    bias: self.bias,
                }
            }
        }
    };
}

pub(super) use stem_config;

/// Strides that are the same along every axis of a layer.
pub(super) fn all_axes(strides: &[usize]) -> Vec<Axes> {
    strides.iter().copied().map(Axes::All).collect()
}

/// Options of a [`Stem`].
#[derive(Clone, Copy)]
pub(super) struct StemOptions<'a> {
    pub in_shape: &'a [usize],
    pub channels: &'a [usize],
    pub strides: &'a [Axes],
    pub kernel_size: &'a Axes,
    pub num_res_units: usize,
    pub act: &'a Option<LayerSpec>,
    pub norm: &'a Option<LayerSpec>,
    pub dropout: &'a Option<DropoutSpec>,
    pub bias: bool,
}

impl StemOptions<'_> {
    /// The layers after each convolution.
    pub fn adn(&self, clock: &DropoutClock) -> AdnOptions {
        AdnOptions {
            ordering: nda(),
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            clock: clock.clone(),
        }
    }

    /// A residual unit, or a plain convolution.
    pub fn layer(&self, scope: &Scope, options: ConvolutionOptions, last: bool) -> Result<Layer, ConfigError> {
        if self.num_res_units > 0 {
            return ResidualUnit::new(scope, &options, self.num_res_units, last).map(Layer::ResidualUnit);
        }
        let adn = options.adn.filter(|_| !last);
        Convolution::new(scope, &ConvolutionOptions { adn, ..options }).map(Layer::Convolution)
    }

    /// Checks that each layer has a stride.
    pub fn check_strides(&self) -> Result<(), ConfigError> {
        let StemOptions { channels, strides, .. } = self;
        if strides.len() == channels.len() {
            return Ok(());
        }
        Err(ConfigError::value("strides", strides, format!("expected {}, as channels", channels.len())))
    }
}

/// The stem of a network: its first convolutions.
pub(super) struct Stem {
    pub net: Sequential,
    /// Number of features per image after the convolutions.
    pub features: usize,
    pub facts: Facts,
}

impl Stem {
    pub fn new(
        name: &'static str,
        scope: &Scope,
        options: StemOptions<'_>,
        outputs: usize,
    ) -> Result<Self, ConfigError> {
        let StemOptions { in_shape, channels, strides, .. } = options;
        let dims = in_shape.len().saturating_sub(1);
        let [in_channels, size @ ..] = in_shape else {
            return Err(ConfigError::value("in_shape", in_shape, "expected the channels and two or three sizes"));
        };
        if ![2, 3].contains(&dims) || size.contains(&0) {
            return Err(ConfigError::value("in_shape", in_shape, "expected the channels and two or three sizes"));
        }
        let mut facts = Facts::new(name, dims, [*in_channels, outputs])?;
        if channels.is_empty() || channels.contains(&0) {
            return Err(ConfigError::value("channels", channels, "expected one layer or more, each of at least 1"));
        }
        options.check_strides()?;
        let mut extent = [1; 3];
        extent[..dims].copy_from_slice(size);
        facts.exact = Some(extent);
        let kernel = options.kernel_size.positive("kernel_size", dims)?;
        let adn = options.adn(&facts.clock);
        let mut width = *in_channels;
        let mut layers = Vec::with_capacity(channels.len());
        for (i, (output, stride)) in channels.iter().zip(strides).enumerate() {
            let name = format!("layer_{i}");
            let scope = scope.enter("net").enter(&name);
            let stride = stride.positive("strides", dims)?;
            let base = ConvolutionOptions::new([width, *output], kernel);
            let convolution = ConvolutionOptions { stride, bias: options.bias, adn: Some(adn.clone()), ..base };
            layers.push((name, options.layer(&scope, convolution, i + 1 == channels.len())?));
            extent = after_convolution(extent, kernel, stride)?;
            width = *output;
        }
        Ok(Stem { net: Named::new(layers), features: width * extent.iter().product::<usize>(), facts })
    }
}

/// The size after a convolution whose padding keeps the size at stride 1.
pub(super) fn after_convolution(
    size: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
) -> Result<[usize; 3], ConfigError> {
    if kernel.iter().any(|k| k % 2 == 0) {
        return Err(ConfigError::value("kernel_size", kernel, "every axis must be odd"));
    }
    Ok(std::array::from_fn(|axis| (size[axis].max(1) - 1) / stride[axis] + 1))
}

/// The state-dict name of a linear layer after the stem; `last` is an entry of MONAI's `final`.
pub(super) fn final_layer(path: &str) -> String {
    match path.strip_prefix("last.") {
        Some(rest) => format!("final.1.{rest}"),
        None => path.to_owned(),
    }
}
