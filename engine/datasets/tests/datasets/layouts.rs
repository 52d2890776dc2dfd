//! Tests of data sets in every layout, with small volumes, and of the messages for damaged ones.

use std::fs;
use std::path::Path;

use hearth_datasets::layouts::{self, CaseList, Target, Wants};
use hearth_datasets::quality::{Severity, Verification, VerifyOptions, verify};
use hearth_datasets::{Field, check_grids};
use hearth_image::{Image, affine};
use hearth_io::writers::{WriteOptions, write_image};
use hearth_io::{NiftiOptions, readers, write_nifti};
use hearth_transforms::Pipeline;

/// A volume whose voxels hold `value`; `shift` moves it along x, in mm.
fn volume(path: &Path, channels: usize, value: f32, shift: f64) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let size = [channels, 4, 3, 2];
    let values = (0..channels * 24).map(|index| value + (index / 24) as f32 * 10.0).collect();
    let mut affine = hearth_image::affine::IDENTITY;
    affine[0][3] = shift;
    let image = Image::from_values(values, size, affine, &Default::default());
    write_nifti(path, &image, NiftiOptions::default()).expect("written");
}

fn wants(images: &[&str]) -> Wants {
    let images = images.iter().map(|name| (*name).to_owned()).collect();
    Wants { images, target: Target::label(), ..Wants::default() }
}

fn read(path: &Path, wants: &Wants) -> CaseList {
    layouts::read(path, wants).unwrap_or_else(|error| panic!("{error}"))
}

fn fails(path: &Path, wants: &Wants, words: &[&str]) {
    let error = layouts::read(path, wants).expect_err("refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} in {error}");
    }
}

/// The first voxel of each channel of the first case's image.
fn channels(list: &CaseList) -> Vec<f32> {
    let steps = Pipeline::from_toml("transforms = [{ name = \"LoadImage\", keys = [\"image\"] }]").expect("a pipeline");
    let sample = steps.run_deterministic(list.labelled[0].sample()).expect("loaded").remove(0);
    let image = sample.image("image").expect("an image");
    image.to_vec().chunks(24).map(|channel| channel[0]).collect()
}

fn names(list: &CaseList) -> Vec<&str> {
    list.labelled.iter().map(|item| item.case.as_str()).collect()
}

#[test]
fn nnunet_raw_gathers_a_file_for_each_channel() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for case in ["b", "a"] {
        volume(&at(&format!("imagesTr/{case}_0000.nii.gz")), 1, 1.0, 0.0);
        volume(&at(&format!("imagesTr/{case}_0001.nii.gz")), 1, 2.0, 0.0);
        volume(&at(&format!("labelsTr/{case}.nii.gz")), 1, 0.0, 0.0);
    }
    volume(&at("imagesTs/c_0000.nii.gz"), 1, 1.0, 0.0);
    volume(&at("imagesTs/c_0001.nii.gz"), 1, 2.0, 0.0);
    fs::write(
        at("dataset.json"),
        r#"{"channel_names":{"0":"CT","1":"PET"},"labels":{"background":0,"whole":[1,2],"core":2},"numTraining":2,"file_ending":".nii.gz"}"#,
    )
    .expect("written");
    let list = read(dir.path(), &wants(&[]));
    assert_eq!((names(&list), list.unlabelled.len()), (vec!["a", "b"], 1));
    assert_eq!((list.labels[&1].as_str(), list.modalities.join(" ")), ("whole", "CT PET".to_owned()));
    assert_eq!(channels(&list), [1.0, 2.0]);
    assert_eq!(channels(&read(dir.path(), &wants(&["PET", "CT"]))), [2.0, 1.0]);
    assert_eq!(channels(&read(dir.path(), &wants(&["pet"]))), [2.0]);
    fails(dir.path(), &wants(&["PETT"]), &["unknown modality \"PETT\", did you mean \"PET\"?"]);
    // nnU-Net's input for prediction: only the folder of images.
    let alone = layouts::read(&at("imagesTs"), &wants(&[])).expect("read");
    assert_eq!(alone.unlabelled[0].parts["image"].files.len(), 2);
    fs::remove_file(at("imagesTr/b_0001.nii.gz")).expect("removed");
    fails(dir.path(), &wants(&[]), &["b: has no b_0001.nii.gz (PET)"]);
    read(dir.path(), &wants(&["CT"]));
    fs::remove_file(at("labelsTr/a.nii.gz")).expect("removed");
    fails(dir.path(), &wants(&["CT"]), &["labelsTr", "no label of these cases", "a"]);
}

/// nnU-Net verifies these, too: a patient who is to train must not be lost.
#[test]
fn nnunet_raw_refuses_images_of_other_names_and_another_number_of_cases() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for case in ["a", "b"] {
        volume(&at(&format!("imagesTr/{case}_0000.nii.gz")), 1, 1.0, 0.0);
        volume(&at(&format!("labelsTr/{case}.nii.gz")), 1, 0.0, 0.0);
    }
    let json = |count: u64| {
        let text =
            r#"{"channel_names":{"0":"CT"},"labels":{"background":0,"x":1},"file_ending":".nii.gz","numTraining":"#;
        fs::write(at("dataset.json"), format!("{text}{count}}}")).expect("written");
    };
    json(2);
    read(dir.path(), &wants(&[]));
    for odd in ["imagesTr/c.nii.gz", "imagesTr/c_0000.nii"] {
        volume(&at(odd), 1, 1.0, 0.0);
        fails(dir.path(), &wants(&[]), &["not named CASE_0000.nii.gz", odd.strip_prefix("imagesTr/").unwrap_or(odd)]);
        fs::remove_file(at(odd)).expect("removed");
    }
    json(3);
    fails(dir.path(), &wants(&[]), &["numTraining is 3, and there are 2 cases"]);
}

/// A picture has its colours in one file, which `dataset.json` lists as channels.
#[test]
fn nnunet_raw_takes_the_colours_of_a_picture_for_channels() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for name in ["imagesTr", "labelsTr"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    let write = |name: &str, values: Vec<f32>, channels: usize| {
        let image = Image::from_values(values, [channels, 6, 4, 1], affine::IDENTITY, &Default::default());
        write_image(at(name), &image, &WriteOptions::label()).expect("written");
    };
    for case in ["a", "b"] {
        write(&format!("imagesTr/{case}_0000.png"), (0..72).map(|at| (10 * (at / 24)) as f32).collect(), 3);
        write(&format!("labelsTr/{case}.png"), (0..24).map(|at| (at % 2) as f32).collect(), 1);
    }
    let json = r#"{"channel_names":{"0":"R","1":"G","2":"B"},"labels":{"background":0,"disc":1},"numTraining":2,"file_ending":".png"}"#;
    fs::write(at("dataset.json"), json).expect("written");
    let list = read(dir.path(), &wants(&[]));
    assert_eq!((names(&list), list.modalities.join(" ")), (vec!["a", "b"], "R G B".to_owned()));
    assert_eq!(channels(&list), [0.0, 10.0, 20.0]);
    assert_eq!(channels(&read(dir.path(), &wants(&["B", "R"]))), [20.0, 0.0]);
    // Channels in separate files are searched like those of volumes.
    write("imagesTr/a_0001.png", vec![5.0; 24], 1);
    fails(dir.path(), &wants(&[]), &["a: has no a_0002.png (B)"]);
}

#[test]
fn nnunet_raw_reads_a_table_of_files() {
    let dir = tempfile::tempdir().expect("a folder");
    volume(&dir.path().join("one.nii.gz"), 1, 5.0, 0.0);
    volume(&dir.path().join("seg.nii.gz"), 1, 0.0, 0.0);
    let json = r#"{"channel_names":{"0":"CT"},"labels":{"background":0,"x":1},"numTraining":1,"file_ending":".nii.gz",
        "dataset":{"k":{"images":["one.nii.gz"],"label":"seg.nii.gz"}}}"#;
    fs::write(dir.path().join("dataset.json"), json).expect("written");
    let list = read(dir.path(), &wants(&[]));
    assert_eq!((names(&list), channels(&list)), (vec!["k"], vec![5.0]));
    fs::write(dir.path().join("dataset.json"), json.replace("one.nii", "two.nii")).expect("written");
    fails(dir.path(), &wants(&[]), &["dataset.k: ", "two.nii.gz does not exist"]);
}

#[test]
fn brats_folders_of_both_naming_schemes_have_the_channels_of_the_decathlon() {
    for (end, suffixes) in [("_", ["flair", "t1", "t1ce", "t2"]), ("-", ["t2f", "t1n", "t1c", "t2w"])] {
        let dir = tempfile::tempdir().expect("a folder");
        let case = |name: &str, suffix: &str| dir.path().join(format!("HGG/{name}/{name}{end}{suffix}.nii.gz"));
        for name in ["BraTS_2", "BraTS_1"] {
            for (index, suffix) in suffixes.iter().enumerate() {
                volume(&case(name, suffix), 1, index as f32, 0.0);
            }
        }
        volume(&case("BraTS_1", "seg"), 1, 0.0, 0.0);
        let list = read(dir.path(), &wants(&[]));
        assert_eq!((names(&list), list.unlabelled.len()), (vec!["BraTS_1"], 1));
        assert_eq!(channels(&list), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(channels(&read(dir.path(), &wants(&["T1gd", "FLAIR"]))), [2.0, 0.0]);
        // The folder of one patient is a data set with one case.
        assert_eq!(read(&dir.path().join("HGG/BraTS_1"), &wants(&[])).labelled.len(), 1);
        fs::remove_file(case("BraTS_2", suffixes[2])).expect("removed");
        fails(dir.path(), &wants(&[]), &["BraTS_2: has no T1gd", "data.images"]);
    }
}

#[test]
fn files_of_a_case_on_different_grids_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    for (index, suffix) in ["flair", "t1", "t1ce", "t2"].iter().enumerate() {
        let shift = if *suffix == "t1ce" { 3.0 } else { 0.0 };
        volume(&dir.path().join(format!("p/p_{suffix}.nii.gz")), 1, index as f32, shift);
    }
    volume(&dir.path().join("p/p_seg.nii.gz"), 1, 0.0, 0.0);
    let list = read(dir.path(), &wants(&[]));
    let error = check_grids(&list.labelled).expect_err("apart");
    for word in ["case p", "p_t1ce.nii.gz", "3.00 mm off p_flair.nii.gz", "resample"] {
        assert!(error.contains(word), "{word:?} in {error}");
    }
    let error = readers::read_parts(&list.labelled[0].parts["image"], &Default::default()).expect_err("apart");
    assert!(error.to_string().contains("3.00 mm off"), "{error}");
    check_grids(&read(dir.path(), &wants(&["flair", "t1", "t2"])).labelled).expect("on one grid");
}

#[test]
fn decathlon_channels_are_chosen_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    volume(&dir.path().join("imagesTr/b.nii.gz"), 4, 0.0, 0.0);
    volume(&dir.path().join("labelsTr/b.nii.gz"), 1, 0.0, 0.0);
    let json = r#"{"name":"BRATS","modality":{"0":"FLAIR","1":"T1w","2":"t1gd","3":"T2w"},"labels":{"0":"background","1":"edema"},
        "training":[{"image":"./imagesTr/b.nii.gz","label":"./labelsTr/b.nii.gz"}],"test":[]}"#;
    fs::write(dir.path().join("dataset.json"), json).expect("written");
    assert_eq!(channels(&read(dir.path(), &wants(&[]))), [0.0, 10.0, 20.0, 30.0]);
    let list = read(dir.path(), &wants(&["t1ce", "flair"]));
    assert_eq!((channels(&list), list.modalities.join(" ")), (vec![20.0, 0.0], "t1gd FLAIR".to_owned()));
    fails(dir.path(), &wants(&["ADC"]), &["dataset.json", "unknown modality \"ADC\"", "FLAIR"]);
}

#[test]
fn bids_chooses_by_suffix_and_knows_participants() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::write(at("dataset_description.json"), r#"{"Name":"Heads","BIDSVersion":"1.8.0"}"#).expect("written");
    fs::write(at("participants.tsv"), "participant_id\tage\tsex\nsub-01\t41\tf\nsub-02\tn/a\tm\n").expect("written");
    for (subject, base) in [("sub-01", 1.0), ("sub-02", 5.0)] {
        volume(&at(&format!("{subject}/anat/{subject}_T1w.nii.gz")), 1, base, 0.0);
        volume(&at(&format!("{subject}/anat/{subject}_ce-gad_T1w.nii.gz")), 1, base + 1.0, 0.0);
        volume(&at(&format!("{subject}/anat/{subject}_FLAIR.nii.gz")), 1, base + 2.0, 0.0);
    }
    volume(&at("derivatives/manual/sub-01/anat/sub-01_desc-lesion_mask.nii.gz"), 1, 0.0, 0.0);
    let list = read(dir.path(), &wants(&["T1w", "T1gd", "FLAIR"]));
    assert_eq!((list.name.as_str(), names(&list), list.unlabelled.len()), ("Heads", vec!["sub-01"], 1));
    assert_eq!(channels(&list), [1.0, 2.0, 3.0]);
    assert_eq!(list.labelled[0].fields["age"], Field::Number(41.0));
    assert!(!list.unlabelled[0].fields.contains_key("age"), "n/a is no value");
    fails(dir.path(), &wants(&[]), &["several kinds", "FLAIR, T1w", "data.images"]);
    fails(dir.path(), &wants(&["T2w"]), &["sub-01: has no T2w"]);
    let ages = Wants { target: Target::Fields(vec!["age".to_owned()]), ..wants(&["FLAIR"]) };
    assert_eq!(names(&read(dir.path(), &ages)), ["sub-01"]);
}

#[test]
fn tables_take_columns_of_modalities_and_numeric_labels() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["a1", "a2", "b1", "b2"] {
        volume(&dir.path().join(format!("{name}.nii.gz")), 1, name.len() as f32, 0.0);
    }
    let table = dir.path().join("list.csv");
    // A table as spreadsheets write it, with a byte order mark.
    fs::write(&table, "\u{feff}patient,pre,post,label\np1,a1.nii.gz,a2.nii.gz,1\np2,b1.nii.gz,b2.nii.gz,\n")
        .expect("written");
    let scores = Wants { target: Target::Fields(vec!["label".to_owned()]), ..wants(&["pre", "post"]) };
    let list = read(&table, &scores);
    assert_eq!((names(&list), list.unlabelled.len()), (vec!["a1"], 1));
    assert_eq!(list.labelled[0].fields["label"], Field::Number(1.0));
    assert_eq!(channels(&list), [2.0, 2.0]);
    // As a German Excel writes it: semicolons, decimal commas, quotes around what holds a semicolon.
    fs::write(&table, "patient;pre;post;score;note\r\np1;a1.nii.gz;a2.nii.gz;0,25;\"a; b\"\r\n").expect("written");
    let numbers = Wants { target: Target::Fields(vec!["score".to_owned()]), ..wants(&["pre", "post"]) };
    let list = read(&table, &numbers);
    assert_eq!(list.labelled[0].fields["score"], Field::Number(0.25));
    assert_eq!(list.labelled[0].fields["note"], Field::Text("a; b".to_owned()));
    fs::write(&table, "patient,pre,post,label\np1,a1.nii.gz,a2.nii.gz,1\np2,b1.nii.gz,b2.nii.gz,\n").expect("written");
    fails(&table, &wants(&[]), &["unknown column \"image\"", "data.images"]);
    fails(&table, &wants(&["pre"]), &["a1: ", "1 does not exist"]);
}

#[test]
fn lists_in_json_take_several_files_and_set_cases_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["a", "b", "c", "seg"] {
        volume(&dir.path().join(format!("{name}.nii.gz")), 1, 3.0, 0.0);
    }
    let list_at = dir.path().join("list.json");
    let json = r#"{"training":[{"image":["a.nii.gz","b.nii.gz"],"label":"seg.nii.gz","fold":1}],
        "validation":[{"image":["b.nii.gz","c.nii.gz"],"label":"seg.nii.gz"}],"testing":["c.nii.gz"]}"#;
    fs::write(&list_at, json).expect("written");
    let list = read(&list_at, &wants(&[]));
    assert_eq!((names(&list), list.unlabelled.len()), (vec!["a", "b"], 1));
    assert_eq!((list.validation.clone(), channels(&list)), (Some(vec!["b".to_owned()]), vec![3.0, 3.0]));
    assert_eq!(list.labelled[0].fields["fold"], Field::Number(1.0));
    fs::write(&list_at, json.replace("c.nii.gz\"],", "d.nii.gz\"],")).expect("written");
    fails(&list_at, &wants(&[]), &["validation[0]", "d.nii.gz does not exist"]);
    fs::write(&list_at, "{\"training\": 3}").expect("written");
    fails(&list_at, &wants(&[]), &["`training` is not a list"]);
    fs::write(&list_at, "[{").expect("written");
    fails(&list_at, &wants(&[]), &["not JSON"]);
}

/// Asserts the result of `verify`: no error, and these cases by split, `case split channels`.
fn verified(path: &Path, images: &[&str], expected: &[&str]) -> Verification {
    let mut options = VerifyOptions::default();
    options.images = images.iter().map(|name| (*name).to_owned()).collect();
    let found = verify(path, &options).unwrap_or_else(|error| panic!("{error}"));
    let errors: Vec<_> = found.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    let cases = found.cases.iter().map(|case| {
        let (image, label) = (case.image.as_ref().expect("an image"), if case.label.is_some() { " label" } else { "" });
        format!("{} {} {}{label}", case.case, case.split, image.channels)
    });
    assert_eq!(cases.collect::<Vec<_>>(), expected, "{}", path.display());
    found
}

#[test]
fn whatever_trains_is_verified() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let label = |name: &str| volume(&at(name), 1, 1.0, 0.0);
    let mut value = 0.0;
    let mut image = |name: &str| {
        value += 1.0;
        volume(&at(name), 1, value, 0.0);
    };
    // nnU-Net raw: no list of cases in its dataset.json.
    for case in ["a", "b"] {
        image(&format!("nn/imagesTr/{case}_0000.nii.gz"));
        image(&format!("nn/imagesTr/{case}_0001.nii.gz"));
        label(&format!("nn/labelsTr/{case}.nii.gz"));
    }
    image("nn/imagesTs/c_0000.nii.gz");
    image("nn/imagesTs/c_0001.nii.gz");
    let json = r#"{"channel_names":{"0":"CT","1":"PET"},"labels":{"background":0,"organ":1},"numTraining":2,
        "file_ending":".nii.gz"}"#;
    fs::write(at("nn/dataset.json"), json).expect("written");
    let found = verified(&at("nn"), &[], &["a training 2 label", "b training 2 label", "c test 2"]);
    assert_eq!(found.names[&1], "organ");
    verified(&at("nn"), &["PET"], &["a training 1 label", "b training 1 label", "c test 1"]);
    // BraTS and BIDS.
    for suffix in ["flair", "t1", "t1ce", "t2"] {
        image(&format!("brats/P1/P1_{suffix}.nii.gz"));
    }
    label("brats/P1/P1_seg.nii.gz");
    verified(&at("brats"), &[], &["P1 training 4 label"]);
    image("bids/sub-01/anat/sub-01_T1w.nii.gz");
    image("bids/sub-01/anat/sub-01_FLAIR.nii.gz");
    fs::write(at("bids/dataset_description.json"), r#"{"Name":"Heads","BIDSVersion":"1.8.0"}"#).expect("written");
    label("bids/derivatives/manual/sub-01/anat/sub-01_desc-lesion_mask.nii.gz");
    verified(&at("bids"), &["T1w", "FLAIR"], &["sub-01 training 2 label"]);
    // Tables and lists.
    image("x.nii.gz");
    image("y.nii.gz");
    label("seg.nii.gz");
    fs::write(at("list.csv"), "image,label\nx.nii.gz,seg.nii.gz\ny.nii.gz,\n").expect("written");
    verified(&at("list.csv"), &[], &["x training 1 label", "y test 1"]);
    fs::write(at("scores.tsv"), "image\tscore\nx.nii.gz\t0.5\n").expect("written");
    verified(&at("scores.tsv"), &[], &["x training 1"]);
    fs::write(at("two.csv"), "pre,post,label\nx.nii.gz,y.nii.gz,seg.nii.gz\n").expect("written");
    verified(&at("two.csv"), &["pre", "post"], &["x training 2 label"]);
    let json = r#"{"training":[{"image":["x.nii.gz","y.nii.gz"],"label":"seg.nii.gz"}],
        "validation":[{"image":["y.nii.gz","x.nii.gz"],"label":"seg.nii.gz"}]}"#;
    fs::write(at("list.json"), json).expect("written");
    let found = verified(&at("list.json"), &[], &["x training 2 label", "y validation 2 label"]);
    assert!(serde_json::to_string(&found).is_ok());
    // Faults are also found in these layouts.
    volume(&at("y.nii.gz"), 1, 2.0, 50.0);
    let found = verify(&at("list.json"), &VerifyOptions::default()).expect("cases");
    let said: Vec<String> = found.findings.iter().map(ToString::to_string).collect();
    assert!(found.count(Severity::Error) >= 2 && said[0].contains("50.00 mm off"), "{said:?}");
    let error = verify(&at("two.csv"), &VerifyOptions::default()).expect_err("no image").to_string();
    assert!(error.contains("unknown column \"image\"") && error.contains("--images"), "{error}");
}

#[test]
fn what_is_no_data_set_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    fails(&dir.path().join("nowhere"), &wants(&[]), &["no such file or folder"]);
    fails(dir.path(), &wants(&[]), &["no dataset.json", "DICOM"]);
    let file = dir.path().join("notes.txt");
    fs::write(&file, "x").expect("written");
    fails(&file, &wants(&[]), &["not a list of cases", ".csv"]);
    let table = dir.path().join("list.csv");
    fs::write(&table, "image,label\n").expect("written");
    fails(&table, &wants(&[]), &["names no case", "row"]);
}
