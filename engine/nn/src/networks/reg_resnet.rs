//! Affine registration of two images: `RegResNet` of MONAI's bundle `mednist_reg`.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Facts, by_facts};
use super::{Network, ResNet, ResNetConfig};
use crate::cost;
use crate::layers::{ConfigError, Init, Linear, Scope};

/// Options of [`RegResNet`]: the bundle's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct RegResNetConfig {
    /// Size of the images.
    #[serde(default = "image_size")]
    pub image_size: Vec<usize>,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "two_dims")]
    pub spatial_dims: usize,
    /// Interpolation of the warp.
    #[serde(default)]
    pub mode: WarpMode,
    /// The values outside the moving image.
    #[serde(default)]
    pub padding_mode: WarpPadding,
    /// Number of features of the residual network.
    #[serde(default = "features")]
    pub features: usize,
}

/// Interpolation of a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WarpMode {
    /// Linear along each axis.
    #[default]
    Bilinear,
    /// Nearest neighbour; no gradient reaches the features.
    Nearest,
}

/// The values outside a warped image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WarpPadding {
    /// The value at the border.
    #[default]
    Border,
    /// Zeros.
    Zeros,
}

fn image_size() -> Vec<usize> {
    vec![64, 64]
}

fn two_dims() -> usize {
    2
}

/// The default of MONAI's ResNets without a number of classes.
fn features() -> usize {
    FEATURES
}

const FEATURES: usize = 400;

impl Default for RegResNetConfig {
    fn default() -> Self {
        RegResNetConfig {
            image_size: image_size(),
            spatial_dims: two_dims(),
            mode: WarpMode::default(),
            padding_mode: WarpPadding::default(),
            features: FEATURES,
        }
    }
}

impl RegResNetConfig {
    /// Options with the bundle's defaults for images of this size, in two or three dimensions.
    pub fn new(image_size: &[usize]) -> Self {
        RegResNetConfig { image_size: image_size.to_vec(), spatial_dims: image_size.len(), ..Self::default() }
    }

    /// Builds the network with weights drawn from `seed`; initially its transformation is the
    /// identity.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<RegResNet, ConfigError> {
        let n = self.spatial_dims;
        let mut facts = Facts::new("RegResNet", n, [2, 1])?;
        if self.image_size.len() != n || self.image_size.contains(&0) {
            let expected = format!("expected {n} sizes, as spatial_dims");
            return Err(ConfigError::value("image_size", &self.image_size, expected));
        }
        if self.features != FEATURES {
            return Err(ConfigError::value(
                "features",
                self.features,
                format!("expected {FEATURES}, which ResNet18 gives"),
            ));
        }
        let mut exact = [1; 3];
        exact[..n].copy_from_slice(&self.image_size);
        facts.exact = Some(exact);
        let root = Scope::new(device, seed);
        let resnet = ResNetConfig {
            block: None,
            layers: None,
            block_inplanes: None,
            spatial_dims: n,
            n_input_channels: 2,
            ..ResNetConfig::new(super::ResNetBlockKind::Basic, [1; 4], [1; 4])
        };
        let resnet = resnet.of_depth(18)?.build(&root.enter("features"), 1, 64)?;
        Ok(RegResNet {
            features: resnet,
            affine_head: AffineHead::new(&root.enter("affine_head"), n),
            mode: self.mode,
            padding: self.padding_mode,
            facts,
        })
    }
}

/// The linear layer to the entries of an affine matrix: `monai.networks.nets.regunet.AffineHead`.
#[derive(Module, Debug)]
struct AffineHead {
    fc: Linear,
}

impl AffineHead {
    /// Builds a layer that initially gives the identity.
    fn new(scope: &Scope, n: usize) -> Self {
        let outputs = n * (n + 1);
        let mut fc = Linear::new(&scope.enter("fc").with_init(Init::Zeros), [FEATURES, outputs], true);
        let identity = |i: usize| if i % (n + 1) == i / (n + 1) { 1.0 } else { 0.0 };
        let identity: Vec<f32> = (0..outputs).map(identity).collect();
        fc.bias = Some(Param::from_tensor(Tensor::from_data(TensorData::new(identity, [outputs]), scope.device())));
        AffineHead { fc }
    }

    /// The source position of each voxel of the result: `[b, n, voxels]`.
    fn positions(&self, features: Tensor<5>, size: [usize; 3], n: usize) -> Tensor<3> {
        // Half precision is not sufficient for the positions of voxels.
        let theta = self.fc.forward_flat(features).cast(DType::F32);
        let (b, device) = (theta.dims()[0], theta.device());
        let theta: Tensor<3> = theta.reshape([b, n, n + 1]);
        let voxels: usize = size.iter().product();
        let mut grid = Vec::with_capacity((n + 1) * voxels);
        for axis in 0..n {
            let stride: usize = size[axis + 1..].iter().product();
            grid.extend((0..voxels).map(|voxel| (voxel / stride % size[axis]) as f32));
        }
        grid.extend(std::iter::repeat_n(1.0, voxels));
        let grid: Tensor<3> = Tensor::from_data(TensorData::new(grid, [1, n + 1, voxels]), &device);
        let grid = grid.cast(DType::F32).expand([b, n + 1, voxels]);
        let multiply_adds = (b * n * (n + 1) * voxels) as u64;
        cost::product(None, multiply_adds, [b, n, voxels], &device, || theta.matmul(grid))
    }
}

/// A neighbour of each position along an axis: its weight and index.
struct Neighbour {
    weight: Tensor<2>,
    index: Tensor<2, burn::tensor::Int>,
}

/// The neighbours of positions `[b, voxels]` along an axis.
fn neighbours(at: Tensor<2>, size: usize, mode: WarpMode, padding: WarpPadding) -> Vec<Neighbour> {
    let last = size.saturating_sub(1) as f64;
    let at = match padding {
        WarpPadding::Border => at.clamp(0.0, last),
        WarpPadding::Zeros => at,
    };
    let corner = |place: Tensor<2>, weight: Tensor<2>| {
        let inside = place.clone().greater_equal_elem(0.0).bool_and(place.clone().lower_equal_elem(last));
        let weight = match padding {
            WarpPadding::Border => weight,
            WarpPadding::Zeros => weight * inside.float(),
        };
        Neighbour { weight, index: place.clamp(0.0, last).int() }
    };
    match mode {
        WarpMode::Nearest => {
            // Halves are rounded to even, as in PyTorch.
            let place = at.clone().round();
            vec![corner(place, at.ones_like())]
        }
        WarpMode::Bilinear => {
            // A voxel's index has no gradient; the distance from it does.
            let low = at.clone().detach().floor();
            let part = at - low.clone();
            vec![corner(low.clone(), part.clone() * -1.0 + 1.0), corner(low + 1.0, part)]
        }
    }
}

/// Samples an image `[b, c, x, y, z]` at positions `[b, n, voxels]`; returns `[b, c, x, y, z]`.
fn warp(image: Tensor<5>, at: Tensor<3>, mode: WarpMode, padding: WarpPadding) -> Tensor<5> {
    let [b, c, x, y, z] = image.dims();
    let (size, [_, n, voxels]) = ([x, y, z], at.dims());
    let flat: Tensor<3> = image.cast(DType::F32).reshape([b, c, x * y * z]);
    let axes = (0..n).map(|axis| {
        let along = at.clone().narrow(1, axis, 1).reshape([b, voxels]);
        neighbours(along, size[axis], mode, padding)
    });
    let axes: Vec<Vec<Neighbour>> = axes.collect();
    let each = axes.first().map_or(1, Vec::len);
    let mut sum: Option<Tensor<3>> = None;
    // One corner of the cell per iteration: its digits select the neighbour along each axis.
    for corner in 0..each.pow(n as u32) {
        let mut rest = corner;
        let mut chosen: Option<Neighbour> = None;
        for (axis, both) in axes.iter().enumerate() {
            let Neighbour { weight, index } = &both[rest % each];
            rest /= each;
            chosen = Some(match chosen {
                None => Neighbour { weight: weight.clone(), index: index.clone() },
                Some(before) => Neighbour {
                    weight: before.weight * weight.clone(),
                    index: before.index * size[axis] as i64 + index.clone(),
                },
            });
        }
        let Some(Neighbour { weight, index }) = chosen else { continue };
        let index = index.unsqueeze_dim::<3>(1).expand([b, c, voxels]);
        let value = flat.clone().gather(2, index) * weight.unsqueeze_dim::<3>(1);
        sum = Some(match sum {
            None => value,
            Some(sum) => sum + value,
        });
    }
    sum.unwrap_or(flat).reshape([b, c, x, y, z])
}

/// Aligns a moving image with a fixed one by an affine matrix, which a ResNet18 predicts from both.
///
/// `[b, 2, x, y, z]`, the moving and the fixed image, of the size that the network was built for,
/// to the moved image, `[b, 1, x, y, z]`.
///
/// ```
/// # use burn::tensor::{Device, Distribution, Tensor};
/// # use hearth_nn::networks::{Network, RegResNetConfig};
/// let net = RegResNetConfig::new(&[32, 32]).init(&Device::default(), 0)?;
/// let images = Tensor::random([1, 2, 32, 32, 1], Distribution::Default, &Device::default());
/// // Before it has learned anything, nothing is moved.
/// let moved = net.forward(images.clone());
/// let away = (moved - images.narrow(1, 0, 1)).abs().max().into_scalar::<f32>();
/// assert!(away < 1e-4, "{away}");
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct RegResNet {
    features: ResNet,
    affine_head: AffineHead,
    #[module(skip)]
    mode: WarpMode,
    #[module(skip)]
    padding: WarpPadding,
    #[module(skip)]
    facts: Facts,
}

impl Network for RegResNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, nx, ny, nz] = x.dims();
        let features = self.features.forward(x.clone());
        let at = self.affine_head.positions(features, [nx, ny, nz], self.facts.spatial_dims);
        warp(x.narrow(1, 0, 1), at, self.mode, self.padding)
    }
}

network_entry!(RegResNetConfig {
    name: "RegResNet",
    aliases: &[],
    about: "Affine registration: a moving image onto a fixed one, by a matrix from a ResNet18.",
    paper: "",
    example: "image_size = [64, 64]",
    input: [1, 2, 64, 64, 1],
    dims: &[2, 3],
    in_channels: |_| 2,
    init: |c, d, s| c.init(d, s),
});

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};

    use super::{WarpMode, WarpPadding, warp};

    fn moved(by: [f32; 2], mode: WarpMode, padding: WarpPadding) -> Vec<f32> {
        let device = Device::default();
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let image: Tensor<5> = Tensor::from_data(TensorData::new(values, [1, 1, 3, 4, 1]), &device);
        let at =
            (0..2).flat_map(|axis| (0..12).map(move |i| (if axis == 0 { i / 4 } else { i % 4 }) as f32 + by[axis]));
        let at: Vec<f32> = at.collect();
        let at: Tensor<3> = Tensor::from_data(TensorData::new(at, [1, 2, 12]), &device);
        warp(image, at, mode, padding).into_data().try_to_vec().expect("floats")
    }

    /// The image is linear, so the value between voxels is exact; outside, it is that of the border
    /// or 0.
    #[test]
    fn images_are_moved_along_their_axes() {
        use WarpMode::{Bilinear, Nearest};
        use WarpPadding::{Border, Zeros};
        let got = moved([0.5, 0.0], Bilinear, Border);
        assert_eq!(got, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 8.0, 9.0, 10.0, 11.0]);
        let got = moved([0.0, -0.25], Bilinear, Zeros);
        assert_eq!(got, [0.0, 0.75, 1.75, 2.75, 3.0, 4.75, 5.75, 6.75, 6.0, 8.75, 9.75, 10.75]);
        let got = moved([1.0, 0.75], Nearest, Border);
        assert_eq!(got, [5.0, 6.0, 7.0, 7.0, 9.0, 10.0, 11.0, 11.0, 9.0, 10.0, 11.0, 11.0]);
        assert_eq!(moved([5.0, 0.0], Bilinear, Zeros), [0.0; 12]);
    }
}
