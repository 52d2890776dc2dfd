//! The networks of MONAI's bundles compared with the recorded cases of `tests/golden`: every key of
//! the state dict, and the outputs.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::networks::{DiffusionModelUNetConfig, Network, NetworkConfig};
use hearth_nn::weights;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::unest::drawn;
use crate::values;

fn floats(file: &SafeTensors<'_>, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
    let view = file.tensor(name).ok()?;
    let values = view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    Some((view.shape().to_vec(), values))
}

/// The weights of a case, and counters of batches as the network has them.
fn weights_of(case: &Value, net: &impl Network) -> Vec<u8> {
    let own = weights::to_bytes(net).expect("weights");
    let own = SafeTensors::deserialize(&own).expect("whole");
    let seed = case["procedural"]["seed"].as_u64().expect("a seed");
    let mut made: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (key, formula) in case["procedural"]["tensors"].as_object().expect("formulas") {
        let shape: Vec<usize> = serde_json::from_value(formula["shape"].clone()).expect("a shape");
        let [offset, scale] = ["offset", "scale"].map(|name| formula[name].as_f64().expect("a number"));
        let bytes = drawn(key, seed, shape.iter().product()).flat_map(|u| ((offset + scale * u) as f32).to_le_bytes());
        made.push((key.clone(), Dtype::F32, shape, bytes.collect()));
    }
    for (key, view) in own.tensors().into_iter().filter(|(key, _)| key.ends_with("num_batches_tracked")) {
        made.push((key, view.dtype(), view.shape().to_vec(), view.data().to_vec()));
    }
    let views = made.iter().map(|(key, dtype, shape, bytes)| {
        (key.as_str(), TensorView::new(*dtype, shape.clone(), bytes).expect("a whole tensor"))
    });
    safetensors::serialize(views, None).expect("a file")
}

fn assert_outputs(name: &str, case: &Value, file: &SafeTensors<'_>, outputs: Vec<Tensor<5>>) {
    let [atol, rtol] = ["atol", "rtol"].map(|key| case["tolerance"][key].as_f64().expect("a tolerance"));
    for (i, y) in outputs.into_iter().enumerate() {
        let (_, expected) = floats(file, "out.y").or_else(|| floats(file, &format!("out.y{i}"))).expect("an output");
        let got = values(y);
        assert_eq!(got.len(), expected.len(), "{name}");
        let apart = got.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs()) - rtol * f64::from(b.abs()));
        let apart = apart.fold(f64::MIN, f64::max);
        assert!(apart <= atol, "{name}: output {i} is {apart} beyond {rtol}, {atol} is allowed");
    }
}

#[test]
fn networks_of_bundles_do_what_monai_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/networks");
    let names = ["autoencoderkl", "diffusion_model", "dints", "efficientnet", "flexible_unet", "torchvision_inception"];
    let device = Device::default();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !names.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        count += 1;
        let bytes = std::fs::read(&path).expect("a case");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
        let case = header.metadata().as_ref().and_then(|about| about.get("case")).expect("a case");
        let case: Value = serde_json::from_str(case).expect("JSON");
        let file = SafeTensors::deserialize(&bytes).expect("whole");
        let (mut shape, x) = floats(&file, "in.x").expect("an input");
        shape.resize(5, 1);
        let x = Tensor::<5>::from_data(TensorData::new(x, shape), &device);
        let mut params = case["params"].clone();
        if case["op"] == "DiffusionModelUNet" {
            let config: DiffusionModelUNetConfig = serde_json::from_value(params).expect("a network");
            let net = config.init(&device, 0).expect("sound options");
            let (net, _) = weights::from_bytes(net.clone(), &weights_of(&case, &net)).expect(&name);
            let steps: Vec<usize> = serde_json::from_value(case["call"]["timesteps"].clone()).expect("steps");
            assert_outputs(&name, &case, &file, vec![net.valid().predict(x, &steps)]);
            continue;
        }
        if case["op"] == "DiNTS" {
            let space = params["dints_space"].take();
            params["dints_space"] = space["params"].clone();
            params["dints_space"]["name"] = space["op"].clone();
        }
        params["name"] = case["op"].clone();
        if name == "efficientnet_b0_3d" {
            params["progress"] = json!(false);
        }
        let config: NetworkConfig = serde_json::from_value(params).expect(&name);
        let net = config.init(&device, 0).expect("sound options");
        let (net, _) = weights::from_bytes(net.clone(), &weights_of(&case, &net)).expect(&name);
        net.check_input(x.dims()).expect(&name);
        assert_outputs(&name, &case, &file, net.valid().forward_all(x));
    }
    assert_eq!(count, 14);
}
