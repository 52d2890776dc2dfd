//! Plugins in C, C++ and Python in real runs: handlers, their state and attachments, components in
//! recipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{TINY, errors, fail, hearth, phantom, succeed, text, tiny_recipe};

/// Writes the program's header, and builds a source.
pub fn compile(folder: &Path, name: &str, source: &str) -> String {
    fs::write(folder.join("hearth_plugin.h"), succeed(&["plugin", "header"])).unwrap();
    let (file, library) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    fs::write(&file, source).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-o"];
    let output = Command::new(compiler).args(flags).arg(&library).arg(&file).arg("-lm").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text(&library)
}

/// Runs a plugin created from a template for two epochs, with `plugin dev`.
fn shows_a_line(template: &str) {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(&folder.path().join("diary"));
    let said = succeed(&["plugin", "new", "run-diary", "--template", template, "--out", &dir]);
    assert!(said.contains("Makefile") && said.contains("make && hearth plugin check"), "{said}");
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let out = text(&folder.path().join("run{n}"));
    let run = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "2", "--device", "cpu"];
    let set = ["--set", "plugins.run-diary.every=2"];
    let output = hearth().args(["plugin", "dev", &dir, "--once", "--"]).args(run).args(set).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("epoch 1 of 2") && said.contains("\nrun-diary: epoch 2 of 2 is done, mean_dice "), "{said}");
    // The plugin's state is part of the checkpoint, and of a resumed run.
    let library = text(&folder.path().join("diary/librun_diary.so"));
    let run = folder.path().join("run1");
    let handlers: Vec<PathBuf> = newest(&run).join("handlers").read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    let saved = handlers.iter().any(|path| path.to_string_lossy().contains("run-diary"));
    assert_eq!(saved, template != "cpp", "{handlers:?}");
    let info = succeed(&["plugin", "info", &library, "--allow-plugin", &library]);
    for words in ["version 2 of hearth_plugin.h", "every = 1", "epoch_completed", "may do    nothing beyond"] {
        assert!(info.contains(words), "{words}: {info}");
    }
}

/// The newest checkpoint of a run.
fn newest(run: &Path) -> PathBuf {
    let mut all: Vec<PathBuf> = run.join("checkpoints").read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    all.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    all.into_iter().rfind(|path| path.is_dir()).expect("a checkpoint")
}

#[test]
fn a_plugin_in_c_in_a_run() {
    shows_a_line("c");
}

#[test]
fn live_a_plugin_in_cpp_in_a_run() {
    if crate::clients::find_program("c++", "a_plugin_in_c_in_a_run").is_some() {
        shows_a_line("cpp");
    }
}

#[test]
fn live_a_plugin_in_python_in_a_run() {
    if crate::clients::find(&["ctypes"], "a_plugin_in_c_in_a_run").is_some() {
        shows_a_line("python");
    }
}

#[test]
fn live_an_error_in_python_names_the_authors_line() {
    if crate::clients::find(&["ctypes"], "a_plugin_in_c_in_a_run").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = text(&folder.path().join("diary"));
    succeed(&["plugin", "new", "run-diary", "--template", "python", "--out", &dir]);
    let file = folder.path().join("diary/run_diary.py");
    let source = fs::read_to_string(&file).unwrap();
    // The error is raised within the standard library, as that of a request is within the SDK.
    let broken = source.replace("        self.lines += 1\n", "        __import__('json').loads('no JSON')\n");
    assert_ne!(broken, source);
    fs::write(&file, &broken).unwrap();
    let line = 1 + broken.lines().position(|line| line.contains("no JSON")).unwrap();
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let run = |out: &str, more: &[&str]| {
        let out = text(&folder.path().join(out));
        let train = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "1", "--device", "cpu"];
        let dev = hearth().args(["plugin", "dev", &dir, "--once", "--"]).args(train).args(more).output().unwrap();
        assert!(!dev.status.success());
        errors(&dev)
    };
    let said = run("quiet", &[]);
    assert!(said.contains(&format!("(run_diary.py:{line})")) && !said.contains("Traceback"), "{said}");
    let said = run("verbose", &["-v"]);
    assert!(said.contains("Traceback") && said.contains("decoder.py"), "{said}");
}

#[test]
fn values_survive_and_attachments_are_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "keeper", include_str!("../in_c/keeper.c"));
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let run = folder.path().join("run");
    let out = text(&run);
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--plugin", &library];
    let output = hearth().args(train).args(["--epochs", "2"]).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("keeper: 2 epochs are counted"), "{said}");
    // A convolution with three axes: [out, in, x, y, z].
    assert!(said.contains("has 5 axes") && said.contains("keeper: weights."), "{said}");
    let attached = run.join("attachments/keeper");
    assert_eq!(fs::read_to_string(attached.join("counts/last.txt")).unwrap(), "keeper: 2 epochs are counted");
    let picture = fs::read(attached.join("colours.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n") && picture[16..24] == [0, 0, 0, 2, 0, 0, 0, 2], "2 x 2 pixels");
    assert!(newest(&run).join("store/keeper/epochs.bin").is_file());

    let resumed = ["train", "--data", &data, "--out", &out, "--resume", "--epochs", "3", "--plugin", &library];
    let output = hearth().args(resumed).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success() && said.contains("keeper: 3 epochs are counted"), "{said}");
}

#[test]
fn components_in_a_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../../../plugins/host/tests/fixtures/c/parts.c");
    let library = compile(folder.path(), "parts", source);
    let data = text(&phantom(folder.path(), 3));
    let write = |name: &str, transform: &str, more: &str| {
        let path = folder.path().join(name);
        let recipe = TINY
            .replace("    { name = \"FgBgToIndices\"", &format!("    {transform},\n    {{ name = \"FgBgToIndices\""));
        fs::write(&path, recipe.replace("[inferer]", &format!("{more}\n[inferer]"))).unwrap();
        text(&path)
    };
    let add = "{ name = \"parts.Add\", keys = [\"image\"], amount = 0.25 }";
    let metrics = r#"[post]
prediction = [{ name = "AsDiscrete", argmax = true, to_onehot = 2 }, { name = "parts.Add", amount = 0.0 }]
[metric.dice]
name = "DiceMetric"
[metric.off]
name = "parts.Difference"
higher_is_better = false
"#;
    let recipe = write("parts.toml", add, metrics);
    let out = text(&folder.path().join("run"));
    let train =
        ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "1", "--device", "cpu", "--plugin", &library];
    let output = hearth().args(train).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    let written = fs::read_to_string(folder.path().join("run/recipe.toml")).unwrap();
    assert!(written.contains("parts.Add") && written.contains("amount = 0.25") && written.contains("parts.Difference"));
    let measured = fs::read_to_string(folder.path().join("run/metrics.csv")).unwrap();
    assert!(measured.lines().next().unwrap().contains("off"), "{measured}");

    // Later commands find it in the folder of installed plugins.
    let images = folder.path().join("data/imagesTr");
    let image = text(
        &images
            .read_dir()
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| p.extension().is_some_and(|x| x == "gz"))
            .unwrap(),
    );
    let label = image.replace("imagesTr", "labelsTr");
    let sheet = text(&folder.path().join("sheet.png"));
    let preview = ["data", "preview", &recipe, "--image", &image, "--label", &label, "--out", &sheet];
    let installed = hearth().env("HEARTH_PLUGIN_PATH", &library).args(preview).output().unwrap();
    assert!(installed.status.success(), "{}", errors(&installed));
    let predicted = text(&folder.path().join("predicted"));
    let predict = ["predict", &out, "-i", &image, "--out", &predicted];
    // The run's recipe names the library, which needs consent as in any recipe.
    fail(&predict, 1, &["parts", "--allow-plugin"]);
    let installed = hearth().env("HEARTH_PLUGIN_PATH", &library).args(predict).output().unwrap();
    assert!(installed.status.success(), "{}", errors(&installed));
    let list = succeed(&["plugin", "list", "--plugin", &library]);
    assert!(list.contains("parts 0.2.0") && list.contains("adds to recipes"), "{list}");

    let refused = |transform: &str, words: &[&str]| {
        let recipe = write("wrong.toml", transform, "");
        let train = ["train", &recipe, "--data", &data, "--out", &out, "--dry-run", "--plugin", &library];
        fail(&train, 1, words);
    };
    refused("{ name = \"parts.Ad\", keys = [\"image\"] }", &["wrong.toml:", "no transform Ad", "parts.Add"]);
    refused(
        "{ name = \"parts.Add\", keys = [\"image\"], amont = 1 }",
        &["wrong.toml:", "unknown option `amont`", "amount"],
    );
    refused("{ name = \"parts.Add\", keys = [\"image\"], amount = 2000 }", &["wrong.toml:", "`amount` is above 1000"]);
    refused("{ name = \"absent.Add\", keys = [\"image\"] }", &["no plugin `absent`"]);
    refused("{ name = \"parts.Difference\", keys = [\"image\"] }", &["parts.Difference is a metric, not a transform"]);
    let broken = write("broken.toml", "{ name = \"parts.Broken\", keys = [\"image\"] }", "");
    let train = [
        "train",
        &broken,
        "--data",
        &data,
        "--out",
        &text(&folder.path().join("b")),
        "--epochs",
        "1",
        "--plugin",
        &library,
    ];
    fail(&train, 1, &["parts.Broken returned an image of", "the same grid"]);
}

#[test]
fn a_reader_of_a_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../../../plugins/host/tests/fixtures/c/parts.c");
    let library = compile(folder.path(), "parts", source);
    let recipe = folder.path().join("read.toml");
    let chain = "{ name = \"LoadImage\", keys = [\"image\"], reader = \"parts.Text\" }";
    fs::write(&recipe, format!("transforms = [{chain}, {{ name = \"EnsureChannelFirst\", keys = [\"image\"] }}]"))
        .unwrap();
    let numbers = folder.path().join("numbers.txt");
    fs::write(&numbers, "1 2 3 4 5 6 7 8").unwrap();
    let sheet = text(&folder.path().join("sheet.png"));
    let preview =
        ["data", "preview", &text(&recipe), "--image", &text(&numbers), "--out", &sheet, "--steps", "--overwrite"];
    let read = hearth().env("HEARTH_PLUGIN_PATH", &library).args(preview).output().unwrap();
    assert!(read.status.success(), "{}", errors(&read));
    fs::write(&numbers, "none").unwrap();
    let read = hearth().env("HEARTH_PLUGIN_PATH", &library).args(preview).output().unwrap();
    let said = errors(&read);
    assert!(
        said.contains("numbers.txt") && said.contains("parts.Text: the plugin reports: the file holds no number"),
        "{said}"
    );
}

#[test]
fn a_plugin_is_installed_once_it_was_agreed_to() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "keeper", include_str!("../in_c/keeper.c"));
    let home = folder.path().join("home");
    let install = |more: &[&str]| {
        hearth().env("XDG_DATA_HOME", &home).args(["plugin", "install", &library]).args(more).output().unwrap()
    };
    let asked = install(&[]);
    assert!(!asked.status.success() && errors(&asked).contains("`--yes` installs without a question"));
    assert!(!home.exists());
    let done = install(&["--yes"]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && said.contains("may do    reads or writes files"), "{said}{}", errors(&done));
    let file = home.join("hearth/plugins/libkeeper.so");
    assert!(file.is_file());
    let list = hearth().env("XDG_DATA_HOME", &home).args(["plugin", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("keeper 0.1.0"));

    // A file that other users may change is not loaded.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let check = hearth().args(["plugin", "check", &text(&file)]).output().unwrap();
    let said = errors(&check);
    assert!(!check.status.success() && said.contains("everyone on this machine can change"), "{said}");
    assert!(said.contains(&format!("fix it: chmod o-w {}", file.display())), "{said}");
}
