//! MONAI's predictions for networks whose weights this crate wrote: computed if MONAI is installed,
//! and replayed from a record otherwise.
//!
//! The weights are drawn by position (exact on every machine) and written under the names, shapes
//! and types of this crate's state dict. A record contains the hash of the file that MONAI loaded
//! strictly and a part of MONAI's predictions, so a changed file requires a new record.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hearth_kernels::counter_rng::Key;
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig};
use hearth_nn::weights;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clients::{self, Client};
use crate::{assert_close, draw, values};

/// The Python modules that MONAI's client needs.
pub const MODULES: &[&str] = &["monai", "torch", "safetensors"];

/// The location of this crate's records.
pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nn/recorded").join(name)
}

/// A network and the shape of a batch.
pub struct Case {
    given: Value,
    config: NetworkConfig,
    shape: [usize; 5],
}

/// The data of a case in a record, in addition to the values.
#[derive(Serialize, Deserialize)]
struct Facts {
    config: String,
    /// BLAKE3 hash of the file of weights.
    weights: String,
    outputs: usize,
}

type Stored = (Dtype, Vec<usize>, Vec<u8>);

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(bytes: &[u8], name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(bytes).expect("safetensors");
    let view = file.tensor(name).expect(name);
    view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn serialize(tensors: &BTreeMap<String, Stored>, about: Option<HashMap<String, String>>) -> Vec<u8> {
    fn view<'a>((name, (dtype, shape, bytes)): (&'a String, &'a Stored)) -> (String, TensorView<'a>) {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).expect("a whole tensor"))
    }
    safetensors::serialize(tensors.iter().map(view), about).expect("a file")
}

/// Values that keep activations near 1: filters and matrices scaled by the number of inputs, norms
/// around 1 and 0, positive running variances.
fn filled(name: &str, shape: &[usize], key: Key) -> Vec<f32> {
    let count = shape.iter().product::<usize>() as u64;
    let (centre, reach) = match shape {
        [_, inputs @ ..] if !inputs.is_empty() => (0.0, (3.0 / inputs.iter().product::<usize>() as f64).sqrt()),
        _ if name.ends_with("running_var") => (1.0, 0.5),
        _ if name.ends_with("weight") => (1.0, 0.2),
        _ => (0.0, 0.2),
    };
    (0..count).map(|i| (centre + reach * (2.0 * key.uniform(i) - 1.0)) as f32).collect()
}

/// The network's file of weights, filled with generated values.
fn file_of_weights(net: &AnyNetwork) -> Vec<u8> {
    let written = weights::to_bytes(net).expect("weights");
    let file = SafeTensors::deserialize(&written).expect("safetensors");
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let hash = blake3::hash(name.as_bytes());
        let seed = hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        let bytes = match view.dtype() {
            Dtype::F32 => bytes_of(&filled(&name, view.shape(), Key::new(seed))),
            _ if name.ends_with("num_batches_tracked") => 7_i64.to_le_bytes().to_vec(),
            _ => view.data().to_vec(),
        };
        (name, (view.dtype(), view.shape().to_vec(), bytes))
    });
    serialize(&tensors.collect(), None)
}

/// At most 400 values of an output, drawn by position, its mean and its root mean square.
fn part(values: &[f32]) -> Vec<f32> {
    let count = values.len() as u64;
    let key = Key::new(count);
    let mean = |f: fn(f64) -> f64| values.iter().map(|v| f(f64::from(*v))).sum::<f64>() / count as f64;
    let mut part: Vec<f32> = match count {
        0..=400 => values.to_vec(),
        _ => (0..400).map(|i| values[key.below(i, count) as usize]).collect(),
    };
    part.extend([mean(|v| v) as f32, mean(|v| v * v).sqrt() as f32]);
    part
}

/// Compares values, relative to the largest value of the output.
fn assert_near(got: &[f32], expected: &[f32]) {
    let scale = expected.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
    assert_close(got, expected, 1e-4 * scale);
}

fn predict(net: &AnyNetwork, x: Tensor<5>) -> Vec<Vec<f32>> {
    net.valid().forward_all(x).into_iter().map(values).collect()
}

impl Case {
    /// A case of a network's options.
    pub fn new(config: Value, shape: [usize; 5]) -> Self {
        Self { config: serde_json::from_value(config.clone()).expect("known options"), given: config, shape }
    }

    fn network(&self) -> AnyNetwork {
        let net = self.config.init(&Device::default(), 11).expect("a network");
        net.check_input(self.shape).expect("a fitting input");
        net
    }

    /// All options as JSON. A configuration omits explicitly empty options, for which MONAI would
    /// use its default.
    fn params(&self) -> String {
        let mut params = serde_json::to_value(&self.config).expect("JSON");
        let nothing = self.given.as_object().into_iter().flatten().filter(|(_, value)| value.is_null());
        params.as_object_mut().expect("a map").extend(nothing.map(|(key, value)| (key.clone(), value.clone())));
        params.to_string()
    }

    /// Our predictions with a file of weights.
    fn ours(&self, file: &[u8]) -> Vec<Vec<f32>> {
        let (net, report) = weights::from_bytes(self.network(), file).expect("weights that fit");
        assert!(report.is_complete(), "{}", self.params());
        predict(&net, draw(self.shape, 2, &Device::default()))
    }

    /// MONAI loads our weights strictly and predicts. Then it draws its own weights and predicts
    /// again, and we load those. Returns MONAI's predictions with our weights.
    fn ask(&self, client: &Client, folder: &Path, file: &[u8]) -> Vec<Vec<f32>> {
        std::fs::write(folder.join("ours.safetensors"), file).expect("written");
        let x = bytes_of(&values(draw(self.shape, 2, &Device::default())));
        let x = serialize(&BTreeMap::from([("x".to_owned(), (Dtype::F32, self.shape.to_vec(), x))]), None);
        std::fs::write(folder.join("x.safetensors"), x).expect("written");
        client.run(include_str!("monai_networks.py"), [folder.as_os_str(), self.params().as_ref()]);
        let said = std::fs::read(folder.join("y.safetensors")).expect("predictions");
        let theirs = std::fs::read(folder.join("theirs.safetensors")).expect("MONAI's weights");
        for (i, y) in self.ours(&theirs).iter().enumerate() {
            assert_near(y, &floats(&said, &format!("theirs{i}")));
        }
        let outputs = SafeTensors::deserialize(&said).expect("safetensors").len() / 2;
        (0..outputs).map(|i| floats(&said, &format!("ours{i}"))).collect()
    }
}

/// Runs MONAI on each case; writes the record if requested.
pub fn ask(client: &Client, cases: &[Case], record: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut tensors, mut about) = (BTreeMap::new(), HashMap::new());
    for (number, case) in cases.iter().enumerate() {
        let file = file_of_weights(&case.network());
        let said = case.ask(client, folder.path(), &file);
        let ours = case.ours(&file);
        assert_eq!(ours.len(), said.len(), "outputs of {}", case.params());
        ours.iter().zip(&said).for_each(|(ours, said)| assert_near(ours, said));
        let facts = Facts { config: case.params(), weights: blake3::hash(&file).to_string(), outputs: said.len() };
        about.insert(format!("case{number}"), serde_json::to_string(&facts).expect("JSON"));
        for (output, said) in said.iter().enumerate() {
            let part = part(said);
            let name = format!("case{number}.output{output}");
            tensors.insert(name, (Dtype::F32, vec![part.len()], bytes_of(&part)));
        }
    }
    if clients::recording() {
        about.insert("made_with".to_owned(), client.versions());
        std::fs::write(recorded(record), serialize(&tensors, Some(about))).expect("written");
    }
}

/// Compares each case with the record of MONAI's predictions.
pub fn replay(cases: &[Case], record: &str) {
    let path = recorded(record);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("safetensors");
    let about = metadata.metadata().as_ref().expect("what was recorded");
    assert!(about.contains_key("made_with"));
    let how = clients::how_to_record("hearth-nn");
    assert_eq!(about.len(), cases.len() + 1, "the record holds other cases. {how}");
    for (number, case) in cases.iter().enumerate() {
        let facts: Facts = serde_json::from_str(&about[&format!("case{number}")]).expect("facts");
        let file = file_of_weights(&case.network());
        let params = case.params();
        assert_eq!(
            blake3::hash(&file).to_string(),
            facts.weights,
            "the names, shapes or types of the weights that {params} writes are not those that MONAI loaded for {}. {how}",
            facts.config
        );
        let ours = case.ours(&file);
        assert_eq!(ours.len(), facts.outputs, "outputs of {params}");
        for (output, y) in ours.iter().enumerate() {
            assert_near(&part(y), &floats(&bytes, &format!("case{number}.output{output}")));
        }
    }
}
