//! The recorded parameters of MONAI's classes, for tests of tables.

use std::path::Path;

use serde_json::Value;

/// The parameters of a class of `transforms`, `networks` or `inferers`.
pub(super) fn parameters(of: &str, class: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/monai_parameters.json");
    let text = std::fs::read_to_string(&path).expect("recorded parameters");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let list = recorded[of][class].as_array().unwrap_or_else(|| panic!("MONAI has no {class} in {of}"));
    list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The parameters of an entry in Hearth, from its schema.
pub(super) fn ours(schema: &schemars::Schema) -> Vec<String> {
    let mut value = schema.as_value();
    // A reference to a definition in the same schema.
    if let Some(name) = value["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        value = &value["$defs"][name];
    }
    let properties = value["properties"].as_object().into_iter().flatten();
    properties.map(|(key, _)| key.clone()).collect()
}
