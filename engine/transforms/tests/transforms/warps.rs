//! Transforms that resample: their geometry, inverses, draws, and bad parameters.

use std::collections::{BTreeSet, HashSet};

use hearth_image::spatial::{GridMode, GridPadding, PadMode, ResizeMode};
use hearth_image::{Image, OneOrMany, affine, host_device};
use hearth_transforms::transforms::{
    Affine, GridDistortion, Rand2DElastic, Rand3DElastic, RandAffine, RandGridDistortion, RandRotate,
    RandSimulateLowResolution, RandZoom, Resize, Rotate, SizeMode, Zoom,
};
use hearth_transforms::{DrawKey, Sample, Transform};
use proptest::prelude::*;

/// An oblique grid, not near the origin.
const OBLIQUE: hearth_image::Affine =
    [[0.1, -1.2, 0.0, 5.0], [1.1, 0.2, 0.1, -3.0], [0.0, 0.1, 2.5, 7.0], [0.0, 0.0, 0.0, 1.0]];

/// A value that encodes the position of a voxel in the world. Linear interpolation reproduces it.
fn height(matrix: &hearth_image::Affine, at: [usize; 3]) -> f64 {
    let [x, y, z] = affine::apply(matrix, at.map(|v| v as f64));
    0.5 * x - 0.25 * y + 0.125 * z + 10.0
}

fn voxels(shape: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [x, y, z] = shape;
    (0..x).flat_map(move |i| (0..y).flat_map(move |j| (0..z).map(move |k| [i, j, k])))
}

fn slope(shape: [usize; 3], matrix: hearth_image::Affine) -> Image {
    let values = voxels(shape).map(|at| height(&matrix, at) as f32).collect();
    let dims = if shape[2] == 1 { 2 } else { 3 };
    Image::from_values(values, [1, shape[0], shape[1], shape[2]], matrix, &host_device()).with_spatial_dims(dims)
}

/// The number of voxels whose value matches the position given by the affine. Voxels read from
/// outside the image do not match.
fn follows(image: &Image) -> usize {
    let values = image.to_vec();
    assert!(values.iter().all(|v| v.is_finite()));
    let mut inside = 0;
    for (value, at) in values.iter().zip(voxels(image.shape())) {
        let expected = height(&image.affine, at);
        if (f64::from(*value) - expected).abs() < 2e-3 {
            inside += 1;
        }
    }
    inside
}

fn apply(transform: &dyn Transform, sample: Sample, case: usize) -> Sample {
    let draw = DrawKey::new(11, 0, 0).draw(&case.to_string(), 0, 0);
    transform.apply(sample, &draw).expect("a sample").remove(0)
}

fn undone(mut image: Image) -> Image {
    while !image.meta.applied.is_empty() {
        image = image.undo_last(false).expect("undone");
    }
    image
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The affine matches the positions of the voxels, and the inverse returns to the start.
    #[test]
    fn an_affine_transform_carries_the_world_along(
        angles in prop::array::uniform3(-0.3f64..0.3), shear in prop::array::uniform3(-0.1f64..0.1),
        shift in prop::array::uniform3(-1.0f64..1.0), scale in prop::array::uniform3(0.8f64..1.2), flat: bool,
    ) {
        let shape = if flat { [17, 19, 1] } else { [13, 11, 12] };
        let image = slope(shape, OBLIQUE);
        let n = image.meta.spatial_dims;
        let transform = Affine::new("image")
            .rotate_params(angles[..if flat { 1 } else { 3 }].to_vec())
            .shear_params(shear[..n].to_vec())
            .translate_params(shift[..n].to_vec())
            .scale_params(scale[..n].to_vec())
            .padding_mode(GridPadding::Border);
        let moved = transform.transform(image.clone(), 0).expect("transformed");
        prop_assert_eq!(moved.shape(), shape);
        let count = shape.iter().product::<usize>();
        prop_assert!(follows(&moved) * 3 > count, "{} of {count} follow", follows(&moved));
        let back = undone(moved);
        prop_assert_eq!(back.affine, image.affine);
        // The middle of the image is always inside.
        for ((a, b), at) in back.to_vec().iter().zip(image.to_vec()).zip(voxels(shape)) {
            if (0..n).all(|d| at[d].abs_diff(shape[d] / 2) <= 2) {
                prop_assert!((a - b).abs() < 2e-3, "{} for {} at {:?}", a, b, at);
            }
        }
    }

    #[test]
    fn a_rotation_with_room_loses_nothing(angles in prop::array::uniform3(-3.0f64..3.0)) {
        let image = slope([9, 8, 7], OBLIQUE);
        let turned = Rotate::new("image", angles).keep_size(false).rotate(image.clone(), 0).expect("rotated");
        prop_assert!(follows(&turned) * 8 > 9 * 8 * 7);
        let back = undone(turned);
        prop_assert_eq!((back.shape(), back.affine), (image.shape(), image.affine));
        for ((a, b), at) in back.to_vec().iter().zip(image.to_vec()).zip(voxels(image.shape())) {
            if (0..3).all(|d| at[d].abs_diff(image.shape()[d] / 2) <= 1) {
                prop_assert!((a - b).abs() < 2e-3, "{} for {} at {:?}", a, b, at);
            }
        }
    }

    #[test]
    fn linear_zooms_follow(factors in prop::array::uniform3(0.5f64..1.9), keep_size: bool) {
        let image = slope([12, 11, 10], OBLIQUE);
        let zoom = Zoom::new("image", factors).mode(ResizeMode::Trilinear).keep_size(keep_size);
        let zoomed = zoom.padding_mode(PadMode::Constant).zoom(image.clone(), 0).expect("zoomed");
        let wanted: [usize; 3] = std::array::from_fn(|a| ([12, 11, 10][a] as f64 * factors[a]).floor() as usize);
        prop_assert_eq!(zoomed.shape(), if keep_size { [12, 11, 10] } else { wanted });
        prop_assert!(follows(&zoomed) > 60, "{}", follows(&zoomed));
        let back = undone(zoomed);
        prop_assert_eq!((back.shape(), back.affine), (image.shape(), image.affine));
    }

    /// Enlarging by whole factors and back changes nothing, for all modes that copy voxels.
    #[test]
    fn enlarging_is_undone_exactly(factors in prop::array::uniform3(1usize..4), mode in 0usize..3, seed in 0u32..1000) {
        let shape = [5, 4, 3];
        let values = (0..60u32).map(|i| ((i * 7919 + seed) % 101) as f32).collect();
        let image = Image::from_values(values, [1, 5, 4, 3], OBLIQUE, &host_device());
        let mode = [ResizeMode::Nearest, ResizeMode::NearestExact, ResizeMode::Area][mode];
        let size: Vec<i64> = (0..3).map(|a| (shape[a] * factors[a]) as i64).collect();
        let large = Resize::new("image", size).mode(mode).resize(image.clone(), 0).expect("resized");
        let back = undone(large);
        prop_assert_eq!(back.affine, image.affine);
        for (a, b) in back.to_vec().iter().zip(image.to_vec()) {
            prop_assert!((a - b).abs() < 1e-4);
        }
    }
}

/// Three labels in blocks.
fn labels(shape: [usize; 3]) -> Image {
    let values = voxels(shape).map(|[i, j, k]| ((i / 3 + j / 4 + k / 3) % 3) as f32).collect();
    let dims = if shape[2] == 1 { 2 } else { 3 };
    Image::from_values(values, [1, shape[0], shape[1], shape[2]], affine::IDENTITY, &host_device())
        .with_spatial_dims(dims)
}

fn modes() -> OneOrMany<GridMode> {
    [GridMode::Bilinear, GridMode::Nearest].into()
}

/// Every random transform, with probability `prob`, for an image and a label.
fn random(prob: f64, flat: bool) -> Vec<Box<dyn Transform>> {
    let keys = ["image", "label"];
    let elastic: Box<dyn Transform> = if flat {
        Box::new(Rand2DElastic::new(keys, 4.0, [0.5, 1.0]).prob(prob).rotate_range([0.4]).mode(modes()))
    } else {
        Box::new(Rand3DElastic::new(keys, [1.0, 2.0], [5.0, 20.0]).prob(prob).rotate_range([0.4]).mode(modes()))
    };
    let zoom_modes: OneOrMany<ResizeMode> = [ResizeMode::Trilinear, ResizeMode::NearestExact].into();
    vec![
        elastic,
        Box::new(
            RandAffine::new(keys)
                .prob(prob)
                .rotate_range([0.4])
                .shear_range([0.1])
                .translate_range([2.0, 1.0])
                .scale_range([0.2])
                .mode(modes()),
        ),
        Box::new(RandRotate::new(keys).prob(prob).range_x(0.5).range_z([0.1, 0.4]).mode(modes())),
        Box::new(RandGridDistortion::new(keys).prob(prob).num_cells(3).distort_limit(0.4).mode(modes())),
        Box::new(RandZoom::new(keys).prob(prob).min_zoom(0.7).max_zoom(1.4).mode(zoom_modes)),
        Box::new(RandSimulateLowResolution::new(keys).prob(prob).upsample_mode(ResizeMode::Nearest)),
    ]
}

fn pair(flat: bool) -> Sample {
    let shape = if flat { [13, 12, 1] } else { [10, 9, 8] };
    Sample::new("a").with_image("image", slope(shape, affine::IDENTITY)).with_image("label", labels(shape))
}

#[test]
fn random_transforms_keep_shape_and_labels_and_repeat() {
    for flat in [false, true] {
        for transform in random(1.0, flat) {
            let name = transform.name();
            let before = pair(flat);
            let mut different = HashSet::new();
            for case in 0..12 {
                let after = apply(&*transform, before.clone(), case);
                let again = apply(&*transform, before.clone(), case);
                for key in ["image", "label"] {
                    let (a, b) = (after.image(key).expect("an image"), again.image(key).expect("an image"));
                    assert_eq!(a.shape(), before.image(key).expect("an image").shape(), "{name}");
                    assert_eq!(a.to_vec(), b.to_vec(), "{name} of one draw");
                    assert!(a.to_vec().iter().all(|v| v.is_finite()), "{name}");
                }
                let label = after.image("label").expect("a label").to_vec();
                assert!(label.iter().all(|v| [0.0, 1.0, 2.0].contains(v)), "{name} invents labels");
                different.insert(
                    after.image("image").expect("an image").to_vec().iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                );
            }
            // Low resolution has only a few possible sizes.
            assert!(different.len() >= 4, "{name}: {} different results of 12", different.len());
        }
    }
}

/// One draw for all keys: each key is transformed in the same way.
#[test]
fn all_keys_share_a_draw() {
    let linear: [(&str, Box<dyn Transform>); 6] = [
        ("Rand3DElastic", Box::new(Rand3DElastic::new(["a", "b"], [1.0, 2.0], [5.0, 20.0]).prob(1.0))),
        ("RandAffine", Box::new(RandAffine::new(["a", "b"]).prob(1.0).rotate_range([0.4, 0.4, 0.4]))),
        ("RandRotate", Box::new(RandRotate::new(["a", "b"]).prob(1.0).range_y(0.5))),
        ("RandGridDistortion", Box::new(RandGridDistortion::new(["a", "b"]).prob(1.0).num_cells(3))),
        ("RandZoom", Box::new(RandZoom::new(["a", "b"]).prob(1.0).min_zoom(0.6))),
        ("RandSimulateLowResolution", Box::new(RandSimulateLowResolution::new(["a", "b"]).prob(1.0))),
    ];
    let image = labels([10, 9, 8]);
    for (name, transform) in linear {
        for case in 0..5 {
            let sample = Sample::new("x").with_image("a", image.clone()).with_image("b", image.clone());
            let after = apply(&*transform, sample, case);
            assert_eq!(after.image("a").expect("a").to_vec(), after.image("b").expect("b").to_vec(), "{name}");
        }
    }
}

#[test]
fn probabilities_are_kept() {
    for transform in random(0.3, false) {
        let before = pair(false);
        let values = before.image("image").expect("an image").to_vec();
        let changed = (0..300)
            .filter(|case| {
                apply(&*transform, before.clone(), *case).image("image").expect("an image").to_vec() != values
            })
            .count();
        // Five deviations of a binomial draw are about 90; some draws change nothing (a resolution
        // of 1).
        assert!((40..=130).contains(&changed), "{}: {changed} of 300", transform.name());
    }
    for transform in random(0.0, true) {
        let before = pair(true);
        let after = apply(&*transform, before.clone(), 0);
        assert_eq!(after.image("image").expect("an image").to_vec(), before.image("image").expect("an image").to_vec());
        assert!(after.image("image").expect("an image").meta.applied.is_empty(), "{}", transform.name());
    }
}

#[test]
fn what_was_drawn_is_undone() {
    let before = slope([12, 11, 10], OBLIQUE);
    let transforms: [Box<dyn Transform>; 3] = [
        Box::new(
            RandAffine::new("image").prob(1.0).rotate_range([0.3, 0.3]).scale_range([0.1]).spatial_size([14, -1, 9]),
        ),
        Box::new(RandRotate::new("image").prob(1.0).range_x(0.4).keep_size(false)),
        Box::new(RandZoom::new("image").prob(1.0).min_zoom(1.2).max_zoom(1.5).mode(ResizeMode::Trilinear)),
    ];
    for transform in transforms {
        let moved = apply(&*transform, Sample::new("x").with_image("image", before.clone()), 3);
        let moved = moved.image("image").expect("an image").clone();
        assert_ne!(moved.affine, before.affine, "{}", transform.name());
        assert!(follows(&moved) * 3 > 12 * 11 * 10, "{}: {}", transform.name(), follows(&moved));
        let back = undone(moved);
        assert_eq!((back.shape(), back.affine), (before.shape(), before.affine), "{}", transform.name());
    }
}

/// If nothing is drawn, another size still crops or pads about the centre, and the affine matches.
#[test]
fn another_size_is_about_the_centre() {
    let before = slope([8, 8, 8], affine::IDENTITY);
    let transforms: [Box<dyn Transform>; 2] = [
        Box::new(RandAffine::new("image").prob(0.0).spatial_size([4, 8, 10])),
        Box::new(Rand3DElastic::new("image", [1.0, 1.0], [1.0, 1.0]).prob(0.0).spatial_size([4, 8, 10])),
    ];
    for transform in transforms {
        let after = apply(&*transform, Sample::new("x").with_image("image", before.clone()), 0);
        let after = after.image("image").expect("an image");
        assert_eq!(after.shape(), [4, 8, 10]);
        assert_eq!([0, 1, 2].map(|r| after.affine[r][3]), [2.0, 0.0, -1.0]);
        assert_eq!(follows(after), 4 * 8 * 8);
    }
}

fn refused(transform: &dyn Transform) -> String {
    let mut known = BTreeSet::from(["image".to_owned()]);
    transform.check(&mut known).expect_err(transform.name()).to_string()
}

#[test]
fn parameters_that_make_no_sense_are_told_before_the_first_case() {
    let nan = f64::NAN;
    let bad: Vec<(Box<dyn Transform>, &str)> = vec![
        (Box::new(Zoom::new("image", 0.0)), "zoom"),
        (Box::new(Zoom::new("image", [1.0, -0.5])), "zoom"),
        (Box::new(Zoom::new("image", nan)), "zoom"),
        (Box::new(Zoom::new("image", vec![1.0; 4])), "zoom"),
        (Box::new(RandZoom::new("image").min_zoom(1.5)), "min_zoom"),
        (Box::new(RandZoom::new("image").min_zoom([0.9, 0.9])), "min_zoom"),
        (Box::new(RandZoom::new("image").max_zoom(f64::INFINITY)), "max_zoom"),
        (Box::new(RandZoom::new("image").prob(1.5)), "prob"),
        (Box::new(Rotate::new("image", [0.1, 0.2])), "angle"),
        (Box::new(Rotate::new("image", nan)), "angle"),
        (Box::new(RandRotate::new("image").range_x(nan)), "range_x"),
        (Box::new(Affine::new("image").rotate_params(vec![0.1; 4])), "rotate_params"),
        (Box::new(Affine::new("image").shear_params(vec![0.1; 7])), "shear_params"),
        (Box::new(Affine::new("image").scale_params([1.0, 0.0])), "scale_params"),
        (Box::new(Affine::new("image").translate_params(nan)), "translate_params"),
        (Box::new(Affine::new("image").affine(Some(vec![vec![1.0; 3]; 2]))), "affine"),
        (Box::new(RandAffine::new("image").scale_range([1.0])), "scale_range"),
        (Box::new(RandAffine::new("image").translate_range([1.0; 4])), "translate_range"),
        (Box::new(Resize::new("image", vec![4; 4])), "spatial_size"),
        (Box::new(Resize::new("image", [4, 4]).size_mode(SizeMode::Longest)), "spatial_size"),
        (Box::new(Resize::new("image", 4).anti_aliasing_sigma(OneOrMany::One(OneOrMany::One(-1.0)))), "anti_aliasing"),
        (Box::new(RandSimulateLowResolution::new("image").zoom_range([0.0, 1.0])), "zoom_range"),
        (Box::new(RandSimulateLowResolution::new("image").zoom_range([1.0, 0.5])), "zoom_range"),
        (Box::new(Rand3DElastic::new("image", [-1.0, 1.0], [1.0, 2.0])), "sigma_range"),
        (Box::new(Rand3DElastic::new("image", [1.0, 2.0], [2.0, 1.0])), "magnitude_range"),
        (Box::new(Rand2DElastic::new("image", vec![1.0; 3], [1.0, 2.0])), "spacing"),
        (Box::new(GridDistortion::new("image", 0, vec![vec![1.0]; 3])), "num_cells"),
        (Box::new(GridDistortion::new("image", 2, vec![vec![1.0; 2]; 3])), "distort_steps"),
        (Box::new(RandGridDistortion::new("image").distort_limit([0.0, nan])), "distort_limit"),
        (Box::new(RandGridDistortion::new("image").num_cells(usize::MAX)), "num_cells"),
        (Box::new(GridDistortion::new("image", [2, 1 << 17, 2], vec![vec![1.0; 3]; 3])), "num_cells"),
    ];
    for (transform, parameter) in bad {
        let text = refused(&*transform);
        assert!(text.contains(parameter), "{}: {text}", transform.name());
    }
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for (json, word) in [
        (r#"{"keys": "image", "zoom": 1.2, "mode": "sinc"}"#, "sinc"),
        (r#"{"keys": "image", "zoom": 1.2, "padding_mode": "zeros"}"#, "zeros"),
        (r#"{"keys": "image", "zoom": 1.2, "speed": 3}"#, "speed"),
    ] {
        let error = serde_json::from_str::<Zoom>(json).expect_err("refused").to_string();
        assert!(error.contains(word) || error.contains("one value, or a list"), "{error}");
    }
    assert!(serde_json::from_str::<Affine>(r#"{"keys": "image", "rotate_order": "XXY"}"#).is_err());
}

#[test]
fn absurd_sizes_and_wrong_images_are_refused() {
    let image = slope([4, 4, 4], affine::IDENTITY);
    let flat = slope([4, 4, 1], affine::IDENTITY);
    let errors = [
        Resize::new("image", [70_000, 4, 4]).resize(image.clone(), 0).err(),
        Resize::new("image", [60_000, 60_000, 60_000]).resize(image.clone(), 0).err(),
        Resize::new("image", [4, 4]).resize(image.clone(), 0).err(),
        Zoom::new("image", 1e9).zoom(image.clone(), 0).err(),
        Zoom::new("image", 0.1).zoom(image.clone(), 0).err(),
        Zoom::new("image", [1.0, 2.0]).zoom(image.clone(), 0).err(),
        Affine::new("image").spatial_size([65_537, 1, 1]).transform(image.clone(), 0).err(),
        Affine::new("image").affine(Some(vec![vec![0.0; 4]; 4])).transform(image.clone(), 0).err(),
        Rotate::new("image", [0.1, 0.2, 0.3]).rotate(flat.clone(), 0).err(),
        RandSimulateLowResolution::new("image").simulate(image.clone(), 1e6).err(),
        GridDistortion::new("image", 5, vec![vec![1.0; 6]; 3]).distort(image.clone(), 0).err(),
        GridDistortion::new("image", 2, vec![vec![1.0; 3]; 3]).distort(flat.clone(), 0).err(),
    ];
    for (i, error) in errors.into_iter().enumerate() {
        assert!(error.is_some(), "number {i} is not refused");
    }
    let draw = || DrawKey::new(0, 0, 0).draw("x", 0, 0);
    let sample = |image: Image| Sample::new("x").with_image("image", image);
    let elastic = Rand3DElastic::new("image", [1.0, 1.0], [1.0, 1.0]).prob(1.0);
    assert!(elastic.apply(sample(flat), &draw()).expect_err("2-D").to_string().contains("Rand2DElastic"));
    let elastic = Rand2DElastic::new("image", 2.0, [1.0, 1.0]).prob(1.0);
    assert!(elastic.apply(sample(image.clone()), &draw()).expect_err("3-D").to_string().contains("Rand3DElastic"));
    let elastic = Rand3DElastic::new("image", [1.0, 1.0], [1.0, 1.0]).prob(1.0).spatial_size([60_000, 60_000, 4]);
    assert!(elastic.apply(sample(image), &draw()).expect_err("too large").to_string().contains("size"));
}
