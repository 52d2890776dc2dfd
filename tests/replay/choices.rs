//! Steps within steps, and mixtures of batches, with the draws of the case.

use hearth::data::transforms as t;
use hearth::data::{DrawKey, Image, Pipeline, Sample, affine};
use hearth_tests::golden::{Case, Miss, Outcome};

use super::device::device;
use super::transforms_spatial::{finish, input, typed};

/// Replays a choice of steps in the recorded order.
pub fn steps(case: &Case) -> Option<Outcome> {
    match case.op.as_str() {
        "OneOf" | "SomeOf" | "RandomOrder" => Some(in_order(case)),
        _ => None,
    }
}

fn in_order(case: &Case) -> Outcome {
    // The table as a recipe has it.
    let mut table = case.params.clone();
    table["name"] = case.op.clone().into();
    let text = toml::to_string(&serde_json::json!({ "transforms": [table] }))?;
    assert_eq!(Pipeline::from_toml(&text)?.steps()[0].name(), case.op);
    let inner = toml::to_string(&case.params)?;
    let steps = Pipeline::from_toml(&inner)?.steps().to_vec();
    let order: Vec<usize> = serde_json::from_value(case.call["order"].clone())?;
    let sample = Sample::new("case").with_image("image", input(case)?);
    let draw = DrawKey::new(0, 0, 0).draw("case", 0, 0);
    let mut made = match case.op.as_str() {
        "OneOf" => t::OneOf::new(steps).apply_in_order(sample, &order, &draw)?,
        "SomeOf" => t::SomeOf::new(steps).apply_in_order(sample, &order, &draw)?,
        _ => t::RandomOrder::new(steps).apply_in_order(sample, &order, &draw)?,
    };
    let mut sample = made.pop().ok_or_else(|| Miss::failed("no sample"))?;
    finish(case, sample.take_image("image")?, |_, _| ())
}

/// Replays a mixture of a batch with the recorded weights, partners and corner.
pub fn mixtures(case: &Case) -> Option<Outcome> {
    match case.op.as_str() {
        "MixUp" | "CutMix" | "CutOut" => Some(mixed(case)),
        _ => None,
    }
}

fn mixed(case: &Case) -> Outcome {
    let corner: Vec<usize> = serde_json::from_value(case.call["corner"].clone())?;
    let mixing = t::Mixing {
        weights: case.array("in.weights")?.f32(),
        partners: serde_json::from_value(case.call["partners"].clone())?,
        corner: std::array::from_fn(|axis| corner.get(axis).copied().unwrap_or(0)),
    };
    let mut check = case.check();
    for key in ["image", "label"] {
        let array = case.array(&format!("in.{key}"))?;
        let length = |axis: usize| array.shape.get(axis).copied().unwrap_or(1);
        let batch = [length(0) * length(1), length(2), length(3), length(4)];
        let image = Image::from_values(array.f32(), batch, affine::IDENTITY, &device());
        let image = image.with_spatial_dims(array.shape.len() - 2);
        let made = match case.op.as_str() {
            "MixUp" => typed::<t::MixUp>(case, case.params.clone())?.mix(image, &mixing)?,
            "CutMix" => typed::<t::CutMix>(case, case.params.clone())?.mix(image, &mixing)?,
            _ => typed::<t::CutOut>(case, case.params.clone())?.mix(image, &mixing)?,
        };
        check.close_f32(&format!("out.{key}"), &array.shape, &made.to_vec());
    }
    check.outcome()
}
