//! Regions that are written as SEG and RTSTRUCT and read back: by our readers, by pydicom and by
//! highdicom. Regions that do not fit are errors.

#[path = "../../../tests/clients.rs"]
mod clients;
mod common;

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use common::{CT, Object, real_data};
use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_dicom::write::{CtIdentity, ct_slices, segmentation, structure_set};
use hearth_dicom::{
    Authorship, DrawnBy, Grid, ReadOptions, Region, RegionVolume, Regions, Segmentation, SegmentationKind, Series,
    StructureSet, scan,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Rows, columns and slices of the small series.
const SIZE: [usize; 3] = [9, 7, 5];

/// Two directions at right angles, along no axis of the body.
const COSINES: [f64; 6] = [0.8, 0.6, 0.0, -0.36, 0.48, 0.8];

fn slice(k: usize) -> Object {
    let [x, y, _] = SIZE;
    // Along the normal (0.48, -0.64, 0.6), 2.5 mm apart; names and numbers run the other way.
    let position = [0.48, -0.64, 0.6].map(|n| 11.25 + n * 2.5 * k as f64);
    Object::new(CT, "CT")
        .text(tags::SPECIFIC_CHARACTER_SET, VR::CS, "ISO_IR 100")
        .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.826.0.1.3680043.8.498.7.{k}"))
        .text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.5")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.6")
        .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, "1.2.826.0.1.3680043.8.498.8")
        .text(tags::PATIENT_ID, VR::LO, "P-7")
        .text(tags::PATIENT_NAME, VR::PN, "Müller^Jörg")
        .text(tags::STUDY_DATE, VR::DA, "20240229")
        .text(tags::TIMEZONE_OFFSET_FROM_UTC, VR::SH, "+0000")
        .text(tags::SERIES_NUMBER, VR::IS, "3")
        .text(tags::INSTANCE_NUMBER, VR::IS, &(99 - k).to_string())
        .decimals(tags::IMAGE_POSITION_PATIENT, &position)
        .decimals(tags::IMAGE_ORIENTATION_PATIENT, &COSINES)
        .decimals(tags::PIXEL_SPACING, &[0.7, 1.3])
        .decimals(tags::SLICE_THICKNESS, &[2.5])
        .pixels([x as u16, y as u16], &vec![k as u16; x * y])
}

fn series(folder: &Path) -> Series {
    for k in 0..SIZE[2] {
        slice(k).write(&folder.join(format!("{}.dcm", 9 - k)));
    }
    scan(folder).expect("scanned").series.remove(0)
}

/// Label 2: a ring with an island in it and a pixel at the corner. Label 5: a block on the last
/// slices, up to the edges. Nothing on slice 1.
fn value([x, y, z]: [usize; 3]) -> u32 {
    let away = x.abs_diff(4).max(y.abs_diff(3));
    match z {
        0 | 2 if away == 0 || away == 2 || (x, y) == (0, 0) => 2,
        3 | 4 if x >= 4 && y >= z => 5,
        3 if (x, y) == (1, 1) || (x, y) == (2, 2) => 2,
        _ => 0,
    }
}

fn values(of: impl Fn([usize; 3]) -> f32) -> Vec<f32> {
    let [nx, ny, nz] = SIZE;
    (0..nx * ny * nz).map(|i| of([i / (ny * nz), i / nz % ny, i % nz])).collect()
}

fn labels(series: &Series) -> RegionVolume {
    let mut tumour = Region::new(2, "GTV-1 (größer)");
    tumour.color = Some([221, 130, 101]);
    tumour.description = Some("primary tumour".to_owned());
    let regions = vec![tumour, Region::new(5, "Lung-Left")];
    RegionVolume::of_labels(values(|at| value(at) as f32), regions, series.grid().clone())
}

/// Labels 2 and 5 renumbered to 1 and 2.
fn numbered() -> Vec<f32> {
    values(|at| match value(at) {
        2 => 1.0,
        5 => 2.0,
        _ => 0.0,
    })
}

fn author() -> Authorship {
    let noon = UNIX_EPOCH + Duration::from_secs(1_709_208_000);
    Authorship::new("a test").description("Lung tumours").created(noon).software("test 1")
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn a_label_map_comes_back_from_a_segmentation() {
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(images.path());
    let regions = labels(&series);
    let path = written(out.path(), "seg.dcm", &segmentation(&regions, &series, &author()).expect("written"));
    let read = Segmentation::open(&path).expect("a segmentation");
    assert_eq!(read.kind(), SegmentationKind::Binary);
    assert_eq!(
        (read.referenced_series(), read.frame_of_reference()),
        (&[series.uid().to_owned()][..], series.frame_of_reference())
    );
    let [tumour, lung] = read.segments() else { panic!("{:?}", read.segments()) };
    assert_eq!((tumour.number, tumour.label.as_str(), tumour.color), (1, "GTV-1 (größer)", Some([221, 130, 101])));
    assert_eq!((tumour.property.as_deref(), tumour.algorithm.as_deref()), (Some("Neoplasm"), Some("AUTOMATIC")));
    assert_eq!(tumour.description.as_deref(), Some("primary tumour"));
    assert_eq!(
        (lung.number, lung.property.as_deref(), lung.category.as_deref()),
        (2, Some("Lung"), Some("Anatomical Structure"))
    );
    let back = read.labels(&[], series.grid(), &ReadOptions::default()).expect("labels");
    assert_eq!((back.values, back.findings.len()), (numbered(), 0));
    // Next to its images, it belongs to them.
    std::fs::copy(&path, images.path().join("seg.dcm")).expect("copied");
    let pairs = scan(images.path()).expect("scanned").pairs();
    assert_eq!((pairs.pairs.len(), pairs.unpaired.len()), (1, 0));
    assert_eq!(pairs.pairs[0].annotation.patient.as_deref(), Some("P-7"));
}

/// PS3.3, C.12.1: the equipment that processed the images, for readers of the file without its
/// record.
#[test]
fn files_name_the_model_that_found_the_regions() {
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(images.path());
    let regions = labels(&series);
    let author = author().contribution("hearth 1 lung best 0123; series 1.2.3");
    for (name, bytes) in [
        ("seg.dcm", segmentation(&regions, &series, &author).expect("written")),
        ("structures.dcm", structure_set(&regions, &series, &author).expect("written")),
    ] {
        let path = written(out.path(), name, &bytes);
        let object = dicom_object::open_file(&path).expect("DICOM");
        let items = object.element(tags::CONTRIBUTING_EQUIPMENT_SEQUENCE).expect("a sequence").items().expect("items");
        let text = |tag| items[0].element(tag).expect("an element").to_str().expect("text").into_owned();
        assert_eq!(text(tags::CONTRIBUTION_DESCRIPTION), "hearth 1 lung best 0123; series 1.2.3");
        assert_eq!(
            (text(tags::MANUFACTURER), text(tags::SOFTWARE_VERSIONS)),
            ("Hearth".to_owned(), "test 1".to_owned())
        );
        let purpose =
            items[0].element(tags::PURPOSE_OF_REFERENCE_CODE_SEQUENCE).expect("a purpose").items().expect("it");
        assert_eq!(purpose[0].element(tags::CODE_VALUE).expect("a code").to_str().expect("text"), "109102");
    }
}

#[test]
fn regions_that_overlap_come_back() {
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(images.path());
    let mut both = values(|[x, ..]| f32::from(u8::from(x < 6)));
    both.extend(values(|[x, y, _]| f32::from(u8::from(x > 3 && y != 2))));
    let names = vec![Region::new(1, "whole"), Region::new(2, "core")];
    let regions = RegionVolume::of_channels(both, names, series.grid().clone());
    let seg = written(out.path(), "seg.dcm", &segmentation(&regions, &series, &author()).expect("written"));
    let set = written(out.path(), "set.dcm", &structure_set(&regions, &series, &author()).expect("written"));
    for path in [seg, set] {
        let read = Regions::open(&path, &ReadOptions::default()).expect("regions");
        let back = read.channels(&[], series.grid(), &ReadOptions::default()).expect("channels");
        assert!(back.values == regions.values, "{}", path.display());
        assert_eq!(back.regions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["whole", "core"]);
    }
}

#[test]
fn a_label_map_comes_back_from_a_structure_set() {
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(images.path());
    let regions = labels(&series);
    let path = written(out.path(), "set.dcm", &structure_set(&regions, &series, &author()).expect("written"));
    let read = StructureSet::open(&path).expect("a structure set");
    assert_eq!(read.referenced_series, [series.uid()]);
    assert_eq!(
        (read.frame_of_reference.as_deref(), read.label.as_deref()),
        (series.frame_of_reference(), Some("Lung tumours"))
    );
    let types: Vec<_> = read.rois.iter().map(|r| r.interpreted_type.as_deref()).collect();
    assert_eq!(types, [Some("GTV"), Some("ORGAN")]);
    assert_eq!(read.rois[0].color, Some([221, 130, 101]));
    let names = ["GTV-1 (größer)", "Lung-Left"];
    let back = read.labels(&names, series.grid(), &ReadOptions::default()).expect("labels");
    assert_eq!((back.values, back.findings), (numbered(), Vec::new()));
}

/// PS3.3, C.12.1.1.8: the offset applies to all dates and times of a file, and to those copied from the
/// series.
#[test]
fn times_have_the_offset_of_the_series_or_none() {
    let of = |offset: Option<&str>| {
        let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        for k in 0..SIZE[2] {
            let mut object = slice(k);
            object.0.remove_element(tags::TIMEZONE_OFFSET_FROM_UTC);
            if let Some(offset) = offset {
                object = object.text(tags::TIMEZONE_OFFSET_FROM_UTC, VR::SH, offset);
            }
            object.write(&images.path().join(format!("{k}.dcm")));
        }
        let series = scan(images.path()).expect("scanned").series.remove(0);
        let by = author().contribution("a test");
        [segmentation, structure_set].map(|write| {
            let path = written(out.path(), "regions.dcm", &write(&labels(&series), &series, &by).expect("written"));
            dicom_object::open_file(path).expect("DICOM")
        })
    };
    let text = |object: &dicom_object::DefaultDicomObject, tag| {
        object.get(tag).map(|element| element.to_str().expect("a text").into_owned())
    };
    // The author's time is noon in UTC.
    for object in of(Some("-1130")) {
        assert_eq!(text(&object, tags::TIMEZONE_OFFSET_FROM_UTC).as_deref(), Some("-1130"));
        assert_eq!(text(&object, tags::INSTANCE_CREATION_TIME).as_deref(), Some("003000"));
        assert_eq!(text(&object, tags::SERIES_TIME).as_deref(), Some("003000"));
        let own = text(&object, tags::CONTENT_TIME).or(text(&object, tags::STRUCTURE_SET_TIME));
        assert_eq!(own.as_deref(), Some("003000"));
        let equipment = object.get(tags::CONTRIBUTING_EQUIPMENT_SEQUENCE).and_then(|e| e.items()).expect("an item");
        let at = equipment[0].get(tags::CONTRIBUTION_DATE_TIME).expect("a time").to_str().expect("a text");
        assert_eq!(at, "20240229003000");
    }
    for object in of(None) {
        assert_eq!(text(&object, tags::TIMEZONE_OFFSET_FROM_UTC), None);
        assert_eq!(text(&object, tags::STUDY_DATE).as_deref(), Some("20240229"));
        assert!(text(&object, tags::INSTANCE_CREATION_TIME).is_some_and(|time| time.len() == 6));
    }
}

/// PS3.10, 8.6: people name the index of a medium for the images on it.
#[test]
fn a_dicomdir_stands_for_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    series(folder.path());
    let directory = folder.path().join("DICOMDIR");
    let meta = dicom_object::FileMetaTableBuilder::new()
        .transfer_syntax(common::EXPLICIT)
        .media_storage_sop_class_uid("1.2.840.10008.1.3.10")
        .media_storage_sop_instance_uid("1.2.3");
    let object = Object::item().text(tags::FILE_SET_ID, VR::CS, "DISC").0.with_meta(meta).expect("meta");
    object.write_to_file(&directory).expect("written");
    let found = scan(&directory).expect("scanned");
    assert_eq!((found.series.len(), found.series[0].shape()), (1, [1, SIZE[0], SIZE[1], SIZE[2]]));
    assert_eq!(found.others.len(), 1, "the index itself");
}

/// No frame at all is what some writers leave of a segmentation without a voxel.
#[test]
fn a_segmentation_without_a_frame_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("none.dcm");
    Object::new("1.2.840.10008.5.1.4.1.1.66.4", "SEG")
        .text(tags::SEGMENTATION_TYPE, VR::CS, "BINARY")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, "0")
        .write(&path);
    let error = Segmentation::open(&path).expect_err("no frame").to_string();
    assert!(error.contains("NumberOfFrames: 0") && error.contains("of zeros"), "{error}");
    assert!(error.contains("none.dcm"), "{error}");
}

#[test]
fn an_empty_region_is_an_error_until_it_is_kept() {
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let series = series(images.path());
    let nothing = RegionVolume::of_labels(values(|_| 0.0), vec![Region::new(1, "GTV-1")], series.grid().clone());
    for write in [segmentation, structure_set] {
        let error = write(&nothing, &series, &author()).expect_err("empty").to_string();
        assert!(error.contains("\"GTV-1\" has no voxel") && error.contains("keep_empty"), "{error}");
        let bytes = write(&nothing, &series, &author().keep_empty(true)).expect("kept");
        let path = written(out.path(), "empty.dcm", &bytes);
        match Regions::open(&path, &ReadOptions::default()).expect("regions") {
            Regions::Segments(seg) => {
                let back = seg.labels(&["GTV-1"], series.grid(), &ReadOptions::default()).expect("labels");
                assert!(back.values.iter().all(|v| *v == 0.0));
            }
            Regions::Structures(set) => {
                assert_eq!((set.rois[0].name.as_str(), set.rois[0].contours.len()), ("GTV-1", 0))
            }
        }
    }
}

#[test]
fn regions_that_do_not_fit_are_errors() {
    let images = tempfile::tempdir().expect("a folder");
    let series = series(images.path());
    let good = labels(&series);
    let refused = |regions: &RegionVolume, words: &[&str]| {
        for write in [segmentation, structure_set] {
            let error = write(regions, &series, &author()).expect_err("refused").to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
            assert!(error.contains(".dcm"), "names a file: {error}");
        }
    };
    let with = |change: &dyn Fn(&mut RegionVolume)| {
        let mut regions = good.clone();
        change(&mut regions);
        regions
    };
    let [x, y, z] = SIZE;
    let small = Grid::new([x - 1, y, z], *series.grid().affine());
    let regions = RegionVolume::of_labels(vec![0.0; (x - 1) * y * z], good.regions.clone(), small);
    refused(&regions, &["[8, 7, 5]", "[9, 7, 5]", "resample"]);
    let mut affine = *series.grid().affine();
    affine[2][2] += 0.2;
    let regions = RegionVolume::of_labels(good.values.clone(), good.regions.clone(), Grid::new(SIZE, affine));
    refused(&regions, &["lies at", "resample"]);
    refused(&with(&|r| r.values[17] = 3.0), &["1 voxel(s) have the label 3", "2 \"GTV-1", "5 \"Lung-Left\""]);
    refused(&with(&|r| r.values[17] = f32::NAN), &["NaN"]);
    refused(&with(&|r| r.values.truncate(5)), &["5 values"]);
    refused(&with(&|r| r.regions[1].name = "  ".to_owned()), &["label 5 has no name"]);
    refused(&with(&|r| r.regions[1].name = "a\\b".to_owned()), &["without backslash"]);
    refused(&with(&|r| r.regions[1].name = "n".repeat(65)), &["at most 64"]);
    refused(&with(&|r| r.regions[1].label = 2), &["the same label 2"]);
    refused(&with(&|r| r.regions[1].label = 0), &["background"]);
    refused(&with(&|r| r.regions.clear()), &["no region"]);
}

#[test]
fn a_series_that_nothing_can_refer_to_is_an_error() {
    let lacking = |tag| {
        let folder = tempfile::tempdir().expect("a folder");
        for k in 0..SIZE[2] {
            let mut object = slice(k);
            object.0.remove_element(tag);
            object.write(&folder.path().join(format!("{k}.dcm")));
        }
        let series = scan(folder.path()).expect("scanned").series.remove(0);
        segmentation(&labels(&series), &series, &author()).expect_err("refused").to_string()
    };
    for (tag, name) in [
        (tags::FRAME_OF_REFERENCE_UID, "FrameOfReferenceUID"),
        (tags::STUDY_INSTANCE_UID, "StudyInstanceUID"),
        (tags::SOP_INSTANCE_UID, "SOPInstanceUID"),
        (tags::IMAGE_POSITION_PATIENT, "ImagePositionPatient"),
    ] {
        let error = lacking(tag);
        assert!(error.contains(name) && error.contains("missing"), "{error}");
    }
}

#[test]
fn the_same_regions_at_another_time_are_another_object() {
    let images = tempfile::tempdir().expect("a folder");
    let series = series(images.path());
    let regions = labels(&series);
    let first = segmentation(&regions, &series, &author()).expect("written");
    assert_eq!(first, segmentation(&regions, &series, &author()).expect("written"));
    let later = author().created(UNIX_EPOCH + Duration::from_secs(1_709_208_001));
    assert_ne!(first, segmentation(&regions, &series, &later).expect("written"));
    let manual = structure_set(&regions, &series, &author().drawn_by(DrawnBy::Manual)).expect("written");
    assert!(manual.windows(6).any(|w| w == b"MANUAL"));
}

#[test]
fn a_volume_comes_back_from_a_series() {
    let folder = tempfile::tempdir().expect("a folder");
    let affine = [[-0.8, 0.0, 0.1, 9.0], [0.0, -1.5, 0.0, -3.25], [0.0, 0.0, 2.5, 100.0], [0.0, 0.0, 0.0, 1.0]];
    let grid = Grid::new(SIZE, affine);
    let hounsfield = values(|[x, y, z]| (x * 100 + y * 10 + z) as f32 - 1024.0);
    let of = CtIdentity {
        patient: "P 9".to_owned(),
        description: "thorax".to_owned(),
        number: 4,
        uids: "a test".to_owned(),
        created: UNIX_EPOCH,
    };
    for (k, bytes) in ct_slices(&hounsfield, &grid, &of).expect("written").iter().enumerate() {
        written(folder.path(), &format!("{}.dcm", 50 - k), bytes);
    }
    let series = scan(folder.path()).expect("scanned").series.remove(0);
    assert_eq!((series.patient(), series.number(), series.description()), (Some("P 9"), Some(4), Some("thorax")));
    assert!(series.uid().starts_with("2.25.") && series.uid() != series.study());
    let volume = series.read().expect("a volume");
    assert_eq!((volume.values, volume.units.as_deref()), (hounsfield.clone(), Some("HU")));
    for (got, expected) in volume.affine.as_flattened().iter().zip(affine.as_flattened()) {
        assert!((got - expected).abs() < 1e-9, "{got} {expected}");
    }
    let refused = |values: &[f32], grid: &Grid, word: &str| {
        let error = ct_slices(values, grid, &of).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(&hounsfield[1..], &grid, "314 values");
    refused(&values(|_| f32::INFINITY), &grid, "inf");
    let mut sheared = affine;
    sheared[0][1] = 0.5;
    refused(&hounsfield, &Grid::new(SIZE, sheared), "right angles");
}

/// Reads both files with pydicom and highdicom, and prints the numbers of [`expected`].
const SCRIPT: &str = r#"
import json, sys
import numpy as np
import pydicom
import highdicom as hd
seg_path, set_path, *images = sys.argv[1:]
images = sorted((pydicom.dcmread(p) for p in images), key=lambda d: -int(d.InstanceNumber))
uids = [d.SOPInstanceUID for d in images]

seg = hd.seg.segread(seg_path)
numbers = list(seg.segment_numbers)
drawn = seg.get_pixels_by_source_instance(uids, combine_segments=False, ignore_spatial_locations=False)
volume = seg.get_volume(combine_segments=True)
about = [seg.get_segment_description(n) for n in numbers]
out = {"seg": {
    "numbers": [int(n) for n in numbers],
    "labels": [a.segment_label for a in about],
    "types": [a.segmented_property_type.meaning for a in about],
    "algorithms": [a.algorithm_type.value for a in about],
    "patient": [str(seg.PatientID), str(seg.PatientName)],
    "sources": sorted({str(s) for _, _, s in seg.get_source_image_uids()}),
    "frames": int(seg.NumberOfFrames),
    "volume": sorted(int(v) for v in np.unique(volume.array)),
    "voxels": [[int(v) for v in np.flatnonzero(drawn[..., i].transpose(2, 1, 0))] for i in range(len(numbers))],
}}

def inside(polygon, x, y):
    hit = np.zeros(x.shape, bool)
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, 1, axis=0)):
        cross = (ay > y) != (by > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            hit ^= cross & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
    return hit

rt = pydicom.dcmread(set_path)
first = images[0]
row, column = np.array(first.ImageOrientationPatient, float).reshape(2, 3)
dy, dx = map(float, first.PixelSpacing)
x, y = np.meshgrid(np.arange(first.Columns), np.arange(first.Rows), indexing="ij")
voxels = []
for roi in rt.ROIContourSequence:
    mask = np.zeros((first.Columns, first.Rows, len(images)), bool)
    for contour in roi.ContourSequence:
        k = uids.index(contour.ContourImageSequence[0].ReferencedSOPInstanceUID)
        points = np.array(contour.ContourData, float).reshape(-1, 3) - np.array(images[k].ImagePositionPatient, float)
        assert len(points) == contour.NumberOfContourPoints and contour.ContourGeometricType == "CLOSED_PLANAR"
        assert abs(points @ np.cross(row, column)).max() < 1e-4
        mask[..., k] |= inside(np.stack([points @ row / dx, points @ column / dy], 1), x, y)
    voxels.append([int(v) for v in np.flatnonzero(mask)])
frame = rt.ReferencedFrameOfReferenceSequence[0]
referenced = frame.RTReferencedStudySequence[0].RTReferencedSeriesSequence[0]
out["set"] = {
    "names": [str(r.ROIName) for r in rt.StructureSetROISequence],
    "types": [str(r.RTROIInterpretedType) for r in rt.RTROIObservationsSequence],
    "series": str(referenced.SeriesInstanceUID),
    "images": sorted(str(i.ReferencedSOPInstanceUID) for i in referenced.ContourImageSequence),
    "frame": [str(frame.FrameOfReferenceUID), str(first.FrameOfReferenceUID)],
    "patient": [str(rt.PatientID), str(rt.PatientName)],
    "voxels": voxels,
}
print(json.dumps(out))
"#;

/// The expected output of a client for the two files.
fn expected() -> Value {
    let of = |label: u32| -> Vec<usize> {
        values(|at| f32::from(u8::from(value(at) == label)))
            .iter()
            .enumerate()
            .filter(|(_, v)| **v > 0.0)
            .map(|(i, _)| i)
            .collect()
    };
    let voxels = [of(2), of(5)];
    let instances: Vec<String> = (0..SIZE[2]).map(|k| format!("1.2.826.0.1.3680043.8.498.7.{k}")).collect();
    let patient = ["P-7", "Müller^Jörg"];
    // Slice 1 has no frame; the others have one or two.
    json!({
        "seg": {
            "numbers": [1, 2],
            "labels": ["GTV-1 (größer)", "Lung-Left"],
            "types": ["Neoplasm", "Lung"],
            "algorithms": ["AUTOMATIC", "AUTOMATIC"],
            "patient": patient,
            "sources": instances,
            "frames": 5,
            "volume": [0, 1, 2],
            "voxels": voxels,
        },
        "set": {
            "names": ["GTV-1 (größer)", "Lung-Left"],
            "types": ["GTV", "ORGAN"],
            "series": "1.2.826.0.1.3680043.8.498.6",
            "images": instances,
            "frame": ["1.2.826.0.1.3680043.8.498.8", "1.2.826.0.1.3680043.8.498.8"],
            "patient": patient,
            "voxels": voxels,
        },
    })
}

fn record() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/highdicom.json")
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn both(folder: &Path) -> [Vec<u8>; 2] {
    let series = series(folder);
    let regions = labels(&series);
    [segmentation, structure_set].map(|write| write(&regions, &series, &author()).expect("written"))
}

#[test]
fn clients_read_what_is_written() {
    let images = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(record()).expect("the record");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let sums: Vec<String> = both(images.path()).iter().map(|bytes| sum(bytes)).collect();
    let how = clients::how_to_record("hearth-dicom");
    assert_eq!(json!(sums), recorded["files"], "other files are written now. {how}");
    assert_eq!(recorded["said"], expected());
}

#[test]
fn live_clients_read_what_is_written() {
    let Some(python) = clients::find(&["pydicom", "highdicom", "numpy"], "clients_read_what_is_written") else {
        return;
    };
    let (images, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let [seg, set] = both(images.path());
    let sums = [sum(&seg), sum(&set)];
    let mut arguments = vec![written(out.path(), "seg.dcm", &seg), written(out.path(), "set.dcm", &set)];
    arguments.extend((0..SIZE[2]).map(|k| images.path().join(format!("{}.dcm", 9 - k))));
    let said: Value = serde_json::from_str(&python.run(SCRIPT, &arguments)).expect("JSON");
    assert_eq!(said, expected());
    if clients::recording() {
        let text = json!({ "made_with": python.versions(), "files": sums, "said": said });
        std::fs::create_dir_all(record().parent().expect("a folder")).expect("made");
        std::fs::write(record(), format!("{text}\n")).expect("written");
    }
}

/// The structures of real series, written to both files and read back.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn real_structures_come_back() {
    let out = tempfile::tempdir().expect("a folder");
    let options = ReadOptions::default();
    let sts = ["CT", "MR_T1", "PET"].map(|name| (format!("sts008/{name}"), format!("sts008/RS_{name}.dcm")));
    let all = sts.into_iter().chain([("ct_rtstruct_2slice".to_owned(), "ct_rtstruct_2slice/rt.dcm".to_owned())]);
    for (images, drawn) in all {
        let root = real_data().join("dicom");
        let series = scan(root.join(&images)).expect("scanned").series.remove(0);
        let regions = Regions::open(root.join(&drawn), &options).expect("regions");
        let regions = regions.channels(&[], series.grid(), &options).expect("channels");
        let inside = regions.values.iter().filter(|v| **v > 0.0).count();
        assert!(inside > 100, "{drawn}: {inside}");
        for write in [segmentation, structure_set] {
            let path = written(out.path(), "regions.dcm", &write(&regions, &series, &author()).expect("written"));
            let back = Regions::open(&path, &options).expect("regions");
            let back = back.channels(&[], series.grid(), &options).expect("channels");
            assert!(back.values == regions.values, "{drawn}: other voxels");
            assert!(back.findings.is_empty(), "{drawn}: {:?}", back.findings);
        }
    }
}
