//! Files of PyTorch (written by `tests/pytorch/make_fixtures.py`): every method of saving gives the
//! same network, and nothing in the files is executed.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::pytorch::{OpenOptions, PytorchError, Rule, StateDict};
use hearth_nn::weights;
use safetensors::SafeTensors;

use crate::monai_record::MODULES;
use crate::{assert_close, clients, draw, values};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pytorch").join(name)
}

fn open(name: &str) -> StateDict {
    StateDict::open(&fixture(name), &OpenOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn unet(dims: usize) -> UNet {
    let config =
        UNetConfig { num_res_units: 1, norm: Some("batch".into()), ..UNetConfig::new(dims, 1, 2, &[2, 4], &[2]) };
    config.init(&Device::default(), 0).expect("a network")
}

fn loaded(state: &StateDict, dims: usize) -> UNet {
    let bytes = state.to_bytes().expect("whole tensors");
    let (net, report) = weights::from_bytes(unet(dims), &bytes).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.is_complete());
    net
}

#[test]
fn every_way_of_saving_gives_the_same_weights() {
    let first = open("state_dict.pt");
    assert_eq!((first.found_at.as_str(), first.prefix.as_str()), ("", ""));
    let expected = first.to_bytes().expect("whole tensors");
    for (name, found_at, prefix) in
        [("legacy.pth", "", ""), ("data_parallel.pt", "", "module."), ("module.pt", "", ""), ("bundle.zip", "", "")]
    {
        let state = open(name);
        assert_eq!((state.found_at.as_str(), state.prefix.as_str()), (found_at, prefix), "{name}");
        assert!(state.to_bytes().expect("whole tensors") == expected, "{name} holds other weights");
    }
    let x = draw([1, 1, 8, 8, 8], 1, &Device::default());
    let predicted = values(loaded(&first, 3).valid().forward(x.clone()));
    assert_close(&values(loaded(&open("half.pt"), 3).valid().forward(x)), &predicted, 2e-2);
    // Kernels of two dimensions have no third axis in the file.
    loaded(&open("flat.pt"), 2);
}

#[test]
fn weights_within_a_checkpoint_are_found_and_the_rest_is_passed_over() {
    let state = open("checkpoint.pt");
    assert_eq!(state.found_at, "model");
    let passed = state.passed_over.join(" ");
    assert!(passed.contains("torch.device") && passed.contains("numpy"), "{passed}");
    loaded(&state, 3);
    let key = |key: &str| OpenOptions { key: Some(key.to_owned()) };
    assert!(StateDict::open(&fixture("checkpoint.pt"), &key("model")).is_ok());
    let missing = StateDict::open(&fixture("checkpoint.pt"), &key("weights")).expect_err("no such key").to_string();
    assert!(missing.contains("weights") && missing.contains("model, optimizer"), "{missing}");
    let plain = StateDict::open(&fixture("checkpoint.pt"), &key("epoch")).expect_err("no tensors").to_string();
    assert!(plain.contains("no tensors"), "{plain}");
}

#[test]
fn rules_rename_keys() {
    let mut state = open("renamed.pt");
    assert_eq!(state.found_at, "network.state_dict");
    let bytes = state.to_bytes().expect("whole tensors");
    let (_, report) = weights::import_partial(unet(3), &bytes).expect("safetensors");
    assert!(!report.is_complete() && report.unexpected.iter().any(|key| key.starts_with("down.")), "{report}");
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let changed = state.rename(&[rule("^down[.]=model.0."), rule("^nowhere=x")]).expect("no collision");
    assert!(changed[0] > 0 && changed[1] == 0);
    let net = loaded(&state, 3);
    let same = loaded(&open("state_dict.pt"), 3);
    let x = draw([1, 1, 8, 8, 8], 1, &Device::default());
    assert_close(&values(net.valid().forward(x.clone())), &values(same.valid().forward(x)), 1e-6);
    let error = state.rename(&[rule(".*=one")]).expect_err("one key for all").to_string();
    assert!(error.contains("the same key, one"), "{error}");
}

#[test]
fn commands_are_refused_and_not_executed() {
    for name in ["command.pt", "command_beside.pt", "command_protocol_4.pt", "command_thrown_away.pt"] {
        let error = StateDict::open(&fixture(name), &OpenOptions::default()).expect_err(name);
        assert!(matches!(&error, PytorchError::Foreign { call, .. } if call.ends_with("system")), "{name}: {error}");
        assert!(error.to_string().contains("Nothing was executed"), "{error}");
    }
    assert!(!Path::new("PICKLE_WAS_EXECUTED").exists());
}

#[test]
fn damaged_and_other_files_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |name: &str, bytes: &[u8], words: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let error = StateDict::open(&path, &OpenOptions::default()).map(drop).expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
        for word in words {
            assert!(error.to_lowercase().contains(word), "no {word} in {error}");
        }
    };
    let whole = std::fs::read(fixture("state_dict.pt")).expect("a fixture");
    let legacy = std::fs::read(fixture("legacy.pth")).expect("a fixture");
    refused("empty.pt", &[], &["empty"]);
    refused("picture.pt", b"\x89PNG\r\n\x1a\n0000", &["not a pytorch"]);
    refused("text.pt", b"weights go here", &["not a pytorch"]);
    refused("short.pt", &whole[..whole.len() / 2], &["cannot be read"]);
    for part in [20, 200, legacy.len() / 2, legacy.len() - 5] {
        let path = folder.path().join("short.pth");
        std::fs::write(&path, &legacy[..part]).expect("written");
        let opened = StateDict::open(&path, &OpenOptions::default());
        assert!(opened.and_then(|state| state.to_bytes()).is_err(), "{part} bytes of a file were enough");
    }
    // One flipped bit of a tensor: the archive's checksum detects it.
    let mut bent = whole.clone();
    let weight = open("state_dict.pt").to_bytes().expect("whole tensors");
    let file = SafeTensors::deserialize(&weight).expect("whole");
    let values = file.tensor("model.0.conv.unit0.conv.weight").expect("a key").data().to_vec();
    let place = bent.windows(16).position(|bytes| *bytes == values[..16]).expect("tensors are stored as they are");
    bent[place] ^= 1;
    let path = folder.path().join("bent.pt");
    std::fs::write(&path, &bent).expect("written");
    let opened = StateDict::open(&path, &OpenOptions::default());
    assert!(opened.and_then(|state| state.to_bytes()).is_err(), "a damaged archive passed");
    let empty = folder.path().join("nothing");
    std::fs::create_dir(&empty).expect("a folder");
    let error = StateDict::open(&empty, &OpenOptions::default()).expect_err("no model.pt").to_string();
    assert!(error.contains("models/model.pt"), "{error}");
    let bundle = folder.path().join("tiny/models");
    std::fs::create_dir_all(&bundle).expect("a folder");
    std::fs::write(bundle.join("model.pt"), &whole).expect("written");
    assert!(StateDict::open(&folder.path().join("tiny"), &OpenOptions::default()).is_ok());
    assert!(StateDict::open(Path::new("/no/such.pt"), &OpenOptions::default()).is_err());
}

/// MONAI's files of weights, converted and written again.
fn converted(folder: &Path, name: &str, dims: usize) -> PathBuf {
    let path = folder.join("ours.safetensors");
    weights::save(&loaded(&open(name), dims), &path).expect("written");
    path
}

const CONVERTED: [(&str, usize); 2] = [("state_dict.pt", 3), ("flat.pt", 2)];

/// The converted files have the keys and shapes that a strict load requires: those of the files
/// that MONAI's networks were saved to.
#[test]
fn converted_weights_have_the_keys_shapes_and_values_of_monais_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, dims) in CONVERTED {
        let ours = std::fs::read(converted(folder.path(), name, dims)).expect("just written");
        let theirs = open(name).to_bytes().expect("whole tensors");
        let tensors = |bytes: &[u8]| {
            let file = SafeTensors::deserialize(bytes).expect("whole");
            let stored = file.tensors().into_iter();
            let of =
                |view: safetensors::tensor::TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            stored.map(|(key, view)| (key, of(view))).collect::<std::collections::BTreeMap<_, _>>()
        };
        let (ours, theirs) = (tensors(&ours), tensors(&theirs));
        assert!(theirs.len() > 8 && ours == theirs, "{name}: {:?} for {:?}", ours.keys(), theirs.keys());
    }
}

#[test]
fn live_strict_load_of_converted_weights() {
    const SCRIPT: &str = r"
import sys, torch
from monai.networks.nets import UNet
from safetensors.torch import load_file
net = UNet(spatial_dims=int(sys.argv[2]), in_channels=1, out_channels=2, channels=(2, 4), strides=(2,), num_res_units=1, norm='batch')
net.load_state_dict(load_file(sys.argv[1]), strict=True)
theirs = torch.load(sys.argv[3], weights_only=True)
assert all(torch.equal(value, theirs[key]) for key, value in net.state_dict().items())
";
    let Some(client) = clients::find(MODULES, "converted_weights_have_the_keys_shapes_and_values_of_monais_files")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for (name, dims) in CONVERTED {
        let path = converted(folder.path(), name, dims);
        client.run(SCRIPT, [path.as_os_str(), dims.to_string().as_ref(), fixture(name).as_os_str()]);
    }
}
