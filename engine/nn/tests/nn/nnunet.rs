//! The networks of nnU-Net, compared with recordings of nnU-Net.

use std::collections::BTreeSet;
use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::networks::{Network, NetworkConfig};
use hearth_nn::pytorch::{OpenOptions, StateDict};
use hearth_nn::weights;
use safetensors::{SafeTensors, serialize};
use serde_json::{Value, json};

fn golden(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet").join(path)
}

fn network(more: Value) -> NetworkConfig {
    let mut config = json!({"spatial_dims": 3, "in_channels": 1, "out_channels": 3, "features_per_stage": [4, 6, 8],
        "kernel_sizes": [3, 3, 3], "strides": [1, 2, [1, 2, 2]], "deep_supervision": true});
    config.as_object_mut().expect("a table").extend(more.as_object().cloned().unwrap_or_default());
    serde_json::from_value(config).expect("a network")
}

/// Weights and the first forward pass of a training step.
#[test]
fn outputs_of_all_steps_are_those_of_nnunet() {
    let plain = json!({"name": "PlainConvUNet", "n_conv_per_stage": [2, 2, 2], "n_conv_per_stage_decoder": [2, 2]});
    let residual = json!({"name": "ResidualEncoderUNet", "n_blocks_per_stage": [1, 2, 2]});
    for (file, config) in [("steps_plain", plain), ("steps_residual", residual)] {
        let bytes = std::fs::read(golden(&format!("training/{file}.safetensors"))).expect("recorded steps");
        let recorded = SafeTensors::deserialize(&bytes).expect("whole");
        let own = recorded.tensors();
        let own = own.iter().filter_map(|(name, view)| Some((name.strip_prefix("weight.")?, view)));
        let own = serialize(own, None).expect("weights");
        let array = |name: &str| -> Tensor<5> {
            let view = recorded.tensor(name).expect("an array");
            let values: Vec<f32> = view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            Tensor::from_data(TensorData::new(values, view.shape().to_vec()), &Device::default())
        };
        let device = Device::default().autodiff();
        let net = network(config).init(&device, 0).expect("a network");
        let (net, report) = weights::from_bytes(net, &own).expect("every key");
        assert!(report.is_complete());
        let x = Tensor::from_data(array("in.x").into_data(), &device);
        let outputs = net.forward_all(x.clone());
        assert_eq!(outputs.len(), 2);
        for (index, output) in outputs.into_iter().enumerate() {
            let expected = array(&format!("out.head{index}"));
            assert_eq!(output.dims(), expected.dims());
            let error = (output.inner() - expected).abs().max().into_scalar::<f32>();
            assert!(error < 2e-5, "{file}, output {index}: {error}");
        }
        let evaluated = net.valid().forward(x.inner());
        let error = (evaluated - array("out.head0")).abs().max().into_scalar::<f32>();
        assert!(error < 2e-5, "{file}, evaluated: {error}");
    }
}

/// Each tensor has all keys that nnU-Net uses.
#[test]
fn keys_are_those_of_nnunets_checkpoints() {
    let plain = json!({"name": "PlainConvUNet", "features_per_stage": [4, 8, 16], "kernel_sizes": [[1, 3, 3], 3, 3],
        "strides": [1, [1, 2, 2], 2], "deep_supervision": false});
    let residual = json!({"name": "ResidualEncoderUNet", "in_channels": 2, "features_per_stage": [4, 8, 16],
        "strides": [1, 2, 2], "n_blocks_per_stage": [1, 2, 2]});
    let flat = json!({"name": "PlainConvUNet", "spatial_dims": 2, "features_per_stage": [8, 16, 24],
        "strides": [1, 2, 2]});
    for (case, config) in
        [("ct_aniso_separate_z", plain), ("mr_resenc_masked_2ch", residual), ("mr_2d_transposed", flat)]
    {
        let path = golden(&format!("{case}/model/fold_0/checkpoint_final.pth"));
        let mut dict = StateDict::open(&path, &OpenOptions::default()).expect("a checkpoint");
        assert_eq!(dict.found_at, "network_weights");
        assert_eq!(dict.value(&["init_args", "configuration"]).map(|v| v.is_string()), Some(true), "{case}");
        assert!(dict.value(&["inference_allowed_mirroring_axes"]).is_some_and(|axes| axes.is_array()));
        assert_eq!(dict.value(&["nothing", "here"]), None);
        let net = network(config).init(&Device::default(), 0).expect("a network");
        let net = weights::from_bytes(net, &dict.to_bytes().expect("weights")).expect("every key").0;
        let ours = weights::to_bytes(&net).expect("weights");
        let ours = SafeTensors::deserialize(&ours).expect("whole");
        let [ours, theirs]: [BTreeSet<String>; 2] =
            [ours.names().into_iter().map(str::to_owned).collect(), dict.keys().map(str::to_owned).collect()];
        assert_eq!(ours, theirs, "{case}");
        // One of several keys is sufficient.
        dict.retain(|key| !key.contains(".all_modules.") && !key.starts_with("decoder.encoder."));
        weights::from_bytes(net, &dict.to_bytes().expect("weights")).expect("every tensor");
    }
}

#[test]
fn sizes_that_do_not_fit_each_other_are_errors() {
    for (more, said) in [
        (json!({"name": "PlainConvUNet", "strides": [1, 2]}), "the length of strides"),
        (json!({"name": "PlainConvUNet", "kernel_sizes": [3, 2, 3]}), "odd"),
        (json!({"name": "PlainConvUNet", "features_per_stage": [4]}), "features_per_stage"),
        (json!({"name": "PlainConvUNet", "n_conv_per_stage": [2, 0, 2]}), "n_conv_per_stage"),
        (json!({"name": "ResidualEncoderUNet", "n_conv_per_stage_decoder": [1]}), "n_conv_per_stage_decoder"),
        (json!({"name": "ResidualEncoderUNet", "stem_channels": 0}), "stem_channels"),
    ] {
        let error = network(more.clone()).init(&Device::default(), 0).expect_err("wrong").to_string();
        assert!(error.contains(said), "{more}: {error}");
    }
    let net = network(json!({"name": "PlainConvUNet"})).init(&Device::default(), 0).expect("a network");
    let error = net.check_input([1, 1, 8, 16, 15]).expect_err("15 cannot be halved").to_string();
    assert!(error.contains("[2, 4, 4]"), "{error}");
}
