//! Spatial transforms: orientation, spacing, crops, padding, flips, with their inverses.

use hearth::data::transforms::Orientation;
use hearth::data::{Affine, Image, Space, affine};
use hearth_tests::golden::{Array, Case, Check, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::device::device;

/// Replays one spatial transform.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "Orientation" => {
            let transform: Orientation = typed(case, case.params.clone())?;
            finish(case, transform.turn(input(case)?, 0)?, |_, _| ())
        }
        other => super::crops::replay(case)
            .or_else(|| super::resampling::replay(case))
            .or_else(|| super::warps::replay(case))
            .or_else(|| super::choices::steps(case))
            .or_else(|| super::smooth_fields::replay(case))
            .unwrap_or_else(|| Err(Miss::unsupported(format!("op {other}")))),
    }
}

/// Compares image and affine, and the inverse if the case has one.
pub fn finish(case: &Case, result: Image, more: impl FnOnce(&Image, &mut Check<'_>)) -> Outcome {
    let mut check = case.check();
    compare(&mut check, case, &result, ["out.image", "out.affine"]);
    more(&result, &mut check);
    if case.record["inverse"] == true {
        let mut back = result;
        while !back.meta.applied.is_empty() {
            back = back.undo_last(false)?;
        }
        compare(&mut check, case, &back, ["out.inverse_image", "out.inverse_affine"]);
    }
    check.outcome()
}

fn compare(check: &mut Check<'_>, case: &Case, image: &Image, [values, matrix]: [&str; 2]) {
    check.close_f32(values, &shape(image), &image.to_vec());
    if case.find(matrix).is_some() {
        close_affine(check, case, matrix, image);
    }
}

/// Compares an affine; MONAI sometimes has a 3x3 one for a 2-D image.
pub fn close_affine(check: &mut Check<'_>, case: &Case, name: &str, image: &Image) {
    match case.find(name) {
        Some(expected) if expected.shape == [3, 3] && image.meta.spatial_dims == 2 => {
            check.close(name, &[3, 3], &super::warps::square(&image.affine, 3));
        }
        _ => check.close(name, &[4, 4], image.affine.as_flattened()),
    }
}

/// `[C, X, Y]` or `[C, X, Y, Z]`.
pub fn shape(image: &Image) -> Vec<usize> {
    image.data.dims()[..=image.meta.spatial_dims].to_vec()
}

/// `in.image` with `in.affine`.
pub fn input(case: &Case) -> Result<Image, Miss> {
    let matrix = match case.find("in.affine") {
        Some(array) => array.matrix4()?,
        None => affine::IDENTITY,
    };
    let mut image = image(case.array("in.image")?, matrix)?;
    image.meta.space = match case.record["meta"]["space"].as_str() {
        None | Some("RAS") => Space::Ras,
        Some("LPS") => Space::Lps,
        Some(other) => return Err(Miss::unsupported(format!("space {other}"))),
    };
    Ok(image)
}

/// A channel-first array as an image.
pub fn image(array: &Array, affine: Affine) -> Result<Image, Miss> {
    let (shape, spatial_dims) = match array.shape[..] {
        [c, x, y] => ([c, x, y, 1], 2),
        [c, x, y, z] => ([c, x, y, z], 3),
        _ => return Err(Miss::unsupported(format!("an image of shape {:?}", array.shape))),
    };
    Ok(Image::from_values(array.f32(), shape, affine, &device()).with_spatial_dims(spatial_dims))
}

/// The transform with these parameters, for the key `image`.
pub fn typed<T: DeserializeOwned>(case: &Case, mut params: Value) -> Result<T, Miss> {
    if let Some(params) = params.as_object_mut() {
        params.retain(|_, value| !value.is_null());
        params.insert("keys".to_owned(), json!(["image"]));
    }
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters of {}: {e}", case.op)))
}

/// Unsupported unless every argument of the call is one of these.
pub fn only_call(case: &Case, known: &[&str]) -> Outcome {
    match case.call.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(Miss::unsupported(format!("argument {name} of {}", case.op))),
        None => Ok(()),
    }
}
