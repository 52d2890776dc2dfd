//! Plugins in C, C++ and Python, built by the machine's compilers: the templates, a probe that
//! calls everything, and refused ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_engine::{Better, Engine, Handler, HostTensor};
use hearth_plugin_host::{HEADER, Plugin, PluginError, SdkSource, Template, inspect, load, scaffold};

use crate::toy::Toy;
use crate::{clients, table};

/// Compiles a C source next to the header.
pub fn compile(folder: &Path, name: &str, source: &str) -> PathBuf {
    std::fs::write(folder.join("hearth_plugin.h"), HEADER).expect("the header");
    let (file, library) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    std::fs::write(&file, source).expect("the source");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-fPIC", "-shared", "-o"];
    let output = Command::new(compiler).args(flags).arg(&library).arg(&file).output();
    let output = output.expect("a C compiler, which building Hearth needs, too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Writes a plugin from a template and builds it as its README says.
pub fn make(folder: &Path, template: Template) -> Plugin {
    make_with(folder, template, HEADER, 2)
}

/// The same with this header, which has this version.
fn make_with(folder: &Path, template: Template, header: &str, version: u32) -> Plugin {
    let name = format!("my-{template}");
    let dir = folder.join(&name);
    let files = scaffold(&dir, &name, template, &SdkSource::default()).expect("a project");
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a file");
        assert!(!text.contains("{{"), "{} is filled in", file.display());
    }
    std::fs::write(dir.join("hearth_plugin.h"), header).expect("the header");
    if version == 1 {
        // Its table ended before `call`.
        let source = dir.join("my_c.c");
        let text = std::fs::read_to_string(&source).expect("the source");
        std::fs::write(&source, text.replace(", NULL};", "};")).expect("written");
    }
    let output = Command::new("make").arg("FLAGS=-Wall -Wextra -Werror -fPIC -shared").current_dir(&dir).output();
    let output = output.expect("make can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plugin = load(&dir.join(format!("lib{}.so", name.replace('-', "_")))).expect("the new plugin loads");
    let identity = plugin.identity();
    assert_eq!((identity.name.as_str(), identity.version.as_str(), identity.header), (&*name, "0.1.0", Some(version)));
    assert_eq!(identity.description, template.description());
    plugin
}

/// Checks that the handler of every language prints the same, counts its lines, and refuses the
/// same.
fn shows_a_line(plugin: &Plugin) {
    let run = |handler: Box<dyn Handler>| {
        let mut engine = Engine::new("trainer");
        engine.set_key_metric("dice", Better::Higher);
        let validation = hearth_plugin_host::Search::standard(&[], &[]).load("validation").expect("it is bundled");
        engine.add_boxed(validation.handler(table("")).expect("defaults")).expect("a valid handler");
        engine.add_boxed(handler).expect("a valid handler");
        let mut toy = Toy::trainer(1);
        toy.dice = vec![0.5, 0.75, 0.75];
        engine.run(&mut toy, 3).expect("no error");
        toy.notes.retain(|note| note != "run validation");
        toy.notes
    };
    let name = &plugin.identity().name;
    let handler = plugin.handler(table("every = 2")).expect("valid options");
    assert_eq!(run(handler), [format!("Notice: {name}: epoch 2 of 3 is done, dice 0.7500")]);
    let options = plugin.options();
    assert_eq!(options.len(), 1);
    assert_eq!((options[0].name.as_str(), options[0].default.as_deref()), ("every", Some("1")));
    let fault = |options: &str| match plugin.handler(table(options)).err() {
        Some(PluginError::Options { fault, .. }) => fault,
        other => panic!("{options}: {other:?}"),
    };
    assert_eq!(fault("evry = 1").suggestion.as_deref(), Some("every"));
    assert_eq!(fault("every = 'x'").path, "every");
    let zero = plugin.handler(table("every = -1"));
    assert!(zero.is_err(), "{name} refuses what it cannot do");
}

#[test]
fn a_plugin_in_c_is_built_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugin = make(folder.path(), Template::C);
    shows_a_line(&plugin);
    let handler = plugin.handler(table("")).expect("defaults");
    let mut second = plugin.handler(table("")).expect("defaults");
    second.load_state(&handler.save_state().expect("a state")).expect("its own state");
    let error = second.load_state(b"x").expect_err("no state of it");
    assert_eq!(error.message(), "its state is damaged");
}

#[test]
fn a_plugin_of_the_first_header_is_used() {
    let folder = tempfile::tempdir().expect("a folder");
    shows_a_line(&make_with(folder.path(), Template::C, include_str!("../stored/header-1.h"), 1));
}

#[test]
fn live_a_plugin_in_cpp_is_built_and_used() {
    if clients::find_program("c++", "a_plugin_in_c_is_built_and_used").is_some() {
        let folder = tempfile::tempdir().expect("a folder");
        shows_a_line(&make(folder.path(), Template::Cpp));
    }
}

#[test]
fn live_a_plugin_in_python_is_built_and_used() {
    if clients::find(&["ctypes"], "a_plugin_in_c_is_built_and_used").is_some() {
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = make(folder.path(), Template::Python);
        shows_a_line(&plugin);
        let mut handler = plugin.handler(table("")).expect("defaults");
        assert_eq!(handler.save_state().as_deref(), Some(b"0".as_slice()));
        handler.load_state(b"5").expect("a state");
        assert_eq!(handler.save_state().as_deref(), Some(b"5".as_slice()));
        let error = handler.load_state(b"five").expect_err("no number");
        assert!(error.message().contains("ValueError: ") && error.message().contains("my_python.py:"), "{error}");

        // A second plugin, whose source has an error: both share one interpreter.
        let dir = folder.path().join("my-python");
        std::fs::copy(dir.join("libmy_python.so"), dir.join("libbroken.so")).expect("a library");
        std::fs::write(dir.join("my_python.py"), "import hearth_plugin\nPlugin = hearth_plugin.Plug\n")
            .expect("a source");
        let error = load(&dir.join("libbroken.so")).expect_err("a mistake").to_string();
        assert!(error.contains("AttributeError") && error.contains("(my_python.py:2)"), "{error}");
        assert!(error.lines().count() <= 4, "{error}");
    }
}

#[test]
fn a_probe_gets_what_the_host_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compile(folder.path(), "probe", include_str!("../fixtures/c/probe.c"));
    let plugin = load(&library).expect("it loads");
    let mut engine = Engine::new("trainer");
    let handler = plugin.handler(table("folder = '/tmp/c'\nnote = 'Köln'")).expect("valid options");
    engine.add_boxed(handler).expect("a valid handler");
    engine.set_run_info(r#"{"version":"1"}"#);
    let done = std::sync::Arc::new(std::sync::Mutex::new(0));
    let count = done.clone();
    engine
        .on(hearth_engine::Event::custom("probe.done"), move |_| {
            *count.lock().expect("no panic") += 1;
            Ok(())
        })
        .expect("an event of a handler");
    let mut toy = Toy::trainer(4);
    toy.tensors.insert("image".into(), HostTensor::from_f32(vec![2], &[1.0, 2.5]).expect("a tensor"));
    let label = HostTensor { dtype: hearth_engine::DType::U8, shape: vec![1, 2], bytes: vec![1, 0].into() };
    toy.tensors.insert("label".into(), label);
    let attached = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = attached.clone();
    engine.on_attach(Box::new(move |handler, name, attachment| {
        list.lock().expect("no panic").push(format!("{handler} {name} {attachment:?}"));
        Ok(Some(name.into()))
    }));
    engine.run(&mut toy, 1).expect("its errors are logged");
    let attached = attached.lock().expect("no panic");
    assert_eq!(attached[0], "probe notes/a.txt File([116, 101, 120, 116])");
    assert_eq!(attached[2], "probe text Text(\"# text\")");
    assert!(attached.len() == 3 && attached[1].starts_with("probe label Image(HostTensor { dtype: U8, shape: [1, 2]"));
    assert_eq!(toy.snapshots[0].store["probe"]["key"], b"\0value");
    let expected = [
        "Info: output: `lss` is not supported",
        "Info: metric: there is no metric `dice` yet",
        "run validation",
        r#"Info: run: {"dice":0.5}"#,
        r#"Info: names: ["Tensors","é"]"#,
        r#"Info: cases: ["case_1.nii","case_2.nii"]"#,
        "Info: numbers: [[61.5],[]]",
        r#"Info: texts: ["Köln",""]"#,
        "Info: NULL: the plugin passed NULL where a text was expected",
        "Info: put_tensor: a tensor of F32 and shape [2] does not fit 4 bytes",
        "combine image+label Mean { weights: Some([1.0, 3.0]) } sum",
    ];
    assert_eq!(toy.notes[..expected.len()], expected);
    let layers = &toy.notes[expected.len()];
    assert!(layers.contains(r#""name":"conv.weight","count":27,"mean":0.25"#), "{layers}");
    assert!(layers.contains(r#""name":"conv.bias","count":27,"mean":null"#), "{layers}");
    let rest = [
        "Info: recall: nothing is kept under `key`",
        "Info: attach: an attachment has a name of letters, digits, `-`, `_` and `.`, in folders or not (`slices/epoch_1`), \
         not \"../a.txt\"",
        "Info: note: Köln",
        r#"Info: info: {"version":"1"}"#,
        "Info: call_after: -1 s is no time to wait: cannot convert float seconds to Duration: value is negative",
    ];
    assert_eq!(toy.notes[expected.len() + 1..][..rest.len()], rest);
    assert!(toy.notes.iter().any(|note| note == "checkpoint /tmp/c mine Some(2)"), "{:?}", toy.notes);
    assert!(toy.notes.iter().any(|note| note == "Info: timer: at the end"), "{:?}", toy.notes);
    assert_eq!(*done.lock().expect("no panic"), 1);
    assert_eq!(toy.tensors["doubled"].to_f32().expect("numbers"), [2.0, 5.0]);
    assert_eq!((toy.rate, engine.state().metrics["dice"]), (Some(0.25), 0.5));
    assert_eq!(engine.state().scalars["curve"].value, 2.5);
    let saved = toy.snapshots[0].handlers.values().next().expect("a state").clone();
    assert_eq!(saved, "saved:Köln".as_bytes());

    let mut other = plugin.handler(table("folder = 'x'")).expect("valid options");
    other.load_state(&saved).expect("its state");
    assert_eq!(other.save_state(), Some(saved));
    assert_eq!(other.load_state(b"else").expect_err("not its state").message(), "this is no state of it");
}

#[test]
fn errors_of_a_callback_are_those_of_the_handler() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compile(folder.path(), "probe", include_str!("../fixtures/c/probe.c"));
    let plugin = load(&library).expect("it loads");
    let refused = |options: &str| plugin.handler(table(options)).err().expect(options).to_string();
    assert_eq!(
        refused(""),
        "plugin `probe`: folder: option `folder` is missing; valid options: note, folder, fails, event, rate"
    );
    assert_eq!(refused("folder = 'x'\nrate = 2"), "plugin `probe`: rate: the rate must be 1");
    let meant = refused("folder = 'x'\nevent = 'iteration_complete'");
    assert!(meant.ends_with("which is not an event, did you mean \"iteration_completed\"?"), "{meant}");

    let mut failing = plugin.handler(table("folder = 'x'\nfails = true")).expect("valid options");
    let (state, event) = (hearth_engine::State::new("trainer"), hearth_engine::Event::IterationCompleted);
    let mut toy = Toy::trainer(1);
    let mut cx = hearth_engine::Context { event, state: &state, host: &mut toy };
    assert_eq!(failing.handle(event, &mut cx).expect_err("it fails").message(), "as it was asked to");
}

/// A plugin with a fault.
const FAULTY: &str = r#"#include "hearth_plugin.h"
HEARTH_PLUGIN("faulty", "0.1.0", "has a fault", 0);
static int32_t create(const hearth_setup *setup, void **self) { (void)setup; *self = 0; return CODE; }
static int32_t handle(void *self, const hearth_event *event, const hearth_host *host) {
    (void)self; (void)event; (void)host;
    return 0;
}
static int32_t options(const hearth_call *call) { call->give(call, "[3]", 3); return 0; }
static const hearth_plugin plugin = {SIZE, OPTIONS, create, 0, handle, 0, 0, 0, 0, 0, 0, 0};
const hearth_plugin *hearth_plugin_main(const hearth_call *call) { (void)call; (void)options; return RESULT; }
"#;

#[test]
fn each_mismatch_says_whose_fault_and_how_it_is_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut number = 0;
    let mut refused = |changes: &[(&str, &str)], words: &[&str]| {
        number += 1;
        let mut source = FAULTY.to_owned();
        let defaults = [("CODE", "0"), ("SIZE", "sizeof(hearth_plugin)"), ("OPTIONS", "0"), ("RESULT", "&plugin")];
        for (from, to) in changes.iter().chain(&defaults) {
            source = source.replace(from, to);
        }
        let library = compile(folder.path(), &format!("faulty_{number}"), &source);
        let error = match load(&library) {
            Ok(plugin) => plugin.handler(table("")).err().expect("a fault"),
            Err(error) => error,
        };
        let text = error.to_string();
        assert!(text.lines().count() <= 4 && words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    };
    let newer =
        [("#include \"hearth_plugin.h\"", "#include \"hearth_plugin.h\"\n#undef HEARTH_ABI\n#define HEARTH_ABI 3")];
    refused(
        &newer,
        &["`faulty` 0.1.0", "newer than this program", "version 3 of", "versions 1 to 2", "install a newer"],
    );
    let older =
        [("#include \"hearth_plugin.h\"", "#include \"hearth_plugin.h\"\n#undef HEARTH_ABI\n#define HEARTH_ABI 0")];
    refused(&older, &["too old", "hearth plugin update && make"]);
    refused(&[("SIZE", "16")], &["16 bytes", "a fault of the plugin", ".size = sizeof(hearth_plugin)"]);
    refused(&[("RESULT", "plugin.size ? 0 : &plugin")], &["`hearth_plugin_main` returned 0 and did not say why"]);
    refused(
        &[
            ("hearth_plugin_main(const hearth_call *call) {", "other(const hearth_call *call) {"),
            (
                "const hearth_plugin *other",
                "const hearth_plugin *other(const hearth_call *call);\nconst hearth_plugin *other",
            ),
        ],
        &["does not export `hearth_plugin_main`", "a fault of the plugin", "fix it"],
    );
    refused(
        &[
            ("create, 0, handle", "0, 0, handle"),
            ("static int32_t create", "int32_t create(const hearth_setup *, void **);\nint32_t create"),
        ],
        &["neither `create` and `handle`"],
    );
    refused(&[("CODE", "5")], &["`create` returned 5 and did not say why"]);
    refused(&[("OPTIONS", "options")], &["not a JSON list of options"]);
    refused(
        &[("(void)options; return", "(void)options; extern int nowhere(void); if (nowhere()) return 0; return")],
        &["undefined symbol: nowhere"],
    );
}

#[test]
fn a_library_of_another_processor_is_refused_before_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compile(folder.path(), "probe", include_str!("../fixtures/c/probe.c"));
    let mut bytes = std::fs::read(&library).expect("a library");
    bytes[0x12] = if bytes[0x12] == 183 { 62 } else { 183 };
    std::fs::write(&library, bytes).expect("written");
    let error = inspect(&library).expect_err("of another processor").to_string();
    assert!(error.contains("it was built for ") && error.contains("build it for this machine"), "{error}");
}
