//! Intensity transforms.

use hearth::data::transforms as t;
use hearth::data::{Image, affine};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::transforms_spatial::{image, shape, typed};

/// Replays one intensity transform.
pub fn replay(case: &Case) -> Outcome {
    if let Some(outcome) = super::choices::mixtures(case).or_else(|| super::smooth_fields::replay(case)) {
        return outcome;
    }
    let input = image(case.array("in.image")?, affine::IDENTITY)?;
    let result = match case.op.as_str() {
        "AdjustContrast" => of::<t::AdjustContrast>(case)?.adjust(input),
        "ClipIntensityPercentiles" => of::<t::ClipIntensityPercentiles>(case)?.clip(input)?,
        "ForegroundMask" => of::<t::ForegroundMask>(case)?.mask(input)?,
        "GaussianSharpen" => of::<t::GaussianSharpen>(case)?.sharpen(input)?,
        "GaussianSmooth" => of::<t::GaussianSmooth>(case)?.smooth(input)?,
        "GibbsNoise" => of::<t::GibbsNoise>(case)?.cut(input),
        "HistogramNormalize" => {
            let mask = ["in.mask", "in.mask_data"].iter().find_map(|name| case.find(name));
            let mask = mask.map(|array| image(array, affine::IDENTITY)).transpose()?;
            floats(case, "in.image")?;
            of::<t::HistogramNormalize>(case)?.normalize(input, mask.as_ref())?
        }
        "KSpaceSpikeNoise" => of::<t::KSpaceSpikeNoise>(case)?.spike(input)?,
        "MaskIntensity" => mask(case, input)?,
        "MedianSmooth" => of::<t::MedianSmooth>(case)?.smooth(input)?,
        "NormalizeIntensity" => of::<t::NormalizeIntensity>(case)?.normalize(input)?,
        "RandBiasField" => return bias_field(case, input),
        "RandHistogramShift" => histogram_shift(case, input)?,
        "SavitzkyGolaySmooth" => of::<t::SavitzkyGolaySmooth>(case)?.smooth(input)?,
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

/// The case's parameters without those that only state that images are f32.
fn parameters(case: &Case) -> Value {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        if matches!(params.get("dtype"), Some(Value::Null)) || params.get("dtype") == Some(&json!("float32")) {
            params.remove("dtype");
        }
        // Additional return values, and the treatment of integer overflow.
        params.remove("return_clipping_values");
        params.remove("safe");
        params.remove("prob");
    }
    params
}

/// The transform of this case.
fn of<T: DeserializeOwned>(case: &Case) -> Result<T, Miss> {
    typed(case, parameters(case))
}

/// scikit-image bins integers differently from f32, and images here are f32.
fn floats(case: &Case, name: &str) -> Outcome {
    match case.array(name)?.dtype.as_str() {
        "F32" | "F64" => Ok(()),
        other => Err(Miss::unsupported(format!("{} of {other}", case.op))),
    }
}

/// The draw is fixed: coefficients.
fn bias_field(case: &Case, input: Image) -> Outcome {
    of::<t::RandBiasField>(case)?;
    let degree = case.params["degree"].as_u64().unwrap_or(3) as usize;
    let coefficients: Vec<f64> = serde_json::from_value(case.call["coeff"].clone())?;
    let field = t::bias_field(input.shape(), input.meta.spatial_dims, degree, &coefficients)?;
    let spatial = input.spatial_shape();
    let result = t::apply_bias_field(input, degree, &coefficients)?;
    let mut check = case.check();
    if case.find("out.field").is_some() {
        check.close_f32("out.field", &spatial, &field);
    }
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}

/// The draw is fixed: control points.
fn histogram_shift(case: &Case, input: Image) -> Result<Image, Miss> {
    of::<t::RandHistogramShift>(case)?;
    let points = |name: &str| serde_json::from_value::<Vec<f64>>(case.call[name].clone());
    Ok(t::shift_histogram(input, &points("reference_control_points")?, &points("floating_control_points")?)?)
}

/// In a call, `None` is a distinct value, and `factor` has no effect next to the default range.
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
