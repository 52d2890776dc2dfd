//! The crate that `hearth plugin new` writes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hearth_engine::Engine;
use hearth_plugin_host::{ScaffoldError, SdkSource, load, scaffold};

use crate::toy::Toy;
use crate::{here, library, table};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_new_plugin_builds_passes_its_test_and_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("run-diary");
    let files = scaffold(&dir, "run-diary", &SdkSource::Path(workspace().join("plugins/sdk"))).expect("a crate");
    assert_eq!(files.len(), 5);
    let source = std::fs::read_to_string(dir.join("src/lib.rs")).expect("the source");
    assert!(source.lines().count() <= 40, "a custom plugin is short");
    assert!(!source.replace("forbid(unsafe_code)", "").contains("unsafe") && !source.contains("extern"), "{source}");
    // The versions that this workspace was built with: nothing is fetched.
    std::fs::copy(workspace().join("Cargo.lock"), dir.join("Cargo.lock")).expect("a lock file");
    let target = here().join("../../scaffold");
    let cargo = |arguments: &[&str]| {
        let start = Instant::now();
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(arguments)
            .args(["--release", "--offline", "--target-dir"])
            .arg(&target)
            .current_dir(&dir)
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo can be started");
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        println!("cargo {} of a new plugin: {:.1} s", arguments[0], start.elapsed().as_secs_f64());
        text
    };
    let text = cargo(&["build"]);
    assert!(!text.contains("burn") && !text.contains("cubecl") && !text.contains("warning"), "{text}");
    let text = cargo(&["test"]);
    assert!(text.contains("it_logs_every_second_epoch ... ok"), "{text}");

    let plugin = load(&library(&target.join("release"), "run_diary")).expect("the new plugin loads");
    assert_eq!((plugin.identity().name.as_str(), plugin.identity().version.as_str()), ("run-diary", "0.1.0"));
    let mut engine = Engine::new("trainer");
    engine.add_boxed(plugin.handler(table("every = 2")).expect("valid options")).expect("a valid handler");
    let mut toy = Toy::trainer(1);
    engine.run(&mut toy, 3).expect("no error");
    assert_eq!(toy.notes, ["Info: epoch 2 of 3: {}"]);
}

#[test]
fn a_folder_that_is_in_use_and_a_bad_name_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let used = folder.path().join("used");
    std::fs::create_dir(&used).expect("a folder");
    assert_eq!(scaffold(&used, "ok", &SdkSource::default()).expect("an empty folder will do").len(), 5);
    assert!(matches!(scaffold(&used, "ok", &SdkSource::default()), Err(ScaffoldError::Exists { .. })));
    let manifest = std::fs::read_to_string(used.join("Cargo.toml")).expect("a manifest");
    assert!(manifest.contains(&format!("hearth-plugin = \"{}\"", env!("CARGO_PKG_VERSION"))), "{manifest}");
    for name in ["", "Upper", "1st", "with space", "../up", "end-", "a--b", "fn", "test", &"x".repeat(61)] {
        let error = scaffold(&folder.path().join("bad"), name, &SdkSource::default()).expect_err(name);
        assert!(error.to_string().contains(&format!("`{name}` cannot be the name of a plugin")), "{error}");
    }
    assert!(!folder.path().join("bad").exists(), "nothing is written for a bad name");
    let sdk = SdkSource::Path("/no/such/sdk".into());
    assert!(matches!(scaffold(&folder.path().join("sdk"), "ok", &sdk), Err(ScaffoldError::Write { .. })));
}
