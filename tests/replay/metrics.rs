//! Metrics: the rows of each batch, and the result over all.

use burn::tensor::Device;
use hearth::nn::metrics::{
    Aggregate, ConfusionMatrixMetric, CumulativeAverage, EVAL_THRESHOLDS, FBetaScore, Froc, Metric, MetricConfig,
    MetricError, Reduced, compute_fp_tp_probs, compute_fp_tp_probs_nd,
};
use hearth_tests::golden::{Case, Check, Miss, Outcome};
use serde_json::{Value, json};

use super::batch::tensor;

/// Replays one metric.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "CumulativeAverage" => cumulative(case),
        "compute_fp_tp_probs_nd" => hits(case),
        "FROC" => froc(case),
        _ => metric(case),
    }
}

fn metric(case: &Case) -> Outcome {
    let mut params = case.params.clone();
    if let Some(map) = params.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    let counts = take(&mut params, "get_not_nans")?;
    if take(&mut params, "return_with_label")? {
        return Err(Miss::unsupported("return_with_label"));
    }
    let mut check = case.check();
    match case.op.as_str() {
        "ConfusionMatrixMetric" => {
            let mut metric: ConfusionMatrixMetric = read(params)?;
            update(case, &mut check, &mut metric)?;
            let names = (0..).map(|i| format!("out.aggregate.{i}"));
            names.zip(metric.aggregates()?).for_each(|(name, one)| compare(&mut check, &name, &one, counts));
        }
        "FBetaScore" => {
            let mut metric: FBetaScore = read(params)?;
            update(case, &mut check, &mut metric)?;
            compare(&mut check, "out.aggregate.0", &metric.aggregate()?, counts);
        }
        op => {
            params["name"] = json!(op);
            let mut metric =
                read::<MetricConfig>(params)?.build().map_err(|fault| Miss::unsupported(fault.to_string()))?;
            update(case, &mut check, metric.as_mut())?;
            compare(&mut check, "out.aggregate", &metric.aggregate()?, counts);
        }
    }
    check.outcome()
}

fn read<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, Miss> {
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}

/// Removes a flag from the parameters.
fn take(params: &mut Value, name: &str) -> Result<bool, Miss> {
    match params.as_object_mut().and_then(|map| map.remove(name)) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => Err(Miss::unsupported(format!("{name} = {other}"))),
    }
}

/// Adds every batch, and compares its rows.
fn update(case: &Case, check: &mut Check<'_>, metric: &mut dyn Metric) -> Outcome {
    let device = Device::default();
    let batches: Vec<(String, String)> = match case.find("in.y_pred") {
        Some(_) => vec![("in.y_pred".to_owned(), "in.y".to_owned())],
        None => (0..)
            .map(|i| (format!("in.y_pred_{i}"), format!("in.y_{i}")))
            .take_while(|(pred, _)| case.find(pred).is_some())
            .collect(),
    };
    let refused = |error: MetricError| match error {
        MetricError::Option { metric, reason, .. } => Miss::unsupported(format!("{metric}: {reason}")),
        other => Miss::failed(other),
    };
    for (i, (pred, label)) in batches.iter().enumerate() {
        let (pred, label) = (case.array(pred)?, case.array(label)?);
        let axes = pred.shape.len().saturating_sub(2);
        let spacing = spacing(&case.call["spacing"], pred.shape[0], axes)?;
        let (pred, label) = (tensor(pred, &device)?, tensor(label, &device)?);
        let rows = metric.update_spaced(&pred, &label, &spacing).map_err(refused)?;
        // A row of four counts per class; areas under curves have no rows of their own.
        for name in [format!("out.item.{i}"), format!("out.counts.{i}")] {
            if let Some(expected) = case.find(&name) {
                let mut shape = vec![rows.len(), rows.first().map_or(0, Vec::len)];
                if expected.shape.len() == 3 {
                    shape = vec![shape[0], shape[1] / 4, 4];
                }
                check.close_f32(&name, &shape, &rows.concat());
            }
        }
    }
    Ok(())
}

fn compare(check: &mut Check<'_>, name: &str, one: &Aggregate, counts: bool) {
    if counts {
        close(check, &format!("{name}.0"), &one.value);
        close(check, &format!("{name}.1"), &one.not_nans);
    } else {
        close(check, name, &one.value);
    }
}

fn close(check: &mut Check<'_>, name: &str, reduced: &Reduced) {
    check.close_f32(name, &reduced.shape, &reduced.values);
}

/// MONAI's spacing: a number, one per axis, or either of them for each item. The third axis of a
/// 2-D image is 1.
fn spacing(given: &Value, items: usize, axes: usize) -> Result<Vec<[f64; 3]>, Miss> {
    let unsupported = || Miss::unsupported(format!("spacing {given}"));
    let one = |value: &Value| -> Result<[f64; 3], Miss> {
        let mut own = [1.0; 3];
        match value {
            Value::Array(each) if each.len() == axes => {
                for (own, value) in own.iter_mut().zip(each) {
                    *own = value.as_f64().ok_or_else(unsupported)?;
                }
            }
            number => own[..axes].fill(number.as_f64().ok_or_else(unsupported)?),
        }
        Ok(own)
    };
    match given {
        Value::Null => Ok(Vec::new()),
        Value::Array(each) if each.iter().all(Value::is_number) && each.len() == axes => Ok(vec![one(given)?]),
        Value::Array(each) if each.len() == items => each.iter().map(one).collect(),
        other => Ok(vec![one(other)?]),
    }
}

fn cumulative(case: &Case) -> Outcome {
    let list = |value: &Value| -> Vec<f64> {
        match value {
            Value::Array(values) => values.iter().filter_map(Value::as_f64).collect(),
            number => number.as_f64().into_iter().collect(),
        }
    };
    let mut average = CumulativeAverage::default();
    let mut track = Vec::new();
    let (values, counts) = (case.call["values"].as_array(), case.call["counts"].as_array());
    for (i, value) in values.into_iter().flatten().enumerate() {
        let values = list(value);
        match counts.and_then(|counts| counts.get(i)) {
            None | Some(Value::Null) => average.append(&values, 1.0)?,
            Some(Value::Array(each)) => average.append_each(&values, &list(&json!(each)))?,
            Some(count) => average.append(&values, count.as_f64().unwrap_or(f64::NAN))?,
        }
        track.extend(average.aggregate());
    }
    let mut check = case.check();
    check.close("out.after_each", &case.array("out.after_each")?.shape, &track);
    check.outcome()
}

fn excluded(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().filter_map(|label| label.as_u64().map(|label| label as u32)).collect()
}

fn labels(case: &Case, name: &str) -> Result<(Vec<u32>, Vec<usize>), Miss> {
    let array = case.array(name)?;
    Ok((array.values.iter().map(|v| *v as u32).collect(), array.shape.clone()))
}

fn f64s(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn hits(case: &Case) -> Outcome {
    let (mask, shape) = labels(case, "in.mask")?;
    let coordinates = &case.array("in.coords")?.values;
    let detections: Vec<(f32, Vec<usize>)> = case
        .array("in.probs")?
        .f32()
        .into_iter()
        .zip(coordinates.chunks(shape.len()))
        .map(|(probability, at)| (probability, at.iter().map(|v| *v as usize).collect()))
        .collect();
    let exclude = match &case.call["labels_to_exclude"] {
        Value::Null => excluded(&case.params["labels_to_exclude"]),
        labels => excluded(labels),
    };
    let found = compute_fp_tp_probs_nd(&detections, &mask, &shape, &exclude)?;
    let mut check = case.check();
    check.close("out.fp_probs", &[found.fp_probs.len()], &f64s(&found.fp_probs));
    check.close("out.tp_probs", &[found.tp_probs.len()], &f64s(&found.tp_probs));
    check.equal("num_targets", &case.record["expected"]["num_targets"], &json!(found.num_targets));
    check.outcome()
}

fn froc(case: &Case) -> Outcome {
    let option = |name: &str| if case.call[name].is_null() { &case.params[name] } else { &case.call[name] };
    let level = option("resolution_level").as_u64().unwrap_or(0) as u32;
    let thresholds: Vec<f64> = match option("eval_thresholds") {
        Value::Array(each) => each.iter().filter_map(Value::as_f64).collect(),
        _ => EVAL_THRESHOLDS.to_vec(),
    };
    let mut check = case.check();
    let mut froc = Froc::default();
    for image in (0..).take_while(|i| case.find(&format!("in.probs_{i}")).is_some()) {
        let of = |name: &str| case.array(&format!("in.{name}_{image}"));
        let places = of("y")?.values.iter().zip(&of("x")?.values);
        let probabilities = of("probs")?.f32();
        let detections: Vec<(f32, [f64; 2])> =
            probabilities.into_iter().zip(places).map(|(p, (y, x))| (p, [*y, *x])).collect();
        let (mask, shape) = labels(case, &format!("in.mask_{image}"))?;
        let exclude = excluded(&option("labels_to_exclude")[image.to_string()]);
        let found = compute_fp_tp_probs(&detections, &mask, [shape[0], shape[1]], &exclude, level)?;
        check.close(&format!("out.fp_probs_{image}"), &[found.fp_probs.len()], &f64s(&found.fp_probs));
        check.close(&format!("out.tp_probs_{image}"), &[found.tp_probs.len()], &f64s(&found.tp_probs));
        froc.add(found);
    }
    let curve = froc.curve();
    check.close("out.fps_per_image", &[curve.fps_per_image.len()], &curve.fps_per_image);
    check.close("out.sensitivity", &[curve.sensitivity.len()], &curve.sensitivity);
    check.close("out.score", &[], &[curve.score(&thresholds)]);
    let (images, targets) = froc.totals();
    check.equal("num_images", &case.record["expected"]["num_images"], &json!(images));
    check.equal("num_targets", &case.record["expected"]["num_targets"], &json!(targets));
    check.outcome()
}
