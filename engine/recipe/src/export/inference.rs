//! `configs/inference.json`: what MONAI does with images, from their files to those of predictions.

use hearth_registry::Fault;
use serde_json::{Map, Value, json};

use super::networks::{dims, network};
use super::post::postprocessing;
use super::rule::component;
use super::{chain, inferers};
use crate::recipe::{Output, Recipe};
use crate::task::Patches;

/// What a bundle makes of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Makes {
    /// Label maps, or a channel for each region.
    Maps,
    /// Images of images.
    Images,
    /// A table of numbers of whole images.
    Scores,
    /// Maps of probabilities of slides.
    SlideMaps,
    /// Images of random numbers.
    Generated,
}

impl Makes {
    pub fn of(recipe: &Recipe) -> Self {
        let task = recipe.learns();
        match task.output() {
            _ if task.generates() => Makes::Generated,
            _ if task.patches().is_some() => Makes::SlideMaps,
            Output::Labels | Output::Regions => Makes::Maps,
            Output::Scores => Makes::Scores,
            Output::Image => Makes::Images,
        }
    }

    /// The files of a folder that are read.
    fn pattern(self, dims: usize) -> &'static str {
        match (self, dims) {
            (Makes::SlideMaps, _) => "*.tif",
            (_, 2) => "*.png",
            _ => "*.nii.gz",
        }
    }
}

/// The configuration of a recipe.
///
/// # Errors
/// What cannot be exported, by its key in the recipe.
pub(super) fn inference(recipe: &Recipe) -> Result<Value, Fault> {
    if recipe.data.lazy == hearth_data::spatial::Lazy::On {
        let what = "cannot be exported: a run of spatial steps is sampled once, which MONAI does in another way; \
                    set it to \"exact\"";
        return Err(Fault::at("data.lazy", what));
    }
    let (makes, dims) = (Makes::of(recipe), dims(recipe));
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| drop(config.insert(key.to_owned(), value));
    put("imports", json!(["$import glob", "$import os", "$import numpy as np", "$import torch"]));
    put("bundle_root", json!("."));
    put("output_dir", json!("$@bundle_root + '/eval'"));
    for (key, value) in cases(recipe, makes, dims)? {
        put(key, value);
    }
    put("device", json!("$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')"));
    put("network_def", network(recipe)?);
    put("network", json!("$@network_def.to(@device)"));
    put(
        "dataloader",
        component(
            "DataLoader",
            &[],
            object(json!({
                "dataset": "@dataset", "batch_size": recipe.learns().patches().map_or(1, |how| how.batch), "shuffle": false,
                "num_workers": 0,
            })),
        ),
    );
    let whole = matches!(makes, Makes::SlideMaps | Makes::Generated);
    let inferer = if whole { component("SimpleInferer", &[], Map::new()) } else { inferers::inferer(recipe)? };
    put("inferer", inferer);
    let mut post = postprocessing(recipe, dims)?;
    post.extend(written(makes, dims));
    put("postprocessing", composed(post));
    put(
        "checkpointloader",
        component(
            "CheckpointLoader",
            &[],
            object(json!({
                "load_path": "$@bundle_root + '/models/model.pt'", "load_dict": { "model": "@network" },
                "map_location": "@device",
            })),
        ),
    );
    for (key, value) in handlers(makes) {
        put(key, value);
    }
    put("evaluator", evaluator(makes));
    put("run", json!(["$@evaluator.run()"]));
    Ok(Value::Object(config))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn composed(transforms: Vec<Value>) -> Value {
    component("Compose", &[("transforms", Value::Array(transforms))], Map::new())
}

/// Where images come from, up to the data set.
fn cases(recipe: &Recipe, makes: Makes, dims: usize) -> Result<Vec<(&'static str, Value)>, Fault> {
    if makes == Makes::Generated {
        let data = json!("$[torch.randn(@latent_shape) for i in range(@num_samples)]");
        return Ok(vec![
            ("latent_shape", json!(latent_shape(recipe))),
            ("num_samples", json!(16)),
            ("dataset", component("Dataset", &[("data", data)], Map::new())),
        ]);
    }
    let list = "$[{'image': path} for path in sorted(glob.glob(os.path.join(@dataset_dir, @image_pattern)))]";
    let mut transforms = chain::preprocessing(recipe, dims)?;
    let mut cases = vec![
        ("dataset_dir", json!("$@bundle_root + '/data'")),
        ("image_pattern", json!(makes.pattern(dims))),
        ("datalist", json!(list)),
    ];
    let data = ("data", json!("@datalist"));
    let steps = ("transform", json!("@preprocessing"));
    let dataset = match recipe.learns().patches() {
        Some(how) => {
            // Patches come as bytes.
            let as_floats = object(json!({ "keys": "image", "dtype": "$np.float32" }));
            transforms.insert(0, component("CastToTyped", &[], as_floats));
            cases.push(("whole_slide_reader", json!("OpenSlide")));
            cases.push(("mask_level", json!(mask_level(how)?)));
            component(
                "MaskedPatchWSIDataset",
                &[data, steps],
                object(json!({
                    "patch_size": [how.patch_size, how.patch_size], "patch_level": how.level,
                    "mask_level": "@mask_level", "reader": "@whole_slide_reader",
                })),
            )
        }
        None => component("Dataset", &[data, steps], Map::new()),
    };
    cases.extend([("preprocessing", composed(transforms)), ("dataset", dataset)]);
    Ok(cases)
}

/// The level of a slide whose pixels are those of a map, where each level has half the width of the one
/// before.
fn mask_level(how: &Patches) -> Result<u32, Fault> {
    if !how.stride.is_power_of_two() {
        let what = "cannot be exported: MONAI makes a map's pixels of those of a level, whose width is halved from one \
                    to the next; give a power of 2";
        return Err(Fault::at("task.stride", format!("{}: {what}", how.stride)));
    }
    Ok(how.stride.ilog2())
}

/// The shape of the numbers that an image is made of.
fn latent_shape(recipe: &Recipe) -> Vec<usize> {
    let asked = recipe.adversarial.as_ref().and_then(|adversarial| adversarial.latent_shape.clone());
    let built_for = || {
        let shape = recipe.network.node().get("latent_shape")?;
        shape.items().iter().map(|size| usize::try_from(size.to_toml().as_integer()?).ok()).collect()
    };
    asked.or_else(built_for).unwrap_or_else(|| vec![recipe.network.in_channels()])
}

/// The end of the post-processing: what writes a prediction, unless a handler does.
fn written(makes: Makes, dims: usize) -> Vec<Value> {
    let pred = ("keys", json!("pred"));
    let saved =
        |more: Value| component("SaveImaged", &[pred.clone(), ("output_dir", json!("@output_dir"))], object(more));
    match makes {
        Makes::Maps => vec![saved(json!({
            "output_postfix": "seg", "output_dtype": "$np.uint8", "resample": false, "separate_folder": false,
        }))],
        Makes::Images => vec![saved(json!({
            "output_postfix": "pred", "output_dtype": "$np.float32", "resample": false, "separate_folder": false,
        }))],
        Makes::Scores => Vec::new(),
        Makes::SlideMaps => vec![component("ToNumpyd", &[pred], Map::new())],
        Makes::Generated => {
            let plain = component("ToTensord", &[pred.clone()], object(json!({ "track_meta": false })));
            // Pictures of 2-D ones, where 0 is black and 1 is white.
            let how = match dims {
                2 => json!({ "output_ext": ".png", "scale": 255, "output_dtype": "$np.uint8" }),
                _ => json!({ "output_dtype": "$np.float32" }),
            };
            let mut how = object(how);
            how.extend(object(json!({
                "output_postfix": "pred", "resample": false, "separate_folder": false, "meta_key_postfix": null,
            })));
            vec![plain, saved(Value::Object(how))]
        }
    }
}

fn handlers(makes: Makes) -> Vec<(&'static str, Value)> {
    match makes {
        Makes::Scores => {
            let table = component(
                "ClassificationSaver",
                &[("output_dir", json!("@output_dir"))],
                object(json!({
                    "filename": "scores.csv",
                    "batch_transform": "$lambda batch: [case['image'].meta for case in batch]",
                    "output_transform": "$monai.handlers.from_engine(['pred'])",
                })),
            );
            vec![("scores", table), ("handlers", json!(["@checkpointloader", "@scores"]))]
        }
        Makes::SlideMaps => {
            let maps = component("ProbMapProducer", &[("output_dir", json!("@output_dir"))], Map::new());
            vec![("maps", maps), ("handlers", json!(["@checkpointloader", "@maps"]))]
        }
        _ => vec![("handlers", json!(["@checkpointloader"]))],
    }
}

fn evaluator(makes: Makes) -> Value {
    let mut evaluator = object(json!({
        "device": "@device", "val_data_loader": "@dataloader", "network": "@network", "inferer": "@inferer",
        "postprocessing": "@postprocessing", "val_handlers": "@handlers", "amp": false,
    }));
    match makes {
        Makes::SlideMaps => drop(evaluator.insert("decollate".to_owned(), json!(false))),
        Makes::Generated => {
            let whole = "$lambda batchdata, *_, **__: (batchdata.to(@device), None, (), {})";
            evaluator.insert("prepare_batch".to_owned(), json!(whole));
        }
        _ => {}
    }
    component("SupervisedEvaluator", &[], evaluator)
}
