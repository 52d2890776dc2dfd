//! Resampling onto other grids, and chains of transforms, eager and lazy.

use hearth::data::spatial::{Lazy, LazySampling};
use hearth::data::transforms::{Resample, ResampleToMatch, Spacing, SpatialResample};
use hearth::data::{DrawKey, Image, Pipeline, Sample};
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::{Value, json};

use super::device::device;
use super::transforms_spatial::{close_affine, finish, input, only_call, shape, typed};

/// Replays one of them; `None` for another operation.
pub fn replay(case: &Case) -> Option<Outcome> {
    Some(match case.op.as_str() {
        "Spacing" => spacing(case),
        "SpatialResample" => spatial_resample(case),
        "ResampleToMatch" => resample_to_match(case),
        "Resample" => resample(case),
        "Compose" => compose(case),
        _ => return None,
    })
}

/// The parameters, those of the call first, without MONAI's device and type.
fn parameters(case: &Case, of_call: &[&str]) -> Value {
    let mut params = case.params.clone();
    for (name, value) in case.call.as_object().into_iter().flatten() {
        if of_call.contains(&name.as_str()) && !value.is_null() {
            params[name] = value.clone();
        }
    }
    if let Some(params) = params.as_object_mut() {
        for name in ["device", "lazy"] {
            params.remove(name);
        }
    }
    params
}

/// The arguments for the sampling of an image, and others.
fn sampling_and(others: &[&'static str]) -> Vec<&'static str> {
    ["mode", "padding_mode", "align_corners", "dtype"].iter().chain(others).copied().collect()
}

fn spacing(case: &Case) -> Outcome {
    only_call(case, &sampling_and(&["output_spatial_shape", "scale_extent"]))?;
    let given = match &case.call["output_spatial_shape"] {
        Value::Null => None,
        given => {
            let given: Vec<usize> = serde_json::from_value(given.clone())?;
            Some(std::array::from_fn(|a| given.get(a).copied().unwrap_or(1)))
        }
    };
    let transform: Spacing = typed(case, parameters(case, &sampling_and(&["scale_extent"])))?;
    finish(case, transform.resample(input(case)?, 0, given)?, |_, _| ())
}

fn spatial_resample(case: &Case) -> Outcome {
    only_call(case, &sampling_and(&["spatial_size"]))?;
    let transform: SpatialResample = typed(case, parameters(case, &sampling_and(&["spatial_size"])))?;
    let destination = case.find("in.dst_affine").map(|array| array.matrix4()).transpose()?;
    finish(case, transform.resample(input(case)?, destination.as_ref(), 0)?, |_, _| ())
}

fn resample_to_match(case: &Case) -> Outcome {
    only_call(case, &sampling_and(&["dst_shape"]))?;
    let mut params = parameters(case, &sampling_and(&[]));
    params["key_dst"] = json!("other");
    let transform: ResampleToMatch = typed(case, params)?;
    let other: Vec<usize> = serde_json::from_value(case.call["dst_shape"].clone())?;
    let size = std::array::from_fn(|a| other.get(a + 1).copied().unwrap_or(1));
    let destination = case.array("in.dst_affine")?.matrix4()?;
    finish(case, transform.resample(input(case)?, &destination, size, 0)?, |_, _| ())
}

fn resample(case: &Case) -> Outcome {
    only_call(case, &sampling_and(&[]))?;
    let mut params = parameters(case, &sampling_and(&[]));
    params["grid_key"] = json!("grid");
    let transform: Resample = typed(case, params)?;
    let array = case.array("in.grid")?;
    let size: [usize; 4] = std::array::from_fn(|a| array.shape.get(a).copied().unwrap_or(1));
    let grid = Image::from_values(array.f32(), size, hearth::data::affine::IDENTITY, &device());
    finish(case, transform.sample(input(case)?, grid.data, 0)?, |_, _| ())
}

/// The eager result, the lazy one where it is the same, and MONAI's lazy result.
fn compose(case: &Case) -> Outcome {
    case.only_params(&["transforms"])?;
    only_call(case, &[])?;
    let mut check = case.check();
    for (lazy, values, matrix) in [
        (Lazy::Off, "out.image", "out.affine"),
        (Lazy::Exact, "out.image", "out.affine"),
        (Lazy::On, "out.lazy_image", "out.lazy_affine"),
    ] {
        // MONAI's lazy evaluation ignores how a step samples.
        let sampling = LazySampling::default();
        let pipeline = pipeline(case)?.lazy(lazy).lazy_sampling("image", sampling);
        let sample = Sample::new("case").with_image("image", input(case)?);
        let done = pipeline.run(sample, DrawKey::new(0, 0, 0)).map_err(Miss::failed)?;
        let [sample] = &done[..] else { return Err(Miss::failed(format!("{} samples", done.len()))) };
        let image = sample.image("image")?;
        check.close_f32(values, &shape(image), &image.to_vec());
        close_affine(&mut check, case, matrix, image);
    }
    check.outcome()
}

/// A slice for TOML, which has no null: an open start is 0, an open end is omitted.
fn without_nulls(slice: &mut Value) {
    let ends =
        slice.as_array().map_or([None, None], |ends| [ends.first(), ends.get(1)].map(|v| v.and_then(Value::as_i64)));
    *slice = match ends {
        [start, Some(end)] => json!([start.unwrap_or(0), end]),
        [Some(start), None] => json!([start]),
        [None, None] => json!([]),
    };
}

fn pipeline(case: &Case) -> Result<Pipeline, Miss> {
    let mut tables = Vec::new();
    for step in case.params["transforms"].as_array().into_iter().flatten() {
        let mut table = super::crops::in_recipe_words(step["params"].clone())?;
        if let Some(slices) = table.get_mut("roi_slices").and_then(Value::as_array_mut) {
            slices.iter_mut().for_each(without_nulls);
        }
        let Some(params) = table.as_object_mut() else { return Err(Miss::failed("a step without parameters")) };
        // The type and device of MONAI's computation; other parameters are supported or refused.
        params.retain(|name, value| {
            !value.is_null() && !["dtype", "device", "lazy", "image_only"].contains(&name.as_str())
        });
        params.insert("name".to_owned(), step["op"].clone());
        params.insert("keys".to_owned(), json!(["image"]));
        if step["op"] == "CropForeground" {
            params.insert("source_key".to_owned(), json!("image"));
        }
        tables.push(table);
    }
    let text = toml::to_string(&json!({ "transforms": tables })).map_err(Miss::failed)?;
    Pipeline::from_toml(&text).map_err(|e| Miss::unsupported(e.to_string()))
}
