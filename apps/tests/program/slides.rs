//! Slides as cases of a job: failures, repeated calls, lines of JSON, and options that are refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{errors, fail, plugins_are_built, run, text};
use crate::pathology::{slides, train};
use serde_json::Value;

/// The lines of JSON of a call by the name of the slide.
fn lines(stdout: &[u8]) -> BTreeMap<String, Value> {
    let read = |line: &str| -> Value { serde_json::from_str(line).expect("a line of JSON") };
    let of_slide = |line: Value| {
        let input = line["input"].as_str().expect("a path").to_owned();
        (Path::new(&input).file_name().expect("a name").to_string_lossy().into_owned(), line)
    };
    String::from_utf8_lossy(stdout).lines().map(|line| of_slide(read(line))).collect()
}

/// The images that `failed.csv` names, with the reasons.
fn failed(maps: &Path) -> String {
    fs::read_to_string(maps.join("failed.csv")).expect("a list of failures")
}

#[test]
fn a_damaged_slide_does_not_stop_the_others() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, out, maps) = (slides(dir.path()), dir.path().join("run"), dir.path().join("maps"));
    train(&data, &out, "training.seed=0");
    fs::remove_file(data.join("tumor_02.tif")).expect("removed");
    let whole = fs::read(data.join("normal_03.tif")).expect("a slide");
    fs::write(data.join("normal_03.tif"), &whole[..whole.len() / 2]).expect("written");
    fs::write(data.join("notes.txt"), "of the scanner").expect("written");
    fs::write(data.join("tumor_00_mask.tif"), "a mask").expect("written");
    let words = ["predict", &text(&out), "--device", "cpu", "-i", &text(&data), "-o", &text(&maps)].map(str::to_owned);
    let words = [&words[..], &["--json".to_owned(), "--records-beside".to_owned()]].concat();
    let first = run(&words);
    let said = errors(&first);
    assert_eq!(first.status.code(), Some(1), "{said}");
    for part in ["slide 1 of 3: ", "1 of 3 slides failed:", "normal_03.tif", "failed.csv lists the slides that failed"]
    {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    // What lies beside the slides is named; annotations belong to their slides.
    let beside = "3 items not used, because not a slide: notes.txt, tumor_00_mask.tif, tumor_02.geojson";
    assert!(said.contains(beside), "{said}");
    let list = failed(&maps);
    assert!(list.starts_with("image,why\n") && list.lines().count() == 2 && list.contains("normal_03.tif,"), "{list}");
    let done = lines(&first.stdout);
    assert_eq!(done.keys().collect::<Vec<_>>(), ["normal_01.tif", "normal_03.tif", "tumor_00.tif"]);
    assert!(done["normal_03.tif"]["error"].as_str().is_some_and(|why| why.contains("normal_03.tif")), "{done:?}");
    for name in ["normal_01", "tumor_00"] {
        let line = &done[&format!("{name}.tif")];
        assert!(line["error"].is_null() && line["seconds"]["predict"].as_f64() > Some(0.0), "{line}");
        assert_eq!([&line["width"], &line["height"]], [1024, 1024], "{line}");
        assert!(line["patches"].as_u64() > Some(500) && line["detections"].is_u64(), "{line}");
        let outputs = line["outputs"].as_object().expect("outputs");
        for (kind, end) in
            [("map", ".npy"), ("heat", "_heat.tif"), ("detections", ".geojson"), ("picture", "_picture.png")]
        {
            let file = maps.join(format!("{name}{end}"));
            assert_eq!(outputs[kind], text(&file), "{line}");
            assert!(file.is_file() && maps.join(format!("{name}{end}.hearth.json")).is_file(), "{name}{end}");
        }
        let record = fs::read_to_string(maps.join(format!("{name}.npy.hearth.json"))).expect("a record");
        let record: Value = serde_json::from_str(&record).expect("JSON");
        assert_eq!((&record["patches"], &record["detections"]), (&line["patches"], &line["detections"]), "{record}");
        assert!(record["input_blake3"].is_string() && record["result_of"].is_object(), "{record}");
    }
    assert!(!maps.join("records").exists() && !maps.join("normal_03.npy").exists());

    // Finished slides are skipped, and the damaged one is tried again; repaired, it is no failure any more.
    let written = fs::metadata(maps.join("tumor_00.npy")).and_then(|facts| facts.modified()).expect("a map");
    let again = run(&words);
    assert_eq!(again.status.code(), Some(1), "{}", errors(&again));
    assert_eq!(errors(&again).matches("done by an earlier call").count(), 2, "{}", errors(&again));
    let skipped = lines(&again.stdout);
    assert_eq!(skipped["tumor_00.tif"]["skipped"], "done by an earlier call", "{skipped:?}");
    assert_eq!(skipped["tumor_00.tif"]["outputs"].as_array().map(Vec::len), Some(4), "{skipped:?}");
    fs::write(data.join("normal_03.tif"), &whole).expect("written");
    let repaired = run(&words);
    assert!(repaired.status.success(), "{}", errors(&repaired));
    assert!(maps.join("normal_03.npy").is_file() && !maps.join("failed.csv").exists());
    let now = fs::metadata(maps.join("tumor_00.npy")).and_then(|facts| facts.modified()).expect("a map");
    assert_eq!(now, written, "a finished map is not written again");

    refuses(&text(&out), &text(&data), dir.path());
    in_place(&text(&out), &data);
}

/// An option for other kinds of results names itself, and the files that a slide has.
fn refuses(run: &str, data: &str, dir: &Path) {
    let none = text(&dir.join("none"));
    let refused = |more: &[&str], said: &[&str]| {
        fail(&[&["predict", run, "--device", "cpu", "-i", data, "-o", &none], more].concat(), 1, said);
        assert!(!dir.join("none").exists(), "{more:?} left a folder");
    };
    let files = "this run predicts maps of whole slides (NAME.geojson, NAME_heat.tif, NAME_picture.png, NAME.npy)";
    for option in ["--probabilities", "--dicom-seg", "--rtstruct", "--dicom-sr", "--statistics", "--uncertainty"] {
        refused(&[option], &[&format!("{option} "), files, "remove it"]);
    }
    refused(&["--surfaces", "stl"], &["--surfaces writes", files]);
    refused(&["--series", "auto"], &["--series selects series of volumes", "predicts whole slides"]);
    refused(&["--any-modality"], &["--any-modality selects series of volumes"]);
    refused(&["--accept", "MissingSlices"], &["--accept accepts faults of DICOM series"]);
    refused(&["--tta", "flips"], &["--tta maps predictions", "remove it"]);
}

/// Results next to the slides are not slides of the next call, and a damaged DICOM slide in a folder of
/// its own does not stop the others.
fn in_place(out: &str, data: &Path) {
    let folder = data.join("p7");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("level_0.dcm"), [&[0; 128][..], b"DICM", &[0xff; 40]].concat()).expect("written");
    let words = ["predict", out, "--device", "cpu", "-i", &text(data), "-o", &text(data)].map(str::to_owned);
    for (call, skipped) in [(1, 0), (2, 3)] {
        let output = run(&words);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "call {call}: {said}");
        assert_eq!(said.matches("done by an earlier call").count(), skipped, "call {call}: {said}");
        assert!(failed(data).contains("p7,") && failed(data).contains("level_0.dcm"), "call {call}: {}", failed(data));
        assert!(data.join("tumor_00.npy").is_file() && !data.join("tumor_00_heat.npy").exists());
    }
}
