//! Crops, pads, axes and grids: transforms that move voxels without changing them.

use hearth::data::spatial::BoundingBox;
use hearth::data::transforms::{
    BorderPad, BoundingRect, CenterScaleCrop, CenterSpatialCrop, ClassesToIndices, CropForeground, DivisiblePad, Flip,
    GridPatch, GridSplit, Pad, RandCropByLabelClasses, RandCropByPosNegLabel, ResizeWithPadOrCrop, Rotate90,
    SpatialCrop, SpatialPad, class_indices, class_ratios, corrected_center, foreground_and_background,
    foreground_ratio, unravel,
};
use hearth::data::{Image, TransformError, affine};
use hearth_tests::golden::{Case, Check, Miss, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::transforms_spatial::{finish, image, input, shape, typed};

/// Replays one of them; `None` for another operation.
pub fn replay(case: &Case) -> Option<Outcome> {
    Some(match case.op.as_str() {
        "BorderPad" => one_image(case, |t: &BorderPad, image| t.pad(image, 0)),
        "CenterScaleCrop" => one_image(case, |t: &CenterScaleCrop, image| t.crop(image, 0)),
        "CenterSpatialCrop" => one_image(case, |t: &CenterSpatialCrop, image| t.crop(image, 0)),
        "DivisiblePad" => one_image(case, |t: &DivisiblePad, image| t.pad(image, 0)),
        "Flip" => one_image(case, |t: &Flip, image| t.flip(image, 0)),
        "Pad" => one_image(case, |t: &Pad, image| t.pad(image, 0)),
        "ResizeWithPadOrCrop" => one_image(case, |t: &ResizeWithPadOrCrop, image| t.resize(image, 0)),
        "Rotate90" => one_image(case, |t: &Rotate90, image| t.rotate(image, 0)),
        "SpatialCrop" => one_image(case, SpatialCrop::crop),
        "SpatialPad" => one_image(case, |t: &SpatialPad, image| t.pad(image, 0)),
        "CropForeground" => crop_foreground(case),
        "BoundingRect" => bounding_rect(case),
        "GridPatch" => grid_patch(case),
        "GridSplit" => grid_split(case),
        "RandCropByPosNegLabel" => pos_neg(case),
        "RandCropByLabelClasses" => label_classes(case),
        "FgBgToIndices" => foreground_lists(case),
        "ClassesToIndices" => class_lists(case),
        _ => return None,
    })
}

/// A transform that changes one image.
fn one_image<T: DeserializeOwned>(case: &Case, apply: impl Fn(&T, Image) -> Result<Image, TransformError>) -> Outcome {
    let transform: T = typed(case, parameters(case)?)?;
    finish(case, apply(&transform, input(case)?)?, |_, _| ())
}

/// The recorded parameters as in a recipe.
fn parameters(case: &Case) -> Result<Value, Miss> {
    let mut params = case.params.clone();
    for (name, value) in case.call.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        params[name] = value.clone();
    }
    in_recipe_words(params)
}

/// Slices, comparisons and parameters without effect.
pub fn in_recipe_words(mut params: Value) -> Result<Value, Miss> {
    if let Some(params) = params.as_object_mut() {
        if let Some(slices) = params.get_mut("roi_slices") {
            *slices = slices["$slices"].take();
        }
        if let Some(select) = params.get_mut("select_fn") {
            *select = comparison(select)?;
        }
        // Lazy or not, MONAI's result is the same.
        params.remove("lazy");
    }
    Ok(params)
}

/// `{"$gt": t}` as `"> t"`.
fn comparison(select: &Value) -> Result<Value, Miss> {
    let signs = [("$gt", ">"), ("$ge", ">="), ("$lt", "<"), ("$le", "<="), ("$eq", "=="), ("$ne", "!=")];
    let found = signs.iter().find_map(|(name, sign)| Some(json!(format!("{sign} {}", select[*name].as_f64()?))));
    found.ok_or_else(|| Miss::unsupported(format!("select_fn {select}")))
}

fn crop_foreground(case: &Case) -> Outcome {
    let mut params = parameters(case)?;
    if let Some(params) = params.as_object_mut() {
        params.remove("return_coords");
        params.insert("source_key".to_owned(), json!("image"));
    }
    let transform: CropForeground = typed(case, params)?;
    let image = input(case)?;
    let n = image.meta.spatial_dims;
    let region: BoundingBox = transform.bounding_box(&image)?;
    finish(case, transform.crop(image, region, 0)?, |_, check| {
        for (name, corner) in [("out.box_start", region.start), ("out.box_end", region.end)] {
            if case.find(name).is_some() {
                let values: Vec<f64> = corner[..n].iter().map(|v| *v as f64).collect();
                check.close_at(name, &[n], &values, 0.0, 0.0, 0);
            }
        }
    })
}

fn bounding_rect(case: &Case) -> Outcome {
    let boxes = typed::<BoundingRect>(case, parameters(case)?)?.boxes(&input(case)?)?;
    let width = boxes.first().map_or(0, Vec::len);
    let values: Vec<f64> = boxes.iter().flatten().map(|v| *v as f64).collect();
    let mut check = case.check();
    check.close("out.boxes", &[boxes.len(), width], &values);
    check.outcome()
}

fn grid_patch(case: &Case) -> Outcome {
    let mut params = parameters(case)?;
    if let Some(Value::Array(patch)) = params.get_mut("patch_size") {
        patch.iter_mut().filter(|p| p.is_null()).for_each(|p| *p = json!(0));
    }
    let image = input(case)?;
    let found = typed::<GridPatch>(case, params)?.patches(&image)?;
    let n = image.meta.spatial_dims;
    let mut check = case.check();
    // Without patches only their number is recorded.
    if !found.is_empty() {
        check_stack(&mut check, &found.iter().map(|(image, _)| image).collect::<Vec<_>>());
    }
    if case.find("out.location").is_some() {
        // Axes first, then patches.
        let values: Vec<f64> = (0..n).flat_map(|axis| found.iter().map(move |(_, place)| place[axis] as f64)).collect();
        check.close("out.location", &[n, found.len()], &values);
    }
    if let Some(count) = case.record["expected"]["count"].as_u64() {
        check.equal("count", &(count as usize), &found.len());
    }
    check.outcome()
}

fn grid_split(case: &Case) -> Outcome {
    let parts = typed::<GridSplit>(case, parameters(case)?)?.split(&input(case)?, "image")?;
    let mut check = case.check();
    check_stack(&mut check, &parts.iter().collect::<Vec<_>>());
    check.outcome()
}

/// Images of one size, compared as one array.
fn check_stack(check: &mut Check<'_>, images: &[&Image]) {
    let mut dims = vec![images.len()];
    dims.extend(images.first().map(|image| shape(image)).unwrap_or_default());
    let values: Vec<f32> = images.iter().flat_map(|image| image.to_vec()).collect();
    check.close_f32("out.patches", &dims, &values);
}

/// Label, and the image that decides which voxels count, with its threshold.
fn label_and_image(case: &Case) -> Result<(Image, Option<Image>, f64), Miss> {
    let label = image(case.array("in.label")?, affine::IDENTITY)?;
    let bright = case.find("in.image").map(|array| image(array, affine::IDENTITY)).transpose()?;
    Ok((label, bright, case.params["image_threshold"].as_f64().unwrap_or(0.0)))
}

fn check_list(check: &mut Check<'_>, name: &str, list: &[u64]) {
    let values: Vec<f64> = list.iter().map(|v| *v as f64).collect();
    check.close(name, &[list.len()], &values);
}

/// The centre for each voxel of a list.
fn check_centers(check: &mut Check<'_>, name: &str, list: &[u64], shape: [usize; 3], size: [usize; 3], n: usize) {
    let center = |flat: &u64| {
        let flat = *flat as usize;
        let at = [flat / (shape[1] * shape[2]), flat / shape[2] % shape[1], flat % shape[2]];
        (0..n).map(move |a| corrected_center(at[a], size[a], shape[a]) as f64).collect::<Vec<_>>()
    };
    let centers: Vec<f64> = list.iter().flat_map(center).collect();
    check.close(name, &[list.len(), n], &centers);
}

fn pos_neg(case: &Case) -> Outcome {
    let mut params = parameters(case)?;
    if let Some(params) = params.as_object_mut() {
        params.insert("label_key".to_owned(), json!("image"));
    }
    let transform: RandCropByPosNegLabel = typed(case, params)?;
    let (label, bright, threshold) = label_and_image(case)?;
    let (foreground, background) = foreground_and_background(&label, bright.as_ref(), threshold, None)?;
    let (shape, n) = (label.shape(), label.meta.spatial_dims);
    let size = transform.box_size(shape, n)?;
    let mut check = case.check();
    for (name, list) in [("fg", &foreground), ("bg", &background)] {
        check_list(&mut check, &format!("out.{name}_indices"), list);
        check_centers(&mut check, &format!("out.{name}_centers"), list, shape, size, n);
    }
    let number = |name: &str| case.params[name].as_f64().unwrap_or(1.0);
    let ratio = foreground_ratio(number("pos"), number("neg"), foreground.len(), background.len())?;
    if let Some(expected) = case.record["expected"]["effective_pos_ratio"].as_f64()
        && (ratio - expected).abs() > 1e-12
    {
        check.problem(format!("effective ratio {ratio}, expected {expected}"));
    }
    check.outcome()
}

fn label_classes(case: &Case) -> Outcome {
    let mut params = parameters(case)?;
    if let Some(params) = params.as_object_mut() {
        params.insert("label_key".to_owned(), json!("image"));
    }
    let transform: RandCropByLabelClasses = typed(case, params)?;
    let (label, bright, threshold) = label_and_image(case)?;
    let lists = classes(case, &label, bright.as_ref(), threshold)?;
    let (shape, n) = (label.shape(), label.meta.spatial_dims);
    let size = transform.box_size(shape, n)?;
    let mut check = case.check();
    for (class, list) in lists.iter().enumerate() {
        check_list(&mut check, &format!("out.indices.{class}"), list);
        check_centers(&mut check, &format!("out.centers.{class}"), list, shape, size, n);
    }
    let ratios: Option<Vec<f64>> = serde_json::from_value(case.params["ratios"].clone())?;
    let voxels: Vec<usize> = lists.iter().map(Vec::len).collect();
    if let Some(expected) = case.record["expected"].get("effective_ratios") {
        let expected: Vec<f64> = serde_json::from_value(expected.clone())?;
        check.equal("effective ratios", &expected, &class_ratios(ratios.as_deref(), &voxels)?);
    }
    check.outcome()
}

fn classes(case: &Case, label: &Image, bright: Option<&Image>, threshold: f64) -> Result<Vec<Vec<u64>>, Miss> {
    let number = |name: &str| case.params[name].as_u64().map(|n| n as usize);
    let image = bright.map(|image| (image, threshold));
    Ok(class_indices(label, number("num_classes"), image, number("max_samples_per_class"), None)?)
}

fn foreground_lists(case: &Case) -> Outcome {
    case.only_params(&["image_threshold", "output_shape"])?;
    let (label, bright, threshold) = label_and_image(case)?;
    let (foreground, background) = foreground_and_background(&label, bright.as_ref(), threshold, None)?;
    let mut check = case.check();
    for (name, list) in [("out.fg", foreground), ("out.bg", background)] {
        check_output(case, &mut check, name, &list)?;
    }
    check.outcome()
}

fn class_lists(case: &Case) -> Outcome {
    // The parameters must be those that a recipe may give.
    let _: ClassesToIndices = typed(case, parameters(case)?)?;
    let (label, bright, threshold) = label_and_image(case)?;
    let lists = classes(case, &label, bright.as_ref(), threshold)?;
    let mut check = case.check();
    for (class, list) in lists.iter().enumerate() {
        check_output(case, &mut check, &format!("out.class.{class}"), list)?;
    }
    check.outcome()
}

/// A list of indices, or with `output_shape` of coordinates.
fn check_output(case: &Case, check: &mut Check<'_>, name: &str, list: &[u64]) -> Outcome {
    let Some(shape) = serde_json::from_value::<Option<Vec<usize>>>(case.params["output_shape"].clone())? else {
        check_list(check, name, list);
        return Ok(());
    };
    let axes = unravel(list, &shape)?;
    let values: Vec<f64> = (0..list.len()).flat_map(|i| axes.iter().map(move |axis| axis[i] as f64)).collect();
    check.close(name, &[list.len(), shape.len()], &values);
    Ok(())
}
