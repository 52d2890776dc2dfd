//! Class activation maps of a classifier (`monai.inferers.SaliencyInferer`).

use burn::tensor::{Bool, DType, Tensor, activation};
use derive_setters::Setters;
use hearth_kernels::{InterpolateMode, interpolate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::InferError;

/// The weights of a layer's features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CamName {
    /// The mean of the class's gradient (Selvaraju et al., <https://arxiv.org/abs/1610.02391>).
    #[default]
    #[serde(alias = "gradcam")]
    GradCAM,
    /// The positive part of the gradient, weighted voxel by voxel (Chattopadhay et al.,
    /// <https://arxiv.org/abs/1710.11063>).
    #[serde(alias = "gradcampp", alias = "GradCAM++")]
    GradCAMpp,
}

/// Computes a map of how strongly a layer's features support a class, at the size of the image.
///
/// As in MONAI the map is inverted: 0 is the strongest support, 1 the weakest. A constant map is
/// unchanged.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::SaliencyInferer;
/// let x = Tensor::zeros([1, 1, 4, 4, 1], &Device::default()).slice_fill([0..1, 0..1, 1..2, 1..2, 0..1], 1.0);
/// let mean = |f: Tensor<5>| f.mean_dim(2).mean_dim(3).mean_dim(4);
/// let map = SaliencyInferer::default().infer(x.clone(), &|x| x, &mean)?;
/// map.into_data().assert_eq(&(-x + 1.0).into_data(), true);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct SaliencyInferer {
    /// The weights of the features.
    pub cam_name: CamName,
    /// The class; by default the one with the highest score.
    pub class_idx: Option<usize>,
}

const NAME: &str = "SaliencyInferer";

impl SaliencyInferer {
    /// Computes the map `[b, 1, x, y, z]` for images `[b, c, x, y, z]`.
    ///
    /// The network is passed in two parts: `features` up to the layer of interest, and `head` from
    /// there to the scores `[b, classes, 1, 1, 1]`. Both run in their current mode: pass a network
    /// in evaluation mode.
    ///
    /// # Errors
    /// Fails if the scores do not have that shape, do not include the class, or do not depend on
    /// the features.
    pub fn infer(
        &self,
        x: Tensor<5>,
        features: &dyn Fn(Tensor<5>) -> Tensor<5>,
        head: &dyn Fn(Tensor<5>) -> Tensor<5>,
    ) -> Result<Tensor<5>, InferError> {
        let image = x.dims();
        let leaf = features(x).without_autodiff().cast(DType::F32).autodiff().require_grad();
        let scores = head(leaf.clone()).cast(DType::F32);
        let (got, window) = (scores.dims(), leaf.dims());
        let wrong = |expected: String| InferError::Output { inferer: NAME, window, got, expected };
        if got[0] != image[0] || got[1] == 0 || got[2..] != [1; 3] {
            return Err(wrong(format!("expected scores of shape [{}, classes, 1, 1, 1]", image[0])));
        }
        let score = match self.class_idx {
            Some(class) if class < got[1] => scores.narrow(1, class, 1),
            Some(class) => return Err(wrong(format!("there is no class {class}"))),
            None => scores.max_dim(1),
        };
        let gradients = score.clone().sum().backward();
        let slope =
            leaf.grad(&gradients).ok_or_else(|| wrong("the scores do not depend on the features".to_owned()))?;
        let (values, score) = (leaf.without_autodiff(), score.without_autodiff());
        let map = activation_map(self.cam_name, values, slope, score, [image[2], image[3], image[4]]);
        let flat = is_flat(&map);
        Ok((-scaled(map.clone()) + 1.0).mask_where(flat.expand(map.dims()), map))
    }
}

/// The support of features for a score, `[b, 1, x, y, z]` of this size: features `[b, c, x', y', z']` with
/// the gradient of the score, `[b, 1, 1, 1, 1]`.
pub(crate) fn activation_map(
    cam_name: CamName,
    values: Tensor<5>,
    slope: Tensor<5>,
    score: Tensor<5>,
    size: [usize; 3],
) -> Tensor<5> {
    let total = |x: Tensor<5>| x.sum_dim(4).sum_dim(3).sum_dim(2);
    let weights = match cam_name {
        CamName::GradCAM => slope.mean_dim(4).mean_dim(3).mean_dim(2),
        CamName::GradCAMpp => {
            let square = slope.clone() * slope.clone();
            let whole = square.clone() * 2.0 + total(values.clone() * square.clone() * slope.clone());
            let nothing = whole.clone().equal_elem(0.0);
            let alpha = square / (whole.mask_fill(nothing, 1.0) + 1e-7);
            total(alpha * activation::relu(score.exp() * slope))
        }
    };
    let map = activation::relu((weights * values).sum_dim(1));
    let [items, _, x, y, z] = map.dims();
    let map = interpolate(map.reshape([items, x, y, z]), size, InterpolateMode::Linear, false);
    map.reshape([items, 1, size[0], size[1], size[2]])
}

/// The lowest and the highest value of each item, `[b, 1, 1, 1, 1]`.
fn extremes(map: &Tensor<5>) -> [Tensor<5>; 2] {
    let highest = |x: Tensor<5>| x.max_dim(4).max_dim(3).max_dim(2);
    [-highest(-map.clone()), highest(map.clone())]
}

/// Whether the map of each item is constant.
fn is_flat(map: &Tensor<5>) -> Tensor<5, Bool> {
    let [low, high] = extremes(map);
    (high - low).equal_elem(0.0)
}

/// Maps the values of each item to 0 to 1; a constant map becomes 0.
pub(crate) fn scaled(map: Tensor<5>) -> Tensor<5> {
    let [low, high] = extremes(&map);
    let (range, flat) = (high - low.clone(), is_flat(&map));
    (map - low) / range.mask_fill(flat, 1.0)
}
