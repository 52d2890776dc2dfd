//! Losses, inferers and metrics of plugins: components in this process, next to the built-in parts that
//! compute the same by other code.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use burn::tensor::{Device, Tensor};
use hearth_nn::inferers::{InferError, Inferer, InfererConfig, SlidingWindowInferer, stoppable};
use hearth_nn::losses::{DeepSupervisionLoss, DiceCELoss, Loss, LossConfig, LossError};
use hearth_nn::metrics::MetricConfig;
use hearth_nn::networks::{Network as _, NetworkConfig};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_registry::component::{self, Answer, Component, ComponentKind, HostArray, Network};
use hearth_registry::{Fault, Node, Registry};
use serde_json::json;

use crate::{assert_close, draw, labels, values};

/// Components by their name.
struct Part(String);

/// How often a component was loaded.
static LOADED: AtomicUsize = AtomicUsize::new(0);

fn provide() {
    static PROVIDED: Once = Once::new();
    PROVIDED.call_once(|| {
        component::provide(Arc::new(|kinds: &[ComponentKind], name: &str, options: &Node| {
            LOADED.fetch_add(1, Ordering::Relaxed);
            match options.fields().first() {
                Some(field) => Err(Fault::at(&field.key, format!("unknown option {}", field.key))),
                None => Ok((kinds[0], Arc::new(Part(name.to_owned())) as Arc<dyn Component>)),
            }
        }));
    });
}

fn array(shape: &[usize], values: Vec<f32>) -> HostArray<'static> {
    HostArray { shape: shape.to_vec(), values: values.into(), affine: component::IDENTITY }
}

/// Dice and cross-entropy of a softmax with class indices, in f64, with the gradient by hand.
fn dice_ce(pred: &HostArray<'_>, label: &HostArray<'_>) -> (f64, Vec<f32>) {
    const SMOOTH: f64 = 1e-5;
    let (items, classes) = (pred.shape[0], pred.shape[1]);
    let volume: usize = pred.shape[2..].iter().product();
    let at = |item: usize, class: usize, voxel: usize| (item * classes + class) * volume + voxel;
    let mut chance = vec![0.0_f64; pred.values.len()];
    for (item, voxel) in (0..items).flat_map(|item| (0..volume).map(move |voxel| (item, voxel))) {
        let of = |class: usize| f64::from(pred.values[at(item, class, voxel)]).exp();
        let sum: f64 = (0..classes).map(of).sum();
        (0..classes).for_each(|class| chance[at(item, class, voxel)] = of(class) / sum);
    }
    let truth = |item: usize, class: usize, voxel: usize| {
        f64::from(u8::from(label.values[item * volume + voxel] == class as f32))
    };
    let (mut loss, mut slope) = (0.0, vec![0.0_f64; chance.len()]);
    let (parts, voxels) = ((items * classes) as f64, (items * volume) as f64);
    for (item, class) in (0..items).flat_map(|item| (0..classes).map(move |class| (item, class))) {
        let sum = |of: &dyn Fn(usize) -> f64| (0..volume).map(of).sum::<f64>();
        let both = sum(&|voxel| chance[at(item, class, voxel)] * truth(item, class, voxel));
        let all = sum(&|voxel| chance[at(item, class, voxel)] + truth(item, class, voxel));
        let (over, under) = (2.0 * both + SMOOTH, all + SMOOTH);
        loss += (1.0 - over / under) / parts;
        for voxel in 0..volume {
            let here = truth(item, class, voxel);
            slope[at(item, class, voxel)] = (over - 2.0 * here * under) / under.powi(2) / parts;
            loss -= here * chance[at(item, class, voxel)].ln() / voxels;
        }
    }
    let mut gradient = vec![0.0_f32; chance.len()];
    for (item, voxel) in (0..items).flat_map(|item| (0..volume).map(move |voxel| (item, voxel))) {
        let mean: f64 = (0..classes).map(|class| chance[at(item, class, voxel)] * slope[at(item, class, voxel)]).sum();
        for class in 0..classes {
            let place = at(item, class, voxel);
            let of_ce = (chance[place] - truth(item, class, voxel)) / voxels;
            gradient[place] = (chance[place] * (slope[place] - mean) + of_ce) as f32;
        }
    }
    (loss, gradient)
}

impl Component for Part {
    fn run(&self, inputs: &[HostArray<'_>], _: &str) -> Result<Vec<HostArray<'static>>, String> {
        // As many numbers as the first voxel says.
        let length = inputs[0].values[0] as usize;
        Ok(vec![array(&[length], vec![0.5; length])])
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        _: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        if operation == "infer" {
            let network = network.ok_or("no network")?;
            let image = &inputs[0];
            let arrays = match &self.0[..] {
                "test.Whole" => vec![network(image.clone())?],
                "test.Twice" => {
                    let (one, two) = (network(image.clone())?, network(image.clone())?);
                    let mean = one.values.iter().zip(&*two.values).map(|(one, two)| (one + two) / 2.0).collect();
                    vec![array(&one.shape, mean)]
                }
                "test.Flat" => vec![network(array(&[4], vec![0.0; 4]))?],
                "test.Silent" => {
                    vec![network(array(&[4], vec![0.0; 4])).unwrap_or_else(|_| image.clone().into_owned())]
                }
                "test.One" => vec![array(&[1, 1, 1, 1, 1], vec![0.0])],
                "test.Nothing" => Vec::new(),
                _ => return Err("it has a bad day".to_owned()),
            };
            return Ok(Answer { arrays, text: String::new() });
        }
        assert_eq!(operation, "loss");
        let (loss, gradient) = dice_ce(&inputs[0], &inputs[1]);
        let (shape, text) = (inputs[0].shape.clone(), json!({"loss": loss}).to_string());
        let found = |arrays: Vec<HostArray<'static>>| Ok(Answer { arrays, text: text.clone() });
        match &self.0[..] {
            "test.DiceCe" => found(vec![array(&shape, gradient)]),
            "test.Nan" => {
                let broken = gradient.into_iter().enumerate().map(|(at, x)| if at == 9 { f32::NAN } else { x });
                found(vec![array(&shape, broken.collect())])
            }
            "test.Flat" => found(vec![array(&[gradient.len()], gradient)]),
            "test.Short" => found(vec![array(&shape, vec![0.0])]),
            "test.Nothing" => found(Vec::new()),
            "test.Infinite" => {
                Ok(Answer { arrays: vec![array(&shape, gradient)], text: "{\"loss\": null}".to_owned() })
            }
            "test.Garbled" => Ok(Answer { arrays: vec![array(&shape, gradient)], text: "0.5".to_owned() }),
            _ => Err("it has a bad day".to_owned()),
        }
    }

    fn version(&self) -> String {
        "test 1".to_owned()
    }
}

/// An array with values of its own.
trait Owned {
    fn into_owned(self) -> HostArray<'static>;
}

impl Owned for HostArray<'_> {
    fn into_owned(self) -> HostArray<'static> {
        array(&self.shape, self.values.into_owned())
    }
}

fn loss(name: &str) -> Box<dyn Loss> {
    provide();
    Registry::<dyn Loss>::new().build(&Node::named(name)).unwrap_or_else(|fault| panic!("{fault}"))
}

fn inferer(name: &str) -> Box<dyn Inferer> {
    provide();
    Registry::<dyn Inferer>::new().build(&Node::named(name)).unwrap_or_else(|fault| panic!("{fault}"))
}

fn built_in() -> DiceCELoss {
    DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() }
}

const SHAPE: [usize; 5] = [2, 3, 4, 5, 3];

#[test]
fn a_loss_of_a_plugin_has_the_value_and_the_gradient_of_the_built_in_one() {
    let device = Device::default();
    let label = labels([2, 1, 4, 5, 3], 3, 8, &device);
    let compared = |loss: &dyn Loss| {
        let x = (draw(SHAPE, 7, &device) * 3.0).autodiff().require_grad();
        let value = loss.forward(x.clone(), label.clone()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(value.dims(), [1]);
        // The scale of fp16, and another term.
        let gradients = (value.clone() * 1024.0 + x.clone().sum()).backward();
        (value.into_scalar::<f32>(), values(x.grad(&gradients).expect("a gradient")))
    };
    let (of_plugin, ours) = (compared(&*loss("test.DiceCe")), compared(&built_in()));
    assert!((of_plugin.0 - ours.0).abs() < 1e-6, "{} {}", of_plugin.0, ours.0);
    assert!(ours.1.iter().any(|slope| (slope - 1.0).abs() > 1.0), "a gradient that is not that of the sum alone");
    assert_close(&of_plugin.1, &ours.1, 1e-4);
    // Outside a graph there is only the value.
    let plain = loss("test.DiceCe").forward(draw(SHAPE, 7, &device) * 3.0, label.clone()).expect("a value");
    assert_eq!(plain.into_scalar::<f32>(), of_plugin.0);
}

#[test]
fn training_with_the_loss_of_a_plugin_is_training_with_the_built_in_one() {
    let device = Device::default().autodiff();
    let config = json!({"name": "DynUNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3],
        "strides": [1, 2, 2], "upsample_kernel_size": [2, 2], "filters": [4, 8, 8], "deep_supervision": true, "deep_supr_num": 1});
    let (x, y) = (draw([2, 1, 16, 16, 1], 3, &device), labels([2, 1, 16, 16, 1], 2, 4, &device.clone().inner()));
    let trained = |loss: LossConfig| {
        let read: NetworkConfig = serde_json::from_value(config.clone()).unwrap_or_else(|error| panic!("{error}"));
        let mut net = read.init(&device, 5).unwrap_or_else(|error| panic!("{error}"));
        let mut optimizer = OptimizerConfig::sgd(0.0).build().expect("consistent");
        let deep = DeepSupervisionLoss::new(loss);
        let mut all = Vec::new();
        for step in 0..8 {
            net.set_draw(1, step);
            let (outputs, _) = net.forward_with_loss(x.clone());
            assert_eq!(outputs.len(), 2);
            let value = deep.forward_all(outputs, y.clone()).unwrap_or_else(|error| panic!("{error}"));
            all.push(value.clone().into_scalar::<f32>());
            let gradients = Gradients::of(&net, &value);
            net = optimizer.step(net, gradients, 0.1).expect("its own gradients");
        }
        all
    };
    provide();
    let of_plugin = trained(LossConfig::new(&Node::named("test.DiceCe")).expect("a loss"));
    let ours = trained(LossConfig::of("DiceCELoss", &built_in()).expect("a loss"));
    assert!(ours[7] < 0.95 * ours[0], "{ours:?}");
    assert_close(&of_plugin, &ours, 2e-5);
}

#[test]
fn what_a_plugin_returns_instead_of_a_loss_is_an_error() {
    let device = Device::default();
    let (x, y) = (draw(SHAPE, 7, &device), labels([2, 1, 4, 5, 3], 3, 8, &device));
    for (name, says) in [
        (
            "test.Nan",
            "test.Nan: 1 of 360 values of the gradient that the plugin returned are not finite, the first is NaN at [0, 0, 0, 3, 0]",
        ),
        ("test.Flat", "a gradient of shape [360]: expected that of the prediction, [2, 3, 4, 5, 3]"),
        ("test.Short", "an invalid gradient: an array of shape [2, 3, 4, 5, 3] does not have 1 values"),
        ("test.Nothing", "returned 0 arrays: expected the gradient alone"),
        ("test.Infinite", "returned a loss that is not finite"),
        ("test.Garbled", "the plugin returned \"0.5\""),
        ("test.Other", "test.Other: the plugin reports: it has a bad day"),
    ] {
        let error = loss(name).forward(x.clone(), y.clone()).expect_err(name).to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
    // A prediction that overflowed is recognized as one, so that the loss scaler of fp16 skips the step.
    let broken = x.slice_fill([0..1, 0..1, 0..1, 0..1, 0..1], f32::INFINITY);
    let error = loss("test.DiceCe").forward(broken, y).expect_err("not finite");
    assert!(matches!(error, LossError::NonFinite { what: "prediction", .. }), "{error}");
}

#[test]
fn a_plugin_is_loaded_only_where_it_is_used() {
    provide();
    // Tests of other threads load components, too; none has options but these.
    let table = Node::named("test.DiceCe").with("power", 2_i64);
    let config = LossConfig::new(&table).expect("a table of a plugin is not looked at before it is loaded");
    assert_eq!((config.name(), config.node()), ("test.DiceCe", &table));
    let fault = config.load().expect_err("an unknown option");
    assert_eq!((fault.path.as_str(), fault.message.as_str()), ("power", "unknown option power"));
    let deep = DeepSupervisionLoss::new(config);
    assert_eq!(deep.load().expect_err("an unknown option").path, "loss.power");
    assert!(deep.through_host() && !built_in().through_host());
    let config = InfererConfig::new(&Node::named("test.Whole").with("flips", 2_i64)).expect("not looked at");
    assert_eq!(config.load().expect_err("an unknown option").path, "flips");
    let before = LOADED.load(Ordering::Relaxed);
    let config = LossConfig::new(&Node::named("test.DiceCe")).expect("a loss");
    config.load().expect("it loads");
    assert!(LOADED.load(Ordering::Relaxed) > before);
}

/// A network of two channels.
fn network(x: Tensor<5>) -> Tensor<5> {
    Tensor::cat(vec![x.clone() * 2.0, x * -0.5], 1)
}

#[test]
fn an_inferer_of_a_plugin_is_the_built_in_one_with_one_window() {
    let x = draw([2, 1, 6, 5, 4], 1, &Device::default());
    let ours = SlidingWindowInferer::new(&[6, 5, 4]).infer(x.clone(), &network).expect("a scan");
    for name in ["test.Whole", "test.Twice"] {
        let calls = AtomicUsize::new(0);
        let counted = |x: Tensor<5>| {
            calls.fetch_add(1, Ordering::Relaxed);
            network(x)
        };
        let y = inferer(name).infer(x.clone(), &counted).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(y.dims(), [2, 2, 6, 5, 4]);
        assert_close(&values(y), &values(ours.clone()), 1e-6);
        assert_eq!(calls.load(Ordering::Relaxed), if name == "test.Twice" { 2 } else { 1 });
    }
}

#[test]
fn what_an_inferer_of_a_plugin_does_wrong_is_an_error() {
    let x = draw([2, 1, 6, 5, 4], 1, &Device::default());
    for (name, says) in [
        ("test.Flat", "the plugin made a window of shape [4]: expected [N, C, X, Y, Z] and no empty axis"),
        ("test.Silent", "the plugin made a window of shape [4]"),
        ("test.One", "test.One: the plugin returned 1 outputs for 2 images"),
        ("test.Nothing", "returned 0 arrays: expected the output alone"),
        ("test.Other", "test.Other: the plugin reports: it has a bad day"),
    ] {
        let error = inferer(name).infer(x.clone(), &network).expect_err(name).to_string();
        assert!(error.contains(says), "{name}: {error}");
    }
    let in_training = inferer("test.Whole").infer(x.clone().autodiff(), &network).expect_err("no gradients");
    assert!(in_training.to_string().contains("gives no gradients"), "{in_training}");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stoppable(&stop, || {
        inferer("test.Twice").infer(x, &|window| {
            stop.store(true, Ordering::Relaxed);
            network(window)
        })
    });
    assert_eq!(stopped.err(), Some(InferError::Stopped));
}

#[test]
fn rows_of_a_metric_have_one_length() {
    provide();
    let config = MetricConfig::new(&Node::named("test.Rows")).expect("a metric");
    let mut metric = config.build().expect("a metric");
    let items = |lengths: &[f32]| {
        let parts = lengths.iter().map(|length| Tensor::full([1, 1, 2, 2, 2], *length, &Device::default()));
        Tensor::<5>::cat(parts.collect(), 0)
    };
    let mut update = |lengths: &[f32]| {
        let x = items(lengths);
        metric.update(&x, &x).map(<[Vec<f32>]>::len).map_err(|error| error.to_string())
    };
    assert_eq!(update(&[3.0, 3.0]), Ok(2));
    assert_eq!(update(&[3.0]), Ok(1));
    let ragged = update(&[2.0]).expect_err("another length");
    assert_eq!(ragged, "test.Rows: the plugin returned 2 numbers for an item: expected 3, as before");
    let ragged = update(&[3.0, 4.0]).expect_err("another length");
    assert_eq!(ragged, "test.Rows: the plugin returned 4 numbers for item 2 of 2: expected 3, as before");
    assert!(update(&[0.0]).expect_err("nothing").ends_with("0 numbers for an item: expected at least 1"));
}
