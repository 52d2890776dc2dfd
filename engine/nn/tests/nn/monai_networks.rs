//! Classification networks and transformers against MONAI itself: our weights loaded there, theirs
//! loaded here, and the same predictions. Runs where `HEARTH_PYTHON` names a Python that has MONAI;
//! elsewhere the recorded cases cover it.

use std::path::Path;
use std::process::Command;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::weights;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::{assert_close, draw, values};

/// Loads our weights strictly, predicts, draws new weights, saves them and predicts again.
const SCRIPT: &str = r#"
import json, sys, torch
import monai.networks.nets as nets
import monai.networks.nets.swin_unetr
from safetensors.torch import load_file, save_file
folder = sys.argv[1]
params = json.loads(sys.argv[2])
def tuples(v):
    if isinstance(v, list) and len(v) == 2 and isinstance(v[0], str):
        return (v[0], v[1])
    return v
def build():
    given = {k: tuples(v) for k, v in params.items()}
    name = given.pop('name')
    given.pop('pretrained', None)
    if name == 'ResNetFeatures':
        given['pretrained'] = False
    given.pop('normalize' if name == 'SwinTransformer' else '', None)
    if name == 'NetAdapter':
        model = {k: tuples(v) for k, v in given.pop('model').items() if k != 'pretrained'}
        given['model'] = nets.ResNet(**model)
    return (getattr(nets, name, None) or getattr(nets.swin_unetr, name))(**given)
def flat(y):
    if isinstance(y, torch.Tensor):
        return [y]
    return [t for part in y for t in flat(part)]
x = load_file(folder + '/x.safetensors')['x']
if params.get('spatial_dims', params.get('dim', 3)) == 2:
    x = x[..., 0]
extra = [params['normalize']] if params['name'] == 'SwinTransformer' else []
out = {}
with torch.no_grad():
    torch.manual_seed(7)
    net = build()
    net.load_state_dict(load_file(folder + '/ours.safetensors'), strict=True)
    net.eval()
    out.update({f'ours{i}': y.contiguous() for i, y in enumerate(flat(net(x, *extra)))})
    other = build()
    for name, value in other.state_dict().items():
        if value.is_floating_point():
            value += 0.01 * torch.randn_like(value).abs()
    other.eval()
    out.update({f'theirs{i}': y.contiguous() for i, y in enumerate(flat(other(x, *extra)))})
save_file(out, folder + '/y.safetensors')
save_file({k: v.contiguous() for k, v in other.state_dict().items()}, folder + '/theirs.safetensors')
"#;

fn floats(bytes: &[u8], name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(bytes).expect("safetensors");
    let view = file.tensor(name).expect(name);
    view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Relative to the largest value of the output.
fn compare(net: &AnyNetwork, x: Tensor<5>, recorded: &[u8], name: &str) {
    for (i, y) in net.forward_all(x).into_iter().enumerate() {
        let expected = floats(recorded, &format!("{name}{i}"));
        let scale = expected.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
        assert_close(&values(y), &expected, 1e-4 * scale);
    }
}

fn both_ways(python: &str, config: Value, shape: [usize; 5], folder: &Path) {
    let config: NetworkConfig = serde_json::from_value(config).expect("known options");
    let net = config.init(&Device::default(), 11).expect("a network");
    net.check_input(shape).expect("a fitting input");
    weights::save(&net, folder.join("ours.safetensors")).expect("a file");
    let x = draw(shape, 2, &Device::default());
    let bytes: Vec<u8> = values(x.clone()).iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).expect("a whole tensor");
    safetensors::serialize_to_file([("x", view)], None, &folder.join("x.safetensors")).expect("a file");
    let params = serde_json::to_string(&config).expect("JSON");
    let output = Command::new(python).args(["-c", SCRIPT]).arg(folder).arg(&params).output().expect("Python starts");
    assert!(output.status.success(), "{params}: {}", String::from_utf8_lossy(&output.stderr));
    let recorded = std::fs::read(folder.join("y.safetensors")).expect("predictions");
    compare(&net.valid(), x.clone(), &recorded, "ours");
    let (loaded, report) = weights::load(net, folder.join("theirs.safetensors")).expect("MONAI's weights");
    assert!(report.is_complete(), "{params}");
    compare(&loaded.valid(), x, &recorded, "theirs");
}

#[test]
fn networks_are_monais() {
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
    let folder = tempfile::tempdir().expect("a folder");
    let dense = json!({"name": "DenseNet169", "spatial_dims": 3, "in_channels": 1, "out_channels": 3, "init_features": 8,
        "growth_rate": 4, "block_config": [2, 1, 2], "act": "prelu", "norm": ["group", {"num_groups": 2}]});
    let resnet = json!({"name": "ResNet", "block": "bottleneck", "layers": [1, 2, 1, 1], "block_inplanes": [4, 4, 6, 8],
        "spatial_dims": 2, "n_input_channels": 2, "num_classes": 3, "conv1_t_size": [5, 3], "conv1_t_stride": [2, 1],
        "widen_factor": 1.5, "act": "elu", "shortcut_type": "A"});
    let model = json!({"block": "basic", "layers": [1, 1, 1, 1], "block_inplanes": [3, 4, 5, 6], "spatial_dims": 3,
        "n_input_channels": 1, "no_max_pool": true});
    let adapter = |more: Value| {
        let mut config = json!({"name": "NetAdapter", "model": model, "dim": 3, "num_classes": 2});
        config.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        config
    };
    let senet = json!({"name": "SEResNext50", "spatial_dims": 2, "in_channels": 2, "num_classes": 3, "layers": [1, 2, 1, 1],
        "input_3x3": true, "downsample_kernel_size": 3, "dropout_prob": 0.3, "inplanes": 32});
    let vit = |more: Value| {
        let mut config = json!({"name": "ViT", "in_channels": 2, "img_size": [8, 12], "patch_size": 4, "hidden_size": 16,
            "mlp_dim": 0, "num_heads": 4, "num_layers": 2, "spatial_dims": 2, "classification": true, "num_classes": 5});
        config.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        config
    };
    let unetr = json!({"name": "UNETR", "in_channels": 1, "out_channels": 2, "img_size": [32, 16, 16], "feature_size": 4,
        "hidden_size": 12, "mlp_dim": 8, "num_heads": 2, "norm_name": "batch", "res_block": false});
    let swin = json!({"name": "SwinTransformer", "in_chans": 1, "embed_dim": 6, "window_size": [4, 3, 4],
        "patch_size": [2, 2, 1], "depths": [2, 2, 1, 1], "num_heads": [1, 2, 3, 4], "mlp_ratio": 2.5, "qkv_bias": false,
        "normalize": false});
    let swin_unetr = json!({"name": "SwinUNETR", "in_channels": 1, "out_channels": 2, "spatial_dims": 2, "feature_size": 12,
        "window_size": [5, 4], "depths": [2, 1, 2, 1], "num_heads": [1, 2, 3, 4], "use_v2": true, "patch_norm": true,
        "norm_name": ["instance", {"affine": true}], "normalize": false});
    let swin_unetr_3d = json!({"name": "SwinUNETR", "in_channels": 1, "out_channels": 2, "feature_size": 12,
        "window_size": 3, "depths": [2, 2, 1, 1], "num_heads": [1, 2, 3, 4], "downsample": "mergingv2"});
    for (config, shape) in [
        (dense, [2, 1, 21, 17, 19]),
        (resnet, [2, 2, 37, 20, 1]),
        (
            json!({"name": "resnet18", "n_input_channels": 1, "num_classes": 2, "bias_downsample": false}),
            [1, 1, 9, 8, 17],
        ),
        (adapter(json!({"use_conv": true, "pool": ""})), [1, 1, 40, 33, 35]),
        (adapter(json!({"pool": null})), [1, 1, 20, 33, 35]),
        (
            adapter(json!({"pool": ["adaptivemax", {"output_size": [2, 1, null]}], "in_channels": 36})),
            [1, 1, 40, 33, 35],
        ),
        (
            json!({"name": "TorchVisionFCModel", "model_name": "resnext50_32x4d", "use_conv": true, "bias": false,
            "pool": ["max", {"kernel_size": 2, "ceil_mode": true}]}),
            [1, 3, 96, 64, 1],
        ),
        (senet, [2, 2, 35, 40, 1]),
        (vit(json!({})), [2, 2, 8, 12, 1]),
        (
            vit(json!({"classification": false, "proj_type": "perceptron", "pos_embed_type": "sincos"})),
            [2, 2, 8, 12, 1],
        ),
        (vit(json!({"post_activation": "none", "pos_embed_type": "fourier", "qkv_bias": true})), [2, 2, 8, 12, 1]),
        (unetr, [1, 1, 32, 16, 16]),
        (json!({"name": "ResNetFeatures", "model_name": "resnet18", "spatial_dims": 2}), [2, 1, 40, 33, 1]),
        (json!({"name": "ResNetFeatures", "model_name": "resnet50", "in_channels": 2}), [1, 2, 32, 33, 17]),
        (
            json!({"name": "SegResNetDS2", "init_filters": 4, "blocks_down": [1, 1, 2], "dsdepth": 2, "norm": "instance"}),
            [1, 1, 8, 12, 8],
        ),
        (
            json!({"name": "SegResNetDS2", "spatial_dims": 2, "init_filters": 4, "blocks_down": [1, 2],
                "upsample_mode": "nontrainable"}),
            [1, 1, 8, 6, 1],
        ),
        (swin, [1, 1, 19, 17, 9]),
        (swin_unetr, [1, 1, 64, 32, 1]),
        (swin_unetr_3d, [1, 1, 32, 32, 64]),
    ] {
        both_ways(&python, config, shape, folder.path());
    }
}
