//! Blended windows equal the result for the whole image, for all options.

use burn::tensor::{Device, Tensor};
use hearth_nn::inferers::{
    BlendMode, CamName, InferError, Inferer, Overlap, PaddingMode, PatchInferer, SaliencyInferer, SliceInferer,
    SlidingWindowInferer, SlidingWindowSplitter,
};
use hearth_nn::layers::Axes;

use crate::{assert_close, draw, values};

/// A voxel-wise network, with which windows and blending have no effect on the result.
fn pointwise(x: Tensor<5>) -> Tensor<5> {
    Tensor::cat(vec![x.clone() * 2.0, x * x_plus()], 1)
}

fn x_plus() -> f32 {
    -0.5
}

#[test]
fn a_pointwise_network_gives_the_same_window_by_window() {
    let x = draw([2, 1, 13, 9, 7], 1, &Device::default());
    let expected = values(pointwise(x.clone()));
    for mode in [BlendMode::Constant, BlendMode::Gaussian] {
        for padding_mode in [PaddingMode::Constant, PaddingMode::Reflect, PaddingMode::Replicate, PaddingMode::Circular]
        {
            for (roi, overlap) in [([4, 4, 4], 0.25), ([5, 12, 3], 0.0), ([6, 6, 9], 0.7), ([20, 16, 12], 0.5)] {
                for sw_batch_size in [1, 3, 64] {
                    let inferer = SlidingWindowInferer {
                        sw_batch_size,
                        overlap: Axes::All(overlap),
                        mode,
                        padding_mode,
                        ..SlidingWindowInferer::new(&roi)
                    };
                    let y = inferer.infer(x.clone(), &pointwise).expect("a scan");
                    assert_eq!(y.dims(), [2, 2, 13, 9, 7]);
                    assert_close(&values(y), &expected, 1e-6);
                }
            }
        }
    }
}

#[test]
fn windows_have_the_size_that_was_asked_for() {
    let x = draw([1, 1, 10, 12, 1], 2, &Device::default());
    let inferer = SlidingWindowInferer { sw_batch_size: 2, ..SlidingWindowInferer::new(&[4, 16]) };
    let y = inferer.infer(x.clone(), &|window| {
        let [n, _, x, y, z] = window.dims();
        assert!(n <= 2 && [x, y, z] == [4, 16, 1]);
        window
    });
    assert_close(&values(y.expect("a scan")), &values(x), 1e-6);
}

/// f16 inputs are summed in f32.
#[test]
fn sums_are_f32_whatever_the_input() {
    let x = draw([1, 1, 8, 8, 8], 3, &Device::default());
    let half = x.clone().cast(burn::tensor::DType::F16);
    let inferer = SlidingWindowInferer { overlap: Axes::All(0.9), ..SlidingWindowInferer::new(&[5, 5, 5]) };
    let y = inferer.infer(half, &|window| window).expect("a scan");
    assert_eq!(y.dtype(), burn::tensor::DType::F32);
    assert_close(&values(y), &values(x), 6e-4);
}

#[test]
fn options_that_cannot_be_are_named() {
    let x = draw([1, 1, 8, 8, 8], 4, &Device::default());
    let fails = |inferer: SlidingWindowInferer, word: &str| {
        let error = inferer.infer(x.clone(), &|window| window).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    };
    fails(SlidingWindowInferer::new(&[4, 4]), "roi_size");
    fails(SlidingWindowInferer { overlap: Axes::All(1.0), ..SlidingWindowInferer::new(&[4; 3]) }, "overlap");
    fails(SlidingWindowInferer { sw_batch_size: 0, ..SlidingWindowInferer::new(&[4; 3]) }, "sw_batch_size");
    let reflect = SlidingWindowInferer { padding_mode: PaddingMode::Reflect, ..SlidingWindowInferer::new(&[40; 3]) };
    fails(reflect, "padding_mode");
    let error = SlidingWindowInferer { sw_batch_size: 8, ..SlidingWindowInferer::new(&[4; 3]) }
        .infer(x.clone(), &|window| window.narrow(0, 0, 1))
        .expect_err("fewer outputs than windows");
    assert!(matches!(error, InferError::Output { .. }), "{error}");
}

#[test]
fn recipes_use_monais_names() {
    let inferer: SlidingWindowInferer =
        toml::from_str("roi_size = [160, 160, -1]\nsw_batch_size = 4\noverlap = 0.5\nmode = \"gaussian\"")
            .expect("MONAI's names");
    assert_eq!(inferer.roi_size, Axes::Each(vec![160, 160, -1]));
    assert_eq!(inferer.mode, BlendMode::Gaussian);
    assert!(toml::from_str::<SlidingWindowInferer>("roi_size = 96\noverlaps = 0.5").is_err());
}

#[test]
fn slices_patches_and_buffers_give_what_the_whole_gives() {
    let x = draw([2, 1, 13, 9, 7], 1, &Device::default());
    let expected = values(pointwise(x.clone()));
    for spatial_dim in 0..3 {
        let window = SlidingWindowInferer { sw_batch_size: 3, ..SlidingWindowInferer::new(&[4, 5]) };
        let y = SliceInferer { spatial_dim, window }.infer(x.clone(), &pointwise).expect("a scan");
        assert_close(&values(y), &expected, 1e-6);
    }
    for overlap in [Overlap::Voxels(1), Overlap::Share(0.5)] {
        let splitter = SlidingWindowSplitter { overlap: Axes::All(overlap), ..SlidingWindowSplitter::new(&[4, 6, 2]) };
        let inferer = PatchInferer { batch_size: 4, ..PatchInferer::new(splitter) };
        let y = inferer.infer(x.clone(), &pointwise).expect("patches");
        assert_eq!(y.dims(), [2, 2, 13, 9, 7]);
        assert_close(&values(y), &expected, 1e-6);
    }
    for (steps, axis) in [(1, 0), (2, 1), (3, -1), (100, -3)] {
        let inferer = SlidingWindowInferer {
            buffer_steps: Some(steps),
            buffer_dim: axis,
            overlap: Axes::All(0.5),
            mode: BlendMode::Gaussian,
            sw_batch_size: 2,
            ..SlidingWindowInferer::new(&[5, 4, 9])
        };
        assert_close(&values(inferer.infer(x.clone(), &pointwise).expect("a scan")), &expected, 1e-6);
    }
    let inferer =
        SlidingWindowInferer { buffer_steps: Some(1), buffer_dim: 3, ..SlidingWindowInferer::new(&[5, 4, 9]) };
    assert!(inferer.infer(x, &pointwise).expect_err("no such axis").to_string().contains("buffer_dim"));
}

/// A mean over space and a matrix: the weights of the features are the rows of the matrix over the
/// number of voxels.
#[test]
fn saliency_is_the_features_weighted_by_the_class() {
    let device = Device::default();
    let x = draw([1, 2, 4, 3, 1], 5, &device);
    let head = |features: Tensor<5>| {
        let mean = features.mean_dim(2).mean_dim(3);
        Tensor::cat(vec![mean.clone().narrow(1, 0, 1) * 3.0 - mean.clone().narrow(1, 1, 1), mean.sum_dim(1)], 1)
    };
    let inferer = SaliencyInferer { class_idx: Some(0), ..Default::default() };
    let map = values(inferer.infer(x.clone(), &|x| x, &head).expect("scores"));
    let features = values(x.clone());
    let raw: Vec<f32> = (0..12).map(|i| (3.0 * features[i] - features[12 + i]).max(0.0)).collect();
    let largest = raw.iter().copied().fold(0.0, f32::max);
    assert_close(&map, &raw.iter().map(|v| 1.0 - v / largest).collect::<Vec<_>>(), 1e-5);
    let plus = SaliencyInferer { cam_name: CamName::GradCAMpp, ..inferer };
    assert_eq!(plus.infer(x.clone(), &|x| x, &head).expect("scores").dims(), [1, 1, 4, 3, 1]);
    let missing = SaliencyInferer { class_idx: Some(2), ..inferer };
    assert!(missing.infer(x, &|x| x, &head).expect_err("two classes").to_string().contains("no class 2"));
}

/// What would fail on the first image is refused when the network is known.
#[test]
fn lists_have_a_number_for_each_axis_of_the_network() {
    let two = || SlidingWindowInferer::new(&[8, 8]);
    let three = || SlidingWindowInferer::new(&[8, 8, 8]);
    assert_eq!([two().check_for(2), three().check_for(2), three().check_for(3)], [Ok(()), Ok(()), Ok(())]);
    let narrow = SlidingWindowInferer { overlap: Axes::Each(vec![0.5, 0.5]), ..three() };
    let one = SlidingWindowInferer { sigma_scale: Axes::Each(vec![0.1]), ..two() };
    let far = SlidingWindowInferer { buffer_steps: Some(1), buffer_dim: -4, ..three() };
    for (inferer, dims, key) in
        [(two(), 3, "roi_size"), (narrow, 3, "overlap"), (one, 2, "sigma_scale"), (far, 3, "buffer_dim")]
    {
        let refused = inferer.check_for(dims).expect_err(key);
        assert!(matches!(&refused, InferError::Value { name, .. } if *name == key), "{refused}");
        let shape = [1, 1, 9, 9, if dims == 2 { 1 } else { 9 }];
        assert!(inferer.infer(Tensor::ones(shape, &Device::default()), &pointwise).is_err(), "{key}");
    }
    for (text, key) in [
        ("patch_size = [4, 4]", "patch_size"),
        ("patch_size = 4\noverlap = [1, 1]", "overlap"),
        ("patch_size = 4\noverlap = 1.5", "overlap"),
    ] {
        let inferer = PatchInferer::new(toml::from_str(text).expect("options"));
        let refused = inferer.check_for(3).expect_err(key);
        assert!(matches!(&refused, InferError::Value { name, .. } if *name == key), "{refused}");
        assert!(inferer.infer(Tensor::ones([1, 1, 9, 9, 9], &Device::default()), &pointwise).is_err(), "{key}");
    }
    let slices = |text: &str| toml::from_str::<SliceInferer>(text).expect("options");
    assert_eq!(slices("spatial_dim = 2\nroi_size = [4, 4]").check_for(2), Ok(()));
    assert!(slices("spatial_dim = 2\nroi_size = [4, 4]").check_for(3).is_err(), "a network of volumes");
    for text in
        ["spatial_dim = 2\nroi_size = 4", "spatial_dim = 2\nroi_size = [4, 4, 4]", "spatial_dim = 3\nroi_size = [4, 4]"]
    {
        assert!(slices(text).check().is_err(), "{text}");
    }
}
