//! Counts and lists in the documentation, compared with the actual ones.

use std::path::{Path, PathBuf};

use crate::common::succeed;

/// The kinds of the registry, and their names in prose.
const KINDS: [(&str, &str); 12] = [
    ("transforms", "transform"),
    ("networks", "network"),
    ("losses", "loss"),
    ("metrics", "metric"),
    ("optimizers", "optimizer"),
    ("schedules", "schedule"),
    ("inferers", "inferer"),
    ("handlers", "handler"),
    ("layouts", "layout"),
    ("readers", "reader"),
    ("samplers", "sampler"),
    ("tasks", "task"),
];

/// Smaller numbers are not counts of all entries.
const FEW: usize = 11;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages, without those of measurements, which have a date.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into();
    for folder in ["docs", "docs/guide", "docs/plugins", "docs/cluster"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
        let files = entries.map(|entry| entry.expect("an entry").path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    let apps = std::fs::read_dir(root().join("apps")).expect("a folder");
    pages.extend(apps.map(|entry| entry.expect("an entry").path().join("README.md")).filter(|page| page.is_file()));
    pages.sort();
    pages
}

/// A number in digits, or in words up to ninety-nine.
fn number(word: &str) -> Option<usize> {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let word = word.to_lowercase();
    let small = |word: &str| SMALL.iter().position(|other| *other == word);
    let tens = |word: &str| TENS.iter().position(|other| !word.is_empty() && *other == word).map(|tens| 10 * tens);
    let digits = word.replace(',', "");
    match word.split_once('-') {
        Some((first, second)) => Some(tens(first)? + small(second)?),
        None => digits.parse().ok().or_else(|| small(&word)).or_else(|| tens(&word)),
    }
}

/// Numbers before a word, as in `58 networks`; except on lines with a date, and lower bounds.
fn counted(text: &str, wanted: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before: [&str; 2] = [""; 2];
    for line in text.lines().filter(|line| !dated(line)) {
        for word in line.split_whitespace() {
            let plain = word.trim_matches(|c: char| !c.is_alphanumeric());
            if plain == wanted
                && before[0] != "than"
                && let Some(count) = number(before[1].trim_matches(|c: char| !c.is_alphanumeric()))
            {
                found.push((count, line.to_owned()));
            }
            before = [before[1], word];
        }
    }
    found
}

fn dated(line: &str) -> bool {
    let is_date = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        matches!(parts[..], [year, month, day, ..] if year.len() == 4 && [year, month, &day[..day.len().min(2)]]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())))
    };
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(is_date)
}

#[test]
fn counts_are_those_of_the_registry() {
    // The program's library links every crate that has entries.
    assert!(hearth_apps::recipe::bundled::find("spleen").is_ok());
    let all = hearth_registry::described();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for (plural, word) in KINDS {
            let there = all.iter().filter(|entry| entry.kind == word).count();
            for (count, line) in counted(&text, plural).into_iter().filter(|(count, _)| *count >= FEW) {
                if count != there {
                    wrong.push(format!("{}: {count} {plural}, and there are {there}: {line}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bundled_plugins_are_as_many_as_the_pages_say() {
    let list: serde_json::Value = serde_json::from_str(&succeed(&["plugin", "list", "--json"])).expect("JSON");
    let entries = list["entries"].as_array().expect("a list");
    let built_in = entries.iter().filter(|entry| entry["place"]["origin"] == "built_in").count();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page").to_lowercase();
        for (at, _) in text.match_indices(" bundled plugins") {
            let word = text[..at].rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
            if let Some(count) = number(word) {
                assert_eq!(count, built_in, "{}", page.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no page counts them");
}

/// The page lists the recipes that the program prints.
#[test]
fn the_page_of_recipes_lists_those_that_are_bundled() {
    let page = std::fs::read_to_string(root().join("docs/recipes.md")).expect("a page");
    let listed =
        page.split("$ hearth recipes list\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a list");
    assert_eq!(listed.trim_end(), succeed(&["recipes", "list"]).trim_end());
}

#[test]
fn fuzz_targets_are_all_named() {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("a page");
    let listed = page.split("\nTargets: ").nth(1).and_then(|rest| rest.split(';').next()).expect("a list");
    let mut listed: Vec<String> = listed.split(',').map(|word| word.trim().trim_matches('`').to_owned()).collect();
    let entries = std::fs::read_dir(root().join("tests/fuzz/targets")).expect("a folder");
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut there: Vec<String> = entries.filter_map(|entry| stem(entry.expect("an entry").path())).collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}

#[test]
fn numbers_are_read_in_digits_and_words() {
    for (word, value) in
        [("58", Some(58)), ("1,024", Some(1024)), ("Fourteen", Some(14)), ("twenty-one", Some(21)), ("ours", None)]
    {
        assert_eq!(number(word), value, "{word}");
    }
    let text =
        "All 48 networks\nmore than 300 networks\n| [2026-11-23, night](x) | all 12 networks |\nfifty-eight\nnetworks";
    let found: Vec<usize> = counted(text, "networks").into_iter().map(|(count, _)| count).collect();
    assert_eq!(found, [48, 58]);
}
