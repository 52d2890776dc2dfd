//! Networks: evaluation, training, gradients, and the statistics after one training step.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth::nn::networks::{Network, NetworkConfig, UNetConfig};
use hearth::nn::optim::Gradients;
use hearth::nn::weights;
use hearth_tests::golden::{Case, Miss, Outcome};
use safetensors::{Dtype, tensor::TensorView};

use super::batch::{shape_of, tensor, values};

/// Replays one network.
pub fn replay(case: &Case) -> Outcome {
    let config = match case.op.as_str() {
        "UNet" | "Unet" => NetworkConfig::UNet(unet(case)?),
        other => return Err(Miss::unsupported(format!("op {other}"))),
    };
    for key in ["weights", "outputs", "aliases"] {
        if !case.record[key].is_null() {
            return Err(Miss::unsupported(format!("{key}: {}", case.record[key])));
        }
    }
    let device = Device::default().autodiff();
    let net = config.init(&device, 0).map_err(|error| Miss::unsupported(error.to_string()))?;
    let (net, _) = weights::from_bytes(net, &state_dict(case)?)?;
    check(case, net, &device)
}

fn unet(case: &Case) -> Result<UNetConfig, Miss> {
    let config: UNetConfig =
        serde_json::from_value(case.params.clone()).map_err(|e| Miss::unsupported(format!("parameters: {e}")))?;
    // Training was recorded with dropout at 0, and evaluation knows none.
    Ok(UNetConfig { dropout: 0.0, ..config })
}

/// The case's weights as a safetensors file.
fn state_dict(case: &Case) -> Result<Vec<u8>, Miss> {
    let mut stored: BTreeMap<&str, (Dtype, Vec<usize>, Vec<u8>)> = BTreeMap::new();
    for (name, array) in &case.tensors {
        let Some(key) = name.strip_prefix("weight.") else { continue };
        let (dtype, bytes): (Dtype, Vec<u8>) = match array.dtype.as_str() {
            "F32" => (Dtype::F32, array.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()),
            "I64" => (Dtype::I64, array.values.iter().flat_map(|v| (*v as i64).to_le_bytes()).collect()),
            other => return Err(Miss::unsupported(format!("{name} is {other}"))),
        };
        stored.insert(key, (dtype, array.shape.clone(), bytes));
    }
    let mut views = Vec::new();
    for (name, (dtype, shape, bytes)) in &stored {
        views.push((*name, TensorView::new(*dtype, shape.clone(), bytes)?));
    }
    Ok(safetensors::serialize(views, None)?)
}

fn check<N: Network>(case: &Case, net: N, device: &Device) -> Outcome {
    let mut check = case.check();
    let input = case.array("in.x")?;
    let rank = input.shape.len();
    if let Some(count) = case.record["parameter_count"].as_u64() {
        let buffers: usize = case
            .tensors
            .iter()
            .filter(|(name, _)| name.contains(".running_"))
            .filter(|(name, _)| name.starts_with("weight."))
            .map(|(_, array)| array.values.len())
            .sum();
        check.equal("parameter_count", &(count as usize), &(net.num_params() - buffers));
    }

    let plain = tensor(input, &device.clone().inner())?;
    net.check_input(plain.dims())?;
    let y = net.valid().forward(plain);
    check.close("out.y", &shape_of(&y, rank), &values(y));
    if case.record["eval_only"].as_bool() == Some(true) {
        return check.outcome();
    }

    let x = tensor(input, device)?.require_grad();
    let y = net.forward(x.clone());
    let recorded = if case.find("out.train_y").is_some() { "out.train_y" } else { "out.y" };
    check.close(recorded, &shape_of(&y, rank), &values(y.clone()));
    let after = weights::to_bytes(&net)?;
    let cot: Tensor<5> = tensor(case.array("in.cot")?, device)?;
    let mut source = (y * cot).mean().backward();
    let input_gradient = x.grad(&source).ok_or_else(|| Miss::failed("the input has no gradient"))?;
    check.network_gradient("grad.in.x", &input.shape, &values(input_gradient));
    let gradients = Gradients::take(&net, &mut source);
    for (name, array) in &case.tensors {
        let Some(path) = name.strip_prefix("grad.").filter(|path| *path != "in.x") else { continue };
        let gradient = gradients.get(path).ok_or_else(|| Miss::failed(format!("{path} has no gradient")))?;
        check.network_gradient(name, &array.shape, &values(gradient.clone()));
    }
    if let Some(keys) = case.record["grad_l2_keys"].as_array() {
        let mut norms = Vec::with_capacity(keys.len());
        for key in keys.iter().filter_map(|key| key.as_str()) {
            let gradient = gradients.get(key).ok_or_else(|| Miss::failed(format!("{key} has no gradient")))?;
            norms.push(values(gradient.clone()).iter().map(|v| v * v).sum::<f64>().sqrt());
        }
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
