//! Maps of what an answer depends on, compared with closed forms and finite differences.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_nn::inferers::{CamName, SaliencyInferer};
use hearth_nn::layers::{Axes, Convolution, ConvolutionOptions, Scope};
use hearth_nn::networks::{AnyNetwork, DenseNetConfig, Network, NetworkConfig};
use hearth_nn::visualize::{GradCam, Occlusion, OcclusionSensitivity, SmoothGrad, VanillaGrad, VisualizeError};

use crate::{assert_close, draw, values};

/// Features by a convolution, their mean, and a score for each class that is a weighted sum of the means.
#[derive(Module, Debug)]
struct Weighted {
    conv: Convolution,
    #[module(skip)]
    weights: [[f32; 3]; 2],
}

impl Weighted {
    fn new() -> Self {
        let conv = Convolution::new(
            &Scope::new(&Device::default(), 7).enter("conv"),
            &ConvolutionOptions::new([1, 3], [3; 3]),
        );
        Self { conv: conv.expect("a layer"), weights: [[1.0, -0.5, 2.0], [-1.0, 0.25, 0.0]] }
    }

    fn features(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv.forward(x)
    }

    fn head(&self, features: Tensor<5>) -> Tensor<5> {
        let means = features.mean_dim(2).mean_dim(3).mean_dim(4);
        let score = |weights: [f32; 3]| {
            let terms = weights.into_iter().enumerate().map(|(k, weight)| means.clone().narrow(1, k, 1) * weight);
            terms.reduce(|sum, term| sum + term).expect("three channels")
        };
        Tensor::cat(self.weights.map(score).to_vec(), 1)
    }
}

impl Network for Weighted {
    fn channels(&self) -> [usize; 2] {
        [1, 2]
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.head(self.features(x))
    }
}

/// For the mean of features and a linear layer, the map is the weighted sum of the features (Selvaraju et
/// al., section 3.1).
#[test]
fn a_layer_is_weighted_by_the_class() {
    let (net, x) = (Weighted::new(), draw([2, 1, 5, 4, 3], 3, &Device::default()));
    for class in [0, 1] {
        let found = GradCam::default().class_idx(class).map(&AnyNetwork::new(net.clone()), x.clone()).expect("a map");
        assert_eq!(found.dims(), [2, 1, 5, 4, 3]);
        let features = values(net.features(x.clone()));
        let mut expected = Vec::new();
        for item in features.chunks(3 * 60) {
            let sum = |at: usize| (0..3).map(|k| net.weights[class][k] * item[k * 60 + at]).sum::<f32>().max(0.0);
            let raw: Vec<f32> = (0..60).map(sum).collect();
            let low = raw.iter().copied().fold(f32::INFINITY, f32::min);
            let high = raw.iter().copied().fold(0.0, f32::max);
            expected.extend(raw.into_iter().map(|value| (value - low) / (high - low)));
        }
        assert_close(&values(found), &expected, 1e-5);
    }
    // MONAI's map is the inverse, and its network is given in two parts.
    let inverse = SaliencyInferer { cam_name: CamName::GradCAMpp, class_idx: Some(0) };
    let inverse = inverse.infer(x.clone(), &|x| net.features(x), &|features| net.head(features)).expect("a map");
    let cam = GradCam { cam_name: CamName::GradCAMpp, target_layer: Some("conv".into()), class_idx: Some(0) };
    assert_close(&values(cam.map(&net, x).expect("a map")), &values(-inverse + 1.0), 1e-5);
}

/// The values of all running statistics.
fn statistics<N: Network>(net: &N) -> Vec<f32> {
    struct Read(Vec<f32>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.val().into_data().iter::<f32>());
        }
    }
    let mut read = Read(Vec::new());
    net.visit(&mut read);
    read.0
}

/// The gradient of a network with batch norms and dropout is that of its evaluation, and leaves it as it is.
#[test]
fn gradients_are_those_of_the_evaluation() {
    let config = DenseNetConfig {
        block_config: Some(vec![2, 2]),
        init_features: 8,
        growth_rate: 4,
        dropout_prob: 0.5,
        ..DenseNetConfig::new(2, 1, 3)
    };
    let net = config.init(&Device::default().autodiff(), 1).expect("a network");
    let x = draw([1, 1, 16, 16, 1], 2, &Device::default());
    let before = statistics(&net);
    let gradient = values(VanillaGrad::default().class_idx(1).map(&net, x.clone()).expect("a gradient"));
    assert_eq!(statistics(&net), before);
    let plain = net.valid();
    let score = |x: Tensor<5>| f64::from(values(plain.forward(x))[1]);
    let step = 1e-2_f32;
    let largest = gradient.iter().copied().map(f32::abs).fold(0.0, f32::max);
    for place in [0, 37, 120, 200, 255] {
        let moved = |by: f32| {
            let mut voxels = values(x.clone());
            voxels[place] += by;
            score(Tensor::from_data(TensorData::new(voxels, [1, 1, 16, 16, 1]), &Device::default()))
        };
        let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
        let off = (slope - f64::from(gradient[place])).abs();
        assert!(off < 0.05 * f64::from(largest), "{place}: {slope} and {}", gradient[place]);
    }
    // Without noise the samples are the gradient: root of n squares, divided by n.
    let still = SmoothGrad::default().class_idx(1).stdev_spread(0.0).n_samples(4);
    let expected: Vec<f32> = gradient.iter().map(|value| value.abs() / 2.0).collect();
    assert_close(&values(still.map(&net, x.clone()).expect("a map")), &expected, 1e-6);
    let mean = still.magnitude(false).map(&net, x.clone()).expect("a map");
    assert_close(&values(mean), &gradient, 1e-6);
    assert!(still.n_samples(0).map(&net, x).is_err());
}

#[test]
fn layers_are_found_by_the_names_of_state_dicts() {
    let text = "name = 'ResNet'\nblock = 'basic'\nlayers = [1, 1, 1, 1]\nblock_inplanes = [4, 8, 8, 16]\nspatial_dims = 2\n\
                n_input_channels = 1\nnum_classes = 2";
    let config: NetworkConfig = toml::from_str(text).expect("a network");
    let net = config.init(&Device::default(), 5).expect("a network");
    let x = draw([1, 1, 64, 64, 1], 2, &Device::default());
    let map = |layer: Option<&str>| {
        // The weights of this one are positive, so that no map of activations is empty.
        let cam_name = CamName::GradCAMpp;
        let cam = GradCam { cam_name, target_layer: layer.map(str::to_owned), class_idx: Some(0) };
        cam.map(&net, x.clone()).map(values)
    };
    // The last map of features is the output of the last stage, behind its sum and its activation.
    let usual = map(None).expect("a map");
    assert_eq!(usual.iter().copied().fold(0.0, f32::max), 1.0);
    assert!(map(Some("layer4")).expect("a map") == usual);
    assert!(map(Some("layer3")).expect("a map") != usual);
    assert!(map(Some("layer4.0.conv2")).expect("a map") != usual);
    // The layer of the scores has no places, and layers without parameters have no name.
    assert!(matches!(map(Some("fc")), Err(VisualizeError::Point { layer, .. }) if layer == "fc"));
    assert!(matches!(map(Some("")), Err(VisualizeError::Layer { .. })));
    match map(Some("layer5")) {
        Err(VisualizeError::Layer { layer, known, .. }) => {
            assert!(layer == "layer5" && known.contains("layer4.0.") && known.ends_with("fc"), "{known}");
        }
        other => panic!("{other:?}"),
    }
    let class = GradCam::default().class_idx(2).map(&net, x.clone());
    assert!(matches!(class, Err(VisualizeError::Class { class: 2, classes: 2 })), "{class:?}");
}

/// A sum of voxels falls by what is hidden, so that each voxel has the mean of the windows over it.
#[test]
fn what_is_hidden_is_missing_from_the_score() {
    let device = Device::default();
    let (shape, mask) = ([8_usize, 7], 4_usize);
    let x = draw([1, 1, 8, 7, 1], 9, &device);
    let weights = draw([1, 1, 8, 7, 1], 10, &device);
    let net = |x: Tensor<5>| (x * weights.clone()).sum_dim(2).sum_dim(3);
    let (voxels, weighted) = (values(x.clone()), values(weights.clone()));
    let total: f32 = voxels.iter().zip(&weighted).map(|(x, w)| x * w).sum();
    let mean = voxels.iter().sum::<f32>() / 56.0;
    // Windows of 4 with steps of 3, the last one moved back.
    let (rows, columns) = ([0, 3, 4], [0, 3]);
    for (mode, content) in
        [(Occlusion::Constant(2.0), Some(2.0)), (Occlusion::MeanImage, Some(mean)), (Occlusion::MeanPatch, None)]
    {
        let (mut sum, mut count) = (vec![0.0; 56], vec![0.0; 56]);
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (*row, *column))) {
            let inside: Vec<usize> = (0..16).map(|i| (row + i / mask) * shape[1] + column + i % mask).collect();
            let patch = inside.iter().map(|at| voxels[*at]).sum::<f32>() / 16.0;
            let value = content.unwrap_or(patch);
            let score = total + inside.iter().map(|at| (value - voxels[*at]) * weighted[*at]).sum::<f32>();
            for at in inside {
                sum[at] += score;
                count[at] += 1.0;
            }
        }
        let expected: Vec<f32> = sum.iter().zip(&count).map(|(sum, count)| sum / count).collect();
        for n_batch in [1, 4, 16] {
            let hide = OcclusionSensitivity::default().mask_size(mask).mode(mode).n_batch(n_batch);
            assert_close(&values(hide.scores(x.clone(), &net).expect("scores")), &expected, 1e-4);
        }
    }
    // A window of the image's size is the only one.
    let whole = OcclusionSensitivity::default().mask_size(Axes::Each(vec![8, 7]));
    let map = values(whole.scores(x.clone(), &net).expect("scores"));
    assert!(map.iter().all(|value| *value == map[0]), "{map:?}");
    let large = OcclusionSensitivity::default().scores(x.clone(), &net).expect_err("larger than the image");
    assert!(large.to_string().contains("mask_size is 16"), "{large}");
    assert!(OcclusionSensitivity::default().mask_size(mask).overlap(1.0).scores(x, &net).is_err());
}
