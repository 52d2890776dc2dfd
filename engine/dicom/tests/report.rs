//! SEG of all kinds and the Structured Report, as read by highdicom, pydicom and dciodvfy.

#[path = "../../../tests/clients.rs"]
mod clients;
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use common::{CT, Object};
use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_dicom::write::{
    Code, Coding, SegmentationType, known_codes, measure, reference, report, segmentation_as, structure_set,
};
use hearth_dicom::{
    Authorship, ReadOptions, Region, RegionVolume, Regions, Segmentation, SegmentationKind, Series, scan,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Columns, rows and slices.
const SIZE: [usize; 3] = [16, 12, 6];
const KINDS: [SegmentationType; 3] =
    [SegmentationType::Binary, SegmentationType::Fractional, SegmentationType::LabelMap];

fn series(folder: &Path) -> Series {
    let [x, y, _] = SIZE;
    for k in 0..SIZE[2] {
        Object::new(CT, "CT")
            .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.826.0.1.3680043.8.498.17.{k}"))
            .text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.15")
            .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.16")
            .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.18")
            .text(tags::PATIENT_ID, VR::LO, "P-9")
            .text(tags::PATIENT_NAME, VR::PN, "Doe^Jane")
            .text(tags::PATIENT_BIRTH_DATE, VR::DA, "19700101")
            .text(tags::PATIENT_SEX, VR::CS, "F")
            .text(tags::STUDY_DATE, VR::DA, "20240229")
            .text(tags::STUDY_TIME, VR::TM, "120000")
            .text(tags::TIMEZONE_OFFSET_FROM_UTC, VR::SH, "+0000")
            .text(tags::STUDY_ID, VR::SH, "1")
            .text(tags::ACCESSION_NUMBER, VR::SH, "A1")
            .text(tags::REFERRING_PHYSICIAN_NAME, VR::PN, "Roe^Richard")
            .text(tags::SERIES_NUMBER, VR::IS, "3")
            .text(tags::INSTANCE_NUMBER, VR::IS, &(k + 1).to_string())
            .decimals(tags::IMAGE_POSITION_PATIENT, &[-10.0, 20.0, 3.0 * k as f64])
            .decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
            .decimals(tags::PIXEL_SPACING, &[0.5, 0.75])
            .decimals(tags::SLICE_THICKNESS, &[3.0])
            .pixels([x as u16, y as u16], &vec![k as u16; x * y])
            .write(&folder.join(format!("{k}.dcm")));
    }
    scan(folder).expect("scanned").series.remove(0)
}

fn values(of: impl Fn([usize; 3]) -> f32) -> Vec<f32> {
    let [nx, ny, nz] = SIZE;
    (0..nx * ny * nz).map(|i| of([i / (ny * nz), i / nz % ny, i % nz])).collect()
}

/// Label 1: a bar of 8 x 4 pixels, 6 x 2 mm, on slices 1 and 2. Label 3: a block on slice 4. Label 300: a
/// voxel.
fn label([x, y, z]: [usize; 3]) -> f32 {
    match z {
        1 | 2 if (2..10).contains(&x) && (3..7).contains(&y) => 1.0,
        4 if x >= 12 && y < 3 => 3.0,
        5 if (x, y) == (0, 11) => 300.0,
        _ => 0.0,
    }
}

fn regions(series: &Series) -> RegionVolume {
    let mut other = Region::new(300, "implant");
    let code = |value: &str, meaning: &str| Code::new(value, "99LOCAL", meaning);
    other.coding = Some(Coding::new(code("C1", "Device"), code("T1", "Seed")));
    let mut liver = Region::new(3, "liver");
    liver.color = Some([221, 130, 101]);
    let all = vec![Region::new(1, "liver tumour"), liver, other];
    RegionVolume::of_labels(values(label), all, series.grid().clone())
}

/// Fractions of two regions that overlap.
fn fractions(series: &Series) -> RegionVolume {
    let mut both = values(|[x, ..]| (x as f32 / 15.0).clamp(0.0, 1.0));
    both.extend(values(|[_, y, z]| if z == 2 { 1.0 - y as f32 / 11.0 } else { 0.0 }));
    let names = vec![Region::new(1, "spleen"), Region::new(2, "kidney")];
    RegionVolume::of_channels(both, names, series.grid().clone())
}

fn author() -> Authorship {
    let noon = UNIX_EPOCH + Duration::from_secs(1_709_208_000);
    Authorship::new("a test").description("Findings").created(noon).software("test 1")
}

/// The name and bytes of all files: a SEG of each kind, and reports with and without one.
fn files(series: &Series) -> Vec<(&'static str, Vec<u8>)> {
    let (labels, fractions) = (regions(series), fractions(series));
    let of = |kind, volume| segmentation_as(kind, volume, series, &author()).expect("written");
    let binary = reference(SegmentationType::Binary, &labels, series, &author());
    vec![
        ("binary.dcm", of(KINDS[0], &labels)),
        ("fractional.dcm", of(KINDS[1], &fractions)),
        ("labelmap.dcm", of(KINDS[2], &labels)),
        ("report.dcm", report(&labels, series, &author(), Some(&binary)).expect("written")),
        ("plain.dcm", report(&labels, series, &author(), None).expect("written")),
    ]
}

#[test]
fn each_kind_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let out = tempfile::tempdir().expect("a folder");
    let read = |kind, volume: &RegionVolume| {
        let path = out.path().join("seg.dcm");
        std::fs::write(&path, segmentation_as(kind, volume, &series, &author()).expect("written")).expect("written");
        Segmentation::open(&path).expect("a segmentation")
    };
    let (labels, drawn) = (regions(&series), fractions(&series));
    let options = ReadOptions::default();
    let map = read(SegmentationType::LabelMap, &labels);
    assert_eq!(map.kind(), SegmentationKind::LabelMap);
    let back = map.labels(&[], series.grid(), &options).expect("labels");
    // The labels themselves, of 16 bits.
    assert_eq!((back.values, back.findings.len()), (labels.values.clone(), 0));
    let codes: Vec<_> = back.regions.iter().map(|r| r.coding.clone().expect("codes").kind.meaning).collect();
    assert_eq!(codes, ["Neoplasm", "Liver", "Seed"]);
    assert_eq!(back.regions[0].coding.as_ref().and_then(|c| c.site.clone()).expect("a site").meaning, "Liver");
    assert_eq!(back.regions[1].color, Some([221, 130, 101]));

    let fractional = read(SegmentationType::Fractional, &drawn);
    assert_eq!(fractional.kind(), SegmentationKind::Fractional { maximum: 255 });
    let back = fractional.channels(&[], series.grid(), &options).expect("channels");
    for (got, expected) in back.values.iter().zip(&drawn.values) {
        assert!((got - expected).abs() <= 0.5 / 255.0 + 1e-6, "{got} {expected}");
    }
    let whole = read(SegmentationType::Fractional, &labels);
    let back = whole.channels(&["liver"], series.grid(), &options).expect("channels");
    assert_eq!(back.values, values(|at| f32::from(u8::from(label(at) == 3.0))));
}

#[test]
fn what_a_kind_cannot_hold_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let refused = |kind, volume: &RegionVolume| {
        segmentation_as(kind, volume, &series, &author()).expect_err("refused").to_string()
    };
    let overlap = refused(SegmentationType::LabelMap, &fractions(&series));
    assert!(overlap.contains("overlap") && overlap.contains("binary"), "{overlap}");
    let mut wrong = fractions(&series);
    wrong.values[7] = 1.5;
    assert!(refused(SegmentationType::Fractional, &wrong).contains("1.5"));
    let mut large = regions(&series);
    large.values.iter_mut().filter(|v| **v == 300.0).for_each(|v| *v = 70_000.0);
    large.regions[2].label = 70_000;
    assert!(refused(SegmentationType::LabelMap, &large).contains("70000"));
    let mut coded = regions(&series);
    coded.regions[2].coding.as_mut().expect("codes").kind.value = "a code of too many characters".to_owned();
    for kind in KINDS {
        let error = refused(kind, &coded);
        assert!(error.contains("implant") && error.contains("too many characters"), "{error}");
    }
    let mut seg = reference(SegmentationType::Binary, &regions(&series), &series, &author());
    seg.segments.pop();
    let error = report(&regions(&series), &series, &author(), Some(&seg)).expect_err("refused").to_string();
    assert!(error.contains("2 segments") && error.contains("3 regions"), "{error}");
}

/// TID 1500: texts among the qualitative evaluations.
#[test]
fn remarks_are_comments_of_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let by = author().remarks(["spacing 5 mm, trained on 1 mm".to_owned()]);
    let path = folder.path().join("report.dcm");
    std::fs::write(&path, report(&regions(&series), &series, &by, None).expect("written")).expect("written");
    let object = dicom_object::open_file(&path).expect("DICOM");
    let content = object.element(tags::CONTENT_SEQUENCE).expect("content").items().expect("items");
    let last = content.last().expect("an item");
    let meaning = |item: &dicom_object::InMemDicomObject| {
        let name = item.element(tags::CONCEPT_NAME_CODE_SEQUENCE).expect("a name").items().expect("items")[0].clone();
        name.element(tags::CODE_MEANING).expect("a meaning").to_str().expect("text").into_owned()
    };
    assert_eq!(meaning(last), "Qualitative Evaluations");
    let remarks = last.element(tags::CONTENT_SEQUENCE).expect("content").items().expect("items");
    assert_eq!((remarks.len(), meaning(&remarks[0]).as_str()), (1, "Comment"));
    let text = remarks[0].element(tags::TEXT_VALUE).expect("a text").to_str().expect("text").into_owned();
    assert_eq!(text, "spacing 5 mm, trained on 1 mm");
    let plain = report(&regions(&series), &series, &author(), None).expect("written");
    assert!(!String::from_utf8_lossy(&plain).contains("Qualitative"));
}

#[test]
fn measures_are_those_of_the_shapes() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let [bar, block, voxel] = &measure(&regions(&series))[..] else { panic!("three regions") };
    // Distances between midpoints of the sides of corner pixels: 8 x 3 pixels of 0.75 x 0.5 mm.
    let long = 6_f64.hypot(1.5);
    let at = bar.diameters.expect("voxels");
    assert_eq!((bar.voxels, bar.volume, at.slice), (64, 64.0 * 0.375 * 3.0, 1));
    assert!((at.long - long).abs() < 1e-9 && at.short < 2.2 && at.short > 1.9, "{at:?}");
    assert_eq!((block.voxels, block.diameters.expect("voxels").slice), (12, 4));
    let at = voxel.diameters.expect("voxels");
    assert_eq!((voxel.voxels, at.long, at.slice), (1, 0.75, 5));
}

/// Reads everything with highdicom and pydicom.
const SCRIPT: &str = r#"
import json, sys, os
import numpy as np
import pydicom
import highdicom as hd
from pydicom.sr.codedict import codes
out = {}
for path in sys.argv[1:]:
    name = os.path.basename(path)
    if name in ("report.dcm", "plain.dcm"):
        data = hd.sr.srread(path)
        content = data.content
        groups = content.get_volumetric_roi_measurement_groups() if name == "report.dcm" else []
        said = []
        for g in groups:
            numbers = {m.name.meaning: [round(float(m.value), 4), m.unit.value] for m in g.get_measurements()}
            site = [s.value.value for s in g.finding_sites]
            said.append({
                "id": g.tracking_identifier, "finding": [g.finding_type.value, g.finding_type.meaning],
                "category": g.finding_category.value, "site": site,
                "segment": int(g.referenced_segment.referenced_segment_numbers[0]),
                "seg": str(g.referenced_segment.referenced_sop_instance_uid), "numbers": numbers,
            })
        plain = pydicom.dcmread(path)
        evidence = plain.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
        out[name] = {
            "groups": said, "evidence": [len(s.ReferencedSOPSequence) for s in evidence],
            "patient": str(plain.PatientName), "class": str(plain.SOPClassUID),
            "items": len(plain.ContentSequence[-1].ContentSequence),
        }
    else:
        seg = hd.seg.segread(path)
        about = [seg.get_segment_description(n) for n in seg.segment_numbers]
        out[name] = {
            "type": seg.segmentation_type.value, "uid": str(seg.SOPInstanceUID), "class": str(seg.SOPClassUID),
            "labels": [[int(a.segment_number), a.segment_label, a.segmented_property_type.value] for a in about],
            "frames": int(seg.NumberOfFrames),
        }
        if name == "fractional.dcm":
            volume = seg.get_volume(combine_segments=False, rescale_fractional=True)
            out[name]["sums"] = [round(float(volume.array[..., i].sum()), 1) for i in range(2)]
        else:
            volume = seg.get_volume(combine_segments=True)
            values, counts = np.unique(volume.array, return_counts=True)
            out[name]["voxels"] = {str(v): int(c) for v, c in zip(values, counts) if v > 0}
print(json.dumps(out))
"#;

/// The clients' results against the geometry.
fn check(said: &Value, series: &Series) {
    let labels = json!([[1, "liver tumour", "108369006"], [2, "liver", "10200004"], [3, "implant", "T1"]]);
    let binary = &said["binary.dcm"];
    assert_eq!((&binary["type"], &binary["labels"], &binary["frames"]), (&json!("BINARY"), &labels, &json!(4)));
    assert_eq!(binary["voxels"], json!({"1": 64, "2": 12, "3": 1}));
    let map = &said["labelmap.dcm"];
    assert_eq!((&map["type"], &map["class"]), (&json!("LABELMAP"), &json!("1.2.840.10008.5.1.4.1.1.66.7")));
    let own = json!([[1, "liver tumour", "108369006"], [3, "liver", "10200004"], [300, "implant", "T1"]]);
    assert_eq!((&map["labels"], &map["frames"]), (&own, &json!(4)));
    assert_eq!(map["voxels"], json!({"1": 64, "3": 12, "300": 1}));
    let fractional = &said["fractional.dcm"];
    assert_eq!(fractional["type"], "FRACTIONAL");
    for (channel, values) in fractions(series).values.chunks(SIZE.iter().product()).enumerate() {
        let sum: f64 = values.iter().map(|v| f64::from((v * 255.0).round()) / 255.0).sum();
        let theirs = fractional["sums"][channel].as_f64().expect("a sum");
        assert!((theirs - sum).abs() < 0.2, "{theirs} {sum}");
    }
    let report = &said["report.dcm"];
    assert_eq!((&report["patient"], &report["evidence"]), (&json!("Doe^Jane"), &json!([6, 1])));
    assert_eq!(report["class"], "1.2.840.10008.5.1.4.1.1.88.34");
    let measured = measure(&regions(series));
    let groups = report["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 3);
    for ((group, region), measured) in groups.iter().zip(&regions(series).regions).zip(&measured) {
        assert_eq!((&group["id"], &group["seg"]), (&json!(region.name), &binary["uid"]));
        let number = |name: &str, unit: &str| {
            assert_eq!(group["numbers"][name][1], unit, "{group}");
            group["numbers"][name][0].as_f64().expect("a number")
        };
        let diameters = measured.diameters.expect("voxels");
        assert!((number("Volume", "mm3") - measured.volume).abs() < 1e-3);
        assert!((number("Long Axis", "mm") - diameters.long).abs() < 1e-3);
        assert!((number("Short Axis", "mm") - diameters.short).abs() < 1e-3);
    }
    assert_eq!(groups[0]["finding"], json!(["108369006", "Neoplasm"]));
    assert_eq!((&groups[0]["site"], &groups[1]["segment"]), (&json!(["10200004"]), &json!(2)));
    assert_eq!((&said["plain.dcm"]["items"], &said["plain.dcm"]["evidence"]), (&json!(3), &json!([6])));
}

fn record(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn recorded(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(record(name)).expect("the record")).expect("JSON")
}

fn keep(name: &str, value: &Value) {
    if clients::recording() {
        std::fs::write(record(name), format!("{value}\n")).expect("written");
    }
}

fn sums(series: &Series) -> Value {
    let sum = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
    files(series).iter().map(|(name, bytes)| ((*name).to_owned(), json!(sum(bytes)))).collect()
}

#[test]
fn clients_read_reports_and_all_kinds() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let recorded = recorded("report.json");
    let how = clients::how_to_record("hearth-dicom");
    assert_eq!(sums(&series), recorded["files"], "other files are written now. {how}");
    check(&recorded["said"], &series);
}

#[test]
fn live_clients_read_reports_and_all_kinds() {
    let modules = &["pydicom", "highdicom", "numpy"];
    let Some(python) = clients::find(modules, "clients_read_reports_and_all_kinds") else { return };
    let (folder, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(folder.path());
    let paths: Vec<PathBuf> = written(&series, out.path());
    let said: Value = serde_json::from_str(&python.run(SCRIPT, &paths)).expect("JSON");
    check(&said, &series);
    keep("report.json", &json!({ "made_with": python.versions(), "files": sums(&series), "said": said }));
}

fn written(series: &Series, out: &Path) -> Vec<PathBuf> {
    let write = |(name, bytes): (&str, Vec<u8>)| {
        let path = out.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    files(series).into_iter().map(write).collect()
}

/// The errors that `dciodvfy` finds in the files, and in the structure set.
#[test]
fn the_validator_finds_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let recorded = recorded("dciodvfy.json");
    let how = clients::how_to_record("hearth-dicom");
    assert_eq!(sums(&series), recorded["files"], "other files are written now. {how}");
    no_errors(&recorded["said"]);
}

fn no_errors(said: &Value) {
    for (name, errors) in said.as_object().expect("files") {
        assert_eq!(errors, &json!([]), "{name}");
    }
    assert_eq!(said.as_object().map(serde_json::Map::len), Some(5));
}

#[test]
fn live_the_validator_finds_no_error() {
    let Some(program) = clients::find_program("dciodvfy", "the_validator_finds_no_error") else { return };
    let (folder, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(folder.path());
    let mut paths = written(&series, out.path());
    // It does not know the newer class of label maps.
    paths.retain(|path| !path.ends_with("labelmap.dcm"));
    let set = out.path().join("set.dcm");
    std::fs::write(&set, structure_set(&regions(&series), &series, &author()).expect("written")).expect("written");
    paths.push(set);
    let of = |path: &PathBuf| {
        let output = Command::new(&program).arg(path).output().expect("started");
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let errors: Vec<String> = text.lines().filter(|line| line.starts_with("Error")).map(str::to_owned).collect();
        (path.file_name().expect("a name").to_string_lossy().into_owned(), json!(errors))
    };
    let said: Value = paths.iter().map(of).collect();
    no_errors(&said);
    keep("dciodvfy.json", &json!({ "made_with": "dicom3tools, Debian 12", "files": sums(&series), "said": said }));
}

/// Each code of the table of defaults has its meaning in pydicom's dictionary of PS3.16.
#[test]
fn codes_are_those_of_the_standard() {
    codes_agree(&recorded("codes.json")["said"]);
}

fn codes_agree(said: &Value) {
    for code in known_codes() {
        let meanings: Vec<String> = said[&code.value]
            .as_array()
            .unwrap_or_else(|| panic!("{code:?} is not known"))
            .iter()
            .filter_map(|meaning| meaning.as_str().map(str::to_lowercase))
            .collect();
        assert!(meanings.contains(&code.meaning.to_lowercase()), "{code:?}: {meanings:?}");
    }
}

#[test]
fn live_codes_are_those_of_the_standard() {
    let Some(python) = clients::find(&["pydicom"], "codes_are_those_of_the_standard") else { return };
    let script = r#"
import json, sys
from pydicom.sr import _concepts_dict as known
out = {}
for keyword, entries in known.concepts["SCT"].items():
    for code, (meaning, *_) in entries.items():
        if code in sys.argv[1:]:
            out.setdefault(code, []).append(meaning)
print(json.dumps(out))
"#;
    let codes: Vec<String> = known_codes().into_iter().map(|code| code.value).collect();
    let said: Value = serde_json::from_str(&python.run(script, &codes)).expect("JSON");
    codes_agree(&said);
    keep("codes.json", &json!({ "made_with": python.versions(), "said": said }));
}

#[test]
fn a_report_is_no_file_of_regions() {
    let folder = tempfile::tempdir().expect("a folder");
    let series = series(folder.path());
    let path = written(&series, folder.path()).into_iter().find(|p| p.ends_with("report.dcm")).expect("a report");
    assert!(Regions::open(&path, &ReadOptions::default()).is_err());
    // Next to its images it is listed, and changes nothing.
    assert_eq!(scan(folder.path()).expect("scanned").series.len(), 1);
}
