//! Pipelines: recipes, checks before the first case, errors with case and step, inversion,
//! determinism.

use std::collections::BTreeMap;

use hearth_image::spatial::PadMode;
use hearth_image::{Affine, Image, affine, host_device};
use hearth_registry::Document;
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, RecipeOptions, Sample, Transform, Value};
use proptest::prelude::*;

const SPLEEN: &str = r#"
[[transforms]]
name = "LoadImaged"
keys = ["image", "label"]

[[transforms]]
name = "EnsureChannelFirst"
keys = ["image", "label"]

[[transforms]]
name = "Orientation"
keys = ["image", "label"]
axcodes = "RAS"

[[transforms]]
name = "Range"
range = "resample"
transform = { name = "Spacing", keys = ["image", "label"], pixdim = [1.5, 1.5, 2.0], mode = ["bilinear", "nearest"] }

[[transforms]]
name = "ScaleIntensityRange"
keys = "image"
a_min = -57
a_max = 164
b_min = 0.0
b_max = 1.0
clip = true

[[transforms]]
name = "CropForeground"
keys = ["image", "label"]
source_key = "image"
allow_smaller = true

[[transforms]]
name = "FgBgToIndices"
keys = "label"
image_key = "image"

[[transforms]]
name = "EnsureType"
keys = ["image", "label"]
device = "run"

[[transforms]]
name = "RandCropByPosNegLabel"
keys = ["image", "label"]
label_key = "label"
spatial_size = [96, 96, 96]
num_samples = 4
fg_indices_key = "label_fg"
bg_indices_key = "label_bg"
"#;

#[test]
fn the_spleen_recipe_is_understood() {
    let pipeline = Pipeline::from_toml(SPLEEN).expect("a sound recipe");
    assert_eq!((pipeline.len(), pipeline.split()), (9, 8));
    assert_eq!(pipeline.input_keys(), ["image", "label"]);
    let described = pipeline.describe();
    assert_eq!(described[3]["transform"]["pixdim"], serde_json::json!([1.5, 1.5, 2.0]));
    assert_eq!(described[4]["a_min"], -57.0);
    assert_eq!(described[8]["pos"], 1.0);
}

#[test]
fn builders_and_recipes_say_the_same() {
    let built: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(["image", "label"])),
        Box::new(RandFlip::new(["image", "label"]).prob(0.5).spatial_axis(Some(0_i64.into()))),
        Box::new(RandScaleIntensity::new("image", 0.1).prob(1.0)),
    ];
    let built = Pipeline::new(built).expect("sound");
    let read = Pipeline::from_toml(
        "[[transforms]]\nname='LoadImage'\nkeys=['image','label']\n[[transforms]]\nname='RandFlip'\nkeys=['image','label']\nprob=0.5\nspatial_axis=0\n[[transforms]]\nname='RandScaleIntensity'\nkeys='image'\nfactors=0.1\nprob=1.0\n",
    )
    .expect("sound");
    assert_eq!(built.describe(), read.describe());
}

#[test]
fn a_pipeline_for_prediction_drops_the_label() {
    let document = Document::parse("spleen", SPLEEN).expect("sound TOML");
    let options = RecipeOptions { keys: Some(vec!["image".to_owned()]), ..RecipeOptions::default() };
    let pipeline = Pipeline::from_nodes_with(&document.find("transforms").items()[..6], &options).expect("sound");
    assert_eq!(pipeline.len(), 6);
    assert_eq!(pipeline.describe()[3]["transform"]["mode"], serde_json::json!(["bilinear"]));
}

#[test]
fn recipe_mistakes_are_told_with_their_place() {
    let after = |bad: &str| {
        let text = format!("# a comment\n[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\", \"label\"]\n{bad}");
        let fault = Pipeline::from_toml(&text).expect_err("a mistake");
        let text = fault.to_string();
        let mut place = text.split(':').skip(1).filter_map(|part| part.parse::<usize>().ok());
        (text.clone(), fault.suggestion, place.next().zip(place.next()))
    };
    let (text, suggestion, place) = after("[[transforms]]\nname = \"Spacng\"\nkeys = \"image\"\n");
    assert!(text.contains("unknown transform \"Spacng\""), "{text}");
    assert_eq!((suggestion.as_deref(), place), (Some("Spacing"), Some((6, 8))));
    let (text, suggestion, place) = after("[[transforms]]\nname = \"Spacing\"\nkeys = \"image\"\npixdm = 1.0\n");
    assert!(text.contains("pixdm"), "{text}");
    assert_eq!((suggestion.as_deref(), place), (Some("pixdim"), Some((8, 1))));
    let (text, suggestion, _) = after("[[transforms]]\nname = \"NormalizeIntensity\"\nkeys = \"imag\"\n");
    assert!(text.contains("imag") && text.contains("label"), "{text}");
    assert_eq!(suggestion.as_deref(), Some("image"));
    let (text, _, place) = after("[[transforms]]\nname = \"RandFlip\"\nkeys = \"image\"\n  prob = 1.5\n");
    assert!(text.contains("1.5 is not a probability"), "{text}");
    assert_eq!(place, Some((8, 10)));
    let (text, _, _) = after("[[transforms]]\nname = \"Spacing\"\nkeys = \"image\"\npixdim = 1.0\nmode = 7\n");
    assert!(text.contains("Spacing"), "{text}");
    let (text, _, _) = after("[[transforms]]\nname='Spacing'\nkeys=['image','label']\npixdim=1.0\nmode=['nearest']\n");
    assert!(text.contains("1 entries for 2 keys"), "{text}");
    let (text, _, _) = after("[[transforms]]\nname='Orientation'\nkeys='image'\naxcodes='RAX'\n");
    assert!(text.contains("RAX"), "{text}");
    let (text, _, _) = after(
        "[[transforms]]\nname='RandCropByPosNegLabel'\nkeys='image'\nlabel_key='label'\nspatial_size=8\npos=0\nneg=0\n",
    );
    assert!(text.contains("pos"), "{text}");
}

fn tilted() -> Affine {
    let (s, c) = 0.2_f64.sin_cos();
    [[-1.1, 0.0, 0.0, 30.0], [0.0, 0.9 * c, -2.2 * s, -12.0], [0.0, 0.9 * s, 2.2 * c, 4.0], affine::IDENTITY[3]]
}

/// A smooth image, so that resampling there and back loses little.
fn smooth(shape: [usize; 3], affine: Affine) -> Image {
    let [nx, ny, nz] = shape;
    let mut values = Vec::new();
    for x in 0..nx {
        for y in 0..ny {
            for z in 0..nz {
                values.push(((x as f32 * 0.2).sin() + (y as f32 * 0.15).cos() + z as f32 * 0.05) * 10.0 + 30.0);
            }
        }
    }
    Image::from_values(values, [1, nx, ny, nz], affine, &host_device())
}

fn run(steps: Vec<Box<dyn Transform>>, sample: Sample) -> Vec<Sample> {
    Pipeline::new(steps).expect("sound").run(sample, DrawKey::new(3, 1, 0)).expect("it runs")
}

#[test]
fn an_error_names_case_file_step_shape_spacing() {
    let mut image = smooth([10, 12, 6], tilted());
    image.meta.path = Some("/data/case_7.nii.gz".into());
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(NormalizeIntensity::new("image")),
        Box::new(RandCropByPosNegLabel::new("image", "image", [4, 20, 4])),
    ];
    let pipeline = Pipeline::new(steps).expect("sound");
    let error =
        pipeline.run(Sample::new("case_7").with_image("image", image), DrawKey::new(0, 0, 0)).expect_err("small");
    let text = error.to_string();
    for part in
        ["case_7", "step 2 of 2", "RandCropByPosNegLabel", "/data/case_7.nii.gz", "10 x 12 x 6", "1.1000", "SpatialPad"]
    {
        assert!(text.contains(part), "no {part} in: {text}");
    }
    assert!(text.lines().count() <= 12, "{text}");
}

#[test]
fn a_crop_to_nothing_says_so() {
    let dark = Image::from_values(vec![0.0; 64], [1, 4, 4, 4], affine::IDENTITY, &host_device());
    let pipeline = Pipeline::new(CropForeground::new("image", "image")).expect("sound");
    let error =
        pipeline.run(Sample::new("x").with_image("image", dark.clone()), DrawKey::new(0, 0, 0)).expect_err("dark");
    assert!(error.to_string().contains("> 0"), "{error}");
    let allowed: Vec<Box<dyn Transform>> = vec![Box::new(CropForeground::new("image", "image").allow_empty(true))];
    let out = run(allowed, Sample::new("x").with_image("image", dark));
    assert_eq!(out[0].image("image").expect("an image").shape(), [0, 0, 0]);
}

#[test]
fn a_case_without_foreground_gives_background_crops() {
    let image = smooth([9, 9, 9], affine::IDENTITY);
    let label = Image::from_values(vec![0.0; 729], [1, 9, 9, 9], affine::IDENTITY, &host_device());
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(FgBgToIndices::new("label").image_key(Some("image".to_owned()))),
        Box::new(
            RandCropByPosNegLabel::new(["image", "label"], "label", 4)
                .num_samples(3_usize)
                .fg_indices_key(Some("label_fg".to_owned()))
                .bg_indices_key(Some("label_bg".to_owned())),
        ),
    ];
    let out = run(steps, Sample::new("x").with_image("image", image).with_image("label", label));
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|s| s.image("label").expect("a label").shape() == [4, 4, 4]));
    assert!(out.iter().all(|s| !s.values.contains_key("label_fg")));
}

#[test]
fn a_prediction_returns_to_the_inputs_grid() {
    let input = smooth([20, 18, 14], tilted());
    let (original, shape) = (input.to_vec(), input.shape());
    let mut sample = Sample::new("x").with_image("image", input);
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(Orientation::new("image", "RAS")),
        Box::new(Spacing::new("image", [0.8, 0.7, 1.6])),
        Box::new(CropForeground::new("image", "image").select_fn(25.0).margin(4_usize)),
        Box::new(SpatialPad::new("image", [40, 40, 40])),
    ];
    let pipeline = Pipeline::new(steps).expect("sound");
    sample = pipeline.run(sample, DrawKey::new(0, 0, 0)).expect("it runs").remove(0);
    let forward = sample.image("image").expect("an image").clone();
    assert_eq!(forward.orientation(), "RAS");
    let mut prediction = forward.clone();
    prediction.meta.applied.clear();
    let back = pipeline.invert(prediction, &forward, false).expect("it inverts");
    assert_eq!(back.shape(), shape);
    assert!(affine::distance(&back.affine, &tilted()) < 1e-9);
    // Inside the crop the values return, up to interpolation.
    let far =
        original.iter().zip(back.to_vec()).filter(|(a, _)| **a > 27.0).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 0.6, "{far}");
    let wrong = pipeline.invert(smooth([3, 3, 3], tilted()), &forward, true).expect_err("another shape");
    assert!(wrong.to_string().contains("[3, 3, 3]"), "{wrong}");
}

#[test]
fn draws_depend_on_the_key_only() {
    let steps = || -> Vec<Box<dyn Transform>> {
        vec![
            Box::new(RandFlip::new("image").prob(0.5)),
            Box::new(RandRotate90::new("image").prob(0.7)),
            Box::new(RandScaleIntensity::new("image", 0.3).prob(1.0)),
            Box::new(RandShiftIntensity::new("image", 0.5).prob(1.0)),
            Box::new(RandGaussianNoise::new("image").prob(1.0)),
        ]
    };
    let pipeline = Pipeline::new(steps()).expect("sound");
    let values = |case: &str, epoch: u64| {
        let sample = Sample::new(case).with_image("image", smooth([6, 6, 6], affine::IDENTITY));
        let out = pipeline.run(sample, DrawKey::new(9, epoch, 0)).expect("it runs");
        out[0].image("image").expect("an image").to_vec()
    };
    assert_eq!(values("a", 1), values("a", 1));
    assert_ne!(values("a", 1), values("a", 2));
    assert_ne!(values("a", 1), values("b", 1));
}

#[test]
fn random_parameters_stay_in_their_range() {
    let mut factors = Vec::new();
    let (mut flipped, mut offsets) = (0, Vec::new());
    for epoch in 0..400 {
        let one = || Image::from_values(vec![1.0, 2.0], [1, 2, 1, 1], affine::IDENTITY, &host_device());
        let sample = Sample::new("x").with_image("a", one()).with_image("b", one()).with_image("c", one());
        let steps: Vec<Box<dyn Transform>> = vec![
            Box::new(RandScaleIntensity::new("a", 0.1).prob(1.0)),
            Box::new(RandShiftIntensity::new("b", [0.2, -0.4]).prob(1.0)),
            Box::new(RandFlip::new("c").prob(0.25).spatial_axis(Some(0_i64.into()))),
        ];
        let out = Pipeline::new(steps).expect("sound").run(sample, DrawKey::new(0, epoch, 0)).expect("it runs");
        factors.push(out[0].image("a").expect("an image").to_vec()[0]);
        offsets.push(out[0].image("b").expect("an image").to_vec()[0] - 1.0);
        flipped += usize::from(out[0].image("c").expect("an image").to_vec()[0] == 2.0);
    }
    assert!(
        factors.iter().all(|f| (0.9..1.1).contains(f))
            && factors.iter().any(|f| *f < 0.92)
            && factors.iter().any(|f| *f > 1.08)
    );
    assert!(
        offsets.iter().all(|o| (-0.4001..0.2).contains(o))
            && offsets.iter().any(|o| *o < -0.35)
            && offsets.iter().any(|o| *o > 0.15)
    );
    assert!((70..130).contains(&flipped), "{flipped} of 400 flipped");
}

#[test]
fn an_image_not_loaded_is_an_error() {
    let pipeline = Pipeline::new(NormalizeIntensity::new("image")).expect("sound");
    let sample =
        Sample { case: "x".to_owned(), values: BTreeMap::from([("image".to_owned(), Value::Path("a.nii".into()))]) };
    let error = pipeline.run(sample, DrawKey::new(0, 0, 0)).expect_err("a path");
    assert!(error.to_string().contains("not loaded"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Inverting any sequence of exact spatial steps returns the original image.
    #[test]
    fn exact_steps_are_undone_exactly(
        shape in (2usize..9, 2usize..9, 2usize..9), code in 0usize..4, k in 0usize..4, axes in 0usize..3, epoch in 0u64..1000,
    ) {
        let input = smooth([shape.0, shape.1, shape.2], tilted());
        let steps: Vec<Box<dyn Transform>> = vec![
            Box::new(Orientation::new("image", ["RAS", "LPS", "ASL", "IPR"][code])),
            Box::new(SpatialPad::new("image", [9, 7, 10])),
            Box::new(RandFlip::new("image").prob(0.5)),
            Box::new(RandRotate90::new("image").prob(1.0).max_k(1 + k as u64).spatial_axes([[0, 1], [1, 2], [2, 0]][axes])),
        ];
        let sample = Sample::new("x").with_image("image", input.clone());
        let out = Pipeline::new(steps).expect("sound").run(sample, DrawKey::new(1, epoch, 0)).expect("it runs");
        let mut image = out[0].image("image").expect("an image").clone();
        // Every voxel keeps its place: the corner's world position is that of the padded input's
        // corner.
        while !image.meta.applied.is_empty() {
            image = image.undo_last(false).expect("it inverts");
        }
        prop_assert_eq!(image.to_vec(), input.to_vec());
        prop_assert!(affine::distance(&image.affine, &input.affine) < 1e-9);
    }

    /// A linear ramp in world coordinates is reproduced by linear resampling wherever the source
    /// covers it.
    #[test]
    fn resampling_keeps_a_ramp_in_place(pixdim in prop::array::uniform3(0.6f64..3.0), gradient in prop::array::uniform3(-1.0f64..1.0)) {
        let grid = tilted();
        let shape = [12, 11, 9];
        let ramp = |at: [f64; 3]| (gradient[0] * at[0] + gradient[1] * at[1] + gradient[2] * at[2]) as f32;
        let mut values = Vec::new();
        for x in 0..shape[0] {
            for y in 0..shape[1] {
                for z in 0..shape[2] {
                    values.push(ramp(affine::apply(&grid, [x as f64, y as f64, z as f64])));
                }
            }
        }
        let image = Image::from_values(values, [1, shape[0], shape[1], shape[2]], grid, &host_device());
        let out = run(vec![Box::new(Spacing::new("image", pixdim))], Sample::new("x").with_image("image", image));
        let out = out[0].image("image").expect("an image");
        let [nx, ny, nz] = out.shape();
        let spacing = out.spacing();
        for a in 0..3 {
            prop_assert!((spacing[a] - pixdim[a]).abs() < 2e-3, "{spacing:?}");
        }
        let inverse = affine::inverse(&grid).expect("invertible");
        let got = out.to_vec();
        for x in 0..nx {
            for y in 0..ny {
                for z in 0..nz {
                    let world = affine::apply(&out.affine, [x as f64, y as f64, z as f64]);
                    let source = affine::apply(&inverse, world);
                    if (0..3).all(|a| source[a] >= 0.0 && source[a] <= shape[a] as f64 - 1.0) {
                        let value = got[(x * ny + y) * nz + z];
                        prop_assert!((value - ramp(world)).abs() < 1e-3, "{value} for {}", ramp(world));
                    }
                }
            }
        }
    }
}

#[test]
fn random_steps_that_go_through_the_host_are_named_once() {
    let indices = |key: &str| Some(format!("label_{key}"));
    let crop = || RandCropByPosNegLabel::new(["image", "label"], "label", 8);
    let listed = crop().fg_indices_key(indices("fg")).bg_indices_key(indices("bg"));
    let through = |steps: Vec<Box<dyn Transform>>| Pipeline::new(steps).expect("sound").random_through_host();
    let first = || Box::new(RandFlip::new("image")) as Box<dyn Transform>;
    // The steps before the first random step run once.
    let median = || Box::new(MedianSmooth::new("image")) as Box<dyn Transform>;
    assert!(through(vec![median(), Box::new(FgBgToIndices::new("label")), Box::new(listed), first()]).is_empty());
    assert_eq!(through(vec![median(), Box::new(crop())]), ["RandCropByPosNegLabel"]);
    let twice = vec![first(), median(), Box::new(RandGibbsNoise::new("image")), median()];
    assert_eq!(through(twice), ["MedianSmooth", "RandGibbsNoise"]);
    assert_eq!(through(vec![first(), Box::new(Range::new("a span", MedianSmooth::new("image")))]), ["MedianSmooth"]);
    let pad = |mode| SpatialPad::new("image", 8).mode(mode);
    assert!(!pad(PadMode::Reflect).through_host() && pad(PadMode::Median).through_host());
    let holes = RandCoarseDropout::new("image", 1, 2);
    assert!(!holes.clone().through_host() && holes.dropout_holes(false).through_host());
}
