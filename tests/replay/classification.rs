//! Classification networks, transformers and their blocks: evaluation, training, gradients, and the
//! statistics after one training step.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth::nn::networks::{Network, NetworkConfig};
use hearth::nn::optim::Gradients;
use hearth::nn::weights;
use hearth_tests::golden::{Case, Check, Miss, Outcome};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::batch::{tensor, values};
use super::{blocks, state_dict};

/// Parameters that are probabilities of dropout.
const DROPOUT: [&str; 7] =
    ["dropout", "dropout_prob", "dropout_rate", "drop_rate", "attn_drop_rate", "drop_path_rate", "dropout_path_rate"];

/// Parameters of MONAI that, with these values, do not change a network in this project.
const NO_EFFECT: [(&str, &str); 4] =
    [("progress", "true"), ("downsample", "null"), ("fc_name", "\"fc\""), ("node_name", "\"\"")];

/// Replays one network.
pub fn replay(case: &Case) -> Outcome {
    let weights_of = || state_dict::state_dict(case, &state_dict::stored(case)?);
    let device = Device::default().autodiff();
    if let Some(block) = blocks::block(case, &device)? {
        let (block, _) = weights::from_bytes(block, &weights_of()?)?;
        return check(case, block, &device);
    }
    let net = config(case)?.init(&device, 0).map_err(|error| Miss::unsupported(error.to_string()))?;
    let (net, _) = weights::from_bytes(net, &weights_of()?)?;
    check(case, net, &device)
}

/// The case's operation and parameters as a recipe names them. Arguments of the call become
/// options.
fn config(case: &Case) -> Result<NetworkConfig, Miss> {
    let mut params = case.params.as_object().cloned().unwrap_or_default();
    params.extend(case.call.as_object().cloned().unwrap_or_default());
    params.insert("name".to_owned(), json!(case.op));
    params.retain(|name, value| !NO_EFFECT.contains(&(name.as_str(), value.to_string().as_str())));
    // Training was recorded with dropout at 0, and evaluation has none.
    for name in DROPOUT {
        params.entry(name).and_modify(|p| *p = if p.is_number() { json!(0.0) } else { p.take() });
    }
    if ["SENet", "SEResNe"].iter().any(|name| case.op.starts_with(name)) {
        // Some of these have dropout by default.
        params.insert("dropout_prob".to_owned(), Value::Null);
    }
    serde_json::from_value(Value::Object(params)).map_err(|error| match error.to_string() {
        // The message continues with all known names.
        text if text.starts_with("unknown variant") => Miss::unsupported(format!("op {}", case.op)),
        text => Miss::unsupported(format!("{}: {text}", case.op)),
    })
}

/// The recorded outputs of this name: `y`, or `y0`, `y1`, ...
fn recorded(case: &Case, name: &str) -> Vec<String> {
    if case.find(&format!("out.{name}")).is_some() {
        return vec![name.to_owned()];
    }
    (0..).map(|i| format!("{name}{i}")).take_while(|name| case.find(&format!("out.{name}")).is_some()).collect()
}

/// The network's outputs, as many as are recorded.
fn outputs<N: Network>(case: &Case, net: &N, x: Tensor<5>, count: usize) -> Result<Vec<Tensor<5>>, Miss> {
    let all = match (count, case.record["outputs"].as_array()) {
        (1, None) => return Ok(vec![net.forward(x)]),
        (_, None) => net.forward_all(x),
        (_, Some(kept)) => {
            let all = net.forward_all(x);
            kept.iter().filter_map(|i| all.get(i.as_u64()? as usize).cloned()).collect()
        }
    };
    match all.len() == count {
        true => Ok(all),
        false => Err(Miss::failed(format!("{} outputs, {count} are recorded", all.len()))),
    }
}

/// Compares an output, which has additional axes of length 1.
fn compare(check: &mut Check<'_>, case: &Case, name: &str, y: Tensor<5>) {
    let rank = case.find(&format!("out.{name}")).map_or(0, |array| array.shape.len());
    let dims = y.dims();
    let (shape, more) = dims.split_at(rank);
    let shape = if more.iter().all(|n| *n == 1) { shape } else { &dims };
    check.close(&format!("out.{name}"), shape, &values(y));
}

fn check<N: Network>(case: &Case, net: N, device: &Device) -> Outcome {
    let mut check = case.check();
    let input = case.array("in.x")?;
    if let Some(count) = case.record["parameter_count"].as_u64() {
        let bytes = weights::to_bytes(&net)?;
        let file = SafeTensors::deserialize(&bytes)?;
        let buffers = file.tensors().into_iter().filter(|(name, _)| name.contains(".running_"));
        let buffers: usize = buffers.map(|(_, view)| view.shape().iter().product::<usize>()).sum();
        check.equal("parameter_count", &(count as usize), &(net.num_params() - buffers));
    }

    let plain = tensor(input, &device.clone().inner())?;
    net.check_input(plain.dims())?;
    let names = recorded(case, "y");
    for (name, y) in names.iter().zip(outputs(case, &net.valid(), plain, names.len())?) {
        compare(&mut check, case, name, y);
    }
    if case.record["eval_only"].as_bool() == Some(true) {
        return check.outcome();
    }

    let x = tensor(input, device)?.require_grad();
    let names = Some(recorded(case, "train_y")).filter(|names| !names.is_empty()).unwrap_or(names);
    let mut score = Tensor::<1>::zeros([1], device);
    for (name, y) in names.iter().zip(outputs(case, &net, x.clone(), names.len())?) {
        compare(&mut check, case, name, y.clone());
        let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let cot: Tensor<5> = tensor(case.array(&format!("in.cot{number}"))?, device)?;
        score = score + (y * cot).mean();
    }
    let after = weights::to_bytes(&net)?;
    let mut source = score.backward();
    let input_gradient = x.grad(&source).ok_or_else(|| Miss::failed("the input has no gradient"))?;
    check.network_gradient("grad.in.x", &input.shape, &values(input_gradient));
    let taken = Gradients::take(&net, &mut source);
    let gradients: BTreeMap<String, &Tensor<1>> =
        taken.iter().filter_map(|(path, gradient)| Some((net.torch_name(path)?, gradient))).collect();
    for (name, array) in &case.tensors {
        let Some(path) = name.strip_prefix("grad.").filter(|path| *path != "in.x") else { continue };
        let gradient = *gradients.get(path).ok_or_else(|| Miss::failed(format!("{path} has no gradient")))?;
        check.network_gradient(name, &array.shape, &values(gradient.clone()));
    }
    if let Some(keys) = case.record["grad_l2_keys"].as_array() {
        // An unused parameter has no gradient here, but a zero gradient in the case.
        let norm = |gradient: Option<&&Tensor<1>>| {
            gradient.map_or(0.0, |g| values((*g).clone()).iter().map(|v| v * v).sum::<f64>().sqrt())
        };
        let norms: Vec<f64> = keys.iter().filter_map(Value::as_str).map(|key| norm(gradients.get(key))).collect();
        let (atol, rtol) = (case.tolerance("l2_atol"), case.tolerance("l2_rtol"));
        check.close_at("out.grad_l2", &[norms.len()], &norms, atol, rtol, 0);
    }
    let file = SafeTensors::deserialize(&after)?;
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
