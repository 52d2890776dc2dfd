//! `hearth models`: the list, the cost of a network, and the generated page.

use crate::common::{fail, succeed};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).expect("JSON")
}

#[test]
fn networks_are_listed() {
    let table = succeed(&["models", "list"]);
    for word in ["UNet", "SwinUNETR", "resnet50", "arXiv:2201.01266", "2-D, 3-D"] {
        assert!(table.contains(word), "no {word} in\n{table}");
    }
    let list = json(&["models", "list", "--json"]);
    let unet = list.as_array().expect("a list").iter().find(|entry| entry["name"] == "UNet").expect("UNet");
    assert_eq!(unet["example"]["spatial_dims"], 3);
    assert_eq!(unet["input"], serde_json::json!([1, 1, 64, 64, 64]));
}

#[test]
fn a_network_is_described_at_any_size() {
    let text = succeed(&["models", "describe", "unet", "--input", "1x96x96x96", "--config", "out_channels=14"]);
    for word in ["UNet  3-D, 1 -> 14 channels", "input   1 x 1 x 96 x 96 x 96", "model.0", "model.2", "total"] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    let at = |size: &str, batch: &str| {
        let whole = json(&["models", "describe", "UNet", "--input", size, "--batch", batch, "--json"]);
        let total = &whole["total"];
        ["parameters", "flops", "activation_bytes"].map(|key| total[key].as_u64().expect("a number"))
    };
    let small = at("1x32x32x32", "1");
    assert_eq!(small[0], 4_808_917);
    assert_eq!(at("1x64x32x32", "1"), [small[0], 2 * small[1], 2 * small[2]]);
    assert_eq!(at("1x32x32x32", "3"), [small[0], 3 * small[1], 3 * small[2]]);
    let flat = json(&["models", "describe", "UNet", "--config", "spatial_dims=2", "--input", "1x64x48", "--json"]);
    assert_eq!(flat["input"], serde_json::json!([1, 1, 64, 48, 1]));
    let recipe = json(&["models", "describe", "--recipe", "spleen", "--json"]);
    // A window of the recipe's sliding-window inference.
    assert_eq!(recipe["input"], serde_json::json!([1, 1, 160, 160, 160]));
    assert_eq!(recipe["config"]["name"], "UNet");
}

#[test]
fn what_cannot_be_described_is_told() {
    fail(&["models", "describe", "UNot"], 1, &["unknown network \"UNot\"", "\"UNet\""]);
    fail(&["models", "describe", "UNet", "--config", "chanels=[4,8]"], 1, &["unknown key \"chanels\"", "\"channels\""]);
    fail(&["models", "describe", "UNet", "--config", "channels"], 1, &["expected key=value"]);
    fail(&["models", "describe", "UNet", "--input", "96"], 1, &["--input 96", "1x96x96x96"]);
    let odd = &["--input 1x97x96x96", "divisible by [16, 16, 16]", "[112, 96, 96]"];
    fail(&["models", "describe", "UNet", "--input", "1x97x96x96"], 1, odd);
    fail(&["models", "describe", "UNet", "--input", "3x96x96x96"], 1, &["in_channels = 1"]);
    fail(&["models", "describe"], 2, &["<NAME>"]);
}

/// `hearth models table > docs/models.md`
#[test]
fn the_page_of_networks_is_current() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/models.md");
    let written = std::fs::read_to_string(page).expect("docs/models.md");
    let made = succeed(&["models", "table"]);
    let first = written.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(written == made, "docs/models.md is not current; run hearth models table > docs/models.md\n{first:?}");
}
