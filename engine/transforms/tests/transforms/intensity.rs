//! Intensity transforms: all on the CPU and by tensor operations, in two and three dimensions; the
//! draws of random ones; bad parameters.

use hearth_image::{Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{Draw, DrawKey, Pipeline, Sample, Transform, Value};

/// Every intensity transform, as written in a recipe; random ones always apply.
const ALL: &[&str] = &[
    "name = 'AdjustContrast'\ngamma = 1.7\nretain_stats = true",
    "name = 'AdjustContrast'\ngamma = 0.6\ninvert_image = true",
    "name = 'ClipIntensityPercentiles'\nlower = 10\nupper = 80\nchannel_wise = true",
    "name = 'ClipIntensityPercentiles'\nupper = 80\nsharpness_factor = 2.0",
    "name = 'ColorJitter'\nbrightness = 0.4\ncontrast = 0.4\nsaturation = 0.4\nhue = 0.3",
    "name = 'ForegroundMask'\nhsv_threshold = 'mean'",
    "name = 'GaussianSharpen'\nsigma1 = 1.2",
    "name = 'GaussianSmooth'\napprox = 'scalespace'",
    "name = 'GibbsNoise'\nalpha = 0.5",
    "name = 'HistogramNormalize'\nnum_bins = 20",
    "name = 'KSpaceSpikeNoise'\nloc = [3, 4]",
    "name = 'MaskIntensity'\nmask_key = 'mask'",
    "name = 'MedianSmooth'",
    "name = 'NormalizeIntensity'",
    "name = 'NormalizeIntensity'\nnonzero = true\nchannel_wise = true",
    "name = 'RandAdjustContrast'\nprob = 1.0",
    "name = 'RandBiasField'\nprob = 1.0",
    "name = 'RandCoarseDropout'\nholes = 3\nspatial_size = 4\nprob = 1.0",
    "name = 'RandCoarseDropout'\nholes = 3\nspatial_size = 4\nprob = 1.0\ndropout_holes = false\nfill_value = 0.25",
    "name = 'RandCoarseShuffle'\nholes = 3\nspatial_size = 4\nprob = 1.0",
    "name = 'RandGaussianNoise'\nprob = 1.0",
    "name = 'RandGaussianSharpen'\nprob = 1.0",
    "name = 'RandGaussianSmooth'\nprob = 1.0",
    "name = 'RandGibbsNoise'\nprob = 1.0\nalpha = [0.3, 0.6]",
    "name = 'RandHistogramShift'\nprob = 1.0",
    "name = 'RandIntensityRemap'\nprob = 1.0",
    "name = 'RandKSpaceSpikeNoise'\nprob = 1.0",
    "name = 'RandRicianNoise'\nprob = 1.0\nchannel_wise = true\nrelative = true",
    "name = 'RandScaleIntensity'\nfactors = 0.5\nprob = 1.0\nchannel_wise = true",
    "name = 'RandScaleIntensityFixedMean'\nfactors = 0.5\nprob = 1.0\nchannel_wise = true\npreserve_range = true",
    "name = 'RandShiftIntensity'\noffsets = 0.5\nprob = 1.0",
    "name = 'RandStdShiftIntensity'\nfactors = 0.5\nprob = 1.0\nnonzero = true",
    "name = 'SavitzkyGolaySmooth'\nwindow_length = 5\norder = 2\nmode = 'replicate'",
    "name = 'ScaleIntensity'\nminv = -1\nchannel_wise = true",
    "name = 'ScaleIntensity'\nfactor = 0.5",
    "name = 'ScaleIntensityFixedMean'\nfactor = 0.5\npreserve_range = true",
    "name = 'ScaleIntensityRange'\na_min = 0.2\na_max = 0.8\nb_min = -1\nb_max = 1\nclip = true",
    "name = 'ScaleIntensityRangePercentiles'\nlower = 5\nupper = 95\nb_min = 0\nb_max = 1",
    "name = 'ShiftIntensity'\noffset = 2\nfactor_key = 'times'",
    "name = 'SobelGradients'\nnormalize_gradients = true",
    "name = 'StdShiftIntensity'\nfactor = 0.5\nnonzero = true\nchannel_wise = true",
    "name = 'ThresholdIntensity'\nthreshold = 0.5\nabove = false\ncval = 0.5",
];

/// The transform of a recipe table, for the keys `image` and `other`.
fn read(text: &str) -> Result<Pipeline, String> {
    let keys = if text.contains("keys") { "" } else { "keys = ['image', 'other']\n" };
    Pipeline::from_toml(&format!("[[transforms]]\n{keys}{text}\n")).map_err(|e| e.to_string())
}

/// Three channels between 0 and 1 with zeros among them.
fn picture(shape: [usize; 3], seed: usize) -> Image {
    let [x, y, z] = shape;
    let values = (0..3 * x * y * z)
        .map(|i| {
            let v = ((i * 7919 + seed * 104_729) % 1009) as f32 / 1008.0;
            if v < 0.1 { 0.0 } else { v }
        })
        .collect();
    let image = Image::from_values(values, [3, x, y, z], affine::IDENTITY, &host_device());
    if z == 1 { image.with_spatial_dims(2) } else { image }
}

fn sample(shape: [usize; 3]) -> Sample {
    Sample::new("case")
        .with_image("image", picture(shape, 1))
        .with_image("other", picture(shape, 2))
        .with_image("mask", picture(shape, 3))
        .with("times", Value::Number(0.25))
}

fn draw(seed: u64) -> Draw {
    DrawKey::new(seed, 0, 0).draw("case", 0, 0)
}

fn apply(transform: &dyn Transform, sample: Sample, seed: u64) -> Sample {
    let mut samples = transform.apply(sample, &draw(seed)).expect("a sound sample");
    assert_eq!(samples.len(), 1);
    samples.remove(0)
}

fn values(sample: &Sample, key: &str) -> Vec<f32> {
    sample.image(key).expect("an image").to_vec()
}

/// The same sample with tensors that record gradients, for which the CPU's loops over memory are
/// not used.
fn elsewhere(mut sample: Sample) -> Sample {
    for value in sample.values.values_mut() {
        if let Value::Image(image) = value {
            image.data = image.data.clone().autodiff();
        }
    }
    sample
}

#[test]
fn tensor_operations_give_what_the_loops_give() {
    for text in ALL {
        let pipeline = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        for shape in [[9, 8, 1], [9, 8, 7]] {
            let text = if shape[2] == 7 { text.replace("[3, 4]", "[3, 4, 2]") } else { (*text).to_owned() };
            let again = read(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let step = &again.steps()[0];
            let before = sample(shape);
            let here = apply(step.as_ref(), before.clone(), 5);
            let there = apply(step.as_ref(), elsewhere(before.clone()), 5);
            for key in ["image", "other"] {
                let (a, b) = (values(&here, key), values(&there, key));
                let largest = a.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
                assert_eq!(a.len(), b.len(), "{text}");
                for (a, b) in a.iter().zip(&b) {
                    assert!((a - b).abs() < 2e-5 * largest, "{text} {shape:?}: {a} here, {b} there");
                }
                assert_ne!(a, values(&before, key), "{text} {shape:?} changes nothing");
                let image = here.image(key).expect("an image");
                assert_eq!((image.shape(), image.affine), (shape, affine::IDENTITY), "{text}");
            }
            assert_eq!(values(&here, "mask"), values(&before, "mask"));
        }
        assert_eq!(pipeline.steps()[0].is_random(), text.contains("Rand") || text.contains("Jitter"), "{text}");
    }
}

/// The original is unchanged: a cache may hold it.
#[test]
fn shared_images_are_not_changed() {
    for text in ALL {
        let before = sample([9, 8, 1]);
        let kept = values(&before, "image");
        let _ = apply(read(text).expect("sound").steps()[0].as_ref(), before.clone(), 5);
        assert_eq!(values(&before, "image"), kept, "{text}");
    }
}

#[test]
fn an_image_without_voxels_is_no_panic() {
    let empty = || Image::from_values(vec![], [3, 0, 4, 4], affine::IDENTITY, &host_device());
    let sample = ["image", "other", "mask"].iter().fold(Sample::new("case"), |s, key| s.with_image(*key, empty()));
    let sample = sample.with("times", Value::Number(1.0));
    for text in ALL {
        // Either an error or an empty result is accepted.
        if let Ok(samples) = read(text).expect("sound").steps()[0].apply(sample.clone(), &draw(1)) {
            assert!(values(&samples[0], "image").is_empty(), "{text}");
        }
    }
}

#[test]
fn random_transforms_happen_as_often_as_asked_and_the_same_for_every_worker() {
    for text in ALL.iter().filter(|t| t.contains("prob = 1.0")) {
        let never = read(&text.replace("prob = 1.0", "prob = 0.0")).expect("sound");
        let often = read(&text.replace("prob = 1.0", "prob = 0.3")).expect("sound");
        let before = sample([9, 8, 1]);
        let mut happened = 0;
        for seed in 0..200 {
            let step = often.steps()[0].as_ref();
            let after = values(&apply(step, before.clone(), seed), "image");
            happened += usize::from(after != values(&before, "image"));
            if seed < 5 {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a pool");
                let again = pool.install(|| values(&apply(step, before.clone(), seed), "image"));
                assert_eq!(after, again, "{text}");
            }
            let same = apply(never.steps()[0].as_ref(), before.clone(), seed);
            assert_eq!(values(&same, "image"), values(&before, "image"), "{text}");
        }
        // 60 expected, deviation 6.5.
        assert!((36..=84).contains(&happened), "{text}: {happened} of 200");
    }
}

#[test]
fn keys_share_their_draws() {
    for text in ALL.iter().filter(|t| t.contains("Rand") || t.contains("Jitter")) {
        // These draw for each key separately, as in MONAI: two images have different noise.
        let own = ["Rician", "KSpace", "Remap", "Coarse"].iter().any(|name| text.contains(name));
        let both = picture([9, 8, 1], 4);
        let twins = Sample::new("case").with_image("image", both.clone()).with_image("other", both);
        let after = apply(read(text).expect("sound").steps()[0].as_ref(), twins, 9);
        let filled = text.contains("fill_value");
        assert_eq!(values(&after, "image") == values(&after, "other"), !own || filled, "{text}");
    }
}

#[test]
fn cut_out_boxes_are_shared_by_the_keys() {
    let dropout = RandCoarseDropout::new(["image", "other"], 4, 3).prob(1.0).fill_value(Some((-7.0).into()));
    let after = apply(&dropout, sample([9, 8, 7]), 3);
    let cut = |key: &str| values(&after, key).iter().map(|v| *v == -7.0).collect::<Vec<_>>();
    assert_eq!(cut("image"), cut("other"));
    let count = cut("image").iter().filter(|c| **c).count();
    assert!((3 * 27..=3 * 4 * 27).contains(&count), "{count}");
}

#[test]
fn shuffling_keeps_every_value() {
    let shuffle = RandCoarseShuffle::new("image", 2, [4, 4, 4]).prob(1.0);
    let before = sample([9, 8, 7]);
    let after = apply(&shuffle, before.clone(), 3);
    let sorted = |sample: &Sample| {
        let mut all = values(sample, "image");
        all.chunks_mut(9 * 8 * 7).for_each(|channel| channel.sort_by(f32::total_cmp));
        all
    };
    assert_eq!(sorted(&before), sorted(&after));
}

/// The first moments of the Rician distribution (Gudbjartsson and Patz, 1995): for a value of 0,
/// the mean is `s * sqrt(pi / 2)` and the mean square `2 s^2`; for a large value, the mean is that
/// value and the deviation is `s`.
#[test]
fn rician_noise_has_its_moments() {
    for (value, std) in [(0.0_f32, 2.0), (100.0, 2.0)] {
        let flat = Image::from_values(vec![value; 64 * 64 * 64], [1, 64, 64, 64], affine::IDENTITY, &host_device());
        let noise = RandRicianNoise::new("image").prob(1.0).std(std).sample_std(false);
        let after = values(&apply(&noise, Sample::new("case").with_image("image", flat), 1), "image");
        let n = after.len() as f64;
        let mean = after.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let deviation = (after.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n).sqrt();
        let expected = if value == 0.0 {
            let mean = std * (std::f64::consts::PI / 2.0).sqrt();
            (mean, (2.0 * std * std - mean * mean).sqrt())
        } else {
            (f64::from(value) + std * std / 200.0, std)
        };
        assert!((mean - expected.0).abs() < 0.02 && (deviation - expected.1).abs() < 0.02, "{mean} {deviation}");
    }
}

#[test]
fn draws_stay_in_their_ranges() {
    let one = Image::from_values(vec![1.0; 8], [2, 2, 2, 1], affine::IDENTITY, &host_device()).with_spatial_dims(2);
    let sample = Sample::new("case").with_image("image", one);
    let (mut scaled, mut shifted) = ((f32::MAX, f32::MIN), (f32::MAX, f32::MIN));
    let widen = |range: &mut (f32, f32), v: f32| *range = (range.0.min(v), range.1.max(v));
    let mut channels_differ = 0;
    for seed in 0..2000 {
        let scale = RandScaleIntensity::new("image", [0.5, -0.25]).prob(1.0).channel_wise(true);
        let after = values(&apply(&scale, sample.clone(), seed), "image");
        after.iter().for_each(|v| widen(&mut scaled, *v));
        channels_differ += usize::from(after[0] != after[4]);
        let shift = RandShiftIntensity::new("image", 3.0).prob(1.0);
        values(&apply(&shift, sample.clone(), seed), "image").iter().for_each(|v| widen(&mut shifted, *v));
    }
    assert!((0.75..0.76).contains(&scaled.0) && (1.49..=1.5).contains(&scaled.1), "{scaled:?}");
    assert!((-2.0..-1.99).contains(&shifted.0) && (3.99..=4.0).contains(&shifted.1), "{shifted:?}");
    assert!(channels_differ > 1990);
}

#[test]
fn parameters_that_make_no_sense_are_refused_before_the_first_case() {
    for (text, parameter) in [
        ("name = 'AdjustContrast'\ngamma = 0", "gamma"),
        ("name = 'AdjustContrast'\ngamma = nan", "gamma"),
        ("name = 'RandAdjustContrast'\ngamma = 0.5", "gamma"),
        ("name = 'RandAdjustContrast'\ngamma = [-1.0, 2.0]", "gamma"),
        ("name = 'RandAdjustContrast'\nprob = 1.5", "prob"),
        ("name = 'RandGaussianNoise'\nprob = -0.1", "prob"),
        ("name = 'RandGaussianNoise'\nstd = -1", "std"),
        ("name = 'RandRicianNoise'\nstd = [1.0, 2.0]", "std"),
        ("name = 'RandRicianNoise'\nmean = inf", "mean"),
        ("name = 'GaussianSmooth'\nsigma = 0", "sigma"),
        ("name = 'GaussianSmooth'\nsigma = [1, -1, 1]", "sigma"),
        ("name = 'GaussianSmooth'\nsigma = [1, 1, 1, 1]", "sigma"),
        ("name = 'GaussianSmooth'\napprox = 'box'", "box"),
        ("name = 'GaussianSharpen'\nsigma2 = nan", "sigma2"),
        ("name = 'RandGaussianSmooth'\nsigma_y = [1.5, 0.5]", "sigma_y"),
        ("name = 'RandGaussianSmooth'\nsigma_z = [0, 0]", "sigma_z"),
        ("name = 'RandGaussianSharpen'\nsigma1_x = [-1.0, 1.0]", "sigma1_x"),
        ("name = 'RandGaussianSharpen'\nalpha = [nan, 1.0]", "alpha"),
        ("name = 'ClipIntensityPercentiles'", "lower"),
        ("name = 'ClipIntensityPercentiles'\nlower = -1", "lower"),
        ("name = 'ClipIntensityPercentiles'\nupper = 101", "upper"),
        ("name = 'ClipIntensityPercentiles'\nlower = 60\nupper = 40", "lower"),
        ("name = 'ClipIntensityPercentiles'\nupper = 90\nsharpness_factor = 0", "sharpness_factor"),
        ("name = 'ScaleIntensityRangePercentiles'\nlower = nan\nupper = 40", "lower"),
        ("name = 'ScaleIntensityRangePercentiles'\nlower = 1\nupper = 40\nrelative = true", "b_min"),
        ("name = 'ScaleIntensityRange'\na_min = 2\na_max = 1", "a_min"),
        ("name = 'ScaleIntensityRange'\na_min = 0\na_max = nan", "a_max"),
        ("name = 'ScaleIntensityRange'\na_min = 0\na_max = 1\nb_min = 1\nb_max = 0\nclip = true", "b_min"),
        ("name = 'ScaleIntensity'\nminv = 0\nfactor = 1", "factor"),
        ("name = 'ScaleIntensityFixedMean'\nfactor = inf", "factor"),
        ("name = 'RandScaleIntensity'\nfactors = [0.1, 0.2, 0.3]", "factors"),
        ("name = 'RandShiftIntensity'\noffsets = nan", "offsets"),
        ("name = 'ShiftIntensity'\noffset = 1\nfactor_key = ['a', 'b', 'c']", "factor_key"),
        ("name = 'RandStdShiftIntensity'\nfactors = []", "factors"),
        ("name = 'ThresholdIntensity'\nthreshold = nan", "threshold"),
        ("name = 'RandHistogramShift'\nnum_control_points = 2", "num_control_points"),
        ("name = 'RandHistogramShift'\nnum_control_points = [3, 4, 5]", "num_control_points"),
        ("name = 'HistogramNormalize'\nnum_bins = 0", "num_bins"),
        ("name = 'HistogramNormalize'\nmin = 2\nmax = 1", "min"),
        ("name = 'GibbsNoise'\nalpha = 1.5", "alpha"),
        ("name = 'RandGibbsNoise'\nalpha = [0.6, 0.4]", "alpha"),
        ("name = 'KSpaceSpikeNoise'\nloc = []", "loc"),
        ("name = 'KSpaceSpikeNoise'\nloc = [1, 2, 3]\nk_intensity = [1, 2]", "k_intensity"),
        ("name = 'KSpaceSpikeNoise'\nloc = [[1, 2, 3]]\nk_intensity = 1", "k_intensity"),
        ("name = 'RandKSpaceSpikeNoise'\nintensity_range = [2.0, 1.0]", "intensity_range"),
        ("name = 'RandKSpaceSpikeNoise'\nintensity_range = [[1.0, 2.0]]\nchannel_wise = false", "intensity_range"),
        ("name = 'MedianSmooth'\nradius = 100", "radius"),
        ("name = 'SavitzkyGolaySmooth'\nwindow_length = 4\norder = 2", "window_length"),
        ("name = 'SobelGradients'\nkernel_size = 2", "kernel_size"),
        ("name = 'SobelGradients'\nspatial_axes = 3", "spatial_axes"),
        ("name = 'RandBiasField'\ndegree = 0", "degree"),
        ("name = 'RandBiasField'\ncoeff_range = [0.1, 0.0]", "coeff_range"),
        ("name = 'RandCoarseDropout'\nholes = 0\nspatial_size = 3", "holes"),
        ("name = 'RandCoarseDropout'\nholes = 1\nspatial_size = 3\nfill_value = nan", "fill_value"),
        ("name = 'RandCoarseShuffle'\nholes = 2\nspatial_size = 3\nmax_holes = 1", "max_holes"),
        ("name = 'RandIntensityRemap'\nkernel_size = 0", "kernel_size"),
        ("name = 'ForegroundMask'\nthreshold = { X = 1 }", "X"),
        ("name = 'ForegroundMask'\nthreshold = 'guess'", "ForegroundMask"),
        ("name = 'ColorJitter'\nhue = 0.7", "hue"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(parameter), "{text}: {error}");
    }
}

#[test]
fn images_that_do_not_fit_are_told() {
    let image = || sample([9, 8, 7]);
    let other = |key: &str, shape| image().with_image(key, picture(shape, 1));
    for (text, sample, word) in [
        ("name = 'MaskIntensity'\nmask_key = 'mask'", other("mask", [9, 8, 6]), "mask has the shape"),
        ("name = 'HistogramNormalize'\nmask_key = 'mask'", other("mask", [9, 8, 6]), "mask has the shape"),
        ("name = 'GaussianSmooth'\nsigma = [1, 1]", image(), "sigma has 2 entries"),
        ("name = 'MedianSmooth'\nradius = [1, 1]", image(), "radius has 2 entries"),
        ("name = 'NormalizeIntensity'\nchannel_wise = true\nsubtrahend = [1, 2]", image(), "subtrahend"),
        ("name = 'RandRicianNoise'\nchannel_wise = true\nstd = [1, 2]\nprob = 1.0", image(), "`std` has 2 entries"),
        ("name = 'SobelGradients'\nspatial_axes = 2", other("other", [9, 8, 1]), "axis 2"),
        ("name = 'SavitzkyGolaySmooth'\nwindow_length = 5\norder = 1\naxis = 3", other("image", [9, 8, 1]), "axis 3"),
        ("name = 'SobelGradients'\nkernel_size = 21", image(), "reaches 10 voxels"),
        ("name = 'KSpaceSpikeNoise'\nloc = [8, 8, 2]", image(), "outside"),
        ("name = 'KSpaceSpikeNoise'\nloc = [1, 1]", image(), "2 numbers"),
        (
            "name = 'ShiftIntensity'\noffset = 1\nfactor_key = 'mask'\nkeys = ['image', 'mask']",
            image(),
            "expected a number",
        ),
        ("name = 'RandKSpaceSpikeNoise'\nintensity_range = [[1.0, 2.0]]\nprob = 1.0", image(), "intensity_range"),
    ] {
        let pipeline = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let error = pipeline.steps()[0].apply(sample, &draw(0)).expect_err(text).to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn names_of_cucim_mean_transforms() {
    for (text, name) in [
        ("name = 'color_jitter'\nbrightness = 0.25\nhue = 0.04", "ColorJitter"),
        ("name = 'normalize_data'\nnorm_constant = 1\nmin_value = 0\nmax_value = 255", "ScaleIntensityRange"),
        ("name = 'scale_intensity_range'\na_min = 0\na_max = 255\nb_min = -1\nb_max = 1", "ScaleIntensityRange"),
        ("name = 'rand_image_flip'\nspatial_axis = [1, 2]", "RandFlip"),
        ("name = 'rand_image_rotate_90'\nspatial_axis = [1, 2]\nmax_k = 2", "RandRotate90"),
        // Not a function of cuCIM, but with parameters in its style.
        ("name = 'rand_flip'", "RandFlip"),
        ("name = 'rand_rotate90'", "RandRotate90"),
        ("name = 'gaussian_smooth'", "GaussianSmooth"),
    ] {
        let pipeline = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(pipeline.steps()[0].name(), name, "{text}");
    }
    assert!(read("name = 'image_flip'\nspatial_axis = 0").expect_err("the channels").contains("not a spatial axis"));
    assert!(read("name = 'stain_normalize'").expect_err("unknown").contains("stain_normalize"));
    let normalize = read("name = 'normalize_data'\nnorm_constant = 10\nmin_value = -1\nmax_value = 4").expect("sound");
    let before = sample([4, 4, 1]);
    let after = apply(normalize.steps()[0].as_ref(), before.clone(), 0);
    for (a, b) in values(&after, "image").iter().zip(values(&before, "image")) {
        assert!((a - (b + 1.0) * 2.0).abs() < 1e-5);
    }
}
