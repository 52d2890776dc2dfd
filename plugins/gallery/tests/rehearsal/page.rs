//! The page of the gallery has each template, with its lines and its options.

use std::fs;
use std::path::Path;

use hearth_plugin_host::{SdkSource, Template, scaffold};

use crate::loaded::{COMPONENTS, PLUGINS, plugin};

/// The cells of each row of the table of templates.
fn rows() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins/gallery.md");
    let page = fs::read_to_string(path).expect("the page");
    let table = page.lines().skip_while(|line| !line.starts_with("| template | lines |")).skip(2);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The lines of a template's source.
fn lines(template: Template) -> usize {
    let folder = std::env::temp_dir().join(format!("gallery-{template}-{}", std::process::id()));
    let files = scaffold(&folder, "copied", template, &SdkSource::Version("0.1.0".into())).expect("a project");
    let source = |file: &&std::path::PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ["lib.rs", "copied.c", "copied.cpp", "copied.py"].contains(&name)
    };
    let source = files.iter().find(source).unwrap_or_else(|| panic!("{template}: no source in {files:?}"));
    let count = fs::read_to_string(source).expect("a source").lines().count();
    fs::remove_dir_all(folder).expect("removed");
    count
}

#[test]
fn each_template_has_a_row_with_its_lines() {
    let rows = rows();
    for template in Template::ALL {
        let row = rows.iter().find(|row| row[0] == format!("`{template}`"));
        let row = row.unwrap_or_else(|| panic!("docs/plugins/gallery.md has no row of `{template}`"));
        let count = lines(template);
        assert!(count <= 80, "{template} has {count} lines");
        assert_eq!(row[1], count.to_string(), "docs/plugins/gallery.md: the lines of `{template}`");
        assert_eq!(row.len(), 5, "{template}");
    }
    assert_eq!(rows.len(), Template::ALL.len());
}

#[test]
fn the_rows_of_this_crate_have_its_options() {
    let handlers = PLUGINS.map(|(name, linked, ..)| (name, plugin(linked).options().to_vec()));
    let components = COMPONENTS.map(|(name, linked, ..)| (name, plugin(linked).components()[0].options.clone()));
    let rows = rows();
    for (name, options) in handlers.into_iter().chain(components) {
        let row = rows.iter().find(|row| row[0] == format!("`{name}`")).unwrap_or_else(|| panic!("no row of {name}"));
        let listed: Vec<String> = options.iter().map(|option| format!("`{}`", option.name)).collect();
        let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
        assert_eq!(row[3], listed, "docs/plugins/gallery.md: the options of `{name}`");
    }
}
