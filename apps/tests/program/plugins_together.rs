//! Plugins of one run that know the run and each other: events of their own, timers, attachments in
//! TensorBoard's files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{errors, fail, hearth, phantom, succeed, text, tiny_recipe};
use crate::plugins_in_c::compile;

const SOURCE: &str = include_str!("../in_c/together.c");

/// Whether the event files of a run contain these bytes.
fn tensorboard_has(run: &Path, what: &str) -> bool {
    let files = fs::read_dir(run.join("tensorboard")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(what.len()).any(|window| window == what.as_bytes()))
}

#[test]
fn plugins_hear_each_other_and_know_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let finder = compile(folder.path(), "finder", SOURCE);
    let listener = compile(folder.path(), "listener", &format!("#define LISTENER\n{SOURCE}"));
    let both = [("plain", &[][..]), ("apart", &["--isolated"][..])];
    for (name, isolated) in both {
        if name == "apart" && !cfg!(target_os = "linux") {
            continue;
        }
        let run = folder.path().join(name);
        let out = text(&run);
        let words = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "2"];
        // The listener comes first: the order of plugins does not matter.
        let plugins = ["--plugin", &listener, "--plugin", &finder];
        let output = hearth().args(words).args(plugins).args(isolated).output().unwrap();
        let said = errors(&output);
        assert!(output.status.success(), "{said}");
        let heard = said.lines().filter_map(|line| line.split_once("heard finder.found in epoch ")).collect::<Vec<_>>();
        let [(_, first), (_, second)] = heard[..] else { panic!("{said}") };
        assert!(second.starts_with("2: "), "{second}");
        let info: Value = serde_json::from_str(first.strip_prefix("1: ").expect("the first epoch")).expect("JSON");
        assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(info["run_folder"], out);
        assert_eq!((&info["rank"], &info["world_size"]), (&0.into(), &1.into()));
        assert_eq!((&info["data"]["training"], &info["data"]["validation"]), (&2.into(), &1.into()));
        let (total, trained) = (&info["parameters"]["total"], &info["parameters"]["trainable"]);
        assert!(total.as_u64() > Some(100) && trained.as_u64() <= total.as_u64(), "{total} {trained}");
        assert_eq!(info["recipe"]["training"]["epochs"], 2);
        assert!(info["recipe"]["optimizer"]["name"].is_string(), "defaults too: {}", info["recipe"]["optimizer"]);

        let rings = said.lines().filter(|line| line.contains("the timer rings")).collect::<Vec<_>>();
        assert!(rings.len() == 1 && rings[0].contains("in epoch 2"), "{rings:?}");
        let attached = run.join("attachments/finder");
        assert_eq!(fs::read_to_string(attached.join("notes.md")).unwrap(), "# found it");
        for what in ["finder/slice", "PNG\r\n", "finder/notes", "# found it"] {
            assert!(tensorboard_has(&run, what), "{name}: {what}");
        }
    }
    let info = succeed(&["plugin", "info", &finder, "--allow-plugin", &finder]);
    assert!(info.contains("fires     finder.found"), "{info}");

    let out = text(&folder.path().join("alone"));
    let words = ["train", &recipe, "--data", &data, "--out", &out, "--dry-run", "--plugin", &listener];
    fail(&words, 1, &["plugin `listener` listens to `finder.found`, which no plugin of this run fires"]);
}
