//! The networks of components, and their weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use hearth_bundle::{Component, Fault, FaultKind, Value};
use hearth_nn::diffusion::from_old_layout;
use hearth_nn::networks::{AnyNetwork, Network, NetworkSpec};
use hearth_nn::pytorch::{OpenOptions, PytorchError, StateDict};
use hearth_nn::weights;
use hearth_registry::{Node, Registry};

use super::nodes::{fault, node, table};
use super::run::Told;
use hearth_recipe::{Context, Outcome};

/// Options that do not change the output of a network.
const IGNORED: [&str; 5] = ["img_size", "use_checkpoint", "pretrained", "progress", "weights"];

/// The specification of a network, and the table from which it was read.
pub(crate) fn spec(component: &Component) -> Result<(Box<NetworkSpec>, Node), Fault> {
    let registry = Registry::<NetworkSpec>::new();
    let entry = registry.find(component.name()).filter(|entry| is_known_by(component, entry.name));
    let Some(entry) = entry else {
        return Err(fault(component, "is a network that is not supported"));
    };
    // For this one, the image size is part of the network.
    let ignored = if entry.name == "UNesT" { &IGNORED[1..] } else { &IGNORED[..] };
    let mut table = table(component, entry.name, &[ignored, &["dints_space"]].concat(), true)?;
    if let Some(space) = component.get("dints_space") {
        let space = space.as_component().filter(|space| space.name() == "TopologyInstance");
        let space = space.ok_or_else(|| fault(component, "dints_space is no TopologyInstance"))?;
        table.insert("dints_space", topology(space)?);
    }
    super::sampler::older_names(component, &mut table);
    as_pretrained(component, &mut table);
    // A number is a shape of one axis.
    for key in ["latent_shape", "start_shape"] {
        if let Some(value) = component.get(key)
            && value.as_int().is_some()
        {
            let list = Value::list([value.clone()]);
            table.insert(key, node(&list).unwrap_or_else(Node::empty));
        }
    }
    let built = registry.build(&table).map_err(|error| fault(component, error.to_string()))?;
    Ok((built, table))
}

/// The topology of a DiNTS.
fn topology(space: &Component) -> Result<Node, Fault> {
    table(space, "TopologyInstance", &["device"], false)
}

/// torchvision changes the input range of Inception v3 if its own weights are requested. Here only
/// a file has weights, so this sets the range.
fn as_pretrained(component: &Component, table: &mut Node) {
    let inception = component.get("model_name").and_then(Value::as_str) == Some("inception_v3");
    let given = component.get("pretrained").and_then(Value::truth) == Some(true) || component.get("weights").is_some();
    if inception && given && table.get("transform_input").is_none() {
        table.insert("transform_input", Node::from(true));
    }
}

/// Supported networks of the bundles' own scripts.
const SCRIPTS: [&str; 3] = ["UNesT", "PointRegressor", "RegResNet"];

/// Whether a component is the known network of this name. A bundle's own class may have the same name.
pub(crate) fn is_known_by(component: &Component, name: &str) -> bool {
    !component.target.starts_with("scripts.") || SCRIPTS.contains(&name)
}

/// The networks of a run, by the id of their component.
#[derive(Default)]
pub(crate) struct Networks {
    built: BTreeMap<String, AnyNetwork>,
    loaded: Vec<String>,
    /// Whether networks may run into which no weights are loaded.
    pub random: bool,
}

impl Networks {
    /// The network of a component, created with random weights on first use.
    pub fn get(&mut self, component: &Component, device: &Device) -> Outcome<&AnyNetwork> {
        if !self.built.contains_key(&component.id) {
            let (spec, table) = spec(component)?;
            let network = spec.init(device, 0).map_err(|error| fault(component, error.in_table(&table).to_string()))?;
            self.built.insert(component.id.clone(), network.valid());
        }
        match self.built.get(&component.id) {
            Some(network) => Ok(network),
            None => Err(fault(component, "was not built").into()),
        }
    }

    /// The network of a component, if it was built and has this type.
    pub fn built<N: Network>(&self, component: &Component) -> Outcome<&N> {
        let found = self.built.get(&component.id).and_then(AnyNetwork::downcast_ref);
        found.ok_or_else(|| fault(component, "is a network of another class than this step needs").into())
    }

    /// Fails if no weights were loaded into the network of a component: its results would be random.
    ///
    /// # Errors
    /// The component, and what loads weights; not if random weights are allowed.
    pub fn check_loaded(&self, component: &Component, tell: &mut dyn FnMut(Told<'_>)) -> Outcome {
        if self.is_loaded(component) {
            return Ok(());
        }
        if self.random {
            tell(Told::Random(&component.id));
            return Ok(());
        }
        let what = "no weights are loaded into this network, so that its results would be random; the config needs a \
                    CheckpointLoader or load_state_dict with a file that exists (bundle run takes --random-weights)";
        Err(fault(component, what).into())
    }

    /// Whether weights were loaded into the network of a component.
    pub fn is_loaded(&self, component: &Component) -> bool {
        self.loaded.contains(&component.id)
    }

    /// Loads weights like a `CheckpointLoader`. Returns the file.
    ///
    /// # Errors
    /// A file that is missing or has no weights, or weights that do not fit.
    pub fn load(&mut self, loads: &Loads, folder: &Path, device: &Device) -> Outcome<PathBuf> {
        let Loads { loader, network, path, key, strict } = loads;
        self.read(loader, network, (folder, path, key), (*strict, false), device)
    }

    /// Loads weights like `load_state_dict(torch.load(path))`, or like `load_old_state_dict`, whose
    /// keys may be those of MONAI Generative. The path is relative to the folder. Returns the file.
    ///
    /// # Errors
    /// Same as [`load`](Self::load).
    pub fn load_whole(
        &mut self,
        network: &Arc<Component>,
        (folder, path): (&Path, &Path),
        old: bool,
        device: &Device,
    ) -> Outcome<PathBuf> {
        self.read(network, network, (folder, path, ""), (true, old), device)
    }

    fn read(
        &mut self,
        at: &Component,
        network: &Arc<Component>,
        (folder, written, key): (&Path, &Path, &str),
        (strict, old): (bool, bool),
        device: &Device,
    ) -> Outcome<PathBuf> {
        let path = &folder.join(written);
        if let Some(missing) = missing(at, folder, written) {
            return Err(missing.into());
        }
        let doing = || format!("{}: cannot load {}", at.id, path.display());
        let mut bytes = match is_safetensors(path).while_doing(doing)? {
            true => hearth_files::read(path).while_doing(doing)?,
            false => state_dict(path, key).while_doing(doing)?.to_bytes().while_doing(doing)?,
        };
        self.get(network, device)?;
        let Some(before) = self.built.remove(&network.id) else { return Ok(path.clone()) };
        if old {
            bytes = from_old_layout(&before, &bytes).while_doing(doing)?;
        }
        let loaded = match strict {
            true => weights::from_bytes(before, &bytes).while_doing(doing)?.0,
            false => {
                let (loaded, report) = weights::import_partial(before, &bytes).while_doing(doing)?;
                if !report.is_complete() {
                    hearth_recipe::warning!("{}: not all weights fit:\n{report}", path.display());
                }
                loaded
            }
        };
        self.built.insert(network.id.clone(), loaded);
        self.loaded.push(network.id.clone());
        Ok(path.clone())
    }
}

/// The file and the target of a `CheckpointLoader`.
pub(crate) struct Loads {
    loader: Arc<Component>,
    network: Arc<Component>,
    pub(crate) path: PathBuf,
    /// The key of the network's weights in the file.
    key: String,
    strict: bool,
}

impl Loads {
    /// Parses the component of the loader; its path is relative to `folder`.
    ///
    /// # Errors
    /// Unsupported options or networks, or a missing file.
    pub fn new(loader: &Arc<Component>, folder: &Path) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let given = |name: &str| loader.get(name).unwrap_or(&Value::None);
        let path = given("load_path").as_str().map(PathBuf::from);
        match &path {
            Some(path) => faults.extend(missing(loader, folder, path)),
            None => faults.push(fault(loader, "has no load_path").about(given("load_path"))),
        }
        let one = match given("load_dict").as_dict().unwrap_or_default() {
            [(key, Value::Component(network))] => Some((key.as_str().unwrap_or("model").to_owned(), network)),
            _ => None,
        };
        match one {
            Some((_, network)) => faults.extend(check(network).err()),
            None => {
                let wrong = fault(loader, "load_dict must name one network: {\"model\": \"@network\"}");
                faults.push(wrong.about(given("load_dict")));
            }
        }
        let strict = |name: &str| loader.get(name).and_then(Value::truth).unwrap_or(true);
        match (path, one) {
            (Some(path), Some((key, network))) if faults.is_empty() => {
                let strict = strict("strict") && strict("strict_shape");
                Ok(Loads { loader: loader.clone(), network: network.clone(), path, key, strict })
            }
            _ => Err(faults),
        }
    }
}

/// Checks that the network of a component can be built, without drawing its weights.
///
/// # Errors
/// An unsupported class or option, or weights too large for the memory of this process.
pub(crate) fn check(component: &Component) -> Result<(), Fault> {
    let (spec, table) = spec(component)?;
    let weights = spec.weights(&hearth_data::host_device());
    weights.map(drop).map_err(|error| fault(component, error.in_table(&table).to_string()))
}

/// The fault of missing weights; `path` is relative to the folder.
pub(crate) fn missing(at: &Component, folder: &Path, path: &Path) -> Option<Fault> {
    let what = || super::absent::weights(folder, path);
    (!folder.join(path).is_file()).then(|| Fault { kind: FaultKind::File, ..fault(at, what()) })
}

/// Whether a file starts like safetensors: a length, then JSON. Neither a pickle nor a zip does.
pub(crate) fn is_safetensors(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(hearth_files::open(path)?, 9), &mut start)?;
    Ok(start.get(8) == Some(&b'{'))
}

/// The value under a key of a file's dictionary, or the whole if the key is missing.
fn state_dict(path: &Path, key: &str) -> Result<StateDict, PytorchError> {
    if !key.is_empty() {
        match StateDict::open(path, &OpenOptions { key: Some(key.to_owned()) }) {
            Err(PytorchError::Nesting { .. }) => {}
            other => return other,
        }
    }
    StateDict::open(path, &OpenOptions::default())
}
