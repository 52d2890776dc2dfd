//! Colours and gradients of images.

use hearth::data::transforms::{
    PixelType, SobelGradients, adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation,
};
use hearth::data::{Image, TransformError, affine};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::json;

use super::transforms_spatial::{image, shape, typed};

/// `torchvision.adjust_*` with a fixed factor.
pub fn adjust(case: &Case) -> Outcome {
    type Adjust = fn(Image, f64, PixelType) -> Result<Image, TransformError>;
    let (parameter, adjust): (&str, Adjust) = match case.op.as_str() {
        "torchvision.adjust_brightness" => ("brightness_factor", adjust_brightness),
        "torchvision.adjust_contrast" => ("contrast_factor", adjust_contrast),
        "torchvision.adjust_hue" => ("hue_factor", adjust_hue),
        "torchvision.adjust_saturation" => ("saturation_factor", adjust_saturation),
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    case.only_params(&[parameter])?;
    let factor = case.params[parameter].as_f64().ok_or_else(|| Miss::failed(format!("the case has no {parameter}")))?;
    let array = case.array("in.image")?;
    let pixel = match array.dtype.as_str() {
        "F32" => PixelType::Float32,
        "U8" => PixelType::Uint8,
        other => return Err(Miss::unsupported(format!("pixels of {other}"))),
    };
    finish(case, &adjust(image(array, affine::IDENTITY)?, factor, pixel)?)
}

/// Gradients along the axes.
pub fn sobel(case: &Case) -> Outcome {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut()
        && params.get("dtype") == Some(&json!("float32"))
    {
        params.remove("dtype");
    }
    let transform: SobelGradients = typed(case, params)?;
    finish(case, &transform.gradients(image(case.array("in.image")?, affine::IDENTITY)?)?)
}

fn finish(case: &Case, result: &Image) -> Outcome {
    let mut check = case.check();
    check.close_f32("out.image", &shape(result), &result.to_vec());
    check.outcome()
}
