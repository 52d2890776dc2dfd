//! The guide to fast training: its commands are of this program, and each of its figures is in the
//! record that it names.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn guide() -> String {
    fs::read_to_string(docs().join("guide/index.md")).expect("the guide")
}

/// A command line of a page; those within its sentences may lack arguments.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    words: &'a str,
    whole: bool,
}

/// The command lines of the blocks of a page, and those within its sentences.
fn commands(page: &str) -> Vec<Line<'_>> {
    let (mut found, mut in_block) = (Vec::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.push(Line { words: line, whole: true });
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|words| Line { words, whole: false }));
        }
    }
    found.retain(|line| line.words.starts_with("hearth "));
    found
}

/// The rows of tables of figures: cells without the outer bars.
fn figures(page: &str) -> Vec<Vec<String>> {
    let (mut rows, mut within) = (Vec::new(), false);
    for line in page.lines() {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        match line.starts_with('|') {
            false => within = false,
            true if cells[1] == "figure" => within = true,
            true if within && !cells[1].starts_with("---") => rows.push(cells[1..cells.len() - 1].to_vec()),
            true => {}
        }
    }
    rows
}

/// The numbers of a cell, such as `1,153` and `+0.6`.
fn numbers(cell: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let parts = cell.split(|c: char| !is_part(c)).map(|part| part.trim_matches([',', '.']));
    parts.filter(|part| part.chars().any(|c| c.is_ascii_digit())).collect()
}

/// Whether a text has this number, not only as a part of another one.
fn has(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + number.len()..].chars();
        let (next, second) = (after.next(), after.next());
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let point = |c: Option<char>| matches!(c, Some('.' | ','));
        !(digit(before) || point(before) || digit(next) || point(next) && digit(second))
    })
}

#[test]
fn every_command_of_the_guide_is_one_of_the_program() {
    let page = guide();
    let commands = commands(&page);
    assert!(commands.len() > 20, "{commands:?}");
    for line in commands {
        if let Err(error) = hearth_apps::cli::command().try_get_matches_from(line.words.split_whitespace()) {
            let part = !line.whole && error.kind() == ErrorKind::MissingRequiredArgument;
            assert!(part, "{}: {error}", line.words);
        }
    }
}

#[test]
fn every_figure_of_the_guide_is_in_the_record_that_it_names() {
    let rows = figures(&guide());
    assert!(rows.len() > 30, "{rows:?}");
    let mut wrong = Vec::new();
    for row in rows {
        let link = row.last().and_then(|cell| cell.split_once("](")).and_then(|(_, rest)| rest.strip_suffix(')'));
        let path = link.filter(|link| link.starts_with("../benches/runs/")).map(|link| docs().join("guide").join(link));
        let Some(text) = path.and_then(|path| fs::read_to_string(path).ok()) else {
            wrong.push(format!("no record of docs/benches/runs: {row:?}"));
            continue;
        };
        let missing = row[1..row.len() - 1].iter().flat_map(|cell| numbers(cell)).filter(|number| !has(&text, number));
        wrong.extend(missing.map(|number| format!("{number} is not in the record of {row:?}")));
        // A claim without a figure is no row.
        if row[1..row.len() - 1].iter().all(|cell| numbers(cell).is_empty()) {
            wrong.push(format!("no figure: {row:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every page of this repository that the guide links to exists, and so does each of its pictures.
#[test]
fn links_of_the_guide_lead_to_files() {
    let page = guide();
    let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
        let file = link.split('#').next().unwrap_or_default();
        assert!(docs().join("guide").join(file).is_file(), "{link}");
    }
}

#[test]
fn figures_and_commands_are_found() {
    let page =
        "Say `hearth x`, not `y`.\n```sh\nhearth a b\nls\n```\n| figure | raw |\n|---|---|\n| a | 1 |\n\n| other |\n";
    assert_eq!(commands(page), [Line { words: "hearth x", whole: false }, Line { words: "hearth a b", whole: true }]);
    assert_eq!(figures(page), [["a", "1"]]);
    assert_eq!(numbers("3.68 / 3.99 s, +0.6 % of 1,153."), ["3.68", "3.99", "0.6", "1,153"]);
    assert!(has("took 1,153 ms.", "1,153") && has("5.6.", "5.6"));
    assert!(!has("1,1530", "1,153") && !has("15.6", "5.6") && !has("5.61", "5.6") && !has("3,5.6", "5.6"));
}
