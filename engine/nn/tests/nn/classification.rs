//! Classification networks and transformers: sizes, options, inputs, first weights.

use burn::tensor::{Device, Tensor};
use hearth_nn::layers::without_draws;
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::weights;
use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::{assert_close, draw, values};

fn config(value: Value) -> NetworkConfig {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn network(value: Value) -> AnyNetwork {
    config(value.clone()).init(&Device::default(), 3).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// Number of parameters, without running statistics and constants.
fn parameters(value: Value) -> usize {
    let bytes = weights::to_bytes(&without_draws(|| network(value))).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let trains = |name: &str| ["running_", "num_batches", "position_index"].iter().all(|part| !name.contains(part));
    file.tensors().iter().filter(|(name, _)| trains(name)).map(|(_, view)| view.shape().iter().product::<usize>()).sum()
}

/// Counted with MONAI, for 3 input channels and 5 classes in 2-D.
#[test]
fn named_sizes_have_monais_numbers_of_parameters() {
    for (name, count) in [
        ("resnet10", 4_909_253),
        ("resnet18", 11_179_973),
        ("resnet34", 21_288_133),
        ("resnet50", 23_522_117),
        ("resnet101", 42_514_245),
        ("resnet152", 58_157_893),
        ("resnet200", 62_638_917),
    ] {
        let value = json!({"name": name, "spatial_dims": 2, "n_input_channels": 3, "num_classes": 5});
        assert_eq!(parameters(value), count, "{name}");
    }
    for (name, count) in [
        ("DenseNet121", 6_958_981),
        ("DenseNet169", 12_492_805),
        ("DenseNet201", 18_102_533),
        ("DenseNet264", 30_662_149),
    ] {
        let value = json!({"name": name, "spatial_dims": 2, "in_channels": 3, "out_channels": 5});
        assert_eq!(parameters(value), count, "{name}");
    }
    for (name, count) in [
        ("SENet154", 113_050_229),
        ("SEResNet50", 26_049_269),
        ("SEResNet101", 47_288_117),
        ("SEResNet152", 64_783_093),
        ("SEResNext50", 25_521_141),
        ("SEResNext101", 46_916_661),
    ] {
        let value = json!({"name": name, "spatial_dims": 2, "in_channels": 3, "num_classes": 5});
        assert_eq!(parameters(value), count, "{name}");
    }
    for (name, count) in [
        ("resnet34", 21_285_185),
        ("resnet50", 23_510_081),
        ("resnext50_32x4d", 22_981_953),
        ("wide_resnet50_2", 66_836_289),
        ("resnext101_64x4d", 81_408_321),
    ] {
        let value = json!({"name": "TorchVisionFCModel", "model_name": name, "use_conv": true, "pool": null});
        assert_eq!(parameters(value), count, "{name}");
    }
}

/// Counted with MONAI.
#[test]
fn the_recipes_transformers_have_monais_numbers_of_parameters() {
    let swin = |input: usize, output: usize| json!({"name": "SwinUNETR", "in_channels": input, "out_channels": output, "feature_size": 48});
    assert_eq!(parameters(swin(1, 1)), 62_186_659);
    assert_eq!(parameters(swin(1, 14)), 62_187_296);
    let v2 = json!({"name": "SwinUNETR", "in_channels": 4, "out_channels": 3, "use_v2": true, "spatial_dims": 2});
    assert_eq!(parameters(v2), 7_184_541);
    let unetr = json!({"name": "UNETR", "in_channels": 1, "out_channels": 14, "img_size": [96, 96, 96]});
    assert_eq!(parameters(unetr), 92_802_478);
    assert_eq!(parameters(json!({"name": "ViT", "in_channels": 1, "img_size": 96, "patch_size": 16})), 88_359_168);
    let flat = json!({"name": "ViT", "in_channels": 3, "img_size": 224, "patch_size": 16, "classification": true,
        "spatial_dims": 2});
    assert_eq!(parameters(flat), 85_790_210);
}

/// A network of each kind, its smallest valid input, and an invalid one.
pub fn kinds() -> Vec<(Value, [usize; 5], [usize; 5])> {
    let resnet = json!({"name": "ResNet", "block": "basic", "layers": [1, 1, 1, 1], "block_inplanes": [4, 4, 4, 4],
        "n_input_channels": 1, "num_classes": 3});
    let dense = json!({"name": "DenseNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 3, "init_features": 4,
        "growth_rate": 2, "block_config": [1, 1, 1]});
    let fully = json!({"name": "NetAdapter", "dim": 3, "use_conv": true, "pool": ["avg", {"kernel_size": 2}],
        "model": {"block": "basic", "layers": [1, 1, 1, 1], "block_inplanes": [4, 4, 4, 4], "n_input_channels": 1}});
    let senet = json!({"name": "SEResNet50", "spatial_dims": 3, "in_channels": 1, "layers": [1, 1, 1, 1],
        "num_classes": 2});
    let vit = json!({"name": "ViT", "in_channels": 1, "img_size": 8, "patch_size": 4, "hidden_size": 8, "mlp_dim": 8,
        "num_heads": 2, "num_layers": 2});
    let unetr = json!({"name": "UNETR", "in_channels": 1, "out_channels": 2, "img_size": 16, "feature_size": 2,
        "hidden_size": 8, "mlp_dim": 8, "num_heads": 2});
    let swin = json!({"name": "SwinUNETR", "in_channels": 1, "out_channels": 2, "feature_size": 12,
        "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1]});
    let encoder = json!({"name": "SwinTransformer", "spatial_dims": 2, "in_chans": 1, "embed_dim": 4, "window_size": 2,
        "patch_size": 3, "depths": [2, 1, 1, 1], "num_heads": [1, 1, 1, 1]});
    vec![
        (resnet, [1, 1, 1, 1, 1], [1, 2, 8, 8, 8]),
        (dense, [1, 1, 13, 13, 1], [1, 1, 12, 16, 1]),
        (fully, [1, 1, 33, 33, 34], [1, 1, 16, 64, 64]),
        (senet, [1, 1, 3, 3, 3], [1, 1, 2, 8, 8]),
        (vit, [1, 1, 8, 8, 8], [1, 1, 8, 8, 12]),
        (unetr, [1, 1, 16, 16, 16], [1, 1, 32, 16, 16]),
        (swin, [1, 1, 32, 32, 32], [1, 1, 32, 48, 32]),
        (encoder, [1, 1, 1, 2, 1], [1, 1, 8, 8, 8]),
    ]
}

#[test]
fn inputs_that_are_let_through_can_be_taken() {
    for (value, smallest, wrong) in kinds() {
        let net = network(value.clone());
        net.check_input(smallest).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert!(net.check_input(wrong).is_err(), "{value}");
        let y = net.forward(Tensor::zeros(smallest, &Device::default()));
        assert_eq!(y.dims()[0], 1, "{value}");
        assert_eq!(y.dims()[1], net.channels()[1], "{value}");
        assert!(values(y).iter().all(|v| v.is_finite()), "{value}");
        assert_eq!(config(value).in_channels(), 1);
    }
}

#[test]
fn recipes_come_back_as_they_were() {
    for (value, ..) in kinds() {
        let first = config(value);
        let text = serde_json::to_string(&first).expect("JSON");
        assert_eq!(serde_json::from_str::<NetworkConfig>(&text).expect(&text), first);
    }
}

#[test]
fn options_that_cannot_be_are_named() {
    let kinds = kinds();
    let (resnet, dense, fully, senet, vit, unetr, swin) = match &kinds[..] {
        [a, b, c, d, e, f, g, _] => (&a.0, &b.0, &c.0, &d.0, &e.0, &f.0, &g.0),
        _ => unreachable!("eight kinds"),
    };
    let fails = |value: &Value, change: Value, word: &str| {
        let mut value = value.clone();
        value.as_object_mut().expect("a map").extend(change.as_object().cloned().unwrap_or_default());
        let error = match serde_json::from_value::<NetworkConfig>(value) {
            Ok(config) => config.init(&Device::default(), 0).expect_err(word).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(word), "{word}: {error}");
    };
    fails(resnet, json!({"name": "resnet18"}), "block");
    fails(resnet, json!({"layers": [1, 1]}), "layers");
    fails(resnet, json!({"layers": null}), "layers");
    fails(resnet, json!({"spatial_dims": 1}), "spatial_dims");
    fails(resnet, json!({"shortcut_type": "A", "block_inplanes": [8, 4, 4, 4]}), "block_inplanes");
    fails(resnet, json!({"widen_factor": 0.1}), "widen_factor");
    fails(resnet, json!({"pretrained": true}), "pretrained");
    fails(resnet, json!({"colour": 1}), "colour");
    fails(dense, json!({"growth_rate": 0}), "growth");
    fails(dense, json!({"norm": "bath"}), "bath");
    fails(dense, json!({"dropout_prob": 2.0}), "dropout");
    fails(fully, json!({"pool": ["avg", {"stride": 1}]}), "kernel_size");
    fails(fully, json!({"pool": ["avg", {"kernel_size": 2, "padding": 2}]}), "padding");
    fails(fully, json!({"pool": "average"}), "average");
    fails(fully, json!({"in_channels": 5}), "in_channels");
    fails(fully, json!({"dim": 2}), "dim");
    fails(senet, json!({"block": "se_bottleneck"}), "SENet");
    fails(senet, json!({"name": "SENet"}), "block");
    fails(senet, json!({"groups": 3}), "groups");
    fails(senet, json!({"reduction": 1000}), "reduction");
    fails(vit, json!({"num_heads": 3}), "num_heads");
    fails(vit, json!({"patch_size": 9}), "patch_size");
    fails(vit, json!({"patch_size": 3, "proj_type": "perceptron"}), "patch_size");
    fails(vit, json!({"pos_embed_type": "sincos"}), "hidden_size");
    fails(unetr, json!({"img_size": 24}), "img_size");
    fails(swin, json!({"feature_size": 16}), "feature_size");
    fails(swin, json!({"depths": [1, 1]}), "depths");
    fails(swin, json!({"num_heads": [5, 1, 1, 1]}), "num_heads");
    fails(swin, json!({"use_hyena": true}), "use_hyena");
    fails(swin, json!({"patch_size": 4}), "patch_size");
}

/// `N(0, 2 / fan)` for convolutions, 0 for the biases of linear layers: MONAI's initial weights.
#[test]
fn first_weights_have_monais_distributions() {
    let deviation = |value: Value, key: &str| {
        let bytes = weights::to_bytes(&network(value)).expect("weights");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let view = file.tensor(key).expect(key);
        let values: Vec<f64> =
            view.data().chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
        (values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64).sqrt()
    };
    let close = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 0.05, "{got} for {expected}");
    let resnet = json!({"name": "resnet10", "spatial_dims": 2, "n_input_channels": 1, "num_classes": 2});
    close(deviation(resnet.clone(), "layer1.0.conv1.weight"), (2.0 / (64.0 * 9.0_f64)).sqrt());
    close(deviation(resnet.clone(), "conv1.weight"), (2.0 / (64.0 * 49.0_f64)).sqrt());
    assert_eq!(deviation(resnet, "fc.bias"), 0.0);
    let dense = json!({"name": "DenseNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2});
    close(deviation(dense, "features.conv0.weight"), (2.0 / 49.0_f64).sqrt());
    let vit = json!({"name": "ViT", "in_channels": 1, "img_size": 32, "patch_size": 8, "num_layers": 1,
        "proj_type": "perceptron"});
    close(deviation(vit.clone(), "patch_embedding.patch_embeddings.1.weight"), 0.02);
    close(deviation(vit, "patch_embedding.position_embeddings"), 0.02);
}

/// One score per position of the pooled features: every 32 pixels.
#[test]
fn a_fully_convolutional_classifier_gives_a_map_of_scores() {
    let net = network(json!({"name": "TorchVisionFCModel", "use_conv": true}));
    let device = Device::default();
    assert_eq!(net.forward(draw([1, 3, 224, 224, 1], 1, &device)).dims(), [1, 1, 1, 1, 1]);
    let wide = net.forward(draw([1, 3, 224, 320, 1], 1, &device));
    assert_eq!(wide.dims(), [1, 1, 1, 4, 1]);
}

/// Skipped items of a batch are 0 and the others are scaled up, so the mean is unchanged.
#[test]
fn skipped_blocks_keep_the_mean() {
    use hearth_nn::layers::{DropPath, DropoutClock};
    let layer = DropPath::new("here", 0.25, &DropoutClock::default()).expect("a probability");
    let x = Tensor::<3>::ones([4000, 2, 1], &Device::default().autodiff());
    let y = values(layer.forward(x.clone()));
    assert!(y.chunks(2).all(|item| item[0] == item[1] && (item[0] == 0.0 || (item[0] - 4.0 / 3.0).abs() < 1e-6)));
    assert!((y.iter().sum::<f32>() / 8000.0 - 1.0).abs() < 0.05);
    assert_close(&values(layer.forward(x.inner())), &[1.0; 8000], 0.0);
    assert!(DropPath::new("here", 1.5, &DropoutClock::default()).is_err());
}
