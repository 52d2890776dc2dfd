//! Compares with the results of nnU-Net's transforms of an earlier stage's labels for given random
//! numbers: `tests/golden/nnunet/training/cascade.json`, recorded by
//! `tests/golden/record_cascade.py`.

use std::path::{Path, PathBuf};

use hearth_nnunet::Axes3;
use hearth_nnunet::augment::cascade::{BinaryOperator, binary_operator, remove_component};
use safetensors::SafeTensors;
use serde_json::Value;

/// The recordings of another folder, if it has any of these.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/training");
    let given = std::env::var_os("HEARTH_GOLDEN").map(|folder| PathBuf::from(folder).join("nnunet/training"));
    given.filter(|folder| folder.join("cascade.json").is_file()).unwrap_or(own)
}

/// Reads the bits of an array as 0 and 1.
fn bits(tensors: &SafeTensors<'_>, name: &str, count: usize) -> Vec<f32> {
    let view = tensors.tensor(name).expect("an array");
    assert_eq!(view.data().len(), count.div_ceil(8), "{name}");
    (0..count).map(|at| f32::from(view.data()[at / 8] >> (7 - at % 8) & 1)).collect()
}

/// One value, or several that are applied in order.
fn each(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |all| all.iter().collect())
}

#[test]
fn labels_of_an_earlier_stage_change_as_in_nnunet() {
    let list: Value =
        serde_json::from_slice(&std::fs::read(root().join("cascade.json")).expect("a list")).expect("JSON");
    let bytes = std::fs::read(root().join("cascade.safetensors")).expect("arrays");
    let tensors = SafeTensors::deserialize(&bytes).expect("whole");
    let (mut seen, mut changed) = (0, 0);
    for case in list["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{name}: {value}")) as usize;
        let sizes: Vec<usize> = each(&case["shape"]).into_iter().map(number).collect();
        let shape: Axes3 = match sizes[..] {
            [y, x] => [1, y, x],
            [z, y, x] => [z, y, x],
            _ => panic!("{name}: {sizes:?}"),
        };
        let count = number(&case["channels"]) * shape.iter().product::<usize>();
        let [before, expected] = ["in", "out"].map(|end| bits(&tensors, &format!("{name}.{end}"), count));
        let mut found = before.clone();
        let channels = each(&case["channel"]);
        if case["op"] == "component" {
            let share = case["share"].as_f64().expect("a share");
            let (mut candidates, pick) = (0, number(&case["pick"]));
            let choose = |count: usize| {
                candidates = count;
                pick
            };
            remove_component(&mut found, shape, number(channels[0]), share, choose).expect("small");
            assert_eq!(candidates, number(&case["candidates"]), "{name}");
        } else {
            for ((channel, operator), radius) in channels.into_iter().zip(each(&case["op"])).zip(each(&case["radius"]))
            {
                let operator = operator.as_str().and_then(BinaryOperator::named).expect("an operator");
                binary_operator(&mut found, shape, number(channel), operator, radius.as_f64().expect("a radius"));
            }
        }
        let other = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert_eq!(other, 0, "{name}: {other} of {count} voxels differ");
        seen += 1;
        changed += usize::from(before != expected);
    }
    assert!(seen >= 40 && changed >= 40, "{seen} cases, {changed} of them changed");
}
