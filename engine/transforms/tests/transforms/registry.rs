//! Every transform that a recipe can name: its example builds, runs and has the same description
//! when it is read again, and the reference describes each parameter.

use hearth_image::{Image, affine, host_device};
use hearth_io::write_image;
use hearth_registry::{Node, Origin, Registry};
use hearth_transforms::transforms::LoadImage;
use hearth_transforms::{DrawKey, Effect, Pipeline, Sample, Transform, Value};

/// A sample with everything that examples name.
pub(super) fn sample(folder: &std::path::Path) -> Sample {
    let image = |values: Vec<f32>, shape| Image::from_values(values, shape, affine::IDENTITY, &host_device());
    let wave = |n: usize| (0..n).map(|i| 0.5 + 0.4 * (i as f32 * 0.37).sin()).collect::<Vec<f32>>();
    let cube = [1, 16, 16, 16];
    let label: Vec<f32> = (0..4096).map(|i| ((i / 256) / 6) as f32).collect();
    let mask: Vec<f32> = (0..4096).map(|i| f32::from((i / 256 > 3) && (i / 256 < 12) && (i % 16 > 2))).collect();
    let path = folder.join("volume.nii.gz");
    write_image(&path, &image(wave(4096), cube), &Default::default()).expect("a file");
    let slide = folder.join("slide.tif");
    let pyramid = hearth_slides::pyramid(&[120; 64 * 64 * 3], 64, 64, &Default::default()).expect("a pyramid");
    std::fs::write(&slide, pyramid).expect("a file");
    let grid: Vec<f32> = (0..4)
        .flat_map(|axis| {
            (0..512).map(move |i| match axis {
                0 => (i / 64) as f32 - 3.5,
                1 => (i / 8 % 8) as f32 - 3.5,
                2 => (i % 8) as f32 - 3.5,
                _ => 1.0,
            })
        })
        .collect();
    Sample::new("case")
        .with_image("image", image(wave(4096), cube))
        .with_image("other", image(wave(4096), cube))
        .with_image("label", image(label, cube))
        .with_image("mask", image(mask, cube))
        .with_image("pred", image(wave(8192), [2, 16, 16, 16]))
        .with_image(
            "rgb",
            image(wave(3 * 256).iter().map(|v| (v * 255.0).round()).collect(), [3, 16, 16, 1]).with_spatial_dims(2),
        )
        .with_image("one", image(wave(256), [1, 16, 16, 1]))
        .with_image("plain", image(wave(4096), cube))
        .with_image("grid", image(grid, [4, 8, 8, 8]))
        .with("path", Value::Path(path))
        .with("slide", Value::Path(slide))
        .with("location", Value::Numbers([20.0, 30.0].into()))
}

#[test]
fn every_example_builds_runs_and_is_read_again_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = Registry::<dyn Transform>::new();
    assert!(registry.entries().len() >= 103, "{} transforms", registry.entries().len());
    for entry in registry.entries() {
        let name = entry.name;
        let table: toml::Table = toml::from_str(entry.example).unwrap_or_else(|error| panic!("{name}: {error}"));
        let node = Node::from_toml(toml::Value::Table(table), &Origin::Unknown).with("name", name);
        let mut node = node;
        if name == "SaveImage" {
            node.insert("output_dir", Node::from(folder.path().display().to_string()));
        }
        let pipeline = Pipeline::from_nodes(&[node.clone()]).unwrap_or_else(|fault| panic!("{fault}"));
        let mut sample = sample(folder.path());
        if name == "Invert" {
            // Inverted images need a history.
            let flip = Pipeline::from_toml("[[transforms]]\nname = 'Flip'\nkeys = 'image'").expect("sound");
            sample = flip.run_deterministic(sample).expect("flipped").remove(0);
        }
        if name == "AddClickSignals" {
            let picture = Image::from_values(vec![0.5; 160 * 160], [1, 160, 160, 1], affine::IDENTITY, &host_device());
            sample = sample.with_image("image", picture.with_spatial_dims(2));
            // Clicks at 10, 10 and 140, 120 relative to the location.
            sample = sample.with("foreground", Value::Numbers([30.0, 40.0, 160.0, 150.0].into()));
        }
        if name.ends_with("DeepEdit") {
            sample = sample.with("spleen", Value::Numbers([2.0, 3.0, 1.0].into()));
            sample = sample.with("guidance", Value::Text(r#"{"spleen": [[2, 3, 1]], "background": []}"#.to_owned()));
        }
        for epoch in 0..4 {
            let key = DrawKey::new(0, epoch, 0);
            let made = match pipeline.steps()[0].mixes_cases() {
                true => pipeline.run_batch(sample.clone(), 1, key),
                false => pipeline.run(sample.clone(), key),
            };
            let made = made.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!made.is_empty(), "{name} gives nothing");
            made.iter().for_each(|after| has_effect(name, &pipeline.steps()[0].effect(), &sample, after));
        }
        if name == "Halve" {
            continue;
        }
        // Its description is a recipe with the same description.
        let described = &pipeline.describe()[0];
        let back: toml::Value = toml::Value::try_from(without_null(described.clone())).expect("TOML");
        let again = Pipeline::from_nodes(&[Node::from(back)]).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(&again.describe()[0], described, "{name}");
        // The table with its defaults is such a recipe, too.
        let whole = registry.complete(&node).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let again = Pipeline::from_nodes(&[whole]).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(&again.describe()[0], described, "{name} with its defaults");
    }
}

/// The declared effect of a transform matches its actual effect on the image.
fn has_effect(name: &str, effect: &Effect, before: &Sample, after: &Sample) {
    let (Ok(before), Ok(after)) = (before.image("image"), after.image("image")) else { return };
    match effect {
        Effect::Nothing => assert_eq!(after.to_vec(), before.to_vec(), "{name} changes nothing"),
        Effect::Values => {
            assert_eq!((after.shape(), after.affine), (before.shape(), before.affine), "{name} keeps the grid");
        }
        Effect::Moves => assert_eq!(after.shape(), before.shape(), "{name} keeps the size"),
        Effect::Sizes { key, size } => {
            let said = |axis: usize| if size.len() == 1 { size[0] } else { size[axis] };
            let fits = (0..3).all(|axis| said(axis) <= 0 || after.shape()[axis] as i64 == said(axis));
            assert!(fits, "{name}: {key} says {size:?}, it makes {:?}", after.shape());
        }
        Effect::Regrids => {}
    }
}

fn without_null(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(fields) => {
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_null(v))).collect()
        }
        serde_json::Value::Array(values) => values.into_iter().map(without_null).collect(),
        other => other,
    }
}

#[test]
fn the_reference_describes_every_transform_and_parameter() {
    let mut silent = Vec::new();
    for entry in Registry::<dyn Transform>::new().entries() {
        let described = entry.describe();
        if described.doc.is_empty() {
            silent.push(described.name.to_owned());
        }
        for parameter in described.parameters {
            if parameter.doc.is_empty() || parameter.kind.contains("any value") {
                silent.push(format!("{}.{}: {}", described.name, parameter.name, parameter.kind));
            }
        }
    }
    assert!(silent.is_empty(), "no documentation of {silent:#?}");
}

#[test]
fn names_of_other_programs_are_understood() {
    for (name, meant) in [("Spacingd", "Spacing"), ("rand_flip", "RandFlip"), ("image_flip", "Flip")] {
        let registry = Registry::<dyn Transform>::new();
        let found = registry.find(name).map(|entry| entry.name);
        if name != "image_flip" {
            assert_eq!(found, Some(meant));
        }
        let table = Node::named(name).with("keys", "image").with("spatial_axis", 1);
        if meant != "Spacing" {
            let built = Pipeline::from_nodes(&[table]).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(built.steps()[0].name(), meant);
        }
    }
}

/// A user-defined transform: a file, a registration, and at most two methods.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Halve {
    /// Keys of the values that are halved.
    key: String,
}

impl Transform for Halve {
    fn name(&self) -> &'static str {
        "Halve"
    }

    fn apply(
        &self,
        mut sample: Sample,
        _: &hearth_transforms::Draw,
    ) -> Result<Vec<Sample>, hearth_image::TransformError> {
        sample.update(&self.key, |mut image| {
            image.data = image.data * 0.5;
            Ok(image)
        })?;
        Ok(vec![sample])
    }
}

hearth_registry::entry!(dyn Transform => Halve, example: "key = \"image\"");

#[test]
fn a_transform_of_ones_own_is_named_in_a_recipe() {
    let pipeline = Pipeline::from_toml("[[transforms]]\nname = 'Halve'\nkey = 'image'").expect("registered");
    let image = Image::from_values(vec![4.0], [1, 1, 1, 1], affine::IDENTITY, &host_device());
    let made = pipeline.run_deterministic(Sample::new("x").with_image("image", image)).expect("it runs");
    let values: Vec<f32> = made[0].image("image").expect("an image").data.clone().into_data().iter().collect();
    assert_eq!(values, [2.0]);
    let fault = Pipeline::from_toml("[[transforms]]\nname = 'Halv'\nkey = 'image'").expect_err("misspelt").to_string();
    assert!(fault.contains("did you mean \"Halve\"?"), "{fault}");
}

#[test]
fn built_in_code_with_tuples() {
    let steps = Pipeline::new((LoadImage::new("image"), (Halve { key: "image".into() },))).expect("sound");
    assert_eq!(steps.steps().iter().map(|step| step.name()).collect::<Vec<_>>(), ["LoadImage", "Halve"]);
}
