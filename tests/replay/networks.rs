//! Networks: evaluation, training, gradients, and the statistics after one training step.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth::nn::networks::{
    AutoencoderKLConfig, DiNTSConfig, DiffusionModelUNet, DiffusionModelUNetConfig, Network, NetworkConfig,
    SegResNetVAEConfig, VarAutoEncoderConfig,
};
use hearth::nn::optim::Gradients;
use hearth::nn::weights;
use hearth_tests::golden::{Array, Case, Check, Miss, Outcome};
use safetensors::Dtype;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::batch::{tensor, values};
use super::{classification, state_dict};

/// The networks of convolutions; the others are replayed by [`classification`].
const CONVOLUTIONAL: [&str; 27] = [
    "AHNet",
    "AttentionUnet",
    "AutoEncoder",
    "AutoencoderKL",
    "BasicUNet",
    "BasicUNetPlusPlus",
    "Classifier",
    "Critic",
    "DiffusionModelUNet",
    "DiNTS",
    "Discriminator",
    "DynUNet",
    "EfficientNetBN",
    "FlexibleUNet",
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
        "AutoencoderKL" => {
            let net = read::<AutoencoderKLConfig>(params(case))?.init(&device, 0).map_err(unsupported)?;
            // Recorded without a draw: the mean is decoded in training, too.
            run(case, net, &device, |net, x| {
                let (mean, deviation) = net.encode(x);
                vec![net.decode(mean.clone()), mean, deviation]
            })
        }
        "DiffusionModelUNet" => {
            let net = read::<DiffusionModelUNetConfig>(params(case))?.init(&device, 0).map_err(unsupported)?;
            let steps = serde_json::from_value(case.call["timesteps"].clone())?;
            run(case, AtSteps { net, steps }, &device, |net, x| net.forward_all(x))
        }
        "DiNTS" => {
            let mut params = params(case);
            let space = params["dints_space"].take();
            params["dints_space"] = space["params"].clone();
            params["dints_space"]["name"] = space["op"].clone();
            let net = read::<DiNTSConfig>(params)?.init(&device, 0).map_err(unsupported)?;
            run(case, net, &device, |net, x| net.forward_all(x))
        }
        op => {
            let mut params = params(case);
            params["name"] = json!(if op == "VNetTrimmed" { "VNet" } else { op });
            let net = read::<NetworkConfig>(params)?.init(&device, 0).map_err(unsupported)?;
            run(case, net, &device, |net, x| net.forward_all(x))
        }
    }
}

/// A diffusion model at the time steps of a case.
#[derive(Module, Debug)]
struct AtSteps {
    net: DiffusionModelUNet,
    #[module(skip)]
    steps: Vec<usize>,
}

impl Network for AtSteps {
    fn spatial_dims(&self) -> usize {
        self.net.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.net.channels()
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.net.predict(x, &self.steps)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        self.net.torch_name(path.strip_prefix("net.")?)
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Miss> {
    serde_json::from_value(params).map_err(|e| Miss::unsupported(format!("parameters: {e}")))
}

/// The parameters with dropout at 0, as training was recorded; evaluation has none.
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

/// The shape of a result with the recorded rank: missing axes are 1.
fn shape_like(expected: Option<&Array>, dims: [usize; 5]) -> Vec<usize> {
    let rank = expected.map_or(5, |array| array.shape.len());
    if dims.iter().skip(rank).all(|n| *n == 1) { dims.into_iter().take(rank).collect() } else { dims.to_vec() }
}

/// Compares outputs with `<name>`, or `<name>0`, `<name>1`, ... if the case has those; or with one
/// recorded tensor, in which several outputs are stacked after the batch axis.
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

/// Runs the network with the case's weights and compares everything recorded; `train` is its
/// training pass.
fn run<N: Network>(case: &Case, net: N, device: &Device, train: impl Fn(&N, Tensor<5>) -> Vec<Tensor<5>>) -> Outcome {
    let mut check = case.check();
    let stored = state_dict::stored(case)?;
    let (net, _) = weights::from_bytes(net, &state_dict::state_dict(case, &stored)?)?;
    let input = case.array("in.x")?;
    if let Some(count) = case.record["parameter_count"].as_u64() {
        let buffers = stored.iter().filter(|(name, _)| name.contains("running_"));
        let buffers: usize = buffers.map(|(_, (_, shape, _))| shape.iter().product::<usize>()).sum();
        check.equal("parameter_count", &(count as usize), &(net.num_params() - buffers));
    }
    let saved = weights::to_bytes(&net)?;
    let saved = safetensors::SafeTensors::deserialize(&saved)?;
    let aliases = state_dict::aliases(case).map(|(alias, _)| alias);
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
        // An unused parameter has no gradient here, but a zero gradient in the case.
        let norm = |key: &str| gradients.get(key).map_or(0.0, |g| g.iter().map(|v| v * v).sum::<f64>().sqrt());
        let norms: Vec<f64> = keys.iter().filter_map(Value::as_str).map(norm).collect();
        // A gradient that cancels (of a bias before a norm) is the rounding error of its sum, which
        // depends on the order.
        let largest = norms.iter().fold(0.0_f64, |largest, norm| largest.max(*norm));
        let (atol, rtol) = (case.tolerance("l2_atol").max(5e-6 * largest), case.tolerance("l2_rtol"));
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
