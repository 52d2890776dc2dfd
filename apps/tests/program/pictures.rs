//! Pictures: the same for any storage order, and one for each kind of prediction.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{TINY, fail, phantom, plugins_are_built, succeed, text};
use hearth_apps::picture::{Line, Plane, Subject, View, Volume, labels, reconstruction, regions};
use hearth_data::affine::IDENTITY;
use hearth_data::transforms::Orientation;
use hearth_data::{Affine, Image, NiftiOptions, Space, read_image, read_nifti, spatial, write_nifti};
use hearth_pictures::colours::of_class;
use hearth_pictures::{Canvas, Rgb};

/// Voxels of the phantom along right, anterior, superior, and their size in mm.
const SIZE: [usize; 3] = [12, 9, 7];
const MM: [f64; 3] = [2.0, 3.0, 4.0];

/// An asymmetric body, at a place given from the left, posterior, inferior corner: its value and
/// its class.
fn body([r, a, s]: [usize; 3]) -> (f32, f32) {
    let class =
        u8::from((7..11).contains(&r) && (5..8).contains(&a) && (3..6).contains(&s)) + 2 * u8::from(r == 2 && a < 4);
    ((r * 100 + a * 10 + s) as f32, f32::from(class))
}

/// The phantom with its axes in the orientation of a code; written and read again.
fn stored(folder: &Path, code: &str) -> [Image; 2] {
    let axes: Vec<(usize, bool)> = code
        .chars()
        .map(|letter| match letter {
            'R' | 'A' | 'S' => ("RAS".find(letter).expect("a letter"), false),
            _ => ("LPI".find(letter).expect("a letter"), true),
        })
        .collect();
    let shape: [usize; 3] = std::array::from_fn(|axis| SIZE[axes[axis].0]);
    let mut affine: Affine = [[0.0; 4], [0.0; 4], [0.0; 4], [0.0, 0.0, 0.0, 1.0]];
    for (axis, (world, against)) in axes.iter().enumerate() {
        affine[*world][axis] = if *against { -MM[*world] } else { MM[*world] };
        affine[*world][3] = if *against { MM[*world] * (SIZE[*world] - 1) as f64 } else { 0.0 };
    }
    let values = |which: fn((f32, f32)) -> f32| -> Vec<f32> {
        let voxel = |i: usize| {
            let place = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
            let mut world = [0; 3];
            for (axis, (of, against)) in axes.iter().enumerate() {
                world[*of] = if *against { SIZE[*of] - 1 - place[axis] } else { place[axis] };
            }
            which(body(world))
        };
        (0..shape.iter().product()).map(voxel).collect()
    };
    let read = |name: &str, values: Vec<f32>| {
        let path = folder.join(format!("{code}-{name}.nii.gz"));
        let image = Image::from_values(values, [1, shape[0], shape[1], shape[2]], affine, &Default::default());
        write_nifti(&path, &image, NiftiOptions::default()).expect("written");
        read_nifti(&path).expect("read")
    };
    [read("image", values(|(value, _)| value)), read("label", values(|(_, class)| class))]
}

fn names() -> Vec<String> {
    ["background", "organ", "vessel"].map(str::to_owned).to_vec()
}

fn pixels(canvas: &Canvas) -> Vec<Rgb> {
    (0..canvas.width() * canvas.height()).map(|i| canvas.get(i % canvas.width(), i / canvas.width())).collect()
}

#[test]
fn any_order_of_storage_gives_the_same_picture() {
    let dir = tempfile::tempdir().expect("a folder");
    let draw = |code: &str| {
        let [image, label] = stored(dir.path(), code);
        assert_eq!(image.orientation(), code);
        let subject = Subject { title: "phantom", image: &image, window: None };
        pixels(&labels(&subject, &names(), &label, Some(&label)))
    };
    let expected = draw("RAS");
    for code in ["LPS", "PIR", "ASL", "SRA", "IPL"] {
        assert!(draw(code) == expected, "{code} is drawn in another way than RAS");
    }
    // The same in coordinates that increase to the left and to the back.
    let [mut image, mut label] = stored(dir.path(), "LPS");
    for map in [&mut image, &mut label] {
        map.meta.space = Space::Lps;
        map.affine[..2].iter_mut().flatten().for_each(|value| *value = -*value);
    }
    let subject = Subject { title: "phantom", image: &image, window: None };
    assert!(pixels(&labels(&subject, &names(), &label, Some(&label))) == expected, "LPS coordinates");
}

/// A volume with only its values.
fn volume<'a>(image: &Image, view: &View, values: &'a [f32]) -> Volume<'a> {
    Volume { grid: view.grid(image), channels: vec![values], layers: Vec::new(), window: (0.0, 1300.0) }
}

#[test]
fn planes_are_drawn_as_radiologists_look_at_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let [image, _] = stored(dir.path(), "PIR");
    let values = image.to_vec();
    let volume = volume(&image, &View::of(&image), &values);
    assert_eq!((volume.grid.shape, volume.grid.spacing), (SIZE, MM));
    let grey = |voxel: [usize; 3]| [(body(voxel).0 / 1300.0 * 255.0).round() as u8; 3];
    let [r, a, s] = SIZE.map(|size| size - 1);
    for (plane, index, letters, corners) in [
        (Plane::Axial, 3, "RLAP", [[r, a, 3], [0, a, 3], [r, 0, 3]]),
        (Plane::Coronal, 4, "RLSI", [[r, 4, s], [0, 4, s], [r, 4, 0]]),
        (Plane::Sagittal, 5, "APSI", [[5, a, s], [5, 0, s], [5, a, 0]]),
    ] {
        let panel = volume.slice(plane, index);
        let (w, h) = (panel.width, panel.height);
        assert_eq!(panel.letters.map(String::from_iter).as_deref(), Some(letters));
        assert_eq!([panel.pixels[0], panel.pixels[w - 1], panel.pixels[(h - 1) * w]], corners.map(grey), "{plane:?}");
    }
}

#[test]
fn oblique_volumes_have_the_closest_letters_and_odd_affines_none() {
    let values: Vec<f32> = (0..24).map(|value| value as f32).collect();
    let image = |affine: Affine| Image::from_values(values.clone(), [1, 2, 3, 4], affine, &Default::default());
    let (sin, cos) = 35_f64.to_radians().sin_cos();
    // Rotated by 35 degrees around the long axis, with the first axis towards the left.
    let oblique = image([[-cos, -sin, 0.0, 9.0], [-sin, cos, 0.0, 3.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0]]);
    let grid = View::of(&oblique).grid(&oblique);
    assert_eq!(grid.letters(Plane::Axial).map(String::from_iter).as_deref(), Some("RLAP"));
    assert_eq!(grid.place([0, 0, 0]), 12, "the first axis is turned around");
    let mut odd = IDENTITY;
    odd[1] = [0.0; 4];
    let mut not_finite = IDENTITY;
    not_finite[0][0] = f64::NAN;
    for affine in [odd, not_finite] {
        let image = image(affine);
        let grid = View::of(&image).grid(&image);
        assert_eq!((grid.planes(), grid.letters(Plane::Stored)), (vec![Plane::Stored], None));
        let subject = Subject { title: "", image: &image, window: None };
        assert!(labels(&subject, &names(), &image, None).png().is_ok());
    }
}

#[test]
fn a_flip_shows_in_picture_and_letters() {
    let dir = tempfile::tempdir().expect("a folder");
    let [image, _] = stored(dir.path(), "ASL");
    let view = View::of(&image);
    // The third axis is left-right.
    let flipped = spatial::flip(image.clone(), &[2]);
    let drawn = |image: &Image| {
        let values = image.to_vec();
        let panel = volume(image, &view, &values).slice(Plane::Axial, 3);
        (panel.pixels, panel.letters.map(String::from_iter).expect("letters"), panel.width)
    };
    let ((before, letters, width), (after, swapped, _)) = (drawn(&image), drawn(&flipped));
    assert_eq!((&*letters, &*swapped), ("RLAP", "LRAP"));
    let mirrored: Vec<Rgb> = before.chunks(width).flat_map(|row| row.iter().rev().copied()).collect();
    assert!(after == mirrored && after != before);
}

#[test]
fn a_flat_picture_is_drawn_as_it_is_stored() {
    let values: Vec<f32> = (0..3 * 20).map(|value| value as f32).collect();
    let mut affine = IDENTITY;
    affine[0][0] = -1.0;
    let picture = Image::from_values(values, [3, 5, 4, 1], affine, &Default::default()).with_spatial_dims(2);
    let panels = Subject { title: "", image: &picture, window: Some((0.0, 255.0)) }.planes(Vec::new());
    assert_eq!((panels.len(), panels[0].letters, &*panels[0].caption), (1, None, ""));
    assert_eq!((panels[0].width, panels[0].height), (5, 4));
    // The first axis points to the right, and three channels are colours.
    assert_eq!((panels[0].pixels[0], panels[0].pixels[1]), ([0, 20, 40], [4, 24, 44]));
}

#[test]
fn classes_regions_and_differences_are_to_be_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    let [image, label] = stored(dir.path(), "LPS");
    let subject = Subject { title: "a case", image: &image, window: None };
    let both = labels(&subject, &names(), &label, Some(&label));
    let alone = labels(&subject, &names(), &label, None);
    for class in [1, 2] {
        assert!(both.count(of_class(class)) > alone.count(of_class(class)), "class {class}: the truth is drawn too");
        assert!(alone.count(of_class(class)) > 200, "class {class}");
    }
    assert_eq!(both.count(of_class(3)), 0);
    // Regions with the same outline, and empty ones.
    let map = |values: Vec<f32>, channels: usize| {
        let [x, y, z] = label.shape();
        Image::from_values(values, [channels, x, y, z], label.affine, &Default::default())
    };
    let organ: Vec<f32> = label.to_vec().iter().map(|class| f32::from(u8::from(*class > 0.0))).collect();
    let nested = regions(&subject, &names(), &map([organ.clone(), organ.clone()].concat(), 2), None);
    assert!((1..=2).all(|region| nested.count(of_class(region)) > 200));
    let nothing = regions(&subject, &names(), &map(vec![0.0; 2 * organ.len()], 2), None);
    assert!((1..=2).all(|region| nothing.count(of_class(region)) == 0));
    // There is a difference image only if the sizes match.
    let shifted = map(image.to_vec().iter().map(|value| value + 40.0).collect(), 1);
    let small = Image::from_values(vec![5.0; 60], [1, 5, 4, 3], label.affine, &Default::default());
    let width = |output: &Image, truth: Option<&Image>| reconstruction(&subject, output, truth).width();
    let (same, other, known) = (width(&shifted, None), width(&small, None), width(&shifted, Some(&image)));
    assert!(other < same && same < known, "{other} {same} {known}");
}

/// Three voxels are missed in one axial slice and one elsewhere: that slice is the worst, in any
/// storage order, and the picture has an additional row for it.
#[test]
fn the_worst_slices_are_drawn_where_the_truth_is_known() {
    let dir = tempfile::tempdir().expect("a folder");
    for code in ["RAS", "LPS", "SPL"] {
        let [image, label] = stored(dir.path(), code);
        let view = View::of(&image);
        let (values, truth) = (image.to_vec(), label.to_vec().iter().map(|class| *class as u8).collect::<Vec<u8>>());
        let grid = view.grid(&image);
        let mut found = truth.clone();
        for voxel in [[7, 5, 4], [8, 5, 4], [9, 6, 4], [7, 7, 3]] {
            let place = grid.place(voxel);
            assert_eq!(found[place], 1, "{code}");
            found[place] = 0;
        }
        let mut volume = volume(&image, &view, &values);
        volume.layers = vec![(Line::Solid, &truth), (Line::Dashed, &found)];
        assert_eq!(volume.worst(Plane::Axial), Some((4, 3)), "{code}");
        assert_eq!(volume.worst(Plane::Coronal), Some((5, 2)), "{code}");
        assert_eq!(volume.worst(Plane::Sagittal), Some((7, 2)), "{code}");
        volume.layers = vec![(Line::Solid, &truth), (Line::Dashed, &truth)];
        assert_eq!(volume.worst(Plane::Axial), None);
        let missed = found.iter().map(|class| f32::from(*class)).collect();
        let [x, y, z] = label.shape();
        let missed = Image::from_values(missed, [1, x, y, z], label.affine, &Default::default());
        let subject = Subject { title: "a case", image: &image, window: None };
        let height = |found: &Image, truth: Option<&Image>| labels(&subject, &names(), found, truth).height();
        assert!(height(&missed, Some(&label)) > height(&label, Some(&label)) + 100, "a row more");
        assert_eq!(height(&missed, None), height(&label, None));
    }
}

/// The first real volumes, stored in other orders.
#[test]
#[ignore = "reads HEARTH_REAL_DATA"]
fn real_files_look_the_same_in_any_order_of_storage() {
    let data = PathBuf::from(std::env::var_os("HEARTH_REAL_DATA").expect("HEARTH_REAL_DATA names a folder"));
    for (image, label) in [
        ("spleen_ct/case_a_ct.nii.gz", "spleen_ct/case_a_labels.nii.gz"),
        ("spleen_ct/case_c_mr.nii.gz", "spleen_ct/case_c_mr_spleen.nii.gz"),
        ("brain_mri/tcga_fg6692/flair.nii.gz", "brain_mri/tcga_fg6692/seg.nii.gz"),
        (
            "brain_mri/hippocampus_msd/images/hippocampus_075.nii.gz",
            "brain_mri/hippocampus_msd/labels/hippocampus_075.nii.gz",
        ),
    ] {
        let read = |name: &str| read_nifti(data.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (volume, classes) = (read(image), read(label));
        let draw = |image: &Image, label: &Image| {
            pixels(&labels(&Subject { title: "real", image, window: None }, &names(), label, Some(label)))
        };
        let expected = draw(&volume, &classes);
        for code in ["RAS", "LPS", "PIR", "ASL"] {
            let turn = |image: &Image| Orientation::new("image", code).turn(image.clone(), 0).expect("turned");
            let (volume, classes) = (turn(&volume), turn(&classes));
            assert_eq!(volume.orientation(), code);
            assert!(draw(&volume, &classes) == expected, "{image} as {code}");
        }
    }
}

fn picture(path: &Path) -> Image {
    read_image(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The number of pixels of a file with a colour.
fn count(image: &Image, colour: Rgb) -> usize {
    let (values, size) = (image.to_vec(), image.shape().iter().product::<usize>());
    (0..size).filter(|i| (0..3).all(|channel| values[channel * size + i] == f32::from(colour[channel]))).count()
}

fn train(folder: &Path, recipe: &str, data: &Path) -> String {
    let path = folder.join("recipe.toml");
    fs::write(&path, recipe).expect("written");
    let out = text(&folder.join("run"));
    succeed(&["train", &text(&path), "--data", &text(data), "--out", &out, "--epochs", "1", "--device", "cpu"]);
    out
}

#[test]
fn predictions_of_classes_have_a_picture() {
    let dir = tempfile::tempdir().expect("a folder");
    plugins_are_built();
    let data = phantom(dir.path(), 3);
    let run = train(dir.path(), TINY, &data);
    let (with, without) = (dir.path().join("with"), dir.path().join("without"));
    let predict = |input: &Path, out: &Path| {
        let words = ["predict", &run, "-i", &text(input), "-o", &text(out), "--device", "cpu", "--picture"];
        words.map(str::to_owned).to_vec()
    };
    let said = succeed(&predict(&data, &with));
    assert_eq!(said.matches("_picture.png").count(), 3, "{said}");
    let mut images: Vec<PathBuf> =
        fs::read_dir(data.join("imagesTr")).expect("a folder").flatten().map(|entry| entry.path()).collect();
    images.sort();
    let stem = images[0].file_name().expect("a name").to_string_lossy().replace(".nii.gz", "");
    let name = format!("{stem}_picture.png");
    let known = picture(&with.join(&name));
    succeed(&predict(&images[0], &without));
    let unknown = picture(&without.join(&name));
    assert!(known.to_vec() != unknown.to_vec(), "a data set's label is drawn");
    // The picture is claimed like every result: files of others are not replaced.
    fs::remove_file(without.join(format!("{stem}_seg.nii.gz"))).expect("removed");
    fs::write(without.join(&name), "mine").expect("written");
    fail(&[predict(&images[0], &without), vec!["--overwrite".to_owned()]].concat(), 1, &[&name, "was changed"]);
    assert_eq!(fs::read(without.join(&name)).expect("a file"), b"mine");
    // If the label cannot be drawn, the prediction still gets its picture.
    let label = data.join("labelsTr").join(images[0].file_name().expect("a name"));
    fs::write(&label, "no volume").expect("written");
    let third = dir.path().join("third");
    let output = crate::common::run(&predict(&data, &third));
    let said = crate::common::errors(&output);
    assert!(output.status.success() && said.contains("the picture lacks the label"), "{said}");
    assert!(picture(&third.join(&name)).to_vec() == unknown.to_vec(), "as if there were none");
}

/// Cubes of noise with a class, a level, a clean image and two nested regions.
fn cubes(folder: &Path) -> PathBuf {
    let mut table = "noisy,clean,kind,level,regions\n".to_owned();
    for case in 0..4_usize {
        let inside = move |i: usize, by: usize| {
            let place = [i / 128, i / 8 % 16];
            place.iter().all(|at| (4 + by..12 - by).contains(at)) && (2..6).contains(&(i % 8))
        };
        let write = |name: String, value: &dyn Fn(usize) -> f32| {
            let values = (0..16 * 16 * 8).map(value).collect();
            let image = Image::from_values(values, [1, 16, 16, 8], IDENTITY, &Default::default());
            write_nifti(folder.join(name), &image, NiftiOptions::default()).expect("written");
        };
        let bright = (case + 1) as f32 / 4.0;
        write(format!("clean{case}.nii.gz"), &|i| if inside(i, 0) { bright } else { 0.0 });
        write(format!("noisy{case}.nii.gz"), &|i| {
            (if inside(i, 0) { bright } else { 0.0 }) + (i * 7919 % 13) as f32 / 40.0
        });
        write(format!("parts{case}.nii.gz"), &|i| f32::from(u8::from(inside(i, 0)) + u8::from(inside(i, 2))));
        let kind = if case % 2 == 0 { "dark" } else { "bright" };
        table += &format!("noisy{case}.nii.gz,clean{case}.nii.gz,{kind},{bright},parts{case}.nii.gz\n");
    }
    let path = folder.join("cases.csv");
    fs::write(&path, table).expect("written");
    path
}

/// Trains a task on the cubes for an epoch, predicts them, and returns the pictures.
fn predicted(task: &str, label: bool, network: &str, loss: &str) -> Vec<Image> {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let table = cubes(dir.path());
    let keys = if label { "[\"image\", \"label\"]" } else { "[\"image\"]" };
    let recipe = format!(
        "{task}\n[data]\nimages = [\"noisy\"]\nvalidation = {{ last = 1 }}\n[network]\n{network}\n[loss]\n{loss}\n\
         [optimizer]\nname = \"Adam\"\nlr = 0.01\n[training]\nepochs = 1\nbatch_size = 1\nval_interval = 1\n"
    )
    .replace(
        "READ",
        &format!("{{ name = \"LoadImage\", keys = {keys} }}, {{ name = \"EnsureChannelFirst\", keys = {keys} }}"),
    );
    let run = train(dir.path(), &recipe, &table);
    let out = dir.path().join("out");
    let words = ["predict", &run, "-i", &text(&table), "-o", &text(&out), "--device", "cpu", "--picture"];
    assert_eq!(succeed(&words).matches("_picture.png").count(), 4);
    (0..4).map(|case| picture(&out.join(format!("noisy{case}_picture.png")))).collect()
}

const DENSE: &str = "name = \"DenseNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = OUT\ninit_features = 8\n\
                     growth_rate = 4\nblock_config = [2, 2]";
const UNET: &str =
    "name = \"UNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = OUT\nchannels = [8, 16]\nstrides = [2]";

#[test]
fn predictions_of_numbers_have_a_picture() {
    let task =
        "labels = [\"dark\", \"bright\"]\ntransforms = [READ]\n[task]\nname = \"Classification\"\nlabel = \"kind\"";
    for image in predicted(task, false, &DENSE.replace("OUT", "2"), "name = \"CrossEntropyLoss\"") {
        assert!(count(&image, hearth_pictures::colours::CURVE) > 1000, "bars");
    }
    let task = "labels = [\"level\"]\ntransforms = [READ]\n[task]\nname = \"Regression\"";
    for image in predicted(task, false, &DENSE.replace("OUT", "1"), "name = \"MSELoss\"") {
        assert!(count(&image, of_class(1)) > 20, "a number");
    }
}

#[test]
fn predictions_of_images_and_regions_have_a_picture() {
    let task = "transforms = [READ]\n[task]\nname = \"Reconstruction\"\ntarget = \"clean\"";
    let images = predicted(task, true, &UNET.replace("OUT", "1"), "name = \"MSELoss\"");
    // Input, output, label, difference: four columns.
    assert!(images.iter().all(|image| image.shape()[0] > 4 * 300), "{:?}", images[0].shape());
    let task = "labels = [\"all\", \"outer\", \"core\"]\ntransforms = [READ]\n[task]\nname = \"Regions\"\nlabel = \"regions\"\n\
                [post]\nlabel = [{ name = \"AsDiscrete\", to_onehot = 3 }]";
    let loss = "name = \"DiceLoss\"\nsigmoid = true\nto_onehot_y = true";
    let images = predicted(task, true, &UNET.replace("OUT", "3"), loss);
    assert!(images.iter().all(|image| (1..=3).all(|region| count(image, of_class(region)) > 50)));
}
