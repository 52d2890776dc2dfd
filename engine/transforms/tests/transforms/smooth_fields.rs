//! Smooth random fields: the distribution of their values, closed forms, and errors.

use hearth_image::spatial::{GridMode, ResizeMode};
use hearth_image::{Image, TransformError};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform, tiny};

fn run(step: &dyn Transform, image: &Image, epoch: u64) -> Result<Image, TransformError> {
    let sample = Sample::new("case").with_image("image", image.clone());
    let mut made = step.apply(sample, &DrawKey::new(11, epoch, 0).draw("case", 0, 0))?;
    made.remove(0).take_image("image")
}

#[test]
fn values_of_a_field_are_uniform() {
    // With a point for each voxel the factors of the voxels are the points.
    let ones = tiny::image([1, 4, 4, 4], [1.0; 64]);
    let step = RandSmoothFieldAdjustIntensity::new("image", 4).mode(ResizeMode::Nearest).gamma([0.2, 1.8]).prob(1.0);
    let mut values: Vec<f64> = Vec::new();
    for epoch in 0..200 {
        let made = run(&step, &ones, epoch).expect("a field").to_vec();
        values.extend(made.iter().map(|value| (f64::from(*value) - 0.2) / 1.6));
    }
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distances = values.iter().enumerate().map(|(rank, value)| (value - rank as f64 / n).abs());
    // The distance of Kolmogorov and Smirnov that is exceeded once in a million times.
    assert!(distances.fold(0.0, f64::max) < 2.7 / n.sqrt());
}

#[test]
fn a_step_is_applied_with_its_probability_and_the_same_field_for_all_keys() {
    let ramp = tiny::ramp([1, 4, 4, 4]);
    let step = RandSmoothFieldAdjustContrast::new("image", 2).prob(0.3);
    let changed = (0..2000).filter(|epoch| run(&step, &ramp, *epoch).expect("a field").to_vec() != ramp.to_vec());
    // 600, with a standard deviation of 20.5.
    assert!((497..703).contains(&changed.count()));
    let both = RandSmoothDeform::new(["image", "label"], 2).def_range(0.5).prob(1.0);
    let sample = Sample::new("case").with_image("image", ramp.clone()).with_image("label", ramp);
    let made = both.apply(sample, &DrawKey::new(1, 0, 0).draw("case", 0, 0)).expect("deformed");
    let values = |key: &str| made[0].image(key).expect("an image").to_vec();
    assert_eq!(values("image"), values("label"));
}

#[test]
fn shifts_of_nothing_keep_the_image() {
    let ramp = tiny::ramp([2, 5, 4, 3]);
    let step = RandSmoothDeform::new("image", 2).def_range(1e-7).grid_align_corners(true).prob(1.0);
    assert_eq!(run(&step, &ramp, 0).expect("deformed").to_vec(), ramp.to_vec());
    // A field of one point is a shift: by half the image, 2 of 5 voxels between the outermost centres.
    let shift = RandSmoothDeform::new("image", 1).def_range([1.0, 1.0 + 1e-6]).grid_align_corners(true).prob(1.0);
    let line = tiny::image([1, 5, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0]).with_spatial_dims(2);
    let made = run(&shift.clone().grid_mode(GridMode::Bilinear), &line, 0).expect("shifted");
    assert!(tiny::is_near(&made, [3.0, 4.0, 5.0, 5.0, 5.0]), "{:?}", made.to_vec());
}

#[test]
fn an_image_of_one_value_keeps_it() {
    let flat = tiny::image([1, 3, 3, 3], [7.0; 27]);
    let step = RandSmoothFieldAdjustContrast::new("image", 2).prob(1.0);
    assert_eq!(run(&step, &flat, 0).expect("a field").to_vec(), flat.to_vec());
}

#[test]
fn other_sizes_and_invalid_parameters_are_refused() {
    let ramp = tiny::ramp([1, 4, 4, 4]);
    let step = RandSmoothFieldAdjustIntensity::new("image", 2).prob(1.0);
    let error = run(&step.clone().spatial_size([4_i64, 4, 5]), &ramp, 0).expect_err("another size").to_string();
    assert!(error.contains("[4, 4, 4] voxels") && error.contains("`spatial_size`"), "{error}");
    assert!(run(&step.spatial_size([4_i64, 4, 4]), &ramp, 0).is_ok());
    let error = run(&RandSmoothDeform::new("image", [2, 2]).prob(1.0), &ramp, 0).expect_err("two axes").to_string();
    assert!(error.contains("rand_size"), "{error}");
    for (name, more, key) in [
        ("RandSmoothFieldAdjustContrast", "rand_size = 0", "rand_size"),
        ("RandSmoothFieldAdjustContrast", "rand_size = 2\ngamma = 0.5", "gamma"),
        ("RandSmoothFieldAdjustIntensity", "rand_size = 2\ngamma = [1, 2, 3]", "gamma"),
        ("RandSmoothFieldAdjustIntensity", "rand_size = 2\npad = 4000", "at most"),
        ("RandSmoothDeform", "rand_size = 2\ndef_range = 0.0", "def_range"),
        ("RandSmoothDeform", "rand_size = 2\nprob = 1.5", "prob"),
        ("RandSmoothDeform", "rand_size = 2\ngrid_mode = ['nearest', 'nearest']", "grid_mode"),
    ] {
        let text = format!("[[transforms]]\nname = '{name}'\nkeys = 'image'\n{more}\n");
        let found = Pipeline::from_toml(&text).expect_err("refused").to_string();
        assert!(found.contains(key), "{name} {more}: {found}");
    }
}
