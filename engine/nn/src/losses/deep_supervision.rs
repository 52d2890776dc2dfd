//! A loss over all outputs of a network (`monai.losses.DeepSupervisionLoss`).

use burn::tensor::{Int, Tensor};
use derive_setters::Setters;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Loss, LossConfig, LossError};

/// The weights of outputs that are smaller than the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LevelWeight {
    /// Half of the previous output's weight, at least 1/16.
    #[default]
    Exp,
    /// Equal weights.
    Same,
    /// Half of the first output's weight.
    Two,
}

/// The weighted sum of a loss over a network's outputs. The target is downsampled to the size of
/// each output (nearest voxel).
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{DeepSupervisionLoss, Loss, LossConfig, MseLoss};
/// let outputs = vec![Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), Tensor::zeros([1, 1, 2, 2, 2], &Device::default())];
/// let target = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// let loss = DeepSupervisionLoss::new(LossConfig::of("MSELoss", &MseLoss::default())?);
/// assert_eq!(loss.forward_all(outputs, target)?.into_scalar::<f32>(), 1.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct DeepSupervisionLoss {
    /// The loss of one output.
    pub loss: LossConfig,
    /// The weights of the outputs.
    #[serde(default)]
    pub weight_mode: LevelWeight,
    /// Explicit weights, used if there is one for each output. An output of weight 0 is not
    /// evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub weights: Option<Vec<f64>>,
}

const NAME: &str = "DeepSupervisionLoss";

impl DeepSupervisionLoss {
    /// The weighted sum of this loss, with half the weight for every further output.
    pub fn new(loss: LossConfig) -> Self {
        DeepSupervisionLoss { loss, weight_mode: LevelWeight::default(), weights: None }
    }

    /// The weights of `levels` outputs.
    pub fn level_weights(&self, levels: usize) -> Vec<f64> {
        if let Some(weights) = self.weights.as_ref().filter(|weights| weights.len() >= levels) {
            return weights[..levels].to_vec();
        }
        let of = |level: usize| match self.weight_mode {
            LevelWeight::Same => 1.0,
            LevelWeight::Two => {
                if level == 0 {
                    1.0
                } else {
                    0.5
                }
            }
            LevelWeight::Exp => 0.5_f64.powi(level as i32).max(0.0625),
        };
        (0..levels).map(of).collect()
    }
}

/// The target at the size of an output: for each output voxel, the target voxel that contains its
/// centre.
fn scaled(target: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let mut target = target;
    for (axis, wanted) in size.into_iter().enumerate() {
        let length = target.dims()[2 + axis];
        if length == wanted {
            continue;
        }
        // In f32, as in PyTorch.
        let scale = length as f32 / wanted as f32;
        let source = |i: usize| (((i as f32 + 0.5) * scale) as usize).min(length - 1) as i64;
        let sources: Vec<i64> = (0..wanted).map(source).collect();
        let indices = Tensor::<1, Int>::from_data(sources.as_slice(), &target.device());
        target = target.select(2 + axis, indices);
    }
    target
}

impl Loss for DeepSupervisionLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        if !self.loss.needs().is_empty() {
            let reason =
                format!("{} needs more tensors of a batch than are available at every output size", self.loss.name());
            return Err(LossError::Option { key: "loss", loss: NAME, reason });
        }
        self.loss.check()
    }

    fn load(&self) -> Result<(), Fault> {
        self.loss.load().map_err(|fault| fault.under("loss"))
    }

    fn through_host(&self) -> bool {
        self.loss.through_host()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.loss.forward(input, target)
    }

    fn forward_all(&self, inputs: Vec<Tensor<5>>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let weights = self.level_weights(inputs.len());
        let mut total: Option<Tensor<1>> = None;
        // An output without weight gets no gradient at all: a gradient of 0 would still apply
        // weight decay.
        let some = weights.iter().any(|weight| *weight != 0.0);
        for (input, weight) in inputs.into_iter().zip(weights).filter(|(_, weight)| !some || *weight != 0.0) {
            let shape = input.dims();
            let wrong = target.dims().contains(&0) || shape.contains(&0);
            if wrong {
                let expected = "no axis may be empty".to_owned();
                return Err(LossError::Shape { loss: NAME, input: shape, target: target.dims(), expected });
            }
            let [_, _, x, y, z] = shape;
            let part = self.loss.forward(input, scaled(target.clone(), [x, y, z]))? * weight;
            total = Some(match total {
                // Without a reduction, outputs of different sizes cannot be added.
                Some(sum) if sum.dims() != part.dims() => {
                    let reason = "the loss within must give one number: use reduction mean or sum".to_owned();
                    return Err(LossError::Option { key: "loss", loss: NAME, reason });
                }
                Some(sum) => sum + part,
                None => part,
            });
        }
        total.ok_or_else(|| LossError::Option {
            key: "",
            loss: NAME,
            reason: "there is no output to compare".to_owned(),
        })
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => DeepSupervisionLoss,
    paper: "Lee et al. 2015, arXiv:1409.5185",
    example: r#"loss = { name = "DiceLoss", sigmoid = true }
weight_mode = "exp""#
);
