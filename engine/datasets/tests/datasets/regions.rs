//! Tests of regions of slides: lists of them, regions drawn from annotations, and batch transforms.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hearth_datasets::layouts::{self, CaseList, Layout, Slides, Target, Wants};
use hearth_datasets::{DataLoader, Dataset, Field, LoaderOptions, TransformDataset, transform_batch};
use hearth_slides::{Annotations, Pick, PyramidOptions, pyramid};
use hearth_transforms::{DrawKey, Pipeline};

const SIDE: usize = 640;

/// A slide with stain in a square from 100 to 500; each pixel (x, y) encodes its position.
fn slide(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let pixel = |i: usize| {
        let (x, y) = (i % SIDE, i / SIDE);
        if (100..500).contains(&x) && (100..500).contains(&y) {
            [(x / 4) as u8, 20, (y / 4) as u8 + 100]
        } else {
            [240; 3]
        }
    };
    let pixels: Vec<u8> = (0..SIDE * SIDE).flat_map(pixel).collect();
    fs::write(path, pyramid(&pixels, SIDE, SIDE, &PyramidOptions::default()).expect("a pyramid")).expect("written");
}

fn wants() -> Wants {
    Wants { target: Target::Fields(vec!["label".into()]), ..Wants::default() }
}

fn small() -> Slides {
    Slides { region_size: 96, regions: 40, ..Slides::default() }
}

fn read(layout: &Slides, path: &Path) -> CaseList {
    layout.read(path, &wants()).unwrap_or_else(|error| panic!("{error}"))
}

fn fails(layout: &Slides, path: &Path, words: &[&str]) {
    let error = layout.read(path, &wants()).expect_err("refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} in {error}");
    }
}

fn numbers(item: &hearth_datasets::Item, key: &str) -> Vec<f64> {
    match item.fields.get(key) {
        Some(Field::Numbers(numbers)) => numbers.clone(),
        other => panic!("{key}: {other:?}"),
    }
}

/// A tumour of 300 x 300 pixels with its corner at (150, 150).
const TUMOUR: &str = r#"<ASAP_Annotations><Annotations><Annotation Name="t" Type="Polygon" PartOfGroup="_0"><Coordinates>
<Coordinate Order="0" X="150" Y="150"/><Coordinate Order="1" X="450" Y="150"/>
<Coordinate Order="2" X="450" Y="450"/><Coordinate Order="3" X="150" Y="450"/>
</Coordinates></Annotation></Annotations></ASAP_Annotations>"#;

#[test]
fn camelyons_list_has_its_labels_column_by_column() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for name in ["tumor_001", "normal_001"] {
        slide(&at(&format!("training/images/{name}.tif")));
    }
    fs::write(at("training.csv"), "tumor_001,200,300,1,0,0,1,0,1,0,0,0\ntumor_001,200,300,0,0,0,0,0,0,0,0,0\n")
        .expect("written");
    fs::write(at("validation.csv"), "normal_001,150,160,0,0,0,0,0,0,0,0,0\n").expect("written");
    assert!(small().fits(dir.path()) && small().fits(&at("training.csv")));
    let list = layouts::read(dir.path(), &wants()).expect("recognized");
    let names: Vec<&str> = list.labelled.iter().map(|item| item.case.as_str()).collect();
    let (first, second) = ("tumor_001 row 300 column 200", "normal_001 row 160 column 150");
    assert_eq!(names, [first, &format!("{first} (2)"), second]);
    assert_eq!(list.validation.as_deref(), Some(&[second.to_owned()][..]));
    // Columns 3, 6, 9 are the first row.
    assert_eq!(numbers(&list.labelled[0], "label"), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(numbers(&list.labelled[0], "location"), [300.0, 200.0]);
}

#[test]
fn tables_with_names_and_their_faults() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    slide(&at("images/a.tif"));
    slide(&at("images/b.tif"));
    let one = Slides { grid: 1, ..small() };
    let table = |text: &str| fs::write(at("regions.csv"), text).expect("written");
    table("slide,x,y,label,split\na,200,300,1,train\nb.tif,100,120,0,validation\n");
    let list = read(&one, &at("regions.csv"));
    assert_eq!(list.validation.as_deref(), Some(&["b row 120 column 100".to_owned()][..]));
    assert_eq!(numbers(&list.labelled[0], "label"), [1.0]);
    table("slide;x;y;label;split\r\n\"a\";200;300;1;train\r\nb.tif;100;120;0;validation\r\n");
    assert!(one.fits(&at("regions.csv")));
    assert_eq!(read(&one, &at("regions.csv")).labelled, list.labelled);
    let columns: String = (0..4).map(|i| format!(",label_{i}")).collect();
    table(&format!("row,column,image{columns}\n300,200,a,0,1,0,0\n10,20,b,0,0,0,0\n"));
    let list = read(&Slides { grid: 2, validation_fraction: 0.0, ..small() }, &at("regions.csv"));
    assert_eq!(numbers(&list.labelled[0], "label"), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(numbers(&list.labelled[0], "location"), [300.0, 200.0]);

    table("slide,x,y,label\na,200,300,1\nc,100,120,0\nd,1,2,0\nc,1,2,0\n");
    fails(
        &one,
        &at("regions.csv"),
        &["regions.csv", "2 slides are missing", "line 3: no slide \"c\"", "\"d\"", "images"],
    );
    table("slide,x,y,label\na,700,300,1\nb,100,640,0\n");
    let beyond = ["2 regions lie beyond", "a: x 700, y 300; the slide has 640 x 640 pixels", "b: x 100, y 640"];
    fails(&one, &at("regions.csv"), &beyond);
    table("slide,x,y,label\na,200,300,2\n");
    fails(&one, &at("regions.csv"), &["line 2", "\"2\", expected 0 or 1"]);
    table("slide,x,y,label\na,two,300,1\n");
    fails(&one, &at("regions.csv"), &["line 2", "x is \"two\""]);
    table("slide,x,y,label\na,200,1\n");
    fails(&one, &at("regions.csv"), &["line 2: 3 values, expected 4"]);
    table("slide,x,label\na,200,1\n");
    fails(&one, &at("regions.csv"), &["no column \"y\" or \"row\"", "12 columns"]);
    table("slide,x,y,label\n");
    fails(&one, &at("regions.csv"), &["lists no regions"]);
    table("slide,x,y,label\na,200,300,1\n");
    fails(&small(), &at("regions.csv"), &["1 labels for each region", "asks for 9"]);
    fails(&one, &at("regions.csv"), &["only slide with positive labels"]);
    fails(&Slides { positive: 2.0, ..small() }, &at("regions.csv"), &["positive = 2"]);
    table("slide,x,y,label,split\na,200,300,1,test\n");
    fails(&one, &at("regions.csv"), &["split is \"test\""]);
    fs::write(at("images/b.tif"), "no TIFF").expect("written");
    table("slide,x,y,label\na,200,300,1\nb,1,1,0\n");
    fails(&one, &at("regions.csv"), &["b.tif"]);
}

#[test]
fn regions_are_drawn_in_the_tissue_and_labelled_by_their_centres() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for name in ["t1", "t2", "n1", "n2"] {
        slide(&at(&format!("{name}.tif")));
    }
    fails(&small(), dir.path(), &["none of the 4 slides has annotations", "n1.xml"]);
    fs::write(at("t1.xml"), TUMOUR).expect("written");
    fs::create_dir(at("annotations")).expect("made");
    fs::write(at("annotations/t2.xml"), TUMOUR).expect("written");
    // A mask of CAMELYON is not a slide.
    slide(&at("t1_mask.tif"));
    assert!(small().fits(dir.path()));
    let list = read(&small(), dir.path());
    assert_eq!(list.labelled.len(), 160);
    let annotations = Annotations::open(at("t1.xml")).expect("sound");
    let mut positive = 0;
    for item in &list.labelled {
        let (place, labels) = (numbers(item, "location"), numbers(item, "label"));
        assert!(place.iter().all(|v| (99.0..501.0).contains(v)), "{}: outside the tissue", item.case);
        let has = item.case.starts_with('t');
        for (cell, label) in labels.iter().enumerate() {
            let centre = |i: usize| (i as f64 - 1.0) * 32.0;
            let point = [place[1] + centre(cell % 3), place[0] + centre(cell / 3)];
            assert_eq!(
                *label == 1.0,
                has && annotations.contains(point, &Pick::default()),
                "{} cell {cell}",
                item.case
            );
        }
        positive += usize::from(labels[4] == 1.0);
    }
    assert_eq!(positive, 40, "half of those of the slides with tumours");
    // One slide of each kind validates, and none of its regions is trained on.
    let held = list.validation.clone().expect("slides");
    let slides: std::collections::BTreeSet<&str> = held.iter().map(|case| &case[..2]).collect();
    assert_eq!((held.len() % 40, slides.iter().filter(|s| s.starts_with('t')).count()), (0, 1), "{slides:?}");
    assert_eq!(read(&small(), dir.path()).labelled, list.labelled, "the seed decides");
    assert_ne!(read(&Slides { seed: 1, ..small() }, dir.path()).labelled, list.labelled);

    fails(&Slides { classes: vec!["Tumor".into()], ..small() }, dir.path(), &["t1.xml", "[\"_0\"]", "[\"Tumor\"]"]);
    fs::write(at("t1.xml"), TUMOUR.replace("X=\"450\"", "X=\"4500\"")).expect("written");
    fails(&small(), dir.path(), &["t1.xml", "(4500, 150)", "640 x 640"]);
    fs::remove_file(at("t1.xml")).expect("removed");
    let open = r#"{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4]]]}"#;
    fs::write(at("t1.geojson"), open).expect("written");
    fails(&small(), dir.path(), &["t1.geojson", "not closed"]);
    fails(&small(), &at("annotations"), &["neither training.csv nor slides"]);
}

/// The chain of the recipe, smaller.
const CHAIN: &str = r#"transforms = [
    { name = "LoadRegion", keys = ["image"], size = [96, 96], label_grid = [3, 3] },
    { name = "GridSplit", keys = ["image", "label"], grid = [3, 3], size = { image = [28, 28], label = [1, 1] } },
]"#;

#[test]
fn a_region_becomes_patches_with_their_labels() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    slide(&at("a.tif"));
    fs::write(at("training.csv"), "a,300,240,1,0,0,0,0,0,0,1,0\n").expect("written");
    let list = read(&Slides { validation_fraction: 0.0, ..small() }, &at("training.csv"));
    let data = TransformDataset::new(list.labelled, Pipeline::from_toml(CHAIN).expect("sound")).expect("cases");
    let patches = data.get(0, 0).expect("patches");
    assert_eq!(patches.len(), 9);
    let labels: Vec<f32> = patches.iter().map(|patch| patch.image("label").expect("a label").to_vec()[0]).collect();
    assert_eq!(labels, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    // Starts 0, 34, 68 of a region whose corner is at row 192, column 252.
    let first = |patch: usize| patches[patch].image("image").expect("an image").to_vec();
    assert_eq!((first(0)[0], first(0)[2 * 28 * 28]), ((252 / 4) as f32, (192 / 4 + 100) as f32));
    assert_eq!((first(5)[0], first(5)[2 * 28 * 28]), (((252 + 68) / 4) as f32, ((192 + 34) / 4 + 100) as f32));
    // A region with another number of labels is an error that names the case.
    let other = Pipeline::from_toml(&CHAIN.replace("label_grid = [3, 3]", "label_grid = 2")).expect("sound");
    let list = read(&Slides { validation_fraction: 0.0, ..small() }, &at("training.csv"));
    let error = TransformDataset::new(list.labelled, other).expect("cases").get(0, 0).expect_err("labels").to_string();
    assert!(error.contains("9 labels") && error.contains("2 x 2") && error.contains("a row 240 column 300"), "{error}");
}

#[test]
fn transforms_of_batches_give_all_entries_one_draw() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    slide(&at("a.tif"));
    let rows: String = (0..4).map(|i| format!("a,{},{},0,0,0,0,0,0,0,0,0\n", 200 + 30 * i, 220 + 20 * i)).collect();
    fs::write(at("training.csv"), rows).expect("written");
    let cases = || read(&Slides { validation_fraction: 0.0, ..small() }, &at("training.csv")).labelled;
    let steps = r#"transforms = [
        { name = "RandFlip", keys = ["image"], prob = 0.5, spatial_axis = -1 },
        { name = "RandRotate90", keys = ["image"], prob = 0.5 },
        { name = "ScaleIntensityRange", keys = ["image"], a_min = 0.0, a_max = 255.0, b_min = -1.0, b_max = 1.0 },
    ]"#;
    let on_batch = Arc::new(Pipeline::from_toml(steps).expect("sound").seed(3));
    let data = || TransformDataset::new(cases(), Pipeline::from_toml(CHAIN).expect("sound")).expect("cases");
    let load = |workers: usize, epoch: u64| {
        let options = LoaderOptions { batch_size: 4, workers, ..LoaderOptions::default() };
        let loader = DataLoader::new(data(), options).expect("a loader").with_batch_transforms(on_batch.clone());
        loader.epoch(epoch, 0).next().expect("a batch").expect("sound")
    };
    let plain = {
        let options = LoaderOptions { batch_size: 4, ..LoaderOptions::default() };
        DataLoader::new(data(), options).expect("a loader").epoch(0, 0).next().expect("a batch").expect("sound")
    };
    let values = |batch: &hearth_datasets::Batch| batch.tensors["image"].clone().try_into_vec_as::<f32>().expect("f32");
    let mut different = 0;
    for epoch in 0..6 {
        let batch = load(0, epoch);
        assert_eq!(batch.tensors["image"].dims(), [36, 3, 28, 28, 1]);
        assert_eq!(values(&batch), values(&load(2, epoch)), "threads do not matter");
        // Each entry of the batch has the batch's draw.
        let draws = DrawKey::new(3, epoch, 0);
        let expected: Vec<f32> = (0..36)
            .flat_map(|entry| {
                let image = plain.image(&plain.tensors["image"], entry, "image").expect("an entry");
                let sample = hearth_transforms::Sample::new(format!("the batch of {}", plain.cases[0]))
                    .with_image("image", image);
                on_batch.run(sample, draws).expect("run")[0].image("image").expect("an image").to_vec()
            })
            .collect();
        assert_eq!(values(&batch), expected);
        assert_eq!(values(&transform_batch(plain.clone(), &on_batch, epoch).expect("sound")), expected);
        different += usize::from(values(&batch) != values(&load(0, epoch + 1)));
    }
    assert!(different >= 2, "epochs differ");
}
