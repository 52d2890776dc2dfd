//! Weights too large to store: a formula of key and index, as the cases' README gives it.

use std::collections::BTreeMap;

use hearth_tests::golden::{Case, Miss};

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

/// Shape and values.
pub type Weight = (Vec<usize>, Vec<f32>);

/// All tensors by key; none where the case stores its weights.
pub fn weights(case: &Case) -> Result<BTreeMap<String, Weight>, Miss> {
    let record = &case.record["procedural"];
    let Some(tensors) = record["tensors"].as_object() else { return Ok(BTreeMap::new()) };
    let seed = record["seed"].as_u64().ok_or_else(|| Miss::failed("procedural weights without a seed"))?;
    let mut found = BTreeMap::new();
    for (key, recipe) in tensors {
        let shape: Vec<usize> = serde_json::from_value(recipe["shape"].clone())?;
        let number = |name: &str| recipe[name].as_f64().ok_or_else(|| Miss::failed(format!("{key} has no {name}")));
        let values = values(key, seed, number("offset")?, number("scale")?, shape.iter().product());
        found.insert(key.clone(), (shape, values));
    }
    Ok(found)
}

#[test]
fn the_check_values_of_the_readme() {
    let expected = [0.151_206_851, -0.476_317_763, -0.664_891_362, 0.681_995_153];
    for (value, expected) in values("conv.weight", 12345, 0.0, 1.0, 4).iter().zip(expected) {
        assert!((f64::from(*value) - expected).abs() < 1e-8, "{value} for {expected}");
    }
}
