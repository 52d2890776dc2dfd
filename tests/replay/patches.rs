//! Grids of patches: positions, slices, values.

use hearth::data::affine;
use hearth::data::patches::{Overlap, PatchGrid, iter_patch, iter_patch_position, iter_patch_slices};
use hearth::data::spatial::PadMode;
use hearth_tests::golden::{Case, Miss, Outcome};
use serde_json::Value;

use super::transforms_spatial::image;

/// Replays one function of MONAI's `iter_patch` family.
pub fn replay(case: &Case) -> Outcome {
    match case.op.as_str() {
        "iter_patch_position" => {
            case.only_params(&["image_size", "patch_size", "start_pos", "overlap", "padded"])?;
            let size: Vec<usize> = serde_json::from_value(case.params["image_size"].clone())?;
            let found = iter_patch_position(&size, &grid(case, false)?)?;
            let expected: Vec<Vec<i64>> = serde_json::from_value(case.record["expected"]["positions"].clone())?;
            let mut check = case.check();
            check.equal("positions", &expected, &found.iter().collect());
            check.outcome()
        }
        "iter_patch_slices" => {
            case.only_params(&["image_size", "patch_size", "start_pos", "overlap", "padded"])?;
            let size: Vec<usize> = serde_json::from_value(case.params["image_size"].clone())?;
            let found = iter_patch_slices(&size, &grid(case, true)?)?;
            let found: Vec<Vec<[i64; 2]>> =
                found.map(|slices| slices.iter().map(|s| [s.start, s.end]).collect()).collect();
            let expected: Vec<Vec<[i64; 2]>> = serde_json::from_value(case.record["expected"]["slices"].clone())?;
            let mut check = case.check();
            check.equal("slices", &expected, &found);
            check.outcome()
        }
        "iter_patch" => patches(case),
        other => Err(Miss::unsupported(format!("op {other}"))),
    }
}

fn patches(case: &Case) -> Outcome {
    case.only_params(&["patch_size", "start_pos", "overlap", "mode", "value", "constant_values", "copy_back"])?;
    let image = image(case.array("in.image")?, affine::IDENTITY)?;
    let n = image.meta.spatial_dims;
    let found = iter_patch(&image, &grid(case, false)?, padding(case)?)?;
    let (mut values, mut coords, mut shape) = (Vec::new(), Vec::new(), vec![found.len()]);
    for patch in found.iter() {
        let patch = patch?;
        shape.truncate(1);
        shape.extend(&patch.image.data.dims()[..=n]);
        values.extend(patch.image.to_vec());
        coords.extend(patch.coords.iter().flat_map(|range| [range.start as f64, range.end as f64]));
    }
    let mut check = case.check();
    check.close_f32("out.patches", &shape, &values);
    check.close("out.coords", &[found.len(), n + 1, 2], &coords);
    check.outcome()
}

/// The padding: mode and constant.
pub fn padding(case: &Case) -> Result<Option<(PadMode, f32)>, Miss> {
    let mode = match &case.params["mode"] {
        // An explicit `null` means no padding; an absent mode means `wrap`.
        Value::Null if case.params.get("mode").is_some() => None,
        Value::Null => Some(PadMode::Wrap),
        Value::String(name) if name.is_empty() => None,
        name => Some(serde_json::from_value(name.clone()).map_err(|e| Miss::unsupported(e.to_string()))?),
    };
    let value = ["value", "constant_values"].iter().find_map(|k| case.params[*k].as_f64()).unwrap_or(0.0) as f32;
    Ok(mode.map(|mode| (mode, value)))
}

/// The grid that a case's parameters describe.
pub fn grid(case: &Case, padded: bool) -> Result<PatchGrid, Miss> {
    let list = |name: &str| match &case.params[name] {
        Value::Null => Vec::new(),
        Value::Array(entries) => entries.clone(),
        one => vec![one.clone()],
    };
    let number = |value: &Value| match value {
        Value::Null => Ok(0),
        value => value.as_i64().ok_or_else(|| Miss::unsupported(format!("{value} as a number of voxels"))),
    };
    let patch_size =
        list("patch_size").iter().map(|p| number(p).map(|p| p.max(0) as usize)).collect::<Result<_, _>>()?;
    let start_pos = list("start_pos").iter().map(number).collect::<Result<_, _>>()?;
    let overlap = match &case.params["overlap"] {
        Value::Null => Overlap::default(),
        given => serde_json::from_value(given.clone()).map_err(|e| Miss::unsupported(e.to_string()))?,
    };
    let padded = case.params["padded"].as_bool().unwrap_or(padded);
    Ok(PatchGrid { patch_size, start_pos, overlap, padded })
}
