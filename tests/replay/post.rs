//! Activations and AsDiscrete.

use burn::tensor::{Device, Tensor};
use hearth::nn::post::{Activations, AsDiscrete};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;

use super::batch::{shape_of, tensor, values};

/// Replays one post-processing transform.
pub fn replay(case: &Case) -> Outcome {
    let mut image = case.array("in.image")?.clone();
    image.shape.insert(0, 1);
    let rank = image.shape.len();
    let image = tensor(&image, &Device::default())?;
    let result: Tensor<5> = match case.op.as_str() {
        "Activations" => options::<Activations>(case)?.apply(image)?,
        "AsDiscrete" => options::<AsDiscrete>(case)?.apply(image)?,
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    let mut check = case.check();
    let mut shape = shape_of(&result, rank)[1..].to_vec();
    if case.params["keepdim"] == false && case.params["argmax"] == true {
        // A tensor of a batch keeps all its axes.
        shape.remove(case.params["dim"].as_i64().unwrap_or(0).rem_euclid(rank as i64 - 1) as usize);
    }
    check.close("out.image", &shape, &values(result));
    check.outcome()
}

fn options<T: DeserializeOwned>(case: &Case) -> Result<T, Miss> {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        params
            .retain(|name, value| !(value.is_null() || name == "keepdim" || (name == "dtype" && *value == "float32")));
        for (name, value) in case.call.as_object().into_iter().flatten() {
            // In Activations constructor or call may enable it; in AsDiscrete the call decides.
            if !value.is_null() && (case.op != "Activations" || *value == true) {
                params.insert(name.clone(), value.clone());
            }
        }
    }
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}
