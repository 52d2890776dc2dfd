//! Regression of points in images: `PointRegressor` of MONAI's bundle `valve_landmarks`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::Network;
use super::defaults::none;
use super::facts::{Facts, by_facts};
use super::stem::{after_convolution, all_axes, stem_config};
use crate::layers::{Axes, ConfigError, Convolution, ConvolutionOptions, Layer, Linear, Scope};
use crate::named::Named;
use crate::trace::concat;

stem_config! {
    /// Options of [`PointRegressor`]: parameters and defaults of MONAI's `Regressor`.
    pub struct PointRegressorConfig {
        /// Channels and the two sizes of the image.
        #[setters(into)]
        pub in_shape: Vec<usize>,
        /// Number of coordinates of a point, and number of points.
        pub out_shape: [usize; 2],
        /// Number of channels of each level, at least three more than in the previous one.
        #[setters(into)]
        pub channels: Vec<usize>,
        /// Stride of each level.
        #[setters(into)]
        pub strides: Vec<Axes>,
        ..stem(dropout = "none"),
    }
}

/// Dilations of the convolutions of a level.
const DILATIONS: [usize; 3] = [1, 2, 4];

/// The number of spatial axes.
const DIMS: usize = 2;

impl PointRegressorConfig {
    /// Options with the defaults for everything else.
    pub fn new(in_shape: &[usize], out_shape: [usize; 2], channels: &[usize], strides: &[usize]) -> Self {
        Self::with_defaults(in_shape.to_vec(), out_shape, channels.to_vec(), all_axes(strides), none())
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<PointRegressor, ConfigError> {
        let shape = |what: String| ConfigError::value("in_shape", &self.in_shape, what);
        let [in_channels, width, height] = self.in_shape[..] else {
            return Err(shape("expected the channels and two sizes".to_owned()));
        };
        let [coordinates, points] = self.out_shape;
        if coordinates == 0 || !(1..=10_000).contains(&points) {
            return Err(ConfigError::value("out_shape", self.out_shape, "expected coordinates and 1 to 10000 points"));
        }
        if self.channels.is_empty() {
            return Err(ConfigError::value("channels", &self.channels, "expected one level or more"));
        }
        self.stem().check_strides()?;
        let outputs = coordinates.saturating_mul(points);
        let mut facts = Facts::new("PointRegressor", DIMS, [in_channels, outputs])?;
        let mut extent = [width, height, 1];
        facts.exact = Some(extent);
        let kernel = self.kernel_size.positive("kernel_size", DIMS)?;
        let adn = self.stem().adn(&facts.clock);
        let root = Scope::new(device, seed);
        let mut width = in_channels;
        let mut levels = Vec::with_capacity(self.channels.len());
        for (i, (output, stride)) in self.channels.iter().zip(&self.strides).enumerate() {
            let name = format!("layer_{i}");
            let scope = root.enter("net").enter(&name);
            let stride = stride.positive("strides", DIMS)?;
            let adn = (i + 1 < self.channels.len()).then(|| adn.clone());
            let down =
                ConvolutionOptions { stride, bias: self.bias, adn, ..ConvolutionOptions::new([*output; 2], kernel) };
            let dense = self.dense(&scope.enter("0"), [width, *output], kernel, &down, &facts)?;
            let down = Convolution::new(&scope.enter("1"), &down)?;
            levels.push((name, Named::numbered([Stage::Dense(dense), Stage::Down(down)])));
            extent = after_convolution(extent, kernel, stride)?;
            width = *output;
        }
        // The layers of a point double the channels and halve both axes, so half of the values
        // remain.
        if extent[0] % 2 == 1 || extent[1] % 2 == 1 {
            return Err(shape(format!("the levels leave {} x {}; expected even sizes", extent[0], extent[1])));
        }
        let features = width.saturating_mul(extent[0]).saturating_mul(extent[1]) / 2;
        let halved = [2, 2, 1];
        let path = |i: usize| {
            let name = format!("catmodule_{i}");
            let scope = root.enter("final").enter("0").enter(&name);
            let options = ConvolutionOptions {
                stride: halved,
                ..ConvolutionOptions::new([width, width.saturating_mul(2)], kernel)
            };
            let conv = Convolution::new(&scope.enter("0"), &options)?;
            let linear = Linear::new(&scope.enter("2"), [features, coordinates], true);
            Ok((name, PointPath { conv, linear }))
        };
        let paths: Result<_, ConfigError> = (0..points).map(path).collect();
        Ok(PointRegressor { net: Named::new(levels), points: Named::new(paths?), out_shape: self.out_shape, facts })
    }

    /// The dilated layers of a level; each reads the channels of all previous ones.
    fn dense(
        &self,
        scope: &Scope,
        [input, output]: [usize; 2],
        kernel: [usize; 3],
        down: &ConvolutionOptions,
        facts: &Facts,
    ) -> Result<Named<Layer>, ConfigError> {
        let more = output.saturating_sub(input);
        if more < DILATIONS.len() {
            let expected = format!("expected at least {} behind {input}", input + DILATIONS.len());
            return Err(ConfigError::value("channels", output, expected));
        }
        let (each, mut width) = (more / 3, input);
        let adn = self.stem().adn(&facts.clock);
        let mut layers = Vec::with_capacity(DILATIONS.len());
        for (i, dilation) in DILATIONS.into_iter().enumerate() {
            let added = if i + 1 == DILATIONS.len() { each + more % 3 } else { each };
            let options = ConvolutionOptions {
                dilation: std::array::from_fn(|axis| if kernel[axis] == 1 { 1 } else { dilation }),
                bias: down.bias,
                adn: Some(adn.clone()),
                ..ConvolutionOptions::new([width, added], kernel)
            };
            let name = format!("layers{i}");
            let layer = self.stem().layer(&scope.enter(&name), options, false)?;
            layers.push((name, layer));
            width += added;
        }
        Ok(Named::new(layers))
    }
}

/// The two parts of a level.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few")]
enum Stage {
    /// Concatenated dilated layers.
    Dense(Named<Layer>),
    /// A strided convolution.
    Down(Convolution),
}

impl Stage {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Stage::Dense(layers) => layers.iter().fold(x, |x, layer| {
                let more = layer.forward(x.clone());
                let dtype = more.dtype();
                concat(x, more, dtype)
            }),
            Stage::Down(convolution) => convolution.forward(x),
        }
    }
}

/// The layers of one point.
#[derive(Module, Debug)]
struct PointPath {
    /// `0` in the state dict.
    conv: Convolution,
    /// `2` in the state dict.
    linear: Linear,
}

/// A network of densely connected dilated convolutions that reduce an image, followed by a
/// convolution and a linear layer for each point.
///
/// `[b, in, x, y, z]`, of the size that the network was built for, to `[b, out_shape..., 1, 1]`. As
/// in the bundle, the coordinates of a point are contiguous in memory, although the first axis of
/// the output is that of the coordinates.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, PointRegressorConfig};
/// let config = PointRegressorConfig::new(&[1, 32, 32], [2, 10], &[4, 8, 16], &[2, 2, 2]);
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 32, 32, 1], &Device::default())).dims(), [3, 2, 10, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct PointRegressor {
    net: Named<Named<Stage>>,
    /// `final.0` in the state dict.
    points: Named<PointPath>,
    #[module(skip)]
    out_shape: [usize; 2],
    #[module(skip)]
    facts: Facts,
}

impl Network for PointRegressor {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x = self.net.iter().flat_map(Named::iter).fold(x, |x, stage| stage.forward(x));
        let paths = self.points.iter().map(|path| path.linear.forward_flat(path.conv.forward(x.clone())));
        let y = Tensor::cat(paths.collect(), 1);
        let [coordinates, points] = self.out_shape;
        let b = y.dims()[0];
        y.reshape([b, coordinates, points, 1, 1])
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let Some(rest) = path.strip_prefix("points.") else { return Some(path.to_owned()) };
        let (module, part) = rest.split_once('.')?;
        let part = match part.split_once('.')? {
            ("conv", rest) => format!("0.{rest}"),
            (_, rest) => format!("2.{rest}"),
        };
        Some(format!("final.0.{module}.{part}"))
    }
}

network_entry!(PointRegressorConfig {
    name: "PointRegressor",
    aliases: &[],
    about: "Points from images of one size: densely joined dilated convolutions, a path for each point.",
    paper: "Kerfoot et al. 2021, doi:10.1007/978-3-030-68107-4_15",
    example: r#"in_shape = [1, 256, 256]
out_shape = [2, 10]
channels = [8, 16, 32, 64, 128]
strides = [2, 2, 2, 2, 2]"#,
    input: [1, 1, 256, 256, 1],
    dims: &[2],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
