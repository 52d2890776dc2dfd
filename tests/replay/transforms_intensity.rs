//! Intensity transforms.

use hearth::data::affine;
use hearth::data::transforms::{NormalizeIntensity, ScaleIntensityRange};
use hearth_tests::golden::{Case, Miss, Outcome};

use super::transforms_spatial::{image, shape, typed};

/// Replays one intensity transform.
pub fn replay(case: &Case) -> Outcome {
    let mut params = case.params.clone();
    if params["dtype"] == "float32"
        && let Some(params) = params.as_object_mut()
    {
        params.remove("dtype");
    }
    let input = || image(case.array("in.image")?, affine::IDENTITY);
    let result = match case.op.as_str() {
        "ScaleIntensityRange" => typed::<ScaleIntensityRange>(case, params)?.scale(input()?),
        "NormalizeIntensity" => typed::<NormalizeIntensity>(case, params)?.normalize(input()?)?,
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    let mut check = case.check();
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}
