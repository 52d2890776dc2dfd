//! What is missing or damaged is reported before anything is computed, with file and id.

use std::error::Error;
use std::path::Path;

use hearth_models::bundle::{Bundle, RunOptions, run};
use serde_json::{Value, json};

type Tested = Result<(), Box<dyn Error>>;

/// A bundle of one small 2-D network with a changed config.
pub fn bundle(folder: &Path, change: impl FnOnce(&mut Value)) -> Tested {
    let mut config = json!({
        "imports": ["$import os"],
        "bundle_root": ".",
        "data": [{"image": "in.png"}],
        "network_def": {"_target_": "BasicUNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2,
            "features": [4, 4, 4, 4, 4, 4]},
        "network": "$@network_def.to(@device)",
        "device": "$torch.device('cpu')",
        "preprocessing": {"_target_": "Compose", "transforms": [
            {"_target_": "LoadImaged", "keys": "image"},
            {"_target_": "EnsureChannelFirstd", "keys": "image"},
            {"_target_": "ScaleIntensityd", "keys": "image"},
        ]},
        "dataset": {"_target_": "Dataset", "data": "@data", "transform": "@preprocessing"},
        "dataloader": {"_target_": "DataLoader", "dataset": "@dataset"},
        "postprocessing": {"_target_": "Compose", "transforms": [
            {"_target_": "AsDiscreted", "keys": "pred", "argmax": true},
            {"_target_": "SaveImaged", "keys": "pred", "output_dir": "out", "output_ext": ".png"},
        ]},
        "evaluator": {"_target_": "SupervisedEvaluator", "device": "@device", "val_data_loader": "@dataloader",
            "network": "@network", "postprocessing": "@postprocessing", "val_handlers": []},
        "run": ["$@evaluator.run()"],
    });
    change(&mut config);
    std::fs::create_dir_all(folder.join("configs"))?;
    std::fs::write(folder.join("configs/inference.json"), config.to_string())?;
    let image = hearth_data::Image::from_values(
        (0..32 * 32).map(|value| (value % 200) as f32).collect(),
        [1, 32, 32, 1],
        hearth_data::affine::IDENTITY,
        &hearth_data::host_device(),
    );
    let options = hearth_data::writers::WriteOptions::default();
    hearth_data::writers::write_image(folder.join("in.png"), &image.with_spatial_dims(2), &options)?;
    Ok(())
}

fn outcome(folder: &Path, options: &RunOptions) -> Result<Vec<String>, String> {
    let bundle = Bundle::open(folder).map_err(|fault| fault.to_string())?;
    let mut told = Vec::new();
    // Most of these bundles have no weights.
    let options = &RunOptions { random_weights: true, ..options.clone() };
    let report = run(&bundle, options, &mut |what| told.push(format!("{what:?}"))).map_err(|error| error.line())?;
    told.extend(report.written.iter().map(|path| path.display().to_string()));
    Ok(told)
}

#[test]
fn a_bundle_runs_and_nothing_of_before_is_replaced() -> Tested {
    let folder = tempfile::tempdir()?;
    bundle(folder.path(), |_| {})?;
    let told = outcome(folder.path(), &RunOptions::default())?;
    assert!(told.iter().any(|line| line.starts_with("Random")), "{told:?}");
    assert!(folder.path().join("out/in/in_trans.png").is_file(), "{told:?}");
    let opened = Bundle::open(folder.path()).map_err(|fault| fault.to_string())?;
    let without = RunOptions { overwrite: true, ..RunOptions::default() };
    let error = run(&opened, &without, &mut |_| {}).map(drop).expect_err("no weights").line();
    assert!(error.contains("no weights are loaded") && error.contains("CheckpointLoader"), "{error}");
    let again = outcome(folder.path(), &RunOptions::default()).expect_err("there is a file");
    assert!(again.contains("in_trans.png exists") && again.contains("--overwrite"), "{again}");
    outcome(folder.path(), &RunOptions { overwrite: true, ..RunOptions::default() })?;
    let elsewhere = tempfile::tempdir()?;
    let results = Some(elsewhere.path().to_owned());
    outcome(folder.path(), &RunOptions { results, ..RunOptions::default() })?;
    assert!(elsewhere.path().join("out/in/in_trans.png").is_file());
    Ok(())
}

#[test]
fn what_a_config_lacks_is_named_at_once() -> Tested {
    type Change = fn(&mut Value);
    fn inferer(config: &mut Value, option: &str, value: Value) {
        let mut inferer = json!({"_target_": "SlidingWindowInferer", "roi_size": [32, 32]});
        inferer[option] = value;
        config["evaluator"]["inferer"] = inferer;
    }
    let table: [(Change, &[&str]); 22] = [
        (
            |c| inferer(c, "overlap", "half".into()),
            &["SlidingWindowInferer", "overlap: expected a number, or one for each axis"],
        ),
        (
            |c| inferer(c, "roi_size", json!([1.5, 2])),
            &["SlidingWindowInferer", "roi_size: expected a whole number, or one for each axis"],
        ),
        (|c| c["network_def"]["_target_"] = "HoVerNet".into(), &["network_def", "HoVerNet", "not supported"]),
        (|c| c["network_def"]["featurez"] = 3.into(), &["network_def", "featurez"]),
        (|c| c["data"] = "$json.load(open('no.json'))".into(), &["data", "json"]),
        (
            |c| c["data"] = "$[{'image': f} for f in os.popen('ls')]".into(),
            &["configs/inference.json: data", "os.popen(...) is not evaluated"],
        ),
        (|c| c["data"] = json!([]), &["evaluator", "the list of images is empty"]),
        (|c| c["data"] = json!([{"image": "none.png"}]), &["none.png"]),
        (
            |c| c["preprocessing"]["transforms"][1]["_target_"] = "scripts.Own".into(),
            &["preprocessing::transforms::1", "own scripts"],
        ),
        (
            |c| c["preprocessing"]["transforms"][1]["_target_"] = "Wiggled".into(),
            &["preprocessing::transforms::1", "Wiggled", "not supported"],
        ),
        (
            |c| c["postprocessing"]["transforms"][1]["output_ext"] = ".dcm".into(),
            &["postprocessing::transforms::1", ".dcm"],
        ),
        (
            |c| {
                c["postprocessing"]["transforms"][0] =
                    json!({"_target_": "Lambdad", "keys": "pred", "func": "$lambda x: skimage.measure.label(x)"})
            },
            &["postprocessing::transforms::0::func", "skimage"],
        ),
        (
            |c| {
                c["evaluator"]["val_handlers"] =
                    json!([{"_target_": "CheckpointLoader", "load_path": "m.pt", "load_dict": {"model": "@network"}}])
            },
            &["m.pt", "nothing is fetched"],
        ),
        (
            |c| c["dataset"] = json!({"_target_": "IterableDataset", "data": "@data"}),
            &["dataset", "does not combine streams"],
        ),
        (
            |c| {
                let stream = json!({"_target_": "SmartCacheDataset", "data": "@data"});
                let data = "$map(lambda t: dict(image=t[0]), zip(*@streams))";
                c["streams"] = json!([stream]);
                c["dataset"] = json!({"_target_": "IterableDataset", "data": data});
            },
            &["streams::0", "ShuffleBuffer is"],
        ),
        (
            |c| {
                let images = json!({"_target_": "Dataset", "data": ["in.png"], "transform": {"_target_": "LoadImage"}});
                let data = "$map(lambda t: dict(moved=t[0]), zip(*@streams))";
                c["streams"] = json!([{"_target_": "ShuffleBuffer", "data": images}]);
                c["dataset"] = json!({"_target_": "IterableDataset", "data": data});
            },
            &["dataset", "no dictionary with an `image`"],
        ),
        (
            |c| c["run"] = json!(["$monai.data.register_writer('json', os.system)", "$@evaluator.run()"]),
            &["run::0", "a writer of json files that is not supported: os.system"],
        ),
        (
            |c| {
                c["data"] = json!(["in.png"]);
                c["preprocessing"]["transforms"] =
                    json!([{"_target_": "LoadImage"}, {"_target_": "Transpose", "indices": [0, 0, 1]}]);
            },
            &["preprocessing::transforms::1", "no order of the axes"],
        ),
        (
            |c| {
                c["data"] = json!(["in.png"]);
                c["preprocessing"]["transforms"] =
                    json!([{"_target_": "LoadImage"}, {"_target_": "Transpose", "indices": [2, 0, 1, 3]}]);
            },
            &["in.png", "the file has 2 axes, and Transpose orders 4"],
        ),
        (|c| c["network"] = "@evaluator".into(), &["refers to itself"]),
        (|c| c["run"] = json!(["$@evaluatr.run()"]), &["run::0", "@evaluatr, which the config does not have"]),
        (|c| c["run"] = json!(["$None"]), &["runs no evaluator"]),
    ];
    for (change, parts) in table {
        let folder = tempfile::tempdir()?;
        bundle(folder.path(), change)?;
        let error = outcome(folder.path(), &RunOptions::default()).expect_err(parts[0]);
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
        assert!(!folder.path().join("out").exists(), "{error}");
    }
    Ok(())
}

#[test]
fn weights_that_do_not_fit_are_told_by_name() -> Tested {
    let folder = tempfile::tempdir()?;
    bundle(folder.path(), |config| {
        config["evaluator"]["val_handlers"] =
            json!([{"_target_": "CheckpointLoader", "load_path": "m.pt", "load_dict": {"model": "@network"}}]);
    })?;
    // A missing file: its place in the bundle, and the address in the bundle's list.
    let error = outcome(folder.path(), &RunOptions::default()).expect_err("no file");
    let place = folder.path().join("m.pt").display().to_string();
    for part in ["the weights m.pt are missing", "nothing is fetched", &place] {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
    assert!(!error.contains("load_path"), "{error}");
    let list = folder.path().join("large_files.yml");
    std::fs::write(&list, "large_files:\n  - path: \"./m.pt\"\n    url: \"https://example.org/m.pt\"\n")?;
    let error = outcome(folder.path(), &RunOptions::default()).expect_err("no file");
    assert!(error.contains("Download them from https://example.org/m.pt"), "{error}");
    let bytes = safetensors::serialize(Vec::<(String, safetensors::tensor::TensorView<'_>)>::new(), None)?;
    std::fs::write(folder.path().join("m.pt"), bytes)?;
    let error = outcome(folder.path(), &RunOptions::default()).expect_err("no weights");
    assert!(error.contains("missing: ") && error.contains("m.pt"), "{error}");
    std::fs::write(folder.path().join("m.pt"), b"no weights at all")?;
    let error = outcome(folder.path(), &RunOptions::default()).expect_err("no file of weights");
    assert!(error.contains("m.pt") && error.contains("PyTorch"), "{error}");
    Ok(())
}

#[test]
fn folders_that_are_no_bundles_are_told() -> Tested {
    let folder = tempfile::tempdir()?;
    let missing = Bundle::open(&folder.path().join("x")).err().ok_or("opened")?.to_string();
    assert!(missing.contains("is no folder"), "{missing}");
    let empty = Bundle::open(folder.path()).err().ok_or("opened")?.to_string();
    assert!(empty.contains("has no folder `configs`"), "{empty}");
    bundle(folder.path(), |_| {})?;
    std::fs::write(folder.path().join("configs/inference.json"), "{\"a\": [1,}")?;
    let damaged = outcome(folder.path(), &RunOptions::default()).expect_err("damaged");
    assert!(damaged.contains("configs/inference.json: is not valid JSON"), "{damaged}");
    Ok(())
}
