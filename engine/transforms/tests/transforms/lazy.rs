//! Lazy resampling: deferred steps give the same result as separate steps.

use std::collections::BTreeSet;

use hearth_image::spatial::{
    GridMode, GridPadding, GridSampling, Lazy, LazySampling, PadMode, ResizeMode, Warp, crop, flip, pad, rotate90, warp,
};
use hearth_image::{Affine as Matrix, Image, TransformError, affine, host_device};
use hearth_registry::Fault;
use hearth_transforms::transforms::*;
use hearth_transforms::{Draw, DrawKey, Pipeline, Sample, Transform};
use proptest::prelude::*;

/// A step that uses functions of the library, as a user would write it.
struct Step {
    work: Box<dyn Fn(Image, usize) -> Result<Image, TransformError> + Send + Sync>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Step")
    }
}

impl Transform for Step {
    fn name(&self) -> &'static str {
        "Step"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in ["image", "label"].into_iter().enumerate() {
            let image = sample.take_image(key)?;
            sample = sample.with_image(key, (self.work)(image, place)?);
        }
        Ok(vec![sample])
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Step" })
    }
}

fn step(work: impl Fn(Image, usize) -> Result<Image, TransformError> + Send + Sync + 'static) -> Box<dyn Transform> {
    Box::new(Step { work: Box::new(work) })
}

/// How the image and the label are sampled.
fn sampling(place: usize, padding_mode: GridPadding) -> GridSampling {
    let mode = if place == 0 { GridMode::Bilinear } else { GridMode::Nearest };
    GridSampling { mode, padding_mode, align_corners: false }
}

/// One of several modes for the image, and a mode that yields labels for the label.
fn resize_modes(a: f64) -> [ResizeMode; 2] {
    let image =
        [ResizeMode::Trilinear, ResizeMode::Area, ResizeMode::Bicubic, ResizeMode::Nearest][(a * 3.99) as usize];
    [image, if a < 0.5 { ResizeMode::NearestExact } else { ResizeMode::Nearest }]
}

/// One of several steps, by number and two more numbers between 0 and 1.
fn chosen(which: usize, a: f64, b: f64) -> Box<dyn Transform> {
    let keys = ["image", "label"];
    let modes = [GridMode::Bilinear, GridMode::Nearest];
    match which {
        0 => Box::new(Orientation::new(keys, ["RAS", "LPI", "SAR", "PIL"][(a * 3.99) as usize])),
        1 => Box::new(Spacing::new(keys, [0.6 + a, 0.7 + b, 1.1]).mode(modes)),
        2 => step(move |image, _| Ok(flip(image, &[(a * 2.99) as usize]))),
        3 => step(move |image, _| Ok(rotate90(image, 1 + (b * 2.99) as usize, (a * 1.99) as usize, 2))),
        4 => step(move |image, _| {
            let shape = image.shape();
            let start = shape.map(|n| (n as f64 * a * 0.3) as usize);
            let end = std::array::from_fn(|i| shape[i] - (shape[i] as f64 * b * 0.3) as usize);
            Ok(crop(image, start, end))
        }),
        5 => step(move |image, _| pad(image, [1, 0, 2], [0, (a * 3.0) as usize, 1], PadMode::Constant, 0.0)),
        6 => step(move |image, place| {
            let angles = [0.4 * a, 0.3 * b, 0.2];
            let how = Warp::rotation(&angles, &Default::default(), image.shape(), 3, b < 0.5, false)?;
            warp(image, &how, sampling(place, if a < 0.5 { GridPadding::Border } else { GridPadding::Zeros }))
        }),
        7 => Box::new(Resize::new(keys, [5 + (a * 6.0) as i64, 6, 4 + (b * 7.0) as i64]).mode(resize_modes(a))),
        8 => Box::new(Zoom::new(keys, [0.7 + a, 1.2, 0.6 + b]).keep_size(b < 0.5).mode(resize_modes(b))),
        9 => Box::new(CropForeground::new(keys, "label").allow_empty(true)),
        // A step that reads the values.
        _ => Box::new(NormalizeIntensity::new("image")),
    }
}

fn tilted() -> Matrix {
    let (s, c) = 0.2_f64.sin_cos();
    [[-1.1, 0.0, 0.0, 30.0], [0.0, 0.9 * c, -1.4 * s, -12.0], [0.0, 0.9 * s, 1.4 * c, 4.0], affine::IDENTITY[3]]
}

fn sample() -> Sample {
    let shape = [1, 7, 9, 8];
    let values = |period: usize| (0..7 * 9 * 8).map(|i| ((i + 1) * 7919 % period) as f32 / 10.0).collect::<Vec<_>>();
    let image = Image::from_values(values(101), shape, tilted(), &host_device());
    let label = Image::from_values(values(3), shape, tilted(), &host_device());
    Sample::new("case").with_image("image", image).with_image("label", label)
}

fn run(steps: &[(usize, f64, f64)], lazy: Lazy) -> (Pipeline, Sample) {
    let steps = steps.iter().map(|(which, a, b)| chosen(*which, *a, *b)).collect::<Vec<Box<dyn Transform>>>();
    let pipeline = Pipeline::new(steps).expect("sound").lazy(lazy);
    let done = pipeline.run(sample(), DrawKey::new(0, 0, 0)).expect("it runs").remove(0);
    (pipeline, done)
}

fn far(a: &Image, b: &Image) -> f32 {
    assert_eq!(a.data.dims(), b.data.dims());
    a.to_vec().iter().zip(b.to_vec()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// For any chain the voxels, the affine and the inverse are the same; labels are bit-identical.
    #[test]
    fn exact_is_what_each_step_gives(
        steps in prop::collection::vec((0usize..11, 0.0..1.0f64, 0.0..1.0f64), 1..6),
    ) {
        let (pipeline, eager) = run(&steps, Lazy::Off);
        let (_, lazy) = run(&steps, Lazy::Exact);
        for (key, tolerance) in [("image", 2e-5), ("label", 0.0)] {
            let (a, b) = (lazy.image(key).expect("an image"), eager.image(key).expect("an image"));
            prop_assert!(far(a, b) <= tolerance, "{key}: {}", far(a, b));
            prop_assert_eq!(a.affine, b.affine);
            prop_assert_eq!(&a.meta.applied, &b.meta.applied);
            let back = |image: &Image| pipeline.invert(image.clone(), image, key == "label").expect("a way back");
            prop_assert!(far(&back(a), &back(b)) <= tolerance * 4.0);
            prop_assert_eq!(back(a).shape(), [7, 9, 8]);
        }
    }

    /// One interpolation with flips, permutations and crops around it is sampled once, also with
    /// `on`.
    #[test]
    fn on_is_the_same_around_one_interpolation(
        before in prop::collection::vec((2usize..5, 0.0..1.0f64, 0.0..1.0f64), 0..3),
        a in 0.0..1.0f64, b in 0.0..1.0f64,
        after in prop::collection::vec((2usize..5, 0.0..1.0f64, 0.0..1.0f64), 0..3),
    ) {
        let steps: Vec<_> = before.into_iter().chain([(6, a, b)]).chain(after).collect();
        let (_, eager) = run(&steps, Lazy::Off);
        let (_, lazy) = run(&steps, Lazy::On);
        let (a, b) = (lazy.image("image").expect("an image"), eager.image("image").expect("an image"));
        prop_assert!(far(a, b) <= 2e-4, "{}", far(a, b));
        prop_assert!(affine::distance(&a.affine, &b.affine) < 1e-9);
    }
}

fn turned(image: Image, angle: f64, sampling: GridSampling) -> Result<Image, TransformError> {
    let how = Warp::rotation(&[angle, 0.0, 0.0], &Default::default(), image.shape(), 3, true, false)?;
    warp(image, &how, sampling)
}

/// Back and forth has no effect if sampled once, and blurs if sampled twice.
#[test]
fn on_composes_interpolations() {
    let there_and_back = |lazy, second: fn(usize) -> GridSampling| {
        let steps = vec![
            step(|image, place| turned(image, 0.3, sampling(place, GridPadding::Border))),
            step(move |image, place| turned(image, -0.3, second(place))),
        ];
        let pipeline = Pipeline::new(steps).expect("sound").lazy(lazy);
        let done = pipeline.run(sample(), DrawKey::new(0, 0, 0)).expect("it runs").remove(0);
        far(done.image("image").expect("an image"), sample().image("image").expect("an image"))
    };
    let alike = |place| sampling(place, GridPadding::Border);
    assert_eq!(there_and_back(Lazy::On, alike), 0.0);
    assert!(there_and_back(Lazy::Exact, alike) > 0.5);
    // Another padding is another sampling.
    let other = |place| sampling(place, GridPadding::Zeros);
    assert_eq!(there_and_back(Lazy::On, other), there_and_back(Lazy::Off, other));
}

/// MONAI's lazy evaluation ignores how the steps sample: padding becomes part of the matrix, and
/// the outside is the edge.
#[test]
fn a_sampling_for_all_steps_takes_padding_along() {
    let pipeline = |instead: Option<LazySampling>| {
        let steps: Vec<Box<dyn Transform>> = vec![
            step(|image, _| pad(image, [2; 3], [2; 3], PadMode::Constant, 0.0)),
            Box::new(Spacing::new(["image", "label"], 0.9).mode(GridMode::Nearest)),
        ];
        let pipeline = Pipeline::new(steps).expect("sound").lazy(Lazy::On);
        let pipeline = match instead {
            Some(instead) => pipeline.lazy_sampling("image", instead),
            None => pipeline,
        };
        let done = pipeline.run(sample(), DrawKey::new(0, 0, 0)).expect("it runs").remove(0);
        done.image("image").expect("an image").clone()
    };
    let first = sample().image("image").expect("an image").to_vec()[0];
    assert!(first > 0.0);
    assert_eq!(pipeline(None).to_vec()[0], 0.0);
    assert_eq!(pipeline(Some(LazySampling::default())).to_vec()[0], first);
    let zeros = LazySampling { padding_mode: Some(GridPadding::Zeros), ..LazySampling::default() };
    assert_eq!(pipeline(Some(zeros)).to_vec()[0], 0.0);
    let shape = pipeline(None).shape();
    assert_eq!(pipeline(Some(zeros)).shape(), shape);
}

#[test]
fn an_error_says_the_shape_that_is_to_come() {
    let steps: Vec<Box<dyn Transform>> =
        vec![Box::new(Spacing::new(["image", "label"], 0.5)), step(|_, _| Err(TransformError::new("no more")))];
    let pipeline = Pipeline::new(steps).expect("sound");
    let error = pipeline.run(sample(), DrawKey::new(0, 0, 0)).expect_err("the second step fails").to_string();
    assert!(error.contains("step 2 of 2") && error.contains("14 x 15 x 21"), "{error}");
}

/// MONAI's lazy evaluation uses the affines of `Resize` and `Zoom`; sampled once, back and forth
/// returns the image, in every mode.
#[test]
fn resize_and_zoom_are_affines_where_a_sampling_is_given() {
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(Resize::new("image", [14, 18, 16])),
        Box::new(Zoom::new("image", 0.5).mode(ResizeMode::Nearest).keep_size(false)),
    ];
    let pipeline = Pipeline::new(steps).expect("sound").lazy(Lazy::On).lazy_sampling("image", LazySampling::default());
    let done = pipeline.run(sample(), DrawKey::new(0, 0, 0)).expect("it runs").remove(0);
    let (image, before) =
        (done.image("image").expect("an image").clone(), sample().image("image").expect("one").clone());
    assert_eq!(image.to_vec(), before.to_vec());
    assert!(affine::distance(&image.affine, &before.affine) < 1e-12);
    // The operation is still recorded, and can be inverted.
    assert_eq!(image.meta.applied.len(), 2);
    assert_eq!(pipeline.invert(image.clone(), &image, true).expect("a way back").shape(), before.shape());
}
