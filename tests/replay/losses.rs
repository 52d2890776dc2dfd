//! Losses: value, and the gradient of the prediction.

use burn::tensor::{Device, Tensor};
use hearth::nn::losses::{LossConfig, LossError, MaskedDiceLoss, PatchAdversarialLoss};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::batch::{tensor, values};

/// Replays one loss.
pub fn replay(case: &Case) -> Outcome {
    let device = Device::default().autodiff();
    let leaf = |name: &str| Ok::<_, Miss>(tensor(case.array(name)?, &device)?.require_grad());
    let as_list = case.call["as_list"].as_bool() == Some(true);
    let names: Vec<String> = match as_list {
        true => (0..).map(|i| i.to_string()).take_while(|i| case.find(&format!("in.input{i}")).is_some()).collect(),
        false => vec![String::new()],
    };
    let inputs: Vec<Tensor<5>> = names.iter().map(|name| leaf(&format!("in.input{name}"))).collect::<Result<_, _>>()?;
    let result = forward(case, &inputs, as_list).map_err(|error| match error {
        Wrong::Loss(LossError::Option { loss, reason, .. }) => Miss::unsupported(format!("{loss}: {reason}")),
        Wrong::Loss(other) => Miss::failed(other),
        Wrong::Miss(miss) => miss,
    })?;
    let mut check = case.check();
    let shape = case.array("out.loss")?.shape.clone();
    check.close("out.loss", &shape, &values(result.clone()));
    let total = match case.find("in.cot") {
        Some(cot) => {
            let cot = tensor(cot, &device)?;
            let count = result.dims()[0];
            if cot.shape().num_elements() != count {
                return Err(Miss::failed(format!("{count} values, expected the shape {shape:?}")));
            }
            (result * cot.reshape([count])).sum()
        }
        None => result.sum(),
    };
    let gradients = total.backward();
    for (name, input) in names.iter().zip(&inputs) {
        let gradient = input.grad(&gradients).ok_or_else(|| Miss::failed("the prediction has no gradient"))?;
        let shape = &case.array(&format!("in.input{name}"))?.shape;
        check.gradient(&format!("grad.input{name}"), shape, &values(gradient));
    }
    check.outcome()
}

/// A loss that refuses its input, or a case that cannot be replayed.
enum Wrong {
    Loss(LossError),
    Miss(Miss),
}

impl From<LossError> for Wrong {
    fn from(error: LossError) -> Self {
        Wrong::Loss(error)
    }
}

impl From<Miss> for Wrong {
    fn from(miss: Miss) -> Self {
        Wrong::Miss(miss)
    }
}

fn forward(case: &Case, inputs: &[Tensor<5>], as_list: bool) -> Result<Tensor<1>, Wrong> {
    let known = ["as_list", "for_discriminator", "target_is_real"];
    if let Some(other) = case.call.as_object().and_then(|call| call.keys().find(|key| !known.contains(&key.as_str()))) {
        return Err(Miss::unsupported(format!("{other} of the call")).into());
    }
    let params = without_nulls(&case.params);
    if case.op == "PatchAdversarialLoss" {
        let loss: PatchAdversarialLoss = options(params)?;
        let flag = |name: &str| case.call[name].as_bool().unwrap_or_default();
        return Ok(loss.forward(inputs, flag("target_is_real"), flag("for_discriminator"))?);
    }
    let input = inputs.first().ok_or_else(|| Miss::failed("the case has no prediction"))?;
    let target = target(case, input)?;
    if let Some(mask) = case.find("in.mask") {
        if case.op != "MaskedDiceLoss" {
            return Err(Miss::unsupported(format!("a mask for {}", case.op)).into());
        }
        let mask = tensor(mask, &input.device())?;
        return Ok(options::<MaskedDiceLoss>(params)?.forward_masked(input.clone(), target, mask)?);
    }
    let loss = options::<LossConfig>(named(&case.op, params))?;
    Ok(if as_list { loss.forward_all(inputs.to_vec(), target)? } else { loss.forward(input.clone(), target)? })
}

fn without_nulls(params: &Value) -> Value {
    let mut params = params.clone();
    if let Some(map) = params.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    params
}

/// MONAI's class and parameters as in a recipe.
fn named(op: &str, params: Value) -> Value {
    let mut table = json!({ "name": op });
    for (key, value) in params.as_object().into_iter().flatten() {
        table[key] = match (key.as_str(), value) {
            ("loss", inner) => named(inner["op"].as_str().unwrap_or_default(), without_nulls(&inner["params"])),
            ("weight", Value::Number(_)) if op == "DiceCELoss" => json!([value]),
            // In PyTorch, a shape to broadcast.
            ("weight" | "pos_weight", Value::Array(_)) => json!(flat(value)),
            // Deprecated in PyTorch, without effect.
            ("batch_size", _) if op == "ContrastiveLoss" => continue,
            _ => value.clone(),
        };
    }
    table
}

fn flat(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(entries) => entries.iter().flat_map(flat).collect(),
        other => vec![other.clone()],
    }
}

/// MONAI's parameters converted to ours; unknown ones are unsupported.
fn options<L: DeserializeOwned>(params: Value) -> Result<L, Miss> {
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}

/// The target; class indices without a channel axis get one.
fn target(case: &Case, input: &Tensor<5>) -> Result<Tensor<5>, Miss> {
    let array = case.array("in.target")?;
    let device = input.device();
    let first = case.find("in.input").map_or("in.input0", |_| "in.input");
    if array.shape.len() + 1 != case.array(first)?.shape.len() {
        return tensor(array, &device);
    }
    let mut with_channel = array.clone();
    with_channel.shape.insert(1, 1);
    tensor(&with_channel, &device)
}
