//! Learning-rate schedules: the rates after each step, for every base rate.

use hearth_engine::Better;
use hearth_handlers::{PlateauOptions, ReduceLrOnPlateau, ScheduleConfig};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::{Map, Value, json};

/// Replays a schedule.
pub fn replay(case: &Case) -> Outcome {
    let bases: Vec<f64> = serde_json::from_value(case.call["base_lrs"].clone())?;
    let expected = case.array("out.lr")?;
    let steps = expected.shape[0];
    let by_base: Vec<Vec<f64>> = match case.op.as_str() {
        "ReduceLROnPlateau" => {
            let values: Vec<f64> = serde_json::from_value(case.call["metric"].clone())?;
            bases.iter().enumerate().map(|(i, base)| plateau(case, i, *base, &values)).collect::<Result<_, _>>()?
        }
        _ => {
            let schedule = config(case)?;
            bases.iter().map(|base| (0..steps as u64).map(|step| schedule.at(*base, step)).collect()).collect()
        }
    };
    let rates: Vec<f64> = (0..steps).flat_map(|step| by_base.iter().map(move |rates| rates[step])).collect();
    let mut check = case.check();
    check.close("out.lr", &[steps, bases.len()], &rates);
    check.outcome()
}

/// The schedule of this name and parameters; serde errors mean unsupported.
fn config(case: &Case) -> Result<ScheduleConfig, Miss> {
    let name = match case.op.as_str() {
        "monai.LinearLR" => "FinderLinear",
        "monai.ExponentialLR" => "FinderExponential",
        other => other,
    };
    let mut table = Map::from_iter([("name".to_owned(), json!(name))]);
    table.extend(case.params().map(|(name, value)| (name.to_owned(), value.clone())));
    serde_json::from_value(Value::Object(table)).map_err(|e| Miss::unsupported(format!("{}: {e}", case.op)))
}

fn plateau(case: &Case, group: usize, base: f64, values: &[f64]) -> Result<Vec<f64>, Miss> {
    let mut table = case.params.clone();
    if let Some(own) = table["min_lr"].as_array().and_then(|each| each.get(group)).cloned() {
        table["min_lr"] = own;
    }
    let mode = table.as_object_mut().and_then(|table| table.remove("mode"));
    let better = if mode == Some(json!("max")) { Better::Higher } else { Better::Lower };
    let options: PlateauOptions = serde_json::from_value(table).map_err(|e| Miss::unsupported(e.to_string()))?;
    let mut schedule = ReduceLrOnPlateau::new(options)?;
    let mut rate = base;
    let mut rates = vec![base];
    for value in values {
        rate = schedule.step(*value, better, rate).unwrap_or(rate);
        rates.push(rate);
    }
    Ok(rates)
}
