//! Test-time augmentation: augmentations are undone exactly, and predictions are combined as in
//! MONAI.

use std::cell::Cell;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use hearth_data::Pipeline;
use hearth_nn::inferers::{InferError, Inferer, SimpleInferer, SlidingWindowInferer};
use hearth_train::{TestTimeAugmentation, TtaError};

fn simple() -> Arc<dyn Inferer> {
    Arc::new(SimpleInferer {})
}

/// Whole numbers, all different.
fn image(shape: [usize; 5]) -> Tensor<5> {
    let count = shape.iter().product::<usize>() as i64;
    Tensor::<1, Int>::arange(0..count, &Device::flex()).float().reshape(shape)
}

fn values(x: Tensor<5>) -> Vec<f32> {
    x.into_data().iter::<f32>().collect()
}

fn pipeline(steps: &str) -> Arc<Pipeline> {
    Arc::new(Pipeline::from_toml(&format!("transforms = [{steps}]")).unwrap())
}

#[test]
fn flips_are_undone_to_the_bit() {
    let shape = [2, 1, 3, 4, 5];
    for (axes, count) in [(&[0, 1, 2][..], 8), (&[1], 2), (&[2, 0], 4)] {
        let flips = TestTimeAugmentation::flips(simple(), axes).unwrap();
        assert_eq!(flips.num_examples(shape), count);
        let mut seen = 0;
        // An identity network returns the image unchanged.
        flips
            .examples(&image(shape), &|x| x, |y| {
                assert_eq!(values(y), values(image(shape)));
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, count);
    }
    // A 2-D image has two axes to flip.
    assert_eq!(TestTimeAugmentation::flips(simple(), &[0, 1, 2]).unwrap().num_examples([1, 1, 4, 4, 1]), 4);
}

/// A network that weights each voxel: over all flips, each voxel gets the mean weight of its mirror
/// images.
#[test]
fn the_mean_over_flips_is_that_of_the_mirror_images() {
    let shape = [1, 1, 2, 4, 2];
    let weights = image(shape);
    let flips = TestTimeAugmentation::flips(simple(), &[0, 1, 2]).unwrap();
    let mean = flips.infer(Tensor::ones(shape, &Device::flex()), &|x| x * weights.clone()).unwrap();
    // The weight is linear in each axis, so the mean over a voxel and its mirror images is that of
    // all.
    let expected = (shape.iter().product::<usize>() as f32 - 1.0) / 2.0;
    assert!(values(mean).iter().all(|value| (value - expected).abs() < 1e-5));
    // One axis: only that one is evened out.
    let flips = TestTimeAugmentation::flips(simple(), &[0]).unwrap();
    let mean = flips.infer(Tensor::ones(shape, &Device::flex()), &|x| x * weights.clone()).unwrap();
    let expected: Vec<f32> = (0..16).map(|i| (i % 8) as f32 + 4.0).collect();
    assert_eq!(values(mean), expected);
}

#[test]
fn windows_may_be_inside() {
    let windows = SlidingWindowInferer::new(&[4, 4, 4]);
    let flips = TestTimeAugmentation::flips(Arc::new(windows), &[0, 1, 2]).unwrap();
    let x = image([1, 1, 8, 6, 5]);
    let found = values(flips.infer(x.clone(), &|x| x * 2.0).unwrap());
    for (a, b) in found.iter().zip(values(x)) {
        assert!((a - 2.0 * b).abs() <= 1e-3, "{a} {b}");
    }
}

#[test]
fn random_transforms_are_drawn_anew_each_time_and_undone() {
    let steps = "{ name = \"RandFlip\", keys = [\"image\"], prob = 0.5, spatial_axis = 0 }, \
                 { name = \"RandRotate90\", keys = [\"image\"], prob = 0.5, spatial_axes = [0, 1] }";
    let tta = TestTimeAugmentation::random(simple(), pipeline(steps), 12, 7, true).unwrap();
    let shape = [2, 1, 4, 4, 3];
    let mut inputs = std::cell::RefCell::new(Vec::new());
    let net = |x: Tensor<5>| {
        inputs.borrow_mut().push(values(x.clone()));
        x
    };
    let mut count = 0;
    tta.examples(&image(shape), &net, |y| {
        assert_eq!(values(y), values(image(shape)));
        count += 1;
    })
    .unwrap();
    assert_eq!(count, 12);
    let first = inputs.get_mut().clone();
    assert_eq!(first.len(), 24, "one item at a time");
    let mut kinds: Vec<_> =
        first.iter().step_by(2).map(|v| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>()).collect();
    kinds.sort();
    kinds.dedup();
    assert!(kinds.len() >= 4, "{} different inputs", kinds.len());
    // The same seed gives the same draws.
    inputs.get_mut().clear();
    let net = |x: Tensor<5>| {
        inputs.borrow_mut().push(values(x.clone()));
        x
    };
    tta.infer(image(shape), &net).unwrap();
    assert_eq!(inputs.into_inner(), first);
}

/// Resampling inside: a constant stays constant away from the border, so the inverse is right.
#[test]
fn resampled_images_come_back_onto_their_grid() {
    let steps = "{ name = \"RandZoom\", keys = [\"image\"], prob = 1.0, min_zoom = 0.8, max_zoom = 1.2 }";
    let tta = TestTimeAugmentation::random(simple(), pipeline(steps), 3, 1, false).unwrap();
    // Linear along the first axis, which linear interpolation keeps.
    let ramp =
        Tensor::<1, Int>::arange(0..16, &Device::flex()).float().reshape([1, 1, 16, 1, 1]).expand([1, 1, 16, 16, 16]);
    let back = tta.infer(ramp.clone(), &|x| x).unwrap();
    assert_eq!(back.dims(), [1, 1, 16, 16, 16]);
    let middle = |x: Tensor<5>| values(x.slice([0..1, 0..1, 6..10, 6..10, 6..10]));
    for (a, b) in middle(back).iter().zip(middle(ramp)) {
        assert!((a - b).abs() < 0.3, "{a} {b}");
    }
}

/// The values torch returns for `mode`, `mean`, `std` and `std() / mean()` of the same examples.
#[test]
fn maps_are_monais() {
    let flips = TestTimeAugmentation::flips(simple(), &[0, 1]).unwrap();
    let calls = Cell::new(0);
    // Examples 1.5, 4.2, 1.9, 3.0 at one voxel, and -0.5, 2.0, 2.0, 7.0 at all others.
    let net = |x: Tensor<5>| {
        let i = calls.get();
        calls.set(i + 1);
        let (first, rest) = ([1.5, 4.2, 1.9, 3.0][i], [-0.5, 2.0, 2.0, 7.0][i]);
        let marked = x.clone().equal_elem(1.0);
        x.zeros_like().add_scalar(rest).mask_fill(marked, first)
    };
    let image = Tensor::zeros([1, 1, 2, 2, 1], &Device::flex()).slice_fill([0..1, 0..1, 0..1, 0..1, 0..1], 1.0);
    let maps = flips.maps(&image, &net).unwrap();
    let close = |x: Tensor<5>, expected: [f32; 2]| {
        let found = values(x);
        for (i, value) in found.iter().enumerate() {
            let expected = expected[usize::from(i > 0)];
            assert!((value - expected).abs() < 1e-5, "{found:?} {expected:?}");
        }
    };
    // 1, 4, 1, 3 and 0, 2, 2, 7 as whole numbers.
    close(maps.mode, [1.0, 2.0]);
    let total = f64::from(maps.mean.clone().sum().into_scalar::<f32>());
    close(maps.mean, [2.65, 2.625]);
    close(maps.std, [1.212_436, 3.145_764]);
    assert!((maps.vvc - 0.948_721).abs() < 1e-4, "{}", maps.vvc);
    let mean = maps.sums.iter().sum::<f64>() / maps.sums.len() as f64;
    assert!((mean - total).abs() < 1e-4, "{:?} {total}", maps.sums);
}

#[test]
fn augmentations_that_cannot_be_are_errors() {
    for axes in [&[][..], &[3], &[0, 0]] {
        assert!(matches!(TestTimeAugmentation::flips(simple(), axes), Err(TtaError::Axes(_))), "{axes:?}");
    }
    let fixed = pipeline("{ name = \"Flip\", keys = [\"image\"], spatial_axis = 0 }");
    let made = |pipeline, count| TestTimeAugmentation::random(simple(), pipeline, count, 0, true).map(drop);
    assert_eq!(made(fixed, 4), Err(TtaError::NotRandom));
    let flip = pipeline("{ name = \"RandFlip\", keys = [\"image\"], prob = 0.5 }");
    assert_eq!(made(flip.clone(), 0), Err(TtaError::NoExample));
    // A prediction of another size cannot be mapped back.
    let tta = TestTimeAugmentation::random(simple(), flip, 1, 0, true).unwrap();
    let error = tta.infer(image([1, 1, 4, 4, 4]), &|x| x.narrow(2, 0, 2)).unwrap_err();
    assert!(matches!(error, InferError::Augment { example: 1, .. }), "{error}");
}
