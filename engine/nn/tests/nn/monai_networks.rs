//! Classification networks and transformers compared with MONAI: our weights are loaded there,
//! MONAI's weights are loaded here, and the predictions are equal.

use serde_json::{Value, json};

use crate::clients;
use crate::monai_record::{Case, MODULES, ask, replay};

const RECORD: &str = "networks.safetensors";

fn cases() -> Vec<Case> {
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
    let cases = [
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
    ];
    cases.into_iter().map(|(config, shape)| Case::new(config, shape)).collect()
}

#[test]
fn networks_are_what_monai_said() {
    replay(&cases(), RECORD);
}

#[test]
fn live_networks() {
    let Some(client) = clients::find(MODULES, "networks_are_what_monai_said") else { return };
    ask(&client, &cases(), RECORD);
}
