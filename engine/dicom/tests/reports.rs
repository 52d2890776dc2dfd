//! Files of kinds that users of other readers reported, with the right values
//! (`reports/README.md` of the real files). Ignored: the files are not part of the project.

mod common;

use std::path::PathBuf;

use common::real_data;
use hearth_dicom::{Finding, FindingKind, Mask, ReadOptions, Severity, StructureSet, scan, write};

fn report(name: &str) -> PathBuf {
    real_data().join("reports").join(name)
}

/// The mask of the only region of a structure set on its CT, and the kinds of its findings.
fn drawn(name: &str) -> (Mask, Vec<FindingKind>) {
    let images = scan(report(name).join("ct")).expect("a CT");
    let set = StructureSet::open(report(name).join("rs.dcm")).expect("contours");
    let mask = set.mask(&set.rois[0].name, images.series[0].grid()).expect("a mask");
    let kinds = mask.findings.iter().map(|finding| finding.kind).collect();
    (mask, kinds)
}

fn voxels(mask: &Mask) -> usize {
    mask.values.iter().filter(|value| **value > 0).count()
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn contours_closer_together_than_slices_keep_their_volume() {
    let (mask, _) = drawn("r1");
    assert_eq!(voxels(&mask), 960);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_contour_that_is_drawn_twice_counts_once() {
    let (mask, kinds) = drawn("r2");
    assert_eq!((voxels(&mask), kinds), (800, vec![FindingKind::RepeatedContours]));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn ten_slices_of_one_instance_uid_are_ten() {
    let found = scan(report("d01_same_sop")).expect("a folder");
    assert_eq!(found.series[0].read().expect("a volume").shape, [1, 40, 32, 10]);
    let is_shared = |finding: &Finding| finding.kind == FindingKind::SharedInstance;
    assert!(found.series[0].findings().iter().any(is_shared));
    assert!(write::check(&found.series[0]).is_err());
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn gaps_of_three_and_six_are_an_error() {
    let found = scan(report("d14_nonuniform")).expect("a folder");
    let severities: Vec<Severity> = found.series[0].findings().iter().map(|finding| finding.severity).collect();
    assert!(severities.contains(&Severity::Error), "{severities:?}");
    assert!(found.series[0].read().is_err());
}

/// A screenshot without an orientation, and a video: neither belongs to the CT.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn files_of_other_series_do_not_block_a_volume() {
    for name in ["d07_sc_bad_iop", "e12_ct_plus_video"] {
        let found = scan(report(name)).expect("a folder");
        let at = found.series.iter().position(|series| series.modality() == "CT").expect("a CT");
        let mut alone = found;
        alone.series = vec![alone.series.swap_remove(at)];
        let volume =
            alone.into_volume(report(name), &ReadOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(volume.shape[3] > 1, "{name}: {:?}", volume.shape);
    }
}

/// A private sequence whose type was lost, in undefined length.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn unknown_sequences_of_undefined_length_are_passed() {
    let found = scan(report("d02_un_undef")).expect("a folder");
    assert_eq!(found.series[0].read().expect("a volume").shape, [1, 40, 32, 10]);
}

/// A localizer within the series of a stack.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_localizer_with_the_uid_of_a_stack_is_a_volume_of_its_own() {
    let found = scan(report("d04_localizer_same_uid")).expect("a folder");
    for (wanted, shape) in [("#axial", [1, 40, 32, 10]), ("#localizer", [1, 60, 50, 1])] {
        let series = &found.series[found.select(wanted).expect("named")];
        assert_eq!(series.read().expect("a volume").shape, shape, "{wanted}");
    }
    assert_eq!(found.series.len(), 2);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn both_echoes_of_a_patient_can_be_named() {
    let found = scan(report("tree_two_echo_patient")).expect("a tree");
    assert_eq!(found.series.len(), 4);
    for key in ["echo1", "echo2"] {
        let series = &found.series[found.select(&format!("#{key}")).expect("named")];
        assert_eq!((series.key(), series.patient(), series.shape()), (Some(key), Some("p2"), [1, 40, 32, 10]));
        let names = series.files().iter().all(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(if key == "echo1" { "t0_" } else { "t1_" })
        });
        assert!(names, "{:?}", series.files());
    }
}
