//! Spatial transforms that resample: affine transforms, rotations, zooms, resizing, deformations.

use hearth::data::spatial::AffineParameters;
use hearth::data::transforms::{
    Affine, AffineGrid, Elastic2D, Elastic3D, GridDistortion, Rand2DElastic, Rand3DElastic, Resize, Rotate, Zoom,
};
use hearth::data::{Affine as Matrix, Image};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::{Value, json};

use super::device::device;
use super::transforms_spatial::{finish, image, input, only_call, shape, typed};

/// Replays one of them; `None` for another operation.
pub fn replay(case: &Case) -> Option<Outcome> {
    Some(match case.op.as_str() {
        "Affine" => affine_transform(case),
        "AffineGrid" => affine_grid(case),
        "GridDistortion" => grid_distortion(case),
        "Rand2DElastic" => elastic_2d(case),
        "Rand3DElastic" => elastic_3d(case),
        "Resize" => resize(case),
        "Rotate" => rotate(case),
        "Zoom" => zoom(case),
        _ => return None,
    })
}

/// The parameters without those for MONAI's device, type and return values.
fn parameters(case: &Case) -> Value {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        for name in ["dtype", "device", "image_only", "lazy"] {
            params.remove(name);
        }
    }
    params
}

/// The same with the arguments of the call, which take precedence.
fn with_call(case: &Case) -> Value {
    let mut params = parameters(case);
    let arguments = case.call.as_object().into_iter().flatten();
    for (name, value) in arguments.filter(|(name, value)| *name != "dtype" && !value.is_null()) {
        params[name] = value.clone();
    }
    params
}

fn affine_transform(case: &Case) -> Outcome {
    only_call(case, &["mode", "padding_mode", "spatial_size"])?;
    let mut params = parameters(case);
    let arguments = case.call.as_object().into_iter().flatten();
    for (name, value) in arguments {
        params[name] = value.clone();
    }
    if let Some(matrix) = case.find("in.matrix") {
        let rows: Vec<&[f64]> = matrix.values.chunks(matrix.shape[1]).collect();
        params["affine"] = json!(rows);
    }
    let transform: Affine = typed(case, params)?;
    let image = input(case)?;
    let matrix = *transform.warp(&image)?.matrix();
    finish(case, transform.transform(image, 0)?, |_, check| {
        if let Some(expected) = case.find("out.matrix") {
            let n = expected.shape[0];
            check.close("out.matrix", &[n, n], &square(&matrix, n));
        }
    })
}

/// The matrix as MONAI keeps it, with `n` rows.
pub fn square(matrix: &Matrix, n: usize) -> Vec<f64> {
    let axes = || (0..n - 1).chain([3]);
    axes().flat_map(|r| axes().map(move |c| matrix[r][c])).collect()
}

fn affine_grid(case: &Case) -> Outcome {
    only_call(case, &["spatial_size"])?;
    let mut params = parameters(case);
    if let Some(params) = params.as_object_mut() {
        params.retain(|_, value| !value.is_null());
    }
    if let Some(matrix) = case.find("in.matrix") {
        params["affine"] = json!(matrix.values.chunks(matrix.shape[1]).collect::<Vec<_>>());
    }
    let grid: AffineGrid = serde_json::from_value(params).map_err(|e| Miss::unsupported(e.to_string()))?;
    let size: Vec<usize> = serde_json::from_value(case.call["spatial_size"].clone())?;
    let (places, matrix) = grid.grid(&size, &device())?;
    let mut check = case.check();
    let shape: Vec<usize> = [size.len() + 1].into_iter().chain(size.iter().copied()).collect();
    check.close_f32("out.grid", &shape, &places.try_into_vec_as::<f32>().map_err(|e| Miss::failed(format!("{e:?}")))?);
    check.close("out.matrix", &[size.len() + 1; 2], &square(&matrix, size.len() + 1));
    check.outcome()
}

fn rotate(case: &Case) -> Outcome {
    let transform: Rotate = typed(case, with_call(case))?;
    finish(case, transform.rotate(input(case)?, 0)?, |_, _| ())
}

fn resize(case: &Case) -> Outcome {
    let mut params = with_call(case);
    if let Some(sigma) = params.get_mut("anti_aliasing_sigma").filter(|sigma| sigma.is_array()) {
        // One image: a list is one number per axis, not per key.
        *sigma = json!([sigma.clone()]);
    }
    let transform: Resize = typed(case, params)?;
    finish(case, transform.resize(input(case)?, 0)?, |_, _| ())
}

fn zoom(case: &Case) -> Outcome {
    let transform: Zoom = typed(case, with_call(case))?;
    finish(case, transform.zoom(input(case)?, 0)?, |_, _| ())
}

fn grid_distortion(case: &Case) -> Outcome {
    let transform: GridDistortion = typed(case, with_call(case))?;
    finish(case, transform.distort(input(case)?, 0)?, |_, _| ())
}

/// The affine part of a fixed draw.
fn drawn(case: &Case) -> Result<AffineParameters, Miss> {
    let list = |name: &str| match &case.call[name] {
        Value::Null => Ok(Vec::new()),
        one if one.is_number() => serde_json::from_value(json!([one])),
        many => serde_json::from_value(many.clone()),
    };
    Ok(AffineParameters {
        rotate: list("rotate")?,
        shear: list("shear")?,
        translate: list("translate")?,
        scale: list("scale")?,
        ..AffineParameters::default()
    })
}

fn number(case: &Case, name: &str) -> Result<f64, Miss> {
    case.call[name].as_f64().ok_or_else(|| Miss::unsupported(format!("{} without {name}", case.op)))
}

/// Elastic cases have no affine: MONAI does not change it.
fn deformed(case: &Case, image: &Image) -> Outcome {
    let mut check = case.check();
    check.close_f32("out.image", &shape(image), &image.to_vec());
    check.outcome()
}

fn elastic_2d(case: &Case) -> Outcome {
    only_call(case, &["magnitude", "rotate", "shear", "translate", "scale"])?;
    let transform: Rand2DElastic = typed(case, parameters(case))?;
    let offset = case.array("in.random_offset")?.f32();
    let draw = Elastic2D { offset, magnitude: number(case, "magnitude")?, affine: drawn(case)? };
    deformed(case, &transform.deform(input(case)?, &draw, 0)?)
}

fn elastic_3d(case: &Case) -> Outcome {
    only_call(case, &["magnitude", "sigma", "rotate", "shear", "translate", "scale"])?;
    let transform: Rand3DElastic = typed(case, parameters(case))?;
    let offset = image(case.array("in.rand_offset")?, hearth::data::affine::IDENTITY)?.data;
    let (magnitude, sigma) = (number(case, "magnitude")?, number(case, "sigma")?);
    let draw = Elastic3D { offset, magnitude, sigma, affine: drawn(case)? };
    deformed(case, &transform.deform(input(case)?, &draw, 0)?)
}
