//! Intensity transforms.

use hearth::data::transforms as t;
use hearth::data::{Image, affine};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::transforms_spatial::{image, shape, typed};

/// Replays one intensity transform.
pub fn replay(case: &Case) -> Outcome {
    let input = image(case.array("in.image")?, affine::IDENTITY)?;
    let result = match case.op.as_str() {
        "AdjustContrast" => of::<t::AdjustContrast>(case)?.adjust(input),
        "ClipIntensityPercentiles" => of::<t::ClipIntensityPercentiles>(case)?.clip(input)?,
        "GaussianSharpen" => of::<t::GaussianSharpen>(case)?.sharpen(input)?,
        "GaussianSmooth" => of::<t::GaussianSmooth>(case)?.smooth(input)?,
        "MaskIntensity" => mask(case, input)?,
        "NormalizeIntensity" => of::<t::NormalizeIntensity>(case)?.normalize(input)?,
        "ScaleIntensity" => scale(case, input)?,
        "ScaleIntensityFixedMean" => of::<t::ScaleIntensityFixedMean>(case)?.scale(input),
        "ScaleIntensityRange" => of::<t::ScaleIntensityRange>(case)?.scale(input),
        "ScaleIntensityRangePercentiles" => of::<t::ScaleIntensityRangePercentiles>(case)?.scale(input)?,
        "ShiftIntensity" => of::<t::ShiftIntensity>(case)?.shift(input),
        "StdShiftIntensity" => of::<t::StdShiftIntensity>(case)?.shift(input),
        "ThresholdIntensity" => of::<t::ThresholdIntensity>(case)?.filter(input),
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    let mut check = case.check();
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}

/// The case's parameters without those that only say what images are here: f32 values.
fn parameters(case: &Case) -> Value {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        if matches!(params.get("dtype"), Some(Value::Null)) || params.get("dtype") == Some(&json!("float32")) {
            params.remove("dtype");
        }
        // What is returned besides the image, and what to do where an integer type ends.
        params.remove("return_clipping_values");
        params.remove("safe");
    }
    params
}

/// The transform of this case.
fn of<T: DeserializeOwned>(case: &Case) -> Result<T, Miss> {
    typed(case, parameters(case))
}

/// In a call, `None` is a value of its own and `factor` means nothing beside the default range.
fn scale(case: &Case, input: Image) -> Result<Image, Miss> {
    let mut params = json!({"keys": "image", "minv": 0.0, "maxv": 1.0});
    if let (Some(params), Value::Object(given)) = (params.as_object_mut(), parameters(case)) {
        params.extend(given);
    }
    let transform: t::ScaleIntensity = serde_json::from_value(params).map_err(|e| Miss::unsupported(e.to_string()))?;
    Ok(transform.scale(input))
}

fn mask(case: &Case, input: Image) -> Result<Image, Miss> {
    let mut params = parameters(case);
    if let Some(params) = params.as_object_mut() {
        match params.remove("select_fn") {
            None => {}
            Some(select) => match &select["$gt"] {
                Value::Number(threshold) => _ = params.insert("threshold".to_owned(), threshold.clone().into()),
                _ => return Err(Miss::unsupported(format!("select_fn {select}"))),
            },
        }
        params.insert("mask_key".to_owned(), json!("mask"));
    }
    let array = case.find("in.mask").map_or_else(|| case.array("in.mask_data"), Ok)?;
    let transform: t::MaskIntensity = typed(case, params)?;
    Ok(transform.mask(input, &image(array, affine::IDENTITY)?)?)
}
