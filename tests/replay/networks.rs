//! Networks: evaluation, training, gradients, and the statistics after one training step.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Device, Tensor};
use hearth::nn::networks::{Network, NetworkConfig, SegResNetVAEConfig, VarAutoEncoderConfig};
use hearth::nn::optim::Gradients;
use hearth::nn::weights;
use hearth_tests::golden::{Array, Case, Check, Miss, Outcome};
use safetensors::{Dtype, tensor::TensorView};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::batch::{tensor, values};
use super::classification;

/// The networks of convolutions; the others are replayed by [`classification`].
const CONVOLUTIONAL: [&str; 22] = [
    "AHNet",
    "AttentionUnet",
    "AutoEncoder",
    "BasicUNet",
    "BasicUNetPlusPlus",
    "Classifier",
    "Critic",
    "Discriminator",
    "DynUNet",
    "Generator",
    "HighResNet",
    "MultiScalePatchDiscriminator",
    "PatchDiscriminator",
    "Regressor",
    "SegResNet",
    "SegResNetDS",
    "SegResNetVAE",
    "UNet",
    "Unet",
    "VNet",
    "VNetTrimmed",
    "VarAutoEncoder",
];

/// Replays one network.
pub fn replay(case: &Case) -> Outcome {
    if !CONVOLUTIONAL.contains(&case.op.as_str()) {
        return classification::replay(case);
    }
    let device = Device::default().autodiff();
    let unsupported = |error: hearth::nn::ConfigError| Miss::unsupported(error.to_string());
    match case.op.as_str() {
        "SegResNetVAE" => {
            let net = read::<SegResNetVAEConfig>(params(case))?.init(&device, 0).map_err(unsupported)?;
            let noise = noise(case, &device)?;
            run(case, net, &device, |net, x| match noise.clone() {
                Some(noise) => {
                    let (y, loss) = net.forward_with_noise(x, noise);
                    vec![y, loss.reshape([1; 5])]
                }
                None => net.forward_all(x),
            })
        }
        "VarAutoEncoder" => {
            let net = read::<VarAutoEncoderConfig>(params(case))?.init(&device, 0).map_err(unsupported)?;
            let noise = noise(case, &device)?;
            run(case, net, &device, |net, x| match noise.clone() {
                Some(noise) => net.encode_and_decode_with_noise(x, noise).into_vec(),
                None => net.forward_all(x),
            })
        }
        op => {
            let mut params = params(case);
            params["name"] = json!(if op == "VNetTrimmed" { "VNet" } else { op });
            let net = read::<NetworkConfig>(params)?.init(&device, 0).map_err(unsupported)?;
            run(case, net, &device, |net, x| net.forward_all(x))
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Miss> {
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}

/// The parameters with dropout at 0, as training was recorded; evaluation knows none.
fn params(case: &Case) -> Value {
    let none: &[(&str, Value)] = match case.op.as_str() {
        "UNet"
        | "Unet"
        | "BasicUNet"
        | "BasicUNetPlusPlus"
        | "AttentionUnet"
        | "AutoEncoder"
        | "Classifier"
        | "Critic"
        | "Discriminator"
        | "DynUNet"
        | "Generator"
        | "MultiScalePatchDiscriminator"
        | "PatchDiscriminator"
        | "Regressor"
        | "VarAutoEncoder" => &[("dropout", json!(0.0))],
        "HighResNet" | "SegResNet" | "SegResNetVAE" => &[("dropout_prob", json!(0.0))],
        "VNet" | "VNetTrimmed" => &[
            ("dropout_prob_down", json!(0.0)),
            ("dropout_prob_up", json!([0.0, 0.0])),
            ("dropout_prob_top", json!(0.0)),
        ],
        _ => &[],
    };
    let mut params = case.params.clone();
    for (key, value) in none {
        params[key] = value.clone();
    }
    params
}

fn noise(case: &Case, device: &Device) -> Result<Option<Tensor<2>>, Miss> {
    let Some(noise) = case.find("in.noise") else { return Ok(None) };
    let [b, n, ..] = tensor(noise, device)?.dims();
    Ok(Some(tensor(noise, device)?.reshape([b, n])))
}

/// Type, shape and bytes of a stored tensor.
type Stored = (Dtype, Vec<usize>, Vec<u8>);

/// The case's weights by key, without those that share another key's tensor.
fn weights_of(case: &Case) -> Result<BTreeMap<String, Stored>, Miss> {
    let mut stored = BTreeMap::new();
    for (name, array) in &case.tensors {
        let Some(key) = name.strip_prefix("weight.") else { continue };
        let (dtype, bytes): (Dtype, Vec<u8>) = match array.dtype.as_str() {
            "F32" => (Dtype::F32, array.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()),
            "I64" => (Dtype::I64, array.values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect()),
            other => return Err(Miss::unsupported(format!("{name} is {other}"))),
        };
        stored.insert(key.to_owned(), (dtype, array.shape.clone(), bytes));
    }
    match case.record["weights"].as_str() {
        None => {}
        Some("procedural") => procedural(&case.record["procedural"], &mut stored)?,
        Some(other) => return Err(Miss::unsupported(format!("weights: {other}"))),
    }
    Ok(stored)
}

/// Weights that are a formula of their key and index.
fn procedural(record: &Value, stored: &mut BTreeMap<String, Stored>) -> Outcome {
    let broken = || Miss::failed("a procedural tensor without seed, shape, offset or scale");
    let case_seed = record["seed"].as_u64().ok_or_else(broken)?;
    for (key, tensor) in record["tensors"].as_object().into_iter().flatten() {
        let shape: Vec<usize> = serde_json::from_value(tensor["shape"].clone())?;
        let number = |name: &str| tensor[name].as_f64().ok_or_else(broken);
        let (offset, scale) = (number("offset")?, number("scale")?);
        let hash =
            key.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        let seed = hash ^ case_seed;
        let value = |i: u64| {
            let mut z = seed.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            let u = (z >> 40) as f64 / f64::from(1_u32 << 24);
            (offset + scale * (2.0 * u - 1.0)) as f32
        };
        let count = shape.iter().product::<usize>() as u64;
        let bytes = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
        stored.insert(key.clone(), (Dtype::F32, shape, bytes));
    }
    Ok(())
}

/// The weights as a safetensors file, shared ones under each of their keys.
fn state_dict(case: &Case, stored: &BTreeMap<String, Stored>) -> Result<Vec<u8>, Miss> {
    let mut views = Vec::new();
    let aliases = case.record["aliases"].as_object().into_iter().flatten();
    let aliases = aliases.filter_map(|(alias, main)| Some((alias.as_str(), stored.get(main.as_str()?)?)));
    for (name, (dtype, shape, bytes)) in stored.iter().map(|(name, stored)| (name.as_str(), stored)).chain(aliases) {
        views.push((name, TensorView::new(*dtype, shape.clone(), bytes)?));
    }
    Ok(safetensors::serialize(views, None)?)
}

/// The shape of a result whose rank is that of the recorded one: axes it lacks there are 1 here.
fn shape_like(expected: Option<&Array>, dims: [usize; 5]) -> Vec<usize> {
    let rank = expected.map_or(5, |array| array.shape.len());
    if dims.iter().skip(rank).all(|n| *n == 1) { dims.into_iter().take(rank).collect() } else { dims.to_vec() }
}

/// Compares outputs with `<name>`, or `<name>0`, `<name>1`, ... where the case has those; several with one recorded tensor
/// where they are stacked behind the batch axis.
fn compare(case: &Case, check: &mut Check<'_>, name: &str, outputs: &[Tensor<5>]) {
    let (single, first) = (case.find(name), format!("{name}0"));
    if single.is_none() && case.find(&first).is_some() {
        let recorded = (0..).take_while(|i| case.find(&format!("{name}{i}")).is_some()).count();
        check.equal(&format!("number of {name}"), &recorded, &outputs.len());
        for (i, y) in outputs.iter().enumerate().take(recorded) {
            let name = format!("{name}{i}");
            check.close(&name, &shape_like(case.find(&name), y.dims()), &values(y.clone()));
        }
    } else if outputs.len() == 1 {
        check.close(name, &shape_like(single, outputs[0].dims()), &values(outputs[0].clone()));
    } else {
        let [b, c, x, y, z] = outputs[0].dims();
        let mut shape = vec![b, outputs.len(), c, x, y, z];
        shape.truncate(single.map_or(6, |array| array.shape.len()));
        let flat = outputs.iter().map(|output| output.clone().reshape([b, 1, c * x * y * z])).collect();
        check.close(name, &shape, &values(Tensor::<3>::cat(flat, 1)));
    }
}

/// The cotangent of each output.
fn cotangents(case: &Case, outputs: &[Tensor<5>], device: &Device) -> Result<Vec<Tensor<5>>, Miss> {
    if case.find("in.cot").is_none() {
        return (0..outputs.len()).map(|i| tensor(case.array(&format!("in.cot{i}"))?, device)).collect();
    }
    let cot = case.array("in.cot")?;
    if outputs.len() == 1 {
        return Ok(vec![tensor(cot, device)?]);
    }
    let flat = Array {
        shape: vec![cot.shape[0], outputs.len(), cot.values.len() / cot.shape[0] / outputs.len()],
        ..cot.clone()
    };
    let flat = tensor(&flat, device)?;
    Ok(outputs.iter().enumerate().map(|(i, y)| flat.clone().narrow(1, i, 1).reshape(y.dims())).collect())
}

/// Counters of batches are not part of every case.
fn counts(key: &str) -> bool {
    key.ends_with("num_batches_tracked")
}

/// Runs the network with the case's weights and compares all that is recorded; `train` is its pass in training.
fn run<N: Network>(case: &Case, net: N, device: &Device, train: impl Fn(&N, Tensor<5>) -> Vec<Tensor<5>>) -> Outcome {
    let mut check = case.check();
    let stored = weights_of(case)?;
    let (net, _) = weights::from_bytes(net, &state_dict(case, &stored)?)?;
    let input = case.array("in.x")?;
    if let Some(count) = case.record["parameter_count"].as_u64() {
        let buffers = stored.iter().filter(|(name, _)| name.contains("running_"));
        let buffers: usize = buffers.map(|(_, (_, shape, _))| shape.iter().product::<usize>()).sum();
        check.equal("parameter_count", &(count as usize), &(net.num_params() - buffers));
    }
    let saved = weights::to_bytes(&net)?;
    let saved = safetensors::SafeTensors::deserialize(&saved)?;
    let aliases = case.record["aliases"].as_object().into_iter().flatten().map(|(alias, _)| alias.as_str());
    let theirs: BTreeSet<&str> = stored.keys().map(String::as_str).chain(aliases).filter(|key| !counts(key)).collect();
    let ours: BTreeSet<&str> = saved.names().into_iter().filter(|key| !counts(key)).collect();
    check.equal("keys", &theirs, &ours);
    let kept: Option<Vec<usize>> = serde_json::from_value(case.record["outputs"].clone()).unwrap_or_default();
    let keep = |all: Vec<Tensor<5>>| match &kept {
        Some(kept) => kept.iter().filter_map(|i| all.get(*i).cloned()).collect(),
        None => all,
    };

    let plain = tensor(input, &device.clone().inner())?;
    net.check_input(plain.dims())?;
    compare(case, &mut check, "out.y", &keep(net.valid().forward_all(plain)));
    if case.record["eval_only"].as_bool() == Some(true) {
        return check.outcome();
    }

    let x = tensor(input, device)?.require_grad();
    let outputs = keep(train(&net, x.clone()));
    let own = case.tensors.keys().any(|name| name.starts_with("out.train_y"));
    compare(case, &mut check, if own { "out.train_y" } else { "out.y" }, &outputs);
    let after = weights::to_bytes(&net)?;
    let stacked = outputs.len() > 1 && case.find("in.cot").is_some();
    let share = if stacked { outputs.len() as f64 } else { 1.0 };
    let cotangents = cotangents(case, &outputs, device)?;
    let parts = outputs.into_iter().zip(cotangents).map(|(y, cot)| (y * cot).mean() / share);
    let loss = parts.reduce(|a, b| a + b).ok_or_else(|| Miss::failed("no output"))?;
    let mut source = loss.backward();
    let input_gradient = x.grad(&source).ok_or_else(|| Miss::failed("the input has no gradient"))?;
    check.network_gradient("grad.in.x", &input.shape, &values(input_gradient));
    let gradients: BTreeMap<String, Vec<f64>> = Gradients::take(&net, &mut source)
        .iter()
        .filter_map(|(path, gradient)| Some((net.torch_name(path)?, values(gradient.clone()))))
        .collect();
    let gradient = |key: &str| gradients.get(key).ok_or_else(|| Miss::failed(format!("{key} has no gradient")));
    for (name, array) in &case.tensors {
        let Some(key) = name.strip_prefix("grad.").filter(|key| *key != "in.x") else { continue };
        check.network_gradient(name, &array.shape, gradient(key)?);
    }
    if let Some(keys) = case.record["grad_l2_keys"].as_array() {
        // A parameter that is not used has no gradient here, and one of zeros there.
        let norm = |key: &str| gradients.get(key).map_or(0.0, |g| g.iter().map(|v| v * v).sum::<f64>().sqrt());
        let norms: Vec<f64> = keys.iter().filter_map(Value::as_str).map(norm).collect();
        let (atol, rtol) = (case.tolerance("l2_atol"), case.tolerance("l2_rtol"));
        check.close_at("out.grad_l2", &[norms.len()], &norms, atol, rtol, 0);
    }
    let file = safetensors::SafeTensors::deserialize(&after)?;
    for name in case.tensors.keys() {
        let Some(key) = name.strip_prefix("out.after.") else { continue };
        let view = file.tensor(key)?;
        let statistics: Vec<f64> = match view.dtype() {
            Dtype::F32 => {
                view.data().chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
            }
            other => return Err(Miss::failed(format!("{key} is {other:?}"))),
        };
        check.close(name, view.shape(), &statistics);
    }
    check.outcome()
}
