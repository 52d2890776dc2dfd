//! `CheckCase`: the cases that it rejects, and the messages.

use hearth_image::{Affine, Image, affine, host_device};
use hearth_io::{NiftiOptions, write_nifti};
use hearth_transforms::transforms::{CheckCase, LoadImage};
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform, Value};

const SHAPE: [usize; 4] = [1, 3, 4, 5];
const GRID: Affine = [[0.5, 0.0, 0.0, 10.0], [0.0, 0.5, 0.0, -20.0], [0.0, 0.0, 5.0, 30.0], affine::IDENTITY[3]];

fn image(change: impl FnOnce(&mut [f32])) -> Image {
    let mut values: Vec<f32> = (0..60).map(|i| i as f32 - 7.5).collect();
    change(&mut values);
    Image::from_values(values, SHAPE, GRID, &host_device())
}

fn label(change: impl FnOnce(&mut [f32])) -> Image {
    let mut values: Vec<f32> = (0..60).map(|i| (i % 3) as f32).collect();
    change(&mut values);
    Image::from_values(values, SHAPE, GRID, &host_device())
}

fn run(step: CheckCase, image: Option<Image>, label: Option<Image>) -> Result<(), String> {
    let mut sample = Sample::new("a");
    sample.values.extend(image.map(|i| ("image".to_owned(), Value::Image(i))));
    sample.values.extend(label.map(|i| ("label".to_owned(), Value::Image(i))));
    let pipeline = Pipeline::new(step).expect("sound");
    assert_eq!(pipeline.split(), 1, "not random");
    match pipeline.run(sample.clone(), DrawKey::new(0, 0, 0)) {
        Ok(out) => {
            for (key, value) in &sample.values {
                let (Value::Image(before), Ok(after)) = (value, out[0].image(key)) else { panic!("{key} is gone") };
                assert_eq!(before.to_vec(), after.to_vec());
            }
            Ok(())
        }
        Err(error) => {
            let what = error.error.what.clone();
            assert!(what.len() < 200 && !what.contains('\n'), "{what}");
            Err(error.to_string())
        }
    }
}

fn step() -> CheckCase {
    CheckCase::new().num_classes(3).channels(1)
}

fn refused(image: Option<Image>, label: Option<Image>, parts: &[&str]) {
    let text = run(step(), image, label).expect_err("to be refused");
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn good_cases_pass_unchanged() {
    let good = || (Some(image(|_| ())), Some(label(|v| v[0] = -0.0)));
    let (i, l) = good();
    assert_eq!(run(step(), i.clone(), l.clone()), Ok(()));
    assert_eq!(run(step(), i.clone(), None), Ok(()));
    assert_eq!(run(step(), None, l.clone()), Ok(()));
    assert_eq!(run(step(), None, None), Ok(()));
    // Without limits, further classes, fractions and channels are accepted.
    assert_eq!(run(CheckCase::new(), i.clone(), Some(label(|v| v[0] = 7.5))), Ok(()));
    // Rounding noise of a header's f32 values.
    let mut near = label(|_| ());
    near.affine[0][0] *= 1.0 + 5e-4;
    near.affine[2][3] += 0.45;
    near.affine[0][3] -= 0.045;
    assert_eq!(run(step(), i.clone(), Some(near)), Ok(()));
    // Only what `keys` names is checked.
    let bad = Some(label(|v| v[0] = 9.0));
    assert_eq!(run(step().keys("image"), i.clone(), bad), Ok(()));
    let text = run(step().allow_missing_keys(false), i, None).expect_err("no label");
    assert!(text.contains("no value `label`"), "{text}");
}

#[test]
fn voxels_that_are_not_finite() {
    let bad = image(|v| {
        (v[3], v[59]) = (f32::NAN, f32::NAN);
        v[7] = f32::NEG_INFINITY;
    });
    refused(Some(bad), None, &["CheckCase", "image:", "3 of 60 voxels", "2 NaN, 1 infinite"]);
    // The message names the channels concerned.
    let of = |hit: &[usize]| {
        let mut values = vec![0.0; 240];
        hit.iter().for_each(|channel| values[channel * 60 + 59] = f32::NAN);
        Image::from_values(values, [4, 3, 4, 5], GRID, &host_device())
    };
    for (hit, place) in
        [(&[2][..], "all in channel 2 (the first is 0)"), (&[0, 3], "in channels 0, 3 (the first is 0)")]
    {
        let text = run(CheckCase::new(), Some(of(hit)), None).expect_err("not finite");
        assert!(text.contains(&format!("{} of 240 voxels", hit.len())) && text.contains(place), "{text}");
    }
}

#[test]
fn channels_and_volumes() {
    let two = Image::from_values(vec![0.0; 120], [2, 3, 4, 5], GRID, &host_device());
    refused(Some(two.clone()), None, &["2 channels", "expected: 1,"]);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("series.nii.gz");
    write_nifti(&path, &two, NiftiOptions::image()).expect("written");
    let steps: Vec<Box<dyn Transform>> = vec![Box::new(LoadImage::new("image")), Box::new(step())];
    let sample = Sample::new("a").with("image", Value::Path(path));
    let error = Pipeline::new(steps).expect("sound").run(sample, DrawKey::new(0, 0, 0)).expect_err("two volumes");
    assert!(error.to_string().contains("4-D file holds 2 volumes"), "{error}");
    assert_eq!(run(step().channels(2), Some(two), Some(label(|_| ()))), Ok(()));
}

#[test]
fn another_shape() {
    let turned = Image::from_values(vec![0.0; 60], [1, 5, 4, 3], GRID, &host_device());
    refused(Some(image(|_| ())), Some(turned), &["label:", "label has 5 x 4 x 3", "image 3 x 4 x 5"]);
}

#[test]
fn another_place() {
    let moved = |row: usize, by: f64| {
        let mut label = label(|_| ());
        label.affine[row][3] += by;
        Some(label)
    };
    // 0.06 mm is 0.12 voxel on an axis of 0.5 mm, and negligible on one of 5 mm.
    refused(Some(image(|_| ())), moved(0, 0.06), &["origins are 0.060 mm apart", "0.12 voxels"]);
    assert_eq!(run(step(), Some(image(|_| ())), moved(2, 0.06)), Ok(()));
    refused(Some(image(|_| ())), moved(2, -30.0), &["origins are 30.000 mm apart"]);
    let mut turned = label(|_| ());
    turned.affine[1][0] = 0.002;
    refused(Some(image(|_| ())), Some(turned), &["axes or spacing", "0.40 %", "0.000 mm"]);
    let mut flipped = label(|_| ());
    flipped.affine[0][0] = -0.5;
    refused(Some(image(|_| ())), Some(flipped), &["axes or spacing", "200.00 %"]);
    let mut broken = label(|_| ());
    broken.affine[0][0] = f64::NAN;
    refused(Some(image(|_| ())), Some(broken), &["label's affine has values that are not finite"]);
}

#[test]
fn label_values() {
    let few = label(|v| (v[0], v[1], v[2], v[3]) = (255.0, 3.0, 255.0, 0.5));
    refused(None, Some(few.clone()), &["4 of 60 label voxels", "values: 0.5, 3, 255\n", "expected: 0 to 2"]);
    refused(Some(image(|_| ())), Some(few), &["4 of 60 label voxels"]);
    let many = label(|v| (0..60).for_each(|i| v[i] = 60.0 - i as f32));
    refused(None, Some(many), &["58 of 60", "values: 3, 4, 5, 6, 7, ...\n"]);
    let odd = label(|v| (v[0], v[1], v[2], v[3]) = (f32::NAN, -1.0, -f32::NAN, f32::INFINITY));
    refused(None, Some(odd.clone()), &["4 of 60", "values: -1, inf, NaN\n"]);
    let text = run(CheckCase::new(), None, Some(odd)).expect_err("not finite");
    assert!(text.contains("3 of 60") && text.contains("expected: finite"), "{text}");
}

#[test]
fn parameters_and_recipes() {
    let build = |step: CheckCase| Pipeline::new(step).map(|_| ()).map_err(|e| e.to_string());
    assert!(build(step().num_classes(0)).expect_err("no class").contains("num_classes"));
    assert!(build(step().channels(0)).expect_err("no channel").contains("channels"));
    assert!(build(step().label_key("image")).expect_err("the same").contains("label_key"));
    assert!(build(step().keys(["image", "mask"])).expect_err("unknown").contains("mask"));
    // Keys need not exist: a pipeline for prediction loads no label.
    let text = "[[transforms]]\nname = 'LoadImage'\nkeys = 'image'\n[[transforms]]\nname = 'CheckCase'\nchannels = 1\nnum_classes = 3\n";
    let pipeline = Pipeline::from_toml(text).expect("sound");
    assert_eq!(pipeline.steps()[1].describe(), step().describe());
}

#[test]
#[ignore = "a measurement; run in release with --nocapture"]
fn costs_little() {
    let shape = [1, 122, 101, 112];
    let n = shape.iter().product::<usize>();
    let make = |f: fn(usize) -> f32| Image::from_values((0..n).map(f).collect(), shape, GRID, &host_device());
    let sample = Sample::new("a").with_image("image", make(|i| i as f32)).with_image("label", make(|i| (i % 3) as f32));
    let pipeline = Pipeline::new(step()).expect("sound");
    let start = std::time::Instant::now();
    for _ in 0..10 {
        pipeline.run(sample.clone(), DrawKey::new(0, 0, 0)).expect("sound");
    }
    println!("{:?} per case", start.elapsed() / 10);
}

/// Values that mark missing voxels in some files, for which a deviation in f32 overflows.
#[test]
fn voxels_whose_squares_overflow_are_refused() {
    let huge = |value: f32| Some(image(|values| values[7] = value));
    refused(huge(3e38), None, &["1 of 60 voxels are more than 1e18 from 0", "whose squares f32 holds"]);
    refused(huge(-f32::MAX), None, &["1 of 60 voxels are more than 1e18 from 0"]);
    assert!(run(step(), huge(9e17), None).is_ok());
}
