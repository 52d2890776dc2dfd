//! Transforms of label maps and predictions.

use hearth::data::transforms::{
    ConvertToMultiChannelBasedOnBratsClasses, DistanceTransformEDT, FillHoles, KeepLargestConnectedComponent,
    LabelFilter, LabelToContour, LabelToMask, MapLabelValue, ProbNMS, RemoveRepeatedChannel, RemoveSmallObjects,
};
use hearth::data::{Image, Transform, affine};
use hearth_tests::golden::{Array, Case, Miss, Outcome};
use serde::de::DeserializeOwned;

use super::transforms_spatial::{image, input, only_call, shape, typed};

/// Replays one transform of labels.
pub fn replay(case: &Case) -> Outcome {
    let result = match case.op.as_str() {
        "KeepLargestConnectedComponent" => transform::<KeepLargestConnectedComponent>(case)?.keep(input(case)?)?,
        "FillHoles" => transform::<FillHoles>(case)?.fill(input(case)?)?,
        "RemoveSmallObjects" => transform::<RemoveSmallObjects>(case)?.remove(input(case)?)?,
        "LabelFilter" => transform::<LabelFilter>(case)?.filter(input(case)?),
        "LabelToContour" => transform::<LabelToContour>(case)?.contour(input(case)?)?,
        "LabelToMask" => transform::<LabelToMask>(case)?.mask(input(case)?)?,
        "MapLabelValue" => transform::<MapLabelValue>(case)?.recode(input(case)?),
        "DistanceTransformEDT" => transform::<DistanceTransformEDT>(case)?.distances(input(case)?)?,
        "RemoveRepeatedChannel" => transform::<RemoveRepeatedChannel>(case)?.remove(input(case)?)?,
        "ConvertToMultiChannelBasedOnBratsClasses" => return brats(case),
        "ProbNMS" => return peaks(case),
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    let mut check = case.check();
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}

/// The transform, its parameters checked; arguments of the call replace the constructor's.
fn transform<T: Transform + DeserializeOwned>(case: &Case) -> Result<T, Miss> {
    let mut params = case.params.clone();
    for (name, value) in case.call.as_object().into_iter().flatten() {
        if !value.is_null() {
            params[name] = value.clone();
        }
    }
    let transform: T = typed(case, params)?;
    transform.check(&mut ["image".to_owned()].into())?;
    Ok(transform)
}

/// An array with only spatial axes.
fn without_channel(array: &Array) -> Result<Image, Miss> {
    let mut array = array.clone();
    array.shape.insert(0, 1);
    image(&array, affine::IDENTITY)
}

/// Only an array of four axes has a channel axis, which is removed.
fn brats(case: &Case) -> Outcome {
    let array = case.array("in.image")?;
    let volume = if array.shape.len() == 4 { image(array, affine::IDENTITY)? } else { without_channel(array)? };
    let result = transform::<ConvertToMultiChannelBasedOnBratsClasses>(case)?.convert(volume)?;
    let mut check = case.check();
    check.close_f32("out.image", &shape(&result), &result.to_vec());
    check.outcome()
}

fn peaks(case: &Case) -> Outcome {
    only_call(case, &[])?;
    let map = without_channel(case.array("in.image")?)?;
    let n = map.meta.spatial_dims;
    let found = transform::<ProbNMS>(case)?.detections(&map)?;
    let row = |at: [usize; 3]| at.into_iter().take(n).map(|v| v as f64);
    let rows: Vec<f64> =
        found.iter().flat_map(|d| std::iter::once(f64::from(d.probability)).chain(row(d.at))).collect();
    let mut check = case.check();
    check.close("out.detections", &[found.len(), n + 1], &rows);
    check.outcome()
}
