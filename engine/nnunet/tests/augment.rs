//! Compares with the results of nnU-Net's loaders and transforms for given random numbers:
//! `tests/golden/nnunet/training`, or `HEARTH_GOLDEN/nnunet/training`.

use std::path::{Path, PathBuf};

use hearth_nnunet::augment::{intensity, patch, spatial};
use hearth_nnunet::{Axes3, Volume};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::env::var_os("HEARTH_GOLDEN").map_or(own, PathBuf::from).join("nnunet/training")
}

fn recorded() -> Value {
    serde_json::from_slice(&std::fs::read(root().join("training.json")).expect("a list")).expect("JSON")
}

fn list<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Reads `[channel, (z,) y, x]` as a volume.
fn volume(tensors: &SafeTensors<'_>, name: &str) -> Volume {
    let view = tensors.tensor(name).expect("an array");
    let values = match view.dtype() {
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::I16 => view.data().as_chunks::<2>().0.iter().map(|b| f32::from(i16::from_le_bytes(*b))).collect(),
        other => panic!("{name} is {other:?}"),
    };
    let shape = match *view.shape() {
        [_, y, x] => [1, y, x],
        [_, z, y, x] => [z, y, x],
        ref other => panic!("{name} has {other:?}"),
    };
    Volume::new(view.shape()[0], shape, values).expect("whole")
}

fn largest_difference(found: &Volume, expected: &Volume) -> f32 {
    assert_eq!((found.channels, found.shape), (expected.channels, expected.shape));
    found.data.iter().zip(&expected.data).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max)
}

#[test]
fn patches_and_where_they_are_cut_are_those_of_nnunet() {
    let recorded = recorded();
    for case in recorded["patch_geometry"].as_array().expect("cases") {
        let size: Vec<usize> = list(&case["patch_size"]);
        let turning = patch::turning(&size);
        let range: [f64; 2] = list(&case["rotation_radians"]);
        assert!((turning.limit - range[1]).abs() < 1e-12, "{size:?}: {turning:?}");
        assert_eq!(turning.in_plane, size.len() == 2 || case["dummy_2d"] == true, "{size:?}");
        let expected: Vec<usize> = list(&case["initial_patch_size"]);
        assert_eq!(patch::initial(&size, turning)[3 - size.len()..], expected, "{size:?}");
    }
    for case in recorded["boxes"].as_array().expect("cases") {
        let [size, initial, last, voxel]: [[usize; 3]; 4] =
            ["data_shape", "patch_size", "final_patch_size", "voxel"].map(|key| list(&case[key]));
        for axis in 0..3 {
            let range = patch::starts(size[axis], initial[axis], last[axis]);
            let expected = ["random_start_from", "random_start_to_inclusive"].map(|key| case[key][axis].as_i64());
            assert_eq!(range.map(Some), expected, "{case}, axis {axis}");
            let start = patch::start_around(voxel[axis], initial[axis], range[0]);
            assert_eq!(Some(start), case["start"][axis].as_i64(), "{case}, axis {axis}");
        }
    }
}

/// Applies one transform of the list to its arrays, and returns the differences.
fn replay(case: &Value, tensors: &SafeTensors<'_>) -> (f32, usize) {
    let numbers = |key: &str| -> Vec<f64> { list(&case[key]) };
    let (mut image, expected) = (volume(tensors, "in.image"), volume(tensors, "out.image"));
    let (shape, voxels) = (image.shape, image.voxels());
    let channels = |image: &mut Volume, change: &dyn Fn(usize, &mut [f32])| {
        let chosen: Option<Vec<usize>> = serde_json::from_value(case["channels"].clone()).ok();
        let chosen = chosen.unwrap_or_else(|| (0..image.channels).collect());
        for (place, channel) in chosen.into_iter().enumerate() {
            change(place, &mut image.data[channel * voxels..][..voxels]);
        }
    };
    match case["op"].as_str().expect("a name") {
        "SpatialTransform" => {
            let labels = volume(tensors, "in.seg");
            let size: Axes3 = match list::<Vec<usize>>(&case["patch_size"])[..] {
                [y, x] => [shape[0], y, x],
                ref all => patch::three(all),
            };
            let flat = case["dim"] == 2;
            let angles: Option<Vec<f64>> = list(&case["angles"]);
            let (image, labels) = if angles.is_none() && case["scale"].is_null() {
                (spatial::middle(&image, size), spatial::middle(&labels, size))
            } else {
                let mut all = [0.0; 3];
                let angles = angles.unwrap_or_else(|| vec![0.0; 3]);
                all[3 - angles.len()..].copy_from_slice(&angles);
                let matrix = spatial::matrix(all, case["scale"].as_f64().unwrap_or(1.0), flat);
                let (n, expected) = (3 - usize::from(flat), tensors.tensor("out.affine").expect("a matrix"));
                let expected = expected.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
                for (at, value) in expected.enumerate() {
                    let found = matrix[3 - n + at / n][3 - n + at % n];
                    assert!((found - value).abs() < 1e-12, "{case}: {found}, expected {value}");
                }
                (spatial::image(&image, size, matrix), spatial::labels(&labels, size, matrix))
            };
            let other = labels.data.iter().zip(volume(tensors, "out.seg").data).filter(|(a, b)| *a != b).count();
            return (largest_difference(&image, &expected), other);
        }
        "GaussianBlurTransform" => {
            let sigmas: Vec<[f64; 3]> = list(&case["sigmas"]);
            channels(&mut image, &|at, values| intensity::blur(values, shape, sigmas[at].map(Some)));
        }
        "MultiplicativeBrightnessTransform" => {
            channels(&mut image, &|at, values| intensity::brightness(values, numbers("multipliers")[at]));
        }
        "ContrastTransform" => {
            channels(&mut image, &|at, values| intensity::contrast(values, numbers("multipliers")[at]));
        }
        "SimulateLowResolutionTransform" => channels(&mut image, &|at, values| {
            let scale = &case["scales"][at];
            let scale = scale.as_f64().map_or_else(|| list(scale), |scale| [scale; 3]);
            intensity::low_resolution(values, shape, scale);
        }),
        "GammaTransform" => {
            let invert = case["invert"] == true;
            channels(&mut image, &|at, values| intensity::gamma(values, numbers("gamma")[at], invert));
        }
        other => panic!("{other} is unknown"),
    }
    (largest_difference(&image, &expected), 0)
}

#[test]
fn transforms_are_those_of_nnunet() {
    let (mut failed, mut passed) = (Vec::new(), 0);
    for case in recorded()["transforms"].as_array().expect("cases") {
        if let Some(table) = case["table"].as_array() {
            for row in table {
                let (sigma, size) = (row[0].as_f64().expect("a number"), row[1].as_u64().expect("a number"));
                assert_eq!(intensity::kernel_size(sigma) as u64, size, "sigma {sigma}");
            }
            continue;
        }
        let file = case["file"].as_str().expect("a name");
        let Ok(bytes) = std::fs::read(root().join(file)) else { continue };
        if case["op"] == "DownsampleSegForDSTransform" {
            continue;
        }
        let (error, labels) = replay(case, &SafeTensors::deserialize(&bytes).expect("whole"));
        if error > 2e-5 || labels > 3 {
            failed.push(format!("{file}: {error}, {labels} labels"));
        } else {
            passed += 1;
        }
    }
    assert!(failed.is_empty() && passed >= 8, "{passed} passed, these not:\n  {}", failed.join("\n  "));
}
