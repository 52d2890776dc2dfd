//! Metrics of training batches: those of an evaluator on the same batches, for every batch of an epoch, in
//! whichever process or rank it was taken.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Balls, TRAINING, bits, evaluator, loss, network};
use burn::tensor::Device;
use hearth_data::{Batch, DataError};
use hearth_distributed::threads;
use hearth_engine::{Better, Context, Event, Metrics, RunEnd};
use hearth_nn::metrics::{DiceMetric, HausdorffDistanceMetric, MetricConfig, MetricReduction};
use hearth_nn::networks::{UNet, UNetConfig};
use hearth_nn::optim::OptimizerConfig;
use hearth_train::{
    BatchStream, Loader, Post, Ranks, SupervisedEvaluator, SupervisedTrainer, TrainerBuilder, TrainerError,
    TrainerOptions,
};

fn optimizer() -> OptimizerConfig {
    OptimizerConfig::sgd(0.9).with("lr", 0.05).unwrap()
}

fn dice() -> DiceMetric {
    DiceMetric { include_background: false, ..DiceMetric::default() }
}

fn options(epochs: u64) -> TrainerOptions {
    let mut options = TrainerOptions::new(&Device::flex());
    (options.max_epochs, options.seed) = (epochs, 11);
    options
}

/// A trainer that measures its batches by two metrics.
fn measuring(network: UNet, loader: impl Loader + 'static, options: TrainerOptions) -> TrainerBuilder<UNet> {
    SupervisedTrainer::builder(network, loss(), optimizer(), loader)
        .options(options)
        .post(Post::argmax(2), Post::onehot(2))
        .metric("train_dice", dice())
        .metric("train_classes", DiceMetric::default().reduction(MetricReduction::MeanBatch))
}

/// A network whose outputs do not depend on the other items of a batch.
fn per_item() -> UNet {
    let config = UNetConfig { norm: Some("instance".into()), ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) };
    config.init(&Device::flex().autodiff(), 3).unwrap()
}

#[test]
fn a_batch_is_measured_as_an_evaluator_does() {
    let distance = || HausdorffDistanceMetric::default().percentile(95.0);
    let mut trainer = measuring(per_item(), TRAINING, options(1)).metric("train_hd95", distance()).build().unwrap();
    // The weights stay as they are.
    trainer.engine_mut().on(Event::Started, |cx| Ok(cx.host.set_learning_rate(0.0)?)).unwrap();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let own = rows.clone();
    let note = move |cx: &mut Context<'_>| {
        own.lock().unwrap().extend(cx.host.numbers("train_dice")?);
        Ok(())
    };
    trainer.engine_mut().on(Event::IterationCompleted, note).unwrap();
    trainer.run().unwrap();
    let mut evaluator = SupervisedEvaluator::<UNet>::builder(TRAINING)
        .post(Post::argmax(2), Post::onehot(2))
        .metric("train_dice", dice())
        .metric("train_classes", DiceMetric::default().reduction(MetricReduction::MeanBatch))
        .metric("train_hd95", distance())
        .build()
        .unwrap();
    let expected = evaluator.run(&per_item(), 1).unwrap();
    let found = &trainer.engine().state().metrics;
    let names: Vec<&str> = expected.keys().map(String::as_str).collect();
    assert_eq!(names, ["train_classes", "train_classes_label_0", "train_classes_label_1", "train_dice", "train_hd95"]);
    for (name, value) in &expected {
        let (found, none) = (found[name], found[name].is_nan() && value.is_nan());
        assert!(none || found == *value || (found - value).abs() < 1e-6, "{name}: {found} and {value}");
    }
    let rows = rows.lock().unwrap();
    let theirs = evaluator.rows_of("train_dice").unwrap();
    assert_eq!((rows.len(), theirs.len()), (8, 8));
    for (row, theirs) in rows.iter().zip(theirs) {
        let off = (row[0] - f64::from(theirs.values[0])).abs();
        assert!(off < 1e-6 || row[0].is_nan() && theirs.values[0].is_nan(), "{}: {row:?}", theirs.case);
    }
}

/// The prediction is that of the step, with dropout and before the weights change. Its Dice is computed here
/// from the raw outputs.
#[test]
fn the_mean_over_an_epoch_is_that_of_its_steps() {
    let mut trainer = measuring(network(0, 0.2), TRAINING, options(3)).build().unwrap();
    let (all, measured) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let own = all.clone();
    let by_hand = move |cx: &mut Context<'_>| {
        let (pred, label) = (cx.host.tensor("pred")?.to_f32()?, cx.host.tensor("label")?.to_f32()?);
        for (pred, label) in pred.chunks(1024).zip(label.chunks(512)) {
            let (background, ball) = pred.split_at(512);
            let found: Vec<bool> = background.iter().zip(ball).map(|(b, f)| f > b).collect();
            let both = found.iter().zip(label).filter(|(found, label)| **found && **label == 1.0).count();
            let sum = found.iter().filter(|found| **found).count() + label.iter().filter(|l| **l == 1.0).count();
            own.lock().unwrap().push(2.0 * both as f64 / sum as f64);
        }
        Ok(())
    };
    trainer.engine_mut().on(Event::ForwardCompleted, by_hand).unwrap();
    let own = measured.clone();
    let read = move |cx: &mut Context<'_>| {
        own.lock().unwrap().push(cx.state.fresh("train_dice").unwrap());
        Ok(())
    };
    trainer.engine_mut().on(Event::EpochCompleted, read).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = seen.clone();
    let note = move |cx: &mut Context<'_>| {
        own.lock().unwrap().push(cx.host.tensor("label")?.shape[1]);
        Ok(())
    };
    // As with an evaluator, handlers see processed tensors from `model_completed` on.
    trainer.engine_mut().on(Event::LossCompleted | Event::ModelCompleted, note).unwrap();
    trainer.run().unwrap();
    let all = all.lock().unwrap();
    let expected: Vec<f64> = all.chunks(8).map(|epoch| epoch.iter().sum::<f64>() / 8.0).collect();
    let measured = measured.lock().unwrap();
    assert_eq!((expected.len(), measured.len()), (3, 3));
    for (measured, expected) in measured.iter().zip(&expected) {
        assert!((measured - expected).abs() < 1e-6, "{measured} and {expected}");
    }
    assert!(expected[2] > expected[0] + 0.05, "something is learnt: {expected:?}");
    assert_eq!(seen.lock().unwrap()[..4], [1, 2, 1, 2]);
}

/// Runs to this iteration, writes a checkpoint there, and continues from it with other first weights.
fn in_two_parts(stop: u64, dir: &Path) -> Metrics {
    let mut first = measuring(network(1, 0.3), TRAINING, options(3)).build().unwrap();
    let ask = |cx: &mut Context<'_>| {
        cx.host.interrupt("enough");
        Ok(())
    };
    first.engine_mut().on(Event::IterationCompleted.once(stop), ask).unwrap();
    assert!(matches!(first.run().unwrap(), RunEnd::Interrupted(_)));
    first.save(dir, "interrupted", None).unwrap();
    let mut second = measuring(network(99, 0.3), TRAINING, options(3)).build().unwrap();
    second.resume(dir).unwrap();
    second.run().unwrap();
    second.engine().state().metrics.clone()
}

#[test]
fn a_resumed_epoch_has_the_batches_from_before() {
    let mut whole = measuring(network(1, 0.3), TRAINING, options(3)).build().unwrap();
    whole.run().unwrap();
    let expected = bits(&whole.engine().state().metrics);
    assert!(expected.contains_key("train_dice"));
    // In the first, a middle and the last epoch, after one and after three of four batches.
    for stop in [1, 6, 9, 11] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(bits(&in_two_parts(stop, dir.path())), expected, "stopped after {stop}");
    }
}

#[test]
fn an_epoch_is_not_resumed_without_the_batches_from_before() {
    let save = |stop: u64, dir: &Path| {
        let mut plain = SupervisedTrainer::builder(network(1, 0.0), loss(), optimizer(), TRAINING)
            .options(options(2))
            .build()
            .unwrap();
        let ask = |cx: &mut Context<'_>| {
            cx.host.interrupt("enough");
            Ok(())
        };
        plain.engine_mut().on(Event::IterationCompleted.once(stop), ask).unwrap();
        plain.run().unwrap();
        plain.save(dir, "interrupted", None).unwrap();
    };
    let dir = tempfile::tempdir().unwrap();
    save(2, dir.path());
    let mut measured = measuring(network(1, 0.0), TRAINING, options(2)).build().unwrap();
    let text = measured.resume(dir.path()).unwrap_err().to_string();
    assert!(text.contains("no rows of the training metric `train_dice` for the first 2 batches of epoch 1"), "{text}");
}

/// A rank's part of each batch of eight.
#[derive(Clone)]
struct Part {
    rank: usize,
    world: usize,
}

impl Loader for Part {
    fn batches(&self) -> Option<u64> {
        Some(4)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let part = self.clone();
        Box::new((skip..4).map(move |index| {
            let size = 8 / part.world;
            let first = index as usize * part.world + part.rank;
            let batch: Batch = Balls { cases: 1_000, batch: size }.make(pass, first as u64);
            Ok::<_, DataError>(batch)
        }))
    }
}

fn of_ranks(world: usize, stop: Option<u64>, dir: &Path) -> Vec<Metrics> {
    threads::run(world, |communicator| {
        let mut ranks = Ranks::new(Arc::new(communicator));
        ranks.deadline = Duration::from_secs(60);
        let part = Part { rank: ranks.rank(), world };
        let first = ranks.rank() == 0;
        let mut options = options(2);
        options.ranks = (world > 1).then_some(ranks);
        let mut trainer = measuring(per_item(), part, options).build().unwrap();
        if let Some(stop) = stop {
            let ask = move |cx: &mut Context<'_>| {
                cx.host.interrupt("enough");
                Ok(())
            };
            trainer.engine_mut().on(Event::IterationCompleted.once(stop), ask).unwrap();
        } else if std::fs::read_dir(dir).unwrap().next().is_some() {
            trainer.resume(dir).unwrap();
        }
        trainer.run().unwrap();
        if first && stop.is_some() {
            trainer.save(dir, "interrupted", None).unwrap();
        }
        trainer.engine().state().metrics.clone()
    })
}

#[test]
fn ranks_measure_the_batches_of_all() {
    let none = tempfile::tempdir().unwrap();
    let alone = of_ranks(1, None, none.path()).swap_remove(0);
    for world in [2, 4] {
        let all = of_ranks(world, None, none.path());
        for metrics in &all {
            assert_eq!(metrics, &all[0], "{world} ranks");
            for (name, value) in &alone {
                // A voxel on the edge may change its class by the rounding of a sum.
                assert!((metrics[name] - value).abs() < 2e-3, "{world} ranks, {name}: {} and {value}", metrics[name]);
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    of_ranks(2, Some(7), dir.path());
    // The checkpoint of the first rank has the batches of both.
    let resumed = of_ranks(2, None, dir.path());
    let whole = of_ranks(2, None, none.path());
    assert_eq!(resumed, whole);
}

#[test]
fn the_key_metric_may_be_one_of_training_batches() {
    let builder = || SupervisedTrainer::builder(network(0, 0.0), loss(), optimizer(), TRAINING).options(options(4));
    let with_post = || builder().post(Post::argmax(2), Post::onehot(2));
    let mut trainer = with_post().key_train_metric("train_dice", dice()).validation(evaluator()).build().unwrap();
    trainer.run().unwrap();
    let state = trainer.engine().state();
    assert_eq!((state.key_metric.as_deref(), state.better), (Some("train_dice"), Better::Higher));
    assert!(state.best_metric.is_some_and(|best| best >= state.metrics["train_dice"]));

    let named = |name: &str| with_post().metric("train_dice", dice()).metric(name, dice()).build().err();
    for name in ["train_dice", " ", "loss"] {
        assert!(matches!(named(name), Some(TrainerError::MetricName { .. })), "{name}");
    }
    let rates = || {
        let text = "name = 'ConfusionMatrixMetric'\nmetric_name = ['sensitivity', 'fall_out']";
        toml::from_str::<MetricConfig>(text).unwrap().build().unwrap()
    };
    let unclear = with_post().key_train_metric("rates", rates()).build();
    assert!(matches!(unclear, Err(TrainerError::Direction { metric }) if metric == "rates"));
    assert!(with_post().metric("rates", rates()).key_metric("rates", Better::Higher).build().is_ok());
}
