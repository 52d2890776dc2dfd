//! Metrics: the rows of each batch, and the result over all.

use burn::tensor::Device;
use hearth::nn::metrics::{DiceMetric, Metric};
use hearth_tests::golden::{Case, Check, Miss, Outcome};
use serde_json::Value;

use super::batch::tensor;

/// Replays one metric.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "DiceMetric" => {
            let mut params = case.params.clone();
            let counts = take(&mut params, "get_not_nans")?;
            if take(&mut params, "return_with_label")? || take(&mut params, "per_component")? {
                return Err(Miss::unsupported("return_with_label or per_component"));
            }
            let metric: DiceMetric =
                serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))?;
            run(case, metric, counts)
        }
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

/// Takes a flag out of the parameters.
fn take(params: &mut Value, name: &str) -> Result<bool, Miss> {
    match params.as_object_mut().and_then(|map| map.remove(name)) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => Err(Miss::unsupported(format!("{name} = {other}"))),
    }
}

fn run(case: &Case, mut metric: impl Metric, counts: bool) -> Outcome {
    let device = Device::default();
    let mut check = case.check();
    let batches: Vec<(String, String)> = match case.find("in.y_pred") {
        Some(_) => vec![("in.y_pred".to_owned(), "in.y".to_owned())],
        None => (0..)
            .map(|i| (format!("in.y_pred_{i}"), format!("in.y_{i}")))
            .take_while(|(pred, _)| case.find(pred).is_some())
            .collect(),
    };
    for (i, (pred, label)) in batches.iter().enumerate() {
        let (pred, label) = (tensor(case.array(pred)?, &device)?, tensor(case.array(label)?, &device)?);
        let rows = metric.update(&pred, &label)?;
        let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
        check.close_f32(&format!("out.item.{i}"), &shape, &rows.concat());
    }
    let result = metric.aggregate()?;
    let mut compare = |name: &str, reduced: &hearth::nn::metrics::Reduced| close(&mut check, name, reduced);
    if counts {
        compare("out.aggregate.0", &result.value);
        compare("out.aggregate.1", &result.not_nans);
    } else {
        compare("out.aggregate", &result.value);
    }
    check.outcome()
}

fn close(check: &mut Check<'_>, name: &str, reduced: &hearth::nn::metrics::Reduced) {
    check.close_f32(name, &reduced.shape, &reduced.values);
}
