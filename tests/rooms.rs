//! What holds in every crate: it uses the crates that `docs/crates.md` gives it, it has no `unsafe` code
//! unless it needs some, and each lint that is allowed has a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of third-party crates, or of crates with separate rules.
const ELSEWHERE: [&str; 3] = ["target", "third_party", ".git"];

/// A crate of the workspace.
struct Room {
    /// The folder, from the root.
    folder: String,
    name: String,
    /// The crates of the workspace that it depends on, except for tests.
    uses: BTreeSet<String>,
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    folders: Vec<String>,
    crates: Vec<String>,
    may_use: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(folder: &str) -> toml::Table {
    read(&root().join(folder).join("Cargo.toml")).parse().unwrap_or_else(|error| panic!("{folder}: {error}"))
}

/// The dependencies of a manifest, including optional ones and those of single systems.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let systems = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let tables = std::iter::once(manifest).chain(systems.filter_map(toml::Value::as_table));
    let listed = tables.filter_map(|table| table.get("dependencies")?.as_table());
    listed.flat_map(toml::Table::keys).cloned().collect()
}

fn rooms() -> Vec<Room> {
    let workspace = manifest("");
    let members = workspace["workspace"]["members"].as_array().expect("a list");
    let mut rooms: Vec<Room> = members
        .iter()
        .map(|folder| {
            let folder = folder.as_str().expect("a folder").to_owned();
            let manifest = manifest(&folder);
            let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
            Room { folder, name, uses: dependencies(&manifest) }
        })
        .collect();
    let names: BTreeSet<String> = rooms.iter().map(|room| room.name.clone()).collect();
    rooms.iter_mut().for_each(|room| room.uses.retain(|name| names.contains(name)));
    rooms
}

/// The names between backticks in a cell.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Expands `plugins/{a,b}/` to two folders.
fn folders(cell: &str) -> Vec<String> {
    let plain = |folder: &str| match folder.trim_end_matches('/') {
        // The facade's crate is the folder above its sources.
        "engine/src" => "engine".to_owned(),
        folder => folder.to_owned(),
    };
    let of = |folder: String| match folder.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)))
    {
        Some((head, (inside, tail))) => inside.split(',').map(|part| plain(&format!("{head}{part}{tail}"))).collect(),
        None => vec![plain(&folder)],
    };
    quoted(cell).into_iter().flat_map(of).collect()
}

/// Parses the table with the head `folder | crate | content | may use`.
fn table(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| folder | crate | content | may use |"));
    lines.next().ok_or("there is no table of folder, crate, content and may use")?;
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, crates, _, may_use] = cells[..] else { return Err(format!("not four cells: {line}")) };
        let listed = quoted(may_use);
        let rest: Vec<&str> = may_use.split('`').step_by(2).map(str::trim).filter(|text| !text.is_empty()).collect();
        let is_list = if listed.is_empty() { may_use == "none" } else { rest.iter().all(|text| *text == ",") };
        match is_list {
            true => Ok(Row { folders: folders(folder), crates: quoted(crates), may_use: listed.into_iter().collect() }),
            false => Err(format!("{folder}: may use {may_use:?}; expected `none`, or names of crates in backticks")),
        }
    })
    .collect()
}

/// The differences between the table and the manifests, a line each.
fn differences(rows: &[Row], rooms: &[Room]) -> Vec<String> {
    let by_folder: BTreeMap<&str, &Room> = rooms.iter().map(|room| (room.folder.as_str(), room)).collect();
    let mut found = Vec::new();
    let named = |names: &[&String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    for row in rows {
        let here: Vec<&Room> =
            row.folders.iter().filter_map(|folder| by_folder.get(folder.as_str()).copied()).collect();
        let place = row.folders.join(", ");
        let crates: BTreeSet<&String> = here.iter().map(|room| &room.name).collect();
        if crates != row.crates.iter().collect() {
            let there =
                if crates.is_empty() { "none".to_owned() } else { named(&crates.into_iter().collect::<Vec<_>>()) };
            let named_in_table = if row.crates.is_empty() { "none".to_owned() } else { row.crates.join(", ") };
            found.push(format!("{place}: the table names the crates {named_in_table}, the manifests {there}"));
            continue;
        }
        for room in &here {
            let more: Vec<&String> = room.uses.difference(&row.may_use).collect();
            if !more.is_empty() {
                found.push(format!("{place}: `{}` uses {}, which the table does not allow", room.name, named(&more)));
            }
        }
        let all: BTreeSet<String> = here.iter().flat_map(|room| room.uses.iter().cloned()).collect();
        let unused: Vec<&String> = row.may_use.difference(&all).collect();
        if !unused.is_empty() {
            found.push(format!("{place}: the table allows {}, which is not used", named(&unused)));
        }
    }
    for room in rooms {
        let count = rows.iter().filter(|row| row.folders.contains(&room.folder)).count();
        if count != 1 {
            found.push(format!("{}: `{}` has {count} rows in the table; expected one", room.folder, room.name));
        }
    }
    found
}

#[test]
fn crates_use_what_the_table_allows() {
    let rows = table(&read(&root().join("docs/crates.md"))).unwrap_or_else(|error| panic!("docs/crates.md: {error}"));
    let found = differences(&rows, &rooms());
    assert!(found.is_empty(), "docs/crates.md:\n{}", found.join("\n"));
}

#[test]
fn differences_are_reported_in_both_directions() {
    let text = "| folder | crate | content | may use |\n|---|---|---|---|\n\
        | `a/` | `a` | x | `b`, `c` |\n| `p/{b,c}/` | `b`, `c` | x | none |\n| `d/` | no crate | x | none |\n";
    let room = |folder: &str, name: &str, uses: &[&str]| Room {
        folder: folder.to_owned(),
        name: name.to_owned(),
        uses: uses.iter().map(|name| (*name).to_owned()).collect(),
    };
    let rows = table(text).expect("a table");
    let rooms = [room("a", "a", &["b", "c"]), room("p/b", "b", &[]), room("p/c", "c", &[])];
    assert_eq!(differences(&rows, &rooms), [] as [&str; 0]);
    let rooms = [room("a", "a", &["b"]), room("p/b", "b", &["a"]), room("p/c", "c", &[]), room("e", "e", &[])];
    assert_eq!(
        differences(&rows, &rooms),
        [
            "a: the table allows `c`, which is not used",
            "p/b, p/c: `b` uses `a`, which the table does not allow",
            "e: `e` has 0 rows in the table; expected one",
        ]
    );
    for wrong in ["nothing of ours", "`b` and `c`", ""] {
        assert!(table(&text.replace("`b`, `c` |\n| `p", &format!("{wrong} |\n| `p"))).is_err(), "{wrong:?}");
    }
}

/// The Rust files below a folder, without those of crates within it.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if !ELSEWHERE.iter().any(|skipped| name == *skipped) {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The folder of a crate's roots: `src`, or the folder in its manifest.
fn sources(folder: &str) -> PathBuf {
    let manifest = manifest(folder);
    let root_file = manifest.get("lib").and_then(|lib| lib.get("path")?.as_str()).unwrap_or("src/lib.rs");
    root().join(folder).join(root_file).parent().expect("a folder").to_owned()
}

/// Code without comments and without the content of strings, for searching words.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.lines() {
        let mut before = ' ';
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if before != '\\' => inside = !inside,
                '/' if !inside && chars.peek() == Some(&'/') => break,
                c if !inside => out.push(c),
                _ => {}
            }
            before = if c == '\\' && before == '\\' { ' ' } else { c };
        }
        // A string continues over the end of a line if that is escaped.
        inside &= before == '\\';
        out.push('\n');
    }
    out
}

/// Whether code contains this word.
fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|other| other == word)
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    let mut wrong = Vec::new();
    for room in rooms() {
        // Its reader of LMDB maps a file into memory.
        if room.folder.starts_with("engine/data") {
            continue;
        }
        let sources = sources(&room.folder);
        if !sources.is_dir() {
            continue;
        }
        let mut files = Vec::new();
        rust_files(&sources, &mut files);
        // The demos of apps are modules of their program.
        let folders = fs::read_dir(root().join(&room.folder)).expect("a folder");
        let demos = folders.map(|entry| entry.expect("an entry").path().join("demo.rs"));
        files.extend(demos.filter(|file| file.is_file()));
        let needs = files.iter().any(|file| has_word(&code(&read(file)), "unsafe"));
        let roots = ["lib.rs", "main.rs"].map(|name| sources.join(name));
        for file in roots.iter().filter(|file| file.is_file()) {
            let forbids = read(file).lines().any(|line| line == "#![forbid(unsafe_code)]");
            match (needs, forbids) {
                (false, false) => wrong.push(format!("{}: add #![forbid(unsafe_code)]", file.display())),
                (true, true) => wrong.push(format!("{}: forbids the unsafe code that it has", file.display())),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The attributes that allow lints, in full: from the word to the closing bracket.
fn allowed(text: &str) -> Vec<&str> {
    let starts = text.match_indices("[allow(").chain(text.match_indices("[expect(")).map(|(at, _)| at);
    starts
        .filter(|at| text[..*at].ends_with(['#', '!']))
        .map(|at| &text[at..at + text[at..].find(")]").map_or(text.len() - at, |end| end + 2)])
        .collect()
}

#[test]
fn lints_are_allowed_for_a_reason() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    let data = root().join("engine/data");
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !file.starts_with(&data)) {
        let text = read(file);
        // This file has the words of the attribute in its code.
        if file.ends_with("tests/rooms.rs") {
            continue;
        }
        let without = allowed(&text).into_iter().filter(|attribute| !attribute.contains("reason = \""));
        wrong.extend(without.map(|attribute| format!("{}: {attribute} has no reason", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn attributes_and_words_are_found() {
    let text = "#[allow(dead_code)]\n#![allow(\n    a,\n    reason = \"b\"\n)]\n// [allow(c)]\n";
    assert_eq!(allowed(text).len(), 2);
    assert!(has_word(&code("let a = unsafe { b };"), "unsafe"));
    for without in ["// unsafe", "\"unsafe\"", "unsafe_code", "let a = \"\\\"unsafe\";"] {
        assert!(!has_word(&code(without), "unsafe"), "{without}");
    }
}
