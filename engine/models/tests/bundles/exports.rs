//! Recipes as bundles: every bundled recipe, its configuration compared with MONAI's classes, and
//! rejected recipes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_models::bundle::{Bundle, RunOptions, needs};
use hearth_models::export::{BundleConfigs, BundleWeights, bundle_of};
use hearth_nn::weights;
use hearth_recipe::recipe::{Document, Recipe, bundled};
use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};

use crate::clients;

type Tested = Result<(), Box<dyn Error>>;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn recorded(name: &str) -> PathBuf {
    folder().join("tests/recorded").join(name)
}

fn json_of(path: &Path) -> Result<Value, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// A bundled recipe, and its configurations or the reason why there are none.
type Exported = (&'static str, Result<BundleConfigs, String>);

/// The exports of all bundled recipes.
fn all() -> Result<Vec<Exported>, Box<dyn Error>> {
    let mut made = Vec::new();
    for recipe in bundled::ALL {
        let configs = BundleConfigs::of(&recipe.document()?).map_err(|error| error.to_string());
        made.push((recipe.name, configs));
    }
    Ok(made)
}

/// A row of the table in the documentation.
fn row(name: &str, configs: &Result<BundleConfigs, String>) -> String {
    match configs {
        Ok(BundleConfigs { inference, metadata }) => {
            let task = metadata["task"].as_str().unwrap_or_default();
            let task = task.split(':').next().unwrap_or_default();
            let network = inference["network_def"]["_target_"].as_str().unwrap_or_default();
            format!("| `{name}` | {task} | {network} | exports |")
        }
        Err(why) => format!("| `{name}` | | | refused: {} |", why.lines().next().unwrap_or_default()),
    }
}

#[test]
fn every_bundled_recipe_is_in_the_table() -> Tested {
    let page = std::fs::read_to_string(folder().join("../../docs/export.md"))?;
    let rows: Vec<String> = all()?.iter().map(|(name, configs)| row(name, configs)).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !page.lines().any(|line| line == row.as_str())).collect();
    let table = rows.join("\n");
    assert!(missing.is_empty(), "docs/export.md lacks {missing:#?}; the table is\n{table}");
    Ok(())
}

#[test]
fn every_exported_configuration_runs_here() -> Tested {
    for (name, configs) in all()? {
        let Ok(configs) = configs else { continue };
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("configs"))?;
        std::fs::write(folder.path().join("configs/inference.json"), configs.inference.to_string())?;
        std::fs::write(folder.path().join("configs/metadata.json"), configs.metadata.to_string())?;
        let found = needs(&Bundle::open(folder.path())?, &RunOptions::default()).map_err(|error| error.line())?;
        let config = found.iter().find(|config| config.name == "inference").ok_or("no inference config")?;
        assert!(config.is_supported(), "{name}: {:?}", config.missing);
        // Only weights and images are missing.
        assert!(config.missing.iter().any(|fault| fault.to_string().contains("model.pt")), "{name}");
    }
    Ok(())
}

/// Each component of a configuration: its class, and the names of its arguments.
fn components(value: &Value, found: &mut Vec<(String, Vec<String>)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| components(item, found)),
        Value::Object(table) => {
            if let Some(class) = table.get("_target_").and_then(Value::as_str) {
                let args = table.keys().filter(|key| *key != "_target_").cloned().collect();
                found.push((class.to_owned(), args));
            }
            table.values().for_each(|value| components(value, found));
        }
        _ => {}
    }
}

/// The names of the parameters of MONAI's class, of any kind.
fn parameters<'a>(recorded: &'a Value, class: &str) -> Option<Vec<&'a str>> {
    let kinds = ["transforms", "networks", "inferers", "engines"];
    let list = kinds.iter().find_map(|kind| recorded[*kind][class].as_array())?;
    Some(list.iter().filter_map(Value::as_str).collect())
}

#[test]
fn exported_arguments_are_those_of_monai() -> Tested {
    let monai = json_of(&recorded("monai_parameters.json"))?;
    let mut seen = 0;
    for (name, configs) in all()? {
        let Ok(configs) = configs else { continue };
        let mut found = Vec::new();
        components(&configs.inference, &mut found);
        for (class, args) in found {
            let known = parameters(&monai, &class).ok_or_else(|| format!("{name}: MONAI has no {class}"))?;
            if known.contains(&"kwargs") || known.contains(&"pad_kwargs") {
                continue;
            }
            for arg in args {
                assert!(known.contains(&arg.as_str()), "{name}: {class} has no parameter {arg}: {known:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "{seen} arguments");
    Ok(())
}

const PARAMETERS: &str = r#"
import inspect, json, sys
import monai.data, monai.engines, monai.handlers, monai.inferers, monai.networks.nets, monai.transforms
def names(thing):
    call = thing.__init__ if inspect.isclass(thing) else thing
    return [name for name in inspect.signature(call).parameters if name != "self"]
ours = json.loads(sys.argv[1])
def of(module, wanted):
    return {name: names(getattr(module, name)) for name in wanted if hasattr(module, name)}
print(json.dumps({
    "transforms": of(monai.transforms, [n + "d" for n in ours["transforms"]] + ["Compose"]),
    "networks": of(monai.networks.nets, ours["networks"]),
    "inferers": of(monai.inferers, ours["inferers"] + ["SlidingWindowSplitter"]),
    "engines": {
        **of(monai.data, ["Dataset", "DataLoader", "MaskedPatchWSIDataset"]),
        **of(monai.engines, ["SupervisedEvaluator"]),
        **of(monai.handlers, ["CheckpointLoader", "ClassificationSaver", "ProbMapProducer"]),
    },
}))
"#;

/// One class per line, so that a difference is visible.
fn lines(value: &Value, made_with: &str) -> String {
    let mut text = format!("{{\"made_with\": {}", json!(made_with));
    for (kind, classes) in value.as_object().into_iter().flatten() {
        let _ = write!(text, ",\n\"{kind}\": {{");
        for (place, (class, names)) in classes.as_object().into_iter().flatten().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n  \"{class}\": {names}");
        }
        text += "\n}";
    }
    text + "\n}\n"
}

#[test]
fn live_monai_has_these_parameters() -> Tested {
    let modules = &["monai", "ignite", "torch"];
    let Some(python) = clients::find(modules, "exported_arguments_are_those_of_monai") else { return Ok(()) };
    let ours = json!({
        "transforms": hearth_registry::Registry::<dyn hearth_data::Transform>::new().names().into_iter()
            .chain(["Activations", "AsDiscrete", "Lambda"]).collect::<Vec<_>>(),
        "networks": hearth_registry::Registry::<hearth_nn::networks::NetworkSpec>::new().names(),
        "inferers": hearth_registry::Registry::<dyn hearth_nn::inferers::Inferer>::new().names(),
    });
    let said: Value = serde_json::from_str(&python.run(PARAMETERS, [ours.to_string()]))?;
    let file = recorded("monai_parameters.json");
    if clients::recording() {
        std::fs::create_dir_all(recorded(""))?;
        std::fs::write(&file, lines(&said, &python.versions()))?;
    }
    let mut known = json_of(&file)?;
    known.as_object_mut().and_then(|known| known.remove("made_with"));
    let how = clients::how_to_record("hearth-recipe");
    assert_eq!(said, known, "MONAI has other parameters now. {how}");
    Ok(())
}

/// The state dict of a recipe's network, one line per tensor.
fn tensors(document: &Document) -> Result<String, Box<dyn Error>> {
    let recipe = Recipe::read(document)?;
    let network = recipe.network.init(&Device::default(), 0)?;
    let bytes = weights::to_bytes(&network)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let mut lines: Vec<String> =
        file.tensors().iter().map(|(name, view)| format!("{name} {:?}", view.shape())).collect();
    lines.sort();
    Ok(lines.join("\n"))
}

fn digest(tensors: &str) -> Value {
    json!([tensors.lines().count(), blake3::hash(tensors.as_bytes()).to_hex().to_string()])
}

#[test]
fn networks_have_the_tensors_of_monai() -> Tested {
    let known = json_of(&recorded("monai_tensors.json"))?;
    for recipe in bundled::ALL {
        let made = digest(&tensors(&recipe.document()?)?);
        assert_eq!(made, known["recipes"][recipe.name], "{}: MONAI's network has other weights", recipe.name);
    }
    Ok(())
}

const TENSORS: &str = r#"
import json, sys
from monai.bundle import ConfigParser
for path in sys.argv[1:]:
    parser = ConfigParser(json.load(open(path)))
    network = parser.get_parsed_content("network_def")
    print(json.dumps(sorted(f"{name} {list(value.shape)}" for name, value in network.state_dict().items())))
"#;

#[test]
fn live_monai_builds_the_networks() -> Tested {
    let modules = &["monai", "torch", "torchvision"];
    let Some(python) = clients::find(modules, "networks_have_the_tensors_of_monai") else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let (mut paths, mut names) = (Vec::new(), Vec::new());
    for (name, configs) in all()? {
        let Ok(configs) = configs else { continue };
        let path = folder.path().join(format!("{name}.json"));
        std::fs::write(&path, json!({ "network_def": configs.inference["network_def"] }).to_string())?;
        paths.push(path);
        names.push(name);
    }
    let said = python.run(TENSORS, &paths);
    let mut digests = BTreeMap::new();
    for (name, line) in names.iter().zip(said.lines()) {
        let tensors: Vec<String> = serde_json::from_str(line)?;
        let theirs = tensors.join("\n");
        let ours = self::tensors(&bundled::find(name).map_err(|error| error.line())?.document()?)?;
        assert_eq!(ours, theirs, "{name}");
        digests.insert(*name, digest(&theirs));
    }
    assert_eq!(digests.len(), names.len());
    if clients::recording() {
        let rows: Vec<String> = digests.iter().map(|(name, digest)| format!("  \"{name}\": {digest}")).collect();
        let text =
            format!("{{\"made_with\": {},\n\"recipes\": {{\n{}\n}}}}\n", json!(python.versions()), rows.join(",\n"));
        std::fs::write(recorded("monai_tensors.json"), text)?;
    }
    Ok(())
}

/// A small segmentation, with changes to its text.
fn segmentation(changes: &[(&str, &str)]) -> Result<Document, Box<dyn Error>> {
    let mut text = r#"task = "small"
labels = ["background", "organ"]
transforms = [
    { name = "LoadImaged", keys = ["image", "label"] },
    { name = "EnsureChannelFirstd", keys = ["image", "label"] },
    { name = "CropForegroundd", keys = ["image", "label"], source_key = "image" },
    { name = "SpatialPadd", keys = ["image", "label"], spatial_size = [16, 16, 16] },
    { name = "ThresholdIntensityd", keys = ["image"], threshold = 0.0 },
    { name = "RandSpatialCropd", keys = ["image", "label"], roi_size = [16, 16, 16], random_size = false },
]
[network]
name = "UNet"
spatial_dims = 3
in_channels = 1
out_channels = 2
channels = [4, 8]
strides = [2]
[loss]
name = "DiceLoss"
to_onehot_y = true
softmax = true
[optimizer]
name = "Adam"
lr = 1e-3
"#
    .to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    Ok(Document::parse("recipe.toml", text)?)
}

#[test]
fn names_of_dictionary_transforms_are_known() -> Tested {
    let configs = BundleConfigs::of(&segmentation(&[])?)?;
    let names: Vec<&str> = configs.inference["preprocessing"]["transforms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["_target_"].as_str())
        .collect();
    let expected = ["LoadImaged", "EnsureChannelFirstd", "CropForegroundd", "SpatialPadd", "ThresholdIntensityd"];
    assert_eq!(names, expected);
    Ok(())
}

#[test]
fn what_cannot_be_exported_is_named_with_its_line() -> Tested {
    let mean = "{ name = \"ScaleIntensityFixedMean\", keys = [\"image\"], factor = 0.1 },";
    let mask = "{ name = \"MaskIntensity\", keys = [\"image\"], mask_key = \"mask\" },";
    let threshold = "{ name = \"ThresholdIntensityd\", keys = [\"image\"], threshold = 0.0 },";
    let load = "{ name = \"LoadImaged\", keys = [\"image\", \"label\"] }";
    let series = "{ name = \"LoadImaged\", keys = [\"image\", \"label\"], level = 1 }";
    let post = |steps: &str| format!("lr = 1e-3\n[post]\nprediction = [{steps}]\n");
    let resolve =
        post("{ name = \"Activations\", sigmoid = true }, { name = \"ResolveRegions\", classes = [[1], [2]] }");
    let late = post("{ name = \"AsDiscrete\", argmax = true }, { name = \"Activations\", softmax = true }");
    let unet = "name = \"UNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]";
    let plus = "name = \"BasicUNetPlusPlus\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2";
    let vnet = "name = \"VNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nbase = 8";
    for (changes, words) in [
        (vec![(threshold, mean)], vec!["recipe.toml:8:", "ScaleIntensityFixedMean", "none that computes the same"]),
        (vec![(threshold, mask)], vec!["recipe.toml:8:", "MaskIntensity", "the image alone"]),
        (vec![(load, series)], vec!["recipe.toml:4:", "LoadImage has no such parameter", "expected 0"]),
        (vec![(unet, plus)], vec!["recipe.toml:12:", "BasicUNetPlusPlus", "returns a list"]),
        (vec![(unet, vnet)], vec!["recipe.toml:", "base = 8", "expected 16"]),
        (vec![("lr = 1e-3", "lr = 1e-3\n[tta]\nflips = [0]")], vec!["recipe.toml:", "[tta]", "--tta none"]),
        (vec![("[network]", "[data]\nlazy = \"on\"\n[network]")], vec!["recipe.toml:", "lazy = \"on\"", "exact"]),
        (vec![("lr = 1e-3", late.as_str())], vec!["recipe.toml:", "put it first"]),
        (
            vec![("lr = 1e-3", resolve.as_str()), ("[\"background\", \"organ\"]", "[\"a\", \"b\"]")],
            vec!["recipe.toml:", "label map", "task.classes"],
        ),
    ] {
        let error = match BundleConfigs::of(&segmentation(&changes)?) {
            Ok(configs) => return Err(format!("{changes:?}: {}", configs.inference).into()),
            Err(error) => error.to_string(),
        };
        for word in words {
            assert!(error.contains(word), "no {word:?} in {error}");
        }
    }
    Ok(())
}

#[test]
fn a_bundle_of_weights_is_read_back() -> Tested {
    let document = segmentation(&[])?;
    let recipe = Recipe::read(&document)?;
    let bytes = weights::to_bytes(&recipe.network.init(&Device::default(), 1)?)?;
    let folder = tempfile::tempdir()?;
    let weights = BundleWeights { checkpoint: "first", safetensors: &bytes, fingerprint: None };
    let files = bundle_of(&document, weights, folder.path(), Some("mine"))?;
    assert_eq!(files.len(), 6);
    assert_eq!(std::fs::read_to_string(folder.path().join("LICENSE"))?, "mine");
    let page = std::fs::read_to_string(folder.path().join("docs/README.md"))?;
    assert!(page.contains("checkpoint first") && page.contains("NAME_seg.nii.gz"), "{page}");
    let found = needs(&Bundle::open(folder.path())?, &RunOptions::default()).map_err(|error| error.line())?;
    assert!(found.iter().all(|config| config.missing.iter().all(|fault| !fault.to_string().contains("model.pt"))));
    Ok(())
}
