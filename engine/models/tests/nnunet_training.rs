//! The recipes that `hearth plan` writes: their chain equals nnU-Net's, and they learn.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::spatial::crop;
use hearth_data::writers::{WriteOptions, write_image};
use hearth_data::{Image, Item, NiftiOptions, Parts, Progress, affine, host_device, k_fold, read_image, write_nifti};
use hearth_models::nnunet::planner::{Planner, PlannerOptions, plan, splits};
use hearth_models::nnunet::{ExportOptions, NnunetOptions, NnunetPredictor, NnunetRaw, export, training_recipe};
use hearth_models::run::Trained;
use hearth_models::run::segment::Wanted;
use hearth_nn::pytorch::{OpenOptions, StateDict};
use hearth_nnunet::{DatasetJson, parse_json};
use hearth_recipe::recipe::{Document, Recipe};
use hearth_run::folders::open_run;
use hearth_run::{Cases, Plan, Session, as_predicted, checkpoint_file, held_out};
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn golden(path: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::env::var_os("HEARTH_GOLDEN").map_or(own, PathBuf::from).join("nnunet").join(path)
}

fn json_of(path: &Path) -> Value {
    parse_json(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).expect("JSON")
}

/// The chain of the recipe for a recorded model prepares its image like nnU-Net.
#[test]
fn the_chain_prepares_images_as_nnunet() {
    for (case, model, configuration, id) in [
        ("ct_aniso_separate_z", "model", "3d_fullres", "ct_01"),
        ("organs_legacy_nomirror", "model", "3d_fullres", "s01"),
        ("mr_resenc_masked_2ch", "model", "3d_fullres", ""),
        ("mr_2d_transposed", "model", "2d", ""),
        ("mr_regions_4ch", "model", "3d_fullres", ""),
        // One file has all colours.
        ("png_rgb_2d", "model", "2d", ""),
        // The labels of the first stage are channels after those of the image.
        ("cascade", "model_cascade", "3d_cascade_fullres", ""),
    ] {
        let folder = golden(case);
        let dataset = DatasetJson::read(&folder.join(model).join("dataset.json")).expect("a data set");
        let plans = json_of(&folder.join(model).join("plans.json"));
        let text = match plans["configurations"][configuration]["batch_size"].is_u64() {
            true => training_recipe(&plans, &dataset, configuration),
            false => {
                let mut plans = plans.clone();
                plans["configurations"][configuration]["batch_size"] = 2.into();
                training_recipe(&plans, &dataset, configuration)
            }
        };
        let text = text.expect("a recipe");
        assert!(text.lines().count() <= 80, "{case}: {} lines", text.lines().count());
        let document = Document::parse("plan.toml", text.clone()).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let ready = Plan::new(document).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder.join("input")).expect("images").map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        let name = files[0].file_name().expect("a name").to_string_lossy().into_owned();
        let id = if id.is_empty() { name.split("_0000").next().expect("a name") } else { id };
        files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(id)));
        let item = Item::new(id);
        let item = match &files[..] {
            [file] => item.with("image", file),
            _ => item.with_parts("image", Parts::new(files.clone())),
        };
        let item = match case {
            "cascade" => item.with("previous", folder.join(format!("lowres/expected/{id}.nii.gz"))),
            _ => item,
        };
        let mut made = ready.prediction.run_deterministic(item.sample()).unwrap_or_else(|error| panic!("{error}"));
        let image = made.remove(0).take_image("image").expect("an image");
        let bytes = fs::read(folder.join(format!("expected/{id}_preprocessed.safetensors"))).expect("recorded");
        let recorded = SafeTensors::deserialize(&bytes).expect("whole");
        let view = recorded.tensor("preprocessed").expect("an array");
        assert_eq!([&[image.channels()][..], &image.shape()].concat(), view.shape(), "{case}");
        let expected = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let wrong = image.to_vec().into_iter().zip(expected).filter(|(a, b)| (a - b).abs() > 2e-5 + 2e-5 * b.abs());
        assert_eq!(wrong.count(), 0, "{case}");
        // The network's output is mapped back to the grid of the file.
        let back = ready.prediction.invert(image.clone(), &image, false).expect("the file's grid");
        assert_eq!(back.affine, image.meta.original_affine, "{case}");
    }
}

#[test]
fn what_is_not_trained_is_refused_with_its_reason() {
    let folder = golden("png_rgb_2d/model");
    let dataset = DatasetJson::read(&folder.join("dataset.json")).expect("a data set");
    let mut plans = json_of(&folder.join("plans.json"));
    let error = training_recipe(&plans, &dataset, "3d_fullres").expect_err("refused").to_string();
    assert!(error.contains("3d_fullres") && error.contains("2d"), "{error}");
    plans["configurations"]["2d"]["batch_size"] = Value::Null;
    let error = training_recipe(&plans, &dataset, "2d").expect_err("refused").to_string();
    assert!(error.contains("batch_size"), "{error}");
}

/// Colour pictures: from a raw data set to an nnU-Net model that writes pictures.
#[test]
fn pictures_are_planned_and_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["imagesTr", "labelsTr"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let [width, height] = [52, 44];
    let inside = |case: usize, at: usize| {
        let [x, y] = [at / height, at % height].map(|at| at as f64);
        (x - 16.0 - 4.0 * case as f64).powi(2) + (y - 26.0 + 2.0 * case as f64).powi(2) < 100.0
    };
    for case in 0..6 {
        let noise = |at: usize| (((at * 31 + case * 17) as f32 * 0.7).sin() * 12.0).round();
        let colours = [[90.0, 120.0, 60.0], [170.0, 70.0, 130.0]];
        let values = (0..3 * width * height).map(|index| {
            let (channel, at) = (index / (width * height), index % (width * height));
            colours[usize::from(inside(case, at))][channel] + noise(index)
        });
        let labels = (0..width * height).map(|at| f32::from(u8::from(inside(case, at))));
        let write = |path: String, values: Vec<f32>, channels: usize| {
            let image = Image::from_values(values, [channels, width, height, 1], affine::IDENTITY, &host_device());
            write_image(folder.path().join(path), &image, &WriteOptions::label()).expect("written");
        };
        write(format!("imagesTr/disc_{case}_0000.png"), values.collect(), 3);
        write(format!("labelsTr/disc_{case}.png"), labels.collect(), 1);
    }
    let dataset = json!({"channel_names": {"0": "R", "1": "G", "2": "B"}, "labels": {"background": 0, "disc": 1},
        "numTraining": 6, "file_ending": ".png"});
    fs::write(folder.path().join("dataset.json"), dataset.to_string()).expect("written");
    let opened = NnunetRaw::open(folder.path()).expect("a data set");
    assert_eq!(opened.reader, "NaturalImage2DIO");
    let fingerprint = opened.fingerprint(Progress::None).expect("a fingerprint");
    let options = PlannerOptions::new(Planner::Default);
    let plans = plan("Dataset002_Discs", &opened.dataset, &opened.reader, &fingerprint, &options).expect("plans");
    let text = training_recipe(&plans, &opened.dataset, "2d").expect("a recipe");
    let out = tempfile::tempdir().expect("a folder");
    let run = out.path().join("run");
    let metrics = train(&text, folder.path(), &run, 5, &[]);
    println!("2d of pictures: {metrics:?}");
    assert!(dice(&metrics).is_some_and(|dice| dice >= 0.7), "{metrics:?}");
    // A prediction is on the picture's grid again, which has two axes.
    let trained = Trained::open(&open_run(&run).expect("a run"), "best", "cpu", None).expect("a network");
    let item = Cases::all(folder.path(), &trained.plan.recipe).expect("cases").remove(0);
    let sample = as_predicted(&trained.plan.recipe, item.sample());
    let found = trained.segment(sample, Wanted::default()).unwrap_or_else(|error| panic!("{error}")).image;
    assert_eq!((found.shape(), found.meta.spatial_dims), ([width, height, 1], 2));
    let truth: Vec<f32> = (0..width * height).map(|at| f32::from(u8::from(inside(0, at)))).collect();
    let model = out.path().join("model");
    let options = ExportOptions { file_ending: ".png".to_owned(), ..ExportOptions::default() };
    export(&run, &model, &options).unwrap_or_else(|error| panic!("{error}"));
    let predictor = NnunetPredictor::open(&model, &NnunetOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let case = predictor.cases(&folder.path().join("imagesTr")).expect("cases").remove(0);
    let path = out.path().join("disc_0.png");
    predictor.predict(&case, None).and_then(|found| found.write(&path)).unwrap_or_else(|error| panic!("{error}"));
    let written = read_image(&path).expect("a picture");
    assert_eq!(written.shape(), [width, height, 1]);
    let [by_run, by_model] = [&found, &written].map(|image| overlap(&image.to_vec(), &truth));
    println!("Dice of a picture by the run {by_run}, by the exported model {by_model}");
    assert!(by_run >= 0.7 && by_model >= 0.7, "{by_run}, {by_model}");
    if let Some(kept) = std::env::var_os("HEARTH_KEEP_MODEL").map(PathBuf::from) {
        copy(&model, &kept.join("pictures/model"));
        copy(folder.path(), &kept.join("pictures/data"));
    }
}

/// Labels of an earlier stage that do not fit the image are reported before anything is computed.
#[test]
fn labels_of_another_image_are_refused() {
    let folder = golden("cascade");
    let dataset = DatasetJson::read(&folder.join("model_cascade/dataset.json")).expect("a data set");
    let mut plans = json_of(&folder.join("model_cascade/plans.json"));
    plans["configurations"]["3d_cascade_fullres"]["batch_size"] = 2.into();
    let text = training_recipe(&plans, &dataset, "3d_cascade_fullres").expect("a recipe");
    let ready = Plan::new(Document::parse("plan.toml", text).expect("TOML")).unwrap_or_else(|error| panic!("{error}"));
    let image = folder.join("input/c01_0000.nii.gz");
    let previous = tempfile::tempdir().expect("a folder");
    let wrong = previous.path().join("c01_seg.nii.gz");
    let own = read_image(folder.join("lowres/expected/c01.nii.gz")).expect("labels");
    let cases: [(&str, &dyn Fn(Image) -> Image); 3] = [
        ("voxels", &|image| crop(image, [0; 3], [5, 6, 7])),
        ("elsewhere", &|mut image| {
            image.affine[0][3] += 30.0;
            image
        }),
        ("other values: 77", &|image| {
            let ([x, y, z], mut values) = (image.shape(), image.to_vec());
            values[0] = 77.0;
            Image::from_values(values, [1, x, y, z], image.affine, &host_device())
        }),
    ];
    for (said, change) in cases {
        write_nifti(&wrong, &change(own.clone()), NiftiOptions::label()).expect("written");
        let item = Item::new("c01").with("image", &image).with("previous", &wrong);
        let error = ready.prediction.run_deterministic(item.sample()).expect_err(said).to_string();
        assert!(error.contains(said) && error.contains("previous"), "{error}");
    }
    let item = Item::new("c01").with("image", &image);
    let error = hearth_models::run::segment::Reading::of(&ready)
        .ready(item.sample())
        .map(|_| ())
        .expect_err("none")
        .to_string();
    assert!(error.contains("--previous-stage") && error.contains("c01"), "{error}");
}

/// The folds of the recipe are those of `splits_final.json`.
#[test]
fn folds_are_those_of_nnunet() {
    for count in [5, 7, 23] {
        let names: Vec<String> = (0..count).map(|case| format!("case_{case:03}")).collect();
        let expected = splits(&names).expect("folds");
        let dealt = k_fold(count, 5, Some(12345)).expect("folds");
        for (fold, validate) in dealt.into_iter().enumerate() {
            let validate: Vec<&String> = validate.into_iter().map(|case| &names[case]).collect();
            assert_eq!(json!(validate), expected[fold]["val"], "{count} cases, fold {fold}");
        }
    }
}

/// A raw data set: a bright ball in noise; with `regions`, with a brighter core and labels that
/// overlap. With `sparse`, only a third of its slices is annotated. `truth` has all labels.
fn raw(folder: &Path, regions: bool, sparse: bool) {
    let ignore = if regions { 3 } else { 2 };
    for name in ["imagesTr", "labelsTr", "truth"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    let [nx, ny, nz] = [24, 26, 16];
    for case in 0..6 {
        let centre = [9.0 + f64::from(case), 16.0 - f64::from(case), 6.0 + f64::from(case) / 2.0];
        let label = |index: usize| {
            let at = [index / (ny * nz), index / nz % ny, index % nz].map(|at| at as f64);
            let scale = [1.0, 1.0, 1.5];
            let distance: f64 = (0..3).map(|axis| ((at[axis] - centre[axis]) * scale[axis]).powi(2)).sum();
            f32::from(u8::from(distance < 49.0) + u8::from(regions && distance < 16.0))
        };
        let noise = |index: usize| ((index * 31 + case as usize * 17) as f32 * 0.7).sin() * 20.0;
        let write = |path: PathBuf, value: &dyn Fn(usize) -> f32| {
            let values = (0..nx * ny * nz).map(value).collect();
            let grid = affine::compose(
                &affine::IDENTITY,
                &[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.5, 0.0], [0.0, 0.0, 0.0, 1.0]],
            );
            let image = Image::from_values(values, [1, nx, ny, nz], grid, &host_device());
            write_nifti(&path, &image, NiftiOptions::default()).expect("written");
        };
        // With sparse data the image has a corner of zeros, which normalisation with a mask ignores.
        let seen = |at: usize| !sparse || at / (ny * nz) + at / nz % ny > 8;
        write(folder.join(format!("imagesTr/ball_{case}_0000.nii.gz")), &|at| {
            if seen(at) { 100.0 + 60.0 * label(at) + noise(at) } else { 0.0 }
        });
        write(folder.join(format!("truth/ball_{case}.nii.gz")), &|at| label(at));
        let annotated = |at: usize| !sparse || (at % nz).is_multiple_of(3);
        let known = |at: usize| if annotated(at) { label(at) } else { ignore as f32 };
        write(folder.join(format!("labelsTr/ball_{case}.nii.gz")), &known);
    }
    let mut dataset = json!({"channel_names": {"0": "MRI"}, "labels": {"background": 0, "ball": 1},
        "numTraining": 6, "file_ending": ".nii.gz"});
    if regions {
        dataset["labels"] = json!({"background": 0, "ball": [1, 2], "core": 2});
        dataset["regions_class_order"] = json!([1, 2]);
    }
    if sparse {
        dataset["labels"]["ignore"] = json!(ignore);
    }
    fs::write(folder.join("dataset.json"), dataset.to_string()).expect("written");
}

/// The whole workflow: raw data set, plans, recipe, training of a smaller network, validation.
#[test]
fn a_planned_recipe_learns() {
    for (regions, trained) in
        [(false, &[("3d_fullres", 6, 0.9), ("2d", 1, 0.0)][..]), (true, &[("3d_fullres", 6, 0.8)])]
    {
        planned_and_trained(regions, false, trained);
    }
}

/// Slices without annotation are not used for training, but are predicted.
#[test]
fn a_third_of_the_slices_is_enough() {
    for regions in [false, true] {
        planned_and_trained(regions, true, &[("3d_fullres", 6, 0.8)]);
    }
}

#[test]
fn what_cannot_be_left_out_is_refused() {
    let read = |more: &str| {
        let text = format!(
            "title = \"scribbles\"\nlabels = [\"background\", \"ball\"]\n\
             transforms = [{{ name = \"LoadImage\", keys = [\"image\", \"label\"] }}]\n\
             network = {{ name = \"BasicUNet\", spatial_dims = 3, in_channels = 1, out_channels = 2 }}\n\
             optimizer = {{ name = \"SGD\", lr = 0.1 }}\n{more}"
        );
        Recipe::read(&Document::parse("scribbles.toml", text).expect("TOML"))
    };
    let task = "task = { name = \"Segmentation\", ignore_label = 2 }\n";
    let loss = "loss = { name = \"DeepSupervisionLoss\", loss = { name = \"DiceCELoss\", to_onehot_y = true } }\n";
    let filled = read(&format!("{task}{loss}")).expect("a recipe").to_toml().expect("TOML");
    assert_eq!(filled.matches("ignore_index = 2").count(), 2, "{filled}");
    let again = Recipe::read(&Document::parse("again.toml", filled.clone()).expect("TOML")).expect("a recipe");
    assert_eq!(again.to_toml().expect("TOML"), filled);
    // The options of a metric in the recipe stay, under the name that it has without `ignore_label`.
    let regions = "task = { name = \"Regions\", classes = [[1, 2], [2]], ignore_label = 3 }\n";
    let focal = "loss = { name = \"DiceFocalLoss\", sigmoid = true }\n";
    for (written, counts) in [("", true), ("metric = { include_background = false }\n", false)] {
        let (name, dice) = read(&format!("{regions}{focal}{written}")).expect("a recipe").metric.list().swap_remove(0);
        assert_eq!((name.as_str(), dice.includes_background()), ("mean_dice", counts));
    }
    for (more, said) in [
        (
            format!("{task}{loss}[metric.lesions]\nname = \"DiceMetric\"\nper_component = true\n"),
            "does not support `ignore_index`",
        ),
        (format!("{task}loss = {{ name = \"HausdorffDTLoss\" }}\n"), "HausdorffDTLoss counts every voxel"),
        (format!("{task}{loss}[metric.lesions]\nname = \"LesionWiseMetric\"\n"), "counts every voxel"),
        (format!("task = {{ name = \"Segmentation\", ignore_label = 1 }}\n{loss}"), "the label of the class \"ball\""),
        (format!("task = {{ name = \"Regions\", ignore_label = 3 }}\n{loss}"), "needs task.classes"),
        (
            format!("task = {{ name = \"Regions\", classes = [[1, 2], [2]], ignore_label = 2 }}\n{loss}"),
            "a label of a region",
        ),
    ] {
        let error = read(&more).expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// From the first stage, in which each fold predicts the cases on which it was not trained, to the
/// second, which continues from these labels, with its prediction and its nnU-Net model.
#[test]
fn the_second_stage_of_a_cascade_learns() {
    let folder = tempfile::tempdir().expect("a folder");
    raw(folder.path(), false, false);
    let opened = NnunetRaw::open(folder.path()).expect("a data set");
    let fingerprint = opened.fingerprint(Progress::None).expect("a fingerprint");
    // With so little memory, a patch covers a small part of an image, and the planner adds a first
    // stage.
    let options = PlannerOptions { memory_gb: Some(0.003), ..PlannerOptions::new(Planner::Default) };
    let plans = plan("Dataset001_Balls", &opened.dataset, &opened.reader, &fingerprint, &options).expect("plans");
    let recipe = |name: &str| training_recipe(&plans, &opened.dataset, name).unwrap_or_else(|error| panic!("{error}"));
    let out = tempfile::tempdir().expect("a folder");
    let low = out.path().join("low");
    fs::create_dir(&low).expect("a folder");
    for fold in 0..2 {
        let held: Vec<String> = (0..3).map(|case| format!("ball_{}", 3 * fold + case)).collect();
        let run = out.path().join(format!("fold{fold}"));
        let validation = format!("data.validation={{ cases = {held:?} }}");
        let metrics = train(&recipe("3d_lowres"), folder.path(), &run, 5, &[validation]);
        println!("3d_lowres, fold {fold}: {metrics:?}");
        let run = open_run(&run).expect("a run");
        assert_eq!(held_out(&run).expect("a record"), held);
        let trained = Trained::open(&run, "best", "cpu", None).unwrap_or_else(|error| panic!("{error}"));
        for item in Cases::all(folder.path(), &trained.plan.recipe).expect("cases") {
            if held.contains(&item.case) {
                let sample = as_predicted(&trained.plan.recipe, item.sample());
                let found = trained.segment(sample, Wanted::default()).unwrap_or_else(|error| panic!("{error}"));
                let path = low.join(format!("{}_seg.nii.gz", item.case));
                write_nifti(&path, &found.image, NiftiOptions::label()).expect("written");
            }
        }
    }
    let text = recipe("3d_cascade_fullres");
    let document = Document::parse("plan.toml", text.clone()).expect("TOML");
    let without = Plan::new(document).and_then(|plan| Session::new(plan, folder.path(), &[]).map(|_| ()));
    let error = without.expect_err("no labels").line();
    assert!(error.contains("--previous-stage"), "{error}");

    let from = format!("data.previous_stage={:?}", low.display().to_string());
    let run = out.path().join("cascade");
    let metrics = train(&text, folder.path(), &run, 6, &[from]);
    println!("3d_cascade_fullres: {metrics:?}");
    assert!(dice(&metrics).is_some_and(|dice| dice >= 0.7), "{metrics:?}");
    // The run predicts from the labels of the first stage, and so does the exported model.
    let trained = Trained::open(&open_run(&run).expect("a run"), "best", "cpu", None).expect("a network");
    let item = Cases::all(folder.path(), &trained.plan.recipe).expect("cases").remove(0);
    let sample = as_predicted(&trained.plan.recipe, item.sample());
    let found = trained.segment(sample, Wanted::default()).unwrap_or_else(|error| panic!("{error}"));
    let path = out.path().join("by_run.nii.gz");
    write_nifti(&path, &found.image, NiftiOptions::label()).expect("written");
    let by_run = overlap(&labels_in(&path), &labels_in(&folder.path().join("truth/ball_0.nii.gz")));
    let model = out.path().join("model");
    let by_model = exported(&run, &model, folder.path(), Some(&low));
    println!("3d_cascade_fullres: Dice of a case by the run {by_run}, by the exported model {by_model}");
    assert!(by_run >= 0.7 && by_model >= 0.7, "{by_run}, {by_model}");
    let written = json_of(&model.join("plans.json"));
    let second = &written["configurations"]["3d_cascade_fullres"];
    assert_eq!(second, &json!({"inherits_from": "3d_fullres", "previous_stage": "3d_lowres"}));
    if let Some(kept) = std::env::var_os("HEARTH_KEEP_MODEL").map(PathBuf::from) {
        copy(&model, &kept.join("3d_cascade_fullres/model"));
        copy(&low, &kept.join("3d_cascade_fullres/previous"));
        copy(folder.path(), &kept.join("3d_cascade_fullres/data"));
    }
}

/// Trains each configuration for its epochs, and checks the smallest Dice.
fn planned_and_trained(regions: bool, sparse: bool, trained: &[(&str, usize, f64)]) {
    let folder = tempfile::tempdir().expect("a folder");
    raw(folder.path(), regions, sparse);
    let opened = NnunetRaw::open(folder.path()).expect("a data set");
    let fingerprint = opened.fingerprint(Progress::None).expect("a fingerprint");
    let options = PlannerOptions::new(Planner::Default);
    let plans = plan("Dataset001_Balls", &opened.dataset, &opened.reader, &fingerprint, &options).expect("plans");
    for &(configuration, epochs, least) in trained {
        let text = training_recipe(&plans, &opened.dataset, configuration).expect("a recipe");
        let out = tempfile::tempdir().expect("a folder");
        let metrics = train(&text, folder.path(), &out.path().join("run"), epochs, &[]);
        println!("{configuration}: {metrics:?}");
        assert!(dice(&metrics).is_some_and(|dice| dice.is_finite() && dice >= least), "{configuration}: {metrics:?}");
        let found = exported(&out.path().join("run"), &out.path().join("model"), folder.path(), None);
        println!("{configuration}, exported: Dice {found}");
        assert!(found >= least, "{configuration}: Dice of the exported model is {found}");
        if let Some(kept) = std::env::var_os("HEARTH_KEEP_MODEL").map(PathBuf::from) {
            let kind = |is: bool, word: &'static str| if is { word } else { "" };
            let kept = kept.join(format!("{configuration}{}{}", kind(regions, "_regions"), kind(sparse, "_sparse")));
            copy(&out.path().join("model"), &kept.join("model"));
            copy(folder.path(), &kept.join("data"));
        }
    }
}

/// Trains a smaller network of a recipe for a short time; returns the metrics of the last validation.
fn train(text: &str, data: &Path, run: &Path, epochs: usize, more: &[String]) -> BTreeMap<String, f64> {
    let mut document = Document::parse("plan.toml", text.to_owned()).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let features = document.find("network.features_per_stage").items().len();
    let few: Vec<usize> = (0..features).map(|stage| (4 << stage).min(16)).collect();
    let samples = if epochs > 1 { 60 } else { 4 };
    let changed = [
        format!("network.features_per_stage={few:?}"),
        format!("training.epochs={epochs}"),
        format!("training.val_interval={epochs}"),
        format!("schedule.total_iters={epochs}"),
        format!("data.sampler.num_samples={samples}"),
        "training.batch_size=2".to_owned(),
        "training.device=cpu".to_owned(),
        "data.workers=0".to_owned(),
    ];
    for assignment in changed.iter().chain(more) {
        document.set(assignment).unwrap_or_else(|fault| panic!("{assignment}: {fault}"));
    }
    let ready = Plan::new(document).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut session = Session::new(ready, data, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    session.start(run).expect("a run");
    session.run().unwrap_or_else(|error| panic!("{error}"));
    let metrics = session.trainer_mut().engine().state().metrics.clone();
    metrics.iter().map(|(name, value)| (name.clone(), *value)).collect()
}

fn dice(metrics: &BTreeMap<String, f64>) -> Option<f64> {
    metrics.iter().find(|(name, _)| name.contains("dice")).map(|(_, value)| *value)
}

/// Exports a run as an nnU-Net model with the same weights; returns the Dice of its prediction of
/// the first case, for all labels together.
fn exported(run: &Path, model: &Path, data: &Path, previous: Option<&Path>) -> f64 {
    let files = export(run, model, &ExportOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(files.len(), 3);
    let dict = StateDict::open(&files[2], &OpenOptions::default()).expect("a checkpoint");
    assert_eq!(dict.found_at, "network_weights");
    assert_eq!(
        dict.value(&["trainer_name"]).and_then(|name| name.as_str().map(str::to_owned)).as_deref(),
        Some("nnUNetTrainer")
    );
    let (_, bytes) = checkpoint_file(&open_run(run).expect("a run"), "best").expect("weights");
    let ours = SafeTensors::deserialize(&bytes).expect("whole");
    let theirs = dict.to_bytes().expect("weights");
    let theirs = SafeTensors::deserialize(&theirs).expect("whole");
    assert_eq!(ours.len(), theirs.len());
    for (name, view) in ours.tensors() {
        let other = theirs.tensor(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(view.shape() == other.shape() && view.data() == other.data(), "{name}");
    }
    let predictor = NnunetPredictor::open(model, &NnunetOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let case = predictor.cases(&data.join("imagesTr")).expect("cases").remove(0);
    let found = predictor.predict(&case, previous).unwrap_or_else(|error| panic!("{error}"));
    let path = model.with_extension("nii.gz");
    found.write(&path).expect("written");
    overlap(&labels_in(&path), &labels_in(&data.join(format!("truth/{}.nii.gz", case.name))))
}

fn labels_in(path: &Path) -> Vec<f32> {
    hearth_data::nifti::read_nifti_values(path).expect("labels").1
}

/// The Dice of all labels together.
fn overlap(found: &[f32], truth: &[f32]) -> f64 {
    let both = found.iter().zip(truth).filter(|(a, b)| **a > 0.0 && a == b).count();
    let each: usize = [found, truth].map(|map| map.iter().filter(|label| **label > 0.0).count()).iter().sum();
    2.0 * both as f64 / each as f64
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(|_| ()).expect("a copy") }
    }
}
