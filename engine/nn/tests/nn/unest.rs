//! UNesT compared with the scripts of MONAI's bundles, which are not part of MONAI: weights and
//! input are computed by a formula, and values of the output are recorded.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::networks::{Network, NetworkConfig};
use hearth_nn::weights;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;
use serde_json::Value;

use crate::monai_record::recorded;
use crate::values;

#[derive(Deserialize)]
struct Record {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    params: Value,
    seed: u64,
    /// Keys of the state dict.
    keys: usize,
    /// Interval of the recorded values of the output.
    step: usize,
    y: Vec<f64>,
    mean: f64,
}

/// Draws from U(-1, 1), a function of key, seed and index: the formula of `tests/golden`.
pub fn drawn(key: &str, seed: u64, count: usize) -> impl Iterator<Item = f64> {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let start = key.bytes().fold(0xCBF2_9CE4_8422_2325, hash) ^ seed;
    (1..=count as u64).map(move |i| {
        let mut z = start.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0
    })
}

/// Offset and scale of a weight.
fn formula(key: &str, shape: &[usize]) -> (f64, f64) {
    match shape {
        [_] if key.ends_with("weight") => (1.0, 0.2),
        [_] => (0.0, 0.1),
        [_, inputs @ ..] => {
            let scale = 1.2 * (3.0 / inputs.iter().product::<usize>() as f64).sqrt();
            (0.0, (scale * 1e6).round() / 1e6)
        }
        [] => (0.0, 0.0),
    }
}

#[test]
fn unest_gives_what_the_scripts_of_the_bundles_gave() {
    let text = std::fs::read_to_string(recorded("unest.json")).expect("the record");
    let record: Record = serde_json::from_str(&text).expect("a record");
    for case in record.cases {
        let config: NetworkConfig = serde_json::from_value(case.params.clone()).expect("a network");
        let net = config.init(&Device::default(), 0).expect("sound options");
        let written = weights::to_bytes(&net).expect("weights");
        let file = SafeTensors::deserialize(&written).expect("whole");
        assert_eq!(file.names().len(), case.keys);
        let made: Vec<(String, Vec<usize>, Vec<u8>)> = file
            .tensors()
            .into_iter()
            .map(|(key, view)| {
                let (offset, scale) = formula(&key, view.shape());
                let count = view.shape().iter().product();
                let bytes = drawn(&key, case.seed, count).flat_map(|u| ((offset + scale * u) as f32).to_le_bytes());
                let bytes = bytes.collect();
                (key, view.shape().to_vec(), bytes)
            })
            .collect();
        let views = made.iter().map(|(key, shape, bytes)| {
            (key.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a whole tensor"))
        });
        let bytes = safetensors::serialize(views, None).expect("a file");
        let (net, _) = weights::from_bytes(net, &bytes).expect("every key");
        let shape = [1, net.channels()[0], 64, 64, 64];
        let x: Vec<f32> = drawn("in.x", case.seed, shape.iter().product()).map(|u| u as f32).collect();
        let y = values(net.valid().forward(Tensor::from_data(TensorData::new(x, shape), &Device::default())));
        let mean = y.iter().map(|v| f64::from(*v)).sum::<f64>() / y.len() as f64;
        let largest = case.y.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
        let kept: Vec<f64> = y.iter().step_by(case.step).map(|v| f64::from(*v)).collect();
        assert_eq!(kept.len(), case.y.len());
        for (at, (got, expected)) in kept.iter().zip(&case.y).enumerate() {
            assert!((got - expected).abs() <= 2e-4 * largest, "{got} for {expected} at {at} of {}", case.params);
        }
        assert!((mean - case.mean).abs() <= 1e-4 * largest, "a mean of {mean} for {}", case.mean);
    }
}
