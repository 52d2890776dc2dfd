//! The convolutional networks: gradients, state-dict keys, initial weights, options and inputs.
//! The golden cases compare their outputs with MONAI.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_nn::layers::{Scope, UpSample, UpSampleOptions, UpsampleMode};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::optim::Gradients;
use hearth_nn::weights;
use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::gradients::check_input;
use crate::{assert_close, batch, draw, values};

fn network(config: &Value, device: &Device) -> AnyNetwork {
    let config: NetworkConfig = serde_json::from_value(config.clone()).unwrap_or_else(|e| panic!("{config}: {e}"));
    config.init(device, 3).unwrap_or_else(|e| panic!("{config:?}: {e}"))
}

/// Small networks, with smooth activations if they have the option, and an input for each.
fn smooth() -> Vec<(Value, [usize; 5])> {
    let segresnet = |mode: &str, dims: usize| {
        json!({"name": "SegResNet", "spatial_dims": dims, "init_filters": 4, "act": "tanh", "upsample_mode": mode,
            "norm": ["group", {"num_groups": 2}], "blocks_down": [1, 1], "blocks_up": [1]})
    };
    vec![
        (
            json!({"name": "DynUNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "kernel_size": [3, [3, 3, 1], 3],
                "strides": [1, [2, 2, 1], 2], "upsample_kernel_size": [[2, 2, 1], 2], "filters": [2, 3, 4],
                "act_name": "tanh", "res_block": true, "deep_supervision": true}),
            [1, 1, 8, 8, 4],
        ),
        (segresnet("nontrainable", 3), [1, 1, 4, 6, 4]),
        (segresnet("pixelshuffle", 3), [1, 1, 4, 4, 4]),
        (segresnet("deconv", 2), [1, 1, 6, 4, 1]),
        (
            json!({"name": "SegResNetDS", "init_filters": 2, "act": "tanh", "norm": "instance", "blocks_down": [1, 1, 1],
                "dsdepth": 2, "upsample_mode": "nontrainable", "resolution": [1.0, 1.0, 2.0]}),
            [1, 1, 4, 8, 4],
        ),
        (
            json!({"name": "AutoEncoder", "spatial_dims": 2, "in_channels": 1, "out_channels": 1, "channels": [2, 3],
                "strides": [2, 2], "inter_channels": [3], "inter_dilations": [2], "act": "tanh"}),
            [1, 1, 8, 8, 1],
        ),
        (
            json!({"name": "Regressor", "in_shape": [1, 6, 5, 4], "out_shape": [2, 2], "channels": [2, 3], "strides": [2, 1],
                "act": "tanh"}),
            [2, 1, 6, 5, 4],
        ),
        (
            json!({"name": "Critic", "in_shape": [1, 8, 6], "channels": [2, 3], "strides": [2, 1], "act": "tanh",
                "dropout": null}),
            [2, 1, 8, 6, 1],
        ),
        (
            json!({"name": "Generator", "latent_shape": [2, 3], "start_shape": [2, 3, 2], "channels": [2, 1],
                "strides": [2, 2], "act": "tanh"}),
            [2, 2, 3, 1, 1],
        ),
        (
            json!({"name": "HighResNet", "spatial_dims": 2, "norm_type": "instance", "acti_type": "tanh", "layer_params": [
                {"n_features": 2, "kernel_size": 3}, {"n_features": 3, "kernels": [3, 3], "repeat": 1},
                {"n_features": 4, "kernels": [3], "repeat": 2}, {"n_features": 3, "kernel_size": 1}, {"kernel_size": 1}]}),
            [1, 1, 7, 6, 1],
        ),
        (
            json!({"name": "PatchDiscriminator", "spatial_dims": 2, "channels": 2, "in_channels": 1, "num_layers_d": 1,
                "activation": "tanh", "norm": "instance"}),
            [1, 1, 12, 10, 1],
        ),
        (
            json!({"name": "VNet", "spatial_dims": 2, "base": 1, "act": "tanh", "dropout_prob_down": 0.0,
                "dropout_prob_up": [0.0, 0.0], "dropout_prob_top": 0.0}),
            [2, 1, 32, 16, 1],
        ),
    ]
}

#[test]
fn gradients_to_the_input() {
    for (config, shape) in smooth() {
        let net = network(&config, &Device::default().autodiff());
        // In training mode, although only the value is used.
        check_input(&config.to_string(), draw(shape, 7, &Device::default()), |x| {
            let scores = net.forward_all(x.autodiff()).into_iter().enumerate().map(|(i, y)| {
                let cot = draw(y.dims(), 9 + i as u64, &y.device());
                (y * cot).mean()
            });
            scores.reduce(|a, b| a + b).expect("an output")
        });
    }
}

#[test]
fn every_parameter_has_a_gradient_unless_no_output_needs_it() {
    let device = Device::default().autodiff();
    for (config, shape) in smooth() {
        let net = network(&config, &device);
        let outputs = net.forward_all(draw(shape, 1, &device));
        let loss = outputs.into_iter().map(|y| (y.clone() * y).mean()).reduce(|a, b| a + b).expect("an output");
        let gradients = Gradients::of(&net, &loss);
        let bytes = weights::to_bytes(&net).expect("weights");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let named: BTreeSet<String> = gradients.iter().filter_map(|(path, _)| net.torch_name(path)).collect();
        let trains = |name: &str| !name.contains("running_") && !name.contains("num_batches");
        let without = file.names().into_iter().filter(|name| trains(name) && !named.contains(*name));
        let without: Vec<&str> = without.filter(|name| !name.starts_with("skip_layers")).collect();
        // The activation of SegResNet's last convolution has no parameters here.
        assert_eq!(without, Vec::<&str>::new(), "{config}");
    }
}

/// MONAI's DynUNet registers its blocks twice. A file may hold both keys or one.
#[test]
fn shared_modules_have_all_their_keys() -> Result<(), Box<dyn std::error::Error>> {
    let config = json!({"name": "DynUNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3, 3],
        "strides": [1, 2, 2, 2], "upsample_kernel_size": [2, 2, 2], "filters": [2, 3, 4, 5], "act_name": "prelu",
        "deep_supervision": true, "deep_supr_num": 2});
    let net = network(&config, &Device::default());
    let bytes = weights::to_bytes(&net)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let pairs = [
        ("input_block.conv1.conv.weight", "skip_layers.downsample.conv1.conv.weight"),
        ("downsamples.1.lrelu.weight", "skip_layers.next_layer.next_layer.downsample.lrelu.weight"),
        ("bottleneck.norm2.bias", "skip_layers.next_layer.next_layer.next_layer.norm2.bias"),
        ("upsamples.0.transp_conv.conv.weight", "skip_layers.next_layer.next_layer.upsample.transp_conv.conv.weight"),
        ("deep_supervision_heads.0.conv.conv.bias", "skip_layers.next_layer.super_head.conv.conv.bias"),
    ];
    for (main, alias) in pairs {
        assert_eq!(file.tensor(main)?.data(), file.tensor(alias)?.data(), "{main}");
    }
    let other = network(&config, &Device::default());
    assert!(weights::from_bytes(other.clone(), &bytes)?.1.is_complete());
    for keep_aliases in [false, true] {
        let kept = file.tensors().into_iter().filter(|(name, _)| {
            let has_alias = !name.starts_with("output_block") && !name.starts_with("skip_layers");
            if keep_aliases { !has_alias } else { !name.starts_with("skip_layers") }
        });
        let kept = safetensors::serialize(kept, None)?;
        assert!(weights::from_bytes(other.clone(), &kept)?.1.is_complete());
    }
    let strange = safetensors::serialize(
        file.tensors().into_iter().map(|(name, view)| (name.replace("next_layer", "next"), view)),
        None,
    )?;
    assert!(weights::from_bytes(other, &strange).is_err());
    Ok(())
}

fn upsampled(mode: UpsampleMode, align_corners: bool, x: Tensor<5>) -> Tensor<5> {
    let options = UpSampleOptions { align_corners, ..UpSampleOptions::new(2, [1, 1], mode) };
    UpSample::new(&Scope::new(&Device::default(), 0), &options).expect("a layer").forward(x)
}

/// Two voxels in a row, resized by hand.
#[test]
fn linear_upsampling_is_what_it_is_by_hand() {
    let x = batch(&[0.0, 1.0, 0.0, 1.0], [1, 1, 2, 2, 1]);
    let y = values(upsampled(UpsampleMode::NonTrainable, false, x.clone()));
    assert_close(&y[..4], &[0.0, 0.25, 0.75, 1.0], 1e-6);
    let y = values(upsampled(UpsampleMode::NonTrainable, true, x));
    assert_close(&y[..4], &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0], 1e-6);
}

/// Initially all voxels from the same source voxel are equal, and the mean after them does not
/// change the interior.
#[test]
fn a_pixel_shuffle_starts_without_a_checkerboard() {
    let options = UpSampleOptions::new(3, [2, 3], UpsampleMode::PixelShuffle);
    let layer = UpSample::new(&Scope::new(&Device::default(), 1), &options).expect("a layer");
    let UpSample::PixelShuffle(layer) = &layer else { panic!("a pixel shuffle") };
    let weight = values(layer.pixelshuffle.conv_block.weight.val());
    let kernel = 2 * 27;
    for group in weight.chunks_exact(8 * kernel) {
        group.chunks_exact(kernel).for_each(|other| assert_eq!(other, &group[..kernel]));
    }
    assert_ne!(weight[..kernel], weight[8 * kernel..9 * kernel]);
    assert_eq!(layer.pixelshuffle.forward(Tensor::zeros([1, 2, 3, 4, 5], &Device::default())).dims(), [1, 3, 6, 8, 10]);
}

/// `N(0, 0.02)` for kernels and `N(1, 0.02)` for scales, as in `monai.networks.utils.normal_init`;
/// He's distribution for DynUNet.
#[test]
fn initial_weights_have_monais_distributions() {
    let deviation = |config: &Value, name: &str, mean: f64| {
        let bytes = weights::to_bytes(&network(config, &Device::default())).expect("weights");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let data = file.tensor(name).expect(name).data().to_vec();
        let drawn = data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])) - mean);
        let squares: Vec<f64> = drawn.map(|v| v * v).collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    let patches = json!({"name": "PatchDiscriminator", "spatial_dims": 2, "channels": 64, "in_channels": 1});
    assert!((deviation(&patches, "0.conv.weight", 0.0) / 0.02 - 1.0).abs() < 0.05);
    assert!((deviation(&patches, "1.adn.N.weight", 1.0) / 0.02 - 1.0).abs() < 0.2);
    assert_eq!(deviation(&patches, "initial_conv.conv.bias", 0.0), 0.0);
    let dynunet = json!({"name": "DynUNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3],
        "strides": [1, 2, 2], "upsample_kernel_size": [2, 2], "filters": [16, 32, 48], "trans_bias": true});
    let he = |fan_in: f64| (2.0 / (1.0001 * fan_in)).sqrt();
    assert!((deviation(&dynunet, "bottleneck.conv1.conv.weight", 0.0) / he(32.0 * 27.0) - 1.0).abs() < 0.03);
    assert!((deviation(&dynunet, "upsamples.0.transp_conv.conv.weight", 0.0) / he(32.0 * 8.0) - 1.0).abs() < 0.05);
    assert_eq!(deviation(&dynunet, "upsamples.0.transp_conv.conv.bias", 0.0), 0.0);
}

/// In training the draws of the autoencoder depend on seed and step; in evaluation there are none.
#[test]
fn latent_variables_are_drawn_by_step() {
    let config = json!({"name": "SegResNetVAE", "input_image_size": [8, 8], "spatial_dims": 2, "init_filters": 4,
        "norm": ["group", {"num_groups": 2}], "blocks_down": [1, 1], "blocks_up": [1]});
    let device = Device::default().autodiff();
    let net = network(&config, &device);
    let x = draw([1, 1, 8, 8, 1], 1, &device);
    let loss = |seed: u64, step: u64| {
        net.set_draw(seed, step);
        let (outputs, loss) = net.forward_with_loss(x.clone());
        assert_eq!(outputs.len(), 1);
        values(loss.expect("a loss in training"))[0]
    };
    assert_eq!(loss(1, 2), loss(1, 2));
    assert_ne!(loss(1, 2), loss(1, 3));
    assert_ne!(loss(1, 2), loss(2, 2));
    assert!(net.valid().forward_with_loss(x.inner()).1.is_none());
}

#[test]
fn inputs_that_do_not_fit_are_told_what_would() {
    let device = Device::default();
    let told = |config: Value, shape: [usize; 5], word: &str| {
        let error = network(&config, &device).check_input(shape).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    };
    told(json!({"name": "SegResNet", "norm": "batch"}), [1, 1, 20, 24, 24], "[24, 24, 24]");
    told(json!({"name": "BasicUNet", "features": [2, 2, 2, 2, 2, 2]}), [1, 1, 15, 16, 16], "at least [16, 16, 16]");
    told(json!({"name": "BasicUNet", "features": [2, 2, 2, 2, 2, 2]}), [1, 2, 16, 16, 16], "in_channels");
    let regressor =
        json!({"name": "Regressor", "in_shape": [1, 8, 8], "out_shape": [1], "channels": [2], "strides": [2]});
    told(regressor, [1, 1, 8, 9, 1], "[8, 8, 1]");
    let generator =
        json!({"name": "Generator", "latent_shape": [4], "start_shape": [2, 3, 3], "channels": [1], "strides": [2]});
    told(generator, [1, 5, 1, 1, 1], "[4, 1, 1, 1]");
    told(
        json!({"name": "PatchDiscriminator", "spatial_dims": 2, "channels": 2, "in_channels": 1}),
        [1, 1, 16, 16, 1],
        "small",
    );
}

#[test]
fn options_that_cannot_be_are_named() {
    let fails = |config: Value, word: &str| {
        let config: NetworkConfig = serde_json::from_value(config).expect("known options");
        let error = config.init(&Device::default(), 0).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    };
    let dynunet = |change: Value| {
        let mut config = json!({"name": "DynUNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2,
            "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2]});
        config.as_object_mut().expect("a map").extend(change.as_object().cloned().unwrap_or_default());
        config
    };
    fails(dynunet(json!({"strides": [1, 2]})), "kernel_size and strides");
    fails(dynunet(json!({"upsample_kernel_size": [2, 4]})), "upsample_kernel_size");
    fails(dynunet(json!({"filters": [4, 8]})), "filters");
    fails(dynunet(json!({"deep_supervision": true, "deep_supr_num": 2})), "deep_supr_num");
    fails(
        dynunet(json!({"kernel_size": [3, 1, 3], "strides": [1, 3, 2], "upsample_kernel_size": [3, 2]})),
        "kernel_size",
    );
    fails(json!({"name": "SegResNet", "blocks_up": [1]}), "blocks_up");
    fails(json!({"name": "SegResNet", "norm_name": "batch"}), "norm_name");
    fails(json!({"name": "SegResNet", "init_filters": 4}), "num_groups");
    fails(json!({"name": "SegResNetDS", "resolution": [1.0, 0.0, 1.0]}), "resolution");
    fails(json!({"name": "SegResNetVAE", "input_image_size": [8, 9, 8]}), "input_image_size");
    fails(json!({"name": "BasicUNet", "features": [1, 2, 3]}), "features");
    fails(json!({"name": "VNet", "in_channels": 3}), "in_channels");
    fails(json!({"name": "AHNet", "psp_block_num": 5}), "psp_block_num");
    fails(json!({"name": "AHNet", "upsample_mode": "bilinear"}), "upsample_mode");
    fails(json!({"name": "HighResNet", "layer_params": [{"n_features": 4, "kernel_size": 3}]}), "layer_params");
    fails(
        json!({"name": "HighResNet", "layer_params": [{"n_features": 4, "kernel_size": 3}, {"n_features": 4, "kernel_size": 1},
            {}]}),
        "layer_params[2].kernel_size",
    );
    fails(
        json!({"name": "AttentionUnet", "spatial_dims": 2, "in_channels": 1, "out_channels": 1, "channels": [1, 2],
            "strides": [2]}),
        "channels",
    );
    fails(
        json!({"name": "MultiScalePatchDiscriminator", "num_d": 3, "num_layers_d": 4, "spatial_dims": 2, "channels": 2,
            "in_channels": 1}),
        "minimum_size_im",
    );
    assert!(serde_json::from_value::<NetworkConfig>(json!({"name": "SegResNet", "upsample_mode": "up"})).is_err());
    assert!(serde_json::from_value::<NetworkConfig>(json!({"name": "BasicUnet", "feature": []})).is_err());
}
