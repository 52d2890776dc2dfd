//! Builds for CUDA and ROCm on a machine without such a GPU: the program starts and reports it.

#![cfg(any(feature = "cuda", feature = "rocm"))]

mod common;

use common::{fail, phantom, succeed, text, tiny_recipe};

#[test]
fn a_build_without_its_card_starts_and_says_so() {
    let list: serde_json::Value = serde_json::from_str(&succeed(&["devices", "--json"])).expect("JSON");
    let lines = list.as_array().expect("a list");
    let of = |word: &str| lines.iter().find(|line| line["feature"] == word).expect("each runtime has a line");
    assert_eq!(of("cpu")["available"], true);
    let words = ["cuda", "rocm"].into_iter().filter(|word| of(word)["compiled_in"] == true);
    let absent: Vec<&str> = words.filter(|word| of(word)["available"] == false).collect();
    if absent.is_empty() {
        eprintln!("there is a card; nothing to see");
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 2));
    for word in absent {
        assert!(succeed(&["devices"]).lines().any(|line| line.starts_with(word) && line.contains("none found")));
        let out = text(&dir.path().join(word));
        let train = ["train", &text(&recipe), "--data", &text(&data), "--out", &out, "--device", word];
        fail(&train, 1, &[word, "finds 0 device(s)", "is the driver installed?", "Available here: cpu"]);
        assert!(!dir.path().join(word).exists(), "nothing is written");
    }
    if of("cuda")["compiled_in"] == true {
        let reports = |line: &str| line.starts_with("cuDNN ") && line.ends_with("convolutions do not use it yet");
        assert!(succeed(&["devices"]).lines().any(reports));
    }
    // Everything else works.
    assert!(succeed(&["devices"]).contains("cpu"));
}
