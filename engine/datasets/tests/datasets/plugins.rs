//! Components of plugins in pipelines, loaders, layouts and writers, by stand-ins for loaded plugins.

use std::path::Path;
use std::sync::{Arc, Once};

use hearth_datasets::layouts::{Layout, Target, Wants};
use hearth_datasets::{
    CacheDataset, CacheOptions, DataLoader, Dataset, Item, LoaderOptions, Sampler, SamplerConfig, TransformDataset,
};
use hearth_image::{Applied, Image, affine};
use hearth_registry::component::{self, Answer, Component, ComponentKind, HostArray, Network};
use hearth_registry::{Fault, Node, Registry};
use hearth_transforms::{DrawKey, Pipeline, Sample, tiny};
use serde_json::{Value, json};

/// A component by its name, with the value of its option `n`.
struct Fake(String, usize);

fn plane(image: &HostArray<'_>) -> usize {
    image.shape[2] * image.shape[3]
}

/// Every `step`th voxel along x, from `first` on, `count` of them.
fn picked(image: &HostArray<'_>, first: usize, step: usize, count: usize) -> HostArray<'static> {
    let (length, plane) = (image.shape[1], plane(image));
    let mut values = Vec::new();
    for channel in image.values.chunks(length * plane) {
        (0..count).for_each(|i| values.extend_from_slice(&channel[(first + i * step) * plane..][..plane]));
    }
    let mut shape = image.shape.clone();
    shape[1] = count;
    let mut grid = image.affine;
    for row in grid.iter_mut().take(3) {
        row[3] += row[0] * first as f64;
        row[0] *= step as f64;
    }
    HostArray { shape, values: values.into(), affine: grid }
}

impl Component for Fake {
    fn run(&self, _: &[HostArray<'_>], _: &str) -> Result<Vec<HostArray<'static>>, String> {
        Err("only operations".to_owned())
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        _: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        let text: Value = serde_json::from_str(text).unwrap_or_default();
        let Fake(name, n) = self;
        let say = |text: Value| Ok(Answer { arrays: Vec::new(), text: text.to_string() });
        let arrays = |arrays: Vec<HostArray<'static>>| Ok(Answer { arrays, text: String::new() });
        match (name.as_str(), operation) {
            ("Drawn", "abilities") => say(json!({ "random": true })),
            ("Own" | "Wrong", "abilities") => say(json!({ "invertible": true })),
            ("Xyz", "abilities") => say(json!({ "endings": [".xyz"] })),
            (_, "abilities") => say(json!({})),
            ("Crop", _) => arrays(inputs.iter().map(|image| picked(image, *n, 1, image.shape[1] - 2 * n)).collect()),
            ("Thin", _) => {
                arrays(inputs.iter().map(|image| picked(image, 0, *n, image.shape[1].div_ceil(*n))).collect())
            }
            ("Drawn", _) => {
                let draw = text["draw"].as_u64().ok_or("a draw is expected")?;
                let first = |image: &HostArray<'_>| (draw % (image.shape[1] as u64 - 1)) as usize;
                arrays(inputs.iter().map(|image| picked(image, first(image), 1, 2)).collect())
            }
            ("Own" | "Wrong", "apply") => {
                let arrays = inputs.iter().map(|image| picked(image, 0, 1, 1)).collect();
                Ok(Answer { arrays, text: json!({ "state": format!("kept of {}", text["keys"]) }).to_string() })
            }
            ("Own", "invert") => {
                assert_eq!((&text["state"], &text["key"]), (&json!("kept of [\"image\"]"), &json!("image")));
                let shape: Vec<usize> = serde_json::from_value(text["shape"].clone()).map_err(|e| e.to_string())?;
                let value = if text["nearest"] == true { 7.0 } else { 6.5 };
                let (channels, count) = (inputs[0].shape[0], shape.iter().product::<usize>());
                HostArray::new([&[channels], &shape[..]].concat(), vec![value; channels * count])
                    .and_then(|array| arrays(vec![array]))
            }
            ("Lost", _) => arrays(Vec::new()),
            ("Flat", _) => HostArray::new(vec![3], vec![0.0; 3]).and_then(|array| arrays(vec![array])),
            ("Bent", _) => {
                let mut image = picked(&inputs[0], 0, 1, 1);
                image.affine[1] = image.affine[0];
                arrays(vec![image])
            }
            ("Hard", _) => {
                let cases: Vec<String> = serde_json::from_value(text["cases"].clone()).map_err(|e| e.to_string())?;
                let loss = |index: &usize| text["losses"][&cases[*index]].as_f64().unwrap_or(f64::INFINITY);
                let mut order: Vec<usize> = (0..cases.len()).collect();
                order.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
                say(json!({ "order": order }))
            }
            ("Beyond", _) => say(json!({ "order": [0, 99] })),
            ("Grows", _) => say(json!({ "order": vec![0; 1 + text["epoch"].as_u64().unwrap_or(0) as usize] })),
            ("Ward", _) => say(json!({
                "labels": { "1": "lesion" },
                "modalities": ["T1w", "FLAIR"],
                "validation": ["b"],
                "cases": [
                    { "name": "a", "image": ["a1.nii", "a2.nii"], "label": "a3.nii", "fields": { "age": 40, "site": "x" } },
                    { "name": "b", "image": ["b1.nii", "b2.nii"], "label": "a3.nii" },
                    { "name": "c", "image": ["a1.nii", "a2.nii"] },
                ],
            })),
            ("Xyz", "write") => {
                let path = Path::new(text["path"].as_str().ok_or("a path is expected")?).to_owned();
                let values = inputs[0].values.iter().map(|value| format!("{value} ")).collect::<String>();
                std::fs::write(&path, format!("{}: {values}", text["case"])).map_err(|e| e.to_string())?;
                std::fs::write(path.with_extension("side"), "next to it").map_err(|e| e.to_string())?;
                Ok(Answer::default())
            }
            _ => Err(format!("{name} does not {operation}")),
        }
    }

    fn version(&self) -> String {
        "fake 0.1.0".to_owned()
    }
}

/// Lets recipes name the components above as `fake.NAME`.
fn provide() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        component::provide(Arc::new(|kinds: &[ComponentKind], name: &str, options: &Node| {
            let name = name.strip_prefix("fake.").ok_or_else(|| Fault::new("another plugin"))?;
            let n = options.get("n").and_then(|n| hearth_registry::read(n).ok()).unwrap_or(0);
            let kind = kinds.last().copied().ok_or_else(|| Fault::new("no kind"))?;
            Ok((kind, Arc::new(Fake(name.to_owned(), n)) as Arc<dyn Component>))
        }));
    });
}

fn pipeline(steps: &str) -> Pipeline {
    provide();
    Pipeline::from_toml(&format!("transforms = [{steps}]")).unwrap_or_else(|fault| panic!("{fault}"))
}

fn ran(steps: &Pipeline, image: Image) -> Image {
    let sample = Sample::new("case").with_image("image", image);
    steps.run(sample, DrawKey::new(0, 0, 0)).expect("no error").remove(0).take_image("image").expect("an image")
}

#[test]
fn a_crop_of_a_plugin_is_undone_as_a_built_in_one() {
    let tilted = [[0.0, 2.0, 0.0, 5.0], [1.5, 0.0, 0.0, -3.0], [0.0, 0.0, 3.0, 9.0], affine::IDENTITY[3]];
    let image = || Image::new(tiny::ramp([2, 6, 3, 2]).data, tilted);
    let plugin = pipeline("{ name = 'fake.Crop', keys = 'image', n = 1 }");
    let own = pipeline("{ name = 'SpatialCrop', keys = 'image', roi_start = [1, 0, 0], roi_end = [5, 3, 2] }");
    let (cropped, expected) = (ran(&plugin, image()), ran(&own, image()));
    assert_eq!((cropped.to_vec(), cropped.affine), (expected.to_vec(), expected.affine));
    for nearest in [true, false] {
        // A prediction has other channels.
        let prediction = Image { data: tiny::ramp([3, 4, 3, 2]).data, ..cropped.clone() };
        let back = plugin.invert(prediction.clone(), &cropped, nearest).expect("it is undone");
        let expected = own.invert(prediction, &expected, nearest).expect("it is undone");
        assert_eq!((back.shape(), back.affine), ([6, 3, 2], image().affine));
        let apart = back.to_vec().iter().zip(expected.to_vec()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{:?} {:?}", back.to_vec(), expected.to_vec());
    }
}

#[test]
fn another_voxel_size_is_undone_up_to_the_edges() {
    let thin = pipeline("{ name = 'fake.Thin', keys = 'image', n = 3 }");
    let image = tiny::line([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let thinned = ran(&thin, image);
    assert_eq!((thinned.to_vec(), thinned.spacing()[0]), (vec![0.0, 3.0, 6.0], 3.0));
    let back = |nearest| thin.invert(thinned.clone(), &thinned, nearest).expect("it is undone").to_vec();
    assert_eq!(back(true), [0.0, 0.0, 3.0, 3.0, 3.0, 6.0, 6.0, 6.0]);
    // Linear, and beyond the last voxel its value.
    let linear = back(false);
    let expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0];
    assert!(linear.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{linear:?}");
}

#[test]
fn an_inverse_of_its_own_is_called_also_for_an_image_of_a_cache() {
    let steps = pipeline("{ name = 'fake.Own', keys = 'image' }, { name = 'Flip', keys = 'image' }");
    let mut image = ran(&steps, tiny::ramp([1, 4, 2, 1]));
    // As a cache on disk keeps it.
    let kept = serde_json::to_string(&image.meta.applied).expect("it is written");
    image.meta.applied = serde_json::from_str(&kept).expect("it is read");
    assert!(matches!(image.meta.applied[0], Applied::Foreign { .. }));
    for (nearest, value) in [(true, 7.0), (false, 6.5)] {
        let back = steps.invert(image.clone(), &image, nearest).expect("it is undone");
        assert_eq!((back.shape(), back.to_vec()), ([4, 2, 1], vec![value; 8]));
    }
    // Without the plugin it is sampled back.
    let sampled = image.undo_last(true).and_then(|image| image.undo_last(true)).expect("it is undone");
    assert_eq!(sampled.shape(), [4, 2, 1]);
    let wrong = pipeline("{ name = 'fake.Wrong', keys = 'image' }");
    let image = ran(&wrong, tiny::ramp([1, 4, 2, 1]));
    let error = wrong.invert(image.clone(), &image, true).expect_err("it has none").to_string();
    assert!(error.contains("fake.Wrong") && error.contains("Wrong does not invert"), "{error}");
}

#[test]
fn a_random_step_draws_by_epoch_and_case_and_is_not_cached() {
    let steps = pipeline(
        "{ name = 'fake.Crop', keys = ['image', 'label'], n = 1 }, { name = 'fake.Drawn', keys = ['image', 'label'] }",
    );
    assert_eq!((steps.split(), steps.without_random().len()), (1, 1));
    let sample = || {
        let image = tiny::image([1, 40, 1, 1], (0..40).map(|i| i as f32).collect::<Vec<f32>>());
        Sample::new("case").with_image("image", image.clone()).with_image("label", image)
    };
    let drawn = |epoch: u64| {
        let made = steps.run(sample(), DrawKey::new(3, epoch, 0)).expect("no error").remove(0);
        let (image, label) = (made.image("image").expect("an image"), made.image("label").expect("an image"));
        assert_eq!(image.to_vec(), label.to_vec(), "one draw for all keys");
        image.to_vec()[0]
    };
    let places: Vec<f32> = (0..20).map(drawn).collect();
    assert_eq!(places, (0..20).map(drawn).collect::<Vec<_>>());
    let distinct: std::collections::BTreeSet<u32> = places.iter().map(|place| place.to_bits()).collect();
    assert!(distinct.len() > 8, "{places:?}");
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.nii");
    hearth_io::write_nifti(&path, &tiny::ramp([1, 40, 2, 2]), hearth_io::NiftiOptions::default()).expect("written");
    let steps = pipeline(
        "{ name = 'LoadImage', keys = 'image' }, { name = 'EnsureChannelFirst', keys = 'image' }, \
         { name = 'fake.Drawn', keys = 'image' }",
    );
    let items = vec![Item::new("a").with("image", &path)];
    let cached = CacheDataset::new(items.clone(), steps.clone(), CacheOptions::default()).expect("cached");
    let plain = TransformDataset::new(items, steps).expect("sound");
    let values = |dataset: &dyn Dataset, epoch| {
        dataset.get(0, epoch).expect("a sample")[0].image("image").expect("an image").to_vec()
    };
    (0..6).for_each(|epoch| assert_eq!(values(&cached, epoch), values(&plain, epoch)));
    assert!((1..6).any(|epoch| values(&cached, epoch) != values(&cached, 0)));
}

#[test]
fn what_a_plugin_returns_is_checked_with_case_and_step() {
    for (name, words) in [
        ("Lost", ["returned 0 images", "expected: 1, one for each key"]),
        ("Flat", ["returned an array of shape [3]", "expected: an image [C, X, Y, Z]"]),
        ("Bent", ["returned an image with the affine", "axes that are not in one plane"]),
        ("Other", ["the plugin reports: Other does not apply", "shape 2 x 1 x 1"]),
    ] {
        let steps = pipeline(&format!("{{ name = 'fake.{name}', keys = 'image' }}"));
        let sample = Sample::new("patient 7").with_image("image", tiny::line([1.0, 2.0]));
        let error = steps.run(sample, DrawKey::new(0, 0, 0)).expect_err("it is refused").to_string();
        for word in words.into_iter().chain(["patient 7", &format!("(fake.{name})")]) {
            assert!(error.contains(word), "{name}: {word:?} in {error}");
        }
    }
}

fn sampler(name: &str, cases: &[&str]) -> Result<Box<dyn Sampler>, Fault> {
    provide();
    let config = Registry::<dyn SamplerConfig>::new().build(&Node::named(name)).expect("it is loaded later");
    let items: Vec<Item> = cases.iter().map(|case| Item::new(*case)).collect();
    config.sampler(&items, 1, 5)
}

#[test]
fn a_sampler_of_a_plugin_prefers_hard_cases() {
    let hard = sampler("fake.Hard", &["a", "b", "c"]).expect("sound");
    let losses = hard.losses().expect("it depends on losses").clone();
    assert_eq!((hard.len(), hard.order(0)), (3, vec![0, 1, 2]));
    for (case, loss) in [("a", 0.1), ("b", 0.9), ("c", 0.5)] {
        losses.note(case, loss);
    }
    // The epoch that has begun keeps its order.
    assert_eq!((hard.order(0), hard.order(1)), (vec![0, 1, 2], vec![1, 2, 0]));
    let steps = Pipeline::default();
    let items = ["a", "b", "c"].map(Item::new).to_vec();
    let dataset = TransformDataset::new(items.clone(), steps).expect("sound");
    let options = LoaderOptions { batch_size: 2, ..LoaderOptions::default() };
    let loader = DataLoader::new(dataset, options.clone()).expect("sound").with_sampler(hard);
    assert_eq!(loader.len(), 2);

    let fault = sampler("fake.Beyond", &["a", "b"]).err().expect("no such case");
    let fault = fault.to_string();
    assert!(fault.contains("before the first epoch") && fault.contains("index 99: expected less than 2"), "{fault}");
    let grows = sampler("fake.Grows", &["a"]).expect("one case in the first epoch");
    let dataset = TransformDataset::new(items, Pipeline::default()).expect("sound");
    let loader = DataLoader::new(dataset, options).expect("sound").with_sampler(grows);
    let mut epoch = loader.epoch(3, 0);
    let error = epoch.next().expect("an error").expect_err("four cases").to_string();
    assert!(error.contains("fake.Grows, epoch 3: the plugin returned 4 cases: expected 1, as before"), "{error}");
    assert!(epoch.next().is_none());
}

#[test]
fn a_layout_of_a_plugin_lists_cases_in_the_form_of_the_others() {
    provide();
    let dir = tempfile::tempdir().expect("a folder");
    for file in ["a1.nii", "a2.nii", "a3.nii", "b1.nii"] {
        std::fs::write(dir.path().join(file), "").expect("written");
    }
    let layout = Registry::<dyn Layout>::new().build(&Node::named("fake.Ward")).expect("it is loaded later");
    assert!(!layout.fits(dir.path()));
    let wants = Wants { target: Target::label(), keep_lacking: true, ..Wants::default() };
    let list = layout.read(dir.path(), &wants).expect("two cases");
    let names = |items: &[Item]| items.iter().map(|item| item.case.clone()).collect::<Vec<_>>();
    assert_eq!((names(&list.labelled), names(&list.unlabelled)), (vec!["a".to_owned()], vec!["c".to_owned()]));
    let parts = &list.labelled[0].parts["image"];
    assert_eq!(parts.files, [dir.path().join("a1.nii"), dir.path().join("a2.nii")]);
    assert_eq!(list.labelled[0].files["label"], dir.path().join("a3.nii"));
    assert_eq!((list.labels[&1].as_str(), list.lacking[0].0.as_str()), ("lesion", "b"));
    let error =
        layout.read(dir.path(), &Wants { keep_lacking: false, ..wants.clone() }).expect_err("a file is missing");
    assert!(error.to_string().contains("fake.Ward: cases cannot be used: b: "), "{error}");
    let flair = Wants { images: vec!["FLAIR".to_owned()], ..wants.clone() };
    let list = layout.read(dir.path(), &flair).expect("two cases");
    assert_eq!(list.labelled[0].files["image"], dir.path().join("a2.nii"));
    let other = Wants { target: Target::Image { name: Some("mask".to_owned()) }, ..wants };
    assert!(layout.read(dir.path(), &other).expect_err("one target").to_string().contains("mask"));
}

#[test]
fn a_writer_of_a_plugin_writes_whole_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().to_str().expect("Unicode");
    let step = |more: &str| {
        format!(
            "{{ name = 'SaveImage', keys = 'image', output_dir = '{out}', writer = 'fake.Xyz', output_ext = '.xyz', \
             separate_folder = false{more} }}"
        )
    };
    ran(&pipeline(&step("")), tiny::line([1.0, 2.5]));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect(name);
    assert_eq!((read("case_trans.xyz").as_str(), read("case_trans.side").as_str()), ("\"case\": 1 2.5 ", "next to it"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 2, "nothing unfinished is left");
    // Files next to it are not replaced.
    let sample = Sample::new("case").with_image("image", tiny::line([3.0, 4.0]));
    let error = pipeline(&step("")).run(sample, DrawKey::new(0, 0, 0)).expect_err("a file is there").to_string();
    assert!(error.contains("case_trans.side exists already"), "{error}");
    assert_eq!(read("case_trans.xyz"), "\"case\": 1 2.5 ");
    let refused =
        |steps: &str| Pipeline::from_toml(&format!("transforms = [{steps}]")).expect_err("refused").to_string();
    assert!(refused(&step(", scale = 2.0")).contains("`scale`"));
    assert!(refused(&step("").replace("'.xyz'", "'.nii'")).contains("expected one of .xyz"));
    assert!(refused(&step("").replace("'fake.Xyz'", "'Xyz'")).contains("not the name of a plugin's writer"));
}
