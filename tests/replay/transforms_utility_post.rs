//! Utility transforms.

use hearth::data::transforms::{EnsureChannelFirst, foreground_and_background};
use hearth::data::{Image, affine};
use hearth_tests::golden::{Case, Miss, Outcome};

use super::device::device;
use super::transforms_spatial::{image, typed};

/// Replays one utility transform.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "EnsureChannelFirst" => channel_first(case),
        "FgBgToIndices" => indices(case),
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

/// The array comes as a reader gives it: no channel axis known yet.
fn channel_first(case: &Case) -> Outcome {
    let transform: EnsureChannelFirst = typed(case, case.params.clone())?;
    let array = case.array("in.image")?;
    let (shape, spatial_dims) = match array.shape[..] {
        [x, y] => ([1, x, y, 1], 2),
        [x, y, z] => ([1, x, y, z], 3),
        _ => return Err(Miss::unsupported(format!("an array of shape {:?}", array.shape))),
    };
    let mut raw = Image::from_values(array.f32(), shape, affine::IDENTITY, &device()).with_spatial_dims(spatial_dims);
    raw.meta.original_channel_dim = match &case.record["meta"]["original_channel_dim"] {
        serde_json::Value::Number(axis) => axis.as_i64(),
        _ => None,
    };
    let result = transform.move_channels(raw)?;
    let shape = result.data.dims()[..=result.meta.spatial_dims].to_vec();
    let mut check = case.check();
    check.close_f32("out.image", &shape, &result.to_vec());
    check.outcome()
}

fn indices(case: &Case) -> Outcome {
    case.only_params(&["image_threshold", "output_shape"])?;
    let label = image(case.array("in.label")?, affine::IDENTITY)?;
    let bright = case.find("in.image").map(|array| image(array, affine::IDENTITY)).transpose()?;
    let threshold = case.params["image_threshold"].as_f64().unwrap_or(0.0);
    let (foreground, background) = foreground_and_background(&label, bright.as_ref(), threshold)?;
    let output: Option<Vec<usize>> = serde_json::from_value(case.params["output_shape"].clone())?;
    let mut check = case.check();
    for (name, list) in [("out.fg", foreground), ("out.bg", background)] {
        match &output {
            None => {
                let values: Vec<f64> = list.iter().map(|v| *v as f64).collect();
                check.close(name, &[list.len()], &values);
            }
            Some(shape) => {
                let values: Vec<f64> = list.iter().flat_map(|flat| unravel(*flat as usize, shape)).collect();
                check.close(name, &[list.len(), shape.len()], &values);
            }
        }
    }
    check.outcome()
}

fn unravel(mut flat: usize, shape: &[usize]) -> Vec<f64> {
    let mut out = vec![0.0; shape.len()];
    for (place, length) in out.iter_mut().zip(shape).rev() {
        *place = (flat % length) as f64;
        flat /= length;
    }
    out
}
