//! Gradients against finite differences of the forward pass.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;
use hearth_nn::layers::LayerSpec;
use hearth_nn::losses::{
    BceWithLogitsLoss, ClassWeight, CrossEntropyLoss, DiceCELoss, DiceLoss, FocalLoss, GeneralizedDiceLoss,
    GeneralizedWassersteinDiceLoss, Loss, OtherActivation, Reduction, SsimLoss, TverskyLoss, one_hot,
};
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::Gradients;

use crate::{draw, labels, values};

/// Compares the gradient along random directions with central differences.
#[track_caller]
pub(crate) fn check_input(what: &str, x: Tensor<5>, f: impl Fn(Tensor<5>) -> Tensor<1>) {
    let device = x.device();
    let leaf = x.clone().autodiff().require_grad();
    let gradient = leaf.grad(&f(leaf.clone()).sum().backward()).expect("the input has a gradient");
    for seed in 0..3 {
        let direction = draw(x.dims(), 100 + seed, &device);
        let along = values((gradient.clone() * direction.clone()).sum())[0];
        let h = 2e-3;
        let at = |t: f32| values(f(x.clone() + direction.clone() * t).sum())[0];
        // Of fourth order, because rounding errors leave little margin.
        let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
        let size = values((gradient.clone() * gradient.clone()).sum())[0].sqrt();
        assert!((along - numeric).abs() < 3e-3 * (size + 1e-2), "{what}: {along} for {numeric} (gradient {size})");
    }
}

#[test]
fn losses() {
    let device = Device::default();
    let x = draw([2, 3, 3, 2, 2], 1, &device);
    let y = labels([2, 1, 3, 2, 2], 3, 2, &device);
    let hot = one_hot(y.clone(), 3);
    let soft = draw([2, 3, 3, 2, 2], 3, &device).abs();
    // Below every prediction, so that no absolute difference has its kink within a step.
    let low = soft.clone() * 0.2;
    let plain = DiceLoss { softmax: true, ..DiceLoss::default() };
    let all: Vec<(&str, Box<dyn Loss>, Tensor<5>)> = vec![
        ("softmax", Box::new(plain.clone()), hot.clone()),
        ("squared", Box::new(DiceLoss { squared_pred: true, ..plain.clone() }), hot.clone()),
        ("squared, soft", Box::new(DiceLoss { squared_pred: true, soft_label: true, ..plain.clone() }), soft.clone()),
        ("jaccard", Box::new(DiceLoss { jaccard: true, batch: true, ..plain.clone() }), hot.clone()),
        ("soft", Box::new(DiceLoss { soft_label: true, sigmoid: true, ..DiceLoss::default() }), low),
        ("tanh", Box::new(DiceLoss { other_act: Some(OtherActivation::Tanh), ..DiceLoss::default() }), soft.clone()),
        (
            "weights",
            Box::new(DiceLoss {
                to_onehot_y: true,
                include_background: false,
                weight: Some(ClassWeight::Each(vec![0.5, 2.0])),
                reduction: Reduction::Sum,
                ..plain.clone()
            }),
            y.clone(),
        ),
        ("ignore", Box::new(DiceLoss { to_onehot_y: true, ignore_index: Some(1), ..plain }), y.clone()),
        (
            "entropy",
            Box::new(CrossEntropyLoss {
                weight: Some(vec![0.2, 1.0, 3.0]),
                label_smoothing: 0.1,
                ignore_index: 2,
                ..CrossEntropyLoss::default()
            }),
            y.clone(),
        ),
        ("probabilities", Box::new(CrossEntropyLoss { label_smoothing: 0.2, ..Default::default() }), soft.clone()),
        (
            "binary",
            Box::new(BceWithLogitsLoss { pos_weight: Some(ClassWeight::All(3.0)), ..Default::default() }),
            hot.clone(),
        ),
        (
            "focal",
            Box::new(FocalLoss {
                use_softmax: true,
                alpha: Some(ClassWeight::All(0.7)),
                gamma: 1.5,
                ..Default::default()
            }),
            hot.clone(),
        ),
        ("tversky", Box::new(TverskyLoss { sigmoid: true, alpha: 0.2, beta: 1.1, ..Default::default() }), soft.clone()),
        ("generalized", Box::new(GeneralizedDiceLoss { softmax: true, ..Default::default() }), hot.clone()),
        (
            "wasserstein",
            Box::new(GeneralizedWassersteinDiceLoss::new(vec![
                vec![0.0, 1.0, 0.5],
                vec![1.0, 0.0, 0.2],
                vec![0.5, 0.2, 0.0],
            ])),
            y.clone(),
        ),
        ("ssim", Box::new(SsimLoss { win_size: 2.into(), ..SsimLoss::new(3) }), soft.clone()),
        ("both", Box::new(DiceCELoss { softmax: true, to_onehot_y: true, batch: true, ..Default::default() }), y),
    ];
    for (what, loss, target) in all {
        check_input(what, x.clone(), |x| {
            loss.forward(x.clone(), target.clone()).unwrap_or_else(|e| panic!("{what}: {e}"))
        });
    }
}

fn network(norm: &str, act: &str, units: usize, dims: usize) -> UNet {
    let config = UNetConfig {
        num_res_units: units,
        norm: Some(match norm {
            "group" => LayerSpec::With("group".into(), [("num_groups".to_owned(), 2.into())].into_iter().collect()),
            name => name.into(),
        }),
        act: Some(act.into()),
        ..UNetConfig::new(dims, 2, 2, &[4, 6], &[2])
    };
    config.init(&Device::default().autodiff(), 5).expect("a network")
}

/// Smooth activations, because a kink within the step would distort the difference.
#[test]
fn networks_to_their_input() {
    for (norm, act, units) in [("batch", "tanh", 2), ("instance", "swish", 1), ("group", "mish", 0), ("", "gelu", 2)] {
        let net = network(norm, act, units, 3);
        // In training mode, although only the value is used.
        check_input(&format!("{norm} {act}"), draw([2, 2, 6, 4, 4], 7, &Device::default()), |x| {
            let y = net.forward(x.autodiff());
            let cot = draw(y.dims(), 9, &y.device());
            (y * cot).sum()
        });
    }
}

/// Adds a multiple of a direction to every trained parameter.
struct Shift(f32, u64);

impl ModuleMapper for Shift {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.1 += 1;
        let key = Key::new(self.1);
        let (id, value, mapper) = param.consume();
        if !value.is_require_grad() {
            return Param::from_mapped_value(id, value, mapper);
        }
        let (shape, device) = (value.dims(), value.device());
        let count = shape.iter().product::<usize>() as u64;
        let step: Vec<f32> = (0..count).map(|i| self.0 * (2.0 * key.uniform(i) - 1.0) as f32).collect();
        let moved = value.without_autodiff() + Tensor::from_data(TensorData::new(step, shape), &device.inner());
        Param::from_mapped_value(id, moved.autodiff().require_grad(), mapper)
    }
}

#[test]
fn networks_to_their_parameters() {
    for (norm, units, dims) in [("batch", 2, 3), ("instance", 1, 3), ("group", 0, 3), ("instance", 2, 2)] {
        let net = network(norm, "tanh", units, dims);
        let device = Device::default().autodiff();
        let x = draw([2, 2, 6, 4, if dims == 2 { 1 } else { 4 }], 7, &device);
        let f = |net: &UNet| {
            let y = net.forward(x.clone());
            let cot = draw(y.dims(), 9, &device);
            (y * cot).sum()
        };
        let gradients = Gradients::of(&net, &f(&net));
        let at = |t: f32| values(f(&net.clone().map(&mut Shift(t, 0))))[0];
        let h = 4e-3;
        let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
        // The same directions, as the difference of two shifted networks, give the exact slope.
        let weights = |t: f32| {
            let mut all = std::collections::BTreeMap::new();
            let bytes = hearth_nn::weights::to_bytes(&net.clone().map(&mut Shift(t, 0))).expect("weights");
            let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
            for (name, view) in file.tensors() {
                let data = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                all.insert(name, data.collect::<Vec<f32>>());
            }
            all
        };
        let (moved, still) = (weights(1.0), weights(0.0));
        let mut along = 0.0;
        let mut size = 0.0;
        for (path, gradient) in gradients.iter() {
            let gradient = values(gradient.clone());
            for (i, g) in gradient.iter().enumerate() {
                along += f64::from(*g) * f64::from(moved[path][i] - still[path][i]);
                size += f64::from(g * g);
            }
        }
        let difference = (along as f32 - numeric).abs();
        assert!(difference < 5e-3 * (size.sqrt() as f32 + 0.1), "{norm} {dims}-D: {along} for {numeric} ({size})");
    }
}
