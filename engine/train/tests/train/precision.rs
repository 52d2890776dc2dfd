//! Mixed precision: the loss of f32, f32 weights, a gradient scaler that skips bad steps.

use std::sync::{Arc, Mutex};

use crate::common::{TRAINING, loss, network};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Distribution, Tensor};
use hearth_engine::Event;
use hearth_nn::networks::{AnyNetwork, Network, NetworkConfig, NetworkSpec, UNet};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use hearth_registry::Registry;
use hearth_train::{Precision, SupervisedTrainer, TrainerOptions};

fn trainer(precision: Precision, epochs: u64, lr: f64) -> SupervisedTrainer<UNet> {
    let mut options = TrainerOptions::new(&Device::flex());
    (options.precision, options.max_epochs) = (precision, epochs);
    let optimizer = OptimizerConfig::sgd(0.9).with("lr", lr).unwrap();
    SupervisedTrainer::builder(network(3, 0.0), loss(), &optimizer, TRAINING).options(options).build().unwrap()
}

/// The losses of a run.
fn losses(trainer: &mut SupervisedTrainer<UNet>) -> Vec<f64> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let own = log.clone();
    let read = move |cx: &mut hearth_engine::Context<'_>| {
        own.lock().unwrap().push(cx.host.output("loss")?);
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted, read).unwrap();
    trainer.run().unwrap();
    std::mem::take(&mut *log.lock().unwrap())
}

/// The types that parameters are stored in.
#[derive(Default)]
struct Types(Vec<DType>);

impl ModuleVisitor for Types {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.base().dtype());
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn half_precision_reaches_the_loss_of_f32_with_f32_weights() {
    let full = losses(&mut trainer(Precision::Fp32, 12, 0.05));
    let (start, end) = (mean(&full[..4]), mean(&full[full.len() - 4..]));
    assert!(end < 0.8 * start, "the problem is learnt: {start} -> {end}");
    for precision in [Precision::Bf16, Precision::Fp16] {
        let mut half = trainer(precision, 12, 0.05);
        let values = losses(&mut half);
        assert_ne!(values, full, "{precision} computes otherwise than fp32");
        let reached = mean(&values[values.len() - 4..]);
        assert!((reached - end).abs() < 0.05 * start, "{precision}: {reached} instead of {end}");
        let mut types = Types::default();
        half.network().unwrap().visit(&mut types);
        assert!(types.0.len() > 10 && types.0.iter().all(|dtype| *dtype == DType::F32), "{:?}", types.0);
    }
}

/// Moves each weight a little.
struct Moved;

impl ModuleMapper for Moved {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        if !value.is_require_grad() {
            return Param::from_mapped_value(id, value, mapper);
        }
        let value = value.without_autodiff();
        let step = Tensor::random(value.dims(), Distribution::Uniform(-0.02, 0.02), &value.device());
        Param::from_mapped_value(id, (value + step).autodiff().require_grad(), mapper)
    }
}

#[test]
fn every_family_of_networks_goes_forward_and_backward_in_bf16() {
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    plain.seed(5);
    let mut wrong = Vec::new();
    // Larger variants of listed networks have more of the same layers.
    let more = [
        "DenseNet",
        "DenseNet169",
        "DenseNet201",
        "DenseNet264",
        "SENet",
        "SENet154",
        "SEResNet101",
        "SEResNet152",
        "SEResNext101",
        "resnet34",
        "resnet101",
        "resnet152",
        "resnet200",
    ];
    for entry in Registry::<NetworkSpec>::new().entries().iter().filter(|entry| !more.contains(&entry.name)) {
        let config = NetworkConfig::example(entry).unwrap();
        let net = config.init(&device, 5).unwrap();
        let example = config.example_input();
        let [batch, channels, ..] = example;
        let small = [batch, channels, 32, 32, 32];
        // Networks that normalize the batch at one remaining voxel have nothing to normalize in a
        // small image.
        let whole = ["DenseNet121", "SEResNet50", "SEResNext50"].contains(&entry.name) || example[4] == 1;
        let input = if whole || net.check_input(small).is_err() { example } else { small };
        let x = Tensor::<5>::random(input, Distribution::Uniform(0.0, 1.0), &device);
        let flat = |net: &AnyNetwork| -> (Tensor<1>, Tensor<1>) {
            net.set_draw(5, 1);
            let (outputs, own) = net.forward_with_loss(x.clone());
            let first = outputs[0].clone().inner().cast(DType::F32).flatten(0, 4);
            let squares = outputs.into_iter().map(|y| y.cast(DType::F32).powi_scalar(2).mean());
            (first, squares.chain(own.map(|own| own.cast(DType::F32))).reduce(|a, b| a + b).unwrap())
        };
        // The last layer of some begins as zeros.
        let largest: f32 = flat(&net).0.abs().max().into_scalar();
        let net = if largest == 0.0 { net.map(&mut Moved) } else { net };
        let (full, _) = flat(&net);
        let net = Precision::Bf16.apply(net);
        let (half, value) = flat(&net);
        let norm = |t: Tensor<1>| t.powi_scalar(2).mean().into_scalar::<f32>().sqrt();
        let apart = norm(half - full.clone()) / norm(full).max(1e-6);
        let gradients = Gradients::of(&net, &value);
        let types = gradients.iter().all(|(_, gradient)| gradient.dtype() == DType::F32);
        let length = gradients.norm().map(|norm| norm.into_scalar::<f32>());
        // Hundreds of layers round hundreds of times.
        let near = apart.is_finite() && apart < 0.5;
        if !near || !types || !length.is_some_and(|length| length.is_finite() && length > 0.0) {
            wrong.push(format!("{}: {apart} apart, gradients {length:?} long, f32: {types}", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_forward_pass_reads_weights_in_half_precision() {
    let x = Tensor::<5>::ones([1, 1, 8, 8, 8], &Device::flex());
    let net = network(3, 0.0).valid();
    let full = net.forward(x.clone());
    for (precision, least, most) in [(Precision::Bf16, 1e-5, 0.1), (Precision::Fp16, 1e-7, 0.02)] {
        let half = precision.apply(net.clone()).forward(x.clone());
        assert_eq!(half.dtype(), DType::from(precision.dtype()));
        let error: f32 = (half.cast(DType::F32) - full.clone()).abs().max().into_scalar();
        assert!((least..most).contains(&f64::from(error)), "{precision}: {error}");
    }
    assert_eq!(Precision::Fp32.apply(net).forward(x).into_data(), full.into_data());
}

#[test]
fn infinite_gradients_leave_the_step_out_and_halve_the_scale() {
    // fp16 ends at 65504: a scale of 65536 times a loss of about 1 overflows at once.
    let mut half = trainer(Precision::Fp16, 1, 0.05);
    let before = hearth_nn::weights::to_bytes(half.network().unwrap()).unwrap();
    let scales = Arc::new(Mutex::new(Vec::new()));
    let own = scales.clone();
    let blow_up = |cx: &mut hearth_engine::Context<'_>| {
        let mut image = cx.host.tensor("image")?.to_f32()?;
        image.iter_mut().for_each(|value| *value *= 1e8);
        let shape = cx.host.tensor("image")?.shape;
        Ok(cx.host.put_tensor("image", hearth_engine::HostTensor::from_f32(shape, &image)?)?)
    };
    half.engine_mut().on(Event::IterationStarted, blow_up).unwrap();
    let read = move |cx: &mut hearth_engine::Context<'_>| {
        own.lock().unwrap().push(cx.host.output("scale")?);
        Ok(())
    };
    half.engine_mut().on(Event::ModelCompleted, read).unwrap();
    half.run().unwrap();
    assert_eq!(*scales.lock().unwrap(), [32768.0, 16384.0, 8192.0, 4096.0]);
    let after = hearth_nn::weights::to_bytes(half.network().unwrap()).unwrap();
    let parameters = |bytes: &[u8]| {
        let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
        let weights =
            file.tensors().into_iter().filter(|(name, _)| !name.contains("running_") && !name.contains("num_"));
        weights.map(|(name, view)| (name, view.data().to_vec())).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert!(parameters(&before) == parameters(&after), "no step was taken");
}

#[test]
fn the_scaler_is_a_part_of_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let mut half = trainer(Precision::Fp16, 2, 0.05);
    half.run().unwrap();
    let scaler = half.scaler().unwrap();
    assert!(scaler.good_steps() > 0);
    half.save(dir.path(), "final", None).unwrap();
    let mut other = trainer(Precision::Fp16, 2, 0.05);
    assert_ne!(other.scaler().as_ref(), Some(&scaler));
    other.resume(dir.path()).unwrap();
    assert_eq!(other.scaler(), Some(scaler));
}

#[test]
fn a_word_that_is_no_precision_lists_the_known_ones() {
    let text = "fp8".parse::<Precision>().unwrap_err().to_string();
    assert!(text.contains("`fp8`") && text.contains("bf16"), "{text}");
    for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
        assert_eq!(precision.to_string().parse::<Precision>(), Ok(precision));
        precision.check(&Device::flex()).unwrap();
    }
}
