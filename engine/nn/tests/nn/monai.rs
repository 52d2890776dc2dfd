//! Weights to and from MONAI itself. Runs where `HEARTH_PYTHON` names a Python that has MONAI;
//! elsewhere the recorded cases of the golden tests cover it.

use std::path::Path;
use std::process::Command;

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_nn::weights;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{assert_close, draw, values};

/// Loads our weights strictly, predicts, draws new weights, saves them and predicts again.
const SCRIPT: &str = r"
import json, sys, torch
from monai.networks.nets import UNet
from safetensors.torch import load_file, save_file
folder = sys.argv[1]
params = json.loads(sys.argv[2])
net = UNet(**params)
net.load_state_dict(load_file(folder + '/ours.safetensors'), strict=True)
x = load_file(folder + '/x.safetensors')['x']
if params['spatial_dims'] == 2:
    x = x[..., 0]
net.eval()
out = {}
with torch.no_grad():
    out['ours'] = net(x)
    torch.manual_seed(7)
    other = UNet(**params)
    other.train()
    other(x)
    other.eval()
    out['theirs'] = other(x)
save_file(out, folder + '/y.safetensors')
save_file(other.state_dict(), folder + '/theirs.safetensors')
";

fn floats(bytes: &[u8], name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(bytes).expect("safetensors");
    let view = file.tensor(name).expect(name);
    view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn compare(python: &str, config: &UNetConfig, folder: &Path) {
    let device = Device::default().autodiff();
    let net: UNet = config.init(&device, 11).expect("a network");
    // One step, so that running statistics and counters differ from their initial values.
    let shape = [2, config.in_channels, 8, 8, if config.spatial_dims == 2 { 1 } else { 8 }];
    let loss = net.forward(draw(shape, 1, &device)).powi_scalar(2).mean();
    let gradients = Gradients::of(&net, &loss);
    let mut optimizer = OptimizerConfig::sgd(0.0).build().expect("consistent");
    let net = optimizer.step(net, gradients, 0.01).expect("its own gradients").valid();
    weights::save(&net, folder.join("ours.safetensors")).expect("a file");
    let x = draw(shape, 2, &Device::default());
    let bytes: Vec<u8> = values(x.clone()).iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).expect("a whole tensor");
    safetensors::serialize_to_file([("x", view)], None, &folder.join("x.safetensors")).expect("a file");
    let params = serde_json::to_string(config).expect("JSON");
    let output = Command::new(python).args(["-c", SCRIPT]).arg(folder).arg(&params).output().expect("Python starts");
    assert!(output.status.success(), "{params}: {}", String::from_utf8_lossy(&output.stderr));
    let theirs = std::fs::read(folder.join("y.safetensors")).expect("predictions");
    assert_close(&values(net.forward(x.clone())), &floats(&theirs, "ours"), 2e-5);
    let (loaded, report) = weights::load(net, folder.join("theirs.safetensors")).expect("MONAI's weights");
    assert!(report.is_complete());
    assert_close(&values(loaded.forward(x)), &floats(&theirs, "theirs"), 2e-5);
}

#[test]
fn monai_loads_our_weights_and_we_load_monais() {
    let Some(python) = std::env::var_os("HEARTH_PYTHON") else {
        eprintln!("HEARTH_PYTHON is not set; MONAI was not asked");
        return;
    };
    let python = python.to_string_lossy().into_owned();
    let has_monai = Command::new(&python).args(["-c", "import monai, torch, safetensors"]).output();
    if !has_monai.is_ok_and(|output| output.status.success()) {
        eprintln!("{python} has no MONAI; it was not asked");
        return;
    }
    let group = serde_json::from_str(r#"["group", {"num_groups": 2}]"#).expect("a layer");
    let affine = serde_json::from_str(r#"["instance", {"affine": true}]"#).expect("a layer");
    let leaky = serde_json::from_str(r#"["leakyrelu", {"negative_slope": 0.1}]"#).expect("a layer");
    let base = |dims, units| UNetConfig { num_res_units: units, ..UNetConfig::new(dims, 2, 4, &[4, 8, 12], &[2, 2]) };
    let configs = [
        base(3, 2),
        base(2, 0),
        UNetConfig { norm: Some("batch".into()), ..base(3, 2) },
        UNetConfig { norm: Some("batch".into()), bias: false, ..base(2, 1) },
        UNetConfig { norm: Some(group), act: Some("elu".into()), ..base(3, 1) },
        UNetConfig { norm: Some(affine), act: Some(leaky), adn_ordering: "AND".into(), ..base(3, 0) },
        UNetConfig { norm: None, act: None, dropout: 0.2.into(), ..base(2, 2) },
        UNetConfig { kernel_size: 5.into(), up_kernel_size: 5.into(), act: Some("mish".into()), ..base(3, 2) },
    ];
    let folder = tempfile::tempdir().expect("a folder");
    configs.iter().for_each(|config| compare(&python, config, folder.path()));
}
