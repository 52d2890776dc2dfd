//! Names that would be commands elsewhere: to a terminal, or to a spreadsheet.

use crate::common::{fail, phantom, plugins_are_built, succeed, text, tiny_recipe};

#[test]
fn control_characters_of_names_are_shown_as_text() {
    let dir = tempfile::tempdir().expect("a folder");
    let name = text(&dir.path().join("a\x1b]0;owned\x07\x1b[2Jb.nii.gz"));
    for words in [&["data", "inspect", &name][..], &["predict", &name, "-i", "x.nii", "-o", "out"]] {
        let said = fail(words, 1, &["a\\x1b]0;owned\\x07\\x1b[2Jb.nii.gz"]);
        assert!(!said.contains('\x1b') && !said.contains('\x07'), "{said:?}");
    }
}

#[test]
fn a_case_that_is_a_formula_is_text_in_the_table() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data, run) = (tiny_recipe(dir.path()), phantom(dir.path(), 3), dir.path().join("run"));
    let (recipe, data_text, run) = (text(&recipe), text(&data), text(&run));
    // The last case, on which the run validates, has the name of a formula.
    let list = std::fs::read_to_string(data.join("dataset.json")).expect("the list");
    let last = {
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let training = list["training"].as_array().expect("a list");
        let image = training.last().expect("a case")["image"].as_str().expect("a path").to_owned();
        image.rsplit('/').next().expect("a name").to_owned()
    };
    for folder in ["imagesTr", "labelsTr"] {
        std::fs::rename(data.join(folder).join(&last), data.join(folder).join("=1+1.nii.gz")).expect("renamed");
    }
    std::fs::write(data.join("dataset.json"), list.replace(&last, "=1+1.nii.gz")).expect("written");
    succeed(&["train", &recipe, "--data", &data_text, "--out", &run, "--epochs", "1", "--device", "cpu"]);
    let out = text(&dir.path().join("measured"));
    succeed(&["evaluate", &run, "--data", &data_text, "--device", "cpu", "-o", &out]);
    let table = std::fs::read_to_string(dir.path().join("measured/report.csv")).expect("a table");
    assert!(table.contains("'=1+1"), "{table}");
    let cells = table.lines().flat_map(|line| line.split(','));
    let formulas: Vec<&str> = cells.filter(|cell| cell.trim_matches('"').starts_with(['=', '+', '@'])).collect();
    assert!(formulas.is_empty(), "{formulas:?}");
}
