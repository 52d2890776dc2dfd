//! Mosaics of Siemens and pictures of screens: unpacked, or refused by name.

mod common;

use std::path::Path;

use common::{Object, slice, write_stack};
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use hearth_dicom::{
    Authorship, Finding, FindingKind, Head, Limits, ReadOptions, Region, RegionVolume, Scan, Severity, read_path, scan,
    write,
};
use tempfile::tempdir;

/// Columns, rows and number of slices.
const SIZE: [usize; 3] = [3, 2, 5];
/// Tiles in a row and in a column: the smallest square that holds all slices.
const ACROSS: usize = 3;
const ROW: [f64; 3] = [0.8, 0.6, 0.0];
const COLUMN: [f64; 3] = [-0.36, 0.48, 0.8];
const NORMAL: [f64; 3] = [0.48, -0.64, 0.6];
/// The centre of the first voxel of the first slice.
const FIRST: [f64; 3] = [11.0, -7.0, 3.5];
/// Distances of columns, rows and slices.
const STEPS: [f64; 3] = [1.5, 2.0, 4.0];
const SLICE_COUNT: &str = "NumberOfImagesInMosaic";
const SLICE_NORMAL: &str = "SliceNormalVector";

fn value([x, y, z]: [usize; 3]) -> u16 {
    (100 * z + 10 * y + x) as u16
}

/// A CSA header of type 2, or of type 1, in which lengths include the number of items.
fn csa(elements: &[(&str, Vec<String>)], second: bool) -> Vec<u8> {
    let items = 6_u32;
    let mut out = if second { b"SV10\x04\x03\x02\x01".to_vec() } else { Vec::new() };
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    let number = |value: u32| value.to_le_bytes();
    put(&number(elements.len() as u32));
    put(&number(77));
    for (name, values) in elements {
        let mut text = name.as_bytes().to_vec();
        text.resize(64, 0);
        put(&text);
        put(&number(values.len() as u32));
        put(b"FD\0\0");
        put(&number(3));
        put(&number(items));
        put(&number(77));
        for item in 0..items as usize {
            let mut text = values.get(item).map(|text| text.as_bytes().to_vec()).unwrap_or_default();
            if !text.is_empty() {
                text.push(0);
            }
            let length = text.len() as u32;
            let lengths = if second { [length, length, 77, length] } else { [length + items, length, 77, length] };
            lengths.into_iter().for_each(|length| put(&number(length)));
            text.resize(text.len().next_multiple_of(4), 0);
            put(&text);
        }
    }
    out
}

/// The elements of a mosaic whose slices follow each other along a direction.
fn elements(direction: f64) -> Vec<(&'static str, Vec<String>)> {
    let normal = NORMAL.map(|part| format!("{:.8}", direction * part)).to_vec();
    vec![("EchoLinePosition", vec!["2".to_owned()]), (SLICE_COUNT, vec![SIZE[2].to_string()]), (SLICE_NORMAL, normal)]
}

/// A mosaic without its private elements.
fn bare() -> Object {
    let [columns, rows, _] = SIZE;
    let (width, height) = (columns * ACROSS, rows * ACROSS);
    let mut pixels = vec![0_u16; width * height];
    for z in 0..SIZE[2] {
        for y in 0..rows {
            for x in 0..columns {
                pixels[(z / ACROSS * rows + y) * width + z % ACROSS * columns + x] = value([x, y, z]);
            }
        }
    }
    // The picture's corner, as if it had been measured as a whole around the centre of the first slice.
    let off = [(width - columns) as f64 / 2.0 * STEPS[0], (height - rows) as f64 / 2.0 * STEPS[1]];
    let corner: [f64; 3] = std::array::from_fn(|axis| FIRST[axis] - off[0] * ROW[axis] - off[1] * COLUMN[axis]);
    Object::new("1.2.840.10008.5.1.4.1.1.4", "MR")
        .text(tags::IMAGE_TYPE, VR::CS, "ORIGINAL\\PRIMARY\\M\\ND\\MOSAIC")
        .text(tags::SOP_INSTANCE_UID, VR::UI, "1.2.3.1")
        .text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3")
        .text(tags::FRAME_OF_REFERENCE_UID, VR::UI, "1.2.4")
        .decimals(tags::IMAGE_POSITION_PATIENT, &corner)
        .decimals(tags::IMAGE_ORIENTATION_PATIENT, &[ROW, COLUMN].concat())
        .decimals(tags::PIXEL_SPACING, &[STEPS[1], STEPS[0]])
        .decimals(tags::SLICE_THICKNESS, &[3.0])
        .pixels([width as u16, height as u16], &pixels)
}

fn with_header(object: Object, header: &[u8]) -> Object {
    object.text(Tag(0x29, 0x10), VR::LO, "SIEMENS CSA HEADER").bytes(Tag(0x29, 0x1010), header)
}

fn mosaic(direction: f64) -> Object {
    with_header(bare(), &csa(&elements(direction), true)).decimals(tags::SPACING_BETWEEN_SLICES, &[STEPS[2]])
}

/// Checks voxels and places: `direction` is that of the slices along the normal. nibabel's MosaicWrapper
/// gives the same affine.
fn check(path: &Path, direction: f64) {
    let volume = read_path(path, &ReadOptions::default()).expect("a volume");
    let [columns, rows, slices] = SIZE;
    assert_eq!(volume.shape, [1, columns, rows, slices]);
    for z in 0..slices {
        // The volume follows the normal of rows and columns.
        let stored = if direction > 0.0 { z } else { slices - 1 - z };
        for y in 0..rows {
            for x in 0..columns {
                assert_eq!(volume.get([0, x, y, z]), Some(f32::from(value([x, y, stored]))), "{x} {y} {z}");
                let along = direction * STEPS[2] * stored as f64;
                for axis in 0..3 {
                    let lps = FIRST[axis]
                        + x as f64 * STEPS[0] * ROW[axis]
                        + y as f64 * STEPS[1] * COLUMN[axis]
                        + along * NORMAL[axis];
                    let ras = if axis < 2 { -lps } else { lps };
                    let index = [x as f64, y as f64, z as f64, 1.0];
                    let found: f64 = (0..4).map(|i| volume.affine[axis][i] * index[i]).sum();
                    assert!((found - ras).abs() < 1e-6, "{x} {y} {z}: {found}, expected {ras}");
                }
            }
        }
    }
}

#[test]
fn a_mosaic_is_unpacked_into_its_slices() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mosaic.dcm");
    for direction in [1.0, -1.0] {
        mosaic(direction).write(&path);
        check(&path, direction);
    }
    // The older kind of header.
    with_header(bare(), &csa(&elements(1.0), false)).decimals(tags::SPACING_BETWEEN_SLICES, &[STEPS[2]]).write(&path);
    check(&path, 1.0);
    assert_eq!(Head::read(&path, &Limits::default()).expect("a head").frames, 5);
}

/// The distance of slices as in the protocol, the number as in the elements next to the header.
#[test]
fn a_mosaic_says_its_layout_in_several_places() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mosaic.dcm");
    let protocol = "### ASCCONV BEGIN ###\nsSliceArray.asSlice[0].sPosition.dTra\t = \t-10.0\n\
                    sSliceArray.asSlice[1].sPosition.dTra\t = \t-6.0\n### ASCCONV END ###";
    let series = csa(&[("MrPhoenixProtocol", vec![protocol.to_owned()])], true);
    let without: Vec<_> = elements(1.0).into_iter().filter(|(name, _)| *name != SLICE_COUNT).collect();
    with_header(bare(), &csa(&without, true))
        .bytes(Tag(0x29, 0x1020), &series)
        .text(Tag(0x19, 0x10), VR::LO, "SIEMENS MR HEADER")
        .number(Tag(0x19, 0x100a), SIZE[2] as u16)
        .write(&path);
    check(&path, 1.0);
}

/// With SliceThickness (3 mm) alone the distance of the slices (4 mm) is that of the protocol: of the
/// positions of its slices, or the thickness and a gap of a third.
#[test]
fn the_distance_of_slices_is_that_of_the_protocol() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mosaic.dcm");
    let protocol = |lines: &[String]| {
        let text = format!("### ASCCONV BEGIN ###\n{}\n### ASCCONV END ###", lines.join("\n"));
        csa(&[("MrPhoenixProtocol", vec![text])], true)
    };
    let position = |slice: usize, gap: f64| -> Vec<String> {
        let place = |axis: usize| FIRST[axis] + gap * slice as f64 * NORMAL[axis];
        let line = |(axis, name)| format!("sSliceArray.asSlice[{slice}].sPosition.{name}\t = \t{:.9}", place(axis));
        ["dSag", "dCor", "dTra"].into_iter().enumerate().map(line).collect()
    };
    let positions: Vec<String> = (0..SIZE[2]).flat_map(|slice| position(slice, STEPS[2])).collect();
    let factor = |factor: &str| {
        vec!["sGroupArray.asGroup[0].nSize\t = \t5".to_owned(), format!("sGroupArray.asGroup[0].dDistFact = {factor}")]
    };
    let write =
        |lines: &[String]| with_header(bare(), &csa(&elements(1.0), true)).bytes(Tag(0x29, 0x1020), &protocol(lines));
    for lines in [positions.clone(), factor("0.33333333"), [factor("0.9"), positions.clone()].concat()] {
        write(&lines).write(&path);
        check(&path, 1.0);
        // A distance of 0 is none.
        write(&lines).decimals(tags::SPACING_BETWEEN_SLICES, &[0.0]).write(&path);
        check(&path, 1.0);
    }
    // Slices of two stacks have no single distance.
    let last = position(SIZE[2] - 1, 3.0 * STEPS[2]);
    let uneven: Vec<String> = positions[..positions.len() - 3].iter().cloned().chain(last).collect();
    for lines in [uneven, vec!["sSliceArray.lSize\t = \t5".to_owned()]] {
        write(&lines).write(&path);
        let error = read_path(&path, &ReadOptions::default()).expect_err("no distance").to_string();
        assert!(error.contains("SliceThickness leaves out gaps") && error.contains("0029,1020"), "{error}");
    }
}

#[test]
fn a_mosaic_without_its_layout_is_refused_by_name() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("mosaic.dcm");
    let without = |name: &str| {
        let mut elements = elements(1.0);
        elements.retain(|(known, _)| *known != name);
        with_header(bare(), &csa(&elements, true)).decimals(tags::SPACING_BETWEEN_SLICES, &[STEPS[2]])
    };
    let truncated = {
        let header = csa(&elements(1.0), true);
        with_header(bare(), &header[..header.len() / 2])
    };
    let odd = mosaic(1.0).pixels([8, 6], &[0; 48]);
    let across = [
        ("a", vec!["1".to_owned()]),
        (SLICE_COUNT, vec!["5".to_owned()]),
        (SLICE_NORMAL, ["1", "0", "0"].map(str::to_owned).to_vec()),
    ];
    let across = with_header(bare(), &csa(&across, true)).decimals(tags::SPACING_BETWEEN_SLICES, &[4.0]);
    for (object, words) in [
        (bare(), "without its CSA header (0029,1010)"),
        (truncated, "without its CSA header (0029,1010)"),
        (without(SLICE_COUNT), "NumberOfImagesInMosaic"),
        (without(SLICE_NORMAL), "SliceNormalVector"),
        (with_header(bare(), &csa(&elements(1.0), true)), "SpacingBetweenSlices"),
        (odd, "no multiple"),
        (across, "not at right angles"),
    ] {
        object.write(&path);
        let error = read_path(&path, &ReadOptions::default()).expect_err(words).to_string();
        assert!(error.contains(words) && error.contains("mosaic.dcm") && error.contains("mosaic"), "{error}");
    }
}

/// Each file is a time point.
#[test]
fn mosaics_of_a_series_are_volumes() {
    let folder = tempdir().expect("a folder");
    for number in 1..=3 {
        mosaic(1.0)
            .text(tags::SOP_INSTANCE_UID, VR::UI, &format!("1.2.3.{number}"))
            .text(tags::ACQUISITION_NUMBER, VR::IS, &number.to_string())
            .decimals(tags::RESCALE_SLOPE, &[f64::from(number)])
            .decimals(tags::RESCALE_INTERCEPT, &[0.0])
            .write(&folder.path().join(format!("{number}.dcm")));
    }
    let scan = scan(folder.path()).expect("scanned");
    let keys: Vec<_> = scan.series.iter().filter_map(|series| series.key()).collect();
    assert_eq!(keys, ["acq1", "acq2", "acq3"]);
    let third = &scan.series[scan.select("#acq3").expect("named")];
    assert_eq!(third.read().expect("a volume").get([0, 2, 1, 4]), Some(3.0 * 412.0));
}

/// A file is one instance, without frames.
#[test]
fn regions_refer_to_a_mosaic_as_one_image() {
    let folder = tempdir().expect("a folder");
    mosaic(1.0).write(&folder.path().join("mosaic.dcm"));
    let scanned = scan(folder.path()).expect("scanned");
    let series = &scanned.series[0];
    let mut values = vec![0.0; 30];
    values[7] = 1.0;
    let regions = RegionVolume::of_labels(values, vec![Region::new(1, "GTV-1")], series.grid().clone());
    let set = write::structure_set(&regions, series, &Authorship::new("a test")).expect("contours");
    let seg = write::segmentation(&regions, series, &Authorship::new("a test")).expect("a segmentation");
    for (name, bytes) in [("rs.dcm", set), ("seg.dcm", seg)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let object = dicom_object::open_file(&path).expect("DICOM");
        let text = format!("{object:?}");
        assert!(!text.contains("0008,1160"), "a frame is named in {name}");
        let found = scan(&path).expect("scanned");
        let images = found.annotations[0].referenced_instances.iter().filter(|uid| uid.starts_with("1.2.3."));
        assert_eq!(images.collect::<Vec<_>>(), ["1.2.3.1"], "{name}");
    }
}

fn found(scan: &Scan, kind: FindingKind) -> Vec<&Finding> {
    scan.series.iter().flat_map(|series| series.findings()).filter(|finding| finding.kind == kind).collect()
}

/// Pictures of a screen: a note by name for one with a position, an error for several without.
#[test]
fn screenshots_are_named() {
    let folder = tempdir().expect("a folder");
    write_stack(folder.path(), &[0.0, 2.0]);
    assert!(found(&scan(folder.path()).expect("scanned"), FindingKind::SecondaryCapture).is_empty());
    let class = |object: Object, uid: &str| object.text(tags::SOP_CLASS_UID, VR::UI, uid);
    for (name, change) in [
        ("class", &(|object| class(object, "1.2.840.10008.5.1.4.1.1.7")) as &dyn Fn(Object) -> Object),
        ("type", &|object: Object| object.text(tags::IMAGE_TYPE, VR::CS, "DERIVED\\SECONDARY\\SCREEN SAVE")),
    ] {
        for number in [1, 2_u16] {
            let object = change(slice(number, [10.0, 20.0, f64::from(number)]));
            object.write(&folder.path().join(format!("{}.dcm", number - 1)));
        }
        let scan = scan(folder.path()).expect("scanned");
        let severities: Vec<Severity> =
            found(&scan, FindingKind::SecondaryCapture).iter().map(|f| f.severity).collect();
        assert_eq!(severities, [Severity::Warning], "{name}");
    }
    // Several screens in one file, without a position.
    let screens = tempdir().expect("a folder");
    let path = screens.path().join("screens.dcm");
    let mut object = class(slice(1, [0.0; 3]), "1.2.840.10008.5.1.4.1.1.7.2").pixels([3, 1], &[1, 2, 3, 4, 5, 6]);
    object.0.remove_element(tags::IMAGE_POSITION_PATIENT);
    object.0.put(DataElement::new(tags::NUMBER_OF_FRAMES, VR::IS, PrimitiveValue::from("2")));
    object.write(&path);
    let error = read_path(&path, &ReadOptions::default()).expect_err("refused").to_string();
    assert!(error.contains("secondary capture") && error.contains("MissingPosition"), "{error}");
    let accepted = ReadOptions::default().accept(FindingKind::MissingPosition);
    assert_eq!(read_path(&path, &accepted).expect("accepted").shape, [1, 3, 1, 2]);
}

/// A fused or annotated copy of a CT has colours, not Hounsfield units.
#[test]
fn colours_of_a_tomography_are_named() {
    let folder = tempdir().expect("a folder");
    let color = |number: u16, modality: &str| {
        slice(number, [10.0, 20.0, f64::from(number)])
            .text(tags::MODALITY, VR::CS, modality)
            .number(tags::SAMPLES_PER_PIXEL, 3)
            .number(tags::PLANAR_CONFIGURATION, 0)
            .text(tags::PHOTOMETRIC_INTERPRETATION, VR::CS, "RGB")
            .number(tags::BITS_ALLOCATED, 8)
            .number(tags::BITS_STORED, 8)
            .number(tags::HIGH_BIT, 7)
            .bytes(tags::PIXEL_DATA, &[7; 18])
    };
    for (modality, expected) in [("CT", 1), ("US", 0)] {
        for number in 1..=2 {
            color(number, modality).write(&folder.path().join(format!("{number}.dcm")));
        }
        let scan = scan(folder.path()).expect("scanned");
        let named = found(&scan, FindingKind::Colours);
        assert_eq!(named.len(), expected, "{modality}");
        assert!(named.iter().all(|finding| finding.text.contains("not in HU")), "{modality}");
    }
}
