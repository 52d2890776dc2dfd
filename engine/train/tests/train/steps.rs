//! The parts of a step: several batches, clipped gradients, frozen parameters, groups; and the
//! range test, which changes nothing.

use std::collections::BTreeMap;

use crate::common::{Balls, SIDE, TRAINING, evaluator, fingerprint, log_losses, loss, trainer};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_data::{Batch, DataError};
use hearth_engine::{CheckpointRequest, Event, RunEnd};
use hearth_nn::networks::{UNet, UNetConfig};
use hearth_nn::optim::{GradientClip, OptimizerConfig};
use hearth_nn::{freeze, weights};
use hearth_train::{
    BatchStream, Loader, RangeError, RangeTest, StepMode, SupervisedTrainer, TrainerError, TrainerOptions,
};
use safetensors::SafeTensors;

/// Batches of these sizes, with consecutive cases.
#[derive(Clone)]
struct Sizes(Vec<usize>);

impl Loader for Sizes {
    fn batches(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let mut case = 0;
        let mut batches = Vec::new();
        for size in &self.0 {
            let (mut images, mut labels, mut cases) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..*size {
                let (image, label) = Balls::volume(case, pass);
                images.extend(image);
                labels.extend(label);
                cases.push(format!("ball_{case}"));
                case += 1;
            }
            let shape = [*size, 1, SIDE, SIDE, SIDE];
            let tensor = |values| Tensor::<5>::from_data(TensorData::new(values, shape), &Device::flex());
            let tensors = BTreeMap::from([("image".into(), tensor(images)), ("label".into(), tensor(labels))]);
            batches.push(Ok::<_, DataError>(Batch { tensors, cases, ..Batch::default() }));
        }
        Box::new(batches.into_iter().skip(skip as usize))
    }
}

/// Without batch norm, since it makes items of a batch depend on each other.
fn network() -> UNet {
    let config =
        UNetConfig { num_res_units: 1, norm: Some("instance".into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    config.init(&Device::flex().autodiff(), 4).unwrap()
}

fn momentum() -> OptimizerConfig {
    OptimizerConfig::sgd(0.9).with("lr", 0.05).unwrap()
}

fn options(epochs: u64) -> TrainerOptions {
    step_options(epochs, 1, None)
}

fn step_options(epochs: u64, accumulate: u64, clip: Option<GradientClip>) -> TrainerOptions {
    let mut options = TrainerOptions::new(&Device::flex());
    (options.max_epochs, options.seed) = (epochs, 11);
    (options.accumulate, options.clip) = (accumulate, clip);
    options
}

fn run(sizes: &[usize], accumulate: u64, clip: Option<GradientClip>) -> SupervisedTrainer<UNet> {
    let options = step_options(3, accumulate, clip);
    let mut trainer = SupervisedTrainer::builder(network(), loss(), momentum(), Sizes(sizes.to_vec()))
        .options(options)
        .build()
        .unwrap();
    trainer.run().unwrap();
    trainer
}

fn floats(net: &UNet) -> Vec<f32> {
    let bytes = weights::to_bytes(net).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut all = file.tensors();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let each = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    all.iter().flat_map(|(_, view)| view.data().chunks_exact(4).map(each).collect::<Vec<_>>()).collect()
}

fn farthest(a: &SupervisedTrainer<UNet>, b: &SupervisedTrainer<UNet>) -> f32 {
    let (a, b) = (floats(a.network().unwrap()), floats(b.network().unwrap()));
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn several_batches_step_as_one_large_batch() {
    for clip in [None, Some(GradientClip::Norm(0.1)), Some(GradientClip::Value(0.01))] {
        let large = run(&[4, 2], 1, clip);
        // The last two of an epoch make a separate step.
        let small = run(&[1; 6], 4, clip);
        assert_eq!(small.engine().state().iteration, 18, "iterations count batches");
        let off = farthest(&large, &small);
        assert!(off < 2e-5, "{clip:?}: {off}");
        let other = farthest(&small, &run(&[1; 6], 1, clip));
        assert!(other > 10.0 * off.max(1e-6), "{clip:?}: stepping after each batch is another run: {other}");
    }
    assert!(farthest(&run(&[4, 2], 1, None), &run(&[4, 2], 1, Some(GradientClip::Norm(0.1)))) > 1e-4);
}

/// Interrupted between two steps: the pending gradients are part of the checkpoint.
#[test]
fn a_run_resumes_between_the_batches_of_a_step() {
    let made = |epochs| {
        let options = step_options(epochs, 3, None);
        SupervisedTrainer::builder(network(), loss(), momentum(), Sizes(vec![1; 5])).options(options).build().unwrap()
    };
    let mut whole = made(3);
    let losses = log_losses(&mut whole);
    whole.run().unwrap();
    for stop in [6, 7, 9, 10] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = made(3);
        let own = dir.path().to_owned();
        first
            .engine_mut()
            .on(Event::IterationCompleted.once(stop), move |cx| {
                cx.host.save_checkpoint(CheckpointRequest { dir: own.clone(), tag: "stop".into(), keep_last: None })?;
                cx.host.interrupt("enough");
                Ok(())
            })
            .unwrap();
        assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
        let mut second = made(3);
        let rest = log_losses(&mut second);
        assert_eq!(second.resume(dir.path()).unwrap().1, stop);
        second.run().unwrap();
        assert_eq!(fingerprint(&second), fingerprint(&whole), "stopped at {stop}");
        let (all, rest) = (losses.lock().unwrap(), rest.lock().unwrap());
        assert_eq!(all[stop as usize..], rest[..]);
        // The first one continues too.
        first.run().unwrap();
        assert_eq!(fingerprint(&first), fingerprint(&whole), "stopped at {stop}");
    }
}

#[test]
fn options_of_a_step_that_make_no_sense_are_errors() {
    let made = |options: TrainerOptions, optimizer: &OptimizerConfig| {
        let builder = SupervisedTrainer::builder(network(), loss(), optimizer, TRAINING).options(options);
        builder.build().map(drop).map_err(Box::new)
    };
    let error = made(step_options(1, 0, None), &momentum());
    assert!(matches!(error.map_err(|error| *error), Err(TrainerError::Accumulate)));
    let error = made(step_options(1, 1, Some(GradientClip::Norm(-1.0))), &momentum());
    assert!(matches!(error.map_err(|error| *error), Err(TrainerError::Clip(_))));
    let groups = serde_json::json!({ "name": "SGD", "groups": [{ "params": "encoder.*", "lr_scale": 0.1 }] });
    let error = made(options(1), &serde_json::from_value(groups).unwrap()).unwrap_err().to_string();
    assert!(error.contains("the group `encoder.*`: it matches no parameter of UNet"), "{error}");
}

fn tensors(net: &UNet) -> BTreeMap<String, Vec<u8>> {
    let bytes = weights::to_bytes(net).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect()
}

/// Weight decay, momentum, batch statistics and a resume all leave the frozen parameters unchanged.
#[test]
fn frozen_parameters_are_the_same_bits_after_a_run_and_a_resume() {
    let decaying: OptimizerConfig =
        serde_json::from_value(serde_json::json!({ "name": "AdamW", "lr": 0.01, "weight_decay": 0.1 })).unwrap();
    let made = |epochs| {
        let patterns = ["model.0.*".to_owned()];
        let (net, frozen) = freeze(crate::common::network(0, 0.0), &patterns).unwrap();
        assert!(frozen.names.iter().any(|name| name.ends_with("running_var")), "{frozen:?}");
        let mut trainer =
            SupervisedTrainer::builder(net, loss(), &decaying, TRAINING).options(options(epochs)).build().unwrap();
        trainer.add_evaluator("validation", evaluator());
        trainer
    };
    let before = tensors(&crate::common::network(0, 0.0));
    let dir = tempfile::tempdir().unwrap();
    let mut first = made(2);
    first.run().unwrap();
    first.save(dir.path(), "end", None).unwrap();
    let mut second = made(4);
    second.resume(dir.path()).unwrap();
    second.run().unwrap();
    for trainer in [&first, &second] {
        let after = tensors(trainer.network().unwrap());
        for (name, bytes) in &before {
            assert_eq!(*bytes == after[name], name.starts_with("model.0."), "{name}");
        }
    }
    assert!(first.optimizer_state().keys().all(|key| !key.contains("model.0.")), "nothing is kept for them");
}

#[test]
fn a_range_test_leaves_no_trace() {
    let mut plain = trainer(0, 0.2, &momentum(), 4);
    plain.run().unwrap();
    let mut tested = trainer(0, 0.2, &momentum(), 4);
    let options = RangeTest { num_iter: 9, start_lr: 1e-4, ..RangeTest::default() };
    let before = fingerprint(&tested);
    let mut watched = 0;
    let first = tested.find_learning_rate(&options, |_| watched += 1).unwrap();
    assert_eq!(fingerprint(&tested), before);
    assert_eq!(watched, first.points.len());
    assert_eq!(tested.engine().state().iteration, 0);
    // The same again, and in the middle of an epoch.
    assert_eq!(tested.find_learning_rate(&options, |_| ()).unwrap(), first);
    let look = |cx: &mut hearth_engine::Context<'_>| {
        cx.host.interrupt("look");
        Ok(())
    };
    tested.engine_mut().on(Event::IterationCompleted.once(6), look).unwrap();
    assert!(matches!(tested.run().unwrap(), RunEnd::Interrupted(_)));
    let middle = fingerprint(&tested);
    let other = tested.find_learning_rate(&options, |_| ()).unwrap();
    assert_ne!(other, first, "other weights");
    assert_eq!(fingerprint(&tested), middle);
    tested.run().unwrap();
    assert_eq!(fingerprint(&tested), fingerprint(&plain));
}

/// Learning rates step as MONAI's `ExponentialLR` and `LinearLR`, and losses are smoothed as in its
/// finder.
#[test]
fn the_rates_rise_and_the_losses_are_smoothed() {
    let mut trainer = trainer(0, 0.0, &momentum(), 1);
    let options = RangeTest { num_iter: 12, start_lr: 1e-5, end_lr: 1e-2, smooth_f: 0.25, ..RangeTest::default() };
    let found = trainer.find_learning_rate(&options, |_| ()).unwrap();
    assert!(!found.diverged && found.points.len() == 12);
    for (i, point) in found.points.iter().enumerate() {
        assert!((point.lr / 1e-5 - 1000_f64.powf(i as f64 / 11.0)).abs() < 1e-9, "{point:?}");
    }
    for pair in found.points.windows(2) {
        assert!((pair[1].loss - (0.25 * pair[1].raw_loss + 0.75 * pair[0].loss)).abs() < 1e-12);
    }
    let linear = RangeTest { step_mode: StepMode::Linear, smooth_f: 0.0, ..options };
    let found = trainer.find_learning_rate(&linear, |_| ()).unwrap();
    assert!((found.points[5].lr - (1e-5 + 5.0 / 11.0 * (1e-2 - 1e-5))).abs() < 1e-12);
    assert!(found.points.iter().all(|point| point.loss == point.raw_loss));
}

#[test]
fn a_range_test_stops_where_the_loss_diverges() {
    let mut trainer = trainer(0, 0.0, &momentum(), 1);
    let options = RangeTest { num_iter: 60, start_lr: 1e-3, end_lr: 1e6, diverge_th: 1.5, ..RangeTest::default() };
    let found = trainer.find_learning_rate(&options, |_| ()).unwrap();
    assert!(found.diverged && found.points.len() < 60, "{}", found.points.len());
    assert!(found.points.iter().all(|point| point.loss.is_finite()));
    for (wrong, name) in [
        (RangeTest { start_lr: 0.0, ..RangeTest::default() }, "start_lr"),
        (RangeTest { end_lr: 1e-9, ..RangeTest::default() }, "end_lr"),
        (RangeTest { num_iter: 1, ..RangeTest::default() }, "num_iter"),
        (RangeTest { smooth_f: 1.0, ..RangeTest::default() }, "smooth_f"),
        (RangeTest { diverge_th: f64::NAN, ..RangeTest::default() }, "diverge_th"),
    ] {
        let error = trainer.find_learning_rate(&wrong, |_| ()).unwrap_err();
        assert!(matches!(&error, RangeError::Option { name: found, .. } if *found == name), "{error}");
    }
    let none = SupervisedTrainer::builder(network(), loss(), momentum(), Sizes(Vec::new()))
        .options(step_options(1, 1, None))
        .build();
    assert!(matches!(none.unwrap().find_learning_rate(&options, |_| ()), Err(RangeError::NoData)));
}
