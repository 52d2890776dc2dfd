//! The properties that nnU-Net stores next to an image's probabilities:
//! `tests/golden/nnunet/properties.json`, recorded by `tests/golden/record_properties.py`.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_models::nnunet::{NnunetOptions, NnunetPredictor};
use hearth_nnunet::checkpoint::write_values;
use serde_json::Value;

/// All recorded values are present, with numbers equal to f32 precision; further values are allowed.
fn same(found: &Value, expected: &Value, at: &str) {
    match expected {
        Value::Object(table) => table.iter().for_each(|(key, value)| same(&found[key], value, &format!("{at}.{key}"))),
        Value::Array(items) => {
            assert_eq!(found.as_array().map(Vec::len), Some(items.len()), "{at}: {found}");
            items.iter().enumerate().for_each(|(place, item)| same(&found[place], item, &format!("{at}.{place}")));
        }
        Value::Number(number) => {
            let [found, expected] = [found.as_f64(), number.as_f64()].map(|number| number.expect("a number"));
            assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{at}: {found}, expected {expected}");
        }
        other => assert_eq!(found, other, "{at}"),
    }
}

#[test]
fn properties_of_images_are_those_of_nnunet() {
    // In the folder of the recorded predictions to which they belong.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet");
    let list: Value =
        serde_json::from_str(&fs::read_to_string(root.join("properties.json")).expect("a list")).expect("JSON");
    let cases = list["cases"].as_array().expect("cases");
    assert!(cases.len() >= 8);
    for case in cases {
        let text = |key: &str| case[key].as_str().expect("a text");
        let (name, reader) = (text("case"), text("reader"));
        let copy = tempfile::tempdir().expect("a folder");
        let model: PathBuf = copy.path().join("model");
        fs::create_dir_all(model.join("fold_0")).expect("a folder");
        for file in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
            fs::copy(root.join(name).join("model").join(file), model.join(file)).expect("a copy");
        }
        let path = model.join("dataset.json");
        let mut dataset: Value = serde_json::from_str(&fs::read_to_string(&path).expect("JSON")).expect("JSON");
        dataset["overwrite_image_reader_writer"] = reader.into();
        fs::remove_file(&path).and_then(|()| fs::write(&path, dataset.to_string())).expect("written");
        let predictor =
            NnunetPredictor::open(&model, &NnunetOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let cases = predictor.cases(&root.join(name).join("input")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let image = cases.iter().find(|image| image.name == text("id")).expect("the image");
        let prepared = predictor.prepare(image, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = predictor.properties(&prepared);
        same(&found, &case["properties"], &format!("{name}, {reader}"));
        let pickle = copy.path().join("properties.pkl");
        write_values(&pickle, &found).expect("written");
        let bytes = fs::read(&pickle).expect("a file");
        // Protocol 2, a dictionary, and no operation that calls anything.
        assert!(bytes.starts_with(&[0x80, 2, b'}', b'(', b'X']) && bytes.ends_with(b"u."), "{name}");
    }
}
