//! Optimizers: the parameters after each step, and the state at the end.

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use hearth::nn::optim::{Gradients, OptimizerConfig};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::{Value, json};

use super::batch::values;

/// The parameters of a case, flat; their paths are `values.0`, `values.1`, ...
#[derive(Module, Debug)]
struct Parameters {
    values: Vec<Param<Tensor<1>>>,
}

fn path(parameter: usize) -> String {
    format!("values.{parameter}")
}

/// Replays one optimizer.
pub fn replay(case: &Case) -> Outcome {
    if !["SGD", "Adam", "AdamW", "Novograd", "RMSprop"].contains(&case.op.as_str()) {
        return Err(Miss::unsupported(format!("op {}", case.op)));
    }
    let known = [
        "lr",
        "momentum",
        "dampening",
        "weight_decay",
        "nesterov",
        "betas",
        "eps",
        "amsgrad",
        "grad_averaging",
        "alpha",
        "centered",
        "maximize",
    ];
    case.only_params(&known)?;
    let config = config(case)?;
    let lr = config.lr();
    let mut optimizer = config.build()?;
    let device = Device::default().autodiff();
    let count = (0..).take_while(|i| case.find(&format!("in.p{i}")).is_some()).count();
    let mut parameters = Parameters { values: Vec::new() };
    for i in 0..count {
        let start = case.array(&format!("in.p{i}"))?.f32();
        parameters.values.push(Param::from_tensor(Tensor::from_floats(start.as_slice(), &device)));
    }
    let steps = case.array("in.g0")?.shape[0];
    // Maximizing means minimizing along the negative gradient.
    let sign = if case.params["maximize"] == json!(true) { -1.0 } else { 1.0 };
    let mut tracks: Vec<Vec<f64>> = vec![Vec::new(); count];
    for step in 0..steps {
        let mut gradients = BTreeMap::new();
        for i in 0..count {
            let all = case.array(&format!("in.g{i}"))?.f32();
            let length = all.len() / steps;
            let own: Vec<f32> = all[step * length..(step + 1) * length].iter().map(|g| g * sign).collect();
            gradients.insert(path(i), Tensor::from_floats(own.as_slice(), &device.clone().inner()));
        }
        parameters = optimizer.step(parameters, Gradients::from_map(gradients), lr)?;
        for (track, parameter) in tracks.iter_mut().zip(&parameters.values) {
            track.extend(values(parameter.val()));
        }
    }
    let mut check = case.check();
    for (i, track) in tracks.iter().enumerate() {
        let name = format!("out.p{i}");
        check.close(&name, &case.array(&name)?.shape, track);
    }
    let state = optimizer.state();
    for (name, array) in &case.tensors {
        let Some((parameter, slot)) = name.strip_prefix("out.state").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let parameter: usize = parameter.parse()?;
        match state.get(&format!("{}/{slot}", path(parameter))) {
            Some(data) => check.close(name, &array.shape, &data.iter::<f64>().collect::<Vec<f64>>()),
            None => check.problem(format!("{name}: no such state")),
        }
    }
    check.outcome()
}

fn config(case: &Case) -> Result<OptimizerConfig, Miss> {
    let unsupported = |why: String| Miss::unsupported(why);
    let mut options = case.params.clone();
    options["name"] = json!(case.op);
    if let Some(options) = options.as_object_mut() {
        options.remove("maximize");
    }
    let base = case.params["lr"].as_f64().unwrap_or(if case.op == "RMSprop" { 1e-2 } else { 1e-3 });
    let mut groups = Vec::new();
    for group in case.call["groups"].as_array().into_iter().flatten() {
        if !group.is_object() {
            return Err(unsupported(format!("group {group}")));
        }
        for parameter in group["params"].as_array().into_iter().flatten() {
            let parameter = parameter.as_u64().ok_or_else(|| unsupported(format!("parameter {parameter}")))?;
            let mut own = group.clone();
            own["params"] = json!(path(parameter as usize));
            if let Some(lr) = own.as_object_mut().and_then(|own| own.remove("lr")).and_then(|lr| lr.as_f64()) {
                own["lr_scale"] = json!(lr / base);
            }
            groups.push(own);
        }
    }
    if case.call.as_object().is_some_and(|call| call.keys().any(|key| key != "groups")) {
        return Err(unsupported(format!("call {}", case.call)));
    }
    options["groups"] = Value::Array(groups);
    serde_json::from_value(options).map_err(|e| unsupported(format!("parameters: {e}")))
}
