//! `hearth reference` and the pages it writes.

use std::path::Path;

use crate::common::{fail, succeed};

const KINDS: [&str; 15] = [
    "tasks",
    "layouts",
    "readers",
    "caches",
    "samplers",
    "transforms",
    "networks",
    "losses",
    "optimizers",
    "schedules",
    "inferers",
    "post",
    "metrics",
    "handlers",
    "noise-schedulers",
];

#[test]
fn the_pages_are_equal_to_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    for kind in KINDS {
        let written = std::fs::read_to_string(folder.join(format!("{kind}.md"))).expect("a page");
        let made = succeed(&["reference", kind, "--markdown"]);
        let first = written.lines().zip(made.lines()).find(|(a, b)| a != b);
        assert!(written == made, "run hearth reference {kind} --markdown > docs/reference/{kind}.md\n{first:?}");
    }
}

#[test]
fn every_kind_and_entry_can_be_asked_for() {
    let kinds = succeed(&["reference"]);
    let json = succeed(&["reference", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let listed: Vec<&str> =
        listed.as_array().expect("a list").iter().map(|kind| kind["kind"].as_str().expect("a word")).collect();
    assert_eq!(listed, KINDS);
    for kind in KINDS {
        assert!(kinds.contains(kind), "{kinds}");
        let entries: serde_json::Value = serde_json::from_str(&succeed(&["reference", kind, "--json"])).expect("JSON");
        let entries = entries.as_array().expect("a list");
        assert!(!entries.is_empty());
        for entry in [&entries[0], &entries[entries.len() - 1]] {
            let name = entry["name"].as_str().expect("a name");
            let shown = succeed(&["reference", kind, name]);
            assert!(shown.contains(name) && shown.contains("example"), "{shown}");
            assert!(!shown.contains("# use "), "an example in Rust: {shown}");
            // The example is TOML.
            toml::from_str::<toml::Table>(entry["example"].as_str().expect("an example")).expect(name);
        }
    }
    // Other spellings of names: with MONAI's `d`, in another case, in the singular.
    assert!(succeed(&["reference", "transform", "Spacingd"]).contains("pixdim"));
    let dice = succeed(&["reference", "losses", "DiceLoss"]);
    assert!(!dice.contains("use hearth_nn") && dice.contains("[loss]"), "{dice}");
    assert!(succeed(&["reference", "networks", "swinunetr"]).contains("feature_size = 24"));
}

#[test]
fn what_is_unknown_is_answered_with_what_was_meant() {
    fail(&["reference", "losss"], 1, &["unknown kind or name \"losss\"", "did you mean \"losses\""]);
    fail(&["reference", "losses", "DicLoss"], 1, &["unknown loss \"DicLoss\"", "did you mean \"DiceLoss\""]);
}

/// The command covers every kind of entry.
#[test]
fn all_kinds_are_known() {
    let words = [
        "task",
        "layout",
        "reader",
        "cache",
        "sampler",
        "transform",
        "network",
        "loss",
        "optimizer",
        "schedule",
        "inferer",
        "post-processing step",
        "metric",
        "handler",
        "noise scheduler",
    ];
    // The program's library links every crate that has entries.
    assert!(hearth_apps::recipe::bundled::find("spleen").is_ok());
    let mut known: Vec<&str> = words.to_vec();
    known.sort_unstable();
    assert_eq!(hearth_registry::kinds(), known);
}

/// The devices of entries are in text, JSON and pages, but only where they differ.
#[test]
fn it_is_said_where_things_run() {
    assert!(succeed(&["reference", "networks", "UNet"]).contains("runs on any device"));
    assert!(succeed(&["reference", "readers", "--markdown"]).contains("\nRuns on the host.\n"));
    assert!(succeed(&["reference", "transforms", "Flip"]).contains("runs where its tensor lives"));
    // A row for each transform says where it runs.
    let page = succeed(&["reference", "transforms", "--markdown"]);
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    assert_eq!(rows.len(), page.lines().filter(|line| line.starts_with("- [")).count());
    for row in [
        "| [Flip](#flip) | CPU | GPU | as for a case |",
        "| [RandFlip](#randflip) | CPU | GPU | one draw for all cases |",
        "| [MedianSmooth](#mediansmooth) | CPU | CPU, copied there and back | as for a case |",
        "| [MixUp](#mixup) | CPU | GPU | needed |",
    ] {
        assert!(rows.contains(&row), "{row}: {rows:?}");
    }
    let json = |kind: &str, name: &str| {
        let text = succeed(&["reference", kind, name, "--json"]);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["place"].clone()
    };
    assert_eq!(json("losses", "DiceLoss"), "any device");
    assert_eq!(json("schedules", "StepLR"), serde_json::Value::Null);
}

/// The entry's type has an example in Rust with an assertion, for entries whose reference is the type's
/// documentation.
#[test]
fn every_entry_has_an_example_in_rust() {
    let kinds = ["transform", "loss", "metric", "optimizer", "inferer", "schedule"];
    let lacks = |entry: &hearth_registry::Described| {
        let doc = entry.schema.get("description").and_then(|doc| doc.as_str()).unwrap_or_default();
        // The table of `Range` in a recipe is not the type of the transform.
        entry.name != "Range" && !(doc.contains("```\n") && doc.contains("assert"))
    };
    let all = hearth_registry::described();
    let lacking = all.iter().filter(|entry| kinds.contains(&entry.kind) && lacks(entry));
    let mut lacking: Vec<String> = lacking.map(|entry| format!("{} {}", entry.kind, entry.name)).collect();
    // For handlers, the registry has the options; the handler has its example in the same file.
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../handlers/src")).expect("a folder") {
        let path = file.expect("a file").path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let docs: String = text.lines().filter(|line| line.starts_with("///")).collect();
        if text.contains("\nhandler_entry!(") && !(docs.contains("/// ```") && docs.contains("assert")) {
            lacking.push(path.display().to_string());
        }
    }
    assert!(lacking.is_empty(), "no example in Rust that asserts something: {lacking:#?}");
}
