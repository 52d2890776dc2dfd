//! Every network overfits one small batch. A wrong gradient, a detached layer or an output without
//! a loss would prevent it.

use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::losses::{CrossEntropyLoss, DeepSupervisionLoss, DiceCELoss, Loss, LossConfig, PatchAdversarialLoss};
use hearth_nn::networks::{Network, NetworkConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use serde_json::{Value, json};

use crate::draw;

/// The target of the batch.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    /// A label map, from every output.
    Segment,
    /// The class of each item.
    Classify,
    /// A given number per item and channel, from every output.
    Imitate,
    /// The image of the block, from vectors that identify the items.
    Paint,
    /// The input itself, with the loss of the latent variables.
    Reconstruct,
    /// Real for the first item, generated for the others.
    Judge,
}
use Task::{Classify, Imitate, Judge, Paint, Reconstruct, Segment};

/// A block of foreground at a different position in each item.
fn label(shape: [usize; 5], device: &Device) -> Tensor<5> {
    let [b, _, x, y, z] = shape;
    let mut label = Tensor::zeros([b, 1, x, y, z], device);
    for item in 0..b {
        let (from, depth) = (item * x / 4, if z == 1 { 0..1 } else { z / 4..3 * z / 4 });
        label = label.slice_fill([item..item + 1, 0..1, from..from + x / 2, y / 4..3 * y / 4, depth], 1.0);
    }
    label
}

/// An image in which the block is visible.
fn image(shape: [usize; 5], device: &Device) -> Tensor<5> {
    // The latent vector of a generator is not an image.
    let block = if shape[2] == 1 { Tensor::zeros(shape, device) } else { label(shape, device) };
    block + draw(shape, 3, device) * 0.5
}

fn loss(task: Task, net: &impl Network, x: &Tensor<5>, config: &Value) -> Tensor<1> {
    let device = x.device();
    let fail = |error: hearth_nn::losses::LossError| -> Tensor<1> { panic!("{config}: {error}") };
    let squares = |y: Tensor<5>, target: Tensor<5>| (y - target).powi_scalar(2).mean();
    let (outputs, own) = net.forward_with_loss(x.clone());
    let value = match task {
        Segment => {
            let dice = DiceCELoss { to_onehot_y: true, softmax: true, ..DiceCELoss::default() };
            let deep = DeepSupervisionLoss::new(LossConfig::of("DiceCELoss", &dice).expect("sound"));
            deep.forward_all(outputs, label(x.dims(), &device)).unwrap_or_else(fail)
        }
        Classify => {
            let classes: Vec<f32> = (0..x.dims()[0]).map(|item| (item % 2) as f32).collect();
            let classes = Tensor::<1>::from_floats(classes.as_slice(), &device).reshape([x.dims()[0], 1, 1, 1, 1]);
            CrossEntropyLoss::default().forward(outputs[0].clone(), classes).unwrap_or_else(fail)
        }
        Imitate => {
            let of = |(i, y): (usize, Tensor<5>)| {
                let [b, c, ..] = y.dims();
                // Some outputs are never negative.
                let target = (draw([b, c, 1, 1, 1], 40 + i as u64, &device) + 1.0) * 0.5;
                squares(y.clone(), target.expand(y.dims()))
            };
            outputs.into_iter().enumerate().map(of).reduce(|a, b| a + b).unwrap_or_else(|| panic!("no output"))
        }
        Paint => squares(outputs[0].clone(), label(outputs[0].dims(), &device)),
        Reconstruct => squares(outputs[0].clone(), label(x.dims(), &device)),
        Judge => {
            let judge = PatchAdversarialLoss::default();
            let of = |y: &Tensor<5>| {
                let [real, fake] = [(0, true), (1, false)].map(|(item, real)| {
                    let y = y.clone().narrow(0, item, 1);
                    judge.forward(&[y], real, true).unwrap_or_else(fail)
                });
                real + fake
            };
            outputs.iter().map(of).reduce(|a, b| a + b).unwrap_or_else(|| panic!("no output"))
        }
    };
    match own {
        Some(own) => value + own * 0.01,
        None => value,
    }
}

/// Trains until the loss is below the first one divided by `factor`.
fn learns(config: &Value, shape: [usize; 5], task: Task, lr: f64, factor: f32) {
    let device = Device::default().autodiff();
    let read: NetworkConfig = serde_json::from_value(config.clone()).unwrap_or_else(|e| panic!("{config}: {e}"));
    let mut net = read.init(&device, 5).unwrap_or_else(|e| panic!("{config}: {e}"));
    net.check_input(shape).unwrap_or_else(|e| panic!("{config}: {e}"));
    let mut optimizer = OptimizerConfig::adam().build().expect("consistent");
    let mut x = image(shape, &device);
    if task == Judge {
        // Every patch must be distinguishable, not only those that contain the block.
        let [b, c, ..] = shape;
        let sides = Tensor::cat(
            vec![Tensor::<5>::ones([1, c, 1, 1, 1], &device), Tensor::zeros([b - 1, c, 1, 1, 1], &device)],
            0,
        );
        x = x + sides.expand(shape) * 2.0;
    }
    let (mut first, mut last) = (f32::NAN, f32::NAN);
    for step in 0..STEPS {
        net.set_draw(1, step);
        let value = loss(task, &net, &x, config);
        last = value.clone().into_scalar::<f32>();
        assert!(last.is_finite(), "{config}: the loss is {last} at step {step}");
        if step == 0 {
            first = last;
        }
        if last * factor < first {
            return;
        }
        let gradients = Gradients::of(&net, &value);
        net = optimizer.step(net, gradients, lr).expect("its own gradients");
    }
    panic!("{config}: the loss fell from {first} to {last} in {STEPS} steps, not to a {factor}th");
}

/// The number of steps, sufficient for any network.
const STEPS: u64 = 150;

const FLAT: [usize; 5] = [2, 1, 16, 16, 1];
const SOLID: [usize; 5] = [2, 1, 16, 16, 16];

#[test]
fn segmentation_networks_of_convolutions() {
    let io = |more: Value| {
        let mut config = json!({"spatial_dims": 2, "in_channels": 1, "out_channels": 2});
        config.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        config
    };
    let solid = |more: Value| {
        let mut config = io(more);
        config["spatial_dims"] = json!(3);
        config
    };
    let levels = json!({"name": "UNet", "channels": [4, 8, 16], "strides": [2, 2], "num_res_units": 1});
    let mut attention = levels.clone();
    attention["name"] = json!("AttentionUnet");
    attention.as_object_mut().expect("a map").remove("num_res_units");
    let features = json!({"name": "BasicUNet", "features": [4, 4, 8, 8, 8, 4]});
    let nested = json!({"name": "BasicUNetPlusPlus", "features": [4, 4, 8, 8, 8, 4], "deep_supervision": true});
    let dynamic = json!({"name": "DynUNet", "kernel_size": [3, 3, 3, 3], "strides": [1, 2, 2, 2],
        "upsample_kernel_size": [2, 2, 2], "filters": [4, 8, 8, 8], "deep_supervision": true, "deep_supr_num": 2,
        "res_block": true});
    let high = json!({"name": "HighResNet", "layer_params": [{"n_features": 4, "kernel_size": 3},
        {"n_features": 4, "kernels": [3, 3], "repeat": 1}, {"n_features": 8, "kernels": [3, 3], "repeat": 1},
        {"n_features": 8, "kernel_size": 1}, {"kernel_size": 1}]});
    let seg = json!({"name": "SegResNet", "init_filters": 8, "blocks_down": [1, 1, 1], "blocks_up": [1, 1]});
    let deep = json!({"name": "SegResNetDS", "init_filters": 4, "blocks_down": [1, 1, 1], "dsdepth": 2});
    let two = json!({"name": "SegResNetDS2", "init_filters": 4, "blocks_down": [1, 1, 1]});
    let vae = |size: Value| {
        json!({"name": "SegResNetVAE", "input_image_size": size, "vae_nz": 8, "init_filters": 8, "blocks_down": [1, 1],
            "blocks_up": [1], "norm": ["group", {"num_groups": 4}]})
    };
    let v = json!({"name": "VNet", "base": 2, "dropout_prob_down": 0.0, "dropout_prob_up": [0.0, 0.0],
        "dropout_prob_top": 0.0});
    let stages = json!({"features_per_stage": [4, 8, 8], "kernel_sizes": [3, 3, 3], "strides": [1, 2, 2],
        "deep_supervision": true});
    let [mut plain, mut residual] = [stages.clone(), stages];
    plain["name"] = json!("PlainConvUNet");
    residual["name"] = json!("ResidualEncoderUNet");
    residual["n_blocks_per_stage"] = json!([1, 2, 2]);
    for config in [levels, attention, features, nested, dynamic, high, seg, deep, two, plain, residual] {
        learns(&io(config.clone()), FLAT, Segment, 0.01, 4.0);
        learns(&solid(config), SOLID, Segment, 0.02, 2.0);
    }
    learns(&io(vae(json!([16, 16]))), FLAT, Segment, 0.01, 3.0);
    learns(&solid(vae(json!([8, 8, 8]))), [1, 1, 8, 8, 8], Segment, 0.02, 2.0);
    learns(&io(v.clone()), [2, 1, 32, 32, 1], Segment, 0.01, 4.0);
    learns(&solid(v), [2, 1, 32, 32, 32], Segment, 0.02, 2.0);
    let anisotropic = json!({"name": "AHNet", "layers": [1, 1, 1, 1], "psp_block_num": 1});
    learns(&io(anisotropic), [2, 1, 64, 64, 1], Segment, 0.003, 4.0);
}

#[test]
fn classification_networks() {
    for (dims, shape) in [(2, [2, 1, 32, 32, 1]), (3, [2, 1, 16, 16, 16])] {
        let resnet = json!({"name": "ResNet", "block": "basic", "layers": [1, 1, 1, 1], "block_inplanes": [4, 4, 8, 8],
            "spatial_dims": dims, "n_input_channels": 1, "num_classes": 2});
        let dense = json!({"name": "DenseNet", "spatial_dims": dims, "in_channels": 1, "out_channels": 2,
            "init_features": 8, "growth_rate": 4, "block_config": [2, 2]});
        let senet = json!({"name": "SENet", "spatial_dims": dims, "in_channels": 1, "num_classes": 2, "layers": [1, 1, 1, 1],
            "block": "se_resnet_bottleneck", "groups": 1, "reduction": 16, "inplanes": 8, "input_3x3": false,
            "downsample_kernel_size": 1, "dropout_prob": null});
        let space = if dims == 2 { vec![1, 32, 32] } else { vec![1, 16, 16, 16] };
        let classifier = json!({"name": "Classifier", "in_shape": space, "classes": 2, "channels": [4, 8],
            "strides": [2, 2]});
        for config in [resnet, dense, senet, classifier] {
            learns(&config, shape, Classify, 0.01, 10.0);
        }
    }
    let model =
        json!({"block": "basic", "layers": [1, 1, 1, 1], "block_inplanes": [4, 4, 8, 8], "n_input_channels": 1});
    let adapter = json!({"name": "NetAdapter", "model": model, "dim": 3, "num_classes": 2, "pool": null});
    learns(&adapter, [2, 1, 16, 16, 16], Classify, 0.01, 10.0);
    let fully = json!({"name": "TorchVisionFCModel", "model_name": "resnet18", "num_classes": 2, "use_conv": true,
        "pool": ["avg", {"kernel_size": 2, "stride": 1}]});
    learns(&fully, [2, 3, 64, 64, 1], Classify, 0.001, 10.0);
    for (dims, size, shape) in [(2, json!([16, 16]), FLAT), (3, json!([8, 8, 8]), [2, 1, 8, 8, 8])] {
        let vit = json!({"name": "ViT", "in_channels": 1, "img_size": size, "patch_size": 4, "hidden_size": 16,
            "mlp_dim": 16, "num_heads": 2, "num_layers": 2, "classification": true, "spatial_dims": dims,
            "post_activation": "none"});
        learns(&vit, shape, Classify, 0.01, 10.0);
    }
}

#[test]
fn transformers_for_segmentation_and_features() {
    let unetr = |dims: usize, size: Value| {
        json!({"name": "UNETR", "in_channels": 1, "out_channels": 2, "img_size": size, "feature_size": 4,
            "hidden_size": 16, "mlp_dim": 16, "num_heads": 2, "spatial_dims": dims})
    };
    learns(&unetr(2, json!([32, 32])), [2, 1, 32, 32, 1], Segment, 0.01, 4.0);
    learns(&unetr(3, json!([16, 16, 16])), [1, 1, 16, 16, 16], Segment, 0.02, 2.0);
    for (dims, shape, v2) in [(2, [2, 1, 32, 32, 1], false), (3, [1, 1, 32, 32, 32], true)] {
        let swin = json!({"name": "SwinUNETR", "in_channels": 1, "out_channels": 2, "feature_size": 12,
            "depths": [2, 1, 1, 1], "num_heads": [2, 2, 2, 2], "window_size": 4, "spatial_dims": dims, "use_v2": v2});
        learns(&swin, shape, Segment, 0.01, 3.0);
    }
    let encoder = json!({"name": "SwinTransformer", "spatial_dims": 2, "in_chans": 1, "embed_dim": 12, "window_size": 2,
        "patch_size": 2, "depths": [2, 1, 1, 1], "num_heads": [2, 2, 2, 2], "normalize": false});
    learns(&encoder, [2, 1, 32, 32, 1], Imitate, 0.01, 4.0);
    let tokens = json!({"name": "ViT", "in_channels": 1, "img_size": [16, 16], "patch_size": 4, "hidden_size": 16,
        "mlp_dim": 16, "num_heads": 2, "num_layers": 1, "spatial_dims": 2});
    learns(&tokens, FLAT, Imitate, 0.02, 3.0);
}

#[test]
fn networks_that_make_images_and_numbers() {
    for (dims, shape, space) in [(2, FLAT, vec![1, 16, 16]), (3, SOLID, vec![1, 16, 16, 16])] {
        let auto = json!({"name": "AutoEncoder", "spatial_dims": dims, "in_channels": 1, "out_channels": 1,
            "channels": [4, 8], "strides": [2, 2], "inter_channels": [8], "inter_dilations": [1]});
        learns(&auto, shape, Reconstruct, 0.02, 4.0);
        let variational = json!({"name": "VarAutoEncoder", "spatial_dims": dims, "in_shape": space, "out_channels": 1,
            "latent_size": 8, "channels": [4, 8], "strides": [2, 2]});
        learns(&variational, shape, Reconstruct, 0.02, 3.0);
        let regressor = json!({"name": "Regressor", "in_shape": space, "out_shape": [2, 3], "channels": [4, 8],
            "strides": [2, 2]});
        learns(&regressor, shape, Imitate, 0.01, 20.0);
        if dims == 2 {
            let points = json!({"name": "PointRegressor", "in_shape": space, "out_shape": [2, 3],
                "channels": [4, 8], "strides": [2, 2]});
            learns(&points, shape, Imitate, 0.01, 20.0);
        }
        let critic =
            json!({"name": "Critic", "in_shape": space, "channels": [4, 8], "strides": [2, 2], "dropout": 0.0});
        learns(&critic, shape, Imitate, 0.01, 20.0);
        let discriminator = json!({"name": "Discriminator", "in_shape": space, "channels": [4, 8], "strides": [2, 2],
            "dropout": 0.0});
        learns(&discriminator, shape, Judge, 0.02, 5.0);
        let patches = json!({"name": "PatchDiscriminator", "spatial_dims": dims, "channels": 4, "in_channels": 1,
            "num_layers_d": 1, "norm": "instance"});
        learns(&patches, shape, Judge, 0.003, 3.0);
        let start = if dims == 2 { vec![4, 4, 4] } else { vec![4, 4, 4, 4] };
        let generator = json!({"name": "Generator", "latent_shape": [6], "start_shape": start, "channels": [8, 1],
            "strides": [2, 2]});
        learns(&generator, [2, 6, 1, 1, 1], Paint, 0.02, 4.0);
    }
    let scales = json!({"name": "MultiScalePatchDiscriminator", "num_d": 2, "num_layers_d": 1, "spatial_dims": 2,
        "channels": 4, "in_channels": 1, "minimum_size_im": 32, "norm": "instance"});
    learns(&scales, [2, 1, 32, 32, 1], Judge, 0.01, 5.0);
    let stages = json!({"name": "ResNetFeatures", "model_name": "resnet10", "spatial_dims": 2});
    learns(&stages, [2, 1, 32, 32, 1], Imitate, 0.003, 2.0);
}

#[test]
fn networks_of_bundles() {
    let of = |name: &str, more: Value| {
        let mut config = json!({"name": name, "in_channels": 1, "spatial_dims": 2});
        config.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        config
    };
    let large = [2, 1, 32, 32, 1];
    let flexible = json!({"out_channels": 2, "backbone": "efficientnet-b0", "decoder_channels": [16, 16, 8, 8, 8]});
    learns(&of("FlexibleUNet", flexible), large, Segment, 0.003, 3.0);
    learns(
        &of("EfficientNetBN", json!({"model_name": "efficientnet-b0", "num_classes": 2})),
        large,
        Classify,
        0.003,
        4.0,
    );
    let codes = json!([[[1, 0, 1, 0], [1, 1, 0, 1]], [[1, 0, 1, 0], [1, 0, 0, 1]]]);
    let space = json!({"name": "TopologyInstance", "num_blocks": 2, "num_depths": 2, "channel_mul": 0.125,
        "spatial_dims": 2, "arch_code": codes});
    learns(&of("DiNTS", json!({"num_classes": 2, "dints_space": space})), FLAT, Segment, 0.02, 4.0);
    let mut space = json!({"name": "TopologyInstance", "num_blocks": 1, "num_depths": 2, "channel_mul": 0.125});
    space["use_downsample"] = json!(false);
    let dints = json!({"num_classes": 2, "dints_space": space, "spatial_dims": 3, "use_downsample": false});
    learns(&of("DiNTS", dints), SOLID, Segment, 0.02, 4.0);
    let nested = json!({"name": "UNesT", "in_channels": 1, "out_channels": 2, "img_size": 64, "feature_size": 1,
        "depths": [1, 1, 1], "num_heads": [1, 2, 4], "embed_dim": [8, 16, 32]});
    learns(&nested, [2, 1, 64, 64, 64], Segment, 0.01, 2.0);
    for (dims, shape) in [(2, FLAT), (3, SOLID)] {
        let levels = json!({"out_channels": 1, "channels": [8, 8], "num_res_blocks": 1, "norm_num_groups": 4,
            "attention_levels": [false, true], "spatial_dims": dims});
        learns(&of("AutoencoderKL", levels.clone()), shape, Reconstruct, 0.01, 4.0);
        let mut levels = levels;
        levels["num_head_channels"] = json!(4);
        learns(&of("DiffusionModelUNet", levels), shape, Paint, 0.01, 4.0);
    }
}

/// One blob on each of two images: the first image is aligned with the second.
#[test]
fn a_registration_moves_an_image_onto_another() {
    let device = Device::default().autodiff();
    let blob = |[cx, cy]: [f32; 2]| {
        let value = move |i: usize| {
            let (x, y) = ((i / 32) as f32 - cx, (i % 32) as f32 - cy);
            (-(x * x + y * y) / 32.0).exp()
        };
        (0..32 * 32).map(value).collect::<Vec<f32>>()
    };
    let values = [[14.0, 16.0], [17.0, 14.0], [17.0, 13.0], [14.0, 17.0]].map(blob).concat();
    let x = Tensor::<5>::from_data(TensorData::new(values, [2, 2, 32, 32, 1]), &device);
    let read: NetworkConfig =
        serde_json::from_value(json!({"name": "RegResNet", "image_size": [32, 32]})).expect("known options");
    let mut net = read.init(&device, 5).expect("a network");
    let mut optimizer = OptimizerConfig::adam().build().expect("consistent");
    let mut losses = Vec::new();
    for _ in 0..30 {
        let away = (net.forward(x.clone()) - x.clone().narrow(1, 1, 1)).powi_scalar(2).mean();
        losses.push(away.clone().into_scalar::<f32>());
        let gradients = Gradients::of(&net, &away);
        net = optimizer.step(net, gradients, 2e-4).expect("its own gradients");
        if losses.last().is_some_and(|last| last * 4.0 < losses[0]) {
            return;
        }
    }
    panic!("nothing is moved: {losses:?}");
}
