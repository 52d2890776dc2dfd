//! Utility transforms.

use hearth::data::transforms::EnsureChannelFirst;
use hearth::data::{Image, affine};
use hearth_tests::golden::{Case, Miss, Outcome};

use super::device::device;
use super::labels;
use super::transforms_spatial::typed;

/// Replays one utility transform.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "EnsureChannelFirst" => channel_first(case),
        "SobelGradients" => super::color::sobel(case),
        op if op.starts_with("torchvision.adjust_") => super::color::adjust(case),
        _ => super::crops::replay(case).unwrap_or_else(|| labels::replay(case)),
    }
}

/// The array as a reader returns it, with an unknown channel axis.
fn channel_first(case: &Case) -> Outcome {
    let transform: EnsureChannelFirst = typed(case, case.params.clone())?;
    let array = case.array("in.image")?;
    let (shape, spatial_dims) = match array.shape[..] {
        [x, y] => ([1, x, y, 1], 2),
        [x, y, z] => ([1, x, y, z], 3),
        [x, y, z, c] => ([x, y, z, c], 3),
        _ => return Err(Miss::unsupported(format!("an array of shape {:?}", array.shape))),
    };
    let mut raw = Image::from_values(array.f32(), shape, affine::IDENTITY, &device()).with_spatial_dims(spatial_dims);
    raw.meta.original_channel_dim = match &case.record["meta"]["original_channel_dim"] {
        serde_json::Value::Number(axis) => axis.as_i64(),
        _ => None,
    };
    if array.shape.len() == 4 {
        // An image has three spatial axes: a reader takes one axis for channels, by default the
        // fourth.
        let axis = raw.meta.original_channel_dim.unwrap_or(-1);
        let channels = axis.rem_euclid(4) as isize;
        let [x, y, z] = [0, 1, 2].map(|axis| axis + isize::from(axis >= channels));
        raw.data = raw.data.permute([channels, x, y, z]);
        raw.meta.original_channel_dim = Some(axis);
        raw.meta.original_shape = array.shape.clone();
    }
    let result = transform.move_channels(raw)?;
    let shape = result.data.dims()[..=result.meta.spatial_dims].to_vec();
    let mut check = case.check();
    check.close_f32("out.image", &shape, &result.to_vec());
    check.outcome()
}
