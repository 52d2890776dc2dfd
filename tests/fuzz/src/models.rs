//! Files of models and runs, and requests.

use hearth_bundle::{Config, Resolver};
use hearth_nnunet::{DatasetJson, Plans, planner, postprocess};
use hearth_package::Package;
use hearth_slides::{Annotations, Pick};

use super::{split, with_file, with_files};

/// A model in one file. Nothing is written outside the folder.
pub fn package(bytes: &[u8]) {
    with_files(&[("x.hearth", bytes)], |folder| {
        let path = folder.join("x.hearth");
        let _ = Package::is_one(&path);
        if let Ok(package) = Package::open(&path) {
            let _ = (package.check(), package.licences().count(), package.labels().len());
            let into = folder.join("deep");
            let _ = package.unpack_model(&into);
        }
        let outside = std::fs::read_dir(folder).expect("a folder").flatten();
        assert!(outside.into_iter().all(|entry| entry.file_name() == "x.hearth" || entry.file_name() == "deep"));
    });
}

/// The config of a bundle, JSON if the first byte shows it, else YAML: every item is resolved.
pub fn bundle(bytes: &[u8]) {
    let name = if bytes.first() == Some(&b'{') { "x.json" } else { "x.yaml" };
    let text = String::from_utf8_lossy(bytes);
    with_files(&[], |folder| {
        let Ok(config) = Config::parse(name, &text) else { return };
        let ids: Vec<String> = config.ids().map(str::to_owned).collect();
        let Ok(resolver) = Resolver::new(config, folder.to_owned()) else { return };
        let resolver = resolver.gathering();
        for id in ids {
            let _ = (resolver.get(&id).map(|value| value.to_json()), resolver.run(&id).is_ok());
        }
        let _ = resolver.faults();
    });
}

/// An expression of a config, next to items that it may refer to.
pub fn expression(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let config = serde_json::json!({
        "x": format!("${text}"), "list": [1, 2.5, "three", null], "table": {"a": [true], "b": "c"}, "text": "a b c",
    });
    with_files(&[], |folder| {
        let resolver = Config::parse("x.json", &config.to_string())
            .and_then(|config| Resolver::new(config, folder.to_owned()))
            .expect("a config of four items");
        if let Ok(value) = resolver.get("x") {
            let _ = (value.kind(), value.to_json(), value.truth());
        }
    });
}

/// Plans, a data set, its fingerprint and postprocessing of nnU-Net: the bytes are read as each of
/// them.
pub fn plans(bytes: &[u8]) {
    with_file("x.json", bytes, |path| {
        if let Ok(plans) = Plans::read(path) {
            for name in plans.names() {
                let _ = plans
                    .configuration(name)
                    .map(|found| (found.patch(), found.dims(), found.target_spacing([1.0; 3])));
            }
        }
        let _ = (DatasetJson::read(path).is_ok(), postprocess::read(path).is_ok());
        if let Ok(value) = hearth_nnunet::parse_json(&String::from_utf8_lossy(bytes)) {
            let _ = planner::Fingerprint::parse(&value);
        }
    });
}

/// Probabilities in nnU-Net's format.
pub fn probabilities(bytes: &[u8]) {
    with_file("x.npz", bytes, |path| {
        if let Ok(volume) = hearth_nnunet::probabilities::read(path) {
            assert_eq!(volume.data.len(), volume.channels * volume.shape.iter().product::<usize>());
        }
    });
}

/// Annotations of slides: ASAP's XML and GeoJSON.
pub fn annotations(bytes: &[u8]) {
    if let Ok(annotations) = Annotations::from_bytes("x", bytes) {
        let pick = Pick::default();
        let _ = (annotations.classes().len(), annotations.check((1000, 1000)).is_ok());
        for shape in annotations.drawn(&pick) {
            let [left, top, _, _] = shape.bounds();
            let _ = annotations.contains([left + 0.5, top + 0.5], &pick);
        }
    }
}

/// The folder of a run: `metrics.csv`, `log.jsonl`, `summary.json` and `warnings.jsonl`,
/// concatenated with [`NEXT_FILE`](super::NEXT_FILE) between; its page is made.
pub fn run(bytes: &[u8]) {
    let names = ["metrics.csv", "log.jsonl", "summary.json", "warnings.jsonl"];
    let mut files: Vec<(&str, &[u8])> = names.into_iter().zip(split(bytes)).collect();
    files.push(("recipe.toml", b"task = \"organ\"\n"));
    with_files(&files, |folder| {
        let Ok(run) = hearth_report::Run::read(folder) else { return };
        let _ = (run.best(), run.key_metric().map(str::to_owned), run.max_epochs());
        if let Ok(report) = hearth_report::Report::new(vec![run]) {
            assert!(report.html().contains("</html>"));
        }
    });
}
