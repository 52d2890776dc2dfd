//! Ensembles: members `[C, ...]`, stacked along the first axis of the case.

use burn::tensor::{Device, Tensor};
use hearth::train::{mean_ensemble, vote_ensemble};
use hearth_tests::golden::{Array, Case, Miss, Outcome};

use super::batch;

/// Replays `MeanEnsemble` and `VoteEnsemble`.
pub fn replay(case: &Case) -> Outcome {
    let stack = case.array("in.stack")?;
    let members = members(stack)?;
    let combined = match case.op.as_str() {
        "MeanEnsemble" => {
            case.only_params(&["weights"])?;
            mean_ensemble(&members, weights(case)?.as_deref())?
        }
        "VoteEnsemble" => {
            case.only_params(&["num_classes"])?;
            vote_ensemble(&members, case.params["num_classes"].as_u64().map(|n| n as usize))?
        }
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    // The batch axis was added here.
    let shape = combined.dims()[1..stack.shape.len()].to_vec();
    let mut check = case.check();
    check.close("out.image", &shape, &batch::values(combined));
    check.outcome()
}

/// One batch of one item for each member.
fn members(stack: &Array) -> Result<Vec<Tensor<5>>, Miss> {
    let (count, shape) = stack.shape.split_first().ok_or_else(|| Miss::failed("the stack has no axes"))?;
    let each: usize = shape.iter().product();
    (0..*count)
        .map(|index| {
            let values = stack.values[index * each..(index + 1) * each].to_vec();
            let shape = [&[1], shape].concat();
            batch::tensor(&Array { shape, values, dtype: stack.dtype.clone() }, &Device::flex())
        })
        .collect()
}

/// Weights of any number of axes, flattened.
fn weights(case: &Case) -> Result<Option<Vec<f64>>, Miss> {
    fn flatten(value: &serde_json::Value, out: &mut Vec<f64>) -> Option<()> {
        match value {
            serde_json::Value::Array(rows) => rows.iter().try_for_each(|row| flatten(row, out)),
            number => {
                out.push(number.as_f64()?);
                Some(())
            }
        }
    }
    let given = &case.params["weights"];
    let mut out = Vec::new();
    match flatten(given, &mut out) {
        _ if given.is_null() => Ok(None),
        Some(()) => Ok(Some(out)),
        None => Err(Miss::unsupported(format!("weights {given}"))),
    }
}
