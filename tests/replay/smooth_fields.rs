//! Transforms by smooth random fields, with the points of the case.

use hearth::data::transforms as t;
use hearth::data::{Image, affine};
use hearth_tests::golden::{Case, Outcome};

use super::transforms_spatial::{image, shape, typed};

/// Replays a transform by a smooth field.
pub fn replay(case: &Case) -> Option<Outcome> {
    match case.op.as_str() {
        "RandSmoothFieldAdjustContrast" | "RandSmoothFieldAdjustIntensity" | "RandSmoothDeform" => Some(changed(case)),
        _ => None,
    }
}

fn changed(case: &Case) -> Outcome {
    let input = image(case.array("in.image")?, affine::IDENTITY)?;
    let deforms = case.op == "RandSmoothDeform";
    let (points, n) = (case.array("in.points")?, input.meta.spatial_dims);
    let size = std::array::from_fn(|axis| points.shape.get(axis).copied().unwrap_or(1));
    let pad = case.params["pad"].as_u64().unwrap_or(0) as usize;
    let field = t::SmoothField::new(&points.f32(), size, n, pad, if deforms { 0.0 } else { 1.0 })?;
    let (spatial, device) = (input.shape(), input.data.device());
    let mode = case.params.get("mode").or(case.params.get("field_mode"));
    let mode = mode.map(|mode| serde_json::from_value(mode.clone())).transpose()?.unwrap_or_default();
    let over = field.over(spatial, mode, case.params["align_corners"] == true, &device);
    let result = match case.op.as_str() {
        "RandSmoothFieldAdjustContrast" => {
            typed::<t::RandSmoothFieldAdjustContrast>(case, case.params.clone())?.change(input, &field, 0)?
        }
        "RandSmoothFieldAdjustIntensity" => {
            typed::<t::RandSmoothFieldAdjustIntensity>(case, case.params.clone())?.change(input, &field, 0)?
        }
        _ => typed::<t::RandSmoothDeform>(case, case.params.clone())?.deform(input, &field, 0)?,
    };
    let mut check = case.check();
    let over = Image::new(over, affine::IDENTITY).with_spatial_dims(n);
    check.close_f32("out.field", &shape(&over), &over.to_vec());
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}
