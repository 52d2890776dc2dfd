//! `hearth data`: pictures of a chain, other formats.

use std::fs;
use std::path::Path;

use crate::common::{errors, fail, phantom, plugins_are_built, run, succeed, text, tiny_recipe};

#[test]
fn a_contact_sheet_has_a_picture_of_every_draw() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 1);
    let file = |folder: &str| {
        let inside = std::fs::read_dir(data.join(folder)).expect("a folder").next().expect("a case").expect("a case");
        text(&inside.path())
    };
    let (image, label, recipe) = (file("imagesTr"), file("labelsTr"), text(&tiny_recipe(dir.path())));
    let sheet = |name: &str, more: &[&str]| {
        let out = dir.path().join(name);
        let out_text = text(&out);
        let mut arguments = vec!["data", "preview", &recipe, "-i", &image, "-l", &label, "-o", &out_text];
        arguments.extend(more);
        (succeed(&arguments), hearth_data::read_image(&out).expect("a picture"))
    };
    // The tiny recipe cuts two crops per draw: 1 + 3 * 2 pictures, or only those that show most.
    let (said, few) = sheet("few.png", &["-n", "3"]);
    assert!(said.contains("4 pictures") && few.shape()[0] == 12 + 4 * 252, "{said}");
    let (said, first) = sheet("a.png", &["-n", "3", "--crops"]);
    assert!(said.contains("7 pictures"), "{said}");
    assert_eq!((first.channels(), first.shape()[0]), (3, 12 + 4 * 252));
    let (_, again) = sheet("b.png", &["-n", "3", "--crops"]);
    assert!(first.to_vec() == again.to_vec(), "the same seed gives the same sheet");
    let (_, other) = sheet("c.png", &["-n", "3", "--crops", "--seed", "1"]);
    assert!(first.to_vec() != other.to_vec(), "another seed gives other crops");
    // The outline of the label has the colour of its class.
    let orange =
        |v: &[f32], n: usize| (0..n).filter(|i| [v[*i], v[n + i], v[2 * n + i]] == [230.0, 159.0, 0.0]).count();
    let pixels = first.shape().iter().product();
    assert!(orange(&first.to_vec(), pixels) > 100);
    let (said, _) = sheet("d.png", &["--steps", "--columns", "2"]);
    assert!(said.contains("8 pictures"), "{said}");
}

#[test]
fn a_file_of_transforms_alone_can_be_previewed() {
    let dir = tempfile::tempdir().expect("a folder");
    let array = dir.path().join("a.npy");
    let values = (0..600).map(|v| v as f32).collect();
    let picture = hearth_data::Image::from_values(
        values,
        [1, 30, 20, 1],
        hearth_data::affine::IDENTITY,
        &hearth_data::host_device(),
    );
    hearth_data::write_image(&array, &picture.with_spatial_dims(2), &hearth_data::WriteOptions::default())
        .expect("written");
    let chain = dir.path().join("chain.toml");
    let steps = "[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\"]\n[[transforms]]\nname = \"RandFlip\"\nkeys = [\"image\"]\nprob = 1.0\n";
    std::fs::write(&chain, steps).expect("written");
    let out = text(&dir.path().join("sheet.png"));
    let (chain, array) = (text(&chain), text(&array));
    assert!(succeed(&["data", "preview", &chain, "-i", &array, "-o", &out, "-n", "2"]).contains("3 pictures"));
    fail(&["data", "preview", &chain, "-i", &array, "-o", "sheet.jpg"], 1, &["sheet.jpg", ".png"]);
    fail(&["data", "preview", &chain, "-i", "missing.npy", "-o", "new.png"], 1, &["missing.npy"]);
    fail(
        &["data", "preview", &chain, "-i", &array, "-o", "new.png", "--channel", "4"],
        1,
        &["--channel 4", "1 channels"],
    );
    std::fs::write(dir.path().join("bad.toml"), steps.replace("prob", "prop")).expect("written");
    let bad = text(&dir.path().join("bad.toml"));
    fail(
        &["data", "preview", &bad, "-i", &array, "-o", "new.png"],
        1,
        &["bad.toml:", "prop", "did you mean \"prob\"?"],
    );
}

#[test]
fn images_are_written_in_other_formats() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 1);
    let label =
        std::fs::read_dir(data.join("labelsTr")).expect("a folder").next().expect("a case").expect("a case").path();
    let out = dir.path().join("label.nii");
    let said = succeed(&["data", "convert", &text(&label), &text(&out), "--label"]);
    assert!(said.contains("label.nii") && said.contains("mm"), "{said}");
    let (before, after) =
        (hearth_data::read_image(&label).expect("readable"), hearth_data::read_image(&out).expect("readable"));
    assert_eq!(before.affine, after.affine);
    assert!(before.to_vec() == after.to_vec());
    fail(&["data", "convert", &text(&label), &text(&out)], 1, &["exists already"]);
    fail(&["data", "convert", &text(&label), &text(&dir.path().join("x.tif"))], 1, &["x.tif", ".nii.gz"]);
}

#[test]
fn inspect_says_what_a_file_and_a_folder_hold() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 2);
    let image = std::fs::read_dir(data.join("labelsTr")).expect("a folder").next().expect("a case").expect("a case");
    let label = text(&image.path());
    let said = succeed(&["data", "inspect", &label]);
    for word in [
        "format  NIfTI-1",
        "shape   48 x 48 x",
        "1 channel",
        "RAS",
        "affine  [",
        "sform   code ",
        "used    sform",
        "labels  0: ",
        "%), 1: ",
        "values  0 to 1",
    ] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    let json: serde_json::Value = serde_json::from_str(&succeed(&["data", "inspect", "--json", &label])).expect("JSON");
    assert_eq!(json["labels"]["counts"].as_array().map(Vec::len), Some(2));
    assert_eq!((&json["format"], &json["nifti"]["used"]), (&"NIfTI-1".into(), &"sform".into()));
    assert_eq!(json["nifti"]["sform"], json["affine"]);
    // What people paste: the name of the file, without where it lies and the header's free text.
    let name = image.file_name().to_string_lossy().into_owned();
    assert_eq!(json["file"], name.as_str());
    assert!(!said.contains(&text(dir.path())) && !json.to_string().contains(&text(dir.path())), "{said}");
    assert!(json["nifti"]["descrip"].is_null());
    let shown = succeed(&["data", "inspect", "--json", "--identifiers", &label]);
    assert!(shown.contains("\"descrip\""), "{shown}");
    let said = succeed(&["data", "inspect", &text(&data)]);
    assert!(said.contains("a data set (Decathlon)") && said.contains("2 cases, 0 without a label"), "{said}");
    let table: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("file ")).collect();
    assert_eq!(table.len(), 5, "{said}");
    std::fs::write(data.join("imagesTr/broken.nii"), [0; 400]).expect("a file");
    fail(&["data", "inspect", &text(&data)], 1, &["broken.nii", "1 of 5 images"]);
    fail(&["data", "inspect", "nowhere.nii.gz"], 1, &["nowhere.nii.gz"]);
    fail(&["data", "inspect", &text(&dir.path().join("data/none"))], 1, &["none"]);
    fail(&["data", "inspect", &label, "--accept", "MissingSlices"], 1, &["--accept is for faults of DICOM"]);
}

/// The study of a patient: CT slices and what was drawn on them.
#[test]
fn inspect_lists_the_structure_set_beside_a_series() {
    let dir = tempfile::tempdir().expect("a folder");
    let chests = text(&dir.path().join("chests"));
    succeed(&["data", "phantom", "lung", "--cases", "2", "--size", "32", "--out", &chests]);
    let study = format!("{chests}/LUNG1-001/00001-StudyID-NA");
    let printed = succeed(&["data", "inspect", &study]);
    for words in ["32 x 32 x 16", "a structure set (RTSTRUCT)", "GTV-1", "series  CT series 0", "syntax  ", "values  "]
    {
        assert!(printed.contains(words), "no {words} in {printed}");
    }
    // The patient and the study are known to their hospital by these.
    assert!(!printed.contains("LUNG1-001") && !printed.contains("2.25."), "{printed}");
    let json = succeed(&["data", "inspect", &study, "--json"]);
    assert!(!json.contains("LUNG1-001") && !json.contains("2.25."), "{json}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["shape"], serde_json::json!([32, 32, 16]));
    assert_eq!(json["series"][0]["image"]["shape"], json["shape"]);
    let regions = json["annotations"][0]["regions"].as_array().expect("a list");
    assert!(regions.iter().any(|region| region["name"] == "GTV-1"), "{json}");
    let shown = succeed(&["data", "inspect", &study, "--identifiers"]);
    assert!(shown.contains("patient  LUNG1-001") && shown.contains("2.25."), "{shown}");
    // Several patients: a row for each volume.
    let printed = succeed(&["data", "inspect", &chests]);
    assert_eq!(printed.lines().filter(|line| line.contains("32 x 32 x 16")).count(), 2, "{printed}");
    // A damaged slice is named, and the others are described.
    let slice = std::path::Path::new(&study).join("0.000000-NA/1-08.dcm");
    let bytes = std::fs::read(&slice).expect("a slice");
    std::fs::write(&slice, &bytes[..bytes.len() / 2]).expect("written");
    let said = fail(&["data", "inspect", &chests], 1, &["cannot be read"]);
    assert!(!said.is_empty());
}

#[test]
fn inspect_describes_the_levels_of_a_slide() {
    let dir = tempfile::tempdir().expect("a folder");
    let slides = dir.path().join("slides");
    succeed(&["data", "phantom", "pathology", "--cases", "2", "--size", "2048", "--out", &text(&slides)]);
    let slide = std::fs::read_dir(&slides).expect("a folder").flatten().map(|entry| entry.path());
    let slide = slide.filter(|path| path.extension().is_some_and(|end| end == "tif")).min().expect("a slide");
    let said = succeed(&["data", "inspect", &text(&slide)]);
    for words in ["a slide (generic-tiff)", "mpp     ", "power   not stated", "compression", "Deflate", "others  none"]
    {
        assert!(said.contains(words), "no {words} in {said}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&succeed(&["data", "inspect", &text(&slide), "--json"])).expect("JSON");
    let levels = json["levels"].as_array().expect("a list");
    assert!(levels.len() > 1 && levels[1]["width"].as_u64() < levels[0]["width"].as_u64(), "{json}");
    assert_eq!(levels[0]["compression"], "Deflate");
}

/// Each kind of list, with a case that lacks a file and one that is damaged: both are reported, the others
/// checked.
#[test]
fn verify_reports_each_case_of_a_list() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 3);
    let names = |folder: &str| {
        let mut names: Vec<String> =
            std::fs::read_dir(data.join(folder)).expect("a folder").flatten().map(|e| text(&e.path())).collect();
        names.sort();
        names
    };
    let (images, labels) = (names("imagesTr"), names("labelsTr"));
    let bytes = std::fs::read(&images[1]).expect("an image");
    std::fs::write(&images[1], &bytes[..bytes.len() / 3]).expect("written");
    let none = text(&data.join("imagesTr/none.nii.gz"));
    let table = dir.path().join("cases.csv");
    let row = |image: &String, label: &String| format!("{image};{label}\r\n");
    let rows: String =
        images.iter().chain([&none]).zip(labels.iter().chain([&labels[0]])).map(|(i, l)| row(i, l)).collect();
    std::fs::write(&table, format!("image;label\r\n{rows}")).expect("written");
    let list = dir.path().join("cases.json");
    let entries: Vec<_> = images
        .iter()
        .chain([&none])
        .zip(labels.iter().chain([&labels[0]]))
        .map(|(image, label)| serde_json::json!({ "image": image, "label": label }))
        .collect();
    std::fs::write(&list, serde_json::json!({ "training": entries }).to_string()).expect("written");
    for path in [&table, &list] {
        let output = run(&["data", "verify", &text(path), "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let kinds: Vec<&str> = json["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|finding| finding["severity"] == "error")
            .filter_map(|finding| finding["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["missing_file", "unreadable"], "{json}");
        let read = json["cases"].as_array().expect("a list").iter().filter(|case| case["image"].is_object()).count();
        assert_eq!(read, 2, "{json}");
    }
    // Slides are opened, and parts of them read.
    let slides = dir.path().join("slides");
    succeed(&["data", "phantom", "pathology", "--cases", "4", "--size", "1024", "--out", &text(&slides)]);
    let said = succeed(&["data", "verify", &text(&slides)]);
    assert!(said.contains("4 cases") && said.contains("0 errors"), "{said}");
    let slide = std::fs::read_dir(&slides).expect("a folder").flatten().map(|entry| entry.path());
    let slide = slide.filter(|path| path.extension().is_some_and(|end| end == "tif")).min().expect("a slide");
    let bytes = std::fs::read(&slide).expect("a slide");
    std::fs::write(&slide, &bytes[..bytes.len() / 3]).expect("written");
    let output = run(&["data", "verify", &text(&slides), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stem = slide.file_stem().expect("a name").to_string_lossy().into_owned();
    assert_eq!(json["findings"][0]["case"], stem.as_str(), "{json}");
    let others = json["cases"].as_array().expect("a list").iter().filter(|case| case["case"] != stem.as_str()).count();
    assert_eq!(others, 3, "the other slides: {json}");
}

#[test]
fn verify_ends_with_what_to_fix() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 3);
    let said = succeed(&["data", "verify", &text(&data), "--cases"]);
    for word in ["3 cases (3 training)", "1 spleen", "voxels, axis 1", "0 errors"] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    let mut labels: Vec<_> = std::fs::read_dir(data.join("labelsTr")).expect("a folder").flatten().collect();
    labels.sort_by_key(std::fs::DirEntry::path);
    std::fs::remove_file(labels[0].path()).expect("a file");
    let output = crate::common::run(&["data", "verify", &text(&data)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    for word in ["to fix", "the label is missing", "take the case out of the list", "1 error"] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    let output = crate::common::run(&["data", "verify", "--json", &text(&data)]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["findings"][0]["kind"], "missing_file");
    fail(&["data", "verify", &text(dir.path().join("nowhere").as_path())], 1, &["nowhere"]);
}

#[test]
fn verify_with_a_recipe_sends_every_case_through_its_chain() {
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data) = (text(&tiny_recipe(dir.path())), text(&phantom(dir.path(), 3)));
    let said = succeed(&["data", "verify", &recipe, &data]);
    for word in ["3 cases (3 training)", "of 3 cases 2 train, 1 validate", "2 of 16 x 16 x 16 a case", "0 errors"] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    let verify = |more: &[&str]| {
        let output = crate::common::run(&[&["data", "verify", &recipe, &data, "--json"][..], more].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), json)
    };
    let (code, json) = verify(&[]);
    assert_eq!((code, json["recipe"]["validation"].as_u64()), (Some(0), Some(1)));
    let class = serde_json::json!({ "name": "spleen", "training": 2, "validation": 1 });
    assert_eq!(json["recipe"]["classes"][0], class);
    // The labels' voxels of 6 mm have the same volume as those of the files.
    let voxels = json["recipe"]["cases"][0]["voxels"][0].as_f64().expect("a count") * 216.0;
    let spacing = json["cases"][0]["label"]["spacing"].as_array().expect("mm");
    let each: f64 = spacing.iter().filter_map(serde_json::Value::as_f64).product();
    let stored = json["cases"][0]["labels"][0]["voxels"].as_f64().expect("a count") * each;
    assert!((voxels / stored - 1.0).abs() < 0.25, "{voxels} and {stored} mm3");
    // Every case that a step refuses is reported with the step, and the others are still checked.
    let (code, json) = verify(&["--set", "transforms.6.spatial_size=[400, 16, 16]"]);
    let findings = json["findings"].as_array().expect("a list");
    let refused: Vec<_> = findings.iter().filter(|one| one["kind"] == "refused").collect();
    assert_eq!((code, refused.len()), (Some(1), 2), "{findings:?}");
    let what = refused[0]["what"].as_str().expect("words");
    assert!(what.contains("RandCropByPosNegLabel") && what.contains("400"), "{what}");
    // A class that no case has cannot be learned.
    let none = [
        "--set",
        "transforms=[{ name = \"LoadImage\", keys = [\"image\", \"label\"] }, \
        { name = \"EnsureChannelFirst\", keys = [\"image\", \"label\"] }, \
        { name = \"MapLabelValue\", keys = [\"label\"], orig_labels = [1], target_labels = [0] }]",
    ];
    let (code, json) = verify(&none);
    let said = json["findings"].to_string();
    assert_eq!(code, Some(1));
    assert!(said.contains("no training case has \\\"spleen\\\"") && said.contains("no foreground"), "{said}");
    fail(&["data", "verify", "splean", &data], 1, &["splean", "spleen"]);
    fail(&["data", "verify", &recipe, &text(&dir.path().join("nowhere"))], 1, &["nowhere"]);
    fail(&["data", "verify", &data, "--set", "training.epochs=1"], 1, &["name one before the data set"]);
}

/// A table of files in place of a data set's list, where one fold of three validates.
#[test]
fn a_table_of_cases_trains_fold_by_fold() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (recipe, data) = (tiny_recipe(dir.path()), phantom(dir.path(), 3));
    let names = |folder: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(data.join(folder)).expect("a folder").flatten().map(|e| e.path()).collect();
        names.sort();
        names
    };
    let rows = names("imagesTr").into_iter().zip(names("labelsTr"));
    let rows: String = rows.map(|(image, label)| format!("{},{}\n", image.display(), label.display())).collect();
    let table = dir.path().join("cases.csv");
    std::fs::write(&table, format!("image,label\n{rows}")).expect("a table");
    let into = |out: &str, more: &[&str]| {
        let out = text(&dir.path().join(out));
        let base = ["train", &text(&recipe), "--data", &text(&table), "--out", &out, "--device", "cpu"];
        base.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let fold = |fold: &str| into("run", &["--epochs", "1", "--set", &format!("data.validation={{fold={fold}}}")]);
    fail(&fold("[3,3]"), 1, &["data.validation", "no fold 3 of 3"]);
    fail(&fold("[0,4]"), 1, &["cases.csv"]);
    let output = run(&fold("[2,3]"));
    let said = errors(&output);
    assert!(output.status.success() && said.contains("cases: 2 cases train, 1 validate"), "{said}");
    // Cases by weight: a case with weight 0 is never read.
    let broken = text(&dir.path().join("broken.nii.gz"));
    std::fs::write(&broken, "no volume").expect("a file");
    let weighted = |weights: [&str; 3]| {
        let mut lines: Vec<String> = rows.lines().zip(weights).map(|(row, w)| format!("{row},{w}")).collect();
        // The same volume again, for validation: a file that is listed twice would be refused.
        let again = lines[2].replacen("spleen_02", "again", 1);
        let (from, to) = (lines[2].split(',').next(), again.split(',').next());
        std::fs::copy(from.expect("an image"), to.expect("an image")).expect("copied");
        lines.push(again);
        lines[1] = format!("{broken},{broken},{}", weights[1]);
        std::fs::write(&table, format!("image,label,weight\n{}\n", lines.join("\n"))).expect("a table");
    };
    let by_weight = |out: &str, cache: &str, sampler: &str| {
        let cache = format!("data.cache={{kind={cache:?}}}");
        let sampler = format!("data.sampler={sampler}");
        let more = ["--epochs", "2", "--set", "data.validation={last=1}", "--set", &cache, "--set", &sampler];
        into(out, &more)
    };
    weighted(["1", "0", "2.5"]);
    let output = run(&by_weight("drawn", "none", "{weights=\"weight\", num_samples=6}"));
    assert!(output.status.success(), "{}", errors(&output));
    let weights = "{weights=\"weight\"}";
    fail(&by_weight("o1", "smart", weights), 1, &["data.sampler", "`smart`"]);
    fail(&by_weight("o2", "none", "{weights=\"wait\"}"), 1, &["data.sampler", "no `wait`"]);
    let dry = [by_weight("o2", "none", "{weights=\"wait\"}"), vec!["--dry-run".to_owned()]].concat();
    fail(&dry, 1, &["data.sampler", "no `wait`"]);
    let output = run(&[by_weight("o2", "none", weights), vec!["--dry-run".to_owned()]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("3 cases train, 1 validate"), "{said}{}", errors(&output));
    fail(&by_weight("o3", "none", "{weights=\"weight\", replacement=false}"), 1, &["only 2 have a weight above 0"]);
    fail(&by_weight("o4", "none", "{weights=\"weight\", num_samples=0}"), 1, &["num_samples=0", "at least 1 case"]);
    weighted(["1", "-1", "1"]);
    fail(&by_weight("o5", "none", weights), 1, &["-1 is not a weight"]);
    std::fs::write(&table, format!("image,mask\n{rows}")).expect("a table");
    fail(&into("other", &[]), 1, &["cases.csv", "unknown column \"label\""]);
    std::fs::write(&table, "image,label\nnone.nii.gz,none.nii.gz\nnone.nii.gz,none.nii.gz\nnone.nii.gz,none.nii.gz\n")
        .expect("a table");
    fail(&into("other", &[]), 1, &["none.nii.gz"]);
}

/// Folders of images and labels, and the store of `serve` and MONAI Label: `data verify` and `train` take
/// both, and a run is continued from its corrected predictions.
#[test]
fn folders_and_stores_are_verified_and_trained_on() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (data, recipe) = (phantom(dir.path(), 3), text(&tiny_recipe(dir.path())));
    for folder in ["folders/images", "folders/labels", "store/labels/final", "store/labels/original"] {
        fs::create_dir_all(at(folder)).expect("made");
    }
    let copy = |from: &Path, to: &str| assert!(fs::copy(from, at(to)).expect("copied") > 0);
    for case in ["spleen_00", "spleen_01", "spleen_02"] {
        let name = format!("{case}.nii.gz");
        let (image, label) = (data.join("imagesTr").join(&name), data.join("labelsTr").join(&name));
        copy(&image, &format!("folders/images/{name}"));
        copy(&label, &format!("folders/labels/{case}_seg.nii.gz"));
        copy(&image, &format!("store/{name}"));
        // One label is not approved yet.
        let tag = if case == "spleen_01" { "original" } else { "final" };
        copy(&label, &format!("store/labels/{tag}/{name}"));
    }
    let train = |set: &str, out: &str, more: &[&str]| {
        let (set, out) = (text(&at(set)), text(&at(out)));
        let words = ["train", &recipe, "--data", &set, "--out", &out, "--device", "cpu", "--epochs", "1"];
        let output = run(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output)
    };
    for (set, counts) in [("folders", "2 cases train, 1 validates"), ("store", "1 case trains, 1 validates")] {
        let found = run(&["data", "verify", &recipe, &text(&at(set)), "--json"]);
        assert!(found.status.success(), "{set}: {}", errors(&found));
        assert!(train(set, &format!("run-{set}"), &[]).contains(counts), "{set}");
    }
    let said = train("store", "again", &["--init", &text(&at("run-folders"))]);
    assert!(said.contains("weights from"), "{said}");
    // Without an approved label there is nothing to train on, for both commands.
    fs::remove_dir_all(at("store/labels/final")).expect("removed");
    fs::write(at("store/datastore_v2.json"), "{}").expect("written");
    let words = ["no image has a label in labels/final"];
    fail(&["data", "verify", &recipe, &text(&at("store"))], 1, &words);
    let (store, out) = (text(&at("store")), text(&at("none")));
    fail(&["train", &recipe, "--data", &store, "--out", &out, "--device", "cpu"], 1, &words);
}
