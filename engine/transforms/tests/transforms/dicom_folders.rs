//! Folders of DICOM read with `LoadImage`: the choice of series and segments, and errors.

use std::fs;
use std::path::Path;

use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_image::Image;
use hearth_transforms::transforms::LoadImage;
use hearth_transforms::{DrawKey, Pipeline, Sample, Value};
use tempfile::{TempDir, tempdir};

use crate::dicom::{segmentation, slice, structures, write_stack};

fn folder() -> TempDir {
    tempdir().expect("a folder")
}

fn load(path: &Path, how: impl FnOnce(LoadImage) -> LoadImage) -> Result<Image, String> {
    let pipeline = Pipeline::new(how(LoadImage::new("image"))).expect("sound");
    let sample = Sample::new("case 7").with("image", Value::Path(path.to_owned()));
    let out = pipeline.run(sample, DrawKey::new(0, 0, 0)).map_err(|e| e.to_string())?;
    Ok(out[0].image("image").expect("an image").clone())
}

/// Asserts an error that names the case and contains all `parts`, with no more lines than a screen.
fn fails(path: &Path, how: impl FnOnce(LoadImage) -> LoadImage, parts: &[&str]) {
    let text = load(path, how).expect_err("an error");
    for part in ["case 7", "LoadImage"].iter().chain(parts) {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert!(text.lines().count() <= 12, "{text}");
}

fn series(name: &str) -> impl FnOnce(LoadImage) -> LoadImage {
    let name = name.to_owned();
    |step| step.series(Some(name))
}

fn segments(names: &[&str]) -> impl FnOnce(LoadImage) -> LoadImage {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    |step: LoadImage| step.segments(names)
}

/// Two series of two and three slices.
fn two_series(path: &Path) {
    write_stack(path, &[0.0, 2.0]);
    for number in 0..3_u16 {
        slice(number + 7, [0.0, 0.0, f64::from(number)])
            .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.4")
            .text(tags::SERIES_DESCRIPTION, VR::LO, "abdomen")
            .write(&path.join(format!("b{number}.dcm")));
    }
}

#[test]
fn of_several_series_one_is_named() {
    let folder = folder();
    two_series(folder.path());
    for (name, shape, first) in
        [("1.2.4", [3, 2, 3], 700.0), ("abdomen", [3, 2, 3], 700.0), ("1.2.3", [3, 2, 2], 100.0)]
    {
        let image = load(folder.path(), series(name)).expect("a volume");
        assert_eq!((image.shape(), image.to_vec()[0]), (shape, first), "{name}");
    }
    let both = ["\"thorax\", 3 x 2 x 2, 1.2.3", "\"abdomen\", 3 x 2 x 3, 1.2.4"];
    fails(folder.path(), |step| step, &[&["several series", "`series`"], &both[..]].concat());
    fails(folder.path(), series("pelvis"), &[&["no series is named \"pelvis\""], &both[..]].concat());
    slice(9, [0.0; 3]).text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.5").write(&folder.path().join("c.dcm"));
    fails(folder.path(), series("thorax"), &["several series are named \"thorax\"", "1.2.3", "1.2.5"]);
}

#[test]
fn folders_without_images_are_errors() {
    let folder = folder();
    let path = folder.path();
    let dicom = |step: LoadImage| step.reader(Some("DicomReader".to_owned()));
    fails(path, |step| step, &["the folder holds no image that a reader knows"]);
    fails(path, dicom, &["no series of images; found no files"]);
    fails(path, series("thorax"), &["the folder holds no image"]);
    fs::write(path.join("notes.txt"), "hello").expect("written");
    fails(path, dicom, &["1 file(s) that are not DICOM"]);
    fails(&path.join("none"), dicom, &["none"]);
    crate::dicom::Object::new("1.2.840.10008.5.1.4.1.1.88.11", "SR").write(&path.join("report.dcm"));
    fails(path, |step| step, &["no series of images; found an object of modality SR"]);
}

#[test]
fn a_truncated_file_is_an_error_wherever_it_is_cut() {
    let folder = folder();
    let path = folder.path().join("1.dcm");
    slice(1, [0.0; 3]).write(&path);
    let whole = fs::read(&path).expect("a file");
    for length in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..length]).expect("written");
        fails(&path, |step| step, &["1.dcm"]);
    }
}

/// Also if the remaining slices would form a volume.
#[test]
fn a_truncated_slice_is_not_left_out() {
    for cut in ["0.dcm", "1.dcm", "3.dcm"] {
        let folder = folder();
        write_stack(folder.path(), &[0.0, 2.0, 4.0, 6.0]);
        let path = folder.path().join(cut);
        let whole = fs::read(&path).expect("a file");
        fs::write(&path, &whole[..whole.len() - 3]).expect("written");
        fails(folder.path(), |step| step, &[cut, "truncated", "slices may be missing", "move them away"]);
        fails(folder.path(), series("1.2.3"), &[cut, "truncated"]);
    }
    let folder = folder();
    write_stack(folder.path(), &[0.0, 2.0, 4.0, 6.0, 8.0]);
    fs::remove_file(folder.path().join("2.dcm")).expect("removed");
    let how = ["accept = [\"MissingSlices\"] of LoadImage", "--accept MissingSlices", "ReadOptions::accept"];
    fails(folder.path(), |step| step, &[&["4.000 mm between 1.dcm, 3.dcm"][..], &how].concat());
    // The option that the message names makes the file readable, also in a recipe.
    let accept = |step: LoadImage| step.accept(vec!["MissingSlices".to_owned()]);
    assert_eq!(load(folder.path(), accept).expect("accepted").shape(), [3, 2, 4]);
    let recipe = |fault: &str| {
        Pipeline::from_toml(&format!(
            "[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\"]\naccept = [\"{fault}\"]"
        ))
    };
    assert!(recipe("MissingSlices").is_ok());
    let text = recipe("MissingSlice").expect_err("no such fault").to_string();
    assert!(text.contains("did you mean \"MissingSlices\"?"), "{text}");
}

#[test]
fn segmentations_become_labels() {
    let folder = folder();
    let path = folder.path();
    let (first, second) = ([0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]);
    let object =
        segmentation(&[(3, "liver"), (300, "tumour")], &[(3, 0.0, first), (300, 0.0, second), (3, 4.0, second)]);
    object.write(&path.join("seg.dcm"));
    // The frame between them was omitted, because it is empty.
    let all = load(path, |step| step).expect("labels");
    assert_eq!((all.shape(), all.meta.stored_type.as_str()), ([3, 2, 3], "uint16"));
    let expected = |labels: [f32; 3]| {
        let mut values = vec![0.0; 18];
        // x = 1, y = 0, z = 0; then x = 2, y = 1 of the first and the third slice.
        (values[6], values[15], values[17]) = (labels[0], labels[1], labels[2]);
        values
    };
    assert_eq!(all.to_vec(), expected([3.0, 300.0, 3.0]));
    assert_eq!(all.affine[0], [-0.75, 0.0, 0.0, -10.0]);
    assert_eq!(all.affine[2], [0.0, 0.0, 2.0, 0.0]);
    let named = load(path, segments(&["tumour", "liver"])).expect("labels");
    assert_eq!((named.to_vec(), named.meta.stored_type.as_str()), (expected([2.0, 1.0, 2.0]), "uint8"));
    assert_eq!(load(&path.join("seg.dcm"), segments(&["tumour"])).expect("labels").to_vec(), expected([0.0, 1.0, 0.0]));
    fails(path, segments(&["spleen"]), &["none of the regions [\"spleen\"]", "liver", "tumour"]);
    // Images next to it: they are read unless segments are requested.
    write_stack(path, &[0.0, 2.0, 4.0]);
    assert_eq!(load(path, |step| step).expect("images").to_vec()[0], 100.0);
    assert_eq!(load(path, segments(&["liver"])).expect("labels").to_vec(), expected([1.0, 0.0, 1.0]));
    object.write(&path.join("again.dcm"));
    fails(path, segments(&["liver"]), &["2 files of regions", "again.dcm", "seg.dcm"]);
    fs::remove_file(path.join("again.dcm")).expect("removed");
    fs::remove_file(path.join("seg.dcm")).expect("removed");
    fails(path, segments(&["liver"]), &["no segmentation (SEG)"]);
}

/// Loads an image and then its annotation.
fn both(image: &Path, drawn: &Path, how: impl FnOnce(LoadImage) -> LoadImage) -> Result<[Image; 2], String> {
    let drawn_on = how(LoadImage::new("label").reference_key(Some("image".to_owned())));
    let pipeline = Pipeline::new((LoadImage::new("image"), drawn_on)).expect("sound");
    let sample =
        Sample::new("case 7").with("image", Value::Path(image.into())).with("label", Value::Path(drawn.into()));
    let sample = pipeline.run(sample, DrawKey::new(0, 0, 0)).map_err(|e| e.to_string())?.remove(0);
    Ok(["image", "label"].map(|key| sample.image(key).expect("an image").clone()))
}

/// Labels by column, row and slice, 0 elsewhere.
fn marked(channels: usize, marks: &[(usize, [usize; 3], f32)]) -> Vec<f32> {
    let mut values = vec![0.0; channels * 3 * 2 * 3];
    for (channel, [x, y, z], label) in marks {
        values[((channel * 3 + x) * 2 + y) * 3 + z] = *label;
    }
    values
}

#[test]
fn structure_sets_are_drawn_on_their_images() {
    let folder = folder();
    let (images, drawn) = (folder.path().join("images"), folder.path().join("rs.dcm"));
    fs::create_dir(&images).expect("a folder");
    write_stack(&images, &[0.0, 2.0, 4.0]);
    structures(&[("GTV", 2.0, [1, 0], [2, 0]), ("lung", 2.0, [0, 0], [1, 0]), ("cord", 4.0, [2, 1], [2, 1])])
        .write(&drawn);

    // All segments, by their numbers: where two overlap, the later one has the voxel.
    let [image, label] = both(&images, &drawn, |step| step).expect("a label");
    assert_eq!((label.shape(), label.affine, label.meta.stored_type.as_str()), ([3, 2, 3], image.affine, "uint8"));
    let all = [(0, [1, 0, 1], 2.0), (0, [2, 0, 1], 1.0), (0, [0, 0, 1], 2.0), (0, [2, 1, 2], 3.0)];
    assert_eq!(label.to_vec(), marked(1, &all));
    // By name.
    let [_, label] = both(&images, &drawn, segments(&["cord", "GTV"])).expect("a label");
    assert_eq!(label.to_vec(), marked(1, &[(0, [1, 0, 1], 2.0), (0, [2, 0, 1], 2.0), (0, [2, 1, 2], 1.0)]));
    // As channels, each complete.
    let channels = |step: LoadImage| segments(&["GTV", "lung"])(step).segments_as_channels(true);
    let [_, label] = both(&images, &drawn, channels).expect("a label");
    assert_eq!((label.channels(), label.shape()), (2, [3, 2, 3]));
    let whole = [(0, [1, 0, 1], 1.0), (0, [2, 0, 1], 1.0), (1, [0, 0, 1], 1.0), (1, [1, 0, 1], 1.0)];
    assert_eq!(label.to_vec(), marked(2, &whole));

    // Without images there is no grid.
    fails(&drawn, |step| step, &["a structure set has no grid", "`reference_key`"]);
    // If they are in the same folder, no key is needed.
    fs::copy(&drawn, images.join("rs.dcm")).expect("copied");
    assert_eq!(load(&images, |step| step).expect("images").to_vec()[0], 100.0);
    assert_eq!(load(&images, segments(&["cord"])).expect("labels").to_vec(), marked(1, &[(0, [2, 1, 2], 1.0)]));
    fails(&images, segments(&["spleen"]), &["none of the regions [\"spleen\"]", "GTV", "lung", "cord"]);
    fs::remove_file(images.join("rs.dcm")).expect("removed");

    // Images of another series: a name selects.
    for number in 0..3_u16 {
        slice(number + 1, [10.0, 20.0, 2.0 * f64::from(number)])
            .text(tags::SERIES_INSTANCE_UID, VR::UI, "1.2.77")
            .write(&images.join(format!("{number}.dcm")));
    }
    let error = both(&images, &drawn, |step| step).expect_err("not its images");
    assert!(error.contains("drawn on series 1.2.3, which is missing") && error.contains("`series`"), "{error}");
    let [_, label] = both(&images, &drawn, |step| segments(&["cord"])(series("1.2.77")(step))).expect("named");
    assert_eq!(label.to_vec(), marked(1, &[(0, [2, 1, 2], 1.0)]));
}

#[test]
fn regions_have_other_names_in_other_hospitals() {
    let folder = folder();
    let (images, drawn) = (folder.path().join("images"), folder.path().join("rs.dcm"));
    fs::create_dir(&images).expect("a folder");
    write_stack(&images, &[0.0, 2.0, 4.0]);
    structures(&[
        ("GTV_Mass_CT", 2.0, [1, 0], [1, 0]),
        ("gtv_node", 0.0, [2, 1], [2, 1]),
        ("cord", 4.0, [0, 0], [0, 0]),
    ])
    .write(&drawn);
    let (mass, node) = ((0, [1, 0, 1], 1.0), (0, [2, 1, 0], 1.0));
    let label = |how: &dyn Fn(LoadImage) -> LoadImage| both(&images, &drawn, how).map(|[_, label]| label.to_vec());
    // A pattern that ignores case: its regions are combined into one.
    assert_eq!(label(&|step| segments(&["GTV*"])(step)), Ok(marked(1, &[mass, node])));
    let alias = |others: &[&str]| {
        let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        move |step: LoadImage| segments(&["GTV-1"])(step).aliases([("GTV-1".to_owned(), others.clone())])
    };
    assert_eq!(label(&alias(&["tumour", "gtv_mass_ct"])), Ok(marked(1, &[mass])));
    assert_eq!(label(&alias(&["*node", "GTV_Mass_CT"])), Ok(marked(1, &[node])), "the first that exists");
    let error = label(&alias(&["tumour"])).expect_err("no such region");
    for word in ["none of the regions [\"GTV-1\"]", "aliases [\"tumour\"]", "GTV_Mass_CT", "rs.dcm"] {
        assert!(error.contains(word), "{error}");
    }
    // In a recipe, an alias for a segment that is not read is reported as a mistake.
    let recipe = |name: &str| {
        let text = format!(
            "[[transforms]]\nname = \"LoadImage\"\nkeys = [\"label\"]\nsegments = [\"GTV-1\"]\naliases = {{ \"{name}\" = [\"GTV*\"] }}"
        );
        Pipeline::from_toml(&text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(recipe("GTV-1"), Ok(()));
    let error = recipe("GTV-2").expect_err("not read");
    assert!(error.contains("\"GTV-2\" is none of the segments") && error.contains("GTV-1"), "{error}");
}

#[test]
fn a_sample_decides_which_series_is_read() {
    let folder = folder();
    two_series(folder.path());
    let pipeline = Pipeline::new(LoadImage::new("image").series(Some("thorax".to_owned()))).expect("sound");
    let read = |series: Option<&str>| {
        let mut sample = Sample::new("case 7").with("image", Value::Path(folder.path().to_owned()));
        if let Some(series) = series {
            sample = sample.with(LoadImage::series_key("image"), Value::Text(series.to_owned()));
        }
        let out = pipeline.run(sample, DrawKey::new(0, 0, 0)).expect("a volume");
        out[0].image("image").expect("an image").shape()
    };
    assert_eq!((read(None), read(Some("1.2.4"))), ([3, 2, 2], [3, 2, 3]));
    for (rule, shape) in [("most-slices", [3, 2, 3]), ("thinnest", [3, 2, 3])] {
        assert_eq!(load(folder.path(), series(rule)).expect("a volume").shape(), shape, "{rule}");
    }
}

#[test]
fn overlapping_segments_are_channels_on_request() {
    let folder = folder();
    let (images, drawn) = (folder.path().join("images"), folder.path().join("seg.dcm"));
    fs::create_dir(&images).expect("a folder");
    write_stack(&images, &[0.0, 2.0, 4.0]);
    // Pixels go along rows: 1 is column 1 of row 0, 5 is column 2 of row 1.
    segmentation(&[(1, "liver"), (2, "tumour")], &[(1, 2.0, [0, 1, 0, 0, 0, 1]), (2, 2.0, [0, 1, 0, 0, 0, 0])])
        .write(&drawn);
    let channels = |step: LoadImage| step.segments_as_channels(true);
    // Read alone it has only the slice of its frames; on the grid of the images it has all slices.
    assert_eq!(load(&drawn, channels).expect("channels").data.dims(), [2, 3, 2, 1]);
    let [_, label] = both(&images, &drawn, channels).expect("channels");
    assert_eq!(label.to_vec(), marked(2, &[(0, [1, 0, 1], 1.0), (0, [2, 1, 1], 1.0), (1, [1, 0, 1], 1.0)]));
    let [_, label] = both(&images, &drawn, |step| step).expect("labels");
    assert_eq!(label.to_vec(), marked(1, &[(0, [1, 0, 1], 2.0), (0, [2, 1, 1], 1.0)]));
}

#[test]
fn a_reference_must_be_there_and_say_where_it_is_from() {
    let step = || LoadImage::new("label").reference_key(Some("image".to_owned()));
    let unknown = Pipeline::new(step()).expect_err("no image before").to_string();
    assert!(unknown.contains("reference_key") && unknown.contains("image"), "{unknown}");
    let pipeline = Pipeline::new((LoadImage::new("image"), step())).expect("sound");
    let image = Image::from_values(vec![0.0], [1; 4], hearth_image::affine::IDENTITY, &hearth_image::host_device());
    let sample = Sample::new("case 7").with_image("image", image).with("label", Value::Path("x.dcm".into()));
    let error = pipeline.run(sample, DrawKey::new(0, 0, 0)).expect_err("no path").to_string();
    assert!(error.contains("the file of `image` is not known"), "{error}");
}
