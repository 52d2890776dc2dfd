//! Networks as ONNX models, checked by `onnx` and run by ONNX Runtime.

#[path = "../../../tests/clients.rs"]
mod clients;

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::trace::trace;
use hearth_onnx::{About, Model, lower};
use serde_json::{Map, Value, json};

/// A small network of each kind: name, table, and shape of the traced input.
const NETWORKS: &[(&str, &str, [usize; 5])] = &[
    (
        "unet",
        "name='UNet'\nspatial_dims=3\nin_channels=2\nout_channels=3\nchannels=[4,8,16]\nstrides=[2,2]\n\
         num_res_units=2\nnorm='batch'",
        [1, 2, 16, 16, 16],
    ),
    (
        "unet_plain_2d",
        "name='UNet'\nspatial_dims=2\nin_channels=1\nout_channels=2\nchannels=[4,8,8]\nstrides=[2,2]\nact='leakyrelu'",
        [1, 1, 32, 32, 1],
    ),
    ("basic_unet", "name='BasicUNet'\nin_channels=1\nout_channels=2\nfeatures=[4,4,8,8,8,4]", [1, 1, 32, 32, 32]),
    (
        "basic_unet_up",
        "name='BasicUNet'\nspatial_dims=2\nfeatures=[4,4,8,8,8,4]\nupsample='nontrainable'\nact='relu'",
        [1, 1, 64, 64, 1],
    ),
    (
        "dynunet",
        "name='DynUNet'\nspatial_dims=3\nin_channels=1\nout_channels=2\nkernel_size=[3,3,3]\nstrides=[1,2,2]\n\
         upsample_kernel_size=[2,2]\nfilters=[4,8,8]\nres_block=true",
        [1, 1, 16, 16, 16],
    ),
    (
        "segresnet",
        "name='SegResNet'\ninit_filters=8\nblocks_down=[1,2,2]\nblocks_up=[1,1]\nin_channels=4\nout_channels=3",
        [1, 4, 16, 16, 16],
    ),
    (
        "plain_conv_unet",
        "name='PlainConvUNet'\nspatial_dims=3\nin_channels=1\nout_channels=3\nfeatures_per_stage=[4,8,8]\n\
         kernel_sizes=[[3,3,1],3,3]\nstrides=[1,[2,2,1],2]",
        [1, 1, 16, 16, 8],
    ),
    (
        "residual_encoder_unet",
        "name='ResidualEncoderUNet'\nspatial_dims=3\nin_channels=1\nout_channels=2\nfeatures_per_stage=[4,8,8]\n\
         kernel_sizes=[3,3,3]\nstrides=[1,2,2]\nn_blocks_per_stage=[1,2,1]",
        [1, 1, 16, 16, 16],
    ),
    ("vnet", "name='VNet'\nin_channels=1\nout_channels=2\nbase=2", [1, 1, 32, 32, 32]),
    (
        "attention_unet",
        "name='AttentionUnet'\nspatial_dims=3\nin_channels=1\nout_channels=2\nchannels=[4,8,8]\nstrides=[2,2]",
        [1, 1, 16, 16, 16],
    ),
    (
        "densenet",
        "name='DenseNet'\nspatial_dims=2\nin_channels=1\nout_channels=4\ninit_features=8\ngrowth_rate=4\n\
         block_config=[2,3]",
        [1, 1, 64, 64, 1],
    ),
    (
        "resnet",
        "name='ResNet'\nspatial_dims=3\nn_input_channels=1\nnum_classes=3\nblock='basic'\nlayers=[1,1,1,1]\n\
         block_inplanes=[4,8,8,16]\nconv1_t_size=3",
        [1, 1, 48, 48, 48],
    ),
];

fn network(table: &str) -> AnyNetwork {
    let config: NetworkConfig = toml::from_str(table).unwrap_or_else(|error| panic!("{table}: {error}"));
    config.init(&Device::default(), 7).unwrap_or_else(|error| panic!("{table}: {error}")).valid()
}

fn model(name: &str, table: &str, input: [usize; 5]) -> Model {
    let graph = trace(&network(table), input).unwrap_or_else(|error| panic!("{name}: {error}"));
    let about = About::new(name).with("labels", r#"["background","tumour"]"#);
    lower(&graph, &about).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A shape that differs from the traced one, with two items.
fn other([_, c, x, y, z]: [usize; 5]) -> [usize; 5] {
    [2, c, x, 2 * y, z]
}

/// Values between -1 and 1, the same in any language.
fn input(shape: [usize; 5]) -> Vec<f32> {
    let wave = |i: usize| (i * 7919 % 2003) as f32 / 1001.0 - 1.0;
    (0..shape.iter().product()).map(wave).collect()
}

fn ours(table: &str, shape: [usize; 5]) -> Vec<f32> {
    let x = Tensor::<5>::from_data(TensorData::new(input(shape), shape), &Device::default());
    network(table).forward(x).into_data().iter().collect()
}

/// Each 97th value.
fn some(values: &[f32]) -> Vec<f32> {
    values.iter().copied().step_by(97).collect()
}

fn structure(model: &Model) -> Value {
    json!({ "operators": model.operators(), "bytes": model.encode().model.len() })
}

const SCRIPT: &str = r#"
import json, sys
import numpy as np
import onnx
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
out = {}
for path, shape in zip(sys.argv[1::2], sys.argv[2::2]):
    shape = json.loads(shape)
    model = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    [image], [logits] = session.get_inputs(), session.get_outputs()
    count = int(np.prod(shape))
    x = (np.arange(count) * 7919 % 2003).astype(np.float32) / np.float32(1001) - np.float32(1)
    if len(image.shape) == 4:
        shape = shape[:4]
    y = session.run(None, {image.name: x.reshape(shape)})[0]
    out[path.split("/")[-1].split(".")[0]] = {
        "input": [image.name, image.shape], "output": [logits.name, logits.shape], "shape": list(y.shape),
        "opset": model.opset_import[0].version, "metadata": {p.key: p.value for p in model.metadata_props},
        "values": [float(v) for v in y.ravel()[::97]], "count": int(y.size),
        "external": sum(1 for t in model.graph.initializer if t.data_location == 1),
    }
print(json.dumps(out))
"#;

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/onnxruntime.json")
}

/// Compares the runtime's output with the network's.
fn check(said: &Value) {
    assert_eq!(said.as_object().map(Map::len), Some(NETWORKS.len()));
    for (name, table, shape) in NETWORKS {
        let said = &said[name];
        assert_eq!(said["opset"], 17, "{name}");
        assert_eq!(said["input"][0], "image", "{name}");
        let axes = said["input"][1].as_array().expect("axes");
        assert_eq!((&axes[0], &axes[2], axes.len()), (&json!("batch"), &json!("x"), if shape[4] == 1 { 4 } else { 5 }));
        assert_eq!(said["metadata"]["labels"], r#"["background","tumour"]"#);
        let ours = ours(table, other(*shape));
        assert_eq!(said["count"].as_u64(), Some(ours.len() as u64), "{name}");
        let theirs = said["values"].as_array().expect("values").iter().map(|v| v.as_f64().expect("a number"));
        let largest = ours.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
        let apart = theirs.zip(some(&ours)).map(|(theirs, ours)| (theirs as f32 - ours).abs()).fold(0.0, f32::max);
        assert!(apart <= 1e-4 * largest, "{name}: {apart} apart, of values up to {largest}");
    }
}

fn structures() -> Value {
    NETWORKS.iter().map(|(name, table, shape)| ((*name).to_owned(), structure(&model(name, table, *shape)))).collect()
}

#[test]
fn the_runtime_gives_what_networks_give() {
    let text = std::fs::read_to_string(record()).expect("the record");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let how = clients::how_to_record("hearth-onnx");
    assert_eq!(structures(), recorded["models"], "other models are written now. {how}");
    check(&recorded["said"]);
}

#[test]
fn live_the_runtime_gives_what_networks_give() {
    let modules = &["onnx", "onnxruntime", "numpy"];
    let Some(python) = clients::find(modules, "the_runtime_gives_what_networks_give") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = Vec::new();
    for (place, (name, table, shape)) in NETWORKS.iter().enumerate() {
        let path = folder.path().join(format!("{name}.onnx"));
        let data_name = format!("{name}.onnx.data");
        // The weights of one model are in a second file.
        let encoded = model(name, table, *shape).encode_as(&data_name, if place == 0 { 0 } else { usize::MAX });
        std::fs::write(&path, encoded.model).expect("written");
        if let Some(data) = encoded.data {
            std::fs::write(folder.path().join(data_name), data).expect("written");
        }
        arguments.extend([path.display().to_string(), json!(other(*shape)).to_string()]);
    }
    let said: Value = serde_json::from_str(&python.run(SCRIPT, &arguments)).expect("JSON");
    check(&said);
    assert!(said[NETWORKS[0].0]["external"].as_u64() > Some(10));
    if clients::recording() {
        let text = json!({ "made_with": python.versions(), "models": structures(), "said": said });
        std::fs::create_dir_all(record().parent().expect("a folder")).expect("made");
        std::fs::write(record(), format!("{text}\n")).expect("written");
    }
}

#[test]
fn a_network_without_a_graph_is_an_error() {
    let table = "name='UNETR'\nin_channels=1\nout_channels=2\nimg_size=[32,32,32]\nfeature_size=4\nhidden_size=12\n\
                 mlp_dim=8\nnum_heads=2";
    let error = trace(&network(table), [1, 1, 32, 32, 32]).expect_err("no graph").to_string();
    assert!(error.contains("UNETR"), "{error}");
    let shuffled = "name='BasicUNet'\nfeatures=[4,4,8,8,8,4]\nupsample='pixelshuffle'";
    let error = trace(&network(shuffled), [1, 1, 32, 32, 32]).expect_err("no graph").to_string();
    assert!(error.contains("BasicUNet") && error.contains("not supported"), "{error}");
    let small = trace(&network(NETWORKS[0].1), [1, 2, 15, 16, 16]).expect_err("a size").to_string();
    assert!(small.contains("divisible"), "{small}");
}

/// Recording a pass has no side effects.
#[test]
fn tracing_changes_no_result() {
    let (_, table, shape) = NETWORKS[0];
    let before = ours(table, shape);
    let net = network(table);
    trace(&net, shape).expect("a graph");
    assert_eq!(ours(table, shape), before);
}
