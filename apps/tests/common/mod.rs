//! Shared code of the command line's tests: the program, tiny data sets, a recipe that trains in
//! seconds.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program, without the environment's settings for colour and plugins.
pub fn hearth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.env("NO_COLOR", "1").env_remove("HEARTH_PLUGIN_PATH").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Output {
    hearth().args(arguments).output().expect("the program starts")
}

/// Runs a command that must succeed; returns its standard output.
pub fn succeed<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "exit {:?}\n{}", output.status.code(), errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that must fail with this exit code and these texts, in at most a dozen lines and
/// without a panic.
pub fn fail<S: AsRef<std::ffi::OsStr>>(arguments: &[S], code: i32, words: &[&str]) -> String {
    let output = run(arguments);
    let text = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
    assert!(!text.contains("panicked"), "{text}");
    let error = text.find("error:").map_or("", |at| &text[at..]);
    assert!(!error.is_empty() && error.lines().count() <= 13, "{text}");
    text
}

/// Standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A path as text.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The record of a result.
pub fn record_path(result: &Path) -> PathBuf {
    let name = result.file_name().expect("a name").to_string_lossy();
    result.with_file_name("records").join(format!("{name}.hearth.json"))
}

/// A phantom data set with this number of cases, as a Decathlon folder.
pub fn phantom(folder: &Path, cases: usize) -> PathBuf {
    let data = folder.join("data");
    succeed(&["data", "phantom", "spleen", "--cases", &cases.to_string(), "--size", "48", "--out", &text(&data)]);
    data
}

/// A recipe that trains in seconds.
pub fn tiny_recipe(folder: &Path) -> PathBuf {
    let path = folder.join("tiny.toml");
    std::fs::write(&path, TINY).expect("the recipe is written");
    path
}

/// See [`tiny_recipe`].
pub const TINY: &str = r#"# A recipe that trains in seconds
task = "tiny"
labels = ["background", "spleen"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "Orientation", keys = ["image", "label"], axcodes = "RAS" },
    { name = "Spacing", keys = ["image", "label"], pixdim = [6.0, 6.0, 6.0], mode = ["bilinear", "nearest"] },
    { name = "ScaleIntensityRange", keys = ["image"], a_min = -57.0, a_max = 164.0, b_min = 0.0, b_max = 1.0, clip = true },
    { name = "FgBgToIndices", keys = ["label"], only = "train" },
    { name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [16, 16, 16], num_samples = 2,
      fg_indices_key = "label_fg", bg_indices_key = "label_bg" },
    { name = "RandFlip", keys = ["image", "label"], prob = 0.5, spatial_axis = 0 },
]
[data]
validation = { last = 1 }
[network]
name = "UNet"
spatial_dims = 3
in_channels = 1
out_channels = 2
channels = [4, 8]
strides = [2]
num_res_units = 1
norm = "batch"
dropout = 0.1
[loss]
name = "DiceCELoss"
to_onehot_y = true
softmax = true
[optimizer]
name = "SGD"
lr = 0.02
momentum = 0.9
[training]
epochs = 6
batch_size = 1
val_interval = 1
[inferer]
name = "SlidingWindowInferer"
roi_size = [16, 16, 16]
overlap = 0.25
"#;

/// Whether the bundled plugins are in the program's folder; if not, prints how to build them.
pub fn plugins_are_built() -> bool {
    let folder = Path::new(env!("CARGO_BIN_EXE_hearth")).parent().expect("the program lies in a folder");
    let found = ["checkpoint", "validation", "stats", "ensemble"].iter().all(|name| {
        let file = format!("{}hearth_{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        // The program's search order; on a fresh machine `cargo test` puts them into the second place.
        [folder.join(&file), folder.join("deps").join(&file)].iter().any(|file| file.is_file())
    });
    assert!(
        found,
        "the bundled plugins are not beside {}: build the whole workspace first (cargo build --release --workspace)",
        env!("CARGO_BIN_EXE_hearth")
    );
    found
}

/// Waits until `done` returns true; fails after a minute.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} works");
}
