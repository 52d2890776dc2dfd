//! Activations and AsDiscrete.

use burn::tensor::{Device, Tensor};
use hearth::nn::post::{Activations, AsDiscrete};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;

use super::batch::{shape_of, tensor, values};

/// Replays one post-processing transform.
pub fn replay(case: &Case) -> Outcome {
    if case.call.as_object().is_some_and(|call| !call.is_empty()) {
        return Err(Miss::unsupported(format!("call {}", case.call)));
    }
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
    let shape = shape_of(&result, rank);
    check.close("out.image", &shape[1..], &values(result));
    check.outcome()
}

fn options<T: DeserializeOwned>(case: &Case) -> Result<T, Miss> {
    serde_json::from_value(case.params.clone()).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}
