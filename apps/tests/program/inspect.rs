//! `hearth data inspect` of real files. Ignored: the files are not part of the project (`HEARTH_REAL_DATA`).

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{fail, run, succeed, text};

fn real(name: &str) -> String {
    let data = std::env::var_os("HEARTH_REAL_DATA").expect("HEARTH_REAL_DATA");
    text(&PathBuf::from(data).join(name))
}

fn inspected(name: &str) -> Value {
    serde_json::from_str(&succeed(&["data", "inspect", &real(name), "--json"])).expect("JSON")
}

/// Values of tifffile.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_slide_of_aperio_shows_what_its_description_says() {
    let slide = inspected("wsi/cmu-1-small-region.svs");
    assert_eq!((&slide["vendor"], &slide["size"]), (&json!("aperio"), &json!([2220, 2967])));
    assert_eq!((&slide["mpp"], &slide["objective_power"]), (&json!([0.499, 0.499]), &json!(20.0)));
    assert_eq!(slide["associated"], json!(["label", "macro", "thumbnail"]));
    assert_eq!(slide["levels"][0]["tile"], json!([240, 240]));
    assert_eq!(slide["levels"][0]["compression"], "JPEG");
    let tcga = inspected("wsi/tcga-cr-7395.svs");
    assert_eq!(tcga["levels"].as_array().map(Vec::len), Some(2));
    assert_eq!(tcga["levels"][0]["compression"], "JPEG 2000");
    // The scanner's file name, date and operator are in its description.
    assert!(tcga["properties"].is_null());
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_slide_of_webp_names_its_compression_and_what_converts_it() {
    fail(&["data", "inspect", &real("reports/files/webp.svs")], 1, &["WebP is not supported", "vips tiffsave"]);
}

/// Values of nibabel, in `expected.json` of the real files.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn both_forms_of_a_header_are_shown_as_nibabel_reads_them() {
    let expected = std::fs::read_to_string(real("expected.json")).expect("the expected values");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    for name in ["nifti_edge/oblique_ct_pitch.nii.gz", "nifti_edge/shear_ct.nii.gz", "nifti_edge/standard.nii.gz"] {
        let (found, expected) = (inspected(name), &expected[name]);
        for code in ["sform_code", "qform_code"] {
            assert_eq!(found["nifti"][code], expected[code], "{name}: {code}");
        }
        let rows = |matrix: &Value| -> Vec<f64> {
            let rows = matrix.as_array().expect("rows").iter().take(3);
            rows.flat_map(|row| row.as_array().expect("a row").iter().filter_map(Value::as_f64)).collect()
        };
        let (got, wanted) = (rows(&found["affine"]), rows(&expected["affine"]));
        assert!(got.len() == 12 && got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{name}: {got:?}");
    }
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_tree_of_dicom_lists_volumes_and_regions_without_identifiers() {
    let said = succeed(&["data", "inspect", &real("dicom/sts008")]);
    for words in ["141 x 137 x 51", "77 x 79 x 28", "30 x 29 x 51", "RS_CT.dcm", "RS_PET.dcm", "GTV"] {
        assert!(said.contains(words), "no {words} in {said}");
    }
    assert!(!said.contains("1.3.6.1.4.1"), "{said}");
    let one = inspected("dicom/sts008/CT");
    assert_eq!((&one["shape"], &one["series"][0]["modality"]), (&json!([141, 137, 51]), &json!("CT")));
    let chosen: Value =
        serde_json::from_str(&succeed(&["data", "inspect", &real("dicom/sts008"), "--series", "*PET_image", "--json"]))
            .expect("JSON");
    assert_eq!(chosen["series"][0]["shape"], json!([1, 30, 29, 51]));
}

/// Every real file is described, or refused with the reason.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn no_real_file_ends_inspection() {
    let mut folders = vec![PathBuf::from(real("."))];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
            // One slice of a series tells as much as all.
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if ["json", "md", "txt", "csv", "toml"].iter().any(|end| name.ends_with(end)) || count > 400 {
                continue;
            }
            count += 1;
            let output = run(&["data", "inspect", &text(&path), "--json"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "{name}"),
                Some(1) => assert!(said.contains("error: "), "{name}: {said}"),
                other => panic!("{name}: {other:?}: {said}"),
            }
            assert!(!said.contains("panicked"), "{name}: {said}");
        }
    }
    assert!(count > 300, "{count}");
}
