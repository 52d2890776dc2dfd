//! `hearth plan` for one data set in each layout that training reads: the same plans, and recipes that
//! train on the data set unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cascade::{raw, train};
use crate::common::{fail, succeed, text};

/// The name of the data set in each layout.
const NAME: &str = "Dataset001_Balls";

/// The number of its cases.
const CASES: usize = 6;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn image(case: usize) -> String {
    format!("{NAME}/imagesTr/ball_{case}_0000.nii.gz")
}

fn label(case: usize) -> String {
    format!("{NAME}/labelsTr/ball_{case}.nii.gz")
}

/// The same files in other layouts: name, path, and the options for what the files do not specify.
fn copies(dir: &Path) -> Vec<(&'static str, PathBuf, Vec<&'static str>)> {
    let write = |path: &str, text: String| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    };
    let pairs = || (0..CASES).map(|case| (image(case), label(case)));
    let listed = |before: &str| -> Vec<Value> {
        pairs()
            .map(|(image, label)| json!({"image": format!("{before}{image}"), "label": format!("{before}{label}")}))
            .collect()
    };
    let labels = json!({"0": "background", "1": "ball"});
    let decathlon =
        json!({"name": NAME, "modality": {"0": "MRI"}, "labels": labels, "numTraining": CASES, "training": listed("")});
    write("msd/dataset.json", decathlon.to_string());
    // A Decathlon list cannot name files outside of its folder.
    for path in pairs().flat_map(|(image, label)| [image, label]) {
        let to = dir.join("msd").join(&path);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::copy(dir.join(&path), to).expect("copied");
    }
    let list = write(&format!("{NAME}.json"), json!({"labels": labels, "training": listed("")}).to_string());
    let rows: Vec<String> = pairs().map(|(image, label)| format!("{image},{label}")).collect();
    let table = write(&format!("{NAME}.csv"), format!("mri,ball\n{}\n", rows.join("\n")));
    write("bids/dataset_description.json", json!({"Name": NAME, "BIDSVersion": "1.8.0"}).to_string());
    for (case, (image, label)) in pairs().enumerate() {
        let anat = dir.join(format!("bids/sub-{case}/anat"));
        fs::create_dir_all(&anat).expect("made");
        fs::copy(dir.join(image), anat.join(format!("sub-{case}_T1w.nii.gz"))).expect("copied");
        fs::copy(dir.join(label), anat.join(format!("sub-{case}_dseg.nii.gz"))).expect("copied");
    }
    vec![
        ("Decathlon", dir.join("msd"), vec![]),
        ("JsonList", list, vec!["--channels", "MRI"]),
        ("Csv", table, vec!["--images", "mri", "--label", "ball", "--labels", "ball"]),
        ("Bids", dir.join("bids"), vec!["--labels", "ball"]),
    ]
}

#[test]
fn the_plans_of_a_data_set_are_those_of_its_files_and_not_of_its_layout() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let whole = at(NAME);
    raw(&whole);
    let plan = |data: &Path, out: &str, more: &[&str]| {
        let (data, out) = (text(data), text(&at(out)));
        succeed(&[&["plan", &data, "-o", &out, "--memory", "0.003"], more].concat());
    };
    plan(&whole, "plans-raw", &[]);
    // Memory for a patch of a voxel: nnU-Net's rules plan networks that do not exist.
    let (data, tiny) = (text(&whole), text(&at("plans-tiny")));
    let said = fail(&["plan", &data, "-o", &tiny, "--memory", "0.000001"], 1, &["no configuration can be a recipe"]);
    assert!(said.contains("3d_fullres: no recipe is written: ") && said.contains("n_stages"), "{said}");
    for (layout, data, more) in copies(dir.path()) {
        let out = format!("plans-{layout}");
        plan(&data, &out, &more);
        for file in ["nnUNetPlans.json", "dataset_fingerprint.json"] {
            assert_eq!(read(&at("plans-raw").join(file)), read(&at(&out).join(file)), "{layout}: {file}");
        }
        let recipe = at(&out).join("3d_fullres.toml");
        let table: toml::Table = toml::from_str(&fs::read_to_string(&recipe).expect("a recipe")).expect("TOML");
        let named = &table["data"]["layout"];
        let name = named.as_str().or_else(|| named.get("name")?.as_str());
        assert_eq!(name, Some(layout), "{table}");
        let raw = fs::read_to_string(at("plans-raw/3d_fullres.toml")).expect("a recipe");
        let raw: toml::Table = toml::from_str(&raw).expect("TOML");
        for key in ["labels", "transforms", "network", "loss"] {
            assert_eq!(raw[key], table[key], "{layout}: {key}");
        }
        // Training reads the data set unchanged.
        succeed(&train(&recipe, &text(&data), &text(&at(&format!("run-{layout}"))), &["--folds", "2", "--fold", "0"]));
    }
}

/// Regions of structure sets become a label map; a pattern matches those of several names.
#[test]
fn structure_sets_are_planned_and_trained() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&dir.path().join(name));
    let data = at("chests");
    succeed(&["data", "phantom", "lung", "--cases", "5", "--size", "32", "--out", &data]);
    let call = ["plan", &data, "-o", &at("plans"), "--memory", "0.003", "--labels", "GTV*"];
    succeed(&[&call[..], &["--layout", "{ name = \"Dicom\", prefer = \"RTSTRUCT\" }"]].concat());
    let recipe = dir.path().join("plans/3d_fullres.toml");
    let written = fs::read_to_string(&recipe).expect("a recipe");
    for part in ["segments = [\"GTV*\"]", "reference_key = \"image\"", "CTNormalization", "RTSTRUCT"] {
        assert!(written.contains(part), "{part} is not in {written}");
    }
    succeed(&train(&recipe, &data, &at("run"), &["--folds", "2", "--fold", "0"]));
}

#[test]
fn what_a_data_set_does_not_say_is_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    raw(&at(NAME));
    copies(dir.path());
    let out = text(&at("plans"));
    let refused = |data: &Path, more: &[&str], words: &[&str]| {
        fail(&[&["plan", &text(data), "-o", &out], more].concat(), 1, words);
        assert!(!at("plans").join("nnUNetPlans.json").exists());
    };
    let (list, table) = (at(&format!("{NAME}.json")), at(&format!("{NAME}.csv")));
    refused(&list, &[], &["does not name the channels", "--channels CT"]);
    refused(&list, &["--channels", "T1", "T2"], &["case ball_0", "1 channels", "T1, T2"]);
    refused(&table, &["--images", "mri"], &["unknown column \"label\""]);
    refused(&at("bids"), &["--labels", "ball", "rest", "--layout", "Bidz"], &["--layout", "Bids"]);
    refused(&at(NAME), &["--channels", "CT"], &["--channels", "dataset.json", "remove it"]);
    refused(&at("nowhere"), &[], &["no such file or folder"]);
    fs::create_dir(at("pictures")).expect("made");
    fs::write(at("pictures/a.png"), "").expect("written");
    refused(&at("pictures"), &[], &["Pictures", "no label map"]);
    // A label without a name.
    let unnamed = fs::read_to_string(&list).expect("a list").replace(",\"1\":\"ball\"", ",\"2\":\"ball\"");
    fs::write(&list, unnamed).expect("written");
    refused(&list, &["--channels", "MRI"], &["case ball_0", "label 1", "2 ball"]);
}
