//! What a run keeps of its plugins: their files and hashes, for caches, resumed runs and later commands.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{TINY, errors, fail, hearth, phantom, succeed, text, tiny_recipe};
use crate::plugins_in_c::compile;

/// The plugins in `run.json`: name, path and hash.
fn recorded(run: &Path) -> Vec<(String, Option<PathBuf>, Option<String>)> {
    let record: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let one = |of: &Value| (text(&of["name"]).unwrap(), text(&of["path"]).map(PathBuf::from), text(&of["hash"]));
    record["plugins"].as_array().unwrap().iter().map(one).collect()
}

/// A plugin in C with a state in checkpoints, which prints every second epoch; returns its library.
fn diary(folder: &Path) -> PathBuf {
    let dir = folder.join("diary");
    succeed(&["plugin", "new", "run-diary", "--template", "c", "--out", &text(&dir)]);
    let source = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let source = source.into_iter().find(|path| path.extension().is_some_and(|end| end == "c")).expect("a source");
    PathBuf::from(compile(&dir, "run_diary", &fs::read_to_string(source).unwrap()))
}

#[test]
fn a_run_is_resumed_with_its_plugins_or_explicitly_without() {
    let folder = tempfile::tempdir().unwrap();
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let library = diary(folder.path());
    let run = folder.path().join("run");
    let out = text(&run);
    let first = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "2", "--plugin"];
    let output = hearth().args(first).arg(&library).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));

    let kept = recorded(&run);
    let names: Vec<&str> = kept.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["validation", "stats", "checkpoint", "run-diary"]);
    let hash = kept[3].2.clone().expect("the hash of a file");
    assert_eq!(kept[3].1.as_deref(), Some(&*library));
    assert!(fs::read_to_string(run.join("recipe.toml")).unwrap().contains(&text(&library)));

    // The run names the library, which needs the user's consent as in any recipe.
    let resume = |epochs: &str, more: &[&str]| {
        let words = ["train", "--data", &data, "--out", &out, "--resume", "--epochs", epochs];
        hearth().args(words).args(more).output().unwrap()
    };
    let refused = resume("3", &[]);
    let said = errors(&refused);
    assert!(!refused.status.success() && said.contains("--allow-plugin"), "{said}");
    let output = resume("4", &["--allow-plugin", "run-diary"]);
    let said = errors(&output);
    assert!(output.status.success() && said.contains("run-diary: epoch 4 of 4 is done"), "{said}");
    assert!(!said.contains("has changed"), "{said}");

    // Another build is used, and reported.
    let source = fs::read_to_string(folder.path().join("diary/run_diary.c")).unwrap();
    compile(&folder.path().join("diary"), "run_diary", &source.replace("is done", "is over"));
    let output = resume("6", &["--plugin", &text(&library)]);
    let said = errors(&output);
    assert!(output.status.success() && said.contains("run-diary: epoch 6 of 6 is over"), "{said}");
    assert!(
        said.contains("the plugin `run-diary` has changed since the run was started") && said.contains(&hash),
        "{said}"
    );
    assert_ne!(recorded(&run)[3].2.as_ref(), Some(&hash));

    // No other copy of that name replaces a missing file.
    let moved = folder.path().join("elsewhere");
    fs::create_dir(&moved).unwrap();
    let there = moved.join("librun_diary.so");
    fs::rename(&library, &there).unwrap();
    let words = ["train", "--data", &data, "--out", &out, "--resume", "--epochs", "7"];
    let output = hearth().env("HEARTH_PLUGIN_PATH", &moved).args(words).output().unwrap();
    let said = errors(&output);
    assert!(!output.status.success() && said.contains(&text(&library)), "{said}");
    let output = resume("8", &["--plugin", &text(&there)]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(recorded(&run)[3].1.as_deref(), Some(&*there));

    let output = resume("9", &["--without", "diaries", "--allow-plugin", "run-diary"]);
    let said = errors(&output);
    assert!(
        !output.status.success() && said.contains("--without diaries: this run has no plugin of this name"),
        "{said}"
    );
    let output = resume("9", &["--without", "run-diary"]);
    let said = errors(&output);
    assert!(output.status.success() && said.contains("the state of handler `run-diary` is dropped"), "{said}");
    assert_eq!(recorded(&run).len(), 3);
    let output = resume("10", &[]);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn a_rebuilt_transform_does_not_train_on_the_cache_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../../../plugins/host/tests/fixtures/c/parts.c");
    let library = compile(folder.path(), "parts", source);
    let (data, cache) = (text(&phantom(folder.path(), 3)), text(&folder.path().join("cache")));
    let add = "{ name = \"parts.Add\", keys = [\"image\"], amount = 0.25 },\n    { name = \"FgBgToIndices\"";
    let recipe = TINY.replace("{ name = \"FgBgToIndices\"", add);
    let recipe = recipe.replace("[data]", &format!("[data]\ncache = {{ kind = \"persistent\", dir = \"{cache}\" }}"));
    let file = folder.path().join("cached.toml");
    fs::write(&file, recipe).unwrap();
    let file = text(&file);
    let train = |out: &str| {
        let out = text(&folder.path().join(out));
        let words = ["train", &file, "--data", &data, "--out", &out, "--epochs", "1", "--device", "cpu", "--plugin"];
        hearth().args(words).arg(&library).output().unwrap()
    };
    for out in ["first", "again"] {
        let output = train(out);
        assert!(output.status.success(), "{}", errors(&output));
    }
    // The same version of the plugin, with other code: it shows whether it is called.
    let loud = source.replace(
        "    const part *mine = component;\n",
        "    const part *mine = component;\n    if (mine->kind == 'A') return work->fail(work, \"the new code runs\");\n",
    );
    assert_ne!(loud, source);
    compile(folder.path(), "parts", &loud);
    let output = train("rebuilt");
    let said = errors(&output);
    assert!(!output.status.success() && said.contains("the new code runs"), "{said}");
}

#[test]
fn what_a_command_does_not_compute_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../../../plugins/host/tests/fixtures/c/parts.c");
    let library = compile(folder.path(), "parts", source);
    let data = text(&phantom(folder.path(), 3));
    let metric = "[metric.off]\nname = \"parts.Difference\"\nhigher_is_better = false\n[inferer]";
    let file = folder.path().join("measured.toml");
    fs::write(&file, TINY.replace("[inferer]", metric)).unwrap();
    let (file, out) = (text(&file), text(&folder.path().join("run")));
    // Without its plugin a metric is an error before the work, at its place.
    let train = ["train", &file, "--data", &data, "--out", &out, "--epochs", "1", "--device", "cpu"];
    fail(&train, 1, &["measured.toml:", "no plugin `parts`"]);
    fail(&[&train[..], &["--dry-run"]].concat(), 1, &["measured.toml:", "no plugin `parts`"]);
    let output = hearth().args(train).args(["--plugin", &library]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));

    let images = folder.path().join("data/imagesTr");
    let image = images.read_dir().unwrap().map(|entry| text(&entry.unwrap().path())).find(|path| path.ends_with(".gz"));
    let image = image.expect("an image");
    fs::remove_file(&library).unwrap();
    succeed(&["predict", &out, "-i", &image, "-o", &text(&folder.path().join("predicted"))]);
    succeed(&["export", &out, "--to", "onnx", "--out", &text(&folder.path().join("net.onnx"))]);
    let evaluate = ["evaluate", &out, "--data", &data];
    fail(&evaluate, 1, &["parts"]);
    compile(folder.path(), "parts", source);
    let output = hearth().args(evaluate).args(["--plugin", &library]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("off"), "{output:?}");
}

#[test]
fn a_wrong_filter_is_found_by_a_dry_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("../in_c/keeper.c").replace("\"epoch_completed\", 0,", "\"completed\", 3,");
    let library = compile(folder.path(), "keeper", &source);
    let data = text(&phantom(folder.path(), 3));
    let file = folder.path().join("filtered.toml");
    fs::write(&file, format!("{TINY}\n[[plugins]]\nname = \"keeper\"\npath = \"{library}\"\n")).unwrap();
    let out = text(&folder.path().join("run"));
    let train = ["train", &text(&file), "--data", &data, "--out", &out, "--dry-run", "--allow-plugin", "keeper"];
    fail(&train, 1, &["filtered.toml:", "completed has no counter"]);
}

#[test]
fn two_instances_of_a_plugin_have_their_own_options_and_states() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(&phantom(folder.path(), 3));
    let library = text(&diary(folder.path()));
    let file = folder.path().join("twice.toml");
    let write = |second: &str| {
        let entry = |more: &str, every: u64| {
            let path = format!("path = \"{library}\"\noptions = {{ every = {every} }}");
            format!("[[plugins]]\nname = \"run-diary\"\n{more}\n{path}")
        };
        let (first, second) = (entry("", 3), entry(second, 2));
        fs::write(&file, format!("{TINY}\n[[plugins]]\nname = \"checkpoint\"\n{first}\n{second}\n")).unwrap();
    };
    let run = folder.path().join("run");
    let (file_name, out) = (text(&file), text(&run));
    let train = ["train", &file_name, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "2"];
    let train = [&train[..], &["--allow-plugin", "run-diary"]].concat();
    write("");
    fail(&train, 1, &["twice.toml:", "\"run-diary\" is listed twice", "as = \"run-diary-2\""]);
    write("as = \"a b\"");
    fail(&train, 1, &["twice.toml:", "\"a b\" is no name"]);
    write("as = \"second\"");
    let output = hearth().args(&train).args(["--set", "plugins.second.every=1"]).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success() && said.matches("is done").count() == 2, "{said}");
    let checkpoint = run.join("checkpoints").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let checkpoint = checkpoint.into_iter().find(|path| path.join("handlers").is_dir()).expect("a checkpoint");
    let states = checkpoint.join("handlers").read_dir().unwrap().map(|entry| text(&entry.unwrap().path()));
    let states: Vec<String> = states.collect();
    for name in ["run-diary", "second"] {
        assert!(states.iter().any(|state| state.contains(name)), "{name}: {states:?}");
    }
}

#[test]
fn a_plugin_that_ends_the_program_is_no_success_and_one_that_moves_it_splits_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let source = include_str!("../in_c/keeper.c");
    let build = |name: &str, line: &str| {
        let called = source.replace("HEARTH_PLUGIN(\"keeper\"", &format!("HEARTH_PLUGIN(\"{name}\""));
        let called =
            called.replace("#include <stdio.h>", "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>");
        let called = called.replace("    count++;\n", &format!("    count++;\n    {line}\n"));
        // The declaration of `chdir` is not part of C99.
        compile(folder.path(), name, &format!("#define _POSIX_C_SOURCE 200809L\n{called}"))
    };
    let train = |out: &str, library: &str| {
        // A relative path, which a change of the working folder would split.
        let train = ["train", &recipe, "--data", &data, "--out", out, "--epochs", "2", "--device", "cpu"];
        hearth().current_dir(folder.path()).args(train).args(["--plugin", library]).output().unwrap()
    };
    let output = train("ended", &build("quits", "exit(0);"));
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the plugin `quits` has ended the program (exit); run it with --isolated=quits"), "{said}");

    let output = train("moved", &build("wanders", "if (chdir(\"/\")) return 1;"));
    let said = errors(&output);
    assert!(output.status.success() && said.contains("`wanders` changes the working folder"), "{said}");
    let run = folder.path().join("moved");
    for file in ["metrics.csv", "summary.json", "checkpoints", "attachments"] {
        assert!(run.join(file).exists(), "{file}");
    }
}

#[test]
fn a_plugin_of_a_run_is_constructed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, recipe) = (text(&phantom(folder.path(), 3)), text(&tiny_recipe(folder.path())));
    let made = folder.path().join("made.txt");
    let count = format!("FILE *file = fopen(\"{}\", \"a\");", text(&made));
    let count = format!("    {{ {count} if (file) {{ fputs(\"made\\n\", file); fclose(file); }} }}\n");
    let source =
        include_str!("../in_c/keeper.c").replace("    *self = layer;\n", &format!("    *self = layer;\n{count}"));
    let library = compile(folder.path(), "keeper", &source);
    let out = text(&folder.path().join("run"));
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "1", "--device", "cpu"];
    succeed(&[&train[..], &["--plugin", &library]].concat());
    assert_eq!(fs::read_to_string(&made).unwrap().lines().count(), 1);
}

#[test]
fn a_plugin_that_the_recipe_lists_is_resumed_from_the_given_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(&phantom(folder.path(), 3));
    let library = text(&diary(folder.path()));
    let file = folder.path().join("listed.toml");
    let listed = "[[plugins]]\nname = \"checkpoint\"\n[[plugins]]\nname = \"run-diary\"\noptions = { evry = 2 }";
    fs::write(&file, format!("{TINY}\n{listed}\n")).unwrap();
    let (file_name, out) = (text(&file), text(&folder.path().join("run")));
    let train = ["train", &file_name, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "2", "--plugin"];
    let train = [&train[..], &[library.as_str()]].concat();
    // An error is at its place in the recipe.
    fail(&train, 1, &["listed.toml:", "unknown option `evry`"]);
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("evry", "every")).unwrap();
    succeed(&train);
    let resume = ["train", "--data", &data, "--out", &out, "--resume", "--epochs", "4"];
    fail(&resume, 1, &["run-diary", &library, "--allow-plugin"]);
    let output = hearth().args(resume).args(["--allow-plugin", "run-diary"]).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success() && said.contains("run-diary: epoch 4 of 4 is done"), "{said}");
}
