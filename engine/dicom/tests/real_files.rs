//! Real files against the output of other readers (`expected.json`). Ignored: the files are not
//! part of the project.

mod common;

use std::path::{Path, PathBuf};

use common::real_data;
use hearth_dicom::{
    AnnotationKind, DicomError, FindingKind, ReadOptions, Segmentation, SegmentationKind, Series, Severity, StoredType,
    StructureSet, Volume, read_path, read_stored, scan,
};
use nifti::{NiftiObject, NiftiVolume, RandomAccessNiftiVolume, ReaderOptions};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn expected() -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(real_data().join("expected.json")).expect("expected.json");
    serde_json::from_str(&text).expect("JSON")
}

fn series(folder: &str) -> Series {
    let mut scan = scan(real_data().join(folder)).expect("a folder");
    assert!(scan.failed.is_empty(), "{:?}", scan.failed);
    assert_eq!(scan.series.len(), 1, "{:?}", scan.series.iter().map(Series::summary).collect::<Vec<_>>());
    scan.series.remove(0)
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// Decoded by another implementation with other rounding: close, but not equal.
const LOSSY: [&str; 3] = ["boxes_0.dcm", "JPGExtended.dcm", "JPEG2000.dcm"];

/// Compares the stored pixels of one file.
fn compare_pixels(path: &Path, expected: &Value) -> Result<(), String> {
    let name = path.to_string_lossy();
    let stored = match read_stored(path, &ReadOptions::default()) {
        Ok(stored) => stored,
        Err(DicomError::Unsupported { what, .. }) if name.contains("jpegls") && what.contains("charls") => {
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    let wanted: Vec<usize> = serde_json::from_value(expected["shape"].clone()).unwrap_or_default();
    let [frames, rows, columns, channels] = stored.shape;
    let mut shape = vec![rows, columns];
    if frames > 1 || expected["shape"].as_array().map(Vec::len) == Some(3 + usize::from(channels > 1)) {
        shape.insert(0, frames);
    }
    if channels > 1 {
        shape.push(channels);
    }
    if shape != wanted {
        return Err(format!("shape {shape:?}, expected {wanted:?}"));
    }
    if Some(stored.stored_type.name()) != expected["dtype"].as_str() {
        return Err(format!("{}, expected {}", stored.stored_type.name(), expected["dtype"]));
    }
    let sum = Sha256::digest(&stored.bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
    if Some(sum.as_str()) == expected["pixel_sha256"].as_str() {
        return Ok(());
    }
    if !LOSSY.iter().any(|l| name.ends_with(l)) {
        return Err("other pixels".to_owned());
    }
    let values: Vec<f64> = match stored.stored_type.name() {
        "uint8" => stored.bytes.iter().map(|b| f64::from(*b)).collect(),
        "uint16" => stored.bytes.as_chunks::<2>().0.iter().map(|b| f64::from(u16::from_le_bytes(*b))).collect(),
        _ => stored.bytes.as_chunks::<2>().0.iter().map(|b| f64::from(i16::from_le_bytes(*b))).collect(),
    };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    let near = |got: f64, what: &str, slack: f64| (got - expected[what].as_f64().unwrap_or(f64::NAN)).abs() <= slack;
    if near(low, "min", 1.0) && near(high, "max", 1.0) && near(mean, "mean", 0.02) {
        return Ok(());
    }
    Err(format!(
        "{low} to {high}, mean {mean}, expected {}, {}, {}",
        expected["min"], expected["max"], expected["mean"]
    ))
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn stored_pixels_are_those_of_pydicom() {
    let root = real_data();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, expected) in expected().iter().filter(|(_, e)| e["kind"] == "dicom" && e["pixel_sha256"].is_string()) {
        count += 1;
        if let Err(what) = compare_pixels(&root.join(name), expected) {
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n  {}", wrong.len(), wrong.join("\n  "));
    println!("{count} files with pixels");
    assert!(count > 200);
}

/// A NIfTI file read by another reader: values as `[X, Y, Z]`, Z fastest.
fn nifti(name: &str) -> (Vec<f32>, [usize; 3]) {
    let object = ReaderOptions::new().read_file(real_data().join(name)).expect("a NIfTI file");
    let [x, y, z] = [0, 1, 2].map(|i| usize::from(object.volume().dim()[i]));
    let mut values = Vec::new();
    for i in 0..x as u16 {
        for j in 0..y as u16 {
            values.extend((0..z as u16).map(|k| object.volume().get_f32(&[i, j, k]).expect("inside")));
        }
    }
    (values, [x, y, z])
}

/// Volumes and masks of one patient, by another group's conversion of the same files: exact.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn volumes_and_masks_of_sts008_are_exact() {
    for (modality, slack, units) in [("CT", 0.0, None), ("MR_T1", 0.0, None), ("PET", 4e-7, Some("GML"))] {
        let series = series(&format!("dicom/sts008/{modality}"));
        assert!(series.findings().iter().all(|f| f.severity == Severity::Note), "{:?}", series.findings());
        let volume = series.read().expect("a volume");
        let name = format!("tumour_ct/sts/STS_008_{modality}_image.nii.gz");
        let (values, [x, y, z]) = nifti(&name);
        let affine: [[f64; 4]; 4] = serde_json::from_value(expected()[&name]["affine"].clone()).expect("an affine");
        assert_eq!(volume.shape, [1, x, y, z]);
        assert_eq!(volume.units.as_deref().filter(|_| units.is_some()), units);
        let worst =
            values.iter().zip(&volume.values).map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f32::max);
        assert!(worst <= slack, "{modality}: {worst}");
        for (row, wanted) in volume.affine.iter().zip(affine) {
            assert!(
                row.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3),
                "{:?}, expected {affine:?}",
                volume.affine
            );
        }
        let set = StructureSet::open(real_data().join(format!("dicom/sts008/RS_{modality}.dcm"))).expect("contours");
        assert_eq!(set.regions().len(), 1);
        assert_eq!((set.rois[0].color, set.rois[0].contours.len()), (Some([255, 0, 0]), 19));
        let mask = set.mask(&format!("GTV_Mass_{modality}"), volume.grid()).expect("a mask");
        assert!(mask.findings.is_empty(), "{:?}", mask.findings);
        let (wanted, _) = nifti(&format!("tumour_ct/sts/STS_008_{modality}_mask.nii.gz"));
        let wrong = wanted.iter().zip(&mask.values).filter(|(a, b)| (**a > 0.0) != (**b > 0)).count();
        let inside = mask.values.iter().filter(|v| **v > 0).count();
        println!("{modality}: {inside} voxels inside, {wrong} differ");
        assert!(wrong == 0 && inside > 100, "{modality}: {wrong} of {inside} voxels differ");
        assert!(set.mask("GTV", volume.grid()).expect_err("no such name").to_string().contains("GTV_Mass"));
    }
}

/// The result matches the header of each slice.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn single_files_lie_where_their_headers_say() {
    let root = real_data();
    let mut count = 0;
    let has = |e: &Value, what: &str| e[what].is_array();
    for (name, expected) in expected().iter().filter(|(_, e)| e["kind"] == "dicom" && e["pixel_sha256"].is_string()) {
        if !has(expected, "ImagePositionPatient") || !has(expected, "PixelSpacing") {
            continue;
        }
        count += 1;
        let volume = read_path(root.join(name), &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let position = numbers(&expected["ImagePositionPatient"]);
        let cosines = numbers(&expected["ImageOrientationPatient"]);
        let [dy, dx] = numbers(&expected["PixelSpacing"]).try_into().expect("two");
        for (axis, sign) in [-1.0, -1.0, 1.0].into_iter().enumerate() {
            let wanted = [cosines[axis] * dx * sign, cosines[3 + axis] * dy * sign, position[axis] * sign];
            let got = [volume.affine[axis][0], volume.affine[axis][1], volume.affine[axis][3]];
            assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{name}: {got:?}, expected {wanted:?}");
        }
        let slope = expected["RescaleSlope"].as_f64().filter(|_| volume.modality != "RTDOSE").unwrap_or(1.0);
        if volume.modality != "RTDOSE" && volume.findings.iter().all(|f| f.kind != FindingKind::Lossy) {
            let intercept = expected["RescaleIntercept"].as_f64().unwrap_or(0.0);
            let low = volume.values.iter().copied().fold(f32::INFINITY, f32::min);
            let wanted = (expected["min"].as_f64().expect("a number") * slope + intercept) as f32;
            assert!((low - wanted).abs() <= 1e-6 * wanted.abs(), "{name}: minimum {low}, expected {wanted}");
        }
    }
    println!("{count} files with geometry");
    assert!(count > 150);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn transcoded_files_are_the_same_volumes() {
    let same = |a: &Volume, b: &Volume, what: &str| {
        assert_eq!((a.shape, a.affine, a.rescale), (b.shape, b.affine, b.rescale), "{what}");
        assert!(a.values == b.values, "{what}: other values");
    };
    let read =
        |name: &str| read_path(real_data().join(name), &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let original = read("dicom/ct_abdomen_3slice");
    assert_eq!((original.shape, original.stored_type), ([1, 512, 512, 3], StoredType::I16));
    for codec in ["rle", "j2k", "jpegls"] {
        same(&original, &read(&format!("dicom/ct_abdomen_3slice_transcoded/{codec}")), codec);
    }
    // All three in one folder: the same slices three times.
    let all = series("dicom/ct_abdomen_3slice_transcoded");
    assert!(all.findings().iter().any(|f| f.kind == FindingKind::DuplicateSlices && f.files.len() == 6));
    same(&original, &all.read().expect("a volume"), "together");
    let small = read("dicom/transfer_syntax/MR_small.dcm");
    for name in ["implicit", "bigendian", "RLE", "jp2klossless", "jpeg_ls_lossless", "padded"] {
        same(&small, &read(&format!("dicom/transfer_syntax/MR_small_{name}.dcm")), name);
    }
    let enhanced = read("dicom/enhanced_multiframe/emri_small.dcm");
    // Its functional groups were removed; the distance of slices is still present.
    assert_eq!((enhanced.shape, enhanced.affine[2][2]), ([1, 64, 64, 10], 1.2));
    assert!(
        enhanced.findings.iter().any(|f| f.kind == FindingKind::MissingPosition && f.severity == Severity::Warning)
    );
    for name in ["RLE", "big_endian", "jpeg_2k_lossless", "jpeg_ls_lossless"] {
        same(&enhanced, &read(&format!("dicom/enhanced_multiframe/emri_small_{name}.dcm")), name);
    }
    same(&read("dicom/rt/rtdose.dcm"), &read("dicom/rt/rtdose_rle.dcm"), "dose");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn odd_series_are_told() {
    let tilted = series("dicom/ct_gantry_tilt_uneven");
    let kinds: Vec<_> = tilted.findings().iter().map(|f| (f.kind, f.severity)).collect();
    assert!(kinds.contains(&(FindingKind::MissingSlices, Severity::Error)), "{kinds:?}");
    assert!(kinds.contains(&(FindingKind::GantryTilt, Severity::Warning)), "{kinds:?}");
    let tilt = tilted.findings().iter().find(|f| f.kind == FindingKind::GantryTilt).expect("told");
    assert!(tilt.text.contains("18.5 degrees"), "{tilt}");
    assert!(tilted.read().is_err());
    let options = ReadOptions::default().accept(FindingKind::MissingSlices);
    let volume = tilted.read_with(&options).expect("accepted");
    // z rises by 69.2160586 - 52.2560586 in four steps, straight up, while rows lean back: a shear.
    let column = [0, 1, 2].map(|r| (volume.affine[r][2] * 1e6).round() / 1e6);
    assert_eq!(column, [0.0, 0.0, 4.24]);
    assert!((volume.affine[1][1] + 0.488_281_2 * 0.948_323_7).abs() < 1e-6);

    let oblique = series("dicom/ct_oblique_3slice");
    assert!(oblique.findings().is_empty(), "{:?}", oblique.findings());
    let volume = oblique.read().expect("a volume");
    assert_eq!(volume.shape, [1, 100, 50, 3]);
    assert_eq!(oblique.grid().spacing().map(|s| (s * 1e3).round() / 1e3), [2.5, 3.5, 4.5]);
    assert_eq!(volume.rescale.map(|r| r.slope), Some(0.001));

    let backwards = series("dicom/mr_like_17slice");
    let volume = backwards.read().expect("a volume");
    assert_eq!((volume.shape, backwards.grid().spacing()[2].round()), ([1, 88, 128, 17], 2.0));
    assert!(volume.affine[0][0] > 0.0 && volume.affine[1][1] > 0.0, "rows run to the right, columns to the front");
    assert!(backwards.findings().is_empty(), "{:?}", backwards.findings());

    let tiny = series("dicom/ct_tiny_4slice");
    let gap = tiny.findings().iter().find(|f| f.kind == FindingKind::MissingSlices).expect("told");
    assert!(gap.text.contains("202.500 mm between 17106.dcm, 17136.dcm"), "{gap}");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn malformed_files_are_errors_that_name_them() {
    let root = real_data().join("dicom/malformed");
    let mut count = 0;
    for entry in std::fs::read_dir(&root).expect("a folder") {
        let path = entry.expect("a file").path();
        let error = read_path(&path, &ReadOptions::default()).expect_err("malformed").to_string();
        println!("{error}");
        assert!(error.contains(&*path.file_name().expect("a name").to_string_lossy()), "{error}");
        count += 1;
    }
    assert_eq!(count, 7);
    // As a folder: valid files are read, invalid ones are reported.
    let scan = scan(&root).expect("a folder");
    assert!(scan.series.is_empty() && !scan.failed.is_empty() && scan.not_dicom == 1);
    let truncated = read_path(root.join("MR_truncated.dcm"), &ReadOptions::default()).expect_err("cut").to_string();
    assert!(truncated.contains("truncated"), "{truncated}");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn objects_without_images_say_what_they_are() {
    let message =
        |name: &str| read_path(real_data().join(name), &ReadOptions::default()).expect_err("no image").to_string();
    assert!(message("dicom/rt/rtplan.dcm").contains("modality RTPLAN"));
    assert!(message("dicom/rt/rtstruct.dcm").contains("StructureSet::open"));
    assert!(message("dicom/seg/liver.dcm").contains("Segmentation::open"));
    assert!(message("wsi/dicom/sm_image.dcm").contains("whole slide"));
    let dose = read_path(real_data().join("dicom/rt/rtdose.dcm"), &ReadOptions::default()).expect("a dose");
    assert_eq!((dose.shape, dose.units.as_deref()), ([1, 10, 10, 15], Some("RELATIVE")));
    assert!(dose.values.iter().all(|v| (0.7..1.3).contains(v)), "DoseGridScaling is 1e-6");
}

/// A NRRD volume of shorts, gzipped: values as `[X, Y, Z]`, Z fastest.
fn nrrd(name: &str, [x, y, z]: [usize; 3]) -> Vec<f32> {
    let bytes = std::fs::read(real_data().join(name)).expect("a file");
    let start = bytes.windows(2).position(|w| w == b"\n\n").expect("a header") + 2;
    let mut raw = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[start..]), &mut raw).expect("gzip");
    let value = |i: usize| f32::from(i16::from_le_bytes([raw[2 * i], raw[2 * i + 1]]));
    let mut out = Vec::new();
    for i in 0..x {
        for j in 0..y {
            out.extend((0..z).map(|k| value((k * y + j) * x + i)));
        }
    }
    out
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn segmentations_become_label_maps_and_channels() {
    let open = |name: &str| Segmentation::open(real_data().join("dicom/seg").join(name)).expect("a segmentation");
    let options = ReadOptions::default();
    let count = |values: &[f32], label: f32| values.iter().filter(|v| **v == label).count();
    let abdomen = series("dicom/ct_abdomen_3slice");

    let liver = open("liver.dcm");
    assert_eq!(liver.kind(), SegmentationKind::Binary);
    let segment = &liver.segments()[0];
    assert_eq!(
        (segment.label.as_str(), segment.color, segment.property.as_deref()),
        ("Liver", Some([221, 130, 101]), Some("Liver"))
    );
    let labels = liver.labels(&[], abdomen.grid(), &options).expect("labels");
    assert!(labels.findings.is_empty());
    assert!(labels.values == nrrd("dicom/seg/liver_seg.nrrd", [512, 512, 3]), "as dcmqi's source has it");
    let own = liver.own_grid().expect("a grid");
    assert_eq!(own.shape(), [512, 512, 3]);
    assert!(
        own.affine().iter().flatten().zip(abdomen.grid().affine().iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-4)
    );

    let overlapping = open("partial_overlaps.dcm");
    let labels = overlapping.labels(&[], abdomen.grid(), &options).expect("labels");
    assert_eq!((1..=5).map(|l| count(&labels.values, l as f32)).collect::<Vec<_>>(), [6518, 11838, 10743, 6693, 4713]);
    assert!(
        labels.findings.iter().any(|f| f.kind == FindingKind::Overlap && f.text.contains("3134")),
        "{:?}",
        labels.findings
    );
    let channels = overlapping.channels(&[], abdomen.grid(), &options).expect("channels");
    assert_eq!(channels.shape, [5, 512, 512, 3]);
    let sums: Vec<usize> = channels.values.chunks(512 * 512 * 3).map(|c| count(c, 1.0)).collect();
    assert_eq!(sums, [9602, 11888, 10743, 6693, 4713]);
    let some = overlapping.channels(&["DARK_BLUE", "nothing"], abdomen.grid(), &options).expect("channels");
    assert_eq!((count(&some.values, 1.0), some.regions.len()), (4713, 2));
    assert!(some.findings.iter().any(|f| f.kind == FindingKind::MissingRegion));
    assert!(overlapping.labels(&["nothing"], abdomen.grid(), &options).is_err());

    let tiny = series("dicom/ct_tiny_4slice");
    let binary = open("seg_image_ct_binary.dcm").labels(&[], tiny.grid(), &options).expect("labels");
    // Slices are distinguished by position, although the gaps are uneven.
    let per_slice: Vec<usize> =
        (0..4).map(|k| binary.values.iter().skip(k).step_by(4).filter(|v| **v == 1.0).count()).collect();
    assert_eq!(per_slice, [0, 127, 256, 255]);
    let fractional = open("seg_image_ct_true_fractional.dcm");
    assert_eq!(fractional.kind(), SegmentationKind::Fractional { maximum: 255 });
    let fractions = fractional.channels(&[], tiny.grid(), &options).expect("channels");
    let sum: f64 = fractions.values.iter().map(|v| f64::from(*v)).sum();
    assert!((sum - f64::from(17_664 + 32_768 + 32_704) / 255.0).abs() < 1e-3, "{sum}");
    let whole = open("seg_image_ct_binary_fractional.dcm").labels(&[], tiny.grid(), &options).expect("labels");
    assert_eq!(whole.values, binary.values);
    let both =
        open("seg_image_ct_binary_overlap.dcm").channels(&["second segment"], tiny.grid(), &options).expect("channels");
    assert_eq!(count(&both.values, 1.0), 16);

    let sparse = open("sparse-labelmap-noppv.dcm");
    assert_eq!((sparse.kind(), sparse.regions().len()), (SegmentationKind::LabelMap, 1));
    let grid = sparse.own_grid().expect("a grid");
    // Two frames 5 mm apart, slices 2.5 mm: the empty one between was omitted.
    assert_eq!((grid.shape(), grid.spacing()[2]), ([24, 38, 3], 2.5));
    let labels = sparse.labels(&[], &grid, &options).expect("labels");
    let per_slice: Vec<usize> =
        (0..3).map(|k| labels.values.iter().skip(k).step_by(3).filter(|v| **v == 1.0).count()).collect();
    assert_eq!(per_slice, [315, 0, 315]);
    let elsewhere = sparse.labels(&[], abdomen.grid(), &options).expect_err("other pixels");
    assert!(matches!(elsewhere, DicomError::Grid { .. }), "{elsewhere}");
    let slide = Segmentation::open(real_data().join("wsi/dicom/seg_image_sm_control.dcm")).expect("a segmentation");
    assert!(slide.own_grid().expect_err("no places").to_string().contains("whole slide"));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_contour_within_another_is_a_hole() {
    let scan = scan(real_data().join("dicom/ct_rtstruct_2slice")).expect("a folder");
    assert_eq!((scan.series.len(), scan.annotations.len()), (1, 1));
    let set = StructureSet::open(&scan.annotations[0].path).expect("contours");
    let mask = set.mask("ROI-1", scan.series[0].grid()).expect("a mask");
    // A square of 49 pixels, less one of 31 whose corner (three pixels) is cut.
    assert_eq!(mask.values.iter().filter(|v| **v > 0).count(), 49 * 49 - (31 * 31 - 3));
    let points = StructureSet::open(real_data().join("dicom/rt/rtstruct.dcm")).expect("contours");
    let names: Vec<&str> = points.rois.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["patient", "Isocenter 1", "Isocenter 2"]);
}

/// A folder as downloaded from The Cancer Imaging Archive.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn images_and_segmentations_are_paired() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = |from: &str, to: &str| {
        let from = real_data().join(from);
        let to = folder.path().join(to);
        std::fs::create_dir_all(&to).expect("made");
        let files: Vec<PathBuf> = if from.is_dir() {
            std::fs::read_dir(&from).expect("a folder").map(|e| e.expect("a file").path()).collect()
        } else {
            vec![from]
        };
        for file in files {
            std::fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("copied");
        }
    };
    link("dicom/ct_abdomen_3slice", "case/image");
    link("dicom/seg/liver.dcm", "case/seg");
    link("dicom/sts008/CT", "sts/image");
    link("dicom/sts008/RS_CT.dcm", "sts");
    link("dicom/seg/sparse-labelmap-noppv.dcm", "lost");
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!((scan.series.len(), scan.annotations.len()), (2, 3));
    let found = scan.pairs();
    assert_eq!((found.pairs.len(), found.unpaired.len()), (2, 1));
    assert!(found.unpaired[0].1.contains("which is missing"), "{:?}", found.unpaired);
    for pair in &found.pairs {
        let (image, regions) = pair.read_labels(&[], &ReadOptions::default()).expect("both");
        assert_eq!(image.shape[1..], regions.shape[1..]);
        let inside = regions.values.iter().filter(|v| **v == 1.0).count();
        match pair.annotation.kind {
            AnnotationKind::Segmentation => assert_eq!((regions.regions[0].name.as_str(), inside), ("Liver", 107_098)),
            AnnotationKind::StructureSet => assert_eq!(regions.regions[0].name, "GTV_Mass_CT"),
        }
    }
}
