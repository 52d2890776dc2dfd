//! The table "What a handler can do" of `docs/handlers.md`: each row names a test that exists.

use std::path::Path;

#[test]
fn each_row_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/handlers.md")).expect("the page");
    let (_, table) = page.split_once("## What a handler can do").expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect::<Vec<_>>();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let cells = row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
        let [what, here, _, _, test] = cells[..] else { panic!("{row} has {} cells", cells.len()) };
        if here.starts_with("no") {
            continue;
        }
        let (file, name) = test.trim_matches('`').split_once("::").unwrap_or_else(|| panic!("{what}: no test"));
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            source.contains(&format!("#[test]\nfn {name}()")) || source.contains(&format!("\nfn {name}()")),
            "{test}"
        );
    }
}
