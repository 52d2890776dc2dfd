//! Spatial transforms: orientation, spacing, crops, padding, flips, with their inverses.

use hearth::data::spatial::{flip, rotate90};
use hearth::data::transforms::{
    CropForeground, Orientation, RandCropByPosNegLabel, SpatialPad, corrected_center, foreground_and_background,
    foreground_ratio,
};
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
            finish(case, transform.turn(input(case)?)?, |_, _| ())
        }
        "CropForeground" => crop_foreground(case),
        "SpatialPad" => {
            let transform: SpatialPad = typed(case, case.params.clone())?;
            finish(case, transform.pad(input(case)?, 0)?, |_, _| ())
        }
        "Flip" => {
            case.only_params(&["spatial_axis"])?;
            let image = input(case)?;
            let n = image.meta.spatial_dims;
            let axes = match &case.params["spatial_axis"] {
                Value::Null => (0..n).collect(),
                axes => axes_of(axes, n)?,
            };
            finish(case, flip(image, &axes), |_, _| ())
        }
        "Rotate90" => {
            case.only_params(&["k", "spatial_axes"])?;
            let image = input(case)?;
            let axes = match &case.params["spatial_axes"] {
                Value::Null => vec![0, 1],
                axes => axes_of(axes, image.meta.spatial_dims)?,
            };
            let k = case.params["k"].as_i64().unwrap_or(1).rem_euclid(4) as usize;
            finish(case, rotate90(image, k, axes[0], axes[1]), |_, _| ())
        }
        "RandCropByPosNegLabel" => pos_neg(case),
        other => super::resampling::replay(case)
            .or_else(|| super::warps::replay(case))
            .unwrap_or_else(|| Err(Miss::unsupported(format!("op {other}")))),
    }
}

fn crop_foreground(case: &Case) -> Outcome {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        match params.remove("select_fn") {
            None => {}
            Some(select) => match &select["$gt"] {
                Value::Number(threshold) => _ = params.insert("threshold".to_owned(), threshold.clone().into()),
                _ => return Err(Miss::unsupported(format!("select_fn {select}"))),
            },
        }
        params.remove("return_coords");
        params.insert("source_key".to_owned(), json!("image"));
    }
    let transform: CropForeground = typed(case, params)?;
    let image = input(case)?;
    let n = image.meta.spatial_dims;
    let region = transform.bounding_box(&image)?;
    finish(case, transform.crop(image, region, 0)?, |_, check| {
        for (name, corner) in [("out.box_start", region.start), ("out.box_end", region.end)] {
            let values: Vec<f64> = corner[..n].iter().map(|v| *v as f64).collect();
            check.close_at(name, &[n], &values, 0.0, 0.0, 0);
        }
    })
}

fn pos_neg(case: &Case) -> Outcome {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        params.insert("label_key".to_owned(), json!("image"));
    }
    let transform: RandCropByPosNegLabel = typed(case, params)?;
    let number = |name: &str, default: f64| case.params[name].as_f64().unwrap_or(default);
    let label = image(case.array("in.label")?, affine::IDENTITY)?;
    let bright = case.find("in.image").map(|array| image(array, affine::IDENTITY)).transpose()?;
    let (foreground, background) = foreground_and_background(&label, bright.as_ref(), number("image_threshold", 0.0))?;
    let n = label.meta.spatial_dims;
    let shape = label.shape();
    let size = transform.box_size(shape, n)?;
    let mut check = case.check();
    for (name, list) in [("fg", &foreground), ("bg", &background)] {
        let indices: Vec<f64> = list.iter().map(|v| *v as f64).collect();
        check.close(&format!("out.{name}_indices"), &[list.len()], &indices);
        let centers: Vec<f64> = list
            .iter()
            .flat_map(|flat| {
                let flat = *flat as usize;
                let at = [flat / (shape[1] * shape[2]), flat / shape[2] % shape[1], flat % shape[2]];
                (0..n).map(move |a| corrected_center(at[a], size[a], shape[a]) as f64).collect::<Vec<_>>()
            })
            .collect();
        check.close(&format!("out.{name}_centers"), &[list.len(), n], &centers);
    }
    let ratio = foreground_ratio(number("pos", 1.0), number("neg", 1.0), foreground.len(), background.len())?;
    if let Some(expected) = case.record["expected"]["effective_pos_ratio"].as_f64()
        && (ratio - expected).abs() > 1e-12
    {
        check.problem(format!("effective ratio {ratio}, expected {expected}"));
    }
    check.outcome()
}

/// Compares image and affine, and the inverse where the case has one.
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
        check.close(matrix, &[4, 4], image.affine.as_flattened());
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

fn axes_of(value: &Value, n: usize) -> Result<Vec<usize>, Miss> {
    let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    list.iter()
        .map(|axis| match axis.as_i64() {
            Some(a) if (-(n as i64)..n as i64).contains(&a) => Ok(a.rem_euclid(n as i64) as usize),
            _ => Err(Miss::unsupported(format!("axes {value}"))),
        })
        .collect()
}
