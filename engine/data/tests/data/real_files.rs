//! Real files compared with nibabel's values (`expected.json`). Ignored: the files are not part of
//! the project.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::real_data;
use hearth_data::nifti::read_header;
use hearth_data::quality::{Kind, Severity, VerifyOptions, verify};
use hearth_data::readers::choose;
use hearth_data::transforms::Orientation;
use hearth_data::{Affine, ReadOptions, affine, orientation, read_image, read_image_with, read_nifti};
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Compares one NIfTI file with its entry in `expected.json`; returns an error text for each
/// difference.
fn compare(path: &Path, expected: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |what: &str, good: bool, got: String| {
        if !good {
            problems.push(format!("{what}: {got}, expected {}", expected[what]));
        }
    };
    let header = match read_header(path) {
        Ok(header) => header,
        Err(error) => return vec![format!("header: {error}")],
    };
    let shape: Vec<usize> = serde_json::from_value(expected["shape"].clone()).unwrap_or_default();
    check("shape", header.dim == shape, format!("{:?}", header.dim));
    check(
        "version",
        u64::from(header.version) == expected["version"].as_u64().unwrap_or(0),
        header.version.to_string(),
    );
    check("big_endian", Some(header.big_endian) == expected["big_endian"].as_bool(), header.big_endian.to_string());
    for (what, got) in [("qform_code", header.qform_code), ("sform_code", header.sform_code)] {
        check(what, i64::from(got) == expected[what].as_i64().unwrap_or(-1), got.to_string());
    }
    for (what, got) in [("scl_slope", header.scl_slope), ("scl_inter", header.scl_inter)] {
        let wanted = number(&expected[what]);
        let same = (got - wanted).abs() <= 1e-5 * wanted.abs() || (got.is_nan() && wanted.is_nan());
        check(what, same, got.to_string());
    }
    let affine = header.affine();
    let far = (0..4)
        .flat_map(|r| (0..4).map(move |c| (r, c)))
        .map(|(r, c)| (affine[r][c] - number(&expected["affine"][r][c])).abs())
        .fold(0.0, f64::max);
    check("affine", far < 2e-5, format!("{affine:?}"));
    check(
        "axes",
        Some(orientation::codes(&affine, 3, &orientation::RAS_LABELS).as_str()) == expected["axes"].as_str(),
        orientation::codes(&affine, 3, &orientation::RAS_LABELS),
    );
    let stored = expected["datatype"].as_str().unwrap_or_default();
    let scalar = !(stored.starts_with("rgb") || stored.starts_with("complex"));
    let image = match (read_nifti(path), scalar) {
        (Ok(image), true) => image,
        (Err(error), false) if error.to_string().contains(stored) => return problems,
        (Ok(_), false) => return vec![format!("{stored} was read as one number per voxel")],
        (Err(error), _) => return vec![format!("{error}")],
    };
    check("datatype", image.meta.stored_type == stored, image.meta.stored_type.clone());
    let values = image.to_vec();
    let known = || values.iter().filter(|v| !v.is_nan()).map(|v| f64::from(*v));
    let close = |got: f64, wanted: f64, slack: f64| (got - wanted).abs() <= slack * wanted.abs().max(1e-3);
    let low = known().fold(f64::INFINITY, f64::min);
    let high = known().fold(f64::NEG_INFINITY, f64::max);
    let mean = known().sum::<f64>() / known().count() as f64;
    check("min", close(low, number(&expected["min"]), 1e-5), low.to_string());
    check("max", close(high, number(&expected["max"]), 1e-5), high.to_string());
    check("mean", close(mean, number(&expected["mean"]), 1e-4), mean.to_string());
    let nan = values.iter().filter(|v| v.is_nan()).count() as u64;
    check("nan_voxels", Some(nan) == expected["nan_voxels"].as_u64(), nan.to_string());
    let dims = image.data.dims();
    for sample in expected["samples"].as_array().into_iter().flatten() {
        let index: Vec<usize> = serde_json::from_value(sample[0].clone()).unwrap_or_default();
        let axis = |i: usize| index.get(i).copied().unwrap_or(0);
        // Axes beyond the third are channels; the earlier of these axes are faster.
        let (mut channel, mut stride) = (0, 1);
        for (i, length) in shape.iter().enumerate().skip(3) {
            channel += axis(i) * stride;
            stride *= length;
        }
        let flat = ((channel * dims[1] + axis(0)) * dims[2] + axis(1)) * dims[3] + axis(2);
        let (got, wanted) = (f64::from(values[flat]), number(&sample[1]));
        let same = close(got, wanted, 1e-5) || (got.is_nan() && wanted.is_nan());
        check("samples", same, format!("{got} at {index:?} ({wanted})"));
    }
    if let Some(counts) = expected["label_counts"].as_object() {
        for (label, count) in counts {
            let label: f32 = label.parse().unwrap_or(f32::NAN);
            let got = values.iter().filter(|v| **v == label).count() as u64;
            check("label_counts", Some(got) == count.as_u64(), format!("{got} of {label}"));
        }
    }
    problems
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn every_nifti_reads_as_nibabel_reads_it() {
    let root = real_data();
    let text = std::fs::read_to_string(root.join("expected.json")).expect("expected.json");
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    let mut wrong = Vec::new();
    let (mut sound, mut malformed) = (0, 0);
    for (name, expected) in all.iter().filter(|(_, e)| e["kind"] == "nifti") {
        let path = root.join(name);
        if expected["nibabel"].is_string() {
            malformed += 1;
            match read_nifti(&path) {
                Ok(_) => wrong.push(format!("{name}: read, though malformed")),
                Err(error) if !error.to_string().contains(name.rsplit('/').next().unwrap_or(name)) => {
                    wrong.push(format!("{name}: the error does not name the file: {error}"));
                }
                Err(_) => {}
            }
            continue;
        }
        sound += 1;
        wrong.extend(compare(&path, expected).into_iter().map(|p| format!("{name}: {p}")));
    }
    println!("{sound} sound and {malformed} malformed files");
    assert!(wrong.is_empty(), "{} differences:\n  {}", wrong.len(), wrong.join("\n  "));
    assert!(sound > 100 && malformed > 0);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn headers_without_values_are_errors_that_say_so() {
    let root = real_data().join("nifti_edge");
    let message = |name: &str| read_nifti(root.join(name)).expect_err("no values").to_string();
    assert!(message("header_only_nifti1.hdr").contains(".img"), "{}", message("header_only_nifti1.hdr"));
    assert!(message("header_only_nifti2.hdr").contains(".img"));
    assert!(message("analyze75.hdr").contains("Analyze"));
}

/// The hippocampus data set opens, its split follows its own order, and its labels lie on its
/// images.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_decathlon_folder_opens() {
    let set = hearth_data::DecathlonDataset::open(real_data().join("brain_mri/hippocampus_msd")).expect("a data set");
    assert_eq!(set.training.len(), 20);
    let (train, validate) = set.split_last(4).expect("enough cases");
    assert_eq!((train.len(), validate.len()), (16, 4));
    assert_eq!(validate[3], set.training[19]);
    for item in &set.training {
        let image = read_nifti(&item.files["image"]).expect("an image");
        let label = read_nifti(&item.files["label"]).expect("a label");
        assert_eq!(image.shape(), label.shape(), "{}", item.case);
    }
}

/// Affines that MONAI's LoadImage returns, by file name.
#[derive(serde::Serialize, serde::Deserialize)]
struct Affines {
    made_with: String,
    affines: BTreeMap<String, Affine>,
}

const AFFINES: &str = "affines.json";

/// The NIfTI files with values that `expected.json` names.
fn files_with_affines() -> Vec<String> {
    let text = std::fs::read_to_string(real_data().join("expected.json")).expect("expected.json");
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    let whole = |(name, e): &(&String, &Value)| e["kind"] == "nifti" && e["min"].is_number() && !name.contains("cifti");
    all.iter().filter(whole).map(|(name, _)| name.clone()).collect()
}

fn assert_affines(expected: &BTreeMap<String, Affine>) {
    let mut wrong = Vec::new();
    for name in files_with_affines() {
        let got = read_nifti(real_data().join(&name)).expect("readable").affine;
        match expected.get(&name) {
            Some(expected) if affine::distance(&got, expected) <= 1e-4 => {}
            Some(expected) => wrong.push(format!("{name}: {got:?}, expected {expected:?}")),
            None => {
                wrong.push(format!("{name}: MONAI was not asked. {}", crate::clients::how_to_record("hearth-data")))
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn affines_are_what_monai_said() {
    let text = std::fs::read_to_string(crate::common::recorded(AFFINES)).expect("the record");
    assert_affines(&serde_json::from_str::<Affines>(&text).expect("a record").affines);
}

/// MONAI's LoadImage sees the same affines, headers rectified and all.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn live_affines() {
    let Some(client) = crate::clients::find(&["monai", "nibabel"], "affines_are_what_monai_said") else { return };
    const SCRIPT: &str = "
import sys, json, warnings, logging
warnings.simplefilter('ignore'); logging.disable(50)
import nibabel as nib
from monai.data.utils import correct_nifti_header_if_necessary
for p in sys.argv[1:]:
    i = nib.load(p)
    try: i = correct_nifti_header_if_necessary(i)
    except ValueError: pass  # headers whose zooms MONAI can't set
    print(json.dumps(i.affine.tolist()))
";
    let (names, root) = (files_with_affines(), real_data());
    let said = client.run(SCRIPT, names.iter().map(|name| root.join(name)));
    assert_eq!(said.lines().count(), names.len());
    let matrices = said.lines().map(|line| serde_json::from_str(line).expect("a matrix"));
    let affines: BTreeMap<String, Affine> = names.into_iter().zip(matrices).collect();
    assert_affines(&affines);
    if crate::clients::recording() {
        let lines = affines
            .iter()
            .map(|(name, affine)| serde_json::json!(name).to_string() + ":" + &serde_json::json!(affine).to_string());
        let lines = lines.collect::<Vec<_>>().join(",\n");
        let made_with = serde_json::json!(client.versions());
        let text = format!("{{\"made_with\":{made_with},\"affines\":{{\n{lines}\n}}}}\n");
        std::fs::write(crate::common::recorded(AFFINES), text).expect("written");
    }
}

/// A folder of slices and the same volume as NIfTI, both turned to RAS.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn folders_of_dicom_are_read_as_the_volume_they_hold() {
    for (folder, file, slack) in [("CT", "STS_008_CT_image.nii.gz", 0.0), ("PET", "STS_008_PET_image.nii.gz", 1e-6)] {
        let upright = |path: &Path| {
            let image = read_image(path).unwrap_or_else(|e| panic!("{e}"));
            Orientation::new("image", "RAS").turn(image, 0).expect("turned")
        };
        let series = real_data().join("dicom/sts008").join(folder);
        assert_eq!(choose(&series).expect("a reader").name(), "DicomReader");
        let (dicom, nifti) = (upright(&series), upright(&real_data().join("tumour_ct/sts").join(file)));
        assert_eq!(dicom.shape(), nifti.shape());
        for (a, b) in dicom.affine.iter().flatten().zip(nifti.affine.iter().flatten()) {
            assert!((a - b).abs() < 1e-3, "{:?} and {:?}", dicom.affine, nifti.affine);
        }
        for (a, b) in dicom.to_vec().into_iter().zip(nifti.to_vec()) {
            assert!((a - b).abs() <= slack, "{folder}: {a} and {b}");
        }
    }
    let several = real_data().join("dicom/sts008");
    // The series and their structures, compared with the masks of another group's conversion.
    let report = verify(&several, &VerifyOptions::default()).expect("a report");
    assert_eq!(report.count(Severity::Error), 0, "{:?}", report.findings);
    let mut drawn: Vec<usize> = report.cases.iter().flat_map(|case| &case.labels).map(|label| label.voxels).collect();
    let masks = ["CT", "MR_T1", "PET"].map(|m| real_data().join(format!("tumour_ct/sts/STS_008_{m}_mask.nii.gz")));
    let inside = |path| read_image(path).expect("a mask").to_vec().into_iter().filter(|v| *v > 0.0).count();
    let mut expected = masks.map(inside);
    drawn.sort_unstable();
    expected.sort_unstable();
    assert_eq!(drawn, expected);
    // Two series in one folder cannot be separated by the folder: the images are checked alone, and
    // the reason is reported.
    let mixed = tempfile::tempdir().expect("a folder");
    for folder in ["ct_rtstruct_2slice", "ct_tiny_4slice"] {
        for file in std::fs::read_dir(real_data().join("dicom").join(folder)).expect("a folder").flatten() {
            let name = format!("{folder}-{}", file.file_name().to_string_lossy());
            std::fs::copy(file.path(), mixed.path().join(name)).expect("a copy");
        }
    }
    let report = verify(mixed.path(), &VerifyOptions::default()).expect("a report");
    let told = report.findings.iter().any(|f| f.kind == Kind::Unpaired && f.what.contains("series of images"));
    assert!(told, "{:?}", report.findings);
    let text = read_image(&several).expect_err("several series").to_string();
    assert!(text.contains("sts008") && text.contains("PT"), "{text}");
    let mut options = ReadOptions::default();
    options.reader = Some("pydicomreader".to_owned());
    options.series = Some("none of these".to_owned());
    let text = read_image_with(&several, &options).expect_err("no such series").to_string();
    assert!(text.contains("none of these") && text.contains("IBSI_1_STS_008_CT_image"), "{text}");
}
