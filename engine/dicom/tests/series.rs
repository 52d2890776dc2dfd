//! Folders of small written files: order, geometry, values, and findings.

mod common;

use common::{CT, Object, slice, write_stack};
use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_dicom::{
    DicomError, FindingKind, Limits, Monochrome1, ReadOptions, Scan, Severity, StoredType, read_path, read_stored, scan,
};
use tempfile::{TempDir, tempdir};

fn folder() -> TempDir {
    tempdir().expect("a folder")
}

fn kinds(scan: &Scan) -> Vec<(FindingKind, Severity)> {
    scan.series.iter().flat_map(|s| s.findings().iter().map(|f| (f.kind, f.severity))).collect()
}

fn found(scan: &Scan, kind: FindingKind) -> String {
    let mut findings = scan.series.iter().flat_map(|s| s.findings());
    findings.find(|f| f.kind == kind).map(|f| f.text.clone()).expect("the finding is reported")
}

#[test]
fn slices_are_sorted_by_place_whatever_their_names_and_numbers() {
    let folder = folder();
    // Names in order c, a, b; instance numbers 1, 2, 3; positions 4, 0, 2.
    for (name, number, z) in [("c.dcm", 1, 4.0), ("a.dcm", 2, 0.0), ("sub/b", 3, 2.0)] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        slice(number, [10.0, 20.0, z]).write(&path);
    }
    std::fs::write(folder.path().join("README.txt"), "no DICOM").expect("written");
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!((scan.series.len(), scan.not_dicom, scan.failed.len()), (1, 1, 0));
    assert!(kinds(&scan).is_empty(), "{:?}", kinds(&scan));
    let volume = scan.series[0].read().expect("a volume");
    assert_eq!((volume.shape, volume.stored_type), ([1, 3, 2, 3], StoredType::U16));
    // Along z at x = 0, y = 0; then x = 2, y = 1 (pixel 5 of its slice).
    assert_eq!(volume.values[..3], [200.0, 300.0, 100.0]);
    assert_eq!(volume.get([0, 2, 1, 1]), Some(305.0));
    assert_eq!(volume.get([0, 3, 0, 0]), None);
    let expected = [[-0.75, 0.0, 0.0, -10.0], [0.0, -0.5, 0.0, -20.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    assert_eq!(volume.affine, expected);
    let names: Vec<_> =
        volume.files.iter().map(|f| f.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["a.dcm", "b", "c.dcm"]);
    assert_eq!((volume.modality.as_str(), volume.series_description.as_deref()), ("CT", Some("thorax")));
}

#[test]
fn missing_slices_are_an_error_until_they_are_accepted() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0, 8.0, 10.0]);
    let scanned = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scanned), [(FindingKind::MissingSlices, Severity::Error)]);
    let text = found(&scanned, FindingKind::MissingSlices);
    assert!(text.contains("4.000 mm between 2.dcm, 3.dcm") && text.contains("usual 2.000"), "{text}");
    let error = scanned.series[0].read().expect_err("refused");
    assert!(matches!(&error, DicomError::Findings { findings, .. } if findings.len() == 1), "{error}");
    assert!(error.to_string().contains("accept(FindingKind::MissingSlices)"), "{error}");
    let volume =
        scanned.series[0].read_with(&ReadOptions::default().accept(FindingKind::MissingSlices)).expect("accepted");
    assert_eq!((volume.shape[3], volume.affine[2][2]), (5, 2.5), "the mean distance");
    assert_eq!(volume.findings.len(), 1);
}

#[test]
fn uneven_gaps_are_a_warning() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.2, 6.2]);
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::UnevenGaps, Severity::Warning)]);
    assert!(found(&scan, FindingKind::UnevenGaps).contains("1.dcm, 2.dcm"));
    scan.series[0].read().expect("read all the same");
}

/// Stacked at 4.667 mm, the fifth slice of 3, 3, 3, 3, 6, ... would lie 6.7 mm off.
#[test]
fn slices_far_off_their_even_places_are_an_error() {
    let places = |gaps: &[f64]| {
        let mut places = vec![0.0];
        for gap in gaps {
            places.push(places[places.len() - 1] + gap);
        }
        places
    };
    for (gaps, kind) in [
        (&[3.0, 3.0, 3.0, 3.0, 6.0, 6.0, 6.0, 6.0, 6.0][..], FindingKind::MissingSlices),
        (&[6.0, 6.0, 6.0, 6.0, 6.0, 3.0][..], FindingKind::MissingSlices),
        // No gap is odd by itself, yet slices lie 1.9 mm off.
        (&[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.9, 2.9, 2.9, 2.9, 2.9][..], FindingKind::UnevenGaps),
    ] {
        let folder = folder();
        write_stack(folder.path(), &places(gaps));
        let scan = scan(folder.path()).expect("scanned");
        assert_eq!(kinds(&scan), [(kind, Severity::Error)], "{gaps:?}");
        scan.series[0].read().expect_err("refused");
        scan.series[0].read_with(&ReadOptions::default().accept(kind)).expect("accepted");
    }
    let folder = folder();
    write_stack(folder.path(), &places(&[3.0, 3.0, 3.0, 3.0, 6.0, 6.0, 6.0, 6.0, 6.0]));
    let text = found(&scan(folder.path()).expect("scanned"), FindingKind::MissingSlices);
    assert!(text.contains("up to 6.67 mm off"), "{text}");
}

/// Faulty anonymizers give all slices of a series one SOPInstanceUID.
#[test]
fn slices_that_share_an_instance_uid_are_all_read() {
    let folder = folder();
    for i in 0..10_u16 {
        let one = slice(i + 1, [10.0, 20.0, f64::from(i)])
            .text(tags::SOP_INSTANCE_UID, VR::UI, "1.2.3.4")
            .text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2")
            .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, "1.2.5");
        one.write(&folder.path().join(format!("{i}.dcm")));
    }
    std::fs::copy(folder.path().join("3.dcm"), folder.path().join("copy.dcm")).expect("copied");
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(
        kinds(&scan),
        [(FindingKind::DuplicateSlices, Severity::Warning), (FindingKind::SharedInstance, Severity::Warning)]
    );
    assert!(found(&scan, FindingKind::SharedInstance).contains("9 slice(s)"));
    assert!(found(&scan, FindingKind::DuplicateSlices).contains("copy.dcm"));
    let volume = scan.series[0].read().expect("a volume");
    assert_eq!((volume.shape, &volume.values[..3]), ([1, 3, 2, 10], &[100.0, 200.0, 300.0][..]));
    let error = hearth_dicom::write::check(&scan.series[0]).expect_err("one UID").to_string();
    assert!(error.contains("SOPInstanceUID") && error.contains("nothing can refer"), "{error}");
}

/// A description in Kanji, by escape sequences between the two sets of the file.
#[test]
fn texts_with_code_extensions_are_decoded() {
    let folder = folder();
    let path = folder.path().join("a.dcm");
    slice(1, [0.0; 3])
        .text(tags::SPECIFIC_CHARACTER_SET, VR::CS, "ISO_IR 100      ")
        .text(tags::SERIES_DESCRIPTION, VR::LO, "Yamada \u{1b}$B;3ED\u{1b}(B")
        .write(&path);
    // The writer of the test knows single sets alone.
    let mut bytes = std::fs::read(&path).expect("a file");
    let at = bytes.windows(16).position(|part| part == b"ISO_IR 100      ").expect("the set");
    bytes[at..at + 16].copy_from_slice(b"\\ISO 2022 IR 87 ");
    std::fs::write(&path, bytes).expect("written");
    let scan = scan(&path).expect("scanned");
    assert_eq!(scan.series[0].description(), Some("Yamada \u{5c71}\u{7530}"));
}

/// A screenshot with an orientation of zeros blocks its own series alone; a file of unknown series may be a
/// slice.
#[test]
fn unusable_files_block_their_own_series() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0]);
    let broken = |number, series: &str| {
        slice(number, [0.0; 3])
            .text(tags::SERIES_INSTANCE_UID, VR::UI, series)
            .decimals(tags::IMAGE_ORIENTATION_PATIENT, &[0.0; 6])
    };
    broken(8, "1.2.9").write(&folder.path().join("screenshot.dcm"));
    let volume = read_path(folder.path(), &ReadOptions::default()).expect("the CT");
    assert_eq!((volume.shape[3], volume.findings.len()), (3, 1));
    assert_eq!((volume.findings[0].kind, volume.findings[0].severity), (FindingKind::OtherSeries, Severity::Warning));
    assert!(volume.findings[0].text.contains("screenshot.dcm"), "{}", volume.findings[0]);
    broken(9, "1.2.3").write(&folder.path().join("own.dcm"));
    let error = read_path(folder.path(), &ReadOptions::default()).expect_err("its own slice");
    assert!(matches!(&error, DicomError::Incomplete { count: 1, .. }), "{error}");
    std::fs::remove_file(folder.path().join("own.dcm")).expect("removed");
    // More unusable files than slices: they may be what is meant.
    for number in 10..14 {
        broken(number, "1.2.8").write(&folder.path().join(format!("lost_{number}.dcm")));
    }
    let error = read_path(folder.path(), &ReadOptions::default()).expect_err("a lost series");
    assert!(matches!(&error, DicomError::Incomplete { count: 4, .. }), "{error}");
}

/// Two slices with one SOPInstanceUID at one place, with other pixels, are no copies.
#[test]
fn other_pixels_under_the_same_uid_are_no_copy() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0]);
    let other = slice(2, [10.0, 20.0, 2.0]).pixels([3, 2], &[9; 6]);
    other.write(&folder.path().join("other.dcm"));
    let found = kinds(&scan(folder.path()).expect("scanned"));
    assert!(found.contains(&(FindingKind::DuplicateSlices, Severity::Error)), "{found:?}");
    assert!(found.contains(&(FindingKind::SharedInstance, Severity::Warning)), "{found:?}");
}

/// Of two slices, only the header tells whether others lay between them. The thickness of the test's slices
/// is 2 mm.
#[test]
fn slices_far_apart_are_compared_with_their_header() {
    let found = |depths: &[f64]| {
        let folder = folder();
        write_stack(folder.path(), depths);
        (kinds(&scan(folder.path()).expect("scanned")), read_path(folder.path(), &ReadOptions::default()).is_ok())
    };
    assert_eq!(found(&[0.0, 6.0]), (vec![], true));
    assert_eq!(found(&[0.0, 100.0]), (vec![(FindingKind::MissingSlices, Severity::Error)], false));
    assert_eq!(found(&[0.0, 10.0, 20.0]), (vec![(FindingKind::SparseSlices, Severity::Warning)], true));
    // The distance is stated, and the slices are thin; and the other way round.
    for (spacing, thickness) in [(100.0, 2.0), (2.0, 100.0)] {
        let folder = folder();
        for (number, depth) in [(1, 0.0), (2, 100.0)] {
            slice(number, [10.0, 20.0, depth])
                .decimals(tags::SPACING_BETWEEN_SLICES, &[spacing])
                .decimals(tags::SLICE_THICKNESS, &[thickness])
                .write(&folder.path().join(format!("{number}.dcm")));
        }
        assert!(kinds(&scan(folder.path()).expect("scanned")).is_empty(), "{spacing} {thickness}");
    }
    let folder = folder();
    write_stack(folder.path(), &[0.0, 100.0]);
    let accepted = read_path(folder.path(), &ReadOptions::default().accept(FindingKind::MissingSlices));
    assert_eq!(accepted.expect("accepted").affine[2][2], 100.0);
}

#[test]
fn rounded_positions_are_even() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 0.333, 0.667, 1.0, 1.333]);
    assert!(kinds(&scan(folder.path()).expect("scanned")).is_empty());
}

#[test]
fn tilt_is_told_and_the_affine_sheared() {
    let folder = folder();
    for i in 0..4_u16 {
        slice(i + 1, [0.0, f64::from(i), 2.0 * f64::from(i)]).write(&folder.path().join(format!("{i}.dcm")));
    }
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::GantryTilt, Severity::Warning)]);
    assert!(found(&scan, FindingKind::GantryTilt).contains("26.6 degrees"));
    let volume = scan.series[0].read().expect("a volume");
    assert_eq!([volume.affine[0][2], volume.affine[1][2], volume.affine[2][2]], [0.0, -1.0, 2.0]);
}

#[test]
fn a_slice_beside_the_line_is_told() {
    let folder = folder();
    for (i, x) in [0.0, 0.0, 0.4, 0.0].into_iter().enumerate() {
        slice(i as u16 + 1, [x, 0.0, i as f64]).write(&folder.path().join(format!("{i}.dcm")));
    }
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::CrookedStack, Severity::Warning)]);
    assert!(
        found(&scan, FindingKind::CrookedStack).contains("0.40 mm")
            && found(&scan, FindingKind::CrookedStack).contains("2.dcm")
    );
}

#[test]
fn copies_of_a_slice_are_taken_once() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0]);
    std::fs::copy(folder.path().join("1.dcm"), folder.path().join("copy.dcm")).expect("copied");
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::DuplicateSlices, Severity::Warning)]);
    assert!(found(&scan, FindingKind::DuplicateSlices).contains("copy.dcm"));
    assert_eq!(scan.series[0].read().expect("a volume").shape, [1, 3, 2, 3]);
}

#[test]
fn different_slices_at_one_place_are_an_error_until_accepted() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 2.0, 4.0]);
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::DuplicateSlices, Severity::Error)]);
    assert!(found(&scan, FindingKind::DuplicateSlices).contains("1.dcm, 2.dcm"));
    assert!(scan.series[0].read().is_err());
    let volume =
        scan.series[0].read_with(&ReadOptions::default().accept(FindingKind::DuplicateSlices)).expect("accepted");
    assert_eq!(volume.values[..3], [100.0, 200.0, 400.0], "the first by instance number");
}

#[test]
fn time_points_become_series_of_their_own() {
    let folder = folder();
    // Numbers run through the positions first.
    write_stack(folder.path(), &[0.0, 2.0, 4.0, 0.0, 2.0, 4.0]);
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(scan.series.len(), 2);
    assert!(kinds(&scan).iter().all(|k| *k == (FindingKind::Repeated, Severity::Note)));
    assert_eq!(scan.series[1].read().expect("a volume").values[..3], [400.0, 500.0, 600.0]);
    let error = read_path(folder.path(), &ReadOptions::default()).expect_err("two");
    assert!(matches!(&error, DicomError::Several { series, .. } if series.len() == 2), "{error}");
}

#[test]
fn what_does_not_stack_is_split() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0]);
    let odd = slice(9, [0.0, 0.0, 4.0]).pixels([4, 4], &[7; 16]);
    odd.write(&folder.path().join("scout.dcm"));
    slice(10, [0.0, 0.0, 6.0])
        .decimals(tags::IMAGE_ORIENTATION_PATIENT, &[0.0, 1.0, 0.0, 0.0, 0.0, -1.0])
        .write(&folder.path().join("sagittal.dcm"));
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(scan.series.len(), 3);
    assert_eq!(kinds(&scan), [(FindingKind::Split, Severity::Warning); 3]);
    let text = found(&scan, FindingKind::Split);
    assert!(text.contains("2 of 3 x 2 (0.dcm, 1.dcm)") && text.contains("scout.dcm"), "{text}");
}

#[test]
fn slices_without_positions_need_to_be_accepted() {
    let folder = folder();
    for (number, location) in [(1_u16, 5.0), (2, 2.0), (3, 3.5)] {
        let mut object = slice(number, [0.0; 3]).decimals(tags::SLICE_LOCATION, &[location]);
        object.0.remove_element(tags::IMAGE_POSITION_PATIENT);
        object.write(&folder.path().join(format!("{number}.dcm")));
    }
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(kinds(&scan), [(FindingKind::MissingPosition, Severity::Error)]);
    assert!(found(&scan, FindingKind::MissingPosition).contains("SliceLocation"));
    let volume =
        scan.series[0].read_with(&ReadOptions::default().accept(FindingKind::MissingPosition)).expect("accepted");
    assert_eq!((&volume.values[..3], volume.affine[2][2]), (&[200.0, 300.0, 100.0][..], 1.5));
}

#[test]
fn each_slice_has_its_own_rescaling() {
    let folder = folder();
    for (i, slope) in [0.5, 2.0].into_iter().enumerate() {
        slice(i as u16 + 1, [0.0, 0.0, i as f64])
            .text(tags::MODALITY, VR::CS, "PT")
            .text(tags::UNITS, VR::CS, "BQML")
            .decimals(tags::RESCALE_SLOPE, &[slope])
            .decimals(tags::RESCALE_INTERCEPT, &[1.0])
            .write(&folder.path().join(format!("{i}.dcm")));
    }
    let volume = read_path(folder.path(), &ReadOptions::default()).expect("a volume");
    assert_eq!(volume.values[..2], [51.0, 401.0]);
    assert_eq!((volume.rescale, volume.units.as_deref()), (None, Some("BQML")));
    let stored = read_path(folder.path(), &ReadOptions::default().rescale(false)).expect("a volume");
    assert_eq!((&stored.values[..2], stored.units), (&[100.0, 200.0][..], None));
}

#[test]
fn monochrome1_is_inverted_where_values_have_no_unit() {
    let folder = folder();
    let object = slice(1, [0.0; 3])
        .text(tags::MODALITY, VR::CS, "DX")
        .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "MONOCHROME1")
        .number(tags::BITS_STORED, 12)
        .number(tags::HIGH_BIT, 11);
    let path = folder.path().join("film.dcm");
    object.write(&path);
    let film = read_path(&path, &ReadOptions::default()).expect("a film");
    assert_eq!(film.values[..2], [4095.0 - 100.0, 4095.0 - 103.0]);
    let note = film.findings.iter().find(|f| f.kind == FindingKind::Monochrome1).expect("told");
    assert!(note.text.contains("inverted"));
    let kept = read_path(&path, &ReadOptions::default().monochrome1(Monochrome1::Keep)).expect("a film");
    assert_eq!(kept.values[0], 100.0);
    // Inverted Hounsfield units would be wrong.
    object.text(tags::MODALITY, VR::CS, "CT").write(&path);
    let ct = read_path(&path, &ReadOptions::default()).expect("a slice");
    assert_eq!(ct.values[0], 100.0);
    assert!(ct.findings.iter().any(|f| f.kind == FindingKind::Monochrome1 && f.text.contains("not inverted")));
    let asked = read_path(&path, &ReadOptions::default().monochrome1(Monochrome1::Invert)).expect("a slice");
    assert_eq!(asked.values[0], 3995.0);
}

#[test]
fn signed_values_and_padding() {
    let folder = folder();
    let path = folder.path().join("a.dcm");
    let values: Vec<u16> = [-2000_i16, -5, 0, 7, -2000, 1].map(|v| v as u16).to_vec();
    slice(1, [0.0; 3])
        .pixels([3, 2], &values)
        .number(tags::PIXEL_REPRESENTATION, 1)
        .number(tags::PIXEL_PADDING_VALUE, -2000_i16 as u16)
        .decimals(tags::RESCALE_SLOPE, &[1.0])
        .decimals(tags::RESCALE_INTERCEPT, &[-10.0])
        .write(&path);
    let plain = read_path(&path, &ReadOptions::default()).expect("a slice");
    // x fastest in the file, y fastest in the volume.
    assert_eq!(plain.values, [-2010.0, -3.0, -15.0, -2010.0, -10.0, -9.0]);
    assert_eq!((plain.stored_type, plain.padding), (StoredType::I16, Some((-2000.0, -2000.0))));
    let air = read_path(&path, &ReadOptions::default().padding(-1024.0)).expect("a slice");
    assert_eq!(air.values, [-1024.0, -3.0, -15.0, -1024.0, -10.0, -9.0]);
}

#[test]
fn palettes_become_colours() {
    let folder = folder();
    let path = folder.path().join("a.dcm");
    let table = |object: Object, descriptor, data, values: &[u16]| {
        let object = object.words(data, values);
        let mut object = object.number(descriptor, 0);
        object.0.put(dicom_core::DataElement::new(
            descriptor,
            VR::US,
            dicom_core::PrimitiveValue::U16([values.len() as u16, 100, 16].as_slice().into()),
        ));
        object
    };
    let mut object = slice(1, [0.0; 3]).text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "PALETTE COLOR");
    for (descriptor, data, values) in [
        (tags::RED_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::RED_PALETTE_COLOR_LOOKUP_TABLE_DATA, [1, 2, 3]),
        (tags::GREEN_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::GREEN_PALETTE_COLOR_LOOKUP_TABLE_DATA, [10, 20, 30]),
        (tags::BLUE_PALETTE_COLOR_LOOKUP_TABLE_DESCRIPTOR, tags::BLUE_PALETTE_COLOR_LOOKUP_TABLE_DATA, [100, 200, 300]),
    ] {
        object = table(object, descriptor, data, &values);
    }
    object.write(&path);
    let volume = read_path(&path, &ReadOptions::default()).expect("colours");
    assert_eq!(volume.shape, [3, 3, 2, 1]);
    // Stored 100 to 105: the first three entries, then the last again.
    assert_eq!(volume.values[..6], [1.0, 3.0, 2.0, 3.0, 3.0, 3.0]);
    assert_eq!(volume.values[12..14], [100.0, 300.0]);
}

#[test]
fn planes_of_colours_and_shared_chrominance() {
    let folder = folder();
    let path = folder.path().join("a.dcm");
    let color = |photometric: &str, planar: u16, bytes: &[u8]| {
        slice(1, [0.0; 3])
            .number(tags::SAMPLES_PER_PIXEL, 3)
            .number(tags::PLANAR_CONFIGURATION, planar)
            .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, photometric)
            .number(tags::ROWS, 1)
            .number(tags::COLUMNS, 2)
            .number(tags::BITS_ALLOCATED, 8)
            .number(tags::BITS_STORED, 8)
            .number(tags::HIGH_BIT, 7)
            .bytes(tags::PIXEL_DATA, bytes)
            .write(&path);
        read_stored(&path, &ReadOptions::default()).expect("colours").bytes
    };
    assert_eq!(color("RGB", 0, &[1, 2, 3, 4, 5, 6]), [1, 2, 3, 4, 5, 6]);
    assert_eq!(color("RGB", 1, &[1, 4, 2, 5, 3, 6]), [1, 2, 3, 4, 5, 6]);
    assert_eq!(color("YBR_FULL_422", 0, &[50, 90, 128, 128]), [50, 50, 50, 90, 90, 90]);
    assert_eq!(color("YBR_FULL", 0, &[76, 85, 255, 50, 128, 128]), [254, 0, 0, 50, 50, 50]);
}

#[test]
fn enhanced_frames_have_their_own_places_and_rescaling() {
    let folder = folder();
    let path = folder.path().join("enhanced.dcm");
    let group = |z: f64, slope: f64| {
        let position = Object::item().decimals(tags::IMAGE_POSITION_PATIENT, &[0.0, 0.0, z]);
        let scale = Object::item().decimals(tags::RESCALE_SLOPE, &[slope]).decimals(tags::RESCALE_INTERCEPT, &[0.0]);
        Object::item()
            .sequence(tags::PLANE_POSITION_SEQUENCE, vec![position])
            .sequence(tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE, vec![scale])
    };
    let orientation = Object::item().decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let measures = Object::item().decimals(tags::PIXEL_SPACING, &[1.5, 1.25]);
    let shared = Object::item()
        .sequence(tags::PLANE_ORIENTATION_SEQUENCE, vec![orientation])
        .sequence(tags::PIXEL_MEASURES_SEQUENCE, vec![measures]);
    let object = Object::new("1.2.840.10008.5.1.4.1.1.4.1", "MR")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, "3")
        .sequence(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![shared])
        .sequence(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, vec![group(6.0, 1.0), group(0.0, 2.0), group(3.0, 3.0)])
        .pixels([2, 1], &[1, 2, 3, 4, 5, 6]);
    object.write(&path);
    let volume = read_path(&path, &ReadOptions::default()).expect("a volume");
    assert_eq!((volume.shape, &volume.values[..]), ([1, 2, 1, 3], &[6.0, 15.0, 1.0, 8.0, 18.0, 2.0][..]));
    assert_eq!([volume.affine[0][0], volume.affine[1][1], volume.affine[2][2]], [-1.25, -1.5, 3.0]);
    // One group is missing.
    let object = object.sequence(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, vec![group(0.0, 1.0)]);
    object.write(&path);
    let error = read_path(&path, &ReadOptions::default()).expect_err("refused");
    assert!(error.to_string().contains("PerFrameFunctionalGroupsSequence: 1 items for 3"), "{error}");
}

#[test]
fn errors_name_file_and_attribute() {
    let folder = folder();
    let path = folder.path().join("bad.dcm");
    let message = |object: Object| {
        object.write(&path);
        read_path(&path, &ReadOptions::default()).expect_err("bad").to_string()
    };
    for (object, expected) in [
        (slice(1, [0.0; 3]).text(tags::PIXEL_SPACING, VR::DS, "a\\b"), "PixelSpacing"),
        (slice(1, [0.0; 3]).decimals(tags::PIXEL_SPACING, &[0.0, 1.0]), "PixelSpacing: 0 x 1 mm"),
        (slice(1, [0.0; 3]).decimals(tags::IMAGE_POSITION_PATIENT, &[1.0, 2.0]), "ImagePositionPatient: 2 numbers"),
        (slice(1, [0.0; 3]).decimals(tags::IMAGE_ORIENTATION_PATIENT, &[0.0; 6]), "ImageOrientationPatient"),
        (slice(1, [0.0; 3]).number(tags::ROWS, 0), "Rows: 0"),
        (slice(1, [0.0; 3]).number(tags::ROWS, 4), "too few"),
        (slice(1, [0.0; 3]).number(tags::BITS_ALLOCATED, 12), "BitsAllocated: 12"),
        (slice(1, [0.0; 3]).number(tags::BITS_STORED, 17), "BitsStored: 17"),
        (slice(1, [0.0; 3]).number(tags::SAMPLES_PER_PIXEL, 3), "SamplesPerPixel"),
        (slice(1, [0.0; 3]).text(tags::NUMBER_OF_FRAMES, VR::IS, "2000000000"), "Limits::frames"),
        (slice(1, [0.0; 3]).text(tags::NUMBER_OF_FRAMES, VR::IS, "200000"), "too few"),
        (slice(1, [0.0; 3]).text(tags::NUMBER_OF_FRAMES, VR::IS, "1A"), "NumberOfFrames"),
        (slice(1, [0.0; 3]).text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "HSV"), "HSV"),
    ] {
        let message = message(object);
        assert!(message.contains("bad.dcm") && message.contains(expected), "{message}, expected {expected}");
    }
    let mut object = slice(1, [0.0; 3]);
    object.0.remove_element(tags::PIXEL_DATA);
    assert!(message(object).contains("modality CT"));
    std::fs::write(&path, "text").expect("written");
    let error = read_path(&path, &ReadOptions::default()).expect_err("text");
    assert!(matches!(error, DicomError::NotDicom { .. }), "{error}");
    let nowhere = read_path(folder.path().join("nowhere"), &ReadOptions::default()).expect_err("nothing");
    assert!(matches!(nowhere, DicomError::Io { .. }), "{nowhere}");
}

#[test]
fn limits_are_checked_before_memory_is_taken() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0]);
    let mut limits = Limits::default();
    limits.volume_values = 17;
    let error = read_path(folder.path(), &ReadOptions::default().limits(limits)).expect_err("18 values");
    assert!(matches!(&error, DicomError::Limit { what, .. } if what.contains("volume_values")), "{error}");
    let mut limits = Limits::default();
    limits.frame_samples = 5;
    assert!(
        read_path(folder.path(), &ReadOptions::default().limits(limits))
            .expect_err("6")
            .to_string()
            .contains("frame_samples")
    );
    let mut limits = Limits::default();
    limits.file_bytes = 100;
    assert!(
        read_path(folder.path(), &ReadOptions::default().limits(limits))
            .expect_err("more")
            .to_string()
            .contains("file_bytes")
    );
    let mut limits = Limits::default();
    limits.files = 2;
    assert!(
        read_path(folder.path(), &ReadOptions::default().limits(limits))
            .expect_err("3 files")
            .to_string()
            .contains("files")
    );
}

#[test]
fn a_folder_may_hold_other_objects() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0]);
    Object::new("1.2.840.10008.5.1.4.1.1.88.11", "SR").write(&folder.path().join("report.dcm"));
    let mut object = slice(7, [0.0; 3]);
    object.0.remove_element(tags::SERIES_INSTANCE_UID);
    object.write(&folder.path().join("stray.dcm"));
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!((scan.series.len(), scan.others.len()), (2, 1));
    assert_eq!(scan.others[0].modality, "SR");
    assert_eq!(kinds(&scan), [(FindingKind::MissingSeries, Severity::Warning)]);
    let report = read_path(folder.path().join("report.dcm"), &ReadOptions::default()).expect_err("no image");
    assert!(report.to_string().contains("modality SR"), "{report}");
    assert_eq!(Object::new(CT, "CT").0.iter().count(), 2);
}

#[test]
fn a_series_is_selected_by_uid_description_number_pattern_or_rule() {
    let folder = folder();
    // Description, number, distance and number of slices.
    let all = [("Thorax 5.0", 2, 5.0, 3), ("Thorax 1.0", 3, 1.0, 4), ("Localizer", 1, 0.5, 1), ("late", 7, 1.0, 6)];
    for (uid, (description, number, distance, count)) in all.into_iter().enumerate() {
        for k in 0..count {
            slice(k as u16, [0.0, 0.0, distance * f64::from(k)])
                .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.{uid}.{k}"))
                .text(tags::SERIES_INSTANCE_UID, VR::UI, &format!("1.2.8.{uid}"))
                .text(tags::SERIES_DESCRIPTION, VR::LO, description)
                .text(tags::SERIES_NUMBER, VR::IS, &number.to_string())
                .write(&folder.path().join(format!("{uid}-{k}.dcm")));
        }
    }
    let scan = scan(folder.path()).expect("scanned");
    let selected = |wanted: &str| scan.select(wanted).map(|at| scan.series[at].uid().to_owned());
    for (wanted, uid) in [
        ("1.2.8.1", "1.2.8.1"),
        ("Thorax 5.0", "1.2.8.0"),
        ("thorax 5.0", "1.2.8.0"),
        ("7", "1.2.8.3"),
        ("*1.0", "1.2.8.1"),
        ("local*", "1.2.8.2"),
        ("most-slices", "1.2.8.3"),
        // Equally thin as another, with more slices.
        ("thinnest", "1.2.8.3"),
    ] {
        assert_eq!(selected(wanted).as_deref(), Ok(uid), "{wanted}");
    }
    for (wanted, words) in [
        ("thorax*", ["several series are named", "Thorax 1.0"]),
        ("thickest", ["no series is named", "most-slices or thinnest"]),
        ("4", ["no series is named", "7: CT"]),
    ] {
        let error = selected(wanted).expect_err(wanted);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
