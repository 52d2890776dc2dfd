//! Spatial transforms that sample anew: affine transforms, rotations, zooms, resizing, deformations.

use hearth::data::Affine as Matrix;
use hearth::data::transforms::{Affine, AffineGrid, Rotate};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::{Value, json};

use super::device::device;
use super::transforms_spatial::{finish, input, only_call, typed};

/// Replays one of them; `None` where it is another operation.
pub fn replay(case: &Case) -> Option<Outcome> {
    Some(match case.op.as_str() {
        "Affine" => affine_transform(case),
        "AffineGrid" => affine_grid(case),
        "Rotate" => rotate(case),
        _ => return None,
    })
}

/// The parameters without those that say where and in which type MONAI computes, and what it returns.
fn parameters(case: &Case) -> Value {
    let mut params = case.params.clone();
    if let Some(params) = params.as_object_mut() {
        for name in ["dtype", "device", "image_only", "lazy"] {
            params.remove(name);
        }
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
fn square(matrix: &Matrix, n: usize) -> Vec<f64> {
    let axes = || (0..n - 1).chain([3]);
    axes().flat_map(|r| axes().map(move |c| matrix[r][c])).collect()
}

fn affine_grid(case: &Case) -> Outcome {
    only_call(case, &["spatial_size"])?;
    let mut params = parameters(case);
    if let Some(params) = params.as_object_mut() {
        params.retain(|_, value| !value.is_null());
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
    only_call(case, &[])?;
    let transform: Rotate = typed(case, parameters(case))?;
    finish(case, transform.rotate(input(case)?, 0)?, |_, _| ())
}
