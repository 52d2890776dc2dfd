//! Prose follows `docs/style.md`: words and phrases that readers stumble on are in no comment,
//! message or page.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases, and what to write instead.
const PHRASES: [(&str, &str); 26] = [
    ("told", "reported, printed"),
    ("tells of", "reports"),
    ("tell of", "report"),
    ("said of", "reported about"),
    ("goes on", "continues, resumes"),
    ("go on", "continue, resume"),
    ("going on", "continuing, resuming"),
    ("gone on with", "resumed"),
    ("passed over", "skipped"),
    ("looked at by", "used by"),
    ("so many", "the number of"),
    ("so often", "a rate"),
    ("nobody", "no one, no handler, no thread"),
    ("whoever", "the user, the caller"),
    ("anew", "again"),
    ("in vain", "without effect"),
    ("by the same door", "in the same way"),
    ("plays a", "is a, acts as a"),
    ("leads nowhere", "does not exist"),
    ("without a word", "silently"),
    ("what of it", "which part of it"),
    ("is not here;", "is not supported; use"),
    ("beside it", "next to it"),
    ("beside them", "next to them"),
    ("stands for", "is used as"),
    ("is no number", "is not a number"),
];

/// Folders without prose of ours, with generated pages, and with records of runs.
const ELSEWHERE: [&str; 7] = ["target", "third_party", ".git", "golden", "recorded", "runs", "reference"];

/// The page that has the table.
const STYLE: &str = "docs/style.md";

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !ELSEWHERE.contains(&name.as_str()) {
                files(&path, out);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            out.push(path);
        }
    }
}

/// A text without what stands between two marks.
fn without(text: &str, marks: [char; 2]) -> String {
    let (mut out, mut inside) = (String::new(), false);
    for c in text.chars() {
        match inside {
            false if c == marks[0] => inside = true,
            true if c == marks[1] => inside = false,
            true => {}
            false => out.push(c),
        }
    }
    out
}

/// The prose of a line of code: its comment, or its texts of several words, without values that are
/// put in.
fn prose_of_code(line: &str) -> Vec<String> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return vec![without(line, ['`', '`'])];
    }
    let texts = line.split('"').skip(1).step_by(2).filter(|text| text.contains(' '));
    texts.map(|text| without(&without(text, ['{', '}']), ['`', '`'])).collect()
}

/// Whether a text has a phrase between the ends of words.
fn has(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The phrases of a file, a line each.
fn found(name: &str, text: &str) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let parts = if name.ends_with(".rs") {
            prose_of_code(line)
        } else {
            in_code ^= line.trim_start().starts_with("```");
            if in_code { Vec::new() } else { vec![without(line, ['`', '`'])] }
        };
        for part in parts.iter().map(|part| part.to_lowercase()) {
            for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| has(&part, phrase)) {
                found.push(format!("{name}:{}: {phrase:?}; write {better}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn prose_has_none_of_the_words_of_the_style_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 1000, "the sources are not where they were");
    let mut wrong = Vec::new();
    for path in all {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        if name == STYLE || name == "tests/style.rs" {
            continue;
        }
        wrong.extend(found(&name, &fs::read_to_string(&path).unwrap_or_default()));
    }
    assert!(wrong.is_empty(), "{} ({STYLE}):\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn phrases_are_found_in_prose_alone() {
    assert_eq!(found("a.rs", "/// A run goes on.").len(), 1);
    assert_eq!(found("a.rs", "let told = told(\"x\", \"{told} cases\"); // told").len(), 0);
    assert_eq!(found("a.rs", "error(\"nobody listens\")").len(), 1);
    assert_eq!(found("a.rs", "/// Calls `go on`.").len(), 0);
    assert_eq!(found("a.md", "```sh\nso many\n```\nso many words\n").len(), 1);
    assert_eq!(found("a.md", "The goal: ergo only").len(), 0);
}
