//! Libraries that only a recipe names run no code before the user agrees.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{TINY, errors, hearth, phantom, text};
use crate::plugins_in_c::compile;

/// A plugin that writes a file when it is loaded.
const MARKER: &str = r#"#include "hearth_plugin.h"
#include <stdio.h>

HEARTH_PLUGIN("marker", "0.1.0", "VERSION", HEARTH_DECLARED | HEARTH_FILES);

__attribute__((constructor)) static void begin(void) {
    FILE *file = fopen("MARK", "a");
    if (file) fclose(file);
}

static int32_t create(const hearth_setup *setup, void **self) {
    static int one;
    hearth_when when = {sizeof(hearth_when), "epoch_completed", 0, 0, 0, NULL, 0, 0};
    *self = &one;
    return setup->listen(setup, &when);
}

static int32_t handle(void *self, const hearth_event *event, const hearth_host *host) {
    (void)self;
    (void)event;
    host->log(host, HEARTH_NOTICE, "marker: it is called");
    return HEARTH_OK;
}

static const hearth_plugin plugin = {sizeof(hearth_plugin), NULL, create, NULL, handle, NULL, NULL, NULL, NULL, NULL,
                                     NULL, NULL};

const hearth_plugin *hearth_plugin_main(const hearth_call *call) {
    (void)call;
    return &plugin;
}
"#;

/// A folder with data, the library, and a recipe of someone else that names it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(isolated: bool) -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder") };
        phantom(place.path(), 3);
        place.build("the first");
        place.forget();
        let mut recipe = TINY.to_owned();
        for name in ["validation", "stats", "checkpoint"] {
            recipe += &format!("[[plugins]]\nname = \"{name}\"\n");
        }
        recipe += "[[plugins]]\nname = \"marker\"\npath = \"./libmarker.so\"\nengine = \"validation\"\n";
        if isolated {
            recipe += "isolated = true\n";
        }
        fs::write(place.path().join("theirs.toml"), recipe).expect("a recipe");
        fs::write(place.path().join("plain.toml"), TINY).expect("a recipe");
        place
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn mark(&self) -> PathBuf {
        self.path().join("mark")
    }

    fn build(&self, version: &str) {
        let source = MARKER.replace("MARK\"", &format!("{}\"", text(&self.mark()))).replace("VERSION", version);
        compile(self.path(), "marker", &source);
    }

    /// Removes the mark, and returns whether the library was loaded.
    fn forget(&self) -> bool {
        fs::remove_file(self.mark()).is_ok()
    }

    fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = hearth();
        command.env("XDG_DATA_HOME", self.home()).current_dir(self.path()).args(words);
        command.output().expect("the program starts")
    }

    /// A command that is refused, in which nothing of the library runs.
    fn refused(&self, words: &[&str], expected: &[&str]) {
        let output = self.run(words);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{words:?}: no {part:?} in {said}");
        }
        assert!(!self.mark().exists(), "{words:?} ran the library");
    }

    /// A command that succeeds, in which nothing of the library runs.
    fn quiet(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        assert!(!self.mark().exists(), "{words:?} ran the library");
        String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output)
    }

    /// A command that succeeds and loads the library.
    fn loads(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        assert!(self.forget(), "{words:?} did not load the library");
        errors(&output)
    }

    /// Runs at a terminal, with an answer.
    fn at_a_terminal(&self, answer: &str, words: &[&str]) -> (bool, String) {
        let line = std::iter::once(&env!("CARGO_BIN_EXE_hearth")).chain(words).map(|word| format!("'{word}'"));
        let line = line.collect::<Vec<_>>().join(" ");
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("XDG_DATA_HOME", self.home())
            .env("NO_COLOR", "1")
            .env_remove("HEARTH_PLUGIN_PATH")
            .env_remove("RUST_LOG")
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1) is there");
        child.stdin.take().expect("a pipe").write_all(answer.as_bytes()).expect("an answer");
        let output = child.wait_with_output().expect("it ends");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

const TRAIN: [&str; 8] = ["train", "theirs.toml", "--data", "data", "--epochs", "1", "--device", "cpu"];
const REFUSAL: [&str; 3] = ["only the recipe names ./libmarker.so", "--allow-plugin ./libmarker.so", "theirs.toml:"];

#[test]
fn no_code_of_a_plugin_runs_before_the_user_agrees() {
    let place = Place::new(false);
    let train = |out: &'static str, more: &[&'static str]| [&TRAIN[..], &["--out", out], more].concat();

    assert!(place.quiet(&["plugin", "list", "--plugin", "libmarker.so"]).contains("marker 0.1.0  the first"));
    let info = place.quiet(&["plugin", "info", "./libmarker.so"]);
    for part in ["marker 0.1.0  the first", "may do    reads or writes files", "the library was not loaded"] {
        assert!(info.contains(part), "{info}");
    }
    assert!(info.contains("--allow-plugin ./libmarker.so"), "{info}");
    assert!(place.quiet(&["plugin", "info", "./libmarker.so", "--json"]).contains("\"loaded\": false"));
    place.refused(&["plugin", "install", "./libmarker.so"], &["`--yes` installs without a question"]);
    assert!(!place.home().exists());
    let dry = place.quiet(&train("run", &["--dry-run"]));
    assert!(dry.contains("marker 0.1.0  would load ./libmarker.so, if it is allowed (--allow-plugin)"), "{dry}");
    // An allowed one is loaded, so that its options and events are checked.
    let dry = place.run(&train("run", &["--dry-run", "--allow-plugin", "marker"]));
    assert!(dry.status.success() && place.forget(), "{}", errors(&dry));
    assert!(String::from_utf8_lossy(&dry.stdout).contains("marker 0.1.0  ./libmarker.so"), "{dry:?}");

    place.refused(&train("run", &[]), &REFUSAL);
    place.refused(&["profile", "theirs.toml", "--data", "data", "--out", "profile"], &REFUSAL);
    place.refused(&train("run", &["--allow-plugin", "another"]), &REFUSAL);
    place
        .refused(&train("run", &["--allow-plugin", "./none.so"]), &["--allow-plugin ./none.so: there is no such file"]);

    let said = place.loads(&train("run", &["--allow-plugin", "marker"]));
    assert!(said.contains("marker: it is called"), "{said}");
    place.loads(&train("given", &["--plugin", "./libmarker.so"]));
    // The run names the library: who gets it is asked, too.
    let evaluate = ["evaluate", "run", "--data", "data", "--device", "cpu"];
    place.refused(&evaluate, &["recipe.toml", "--allow-plugin ./libmarker.so"]);
    place.loads(&[&evaluate[..], &["--allow-plugin", "./libmarker.so"]].concat());
    let resume = ["train", "--data", "data", "--out", "run", "--resume", "--epochs", "2"];
    place.refused(&resume, &["recipe.toml", "--allow-plugin ./libmarker.so"]);
    place.loads(&[&resume[..], &["--allow-plugin", "libmarker.so"]].concat());

    let plain = ["train", "plain.toml", "--data", "data", "--out", "plain", "--dry-run", "--allow-plugin", "marker"];
    let said = place.quiet(&plain);
    assert!(said.contains("--allow-plugin marker: without effect"), "{said}");

    // An installed plugin was agreed to: the recipe's path may be that of its file.
    place.loads(&["plugin", "install", "./libmarker.so", "--yes"]);
    assert!(place.loads(&["plugin", "info", "marker"]).is_empty());
    let recipe = fs::read_to_string(place.path().join("theirs.toml")).expect("a recipe");
    let installed = text(&place.home().join("hearth/plugins"));
    fs::write(place.path().join("theirs.toml"), recipe.replace("./libmarker.so", &installed)).expect("a recipe");
    place.loads(&train("installed", &[]));
}

#[test]
fn a_process_of_its_own_needs_the_same_consent() {
    let place = Place::new(true);
    let train = [&TRAIN[..], &["--out", "run"]].concat();
    place.refused(&train, &REFUSAL);
    assert!(place.loads(&[&train[..], &["--allow-plugin", "marker"]].concat()).contains("marker: it is called"));
}

/// What a plugin links and finds in its own folder runs with it, so that another such library is asked about.
#[test]
fn an_answer_covers_the_libraries_that_the_plugin_brings() {
    let place = Place::new(false);
    let compiler = || Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    let link = |arguments: &[&str]| {
        let output = compiler().current_dir(place.path()).args(["-shared", "-fPIC"]).args(arguments).output();
        let output = output.expect("a C compiler");
        assert!(output.status.success(), "{}", errors(&output));
    };
    let helper = |text: &str| {
        fs::write(place.path().join("helper.c"), format!("const char *helper(void) {{ return \"{text}\"; }}\n"))
            .expect("a source");
        link(&["-o", "libhelper.so", "helper.c"]);
    };
    helper("of the author");
    link(&["-o", "libmarker.so", "marker.c", "-Wl,--no-as-needed", "-L.", "-lhelper", "-Wl,-rpath,$ORIGIN"]);
    let train = |out: &'static str| [&TRAIN[..], &["--out", out]].concat();
    let (done, said) = place.at_a_terminal("y\n", &train("yes"));
    assert!(done && place.forget(), "{said}");
    place.loads(&train("later"));
    helper("of someone else");
    place.refused(&train("changed"), &REFUSAL);
    helper("of the author");
    place.loads(&train("again"));
}

#[test]
fn an_answer_at_a_terminal_is_kept_until_the_file_changes() {
    let place = Place::new(false);
    let train = |out: &'static str| [&TRAIN[..], &["--out", out]].concat();
    let (done, said) = place.at_a_terminal("n\n", &train("no"));
    assert!(!done && said.contains("Load it, now and later") && said.contains("may do    reads or writes"), "{said}");
    assert!(said.contains("--allow-plugin ./libmarker.so") && !place.mark().exists(), "{said}");
    place.refused(&train("still"), &REFUSAL);
    let (done, said) = place.at_a_terminal("y\n", &train("yes"));
    assert!(done && place.forget(), "{said}");
    place.loads(&train("later"));
    place.build("the second");
    place.forget();
    place.refused(&train("changed"), &REFUSAL);
}
