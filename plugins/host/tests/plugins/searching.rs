//! The places where plugins are found, and the errors when they are not.

use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

use hearth_plugin::identity::{Identity, MAGIC};
use hearth_plugin_host::{Entry, Found, Info, Origin, PluginError, Search, check_linked, inspect, load};

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
        assert_eq!(search.find(name).expect("it is beside this program").file(), Some(&*bundled(name)));
        assert_eq!(search.load(name).expect("it loads").identity().name, name);
    }
    let list = search.list();
    let beside = |entry: &&Entry| entry.path.as_deref().and_then(Path::parent) == Some(&*here());
    assert!(list.entries.iter().filter(beside).count() >= 5, "{list}");
    for entry in &list.entries[list.entries.len() - 5..] {
        assert_eq!((entry.place.origin, &entry.path), (Origin::BuiltIn, &None));
        assert_eq!(entry.hidden_by, entry.name().map(bundled), "a file of the name takes precedence");
    }
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
    assert_eq!(search.find("stats").expect("twice there").file(), Some(&*mine));
    let list = search.list();
    let hidden = list.entries.iter().map(|entry| entry.hidden_by.clone()).collect::<Vec<_>>();
    assert_eq!(hidden, [None, Some(mine.clone())]);
    let text = list.to_string();
    assert!(
        text.contains(&format!("{} (user's plugins)\n    hidden by {}", theirs.display(), mine.display())),
        "{text}"
    );
    assert!(text.contains("not there: missing"), "{text}");
}

#[test]
fn a_given_file_is_found_by_the_name_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("odd_name.bin");
    fs::copy(fixture("good"), &odd).expect("a copy");
    let search = Search::empty().with(Origin::Given, &odd).with(Origin::Beside, here());
    assert_eq!(search.find("good").expect("the given one").file(), Some(&*odd));
    assert_eq!(search.find("stats").expect("the bundled one").file(), Some(&*bundled("stats")));
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
        "no plugin `stat` (did you mean `stats`?); looked in:\n  recipe              /no/such/folder: missing\n  \
         user's plugins      {}: stats",
        folder.path().display()
    );
    assert_eq!(text, expected);
    assert!(Search::empty().find("stats").is_err(), "only a place that is searched has plugins");
}

#[test]
fn the_program_alone_has_the_bundled_and_yields_to_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let built_in = |search: Search| search.with(Origin::BuiltIn, "/opt/hearth");
    let alone = built_in(Search::empty());
    for name in ["checkpoint", "stats", "validation", "nvtx", "ensemble"] {
        assert!(matches!(alone.find(name), Ok(Found::BuiltIn(_))), "{name}");
        let plugin = alone.load(name).expect("it is linked");
        let from_file = load(&bundled(name)).expect("its library");
        assert_eq!((plugin.path(), plugin.identity()), (None, from_file.identity()));
        assert_eq!(plugin.options(), from_file.options());
        let Ok(Found::BuiltIn(linked)) = alone.find(name) else { panic!("{name}") };
        assert!(check_linked(linked).ok, "{}", check_linked(linked));
    }
    let info = Info::of(&alone.load("stats").expect("it is linked")).to_string();
    assert!(info.contains("\n  file      none: it is built into this program\n"), "{info}");
    let list = alone.list();
    assert_eq!(list.entries.len(), 5, "{list}");
    assert!(list.to_string().contains("\n    /opt/hearth (built in)\n"), "{list}");
    assert!(list.to_string().ends_with("/opt/hearth: checkpoint, ensemble, nvtx, stats, validation"), "{list}");
    assert!(matches!(alone.find("stat"), Err(PluginError::NotFound { .. })));

    let file = copy(&bundled("stats"), folder.path());
    let search = built_in(Search::empty().with(Origin::User, folder.path()));
    assert_eq!(search.find("stats").expect("the file").file(), Some(&*file));
    let hidden = search.list().entries.into_iter().filter_map(|entry| entry.hidden_by).collect::<Vec<_>>();
    assert_eq!(hidden, std::slice::from_ref(&file));
    fs::write(&file, b"\x7fELF").expect("it can be cut");
    let text = search.find("stats").expect_err("a damaged file is not passed by").to_string();
    assert!(text.contains("truncated"), "{text}");
}

#[test]
fn what_the_variable_names_in_vain_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (empty, note) = (folder.path().join("empty"), folder.path().join("note.txt"));
    fs::create_dir(&empty).expect("a folder");
    fs::write(&note, "a note").expect("a file");
    copy(&fixture("no_symbols"), &folder.path().join("none"));
    copy(&fixture("no_symbols"), &folder.path().join("mixed"));
    copy(&bundled("stats"), &folder.path().join("mixed"));
    let idle = |path: PathBuf| Search::empty().with(Origin::Environment, path).idle();
    let cases = [
        ("gone", "it does not exist"),
        ("empty", "it holds no file called"),
        ("note.txt", "a text, which starts with \"a note\""),
    ];
    for (name, why) in cases.into_iter().chain([("none", "not a Hearth plugin")]) {
        let path = folder.path().join(name);
        let told = idle(path.clone());
        let [line] = &told[..] else { panic!("{name}: {told:?}") };
        assert!(line.starts_with(&format!("HEARTH_PLUGIN_PATH names {}, ", path.display())), "{line}");
        assert!(line.contains(why), "{line}");
    }
    assert_eq!(idle(folder.path().join("mixed")), [""; 0]);
    assert_eq!(idle(bundled("stats")), [""; 0]);
    assert_eq!(Search::empty().with(Origin::User, "/no/such/folder").idle(), [""; 0], "only what was named by hand");
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

#[test]
fn names_of_others_cannot_act_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = std::fs::read(fixture("good")).expect("the fixture can be read");
    let at = bytes.windows(16).position(|window| window == MAGIC).expect("an identity");
    let changed =
        [(offset_of!(Identity, name), &b"\x1b[2Jgood\0"[..]), (offset_of!(Identity, description), b"a\rb\nc\0")];
    for (field, text) in changed {
        bytes[at + field..][..text.len()].copy_from_slice(text);
    }
    let file = folder.path().join("lib\u{1b}]0;good.so");
    std::fs::write(&file, bytes).expect("a file");
    let identity = inspect(&file).expect("a plugin");
    assert_eq!((identity.name.as_str(), identity.description.as_str()), (r"\u{1b}[2Jgood", r"a\rb\nc"));
    let search = Search::empty().with(Origin::Recipe, &file);
    let texts = [
        search.list().to_string(),
        Info::of_file(&file).expect("a plugin").to_string(),
        search.load(&identity.name).expect_err("not allowed").to_string(),
        search.find("\u{1b}[31mred").expect_err("no such plugin").to_string(),
        load(&folder.path().join("no\u{1b}.so")).expect_err("no such file").to_string(),
    ];
    for text in texts {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains(r"\u{1b}"), "{text}");
    }
}

#[test]
fn a_library_that_only_a_recipe_names_is_not_loaded() {
    let search = |origin| Search::empty().with(origin, fixture("crashes"));
    let text = search(Origin::Recipe).load("crashes").expect_err("loading it would end this process").to_string();
    for part in ["plugin `crashes` is not loaded: only the recipe names ", "--allow-plugin ", "hearth plugin install "]
    {
        assert!(text.contains(part), "{text}");
    }
    // A copy of a bundled plugin's file elsewhere is not that plugin.
    let folder = tempfile::tempdir().expect("a folder");
    let copied = copy(&bundled("stats"), folder.path());
    assert!(matches!(Search::empty().with(Origin::Recipe, copied).load("stats"), Err(PluginError::NotAllowed { .. })));
    assert!(Search::empty().with(Origin::Recipe, bundled("stats")).load("stats").is_ok(), "it is next to the program");
    let found = search(Origin::Recipe).find("crashes").expect("finding it loads nothing");
    assert_eq!(found.identity().expect("from the file").name, "crashes");
}
