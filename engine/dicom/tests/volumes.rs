//! Several volumes with one SeriesInstanceUID: their keys, their slices, their choice.

mod common;

use common::{Object, slice, write_stack};
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::tags;
use hearth_dicom::{Authorship, FindingKind, Region, RegionVolume, Scan, Series, Severity, scan, write};
use tempfile::{TempDir, tempdir};

fn folder() -> TempDir {
    tempdir().expect("a folder")
}

/// The key of each volume, and the stored value of the first pixel of each of its slices.
fn volumes(scan: &Scan) -> Vec<(String, Vec<f32>)> {
    let one = |series: &Series| {
        let volume = series.read().expect("a volume");
        let first = volume.values[..volume.shape[3]].to_vec();
        (series.key().unwrap_or("none").to_owned(), first)
    };
    let mut found: Vec<_> = scan.series.iter().map(one).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Slices by number, at depths, each changed.
fn write_all<'a>(folder: &TempDir, slices: impl IntoIterator<Item = (u16, f64, &'a dyn Fn(Object) -> Object)>) {
    for (number, depth, change) in slices {
        let object = change(slice(number, [10.0, 20.0, depth]));
        object.write(&folder.path().join(format!("{number}.dcm")));
    }
}

fn with(tag: Tag, vr: VR, value: &'static str) -> impl Fn(Object) -> Object {
    move |object| object.text(tag, vr, value)
}

/// The numbers of the slices run through the echoes of a position, then, in the last position, the other way.
#[test]
fn echoes_are_volumes_with_keys() {
    let folder = folder();
    let [first, second] = ["1", "2"].map(|echo| with(tags::ECHO_NUMBERS, VR::IS, echo));
    let (first, second): (&dyn Fn(Object) -> Object, &dyn Fn(Object) -> Object) = (&first, &second);
    let slices =
        [(1, 0.0, first), (2, 0.0, second), (3, 2.0, first), (4, 2.0, second), (5, 4.0, second), (6, 4.0, first)];
    write_all(&folder, slices);
    let scan = scan(folder.path()).expect("scanned");
    let expected = [("echo1".to_owned(), vec![100.0, 300.0, 600.0]), ("echo2".to_owned(), vec![200.0, 400.0, 500.0])];
    assert_eq!(volumes(&scan), expected);
    assert!(scan.series.iter().all(|series| series.findings()[0].kind == FindingKind::Repeated));
    let key = |wanted: &str| scan.select(wanted).map(|at| scan.series[at].key().map(str::to_owned));
    for wanted in ["1.2.3#echo2", "#echo2", "thorax#echo2", "*HOR*#ECHO2", "most-slices#echo2", "thinnest # echo2"] {
        assert_eq!(key(wanted), Ok(Some("echo2".to_owned())), "{wanted}");
    }
    for (wanted, words) in [
        ("1.2.3", ["\"1.2.3\" has 2 volumes", "1.2.3#echo1"]),
        ("1.2.3#echo3", ["no volume has the key \"echo3\"", "1.2.3#echo2"]),
        ("#axial", ["\"#axial\" has 2 volumes", "#echo1"]),
        ("1.2.4#echo1", ["no series is named \"1.2.4\"", "1.2.3#echo1"]),
        ("most-slices", ["2 series fit the rule", "1.2.3#echo1"]),
        ("auto", ["auto is for commands with a model", "1.2.3#echo1"]),
    ] {
        let error = key(wanted).expect_err(wanted);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

/// Two volumes of five slices every 3 mm, the second at an offset; a part's numbers follow one another.
fn write_two(folder: &TempDir, offset: f64, changes: [&dyn Fn(Object) -> Object; 2]) {
    let slices = (0..10_u16).map(|at| {
        let (volume, place) = (usize::from(at / 5), f64::from(at % 5));
        (at + 1, 3.0 * place + offset * volume as f64, changes[volume])
    });
    write_all(folder, slices);
}

/// The parts of volumes whose slices lie between one another, by the offset of the second one.
#[test]
fn slices_between_one_another_are_volumes() {
    let plain: &dyn Fn(Object) -> Object = &|object| object;
    let both = |tag, values: [&'static str; 2]| values.map(|value| with(tag, VR::IS, value));
    let echoes = both(tags::ECHO_NUMBERS, ["1", "2"]);
    let acquisitions = both(tags::ACQUISITION_NUMBER, ["1", "2"]);
    let times = both(tags::TEMPORAL_POSITION_IDENTIFIER, ["1", "2"]);
    type Changes<'a> = [&'a dyn Fn(Object) -> Object; 2];
    let cases: [(f64, Changes<'_>, [&str; 2]); 6] = [
        (1.0, [&echoes[0], &echoes[1]], ["echo1", "echo2"]),
        (1.0, [&acquisitions[0], &acquisitions[1]], ["acq1", "acq2"]),
        (1.0, [&times[0], &times[1]], ["time1", "time2"]),
        (1.0, [plain, plain], ["volume-1", "volume-2"]),
        // All distances are 1.5 mm, but no volume has two echoes.
        (1.5, [&echoes[0], &echoes[1]], ["echo1", "echo2"]),
        (1.5, [&times[0], &times[1]], ["time1", "time2"]),
    ];
    for (offset, changes, keys) in cases {
        let folder = folder();
        write_two(&folder, offset, changes);
        let scan = scan(folder.path()).expect("scanned");
        let first = |start: u16| (start..start + 5).map(|number| f32::from(100 * number)).collect::<Vec<_>>();
        let expected = [(keys[0].to_owned(), first(1)), (keys[1].to_owned(), first(6))];
        assert_eq!(volumes(&scan), expected, "{keys:?} at {offset}");
        let second = scan.series.iter().find(|series| series.key() == Some(keys[1])).expect("a volume");
        assert_eq!((second.grid().spacing()[2], second.grid().affine()[2][3]), (3.0, offset), "{keys:?}");
    }
}

/// What may be one volume stays one, and an error if slices are missing.
#[test]
fn one_volume_that_was_acquired_in_turns_is_not_parted() {
    let acquisitions = ["1", "2"].map(|value| with(tags::ACQUISITION_NUMBER, VR::IS, value));
    let of = |places: &[u16]| {
        let folder = folder();
        let slices =
            places.iter().map(|place| (place + 1, f64::from(*place), &acquisitions[usize::from(place % 2)] as _));
        write_all(&folder, slices);
        scan(folder.path()).expect("scanned")
    };
    let whole = of(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((whole.series.len(), whole.series[0].slices().len(), whole.series[0].findings().len()), (1, 8, 0));
    // One slice is missing, in the middle or near the end, of one acquisition.
    for places in [&[0, 1, 2, 3, 4, 6, 7, 8, 9][..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10], &[0, 1, 2, 3, 4, 5, 6, 8, 10]] {
        let scan = of(places);
        let found: Vec<_> = scan.series.iter().flat_map(|series| series.findings()).collect();
        let kinds: Vec<_> = found.iter().map(|finding| (finding.kind, finding.severity)).collect();
        assert_eq!(kinds, [(FindingKind::MissingSlices, Severity::Error)], "{places:?}");
    }
    // Echo times that are rounded differently.
    let folder = self::folder();
    let times = ["4.6", "4.601"].map(|time| with(tags::ECHO_TIME, VR::DS, time));
    write_all(&folder, (0..8_u16).map(|at| (at + 1, f64::from(at), &times[usize::from(at % 2)] as _)));
    assert_eq!(scan(folder.path()).expect("scanned").series.len(), 1);
    // Beds that share two of their ten slices.
    let folder = self::folder();
    let beds = ["1000", "2000"].map(|time| with(tags::FRAME_REFERENCE_TIME, VR::DS, time));
    let slices = (0..20_u16).map(|at| (at + 1, f64::from(at % 10 + 8 * (at / 10)), &beds[usize::from(at / 10)] as _));
    write_all(&folder, slices);
    let scanned = scan(folder.path()).expect("scanned");
    assert_eq!((scanned.series.len(), scanned.series[0].findings()[0].kind), (1, FindingKind::DuplicateSlices));
    // Two volumes that nothing tells apart: numbers run through both.
    let folder = self::folder();
    let places: Vec<f64> = (0..10_u16).map(|at| f64::from(at / 2) * 3.0 + f64::from(at % 2)).collect();
    write_stack(folder.path(), &places);
    let scan = scan(folder.path()).expect("scanned");
    let finding = &scan.series[0].findings()[0];
    assert_eq!((scan.series.len(), finding.kind), (1, FindingKind::MissingSlices));
    assert!(finding.text.contains("they may be two volumes"), "{}", finding.text);
}

/// Slices every 3 mm and every 5 mm share some positions.
#[test]
fn volumes_of_other_distances_are_parted() {
    let folder = folder();
    let places: Vec<f64> = (0..11).map(|at| 3.0 * f64::from(at)).chain((0..7).map(|at| 5.0 * f64::from(at))).collect();
    write_stack(folder.path(), &places);
    let scan = scan(folder.path()).expect("scanned");
    let mut found: Vec<_> =
        scan.series.iter().map(|series| (series.slices().len(), series.grid().spacing()[2])).collect();
    found.sort_by_key(|(count, _)| *count);
    assert_eq!(found, [(7, 5.0), (11, 3.0)]);
}

/// A scan that was stopped: the last time point lacks slices.
#[test]
fn an_incomplete_time_point_is_a_volume() {
    let folder = folder();
    let times = ["1", "2", "3"].map(|time| with(tags::TEMPORAL_POSITION_IDENTIFIER, VR::IS, time));
    let at = |number: u16| (number, f64::from((number - 1) % 3) * 2.0, &times[usize::from(number - 1) / 3] as _);
    write_all(&folder, (1..=8).map(at));
    let scan = scan(folder.path()).expect("scanned");
    let expected =
        [("time1", vec![100.0, 200.0, 300.0]), ("time2", vec![400.0, 500.0, 600.0]), ("time3", vec![700.0, 800.0])];
    assert_eq!(volumes(&scan), expected.map(|(key, values)| (key.to_owned(), values)));
}

/// Diffusion as Siemens stores it, the type of the private elements lost; directions have no name.
#[test]
fn b_values_and_directions_are_volumes() {
    let folder = folder();
    let weighted = |b: &'static str, direction: [f64; 3]| {
        move |object: Object| {
            let mut object = object.text(Tag(0x19, 0x10), VR::LO, "SIEMENS MR HEADER");
            let elements = [
                (Tag(0x19, 0x100c), VR::UN, PrimitiveValue::U8(b.as_bytes().into())),
                (tags::DIFFUSION_GRADIENT_ORIENTATION, VR::FD, PrimitiveValue::F64(direction.as_slice().into())),
            ];
            for (tag, vr, value) in elements {
                object.0.put(DataElement::new(tag, vr, value));
            }
            object
        }
    };
    let none = weighted("0 ", [0.0; 3]);
    let (x, y) = (weighted("1000", [1.0, 0.0, 0.0]), weighted("1000", [0.0, 1.0, 0.0]));
    type Change<'a> = &'a dyn Fn(Object) -> Object;
    let slices: [(u16, f64, Change<'_>); 6] =
        [(1, 0.0, &x), (2, 2.0, &y), (3, 2.0, &x), (4, 0.0, &y), (5, 0.0, &none), (6, 2.0, &none)];
    write_all(&folder, slices);
    let scan = scan(folder.path()).expect("scanned");
    let expected = [("b0", vec![500.0, 600.0]), ("b1000-1", vec![100.0, 300.0]), ("b1000-2", vec![400.0, 200.0])];
    assert_eq!(volumes(&scan), expected.map(|(key, values)| (key.to_owned(), values)));
}

#[test]
fn magnitude_and_phase_are_volumes() {
    let folder = folder();
    let kinds = ["ORIGINAL\\PRIMARY\\M\\ND", "ORIGINAL\\PRIMARY\\P\\ND"];
    let kinds = kinds.map(|kind| with(tags::IMAGE_TYPE, VR::CS, kind));
    write_all(&folder, (0..4_u16).map(|i| (i + 1, f64::from(i / 2), &kinds[usize::from(i % 2)] as _)));
    let scan = scan(folder.path()).expect("scanned");
    let expected = [("m", vec![100.0, 300.0]), ("p", vec![200.0, 400.0])];
    assert_eq!(volumes(&scan), expected.map(|(key, values)| (key.to_owned(), values)));
}

/// A localizer with the size and orientation of the slices, between them.
#[test]
fn a_localizer_is_no_slice_of_the_stack() {
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0]);
    let localizer = slice(9, [10.0, 20.0, 2.7]).text(tags::IMAGE_TYPE, VR::CS, "ORIGINAL\\PRIMARY\\LOCALIZER");
    localizer.write(&folder.path().join("loc.dcm"));
    let scan = scan(folder.path()).expect("scanned");
    let expected = [("axial", vec![100.0, 200.0, 300.0]), ("localizer", vec![900.0])];
    assert_eq!(volumes(&scan), expected.map(|(key, values)| (key.to_owned(), values)));
    let split = |series: &Series| series.findings().iter().any(|finding| finding.kind == FindingKind::Split);
    assert!(scan.series.iter().all(split));
}

/// Two scans of neighbouring parts of a body share one position: they are not two volumes.
#[test]
fn parts_that_touch_stay_together() {
    let folder = folder();
    let acquisitions = ["1", "2"].map(|number| with(tags::ACQUISITION_NUMBER, VR::IS, number));
    let at = |i: u16| (i + 1, f64::from(i - i / 4) * 2.0, &acquisitions[usize::from(i / 4)] as _);
    write_all(&folder, (0..8_u16).map(at));
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(scan.series.len(), 1);
    let found: Vec<_> = scan.series[0].findings().iter().map(|f| (f.kind, f.severity)).collect();
    assert_eq!(found, [(FindingKind::DuplicateSlices, Severity::Error)]);
    assert_eq!(scan.series[0].key(), None);
}

/// Frames of one file, each with the echo of its functional groups.
#[test]
fn echoes_of_an_enhanced_file_are_volumes() {
    let folder = folder();
    let group = |z: f64, echo: f64| {
        let position = Object::item().decimals(tags::IMAGE_POSITION_PATIENT, &[0.0, 0.0, z]);
        let mut echoes = Object::item();
        echoes.0.put(DataElement::new(tags::EFFECTIVE_ECHO_TIME, VR::FD, PrimitiveValue::from(echo)));
        Object::item()
            .sequence(tags::PLANE_POSITION_SEQUENCE, vec![position])
            .sequence(tags::MR_ECHO_SEQUENCE, vec![echoes])
    };
    let orientation = Object::item().decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let measures = Object::item().decimals(tags::PIXEL_SPACING, &[1.5, 1.25]);
    let shared = Object::item()
        .sequence(tags::PLANE_ORIENTATION_SEQUENCE, vec![orientation])
        .sequence(tags::PIXEL_MEASURES_SEQUENCE, vec![measures]);
    let groups = vec![group(0.0, 2.3), group(0.0, 4.6), group(3.0, 4.6), group(3.0, 2.3)];
    Object::new("1.2.840.10008.5.1.4.1.1.4.1", "MR")
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, "4")
        .sequence(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![shared])
        .sequence(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, groups)
        .pixels([1, 1], &[1, 2, 3, 4])
        .write(&folder.path().join("enhanced.dcm"));
    let scan = scan(folder.path()).expect("scanned");
    let expected = [("te2.3", vec![1.0, 4.0]), ("te4.6", vec![2.0, 3.0])];
    assert_eq!(volumes(&scan), expected.map(|(key, values)| (key.to_owned(), values)));
}

/// A volume is found by its key where the others are in another folder.
#[test]
fn a_key_names_a_volume_that_is_alone() {
    let folder = folder();
    let echo = with(tags::ECHO_NUMBERS, VR::IS, "2");
    write_all(&folder, [(1, 0.0, &echo as &dyn Fn(Object) -> Object), (2, 2.0, &echo)]);
    let scan = scan(folder.path()).expect("scanned");
    assert_eq!(scan.series[0].key(), None);
    assert_eq!(scan.series[0].name(), "1.2.3");
    assert_eq!(scan.select("1.2.3#echo2"), Ok(0));
    assert!(scan.select("1.2.3#echo1").is_err());
}

/// What is drawn on one echo refers to its slices alone, and is read on it.
#[test]
fn regions_refer_to_the_slices_of_their_volume() {
    let folder = folder();
    let echoes = ["1", "2"].map(|echo| {
        move |object: Object| {
            object.text(tags::ECHO_NUMBERS, VR::IS, echo).text(tags::STUDY_INSTANCE_UID, VR::UI, "1.2").text(
                tags::FRAME_OF_REFERENCE_UID,
                VR::UI,
                "1.2.5",
            )
        }
    });
    write_all(&folder, (0..6_u16).map(|i| (i + 1, f64::from(i / 2) * 2.0, &echoes[usize::from(i % 2)] as _)));
    let scanned = scan(folder.path()).expect("scanned");
    let series = &scanned.series[scanned.select("#echo2").expect("named")];
    let mut values = vec![0.0; 18];
    values[..4].fill(1.0);
    let regions = RegionVolume::of_labels(values, vec![Region::new(1, "GTV-1")], series.grid().clone());
    let by = Authorship::new("a test");
    let files = [
        ("seg.dcm", write::segmentation(&regions, series, &by).expect("a segmentation")),
        ("rs.dcm", write::structure_set(&regions, series, &by).expect("contours")),
    ];
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    let scanned = scan(folder.path()).expect("scanned");
    assert_eq!(scanned.annotations.len(), 2);
    for annotation in &scanned.annotations {
        let images = ["1.2.3.1", "1.2.3.2", "1.2.3.3", "1.2.3.4", "1.2.3.5", "1.2.3.6"];
        let referred = images.into_iter().filter(|uid| annotation.referenced_instances.iter().any(|one| one == uid));
        assert_eq!(referred.collect::<Vec<_>>(), ["1.2.3.2", "1.2.3.4", "1.2.3.6"]);
    }
    let pairs = scanned.pairs();
    assert_eq!(pairs.pairs.len(), 2);
    assert!(pairs.pairs.iter().all(|pair| pair.image.key() == Some("echo2")));
}
