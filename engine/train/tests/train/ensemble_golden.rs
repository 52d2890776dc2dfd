//! Mean and vote ensembles against MONAI's own results (`tests/golden/transforms_utility_post`).

use burn::tensor::{Device, Tensor};
use hearth_train::{CombineError, mean_ensemble, vote_ensemble};
use safetensors::SafeTensors;
use serde_json::Value;

/// A case: its options, the members, MONAI's result; tensors as `[1, C, X, Y, 1]`.
struct Case {
    spec: Value,
    members: Vec<Tensor<5>>,
    expected: Vec<f32>,
    expected_shape: [usize; 5],
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn case(name: &str) -> Case {
    let path = format!("{}/../../tests/golden/transforms_utility_post/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let spec = serde_json::from_str(&header.metadata().as_ref().unwrap()["case"]).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let stack = file.tensor("in.stack").unwrap();
    let [count, channels, x, y] = stack.shape().try_into().unwrap();
    let members = floats(stack.data())
        .chunks(channels * x * y)
        .map(|member| Tensor::<1>::from_data(member, &Device::flex()).reshape([1, channels, x, y, 1]))
        .collect::<Vec<_>>();
    assert_eq!(members.len(), count);
    let out = file.tensor("out.image").unwrap();
    let [channels, x, y] = out.shape().try_into().unwrap();
    Case { spec, members, expected: floats(out.data()), expected_shape: [1, channels, x, y, 1] }
}

fn check(case: &Case, got: Tensor<5>) {
    assert_eq!(got.dims(), case.expected_shape);
    let tolerance = |key: &str| case.spec["tolerance"][key].as_f64().unwrap() as f32;
    let (atol, rtol) = (tolerance("atol"), tolerance("rtol"));
    for (got, expected) in got.into_data().iter::<f32>().zip(&case.expected) {
        assert!((got - expected).abs() <= atol + rtol * expected.abs(), "{got} instead of {expected}");
    }
}

#[test]
fn mean_ensemble_is_monais() {
    for name in ["mean_ensemble", "mean_ensemble_weights", "mean_ensemble_channel_weights"] {
        let case = case(name);
        // One number for each member, or a row of one for each channel.
        let weights: Option<Vec<f64>> = case.spec["params"]["weights"].as_array().map(|rows| {
            rows.iter()
                .flat_map(|row| row.as_array().cloned().unwrap_or_else(|| vec![row.clone()]))
                .map(|weight| weight.as_f64().unwrap())
                .collect()
        });
        check(&case, mean_ensemble(&case.members, weights.as_deref()).unwrap());
    }
}

#[test]
fn vote_ensemble_is_monais() {
    for name in ["vote_ensemble_labels", "vote_ensemble_onehot"] {
        let case = case(name);
        let num_classes = case.spec["params"]["num_classes"].as_u64().map(|n| n as usize);
        check(&case, vote_ensemble(&case.members, num_classes).unwrap());
    }
}

fn map(values: &[f32]) -> Tensor<5> {
    Tensor::<1>::from_data(values, &Device::flex()).reshape([1, 1, values.len(), 1, 1])
}

fn values(tensor: Tensor<5>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[test]
fn half_is_rounded_to_even_and_ties_go_to_the_lowest_class() {
    // Means 0.5, 0.5, 1.5, 2.5, 1, -0.5.
    let members = [map(&[0., 1., 1., 2., 1., -1.]), map(&[1., 0., 2., 3., 1., 0.])];
    assert_eq!(values(vote_ensemble(&members, None).unwrap()), [0., 0., 2., 2., 1., 0.]);
    let members = [map(&[3., 0., 2.]), map(&[1., 2., 2.])];
    assert_eq!(values(vote_ensemble(&members, Some(4)).unwrap()), [1., 0., 2.]);
}

#[test]
fn members_that_do_not_fit_are_named() {
    assert!(matches!(mean_ensemble(&[], None), Err(CombineError::Empty)));
    let text = mean_ensemble(&[map(&[1., 2.]), map(&[1.])], None).unwrap_err().to_string();
    assert!(text.contains("prediction 1") && text.contains("[1, 1, 2, 1, 1]"), "{text}");
    let two = [map(&[1.]), map(&[2.])];
    assert!(matches!(mean_ensemble(&two, Some(&[1.0, 2.0, 3.0])), Err(CombineError::Weights { found: 3, .. })));
    assert!(matches!(mean_ensemble(&two, Some(&[1.0, -1.0])), Err(CombineError::WeightSum(0.0))));
    assert!(matches!(vote_ensemble(&two, Some(0)), Err(CombineError::NumClasses(0))));
}
