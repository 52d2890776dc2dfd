//! The crates that `hearth plugin new` writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hearth_engine::{Better, Engine, HostTensor};
use hearth_plugin_host::{Plugin, ScaffoldError, SdkSource, Template, load, scaffold, update_sdk};

use hearth_registry::component::{ComponentKind, HostArray};

use crate::toy::Toy;
use crate::{here, library, table};

/// Runs Cargo in the folder of a new crate. The crates that it needs are those of this workspace,
/// so nothing is downloaded.
fn cargo(dir: &Path, target: &Path, arguments: &[&str]) -> String {
    let start = Instant::now();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .args(["--release", "--offline", "--target-dir"])
        .arg(target)
        .current_dir(dir)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    println!("cargo {} in {}: {:.1} s", arguments[0], dir.display(), start.elapsed().as_secs_f64());
    text
}

/// The name of the plugin of a template.
fn name(template: Template) -> String {
    format!("my-{template}")
}

/// The templates whose sources are modules of `hearth-gallery`, which builds them as one crate, and runs their tests.
const GALLERY: [Template; 9] = [
    Template::LrFinder,
    Template::NoiseScale,
    Template::WorstCases,
    Template::Mixup,
    Template::BoundaryLoss,
    Template::HardCases,
    Template::NrrdWriter,
    Template::Mlflow,
    Template::Wandb,
];

/// Builds and tests a plugin of each template, and of one of the gallery's. The first one contains the sources of the
/// SDK, and the others use them.
fn built(root: &Path) -> BTreeMap<&'static str, Plugin> {
    let target = here().join("../../scaffold");
    let sdk = SdkSource::Path(root.join(name(Template::Handler)).join("sdk/plugins/sdk"));
    let mut plugins = BTreeMap::new();
    let once = |template: &Template| !GALLERY.contains(template) || *template == Template::Wandb;
    for template in Template::ALL.into_iter().filter(|template| template.is_rust() && once(template)) {
        let (name, sdk) = (name(template), if template == Template::Handler { &SdkSource::Vendored } else { &sdk });
        let dir = root.join(&name);
        let files = scaffold(&dir, &name, template, sdk).expect("a crate");
        assert_eq!(files.len(), 5);
        let source = std::fs::read_to_string(dir.join("src/lib.rs")).expect("the source");
        let filled = ["name", "crate", "Type", "sdk"].iter().all(|word| !source.contains(&format!("{{{{{word}}}}}")));
        assert!(source.lines().count() <= 80 && filled, "{template} is short and filled in");
        assert!(!source.replace("forbid(unsafe_code)", "").contains("unsafe"), "{template}");
        if template != Template::Handler {
            std::fs::copy(root.join("my-handler/Cargo.lock"), dir.join("Cargo.lock")).expect("a lock file");
        }
        let text = cargo(&dir, &target, &["build"]);
        for word in ["warning", "burn", "cubecl", "schemars"] {
            assert!(!text.contains(word), "{template}: {text}");
        }
        let text = cargo(&dir, &target, &["test"]);
        assert!(text.contains("test result: ok") && !text.contains("warning"), "{template}: {text}");
        let file = library(&target.join("release"), &name.replace('-', "_"));
        let plugin = load(&file).expect("the new plugin loads");
        assert_eq!((plugin.identity().name.as_str(), plugin.identity().version.as_str()), (name.as_str(), "0.1.0"));
        assert_eq!(plugin.identity().description, template.description());
        plugins.insert(template.word(), plugin);
    }
    plugins
}

/// The plugin of docs/plugins/first.md, and its requests in a run of two epochs.
fn of_the_chapter(root: &Path) -> (Plugin, Vec<String>) {
    let text = include_str!("../../../../docs/plugins/first.md");
    let blocks: Vec<&str> =
        text.split("```rust,ignore\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [source, test] = blocks[..] else { panic!("a source and a test, not {} blocks", blocks.len()) };
    let sdk = SdkSource::Path(root.join("my-handler/sdk/plugins/sdk"));
    let dir = root.join("hardest");
    scaffold(&dir, "hardest", Template::Handler, &sdk).expect("a crate");
    std::fs::copy(root.join("my-handler/Cargo.lock"), dir.join("Cargo.lock")).expect("a lock file");
    std::fs::write(dir.join("src/lib.rs"), source).expect("the source");
    std::fs::write(dir.join("tests/rehearsal.rs"), test).expect("the test");
    let target = here().join("../../scaffold");
    let text = cargo(&dir, &target, &["test"]);
    assert!(text.contains("3 passed") && !text.contains("warning"), "{text}");
    cargo(&dir, &target, &["build"]);
    let plugin = load(&library(&target.join("release"), "hardest")).expect("the plugin of the chapter loads");
    let notes = run(&plugin, "", 2);
    (plugin, notes)
}

/// A run of a trainer with one plugin; returns the requests.
fn run(plugin: &Plugin, options: &str, epochs: u64) -> Vec<String> {
    let mut engine = Engine::new("trainer");
    engine.set_key_metric("dice", Better::Higher);
    let validation = hearth_plugin_host::Search::standard(&[], &[]).load("validation").expect("it is bundled");
    engine.add_boxed(validation.handler(table("")).expect("defaults")).expect("a valid handler");
    engine.add_boxed(plugin.handler(table(options)).expect("valid options")).expect("a valid handler");
    let mut toy = Toy::trainer(1);
    toy.dice = vec![0.5, 0.75, 0.75, 0.75, 0.75];
    for name in ["image", "label", "pred"] {
        let tensor = HostTensor::from_f32(vec![1, 1, 2, 1, 1], &[0.0, 1.0]).expect("a tensor");
        toy.tensors.insert(name.to_owned(), tensor);
    }
    engine.run(&mut toy, epochs).expect("no error");
    toy.notes.retain(|note| note != "run validation");
    toy.notes
}

#[test]
fn plugins_of_every_template_build_pass_their_tests_and_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugins = built(folder.path());
    let at = |name: &str| folder.path().join(name);

    let notes = run(&plugins["handler"], "every = 2", 3);
    assert_eq!(notes, ["Notice: my-handler: epoch 2 of 3 is done, dice 0.7500"]);

    let file = at("run.prom");
    run(&plugins["metric-exporter"], &format!("file = '{}'", file.display()), 2);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(
        text.contains("hearth_epoch{run=\"hearth\"} 2\n") && text.contains("hearth_dice{run=\"hearth\"} 0.75\n"),
        "{text}"
    );

    let notes = run(&plugins["early-stop"], "patience = 2", 5);
    assert_eq!(notes.len(), 2, "it ends the run in epoch 4: {notes:?}");

    let notes = run(&plugins["webhook"], "", 2);
    assert_eq!(notes, ["Notice: my-webhook: run is done: 2 epochs, best metric 0.7500"]);

    run(&plugins["visualiser"], &format!("every = 1\nfolder = '{}'", at("pictures").display()), 1);
    let picture = std::fs::read(at("pictures/trainer-000001.pgm")).expect("a picture");
    assert_eq!(picture, [b"P5 6 1 255\n".as_slice(), &[0, 255, 0, 255, 0, 255]].concat());

    let parts = &plugins["component"];
    let smooth = parts.component(ComponentKind::Transform, "Smooth", table("radius = 2")).expect("valid options");
    let image = HostArray::new(vec![1, 3, 1, 1], vec![0.0, 3.0, 6.0]).expect("an image");
    assert_eq!(*smooth.run(&[image], "").expect("no error")[0].values, [3.0, 3.0, 3.0]);
    let fault = parts.component(ComponentKind::Transform, "Smooth", table("radius = 99")).err().expect("too wide");
    assert_eq!((fault.path.as_str(), parts.components().len()), ("radius", 2));

    let (chapter, notes) = of_the_chapter(folder.path());
    let told: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix("Notice: ")).collect();
    let line = |epoch| format!("hardest: case_1.nii, case_2.nii, loss 0.1250, in epoch {epoch}");
    assert_eq!(told, [line(1), line(2)], "{notes:?}");
    let error = chapter.handler(table("every = 0")).err().expect("no such number").to_string();
    assert!(error.contains("`every` is 0; give 1 or more"), "{error}");

    let plugin = &plugins["ensemble-combiner"];
    let mut engine = Engine::new("ensemble");
    let options = table("pred_keys = ['pred_0', 'pred_1', 'pred_2']");
    engine.add_boxed(plugin.handler(options).expect("valid options")).expect("a valid handler");
    let mut toy = Toy { batches: 1, ..Toy::default() };
    for (name, value) in [("pred_0", 1.0), ("pred_1", 5.0), ("pred_2", 2.0)] {
        toy.tensors.insert(name.to_owned(), HostTensor::from_f32(vec![1, 1, 1, 1, 1], &[value]).expect("a tensor"));
    }
    engine.run_epoch(&mut toy, 1).expect("no error");
    assert_eq!(toy.tensors["pred"].to_f32().expect("numbers"), [2.0]);
}

/// The crate of a module of the gallery has the module's source, under the plugin's own name.
#[test]
fn crates_of_the_gallery_are_its_modules() {
    let folder = tempfile::tempdir().expect("a folder");
    for template in GALLERY {
        let dir = folder.path().join(template.word());
        scaffold(&dir, "my-own", template, &SdkSource::Version("0.1.0".into())).expect("a crate");
        let read = |file: &str| std::fs::read_to_string(dir.join(file)).expect("a file");
        let (source, test) = (read("src/lib.rs"), read("tests/rehearsal.rs"));
        assert!(source.lines().count() <= 80, "{template} is short");
        assert!(source.contains("\"my-own\"") && !source.contains(&format!("\"{template}\"")), "{template}: {source}");
        assert!(test.contains("use my_own::") && !test.contains("hearth_gallery"), "{template}: {test}");
        let module = format!("../gallery/src/{}.rs", template.word().replace('-', "_"));
        let module = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(module)).expect("a module");
        assert_eq!(source.replace("\"my-own\"", &format!("\"{template}\"")), module);
        for file in ["README.md", "Cargo.toml"] {
            assert!(read(file).contains(template.description()) && !read(file).contains("{{"), "{template}: {file}");
        }
    }
}

#[test]
fn a_folder_that_is_in_use_and_a_bad_name_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (handler, version) = (Template::Handler, SdkSource::Version("0.1.0".into()));
    let used = folder.path().join("used");
    std::fs::create_dir(&used).expect("a folder");
    assert_eq!(scaffold(&used, "ok", handler, &version).expect("an empty folder will do").len(), 5);
    assert!(matches!(scaffold(&used, "ok", handler, &version), Err(ScaffoldError::Exists { .. })));
    let manifest = std::fs::read_to_string(used.join("Cargo.toml")).expect("a manifest");
    assert!(manifest.contains("hearth-plugin = \"0.1.0\"") && !used.join("sdk").exists(), "{manifest}");
    for name in ["", "Upper", "1st", "with space", "../up", "end-", "a--b", "fn", "test", "sdk", &"x".repeat(61)] {
        let error = scaffold(&folder.path().join("bad"), name, handler, &SdkSource::default()).expect_err(name);
        assert!(error.to_string().contains(&format!("`{name}` cannot be the name of a plugin")), "{error}");
    }
    assert!(!folder.path().join("bad").exists(), "nothing is written for a bad name");
    let sdk = SdkSource::Path(PathBuf::from("/no/such/sdk"));
    assert!(matches!(scaffold(&folder.path().join("sdk"), "ok", handler, &sdk), Err(ScaffoldError::Write { .. })));
}

#[test]
fn the_sdk_of_a_plugin_can_be_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("old");
    scaffold(&dir, "old", Template::Handler, &SdkSource::Vendored).expect("a crate");
    let (changed, left) = (dir.join("sdk/plugins/sdk/src/lib.rs"), dir.join("sdk/plugins/sdk/src/of_an_older_sdk.rs"));
    let source = std::fs::read_to_string(&changed).expect("a source");
    std::fs::write(&changed, "// of an older SDK").expect("it can be changed");
    std::fs::write(&left, "").expect("a file");
    update_sdk(&dir).expect("it has an SDK");
    assert_eq!(std::fs::read_to_string(&changed).expect("a source"), source);
    assert!(!left.exists() && dir.join("src/lib.rs").is_file());
    let other = folder.path().join("other");
    scaffold(&other, "other", Template::Handler, &SdkSource::Version("0.1.0".into())).expect("a crate");
    assert!(matches!(update_sdk(&other), Err(ScaffoldError::NoSdk { .. })));
    assert!(matches!(update_sdk(folder.path()), Err(ScaffoldError::Write { .. })));
}

/// Every crate that a plugin needs is in its folder: no registry is used.
#[test]
fn a_vendored_plugin_builds_without_a_registry() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("alone");
    scaffold(&dir, "alone", Template::Handler, &SdkSource::Vendored).expect("a crate");
    hearth_plugin_host::vendor(&dir, None).expect("Cargo has or fetches every crate");
    let config = std::fs::read_to_string(dir.join(".cargo/config.toml")).expect("a configuration");
    assert!(config.contains("directory = \"vendor\""), "{config}");
    // A stub of a crate for other systems has no code.
    let windows = std::fs::read_dir(dir.join("vendor"))
        .expect("a folder")
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("winapi"));
    if let Some(windows) = windows.filter(|_| cfg!(unix)) {
        assert_eq!(std::fs::read(windows.path().join("src/lib.rs")).expect("a stub"), b"");
    }
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--offline"])
        .current_dir(&dir)
        .env("CARGO_HOME", folder.path().join("empty-home"))
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outside = metadata["packages"].as_array().expect("a list").iter().filter(|package| {
        !Path::new(package["manifest_path"].as_str().expect("a path"))
            .starts_with(dir.canonicalize().expect("it is there"))
    });
    assert_eq!(outside.count(), 0, "all sources lie in the folder");
    // A copy of them, as in an installation.
    let second = folder.path().join("second");
    scaffold(&second, "second", Template::Handler, &SdkSource::Vendored).expect("a crate");
    hearth_plugin_host::vendor(&second, Some(&dir.join("vendor"))).expect("a copy");
    let count = |dir: &Path| std::fs::read_dir(dir.join("vendor")).expect("a folder").count();
    assert_eq!(count(&second), count(&dir));
    assert!(hearth_plugin_host::vendor(&second, Some(Path::new("/no/such/folder"))).is_err());
}
