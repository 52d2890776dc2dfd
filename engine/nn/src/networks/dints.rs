//! The network of a topology search, `monai.networks.nets.DiNTS`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{three_dims, yes};
use super::dints_cell::CellOptions;
use super::dints_space::{DintsSpace, TopologyInstance, TopologyInstanceConfig, act, norm};
use super::facts::{Facts, by_facts};
use crate::layers::{ConfigError, Conv, Layer, LayerSpec, Scope, Sequential, in_space, residual_sum, resize};
use crate::named::Named;

/// Options of [`DiNTS`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiNTSConfig {
    /// The architecture found by the search: `name = "TopologyInstance"` and its parameters.
    pub dints_space: DintsSpace,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub num_classes: usize,
    /// Activation of the layers around the space.
    #[serde(default = "act")]
    #[setters(into)]
    pub act_name: LayerSpec,
    /// Norm of the layers around the space.
    #[serde(default = "norm")]
    #[setters(into)]
    pub norm_name: LayerSpec,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Whether the first resolution is half of the image's; must equal that of the space.
    #[serde(default = "yes")]
    pub use_downsample: bool,
    /// The active resolutions of each block and of the output: 0 or 1. All of them if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub node_a: Option<Vec<Vec<f64>>>,
}

impl DiNTSConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(space: TopologyInstanceConfig, in_channels: usize, num_classes: usize) -> Self {
        DiNTSConfig {
            spatial_dims: space.spatial_dims,
            use_downsample: space.use_downsample,
            dints_space: DintsSpace::TopologyInstance(space),
            in_channels,
            num_classes,
            act_name: act(),
            norm_name: norm(),
            node_a: None,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<DiNTS, ConfigError> {
        let DintsSpace::TopologyInstance(space) = &self.dints_space;
        space.check()?;
        for (name, same, given) in [
            ("dints_space.spatial_dims", space.spatial_dims == self.spatial_dims, space.spatial_dims.to_string()),
            (
                "dints_space.use_downsample",
                space.use_downsample == self.use_downsample,
                space.use_downsample.to_string(),
            ),
        ] {
            if !same {
                return Err(ConfigError::value(name, given, "the network has another one"));
            }
        }
        let halvings = space.num_depths - usize::from(!self.use_downsample);
        let facts = Facts::new("DiNTS", self.spatial_dims, [self.in_channels, self.num_classes])?;
        let root = Scope::new(device, seed);
        let nodes = self.nodes(space)?;
        let inner = TopologyInstance::new(&root.enter("dints_space"), space)?;
        let lowest = (0..space.num_depths).rev().find(|depth| nodes[space.num_blocks][*depth]);
        let Some(lowest) = lowest.filter(|depth| inner.ends_at(*depth)) else {
            let expected = "its last row must name a resolution to which a path of the last block leads";
            return Err(ConfigError::value("node_a", &self.node_a, expected));
        };
        let filters = space.filters();
        let stems = Stems {
            options: CellOptions {
                spatial_dims: self.spatial_dims,
                act: self.act_name.clone(),
                norm: self.norm_name.clone(),
            },
            filters: &filters,
            use_downsample: self.use_downsample,
        };
        let of_each = |name: &str, make: &dyn Fn(&Scope, usize) -> Result<Sequential, ConfigError>| {
            let scope = root.enter(name);
            let stems = (0..space.num_depths)
                .map(|depth| Ok(Stem { layers: make(&scope.enter(&depth.to_string()).enter("mod"), depth)? }));
            Ok::<_, ConfigError>(Named::numbered(stems.collect::<Result<Vec<_>, ConfigError>>()?))
        };
        let ends = root.enter("stem_finals");
        let last = Conv::new(&ends.enter("1"), [filters[0], self.num_classes], [1; 3], ConvShape::default(), true);
        Ok(DiNTS {
            stem_down: of_each("stem_down", &|scope, depth| stems.down(scope, self.in_channels, depth))?,
            stem_up: of_each("stem_up", &|scope, depth| stems.up(scope, depth))?,
            stem_finals: Named::numbered([
                Layer::Sequence(stems.options.act_conv_norm(&ends.enter("0"), [filters[0]; 2], 3)?),
                Layer::Conv(last),
            ]),
            first: nodes[0].clone(),
            lowest,
            dints_space: inner,
            facts: facts.divisible_by(1 << halvings),
        })
    }

    /// The active resolutions of each block and of the output.
    fn nodes(&self, space: &TopologyInstanceConfig) -> Result<Vec<Vec<bool>>, ConfigError> {
        let (rows, columns) = (space.num_blocks + 1, space.num_depths);
        let Some(nodes) = &self.node_a else { return Ok(vec![vec![true; columns]; rows]) };
        if nodes.len() != rows || nodes.iter().any(|row| row.len() != columns) {
            let expected = format!("expected {rows} rows (num_blocks and one) of {columns} numbers (num_depths)");
            return Err(ConfigError::value("node_a", [nodes.len(), nodes.first().map_or(0, Vec::len)], expected));
        }
        Ok(nodes.iter().map(|row| row.iter().map(|node| *node != 0.0).collect()).collect())
    }
}

/// The builder of the layers around the space.
struct Stems<'a> {
    options: CellOptions,
    filters: &'a [usize],
    use_downsample: bool,
}

impl Stems<'_> {
    /// The layers from the image, resized to a resolution, to the input of the space. Layer 0
    /// resizes.
    fn down(&self, scope: &Scope, in_channels: usize, depth: usize) -> Result<Sequential, ConfigError> {
        let kernel = in_space(self.options.spatial_dims, 3);
        let [own, below] = [self.filters[depth], self.filters[depth + 1]];
        let at = |number: usize| scope.enter(&number.to_string());
        let mut layers = vec![
            ("1".to_owned(), self.options.conv(&at(1), [in_channels, own], kernel, 1)),
            ("2".to_owned(), self.options.norm(&at(2), own)?),
        ];
        if self.use_downsample {
            layers.push(("3".to_owned(), self.options.act(&at(3))?));
            layers.push(("4".to_owned(), self.options.conv(&at(4), [own, below], kernel, 2)));
            layers.push(("5".to_owned(), self.options.norm(&at(5), below)?));
        }
        Ok(Named::new(layers))
    }

    /// The layers from a result of the space to the resolution above.
    fn up(&self, scope: &Scope, depth: usize) -> Result<Sequential, ConfigError> {
        let kernel = in_space(self.options.spatial_dims, 3);
        let channels = match self.use_downsample {
            true => [self.filters[depth + 1], self.filters[depth]],
            false => [self.filters[depth], self.filters[depth.saturating_sub(1)]],
        };
        let at = |number: usize| scope.enter(&number.to_string());
        let mut layers = vec![
            ("0".to_owned(), self.options.act(&at(0))?),
            ("1".to_owned(), self.options.conv(&at(1), channels, kernel, 1)),
            ("2".to_owned(), self.options.norm(&at(2), channels[1])?),
        ];
        if self.use_downsample || depth > 0 {
            layers.push(("3".to_owned(), self.options.twice(&at(3), channels[1])?));
        }
        Ok(Named::new(layers))
    }
}

/// The layers around the space; `mod` in the state dict.
#[derive(Module, Debug)]
struct Stem {
    layers: Sequential,
}

/// The network of a differentiable topology search (He et al., <https://arxiv.org/abs/2103.15954>):
/// blocks of cells at several resolutions, connected by the paths that the search selected.
///
/// `[b, in, x, y, z]` to `[b, classes, x, y, z]`; each axis must be divisible by `2^num_depths`, or by
/// half of that without `use_downsample`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{ArchCode, DiNTSConfig, Network, TopologyInstanceConfig};
/// let down_and_up = ArchCode(
///     vec![vec![1.0, 0.0, 1.0, 0.0], vec![1.0, 1.0, 0.0, 0.0]],
///     vec![vec![1.0, 0.0, 0.0, 0.0], vec![0.0, 2.0, 0.0, 0.0]],
/// );
/// let space = TopologyInstanceConfig {
///     arch_code: Some(down_and_up),
///     num_blocks: 2,
///     num_depths: 2,
///     channel_mul: 0.125,
///     ..TopologyInstanceConfig::default()
/// };
/// let config = DiNTSConfig::new(space, 1, 2).node_a(vec![vec![1.0, 0.0], vec![1.0, 1.0], vec![1.0, 0.0]]);
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 16], &Device::default())).dims(), [1, 2, 16, 16, 16]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct DiNTS {
    stem_down: Named<Stem>,
    dints_space: TopologyInstance,
    stem_up: Named<Stem>,
    stem_finals: Sequential,
    /// Whether the image enters at each resolution.
    #[module(skip)]
    first: Vec<bool>,
    /// The lowest resolution that contributes to the output.
    #[module(skip)]
    lowest: usize,
    #[module(skip)]
    facts: Facts,
}

impl Network for DiNTS {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let [_, _, dx, dy, dz] = x.dims();
        let inputs = self.stem_down.iter().enumerate().map(|(depth, stem)| {
            if !self.dints_space.begins_at(depth) {
                return None;
            }
            let scale = in_space(self.facts.spatial_dims, 1 << depth);
            let size = [dx / scale[0], dy / scale[1], dz / scale[2]];
            let y = stem.layers.forward(resize(x.clone(), size, InterpolateMode::Linear, true));
            Some(if self.first[depth] { y } else { y.zeros_like() })
        });
        let mut outputs = self.dints_space.forward(inputs.collect());
        let mut below: Option<Tensor<5>> = None;
        let stems: Vec<&Stem> = self.stem_up.iter().collect();
        for depth in (0..=self.lowest).rev() {
            let sum = match (outputs[depth].take(), below) {
                (Some(own), Some(below)) => Some(residual_sum(own, below)),
                (own, below) => own.or(below),
            };
            below = sum.map(|sum| stems[depth].layers.forward(sum));
        }
        self.stem_finals.forward(below.unwrap_or(x))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(if path.starts_with("stem_") { path.replacen(".layers.", ".mod.", 1) } else { path.to_owned() })
    }
}

network_entry!(DiNTSConfig {
    name: "DiNTS",
    aliases: &[],
    about: "Segmentation: the paths between resolutions that a topology search left.",
    paper: "He et al. 2021, arXiv:2103.15954",
    example: r#"in_channels = 1
num_classes = 2
spatial_dims = 3
node_a = [[1, 1], [1, 1], [1, 0]]
dints_space = { name = "TopologyInstance", num_blocks = 2, num_depths = 2, arch_code = [[[1, 1, 1, 1], [1, 1, 0, 0]], [[1, 2, 0, 1], [4, 3, 0, 0]]] }"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
