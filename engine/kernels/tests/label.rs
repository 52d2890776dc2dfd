//! Compares labelling with scipy and scikit-image: recorded small cases (`label_scipy.json`,
//! written by `label_scipy.py`), and, if a Python has both, larger ones that are computed during
//! the test.

#[path = "../../../tests/clients.rs"]
mod clients;

use std::path::Path;

use hearth_kernels::label::{self, To};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    shape: Vec<usize>,
    values: Vec<u8>,
    spacing: Vec<f64>,
    by_connectivity: Vec<PerConnectivity>,
    distances: Option<Distances>,
}

#[derive(Deserialize)]
struct PerConnectivity {
    labels: Vec<u32>,
    by_value: Option<Vec<u32>>,
    eroded: Vec<u8>,
    eroded_within: Vec<u8>,
    dilated: Vec<u8>,
    dilated_from_edge: Vec<u8>,
    filled: Vec<u8>,
}

/// Omitted where scipy has no target voxel.
#[derive(Deserialize)]
struct Distances {
    set: Option<Vec<f64>>,
    unset: Option<Vec<f64>>,
    unset_unit: Option<Vec<f64>>,
}

fn bytes(mask: &[bool]) -> Vec<u8> {
    mask.iter().map(|v| u8::from(*v)).collect()
}

fn check(case: &Case) {
    let Case { shape, values, .. } = case;
    for (index, expected) in case.by_connectivity.iter().enumerate() {
        let connectivity = index + 1;
        let what = format!("{shape:?}, connectivity {connectivity}");
        let found = label::components(values, shape, connectivity).expect("a sound mask");
        assert_eq!(found.labels(), expected.labels, "components of {what}");
        assert_eq!(found.len(), expected.labels.iter().max().copied().unwrap_or(0) as usize);
        if let Some(by_value) = &expected.by_value {
            let found = label::components_by_value(values, shape, connectivity).expect("a sound mask");
            assert_eq!(&found.labels(), by_value, "components by value of {what}");
        }
        for (border, eroded, dilated) in
            [(false, &expected.eroded, &expected.dilated), (true, &expected.eroded_within, &expected.dilated_from_edge)]
        {
            let found = label::erode(values, shape, connectivity, border).expect("a sound mask");
            assert_eq!(&bytes(&found), eroded, "erosion of {what}, border {border}");
            let found = label::dilate(values, shape, connectivity, border).expect("a sound mask");
            assert_eq!(&bytes(&found), dilated, "dilation of {what}, border {border}");
        }
        let edge = label::surface(values, shape, connectivity).expect("a sound mask");
        let scipy = values.iter().zip(&expected.eroded).map(|(v, inner)| u8::from(*v != 0) ^ inner);
        assert_eq!(bytes(&edge), scipy.collect::<Vec<_>>(), "surface of {what}");
        let mut filled: Vec<u8> = values.iter().map(|v| u8::from(*v != 0)).collect();
        let before: usize = filled.iter().map(|v| usize::from(*v)).sum();
        let count = label::fill_holes(&mut filled, shape, connectivity, 1).expect("a sound mask");
        assert_eq!(filled, expected.filled, "filled holes of {what}");
        assert_eq!(before + count, filled.iter().map(|v| usize::from(*v)).sum::<usize>());
    }
    let Some(Distances { set, unset, unset_unit }) = &case.distances else { return };
    let unit = vec![1.0; shape.len()];
    for (expected, to, spacing) in
        [(set, To::Set, &case.spacing), (unset, To::Unset, &case.spacing), (unset_unit, To::Unset, &unit)]
    {
        let squared = label::squared_distances(values, shape, spacing, to).expect("a sound mask");
        let nearest = label::nearest(values, shape, spacing, to).expect("a sound mask");
        let Some(expected) = expected else {
            assert!(squared.iter().all(|d| *d == f64::INFINITY) && nearest.iter().all(Option::is_none));
            continue;
        };
        for (voxel, expected) in expected.iter().enumerate() {
            let found = squared[voxel].sqrt();
            let close = (found - expected).abs() <= 4.0 * f64::EPSILON * expected;
            assert!(close, "distance to {to:?} of voxel {voxel} of {shape:?}, {spacing:?}: {found} for {expected}");
            let at = nearest[voxel].expect("a nearest voxel") as usize;
            assert_eq!(values[at] != 0, to == To::Set, "the nearest voxel is one that counts");
            let between = distance(shape, spacing, voxel, at);
            assert!((between - expected).abs() <= 1e-12 * expected, "the nearest voxel is as far as the distance says");
        }
    }
}

fn distance(shape: &[usize], spacing: &[f64], mut a: usize, mut b: usize) -> f64 {
    let mut sum = 0.0;
    for (length, spacing) in shape.iter().zip(spacing).rev() {
        sum += ((a % length) as f64 - (b % length) as f64).powi(2) * spacing * spacing;
        (a, b) = (a / length, b / length);
    }
    sum.sqrt()
}

fn check_file(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).expect("a file of cases");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("cases");
    cases.iter().for_each(check);
    cases.len()
}

#[test]
fn recorded_cases_of_scipy() {
    let count = check_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/label_scipy.json"));
    assert!(count > 30);
}

#[test]
fn live_large_cases_of_scipy() {
    let Some(client) = clients::find(&["scipy", "skimage"], "recorded_cases_of_scipy") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    for (seed, scale) in [("1", "2"), ("2", "5")] {
        let out = dir.path().join("cases.json");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/label_scipy.py");
        let run = client.command().arg(script).arg(&out).args([seed, scale]).status().expect("a Python");
        assert!(run.success());
        println!("{} cases", check_file(&out));
    }
}

/// A mask and its shape.
fn mask() -> impl Strategy<Value = (Vec<usize>, Vec<bool>)> {
    (1..40_usize, 1..12_usize, 1..9_usize).prop_flat_map(|(x, y, z)| {
        (
            Just(vec![x, y, z]),
            (0.05..0.95).prop_flat_map(move |p| prop::collection::vec(prop::bool::weighted(p), x * y * z)),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_number_of_threads_changes_nothing((shape, mask) in mask(), connectivity in 1..4_usize) {
        let many = label::components(&mask, &shape, connectivity).expect("a sound mask");
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        let alone = one.install(|| label::components(&mask, &shape, connectivity)).expect("a sound mask");
        prop_assert_eq!(many.labels(), alone.labels());
        prop_assert_eq!(many.regions(), alone.regions());
    }

    #[test]
    fn regions_measure_their_labels((shape, mask) in mask(), connectivity in 1..4_usize) {
        let found = label::components(&mask, &shape, connectivity).expect("a sound mask");
        let labels = found.labels();
        for (index, region) in found.regions().iter().enumerate() {
            let voxels: Vec<usize> = (0..labels.len()).filter(|v| labels[*v] == index as u32 + 1).collect();
            prop_assert_eq!(voxels.len(), region.size);
            prop_assert_eq!(voxels[0], region.first);
            let place = |v: usize| [v / (shape[1] * shape[2]), v / shape[2] % shape[1], v % shape[2]];
            for axis in 0..3 {
                let along = || voxels.iter().map(|v| place(*v)[axis]);
                prop_assert_eq!(along().min(), Some(region.start[axis]));
                prop_assert_eq!(along().max(), Some(region.end[axis] - 1));
            }
        }
    }

    #[test]
    fn signed_distances_change_sign_at_the_border((shape, mask) in mask()) {
        let spacing = [1.5, 0.5, 2.0];
        let signed = label::signed_distances(&mask, &shape, &spacing).expect("a sound mask");
        for (value, set) in signed.iter().zip(&mask) {
            prop_assert_eq!(*value < 0.0, *set);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mask = [true; 6];
    let says = |result: Result<label::Components, label::LabelError>, words: &str| {
        let text = result.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(text.contains(words), "{text:?} holds {words:?}");
    };
    says(label::components(&mask, &[2, 2], 1), "6 values for a volume of shape [2, 2]");
    says(label::components(&mask, &[usize::MAX, 3], 1), "6 values");
    says(label::components(&mask, &[], 1), "0 axes");
    says(label::components(&mask, &[1, 1, 1, 2, 3], 1), "5 axes");
    says(label::components(&mask, &[2, 3], 3), "connectivity 3 for 2 axes; expected 1 to 2");
    says(label::components(&mask, &[2, 3], 0), "connectivity 0");
    for spacing in [&[1.0][..], &[1.0, 0.0], &[1.0, f64::NAN], &[-1.0, 1.0]] {
        assert!(matches!(label::distances(&mask, &[2, 3], spacing, To::Set), Err(label::LabelError::Spacing { .. })));
    }
    assert!(matches!(label::distances(&mask, &[1, 1, 2, 3], &[1.0; 4], To::Set), Err(label::LabelError::Rank { .. })));
}

#[test]
fn volumes_without_a_voxel_give_nothing() {
    for shape in [&[0][..], &[0, 4], &[4, 0], &[3, 0, 2], &[0, 0, 0]] {
        let mask: [bool; 0] = [];
        let rank = shape.len();
        assert!(label::components(&mask, shape, 1).expect("an empty volume").is_empty());
        assert!(label::components_by_value(&mask, shape, rank).expect("an empty volume").labels().is_empty());
        assert!(label::distances(&mask, shape, &vec![1.0; rank], To::Set).expect("an empty volume").is_empty());
        assert!(label::erode(&mask, shape, 1, false).expect("an empty volume").is_empty());
        assert_eq!(label::fill_holes(&mut [false; 0], shape, 1, true), Ok(0));
    }
}
