//! `configs/inference.json`: the steps of MONAI from image files to prediction files.

use hearth_registry::Fault;
use serde_json::{Map, Value, json};

use super::networks::{dims, network};
use super::post::postprocessing;
use super::rule::component;
use super::{chain, inferers};
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::task::Patches;

/// The output of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Makes {
    /// Label maps, or a channel for each region.
    Maps,
    /// Images from images.
    Images,
    /// A table of numbers per image.
    Scores,
    /// Probability maps of slides.
    SlideMaps,
    /// Images from random numbers.
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

    /// The pattern of the image files in a folder.
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
/// A part that cannot be exported, with its key in the recipe.
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
    let batch = recipe.learns().patches().map_or(1, |how| how.batch);
    let loader = json!({ "dataset": "@dataset", "batch_size": batch, "shuffle": false, "num_workers": 0 });
    put("dataloader", made("DataLoader", loader));
    let whole = matches!(makes, Makes::SlideMaps | Makes::Generated);
    put("inferer", if whole { made("SimpleInferer", json!({})) } else { inferers::inferer(recipe)? });
    let mut post = postprocessing(recipe, dims)?;
    post.extend(written(makes, dims));
    put("postprocessing", made("Compose", json!({ "transforms": post })));
    let path = "$@bundle_root + '/models/model.pt'";
    let weights = json!({ "load_path": path, "load_dict": { "model": "@network" }, "map_location": "@device" });
    put("checkpointloader", made("CheckpointLoader", weights));
    for (key, value) in handlers(makes) {
        put(key, value);
    }
    put("evaluator", evaluator(makes));
    put("run", json!(["$@evaluator.run()"]));
    Ok(Value::Object(config))
}

/// A component with these parameters.
fn made(target: &str, parameters: Value) -> Value {
    component(target, &[], parameters.as_object().cloned().unwrap_or_default())
}

/// The source of images, up to the data set.
fn cases(recipe: &Recipe, makes: Makes, dims: usize) -> Result<Vec<(&'static str, Value)>, Fault> {
    if makes == Makes::Generated {
        let data = "$[torch.randn(@latent_shape) for i in range(@num_samples)]";
        return Ok(vec![
            ("latent_shape", json!(latent_shape(recipe))),
            ("num_samples", json!(16)),
            ("dataset", made("Dataset", json!({ "data": data }))),
        ]);
    }
    let list = "$[{'image': path} for path in sorted(glob.glob(os.path.join(@dataset_dir, @image_pattern)))]";
    let mut transforms = chain::preprocessing(recipe, dims)?;
    let mut cases = vec![
        ("dataset_dir", json!("$@bundle_root + '/data'")),
        ("image_pattern", json!(makes.pattern(dims))),
        ("datalist", json!(list)),
    ];
    let dataset = match recipe.learns().patches() {
        Some(how) => {
            // Patches are read as bytes.
            transforms.insert(0, made("CastToTyped", json!({ "keys": "image", "dtype": "$np.float32" })));
            cases.push(("whole_slide_reader", json!("OpenSlide")));
            cases.push(("mask_level", json!(mask_level(how)?)));
            let patches = json!({
                "data": "@datalist", "transform": "@preprocessing", "patch_size": [how.patch_size, how.patch_size],
                "patch_level": how.level, "mask_level": "@mask_level", "reader": "@whole_slide_reader",
            });
            made("MaskedPatchWSIDataset", patches)
        }
        None => made("Dataset", json!({ "data": "@datalist", "transform": "@preprocessing" })),
    };
    cases.extend([("preprocessing", made("Compose", json!({ "transforms": transforms }))), ("dataset", dataset)]);
    Ok(cases)
}

/// The level of a slide whose pixels are those of a map, if each level has half the width of the
/// one before.
fn mask_level(how: &Patches) -> Result<u32, Fault> {
    if !how.stride.is_power_of_two() {
        let what = "cannot be exported: MONAI makes a map's pixels of those of a level, whose width is halved from one \
                    to the next; give a power of 2";
        return Err(Fault::at("task.stride", format!("{}: {what}", how.stride)));
    }
    Ok(how.stride.ilog2())
}

/// The shape of the latent numbers for an image.
fn latent_shape(recipe: &Recipe) -> Vec<usize> {
    let asked = recipe.adversarial.as_ref().and_then(|adversarial| adversarial.latent_shape.clone());
    let built_for = || {
        let shape = recipe.network.node().get("latent_shape")?;
        shape.items().iter().map(|size| usize::try_from(size.to_toml().as_integer()?).ok()).collect()
    };
    asked.or_else(built_for).unwrap_or_else(|| vec![recipe.network.in_channels()])
}

/// The end of the post-processing, which writes a prediction unless a handler does.
fn written(makes: Makes, dims: usize) -> Vec<Value> {
    let saved = |postfix: &str, mut how: Map<String, Value>| {
        how.extend([("resample".to_owned(), json!(false)), ("separate_folder".to_owned(), json!(false))]);
        let to = [("keys", json!("pred")), ("output_dir", json!("@output_dir")), ("output_postfix", json!(postfix))];
        component("SaveImaged", &to, how)
    };
    let dtype = |name: &str| Map::from_iter([("output_dtype".to_owned(), json!(name))]);
    match makes {
        Makes::Maps => vec![saved("seg", dtype("$np.uint8"))],
        Makes::Images => vec![saved("pred", dtype("$np.float32"))],
        Makes::Scores => Vec::new(),
        Makes::SlideMaps => vec![made("ToNumpyd", json!({ "keys": "pred" }))],
        Makes::Generated => {
            // 2-D images become pictures, with 0 as black and 1 as white.
            let mut how = match dims {
                2 => dtype("$np.uint8"),
                _ => dtype("$np.float32"),
            };
            if dims == 2 {
                how.extend([("output_ext".to_owned(), json!(".png")), ("scale".to_owned(), json!(255))]);
            }
            // There is no input file that names them.
            how.insert("meta_key_postfix".to_owned(), Value::Null);
            vec![made("ToTensord", json!({ "keys": "pred", "track_meta": false })), saved("pred", how)]
        }
    }
}

fn handlers(makes: Makes) -> Vec<(&'static str, Value)> {
    match makes {
        Makes::Scores => {
            let table = json!({
                "output_dir": "@output_dir", "filename": "scores.csv",
                "batch_transform": "$lambda batch: [case['image'].meta for case in batch]",
                "output_transform": "$monai.handlers.from_engine(['pred'])",
            });
            vec![("scores", made("ClassificationSaver", table)), ("handlers", json!(["@checkpointloader", "@scores"]))]
        }
        Makes::SlideMaps => {
            let maps = made("ProbMapProducer", json!({ "output_dir": "@output_dir" }));
            vec![("maps", maps), ("handlers", json!(["@checkpointloader", "@maps"]))]
        }
        Makes::Maps | Makes::Images | Makes::Generated => vec![("handlers", json!(["@checkpointloader"]))],
    }
}

fn evaluator(makes: Makes) -> Value {
    let mut evaluator = json!({
        "device": "@device", "val_data_loader": "@dataloader", "network": "@network", "inferer": "@inferer",
        "postprocessing": "@postprocessing", "val_handlers": "@handlers", "amp": false,
    });
    match makes {
        Makes::SlideMaps => evaluator["decollate"] = json!(false),
        Makes::Generated => {
            evaluator["prepare_batch"] = json!("$lambda batchdata, *_, **__: (batchdata.to(@device), None, (), {})");
        }
        Makes::Maps | Makes::Images | Makes::Scores => {}
    }
    made("SupervisedEvaluator", evaluator)
}
