//! Crops, pads and axes in pipelines: inverses, draws, warnings, bad input.

use std::sync::{Arc, Mutex};

use hearth_image::spatial::PadMode;
use hearth_image::{Affine, Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform, Value};
use proptest::prelude::*;

fn tilted() -> Affine {
    let (s, c) = 0.2_f64.sin_cos();
    [[0.0, -1.1, 0.0, 30.0], [0.9 * c, 0.0, -2.2 * s, -12.0], [0.9 * s, 0.0, 2.2 * c, 4.0], affine::IDENTITY[3]]
}

/// Voxels that are all different, none 0.
fn counting(shape: [usize; 4]) -> Image {
    let values = (0..shape.iter().product::<usize>()).map(|v| v as f32 + 1.0).collect();
    Image::from_values(values, shape, tilted(), &host_device())
}

fn run(steps: Vec<Box<dyn Transform>>, sample: Sample, seed: u64) -> Vec<Sample> {
    Pipeline::new(steps).expect("sound").run(sample, DrawKey::new(seed, 1, 0)).expect("it runs")
}

/// A step without loss of voxels.
fn lossless() -> impl Strategy<Value = fn() -> Box<dyn Transform>> {
    let steps: Vec<fn() -> Box<dyn Transform>> = vec![
        || Box::new(Flip::new("image")),
        || Box::new(Flip::new("image").spatial_axis(Some(1_i64.into()))),
        || Box::new(Rotate90::new("image").spatial_axes([2, 0])),
        || Box::new(Rotate90::new("image").k(-1_i64).spatial_axes([-2, -1])),
        || Box::new(Transpose::new("image", [0, 3, 1, 2])),
        || Box::new(Orientation::new("image", "PIR")),
        || Box::new(RandAxisFlip::new("image").prob(1.0)),
        || Box::new(RandRotate90::new("image").prob(1.0)),
        || Box::new(Pad::new("image", [[0, 0], [1, 0], [2, 3]]).mode(PadMode::Mean)),
        || Box::new(BorderPad::new("image", [0, 2, 1]).mode(PadMode::Reflect)),
        || Box::new(SpatialPad::new("image", [6, 7, 8])),
        || Box::new(DivisiblePad::new("image", 4).method(PadMethod::End)),
    ];
    proptest::sample::select(steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Inverting a chain of lossless steps returns the same voxels, shape and affine.
    #[test]
    fn the_inverse_is_exact(steps in prop::collection::vec(lossless(), 1..7), shape in [1usize..6, 1usize..6, 1usize..6], seed in any::<u64>()) {
        let image = counting([2, shape[0], shape[1], shape[2]]);
        let mut chain: Vec<Box<dyn Transform>> = steps.iter().map(|step| step()).collect();
        chain.push(Box::new(CopyItems::new("image").names(Some("pred".into()))));
        chain.push(Box::new(Invert::new("pred", "image".to_owned())));
        let out = run(chain, Sample::new("x").with_image("image", image.clone()), seed);
        let back = out[0].image("pred").expect("a prediction");
        prop_assert_eq!(back.shape(), shape);
        prop_assert_eq!(back.to_vec(), image.to_vec());
        prop_assert!(affine::distance(&back.affine, &tilted()) < 1e-9);
    }

    /// Inverting random crops puts every voxel back in its place, with zeros around.
    #[test]
    fn crops_return_to_their_place(shape in [2usize..7, 2usize..7, 2usize..7], size in 1i64..6, seed in any::<u64>()) {
        let image = counting([1, shape[0], shape[1], shape[2]]);
        let sample = Sample::new("x").with_image("image", image.clone());
        let chain: Vec<Box<dyn Transform>> = vec![
            Box::new(RandSpatialCropSamples::new("image", size, 3)),
            Box::new(RandFlip::new("image").prob(0.5)),
            Box::new(CenterScaleCrop::new("image", 0.7)),
            Box::new(ResizeWithPadOrCrop::new("image", [4, 3, 9])),
            Box::new(Invert::new("image", "image".to_owned())),
        ];
        for part in run(chain, sample, seed) {
            let back = part.image("image").expect("an image");
            prop_assert_eq!(back.shape(), shape);
            prop_assert!(back.to_vec().iter().zip(image.to_vec()).all(|(a, b)| *a == b || *a == 0.0));
            prop_assert!(back.to_vec().iter().any(|v| *v != 0.0));
        }
    }
}

#[test]
fn a_prediction_is_thresholded_after_it_came_back() {
    let sample =
        Sample::new("x").with_image("image", counting([1, 4, 4, 4])).with_image("other", counting([1, 4, 4, 4]));
    let chain: Vec<Box<dyn Transform>> = vec![
        Box::new(SpatialCrop::between("image", [1, 0, 0], [3, 4, 4])),
        Box::new(CopyItems::new("image").names(Some("pred".into()))),
        Box::new(
            Invert::new("pred", "image".to_owned())
                .post_func(Some("> 40".parse::<hearth_image::Select>().expect("a comparison").into())),
        ),
    ];
    let out = run(chain, sample.clone(), 0);
    let expected: Vec<f32> = (1..=64).map(|v| if (17..=48).contains(&v) && v > 40 { 1.0 } else { 0.0 }).collect();
    assert_eq!(out[0].image("pred").expect("a prediction").to_vec(), expected);
    // A prediction that is not on the image's grid is rejected.
    let chain: Vec<Box<dyn Transform>> = vec![
        Box::new(SpatialCrop::between("image", [1, 0, 0], [3, 4, 4])),
        Box::new(Invert::new("other", "image".to_owned())),
    ];
    let error = Pipeline::new(chain).expect("sound").run(sample, DrawKey::new(0, 0, 0)).expect_err("another shape");
    assert!(error.to_string().contains("[4, 4, 4]"), "{error}");
}

/// Collects warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{}={value:?} ", field.name()));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("not poisoned").push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_case_without_foreground_is_told_once_with_its_file() {
    let mut label = counting([1, 5, 5, 5]);
    label.data = label.data.zeros_like();
    label.meta.path = Some("/data/labels/case_3.nii.gz".into());
    let sample = Sample::new("case_3").with_image("image", counting([1, 5, 5, 5])).with_image("label", label);
    let keys = ["image", "label"];
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(RandCropByPosNegLabel::new(keys, "label", 3).num_samples(2_usize)),
        Box::new(RandCropByLabelClasses::new(keys, "label", 2).num_classes(Some(3))),
        Box::new(RandWeightedCrop::new(keys, "label", 2)),
    ];
    let pipeline = Pipeline::new(steps).expect("sound");
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || {
        for epoch in 0..3 {
            let parts = pipeline.run(sample.clone(), DrawKey::new(0, epoch, 0)).expect("background crops");
            assert!(parts.iter().all(|part| part.shape("image").expect("an image") == [2, 2, 2]));
        }
    });
    let told = warnings.0.lock().expect("not poisoned").clone();
    assert_eq!(told.len(), 3, "{told:#?}");
    for (text, part) in told.iter().zip(["no foreground", "no voxel of class [1, 2]", "all weights"]) {
        assert!(
            text.contains("/data/labels/case_3.nii.gz") && text.contains("case_3") && text.contains(part),
            "{text}"
        );
    }
}

#[test]
fn bad_parameters_are_refused_before_the_first_case() {
    let refused = |step: Box<dyn Transform>| {
        let error = Pipeline::new(vec![step]).expect_err("a mistake");
        error.path.rsplit_once('.').expect("a parameter").1.to_owned()
    };
    assert_eq!(refused(Box::new(Flip::new("image").spatial_axis(Some(3_i64.into())))), "spatial_axis");
    assert_eq!(refused(Box::new(Rotate90::new("image").spatial_axes([1, 1]))), "spatial_axes");
    assert_eq!(refused(Box::new(Transpose::new("image", [1, 0, 2]))), "indices");
    assert_eq!(refused(Box::new(Pad::new("image", [[1, 1], [0, 0]]))), "to_pad");
    assert_eq!(refused(Box::new(BorderPad::new("image", [1, 2, 3, 4, 5]))), "spatial_border");
    assert_eq!(refused(Box::new(SpatialPad::new("image", 4).mode(vec![PadMode::Edge; 2]))), "mode");
    assert_eq!(refused(Box::new(CenterScaleCrop::new("image", f64::NAN))), "roi_scale");
    assert_eq!(refused(Box::new(RandSpatialCropSamples::new("image", 4, 0))), "num_samples");
    // More than the limit of any list of crops: nothing is allocated for them.
    let many = usize::MAX;
    assert_eq!(refused(Box::new(RandSpatialCropSamples::new("image", 4, many))), "num_samples");
    let by_class = RandCropByLabelClasses::new("image", "image", 4).num_samples(many);
    assert_eq!(refused(Box::new(by_class)), "num_samples");
    assert_eq!(refused(Box::new(RandWeightedCrop::new("image", "image", 4).num_samples(many))), "num_samples");
    assert_eq!(refused(Box::new(RandCoarseDropout::new("image", many, 2))), "holes");
    assert_eq!(
        refused(Box::new(RandCropByLabelClasses::new("image", "image", 4).ratios(Some(vec![1.0, -1.0])))),
        "ratios"
    );
    assert_eq!(refused(Box::new(GridPatch::new("image", [3, 3]).overlap(1.0))), "overlap");
    assert_eq!(refused(Box::new(GridPatch::new("image", [3, 3]).sort_fn(Some(PatchOrder::Random)))), "sort_fn");
    assert_eq!(refused(Box::new(GridSplit::new("image").grid(vec![0, 2]))), "grid");
    assert_eq!(refused(Box::new(GridSplit::new("image").grid(vec![usize::MAX, 2]))), "grid");
    assert_eq!(refused(Box::new(SqueezeDim::new("image", 0))), "dim");
    assert_eq!(refused(Box::new(RepeatChannel::new("image", 0))), "repeats");
    assert_eq!(refused(Box::new(CopyItems::new("image").times(usize::MAX))), "times");
    assert_eq!(refused(Box::new(SplitDim::new("image").keepdim(false))), "keepdim");
}

#[test]
fn bad_cases_are_told() {
    let failed = |step: Box<dyn Transform>| {
        let mut small = counting([1, 3, 3, 3]);
        small.data = small.data.zeros_like();
        let sample = Sample::new("x").with_image("image", counting([1, 6, 5, 4])).with_image("small", small);
        let chain: Vec<Box<dyn Transform>> = vec![Box::new(Identity::new(["image", "small"])), step];
        Pipeline::new(chain).expect("sound").run(sample, DrawKey::new(0, 0, 0)).expect_err("it fails").to_string()
    };
    let has = |text: String, part: &str| assert!(text.contains(part), "no `{part}` in: {text}");
    has(failed(Box::new(SpatialPad::new("image", 1_i64 << 40))), "at most");
    has(failed(Box::new(ResizeWithPadOrCrop::new("image", i64::MAX))), "at most");
    has(failed(Box::new(DivisiblePad::new("image", i64::MAX))), "at most");
    has(failed(Box::new(BorderPad::new("image", i64::MAX))), "at most");
    has(failed(Box::new(DivisiblePad::new("image", [2, 2]))), "`k` has 2 entries");
    has(failed(Box::new(CropForeground::new("image", "small"))), "no voxel of `small` is > 0");
    has(failed(Box::new(CropForeground::new("image", "image").margin(usize::MAX))), "padded by");
    has(failed(Box::new(CropForeground::new("image", "image").k_divisible(i64::MAX))), "padded by");
    has(failed(Box::new(RandSpatialCrop::new(["image", "small"], 2))), "as `image` has");
    has(failed(Box::new(RandSpatialCrop::new("image", 5).random_size(true))), "larger than the largest");
    has(failed(Box::new(RandCropByPosNegLabel::new("image", "image", 9))), "SpatialPad");
    has(failed(Box::new(RandCropByLabelClasses::new("image", "image", 2))), "num_classes");
    has(
        failed(Box::new(
            RandCropByLabelClasses::new("small", "small", 2).num_classes(Some(3)).ratios(Some(vec![0.0, 1.0, 1.0])),
        )),
        "no class",
    );
    has(failed(Box::new(RandWeightedCrop::new("image", "small", 2))), "as `small` has");
    has(failed(Box::new(GridPatch::new(["image", "small"], [2, 2, 2]))), "as `image` gives");
    has(failed(Box::new(GridSplit::new("image"))), "one entry per axis");
    has(failed(Box::new(ConcatItems::new(["image", "small"], "both"))), "except for axis 0");
    has(failed(Box::new(FgBgToIndices::new("image").output_shape(Some(vec![2, 2, 2])))), "output_shape");
    has(failed(Box::new(SqueezeDim::new("image", -1))), "one, to drop it");
}

#[test]
fn items_are_copied_joined_dropped() {
    let sample = Sample::new("x").with_image("a", counting([1, 2, 2, 2])).with_image("b", counting([2, 2, 2, 2]));
    let chain: Vec<Box<dyn Transform>> = vec![
        Box::new(Identity::new(["a", "b"])),
        Box::new(RepeatChannel::new("a", 2)),
        Box::new(ConcatItems::new(["a", "b"], "both")),
        Box::new(CopyItems::new(["both"]).times(2_usize)),
        Box::new(SplitDim::new("both_1")),
        Box::new(DeleteItems::new(["a", "b", "both_1"])),
        Box::new(SelectItems::new(["both", "both_0", "both_1_0", "both_1_3"])),
    ];
    let out = run(chain, sample, 0);
    let keys: Vec<&str> = out[0].values.keys().map(String::as_str).collect();
    assert_eq!(keys, ["both", "both_0", "both_1_0", "both_1_3"]);
    let eight: Vec<f32> = (1..=8).map(|v| v as f32).collect();
    let sixteen: Vec<f32> = (1..=16).map(|v| v as f32).collect();
    assert_eq!(out[0].image("both_0").expect("a copy").to_vec(), [&eight[..], &eight, &sixteen].concat());
    assert_eq!(out[0].image("both_1_3").expect("a channel").to_vec(), sixteen[8..]);
}

#[test]
fn the_box_of_the_foreground_is_kept() {
    let mut values = vec![0.0; 5 * 6 * 4];
    values[(2 * 6 + 3) * 4 + 1] = 2.0;
    let image = Image::from_values(values, [1, 5, 6, 4], tilted(), &host_device());
    let chain: Vec<Box<dyn Transform>> = vec![
        Box::new(BoundingRect::new("image")),
        Box::new(CropForeground::new("image", "image").margin([1_usize, 0, 2])),
    ];
    let out = run(chain, Sample::new("x").with_image("image", image), 0);
    let numbers = |key: &str| match out[0].get(key).expect("numbers") {
        Value::Numbers(numbers) => numbers.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers("image_bbox"), [2.0, 3.0, 3.0, 4.0, 1.0, 2.0]);
    assert_eq!(numbers("foreground_start_coord"), [1.0, 3.0, -1.0]);
    assert_eq!(numbers("foreground_end_coord"), [4.0, 4.0, 4.0]);
    assert_eq!(out[0].shape("image").expect("an image"), [3, 1, 5]);
}
