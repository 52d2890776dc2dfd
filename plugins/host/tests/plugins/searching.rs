//! Where plugins are found, and the errors when they are not.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_plugin_host::{Origin, PluginError, Search};

use crate::{bundled, fixture, here};

fn copy(from: &Path, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let to = folder.join(from.file_name().expect("a file"));
    fs::copy(from, &to).expect("a copy");
    to
}

#[test]
fn the_bundled_are_beside_the_program() {
    let search = Search::standard(&[], &[]);
    for name in ["checkpoint", "stats", "validation", "nvtx", "ensemble"] {
        assert_eq!(search.find(name).expect("it is beside this program"), bundled(name));
        assert_eq!(search.load(name).expect("it loads").identity().name, name);
    }
    let list = search.list();
    assert!(list.entries.iter().filter(|entry| entry.path.parent() == Some(&*here())).count() >= 5, "{list}");
}

#[test]
fn the_first_place_hides_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let mine = copy(&bundled("stats"), &folder.path().join("mine"));
    let theirs = copy(&bundled("stats"), &folder.path().join("theirs"));
    let search = Search::empty()
        .with(Origin::Environment, folder.path().join("not there"))
        .with(Origin::Recipe, folder.path().join("mine"))
        .with(Origin::User, folder.path().join("theirs"));
    assert_eq!(search.find("stats").expect("twice there"), mine);
    let list = search.list();
    let hidden = list.entries.iter().map(|entry| entry.hidden_by.clone()).collect::<Vec<_>>();
    assert_eq!(hidden, [None, Some(mine.clone())]);
    let text = list.to_string();
    assert!(
        text.contains(&format!("{} (user's plugins)\n    hidden by {}", theirs.display(), mine.display())),
        "{text}"
    );
    assert!(text.contains("not there: not there"), "{text}");
}

#[test]
fn a_given_file_is_found_by_the_name_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("odd_name.bin");
    fs::copy(fixture("good"), &odd).expect("a copy");
    let search = Search::empty().with(Origin::Given, &odd).with(Origin::Beside, here());
    assert_eq!(search.find("good").expect("the given one"), odd);
    assert_eq!(search.find("stats").expect("the bundled one"), bundled("stats"));
    let missing = Search::empty().with(Origin::Given, folder.path().join("gone.so")).with(Origin::Beside, here());
    assert!(matches!(missing.find("stats"), Err(PluginError::File { .. })), "what was given has to be there");
}

#[test]
fn a_name_that_is_not_found_says_where_and_what() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&bundled("stats"), folder.path());
    let search = Search::empty().with(Origin::Recipe, "/no/such/folder").with(Origin::User, folder.path());
    let text = search.find("stat").expect_err("not there").to_string();
    let expected = format!(
        "no plugin `stat` (did you mean `stats`?); looked in:\n  recipe              /no/such/folder: not there\n  \
         user's plugins      {}: stats",
        folder.path().display()
    );
    assert_eq!(text, expected);
    assert!(Search::empty().find("stats").is_err(), "nothing falls back to the copy linked into this program");
}

#[test]
fn a_damaged_library_is_not_passed_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = copy(&bundled("stats"), folder.path());
    fs::write(&damaged, b"\x7fELF").expect("it can be cut");
    copy(&fixture("other_abi"), folder.path());
    copy(&fixture("no_symbols"), folder.path());
    let search = Search::empty().with(Origin::User, folder.path()).with(Origin::Beside, here());
    let text = search.find("stats").expect_err("the first of that name is damaged").to_string();
    assert!(text.contains("truncated"), "{text}");
    assert!(search.find("checkpoint").is_ok(), "another one's fault is not this one's");
    assert!(matches!(search.load("other-abi"), Err(PluginError::Mismatch(_))));
    let list = search.list();
    let problems = list.entries[..3].iter().map(|entry| entry.problem.clone().unwrap_or_default()).collect::<Vec<_>>();
    assert!(problems[0].contains("not a Hearth plugin"), "{problems:?}");
    assert!(problems[1].contains("another binary interface"), "{problems:?}");
    assert!(problems[2].contains("truncated"), "{problems:?}");
    assert!(list.to_string().contains("cannot be loaded: its SDK has another binary interface"), "{list}");
}
