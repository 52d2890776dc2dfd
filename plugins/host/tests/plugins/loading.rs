//! Files that are plugins, and files that are not.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use hearth_engine::Ranks;
use hearth_plugin::identity::{ABI_HASH, Identity, MAGIC, RUSTC, SDK_VERSION, TARGET};
use hearth_plugin_host::{Info, Plugin, PluginError, check_for_parent, check_here, check_in_child, inspect, load};

use crate::{bundled, fixture, table};

#[test]
fn a_good_one_says_who_it_is() {
    let plugin = load(&fixture("good")).expect("a good plugin");
    let identity = plugin.identity();
    assert_eq!((identity.name.as_str(), identity.version.as_str()), ("good", env!("CARGO_PKG_VERSION")));
    assert_eq!((identity.sdk.as_str(), identity.abi_hash), (SDK_VERSION, ABI_HASH));
    assert_eq!((identity.rustc.as_str(), identity.target.as_str()), (RUSTC, TARGET));
    assert_eq!(identity.module, "fixture_good");
    assert_eq!(inspect(&fixture("good")).expect("an identity"), *identity);
    let options = plugin.options().iter().map(|o| (o.name.as_str(), o.required)).collect::<Vec<_>>();
    assert_eq!(options, [("word", true), ("tensor", false), ("numbers", false), ("timer", false)]);
    assert!(identity.to_string().starts_with("good 0."), "{identity}");
}

#[test]
fn the_five_say_what_they_do() {
    for (name, ranks, event) in [
        ("checkpoint", Ranks::First, "epoch_completed"),
        ("stats", Ranks::First, "exception_raised"),
        ("validation", Ranks::All, "epoch_completed"),
        ("nvtx", Ranks::All, "started"),
    ] {
        let info = Info::of(&load(&bundled(name)).expect("a bundled plugin"));
        let defaults = info.defaults.as_ref().expect("no option is required");
        assert_eq!((info.identity.name.as_str(), defaults.ranks), (name, ranks));
        assert_eq!(defaults.events.first().map(String::as_str), Some(event));
        let text = info.to_string();
        assert!(info.options.iter().all(|option| text.contains(&option.name) && !option.help.is_empty()), "{text}");
    }
    let ensemble = Info::of(&load(&bundled("ensemble")).expect("a bundled plugin"));
    assert_eq!(ensemble.defaults, None);
    assert!(ensemble.to_string().contains("pred_keys (required)"), "{ensemble}");
}

#[test]
fn options_that_are_wrong_are_told_with_the_valid_ones() {
    let fault = |plugin: &Plugin, options: &str| match plugin.handler(table(options)).map(drop) {
        Err(PluginError::Options { fault, .. }) => *fault,
        other => panic!("{options}: {other:?}"),
    };
    let checkpoint = load(&bundled("checkpoint")).expect("a bundled plugin");
    let unknown = fault(&checkpoint, "keep_lst = 2");
    assert_eq!((unknown.path.as_str(), unknown.suggestion.as_deref()), ("keep_lst", Some("keep_last")));
    let kind = fault(&checkpoint, "keep_last = 'all'");
    assert_eq!(kind.to_string(), "keep_last: expected a whole number without a sign, not the text \"all\"");
    let good = load(&fixture("good")).expect("a good plugin");
    let missing = fault(&good, "");
    assert_eq!(missing.path, "word");
    assert_eq!(missing.text(), "option `word` is missing; valid options: word, tensor, numbers, timer");
    assert_eq!(fault(&good, "word = ''\nnumbers = [1, 'two']").path, "numbers.1");
    let unknown = fault(&good, "wrd = ''");
    assert_eq!(
        (unknown.path.as_str(), unknown.text().as_str()),
        ("wrd", "unknown option `wrd`, did you mean \"word\"?")
    );
    let validation = load(&bundled("validation")).expect("a bundled plugin");
    let error = validation.handler(table("interval = 0")).map(drop).expect_err("zero").to_string();
    assert_eq!(error, "plugin `validation`: interval: `interval` is 0; give 1 or more");
    // A constructor's error without a key, and a panic.
    let troubles = load(&fixture("troubles")).expect("it loads well");
    for (options, words) in
        [("place = 'create'", "trouble at create"), ("place = 'create'\npanic = true", "panicked at")]
    {
        let fault = fault(&troubles, options);
        assert!(fault.path.is_empty() && fault.message.contains(words), "{fault}");
    }
}

/// The four lines of the error of a plugin that was built for another Hearth.
fn four_lines(path: &Path) -> Vec<String> {
    let error = load(path).map(drop).expect_err("built for another Hearth");
    assert!(matches!(error, PluginError::Mismatch(_)), "{error:?}");
    let text = error.to_string();
    let lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[0].starts_with("plugin `other-abi` 2.1.0 (") && lines[0].contains(&*path.to_string_lossy()),
        "{text}"
    );
    assert!(lines[1].contains(RUSTC) && lines[1].contains("0123456789abcdef"), "{text}");
    assert!(lines[2].contains(&format!("SDK 0.1.x, ABI {ABI_HASH:016x}")), "{text}");
    assert!(lines[3].contains("cargo build --release"), "{text}");
    lines
}

#[test]
fn another_abi_is_refused_in_four_lines_before_it_runs() {
    // The library would end this process if it were opened.
    let lines = four_lines(&fixture("other_abi"));
    assert!(lines[0].ends_with("cannot be loaded: its SDK has another binary interface"), "{lines:?}");
    assert!(lines[3].contains("hearth plugin update && cargo build "), "{lines:?}");
    // The same with other fields of the record changed in the file.
    let bytes = std::fs::read(fixture("other_abi")).expect("the fixture can be read");
    let record = bytes.windows(16).position(|window| window == MAGIC).expect("an identity");
    let folder = tempfile::tempdir().expect("a folder");
    for (at, with, why, command) in [
        (offset_of!(Identity, sdk), &b"0.3.9"[..], "its SDK is of the 0.3 line", "hearth plugin update && "),
        (offset_of!(Identity, loader), &[9], "its SDK has another loader version", "hearth plugin update && "),
        (offset_of!(Identity, target), &b"sparc"[..], "it was built for sparc", "hearth plugin update && "),
    ] {
        let mut bytes = bytes.clone();
        bytes[record + at..][..with.len()].copy_from_slice(with);
        let path = folder.path().join("changed.so");
        std::fs::write(&path, bytes).expect("a file can be written");
        let lines = four_lines(&path);
        assert!(lines[0].contains(why) && lines[3].contains(command), "{lines:?}");
    }
}

#[test]
fn what_is_no_plugin_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    };
    let good = std::fs::read(fixture("good")).expect("the fixture can be read");
    let cases = [
        (fixture("no_symbols"), "is a library, but not a Hearth plugin", "`hearth plugin new` writes one"),
        (write("text.so", b"hello, I am a text file\n"), "a text, which starts with \"hello, I", "give the library"),
        (write("data.so", &[1, 2, 3, 4, 5]), "it starts with the bytes 01 02 03 04", "give the library"),
        (write("empty.so", b""), "it is empty", "copy or build it again"),
        (write("half.so", &good[..good.len() / 2]), "it is truncated at", "copy or build it again"),
        (write("almost.so", &good[..good.len() - 1]), "it is truncated at", "copy or build it again"),
        (write("head.so", &good[..100]), "it is truncated at", "copy or build it again"),
        (folder.path().join("missing.so"), "No such file", ""),
        (folder.path().to_owned(), "it is not a file", "give the library itself"),
    ];
    for (path, words, advice) in cases {
        let text = load(&path).map(drop).expect_err("no plugin").to_string();
        assert!(text.contains(words) && text.contains(&*path.to_string_lossy()), "{text}");
        assert!(text.contains(advice), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let report = check_here(&path);
        assert_eq!((report.ok, report.problem), (false, Some(text)));
    }
    // A record that was damaged in the file is refused too.
    let mut other = good.clone();
    let at = other.windows(16).position(|window| window == MAGIC).expect("the identity");
    other[at] ^= 1;
    let text = load(&write("damaged.so", &other)).map(drop).expect_err("no magic").to_string();
    assert!(text.contains("not a Hearth plugin"), "{text}");
    other[at] ^= 1;
    other[at + 32] = 0;
    let text = load(&write("aborts.so", &other)).map(drop).expect_err("panics would abort").to_string();
    assert!(text.contains("panic = \"abort\"") && text.lines().count() == 4, "{text}");
}

/// Opening this library would end the process: what its file shows is an error before.
#[cfg(target_os = "linux")]
#[test]
fn what_the_file_shows_is_refused_without_loading_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let crashes = std::fs::read(fixture("crashes")).expect("the fixture can be read");
    let refused = |name: &str, bytes: &[u8], words: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        let text = load(&path).map(drop).expect_err("it cannot be loaded").to_string();
        for word in words.iter().chain([&&*path.to_string_lossy()]) {
            assert!(text.contains(word), "no {word:?} in {text}");
        }
        assert_eq!(inspect(&path).is_ok(), words.contains(&"does not export"), "{text}");
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = crashes.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    // The header of an ELF file: class at 4, order of bytes at 5, type at 16, machine at 18.
    let other: u16 = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    refused("machine.so", &with(18, &other.to_le_bytes()), &["it was built for", "and this is", "for this machine"]);
    refused("class.so", &with(4, &[1]), &["not a 64-bit little-endian library", "build it for this machine"]);
    refused("order.so", &with(5, &[2]), &["not a 64-bit little-endian library"]);
    refused("program.so", &with(16, &[2]), &["not a shared library", "cdylib"]);
    refused("mac.so", &with(0, &[0xcf, 0xfa, 0xed, 0xfe]), &["it is a library for macOS, and this is Linux"]);
    for symbol in ["hearth_plugin_root__", "hearth_plugin_loader__", "hearth_plugin_identity__"] {
        let mut changed = crashes.clone();
        let places = (0..changed.len() - symbol.len()).filter(|at| changed[*at..].starts_with(symbol.as_bytes()));
        for at in places.collect::<Vec<_>>() {
            changed[at] = b'H';
        }
        let name = format!("`{symbol}fixture_crashes`");
        refused("symbol.so", &changed, &["plugin `crashes`", "does not export", &name, "fix it: ", "cdylib"]);
    }
}

#[test]
fn two_plugins_can_be_linked_into_one_library() {
    let path = fixture("on_another");
    let plugin = load(&path).expect("a plugin on another one");
    assert_eq!(plugin.identity().name, "on-another");
    assert_eq!(plugin.options().len(), 4);
    // Under another file name it is ambiguous which of the two is requested.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("renamed.so");
    std::fs::copy(&path, &copy).expect("a copy");
    let text = inspect(&copy).expect_err("two identities").to_string();
    assert!(text.contains("several plugins") && text.contains("hearth_stats"), "{text}");
}

/// Like a program that searches for plugins itself.
#[test]
fn a_mark_without_a_record_is_no_plugin() {
    let mut bytes = std::fs::read(fixture("on_another")).expect("a library");
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let mut code = [1; 1024];
    code[..16].copy_from_slice(&MAGIC);
    // Where the texts of a record would end.
    for end in [103, 135, 327, 423, 455, 519, 583] {
        code[end] = 0;
    }
    bytes.extend(code);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("renamed.so");
    std::fs::write(&path, bytes).expect("a copy");
    let text = inspect(&path).expect_err("two identities").to_string();
    assert!(text.contains("hearth_stats") && !text.contains(char::is_control), "{text}");
}

/// This program, as the child process that loads a plugin.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test program has a path"));
    command.args(["--exact", "loading::child", "--ignored", "--nocapture"]);
    command
}

#[test]
#[ignore = "what the tests of `check_in_child` start"]
fn child() {
    // Without its parent there is nothing to do.
    let Some(path) = std::env::var_os("HEARTH_TEST_PLUGIN") else { return };
    check_for_parent(path.as_ref());
}

#[test]
fn a_check_survives_what_it_checks() {
    let check = |name: &str| {
        let path = if name == "checkpoint" { bundled(name) } else { fixture(name) };
        check_in_child(this_program().env("HEARTH_TEST_PLUGIN", &path), &path)
    };
    let good = check("checkpoint");
    assert!(good.ok && good.problem.is_none(), "{good}");
    assert_eq!(good, check_here(&bundled("checkpoint")), "the report crosses as it is");
    let other = check("other_abi");
    assert!(!other.ok && other.problem.as_ref().is_some_and(|text| text.lines().count() == 4), "{other}");
    if cfg!(target_os = "linux") {
        let crashed = check("crashes");
        let text = crashed.problem.as_deref().unwrap_or_default();
        assert!(!crashed.ok && text.contains("crashes while it is loaded: signal 6 (abort)"), "{text}");
        assert!(text.contains("| the library gives up"), "{text}");
    }
    let path = bundled("checkpoint");
    let missing = check_in_child(&mut Command::new("/no/such/program"), &path);
    assert!(missing.problem.is_some_and(|text| text.starts_with("/no/such/program cannot be started")));
}
