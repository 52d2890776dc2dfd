//! `predict --saliency`: a map of what the answer of a classifier depends on, on the grid of its image.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, phantom, plugins_are_built, run as run_it, succeed, text, tiny_recipe};
use crate::tasks::{REST, bright_cubes, network, recipe};
use hearth_data::{Image, NiftiOptions, read_nifti, write_nifti};

const SHAPE: [usize; 3] = [16, 16, 8];

/// Whether a voxel is in the cube, which is at the end of the first axis.
fn in_cube(index: usize) -> bool {
    (9..15).contains(&(index / 128)) && (4..12).contains(&(index / 8 % 16))
}

/// An image that is stored from left to right, with a cube that is just bright enough.
fn odd_image(path: &Path) {
    let mut affine = hearth_data::affine::IDENTITY;
    (affine[0][0], affine[1][1], affine[2][2], affine[0][3]) = (-2.0, 2.0, 3.0, 40.0);
    let value = |index: usize| if in_cube(index) { 0.65 } else { (index % 7) as f32 * 0.01 };
    let [x, y, z] = SHAPE;
    let image = Image::from_values((0..x * y * z).map(value).collect(), [1, x, y, z], affine, &Default::default());
    write_nifti(path, &image, NiftiOptions::default()).expect("written");
}

/// A run that distinguishes bright cubes from dark ones.
fn trained(folder: &Path) -> PathBuf {
    let table = bright_cubes(folder, 32);
    let rest = REST.replacen("\ntransforms", "transforms", 1);
    let rest = rest.replace(
        "{ name = \"EnsureChannelFirst\", keys = [\"image\"] }",
        "{ name = \"EnsureChannelFirst\", keys = [\"image\"] }, { name = \"Orientation\", keys = [\"image\"], axcodes = \"RAS\" }",
    );
    let task = "[task]\nname = \"Classification\"\nlabel = \"kind\"\n";
    let head = format!("labels = [\"dark\", \"bright\"]\n{rest}");
    let recipe = recipe(folder, "cubes.toml", &[&head, task, &network(2), "[loss]\nname = \"CrossEntropyLoss\"\n"]);
    let run = folder.join("run");
    succeed(&["train", &recipe, "--data", &text(&table), "--out", &text(&run), "--device", "cpu"]);
    run
}

/// The mean of a map within the cube, and on the other side of the image.
fn means(map: &Image) -> [f32; 2] {
    let values = map.to_vec();
    let mean = |of: &dyn Fn(usize) -> bool| {
        let found: Vec<f32> = (0..values.len()).filter(|index| of(*index)).map(|index| values[index]).collect();
        found.iter().sum::<f32>() / found.len() as f32
    };
    [mean(&in_cube), mean(&|index| index / 128 < 7)]
}

#[test]
fn a_map_shows_what_a_class_depends_on() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let run = trained(dir.path());
    let file = dir.path().join("odd.nii.gz");
    odd_image(&file);
    let image = read_nifti(&file).expect("an image");
    let predict = |out: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let words = ["predict", &text(&run), "-i", &text(&file), "-o", &text(&out), "--device", "cpu"];
        let printed = succeed(&[&words[..], more].concat());
        (out, printed)
    };
    let map_of = |out: &Path| {
        let map = read_nifti(out.join("odd_saliency.nii.gz")).expect("a map");
        assert_eq!((map.shape(), map.affine), (image.shape(), image.affine));
        map
    };
    // Where the cube is hidden it is not bright, and the other side does not matter.
    let (out, printed) = predict("occlusion", &["--saliency", "occlusion", "--saliency-class", "bright"]);
    assert!(printed.contains("odd_saliency.nii.gz") && printed.contains("odd_saliency.png"), "{printed}");
    let [inside, outside] = means(&map_of(&out));
    assert!(inside > 0.0 && inside > 4.0 * outside.abs(), "{inside} and {outside}");
    let record = fs::read_to_string(out.join("records/odd_saliency.nii.gz.hearth.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!((&record["saliency"]["method"], &record["saliency"]["class"]), (&"occlusion".into(), &"bright".into()));
    let png = fs::read(out.join("odd_saliency.png")).expect("a picture");
    assert!(png.starts_with(b"\x89PNG") && png.len() > 5000);
    // What speaks for one of two classes speaks against the other.
    let (out, _) = predict("dark", &["--saliency", "occlusion", "--saliency-class", "0"]);
    assert!(means(&map_of(&out))[0] < 0.0);
    assert!(fs::read_to_string(out.join("scores.csv")).expect("scores").starts_with("image,class,dark,bright\n"));

    let (out, _) = predict("cam", &["--saliency", "gradcam", "--saliency-layer", "features.denseblock1"]);
    let early = map_of(&out).to_vec();
    assert!(early.iter().all(|value| (-1e-6..=1.0 + 1e-6).contains(value)));
    let (out, _) = predict("plus", &["--saliency", "gradcam++"]);
    assert_ne!(map_of(&out).to_vec(), early);
    for method in ["vanilla", "smooth"] {
        let (out, _) = predict(method, &["--saliency", method]);
        let [inside, outside] = means(&map_of(&out));
        assert!(inside > 0.0 && outside >= 0.0, "{method}: {inside} and {outside}");
    }
    // Other formats, and a package.
    let packed = dir.path().join("cubes.hearth");
    let said = run_it(&["export", &text(&run), &text(&packed)]);
    // The classes of a whole image are in no DICOM file.
    assert!(said.status.success() && !errors(&said).contains("coded term"), "{}", errors(&said));
    let term = |code: &str| format!("[\"{code}\", \"SCT\", \"x\"]");
    let codes = dir.path().join("codes.toml");
    fs::write(&codes, format!("[bright]\ncategory = {}\ntype = {}\n", term("1"), term("2"))).expect("written");
    let coded = ["export", &text(&run), &text(&dir.path().join("coded.hearth")), "--codes", &text(&codes)];
    fail(&coded, 1, &["--codes", "predicts none"]);
    let out = dir.path().join("packed");
    let words = ["predict", &text(&packed), "-i", &text(&file), "-o", &text(&out), "--device", "cpu"];
    succeed(&[&words[..], &["--saliency", "vanilla", "--format", "nrrd"]].concat());
    assert!(out.join("odd_saliency.nrrd").is_file() && out.join("odd_saliency.png").is_file());

    let refuse = |more: &[&str], say: &[&str]| {
        let out = text(&dir.path().join("refused"));
        let words = ["predict", &text(&run), "-i", &text(&file), "-o", &out, "--device", "cpu"];
        fail(&[&words[..], more].concat(), 1, say);
    };
    // What the model alone decides is refused before the first image.
    refuse(&["--saliency", "gradcam", "--saliency-layer", "layer4"], &["no layer `layer4`", "class_layers.out"]);
    refuse(&["--saliency", "gradcam", "--saliency-layer", ""], &["no layer ``"]);
    refuse(&["--saliency", "vanilla", "--saliency-layer", "features"], &["for gradcam and gradcam++", "vanilla"]);
    refuse(&["--saliency", "gradcam", "--saliency-class", "brigt"], &["did you mean \"bright\"?"]);
    refuse(&["--saliency", "occlusion", "--saliency-class", "2"], &["--saliency-class", "dark, bright"]);
    assert!(!dir.path().join("refused").exists());
    refuse(&["--saliency", "gradcam", "--saliency-layer", "class_layers.out"], &["a single voxel", "an earlier layer"]);
}

#[test]
fn a_model_of_labels_has_no_such_map() {
    plugins_are_built();
    let dir = tempfile::tempdir().expect("a folder");
    let (data, tiny) = (text(&phantom(dir.path(), 3)), text(&tiny_recipe(dir.path())));
    let (run, out) = (text(&dir.path().join("run")), text(&dir.path().join("out")));
    succeed(&["train", &tiny, "--data", &data, "--out", &run, "--device", "cpu", "--epochs", "1"]);
    let words = ["predict", &run, "-i", &data, "-o", &out, "--device", "cpu", "--saliency", "gradcam"];
    fail(&words, 1, &["--saliency shows what the numbers of a whole image depend on", "predicts labels"]);
}
