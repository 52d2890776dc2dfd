//! The topology of a DiNTS: the paths between resolutions, derived from the codes of the search
//! (`monai.networks.nets.TopologyInstance`).

use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::defaults::{three_dims, yes};
use super::dints_cell::{Cell, CellOptions, Rate};
use crate::layers::{ConfigError, LayerSpec, Scope, residual_sum};
use crate::named::Named;

/// The codes of a searched architecture: for each block and path, whether the path exists, and the
/// number of its operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "expected two lists: paths [blocks][paths] and operations [blocks][paths]")]
pub struct ArchCode(pub Vec<Vec<f64>>, pub Vec<Vec<f64>>);

/// The space of a [`DiNTS`](super::DiNTS).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name")]
pub enum DintsSpace {
    /// A searched architecture.
    TopologyInstance(TopologyInstanceConfig),
}

/// Options of the space of a searched architecture: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyInstanceConfig {
    /// The codes; without them, every path has all operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch_code: Option<ArchCode>,
    /// Number of channels of the first resolution, in units of 32; each next one has twice as many.
    #[serde(default = "one")]
    pub channel_mul: f64,
    /// Number of successive blocks.
    #[serde(default = "six")]
    pub num_blocks: usize,
    /// Number of resolutions, each half of the previous one.
    #[serde(default = "three")]
    pub num_depths: usize,
    /// Number of spatial axes, 2 or 3; must equal that of the network.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// The activation.
    #[serde(default = "act")]
    pub act_name: LayerSpec,
    /// The norm.
    #[serde(default = "norm")]
    pub norm_name: LayerSpec,
    /// Whether the first resolution is half of the image's.
    #[serde(default = "yes")]
    pub use_downsample: bool,
    /// No effect: the run selects the device of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

fn one() -> f64 {
    1.0
}

fn six() -> usize {
    6
}

fn three() -> usize {
    3
}

/// MONAI's default activation.
pub(super) fn act() -> LayerSpec {
    "RELU".into()
}

/// MONAI's default norm.
pub(super) fn norm() -> LayerSpec {
    LayerSpec::with("INSTANCE", &[("affine", json!(true))])
}

impl Default for TopologyInstanceConfig {
    fn default() -> Self {
        TopologyInstanceConfig {
            arch_code: None,
            channel_mul: one(),
            num_blocks: six(),
            num_depths: three(),
            spatial_dims: three_dims(),
            act_name: act(),
            norm_name: norm(),
            use_downsample: true,
            device: None,
        }
    }
}

/// A path of a block: the resolutions that it connects.
#[derive(Clone, Copy, Debug)]
struct Path {
    from: usize,
    to: usize,
    rate: Rate,
}

/// The paths of a block in MONAI's order: sorted by target resolution, with those from the
/// resolution above, the same and the one below.
fn paths(depths: usize) -> Vec<Path> {
    let to = |to: usize| {
        let from = to.saturating_sub(1)..(to + 2).min(depths);
        from.map(move |from| {
            let rate = match from.cmp(&to) {
                std::cmp::Ordering::Less => Rate::Down,
                std::cmp::Ordering::Equal => Rate::Keep,
                std::cmp::Ordering::Greater => Rate::Up,
            };
            Path { from, to, rate }
        })
    };
    (0..depths).flat_map(to).collect()
}

impl TopologyInstanceConfig {
    /// The number of channels of each resolution and of the one below the last.
    pub(super) fn filters(&self) -> Vec<usize> {
        (0..=self.num_depths).map(|depth| ((32 << depth) as f64 * self.channel_mul) as usize).collect()
    }

    /// Checks everything that does not depend on the codes.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=8).contains(&self.num_depths) {
            return Err(ConfigError::value("dints_space.num_depths", self.num_depths, "expected 1 to 8"));
        }
        if !(1..=1000).contains(&self.num_blocks) {
            return Err(ConfigError::value("dints_space.num_blocks", self.num_blocks, "expected 1 to 1000"));
        }
        if !(self.channel_mul.is_finite() && self.channel_mul <= 64.0) || self.filters().contains(&0) {
            let expected = "expected a share of 32 that is at least one channel";
            return Err(ConfigError::value("dints_space.channel_mul", self.channel_mul, expected));
        }
        Ok(())
    }

    /// The numbers of the operations of each block and path; `None` if the path does not exist.
    fn operations(&self, count: usize, all: usize) -> Result<Vec<Vec<Option<Vec<usize>>>>, ConfigError> {
        let Some(ArchCode(active, operations)) = &self.arch_code else {
            return Ok(vec![vec![Some((0..all).collect()); count]; self.num_blocks]);
        };
        let fits = |codes: &[Vec<f64>]| codes.len() == self.num_blocks && codes.iter().all(|row| row.len() == count);
        if !fits(active) || !fits(operations) {
            let of = |codes: &[Vec<f64>]| [codes.len(), codes.first().map_or(0, Vec::len)];
            let expected =
                format!("expected two of {} blocks x {count} paths, as num_blocks and num_depths say", self.num_blocks);
            return Err(ConfigError::value("dints_space.arch_code", (of(active), of(operations)), expected));
        }
        let choose = |active: &f64, operation: &f64| {
            if *active != 1.0 {
                return Ok(None);
            }
            let known = operation.fract() == 0.0 && (0.0..all as f64).contains(operation);
            match known {
                true => Ok(Some(vec![*operation as usize])),
                false => {
                    let expected = format!("expected numbers of operations, 0 to {}", all - 1);
                    Err(ConfigError::value("dints_space.arch_code", operation, expected))
                }
            }
        };
        let row = |(active, operations): (&Vec<f64>, &Vec<f64>)| {
            active.iter().zip(operations).map(|(active, operation)| choose(active, operation)).collect()
        };
        active.iter().zip(operations).map(row).collect()
    }
}

/// The cells of all blocks.
#[derive(Module, Debug)]
pub(super) struct TopologyInstance {
    cell_tree: Named<Cell>,
    /// The existing paths of each block, in the order of `cell_tree`.
    #[module(skip)]
    blocks: Vec<Vec<[usize; 2]>>,
    #[module(skip)]
    depths: usize,
}

impl TopologyInstance {
    pub fn new(scope: &Scope, config: &TopologyInstanceConfig) -> Result<Self, ConfigError> {
        let options = CellOptions {
            spatial_dims: config.spatial_dims,
            act: config.act_name.clone(),
            norm: config.norm_name.clone(),
        };
        let (filters, paths) = (config.filters(), paths(config.num_depths));
        let shift = usize::from(config.use_downsample);
        let scope = scope.enter("cell_tree");
        let (mut cells, mut blocks) = (Vec::new(), Vec::with_capacity(config.num_blocks));
        for (block, row) in config.operations(paths.len(), options.operations())?.into_iter().enumerate() {
            let mut ends = Vec::new();
            for (number, (path, operations)) in paths.iter().zip(row).enumerate() {
                let Some(operations) = operations else { continue };
                let name = format!("({block}, {number})");
                let channels = [path.from, path.to].map(|depth| filters[depth + shift]);
                let cell = Cell::new(&scope.enter(&name), &options, channels, path.rate, &operations)?;
                cells.push((name, cell));
                ends.push([path.from, path.to]);
            }
            blocks.push(ends);
        }
        let made = TopologyInstance { cell_tree: Named::new(cells), blocks, depths: config.num_depths };
        made.check()?;
        Ok(made)
    }

    /// Checks that each path starts where a path of the previous block ends.
    fn check(&self) -> Result<(), ConfigError> {
        let mut before = vec![true; self.depths];
        for (block, ends) in self.blocks.iter().enumerate() {
            if let Some([from, _]) = ends.iter().find(|[from, _]| !before[*from]) {
                let expected = format!("block {block} has a path from resolution {from}, to which none leads before");
                return Err(ConfigError::value("dints_space.arch_code", block, expected));
            }
            before = (0..self.depths).map(|depth| ends.iter().any(|[_, to]| *to == depth)).collect();
        }
        Ok(())
    }

    /// Whether the last block has a result of this resolution.
    pub fn ends_at(&self, depth: usize) -> bool {
        self.blocks.last().is_some_and(|ends| ends.iter().any(|[_, to]| *to == depth))
    }

    /// Whether the first block starts at this resolution.
    pub fn begins_at(&self, depth: usize) -> bool {
        self.blocks.first().is_some_and(|ends| ends.iter().any(|[from, _]| *from == depth))
    }

    /// The result of the last block for each resolution.
    pub fn forward(&self, inputs: Vec<Option<Tensor<5>>>) -> Vec<Option<Tensor<5>>> {
        let mut cells = self.cell_tree.iter();
        self.blocks.iter().fold(inputs, |inputs, ends| {
            let mut outputs: Vec<Option<Tensor<5>>> = vec![None; self.depths];
            for ([from, to], cell) in ends.iter().zip(cells.by_ref()) {
                // The check ensures that every path starts at an existing value.
                let Some(input) = &inputs[*from] else { continue };
                let result = cell.forward(input.clone());
                outputs[*to] = Some(match outputs[*to].take() {
                    Some(sum) => residual_sum(result, sum),
                    None => result,
                });
            }
            outputs
        })
    }
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn paths_are_in_the_order_of_monai() {
        // MONAI's arch_code2in and arch_code2out for num_depths = 4.
        let (from, to): (Vec<_>, Vec<_>) = paths(4).iter().map(|path| (path.from, path.to)).unzip();
        assert_eq!(from, [0, 1, 0, 1, 2, 1, 2, 3, 2, 3]);
        assert_eq!(to, [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]);
    }
}
