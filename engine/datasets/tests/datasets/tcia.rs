//! A collection of The Cancer Imaging Archive: from the answers of a service in this process to
//! batches.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_datasets::download::{Tcia, TciaOptions};
use hearth_datasets::layouts::{Layout, Target, Wants};
use hearth_datasets::quality::{VerifyOptions, verify};
use hearth_datasets::{
    DataLoader, Dataset, Item, LoaderOptions, PersistentDataset, StoreOptions, TransformDataset, dicom_items,
    split_fraction,
};
use hearth_dicom::AnnotationKind;
use hearth_image::spatial::{GridMode, GridPadding};
use hearth_transforms::transforms::{LoadImage, Orientation, ResampleToMatch};
use hearth_transforms::{DrawKey, Pipeline, Transform};

use crate::dicom::{Object, segmentation, slice, structures, write_stack};
use crate::server::{Act, Server, md5_of, quick, zip};

/// Depths of the slices of every series of images.
const DEPTHS: [f64; 5] = [0.0, 2.0, 4.0, 6.0, 8.0];
/// A query of the service.
const GET: &str = "/getImageWithMD5Hash?SeriesInstanceUID=";

fn bytes(object: &Object) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("1.dcm");
    object.write(&path);
    fs::read(&path).expect("a file")
}

/// The archive's answer for a series: its files, their MD5 sums, and a licence.
fn archive(files: &[Vec<u8>]) -> Vec<u8> {
    let names: Vec<String> = (1..=files.len()).map(|i| format!("1-{i}.dcm")).collect();
    let sums: String = names.iter().zip(files).map(|(name, file)| format!("{name},{}\n", md5_of(file))).collect();
    let sums = format!("FileName,MD5Hash\n{sums}");
    let mut entries: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice)).collect();
    entries.extend([("md5hashes.csv", sums.as_bytes()), ("LICENSE", b"as you like".as_slice())]);
    zip(&entries)
}

/// A series of images; values are `100 * slice + pixel`.
fn images(uid: &str) -> Act {
    let file = |(i, depth): (usize, &f64)| {
        let number = i as u16 + 1;
        bytes(&slice(number, [10.0, 20.0, *depth]).text(tags::SERIES_INSTANCE_UID, VR::UI, uid))
    };
    Act::Serve(archive(&DEPTHS.iter().enumerate().map(file).collect::<Vec<_>>()))
}

/// A tumour in the slices at 2 and 6 mm, and the lung around it, with label numbers that vary by
/// case.
fn tumour(number: u16, lung: u16) -> Object {
    let (one, two) = ([0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]);
    segmentation(
        &[(number, "GTV-1"), (lung, "Lung")],
        &[(number, 2.0, one), (lung, 2.0, [1, 0, 0, 0, 0, 0]), (number, 6.0, two)],
    )
    .text(tags::STUDY_INSTANCE_UID, VR::UI, "1.5")
}

/// The same for patient LUNG/2, drawn on series 1.3, with number 300.
fn of_lung_2(object: Object) -> Object {
    let series = Object::item().text(tags::SERIES_INSTANCE_UID, VR::UI, "1.3");
    let object = object.sequence(tags::REFERENCED_SERIES_SEQUENCE, vec![series]);
    object.text(tags::PATIENT_ID, VR::LO, "LUNG/2").text(tags::SERIES_NUMBER, VR::IS, "300")
}

fn list(uids: &[&str], key: &str) -> Act {
    let entries: Vec<_> = uids.iter().map(|uid| serde_json::json!({ key: uid })).collect();
    Act::Serve(serde_json::to_vec(&entries).expect("JSON"))
}

fn of_series(uid: &str) -> &'static str {
    format!("{GET}{uid}").leak()
}

/// Three segmentations: one references its series, one only images, and one has the same patient
/// and number as another.
fn collection() -> Server {
    let direct = of_lung_2(tumour(2, 1));
    let image = Object::item().text(tags::REFERENCED_SOP_INSTANCE_UID, VR::UI, "5.5.5");
    let source = Object::item().sequence(tags::SOURCE_IMAGE_SEQUENCE, vec![image]);
    // Without number and patient, but with their substitutes.
    let by_instance = tumour(1, 2)
        .text(tags::PATIENT_NAME, VR::PN, "LUNG-1")
        .text(tags::ACQUISITION_NUMBER, VR::IS, "7")
        .sequence(tags::DERIVATION_IMAGE_SEQUENCE, vec![source]);
    let of = |object: &Object| Act::Serve(archive(&[bytes(object)]));
    let damaged = [bytes(&direct)[..600].to_vec()];
    let other_sum = zip(&[("1.dcm", b"content"), ("md5hashes.csv", format!("1.dcm,{}", md5_of(b"other")).as_bytes())]);
    Server::new([
        ("/getSeries?Collection=NSCLC%20%26%20Co&Modality=SEG", list(&["1.2", "1.1", "1.6"], "SeriesInstanceUID")),
        (of_series("1.1"), of(&direct)),
        (of_series("1.2"), of(&by_instance)),
        (of_series("1.6"), of(&of_lung_2(tumour(1, 2)))),
        (of_series("1.3"), images("1.3")),
        (of_series("1.4"), images("1.4")),
        ("/getSeries?StudyInstanceUID=1.5", list(&["1.8", "1.4"], "SeriesInstanceUID")),
        ("/getSOPInstanceUIDs?SeriesInstanceUID=1.8", list(&["5.5.4"], "SOPInstanceUID")),
        ("/getSOPInstanceUIDs?SeriesInstanceUID=1.4", list(&["5.5.4", "5.5.5"], "SOPInstanceUID")),
        ("/getSeries?Collection=Bad&Modality=SEG", list(&["2.1"], "SeriesInstanceUID")),
        (of_series("2.1"), Act::Serve(other_sum)),
        ("/getSeries?Collection=Evil&Modality=SEG", list(&["../../x"], "SeriesInstanceUID")),
        ("/getSeries?Collection=None&Modality=SEG", Act::Serve(Vec::new())),
        ("/getSeries?Collection=Text&Modality=SEG", Act::Serve(b"<html>".to_vec())),
        ("/getSeries?Collection=Cut&Modality=SEG", list(&["2.2"], "SeriesInstanceUID")),
        (of_series("2.2"), Act::Serve(archive(&damaged))),
        ("/getSeries?Collection=Images&Modality=SEG", list(&["1.4"], "SeriesInstanceUID")),
        ("/getSeries?Collection=Alone&Modality=SEG", list(&["2.3"], "SeriesInstanceUID")),
        (of_series("2.3"), of(&tumour(1, 2))),
    ])
}

fn options(server: &Server) -> TciaOptions {
    TciaOptions { base: Some(server.base.clone()), fetch: quick(), ..TciaOptions::default() }
}

fn downloaded(server: &Server, dir: &Path) -> Vec<Item> {
    Tcia::download("NSCLC & Co", dir, &options(server)).expect("downloaded").cases().expect("cases")
}

/// Image and tumour on one grid.
fn pipeline() -> Arc<Pipeline> {
    let keys = ["image", "seg"];
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new("image").reader(Some("PydicomReader".to_owned()))),
        Box::new(LoadImage::new("seg").segments(vec!["GTV-1".to_owned()])),
        Box::new(ResampleToMatch::new("seg", "image").mode(GridMode::Nearest).padding_mode(GridPadding::Zeros)),
        Box::new(Orientation::new(keys, "LPS")),
    ];
    Arc::new(Pipeline::new(steps).expect("sound"))
}

#[test]
fn a_collection_is_laid_out_by_patient() {
    let (server, dir) = (collection(), tempfile::tempdir().expect("a folder"));
    let cases = downloaded(&server, dir.path());
    let names: Vec<&str> = cases.iter().map(|c| c.case.as_str()).collect();
    assert_eq!(names, ["LUNG-1/7", "LUNG_2/300", "LUNG_2/300-2"]);
    for case in &cases {
        let files = |key: &str| fs::read_dir(&case.files[key]).expect("a folder").count();
        assert_eq!((files("image"), files("seg")), (DEPTHS.len() + 2, 3), "{}", case.case);
    }
    assert!(!dir.path().join("raw").exists());
    let (training, validation) = split_fraction(&cases, 0.4, 0).expect("a fraction");
    assert_eq!((training.len(), validation.len()), (2, 1));
    let fetched = |before: usize| server.requests()[before..].iter().filter(|r| r.starts_with("/getImage")).count();
    let before = server.requests().len();
    assert_eq!(downloaded(&server, dir.path()), cases);
    assert_eq!(fetched(before), 0, "series that are there are not fetched again");
    // Without the index of series, each finds its folder again.
    fs::remove_file(dir.path().join("series.json")).expect("removed");
    assert_eq!(downloaded(&server, dir.path()), cases);
    assert!(!dir.path().join("raw").exists());
    let few = TciaOptions { limit: Some(1), ..options(&server) };
    let few = Tcia::download("NSCLC & Co", dir.path().join("few"), &few).expect("downloaded");
    assert_eq!(few.cases().expect("a case").len(), 1);
}

#[test]
fn cases_of_a_collection_become_batches() {
    let (server, dir) = (collection(), tempfile::tempdir().expect("a folder"));
    let cases = downloaded(&server, dir.path());
    let dataset = TransformDataset::new(cases.clone(), pipeline()).expect("sound");
    for index in 0..dataset.len() {
        let sample = dataset.get(index, 0).expect("a sample").remove(0);
        let (image, seg) = (sample.image("image").expect("an image"), sample.image("seg").expect("a label"));
        assert_eq!((image.shape(), seg.shape()), ([3, 2, 5], [3, 2, 5]));
        assert_eq!((image.affine, seg.meta.stored_type.as_str()), (seg.affine, "uint8"));
        let (values, labels) = (image.to_vec(), seg.to_vec());
        // Pixel 1 of the second slice and pixel 5 of the fourth, independent of the number of the
        // segment.
        let marked: Vec<f32> = values.iter().zip(&labels).filter(|(_, l)| **l != 0.0).map(|(v, _)| *v).collect();
        assert_eq!(marked, [201.0, 405.0], "{}", sample.case);
        assert!(labels.iter().all(|label| [0.0, 1.0].contains(label)));
    }
    let folder = dir.path().join("cache");
    let kept = PersistentDataset::new(cases, pipeline(), folder, StoreOptions::default()).expect("a folder");
    let loader = DataLoader::new(Arc::new(kept), LoaderOptions { batch_size: 3, ..LoaderOptions::default() });
    for epoch in 0..2 {
        let batch = loader.as_ref().expect("a loader").epoch(epoch, 0).next().expect("a batch").expect("sound");
        assert_eq!(batch.tensor("seg").expect("labels").dims(), [3, 1, 3, 2, 5]);
    }
}

#[test]
fn what_the_archive_gets_wrong_is_told() {
    let (server, dir) = (collection(), tempfile::tempdir().expect("a folder"));
    for (collection, told) in [
        ("Bad", "checksum"),
        ("Evil", "no usable UID"),
        ("None", "no series"),
        ("Text", "not JSON"),
        ("Gone", "404"),
        ("Cut", "1-1.dcm"),
        ("Images", "no segmentation (SEG)"),
        ("Alone", "refers to no series of images"),
    ] {
        let error = Tcia::download(collection, dir.path(), &options(&server)).expect_err(collection).to_string();
        assert!(error.contains(told), "{collection}: {error}");
    }
    assert!(Tcia::open(dir.path()).cases().expect_err("none").to_string().contains("PATIENT/NUMBER/image"));
}

/// Any folder of DICOM: the headers determine which files belong together.
#[test]
fn cases_are_found_in_folders_laid_out_otherwise() {
    let dir = tempfile::tempdir().expect("a folder");
    let (images, other, drawn) = (dir.path().join("a/ct"), dir.path().join("b"), dir.path().join("drawn"));
    for folder in [&images, &other, &drawn] {
        fs::create_dir_all(folder).expect("a folder");
    }
    write_stack(&images, &DEPTHS);
    let error = |what: &str| {
        let error = dicom_items(dir.path()).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    };
    error("1 series of images, but no structure set (RTSTRUCT) or segmentation (SEG)");
    let set = structures(&[("GTV-1", 2.0, [1, 0], [1, 0])]).text(tags::PATIENT_ID, VR::LO, "P1");
    for (name, number) in [("one.dcm", "3"), ("two.dcm", "3"), ("three.dcm", "20")] {
        set.clone().text(tags::SERIES_NUMBER, VR::IS, number).write(&drawn.join(name));
    }
    // Drawn on images that are missing, for a patient without any: skipped.
    of_lung_2(tumour(1, 2)).write(&drawn.join("alone.dcm"));
    let cases = dicom_items(dir.path()).expect("cases");
    let names: Vec<&str> = cases.iter().map(|case| case.case.as_str()).collect();
    assert_eq!(names, ["P1/3", "P1/3-2", "P1/20"]);
    assert!(cases.iter().all(|case| case.files["image"] == images));
    assert_eq!(cases[2].files["seg"], drawn.join("three.dcm"));
    // `verify` finds the same pairs.
    let report = verify(dir.path(), &VerifyOptions::default()).expect("a report");
    let with_label: Vec<&str> = report.cases.iter().filter(|c| c.label.is_some()).map(|c| c.case.as_str()).collect();
    assert_eq!(with_label, names);
    assert!(report.cases.iter().filter(|c| c.label.is_some()).all(|c| c.labels.len() == 1 && c.labels[0].voxels > 0));
    // A folder of several series is ambiguous.
    slice(1, [10.0, 20.0, 0.0]).text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.7").write(&images.join("other.dcm"));
    error("holds 2 series of images; give each a folder of its own");
    fs::rename(images.join("other.dcm"), other.join("other.dcm")).expect("moved");
    assert_eq!(dicom_items(dir.path()).expect("cases"), cases);
    assert!(dicom_items(other).expect_err("no label").to_string().contains("but no structure set"));
    assert!(dicom_items(dir.path().join("none")).is_err());
}

/// As in NSCLC-Radiomics: each patient has both, and an image must not be used for training and
/// validation.
#[test]
fn a_segmentation_and_a_structure_set_of_one_series_are_one_case() {
    let dir = tempfile::tempdir().expect("a folder");
    let images = dir.path().join("ct");
    fs::create_dir(&images).expect("a folder");
    write_stack(&images, &DEPTHS);
    let set = structures(&[("GTV-1", 2.0, [1, 0], [1, 0])]).text(tags::PATIENT_ID, VR::LO, "P1");
    set.write(&dir.path().join("set.dcm"));
    let series = crate::dicom::Object::item().text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3");
    let seg = crate::dicom::segmentation(&[(1, "GTV-1")], &[(1, 2.0, [0, 1, 0, 0, 0, 0])]);
    let seg = seg.text(tags::PATIENT_ID, VR::LO, "P1").sequence(tags::REFERENCED_SERIES_SEQUENCE, vec![series]);
    seg.write(&dir.path().join("seg.dcm"));
    let label = |kind| {
        let items = hearth_datasets::dicom_items_preferring(dir.path(), kind).expect("cases");
        assert_eq!(items.len(), 1, "{items:?}");
        items[0].files["seg"].file_name().expect("a name").to_string_lossy().into_owned()
    };
    assert_eq!(label(AnnotationKind::Segmentation), "seg.dcm");
    assert_eq!(label(AnnotationKind::StructureSet), "set.dcm");
    // The layout of recipes.
    for (table, name) in [("", "seg.dcm"), ("prefer = \"RTSTRUCT\"", "set.dcm")] {
        let layout: hearth_datasets::layouts::Dicom = toml::from_str(table).expect("a table");
        let wants = Wants { target: Target::Image { name: None }, ..Wants::default() };
        let list = layout.read(dir.path(), &wants).expect("cases");
        assert!(list.labelled[0].files["label"].ends_with(name), "{table}");
    }
    fs::remove_file(dir.path().join("seg.dcm")).expect("removed");
    assert_eq!(label(AnnotationKind::Segmentation), "set.dcm", "the other one, where there is only that");
}

/// Two echoes in one series, and a segmentation of the second: the case is the second echo.
#[test]
fn a_case_is_the_volume_that_was_drawn_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let images = dir.path().join("mr");
    fs::create_dir(&images).expect("a folder");
    for i in 0..10_u16 {
        slice(i + 1, [10.0, 20.0, f64::from(i / 2) * 2.0])
            .text(tags::ECHO_NUMBERS, VR::IS, &(i % 2 + 1).to_string())
            .write(&images.join(format!("{i}.dcm")));
    }
    let instance = Object::item().text(tags::REFERENCED_SOP_INSTANCE_UID, VR::UI, "1.2.3.4");
    let series = Object::item()
        .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.3")
        .sequence(tags::REFERENCED_INSTANCE_SEQUENCE, vec![instance]);
    segmentation(&[(1, "GTV-1")], &[(1, 2.0, [0, 1, 0, 0, 0, 0])])
        .text(tags::PATIENT_ID, VR::LO, "P1")
        .sequence(tags::REFERENCED_SERIES_SEQUENCE, vec![series])
        .write(&dir.path().join("seg.dcm"));
    let wants = Wants { target: Target::Image { name: None }, ..Wants::default() };
    let list = hearth_datasets::layouts::Dicom::default().read(dir.path(), &wants).expect("cases");
    let label = LoadImage::new("label").reference_key(Some("image".to_owned()));
    let pipeline = Pipeline::new((LoadImage::new("image"), label)).expect("sound");
    let out = pipeline.run(list.labelled[0].sample(), DrawKey::new(0, 0, 0)).expect("a case");
    let [image, label] = ["image", "label"].map(|key| out[0].image(key).expect("an image").clone());
    assert_eq!((image.shape(), label.shape()), ([3, 2, 5], [3, 2, 5]));
    assert_eq!(image.to_vec()[..5], [200.0, 400.0, 600.0, 800.0, 1000.0]);
    assert_eq!(label.to_vec().iter().filter(|value| **value == 1.0).count(), 1);
    let report = verify(dir.path(), &VerifyOptions::default()).expect("a report");
    assert_eq!((report.cases.len(), report.cases[0].labels.len()), (1, 1), "{:?}", report.findings);
}
