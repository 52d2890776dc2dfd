//! A case's weights: stored, shared between keys, or, if they are too large to store, a formula of
//! key and index, defined in the cases' README.

use std::collections::BTreeMap;

use hearth_tests::golden::{Case, Miss};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

fn fnv1a64(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// One tensor's values.
fn values(key: &str, case_seed: u64, offset: f64, scale: f64, count: usize) -> Vec<f32> {
    let seed = fnv1a64(key) ^ case_seed;
    let draw = |i: u64| {
        let mut z = seed.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let u = (z >> 40) as f64 / f64::from(1 << 24);
        (offset + scale * (2.0 * u - 1.0)) as f32
    };
    (0..count as u64).map(draw).collect()
}

/// Type, shape and bytes of a tensor.
pub type Stored = (Dtype, Vec<usize>, Vec<u8>);

/// The weights by key, without those that share another key's tensor.
pub fn stored(case: &Case) -> Result<BTreeMap<String, Stored>, Miss> {
    if ![Value::Null, json!("procedural")].contains(&case.record["weights"]) {
        return Err(Miss::unsupported(format!("weights: {}", case.record["weights"])));
    }
    let mut found = BTreeMap::new();
    for (name, array) in &case.tensors {
        let Some(key) = name.strip_prefix("weight.") else { continue };
        let (dtype, bytes): (Dtype, Vec<u8>) = match array.dtype.as_str() {
            "F32" => (Dtype::F32, array.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()),
            "I64" => (Dtype::I64, array.values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect()),
            other => return Err(Miss::unsupported(format!("{name} is {other}"))),
        };
        found.insert(key.to_owned(), (dtype, array.shape.clone(), bytes));
    }
    let record = &case.record["procedural"];
    let Some(tensors) = record["tensors"].as_object() else { return Ok(found) };
    let seed = record["seed"].as_u64().ok_or_else(|| Miss::failed("procedural weights without a seed"))?;
    for (key, recipe) in tensors {
        let shape: Vec<usize> = serde_json::from_value(recipe["shape"].clone())?;
        let number = |name: &str| recipe[name].as_f64().ok_or_else(|| Miss::failed(format!("{key} has no {name}")));
        let values = values(key, seed, number("offset")?, number("scale")?, shape.iter().product());
        found.insert(key.clone(), (Dtype::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()));
    }
    Ok(found)
}

/// Keys that share another key's tensor.
pub fn aliases(case: &Case) -> impl Iterator<Item = (&str, &str)> {
    let all = case.record["aliases"].as_object().into_iter().flatten();
    all.filter_map(|(alias, main)| Some((alias.as_str(), main.as_str()?)))
}

/// The weights as a safetensors file, shared ones under each of their keys.
pub fn state_dict(case: &Case, stored: &BTreeMap<String, Stored>) -> Result<Vec<u8>, Miss> {
    let shared = aliases(case).filter_map(|(alias, main)| Some((alias, stored.get(main)?)));
    let mut views = Vec::new();
    for (name, (dtype, shape, bytes)) in stored.iter().map(|(name, stored)| (name.as_str(), stored)).chain(shared) {
        views.push((name, TensorView::new(*dtype, shape.clone(), bytes)?));
    }
    Ok(safetensors::serialize(views, None)?)
}

#[test]
fn the_check_values_of_the_readme() {
    let expected = [0.151_206_851, -0.476_317_763, -0.664_891_362, 0.681_995_153];
    for (value, expected) in values("conv.weight", 12345, 0.0, 1.0, 4).iter().zip(expected) {
        assert!((f64::from(*value) - expected).abs() < 1e-8, "{value} for {expected}");
    }
}
