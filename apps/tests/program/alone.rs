//! The program in its own folder, without the libraries of its plugins: its description of itself and
//! of the machine, and a run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{errors, phantom, text};
use serde_json::Value;
use tempfile::TempDir;

/// The program as `PREFIX/bin/hearth`: a link to the same file, which gives the program another
/// location.
struct Installed {
    prefix: TempDir,
}

impl Installed {
    fn new() -> Self {
        let built = Path::new(env!("CARGO_BIN_EXE_hearth"));
        let prefix = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        fs::create_dir(prefix.path().join("bin")).unwrap();
        fs::hard_link(built, prefix.path().join("bin/hearth")).unwrap();
        Self { prefix }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.prefix.path().join(name)
    }

    /// A command without the user's environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/hearth"));
        command.args(arguments).env("NO_COLOR", "1").env("HOME", self.path("home"));
        let variables =
            ["HEARTH_PLUGIN_PATH", "HEARTH_MPI", "HEARTH_SSH", "XDG_DATA_HOME", "RAYON_NUM_THREADS", "RUST_LOG"];
        for variable in variables {
            command.env_remove(variable);
        }
        command
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}\n{}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The library of a bundled plugin, which the build leaves next to the program or in `deps`.
fn library(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_hearth")).parent().unwrap();
    let file = format!("{}hearth_{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    [built.join("deps").join(&file), built.join(&file)].into_iter().find(|path| path.is_file()).expect("it is built")
}

#[test]
fn its_plugins_are_inside_and_yield_to_files() {
    let hearth = Installed::new();
    let list: Value = serde_json::from_str(&hearth.says(&["plugin", "list", "--json"])).unwrap();
    let entries = list["entries"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["identity"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["checkpoint", "ensemble", "nvtx", "stats", "validation"]);
    assert!(entries.iter().all(|entry| entry["place"]["origin"] == "built_in" && entry["path"].is_null()), "{list:#}");
    let info = hearth.says(&["plugin", "info", "checkpoint"]);
    assert!(info.contains("file      none: it is built into this program") && info.contains("keep_last"), "{info}");
    assert!(hearth.says(&["plugin", "check", "validation"]).contains("validation can be loaded"));

    // In the place that an installation uses.
    fs::create_dir_all(hearth.path("lib/hearth/plugins")).unwrap();
    let file = hearth.path("lib/hearth/plugins").join(library("stats").file_name().unwrap());
    fs::copy(library("stats"), &file).unwrap();
    let list = hearth.says(&["plugin", "list"]);
    assert!(list.contains(&format!("    {} (program's folder)\n", file.display())), "{list}");
    assert!(list.contains(&format!("hidden by {}", file.display())), "{list}");
    assert!(hearth.says(&["plugin", "info", "stats"]).contains(&format!("file      {}\n", file.display())));
}

#[test]
fn a_run_needs_nothing_but_the_program() {
    let hearth = Installed::new();
    let data = phantom(hearth.prefix.path(), 3);
    let recipe = hearth.path("tiny.toml");
    let plugins =
        "[[plugins]]\nname = \"validation\"\n[[plugins]]\nname = \"checkpoint\"\noptions = { keep_last = 1 }\n";
    fs::write(&recipe, format!("{}{plugins}", crate::common::TINY)).unwrap();
    let run = hearth.path("run");
    let arguments = ["train", &text(&recipe), "--data", &text(&data), "--out", &text(&run), "--epochs", "2"];
    let output = hearth.command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(fs::read_dir(run.join("checkpoints")).unwrap().count() >= 1, "the linked plugin writes checkpoints");
    let dry = hearth.command(&arguments[..5]).arg(run.with_file_name("dry")).arg("--dry-run").output().unwrap();
    let shown = String::from_utf8_lossy(&dry.stdout);
    assert!(shown.contains("built in"), "{shown}\n{}", errors(&dry));
}

#[test]
fn a_variable_that_leads_nowhere_is_told() {
    let hearth = Installed::new();
    let output = hearth.command(&["plugin", "list"]).env("HEARTH_PLUGIN_PATH", "/no/such/folder").output().unwrap();
    assert!(output.status.success());
    let told = "HEARTH_PLUGIN_PATH names /no/such/folder, where no plugin is found: it does not exist";
    assert_eq!(errors(&output).matches(told).count(), 1, "{}", errors(&output));
    let output = hearth.command(&["doctor"]).env("HEARTH_PLUGIN_PATH", "/no/such/folder").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("BROKEN") && shown.contains("-> export HEARTH_PLUGIN_PATH="), "{shown}");
}

#[test]
fn it_says_what_it_is() {
    let hearth = Installed::new();
    assert_eq!(hearth.says(&["-V"]), concat!("hearth ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = hearth.says(&["--version"]);
    for part in [
        "hearth ",
        "\ncommit     ",
        "\nfeatures   cpu",
        "\nprocessor  ",
        "\nplugins    SDK ",
        ", ABI ",
        "\nbuilt      for ",
    ] {
        assert!(long.contains(part), "{part:?} in {long}");
    }
    #[cfg(target_arch = "x86_64")]
    assert_eq!(long.contains("avx2"), is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"), "{long}");
}

#[test]
fn the_doctor_looks_at_everything() {
    let hearth = Installed::new();
    let shown = hearth.says(&["doctor"]);
    for what in ["processor", "memory", "this folder", "temporary files", "plugin checkpoint", "MPI"] {
        assert!(shown.contains(what), "{what} in {shown}");
    }
    let report: Value = serde_json::from_str(&hearth.says(&["doctor", "--json"])).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["program"]["version"], env!("CARGO_PKG_VERSION"));

    // The report has a command for the broken part, and the exit code shows it.
    let library = hearth.path("bin").join(library("stats").file_name().unwrap());
    fs::write(&library, "no library").unwrap();
    let mut command = hearth.command(&["doctor", "--json"]);
    let output = command.env("TMPDIR", "/no/such/folder").env("RAYON_NUM_THREADS", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let broken: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["health"] == "broken").collect();
    let whats: Vec<&str> = broken.iter().map(|finding| finding["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["processor", "temporary files", "plugin"], "{report:#}");
    assert!(broken.iter().all(|finding| finding["mend"].is_string()), "{report:#}");
    assert!(errors(&output).contains("3 things are broken"), "{}", errors(&output));
}

/// Programs that commands start.
#[test]
fn the_doctor_looks_for_programs() {
    let hearth = Installed::new();
    let folder = hearth.path("programs");
    fs::create_dir(&folder).unwrap();
    let found = |ssh: Option<&str>| -> Vec<Value> {
        let mut command = hearth.command(&["doctor", "--json"]);
        command.env("PATH", &folder).env_remove("CARGO");
        ssh.map(|ssh| command.env("HEARTH_SSH", ssh));
        let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        report["findings"].as_array().unwrap().clone()
    };
    let of = |all: &[Value], what: &str| -> [String; 3] {
        let finding = all.iter().find(|finding| finding["what"] == what).unwrap();
        ["health", "found", "mend"].map(|key| finding[key].as_str().unwrap_or_default().to_owned())
    };
    let nothing = found(None);
    for (what, needed_by) in [
        ("ssh", "--hosts"),
        ("launchers", "--max-restarts"),
        ("cargo", "hearth plugin dev"),
        ("make and cc", "plugins in C"),
    ] {
        let [health, found, mend] = of(&nothing, what);
        assert!(health == "absent" && found.contains(needed_by) && !mend.is_empty(), "{health}: {found} -> {mend}");
    }
    for program in ["ssh", "mpirun", "cargo", "make", "cc"] {
        fs::write(folder.join(program), "").unwrap();
    }
    let all = found(None);
    assert!(["ssh", "launchers", "cargo", "make and cc"].iter().all(|what| of(&all, what)[0] == "good"), "{all:#?}");
    assert_eq!(of(&all, "ssh")[1], folder.join("ssh").display().to_string());
    let [health, found_ssh, mend] = of(&found(Some("/no/such/ssh -p 2222")), "ssh");
    assert_eq!((&*health, &*mend), ("broken", "unset HEARTH_SSH"));
    assert!(found_ssh.contains("there is no program /no/such/ssh"), "{found_ssh}");
    assert_eq!(of(&found(Some("ssh 'node")), "ssh")[0], "broken");
    assert_eq!(of(&found(Some("ssh -p 2222")), "ssh")[0], "good");
}

#[test]
fn completions_and_manual_pages_are_of_this_program() {
    let hearth = Installed::new();
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef hearth"),
        ("fish", "complete -c hearth"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion"),
    ] {
        let script = hearth.says(&["completions", shell]);
        assert!(script.contains(word) && script.contains("lr-find"), "{shell}");
    }
    // A real client.
    let script = hearth.path("hearth.bash");
    fs::write(&script, hearth.says(&["completions", "bash"])).unwrap();
    let ask = format!(
        ". {}; COMP_WORDS=(hearth trai); COMP_CWORD=1; _hearth hearth trai hearth; echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "train", "{}", errors(&output));
    let pages = hearth.path("man");
    hearth.says(&["man", "--out", &text(&pages)]);
    let page = fs::read_to_string(pages.join("hearth-train.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("max\\-restarts"), "{page}");
    assert!(pages.join("hearth.1").is_file() && pages.join("hearth-plugin-new.1").is_file());
    hearth.says(&["man", "--out", &text(&pages)]);
}
