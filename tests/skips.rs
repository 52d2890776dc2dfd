//! Checks that no test of the project passes because something is missing: a test that calls a
//! client has a twin, and no other test returns early if a variable is not set.

use std::fs;
use std::path::{Path, PathBuf};

/// A `#[test]` function.
struct Test<'a> {
    name: &'a str,
    /// The reason given for `#[ignore]`.
    ignored: Option<&'a str>,
    body: String,
}

/// The tests of a file formatted by `rustfmt`: a function ends at the indentation at which it
/// began.
fn tests(text: &str) -> Vec<Test<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for start in (0..lines.len()).filter(|i| lines[*i].trim() == "#[test]") {
        let Some(head) = (start..lines.len()).find(|i| lines[*i].trim_start().starts_with("fn ")) else { continue };
        let line = lines[head].trim_start();
        let indent = lines[head].len() - line.len();
        let end = |i: &usize| lines[*i].trim_end().len() == indent + 1 && lines[*i].trim() == "}";
        let end = (head..lines.len()).find(end).unwrap_or(head);
        let ignored = lines[start..head].iter().find_map(|l| l.trim().strip_prefix("#[ignore"));
        let name = line[3..].split(['(', '<']).next().unwrap_or_default();
        found.push(Test { name, ignored, body: lines[head..=end].join("\n") });
    }
    found
}

/// The faults of a file's tests.
fn faults(text: &str) -> Vec<String> {
    let all = tests(text);
    let mut faults = Vec::new();
    for test in &all {
        let Test { name, ignored, body } = test;
        // Started by another test, which sets its task.
        if ignored.is_some_and(|reason| reason.contains("what the tests")) {
            continue;
        }
        if let Some(call) = body.find("clients::find").map(|at| &body[at..]) {
            if !name.starts_with("live_") {
                faults.push(format!("{name}: asks a client, so its name begins with live_"));
            }
            let call = call.split(')').next().unwrap_or_default();
            let twin = call.rsplit('"').nth(1).unwrap_or_default();
            match all.iter().find(|other| other.name == twin) {
                None => faults.push(format!("{name}: its twin, {twin:?}, is not a test of this file")),
                Some(other) if other.body.contains("clients::find") => {
                    faults.push(format!("{name}: its twin, {twin}, asks a client itself"));
                }
                Some(other) if other.ignored.is_some() && ignored.is_none() => {
                    faults.push(format!("{name}: its twin, {twin}, is ignored"));
                }
                Some(_) => {}
            }
            continue;
        }
        let returns = ["return;", "else { return }", "return eprintln!", "return println!"];
        let gives_up = returns.iter().any(|word| body.contains(word));
        if gives_up && ["env::var", "eprintln!", "println!"].iter().any(|word| body.contains(word)) {
            faults.push(format!("{name}: returns early where something is absent, and passes"));
        }
    }
    let asks = text.contains("env::var") && text.contains(&["HEARTH", "PYTHON"].join("_"));
    if asks {
        faults.push("asks for the Python by itself; tests/clients.rs does".to_owned());
    }
    faults
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            // Build outputs and third-party code.
            if !["target", "third_party", ".git"].iter().any(|skipped| name == *skipped) {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_test_passes_because_something_is_absent() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let (mut asking, mut wrong) = (0, Vec::new());
    for path in files.iter().filter(|path| !path.ends_with("tests/clients.rs") && !path.ends_with("tests/skips.rs")) {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        asking += tests(&text).iter().filter(|test| test.body.contains("clients::find")).count();
        wrong.extend(faults(&text).into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asking >= 8, "only {asking} tests that ask a client were found");
}

#[test]
fn silent_passes_are_found() {
    let twin = "#[test]\nfn recorded() {\n    assert!(true);\n}\n";
    let asks = "#[test]\nfn live_it() {\n    let Some(python) = clients::find(&[\"monai\"], \"recorded\") else { return };\n}\n";
    let silent = "#[test]\nfn quiet() {\n    let Some(x) = std::env::var_os(\"X\") else { return };\n}\n";
    let said = "#[test]\nfn said() {\n    if absent() {\n        eprintln!(\"no\");\n        return;\n    }\n}\n";
    let one = |text: &str| {
        let faults = faults(text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    assert!(faults(&format!("{asks}{twin}")).is_empty());
    assert!(one(asks).contains("is not a test"));
    assert!(one(&format!("{asks}{}", twin.replace("#[test]", "#[test]\n#[ignore]"))).contains("is ignored"));
    assert!(one(&asks.replace("recorded", "live_it")).contains("asks a client itself"));
    assert!(one(&format!("{}{twin}", asks.replace("live_it", "asks"))).contains("begins with live_"));
    assert!(one(silent).contains("quiet: returns early"));
    assert!(one(said).contains("said: returns early"));
    assert!(faults(&silent.replace("#[test]", "#[test]\n#[ignore = \"what the tests above start\"]")).is_empty());
}
