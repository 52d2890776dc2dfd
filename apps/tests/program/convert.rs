//! `hearth convert`: files that PyTorch wrote (see `engine/nn/tests/pytorch`), compared with
//! networks, and written as safetensors.

use std::path::{Path, PathBuf};

use crate::common::{errors, fail, run, succeed, text};
use safetensors::SafeTensors;

/// The network of the fixtures.
const NETWORK: [&str; 10] = [
    "--network",
    "UNet",
    "--config",
    "channels=[2,4]",
    "--config",
    "strides=[2]",
    "--config",
    "num_res_units=1",
    "--config",
    "norm=batch",
];

fn fixture(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/nn/tests/pytorch").join(name))
}

fn keys(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut names: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
    names.sort();
    names
}

fn with<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    first.iter().chain(more).copied().collect()
}

#[test]
fn pytorch_files_become_safetensors() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = |name: &str| -> PathBuf { dir.path().join(name) };
    for name in ["state_dict.pt", "legacy.pth", "data_parallel.pt", "checkpoint.pt", "module.pt", "bundle.zip"] {
        let file = out(&format!("{name}.safetensors"));
        let (input, output) = (fixture(name), text(&file));
        let said = run(&with(&["convert", &input, &output], &NETWORK));
        assert!(said.status.success(), "{name}: {}", errors(&said));
        assert!(errors(&said).contains("nothing in it is executed"), "{}", errors(&said));
        assert!(String::from_utf8_lossy(&said.stdout).contains("every key of the network"));
        assert_eq!(keys(&file), keys(&out("state_dict.pt.safetensors")), "{name}");
    }
    assert!(keys(&out("state_dict.pt.safetensors")).contains(&"model.0.conv.unit0.conv.weight".to_owned()));
    // Without a network the file is converted unchanged.
    let (input, output) = (fixture("half.pt"), text(&out("half.safetensors")));
    let said = succeed(&["convert", &input, &output, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["tensors"], keys(&out("half.safetensors")).len());
    assert!(said["network"].is_null());
    // Safetensors can be renamed, too.
    let renamed = text(&out("renamed.safetensors"));
    succeed(&["convert", &output, &renamed, "--map", "^model[.]=net."]);
    assert!(keys(Path::new(&renamed)).iter().all(|key| key.starts_with("net.")));
}

#[test]
fn keys_that_do_not_fit_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = text(&dir.path().join("out.safetensors"));
    let renamed = fixture("renamed.pt");
    let told = &["renamed.pt does not fit UNet", "missing: model.0.conv", "--map"];
    fail(&with(&["convert", &renamed, &output], &NETWORK), 1, told);
    assert!(!Path::new(&output).exists());
    // With three classes, a shape differs.
    let whole = fixture("state_dict.pt");
    let other = with(&["convert", &whole, &output], &with(&NETWORK, &["--config", "out_channels=3"]));
    fail(&other, 1, &["wrong shape or type: model.2", "in the network"]);
    let map = ["--map", "^down[.]=model.0."];
    let said = run(&with(&with(&["convert", &renamed, &output], &NETWORK), &map));
    assert!(said.status.success(), "{}", errors(&said));
    let partial = text(&dir.path().join("partial.safetensors"));
    let said = succeed(&with(&with(&["convert", &renamed, &partial], &NETWORK), &["--partial"]));
    assert!(said.contains("keep their first weights"), "{said}");
    // A prefix of every key is reported.
    let prefixed = text(&dir.path().join("prefixed.safetensors"));
    succeed(&["convert", &whole, &prefixed, "--map", "^=wrapped.net."]);
    let again = text(&dir.path().join("again.safetensors"));
    fail(&with(&["convert", &prefixed, &again], &NETWORK), 1, &["--map '^wrapped[.]net[.]='"]);
}

#[test]
fn bad_input_is_told_and_nothing_is_executed() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = text(&dir.path().join("out.safetensors"));
    for name in ["command.pt", "command_beside.pt", "command_thrown_away.pt"] {
        fail(&["convert", &fixture(name), &output], 1, &[name, "system", "Nothing was executed"]);
    }
    assert!(!Path::new("PICKLE_WAS_EXECUTED").exists());
    let whole = fixture("state_dict.pt");
    fail(&["convert", "no.pt", &output], 1, &["no.pt", "no such file"]);
    fail(&["convert", &whole, "weights.bin"], 1, &[".safetensors"]);
    fail(&["convert", &whole, &output, "--key", "ema"], 1, &["no ema in it"]);
    fail(&["convert", &whole, &output, "--map", "("], 1, &["FROM=TO"]);
    fail(&["convert", &whole, &output, "--map", "(=x"], 1, &["the rule \"(=x\""]);
    fail(&["convert", &whole, &output, "--map", ".*=one"], 1, &["the same key"]);
    fail(&["convert", &whole, &output, "--config", "out_channels=3"], 1, &["--network"]);
    let picture = dir.path().join("picture.pt");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").expect("written");
    fail(&["convert", &text(&picture), &output], 1, &["picture.pt", "not a PyTorch checkpoint"]);
    let cut = dir.path().join("cut.pt");
    std::fs::write(&cut, &std::fs::read(&whole).expect("a fixture")[..5000]).expect("written");
    fail(&["convert", &text(&cut), &output], 1, &["cut.pt", "cannot be read"]);
    assert!(!Path::new(&output).exists());
    succeed(&["convert", &whole, &output]);
    fail(&["convert", &whole, &output], 1, &["exists already"]);
}
