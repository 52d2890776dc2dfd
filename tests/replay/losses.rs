//! Losses: value, and the gradient of the prediction.

use burn::tensor::{Device, Tensor};
use hearth::nn::losses::{BceWithLogitsLoss, CrossEntropyLoss, DiceCELoss, DiceLoss, Loss, LossError};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::batch::{tensor, values};

/// Replays one loss.
pub fn replay(case: &Case) -> Outcome {
    let loss: Box<dyn Loss> = match case.op.as_str() {
        "DiceLoss" => Box::new(options::<DiceLoss>(&case.params)?),
        "DiceCELoss" => Box::new(options::<DiceCELoss>(&case.params)?),
        "CrossEntropyLoss" => Box::new(options::<CrossEntropyLoss>(&case.params)?),
        "BCEWithLogitsLoss" => {
            let mut params = case.params.clone();
            // One number, or a list of one: the class of a binary problem.
            if let Some([weight]) = params["pos_weight"].as_array().map(Vec::as_slice) {
                params["pos_weight"] = weight.clone();
            }
            Box::new(options::<BceWithLogitsLoss>(&params)?)
        }
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    if case.call.as_object().is_some_and(|call| !call.is_empty()) || case.find("in.mask").is_some() {
        return Err(Miss::unsupported(format!("call {}", case.call)));
    }
    let device = Device::default().autodiff();
    let input = tensor(case.array("in.input")?, &device)?.require_grad();
    let target = target(case, &input)?;
    let result = loss.forward(input.clone(), target).map_err(|error| match error {
        // Refused, not wrong.
        LossError::Option { .. } => Miss::unsupported(error.to_string()),
        other => Miss::failed(other),
    })?;
    let mut check = case.check();
    let shape = case.array("out.loss")?.shape.clone();
    check.close("out.loss", &shape, &values(result.clone()));
    let total = match case.find("in.cot") {
        Some(cot) => {
            let cot = tensor(cot, &device)?;
            let count = result.dims()[0];
            (result * cot.reshape([count])).sum()
        }
        None => result.sum(),
    };
    let gradients = total.backward();
    let gradient = input.grad(&gradients).ok_or_else(|| Miss::failed("the prediction has no gradient"))?;
    check.gradient("grad.input", &case.array("in.input")?.shape, &values(gradient));
    check.outcome()
}

/// MONAI's parameters as ours; what we do not know is unsupported.
fn options<L: DeserializeOwned>(params: &Value) -> Result<L, Miss> {
    serde_json::from_value(params.clone()).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}

/// The target; class indices without a channel axis get one.
fn target(case: &Case, input: &Tensor<5>) -> Result<Tensor<5>, Miss> {
    let array = case.array("in.target")?;
    let device = input.device();
    let rank = case.array("in.input")?.shape.len();
    if array.shape.len() + 1 != rank {
        return tensor(array, &device);
    }
    let mut with_channel = array.clone();
    with_channel.shape.insert(1, 1);
    tensor(&with_channel, &device)
}
