//! `--isolated`: plugins in separate processes, in real runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{errors, fail, hearth, phantom, plugins_are_built, succeed, text, tiny_recipe};

/// A plugin in C whose second epoch ends as set by its option.
const ENDS: &str = r#"
#include "hearth_plugin.h"
#include <stdlib.h>
#include <unistd.h>

HEARTH_PLUGIN("ends", "0.1.0", "ends its process", HEARTH_DECLARED);

static char self_of_it, how;

static int32_t options(const hearth_call *call) {
    const char list[] = "[" HEARTH_OPTION("how", "text", "'none'", "crash, exit or hang") "]";
    call->give(call, list, sizeof(list) - 1);
    return HEARTH_OK;
}

static int32_t create(const hearth_setup *setup, void **self) {
    hearth_when when = {sizeof(hearth_when), "epoch_completed", 0, 0, 0, NULL, 0, 0};
    const char *text = setup->text(setup, "how");
    *self = &self_of_it;
    how = text ? text[0] : 'n';
    return setup->listen(setup, &when);
}

static int32_t handle(void *self, const hearth_event *event, const hearth_host *host) {
    (void)self;
    if (event->epoch == 2 && how == 'c') *(volatile int *)0 = 1;
    if (event->epoch == 2 && how == 'e') exit(7);
    while (event->epoch == 2 && how == 'h') sleep(1);
    host->log(host, HEARTH_NOTICE, "ends: it is still there");
    return HEARTH_OK;
}

const hearth_plugin *hearth_plugin_main(const hearth_call *call) {
    static const hearth_plugin plugin = {sizeof(hearth_plugin), options, create, NULL, handle, NULL, NULL,
                                         NULL, NULL, NULL, NULL, NULL};
    (void)call;
    return &plugin;
}
"#;

fn compile(folder: &Path) -> String {
    fs::write(folder.join("hearth_plugin.h"), succeed(&["plugin", "header"])).expect("the header");
    let (file, library) = (folder.join("ends.c"), folder.join("libends.so"));
    fs::write(&file, ENDS).expect("a source");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(["-O0", "-fPIC", "-shared", "-o"]).arg(&library).arg(&file).output();
    let output = output.expect("a C compiler, which building Hearth needs, too");
    assert!(output.status.success(), "{}", errors(&output));
    text(&library)
}

fn weights(run: &Path) -> Vec<u8> {
    let folder = fs::read_dir(run.join("checkpoints")).expect("checkpoints");
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path().join("network.safetensors")).collect();
    files.sort_by_key(|file| file.metadata().and_then(|about| about.modified()).expect("weights"));
    fs::read(files.pop().expect("a checkpoint")).expect("weights")
}

#[test]
fn a_run_with_all_plugins_isolated_is_the_same_run() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 3)), text(&tiny_recipe(dir.path())));
    let train = |name: &str, more: &[&str]| {
        let out = text(&dir.path().join(name));
        let of_all = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "3"];
        succeed(&[&of_all[..], more].concat());
        let mut names: Vec<_> = fs::read_dir(dir.path().join(name).join("checkpoints"))
            .expect("checkpoints")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        let table = fs::read_to_string(dir.path().join(name).join("metrics.csv")).expect("a table");
        let losses: Vec<String> = table.lines().map(|line| line.split(',').take(3).collect()).collect();
        (weights(&dir.path().join(name)), names, losses)
    };
    let plain = train("plain", &[]);
    let apart = train("apart", &["--isolated"]);
    assert_eq!(plain.1, apart.1);
    assert_eq!(plain.2, apart.2);
    assert!(plain.0 == apart.0, "the weights are the same, bit for bit");
    let kept = fs::read_to_string(dir.path().join("apart/recipe.toml")).expect("the recipe");
    assert_eq!(kept.matches("isolated = true").count(), 3, "{kept}");
}

#[test]
fn what_ends_a_plugin_does_not_end_the_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe, library) = (text(&phantom(dir.path(), 3)), text(&tiny_recipe(dir.path())), compile(dir.path()));
    for (how, said) in [
        ("crash", "its process ended: signal 11 (segmentation fault)"),
        ("exit", "its process ended: exit code 7"),
        ("hang", "its process did not answer in time, and was ended: it had 1 s"),
    ] {
        let out = text(&dir.path().join(how));
        let set = format!("plugins.ends.how={how:?}");
        let train = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "4"];
        let with = ["--plugin", &library, "--isolated=ends", "--set", &set, "--set", "plugins.ends.time_limit=1.0"];
        let with = if how == "hang" { &with[..] } else { &with[..5] };
        let output = hearth().args(train).args(with).output().expect("the program starts");
        let text = errors(&output);
        assert!(output.status.success(), "{how}: {text}");
        assert_eq!(text.matches("ends: it is still there").count(), 1, "{how}: {text}");
        let told = "handler `ends` failed at epoch_completed and is not called again";
        assert!(text.contains(told) && text.contains(said), "{how}: {text}");
        assert!(!weights(Path::new(&out)).is_empty());
    }
}

#[test]
fn wrong_names_and_limits_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 2)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--dry-run"];
    let dry = |more: &[&str], words: &[&str]| fail(&[&train[..], more].concat(), 1, words);
    dry(&["--isolated=statistics"], &["--isolated=statistics", "it has validation, stats, checkpoint"]);
    let list = "plugins=[{name=\"stats\",time_limit=5.0}]";
    dry(&["--set", list], &["isolated = true"]);
    let list = "plugins=[{name=\"stats\",isolated=true,time_limit=-1.0}]";
    dry(&["--set", list], &["-1 s is no limit"]);
    assert!(!Path::new(&out).exists());
}
